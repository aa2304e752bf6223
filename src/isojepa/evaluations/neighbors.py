r"""Probes without anything to fit: what the nearest training examples say.

k-NN as in DINO (Caron et al., 2021): of the k training examples with the largest cosine s_i to a query,
each votes for its own label with weight exp(s_i / temperature), temperature 0.07. A feature of length 0 has
cosine 0 with all.

Radius neighbours (Section 3.2 of LeJEPA): all training examples within a Euclidean distance vote alike,

    y(q) = mean of y_i over { i : ||z_i - q|| <= radius };

a query that has nobody so near is answered with the most common label, and their share is told.

Queries and training examples are compared block by block, so that no (n, n) matrix is ever held. Of training
examples that are equally near at the k-th place, any may be the one that counts.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import check_count, check_number
from isojepa.evaluations.scores import Score, examples, score_of
from isojepa.seeds import generator as make_generator

K = (20, 200)
TEMPERATURE = 0.07
_QUERIES, _KEYS = 512, 16_384  # rows of a block
_LOOKED_AT = 1_000  # training examples whose 20th neighbours give the radius


def neighbors_probe(
    x: Any,
    y: Any,
    test_x: Any,
    test_y: Any,
    *,
    k: Sequence[int] = K,
    temperature: float = TEMPERATURE,
    confidence: float = 0.95,
) -> tuple[Score, ...]:
    """Accuracy of weighted k-NN on cosines, for each k.

    Args:
        x, y: training features (n, dim) and labels (n,), whole numbers from 0 on.
        test_x, test_y: those that are scored.
        k: numbers of neighbours, n at most.
        temperature: of the weights.
        confidence: of the intervals.

    Raises:
        ValueError: features or labels are no such thing, k exceeds n, or the temperature is not positive.

    Example:
        >>> x = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
        >>> neighbors_probe(x, [0, 0, 1, 1], x, [0, 0, 1, 1], k=(3,))[0].accuracy
        1.0
    """
    data = examples(x, y, test_x, test_y)
    temperature = check_number("temperature", temperature, "be positive and finite", lambda v: v > 0)
    ks = [check_count("k", one) for one in k]
    if not ks or max(ks) > len(data.x):
        raise ValueError(f"k must be at most the {len(data.x)} training examples, got {list(k)}")
    keys, queries = directions(data.x), directions(data.test_x)
    labels = torch.from_numpy(data.y)
    predicted: dict[int, list[Tensor]] = {one: [] for one in ks}
    for part in queries.split(_QUERIES):
        cosines, places = _largest(part, keys, max(ks))
        # against the largest one: exp(1 / temperature) may be beyond float32
        votes, voters = ((cosines - cosines[:, :1]) / temperature).exp(), labels[places]
        for one in ks:
            ballot = torch.zeros(len(part), data.classes)
            predicted[one].append(ballot.scatter_add_(1, voters[:, :one], votes[:, :one]).argmax(1))
    return tuple(
        score_of(
            f"{one}-nn", torch.cat(predicted[one]).numpy(), data.test_y, data.classes, confidence=confidence
        )
        for one in ks
    )


def radius_probe(
    x: Any,
    y: Any,
    test_x: Any,
    test_y: Any,
    *,
    radius: float | None = None,
    confidence: float = 0.95,
) -> Score:
    """Accuracy of the vote of all training examples within a radius.

    Args:
        x, y: training features (n, dim) and labels (n,), whole numbers from 0 on.
        test_x, test_y: those that are scored.
        radius: Euclidean distance; by default the median distance of a training example to its 20th nearest
            other one, from a thousand of them.
        confidence: of the interval.

    Returns:
        The score; `chosen` has the radius, and as "alone" the share of queries that nobody is so near to.

    Raises:
        ValueError: features or labels are no such thing, or the radius is not positive.
    """
    data = examples(x, y, test_x, test_y)
    keys, queries, labels = torch.from_numpy(data.x), torch.from_numpy(data.test_x), torch.from_numpy(data.y)
    keys, queries = keys.float(), queries.float()
    middle = keys.mean(0)  # distances are differences of large numbers unless the origin is near
    keys, queries = keys - middle, queries - middle
    if radius is None:
        radius = usual_radius(keys)
    radius = check_number("radius", radius, "be finite and not negative", lambda v: v >= 0)
    common = int(torch.bincount(labels).argmax())
    predicted, alone = [], 0
    for part in queries.split(_QUERIES):
        ballot = torch.zeros(len(part), data.classes)
        for start, squares in _squared_distances(part, keys):
            near = (squares <= radius**2).float()
            block = torch.nn.functional.one_hot(labels[start : start + near.shape[1]], data.classes).float()
            ballot += near @ block
        empty = ballot.sum(1) == 0
        ballot[empty, common] = 1
        alone += int(empty.sum())
        predicted.append(ballot.argmax(1))
    chosen = {"radius": radius, "alone": alone / len(queries)}
    found = torch.cat(predicted).numpy()
    return score_of("radius", found, data.test_y, data.classes, chosen=chosen, confidence=confidence)


def usual_radius(keys: Tensor, k: int = 20) -> float:
    """Median distance of examples (n, dim) to their k-th nearest other one, from a thousand of them."""
    k = min(k, len(keys) - 1)
    order = torch.randperm(len(keys), generator=make_generator(0, "radius"))[:_LOOKED_AT]
    found = []
    for part in keys[order].split(_QUERIES):
        nearest: Tensor | None = None
        for _, squares in _squared_distances(part, keys):
            whole = squares if nearest is None else torch.cat((nearest, squares), 1)
            nearest = whole.topk(min(k + 1, whole.shape[1]), largest=False).values
        assert nearest is not None
        found.append(nearest[:, -1])  # the example itself is the nearest of all
    return float(torch.cat(found).median().sqrt())


def directions(x: np.ndarray) -> Tensor:
    """Rows (n, dim) divided by their lengths, float32; one of length 0 stays as it is."""
    rows = torch.from_numpy(x).float()
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    found: Tensor = rows / lengths.clamp_min(torch.finfo(torch.float32).tiny)
    return found


def _largest(queries: Tensor, keys: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest products with keys, in falling order, and where they are: (queries, k)."""
    values, places = torch.empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64)
    for start in range(0, len(keys), _KEYS):
        products = queries @ keys[start : start + _KEYS].T
        top, at = products.topk(min(k, products.shape[1]), dim=1)
        values, places = torch.cat((values, top), 1), torch.cat((places, at + start), 1)
        if values.shape[1] > k:
            values, kept = values.topk(k, dim=1)
            places = places.gather(1, kept)
    values, order = values.sort(dim=1, descending=True)
    return values, places.gather(1, order)


def _squared_distances(queries: Tensor, keys: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Blocks of squared distances (queries, some keys), with the number of the first key."""
    lengths = queries.square().sum(1, keepdim=True)
    for start in range(0, len(keys), _KEYS):
        block = keys[start : start + _KEYS]
        squares = torch.addmm(block.square().sum(1)[None], queries, block.T, alpha=-2).add_(lengths)
        yield start, squares.clamp_min_(0)  # rounding

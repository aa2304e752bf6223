r"""A map from pairs of which some are no pairs: mismatched rows are found by what they share, and dropped.

A share eps of the rows of the second encoder belongs to other states. In the coordinates of held-out
canonical variates (`canonical`) a true pair has correlated entries, a mismatched one independent ones; for
Gaussians of correlations r_j the logarithm of how much likelier the pair is as a true one is

    l = sum_j  - log(1 - r_j^2) / 2 - (r_j^2 (u_j^2 + v_j^2) - 2 r_j u_j v_j) / (2 (1 - r_j^2))

and the chance that it is one p = 1 / (1 + exp(-l) eps / (1 - eps)). Weights p and correlations are found in
turn, beginning with all pairs alike. eps does not come from p, which would feed on itself: pairs are
mismatched on purpose, and eps is twice the share of the given pairs that do worse than half of those (few
true ones do). Rows are judged by fits that did not see them, so that no pair vouches for itself.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isojepa.alignment.canonical import Variates, canonical_variates
from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.rows import as_rows, check_pairs
from isojepa.seeds import numpy_generator
from isojepa.validation import check_count, validate_types

_ROUNDS = 12
_STEADY = 1e-3  # mean change of the weights at which they are taken
_LARGEST = 0.9999  # correlation: the likelihood of a perfect one would have no end
_ROWS_PER_DIRECTION = 5
_PAIRINGS = 5  # at random, to see what mismatched pairs look like


@dataclass(frozen=True)
class RobustFit:
    """A map, and which pairs it is of.

    Attributes:
        map: fitted with the weights.
        weights: (n,) the chance that each pair is a true one; all 1 where no pair looks mismatched.
        mismatched: the estimated share of mismatched pairs, the mean of 1 - weights.
        rounds: of reweighting.
    """

    map: AlignmentMap
    weights: np.ndarray = field(repr=False)
    mismatched: float
    rounds: int

    @property
    def dropped(self) -> np.ndarray:
        """Numbers of the rows that are more likely mismatched than not."""
        return np.flatnonzero(self.weights < 0.5)


@validate_types
def fit_robust(
    first: Any,
    second: Any,
    map: AlignmentMap | None = None,
    ids: Any = None,
    rounds: int = _ROUNDS,
    seed: int = 0,
) -> RobustFit:
    """Fit a map on pairs some of which may be mismatched.

    Args:
        first, second: rows (n, p), (n, q) of the two encoders.
        map: what is fitted; ridge by default. A fitted copy is returned.
        ids: (n,) states.
        rounds: of reweighting at most.
        seed: draws folds and mismatched pairs.

    Raises:
        ValueError: rows do not match, are not finite, or too few.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(500, 4)); y = 2 * x + 0.1 * rng.normal(size=(500, 4))
        >>> y[:150] = y[rng.permutation(150)]
        >>> found = fit_robust(x, y)
        >>> bool((found.dropped < 150).all()), len(found.dropped) > 140
        (True, True)
    """
    check_count("rounds", rounds)
    x, y = (
        as_rows(name, rows)
        for name, rows in zip(("first", "second"), check_pairs(first, second), strict=True)
    )
    fitted = AlignmentMap() if map is None else AlignmentMap(**map.get_params())
    a, b = _leading(x, len(x) // _ROWS_PER_DIRECTION), _leading(y, len(x) // _ROWS_PER_DIRECTION)
    rng = numpy_generator(seed, "robust", "pairings")
    others = [rng.permutation(len(x)) for _ in range(_PAIRINGS)]
    weights, mismatched, change, done = np.ones(len(x)), 0.0, np.inf, 0
    while done < rounds and change >= _STEADY:
        done += 1
        variates = canonical_variates(a, b, ids, weights, seed=seed)
        evidence = _evidence(variates, variates.second)
        chance = np.concatenate([_evidence(variates, variates.second[other]) for other in others])
        mismatched = _mismatched(evidence, chance)
        odds = np.log(mismatched) - np.log1p(-mismatched) if 0 < mismatched < 1 else -np.inf
        new = 1 / (1 + np.exp(np.clip(odds - evidence, -700, 700))) if mismatched else np.ones(len(x))
        change, weights = float(np.abs(new - weights).mean()), new
    fitted.fit(first, second, weights if mismatched else None)
    return RobustFit(fitted, weights, float(1 - weights.mean()), done)


def _leading(rows: np.ndarray, most: int) -> np.ndarray:
    """Rows in their first principal directions, as many as there are rows for."""
    centered = rows - rows.mean(0)
    if rows.shape[1] <= most:
        return np.asarray(centered)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    return np.asarray(centered @ vectors[:, ::-1][:, : max(most, 1)])


def _evidence(variates: Variates, second: np.ndarray) -> np.ndarray:
    """l of each row, with the second's variates in a given order."""
    r = variates.correlations
    counted = r > 2 / np.sqrt(max(variates.weights.sum(), 1.0))  # others tell nothing but noise
    r = np.minimum(r[counted], _LARGEST)
    u, v = Variates(variates.first[:, counted], second[:, counted], variates.weights).standard()
    square = r**2
    quadratic = square * (u**2 + v**2) - 2 * r * u * v
    return np.asarray((-np.log1p(-square) / 2 - quadratic / (2 * (1 - square))).sum(1))


def _mismatched(evidence: np.ndarray, chance: np.ndarray) -> float:
    """The share of mismatched pairs; 0 where it is not told from none."""
    worse = float((evidence < np.median(chance)).mean())
    error = np.sqrt(max(worse, 1 / len(evidence)) / len(evidence))
    return min(2 * worse, 0.95) if worse > 3 * error else 0.0

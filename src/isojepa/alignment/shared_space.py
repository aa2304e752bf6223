r"""A space shared by n encoders of the same states: n maps in place of n (n - 1).

Rows X_i of encoder i are centered, and made Z_i = X_i A_i with

    rotation    A_i = I / s_i, s_i^2 the total variance:      encoders that are rotations of each other
    linear      A_i = ((1 - a) S_i + a tr(S_i) / d_i I)^(-1/2), S_i the covariance, a the shrinkage:
                encoders that are invertible linear maps of each other

Generalized Procrustes analysis finds Q_i (d_i, h) with orthonormal rows, h the largest width, that minimize

    loss = sum_i |Z_i Q_i - M|^2 / n,     M = mean_i Z_i Q_i.

Each Q_i in turn is set to U V^T of the singular value decomposition of sum_{j != i} Z_i^T Z_j Q_j, so that
the loss never rises (Gower 1975; ten Berge 1977). Of several starts the best is taken: the leading
eigenvectors of all products, each block made orthonormal (exact for rotations; MAXVAR generalized canonical
correlations for white rows, Kettenring 1971), and rotations to each of the first four embeddings. Then

    to the space     t = (x - mean) A_i Q_i          back     x = t Q_i^T A_i^+ + mean

and any cycle of maps through the space is the identity, on the directions that the encoders have in common.

`expected=True` shrinks each axis k to the expectation of the target given the source, by one common factor:
the covariance of t_a and t_b is l_ak l_bk, so t_bk is expected to be l_ak l_bk / var(t_ak) t_ak. That
predicts better where encoders share a direction in part; cycles are then no longer the identity.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from isojepa.alignment.closed_forms import GramSpectrum
from isojepa.alignment.pairs import EncoderRows, as_rows, constant, gather
from isojepa.io import parse_json
from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.validation import check_number, choose, short_repr, validate_types
from isojepa.version import __version__

KINDS = {
    "rotation": "encoders turned into one space",
    "linear": "encoders made white and turned into one space",
}
_LOADING_SWEEPS = 50
_MIN_RISE, _MAX_SWEEPS = 1e-12, 2000  # relative rise of the agreement below which sweeps end, and their limit
_COMPARED_SWEEPS, _START_ENCODERS = 10, 4  # sweeps after which starts are compared; encoders to start from


@dataclass(frozen=True)
class EncoderMap:
    """The maps of one encoder to the hub and back.

    Attributes:
        mean: (d,) of its rows.
        offset: (h,) where that is in the hub.
        to: (d, h).
        back: (h, d), its inverse or pseudo-inverse.
        loading: (h,) of the common factor along each axis.
        variance: (h,) along each axis.
        pairs: states it was fitted on.
    """

    mean: np.ndarray
    offset: np.ndarray
    to: np.ndarray
    back: np.ndarray
    loading: np.ndarray
    variance: np.ndarray
    pairs: int

    @property
    def exact(self) -> bool:
        """Whether going to the hub and back is the identity, and not a projection."""
        width = len(self.mean)
        return width <= self.to.shape[1] and bool(np.linalg.matrix_rank(self.to) == width)


class SharedSpace:
    """One space for several encoders.

    Args:
        kind: "rotation" or "linear".
        shrinkage: of the covariances of "linear", from 0 to 1; needed where pairs are fewer than columns.

    Attributes:
        spokes: maps by the name of the encoder.
        losses: of generalized Procrustes analysis, after each sweep; converged whether it stopped by itself.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(200, 3))
        >>> one, two, three = (z @ rng.normal(size=(3, 3)) + rng.normal(size=3) for _ in range(3))
        >>> hub = SharedSpace("linear").fit({"one": one, "two": two})
        >>> hub.add("three", three[:50], {"two": two[:50]}).names
        ['one', 'two', 'three']
        >>> bool(np.allclose(hub.translate("one", "three", one), three))
        True
    """

    @validate_types
    def __init__(self, kind: str = "rotation", *, shrinkage: float = 0.0) -> None:
        choose("kind", kind, KINDS)
        check_number("shrinkage", shrinkage, "lie from 0 to 1", lambda value: 0 <= value <= 1)
        if kind == "rotation" and shrinkage:
            raise ValueError(f"shrinkage goes with kind='linear', got {shrinkage} with kind='rotation'")
        self.kind, self.shrinkage = kind, float(shrinkage)
        self.spokes: dict[str, EncoderMap] = {}
        self.losses: list[float] = []
        self.converged = False

    def fit(self, encoders: Any, ids: Any = None, *, partial: bool = False) -> Self:
        """Fit all maps at once.

        Args:
            encoders: arrays (n, width) by name, or a list of them, whose names are then "0", "1", ...
            ids: of the states, if rows are not in one order: by name, or a list.
            partial: whether states that not all have are left out.

        Raises:
            ValueError: rows do not match, are not finite, equal, or too few.
        """
        matched = gather(encoders, ids, partial=partial)
        white = {name: _Whitening.of(name, rows, self) for name, rows in matched.rows.items()}
        rows = {name: white[name].apply(part) for name, part in matched.rows.items()}
        consensus = generalized_procrustes(list(rows.values()))
        turned = [part @ q for part, q in zip(rows.values(), consensus.rotations, strict=True)]
        loadings, variances = _loadings(turned)
        self.losses, self.converged = consensus.losses, consensus.converged
        self.spokes = {
            name: own.spoke(q, q.T, np.zeros(q.shape[1]), loading, variance, len(matched))
            for (name, own), q, loading, variance in zip(
                white.items(), consensus.rotations, loadings, variances, strict=True
            )
        }
        return self

    def add(
        self,
        name: str,
        rows: Any,
        partners: Mapping[str, Any],
        ids: Any = None,
        *,
        partner_ids: Mapping[str, Any] | None = None,
    ) -> Self:
        """Add one encoder; the maps of the others stay as they are, bit for bit.

        Args:
            name: of the new one.
            rows: (n, width) of it.
            partners: rows by name of one or several encoders that the hub has: of the same states in the
                same order, or matched by ids.
            ids: (n,) states of the new rows.
            partner_ids: states of the partners' rows, by name. Those without a partner are left out, as are
                those of a partner that the new one does not have.

        Raises:
            ValueError: the name is taken, a partner is unknown, rows do not match, or they are too few.
        """
        self._fitted()
        if not isinstance(name, str) or not name or name in self.spokes:
            raise ValueError(
                f"name must be a new one, the hub has {_list(self.spokes)}, got {short_repr(name)}"
            )
        if not isinstance(partners, Mapping) or not partners:
            raise ValueError(
                "partners must be rows by name of encoders that the hub has, got "
                f"{short_repr(type(partners).__name__) if not isinstance(partners, Mapping) else 'none'}"
            )
        for partner in partners:
            choose("partner", partner, self.spokes)
        new_rows, target, shared_rows = self._targets(name, rows, partners, ids, partner_ids)
        white = _Whitening.of(name, new_rows, self)
        given, offset = white.apply(new_rows), target.mean(0)
        size, unsize = self._sizes(shared_rows, len(new_rows))
        rotation = orthonormal(given.T @ (target - offset) @ unsize)
        turned = given @ rotation @ size
        above, below = np.zeros(self.width), np.zeros(self.width)
        for partner, (at, theirs) in shared_rows.items():
            along = self.spokes[partner].loading
            moved = theirs - theirs.mean(0)
            above += along * (turned[at] * moved).sum(0)
            below += along**2 * len(at)
        loading = np.divide(above, below, out=np.zeros(self.width), where=below > 0)
        both = rotation @ size, unsize @ rotation.T
        self.spokes[name] = white.spoke(*both, offset, loading, (turned**2).mean(0), len(new_rows))
        return self

    def to_hub(self, name: str, rows: Any) -> np.ndarray:
        """Rows (n, width) of an encoder in the hub, (n, hub's width)."""
        spoke = self._spoke(name)
        return np.asarray((self._rows("rows", rows, len(spoke.mean)) - spoke.mean) @ spoke.to + spoke.offset)

    def from_hub(self, name: str, rows: Any) -> np.ndarray:
        """Rows (n, hub's width) as an encoder would give them, (n, width)."""
        spoke = self._spoke(name)
        return np.asarray((self._rows("rows", rows, self.width) - spoke.offset) @ spoke.back + spoke.mean)

    def translate(self, source: str, target: str, rows: Any, *, expected: bool = False) -> np.ndarray:
        """Rows of one encoder as another would give them.

        Args:
            source, target: names.
            rows: (n, width of the source).
            expected: whether axes are shrunk to what is expected of the target.
        """
        first, second = self._spoke(source), self._spoke(target)
        hub = self.to_hub(source, rows)
        if expected:
            shrunk = first.loading * second.loading
            share = np.divide(shrunk, first.variance, out=np.zeros_like(shrunk), where=first.variance > 0)
            hub = (hub - first.offset) * share + second.offset
        return self.from_hub(target, hub)

    def matrix(self, source: str, target: str) -> np.ndarray:
        """W (target's width, source's width) between centered rows, through the hub."""
        return np.asarray((self._spoke(source).to @ self._spoke(target).back).T)

    @property
    def names(self) -> list[str]:
        """Of the encoders, in the order in which they came."""
        return list(self.spokes)

    @property
    def width(self) -> int:
        """Of the hub."""
        return int(next(iter(self._fitted().values())).to.shape[1])

    def save(self, path: str | Path) -> None:
        """Write all maps to a safetensors file."""

        self._fitted()
        save_hub(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "SharedSpace":
        """Read what `save` wrote.

        Raises:
            ValueError: the file is missing, damaged, or something else.
        """

        return load_hub(Path(path))

    def __repr__(self) -> str:
        return f"SharedSpace(kind={self.kind!r}, shrinkage={self.shrinkage:g}, encoders={self.names!r})"

    def _targets(
        self,
        name: str,
        rows: Any,
        partners: Mapping[str, Any],
        ids: Any,
        partner_ids: Mapping[str, Any] | None,
    ) -> tuple[np.ndarray, np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
        """New rows that have partners, where these are in the hub on average, and each partner's own part."""
        if (ids is None) != (partner_ids is None):
            raise ValueError("ids and partner_ids must be given together, got one of them")
        everything = as_rows("rows", rows)
        if partner_ids is not None and set(partner_ids) != set(partners):
            raise ValueError(f"partner_ids must be given of {_list(partners)}, got of {_list(partner_ids)}")
        total, count = np.zeros((len(everything), self.width)), np.zeros(len(everything))
        by_partner = {}
        for partner, theirs in partners.items():
            pair: EncoderRows
            if partner_ids is None:
                pair = gather({name: everything, partner: theirs})
                at = np.arange(len(everything))
            else:
                both = {name: np.arange(len(everything))[:, None], partner: theirs}
                pair = gather(both, {name: ids, partner: partner_ids[partner]}, partial=True)
                at = pair.rows[name][:, 0].astype(np.int64)
            there = self.to_hub(partner, pair.rows[partner])
            total[at] += there
            count[at] += 1
            by_partner[partner] = at, there
        covered = count > 0
        place = np.cumsum(covered) - 1
        moved = {partner: (place[at], there) for partner, (at, there) in by_partner.items()}
        return everything[covered], total[covered] / count[covered][:, None], moved

    def _sizes(
        self, found: dict[str, tuple[np.ndarray, np.ndarray]], rows: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """(h, h) from white rows to rows as spread in the hub as the partners' are, and its inverse.

        The states that an encoder is added by are spread otherwise than those that the hub was fitted on:
        more or less, or with "linear" in each direction. Means over partners are spread less than each; so
        of each state one partner is looked at.
        """
        one, whose = np.empty((rows, self.width)), np.full(rows, -1)
        for number, (at, theirs) in enumerate(found.values()):
            free = (whose[at] < 0) | (at % len(found) == number)
            one[at[free]], whose[at[free]] = theirs[free], number
        one = one - one.mean(0)
        shares = {name: float((whose == number).mean()) for number, name in enumerate(found)}
        axes = np.eye(self.width)
        if self.kind == "rotation" or self.shrinkage:
            usual = sum(share * float(self.spokes[name].variance.sum()) for name, share in shares.items())
            ratio = np.sqrt(float((one**2).sum()) / rows / usual)
            return axes * ratio, axes / ratio
        # directions that no partner has keep their size
        there = np.zeros_like(axes)
        for name, share in shares.items():
            there += share * (self.spokes[name].back @ self.spokes[name].to)
        spread, usual_spread = _roots(one.T @ one / rows), _roots(there)
        return spread[0] @ usual_spread[1], usual_spread[0] @ spread[1]

    def _fitted(self) -> dict[str, EncoderMap]:
        if not self.spokes:
            raise ValueError("the hub must be fitted first, got none")
        return self.spokes

    def _spoke(self, name: str) -> EncoderMap:
        return choose("encoder", name, self._fitted())

    @staticmethod
    def _rows(name: str, values: Any, width: int) -> np.ndarray:
        rows = as_rows(name, values)
        if rows.shape[1] != width:
            raise ValueError(f"{name} must have {width} columns, got {rows.shape[1]}")
        return rows


@dataclass(frozen=True)
class _Whitening:
    """What is done to the rows of one encoder before they are turned: (x - mean) to, and back."""

    mean: np.ndarray
    to: np.ndarray
    back: np.ndarray

    @classmethod
    def of(cls, name: str, rows: np.ndarray, hub: SharedSpace) -> "_Whitening":
        mean, width = rows.mean(0), rows.shape[1]
        label = short_repr(name)
        if constant(rows.std(0), mean).all():
            raise ValueError(f"rows of {label} must vary, got equal ones: the encoder has collapsed")
        centered = rows - mean
        if hub.kind == "rotation":
            size = float(np.sqrt((centered**2).sum() / len(rows)))
            return cls(mean, np.eye(width) / size, np.eye(width) * size)
        if not hub.shrinkage and len(rows) <= width:
            raise ValueError(
                f"kind 'linear' needs more pairs than {label} has columns, {width}, got {len(rows)}: bring "
                "more, or give a shrinkage, such as 0.1"
            )
        covariance = centered.T @ centered / len(rows)
        shrunk = hub.shrinkage * float(np.trace(covariance)) / width * np.eye(width)
        spectrum = GramSpectrum.of((1 - hub.shrinkage) * covariance + shrunk)
        root = np.sqrt(spectrum.values)
        return cls(mean, spectrum.vectors / root, (spectrum.vectors * root).T)

    def apply(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray((rows - self.mean) @ self.to)

    def spoke(self, there: np.ndarray, back: np.ndarray, offset: np.ndarray, *rest: Any) -> EncoderMap:
        return EncoderMap(self.mean, offset, self.to @ there, back @ self.back, *rest)


def _roots(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The symmetric root and its inverse, which leave alone what does not vary."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root = np.sqrt(np.where(values > 1e-9 * values[-1], values, 1.0))
    return np.asarray((vectors * root) @ vectors.T), np.asarray((vectors / root) @ vectors.T)


def _loadings(turned: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Of one common factor along each axis, (m, h), fitted to products of two encoders; and the variances."""
    variance = np.array([(part**2).mean(0) for part in turned])
    count = len(turned)
    products = np.zeros((count, count, turned[0].shape[1]))
    for i in range(count):
        for j in range(i):
            products[i, j] = products[j, i] = (turned[i] * turned[j]).mean(0)
    # what one factor could not have, axes that do not go together on average, has none
    together = products.sum((0, 1)) / (count * (count - 1))
    loading = np.sqrt(np.maximum(together, 0.0)) * np.ones((count, 1))
    for _ in range(_LOADING_SWEEPS):
        for i in range(count):
            others = np.arange(count) != i
            above = (products[i, others] * loading[others]).sum(0)
            below = (loading[others] ** 2).sum(0)
            loading[i] = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return loading, variance


def _list(names: Any) -> str:
    return ", ".join(short_repr(name) for name in names) or "none"


@dataclass(frozen=True)
class ProcrustesConsensus:
    """Rotations into one space, whose axes are the principal ones of M.

    Attributes:
        rotations: (d_i, h) of each.
        losses: after each sweep, the beginning's first.
        converged: whether it stopped by itself.
    """

    rotations: list[np.ndarray]
    losses: list[float]
    converged: bool


def generalized_procrustes(rows: Sequence[np.ndarray]) -> ProcrustesConsensus:
    """Generalised Procrustes analysis of centered rows (n, d_i) in float64.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(50, 3)) * [3, 2, 1]
        >>> turned = [z @ np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(4)]
        >>> consensus = generalized_procrustes([part - part.mean(0) for part in turned])
        >>> consensus.converged, abs(consensus.losses[-1]) < 1e-9
        (True, True)
    """
    widths = [part.shape[1] for part in rows]
    wide = torch.from_numpy(np.concatenate(rows, axis=1))
    products = (wide.T @ wide).numpy() / len(rows[0])
    work = Sweeps(products, widths)
    consensus = []
    for begin in work.beginnings():
        ends = [work.loss(begin)]
        turned = begin
        for _ in range(_COMPARED_SWEEPS):
            turned = work.sweep(turned)
            ends.append(work.loss(turned))
        consensus.append((turned, ends))
    best, losses = min(consensus, key=lambda pair: pair[1][-1])
    converged = False
    for _ in range(_MAX_SWEEPS):
        best = work.sweep(best)
        losses.append(work.loss(best))
        if losses[-2] - losses[-1] <= _MIN_RISE * work.size:
            converged = True
            break
    return ProcrustesConsensus(work.on_axes(best), losses, converged)


class Sweeps:
    """What every sweep over the embeddings needs.

    Args:
        products: (sum d_i, sum d_i) of all columns, over the number of rows.
        widths: d_i.
    """

    def __init__(self, products: np.ndarray, widths: Sequence[int]) -> None:
        ends = np.cumsum([0, *widths])
        self.products, self.width = products, max(widths)
        self.places = [slice(start, end) for start, end in pairwise(ends)]
        self.size = float(np.trace(products))

    def sweep(self, rotations: np.ndarray) -> np.ndarray:
        """Each in turn the best for the others; stacked, (sum d_i, h)."""
        turned = rotations.copy()
        for place in self.places:
            theirs = self.products[place] @ turned - self.products[place, place] @ turned[place]
            turned[place] = orthonormal(theirs)
        return turned

    def loss(self, rotations: np.ndarray) -> float:
        """sum_i |Z_i Q_i - M|^2 / n."""
        common = float((rotations * (self.products @ rotations)).sum()) / len(self.places)
        return self.size - common

    def beginnings(self) -> list[np.ndarray]:
        """Stacked rotations to start from."""
        _, vectors = torch.linalg.eigh(torch.from_numpy(self.products))
        leading = vectors.numpy()[:, ::-1][:, : self.width]
        starts = [np.concatenate([orthonormal(leading[place]) for place in self.places])]
        for center in self.places[:_START_ENCODERS]:
            one = np.eye(center.stop - center.start, self.width)
            starts.append(
                np.concatenate(
                    [
                        one if place == center else orthonormal(self.products[place, center] @ one)
                        for place in self.places
                    ]
                )
            )
        return starts

    def on_axes(self, rotations: np.ndarray) -> list[np.ndarray]:
        """The same in the principal axes of M, which turns all alike; the largest entries are positive."""
        common = rotations.T @ self.products @ rotations
        _, axes = np.linalg.eigh((common + common.T) / 2)
        turned = rotations @ axes[:, ::-1]
        largest = turned[np.abs(turned).argmax(0), np.arange(self.width)]
        turned = turned * np.where(largest < 0, -1.0, 1.0)
        return [turned[place] for place in self.places]


def orthonormal(matrix: np.ndarray) -> np.ndarray:
    """The nearest matrix with orthonormal rows, or columns if there are more rows."""
    u, _, vt = torch.linalg.svd(torch.from_numpy(np.ascontiguousarray(matrix)), full_matrices=False)
    return np.asarray((u @ vt).numpy())


_NOTE = "isojepa-hub"
_TENSORS = ("mean", "offset", "to", "back", "loading", "variance")


def save_hub(hub: "SharedSpace", path: Path) -> None:
    """Write a fitted hub; nothing is lost."""
    tensors = {
        f"{number}.{name}": torch.as_tensor(getattr(spoke, name), dtype=torch.float64)
        for number, spoke in enumerate(hub.spokes.values())
        for name in _TENSORS
    }
    notes = {
        "version": __version__,
        "kind": hub.kind,
        "shrinkage": hub.shrinkage,
        "losses": hub.losses,
        "converged": hub.converged,
        "encoders": [{"name": name, "pairs": spoke.pairs} for name, spoke in hub.spokes.items()],
    }
    save_tensors(path, tensors, {_NOTE: json.dumps(notes, allow_nan=False)})


def load_hub(path: Path) -> "SharedSpace":
    """Read a hub, looking at all of it first.

    Raises:
        ValueError: the file is missing, damaged, or no hub.
    """

    tensors, header = load_tensors(path)
    if _NOTE not in header:
        raise ValueError(f"{path} must be a hub that isojepa saved, got another safetensors file")
    try:
        notes = parse_json(header[_NOTE].encode())
        hub = SharedSpace(notes["kind"], shrinkage=notes["shrinkage"])
        hub.losses, hub.converged = [float(loss) for loss in notes["losses"]], bool(notes["converged"])
        encoders = [(str(one["name"]), int(one["pairs"])) for one in notes["encoders"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} has notes that cannot be read: {error}") from error
    expected_names = {f"{number}.{name}" for number in range(len(encoders)) for name in _TENSORS}
    if set(tensors) != expected_names or len({name for name, _ in encoders}) != len(encoders) or not encoders:
        raise ValueError(f"{path} is damaged: its tensors are not those of its encoders")
    hub_width = tensors["0.offset"].numel()
    for number, (name, pairs) in enumerate(encoders):
        parts = {part: tensors[f"{number}.{part}"] for part in _TENSORS}
        width = parts["mean"].numel()
        shapes = {"mean": (width,), "to": (width, hub_width), "back": (hub_width, width)}
        for part, tensor in parts.items():
            fits = tuple(tensor.shape) == shapes.get(part, (hub_width,)) and tensor.is_floating_point()
            if not fits or not bool(tensor.isfinite().all()):
                raise ValueError(
                    f"{path} is damaged: {part} of encoder {number} does not fit, or is not finite"
                )
        arrays = {part: tensor.double().numpy().copy() for part, tensor in parts.items()}
        hub.spokes[name] = EncoderMap(**arrays, pairs=pairs)
    return hub

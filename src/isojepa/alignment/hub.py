r"""A hub: one space that n encoders of the same states speak through, by n maps and not n (n - 1).

Rows X_i of encoder i are centered, and made Z_i = X_i A_i with

    rotation    A_i = I / s_i, s_i^2 the total variance:      encoders that are rotations of each other
    linear      A_i = ((1 - a) S_i + a tr(S_i) / d_i I)^(-1/2), S_i the covariance, a the shrinkage:
                encoders that are invertible linear maps of each other; 1 would be a rotation

and turned into one space by generalised Procrustes analysis (`consensus`):

    to the hub     t = (x - mean) A_i Q_i          back     x = t Q_i^T A_i^+ + mean

The hub is as wide as the widest encoder, so that back is the inverse of to, and going round any cycle through
the hub is the identity: exactly for an encoder whose directions all vary and fit, on the span of those that
do for others. White rows of two encoders in the hub are their canonical variates.

A translation of that kind takes what two encoders share in part for shared. `expected=True` shrinks each axis
of the hub to what is expected of the target given the source, by one factor for each axis: the covariance of
t_a and t_b along axis k is l_ak l_bk, and t_bk is expected to be l_ak l_bk / var(t_ak) t_ak. That predicts
better, and no longer goes round to the identity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from isojepa.alignment.consensus import find_consensus, orthonormal
from isojepa.alignment.fits import GramSpectrum
from isojepa.alignment.gathering import Gathered, gather
from isojepa.alignment.rows import as_rows, constant
from isojepa.validation import check_number, choose, short_repr, validate_types

KINDS = {
    "rotation": "encoders turned into one space",
    "linear": "encoders made white and turned into one space",
}
_SWEEPS = 50  # of the loadings


@dataclass(frozen=True)
class Spoke:
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


class Hub:
    """One space for several encoders.

    Args:
        kind: "rotation" or "linear".
        shrinkage: of the covariances of "linear", from 0 to 1; needed where pairs are fewer than columns.

    Attributes:
        spokes: maps by the name of the encoder.
        losses: of generalised Procrustes analysis, after each sweep; converged whether it stopped by itself.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(200, 3))
        >>> one, two, three = (z @ rng.normal(size=(3, 3)) + rng.normal(size=3) for _ in range(3))
        >>> hub = Hub("linear").fit({"one": one, "two": two})
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
        self.spokes: dict[str, Spoke] = {}
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
        found = gather(encoders, ids, partial=partial)
        white = {name: _Whitening.of(name, rows, self) for name, rows in found.rows.items()}
        rows = {name: white[name].apply(part) for name, part in found.rows.items()}
        consensus = find_consensus(list(rows.values()))
        turned = [part @ q for part, q in zip(rows.values(), consensus.rotations, strict=True)]
        loadings, variances = _loadings(turned)
        self.losses, self.converged = consensus.losses, consensus.converged
        self.spokes = {
            name: own.spoke(q, q.T, np.zeros(q.shape[1]), loading, variance, len(found))
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
        own, target, found = self._targets(name, rows, partners, ids, partner_ids)
        white = _Whitening.of(name, own, self)
        given, offset = white.apply(own), target.mean(0)
        size, unsize = self._sizes(found, len(own))
        rotation = orthonormal(given.T @ (target - offset) @ unsize)
        turned = given @ rotation @ size
        above, below = np.zeros(self.width), np.zeros(self.width)
        for partner, (at, theirs) in found.items():
            along = self.spokes[partner].loading
            moved = theirs - theirs.mean(0)
            above += along * (turned[at] * moved).sum(0)
            below += along**2 * len(at)
        loading = np.divide(above, below, out=np.zeros(self.width), where=below > 0)
        both = rotation @ size, unsize @ rotation.T
        self.spokes[name] = white.spoke(*both, offset, loading, (turned**2).mean(0), len(own))
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
        from isojepa.alignment.hub_files import save_hub

        self._fitted()
        save_hub(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "Hub":
        """Read what `save` wrote.

        Raises:
            ValueError: the file is missing, damaged, or something else.
        """
        from isojepa.alignment.hub_files import load_hub

        return load_hub(Path(path))

    def __repr__(self) -> str:
        return f"Hub(kind={self.kind!r}, shrinkage={self.shrinkage:g}, encoders={self.names!r})"

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
        found = {}
        for partner, theirs in partners.items():
            pair: Gathered
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
            found[partner] = at, there
        kept = count > 0
        place = np.cumsum(kept) - 1
        moved = {partner: (place[at], there) for partner, (at, there) in found.items()}
        return everything[kept], total[kept] / count[kept][:, None], moved

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

    def _fitted(self) -> dict[str, Spoke]:
        if not self.spokes:
            raise ValueError("the hub must be fitted first, got none")
        return self.spokes

    def _spoke(self, name: str) -> Spoke:
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
    def of(cls, name: str, rows: np.ndarray, hub: Hub) -> "_Whitening":
        mean, width = rows.mean(0), rows.shape[1]
        told = short_repr(name)
        if constant(rows.std(0), mean).all():
            raise ValueError(f"rows of {told} must vary, got equal ones: the encoder has collapsed")
        centered = rows - mean
        if hub.kind == "rotation":
            size = float(np.sqrt((centered**2).sum() / len(rows)))
            return cls(mean, np.eye(width) / size, np.eye(width) * size)
        if not hub.shrinkage and len(rows) <= width:
            raise ValueError(
                f"kind 'linear' needs more pairs than {told} has columns, {width}, got {len(rows)}: bring "
                "more, or give a shrinkage, such as 0.1"
            )
        covariance = centered.T @ centered / len(rows)
        shrunk = hub.shrinkage * float(np.trace(covariance)) / width * np.eye(width)
        spectrum = GramSpectrum.of((1 - hub.shrinkage) * covariance + shrunk)
        root = np.sqrt(spectrum.values)
        return cls(mean, spectrum.vectors / root, (spectrum.vectors * root).T)

    def apply(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray((rows - self.mean) @ self.to)

    def spoke(self, there: np.ndarray, back: np.ndarray, offset: np.ndarray, *rest: Any) -> Spoke:
        return Spoke(self.mean, offset, self.to @ there, back @ self.back, *rest)


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
    for _ in range(_SWEEPS):
        for i in range(count):
            others = np.arange(count) != i
            above = (products[i, others] * loading[others]).sum(0)
            below = (loading[others] ** 2).sum(0)
            loading[i] = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return loading, variance


def _list(names: Any) -> str:
    return ", ".join(short_repr(name) for name in names) or "none"

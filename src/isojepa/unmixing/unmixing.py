"""Unmixing: from an embedding that is a rotation to its axes, those that the data tell apart, one by one.

A white embedding of independent latents is Q phi(z). Q is found by what tells latents apart: laws that are
not normal (`shapes`), and rates that differ (`rotations`). Axes that neither tells apart stay a block, any
rotation of which is as good. The verbs are scikit-learn's, which is not needed.
"""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor

from isojepa.certificates.embeddings import real_array
from isojepa.seeds import numpy_generator
from isojepa.unmixing.axes import Axis, Cause
from isojepa.unmixing.cues import BLIND, cue_of, few_rows, order_of, told_of
from isojepa.unmixing.inputs import read_rows
from isojepa.unmixing.naming import Naming, find_halves, name_axes, turned
from isojepa.unmixing.rotations import (
    Pass,
    Rotation,
    mean_rotation,
    pass_over,
    refine_rotation,
    squares_go_together,
)
from isojepa.unmixing.shapes import Shapes
from isojepa.unmixing.warps import Warp, dewarp
from isojepa.unmixing.whitening import (
    Sample,
    Whitening,
    pass_over_all,
    passes_over_halves,
    take_sample,
    wanted_rows,
    whiten,
)
from isojepa.validation import Parameters, check_count, check_number, validate_type, validate_types

TOLERANCE = 0.01
_PASSES = 4  # over all rows, where they are more than are searched

Progress = Callable[[int, int, str], None]


class NotFitted(ValueError, AttributeError):
    """Nothing has been unmixed yet."""


class Unmixing(Parameters):
    """The axes of an embedding, as far as data tell them apart.

    Args:
        dim: directions of the embedding that are unmixed: the slowest, which pairs share most, or without
            pairs the leading principal ones; None for all. For an embedding of more dimensions than latents.
        tolerance: nonlinear energy that the encoder may have left, see `isojepa.unmixing.naming`: what is as
            near to a Gaussian world of one rate as that has no named axes.
        straighten: whether the warp of every named axis is undone too (`isojepa.unmixing.dewarp`).
        drop: leave out rows with NaN or Inf instead of refusing them.
        seed: of the starts.

    Attributes:
        axes_: what is known of each axis, named ones first.
        matrix_: (axes, dim) that turns centered rows into axes of variance 1.
        inverse_: (dim, axes) back.
        mean_: (dim,) of the rows.
        rows_: how many there were.

    Example:
        >>> from isojepa.seeds import numpy_generator
        >>> z = numpy_generator(0, "data").uniform(-1, 1, (5000, 2))
        >>> h = z @ np.array([[0.8, 0.6], [-0.6, 0.8]])
        >>> found = Unmixing(straighten=False).fit(h)
        >>> correlations = abs(np.corrcoef(found.transform(h).T, z.T)[:2, 2:])  # axes by latents
        >>> found.named_, bool(correlations.max(1).min() > 0.99)
        (2, True)
    """

    axes_: tuple[Axis, ...]
    matrix_: np.ndarray
    inverse_: np.ndarray
    mean_: np.ndarray
    rows_: int
    n_features_in_: int

    def __init__(
        self,
        *,
        dim: int | None = None,
        tolerance: float = TOLERANCE,
        straighten: bool = True,
        drop: bool = False,
        seed: int = 0,
    ) -> None:
        self.dim = dim
        self.tolerance = tolerance
        self.straighten = straighten
        self.drop = drop
        self.seed = seed
        self._check()

    def fit(
        self, h: Any = None, h_next: Any = None, paths: Any = None, progress: Progress | None = None
    ) -> Self:
        """Find the axes.

        Args:
            h: (n, dim) embeddings; arrays, memory maps, tensors or HDF5 datasets, read in pieces.
            h_next: (n, dim) of the second view of each pair: without them nothing is known of rates.
            paths: in place of both, (steps, paths, dim) or a list of paths (steps_i, dim).
            progress: called with what is done, of how much, and its name.

        Raises:
            ValueError: rows are not finite, too few, without variance in a direction, or do not match.
        """
        self._check()
        tell = progress or (lambda done, total, name: None)
        embeddings, later = read_rows(h, h_next, paths, self.drop)
        tell(0, 4, "covariance")
        whitening = whiten(embeddings, self.dim, later)
        sample = take_sample(embeddings, whitening)
        tell(1, 4, "axes")
        rows = len(sample.first)
        # what memory does not hold, and a search needs, is read again for each of its steps
        short = rows < min(whitening.rows, wanted_rows(len(whitening.matrix)))
        passes = passes_over_halves(embeddings, whitening, sample) if short else []
        passes = _counted(passes, lambda count: tell(1, 4, f"axes, pass {count}"))
        halves = find_halves(sample, numpy_generator(self.seed, "unmix"), self.tolerance, passes)
        start, shaped = mean_rotation(halves, rows)
        together = squares_go_together(sample.first, start)
        views = [sample.first]
        if sample.second is not None and whitening.is_slow:
            views.append(sample.second)
        rotation = refine_rotation(
            start,
            pass_over(*views),
            views,
            whitening.lagged,
            rows,
            shaped=shaped,
            slopes=together,
        )
        tell(2, 4, "all rows")
        if rows < whitening.rows:
            every = pass_over_all(embeddings, whitening, len(views))
            (all_rows,) = _counted([every], lambda count: tell(2, 4, f"all rows, pass {count}"))
            rotation = refine_rotation(
                rotation.matrix,
                all_rows,
                views,
                whitening.lagged,
                whitening.rows,
                _PASSES,
                shaped=shaped,
                slopes=together,
            )
        tell(3, 4, "names")
        naming = name_axes(sample, halves, rotation, self.tolerance)
        self._keep(whitening, sample, rotation, naming)
        tell(4, 4, "names")
        return self

    def transform(self, h: Any) -> np.ndarray:
        """Rows (n, dim) along the axes, (n, axes), each of variance 1."""
        return np.asarray((self._rows("h", h, self.mean_) - self.mean_) @ self.matrix_.T)

    def inverse_transform(self, y: Any) -> np.ndarray:
        """Rows (n, axes) as embeddings again; what `dim` left out stays at its mean."""
        return np.asarray(self._rows("y", y, self.matrix_[:, 0]) @ self.inverse_.T + self.mean_)

    def fit_transform(self, h: Any, h_next: Any = None) -> np.ndarray:
        """Fit, and turn the same rows."""
        return self.fit(h, h_next).transform(h)

    def latents(self, h: Any) -> np.ndarray:
        """Rows (n, dim) as latents: named axes straightened where they can be, the others as they are."""
        return self.straightened(self.transform(h))

    def straightened(self, y: np.ndarray) -> np.ndarray:
        """Axes (n, axes), those with a warp straightened."""
        found = np.array(y, dtype=np.float64)
        for axis in self.axes_:
            if axis.warp is not None:
                found[:, axis.number] = axis.warp(found[:, axis.number])
        return found

    @property
    def named_(self) -> int:
        """How many axes are told apart from all others."""
        return sum(axis.named for axis in self.axes_)

    @property
    def blocks_(self) -> tuple[tuple[int, ...], ...]:
        """The axes that are not, in groups any rotation of which is as good."""
        return tuple(dict.fromkeys(axis.block for axis in self.axes_ if not axis.named))

    @property
    def verdict_(self) -> str:
        """What was found, in a sentence or two."""
        count = len(self.axes_)
        if count == 1:
            return "One dimension: there is nothing to tell apart."
        if self.named_ == count:
            return f"All {count} axes are told apart, each up to its sign."
        if not self.named_:
            first = self.axes_[0]
            blind = BLIND if first.cause is Cause.ALIKE else ""
            return f"No axis can be named: {first.reason}.{few_rows(self.rows_, count) or blind}"
        return f"{self.named_} of {count} axes are told apart, each up to its sign; {told_of(self.blocks_)}."

    def to_dict(self) -> dict[str, Any]:
        """What was found, as plain values."""
        return {
            "verdict": self.verdict_,
            "rows": self.rows_,
            "named": self.named_,
            "blocks": [list(block) for block in self.blocks_],
            "axes": [axis.to_dict() for axis in self.axes_],
        }

    def __str__(self) -> str:
        if "axes_" not in vars(self):
            return repr(self)
        lines = [f"Unmixing of {self.rows_} rows in {len(self.axes_)} dimensions", f"  {self.verdict_}", ""]
        lines += [f"  axis {axis.number:<4} {axis.sentence}" for axis in self.axes_]
        return "\n".join(lines)

    @validate_types
    def save(self, path: str | Path) -> None:
        """Write the axes to a safetensors file."""
        from isojepa.unmixing.unmixing_files import save_unmixing

        save_unmixing(self, Path(path))

    @classmethod
    @validate_types
    def load(cls, path: str | Path) -> "Unmixing":
        """Read what `save` wrote.

        Raises:
            ValueError: the file is missing, damaged, or something else.
        """
        from isojepa.unmixing.unmixing_files import load_unmixing

        return load_unmixing(Path(path))

    def __sklearn_is_fitted__(self) -> bool:
        return "axes_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(),
        )

    def __getattr__(self, name: str) -> Any:
        # only what is not there yet comes here, and properties that needed it
        if "axes_" not in vars(self) and (name in Unmixing.__annotations__ or hasattr(Unmixing, name)):
            raise NotFitted(f"the axes must be found first, by fit, got none when asked for {name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _check(self) -> None:
        if self.dim is not None:
            check_count("dim", self.dim)
        check_number("tolerance", self.tolerance, "lie in [0, 1)", lambda value: 0 <= value < 1)
        for name, kind in (("straighten", bool), ("drop", bool), ("seed", int)):
            validate_type(name, getattr(self, name), kind)

    def _rows(self, name: str, rows: Any, like: np.ndarray) -> np.ndarray:
        found = real_array(name, rows, "samples, dim")
        if found.shape[1] != len(like):
            raise ValueError(
                f"{name} must have {len(like)} columns as what was unmixed, got {found.shape[1]}"
            )
        return found

    def _keep(self, whitening: Whitening, sample: Sample, rotation: Rotation, naming: Naming) -> None:
        cues = [cue_of(naming, axis, self.tolerance) for axis in range(len(naming.together))]
        order = order_of(naming, np.array([cue.name != "none" for cue in cues]))
        matrix, inverse = rotation.matrix @ whitening.matrix, whitening.inverse @ rotation.matrix.T
        sign = np.sign(matrix[np.arange(len(matrix)), np.abs(matrix).argmax(1)])
        self.matrix_ = (matrix * sign[:, None])[order]
        self.inverse_ = (inverse * sign)[:, order]
        self.mean_, self.rows_, self.n_features_in_ = whitening.mean, whitening.rows, len(whitening.mean)
        place = np.argsort(order)
        rows = whitening.rows / naming.excess
        # an angle errs by its own equation, and by half of a covariance that is 0 in the world
        square = 1 / np.maximum(rotation.information * rows, 1e-12) + 1 / (4 * rows)
        axes = []
        for number, old in enumerate(order.tolist()):
            cue = cues[old]
            named, cause, reason, warp = cue.name != "none", cue.cause, cue.reason, None
            if named and self.straighten:
                warp, reason = _straighten(sample, rotation.matrix[old] * sign[old])
                cause = Cause.BENT if warp is None else None
            axes.append(
                Axis(
                    number=number,
                    cue=cue.name,
                    block=tuple(sorted(place[naming.together[old]].tolist())),
                    error=float(np.sqrt(np.delete(square[old], old).sum())) if named else float("inf"),
                    stability=float(naming.stability[old]),
                    departure=float(naming.departure[old]),
                    correlation=None if naming.correlation is None else float(naming.correlation[old]),
                    dependence=float(naming.dependence[old]),
                    partner=int(place[naming.partner[old]]),
                    dependent=bool(naming.dependent[old]),
                    warp=warp,
                    reason=reason,
                    world_departure=None if np.isnan(naming.world[old]) else float(naming.world[old]),
                    cause=cause,
                )
            )
        self.axes_ = tuple(axes)


@validate_types
def unmix(
    h: Any = None,
    h_next: Any = None,
    paths: Any = None,
    *,
    dim: int | None = None,
    tolerance: float = TOLERANCE,
    straighten: bool = True,
    drop: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Unmixing:
    """Find the axes of an embedding, and straighten those that have a name.

    Args:
        h: (n, dim) embeddings.
        h_next: (n, dim) of the second view of each pair.
        paths: in place of both, (steps, paths, dim) or a list of paths (steps_i, dim).
        dim: see `Unmixing`, as are tolerance, straighten, drop and seed.
        tolerance: nonlinear energy that the encoder may have left.
        straighten: whether the warp of every named axis is undone too.
        drop: leave out rows with NaN or Inf instead of refusing them.
        seed: of the starts.
        progress: called with what is done, of how much, and its name.

    Raises:
        ValueError: rows are not finite, too few, without variance in a direction, or do not match.
    """
    asked = Unmixing(dim=dim, tolerance=tolerance, straighten=straighten, drop=drop, seed=seed)
    return asked.fit(h, h_next, paths, progress)


def _counted(passes: Sequence[Pass], tell: Callable[[int], None]) -> list[Pass]:
    """Passes that tell when they begin, and how many began so far: over many rows each takes long."""
    count = itertools.count(1)

    def told(one: Pass) -> Pass:
        def begin(matrix: np.ndarray, scores: Tensor) -> Shapes:
            tell(next(count))
            return one(matrix, scores)

        return begin

    return [told(one) for one in passes]


def _straighten(sample: Sample, direction: np.ndarray) -> tuple[Warp | None, str]:
    """The warp of an axis, or why there is none."""
    first = turned(sample.first, direction[None]).double().numpy()[:, 0]
    second = None if sample.second is None else turned(sample.second, direction[None]).double().numpy()[:, 0]
    try:
        return dewarp(first, second), ""
    except ValueError as error:
        return None, f"not straightened: {error}"

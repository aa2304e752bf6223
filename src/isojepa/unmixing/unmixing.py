"""Unmixing: from an embedding that is a rotation of independent latents to its components.

A white embedding of independent latents is Q phi(z). Q is found by what tells latents apart: distributions
that are not normal, and rates of decorrelation that differ (`rotations`). Components that neither tells
apart stay a block, any rotation of which is as good (`identification`). The warp of each identified
component is inverted (`monotone`). The verbs are scikit-learn's, which is not needed.

Second moments stream over all rows. Everything else uses a sample of blocks of consecutive rows, all of
them up to 200,000 (or 8 dim^2, as far as 2^27 numbers reach); `sample_rows_` is its size.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from isojepa.arrays import real_array
from isojepa.io import MAX_TEXT_BYTES, parse_json, size_of
from isojepa.seeds import numpy_generator
from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.unmixing.identification import (
    BLIND_SPOT,
    Cause,
    Evidence,
    few_rows,
    find_halves,
    measure_evidence,
    search_views,
)
from isojepa.unmixing.monotone import MonotoneMap, invert_warp
from isojepa.unmixing.rotations import (
    Rotation,
    Sample,
    Whitening,
    mean_rotation,
    read_rows,
    refine_rotation,
    rotate,
    squares_correlate,
    take_sample,
    whiten,
)
from isojepa.validation import (
    Parameters,
    check_count,
    check_number,
    choose,
    validate_type,
    validate_types,
)
from isojepa.version import __version__

TOLERANCE = 0.01
IDENTIFIED_BY = {
    "shape": "by the shape of its distribution",
    "rate": "by its rate",
    "shape or rate": "by the shape of its distribution and by its rate, each alone",
    "shape and rate": "from some components by the shape of its distribution, from others by its rate",
    "alone": "as the only one there is",
    "none": "by nothing",
}
_NOTE = "isojepa-unmixing"
_TENSORS = ("matrix", "inverse", "mean")
_MAX_INVERSE_ERROR = 1e-6

Progress = Callable[[int, int, str], None]


class NotFitted(ValueError, AttributeError):
    """Nothing has been unmixed yet."""


@dataclass(frozen=True)
class Component:
    """One component of an unmixed embedding.

    Attributes:
        number: its column, from 0.
        identified_by: a key of `IDENTIFIED_BY`; "none" in a block.
        block: the components that it is not distinguished from, itself included.
        error: standard error of its direction in radians, by the information of the sample about its angles
            and about the covariance that made rows white; inf in a block.
        stability: cosine between the directions that two halves of the rows gave, each from its own start.
        departure: 1 - corr(y, normal scores of y)^2, 0 for a normal distribution.
        correlation: across a pair; None without second views.
        dependence: the largest correlation of a function of it with a function of another component.
        partner: the component with which that is.
        dependent: whether that is notable, and beyond chance.
        to_latent: the map that linearizes it; None in a block, and where `reason` says why.
        reason: why it is not identified or not linearized, in a sentence; empty otherwise.
        world_departure: departure of the function of y that predicts itself best, to which no encoder adds;
            None without pairs, and where they do not show it.
        cause: the reason in a word; None if it is identified and linearized.
        dependence_upper: the largest upper 95 % end of its dependence on another component.
    """

    number: int
    identified_by: str
    block: tuple[int, ...]
    error: float
    stability: float
    departure: float
    correlation: float | None
    dependence: float
    partner: int
    dependent: bool = False
    to_latent: MonotoneMap | None = None
    reason: str = ""
    world_departure: float | None = None
    cause: Cause | None = None
    dependence_upper: float = 0.0

    @property
    def identified(self) -> bool:
        """Whether it is a component of its own, up to its sign."""
        return self.identified_by != "none"

    @property
    def note(self) -> str:
        """Its reason, and what it depends on; empty if there is nothing to mind."""
        notes = [self.reason] if self.reason else []
        if self.identified and self.dependent:
            notes.insert(
                0,
                f"depends on component {self.partner} (a function of it by {self.dependence:.2f}): the world "
                "is not one of independent latents, or one of the two is a harmonic of the other",
            )
        return "; ".join(notes)

    @property
    def sentence(self) -> str:
        """The result for this component, in a sentence or two."""
        if not self.identified:
            return self.reason
        sentence = f"identified {IDENTIFIED_BY[self.identified_by]}, to within {self.error:.2g} rad"
        return sentence + (f"; {self.note}" if self.note else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values["cue"], values["named"] = values.pop("identified_by"), self.identified
        to_latent = values.pop("to_latent")
        values["warp"] = None if to_latent is None else to_latent.to_dict()
        values["cause"] = None if self.cause is None else self.cause.value
        return values | {"block": list(self.block)}


class Unmixing(Parameters):
    """The components of an embedding, as far as data identify them.

    Args:
        dim: directions of the embedding that are unmixed: the slowest, which pairs share most, or without
            pairs the leading principal ones; None for all. For an embedding of more dimensions than latents.
        tolerance: nonlinear energy that the encoder may have left, see `isojepa.unmixing.identification`:
            nothing is identified that near to a Gaussian world of one rate. 0 trusts all shapes.
        linearize: whether the warp of every identified component is inverted (`invert_warp`).
        drop: leave out rows with NaN or Inf instead of raising an error.
        seed: of the starts.

    Attributes:
        components_: the components, identified ones first.
        matrix_: (components, dim) from centered rows to components of variance 1.
        inverse_: (dim, components) back.
        mean_: (dim,) of the rows.
        rows_: number of rows.
        sample_rows_: number of those that components were searched and judged on.

    Example:
        >>> from isojepa.seeds import numpy_generator
        >>> z = numpy_generator(0, "data").uniform(-1, 1, (5000, 2))
        >>> h = z @ np.array([[0.8, 0.6], [-0.6, 0.8]])
        >>> unmixing = Unmixing(linearize=False).fit(h)
        >>> correlations = abs(np.corrcoef(unmixing.transform(h).T, z.T)[:2, 2:])  # components by latents
        >>> unmixing.n_identified_, bool(correlations.max(1).min() > 0.99)
        (2, True)
    """

    components_: tuple[Component, ...]
    matrix_: np.ndarray
    inverse_: np.ndarray
    mean_: np.ndarray
    rows_: int
    sample_rows_: int
    n_features_in_: int

    def __init__(
        self,
        *,
        dim: int | None = None,
        tolerance: float = TOLERANCE,
        linearize: bool = True,
        drop: bool = False,
        seed: int = 0,
    ) -> None:
        self.dim = dim
        self.tolerance = tolerance
        self.linearize = linearize
        self.drop = drop
        self.seed = seed
        self._check()

    def fit(
        self, h: Any = None, h_next: Any = None, paths: Any = None, progress: Progress | None = None
    ) -> Self:
        """Find the components.

        Args:
            h: (n, dim) embeddings; arrays, memory maps, tensors or HDF5 datasets, read in pieces.
            h_next: (n, dim) of the second view of each pair; rates need them.
            paths: in place of both, (steps, paths, dim) or a list of paths (steps_i, dim).
            progress: called with steps done, their number, and the name of the next one.

        Raises:
            ValueError: rows are not finite, too few, constant in a direction, or do not match.
        """
        self._check()
        report = progress or (lambda done, total, name: None)
        embeddings, lags = read_rows(h, h_next, paths, self.drop)
        report(0, 3, "covariance")
        whitening = whiten(embeddings, self.dim, lags)
        sample = take_sample(embeddings, whitening)
        report(1, 3, "components")
        halves = find_halves(sample, numpy_generator(self.seed, "unmix"), self.tolerance)
        start, shaped = mean_rotation(halves, len(sample.first))
        views = search_views(sample, whitening.lagged)
        correlated = squares_correlate(sample.first, start)
        rotation = refine_rotation(start, views, whitening.lagged, correlated, shaped)
        report(2, 3, "identification")
        evidence = measure_evidence(sample, halves, rotation, self.tolerance)
        self._store(whitening, sample, rotation, evidence)
        report(3, 3, "identification")
        return self

    def transform(self, h: Any) -> np.ndarray:
        """Components (n, components) of rows (n, dim), each of variance 1."""
        return np.asarray((self._rows("h", h, self.mean_) - self.mean_) @ self.matrix_.T)

    def inverse_transform(self, y: Any) -> np.ndarray:
        """Embeddings of components (n, components); directions that `dim` left out stay at their mean."""
        return np.asarray(self._rows("y", y, self.matrix_[:, 0]) @ self.inverse_.T + self.mean_)

    def fit_transform(self, h: Any, h_next: Any = None) -> np.ndarray:
        """Fit, and transform the same rows."""
        return self.fit(h, h_next).transform(h)

    def latents(self, h: Any) -> np.ndarray:
        """Components of rows (n, dim), linearized where a map exists, the others as they are."""
        return self.linearized(self.transform(h))

    def linearized(self, y: np.ndarray) -> np.ndarray:
        """Components (n, components), those with a map linearized."""
        latents = np.array(y, dtype=np.float64)
        for component in self.components_:
            if component.to_latent is not None:
                latents[:, component.number] = component.to_latent(latents[:, component.number])
        return latents

    @property
    def n_identified_(self) -> int:
        """Number of components that are distinguished from all others."""
        return sum(component.identified for component in self.components_)

    @property
    def blocks_(self) -> tuple[tuple[int, ...], ...]:
        """The other components, in groups any rotation of which is as good."""
        return tuple(dict.fromkeys(one.block for one in self.components_ if not one.identified))

    @property
    def verdict_(self) -> str:
        """The result in a sentence or two."""
        count, identified = len(self.components_), self.n_identified_
        if count == 1:
            return "One dimension: there is nothing to unmix."
        if identified == count:
            return f"All {count} components are identified, each up to its sign."
        if not identified:
            first = self.components_[0]
            blind = BLIND_SPOT if first.cause is Cause.ALIKE else ""
            return f"No component is identified: {first.reason}.{few_rows(self.rows_, count) or blind}"
        rest = _describe_blocks(self.blocks_)
        return f"{identified} of {count} components are identified, each up to its sign; {rest}."

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values."""
        return {
            "verdict": self.verdict_,
            "rows": self.rows_,
            "sample_rows": self.sample_rows_,
            "named": self.n_identified_,
            "blocks": [list(block) for block in self.blocks_],
            "axes": [component.to_dict() for component in self.components_],
        }

    def __str__(self) -> str:
        if not self.__sklearn_is_fitted__():
            return repr(self)
        lines = [
            f"Unmixing of {self.rows_} rows in {len(self.components_)} dimensions",
            f"  {self.verdict_}",
            "",
        ]
        lines += [f"  component {one.number:<4} {one.sentence}" for one in self.components_]
        return "\n".join(lines)

    @validate_types
    def save(self, path: str | Path) -> None:
        """Write the components to a safetensors file."""
        components = [
            one.to_dict() | {"error": one.error if one.identified else None} for one in self.components_
        ]
        tensors = {
            name: torch.from_numpy(np.ascontiguousarray(getattr(self, f"{name}_"))) for name in _TENSORS
        }
        notes = {
            "version": __version__,
            "parameters": self.get_params(),
            "rows": self.rows_,
            "sample_rows": self.sample_rows_,
            "axes": components,
        }
        save_tensors(Path(path), tensors, {_NOTE: json.dumps(notes, allow_nan=False)})

    @classmethod
    @validate_types
    def load(cls, path: str | Path) -> "Unmixing":
        """Read a file that `save` wrote.

        Raises:
            ValueError: the file is missing, damaged, or something else.
        """
        tensors, header = load_tensors(Path(path))
        if _NOTE not in header or set(tensors) != set(_TENSORS):
            raise ValueError(f"{path} must hold components that isojepa saved, got another safetensors file")
        matrix, inverse, mean = (tensors[name].double().numpy().copy() for name in _TENSORS)
        if matrix.ndim != 2 or inverse.shape != matrix.T.shape or mean.shape != matrix.shape[1:]:
            raise ValueError(f"{path} is damaged: its matrices do not fit each other")
        finite = matrix.size and all(np.isfinite(one).all() for one in (matrix, inverse, mean))
        if not finite or not np.abs(matrix @ inverse - np.eye(len(matrix))).max() < _MAX_INVERSE_ERROR:
            raise ValueError(f"{path} is damaged: its matrices are not inverse to each other")
        size = len(header[_NOTE])
        if size > MAX_TEXT_BYTES:
            raise ValueError(
                f"{path} must have notes of at most {size_of(MAX_TEXT_BYTES)}, got {size_of(size)}"
            )
        try:
            notes = parse_json(header[_NOTE].encode())
            unmixing = cls(**notes["parameters"])
            unmixing.components_ = _read_components(notes["axes"], len(matrix))
            unmixing.rows_ = check_count("rows", notes["rows"])
            unmixing.sample_rows_ = check_count("sample_rows", notes["sample_rows"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} has notes that cannot be read: {error}") from error
        unmixing.matrix_, unmixing.inverse_, unmixing.mean_ = matrix, inverse, mean
        unmixing.n_features_in_ = matrix.shape[1]
        return unmixing

    def __sklearn_is_fitted__(self) -> bool:
        return "components_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(),
        )

    def __getattr__(self, name: str) -> Any:
        # only missing attributes come here, and properties that needed one
        if "components_" not in vars(self) and (name in Unmixing.__annotations__ or hasattr(Unmixing, name)):
            raise NotFitted(f"the components must be found first, by fit, got none when asked for {name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _check(self) -> None:
        if self.dim is not None:
            check_count("dim", self.dim)
        check_number("tolerance", self.tolerance, "lie in [0, 1)", lambda value: 0 <= value < 1)
        for name, kind in (("linearize", bool), ("drop", bool), ("seed", int)):
            validate_type(name, getattr(self, name), kind)

    def _rows(self, name: str, rows: Any, like: np.ndarray) -> np.ndarray:
        array = real_array(name, rows, "samples, dim")
        if array.shape[1] != len(like):
            raise ValueError(f"{name} must have {len(like)} columns as the fitted rows, got {array.shape[1]}")
        return array

    def _store(self, whitening: Whitening, sample: Sample, rotation: Rotation, evidence: Evidence) -> None:
        dim, rows = len(rotation.matrix), len(sample.first)
        verdicts = [evidence.identify(i, self.tolerance, rows) for i in range(dim)]
        order = evidence.order(np.array([name != "none" for name, _, _ in verdicts]))
        place = np.argsort(order)
        matrix, inverse = rotation.matrix @ whitening.matrix, whitening.inverse @ rotation.matrix.T
        sign = np.sign(matrix[np.arange(dim), np.abs(matrix).argmax(1)])
        self.matrix_, self.inverse_ = (matrix * sign[:, None])[order], (inverse * sign)[:, order]
        self.mean_, self.rows_, self.sample_rows_ = whitening.mean, whitening.rows, rows
        self.n_features_in_ = len(whitening.mean)
        # an angle errs by its own equation, and by half of a covariance that is 0 in the world
        effective = rows / evidence.excess
        square = 1 / np.maximum(rotation.information * effective, 1e-12) + 1 / (4 * effective)
        np.fill_diagonal(square, 0.0)
        components = []
        for number, i in enumerate(order.tolist()):
            identified_by, cause, reason = verdicts[i]
            identified, to_latent, world = identified_by != "none", None, evidence.world_departure[i]
            if identified and self.linearize:
                to_latent, reason = _linearize(sample, rotation.matrix[i] * sign[i])
                cause = Cause.BENT if to_latent is None else None
            components.append(
                Component(
                    number=number,
                    identified_by=identified_by,
                    block=tuple(sorted(place[evidence.together[i]].tolist())),
                    error=float(np.sqrt(square[i].sum())) if identified else float("inf"),
                    stability=float(evidence.stability[i]),
                    departure=float(evidence.departure[i]),
                    correlation=None if evidence.correlation is None else float(evidence.correlation[i]),
                    dependence=float(max(evidence.dependence[i].max(), 0.0)),
                    partner=int(place[evidence.dependence[i].argmax()]),
                    dependent=bool(evidence.notable[i]),
                    to_latent=to_latent,
                    reason=reason,
                    world_departure=None if np.isnan(world) else float(world),
                    cause=cause,
                    dependence_upper=float(np.delete(evidence.upper[i], i).max(initial=0.0)),
                )
            )
        self.components_ = tuple(components)


@validate_types
def unmix(
    h: Any = None,
    h_next: Any = None,
    paths: Any = None,
    *,
    dim: int | None = None,
    tolerance: float = TOLERANCE,
    linearize: bool = True,
    drop: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Unmixing:
    """Find the components of an embedding, and linearize the identified ones.

    Args:
        h: (n, dim) embeddings.
        h_next: (n, dim) of the second view of each pair.
        paths: in place of both, (steps, paths, dim) or a list of paths (steps_i, dim).
        dim: see `Unmixing`, as are tolerance, linearize, drop and seed.
        tolerance: nonlinear energy that the encoder may have left.
        linearize: whether the warp of every identified component is inverted.
        drop: leave out rows with NaN or Inf instead of raising an error.
        seed: of the starts.
        progress: called with steps done, their number, and the name of the next one.

    Raises:
        ValueError: rows are not finite, too few, constant in a direction, or do not match.
    """
    unmixing = Unmixing(dim=dim, tolerance=tolerance, linearize=linearize, drop=drop, seed=seed)
    return unmixing.fit(h, h_next, paths, progress)


def _linearize(sample: Sample, direction: np.ndarray) -> tuple[MonotoneMap | None, str]:
    """The map of a component, or the reason why there is none."""
    views = [view for view in (sample.first, sample.second) if view is not None]
    try:
        return invert_warp(*(rotate(view, direction[None]).double().numpy()[0] for view in views)), ""
    except ValueError as error:
        return None, f"not linearized: {error}"


def _describe_blocks(blocks: Sequence[tuple[int, ...]]) -> str:
    """The components that are not identified."""
    sizes = [len(block) for block in blocks if len(block) > 1]
    single = len(blocks) - len(sizes)
    parts = []
    if sizes:
        counted = "a block" if len(sizes) == 1 else f"{len(sizes)} blocks"
        parts.append(
            f"{sum(sizes)} stay {counted} of {', '.join(map(str, sizes))}, any rotation of which is as good"
        )
    if single:
        parts.append(f"{single} {'is' if single == 1 else 'are'} not identified")
    return "; ".join(parts)


def _read_components(notes: Any, count: int) -> tuple[Component, ...]:
    """Components from the notes of a file.

    Raises:
        ValueError: a note is invalid.
    """
    components = tuple(_read_component(note, number, count) for number, note in enumerate(notes))
    if len(components) != count:
        raise ValueError(f"there must be {count} components, got {len(components)}")
    if any(components[other].block != one.block for one in components for other in one.block):
        raise ValueError("blocks do not fit each other")
    return components


def _read_component(note: Mapping[str, Any], number: int, count: int) -> Component:
    def real(name: str, least: float = -np.inf) -> Any:
        return check_number(name, note[name], f"be a number of at least {least:g}", lambda x: x >= least)

    def optional(name: str) -> Any:
        return None if note[name] is None else real(name)

    block = tuple(check_count("block", other, 0, count - 1) for other in note["block"])
    cause = None if note["cause"] is None else Cause(note["cause"])
    identified = note["cue"] != "none"
    choose("cue", note["cue"], IDENTIFIED_BY)
    if note["number"] != number or number not in block or len(set(block)) < len(block):
        raise ValueError(f"component {number} is noted as {note['number']!r}, in block {block}")
    if (note["error"] is None) is identified or (identified and len(block) > 1):
        raise ValueError(
            f"component {number} must have an error and no block if it is identified, and only then"
        )
    if cause is not None and identified is not (cause is Cause.BENT):
        raise ValueError(f"component {number} cannot have the cause {cause.value!r} and cue {note['cue']!r}")
    return Component(
        number=number,
        identified_by=note["cue"],
        block=block,
        error=real("error", 0) if identified else float("inf"),
        stability=real("stability", 0),
        departure=real("departure"),
        correlation=optional("correlation"),
        dependence=real("dependence", 0),
        partner=check_count("partner", note["partner"], 0, count - 1),
        dependent=validate_type("dependent", note["dependent"], bool),
        to_latent=None if note["warp"] is None else MonotoneMap.from_dict(note["warp"]),
        reason=str(note["reason"]),
        world_departure=optional("world_departure"),
        cause=cause,
        dependence_upper=real("dependence_upper", 0),
    )

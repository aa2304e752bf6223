r"""The map between two encoders, z2 ~ W z1, fitted in closed form on pairs of rows of the same states.

Algorithm 1 of Zhang et al. 2026, "Social-JEPA": columns are centered and scaled by their mean and standard
deviation on the fitted pairs, and W is fitted to them (`closed_forms` has the six kinds). The inverse is
that of W where its condition kappa = largest / smallest singular value is at most tau; above, a
pseudo-inverse that leaves out singular values below largest / tau. `AlignmentMap` has the methods of a
scikit-learn estimator, without importing it.

`fit_robust` fits where some pairs are mismatched. In the coordinates of held-out canonical variates a true
pair has correlated entries, a mismatched one independent ones. For Gaussians of correlations r_j the
log-likelihood ratio is

    l = sum_j  - log(1 - r_j^2) / 2 - (r_j^2 (u_j^2 + v_j^2) - 2 r_j u_j v_j) / (2 (1 - r_j^2))

and a pair is true with probability p = 1 / (1 + exp(-l) eps / (1 - eps)). Weights p and correlations are
updated in turn. The mismatched fraction eps is twice the fraction of pairs with l below the median of pairs
that are mismatched on purpose. Each row is judged by fits that did not include it.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from isojepa.alignment.closed_forms import (
    KINDS,
    PairMoments,
    Variates,
    best_penalty,
    canonical_variates,
    cca_matrix,
    generalized_cross_validation,
    least_squares_matrix,
    leave_one_out,
    low_rank_matrix,
    procrustes_matrix,
)
from isojepa.alignment.pairs import as_array, as_rows, check_pairs, check_varied, chunks, constant, folds
from isojepa.io import parse_json
from isojepa.linear import LinearMap
from isojepa.seeds import numpy_generator
from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.validation import Parameters, check_count, check_number, choose, validate_types
from isojepa.version import __version__

_CONSTANT = {"refuse": "say which", "ignore": "map them from and to their mean"}


_MAX_WORK = 2e12  # multiplications of leave-one-out, beyond which generalized cross-validation is used
_PENALTIES = 20  # that are tried


class MapNotFitted(ValueError, AttributeError):
    """The map has been fitted on no pairs yet."""


class AlignmentMap(Parameters):
    """An affine map from the rows of one encoder to those of another.

    Args:
        kind: "ols", "ridge", "procrustes", "scaled_procrustes", "cca" or "low_rank".
        ridge: the penalty lambda of Equation 4 for "ridge" and "low_rank"; None chooses it by leaving out
            each row ("ridge"; streamed rows: generalized cross-validation) or is 0 ("low_rank").
        standardize: whether columns are scaled to variance 1; they are centered in any case. The nearest
            rotation of two embeddings as they are is asked for without.
        threshold: tau, the largest condition at which W is inverted as it is.
        constant: "refuse" columns without spread, or "ignore" them: they are mapped from and to their mean.
        rank: directions that "cca" and "low_rank" keep; None for all ("cca") or those that noise does not
            explain ("low_rank").

    Attributes:
        matrix_: W, (out, in), between standardized columns.
        mean_in_, scale_in_, mean_out_, scale_out_: of the columns of the fitted pairs.
        ridge_: the penalty.
        rank_: of the kinds that keep some directions; else None.
        pairs_: how many it was fitted on.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z1, w = rng.normal(size=(200, 3)), np.array([[2.0, 0, 0], [0, 1, 0], [0, 0, 0.5]])
        >>> fitted = AlignmentMap("ols", standardize=False).fit(z1, z1 @ w.T)
        >>> bool(np.allclose(fitted.matrix_, w)), round(fitted.condition_, 6)
        (True, 4.0)
        >>> bool(np.allclose(fitted.inverse_transform(fitted.transform(z1)), z1))
        True
    """

    matrix_: np.ndarray
    mean_in_: np.ndarray
    scale_in_: np.ndarray
    mean_out_: np.ndarray
    scale_out_: np.ndarray
    ridge_: float
    rank_: int | None
    pairs_: int
    n_features_in_: int

    def __init__(
        self,
        kind: str = "ridge",
        *,
        ridge: float | None = None,
        standardize: bool = True,
        threshold: float = 100.0,
        rank: int | None = None,
        constant: str = "refuse",
    ) -> None:
        self.kind = kind
        self.ridge = ridge
        self.standardize = standardize
        self.threshold = threshold
        self.rank = rank
        self.constant = constant
        self._check()

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Fit W on pairs, rows of the same states in the same order.

        Args:
            X: (n, in), of the first encoder.
            Y: (n, out), of the second.
            sample_weight: (n,) how much each pair counts; all alike by default.

        Raises:
            ValueError: rows do not match, are not finite, too few for this kind, or a column is constant.
        """
        first, second = check_pairs(X, Y)
        weights = None if sample_weight is None else _weights(sample_weight, len(first))
        moments = PairMoments.empty(first.shape[1], second.shape[1])
        for (where, x), (_, y) in zip(chunks("first", first), chunks("second", second), strict=True):
            moments.add(x, y, None if weights is None else weights[where])
        self._moments: PairMoments | None = None  # a later partial_fit begins anew
        work = float(len(first)) * first.shape[1] * (second.shape[1] + 1) * _PENALTIES
        self._solve(moments, (first, second, weights) if work <= _MAX_WORK else None)
        return self

    def partial_fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Join more pairs to those of earlier calls and fit W on all of them.

        Only moments are kept, (in + out)^2 numbers, and W is solved when it is first asked for.
        """
        first, second = check_pairs(X, Y)
        weights = None if sample_weight is None else _weights(sample_weight, len(first))
        moments = vars(self).get("_moments")
        if moments is None:
            moments = PairMoments.empty(first.shape[1], second.shape[1])
        widths = moments.first, len(moments.mean) - moments.first
        if (first.shape[1], second.shape[1]) != widths:
            raise ValueError(
                f"pairs must have {widths[0]} and {widths[1]} columns as those before, got "
                f"{first.shape[1]} and {second.shape[1]}"
            )
        for (where, x), (_, y) in zip(chunks("first", first), chunks("second", second), strict=True):
            moments.add(x, y, None if weights is None else weights[where])
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self._moments = moments
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Rows (n, in) of the first encoder as the second would give them, (n, out)."""
        x = self._rows("X", X, self.mean_in_)
        standard = (x - self.mean_in_) / self.scale_in_
        return np.asarray((standard @ self.matrix_.T) * self.scale_out_ + self.mean_out_)

    predict = transform

    def inverse_transform(self, Y: Any) -> np.ndarray:
        """Rows (n, out) of the second encoder in the coordinates of the first, by W_inv (Equation 5)."""
        y = self._rows("Y", Y, self.mean_out_)
        standard = (y - self.mean_out_) / self.scale_out_
        return np.asarray((standard @ self.inverse_.T) * self.scale_in_ + self.mean_in_)

    def fit_transform(self, X: Any, Y: Any, sample_weight: Any = None) -> np.ndarray:
        """Fit, and map the same rows."""
        return self.fit(X, Y, sample_weight).transform(X)

    def score(self, X: Any, Y: Any) -> float:
        """R^2 on pairs: the share that is explained of the second's variance, in standardized columns."""
        x, y = check_pairs(X, Y)
        target = self._rows("Y", y, self.mean_out_) / self.scale_out_
        residual = target - self.transform(x) / self.scale_out_
        spread = float(((target - target.mean(0)) ** 2).sum())
        if spread <= 0:
            raise ValueError("second must vary to be scored, got equal rows")
        return 1 - float((residual**2).sum()) / spread

    @property
    def singular_values_(self) -> np.ndarray:
        """Of W, largest first."""
        return np.linalg.svd(self.matrix_, compute_uv=False)

    @property
    def condition_(self) -> float:
        """kappa(W): largest over smallest singular value; infinite for a W that loses directions."""
        values = self.singular_values_
        lost = values[-1] <= values[0] * max(self.matrix_.shape) * np.finfo(np.float64).eps
        return float("inf") if lost else float(values[0] / values[-1])

    @property
    def orthogonality_(self) -> float:
        """|W^T W - I| / |I| (Equation 17), of the smaller Gram matrix where W is rectangular."""
        values = self.singular_values_
        return float(np.linalg.norm(values**2 - 1) / np.sqrt(len(values)))

    @property
    def pseudo_(self) -> bool:
        """Whether W_inv is a pseudo-inverse: W is rectangular or its condition above the threshold."""
        out, into = self.matrix_.shape
        return out != into or not self.condition_ <= self.threshold

    @property
    def inverse_(self) -> np.ndarray:
        """W_inv, (in, out): the inverse where the condition allows it, else the cut pseudo-inverse."""
        return self.inverse()

    def inverse(self, pseudo: bool | None = None) -> np.ndarray:
        """W_inv, (in, out), between standardized columns.

        Args:
            pseudo: whether it is the cut pseudo-inverse; None decides by the threshold.

        Raises:
            ValueError: the exact inverse is asked for and there is none.
        """
        if self.pseudo_ if pseudo is None else pseudo:
            return np.linalg.pinv(self.matrix_, rcond=1 / self.threshold)
        out, into = self.matrix_.shape
        if out != into or self.condition_ == float("inf"):
            raise ValueError(
                f"W must be square and of full rank to be inverted, got shape {(out, into)} of condition "
                f"{self.condition_:.3g}: ask for the pseudo-inverse"
            )
        return np.linalg.inv(self.matrix_)

    def affine(self) -> LinearMap:
        """The map between rows as they are: y = (x - center) matrix + offset."""
        matrix = (self.matrix_ / self.scale_in_).T * self.scale_out_
        return LinearMap(matrix, self.mean_in_, self.mean_out_)

    def layer(self) -> nn.Linear:
        """The map as a layer of torch, in float32, to put behind the first encoder."""
        out, into = self.matrix_.shape
        layer, affine = nn.Linear(into, out), self.affine()
        bias = affine.offset - affine.center @ affine.matrix
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(affine.matrix.T)))
            layer.bias.copy_(torch.from_numpy(bias))
        return layer

    def save(self, path: str | Path, single: bool = False) -> None:
        """Write the map to a safetensors file: W and the means and scales of both sides.

        Args:
            path: of the file.
            single: whether in float32, half the size; else nothing is lost.
        """

        save_map(self, Path(path), single)

    @classmethod
    def load(cls, path: str | Path) -> "AlignmentMap":
        """Read what `save` wrote.

        Raises:
            ValueError: the file is missing, damaged, or something else.
        """

        return load_map(Path(path))

    def __sklearn_is_fitted__(self) -> bool:
        return "matrix_" in vars(self) or vars(self).get("_moments") is not None

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True, two_d_labels=True, multi_output=True, single_output=False),
            transformer_tags=TransformerTags(),
            regressor_tags=RegressorTags(),
            input_tags=InputTags(),
        )

    def __getattr__(self, name: str) -> Any:
        # called for missing attributes only: a streamed fit is solved at the first access
        if name.endswith("_") and not name.startswith("_") and name in _FITTED:
            moments = vars(self).get("_moments")
            if moments is None:
                raise MapNotFitted(f"the map must be fitted first, got none when asked for {name}")
            self._solve(moments)
            return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _check(self) -> None:
        choose("kind", self.kind, KINDS)
        choose("constant", self.constant, _CONSTANT)
        check_number("threshold", self.threshold, "be at least 1", lambda value: value >= 1)
        if self.ridge is not None:
            check_number("ridge", self.ridge, "be at least 0", lambda value: value >= 0)
        if self.rank is not None:
            check_count("rank", self.rank)

    def _solve(
        self, moments: PairMoments, rows: tuple[np.ndarray, np.ndarray, np.ndarray | None] | None = None
    ) -> None:
        self._check()
        first, width = moments.first, len(moments.mean)
        penalised = self.kind == "ridge" or (self.kind == "low_rank" and bool(self.ridge))
        if (moments.rows <= first and not penalised) or moments.rows < 2:
            raise ValueError(
                f"kind {self.kind!r} needs more pairs than the first has dimensions, {first}, got "
                f"{moments.rows}: bring more, or use kind='ridge', whose penalty makes up for them"
            )
        scale = moments.scale
        if self.standardize and self.constant == "ignore":
            scale = np.where(constant(scale, moments.mean), 1.0, scale)
        elif self.standardize:
            advice = "leave them out, or fit with constant='ignore'"
            check_varied("first", scale[:first], moments.mean[:first], advice)
            check_varied("second", scale[first:], moments.mean[first:], advice)
        else:
            scale = np.ones(width)
        standard = moments.scaled(scale)
        if self.rank is not None and self.rank > min(first, width - first):
            raise ValueError(f"rank must be at most {min(first, width - first)}, got {self.rank}")
        self.rank_ = None
        self.ridge_ = self._penalty(standard, moments.mean, scale, rows)
        if self.kind in ("ols", "ridge"):
            self.matrix_ = least_squares_matrix(standard, self.ridge_)
        elif self.kind == "cca":
            self.matrix_, self.rank_ = cca_matrix(standard, self.rank), self.rank
        elif self.kind == "low_rank":
            self.matrix_, self.rank_ = low_rank_matrix(standard, self.rank, self.ridge_)
        else:
            self.matrix_ = procrustes_matrix(standard, self.kind == "scaled_procrustes")
        self.mean_in_, self.mean_out_ = moments.mean[:first].copy(), moments.mean[first:].copy()
        self.scale_in_, self.scale_out_ = scale[:first].copy(), scale[first:].copy()
        self.pairs_, self.n_features_in_ = moments.rows, first

    def _penalty(
        self,
        moments: PairMoments,
        mean: np.ndarray,
        scale: np.ndarray,
        rows: tuple[np.ndarray, np.ndarray, np.ndarray | None] | None,
    ) -> float:
        """The penalty: given, by leaving out each row, or without rows by generalized cross-validation."""
        if self.kind not in ("ridge", "low_rank") or (self.kind == "low_rank" and self.ridge is None):
            return 0.0
        if self.ridge is not None:
            return float(self.ridge)
        size = float(np.trace(moments.xx)) / moments.first
        if size <= 0:
            raise ValueError("first must vary, got equal rows")
        if rows is None:
            return best_penalty(generalized_cross_validation(moments), size)
        first, second, weights = rows
        x = (np.asarray(first, dtype=np.float64) - mean[: moments.first]) / scale[: moments.first]
        y = (np.asarray(second, dtype=np.float64) - mean[moments.first :]) / scale[moments.first :]
        return best_penalty(leave_one_out(x, y, weights, moments), size)

    def _rows(self, name: str, values: Any, mean: np.ndarray) -> np.ndarray:
        if (width := as_array(name, values).shape[1]) != len(mean):
            out, into = self.matrix_.shape
            raise ValueError(
                f"{name} must have {len(mean)} columns, for the map goes from {into} to {out}, got {width}"
            )
        return as_rows(name, values)


_FITTED = frozenset(AlignmentMap.__annotations__)


def _weights(weights: Any, rows: int) -> np.ndarray:
    array = np.asarray(weights.detach().cpu() if isinstance(weights, torch.Tensor) else weights)
    found: np.ndarray = array.astype(np.float64)
    if found.shape != (rows,) or not np.isfinite(found).all() or (found < 0).any() or not found.any():
        raise ValueError(
            f"sample_weight must be {rows} numbers, none negative and not all 0, got {array.shape}"
        )
    return found


_NOTE = "isojepa-map"
_TENSORS = ("matrix", "mean_in", "scale_in", "mean_out", "scale_out")
_NUMBERS = ("ridge", "rank", "pairs")


def save_map(fitted: "AlignmentMap", path: Path, single: bool) -> None:
    """Write a fitted map; `single` in float32."""
    kind = torch.float32 if single else torch.float64
    tensors = {
        name: torch.as_tensor(getattr(fitted, f"{name}_"), dtype=torch.float64).to(kind) for name in _TENSORS
    }
    notes = {
        "version": __version__,
        "parameters": fitted.get_params(),
        **{name: getattr(fitted, f"{name}_") for name in _NUMBERS},
    }
    save_tensors(path, tensors, {_NOTE: json.dumps(notes, allow_nan=False)})


def load_map(path: Path) -> "AlignmentMap":
    """Read a map, looking at all of it first.

    Raises:
        ValueError: the file is missing, damaged, or no map.
    """

    tensors, header = load_tensors(path)
    if _NOTE not in header or set(tensors) != set(_TENSORS):
        raise ValueError(f"{path} must be a map that isojepa saved, got another safetensors file")
    matrix = tensors["matrix"]
    shapes = {"mean_in": 1, "scale_in": 1, "mean_out": 0, "scale_out": 0}
    for name, tensor in tensors.items():
        wide = matrix.ndim == 2 and (name == "matrix" or tensor.shape == (matrix.shape[shapes[name]],))
        if not wide or not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            raise ValueError(f"{path} is damaged: its {name} does not fit its matrix, or is not finite")
    if not bool((tensors["scale_in"] > 0).all() and (tensors["scale_out"] > 0).all()):
        raise ValueError(f"{path} is damaged: its scales must be positive")
    try:
        notes = parse_json(header[_NOTE].encode())
        fitted = AlignmentMap(**notes["parameters"])
        for name in _NUMBERS:
            setattr(fitted, f"{name}_", notes[name])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} has notes that cannot be read: {error}") from error
    for name, tensor in tensors.items():
        setattr(fitted, f"{name}_", tensor.double().numpy().copy())
    fitted.n_features_in_ = fitted.matrix_.shape[1]
    return fitted


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
        >>> robust = fit_robust(x, y)
        >>> bool((robust.dropped < 150).all()), len(robust.dropped) > 140
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
    splits = folds(len(x), 5, ids, seed)
    weights, mismatched, change, done = np.ones(len(x)), 0.0, np.inf, 0
    while done < rounds and change >= _STEADY:
        done += 1
        variates = canonical_variates(a, b, splits, weights)
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
    counted = r > 2 / np.sqrt(max(variates.weights.sum(), 1.0))  # the others are noise
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

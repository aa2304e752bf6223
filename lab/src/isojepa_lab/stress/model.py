r"""A linear Gaussian model of pairs, estimated on training pairs alone, that predicts fits on fewer of them.

Least squares on n pairs of standardized columns gives W, the eigenvalues l of the inputs and the residual
covariance N = (y - W x)(y - W x)^T / (n - 1 - d). `RegressionTask` has the expected error in closed form;
what W^T W has too much of noise, tr N / (n l) along each direction, is taken off.

A fitted map itself is drawn. With X1 the inputs of the right pairs and X2 those of the mismatched ones it is

    W_N = (W X1 X1^T + E X1^T + Y X2^T) (X1 X1^T + X2 X2^T + a I)^-1,

with X1, X2 Gaussian (products by Bartlett's decomposition), E X1^T = N^(1/2) G (X1 X1^T)^(1/2), G of
independent standard normals, and Y the partners of X2 moved on by one, or independent where there are many:
matrices of some d columns in place of pairs. As W has noise of its own from n pairs, E is made smaller by its
share: a draw at N = n has the noise of the estimate and no more. Condition numbers are medians of draws;
distances and neighbors are those of training pairs under a random map.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from isojepa.alignment.closed_forms import GramSpectrum, PairMoments
from isojepa.alignment.maps import AlignmentMap
from isojepa.seeds import numpy_generator
from isojepa_lab.stress.quality import KS, ROWS, Quality, measure
from isojepa_lab.stress.regression import RegressionTask

DRAWS = 25  # of the map, whose median condition is predicted
SEEN = 5  # of them through which training pairs are looked at
PREDICTED = ("ols", "ridge")
_EXPLICIT = 8  # mismatched pairs for each dimension up to which they are drawn one by one


@dataclass(frozen=True)
class StressSetting:
    """How a map is fitted.

    Attributes:
        pairs: N.
        kind: "ols" or "ridge".
        ridge: the penalty; None for the one that leave-one-out would choose.
        mismatch: epsilon, the share of mismatched pairs.
    """

    pairs: int
    kind: str = "ridge"
    ridge: float | None = None
    mismatch: float = 0.0


@dataclass(frozen=True)
class PairModel:
    """Moments of pairs, in standardized columns.

    Attributes:
        pairs: n that it was estimated on.
        values, vectors: eigenvalues (r,) and eigenvectors (d, r) of the inputs' covariance.
        matrix: W (q, d).
        noise: (q, q) covariance of the residual.
        total: tr Cov(y).
        like: a map with the means and scales of the columns.
    """

    pairs: int
    values: np.ndarray
    vectors: np.ndarray
    matrix: np.ndarray
    noise: np.ndarray
    total: float
    like: AlignmentMap

    @classmethod
    def fit(cls, first: np.ndarray, second: np.ndarray, threshold: float = 100.0) -> "PairModel":
        """Estimate it.

        Args:
            first, second: (n, d) and (n, q) training pairs, all of them right.
            threshold: condition beyond which maps are inverted by a pseudo-inverse.

        Raises:
            ValueError: there are fewer than d + 3 pairs, too few to estimate the residual.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(500, 4))
            >>> PairModel.fit(x, 2 * x).error(StressSetting(100)) < 1e-6
            True
        """
        count, width = first.shape
        if count < width + 3:
            raise ValueError(
                f"a prediction needs at least {width + 3} training pairs for {width} dimensions, got "
                f"{count}: bring more, or ask for none (predict=False)"
            )
        like = AlignmentMap("ols", threshold=threshold).fit(first, second)
        moments = PairMoments.empty(width, second.shape[1])
        moments.add(
            (first - like.mean_in_) / like.scale_in_,
            (second - like.mean_out_) / like.scale_out_,
        )
        spectrum = GramSpectrum.of(moments.xx)
        residual = moments.yy - like.matrix_ @ moments.xx @ like.matrix_.T
        noise = (residual + residual.T) / 2 / max(count - 1 - len(spectrum.values), 1)
        total = float(np.trace(moments.yy)) / count
        return cls(count, spectrum.values / count, spectrum.vectors, like.matrix_, noise, total, like)

    @cached_property
    def task(self) -> RegressionTask:
        """What a regression finds, with the noise of the estimate taken off."""
        along = self.matrix @ self.vectors
        noise = float(np.trace(self.noise))
        gram = along.T @ along - np.diag(noise / (self.pairs * self.values))
        return RegressionTask(self.values, gram, noise)

    def penalty(self, setting: StressSetting) -> float:
        """The penalty of a setting: given, chosen, or none."""
        if setting.kind == "ols":
            return 0.0
        if setting.ridge is not None:
            return setting.ridge
        return self.task.best_penalty(setting.pairs, setting.mismatch)

    def error(self, setting: StressSetting, inputs: np.ndarray | None = None) -> float:
        """Expected squared error on right pairs, summed over columns: the MSE.

        Args:
            setting: of the fit.
            inputs: (m, d) of states of another law.
        """
        moments = None if inputs is None else self._moments(inputs, self.like.mean_in_)
        return self.task.error(setting.pairs, self.penalty(setting), setting.mismatch, moments)

    def variance(self, inputs: np.ndarray | None = None) -> float:
        """Variance of the second embedding, summed over columns; of other states by their inputs."""
        if inputs is None:
            return self.total
        task = self.task
        explained = float((task.gram * self._moments(inputs, inputs.mean(0))).sum())
        return explained + task.noise

    def draw(self, setting: StressSetting, rng: np.random.Generator) -> AlignmentMap:
        """A map that pairs of such a setting might give."""
        size, wrong = len(self.values), round(setting.mismatch * setting.pairs)
        right = max(setting.pairs - 1 - wrong, 0)
        along, spread = self.matrix @ self.vectors, np.sqrt(self.values)[:, None]
        share = min(right / self.pairs, 1.0)  # of the noise that the estimate of W contains
        x = spread * _root(size, right, rng)
        inner = x @ x.T
        cross = along @ inner + self._noise(x, math.sqrt(1 - share), rng) @ x.T
        if wrong > _EXPLICIT * size:  # so many that their partners are as good as independent
            x = spread * _root(size, wrong, rng)
            total = (along * self.values) @ along.T + self.noise
            inner += x @ x.T
            cross += _half(total) @ rng.standard_normal((len(total), x.shape[1])) @ x.T
        elif wrong > 1:  # each gets the partner of the one before
            x = spread * rng.standard_normal((size, wrong))
            inner += x @ x.T
            cross += (along @ np.roll(x, 1, axis=1) + self._noise(x, 1.0, rng)) @ x.T
        penalty = max(self.penalty(setting), 1e-12 * float(np.trace(inner)))
        matrix = np.linalg.solve(inner + penalty * np.eye(size), cross.T).T @ self.vectors.T
        return mapped(self.like, matrix)

    def quality(
        self,
        setting: StressSetting,
        first: np.ndarray,
        second: np.ndarray | None,
        ks: tuple[int, ...] = KS,
        seed: int = 0,
        rows: int = ROWS,
    ) -> Quality:
        """What is to be expected of a fit.

        Args:
            setting: of the fit.
            first: (m, d) inputs on which random maps are measured, as many as are held out.
            second: (m, q) their partners, if they are training pairs; None for inputs of states of another
                law, whose partners are made up from the model.
            ks: numbers of neighbors.
            seed: of the draws.
            rows: whose distances and neighbors are compared, the first ones.
        """
        shifted = None if second is not None else first
        mse, variance = self.error(setting, shifted), self.variance(shifted)
        maps = [self.draw(setting, _stream(seed, index)) for index in range(DRAWS)]
        first = first[:rows]
        partners = self._partners(first, _stream(seed, DRAWS)) if second is None else second[:rows]
        qualities = [measure(one, first, partners, ks) for one in maps[:SEEN]]
        return Quality(
            mse=mse,
            r2=1 - mse / variance,
            dsc=float(np.mean([quality.dsc for quality in qualities])),
            nos={k: float(np.mean([quality.nos[k] for quality in qualities])) for k in ks},
            condition=float(np.median([one.condition_ for one in maps])),
        )

    def _noise(self, x: np.ndarray, scale: float, rng: np.random.Generator) -> np.ndarray:
        """Residuals for the columns of x."""
        return scale * _half(self.noise) @ rng.standard_normal((len(self.noise), x.shape[1]))

    def _moments(self, inputs: np.ndarray, center: np.ndarray) -> np.ndarray:
        """Second moments of inputs about a point, in the eigenbasis."""
        t = ((inputs - center) / self.like.scale_in_) @ self.vectors
        return np.asarray(t.T @ t / len(t))

    def _partners(self, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows of the second embedding as the model would make them."""
        noise = rng.standard_normal((len(inputs), len(self.noise))) @ _half(self.noise).T
        return np.asarray(self.like.transform(inputs) + noise * self.like.scale_out_)


def mapped(like: AlignmentMap, matrix: np.ndarray) -> AlignmentMap:
    """A map with another matrix between the same columns."""
    made = AlignmentMap(**like.get_params())
    for name in ("mean_in_", "scale_in_", "mean_out_", "scale_out_"):
        setattr(made, name, getattr(like, name))
    made.matrix_ = matrix
    return made


def _stream(seed: int, index: int) -> np.random.Generator:
    return numpy_generator(seed, "stress", "draw", index)


def _root(size: int, rows: int, rng: np.random.Generator) -> np.ndarray:
    """L with L L^T as Z Z^T of Z (size, rows) of standard normals: Z itself, or Bartlett's triangle."""
    if rows < 2 * size:
        return rng.standard_normal((size, rows))
    triangle = np.tril(rng.standard_normal((size, size)), -1)
    triangle[np.diag_indices(size)] = np.sqrt(rng.chisquare(rows - np.arange(size)))
    return triangle


def _half(covariance: np.ndarray) -> np.ndarray:
    """A root of a covariance, as far as it is positive."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

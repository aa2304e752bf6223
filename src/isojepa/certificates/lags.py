r"""The Hermite spectrum of an embedding without any latents, from how its autocorrelation decays.

A component of degree d of a function of latents that decay as e^{-K k} itself decays as e^{-K d k}. So the
curve of an embedding along trajectories,

    r(k) = sum over d >= 1 of s_d e^{-K d k} + s_noise [k = 0],

tells the shares s_d of its variance, and s_1 is how linear it is: "this embedding is 97 % linear", with no
label. `lag_curves` measures the curve, `lag_fit` splits it, `lag_checks` says when it must not be split.

It assumes Gaussian latents, stationary and reversible, that all decay at one rate. Where the rate is not
given, a function of degree 2 decays like a linear one of twice the rate, and the law of the slow functions
along the paths must tell them apart (`lag_law`). What nothing can tell: observation noise from degrees far
above those asked for; and sums of very many terms of degree 2 from linear ones of twice the rate, since
both are Gaussian. So an answer without the rate has a condition, and says it.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from isojepa.certificates.lag_checks import (
    Marginals,
    check_law,
    check_marginals,
    check_rates,
    check_reversible,
    check_shape,
    check_stationary,
    direction_rates,
    measure_marginals,
    quantile_correlation,
)
from isojepa.certificates.lag_curves import (
    Curves,
    choose_lags,
    correlation,
    decay_lag,
    longest_lag,
    measure_curves,
    monomials,
    slow_functions,
    trajectories,
    working_metric,
)
from isojepa.certificates.lag_fit import STRAIN, LagFit, Metric, curve_dispersion, fit_lags
from isojepa.certificates.lag_law import JointLaw, measure_law
from isojepa.certificates.mixture import percentile_interval
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval
from isojepa.validation import validate_types

_GROUPS, _DIRECTIONS = 4, 16  # curves for the rate, and for the comparison of directions
_LEAST_UNITS = 20  # independent pieces
_WIDE = 0.2  # width of the interval above which there is no answer
_FAR, _OFF = 5.0, 0.01  # standard deviations of the misfit, and distance to the curve, that chance has not
_LEFT = 0.6  # quadratic share that leaves the rate narrow enough; it falls with the fourth root of the data
_BENT = 0.5  # share of degrees above 1 that a Gaussian law along the paths contradicts
_SEEN = 0.7  # decays that the lags must span
_GUESS = 0.5  # linear share of the slowest function in what is drawn of a fit that is no answer
_NOISE = 0.02  # share from which noise is worth a notice


@dataclass(frozen=True)
class LagSpectrum:
    """How linear an embedding is, from its decay.

    Where it is not identifiable the numbers are still what the fit gave, or NaN if there was none, and
    `reasons` say why not to use them.

    Attributes:
        steps, paths, dim: of the trajectories.
        degree: the highest that is told apart.
        confidence: of the intervals.
        rate: K per step; correlation e^{-K} of the latents one step apart.
        rate_known: whether it was given.
        shares: of the variance at degrees 1 .. degree.
        linear: share of degree 1.
        above: share of higher degrees that are still there after one lag.
        noise: share that is gone after the shortest lag: observation noise, or degrees far above.
        lags, curve, fitted: the pooled autocorrelation, measured and fitted.
        rates: decay rate of each direction, slowest first; of neighbouring ones together if they are many.
        marginals: what they allow the linear share to be.
        law: that of the slow functions along the paths, from which the rate was taken; None if it was given.
        condition: what the answer rests on besides the assumptions of all, in a sentence; empty if nothing.
        identifiable: whether the linear share may be used.
        reasons: why not, and what to do.
        notices: what to know besides.
    """

    steps: int
    paths: int
    dim: int
    degree: int
    confidence: float
    rate: Interval
    rate_known: bool
    shares: tuple[Interval, ...]
    linear: Interval
    above: Interval
    noise: Interval
    lags: tuple[int, ...]
    curve: tuple[Interval, ...]
    fitted: tuple[float, ...]
    rates: tuple[Interval, ...]
    marginals: Marginals | None
    law: JointLaw | None
    condition: str
    identifiable: bool
    reasons: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def rest(self) -> float:
        """Share above the degree, noise included."""
        return self.above.estimate + self.noise.estimate

    @property
    def sentence(self) -> str:
        """The answer in words."""
        if not self.identifiable:
            return f"How linear the embedding is cannot be told from its decay. {self.reasons[0]}"
        text = (
            f"This embedding is {100 * self.linear.estimate:.1f} % linear "
            f"[{100 * self.linear.low:.1f}, {100 * self.linear.high:.1f}]"
        )
        if self.noise.estimate >= _NOISE:
            text += f"; {100 * self.noise.estimate:.1f} % are noise or of degree far above {self.degree}"
        return f"{text}. {self.condition}".strip()


@validate_types
def measure_lags(
    h: Any,
    *,
    rate: float | None = None,
    lags: Any = None,
    degree: int = 6,
    confidence: float = 0.95,
    draws: int = 200,
    seed: int = 0,
) -> LagSpectrum:
    """Estimate the linear fraction of an embedding without latents, from the decay of its autocorrelation.

    Args:
        h: (steps, paths, dim) embeddings along trajectories, or (steps, dim) of one.
        rate: K per step, if it is known: -log of the latents' correlation after one step.
        lags: in steps; by default about 14, until the correlation has fallen to 5 %.
        degree: the highest to tell apart.
        confidence: of the intervals.
        draws: redrawn copies for them.
        seed: of the redrawing, whose spread weighs the curves, so that it moves the estimate a little too.

    Raises:
        ValueError: h is no such array, is too short or constant, or an option is out of range.

    Example:
        >>> from isojepa.data import OrnsteinUhlenbeck
        >>> path = OrnsteinUhlenbeck(dim=2, rho=0.9).trajectory(100, 200, generator(0, "example"))
        >>> measure_lags(path, rate=-math.log(0.9), draws=50).linear.high > 0.99
        True
    """
    shape = tuple(np.shape(h))
    centered = trajectories(h)
    _check(rate, degree, confidence, draws)
    chosen = (
        choose_lags(centered, 0.0 if rate is None else 2 / rate)
        if lags is None
        else _checked_lags(lags, centered)
    )
    case = _Case(centered, chosen, shape, degree, confidence, rate, seed)
    least = 2 if rate is not None else 3
    if len(chosen) < least:
        after = correlation(centered, int(chosen[0]))
        return case.refused(
            f"There must be at least {least} lags, got {', '.join(map(str, chosen))} with correlation "
            f"{after:.2f}: many spectra give a curve of so few points; record longer paths, or more densely "
            "in time."
        )
    return case.measured(draws)


@dataclass(frozen=True)
class _Case:
    """One measurement under way."""

    h: np.ndarray
    lags: np.ndarray
    shape: tuple[int, ...]
    degree: int
    confidence: float
    rate: float | None
    seed: int

    def measured(self, draws: int) -> LagSpectrum:
        h, lags, dim = self.h, self.lags, self.h.shape[2]
        lag = decay_lag(h, lags)
        independent = h.shape[0] * h.shape[1] / (2 * lag)
        functions = monomials(h, independent)
        directions = slow_functions(h, lag, dim)
        law = measure_law(h, directions, lags, lag, self.confidence)
        # polynomials that look Gaussian show nothing: among many there is one that hides the kurtosis
        slow = (
            directions if law.gaussian or functions.shape[2] == dim else slow_functions(functions, lag, dim)
        )
        groups = [h, *_split(slow, _GROUPS), *_split(directions, _DIRECTIONS)]
        curves = measure_curves(groups, lags, draws, generator(self.seed, "lags"))
        if curves.units < _LEAST_UNITS:
            return self.refused(
                f"The paths hold only {curves.units:.0f} independent pieces as long as the decay, where "
                f"{_LEAST_UNITS} are needed: record more or longer paths."
            )
        reasons = check_shape(curves, lags[-1] >= longest_lag(h))
        reasons += check_reversible(h, lag) + check_stationary(h, lag)
        guess = -math.log(min(max(correlation(h, lag), 0.02), 0.98)) / lag
        whitener = working_metric(lags, guess, h.shape[0] * h.shape[1] * dim)
        last = 1 + min(_GROUPS, slow.shape[2])
        used = Curves(lags, curves.values[:last], curves.draws[:, :last], curves.units)
        least = 1 - law.quadratic if law.gaussian else _GUESS
        fit = fit_lags(used, whitener, self.degree, self.rate, least, self.confidence)
        metric = Metric(lags, whitener, curve_dispersion(curves, whitener), self.degree)
        marginals = measure_marginals(h, slow, lag, self.seed)
        if self.rate is None and not law.gaussian:
            # half the rate, or a third of it, would do as well
            fit = replace(fit, linear=Interval(fit.linear.estimate, 0.0, 1.0))
        linear = fit.linear
        rates = direction_rates(curves, last, self.confidence)
        if self.rate is None:
            reasons += check_law(law)
        reasons += check_marginals(marginals, linear.low)
        normal = np.array([_least_gaussian(one) for one in _split(directions, _DIRECTIONS)])
        own = metric.of(slice(last, None))
        reasons += check_rates(rates, curves.values[last:], own, fit.rate, normal)
        reasons += self._fit_reasons(fit, curves, law, bool(reasons))
        return self._result(fit, curves, rates, marginals, law, tuple(reasons))

    def _fit_reasons(self, fit: LagFit, curves: Curves, law: JointLaw, refused: bool) -> list[str]:
        reasons, linear = [], fit.linear
        if fit.strain > STRAIN:
            reasons.append(
                "Even the slowest function of the embedding is no single exponential as far as its law says "
                "that it is linear, so the rate cannot be found: pass the rate if you know it."
            )
        if self.rate is None and law.gaussian and float(fit.shares[1 : self.degree + 1].sum()) > _BENT:
            reasons.append(
                "Its decay reads as degrees above 1 where its law along the paths is that of a linear "
                "embedding, so the rate that was found is not that of the latents: record more, or pass the "
                "rate if you know it."
            )
        if fit.rate * self.lags[-1] < _SEEN:
            reasons.append(
                f"The rate, {fit.rate:.2g} per step, is too slow to be seen within the longest lag, "
                f"{self.lags[-1]}: record longer paths, or keep only every few steps."
            )
        off = float(np.abs(fit.fitted - curves.values[0]).max())
        usual = fit.misfit_draws.mean() + _FAR * fit.misfit_draws.std()
        if fit.misfit > usual and off > _OFF:
            cause = "the rate that was given is wrong, or " if self.rate is not None else ""
            reasons.append(
                f"No mixture of degrees gives this curve: it is off by {off:.3f}, beyond chance; {cause}the "
                "latents are not Gaussian with one rate."
            )
        if linear.high - linear.low > _WIDE and not refused:
            times = ((linear.high - linear.low) / _WIDE) ** 2
            if self.rate is None:  # what is wide is the rate, if a quadratic part of this size is left
                times = min(times, max(2.0, (law.quadratic / _LEFT) ** 4))
            known = "" if self.rate is not None else ", or pass the rate if you know it"
            reasons.append(
                f"The interval of the linear share, {100 * linear.low:.0f} to {100 * linear.high:.0f} %, is "
                f"too wide to be an answer: record about {max(2, math.ceil(times))} times as much{known}."
            )
        return reasons

    def _result(
        self,
        fit: LagFit,
        curves: Curves,
        rates: tuple[Interval, ...],
        marginals: Marginals,
        law: JointLaw,
        reasons: tuple[str, ...],
    ) -> LagSpectrum:
        shares = [
            percentile_interval(fit.shares[d], fit.share_draws[:, d], self.confidence)
            for d in range(self.degree + 2)
        ]
        rate = percentile_interval(fit.rate, fit.rate_draws, self.confidence)
        rate = Interval(rate.estimate, min(rate.low, fit.region[0]), max(rate.high, fit.region[1]))
        notices = []
        if shares[-1].low > _NOISE:
            notices.append(
                f"{100 * shares[-1].estimate:.1f} % of the variance are gone after the shortest lag: "
                f"observation noise or degrees far above {self.degree}, which no curve can tell apart."
            )
        curve = [
            percentile_interval(value, redrawn, self.confidence)
            for value, redrawn in zip(curves.values[0], curves.draws[:, 0].T, strict=True)
        ]
        return LagSpectrum(
            *self._sizes(),
            degree=self.degree,
            confidence=self.confidence,
            rate=rate,
            rate_known=self.rate is not None,
            shares=(fit.linear, *shares[1 : self.degree]),
            linear=fit.linear,
            above=shares[self.degree],
            noise=shares[self.degree + 1],
            lags=tuple(int(lag) for lag in self.lags),
            curve=tuple(curve),
            fitted=tuple(fit.fitted.tolist()),
            rates=rates,
            marginals=marginals,
            law=law if self.rate is None else None,
            condition=_condition(law) if self.rate is None and not reasons else "",
            identifiable=not reasons,
            reasons=reasons,
            notices=tuple(notices),
        )

    def refused(self, reason: str) -> LagSpectrum:
        """No fit at all."""
        unknown, unbounded = Interval(math.nan, 0.0, 1.0), Interval(math.nan, 0.0, math.inf)
        points = [correlation(self.h, int(lag)) for lag in self.lags]
        return LagSpectrum(
            *self._sizes(),
            degree=self.degree,
            confidence=self.confidence,
            rate=Interval(self.rate, self.rate, self.rate) if self.rate is not None else unbounded,
            rate_known=self.rate is not None,
            shares=(unknown,) * self.degree,
            linear=unknown,
            above=unknown,
            noise=unknown,
            lags=tuple(int(lag) for lag in self.lags),
            curve=tuple(Interval(value, math.nan, math.nan) for value in points),
            fitted=(math.nan,) * len(points),
            rates=(),
            marginals=None,
            law=None,
            condition="",
            identifiable=False,
            reasons=(reason,),
        )

    def _sizes(self) -> tuple[int, int, int]:
        return self.shape[0], self.shape[1] if len(self.shape) == 3 else 1, self.shape[-1]


def _condition(law: JointLaw) -> str:
    """What an answer without the rate rests on."""
    return (
        "The rate was found from the embedding: this holds if no slow direction of it is a sum of more than "
        f"{law.latents / 2:.0f} products of latents, which would look the same."
    )


def _split(functions: np.ndarray, most: int) -> list[np.ndarray]:
    """At most so many groups of neighbouring functions (steps, paths, count)."""
    count = functions.shape[2]
    return [functions[..., own] for own in np.array_split(np.arange(count), min(most, count))]


def _least_gaussian(functions: np.ndarray) -> float:
    """Smallest W of functions (steps, paths, count), each half of the paths by itself."""
    half = functions.shape[1] // 2
    rows = [part.reshape(-1, part.shape[2]) for part in (functions[:, :half], functions[:, half:])]
    thinned = [part[:: max(1, len(part) // 20_000)] for part in rows]
    return float(min(quantile_correlation(part).min() for part in thinned))


def _check(rate: float | None, degree: int, confidence: float, draws: int) -> None:
    if rate is not None and not 0 < rate < math.inf:
        raise ValueError(
            f"rate must be positive and finite, -log of the correlation after a step, got {rate}"
        )
    if int(degree) != degree or not 1 <= degree <= 20:
        raise ValueError(f"degree must be an integer from 1 to 20, got {degree}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")
    if int(draws) != draws or draws < 20:
        raise ValueError(f"draws must be an integer of at least 20, got {draws}")


def _checked_lags(lags: Any, h: np.ndarray) -> np.ndarray:
    values = np.atleast_1d(np.asarray(lags.tolist() if isinstance(lags, torch.Tensor) else lags))
    longest = longest_lag(h)
    if values.ndim != 1 or not len(values) or not np.all(values == np.floor(values)):
        raise ValueError(f"lags must be whole numbers of steps, got {lags}")
    found = np.unique(values.astype(int))
    if found[0] < 1 or found[-1] > longest:
        raise ValueError(f"lags must lie from 1 to {longest} for these paths, got {found[0]} to {found[-1]}")
    return found

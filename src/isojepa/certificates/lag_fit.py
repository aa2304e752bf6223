r"""Splitting autocorrelation curves into Hermite degrees: the rate and the shares together.

In a Gaussian world whose latents all decay as e^{-K k}, the curve of any function of them is

    r(k) = sum over d >= 1 of s_d e^{-K d k} + s_noise [k = 0],       s >= 0, sum s = 1.

For a given K the shares are a non-negative least-squares fit, so only K is searched (variable projection).
The curves of the slowest functions share K and are fitted together, each with shares of its own; the nearer
one of them is to a single exponential, the better it pins K down. The pooled curve by itself does it better
where all directions are alike. Whichever leaves the narrower region gives K, and K gives the shares.

K/2 can imitate K, with only even degrees, and never fits worse. What rules it out is the law of the slowest
function, which says how much of it must be of degree 1 (see `lag_law`); where it says nothing, nothing is
assumed, and the rate is as wide as the curves leave it. `strain` tells how much worse the best K that obeys
the law fits than the best of all.

The interval of the linear share holds what a test does not reject at the rate, and at both ends of its
region.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.certificates.lag_curves import Curves
from isojepa.certificates.mixture import Whitener, fit_many, fit_shares, share_interval
from isojepa.statistics.intervals import Interval

_COARSE, _FINE = 60, 25  # rates tried
_RANGE = 5.0  # largest over smallest rate tried
_REGION = 3.84  # misfit in excess of the least that chance explains, with 95 %
_MARGIN = 9.0  # the same for the rates that redrawn curves may choose
STRAIN = 10.0  # from which the law does not fit the curves
_ONE_SIDE = 0.975  # quantile at which Student's law is compared with the normal one
_HEAVY = 1.25  # redrawn errors of products with heavy tails are too small by so much
_LEAST = 1e-12  # dispersion, 1 where errors are as they should be, of curves that never change


@dataclass(frozen=True)
class LagFit:
    """The rate, the shares and their redrawn copies.

    Attributes:
        rate: K per step.
        rate_draws: (draws,).
        region: lowest and highest rate that fit about as well.
        strain: how much worse the rate fits than the best that lets degree 1 be absent.
        shares: (degree + 2,) of degrees 1 .. degree, of degrees above, of noise.
        share_draws: (draws, degree + 2).
        linear: share of degree 1, with the ends of its interval over the rates of the region.
        fitted: (t,) the pooled curve of the fit.
        misfit: squared misfit of the pooled curve, in units of its errors.
        misfit_draws: the same of curves that are the fit plus redrawn errors.
    """

    rate: float
    rate_draws: np.ndarray
    region: tuple[float, float]
    strain: float
    shares: np.ndarray
    share_draws: np.ndarray
    linear: Interval
    fitted: np.ndarray
    misfit: float
    misfit_draws: np.ndarray


@dataclass(frozen=True)
class Metric:
    """What a misfit is measured in: the lags, their working metric, each curve's dispersion, the degree."""

    lags: np.ndarray
    whitener: Whitener
    dispersion: np.ndarray
    degree: int

    def of(self, chosen: slice) -> "Metric":
        """The same for some of the curves."""
        return Metric(self.lags, self.whitener, self.dispersion[chosen], self.degree)


def fit_lags(
    curves: Curves,
    whitener: Whitener,
    degree: int,
    rate: float | None,
    least: float = 0.0,
    confidence: float = 0.95,
) -> LagFit:
    """Fit the first curve, with the rate from all others, the slowest first, or as given.

    Args:
        curves: the pooled one, then those of slow functions.
        whitener: their metric.
        degree: the highest to tell apart.
        rate: K, if it is known.
        least: share of the slowest function that is known to be of degree 1.
        confidence: of the interval of the linear share.
    """
    metric = Metric(curves.lags, whitener, curve_dispersion(curves, whitener), degree)
    values, draws = curves.values[0], curves.draws[:, 0]
    best, rate_draws, region, strain = (
        (rate, np.full(len(draws), rate), (rate, rate), 0.0)
        if rate is not None
        else _narrower(
            _search(curves.values[:1], curves.draws[:, :1], metric.of(slice(0, 1)), least),
            _search(curves.values[1:], curves.draws[:, 1:], metric.of(slice(1, None)), least),
        )
    )
    columns = basis(best, curves.lags, degree)
    shares, misfit = fit_shares(columns, values, whitener)
    fitted = columns @ shares
    share_draws = np.empty((len(draws), degree + 2))
    for one in np.unique(rate_draws):
        own = rate_draws == one
        found, _ = fit_many(basis(one, curves.lags, degree), draws[own], whitener)
        share_draws[own] = _grouped(found, degree)
    errors = _errors(curves)
    tested = [
        share_interval(basis(one, curves.lags, degree), values, errors, whitener, confidence)
        for one in dict.fromkeys((best, *region))
    ]
    return LagFit(
        rate=best,
        rate_draws=rate_draws,
        region=region,
        strain=strain,
        shares=_grouped(shares[None], degree)[0],
        share_draws=share_draws,
        linear=Interval(tested[0].estimate, min(one.low for one in tested), max(one.high for one in tested)),
        fitted=fitted,
        misfit=misfit / metric.dispersion[0],
        misfit_draws=fit_many(columns, fitted + draws - values, whitener)[1] / metric.dispersion[0],
    )


def _errors(curves: Curves) -> np.ndarray:
    """Redrawn errors of the first curve: centered, and larger the fewer pieces they were drawn from."""
    drawn = curves.draws[:, 0] - curves.draws[:, 0].mean(0)
    pieces = max(curves.units, 3.0)
    student = scipy.special.stdtrit(pieces - 1, _ONE_SIDE) / scipy.special.ndtri(_ONE_SIDE)
    larger: np.ndarray = _HEAVY * drawn * student * np.sqrt(pieces / (pieces - 1))
    return larger


def curve_dispersion(curves: Curves, whitener: Whitener) -> np.ndarray:
    """Mean squared error of each curve in the working metric; 1 where that is exactly right."""
    errors = curves.draws - curves.values
    dispersion: np.ndarray = np.maximum(whitener.square(errors).mean(0) / len(curves.lags), _LEAST)
    return dispersion


def basis(rate: float, lags: np.ndarray, degree: int) -> np.ndarray:
    """(t, columns): degrees 1 .. degree, sparser ones above until they are gone after one lag, and noise."""
    degrees = [float(d) for d in range(1, degree + 1)]
    while degrees[-1] * rate * lags[0] < 3:
        degrees.append(max(degrees[-1] + 1, 1.4 * degrees[-1]))
    columns: np.ndarray = np.c_[np.exp(-rate * np.outer(lags, degrees)), np.zeros(len(lags))]
    return columns


def _grouped(shares: np.ndarray, degree: int) -> np.ndarray:
    """(count, degree + 2): the wanted degrees, those above together, and noise."""
    grouped: np.ndarray = np.c_[shares[:, :degree], shares[:, degree:-1].sum(1), shares[:, -1]]
    return grouped


def profile(rates: np.ndarray, values: np.ndarray, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """Misfit of all curves (count, curves, t) together at each rate, and the first one's share of degree 1.

    Both are (count, rates).
    """
    count, curves, lags = values.shape
    misfits, linear = np.empty((2, count, len(rates)))
    for index, rate in enumerate(rates):
        columns = basis(rate, metric.lags, metric.degree)
        shares, own = fit_many(columns, values.reshape(-1, lags), metric.whitener)
        misfits[:, index] = (own.reshape(count, curves) / metric.dispersion).sum(1)
        linear[:, index] = shares.reshape(count, curves, -1)[:, 0, 0]
    return misfits, linear


_Found = tuple[float, np.ndarray, tuple[float, float], float]


def _narrower(first: _Found, second: _Found) -> _Found:
    """The search of the narrower region, of those that do not strain the law."""
    easy = [one for one in (first, second) if one[3] <= STRAIN] or [second]
    return min(easy, key=lambda one: one[2][1] / one[2][0])


def _search(values: np.ndarray, draws: np.ndarray, metric: Metric, least: float) -> _Found:
    """The rate, its redrawn copies, its region, and the strain."""
    top = 1.15 * slowest_decay(values, metric.lags)
    coarse = np.geomspace(top, top / _RANGE, _COARSE)
    free, linear = profile(coarse, values[None], metric)
    bound = _obeying(free, linear, least)[0]
    near = np.flatnonzero(bound <= bound.min() + _MARGIN)
    step = coarse[0] / coarse[1]
    rates = np.geomspace(coarse[near[0]] * step, coarse[near[-1]] / step, _FINE)
    misfits = _obeying(*profile(rates, values[None], metric), least)[0]
    redrawn = rates[np.argmin(_obeying(*profile(rates, draws, metric), least), axis=1)]
    region = rates[misfits <= misfits.min() + _REGION]
    strain = float(max(0.0, misfits.min() - free.min()))
    return float(rates[np.argmin(misfits)]), redrawn, (float(region.min()), float(region.max())), strain


def _obeying(misfits: np.ndarray, linear: np.ndarray, least: float) -> np.ndarray:
    """Misfits with those rates ruled out at which the slowest function would be less linear than it is."""
    # where no rate is allowed, the one nearest to it
    allowed = linear >= np.minimum(least, linear.max(1, keepdims=True))
    return np.where(allowed, misfits, np.inf)


def slowest_decay(values: np.ndarray, lags: np.ndarray) -> float:
    """Mean decay of the slowest curve up to the lag where it is nearest to 0.4: no less than K."""
    slow = values.max(0)
    at = int(np.argmin(np.abs(slow - 0.4)))
    return float(-np.log(np.clip(slow[at], 1e-3, 1 - 1e-6)) / lags[at])

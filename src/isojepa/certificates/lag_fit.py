r"""Splitting autocorrelation curves into Hermite degrees: the rate and the shares together.

In a Gaussian world whose latents all decay as e^{-K k}, the curve of any function of them is

    r(k) = sum over d >= 1 of s_d e^{-K d k} + s_noise [k = 0],       s >= 0, sum s = 1.

For a given K the shares are a non-negative least-squares fit, so only K is searched (variable projection).
The curves of the slowest functions share K and are fitted together, each with shares of its own; the nearer
one of them is to a single exponential, the better it pins K down. The pooled curve by itself does it better
where all directions are alike. Whichever leaves the narrower region gives K, and K gives the shares.

K/2 can imitate K, with only even degrees, and never fits worse. So there is a convention: the slowest
function must be mostly of degree 1, by half of its variance or more. The marginals must bear it out (see
`lag_checks`), and `strain` tells how much worse the best K that obeys it fits than the best of all.
"""

from dataclasses import dataclass

import numpy as np

from isojepa.certificates.lag_curves import Curves
from isojepa.certificates.mixture import Whitener, fit_many, fit_shares

_COARSE, _FINE = 60, 25  # rates tried
_RANGE = 5.0  # largest over smallest rate tried
_REGION = 3.84  # misfit in excess of the least that chance explains, with 95 %
_MARGIN = 9.0  # the same for the rates that redrawn curves may choose
STRAIN = 10.0  # from which the convention does not fit the curves
_MOSTLY = 0.5  # of the slowest function's variance that must be of degree 1


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
        linear_region: lowest and highest share of degree 1 at the rates of the region.
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
    linear_region: tuple[float, float]
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


def fit_lags(curves: Curves, whitener: Whitener, degree: int, rate: float | None) -> LagFit:
    """Fit the first curve, with the rate from all others, the slowest first, or as given."""
    metric = Metric(curves.lags, whitener, curve_dispersion(curves, whitener), degree)
    values, draws = curves.values[0], curves.draws[:, 0]
    best, rate_draws, region, strain = (
        (rate, np.full(len(draws), rate), (rate, rate), 0.0)
        if rate is not None
        else _narrower(
            _search(curves.values[:1], curves.draws[:, :1], metric.of(slice(0, 1))),
            _search(curves.values[1:], curves.draws[:, 1:], metric.of(slice(1, None))),
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
    ends = [fit_shares(basis(end, curves.lags, degree), values, whitener)[0][0] for end in region]
    return LagFit(
        rate=best,
        rate_draws=rate_draws,
        region=region,
        strain=strain,
        shares=_grouped(shares[None], degree)[0],
        share_draws=share_draws,
        linear_region=(float(min(ends)), float(max(ends))),
        fitted=fitted,
        misfit=misfit / metric.dispersion[0],
        misfit_draws=fit_many(columns, fitted + draws - values, whitener)[1] / metric.dispersion[0],
    )


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
    """The search of the narrower region, of those that do not strain the convention."""
    easy = [one for one in (first, second) if one[3] <= STRAIN] or [second]
    return min(easy, key=lambda one: one[2][1] / one[2][0])


def _search(values: np.ndarray, draws: np.ndarray, metric: Metric) -> _Found:
    """The rate, its redrawn copies, its region, and the strain."""
    top = 1.15 * slowest_decay(values, metric.lags)
    coarse = np.geomspace(top, top / _RANGE, _COARSE)
    free, linear = profile(coarse, values[None], metric)
    bound = _obeying(free, linear)[0]
    near = np.flatnonzero(bound <= bound.min() + _MARGIN)
    step = coarse[0] / coarse[1]
    rates = np.geomspace(coarse[near[0]] * step, coarse[near[-1]] / step, _FINE)
    misfits = _obeying(*profile(rates, values[None], metric))[0]
    redrawn = rates[np.argmin(_obeying(*profile(rates, draws, metric)), axis=1)]
    region = rates[misfits <= misfits.min() + _REGION]
    strain = float(max(0.0, misfits.min() - free.min()))
    return float(rates[np.argmin(misfits)]), redrawn, (float(region.min()), float(region.max())), strain


def _obeying(misfits: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Misfits with those rates ruled out at which the slowest function would not be mostly linear."""
    # where no rate is allowed, the one nearest to it
    allowed = linear >= np.minimum(_MOSTLY, linear.max(1, keepdims=True))
    return np.where(allowed, misfits, np.inf)


def slowest_decay(values: np.ndarray, lags: np.ndarray) -> float:
    """Mean decay of the slowest curve up to the lag where it is nearest to 0.4: no less than K."""
    slow = values.max(0)
    at = int(np.argmin(np.abs(slow - 0.4)))
    return float(-np.log(np.clip(slow[at], 1e-3, 1 - 1e-6)) / lags[at])

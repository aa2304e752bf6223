r"""The largest R^2 of any encoder of frames, which show angles modulo 2 pi only.

Let theta ~ N(0, s^2), phi = theta mod 2 pi, and p_w the wrapped normal density of phi,

    p_w(phi) = sum_k p(phi + 2 pi k) = 1/(2 pi) sum_k exp(-k^2 s^2 / 2) cos(k phi).

A frame is a function of phi, so of all functions of frames the conditional mean explains most of theta:

    m(phi) = E[theta | phi] = sum_k (phi + 2 pi k) p(phi + 2 pi k) / p_w(phi) = -s^2 (log p_w)'(phi),
    R^2 <= Var m / s^2 = 1 - E Var(theta | phi) / s^2 = s^2 E ((log p_w)'(phi))^2,

the Fisher information of the wrapped normal over that of the normal. Independent joints are bounded one by
one, and no correlation of a function of frames with theta is larger, so R^2 of the embedding given the angles
has the same ceiling. At s = 1 it is 0.949: the angles beyond +-pi are few (0.17 %), but each is 2 pi off.

The optimum of the alignment is another function: the f(phi) with the largest E f(phi) f(phi') of variance 1.
In the basis sin(k phi) both sides are known in closed form, since E cos(j theta + k theta') =
exp(-s^2 (j^2 + k^2 + 2 rho j k) / 2); `aligned_r2` solves that eigenproblem. SIGReg asks for a third: an
embedding that is normal. Of those that rise with the angle it is Phi^-1(F_w(phi)), F_w the distribution of
phi, whose R^2 is `normal_r2`: 0.931 at s = 1. An optimum of the loss lies between, wherever its weight is.
"""

import math

import numpy as np

from isojepa.data.processes import check_rho
from isojepa.validation import check_count, check_number

_REACH = 12.0  # deviations beyond which the normal density adds nothing in float64
_NODES = 16
_HARMONICS = 64
_RANK = 1e-12  # of the largest variance, below which combinations of sines are rounding


def r2_ceiling(spread: float = 1.0) -> float:
    """The largest R^2 between an angle and a function of the angle modulo 2 pi.

    Args:
        spread: of the angle, in radians (standard deviation).

    Example:
        >>> round(r2_ceiling(), 3)
        0.949
    """
    phi, weights = _nodes(spread)
    return 2 * float((weights * conditional_mean(phi, spread) ** 2).sum()) / spread**2


def normal_r2(spread: float = 1.0) -> float:
    """R^2 between the angle and the function of its frame that is normal and rises with it.

    What an embedding would have that is exactly as SIGReg asks.

    Args:
        spread: of the angle (standard deviation).

    Example:
        >>> round(normal_r2(), 3)
        0.931
    """
    from scipy.special import ndtr, ndtri  # seldom needed, slow to import

    phi, weights = _nodes(spread)
    turn, _ = _windings(0.0, spread)
    # the share of angles that look larger than phi, up to half a turn: small where phi is large, and exact
    above = (ndtr(-(phi[:, None] + turn) / spread) - ndtr(-(math.pi + turn) / spread)).sum(-1)
    return (2 * float((weights * -ndtri(above) * conditional_mean(phi, spread)).sum())) ** 2 / spread**2


def sample_ceiling(angles: np.ndarray, spread: float = 1.0) -> np.ndarray:
    """The R^2 that the conditional mean has on some angles: the ceiling of those, by the luck of their tails.

    Of 10,000 angles with deviation 1, 17 lie beyond +-pi, give or take 4, and carry all of the loss.

    Args:
        angles: (n, joints) drawn from N(0, spread^2).
        spread: their standard deviation.

    Returns:
        (joints,), each 1 - mean squared error / variance.
    """
    angles = np.asarray(angles, dtype=float)
    error = ((angles - conditional_mean(angles, spread)) ** 2).mean(0)
    return np.asarray(1 - error / angles.var(0))


def conditional_mean(phi: float | np.ndarray, spread: float = 1.0) -> np.ndarray:
    """E[theta | theta mod 2 pi = phi], by the sum over windings.

    Args:
        phi: angles, any shape.
        spread: of theta (standard deviation).
    """
    angles, weights = _windings(phi, spread)
    return np.asarray((angles * weights).sum(-1) / weights.sum(-1))


def wrapped_density(phi: float | np.ndarray, spread: float = 1.0) -> np.ndarray:
    """Density of theta mod 2 pi."""
    angles, _ = _windings(phi, spread)
    return np.asarray(np.exp(-0.5 * (angles / spread) ** 2).sum(-1) / (spread * math.sqrt(2 * math.pi)))


def wrapped_share(spread: float = 1.0) -> float:
    """Share of angles beyond +-pi.

    Example:
        >>> round(wrapped_share(), 4)
        0.0017
    """
    return math.erfc(math.pi / (_check_spread(spread) * math.sqrt(2)))


def aligned_r2(rho: float, spread: float = 1.0, harmonics: int = _HARMONICS) -> float:
    """R^2 between the angle and the function of its frame that the alignment is best at.

    What training without end would reach if SIGReg asked for variance 1 alone.

    Args:
        rho: correlation of the angles of a pair.
        spread: of the angle (standard deviation).
        harmonics: sines that the function is made of.
    """
    rho = float(check_rho(rho, 1))  # type: ignore[arg-type]
    _check_spread(spread)
    k = np.arange(1, check_count("harmonics", harmonics) + 1, dtype=float)
    j = k[:, None]

    def products(correlation: float) -> np.ndarray:
        """E sin(j theta) sin(k theta') for pairs of a correlation."""
        near = np.exp(-(spread**2) * (j**2 + k**2 - 2 * correlation * j * k) / 2)
        far = np.exp(-(spread**2) * (j**2 + k**2 + 2 * correlation * j * k) / 2)
        return np.asarray((near - far) / 2)

    variances, white = np.linalg.eigh(products(1.0))
    positive = variances > _RANK * variances[-1]
    white = white[:, positive] / np.sqrt(variances[positive])
    best = white @ np.linalg.eigh(white.T @ products(rho) @ white)[1][:, -1]
    # Stein: E theta sin(k theta) = s^2 E k cos(k theta)
    along = spread**2 * k * np.exp(-(spread**2) * k**2 / 2)
    return float(best @ along) ** 2 / spread**2


def _windings(phi: float | np.ndarray, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """The angles (..., winding) that look like phi, and their weights up to a common factor."""
    most = math.ceil(_REACH * spread / (2 * math.pi)) + 1
    angles = np.asarray(phi, dtype=float)[..., None] + 2 * math.pi * np.arange(-most, most + 1)
    logs = -0.5 * (angles / spread) ** 2
    return angles, np.exp(logs - logs.max(-1, keepdims=True))


def _nodes(spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Places phi in (0, pi) and what each weighs under the wrapped law, for integrands that are even."""
    _check_spread(spread)
    # pieces as fine as the deviation, and as the place where the windings change, pi
    edges = np.concatenate((spread * np.linspace(0, _REACH, 25), np.linspace(0, math.pi, 65)))
    edges = np.unique(np.clip(edges, 0, math.pi))
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(edges)[:, None] / 2
    phi = (edges[:-1, None] + half * (nodes + 1)).ravel()
    return phi, (half * weights).ravel() * wrapped_density(phi, spread)


def _check_spread(spread: float) -> float:
    return check_number("spread", spread, "be positive and finite", lambda value: value > 0)

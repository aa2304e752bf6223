r"""Axes by shape, across the two views of a pair: what an encoder leaves turns them by less.

Let y_i = phi_1(z_i) and y_j = phi_1(z_j) + e phi_k(z_i): the encoder left a little of one latent on the axis
of the other. Both equations

    E[g(y_i) y_j - g(y_j) y_i] = 0   within a view,     E[g(y_i) y_j' - g(y_j) y_i'] = 0   across two,

are those of independent axes, for any g. To first order in e they turn axes from those of the latents by

    -e E[g(phi_1) phi_k] / (2 kappa)     and     -e c_k E[g(phi_1) phi_k] / (2 c_1 kappa),

c_k = exp(-lambda_k t) the correlation of phi_k across the pair and kappa = E g' - E g y: the second angle is
exp(-(lambda_k - lambda_1) t) of the first, whatever g is, and functions other than phi_1 are faster.
"""

import numpy as np
import scipy

from isojepa.distributions.sturm_liouville import Cells, cut
from isojepa_lab.theory.check import Parts, at_least, check, close
from isojepa_lab.theory.harmonics import LAWS

_CELLS = 96
_LEFT = 1e-3
_WIDEST = 0.1  # angle within which the axes are looked for


@check(
    "across-views",
    theorem="naming",
    step="Axes by shape",
    method="quadrature",
    covers="{laws} laws at correlations of 0.6 and 0.9, a third harmonic left on the axis of another latent",
    note="""Of a function of both latents that is odd in the second, such as z_j q(z_i), both equations see as
    much: what turns axes locally is not forgotten from view to view.""",
)
def across_views(order: int = 3, laws: int = len(LAWS)) -> Parts:
    """What an encoder leaves of one latent on another's axis turns axes across views by less.

    angle across / angle within = exp(-(lambda_k - lambda_1) t)
    """
    for name, law in list(LAWS.items())[:laws]:
        cells = cut(law, _CELLS)
        rates = cells.eigenvalues
        for correlation in (0.6, 0.9):
            time = -np.log(correlation) / rates[1]
            within, across = (_turn(cells, step) for step in (np.eye(len(rates)), cells.transition(time)))
            title = f"{name}, correlation {correlation}"
            expected = np.exp(-(rates[order] - rates[1]) * time)
            yield close(f"{title}: angle across / angle within", across / within, expected, 1e-3)
            yield at_least(f"{title}: by less", 1 - across / within, 0.05)


def _turn(cells: Cells, step: np.ndarray) -> float:
    """The angle at which the equation is 0; `step` takes a latent from the one view to the other."""
    functions = cells.vectors / np.sqrt(cells.mass)[:, None]
    first, remainder = functions[:, 1], functions[:, 3]
    mass = np.outer(cells.mass, cells.mass)
    y = np.array(np.broadcast_arrays(first[:, None], first + _LEFT * remainder[:, None]))

    def equation(angle: float) -> float:
        c, s = np.cos(angle), np.sin(angle)
        shifted, other = c * y[0] + s * y[1], c * y[1] - s * y[0]
        later = [step @ one @ step.T for one in (shifted, other)]
        return float((mass * (np.tanh(shifted) * later[1] - np.tanh(other) * later[0])).sum())

    return float(scipy.optimize.brentq(equation, -_WIDEST, _WIDEST, xtol=1e-14))

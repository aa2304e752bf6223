r"""A small network on top of a linear transition: h' = A s + B a + c + network(s, a).

The linear part stays as it was fitted in closed form; the network learns what it leaves, by the one loop, on
standardised inputs and residuals. A share of the episodes is held out: `gain` is how much
less of the embedding's variance is missed there than by the linear part alone, and where it is not positive
the network has learned nothing that holds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from isojepa.arguments import check_count, checked
from isojepa.certificates.dynamics.steps import Steps, read_steps
from isojepa.certificates.dynamics.transition import Transition, fit_steps
from isojepa.seeds import generator
from isojepa.training.regression import Standardised, fit_network


@dataclass(frozen=True)
class ResidualTransition:
    """A transition and a network that adds to it.

    Attributes:
        transition: the linear part.
        network: of (s, a), (history * dim + actions) to dim.
        gain: share of the variance, held out, that the network predicts beyond.
    """

    transition: Transition
    network: Standardised
    gain: float

    def predict(self, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The next embeddings (..., dim) of states (..., history * dim) and actions (..., actions)."""
        inputs = torch.from_numpy(np.concatenate((state, action), axis=-1)).float()
        added = self.network(inputs).double().numpy()
        return np.asarray(self.transition.predict(state, action) + added)


@checked
def fit_residual(
    h: Any,
    a: Any,
    h_next: Any = None,
    *,
    episodes: Any = None,
    history: int = 1,
    ridge: float = 0.0,
    width: int = 64,
    steps: int = 500,
    held_out: float = 0.2,
    seed: int = 0,
) -> ResidualTransition:
    """Fit a transition, and a network to what it leaves.

    Args:
        h, a, h_next, episodes, history, ridge: see `fit_transition`.
        width: of the network's hidden layer.
        steps: of its training.
        held_out: share of the episodes, or of the rows at the end where there is one episode.
        seed: deals episodes, draws the network and its batches.

    Raises:
        ValueError: as `fit_transition`; or held_out is no share.
    """
    if not 0 < held_out < 1:
        raise ValueError(f"held_out must lie in (0, 1), got {held_out}")
    check_count("steps", steps)
    given = read_steps(h, a, h_next, episodes=episodes, history=history)
    other = _held_out(given, held_out, seed)
    train, test = given.rows(~other), given.rows(other)
    linear = fit_steps(train, ridge)
    left = train.next - linear.predict(train.state, train.action)
    x, y = (torch.from_numpy(rows) for rows in (train.inputs, left))
    network = fit_network(x, y, width=check_count("width", width), layers=2, steps=steps, seed=seed)
    found = ResidualTransition(linear, network, 0.0)
    missed = [
        float(((test.next - one.predict(test.state, test.action)) ** 2).sum()) for one in (linear, found)
    ]
    spread = float(((test.next - train.next.mean(0)) ** 2).sum())
    return ResidualTransition(linear, network, (missed[0] - missed[1]) / spread)


def _held_out(rows: Steps, share: float, seed: int) -> np.ndarray:
    """(n,) which rows are held out: those of some episodes, or the last of one."""
    ids = np.unique(rows.episode)
    if len(ids) == 1:
        return np.arange(len(rows)) >= round((1 - share) * len(rows))
    count = min(max(1, round(share * len(ids))), len(ids) - 1)
    order = torch.randperm(len(ids), generator=generator(seed, "split")).numpy()
    return np.isin(rows.episode, ids[order[:count]])

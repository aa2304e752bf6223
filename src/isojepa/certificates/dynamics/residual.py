r"""A small network on top of a linear transition: h' = A s + B a + c + network(s, a).

The linear part stays as it was fitted in closed form; the network learns what it leaves, on standardised
inputs and residuals, by Adam with a seed of its own. A share of the episodes is held out: `gain` is how much
less of the embedding's variance is missed there than by the linear part alone, and where it is not positive
the network has learned nothing that holds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import check_count, checked
from isojepa.certificates.dynamics.steps import Steps, read_steps
from isojepa.certificates.dynamics.transition import Transition, fit_steps
from isojepa.encoders.mlp import MLP
from isojepa.seeds import generator


@dataclass(frozen=True)
class ResidualTransition:
    """A transition and a network that adds to it.

    Attributes:
        transition: the linear part.
        network: of standardised (s, a), (history * dim + actions) to dim.
        centre, scale: of the inputs.
        unit: (dim,) deviations of what the linear part left.
        gain: share of the variance, held out, that the network predicts beyond.
    """

    transition: Transition
    network: MLP
    centre: np.ndarray
    scale: np.ndarray
    unit: np.ndarray
    gain: float

    def predict(self, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The next embeddings (..., dim) of states (..., history * dim) and actions (..., actions)."""
        inputs = (np.concatenate((state, action), axis=-1) - self.centre) / self.scale
        with torch.no_grad():
            added = self.network(torch.from_numpy(inputs).float()).double().numpy()
        return np.asarray(self.transition.predict(state, action) + added * self.unit)


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
    batch: int = 256,
    rate: float = 3e-3,
    held_out: float = 0.2,
    seed: int = 0,
) -> ResidualTransition:
    """Fit a transition, and a network to what it leaves.

    Args:
        h, a, h_next, episodes, history, ridge: see `fit_transition`.
        width: of the network's hidden layer.
        steps: of Adam.
        batch: rows in each.
        rate: the first learning rate; it falls to 0 as a cosine.
        held_out: share of the episodes, or of the rows at the end where there is one episode.
        seed: deals episodes, draws the network and its batches.

    Raises:
        ValueError: as `fit_transition`; or held_out is no share.
    """
    if not 0 < held_out < 1:
        raise ValueError(f"held_out must lie in (0, 1), got {held_out}")
    check_count("steps", steps)
    rows = read_steps(h, a, h_next, episodes=episodes, history=history)
    other = _held_out(rows, held_out, seed)
    train, test = rows.rows(~other), rows.rows(other)
    linear = fit_steps(train, ridge)
    centre, scale = train.inputs.mean(0), train.inputs.std(0)
    left = train.next - linear.predict(train.state, train.action)
    unit = left.std(0) + np.finfo(float).tiny
    network = MLP(train.inputs.shape[1], rows.dim, check_count("width", width), 2, seed)
    _train(network, _floats((train.inputs - centre) / scale), _floats(left / unit), steps, batch, rate, seed)
    found = ResidualTransition(linear, network.eval(), centre, scale, unit, 0.0)
    missed = [
        float(((test.next - one.predict(test.state, test.action)) ** 2).sum()) for one in (linear, found)
    ]
    spread = float(((test.next - train.next.mean(0)) ** 2).sum())
    return ResidualTransition(linear, network, centre, scale, unit, (missed[0] - missed[1]) / spread)


def _held_out(rows: Steps, share: float, seed: int) -> np.ndarray:
    """(n,) which rows are held out: those of some episodes, or the last of one."""
    ids = np.unique(rows.episode)
    if len(ids) == 1:
        return np.arange(len(rows)) >= round((1 - share) * len(rows))
    count = min(max(1, round(share * len(ids))), len(ids) - 1)
    order = torch.randperm(len(ids), generator=generator(seed, "split")).numpy()
    return np.isin(rows.episode, ids[order[:count]])


def _train(network: MLP, x: Tensor, y: Tensor, steps: int, batch: int, rate: float, seed: int) -> None:
    source = generator(seed, "batches")
    adam = torch.optim.Adam(network.parameters(), lr=rate)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for _ in range(steps):
        index = torch.randint(len(x), (min(batch, len(x)),), generator=source)
        loss = (network(x[index]) - y[index]).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        falling.step()


def _floats(values: np.ndarray) -> Tensor:
    return torch.from_numpy(values).float()

r"""The transition in the latent, fitted on recorded episodes: linear, with a small network for the rest.

    s_{t+b} = A s_t + B (a_t, ..., a_{t+b-1}) + c + network(s_t, a_t, ...)

over blocks of b steps of the plant, s_t being an encoder's latents with their change (see `perception`). Rows
are from episodes with actions, never from pairs that no action made; the error is that of held-out episodes.

A frame shows an angle modulo 2 pi, so the latent of an arm that turns jumps somewhere, and trained encoders
err grossly at poses that they were rarely shown. A few such rows would bend the fit of all others: rows whose
residual is 15 times the median one are left out, the fit is made anew, three times over, and how many rows
were left out is told. The score is of all held-out rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from isojepa.arguments import check_count
from isojepa.encoders.world_model import Stepwise
from isojepa.linear import errors, r2_of
from isojepa.names import choose
from isojepa.planning.closed_loop.perception import Encoder
from isojepa.planning.closed_loop.plants import Plant
from isojepa.planning.closed_loop.recording import check_space
from isojepa.planning.planners.problems import LinearDynamics
from isojepa.training.regression import Standardised, fit_network
from isojepa.worlds.episodes import Episodes

KINDS = {"linear": 0, "network": 3}  # layers of the network
_OUTLIER, _ROUNDS = 15, 3  # median residuals beyond which a row is left out, and how often that is done


@dataclass(frozen=True)
class Encoded:
    """Episodes as a planner sees them.

    Attributes:
        latents: (steps_i, dim) s_t of each episode, from the row on that has one before it.
        actions: (steps_i, m) of the same rows; the last is NaN.
        goal_width: columns of h alone.
    """

    latents: Sequence[np.ndarray]
    actions: Sequence[np.ndarray]
    goal_width: int

    def rows(self, block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(n, dim), (n, block m), (n, dim): before, the actions of a block one after the other, after.

        Raises:
            ValueError: no episode is that long.
        """
        found = []
        for h, a in zip(self.latents, self.actions, strict=True):
            count = len(h) - block
            if count > 0:
                acted = np.stack([a[step : step + count] for step in range(block)], 1)
                found.append((h[:count], acted.reshape(count, -1), h[block:]))
        if not found:
            longest = max(map(len, self.latents)) + 1
            raise ValueError(f"episodes must have more than {block + 1} rows, got {longest} at most")
        before, acted, after = (np.concatenate(part) for part in zip(*found, strict=True))
        return before, acted, after

    def blocked(self, block: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Latents of each episode, and the actions of the block that begins there; whole blocks alone."""
        latents, actions = [], []
        for h, a in zip(self.latents, self.actions, strict=True):
            count = len(h) - block
            if count > 1:
                latents.append(h[:count])
                acted = np.stack([a[step : step + count] for step in range(block)], 1)
                actions.append(acted.reshape(count, -1))
        return latents, actions


def encode(plant: Plant, encoder: Encoder, episodes: Episodes, lag: int = 1) -> Encoded:
    """Episodes through an encoder; frames are drawn if it needs them.

    Args:
        plant: that they are of.
        encoder: of poses, by what is seen of them.
        episodes: all of them are encoded.
        lag: rows over which the change is taken.

    Raises:
        ValueError: actions have another width than the plant's, or no episode is longer than the lag.
    """
    check_space(episodes, plant.space)
    longest = int(episodes.lengths.max())
    if longest <= check_count("lag", lag):
        raise ValueError(f"episodes must have more rows than lag, {lag}, got {longest} at most")
    h = encoder(plant, np.concatenate(episodes.vectors("qpos"))).double().numpy()
    parts = np.split(h, np.cumsum(episodes.lengths)[:-1])
    latents = [np.concatenate((part[lag:], part[lag:] - part[:-lag]), 1) for part in parts if len(part) > lag]
    actions = [a[lag:] for a in episodes.vectors("action") if len(a) > lag]
    return Encoded(latents, actions, h.shape[1])


@dataclass(frozen=True)
class LatentModel(Stepwise):
    """A fitted model of the latent.

    Attributes:
        linear: A, B and c.
        network: what it adds; None for a linear one. Its maps are read at the first step.
        r2: held-out share of the variance of s_{t+b} - s_t that it explains, mean over coordinates.
        outliers: rows that were left out of the fit.
    """

    linear: LinearDynamics
    network: Standardised | None
    r2: float
    outliers: int = 0

    def step(self, h: Tensor, a: Tensor) -> Tensor:
        """The next latents (batch, dim) of latents (batch, dim) after actions (batch, m)."""
        if self.network is None:
            return self.linear.step(h, a)
        matrix, offset, hidden, last = self._products
        x = torch.cat((h, a), 1)
        moved = torch.addmm(offset, x, matrix)
        for weight, bias in hidden:
            x = functional.gelu(functional.linear(x, weight, bias))
        return torch.addmm(moved, x, last)

    @cached_property
    def _products(self) -> tuple[Tensor, Tensor, tuple[tuple[Tensor, Tensor], ...], Tensor]:
        """The same model, up to rounding, in few products: 300 rows take less than what is around them.

        The linear part as one matrix, the hidden maps of the network, and its last map, whose bias is with
        the offset.
        """
        assert self.network is not None
        with torch.inference_mode(False):  # whoever steps first without gradients leaves them to the next
            *hidden, (last, bias) = self.network.maps()
            matrix = torch.cat((self.linear.a, self.linear.b), 1).to(last)
            return matrix.T, self.linear.offset.to(bias) + bias, tuple(hidden), last.T


def fit_model(
    fitted: Encoded,
    held_out: Encoded,
    *,
    block: int = 1,
    kind: str = "network",
    steps: int = 1000,
    seed: int = 0,
) -> LatentModel:
    """Fit a model on some episodes and score it on others.

    Args:
        fitted, held_out: episodes through the same encoder.
        block: steps of the plant in one of the model.
        kind: "linear", or "network" for the rest too.
        steps: of training the network.
        seed: draws its weights and rows.

    Raises:
        ValueError: the kind is unknown, or episodes are too short or too few.
    """
    layers = choose("kind", kind, KINDS)
    before, acted, after = fitted.rows(check_count("block", block))
    linear, kept = fit_robust(before, acted, after)
    linear = linear.to(torch.zeros(0))
    before, acted, after = before[kept], acted[kept], after[kept]
    network = None
    if layers:
        x = torch.from_numpy(np.concatenate((before, acted), 1)).float()
        h, a = x.split([before.shape[1], acted.shape[1]], 1)
        rest = torch.from_numpy(after).float() - linear.step(h, a)
        network = fit_network(x, rest, layers=layers, steps=steps, seed=seed)
    found = LatentModel(linear, network, 0.0)
    return LatentModel(linear, network, score(found, held_out, block), int((~kept).sum()))


def fit_robust(before: np.ndarray, acted: np.ndarray, after: np.ndarray) -> tuple[LinearDynamics, np.ndarray]:
    """The linear model of most rows (n, dim), (n, m), (n, dim), and which rows those are, (n,)."""
    kept = np.full(len(before), True)
    for _ in range(_ROUNDS):
        model = LinearDynamics.fit(before[kept], acted[kept], after[kept])
        told = model.step(torch.from_numpy(before), torch.from_numpy(acted)).numpy()
        size = np.linalg.norm(after - told, axis=1)
        kept = size <= max(_OUTLIER * float(np.median(size)), np.finfo(np.float32).eps)
    return LinearDynamics.fit(before[kept], acted[kept], after[kept]), kept


def score(model: Stepwise, held_out: Encoded, block: int) -> float:
    """Share of the variance of the change over a block that a model explains, mean over coordinates."""
    before, acted, after = held_out.rows(block)
    with torch.no_grad():
        told = model.step(torch.from_numpy(before).float(), torch.from_numpy(acted).float())
    residual, spread = errors(after - before, told.double().numpy() - before)
    return float(r2_of(residual.sum(0), spread.sum(0)).mean())

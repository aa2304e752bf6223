"""Dynamics: anything that encodes observations and predicts latents under actions.

    encode    observations (..., time, *obs)                           -> latents (..., time, dim)
    rollout   latents (..., context, dim), actions (..., horizon, m)   -> latents (..., horizon, dim)

Action i of a rollout leads from the latent before it to latent i of the result. `context` is the number of
frames that a prediction needs: one frame shows no velocity. Planners, certificates and evaluations take any
`Dynamics`: a trained `WorldModel`, a fitted linear transition, a simulator, models of other packages.
"""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class Dynamics(Protocol):
    """An action-conditioned model of latents."""

    @property
    def context(self) -> int:
        """Number of latents that a prediction starts from."""
        ...

    def encode(self, observations: Any) -> Tensor:
        """Latents (..., time, dim) of observations (..., time, *obs), each frame by itself."""
        ...

    def rollout(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Latents (..., horizon, dim) after actions (..., horizon, m), from latents (..., context, dim)."""
        ...


class Stepwise:
    """Base class of dynamics that are given by one step: context 1, rollouts step by step.

    Observations are latents already, unless a subclass encodes them.

    Example:
        >>> class Integrator(Stepwise):
        ...     def step(self, h, a):
        ...         return h + a
        >>> Integrator().rollout(torch.zeros(1, 2), torch.ones(3, 2))[:, 0]
        tensor([1., 2., 3.])
    """

    context: int = 1

    def step(self, h: Tensor, a: Tensor) -> Tensor:
        """The next latents (batch, dim) of latents (batch, dim) after actions (batch, m)."""
        raise NotImplementedError(f"{type(self).__name__} must define step(h, a)")

    def encode(self, observations: Any) -> Tensor:
        """Observations (..., time, dim) as they are."""
        return torch.as_tensor(observations)

    def rollout(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Latents (..., horizon, dim) after each action."""
        h, visited = latents[..., -1, :].reshape(-1, latents.shape[-1]), []
        for action in actions.reshape(-1, *actions.shape[-2:]).unbind(-2):
            h = self.step(h, action)
            visited.append(h)
        return torch.stack(visited, -2).view(*actions.shape[:-1], h.shape[-1])

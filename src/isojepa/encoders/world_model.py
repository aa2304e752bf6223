r"""World models: the `Dynamics` protocol, predictors, and the trainable `WorldModel`.

A `WorldModel` is an encoder and an action-conditioned predictor of its latents:

    h_t     = encoder(x_t)
    h_{t+1} = h_t + A s_t + B a_t + c + network(s_t, a_t),    s_t = (h_{t-context+1}, ..., h_t)

Observations and actions are standardized by their mean and standard deviation in the training data. The
predictor starts near the identity: its linear part is small and the last layer of its network 0. One frame
shows no velocity: set `context` to 2 or more if observations contain none.

`Dynamics` is the protocol of models that encode observations and predict latents under actions:

    encode    observations (..., time, *obs)                           -> latents (..., time, dim)
    rollout   latents (..., context, dim), actions (..., horizon, m)   -> latents (..., horizon, dim)

Action i of a rollout leads from the previous latent to latent i of the result. `context` is the number of
frames that a prediction needs. Planners, certificates and evaluations accept any `Dynamics`: a trained
`WorldModel`, a fitted linear transition, a simulator, models of other packages.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from isojepa.data.episodes import Windows
from isojepa.data.source import Source
from isojepa.encoders.layers import linear
from isojepa.encoders.mlp import MLP
from isojepa.encoders.model import evaluating
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator
from isojepa.validation import check_count, validate_types

LATENT_RANGE = 4.0  # the predictor clamps its inputs to it, so that rollouts cannot explode
CALIBRATION_WINDOWS = 4096  # to standardize observations and actions
_CHUNK = 8192  # frames per call of the encoder


class Standardize(nn.Module):
    """(x - mean) / scale with fitted buffers."""

    @validate_types
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = check_count("size", size)
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    mean: Tensor
    scale: Tensor

    def fit(self, x: Tensor) -> None:
        """Fit mean and scale to rows (n, size); constant columns keep scale 1."""
        x = x.reshape(-1, self.size).double()
        scale = x.std(0, correction=0)
        self.mean.copy_(x.mean(0))
        self.scale.copy_(torch.where(scale > 1e-6 * x.abs().amax(0).clamp_min(1e-12), scale, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        standardized: Tensor = (x.to(self.mean.dtype) - self.mean) / self.scale
        return standardized


class VectorEncoder(nn.Module):
    """An MLP of standardized vectors.

    Args:
        in_dim: dimension of an observation.
        out_dim: of the latent.
        width, layers: of the MLP.
        seed: initializes the weights.
    """

    @validate_types
    def __init__(self, in_dim: int, out_dim: int, width: int = 128, layers: int = 3, seed: int = 0) -> None:
        super().__init__()
        self.in_dim, self.out_dim, self.width, self.layers, self.seed = in_dim, out_dim, width, layers, seed
        self.standardize = Standardize(in_dim)
        self.network = MLP(in_dim, out_dim, width, layers, seed)

    def forward(self, x: Tensor) -> Tensor:
        """Latents (batch, out_dim) of observations (batch, in_dim)."""
        h: Tensor = self.network(self.standardize(x))
        return h


class Predictor(nn.Module):
    """The next latent: the current one, plus a linear map and a small network of context and action.

    Args:
        dim: of a latent.
        actions: dimension of an action.
        context: number of input latents.
        width: hidden dimension of the network; 0 for a linear predictor.
        seed: initializes the weights.
    """

    @validate_types
    def __init__(self, dim: int, actions: int, context: int = 1, width: int = 128, seed: int = 0) -> None:
        super().__init__()
        self.dim, self.context, self.seed = check_count("dim", dim), check_count("context", context), seed
        self.actions, self.width = check_count("actions", actions), check_count("width", width, 0)
        inputs = context * dim + actions
        self.linear = linear(inputs, dim, generator(seed, "predictor"))
        with torch.no_grad():
            for parameter in self.linear.parameters():
                parameter.mul_(0.1)
        self.network: MLP | None = None
        if width:
            self.network = MLP(inputs, dim, width, 3, seed)
            for parameter in self.network.body[-1].parameters():
                nn.init.zeros_(parameter)

    def forward(self, context: Tensor, action: Tensor) -> Tensor:
        """The next latents (batch, dim) of contexts (batch, context * dim) and actions (batch, actions)."""
        inputs = torch.cat((context.clamp(-LATENT_RANGE, LATENT_RANGE), action), dim=1)
        h: Tensor = context[:, -self.dim :] + self.linear(inputs)
        if self.network is not None:
            h = h + self.network(inputs)
        return h


class WorldModel(nn.Module):
    """A trainable `Dynamics`: an encoder and a predictor of its latents under actions.

    `isojepa.fit` builds the default encoder and predictor for the shapes of its data, and standardizes both.

    Args:
        dim: of a latent.
        encoder: module from observations (batch, *obs) to latents (batch, dim); by default an MLP of
            standardized vectors.
        predictor: module from contexts (batch, context * dim) and standardized actions (batch, actions) to
            the next latents (batch, dim); by default a `Predictor`.
        context: number of input latents of the predictor; one frame shows no velocity.
        width: hidden dimension of the default encoder and predictor; 0 makes the predictor linear.
        layers: of the default encoder.
        observed: dimension of an observation, for the default encoder; `fit` sets it.
        actions: dimension of an action; `fit` sets it.
        observation_ndim: axes of one observation; `fit` sets it.
        seed: initializes the weights.

    Example:
        >>> model = WorldModel(dim=4, observed=3, actions=1)
        >>> h = model.encode(torch.zeros(5, 1, 3))
        >>> model.rollout(h, torch.zeros(5, 10, 1)).shape
        torch.Size([5, 10, 4])
    """

    @validate_types
    def __init__(
        self,
        dim: int,
        encoder: nn.Module | None = None,
        predictor: nn.Module | None = None,
        context: int = 1,
        width: int = 128,
        layers: int = 3,
        observed: int | None = None,
        actions: int | None = None,
        observation_ndim: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.dim, self.context = check_count("dim", dim), check_count("context", context)
        self.width, self.layers = check_count("width", width, 0), check_count("layers", layers)
        self.observed, self.observation_ndim, self.seed = observed, observation_ndim, seed
        self.actions: int | None = None
        self.encoder, self.predictor = encoder, predictor
        self._make(observed, actions)

    def _make(self, observed: int | None, actions: int | None) -> None:
        """Build the modules that depend on the dimensions of observations and actions, once known."""
        if self.encoder is None and observed is not None:
            self.observed = check_count("observed", observed)
            self.encoder = VectorEncoder(observed, self.dim, max(self.width, 16), self.layers, self.seed)
        if actions is None:
            return
        self.actions = check_count("actions", actions)
        self.standardize = Standardize(actions)
        self.register_buffer("action_bounds", torch.tensor([-1.0, 1.0])[:, None].expand(2, actions).clone())
        self.register_buffer("discrete", torch.tensor(False))
        self.register_buffer("calibrated", torch.tensor(False))
        if self.predictor is None:
            self.predictor = Predictor(self.dim, actions, self.context, self.width, self.seed)

    action_bounds: Tensor
    discrete: Tensor
    calibrated: Tensor

    @torch.no_grad()
    def calibrate(self, source: Source) -> None:
        """Fit shapes and standardization to a source of windows; a calibrated model only checks the shapes.

        Raises:
            ValueError: the source has no actions, or other shapes than the model was made for.
        """
        shapes, actions = source.facts.shapes, source.facts.actions
        if actions is None or shapes is None:
            raise ValueError(
                "a WorldModel needs a source with actions, such as Episodes or isojepa.data.Windows, got "
                f"{type(source).__name__}"
            )
        shape = tuple(shapes[0])
        if self.encoder is None and len(shape) != 1:
            raise ValueError(
                f"observations must be vectors for the default encoder, got shape {shape}: pass a module as "
                "WorldModel(dim, encoder=...)"
            )
        sizes = {"observations": (self.observed, shape[0]), "actions": (self.actions, actions)}
        for name, (size, width) in sizes.items():
            if size is not None and width != size:
                raise ValueError(f"{name} must have {size} numbers, as the model was made for, got {width}")
        self.observation_ndim = len(shape)
        if self.actions is None:
            self._make(shape[0] if self.encoder is None else None, actions)
        if bool(self.calibrated):
            return
        windows = source.sample(CALIBRATION_WINDOWS, generator(0, "calibration"))
        assert windows.actions is not None  # facts.actions says so
        if isinstance(self.encoder, VectorEncoder):
            self.encoder.standardize.fit(torch.cat(windows.views))
        rows = windows.actions.flatten(0, 1)
        self.discrete.fill_(_one_hot(rows))
        if not self.discrete:
            self.standardize.fit(rows)
        bounds = source.bounds if isinstance(source, Windows) else None
        extremes = torch.stack((rows.amin(0), rows.amax(0)))
        self.action_bounds.copy_(extremes if bounds is None else _inside(*bounds))
        self.calibrated.fill_(True)

    def forward(self, x: Tensor) -> Tensor:
        """Latents (batch, dim) of observations (batch, *obs)."""
        if self.encoder is None:
            raise ValueError(
                "a WorldModel without data has no encoder: train it with fit, or give observed and actions"
            )
        h: Tensor = self.encoder(x)
        return h

    @torch.no_grad()
    def encode(self, observations: Any) -> Tensor:
        """Latents (..., time, dim) of observations (..., time, *obs), in evaluation mode.

        Raises:
            ValueError: observations have another shape than the training data, or are not finite.
        """
        x = torch.as_tensor(observations, device=self.action_bounds.device)
        lead = x.shape[: x.ndim - self.observation_ndim]
        flat = x.reshape(-1, *x.shape[len(lead) :])
        flat = flat.float() if flat.dtype == torch.float64 else flat
        if self.observed is not None and flat.shape[1:] != (self.observed,):
            raise ValueError(f"observations must be (..., time, {self.observed}), got {tuple(x.shape)}")
        if flat.is_floating_point() and not bool(torch.isfinite(flat).all()):
            raise ValueError("observations must be finite, got NaN or Inf")
        with evaluating(self):
            h = torch.cat([self(part) for part in flat.split(_CHUNK)])
        return h.view(*lead, h.shape[-1])

    def rollout(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Latents (..., horizon, dim) after actions (..., horizon, m), from latents (..., context, dim)."""
        assert self.predictor is not None
        past = latents.reshape(-1, self.context * latents.shape[-1])
        steps = actions.reshape(-1, *actions.shape[-2:]).transpose(0, 1)
        steps = self.standardize(steps.to(past.dtype)).contiguous()
        visited = []
        for action in steps.unbind():
            h = self.predictor(past, action)
            visited.append(h)
            past = h if self.context == 1 else torch.cat((past[:, self.dim :], h), 1)
        return torch.stack(visited, 1).view(*actions.shape[:-1], h.shape[-1])

    def extra_repr(self) -> str:
        return f"dim={self.dim}, context={self.context}"


def _inside(low: Any, high: Any) -> Tensor:
    """(2, m) bounds in float32, rounded inwards so that they do not exceed those of float64."""
    low, high = (np.asarray(bound, np.float64) for bound in (low, high))
    first, last = low.astype(np.float32), high.astype(np.float32)
    first = np.where(first < low, np.nextafter(first, np.float32(np.inf)), first)
    last = np.where(last > high, np.nextafter(last, np.float32(-np.inf)), last)
    return torch.from_numpy(np.stack((first, last)))


def _one_hot(rows: Tensor) -> bool:
    """Whether rows (n, m) are one-hot."""
    return bool(rows.shape[1] > 1 and ((rows == 0) | (rows == 1)).all() and (rows.sum(1) == 1).all())


@register("encoder", "world-model")
@dataclass(frozen=True)
class WorldModelSpec(Spec):
    """Encoder and action-conditioned predictor, for recorded episodes with actions."""

    dim: int = 8
    """Latent dimension."""
    context: int = 1
    """Number of input frames of a prediction; one frame shows no velocity."""
    width: int = 128
    """Hidden dimension of encoder and predictor; 0 makes the predictor linear."""
    layers: int = 3
    """Number of linear maps of the encoder."""

    def build(self, context: Context) -> WorldModel:
        if context.actions is None:
            raise ValueError("world-model needs recorded episodes with actions: --data FILE")
        return WorldModel(
            self.dim,
            context=self.context,
            width=self.width,
            layers=self.layers,
            observed=context.observed,
            actions=context.actions,
            seed=context.seed,
        )


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
    """Base class of dynamics defined by a single step, with context 1.

    Observations are latents, unless a subclass overrides `encode`.

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

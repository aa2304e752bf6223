"""A policy that soft actor-critic learned: a small network read from safetensors, never from a pickle.

    h = relu(W2 relu(W1 x + b1) + b2),      action = tanh(mean(h) + exp(log_std(h)) * noise)

as the actor of stable-baselines3 computes it (Haarnoja et al. 2018), for a whole batch of arms at once.
"""

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from isojepa.opening import plain_file
from isojepa.worlds.control.arm import OBSERVED

ACTOR = Path(__file__).with_name("reacher_sac.safetensors")
_LOG_STD = (-20.0, 2.0)  # what stable-baselines3 clamps it to
_LAYERS = ("first", "second", "mean", "log_std")
_WIDEST = 4096


class Actor:
    """A policy with two hidden layers.

    Args:
        weights: `first.weight` (hidden, 5), `second.weight` (hidden, hidden), `mean.weight` and
            `log_std.weight` (2, hidden), and a `.bias` to each.

    Raises:
        ValueError: a tensor is missing, has another shape or is not finite.
    """

    def __init__(self, weights: dict[str, Tensor]) -> None:
        first = weights.get("first.weight")
        hidden = 0 if first is None else len(first)
        shapes = {
            "first": (hidden, OBSERVED),
            "second": (hidden, hidden),
            "mean": (2, hidden),
            "log_std": (2, hidden),
        }
        if not 0 < hidden <= _WIDEST:
            raise ValueError(f"first.weight must have 1 to {_WIDEST} rows, got {hidden}")
        self._layers: dict[str, tuple[Tensor, Tensor]] = {}
        for name, shape in shapes.items():
            for part, expected in (("weight", shape), ("bias", shape[:1])):
                found = weights.get(f"{name}.{part}")
                if found is None or tuple(found.shape) != expected or not torch.isfinite(found).all():
                    got = "nothing" if found is None else tuple(found.shape)
                    raise ValueError(f"{name}.{part} must be finite and of shape {expected}, got {got}")
            self._layers[name] = (weights[f"{name}.weight"].float(), weights[f"{name}.bias"].float())

    @classmethod
    def load(cls, path: Path = ACTOR) -> "Actor":
        """Read one from a safetensors file; by default the one that comes with the package.

        Raises:
            ValueError: the file is missing, damaged or holds something else.
        """
        from safetensors.torch import load_file

        plain_file(path)
        try:
            return cls(load_file(path))
        except Exception as error:  # safetensors has errors of its own
            raise ValueError(f"{path} cannot be read as an actor: {error}") from error

    def save(self, path: Path, notes: dict[str, str] | None = None) -> None:
        """Write it as safetensors, with notes in the header."""
        from safetensors.torch import save_file

        from isojepa.files import write_whole

        tensors = {
            f"{name}.{part}": tensor.contiguous()
            for name, layer in self._layers.items()
            for part, tensor in zip(("weight", "bias"), layer, strict=True)
        }
        write_whole(path, lambda temporary: save_file(tensors, temporary, {"notes": json.dumps(notes or {})}))

    @torch.no_grad()
    def act(self, observations: np.ndarray, noise: Tensor | None = None) -> np.ndarray:
        """Actions (n, 2) in [-1, 1], float64.

        Args:
            observations: (n, 5), see `arm.observe`.
            noise: (n, 2) standard normal numbers; without them each action is the mode.
        """
        hidden = torch.from_numpy(observations)
        for name in ("first", "second"):
            hidden = torch.relu(torch.addmm(self._layers[name][1], hidden, self._layers[name][0].T))
        action = torch.addmm(self._layers["mean"][1], hidden, self._layers["mean"][0].T)
        if noise is not None:
            spread = torch.addmm(self._layers["log_std"][1], hidden, self._layers["log_std"][0].T)
            action = action + spread.clamp(*_LOG_STD).exp() * noise.float()
        return torch.tanh(action).double().numpy()

"""Activations by depth: one row per observation after each layer of a model, from first to last.

Layers are the blocks of a transformer, the stages of a timm model or a ResNet, or else the parts of the
deepest sequence that holds most of the weights (the convolutions of a plain network, the layers of an MLP).
Of the tokens of a transformer, [CLS] is used, or the mean if there is none; maps are averaged over positions.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from isojepa.encoders.model import Encoder, Model, as_model, device_of, evaluating, module_of

_CHAINS = ("blocks", "stages", "features")  # as timm and torchvision name them
_STAGES = ("layer1", "layer2", "layer3", "layer4")


def layers_of(model: Encoder | Model) -> dict[str, nn.Module]:
    """The layers of a model by name, in order.

    Raises:
        ValueError: it is a function, or has no sequence of layers.

    Example:
        >>> list(layers_of(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4))))
        ['0', '2']
    """
    module = module_of(model)
    if module is None:
        raise ValueError(f"layers are those of a torch module, got {type(model).__name__}")
    for name, part in module.named_modules():
        if all(hasattr(part, stage) for stage in _STAGES):
            return {_joined(name, stage): getattr(part, stage) for stage in _STAGES}
        for chain in _CHAINS:
            inner = getattr(part, chain, None)
            if isinstance(inner, nn.Sequential | nn.ModuleList) and _weighed(inner):
                return _children(_joined(name, chain), inner)
    chains = [
        (name, part)
        for name, part in module.named_modules()
        if isinstance(part, nn.Sequential | nn.ModuleList) and len(_weighed(part)) > 1
    ]
    if not chains:
        raise ValueError(
            f"{type(module).__name__} must have layers in a row, got none: hand them in yourself"
        )
    name, part = max(chains, key=lambda chain: sum(one.numel() for one in chain[1].parameters()))
    return _children(name, part)


def layer_rows(model: Encoder | Model, x: Tensor, layers: Sequence[str] | None = None) -> dict[str, Tensor]:
    """Rows (batch, dim) after each layer, without gradients, in evaluation mode, on the CPU.

    Args:
        model: with a sequence of layers.
        x: observations (batch, ...).
        layers: names of `layers_of`; all by default.

    Example:
        >>> rows = layer_rows(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4)), torch.zeros(5, 2))
        >>> [tuple(part.shape) for part in rows.values()]
        [(5, 3), (5, 4)]
    """
    parts = layers_of(model)
    chosen = {name: parts[name] for name in (parts if layers is None else layers)}
    rows: dict[str, Tensor] = {}
    prefix = _prefix_tokens(model)
    hooks = [
        part.register_forward_hook(
            lambda _part, _input, out, name=name: rows.update({name: _row(out, prefix)})
        )
        for name, part in chosen.items()
    ]
    try:
        with evaluating(model), torch.no_grad():
            as_model(model).features(x.to(device_of(model)))
    finally:
        for hook in hooks:
            hook.remove()
    return {name: rows[name] for name in chosen if name in rows}


def _children(name: str, chain: nn.Module) -> dict[str, nn.Module]:
    return {_joined(name, inner): part for inner, part in _weighed(chain).items()}


def _weighed(chain: nn.Module) -> dict[str, nn.Module]:
    """The parts of a sequence with weight matrices; norms and activations belong to the part before."""
    return {
        name: part for name, part in chain.named_children() if any(one.ndim > 1 for one in part.parameters())
    }


def _row(out: Any, prefix: int) -> Tensor:
    rows: Tensor = out[0] if isinstance(out, tuple) else out
    if rows.ndim == 4:
        rows = rows.mean((-2, -1))
    elif rows.ndim == 3:
        rows = rows[:, 0] if prefix else rows.mean(1)
    return rows.float().cpu()


def _prefix_tokens(model: Encoder | Model) -> int:
    module = module_of(model)
    parts = [] if module is None else module.modules()
    return max((int(getattr(part, "num_prefix_tokens", 0)) for part in parts), default=0)


def _joined(*names: str) -> str:
    return ".".join(name for name in names if name)

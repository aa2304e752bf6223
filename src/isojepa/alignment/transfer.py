r"""A probe of one encoder for another, without training: a2 = W^{-T} a (Social-JEPA, Algorithm 2, Probe).

The map goes from encoder 1 to encoder 2, z2 ~ W z1, and the head was fitted on rows of encoder 1. The head
that takes rows of encoder 2 is the old one behind the map's inverse. With V = diag(s1) W_inv diag(1/s2),
where s1 and s2 are the scales that the map standardised by and m1, m2 the means,

    A2 = A V            b2 = b + A m1 - A2 m2

so that A2 z + b2 = A inverse_transform(z) + b for any row z of encoder 2, to rounding. W_inv is the inverse
where the map's condition is at most its threshold, else its pseudo-inverse (`AlignmentMap.inverse_`):
directions that encoder 2 hardly has are then left out of the head instead of being blown up.

The inverse undoes W as if z2 had no part that z1 does not explain. Where it has one, and W is far from a
rotation, the inverse blows that part up. A map that was fitted backwards, from encoder 2 to encoder 1, is
the best linear guess of z1 and does not: with it the head is A2 = A W21, and nothing is inverted.
"""

from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import nn

from isojepa.alignment.estimators import carried_estimator, is_estimator
from isojepa.alignment.heads import LinearHead
from isojepa.alignment.maps import AlignmentMap
from isojepa.linear import LinearMap
from isojepa.probes.linear import Logistic
from isojepa.validation import short_repr

T = TypeVar("T")


def transfer_head(head: T, fitted: AlignmentMap, *, backwards: bool = False) -> T:
    """The head for encoder 2 from a head for encoder 1.

    Args:
        head: of encoder 1: a `LinearHead`, a `Logistic` of this package, an `nn.Linear`, or a fitted
            estimator of scikit-learn. Linear ones of it, also at the end of a pipeline of StandardScalers,
            become a new estimator of their class; any other estimator, and any other module of torch, is
            put behind the map's inverse.
        fitted: the map from encoder 1 to encoder 2.
        backwards: whether the map goes from encoder 2 to encoder 1 instead; nothing is inverted then.

    Raises:
        ValueError: the head takes rows of another width than the map starts from, or is none of these.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z1, w = rng.normal(size=(200, 3)), rng.normal(size=(3, 3))
        >>> fitted = AlignmentMap("ols").fit(z1, z1 @ w.T + 5)
        >>> head = LinearHead([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]], [0.5, 0.0])
        >>> bool(np.allclose(transfer_head(head, fitted).logits(z1 @ w.T + 5), head.logits(z1)))
        True
    """
    backward = fitted.affine() if backwards else backward_map(fitted)
    found: Any
    if isinstance(head, LinearHead):
        found = LinearHead(*_carried(head.weight, head.bias, backward), classes=head.classes)
    elif isinstance(head, Logistic):
        weight, bias = _carried(head.weight.T, head.bias, backward)
        found = Logistic(np.ascontiguousarray(weight.T), bias)
    elif isinstance(head, nn.Linear) and type(head) is nn.Linear:
        found = _carried_layer(head, backward)
    elif isinstance(head, nn.Module):
        found = nn.Sequential(_layer(backward, head), head)
    elif is_estimator(head):
        found = carried_estimator(head, backward)
    else:
        raise ValueError(
            "head must be a LinearHead, a Logistic, a torch module or an estimator of scikit-learn, got "
            f"{short_repr(head)}"
        )
    return cast(T, found)


def backward_map(fitted: AlignmentMap) -> LinearMap:
    """`fitted.inverse_transform` as one affine map of rows: z1 ~ (z2 - center) matrix + offset."""
    matrix = fitted.scale_in_[:, None] * fitted.inverse_ / fitted.scale_out_
    return LinearMap(np.ascontiguousarray(matrix.T), fitted.mean_out_, fitted.mean_in_)


def _carried(weight: np.ndarray, bias: np.ndarray, backward: LinearMap) -> tuple[np.ndarray, np.ndarray]:
    """Weight (outputs, dim 1) and bias (outputs,) to weight (outputs, dim 2) and bias, in float64."""
    if weight.shape[1] != backward.matrix.shape[1]:
        raise ValueError(
            f"the head must take the {backward.matrix.shape[1]} columns that the map starts from, got "
            f"{weight.shape[1]}: a map goes from the head's encoder to the other"
        )
    carried = weight.astype(np.float64) @ backward.matrix.T
    return carried, bias + weight @ backward.offset - carried @ backward.center


def _carried_layer(layer: nn.Linear, backward: LinearMap) -> nn.Linear:
    weight = layer.weight.detach().cpu().double().numpy()
    bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().cpu().double().numpy()
    return _filled(*_carried(weight, bias, backward), like=layer.weight)


def _layer(backward: LinearMap, head: nn.Module) -> nn.Linear:
    """The map as a layer, of the type and on the device of the module that it stands before."""
    like = next(head.parameters(), torch.zeros(()))
    return _filled(backward.matrix.T, backward.offset - backward.center @ backward.matrix, like=like)


def _filled(weight: np.ndarray, bias: np.ndarray, like: torch.Tensor) -> nn.Linear:
    layer = nn.utils.skip_init(nn.Linear, weight.shape[1], weight.shape[0])
    layer = layer.to(device=like.device, dtype=like.dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(weight)))
        layer.bias.copy_(torch.from_numpy(bias))
    return cast(nn.Linear, layer)

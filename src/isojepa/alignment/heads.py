r"""Linear heads: what is read off the rows of one encoder, x -> A x + b, and the file that keeps one.

A head may have been trained on standardised rows, (x - mean) / scale. That is folded in once,

    A (x - mean) / scale + b  =  (A / scale) x  +  (b - (A / scale) mean),

so that every head here takes rows as the encoder gives them. All in float64.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isojepa.alignment.rows import as_rows
from isojepa.io import parse_json
from isojepa.probes.linear import Logistic
from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.version import __version__

_NOTE = "isojepa-head"
_TENSORS = ("weight", "bias", "mean", "scale", "classes")


@dataclass(frozen=True, eq=False)
class LinearHead:
    """A linear classifier, or a linear readout of any kind, of rows as the encoder gives them.

    Args:
        weight: A, (outputs, dim) as torch and scikit-learn have it, or (dim,) for one output.
        bias: b, (outputs,) or a number; 0 by default.
        classes: names of the classes in the order of the outputs, of which one alone tells two apart by its
            sign; their numbers by default.
        mean, scale: (dim,) of the rows that the head was trained on, if those were standardised.

    Raises:
        ValueError: shapes do not fit, a number is not finite, or a scale is not positive.

    Example:
        >>> head = LinearHead([[2.0, 0.0], [0.0, 1.0]], [0.0, 1.0], classes=("left", "right"))
        >>> head([[3.0, 0.0], [0.0, 0.0]]).tolist(), head.named([[3.0, 0.0]])
        ([0, 1], ['left'])
    """

    weight: Any
    bias: Any = 0.0
    classes: tuple[str, ...] = ()
    mean: Any = None
    scale: Any = None

    def __post_init__(self) -> None:
        weight = np.atleast_2d(_array("weight", self.weight))
        if weight.ndim != 2 or 0 in weight.shape:
            raise ValueError(f"weight must be (outputs, dim), got shape {weight.shape}")
        outputs, dim = weight.shape
        bias = _array("bias", self.bias)
        bias = np.full(outputs, bias) if bias.ndim == 0 else bias
        if bias.shape != (outputs,):
            raise ValueError(f"bias must be {outputs} numbers, one for each output, got shape {bias.shape}")
        mean = np.zeros(dim) if self.mean is None else _array("mean", self.mean)
        scale = np.ones(dim) if self.scale is None else _array("scale", self.scale)
        for name, part in (("mean", mean), ("scale", scale)):
            if part.shape != (dim,):
                raise ValueError(f"{name} must be {dim} numbers as weight has columns, got {part.shape}")
        if (scale <= 0).any():
            raise ValueError(f"scale must be positive, got {scale.min()}")
        classes = tuple(map(str, self.classes))
        if classes and len(classes) != max(outputs, 2):
            raise ValueError(
                f"classes must be {max(outputs, 2)} for a head of {outputs} outputs, got {len(classes)}"
            )
        weight = weight / scale
        for name, value in {"weight": weight, "bias": bias - weight @ mean, "classes": classes}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "mean", None)  # folded in
        object.__setattr__(self, "scale", None)

    @classmethod
    def of(cls, classifier: Logistic, classes: tuple[str, ...] = ()) -> "LinearHead":
        """The head of a logistic regression of this package."""
        return cls(classifier.weight.T, classifier.bias, classes)

    @property
    def dim(self) -> int:
        """Width of the rows that it takes."""
        return int(self.weight.shape[1])

    @property
    def outputs(self) -> int:
        """How many numbers it gives for a row."""
        return int(self.weight.shape[0])

    def logits(self, rows: Any) -> np.ndarray:
        """A x + b of rows (n, dim): (n, outputs).

        Raises:
            ValueError: the rows are not finite, or have another width.
        """
        x = as_rows("rows", rows)
        if x.shape[1] != self.dim:
            raise ValueError(f"rows must have {self.dim} columns as the head takes, got {x.shape[1]}")
        return np.asarray(x @ self.weight.T + self.bias)

    def __call__(self, rows: Any) -> np.ndarray:
        """Numbers of the classes (n,): of the largest output, or whether the only one is positive."""
        found = self.logits(rows)
        return np.asarray(found[:, 0] > 0, dtype=np.int64) if self.outputs == 1 else found.argmax(1)

    def named(self, rows: Any) -> list[str]:
        """Names of the classes of rows."""
        names = self.classes or tuple(map(str, range(max(self.outputs, 2))))
        return [names[number] for number in self(rows)]

    def save(self, path: str | Path, notes: dict[str, Any] | None = None) -> None:
        """Write the head to a safetensors file: weight and bias in float64, and the classes' names.

        Args:
            path: of the file.
            notes: plain values that say where the head comes from.
        """
        told = {"version": __version__, "classes": list(self.classes), **(notes or {})}
        tensors = {"weight": torch.from_numpy(self.weight), "bias": torch.from_numpy(self.bias)}
        save_tensors(Path(path), tensors, {_NOTE: json.dumps(told, allow_nan=False)})

    @classmethod
    def load(cls, path: str | Path) -> "LinearHead":
        """Read a head: what `save` wrote, or tensors weight and, where there are any, bias, mean, scale.

        Names are torch's, so that the saved weights of an `nn.Linear` are a head; whole numbers "classes"
        name the outputs.

        Raises:
            ValueError: the file is missing, damaged, or something else.
        """
        tensors, header = load_tensors(Path(path))
        if "weight" not in tensors or not set(tensors) <= set(_TENSORS):
            raise ValueError(
                f"{path} must be a linear head: a tensor weight (outputs, dim), and bias, mean, scale, "
                f"classes where there are any; got {', '.join(sorted(tensors)[:6]) or 'no tensors'}"
            )
        try:
            notes = parse_json(header[_NOTE].encode()) if _NOTE in header else {}
            classes = tuple(notes.get("classes") or ())
        except (ValueError, AttributeError, TypeError) as error:
            raise ValueError(f"{path} has notes that cannot be read: {error}") from error
        if "classes" in tensors:
            classes = tuple(tensors.pop("classes").reshape(-1).tolist())
        try:
            return cls(**{name: tensor.numpy() for name, tensor in _plain(tensors)}, classes=classes)
        except ValueError as error:
            raise ValueError(f"{path} is no linear head: {error}") from error


def _plain(tensors: dict[str, torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    return [
        (name, tensor.double() if tensor.is_floating_point() else tensor) for name, tensor in tensors.items()
    ]


def _array(name: str, value: Any) -> np.ndarray:
    raw = value.detach().cpu() if isinstance(value, torch.Tensor) else value
    array = np.asarray(raw.float() if isinstance(raw, torch.Tensor) and raw.dtype == torch.bfloat16 else raw)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold numbers, got {array.dtype}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or Inf")
    return array.astype(np.float64)

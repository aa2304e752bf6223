"""What a model is fed, and what else a record tells of its source, looked at before it is used."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isojepa.names import shown


@dataclass(frozen=True)
class Input:
    """What a model is fed.

    Attributes:
        shape: of one observation; (channels, size, size) of a picture.
        mean, std: of each channel, that pixels in [0, 1] are normalised by; None for what is no picture, or
            where nobody knows.
        pictures: whether observations are pictures.
    """

    shape: tuple[int, ...]
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    pictures: bool = False


def known_of(told: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """What a result says of its source; what a source of somebody else's says besides is left out.

    Raises:
        ValueError: something is not of its kind.
    """
    good: dict[str, Callable[[Any], bool]] = {
        "shapes": lambda value: all(map(_is_shape, value)) if isinstance(value, list | tuple) else False,
        "size": _is_count,
        "classes": _is_count,
        "skipped": _is_count,
        "kind": lambda value: isinstance(value, str),
        "fingerprint": lambda value: isinstance(value, str),
        **dict.fromkeys(("mean", "std"), _is_numbers),
    }
    known = {key: told[key] for key in good if told.get(key) is not None}
    for key, value in known.items():
        if not good[key](value):
            raise ValueError(f"{path / 'result.json'}: {key} of its source cannot be {shown(value)}")
    return known


def _is_shape(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(_is_count(side) and side for side in value)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(number, int | float) and math.isfinite(number) for number in value
    )


def input_of(known: Mapping[str, Any], shape: Sequence[int] | None) -> Input:
    """What a model is fed, from what is known of its source, or a shape that somebody gives.

    Raises:
        ValueError: nobody knows the shape, or mean and std do not fit it.
    """
    if shape is None and known.get("shapes"):
        shape = max(known["shapes"], key=math.prod)  # global views are the largest
    if not _is_shape(shape):
        raise ValueError(
            f"shape of an observation must be positive integers, got {shape}: where the record does not tell "
            "it, give it, --shape 3 224 224"
        )
    sides = tuple(shape or ())
    mean, std = known.get("mean"), known.get("std")
    if mean is None or std is None:
        return Input(sides, pictures=len(sides) == 3)
    if len(sides) != 3 or not len(mean) == len(std) == sides[0] or min(std) <= 0:
        raise ValueError(f"mean and std must be {sides[0]} numbers, std positive, got {mean} and {std}")
    return Input(sides, tuple(map(float, mean)), tuple(map(float, std)), True)

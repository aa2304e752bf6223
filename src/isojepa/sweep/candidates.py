"""The runs among which one is to be chosen: what their records say without labels, and which can be compared.

A loss is comparable between runs that minimise the same thing of the same data: world, objective but for its
weight, batch. Encoders, learning rates, lengths, weights and seeds may differ; runs that differ in the seed
alone are repetitions of one setting.
"""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.training.identity import identity
from isojepa.training.records import Record

_DEEP = 3  # folders below the one that was named
_ROWS = 10  # of metrics, the last ones, that show how noisy a loss is
_WEIGHT = re.compile(r"\bweight=([-+0-9.e]+)")
_DRAWN = ("seed", "initial_weights", "models")  # of a config, what repetitions differ in


@dataclass(frozen=True)
class Candidate:
    """One finished run.

    Attributes:
        path: its record.
        weight: lambda of its objective; None if it has none.
        seed: of the run.
        loss: the training loss of its last window.
        noise: standard deviation of the logarithm of a window's loss around its trend; NaN for few windows.
        metrics: its last row.
        group: what runs must share to be compared.
        setting: what repetitions share.
        measures: rankme, lidar, gaussianity and gaussianity_p, as far as they are known.
        note: why they are not.
    """

    path: Path
    weight: float | None
    seed: int | None
    loss: float
    noise: float
    metrics: Mapping[str, float]
    group: str
    setting: str
    measures: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class LeftOut:
    """A record that is no candidate, and why."""

    path: Path
    reason: str


def find(paths: Sequence[str | Path]) -> list[Path]:
    """The records at or below some folders, in order of their names.

    Raises:
        ValueError: a path is no folder, or there are none.
    """
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            raise ValueError(f"{path} must be a folder of records, or a record, got none")
        found |= dict.fromkeys(_below(path, _DEEP))
    if not found:
        raise ValueError(
            f"{', '.join(map(str, paths))} must hold records, got none: folders with a config.json"
        )
    return list(found)


def read(path: Path) -> Candidate | LeftOut:
    """What a record says, or why its run cannot be chosen."""
    try:
        record = Record.open(path)
        config, result, rows = record.config, record.result, record.metrics
    except (ValueError, OSError) as error:
        return LeftOut(path, f"cannot be read: {error}")
    if result is None:
        return LeftOut(path, f"not finished: {rows[-1]['step'] if rows else 0} steps are known to be done")
    if result["status"] != "done":
        return LeftOut(path, f"{result['status']}: {result['reason']}")
    losses = np.array([row.get("loss", math.nan) for row in rows], dtype=float)
    if not len(losses) or not math.isfinite(losses[-1]):
        return LeftOut(path, "its metrics hold no finite loss")
    seed = config.get("seed")
    return Candidate(
        path,
        weight_of(config),
        seed if isinstance(seed, int) else None,
        float(losses[-1]),
        _noise(losses[-_ROWS:]),
        rows[-1],
        _group(config),
        _text({key: value for key, value in identity(config).items() if key not in _DRAWN}),
    )


def weight_of(config: Mapping[str, Any]) -> float | None:
    """Lambda of a config, also of one that describes Python objects in words.

    Example:
        >>> weight_of({"objective": {"name": "lejepa", "weight": 0.05}}), weight_of({"objective": "Mine()"})
        (0.05, None)
    """
    objective = config.get("objective")
    if isinstance(objective, dict):
        given = objective.get("weight")
        return float(given) if isinstance(given, int | float) and not isinstance(given, bool) else None
    told = _WEIGHT.search(objective) if isinstance(objective, str) else None
    try:
        return float(told[1]) if told else None
    except ValueError:
        return None


def difference_of(one: str, other: str) -> str:
    """The first thing in which two groups differ, in words."""
    a, b = json.loads(one), json.loads(other)
    for key in a:
        if a[key] == b[key]:
            continue
        if isinstance(a[key], dict) and isinstance(b[key], dict):
            part = next(name for name in sorted({*a[key], *b[key]}) if a[key].get(name) != b[key].get(name))
            return f"{key}.{part} {a[key].get(part)!r} and {b[key].get(part)!r}"
        return f"{key} {str(a[key])[:60]!r} and {str(b[key])[:60]!r}"
    return "nothing"


def _below(path: Path, deep: int) -> Iterator[Path]:
    if (path / "config.json").is_file():
        yield path
    elif deep:
        for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _below(Path(entry.path), deep - 1)


def _group(config: Mapping[str, Any]) -> str:
    objective = config.get("objective")
    if isinstance(objective, dict):
        objective = {key: value for key, value in objective.items() if key != "weight"}
    elif isinstance(objective, str):
        objective = _WEIGHT.sub("weight", objective, count=1)
    training = config.get("training")
    recipe = training if isinstance(training, dict) else {}
    # the Epps-Pulley statistic grows with the samples of which it is computed at once
    batch = {name: recipe.get(name) for name in ("batch", "accumulate")}
    sample = config.get("world_sample")
    return _text(
        {"world": config.get("world"), "world_sample": sample, "objective": objective, "training": batch}
    )


def _noise(losses: np.ndarray) -> float:
    """From second differences, which no straight trend reaches: each has 6 times the variance of a window."""
    if len(losses) < 4 or not (np.isfinite(losses).all() and (losses > 0).all()):
        return math.nan
    return float(np.sqrt((np.diff(np.log(losses), 2) ** 2).mean() / 6))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)

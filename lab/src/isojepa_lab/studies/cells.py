"""What a study is made of: cells, which are asked for, and rows, which were found.

A cell is a config with labels, or a computation with labels. It becomes one record, named by a hash of what
is asked for alone: studies that share a run share its record, whatever folder of records they are given.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from isojepa.config import Config, config_from
from isojepa.io import to_jsonable
from isojepa.training.run_directory import record_id

Label = str | int | float
RECORDS = Path("runs/studies")
_KIND = "computation"  # the key that distinguishes a computation from a config
_KINDS = {"labels": dict, "scores": dict, "status": str, "steps": int, "seconds": int | float, "record": str}


@dataclass(frozen=True)
class Computation:
    """What a study computes where it trains nothing.

    Attributes:
        settings: everything that decides the numbers, as plain values: text, numbers, or lists of them.
        study: whose `measure` computes it; the study fills it in when it lists its cells.
        seconds: that it takes, roughly, for estimates; no part of what it is.
    """

    settings: Mapping[str, Any]
    study: str = ""
    seconds: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if _KIND in self.settings:
            raise ValueError(f"settings of a computation must not be named {_KIND!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, which the record is named by."""
        return {_KIND: self.study, **to_jsonable(dict(self.settings))}


Asked = Config | Computation


@dataclass(frozen=True)
class Cell:
    """One run of a study.

    Attributes:
        config: what is trained, or computed.
        labels: what tables and figures group by, e.g. {"mixing": "spiral", "objective": "SIGReg", "seed": 0}.
    """

    config: Asked
    labels: Mapping[str, Label]

    @property
    def trained(self) -> Config:
        """The config of a cell that is trained.

        Raises:
            ValueError: it is a computation.
        """
        if not isinstance(self.config, Config):
            raise ValueError(f"a cell that is trained must have a Config, got {self.config!r}")
        return self.config

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a cell that is computed.

        Raises:
            ValueError: it is trained.
        """
        if not isinstance(self.config, Computation):
            raise ValueError(f"a cell that is computed must have a Computation, got {self.config!r}")
        return dict(self.config.settings)


def crossed(asked: Callable[..., Asked], **labels: Label | Iterable[Label]) -> list[Cell]:
    """A cell for each combination of labels, those named last changing first.

    Args:
        asked: labels -> what is trained, or computed.
        labels: name -> one value, or several.
    """
    several = ([group] if isinstance(group, str | int | float) else list(group) for group in labels.values())
    combined = (dict(zip(labels, values, strict=True)) for values in product(*several))
    return [Cell(asked(**one), one) for one in combined]


@dataclass(frozen=True)
class Row:
    """A finished run: its cell, how it ended and what was measured of it.

    Attributes:
        labels: of the cell.
        config: of the cell, as plain values.
        scores: see `isojepa_lab.studies.scores`; of a computation, whatever it returned.
        status: "done", "collapsed" or "diverged".
        steps, seconds: how long it trained; a computation has no steps.
        cpu_seconds: processor time of it; None in records from before it was kept.
        loss: the last window's mean loss in training; None if the run diverged before the first.
        record: name of the record's folder.
        resumed_at: steps at which it was resumed from a checkpoint; none for a computation, which starts
            again; None in records from before it was kept.
        commit: of the checkout that made it; None in records from before it was kept, and of a wheel.
        path: where the record is; None if the row comes from a file of rows.
    """

    labels: dict[str, Label]
    config: dict[str, Any]
    scores: dict[str, Any]
    status: str
    steps: int
    seconds: float
    loss: float | None
    record: str
    cpu_seconds: float | None = None
    resumed_at: list[int] | None = None
    commit: str | None = None
    path: Path | None = field(default=None, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """What is kept of the row, for JSON: all but its folder, `resumed_at` and `commit` where known."""
        omitted = {"path", *(name for name in ("resumed_at", "commit") if getattr(self, name) is None)}
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in omitted}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Row":
        """The row of plain values; the config is filled up with what was left out, and NaN is a number again.

        Raises:
            ValueError: something is missing or unknown.
        """
        try:
            row = cls(**data)
        except TypeError as error:
            raise ValueError(f"not a row of a study: {error}") from error
        for name, kind in _KINDS.items():
            if not isinstance(value := getattr(row, name), kind):
                raise ValueError(f"not a row of a study: {name} is {value!r}")
        return replace(
            row,
            config=asked_from(row.config).to_dict(),
            labels=numbers(row.labels),
            scores=numbers(row.scores),
            loss=numbers(row.loss),
        )


def record_of(asked: Asked, folder: str | Path = RECORDS) -> Path:
    """The folder of a cell's record."""
    return Path(folder) / record_id(asked.to_dict())


def is_computed(config: Any) -> bool:
    """Whether plain values are those of a computation."""
    return isinstance(config, Mapping) and _KIND in config


def asked_from(data: Any) -> Asked:
    """The config or the computation of plain values.

    Raises:
        ValueError: an unknown key or a value of the wrong type.
    """
    if not is_computed(data):
        return config_from(data)
    return Computation({key: value for key, value in data.items() if key != _KIND}, str(data[_KIND]))


def numbers(value: Any) -> Any:
    """Plain values with the names that JSON holds for NaN and Inf turned into numbers."""
    if isinstance(value, dict):
        return {key: numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [numbers(entry) for entry in value]
    return float(value) if isinstance(value, str) and value in ("nan", "inf", "-inf") else value

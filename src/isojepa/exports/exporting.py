"""Export: a record's model as a file that others read, beside a card that says what it is.

    model.safetensors or model.onnx    the model
    README.md                          its card
    export.json                        what the card is made from, and SHA-256 of the model
    config.json                        for timm, what its `local-dir:` and `hf-hub:` names read

The file is read back and compared with the trained model before the folder takes its place.
"""

import functools
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from isojepa.exports.card import card
from isojepa.exports.formats import write_onnx, write_safetensors, write_timm
from isojepa.exports.subject import MANIFEST, Subject, Written, check_place, open_subject, staged
from isojepa.io import to_jsonable, write_json, write_text
from isojepa.training.run_directory import RunDirectory
from isojepa.validation import choose, validate_types
from isojepa.version import __version__

FORMATS: Mapping[str, Callable[..., Written]] = {
    "timm": write_timm,
    "safetensors": write_safetensors,
    "onnx": write_onnx,
}


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        folder: where.
        file: the model.
        difference: the largest, between what the file and the trained model give.
        reader: what read it back; empty if nothing could.
        status: how the run ended: done, collapsed, diverged; or unfinished.
        facts: what the card is made from.
    """

    folder: Path
    file: Path
    difference: float
    reader: str
    status: str
    facts: dict[str, Any]


@validate_types
def export(
    record: str | Path | RunDirectory,
    to: str,
    out: str | Path | None = None,
    *,
    what: str = "features",
    data: str | Path | None = None,
    normalize: bool = True,
    measure: bool = True,
    name: str | None = None,
    model: nn.Module | None = None,
    shape: Sequence[int] | None = None,
    again: bool = False,
    trust: Collection[str] = (),
) -> Exported:
    """Write a record's model for others, with a card.

    Args:
        record: the record or its folder; one that is not finished is taken as its checkpoint has it.
        to: "timm", "safetensors" or "onnx".
        out: the folder to write; by default `export-FORMAT` in the record.
        what: "features", or "embedding", which the loss saw.
        data: where the record's pictures are, if not where they were.
        normalize: an ONNX graph takes pixels in [0, 1] and normalizes them itself.
        measure: test embeddings of the data for Gaussianity, where they can be opened.
        name: which model, where the run trained several; the first by default.
        model: a module to put the weights into, as of `isojepa.load`.
        shape: of one observation, where the record does not store it.
        again: replace an earlier export.
        trust: Python modules that may be imported to make the model, as of `isojepa.load`.

    Raises:
        ValueError: no record, the format has no place for the model, or the file would give something else.
        ImportError: a library is missing; the message names the command that installs it.

    Example:
        >>> import isojepa as ij
        >>> ij.export("runs/mine", "onnx").difference < 1e-4  # doctest: +SKIP
        True
    """
    write = choose("to", to, FORMATS)
    record = record if isinstance(record, RunDirectory) else RunDirectory.open(record)
    folder = record.path / f"export-{to}" if out is None else Path(out)
    check_place(folder, again)  # told before the work
    subject = open_subject(
        record, what=what, data=data, measured=measure, name=name, model=model, shape=shape, trust=trust
    )
    if to == "onnx":
        write = functools.partial(write_onnx, normalize=normalize)
    with staged(folder, again) as place:
        written = write(subject, place)
        facts = _facts(subject, to, written, place)
        write_text(place / "README.md", card(facts))
        write_json(place / MANIFEST, facts)
    return Exported(folder, folder / written.file, written.difference, written.reader, subject.status, facts)


def _facts(subject: Subject, to: str, written: Written, place: Path) -> dict[str, Any]:
    """All that the card says, as plain values."""
    record, result = subject.record, subject.record.result or {}
    settings = _settings(record.config)
    with open(place / written.file, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    rows = [row for row in record.metrics if row["step"] <= subject.step or not subject.step]
    training = record.config.get("training")
    steps = training.get("steps") if isinstance(training, dict) else None
    facts: dict[str, Any] = to_jsonable(
        {
            "isojepa": __version__,
            "title": _title(settings, subject),
            "format": to,
            "what": subject.what,
            "dim": subject.dim,
            "parameters": sum(parameter.numel() for parameter in subject.model.parameters()),
            "file": {
                "name": written.file,
                "bytes": (place / written.file).stat().st_size,
                "sha256": digest,
            },
            "library": written.library,
            "loading": written.loading,
            "notes": written.notes,
            "check": {"reader": written.reader, "largest_difference": written.difference},
            "record": {
                "id": record.id,
                "model": subject.name,
                "status": subject.status,
                "reason": subject.reason,
                "step": subject.step,
                "steps": steps if isinstance(steps, int) else 0,
            },
            "input": {**asdict(subject.input), "normalized_inside": written.normalizes},
            "data": {"name": _data_name(record.config), **subject.source},
            "settings": settings,
            "versions": {str(key): str(value) for key, value in (result.get("versions") or {}).items()},
        }
    )
    # NaN stays a number: they are not read back, and the card prints them
    return {**facts, "metrics": rows[-1] if rows else {}, "gaussianity": subject.gaussianity}


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """A record's config; of paths, which are private, the last name."""
    kept_settings = {key: value for key, value in config.items() if key not in ("models", "made_from")}
    world = kept_settings.get("world")
    if isinstance(world, dict) and isinstance(world.get("data"), str):
        kept_settings["world"] = {**world, "data": Path(world["data"]).name}
    return kept_settings


def _data_name(config: Mapping[str, Any]) -> str:
    world = config.get("world")
    return Path(str(world["data"])).name if isinstance(world, dict) and world.get("data") else ""


def _title(settings: Mapping[str, Any], subject: Subject) -> str:
    encoder, objective = settings.get("encoder"), settings.get("objective")
    kind = type(subject.model).__name__
    if isinstance(encoder, dict):
        kind = str(encoder.get("backbone") or encoder.get("name") or kind)
    by = str(objective["name"]) if isinstance(objective, dict) and "name" in objective else ""
    data = _data_name(settings)
    return kind + (f", trained with {by}" if by else ", trained") + (f" on {data}" if data else "")

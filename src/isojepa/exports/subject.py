"""The model that is exported: its inputs, its files and what is known of it.

What is exported: the model of a record, what it is fed, and what is known of it.

Model input, and what a run directory stores of its source, checked before use.

The folder of an export: whole or not there, and nothing of others is ever written over.

What a writer of a format leaves.
"""

import contextlib
import math
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isojepa import runs
from isojepa.config import config_from
from isojepa.data.images.image_sets import fingerprint
from isojepa.data.images.source import Images, ImagesSpec
from isojepa.data.source import Source, summary
from isojepa.encoders.backbones import Backbone
from isojepa.encoders.model import Headed, as_model, embed
from isojepa.io import check_folder
from isojepa.registry import Context, replace_settings
from isojepa.seeds import generator
from isojepa.training.checkpoints import weights_so_far
from isojepa.training.run_directory import RunDirectory
from isojepa.training.watch import measure
from isojepa.validation import choose, short_repr


@dataclass(frozen=True)
class Input:
    """What a model is fed.

    Attributes:
        shape: of one observation; (channels, size, size) of a picture.
        mean, std: of each channel, that pixels in [0, 1] are normalized by; None for what is no picture, or
            where it is unknown.
        pictures: whether observations are pictures.
    """

    shape: tuple[int, ...]
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    pictures: bool = False


def known_of(told: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The known entries of a result's source; other entries are dropped.

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
    facts = {key: told[key] for key in good if told.get(key) is not None}
    for key, value in facts.items():
        if not good[key](value):
            raise ValueError(f"{path / 'result.json'}: {key} of its source cannot be {short_repr(value)}")
    return facts


def _is_shape(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(_is_count(side) and side for side in value)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(number, int | float) and math.isfinite(number) for number in value
    )


def input_of(known: Mapping[str, Any], shape: Sequence[int] | None) -> Input:
    """Model input, from the stored source or a shape that the caller passes.

    Raises:
        ValueError: the shape is unknown, or mean and std do not fit it.
    """
    if shape is None and known.get("shapes"):
        shape = max(known["shapes"], key=math.prod)  # global views are the largest
    if not _is_shape(shape):
        raise ValueError(
            f"shape of an observation must be positive integers, got {shape}: if the record does not store "
            "it, give it, --shape 3 224 224"
        )
    sides = tuple(shape or ())
    mean, std = known.get("mean"), known.get("std")
    if mean is None or std is None:
        return Input(sides, pictures=len(sides) == 3)
    if len(sides) != 3 or not len(mean) == len(std) == sides[0] or min(std) <= 0:
        raise ValueError(f"mean and std must be {sides[0]} numbers, std positive, got {mean} and {std}")
    return Input(sides, tuple(map(float, mean)), tuple(map(float, std)), True)


WHAT = {"features": "what probes and users read", "embedding": "what the loss saw, behind the projector"}
_ROWS = 512  # states whose embeddings are tested for Gaussianity
_TEST_BATCHES = (1, 3)  # batches that a file is compared with the model on


class Answer(nn.Module):
    """A model as a function: one of its outputs, of pixels in [0, 1] where mean and deviation are given."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, what: str, given: Input | None = None) -> None:
        super().__init__()
        self.model, self.what = model, what
        self.normalizes = given is not None and given.mean is not None and given.std is not None
        if given is not None and given.mean is not None and given.std is not None:
            self.register_buffer("mean", torch.tensor(given.mean)[:, None, None])
            self.register_buffer("std", torch.tensor(given.std)[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        """Observations (batch, ...) to (batch, dim)."""
        if self.normalizes:
            x = (x - self.mean) / self.std
        model = as_model(self.model)
        return model.features(x) if self.what == "features" else model.embed(x)


@dataclass(frozen=True)
class Subject:
    """What is exported.

    Attributes:
        record: where it comes from.
        name: of the model in the record.
        trained: the whole model, in evaluation mode.
        what: "features" or "embedding".
        input: what it is fed.
        status: how the run ended: done, collapsed, diverged; or unfinished.
        reason: why, if not well.
        step: steps that were done.
        source: what is known of the data; empty where nothing is.
        gaussianity: numbers of embeddings of the data, or {"reason": why there are none}.
    """

    record: RunDirectory
    name: str
    trained: nn.Module
    what: str
    input: Input
    status: str
    reason: str
    step: int
    source: dict[str, Any]
    gaussianity: dict[str, Any]

    @property
    def model(self) -> nn.Module:
        """The part of the model that answers: without the head where features are asked for."""
        headed = isinstance(self.trained, Headed) and self.what == "features"
        return self.trained.backbone if headed else self.trained  # type: ignore[return-value]

    @property
    def backbone(self) -> Backbone | None:
        """Its backbone of pictures, if it is one of ours."""
        inner = self.trained.backbone if isinstance(self.trained, Headed) else self.trained
        return inner if isinstance(inner, Backbone) else None

    @cached_property
    def dim(self) -> int:
        """Of what it answers."""
        return int(self.answers(1)[1].shape[1])

    def answers(self, n: int, pixels: bool = False) -> tuple[Tensor, Tensor]:
        """Made-up observations, pixels in [0, 1] or about normal ones, and what the model makes of them."""
        draw = torch.rand if pixels else torch.randn
        x = draw(n, *self.input.shape, generator=generator(0, "export", n))
        with torch.no_grad():
            try:
                return x, Answer(self.model, self.what, self.input if pixels else None).eval()(x)
            except RuntimeError as error:
                raise ValueError(
                    f"the model does not take observations of shape {self.input.shape}: {error}"
                ) from error

    def difference(self, other: Callable[[Tensor], Any], tolerance: float, pixels: bool = False) -> float:
        """The largest difference between the model's answers and another's.

        Raises:
            ValueError: it is larger than the tolerance, times the largest answer if that is above 1.
        """
        largest = 0.0
        for n in _TEST_BATCHES:
            x, ours = self.answers(n, pixels)
            with torch.no_grad():
                theirs = torch.as_tensor(other(x))
            if theirs.shape != ours.shape:
                raise ValueError(
                    f"the file must give {tuple(ours.shape)}, got {tuple(theirs.shape)}: nothing was written"
                )
            apart = float((theirs - ours).abs().max())
            most = tolerance * max(1.0, float(ours.abs().max()))
            if not apart <= most:
                raise ValueError(
                    f"the file must give what the model gives within {most:.1g}, got a difference of "
                    f"{apart:.3g}: nothing was written"
                )
            largest = max(largest, apart)
        return largest


def open_subject(
    path: str | Path | RunDirectory,
    *,
    what: str = "features",
    data: str | Path | None = None,
    measured: bool = True,
    name: str | None = None,
    model: nn.Module | None = None,
    shape: Sequence[int] | None = None,
    trust: Collection[str] = (),
) -> Subject:
    """The model of a record, and what is known of it; see `isojepa.exports.export`.

    Raises:
        ValueError: no record, nothing trained yet, or unknown model input.
    """
    choose("what", what, WHAT)
    record = path if isinstance(path, RunDirectory) else RunDirectory.open(path)
    name = record.models[0] if name is None else name
    result = record.result
    source_facts = known_of((result or {}).get("source") or {}, record.path)
    opened, why = None, "it was not asked for"
    if measured or data is not None or not source_facts:
        opened, why = _opened(record, data)
    if opened is not None and not source_facts:
        source_facts = known_of(summary(opened), record.path)
        if data is not None and model is None:  # the record's own place may be empty
            config = config_from(record.config)
            model = config.encoder.build(runs.context_of(config, opened))
    trained = runs.load(record, model, name=name, unfinished=True, trust=trust)
    if result is None:
        status, reason, step = "unfinished", "", weights_so_far(record.checkpoint, name, record.id)[1]
    else:
        status, reason, step = result["status"], result["reason"], int(result.get("steps") or 0)
    model_input = input_of(source_facts, shape)
    tested = {"reason": why}
    if opened is not None:
        tested = (
            _tested(trained, opened, model_input, source_facts)
            if measured
            else {"reason": "it was not asked for"}
        )
    return Subject(record, name, trained, what, model_input, status, reason, step, source_facts, tested)


def _opened(record: RunDirectory, data: str | Path | None) -> tuple[Source | None, str]:
    """The source of a record, or of the data that the user names; else None, and why.

    The reason names no path: it goes into the card.
    """
    if record.config.get("made_from") == "python":
        if data is not None:
            raise ValueError(
                "data go with a record that a config describes, got one made from Python objects"
            )
        return None, "the run was made from Python objects, which cannot draw data again"
    config = config_from(record.config)
    world = config.world
    if data is not None:
        if not isinstance(world, ImagesSpec):
            raise ValueError(f"data go with a record of pictures, got one of the world {world.name!r}")
        return replace_settings(world, data=str(data)).build(Context(seed=config.seed)), ""
    try:
        return world.build(Context(seed=config.seed)), ""
    except (ValueError, OSError, ImportError):
        return None, "the data of the run could not be opened"


def _tested(trained: nn.Module, source: Source, given: Input, told: dict[str, Any]) -> dict[str, Any]:
    """Gaussianity of embeddings of the data, normalized as the run's were."""
    sentence = ""
    if isinstance(source, Images):
        sentence = fingerprint(source.pictures)
        source = Images(source.pictures, replace(source.views, mean=given.mean, std=given.std))
    h = embed(trained, source.sample(_ROWS, generator(0, "export")).views[0])
    numbers = measure(h)
    columns = ("gaussianity", "gaussianity_p", "effective_rank", "mean_length", "mean_variance", "nonfinite")
    return {
        "states": _ROWS,
        "dim": h.shape[1],
        "other_data": bool(sentence and told.get("fingerprint") not in (None, sentence)),
        **{key: numbers[key] for key in columns},
    }


MANIFEST = "export.json"
NAMES = (MANIFEST, "README.md", "config.json", "model.safetensors", "model.onnx")


def check_place(out: Path, again: bool) -> None:
    """See that a folder may be written.

    Args:
        out: the folder.
        again: an earlier export there may be replaced.

    Raises:
        ValueError: it holds something else, or an export that is to stay.
    """
    check_folder(out)
    names = sorted(os.listdir(out)) if out.is_dir() else []
    foreign = [name for name in names if name not in NAMES]
    if foreign or (names and MANIFEST not in names):
        raise ValueError(
            f"{out} must be a new folder, or an export, got one that holds {(foreign or names)[0]!r}: choose "
            "another --out; nothing in it was touched"
        )
    if names and not again:
        raise ValueError(f"{out} holds an export already: add --again to replace it, or choose another --out")


@contextlib.contextmanager
def staged(out: Path, again: bool) -> Iterator[Path]:
    """A folder to write into, which takes the place of `out` when all went well; else it is removed.

    Raises:
        ValueError: as of `check_place`.
        OSError: it cannot be written.
    """
    check_place(out, again)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.{secrets.token_hex(8)}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        check_place(out, again)  # as it is now
        if out.is_dir():
            earlier = out.with_name(f".{out.name}.{secrets.token_hex(8)}.old.tmp")
            os.rename(out, earlier)
            os.rename(temporary, out)
            shutil.rmtree(earlier, ignore_errors=True)
        else:
            os.rename(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@dataclass(frozen=True)
class Written:
    """One file, read back and compared.

    Attributes:
        file: its name in the folder.
        difference: the largest, between what the file and the model give for made-up observations.
        reader: what read it back; empty if nothing could.
        library: that opens it, as hubs name it.
        loading: Python that loads it and calls it.
        notes: what to know besides.
        normalizes: whether it takes pixels in [0, 1] and normalizes them itself.
    """

    file: str
    difference: float
    reader: str
    library: str
    loading: str
    notes: tuple[str, ...] = ()
    normalizes: bool = False

"""What a record is named by: a hash of its config, without what may differ when the run goes on elsewhere."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from isojepa.files import plain
from isojepa.training.recipe import EXECUTION
from isojepa.version import __version__

FORMAT = 2
HEADER = ("format", "isojepa")  # what config.json holds besides the config


def without_header(content: Mapping[str, Any]) -> dict[str, Any]:
    """The config in the content of a record's config.json.

    Raises:
        ValueError: this version does not read the format.
    """
    number = content.get("format")
    if type(number) is not int or number < FORMAT:
        raise ValueError(f"format must be {FORMAT}, got {number!r}: delete its folder to train again")
    if number > FORMAT:
        raise ValueError(
            f"it has format {number}, written by isojepa {content.get('isojepa')}; isojepa {__version__} "
            f"reads format {FORMAT}: upgrade isojepa to open it"
        )
    return {key: value for key, value in content.items() if key not in HEADER}


def record_id(config: Mapping[str, Any]) -> str:
    """Twelve hex digits that depend on the config alone, not on the order of its keys."""
    text = json.dumps(identity(plain(dict(config))), sort_keys=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def identity(config: dict[str, Any]) -> dict[str, Any]:
    """The config without what may differ when a run goes on elsewhere: the device, the checkpoints' pace.

    Nor does it matter how the models of a run from Python can be made again: their weights are compared.
    """
    if config.get("made_from") == "python":
        config = {key: value for key, value in config.items() if key != "models"}
    training = config.get("training")
    if not isinstance(training, dict):
        return config
    return {**config, "training": {key: value for key, value in training.items() if key not in EXECUTION}}


def difference(old: Any, new: Any, where: str = "") -> str:
    """Name the first setting in which two configs differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            if old.get(key) != new.get(key):
                return difference(old.get(key), new.get(key), f"{where}.{key}" if where else key)
    return f"{where}: {old!r} there, {new!r} asked for"

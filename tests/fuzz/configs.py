"""Configs as YAML and JSON: damaged in their text, and with values that no setting takes."""

import copy
import json
from pathlib import Path
from typing import Any

import yaml

import isojepa as ij
from isojepa import registry, runs
from isojepa.cli import main
from isojepa.config import read_config
from isojepa.io import to_jsonable
from tests.fuzz.commands import hostile_json
from tests.fuzz.values import Case, Rng

SOME = (
    {},
    {"world": {"process": "langevin", "law": "laplace", "mixing": "identity"}},
    {"world": {"mixing": "lift", "observed_dim": 4}},
    {"objective": {"name": "infonce"}},
    {"objective": {"name": "vicreg"}, "seed": 3},
    {"encoder": {"name": "coupling"}, "world": {"mixing": "additive-coupling"}},
)
TEXTS = (
    *(
        "",
        "---",
        "- a",
        "a: b: c",
        "\t",
        "{",
        "[",
        "null",
        "3",
        '"x"',
        "&a [*a]",
        "a: &a 1\nb: *a",
        "!!python/name:os.system",
    ),
    *(
        "!!timestamp x",
        "seed: !!int ''",
        "? [a]\n: b",
        "seed: 1\nseed: 2",
        "%YAML 9.9\n---\n",
        "seed: 2001-99-99",
        "\ufeffseed: 1",
    ),
    *(
        "[" * 3000,
        "{" * 3000,
        "a: " * 2000,
        "seed: " + "9" * 6000,
        "#" * 300_000,
        "x: |\n" + " a\n" * 500,
        "<<: 3",
        "<<: {a: 1}",
    ),
)


def tiny() -> ij.Config:
    """A config of a run that takes no time."""
    recipe = ij.Recipe(steps=1, batch=8, batch_start=None, eval_samples=16, accelerator="cpu")
    return ij.Config(encoder=registry.build_spec("encoder", width=4, layers=2), training=recipe)


def make_case(rng: Rng, folder: Path) -> Case:
    """A config file, read, resolved and built; a few given to `train`."""
    kind = rng.choice(("yaml", "json"))
    path = folder / f"config.{kind}"
    content, refuse = _content(rng, kind)
    path.write_bytes(content)
    if rng.random() < 0.05:
        words = ["train", "--config", str(path), "--training.steps", "x"]  # refused by the flag at the latest
        return Case("configs", f"train --config {content!r:.3000}", lambda: main(words), True, command=True)

    def run() -> Any:
        config = read_config(path)
        config.to_dict()
        return runs.build_all(config)

    return Case("configs", f"read_config(.{kind}) of {content!r:.3000}", run, refuse)


def _content(rng: Rng, kind: str) -> tuple[bytes, bool]:
    if rng.random() < 0.2:
        return rng.choice(TEXTS).encode(), False
    data, refuse = _mutated(rng, _base(rng))
    text = json.dumps(data) if kind == "json" else yaml.safe_dump(data)
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    if rng.random() < 0.25:  # damage of the text itself
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(content) + 1)
            content[at : at + rng.randint(0, 3)] = bytes(
                rng.choices(b"\x00\xff[]{}:,-#&*!|>'\"%@` \n\t19eE.x", k=rng.randint(0, 3))
            )
        return bytes(content), False
    return bytes(content), refuse


def _base(rng: Rng) -> dict[str, Any]:
    if rng.random() < 0.5:
        return copy.deepcopy(rng.choice(SOME))
    base: dict[str, Any] = to_jsonable(tiny().to_dict())
    return base


def _mutated(rng: Rng, data: Any) -> tuple[Any, bool]:
    """Plain values with one or two of them replaced, removed or added; whether they must be refused."""
    for _ in range(rng.randint(1, 2)):
        section = rng.choice(("world", "encoder", "objective", "training", None))
        part = data if section is None else data.setdefault(section, {})
        if not isinstance(part, dict):
            continue
        keys = (
            [*part, "nope", "name", "dim", "rho", "weight", "steps"] if section else [*part, "nope", "seed"]
        )
        key = rng.choice(keys)
        value = hostile_json(rng)
        if rng.random() < 0.15:
            part.pop(key, None)
        else:
            part[key] = value
    if rng.random() < 0.03:
        return rng.choice((None, 3, "x", [], [data], True)), False
    return data, any(map(_refused, (data, *data.values())))


def _refused(part: Any) -> bool:
    """Whether a section has a key that is none, or NaN where a number belongs, when all is changed."""
    if not isinstance(part, dict):
        return False
    numbers = [part.get(key) for key in ("rho", "weight", "steps", "dim", "seed")]
    return "nope" in part or any(isinstance(value, float) and value != value for value in numbers)

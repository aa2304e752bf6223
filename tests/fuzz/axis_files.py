"""Files of axes that are damaged, or that lie about what they hold."""

from functools import cache
from pathlib import Path
from typing import Any

import torch

import isojepa as ij
from isojepa.training.tensors import load_tensors, save_tensors
from tests.fuzz.axes import fitted
from tests.fuzz.files import damage
from tests.fuzz.records import changed
from tests.fuzz.values import Case, Rng

NOTE = "isojepa-unmixing"
MATRICES = (
    *(torch.ones(2, 2), torch.zeros(2, 2), torch.eye(2).half(), torch.eye(2, dtype=torch.complex64)),
    *(torch.eye(3), torch.ones(2), torch.ones(0, 2), torch.tensor(1.0), torch.full((2, 2), float("nan"))),
    *(torch.eye(2, dtype=torch.int64), torch.eye(2) > 0, 1e300 * torch.eye(2).double(), torch.ones(2, 2, 2)),
)


@cache
def template(folder: Path) -> Path:
    """A file of axes, written once."""
    path = folder / "template.axes"
    fitted().save(path)
    return path


def make_case(rng: Rng, folder: Path) -> Case:
    """A file of axes of which something was changed; the checksum fits, but where bytes were damaged."""
    path = folder / "fuzzed.axes"
    whole = template(folder).read_bytes()
    draw = rng.random()
    if draw < 0.3:
        path.write_bytes(damage(rng, whole))
        told = f"bytes of which some were changed: {path.read_bytes()!r:.3000}"
    else:
        tensors, notes = load_tensors(template(folder))
        if draw < 0.5:
            name = rng.choice([*tensors, "other"])
            tensors[name] = rng.choice(MATRICES)
            told = f"{name} of {tensors[name]}"
        else:
            content = changed(rng, notes[NOTE].encode(), "notes.json").decode("utf-8", "replace")
            notes[NOTE] = content
            told = f"notes of {content!r:.3000}"
        save_tensors(path, tensors, notes)

    def run() -> Any:
        found = ij.Unmixing.load(path)
        str(found)
        h = found.inverse_transform(torch.ones(3, len(found.axes_)))
        found.save(path)
        return found.to_dict(), h, found.latents(h), ij.Unmixing.load(path).to_dict()

    return Case("axes", f"load axes with {told}", run, numeric=True)

"""What a record says of a run that was made from Python objects and not from a config."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from isojepa.seeds import generator
from isojepa.training.recipe import Recipe
from isojepa.worlds import World


def describe(
    encoder: nn.Module, world: World, objective: nn.Module, recipe: Recipe, seed: int
) -> dict[str, Any]:
    """A config for a run that was made from Python objects: readable, and distinct for distinct runs.

    What a description in words may leave out, such as the body of a function, shows in the fingerprints: of
    the weights the run starts from, and of a few pairs of the world.
    """
    start = [*encoder.state_dict().values(), *objective.state_dict().values()]
    sample = world.sample(8, generator(0, "fingerprint"))
    return {
        "made_from": "python",
        "world": _spelled(world),
        "encoder": _spelled(encoder),
        "objective": _spelled(objective),
        "training": asdict(recipe),
        "seed": seed,
        "initial_weights": _fingerprint(start),
        "world_sample": _fingerprint([sample.z, sample.z_next, sample.x, sample.x_next]),
    }


def _spelled(thing: object) -> str:
    """The repr without memory addresses, which differ from one process to the next."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def _fingerprint(tensors: Sequence[Tensor]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()

"""What a record says of a run that was made from Python objects and not from a config."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from isojepa.evaluations import Evaluation
from isojepa.seeds import generator
from isojepa.training.rebuilding import recipe_of
from isojepa.training.recipe import Recipe
from isojepa.worlds import Source
from isojepa.worlds.as_source import Streamed


def describe(
    models: Mapping[str, nn.Module],
    source: Source,
    objective: Callable[..., Any],
    recipe: Recipe,
    seed: int,
    evaluations: Sequence[Evaluation] | None = None,
) -> dict[str, Any]:
    """A config for a run that was made from Python objects: readable, and distinct for distinct runs.

    What a description in words may leave out, such as the body of a function, shows in the fingerprints: of
    the weights the run starts from, and of a few states of the source. Where a model can be made again from
    its class and arguments, it says how (`isojepa.training.rebuilding`).

    Raises:
        ValueError: the source is a stream, which nobody can go back in.
    """
    if isinstance(source, Streamed):
        raise ValueError(
            "a run with a record must be able to go on, which a stream of batches is not: give the "
            "DataLoader a set with items by number and a plain or shuffled order, or leave record out"
        )
    modules = [*models.values(), *([objective] if isinstance(objective, nn.Module) else [])]
    start = [value for module in modules for value in module.state_dict().values()]
    sample = source.sample(8, generator(0, "fingerprint"))
    drawn = [*(sample.z or ()), *sample.views]
    spelled = {name: _spelled(module) for name, module in models.items()}
    # those of nobody's choice are left out: their numbers follow from the source and the recipe
    measured = {} if evaluations is None else {"evaluations": [_measure(one) for one in evaluations]}
    return {
        "made_from": "python",
        "world": _spelled(source),
        "encoder": spelled["encoder"] if list(spelled) == ["encoder"] else spelled,
        "objective": _spelled(objective),
        "training": asdict(recipe),
        "seed": seed,
        "initial_weights": _fingerprint(start),
        "world_sample": _fingerprint(drawn),
        "models": {name: made for name, module in models.items() if (made := recipe_of(module)) is not None},
        **measured,
    }


def _measure(evaluation: Evaluation) -> dict[str, Any]:
    """What decides which numbers an evaluation adds to the metrics, and when."""
    return {"name": evaluation.name, "primary": evaluation.primary, "every": evaluation.every}


def _spelled(thing: object) -> str:
    """The repr without memory addresses, which differ from one process to the next."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def _fingerprint(tensors: Sequence[Tensor]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()

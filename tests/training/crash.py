"""A crash at a chosen step, without anything that a record could see."""

import pytest
import torch
from torch import nn

from isojepa.training import Run
from isojepa.training.checkpoints import load_tensors
from isojepa.training.loop import fit


def crash_at(module, call):
    """The module, which raises at its `call`-th call. A hook is in no state and in no description."""
    left = [call]

    def count(module, inputs):
        left[0] -= 1
        if left[0] == 0:
            raise RuntimeError("crash")

    module.register_forward_pre_hook(count)
    return module


def whole_and_resumed(make, source, folder, stop, **options) -> tuple[Run, Run]:
    """A run in one piece, and one that crashed at its `stop`-th call of the objective and went on.

    Args:
        make: gives new models and a new objective.
        source: of both.
        folder: for their records, "whole" and "cut".
        stop: call at which the second crashes.
        options: of `fit`; a checkpoint is written after every step.
    """
    options = {"checkpoint_seconds": 0.0, "progress": False, **options}
    models, objective = make()
    whole = fit(models, source, objective, record=folder / "whole", **options)
    models, objective = make()
    with pytest.raises(RuntimeError, match="crash"):
        fit(models, source, crash_at(objective, stop), record=folder / "cut", **options)
    assert (folder / "cut/checkpoint").exists() == (stop > 1)
    models, objective = make()
    return whole, fit(models, source, objective, record=folder / "cut", **options)


def assert_same_bits(whole, resumed) -> None:
    """Two runs agree in every row of metrics and in every weight that their records keep."""
    assert repr(whole.metrics) == repr(resumed.metrics)  # in which NaN equals itself
    first, second = whole.record.path, resumed.record.path
    assert (first / "metrics.jsonl").read_bytes() == (second / "metrics.jsonl").read_bytes()
    kept = sorted(path.name for path in first.glob("*.safetensors"))
    assert kept == sorted(path.name for path in second.glob("*.safetensors"))
    assert kept
    for name in kept:
        ours, theirs = load_tensors(first / name)[0], load_tensors(second / name)[0]
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def weights(module: nn.Module) -> torch.Tensor:
    """All parameters in one vector."""
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])

"""One observer as the world of a run."""

import pytest
import torch

import isojepa as ij
from isojepa import testing
from isojepa.data import environment
from isojepa.registry import Context, build_spec


def test_an_observer_is_a_world_that_configs_can_name():
    spec = build_spec("world", "observer", observer="second", dim=4)
    testing.check_spec(spec)
    source = spec.build(Context())
    testing.check_source(source)
    batch = source.sample(5, ij.generator(0, "x"))
    same = environment("latents", dim=4).source(1).sample(5, ij.generator(0, "x"))
    assert torch.equal(batch.views[0], same.views[0])
    numbered = build_spec("world", "observer", observer="1", dim=4).build(Context())
    assert torch.equal(numbered.observe(batch.z[0]), batch.views[0])


def test_an_observer_that_is_not_there_is_said():
    with pytest.raises(ValueError, match="observer must be one of first, second, got 'third'"):
        build_spec("world", "observer", observer="third").build(Context())
    with pytest.raises(ValueError, match="from 0 to 1"):
        build_spec("world", "observer", observer="7").build(Context())

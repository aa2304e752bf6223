"""The state of every global random number generator, to show that nothing moved it."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def untouched() -> Iterator[None]:
    """Fail if the block reads or seeds a global generator of torch, numpy or Python."""
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    yield
    assert torch.equal(before[0], torch.get_rng_state()), "torch's global generator moved"
    now = np.random.get_state()  # noqa: NPY002
    assert np.array_equal(before[1][1], now[1]), "numpy's global generator moved"
    assert before[1][2] == now[2], "numpy's global generator moved"
    assert before[2] == random.getstate(), "Python's global generator moved"

"""One integer seed, many independent named streams of randomness.

Every random choice of the library draws from a generator, of torch or of numpy, that its caller made here. A
stream is named by words and numbers, e.g. ("data", 17) for the batch of step 17, so a run that is stopped and
started again needs no saved generator state: step 17 always sees the same batch. The global generators of
torch, numpy and Python are never read or seeded, but for `borrowed`, which puts torch's back.
"""

import contextlib
import hashlib
import json
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from isojepa.validation import short_repr

_LARGEST = 1 << 4096  # Python writes no integer of many thousand digits


def generator(seed: int, *stream: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return the generator of one named stream of a seed.

    Args:
        seed: the run's seed, any integer.
        stream: what the numbers are for, e.g. `"data", step`.
        device: where the generator lives.

    Example:
        >>> torch.randn(2, generator=generator(0, "data", 5)).shape
        torch.Size([2])
    """
    text = json.dumps([_whole(seed), *map(str, stream)])
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    source = torch.Generator(device=device)
    source.manual_seed(int.from_bytes(digest, "little") >> 1)  # keep within a signed 64-bit integer
    return source


def numpy_generator(seed: int, *stream: str | int) -> np.random.Generator:
    """The same for numpy, where its arrays and laws are wanted.

    Args:
        seed: the run's seed, any integer.
        stream: what the numbers are for.

    Example:
        >>> numpy_generator(0, "split").permutation(3).shape
        (3,)
    """
    return np.random.default_rng(generator(seed, *stream).initial_seed())


def _whole(seed: Any) -> int:
    try:
        number = operator.index(seed)
    except TypeError:
        raise ValueError(f"seed must be an integer, got {short_repr(seed)}") from None
    if abs(number) >= _LARGEST:
        raise ValueError(f"seed must be an integer of fewer digits, got {short_repr(seed)}")
    return number


@contextlib.contextmanager
def borrowed(seed: int, *stream: str | int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Lend the global generators to modules that draw from them by themselves, such as dropout.

    Inside, the CPU's is at the start of the named stream, and so is that of the device; afterwards they are
    where they were, also after an error. The only place that touches them.

    Args:
        seed: the run's seed, any integer.
        stream: what the numbers are for.
        device: where modules compute; its generator is lent besides the CPU's.

    Example:
        >>> with borrowed(0, "dropout", 5):
        ...     first = torch.rand(2)
        >>> bool((first == torch.rand(2, generator=generator(0, "dropout", 5))).all())
        True
    """
    device = torch.device(device)
    with contextlib.ExitStack() as lent:
        lent.enter_context(_lent(torch, generator(seed, *stream).get_state()))
        if device.type != "cpu":
            # torch.cuda, torch.mps, torch.xpu have the two functions that torch has for the CPU, and take the
            # device as an argument. Tested with a stand-in for such a module, on no real accelerator.
            state = generator(seed, *stream, device=device).get_state()
            lent.enter_context(_lent(torch.get_device_module(device), state, device))
        yield


@contextlib.contextmanager
def _lent(module: Any, state: torch.Tensor, *device: torch.device) -> Iterator[None]:
    """Inside, the global generator of a device's module is in a given state; afterwards in the one it had."""
    before = module.get_rng_state(*device)
    module.set_rng_state(state, *device)
    try:
        yield
    finally:
        module.set_rng_state(before, *device)


class Stream:
    """Generators for one call after another, for a module that is used without being handed any.

    Args:
        seed: any integer.
        name: what the numbers are for.
    """

    def __init__(self, seed: int, name: str) -> None:
        self.seed, self.name, self.calls = seed, name, 0

    def next(self) -> torch.Generator:
        """Return a generator that no earlier call had."""
        self.calls += 1
        return generator(self.seed, self.name, self.calls - 1)

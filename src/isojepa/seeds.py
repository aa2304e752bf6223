"""One integer seed, many independent named streams of randomness.

Every random choice of the library draws from a `torch.Generator` that its caller made here. A stream is
named by words and numbers, e.g. ("data", 17) for the batch of step 17, so a run that is stopped and
started again needs no saved generator state: step 17 always sees the same batch. The global generators of
torch, numpy and Python are never read or seeded, but for `borrowed`, which puts torch's back.
"""

import contextlib
import hashlib
import json
import operator
from collections.abc import Iterator

import torch


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
    text = json.dumps([operator.index(seed), *map(str, stream)])
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    source = torch.Generator(device=device)
    source.manual_seed(int.from_bytes(digest, "little") >> 1)  # keep within a signed 64-bit integer
    return source


@contextlib.contextmanager
def borrowed(seed: int, *stream: str | int) -> Iterator[None]:
    """Lend the CPU's global generator to modules that draw from it by themselves, such as dropout.

    Inside, it is at the start of the named stream; afterwards, where it was. The only place that touches it.
    """
    before = torch.get_rng_state()
    torch.set_rng_state(generator(seed, *stream).get_state())
    try:
        yield
    finally:
        torch.set_rng_state(before)


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

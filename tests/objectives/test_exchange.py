"""What LeJEPA exchanges between ranks: so many numbers whatever the batch and the dimension.

Every collective of torch.distributed is counted inside of real ranks, one forward and one backward pass at a
time. With V views, S slices and K knots, of which K // 2 are positive and the rest their mirror images:

    forward    3 counts of the batch (views, alignment, regularizer), int64
               1 sum of squared distances (alignment), of the embeddings' type, at least float32
               2 V S (K // 2) sums of cosines and sines (regularizer), float64 in the compiled sweeps of the
               CPU, otherwise of the embeddings' type; once, not V times, where views are pooled
    backward   2 upstream gradients, of the two terms

That is at most 2 S K numbers and 6 more for two views, and for any number of pooled ones.
"""

import itertools
from collections import Counter

import pytest
import torch
import torch.distributed as dist

from isojepa.encoders.layers import BatchNorm
from isojepa.objectives import LeJEPA, SIGReg
from isojepa.seeds import generator
from tests.distributed import joined, run_ranks

COUNTED = "all_reduce"
REFUSED = [  # would go by uncounted
    *("all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_to_all"),
    *("all_reduce_coalesced", "all_to_all_single", "barrier", "broadcast", "broadcast_object_list"),
    *("gather", "gather_object", "irecv", "isend", "recv", "reduce", "reduce_scatter", "send", "scatter"),
    *("reduce_scatter_tensor", "scatter_object_list", "batch_isend_irecv"),
]
SLICES = 24
BATCHES, DIMS, VIEWS = (32, 1000), (4, 96), (2, 5)
# name -> (settings of SIGReg, dtype of the embeddings)
CASES = {
    "default": ({}, torch.float32),
    "float64": ({}, torch.float64),
    "bfloat16": ({}, torch.bfloat16),
    "pooled": ({"pooled": True}, torch.float32),
    "21 knots": ({"knots": 21}, torch.float32),
    "21 knots in float64": ({"knots": 21}, torch.float64),
}


class Meter:
    """Counts what goes through torch.distributed, in a process that ends thereafter."""

    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()
        setattr(dist, COUNTED, self._counted(getattr(dist, COUNTED)))
        for name in REFUSED:
            setattr(dist, name, self._refused(name))

    def _counted(self, collective):
        def counted(tensor, *arguments, **options):
            self.numbers[str(tensor.dtype).removeprefix("torch.")] += tensor.numel()
            return collective(tensor, *arguments, **options)

        return counted

    def _refused(self, name):
        def refused(*arguments, **options):
            raise AssertionError(f"{name} is not counted")

        return refused

    def read(self) -> dict[str, int]:
        """Numbers since the last reading, by type."""
        numbers, self.numbers = dict(self.numbers), Counter()
        return numbers


def work(rank: int, world: int, folder: str) -> dict[tuple, list[dict[str, int]]]:
    """Forward and backward exchange of each case."""
    results = {}
    with joined(rank, world, folder):
        meter = Meter()
        for name, (settings, dtype) in CASES.items():
            objective = LeJEPA(regularizer=SIGReg(slices=SLICES, **settings))
            for views, batch, dim in itertools.product(VIEWS, BATCHES, DIMS):
                h = torch.randn(views, batch, dim, generator=generator(rank, batch)).to(dtype)
                loss = objective(h.requires_grad_(), generator(1)).total
                forward = meter.read()
                loss.backward()
                results[name, views, batch, dim] = [forward, meter.read()]
        for batch in BATCHES:
            y = BatchNorm(7)(torch.randn(batch, 7, 3, generator=generator(rank)).requires_grad_())
            forward = meter.read()
            y.square().sum().backward()
            results["norm", batch] = [forward, meter.read()]
    return results


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory):
    first, second = run_ranks(work, 2, tmp_path_factory.mktemp("exchange"))
    assert first == second
    return first


# name -> numbers that the statistic sends for a view and slice, their type, and that of the other sums
SENT = {
    "default": (2 * 8, "float64", "float32"),
    "float64": (2 * 8, "float64", "float64"),
    "bfloat16": (2 * 8, "float64", "float32"),
    "pooled": (2 * 8, "float64", "float32"),
    "21 knots": (2 * 10, "float64", "float32"),
    "21 knots in float64": (2 * 10, "float64", "float64"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("views", VIEWS)
def test_numbers_exchanged_depend_on_slices_and_knots_alone(name, views, exchanged):
    each, kind, scalars = SENT[name]
    statistic = each * SLICES * (1 if name == "pooled" else views)
    forward = {"int64": 3, kind: statistic}
    forward[scalars] = forward.get(scalars, 0) + 1
    for batch, dim in itertools.product(BATCHES, DIMS):
        assert exchanged[name, views, batch, dim] == [forward, {scalars: 2}], (batch, dim)


def test_a_norm_exchanges_five_numbers_a_channel_and_a_count(exchanged):
    for batch in BATCHES:
        assert exchanged["norm", batch] == [{"int64": 1, "float32": 3 * 7}, {"float32": 2 * 7}]

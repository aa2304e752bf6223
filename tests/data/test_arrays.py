"""Arrays as a finite set of states: rows by number, nothing copied, nothing random."""

import os

import numpy as np
import pytest
import torch

from isojepa import testing
from isojepa.data import Arrays
from isojepa.data.source import finite
from tests.processes import run


def table(states=20, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(states, 3)).astype("float32"), rng.normal(size=(states, 2, 4)).astype("float32")


def test_a_state_is_its_row_in_every_array():
    x, y = table()
    z, labels = np.arange(40.0).reshape(20, 2), np.arange(20) * 10
    source = Arrays((x, y), latents=(z, z + 1), labels=labels, ids=labels + 5)
    chosen = torch.tensor([7, 3, 7, 19])
    batch = source.take(chosen)
    assert np.array_equal(batch.views[0].numpy(), x[chosen])
    assert np.array_equal(batch.views[1].numpy(), y[chosen])
    assert batch.z is not None
    assert np.array_equal(batch.z[1].numpy(), (z + 1)[chosen])
    assert batch.labels is not None
    assert batch.labels.tolist() == [70, 30, 70, 190]
    assert batch.ids is not None
    assert batch.ids.tolist() == [75, 35, 75, 195]
    assert batch.z[0].dtype == torch.float32


def test_arrays_keep_the_contract_of_a_source():
    x, y = table()
    source = Arrays((x, y))
    testing.check_source(source)
    assert finite(source)
    assert source.facts.size == 20
    assert source.facts.shapes == ((3,), (2, 4))
    testing.check_source(Arrays((x, x + 1), latents=(x, x), global_views=1))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((np.zeros((3, 2)),), {}, "views must be two arrays or more with rows, got 1"),
        ((np.zeros((3, 2)), np.zeros((4, 2))), {}, r"must have equal lengths, got \[3, 4\]"),
        ((np.zeros((3, 2)),) * 2, {"latents": (np.zeros((3, 2)),)}, "one array for each of 2 views, got 1"),
        ((np.zeros((3, 2)),) * 2, {"global_views": 3}, "between 0 and the 2 views, got 3"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        Arrays(arguments, **options)


PEAK = """
import sys
import numpy as np
import torch
import isojepa as ij
from isojepa.data import Arrays
shape = (4000, 3, 64, 64)  # 197 MB
x = np.lib.format.open_memmap(sys.argv[1], mode="r")
assert x.shape == shape
source = Arrays((x, x))
encoder = torch.nn.Sequential(torch.nn.AvgPool2d(16), torch.nn.Flatten(), torch.nn.Linear(48, 2))
small = Arrays((np.zeros((8, 3, 64, 64), "float32"),) * 2)
objective = ij.objectives.LeJEPA(0.5, regularizer=ij.objectives.SIGReg(slices=4))
options = dict(batch=8, batch_start=None, eval_every=100, eval_samples=8, progress=False, evaluations=[])
ij.fit(encoder, small, objective, steps=2, **options)  # what torch itself needs
def private():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
before = private()
ij.fit(encoder, source, objective, steps=12, **options)
print(private() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads this process's memory from /proc")
def test_arrays_on_the_disk_are_not_loaded_whole(tmp_path):
    """Pages of the file that were read belong to the system; what counts is memory of our own."""
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", "float32", (4000, 3, 64, 64)).flush()
    done = run(PEAK, tmp_path / "x.npy")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 60_000  # kB; the array has 197,000

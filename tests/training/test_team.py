"""A run on several ranks is the run of one process: real processes, which talk by gloo, against one.

Shares are unequal: 64 states on 3 ranks, and batches that grow.
"""

import contextlib
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed import TCPStore

import isojepa as ij
from isojepa.data import Arrays
from isojepa.data.images import Images, Stack
from isojepa.encoders.backbones import Backbone
from isojepa.encoders.layers import Projector
from isojepa.encoders.model import Headed
from isojepa.launch_env import RankInfo, rank_info
from isojepa.objectives import InfoNCE, LeJEPA, SIGReg, VICReg
from isojepa.objectives.lejepa import ImageLeJEPA
from isojepa.objectives.objective import Objective
from isojepa.ranks import RankLost
from isojepa.seeds import generator
from isojepa.training import distributed
from isojepa.training.distributed import RankBatches, Team, rank_slices
from isojepa.training.run_directory import RunDirectory
from tests.distributed import joined, run_ranks

RECIPE = {
    "steps": 12,
    "batch": 64,
    "batch_start": 17,
    "eval_every": 4,
    "eval_samples": 128,
    "learning_rate": 5e-3,
    "accelerator": "cpu",
}


class Turns(Objective):
    """Two models that learn in turns: in every step the parameters of one have no gradient."""

    def __init__(self):
        super().__init__()
        self.loss = LeJEPA(0.1, regularizer=SIGReg(slices=8))
        self.steps = 0

    def forward(self, models, batch, generator):
        name = ("encoder", "other")[self.steps % 2]
        views = torch.stack([models[name].embed(view) for view in batch.views])
        return self.loss(views, generator)

    def after_step(self, models, step):
        self.steps = step


def net(norm):
    """A small network without what no loss depends on.

    The last bias has no gradient under InfoNCE and VICReg, nor has one before a batch normalisation, but for
    rounding, which Adam makes a step of full size.
    """
    between = nn.BatchNorm1d(16) if norm else nn.Tanh()
    layers = nn.Linear(2, 16, bias=not norm), between, nn.ReLU(), nn.Linear(16, 2, bias=False)
    with torch.no_grad():
        for number, layer in enumerate(layers):
            for parameter in layer.parameters() if isinstance(layer, nn.Linear) else ():
                parameter.copy_(torch.randn(parameter.shape, generator=generator(number, "net")) / 2)
    return nn.Sequential(*layers)


def encoder():
    return net(norm=False)


def normed():
    return net(norm=True)


def lejepa():
    return LeJEPA(0.1, regularizer=SIGReg(slices=8))


def world():
    return ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.9), ij.data.Parabola())


def arrays():
    """100 states: an epoch ends in the middle of a batch."""
    batch = world().sample(100, generator(0, "arrays"))
    views, latents = ([part.numpy() for part in parts] for parts in (batch.views, batch.z))
    return Arrays(views, latents=latents)


class Doubled(nn.Module):
    """In float64: rounding, which Adam and the norms of maps make much of, is out of the way."""

    def forward(self, x):
        return x.double()


def backbone():
    """With batch normalisation over the positions of pictures, and over rows."""
    body = Backbone("convnet-4-8", in_channels=1)
    return nn.Sequential(Doubled(), Headed(body, Projector(body.num_features, "16-1")).double())


def pictures(size=100):
    patches = torch.randint(256, (size, 1, 4, 4), dtype=torch.uint8, generator=generator(0, "pixels"))
    return Images(Stack(patches.repeat_interleave(7, 2).repeat_interleave(7, 3)))


CASES = {  # name -> (models, source, objective, settings)
    "lejepa": (encoder, world, lejepa, {}),
    "infonce": (encoder, world, lambda: InfoNCE(learned=True), {}),
    "vicreg": (encoder, world, VICReg, {}),
    "constant batch": (encoder, world, lejepa, {"batch_start": None}),
    "synchronised norms": (normed, world, lejepa, {"sync_norms": True}),
    "accumulated": (encoder, world, lejepa, {"accumulate": 2}),
    "accumulated, set": (encoder, arrays, InfoNCE, {"accumulate": 2}),
    "clipped and averaged": (encoder, world, lejepa, {"clip": 0.1, "average": 0.9, "weight_decay": 0.1}),
    "fixed pairs": (encoder, world, lejepa, {"pairs": 50}),
    "set": (encoder, arrays, lejepa, {}),
    "set, two loaders": (encoder, arrays, lejepa, {"workers": 2}),
    "pictures": (
        backbone,
        pictures,
        lambda: ImageLeJEPA(0.5, SIGReg(slices=8)),
        {"sync_norms": True},
    ),
    "in turns": (lambda: {"encoder": encoder(), "other": normed()}, world, Turns, {"sync_norms": True}),
}


def trained(case, **more):
    """The rows of metrics and the final weights of one case."""
    models, source, objective, settings = CASES[case]
    run = ij.fit(models(), source(), objective(), progress=False, **{**RECIPE, **settings, **more})
    state = {f"{m}.{k}": v for m, model in run.models.items() for k, v in model.state_dict().items()}
    return {"rows": run.metrics, "weights": state, "status": run.status}


@contextlib.contextmanager
def writing(into):
    """Names of files below a folder that this process opens for writing, moves or removes."""
    seen: list[str] = []
    active = [True]

    def look(event, arguments):
        if not active[0] or event not in ("open", "os.mkdir", "os.rename", "os.remove", "os.truncate"):
            return
        path, mode = str(arguments[0]), arguments[1] if event == "open" else "w"
        flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else 0
        written = any(letter in (mode or "") for letter in "wax+") or flags & (os.O_WRONLY | os.O_RDWR)
        if path.startswith(str(into)) and written:
            seen.append(f"{event} {path}")

    sys.addaudithook(look)
    yield seen
    active[0] = False


def work(rank, world, folder):
    record = Path(folder) / "record"
    with joined(rank, world, folder):
        found = {case: trained(case) for case in CASES}
        with writing(record) as seen:
            found["recorded"] = trained("lejepa", record=record, checkpoint_seconds=0.0)
        found["again"] = trained("lejepa", record=record)
        found["written"] = list(seen)
        us = Team(ij.Recipe(devices=world, accelerator="cpu"))
        found["gravest"] = int(us.all_reduce_status(rank % 3))
        found["refused"] = []
        for error in (ValueError("no such thing"), Unportable("a", "b")):
            try:
                us.on_rank_zero(lambda error=error: _raise(error))
            except Exception as told:
                found["refused"].append((type(told).__name__, str(told)))
        try:
            Team(ij.Recipe(devices=world + 1, accelerator="cpu"))
        except ValueError as error:
            found["refused"].append((type(error).__name__, str(error)))
        try:
            ij.fit(backbone(), pictures(100 - rank), LeJEPA(), progress=False, **RECIPE)
        except ValueError as error:
            found["other data"] = str(error)
    return found


class Unportable(Exception):
    """An error that cannot be sent: it is not made again from its message."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def _raise(error):
    raise error


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.slow)], ids="{} ranks".format)
def job(request, tmp_path_factory):
    """What every rank found, and the folder of their record."""
    folder = tmp_path_factory.mktemp("team")
    return run_ranks(work, request.param, folder), folder / "record"


@pytest.fixture(scope="module")
def alone():
    return {case: trained(case) for case in CASES}


def close(ours, truth):
    assert ours["status"] == truth["status"] == "done"
    assert [row["step"] for row in ours["rows"]] == [4, 8, 12]
    for row, true in zip(ours["rows"], truth["rows"], strict=True):
        assert row == pytest.approx(true, rel=1e-5, abs=1e-5)
    assert ours["weights"].keys() == truth["weights"].keys()
    for name, weight in truth["weights"].items():
        assert torch.allclose(ours["weights"][name], weight, rtol=1e-5, atol=1e-5), name


@pytest.mark.parametrize("case", CASES)
def test_curve_and_weights_are_those_of_one_process_with_the_whole_batch(case, job, alone):
    ranks, _ = job
    start = CASES[case][0]()
    start = start if isinstance(start, dict) else {"encoder": start}
    moved = [
        (alone[case]["weights"][f"{m}.{k}"] - v).abs().max()
        for m, model in start.items()
        for k, v in model.named_parameters()
    ]
    assert max(moved) > 1e-3  # something was learned
    for rank in ranks:
        close(rank[case], alone[case])


def test_every_rank_ends_with_the_same_bits(job):
    ranks, _ = job
    for case in CASES:
        for rank in ranks[1:]:
            assert rank[case]["rows"] == ranks[0][case]["rows"]
            for name, weight in ranks[0][case]["weights"].items():
                assert torch.equal(rank[case]["weights"][name], weight), (case, name)


def test_the_number_of_loaders_changes_no_bit(job, alone):
    for found in (*job[0], alone):
        one, two = found["set"], found["set, two loaders"]
        assert one["rows"] == two["rows"]
        assert all(torch.equal(two["weights"][name], weight) for name, weight in one["weights"].items())


def test_one_rank_writes_the_record(job):
    ranks, record = job
    assert ranks[0]["written"]
    assert all(rank["written"] == [] for rank in ranks[1:])
    assert RunDirectory.open(record).result["ranks"] == len(ranks)
    assert RunDirectory.open(record).metrics == ranks[0]["lejepa"]["rows"]
    for rank in ranks:
        assert rank["recorded"]["rows"] == rank["again"]["rows"] == ranks[0]["lejepa"]["rows"]


def test_ranks_hear_the_gravest_and_the_first_ones_errors(job):
    ranks, _ = job
    for rank in ranks:
        assert rank["gravest"] == min(len(ranks) - 1, 2)
        assert rank["refused"] == [
            ("ValueError", "no such thing"),
            ("RuntimeError", "Unportable: a and b"),
            ("ValueError", f"devices must be the {len(ranks)} ranks that were started, got {len(ranks) + 1}"),
        ]


def test_ranks_that_see_other_data_are_refused_on_all_of_them(job):
    ranks, _ = job
    for number, rank in enumerate(ranks):
        assert "all ranks must see the same data" in rank["other data"]
        assert f"rank {number} has {100 - number} states" in rank["other data"]


@pytest.mark.parametrize(("size", "ranks", "parts"), [(64, 3, 1), (65, 2, 2), (50, 4, 3), (17, 3, 2)])
def test_shares_are_parts_of_the_same_parts_on_any_number_of_ranks(size, ranks, parts):
    rows = torch.arange(size)
    whole = [rows[one] for one in rank_slices(size, 0, 1, parts)]
    assert torch.equal(torch.cat(whole), rows)
    for part, truth in enumerate(whole):
        held = [rows[rank_slices(size, rank, ranks, parts)[part]] for rank in range(ranks)]
        assert torch.equal(torch.cat(held), truth)
        assert max(map(len, held)) - min(map(len, held)) <= 1


def test_batches_too_small_to_share_are_refused():
    recipe = ij.Recipe(batch=64, batch_start=8)
    with pytest.raises(ValueError, match="2 states at least for each of 5 ranks, got 8"):
        RankBatches(world(), recipe, 0, rank=0, ranks=5)
    with pytest.raises(ValueError, match="2 states at least for each of 3 ranks in each of 2 parts, got 8"):
        RankBatches(world(), ij.Recipe(batch=64, batch_start=8, accumulate=2), 0, rank=0, ranks=3)
    with pytest.raises(ValueError, match="2 states at least for each of 3 ranks, got 5"):
        RankBatches(world(), ij.Recipe(pairs=5), 0, rank=0, ranks=3)


def test_places_are_read_from_what_a_launcher_sets():
    torchrun = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    where = {"MASTER_ADDR": "a", "MASTER_PORT": "7", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    assert rank_info(torchrun | where) == RankInfo(5, 8, 1, 4, "a", 7, agent=True)
    srun = {
        "SLURM_PROCID": "4",
        "SLURM_STEP_NUM_TASKS": "7",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2),3",
        "SLURM_STEP_NODELIST": "node[3-5]",
        "SLURM_JOB_ID": "12",
        "SLURM_STEP_ID": "1",
    }
    assert rank_info(srun) == RankInfo(4, 7, 0, 3, "node3", 15121)
    assert rank_info(srun | {"SLURM_STEP_NUM_TASKS": "1"}) == rank_info({"SLURM_NTASKS": "2"}) == RankInfo()
    with pytest.raises(ValueError, match="RANK must be an integer in the environment of a rank, got 'one'"):
        rank_info({"RANK": "one", "WORLD_SIZE": "2"})


def store():
    return TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)


def test_nobody_waits_for_ever_for_a_rank_that_does_not_come(monkeypatch):
    monkeypatch.setattr(distributed, "ROLL_CALL", timedelta(seconds=0.2))
    with pytest.raises(RankLost, match=r"1 of 2 ranks came within 0:00:00.2"):
        distributed._call_roll(store(), 2)


def test_nobody_waits_for_a_rank_that_has_failed():
    place = store()
    distributed._post(place, 1, ImportError("no module\nnamed so"))
    with pytest.raises(RankLost, match="rank 1: no module named so"):
        distributed._call_roll(place, 2)
    assert distributed._reason(place) == "rank 1: no module named so"


def test_nobody_waits_for_a_copy_that_has_ended(monkeypatch):
    gone = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    killed = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    killed.kill()
    gone.wait()
    killed.wait()
    monkeypatch.setattr(distributed, "_copies", {1: gone, 2: killed})
    with pytest.raises(RankLost, match="rank 1 ended with exit code 3, rank 2 was killed by signal 9"):
        distributed._call_roll(store(), 3)

"""Objectives with modules of their own on two and three ranks: loss, gradients and what moves after a step.

All equal those of one process that holds the whole batch; ranks hold unequal parts, and see global and local
views of unequal shapes.
"""

from importlib.util import find_spec

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from isojepa.data.batch import Batch
from isojepa.encoders.layers import synchronised
from isojepa.encoders.mlp import MLP
from isojepa.objectives import ImageLeJEPA, Masked, SIGReg, Supervised
from isojepa.seeds import borrowed, generator
from isojepa.training.loop import Call, Learner
from tests.distributed import joined, run_ranks, share
from tests.objectives.vits import DIM, PIXELS, pictures, vit

PARTS = {2: (19, 6), 3: (4, 14, 7)}

OBJECTIVES = {
    "lejepa": lambda: ImageLeJEPA(0.05, SIGReg(32)),
    "lejepa pooled sum": lambda: ImageLeJEPA(0.3, SIGReg(32, pooled=True), "centre-sum", "all"),
    "lejepa predictor": lambda: ImageLeJEPA(0.05, SIGReg(32), predictor=MLP(4, 4, 8, 2)),
    "lejepa average": lambda: ImageLeJEPA(0.05, SIGReg(32), average=0.5),
    "supervised": lambda: Supervised(3, 4),
}
SMALL = {"prototypes": 5, "width": 6, "bottleneck": 4, "warmup": 2, "decay": 0.5, "centre_decay": 0.5}
MASKED = {  # of a vision transformer, and what they draw for each picture
    "masked": lambda: Masked(DIM, 12, decay=0.5, views=2),
}
if find_spec("isojepa_lab") is not None:
    from isojepa_lab.baselines import DINO, IBOT, MAE, MoCo, SwAV

    OBJECTIVES |= {
        "dino": lambda: DINO(4, prototypes=6, warmup=2, decay=0.5, centre_decay=0.5),
        "moco": lambda: MoCo(4, width=8, decay=0.5),
        "swav": lambda: SwAV(4, prototypes=6),
    }
    MASKED |= {
        "mae": lambda: MAE(DIM, PIXELS, width=8, depth=1, heads=2),
        "ibot": lambda: IBOT(DIM, DIM, **SMALL),
        "dinov2": lambda: IBOT(DIM, DIM, koleo=0.1, centring="sinkhorn", **SMALL),
    }
if find_spec("timm") is not None:
    OBJECTIVES |= MASKED


def encoder() -> nn.Module:
    with borrowed(0, "encoder"):
        model = nn.Sequential(
            nn.Conv2d(1, 6, 3),
            nn.BatchNorm2d(6),
            nn.Tanh(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(6, 4),
        )
    return synchronised(model).double()


def images(n: int, step: int) -> Batch:
    source = generator(step, "images")
    shapes = [(n, 1, size, size) for size in (5, 5, 4)]
    views = tuple(torch.randn(shape, generator=source, dtype=torch.float64) for shape in shapes)
    return Batch(views, global_views=2, labels=torch.randint(3, (n,), generator=source))


def trained(name: str, rows: slice, ddp: bool) -> dict[str, torch.Tensor]:
    """Two steps of gradient descent: losses, gradients and all that is left."""
    model = vit() if name in MASKED else encoder()
    learner = Learner({"encoder": model}, OBJECTIVES[name]()).double().train()
    called = DistributedDataParallel(learner, find_unused_parameters=True) if ddp else learner
    found = {}
    for step in range(2):
        learner.zero_grad()
        # timm interpolates positions for views of another size in float32, which is not what is tested
        whole = pictures(25, step, torch.float64, local=16) if name in MASKED else images(25, step)
        batch = whole.rows(rows)
        terms = called(Call(batch, generator(step, "slices")))
        terms["loss"].backward()
        found |= {f"{step} {key}": term.detach().clone() for key, term in terms.items()}
        for key, parameter in learner.named_parameters():
            if parameter.grad is not None:
                found[f"{step} gradient {key}"] = parameter.grad.clone()
                with torch.no_grad():
                    parameter.sub_(0.1 * parameter.grad)
        learner.objective.after_step(learner.answering, step + 1)
    return found | {f"left {key}": value.clone() for key, value in learner.state_dict().items()}


def work(rank: int, world: int, folder: str) -> dict[str, dict]:
    with joined(rank, world, folder):
        return {name: trained(name, share(PARTS[world], rank), ddp=True) for name in OBJECTIVES}


@pytest.fixture(
    scope="module", params=[pytest.param(2, marks=pytest.mark.slow), 3], ids=lambda world: f"{world} ranks"
)
def job(request, tmp_path_factory):
    return run_ranks(work, request.param, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_training_on_ranks_is_training_on_the_whole_batch(name, job):
    truth = trained(name, slice(None), ddp=False)
    assert any("gradient" in key for key in truth)
    for result in job:
        assert result[name].keys() == truth.keys()
        for key, value in truth.items():
            torch.testing.assert_close(result[name][key], value, rtol=1e-9, atol=1e-11, msg=f"{key} differs")

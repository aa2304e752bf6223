"""Loss and gradient in a real torch.distributed job equal those of one process with the whole batch.

Every rank is a process of its own (gloo). Each of these mistakes is in a published implementation, and each
would fail here: a sample count reduced in bfloat16, which is wrong above 256; a reduced tensor that is not
used; a gradient off by the number of ranks; the number of ranks remembered from construction.
"""

from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.encoders import WorldModel
from isojepa.encoders.model import as_model
from isojepa.objectives import (
    AnInfoNCE,
    BarlowTwins,
    InfoNCE,
    LatentDynamics,
    LeJEPA,
    SIGReg,
    SimCLR,
    SlicedInfoNCE,
    VICReg,
    Whitening,
)
from isojepa.objectives.gaussianity import MULTIVARIATE, UNIVARIATE
from isojepa.seeds import generator
from tests.distributed import joined, run_ranks, share

INPUT, DIM = 8, 6
BATCHES = {2: (301, 89), 4: (7, 200, 1, 122)}  # more than 256 in all, and unequal
BEFORE = SIGReg(slices=32, seed=3)  # made before there is a job, as a user's module is

# name -> (regularizer of (batch, dim), dtype of the embeddings, tolerance)
CASES = {
    "sigreg": (lambda h, g: BEFORE(h, g), torch.float32, 1e-6),
    "sigreg float64": (lambda h, g: BEFORE(h, g), torch.float64, 1e-12),
    "sigreg bfloat16": (lambda h, g: BEFORE(h, g), torch.bfloat16, 1e-6),
    "sigreg unbiased": (lambda h, g: SIGReg(slices=32, unbiased=True)(h, g), torch.float32, 1e-6),
    "sigreg fixed sobol": (
        lambda h, g: SIGReg(slices=32, sampler="sobol", resample=False)(h, g),
        torch.float32,
        1e-6,
    ),
    "sigreg orthogonal": (lambda h, g: SIGReg(slices=32, sampler="orthogonal")(h, g), torch.float32, 1e-6),
    "gauss-hermite": (
        lambda h, g: SIGReg(slices=32, test=UNIVARIATE["epps-pulley"](quadrature="gauss-hermite"))(h, g),
        torch.float32,
        1e-6,
    ),
}
for _name in UNIVARIATE:
    CASES[f"sliced {_name}"] = (lambda h, g, name=_name: SIGReg(16, test=name)(h, g), torch.float64, 1e-9)
    CASES[f"columns {_name}"] = (
        lambda h, g, name=_name: UNIVARIATE[name]()(h).mean(),
        torch.float64,
        1e-9,
    )
for _name in ("epps-pulley", "moments", "extended-jarque-bera", "mean-variance", "cramer-von-mises"):
    CASES[f"bfloat16 {_name}"] = (
        lambda h, g, name=_name: SIGReg(16, test=name)(h, g),
        torch.bfloat16,
        1e-5 if "jarque" in _name or "moments" in _name else 1e-6,
    )
for _name in MULTIVARIATE:
    CASES[_name] = (lambda h, g, name=_name: MULTIVARIATE[name]()(h), torch.float64, 1e-9)


def latent_dynamics():
    """Prediction of views that are embeddings already, under actions read off them."""
    model = WorldModel(4, encoder=nn.Identity(), width=8, actions=2).double()
    objective = LatentDynamics(rollout=2, inverse=0.5)
    objective.start({"encoder": as_model(model)})
    objective.double()

    def loss(views, source):
        batch = Batch(tuple(views), actions=views[:-1, :, :2].detach().transpose(0, 1))
        return objective({"encoder": as_model(model)}, batch, source)

    return loss


OBJECTIVES = {  # name -> (objective, number of views)
    "lejepa": (LeJEPA, 2),
    "lejepa pairwise": (lambda: LeJEPA(alignment="pairwise"), 2),
    "lejepa three views": (lambda: LeJEPA(global_views=2), 3),
    "whitening": (lambda: LeJEPA(weight=0.1, regularizer=Whitening()), 2),
    "vicreg": (VICReg, 2),
    "infonce": (lambda: InfoNCE(learned=True), 2),
    "aninfonce": (lambda: AnInfoNCE(4), 2),
    "sliced": (lambda: SlicedInfoNCE(k=2, slices=4), 2),
    "simclr": (SimCLR, 2),
    "barlow twins": (BarlowTwins, 2),
    "lejepa sum": (lambda: LeJEPA(alignment="centre-sum"), 3),
    "vicreg local": (lambda: partial(VICReg(), global_views=1), 3),
    "simclr local": (lambda: partial(SimCLR(), global_views=1), 3),
    "barlow twins local": (lambda: partial(BarlowTwins(), global_views=1), 3),
    "latent dynamics": (latent_dynamics, 3),
}


EMPTY = {  # losses that a rank without samples takes part in
    **{f"sigreg {name}": (lambda h, name=name: SIGReg(8, test=name)(h, generator(2))) for name in UNIVARIATE},
    **{name: (lambda h, name=name: MULTIVARIATE[name]().statistic(h)) for name in MULTIVARIATE},
    **{
        f"objective {name}": (
            lambda h, make=make, count=count: make()(views_of(h, count), generator(2)).total
        )
        for name, (make, count) in OBJECTIVES.items()
    },
}


def views_of(x: torch.Tensor, count: int) -> torch.Tensor:
    return torch.stack([x[:, start : start + 4] for start in (0, 2, 4)[:count]])


def loss_and_gradient(loss, x: torch.Tensor) -> dict[str, torch.Tensor]:
    x = x.clone().requires_grad_()
    value = loss(x)
    value.backward()
    return {"loss": value.detach(), "gradient": x.grad}


def objective_and_gradient(objective: nn.Module, views: torch.Tensor) -> dict[str, torch.Tensor]:
    """The terms of a loss and the gradients of views (view, batch, dim)."""
    views = views.clone().requires_grad_()
    loss = objective(views, generator(2))
    loss.total.backward()
    terms = {name: term.detach() for name, term in loss.terms.items()}
    return {"total": loss.total.detach(), **terms, "gradient": views.grad}


def encoder(dtype: torch.dtype) -> nn.Module:
    source = generator(0, "encoder")
    layer = nn.Linear(INPUT, DIM, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=source) / 3)
    return layer


def samples(n: int) -> torch.Tensor:
    return torch.randn(n, INPUT, generator=generator(0, "samples"), dtype=torch.float64)


def loss_and_gradients(case: str, x: torch.Tensor, ddp: bool) -> dict[str, torch.Tensor]:
    """Loss and the gradients of the encoder's parameters."""
    regularizer, dtype, _ = CASES[case]
    model = encoder(dtype)
    wrapped = DistributedDataParallel(model) if ddp else model
    h = wrapped(x.to(model.weight.dtype)).to(dtype)
    loss = regularizer(h, generator(1, "slices", 7))
    loss.backward()
    return {"loss": loss.detach(), **{k: p.grad.clone() for k, p in model.named_parameters()}}


def work(rank: int, world: int, folder: str) -> dict[str, dict]:
    """What one rank finds in the job, and outside of it."""
    alone = BEFORE(torch.ones(4, 3), generator(0)).item()
    with joined(rank, world, folder):
        results = work_together(rank, world)
    results["after"] = {"loss": torch.tensor([alone, BEFORE(torch.ones(4, 3), generator(0)).item()])}
    return results


def work_together(rank: int, world: int) -> dict[str, dict]:
    """Every case on a rank's own share of the batch; then what needs another layout."""
    batches = BATCHES[world]
    mine = samples(sum(batches))[share(batches, rank)]
    results = {case: loss_and_gradients(case, mine, ddp=True) for case in CASES}

    leaf = mine.clone().requires_grad_()
    SIGReg(slices=8)(leaf, generator(2)).backward()
    results["embeddings"] = {"gradient": leaf.grad}

    weighted = mine.clone().requires_grad_()  # ranks may weigh the loss differently, e.g. by their batch
    (batches[rank] * SIGReg(slices=8)(weighted, generator(2))).backward()
    results["weighted"] = {"gradient": weighted.grad}

    whole = samples(sum(batches))
    empty = whole if rank == world - 1 else whole[:0]  # all samples on the last rank
    for name, objective in EMPTY.items():
        results[f"empty {name}"] = loss_and_gradient(objective, empty)

    with ranks.alone():
        results["alone"] = {"loss": SIGReg(slices=8)(mine, generator(2)) if rank == 0 else torch.zeros(())}
    pair = dist.new_group([0, 1])
    if rank < 2:
        with ranks.within(pair):
            results["pair"] = {"loss": SIGReg(slices=8)(mine, generator(2))}

    for name, objective in OBJECTIVES.items():
        results[name] = objective_and_gradient(objective[0](), views_of(mine, objective[1]))

    refused = ""
    try:
        bad = mine.clone()
        bad[:1] = torch.nan if rank == 0 else 0.0
        UNIVARIATE["epps-pulley"]()(bad)
    except ValueError as error:  # on every rank: one that goes on alone would wait for ever
        refused = str(error)
    results["refused"] = {"error": refused}
    results["pvalue"] = {"p": SIGReg(slices=8).pvalue(mine, draws=99)}
    return results


@pytest.fixture(
    scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)], ids=lambda world: f"{world} ranks"
)
def job(request, tmp_path_factory):
    """Results of every rank, with the world size."""
    return request.param, run_ranks(work, request.param, tmp_path_factory.mktemp("ranks"))


def close(ours: torch.Tensor, truth: torch.Tensor, tolerance: float) -> bool:
    return bool((ours.double() - truth.double()).abs().max() <= tolerance * max(1.0, truth.abs().max()))


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_on_every_rank_are_those_of_the_whole_batch(case, job):
    world, results = job
    truth = loss_and_gradients(case, samples(sum(BATCHES[world])), ddp=False)
    tolerance = CASES[case][2]
    gradient_tolerance = max(tolerance, 1e-5) if CASES[case][1] == torch.bfloat16 else tolerance
    assert truth["weight"].abs().max() > 1e-6
    for result in results:
        assert result[case].keys() == truth.keys()
        for key, value in truth.items():
            assert close(result[case][key], value, tolerance if key == "loss" else gradient_tolerance), key


def test_a_rank_receives_the_gradient_that_ddp_then_averages(job):
    world, results = job
    whole = samples(sum(BATCHES[world])).requires_grad_()
    SIGReg(slices=8)(whole, generator(2)).backward()
    held = torch.cat([result["embeddings"]["gradient"] for result in results])
    assert close(held, world * whole.grad, 1e-12)
    # d(sum of all ranks' losses): batch sizes add up to the whole
    weighted = torch.cat([result["weighted"]["gradient"] for result in results])
    assert close(weighted, len(whole) * whole.grad, 1e-11)


@pytest.mark.parametrize("name", EMPTY)
def test_ranks_may_have_no_samples_at_all(name, job):
    world, results = job
    truth = loss_and_gradient(EMPTY[name], samples(sum(BATCHES[world])))
    assert truth["gradient"].abs().max() > 1e-9
    for result in results:
        assert close(result[f"empty {name}"]["loss"], truth["loss"], 1e-10)
    held = torch.cat([result[f"empty {name}"]["gradient"] for result in results])
    assert close(held, world * truth["gradient"], 1e-10)


@pytest.mark.filterwarnings("ignore:x of shape")
def test_alone_and_within_a_group_choose_who_shares_the_batch(job):
    world, results = job
    batches, whole = BATCHES[world], samples(sum(BATCHES[world]))
    truth = SIGReg(slices=8)(whole[: batches[0]], generator(2))
    assert close(results[0]["alone"]["loss"], truth, 1e-12)
    truth = SIGReg(slices=8)(whole[: sum(batches[:2])], generator(2))
    assert all(close(result["pair"]["loss"], truth, 1e-12) for result in results[:2])


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_is_that_of_the_whole_batch(name, job):
    world, results = job
    make, count = OBJECTIVES[name]
    whole = samples(sum(BATCHES[world]))
    truth = objective_and_gradient(make(), views_of(whole, count))
    held = torch.cat([result[name]["gradient"] for result in results], dim=1)
    assert truth["gradient"].abs().max() > 1e-6
    assert close(held, world * truth["gradient"], 1e-10)
    for result in results:
        for term in truth.keys() - {"gradient"}:
            assert close(result[name][term], truth[term], 1e-10), term


def test_nan_on_one_rank_is_refused_on_all(job):
    _, results = job
    assert {result["refused"]["error"] for result in results} == {
        "x must be finite, got 8 values that are NaN or Inf"
    }


def test_pvalue_is_that_of_the_whole_batch_on_every_rank(job):
    world, results = job
    truth = SIGReg(slices=8).pvalue(samples(sum(BATCHES[world])), draws=99)
    assert all(result["pvalue"]["p"].item() == truth.item() for result in results)


def test_size_of_the_job_is_asked_at_each_call(job):
    _, results = job
    for result in results:
        before, after = result["after"]["loss"].tolist()
        assert before == after

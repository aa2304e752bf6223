"""Batch normalisation over ranks equals one process with the whole batch, and alone it is torch's own."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from isojepa import ranks
from isojepa.encoders.layers import BatchNorm, synchronised
from isojepa.objectives import LeJEPA, SIGReg
from isojepa.seeds import generator
from tests.distributed import joined, run_ranks, share

BATCHES = {2: (9, 4), 3: (6, 1, 10)}  # unequal; the second of three has one row
SHAPES = {"1d": (4,), "1d sequence": (4, 5), "2d": (4, 3, 2), "3d": (4, 2, 1, 3)}
PLAIN = {"1d": nn.BatchNorm1d, "1d sequence": nn.BatchNorm1d, "2d": nn.BatchNorm2d, "3d": nn.BatchNorm3d}
# name -> (shape, arguments, dtype of the input, its mean, training)
CASES = {
    **{name: (name, {}, torch.float32, 0.5, True) for name in SHAPES},
    "float64": ("2d", {"dtype": torch.float64}, torch.float64, 0.5, True),
    "bfloat16": ("2d", {}, torch.bfloat16, 0.5, True),
    "large mean": ("2d", {}, torch.float32, 300.0, True),
    "cumulative": ("2d", {"momentum": None}, torch.float32, 0.5, True),
    "fast": ("1d", {"momentum": 0.7, "eps": 0.1}, torch.float32, 0.5, True),
    "not affine": ("2d", {"affine": False}, torch.float32, 0.5, True),
    "no running statistics": ("2d", {"track_running_stats": False}, torch.float32, 0.5, True),
    "evaluation": ("2d", {}, torch.float32, 0.5, False),
    "evaluation by the batch": ("2d", {"track_running_stats": False}, torch.float32, 0.5, False),
}


def batch(name: str, step: int, n: int) -> torch.Tensor:
    """(n, channels, ...): a normal sample of unit variance, after each channel's own factor."""
    shape, _, dtype, mean, _ = CASES[name]
    size = n, *SHAPES[shape]
    factors = torch.linspace(0.5, 2, 4).view(1, 4, *[1] * (len(size) - 2))
    x = torch.randn(size, generator=generator(0, name, step), dtype=torch.float64)
    return (mean + x * factors).to(dtype)


def results_of(norm: nn.Module, name: str, held: slice, n: int) -> dict[str, torch.Tensor]:
    """Values, gradients and buffers after three batches, under a loss that weighs every value differently."""
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator(1, "parameters")))
    norm.train(CASES[name][4])
    for step in range(3):
        x = batch(name, step, n)[held].requires_grad_()
        y = norm(x)
        weights = torch.randn((n, *y.shape[1:]), generator=generator(2, step), dtype=torch.float64)[held]
        loss = ranks.total((y.double().sin() * weights).sum()) / n
        loss.backward()
    gradients = {f"d {key}": p.grad for key, p in norm.named_parameters()}
    return {"loss": loss.detach(), "y": y.detach(), "d x": x.grad, **gradients, **dict(norm.named_buffers())}


def far_from_zero() -> torch.Tensor:
    """(4000, 2) float32 with a mean of 10,000 standard deviations."""
    x = torch.randn(4000, 2, generator=generator(6), dtype=torch.float64)
    return (torch.tensor([100.0, -1000.0]) + x * torch.tensor([0.01, 0.1])).float()


class Network(nn.Module):
    """Two layers with normalisation between them, on inputs of 6 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3), nn.BatchNorm1d(3)
        )
        with torch.no_grad():
            for index, parameter in enumerate(self.parameters()):
                parameter.copy_(torch.randn(parameter.shape, generator=generator(3, index)) / 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def trained(network: nn.Module, n: int, held: slice, ddp: bool) -> dict[str, torch.Tensor]:
    """Losses, gradients and weights of a few steps of LeJEPA on two views."""
    model = DistributedDataParallel(network) if ddp else network
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    objective = LeJEPA(weight=0.3, regularizer=SIGReg(slices=16))
    results = {}
    for step in range(4):
        views = torch.randn(2, n, 6, generator=generator(4, step))
        views[1] = views[0] + views[1] / 2
        h = model(views[:, held].flatten(0, 1)).view(2, -1, 3)
        loss = objective(h, generator(5, step)).total
        optimizer.zero_grad()
        loss.backward()
        results |= {f"loss {step}": loss.detach()}
        results |= {f"d {key} {step}": p.grad.clone() for key, p in network.named_parameters()}
        optimizer.step()
    return results | dict(network.state_dict())


def work(rank: int, world: int, folder: str) -> dict[str, dict[str, torch.Tensor]]:
    batches = BATCHES[world]
    n, held = sum(batches), share(batches, rank)
    with joined(rank, world, folder):
        results = {
            name: results_of(synchronised(PLAIN[shape](4, **options)), name, held, n)
            for name, (shape, options, *_) in CASES.items()
        }
        results["network"] = trained(synchronised(Network()), n, held, ddp=True)
        empty = BatchNorm(4)(torch.ones(0 if rank else 5, 4) * torch.arange(4))
        results["empty"] = {"y": empty.detach()}
        far = BatchNorm(2, momentum=None)
        far(far_from_zero()[share((3000, 600, 400) if world == 3 else (3000, 1000), rank)])
        results["far"] = {"running_var": far.running_var}
        with ranks.alone():
            norm = BatchNorm(4)
            norm(batch("1d", 0, n) if rank == 0 else torch.ones(3, 4))
            results["alone"] = {"running_mean": norm.running_mean}
        try:
            refused = ""
            BatchNorm(4)(torch.ones(0 if rank else 1, 4))
        except ValueError as error:
            refused = str(error)
        results["one value"] = {"error": refused}
        dist.barrier()
    return results


@pytest.fixture(
    scope="module", params=[2, pytest.param(3, marks=pytest.mark.slow)], ids=lambda world: f"{world} ranks"
)
def job(request, tmp_path_factory):
    return request.param, run_ranks(work, request.param, tmp_path_factory.mktemp("norms"))


def close(ours: torch.Tensor, truth: torch.Tensor, tolerance: float) -> bool:
    return bool((ours.double() - truth.double()).abs().max() <= tolerance * max(1.0, truth.abs().max()))


@pytest.mark.parametrize("name", CASES)
def test_values_gradients_and_buffers_are_those_of_the_whole_batch(name, job):
    world, results = job
    n = sum(BATCHES[world])
    shape, options, dtype, mean, _ = CASES[name]
    truth = results_of(PLAIN[shape](4, **options), name, slice(None), n)
    # one bfloat16 digit of a rounded value; and what rounding of the input's own digits leaves at mean 300
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1e-2}[dtype] * max(1, mean / 50)
    for result in results:
        assert result[name].keys() == truth.keys()
        for key in truth.keys() & {"loss", "running_mean", "running_var", "num_batches_tracked"}:
            assert close(result[name][key], truth[key], tolerance), key
    held = torch.cat([result[name]["y"] for result in results])
    assert held.dtype == dtype
    assert close(held, truth["y"], tolerance)
    # the convention of DistributedDataParallel: ranks hold W times the gradient of rows, and average
    assert close(torch.cat([result[name]["d x"] for result in results]) / world, truth["d x"], tolerance)
    for key in truth.keys() & {"d weight", "d bias"}:
        assert close(sum(result[name][key] for result in results) / world, truth[key], tolerance), key


def test_a_network_trains_under_ddp_as_in_one_process(job):
    world, results = job
    truth = trained(Network(), sum(BATCHES[world]), slice(None), ddp=False)
    assert truth["d body.1.weight 3"].abs().max() > 1e-3
    for result in results:
        assert result["network"].keys() == truth.keys()
        for key, value in truth.items():
            assert close(result["network"][key], value, 1e-5), key


def test_a_rank_may_have_no_rows(job):
    _, results = job
    assert results[0]["empty"]["y"].shape == (5, 4)
    assert results[1]["empty"]["y"].shape == (0, 4)
    assert results[0]["empty"]["y"].abs().max() < 1e-6  # every channel is constant


def test_a_batch_of_one_value_is_refused_on_every_rank(job):
    _, results = job
    for result in results:
        assert result["one value"]["error"] == (
            "a batch must have at least 2 values for each channel, got 1 on all ranks"
        )


def test_variance_keeps_its_digits_where_the_mean_is_large(job):
    _, results = job
    truth = far_from_zero().double().var(0)
    assert all(torch.allclose(result["far"]["running_var"].double(), truth, rtol=1e-5) for result in results)


@pytest.mark.parametrize("name", CASES)
def test_on_one_process_it_is_torchs_own(name):
    shape, options, *_ = CASES[name]
    ours = results_of(BatchNorm(4, **options), name, slice(None), 11)
    truth = results_of(PLAIN[shape](4, **options), name, slice(None), 11)
    assert ours.keys() == truth.keys()
    assert all(torch.equal(ours[key], truth[key]) for key in truth)


def test_synchronised_shares_parameters_and_keeps_modes_hooks_and_keys():
    shared = nn.BatchNorm1d(3)
    network = nn.ModuleDict(
        {
            "plain": nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.BatchNorm3d(2)),
            "twice": nn.Sequential(shared, nn.Linear(3, 3), shared),
        }
    )
    network["plain"][1].eval()
    calls = []
    shared.register_forward_hook(lambda *_: calls.append(1))
    tensors = network.state_dict(keep_vars=True)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    assert synchronised(network) is network
    assert [type(network["plain"][i]) for i in range(3)] == [nn.Conv2d, BatchNorm, BatchNorm]
    assert network["twice"][0] is network["twice"][2] is shared
    assert [network["plain"][i].training for i in (1, 2)] == [False, True]
    after = network.state_dict(keep_vars=True)
    assert list(after) == list(tensors)
    assert all(after[key] is tensors[key] for key in tensors)
    assert [id(p) for p in optimizer.param_groups[0]["params"]] == [id(p) for p in network.parameters()]
    network["twice"](torch.ones(4, 3))
    assert calls == [1, 1]


def test_other_kinds_are_refused_and_nothing_is_changed():
    class Activated(nn.BatchNorm2d):
        def forward(self, x):
            return super().forward(x).relu()

    network = nn.Sequential(nn.BatchNorm1d(2), Activated(2))
    with pytest.raises(ValueError, match="got Activated at '1'"):
        synchronised(network)
    assert type(network[0]) is nn.BatchNorm1d
    with pytest.raises(ValueError, match="got LazyBatchNorm1d at 'the root'"):
        synchronised(nn.LazyBatchNorm1d())

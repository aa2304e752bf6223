"""Moving averages of weights: the recursion, swapped in and out, through checkpoints, and as teachers."""

import contextlib
import copy

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from isojepa.seeds import generator
from isojepa.training.averages import WeightAverage, follow


def network(dtype: torch.dtype = torch.float32) -> nn.Module:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(dtype)
    shake(module, 0)
    return module


def shake(module: nn.Module, step: int) -> None:
    """As an optimiser's step and a forward pass do: other weights, other running statistics."""
    source = generator(1, step)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=source))
        module[1].running_mean.copy_(torch.randn(4, generator=source))
        module[1].num_batches_tracked.add_(1)


def snapshot(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("warmup", [False, True])
def test_parameters_follow_the_recursion_and_buffers_are_the_newest(warmup):
    module = network(torch.float64)
    names = [name for name, _ in module.named_parameters()]
    truth = snapshot(module)
    average = WeightAverage(module, 0.8, warmup=warmup)
    for t in range(60):
        shake(module, t + 1)
        average.update()
        d = min(0.8, (1 + t) / (10 + t)) if warmup else 0.8
        now = snapshot(module)
        truth = {k: d * truth[k] + (1 - d) * now[k] if k in names else now[k] for k in truth}
    assert average.updates == 60
    with average.apply():
        for name, tensor in module.state_dict().items():
            assert torch.allclose(tensor.double(), truth[name].double(), rtol=0, atol=1e-12), name


def test_weights_come_back_bit_for_bit_also_after_an_error():
    module = network()
    average = WeightAverage(module, 0.9)
    averaged = snapshot(module)
    shake(module, 1)
    before, tensors = snapshot(module), module.state_dict(keep_vars=True)
    with contextlib.suppress(KeyError), average.apply():
        assert same(snapshot(module), averaged)
        module(torch.randn(8, 3, generator=generator(0)))  # in training mode: running statistics move
        raise KeyError
    assert same(snapshot(module), before)
    assert all(tensors[name] is tensor for name, tensor in module.state_dict(keep_vars=True).items())
    with average.apply():
        assert same(snapshot(module), averaged)  # what was done inside did not reach the average


def test_gradients_and_the_optimiser_are_not_disturbed():
    def trained(averaging: bool) -> dict[str, torch.Tensor]:
        module = network()
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
        average = WeightAverage(module, 0.9)
        for step in range(5):
            loss = module(torch.randn(8, 3, generator=generator(2, step))).square().mean()
            optimizer.zero_grad()
            loss.backward()
            if averaging:
                with average.apply(), torch.no_grad():
                    module.eval()(torch.ones(2, 3))
                module.train()
            optimizer.step()
            average.update()
        return snapshot(module)

    assert same(trained(True), trained(False))


def test_a_checkpoint_goes_on_with_the_same_bits(tmp_path):
    module = network()
    average = WeightAverage(module, 0.99, warmup=True)
    for step in range(7):
        shake(module, step)
        average.update()
        if step == 3:
            save_file(average.state_dict(), tmp_path / "average.safetensors")
    other = network()
    resumed = WeightAverage(other, 0.99, warmup=True)
    resumed.load_state_dict(load_file(tmp_path / "average.safetensors"))
    assert resumed.updates == 4
    other.load_state_dict({**snapshot(module), "1.num_batches_tracked": torch.tensor(4)})
    for step in range(4, 7):
        shake(other, step)
        resumed.update()
    ours, truth = resumed.state_dict(), average.state_dict()
    ours.pop("average/1.num_batches_tracked"), truth.pop("average/1.num_batches_tracked")
    assert same(ours, truth)


def test_a_state_of_another_module_is_refused():
    average = WeightAverage(network(), 0.9)
    with pytest.raises(ValueError, match=r"got '0.bias' of shape \(4,\) here and None there"):
        average.load_state_dict(WeightAverage(nn.Linear(3, 4), 0.9).state_dict())
    with pytest.raises(ValueError, match=r"'0.weight' of shape \(4, 3\) here and \(4, 5\) there"):
        average.load_state_dict({**average.state_dict(), "average/0.weight": torch.ones(4, 5)})
    with pytest.raises(ValueError, match="must have 'updates'"):
        average.load_state_dict({})


@pytest.mark.parametrize("decay", [-0.1, 1.1, float("nan")])
def test_a_decay_out_of_range_is_refused(decay):
    with pytest.raises(ValueError, match=r"decay must lie in \[0, 1\]"):
        WeightAverage(network(), decay)
    with pytest.raises(ValueError, match=r"decay must lie in \[0, 1\]"):
        follow(network(), network(), decay)


def test_a_teacher_follows_its_student():
    student = network(torch.float64)
    teacher = copy.deepcopy(student).requires_grad_(False)
    before = snapshot(teacher)
    shake(student, 5)
    truth, tensors = snapshot(student), teacher.state_dict(keep_vars=True)
    follow(teacher, student, 0.75)
    for name, parameter in teacher.named_parameters():
        assert torch.allclose(parameter, 0.75 * before[name] + 0.25 * truth[name], rtol=0, atol=1e-14)
    assert torch.equal(teacher[1].running_mean, student[1].running_mean)
    assert all(tensors[name] is tensor for name, tensor in teacher.state_dict(keep_vars=True).items())
    assert same(snapshot(student), truth)
    follow(teacher, student, 0.0)
    assert same(snapshot(teacher), truth)
    with pytest.raises(ValueError, match="same names"):
        follow(teacher, nn.Linear(3, 3), 0.5)


def test_following_leaves_no_gradient_and_takes_part_in_none():
    student, teacher = network(), network()
    teacher(torch.ones(4, 3)).sum().backward()
    gradient = teacher[0].weight.grad.clone()
    follow(teacher, student, 0.5)
    assert teacher[0].weight.requires_grad
    assert teacher[0].weight.is_leaf
    assert torch.equal(teacher[0].weight.grad, gradient)


def test_types_are_kept_also_where_they_are_mixed():
    module = network()
    module[2].to(torch.bfloat16)
    module.register_parameter("index", nn.Parameter(torch.tensor([3]), requires_grad=False))
    average = WeightAverage(module, 0.5)
    with torch.no_grad():
        module[2].bias.zero_()
    average.update()
    kinds = {name: tensor.dtype for name, tensor in module.state_dict().items()}
    state = average.state_dict()
    assert {name: state[f"average/{name}"].dtype for name in kinds} == kinds
    assert state["average/index"].item() == 3
    with average.apply():
        assert {name: tensor.dtype for name, tensor in module.state_dict().items()} == kinds


def test_tied_weights_are_averaged_once():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[1].weight = module[0].weight
    average = WeightAverage(module, 0.5)
    with torch.no_grad():
        module[0].weight.zero_()
    half = average.state_dict()["average/0.weight"] / 2
    average.update()
    assert "average/1.weight" not in average.state_dict()
    with average.apply():
        assert torch.equal(module[1].weight, half)

"""Weight decay: who has it, who is spared, and in which order an optimiser sees them."""

import pytest
import torch
from torch import nn

from isojepa.objectives import InfoNCE
from isojepa.training.parameters import decayed_groups


class Tokens(nn.Module):
    """Names two of its parameters, and one that it does not have, as the models of timm do."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.ones(1, 5, 4))
        self.attention = nn.MultiheadAttention(4, 2, add_bias_kv=True)
        self.mix = nn.Linear(4, 4, bias=False)
        self.scale = nn.Parameter(torch.ones(()))

    def no_weight_decay(self) -> set[str]:
        return {"position", "mix.weight", "cls_token"}


def names(module: nn.Module, weight_decay: float = 0.1) -> list[list[str]]:
    known = {parameter: name for name, parameter in module.named_parameters()}
    return [[known[p] for p in group["params"]] for group in decayed_groups(module, weight_decay)]


def test_biases_norms_and_vectors_are_spared():
    module = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.GroupNorm(1, 2), nn.LayerNorm((2, 3, 3)), nn.Linear(3, 2)
    )
    assert names(module) == [
        ["0.weight", "4.weight"],
        ["0.bias", "1.weight", "1.bias", "2.weight", "2.bias", "3.weight", "3.bias", "4.bias"],
    ]
    assert [group["weight_decay"] for group in decayed_groups(module, 0.1)] == [0.1, 0.0]


def test_a_module_names_what_it_spares_at_any_depth():
    decayed, spared = names(nn.ModuleDict({"encoder": nn.Sequential(Tokens())}))
    own = "encoder.0."
    assert decayed == [own + "attention.in_proj_weight", own + "attention.out_proj.weight"]
    assert {own + name for name in ("position", "mix.weight", "scale", "attention.bias_k")} <= set(spared)
    assert own + "attention.in_proj_bias" in spared


def test_tied_parameters_come_once_and_are_spared_under_either_name():
    module = nn.Sequential(nn.Linear(4, 4), Tokens())
    module[1].mix.weight = module[0].weight
    decayed, spared = names(module)
    assert "0.weight" in spared
    assert "0.weight" not in decayed
    assert len(decayed) + len(spared) == len(list(module.parameters()))
    shared = nn.Linear(2, 2)
    groups = decayed_groups([shared, nn.Sequential(shared)], 0.1)
    assert [len(group["params"]) for group in groups] == [1, 1]


def test_frozen_parameters_and_empty_groups_are_left_out():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[0].requires_grad_(False)
    assert names(module) == [["1.weight"], ["1.bias"]]
    assert len(decayed_groups(nn.Linear(2, 2, bias=False), 0.1)) == 1
    assert [group["weight_decay"] for group in decayed_groups(nn.LayerNorm(2), 0.1)] == [0.0]


def test_without_weight_decay_there_is_one_group_in_the_order_of_the_modules():
    first, second = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), InfoNCE(learned=True)
    first[0].weight.requires_grad_(False)
    (group,) = decayed_groups((first, second), 0.0)
    expected = [*first.parameters(), *second.parameters()]
    assert group["weight_decay"] == 0.0
    assert len(group["params"]) == len(expected) == 5
    assert all(ours is theirs for ours, theirs in zip(group["params"], expected, strict=True))


def test_an_optimiser_decays_the_first_group_alone():
    module = nn.Linear(3, 2)
    weight, bias = module.weight.detach().clone(), module.bias.detach().clone()
    optimizer = torch.optim.AdamW(decayed_groups(module, 0.1), lr=0.5)
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert torch.allclose(module.weight, weight * (1 - 0.5 * 0.1))
    assert torch.equal(module.bias, bias)


def test_negative_weight_decay_is_refused():
    with pytest.raises(ValueError, match="weight_decay must not be negative, got -1"):
        decayed_groups(nn.Linear(1, 1), -1)

"""The fitted model of a latent: its step is the linear part and the network, in fewer products."""

import torch

from isojepa.encoders.mlp import MLP
from isojepa.planning.problems import LinearDynamics
from isojepa.seeds import generator
from isojepa.training.fine_tuning import StandardizedNetwork
from isojepa_lab.environments.latent_control import LatentModel


def test_a_step_is_the_linear_part_and_the_network():
    source = generator(0, "model")
    h, a = (2 * torch.randn(300, width, generator=source) + 1 for width in (4, 3))
    rest = 0.1 * torch.randn(300, 4, generator=source)
    linear = LinearDynamics(
        *(torch.randn(*shape, generator=source, dtype=torch.float64) for shape in ((4, 4), (4, 3), (4,)))
    )
    network = StandardizedNetwork(MLP(7, 4, 32, 3), torch.cat((h, a), 1), rest).requires_grad_(False)
    expected = linear.step(h, a) + network(torch.cat((h, a), 1))
    torch.testing.assert_close(LatentModel(linear, network, 0.0).step(h, a), expected, rtol=1e-4, atol=1e-5)
    model = LatentModel(linear, network, 0.0)
    with torch.inference_mode():
        model.step(h, a)
    moved = model.step(h, a.requires_grad_())
    (slope,) = torch.autograd.grad(moved.sum(), a)
    (truth,) = torch.autograd.grad((linear.step(h, a) + network(torch.cat((h, a), 1))).sum(), a)
    torch.testing.assert_close(slope, truth, rtol=1e-4, atol=1e-5)
    assert torch.equal(LatentModel(linear, None, 0.0).step(h, a), linear.step(h, a))

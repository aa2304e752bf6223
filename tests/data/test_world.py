"""A world joins a process and a mixing."""

import pytest
import torch

from isojepa.data import AdditiveCoupling, Batch, NoisyCopies, OrnsteinUhlenbeck, Spiral, World
from isojepa.seeds import generator
from tests.reference.global_state import untouched


def test_observations_are_the_mixing_of_the_processs_own_pairs():
    process, mixing = OrnsteinUhlenbeck(4, rho=0.9), AdditiveCoupling(4, seed=3)
    pairs = World(process, mixing).sample(100, generator(0, "data"))
    z, z_next = process.sample(100, generator(0, "data"))
    assert torch.equal(pairs.z[0], z)
    assert torch.equal(pairs.z[1], z_next)
    assert torch.equal(pairs.views[0], mixing(z))
    assert torch.equal(pairs.views[1], mixing(z_next))
    assert len(pairs) == 100


def test_any_callable_is_a_mixing():
    process = OrnsteinUhlenbeck(2)
    cubed = World(process, lambda z: z**3).sample(10, generator(0, "data"))
    assert torch.equal(cubed.views[1], cubed.z[1] ** 3)

    def images(z):
        return torch.einsum("bi,bj->bij", z, torch.cat((z, z), 1))

    world = World(process, images)
    pairs = world.sample(10, generator(0, "data"))
    assert pairs.views[0].shape == (10, 2, 4)
    assert world.observed_dim == 4
    torch.testing.assert_close(pairs.views[0][3, 1, 2], pairs.z[0][3, 1] * pairs.z[0][3, 0])


@pytest.mark.parametrize("process", [OrnsteinUhlenbeck(2), NoisyCopies(2)], ids=["ou", "copies"])
def test_pairs_depend_on_the_generator_alone(process):
    world = World(process, Spiral())
    with untouched():
        first = world.sample(20, generator(1, "data"))
    torch.manual_seed(5)
    again, other = world.sample(20, generator(1, "data")), world.sample(20, generator(2, "data"))
    for part in ("z", "views"):
        for one, same, different in zip(*(getattr(b, part) for b in (first, again, other)), strict=True):
            assert torch.equal(one, same)
            assert (one != different).all()


@pytest.mark.parametrize(
    ("mixing", "message"),
    [
        (lambda z: z / 0, "mixing must give finite observations, got NaN or Inf"),
        (lambda z: z.sum(), r"mixing must map \(batch, dim\) to \(batch, ...\), got \(\) for batch 3"),
        (lambda z: z.sum(1), r"mixing must map .* got \(3,\) for batch 3"),
        (lambda z: z.numpy(), "mixing must map .* got ndarray for batch 3"),
        ("spiral", "mixing must be callable, got 'spiral'"),
    ],
)
def test_a_mixing_that_cannot_show_the_latents_is_refused(mixing, message):
    with pytest.raises(ValueError, match=message):
        World(OrnsteinUhlenbeck(2), mixing)


def test_parts_of_a_batch_of_unequal_length_are_refused():
    z = torch.zeros(4, 2)
    message = (
        r"parts of a batch must have equal lengths, got \{'views\[0\]': 3, 'views\[1\]': 4, 'z\[0\]': 4\}"
    )
    with pytest.raises(ValueError, match=message):
        Batch((z[:3], z), z=(z,))

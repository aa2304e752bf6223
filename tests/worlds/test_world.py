"""A world joins a process and a mixing."""

import pytest
import torch

from isojepa.seeds import generator
from isojepa.worlds import AdditiveCoupling, Lift, NoisyCopies, OrnsteinUhlenbeck, Pairs, Spiral, World
from tests.reference.global_state import untouched


def test_observations_are_the_mixing_of_the_processs_own_pairs():
    process, mixing = OrnsteinUhlenbeck(4, rho=0.9), AdditiveCoupling(4, seed=3)
    pairs = World(process, mixing).sample(100, generator(0, "data"))
    z, z_next = process.sample(100, generator(0, "data"))
    assert torch.equal(pairs.z, z)
    assert torch.equal(pairs.z_next, z_next)
    assert torch.equal(pairs.x, mixing(z))
    assert torch.equal(pairs.x_next, mixing(z_next))
    assert len(pairs) == 100


def test_a_world_without_a_mixing_shows_its_latents():
    pairs = World(OrnsteinUhlenbeck(3)).sample(10, generator(0, "data"))
    assert torch.equal(pairs.x, pairs.z)
    assert torch.equal(pairs.x_next, pairs.z_next)


def test_any_callable_is_a_mixing():
    process = OrnsteinUhlenbeck(2)
    cubed = World(process, lambda z: z**3).sample(10, generator(0, "data"))
    assert torch.equal(cubed.x_next, cubed.z_next**3)

    def images(z):
        return torch.einsum("bi,bj->bij", z, torch.cat((z, z), 1))

    world = World(process, images)
    pairs = world.sample(10, generator(0, "data"))
    assert pairs.x.shape == (10, 2, 4)
    assert world.observed_dim == 4
    torch.testing.assert_close(pairs.x[3, 1, 2], pairs.z[3, 1] * pairs.z[3, 0])


@pytest.mark.parametrize("process", [OrnsteinUhlenbeck(2), NoisyCopies(2)], ids=["ou", "copies"])
def test_pairs_depend_on_the_generator_alone(process):
    world = World(process, Spiral())
    with untouched():
        first = world.sample(20, generator(1, "data"))
    torch.manual_seed(5)
    again, other = world.sample(20, generator(1, "data")), world.sample(20, generator(2, "data"))
    for name in ("z", "z_next", "x", "x_next"):
        assert torch.equal(getattr(first, name), getattr(again, name))
        assert (getattr(first, name) != getattr(other, name)).all()


def test_a_world_states_its_dimensions_and_correlation():
    world = World(OrnsteinUhlenbeck(2, rho=(0.5, 0.9), lag=2), Lift(2, 7))
    assert (world.dim, world.observed_dim) == (2, 7)
    assert world.correlation == pytest.approx((0.25, 0.81))


@pytest.mark.parametrize(
    ("mixing", "message"),
    [
        (lambda z: z / 0, "mixing must give finite observations, got NaN or Inf"),
        (lambda z: torch.sqrt(z), "mixing must give finite observations, got NaN or Inf"),
        (Spiral(rate=float("nan")), "mixing must give finite observations, got NaN or Inf"),
        (lambda z: z.sum(), r"mixing must map \(batch, dim\) to \(batch, ...\), got \(\) for batch 3"),
        (lambda z: z.sum(1), r"mixing must map .* got \(3,\) for batch 3"),
        (lambda z: z[:1], r"mixing must map .* got \(1, 2\) for batch 3"),
        (lambda z: z.numpy(), "mixing must map .* got ndarray for batch 3"),
        ("spiral", "mixing must be callable, got 'spiral'"),
    ],
)
def test_a_mixing_that_cannot_show_the_latents_is_refused(mixing, message):
    with pytest.raises(ValueError, match=message):
        World(OrnsteinUhlenbeck(2), mixing)


def test_a_mixing_of_another_dimension_is_refused():
    with pytest.raises(ValueError, match=r"Spiral mixes 2 dimensions, got points of shape \(3, 3\)"):
        World(OrnsteinUhlenbeck(3), Spiral())


def test_pairs_of_unequal_length_are_refused():
    z = torch.zeros(4, 2)
    message = r"pairs must have equal lengths, got \{'z': 4, 'z_next': 4, 'x': 3, 'x_next': 4\}"
    with pytest.raises(ValueError, match=message):
        Pairs(z, z, z[:3], z)

"""A world joins a process and a mixing."""

import pytest
import torch

from isojepa.seeds import generator
from isojepa.worlds import AdditiveCoupling, Batch, Lift, NoisyCopies, OrnsteinUhlenbeck, Spiral, World
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


def test_a_world_without_a_mixing_shows_its_latents():
    pairs = World(OrnsteinUhlenbeck(3)).sample(10, generator(0, "data"))
    assert torch.equal(pairs.views[0], pairs.z[0])
    assert torch.equal(pairs.views[1], pairs.z[1])


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


def test_a_world_states_its_dimensions_and_correlation():
    world = World(OrnsteinUhlenbeck(2, rho=(0.5, 0.9), lag=2), Lift(2, 7))
    assert (world.dim, world.observed_dim) == (2, 7)
    assert world.correlation == pytest.approx((0.25, 0.81))


@pytest.mark.parametrize(
    ("mixing", "message"),
    [
        (lambda z: z / 0, "mixing must give finite observations, got NaN or Inf"),
        (lambda z: torch.sqrt(z), "mixing must give finite observations, got NaN or Inf"),
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


def test_parts_of_a_batch_of_unequal_length_are_refused():
    z = torch.zeros(4, 2)
    message = (
        r"parts of a batch must have equal lengths, got \{'views\[0\]': 3, 'views\[1\]': 4, 'z\[0\]': 4\}"
    )
    with pytest.raises(ValueError, match=message):
        Batch((z[:3], z), z=(z,))

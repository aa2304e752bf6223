"""Stand-ins for latents."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from isojepa.isotropise.weighing import principal_components, project, stand_in
from isojepa.worlds.trajectories import Recorded

RNG = np.random.default_rng(0)
STATES = [RNG.normal(size=(n, 2)) for n in (30, 12, 50)]
SEEN = [np.hstack((path, path**2, np.sin(path))) @ RNG.normal(size=(6, 6)) for path in STATES]


def test_principal_components_are_those_of_scikit_learn():
    x = np.concatenate(SEEN)
    theirs = PCA(2).fit(x).transform(x)
    mine = np.concatenate(project(SEEN, principal_components(SEEN, 2), lambda batch: batch))
    for axis in (0, 1):
        assert abs(np.corrcoef(mine[:, axis], theirs[:, axis])[0, 1]) > 1 - 1e-9


def test_a_function_is_applied_along_every_path():
    weights = RNG.random(89)
    recorded = Recorded(STATES, SEEN, weights=weights)
    shadow = stand_in(recorded, lambda x: x[:, :3] * 2)
    z, _ = shadow.states_at(np.arange(shadow.pairs))
    expected = np.concatenate([2 * path[:-1, :3] for path in SEEN])
    np.testing.assert_allclose(shadow.standardiser.restore(z), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(shadow.weights, weights / weights.sum())


def test_what_is_no_proxy_is_named():
    recorded = Recorded(STATES, SEEN)
    with pytest.raises(ValueError, match="proxy must have as many steps"):
        stand_in(recorded, [path[:-1] for path in SEEN])
    with pytest.raises(ValueError, match="must map observations"):
        stand_in(recorded, lambda x: x[:, 0])
    with pytest.raises(ValueError, match="dim must lie between 1 and 6"):
        principal_components(SEEN, 9)
    with pytest.raises(ValueError, match="observations must be finite"):
        principal_components([np.full((5, 2), np.nan)], 1)


def test_images_are_projected_a_part_at_a_time():
    images = RNG.integers(0, 256, size=(3000, 2, 2, 3), dtype=np.uint8)
    found = project(images, principal_components(images, 2, samples=500), lambda x: x / 255)
    assert [len(path) for path in found] == [3000, 3000]
    shifted = project(images[..., :1], lambda x: x.flatten(1)[:, :1] + 1)
    np.testing.assert_array_equal(shifted[1][:, 0], images[:, 1, 0, 0] + 1.0)

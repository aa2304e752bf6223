"""The audit as a whole: what made the actions, which assumptions break, and what to do next."""

import json

import numpy as np
import pytest

from isojepa.certificates.audit import audit
from isojepa.certificates.audit.material import read_for_audit
from isojepa.data.episodes import Episodes
from isojepa.io import to_jsonable
from tests.certificates.audit.test_actions import noise
from tests.certificates.audit.test_strides import ou


@pytest.fixture(scope="module")
def fair():
    """Gaussian, isotropic, stationary states, and independent uniform actions."""
    actions = noise(0, episodes=600, steps=40)
    actions[:, -1] = np.nan
    return Episodes.of({"qpos": 0.5 * ou([0.95, 0.95], 600), "action": actions})


def test_noise_that_is_said_to_be_a_policy_is_called_noise(fair):
    found = audit(fair)
    assert found.description.startswith(
        "The actions are i.i.d. noise as far as this shows, uniform on [-1, 1]"
    )
    assert not found.broken
    assert found.stride == 1
    assert found.line("isotropy").verdict == "holds"
    assert json.dumps(to_jsonable(found.to_dict()))


def test_a_policy_in_a_world_that_breaks_assumptions_is_told_with_advice():
    source = np.random.default_rng(0)
    states = ou([0.995, 0.7], 600)
    states[..., 0] = np.sign(states[..., 0]) * (2 + 0.3 * np.abs(states[..., 0]))
    actions = -0.5 * states + 0.1 * source.normal(size=states.shape)
    found = audit(Episodes.of({"state": states, "action": actions}), stride=1)
    assert "follow from the state" in found.description
    assert {"Gaussianity", "isotropy", "independence of the state"} <= set(found.broken)
    advice = " ".join(found.advice)
    assert "Visit dimension 0 more between" in advice
    assert "Dimension 1 forgets" in advice


def test_an_audit_needs_no_states():
    found = audit(Episodes.of({"action": noise(0), "pixels": np.zeros((80, 41, 2, 2, 3), np.uint8)}))
    assert found.stride == 0
    assert found.line("independence over time").verdict == "holds"
    assert found.line("visible velocity").verdict == "unclear"


def test_columns_that_are_missing_or_broken_are_named(fair):
    with pytest.raises(ValueError, match="did you mean 'action'"):
        audit(fair, action="actions")
    with pytest.raises(ValueError, match="stride must be below the 40 steps"):
        audit(fair, stride=40)
    broken = np.concatenate(fair.values("action"))
    broken[17] = np.nan
    episodes = Episodes({"action": broken}, fair.lengths)
    with pytest.raises(ValueError, match="got NaN or Inf at step 17 of 40 in episode 0"):
        audit(episodes)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("states", "actions"),
    [
        (np.ones((50, 30, 2)), noise(1, episodes=50, steps=30)),
        (noise(0, episodes=50, steps=30) * (1.0, 0.0), noise(1, episodes=50, steps=30) > 0),
        (1e90 * noise(0, episodes=50, steps=30), 1e-90 * noise(1, episodes=50, steps=30)),
        (noise(0, episodes=300, steps=3), noise(1, episodes=300, steps=3)),
        (np.zeros((1, 5, 2)), np.zeros((1, 5, 2))),
    ],
    ids=["states at rest", "a dimension at rest, switches", "huge and tiny", "three steps", "nothing moves"],
)
def test_odd_episodes_are_audited_as_far_as_they_go(states, actions):
    found = audit(Episodes.of({"qpos": states, "action": actions}))
    assert found.description
    assert json.dumps(to_jsonable(found.to_dict()))


def test_numbers_whose_squares_leave_float64_are_refused():
    with pytest.raises(ValueError, match="action must be finite and at most"):
        audit(Episodes.of({"action": 1e200 * noise(0)}))


def test_npz_files_are_read_as_blocks_and_flat(tmp_path):
    block = noise(0, episodes=5, steps=7)
    np.savez(tmp_path / "block.npz", action=block, qpos=block)
    np.savez(tmp_path / "flat.npz", action=block.reshape(35, 2), qpos=block.reshape(35, 2), ep_len=[7] * 5)
    for name in ("block.npz", "flat.npz"):
        found = read_for_audit(tmp_path / name, ["action"])
        assert np.array_equal(np.stack(found.values("action")), block)
    np.savez(tmp_path / "odd.npz", action=block, qpos=block[:, :3])
    with pytest.raises(ValueError, match="of one number of episodes and steps"):
        read_for_audit(tmp_path / "odd.npz", ["action"])
    np.savez(tmp_path / "object.npz", action=np.array([None, {}], dtype=object))
    (tmp_path / "no.npz").write_bytes(b"nothing")
    for name in ("object.npz", "no.npz"):
        with pytest.raises(ValueError, match=name):
            read_for_audit(tmp_path / name, ["action"])
    with pytest.raises(ValueError, match="column must be one of action, qpos, got 'torque'"):
        read_for_audit(tmp_path / "flat.npz", ["torque"])

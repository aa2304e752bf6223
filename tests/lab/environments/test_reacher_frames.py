"""Frames of the arm: dm_control's own bits, the same every time, angles modulo 2 pi, and squashed ones."""

import math

import numpy as np
import pytest

from isojepa_lab.environments.control import LIMIT
from isojepa_lab.environments.reacher_frames import Arm, ArmLook, wrapped_shares
from isojepa_lab.environments.rendering import import_suite
from tests.lab.environments.rendering import rendering_or_skip

POSES = np.array([[0.0, 0.0], [1.0, 2.5], [-2.0, 0.5], [3.5, -3.3], [0.3, -2.79]])


def test_dmc_is_bit_for_bit_what_dm_control_renders():
    rendering_or_skip()
    pytest.importorskip("dm_control")
    ours = ArmLook("dmc").frames(POSES)
    environment = import_suite().load("reacher", "hard", task_kwargs={"random": 0})
    environment.reset()
    physics = environment.physics
    physics.named.model.geom_pos["target", ["x", "y"]] = 0.1, 0.1
    for pose, frame in zip(POSES, ours, strict=True):
        with physics.reset_context():
            physics.data.qpos[:] = pose
        assert np.array_equal(physics.render(64, 64, camera_id=0), frame)
        assert np.array_equal(physics.data.qpos, pose)  # nothing clips the wrist


def test_frames_are_the_same_every_time_and_do_not_depend_on_each_other():
    rendering_or_skip()
    look = ArmLook()
    together = look.frames(POSES)
    assert np.array_equal(look.frames(POSES[::-1])[::-1], together)
    arm = Arm("fast", 64, (0.1, 0.1))
    assert np.array_equal(arm.frames(POSES), together)
    arm.close()
    assert len({frame.tobytes() for frame in together}) == len(POSES)


@pytest.mark.parametrize("quality", ["fast", "dmc"])
def test_a_turn_more_is_not_seen(quality):
    rendering_or_skip()
    poses = POSES[:2] if quality == "dmc" else POSES
    turned = poses + 2 * math.pi * np.array([[1, -1]])
    difference = ArmLook(quality).frames(turned).astype(int) - ArmLook(quality).frames(poses)
    assert np.abs(difference).max() <= 2  # rounding of the angle itself


@pytest.mark.parametrize("quality", ["fast", "dmc"])
def test_observations_are_normalised_channel_by_channel(quality):
    rendering_or_skip()
    side = np.linspace(-math.pi, math.pi, 6)[:-1]
    z = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    x = ArmLook(quality).normalized(ArmLook(quality).frames(z[::5] if quality == "dmc" else z))
    assert x.shape[1:] == (3, 64, 64)
    assert x.mean((0, 2, 3)).abs().max() < 0.1
    assert (x.std((0, 2, 3)) - 1).abs().max() < 0.1


def test_squashed_angles_keep_their_order_and_stay_within_the_range_of_the_wrist():
    z = np.linspace(-6, 6, 1001).astype(np.float32)[:, None] * np.ones((1, 2), dtype=np.float32)
    angles = ArmLook(squash=True).angles(z)
    assert (np.diff(angles, axis=0) > 0).all()
    assert np.abs(angles).max() < LIMIT < math.pi
    assert np.allclose(LIMIT * np.arctanh(angles / LIMIT), z, atol=1e-5)  # nothing is lost
    assert np.array_equal(ArmLook().angles(z), z)
    slope = np.gradient(angles[:, 0], z[:, 0])
    assert slope.max() == pytest.approx(1, abs=1e-3)


def test_shares_of_wrapped_angles_are_those_beyond_half_a_turn():
    angles = np.array([[3.2, 0.0], [0.0, 3.0], [-3.2, -3.2], [0.0, 0.0]])
    shares = wrapped_shares(angles)
    assert shares == {"shoulder_wrapped": 0.5, "wrist_wrapped": 0.25, "wrist_beyond_range": 0.5}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quality": "best"}, "quality must be one of dmc, fast"),
        ({"size": 4}, "size must be an integer of at least 8"),
        ({"pool": 3}, "pool must divide size, 64, got 3"),
        ({"target": (0.1, math.nan)}, "target must be two finite coordinates"),
    ],
)
def test_wrong_looks_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ArmLook(**settings)


def test_angles_that_are_no_numbers_are_told_by_row_and_joint():
    rendering_or_skip()
    with pytest.raises(ValueError, match=r"angles must be finite, got nan at row 1 for the wrist"):
        ArmLook().frames(np.array([[0.0, 0.0], [0.0, math.nan]]))
    with pytest.raises(ValueError, match=r"angles must be \(n, 2\), shoulder and wrist, got shape \(3,\)"):
        ArmLook().frames(np.zeros(3))

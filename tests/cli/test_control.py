"""The commands `evaluate` and `plan`, from what a person types to the answer."""

import json

import numpy as np
import pytest
import torch

from isojepa import runs
from isojepa.align.maps import AlignmentMap
from isojepa.cli.controlled import open_encoder
from isojepa.cli.main import main
from isojepa.config import Config
from isojepa.plan.closed_loop import ReacherPlant
from isojepa.registry import Context, make
from isojepa.training.recipe import Recipe
from tests.exports import small
from tests.plan.closed_loop.plants import plant_or_skip
from tests.rendering import rendering_or_skip

QUICK = ("--transition", "linear", "--recorded", "30")
ENCODER = """
def coarse(x):
    import torch
    return torch.nn.functional.adaptive_avg_pool2d(x, 6).flatten(1)

def broken(x):
    return x.reshape(7, -1)
"""


@pytest.fixture(autouse=True)
def _simulator():
    plant_or_skip()


def told(capsys, *arguments):
    code = main([*map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, " ".join(captured.err.split())


def answer(capsys, *arguments):
    code, out, err = told(capsys, *arguments, "--json")
    return code, json.loads(out), err


def test_a_plan_brings_the_arm_to_its_goal_and_a_film_and_a_page_show_it(capsys, tmp_path):
    rendering_or_skip()
    pytest.importorskip("PIL")
    gif, page = tmp_path / "arm.gif", tmp_path / "plan.html"
    asked = ("plan", "angles", "--start", "0,0", "--goal", "1.5,-1", *QUICK)
    code, out, _ = told(capsys, *asked, "--gif", gif, "--report", page)
    assert code == 0
    assert "Reached, and held" in out
    assert gif.read_bytes()[:3] == b"GIF"
    assert gif.stat().st_size < 300_000
    text = page.read_text()
    assert "angles, mpc reaches its goal in 100" in text
    assert "data:image/gif;base64," in text
    code, found, _ = answer(capsys, *asked)
    assert found["reached"]
    np.testing.assert_allclose(found["qpos"][-1], (1.5, -1.0), atol=0.05)
    assert np.abs(found["actions"]).max() <= 1
    assert found["plans"] == 20


def test_an_evaluation_has_a_row_for_each_controller_and_says_the_rules(capsys):
    asked = ("evaluate", "angles", "rotated", "--tasks", "6", *QUICK)
    code, found, _ = answer(capsys, *asked)
    assert code == 0
    rows = {row["controller"]: row for row in found["rows"]}
    assert list(rows) == ["angles, mpc", "rotated, mpc", "oracle", "random actions", "no action"]
    assert rows["oracle"]["success"] == 1
    assert rows["no action"]["success"] == 0
    assert rows["angles, mpc"]["success"] == rows["rotated, mpc"]["success"] > 0.8
    assert found["rules"] == {"budget": 100, "tolerance": 0.05, "hold": 10, "wrapped": True, "solved": False}
    _, out, _ = told(capsys, *asked, "--protocol", "published", "--planner", "icem", "--tasks", "3")
    assert "within 0.05 rad of the goal at any of 50 steps" in out


def test_an_encoder_of_frames_plans_in_anothers_head_through_a_map(capsys, tmp_path):
    rendering_or_skip()
    (tmp_path / "eyes.py").write_text(ENCODER)
    eyes = f"{tmp_path / 'eyes.py'}:coarse"
    asked = (
        "evaluate",
        eyes,
        "--head",
        "angles",
        "--tasks",
        "2",
        "--recorded",
        "8",
        "--transition",
        "linear",
    )
    code, found, err = answer(capsys, *asked, "--budget", "10", "--size", "32")
    assert code == 0, err
    assert found["rows"][0]["controller"].endswith("coarse, mpc")
    map = tmp_path / "wrong.safetensors"
    rows = np.random.default_rng(0).normal(size=(50, 3))
    AlignmentMap("ols").fit(rows, rows[:, :2]).save(map)
    code, _, err = told(capsys, *asked, "--map", map)
    assert code == 2
    assert "columns" in err
    code, _, err = told(capsys, "evaluate", f"{tmp_path / 'eyes.py'}:broken", *QUICK)
    assert code == 2
    assert "cannot embed observations" in err


@pytest.mark.slow
def test_a_record_sees_frames_of_its_own_size(capsys, tmp_path):
    rendering_or_skip()
    for name, channels in (("colours", 3), ("grey", 1)):
        small.pictures(tmp_path / f"{name}.npz", channels)
        small.record(tmp_path / name, tmp_path / f"{name}.npz")
    quick = ("--tasks", "2", "--recorded", "6", "--transition", "linear", "--budget", "10")
    code, found, err = answer(capsys, "evaluate", tmp_path / "colours", *quick)
    assert code == 0, err
    assert found["rows"][0]["runs"] == 2
    code, _, err = told(capsys, "evaluate", tmp_path / "grey", *quick)
    assert code == 2
    assert "must be of an encoder of square frames, (3, size, size), got views of shape (1," in err


def test_a_record_of_averaged_pixels_sees_the_same_frames_averaged(tmp_path):
    rendering_or_skip()
    world = make("world", "reacher", size=32, pool=2, pairs=40, held_out=20, data=str(tmp_path / "frames"))
    recipe = Recipe(steps=1, batch=8, batch_start=None, eval_every=1, eval_samples=8)
    run = runs.train(
        Config(world, make("encoder", "conv"), training=recipe), record=tmp_path / "run", progress=False
    )
    seen = open_encoder(tmp_path / "run")
    z = torch.tensor([[0.3, -0.5], [1.0, 0.2]])
    wanted = run.encoder.eval()(world.build(Context()).observe(z))
    assert torch.allclose(seen(ReacherPlant(), z.numpy()), wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("plan", "angles", "--start", "0,0", "--goal", "1,3"), "out of reach"),
        (("plan", "angles", "--start", "0", "--goal", "1,1"), "start must be two angles"),
        (("plan", "angles", "--start", "0,0", "--goal", "1,nan"), "goal must be finite"),
        (("plan", "angle", "--start", "0,0", "--goal", "1,1"), "did you mean 'angles'"),
        (("plan", "no/such", "--start", "0,0", "--goal", "1,1"), "is no record"),
        (("evaluate", "angles", "--planner", "cme"), "did you mean 'cem'"),
        (("evaluate", "angles", "--protocol", "strict"), "protocol must be one of fair, published"),
        (
            ("evaluate", "angles", "--goals", "normal"),
            "goals must be",
        ),
        (("evaluate", "angles", "--setting", "mine"), "setting must be one of"),
        (("evaluate", "angles", "--transition", "cubic", "--recorded", "8"), "kind must be one of"),
        (("evaluate", "angles", "--map", "a.safetensors"), "say which, --head"),
        (("evaluate", "angles", "--episodes", "none.h5"), "none.h5"),
        (("evaluate",), "encoders, planner and seeds must each be one at least"),
    ],
)
def test_bad_input_is_told_in_a_line(capsys, arguments, expected):
    code, _, err = told(capsys, *arguments)
    assert code == 2
    assert expected in err
    assert "Traceback" not in err

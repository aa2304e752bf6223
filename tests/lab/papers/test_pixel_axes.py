"""The study of axes in pixels: what it asks for, what its measures are, and what its story says of rows."""

import json
from pathlib import Path

import numpy as np
import pytest

from isojepa.config import config_from
from isojepa.seeds import numpy_generator
from isojepa_lab.environments.rendering import NoRendering
from isojepa_lab.papers.own.pixel_axes import CONDITIONS, GAUSSIAN, PLAIN, STUDY, WEIGHED, WHITE
from isojepa_lab.papers.own.pixel_measures import as_recorded, as_seen, direction_rho, joint_share, score_on
from isojepa_lab.papers.world_model import reacher_ou, reacher_trajectory
from isojepa_lab.studies.cells import Row, record_of
from isojepa_lab.studies.evidence import gather, read_evidence
from isojepa_lab.studies.writing import write_report

KEPT = Path(__file__).parents[3] / "docs/results/pixel_axes.json"
TURN = np.array([[0.8, -0.6], [0.6, 0.8]])


def test_encoders_are_runs_of_the_other_studies():
    made = {record_of(cell.config).name for cell in reacher_ou.STUDY.plan("standard")}
    made |= {record_of(cell.config).name for cell in reacher_trajectory.STUDY.plan("standard")}
    asked = {
        cell.labels["condition"]: record_of(config_from(cell.settings["config"])).name
        for cell in STUDY.plan("standard")
    }
    assert len(set(asked.values())) == len(CONDITIONS)
    assert set(asked.values()) <= made


def test_axes_are_found_on_pairs_as_they_are_whatever_was_trained_on():
    worlds = {
        cell.labels["condition"]: config_from(cell.settings["config"]).world
        for cell in STUDY.plan("standard")
    }
    assert worlds[WEIGHED] != worlds[PLAIN]
    assert as_recorded(worlds[WEIGHED]) == as_recorded(worlds[PLAIN])
    assert as_recorded(worlds[GAUSSIAN]) is worlds[GAUSSIAN]


def test_angles_a_turn_apart_are_seen_as_one():
    angles = numpy_generator(0, "test").uniform(-3, 3, (50, 2))
    for turns in (-2, 0, 1):
        np.testing.assert_allclose(as_seen(angles + 2 * np.pi * turns), angles, atol=1e-12)


def test_the_share_of_a_joint_is_that_of_its_function_in_the_variance():
    source = numpy_generator(0, "test")
    angle, other = source.uniform(-9, 9, (2, 200_000))
    axis = np.sin(angle) + 0.5 * np.cos(other)  # variances 1/2 and 1/8, but for what the ends of 9 leave
    own = np.var(np.sin(angle)) / np.var(axis)
    assert joint_share(axis, angle) == pytest.approx(own, abs=0.01)
    assert joint_share(axis, other) == pytest.approx(1 - own, abs=0.01)
    assert joint_share(axis, source.uniform(-9, 9, 200_000)) < 0.001


def test_a_direction_forgets_as_the_normal_step_on_the_circle_does():
    source = numpy_generator(0, "test")
    angle = source.uniform(-np.pi, np.pi, 200_000)
    later = angle + source.normal(0, 0.5, angle.shape)
    assert direction_rho(angle, later) == pytest.approx(np.exp(-0.125), abs=0.01)  # E cos of the step
    assert direction_rho(angle, later + 2 * np.pi) == pytest.approx(direction_rho(angle, later))


def around(angles):
    """Embeddings of the first joint's direction, turned."""
    return np.stack((np.cos(angles[:, 0]), np.sin(angles[:, 0])), 1) @ TURN


def test_a_joint_that_goes_round_takes_both_axes_and_neither_has_a_name():
    source = numpy_generator(0, "test")
    start = source.uniform(-np.pi, np.pi, (20_000, 2))
    end = start + source.normal(0, 0.3, start.shape)
    angles = source.uniform(-np.pi, np.pi, (4000, 2))
    states = dict.fromkeys(("gaussian", "own"), (around(angles), angles, angles))
    found = score_on((around(start), around(end), None), states)
    assert found["own"]["cue_each"] == ["none", "none"]
    for axis in found["axes"]:
        assert axis["share"][0] > 0.98
        assert axis["share"][1] < 0.02
    # what sine and cosine tell of an angle that is uniform on the circle
    assert found["own"]["r2_each"][0] == pytest.approx(6 / np.pi**2, abs=0.03)


def test_joints_of_other_laws_that_do_not_go_round_have_names():
    source = numpy_generator(0, "test")
    z = source.uniform(-1, 1, (14_000, 2))
    angles = z[12_000:]
    states = dict.fromkeys(("gaussian", "own"), (angles @ TURN, angles, angles))
    found = score_on((z[:12_000] @ TURN, None, None), states)
    assert found["own"]["cue_each"] == ["shape", "shape"]
    assert min(found["own"]["linear_each"]) > 0.99
    assert all(max(axis["share"]) > 0.95 for axis in found["axes"])


def test_an_embedding_that_collapsed_is_refused():
    h = np.column_stack((np.linspace(0, 1, 1000), np.ones(1000)))
    states = dict.fromkeys(("gaussian", "own"), (h, h, h))
    assert set(score_on((h, h, None), states)) == {"refused"}


def scores(cell):
    """Made-up scores: both joints are shown, nothing has a name."""
    own = {
        "r2_each": [0.95, 0.95],
        "rank_each": [0.97, 0.97],
        "linear_each": [0.94, 0.94],
        "straight_each": [0.94, 0.94],
        "cue_each": ["none", "none"],
        "reasons": ["told", "told"],
    }
    axis = {"cue": "none", "reason": "told", "pair": 0.9, "departure": 0.01, "world": 0.0, "dependence": 0.1}
    way = {"gaussian": own, "own": own, "axes": [{**axis, "share": [0.95, 0.01]} for _ in range(2)]}
    found = {"pairs": way} if cell.labels["condition"] == GAUSSIAN else {"pairs": way, "paths": way}
    found |= {name: {"gaussian": [0.9, 0.9], "own": [0.9, 0.9]} for name in ("as_recorded", "circle")}
    found |= {name: [0.9, 0.9] for name in ("rho", "rho_circle", "wound")}
    return json.loads(json.dumps(found))  # each part its own


def rows(change=lambda condition, scores: None):
    found = []
    for cell in STUDY.plan("paper"):  # which has all conditions
        if cell.labels["seed"]:
            continue
        own = scores(cell)
        change(cell.labels["condition"], own)
        found.append(Row(dict(cell.labels), cell.config.to_dict(), own, "done", 0, 1.0, None, "record"))
    return found


def told(claim, of):
    found = [one for one in STUDY.report(of).summary if one.startswith(f"**{claim}")]
    assert len(found) == 1
    return found[0]


def setting(*path, value, where=lambda condition: True):
    """A change of the scores at a path of keys."""

    def change(condition, own):
        if where(condition) and path[0] in own:
            for key in path[:-1]:
                own = own[key]
            own[path[-1]] = value

    return change


BOTH, OWN, ROUND = "A linear map reads", "A linear map does so", "Along a policy's"
HALVES = "Where both axes are functions"
SINGLE, RIGHT, REFUSED = "An axis is a function", "An axis with a name", "Where both joints are normal"
STRAIGHT, GAINS, AXES = "Straightening brings", "Isotropising the pairs", "Isotropising first"
WHITENED, SHAPED, PATHS = "Whitening in place", "Axes of whitening", "Paths, which have"


@pytest.mark.parametrize(
    ("claim", "change", "verdict"),
    [
        (BOTH, setting("pairs", "gaussian", "r2_each", value=[0.95, 0.85]), "does not hold"),
        (OWN, setting("pairs", "own", "r2_each", value=[0.85, 0.95]), "does not hold"),
        (ROUND, setting("pairs", "axes", 0, "share", value=[0.1, 0.2]), "in part"),
        (SINGLE, setting("pairs", "axes", 0, "share", value=[0.6, 0.3]), "in part"),
        (RIGHT, setting("pairs", "own", "cue_each", value=["rate", "none"]), "holds"),
        (REFUSED, setting("paths", "axes", 0, "cue", value="rate"), "in part"),
        (HALVES, setting("paths", "axes", 0, "cue", value="rate"), "in part"),
        (STRAIGHT, setting("pairs", "own", "cue_each", value=["rate", "rate"]), "does not hold"),
        (GAINS, setting("pairs", "own", "r2_each", value=[1, 1]), "does not hold"),
        (
            AXES,
            setting("pairs", "own", "linear_each", value=[1, 0], where=lambda at: at == WEIGHED),
            "in part",
        ),
        (WHITENED, setting("pairs", "own", "r2_each", value=[1, 1], where=lambda at: at == WHITE), "in part"),
        (
            SHAPED,
            setting("pairs", "axes", 0, "departure", value=0.2, where=lambda at: at == WHITE),
            "in part",
        ),
        (PATHS, setting("pairs", "own", "cue_each", value=["rate", "rate"]), "does not hold"),
    ],
)
def test_conclusions_follow_the_rows(claim, change, verdict):
    assert f": {verdict}.**" in told(claim, rows(change))


def test_the_kept_rows_are_cells_of_the_standard_scale():
    asked = {cell.labels["condition"]: cell.config.to_dict() for cell in STUDY.plan("standard")}
    kept = {row.labels["condition"]: row.config for row in read_evidence(KEPT).rows}
    assert kept == asked


@pytest.mark.slow
def test_the_quick_scale_is_computed_and_reported(tmp_path, monkeypatch):
    from isojepa_lab.sweep.work import work

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)  # encoders are trained where the records of studies are
    try:
        for one in STUDY.plan("quick"):
            work(one.config, tmp_path / "records")
    except (NoRendering, ImportError) as error:
        pytest.skip(str(error))
    evidence = gather(STUDY, "quick", tmp_path / "records")
    assert evidence.missing == 0
    written = write_report(STUDY, evidence, tmp_path / "out")
    assert {path.name for path in written.files} >= {"pixel_axes.json", "pixel_axes.md", "pixel_axes.png"}

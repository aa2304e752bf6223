"""The study of recordings: measures are true, kept rows are its cells, and conclusions follow the rows."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isojepa.seeds import numpy_generator
from isojepa_lab.papers.own.recording_measures import (
    ANGLES,
    SLOWEST,
    TRAINED,
    WAYS,
    measure,
    score_way,
    uneven,
)
from isojepa_lab.papers.own.recordings import DATA, PLAIN, STRIDES, STUDY
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.evidence import gather, read_evidence
from isojepa_lab.studies.writing import write_report
from isojepa_lab.sweep.work import work

RESULTS = Path(__file__).parents[3] / "docs/results"
KEPT = RESULTS / "recordings.json"
TURN = np.array([[0.8, -0.6], [0.6, 0.8]])


def cell(**changes):
    """A small one of the angles themselves."""
    small = {"paths": 200, "length": 101, "steps": 1, "batch": 8, "seed": 0, "stride": 8}
    return Cell(Computation(small | {"embedding": ANGLES, "method": "", "strength": 0.0} | changes), {})


def test_two_latents_that_were_turned_have_axes_and_names_of_their_own():
    z = numpy_generator(0, "test").uniform(-1, 1, (12_000, 2))
    found = score_way((z @ TURN, None, None), z[:2000] @ TURN, z[:2000])
    assert found["cue_each"] == ["shape", "shape"]
    assert found["reasons"] == []
    assert min(found["linear_each"]) > 0.99


def test_a_latent_that_the_embedding_lost_has_no_axis():
    source = numpy_generator(0, "test")
    z = source.uniform(-1, 1, (12_000, 2))
    other = source.uniform(-1, 1, 12_000)  # stands where the second latent would
    h = np.column_stack((z[:, 0], other)) @ TURN
    found = score_way((h, None, None), h[:2000], z[:2000])
    assert found["linear_each"][0] > 0.99
    assert found["linear_each"][1] < 0.02
    assert found["r2_each"][1] < 0.02


def test_normal_latents_of_one_rate_stay_without_names_and_the_reason_is_told():
    z = numpy_generator(0, "test").normal(size=(12_000, 2))
    found = score_way((z, None, None), z[:2000], z[:2000])
    assert found["cue_each"] == ["none", "none"]
    assert len(found["reasons"]) == 2


def test_an_embedding_that_collapsed_is_refused():
    h = np.column_stack((np.linspace(0, 1, 1000), np.ones(1000)))
    assert "constant" in score_way((h, None, None), h, h)["refused"]


@pytest.mark.slow
def test_axes_are_found_on_the_data_as_they_are_whatever_was_trained_on():
    plain, weighed = measure(cell()), measure(cell(method="rates", strength=0.5))
    assert min(plain["pairs"]["r2_each"]) > 0.999
    for way in WAYS:
        assert weighed[way] == plain[way]
    assert weighed["effective"] < plain["effective"] == pytest.approx(1)
    slow, fast = (one["rho"][0] - one["rho"][1] for one in (plain, weighed))
    assert 0 < fast < slow  # rates that are nearer to each other


def test_a_coordinate_of_constant_diffusion_moves_evenly_and_a_bent_one_does_not():
    source = numpy_generator(0, "test")
    z = source.uniform(0, 1, (100_000, 1))
    z_next = z + 0.01 * source.normal(size=z.shape)
    assert uneven(z, z_next)[0] == pytest.approx(1, abs=0.1)
    # a step of exp(z) is exp(z) times as large, and the middles of the first and the last tenth are 0.9 apart
    assert uneven(np.exp(z), np.exp(z_next))[0] == pytest.approx(np.exp(1.8), rel=0.1)


def test_weights_that_leave_too_few_pairs_are_told():
    assert "pairs" in measure(cell(paths=20, length=40, method="moments", strength=1.0))["refused"]


def test_the_kept_rows_are_the_cells_of_the_standard_scale():
    evidence, cells = read_evidence(KEPT), STUDY.plan("standard")
    assert [row.labels for row in evidence.rows] == [dict(cell.labels) for cell in cells]
    assert [row.config for row in evidence.rows] == [cell.config.to_dict() for cell in cells]


def test_a_kept_row_is_what_its_cell_measures():
    labels = {"embedding": ANGLES, "stride": 32, "seed": 1}
    (row,) = [row for row in read_evidence(KEPT).rows if labels.items() <= row.labels.items()]
    (asked,) = [cell for cell in STUDY.plan("standard") if cell.labels == row.labels]
    found = measure(asked)
    for way in WAYS:
        for name in ("r2_each", "linear_each", "straight_each"):
            np.testing.assert_allclose(found[way][name], row.scores[way][name], rtol=5e-3, err_msg=name)
        assert found[way]["cue_each"] == row.scores[way]["cue_each"]
    np.testing.assert_allclose(found["rho"], row.scores["rho"], rtol=1e-6)
    np.testing.assert_allclose(found["uneven"], row.scores["uneven"], rtol=1e-6)


def test_one_axis_never_tells_more_than_all_of_them():
    for row in read_evidence(KEPT).rows:
        for way in WAYS:
            for one, together in zip(
                *(row.scores[way][key] for key in ("linear_each", "r2_each")), strict=True
            ):
                assert one <= together + 0.02, row.labels  # R^2 is held out, the correlation is of all rows


def test_the_study_of_doses_saw_the_same_on_the_same_data():
    doses = json.loads((RESULTS / "isotropise.json").read_text(encoding="utf-8"))["rows"]
    here = read_evidence(KEPT).rows
    for stride in STRIDES:
        for name in ("SIGReg 2e-3", "SIGReg 2e-4"):
            there = [
                one["r2"][name]["data"] for one in doses if (one["method"], one["stride"]) == ("data", stride)
            ]
            labels = {"data": PLAIN, "embedding": name, "stride": stride}
            own = [row.scores["paths"]["r2_each"] for row in here if labels.items() <= row.labels.items()]
            np.testing.assert_allclose(
                np.mean(own, 0), np.mean(there, 0), atol=0.1, err_msg=f"{name} {stride}"
            )


@pytest.mark.slow
def test_the_quick_scale_is_computed_and_reported(tmp_path):
    for one in STUDY.plan("quick"):
        work(one.config, tmp_path / "records")
    evidence = gather(STUDY, "quick", tmp_path / "records")
    assert evidence.missing == 0
    written = write_report(STUDY, evidence, tmp_path / "out")
    assert {path.name for path in written.files} >= {"recordings.json", "recordings.md", "recordings.png"}


def said(claim, test=lambda at: True, way="paths", **scores):
    """What is said of the kept rows where scores of a way were changed."""
    rows = []
    for row in read_evidence(KEPT).rows:
        own = row.scores[way] | (scores if test(row.labels) else {})
        rows.append(replace(row, scores=row.scores | {way: own}))
    return next(text for text in STUDY.report(rows).summary if text.startswith(f"**{claim}"))


BOTH, OWN, NAMES = "On the data as recorded", "Where both are so shown", "Where both are shown, both axes"
RATES, RIGHT, GUARDED = "A name rests", "Where both are shown, an axis with", "Where an angle is not shown"
SHOULDER, WRIST = (f"Where both are shown, a named axis of the {joint}" for joint in ("shoulder", "wrist"))
CONSTANT, GAINS, MORE = "The angles themselves", "Isotropising the training", "Isotropising first"
PATHS, FORETOLD = "Paths, which have", "The wrist is lost"
ALL = lambda at: True  # noqa: E731
SHOWS = {"r2_each": [0.99, 0.99], "linear_each": [0.99, 0.99]}
LACKS = {"r2_each": [0.99, 0.5], "linear_each": [0.99, 0.5]}
NAMED, UNNAMED = {"cue_each": ["rate", "shape or rate"]}, {"cue_each": ["none", "none"]}


@pytest.mark.parametrize(
    ("claim", "test", "scores", "verdict"),
    [
        (BOTH, ALL, SHOWS, "holds"),
        (BOTH, ALL, {"r2_each": [0.99, 0.89]}, "does not hold"),
        (BOTH, lambda at: at["stride"] == 2, SHOWS, "in part"),
        (OWN, ALL, SHOWS, "holds"),
        (OWN, ALL, SHOWS | {"linear_each": [0.99, 0.96]}, "does not hold"),
        (NAMES, ALL, SHOWS | NAMED, "holds"),
        (NAMES, ALL, SHOWS | UNNAMED, "does not hold"),
        (NAMES, ALL, SHOWS | {"cue_each": ["rate", "none"]}, "does not hold"),
        (RATES, ALL, NAMED, "holds"),
        (RATES, ALL, {"cue_each": ["shape", "shape"]}, "does not hold"),
        (RATES, ALL, {"cue_each": ["rate", "shape and rate"]}, "in part"),
        (RIGHT, ALL, SHOWS | NAMED | {"rank_each": [0.95, 0.95]}, "holds"),
        (RIGHT, ALL, SHOWS | NAMED | {"rank_each": [0.95, 0.5]}, "in part"),
        (RIGHT, ALL, SHOWS | UNNAMED, "cannot be asked"),
        (GUARDED, ALL, LACKS | NAMED | {"rank_each": [0.95, 0.95]}, "holds"),
        (GUARDED, ALL, LACKS | NAMED | {"rank_each": [0.5, 0.5]}, "does not hold"),
        (GUARDED, ALL, SHOWS | NAMED, "cannot be asked"),
        (SHOULDER, ALL, NAMED | SHOWS | {"straight_each": [0.999, 0.5]}, "holds"),
        (WRIST, ALL, NAMED | SHOWS | {"straight_each": [0.999, 0.5]}, "does not hold"),
        (CONSTANT, ALL, {"straight_each": [1.0, 0.995]}, "holds"),
        (CONSTANT, ALL, {"straight_each": [1.0, 0.9]}, "in part"),
        (GAINS, lambda at: at["data"] != PLAIN, {"r2_each": [1.0, 1.0]}, "holds"),
        (GAINS, lambda at: at["data"] != PLAIN, {"r2_each": [1.0, -1.0]}, "does not hold"),
        (MORE, ALL, NAMED, "does not hold"),
        (PATHS, ALL, NAMED, "holds"),
        (FORETOLD, ALL, {"r2_each": [1.0, 0.1]}, "holds"),
        (FORETOLD, lambda at: at["embedding"] == SLOWEST, {"r2_each": [1.0, 1.0]}, "in part"),
    ],
)
def test_conclusions_follow_the_rows(claim, test, scores, verdict):
    assert f": {verdict}.**" in said(claim, test, **scores)


def test_the_angles_themselves_are_always_found_and_named():
    rows = [row for row in read_evidence(KEPT).rows if row.labels["embedding"] == ANGLES]
    assert len(rows) == 9
    for row in rows:
        for way in WAYS:
            assert row.scores[way]["named"] == 2
            assert row.scores[way]["linear"] > 0.995


def test_every_objective_has_been_asked_about_all_data():
    labels = {(row.labels["data"], row.labels["embedding"]) for row in read_evidence(KEPT).rows}
    assert labels >= {(data, name) for data in DATA for name in TRAINED}


def test_without_rows_nothing_is_concluded():
    told = [text for text in STUDY.report([]).summary if text.startswith("**")]
    assert len(told) == len(STUDY.statements)
    assert all(": cannot be asked.**" in text for text in told)

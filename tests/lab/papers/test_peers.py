"""The study of peers: methods do what they must, kept rows are its cells, and conclusions follow the rows."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isojepa.laws import Uniform
from isojepa.registry import Context, make
from isojepa.worlds import Langevin, World
from isojepa_lab.papers.own import peers
from isojepa_lab.papers.own.peer_methods import METHODS, find_map
from isojepa_lab.papers.own.peers import (
    CLOSED,
    CONTRASTIVE,
    LINEAR,
    MATCHED,
    ONE,
    OURS,
    SEQUENTIAL,
    SEVERAL,
    STUDY,
)
from isojepa_lab.studies.evidence import gather, read_evidence
from isojepa_lab.studies.writing import write_report
from isojepa_lab.sweep.work import work

KEPT = Path(__file__).parents[3] / "docs/results/peers.json"
TRAINED = {"steps": 3, "batch": 64, "learning_rate": 1e-2, "encoder": {"width": 8, "layers": 2}}


def plane(rho=0.9):
    spec = make("world", process="langevin", law="uniform", rho=rho, mixing="affine-coupling")
    return spec.build(Context(seed=0))


def test_scores_of_latents_are_perfect_and_those_of_a_rotation_are_so_only_unmixed():
    world = World(Langevin(2, Uniform(), 0.9), lambda z: z)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    straight, turned = (peers.score(lambda x, q=q: x @ q, world, 8_000, 2_000, 0) for q in (np.eye(2), turn))
    assert straight["mcc"] == straight["rank"] == pytest.approx(1)
    assert turned["mcc"] < 0.9
    assert turned["unmixed_mcc"] > 0.99
    assert turned["unmixed_named"] == 2


def test_where_unmixing_refuses_features_count_as_they_are():
    world = World(Langevin(2, Uniform(), 0.9), lambda z: z)
    found = peers.score(lambda x: x[:, [0, 0]] + 0 * x, world, 2_000, 500, 0)
    assert found["unmixed_mcc"] == found["mcc"]
    assert found["unmixed_named"] == 0


@pytest.mark.parametrize("method", [name for name in METHODS if name != "VAMPNet"])
def test_a_method_is_its_seed_and_gives_as_many_features_as_there_are_latents(method):
    settings = {
        "polynomial SFA": {"pairs": 500, "features": 9},
        "kernel SFA": {"pairs": 500, "features": 9, "width": 1.0},
        SEQUENTIAL: {"pairs": 500, "features": 9, "degree": 2, "kept": 5, "least": 0.1},
        LINEAR: {"pairs": 500},
        CONTRASTIVE: TRAINED | {"hidden": 4, "permutations": 1},
        OURS: TRAINED | {"weight": 0.3},
        MATCHED: TRAINED,
    }[method]
    x = np.random.default_rng(0).normal(size=(20, 2))
    first, again, other = (find_map(method, plane(), seed, **settings)(x) for seed in (0, 0, 1))
    assert first.shape == (20, 2)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_vampnet_has_a_larger_score_than_its_first_weights():
    pytest.importorskip("deeptime")
    few, more = (
        find_map("VAMPNet", plane(), 0, pairs=4_000, **TRAINED | {"steps": steps}) for steps in (1, 120)
    )
    views = plane().sample(4_000, peers.generator(0, "test")).views
    shares = []
    for found in (few, more):
        h, h_next = (found(view.double().numpy()) for view in views)
        shares.append(sum(np.corrcoef(h[:, k], h_next[:, k])[0, 1] ** 2 for k in range(2)))
    assert shares[1] > shares[0] + 0.01


def test_without_deeptime_it_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "deeptime.decomposition.deep", None)
    with pytest.raises(
        ImportError, match=r"VAMPNets need deeptime.*pip install -c constraints.txt '\./lab\[peers\]'"
    ):
        find_map("VAMPNet", plane(), 0, pairs=100, **TRAINED)


def test_a_kernel_is_matched_to_one_rate_alone():
    with pytest.raises(ValueError, match="a matched kernel needs one correlation of all latents"):
        find_map(MATCHED, plane((0.9, 0.8)), 0, **TRAINED)
    with pytest.raises(ValueError, match="method must be one of"):
        find_map("nothing", plane(), 0)


def test_what_is_trained_is_trained_alike():
    for scale in peers.SIZES:
        shared = {
            (cell.labels["dim"], *(str(cell.settings["settings"][key]) for key in TRAINED))
            for cell in STUDY.plan(scale)
            if cell.labels["method"] not in CLOSED
        }
        assert len(shared) == len({cell.labels["dim"] for cell in STUDY.plan(scale)})


def test_the_kept_rows_are_the_cells_of_the_standard_scale():
    evidence, cells = read_evidence(KEPT), STUDY.plan("standard")
    assert [row.labels for row in evidence.rows] == [dict(cell.labels) for cell in cells]
    assert [row.config for row in evidence.rows] == [cell.config.to_dict() for cell in cells]


@pytest.mark.parametrize(("method", "dim", "rates"), [(LINEAR, 2, ONE), (SEQUENTIAL, 4, SEVERAL)])
def test_a_kept_row_is_what_its_cell_measures(method, dim, rates):
    wanted = {"method": method, "dim": dim, "rates": rates, "law": "uniform", "seed": 1}
    row = next(row for row in read_evidence(KEPT).rows if wanted.items() <= row.labels.items())
    (cell,) = [cell for cell in STUDY.plan("standard") if cell.labels == row.labels]
    measured = peers.measure(cell)
    assert measured.keys() == row.scores.keys()
    for name in ("mcc", "rank", "r2", "unmixed_mcc", "unmixed_rank"):
        assert measured[name] == pytest.approx(row.scores[name], abs=1e-3), name


@pytest.mark.slow
def test_the_quick_scale_is_computed_and_reported(tmp_path):
    pytest.importorskip("deeptime")
    for cell in STUDY.plan("quick"):
        work(cell.config, tmp_path / "records")
    evidence = gather(STUDY, "quick", tmp_path / "records")
    assert evidence.missing == 0
    written = write_report(STUDY, evidence, tmp_path / "out")
    assert {path.name for path in written.files} >= {"peers.json", "peers.md", "peers.html", "peers.png"}


def said(claim, test=lambda at: True, **scores):
    """What is said of the kept rows with some scores changed."""
    rows = [
        replace(row, scores=row.scores | scores) if test(row.labels) else row
        for row in read_evidence(KEPT).rows
    ]
    return next(text for text in STUDY.report(rows).summary if text.startswith(f"**{claim}"))


LARGEST, SHARED, INFONCE, STRAIGHT = "The white", "It stays so", "Where rates agree", "Linear SFA"
NAMES, SIX, WINDOW, PCL, TIME = "With up to six", "XSFA", "Beyond the window", "PCL names", "Closed forms"
HARMLESS = "Unmixing never"


@pytest.mark.parametrize(
    ("claim", "test", "scores", "verdict"),
    [
        (LARGEST, lambda at: at["method"] == OURS, {"unmixed_mcc": 1.0}, "holds"),
        (LARGEST, lambda at: at["method"] == OURS, {"unmixed_mcc": 0.1}, "does not hold"),
        (SHARED, lambda at: at["method"] == OURS, {"unmixed_mcc": 1.0}, "holds"),
        (SHARED, lambda at: at["method"] == LINEAR, {"unmixed_mcc": 1.02}, "does not hold"),
        (INFONCE, lambda at: at["method"] == MATCHED, {"unmixed_mcc": 1.0}, "holds"),
        (INFONCE, lambda at: at["method"] == MATCHED, {"unmixed_mcc": 0.2}, "does not hold"),
        (STRAIGHT, lambda at: at["method"] == LINEAR, {"unmixed_mcc": 0.2}, "holds"),
        (STRAIGHT, lambda at: at["method"] == LINEAR, {"unmixed_mcc": 1.0}, "does not hold"),
        (NAMES, lambda at: at["method"] == "polynomial SFA" and at["rates"] == ONE, {"mcc": 1.0}, "in part"),
        (SIX, lambda at: at["method"] == SEQUENTIAL and at["dim"] > 6, {"mcc": 0.95}, "in part"),
        (SIX, lambda at: at["method"] == SEQUENTIAL and at["dim"] <= 6, {"mcc": 0.2}, "in part"),
        (WINDOW, lambda at: at["method"] == SEQUENTIAL, {"rank": 1.02}, "holds"),
        (WINDOW, lambda at: at["method"] == SEQUENTIAL, {"rank": 0.0}, "does not hold"),
        (PCL, lambda at: at["method"] == CONTRASTIVE, {"mcc": 1.0}, "holds"),
        (PCL, lambda at: at["method"] == CONTRASTIVE, {"mcc": 0.1, "unmixed_mcc": 0.2}, "does not hold"),
        (HARMLESS, lambda at: True, {"unmixed_mcc": 1.0}, "holds"),
        (HARMLESS, lambda at: True, {"unmixed_mcc": 0.0}, "does not hold"),
        (TIME, lambda at: at["method"] in CLOSED, {"spent": 0.0}, "holds"),
        (TIME, lambda at: at["method"] in CLOSED, {"spent": 1e3}, "does not hold"),
    ],
)
def test_conclusions_follow_the_rows(claim, test, scores, verdict):
    assert f": {verdict}.**" in said(claim, test, **scores)


def test_without_rows_nothing_is_concluded():
    told = [text for text in STUDY.report([]).summary if text.startswith("**")]
    assert len(told) == len(STUDY.statements)
    assert all(": cannot be asked.**" in text for text in told)

"""The study of peers: methods do what they must, and kept rows are what cells measure."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isojepa.data import Langevin, World
from isojepa.distributions import Uniform
from isojepa.registry import Context, build_spec
from isojepa_lab.papers.own import peers
from isojepa_lab.papers.own.peer_methods import METHODS, find_map
from isojepa_lab.papers.own.peers import (
    CONTRASTIVE,
    LINEAR,
    MATCHED,
    ONE,
    OURS,
    SEQUENTIAL,
    SEVERAL,
    STUDY,
)
from isojepa_lab.studies.evidence import read_evidence
from isojepa_lab.studies.rows import Rows

KEPT = Path(__file__).parents[3] / "docs/results/peers.json"
TRAINED = {"steps": 3, "batch": 64, "learning_rate": 1e-2, "encoder": {"width": 8, "layers": 2}}


def plane(rho=0.9):
    spec = build_spec("world", process="langevin", law="uniform", rho=rho, mixing="affine-coupling")
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


@pytest.mark.parametrize(("method", "dim", "rates"), [(LINEAR, 2, ONE), (SEQUENTIAL, 4, SEVERAL)])
def test_a_kept_row_is_what_its_cell_measures(method, dim, rates):
    wanted = {"method": method, "dim": dim, "rates": rates, "law": "uniform", "seed": 1}
    row = next(row for row in read_evidence(KEPT).rows if wanted.items() <= row.labels.items())
    (cell,) = [cell for cell in STUDY.plan("standard") if cell.labels == row.labels]
    measured = peers.measure(cell)
    assert measured.keys() == row.scores.keys()
    for name in ("mcc", "rank", "r2", "unmixed_mcc", "unmixed_rank"):
        assert measured[name] == pytest.approx(row.scores[name], abs=1e-3), name


def test_names_of_polynomial_sfa_are_asked_where_rates_differ_and_where_they_do_not():
    (statement,) = [one for one in STUDY.statements if one.name == "named"]
    verdicts = []
    for equal in (0.2, 1.0):
        rows = [
            replace(row, scores=row.scores | {"mcc": equal if row.labels["rates"] == ONE else 1.0})
            for row in read_evidence(KEPT).rows
        ]
        verdicts.append(statement.judge(Rows(rows)).verdict)
    assert verdicts == ["holds", "in part"]

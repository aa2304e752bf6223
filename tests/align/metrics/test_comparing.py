import json

import numpy as np
import pytest

from isojepa.align import AlignmentMap, split_states
from isojepa.align import metrics as m


def pair(n=240, noise=0.2, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4))
    return z @ rng.normal(size=(4, 4)) + 3, z @ rng.normal(size=(4, 4)) + noise * rng.normal(size=(n, 4))


def test_everything_is_scored_on_states_that_the_map_has_not_seen():
    x, y = pair()
    found = m.compare(x, y, ks=(1, 5), draws=99)
    split = split_states(len(x))
    fitted = AlignmentMap("ridge").fit(x[split.fit], y[split.fit])
    assert (found.fitted, found.scored) == (120, 120)
    one = (x[split.score] - fitted.mean_in_) / fitted.scale_in_
    two = (y[split.score] - fitted.mean_out_) / fitted.scale_out_
    back = (fitted.inverse_transform(y[split.score]) - fitted.mean_in_) / fitted.scale_in_
    assert found.aligned["R2"].value == pytest.approx(fitted.score(x[split.score], y[split.score]))
    for space, other in ((found.raw, two), (found.aligned, back)):
        for name, score in {
            "CKA": m.cka,
            "unbiased CKA": m.unbiased_cka,
            "DSC": m.dsc,
            "RSA": m.rsa,
            "mutual k-NN@10": m.mutual_knn,
            "cycle k-NN@10": m.cycle_knn,
            "angular Procrustes": m.angular_procrustes,
            "orthogonal Procrustes": m.orthogonal_procrustes,
        }.items():
            options = {"draws": 99} if "Procrustes" in name else {}
            alone, shared = score(one, other, **options).to_dict(), space[name].to_dict()
            name = alone.pop("name")
            assert shared.pop("name").startswith(name)
            assert {k: v for k, v in shared.items() if not isinstance(v, float | list)} == {
                k: v for k, v in alone.items() if not isinstance(v, float | list)
            }
            for key in ("value", "interval", "chance", "chance_spread", "p", "calibrated"):
                assert shared[key] == pytest.approx(alone[key], rel=1e-6, abs=1e-9), (name, key)
        for alone in m.neighbour_overlaps(one, other, ks=(1, 5)):
            assert space[alone.name] == alone
    for name, score in {"mean CCA": m.mean_cca, "SVCCA": m.svcca, "PWCCA": m.pwcca}.items():
        assert found.raw[name].value == pytest.approx(score(one, two).value)
        assert name not in found.aligned


def test_a_map_that_is_handed_in_is_scored_on_all_rows():
    x, y = pair()
    fitted = AlignmentMap("ols").fit(x[:100], y[:100])
    found = m.compare(x[100:], y[100:], map=fitted, ks=(1, 5))
    assert (found.fitted, found.scored, found.map) == (0, 140, fitted)
    assert found.aligned["R2"].value == pytest.approx(fitted.score(x[100:], y[100:]))
    assert found.aligned["R2"].null == "exact moments, the map held fixed"


def test_chance_of_a_map_held_fixed_is_that_of_drawn_pairings():
    x, y = pair(60, noise=1.0)
    fitted = AlignmentMap("ols").fit(*pair(60, noise=1.0))
    found = m.r2(x, y, map=fitted)
    rng = np.random.default_rng(0)
    drawn = np.array([m.r2(x, y[rng.permutation(60)], map=fitted, null=False).value for _ in range(1000)])
    assert found.chance == pytest.approx(drawn.mean(), abs=4 * drawn.std() / 1000**0.5)
    assert found.chance_spread == pytest.approx(drawn.std(), rel=0.1)


def test_the_map_undoes_a_mixing_that_raw_scores_notice():
    x, y = pair(noise=0.01)
    found = m.compare(x, y, ks=(5,))
    for name in ("CKA", "DSC", "NO@5"):
        assert found.aligned[name].value > 0.95 > found.raw[name].value
    assert found.aligned["NOS@5"].value == pytest.approx(1 - found.aligned["NO@5"].value)


def test_results_are_written_as_json_and_as_a_table():
    found = m.compare(*pair(), ks=(1, 5))
    again = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert again["aligned"]["R2"]["value"] == found.aligned["R2"].value
    assert len(found.rows()) == len(found.raw) + len(found.aligned)
    assert {row["space"] for row in found.rows()} == {"raw", "aligned"}
    lines = found.table().splitlines()
    assert len(lines) == 1 + len(found.rows())
    assert lines[0].split() == ["score", "space", "value", "interval", "chance", "p", "calibrated"]
    assert str(found.raw["CKA"]).startswith("CKA 0.")


def test_scores_that_cannot_be_had_are_left_out_with_the_reason():
    rng = np.random.default_rng(0)
    found = m.compare(rng.normal(size=(40, 30)), rng.normal(size=(40, 2)), ks=(1,), k=3)
    assert set(found.left_out) == {"mean CCA", "PWCCA", "RSA"}
    assert "mean CCA left out: mean CCA must have at least 2 rows more" in found.table()


def test_states_with_several_rows_stay_together():
    x, y = pair()
    ids = np.arange(240) // 3
    found = m.compare(x, y, ids=ids, ks=(1,))
    assert found.scored == 120
    assert "rows of one state are re-paired one by one" in found.aligned["R2"].note
    assert found.aligned["R2"].value == m.r2(x, y, ids=ids, ridge=found.map.ridge_).value


def test_scores_of_dependent_rows_have_no_interval_and_no_chance():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 300, 3)).cumsum(1)
    found = m.compare(x, y, ks=(1, 5))
    assert found.effective < 20
    assert {one.p for one in (*found.raw.values(), *found.aligned.values())} == {None}
    assert found.to_dict()["raw"]["CKA"]["interval"] == [None, None]
    assert f"{found.effective} effective rows, too few to tell, 20 are needed" in str(found)
    repeated = np.arange(300) % 30
    found = m.compare(*(rng.normal(size=(2, 30, 3))[:, repeated]), ids=repeated, ks=(1, 5))
    assert found.effective == 30
    assert found.raw["CKA"].chance is None
    iid = m.compare(*rng.normal(size=(2, 300, 3)), ks=(1, 5))
    assert iid.effective == 300
    assert iid.raw["CKA"].p is not None
    assert not iid.dependence

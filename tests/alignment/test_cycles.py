"""All pairwise maps and cycles of them, against products written out and worlds that are known."""

import numpy as np
import pytest

from isojepa.alignment import AlignmentMap, SharedSpace, cycle, cycle_defect, cycles, fit_pairwise
from tests.alignment.made_up import rotation


def encoders(noise: float, n: int = 600, dim: int = 4, count: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, dim))
    return {
        f"e{number}": z @ rng.normal(size=(dim, dim)) + noise * rng.normal(size=(n, dim))
        for number in range(count)
    }


def test_the_defect_is_that_of_the_product_of_the_three_matrices() -> None:
    found = fit_pairwise(encoders(0.5))
    w12, w23, w31 = (found.maps[pair].matrix_ for pair in (("e0", "e1"), ("e1", "e2"), ("e2", "e0")))
    defect = np.sqrt(((w31 @ w23 @ w12 - np.eye(4)) ** 2).sum() / 4)
    assert cycle(found, ("e0", "e1", "e2")).defect == pytest.approx(defect, rel=1e-12)


def test_encoders_of_one_latent_come_back_and_noisy_ones_do_not() -> None:
    clean = cycles(fit_pairwise(encoders(0.0), kind="ols"))
    noisy = cycles(fit_pairwise(encoders(1.0), kind="ols"))
    assert len(clean) == len(noisy) == 4 * 3 * 2
    assert max(one.defect for one in clean) < 1e-8
    assert min(one.r2.estimate for one in clean) > 1 - 1e-12
    assert min(one.defect for one in noisy) > 0.1
    assert max(one.r2.estimate for one in noisy) < 0.99


def test_held_out_r2_of_a_cycle_is_that_of_rows_sent_round_by_hand() -> None:
    found = fit_pairwise(encoders(0.7))
    way = ("e2", "e0", "e3")
    rows = found.held_out.rows["e2"]
    gone = rows
    for pair in (("e2", "e0"), ("e0", "e3"), ("e3", "e2")):
        gone = found.maps[pair].transform(gone)
    scale = found.fitted.rows["e2"].std(0)
    rest = (((rows - gone) / scale) ** 2).sum() / (((rows - rows.mean(0)) / scale) ** 2).sum()
    interval = cycle(found, way).r2
    assert interval.estimate == pytest.approx(1 - rest, abs=1e-12)
    assert interval.low < interval.estimate < interval.high


def test_scores_are_those_of_the_maps_on_states_that_no_map_saw() -> None:
    rows = encoders(0.5)
    ids = np.repeat(np.arange(300), 2)
    found = fit_pairwise(rows, ids)
    assert not set(found.fitted.ids) & set(found.held_out.ids)
    for (a, b), interval in found.scores().items():
        own = found.maps[a, b].score(found.held_out.rows[a], found.held_out.rows[b])
        assert interval.estimate == pytest.approx(own, abs=1e-12)


def test_the_interval_of_a_score_covers_what_many_states_give() -> None:
    rng = np.random.default_rng(3)
    mix = rng.normal(size=(2, 3, 3))
    z = rng.normal(size=(201_000, 3))
    both = [z @ mix[0] + rng.normal(size=z.shape), z @ mix[1] + rng.normal(size=z.shape)]
    inside = 0
    for start in range(0, 30 * 400, 400):
        found = fit_pairwise([part[start : start + 400] for part in both])
        fitted, interval = found.maps["0", "1"], found.scores()["0", "1"]
        truth = fitted.score(both[0][-100_000:], both[1][-100_000:])
        inside += interval.low <= truth <= interval.high
    assert inside >= 25  # of 30, at 95 %


def test_translations_through_a_hub_score_as_direct_maps_where_maps_are_rotations() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(800, 5)) * [2, 1.5, 1, 1, 0.7]
    rows = [z @ rotation(rng, 5) + 0.05 * rng.normal(size=z.shape) for _ in range(4)]
    found = fit_pairwise(rows)
    for kind in ("rotation", "linear"):
        through = found.hub_scores(SharedSpace(kind).fit(found.fitted.rows))
        assert set(through) == set(found.maps)
        for pair, direct in found.scores().items():
            assert through[pair].estimate == pytest.approx(direct.estimate, abs=0.01)


def test_some_cycles_are_some_of_all_and_the_same_for_a_seed() -> None:
    found = fit_pairwise(encoders(0.3, n=100))
    every = {one.names: one.defect for one in cycles(found)}
    some = cycles(found, most=5, seed=1)
    assert len(some) == 5
    assert all(every[one.names] == one.defect for one in some)
    assert [one.names for one in some] == [one.names for one in cycles(found, most=5, seed=1)]


def test_widths_may_differ_and_what_a_narrow_one_lost_does_not_come_back() -> None:
    rows = encoders(0.0)
    rows["e1"] = rows["e1"][:, :2]
    found = fit_pairwise(rows, kind="ols")
    # two of four directions are lost on the way: the defect of a projection onto half of them at least
    assert cycle(found, ("e0", "e1", "e2")).defect >= np.sqrt(0.5) - 1e-9
    assert cycle(found, ("e1", "e0", "e2")).defect < 1e-8


def test_what_cycles_refuse() -> None:
    rows = encoders(0.1, n=50)
    found = fit_pairwise(rows)
    two = fit_pairwise([rows["e0"], rows["e1"]])
    small = AlignmentMap().fit(rows["e0"], rows["e1"][:, :2])
    for wrong, told in (
        (lambda: cycles(two), "at least three encoders, got 2"),
        (lambda: cycles(found, most=0), "most must be a positive integer"),
        (lambda: cycle(found, ("e0", "e9", "e1")), "encoder"),
        (lambda: cycle(found, ("e0", "e1", "e0")), "each once"),
        (lambda: cycle_defect(), "at least one"),
        (lambda: cycle_defect(small), "begin where the one before ends, got 2 columns and then 4"),
        (lambda: fit_pairwise(rows, [1] * 50), "two states"),
        (lambda: fit_pairwise("ab"), "arrays by name"),
    ):
        with pytest.raises(ValueError, match=told):
            wrong()  # type: ignore[no-untyped-call]

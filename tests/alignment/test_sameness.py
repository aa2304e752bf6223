"""The verdict on pairs of which the truth is known, and on hostile ones."""

import json

import numpy as np
import pytest
import scipy

from isojepa.alignment import pairs_required, same, split_states
from isojepa.alignment.sameness import _distant_gain
from tests.alignment.made_up import KINDS, made_up, rotation


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dim", "n"), [(8, 300), (24, 300), (48, 1500)])
def test_the_answer_is_right(kind: str, dim: int, n: int) -> None:
    rng = np.random.default_rng(dim + n)
    answers = [same(*made_up(kind, n, dim, rng)).verdict for _ in range(4)]
    assert answers.count(kind) >= 3, answers


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_right_for_wide_embeddings(kind: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    for dim, n in ((256, 1100), (512, 2200), (64, 20_000)):
        assert same(*made_up(kind, n, dim, rng)).verdict == kind


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_right_in_95_of_100(kind: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    answers = []
    for _ in range(100):
        dim = int(2 ** rng.uniform(3, 9))
        n = round(float(np.exp(rng.uniform(np.log(300), np.log(20_000)))))
        verdict = same(*made_up(kind, n, dim, rng)).verdict
        assert verdict != "too-few" or n < pairs_required(dim)
        answers += [verdict] if verdict != "too-few" else []
    assert answers.count(kind) >= 0.95 * len(answers)


def test_too_few_is_said_below_the_requirement_alone() -> None:
    rng = np.random.default_rng(0)
    for dim in (8, 40):
        z = rng.normal(size=(pairs_required(dim), dim))
        turned = z @ rotation(rng, dim)
        assert same(z, turned).verdict == "rotation"
        few = round(0.9 * len(z))  # some directions fewer carry 99 % of the variance
        found = same(z[:few], turned[:few])
        assert found.verdict == "too-few"
        assert f"{few} states, {pairs_required(dim)} are needed" in found.sentence


def test_wide_embeddings_of_few_directions_need_few_pairs() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 10))
    x, y = z @ rng.normal(size=(10, 400)), z @ rng.normal(size=(10, 200))
    found = same(x, y)
    assert found.verdict == "linear"
    assert found.first.dimensions == 10
    noisy = same(x + 0.01 * rng.normal(size=x.shape), y)
    assert noisy.verdict == "linear"
    assert "99% of the variance" in noisy.notes[0]


def test_a_part_is_not_the_whole() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1000, 12))
    found = same(z, z[:, :6] @ rotation(rng, 6))
    assert found.verdict == "partly"
    assert found.shared == 6
    assert found.first.unshared_directions == pytest.approx(0.5)
    assert found.second.unshared_directions == 0
    assert found.linear is not None
    assert found.linear.r2.estimate > 0.999
    assert found.back is not None
    assert found.back.r2.estimate == pytest.approx(0.5, abs=0.05)


def test_one_shared_direction_of_many_is_found() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2000, 100)), rng.normal(size=(2000, 100))
    y[:, 0] = x[:, 0]
    found = [same(x, y @ rotation(rng, 100), seed=seed) for seed in range(5)]
    assert {one.verdict for one in found} == {"partly"}
    assert np.median([one.shared for one in found]) == 1  # a second one is seen in one of twenty splits


def test_a_rotation_into_more_dimensions_is_a_rotation() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(1000, 16))
    assert same(z, z @ rotation(rng, 40)[:16]).verdict == "rotation"


def test_scaled_columns_are_no_rotation() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(1000, 16))
    assert same(z, z * np.linspace(0.3, 3, 16)).verdict == "linear"


def test_a_nonlinear_copy_is_not_called_the_same() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(2000, 4))
    square = same(z, z**2)
    assert square.verdict == "partly"
    assert square.linear.r2.estimate < 0.05  # no line runs through it
    assert square.nonlinear.estimate > 0.9
    assert same(z, np.sign(z) * z**4).verdict == "partly"


def test_an_interval_covers_what_many_states_say() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(40):
        z = rng.normal(size=(300, 8))
        found = same(z, z @ rotation(rng, 8) + 0.5 * rng.normal(size=z.shape)).rotation
        assert found is not None
        covered += found.r2.low <= 0.8 <= found.r2.high
    assert covered >= 34


def test_rows_of_one_state_are_not_counted_as_news() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(60, 30))
    x = np.repeat(z, 10, axis=0) + 1e-3 * rng.normal(size=(600, 30))
    y = np.repeat(rng.normal(size=(60, 30)), 10, axis=0)
    ids = np.repeat(np.arange(60), 10)
    assert same(x, y).verdict == same(x, y, ids=ids).verdict
    assert same(x, y, ids=ids).verdict == "too-few"
    assert set(ids[split_states(600, ids).fit]).isdisjoint(ids[split_states(600, ids).score])


def walk(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(n, 3)).cumsum(0)


def autoregressive(n: int, rng: np.random.Generator, rho: float = 0.9) -> np.ndarray:
    noise = rng.normal(size=(n, 3)) * np.sqrt(1 - rho**2)
    return scipy.signal.lfilter([1], [1, -rho], noise, axis=0)


def season(n: int, rng: np.random.Generator) -> np.ndarray:
    angle = 2 * np.pi * np.arange(n)[:, None] / 50
    return np.hstack((np.sin(angle), np.cos(angle))) @ rng.normal(size=(2, 3)) + rng.normal(size=(n, 3))


def trend(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.linspace(0, 5, n)[:, None] * rng.normal(size=3) + rng.normal(size=(n, 3))


def shuffled_repeats(n: int, rng: np.random.Generator, noise: float = 0.1) -> np.ndarray:
    state = np.random.default_rng(0).permutation(np.arange(n) % 40)  # the same in both
    return rng.normal(size=(40, 3))[state] + noise * rng.normal(size=(n, 3))


def overlapping_repeats(n: int, rng: np.random.Generator) -> np.ndarray:
    return shuffled_repeats(n, rng, 0.4)


def sorted_repeats(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.repeat(rng.normal(size=(40, 3)), n // 40, axis=0) + 0.1 * rng.normal(size=(n, 3))


DEPENDENT = (walk, autoregressive, season, trend, shuffled_repeats, overlapping_repeats, sorted_repeats)


@pytest.mark.parametrize("draw", DEPENDENT)
def test_unrelated_rows_that_depend_on_each_other_are_never_the_same(draw) -> None:
    rng = np.random.default_rng(0)
    answers = [same(draw(800, rng), draw(800, rng)).verdict for _ in range(12)]
    assert set(answers) <= {"unrelated", "too-few"}, answers


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("draw", DEPENDENT)
def test_unrelated_rows_that_depend_on_each_other_are_related_in_5_of_100(draw) -> None:
    rng = np.random.default_rng(1)
    answers = [same(draw(800, rng), draw(800, rng)).verdict for _ in range(200)]
    assert sum(answer not in ("unrelated", "too-few") for answer in answers) <= 10


def test_related_paths_are_named() -> None:
    rng = np.random.default_rng(0)
    for _ in range(4):
        z = autoregressive(1000, rng)
        turned = same(z, z @ rotation(rng, 3) + 0.1 * rng.normal(size=z.shape))
        assert turned.verdict == "rotation"
        assert turned.linear_chance is None  # random pairings are no null of these rows
        assert 20 <= turned.effective < 200
        assert same(z, z * [0.5, 1, 2]).verdict == "linear"


def test_a_relation_of_all_regions_gains_and_one_of_repeats_does_not() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 3))
    assert _distant_gain(x, x + 0.5 * rng.normal(size=x.shape), np.full(3, 0.9)).low > 0
    state = np.arange(800) % 20
    x, y = (rng.normal(size=(20, 3))[state] + 0.2 * rng.normal(size=(800, 3)) for _ in range(2))
    assert _distant_gain(x, y, np.full(1, 0.5)).low < 0


def test_repeats_of_many_states_are_one_row_each() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 4))[rng.permutation(np.arange(2000) % 200)]
    found = same(z + 0.01 * rng.normal(size=z.shape), z @ rotation(rng, 4) + 0.01 * rng.normal(size=z.shape))
    assert found.verdict == "rotation"
    assert 195 <= found.states == found.effective <= 200  # neighbors may merge


@pytest.mark.parametrize("kind", ["rotation", "linear"])
def test_what_is_named_has_r2_of_at_least_nine_tenths_both_ways(kind: str) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1000, 2))
    angle = np.linalg.norm(z, axis=1)
    swirl = np.stack(
        (
            np.cos(angle) * z[:, 0] - np.sin(angle) * z[:, 1],
            np.sin(angle) * z[:, 0] + np.cos(angle) * z[:, 1],
        ),
        axis=1,
    )
    found = same(z, swirl if kind == "rotation" else swirl * [1, 3])
    assert found.verdict == "partly"
    assert found.linear is not None
    assert f"R^2 {found.linear.r2.estimate:.3f}" in found.sentence
    noisy = same(z, z + 0.4 * rng.normal(size=z.shape))
    assert noisy.verdict == "partly"  # 0.86


def test_two_warped_dimensions_of_eight_are_not_the_same() -> None:
    rng = np.random.default_rng(0)
    for _ in range(6):
        z = rng.normal(size=(2000, 8))
        angle = np.linalg.norm(z[:, :2], axis=1)
        warped = z.copy()
        warped[:, 0] = np.cos(angle) * z[:, 0] - np.sin(angle) * z[:, 1]
        warped[:, 1] = np.sin(angle) * z[:, 0] + np.cos(angle) * z[:, 1]
        found = same(z, warped @ rotation(rng, 8))
        assert found.linear.r2.estimate > 0.8
        assert found.worst < 0.75
        assert found.verdict == "partly"


def test_a_warped_dimension_of_sixteen_is_not_noise() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 16))
    warped, noisy = z.copy(), z.copy()
    warped[:, 0] = np.abs(z[:, 0])
    noisy[:, 0] += 0.9 * rng.normal(size=2000)
    assert same(z, warped @ rotation(rng, 16)).verdict == "partly"
    assert same(z, noisy @ rotation(rng, 16)).verdict in ("rotation", "linear")


def test_a_block_that_moves_the_answer_is_named() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1000, 4))
    other = z @ rotation(rng, 4)
    other[400:450] = 5 * rng.normal(size=(50, 4))
    found = same(z, other)
    assert found.influential[:2] == (400, 449)
    assert found.influential[2] > found.linear.r2.estimate + 0.1


def test_every_number_goes_into_json() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 8))
    told = json.loads(json.dumps(same(z, z @ rotation(rng, 8)).to_dict(), allow_nan=False))
    assert told["verdict"] == "rotation"
    assert told["linear"]["r2"]["low"] <= told["linear"]["r2"]["estimate"] <= told["linear"]["r2"]["high"]
    assert told["map"]["condition"] == pytest.approx(1)
    assert told["linear_chance"]["p"] == pytest.approx(0.01)
    assert told["pairs_needed"] <= 240


def test_dead_columns_are_left_out_and_told() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 8))
    found = same(np.column_stack((z, np.full(300, 3.0))), z)
    assert found.verdict == "rotation"
    assert found.first.constant == [8]
    assert "1 constant columns of first" in found.notes[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda z: same(z, z[:-1]), "299 rows"),
        (lambda z: same(z, 0 * z), "second must vary, got equal rows: the encoder has collapsed"),
        (lambda z: same(z, z * np.inf), "second must be finite"),
        (lambda z: same(z, z, ids=[1, 2]), "ids must be as many"),
        (lambda z: same(z, z, confidence=1.0), "confidence must lie"),
        (lambda z: same(z[0], z), "first must be rows"),
    ],
)
def test_what_is_wrong_is_said(call, words: str) -> None:
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=words):
        call(np.random.default_rng(0).normal(size=(300, 8)))

"""Memory: found where rows depend on their neighbours, and nowhere else; and what it does to every line."""

import numpy as np
import pytest

import isojepa as ij
from isojepa.certificates.assumptions import check_assumptions, draw_sample
from isojepa.certificates.pairs import PairRows
from isojepa.seeds import generator
from isojepa.statistics.memory import measure_memory, repeated_states
from tests.certificates.paths import ornstein_uhlenbeck
from tests.certificates.worlds import gaussian, rotation

SHAPES = [(2000, 4, 8), (500, 32, 2), (8000, 1, 2)]


def pairs(paths):
    """Each step with the next, path after path."""
    by_path = paths.swapaxes(0, 1)
    return tuple(view.reshape(-1, paths.shape[2]) for view in (by_path[:, :-1], by_path[:, 1:]))


def memory(z, z_next=None):
    return measure_memory(z, z_next, generator(0, "memory"))


def checked(paths, seed=0, **options):
    """The lines as `certify` asks for them."""
    some = PairRows(*pairs(paths)).sample(4000)
    return {
        line.name: line
        for line in check_assumptions(some.h, some.h_next, of="embeddings", seed=seed, **options)
    }


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.standard_normal((1000, 5)),
        lambda rng: rng.standard_cauchy((1000, 2)),
        lambda rng: rng.integers(0, 2, (1000, 3)).astype(float),
        lambda rng: rng.standard_normal((40, 3)),
        lambda rng: rng.standard_normal((13, 1)),
        lambda rng: np.ones((100, 2)),
    ],
)
def test_independent_rows_have_none_whatever_their_law(draw):
    found = [memory(draw(np.random.default_rng(seed))) for seed in range(20)]
    assert sum(one > 1 for one in found) <= 1


def test_pairs_of_independent_draws_have_none():
    assert all(memory(*gaussian(2000, 4, 0.95, seed=seed)) == 1 for seed in range(10))


@pytest.mark.parametrize("rho", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("shape", [(1000, 4, 3), (4000, 1, 2), (50, 80, 2)])
def test_rows_of_paths_are_taken_about_where_their_correlation_is_a_fifth(rho, shape):
    found = [
        memory(*pairs(ornstein_uhlenbeck(np.random.default_rng(seed), *shape, rho))) for seed in range(5)
    ]
    assert 0.6 <= np.median(found) / (np.log(0.2) / np.log(rho)) <= 2.2


def test_one_slow_direction_among_many_is_found():
    rates = np.r_[0.95, np.zeros(31)]
    z = ornstein_uhlenbeck(np.random.default_rng(0), 4000, 1, 32, rates)[:, 0] @ rotation(32)
    assert 10 <= memory(z) <= 60


def test_paths_that_take_turns_in_the_file_are_seen():
    z = ornstein_uhlenbeck(np.random.default_rng(0), 1000, 4, 2, 0.95).reshape(-1, 2)
    distance = memory(z)
    kept = z[::distance] - z.mean(0)
    far = [abs((kept[k:] * kept[:-k]).mean() / (kept**2).mean()) for k in range(1, 5)]
    assert distance > 10
    assert max(far) < 0.4


def test_steps_that_share_a_row_are_no_independent_pairs():
    z = np.random.default_rng(0).standard_normal((3000, 1, 3))
    assert memory(*pairs(z)) == 2


def test_missing_rows_leave_the_rest_in_order():
    z, z_next = pairs(ornstein_uhlenbeck(np.random.default_rng(1), 2000, 2, 2, 0.95))
    z[np.random.default_rng(2).random(len(z)) < 0.3] = np.nan
    some = PairRows(z, z_next, drop=True).sample(4000)
    assert len(some) < 3000
    assert draw_sample(some.h, some.h_next, "embeddings", 0).memory > 8


def test_shuffled_rows_hide_their_memory():
    z = ornstein_uhlenbeck(np.random.default_rng(0), 4000, 1, 2, 0.95)[:, 0]
    assert memory(np.random.default_rng(1).permutation(z)) == 1


def test_sorted_draws_are_not_tested_and_the_line_says_what_to_do():
    z = np.sort(np.random.default_rng(0).standard_normal((500, 2)), axis=0)
    line = check_assumptions(z, only=["Gaussianity"])[0]
    assert line.verdict == "unclear"
    assert "independent samples are needed" in line.sentence
    assert "shuffle" in line.advice
    assert line.effective < 20


def test_lines_and_certificates_say_how_many_rows_are_left():
    paths = ornstein_uhlenbeck(np.random.default_rng(0), 1500, 2, 2, 0.95)
    line = checked(paths, only=["Gaussianity"])["Gaussianity"]
    assert 50 <= line.effective <= 200
    assert line.memory > 1
    assert f"{line.effective} independent samples of 2998" in line.sentence
    one_path = ij.certify(paths[:, 0], trajectory=True)
    assert all(one.memory > 1 for one in one_path.assumptions)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_ideal_paths_are_not_called_non_gaussian(shape):
    found = []
    for seed in range(8):
        paths = ornstein_uhlenbeck(np.random.default_rng(seed), *shape, 0.95)
        found.append(checked(paths, seed, only=["Gaussianity", "isotropy"]))
    assert sum(lines["Gaussianity"].p <= 0.05 for lines in found) <= 2
    # of 16 checks at the level of 5 %; a certificate corrects for their number
    assert sum(line.verdict == "fails" for lines in found for line in lines.values()) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.5, 0.95])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("of", ["embeddings", "latents"])
def test_every_line_keeps_its_level_on_ideal_paths(shape, rho, of):
    seeds = 40
    low: dict[str, int] = {}
    for seed in range(seeds):
        some = PairRows(*pairs(ornstein_uhlenbeck(np.random.default_rng(seed), *shape, rho))).sample(4000)
        for line in check_assumptions(some.h, some.h_next, of=of, seed=seed):
            low[line.name] = low.get(line.name, 0) + (line.p is not None and line.p <= 0.05)
    # 7 of 40 have a chance of 0.3 % at the level of 5 %
    assert max(low.values()) <= 6, low


@pytest.mark.parametrize("shape", SHAPES)
def test_paths_that_are_not_gaussian_still_fail(shape):
    paths = ornstein_uhlenbeck(np.random.default_rng(0), *shape, 0.95)
    bent = np.sign(paths) * np.abs(paths) ** 0.4  # next to two humps
    assert checked(bent, only=["Gaussianity"])["Gaussianity"].verdict == "fails"


@pytest.mark.parametrize("shape", SHAPES)
def test_unequal_rates_still_fail(shape):
    rates = np.r_[np.full(shape[2] - 1, 0.95), 0.7]
    paths = ornstein_uhlenbeck(np.random.default_rng(0), *shape, rates)
    assert checked(paths, only=["isotropy"])["isotropy"].verdict == "fails"


def test_states_apart_from_each_other_are_found() -> None:
    rng = np.random.default_rng(0)
    state = rng.permutation(np.arange(600) % 60)
    x, y = (rng.normal(size=(60, 5))[state] + 0.01 * rng.normal(size=(600, 5)) for _ in range(2))
    labels = repeated_states(x, y)
    assert labels is not None
    assert len(set(zip(labels.tolist(), state.tolist(), strict=True))) == len(set(labels.tolist())) == 60
    assert repeated_states(x, rng.normal(size=(600, 5))) is None


def test_rows_with_a_density_do_not_repeat() -> None:
    rng = np.random.default_rng(0)
    for width in (1, 2, 8, 64):
        for draw in (rng.normal, rng.uniform, lambda size: rng.standard_t(2, size)):
            assert repeated_states(draw(size=(400, width))) is None
    assert repeated_states(np.zeros((100, 3))) is None

"""All assumptions at once: false alarms, power, bad input, speed; stationarity, Gaussianity, isotropy."""

import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from scipy.spatial.distance import cdist
from scipy.stats import laplace, norm

from isojepa.certificates.assumptions import (
    check_assumptions,
    compare_rates,
    correlate,
    departure,
    draw_sample,
    gaussianity,
    isotropy,
    rate,
    stationarity,
)
from isojepa.statistics.slowness import slow_to_fast
from tests.certificates import worlds
from tests.certificates.worlds import both, drifting, gaussian, rotation, two_speeds, uniform
from tests.reference.global_state import untouched

NAMES = [
    "stationarity",
    "Gaussianity",
    "independence",
    "additive noise",
    "joint Gaussianity",
    "isotropy",
    "dimension",
]


def verdicts(*args, **options):
    return {line.name: line.verdict for line in check_assumptions(*args, **options)}


def alarms(dim, n, seeds, **options):
    """Share of runs in which each line rejects, and the share in which any line fails."""
    rejected, failed = dict.fromkeys(NAMES, 0), 0
    for seed in range(seeds):
        of = ("latents", "embeddings")[seed % 2]
        lines = check_assumptions(*worlds.gaussian(n, dim, seed=seed), of=of, seed=seed, **options)
        for line in lines:
            rejected[line.name] += line.p is not None and line.p <= 0.05
        failed += any(line.verdict == "fails" for line in lines)
    return {name: count / seeds for name, count in rejected.items()}, failed / seeds


FAST = [(1, 12), (2, 10), (8, 5), (64, 2)]
SLOW = [(1, 120), (2, 120), (8, 60), (64, 30)]


@pytest.mark.parametrize(
    ("dim", "seeds"), [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]
)
def test_every_check_keeps_its_level_on_gaussian_worlds(dim, seeds):
    rejected, failed = alarms(dim, 1000, seeds, samples=1000, draws=59 if seeds < 20 else 99)
    assert failed <= max(0.02, 1 / seeds)
    limit = (0.1 if seeds < 20 else 0.05) + 3 * np.sqrt(0.05 * 0.95 / seeds)
    assert max(rejected.values()) <= limit, rejected


@pytest.mark.parametrize(
    "dim", [2, pytest.param(8, marks=pytest.mark.slow), pytest.param(64, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("world", "name", "of"),
    [
        (worlds.drifting, "stationarity", "latents"),
        (worlds.uniform, "Gaussianity", "latents"),
        (worlds.laplacian, "Gaussianity", "latents"),
        (worlds.folded, "independence", "latents"),
        (worlds.multiplicative, "additive noise", "latents"),
        (worlds.swirled, "joint Gaussianity", "embeddings"),
        (worlds.two_speeds, "isotropy", "latents"),
        (worlds.harmonic, "dimension", "embeddings"),
        (worlds.duplicated, "dimension", "embeddings"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_each_violation_fails_its_line(world, name, of, dim):
    assert verdicts(*world(4000, dim), of=of, draws=59)[name] == "fails"


def test_the_same_seed_gives_the_same_lines_and_moves_no_global_generator():
    pair = worlds.gaussian(300, 3)
    with untouched():
        first = check_assumptions(*pair, draws=39, seed=4)
    assert first == check_assumptions(*pair, draws=39, seed=4)
    assert first != check_assumptions(*pair, draws=39, seed=5)


def test_units_and_offsets_do_not_matter():
    z, z_next = worlds.gaussian(2000, 3)
    scale, offset = np.array([1e-8, 1.0, 1e8]), np.array([1e-3, -4.0, 1e9])
    plain = verdicts(z, z_next, draws=59)
    assert plain == verdicts(z * scale + offset, z_next * scale + offset, draws=59)


def test_one_view_leaves_what_needs_pairs_unclear():
    found = {line.name: line for line in check_assumptions(worlds.gaussian(2000, 3)[0], draws=59)}
    for name in ("stationarity", "additive noise", "joint Gaussianity", "isotropy"):
        assert found[name].verdict == "unclear"
        assert found[name].sentence == "It needs both views of each pair, got one."
    assert {found[name].verdict for name in ("Gaussianity", "independence", "dimension")} == {"holds"}


@pytest.mark.parametrize("n", [1, 2, 19])
def test_fewer_than_twenty_samples_are_unclear(n):
    lines = check_assumptions(*worlds.gaussian(n, 3))
    assert {line.verdict for line in lines} == {"unclear"}
    assert all(f"At least 20 samples are needed, got {n}." == line.sentence for line in lines)


def test_constant_dimensions_fail_the_dimension_and_spare_the_rest():
    z, z_next = worlds.gaussian(2000, 3)
    z[:, 1] = z_next[:, 1] = 5.0
    found = verdicts(z, z_next, draws=59)
    assert found.pop("dimension") == "fails"
    assert set(found.values()) == {"holds"}
    found = verdicts(np.ones((100, 2)), np.ones((100, 2)))
    assert found.pop("dimension") == "fails"
    assert set(found.values()) == {"unclear"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.0}, r"confidence must lie in \(0, 1\), got 1.0"),
        ({"samples": 10}, "samples must be at least 20, got 10"),
        ({"draws": 10}, "draws must be at least 39 for confidence 0.95, got 10"),
        ({"draws": 199, "confidence": 0.999}, "draws must be at least 1999 for confidence 0.999, got 199"),
        ({"of": "states"}, "of must be one of embeddings, latents, got 'states'"),
    ],
    ids=["confidence", "samples", "draws", "fine confidence", "of"],
)
def test_bad_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        check_assumptions(*worlds.gaussian(100, 2), **options)


def test_nan_raises():
    z, z_next = worlds.gaussian(100, 2)
    z_next[3, 1] = np.nan
    with pytest.raises(ValueError, match="next embeddings must be finite, got NaN or Inf in 1 of 100"):
        check_assumptions(z, z_next, of="embeddings")


def test_too_few_rows_say_how_many_would_decide():
    (line,) = check_assumptions(*gaussian(300, 2), of="embeddings", only=["joint Gaussianity"])
    needed = int(line.sentence.split("about ")[1].split(" rows")[0].replace(",", ""))
    (line,) = check_assumptions(*gaussian(needed, 2), of="embeddings", only=["joint Gaussianity"])
    assert line.verdict == "holds"
    (line,) = check_assumptions(*gaussian(5000, 2), only=["additive noise"], samples=200)
    assert line.sentence.endswith("samples would decide.")
    needed = int(line.sentence.split("about ")[1].split(" samples")[0].replace(",", ""))
    (line,) = check_assumptions(*gaussian(5000, 2), only=["additive noise"], samples=needed)
    assert line.verdict == "holds"


@pytest.mark.slow
@pytest.mark.parametrize(("n", "dim", "seconds"), [(100_000, 2, 6), (20_000, 1024, 40)])
def test_large_inputs_take_seconds(n, dim, seconds, one_thread):
    pair = worlds.gaussian(n, dim)
    check_assumptions(*worlds.gaussian(100, 2))  # compiles
    start = time.process_time()
    check_assumptions(*pair)
    assert time.process_time() - start < seconds


def test_lines_measured_alone_are_those_measured_together():
    z, z_next = worlds.gaussian(1000, 3)
    whole = {line.name: line for line in check_assumptions(z, z_next, draws=59)}
    names = ("dimension", "isotropy")
    assert check_assumptions(z, z_next, only=names, draws=59) == tuple(whole[name] for name in names)
    with pytest.raises(ValueError, match=r"assumption must be one of .*isotropy.* got 'isotropic'"):
        check_assumptions(z, z_next, only=["isotropic"])


def test_pairs_stay_pairs_and_come_in_random_order():
    z = np.random.default_rng(0).permutation(100)[:, None] * 2.0 + [0, 1]
    sample = draw_sample(z, z + 0.5, "latents", 0)
    back = np.argsort(np.argsort(sample.z[:, 0]))
    assert sorted(back) == list(range(100))
    assert list(back) != sorted(back)
    step = (sample.z_next - sample.z) * sample.scale
    assert np.allclose(step, 0.5)


def test_constant_columns_are_left_out_and_named():
    z, z_next = gaussian(100, 4)
    z[:, 1] = z_next[:, 1] = 7.3
    z_next[:, 2] = 1e9
    sample = draw_sample(z, z_next, "latents", 0)
    assert sample.constant == (1, 2)
    assert sample.halted == (2,)
    assert list(sample.columns) == [0, 3]
    assert sample.label(1) == "dimension 3"


def test_many_samples_are_thinned_out():
    sample = draw_sample(np.random.default_rng(0).standard_normal((30_000, 300)), None, "latents", 0)
    assert len(sample) == 20_000
    assert sample.total == 30_000


@pytest.mark.parametrize(
    ("z", "z_next", "message"),
    [
        (np.zeros(5), None, r"latents must be \(samples, dim\), got shape \(5,\)"),
        (np.zeros((0, 2)), None, r"got shape \(0, 2\)"),
        (np.array([["a"]]), None, "latents must hold real numbers"),
        (np.zeros((5, 2)), np.zeros((5, 3)), r"one shape, got \(5, 2\) and \(5, 3\)"),
        (np.zeros((5, 2)), np.full((5, 2), np.nan), "next latents must be finite, got NaN or Inf in 5 of 5"),
        (np.full((5, 2), -np.inf), None, "latents must be finite"),
        (np.full((5, 2), -1e200), None, r"must be below 1e\+50 in size, got 1e\+200"),
    ],
    ids=["vector", "empty", "text", "shapes", "nan", "inf", "huge"],
)
def test_bad_arrays_raise(z, z_next, message):
    with pytest.raises(ValueError, match=message):
        draw_sample(z, z_next, "latents", 0)


def gaussian_line(z, of="latents", seed=0):
    return gaussianity(draw_sample(z, None, of, seed))


@pytest.mark.parametrize("n", [30, 200, 600, 20_000])
def test_p_values_of_normal_samples_are_uniform_whatever_mean_and_deviation(n):
    count = 4000 if n < 1000 else 500
    value, p = departure(3 + 7 * np.random.default_rng(0).standard_normal((n, count)))
    for level in (0.5, 0.05, 0.01):
        assert np.mean(p <= level) == pytest.approx(level, abs=4.5 * np.sqrt(level / count))
    assert np.mean(value) == pytest.approx(0, abs=4 * np.std(value) / np.sqrt(count) + 0.03 / n)


def test_the_departure_of_known_distributions():
    u = (np.arange(5000) + 0.5) / 5000
    for values, truth in (
        (norm.ppf(u), 0.0),
        (u, 1 - 3 / np.pi),  # corr^2(u, q) = 12 E[u q]^2 = 3 / pi
        (laplace.ppf(u), 1 - np.mean(laplace.ppf(u) * norm.ppf(u)) ** 2 / 2),
    ):
        assert departure(values[:, None])[0][0] == pytest.approx(truth, abs=2e-3)


def test_the_statistic_is_near_that_of_shapiro_and_wilk():
    x = np.random.default_rng(0).exponential(size=(200, 1))
    w = scipy.stats.shapiro(x[:, 0]).statistic
    assert departure(x)[0][0] == pytest.approx(1 - w, abs=0.02)
    assert departure(1e-120 * x)[1] == pytest.approx(departure(x)[1])


def test_uniform_latents_are_found_in_rotated_embeddings():
    found = gaussian_line(both(lambda z: z @ rotation(16), uniform(8000, 16))[0], of="embeddings")
    assert found.verdict == "fails"
    assert "found by a search" in found.sentence


def test_a_search_on_one_half_gives_no_false_alarm_on_the_other():
    ps = np.array([gaussian_line(gaussian(300, 20, seed=seed)[0], seed=seed).p for seed in range(16)])
    assert np.mean(ps <= 0.05) <= 0.2


def stationary_line(z, z_next, rows=1000, draws=99, seed=0):
    return stationarity(replace(draw_sample(z, z_next, "latents", seed), rows=rows, draws=draws))


def test_the_value_is_the_energy_distance():
    x, y = gaussian(300, 3)
    y[:, 0] += 0.5
    found = stationary_line(x, y)
    center, scale = np.mean([x.mean(0), y.mean(0)], 0), np.r_[x, y].std(0)
    x, y = (x - center) / scale, (y - center) / scale
    across = (cdist(x, y).sum() - np.trace(cdist(x, y))) / (300 * 299)
    inside = (cdist(x, x).sum() + cdist(y, y).sum()) / (300 * 299)
    assert dict(found.detail)["raw squared shift"] == pytest.approx(12 * (2 * across - inside) / (2 * across))


@pytest.mark.parametrize("dim", [1, 3, 30])
def test_the_value_is_the_shift_of_the_mean(dim):
    z, z_next = gaussian(2000, dim, rho=0.5)
    found = stationary_line(z, z_next + 0.3 / np.sqrt(dim), rows=2000)
    assert found.value == pytest.approx(0.3, abs=0.08)
    assert found.interval.low < 0.3 < found.interval.high
    assert found.verdict == "fails"


def test_intervals_cover_the_shift():
    hits = 0
    for seed in range(60):
        z, z_next = gaussian(300, 2, seed=seed)
        interval = stationary_line(z, z_next + 0.3 / np.sqrt(2), draws=39).interval
        hits += interval.low < 0.3 < interval.high
    assert hits >= 50


def test_a_shift_within_the_threshold_is_unclear_though_significant():
    found = stationary_line(*(drifting(4000, 1)[0], gaussian(4000, 1)[1] + 0.05), rows=2000)
    assert found.p <= 0.05
    assert found.verdict == "unclear"


def test_a_change_of_scale_is_seen():
    z, z_next = gaussian(2000, 2)
    assert stationary_line(z, 1.4 * z_next).verdict == "fails"


def test_the_level_is_right_for_stationary_pairs_that_are_not_exchangeable():
    turn = rotation(2)  # z' turns: the joint law is another when the views are swapped
    ps = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        z, noise = rng.standard_normal((2, 200, 2))
        ps.append(stationary_line(z, 0.9 * z @ turn + np.sqrt(1 - 0.81) * noise, draws=59, seed=seed).p)
    assert np.mean(np.array(ps) <= 0.05) <= 0.1
    assert 0.35 <= np.mean(np.array(ps) <= 0.5) <= 0.65


def test_equal_views_hold():
    z, _ = gaussian(200, 3)
    found = stationary_line(z, z)
    assert found.verdict == "holds"
    assert found.value == pytest.approx(0, abs=1e-6)


def test_a_dimension_that_stops_is_named():
    z, z_next = gaussian(100, 2)
    z_next[:, 1] = 2.0
    found = stationary_line(z, z_next)
    assert found.verdict == "fails"
    assert "Dimension 1 is constant in a view" in found.sentence


def isotropy_line(z, z_next, of="latents", seed=0):
    return isotropy(draw_sample(z, z_next, of, seed))


def test_directions_of_a_mixed_world_are_its_latents():
    z, z_next = gaussian(50_000, 3, rho=[0.5, 0.95, 0.8])
    mixing = np.array([[2.0, 0.3, 0.0], [0.0, 1.0, -0.7], [0.4, 0.0, 0.5]])
    directions, whole = slow_to_fast(z @ mixing, z_next @ mixing)
    assert whole
    read = np.abs(mixing @ directions)  # latents read off along each direction
    assert np.allclose(read, np.eye(3)[:, [1, 2, 0]], atol=0.05)


def test_rates_are_minus_the_logarithm_of_correlations():
    z, z_next = gaussian(200_000, 2, rho=[0.9, 0.5])
    correlation, influence = correlate(z, z_next)
    assert rate(correlation) == pytest.approx(-np.log([0.9, 0.5]), rel=0.02)
    assert influence.mean(0) == pytest.approx([0, 0], abs=1e-9)
    # the asymptotic deviation of a correlation with a common variance: 1 - rho^2
    assert influence.std(0) == pytest.approx([1 - 0.81, 0.75], rel=0.02)
    assert rate(np.array([0.0, -0.3])).tolist() == [np.inf, np.inf]


def test_naive_extremes_are_biased_and_those_of_two_halves_are_not():
    naive, honest = [], []
    for seed in range(20):
        sample = draw_sample(*gaussian(400, 20, seed=seed), "embeddings", seed)
        directions, _ = slow_to_fast(*sample.views)
        values, _ = correlate(*(view @ directions for view in sample.views))
        naive.append(rate(values[-1]) / rate(values[0]))
        honest.append(isotropy(sample).value)
    assert np.median(naive) > 1.8
    assert np.median(honest) == pytest.approx(1, abs=0.15)


def test_intervals_cover_the_ratio():
    truth = np.log(0.6) / np.log(0.9)
    hits = 0
    for seed in range(200):
        rho, influence = correlate(*gaussian(400, 2, rho=[0.9, 0.6], seed=seed))
        interval, _ = compare_rates(rho, influence, 0.9)
        hits += interval.low < truth < interval.high
    assert 0.84 <= hits / 200 <= 0.96


def test_an_equal_rate_is_rejected_as_often_as_the_level():
    ps = [compare_rates(*correlate(*gaussian(400, 2, seed=seed)), 0.95)[1] for seed in range(300)]
    assert 0.02 <= np.mean(np.array(ps) <= 0.05) <= 0.09


@pytest.mark.parametrize("dim", [2, 8, 64])
@pytest.mark.parametrize("of", ["latents", "embeddings"])
def test_a_latent_three_times_as_fast_fails(dim, of):
    pair = two_speeds(6000, dim)
    if of == "embeddings":
        pair = both(lambda z: z @ rotation(dim), pair)
    found = isotropy_line(*pair, of=of)
    assert found.verdict == "fails"
    assert found.interval.low < 3 < found.interval.high * 1.15


def test_rates_that_differ_less_than_twofold_are_unclear():
    found = isotropy_line(*gaussian(20_000, 2, rho=[0.9, 0.9**1.5]))
    assert found.verdict == "unclear"
    assert "one rho" in found.advice


@pytest.mark.parametrize("dim", [1, 2, 64])
def test_shuffled_rows_are_named(dim):
    z, z_next = gaussian(4000, dim)
    found = isotropy_line(z, z_next[np.random.default_rng(3).permutation(4000)])
    assert found.verdict == "fails"
    assert "shuffled" in found.sentence


def test_a_direction_that_forgets_all_has_an_infinite_rate():
    found = isotropy_line(*gaussian(6000, 2, rho=[0.9, 0.0]))
    assert found.verdict == "fails"
    assert found.interval.high == np.inf
    assert found.interval.low > 10


def test_more_dimensions_than_samples_look_at_leading_directions_only():
    found = isotropy_line(*gaussian(100, 200), of="embeddings")
    assert found.verdict == "unclear"
    assert "only 12 leading directions" in found.sentence

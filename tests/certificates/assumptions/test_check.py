"""All lines at once: false alarms, power, bad input, speed."""

import time

import numpy as np
import pytest

from isojepa.certificates.assumptions import check_assumptions
from tests.certificates.assumptions import worlds
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


@pytest.mark.parametrize(("dim", "seeds"), [(1, 12), (2, 10), (8, 5), (64, 2)])
def test_gaussian_worlds_pass(dim, seeds):
    rejected, failed = alarms(dim, 1000, seeds, samples=1000, draws=59)
    assert failed <= 1 / seeds
    # twice the level, and three standard deviations
    limit = 0.1 + 3 * np.sqrt(0.05 * 0.95 / seeds)
    assert max(rejected.values()) <= limit, rejected


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "seeds"), [(1, 120), (2, 120), (8, 60), (64, 30)])
def test_the_level_of_every_line_is_right(dim, seeds):
    rejected, failed = alarms(dim, 1000, seeds, samples=1000, draws=99)
    assert failed <= max(0.02, 1 / seeds)
    assert max(rejected.values()) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / seeds), rejected


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
def test_bad_options_are_told(options, message):
    with pytest.raises(ValueError, match=message):
        check_assumptions(*worlds.gaussian(100, 2), **options)


def test_nan_is_refused():
    z, z_next = worlds.gaussian(100, 2)
    z_next[3, 1] = np.nan
    with pytest.raises(ValueError, match="next embeddings must be finite, got 1 rows"):
        check_assumptions(z, z_next, of="embeddings")


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

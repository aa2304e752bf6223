"""Tests of the examination of embeddings for Gaussianity."""

import numpy as np
import pytest
import scipy
import torch
import torch.distributed as dist

from isojepa.certificates import examine
from isojepa.certificates.gaussianity import worst_slices
from isojepa.objectives.gaussianity import MULTIVARIATE, UNIVARIATE
from tests.reference.global_state import untouched

FAST = {"samples": 300, "slices": 8, "draws": 59}


def normal(n: int, dim: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim))


def crossed(n: int, dim: int) -> np.ndarray:
    """Gaussian but for the first two coordinates, which form an X: marginals N(0, 1), covariance I."""
    h = normal(n, dim)
    h[:, 1] = h[:, 0] * np.random.default_rng(1).choice([-1, 1], n)
    return h


def test_every_test_of_the_library_has_a_line():
    result = examine(normal(300, 3), **FAST)
    names = {line.name for line in result.lines}
    assert names == {*UNIVARIATE, *MULTIVARIATE} - {"epps-pulley-exact"}
    assert {line.kind for line in result.lines} == {
        "slices",
        "worst slice",
        "searched slice",
        "all dimensions",
    }


def test_gaussian_embeddings_pass_and_false_alarms_are_as_rare_as_stated():
    alarms = sum(bool(examine(normal(100, 3, seed), **FAST, seed=seed).rejected) for seed in range(12))
    stated = examine(normal(100, 3), **FAST).false_alarm
    assert 0.3 < stated < 0.5  # 59 draws: 23 tests of level 1/60
    assert alarms <= 9  # the tests depend on one another, so fewer than stated are expected


@pytest.mark.parametrize(
    "change",
    [lambda h: 1.5 * h, lambda h: h + 0.5, lambda h: np.sign(h) * np.abs(h) ** 1.5, lambda h: h @ np.tri(4)],
    ids=["scaled", "shifted", "heavy tails", "correlated"],
)
def test_what_is_not_standard_normal_is_rejected(change):
    result = examine(change(normal(600, 4)), **FAST)
    assert len(result.rejected) >= 5
    assert result.verdict.startswith("Not N(0, I)")


def test_standardized_tests_do_not_see_mean_and_covariance_but_do_see_shape():
    affine = normal(600, 4) @ np.tri(4) * 3 + 1
    assert len(examine(affine, **FAST, standardize=True).rejected) <= 2
    assert examine(affine, **FAST).rejected
    uniform = np.random.default_rng(0).uniform(-1, 1, (600, 4)) @ np.tri(4)
    assert len(examine(uniform, **FAST, standardize=True).rejected) >= 3


def test_search_finds_the_crossed_pair_among_many_dimensions():
    worst = worst_slices(torch.from_numpy(crossed(3000, 40)).float(), 4)[0]
    assert np.abs(worst.direction[:2]).min() > 0.6
    assert worst.p < 1e-6


def test_search_is_judged_on_samples_that_it_did_not_see():
    # 60 samples in 50 dimensions: on the samples that chose it, any direction looks far from Gaussian
    ps = [worst_slices(torch.from_numpy(normal(120, 50, seed)).float(), 1)[0].p for seed in range(20)]
    assert np.median(ps) > 0.15


def test_examination_leaves_global_generators_alone_and_repeats_itself():
    h = normal(200, 3)
    with untouched():
        first = examine(h, **FAST)
    assert first.to_dict() == examine(h, **FAST).to_dict()


@pytest.mark.parametrize(
    ("h", "message"),
    [
        (np.zeros((5, 2)), "at least 20 rows"),
        (np.full((50, 2), np.nan), "NaN"),
        (np.zeros(50), "samples, dim"),
    ],
)
def test_bad_embeddings_are_told(h, message):
    with pytest.raises(ValueError, match=message):
        examine(h)


def test_standardize_needs_more_rows_than_dimensions():
    with pytest.raises(ValueError, match="more rows than the 40 dimensions, got 30"):
        examine(normal(30, 40), standardize=True)


def test_tests_that_are_not_defined_say_why():
    h = normal(100, 3)
    h[:, 2] = 0.5
    assert examine(h, **FAST).rejected
    result = examine(np.zeros((100, 3)), **FAST)
    undefined = {line.name: line.reason for line in result.lines if line.reason}
    assert "zero variance" in undefined["jarque-bera"]
    assert len(result.lines) == 23
    assert "epps-pulley" in {line.name for line in result.rejected}


def test_a_distributed_job_does_not_change_what_is_examined(tmp_path):
    h = normal(100, 2)
    truth = examine(h, **FAST).to_dict()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        assert examine(h, **FAST).to_dict() == truth
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("options", "message"), [({"worst": 0}, "worst must be positive"), ({"samples": 4}, "at least 20, got 4")]
)
def test_bad_options_are_told(options, message):
    with pytest.raises(ValueError, match=message):
        examine(normal(100, 2), **options)


def test_embeddings_too_large_for_float32_are_refused():
    with pytest.raises(ValueError, match=r"at most 1e\+06 in size"):
        examine(normal(100, 2) * 1e8)


def test_an_exact_gaussian_path_is_tested_on_its_independent_rows() -> None:
    rng = np.random.default_rng(0)
    rejected = 0
    for seed in range(8):
        noise = rng.normal(size=(1000, 3)) * np.sqrt(1 - 0.9**2)
        noise[0] /= np.sqrt(1 - 0.9**2)
        path = scipy.signal.lfilter([1], [1, -0.9], noise, axis=0)
        result = examine(path, samples=300, slices=8, draws=499, seed=seed)  # false alarms: 5 %
        assert 20 <= result.effective <= 200
        assert f"{result.effective} effective" in result.assumption
        rejected += bool(result.rejected)
    assert rejected <= 2
    assert examine(normal(300, 3), **FAST).effective == 300


def test_repeats_count_once() -> None:
    rows = normal(60, 3)[np.random.default_rng(0).permutation(np.arange(600) % 60)]
    assert examine(rows, **FAST).effective == 60


def test_a_random_walk_has_too_few_rows() -> None:
    with pytest.raises(ValueError, match=r"independent rows to be tested, got \d+ effective rows of 500"):
        examine(np.random.default_rng(0).normal(size=(500, 3)).cumsum(0), **FAST)

"""What is tested: verified, in random order, standardised."""

import numpy as np
import pytest

from isojepa.certificates.assumptions.sample import draw_sample
from tests.certificates.assumptions.worlds import gaussian


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
    assert sample.given == 30_000


@pytest.mark.parametrize(
    ("z", "z_next", "message"),
    [
        (np.zeros(5), None, r"latents must have shape \(samples, dim\), both positive, got \(5,\)"),
        (np.zeros((0, 2)), None, "both positive"),
        (np.array([["a"]]), None, "latents must hold real numbers"),
        (np.zeros((5, 2)), np.zeros((5, 3)), r"one shape, got \(5, 2\) and \(5, 3\)"),
        (np.zeros((5, 2)), np.full((5, 2), np.nan), "next latents must be finite, got 5 rows"),
        (np.full((5, 2), -np.inf), None, "latents must be finite, got 5 rows"),
        (np.full((5, 2), -1e200), None, r"at most 1e\+100 in size, got 1e\+200"),
    ],
    ids=["vector", "empty", "text", "shapes", "nan", "inf", "huge"],
)
def test_bad_arrays_are_told(z, z_next, message):
    with pytest.raises(ValueError, match=message):
        draw_sample(z, z_next, "latents", 0)

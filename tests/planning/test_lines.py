"""Straight lines of a rotation decode to straight lines; those of a warped embedding do not."""

import itertools

import numpy as np
import pytest

from isojepa.planning import LineSpec, compare_lines, density_curve, draw_pairs, make_decoder, measure_lines
from tests.planning.made_up import normal, rotation

STATES = normal("states", size=(4000, 2))
TURNED = STATES @ rotation(2, "turn").T
WARPED = np.stack(
    (STATES[:, 0] + 0.8 * np.sin(1.5 * STATES[:, 1]), STATES[:, 1] - 0.6 * np.tanh(STATES.prod(1))), axis=1
)
PAIRS = draw_pairs(len(STATES))


@pytest.mark.parametrize(("decoder", "near"), [("nearest", 0.1), ("local", 1e-6), ("learned", 1e-3)])
def test_a_rotation_is_the_oracle_for_every_decoder(decoder, near):
    found = compare_lines(TURNED, STATES, PAIRS, LineSpec(decoder=decoder))
    assert found.verdict == "indistinguishable"
    assert found.encoder.length.estimate == pytest.approx(1, abs=near)
    assert found.encoder.deviation.estimate < near
    assert found.encoder.error.estimate < near


@pytest.mark.parametrize("decoder", ["nearest", "local", "learned"])
def test_a_warped_embedding_has_longer_paths_than_the_oracle(decoder):
    found = compare_lines(WARPED, STATES, PAIRS, LineSpec(decoder=decoder))
    assert found.verdict == "longer"
    assert found.length.low > 0
    assert found.deviation.low > 0.03


def test_numbers_of_a_path_are_those_of_its_definition():
    lines = measure_lines(WARPED, STATES, PAIRS, LineSpec(steps=7))
    kept = np.setdiff1d(np.arange(len(STATES)), PAIRS)
    index = 3
    start, goal = PAIRS[index]
    chord = STATES[goal] - STATES[start]
    path, offs = [], []
    for step in range(8):
        y = (1 - step / 7) * WARPED[start] + step / 7 * WARPED[goal]
        point = STATES[kept[np.argmin(((WARPED[kept] - y) ** 2).sum(1))]]
        path.append(point)
        across = np.array([-chord[1], chord[0]]) / np.linalg.norm(chord)
        offs.append(abs((point - STATES[start]) @ across))
    np.testing.assert_array_equal(lines.paths[index], path)
    length = sum(np.linalg.norm(b - a) for a, b in itertools.pairwise(path))
    assert lines.lengths[index] == pytest.approx(length / np.linalg.norm(chord))
    assert lines.deviations[index] == pytest.approx(np.mean(offs))


def test_decoded_endpoints_are_as_decoded():
    held_out = measure_lines(TURNED, STATES, PAIRS)
    assert held_out.endpoint_error.low > 0
    assert not np.isin(held_out.paths[:, 0], STATES[PAIRS[:, 0]]).all(1).any()
    assert held_out.library == len(STATES) - len(np.unique(PAIRS))
    published = measure_lines(TURNED, STATES, PAIRS, LineSpec(held_out=False))
    assert published.endpoint_error.high < 1e-12
    assert published.library == len(STATES)


def test_retrieval_makes_paths_longer_and_denser_libraries_less_so():
    curve = density_curve(TURNED, STATES, PAIRS, (50, 400, 3500))
    errors = [curve[size].encoder.error.estimate for size in (50, 400, 3500)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 4  # as the root of the density, in the plane
    assert curve[400].oracle.length.low > 1
    assert all(one.verdict == "indistinguishable" for one in curve.values())
    assert [one.encoder.library for one in curve.values()] == [50, 400, 3500]


def test_pairs_that_are_too_near_are_left_out_and_counted():
    near = np.argsort(((STATES - STATES[0]) ** 2).sum(1))[1]
    pairs = np.concatenate((PAIRS, [[0, near], [5, 5]]))
    found = measure_lines(TURNED, STATES, pairs)
    plain = measure_lines(TURNED, STATES, PAIRS)
    assert found.excluded == plain.excluded + 2
    assert [0, near] not in found.pairs.tolist()
    assert np.isfinite(found.lengths).all()
    # what is left out stays in the library
    assert found.library == plain.library


def test_intervals_cover_the_mean_over_all_pairs():
    spec = LineSpec(decoder="local", held_out=False)
    truth = measure_lines(WARPED, STATES, draw_pairs(len(STATES), 3000, seed=1), spec).deviation.estimate
    found = [
        measure_lines(WARPED, STATES, draw_pairs(len(STATES), seed=10 + seed), spec) for seed in range(24)
    ]
    held = sum(one.deviation.low <= truth <= one.deviation.high for one in found)
    assert held >= 19  # of 95 %: fewer have a chance below 1 in 200
    widths = [one.deviation.high - one.deviation.low for one in found]
    assert np.mean(widths) < truth


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_decoder("nearest", STATES[:3], STATES[:3], k=4), "k must be at most the 3 states"),
        (lambda: make_decoder("neares", STATES, STATES), "did you mean 'nearest'"),
        (lambda: make_decoder("learned", STATES[:5], STATES[:5]), "at least 20 states"),
        (lambda: measure_lines(STATES[:9], STATES[:8], [[0, 1]]), "a row for each state, got 9 and 8"),
        (lambda: measure_lines(STATES, STATES, [[0, 4000]]), "rows 0 to 3999"),
        (
            lambda: measure_lines(STATES, STATES, [[3, 3], [4, 4]]),
            "at least 2 pairs must lie apart, got 0 of 2",
        ),
        (lambda: measure_lines(STATES[:4], STATES[:4], [[0, 1], [2, 3]]), "besides the starts and goals"),
        (lambda: density_curve(STATES, STATES, PAIRS, (5000,)), "sizes must be at most"),
        (lambda: LineSpec(decoder=3), "decoder must be text"),
    ],
)
def test_bad_input_is_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()

"""A fitted transition is the true one, turned; the cost gap follows the recovery error."""

import numpy as np
import pytest

from isojepa.planning import Lqr, fit_system, measure_error, push_cost, simulate_regret
from tests.planning.made_up import normal, rotation, sines, world

ROWS = 20_000


def recorded(lqr, encoder):
    z, actions = normal("z", size=(ROWS, lqr.system.dim)), normal("a", size=(ROWS, lqr.system.inputs))
    kicks = normal("w", size=z.shape) @ np.linalg.cholesky(lqr.system.noise).T
    after = z @ lqr.system.a.T + actions @ lqr.system.b.T + kicks
    return z, encoder(z), actions, encoder(after)


def test_the_transition_of_a_rotation_is_the_turned_one():
    lqr, q = world(3, 3), rotation(3, "turn")
    _, h, actions, h_next = recorded(lqr, lambda z: z @ q.T + 5.0)
    fitted = fit_system(h, actions, h_next)
    turned = lqr.system.turned(q)
    np.testing.assert_allclose(fitted.system.a, turned.a, atol=0.03)
    np.testing.assert_allclose(fitted.system.b, turned.b, atol=0.03)
    np.testing.assert_allclose(fitted.system.noise, turned.noise, rtol=0.1, atol=0.02)
    radii = fitted.radii(lqr.system, q)
    assert radii.a == pytest.approx(np.linalg.norm(fitted.system.a - turned.a, 2))
    assert 0 < radii.a < 0.06


def test_a_cost_of_latents_is_pushed_through_any_linear_map():
    z, w = normal("z", size=(500, 3)), np.diag([1.0, 2.0, 3.0])
    mixing = normal("mixing", size=(3, 3))
    pushed = push_cost(w, z @ mixing.T + 1.0, z)
    h = z @ mixing.T
    np.testing.assert_allclose(
        np.einsum("ni,ij,nj->n", h, pushed, h), np.einsum("ni,ij,nj->n", z, w, z), rtol=1e-9
    )


def test_the_cost_gap_of_fitted_control_grows_with_the_recovery_error():
    lqr, gaps, errors = world(3, 3), [], []
    for lipschitz in (0.003, 0.1, 0.6):
        encoder = sines(3, 3, lipschitz)
        z, h, actions, h_next = recorded(lqr, encoder)
        fitted = fit_system(h, actions, h_next)
        best = Lqr(fitted.system, push_cost(lqr.w, h, z), lqr.r)
        gap = simulate_regret(lqr, lambda z: fitted.act(best, encoder(z)), steps=200, paths=100)  # noqa: B023
        gaps.append(gap.estimate)
        errors.append(measure_error(h, z).power.estimate)
    assert errors == sorted(errors)
    assert gaps == sorted(gaps)
    assert gaps[-1] > 10 * gaps[0]


def test_the_error_of_an_encoder_is_its_power_and_slope_against_the_best_rotation():
    encoder = sines(4, 2, 0.5)
    z = normal("z", size=(ROWS, 2))
    found = measure_error(encoder(z) + 3.0, z, confidence=0.999)
    # the best rotation takes a little of the sines' linear part, so the error is at most theirs
    assert found.power.low < encoder.power
    assert found.power.estimate > 0.3 * encoder.power
    assert 0.3 * encoder.lipschitz < found.usual_slope <= found.slope < 1.5 * encoder.lipschitz
    exact = measure_error(z @ encoder.q.T, z)
    assert exact.power.estimate < 1e-25
    np.testing.assert_allclose(exact.q, encoder.q, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"actions": np.ones((50, 2))}, r"a\[0\] never varies: its column of B"),
        (
            {"actions": normal("one", size=(50, 1)) @ [[1.0, 1.0]]},
            r"0.707 a\[0\] [+-]0.707 a\[1\] never varies",
        ),
        ({"actions": normal("short", size=(49, 2))}, "a must have as many rows as h, 50, got 49"),
        ({"h_next": normal("wide", size=(50, 4))}, "h_next must have as many dimensions as h, 3, got 4"),
    ],
)
def test_records_that_tell_nothing_are_refused(change, words):
    given = {
        "h": normal("h", size=(50, 3)),
        "actions": normal("a", size=(50, 2)),
        "h_next": normal("n", size=(50, 3)),
    }
    with pytest.raises(ValueError, match=words):
        fit_system(**given | change)

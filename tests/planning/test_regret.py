"""The planning bound lies above the measured regret, and says what it lacks where there is none."""

import json
import math

import numpy as np
import pytest

from isojepa.planning import LinearSystem, Lqr, Radii, fit_system, planning_bound, simulate_regret
from tests.planning.made_up import normal, sines, uniform, world


def controlled(seed):
    """The bound and the regret of a world, an encoder with a nonlinear error and a model of three origins."""
    size, inputs = 1 + seed % 5, 1 + seed % 2
    lqr = world(seed, size, inputs)
    encoder = sines(seed, size, 10 ** uniform("lipschitz", seed, low=-2.5, high=-0.3))
    model, radii = _model(seed, lqr.system, encoder)
    centered = encoder.q @ lqr.w @ encoder.q.T
    bound = planning_bound(model, centered, lqr.r, encoder.power, encoder.lipschitz, radii)
    gain = Lqr(model, centered, lqr.r).gain
    measured = simulate_regret(lqr, lambda z: -encoder(z) @ gain.T, steps=300, paths=100, seed=seed)
    return bound, measured


def _model(seed, system, encoder):
    turned = system.turned(encoder.q)
    origin = ("known", "near", "fitted")[seed % 3]
    if origin == "known":
        return turned, Radii()
    if origin == "near":
        radius = 10 ** uniform("radius of the model", seed, low=-4, high=-1)
        off = [normal(name, seed, size=one.shape) for name, one in (("dA", turned.a), ("dB", turned.b))]
        a, b = (radius * one / np.linalg.norm(one, 2) for one in off)
        return LinearSystem(turned.a + a, turned.b + b, turned.noise), Radii(radius, radius)
    rows = 4000
    z, actions = normal("z", seed, size=(rows, system.dim)), normal("a", seed, size=(rows, system.inputs))
    kicks = normal("w", seed, size=(rows, system.dim)) @ np.linalg.cholesky(system.noise).T
    fitted = fit_system(encoder(z), actions, encoder(z @ system.a.T + actions @ system.b.T + kicks))
    return fitted.system, fitted.radii(system, encoder.q)


def check_worlds(seeds):
    verdicts = []
    for seed in seeds:
        bound, measured = controlled(seed)
        assert measured.estimate <= bound.value, (seed, str(bound), measured)
        verdicts.append(bound.verdict.split(":")[0])
    return verdicts


def test_the_bound_lies_above_the_regret_of_nonlinear_encoders():
    verdicts = check_worlds(range(18))
    assert verdicts.count("bound") >= 8


@pytest.mark.slow
def test_the_bound_lies_above_the_regret_in_all_of_four_hundred_worlds():
    verdicts = check_worlds(range(18, 418))
    assert verdicts.count("bound") >= 130, verdicts  # the claim is not empty


def test_the_bound_goes_to_zero_with_the_recovery_error():
    lqr = world(3, 3)
    bounds = [
        planning_bound(lqr.system, lqr.w, lqr.r, error, 0.05).value for error in (1e-2, 1e-4, 1e-6, 0.0)
    ]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[2] < bounds[0] / 100
    assert bounds[3] == 0


def test_simulated_regret_is_that_of_the_lyapunov_equation():
    lqr = world(5, 3)
    gain = lqr.gain + 0.05 * normal("other", size=lqr.gain.shape)
    exact = lqr.cost_of(gain) - lqr.average_cost
    measured = simulate_regret(lqr, lambda z: -z @ gain.T, steps=500, paths=300, confidence=0.9999)
    assert measured.low < exact < measured.high
    assert measured.high - measured.low < 0.3 * exact


def test_a_bound_above_the_regret_of_doing_nothing_is_vacuous():
    system = LinearSystem(0.9 * np.eye(2), np.eye(2), 0.19 * np.eye(2))
    bounds = [planning_bound(system, np.eye(2), np.eye(2), error, 0.3) for error in (0.01, 10.0)]
    assert [one.verdict for one in bounds] == ["bound", "vacuous"]
    # doing nothing: the stationary law is N(0, I), whose cost is 2
    assert bounds[0].nothing == pytest.approx(2 - bounds[0].best)
    unstable = LinearSystem(1.1 * np.eye(2), np.eye(2), 0.19 * np.eye(2))
    assert planning_bound(unstable, np.eye(2), np.eye(2), 10.0, 0.1).nothing == math.inf


def test_a_missing_constant_or_condition_is_named():
    system = LinearSystem(0.9 * np.eye(2), np.eye(2), 0.19 * np.eye(2))
    told = {
        "lipschitz must be known": {"recovery_error": 0.1},
        "recovery_error must be known": {"recovery_error": None, "lipschitz": 0.1},
        "small-gain": {"recovery_error": 0.1, "lipschitz": 3.0},
        "too uncertain": {"recovery_error": 0.1, "lipschitz": 0.1, "radii": Radii(a=1.0)},
    }
    for words, options in told.items():
        bound = planning_bound(system, np.eye(2), np.eye(2), **options)
        assert bound.verdict.startswith("no bound: ")
        assert words in bound.verdict
        assert bound.value == math.inf
        assert json.loads(json.dumps(bound.to_dict(), allow_nan=False))["value"] is None
    flat = planning_bound(system, np.diag([1.0, 0.0]), np.eye(2), 0.1, 0.1, Radii(a=0.01))
    assert "W must be positive definite" in flat.verdict
    assert planning_bound(system, np.diag([1.0, 0.0]), np.eye(2), 0.1, 0.1).verdict == "bound"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"recovery_error": -0.1, "lipschitz": 0.1}, "recovery_error must be finite and not negative"),
        ({"recovery_error": math.nan, "lipschitz": 0.1}, "recovery_error must be finite"),
        ({"recovery_error": 0.1, "lipschitz": math.inf}, "lipschitz must be finite"),
        ({"recovery_error": 0.1, "lipschitz": 0.1, "radii": Radii(b=-1.0)}, "radius_b must be finite"),
    ],
)
def test_numbers_that_are_none_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        planning_bound(LinearSystem(np.eye(1), np.eye(1), np.eye(1)), [[1.0]], [[1.0]], **options)

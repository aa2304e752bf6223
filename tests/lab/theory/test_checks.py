"""Every check passes on the published statement, and fails on a wrong one."""

import math

import numpy as np
import pytest
import sympy as sp

from isojepa.certificates.closed_loop import lipschitz_moments, peak_gain, regret_limit, renyi_ratio
from isojepa_lab.theory import CHECKS, LEAN_AXIOMS, THEOREMS, run_checks
from isojepa_lab.theory.check import Check, Part, at_least, check, close, holds, vanishes
from isojepa_lab.theory.converse import z
from isojepa_lab.theory.hermite import rho
from isojepa_lab.theory.planning import random_orthogonal
from isojepa_lab.theory.shape import NORMAL
from isojepa_lab.theory.uniqueness import generalized_normal

BY_NAME = {entry.name: entry for entry in CHECKS}


def stretched(size):
    return np.diag(np.linspace(0.5, 2.0, size) if size > 1 else [2.0]) @ random_orthogonal(size)


def without_feedback(model, radii, error, lipschitz):
    """The planning bound as if the encoder's error did not move the state."""
    return regret_limit(model, radii, error, 0.0)


# one wrong statement per check; the published slips are among them
WRONG = {
    "world": {"noise": 1 - rho},
    "rodrigues": {"sign": -1},
    "orthogonality": {"norm": lambda k: math.factorial(k) + (k == 7)},
    "completeness": {"norm": 2},
    "moment-generating": {"power": 3},
    "contraction": {"exponent": lambda k: k + 1},
    "mehler": {"exponent": lambda d: 2 * d},
    "mehler-kernel": {"skew": 0.999},
    "correlation": {"power": 2},
    "weighted-average": {"lowest": 0},  # a mean that is not zero
    "linearity": {"kept": 2},
    "orthogonal": {"target": ((1, 1), (1, 1))},  # unit rows, and no more
    "gaussian-maps": {"scale": 1.001},
    "loss-bound": {"factor": 1.01},
    "transition": {"stretch": sp.Integer(2)},
    "isotropy": {"fast": sp.Rational(91, 100)},
    "joint-gaussian": {"rates": (0.0,)},  # a spiral that does not turn is a rotation
    "winding": {"power": 1},
    "minimizer": {"slope": 1},
    "generator": {"drift": lambda p: p},
    "zeros": {"fewer": 1},  # k - 1 zeros, as one place of the paper has it
    "affine-score": {"curve": z**3},
    "gaussian-from-score": {"power": 3},
    "hermite-eigenfunctions": {"eigenvalue": lambda k: k * k},
    "other-laws": {"laws": (generalized_normal(2.0),)},  # the Gaussian itself
    "heavy-tails": {"score": 2},
    "discrete-time": {"power": 2},
    "laplace-autoregression": {"cubic": False},
    "loss-by-degree": {"white": True},  # 2n for 2 tr Cov(h), as the paper has it
    "gap": {"second": 3},
    "nonlinear-energy": {"factor": 0.9},
    "trace-norm": {"semidefinite": False},
    "polar": {"power": 1},
    "pythagoras": {"lowest": 2},
    "monotone": {"square": lambda u: u**3},
    "bound": {"formula": lambda epsilon, d: d + (epsilon + d) ** 2 / 4},
    "sharper-bound": {"formula": lambda epsilon, d: d + (epsilon + d) ** 2 / 5},
    "pushforward": {"matrix": stretched},
    "cost-invariance": {"stretch": 2},
    "dynamic-programming": {"shear": 1},
    "same-actions": {"matrix": stretched},
    "goal-reaching": {"matrix": stretched},
    "riccati": {"matrix": stretched},
    "finite-horizon": {"matrix": stretched},
    "performance-difference": {"future": 0},  # R alone, without what the action does to the future
    "density-ratio": {"ratio": lambda *given: 0.9 * renyi_ratio(*given)},
    "error-moments": {"formula": lambda error, lipschitz: lipschitz_moments(error, lipschitz / 2)},
    "peak-gain": {"gain": lambda *given: 0.9 * peak_gain(*given)},
    "riccati-shift": {"told": 0.01},
    "regret-bound": {"limit": without_feedback},
    "energy-limit": {"scale": 2},
    "log-determinant": {"half": 1.0},
    "am-gm": {"base": lambda u: 2 * sp.log(u)},
    "jensen": {"slope": 2},
    "energy-bound": {"dimension": 3.0},
    "equality": {"determinant": 2},
    "isometry": {"orthogonal": False},
    "mazur-ulam": {"share": sp.Rational(1, 3)},
    "spiral": {"energy": 1},
    "zero-loss": {"inverse": lambda a: a.T},
    "near-invariance": {"power": 1},
    "latent-state": {"correlated": 1},  # noise that depends on the state
    "condition-product": {"bound": max},
    "attenuation": {"power": 0},  # Equation 12 as if the first view had no noise
    "white-map": {"matrix": stretched},
    "probe-transfer": {"carry": lambda w: w},  # right for rotations only
    "pair-noise": {"power": 1},
    "pair-noise-residual": {"power": 1},
    "pair-noise-sample": {"lost": 0},
    "transition-identified": {"matrix": stretched},
    "transition-invariants": {"matrix": stretched},
    "transition-unexcited": {"dither": 0.1},  # noise on the actions tells them apart
    "transition-error": {"factor": 0.9},
    "harmonics": {"order": 2},
    "harmonics-window": {"rule": lambda rates, ratio: max(rates) < 2 * min(rates)},  # of the normal law
    "comon": {"pairs": {"normal, normal": (NORMAL, NORMAL)}},  # the blind spot
    "comon-cumulants": {"normal": 2},
    "comon-smooth": {"signed": False},
    "common-cumulant": {"climb": False},  # the search that has no sides
    "across-views": {"order": 2},  # the rate of another function than the one that was left
    "rates": {"correlations": (0.9, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)},
    "one-rate": {"correlations": (0.9, 0.8) * 4},
    "lamperti": {"power": sp.S.One},
    "zero-flux": {"power": 1.0},
    "constant-diffusion": {"spread": 2 - sp.Symbol("y", real=True) ** 4},
    "predicted": {"angle": math.pi / 4},  # straightened before the axes are named
    "fisher": {"cross": 1},
    "isotropic": {"power": 1},
    "finite-moments": {"extra": 1},  # as many points as moments and one: the matrix has no kernel
    "mean-variance": {"fourth": 1},
}


@pytest.mark.parametrize("name", [entry.name for entry in CHECKS])
def test_the_published_statement_passes(name):
    outcome = BY_NAME[name]()
    assert outcome.passed, outcome.failures
    assert outcome.precision <= outcome.tolerance
    assert outcome.exact <= (outcome.tolerance == 0)
    assert outcome.seconds > 0
    assert "{" not in outcome.covers


@pytest.mark.parametrize("name", [entry.name for entry in CHECKS])
def test_a_wrong_statement_fails_without_raising(name):
    # the first part that fails is enough; an exception would pass through here
    assert any(not part.passed for part in BY_NAME[name].run(**WRONG[name]))


def test_names_are_unique_and_in_the_order_of_the_theorems():
    assert len(BY_NAME) == len(CHECKS)
    keys = [entry.theorem for entry in CHECKS]
    assert list(dict.fromkeys(keys)) == list(THEOREMS)
    assert keys == sorted(keys, key=list(THEOREMS).index)


def test_every_axiom_of_the_lean_files_is_checked_and_no_other_is_claimed():
    claimed = [axiom for entry in CHECKS for axiom in entry.lean]
    assert set(claimed) == set(LEAN_AXIOMS)
    assert len(LEAN_AXIOMS) == 13


def test_an_unknown_name_lists_the_choices_and_the_nearest():
    with pytest.raises(ValueError, match=r"check must be one of .*mazur-ulam.* did you mean 'mehler'"):
        run_checks(["mehlr"])
    with pytest.raises(ValueError, match="takes no option 'degre'; it takes degree"):
        BY_NAME["contraction"](degre=3)


def made(*parts, error=None):
    @check("made", theorem="forward", step="none", method="symbolic; quadrature", covers="nothing")
    def function():
        """Something."""
        yield from parts
        if error:
            raise error

    assert isinstance(function, Check)
    return function()


def test_one_part_beyond_its_tolerance_fails_the_check():
    assert made(Part("a", 0.0), Part("b", 1e-9, 1e-8)).passed
    outcome = made(Part("a", 0.0), Part("b", 1e-7, 1e-8), Part("c", 0.0))
    assert not outcome.passed
    assert [part.claim for part in outcome.failures] == ["b"]
    assert (outcome.precision, outcome.tolerance) == (1e-7, 1e-8)
    assert not made(Part("not a number", math.nan, 1.0)).passed


def test_a_check_that_raises_or_states_nothing_has_failed():
    outcome = made(Part("a", 0.0), error=ArithmeticError("no value"))
    assert not outcome.passed
    assert "ArithmeticError: no value" in outcome.failures[0].claim
    assert not made().passed


def test_statements_are_decided_and_not_guessed():
    u = sp.Symbol("u")
    positive = sp.Symbol("v", positive=True)
    assert vanishes("", sp.sin(u) ** 2 + sp.cos(u) ** 2 - 1).passed
    assert not vanishes("", u, sp.S.Zero).passed
    assert not vanishes("", sp.Matrix([[0, 1e-30]])).passed
    with pytest.raises(ValueError, match="must not be empty"):
        vanishes("nothing")
    assert holds("", positive > 0).passed
    assert not holds("", u > 0).passed  # undecided
    assert not holds("", None).passed  # what sympy answers when it does not know
    assert not holds("", 1).passed
    assert close("", [1.0, 2.0], [1.0, 2.5], 0.5).passed
    assert not close("", [1.0, math.nan], [1.0, 1.0], 0.5).passed
    assert at_least("", [2.0, 3.0], 2.0).value == 2.0
    assert not at_least("", [math.nan, 3.0], 2.0).passed
    assert not at_least("", 1.9, 2.0, 0.05).passed

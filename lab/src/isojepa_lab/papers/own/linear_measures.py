"""What the study of dynamics measures in made-up linear worlds, part by part."""

import math
from collections.abc import Callable, Iterable
from statistics import fmean, median
from typing import Any

import numpy as np
import torch

from isojepa.certificates.invariants import Invariants
from isojepa.certificates.transition import certify_dynamics
from isojepa.planning import (
    FiniteLqr,
    LinearSystem,
    Lqr,
    PlanningBound,
    Radii,
    fit_system,
    planning_bound,
    simulate_regret,
)
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval
from isojepa_lab.papers.own.linear_worlds import (
    LinearWorld,
    Policy,
    Sines,
    covered,
    normal,
    random_world,
    regulated_world,
    sines,
)

KINDS = ("eigenvalues of A", "singular values of B", "Gramian", "impulse responses")
TOGETHER = "all at once"
STILL = 1e-6  # root mean square below which a combination of states and actions does not vary

# ---- intervals -------------------------------------------------------------------------------------------


def measure_intervals(seeds: Iterable[int], dim: int, actions: int, rows: int, steps: int) -> dict[str, Any]:
    """In what share of the worlds each kind of interval holds the truth, and the median of its width.

    Every other world has feedback. Where there are no intervals they do not hold it. A width is half that of
    the first interval of its kind, over its estimate.
    """
    held: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for seed in seeds:
        world = random_world(seed, dim, actions, feedback=bool(seed % 2))
        z, a = world.paths(rows // steps, steps, generator(seed, "study dynamics", dim, rows, steps))
        values = certify_dynamics(z @ world.q.T, a).invariants
        inside = dict.fromkeys(KINDS, False) if values is None else covered(values, world.a, world.b)
        for name, value in {**inside, TOGETHER: all(inside.values())}.items():
            held.setdefault(name, []).append(value)
        for kind, width in {} if values is None else _widths(values).items():
            widths[kind].append(width)
    widths_by_kind = {
        f"{kind}, width": median(members) if members else None for kind, members in widths.items()
    }
    return (
        {name: fmean(members) for name, members in held.items()}
        | widths_by_kind
        | {"worlds": len(held[TOGETHER])}
    )


def _widths(values: Invariants) -> dict[str, float]:
    ends = [values.eigenvalues[0].modulus, values.singular_values[0], values.gramian[0]]
    limits = (values.responses, values.responses_low, values.responses_high)
    ends.append(Interval(*(float(part[0, 0, 0, 0]) for part in limits)))
    return {kind: (one.high - one.low) / 2 / abs(one.estimate) for kind, one in zip(KINDS, ends, strict=True)}


# ---- the planning bound ----------------------------------------------------------------------------------


def measure_bound(seeds: Iterable[int], lipschitz: float, radius: float, recorded: int) -> dict[str, Any]:
    """The planning bound and the regret of worlds of 1 to 5 latents seen by an encoder with an error.

    Args:
        seeds: of the worlds.
        lipschitz: of the encoder's error.
        radius: how far A and B of the model are from the true ones.
        recorded: rows that the model is fitted to; 0 if it is not.

    Returns:
        A list for each score, of a value for each world.
    """
    scores: dict[str, list[Any]] = {}
    for seed in seeds:
        lqr = regulated_world(seed, 1 + seed % 5, 1 + seed % 2)
        encoder = sines(seed, lqr.system.dim, lipschitz)
        model, radii = _model(seed, lqr.system, encoder, radius, recorded)
        cost = encoder.q @ lqr.w @ encoder.q.T
        bound = planning_bound(model, cost, lqr.r, encoder.power, encoder.lipschitz, radii)
        gain = Lqr(model, cost, lqr.r).gain
        regret = simulate_regret(lqr, _by_sight(encoder, gain), steps=300, paths=100, seed=seed)
        bound_scores = {
            "seed": seed,
            "bound": bound.value,
            "regret": regret.estimate,
            "nothing": bound.nothing,
            "best": bound.best,
            "ratio": bound.value / regret.estimate if math.isfinite(bound.value) else None,
            "verdict": bound.verdict.partition(":")[0],
            "lacks": _lacks(bound),
        }
        for name, value in bound_scores.items():
            scores.setdefault(name, []).append(value)
    return scores


def _by_sight(encoder: Sines, gain: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda z: -encoder(z) @ gain.T


def _model(
    seed: int, system: LinearSystem, encoder: Sines, radius: float, recorded: int
) -> tuple[LinearSystem, Radii]:
    """What the regulator takes for the world, in the encoder's coordinates, and how far it is from it."""
    turned = system.turned(encoder.q)
    source = generator(seed, "study dynamics", "model")
    if recorded:
        z, actions = normal(source, recorded, system.dim), normal(source, recorded, system.inputs)
        kicks = normal(source, recorded, system.dim) @ np.linalg.cholesky(system.noise).T
        after = z @ system.a.T + actions @ system.b.T + kicks
        fitted = fit_system(encoder(z), actions, encoder(after))
        return fitted.system, fitted.radii(system, encoder.q)
    a, b = (normal(source, *one.shape) for one in (turned.a, turned.b))
    a, b = (radius * one / np.linalg.norm(one, 2) for one in (a, b))
    return LinearSystem(turned.a + a, turned.b + b, turned.noise), Radii(radius, radius)


def _lacks(bound: PlanningBound) -> str:
    """Which condition fails: of the "model", the "small gain", or none."""
    if not bound.lacks:
        return ""
    return "small gain" if bound.constants.get("small_gain", 0.0) >= 1 else "model"


# ---- actions that excite too little ----------------------------------------------------------------------


def _free(world: LinearWorld, deviation: float) -> Policy:
    return lambda z, source: z @ world.gain.T + deviation * normal(source, len(z), len(world.gain))


def _first_constant(world: LinearWorld) -> Policy:
    def act(z: np.ndarray, source: torch.Generator) -> np.ndarray:
        others = normal(source, len(z), len(world.gain) - 1)  # no feedback: without the first it may diverge
        return np.concatenate((np.ones((len(z), 1)), others), axis=1)

    return act


def _first_linear(world: LinearWorld) -> Policy:
    def act(z: np.ndarray, source: torch.Generator) -> np.ndarray:
        action = _free(world, 0.5)(z, source)
        action[:, 0] = z @ world.gain[0]
        return action

    return act


def _bent(world: LinearWorld) -> Policy:
    directions = world.gain / np.linalg.norm(world.gain, axis=1, keepdims=True)
    return lambda z, source: np.cos(2 * z @ directions.T)


POLICIES: dict[str, tuple[Callable[[LinearWorld], Policy], Callable[[int], int]]] = {
    # name: world -> policy, and actions -> directions that it leaves open
    "constant": (lambda world: lambda z, source: np.ones((len(z), len(world.gain))), lambda m: m),
    "one of them constant": (_first_constant, lambda m: 1),
    "of rank one": (
        lambda world: lambda z, source: normal(source, len(z), 1) * np.arange(1.0, len(world.gain) + 1),
        lambda m: m - 1,
    ),
    "linear in the state": (lambda world: _free(world, 0.0), lambda m: m),
    "one of them linear in the state": (_first_linear, lambda m: 1),
    "cosine of the state": (_bent, lambda m: 0),
    "linear and noise of 0.001": (lambda world: _free(world, 0.001), lambda m: 0),
    "linear and noise of 0.01": (lambda world: _free(world, 0.01), lambda m: 0),
    "linear and noise of 0.1": (lambda world: _free(world, 0.1), lambda m: 0),
    "linear and noise of 0.5": (lambda world: _free(world, 0.5), lambda m: 0),
}


def measure_excitation(
    seeds: Iterable[int], policy: str, dim: int, actions: int, paths: int, steps: int
) -> dict[str, Any]:
    """What the certificate says of worlds whose actions follow a policy: means over worlds.

    A world counts as `promised` if there is anything of A and B in its certificate, as `exact` if as many
    directions are named as are open and none of them varies in fresh paths. By kind of interval, the share of
    worlds in which all of them hold the truth.
    """
    make, opened = POLICIES[policy]
    scores: dict[str, list[float]] = {}
    sentence = ""
    for seed in seeds:
        world = random_world(seed, dim, actions, feedback=True)
        z, a = world.paths(paths, steps, generator(seed, "study dynamics", policy), make(world))
        said = certify_dynamics(z @ world.q.T, a)
        fresh = world.paths(paths, steps, generator(seed, "study dynamics", policy, "fresh"), make(world))
        about = [one for one in said.reasons if one.code in ("unexcited", "weak")]
        sentence = sentence or (about[0].sentence if about else "")
        named = said.excitation.unidentified
        still = all(
            np.std(fresh[0][:-1] @ world.q.T @ one.state + fresh[1] @ one.action) < STILL for one in named
        )
        outcome: dict[str, float] = {
            "named": len(named),
            "exact": len(named) == opened(actions) and still,
            "promised": said.invariants is not None or said.transition is not None,
            "linear": said.verdict == "linear",
            "weak": any(reason.code == "weak" for reason in about),
        }
        if said.invariants is not None:
            outcome |= covered(said.invariants, world.a, world.b)
        for name, value in outcome.items():
            scores.setdefault(name, []).append(float(value))
    means = {name: fmean(values) for name, values in scores.items()}
    return means | {"worlds": len(scores["named"]), "open": opened(actions), "sentence": sentence}


# ---- regulators in turned coordinates --------------------------------------------------------------------


def measure_turned(seeds: Iterable[int], dim: int, states: int, horizon: int) -> dict[str, float]:
    """The largest difference that a rotation makes to actions, and, as a share, to values and costs."""
    largest: dict[str, list[float]] = {}
    for seed in seeds:
        lqr, source = regulated_world(seed, dim), generator(seed, "study dynamics", "turned", dim)
        q = np.linalg.qr(normal(source, dim, dim))[0]
        system, w = lqr.system.turned(q), q @ lqr.w @ q.T
        turned, z, goal = Lqr(system, w, lqr.r), normal(source, states, dim), normal(source, dim)
        finite = FiniteLqr(lqr.system, lqr.w, lqr.r, horizon, goal=goal)
        other = FiniteLqr(system, w, lqr.r, horizon, goal=q @ goal)
        errors = {
            "action": np.abs(turned.act(z @ q.T) - lqr.act(z)).max(),
            "value": np.abs(turned.cost_to_go(z @ q.T) / lqr.cost_to_go(z) - 1).max(),
            "cost": abs(turned.average_cost / lqr.average_cost - 1),
            "finite_action": max(
                np.abs(other.act(t, z @ q.T) - finite.act(t, z)).max() for t in range(horizon)
            ),
            "finite_value": max(
                np.abs(other.cost_to_go(t, z @ q.T) / finite.cost_to_go(t, z) - 1).max()
                for t in range(horizon)
            ),
        }
        for name, value in errors.items():
            largest.setdefault(name, []).append(float(value))
    return {name: max(values) for name, values in largest.items()} | {"worlds": len(largest["action"])}


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "intervals": measure_intervals,
    "bound": measure_bound,
    "excitation": measure_excitation,
    "turned": measure_turned,
}

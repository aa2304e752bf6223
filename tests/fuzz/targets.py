"""Targets of fuzzed calls: objectives, tests, worlds, laws and encoders, and what their arguments take."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch

import isojepa as ij
from isojepa.objectives import gaussianity
from tests.fuzz.values import (
    NOT_NUMBERS,
    Domain,
    choice,
    count,
    flag,
    number,
    pick,
    rows,
    seed,
    tensor,
    wrong_kind,
)

RHO = number(0.5, 0.9, bad=(0, 1, -0.5, 1.5, 2))
POSITIVE = number(0.5, 1.0, bad=(0, -1.0))
SHARE = number(0.0, 0.3, 1.0, bad=(-0.1, 1.1, 7))
CONFIDENCE = number(0.9, 0.95, bad=(0, 1, -1, 2))
DIM = count(1, 4)
EVEN = Domain(pick(2, 4), count(2).bad)
H = rows()


@dataclass(frozen=True)
class Target:
    """A function, what its arguments take, and what is done with what it returns.

    Attributes:
        call: the function.
        needed: arguments that are always given.
        options: arguments that may be left out.
        use: what a user does next; its result is looked at for NaN.
        shaped: arguments whose wrong shape must be refused too.
    """

    call: Callable[..., Any]
    needed: Mapping[str, Domain] = field(default_factory=dict)
    options: Mapping[str, Domain] = field(default_factory=dict)
    use: Callable[[Any], Any] | None = None


def _apply(*shape: int) -> Callable[[Any], Any]:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    return lambda made: made(x)


def _views(made: Any) -> Any:
    return made(torch.randn(2, 12, 3, generator=torch.Generator().manual_seed(1))).total


def _drawn(made: Any) -> Any:
    return made.sample(5, ij.generator(0))


def _mixed(made: Any) -> Any:
    return made(torch.randn(5, made.dim, generator=torch.Generator().manual_seed(1)))


@cache
def world() -> Any:
    return ij.worlds.World(ij.worlds.OrnsteinUhlenbeck(2, 0.9), ij.worlds.Spiral())


def _called(test: Any) -> Callable[..., Any]:
    return lambda x: test()(x)


OBJECTIVES: dict[str, Target] = {
    "SIGReg": Target(
        ij.objectives.SIGReg,
        {},
        {
            "slices": count(none=True),
            "knots": count(2, 9),
            "t_max": POSITIVE,
            "pooled": flag(),
            "unbiased": flag(),
            "seed": seed(),
            "test": choice("epps-pulley", none=True),
            "sampler": choice("gaussian", "sobol", "orthogonal"),
            "resample": flag(),
        },
        _apply(12, 3),
    ),
    "SIGReg()(h)": Target(lambda h: ij.objectives.SIGReg(4)(h), {"h": tensor(12, 3)}),
    "LeJEPA": Target(
        ij.objectives.LeJEPA,
        {},
        {
            "weight": SHARE,
            "alignment": choice("centre", "pairwise"),
            "regularizer": Domain(pick(ij.objectives.Whitening()), pick(3, "x", [], 0.5)),
        },
        _views,
    ),
    "LeJEPA()(views)": Target(lambda views: ij.objectives.LeJEPA()(views).total, {"views": tensor(2, 12, 3)}),
    "VICReg": Target(
        ij.objectives.VICReg,
        {},
        {"weight": SHARE, "covariance_weight": number(0.0, 0.5, bad=(-1,)), "eps": POSITIVE},
        _views,
    ),
    "VICReg()(views)": Target(lambda views: ij.objectives.VICReg()(views).total, {"views": tensor(2, 12, 3)}),
    "InfoNCE": Target(
        ij.objectives.InfoNCE, {}, {"sigma": POSITIVE, "learned": flag(), "weight": SHARE}, _views
    ),
    "AnInfoNCE": Target(
        ij.objectives.AnInfoNCE,
        {"dim": Domain(pick(3), DIM.bad)},
        {"sigma": POSITIVE, "weight": SHARE},
        _views,
    ),
    "SlicedInfoNCE": Target(
        ij.objectives.SlicedInfoNCE,
        {},
        {"k": count(1, 3), "slices": count(), "sigma": POSITIVE, "weight": SHARE},
    ),
    "Whitening": Target(ij.objectives.Whitening, {}, {"pooled": flag()}, _apply(12, 3)),
    "draw_directions": Target(
        ij.objectives.draw_directions,
        {"dim": DIM, "slices": count(), "generator": wrong_kind(ij.generator(0))},
        {"sampler": choice("gaussian", "sobol", "orthogonal")},
    ),
    "matched_sigma": Target(ij.objectives.matched_sigma, {"rho": RHO}),
    "to_centre": Target(
        ij.objectives.to_centre, {"views": tensor(2, 12, 3)}, {"global_views": count(1, 2, none=True)}
    ),
    "pairwise": Target(ij.objectives.pairwise, {"views": tensor(2, 12, 3)}),
}
WORLDS: dict[str, Target] = {
    "OrnsteinUhlenbeck": Target(
        ij.worlds.OrnsteinUhlenbeck, {"dim": DIM, "rho": RHO}, {"lag": POSITIVE}, _drawn
    ),
    "NoisyCopies": Target(ij.worlds.NoisyCopies, {"dim": DIM, "rho": RHO}, {}, _drawn),
    "Copula": Target(
        ij.worlds.Copula,
        {"dim": DIM, "rho": RHO, "law": wrong_kind(ij.laws.Normal(), ij.laws.Uniform())},
        {"lag": POSITIVE},
        _drawn,
    ),
    "World": Target(
        ij.worlds.World,
        {"process": wrong_kind(ij.worlds.OrnsteinUhlenbeck(2, 0.9), also=[None])},
        {"mixing": wrong_kind(ij.worlds.Spiral(), None)},
        _drawn,
    ),
    "World.sample": Target(
        lambda n, generator: world().sample(n, generator),
        {"n": count(1, 9), "generator": wrong_kind(ij.generator(0))},
    ),
    "Spiral": Target(ij.worlds.Spiral, {}, {"rate": number(0.5, 3.0, -1.0, 0.0)}, _apply(5, 2)),
    "Sinusoid": Target(ij.worlds.Sinusoid, {}, {"frequency": number(0.5, 3.0)}, _apply(5, 2)),
    "AdditiveCoupling": Target(
        ij.worlds.AdditiveCoupling, {"dim": EVEN}, {"layers": count(1, 3), "seed": seed()}, _mixed
    ),
    "AffineCoupling": Target(
        ij.worlds.AffineCoupling,
        {"dim": EVEN},
        {"layers": count(1, 3), "hidden": count(), "seed": seed()},
        _mixed,
    ),
    "Lift": Target(
        ij.worlds.Lift,
        {"dim": count(1, 3), "out_dim": Domain(pick(4, 5), count().bad)},
        {"layers": count(1, 2), "gain": POSITIVE, "hidden": count(), "seed": seed()},
        _mixed,
    ),
    "GoalReaching": Target(
        ij.worlds.GoalReaching,
        {},
        {
            "rest": number(2.0, 30.0, bad=(0, -1)),
            "persistence": number(0.0, 0.5, bad=(1, -1)),
            "span": POSITIVE,
        },
    ),
    "Arrays": Target(
        ij.worlds.Arrays, {"views": Domain(pick([np.ones((9, 2))]), pick(3, "x", None, [], object()))}
    ),
    "Recorded": Target(
        ij.worlds.Recorded,
        {
            "states": Domain(
                lambda rng: np.random.default_rng(0).normal(size=(40, 3, 2)),
                pick("x", None, 3, [], {}, np.ones(3)),
            )
        },
        {"stride": count(1, 3)},
    ),
}
LAWS: dict[str, Target] = {
    "GeneralizedNormal": Target(
        ij.laws.GeneralizedNormal, {}, {"alpha": number(1.0, 2.0, bad=(0, -1, 0.01))}
    ),
    "StudentT": Target(ij.laws.StudentT, {}, {"df": number(3.0, 9.0, bad=(2, 1, 0, -3))}),
    "bimodal": Target(ij.laws.bimodal, {}, {"separation": number(2.0, 4.0, bad=(-1.0,))}),
    "Mixture": Target(
        ij.laws.Mixture,
        {
            "weights": Domain(
                pick((0.5, 0.5)), pick("x", None, 3, [], (1.0, "a"), (0.5, -0.5), (0.5, float("nan")))
            ),
            "means": Domain(pick((-1.0, 1.0)), pick("x", None, 3, (1.0, "a"), (1.0,), (float("inf"), 0.0))),
            "deviations": Domain(pick((1.0, 1.0)), pick("x", None, 3, (1.0, "a"), (1.0,), (0.0, 1.0))),
        },
    ),
    "Empirical": Target(
        ij.laws.Empirical,
        {
            "values": Domain(
                lambda rng: np.random.default_rng(0).normal(size=200),
                pick("x", None, 3, [], [1.0], ["a"] * 9, np.ones((3, 3)), np.full(50, np.nan), np.ones(50)),
            )
        },
    ),
}
ENCODERS: dict[str, Target] = {
    "MLP": Target(
        ij.encoders.MLP,
        {"in_dim": Domain(pick(2), DIM.bad), "out_dim": DIM},
        {"width": count(), "layers": count(2, 4), "seed": seed()},
        _apply(5, 2),
    ),
    "Coupling": Target(ij.encoders.Coupling, {"dim": EVEN}, {"layers": count(1, 3), "seed": seed()}),
    "FreeCoupling": Target(ij.encoders.FreeCoupling, {"dim": EVEN}, {"layers": count(1, 3), "seed": seed()}),
    "Headed": Target(
        ij.encoders.Headed,
        {
            "backbone": wrong_kind(torch.nn.Identity(), also=[None]),
            "head": wrong_kind(torch.nn.Identity(), also=[None]),
        },
        {},
        _apply(5, 2),
    ),
}


def _tests() -> Iterator[tuple[str, Target]]:
    options: dict[str, dict[str, Domain]] = {
        "EppsPulley": {
            "knots": count(2, 9),
            "t_max": POSITIVE,
            "unbiased": flag(),
            "quadrature": choice("trapezoid", "gauss-hermite"),
        },
        "EppsPulleyExact": {"sigma": POSITIVE, "unbiased": flag()},
        "Moments": {"order": count(1, 6)},
        "Entropy": {"window": count(1, 4, none=True)},
        "ShapiroWilk": {"weights": choice("shapiro-francia", "rahman-govindarajulu")},
        "BHEP": {"beta": POSITIVE, "standardize": flag()},
        "HenzeZirkler": {"standardize": flag()},
        "MomentGenerating": {"beta": number(2.5, 3.0, bad=(0, -1, 1)), "standardize": flag()},
        "CFMGF": {
            "gamma": number(5.0, 6.0, bad=(0, -1)),
            "points": count(2, 9, none=True),
            "standardize": flag(),
        },
        "SimplifiedCFMGF": {"gamma": number(5.0, 6.0, bad=(0, -1)), "standardize": flag()},
        "HenzeVisagie": {"gamma": number(5.0, 6.0, bad=(0, -1)), "standardize": flag()},
        "MardiaSkewness": {"standardize": flag()},
        "MardiaKurtosis": {"standardize": flag()},
    }
    for name, given in options.items():
        yield name, Target(getattr(gaussianity, name), {}, given, _apply(12, 3))
    for name, test in {**gaussianity.UNIVARIATE, **gaussianity.MULTIVARIATE}.items():
        x = tensor(12, 3)
        nan, inf = torch.ones(12, 3), torch.randn(12, 3, generator=torch.Generator().manual_seed(2))
        nan[2, 1], inf[0, 0] = float("nan"), float("inf")
        some = [
            *NOT_NUMBERS[:14],
            nan.int(),
            nan > 0,
            nan.to("meta"),
            nan,
            inf,
            torch.ones(0, 3),
            torch.ones(0),
            torch.tensor(1.0),
            nan[:, 1],
        ]
        bad = Domain(x.good, pick(*some))
        yield f"{name}(x)", Target(_called(test), {"x": bad})
    yield (
        "Sliced",
        Target(
            lambda **options: gaussianity.Sliced(gaussianity.EppsPulley(), **options),
            {},
            {
                "slices": count(),
                "sampler": choice("gaussian", "orthogonal"),
                "seed": seed(),
                "reduce": choice("mean", "max"),
                "standardize": flag(),
            },
            _apply(12, 3),
        ),
    )


MODELS: dict[str, Target] = {**OBJECTIVES, **WORLDS, **LAWS, **ENCODERS, **dict(_tests())}

"""Python calls: public functions and constructors with one or more arguments that they must refuse."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch

import isojepa as ij
from isojepa import registry
from isojepa.certificates import (
    check_assumptions,
    examine,
    measure_bound,
    measure_lags,
    measure_recovery,
    measure_spectrum,
    predict_embedding,
    predict_r2,
)
from isojepa.names import shown
from isojepa.objectives import gaussianity
from tests.fuzz.values import (
    NOT_NUMBERS,
    Case,
    Domain,
    Rng,
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


def _fitted(**arguments: Any) -> Any:
    model = arguments.pop("model", None) or ij.encoders.MLP(2, 2, width=4, layers=2)
    options = {
        "steps": 1,
        "batch": 8,
        "batch_start": None,
        "eval_samples": 16,
        "progress": False,
        **arguments,
    }
    source = options.pop("source", world())
    return ij.fit(model, source, options.pop("objective", ij.objectives.LeJEPA()), **options)


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
CERTIFICATES: dict[str, Target] = {
    "certify": Target(
        lambda h, **options: ij.certify(h, **{"checks": False, **options}),
        {"h": H},
        {
            "next": rows(none=True),
            "latents": rows(none=True),
            "rho": number(0.5, 0.9, bad=(0, 1, -0.5, 1.5), none=True),
            "drop": Domain(pick(False), flag().bad),
            "seed": seed(),
            "confidence": CONFIDENCE,
            "trajectory": Domain(pick(False), pick("no", 2, None)),
        },
    ),
    "certify with checks": Target(
        lambda h, **options: ij.certify(h, **options),
        {"h": H},
        {"confidence": CONFIDENCE, "rho": number(0.5, 0.9, bad=(0, 1, -0.5), none=True), "seed": seed()},
    ),
    "certify in a world": Target(
        lambda **options: ij.certify(
            ij.worlds.Spiral().inverse, **{"world": world(), "checks": False, "samples": 60, **options}
        ),
        {},
        {
            "samples": Domain(pick(60), count(none=True).bad),
            "seed": seed(),
            "world": wrong_kind(world(), also=[]),
            "checks": Domain(pick(False), pick("no", 2, None)),
        },
    ),
    "measure_bound": Target(
        measure_bound, {"h": rows(n=400), "h_next": rows(n=400), "rho": RHO}, {"confidence": CONFIDENCE}
    ),
    "measure_recovery": Target(measure_recovery, {"h": H, "z": H}, {"confidence": CONFIDENCE}),
    "measure_spectrum": Target(
        lambda h, **options: measure_spectrum(h, **{"degree": 2, **options}),
        {"h": rows(n=200), "latents": rows(n=200)},
        {"degree": count(2, 3), "method": choice("auto"), "seed": seed(), "confidence": CONFIDENCE},
    ),
    "measure_lags": Target(
        lambda h, **options: measure_lags(h, **{"draws": 20, **options}),
        {
            "h": Domain(
                lambda rng: np.random.default_rng(0).normal(size=(30, 20, 2)),
                pick("x", None, 3, [], np.ones(3), np.full((30, 20, 2), np.nan)),
            )
        },
        {
            "rate": number(0.1, 1.0, bad=(0, -1), none=True),
            "degree": count(1, 6),
            "seed": seed(),
            "confidence": CONFIDENCE,
        },
    ),
    "examine": Target(
        lambda h, **options: examine(h, **{"samples": 40, "draws": 9, "slices": 4, **options}),
        {"h": rows(n=60)},
        {
            "samples": count(30, 40),
            "slices": count(2, 4),
            "draws": count(5, 9),
            "sampler": choice("orthogonal"),
            "standardize": flag(),
            "seed": seed(),
            "worst": count(1, 2),
        },
    ),
    "check_assumptions": Target(
        lambda z, **options: check_assumptions(z, **{"draws": 19, "samples": 60, **options}),
        {"z": rows(n=80)},
        {
            "of": choice("latents", "embeddings"),
            "samples": count(50, 60),
            "draws": count(19, 20),
            "seed": seed(),
            "confidence": number(0.9, 0.95, bad=(0, 1, -1)),
        },
    ),
    "predict_r2": Target(predict_r2, {"law": wrong_kind(ij.laws.Normal(), ij.laws.Uniform(), also=[None])}),
    "predict_embedding": Target(
        predict_embedding,
        {
            "laws": Domain(
                pick((ij.laws.Normal(), ij.laws.Uniform())), pick(3, "x", None, (), [3], (ij.laws.Normal(),))
            ),
            "rates": Domain(
                pick((1.0, 2.0)), pick(3, "x", None, (1.0,), (1.0, -1.0), (1.0, "a"), (1.0, float("nan")))
            ),
        },
        {"dim": count(1, 2, none=True)},
    ),
}
TRAINING: dict[str, Target] = {
    "fit": Target(
        _fitted,
        {},
        {
            "steps": count(1, 2),
            "batch": count(2, 9),
            "batch_start": count(2, 9, none=True),
            "pairs": count(2, 9, none=True),
            "learning_rate": number(1e-3, 0.1, bad=(0, -1)),
            "schedule": choice("constant", "warmup-cosine", "constant-cosine"),
            "warmup": number(0.0, 0.5, bad=(-1, 1)),
            "weight_decay": number(0.0, 0.1, bad=(-1,)),
            "decay_all": flag(),
            "beta2": number(0.5, 0.9, bad=(-1, 1)),
            "clip": number(0.5, 1.0, bad=(0, -1), none=True),
            "average": number(0.5, 0.9, bad=(0, 1), none=True),
            "precision": choice("float32", "bfloat16"),
            "accumulate": Domain(pick(1), count().bad),
            "sync_norms": flag(),
            "eval_every": count(),
            "eval_samples": count(8, 20),
            "checkpoint_seconds": number(0.0, 1.0, bad=(-1,)),
            "seed": seed(),
            "model": wrong_kind(ij.encoders.MLP(2, 2, width=4, layers=2)),
            "source": wrong_kind(world(), also=[None]),
            "objective": wrong_kind(ij.objectives.LeJEPA(), also=[None]),
            "record": Domain(pick(None), pick(3, [], object(), 0.5)),
            "compile": Domain(pick(False), pick("no", 2, None)),
            "devices": Domain(pick(1), pick(0, -1, "x", 0.5, None, float("nan"))),
            "accelerator": Domain(pick("cpu"), pick("nope", 3, None, "")),
        },
    ),
    "train": Target(
        ij.train,
        {"config": Domain(lambda rng: tiny(), pick(3, "x", None, {}, [], object()))},
        {"folder": Domain(lambda rng: tempfile.mkdtemp(), pick(3, None, [], 0.5))},
    ),
    "load": Target(
        ij.load, {"record": Domain(pick("no/such/record"), pick(3, None, [], "", "a\0b", 0.5))}, {}
    ),
    "Config": Target(
        lambda **parts: ij.Config(**parts).to_dict(),
        {},
        {
            "world": wrong_kind(registry.make("world"), also=[None, {}, registry.make("encoder")]),
            "encoder": wrong_kind(registry.make("encoder"), also=[None, {}, registry.make("world")]),
            "objective": wrong_kind(registry.make("objective"), also=[None, {}]),
            "training": wrong_kind(ij.Recipe(), also=[None, {}]),
            "seed": Domain(seed().good, seed().bad),
        },
    ),
    "Recipe": Target(
        lambda **settings: ij.Recipe(**settings).checked(),
        {},
        {
            "steps": count(),
            "batch": count(2),
            "learning_rate": POSITIVE,
            "schedule": choice("constant"),
            "devices": count(),
        },
    ),
    "generator": Target(ij.generator, {"seed": seed()}),
    "registry.make": Target(
        lambda kind, name, **values: registry.make(kind, name, **values).build(
            registry.Context(2, ((2,),), 0.9, 2)
        ),
        {"kind": choice("objective"), "name": choice("lejepa", "vicreg", "whitening")},
        {"weight": SHARE},
    ),
    "registry.find": Target(registry.find, {"kind": choice("objective"), "name": choice("lejepa")}),
    "registry.components": Target(registry.components, {"kind": choice("objective", "world")}),
}


def tiny() -> Any:
    """A config of a run that takes no time."""
    recipe = ij.Recipe(steps=1, batch=8, batch_start=None, eval_samples=16, accelerator="cpu")
    return ij.Config(encoder=registry.make("encoder", width=4, layers=2), training=recipe)


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
        some = [nan, inf, torch.ones(0, 3), torch.ones(0), torch.tensor(1.0), nan[:, 1]]
        bad = Domain(
            x.good,
            lambda rng, some=some: rng.choice([*NOT_NUMBERS[:14], *some, nan.int(), nan > 0, nan.to("meta")]),
        )
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


TARGETS: dict[str, Target] = {
    **OBJECTIVES,
    **WORLDS,
    **LAWS,
    **ENCODERS,
    **CERTIFICATES,
    **TRAINING,
    **dict(_tests()),
}


def make_case(rng: Rng) -> Case:
    """A call in which one argument, sometimes two or none, must be refused."""
    name = rng.choice(list(TARGETS))
    target = TARGETS[name]
    given = dict(target.needed)
    for option in target.options:
        if rng.random() < 0.4:
            given[option] = target.options[option]
    if not given:
        option = rng.choice(list(target.options))
        given[option] = target.options[option]
    wrong = set(rng.sample(list(given), min(len(given), rng.choice((0, 1, 1, 1, 1, 1, 2)))))
    arguments = {key: (domain.bad if key in wrong else domain.good)(rng) for key, domain in given.items()}

    def run() -> Any:
        made = target.call(**arguments)
        return made if target.use is None else target.use(made)

    order = sorted(arguments, key=lambda key: key not in wrong)
    told = ", ".join(f"{'*' if key in wrong else ''}{key}={shown(arguments[key])}" for key in order)
    return Case("calls", f"{name}({told})", run, refuse=bool(wrong), numeric=not wrong)

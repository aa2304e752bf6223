"""Python calls: public functions and constructors with one or more arguments that they must refuse."""

import tempfile
from typing import Any

import numpy as np

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
from tests.fuzz.axes import UNMIXING
from tests.fuzz.targets import CONFIDENCE, MODELS, POSITIVE, RHO, SHARE, H, Target, world
from tests.fuzz.values import (
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
    wrong_kind,
)


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
    "certify_dynamics": Target(
        ij.certify_dynamics,
        {"h": rows(n=60), "a": rows(n=60), "h_next": rows(n=60)},
        {
            "confidence": CONFIDENCE,
            "tolerance": POSITIVE,
            "recovery_error": number(0.0, 0.5, bad=(-1, -0.5), none=True),
            "horizon": count(1, 6, none=True),
            "seed": seed(),
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
                pick((ij.laws.Normal(), ij.laws.Uniform())),
                pick(3, "x", None, (), [3], (ij.laws.Normal(),) * 3),
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


TARGETS: dict[str, Target] = {**MODELS, **CERTIFICATES, **UNMIXING, **TRAINING}


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

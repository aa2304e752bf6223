"""Components by name: ours keep the contracts, and those of another package are found as ours are."""

import json
import subprocess
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import isojepa as ij
from isojepa import registry, testing
from isojepa.config import SECTIONS, Config
from isojepa.registry import (
    Context,
    assemble,
    build_spec,
    components,
    find,
    flatten,
    register,
    replace_settings,
    settings,
)
from isojepa.runs import build_all
from tests.objectives.vits import DIM, pictures, vit
from tests.processes import run
from tests.reference.global_state import untouched

OURS = [(kind, name) for kind in registry.kinds() for name in components(kind)]
ALONE = {"additive-coupling": {"dim": 4}, "affine-coupling": {"dim": 4}}


def of(kind):
    return [name for other, name in OURS if other == kind]


@pytest.fixture
def scratch(monkeypatch):
    """A registry in which a test may name things."""
    monkeypatch.setattr(registry, "_specs", {kind: dict(table) for kind, table in registry._specs.items()})
    monkeypatch.setattr(registry, "_defaults", dict(registry._defaults))


@pytest.mark.parametrize(("kind", "name"), OURS)
def test_every_spec_of_the_package_passes_the_public_check(kind, name):
    spec = find(kind, name)()
    testing.check_spec(spec)
    assert registry.summary(type(spec))
    assert all(setting.help for setting in settings(type(spec), {}).values())


@pytest.mark.parametrize("mixing", of("mixing"))
@pytest.mark.parametrize("process", of("process"))
def test_every_world_of_the_package_passes_the_public_check(process, mixing):
    spec = build_spec("world", process=process, mixing=mixing, **ALONE.get(mixing, {}))
    testing.check_source(spec.build(Context()))
    testing.check_spec(spec)


@pytest.mark.parametrize("law", of("law"))
def test_worlds_of_every_law_pass_the_public_check(law):
    testing.check_source(build_spec("world", process="langevin", law=law, mixing="identity").build(Context()))


SEEN = {  # by encoders of no vectors
    "backbone": Context(shapes=((1, 28, 28), (1, 28, 28), (1, 16, 16))),
    "conv": Context(dim=2, shapes=((3, 64, 64), (3, 64, 64))),
    "world-model": Context(shapes=((5,), (5,)), actions=2),
}


@pytest.mark.parametrize("name", of("encoder"))
def test_every_encoder_of_the_package_passes_the_public_check(name):
    spec = find("encoder", name)()
    context = SEEN.get(name, replace(Config(), encoder=spec).context)
    x = torch.randn(6, *context.shapes[0], generator=ij.generator(0, "test"))
    encoder = spec.build(context)
    testing.check_encoder(encoder, x)
    assert encoder(x).shape[1] == spec.embedding(context)


@pytest.mark.parametrize(("kind", "name"), [one for one in OURS if one[0] in ("encoder", "backbone")])
def test_initial_weights_depend_on_the_seed_alone(kind, name):
    spec = find(kind, name)()
    context = SEEN.get(name, Config().context if kind == "encoder" else Context(shapes=((3, 32, 32),)))
    with untouched():
        first = spec.build(replace(context, seed=1))
    torch.manual_seed(42)
    again, other = (spec.build(replace(context, seed=seed)) for seed in (1, 2))
    weights = [torch.cat([p.flatten() for p in model.parameters()]) for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


PATCHES = {"masked": {}, "mae": {"patch": 4}, "autoencoder": {}, "ibot": {}, "dinov2": {}}  # of pictures


@pytest.mark.parametrize("name", PATCHES)
def test_every_objective_of_pictures_passes_the_public_check(name):
    shapes = ((3, 16, 16), (3, 16, 16), (3, 8, 8))
    context = Context(shapes=shapes, embedding=5, feature_dim=DIM, transformer=True)
    objective = build_spec("objective", name, **PATCHES[name]).build(context)
    testing.check_objective(objective, vit("8-5"), pictures())


GIVEN = {name: {"teacher": "a record"} for name in ("taught", "imitated")}
GIVEN["latent-dynamics"] = {"rollout": 1, "inverse": 0.1}


@pytest.mark.parametrize("name", [name for name in of("objective") if name not in (*PATCHES, "random")])
def test_every_objective_of_the_package_passes_the_public_check(name):
    spec, config = find("objective", name)(**GIVEN.get(name, {})), Config()
    encoder, world, _ = build_all(config)
    actions = torch.randn(32, 1, 2, generator=ij.generator(0, "actions"))
    batch = world.sample(32, ij.generator(0, "test"))
    batch = replace(batch, labels=torch.arange(32) % 3, actions=actions)
    context = replace(config.context, correlation=0.95, classes=3, actions=2)
    context = replace(context, opened=lambda path: torch.nn.Linear(2, 3))
    objective = spec.build(context)
    if name == "latent-dynamics":
        encoder = build_spec("encoder", "world-model", dim=2).build(context)
    testing.check_objective(objective, encoder, batch)


@pytest.mark.parametrize(("kind", "name"), OURS)
def test_the_settings_of_a_component_make_it_again(kind, name):
    spec = find(kind, name)()
    flat = flatten(spec)
    assert set(flat) == set(settings(type(spec), flat))
    assert assemble(type(spec), flat) == spec == build_spec(kind, name, **flat) == replace_settings(spec)


def test_a_choice_brings_the_settings_of_what_is_chosen():
    plain = settings(find("world"), {})
    assert plain["process"].default == "ornstein-uhlenbeck"
    assert "law" not in plain
    other = settings(find("world"), {"process": "langevin", "law": "student-t"})
    assert other["law"].choice == "law"
    assert other["shape"].default == find("law", "student-t")().shape
    world = build_spec("world", process="langevin", law="student-t", shape=7.0, rho=0.5, mixing="identity")
    assert (world.process.law.shape, world.process.rho) == (7.0, 0.5)
    assert flatten(world)["shape"] == 7.0


def test_a_changed_spec_differs_in_what_was_asked_for_alone():
    world = build_spec("world", process="langevin", law="student-t", shape=7.0)
    other = replace_settings(world, mixing="identity", rho=0.4)
    before, after = flatten(world), flatten(other)
    assert {key for key in after if before.get(key) != after[key]} == {"mixing", "rho"}
    assert before.keys() - after.keys() == {"mixing_rate"}
    assert world == build_spec("world", process="langevin", law="student-t", shape=7.0)
    with pytest.raises(ValueError, match="setting 'mixing_rate' of world"):
        replace_settings(world, mixing="identity", mixing_rate=2.0)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("objective", "lejep"), {}, "objective must be one of .*got 'lejep'; did you mean 'lejepa'?"),
        (("objectiv", "lejepa"), {}, "kind of component must be one of .*did you mean 'objective'"),
        (("objective", "infonce"), {"slices": 3}, "setting 'slices' of objective 'infonce' must be one of"),
        (("world",), {"law": "normal"}, "setting 'law' of world 'synthetic' must be one of"),
        (("world",), {"process": "langevn"}, "process must be one of .*did you mean 'langevin'"),
    ],
)
def test_what_nobody_registered_is_refused_with_the_nearest_name(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        build_spec(*arguments, **options)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in registry.LAB for name in registry.LAB[kind]]
)
def test_a_component_of_isojepa_lab_says_without_it_what_to_install(scratch, kind, name):
    registry._specs[kind].pop(name)  # fails where the lab does not register it
    with pytest.raises(ValueError, match=f"^{kind} '{name}' is part of isojepa-lab, .*pip install .*-e lab"):
        find(kind, name)


@dataclass(frozen=True)
class Nothing:
    """Builds nothing."""

    weight: float = 1.0
    """A number."""

    def build(self, context):
        return None


def test_a_plain_frozen_dataclass_is_a_component(scratch):
    cls = register("objective", "nothing")(dataclass(frozen=True)(type("Plain", (Nothing,), {})))
    assert find("objective", "nothing") is cls
    assert cls().resolve(Context()) == cls()
    assert flatten(cls()) == {"weight": 1.0}
    assert cls().operations(10, 2) > 0
    assert settings(cls, {})["weight"].help == "A number."


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (
            dataclass(type("Loose", (), {"build": print})),
            "must be a frozen dataclass with `build`, got Loose",
        ),
        (type("Bare", (), {"build": print}), "must be a frozen dataclass with `build`, got Bare"),
        (dataclass(frozen=True)(type("Idle", (), {})), "must be a frozen dataclass with `build`, got Idle"),
    ],
)
def test_what_is_no_frozen_dataclass_with_build_is_refused(scratch, cls, message):
    with pytest.raises(ValueError, match=message):
        register("objective", "nothing")(cls)


def test_a_name_that_is_taken_is_refused_naming_both(scratch):
    with pytest.raises(
        ValueError, match=r"'lejepa' is taken by isojepa.*LeJEPASpec, got .*test_registry.*too"
    ):
        register("objective", "lejepa")(Nothing)
    assert find("objective", "lejepa").__name__ == "LeJEPASpec"


@pytest.mark.parametrize("word", ["name", "kind", "resolve"])
def test_a_setting_may_not_have_a_name_that_means_something_else(scratch, word):
    cls = dataclass(frozen=True)(type("Odd", (Nothing,), {"__annotations__": {word: str}, word: "x"}))
    with pytest.raises(ValueError, match=f"must not be called .*got '{word}'"):
        register("objective", "odd")(cls)


# -- a package of somebody else's

COMPONENTS = '''
"""Components of another package: plain frozen dataclasses."""
from dataclasses import dataclass

import torch

import isojepa as ij
from isojepa.objectives import Loss
from isojepa.registry import register
from isojepa.data.batch import Batch
from isojepa.data.source import Facts


class RingSource:
    facts = Facts(shapes=((2,), (2,)))

    def __init__(self, noise):
        self.noise = noise

    def sample(self, n, generator):
        angle = 6.28 * torch.rand(n, 1, generator=generator)
        ring = torch.cat((angle.cos(), angle.sin()), 1)
        views = [ring + self.noise * torch.randn(n, 2, generator=generator) for _ in range(2)]
        return Batch(tuple(views))


@register("world", "ring")
@dataclass(frozen=True)
class Ring:
    """Points on a ring."""

    noise: float = 0.1
    """Spread of the views around their point."""

    def build(self, context):
        return RingSource(self.noise)


@register("encoder", "scaled")
@dataclass(frozen=True)
class Scaled:
    """A linear map."""

    dim: int = 2
    """Embedding dimension."""
    biased: bool = True
    """Add a bias."""

    def build(self, context):
        with ij.seeds.borrowed(context.seed, "scaled"):
            return torch.nn.Linear(context.observed, self.dim, bias=self.biased)


class Variance(torch.nn.Module):
    def __init__(self, pull):
        super().__init__()
        self.pull = pull

    def forward(self, views, generator=None):
        spread = (views.std(1) - 1).square().mean()
        apart = (views[0] - views[1]).square().mean()
        return Loss(self.pull * apart + spread, {"apart": apart})


@register("objective", "variance")
@dataclass(frozen=True)
class VarianceSpec:
    """Unit variance."""

    pull: float = 0.5
    """Weight of the alignment."""

    def build(self, context):
        return Variance(self.pull)
'''
TWICE = '''
from dataclasses import dataclass
from isojepa.registry import register


@register("objective", "lejepa")
@dataclass(frozen=True)
class Mine:
    """Not ours."""

    def build(self, context):
        return None
'''
DRIVER = '''
"""Run commands in one process and print what each left."""
import contextlib, io, json, sys, warnings
from isojepa.cli import main

answers = []
for command in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(command)
        except SystemExit as ended:
            code = ended.code
    answers.append([code, out.getvalue(), err.getvalue()])
sys.stdout.write("ANSWERS" + json.dumps(answers))
'''
TINY = [
    *("--training.steps", "8", "--training.batch", "16", "--training.eval-every", "4"),
    *("--training.eval-samples", "32", "--training.batch-start", "None"),
]
THEIRS = ["--world.name", "ring", "--encoder.name", "scaled", "--objective.name", "variance"]


def write_package(site: Path, name: str, code: str) -> None:
    """A package that is installed as far as Python can tell: importable, with its metadata beside it."""
    (site / name).mkdir(parents=True)
    (site / name / "__init__.py").write_text(code)
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[isojepa.components]\n{name} = {name}\n")


def run_with(site: Path, code: str, *arguments: str) -> subprocess.CompletedProcess:
    path = Path(ij.__file__).parents[1]
    environment = {
        "PYTHONPATH": f"{site}:{path}",
        "PATH": "/usr/bin:/bin",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
    }
    return run(code, *arguments, env=environment, path=[site])


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """What commands say in a process that has three other packages: one good, one broken, one greedy."""
    folder = tmp_path_factory.mktemp("outside")
    write_package(folder / "site", "rings", COMPONENTS)
    write_package(folder / "site", "broken", "raise RuntimeError('no compiler')")
    write_package(folder / "site", "greedy", TWICE)
    (folder / "run.yaml").write_text(
        "world: {name: ring, noise: 0.3}\nencoder: {name: scaled, biased: false}\nobjective: variance\n"
        "training: {steps: 8, batch: 16, batch_start: null, eval_every: 4, eval_samples: 32}\n"
    )
    commands = {
        "list": ["list", "--json"],
        "flags": [
            *("train", *THEIRS, *TINY, "--world.noise", "0.2", "--objective.pull", "0.9"),
            *("--encoder.biased", "False", "--json", "--record", str(folder / "flags")),
        ],
        "yaml": ["train", "--config", str(folder / "run.yaml"), "--json", "--record", str(folder / "yaml")],
        "override": [
            *("train", "--config", str(folder / "run.yaml"), "--world.noise", "0.4"),
            *("--json", "--record", str(folder / "override")),
        ],
        "lejepa": ["train", *TINY, "--objective.slices", "4", "--json", "--record", str(folder / "lejepa")],
    }
    done = run_with(folder / "site", DRIVER, json.dumps(list(commands.values())))
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.partition("ANSWERS")[2])
    said = {
        name: SimpleNamespace(code=a[0], out=a[1], err=a[2])
        for name, a in zip(commands, answers, strict=True)
    }
    return SimpleNamespace(folder=folder, said=said, err=done.stderr + "".join(a[2] for a in answers))


def test_components_of_another_package_are_listed(outside):
    listed = json.loads(outside.said["list"].out)
    assert listed["worlds"]["ring"] == "Points on a ring."
    assert listed["encoders"]["scaled"] == "A linear map."
    assert listed["objectives"]["variance"] == "Unit variance."


def test_a_run_of_another_package_keeps_its_settings(outside):
    assert outside.said["flags"].code == 0, outside.said["flags"].err
    config = ij.RunDirectory.open(outside.folder / "flags").config
    assert config["world"] == {"name": "ring", "noise": 0.2}
    assert config["encoder"] == {"name": "scaled", "dim": 2, "biased": False}
    assert config["objective"] == {"name": "variance", "pull": 0.9}


def test_a_config_file_names_components_of_another_package(outside):
    assert outside.said["yaml"].code == outside.said["override"].code == 0, outside.said["yaml"].err
    configs = [ij.RunDirectory.open(outside.folder / name).config for name in ("yaml", "override")]
    assert [config["world"]["noise"] for config in configs] == [0.3, 0.4]
    assert [config["encoder"]["biased"] for config in configs] == [False, False]
    assert configs[0]["objective"] == {"name": "variance", "pull": 0.5}


def test_a_package_that_cannot_be_imported_is_a_warning_and_not_the_end(outside):
    assert "the components of broken could not be loaded: RuntimeError: no compiler" in outside.err
    assert outside.said["list"].code == 0


def test_a_package_that_takes_a_name_is_told_and_the_name_stays_ours(outside):
    assert (
        "objective 'lejepa' is taken by isojepa.objectives.lejepa.LeJEPASpec, got greedy.Mine too"
        in outside.err
    )
    assert outside.said["lejepa"].code == 0
    assert ij.RunDirectory.open(outside.folder / "lejepa").config["objective"]["slices"] == 4


LOAD = """
import sys, torch, warnings
import isojepa as ij
from isojepa.config import Config, config_from
from isojepa.registry import build_spec
from isojepa_lab.sweep.estimate import count_cost
from isojepa_lab.sweep.measure import cost_key
record = ij.RunDirectory.open(sys.argv[1])
model = ij.load(record)
from safetensors.torch import load_file
kept = load_file(f"{sys.argv[1]}/encoder.safetensors")
assert isinstance(model, torch.nn.Linear) and torch.equal(model.weight, kept["weight"]) and model.bias is None
config = config_from(record.config)
assert config.to_dict() == record.config
assert count_cost(config).step > 0
assert cost_key(config)["objective"] == {"name": "variance", "pull": 0.9}
run = ij.train(config, record=sys.argv[1])
assert run.status == "done" and len(run.metrics) == 2
from isojepa import testing
testing.check_source(build_spec("world", "ring").build(None))
testing.check_spec(build_spec("objective", "variance"))
"""


def test_a_record_of_another_package_loads_and_has_a_price(outside):
    done = run_with(outside.folder / "site", LOAD, str(outside.folder / "flags"))
    assert done.returncode == 0, done.stderr


# -- flags


def test_every_setting_of_every_component_is_a_flag():
    from isojepa.cli.flags import parse
    from isojepa.cli.train import Train

    for section, kind in SECTIONS.items():
        for name in components(kind):
            spec = getattr(parse(Train, "isojepa train", [f"--{section}.name", name]).settings, section)
            assert spec == find(kind, name)()
    assert {item.name for item in fields(Config)} == {*SECTIONS, "training", "seed"}

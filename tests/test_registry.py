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
from isojepa.config import SECTIONS, Config, config_from
from isojepa.registry import (
    Context,
    assemble,
    changed,
    chosen,
    components,
    find,
    flatten,
    make,
    register,
    settings,
)
from isojepa.runs import build_all
from isojepa_lab.sweep.estimate import count_cost
from isojepa_lab.sweep.measure import cost_key
from tests.objectives.vits import DIM, pictures, vit
from tests.processes import run

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
    spec = make("world", process=process, mixing=mixing, **ALONE.get(mixing, {}))
    testing.check_source(spec.build(Context()))
    testing.check_spec(spec)


@pytest.mark.parametrize("law", of("law"))
def test_worlds_of_every_law_pass_the_public_check(law):
    testing.check_source(make("world", process="langevin", law=law, mixing="identity").build(Context()))


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


PATCHES = {"masked": {}, "mae": {"patch": 4}, "autoencoder": {}, "ibot": {}, "dinov2": {}}  # of pictures


@pytest.mark.parametrize("name", PATCHES)
def test_every_objective_of_pictures_passes_the_public_check(name):
    shapes = ((3, 16, 16), (3, 16, 16), (3, 8, 8))
    context = Context(shapes=shapes, embedding=5, feature_dim=DIM, transformer=True)
    objective = make("objective", name, **PATCHES[name]).build(context)
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
        encoder = make("encoder", "world-model", dim=2).build(context)
    testing.check_objective(objective, encoder, batch)


@pytest.mark.parametrize(("kind", "name"), OURS)
def test_the_settings_of_a_component_make_it_again(kind, name):
    spec = find(kind, name)()
    flat = flatten(spec)
    assert set(flat) == set(settings(type(spec), flat))
    assert assemble(type(spec), flat) == spec == make(kind, name, **flat) == changed(spec)


def test_a_choice_brings_the_settings_of_what_is_chosen():
    plain = settings(find("world"), {})
    assert plain["process"].default == "ornstein-uhlenbeck"
    assert "law" not in plain
    other = settings(find("world"), {"process": "langevin", "law": "student-t"})
    assert other["law"].choice == "law"
    assert other["shape"].default == find("law", "student-t")().shape
    world = make("world", process="langevin", law="student-t", shape=7.0, rho=0.5, mixing="identity")
    assert (world.process.law.shape, world.process.rho) == (7.0, 0.5)
    assert flatten(world)["shape"] == 7.0


def test_a_changed_spec_differs_in_what_was_asked_for_alone():
    world = make("world", process="langevin", law="student-t", shape=7.0)
    other = changed(world, mixing="identity", rho=0.4)
    before, after = flatten(world), flatten(other)
    assert {key for key in after if before.get(key) != after[key]} == {"mixing", "rho"}
    assert before.keys() - after.keys() == {"mixing_rate"}
    assert world == make("world", process="langevin", law="student-t", shape=7.0)
    with pytest.raises(ValueError, match="setting 'mixing_rate' of world"):
        changed(world, mixing="identity", mixing_rate=2.0)


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
        make(*arguments, **options)


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


def test_a_class_has_one_name(scratch):
    cls = register("objective", "nothing")(dataclass(frozen=True)(type("Once", (Nothing,), {})))
    with pytest.raises(ValueError, match="is objective 'nothing' already, got the name 'nil' too"):
        register("objective", "nil")(cls)


@pytest.mark.parametrize("word", ["name", "kind", "resolve"])
def test_a_setting_may_not_have_a_name_that_means_something_else(scratch, word):
    cls = dataclass(frozen=True)(type("Odd", (Nothing,), {"__annotations__": {word: str}, word: "x"}))
    with pytest.raises(ValueError, match=f"must not be called .*got '{word}'"):
        register("objective", "odd")(cls)


def test_a_setting_without_a_default_is_refused(scratch):
    @dataclass(frozen=True)
    class Needy:
        """Needs a number."""

        number: int

        def build(self, context):
            return None

    with pytest.raises(ValueError, match="must have a default, got none for 'number'"):
        register("objective", "needy")(Needy)


def test_two_settings_with_one_key_are_refused(scratch):
    process = find("process")

    @register("world", "double")
    @dataclass(frozen=True)
    class Double:
        """Two processes, whose settings have the same keys."""

        one: object = chosen("process", process)
        other: object = chosen("process", process)

        def build(self, context):
            return None

    with pytest.raises(ValueError, match="Double has two settings 'dim'"):
        settings(Double, {})
    with pytest.raises(ValueError, match="Double has two settings 'dim'"):
        config_from({"world": {"name": "double"}})


def test_a_cost_estimate_reads_the_spec(scratch):
    @register("objective", "dear")
    @dataclass(frozen=True)
    class Dear:
        """Costs what it says."""

        price: float = 1.0
        """Operations."""
        words: str = "a"
        """Says nothing."""

        def build(self, context):
            return ij.objectives.LeJEPA()

        def operations(self, batch, dim):
            return self.price

    cheap, dear = (count_cost(Config(objective=Dear(price))).step for price in (1.0, 1.5e10))
    assert dear - cheap == pytest.approx(1.0, rel=1e-3)
    keys = [
        cost_key(Config(objective=spec, seed=seed))
        for spec, seed in ((Dear(), 0), (Dear(), 1), (Dear(2.0), 0))
    ]
    assert keys[0] == keys[1] != keys[2]


# -- a package of somebody else's

COMPONENTS = '''
"""Components of another package: plain frozen dataclasses."""
from dataclasses import dataclass

import torch

import isojepa as ij
from isojepa.objectives import Loss
from isojepa.registry import register
from isojepa.worlds.batch import Batch
from isojepa.worlds.source import Facts


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
        "help": ["train", *THEIRS, "--help"],
        "flags": [
            *("train", *THEIRS, *TINY, "--world.noise", "0.2", "--objective.pull", "0.9"),
            *("--encoder.biased", "False", "--json", "--record", str(folder / "flags")),
        ],
        "yaml": ["train", "--config", str(folder / "run.yaml"), "--json", "--record", str(folder / "yaml")],
        "override": [
            *("train", "--config", str(folder / "run.yaml"), "--world.noise", "0.4"),
            *("--json", "--record", str(folder / "override")),
        ],
        "near": ["train", "--objective.name", "varianc", "--json"],
        "stray": ["train", *THEIRS, "--objective.slices", "3"],
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


def test_components_of_another_package_have_flags_with_help(outside):
    text = " ".join(outside.said["help"].out.split())
    assert "--world.noise FLOAT Spread of the views around their point. (default: 0.1)" in text
    assert "--objective.pull FLOAT" in text
    assert "--encoder.biased {True,False} Add a bias. (default: True)" in text
    assert "--objective.slices" not in text


def test_a_run_of_another_package_keeps_its_settings(outside):
    assert outside.said["flags"].code == 0, outside.said["flags"].err
    config = ij.Record.open(outside.folder / "flags").config
    assert config["world"] == {"name": "ring", "noise": 0.2}
    assert config["encoder"] == {"name": "scaled", "dim": 2, "biased": False}
    assert config["objective"] == {"name": "variance", "pull": 0.9}


def test_a_config_file_names_components_of_another_package(outside):
    assert outside.said["yaml"].code == outside.said["override"].code == 0, outside.said["yaml"].err
    configs = [ij.Record.open(outside.folder / name).config for name in ("yaml", "override")]
    assert [config["world"]["noise"] for config in configs] == [0.3, 0.4]
    assert [config["encoder"]["biased"] for config in configs] == [False, False]
    assert configs[0]["objective"] == {"name": "variance", "pull": 0.5}


def test_errors_know_the_components_of_another_package(outside):
    assert outside.said["near"].code == 2
    assert "did you mean 'variance'?" in outside.said["near"].err
    assert outside.said["stray"].code == 2
    assert "objective 'variance' takes no option 'slices'" in outside.said["stray"].err
    assert "must be one of name, pull" in outside.said["stray"].err


def test_a_package_that_cannot_be_imported_is_a_warning_and_not_the_end(outside):
    assert "the components of broken could not be loaded: RuntimeError: no compiler" in outside.err
    assert outside.said["list"].code == 0


def test_a_package_that_takes_a_name_is_told_and_the_name_stays_ours(outside):
    assert (
        "objective 'lejepa' is taken by isojepa.objectives.lejepa.LeJEPASpec, got greedy.Mine too"
        in outside.err
    )
    assert outside.said["lejepa"].code == 0
    assert ij.Record.open(outside.folder / "lejepa").config["objective"]["slices"] == 4


LOAD = """
import sys, torch, warnings
import isojepa as ij
from isojepa.config import Config, config_from
from isojepa.registry import make
from isojepa_lab.sweep.estimate import count_cost
from isojepa_lab.sweep.measure import cost_key
record = ij.Record.open(sys.argv[1])
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
testing.check_source(make("world", "ring").build(None))
testing.check_spec(make("objective", "variance"))
"""


def test_a_record_of_another_package_loads_and_has_a_price(outside):
    done = run_with(outside.folder / "site", LOAD, str(outside.folder / "flags"))
    assert done.returncode == 0, done.stderr


def test_a_record_of_a_package_that_is_not_here_says_what_is_missing(outside):
    worlds = "episodes, images, observer, reacher, reacher-episodes, reacher-isotropised, synthetic, together"
    words = f"world must be one of {worlds}, got 'ring'"
    with pytest.raises(ValueError, match=words):
        ij.load(outside.folder / "flags")


# -- flags


def helped(capsys, *arguments):
    from isojepa.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["train", *arguments, "--help"])
    assert ended.value.code in (0, None)
    return capsys.readouterr().out


def test_help_shows_the_options_of_what_is_chosen_and_no_others(capsys):
    infonce = helped(capsys, "--objective.name", "infonce")
    assert "--objective.sigma" in infonce
    assert "--objective.slices" not in infonce
    lejepa = helped(capsys, "--objective.name=lejepa")
    assert "--objective.slices" in lejepa
    assert "--objective.sigma" not in lejepa
    assert "--world.shape" in helped(capsys, "--world.process", "langevin", "--world.law", "student-t")


@pytest.mark.parametrize("value", [True, False])
def test_a_setting_that_is_true_or_false_is_said_so(value):
    from isojepa.cli.commands import Train
    from isojepa.cli.flags import parse

    flags = [*("--objective.resample", str(value)), f"--objective.pooled={value}"]
    objective = parse(Train, "isojepa train", flags).settings.objective
    assert (objective.resample, objective.pooled) == (value, value)


def test_every_setting_of_every_component_is_a_flag():
    from isojepa.cli.commands import Train
    from isojepa.cli.flags import parse

    for section, kind in SECTIONS.items():
        for name in components(kind):
            spec = getattr(parse(Train, "isojepa train", [f"--{section}.name", name]).settings, section)
            assert spec == find(kind, name)()
    assert {item.name for item in fields(Config)} == {*SECTIONS, "training", "seed"}

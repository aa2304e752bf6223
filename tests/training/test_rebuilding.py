"""Records that load: the model comes back, and a record can do no more than name a class of modules."""

import json
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import isojepa as ij
from isojepa import registry
from isojepa.config import Config
from isojepa.encoders import MLP, Coupling, FreeCoupling, Headed, ScaledCoupling
from isojepa.encoders.mlp import MLPSpec
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.runs import load_run
from isojepa.training import Recipe
from isojepa.training.checkpoints import save_tensors
from isojepa.training.loop import fit
from isojepa.training.rebuilding import Bounded, rebuild, recipe_of
from tests.processes import run
from tests.training.crash import weights

SHORT = {"steps": 4, "batch": 16, "batch_start": None, "eval_every": 4, "eval_samples": 32, "progress": False}


@pytest.fixture(autouse=True)
def seeded():
    """Modules of torch draw their weights from the global stream: some draws collapse in four steps."""
    torch.manual_seed(0)


class Kept(nn.Module):
    """A module that keeps its arguments, as most do."""

    def __init__(self, inner: int, scale: float = 1.0, word: str = "tanh") -> None:
        super().__init__()
        self.inner, self.scale, self.word = inner, scale, word
        self.layers = nn.Sequential(nn.Linear(2, inner), nn.Linear(inner, 2))

    def forward(self, x):
        return self.scale * self.layers(x)


class Forgetful(nn.Module):
    """A module that does not."""

    def __init__(self, inner: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, inner), nn.Linear(inner, 2))

    def forward(self, x):
        return self.layers(x)


def objective():
    return ij.objectives.LeJEPA(0.02, regularizer=ij.objectives.SIGReg(slices=8))


def trained(spiral, path, model):
    return fit(model, spiral, objective(), record=path, **SHORT)


def test_a_run_of_a_config_loads(tmp_path):
    recipe = Recipe(**{key: value for key, value in SHORT.items() if key != "progress"})
    config = Config(encoder=MLPSpec(width=8, layers=2), objective=LeJEPASpec(slices=8), training=recipe)
    run = ij.train(config, tmp_path, progress=False)
    model = ij.load(run.record.path)
    assert isinstance(model, MLP)
    assert not model.training
    assert torch.equal(weights(model), weights(run.encoder))
    assert torch.equal(weights(ij.load(run.record)), weights(model))
    with pytest.raises(ValueError, match="has one model, 'encoder', got name 'left'"):
        ij.load(run.record, name="left")


@pytest.mark.parametrize(
    "make",
    [
        lambda: MLP(2, 2, width=7, layers=3, seed=5),
        lambda: MLP(2, 3),
        lambda: Coupling(2, layers=3, seed=1),
        lambda: FreeCoupling(2, layers=2),
        lambda: ScaledCoupling(2, layers=2, hidden=5),
        lambda: nn.Linear(2, 2),
        lambda: Headed(MLP(2, 4, width=7, layers=2), nn.Linear(4, 2)),
    ],
    ids=["mlp", "defaults", "coupling", "free coupling", "scaled coupling", "torch's", "headed"],
)
def test_a_run_of_an_importable_class_loads(spiral, tmp_path, make):
    model = make()
    trained(spiral, tmp_path / "run", model)
    state = torch.get_rng_state()
    loaded = ij.load(tmp_path / "run")
    assert type(loaded) is type(model)
    x = spiral.sample(8, ij.generator(0, "test")).views[0]
    assert torch.equal(loaded(x), model(x))
    assert not loaded.training
    assert torch.equal(torch.get_rng_state(), state)


def test_a_class_of_ones_own_loads_where_its_module_is_trusted_alone(spiral, tmp_path):
    for name, model in {"alone": Kept(5, scale=0.5), "inner": Headed(Kept(5), nn.Linear(2, 2))}.items():
        trained(spiral, tmp_path / name, model)
        for trust in ((), ("tests.train", "training", f"{HERE}.inner"), ("unittest",)):
            with pytest.raises(ValueError, match=rf"load with trust=\['{HERE}'\], or --trust {HERE}"):
                ij.load(tmp_path / name, trust=trust)
        for trust in ((HERE,), ["tests"], HERE):
            assert torch.equal(weights(ij.load(tmp_path / name, trust=trust)), weights(model))


def test_a_class_of_a_package_that_registers_components_needs_no_trust(monkeypatch):
    monkeypatch.setattr(registry, "_specs", {kind: dict(table) for kind, table in registry._specs.items()})
    recipe = recipe_of(Kept(5))
    with pytest.raises(ValueError, match="whose import may run any code"):
        rebuild(recipe)

    @registry.register("encoder", "kept")
    @dataclass(frozen=True)
    class KeptSpec:
        """A component of another package."""

        def build(self, context):
            return Kept(5)

    assert isinstance(rebuild(recipe), Kept)


def test_each_of_several_models_loads_by_its_name(spiral, tmp_path):
    class Both(ij.objectives.Objective):
        def forward(self, models, batch, generator):
            h = torch.stack([model.embed(batch.views[0]) for model in models.values()])
            return objective()(h, generator)

    models = {"left": MLP(2, 2, width=4, layers=2), "right": MLP(2, 2, width=6, layers=2)}
    fit(models, spiral, Both(), record=tmp_path / "run", **SHORT)
    for name, model in models.items():
        assert torch.equal(weights(ij.load(tmp_path / "run", name=name)), weights(model))
    assert torch.equal(weights(ij.load(tmp_path / "run")), weights(models["left"]))  # the first
    with pytest.raises(ValueError, match="must be one of left, right, got 'encoder'"):
        ij.load(tmp_path / "run", name="encoder")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Forgetful(4),
        lambda: nn.Sequential(nn.Linear(2, 2)),
        lambda: Headed(Forgetful(4), nn.Linear(2, 2)),
    ],
    ids=["forgetful", "sequence", "headed"],
)
def test_what_nobody_can_make_again_is_handed_in(spiral, tmp_path, make):
    model = make()
    trained(spiral, tmp_path / "run", model)
    with pytest.raises(
        ValueError, match=r"'encoder' cannot be made again .*hand a module in, load\(record, mod"
    ):
        ij.load(tmp_path / "run")
    given = make()
    loaded = ij.load(tmp_path / "run", given)
    assert loaded is given
    assert torch.equal(weights(loaded), weights(model))


SCRIPT = """
import sys
import torch
import isojepa as ij

class Mine(torch.nn.Module):
    def __init__(self, inner: int = 3):
        super().__init__()
        self.inner = inner
        self.map = torch.nn.Linear(2, 2)
    def forward(self, x):
        return self.map(x)

world = ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.95))
run = ij.fit(Mine(), world, ij.objectives.LeJEPA(0.02), record=sys.argv[1], steps=2, batch=16,
             batch_start=None, eval_samples=32, progress=False)
try:
    ij.load(sys.argv[1])
except ValueError as error:
    print(error)
else:
    sys.exit("a class of a script was made again")
assert torch.equal(ij.load(sys.argv[1], Mine()).map.weight, run.encoder.map.weight)
"""


def test_a_class_of_a_script_is_handed_in(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = run(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "hand a module in" in done.stdout


called = []


def record_call(**arguments):
    """What a hostile record would like to be called."""
    called.append(arguments)
    return nn.Linear(2, 2)


class NotAModule:
    def __init__(self, **arguments):
        called.append(arguments)


class Watched(nn.Module):
    def __init__(self, value=None, other=None):
        called.append(value)
        super().__init__()


HERE = __name__
HOSTILE = [
    (
        {"class": "subprocess:Popen", "arguments": {"args": "touch pwned"}},
        "got module 'subprocess', whose imp",
    ),
    (
        {"class": "os:system", "arguments": {"command": "touch pwned"}},
        "got module 'os', whose import may run",
    ),
    ({"class": "builtins:eval", "arguments": {}}, "got module 'builtins', whose import may run"),
    ({"class": "planted:Planted", "arguments": {}}, r"load with trust=\['planted'\], or --trust planted"),
    ({"class": "torch.hub:load", "arguments": {}}, "got module 'torch.hub', whose import may run"),
    ({"class": "torch.nnx:Linear", "arguments": {}}, "got module 'torch.nnx', whose import may run"),
    ({"class": "torch.nn.modules.os:system", "arguments": {}}, "cannot be imported"),
    ({"class": "torch.nn.modules.module:torch.jit.ScriptModule", "arguments": {}}, "must be a torch module"),
    ({"class": "isojepa.runs:importlib.import_module", "arguments": {}}, "cannot be imported"),
    (
        {"class": "isojepa.training.rebuilding:importlib.import_module", "arguments": {}},
        "must be a torch mod",
    ),
    ({"class": "torch.nn.modules.linear:Tensor", "arguments": {}}, "must be a torch module"),
    ({"class": f"{HERE}:record_call", "arguments": {}}, "must be a torch module"),
    ({"class": f"{HERE}:NotAModule", "arguments": {}}, "must be a torch module"),
    (
        {"class": f"{HERE}:Watched", "arguments": {"value": {"class": "os:system"}}},
        "got module 'os', whose import",
    ),
    ({"class": f"{HERE}:Watched", "arguments": {"value": [1, 2]}}, "must be plain values"),
    ({"class": f"{HERE}:Watched", "arguments": [1]}, "must be plain values"),
    ({"class": f"{HERE}:Watched"}, "must be plain values"),
    ({"class": "no_such_module:Class", "arguments": {}}, "got module 'no_such_module', whose import"),
    ({"class": "torch.nn:NoSuchClass", "arguments": {}}, "cannot be imported"),
    ({"class": "torch.nn", "arguments": {}}, "cannot be imported"),
    ({"class": "", "arguments": {}}, "got module '', whose import"),
    ({"class": ".relative:Class", "arguments": {}}, "got module '.relative', whose import"),
    ({"class": None, "arguments": {}}, "got module 'None', whose import"),
    ({}, "got module 'None', whose import"),
    ("torch.nn:Linear", "must be a class and its arguments"),
    (None, "must be a class and its arguments"),
    ([], "must be a class and its arguments"),
]


@pytest.mark.parametrize(("recipe", "message"), HOSTILE, ids=[str(recipe)[:50] for recipe, _ in HOSTILE])
def test_a_hostile_record_is_refused_and_nothing_is_called(spiral, tmp_path, monkeypatch, recipe, message):
    monkeypatch.chdir(tmp_path)
    trained(spiral, tmp_path / "run", MLP(2, 2, width=4, layers=2))
    path = tmp_path / "run/config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "models": {"encoder": recipe}}))
    for folder in (tmp_path, tmp_path / "run"):  # beside the record, and in it
        (folder / "planted.py").write_text("from pathlib import Path\n\nPath('pwned').touch()\n")
    monkeypatch.syspath_prepend(tmp_path)
    called.clear()
    with pytest.raises(ValueError, match=message):
        ij.load(tmp_path / "run", trust=[HERE])
    assert called == []
    assert not (tmp_path / "pwned").exists()


LARGE = [  # 160 GB of weights, and layers without end
    {"class": "torch.nn:Linear", "arguments": {"in_features": 200_000, "out_features": 200_000}},
    {"class": "isojepa.encoders:MLP", "arguments": {"in_dim": 2, "out_dim": 2, "width": 200_000}},
    {
        "class": "isojepa.encoders:MLP",
        "arguments": {"in_dim": 2, "out_dim": 2, "width": 1000, "layers": 1 << 20},
    },
    {"class": "torch.nn:Embedding", "arguments": {"num_embeddings": 1 << 30, "embedding_dim": 64}},
    {
        "class": "isojepa.encoders:MLP",
        "arguments": {"in_dim": 1, "out_dim": 1, "width": 1, "layers": 1 << 30},
    },
    {"class": "isojepa.encoders:Coupling", "arguments": {"dim": 2, "layers": 1 << 30}},
]


@pytest.mark.parametrize("recipe", LARGE, ids=[str(recipe)[10:40] for recipe in LARGE])
def test_a_model_that_its_weights_do_not_fill_is_refused_before_it_is_made(spiral, tmp_path, recipe):
    trained(spiral, tmp_path / "run", MLP(2, 2, width=4, layers=2))
    path = tmp_path / "run/config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "models": {"encoder": recipe}}))
    with pytest.raises(
        ValueError, match=r"a model must fit its weights, .*encoder.safetensors of .* bytes, got"
    ):
        ij.load(tmp_path / "run")
    tensors = MLP(2, 2, width=4, layers=2).state_dict()
    save_tensors(tmp_path / "model.safetensors", tensors, {"isojepa": json.dumps({"model": recipe})})
    with pytest.raises(
        ValueError, match=r"a model must fit its weights, .*model.safetensors of .* bytes, got"
    ):
        ij.load(tmp_path / "model.safetensors")


@pytest.mark.parametrize("load", [ij.load, load_run])
def test_a_config_that_its_weights_do_not_fill_is_refused_before_it_is_built(tmp_path, load):
    recipe = Recipe(**{key: value for key, value in SHORT.items() if key != "progress"})
    config = Config(encoder=MLPSpec(width=8, layers=2), objective=LeJEPASpec(slices=8), training=recipe)
    ij.train(config, record=tmp_path / "run", progress=False)
    path = tmp_path / "run/config.json"
    told = json.loads(path.read_text())
    told["encoder"] |= {"width": 200_000, "layers": 3}
    path.write_text(json.dumps(told))
    with pytest.raises(ValueError, match=r"a model must fit its weights, .*encoder.safetensors of"):
        load(tmp_path / "run")


SIDE = 1 << 14  # a square of it is more than `_EXTRA_NUMBERS`
FACTORIES = {
    "empty": lambda: torch.empty(SIDE, SIDE),
    "zeros": lambda: torch.zeros((SIDE, SIDE)),
    "full": lambda: torch.full((SIDE, SIDE), 1.0),
    "randn": lambda: torch.randn(SIDE, SIDE),
    "randint": lambda: torch.randint(2, (SIDE, SIDE)),
    "normal": lambda: torch.normal(0.0, 1.0, (SIDE, SIDE)),
    "eye": lambda: torch.eye(SIDE),
    "arange": lambda: torch.arange(SIDE * SIDE),
    "new": lambda: torch.zeros(1).new_empty(SIDE, SIDE),
    "like": lambda: torch.zeros_like(torch.zeros(1).expand(SIDE, SIDE)),
    "skip_init": lambda: nn.utils.skip_init(nn.Linear, SIDE, SIDE),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_whatever_makes_a_large_tensor_is_bounded(tmp_path, name):
    with Bounded(tmp_path / "none"), pytest.raises(ValueError, match="got one that makes a tensor of 2"):
        FACTORIES[name]()

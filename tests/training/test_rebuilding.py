"""Records that load: the model comes back, and a record can do no more than name a class of modules."""

import json

import pytest
import torch
from torch import nn

import isojepa as ij
from isojepa.config import Config
from isojepa.encoders import MLP, Coupling, FreeCoupling, Headed, ScaledCoupling
from isojepa.encoders.mlp import MLPSpec
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.training import Recipe
from isojepa.training.loop import fit
from isojepa.training.rebuilding import rebuild, recipe_of
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
        lambda: Kept(5, scale=0.5),
        lambda: nn.Linear(2, 2),
        lambda: Headed(MLP(2, 4, width=7, layers=2), nn.Linear(4, 2)),
    ],
    ids=["mlp", "defaults", "coupling", "free coupling", "scaled coupling", "one's own", "torch's", "headed"],
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


def test_a_module_of_other_shapes_is_refused(spiral, tmp_path):
    trained(spiral, tmp_path / "run", Forgetful(4))
    with pytest.raises(ValueError, match=r"(?s)does not fit the encoder of its config: .*size mismatch"):
        ij.load(tmp_path / "run", Forgetful(5))


def test_a_run_that_is_not_finished_does_not_load(spiral, tmp_path):
    trained(spiral, tmp_path / "run", MLP(2, 2, width=4, layers=2))
    (tmp_path / "run/result.json").unlink()
    with pytest.raises(ValueError, match="is not finished"):
        ij.load(tmp_path / "run")
    with pytest.raises(ValueError, match="is not a record"):
        ij.load(tmp_path / "nothing")


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

world = ij.worlds.World(ij.worlds.OrnsteinUhlenbeck(2, 0.95))
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
    ({"class": "subprocess:Popen", "arguments": {"args": "touch pwned"}}, "must be a torch module"),
    ({"class": "os:system", "arguments": {"command": "touch pwned"}}, "must be a torch module"),
    ({"class": "builtins:eval", "arguments": {}}, "must be a torch module"),
    ({"class": f"{HERE}:record_call", "arguments": {}}, "must be a torch module"),
    ({"class": f"{HERE}:NotAModule", "arguments": {}}, "must be a torch module"),
    ({"class": f"{HERE}:Watched", "arguments": {"value": {"class": "os:system"}}}, "must be a torch module"),
    ({"class": f"{HERE}:Watched", "arguments": {"value": [1, 2]}}, "must be plain values"),
    ({"class": f"{HERE}:Watched", "arguments": [1]}, "must be plain values"),
    ({"class": f"{HERE}:Watched"}, "must be plain values"),
    ({"class": "no_such_module:Class", "arguments": {}}, "cannot be imported"),
    ({"class": "torch.nn:NoSuchClass", "arguments": {}}, "cannot be imported"),
    ({"class": "torch.nn", "arguments": {}}, "cannot be imported"),
    ({"class": "", "arguments": {}}, "cannot be imported"),
    ({"class": ".relative:Class", "arguments": {}}, "cannot be imported"),
    ({"class": None, "arguments": {}}, "cannot be imported"),
    ({}, "cannot be imported"),
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
    called.clear()
    with pytest.raises(ValueError, match=message):
        ij.load(tmp_path / "run")
    assert called == []
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("models", [None, [], ["encoder"], "encoder", 3, {}])
def test_a_damaged_list_of_models_is_told(spiral, tmp_path, models):
    trained(spiral, tmp_path / "run", MLP(2, 2, width=4, layers=2))
    path = tmp_path / "run/config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "models": models}))
    with pytest.raises(ValueError, match="cannot be made again from its class"):
        ij.load(tmp_path / "run")


def test_a_description_is_noted_only_where_it_makes_the_same_shapes():
    assert recipe_of(Kept(5, 0.5)) == {
        "class": f"{HERE}:Kept",
        "arguments": {"inner": 5, "scale": 0.5, "word": "tanh"},
    }
    assert recipe_of(Forgetful(3)) == {"class": f"{HERE}:Forgetful", "arguments": {}}  # its default
    assert recipe_of(Forgetful(4)) is None
    with pytest.raises(ValueError, match="does not take its arguments"):
        rebuild({"class": "torch.nn:Linear", "arguments": {"wings": 2}})

"""The commands as a person and as a program would use them."""

import json

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa.cli import main
from isojepa.cli.main import commands
from tests import processes

SMALL = [
    *("--encoder.width", "16", "--encoder.layers", "3", "--objective.slices", "4"),
    *("--training.steps", "60", "--training.batch", "64", "--training.eval-every", "20"),
    *("--training.eval-samples", "256"),
]


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def answer(capsys, *arguments):
    """Run a command that must print JSON, and return it."""
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def refuse(capsys, *arguments):
    """Run a command that must fail with one line on standard error."""
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert len(err.strip().splitlines()) == 1
    return err


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "run"
    assert main(["train", *SMALL, "--record", str(path)]) == 0
    return path


def test_train_writes_a_record_named_by_its_settings_and_finds_it_again(capsys, tmp_path):
    first = run(capsys, "train", *SMALL, "--json", "--out", tmp_path)
    again = run(capsys, "train", *SMALL, "--json", "--out", tmp_path)
    other = run(capsys, "train", *SMALL, "--json", "--out", tmp_path, "--seed", "5")
    paths = [json.loads(out)["record"] for _, out, _ in (first, again, other)]
    assert first[:2] == again[:2]
    assert paths[0] == paths[1] != paths[2]
    assert json.loads(first[1])["r2"] == ij.RunDirectory.open(paths[0]).metrics[-1]["r2"]


def test_certify_a_record_gives_what_python_gives(capsys, record):
    code, out, _ = run(capsys, "certify", record, "--samples", "3000", "--json")
    from isojepa.runs import load_run

    encoder, world, _ = load_run(record)
    expected = ij.certify(encoder, world, samples=3000)
    assert code == 0
    assert json.loads(out)["recovery"]["r2_h_to_z"]["estimate"] == expected.recovery.r2_h_to_z.estimate
    assert json.loads(out)["verdict"] == expected.verdict


def test_report_writes_the_page_and_the_picture(capsys, record, tmp_path):
    (tmp_path / "picture.png").write_text("mine")
    code, out, _ = run(capsys, "report", record, "--out", tmp_path / "page.html")
    assert code == 0
    assert "<html" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    assert "page.png" in out
    assert (tmp_path / "picture.png").read_text() == "mine"  # which nobody asked to be replaced


@pytest.mark.parametrize(
    "objective", ["lejepa", "whitening", "vicreg", "infonce", "aninfonce", "sliced-infonce"]
)
def test_every_listed_objective_trains_from_flags(capsys, tmp_path, objective):
    flags = [flag for flag in SMALL if flag not in ("--objective.slices", "4")]
    extra = ["--objective.k", "2"] if objective == "sliced-infonce" else []
    code, out, _ = run(
        capsys, "train", *flags, *extra, "--objective.name", objective, "--json", "--out", tmp_path
    )
    assert code == 0
    assert json.loads(out)["r2"] > -0.1


def test_a_config_file_sets_the_defaults_and_flags_override_it(capsys, tmp_path):
    (tmp_path / "run.yaml").write_text(
        "world: {mixing: parabola, rho: [0.9, 0.8]}\n"
        "encoder: {width: 16, layers: 3}\n"
        "objective: {slices: 4, weight: 1e-3}\n"
        "training: {steps: 40, batch: 64, learning_rate: 1e-3, eval_every: 20, eval_samples: 128}\n"
    )
    code, out, err = run(
        capsys,
        "train",
        "--config",
        tmp_path / "run.yaml",
        "--training.steps",
        "20",
        "--json",
        "--out",
        tmp_path,
    )
    assert code == 0, err
    config = ij.RunDirectory.open(json.loads(out)["record"]).config
    assert config["world"]["mixing"] == "parabola"
    assert config["world"]["rho"] == [0.9, 0.8]
    assert config["objective"]["weight"] == 1e-3
    assert config["training"]["steps"] == 20
    (tmp_path / "run.json").write_text(json.dumps(config))
    again = run(capsys, "train", f"--config={tmp_path / 'run.json'}", "--json", "--out", tmp_path)
    assert json.loads(again[1])["record"] == json.loads(out)["record"]


def test_a_config_tells_all_its_problems_at_once(capsys, tmp_path):
    (tmp_path / "run.yaml").write_text("world: {rh: 0.9}\ntraining: {steps: many}\nobjectiv: {}\n")
    err = refuse(capsys, "train", "--config", tmp_path / "run.yaml")
    assert "world.rh" in err
    assert "did you mean 'rho'?" in err
    assert "training.steps must be int, got 'many'" in err
    assert "did you mean 'objective'?" in err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--world.mixing", "spirl"], "did you mean 'spiral'?"),
        (["--world.mixing", "additive-coupling", "--world.dim", "3"], "dim must be even"),
        (["--objective.name", "vicreg", "--objective.slices", "3"], "'vicreg' takes no option 'slices'"),
        (
            ["--encoder.name", "mpl"],
            "encoder must be one of backbone, conv, coupling, free-coupling, mlp, residual-mlp, world-model, "
            "got 'mpl'; did you mean 'mlp'?",
        ),
        (["--batch-size", "8"], "there is no option --batch-size; did you mean --training.batch?"),
        (["--lr=0.1"], "did you mean --training.learning-rate?"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml does not exist"),
    ],
)
def test_bad_settings_are_one_clear_line(capsys, tmp_path, flags, message):
    assert message in refuse(capsys, "train", *flags, "--out", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_bad_sources_are_one_clear_line(capsys, tmp_path, record):
    assert "does not exist" in refuse(capsys, "certify", tmp_path / "none.npy")
    assert "is not a record" in refuse(capsys, "certify", tmp_path)
    assert "is not a record" in refuse(capsys, "report", tmp_path)
    assert "brings its own" in refuse(capsys, "certify", record, "--rho", "0.9")
    np.save(tmp_path / "nan.npy", np.full((9, 2), np.nan))
    assert "NaN or Inf in 9 of 9" in refuse(capsys, "certify", tmp_path / "nan.npy")


def test_a_collapsed_run_exits_1_and_keeps_its_record(capsys, tmp_path):
    flags = [*SMALL, "--objective.weight", "0", "--world.mixing", "identity"]
    code, out, _ = run(
        capsys,
        *("train", *flags, "--training.steps", "600", "--training.learning-rate", "0.02"),
        *("--training.schedule", "constant", "--record", tmp_path / "run"),
    )
    assert code == 1
    assert "The run collapsed: the embedding collapsed" in out
    assert ij.RunDirectory.open(tmp_path / "run").result["status"] == "collapsed"


def test_the_demo_replaces_an_earlier_demo_and_nothing_else(capsys, tmp_path, record):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/result.json").write_text("{}")
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    assert "is not a record" in refuse(capsys, "demo", "--out", tmp_path / "mine")
    assert (tmp_path / "mine/thesis.txt").exists()
    before = (record / "result.json").read_text()
    assert "holds the record of another run" in refuse(capsys, "demo", "--out", record)
    assert (record / "result.json").read_text() == before


def test_what_torch_refuses_is_one_line_too(capsys, tmp_path):
    wide = ["--encoder.width", "1000000"]  # a square matrix of it has 4 terabytes
    assert "memory" in refuse(capsys, "train", *SMALL, *wide, "--out", tmp_path)


@pytest.mark.parametrize("command", ["", *commands()])
def test_help_teaches_every_command(capsys, command):
    try:
        code = main([*command.split(), "--help"])
    except SystemExit as end:  # by which the parser ends when it has told
        code = end.code
    assert code == 0
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    assert len(told.out.splitlines()) > 5


def test_importing_the_package_prints_nothing_and_touches_no_global_state():
    code = (
        "import torch, warnings; a = torch.random.get_rng_state(); t = torch.get_num_threads();"
        "warnings.simplefilter('error'); import isojepa;"
        "assert torch.equal(a, torch.random.get_rng_state()) and t == torch.get_num_threads();"
        "import sys; assert 'numba' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    done = processes.run(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""


def test_the_version_is_printed(capsys):
    assert run(capsys, "--version")[1].strip() == f"isojepa {ij.__version__}"


def test_training_in_a_thread_works_without_signal_handlers(tmp_path, spiral):
    from concurrent.futures import ThreadPoolExecutor

    def train():
        encoder = ij.encoders.MLP(2, 2, width=8, layers=2)
        return ij.fit(encoder, spiral, ij.objectives.LeJEPA(), steps=4, batch=8, eval_samples=64)

    with ThreadPoolExecutor(1) as pool:
        assert torch.isfinite(torch.tensor(pool.submit(train).result().r2))

"""What the contract holds, and how it was made: `python -m tests.contract.stored` writes what is not there.

An entry is made once. Whoever changes one deletes it, makes it again and says why in CHANGELOG.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn

import isojepa as ij
from isojepa.cli.main import main

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
RESULTS = ROOT / "docs/results"

# Run directories --------------------------------------------------------------------------------------------

STOP, STEPS = 4, 8  # the stored run was interrupted after the first; it ends at the second
TRAINING = {
    "steps": STEPS,
    "batch": 8,
    "batch-start": "None",
    "eval-every": 4,
    "eval-samples": 8,
    "checkpoint-seconds": 0.0,
}
COMMANDS = {
    "plane": ["train", "--encoder.width", "8", "--encoder.layers", "2"],
    "images": [
        *(
            "pretrain",
            "images.npz",
            "--backbone",
            "convnet-4-8",
            "--encoder.projector",
            "linear-4",
            "--no-probe",
        ),
        *("--world.global-size", "16", "--world.local-views", "0", "--objective.slices", "8"),
    ],
}
RUNS = (*COMMANDS, "python")


class Interrupted(BaseException):
    """Raised in a training step; nothing of the package handles it."""


@contextlib.contextmanager
def within(folder: Path) -> Iterator[None]:
    """Make a folder with images the working directory: run directories hold relative paths."""
    before = Path.cwd()
    os.chdir(folder)
    np.savez("images.npz", images=(255 * np.random.default_rng(0).random((16, 16, 16))).astype(np.uint8))
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def interrupted_after(steps: int) -> Iterator[None]:
    """Interrupt training in the step after these."""
    calls = [0]

    def count(module: nn.Module, inputs: object) -> None:
        calls[0] += isinstance(module, ij.objectives.Objective)
        if calls[0] > steps:
            raise Interrupted

    handle = nn.modules.module.register_module_forward_pre_hook(count)
    with contextlib.suppress(Interrupted):
        yield
    handle.remove()


def train(name: str, folder: Path) -> None:
    """Make or resume the run directory `folder`/run."""
    with within(folder):
        if name == "python":
            settings = {key.replace("-", "_"): value for key, value in TRAINING.items()}
            ij.fit(
                ij.encoders.MLP(2, 2, width=8, layers=2),
                ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.9)),
                ij.objectives.LeJEPA(0.1, ij.objectives.SIGReg(slices=8)),
                record="run",
                progress=False,
                **settings | {"batch_start": None},
            )
        else:
            flags = [word for key, value in TRAINING.items() for word in (f"--training.{key}", str(value))]
            assert main([*COMMANDS[name], "--record", "run", *flags]) == 0


def embeddings(name: str, folder: Path, unfinished: bool = False) -> Tensor:
    """What the model of a run directory returns for four fixed observations."""
    with within(folder):
        model = ij.load("run", unfinished=unfinished)
    shape = (4, 1, 16, 16) if name == "images" else (4, 2)
    with torch.no_grad():
        h: Tensor = model(torch.randn(shape, generator=ij.generator(0, "contract")))
    return h


# Certificates -----------------------------------------------------------------------------------------------


ROWS = 8_000


def cases() -> dict[str, dict]:
    """Twelve embeddings with what is known of them: keyword arguments of `ij.certify`, `h` first."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(ROWS, 2))
    z_next = 0.9 * z + np.sqrt(1 - 0.81) * rng.normal(size=z.shape)
    path = np.zeros((ROWS, 2))
    for step, noise in enumerate(np.sqrt(1 - 0.81) * rng.normal(size=path.shape)):
        path[step] = 0.9 * path[step - 1] + noise
    turn, stretch = np.array([[0.6, -0.8], [0.8, 0.6]]), np.array([[2.0, 0.0], [0.5, 1.0]])

    def swirl(x: np.ndarray) -> np.ndarray:
        angle = np.linalg.norm(x, axis=1)
        cos, sin = np.cos(angle), np.sin(angle)
        return np.stack((cos * x[:, 0] - sin * x[:, 1], sin * x[:, 0] + cos * x[:, 1]), 1)

    def pair(function, **known) -> dict:
        return {"h": function(z), "next": function(z_next), **known}

    return {
        "rotation, rho by design": pair(lambda x: x @ turn, rho=0.9, rho_from="design"),
        "rotation, rho given": pair(lambda x: x @ turn, rho=0.9),
        "rotation, rho unknown": pair(lambda x: x @ turn),
        "rotation, with latents": pair(lambda x: x @ turn, rho=0.9, latents=z, latents_next=z_next),
        "linear map": pair(lambda x: x @ stretch, rho=0.9, rho_from="design"),
        "swirl": pair(swirl, rho=0.9, rho_from="design"),
        "swirl, its own rho": pair(swirl, rho=0.6, rho_from="design"),
        "squares": pair(lambda x: x**2 - 1, rho=0.9, rho_from="design"),
        "one latent": pair(lambda x: np.stack((x[:, 0], x[:, 0] ** 2 - 1), 1), rho=0.9, latents=z),
        "constant direction": pair(lambda x: x * [1.0, 1e-9], rho=0.9),
        "path": {"h": path, "trajectory": True, "rate": -np.log(0.9), "rho_from": "rate"},
        "few rows": {"h": z[:40], "next": z_next[:40], "rho": 0.9, "rho_from": "design"},
    }


def judged(case: dict) -> dict:
    """Grade and estimates of a certificate."""
    case = dict(case)
    found = ij.certify(case.pop("h"), **case).to_dict()
    flat = {}

    def collect(value: object, place: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                collect(inner, f"{place}.{key}" if place else key)
        elif place.endswith("estimate") and isinstance(value, float):
            flat[place] = value

    collect(found, "")
    return {"grade": found["grade"], "estimates": flat}


def _store_run(name: str, folder: Path, kept: Path) -> None:
    with interrupted_after(STOP):
        train(name, folder)
    shutil.copytree(folder / "run", kept / "run", ignore=shutil.ignore_patterns(".lock"))
    stopped = embeddings(name, folder, unfinished=True)
    shutil.rmtree(folder / "run")
    train(name, folder)
    np.savez(kept / "embeddings.npz", stopped=stopped.numpy(), done=embeddings(name, folder).numpy())


def _store() -> None:
    if not (HERE / "row_ids.json").exists():
        from tests.contract.test_rows import row_ids

        lines = (f"{json.dumps(study)}: {json.dumps(ids)}" for study, ids in row_ids().items())
        (HERE / "row_ids.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    torch.set_num_threads(1)
    for name in RUNS:
        if not (HERE / "stored_runs" / name).exists():
            with TemporaryDirectory() as folder:
                _store_run(name, Path(folder), HERE / "stored_runs" / name)
    if not (HERE / "certificates.json").exists():
        text = json.dumps({name: judged(case) for name, case in cases().items()}, indent=1)
        (HERE / "certificates.json").write_text(text + "\n")


if __name__ == "__main__":
    _store()

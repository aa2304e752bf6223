"""From an environment to a certified plan, on three environments: the rows of docs/world_models.md.

    python examples/world_models.py                      # one seed of the point mass, a few minutes
    python examples/world_models.py --environments all --seeds 1 2 3 --out docs/results/world_models.json

Settings were chosen with episodes of seed 0, which is no row. Every row names its settings, versions and the
commit; rows that the file already has are kept, so that the same command resumes.
"""

import argparse
import json
import subprocess
from pathlib import Path

import torch

import isojepa as ij

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = {  # name -> (environment, episodes to collect, planners; mpc needs continuous actions)
    "point mass": ("tests/own_environment.py:make", 400, ("cem", "mpc")),
    "Pendulum-v1": ("Pendulum-v1", 400, ("cem", "mpc")),
    "CartPole-v1": ("CartPole-v1", 800, ("cem",)),
}
TRAIN, TASKS = 0.7, 100


def measure(name: str, seed: int, planners: tuple[str, ...] = ()) -> dict:
    """Collect, train, certify and evaluate once, with the planners of the environment or with others."""
    environment, count, usual = ENVIRONMENTS[name]
    train, test = ij.collect(environment, policy="random", episodes=count, seed=seed).split(TRAIN, seed=seed)
    run = ij.fit(ij.WorldModel(dim=8), train, ij.objectives.LatentDynamics(), seed=seed, evaluations=())
    certificate = ij.certify(run, test, seed=seed)
    result = ij.evaluate(run, environment, test, planners or usual, tolerance=0.2, count=TASKS, seed=seed)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "environment": name,
        "seed": seed,
        "episodes": count,
        "train": TRAIN,
        "model": "WorldModel(dim=8)",
        "objective": "LatentDynamics()",
        "seconds": round(run.seconds, 1),
        "commit": commit.stdout.strip(),
        "versions": {"isojepa": ij.__version__, "torch": torch.__version__},
        "verdict": certificate.verdict,
        "trusted": certificate.trusted,
        "errors": [round(error.estimate, 6) for error in certificate.errors],
        **{key: value for key, value in result.to_dict().items() if key != "notes"},
    }


def main() -> None:
    """Measure what is asked for and not there yet."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--environments", nargs="+", default=["point mass"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = list(ENVIRONMENTS) if options.environments == ["all"] else options.environments
    rows = json.loads(options.out.read_text()) if options.out and options.out.exists() else []
    for name in names:
        for seed in options.seeds:
            if any((row["environment"], row["seed"]) == (name, seed) for row in rows):
                continue
            rows.append(measure(name, seed))
            line = {row["controller"]: f"{row['success']:.2f}" for row in rows[-1]["rows"]}
            print(f"{name}, seed {seed}: {line}", flush=True)
            if options.out:
                options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

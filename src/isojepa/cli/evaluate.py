"""The command `evaluate`: closed-loop planning with world models in a Gymnasium environment."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from isojepa import runs
from isojepa.cli.printing import out, print_json, progress_bar
from isojepa.planning.evaluation import evaluate

# flags that are no options of `isojepa.evaluate`
_COMMAND_FLAGS = ("runs", "env", "tasks", "planner", "trust", "json", "out")


@dataclass
class Evaluate:
    """Plan with a world model; success beside random and oracle.

    Starts and goals are rows of held-out episodes, --offset apart; starts that are already solved are left
    out. Success is a distance of at most --tolerance to the goal, between standardized observations, or what
    the environment reports. Every table ends with its protocol and a hash of it.

    isojepa evaluate runs/RUN --env Pendulum-v1 --planner cem mpc --tolerance 0.2

    isojepa evaluate runs/a runs/b --env env.py:make --tasks test.h5 --horizon 25 --execute 5 --json
    """

    runs: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN")]]
    """Run directories of world models."""
    env: str
    """Gymnasium id, or file.py:function."""
    tasks: Path | None = None
    """File of held-out episodes, as `isojepa collect` writes it; by default those that the run held out."""
    planner: tuple[str, ...] = ("cem",)
    """cem, icem, mppi, gradient, mpc."""
    tolerance: float | None = None
    """Distance to the goal that counts as success, in standard deviations of the observations."""
    offset: int | None = None
    """Steps between start and goal in the episode; 25 by default, shortened for short episodes."""
    budget: int | None = None
    """Steps of a task; twice the offset by default."""
    hold: int = 0
    """Last steps at which success must hold; 0 if any step will do."""
    count: int = 50
    """Tasks."""
    horizon: int = 15
    """Planning horizon, in steps of the model."""
    execute: int = 5
    """Actions carried out before the next plan."""
    seed: int = 0
    """Random seed of tasks and controllers."""
    oracle: bool = True
    """Also plan in the simulator itself."""
    allow_train: bool = False
    """Accept episodes that the model was trained on."""
    trust: tuple[str, ...] = ()
    """Python modules that may be imported to build a model."""
    json: bool = False
    """Print the result as JSON."""
    out: Path | None = None
    """Folder for evaluation-HASH.json; by default the run directory, if it is one."""

    def run(self) -> int:
        names = [path.name for path in self.runs]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"RUN must be one or more run directories of different names, got {names}")
        loaded = [runs.load_world_model(path, self.tasks, trust=self.trust) for path in self.runs]
        models = {name: run for name, (run, _) in zip(names, loaded, strict=True)}
        options = {name: value for name, value in vars(self).items() if name not in _COMMAND_FLAGS}
        with progress_bar("evaluating") as progress:
            model, tasks = models if len(models) > 1 else loaded[0][0], loaded[0][1]
            result = evaluate(model, self.env, tasks, self.planner, progress=progress, **options)
        if self.json:
            print_json(result.to_dict())
        else:
            out.print(str(result))
        if self.out is not None or len(self.runs) == 1:
            path = result.save(self.out or self.runs[0])
            if not self.json:
                out.print(f"Wrote {path}")
        return 0

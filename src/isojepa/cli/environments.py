"""Commands of Gymnasium environments: `collect` episodes, `evaluate` closed-loop planning."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from isojepa import runs
from isojepa.cli.printing import out, print_json, progress_bar
from isojepa.data.environments import collect
from isojepa.data.episodes import Episodes
from isojepa.data.files import FORMS, write_episodes
from isojepa.data.images.cache import bar
from isojepa.importing import program
from isojepa.planning.evaluation import evaluate
from isojepa.terminal import shell_quote
from isojepa.validation import choose


@dataclass
class Collect:
    """Collect episodes of a Gymnasium environment under a policy.

    ENVIRONMENT is a Gymnasium id, reacher (the two-joint arm of dm_control), or file.py:function, a function
    or class of your own that returns a gymnasium.Env. Interrupted collections resume with the same command.

    isojepa collect Pendulum-v1 --policy random --episodes 300 --out pendulum.h5

    isojepa collect my_env.py:make --policy my_policy.py:act --steps 100 --workers 4 --out mine.h5

    isojepa collect CartPole-v1 --policy ppo:cartpole.zip --trust --out cartpole.h5

    isojepa collect reacher --policy expert --out reacher.h5
    """

    environment: tyro.conf.Positional[str]
    """Gymnasium id, reacher, or file.py:function."""
    out: Path
    """HDF5 file to write; an existing file is replaced when the new one is complete."""
    policy: str = "random"
    """random, expert (the environment's method expert(observation)), file.py:function (of an observation),
    or ALGO:file.zip of stable-baselines3."""
    episodes: int = 100
    """Number of episodes."""
    steps: int | None = None
    """Actions after which an episode is cut; by default it ends by termination or truncation."""
    seed: int = 0
    """Seed of resets and policies."""
    workers: int = 1
    """Processes."""
    trust: bool = False
    """Load files of stable-baselines3, which are pickles and can run any code."""
    form: str = "stable-worldmodel"
    """File format: stable-worldmodel or robomimic; only the first resumes."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        choose("form", self.form, FORMS)
        file = self.out if self.form == "stable-worldmodel" else None
        options = {name: value for name, value in vars(self).items() if name not in ("out", "form", "json")}
        with bar("collecting", self.episodes) as progress:
            episodes = collect(**options, out=file, progress=progress)
        if file is None:
            write_episodes(self.out, episodes, self.form)
        print_written(self.out, episodes, self.json)
        if not self.json:
            command = f"{program('isojepa')} train --data {shell_quote(self.out)} --objective latent-dynamics"
            out.print(f"Or: {command}")
        return 0


def print_written(path: Path, episodes: Episodes, as_json: bool) -> None:
    """Print what a file of episodes holds, and the command that audits it."""
    names, count = episodes.names, len(episodes)
    if as_json:
        print_json({"out": str(path), "episodes": count, "steps": episodes.steps, "columns": list(names)})
        return
    out.print(f"Wrote {path}: {count:,} episodes, {episodes.steps:,} steps; {', '.join(names)}")
    out.print(f"Next: {program('isojepa')} audit {shell_quote(path)}")


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

"""The command `collect`: episodes of any Gymnasium environment, in a file."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from isojepa.cli.printing import out, print_json
from isojepa.importing import program
from isojepa.names import choose
from isojepa.terminal import typed
from isojepa.worlds.collecting import collect
from isojepa.worlds.episodes import Episodes, write_episodes
from isojepa.worlds.episodes.files import FORMS
from isojepa.worlds.images.cache import bar


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
            command = f"{program('isojepa')} train --data {typed(self.out)} --objective latent-dynamics"
            out.print(f"Or: {command}")
        return 0


def print_written(path: Path, episodes: Episodes, as_json: bool) -> None:
    """Print what a file of episodes holds, and the command that audits it."""
    names, count = episodes.names, len(episodes)
    if as_json:
        print_json({"out": str(path), "episodes": count, "steps": episodes.steps, "columns": list(names)})
        return
    out.print(f"Wrote {path}: {count:,} episodes, {episodes.steps:,} steps; {', '.join(names)}")
    out.print(f"Next: {program('isojepa')} audit {typed(path)}")

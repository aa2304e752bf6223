"""The command `episodes`: make episodes of a simulated arm, or write a file of episodes in another format."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from isojepa.cli.collect import print_written
from isojepa.importing import program
from isojepa.names import choose
from isojepa.terminal import typed
from isojepa.worlds.episodes import read_episodes, write_episodes
from isojepa.worlds.images.cache import bar


@dataclass
class MakeEpisodes:
    """Collect episodes of the simulated arm, or convert a file.

    SOURCE is reacher, the two-joint arm of dm_control, or a file of episodes. The policies of the arm: sac, a
    trained one that comes with the package; random, independent uniform torques; ou, torques under which both
    joints are independent Ornstein-Uhlenbeck processes, as the theorems assume. 10,000 episodes take a minute
    or two.

    isojepa episodes reacher --policy sac --out reacher.h5

    isojepa episodes reacher --policy ou --episodes 1000 --out ou.h5

    isojepa episodes reacher.h5 --form robomimic --out reacher.hdf5
    """

    source: tyro.conf.Positional[str]
    """reacher, or a file of episodes."""
    out: Path
    """The HDF5 file to write; one that is there is replaced when the new one is whole."""
    policy: str = "sac"
    """sac, random or ou."""
    episodes: int = 10_000
    """How many."""
    steps: int = 201
    """States of an episode; it has one action less, and the last is NaN."""
    seed: int = 0
    """Draws starts, targets and what a policy draws."""
    form: str = "stable-worldmodel"
    """stable-worldmodel or robomimic."""
    json: bool = False
    """Print what was written as JSON."""

    def run(self) -> int:
        if self.source == "reacher":
            from isojepa.worlds.control import POLICIES, reacher_episodes

            choose("policy", self.policy, POLICIES)
            with bar("simulating", self.episodes * (self.steps - 1)) as progress:
                found = reacher_episodes(self.policy, self.episodes, self.steps, self.seed, progress)
        elif not Path(self.source).exists():
            raise ValueError(
                f"source must be reacher or a file of episodes, got {self.source}; for other environments: "
                f"{program('isojepa')} collect {typed(self.source)} --out {typed(self.out)}"
            )
        else:
            found = read_episodes(Path(self.source))
        write_episodes(self.out, found, self.form)
        print_written(self.out, found, self.json)
        return 0

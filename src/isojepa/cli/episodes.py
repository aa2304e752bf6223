"""The command `episodes`: simulate episodes, or write a file of episodes in another format."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from isojepa.cli.environments import print_written
from isojepa.data.files import read_episodes, write_episodes
from isojepa.data.images.cache import bar
from isojepa.importing import entry_object, lab_hint, program
from isojepa.terminal import shell_quote

GROUP = "isojepa.simulators"  # entry points: functions (policy, episodes, steps, seed, progress) -> Episodes
LAB = ("reacher",)  # simulators of isojepa-lab


@dataclass
class MakeEpisodes:
    """Collect episodes of the simulated arm, or convert a file.

    SOURCE is a file of episodes, or reacher, the two-joint arm of dm_control, which isojepa-lab brings. Its
    policies: sac, a trained one that comes with the lab; random, independent uniform torques; ou, torques
    under which both joints are independent Ornstein-Uhlenbeck processes, as the theorems assume. 10,000
    episodes take a minute or two.

    isojepa episodes reacher --policy sac --out reacher.h5

    isojepa episodes reacher --policy ou --episodes 1000 --out ou.h5

    isojepa episodes reacher.h5 --form robomimic --out reacher.hdf5
    """

    source: tyro.conf.Positional[str]
    """reacher, or a file of episodes."""
    out: Path
    """The HDF5 file to write; an existing file is replaced when the new one is complete."""
    policy: str = "sac"
    """sac, random or ou."""
    episodes: int = 10_000
    """Number of episodes."""
    steps: int = 201
    """States of an episode; it has one action less, and the last is NaN."""
    seed: int = 0
    """Seed of the initial states and of the policy."""
    form: str = "stable-worldmodel"
    """File format: stable-worldmodel or robomimic."""
    json: bool = False
    """Print what was written as JSON."""

    def run(self) -> int:
        simulate = entry_object(GROUP, self.source)
        if simulate is not None:
            with bar("simulating", self.episodes * (self.steps - 1)) as progress:
                episodes = simulate(self.policy, self.episodes, self.steps, self.seed, progress)
        elif self.source in LAB:
            raise ValueError(f"{self.source} is part of isojepa-lab, which is not installed: {lab_hint()}")
        elif not Path(self.source).exists():
            raise ValueError(
                f"source must be reacher or a file of episodes, got {self.source}; for other environments: "
                f"{program('isojepa')} collect {shell_quote(self.source)} --out {shell_quote(self.out)}"
            )
        else:
            episodes = read_episodes(Path(self.source))
        write_episodes(self.out, episodes, self.form)
        print_written(self.out, episodes, self.json)
        return 0

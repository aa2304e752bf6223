"""Recorded episodes by name, for flags, configs and run directories."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from isojepa.registry import Context, Spec, register
from isojepa.worlds.episodes.episodes import Episodes
from isojepa.worlds.episodes.files import read_episodes
from isojepa.worlds.windows import Windows


@register("world", "episodes")
@dataclass(frozen=True)
class EpisodesSpec(Spec):
    """Recorded episodes with actions: HDF5 of `isojepa collect`, stable-worldmodel or robomimic, or npz."""

    costless: ClassVar = ("held_out", "split_seed")
    path: str = ""
    """The file; the same as --data."""
    observation: str = "observation"
    """Column of the observations."""
    action: str = "action"
    """Column of the actions; that of the last row of an episode may be NaN."""
    episode: str = ""
    """Column of episode numbers, where the file has no ep_len."""
    held_out: float = 0.1
    """Fraction of the episodes that training never sees."""
    split_seed: int = 0
    """Draws which."""
    digest: str = ""
    """Hash of the episodes, filled in; with it, other data are an error."""

    def read(self, path: Path) -> Episodes:
        """All episodes of a file with these columns, as `observation` and `action`."""
        episodes = read_episodes(path, episode=self.episode or None)
        for role, name in (("observation", self.observation), ("action", self.action)):
            if name not in episodes:
                raise ValueError(
                    f"{path} has no column {name!r} of {role}s: pass --world.{role} with one of "
                    f"{', '.join(episodes.names)}"
                )
        return episodes.rename(observation=self.observation, action=self.action)

    def open(self) -> tuple[Episodes, Episodes]:
        """The episodes to train on and those that are held out.

        Raises:
            ValueError: there is no such file, or it is not the one of the digest.
        """
        if not self.path:
            raise ValueError("episodes need a file: --data FILE, such as `isojepa collect` writes")
        train, test = self.read(Path(self.path)).split(1 - self.held_out, self.split_seed)
        if self.digest and self.digest != _digest(train.hashes()):
            raise ValueError(f"{self.path} holds other episodes than the run was started on: name that file")
        return train, test

    def build(self, context: Context) -> Windows:
        train, test = self.open()
        return train.windows(held_out=test.windows())

    def resolve(self, context: Context) -> "EpisodesSpec":
        if self.digest or not self.path:
            return self
        source = context.source
        windows = source if isinstance(source, Windows) else self.build(context)
        return replace(self, digest=_digest(windows.hashes))

    def around(self, seed: int) -> Context:
        return Context.of(self.build(Context(seed=seed)), seed) if self.path else Context(seed=seed)


def _digest(hashes: Sequence[str]) -> str:
    return hashlib.blake2b("".join(hashes).encode(), digest_size=8).hexdigest()

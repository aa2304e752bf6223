"""Episodes of any lengths with named columns, and the files that others keep them in."""

from isojepa.worlds.episodes.episodes import Episode, Episodes
from isojepa.worlds.episodes.files import read_episodes, write_episodes
from isojepa.worlds.episodes.spec import EpisodesSpec

__all__ = ["Episode", "Episodes", "EpisodesSpec", "read_episodes", "write_episodes"]

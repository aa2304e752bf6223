"""Episodes of any lengths with named columns, and the files that others keep them in."""

from isojepa.worlds.episodes.episodes import Episode, Episodes
from isojepa.worlds.episodes.reading import read_episodes
from isojepa.worlds.episodes.spec import EpisodesSpec
from isojepa.worlds.episodes.writing import write_episodes

__all__ = ["Episode", "Episodes", "EpisodesSpec", "read_episodes", "write_episodes"]

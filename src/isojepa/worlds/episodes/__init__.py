"""Episodes of any lengths with named columns, and the files that others keep them in."""

from isojepa.worlds.episodes.episodes import Episodes
from isojepa.worlds.episodes.reading import read_episodes
from isojepa.worlds.episodes.writing import write_episodes

__all__ = ["Episodes", "read_episodes", "write_episodes"]

"""Watching: live numbers and a collapse alarm for a model that somebody else's loop trains."""

from isojepa.watching.adapters import lightning_callback, transformers_callback
from isojepa.watching.watcher import Alarm, CollapseWarning, Watch, WatchWarning, watch

__all__ = [
    "Alarm",
    "CollapseWarning",
    "Watch",
    "WatchWarning",
    "lightning_callback",
    "transformers_callback",
    "watch",
]

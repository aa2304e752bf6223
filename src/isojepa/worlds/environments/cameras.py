"""Folders of synchronised cameras: frames of one moment have one name.

    DATA/front/drive-1/000017.jpg      a folder for each camera, in it one for each drive or scene
    DATA/rear/drive-1/000017.jpg       frames are matched by drive and name, whatever their endings
    DATA/front/1532402927612.png       or none: then `together` frames in a row, by name, are one state

Splits go by drive: neighbouring frames are nearly the same picture. Frames that only one camera has are
trained on and left out of pairs. Where cameras take frames at slightly different times, as those of nuScenes
do, name them by the moment that they belong to.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import torch

from isojepa.arguments import check_count
from isojepa.registry import register
from isojepa.worlds.environments.pictures import PictureEnvironment
from isojepa.worlds.images.cache import Item, Origin, cached, natural
from isojepa.worlds.images.formats import folder_origin
from isojepa.worlds.images.observers import Observer


@register("environment", "cameras")
@dataclass(frozen=True)
class CamerasSpec(PictureEnvironment):
    """Folders of synchronised cameras, whose frames are matched by name and split by drive."""

    cameras: tuple[str, ...] = ()
    """Folders of the cameras; by default all that there are."""
    together: int = 100
    """Frames in a row that are one state where there are no folders of drives."""
    largest: int | None = None
    """Pixels of the shorter side to which larger frames are reduced."""
    cache: str | None = None
    """Folder that decoded frames are kept in; by default the user's own."""

    def observed(self) -> tuple[Observer, ...]:
        """The frames of each camera, decoded once."""
        check_count("together", self.together)
        root = self.folder()
        found = sorted(
            (entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith(".")),
            key=natural,
        )
        missing = [name for name in self.cameras if name not in found]
        if missing:
            raise ValueError(
                f"cameras must be folders of {root} ({', '.join(found) or 'none'}), got {missing[0]!r}"
            )
        names = self.cameras or tuple(found)
        place = None if self.cache is None else Path(self.cache)
        opened = [cached(_unlabelled(folder_origin(root / name)), place, self.largest) for name in names]
        keys = [[_moment(name) for name in pictures.names] for pictures in opened]
        states = self._states({key for each in keys for key in each})
        return tuple(
            Observer(name, pictures, tuple(mine), torch.tensor([states[key] for key in mine]))
            for name, pictures, mine in zip(names, opened, keys, strict=True)
        )

    def _states(self, keys: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The number of each moment's drive, or of its stretch of frames where there are no drives."""
        ordered = sorted(keys, key=lambda key: (natural(key[0]), natural(key[1])))
        drives = {drive: number for number, drive in enumerate(dict.fromkeys(drive for drive, _ in ordered))}
        if list(drives) == [""]:
            return {key: place // self.together for place, key in enumerate(ordered)}
        return {key: drives[key[0]] for key in ordered}


def _moment(name: str) -> tuple[str, str]:
    """Drive and moment of a frame, from the name of its file."""
    path = PurePosixPath(name)
    return ("" if str(path.parent) == "." else str(path.parent)), path.stem


def _unlabelled(origin: Origin) -> Origin:
    """The same without labels: folders are drives, and no classes."""

    def items() -> Iterator[Item]:
        return (replace(item, label=None) for item in origin.items())

    return replace(origin, identity=["camera", origin.identity], items=items, classes=None)

"""Emoji: the same things drawn by several vendors, real different observation functions of one state.

`tools/data emoji` fetches them: a folder for each vendor with train.npz and test.npz, 64 × 64 pixels, matched
by their code points (`names`). Skin tones of one emoji are one state (`states`), and the files' own split
goes by it: no base emoji is in both.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from isojepa.names import choose, shown
from isojepa.opening import check_expanded, plain_file
from isojepa.registry import register
from isojepa.worlds.environments.pictures import PictureEnvironment
from isojepa.worlds.images.observers import Observer
from isojepa.worlds.images.pictures import Stack

_ROWS = ("images", "labels", "names", "states", "subcategories")  # each as long as the others
_ARRAYS = (*_ROWS, "classes")
_LABELS = ("category", "subcategory")
_FILES = ("train.npz", "test.npz")


@register("environment", "emoji")
@dataclass(frozen=True)
class EmojiSpec(PictureEnvironment):
    """The same emoji drawn by two or three vendors; split by base emoji, as the files are."""

    vendors: tuple[str, ...] = ("google", "twitter")
    """Folders of the vendors: google, twitter, fluent."""
    labels: str = "category"
    """What labels are: category (10) or subcategory (99)."""

    def observed(self) -> tuple[Observer, ...]:
        """Every vendor's drawings of both files."""
        choose("labels", self.labels, dict.fromkeys(_LABELS))
        folder = self.folder()
        tables = [_Vendor(folder / vendor, vendor) for vendor in self.vendors]
        names = tables[0].classes if tables else ()
        if self.labels == "subcategory":
            names = tuple(sorted({word for table in tables for word in table.subcategories}))
        return tuple(table.observer(self.labels, names) for table in tables)

    def test_states(self) -> frozenset[int]:
        """Those of the files test.npz of all vendors."""
        found: set[int] = set()
        for vendor in self.vendors:
            found |= set(_arrays(self.folder() / vendor / "test.npz", ("states",))["states"].tolist())
        return frozenset(found)


class _Vendor:
    """The drawings of one vendor, of both files."""

    def __init__(self, folder: Path, name: str) -> None:
        parts = [_arrays(folder / file, _ARRAYS) for file in _FILES]
        split = [set(part["states"].tolist()) for part in parts]
        if split[0] & split[1]:
            both = min(split[0] & split[1])
            raise ValueError(f"{folder}: no state must be in train.npz and test.npz, got {both} in both")
        self.name, self.folder = name, folder
        self.arrays = {key: np.concatenate([part[key] for part in parts]) for key in _ROWS}
        self.classes = tuple(map(str, parts[0]["classes"]))
        if tuple(map(str, parts[1]["classes"])) != self.classes:
            raise ValueError(f"{folder}: train.npz and test.npz must have the same classes")
        self.subcategories = [str(word) for word in self.arrays["subcategories"]]

    def observer(self, labels: str, names: tuple[str, ...]) -> Observer:
        if labels == "category" and names != self.classes:
            raise ValueError(f"{self.folder}: vendors must have the same classes, got {shown(self.classes)}")
        found = self.arrays["labels"]
        if labels == "subcategory":
            found = np.array([names.index(word) for word in self.subcategories])
        try:
            pictures = Stack(self.arrays["images"], found, names)
            keys, states = tuple(map(str, self.arrays["names"])), self.arrays["states"].astype(np.int64)
            return Observer(self.name, pictures, keys, torch.from_numpy(states))
        except ValueError as error:
            raise ValueError(f"{self.folder}: {error}") from error


def _arrays(path: Path, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Arrays of an npz file by name, as long as each other.

    Raises:
        ValueError: it is damaged or lacks one.
    """
    plain_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            declared = sum(member.file_size for member in archive.infolist())
        check_expanded(declared, path.stat().st_size, "its arrays", "fetch it anew with tools/data emoji")
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in wanted if name not in file.files]
            if missing:
                raise ValueError(f"it must hold {', '.join(wanted)}, got none of {', '.join(missing)}")
            found = {name: file[name] for name in wanted}
        lengths = {name: len(found[name]) for name in wanted if name in _ROWS}
        if len(set(lengths.values())) > 1 or found["states"].dtype.kind not in "iu":
            raise ValueError(f"its arrays must have equal lengths and states be whole numbers, got {lengths}")
        return found
    except MemoryError:
        raise
    except Exception as error:  # the readers of zip files and of arrays raise many kinds for damaged ones
        raise ValueError(f"{path} cannot be read as emoji: {error}") from error

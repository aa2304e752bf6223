"""What environments of pictures share: where they are, how states are split, and the ablations."""

from dataclasses import dataclass
from pathlib import Path

from isojepa.arguments import check_count
from isojepa.names import choose
from isojepa.registry import Context, Spec
from isojepa.worlds.images.observers import Observer, PictureObservers

_SHUFFLES = ("none", "patch", "pixel")


@dataclass(frozen=True)
class PictureEnvironment(Spec):
    """What environments of pictures share: where they are, how states are split, and the ablations."""

    data: str = ""
    """Folder of the files."""
    held_out: float = 0.2
    """Share of the states that are held out for the split test."""
    seed: int = 0
    """Chooses the states that are held out."""
    shuffle: str = "none"
    """Ablation: none, patch (patches change places) or pixel (pixels do)."""
    patch: int = 8
    """Side of the patches that change places, in pixels."""
    fixed: bool = False
    """One permutation for all pictures of an observer, in place of one for each picture."""

    def observed(self) -> tuple[Observer, ...]:
        """The observers, before anything is shuffled."""
        raise NotImplementedError(f"{type(self).__name__} must define observed()")

    def test_states(self) -> frozenset[int] | None:
        """The states of the split test, where the data say so themselves; asked after `observed`."""
        return None

    def build(self, context: Context) -> PictureObservers:
        """Open or render the pictures, and match them."""
        choose("shuffle", self.shuffle, dict.fromkeys(_SHUFFLES))
        check_count("patch", self.patch)
        found = PictureObservers(
            self.observed(), held_out=self.held_out, seed=self.seed, test=self.test_states()
        )
        if self.shuffle == "none":
            return found
        return found.shuffled(1 if self.shuffle == "pixel" else self.patch, fixed=self.fixed, seed=self.seed)

    def folder(self) -> Path:
        """The folder of the files.

        Raises:
            ValueError: it is not given, or no folder.
        """
        if not self.data:
            raise ValueError(f"data must name the folder of environment {self.name!r}, got nothing")
        folder = Path(self.data).expanduser()
        if not folder.is_dir():
            raise ValueError(f"data of environment {self.name!r} must be a folder, got {self.data}")
        return folder

"""Pictures of which the spatial structure is destroyed: patches or pixels change places.

Social-JEPA's ablations shuffle patches and pixels and do not say whether all pictures are shuffled alike.
The default is a permutation for each picture: no position means anything any more, and what is left of a
picture are its patches, or its colours. `fixed` takes one permutation for all pictures: neighbours are torn
apart, but each place still means the same in every picture, and nothing is lost to a network without
convolutions. Permutations follow from the seed and the picture's number; the same picture is always shuffled
the same way. Views are cut from shuffled pictures.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from isojepa.arguments import check_count, checked
from isojepa.seeds import generator
from isojepa.worlds.images.pictures import Pictures


class Shuffled:
    """Pictures whose square patches have changed places.

    Args:
        pictures: the whole ones.
        patch: side of a patch in pixels; 1 shuffles pixels. What is left at the right and lower edges where
            patches do not fill a picture stays where it is.
        fixed: one permutation for all pictures of one size, in place of one for each.
        seed: any integer.
        stream: other numbers give other permutations with the same seed.

    Raises:
        ValueError: the patch is not positive, or does not fit into the pictures twice.

    Example:
        >>> from isojepa.worlds.images.pictures import Stack
        >>> whole = Stack(torch.arange(16, dtype=torch.uint8).view(1, 4, 4))
        >>> Shuffled(whole, patch=2).read(torch.tensor([0]))[0, 0].flatten().sort().values.tolist()[:5]
        [0, 1, 2, 3, 4]
    """

    @checked
    def __init__(
        self, pictures: Pictures, patch: int, *, fixed: bool = False, seed: int = 0, stream: int = 0
    ) -> None:
        self.patch = check_count("patch", patch)
        shape = pictures.shape
        if shape is not None and (shape[1] // patch) * (shape[2] // patch) < 2:
            raise ValueError(f"patch must fit into pictures of {shape[1]} × {shape[2]} twice, got {patch}")
        self._whole, self.fixed, self.seed, self.stream = pictures, fixed, seed, stream
        self.channels, self.shape = pictures.channels, shape
        self.labels, self.skipped = pictures.labels, pictures.skipped
        self.classes: Sequence[str] = pictures.classes
        self.mean, self.std = pictures.mean, pictures.std  # no pixel is lost

    def __len__(self) -> int:
        return len(self._whole)

    def read(self, ids: Tensor) -> Tensor | list[Tensor]:
        """The pictures of given numbers as uint8: (n, channels, height, width), a list where sizes differ."""
        found = self._whole.read(ids)
        rows = [self._mixed(picture, number) for picture, number in zip(found, ids.tolist(), strict=True)]
        return torch.stack(rows) if isinstance(found, Tensor) and rows else rows or found

    def __repr__(self) -> str:
        return f"Shuffled({self._whole!r}, patch={self.patch}, fixed={self.fixed})"

    def _mixed(self, picture: Tensor, number: int) -> Tensor:
        side, (channels, height, width) = self.patch, picture.shape
        down, across = height // side, width // side
        stream = ("shuffle", self.stream, -1 if self.fixed else number)
        order = torch.randperm(down * across, generator=generator(self.seed, *stream))
        inner = picture[:, : down * side, : across * side]
        patches = inner.reshape(channels, down, side, across, side).permute(1, 3, 0, 2, 4)
        moved = patches.reshape(down * across, channels, side, side)[order]
        result = picture.clone()
        result[:, : down * side, : across * side] = (
            moved.view(down, across, channels, side, side).permute(2, 0, 3, 1, 4).reshape(inner.shape)
        )
        return result

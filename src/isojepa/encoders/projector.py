"""Projectors: the head between a backbone's features and the embeddings that the loss sees.

Linear maps with batch normalisation and ReLU between them, none behind the last; LeJEPA's experiments use up
to three (Balestriero & LeCun 2025). A projector is named by its widths:

    "2048-2048-64"   features -> 2048 -> 2048 -> 64, the published one
    "2048-2048-16"   of the published small example, whose backbone ends in 512 features
    "256-32"         two layers
    "linear-32"      one linear map
    "none"           no projector: the loss sees the features themselves
"""

import itertools

from torch import Tensor, nn

from isojepa.arguments import check_count, checked
from isojepa.encoders.layers import linear
from isojepa.names import shown
from isojepa.seeds import generator


class Projector(nn.Module):
    """Linear maps with batch normalisation and ReLU between them.

    Args:
        in_dim: features of the backbone.
        widths: of each layer, the last of the embedding: "2048-2048-64", "linear-32".
        seed: draws the initial weights.

    Example:
        >>> import torch
        >>> Projector(512, "2048-2048-16")(torch.zeros(4, 512)).shape
        torch.Size([4, 16])
    """

    @checked
    def __init__(self, in_dim: int, widths: str = "2048-2048-64", seed: int = 0) -> None:
        super().__init__()
        sizes = [check_count("in_dim", in_dim), *projector_widths(widths)]
        if len(sizes) < 2:
            raise ValueError("widths must be one at least: without a projector use the backbone alone")
        source = generator(seed, "projector")
        parts: list[nn.Module] = []
        for n_in, n_out in itertools.pairwise(sizes):
            parts += [linear(n_in, n_out, source), nn.BatchNorm1d(n_out), nn.ReLU()]
        self.body = nn.Sequential(*parts[:-2])
        self.in_dim, self.widths, self.seed = in_dim, widths, seed  # what a record makes it again from
        self.out_dim = sizes[-1]

    def forward(self, h: Tensor) -> Tensor:
        """Features (batch, in_dim) to embeddings (batch, out_dim)."""
        projected: Tensor = self.body(h)
        return projected


def projector_widths(name: str) -> tuple[int, ...]:
    """The widths that a projector's name says; none for "none".

    Raises:
        ValueError: it says no widths.

    Example:
        >>> projector_widths("2048-2048-64"), projector_widths("linear-32"), projector_widths("none")
        ((2048, 2048, 64), (32,), ())
    """
    if name == "none":
        return ()
    words = name.removeprefix("linear-").split("-")
    if not all(word.isdecimal() for word in words) or (name.startswith("linear-") and len(words) > 1):
        raise ValueError(
            'projector must be widths such as "2048-2048-64", "linear-32" for one linear map, or "none", '
            f"got {shown(name)}"
        )
    return tuple(check_count("a width of the projector", int(word)) for word in words)

"""Objectives: what training minimizes. A loss of embeddings maps views (view, batch, dim) to a Loss."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.objectives import gaussianity
    from isojepa.objectives.alignment import ALIGNMENTS, pairwise, to_center, to_center_sum
    from isojepa.objectives.autoencoder import Autoencoder
    from isojepa.objectives.directions import draw_directions
    from isojepa.objectives.infonce import AnInfoNCE, InfoNCE, SimCLR, SlicedInfoNCE, matched_sigma
    from isojepa.objectives.latent_dynamics import LatentDynamics
    from isojepa.objectives.lejepa import ImageLeJEPA, LeJEPA
    from isojepa.objectives.masked import Masked
    from isojepa.objectives.objective import Loss, Objective, OnViews, Regularizer, Teacher, embed_views
    from isojepa.objectives.sigreg import SIGReg
    from isojepa.objectives.supervised import Supervised, Untrained
    from isojepa.objectives.vicreg import BarlowTwins, VICReg, Whitening
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "ALIGNMENTS",
    "AnInfoNCE",
    "Autoencoder",
    "BarlowTwins",
    "ImageLeJEPA",
    "InfoNCE",
    "LatentDynamics",
    "LeJEPA",
    "Loss",
    "Masked",
    "Objective",
    "OnViews",
    "Regularizer",
    "SIGReg",
    "SimCLR",
    "SlicedInfoNCE",
    "Supervised",
    "Teacher",
    "Untrained",
    "VICReg",
    "Whitening",
    "draw_directions",
    "embed_views",
    "gaussianity",
    "matched_sigma",
    "pairwise",
    "to_center",
    "to_center_sum",
]

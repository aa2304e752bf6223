"""Objectives: what is minimised. A loss of embeddings maps views (view, batch, dim) to a Loss."""

from isojepa.objectives import gaussianity
from isojepa.objectives.alignment import ALIGNMENTS, pairwise, to_centre, to_centre_sum
from isojepa.objectives.barlow import BarlowTwins
from isojepa.objectives.dino import DINO
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.image_lejepa import ImageLeJEPA
from isojepa.objectives.infonce import AnInfoNCE, InfoNCE, SlicedInfoNCE, matched_sigma
from isojepa.objectives.lejepa import LeJEPA
from isojepa.objectives.loss import Loss, Regularizer
from isojepa.objectives.objective import Objective, OnViews, embed_views
from isojepa.objectives.sigreg import SIGReg
from isojepa.objectives.simclr import SimCLR
from isojepa.objectives.supervised import Supervised
from isojepa.objectives.teachers import Teacher
from isojepa.objectives.vicreg import VICReg
from isojepa.objectives.whitening import Whitening

__all__ = [
    "ALIGNMENTS",
    "DINO",
    "AnInfoNCE",
    "BarlowTwins",
    "ImageLeJEPA",
    "InfoNCE",
    "LeJEPA",
    "Loss",
    "Objective",
    "OnViews",
    "Regularizer",
    "SIGReg",
    "SimCLR",
    "SlicedInfoNCE",
    "Supervised",
    "Teacher",
    "VICReg",
    "Whitening",
    "draw_directions",
    "embed_views",
    "gaussianity",
    "matched_sigma",
    "pairwise",
    "to_centre",
    "to_centre_sum",
]

"""Objectives: what is minimised. Each maps views (view, batch, dim) to a Loss with named terms."""

from isojepa.objectives import gaussianity
from isojepa.objectives.alignment import ALIGNMENTS, pairwise, to_centre
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.infonce import AnInfoNCE, InfoNCE, SlicedInfoNCE, matched_sigma
from isojepa.objectives.lejepa import LeJEPA
from isojepa.objectives.loss import Loss, Objective, Regularizer
from isojepa.objectives.sigreg import SIGReg
from isojepa.objectives.vicreg import VICReg
from isojepa.objectives.whitening import Whitening

__all__ = [
    "ALIGNMENTS",
    "AnInfoNCE",
    "InfoNCE",
    "LeJEPA",
    "Loss",
    "Objective",
    "Regularizer",
    "SIGReg",
    "SlicedInfoNCE",
    "VICReg",
    "Whitening",
    "draw_directions",
    "gaussianity",
    "matched_sigma",
    "pairwise",
    "to_centre",
]

"""Objectives: what is minimised. A loss of embeddings maps views (view, batch, dim) to a Loss."""

from isojepa.objectives import gaussianity
from isojepa.objectives.alignment import ALIGNMENTS, pairwise, to_centre, to_centre_sum
from isojepa.objectives.autoencoder import Autoencoder
from isojepa.objectives.coupling import Coupling
from isojepa.objectives.dino import DINO
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.distillation import Distillation
from isojepa.objectives.ibot import IBOT
from isojepa.objectives.infonce import AnInfoNCE, InfoNCE, SimCLR, SlicedInfoNCE, matched_sigma
from isojepa.objectives.koleo import koleo
from isojepa.objectives.latent_dynamics import LatentDynamics
from isojepa.objectives.lejepa import ImageLeJEPA, LeJEPA
from isojepa.objectives.mae import MAE
from isojepa.objectives.masked import Masked
from isojepa.objectives.moco import MoCo
from isojepa.objectives.mutual import Mutual
from isojepa.objectives.objective import Loss, Objective, OnViews, Regularizer, embed_views
from isojepa.objectives.sigreg import SIGReg
from isojepa.objectives.sinkhorn import sinkhorn
from isojepa.objectives.supervised import Supervised
from isojepa.objectives.swav import SwAV
from isojepa.objectives.teachers import Teacher
from isojepa.objectives.teaching import Imitated, Taught
from isojepa.objectives.untrained import Untrained
from isojepa.objectives.vicreg import BarlowTwins, VICReg, Whitening

__all__ = [
    "ALIGNMENTS",
    "DINO",
    "IBOT",
    "MAE",
    "AnInfoNCE",
    "Autoencoder",
    "BarlowTwins",
    "Coupling",
    "Distillation",
    "ImageLeJEPA",
    "Imitated",
    "InfoNCE",
    "LatentDynamics",
    "LeJEPA",
    "Loss",
    "Masked",
    "MoCo",
    "Mutual",
    "Objective",
    "OnViews",
    "Regularizer",
    "SIGReg",
    "SimCLR",
    "SlicedInfoNCE",
    "Supervised",
    "SwAV",
    "Taught",
    "Teacher",
    "Untrained",
    "VICReg",
    "Whitening",
    "draw_directions",
    "embed_views",
    "gaussianity",
    "koleo",
    "matched_sigma",
    "pairwise",
    "sinkhorn",
    "to_centre",
    "to_centre_sum",
]

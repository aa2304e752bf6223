"""Evaluations: how good a model is, measured while it trains and afterwards."""

from isojepa.evaluations.evaluation import Evaluation
from isojepa.evaluations.features import features_of
from isojepa.evaluations.few_shot import FewShot, few_shot, transfer
from isojepa.evaluations.online import LinearProbe, Neighbors, Rank, Recovery, Spread, default_evaluations
from isojepa.evaluations.probes import (
    Score,
    kernel_probe,
    linear_probe,
    neighbors_probe,
    radius_probe,
    share_interval,
)
from isojepa.evaluations.rank import alpha_req, lidar, rankme

__all__ = [
    "Evaluation",
    "FewShot",
    "LinearProbe",
    "Neighbors",
    "Rank",
    "Recovery",
    "Score",
    "Spread",
    "alpha_req",
    "default_evaluations",
    "features_of",
    "few_shot",
    "kernel_probe",
    "lidar",
    "linear_probe",
    "neighbors_probe",
    "radius_probe",
    "rankme",
    "share_interval",
    "transfer",
]

"""Evaluations: how good a model is, measured while it trains and afterwards."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names
from isojepa.probes.few_shot import few_shot

if TYPE_CHECKING:
    from isojepa.probes.evaluation import Evaluation
    from isojepa.probes.features import features_of
    from isojepa.probes.few_shot import FewShot, transfer
    from isojepa.probes.linear import (
        Score,
        kernel_probe,
        linear_probe,
        neighbors_probe,
        radius_probe,
        share_interval,
    )
    from isojepa.probes.online import LinearProbe, Neighbors, Rank, Recovery, Spread, default_evaluations
    from isojepa.probes.rank import alpha_req, lidar, rankme
else:
    __getattr__, __dir__ = lazy_names(__name__)

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

"""Objectives used by comparisons only: DINO, iBOT, DINOv2, SwAV, MoCo v3, MAE, teaching, mutual learning."""

from isojepa_lab.baselines.classic_backbones import classic
from isojepa_lab.baselines.distillation import DINO, IBOT, Distillation, koleo
from isojepa_lab.baselines.mae import MAE
from isojepa_lab.baselines.moco import MoCo
from isojepa_lab.baselines.swav import SwAV, sinkhorn
from isojepa_lab.baselines.teaching import (
    KnowledgeDistillation,
    MutualLearning,
    RidgeCoupling,
    TeacherStudent,
)
from isojepa_lab.baselines.teaching_cost import StepCost, ThresholdCost, cost_to_threshold, step_cost

__all__ = [
    "DINO",
    "IBOT",
    "MAE",
    "Distillation",
    "KnowledgeDistillation",
    "MoCo",
    "MutualLearning",
    "RidgeCoupling",
    "StepCost",
    "SwAV",
    "TeacherStudent",
    "ThresholdCost",
    "classic",
    "cost_to_threshold",
    "koleo",
    "sinkhorn",
    "step_cost",
]

"""Evaluations: how good a model is, measured while it trains and afterwards."""

from isojepa.evaluations.evaluation import Evaluation
from isojepa.evaluations.held_out import Recovery, Spread, default_evaluations

__all__ = ["Evaluation", "Recovery", "Spread", "default_evaluations"]

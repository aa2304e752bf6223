"""Encoders: what is learned, from observations x to embeddings h."""

from isojepa.encoders.coupling import Coupling
from isojepa.encoders.mlp import MLP

ENCODERS = {"mlp": MLP, "coupling": Coupling}

__all__ = ["ENCODERS", "MLP", "Coupling"]

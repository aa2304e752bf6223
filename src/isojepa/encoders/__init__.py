"""Encoders: what is learned, from observations x to embeddings h."""

from isojepa.encoders.coupling import Coupling, FreeCoupling
from isojepa.encoders.mlp import MLP

ENCODERS = {"mlp": MLP, "coupling": Coupling, "free-coupling": FreeCoupling}

__all__ = ["ENCODERS", "MLP", "Coupling", "FreeCoupling"]

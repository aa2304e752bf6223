"""Encoders: what is learned, from observations x to embeddings h."""

from isojepa.encoders.coupling import Coupling, FreeCoupling
from isojepa.encoders.mlp import MLP
from isojepa.encoders.model import Headed, Model, as_model

__all__ = ["MLP", "Coupling", "FreeCoupling", "Headed", "Model", "as_model"]

"""Encoders: what is learned, from observations x to embeddings h."""

from isojepa.encoders.backbones import Backbone
from isojepa.encoders.convnets import Conv, ConvNet, SmallResNet
from isojepa.encoders.coupling import Coupling, FreeCoupling, ScaledCoupling
from isojepa.encoders.layers import Projector
from isojepa.encoders.mlp import MLP, ResidualMLP
from isojepa.encoders.model import Headed, Model, as_model
from isojepa.encoders.world_model import Dynamics, Predictor, Stepwise, WorldModel

__all__ = [
    "MLP",
    "Backbone",
    "Conv",
    "ConvNet",
    "Coupling",
    "Dynamics",
    "FreeCoupling",
    "Headed",
    "Model",
    "Predictor",
    "Projector",
    "ResidualMLP",
    "ScaledCoupling",
    "SmallResNet",
    "Stepwise",
    "WorldModel",
    "as_model",
]

"""Encoders: what is learned, from observations x to embeddings h."""

from isojepa.encoders.backbones import Backbone
from isojepa.encoders.conv import Conv
from isojepa.encoders.convnets import ConvNet, SmallResNet
from isojepa.encoders.coupling import Coupling, FreeCoupling
from isojepa.encoders.dynamics import Dynamics, Stepwise
from isojepa.encoders.mlp import MLP, ResidualMLP
from isojepa.encoders.model import Headed, Model, as_model
from isojepa.encoders.projector import Projector
from isojepa.encoders.scaled_coupling import ScaledCoupling
from isojepa.encoders.world_model import Predictor, WorldModel

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

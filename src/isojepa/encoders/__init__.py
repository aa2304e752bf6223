"""Encoders: what is learned, from observations x to embeddings h."""

from isojepa.encoders.backbones import Backbone
from isojepa.encoders.conv import Conv
from isojepa.encoders.convnets import ConvNet, SmallResNet
from isojepa.encoders.coupling import Coupling, FreeCoupling
from isojepa.encoders.mlp import MLP
from isojepa.encoders.model import Headed, Model, as_model
from isojepa.encoders.projector import Projector
from isojepa.encoders.scaled_coupling import ScaledCoupling

__all__ = [
    "MLP",
    "Backbone",
    "Conv",
    "ConvNet",
    "Coupling",
    "FreeCoupling",
    "Headed",
    "Model",
    "Projector",
    "ScaledCoupling",
    "SmallResNet",
    "as_model",
]

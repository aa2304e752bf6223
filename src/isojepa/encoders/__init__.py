"""Encoders: what is learned, from observations x to embeddings h."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.encoders.backbones import Backbone
    from isojepa.encoders.convnets import Conv, ConvNet, SmallResNet
    from isojepa.encoders.coupling import Coupling, FreeCoupling, ScaledCoupling
    from isojepa.encoders.layers import Projector
    from isojepa.encoders.mlp import MLP, ResidualMLP
    from isojepa.encoders.model import Headed, Model, as_model
    from isojepa.encoders.world_model import Dynamics, Predictor, Stepwise, WorldModel
else:
    __getattr__, __dir__ = lazy_names(__name__)

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

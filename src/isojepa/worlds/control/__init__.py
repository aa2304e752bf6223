"""Control: policies that drive dm_control's reacher, and the episodes that they leave."""

from isojepa.worlds.control.actor import Actor
from isojepa.worlds.control.policies import POLICIES, Exploration, Learned, Policy, Uniform
from isojepa.worlds.control.simulation import STEPS, reacher_episodes, simulate

__all__ = [
    "POLICIES",
    "STEPS",
    "Actor",
    "Exploration",
    "Learned",
    "Policy",
    "Uniform",
    "reacher_episodes",
    "simulate",
]

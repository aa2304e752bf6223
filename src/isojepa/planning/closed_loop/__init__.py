"""Closed loop: controllers that plan in a latent, in the simulator, under stated rules."""

from isojepa.planning.closed_loop.controllers import Controller, LatentController, chance, rest
from isojepa.planning.closed_loop.films import film, write_film
from isojepa.planning.closed_loop.learning import PLANNERS, SETTINGS, Learned, Setting, oracle
from isojepa.planning.closed_loop.perception import (
    Angles,
    Encoder,
    Frames,
    Mapped,
    TrueState,
    TwoFrames,
    rotated,
    translated,
    warped,
)
from isojepa.planning.closed_loop.plants import Plant, State
from isojepa.planning.closed_loop.reacher import ReacherModel, ReacherPlant
from isojepa.planning.closed_loop.recording import record
from isojepa.planning.closed_loop.results import Evaluation, Outcome
from isojepa.planning.closed_loop.rules import (
    FAIR,
    PROTOCOLS,
    PUBLISHED,
    Rules,
    Tasks,
    drawn_tasks,
    tasks_from_episodes,
)
from isojepa.planning.closed_loop.running import Runs, evaluate, run
from isojepa.planning.closed_loop.transitions import LatentModel, encode, fit_model

__all__ = [
    "FAIR",
    "PLANNERS",
    "PROTOCOLS",
    "PUBLISHED",
    "SETTINGS",
    "Angles",
    "Controller",
    "Encoder",
    "Evaluation",
    "Frames",
    "LatentController",
    "LatentModel",
    "Learned",
    "Mapped",
    "Outcome",
    "Plant",
    "ReacherModel",
    "ReacherPlant",
    "Rules",
    "Runs",
    "Setting",
    "State",
    "Tasks",
    "TrueState",
    "TwoFrames",
    "chance",
    "drawn_tasks",
    "encode",
    "evaluate",
    "film",
    "fit_model",
    "oracle",
    "record",
    "rest",
    "rotated",
    "run",
    "tasks_from_episodes",
    "translated",
    "warped",
    "write_film",
]

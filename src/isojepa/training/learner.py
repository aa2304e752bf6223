"""The models and the objective as one module, so that learned parts of either are trained together."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from isojepa.encoders.model import Model, as_model, evaluating
from isojepa.objectives.objective import Loss, as_objective
from isojepa.training.records import PARTS
from isojepa.worlds.batch import Batch


class Call:
    """What one call of the learner takes; wrappers that look into tensors let it pass as it is."""

    __slots__ = ("batch", "generator")

    def __init__(self, batch: Batch, generator: torch.Generator) -> None:
        self.batch, self.generator = batch, generator


class Learner(nn.Module):
    """Models and objective.

    Args:
        models: by name.
        objective: an `Objective`, or a loss of views.
    """

    def __init__(self, models: Mapping[str, nn.Module], objective: Callable[..., Any]) -> None:
        super().__init__()
        self.models = nn.ModuleDict(dict(models))
        self.objective = as_objective(objective)
        self.answering: dict[str, Model] = {name: as_model(module) for name, module in models.items()}
        self.objective.start(self.answering)

    def forward(self, call: Call) -> dict[str, Tensor]:
        """The loss of a batch and its terms, by name."""
        loss = self.objective(self.answering, call.batch, call.generator)
        if not isinstance(loss, Loss):
            raise ValueError(
                f"objective must return a Loss, got {type(loss).__name__}; a regularizer alone is none: "
                "use LeJEPA(regularizer=...)"
            )
        return {"loss": loss.total, **loss.terms}

    def compile_models(self) -> None:
        """Let torch.compile make what is called faster; names and weights stay."""
        for part in self._called():
            part.compile()

    def uncompile_models(self) -> None:
        """Undo it: a compiled module cannot be copied or sent to another process."""
        for part in self._called():
            part._compiled_call_impl = None

    def _called(self) -> list[nn.Module]:
        """What is called: of a model that answers as several, its parts, and theirs."""
        return [part for module in self.models.values() for part in _called_parts(module)]


def _called_parts(module: nn.Module) -> list[nn.Module]:
    if not isinstance(module, Model):
        return [module]
    return [part for child in module.children() for part in _called_parts(child)]


def named_models(model: nn.Module | Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Models by name; one alone is the "encoder".

    Raises:
        ValueError: no model, no module, or a name that cannot name a file of the record.
    """
    models = {"encoder": model} if isinstance(model, nn.Module) else model
    if not isinstance(models, Mapping) or not models:
        raise ValueError(f"model must be a module, or modules by name, got {type(model).__name__}")
    for name, module in models.items():
        if not name.isidentifier() or name in PARTS:
            raise ValueError(f"a model's name must be a word other than {', '.join(PARTS)}, got {name!r}")
        if name in dir(nn.ModuleDict):  # which torch refuses as the name of a part
            raise ValueError(f"a model's name must not be that of a method of torch modules, got {name!r}")
        if not isinstance(module, nn.Module):
            raise ValueError(f"model {name!r} must be a torch module, got {type(module).__name__}")
    return dict(models)


def check_models(models: Mapping[str, nn.Module], objective: Callable[..., Any], batch: Batch) -> None:
    """Try the models on a few observations, so that a mismatch is told before the first step.

    Args:
        models: by name.
        objective: says what of a batch each of them is shown.
        batch: a few states.

    Raises:
        ValueError: a model does not take the views, or does not give vectors.
    """
    shown = as_objective(objective).seen({name: as_model(one) for name, one in models.items()}, batch)
    for name, part in shown.items():
        module = models[name]
        device = next((p.device for p in module.parameters()), torch.device("cpu"))
        for view in part.views:
            try:
                with evaluating(module), torch.no_grad():
                    h = as_model(module).embed(view.to(device))
            except RuntimeError as error:
                raise ValueError(
                    f"encoder does not take the world's observations of shape {tuple(view.shape)}: {error}"
                ) from error
            if not isinstance(h, Tensor):
                raise ValueError(f"encoder must return a tensor (batch, dim), got {type(h).__name__}")
            if h.ndim != 2 or len(h) != len(view):
                raise ValueError(
                    f"encoder must map (batch, ...) to (batch, dim), got {tuple(h.shape)} "
                    f"for batch {len(view)}"
                )

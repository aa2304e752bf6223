"""What decides how long a sweep takes: how a step grows with the dimension, and whether many seeds as one
model would be faster than one after another. One thread, as every process of a sweep has.
"""

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from measure import alternate, row, stepper
from torch.func import functional_call, stack_module_state, vmap

from isojepa.config import Config
from isojepa.encoders.coupling import CouplingSpec
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.registry import build_spec
from isojepa.runs import build_all
from isojepa.seeds import generator
from isojepa.training.recipe import Recipe
from isojepa_lab.papers.world_model import scaling

BATCH = 512
SEEDS = 16


def sweeping() -> list[dict]:
    """Growth of a step from 64 to 1,024 latents, and runs that are trained together."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return growth() + together()
    finally:
        torch.set_num_threads(threads)


def growth() -> list[dict]:
    """Time of a step of the scaling study over what the encoder's operations predict from 64 latents."""
    cells = {
        cell.trained.context.dim: cell.trained
        for cell in scaling.cells("standard")
        if cell.labels["method"] == "SIGReg" and cell.labels["settings"] == "ours"
    }
    dims = [dim for dim in cells if dim >= 64]
    steps = {str(dim): _step(cells[dim], BATCH) for dim in dims}
    times = alternate(steps, seconds=3.0)
    rows = []
    for dim in dims[1:]:
        predicted = times["64"] * scaling.operations(dim) / scaling.operations(64)
        name = f"training step, {dim} latents: measured / predicted by the encoder's operations"
        rows.append(row(name, times[str(dim)] / predicted, -1.0, times))
    return rows


def together() -> list[dict]:
    """Seeds as one batched model against one after another: time per run and step."""
    coupling = Config(world=build_spec("world", dim=8, mixing="additive-coupling"), encoder=CouplingSpec())
    kinds = {"coupling of 8": coupling, "MLP of the plane": Config()}
    rows = []
    for name, config in kinds.items():
        for batch in (256, 1024):
            config = replace(config, objective=LeJEPASpec(slices=16))
            single = _step(config, batch)
            times = alternate({"single": single, "together": _Together(config, batch).step}, seconds=2.0)
            ratio = times["single"] / (times["together"] / SEEDS)
            label = f"{SEEDS} seeds as one model, {name}, batch {batch}: time per run, alone / together"
            rows.append(row(label, ratio, None, times))
    return rows


def _step(config: Config, batch: int) -> Callable[[], object]:
    recipe = Recipe(steps=10**9, batch=batch, batch_start=None, eval_samples=64, accelerator="cpu")
    return stepper(*build_all(config), recipe)


class _Together:
    """One step of many seeds: each its own data, weights and slices, one encoder call and one optimiser."""

    def __init__(self, config: Config, batch: int) -> None:
        parts = [build_all(replace(config, seed=seed)) for seed in range(SEEDS)]
        self.worlds, self.objectives = [part[1] for part in parts], [part[2] for part in parts]
        self.weights, _ = stack_module_state([part[0] for part in parts])
        shape = copy.deepcopy(parts[0][0]).to("meta")
        self.encode = vmap(lambda weights, x: functional_call(shape, weights, (x,)))
        self.optimizer = torch.optim.AdamW(self.weights.values(), lr=1e-3, weight_decay=0.0, fused=True)
        self.batch, self.count = batch, 0

    def step(self) -> None:
        """Draw, embed, and move all seeds."""
        observed = []
        for seed, world in enumerate(self.worlds):
            pairs = world.sample(self.batch, generator(seed, "data", self.count))
            observed.append(torch.cat((pairs.views[0], pairs.views[1])))
        h = self.encode(self.weights, torch.stack(observed))
        views = h.reshape(SEEDS, 2, self.batch, -1)
        losses = [
            objective(view, generator(seed, "slices", self.count)).total
            for seed, (objective, view) in enumerate(zip(self.objectives, views, strict=True))
        ]
        self.optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        self.optimizer.step()
        self.count += 1

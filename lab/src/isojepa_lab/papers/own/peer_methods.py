"""Methods that find latents of pairs, ours and others', by one call each: world, settings, seed -> a map.

Closed forms (`isojepa_lab.papers.own.slow_features`) are fitted to one set of pairs. What is trained has one
encoder, one number of steps and fresh batches of one size, and differs by what it minimises:

    whitening       alignment, and mean and covariance held at 0 and I (`isojepa.objectives.Whitening`)
    InfoNCE         with the kernel matched to the correlation of the latents (`isojepa.objectives.InfoNCE`)
    VAMPNet         the VAMP-2 score (Mardt, Pasquali, Wu & Noe 2018), by deeptime's own class and optimizer,
                    with the others' schedule; it gives a space, whose slowest directions linear SFA finds
    PCL             permutation-contrastive learning (`isojepa_lab.papers.own.contrasts`)
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isojepa.data.world import World
from isojepa.encoders.mlp import MLP
from isojepa.encoders.model import embed
from isojepa.importing import install_hint
from isojepa.objectives import InfoNCE, LeJEPA, Whitening
from isojepa.objectives.infonce import matched_sigma
from isojepa.seeds import generator
from isojepa.training import fit
from isojepa.training.recipe import SCHEDULES, Recipe
from isojepa.validation import choose
from isojepa_lab.papers.own.contrasts import PairFunctions, PermutationContrast
from isojepa_lab.papers.own.slow_features import (
    Cosines,
    Expansion,
    Polynomials,
    SequentialFeatures,
    SlowFeatures,
    largest_degree,
)

Map = Callable[[np.ndarray], np.ndarray]
"""Observations (n, k) to features (n, d)."""


def linear_sfa(world: World, seed: int, pairs: int) -> Map:
    """Slow features among linear maps."""
    x, x_next = _pairs(world, seed, pairs)
    return SlowFeatures(x, x_next, world.process.dim)


def polynomial_sfa(world: World, seed: int, pairs: int, features: int) -> Map:
    """Slow features among polynomials, of the largest degree with so many monomials at most."""
    x, x_next = _pairs(world, seed, pairs)
    return SlowFeatures(x, x_next, world.process.dim, _polynomials(x, features))


def kernel_sfa(world: World, seed: int, pairs: int, features: int, width: float) -> Map:
    """Slow features among random features of a Gaussian kernel; width in roots of the observed dimension."""
    x, x_next = _pairs(world, seed, pairs)
    dim = x.shape[1]
    cosines = Cosines(dim, features, width * dim**0.5, seed)
    return SlowFeatures(x, x_next, world.process.dim, cosines, cutoff=1e-9)


def sequential_sfa(
    world: World, seed: int, pairs: int, features: int, degree: int, kept: int, least: float
) -> Map:
    """Sources one by one, xSFA."""
    x, x_next = _pairs(world, seed, pairs)
    expansion = _polynomials(x, features)
    return SequentialFeatures(x, x_next, world.process.dim, expansion, degree, kept, least)


def whitening(world: World, seed: int, weight: float, encoder: dict[str, Any], **recipe: Any) -> Map:
    """The best white embedding."""
    model = _encoder(world, seed, encoder)
    _train(model, world, LeJEPA(weight=weight, regularizer=Whitening()), seed, recipe)
    return _mapped(model)


def infonce(world: World, seed: int, encoder: dict[str, Any], **recipe: Any) -> Map:
    """InfoNCE with the kernel that is matched to the correlation of the latents, which must be one."""
    rho = world.process.correlation
    if not isinstance(rho, float):
        raise ValueError(f"a matched kernel needs one correlation of all latents, got {rho}")
    model = _encoder(world, seed, encoder)
    _train(model, world, InfoNCE(matched_sigma(rho)), seed, recipe)
    return _mapped(model)


def permutation_contrast(
    world: World, seed: int, hidden: int, permutations: int, encoder: dict[str, Any], **recipe: Any
) -> Map:
    """Permutation-contrastive learning."""
    model = _encoder(world, seed, encoder)
    odds = PairFunctions(world.process.dim, hidden, seed)
    _train(model, world, PermutationContrast(odds, permutations), seed, recipe)
    return _mapped(model)


def vampnet(world: World, seed: int, pairs: int, encoder: dict[str, Any], **recipe: Any) -> Map:
    """deeptime's VAMPNet, and linear SFA of what it gives.

    Raises:
        ImportError: deeptime is not installed.
    """
    try:
        from deeptime.decomposition.deep import VAMPNet
    except ImportError as error:
        raise ImportError(
            f"VAMPNets need deeptime, which cannot be imported ({error}): {install_hint('peers', './lab')}"
        ) from error
    how = _recipe(recipe)
    network = VAMPNet(_encoder(world, seed, encoder), learning_rate=how.learning_rate)

    def batches() -> Iterator[tuple[Tensor, ...]]:
        for step in range(how.steps):
            rate = how.learning_rate * SCHEDULES[how.schedule](step, how.steps, how.warmup)
            for group in network.optimizer.param_groups:
                group["lr"] = rate
            yield world.sample(how.batch_at(step), generator(seed, "data", step)).views

    network.fit(batches())
    space = _mapped(network.lobe)
    x, x_next = _pairs(world, seed, pairs)
    slow = SlowFeatures(space(x), space(x_next), world.process.dim)
    return lambda x: slow(space(x))


METHODS: dict[str, Callable[..., Map]] = {
    "linear SFA": linear_sfa,
    "polynomial SFA": polynomial_sfa,
    "kernel SFA": kernel_sfa,
    "xSFA": sequential_sfa,
    "VAMPNet": vampnet,
    "PCL": permutation_contrast,
    "whitening": whitening,
    "InfoNCE": infonce,
}


def find_map(method: str, world: World, seed: int, **settings: Any) -> Map:
    """Fit a method of `METHODS` to a world.

    Raises:
        ValueError: there is no such method.
        ImportError: it needs a package that is not installed.
    """
    representation: Map = choose("method", method, METHODS)(world, seed, **settings)
    return representation


def _pairs(world: World, seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = world.sample(count, generator(seed, "pairs")).views
    return first.double().numpy(), second.double().numpy()


def _polynomials(x: np.ndarray, features: int) -> Expansion:
    return Polynomials(largest_degree(x.shape[1], features))


def _encoder(world: World, seed: int, settings: dict[str, Any]) -> MLP:
    (observed,) = world.observe(torch.zeros(1, world.process.dim)).shape[1:]
    return MLP(observed, world.process.dim, **settings, seed=seed)


def _recipe(settings: dict[str, Any]) -> Recipe:
    return Recipe(**settings, eval_every=settings["steps"]).checked()


def _train(model: nn.Module, world: World, objective: Any, seed: int, recipe: dict[str, Any]) -> None:
    fit(model, world, objective, recipe=_recipe(recipe), evaluations=(), seed=seed, progress=False)


def _mapped(model: nn.Module) -> Map:
    return lambda x: np.asarray(embed(model, torch.from_numpy(x).float()).double().numpy())

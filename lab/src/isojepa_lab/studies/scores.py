"""What is measured of every trained encoder of a study, on fresh pairs of its world.

    r2, r2_z_to_h, r2_x_to_z     held-out R^2: of z from h, of h from z, of z from the observations themselves
    r2_each                      r2 latent by latent, up to 16 latents
    r2_orthogonal, orthogonality_error, error    see `isojepa.certificates.recovery`; error is Procrustes'
    bound, sharper, epsilon, delta, holds, refuted   Theorem 3, in worlds it speaks of; see
                                 `isojepa.certificates.bound`
    alignment, sigreg, whitening the losses on the same footing for every encoder: mean squared distance to
                                 the center of the views, SIGReg in batches of 256, whitening of the sample
    r2_grid, orthogonality_grid  in the plane: the published score, in-sample on a grid over [-3, 3]^2
    smallest_variance, mean_variance             of the embedding's principal directions
    samples                      pairs behind the certificate's numbers

X_interval is the 95 % interval of X. What does not exist for an encoder or a world is None.
"""

import warnings
from typing import Any

import numpy as np
import torch
from torch import nn

from isojepa.certificates import Certificate, certify
from isojepa.certificates.pairs import default_samples
from isojepa.data import Source
from isojepa.data.source import Observable, observable
from isojepa.encoders.model import embed
from isojepa.linear import errors, held_out_r2, least_squares, r2_of
from isojepa.objectives import SIGReg, Whitening
from isojepa.objectives.alignment import to_center
from isojepa.objectives.gaussianity.statistic import AxisWarning
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval

_SEED = 1  # not that of any training run's data: streams have names of their own besides
_SAMPLES = 40_000  # at least: in 1,024 dimensions the fit of fewer costs R^2
_LOSS_PAIRS = 10_240
_BATCH = 256  # of the published SIGReg, whose value grows with it
_EACH = 16
_GRID = 100
Views = tuple[torch.Tensor, torch.Tensor]


def score(encoder: nn.Module, world: Source) -> dict[str, Any]:
    """Measure a trained encoder in its world.

    Raises:
        NotFinite: the embeddings are not finite.
    """
    dim = world.facts.dim
    if dim is None:
        raise ValueError("scores compare with latents, which this world does not know")
    samples = max(_SAMPLES, default_samples(dim))
    certificate = certify(encoder, world, samples=samples, checks=False, seed=_SEED)
    scores = certified(certificate)
    (observed, _), (z, _) = draw(world, samples, "observed")
    scores["r2_x_to_z"] = held_out_r2(observed.flatten(1).double().numpy(), z.double().numpy())
    scores |= losses(encoder, world)
    if dim == 2 and observable(world):
        scores |= on_grid(encoder, world)
    return scores


def draw(world: Source, n: int, stream: str) -> tuple[Views, Views]:
    """Observations and latents of n fresh pairs."""
    batch = world.sample(n, generator(_SEED, stream))
    (x, x_next), (z, z_next) = batch.views, batch.latents
    return (x, x_next), (z, z_next)


def losses(encoder: nn.Module, world: Source) -> dict[str, float]:
    """Alignment, SIGReg and whitening of an encoder on fresh pairs, whatever it was trained with."""
    observed, _ = draw(world, _LOSS_PAIRS, "losses")
    views = torch.stack([embed(encoder, view) for view in observed])
    batches = views.reshape(-1, _BATCH, views.shape[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AxisWarning)  # the axes are known here
        sigreg = SIGReg(slices=256)(batches, generator(_SEED, "slices"))
    return {
        "alignment": to_center(views.double()).item(),
        "sigreg": sigreg.item(),
        "whitening": Whitening()(views.double()).item(),
    }


def on_grid(encoder: nn.Module, world: Observable) -> dict[str, float | None]:
    """The published score of the plane: a linear map fitted and scored on one grid over [-3, 3]^2.

    It weighs the corners, which the world hardly visits, as much as the center. None where the encoder has no
    finite value out there.
    """
    line = torch.linspace(-3, 3, _GRID)
    z = torch.cartesian_prod(line, line)
    with torch.no_grad():
        observed = world.observe(z)
    h, z_grid = embed(encoder, observed).double().numpy(), z.double().numpy()
    scores: dict[str, float | None] = {"r2_grid": None, "orthogonality_grid": None}
    if not np.isfinite(h).all():
        return scores
    residual, spread = errors(z_grid, least_squares(h, z_grid)(h))
    scores["r2_grid"] = float(r2_of(residual.sum(0), spread.sum(0)).mean())
    if h.shape[1] == 2:
        q = least_squares(z_grid, h).matrix.T
        scores["orthogonality_grid"] = float(np.linalg.norm(q.T @ q - np.eye(2)) / np.sqrt(2))
    return scores


def certified(certificate: Certificate) -> dict[str, Any]:
    """Entries of a certificate, under the names that rows use."""
    recovery, bound = certificate.recovery, certificate.bound
    scores: dict[str, Any] = {"samples": certificate.samples}

    def add(name: str, value: Interval | None) -> None:
        scores[name] = None if value is None else value.estimate
        scores[f"{name}_interval"] = None if value is None else [value.low, value.high]

    if recovery is not None:
        add("r2", recovery.r2_h_to_z)
        add("r2_z_to_h", recovery.r2_z_to_h)
        add("r2_orthogonal", recovery.r2_orthogonal)
        add("orthogonality_error", recovery.orthogonality_error)
        add("error", recovery.procrustes_error)
        if len(recovery.r2_per_latent) <= _EACH:
            scores["r2_each"] = list(recovery.r2_per_latent)
    add("bound", None if bound is None else bound.bound)
    add("sharper", None if bound is None else bound.sharper)
    add("epsilon", None if bound is None else bound.epsilon)
    add("delta", None if bound is None else bound.delta)
    scores["refuted"] = None if bound is None else bound.refuted
    scores["holds"] = certificate.holds
    scores["smallest_variance"] = certificate.smallest_variance
    scores["mean_variance"] = certificate.mean_variance
    return scores

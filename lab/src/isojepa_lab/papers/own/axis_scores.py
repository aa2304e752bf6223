"""What is measured of the axes of an embedding where the latents are known: as found, unmixed, straightened.

    r2_each         held-out R^2 of each latent from all axes together
    rank_each       |rank correlation| of each latent with its own axis
    linear_each     squared correlation of each latent with its own axis, as found
    straight_each   the same after straightening; axes without a name are left as they are
    rank, r2, linear, straight          the latent for which each of these is least
    mcc             mean of rank_each
    named           how many axes have a name;  `cues` says by what,  `verdict` in words
    error           largest standard error of a named axis's direction, in radians

Axes are found without latents on some pairs, and scored on others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor, nn

from isojepa.data.source import Source
from isojepa.encoders.model import embed
from isojepa.seeds import generator
from isojepa.unmixing import Unmixing, match_latents, unmix
from isojepa_lab.studies.cells import Label, Row
from isojepa_lab.studies.rows import Rows

PAIRS = 100_000  # that axes are found on
SCORED = 20_000  # states that they are scored on
_COLLAPSED = 1e-6  # of the largest variance, below which a direction is rounding
_SEED = 1  # not that of any training run's data: streams have names of their own besides


def score_axes(
    h: Any, h_next: Any, scored: Any, latents: Any, dim: int | None = None, paths: Any = None
) -> dict[str, Any]:
    """Find the axes of an embedding and hold them against latents of other rows.

    Args:
        h, h_next: (pairs, k) both views of the pairs that axes are found on; None where there are paths.
        scored: (n, k) embeddings of other states.
        latents: (n, d) of those.
        dim: directions that are unmixed, see `isojepa.unmixing.Unmixing`.
        paths: in place of h and h_next, see `isojepa.unmixing.unmix`.
    """
    return measure_axes(unmix(h, h_next, paths, dim=dim), scored, latents)


def measure_axes(found: Unmixing, scored: Any, latents: Any) -> dict[str, Any]:
    """Hold axes that were found against latents (n, d) of rows (n, k), others than they were found on."""
    rows, z = (np.asarray(one, dtype=np.float64) for one in (scored, latents))
    axes = found.transform(rows)
    bent, straight = (match_latents(one, z) for one in (axes, found.linearized(axes)))
    each = {
        "r2_each": [partner.linear_r2 for partner in bent.partners],
        "rank_each": [abs(partner.rank) for partner in bent.partners],
        "linear_each": [partner.linear**2 for partner in bent.partners],
        # the same partners: straightening changes no ranks
        "straight_each": [partner.linear**2 for partner in straight.partners],
    }
    least = {name.removesuffix("_each"): min(values) for name, values in each.items()}
    named = [axis for axis in found.components_ if axis.identified]
    return {
        **each,
        **least,
        "mcc": float(np.mean(each["rank_each"])),
        "named": len(named),
        "cues": sorted({axis.identified_by for axis in named}),
        "error": max((axis.error for axis in named), default=None),
        "departure": [axis.departure for axis in found.components_],
        "verdict": found.verdict_,
    }


def latent_rows(row: Row, scores: Mapping[str, Any], latents: Sequence[str], **labels: Label) -> Rows:
    """A row for each latent of scores that have a cue for each; none where there are no axes.

    Args:
        row: whose scores they are, or are a part of.
        scores: of `isojepa_lab.papers.own.recording_measures.score_found`.
        latents: their names.
        labels: further ones of the rows.

    Returns:
        Rows with the label `latent` and the scores linear (R^2 from all axes), own, straight, rank, cue and
        named (0 or 1).
    """
    keys = {"linear": "r2_each", "own": "linear_each", "rank": "rank_each", "straight": "straight_each"}
    result_rows = Rows()
    for place, latent in enumerate(latents if "r2_each" in scores else ()):
        row_labels: dict[str, Any] = {key: scores[name][place] for key, name in keys.items()}
        row_labels["cue"] = scores["cue_each"][place]
        row_labels["named"] = float(row_labels["cue"] != "none")
        result_rows.append(replace(row, labels={**row.labels, "latent": latent, **labels}, scores=row_labels))
    return result_rows


def score(
    encoder: nn.Module, world: Source, pairs: Mapping[int, int] = MappingProxyType({})
) -> dict[str, Any]:
    """Measure the axes of a trained encoder in its world, on fresh pairs.

    Of an embedding with more dimensions than latents as many directions are unmixed as there are latents; of
    one that has collapsed, those that are left.

    Args:
        encoder: trained.
        world: its own.
        pairs: that axes are found on, by the number of latents; `PAIRS` of those that it does not have.
    """
    batch = world.sample(SCORED, generator(_SEED, "scored"))
    z = batch.latents[0]
    views = world.sample(pairs.get(z.shape[1], PAIRS), generator(_SEED, "pairs")).views
    h, h_next = (_rows(encoder, view) for view in views)
    dim = min(z.shape[1], _spanned(h))
    dimensions = None if dim == h.shape[1] else dim
    return score_axes(h, h_next, _rows(encoder, batch.views[0]), z, dimensions)


def _spanned(h: np.ndarray) -> int:
    """Directions in which an embedding varies."""
    values = np.linalg.eigvalsh(np.atleast_2d(np.corrcoef(h.T)))
    return int((values > _COLLAPSED * values[-1]).sum())


def _rows(encoder: nn.Module, x: Tensor) -> np.ndarray:
    return np.asarray(embed(encoder, x).double().numpy())

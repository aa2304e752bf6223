"""Numbers that compare two embeddings of the same states, each with an interval and what chance gives."""

from isojepa.align.metrics.cca import (
    mean_cca,
    pwcca,
    svcca,
)
from isojepa.align.metrics.cka import cka, cka_value, unbiased_cka
from isojepa.align.metrics.comparing import Comparisons, compare
from isojepa.align.metrics.comparison import Comparison
from isojepa.align.metrics.distances import dsc, dsc_value, rsa
from isojepa.align.metrics.layers import LayerCKA, layer_cka
from isojepa.align.metrics.neighbors import (
    cycle_knn,
    mutual_knn,
    neighbour_disagreement,
    neighbour_disagreements,
    neighbour_overlap,
    neighbour_overlaps,
)
from isojepa.align.metrics.procrustes import (
    angular_procrustes,
    orthogonal_procrustes,
)
from isojepa.align.metrics.regression import mse, r2
from isojepa.align.metrics.search import neighbours

__all__ = [
    "Comparison",
    "Comparisons",
    "LayerCKA",
    "angular_procrustes",
    "cka",
    "cka_value",
    "compare",
    "cycle_knn",
    "dsc",
    "dsc_value",
    "layer_cka",
    "mean_cca",
    "mse",
    "mutual_knn",
    "neighbour_disagreement",
    "neighbour_disagreements",
    "neighbour_overlap",
    "neighbour_overlaps",
    "neighbours",
    "orthogonal_procrustes",
    "pwcca",
    "r2",
    "rsa",
    "svcca",
    "unbiased_cka",
]

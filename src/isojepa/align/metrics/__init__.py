"""Numbers that compare two embeddings of the same states, each with an interval and what chance gives."""

from isojepa.align.metrics.cca import (
    mean_cca,
    mean_cca_value,
    pwcca,
    pwcca_value,
    svcca,
    svcca_value,
)
from isojepa.align.metrics.cka import cka, cka_value, unbiased_cka
from isojepa.align.metrics.comparing import Comparisons, compare
from isojepa.align.metrics.comparison import Comparison
from isojepa.align.metrics.distances import dsc, dsc_value, rsa, rsa_value
from isojepa.align.metrics.layers import LayerCKA, layer_cka
from isojepa.align.metrics.neighbors import (
    cycle_knn,
    cycle_knn_value,
    mutual_knn,
    mutual_knn_value,
    neighbour_disagreement,
    neighbour_disagreements,
    neighbour_overlap,
    neighbour_overlap_value,
    neighbour_overlaps,
)
from isojepa.align.metrics.procrustes import (
    angular_procrustes,
    angular_procrustes_value,
    orthogonal_procrustes,
    orthogonal_procrustes_value,
)
from isojepa.align.metrics.regression import mse, mse_value, r2, r2_value
from isojepa.align.metrics.search import neighbours

__all__ = [
    "Comparison",
    "Comparisons",
    "LayerCKA",
    "angular_procrustes",
    "angular_procrustes_value",
    "cka",
    "cka_value",
    "compare",
    "cycle_knn",
    "cycle_knn_value",
    "dsc",
    "dsc_value",
    "layer_cka",
    "mean_cca",
    "mean_cca_value",
    "mse",
    "mse_value",
    "mutual_knn",
    "mutual_knn_value",
    "neighbour_disagreement",
    "neighbour_disagreements",
    "neighbour_overlap",
    "neighbour_overlap_value",
    "neighbour_overlaps",
    "neighbours",
    "orthogonal_procrustes",
    "orthogonal_procrustes_value",
    "pwcca",
    "pwcca_value",
    "r2",
    "r2_value",
    "rsa",
    "rsa_value",
    "svcca",
    "svcca_value",
    "unbiased_cka",
]

"""Every study: its report works with any rows, and a tiny one writes its files."""

import json
from importlib import import_module

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from isojepa_lab.studies import probes_neighbors
from isojepa_lab.studies.catalogue import find_study
from tests.lab.studies.made_up_rows import lost_row, made_up_row

TRAINED = ("anisotropy", "dimension", "sample_size", "latent_law", "mixings", "grid", "scaling")


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("kind", ["none", "one", "some", "lost", "without scores"])
def test_a_report_works_with_any_rows(name, kind):
    study = find_study(name)
    cells = study.plan("standard")[:40]
    empty = {
        key: None for key in ("r2", "r2_each", "r2_grid", "alignment", "error", "bound", "sigreg", "delta")
    }
    found = study.report(
        {
            "none": list,
            "one": lambda: [made_up_row(cells[0])],
            "some": lambda: [made_up_row(cell, r2=0.9 + 0.002 * k) for k, cell in enumerate(cells)],
            "lost": lambda: [made_up_row(cells[0]), lost_row(cells[1])],
            "without scores": lambda: [made_up_row(cells[0]), made_up_row(cells[1], **empty)],
        }[kind]()
    )
    assert found.summary
    assert all("nan" not in str(text).split() for text in (*found.summary, *found.notes))
    for picture in found.pictures:
        FigureCanvasAgg(picture.figure).draw()


SIZES = {"samples": 100, "queries": 50, "targets": 4, "sets": 2}
# keyword arguments of the smallest study, and its number of rows where that is known
TINY = {
    "bias": (
        {
            "draws": 4096,
            "sizes": (8, 16),
            "batches": (16, 32),
            "steps": 20,
            "replicas": 8,
            "dim": 3,
            "seeds": 1,
        },
        0,
    ),
    "gradients": (
        {"samples": 16, "repeats": 2, "searches": 2, "steps": 20, "sigmas": (1.0,), "orders": 3},
        0,
    ),
    "isotropise": (
        {
            "paths": 60,
            "length": 100,
            "strengths": (0.1, 0.2),
            "strides": (64,),
            "steps": 3,
            "batch": 32,
            "seeds": 1,
        },
        0,
    ),
    "probes": (
        {
            "seeds": 2,
            "weights": (0.1, 1.0),
            "widths": (0.5, 0.8),
            "samples": (30, 60),
            "resamples": 20,
            "tasks": 2,
        },
        0,
    ),
    "quadrature": ({"seeds": 2, "samples": 32, "knots": (9, 17), "t_max": (5.0,)}, 0),
    "sphere_bound": (
        {
            "seeds": 2,
            "functions": 2,
            "alphas_circle": (1.0,),
            "alphas_sphere": (2.0,),
            "counts_circle": (8, 16),
            "counts_sphere": (16, 32),
            "degrees_circle": 40,
            "degrees_sphere": 15,
        },
        4,
    ),
    "unrolling": (
        {
            "dims": (4, 8),
            "slices": (2, 3),
            "long_dims": (3, 6),
            "samples": 20,
            "steps": 4,
            "long": 20,
            "circle": 30,
            "draws": 9,
        },
        0,
    ),
}
SLOW = ("isotropise", "probes")


@pytest.mark.filterwarnings("ignore::isojepa.training.run.RunWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in TINY]
)
def test_a_tiny_study_writes_its_three_files(name, tmp_path):
    torch.set_num_threads(1)
    settings, rows = TINY[name]
    if name == "probes":
        settings = settings | {"sizes": probes_neighbors.Sizes(**SIZES)}
    import_module(f"isojepa_lab.studies.{name}").Study(tmp_path, **settings).run()
    content = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert len(content["rows"]) == rows or (rows == 0 and content["rows"])
    assert (tmp_path / f"{name}.md").stat().st_size > 100
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000

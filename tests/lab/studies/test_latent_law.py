"""The sweep over the latents' law: its cells, its theory and what it says of made-up rows."""

import math

import numpy as np
import pytest
import scipy.linalg

from isojepa.data import Langevin, NoisyCopies
from isojepa.distributions import GeneralizedNormal
from isojepa.runs import build_all, train
from isojepa.seeds import generator
from isojepa_lab.studies.latent_law import STUDY, WORLDS
from isojepa_lab.studies.latent_law_theory import expected, noisy_copies
from isojepa_lab.studies.scores import score
from isojepa_lab.studies.study import Row, collect


def row(world, alpha, mixing="spiral", objective="SIGReg", seed=0, settings="ours", **scores):
    labels = {
        "settings": settings,
        "world": world,
        "alpha": alpha,
        "mixing": mixing,
        "objective": objective,
        "seed": seed,
    }
    config = next(iter(STUDY.plan("quick"))).config.to_dict()
    return Row(labels, config, scores, "done", 10, 1.0, 0.1, "abc")


def scored(world, alpha, r2, grid=None, **labels):
    grid = r2 if grid is None else grid
    return row(
        world, alpha, r2=r2, r2_grid=grid, orthogonality_error=1 - r2, orthogonality_grid=1 - grid, **labels
    )


def best_polynomial(z, z_next, degree):
    """R^2 of z with the polynomial most alike across pairs: an independent, sampled answer."""
    basis = lambda x: np.polynomial.legendre.legvander(np.clip(x / 4, -1, 1), degree)[:, 1:]  # noqa: E731
    a, b = basis(z), basis(z_next)
    a, b = a - a.mean(0), b - b.mean(0)
    across = (a.T @ b + b.T @ a) / 2
    _, vectors = scipy.linalg.eigh(across, a.T @ a)
    return float(np.corrcoef(a @ vectors[:, -1], z)[0, 1] ** 2)


@pytest.mark.parametrize("alpha", [3.0, 8.0, 32.0])
def test_theory_of_noisy_copies_agrees_with_a_fit_to_samples(alpha):
    z, z_next = NoisyCopies(1, 0.95, GeneralizedNormal(alpha)).sample(200_000, generator(1, "copies"))
    fitted = best_polynomial(z[:, 0].double().numpy(), z_next[:, 0].double().numpy(), 5)
    assert noisy_copies(alpha, 0.95)[0] == pytest.approx(fitted, abs=0.003)


def test_theory_is_1_for_the_gaussian_alone():
    for world in WORLDS:
        said = expected(world, 2.0, 0.95)
        assert said.white == pytest.approx(1, abs=1e-6)
        assert said.gaussian == pytest.approx(1, abs=1e-6)
        assert expected(world, 8.0, 0.95).white < 0.985
    assert expected("copula", 0.5, 0.95).white == pytest.approx(expected("copula", 0.5, 0.95).gaussian)
    assert expected("copula", 0.5, 0.95).rank == pytest.approx(6 / math.pi * math.asin(0.475), abs=0.01)


def test_without_a_slowest_function_there_is_no_prediction():
    for world in ("langevin", "noisy-copies"):
        assert expected(world, 1.0, 0.95).white is None
        assert 0 < expected(world, 1.0, 0.95).gaussian < 1
    # a Langevin latent with heavy tails forgets where most of its mass is
    process = Langevin(1, GeneralizedNormal(0.125), 0.95)
    assert process.correlation == pytest.approx(0.95, abs=1e-6)
    assert expected("langevin", 0.125, 0.95).rank < 0.2


def test_the_plateau_is_the_unbroken_range_around_the_peak():
    values = {0.25: 0.95, 0.5: 0.5, 1.0: 0.92, 2.0: 0.99, 4.0: 0.91, 8.0: 0.2}
    found = STUDY.report([scored("copula", alpha, r2) for alpha, r2 in values.items()])
    table = next(table for table in found.tables if table.name == "plateau")
    assert table.rows[0]["r2"] == "1 to 4"
    assert table.rows[0]["r2_heavy"] == pytest.approx((0.95 + 0.5 + 0.92) / 3)


@pytest.mark.slow
def test_quick_runs_from_cells_to_findings(tmp_path):
    cells = STUDY.plan("quick")
    for cell in cells:
        run = train(cell.config, tmp_path, progress=False)
        _, world, _ = build_all(cell.config)
        run.record.save_scores(score(run.encoder, world))
    rows, missing = collect(cells, tmp_path)
    assert not missing
    assert len(rows) == len(cells) <= 6
    found = STUDY.report(rows)
    table = next(table for table in found.tables if table.name == "by_law")
    assert all(0 < entry["SIGReg"] <= 1 for entry in table.rows)

"""The sweep over the latents' law: its cells, its theory and what it says of made-up rows."""

import math

import numpy as np
import pytest
import scipy.linalg
from matplotlib.backends.backend_agg import FigureCanvasAgg

from isojepa.laws import GeneralizedNormal
from isojepa.runs import build_all, train
from isojepa.seeds import generator
from isojepa.worlds import Langevin, NoisyCopies
from isojepa_lab.studies.catalogue import find_study
from isojepa_lab.studies.latent_law import ALPHAS, MIXINGS, STUDY, WORLDS
from isojepa_lab.studies.latent_law_theory import expected, noisy_copies
from isojepa_lab.studies.scores import score
from isojepa_lab.studies.study import Row, collect, unique


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


def text(found):
    return " ".join(found.summary)


def test_standard_has_every_world_law_mixing_and_objective_once():
    cells = STUDY.plan("standard")
    assert len(cells) == len(unique(cells)) == 9 * 4 * 3 * 3
    seen = {(c.labels["world"], c.labels["alpha"], c.labels["mixing"], c.labels["objective"]) for c in cells}
    assert seen == {
        (world, alpha, mixing, objective)
        for world in WORLDS
        for alpha in ALPHAS
        for mixing in MIXINGS
        for objective in ("SIGReg", "whitening", "InfoNCE")
    }
    for cell in cells:
        assert cell.config.world.process.law.shape == cell.labels["alpha"]
        assert cell.config.world.process.name == cell.labels["world"]
        assert cell.config.world.mixing.name == cell.labels["mixing"]
    assert find_study("latent_law") is STUDY


def test_paper_adds_seeds_vicreg_and_the_published_settings():
    cells, ours = STUDY.plan("paper"), STUDY.plan("standard")
    assert len(unique(cells)) == len(cells) == 9 * 4 * 3 * (3 * 4 + 3)
    assert {cell.config for cell in ours} <= {cell.config for cell in cells}
    published = [cell for cell in cells if cell.labels["settings"] == "published"]
    assert {cell.config.training.steps for cell in published} == {20_000}
    assert {cell.labels["world"] for cell in published} == {"noisy-copies"}


@pytest.mark.parametrize("world", WORLDS)
def test_every_law_can_be_built_and_drawn_from(world):
    for alpha in ALPHAS:
        cell = next(
            c for c in STUDY.plan("standard") if (c.labels["world"], c.labels["alpha"]) == (world, alpha)
        )
        _, made, _ = build_all(cell.config)
        pairs = made.sample(500, generator(0, world))
        assert bool(pairs.views[0].isfinite().all())


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


def test_a_peak_at_the_gaussian_is_told_and_one_elsewhere_too():
    peaked = [scored("copula", alpha, 1 - 0.1 * abs(math.log2(alpha / 2))) for alpha in (1.0, 2.0, 4.0)]
    assert "Recovery is best where the latents are Gaussian" in text(STUDY.report(peaked))
    assert "1 of 1 peak at alpha 2 on samples" in text(STUDY.report(peaked))
    rising = [scored("copula", alpha, 0.5 + alpha / 10) for alpha in (1.0, 2.0, 4.0)]
    found = STUDY.report(rising)
    assert "recovery is not in general best at the Gaussian" in text(found)
    peaks = next(table for table in found.tables if table.name == "peaks")
    assert peaks.rows[0]["r2"] == "4"


@pytest.mark.parametrize(
    ("on_samples", "on_grid", "words"),
    [
        (0.0, 0.3, "on the grid alone"),
        (0.0, 0.0, "neither on samples nor on the grid"),
        (0.3, 0.3, "clearly leads whitening on samples in 1 of 1 worlds, on the grid in 1"),
    ],
    ids=["grid", "neither", "both"],
)
def test_where_the_wider_plateau_is_seen_is_told(on_samples, on_grid, words):
    rows = []
    for i, mixing in enumerate(MIXINGS):
        for alpha in (0.5, 1.0, 2.0):
            wiggle = 0.01 * (-1) ** i
            heavy = alpha < 2
            rows.append(
                scored(
                    "langevin",
                    alpha,
                    0.6 + heavy * on_samples + wiggle,
                    0.6 + heavy * on_grid + wiggle,
                    mixing=mixing,
                )
            )
            rows.append(scored("langevin", alpha, 0.6, 0.6, mixing=mixing, objective="whitening"))
    assert words in text(STUDY.report(rows))


def test_the_plateau_is_the_unbroken_range_around_the_peak():
    values = {0.25: 0.95, 0.5: 0.5, 1.0: 0.92, 2.0: 0.99, 4.0: 0.91, 8.0: 0.2}
    found = STUDY.report([scored("copula", alpha, r2) for alpha, r2 in values.items()])
    table = next(table for table in found.tables if table.name == "plateau")
    assert table.rows[0]["r2"] == "1 to 4"
    assert table.rows[0]["r2_heavy"] == pytest.approx((0.95 + 0.5 + 0.92) / 3)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [scored("copula", 2.0, 0.99)],
        [row("langevin", 0.5, unscored="embeddings are not finite")],
        [
            scored("copula", 2.0, 0.99),
            row("copula", 1.0, r2=None, r2_grid=None),
            scored("langevin", 4.0, math.nan),
        ],
        [scored("noisy-copies", 2.0, 0.9, settings="published"), scored("noisy-copies", 2.0, 0.99)],
    ],
    ids=["none", "one", "unscored", "holes", "published"],
)
def test_any_part_of_the_runs_makes_a_report(rows):
    found = STUDY.report(rows)
    assert [table.name for table in found.tables] == ["by_law", "peaks", "plateau", "each"]
    assert found.summary
    assert all("nan" not in paragraph for paragraph in (*found.summary, *found.notes))
    for picture in found.pictures:
        FigureCanvasAgg(picture.figure).draw()


def test_runs_that_lost_a_latent_are_counted_and_not_held_against_theory():
    good = [
        scored("langevin", 8.0, 0.98, seed=seed, mixing=mixing) for seed in (0, 1) for mixing in MIXINGS[:2]
    ]
    bad = row("langevin", 8.0, mixing="sinusoid", r2=0.46, r2_grid=0.4, r2_each=[0.0, 0.92])
    found = STUDY.report([*good, bad])
    assert found.tables[0].rows[0]["lost"] == 1
    assert "1 of the runs from alpha 2 up lost a latent: SIGReg on sinusoid (1)" in " ".join(found.notes)
    predicted = expected("langevin", 8.0, 0.95).white
    assert f"SIGReg – and {0.98 - predicted:+.3f}" in text(found)


def test_published_settings_are_a_line_of_their_own():
    rows = [scored("noisy-copies", 2.0, 0.9, settings="published"), scored("noisy-copies", 2.0, 0.99)]
    table = STUDY.report(rows).tables[0]
    assert [(entry["world"], entry["SIGReg"]) for entry in table.rows] == [
        ("noisy-copies, published settings", 0.9),
        ("noisy-copies", 0.99),
    ]


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

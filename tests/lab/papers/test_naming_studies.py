"""Studies of names: worlds are what they say, kept rows are their cells, conclusions follow the rows."""

import numpy as np
import pytest
import scipy
import torch

from isojepa.certificates.eigenfunctions import predict_r2
from isojepa.distributions import GeneralizedNormal, Normal, Uniform
from isojepa.registry import Context, build_spec
from isojepa.seeds import generator
from isojepa_lab.papers.own import refusals
from isojepa_lab.papers.own.axis_scores import score, score_axes
from isojepa_lab.papers.own.named_worlds import (
    COPULA,
    DISCRETE,
    GAUSSIAN,
    LANGEVIN,
    PLANE,
    WIDE,
    law_of,
    world,
)
from isojepa_lab.studies.cells import Cell, Computation


def blind(**changes):
    """A few worlds without names."""
    asked = {
        "part": "blind",
        "kind": refusals.EXACT,
        "left": 0.0,
        "views": refusals.PAIRED,
        "batch": 0,
        "trials": 3,
    }
    return Cell(Computation(asked | changes), {})


def test_laws_are_those_of_their_names():
    assert law_of("normal") == Normal()
    assert law_of("uniform") == Uniform()
    assert law_of("generalised normal 1.5") == GeneralizedNormal(1.5)
    assert all(0.9 < predict_r2(law_of(name)) < 1 for name in DISCRETE)


@pytest.mark.parametrize("dim", [2, 4])
@pytest.mark.parametrize("process", [LANGEVIN, COPULA, GAUSSIAN])
def test_worlds_have_the_law_and_the_dimension_that_are_asked_for(process, dim):
    for mixing in PLANE if dim == 2 else WIDE:
        built = world(process, "uniform", mixing, dim, 0.9).build(Context())
        batch = built.sample(2000, generator(0, "test"))
        z = batch.latents[0]
        assert z.shape == (2000, dim)
        assert (z.abs().max() < 1.8) == (process != GAUSSIAN)  # uniform of variance 1 ends at the root of 3
        assert np.isfinite(batch.views[0].numpy()).all()


def test_of_a_collapsed_embedding_the_directions_that_are_left_are_scored():
    identity = build_spec("world", process=LANGEVIN, law="uniform", dim=2, rho=0.9, mixing="identity")
    encoder = torch.nn.Linear(2, 2, bias=False)
    for size, lost in ((1.0, False), (0.0, True), (1e-5, True)):
        with torch.no_grad():
            encoder.weight.copy_(torch.tensor([[1.0, 0.3 * size], [0.7, -size]]))
        found = score(encoder, identity.build(Context()))
        assert (found["rank"] < 0.5) == lost
        assert max(found["rank_each"]) > 0.99


def test_scores_tell_a_rotation_from_axes_and_axes_from_straight_ones():
    process = world(LANGEVIN, "uniform", "sinusoid", 2, 0.9).build(Context()).process
    z, z_next = (view.double().numpy() for view in process.sample(20_000, generator(0, "test")))
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    h, h_next = (np.sin(view / 1.2) @ turn for view in (z, z_next))  # which increases where latents are
    found = score_axes(h, h_next, h[:2000], z[:2000])
    assert found["named"] == 2
    assert found["rank"] > 0.999
    assert found["straight"] > 0.995 > found["linear"]
    assert found["mcc"] == pytest.approx(np.mean(found["rank_each"]))


def test_what_is_left_of_a_law_is_between_the_normal_and_the_law():
    u = np.linspace(-2, 2, 9)
    kind = refusals.BLIND[2]  # the copula of the uniform law
    law = refusals._leftover(kind, 1.0)(u)
    np.testing.assert_allclose(law, np.sqrt(3) * scipy.special.erf(u / np.sqrt(2)), atol=1e-6)
    np.testing.assert_allclose(refusals._leftover(kind, 0.5)(u), (u + law) / 2)
    np.testing.assert_allclose(refusals._leftover(refusals.EXACT, 0.0)(u), u)


def test_no_name_is_given_where_there_is_none_and_all_where_there_are():
    assert refusals.measure(blind())["named"] == 0
    left = refusals.measure(blind(kind=refusals.BLIND[2], left=1.0))
    assert left["named"] == 0
    assert left["departure"] > 0.02  # there was a shape to be taken for the world's
    assert refusals.measure(blind(part="known", kind="uniform", rows=5000))["all"] == 1


@pytest.mark.parametrize("kind", refusals.DEPENDENT)
def test_coordinates_that_depend_on_each_other_have_no_names(kind):
    assert refusals.measure(blind(kind=kind, rows=20_000))["named"] == 0

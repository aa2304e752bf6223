"""The study of recordings: measures are true, kept rows are its cells, and conclusions follow the rows."""

from pathlib import Path

import numpy as np
import pytest

from isojepa.seeds import numpy_generator
from isojepa_lab.papers.own.recording_measures import (
    ANGLES,
    WAYS,
    measure,
    score_way,
    uneven,
)
from isojepa_lab.papers.own.recordings import STUDY
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.evidence import read_evidence

RESULTS = Path(__file__).parents[3] / "docs/results"
KEPT = RESULTS / "recordings.json"
TURN = np.array([[0.8, -0.6], [0.6, 0.8]])


def cell(**changes):
    """A small one of the angles themselves."""
    small = {"paths": 200, "length": 101, "steps": 1, "batch": 8, "seed": 0, "stride": 8}
    return Cell(Computation(small | {"embedding": ANGLES, "method": "", "strength": 0.0} | changes), {})


def test_two_latents_that_were_turned_have_axes_and_names_of_their_own():
    z = numpy_generator(0, "test").uniform(-1, 1, (12_000, 2))
    found = score_way((z @ TURN, None, None), z[:2000] @ TURN, z[:2000])
    assert found["cue_each"] == ["shape", "shape"]
    assert found["reasons"] == []
    assert min(found["linear_each"]) > 0.99


def test_a_latent_that_the_embedding_lost_has_no_axis():
    source = numpy_generator(0, "test")
    z = source.uniform(-1, 1, (12_000, 2))
    other = source.uniform(-1, 1, 12_000)  # stands where the second latent would
    h = np.column_stack((z[:, 0], other)) @ TURN
    found = score_way((h, None, None), h[:2000], z[:2000])
    assert found["linear_each"][0] > 0.99
    assert found["linear_each"][1] < 0.02
    assert found["r2_each"][1] < 0.02


def test_normal_latents_of_one_rate_stay_without_names_and_the_reason_is_told():
    z = numpy_generator(0, "test").normal(size=(12_000, 2))
    found = score_way((z, None, None), z[:2000], z[:2000])
    assert found["cue_each"] == ["none", "none"]
    assert len(found["reasons"]) == 2


def test_an_embedding_that_collapsed_is_refused():
    h = np.column_stack((np.linspace(0, 1, 1000), np.ones(1000)))
    assert "constant" in score_way((h, None, None), h, h)["refused"]


@pytest.mark.slow
def test_axes_are_found_on_the_data_as_they_are_whatever_was_trained_on():
    plain, weighed = measure(cell()), measure(cell(method="rates", strength=0.5))
    assert min(plain["pairs"]["r2_each"]) > 0.999
    for way in WAYS:
        assert weighed[way] == plain[way]
    assert weighed["effective"] < plain["effective"] == pytest.approx(1)
    slow, fast = (one["rho"][0] - one["rho"][1] for one in (plain, weighed))
    assert 0 < fast < slow  # rates that are nearer to each other


def test_a_coordinate_of_constant_diffusion_moves_evenly_and_a_bent_one_does_not():
    source = numpy_generator(0, "test")
    z = source.uniform(0, 1, (100_000, 1))
    z_next = z + 0.01 * source.normal(size=z.shape)
    assert uneven(z, z_next)[0] == pytest.approx(1, abs=0.1)
    # a step of exp(z) is exp(z) times as large, and the middles of the first and the last tenth are 0.9 apart
    assert uneven(np.exp(z), np.exp(z_next))[0] == pytest.approx(np.exp(1.8), rel=0.1)


def test_weights_that_leave_too_few_pairs_are_told():
    assert "pairs" in measure(cell(paths=20, length=40, method="moments", strength=1.0))["refused"]


def test_a_kept_row_is_what_its_cell_measures():
    labels = {"embedding": ANGLES, "stride": 32, "seed": 1}
    (row,) = [row for row in read_evidence(KEPT).rows if labels.items() <= row.labels.items()]
    (asked,) = [cell for cell in STUDY.plan("standard") if cell.labels == row.labels]
    found = measure(asked)
    for way in WAYS:
        for name in ("r2_each", "linear_each", "straight_each"):
            np.testing.assert_allclose(found[way][name], row.scores[way][name], rtol=5e-3, err_msg=name)
        assert found[way]["cue_each"] == row.scores[way]["cue_each"]
    np.testing.assert_allclose(found["rho"], row.scores["rho"], rtol=1e-6)
    np.testing.assert_allclose(found["uneven"], row.scores["uneven"], rtol=1e-6)

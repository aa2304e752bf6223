"""The study of training dynamics: what its variants do."""

import pytest

from isojepa_lab.papers.world_model.training_dynamics import (
    SLOWER,
    SPIRAL,
    START,
    START_SLOWER,
    STUCK,
    _cell,
    measure,
)


@pytest.mark.slow
def test_variants_that_start_from_other_weights_do_at_any_rate():
    ends = {
        variant: measure(_cell(SPIRAL, STUCK, variant, 0, 40))["total"]
        for variant in (START, START_SLOWER, SLOWER)
    }
    assert len(set(ends.values())) == 3

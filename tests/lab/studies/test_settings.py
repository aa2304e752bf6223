"""Published settings, held against published numbers."""

import math

import pytest
import torch

from isojepa.objectives import InfoNCE
from isojepa_lab.studies.published import published_scaling
from isojepa_lab.studies.settings import PUBLISHED_OBJECTIVES, PUBLISHED_RECIPE, PUBLISHED_SIGMA


@pytest.mark.parametrize("dim", [2, 4, 8, 16])
def test_the_latents_have_the_published_infonce_loss(dim: int) -> None:
    """The kernel of exp(-d^2), as the text has it, gives 4.18, 2.89, 0.90 and 0.02."""
    source, rho, batch, draws = torch.Generator().manual_seed(0), 0.95, PUBLISHED_RECIPE.batch, 40
    kernel = InfoNCE(PUBLISHED_SIGMA)
    losses = []
    for _ in range(draws):
        center = torch.randn(batch, dim, generator=source)
        noise = torch.randn(2, batch, dim, generator=source)
        terms = kernel(rho * center + math.sqrt(1 - rho**2) * noise).terms
        losses.append((terms["alignment"] + terms["regularizer"]).item() + math.log(batch))
    assert sum(losses) / draws == pytest.approx(published_scaling("infonce", dim).regularizer_loss, abs=0.05)
    assert PUBLISHED_OBJECTIVES["InfoNCE"].sigma == PUBLISHED_SIGMA

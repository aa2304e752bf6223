"""Losses that are called with two embeddings say what to write instead, and that works."""

import pytest
import torch

from isojepa.objectives import AnInfoNCE, InfoNCE, LeJEPA, SIGReg, SlicedInfoNCE, VICReg, Whitening
from isojepa.seeds import generator

H, H_NEXT = torch.randn(2, 16, 3, generator=generator(0, "h"))
LOSSES = [LeJEPA(), VICReg(), InfoNCE(), AnInfoNCE(3), SlicedInfoNCE()]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_two_embeddings_are_answered_with_the_call_that_works(loss):
    for call in ((H, H_NEXT), ([H, H_NEXT],), (H,)):
        with pytest.raises(ValueError, match=r"torch\.stack\(\(h, h_next\)\)"):
            loss(*call)
    assert torch.isfinite(loss(torch.stack((H, H_NEXT))).total)


@pytest.mark.parametrize("regularizer", [SIGReg(), Whitening()], ids=lambda one: type(one).__name__)
def test_a_regularizer_of_two_embeddings_says_how_to_stack_them(regularizer):
    for call in ((H, H_NEXT), ((H, H_NEXT),)):
        with pytest.raises(ValueError, match=r"regularizer\(torch\.stack\(\(h, h_next\)\)\)"):
            regularizer(*call)
    assert torch.isfinite(regularizer(torch.stack((H, H_NEXT))))


def test_what_is_no_generator_is_named():
    with pytest.raises(ValueError, match=r"generator must be a torch\.Generator or None, got int"):
        LeJEPA()(torch.stack((H, H_NEXT)), 3)
    with pytest.raises(ValueError, match="generator must be"):
        SIGReg()(H, "seed")

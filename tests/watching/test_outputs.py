"""Which tensor of what a module returns is meant."""

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch

from isojepa.watching.watcher import embeddings_in

H = torch.arange(12.0).reshape(4, 3)


@dataclass
class Output:
    loss: torch.Tensor
    features: torch.Tensor


Pair = namedtuple("Pair", ["loss", "features"])


@pytest.mark.parametrize(
    "output",
    [
        H,
        (torch.tensor(1.0), H),
        [H, None],
        {"loss": torch.tensor(1.0), "h": H, "labels": torch.ones(4, 2, dtype=torch.long)},
        Output(torch.tensor(1.0), H),
        Pair(torch.tensor(1.0), H),
        (H, (torch.ones(4, 2), torch.ones(4, 2))),
    ],
)
def test_the_only_tensor_that_fits_is_found(output):
    assert torch.equal(embeddings_in(output), H)


@pytest.mark.parametrize("choice", ["features", 1, -1, lambda output: output["features"]])
def test_of_several_the_chosen_one_is_taken(choice):
    assert torch.equal(embeddings_in({"logits": H + 1, "features": H}, choice), H)


def test_several_are_refused_with_their_names_and_shapes():
    with pytest.raises(ValueError, match=r"which of the 2 tensors.*'logits' \(4, 3\), 'features' \(4, 3\)"):
        embeddings_in({"logits": H, "features": H})
    with pytest.raises(ValueError, match=r"which of the 2 tensors.*0 \(4, 3\), 1 \(4, 3\)"):
        embeddings_in((H, H))


def test_maps_and_tokens_are_averaged():
    maps = torch.randn(5, 3, 4, 4)
    torch.testing.assert_close(embeddings_in(maps), maps.flatten(2).mean(2))
    torch.testing.assert_close(embeddings_in({"last_hidden_state": maps[:, :, 0]}), maps[:, :, 0].mean(1))


@pytest.mark.parametrize(
    ("output", "choice"),
    [
        (torch.ones(4), None),
        (torch.ones(4, 3, dtype=torch.long), None),
        (torch.ones(1, 2, 3, 4, 5), None),
        ("text", None),
        (None, None),
        ({}, None),
        (H, "features"),
        ({"h": H}, "g"),
        ((H,), 3),
        ((H,), lambda output: "no tensor"),
    ],
)
def test_what_holds_no_embeddings_is_refused_in_words(output, choice):
    with pytest.raises(ValueError, match="output must be"):
        embeddings_in(output, choice)


def test_what_is_found_has_no_graph():
    assert not embeddings_in(torch.nn.Linear(3, 2)(H)).requires_grad

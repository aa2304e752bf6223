"""The public checks can fail: each promise of a contract, broken by a component, is named."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import isojepa as ij
from isojepa import testing
from isojepa.data.batch import Batch
from isojepa.data.source import Facts
from isojepa.objectives import Loss


class Fine:
    """A source that keeps the contract."""

    facts = Facts(shapes=((2,), (2,)))

    def sample(self, n, generator):
        x = torch.randn(n, 2, generator=generator)
        return Batch((x, x + 1))


def broken(**methods):
    return type("Broken", (Fine,), methods)()


SOURCES = {
    "must not draw from torch's global generator": broken(
        sample=lambda self, n, g: Batch((torch.randn(n, 2),))
    ),
    "must return a Batch": broken(sample=lambda self, n, g: torch.zeros(n, 2)),
    "must return 6 states": broken(sample=lambda self, n, g: Batch((torch.randn(n + 1, 2, generator=g),))),
    "samples of two generators must differ": broken(
        sample=lambda self, n, g: Batch((torch.zeros(n, 2),) * 2)
    ),
    "facts.shapes must be": broken(facts=Facts(shapes=((3,), (3,)))),
    "so batches must bring latents": broken(facts=Facts(dim=2)),
    "an observable source must bring latents": broken(facts=Facts(observable=True)),
    "must not depend on what else is in its batch": broken(
        facts=Facts(size=10),
        take=lambda self, ids, streams: Batch((torch.arange(len(ids)).float()[:, None],)),
    ),
}


@pytest.mark.parametrize(("message", "source"), SOURCES.items(), ids=SOURCES)
def test_a_source_that_breaks_a_promise_is_told(message, source):
    testing.check_source(Fine())
    with pytest.raises(AssertionError, match=message):
        testing.check_source(source)


class Batched(nn.Module):
    """Rows depend on each other."""

    def forward(self, x):
        return x - x.mean(0)


ENCODERS = {
    "must be (batch, dim)": nn.Unflatten(1, (1, 2)),
    "must return a tensor": type("Listed", (nn.Module,), {"forward": lambda self, x: x.tolist()})(),
    "rows must not depend on each other": Batched(),
}


@pytest.mark.parametrize(("message", "encoder"), ENCODERS.items(), ids=ENCODERS)
def test_an_encoder_that_breaks_a_promise_is_told(message, encoder):
    x = torch.randn(5, 2, generator=ij.generator(0, "test"))
    testing.check_encoder(nn.Linear(2, 3), x)
    with pytest.raises(AssertionError) as told:
        testing.check_encoder(encoder, x)
    assert message in str(told.value)


OBJECTIVES = {
    "must return a Loss": lambda h, g=None: h.mean(),
    "must be a scalar": lambda h, g=None: Loss(h.mean((0, 1)), {}),
    "must be finite": lambda h, g=None: Loss(h.mean() / 0, {}),
    "must draw from its generator alone": lambda h, g=None: Loss(h.mean() * torch.rand(()), {}),
    "no term may be called 'loss'": lambda h, g=None: Loss(h.mean(), {"loss": h.mean()}),
    "must be one number": lambda h, g=None: Loss(h.mean(), {"each": h[0, :, 0]}),
    "no model gets a gradient": lambda h, g=None: Loss((0 * h).sum(), {}),
}


@pytest.mark.parametrize(("message", "objective"), OBJECTIVES.items(), ids=OBJECTIVES)
def test_an_objective_that_breaks_a_promise_is_told(message, objective):
    batch = Fine().sample(8, ij.generator(0, "test"))
    testing.check_objective(ij.objectives.LeJEPA(), nn.Linear(2, 2), batch)
    with pytest.raises(AssertionError, match=message):
        testing.check_objective(objective, nn.Linear(2, 2), batch)


def test_an_objective_that_depends_on_how_often_it_was_called_is_told():
    class Counting(nn.Module):
        calls = 0

        def forward(self, views, generator=None):
            self.calls += 1
            return Loss(self.calls * views.square().mean(), {})

    with pytest.raises(AssertionError, match="two calls with one generator must agree"):
        testing.check_objective(Counting(), nn.Linear(2, 2), Fine().sample(8, ij.generator(0, "test")))


@dataclass
class Measure:
    answer: object = None
    name: str = "measure"
    primary: str = "score"
    every: int | None = None

    def __call__(self, models, generator):
        return self.answer(generator) if callable(self.answer) else self.answer


EVALUATIONS = {
    "numbers must be floats": Measure({"score": torch.tensor(1.0)}),
    "'score' must be among": Measure({"other": 1.0}),
    "two calls with one generator must agree": Measure(lambda g: {"score": torch.rand(1).item()}),
    "every must be none or positive": Measure({"score": 1.0}, every=0),
    "must have a name": Measure({"score": 1.0}, name=""),
}


@pytest.mark.parametrize(("message", "evaluation"), EVALUATIONS.items(), ids=EVALUATIONS)
def test_an_evaluation_that_breaks_a_promise_is_told(message, evaluation):
    testing.check_evaluation(Measure({"score": 1.0}), nn.Linear(2, 2))
    with pytest.raises(AssertionError, match=message):
        testing.check_evaluation(evaluation, nn.Linear(2, 2))


def test_a_spec_that_nobody_registered_is_told():
    @dataclass(frozen=True)
    class Unknown(ij.registry.Spec):
        kind = "objective"
        name = "lejepa"

    with pytest.raises(AssertionError, match="objective 'lejepa' must be registered"):
        testing.check_spec(Unknown())


def test_observers_whose_splits_share_a_state_are_found():
    import numpy as np

    from isojepa.data.images import Stack
    from isojepa.data.images.source import ImageObservers, Observer

    pictures = Stack(np.arange(10, dtype=np.uint8)[:, None, None] * np.ones((1, 8, 8), np.uint8))
    both = ImageObservers(
        [Observer(name, pictures, tuple(range(10)), torch.arange(10)) for name in ("left", "right")]
    )
    testing.check_observers(both)

    class Leaking:
        names = both.names
        source, paired = both.source, both.paired

        def pairs(self, first, second, split="test"):
            return both.pairs(first, second, None)

    with pytest.raises(AssertionError, match="train and test must share no state, got 10"):
        testing.check_observers(Leaking())

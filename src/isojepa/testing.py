"""Conformance checks for components: the same that the package's own components pass.

Each raises AssertionError with what is wrong, so that they can be called from any test:

    from isojepa import testing

    def test_my_source():
        testing.check_source(MySource())
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from isojepa.config import SECTIONS, Config, config_from
from isojepa.data.batch import Batch
from isojepa.data.observers import Observers
from isojepa.data.source import Source, Streams, finite, moving, observable, ordered
from isojepa.encoders.mlp import MLPSpec
from isojepa.encoders.model import Model, as_model, embed, evaluating
from isojepa.io import to_jsonable
from isojepa.objectives.objective import Loss, as_objective
from isojepa.probes import Evaluation
from isojepa.registry import Spec, find
from isojepa.seeds import generator


def check_source(source: Source, n: int = 6) -> None:
    """A source: its batches are what its facts say, depend on the generator alone, and leave the global one.

    Args:
        source: what is checked.
        n: states to draw.
    """
    facts = source.facts
    before = torch.get_rng_state()
    batch, again = (source.sample(n, generator(0, "check")) for _ in range(2))
    other = source.sample(n, generator(1, "check"))
    assert torch.equal(torch.get_rng_state(), before), "sample must not draw from torch's global generator"
    assert isinstance(batch, Batch), f"sample must return a Batch, got {type(batch).__name__}"
    assert len(batch) == n, f"sample({n}) must return {n} states, got {len(batch)}"
    _check_same(batch, again, "two samples of one generator")
    assert any(not torch.equal(a, b) for a, b in zip(batch.views, other.views, strict=True)), (
        "samples of two generators must differ"
    )
    shapes = tuple(tuple(view.shape[1:]) for view in batch.views)
    assert facts.shapes in (None, shapes), f"facts.shapes must be {shapes}, got {facts.shapes}"
    if facts.dim is not None:
        assert batch.z is not None, f"facts.dim is {facts.dim}, so batches must bring latents"
        for z in batch.z:
            assert z.shape == (n, facts.dim), f"latents must be ({n}, {facts.dim}), got {tuple(z.shape)}"
    if observable(source):
        assert batch.z is not None, "an observable source must bring latents"
        observed = source.observe(batch.z[0])
        torch.testing.assert_close(observed, batch.views[0], msg="observe(z) must be what is seen at z")
    if moving(source):
        path = source.trajectory(3, 4, generator(0, "check"))
        assert path.x.shape[:2] == (4, 3), f"trajectories must be (4, 3, ...), got {tuple(path.x.shape)}"
    if ordered(source):
        assert len(source.in_order().sample(n, generator(0, "check"))) == n, "in_order() must be a source"
    if finite(source):
        _check_finite(source)


def check_observers(observers: Observers, n: int = 6) -> None:
    """Observers of the same states: sources are sources, pairs come again, and splits share no state.

    Args:
        observers: what is checked; every two of them must have seen some states of each split both.
        n: states to draw from each source.
    """
    names = observers.names
    assert len(names) >= 2, f"observers must be two at least, got {names}"
    assert len(set(names)) == len(names), f"observers must have different names, got {names}"
    for name in names:
        check_source(observers.source(name), n)
    states: dict[str, set[int]] = {"train": set(), "test": set()}
    for number, first in enumerate(names):
        for second in names[number + 1 :]:
            check_source(observers.paired(first, second), n)
            for split, seen in states.items():
                pairs, again = (observers.pairs(first, second, split) for _ in range(2))
                assert torch.equal(pairs.ids, again.ids), f"pairs of {first} and {second} must come again"
                seen |= set(pairs.ids.tolist())
    both = states["train"] & states["test"]
    assert not both, f"train and test must share no state, got {len(both)}, e.g. {min(both, default=None)}"


def check_encoder(encoder: nn.Module | Model, x: Tensor) -> None:
    """A model: embeddings and features are a row for each observation, and evaluation is deterministic.

    Args:
        encoder: what is checked.
        x: (batch, ...) observations.
    """
    model = as_model(encoder)
    with evaluating(encoder), torch.no_grad():
        for name, answer in (("features", model.features), ("embed", model.embed)):
            h = answer(x)
            assert isinstance(h, Tensor), f"{name} must return a tensor, got {type(h).__name__}"
            assert h.ndim == 2 and len(h) == len(x), f"{name} must be (batch, dim), got {tuple(h.shape)}"  # noqa: PT018
    together, alone = embed(encoder, x), torch.cat([embed(encoder, row[None]) for row in x])
    torch.testing.assert_close(
        together, alone, rtol=1e-4, atol=1e-5, msg="in evaluation mode rows must not depend on each other"
    )


def check_objective(
    objective: Callable[..., Any], models: Mapping[str, nn.Module] | nn.Module, batch: Batch
) -> None:
    """An objective: a finite scalar with named terms, which depends on the generator alone and has gradients.

    Args:
        objective: an `Objective` or a loss of views.
        models: what it is called with; one alone is the "encoder".
        batch: what it is called with.
    """
    named = {"encoder": models} if isinstance(models, nn.Module) else dict(models)
    whole = as_objective(objective)
    answering = {name: as_model(module) for name, module in named.items()}
    before = torch.get_rng_state()
    losses = [whole(answering, batch, generator(0, "check")) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), before), "an objective must draw from its generator alone"
    loss = losses[0]
    assert isinstance(loss, Loss), f"an objective must return a Loss, got {type(loss).__name__}"
    assert loss.total.ndim == 0, f"the total must be a scalar, got shape {tuple(loss.total.shape)}"
    assert bool(torch.isfinite(loss.total)), f"the total must be finite, got {loss.total.item()}"
    assert torch.equal(loss.total, losses[1].total), "two calls with one generator must agree"
    assert "loss" not in loss.terms, "no term may be called 'loss': that is the total"
    for name, term in loss.terms.items():
        assert term.numel() == 1, f"term {name!r} must be one number, got shape {tuple(term.shape)}"
    parameters = [p for module in named.values() for p in module.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss.total, parameters, allow_unused=True)
    assert any(g is not None and bool(g.abs().sum() > 0) for g in gradients), "no model gets a gradient"


def check_evaluation(evaluation: Evaluation, models: Mapping[str, nn.Module] | nn.Module) -> None:
    """An evaluation: numbers by name with its primary one among them, the same at every call.

    Args:
        evaluation: what is checked.
        models: what it is called with; one alone is the "encoder".
    """
    named = {"encoder": models} if isinstance(models, nn.Module) else dict(models)
    answering = {name: as_model(module) for name, module in named.items()}
    rows = [evaluation(answering, generator(0, "check")) for _ in range(2)]
    assert all(isinstance(value, float) for value in rows[0].values()), f"numbers must be floats: {rows[0]}"
    assert evaluation.primary in rows[0], f"{evaluation.primary!r} must be among {sorted(rows[0])}"
    assert rows[0] == rows[1], "two calls with one generator must agree"
    assert evaluation.every is None or evaluation.every >= 1, f"every must be none or positive: {evaluation}"
    assert evaluation.name, "an evaluation must have a name"


def check_spec(spec: Spec) -> None:
    """A spec: it is found by its name, and a config that has it survives its way through JSON, resolved.

    Args:
        spec: of a world, an encoder or an objective, or of what they choose.
    """
    assert find(spec.kind, spec.name) is type(spec), f"{spec.kind} {spec.name!r} must be registered"
    section = next((name for name, kind in SECTIONS.items() if kind == spec.kind), None)
    if section is None:
        return
    start = Config()
    if section == "world":  # its number of latents may be unknown
        start = replace(start, encoder=MLPSpec(dim=2))
    config = replace(start, **{section: spec})  # type: ignore[arg-type]
    written = to_jsonable(config.to_dict())
    back = config_from(written)
    assert to_jsonable(back.to_dict()) == written, "a resolved config must be the same when it is read again"
    assert getattr(back, section) == getattr(config.resolved(), section), (
        f"{section} must come back as it was"
    )


def _check_finite(source: Any) -> None:
    size = source.facts.size
    ids = torch.arange(size)[: min(size, 4)]
    streams = Streams(0, torch.zeros_like(ids), ids)
    whole = source.take(ids, streams)
    assert len(whole) == len(ids), f"take must return {len(ids)} states, got {len(whole)}"
    for row in range(len(ids)):
        one = source.take(
            ids[row : row + 1], Streams(0, torch.zeros(1, dtype=torch.int64), ids[row : row + 1])
        )
        for a, b in zip(whole.views, one.views, strict=True):
            assert torch.equal(a[row], b[0]), "a state must not depend on what else is in its batch"


def _check_same(first: Batch, second: Batch, what: str) -> None:
    for a, b in zip((*first.views, *(first.z or ())), (*second.views, *(second.z or ())), strict=True):
        assert torch.equal(a, b), f"{what} must be equal"

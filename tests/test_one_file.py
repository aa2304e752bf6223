"""examples/lejepa_one_file.py computes what the package computes, function by function."""

import ast
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import isojepa as ij

PATH = Path(__file__).parent.parent / "examples/lejepa_one_file.py"
MAX_LINES = 300
TOLERANCE = 1e-6


def _load():
    spec = importlib.util.spec_from_file_location("lejepa_one_file", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


one_file = _load()


def test_it_is_short_and_imports_torch_and_the_standard_library_alone():
    source = PATH.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MAX_LINES
    imports = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imports |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imports.add(node.module.partition(".")[0])
    assert imports <= sys.stdlib_module_names | {"numpy", "torch"}


def test_the_world_draws_the_same_pairs(spiral):
    batch = spiral.sample(1000, ij.generator(0, "data", 3))
    z, z_next = one_file.sample_latents(1000, one_file.make_generator(0, "data", 3))
    for theirs, ours in zip((z, z_next), batch.z, strict=True):
        torch.testing.assert_close(theirs, ours, rtol=0, atol=TOLERANCE)
    for theirs, ours in zip((z, z_next), batch.views, strict=True):
        torch.testing.assert_close(one_file.spiral(theirs), ours, rtol=0, atol=TOLERANCE)


def _embeddings(dim, n, dtype):
    """Two views (view, batch, dim), neither white nor centered."""
    h = torch.randn(2, n, dim, generator=ij.generator(0, "test"), dtype=dtype)
    return 1.3 * h + 0.2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("dim", "n"), [(2, 256), (2, 2048), (8, 1000), (200, 250)])
def test_sigreg_has_the_same_value_and_gradient(dim, n, dtype):
    theirs, ours = (_embeddings(dim, n, dtype).requires_grad_() for _ in range(2))
    value = one_file.sigreg(theirs, one_file.make_generator(0, "slices"))
    expected = ij.objectives.SIGReg()(ours, ij.generator(0, "slices"))
    torch.testing.assert_close(value, expected, rtol=TOLERANCE, atol=0)
    value.backward()
    expected.backward()
    torch.testing.assert_close(theirs.grad, ours.grad, rtol=0, atol=TOLERANCE * float(ours.grad.abs().max()))


def test_the_loss_has_the_same_terms():
    h = _embeddings(2, 2048, torch.float32)
    loss = one_file.lejepa(h, one_file.make_generator(0, "slices"))
    expected = ij.objectives.LeJEPA()(h, ij.generator(0, "slices"))
    for value, same in [
        (loss.total, expected.total),
        (loss.alignment, expected.terms["alignment"]),
        (loss.regularizer, expected.terms["regularizer"]),
    ]:
        torch.testing.assert_close(value, same, rtol=TOLERANCE, atol=0)


@pytest.mark.parametrize("shape", [{}, {"width": 16, "layers": 3}, {"layers": 1}])
def test_the_encoder_starts_from_the_same_weights_and_gives_the_same_embeddings(shape):
    theirs = one_file.make_mlp(in_dim=3, out_dim=2, seed=4, **shape)
    ours = ij.encoders.MLP(in_dim=3, out_dim=2, seed=4, **shape)
    for parameter, same in zip(theirs.parameters(), ours.parameters(), strict=True):
        assert torch.equal(parameter, same)
    x = torch.randn(2, 100, 3, generator=ij.generator(0, "test"))
    torch.testing.assert_close(theirs(x), ours(x), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("steps", [1, 5, 41, 2000])
def test_batch_sizes_and_learning_rates_are_those_of_the_recipe(steps):
    recipe = ij.Recipe(steps=steps)
    for step in range(steps):
        factor = ij.training.SCHEDULES[recipe.schedule](step, steps, recipe.warmup)
        assert one_file.batch_size_at(step, steps) == recipe.batch_at(step)
        assert one_file.learning_rate_at(step, steps) == pytest.approx(recipe.learning_rate * factor)


class _Double(nn.Module):
    def forward(self, x):
        return x.double()


def _trained(world, seed, steps, double):
    """Absolute difference of each weight after the same steps here and in the package."""
    theirs, ours = one_file.make_mlp(2, 2, seed=seed), ij.encoders.MLP(2, 2, seed=seed)
    if double:
        theirs, ours = (nn.Sequential(_Double(), encoder.double()) for encoder in (theirs, ours))
    one_file.train(theirs, steps, seed)
    ij.fit(ours, world, ij.objectives.LeJEPA(), seed=seed, steps=steps, progress=False)
    pairs = zip(theirs.parameters(), ours.parameters(), strict=True)
    return torch.cat([(parameter - same).detach().abs().flatten() for parameter, same in pairs])


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore::isojepa.training.RunWarning")  # few steps may leave a direction dead
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_training_ends_with_the_weights_of_fit(spiral, seed):
    assert _trained(spiral, seed, steps=5, double=True).max() < 1e-9
    difference = _trained(spiral, seed, steps=5, double=False)
    # AdamW divides by the size of a gradient, which amplifies the rounding of the few gradients near 0
    assert difference.quantile(0.999) < TOLERANCE
    assert difference.max() < 10 * TOLERANCE


def _imperfect(n, dim):
    """Latents and embeddings of n pairs: nearly a rotation, with a quadratic component."""
    z, z_next = one_file.sample_latents(n, ij.generator(0, "test"), dim=dim)
    q = torch.linalg.qr(torch.randn(dim, dim, generator=ij.generator(1, "test")))[0]
    h, h_next = (0.95 * view @ q + 0.1 * (view**2 - 1) + 3.0 for view in (z, z_next))
    return h, h_next, z


@pytest.mark.parametrize(("n", "dim"), [(4000, 2), (10_000, 5)])
def test_r2_error_and_bound_are_those_of_the_certificate(n, dim):
    h, h_next, z = _imperfect(n, dim)
    recovery = ij.certificates.measure_recovery(h.numpy(), z.numpy())
    assert one_file.held_out_r2(h, z) == pytest.approx(recovery.r2_h_to_z.estimate, abs=TOLERANCE)
    assert one_file.procrustes_error(h, z) == pytest.approx(recovery.procrustes_error.estimate, abs=TOLERANCE)
    theirs = one_file.measure_bound(h, h_next, rho=0.95)
    ours = ij.certificates.measure_bound(h.numpy(), h_next.numpy(), rho=0.95)
    values = (ours.epsilon.estimate, ours.delta.estimate, ours.d_clipped, ours.bound.estimate)
    assert theirs == pytest.approx(values, abs=TOLERANCE)


def test_its_evaluation_is_that_of_certify(spiral):
    encoder = ij.encoders.MLP(2, 2)
    certificate = ij.certify(encoder, spiral, seed=1, checks=False)
    z, z_next = one_file.sample_latents(certificate.samples, one_file.make_generator(1, "certify"))
    with torch.no_grad():
        h, h_next = (encoder(one_file.spiral(view)) for view in (z, z_next))
    theirs = one_file.held_out_r2(h, z), one_file.measure_bound(h, h_next).bound
    ours = certificate.recovery.r2_h_to_z.estimate, certificate.bound.bound.estimate
    np.testing.assert_allclose(theirs, ours, rtol=TOLERANCE)


@pytest.mark.slow
def test_it_recovers_the_spiral_within_its_bound(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(PATH)])
    one_file.main()
    out = capsys.readouterr().out
    r2, error, bound = (
        float(re.search(rf"^{name} +(\S+) ", out, re.MULTILINE)[1])
        for name in ("held-out R2", "error", "bound")
    )
    assert r2 > 0.99
    assert 0 < error < bound < 0.2

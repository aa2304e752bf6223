"""The certificate: from encoders, arrays and files; its words; what it refuses."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import isojepa as ij
from isojepa.data.array_files import read_array, read_named
from isojepa.io import to_jsonable


def turn(dim, seed=0):
    q, _ = torch.linalg.qr(torch.randn(dim, dim, generator=ij.generator(seed, "turn")))
    return q


def test_the_true_inverse_with_a_rotation_is_certified_a_world_model(spiral):
    q = turn(2)
    certificate = ij.certify(lambda x: ij.data.Spiral().inverse(x) @ q, spiral, samples=20_000, checks=False)
    assert certificate.grade == "rotation"
    assert certificate.verdict.startswith("World model: the embedding is a rotation of the latents")
    assert certificate.recovery.r2_orthogonal.estimate > 0.999999
    assert certificate.holds is True


def test_the_observations_of_the_spiral_are_gaussian_but_no_world_model(spiral):
    certificate = ij.certify(lambda x: x, spiral, samples=20_000, checks=False)
    assert certificate.grade == "none"
    assert certificate.bound.epsilon.estimate < 0.1  # the spiral preserves N(0, I): whitening sees nothing
    assert certificate.bound.d.low > 0.1  # alignment does
    assert certificate.holds is True


def test_a_stretch_is_called_linear_but_not_a_rotation(gaussian_pairs):
    z, _ = gaussian_pairs
    certificate = ij.certify(z * torch.tensor([1.0, 2.0, 3.0]), latents=z)
    assert certificate.grade == "linear"
    assert "Linear but not a rotation" in certificate.verdict


def test_without_latents_the_bound_alone_certifies(gaussian_pairs):
    z, z_next = ij.data.OrnsteinUhlenbeck(3, 0.9).sample(200_000, ij.generator(0, "many"))
    q = turn(3)
    certificate = ij.certify(z @ q, next=z_next @ q, rho=0.9, rho_from="design")
    assert certificate.recovery is None
    assert certificate.grade == "bounded"
    assert "certified without labels" in certificate.verdict
    bent = ij.certify(torch.sin(2 * z), next=torch.sin(2 * z_next), rho=0.9, checks=False)
    assert bent.grade == "unproven"


def test_collapse_is_seen_even_when_no_single_dimension_is_dead(gaussian_pairs):
    z, z_next = gaussian_pairs
    flat = torch.tensor([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    certificate = ij.certify(z @ flat, next=z_next @ flat, rho=0.9)
    assert certificate.grade == "collapsed"
    assert certificate.verdict.startswith("Collapsed: the embedding does not fill its 2 dimensions")


def test_what_is_small_few_or_wide_is_not_called_collapsed(gaussian_pairs):
    z, _ = gaussian_pairs
    assert ij.certify(0.03 * z, checks=False).grade == "unproven"
    assert (
        ij.certify(torch.randn(500, 600, generator=ij.generator(0, "few")), checks=False).grade == "unproven"
    )
    wide = z @ torch.randn(3, 5, generator=ij.generator(0, "wide"))
    assert ij.certify(wide, latents=z, checks=False).grade == "linear"


def test_a_wrong_rho_certifies_nothing():
    # half the variance is quadratic: the bound is large with the true rho, delta negative with a smaller one
    z, z_next = ij.data.OrnsteinUhlenbeck(2, 0.95).sample(50_000, ij.generator(0, "wrong"))

    def bend(z):
        return (z + (z**2 - 1) / 2**0.5) / 2**0.5

    right = ij.certify(bend(z), next=bend(z_next), rho=0.95, checks=False)
    wrong = ij.certify(bend(z), next=bend(z_next), rho=0.95**2, checks=False)
    assert right.grade == "unproven"
    assert not right.bound.refuted
    assert wrong.grade == "refuted"
    assert "rho is wrong or the world is another" in wrong.verdict
    labelled = ij.certify(bend(z), next=bend(z_next), latents=z, rho=0.95**2, checks=False)
    assert labelled.holds is None
    assert "rho is wrong or the world is another" in labelled.verdict


def test_a_dropped_latent_gets_no_bound_when_it_can_be_known(spiral):
    world = ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.95))
    certificate = ij.certify(lambda x: x[:, :1], world, samples=4000, checks=False)
    assert certificate.bound is None
    assert "as many embedding dimensions as latents, 2, got 1" in certificate.bound_missing


def test_a_world_of_ones_own_needs_only_to_be_sampled():
    class Own:
        facts = ij.data.Facts(dim=2)

        def sample(self, n, generator):
            z = torch.randn(n, 2, generator=generator)
            return ij.data.Batch((z, z), z=(z, z))

    certificate = ij.certify(lambda x: x, Own(), samples=1000, checks=False)
    assert certificate.grade == "rotation"
    assert "does not say how its pairs correlate" in certificate.bound_missing


def test_frozen_parts_of_an_encoder_stay_frozen(spiral):
    encoder = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Dropout(0.5))
    encoder.train()
    encoder[0].eval()
    ij.certify(encoder, spiral, samples=100)
    assert [part.training for part in encoder.modules()] == [True, False, True]


def test_what_is_missing_for_a_bound_is_said_to_programs_too(gaussian_pairs):
    z, z_next = gaussian_pairs
    assert ij.certify(z, next=z_next, checks=False).bound_lacks == "rho"
    assert ij.certify(z, latents=z, rho=0.9, checks=False).bound_lacks == "pairs"
    assert (
        ij.certify(z[:, :2], next=z_next[:, :2], latents=z, rho=0.9, checks=False).bound_lacks == "dimension"
    )
    heavy = ij.data.World(ij.data.NoisyCopies(2, 0.9, ij.distributions.StudentT()))
    assert ij.certify(lambda x: x, heavy, samples=2000, checks=False).bound_lacks == "world"
    whole = ij.certify(z, next=z_next, rho=0.9, checks=False)
    assert whole.bound is not None
    assert whole.bound_lacks is whole.bound_missing is None


def test_the_bound_of_noisy_copies_uses_their_own_correlation():
    world = ij.data.World(ij.data.NoisyCopies(2, 0.9))
    certificate = ij.certify(lambda x: x, world, samples=50_000, checks=False)
    assert certificate.bound.rho == pytest.approx(0.81)
    assert certificate.bound.delta.low < 0 < certificate.bound.delta.high


def test_a_certificate_is_reproducible_and_depends_on_its_seed(spiral):
    encoder = ij.encoders.MLP(2, 2, width=8)
    dicts = [ij.certify(encoder, spiral, samples=2000, seed=seed).to_dict() for seed in (1, 1, 2)]
    assert dicts[0] == dicts[1] != dicts[2]
    json.dumps(to_jsonable(dicts[0]), allow_nan=False)


def test_files_of_every_kind_give_the_same_certificate(tmp_path, gaussian_pairs):
    z, z_next = (part.double() for part in gaussian_pairs)
    h, h_next = z @ turn(3).double(), z_next @ turn(3).double()
    np.savez(tmp_path / "a.npz", h=h.numpy(), h_next=h_next.numpy(), z=z.numpy())
    save_file(
        {"embeddings": h.contiguous(), "embeddings_next": h_next.contiguous(), "latents": z},
        tmp_path / "a.safetensors",
    )
    np.save(tmp_path / "h.npy", h.numpy())
    direct = ij.certify(h, next=h_next, latents=z, rho=0.9, checks=False).to_dict()
    for name in ("a.npz", "a.safetensors"):
        arrays = read_named(tmp_path / name)
        read = ij.certify(arrays["h"], next=arrays["h_next"], latents=arrays["z"], rho=0.9, checks=False)
        assert read.to_dict() == direct
    assert np.array_equal(read_array(tmp_path / "h.npy"), h.numpy())


BAD = [
    (np.ones((1, 2)), {}, "embeddings must have at least 2 samples"),
    (np.array([[1.0, np.nan]] * 4), {}, "embeddings must be finite, got NaN or Inf in 4 of 4 samples"),
    (np.ones((5, 2)), {"next": np.ones((4, 2))}, "must have equal lengths, got 5 and 4"),
    (
        np.ones((5, 2)),
        {"next": np.ones((5, 3))},
        r"both views must have one shape, got \(5, 2\) and \(5, 3\)",
    ),
    (np.array([["a", "b"]] * 4), {}, "embeddings must hold real numbers"),
    (np.ones((9, 2)), {"next": np.ones((9, 2)), "rho": 1.2}, r"rho must lie in \(0, 1\), got 1.2"),
    (np.ones((9, 2)), {"rho": [0.9, 0.8]}, r"rho must be a number or None, got \[0.9, 0.8\]"),
    (np.full((9, 2), 1e200), {}, "embeddings must be below 1e\\+50 in size, got 1e\\+200"),
    (np.ones((9, 2)), {"confidence": 1.0}, r"confidence must lie in \(0, 1\), got 1.0"),
]


@pytest.mark.parametrize(("h", "options", "message"), BAD)
def test_bad_embeddings_are_refused_with_what_is_wrong(h, options, message):
    with pytest.raises(ValueError, match=message):
        ij.certify(h, **options)


def test_an_encoder_without_a_world_and_arrays_with_one_are_refused(spiral):
    with pytest.raises(ValueError, match="an encoder needs a world"):
        ij.certify(ij.encoders.MLP(2, 2))
    with pytest.raises(ValueError, match="the source must be an encoder"):
        ij.certify(np.ones((5, 2)), spiral)
    with pytest.raises(ValueError, match="brings its own"):
        ij.certify(ij.encoders.MLP(2, 2), spiral, rho=0.9)


def test_damaged_and_strange_files_are_refused(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"not numpy")
    np.savez(tmp_path / "b.npz", h=np.ones((4, 2)), hidden=np.ones((4, 2)))
    np.savez(tmp_path / "h.npz", z=np.ones((4, 2)))
    np.savez(tmp_path / "c.npz", z=np.ones((4, 2)), h_next=np.ones((4, 2)))
    np.save(tmp_path / "d.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "e.xlsx").write_text("1,2")
    (tmp_path / "f.safetensors").write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00{}")
    cases = {
        "a.npy": "damaged or not a plain .npy file",
        "b.npz": "array name must be one of .* got 'hidden'",
        "c.npz": "must hold an array 'h' or 'embeddings'",
        "h.npz": "must hold an array 'h' or 'embeddings', got z",
        "d.npy": "damaged or not a plain .npy file",
        "e.xlsx": "of kind npy, npz, pt, safetensors, HDF5, Parquet or CSV, got ..xlsx.",
        "f.safetensors": "damaged or not a plain .safetensors file",
        "g.npy": "does not exist",
    }
    for name, message in cases.items():
        with pytest.raises(ValueError, match=message):
            read_named(tmp_path / name)


@pytest.mark.parametrize("wide", [False, True])
def test_a_direction_scaled_to_nothing_is_collapsed_although_a_linear_map_reads_it(wide):
    z = torch.randn(2000, 3, generator=ij.generator(0, "data"), dtype=torch.float64)
    h = z * torch.tensor([1.0, 1.0, 1e-9], dtype=torch.float64)
    certificate = ij.certify(torch.cat([h, h[:, :1]], 1) if wide else h, latents=z, checks=False)
    assert certificate.recovery.r2_h_to_z.estimate > 0.99
    assert certificate.grade == "collapsed"


def test_no_variance_is_below_0():
    for seed in range(20):
        z = torch.randn(500, 2, generator=ij.generator(seed, "data"), dtype=torch.float64)
        wide = z @ torch.randn(2, 6, generator=ij.generator(seed, "wide"), dtype=torch.float64)
        assert ij.certify(wide, latents=z, checks=False).smallest_variance >= 0

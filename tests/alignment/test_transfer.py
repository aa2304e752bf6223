"""Probes carried over a map: exact for every kind of head, and worth what held-out states say."""

import numpy as np
import pytest
import torch
from torch import nn

from isojepa.alignment import AlignmentMap, LinearHead, transfer_head
from isojepa.probes.linear import Logistic, fit_logistic


def pairs(first=6, second=6, rows=400, condition=3.0, noise=0.0, seed=0):
    """Rows of two encoders whose means and scales are far from 0 and 1."""
    rng = np.random.default_rng(seed)
    z1 = rng.normal(size=(rows, first)) * np.geomspace(0.1, 30, first) + rng.normal(size=first) * 5
    u, v = (np.linalg.qr(rng.normal(size=(d, d)))[0] for d in (second, first))
    k = min(first, second)
    w = (u[:, :k] * np.geomspace(1, 1 / condition, k)) @ v[:k]
    z2 = ((z1 - z1.mean(0)) / z1.std(0)) @ w.T * np.geomspace(20, 0.5, second) - 7
    return z1, z2 + noise * z2.std(0) * rng.normal(size=z2.shape)


def near(found, truth):
    np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-9 * np.abs(truth).max())


WIDTHS = {"equal": (6, 6, 3.0), "wider": (4, 7, 3.0), "narrower": (7, 4, 3.0), "ill": (6, 6, 1e5)}


@pytest.mark.parametrize("case", WIDTHS)
@pytest.mark.parametrize("kind", ["ols", "ridge", "scaled_procrustes"])
def test_the_new_head_equals_the_old_one_behind_the_inverse(case, kind):
    first, second, condition = WIDTHS[case]
    z1, z2 = pairs(first, second, condition=condition, noise=0.0 if case == "ill" else 0.1)
    fitted = AlignmentMap(kind).fit(z1, z2)
    rng = np.random.default_rng(1)
    weight, bias = rng.normal(size=(3, first)), rng.normal(size=3)
    head = LinearHead(weight, bias, classes=("a", "b", "c"))
    back = fitted.inverse_transform(z2)
    near(transfer_head(head, fitted).logits(z2), back @ weight.T + bias)
    assert transfer_head(head, fitted).classes == head.classes
    logistic = transfer_head(Logistic(weight.T, bias), fitted)
    near(logistic.logits(z2), back @ weight.T + bias)


def test_a_map_that_was_fitted_backwards_is_applied_as_it_is():
    z1, z2 = pairs(5, 7, noise=0.3)
    fitted = AlignmentMap().fit(z2, z1)
    head = LinearHead(np.eye(5)[:2], [1.0, 2.0])
    near(transfer_head(head, fitted, backwards=True).logits(z2), head.logits(fitted.transform(z2)))


def test_layers_of_torch_keep_type_and_answers():
    z1, z2 = pairs(5, 5)
    fitted = AlignmentMap("ols").fit(z1, z2)
    back, rows = (torch.from_numpy(one) for one in (fitted.inverse_transform(z2), z2))
    layer = nn.Linear(5, 3).double()
    found = transfer_head(layer, fitted)
    assert type(found) is nn.Linear
    assert found.weight.dtype == torch.float64
    near(found(rows).detach().numpy(), layer(back).detach().numpy())
    bare = nn.Linear(5, 3, bias=False)
    near_32 = transfer_head(bare, fitted)(rows.float()).detach()
    torch.testing.assert_close(near_32, bare(back.float()).detach(), rtol=1e-3, atol=1e-3)
    network = nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 2)).double()
    near(transfer_head(network, fitted)(rows).detach().numpy(), network(back).detach().numpy())


def test_a_standardised_head_is_folded_into_rows_as_they_are():
    z1, _ = pairs()
    weight, mean, scale = np.random.default_rng(2).normal(size=(3, 6)), z1.mean(0), z1.std(0)
    head = LinearHead(weight, [1.0, 0.0, -1.0], mean=mean, scale=scale)
    near(head.logits(z1), (z1 - mean) / scale @ weight.T + [1.0, 0.0, -1.0])


def test_one_output_tells_two_classes_apart_by_its_sign():
    head = LinearHead([1.0, 0.0], -1.0, classes=("no", "yes"))
    assert head([[2.0, 5.0], [0.5, 5.0]]).tolist() == [1, 0]
    assert head.named([[2.0, 0.0]]) == ["yes"]


def test_an_estimator_is_put_behind_the_map():
    pytest.importorskip("sklearn")
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    z1, z2 = pairs(4, 6, noise=0.05)
    y = (z1[:, 0] > z1[:, 0].mean()).astype(int)
    fitted = AlignmentMap("ols").fit(z1, z2)
    back = fitted.inverse_transform(z2)
    for head in (
        KNeighborsClassifier(3),
        LogisticRegression(),
        SVC(kernel="linear"),
        make_pipeline(PCA(2), LogisticRegression()),
    ):
        found = transfer_head(head.fit(z1, y), fitted)
        np.testing.assert_array_equal(found.predict(z2), head.predict(back))
        assert found.score(z2, y) == head.score(back, y)
        assert hasattr(found, "predict_proba") == hasattr(head, "predict_proba")


def test_an_ill_conditioned_map_leaves_directions_out_instead_of_blowing_them_up():
    z1, z2 = pairs(6, 6, condition=1e6)
    fitted = AlignmentMap("ols", threshold=100).fit(z1, z2)
    assert fitted.pseudo_
    head = LinearHead(np.random.default_rng(0).normal(size=(2, 6)))
    cut = transfer_head(head, fitted)
    whole = transfer_head(head, AlignmentMap("ols", threshold=1e9).fit(z1, z2))
    assert np.linalg.norm(cut.weight * z2.std(0)) < 1e-2 * np.linalg.norm(whole.weight * z2.std(0))


def test_a_saved_head_is_the_same_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    head = LinearHead(rng.normal(size=(3, 4)), rng.normal(size=3), ("cat", "dog", "émeu"))
    head.save(tmp_path / "head.safetensors", {"from": "test"})
    found = LinearHead.load(tmp_path / "head.safetensors")
    assert np.array_equal(found.weight, head.weight)
    assert np.array_equal(found.bias, head.bias)
    assert found.classes == head.classes


def test_the_weights_of_a_layer_of_torch_are_a_head(tmp_path):
    from safetensors.torch import save_file

    layer = nn.Linear(4, 3)
    tensors = {**layer.state_dict(), "mean": torch.arange(4.0), "scale": torch.full((4,), 2.0)}
    save_file({**tensors, "classes": torch.tensor([3, 5, 9])}, tmp_path / "layer.safetensors")
    head = LinearHead.load(tmp_path / "layer.safetensors")
    x = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    truth = layer((x - torch.arange(4.0)) / 2).detach().numpy()
    np.testing.assert_allclose(head.logits(x), truth, rtol=1e-5, atol=1e-6)
    assert head.classes == ("3", "5", "9")


BAD = {
    "weight must be finite": lambda: LinearHead([[np.nan, 1.0]]),
    "bias must be 2 numbers": lambda: LinearHead(np.eye(2), [1.0, 2.0, 3.0]),
    "scale must be positive": lambda: LinearHead(np.eye(2), scale=[1.0, 0.0]),
    "classes must be 2": lambda: LinearHead(np.eye(2), classes=("a",)),
    "mean must be 2 numbers": lambda: LinearHead(np.eye(2), mean=[1.0]),
    "weight must hold numbers": lambda: LinearHead([["a", "b"]]),
    "must have 2 columns": lambda: LinearHead(np.eye(2))(np.ones((3, 5))),
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_no_head_is_told(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()


def test_a_head_of_another_width_or_kind_is_refused(tmp_path):
    z1, z2 = pairs(4, 6)
    fitted = AlignmentMap("ols").fit(z1, z2)
    with pytest.raises(ValueError, match="must take the 4 columns"):
        transfer_head(LinearHead(np.eye(6)), fitted)
    with pytest.raises(ValueError, match="head must be"):
        transfer_head("head", fitted)
    with pytest.raises(ValueError, match="must be fitted"):
        transfer_head(LinearHead(np.eye(4)), AlignmentMap())
    fitted.save(tmp_path / "map.safetensors")
    with pytest.raises(ValueError, match="must be a linear head"):
        LinearHead.load(tmp_path / "map.safetensors")


def test_the_probe_of_this_package_keeps_its_answers_through_an_exact_map():
    z1, z2 = pairs(5, 5)
    y = (z1[:, 1] > z1[:, 1].mean()).astype(int)
    head = fit_logistic(z1, y, 2, 1e-3)
    fitted = AlignmentMap("ols").fit(z1, z2)
    assert (transfer_head(head, fitted)(z2) == head(z1)).all()

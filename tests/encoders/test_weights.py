"""Weights of others: by name, by order, and what is refused."""

import pickle
import zipfile

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from isojepa.encoders.weights import Matched, load_weights


class Small(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return self.norm(self.stem(x)).mean((2, 3))


class Other(nn.Module):
    """The same layers by other names, and a classifier."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3))
        self.head = nn.Linear(3, 7)

    def forward(self, x):
        return self.features(x).mean((2, 3))


def trained(module):
    with torch.no_grad():
        for value in module.state_dict().values():
            if value.is_floating_point():
                value.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(value.numel()))
    return module.eval()


def same(one, other):
    x = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    return torch.allclose(one.eval()(x), other(x))


@pytest.mark.parametrize("prefix", ["", "module.", "module.backbone."])
@pytest.mark.parametrize("kind", ["safetensors", "pt", "inside"])
def test_names_fit_whatever_stands_before_them(tmp_path, prefix, kind):
    source = trained(Small())
    state = {prefix + name: value for name, value in source.state_dict().items()}
    state["classifier.weight"] = torch.zeros(10, 3)
    path = tmp_path / ("w.safetensors" if kind == "safetensors" else "w.pt")
    if kind == "safetensors":
        save_file(state, path)
    else:
        torch.save({"state_dict": state, "epoch": 3} if kind == "inside" else state, path)
    module = Small()
    assert load_weights(module, path) == Matched("names", ("classifier.weight",))
    assert same(module, source)


def test_the_same_shapes_in_the_same_order_are_the_same_layers(tmp_path):
    source = trained(Other())
    torch.save(source.state_dict(), tmp_path / "w.pt")
    module = Small()
    assert load_weights(module, tmp_path / "w.pt") == Matched("order", ("head.weight", "head.bias"))
    assert same(module, source)


def test_other_layers_are_refused_and_the_module_stays_as_it_was(tmp_path):
    torch.save(trained(Small(4)).state_dict(), tmp_path / "w.pt")
    module = Small()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(
        ValueError, match=r"expected stem.weight \(3, 1, 3, 3\), got stem.weight \(4, 1, 3, 3\)"
    ):
        load_weights(module, tmp_path / "w.pt")
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    torch.save({"stem.weight": module.stem.weight.detach()}, tmp_path / "few.pt")
    with pytest.raises(ValueError, match="expected 6 tensors, got 1"):
        load_weights(module, tmp_path / "few.pt")


def test_what_cannot_be_read_safely_is_refused(tmp_path):
    module = Small()
    torch.save(module, tmp_path / "module.pt")
    with pytest.raises(ValueError, match="unpickled, which can run code"):
        load_weights(module, tmp_path / "module.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps({"a": print}))
    with pytest.raises(ValueError, match=r"unpickled|cannot be read"):
        load_weights(module, tmp_path / "plain.pt")
    (tmp_path / "w.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="cannot be read as safetensors"):
        load_weights(module, tmp_path / "w.safetensors")
    torch.save({"epoch": 3}, tmp_path / "none.pt")
    with pytest.raises(ValueError, match="must hold tensors by name"):
        load_weights(module, tmp_path / "none.pt")
    with pytest.raises(ValueError, match="does not exist"):
        load_weights(module, tmp_path / "missing.pt")
    torch.save(module.state_dict(), tmp_path / "whole.pt")
    with (
        zipfile.ZipFile(tmp_path / "whole.pt") as whole,
        zipfile.ZipFile(tmp_path / "small.pt", "w") as small,
    ):
        for name in whole.namelist():  # a few bytes of zeros may expand to gigabytes
            small.writestr(name, whole.read(name), zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="its parts are compressed"):
        load_weights(module, tmp_path / "small.pt")

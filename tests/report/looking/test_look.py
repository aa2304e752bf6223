"""A look and its page as a file: what it computes of a model, and what stands in the page."""

import json
import re

import numpy as np
import pytest
import torch
from torch import nn

from isojepa.data.images.augmentations import whole
from isojepa.data.images.image_sets import Stack
from isojepa.encoders import Headed
from isojepa.probes.features import features_of
from isojepa.report.looking import color_maps, kept_mass, look, nearest_others, write_look
from isojepa.report.looking.thumbnails import sheet, squares
from tests.report.looking.cases import HOSTILE, convnet, pictures, vit
from tests.report.test_page import Outline
from tests.vision import timm_or_skip

TITLES = {"model": "a model", "data": "pictures"}


def page_of(tmp_path, found, **more):
    file = tmp_path / "look.html"
    written = write_look(file, found, **{**TITLES, **more})
    text = file.read_text()
    assert written == len(text.encode())
    return text


def data_of(text):
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(match[1], parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_a_look_is_made_of_the_models_own_features_and_maps():
    model, shown = convnet(), pictures(50)
    found = look(model, shown, count=30, shown=6, neighbors=4, seed=3)
    ids = torch.tensor([int(name.removeprefix("picture ")) for name in found.names])
    assert len(set(ids.tolist())) == 30
    x = features_of(model, shown, ids=ids)
    np.testing.assert_array_equal(found.nearest.ids, nearest_others(x, 4).ids)
    assert found.labels.tolist() == shown.labels[ids].tolist()
    chosen = ids[torch.from_numpy(found.shown)]
    assert shown.labels[chosen].tolist() == [0, 1, 2, 0, 1, 2]  # each class in turn
    assert found.map_size == 2 * found.size  # 24 pixels give fewer positions than are wanted
    maps = model.eval().maps(whole(shown.read(chosen), found.map_size, shown.mean, shown.std))
    truth = color_maps(maps.detach().numpy())
    np.testing.assert_allclose(found.maps.colors, truth.colors, atol=1e-4)
    assert "no [CLS] token" in found.no_attention


def test_attention_is_looked_at_over_the_frames_of_a_clip():
    timm_or_skip()
    model, clip = vit(), pictures(3, classes=(), seed=5)
    found = look(Headed(model, nn.Linear(24, 4)), pictures(9), clip=clip, shown=4, share=0.5, map_size=32)
    assert found.attention.masks.shape == (3, 3, 8, 8)
    assert found.maps.colors.shape == (4 + 3, 8, 8, 3)
    mean, std = pictures(9).mean, pictures(9).std
    with torch.no_grad():
        weights = model.attention(whole(clip.read(torch.arange(3)), 32, mean, std)).numpy()
    np.testing.assert_array_equal(found.attention.masks[:, 0], kept_mass(weights.mean(1), 0.5))
    np.testing.assert_array_equal(found.attention.masks[:, 2], kept_mass(weights[:, 1], 0.5))


def test_a_backbone_of_one_size_is_looked_at_in_that_size():
    class Fixed(nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :10]

        def maps(self, x):
            if x.shape[-1] != 24:
                raise ValueError("24 pixels or nothing")
            return x[:, :, ::4, ::4]

    found = look(Fixed(), pictures(5))
    assert (found.map_size, found.maps.first.shape) == (24, (5, 6, 6))
    with pytest.raises(ValueError, match="24 pixels or nothing"):
        look(Fixed(), pictures(5), map_size=48)


def test_a_function_has_no_maps_and_no_attention(tmp_path):
    found = look(lambda x: x.flatten(1), pictures(8))
    text = page_of(tmp_path, found)
    assert "has no method maps(x)" in text
    assert "has no method attention(x)" in text


def test_names_and_classes_from_outside_are_escaped(tmp_path):
    found = look(convnet(), pictures(30))
    text = page_of(
        tmp_path,
        found,
        model="<script>alert(3)</script>",
        data="<img src=y>",
        config={"<b>": "</table>"},
        status="diverged",
        reason="<script>",
    )
    outline = Outline(text)
    tags = [tag for tag, _ in outline.tags]
    assert tags.count("script") == 2
    for tag, given in outline.tags:
        assert not any(name.startswith("on") for name in given)
        assert given.get("src", "data:").startswith("data:image/") or tag != "img"
    assert data_of(text)["classes"] == list(HOSTILE)
    assert all(name in outline.text for name in HOSTILE)
    assert any(HOSTILE[1] in (given.get("alt") or "") for _, given in outline.tags)


def test_every_picture_has_words_and_the_page_loads_nothing(tmp_path):
    text = page_of(tmp_path, look(convnet(), pictures(40)))
    images = [given for tag, given in Outline(text).tags if tag == "img"]
    assert len(images) > 12 * 9
    assert all("alt" in given for given in images)
    assert not re.search(r"""(?:src|href|url\()\s*=?\s*["']?(?:https?:)?//""", text)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("channels", [1, 3])
def test_few_pictures_are_enough(tmp_path, count, channels):
    found = look(convnet(channels), pictures(count, channels=channels), count=500, shown=12)
    text = page_of(tmp_path, found)
    assert len(data_of(text)["names"]) == count
    assert ("One picture alone has no neighbors" in text) == (count == 1)
    assert not found.collapsed
    assert "NaN" not in text
    assert "nan" not in Outline(text).text.split()


def test_a_collapsed_model_is_said_to_be_one(tmp_path):
    class Constant(nn.Module):
        def forward(self, x):
            return torch.full((len(x), 5), 2.0)

        def maps(self, x):
            return torch.ones(len(x), 5, 14, 14)

    for model in (Constant(), lambda x: torch.zeros(len(x), 3)):
        found = look(model, pictures(20))
        assert found.collapsed
        text = page_of(tmp_path, found)
        assert (
            "All pictures have nearly the same features: this model has collapsed or was not trained." in text
        )
        data = data_of(text)
        assert set(data["places"]["neighbors"] + data["places"]["axes"]) == {0}
        assert "nan" not in Outline(text).text.lower().split()


def test_features_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="NaN or Inf for 20 of 20 pictures"):
        look(lambda x: x.flatten(1) / 0, pictures(20))


def test_pictures_of_different_sizes_are_cut_to_one(tmp_path):
    class Mixed(Stack):
        shape = None

        def __init__(self):
            source = np.random.default_rng(0)
            sizes = [(24, 30), (1, 1), (40, 24), (200, 26), (24, 24)]
            self.images = [
                torch.from_numpy(source.integers(0, 255, (1, *size), dtype=np.uint8)) for size in sizes
            ]
            self.channels, self.labels, self.classes, self.skipped = 1, None, (), 0
            self.mean, self.std = (0.5,), (0.3,)

        def __len__(self):
            return len(self.images)

        def read(self, ids):
            return [self.images[index] for index in ids.tolist()]

    found = look(convnet(1), Mixed())
    assert (found.size, len(found.names), found.labels) == (24, 5, None)
    assert found.thumbnails.shape == (5, 24, 24, 3)
    assert "What a model makes of 5 pictures." in page_of(tmp_path, found)


def test_thumbnails_on_the_sheet_are_the_pictures():
    shown = pictures(7, size=20)
    cut = squares(shown, torch.arange(7), 20)
    np.testing.assert_array_equal(cut, shown.read(torch.arange(7)).movedim(1, -1).numpy())
    pixels, columns = sheet(cut)
    for index in range(7):
        row, column = divmod(index, columns)
        np.testing.assert_array_equal(
            pixels[20 * row : 20 * row + 20, 20 * column : 20 * column + 20], cut[index]
        )

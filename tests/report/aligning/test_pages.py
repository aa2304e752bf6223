"""The pages as files: what stands in them follows the numbers that were given, and text stays text."""

import dataclasses
import json
import re

import numpy as np
import pytest

from isojepa.alignment.sameness import HeldOutR2
from isojepa.report.aligning import Alignment, Layers, write_alignment, write_same
from isojepa.statistics.intervals import Interval
from tests.report.aligning.cases import HOSTILE, alignment, comparisons, embeddings, verdict
from tests.report.test_page import Outline, data_of


def same_page(tmp_path, found, rows=None, **more):
    file = tmp_path / "same.html"
    written = write_same(file, found, *(rows or embeddings(found.verdict)), **more)
    text = file.read_text(encoding="utf-8")
    assert written == len(text.encode())
    return text


def alignment_page(tmp_path, found, **more):
    file = tmp_path / "align.html"
    written = write_alignment(file, found, **more)
    text = file.read_text(encoding="utf-8")
    assert written == len(text.encode())
    return text


def series(text, chart):
    return {one["name"]: one for one in data_of(text)["charts"][chart]["series"]}


@pytest.mark.parametrize(
    ("name", "headline", "panels"),
    [
        ("rotation", "left.npy and right.npy are the same up to a rotation.", 3),
        ("linear", "left.npy and right.npy are the same up to an invertible linear map.", 3),
        ("partly", "left.npy and right.npy are partly the same.", 3),
        ("unrelated", "left.npy and right.npy are unrelated.", 2),
        ("too-few", "Too few pairs to decide whether left.npy and right.npy are the same.", 2),
    ],
)
def test_each_verdict_has_a_page_that_says_so(tmp_path, name, headline, panels):
    text = same_page(tmp_path, verdict(name), names=("left.npy", "right.npy"))
    outline = Outline(text)
    assert f"<h1>{headline}</h1>" in text
    assert len(data_of(text)["panels"]) == panels
    assert sum(tag == "canvas" for tag, _ in outline.tags) == panels
    links = {given["href"] for tag, given in outline.tags if tag == "a"}
    assert links <= {f"#{given['id']}" for _, given in outline.tags if "id" in given}
    assert not {"nan", "None", "inf"} & {*re.findall(r"\w+", outline.text)}


def test_the_page_of_a_verdict_follows_its_numbers(tmp_path):
    found = verdict("linear")
    text = same_page(tmp_path, found)
    changed = dataclasses.replace(
        found,
        rotation=HeldOutR2(Interval(0.4321, 0.4101, 0.4501), 0.44),
        correlations=[0.99, 0.5, 0.123, 0.02, 0.01, -0.03],
        shared=2,
        spectrum=[8.0, 4.0, 2.0, 2.0, 2.0, 1.0],
        budget=[(20, 0.1, -0.2), (60, 0.5, 0.25)],
        pairs_needed=60,
        notes=["7 constant columns of first were left out"],
    )
    other = same_page(tmp_path, changed)
    told, before = Outline(other).text, Outline(text).text
    for number in ("0.432", "[0.410, 0.450]", "2 of 6", "7 constant columns of first were left out."):
        assert number in told
    for number in ("0.432", "2 of 6", "constant columns of"):
        assert number not in before
    assert series(other, "spectrum-of-w")["singular value"]["values"] == [8, 4, 2, 2, 2, 1]
    budget = series(other, "budget")
    assert budget["by a linear map"]["values"] == [0.1, 0.5]
    assert budget["by a rotation"]["values"] == [-0.2, 0.25]
    assert budget["enough"]["values"] == [None, 0.5]
    drawn = series(other, "correlations")
    assert drawn["shared"]["values"] == [0.99, 0.5, None, None, None, None]  # 3 / sqrt(400) is 0.15
    joined = [
        a if a is not None else b
        for a, b in zip(drawn["shared"]["values"], drawn["not shared"]["values"], strict=True)
    ]
    assert joined == [0.99, 0.5, 0.123, 0.02, 0.01, -0.03]


def test_every_number_of_a_verdict_stands_in_a_table(tmp_path):
    found = verdict("partly")
    rows = re.findall(r'data-value="([^"]+)"', same_page(tmp_path, found))
    shown = np.array([float(value) for value in rows])
    chances = (found.linear_chance,)
    wanted = [
        *(end for part in (found.linear, found.back, found.rotation) for end in dataclasses.astuple(part.r2)),
        *(part.asymptotic for part in (found.linear, found.back, found.rotation)),
        *(number for part in chances for number in (part.mean, part.largest, part.p)),
        *found.correlations,
        *found.spectrum,
        *(value for row in found.budget for value in row),
        *(found.pairs, found.required, found.pairs_needed, found.shared, found.condition),
        *(side.unshared_variance for side in (found.first, found.second)),
    ]
    for value in wanted:
        assert np.isclose(shown, value, rtol=1e-6, atol=1e-12).any(), value


def test_names_ids_and_classes_from_outside_stay_text(tmp_path):
    x, y = embeddings("rotation")
    ids = np.array([f"{HOSTILE[row % 2]}{row}" for row in range(len(x))])
    labels = np.arange(len(x)) % 2
    more = {"ids": ids, "labels": labels, "classes": HOSTILE, "config": {"<b>": "</table>"}}
    same_text = same_page(tmp_path, verdict("rotation"), names=HOSTILE, **more)
    found = Alignment(
        HOSTILE,
        {(0, 1): comparisons()[1][0, 1]},
        {(0, 1): HOSTILE[0]},
        [Layers((0, 1), HOSTILE, HOSTILE, np.eye(2))],
    )
    align_text = alignment_page(tmp_path, found, embeddings=(x, y), **more)
    for text in (same_text, align_text):
        outline = Outline(text)
        tags = [tag for tag, _ in outline.tags]
        assert tags.count("script") == 2
        assert "b" not in [tag for tag, given in outline.tags if given.get("src")]
        for tag, given in outline.tags:
            assert not any(name.startswith("on") for name in given)
            assert tag != "img" or given["src"].startswith("data:image/")
        assert HOSTILE[0] in outline.text
        assert not re.search(r"""(?:src|href|url\()\s*=?\s*["']?(?:https?:)?//""", text)
        assert "Content-Security-Policy" in text


def test_pictures_stand_beside_their_states(tmp_path):
    x = embeddings("linear")[0]
    pixels = np.zeros((len(x), 9, 9), np.uint8)
    text = same_page(tmp_path, verdict("linear"), pictures=pixels, ids=np.arange(len(x)) + 1000)
    images = [given for tag, given in Outline(text).tags if tag == "img"]
    assert len(images) == 8 * (1 + 2 * 10)
    assert all(re.fullmatch(r"1\d{3}", given["alt"]) for given in images)
    color = np.zeros((len(x), 300, 200, 3), np.uint8)
    assert len(same_page(tmp_path, verdict("linear"), pictures=color)) < 1_500_000


def test_the_page_of_an_alignment_follows_its_numbers(tmp_path):
    text = alignment_page(tmp_path, alignment())
    charts = data_of(text)["charts"]
    pairs = comparisons()[1]
    heat = charts["r2"]["heat"]
    assert charts["r2"]["rows"] == ["C", "B", "A"]
    assert heat[2][1] == pytest.approx(pairs[0, 1].aligned["R2"].value)
    assert heat[1][0] == pytest.approx(pairs[1, 0].aligned["R2"].value)
    assert heat[2][2] == pytest.approx(pairs[0, 2].aligned["R2"].value)
    assert heat[0] == [None, None, None]
    assert charts["kappa"]["heat"][2][1] == pytest.approx(pairs[0, 1].map.condition_)
    assert charts["cka"]["heat"][0][0] == charts["cka"]["heat"][2][2]  # it is the same both ways
    assert charts["layers-0"]["heat"] == [[0.9, 0.2, 0.1], [0.3, 0.4, 0.8]]
    nos = series(text, "nos-0-1")
    assert nos["after W⁻¹"]["values"] == pytest.approx(
        [pairs[0, 1].aligned[f"NOS@{k}"].value for k in (1, 5, 10)]
    )
    assert nos["by chance"]["values"] == pytest.approx([1 - k / 99 for k in (1, 5, 10)])
    assert "0.0625" in Outline(text).text
    assert "A → B → C → A" in Outline(text).text


def test_two_encoders_have_no_matrix_and_points_where_rows_are_given(tmp_path):
    rows, pairs = comparisons()
    found = Alignment(("left", "right"), {(0, 1): pairs[0, 1]})
    text = alignment_page(tmp_path, found)
    assert "r2" not in data_of(text)["charts"]
    assert data_of(text)["panels"] == []
    text = alignment_page(tmp_path, found, embeddings=rows[:2])
    assert len(data_of(text)["panels"]) == 3
    json.dumps(data_of(text), allow_nan=False)


def test_what_does_not_belong_together_is_refused(tmp_path):
    x, y = embeddings("linear")
    with pytest.raises(ValueError, match="names must be two, got 3"):
        write_same(tmp_path / "page.html", verdict("linear"), x, y, names=("a", "b", "c"))
    with pytest.raises(ValueError, match="rows"):
        write_same(tmp_path / "page.html", verdict("linear"), x, y[:-1])
    with pytest.raises(ValueError, match="two encoders and a pair"):
        Alignment(("a", "b"), {})
    with pytest.raises(ValueError, match=r"of the 3 encoders, got \(0, 3\)"):
        alignment(verdicts={(0, 3): "linear"})
    with pytest.raises(ValueError, match="1 layers by 2"):
        Layers((0, 1), ["a"], ["b", "c"], np.eye(2))
    with pytest.raises(ValueError, match="one for each encoder, 3, got 2"):
        write_alignment(tmp_path / "page.html", alignment(), embeddings=(x, y))
    assert not list(tmp_path.iterdir())

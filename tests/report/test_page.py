"""The page as a file."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isojepa as ij
from isojepa.report import write_page
from isojepa.report.glance import tiles
from isojepa.report.lines import signs
from tests.report.cases import CASES, METRICS
from tests.report.conftest import Sample, write


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match
    return json.loads(match[1], parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def losses(page: str) -> dict[str, list[float | None]]:
    return {one["name"]: one["values"] for one in data_of(page)["charts"]["losses"]["series"]}


class Outline(HTMLParser):
    """Start tags with their attributes, and the text of the page outside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += data


def test_text_from_outside_is_escaped(tmp_path: Path, sample: Sample) -> None:
    attack = "<script>alert(1)</script>"
    page = write(
        tmp_path / "page.html",
        sample,
        title=attack,
        config={attack: {"deep": "</table><img src=x onerror=alert(1)> {{js}}"}},
        metrics=[{"step": 1, "loss": 1.0, "</script><script>alert(2)</script>": 2.0}],
        status="diverged",
        reason=attack,
    )
    outline = Outline(page)
    assert [tag for tag, _ in outline.tags].count("script") == 2
    assert "img" not in [tag for tag, _ in outline.tags]
    assert outline.text.count(attack) == 4  # title, heading, warning, config
    assert "onerror=alert(1)> {{js}}" in outline.text
    assert "</script><script>alert(2)</script>" in losses(page)


def test_page_loads_nothing_and_is_small(tmp_path: Path, sample: Sample) -> None:
    many = [{**METRICS[0], "step": k, **{f"term {t}": 1 / 3 for t in range(4)}} for k in range(20_000)]
    page = write(tmp_path / "page.html", sample, metrics=many)
    assert len(page.encode()) < 500_000
    for tag, attributes in Outline(page).tags:
        assert "src" not in attributes
        assert (attributes.get("href") or "data:").startswith(("data:", "#")), tag
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, not a place to load from
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\s*\(", page)
    assert data_of(page)["charts"]["losses"]["x"][-1] == 19_999


def test_points_are_the_given_ones_thinned_evenly(tmp_path: Path, sample: Sample) -> None:
    data = data_of(write(tmp_path / "page.html", sample))
    kept = np.linspace(0, len(sample.latents) - 1, 3000).round().astype(int)
    arrays = (sample.latents, sample.observations, sample.embeddings)
    for panel, rows in zip(data["panels"], arrays, strict=True):
        np.testing.assert_allclose(np.reshape(panel["points"], (-1, 2)), rows[kept], atol=1e-3)
    turned = np.reshape(data["turned"], (-1, 2))
    assert np.sqrt(((turned - sample.latents[kept]) ** 2).mean()) < 0.05
    assert len(data["colors"]) == 3000


def test_nan_becomes_a_gap_and_no_metrics_leave_no_section(tmp_path: Path, sample: Sample) -> None:
    rows = [{"step": 1, "loss": math.nan, "r2": 0.5}, {"step": 2, "loss": 2.0, "r2": "nan"}]
    page = write(tmp_path / "page.html", sample, metrics=rows)
    data = data_of(page)
    assert losses(page) == {"loss": [None, 2.0]}
    assert data["charts"]["r2"]["series"][0]["values"] == [0.5, None]
    assert "Training" not in Outline(write(tmp_path / "page.html", sample, metrics=[])).text


def test_missing_parts_are_left_out(tmp_path: Path, sample: Sample) -> None:
    h, z = sample.embeddings, sample.latents
    alone = write(
        tmp_path / "page.html",
        sample,
        latents=None,
        observations=None,
        certificate=ij.certify(h, checks=False),
        seconds=None,
    )
    assert [panel["symbol"] for panel in data_of(alone)["panels"]] == ["h"]
    assert 'id="turn"' not in alone
    assert "No bound: it needs embeddings of both views of each pair." in Outline(alone).text
    assert "trained in" not in alone

    wide = np.column_stack((h, np.random.default_rng(2).normal(size=len(h))))
    wider = write(
        tmp_path / "page.html", sample, embeddings=wide, certificate=ij.certify(wide, latents=z, checks=False)
    )
    assert 'id="turn"' not in wider
    assert "first 2 of 3 coordinates" in Outline(wider).text


def test_the_tile_of_a_missing_bound_goes_by_what_is_lacking_not_by_words(gaussian_pairs) -> None:
    z, z_next = gaussian_pairs
    unknown = ij.certify(z, next=z_next, checks=False)
    reworded = replace(unknown, bound_missing="nobody told how near the pairs are")
    other = replace(unknown, bound_missing="the rho of the pairs is not known to matter", bound_lacks="world")
    told = [tiles(certificate) for certificate in (unknown, reworded, other)]
    assert ["ρ is not known" in text for text in told] == [True, True, False]


def test_a_refuted_bound_is_not_drawn_as_one_that_holds(tmp_path: Path, sample: Sample) -> None:
    z, z_next = ij.data.OrnsteinUhlenbeck(2, 0.95).sample(20_000, ij.generator(0, "page"))
    certificate = ij.certify(z, next=z_next, latents=z, rho=0.9, checks=False)
    assert certificate.bound is not None
    assert certificate.bound.refuted
    page = write(tmp_path / "page.html", sample, certificate=certificate)
    assert "The bound means nothing here" in page
    assert "lies within the bound" not in page
    assert "Error and bounds" not in page
    assert "bound D + (ε + D)²</div>" not in page


def test_gauges_are_not_drawn_as_loss_terms(tmp_path: Path, sample: Sample) -> None:
    rows = [{"step": k, "loss": 1.0, "r2": 0.5, "mean_variance": 1.0, "learning_rate": 0.1} for k in (1, 2)]
    assert set(losses(write(tmp_path / "page.html", sample, metrics=rows))) == {"loss"}


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_certificate_has_a_page_with_all_sections_and_its_words(
    tmp_path: Path, name: str
) -> None:
    case = CASES[name]()
    write_page(tmp_path / "page.html", **case.arguments())
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    data_of(page)
    outline = Outline(page)
    text = " ".join(outline.text.split())
    places = [attributes.get("id") for tag, attributes in outline.tags if tag == "section"]
    assert places[:4] == ["recovered", "bound", "spectrum", "assumptions"]
    links = [attributes["href"] for tag, attributes in outline.tags if tag == "a"]
    assert links == ["#recovered", "#bound", "#spectrum", "#assumptions"]
    certificate = case.certificate
    assert signs(certificate.verdict) in text
    for line in certificate.lines():
        assert signs(line.sentence[1:]) in text
    for item in certificate.assumptions:
        assert signs(item.sentence) in text
        assert signs(item.advice) in text
    if certificate.lags is not None and not certificate.lags.identifiable:
        assert all(reason in text for reason in certificate.lags.reasons)
        assert "without labels, from the decay" not in text
    ids = [attributes["id"] for _, attributes in outline.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    assert len(re.findall(r"\bnan\b", re.sub(r"<[^>]*>", "", page.partition("<script")[0]))) == 0

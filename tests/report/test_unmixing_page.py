"""The page of an unmixing, and the section of a certificate: what they show follows the axes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import isojepa as ij
from isojepa.certificates.named import describe_components
from isojepa.certificates.pairs import PairRows
from isojepa.report.formulas import LINES
from isojepa.report.sections.named import named as named_section
from isojepa.report.unmixing import write_unmixing
from tests.report.browser import CHROMIUM, browser
from tests.report.test_page import Outline, data_of
from tests.unmixing.rows import Rows, bent, normal


def written(path: Path, rows: Rows, title: str = "a small world", pairs: bool = True) -> str:
    second = rows["h_next"] if pairs else None
    embeddings = PairRows(rows["h"], second, rows.get("z"))
    found = ij.unmix(rows["h"], second)
    size = write_unmixing(path, describe_components(found, embeddings), embeddings, title=title)
    text = path.read_text(encoding="utf-8")
    assert size == len(text.encode())
    return text


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("page") / "page.html", bent(), "<b>mine</b>")


def test_the_verdict_leads_and_text_from_outside_is_escaped(page: str) -> None:
    assert "<h1>All 2 components are identified, each up to its sign.</h1>" in page
    assert "<b>mine</b>" not in page
    assert "No data can refute that diffusion is constant." in Outline(page).text


def test_every_axis_has_a_row_and_its_charts(page: str) -> None:
    charts = data_of(page)["charts"]
    kinds = ("law", "warp", "spread", "partner")
    assert set(charts) == {f"{kind}-{axis}" for kind in kinds for axis in (0, 1)}
    assert page.count("by shape</td>") == 2
    for name in charts:
        assert page.count(f'id="{name}"') == 1


def test_the_charts_show_what_straightening_does(page: str) -> None:
    charts = data_of(page)["charts"]
    spread = {one["name"]: np.array(one["values"]) for one in charts["spread-0"]["series"]}
    middle = slice(4, 16)  # walls hold increments back at the ends
    assert np.ptp(spread["linearized"][middle]) < 0.5 * np.ptp(spread["as found"][middle])
    law = charts["law-0"]
    width = np.diff(law["x"]).mean()
    assert sum(law["series"][0]["values"]) * width == pytest.approx(1, abs=1e-6)
    warp = charts["warp-0"]["series"][0]
    assert (np.diff(warp["values"]) > 0).all()
    assert all(
        low <= z <= high
        for low, z, high in zip(warp["ends"][0], warp["values"], warp["ends"][1], strict=True)
    )
    points = charts["partner-0"]
    assert abs(np.corrcoef(points["x"], points["series"][0]["values"])[0, 1]) > 0.999
    assert (np.diff(points["x"]) >= 0).all()


def test_axes_of_a_block_have_their_law_alone(tmp_path: Path) -> None:
    rows = normal()
    page = written(tmp_path / "page.html", {"h": rows["h"], "h_next": rows["h_next"]})
    assert "<h1>No component is identified" in page
    assert "0 of 3 identified" in page
    assert set(data_of(page)["charts"]) == {
        f"{kind}-{axis}" for kind in ("law", "spread") for axis in range(3)
    }
    assert "block 0 to 2" in page


def test_a_certificate_has_the_section_only_where_it_was_asked_for() -> None:
    rows = bent()
    found = ij.certify(rows["h"], next=rows["h_next"], latents=rows["z"], checks=False, unmix=True)
    part = named_section(found.named)
    assert {chart.name for chart in part.charts} == {"named-pair", "named-shape"}
    assert "2 of 2" in part.html
    assert {line.name for line in found.lines()} <= set(LINES)
    assert named_section(None).html == ""
    assert found.named is not None
    refused = replace(found.named, unmixing=None, match=None, missing="<flat>")
    assert "&lt;flat&gt;" in named_section(refused).html


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_a_browser_draws_every_chart_without_an_error(tmp_path: Path, page: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    with browser(tmp_path / "profile") as shown:
        for width in (1280, 390):
            shown.open(path.as_uri(), width)
            assert shown.value("document.querySelectorAll('.chart svg').length") == 8
            assert shown.value("document.documentElement.scrollWidth") <= width
            assert shown.errors == []

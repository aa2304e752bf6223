"""The page as a file, and as a real browser shows it."""

import json
import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isojepa as ij
from isojepa.report import write_page
from tests.report.browser import CHROMIUM, Page, open_page
from tests.report.conftest import Sample, make_sample

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome to open pages in")
METRICS = [
    {"step": 10 * k, "loss": 1 / k, "alignment": 0.5 / k, "regularizer": 5 / k, "r2": 1 - 0.5 / k**2}
    | {"smallest_variance": 1.0, "learning_rate": 0.001}
    for k in range(1, 31)
]


def write(path: Path, sample: Sample, **changes: Any) -> str:
    arguments: dict[str, Any] = {
        "title": "a small world",
        "config": {"world": {"rho": 0.95}, "seed": 0},
        "metrics": METRICS,
        "certificate": sample.certificate,
        "latents": sample.latents,
        "observations": sample.observations,
        "embeddings": sample.embeddings,
        "seconds": 12.3,
        "status": "done",
        "reason": "",
    }
    write_page(path, **arguments | changes)
    return path.read_text(encoding="utf-8")


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match
    return json.loads(match[1], parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


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
    assert "</script><script>alert(2)</script>" in data_of(page)["losses"]


def test_page_loads_nothing_and_is_small(tmp_path: Path, sample: Sample) -> None:
    many = [{**METRICS[0], "step": k, **{f"term {t}": 1 / 3 for t in range(4)}} for k in range(20_000)]
    page = write(tmp_path / "page.html", sample, metrics=many)
    assert len(page.encode()) < 500_000
    for tag, attributes in Outline(page).tags:
        assert "src" not in attributes
        assert (attributes.get("href") or "data:").startswith("data:"), tag
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, not a place to load from
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\s*\(", page)
    assert data_of(page)["steps"][-1] == 19_999


def test_verdict_table_bound_and_config_are_told(tmp_path: Path, sample: Sample) -> None:
    certificate = sample.certificate
    text = Outline(write(tmp_path / "page.html", sample)).text
    assert certificate.grade == "rotation"
    assert certificate.verdict in text
    for line in certificate.lines():
        assert line.sentence[1:] in text
    assert certificate.bound is not None
    assert certificate.recovery is not None
    assert f"= {certificate.bound.bound.estimate:.4g}" in text
    assert f"{certificate.recovery.procrustes_error.estimate:.4g}" in text  # type: ignore[union-attr]
    assert "within the bound" in text
    assert re.search(r"world\.rho\s*0\.95", text)
    assert "trained in 12.3 s" in text


@pytest.mark.parametrize(
    ("grade", "tone"),
    [("rotation", "good"), ("linear", "fair"), ("none", "poor"), ("collapsed", "poor"), ("unproven", "poor")],
)
def test_badge_has_the_colour_of_the_grade(tmp_path: Path, sample: Sample, grade: str, tone: str) -> None:
    z = sample.latents
    certificate = {
        "rotation": sample.certificate,
        "linear": ij.certify(z @ np.array([[2.0, 0.0], [0.0, 0.5]]), latents=z),
        "none": ij.certify(np.cos(3 * z), latents=z),
        "collapsed": ij.certify(z * [1.0, 0.001]),
        "unproven": ij.certify(z),
    }[grade]
    assert certificate.grade == grade
    page = write(tmp_path / "page.html", sample, certificate=certificate)
    assert re.findall(r'class="badge (\w+)">(\w+)<', page) == [(tone, grade)]


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
    data = data_of(write(tmp_path / "page.html", sample, metrics=rows))
    assert data["losses"] == {"loss": [None, 2.0]}
    assert data["r2"] == [0.5, None]
    assert "Training" not in Outline(write(tmp_path / "page.html", sample, metrics=[])).text


def test_missing_parts_are_left_out(tmp_path: Path, sample: Sample) -> None:
    h, z = sample.embeddings, sample.latents
    alone = write(
        tmp_path / "page.html",
        sample,
        latents=None,
        observations=None,
        certificate=ij.certify(h),
        seconds=None,
    )
    assert [panel["symbol"] for panel in data_of(alone)["panels"]] == ["h"]
    assert 'id="turn"' not in alone
    assert "No bound here: the correlation rho" in Outline(alone).text
    assert "trained in" not in alone

    wide = np.column_stack((h, np.random.default_rng(2).normal(size=len(h))))
    wider = write(tmp_path / "page.html", sample, embeddings=wide, certificate=ij.certify(wide, latents=z))
    assert 'id="turn"' not in wider
    assert "first 2 of 3 coordinates" in Outline(wider).text


# ---- in a browser ----

# what share of each panel is covered, by opacity; read from a copy, so that the page's canvas stays as it is
SHARES = """panels.map(({ canvas }) => {
  const { width, height } = canvas;
  const copy = Object.assign(document.createElement("canvas"), { width, height });
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const bytes = pen.getImageData(0, 0, width, height).data;
  let sum = 0;
  for (let i = 3; i < bytes.length; i += 4) sum += bytes[i] / 255;
  return sum / width / height;
})"""
# the colour of each panel at one point
COLORS = """panels.map((panel) => {
  const copy = document.createElement("canvas");
  const [x, y] = panel.place(INDEX).map(Math.floor);
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(panel.canvas, -x, -y);
  return "#" + [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3)
    .map((byte) => byte.toString(16).padStart(2, "0")).join("");
})"""
# root mean square distance of the embedding's points, as they are drawn, from the latents'
DISTANCE = """Math.sqrt(
  embedding.points.reduce((sum, value, i) => sum + (value - panels[0].points[i]) ** 2, 0) / data.colors.length
)"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def corner(page: Page, selector: str) -> tuple[float, float]:
    """Bring an element into view and tell where its left upper corner is."""
    place = f"document.querySelector('{selector}')"
    page.value(f"{place}.scrollIntoView({{ block: 'center' }})")
    box = page.value(f"{place}.getBoundingClientRect().toJSON()")
    return box["left"], box["top"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, sample: Sample) -> Iterator[Page]:
    file = tmp_path_factory.mktemp("page") / "page.html"
    write(file, sample)
    with open_page(file, 1280) as page:
        yield page
        assert page.errors == []


@needs_browser
def test_panels_and_curves_are_drawn(shown: Page) -> None:
    shares = shown.value(SHARES)
    assert len(shares) == 3
    assert min(shares) > 0.03
    lengths = shown.value(
        "[...document.querySelectorAll('.chart path')].map((path) => path.getTotalLength())"
    )
    assert len(lengths) == 4  # R2, the loss and its two terms
    assert min(lengths) > 100
    labels = shown.value("[...document.querySelectorAll('#r2 text')].map((text) => text.textContent)")
    assert {"0", "0.9", "0.99", "0.999"} <= set(labels)
    assert shown.value(OVERFLOW) <= 0


@needs_browser
def test_pointing_at_a_point_shows_it_in_every_panel(shown: Page) -> None:
    before = shown.value(SHARES)
    left, top = corner(shown, ".panels canvas")
    x, y = shown.value("panels[0].place(7)")
    shown.point(left + x, top + y)
    index = shown.value("focus.index")
    assert math.dist(shown.value(f"panels[0].place({index})"), (x, y)) < 3
    assert all(now < 0.6 * was for now, was in zip(shown.value(SHARES), before, strict=True))
    color = shown.value(f"data.colors[{index}]")
    assert shown.value(COLORS.replace("INDEX", str(index))) == [color] * 3
    z, h = (
        data[2 * index : 2 * index + 2] for data in shown.value("[data.panels[0].points, embedding.points]")
    )
    readout = shown.value("document.getElementById('readout').textContent")
    assert readout.startswith(f"z = ({z[0]:.2f}, {z[1]:.2f})")
    assert readout.endswith(f"h = ({h[0]:.2f}, {h[1]:.2f})")

    shown.point(1, 1)
    np.testing.assert_allclose(shown.value(SHARES), before)


@needs_browser
def test_curves_tell_their_values_to_mouse_and_keyboard(shown: Page) -> None:
    tip = "document.querySelector('#r2 .tip')"
    left, top = corner(shown, "#r2")
    shown.point(left + shown.value("document.getElementById('r2').clientWidth") - 2, top + 40)
    assert shown.value(f"{tip}.textContent") == "step300R²0.999444"
    shown.point(1, 1)
    assert shown.value(f"{tip}.hidden") is True

    shown.value("document.getElementById('r2').focus()")
    shown.press("ArrowRight")
    assert shown.value(f"{tip}.textContent") == "step10R²0.500000"
    shown.press("ArrowRight")
    assert shown.value(f"{tip}.textContent") == "step20R²0.875000"
    shown.press("Tab")
    assert shown.value(f"{tip}.hidden") is True


@needs_browser
def test_embedding_turns_onto_the_latents_and_back_by_keyboard(shown: Page) -> None:
    button = "document.getElementById('turn')"
    shown.value("document.body.focus()")
    shown.value(f"{button}.focus()")
    assert shown.value(f"document.activeElement === {button}")
    raw = shown.value(DISTANCE)
    assert raw > 1
    shown.value("focus = { index: 7, near: data.colors.map(() => true) }")
    shown.press(" ", " ")
    during = shown.value(f"new Promise((done) => setTimeout(() => done({DISTANCE}), 300))")
    assert 0.06 < during < raw
    pause = "new Promise((done) => setTimeout(done, 1200))"
    shown.value(pause)
    assert shown.value(DISTANCE) < 0.06
    assert shown.value(f"{button}.getAttribute('aria-checked')") == "true"
    h = shown.value("data.turned.slice(14, 16)")
    readout = shown.value("document.getElementById('readout').textContent")
    assert readout.endswith(f"h = ({h[0]:.2f}, {h[1]:.2f})")
    shown.press(" ", " ")
    shown.value(pause)
    assert shown.value(DISTANCE) == pytest.approx(raw)


@needs_browser
@pytest.mark.parametrize("degrees", [70.0, -150.0])
@pytest.mark.parametrize("mirrored", [False, True])
def test_the_turn_begins_at_the_embedding_and_ends_at_its_rotation(
    tmp_path: Path, degrees: float, mirrored: bool
) -> None:
    sample = make_sample(degrees=degrees, count=200)
    h = sample.embeddings * [1.0, -1.0 if mirrored else 1.0] + [0.3, -0.2]
    file = tmp_path / "page.html"
    write(file, sample, embeddings=h)
    with open_page(file, 800) as page:
        for share, expected in ((1e-9, "raw"), (1 - 1e-9, "data.turned")):
            points, ends = page.value(f"[partlyTurned({share}), {expected}]")
            np.testing.assert_allclose(points, ends, atol=2e-3)
        assert page.errors == []


@needs_browser
@pytest.mark.parametrize(("dim", "dark"), [(1, False), (2, True), (5, False)])
def test_phone_shows_everything_within_its_width(tmp_path: Path, dim: int, dark: bool) -> None:
    file = tmp_path / "page.html"
    page_text = write(file, make_sample(dim=dim), title="a" * 300, config={"k" * 80: "v" * 400})
    file.write_text(page_text.replace("<details>", "<details open>"), encoding="utf-8")
    with open_page(file, 390, dark) as page:
        assert page.value("innerWidth") == 390
        assert page.value(OVERFLOW) <= 0
        shares = page.value(SHARES)
        assert len(shares) == 3
        assert min(shares) > 0.003
        paper = page.value("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", paper))) < 200) == dark
        assert page.errors == []


@needs_browser
def test_embeddings_alone_and_a_lone_negative_loss_are_drawn(tmp_path: Path, sample: Sample) -> None:
    rows = [{"step": 1, "loss": math.nan, "r2": -3.0}, {"step": 2, "loss": -1.0, "r2": 1.0}]
    file = tmp_path / "page.html"
    write(file, sample, latents=None, observations=None, metrics=rows)
    with open_page(file, 600) as page:
        (share,) = page.value(SHARES)
        assert share > 0.03
        assert page.value("document.querySelectorAll('#losses circle').length") == 1
        assert page.value("document.querySelector('#r2 path').getTotalLength()") > 100
        assert page.errors == []


@needs_browser
def test_a_broken_page_would_be_noticed(tmp_path: Path, sample: Sample) -> None:
    text = write(tmp_path / "page.html", sample)
    wide = '<div style="width:3000px">x</div><img src="https://example.org/x.png"></main>'
    broken = text.replace("drawCurves();\n</script>", "missing();</script>").replace("</main>", wide)
    (tmp_path / "page.html").write_text(broken, encoding="utf-8")
    with open_page(tmp_path / "page.html", 800) as page:
        assert page.value(OVERFLOW) > 1000
        assert any("missing is not defined" in error for error in page.errors)
        assert any("Content Security Policy" in error for error in page.errors)


def test_a_refuted_bound_is_not_drawn_as_one_that_holds(tmp_path: Path, sample: Sample) -> None:
    z, z_next = ij.worlds.OrnsteinUhlenbeck(2, 0.95).sample(20_000, ij.generator(0, "page"))
    certificate = ij.certify(z, next=z_next, latents=z, rho=0.9)
    assert certificate.bound is not None
    assert certificate.bound.refuted
    page = write(tmp_path / "page.html", sample, certificate=certificate)
    assert "The bound means nothing here" in page
    assert "lies within the bound" not in page


def test_gauges_are_not_drawn_as_loss_terms(tmp_path: Path, sample: Sample) -> None:
    rows = [{"step": k, "loss": 1.0, "r2": 0.5, "mean_variance": 1.0, "learning_rate": 0.1} for k in (1, 2)]
    assert set(data_of(write(tmp_path / "page.html", sample, metrics=rows))["losses"]) == {"loss"}

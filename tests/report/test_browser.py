"""The page as a real browser shows it: drawn, pointed at, opened, turned, at every width and in the dark."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from isojepa.report import write_page
from tests.report.audit import audit
from tests.report.browser import CHROMIUM, Page, browser, open_page
from tests.report.cases import CASES
from tests.report.conftest import Sample, make_sample, write

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome to open pages in")

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
# the color of each panel at one point
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


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser that the tests below share."""
    if CHROMIUM is None:
        pytest.skip("no browser")
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, sample: Sample) -> Iterator[Page]:
    """A page in a browser of its own, which the tests on it share."""
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
        "[...document.querySelectorAll('#training .chart path')].map((path) => path.getTotalLength())"
    )
    assert len(lengths) == 4  # R2, the loss and its two terms
    assert min(lengths) > 100
    labels = shown.value("[...document.querySelectorAll('#r2 text')].map((text) => text.textContent)")
    assert {"0", "0.9", "0.99", "0.999"} <= set(labels)


@needs_browser
def test_pointing_at_a_point_shows_it_in_every_panel(shown: Page) -> None:
    before = shown.value(SHARES)
    left, top = shown.corner(".panels canvas")
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
    left, top = shown.corner("#r2")
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
    tmp_path: Path, window: Page, degrees: float, mirrored: bool
) -> None:
    sample = make_sample(degrees=degrees, count=200)
    h = sample.embeddings * [1.0, -1.0 if mirrored else 1.0] + [0.3, -0.2]
    file = tmp_path / "page.html"
    write(file, sample, embeddings=h)
    window.open(file.as_uri(), 800)
    for share, expected in ((1e-9, "raw"), (1 - 1e-9, "data.turned")):
        points, ends = window.value(f"[partlyTurned({share}), {expected}]")
        np.testing.assert_allclose(points, ends, atol=2e-3)
    assert window.errors == []


@needs_browser
@pytest.mark.parametrize(("dim", "dark"), [(1, False), (2, True), (5, False)])
def test_phone_shows_everything_within_its_width(tmp_path: Path, window: Page, dim: int, dark: bool) -> None:
    file = tmp_path / "page.html"
    page_text = write(file, make_sample(dim=dim), title="a" * 300, config={"k" * 80: "v" * 400})
    file.write_text(page_text.replace("<details ", "<details open "), encoding="utf-8")
    window.open(file.as_uri(), 390, dark)
    assert window.value("innerWidth") == 390
    assert audit(window) == []
    shares = window.value(SHARES)
    assert len(shares) == 3
    assert min(shares) > 0.003
    paper = window.value("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) < 200) == dark


@needs_browser
def test_embeddings_alone_and_a_lone_negative_loss_are_drawn(
    tmp_path: Path, window: Page, sample: Sample
) -> None:
    rows = [{"step": 1, "loss": math.nan, "r2": -3.0}, {"step": 2, "loss": -1.0, "r2": 1.0}]
    write(tmp_path / "page.html", sample, latents=None, observations=None, metrics=rows)
    window.open((tmp_path / "page.html").as_uri(), 600)
    (share,) = window.value(SHARES)
    assert share > 0.03
    assert window.value("document.querySelectorAll('#losses circle').length") == 1
    assert window.value("document.querySelector('#r2 path').getTotalLength()") > 100
    assert window.errors == []


@needs_browser
def test_a_broken_page_would_be_noticed(tmp_path: Path, window: Page, sample: Sample) -> None:
    text = write(tmp_path / "page.html", sample)
    wide = '<div style="width:3000px">x</div><img src="https://example.org/x.png"></main>'
    broken = text.replace("\n</script>\n</body>", "\nmissing();</script>").replace("</main>", wide)
    (tmp_path / "page.html").write_text(broken, encoding="utf-8")
    window.open((tmp_path / "page.html").as_uri(), 800)
    assert any("wider than the window" in found for found in audit(window))
    assert any("missing is not defined" in error for error in window.errors)
    assert any("Content Security Policy" in error for error in window.errors)


OPEN = "document.querySelectorAll('details').forEach((node) => { node.open = true; })"


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("name", CASES)
def test_every_page_can_be_read_on_a_desk_and_on_a_phone(tmp_path: Path, window: Page, name: str) -> None:
    write_page(tmp_path / "page.html", **CASES[name]().arguments())
    for width, dark in ((1280, True), (390, False)):
        window.open((tmp_path / "page.html").as_uri(), width, dark)
        window.value(OPEN)
        window.settle()
        assert audit(window) == []
    blank = window.value(
        "[...document.querySelectorAll('.chart')].filter((host) => !host.querySelector('circle, path'))"
        ".length"
    )
    assert blank == 0
    assert all(share > 0.001 for share in window.value(SHARES))


@needs_browser
def test_marks_are_as_many_as_the_numbers(tmp_path: Path, window: Page) -> None:
    case = CASES["labelled"]()
    write_page(tmp_path / "page.html", **case.arguments())
    window.open((tmp_path / "page.html").as_uri(), 1280)
    window.value(OPEN)
    window.settle()
    spectrum, lags = case.certificate.spectrum, case.certificate.lags
    assert spectrum is not None
    assert lags is not None
    assert lags.identifiable
    count = lambda selector: window.value(f"document.querySelectorAll('{selector}').length")  # noqa: E731
    assert count(".share") == len(spectrum.shares) + 1 + len(lags.shares) + 2
    assert count("#decay circle") == len(lags.lags) + 1
    assert count("#decay path.error") == len(lags.lags) + 1
    assert count("#decay path:not(.error)") == 2  # the fit, and a linear encoder
    assert count("#rates circle") == len(lags.rates)
    for place, item in enumerate(case.certificate.assumptions):
        drawn = window.value(
            f"[...document.querySelectorAll('[id^=assumption-{place}-] circle')].length"
            f" + document.querySelectorAll('.check:nth-of-type({place + 1}) dd').length - 3"
        )
        assert drawn == len(item.detail), item.name


@needs_browser
def test_widths_of_bars_are_the_shares(tmp_path: Path, window: Page) -> None:
    case = CASES["labelled"]()
    write_page(tmp_path / "page.html", **case.arguments())
    window.open((tmp_path / "page.html").as_uri(), 1280)
    drawn = window.value(
        "[...document.querySelectorAll('.degree')].map((row) => [...row.querySelectorAll('.track')].map("
        "(track) => track.firstElementChild.getBoundingClientRect().width / track.clientWidth))"
    )
    spectrum, lags = case.certificate.spectrum, case.certificate.lags
    assert spectrum is not None
    assert lags is not None
    for row, labelled, free in zip(drawn, spectrum.shares, lags.shares, strict=False):
        np.testing.assert_allclose(row, [labelled.estimate, free.estimate], atol=0.003)


@needs_browser
def test_a_thousand_latents_are_sorted_dots_that_tell_which_they_are(tmp_path: Path, window: Page) -> None:
    case = CASES["many"]()
    write_page(tmp_path / "page.html", **case.arguments())
    window.open((tmp_path / "page.html").as_uri(), 1280)
    assert case.certificate.recovery is not None
    values = case.certificate.recovery.r2_per_latent
    heights = window.value(
        "[...document.querySelectorAll('#per-latent circle')].map((dot) => +dot.getAttribute('cy'))"
    )
    assert len(heights) == 1024
    assert heights == sorted(heights, reverse=True)
    assert window.value("document.querySelectorAll('#per-dimension circle').length") == 1023  # one is NaN
    left, top = window.corner("#per-latent")
    window.point(left + 60, top + 60)
    worst = int(np.argmin(values))
    tip = window.value("document.querySelector('#per-latent .tip').textContent")
    assert tip == f"latent {worst}R²{values[worst]:.6f}".replace("-", "−")


@needs_browser
@pytest.mark.parametrize("way", ["click", "key", "touch"])
def test_lines_open_to_their_equations(tmp_path: Path, window: Page, way: str) -> None:
    write_page(tmp_path / "page.html", **CASES["labelled"]().arguments())
    window.open((tmp_path / "page.html").as_uri(), 390 if way == "touch" else 1280)
    for selector in ("#bound details.equation", "#bound .line", "#assumptions .check"):
        node = f"document.querySelector('{selector}')"
        seen = f"{node}.querySelector('math').checkVisibility({{ contentVisibilityAuto: true }})"
        assert window.value(seen) is False
        left, top = window.corner(f"{selector} summary")
        if way == "key":
            window.value(f"{node}.querySelector('summary').focus()")
            window.press("Enter", "\r")
        else:
            {"click": window.click, "touch": window.tap}[way](left + 20, top + 12)
        assert window.value(seen) is True
        assert window.value(f"{node}.querySelector('math').getBoundingClientRect().width") > 20
    assert window.errors == []


@needs_browser
def test_the_audit_finds_what_is_wrong(tmp_path: Path, window: Page, sample: Sample) -> None:
    text = write(tmp_path / "page.html", sample)
    faults = (
        '<p style="font-size:9px">small</p><p style="color:#ccc">pale</p>'
        '<p style="width:50px;overflow:hidden;white-space:nowrap">cut off, this is</p>'
        '<p style="position:absolute;left:-40px">outside</p>'
        '<div class="chart"><svg><text x="10" y="20">one</text><text x="12" y="22">two</text></svg></div>'
        "</main>"
    )
    (tmp_path / "page.html").write_text(text.replace("</main>", faults), encoding="utf-8")
    window.open((tmp_path / "page.html").as_uri(), 1280)
    found = " ".join(audit(window))
    for fault in ("'small' is 9.0", "'pale' is too pale", "cut off", "'outside' leaves", "one touches two"):
        assert fault in found

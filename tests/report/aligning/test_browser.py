"""The pages in a browser: drawn, at every width, in the light and in the dark, from no network."""

import numpy as np
import pytest

from isojepa.alignment import AlignmentMap, share_probe
from isojepa.report.aligning import write_alignment, write_same, write_transfer
from tests.report.aligning.cases import HOSTILE, alignment, comparisons, embeddings, verdict
from tests.report.audit import audit
from tests.report.browser import CHROMIUM, browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome to open pages in"),
]
# tables are pushed sideways in frames of their own, and numbers of heat maps lie on colors, not on paper
APART = """document.querySelectorAll(".scroll, .heat").forEach((one) => { one.style.display = "none"; })"""
OPEN = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
DRAWN = """panels.map(({ canvas }) => {
  const { width, height } = canvas;
  const copy = Object.assign(document.createElement("canvas"), { width, height });
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  return pen.getImageData(0, 0, width, height).data.filter((value, i) => i % 4 === 3 && value).length;
})"""
LOADED = "performance.getEntriesByType('resource').map((one) => one.name)"
RANKS = """[...document.querySelectorAll("#table-ranks tbody td:nth-child(2)")]
  .map((one) => Number(one.dataset.value))"""
SCREENS = [(1200, False), (1200, True), (360, False), (360, True)]


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    """A browser that the tests below share."""
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A page of each verdict and one of an alignment."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("rotation", "partly", "unrelated", "too-few"):
        write_same(folder / f"{name}.html", verdict(name), *embeddings(name), names=("left.npy", "right.npy"))
    x, y = embeddings("linear")
    ids = np.array([f"{HOSTILE[1]}{row}" for row in range(len(x))])
    write_same(folder / "hostile.html", verdict("linear"), x, y, names=HOSTILE, ids=ids, labels=ids[::-1])
    write_alignment(folder / "alignment.html", alignment(), embeddings=comparisons()[0])
    fitted = AlignmentMap().fit(x[:200], y[:200])
    scores = share_probe(y[200:], (x[200:, 0] > 0).astype(int), first=x[200:], fitted=fitted)
    write_transfer(folder / "transfer.html", fitted, scores, title=HOSTILE[0])
    return folder


@pytest.mark.parametrize(("width", "dark"), SCREENS)
@pytest.mark.parametrize(
    "name", ["rotation", "partly", "unrelated", "too-few", "hostile", "alignment", "transfer"]
)
def test_the_page_can_be_read_and_complains_of_nothing(files, window, name, width, dark):
    window.open((files / f"{name}.html").as_uri(), width, dark)
    assert window.value(OVERFLOW) <= 0
    if name != "transfer":  # which has no panels
        assert min(window.value(DRAWN)) > 500
    assert audit_without_frames(window) == []
    window.value(OPEN)
    window.settle()
    assert window.value(OVERFLOW) <= 0
    assert audit_without_frames(window) == []
    assert [name for name in window.value(LOADED) if not name.startswith("data:")] == []


def audit_without_frames(window):
    window.value(APART)
    return audit(window)


def test_lines_are_drawn_and_go_when_a_state_is_pointed_at(files, window):
    window.open((files / "rotation.html").as_uri(), 1200)
    assert window.value("panels.map(({ joined }) => joined.length / 4)") == [0, 36, 36]
    left, top = window.corner(".panels canvas")
    x, y = window.value("panels[0].place(7)")
    before = window.value(DRAWN)
    window.point(left + x, top + y)
    index = window.value("focus.index")
    assert window.value("document.getElementById('readout').textContent").startswith("h₁ = (")
    first, after = window.value(f"[0, 2].map((k) => panels[k].points.slice({2 * index}, {2 * index + 2}))")
    assert np.allclose(first, after, atol=0.2)
    window.point(1, 1)
    assert window.value(DRAWN) == before


def test_heat_maps_have_a_color_and_a_number_for_each_pair(files, window):
    window.open((files / "alignment.html").as_uri(), 1200)
    texts = window.value("[...document.querySelectorAll('#r2 text')].map((one) => one.textContent)")
    value = comparisons()[1][0, 1].aligned["R2"].value
    assert f"{value:.2f}" in texts
    assert window.value("document.querySelectorAll('#r2 rect').length") == 9
    assert window.value("document.querySelectorAll('#layers-0 rect').length") == 6


def test_tables_sort_by_a_click(files, window):
    window.open((files / "rotation.html").as_uri(), 1200)
    window.value("document.querySelector('#table-ranks th:nth-child(2) button').click()")
    values = window.value(RANKS)
    assert values == sorted(values)
    assert window.errors == []

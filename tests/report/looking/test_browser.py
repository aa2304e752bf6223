"""The page of a look in a browser: pictures loaded, the map pointed at, zoomed and walked by keys."""

import itertools
import math

import pytest

from isojepa.report.looking import look, write_look
from tests.report.audit import audit
from tests.report.browser import CHROMIUM, browser, open_page
from tests.report.looking.cases import convnet, pictures, vit
from tests.vision import timm_or_skip

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome to open pages in")
LOADED = """Promise.all([...document.images].map((image) => image.decode().then(
  () => image.naturalWidth > 0, () => false))).then((found) => [found.length, found.every(Boolean)])"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
TOLD = "document.getElementById('told').textContent"
# share of the map's pixels that are drawn, and how many colors there are in a copy of it
DRAWN = """(() => {
  const { width, height } = canvas;
  const copy = Object.assign(document.createElement("canvas"), { width, height });
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const bytes = pen.getImageData(0, 0, copy.width, copy.height).data;
  let sum = 0, colors = new Set();
  for (let i = 0; i < bytes.length; i += 4) if (bytes[i + 3]) { sum++; colors.add(bytes[i] >> 4); }
  return [sum * 4 / bytes.length, colors.size];
})()"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    place = tmp_path_factory.mktemp("look") / "look.html"
    write_look(place, look(convnet(), pictures(80)), model="convnet", data="squares")
    return place


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    """A browser that the tests below share."""
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def shown(file):
    """The page in a browser of its own, which the tests on it share."""
    with open_page(file, 1200) as page:
        page.value(LOADED)
        page.settle()
        yield page
        assert page.errors == []


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (360, False), (360, True)])
def test_the_page_fits_loads_every_picture_and_complains_of_nothing(file, window, width, dark):
    window.open(file.as_uri(), width, dark)
    count, loaded = window.value(LOADED)
    assert count > 12 * 9
    assert loaded
    window.settle()
    assert window.value(OVERFLOW) <= 0
    covered, colors = window.value(DRAWN)
    assert 0.05 < covered < 0.9
    assert colors > 4
    assert audit(window) == []
    assert window.errors == []


def test_pointing_at_a_picture_tells_what_it_is(shown):
    left, top = shown.corner("#atlas")
    index = shown.value("placed[3]")
    x, y = shown.value(f"place({index})")
    shown.point(left + x, top + y)
    assert shown.value("focus") == index
    assert shown.value(TOLD) == shown.value(f"words({index})")
    near = shown.value("document.getElementById('near').textContent").split("\n")[1:]
    assert near == shown.value(f"data.nearest[{index}].map(words)")
    shown.point(2, 2)
    assert shown.value("focus") is None


def test_thumbnails_hardly_overlap_and_zooming_in_shows_more_of_those_seen(shown):
    shown.value("showAll()")
    shown.settle()
    side, places = shown.value("[thumb(), placed.map(place)]")
    assert len(places) > 8
    for (ax, ay), (bx, by) in itertools.combinations(places, 2):
        assert max(abs(ax - bx), abs(ay - by)) >= 0.9 * side
    before = shown.value("[view.zoom, place(placed[0])]")
    left, top = shown.corner("#closer")
    shown.click(left + 5, top + 5)
    zoom, hidden = shown.value("[view.zoom, canvas.style.touchAction]")
    assert zoom == pytest.approx(1.6 * before[0])
    assert hidden == "none"
    shown.value("zoomed(2, 100, 80)")
    assert shown.value("view.zoom") == pytest.approx(3.2)
    left, top = shown.corner("#whole")
    shown.click(left + 5, top + 5)
    assert shown.value("[view.zoom, view.x, view.y]") == [1, 0, 0]


def test_zooming_keeps_what_is_under_the_pointer(shown):
    shown.value("showAll()")
    places = shown.value("data.names.map((_, index) => place(index))")
    width, height = shown.value("[width, height]")
    x, y = min(places, key=lambda one: math.dist(one, (width / 2, height / 2)))  # far from the rim
    index = places.index([x, y])
    shown.value(f"zoomed(3, {x}, {y})")
    assert math.dist(shown.value(f"place({index})"), (x, y)) < 1e-6
    shown.value("showAll()")


def test_keys_walk_from_picture_to_picture_and_zoom(shown):
    shown.value("showAll()")
    shown.value("canvas.focus()")
    shown.press("ArrowRight")
    first = shown.value("focus")
    assert first is not None
    visited = [first]
    for _ in range(3):
        shown.press("ArrowRight")
        visited.append(shown.value("focus"))
    places = [shown.value(f"place({index})")[0] for index in dict.fromkeys(visited)]
    assert places == sorted(places)
    assert shown.value(TOLD) == shown.value(f"words({visited[-1]})")
    for key, zoom in (("+", 1.6), ("-", 1.0)):
        shown.value(f"canvas.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}))")
        assert shown.value("view.zoom") == pytest.approx(zoom)
    shown.value("canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }))")
    assert shown.value("focus") is None


def test_a_class_is_shown_alone(shown):
    button = "document.querySelector('#classes button')"
    assert shown.value(f"{button}.textContent") == shown.value("data.classes[0]")
    shown.value(f"{button}.click()")
    shown.settle()
    assert shown.value("chosen") == 0
    assert set(shown.value("placed.map((index) => data.labels[index])")) == {0}
    shown.value(f"{button}.click()")
    shown.settle()
    assert shown.value("chosen") is None


def test_the_layout_changes_to_the_axes(shown):
    shown.value("document.querySelector('input[value=axes]').click()")
    shown.value("new Promise((done) => setTimeout(done, 1200))")
    assert shown.value("places.every((value, k) => value === data.places.axes[k])")
    across, down = shown.value("measure")
    assert down / across == pytest.approx(shown.value("data.aspect.axes"))
    shown.value("document.querySelector('input[value=neighbors]').click()")
    shown.value("new Promise((done) => setTimeout(done, 1200))")


def test_maps_are_shown_in_three_ways(shown):
    seen = """[...document.querySelectorAll('#maps .way')].filter((way) => way.offsetParent)
      .map((way) => way.classList[1])"""
    for way in ("first", "foreground", "colors"):
        shown.value(f"document.querySelector('#maps input[value={way}]').click()")
        assert set(shown.value(seen)) == {way}


def test_heads_are_chosen_and_a_clip_plays(tmp_path, window):
    timm_or_skip()
    file = tmp_path / "clip.html"
    found = look(vit(), pictures(6), clip=pictures(4, seed=2), map_size=24)
    write_look(file, found, model="vit", data="squares")
    window.open(file.as_uri(), 800)
    masks = "[...document.querySelectorAll('.frames .mask')].filter((mask) => !mask.hidden)"
    heads = f"[...new Set({masks}.map((mask) => mask.dataset.head))]"
    assert window.value(heads) == ["0"]
    window.value("document.querySelector('input[name=head][value=\"2\"]').click()")
    assert window.value(heads) == ["2"]
    assert window.value(f"{masks}.length") == 4
    window.value("document.getElementById('play').click()")
    now = "[...document.querySelectorAll('.clip figure')].findIndex((one) => one.offsetParent)"
    first = window.value(now)
    later = window.value(f"new Promise((done) => setTimeout(() => done({now}), 400))")
    assert (first, later > 0) == (0, True)
    window.value("document.getElementById('play').click()")
    assert window.value("document.querySelectorAll('.clip figure.now').length") <= 1
    assert window.value(OVERFLOW) <= 0
    assert window.errors == []


@pytest.mark.parametrize("count", [1, 2])
def test_one_picture_or_two_are_a_map_too(tmp_path, window, count):
    file = tmp_path / "few.html"
    write_look(file, look(convnet(), pictures(count, classes=())), model="m", data="d")
    window.open(file.as_uri(), 360)
    window.value(LOADED)
    window.settle()
    assert window.value("placed.length") == count
    assert window.value("placed.flatMap(place).every(Number.isFinite)")
    assert window.value(OVERFLOW) <= 0
    assert window.errors == []

"""The page of a study, as a file and as a browser shows it."""

import json
import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isojepa.report.charts import Curve, HeatMap, Reference, curves_chart
from isojepa.report.study_page import (
    Shown,
    ShownPicture,
    ShownPlot,
    ShownTable,
    write_story_page,
    write_study_page,
)
from isojepa.report.template import fill
from tests.report.audit import audit
from tests.report.browser import CHROMIUM, Page, browser
from tests.report.test_page import Outline

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome to open pages in")

SVG = (
    '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="800" height="200" '
    "viewBox='0 0 800 200'><!-- 50% & \"more\" #1 --><rect width='800' height='200' fill=\"#ff0000\"/></svg>"
)
ATTACK = "<script>alert(1)</script>"
VALUES = (0.5, -2.0, None, 1e-7, math.inf, 10.0, math.nan)


def table(**changes: Any) -> ShownTable:
    rows = [
        [Shown(f"run {k}"), Shown("–" if v is None else f"{v:.2g}", v), Shown(mark)]
        for k, (v, mark) in enumerate(zip(VALUES, ("above", "below", "", "", "", "", ""), strict=True))
    ]
    arguments: dict[str, Any] = {
        "name": "main",
        "title": "Numbers",
        "columns": [("run", False), ("value", True), ("", False)],
        "rows": rows,
        "note": "A *note*.",
        "marked": True,
    }
    return ShownTable(**arguments | changes)


def wide(columns: int = 14, rows: int = 40) -> ShownTable:
    cells = [[Shown(f"{r * c / 7:.5f}", r * c / 7) for c in range(columns)] for r in range(rows)]
    return ShownTable("wide", "Wide", [(f"column {c}", True) for c in range(columns)], cells)


def write(path: Path, **changes: Any) -> str:
    arguments: dict[str, Any] = {
        "name": "Study small, scale quick",
        "title": "A small study",
        "facts": ["3 runs", "12 s of training"],
        "warning": "1 of 4 runs is missing; isojepa sweep small --scale quick makes it",
        "summary": ["The answer is `yes`.", "- one\n- two"],
        "tables": [table(), wide()],
        "pictures": [ShownPicture("first", "What it *shows*.", SVG)],
        "notes": ["A note.", "Another, [linked](other.md)."],
        "made": {"Claim": "Claim with **weight**.", "Commands": "`isojepa sweep small`", "Runs": "3 of 4"},
        "settings": {"training.steps": "10, 20", "seed": "0"},
    }
    write_study_page(path, **arguments | changes)
    return path.read_text(encoding="utf-8")


def test_text_from_outside_is_escaped(tmp_path: Path) -> None:
    page = write(
        tmp_path / "page.html",
        name=ATTACK,
        title=ATTACK,
        facts=[ATTACK],
        warning=ATTACK,
        summary=[ATTACK, f"a [link](javascript:alert(1)) {{{{js}}}} {ATTACK}"],
        tables=[table(title=ATTACK, columns=[(ATTACK, False), ("b", True), ("", False)], note=ATTACK)],
        pictures=[ShownPicture("first", f'" onerror="alert(1) {ATTACK}', SVG + ATTACK)],
        notes=[ATTACK],
        made={ATTACK: ATTACK},
        settings={ATTACK: ATTACK},
    )
    outline = Outline(page)
    tags = [tag for tag, _ in outline.tags]
    assert tags.count("script") == 2  # what is drawn, and what draws it
    for tag, attributes in outline.tags:
        assert "onerror" not in attributes
        assert not (attributes.get("href") or "").startswith("javascript"), tag
    assert "{{js}}" in outline.text
    assert outline.text.count(ATTACK) >= 13


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    page = write(tmp_path / "page.html")
    for tag, attributes in Outline(page).tags:
        assert (attributes.get("src") or "data:").startswith("data:"), tag
        assert tag in ("link", "a") or "href" not in attributes
    assert "default-src 'none'" in page
    without_images = re.sub(r'src="data:[^"]*"', "", page)
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttpRequest|import\s*\(", without_images)


def test_pictures_are_svg_or_png(tmp_path: Path) -> None:
    page = write(tmp_path / "page.html")
    (image,) = [attributes["src"] for tag, attributes in Outline(page).tags if tag == "img"]
    assert image is not None
    assert image.startswith("data:image/svg+xml,")
    points = ShownPicture("first", "c", b"\x89PNG", 640)
    page = write(tmp_path / "page.html", pictures=[points])
    assert 'src="data:image/png;base64,iVBORw==" width="640"' in page


def test_nothing_to_show_is_nothing_shown(tmp_path: Path) -> None:
    page = write(tmp_path / "page.html", tables=[], pictures=[], notes=[], warning="", facts=[])
    text = Outline(page).text
    assert "Notes" not in text
    assert "missing" not in text
    assert "<img" not in page
    assert '<p class="warning">' not in page


def test_templates_are_filled_in_one_pass() -> None:
    assert fill("{{a}}{{b}}", {"a": "{{b}}", "b": "{{a}}"}) == "{{b}}{{a}}"
    with pytest.raises(KeyError):
        fill("{{c}}", {})


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("no browser")
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


def column(page: Page, name: str, index: int) -> list[str]:
    cells = (
        f"[...document.querySelectorAll('#table-{name} tbody tr')].map((r) => r.cells[{index}].textContent)"
    )
    return page.value(cells)


@needs_browser
def test_a_click_on_a_column_sorts_it_and_what_is_missing_stays_last(window: Page, tmp_path: Path) -> None:
    write(tmp_path / "page.html")
    window.open((tmp_path / "page.html").as_uri(), 1280)
    head = "#table-main th:nth-child(2) button"
    x, y = window.corner(head)
    window.click(x + 4, y + 4)
    rising = ["−2", "1e−07", "0.5", "10", "inf"]
    assert column(window, "main", 1)[:5] == rising
    assert set(column(window, "main", 1)[5:]) == {"–", "nan"}
    assert window.value("document.querySelector('#table-main th:nth-child(2)').ariaSort") == "ascending"
    x, y = window.corner(head)
    window.click(x + 4, y + 4)
    assert column(window, "main", 1)[:5] == rising[::-1]
    assert set(column(window, "main", 1)[5:]) == {"–", "nan"}
    window.value("document.querySelector('#table-main th:nth-child(1) button').focus()")
    window.press("Enter", "\r")  # by key, as text
    assert column(window, "main", 0) == [f"run {k}" for k in range(7)]
    assert window.value("document.querySelectorAll('[aria-sort]').length") == 1
    window.value("document.querySelector('#table-main th:nth-child(3) button').click()")
    assert column(window, "main", 2)[:3] == ["▲ above", "▼ below", ""]
    assert window.errors == []


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_can_be_read_at_every_width(window: Page, tmp_path: Path, width: int, dark: bool) -> None:
    write(tmp_path / "page.html")
    window.open((tmp_path / "page.html").as_uri(), width, dark)
    window.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    image = "document.querySelector('.picture img')"
    assert window.value(f"{image}.naturalWidth") == 800  # the picture is drawn
    assert window.value(f"{image}.getBoundingClientRect().width") >= 700
    wide_table = "document.querySelector('#table-wide .scroll')"
    assert window.value(f"{wide_table}.scrollWidth > {wide_table}.clientWidth")
    # a wide table and a picture on a telephone are pushed sideways, each in its own frame: look at the rest,
    # then at the frames with all that is in them in view
    assert window.value("document.documentElement.scrollWidth <= innerWidth")
    first = f"{wide_table}.querySelector('tbody tr:last-child td:first-child').getBoundingClientRect().left"
    before = window.value(first)
    window.value(f"{wide_table}.scrollLeft = 300")
    assert window.value(first) == before  # the first column stays
    window.value(
        "document.querySelectorAll('.scroll, .picture').forEach((one) => { one.style.display = 'none'; })"
    )
    assert audit(window) == []


def write_story(path: Path) -> str:
    """A page whose charts the script draws: curves with a band and a reference line, and a heat map."""
    curves = curves_chart("Curves", "latents", "error", [Curve("a", {2: 1.0, 8: 0.1}), Curve("b", {4: 0.5})])
    lined = curves_chart(
        "Lined", "x", "y", [Curve("a", {1: 0.2, 2: 0.4})], references=[Reference(0.3, "chance")]
    )
    heat = HeatMap("", "Heat", "", ["0.1", "0.2"], ["1"], "ρ", "weight", [[0.25, None]])
    body = [
        "**It holds.** `a < b`",
        ShownPlot("both", "Look *here*.", [curves, lined, heat]),
        table(),
        "The end.",
    ]
    write_story_page(
        path,
        name="Study made up",
        title="A <made-up> study",
        facts=["3 runs"],
        warning="",
        body=body,
        made={"Runs": "3 of 3"},
        settings={"dim": "2"},
    )
    return path.read_text(encoding="utf-8")


def test_a_story_has_its_blocks_in_order_and_its_charts_as_numbers(tmp_path: Path) -> None:
    page = write_story(tmp_path / "page.html")
    places = [
        page.index(text)
        for text in ('id="found"', 'id="both-1"', 'id="both-3"', 'id="table-main"', "The end.")
    ]
    assert places == sorted(places)
    assert "a &lt; b" in page
    assert "<made-up>" not in page
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    charts = json.loads(data)["charts"]
    assert charts["both-1"]["series"][0]["values"] == [1.0, None, 0.1]
    assert charts["both-3"]["heat"] == [[0.25, None]]
    assert len(re.findall("<script", page)) == 2


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to read scripts with")
def test_the_scripts_of_a_story_can_be_read_together(tmp_path: Path) -> None:
    page = write_story(tmp_path / "page.html")
    (script,) = re.findall(r"<script>\n(.*)</script>", page, flags=re.DOTALL)
    (tmp_path / "page.js").write_text(script, encoding="utf-8")
    done = subprocess.run(
        ["node", "--check", tmp_path / "page.js"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@needs_browser
def test_the_script_draws_every_chart_of_a_story(window: Page, tmp_path: Path) -> None:
    write_story(tmp_path / "page.html")
    window.open((tmp_path / "page.html").as_uri(), 1280)
    assert window.value("document.querySelectorAll('.chart svg').length") == 3
    assert window.value("document.querySelectorAll('#both-2 .reference').length") == 1
    assert window.value("document.querySelectorAll('#both-3 rect').length") == 2
    assert window.errors == []

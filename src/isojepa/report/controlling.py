"""The page of controllers in the simulator: how often they succeed, how they come near, the arm moving."""

import base64
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.plan.closed_loop.results import Evaluation
from isojepa.report.aligning.page import Part, cell, note, write_parts
from isojepa.report.charts import Chart, Reference, Series, grid
from isojepa.report.glance import Tile, share_tone
from isojepa.report.sections.lead import lead, section
from isojepa.report.study_page import Shown, ShownTable, table_section

_LINES = 6  # that a chart has colours for


def write_control(
    path: str | Path,
    found: Evaluation,
    films: Mapping[str, bytes],
    *,
    seconds: float,
    config: Mapping[str, Any] | None = None,
) -> int:
    """Write the page.

    Args:
        path: the HTML file to create or replace.
        found: the controllers, the one that the page is about first.
        films: animated GIFs by controller.
        seconds: that a step of the plant takes.
        config: what it was made from.

    Returns:
        The size of the page in bytes.
    """
    rows = found.rows()
    first = rows[0]
    share = f"{100 * first['success']:.0f} %"
    ends = f"{first['low']:.2f} to {first['high']:.2f}"
    rules = found.rules
    when = f"during all of the last {rules.hold}" if rules.hold else "at any"
    counts = f"within {rules.tolerance:g} rad of the goal {when} of {rules.budget} steps"
    angles = "angles are compared modulo 2π" if rules.wrapped else "angles are compared as they are"
    return write_parts(
        path,
        [_rates(found, rows), _errors(found, seconds), _films(films)],
        title=f"{first['controller']} in the Reacher",
        badge=(share_tone(first["success"]), f"{share} succeed"),
        verdict=f"{first['controller']} reaches its goal in {share} of {first['runs']} runs.",
        more=[f"A run succeeds if it is {counts}; {angles}."],
        facts=[f"{first['tasks']} tasks", f"{found.removed} left out"],
        tiles={
            "Success": Tile("success", f"{first['success']:.3f}", ends, share_tone(first["success"])),
            "A plan takes": Tile("success", f"{first['ms_per_plan']:.2g} ms", "of one run", "plain"),
        },
        config=config or {},
    )


def _rates(found: Evaluation, rows: list[dict[str, Any]]) -> Part:
    columns = [("controller", False)]
    columns += [
        (name, True) for name in ("success", "low", "high", "runs", "error at the end", "ms per plan")
    ]
    keys = ("success", "low", "high", "runs", "median_error")
    cells = [
        (
            Shown(row["controller"]),
            *(cell(float(row[key])) for key in keys),
            cell(float(row["ms_per_plan"]) if row["plans"] else None),
        )
        for row in rows
    ]
    words = (
        f"Intervals of {100 * found.confidence:g} % by bootstrap over tasks, those of Clopper and Pearson "
        "where all tasks agree. The error is the median of the larger joint's, in rad."
    )
    table = table_section(ShownTable("control", "", columns, cells))
    lines = lead("Success", "Everyone on the same tasks.")
    return Part(section("success", lines, table, note(words)))


def _errors(found: Evaluation, seconds: float) -> Part:
    names = list(found.outcomes)[:_LINES]
    series = []
    for name in names:
        errors = np.concatenate([one.errors for one in found.outcomes[name]])
        low, middle, high = np.quantile(errors, (0.25, 0.5, 0.75), 0)
        series.append(Series(name, middle.tolist(), ends=(low.tolist(), high.tolist())))
    chart = Chart(
        "control-errors",
        "Distance from the goal",
        "Median over runs of the larger joint's error in rad; the band is half of the runs.",
        [step * seconds for step in range(found.rules.budget + 1)],
        "seconds",
        series,
        zero=True,
        references=(Reference(found.rules.tolerance, "tolerance"),),
    )
    return Part(section("way", lead("On the way", "How fast they come near."), grid([chart])), [chart])


def _films(films: Mapping[str, bytes]) -> Part:
    figures = "".join(
        f'<figure><img width="240" height="240" alt="{escape(name, quote=True)}" '
        f'src="data:image/gif;base64,{base64.b64encode(content).decode()}">'
        f"<figcaption>{escape(name)}</figcaption></figure>"
        for name, content in films.items()
    )
    words = "The first task, as fast as it was. The goal is a ghost; the red target takes no part."
    return Part(section("films", lead("The arm", words), f'<div class="films">{figures}</div>'))

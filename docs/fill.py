"""Fill the documents' tables from the records in docs/results, so that no number is typed by hand.

python docs/fill.py           write them
python docs/fill.py --check   exit 1 if a document says anything else
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs/results"


def quality() -> str:
    """What the runs of the study reached, over its seeds."""
    rows = json.loads((RESULTS / "two_dimensions.json").read_text())
    groups: dict[str, list[dict]] = {}
    for row in rows:
        if row["section"] != "settings":
            mixing = row["config"]["world"]["mixing"]
            name = f"spiral, {row['label']}" if mixing == "spiral" else row["label"]
            groups.setdefault(name, []).append(row)
    lines = [
        "| world | held-out R², worst and best seed | by rotation, worst | seconds, 1 thread | bound holds |",
        "|---|---|---|---|---|",
    ]
    for name, group in groups.items():
        r2 = sorted(row["r2"] for row in group)
        digits = 6 if r2[0] > 0.9999 else 4
        seconds = max(row["seconds"] for row in group)
        holds = sum(bool(row["bound_holds"]) for row in group)
        rotation = min(row["r2_orthogonal"] for row in group)
        lines.append(
            f"| {name} | {r2[0]:.{digits}f} – {r2[-1]:.{digits}f} | {rotation:.{digits}f} | {seconds:.0f} | "
            f"{holds} of {len(group)} |"
        )
    held = sum(bool(row["bound_holds"]) for row in rows)
    lines += [
        "",
        f"Theorem 3's bound holds, within its interval, in {held} of all {len(rows)} runs of the study.",
    ]
    return "\n".join(lines)


def speed() -> str:
    """What the benchmark measured."""
    bench = json.loads((RESULTS / "bench.json").read_text())
    lines = ["| measured in one run | value | target |", "|---|---|---|"]
    for row in bench["rows"]:
        if row["name"].startswith("Table 6, ") and " samples" in row["name"]:
            continue  # a table of its own, below
        target = row["target"]
        goal = "" if target is None else f"{'≥' if target > 0 else '≤'} {abs(target):g}"
        mark = "" if row["met"] else " (missed)"
        value = f"{row['value']:,.0f}" if row["value"] >= 1000 else f"{row['value']:.3g}"
        lines.append(f"| {row['name']} | {value}{mark} | {goal} |")
    versions = bench["versions"]
    lines += ["", f"torch {versions['torch']}, {versions['threads']} threads, {versions['machine']}."]
    return "\n".join(lines)


def table_6() -> str:
    """The nine shapes of the paper's Table 6, one line each."""
    bench = json.loads((RESULTS / "bench.json").read_text())
    shapes: dict[str, dict[str, dict]] = {}
    for row in bench["rows"]:
        shape, colon, what = row["name"].partition(": ")
        if colon and shape.startswith("Table 6, ") and " samples" in shape:
            shapes.setdefault(shape.removeprefix("Table 6, "), {})[what] = row
    lines = [
        "| shape | ms | textbook / fused: time | memory | peak MiB | fused / matrix products "
        "| forward / both |",
        "|---|---|---|---|---|---|---|",
    ]
    for shape, rows in shapes.items():
        timed = rows.get("time, textbook / fused") or rows["milliseconds, fused"]
        time = _cell(rows.get("time, textbook / fused"), "does not fit in 24 GiB")
        cells = [
            shape,
            f"{1e3 * timed['details']['fused']:.3g}",
            time,
            _cell(rows.get("peak memory, textbook / fused"), ""),
            _cell(rows["peak MiB, fused"], ""),
            _cell(rows["fused / its matrix products"], ""),
            _cell(rows["forward only / forward and backward"], ""),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: dict | None, missing: str) -> str:
    if row is None:
        return missing
    return f"{row['value']:.3g}" + ("" if row["met"] else " (missed)")


def settings() -> str:
    """What one change of the default settings does, on one seed."""
    rows = json.loads((RESULTS / "two_dimensions.json").read_text())
    default = next(row for row in rows if row["label"] == "defaults" and row["config"]["seed"] == 0)
    lines = ["| change | R² | R² by rotation | seconds |", "|---|---|---|---|"]
    for row in [default, *(row for row in rows if row["section"] == "settings")]:
        lines.append(
            f"| {row['label']} | {row['r2']:.4f} | {row['r2_orthogonal']:.4f} | {row['seconds']:.1f} |"
        )
    return "\n".join(lines)


def trust() -> str:
    """How far the label-free spectrum can be trusted."""
    from isojepa.studies.label_free_spectrum_page import summary

    return summary(json.loads((RESULTS / "label_free_spectrum.json").read_text())["rows"])


def scaling() -> str:
    """R^2 by dimension, ours beside the published."""
    from isojepa.papers.world_model.scaling import beside, best_of
    from isojepa.studies.evidence import read_evidence
    from isojepa.studies.measured import grouped, mean

    evidence = read_evidence(RESULTS / "scaling.json")
    ours = [row for row in best_of(evidence.rows) if row.labels["settings"] == "ours"]
    methods = {"SIGReg": 6, "whitening": 6, "InfoNCE, published width": 3, "InfoNCE, sliced": 4}
    heads = [
        title for name in methods for title in ((name, "published") if name != "InfoNCE, sliced" else (name,))
    ]
    lines = [f"| latents | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for (dim,), rows in sorted(grouped(ours, "dim").items()):
        cells = [f"{dim:,}"]
        for name, digits in methods.items():
            r2 = mean([row for row in rows if row.labels["method"] == name], "r2")
            cells.append("" if r2 is None else f"{r2:.{digits}f}")
            known = beside(name, dim)
            if name != "InfoNCE, sliced":
                cells.append("" if known is None else f"{known.r2_h_to_z:.{digits}f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def found() -> str:
    """What each study found first, with a link to the rest."""
    from isojepa.studies.catalogue import STUDIES, find_study
    from isojepa.studies.evidence import read_kept

    parts = []
    for name in STUDIES:
        study = find_study(name)
        evidence = read_kept(study, RESULTS, "standard")
        if evidence.rows:
            summary = study.report(evidence.rows).summary
            parts.append(f"**[{study.title}](results/{name}.md)**, {evidence.runs} runs. {summary[0]}")
    return "\n\n".join(parts)


PAGES = {
    "README.md": {"quality": quality, "scaling": scaling, "speed": speed},
    "docs/studies.md": {"found": found},
    "docs/settings.md": {"settings": settings},
    "docs/gaussianity.md": {"table6": table_6},
    "docs/spectrum.md": {"trust": trust},
}


def fill(text: str, blocks: dict[str, Callable[[], str]]) -> str:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->`."""
    for name, table in blocks.items():
        before, start, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        if not start or not end:
            raise SystemExit(f"there must be a block {name!r}")
        text = f"{before}{start}{table()}\n{end}{after}"
    return text


def main() -> None:
    """Write the pages, or check them."""
    for name, blocks in PAGES.items():
        page = ROOT / name
        before = page.read_text(encoding="utf-8")
        after = fill(before, blocks)
        if "--check" not in sys.argv:
            page.write_text(after, encoding="utf-8")
        elif before != after:
            raise SystemExit(f"{name} differs from docs/results: run make docs")


if __name__ == "__main__":
    main()

"""Fill the documents from the records in docs/results and from the source, so that nothing is typed twice.

python docs/fill.py               write them
python docs/fill.py --check       exit 1 if a document says anything else
python docs/fill.py README.md     only this one
"""

import json
import re
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
        *published_settings(),
    ]
    return "\n".join(lines)


def published_settings() -> list[str]:
    """What the published settings reach on the spiral, in the study of mixings."""
    labels = {"settings": "published", "mixing": "spiral", "objective": "SIGReg"}
    rows = json.loads((RESULTS / "mixings.json").read_text())["rows"]
    published = [row for row in rows if labels.items() <= row["labels"].items()]
    r2, steps = min(row["scores"]["r2"] for row in published), published[0]["steps"]
    runs = "one run" if len(published) == 1 else f"{len(published)} runs"
    return [
        f"The published settings, {steps:,} steps, reach R² {r2:.4f} on the spiral here, in {runs} of",
        "[mixings](docs/results/mixings.md).",
    ]


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


def gpu() -> str:
    """What `make gpu` measured."""
    path = RESULTS / "gpu.json"
    if not path.exists():
        return (
            "not run here, for lack of a GPU. `make gpu` measures on a machine with one and fills this page."
        )
    measured = json.loads(path.read_text())
    lines = ["| on a GPU | milliseconds |", "|---|---|"]
    lines += [f"| {row['name']} | {row['milliseconds']:.3g} |" for row in measured["rows"]]
    return "\n".join([*lines, "", f"{measured['device']}, torch {measured['versions']['torch']}."])


def fast() -> str:
    """What the benchmark measured, in a few lines for those in a hurry."""
    bench = json.loads((RESULTS / "bench.json").read_text())
    values = {row["name"]: row["value"] for row in bench["rows"]}
    shape = "SIGReg 2048 x 512, 512 slices, 17 knots"
    plane = "2D spiral, published settings"
    work = values[f"{plane}: our step / encoder forward and backward"]
    disk = "certificate of 10,000,000 pairs x 64 dims on disk"
    return "\n".join(
        [
            f"- {shape}: {values[f'{shape}: time, textbook / fused']:.0f} times as fast, in "
            f"1/{values[f'{shape}: peak memory, textbook / fused']:.0f} of the memory.",
            f"- A step on the {plane}: {values[f'{plane}: step, textbook / ours']:.0f} times as fast, "
            f"{work:.2f} times the encoder's own forward and backward.",
            f"- A {disk}: {values[f'{disk}: seconds']:.0f} seconds, {values[f'{disk}: MiB']:.0f} MiB.",
            f"- `isojepa demo`: {values['isojepa demo: seconds, all included']:.0f} seconds, all included.",
        ]
    )


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
    from isojepa_lab.studies.label_free_spectrum_page import summary

    return summary(json.loads((RESULTS / "label_free_spectrum.json").read_text())["rows"])


def adversaries() -> str:
    """How often each rule was fooled."""
    from isojepa_lab.papers.own.adversaries import summary
    from isojepa_lab.studies.evidence import read_evidence
    from isojepa_lab.studies.rows import Rows

    rows = Rows(read_evidence(RESULTS / "adversaries.json").rows)
    lines = [
        "| rule | asked | answered | wrong | beyond its condition | truth unknown |",
        "|---|---|---|---|---|---|",
    ]
    keys = ("rule", "asked", "answered", "wrong", "beyond", "unjudged")
    lines += [f"| {' | '.join(str(line[key]) for key in keys)} |" for line in summary(rows)]
    kinds = len(rows.by("adversary"))
    return "\n".join([*lines, "", f"{kinds} kinds of embeddings; `make adversaries` makes the table."])


def scaling() -> str:
    """R^2 by dimension, ours beside the published."""
    from isojepa_lab.papers.world_model.scaling import beside, best_of
    from isojepa_lab.studies.evidence import read_evidence
    from isojepa_lab.studies.measured import grouped, mean

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
            reference = beside(name, dim)
            if name != "InfoNCE, sliced":
                cells.append("" if reference is None else f"{reference.r2_h_to_z:.{digits}f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def found() -> str:
    """What each study found first, with a link to the rest."""
    from isojepa_lab.studies.catalogue import STUDIES, find_study
    from isojepa_lab.studies.evidence import read_kept

    parts = []
    for name in STUDIES:
        study = find_study(name)
        evidence = read_kept(study, RESULTS, "standard")
        if evidence.rows:
            summary = study.report(evidence.rows).summary
            first = re.sub(r"\]\((?=[\w-]+\.md)", "](results/", summary[0])  # written to stand beside it
            some = f"{evidence.runs - evidence.missing} of " if evidence.missing else ""
            parts.append(f"- **[{study.title}](results/{name}.md)**, {some}{evidence.runs} runs. {first}")
    return "\n".join(parts)


def costs() -> str:
    """What a step costs, as measured and fitted."""
    costs_measured = json.loads((RESULTS / "scale.json").read_text())
    model = costs_measured["model"]
    lines = ["| piece | µs per state | µs per step | worst misfit |", "|---|---|---|---|"]
    for piece in ("compute", "loss", "load"):
        state, step, misfit = (model[f"{piece}_{what}"] for what in ("per_state", "per_step", "misfit"))
        lines.append(f"| {piece} | {1e6 * state:.2f} | {1e6 * step:.0f} | {misfit:.0%} |")
    lines.append(f"| optimizer | | {1e6 * model['optimizer_per_step']:.0f} | |")
    lines += ["", "| exchange | ranks | measured, µs | by the model, µs |", "|---|---|---|---|"]
    for row in costs_measured["measured"]:
        for name, seconds in row.get("exchange", {}).items():
            size = f"{4 * costs_measured['setting']['numbers'][name]:,} bytes"
            by_model = 1e6 * row["foretold"][name]
            lines.append(f"| {size} | {row['ranks']} | {1e6 * seconds:.0f} | {by_model:.0f} |")
    return "\n".join(lines)


def carried() -> str:
    """The model on devices that are assumed."""
    rows = json.loads((RESULTS / "scale.json").read_text())["carried"]
    lines = [
        "| devices | batch | compute, ms | loss, ms | its exchange, ms | gradients, ms | step, ms | at work "
        "| images/s | read, GB/s | cores per device | days for a billion |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        pieces = [1e3 * row[key] for key in ("compute", "loss", "exchange", "gradients", "step")]
        times = [f"{value:,.0f}" if value >= 100 else f"{value:.2g}" for value in pieces]
        cells = [f"{row['devices']:,}", f"{row['batch']:,}", *times, f"{row['efficiency']:.0%}"]
        cells += [f"{row['images_per_second']:,.0f}", f"{row['gigabytes_per_second']:.3g}"]
        cells += [f"{row['cores_per_device']:.1f}", f"{row['days']:.2g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def fuzz() -> str:
    """What became of fuzzed inputs, by where they entered."""
    counts_by = json.loads((RESULTS / "fuzz.json").read_text())
    kinds = list(counts_by["total"])
    lines = [f"| where it enters | inputs | {' | '.join(kinds)} |", "|---|" + "---|" * (1 + len(kinds))]
    for name, counts in counts_by["surfaces"].items():
        cells = " | ".join(f"{counts[kind]:,}" for kind in kinds)
        lines.append(f"| {name} | {counts['inputs']:,} | {cells} |")
    total = " | ".join(f"{counts_by['total'][kind]:,}" for kind in kinds)
    lines.append(f"| all | {counts_by['inputs']:,} | {total} |")
    versions = ", ".join(f"{name} {version}" for name, version in counts_by["versions"].items())
    most = f"{counts_by['peak_megabytes']:,} MB at most"
    lines += ["", f"Seed {counts_by['seed']}, {most}, {counts_by['seconds']:,.0f} s; {versions}."]
    return "\n".join(lines)


def own_environment() -> str:
    """The environment that the tests use, whole."""
    return f"```python\n{(ROOT / 'tests/own_environment.py').read_text().strip()}\n```"


def world_models() -> str:
    """Success of planners in trained world models, beside the floors."""
    rows = json.loads((RESULTS / "world_models.json").read_text())
    names = list(dict.fromkeys(line["controller"] for row in rows for line in row["rows"]))
    lines = [
        f"| environment, seed | {' | '.join(names)} | solved starts | error at 1 and 10 steps | protocol |",
        "|---" * (len(names) + 4) + "|",
    ]
    for row in rows:
        scores = {line["controller"]: line for line in row["rows"]}
        cells = [
            f"{scores[name]['success']:.2f} [{scores[name]['low']:.2f}, {scores[name]['high']:.2f}]"
            if name in scores
            else "-"
            for name in names
        ]
        errors = f"{row['errors'][0]:.2g}, {row['errors'][min(9, len(row['errors']) - 1)]:.2g}"
        lines.append(
            f"| {row['environment']}, {row['seed']} | {' | '.join(cells)} "
            f"| {row['excluded']} of {row['drawn']} | {errors} | `{row['protocol_hash']}` |"
        )
    return "\n".join(lines)


PAGES = {
    "README.md": {"quality": quality, "fast": fast},
    "docs/speed.md": {"speed": speed, "gpu": gpu},
    "docs/world_models.md": {"own": own_environment, "world_models": world_models},
    "docs/studies.md": {"found": found, "scaling": scaling},
    "docs/training.md": {"settings": settings, "costs": costs, "carried": carried},
    "docs/gaussianity.md": {"table6": table_6},
    "docs/spectrum.md": {"trust": trust},
    "docs/trust.md": {"adversaries": adversaries, "fuzz": fuzz},
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
    pages = [argument for argument in sys.argv[1:] if argument != "--check"]
    unknown = set(pages) - set(PAGES)
    if unknown:
        raise SystemExit(f"pages must be of {', '.join(PAGES)}, got {', '.join(sorted(unknown))}")
    for name, blocks in PAGES.items():
        if pages and name not in pages:
            continue
        page = ROOT / name
        before = page.read_text(encoding="utf-8")
        after = fill(before, blocks)
        if "--check" not in sys.argv:
            page.write_text(after, encoding="utf-8")
        elif before != after:
            raise SystemExit(f"{name} differs from docs/results or from the source: run `make docs`")


if __name__ == "__main__":
    main()

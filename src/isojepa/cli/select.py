"""The command `select`: which of many runs to keep, without labels."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from isojepa.cli.printing import out, print_json, progress_bar
from isojepa.cli.tables import Column, print_table
from isojepa.terminal import typed

if TYPE_CHECKING:
    from isojepa.selection import Choice, Selection

_TITLES = {
    "scaled": "loss/λ^α",
    "loss": "loss",
    "rankme": "RankMe",
    "lidar": "LiDAR",
    "gaussianity": "Gaussianity",
}


@dataclass
class Select:
    """Choose the run to keep from training losses, without labels.

    Runs are compared by loss / lambda^alpha, as published for LeJEPA; RankMe, LiDAR and a test of Gaussianity
    stand beside it. No label is looked at. Runs that collapsed, diverged or are not finished are left out,
    and runs of different worlds, objectives or batches are not compared. The exit code is 0 if one run is
    named, 1 if none or more than one had to be.

    isojepa select runs

    isojepa select runs/a runs/b --by loss

    isojepa select runs --json --no-models    # from the metrics alone
    """

    sweep: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of records, or records."""
    by: str = "scaled"
    """What decides: scaled (loss / lambda^alpha), loss, rankme, lidar or gaussianity."""
    alpha: float = 0.4
    """Exponent of lambda; fix it before looking at results."""
    models: bool = True
    """Open the trained models for RankMe, LiDAR and Gaussianity."""
    against: str = "r2"
    """A score in the metrics with which criteria are compared, where it is there; it decides nothing."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        from isojepa.selection import select

        if not self.sweep:
            raise ValueError("sweep must be a folder of records at least, got none")
        with progress_bar("measuring") as progress:
            found = select(
                self.sweep,
                by=self.by,
                alpha=self.alpha,
                models=self.models,
                against=self.against,
                progress=progress,
            )
        if self.json:
            print_json(found.to_dict())
        else:
            _tell(found)
        return 0 if len(found.choices) == 1 else 1


def _tell(found: "Selection") -> None:
    for choice in found.choices:
        _tell_choice(choice)
    if found.apart:
        out.print("These groups cannot be compared by their losses: they differ in", style="bold yellow")
        for told in found.apart:
            out.print(f"   {told}")
    if not found.choices:
        out.print("No run can be chosen.", style="bold red")
        if all(one.reason.startswith("collapsed") for one in found.left_out):
            out.print(
                "All runs collapsed: train again with a larger --objective.weight, for longer, or both."
            )
    for one in found.left_out:
        out.print(f"Left out {one.path}: {one.reason}", style="dim")


def _tell_choice(choice: "Choice") -> None:
    known = [name for name, values in choice.values.items() if any(map(math.isfinite, values))]
    columns = [Column("run"), Column("weight", right=True), Column("seed", right=True)]
    columns += [Column(_TITLES[name], right=True) for name in known]
    columns += [Column("p", right=True)] * ("gaussianity" in known)
    columns += [Column(choice.against, right=True)] * bool(choice.against)
    rows = []
    for place, one in enumerate(choice.candidates):
        cells = [one.path.name, _number(one.weight), "" if one.seed is None else str(one.seed)]
        cells += [_number(choice.values[name][place]) for name in known]
        cells += [_number(one.measures.get("gaussianity_p"))] * ("gaussianity" in known)
        cells += [_number(one.metrics.get(choice.against))] * bool(choice.against)
        rows.append(cells)
    print_table(columns, rows)
    out.print(f"\nKeep {typed(choice.run.path)}", style="bold green" if choice.sure else "bold yellow")
    out.print(f"{_sureness(choice)} Chosen by {_TITLES[choice.by]}.")
    for name, other in choice.others.items():
        same = "the same setting" if other.setting == choice.run.setting else other.path.name
        ranks = f", rank correlation {choice.agreement[name]:+.2f}" if name in choice.agreement else ""
        out.print(f"   {_TITLES[name]} would keep {same}{ranks}", style="dim")
    if choice.truth:
        told = ", ".join(f"{_TITLES[name]} {value:+.2f}" for name, value in choice.truth.items())
        out.print(f"Looking back, rank correlation with {choice.against}: {told}")
    for note in choice.notes:
        out.print(f"note: {note}")
    out.print()


def _sureness(choice: "Choice") -> str:
    if len({one.setting for one in choice.candidates}) == 1:
        return "There is one setting only: nothing was compared."
    if choice.noise == "none":
        return "How sure: unknown; too few evaluations and no repeated seeds."
    told = f"best with probability {choice.probability:.2f}, {choice.margin:.1f} standard errors ahead"
    if choice.noise == "seeds":
        return f"{'Sure' if choice.sure else 'Not sure'}: {told}, by the spread between seeds."
    return (
        f"Not sure: {told}, but by the noise of its last windows alone; repeat settings with other seeds to "
        "learn how runs differ by luck."
    )


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.4g}"

"""The command `audit`: recorded episodes held against what the theorems and a fit of dynamics assume."""

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.text import Text

from isojepa.certificates.audit import Audit, audit
from isojepa.certificates.audit.material import read_for_audit
from isojepa.cli.printing import out, print_json
from isojepa.cli.tables import Column, print_table

_STYLES = {"holds": "green", "fails": "bold red", "unclear": "yellow"}


@dataclass
class AuditEpisodes:
    """Audit recorded episodes: excitation, memory, assumptions.

    FILE is one of stable-worldmodel's (HDF5 with ep_len and ep_offset), robomimic's (data/demo_i), or npz
    with arrays (episodes, steps, dim) or flat ones with ep_len or a column of episode numbers (--episode). Of
    very large files some episodes are looked at. It ends with what to record next.

    isojepa audit reacher.h5

    isojepa audit demos.hdf5 --state object --action action

    isojepa audit reacher.h5 --context target    # what of the actions is free, given the goal too?

    isojepa audit reacher.h5 --stride 8 --report audit.html
    """

    file: tyro.conf.Positional[Path]
    """The file of episodes."""
    state: str | None = None
    """Column of the states, positions best; by default qpos, state, states, proprio or observation."""
    action: str = "action"
    """Column of the actions; that of the last state of an episode may be NaN."""
    speed: str | None = None
    """Column of the states' speeds; by default qvel or velocity."""
    episode: str | None = None
    """Column of episode numbers, for flat columns without ep_len."""
    context: tuple[str, ...] = ()
    """Further columns that actions may depend on, such as a goal."""
    stride: int = 0
    """Steps between the states of a pair; 0 for the stride at which they correlate most nearly by 0.95."""
    confidence: float = 0.95
    """Of the intervals; each test alone is wrong about fair data at most as often as the rest."""
    seed: int = 0
    """Draws rows, halves and permutations."""
    report: Path | None = None
    """Also write a page with every number to this file."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        columns = (self.state, self.speed, self.action, *self.context)
        found = audit(
            read_for_audit(self.file, columns, self.episode),
            state=self.state,
            action=self.action,
            speed=self.speed,
            context=self.context,
            stride=self.stride,
            confidence=self.confidence,
            seed=self.seed,
        )
        if self.json:
            print_json(found.to_dict())
        else:
            print_audit(found)
        if self.report is not None:
            from isojepa.report.auditing import write_audit  # templates: only for those who write a page

            write_audit(self.report, found)
            if not self.json:
                out.print(f"\nWrote {self.report}")
        return 0


def print_audit(found: Audit) -> None:
    """Print an audit for a person."""
    state, speed, action = found.names
    columns = ", ".join(
        f"{what} {name}" for what, name in (("state", state), ("speed", speed), ("action", action)) if name
    )
    out.print(f"\n{found.episodes:,} episodes, {found.steps:,} steps; {columns}.")
    for note in found.notes:
        out.print(note, style="dim")
    out.print(found.description, style="bold")
    titles = {"actions": "Actions", "states": "Motion", "latents": f"Assumptions, at stride {found.stride}"}
    for kind, title in titles.items():
        rows = [
            (line.name, Text(line.verdict, style=_STYLES[line.verdict]), line.sentence)
            for line in found.lines
            if line.of == kind
        ]
        if rows:
            print_table((Column(), Column(), Column(prose=True)), rows, title=title, indent=1)
    if found.strides:
        _print_strides(found)
    if found.advice:
        out.print(Text("Next", style="bold"))
        for text in found.advice:
            out.print(f" - {text}")


def _print_strides(found: Audit) -> None:
    dims = range(min(len(found.strides[0].rho), 3))
    columns = [Column("stride", right=True)]
    columns += [Column(f"rho {dim}", right=True) for dim in dims]
    columns += [Column(f"SIGReg {dim}", right=True) for dim in dims]
    columns += [Column("together", right=True), Column("normal", right=True)]
    rows = [
        [
            str(row.stride),
            *(f"{row.rho[dim]:.3f}" for dim in dims),
            *(f"{row.sigreg[dim]:.3g}" for dim in dims),
            f"{row.joint:.3g}",
            f"{row.joint_floor:.2g}",
        ]
        for row in found.strides
    ]
    print_table(columns, rows, title="Differences of states per stride", indent=1)

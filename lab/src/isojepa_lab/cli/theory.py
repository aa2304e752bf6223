"""The command `theory`: the theorems checked anew."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from isojepa.cli.printing import Column, out, print_json, print_table, progress_bar

if TYPE_CHECKING:  # sympy takes a moment to import: only for those who ask
    from isojepa_lab.theory import Check, Outcome

_LISTED = ("name", "theorem", "step", "claim", "formula", "method", "covers", "general", "lean", "note")
_LEGEND = (
    "Numbers are the largest error found; exact: computer algebra or rational arithmetic; holds: an "
    "inequality or a count without exception. --notes prints formulas, methods, ranges, allowed errors, and "
    "where the published text needs a word."
)


@dataclass
class Theory:
    """Check every theorem and lemma behind the certificates.

    The steps that the published Lean files assume as axioms are marked. The exit code is 1 if a check fails.

    isojepa theory

    isojepa theory --only stability mazur-ulam    # a theorem, a check

    isojepa theory --list
    """

    only: tuple[str, ...] = ()
    """Checks to run, or theorems: forward, converse, stability, planning, dirichlet, alignment, dynamics,
    naming."""
    list: bool = False
    """Name the checks and what they claim; run nothing."""
    notes: bool = False
    """Also print the formula, the method, the range and what to know of the published statement."""
    json: bool = False
    """Print the outcomes as JSON."""

    def run(self) -> int:
        from isojepa_lab.theory import CHECKS, select

        chosen = select(CHECKS, self.only or None)
        if self.list:
            if self.json:
                print_json([{name: getattr(check, name) for name in _LISTED} for check in chosen])
            else:
                _print_list(chosen)
            return 0
        outcomes = _run(self.only or None)
        if self.json:
            print_json([outcome.to_dict() for outcome in outcomes])
        else:
            _print_outcomes(outcomes, self.notes)
        return 0 if all(outcome.passed for outcome in outcomes) else 1


def _run(names: tuple[str, ...] | None) -> "list[Outcome]":
    from isojepa_lab.theory import run_checks

    with progress_bar("checking") as progress:
        return run_checks(names, progress=progress)


def _print_list(checks: "Sequence[Check]") -> None:
    from isojepa_lab.theory import THEOREMS

    for theorem, group in groupby(checks, key=lambda check: check.theorem):
        out.print(Text.assemble("\n", (THEOREMS[theorem], "bold"), "  ", (f"--only {theorem}", "dim")))
        rows = [(check.name, _marked(check.claim, bool(check.lean))) for check in group]
        print_table((Column(), Column(prose=True)), rows, indent=2)


def _print_outcomes(outcomes: "Sequence[Outcome]", notes: bool) -> None:
    from isojepa_lab.theory import THEOREMS

    for theorem, group in groupby(outcomes, key=lambda outcome: outcome.theorem):
        out.print(f"\n{THEOREMS[theorem]}", style="bold")
        rows = []
        for outcome in group:
            tick = Text("✓", style="green") if outcome.passed else Text("✗", style="bold red")
            body = Text("\n").join(_body(outcome, notes))
            precision = _precision(outcome)
            rows.append((tick, outcome.name, body, precision, f"{outcome.seconds:.1f} s"))
        columns = (Column(), Column(), Column(prose=True), Column(right=True), Column(right=True))
        print_table(columns, rows, indent=2)
    failed = [outcome.name for outcome in outcomes if not outcome.passed]
    general = sum(outcome.general for outcome in outcomes)
    axioms = {axiom for outcome in outcomes for axiom in outcome.lean}
    checks = sum(outcome.axiom_in_lean for outcome in outcomes)
    if failed:
        message = f"\n{len(failed)} of {len(outcomes)} checks failed: {', '.join(failed)}."
        out.print(message, style="bold red")
    else:
        seconds = sum(outcome.seconds for outcome in outcomes)
        message = f"\n{len(outcomes)} of {len(outcomes)} checks passed in {seconds:.0f} s."
        out.print(message, style="bold green")
    out.print(
        f"In general: {general}; over a range of cases: {len(outcomes) - general}. "
        f"{checks} of them check axioms of the published Lean files, {len(axioms)} in all. {_LEGEND}",
        style="dim",
    )


def _body(outcome: "Outcome", notes: bool) -> Sequence[Text]:
    """The lines of one check: its claim, what `--notes` adds, and what was not shown."""
    lines = [_marked(outcome.claim, outcome.axiom_in_lean)]
    if notes:
        scope = "in general" if outcome.general else "as cases"
        error = f" Error allowed {outcome.tolerance:.0e}." if outcome.tolerance else ""
        message = f"{outcome.step}. By {outcome.method}. Covers, {scope}: {outcome.covers}.{error}"
        lines.append(Text(outcome.formula, "cyan"))
        lines.append(Text(message, "dim"))
        if outcome.note:
            lines.append(Text(outcome.note, "italic"))
    for part in outcome.failures:
        message = f"not shown: {part.claim} (error {part.error:.2g}, allowed {part.tolerance:.2g})"
        lines.append(Text(message, "red"))
    return lines


def _marked(claim: str, axiom: bool) -> Text:
    return Text.assemble(claim, (" Axiom in Lean." if axiom else "", "yellow"))


def _precision(outcome: "Outcome") -> str | Text:
    if not outcome.passed:
        return Text("failed", "red")
    if outcome.exact:
        return "exact"
    return f"{outcome.precision:.0e}" if outcome.precision else "holds"

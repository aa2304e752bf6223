"""Axes for people: a line for each, and the numbers of all of them, on screens wide and narrow."""

from collections.abc import Sequence

from rich.cells import cell_len

from isojepa.certificates import NamedAxis, NamedLatents, format_value
from isojepa.cli.printing import out
from isojepa.cli.tables import Column, print_table, width_of

_NUMBERS = (
    Column("axis", right=True),
    Column("told apart"),
    Column("rad", right=True),
    Column("pair", right=True),
    Column("departure", right=True),
    Column("world's", right=True),
    Column("dependence", right=True),
    Column("straightened by"),
)
_LATENTS = (Column("latent", right=True), Column("rank", right=True), Column("linear", right=True))
_WORDS = (
    *("", "", "error in rad", "correlation across a pair", "departure from normal", "of it the world's"),
    "dependence",
    *("straightened by", "latent", "rank correlation", "linear correlation"),
)
_CUES = {"alone": "alone"}
_NONE = "-"
_GAP = 1  # between columns at least
_LEGEND = (
    "rad: standard error of the direction; pair: correlation across a pair; departure: from a normal law; "
    "world's: what of that no encoder adds to; dependence: of a function of it on another axis, 0 for "
    "independent ones"
)


def print_named(named: NamedLatents) -> None:
    """Print the verdict, a line for each axis, every number and what is assumed."""
    out.print(named.verdict, style=_tone(named))
    if named.axes:
        _print_axes(named)
    lines = named.lines()
    print_table(
        (Column(), Column(), Column(prose=True)),
        [(line.name, format_value(line), line.sentence) for line in lines],
        indent=1,
    )
    for note in named.notes():
        out.print(note)


def _print_axes(named: NamedLatents) -> None:
    """A line for each axis; where that is too wide, the same in words."""
    matched = named.match is not None
    columns = (*_NUMBERS, *(_LATENTS if matched else ()))
    rows = [_cells(axis, matched) for axis in named.axes]
    widths = [
        max(cell_len(text) for text in (column.title, *cells))
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True)
    ]
    if sum(widths) + _GAP * len(columns) < width_of():
        print_table(columns, rows, indent=1)
        legend = _LEGEND + ("; rank, linear: correlation with its latent." if matched else ".")
        out.print(legend, style="dim")
    else:
        told = [(row[0], _listed(_WORDS[1 : len(columns)], row[1:])) for row in rows]
        print_table((Column("axis"), Column(prose=True)), told, indent=1)


def _cells(axis: NamedAxis, matched: bool) -> tuple[str, ...]:
    block = f"block {axis.block[0]}-{axis.block[-1]}" if len(axis.block) > 1 else "by nothing"
    numbers = (
        str(axis.number),
        _CUES.get(axis.cue, f"by {axis.cue}") if axis.named else block,
        _number(axis.error, ".2g"),
        _number(axis.correlation, ".3f"),
        _number(axis.departure, ".2g"),
        _number(axis.world_departure, ".2g"),
        _number(axis.dependence, ".2f"),
        axis.method or _NONE,
    )
    if not matched:
        return numbers
    latent = _NONE if axis.latent is None else str(axis.latent)
    return (*numbers, latent, _number(axis.rank, ".4f"), _number(axis.linear, ".4f"))


def _listed(words: Sequence[str], cells: Sequence[str]) -> str:
    return ", ".join(
        f"{word} {cell}".lstrip() for word, cell in zip(words, cells, strict=True) if cell != _NONE
    )


def _number(value: float | None, form: str) -> str:
    return _NONE if value is None else format(value, form)


def _tone(named: NamedLatents) -> str:
    return "bold green" if named.axes and named.count == len(named.axes) else "bold yellow"

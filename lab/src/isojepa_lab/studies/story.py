"""The story of a study: a Markdown file with all its words, whose placeholders the rows fill.

The first paragraph is the claim, which the page has at its end. What comes before the first heading is the
answer. Paragraphs are apart by empty lines; one that begins with a name in braces stands for more:

    {statement NAME: claim}             a conclusion, decided by the rows
    holds: They do at {good} places.    a sentence for each verdict, or for several: holds, in part: ...
    in part: ...
    does not hold: ...
    cannot be asked: ...                may be left out: it then says so

    {table NAME: its title}             columns: what stands above one, and the key and form of its cells
    | latents {dim:d} | {*:.3f} |       {*} stands for all other keys of the lines, one column each
    What to know of it.                 its note

    {chart NAME}                        the rest of the paragraph is its caption
    What to look at.

Anywhere else {name} and {name:.4f} are the study's numbers, in a sentence of a statement also the facts of
its judgement. A paragraph of which a number is None is left out, as is a section whose tables and charts are
all empty. `{run_summary}` says what was run, `{unscored}` how many runs have no score, None if all have.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from isojepa.validation import choose
from isojepa_lab.studies.cells import Row
from isojepa_lab.studies.findings import Block, Column, Findings, Plot, Table, Value, text_of
from isojepa_lab.studies.measured import told, unscored
from isojepa_lab.studies.rows import Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import UNASKED, VERDICTS, Statement

_OPENING = re.compile(r"\{(statement|table|chart) ([A-Za-z0-9_-]+)(?:: ([^{}]+))?\}\s*(?:\n|$)")
_NUMBER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?::([^{}\n]*))?\}")
_CELL = re.compile(r"([^{}]*?) *\{(\*|[^{}:]+)(?::([^{}]*))?\}")


class _Missing(Exception):
    """A number that a paragraph needs is None."""


@dataclass(frozen=True)
class Story:
    """The words of a study.

    Attributes:
        name: of the file, for errors.
        claim: the first paragraph.
        paragraphs: the others, as they stand.
    """

    name: str
    claim: str
    paragraphs: Sequence[str]

    @classmethod
    def read(cls, path: Path) -> "Story":
        """The story of a Markdown file.

        Raises:
            ValueError: there is none, or nothing in it.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(f"the story {path} cannot be read: {error.strerror}") from error
        paragraphs = [part.strip("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]
        if not paragraphs or _NUMBER.search(paragraphs[0]):
            raise ValueError(f"the story {path} must begin with the claim, a paragraph without placeholders")
        return cls(path.name, paragraphs[0], paragraphs[1:])


def render_story(
    story: Story,
    rows: Sequence[Row],
    tables: Sequence[TableSpec] = (),
    charts: Sequence[ChartSpec] = (),
    statements: Sequence[Statement] = (),
    numbers: Mapping[str, Value] | None = None,
) -> Findings:
    """Fill a story from rows.

    Raises:
        ValueError: the story names a missing part, leaves one out, or lacks a required one.
    """
    filled = _Filling(story.name, Rows(rows), tables, charts, statements, numbers or {})
    sections: list[list[Block]] = [[]]
    shows = [False]
    for paragraph in story.paragraphs:
        if paragraph.startswith("#"):
            sections.append([])
            shows.append(False)
        blocks, is_shown = filled.blocks(paragraph)
        sections[-1] += blocks
        shows[-1] |= is_shown
    filled.check()
    body = sections[0]
    if not any(isinstance(block, str) for block in body):
        body.insert(0, told(rows))
    answer = [block for block in body if isinstance(block, str)]
    for section, is_shown in zip(sections[1:], shows[1:], strict=True):
        empty = is_shown and all(isinstance(block, str) for block in section)
        if len(section) > 1 and not empty:  # more than its heading
            body = [*body, *section]
    body_tables = [block for block in body if isinstance(block, Table)]
    return Findings(answer, body_tables, body=body)


class _Filling:
    """What the placeholders of a story stand for."""

    def __init__(
        self,
        name: str,
        rows: Rows,
        tables: Sequence[TableSpec],
        charts: Sequence[ChartSpec],
        statements: Sequence[Statement],
        numbers: Mapping[str, Value],
    ) -> None:
        self.name, self.rows = name, rows
        self.tables = {spec.name: spec for spec in tables}
        self.charts = {spec.name: spec for spec in charts}
        self.statements = {spec.name: spec for spec in statements}
        self.numbers = {"run_summary": told(rows), "unscored": len(unscored(rows)) or None, **numbers}
        self.left = {*self.tables, *self.charts, *self.statements}

    def blocks(self, paragraph: str) -> tuple[list[Block], bool]:
        """What a paragraph becomes, nothing if it is left out; and whether it shows a table or a chart."""
        opening = _OPENING.match(paragraph)
        if opening is None:
            try:
                return [self._text(paragraph, self.numbers)], False
            except _Missing:
                return [], False
        kind, name, rest = opening[1], opening[2], paragraph[opening.end() :]
        self.left.discard(name)
        if kind == "statement":
            return [self._statement(name, opening[3] or "", rest)], False
        table = kind == "table"
        block = self._table(name, opening[3] or "", rest) if table else self._plot(name, rest)
        return ([] if block is None else [block]), True

    def check(self) -> None:
        """Nothing that the study computes may stay unseen."""
        if self.left:
            raise ValueError(f"the story {self.name} does not show {', '.join(sorted(self.left))}")

    def _statement(self, name: str, claim: str, rest: str) -> Block:
        judgement = choose(f"statement of {self.name}", name, self.statements).judge(self.rows)
        sentences = self._sentences(name, rest)
        claim = " ".join(claim.split())
        if not claim:
            raise ValueError(
                f"the statement {name} of {self.name} must have a claim: {{statement {name}: ...}}"
            )
        sentence = sentences.get(judgement.verdict, "The rows that it speaks of are not there.")
        facts = {key: "–" if value is None else value for key, value in judgement.facts.items()}
        try:
            told_sentence = self._text(sentence, {**self.numbers, **facts})
        except _Missing as error:
            raise ValueError(f"the statement {name} of {self.name} needs a number that is None") from error
        return f"**{claim[:1].upper()}{claim[1:]}: {judgement.verdict}.** {told_sentence}"

    def _sentences(self, name: str, rest: str) -> dict[str, str]:
        """The sentences by verdict; a line that begins with no verdict continues the last."""
        sentences: dict[str, str] = {}
        keys: list[str] = []
        for line in rest.splitlines():
            head, colon, text = line.partition(":")
            named = [key.strip() for key in head.split(",")]
            if colon and all(key in VERDICTS for key in named):
                keys = named
            else:
                text = line
            for key in keys:
                sentences[key] = f"{sentences.get(key, '')} {text.strip()}".strip()
        missing = [key for key in VERDICTS if key not in sentences and key != UNASKED]
        if missing:
            raise ValueError(f"the statement {name} of {self.name} has no sentence for: {', '.join(missing)}")
        return sentences

    def _table(self, name: str, title: str, rest: str) -> Block | None:
        lines = choose(f"table of {self.name}", name, self.tables).lines(self.rows)
        head, _, note = rest.partition("\n")
        columns = self._columns(name, head, list(dict.fromkeys(key for line in lines for key in line)))
        note = self._text(" ".join(note.split()), self.numbers)
        return Table(name, title, columns, lines, note) if lines else None

    def _columns(self, name: str, head: str, keys: Sequence[str]) -> list[Column]:
        cells = [_CELL.fullmatch(cell.strip()) for cell in head.strip().strip("|").split("|")]
        named = {cell[2] for cell in cells if cell is not None}
        columns: list[Column] = []
        for cell in cells:
            if cell is None or not head.startswith("|"):
                raise ValueError(
                    f"the columns of the table {name} of {self.name} must be | title {{key:form}} | ... |"
                )
            if cell[2] == "*":
                columns += [Column(key, key, cell[3] or "") for key in keys if key not in named]
            else:
                columns.append(Column(cell[2], cell[1], cell[3] or ""))
        return columns

    def _plot(self, name: str, rest: str) -> Block | None:
        spec = choose(f"chart of {self.name}", name, self.charts)
        panels = [panel for panel in spec.panels(self.rows) if not panel.empty]
        caption = self._text(" ".join(rest.split()), self.numbers)
        return Plot(name, caption, panels, spec.columns, spec.size, spec.legend) if panels else None

    def _text(self, text: str, values: Mapping[str, Value]) -> str:
        def put(found: re.Match[str]) -> str:
            value = choose(f"number of {self.name}", found[1], values)
            if value is None:
                raise _Missing(found[1])
            return text_of(value, found[2] or "")

        return _NUMBER.sub(put, text)

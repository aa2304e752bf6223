"""The studies: every module of `isojepa_lab.papers` and of this folder that has a `STUDY`."""

import ast
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from isojepa.config import Config
from isojepa.validation import choose
from isojepa_lab.studies.study import AnyStudy, Cell, unique

_LAB = Path(__file__).parents[1]


def _files() -> dict[str, Path]:
    """Files with a study by name: of papers, in the order of folders and names, then of this folder."""
    folders = [
        *(_LAB / "papers" / name for name in ("world_model", "lejepa", "social", "own")),
        _LAB / "studies",
    ]
    files = [file for folder in folders for file in sorted(folder.glob("*.py"))]
    return {
        file.stem: file for file in files if re.search(r"^STUDY\b", file.read_text(encoding="utf-8"), re.M)
    }


def _subject(file: Path) -> str:
    """First line of a module's docstring; the module itself is not imported."""
    lines = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.stem).splitlines()
    return lines[0].removesuffix(".")


_FILES = _files()
STUDIES = {name: _subject(file) for name, file in _FILES.items()}


def find_study(name: str) -> AnyStudy:
    """The study of a name.

    Raises:
        ValueError: there is no such study; the message lists those there are.
    """
    choose("study", name, STUDIES)
    path = _FILES[name].relative_to(_LAB).with_suffix("")
    study: AnyStudy = import_module(".".join(("isojepa_lab", *path.parts))).STUDY
    return study


def cells_of(
    names: Sequence[str], scale: str, quick: int, keep: Callable[[Config], bool] = lambda config: True
) -> list[Cell]:
    """The runs of several studies, each once, with the label "study" of the first that has it.

    Args:
        names: of the studies.
        scale: theirs.
        quick: runs of each study at quick scale.
        keep: which runs.
    """
    matching_cells: list[Cell] = []
    for name in names:
        matching = [cell for cell in find_study(name).plan(scale) if keep(cell.trained)]
        matching = matching[:quick] if scale == "quick" else matching
        matching_cells += [Cell(cell.config, {**cell.labels, "study": name}) for cell in matching]
    return unique(matching_cells)

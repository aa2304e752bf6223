"""A user-defined study: which weight of the regularizer recovers the latents? Its text is own_study.md."""

from pathlib import Path

from isojepa.config import Config
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.registry import build_spec
from isojepa.report.charts import curves_chart
from isojepa_lab.studies.cells import Cell
from isojepa_lab.studies.settings import shortened
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Statement, judge_values
from isojepa_lab.studies.study import Study


def cells(scale):
    """Two weights on one world; short runs at the quick scale."""
    for weight in (1e-3, 1e-1):
        config = Config(build_spec("world", mixing="sinusoid"), objective=LeJEPASpec(weight=weight))
        yield Cell(shortened(config, 50) if scale == "quick" else config, {"weight": weight, "what": "R²"})


def panels(rows):
    """R² by weight."""
    return [curves_chart("Recovery", "weight", "R²", rows.curves("weight", "r2", "{what}"), scale="linear")]


STUDY = Study(
    name="weights",
    title="Which weight?",
    source="nothing published",
    cells=cells,
    story=Path(__file__).with_suffix(".md"),
    tables=[TableSpec("weights", lambda rows: rows.pivot(["weight"], "{what}", "r2"))],
    charts=[ChartSpec("weights", panels)],
    statements=[Statement("enough", lambda rows: judge_values(rows.values("r2"), lambda r2: r2 > 0.9))],
)

"""Published numbers are carried as they were printed."""

import csv
import math
from importlib.resources import files

import pytest

from isojepa_lab.studies.published import SOURCES, published_scaling, read_published

# read off the printed tables: R2(h -> z), cut there after five digits; orthogonality; alignment; regularizer
PRINTED = [
    ("sigreg", 64, 0.99996, 0.005, 0.0484, 2.03),
    ("sigreg", 1024, 0.99956, 0.023, 0.0488, 1.93),
    ("vicreg", 4, 0.99998, 0.001, 0.0476, 0.0041),
    ("vicreg", 512, 0.99978, 0.014, 0.0489, 0.0035),
    ("infonce", 2, 0.95096, 0.505, 0.0653, 4.529),
    ("infonce", 128, 0.56695, 4.875, 0.3803, 0.0),
]


@pytest.mark.parametrize(("method", "dim", "r2", "orthogonality", "alignment", "regularizer"), PRINTED)
def test_the_scaling_figures_are_the_printed_ones(method, dim, r2, orthogonality, alignment, regularizer):
    found = published_scaling(method, dim)
    assert math.floor(found.r2_h_to_z * 1e5 + 1e-6) == round(r2 * 1e5)
    assert (found.method, found.dim, found.runs) == (method, dim, 5)
    assert (found.orthogonality_error, found.alignment_loss, found.regularizer_loss) == (
        orthogonality,
        alignment,
        regularizer,
    )


def test_every_method_has_every_power_of_two():
    for method in ("sigreg", "vicreg", "infonce"):
        for power in range(1, 11):
            found = published_scaling(method, 2**power)
            assert 0 < found.r2_h_to_z_std < 0.1
            assert 0.7 < found.r2_x_to_z < 0.8


@pytest.mark.parametrize(
    ("method", "dim", "message"),
    [
        ("SIGReg", 2, "method must be one of infonce, sigreg, vicreg, got 'SIGReg'"),
        ("sigreg", 3, "dim must be one of 2, 4, 8, .*1024, got 3"),
    ],
)
def test_what_was_not_published_is_told(method, dim, message):
    with pytest.raises(ValueError, match=message):
        published_scaling(method, dim)


def test_every_table_has_a_source_and_every_source_a_table():
    folder = files("isojepa_lab.studies").joinpath("published")
    assert {entry.name for entry in folder.iterdir()} == {f"{name}.csv" for name in SOURCES}
    assert all(source.strip() and "\n" not in source for source in SOURCES.values())


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_table_is_read_whole_with_one_type_per_column(name):
    rows = read_published(name)
    text = files("isojepa_lab.studies").joinpath("published", f"{name}.csv").read_text(encoding="utf-8")
    cells = list(csv.DictReader(text.splitlines()))
    assert len(rows) == len(cells) > 0
    for row, raw in zip(rows, cells, strict=True):
        assert list(row) == list(raw)
        for key, value in row.items():
            assert (value is None) == (raw[key] == "")
            if value is not None:
                assert value == (raw[key] if isinstance(value, str) else float(raw[key]))
    for key in rows[0]:
        assert len({type(row[key]) for row in rows if row[key] is not None}) == 1, key


def test_an_unknown_table_lists_the_choices():
    with pytest.raises(ValueError, match=r"published table must be one of .*social_stress.*did you mean"):
        read_published("social_stres")

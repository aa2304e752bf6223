"""The page of the papers' claims: what it says is what committed rows and the theory say."""

from pathlib import Path

import pytest

from isojepa.cli.main import main
from isojepa_lab.studies import claims

ROOT = Path(__file__).parents[3]


def test_a_claim_without_rows_was_not_run(tmp_path):
    assert claims._by_rows({"study": "selection", "samples": 1}, tmp_path) == {}


def test_a_claim_that_asks_for_what_no_report_says_is_refused():
    with pytest.raises(ValueError, match="must have a paragraph with 'nothing of the kind'"):
        claims._by_rows({"study": "slices", "says": "nothing of the kind"}, ROOT / "docs/results")


@pytest.mark.slow
def test_the_committed_page_is_that_of_the_committed_rows(tmp_path, capsys):
    page = tmp_path / "claims.md"
    assert main(["study", "claims", "--results", str(ROOT / "docs/results"), "--out", str(page)]) == 0
    assert page.read_text() == (ROOT / "docs/claims.md").read_text()

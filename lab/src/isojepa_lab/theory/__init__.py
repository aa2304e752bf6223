"""The theorems as executable checks: `run_checks` derives or measures every lemma anew."""

from isojepa_lab.theory.catalogue import CHECKS, LEAN_AXIOMS, run_checks
from isojepa_lab.theory.check import THEOREMS, Check, Outcome, Part, select

__all__ = ["CHECKS", "LEAN_AXIOMS", "THEOREMS", "Check", "Outcome", "Part", "run_checks", "select"]

"""What the files of a record must hold, checked when they are read: rows of metrics, and results."""

import json
import math
from typing import Any

STATUSES = ("done", "diverged", "collapsed")  # how a run may end
_NAMES = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # JSON has no numbers for them


def check_result(result: Any) -> None:
    """See that a result says how a run ended.

    Raises:
        ValueError: something is missing, or of another kind.
    """
    if not isinstance(result, dict):
        raise ValueError(f"it must hold a JSON object, got {type(result).__name__}")
    for name in ("status", "reason", "seconds"):
        if name not in result:
            raise ValueError(f"it has no {name}")
    if result["status"] not in STATUSES:
        raise ValueError(f"status must be one of {', '.join(STATUSES)}, got {result['status']!r}")
    if not isinstance(result["reason"], str):
        raise ValueError(f"reason must be text, got {result['reason']!r}")
    for name in ("seconds", "cpu_seconds", "steps", "ranks"):
        value = result.get(name, 0)
        if not _is_number(value) or not 0 <= value < math.inf:
            raise ValueError(f"{name} must be a number that is not negative, got {value!r}")
    resumed_at = result.get("resumed_at", [])
    if not isinstance(resumed_at, list) or not all(type(step) is int for step in resumed_at):
        raise ValueError(f"resumed_at must list steps, got {resumed_at!r}")
    for name in ("metrics", "versions", "source"):
        if not isinstance(result.get(name) or {}, dict):
            raise ValueError(f"{name} must be an object, got {result[name]!r}")


def rows_of(content: bytes) -> list[dict[str, Any]]:
    """The rows of metrics; a torn last line, from a killed process, is left out.

    Raises:
        ValueError: a line is no row, or rows are not in the order of their steps.
    """
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(content.split(b"\n")[:-1], 1):  # what follows the last newline is torn
        if not line:
            continue
        try:
            row = json.loads(line.decode("utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"line {number} is not JSON: {error}") from error
        rows.append(_row(row, number, rows[-1]["step"] if rows else 0))
    return rows


def _row(row: Any, number: int, before: int) -> dict[str, Any]:
    """A row whose NaN and Inf are numbers again."""
    if not isinstance(row, dict):
        raise ValueError(f"line {number} must be a JSON object, got {type(row).__name__}")
    step = row.get("step")
    if not isinstance(step, int) or isinstance(step, bool) or step <= before:
        raise ValueError(f"line {number}: step must be an integer above {before}, got {step!r}")
    found: dict[str, Any] = {}
    for name, value in row.items():
        found[name] = _NAMES.get(value, value) if isinstance(value, str) else value
        if not _is_number(found[name]):
            raise ValueError(f"line {number}: {name} must be a number, got {value!r}")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and (not isinstance(value, int) or abs(value) < 1 << 1023)

"""Values as a report tells them: numbers in their format, settings of many runs, how it was made."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from isojepa.report.template import duration
from isojepa.studies.evidence import Evidence, common_settings
from isojepa.studies.findings import Value
from isojepa.studies.study import Study

_VALUES = 12  # of a setting that varies, named one by one


def text_of(value: Value, form: str = "") -> str:
    """A value as a table shows it: formatted if it is a number, yes or no, a dash for what is missing.

    Example:
        >>> text_of(0.99949, ".4f"), text_of(None, ".4f"), text_of(True), text_of(3.0, "d")
        ('0.9995', '–', 'yes', '3')
    """
    if value is None:
        return "–" if form else ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return {"inf": "∞", "-inf": "-∞"}.get(str(value), "nan")
    if form.endswith("d") and isinstance(value, float):
        if value != int(value):
            return f"{value:g}"  # what was asked to be whole and is not shows it
        value = int(value)
    if form:
        return format(value, form)
    return f"{value:g}" if isinstance(value, float) else str(value)


def settings_of(configs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The settings of many runs as text, by dotted name: first those that vary, with their values."""
    shared, varied = common_settings(configs)
    told = {name: _listed(values) for name, values in varied.items()}
    return told | {name: _setting(value) for name, value in shared.items()}


def how_made(study: Study, evidence: Evidence) -> dict[str, str]:
    """How a report was made, in Markdown: what -> how."""
    endings = ", ".join(f"{count} {status}" for status, count in evidence.endings.items())
    report = f"isojepa study report {evidence.typed} --scale {evidence.scale}"
    kept = [f"[{name}.json]({name}.json)" for name in study.sources or (study.name,)]
    made = {
        "Commands": f"`{evidence.sweep}`, then `{report}`",
        "Runs": f"{evidence.runs - evidence.missing} of {evidence.runs}: {endings}",
        "Training": f"{duration(evidence.seconds)} in all, without the scoring",
        "Made with": "; ".join(map(_versions, evidence.versions)),
        "Beside": study.source,
        "Every run": f"{', '.join(kept)}: config, scores, seconds, record",
    }
    return {what: how for what, how in made.items() if how}


def _versions(versions: Mapping[str, str]) -> str:
    threads = "1 thread" if versions.get("threads") == "1" else f"{versions.get('threads', '?')} threads"
    programs = [f"{name} {value}" for name, value in versions.items() if name not in ("threads", "machine")]
    return f"{', '.join(programs)} on {versions.get('machine', '?')} with {threads}"


def _listed(values: Sequence[Any]) -> str:
    texts = [_setting(value) for value in values]
    if len(texts) <= _VALUES:
        return ", ".join(texts)
    return f"{', '.join(texts[: _VALUES - 1])}, … {texts[-1]} ({len(texts)} values)"


def _setting(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_setting, value))})"
    return f"{value:g}" if isinstance(value, float) else str(value)

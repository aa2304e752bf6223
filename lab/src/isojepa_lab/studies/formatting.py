"""Values as a report prints them: numbers in their format, settings of many runs, how it was made."""

from collections.abc import Mapping, Sequence
from typing import Any

from isojepa.report.template import duration
from isojepa_lab.studies.evidence import Evidence, common_settings
from isojepa_lab.studies.study import AnyStudy

_VALUES = 12  # of a setting that varies, named one by one


def settings_of(configs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The settings of many runs as text, by dotted name: first those that vary, with their values."""
    shared, varied = common_settings(configs)
    varied_values = {name: _listed(values) for name, values in varied.items()}
    return varied_values | {name: _setting(value) for name, value in shared.items()}


def how_made(study: AnyStudy, evidence: Evidence) -> dict[str, str]:
    """How a report was made, in Markdown: what -> how."""
    endings = ", ".join(f"{count} {status}" for status, count in evidence.endings.items())
    report = f"isojepa study report {evidence.typed} --scale {evidence.scale}"
    links = [f"[{name}.json]({name}.json)" for name in study.sources or (study.name,)]
    what, without = ("Computing", "") if evidence.computed else ("Training", ", without the scoring")
    made = {
        "Claim": study.claim,
        "Commands": f"`{evidence.sweep}`, then `{report}`",
        "Runs": f"{evidence.runs - evidence.missing} of {evidence.runs}: {endings}",
        what: f"{duration(evidence.seconds)} in all{without}",
        "Made with": "; ".join(map(_versions, evidence.versions)),
        "Beside": study.source,
        "Every run": f"{', '.join(links)}: config, scores, seconds, record",
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

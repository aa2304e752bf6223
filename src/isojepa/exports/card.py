"""The model card: what the model is, in the form that hubs read, from an export's facts alone.

YAML between two lines of dashes, then Markdown. The license is left to the publisher of the model. What a
record or a file says may be anything: in sentences and tables it is escaped, in code it is written as Python
writes it.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from isojepa.terminal import escape_control, truncate

_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")  # others mean something at the start of a line alone
_LONGEST = 300  # characters of a value
_SCORES = {  # of the metrics, what is worth a line, and its words
    "probe": "linear probe, accuracy",
    "knn": "20 nearest neighbors, accuracy",
    "r2": "held-out R² of the latents",
    "rankme": "RankMe of the features",
    "lidar": "LiDAR of the features",
    "loss": "training loss",
    "smallest_variance": "smallest variance of the embedding",
    "dead_fraction": "fraction of the embedding's directions without variance",
}
_FILES = {"skipped": "files that could not be read", "fingerprint": "fingerprint"}
_STATUS = {
    "collapsed": "The run collapsed: its embeddings vary in few directions, and are of little use.",
    "diverged": "The run diverged: training broke off, and the weights are of little use.",
    "unfinished": "The run was not finished when this was written.",
}


def escaped(value: object) -> str:
    r"""Text as Markdown shows it: nothing in it is markup, a tag, or a character that is not seen.

    Example:
        >>> print(escaped("a|b <i> `c` [x](y)"))
        a\|b &lt;i&gt; \`c\` \[x\](y)
    """
    text = " ".join(truncate(escape_control(str(value)), _LONGEST).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", text).replace("://", ":\u200b//")  # hubs make links of bare addresses


def card(facts: Mapping[str, Any]) -> str:
    """The README.md of an export.

    Args:
        facts: what its `export.json` holds.
    """
    parts = [
        _front(facts),
        f"# {escaped(facts['title'])}",
        *_warnings(facts),
        f"{_about(facts)}\n\nWritten by isojepa {escaped(facts['isojepa'])} from the record "
        f"{escaped(facts['record']['id'])}; all numbers below are the record's, or were measured when this "
        "was written.",
        "## Use",
        f"```python\n{facts['loading']}\n```",
        *facts["notes"],
        _checked(facts),
        "## Input",
        _input(facts["input"]),
        "## Data",
        _data(facts),
        "## Training",
        _table(("setting", "value"), _settings(facts["settings"])),
        f"Made with {_versions(facts['versions'])}." if facts["versions"] else "",
        "## Measured",
        _scores(facts["metrics"]),
        "### Gaussianity",
        _gaussianity(facts["gaussianity"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front(facts: Mapping[str, Any]) -> str:
    pictures = facts["input"]["pictures"]
    values: dict[str, Any] = {"library_name": facts["library"]}
    if pictures:
        values["pipeline_tag"] = "image-feature-extraction"
    objective = facts["settings"].get("objective")
    named = [str(objective["name"])] if isinstance(objective, dict) and "name" in objective else []
    values["tags"] = ["self-supervised-learning", "isojepa", *named, *(["collapsed"] * (_bad(facts)))]
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=False)
    licence = "# license: the licence under which you give it away, e.g. mit; it is yours to choose\n"
    return f"---\n{text}{licence}---"


def _bad(facts: Mapping[str, Any]) -> bool:
    return bool(facts["record"]["status"] == "collapsed")


def _about(facts: Mapping[str, Any]) -> str:
    subject_names = {"features": "the features", "embedding": "the embedding, which the loss saw"}[
        facts["what"]
    ]
    count = facts["parameters"]
    return (
        f"The model gives {subject_names}, {facts['dim']} numbers for each observation; "
        f"it has {count:,} parameters."
    )


def _warnings(facts: Mapping[str, Any]) -> list[str]:
    record = facts["record"]
    if record["status"] == "done":
        return []
    reason = f" {escaped(record['reason'])}." if record["reason"] else ""
    steps = f" {record['step']:,} of {record['steps']:,} steps were done." if record["steps"] else ""
    return [f"> **Warning.** {_STATUS[record['status']]}{reason}{steps}"]


def _checked(facts: Mapping[str, Any]) -> str:
    check = facts["check"]
    if not check["reader"]:
        return "The file was not read back."
    return (
        f"The file was read back with {escaped(check['reader'])}: on made-up observations its largest "
        f"difference from the trained model is {check['largest_difference']:.2g}."
    )


def _input(given: Mapping[str, Any]) -> str:
    shape = ", ".join(map(str, given["shape"]))
    if not given["pictures"]:
        return f"Observations (batch, {shape}) of float32, as the world of the run gives them."
    channels, height, width = given["shape"]
    description = (
        f"Pictures (batch, {shape}) of float32, channels {'grey' if channels == 1 else 'red, green, blue'}: "
        f"the shorter side resized to {min(height, width)} pixels, bilinear with antialiasing, and the "
        "square in the center. "
    )
    if given["mean"] is None:
        return description + "Mean and deviation that they were normalized by are not known."
    numbers = _table(
        ("channel", "mean", "std"),
        [
            (index, f"{m:.6g}", f"{s:.6g}")
            for index, (m, s) in enumerate(zip(given["mean"], given["std"], strict=True))
        ],
    )
    if given["normalized_inside"]:
        description += (
            "Pixels in \\[0, 1\\]: the graph itself takes the mean off and divides by the deviation:"
        )
    else:
        description += "Pixels in \\[0, 1\\] less the mean, divided by the deviation:"
    return f"{description}\n\n{numbers}"


def _data(facts: Mapping[str, Any]) -> str:
    source_facts = facts["data"]
    lines: list[tuple[object, object]] = [("name", source_facts["name"])] if source_facts.get("name") else []
    if source_facts.get("kind") == "pictures" and "size" in source_facts:
        labels = f"{source_facts['classes']} classes" if source_facts.get("classes") else "none"
        lines += [("pictures", f"{source_facts['size']:,}"), ("labels", labels)]
        lines += [(words, source_facts[key]) for key, words in _FILES.items() if key in source_facts]
    elif source_facts.get("size"):
        lines += [("states", f"{source_facts['size']:,}")]
    if not lines:
        return "The record does not say more of the data than the settings below."
    objective = facts["settings"].get("objective")
    supervised = isinstance(objective, dict) and objective.get("name") == "supervised"
    note = "The objective was trained on the labels." if supervised else "The objective saw no labels."
    return _table(("", ""), lines) + (f"\n\n{note}" if source_facts.get("classes") else "")


def _settings(settings: Mapping[str, Any]) -> list[tuple[object, object]]:
    lines: list[tuple[object, object]] = []
    for section, value in settings.items():
        if isinstance(value, dict):
            lines += [(f"{section}.{key}", _value(entry)) for key, entry in value.items()]
        else:
            lines.append((section, _value(value)))
    return lines


def _value(value: object) -> object:
    return (
        ", ".join(map(str, value)) if isinstance(value, list | tuple) else "none" if value is None else value
    )


def _scores(metrics: Mapping[str, float]) -> str:
    lines = []
    for key, words in _SCORES.items():
        value = metrics.get(key)
        if value is None:
            continue
        low, high = metrics.get(f"{key}_low"), metrics.get(f"{key}_high")
        message = "" if low is None or high is None else f"{low:.4f} to {high:.4f}"
        lines.append((words, f"{value:.4g}", message))
    if not lines:
        return "The record has no metrics."
    step = f"After {metrics['step']:,} steps, while it trained.\n\n"
    probed = "" if "probe" in metrics or "knn" in metrics else "\n\nNo probe was made."
    return step + _table(("", "value", "95 % interval"), lines) + probed


def _gaussianity(tested: Mapping[str, Any]) -> str:
    if "reason" in tested:
        return f"Not measured: {escaped(tested['reason'])}."
    value, p = tested["gaussianity"], tested["gaussianity_p"]
    if not isinstance(value, float) or not math.isfinite(value) or not math.isfinite(p):
        return "Not measured: the embeddings are not finite, or too few."
    other = " The pictures are others than those of the run." * tested["other_data"]
    return (
        f"Embeddings of {tested['states']} views of the data, {tested['dim']} dimensions, tested for "
        f"N(0, I) by the sliced Epps-Pulley statistic: {value:.4g}, about 1.06 for a Gaussian; "
        f"p = {p:.3g} by simulation. "
        f"Effective rank {tested['effective_rank']:.1f} of {tested['dim']}, mean variance "
        f"{tested['mean_variance']:.3g}.{other}"
    )


def _versions(versions: Mapping[str, Any]) -> str:
    return ", ".join(f"{escaped(name)} {escaped(value)}" for name, value in versions.items())


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [" | ".join(header), " | ".join("---" for _ in header)]
    lines += [" | ".join(escaped(cell) for cell in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)

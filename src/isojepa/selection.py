r"""Which run to keep, from training losses alone.

Balestriero & LeCun (2025), "LeJEPA", Section 6.2: the training loss ranks runs as their downstream accuracy
does, and with weights lambda that differ from run to run, Equation 8,

    loss / lambda^alpha,    alpha = 0.4 fixed beforehand,

does so better. Published for images, where they report rank correlations of about 0.85 and 0.99. Runs that
collapsed or diverged are no candidates: both losses may be lowest there. Beside it stand three measures of
the trained model, none of which sees a label: RankMe, LiDAR and the sliced Epps-Pulley statistic with its
p-value.

How sure a choice is comes from the spread of log losses: between seeds where settings were repeated, pooled
over settings; else between the last windows of each run, which does not know how runs differ by luck. The
probability is the share of draws, normal with these errors (Student's t for few seeds), in which the setting
is the best.

A loss is comparable between runs that minimize the same thing on the same data: world, objective but for its
weight, batch. Encoders, learning rates, lengths, weights and seeds may differ; runs that differ in the seed
alone are repetitions of one setting.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata

from isojepa.encoders.model import embed
from isojepa.probes.rank import lidar, rankme
from isojepa.runs import load_run
from isojepa.seeds import generator
from isojepa.training.run_directory import RunDirectory, identity
from isojepa.training.watch import measure
from isojepa.validation import choose, validate_types

_DEEP = 3  # folders below the one that was named
_ROWS = 10  # of metrics, the last ones, that show how noisy a loss is
_WEIGHT = re.compile(r"\bweight=([-+0-9.e]+)")
_DRAWN = ("seed", "initial_weights", "models")  # of a config, what repetitions differ in
ALPHA = 0.4  # Figure 11: the correlation is highest about there
_DRAWS = 20_000
_CONFIDENT = 0.95
_STATES = 2048  # that the measures of a trained model are taken of
_MANY = 50  # degrees of freedom from which an error is taken as known
_MIN_CANDIDATES = 3  # for a rank correlation
CRITERIA = {"scaled": -1, "loss": -1, "rankme": 1, "lidar": 1, "gaussianity": -1}
"""Criterion -> whether more is better (1) or less (-1)."""


@dataclass(frozen=True)
class Candidate:
    """One finished run.

    Attributes:
        path: its record.
        weight: lambda of its objective; None if it has none.
        seed: of the run.
        loss: the training loss of its last window.
        noise: standard deviation, around its trend, of the logarithm of a window's loss; NaN for few windows.
        metrics: its last row.
        group: what runs must share to be compared.
        setting: what repetitions share.
        measures: rankme, lidar, gaussianity and gaussianity_p, as far as they are known.
        note: why they are not.
    """

    path: Path
    weight: float | None
    seed: int | None
    loss: float
    noise: float
    metrics: Mapping[str, float]
    group: str
    setting: str
    measures: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class ExcludedRun:
    """A record that is no candidate, and why."""

    path: Path
    reason: str


def find(paths: Sequence[str | Path]) -> list[Path]:
    """The records at or below some folders, in order of their names.

    Raises:
        ValueError: a path is no folder, or there are none.
    """
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            raise ValueError(f"{path} must be a folder of records, or a record, got none")
        found |= dict.fromkeys(_below(path, _DEEP))
    if not found:
        raise ValueError(
            f"{', '.join(map(str, paths))} must hold records, got none: folders with a config.json"
        )
    return list(found)


def read(path: Path) -> Candidate | ExcludedRun:
    """What a record says, or why its run cannot be chosen."""
    try:
        record = RunDirectory.open(path)
        config, result, rows = record.config, record.result, record.metrics
    except (ValueError, OSError) as error:
        return ExcludedRun(path, f"cannot be read: {error}")
    if result is None:
        return ExcludedRun(path, f"not finished: {rows[-1]['step'] if rows else 0} steps are done")
    if result["status"] != "done":
        return ExcludedRun(path, f"{result['status']}: {result['reason']}")
    losses = np.array([row.get("loss", math.nan) for row in rows], dtype=float)
    if not len(losses) or not math.isfinite(losses[-1]):
        return ExcludedRun(path, "its metrics hold no finite loss")
    seed = config.get("seed")
    return Candidate(
        path,
        weight_of(config),
        seed if isinstance(seed, int) else None,
        float(losses[-1]),
        _noise(losses[-_ROWS:]),
        rows[-1],
        _group(config),
        _text({key: value for key, value in identity(config).items() if key not in _DRAWN}),
    )


def weight_of(config: Mapping[str, Any]) -> float | None:
    """Lambda of a config, also of one that describes Python objects in words.

    Example:
        >>> weight_of({"objective": {"name": "lejepa", "weight": 0.05}}), weight_of({"objective": "Mine()"})
        (0.05, None)
    """
    objective = config.get("objective")
    if isinstance(objective, dict):
        weight = objective.get("weight")
        return float(weight) if isinstance(weight, int | float) and not isinstance(weight, bool) else None
    match = _WEIGHT.search(objective) if isinstance(objective, str) else None
    try:
        return float(match[1]) if match else None
    except ValueError:
        return None


def difference_of(one: str, other: str) -> str:
    """The first thing in which two groups differ, in words."""
    a, b = json.loads(one), json.loads(other)
    for key in a:
        if a[key] == b[key]:
            continue
        if isinstance(a[key], dict) and isinstance(b[key], dict):
            part = next(name for name in sorted({*a[key], *b[key]}) if a[key].get(name) != b[key].get(name))
            return f"{key}.{part} {a[key].get(part)!r} and {b[key].get(part)!r}"
        return f"{key} {str(a[key])[:60]!r} and {str(b[key])[:60]!r}"
    return "nothing"


def _below(path: Path, deep: int) -> Iterator[Path]:
    if (path / "config.json").is_file():
        yield path
    elif deep:
        for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _below(Path(entry.path), deep - 1)


def _group(config: Mapping[str, Any]) -> str:
    objective = config.get("objective")
    if isinstance(objective, dict):
        objective = {key: value for key, value in objective.items() if key != "weight"}
    elif isinstance(objective, str):
        objective = _WEIGHT.sub("weight", objective, count=1)
    training = config.get("training")
    recipe = training if isinstance(training, dict) else {}
    # the Epps-Pulley statistic grows with the samples of which it is computed at once
    batch = {name: recipe.get(name) for name in ("batch", "accumulate")}
    sample = config.get("world_sample")
    return _text(
        {"world": config.get("world"), "world_sample": sample, "objective": objective, "training": batch}
    )


def _noise(losses: np.ndarray) -> float:
    """From second differences, which no straight trend reaches: each has 6 times the variance of a window."""
    if len(losses) < 4 or not (np.isfinite(losses).all() and (losses > 0).all()):
        return math.nan
    return float(np.sqrt((np.diff(np.log(losses), 2) ** 2).mean() / 6))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@dataclass(frozen=True)
class SelectedRun:
    """The run to keep among those that can be compared.

    Attributes:
        run: the one.
        by: the criterion that chose it.
        candidates: all, the best first.
        values: criterion -> value of each candidate, in that order; NaN where unknown.
        probability: that its setting is the best one; NaN if no noise is known.
        noise: "seeds", "windows" or "none": where the noise was seen.
        margin: to the next setting, in standard errors of the difference; NaN if no noise is known.
        others: criterion -> the run that it would keep.
        agreement: criterion -> rank correlation with the one that chose.
        truth: criterion -> rank correlation with a known score, and the score's name; only to look back.
        against: the score's name, or empty.
        notes: what to know besides.
    """

    run: Candidate
    by: str
    candidates: tuple[Candidate, ...]
    values: Mapping[str, tuple[float, ...]]
    probability: float
    noise: str
    margin: float
    others: Mapping[str, Candidate]
    agreement: Mapping[str, float]
    truth: Mapping[str, float]
    against: str
    notes: tuple[str, ...]

    @property
    def sure(self) -> bool:
        """Whether repetitions say so with 95 %: noise between windows alone is not enough."""
        return self.noise == "seeds" and self.probability >= _CONFIDENT


@dataclass(frozen=True)
class Selection:
    """A choice for each group of comparable runs, the excluded runs, and the settings in which the groups
    differ."""

    choices: tuple[SelectedRun, ...]
    left_out: tuple[ExcludedRun, ...]
    apart: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "choices": [_plain(choice) for choice in self.choices],
            "left_out": [{"record": str(one.path), "reason": one.reason} for one in self.left_out],
            "cannot_be_compared": list(self.apart),
        }


@validate_types
def select(
    paths: Sequence[str | Path],
    *,
    by: str = "scaled",
    alpha: float = ALPHA,
    models: bool = True,
    against: str = "r2",
    progress: Callable[[int, int, str], None] = lambda done, total, name: None,
) -> Selection:
    """Choose among the records at or below some folders.

    Args:
        paths: folders.
        by: the criterion that decides, see `CRITERIA`.
        alpha: exponent of lambda in "scaled"; fix it before looking.
        models: open trained models for the measures that metrics do not hold.
        against: a score in the metrics that criteria are compared with, if it is there. It chooses nothing.
        progress: called with models done, their number, and the next one's name.

    Raises:
        ValueError: no records, or a wrong setting.
    """
    choose("by", by, CRITERIA)
    if not math.isfinite(alpha):
        raise ValueError(f"alpha must be finite, got {alpha}")
    known: list[Candidate] = []
    left_out: list[ExcludedRun] = []
    for found in map(read, find(paths)):
        (known if isinstance(found, Candidate) else left_out).append(found)  # type: ignore[arg-type]
    measured = []
    for place, candidate in enumerate(known):
        progress(place, len(known), candidate.path.name)
        measured.append(_measured(candidate, models))
    groups: dict[str, list[Candidate]] = {}
    for candidate in measured:
        groups.setdefault(candidate.group, []).append(candidate)
    names = list(groups)
    apart = tuple(difference_of(names[0], other) for other in names[1:])
    return Selection(
        tuple(_choose(group, by, alpha, against) for group in groups.values()), tuple(left_out), apart
    )


def _measured(candidate: Candidate, models: bool) -> Candidate:
    """With the measures that its metrics hold, and those of its trained model."""
    held = {name: candidate.metrics[name] for name in ("rankme", "lidar") if name in candidate.metrics}
    if not models:
        return replace(candidate, measures=held)
    try:
        encoder, source, _ = load_run(candidate.path)
        batch = source.sample(_STATES, generator(0, "select"))
        views = [embed(encoder, view) for view in batch.views[:2]]
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        return replace(candidate, measures=held, note=f"its model was not opened: {error}")
    tested = measure(views[0])
    measures = {"rankme": rankme(views[0]), **{key: tested[key] for key in ("gaussianity", "gaussianity_p")}}
    if len(views) == 2:
        measures["lidar"] = lidar(np.stack([view.numpy() for view in views]))
    return replace(candidate, measures={**measures, **held})


def _choose(group: list[Candidate], by: str, alpha: float, against: str) -> SelectedRun:
    notes = [one for one in dict.fromkeys(candidate.note for candidate in group) if one]
    values = {name: np.array([_value(name, one, alpha) for one in group]) for name in CRITERIA}
    if by == "scaled" and not np.isfinite(values[by]).all():
        notes.append("the weight of a run is unknown or 0: the plain loss decides")
        by = "loss"
    usable = np.isfinite(values[by])
    if not usable.all():
        notes.append(f"{by} is not known of all runs: the plain loss decides")
        by = "loss"
    score = -CRITERIA[by] * values[by]  # less is better
    settings = list(dict.fromkeys(one.setting for one in group))
    members = [[i for i, one in enumerate(group) if one.setting == name] for name in settings]
    means, errors, noise, freedom = _errors(group, score, members, by)
    best = int(np.argmin(means))
    probability, margin = _certainty(means, errors, freedom, best)
    run = min(members[best], key=lambda i: float(score[i]))
    if (edge := _edge(group, group[run])) and len(settings) > 1:
        notes.append(edge)
    order = sorted(
        range(len(group)), key=lambda i: (means[next(j for j, m in enumerate(members) if i in m)], score[i])
    )
    return SelectedRun(
        run=group[run],
        by=by,
        candidates=tuple(group[i] for i in order),
        values={name: tuple(float(found[i]) for i in order) for name, found in values.items()},
        probability=probability,
        noise=noise,
        margin=margin,
        others={
            name: group[int(np.nanargmax(CRITERIA[name] * found))]
            for name, found in values.items()
            if name != by and np.isfinite(found).any()
        },
        agreement=_correlations(values, CRITERIA[by] * values[by], skip=by),
        truth=_correlations(values, np.array([one.metrics.get(against, math.nan) for one in group])),
        against=against if any(against in one.metrics for one in group) else "",
        notes=tuple(notes),
    )


def _value(name: str, one: Candidate, alpha: float) -> float:
    if name == "loss":
        return one.loss
    if name == "scaled":
        return one.loss / one.weight**alpha if one.weight else math.nan
    return float(one.measures.get(name, math.nan))


def _errors(
    group: Sequence[Candidate], score: np.ndarray, members: Sequence[Sequence[int]], by: str
) -> tuple[np.ndarray, np.ndarray, str, float]:
    """Mean of each setting, its standard error, where the noise was seen, and its degrees of freedom."""
    losses = by in ("scaled", "loss") and (score > 0).all()
    scale = np.log(score) if losses else score
    means = np.array([scale[list(member)].mean() for member in members])
    sizes = np.array([len(member) for member in members])
    freedom = int((sizes - 1).sum())
    if freedom:
        squares = sum(float(((scale[list(m)] - scale[list(m)].mean()) ** 2).sum()) for m in members)
        return means, math.sqrt(squares / freedom) / np.sqrt(sizes), "seeds", freedom
    windows = np.array([group[member[0]].noise for member in members])
    if losses and np.isfinite(windows).all():
        return means, windows, "windows", math.inf
    return means, np.full(len(means), math.nan), "none", math.inf


def _certainty(means: np.ndarray, errors: np.ndarray, freedom: float, best: int) -> tuple[float, float]:
    """Probability that the best is the best, and its distance to the next in standard errors."""
    if len(means) == 1:
        return 1.0, math.inf
    if not np.isfinite(errors).all():
        return math.nan, math.nan
    rest = np.delete(np.arange(len(means)), best)
    gaps = (means[rest] - means[best]) / np.maximum(np.hypot(errors[rest], errors[best]), 1e-300)
    source = generator(0, "select")
    noise = torch.randn(_DRAWS, len(means), generator=source, dtype=torch.float64).numpy()
    spread = np.ones((_DRAWS, 1))
    if freedom <= _MANY:  # Student's t: the common error is itself uncertain
        squares = torch.randn(_DRAWS, int(freedom), generator=source, dtype=torch.float64).square().sum(1)
        spread = np.sqrt(freedom / squares.numpy())[:, None]
    winners = np.argmin(means + errors * spread * noise, axis=1)
    return float((winners == best).mean()), float(gaps.min())


def _correlations(values: Mapping[str, np.ndarray], truth: np.ndarray, skip: str = "") -> dict[str, float]:
    """Spearman's correlation of each criterion, turned so that more is better, with a score."""
    differences = {}
    for name, value in values.items():
        both = np.isfinite(value) & np.isfinite(truth)
        if name == skip or both.sum() < _MIN_CANDIDATES:
            continue
        a, b = rankdata(CRITERIA[name] * value[both]), rankdata(truth[both])
        if a.std() > 0 and b.std() > 0:
            differences[name] = float(np.corrcoef(a, b)[0, 1])
    return differences


def _edge(group: Sequence[Candidate], run: Candidate) -> str:
    weights = sorted({one.weight for one in group if one.weight is not None})
    if len(weights) < 2 or run.weight not in (weights[0], weights[-1]):
        return ""
    side, beyond = ("smallest", "a smaller") if run.weight == weights[0] else ("largest", "a larger")
    return f"its weight {run.weight:g} is the {side} among the candidates: {beyond} one may be better yet"


def _plain(choice: SelectedRun) -> dict[str, Any]:
    runs = [
        {
            "record": str(one.path),
            "weight": one.weight,
            "seed": one.seed,
            **{name: values[place] for name, values in choice.values.items()},
            "gaussianity_p": one.measures.get("gaussianity_p", math.nan),
            **({choice.against: one.metrics.get(choice.against, math.nan)} if choice.against else {}),
        }
        for place, one in enumerate(choice.candidates)
    ]
    return {
        "record": str(choice.run.path),
        "by": choice.by,
        "sure": choice.sure,
        "probability": choice.probability,
        "noise": choice.noise,
        "margin": choice.margin,
        "others": {name: str(one.path) for name, one in choice.others.items()},
        "agreement": dict(choice.agreement),
        "against": choice.against,
        "truth": dict(choice.truth),
        "notes": list(choice.notes),
        "runs": runs,
    }

"""What the sweep over the latents' law says: tables, sentences and figures from rows."""

from collections.abc import Sequence

from isojepa_lab.studies.findings import Column, Findings, Picture, Table, Value
from isojepa_lab.studies.latent_law_curves import (
    GAUSSIAN,
    LOST,
    PLATEAU,
    SCORES,
    Lines,
    alphas_of,
    lines_of,
    lost_latent,
    of_objective,
    peak,
    plateau,
)
from isojepa_lab.studies.latent_law_figure import draw_by_mixing, draw_by_world, draw_orthogonality
from isojepa_lab.studies.latent_law_sentences import (
    Theory,
    heavy_sentences,
    notes,
    peak_sentences,
    plateau_sentences,
    theory_sentences,
)
from isojepa_lab.studies.latent_law_theory import Expected, expected
from isojepa_lab.studies.measured import grouped, mean
from isojepa_lab.studies.study import Row


def findings(rows: Sequence[Row]) -> Findings:
    """Tables, figures and sentences of what is there, whether or not all cells are."""
    lines = lines_of(rows)
    theory = {
        (name, alpha): _said(group, alpha) for name, group in lines.items() for alpha in alphas_of(group)
    }
    objectives = list(dict.fromkeys(str(row.labels["objective"]) for row in rows))
    summary = [
        peak_sentences(lines),
        theory_sentences(lines, theory),
        plateau_sentences(lines),
        heavy_sentences(lines, theory),
    ]
    return Findings(
        summary=[words for words in summary if words],
        tables=[
            _by_law(lines, objectives, theory),
            _peaks(lines),
            _plateaus(lines),
            _each(lines),
        ],
        pictures=[
            Picture(
                "law",
                "Held-out R² on samples of the law, thin for each mixing and thick for their mean. "
                "Dashed: what the best white embedding gives; dotted: an exactly Gaussian one. Where the "
                "dashed line ends, no function of the latents is the slowest.",
                draw_by_world(lines, theory | _between(lines)),
            ),
            Picture(
                "grid",
                "The published score, in-sample on a grid over [-3, 3]², by world and mixing.",
                draw_by_mixing(lines, "r2_grid"),
            ),
            Picture(
                "orthogonality",
                "Orthogonality error of the fitted linear map, mean over mixings: above on samples of the "
                "law, below on the published grid.",
                draw_orthogonality(lines),
            ),
        ],
        notes=notes(rows),
    )


def _said(rows: Sequence[Row], alpha: float) -> Expected:
    return expected(str(rows[0].labels["world"]), alpha, float(rows[0].config["world"]["rho"]))


def _between(lines: Lines) -> dict[tuple[str, float], Expected]:
    """Theory between the laws that were run, where it changes fast: from the Laplace law to the Gaussian."""
    steps = [2.0 ** (k / 4) for k in (1, 2, 3, 6)]
    return {
        (name, alpha): _said(group, alpha)
        for name, group in lines.items()
        if min(alphas_of(group)) <= 1 and max(alphas_of(group)) > GAUSSIAN
        for alpha in steps
    }


def _by_law(lines: Lines, objectives: Sequence[str], theory: Theory) -> Table:
    entries: list[dict[str, Value]] = []
    for name, group in lines.items():
        for alpha in alphas_of(group):
            here = [row for row in group if row.labels["alpha"] == alpha]
            said = theory[name, alpha]
            entry: dict[str, Value] = {
                "world": name,
                "alpha": alpha,
                "white": said.white,
                "gaussian": said.gaussian,
                "rank": said.rank,
                "lost": sum(lost_latent(row, said.gaussian) for row in here),
                "runs": len(here),
            }
            for objective in objectives:
                entry[objective] = mean(of_objective(here, objective), "r2")
            entries.append(entry)
    return Table(
        name="by_law",
        title="R² on samples of the law, mean over mixings and seeds, beside theory",
        columns=[
            Column("world", "world"),
            Column("alpha", "alpha", "g"),
            *(Column(objective, objective, ".4f") for objective in objectives),
            Column("white", "theory, white", ".4f"),
            Column("gaussian", "theory, Gaussian", ".4f"),
            Column("rank", "rank correlation", ".3f"),
            Column("lost", "lost a latent", "d"),
            Column("runs", "runs", "d"),
        ],
        rows=entries,
        note=(
            "Theory, white: squared correlation of a latent with its slowest function, none where there "
            "is no slowest. Theory, Gaussian: with its normal score. Rank correlation: Spearman's, of a "
            f"latent across a pair. Lost a latent: runs with less than {LOST:g} of what a Gaussian embedding "
            "would have."
        ),
    )


def _peaks(lines: Lines) -> Table:
    entries: list[dict[str, Value]] = []
    for name, group in lines.items():
        for (objective,), rows in grouped(group, "objective").items():
            entry: dict[str, Value] = {"world": name, "objective": str(objective)}
            for score in SCORES:
                peaks = [peak(some, score) for some in grouped(rows, "mixing").values()]
                entry[score] = ", ".join(f"{alpha:g}" for alpha in peaks if alpha is not None)
            entries.append(entry)
    mixings = list(dict.fromkeys(str(row.labels["mixing"]) for group in lines.values() for row in group))
    return Table(
        name="peaks",
        title="Where recovery peaks: alpha of the highest R², mixing by mixing",
        columns=[
            Column("world", "world"),
            Column("objective", "objective"),
            *(Column(score, words) for score, words in SCORES.items()),
        ],
        rows=entries,
        note=f"In the order {', '.join(mixings)}.",
    )


def _plateaus(lines: Lines) -> Table:
    entries: list[dict[str, Value]] = []
    for name, group in lines.items():
        for (objective,), rows in grouped(group, "objective").items():
            entry: dict[str, Value] = {"world": name, "objective": str(objective)}
            for score in SCORES:
                reach = plateau(rows, score)
                entry[score] = "none" if reach is None else f"{reach[0]:g} to {reach[1]:g}"
                heavy = [row for row in rows if float(row.labels["alpha"]) < GAUSSIAN]
                entry[f"{score}_heavy"] = mean(heavy, score)
            entries.append(entry)
    columns = [Column("world", "world"), Column("objective", "objective")]
    for score, words in SCORES.items():
        columns.append(Column(score, f"plateau {words}"))
        columns.append(Column(f"{score}_heavy", f"R² below alpha 2 {words}", ".3f"))
    return Table(
        name="plateau",
        title=f"The plateau: alphas around the peak with a mean R² of at least {PLATEAU:g}",
        columns=columns,
        rows=entries,
    )


def _each(lines: Lines) -> Table:
    scores = ("r2", "r2_grid", "orthogonality_error", "orthogonality_grid")
    entries: list[dict[str, Value]] = []
    for name, group in lines.items():
        for (mixing, alpha, objective), rows in grouped(group, "mixing", "alpha", "objective").items():
            entry: dict[str, Value] = {
                "world": name,
                "mixing": mixing,
                "alpha": alpha,
                "objective": objective,
                "runs": len(rows),
                "failed": ", ".join(sorted({row.status for row in rows if row.status != "done"})),
            }
            entries.append(entry | {score: mean(rows, score) for score in scores})
    return Table(
        name="each",
        title="Every place, mean over seeds",
        columns=[
            Column("world", "world"),
            Column("mixing", "mixing"),
            Column("alpha", "alpha", "g"),
            Column("objective", "objective"),
            Column("r2", "R²", ".4f"),
            Column("r2_grid", "R² on the grid", ".4f"),
            Column("orthogonality_error", "orthogonality error", ".3f"),
            Column("orthogonality_grid", "on the grid", ".3f"),
            Column("runs", "runs", "d"),
            Column("failed", ""),
        ],
        rows=entries,
    )

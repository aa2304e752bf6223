"""Names that must not be given, and names that must be: exact embeddings, many worlds each, nothing trained.

A normal process of one rate, and a copula of it, look the same along every rotation: no axis may be named.
An encoder that is not done leaves something of each latent's law or of its own curvature on the axes:
h = (1 - a) u + a T(u), u the hidden normal and T(u) the latent, or a cubic of u; or it compresses large rows,
whatever their direction. Shapes are then there to be found, and are not the world's. Langevin worlds, whose
axes have names, show what refusing costs.

Nor has a world names whose coordinates depend on each other: a walk in an L-shaped domain, and one in a
square whose points turn by an angle that grows with their radius.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy
import torch

from isojepa.data import Langevin
from isojepa.distributions import Density, GeneralizedNormal, NormalScores, Uniform, bimodal, eigensystem
from isojepa.report.charts import Chart, Reference, curves_chart
from isojepa.seeds import generator, numpy_generator
from isojepa.unmixing import unmix
from isojepa_lab.studies.cells import Cell, Computation, crossed
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Statement, asks, at_most
from isojepa_lab.studies.study import Study

ALLOWED = 0.05  # share of worlds without names in which one may be given
FOUND = 0.95  # share of worlds with names in which all must be found, with the most rows
LAWS: dict[str, Density] = {
    "uniform": Uniform(),
    "bimodal": bimodal(),
    "generalised normal 4": GeneralizedNormal(4.0),
    "generalised normal 2.5": GeneralizedNormal(2.5),
    "generalised normal 1.5": GeneralizedNormal(1.5),
}
EXACT, CUBIC, COMPRESSED = "Gaussian", "Gaussian, a cubic left", "Gaussian, large rows compressed"
_COPULA = "copula of "
LEFT = (0.1, 0.3, 1.0)  # shares of the law that encoders of copula worlds leave; 1 is the law itself
COPULAS = tuple(_COPULA + law for law in ("uniform", "bimodal", "generalised normal 4"))
BLIND = (EXACT, CUBIC, *COPULAS, COMPRESSED)
ELL, SWIRL = "L-shaped domain", "swirled square"
DEPENDENT = (ELL, SWIRL)
PAIRED, ALONE = "pairs", "one view"
RHOS = (0.5, 0.9, 0.98)
SIZES: dict[str, dict[str, Any]] = {
    "quick": {"trials": 2, "batches": 1, "rows": (2_000,), "known": 1},
    "standard": {"trials": 20, "batches": 10, "rows": (1_000, 5_000, 20_000), "known": 1},
}
SIZES["paper"] = SIZES["standard"] | {"batches": 50, "known": 5}
_DIMS = (2, 3, 4, 8)
_BLIND_ROWS = (1_000, 5_000, 20_000)
_SCORES = ("named", "all", "departure", "world_departure")
_CUBE = 0.1  # of the third Hermite polynomial: 1 % of the variance
_WALK, _STEPS = 0.12, 8  # length of a step, and steps from one view to the next, of a walk in the plane
_SQUEEZE = 0.1  # of the mean square of a row's values, by which it is compressed


def cells(scale: str) -> list[Cell]:
    """Worlds without names, by what an encoder left; worlds with names, by law and rows."""
    size = SIZES[scale]
    trials, batches = size["trials"], range(size["batches"])

    def asked(**labels: Any) -> Computation:
        return Computation({**labels, "trials": trials})

    cells = []
    for kind in BLIND:
        for residuals in LEFT if kind in COPULAS else (0.0,):
            cells += crossed(asked, part="blind", kind=kind, left=residuals, views=PAIRED, batch=batches)
    cells += crossed(asked, part="blind", kind=EXACT, left=0.0, views=ALONE, batch=batches)
    cells += crossed(
        asked, part="blind", kind=DEPENDENT, left=0.0, views=PAIRED, rows=size["rows"][-1:], batch=batches[:2]
    )
    settings = {"part": "known", "kind": LAWS, "left": 0.0, "views": (PAIRED, ALONE), "rows": size["rows"]}
    return cells + crossed(asked, **settings, batch=range(size["known"]))


def measure(cell: Cell) -> dict[str, Any]:
    """In how many worlds some axis was named, and in how many all were; the axes' departures."""
    settings = cell.settings
    some, every, departures, worlds = 0, 0, [], []
    for h, h_next in _worlds(settings):
        try:
            unmixing = unmix(h, h_next if settings["views"] == PAIRED else None, linearize=False)
        except ValueError:  # one row with much of the variance of a tail: nothing is named
            continue
        some += unmixing.n_identified_ > 0
        every += unmixing.n_identified_ == len(unmixing.components_)
        departures += [axis.departure for axis in unmixing.components_]
        worlds += [axis.world_departure for axis in unmixing.components_ if axis.world_departure is not None]
    return {
        "named": some / settings["trials"],
        "all": every / settings["trials"],
        "departure": float(np.mean(departures)) if departures else None,
        "world_departure": float(np.mean(worlds)) if worlds else None,
    }


def _worlds(settings: dict[str, Any]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Both views of embeddings, turned at random, one world after the other."""
    kind, trials = settings["kind"], settings["trials"]
    for trial in range(settings["batch"] * trials, (settings["batch"] + 1) * trials):
        rng = numpy_generator(trial, "refusals", kind)
        dim, rho = _DIMS[trial % len(_DIMS)], RHOS[trial // len(_DIMS) % len(RHOS)]
        rows = settings.get("rows") or _BLIND_ROWS[trial % len(_BLIND_ROWS)]
        if kind in DEPENDENT:
            dim = 2
            views = list(_plane(kind, rows, rng))
        elif settings["part"] == "known":
            pairs = Langevin(dim=dim, law=LAWS[kind], rho=rho).sample(rows, generator(trial, "refusals"))
            system = eigensystem(LAWS[kind], 1)
            views = [np.asarray(system(1, view.double().numpy())) for view in pairs]
        else:
            u = rng.standard_normal((rows, dim))
            after = rho * u + np.sqrt(1 - rho**2) * rng.standard_normal((rows, dim))
            bend = _leftover(kind, settings["left"])
            views = [bend(view) for view in (u, after)]
        turn = scipy.stats.special_ortho_group.rvs(dim, random_state=rng)
        yield views[0] @ turn, views[1] @ turn


def _plane(kind: str, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Both views of a walk that stays inside its domain, whose stationary law is uniform."""
    missing = 0.0 if kind == ELL else 1.0  # the corner beyond which a point is outside
    z = rng.uniform(-1, 1, (2 * rows, 2))
    z = z[(z < missing).any(1)][:rows]
    after = z.copy()
    for _ in range(_STEPS):
        moved = after + _WALK * rng.standard_normal(after.shape)
        inside = (np.abs(moved) < 1).all(1) & (moved < missing).any(1)
        after[inside] = moved[inside]
    return (z, after) if kind == ELL else (_swirled(z), _swirled(after))


def _swirled(z: np.ndarray) -> np.ndarray:
    radius = np.linalg.norm(z, axis=1, keepdims=True)
    turned = np.stack((-z[:, 1], z[:, 0]), axis=1)
    return np.asarray(np.cos(radius) * z + np.sin(radius) * turned)


def _leftover(kind: str, left: float) -> Callable[[np.ndarray], np.ndarray]:
    """What is seen of the hidden normal on each axis."""
    if kind == EXACT:
        return lambda u: u
    if kind == CUBIC:
        return lambda u: u + _CUBE * (u**3 - 3 * u) / np.sqrt(6)
    if kind == COMPRESSED:
        return lambda u: u / (1 + _SQUEEZE * (u**2).mean(1, keepdims=True))
    scores = NormalScores(LAWS[kind.removeprefix(_COPULA)])
    return lambda u: (1 - left) * u + left * scores.to_z(torch.from_numpy(u)).numpy()


def _blind(rows: Rows) -> Lines:
    selection = rows.where(part="blind")
    return selection.lines(["kind", "left", "views"], *_SCORES, worlds=_count)


def _known(rows: Rows) -> Lines:
    selection = rows.where(part="known")
    return selection.lines(["kind", "views", "rows"], *_SCORES, worlds=_count)


def _most_rows(rows: Rows, views: str) -> Lines:
    lines = _known(rows).where(views=views)
    most = max((line["rows"] for line in lines), default=0)
    return lines.where(rows=most)


def _count(own: Rows) -> int:
    return sum(int(row.config["trials"]) for row in own)


def _panels(rows: Rows) -> list[Chart]:
    identified, blind = rows.where(part="known"), rows.where(part="blind", kind=COPULAS)
    styles = {ALONE: "dashed"}
    return [
        curves_chart(
            "Worlds with names: all axes named",
            "rows",
            "share of worlds",
            identified.curves("rows", "all", "{kind}, {views}", styles),
            scale="linear",
            zero=True,
        ),
        curves_chart(
            "Copula worlds: any axis named",
            "share of the law that is left",
            "share of worlds",
            blind.curves("left", "named", "{kind}"),
            scale="linear",
            zero=True,
            references=[Reference(ALLOWED, "allowed")],
        ),
    ]


STUDY = Study.of_file(
    __file__,
    title="Names given and refused",
    source="nothing published: embeddings of our own in which the truth is known",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(blind=_blind, known=_known),
    charts=[ChartSpec("shares", _panels, 2, (5.2, 4.4), legend="own")],
    statements=Statement.named(
        refused=asks(
            _blind, "named", at_most(ALLOWED), "{named:.1%} for {kind}, {left:g} of the law left, {views}"
        ),
        paired=asks(
            lambda rows: _most_rows(rows, PAIRED),
            "all",
            lambda share: share >= FOUND,
            "{kind} ({all:.0%} with {rows:,} rows)",
        ),
        alone=asks(
            lambda rows: _most_rows(rows, ALONE),
            "all",
            lambda share: share >= FOUND,
            "{kind} ({all:.0%} with {rows:,} rows)",
        ),
    ),
)

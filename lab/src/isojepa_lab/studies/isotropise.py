"""How much of the world is recovered as recorded pairs are made more isotropic.

Trajectories of a goal-directed arm (`isojepa.data.GoalReaching`) break what the theorems ask for: a
bimodal wrist, unequal rates, noise that depends on the state. `isotropise` turns a knob from the data as
they are towards the Gaussian world. At each dose an encoder is trained on the weighted pairs, seen through
a nonlinear lift into eight dimensions, and scored on held-out paths (a) under the data's own law and (b)
under a Gaussian within the data's support; beside it stand what the dose cost in effective pairs, and what
theory predicts with no training.

    python -m isojepa_lab.studies.isotropise [--out docs/results]

One thread; about five and a half minutes.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from torch import Tensor

from isojepa.data import OrnsteinUhlenbeck
from isojepa.data.reweighting import Isotropized, common_rho, isotropize, measure_pairs
from isojepa.data.trajectories import Recorded
from isojepa.seeds import generator
from isojepa.terminal import Console
from isojepa_lab.studies.goal_paths import FITTED, OBJECTIVES, STRIDE, draw_paths, sampled, train_encoder
from isojepa_lab.studies.isotropise_figure import draw
from isojepa_lab.studies.isotropise_page import page
from isojepa_lab.studies.isotropise_theory import ceiling, r2_per_latent, slow_features
from isojepa_lab.studies.results import write_figure, write_results

Row = dict[str, Any]

WEIGHED = ("rates", "moments", "marginals", "reweight")
_LONG = 64  # the other stride at which the knob is turned
_SCORED = 20_000  # states of each score
_SUPPORT = (0.005, 0.995)  # quantiles of each latent between which the data count as being there


@dataclass(frozen=True)
class Ideal:
    """The Gaussian world in the units of the data: what the dose aims at."""

    rho: float
    scale: tuple[float, ...]

    @property
    def dim(self) -> int:
        return len(self.scale)

    @property
    def correlation(self) -> float:
        return self.rho

    @property
    def gaussian(self) -> bool:
        return False  # not of unit variance

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw n pairs, each (n, dim)."""
        z, z_next = OrnsteinUhlenbeck(self.dim, self.rho).sample(n, generator)
        scale = torch.tensor(self.scale)
        return scale * z, scale * z_next


@dataclass(frozen=True)
class Scores:
    """Latents to score on: the data's own law, and a Gaussian within the data's support."""

    data: np.ndarray
    gaussian: np.ndarray


@dataclass
class Study:
    """Train at each dose, score, and write page and figure."""

    out: Path = Path("docs/results")
    """Folder of the page, its numbers and its figure."""
    source: str = "goals"
    """Where the trajectories come from."""
    paths: int = 1000
    """Trajectories, of which a fifth are held out."""
    length: int = 201
    """Steps of each trajectory."""
    strengths: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    """Doses of each method."""
    strides: tuple[int, ...] = (2, 4, 16, 32, 64)
    """Strides of the data as they are, beside the one at which the knob is turned."""
    steps: int = 400
    """Steps of each training."""
    batch: int = 512
    """Pairs of the last step."""
    seeds: int = 3
    """Repetitions, each with trajectories and an encoder of its own."""

    def run(self) -> None:
        """Write isotropise.json, isotropise.md and isotropise.png."""
        torch.set_num_threads(1)
        start, console = time.perf_counter(), Console()
        rows: list[Row] = []
        for seed in range(self.seeds):
            for row in self.measure(seed):
                rows.append(row)
                r2 = "  ".join(
                    f"{name} {np.round(r2_values['data'], 2)}" for name, r2_values in row["r2"].items()
                )
                console.print(
                    f"seed {seed} {row['method']:<9} {row['strength']:<4} stride {row['stride']:<2}  {r2}"
                )
        write_figure(self.out / "isotropise.png", draw(rows))
        seconds = time.perf_counter() - start
        settings = {key: value for key, value in asdict(self).items() if key != "out"}
        text = page(rows, settings)
        write_results(self.out, "isotropise", rows=rows, text=text, settings=settings, seconds=seconds)
        console.print(f"{self.out / 'isotropise.md'}  {seconds:.0f} s")

    def measure(self, seed: int) -> Iterator[Row]:
        """All doses of one seed."""
        train, held_out = draw_paths(self.paths, self.length, seed, self.source)
        first = isotropize(train, min(self.strengths), "moments", samples=FITTED)
        scores = score_laws(train, held_out, np.array(first.effect.scale), seed)
        yield self.row(train, "data", 0.0, scores, seed, tuple(OBJECTIVES))
        for method in WEIGHED:
            for strength in self.strengths:
                whitened = method in ("rates", "moments") and strength in self.strengths[1::2]
                yield self.weighted(train, method, strength, scores, seed, tuple(OBJECTIVES)[: 2 + whitened])
        for stride in self.strides:
            trained = tuple(OBJECTIVES)[: 3 if stride == _LONG else 2]
            yield self.row(train.strided(stride), "data", 0.0, scores, seed, trained)
        if _LONG in self.strides:
            for method in ("rates", "moments"):
                for strength in self.strengths[1::2]:
                    long = train.strided(_LONG)
                    yield self.weighted(long, method, strength, scores, seed, tuple(OBJECTIVES)[1:])
        rho = common_rho(np.array(first.effect.before.rho))
        yield self.row(Ideal(rho, first.effect.scale), "ideal", 1.0, scores, seed, tuple(OBJECTIVES))

    def weighted(
        self,
        train: Recorded,
        method: str,
        strength: float,
        scores: Scores,
        seed: int,
        objectives: tuple[str, ...],
    ) -> Row:
        """A row at one strength; where too few effective pairs are left, only that."""
        try:
            weighted_pairs = isotropize(train, strength, method, samples=FITTED)
        except ValueError as error:
            result = {"method": method, "strength": strength, "stride": train.stride, "refused": str(error)}
            return {"seed": seed, **result, "r2": {}}
        return self.row(weighted_pairs.recorded, method, strength, scores, seed, objectives, weighted_pairs)

    def row(
        self,
        process: Recorded | Ideal,
        method: str,
        strength: float,
        scores: Scores,
        seed: int,
        objectives: tuple[str, ...],
        found: Isotropized | None = None,
    ) -> Row:
        """Measures of a law of pairs, what theory predicts for it, and what training on it reaches."""
        row: Row = {"seed": seed, "method": method, "strength": strength, "stride": STRIDE}
        if isinstance(process, Recorded):
            law = measure_pairs(process) if found is None else found.effect.after
            z, z_next, weights = sampled(process)
            values, features = slow_features(z, z_next, weights, process.dim)
            row |= {"stride": process.stride, **asdict(law), "eigenvalues": values[:4].tolist()}
            if found is not None:
                row |= {"missed": found.effect.missed, "clipped": found.effect.clipped}
            row["predicted"] = {
                name: r2_per_latent(features(points), points).tolist()
                for name, points in asdict(scores).items()
            }
            row["ceiling"] = ceiling(np.concatenate((z, z_next)), np.concatenate((weights, weights))).tolist()
        row["r2"] = {name: self.train(process, name, scores, seed) for name in objectives}
        return row

    def train(self, process: Recorded | Ideal, objective: str, scores: Scores, seed: int) -> Row:
        """Held-out R^2 of each latent after training, under both laws."""
        encoder = train_encoder(process, OBJECTIVES[objective](), seed, self.steps, self.batch)
        r2_scores = {}
        for name, points in asdict(scores).items():
            r2_scores[name] = r2_per_latent(encoder(points), points).tolist()
        return r2_scores


def score_laws(train: Recorded, held_out: Recorded, scale: np.ndarray, seed: int) -> Scores:
    """States of held-out paths, and N(0, scale^2) cut to the box that the training states fill."""
    z, _ = held_out.sample(_SCORED, generator(seed, "score", "data"))
    latents, _, _ = sampled(train)
    low, high = np.quantile(latents, _SUPPORT, axis=0)
    draws = torch.randn(4 * _SCORED, train.dim, generator=generator(seed, "score", "gaussian"))
    points = draws.double().numpy() * scale
    inside = ((points >= low) & (points <= high)).all(1)
    return Scores(z.double().numpy(), points[inside][:_SCORED])


if __name__ == "__main__":
    tyro.cli(Study, description=__doc__).run()

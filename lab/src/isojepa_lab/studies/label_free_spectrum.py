r"""How far the linear share measured without labels can be trusted.

`measure_decay` reads the share of an embedding's variance that is linear in the latents off its decay along
trajectories; `measure_spectrum` measures it with the latents. Here both look at the same embeddings: linear
maps, the mixings of the other studies seen as they are, maps of known energies, encoders after short
trainings, embeddings with noise, and worlds that break an assumption.

    python -m isojepa_lab.studies.label_free_spectrum [--out docs/results]

For every case and seed: the labelled share, the label-free one with its interval, with the rate unknown and
known, and whether it refused. Then the width of the interval by the amount of data. One thread; about four
minutes.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from torch import Tensor

from isojepa.certificates.decay import DecaySpectrum, measure_decay
from isojepa.certificates.spectrum import measure_spectrum
from isojepa.data import (
    AdditiveCoupling,
    AffineCoupling,
    Mixing,
    OrnsteinUhlenbeck,
    Parabola,
    Sinusoid,
    Spiral,
    World,
)
from isojepa.data.world import orthogonal
from isojepa.encoders import MLP
from isojepa.encoders.model import embed
from isojepa.objectives import LeJEPA
from isojepa.seeds import generator
from isojepa.terminal import Console
from isojepa.training import fit
from isojepa_lab.studies.label_free_spectrum_page import draw, page
from isojepa_lab.studies.results import write_figure, write_results

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """An embedding of a world.

    Attributes:
        name: for the table.
        world: where trajectories come from.
        encoder: from observations to embeddings.
        noise: variance of what is added to the embedding, as a share of all of it.
        meant: whether the assumptions hold, so that an answer is right or wrong.
    """

    name: str
    world: World
    encoder: Callable[[Tensor], Tensor]
    noise: float = 0.0
    meant: bool = True

    @property
    def rate(self) -> float:
        """K per step, of the slowest latent."""
        rho = self.world.correlation
        return -math.log(max(rho) if isinstance(rho, tuple) else rho)

    def truth(self) -> float:
        """The labelled linear share, by quadrature in two dimensions and by the correlation curve in more."""
        return measure_spectrum(self.encoder, self.world).linear.estimate * (1 - self.noise)

    def path(self, paths: int, steps: int, seed: int) -> np.ndarray:
        """Embeddings along trajectories: (steps, paths, dim)."""
        process = self.world.process
        if not isinstance(process, OrnsteinUhlenbeck):
            raise ValueError(f"trajectories need an OrnsteinUhlenbeck process, got {process!r}")
        z = process.trajectory(paths, steps, generator(seed, "label-free", self.name))
        h = embed(self.encoder, self.world.mixing(z.flatten(0, 1))).double()
        if self.noise:
            extra = torch.randn(h.shape, generator=generator(seed, "label-free", "noise"), dtype=h.dtype)
            h = h + extra * h.std(0) * math.sqrt(self.noise / (1 - self.noise))
        along: np.ndarray = h.unflatten(0, z.shape[:2]).numpy()
        return along


def quadratic(share: float) -> Callable[[Tensor], Tensor]:
    """sqrt(1 - share) z + sqrt(share) He_2(z) / sqrt 2: energy `share` at degree 2, the rest linear."""
    return lambda z: math.sqrt(1 - share) * z + math.sqrt(share / 2) * (z**2 - 1)


def rotation(dim: int) -> Callable[[Tensor], Tensor]:
    """A fixed rotation."""
    matrix = orthogonal(dim, generator(0, "label-free", "rotation"))
    return lambda x: x @ matrix.to(x)


def same(x: Tensor) -> Tensor:
    """The observations themselves."""
    return x


def ou(dim: int, rho: float | tuple[float, ...] = 0.95, mixing: Mixing | None = None) -> World:
    """A Gaussian world."""
    return World(OrnsteinUhlenbeck(dim, rho), mixing)


def cases(training: tuple[int, ...]) -> Iterator[Case]:
    """Every embedding of the study."""
    for rho in (0.8, 0.95, 0.99):
        yield Case(f"rotation, ρ {rho}", ou(2, rho), rotation(2))
    yield Case("rotation, 16 dimensions", ou(16), rotation(16))
    yield Case("3 % of degree 2", ou(2), quadratic(0.03))
    yield Case("3 % of degree 2, 16 dimensions", ou(16), quadratic(0.03))
    yield Case("20 % of degree 2", ou(2), quadratic(0.2))
    yield Case("tanh(z)", ou(2), torch.tanh)
    yield Case("affine coupling as it is", ou(2, mixing=AffineCoupling(2)), same)
    yield Case("sinusoid as it is", ou(2, mixing=Sinusoid()), same)
    yield Case("parabola as it is", ou(2, mixing=Parabola()), same)
    yield Case("additive coupling as it is, 16 dimensions", ou(16, mixing=AdditiveCoupling(16)), same)
    yield Case("spiral as it is", ou(2, mixing=Spiral()), same)
    world = ou(2, mixing=Spiral())
    for steps in training:
        encoder = MLP(2, 2)
        run = fit(encoder, world, LeJEPA(), steps=steps, eval_every=steps, seed=0, progress=False)
        yield Case(f"spiral, encoder of {steps} steps", world, run.encoder)
    yield Case("rotation and 10 % noise", ou(2), rotation(2), noise=0.1)
    yield Case("degree 2 alone", ou(2), quadratic(1.0))
    yield Case("rates 1 and 1.5", ou(2, (0.95, 0.95**1.5)), rotation(2), meant=False)
    yield Case("rates 1 and 2", ou(2, (0.95, 0.95**2)), rotation(2), meant=False)


@dataclass
class Study:
    """Measure every case with labels and without, and write page and figure."""

    out: Path = Path("docs/results")
    """Folder of the page, its numbers and its figure."""
    paths: int = 400
    """Trajectories of each measurement."""
    steps: int = 400
    """Steps of each trajectory."""
    seeds: int = 6
    """Measurements of each case."""
    draws: int = 150
    """Redrawn copies behind each interval."""
    training: tuple[int, ...] = (400, 2000)
    """Steps of the encoders that are trained on the spiral."""
    sizes: tuple[int, ...] = (50, 200, 800, 3200)
    """Trajectories, for the width of the interval."""

    def run(self) -> None:
        """Write label_free_spectrum.json, .md and .png."""
        torch.set_num_threads(1)
        start, console = time.perf_counter(), Console()
        rows: list[Row] = []
        for case in cases(self.training):
            truth = case.truth()
            for seed in range(self.seeds):
                h = case.path(self.paths, self.steps, seed)
                rows += [self._measure(case, h, truth, seed, rate_known) for rate_known in (False, True)]
            subset = [row for row in rows if row["case"] == case.name and not row["known"]]
            middle, answered = (
                np.mean([row["linear"] for row in subset]),
                sum(row["answered"] for row in subset),
            )
            console.print(f"{case.name:<42} labelled {truth:.3f}  free {middle:.3f}  answered {answered}")
        rows += [row for share in (0.0, 0.03) for size in self.sizes for row in self._widths(share, size)]
        write_figure(self.out / "label_free_spectrum.png", draw(rows))
        seconds = time.perf_counter() - start
        settings = {key: value for key, value in asdict(self).items() if key != "out"}
        text = page(rows, settings)
        write_results(
            self.out, "label_free_spectrum", rows=rows, text=text, settings=settings, seconds=seconds
        )
        console.print(f"{self.out / 'label_free_spectrum.md'}  {seconds:.0f} s")

    def _measure(self, case: Case, h: np.ndarray, truth: float, seed: int, known: bool) -> Row:
        estimate = measure_decay(h, rate=case.rate if known else None, draws=self.draws, seed=seed)
        row = {
            "part": "cases",
            "case": case.name,
            "seed": seed,
            "known": known,
            "meant": case.meant,
            "true_rate": case.rate,
            "labelled": truth,
        }
        row |= _numbers(estimate)
        if seed == 0 and not known:
            row |= {
                "lags": estimate.lags,
                "curve": [one.estimate for one in estimate.curve],
                "fitted": estimate.fitted,
            }
        return row

    def _widths(self, share: float, size: int) -> Iterator[Row]:
        """The interval by the number of trajectories."""
        case = Case("sizes", ou(2), quadratic(share))
        for seed, rate_known in itertools.product(range(3), (False, True)):
            h = case.path(size, self.steps, seed)
            estimate = measure_decay(h, rate=case.rate if rate_known else None, draws=self.draws, seed=seed)
            yield {
                "part": "sizes",
                "seed": seed,
                "paths": size,
                "known": rate_known,
                "labelled": 1 - share,
                "decays": size * self.steps * case.rate,
                **_numbers(estimate),
            }


def _numbers(found: DecaySpectrum) -> Row:
    return {
        "linear": found.linear.estimate,
        "low": found.linear.low,
        "high": found.linear.high,
        "rate": found.rate.estimate,
        "noise": found.noise.estimate,
        "ceiling": found.ceiling,
        "answered": found.identifiable,
        "reasons": found.reasons,
    }


if __name__ == "__main__":
    tyro.cli(Study, description=__doc__).run()

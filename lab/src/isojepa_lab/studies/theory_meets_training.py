"""What the eigenfunctions predict, and what trained encoders do.

Claims: (1) in a world of independent, reversible, constant-diffusion latents a white, aligned embedding takes
the first eigenfunction phi_1 of each latent's law, so the best linear R^2 is corr(z, phi_1(z))^2 (Theorem 2
and Appendix E of Klindt, LeCun & Balestriero 2026 say that it is below 1 but for the normal law; here is by
how much); (2) of two Gaussian latents one of which is r times faster, the fast one is lost from r = 2 on.

    python -m isojepa_lab.studies.theory_meets_training [--out docs/results]

The prediction comes from `isojepa.distributions.eigensystem` and knows nothing of encoders. The encoders
see two latents through a mixing, are trained with alignment and whitening on pairs of the Langevin process,
and are scored on fresh pairs: R^2 against z, which is predicted, and against phi_1(z), which should be 1.
One thread; about four minutes.
"""

import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from isojepa.certificates.eigenfunctions import predict_process
from isojepa.certificates.recovery import measure_recovery
from isojepa.data import Langevin, Sinusoid, World
from isojepa.distributions import (
    Density,
    Eigensystem,
    GeneralizedNormal,
    SpectrumWarning,
    Uniform,
    bimodal,
    eigensystem,
)
from isojepa.encoders import MLP
from isojepa.encoders.model import embed
from isojepa.objectives import LeJEPA, Whitening
from isojepa.seeds import generator
from isojepa.terminal import Console
from isojepa.training import fit
from isojepa_lab.studies.results import write_figure, write_results
from isojepa_lab.studies.theory_meets_training_page import draw, page

Row = dict[str, Any]


def laws(alphas: tuple[float, ...]) -> dict[str, Density]:
    """The laws that encoders are trained on, by name."""
    family: dict[str, Density] = {f"alpha {alpha:g}": GeneralizedNormal(alpha) for alpha in alphas}
    return {**family, "uniform": Uniform(), "bimodal": bimodal(4.0)}


@dataclass
class Study:
    """Predict, train, compare, and write page and figure."""

    out: Path = Path("docs/results")
    """Folder of the page, its numbers and its figure."""
    alphas: tuple[float, ...] = (1.5, 1.75, 2.0, 3.0, 4.0, 8.0)
    """Shapes of the generalised normal law to train on."""
    curve: int = 60
    """Shapes at which the prediction is drawn."""
    longer: tuple[str, ...] = ("alpha 1.5", "uniform")
    """Laws that are also trained three times as long."""
    ratios: tuple[float, ...] = (1.0, 1.5, 1.75, 2.25, 2.5, 3.0, 4.0)
    """How much faster the second Gaussian latent is."""
    rho: float = 0.5
    """Correlation of the latents across a pair; near 1/2 the harmonics lie farthest apart."""
    slow_rho: float = 0.7
    """That of the slow latent where rates differ."""
    steps: int = 1000
    """Of each training on a law."""
    rate_steps: int = 500
    """Of each training on two rates."""
    batch: int = 4096
    """Pairs at the last step; a quarter of it at the first."""
    weight: float = 0.2
    """Share of the whitening."""
    width: int = 32
    """Of the encoder."""
    layers: int = 4
    """Of the encoder."""
    samples: int = 100_000
    """Fresh pairs of a score."""
    seeds: int = 3
    """Trainings per law; of ratios one less."""

    def run(self) -> None:
        """Write theory_meets_training.json, .md and .png."""
        torch.set_num_threads(1)
        start, console = time.perf_counter(), Console()
        shapes = sorted({*np.geomspace(1.05, 100, self.curve).tolist(), *self.alphas})
        rows = [self.predict(alpha) for alpha in shapes]
        console.print(f"predicted at {len(rows)} shapes, {time.perf_counter() - start:.1f} s")
        functions: dict[str, Any] = {}
        for name, law in laws(self.alphas).items():
            spectrum = eigensystem(law, count=2)
            functions[name] = _sampled(spectrum)
            plan = [(seed, self.steps) for seed in range(self.seeds)]
            plan += [(0, 3 * self.steps)] if name in self.longer else []
            for seed, steps in plan:
                rows.append(self.train(name, law, spectrum, seed, steps))
                row = rows[-1]
                console.print(
                    f"{name:<11} seed {seed}, {steps} steps: R2 {row['r2']:.5f}, "
                    f"predicted {row['predicted']:.5f}, of phi_1 {row['r2_phi']:.5f}"
                )
        for ratio in self.ratios:
            for seed in range(max(1, self.seeds - 1)):
                rows.append(self.anisotropic(ratio, seed))
                row = rows[-1]
                console.print(f"ratio {ratio:g} seed {seed}: slow {row['slow']:.4f}, fast {row['fast']:.4f}")
        seconds = time.perf_counter() - start
        settings = {key: value for key, value in asdict(self).items() if key != "out"}
        write_figure(self.out / "theory_meets_training.png", draw(rows, functions))
        text = page(rows, settings)
        write_results(
            self.out, "theory_meets_training", rows=rows, text=text, settings=settings, seconds=seconds
        )
        console.print(f"{self.out / 'theory_meets_training.md'}  {seconds:.0f} s")

    def predict(self, alpha: float) -> Row:
        """The best R^2 of a generalised normal latent, and the ratio of rates that breaks recovery."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpectrumWarning)  # near alpha 1 the last digits converge slowly
            spectrum = eigensystem(GeneralizedNormal(alpha), count=2, tolerance=1e-6)
        _, first, second = spectrum.eigenvalues.tolist()
        r2 = float(spectrum.coefficients()[1] ** 2)
        error = float(spectrum.error.max())
        return {"part": "curve", "alpha": alpha, "r2": r2, "ratio": second / first, "error": error}

    def train(self, name: str, law: Density, spectrum: Eigensystem, seed: int, steps: int) -> Row:
        """Train one encoder and score it against z and against phi_1(z)."""
        world = World(Langevin(2, law, self.rho), Sinusoid())
        h, z = self._embedded(world, seed, steps)
        phi = spectrum(1, z)
        against_z, against_phi = measure_recovery(h, z).r2_h_to_z, measure_recovery(h, phi).r2_h_to_z
        predicted = float(spectrum.coefficients()[1] ** 2)
        return {
            "part": "trained",
            "law": name,
            "alpha": getattr(law, "alpha", None),
            "seed": seed,
            "steps": steps,
            "predicted": predicted,
            "r2": against_z.estimate,
            "r2_interval": [against_z.low, against_z.high],
            "r2_phi": against_phi.estimate,
        }

    def anisotropic(self, ratio: float, seed: int) -> Row:
        """Train on two Gaussian latents of different rates and see which functions were taken."""
        process = Langevin(2, rho=(self.slow_rho, self.slow_rho**ratio))
        h, z = self._embedded(World(process, Sinusoid()), seed, self.rate_steps)
        targets = np.column_stack((z, (z[:, 0] ** 2 - 1) / np.sqrt(2)))
        slow, fast, second = measure_recovery(h, targets).r2_per_latent
        predicted = predict_process(process).r2_per_latent
        return {
            "part": "anisotropy",
            "ratio": ratio,
            "seed": seed,
            "slow": slow,
            "fast": fast,
            "second": second,
            "predicted_slow": predicted[0],
            "predicted_fast": predicted[1],
        }

    def _embedded(self, world: World, seed: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Train in a world; embeddings and latents of fresh pairs, float64."""
        encoder = MLP(world.observed_dim, world.dim, width=self.width, layers=self.layers, seed=seed)
        fit(
            encoder,
            world,
            LeJEPA(weight=self.weight, regularizer=Whitening()),
            steps=steps,
            batch=self.batch,
            batch_start=max(2, self.batch // 4),
            eval_every=steps,
            seed=seed,
            progress=False,
        )
        pairs = world.sample(self.samples, generator(seed, "theory", "score"))
        return np.asarray(embed(encoder, pairs.views[0]), np.float64), pairs.latents[0].double().numpy()


def _sampled(spectrum: Eigensystem) -> tuple[list[float], list[float]]:
    """phi_1 where all but a thousandth of the mass is."""
    below = np.cumsum(spectrum.mass)
    inside = np.flatnonzero((below > 5e-4) & (below < 1 - 5e-4))
    chosen = inside[:: max(1, len(inside) // 200)]
    return spectrum.z[chosen].tolist(), spectrum.values[1, chosen].tolist()


if __name__ == "__main__":
    tyro.cli(Study, description=__doc__).run()

"""A small world in which everything is known: z normal, h a rotation of it with a little noise."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isojepa as ij
from isojepa.report import write_page
from tests.report.cases import METRICS


@dataclass(frozen=True)
class Sample:
    """What a run leaves: latents, observations, embeddings, and their certificate."""

    latents: np.ndarray
    observations: np.ndarray
    embeddings: np.ndarray
    certificate: ij.Certificate


def make_sample(dim: int = 2, degrees: float = 70.0, count: int = 4000) -> Sample:
    draw = np.random.default_rng(0)
    rho = 0.95
    z = draw.normal(size=(count, dim))
    z_next = rho * z + np.sqrt(1 - rho**2) * draw.normal(size=z.shape)
    angle = np.radians(degrees)
    turn = np.linalg.qr(draw.normal(size=(dim, dim)))[0]
    if dim == 2:
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    h, h_next = (rows @ turn.T + 0.03 * draw.normal(size=rows.shape) for rows in (z, z_next))
    return Sample(z, np.tanh(z), h, ij.certify(h, next=h_next, latents=z, rho=rho, checks=False))


@pytest.fixture(scope="session")
def sample() -> Sample:
    return make_sample()


def write(path: Path, sample: Sample, **changes: Any) -> str:
    """Write a page of the sample, with some arguments changed, and return its text."""
    arguments: dict[str, Any] = {
        "title": "a small world",
        "config": {"world": {"rho": 0.95}, "seed": 0},
        "metrics": METRICS,
        "certificate": sample.certificate,
        "latents": sample.latents,
        "observations": sample.observations,
        "embeddings": sample.embeddings,
        "seconds": 12.3,
        "status": "done",
        "reason": "",
    }
    write_page(path, **arguments | changes)
    return path.read_text(encoding="utf-8")

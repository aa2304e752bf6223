"""Made-up pairs of embeddings of which it is known how they relate."""

import numpy as np

KINDS = ("rotation", "linear", "partly", "unrelated")


def rotation(rng: np.random.Generator, dim: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(dim, dim)))[0]


def made_up(kind: str, n: int, dim: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, dim) of two encoders; spectra, maps, shares and noise are drawn.

    Maps near to singular have no noise, of which their inverse would leave less than nine tenths.
    """
    z = rng.normal(size=(n, dim))
    if rng.random() < 0.5:
        z = z * np.arange(1, dim + 1) ** -rng.uniform(0, 0.5)
    noise = rng.choice([0, 0.05, 0.1, 0.2])
    x = z @ rotation(rng, dim)
    if kind == "rotation":
        y = x @ rotation(rng, dim) * rng.uniform(0.5, 2)
    elif kind == "linear":
        mild = rotation(rng, dim) @ np.diag(np.linspace(0.5, 2, dim)) @ rotation(rng, dim)
        if rng.random() < 0.5:
            y = x @ mild
        else:
            y, noise = x @ rng.normal(size=(dim, dim)) / np.sqrt(dim), 0
    elif kind == "partly":
        shared = max(1, int(dim * rng.uniform(0.2, 0.8)))
        own = z.std() * rng.normal(size=(n, dim - shared))
        turn = rotation(rng, dim) if rng.random() < 0.5 else rng.normal(size=(dim, dim)) / np.sqrt(dim)
        y = np.concatenate((z[:, :shared], own), 1) @ turn
    else:
        y = rng.normal(size=(n, dim)) @ rng.normal(size=(dim, dim))
    return x, y + noise * np.sqrt((y**2).mean()) * rng.normal(size=y.shape)

"""How often do the intervals of recovery hold the truth? Kinds of maps whose truth is known, and a count.

    python -m tests.certificates.coverage --sets 400 --rows 200,400,2000 --dims 1,2,8,20

prints one row per kind: for each number of rows, the smallest coverage over dimensions and numbers (both R^2,
that of a rotation, and the Procrustes error), and the share of answers that were "too few rows".
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isojepa.certificates import measure_recovery

NUMBERS = ("r2_h_to_z", "r2_z_to_h", "r2_orthogonal", "procrustes_error")


@dataclass(frozen=True)
class Kind:
    """A map of standard normal latents, with its covariances.

    Attributes:
        draw: embeddings of latents (n, dim), with a generator.
        moments: of a dimension: the covariances of z with h and of h with h, each (dim, dim).
        least: dimensions.
    """

    draw: Callable
    moments: Callable
    least: int = 1


def each(function, noise=0.0, law="normal"):
    """A function of each latent by itself, plus noise of some deviation."""
    x, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    value = function(x)
    cross, spread = weights @ (x * value), weights @ value**2 - (weights @ value) ** 2
    extra = noise**2 * (5 / 3 if law == "student" else 1.0)

    def draw(z, rng):
        own = rng.standard_t(5, z.shape) if law == "student" else rng.standard_normal(z.shape)
        return function(z) + noise * own

    return Kind(draw, lambda dim: (cross * np.eye(dim), (spread + extra) * np.eye(dim)))


def matrix(of_dim, noise=0.0):
    """A linear map, plus noise."""

    def moments(dim):
        a = of_dim(dim)
        return a, a.T @ a + noise**2 * np.eye(dim)

    return Kind(lambda z, rng: z @ of_dim(z.shape[1]) + noise * rng.standard_normal(z.shape), moments)


def rotation(dim):
    return np.linalg.qr(np.random.default_rng(5).standard_normal((dim, dim)))[0]


def stretch(dim):
    return np.eye(dim) + np.random.default_rng(7).standard_normal((dim, dim)) / np.sqrt(dim)


def swirl(strength):
    """Each plane turned by an angle that grows with the radius: it keeps the law."""

    def draw(z, rng):
        a, b = z[:, ::2], z[:, 1::2]
        angle = strength * np.hypot(a, b)
        h = np.empty_like(z)
        h[:, ::2], h[:, 1::2] = np.cos(angle) * a - np.sin(angle) * b, np.sin(angle) * a + np.cos(angle) * b
        return h

    def moments(dim):
        r = np.linspace(0, 12, 200_001)
        density = r * np.exp(-(r**2) / 2) * (r[1] - r[0])
        along, across = ((density * r**2 * f(strength * r)).sum() / 2 for f in (np.cos, np.sin))
        plane = np.array([[along, across], [-across, along]])
        return np.kron(np.eye(dim // 2), plane), np.eye(dim)

    return Kind(draw, moments, least=2)


def dropped():
    """The last dimension is noise."""

    def moments(dim):
        kept = np.eye(dim)
        kept[-1, -1] = 0
        return kept, np.eye(dim)

    return Kind(lambda z, rng: np.hstack([z[:, :-1], rng.standard_normal((len(z), 1))]), moments, least=2)


KINDS = {
    "identity": matrix(np.eye),
    "rotation": matrix(rotation),
    "linear, no rotation": matrix(stretch),
    "identity + noise": matrix(np.eye, noise=0.3),
    "weak He2": each(lambda z: z + 0.1 * (z**2 - 1)),
    "weak He3": each(lambda z: z + 0.1 * (z**3 - 3 * z)),
    "cube": each(lambda z: z**3),
    "tanh": each(np.tanh),
    "sinh": each(np.sinh),
    "swirl": swirl(0.5),
    "dropped dimension": dropped(),
    "anisotropic": matrix(lambda dim: np.diag(np.linspace(1, 0.1, dim)), noise=0.05),
    "heavy-tailed noise": each(lambda z: z, noise=0.3, law="student"),
}


def truth(kind, dim):
    """Population values of the best maps, by the covariances."""
    zh, hh = kind.moments(dim)
    left, values, right = np.linalg.svd(zh)
    turn = left @ right  # z turn is closest to h
    residual = 1 + np.diag(turn @ hh @ turn.T) - 2 * np.diag(zh @ turn.T)
    return {
        "r2_h_to_z": float(np.mean(np.diag(zh @ np.linalg.solve(hh, zh.T)))),
        "r2_z_to_h": float(np.mean((zh**2).sum(0) / np.diag(hh))),
        "r2_orthogonal": float(np.mean(1 - residual)),
        "procrustes_error": float(dim + np.trace(hh) - 2 * values.sum()),
    }


def count(kind, dim, rows, sets, path=None):
    """For each number, the share of sets whose interval holds the truth, and of those without an answer.

    Args:
        path: correlation of successive rows; None for independent ones.
    """
    expected = truth(kind, dim)
    held, few = dict.fromkeys(NUMBERS, 0), dict.fromkeys(NUMBERS, 0)
    for seed in range(sets):
        rng = np.random.default_rng([seed, rows, dim])
        z = rng.standard_normal((rows, dim)) if path is None else autoregressive(rows, dim, path, rng)
        recovery = measure_recovery(kind.draw(z, rng), z)
        for name in NUMBERS:
            interval = vars(recovery)[name]
            held[name] += interval.low - 1e-9 <= expected[name] <= interval.high + 1e-9
            few[name] += name in recovery.few
    return {name: (held[name] / sets, few[name] / sets) for name in NUMBERS}


def autoregressive(steps, dim, rho, rng):
    """One stationary path (steps, dim)."""
    noise = rng.standard_normal((steps, dim)) * np.sqrt(1 - rho**2)
    noise[0] /= np.sqrt(1 - rho**2)
    for step in range(1, steps):
        noise[step] += rho * noise[step - 1]
    return noise


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=400)
    parser.add_argument("--rows", default="200,400,2000")
    parser.add_argument("--dims", default="1,2,8,20")
    parser.add_argument("--kinds", default=",".join(name.replace(",", "") for name in KINDS))
    parser.add_argument("--every", action="store_true", help="one row per dimension, with every number")
    given = parser.parse_args()
    rows = [int(n) for n in given.rows.split(",")]
    chosen = given.kinds.split(",")
    print("| map | " + " | ".join(f"{n} rows" for n in rows) + " |")
    print("|---|" + "---|" * len(rows))
    for name, kind in KINDS.items():
        if name.replace(",", "") not in chosen:
            continue
        cells = []
        for n in rows:
            found = []
            for dim in (int(d) for d in given.dims.split(",")):
                if dim < kind.least:
                    continue
                result = count(kind, dim, n, given.sets)
                found += result.values()
                if given.every:
                    print(
                        name,
                        "dim",
                        dim,
                        "rows",
                        n,
                        *(f"{a:.3f} ({b:.2f})" for a, b in result.values()),
                        flush=True,
                    )
            share = np.mean([few for _, few in found])
            cells.append(
                f"{min(held for held, _ in found):.3f}" + f" ({share:.0%} too few)" * bool(share > 0)
            )
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

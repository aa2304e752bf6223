"""Where rho comes from: the tables of docs/certificate.md and docs/assumptions.md, measured anew.

    python benchmarks/rho.py estimates        the maximal correlation of maps of a world of rho 0.9
    python benchmarks/rho.py coverage         how often its lower bound lies above rho
    python benchmarks/rho.py power            how often the line on joint Gaussianity fails
    python benchmarks/rho.py level            and how often it does so for rotations

Minutes each, on one core. Seeds are 0, 1, 2, ...
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from isojepa.certificates import check_assumptions, estimate_correlation

Map = Callable[[np.ndarray], np.ndarray]


def pairs(n: int, dim: int, rho: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Independent pairs."""
    z, noise = np.random.default_rng(seed).standard_normal((2, n, dim))
    return z, rho * z + np.sqrt(1 - rho**2) * noise


def path(n: int, dim: int, rho: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The successive steps of one path."""
    z = np.random.default_rng(seed).standard_normal((n + 1, dim))
    for step in range(n):
        z[step + 1] = rho * z[step] + np.sqrt(1 - rho**2) * z[step + 1]
    return z[:-1], z[1:]


def swirl(rate: float, whole: bool = False) -> Map:
    """Neighbouring dimensions turn by an angle that grows with their length, or with that of all of them."""

    def turned(z: np.ndarray) -> np.ndarray:
        x, y = z[:, 0::2], z[:, 1::2]
        angle = rate * (np.linalg.norm(z, axis=1, keepdims=True) if whole else np.hypot(x, y))
        both = [x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)]
        return np.stack(both, -1).reshape(z.shape)

    return turned


def rotation(dim: int, seed: int = 5) -> np.ndarray:
    """A random rotation."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((dim, dim)))[0]


def network(dim: int) -> Map:
    """Two invertible layers, a + tanh(a) of rotations, and a rotation."""

    def mixed(z: np.ndarray) -> np.ndarray:
        for seed in (1, 2):
            a = z @ rotation(dim, seed)
            z = (a + np.tanh(a)) / 1.6
        return z @ rotation(dim, 3)

    return mixed


def products(count: int) -> Map:
    """Two sums of products of two latents each."""
    return lambda z: z.reshape(len(z), 2, count, 2).prod(-1).sum(-1) / np.sqrt(count)


def estimates() -> None:
    """The estimate's range over seeds."""
    plane = [
        ("identity", lambda z: z, 2),
        ("swirl 0.3", swirl(0.3), 2),
        ("swirl 0.5", swirl(0.5), 2),
        ("swirl 2", swirl(2.0), 2),
        ("tanh", np.tanh, 2),
        ("z³", lambda z: z**3, 2),
    ]
    many = [
        ("identity", lambda z: z, 64),
        ("swirl 0.5, 32 planes", swirl(0.5), 64),
        ("swirl 2, 32 planes", swirl(2.0), 64),
        ("swirl 2 by the common radius", swirl(2.0, whole=True), 64),
        ("swirl 0.5, planes turned", lambda z: swirl(0.5)(z) @ rotation(64), 64),
        ("tanh network", network(64), 64),
    ]
    print("| map | dim | pairs | own correlation | estimate | lower bound | above its own | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for cases, n, seeds in ((plane, 2000, 20), (plane, 20_000, 5), (many, 2000, 3), (many, 20_000, 2)):
        for name, function, dim in cases:
            start = time.process_time()
            found = [
                estimate_correlation(*map(function, pairs(n, dim, 0.9, seed)), seed=seed)
                for seed in range(seeds)
            ]
            seconds = (time.process_time() - start) / seeds
            value, low = ([getattr(one.value, end) for one in found] for end in ("estimate", "low"))
            own = np.mean([one.linear.estimate for one in found])
            above = sum(one.value.low > one.linear.estimate for one in found)
            print(
                f"| {name} | {dim} | {n:,} | {own:.3f} | {min(value):.3f} – {max(value):.3f} | "
                f"{min(low):.3f} – {max(low):.3f} | {above} of {seeds} | {seconds:.1f} |",
                flush=True,
            )


def coverage() -> None:
    """How often the lower bound lies above rho: 5 % are promised."""
    print("| map | dim | rows | rho 0.3 | rho 0.9 | rho 0.99 |")
    print("|---|---|---|---|---|---|")
    cube: Map = lambda z: z**3  # noqa: E731
    plain: Map = lambda z: z  # noqa: E731
    cases = [("identity", plain, 2, 25), ("z³", cube, 2, 25), ("identity", plain, 64, 10)]
    for name, function, dim, seeds in cases:
        for words, make in (("pairs", pairs), ("one path", path)):
            cells = []
            for rho in (0.3, 0.9, 0.99):
                found = [
                    estimate_correlation(*map(function, make(1000, dim, rho, seed)), seed=seed).value.low
                    for seed in range(seeds)
                ]
                cells.append(f"{sum(low > rho for low in found)} of {seeds}")
            print(f"| {name} | {dim} | 1,000 of {words} | {' | '.join(cells)} |", flush=True)


def _lines(function: Map, n: int, dim: int, seeds: int, rho: float = 0.9) -> list[tuple[str, float]]:
    found = []
    for seed in range(seeds):
        h, h_next = map(function, pairs(n, dim, rho, seed))
        line = check_assumptions(h, h_next, of="embeddings", only=["joint Gaussianity"], seed=seed)[0]
        found.append((line.verdict, line.value, line.p))
    return found


def power() -> None:
    """How often the line fails for maps that are no rotations."""
    cases = [
        ("swirl 0.1", swirl(0.1), 2),
        ("swirl 0.3", swirl(0.3), 2),
        ("swirl 0.5", swirl(0.5), 2),
        ("swirl 1", swirl(1.0), 2),
        ("swirl 2", swirl(2.0), 2),
        ("tanh(z/2)", lambda z: np.tanh(z / 2), 2),
        ("tanh", np.tanh, 2),
        ("sums of 2 products", products(2), 8),
        ("sums of 10 products", products(10), 40),
        ("sums of 20 products", products(20), 80),
        ("swirl 0.5, 32 planes", swirl(0.5), 64),
        ("swirl 0.5, 32 planes turned", lambda z: swirl(0.5)(z) @ rotation(64), 64),
        ("tanh network", network(64), 64),
    ]
    print("| map | latents | value | 500 pairs | 2,000 | 20,000 |")
    print("|---|---|---|---|---|---|")
    for name, function, dim in cases:
        cells = []
        for n in (500, 2000, 20_000):
            found = _lines(function, n, dim, 20)
            fails = sum(verdict == "fails" for verdict, *_ in found)
            unclear = sum(verdict == "unclear" for verdict, *_ in found)
            cells.append(f"{fails}" + (f" ({unclear} unclear)" if unclear else ""))
        value = np.median([value for _, value, _ in found])
        print(f"| {name} | {dim} | {value:.2f} | {' | '.join(cells)} |", flush=True)


def level() -> None:
    """How often rotations are rejected, and how often they fail."""
    print("| dim | pairs | p ≤ 0.05 | fails | unclear |")
    print("|---|---|---|---|---|")
    for dim in (1, 2, 8, 64):
        for n in (500, 2000, 4000):
            found = _lines(lambda z, dim=dim: z @ rotation(dim), n, dim, 60)
            shares = [
                sum(p is not None and p <= 0.05 for *_, p in found),
                *(sum(verdict == word for verdict, *_ in found) for word in ("fails", "unclear")),
            ]
            print(f"| {dim} | {n:,} | {' | '.join(f'{share} of 60' for share in shares)} |", flush=True)


if __name__ == "__main__":
    commands = {"estimates": estimates, "coverage": coverage, "power": power, "level": level}
    chosen = sys.argv[1:] or list(commands)
    for word in chosen:
        if word not in commands:
            sys.exit(f"table must be one of {', '.join(commands)}, got {word!r}")
    for word in chosen:
        commands[word]()
        print()

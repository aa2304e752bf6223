"""Made-up worlds z' = A z + B a + noise with known transitions, and how often intervals cover them."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from isojepa.certificates.dynamics import certify_dynamics
from isojepa.certificates.dynamics.invariants import inner_products
from isojepa.certificates.dynamics.singular import gramian
from isojepa.seeds import generator


def normal(source, *shape):
    return torch.randn(*shape, generator=source, dtype=torch.float64).numpy()


@dataclass(frozen=True)
class LinearWorld:
    """z' = A z + B a + noise, a = K z + dither; h = Q z."""

    a: np.ndarray
    b: np.ndarray
    gain: np.ndarray
    noise: np.ndarray  # a root of its covariance
    dither: float
    q: np.ndarray

    @property
    def turned(self):
        return self.q @ self.a @ self.q.T, self.q @ self.b

    def paths(self, count, steps, source):
        """Latents (steps + 1, count, dim) after a hundred steps to forget the start, and actions."""
        dim, actions = self.b.shape
        z = normal(source, count, dim)
        latents, taken = [], []
        for step in range(100 + steps):
            action = z @ self.gain.T + self.dither * normal(source, count, actions)
            if step >= 100:
                latents.append(z)
                taken.append(action)
            z = z @ self.a.T + action @ self.b.T + normal(source, count, dim) @ self.noise.T
        return np.stack([*latents, z]), np.stack(taken)


def random_world(seed, dim, actions, feedback=False):
    """A random world whose closed loop is stable."""
    source = generator(seed, "world", dim, actions, int(feedback))
    a = normal(source, dim, dim)
    radius = 0.3 + 0.65 * float(torch.rand(1, generator=source))
    a *= radius / np.abs(np.linalg.eigvals(a)).max()
    b = normal(source, dim, actions) / np.sqrt(dim)
    noise = 0.3 * np.eye(dim) + 0.2 * normal(source, dim, dim) / np.sqrt(dim)
    gain = np.zeros((actions, dim))
    if feedback:
        gain = normal(source, actions, dim) / np.sqrt(dim)
        while np.abs(np.linalg.eigvals(a + b @ gain)).max() > 0.95:
            gain = 0.7 * gain
    q = np.linalg.qr(normal(source, dim, dim))[0]
    return LinearWorld(a, b, gain, noise, 0.5, q)


class Tally:
    """Of each invariant, in how many worlds all of its intervals cover the truth at once."""

    def __init__(self):
        self.hits, self.count = Counter(), Counter()

    def add(self, name, truth, low, high):
        truth = np.asarray(truth)
        self.hits[name] += bool(
            (np.asarray(low) <= truth + 1e-9).all() and (truth <= np.asarray(high) + 1e-9).all()
        )
        self.count[name] += 1

    def shares(self):
        return {name: self.hits[name] / self.count[name] for name in self.count}


SIZES = {"episodes": (60, 30), "one path": (1, 600), "short episodes": (40, 8)}  # paths and steps


def simulate(worlds):
    """Tally of intervals, and p-values of linearity, over worlds of 2 to 8 latents and 1 to 4 actions."""
    tally, chances = Tally(), []
    for seed in range(worlds):
        for label, (paths, steps) in SIZES.items():
            source = generator(seed, "world", label)
            dim, actions = (int(torch.randint(*ends, (1,), generator=source)) for ends in ((2, 9), (1, 5)))
            world = random_world(seed, dim, actions, feedback=bool(seed % 2))
            z, a = world.paths(paths, steps, source)
            found = certify_dynamics(z @ world.q.T, a)
            chances.append(found.linearity.p)
            count_covered(tally, found, world)
    return tally.shares(), np.array(chances)


def count_covered(tally, found, world):
    """Hold the intervals of a certificate against the world's own transition."""
    a, b = world.a, world.b
    values = found.invariants
    truth = np.linalg.eigvals(a)
    fitted = np.array([one.estimate for one in values.eigenvalues])
    _, match = linear_sum_assignment(np.abs(fitted[:, None] - truth))
    for name, part in (
        ("real", truth[match].real),
        ("imag", truth[match].imag),
        ("modulus", abs(truth[match])),
    ):
        ends = [getattr(one, name) for one in values.eigenvalues]
        tally.add(f"eigenvalues of A, {name}", part, [one.low for one in ends], [one.high for one in ends])
    for name, exact, ends in (
        ("singular values of B", np.linalg.svd(b, compute_uv=False), values.singular_values),
        ("Gramian", np.linalg.eigvalsh(gramian(a, b, a, b, values.horizon))[::-1], values.gramian),
    ):
        tally.add(name, exact, [one.low for one in ends], [one.high for one in ends])
    responses = inner_products(a, b, len(a))
    tally.add("impulse responses", responses, values.responses_low, values.responses_high)
    left = found.excitation.eigenvalues
    exact = np.full(b.shape[1], world.dither**2)
    tally.add("covariance of actions given the state", exact, [x.low for x in left], [x.high for x in left])

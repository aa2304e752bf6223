"""Plan in an embedding: are its straight lines straight, what does control by it cost, and what at most?

The world is linear with two latents; the encoder is a rotation with a small wave on it, whose recovery error
and Lipschitz constant are known. Yours come from a certificate.
"""

import numpy as np
import torch

import isojepa as ij
from isojepa.planning import LinearSystem, Lqr, compare_lines, draw_pairs, planning_bound, simulate_regret

turn = np.array([[0.6, -0.8], [0.8, 0.6]])


def encode(z: np.ndarray) -> np.ndarray:
    """A rotation and a wave."""
    return z @ turn.T + 0.1 * np.sin(z)


z = torch.randn(10_000, 2, generator=ij.generator(0, "library"), dtype=torch.float64).numpy()
lines = compare_lines(encode(z), z, draw_pairs(len(z)))
print(lines)

world = LinearSystem(0.9 * np.eye(2), np.eye(2), 0.19 * np.eye(2))  # N(0, I) if nothing is done
best = Lqr(world, w=np.eye(2), r=np.eye(2))
latent = Lqr(world.turned(turn), w=np.eye(2), r=np.eye(2))
regret = simulate_regret(best, lambda z: latent.act(encode(z)))
recovery_error = 0.01 * (1 - np.exp(-2))  # E |0.1 sin z|^2 under N(0, I)
bound = planning_bound(latent.system, latent.w, latent.r, recovery_error, lipschitz=0.1)
print("regret", regret)
print(bound)

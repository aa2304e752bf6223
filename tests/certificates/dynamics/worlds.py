"""Made-up worlds with known transitions, and in how many of them intervals cover."""

from collections import Counter

import numpy as np
import torch

from isojepa.certificates.dynamics import certify_dynamics
from isojepa.seeds import generator
from isojepa_lab.papers.own.linear_worlds import covered, normal, random_world, within

__all__ = ["Tally", "count_covered", "normal", "random_world", "simulate"]


class Tally:
    """Of each invariant, in how many worlds all of its intervals cover the truth at once."""

    def __init__(self):
        self.hits, self.count = Counter(), Counter()

    def add(self, name, held):
        self.hits[name] += bool(held)
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
    for name, held in covered(found.invariants, world.a, world.b).items():
        tally.add(name, held)
    left = found.excitation.eigenvalues
    tally.add("covariance of actions given the state", all(within(one, world.dither**2) for one in left))

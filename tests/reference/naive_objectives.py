"""Objectives of global and local views from their definitions: loops over all there is, float64."""

import itertools
import math

import numpy as np


def centre_distance(views: np.ndarray, global_views: int, mean: bool) -> float:
    """Mean over views and samples of |h_v - c|^2, a sum over dimensions or a mean (LeJEPA, equation 6)."""
    count, n, dim = views.shape
    total = 0.0
    for i in range(n):
        centre = [sum(views[u, i, d] for u in range(global_views)) / global_views for d in range(dim)]
        for v in range(count):
            total += sum((centre[d] - views[v, i, d]) ** 2 for d in range(dim))
    return total / (n * count) / (dim if mean else 1)


def pairs_distance(views: np.ndarray, global_views: int) -> float:
    """Mean over samples, global views u and all views v of |h_u - h_v|^2 (LeJEPA, equation 5)."""
    count, n, _ = views.shape
    total = 0.0
    for i, u, v in itertools.product(range(n), range(global_views), range(count)):
        total += float(((views[u, i] - views[v, i]) ** 2).sum())
    return total / (n * count * global_views)


def compared(count: int, global_views: int) -> list[tuple[int, int]]:
    """Pairs of different views, each once, that have a global view."""
    return [pair for pair in itertools.combinations(range(count), 2) if min(pair) < global_views]


def nt_xent(h: np.ndarray, other: np.ndarray, temperature: float) -> float:
    """NT-Xent of two views (n, dim): Chen et al. 2020, equation 1, over all 2n anchors."""
    n = len(h)
    rows = [row / math.sqrt(float(row @ row)) for row in (*h, *other)]
    total = 0.0
    for a in range(2 * n):
        likeness = [float(rows[a] @ rows[b]) / temperature for b in range(2 * n)]
        below = sum(math.exp(likeness[b]) for b in range(2 * n) if b != a)
        total -= likeness[(a + n) % (2 * n)] - math.log(below)
    return total / (2 * n)


def barlow(h: np.ndarray, other: np.ndarray, eps: float) -> tuple[float, float]:
    """Sums over the diagonal of (1 - C_ii)^2 and off it of C_ij^2: Zbontar et al. 2021, equations 1 and 2."""
    dim = h.shape[1]
    on = off = 0.0
    for i, j in itertools.product(range(dim), repeat=2):
        a, b = h[:, i] - h[:, i].mean(), other[:, j] - other[:, j].mean()
        c = float((a * b).mean()) / math.sqrt((a.var() + eps) * (b.var() + eps))
        if i == j:
            on += (1 - c) ** 2
        else:
            off += c**2
    return on, off


def softmax(logits: np.ndarray) -> np.ndarray:
    """Of one vector."""
    exponentials = np.array([math.exp(x - max(logits)) for x in logits])
    return exponentials / exponentials.sum()


def distillation(
    student: np.ndarray, teacher: np.ndarray, centre: np.ndarray, hot: float, cold: float
) -> float:
    """Cross entropy of logits (view, n, K), a teacher's view with the student's others: DINO, Algorithm 1."""
    losses = []
    for u, v, i in itertools.product(range(len(teacher)), range(len(student)), range(student.shape[1])):
        if u != v:
            target = softmax((teacher[u, i] - centre) / cold)
            losses.append(-float(target @ np.log(softmax(student[v, i] / hot))))
    return sum(losses) / len(losses)


def union(offsets: list[tuple[int, int]], sides: tuple[int, int], grid: tuple[int, int]) -> set[int]:
    """Patches, in reading order, that blocks with these upper left corners cover."""
    return {
        row * grid[1] + column
        for top, left in offsets
        for row in range(top, top + sides[0])
        for column in range(left, left + sides[1])
    }


def balanced(scores: np.ndarray, temperature: float, iterations: int) -> np.ndarray:
    """Sinkhorn's iteration as SwAV's pseudo-code has it: Q is (prototypes, samples) and sums to 1."""
    q = np.exp(scores / temperature).T
    q = q / q.sum()
    prototypes, samples = q.shape
    for _ in range(iterations):
        for k in range(prototypes):
            q[k] = q[k] / q[k].sum() / prototypes
        for i in range(samples):
            q[:, i] = q[:, i] / q[:, i].sum() / samples
    return (q * samples).T


def swapped(scores: np.ndarray, global_views: int, temperature: float, cold: float, iterations: int) -> float:
    """SwAV of scores (view, n, K): codes of each global view, predicted from each other view."""
    losses = []
    for u in range(global_views):
        codes = balanced(scores[u], cold, iterations)
        for v, i in itertools.product(range(len(scores)), range(scores.shape[1])):
            if v != u:
                losses.append(-float(codes[i] @ np.log(softmax(scores[v, i] / temperature))))
    return sum(losses) / len(losses)


def momentum_contrast(queries: np.ndarray, keys: np.ndarray, temperature: float) -> float:
    """2 T times InfoNCE of queries (view, n, dim) with keys (global view, n, dim) of other views: MoCo v3."""
    unit = [
        [[row / math.sqrt(float(row @ row)) for row in view] for view in part] for part in (queries, keys)
    ]
    losses = []
    for v, u, i in itertools.product(range(len(queries)), range(len(keys)), range(queries.shape[1])):
        if v != u:
            likeness = np.array([float(unit[0][v][i] @ key) / temperature for key in unit[1][u]])
            losses.append(-2 * temperature * math.log(softmax(likeness)[i]))
    return sum(losses) / len(losses)


def nearest_logarithm(x: np.ndarray) -> float:
    """Minus the mean logarithm of the distance to the nearest other, on the sphere: KoLeo."""
    unit = [row / math.sqrt(float(row @ row)) for row in x]
    total = 0.0
    for i, one in enumerate(unit):
        total -= math.log(min(float(np.linalg.norm(one - unit[j])) for j in range(len(unit)) if j != i))
    return total / len(x)

"""Comparisons of two embeddings: all at once, against the textbook forms, and chance against the scores."""

import time

import numpy as np
from measure import alternate, apart, row

from isojepa.alignment import compare, value_of
from isojepa.alignment.scores import NeighborScores, NeighborSide

ALL = """
import json, time
import numpy as np
from isojepa.alignment import AlignmentMap
from isojepa.alignment import compare
from measure import forget_peak, peak_mib
rng = np.random.default_rng(0)
x = rng.normal(size=(25_000, 384))
y = x @ rng.normal(size=(384, 384)) / 384**0.5 + 0.5 * rng.normal(size=x.shape)
fitted = AlignmentMap("ridge").fit(x[20_000:], y[20_000:])
x, y = x[:20_000], y[:20_000]
compare(x[:200, :4], y[:200, :4])  # load before the baseline is taken
found = []
for map in (fitted, None):
    before = forget_peak()
    start = time.perf_counter()
    compare(x, y, map=map)
    found.append({"seconds": time.perf_counter() - start, "mib": peak_mib() - before})
print(json.dumps(found))
"""

STREAMED = """
import json, time
import numpy as np
from isojepa.alignment import AlignmentMap
from measure import forget_peak, peak_mib
rng = np.random.default_rng(0)
w = (rng.normal(size=(384, 384)) / 384**0.5).astype(np.float32)
fitted = AlignmentMap()
before, spent = forget_peak(), 0.0
for _ in range(100):
    x = rng.standard_normal((10_000, 384), dtype=np.float32)
    y = x @ w + rng.standard_normal((10_000, 384), dtype=np.float32)
    start = time.perf_counter()
    fitted.partial_fit(x, y)
    spent += time.perf_counter() - start
start = time.perf_counter()
error = float(np.abs(fitted.affine().matrix - w).max())
spent += time.perf_counter() - start
print(json.dumps({"seconds": spent, "mib": peak_mib() - before, "pairs": fitted.pairs_, "error": error}))
"""


def comparing() -> list[dict]:
    """Everything at once, at several sizes; CKA and neighbors against the textbook forms."""
    (given, split), streamed = apart(ALL), apart(STREAMED)
    what = "all comparisons of 20,000 x 384"
    return [
        row(f"{what}, map given: seconds", given["seconds"], -60, given),
        row(f"{what}, map given: MiB beyond the data", given["mib"], -2048, given),
        row(f"{what}, map fitted on a half: seconds", split["seconds"], -60, split),
        row(f"{what}, map fitted on a half: MiB beyond the data", split["mib"], -2048, split),
        row("W of 1,000,000 x 384 pairs in one pass: seconds", streamed["seconds"], None, streamed),
        row("W of 1,000,000 x 384 pairs in one pass: MiB", streamed["mib"], -1024, streamed),
        *_cka(),
        *_neighbours(),
        *_sizes(),
    ]


def _pair(n: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, dim))
    return x, x + rng.normal(size=(n, dim))


def _gram_cka(x: np.ndarray, y: np.ndarray) -> float:
    """The form with n x n matrices, centred in place of two more products."""
    grams = []
    for rows in (x, y):
        gram = rows @ rows.T
        gram -= gram.mean(0)
        gram -= gram.mean(1, keepdims=True)
        grams.append(gram)
    k, g = grams
    return float(np.vdot(k, g) / np.sqrt(np.vdot(k, k) * np.vdot(g, g)))


def _cka() -> list[dict]:
    x, y = _pair(10_000, 128)
    if abs(value_of("CKA", x, y) - _gram_cka(x, y)) > 1e-9:
        raise RuntimeError("the two forms of CKA differ")
    times = alternate({"ours": lambda: value_of("CKA", x, y), "gram": lambda: _gram_cka(x, y)}, least=3)
    return [row("CKA 10,000 x 128: time, n x n form / ours", times["gram"] / times["ours"], 50, times)]


def _neighbours() -> list[dict]:
    from sklearn.neighbors import NearestNeighbors

    x, y = _pair(3_000, 384)

    def brute() -> list[float]:
        found = []
        for k in range(1, 51):
            one, two = (
                NearestNeighbors(n_neighbors=k, algorithm="brute").fit(rows).kneighbors(return_distance=False)
                for rows in (x, y)
            )
            shared = [len(set(a) & set(b)) for a, b in zip(one.tolist(), two.tolist(), strict=True)]
            found.append(1 - float(np.mean(shared)) / k)
        return found

    def ours() -> list[float]:
        sides = (NeighborSide(rows, 50, cosine=False) for rows in (x, y))
        return list(1 - NeighborScores(*sides, range(1, 51), None).whole())

    start = time.perf_counter()
    expected = brute()
    slow = time.perf_counter() - start
    if not np.allclose(expected, ours()):
        raise RuntimeError("the two forms of NOS@k differ")
    times = {"ours": alternate({"ours": ours}, seconds=1.0, least=3)["ours"], "brute": slow}
    return [row("NOS@1...50, 3,000 x 384: time, scikit-learn per k / ours", slow / times["ours"], 5, times)]


def _sizes() -> list[dict]:
    rows = []
    for n, target in ((5_000, -3), (20_000, -15)):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(2, n, 64))
        for name, other in (("unrelated", y), ("related", x @ rng.normal(size=(64, 64)) + y)):
            start = time.process_time()
            compare(x, other)
            seconds = time.process_time() - start
            rows.append(row(f"all comparisons of {n:,} x 64, {name}: processor seconds", seconds, target))
    return rows

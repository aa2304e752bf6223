"""Targets of fuzzed calls: unmixing, straightening and matching, of odd rows and of what is none."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

import isojepa as ij
from isojepa.unmix import Warp, match_latents
from tests.fuzz.targets import CONFIDENCE, POSITIVE, H, Target
from tests.fuzz.values import Domain, Rng, choice, count, flag, number, pick, rows, seed, wrong_kind

TOLERANCE = number(0.0, 0.01, 0.5, bad=(-0.1, 1, 2, 1e300))
ROWS = rows(least=1)
LARGE = rows(n=120, most=1e100)
NEVER = Domain(pick(False), flag().bad)  # what is dropped is not refused


def _odd_rows(rng: Rng) -> np.ndarray:
    """Rows (n, dim) of numbers that may be unmixed or not, but never with a NaN in what comes of them."""
    source = np.random.default_rng(rng.randrange(1000))
    n, dim = rng.choice(((24, 2), (60, 2), (60, 3), (60, 9), (300, 4), (1200, 2), (25, 40)))
    h = rng.choice(
        (
            lambda: source.normal(size=(n, dim)),
            lambda: source.uniform(size=(n, dim)),
            lambda: source.choice([-1.0, 1.0], (n, dim)),
            lambda: source.standard_cauchy((n, dim)),
            lambda: source.normal(size=(n, dim)).cumsum(0),
            lambda: np.arange(n)[:, None] + 1e-3 * source.normal(size=(n, dim)),
            lambda: source.normal(size=(n, dim)).round(),
            lambda: source.normal(size=(n, 1)) @ source.normal(size=(1, dim)),
            lambda: np.ones((n, dim)),
            lambda: np.arange(n)[:, None] % np.arange(3.0, 3 + dim),
            lambda: (source.uniform(size=(n, dim)) > 0.97) * 1.0,
        )
    )()
    h = rng.choice((1.0, 1.0, 1e-30, 1e30, 1e-120)) * h + rng.choice((0.0, 0.0, 1.0, 1e9))
    if rng.random() < 0.2:
        h[n // 2 :] = h[: n - n // 2]  # rows twice
    if rng.random() < 0.2:
        h[: n // 2, 0] = h[0, 0]  # a column that stands still in half of the rows
    if rng.random() < 0.1:
        h[n // 2 :] *= 1e-9
    return h.astype(rng.choice(("f8", "f8", "f4"))) if np.abs(h).max() < 1e30 else h


def _rows_of(h: np.ndarray, count: int = 300) -> np.ndarray:
    """So many rows, again from the first where there are fewer."""
    return np.resize(h, (count, h.shape[1]))


def _odd_pairs(rng: Rng) -> tuple[np.ndarray, np.ndarray | None]:
    h = _odd_rows(rng)
    draw = rng.random()
    if draw < 0.3:
        return h, None
    noise = np.random.default_rng(1).normal(size=h.shape) * h.std(0)
    made: Callable[[], np.ndarray] = rng.choice(
        (
            lambda: h.copy(),
            lambda: -h,
            lambda: h[::-1].copy(),
            lambda: np.roll(h, 1, 0),
            lambda: 0.9 * h + 0.4 * noise,
            lambda: h + 1e-9 * noise,
            lambda: noise,
            lambda: h * np.linspace(0.1, 0.9, h.shape[1]) + noise,
        )
    )
    return h, made()


def _odd_values(rng: Rng) -> np.ndarray:
    """Values (n,) of one axis."""
    y = _odd_rows(rng)[:, 0].astype(float)
    y = np.concatenate([y] * (1 + 1500 // len(y)))
    return y + rng.choice((0.0, 1e-9, 0.1, 1.0)) * y.std() * np.random.default_rng(2).normal(size=len(y))


def _near(rng: Rng, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values with others that are near them, or not."""
    step = np.random.default_rng(3).normal(size=len(y)) * y.std()
    later: Callable[[], np.ndarray] = rng.choice(
        (
            lambda: y + rng.choice((1e-12, 1e-6, 0.1, 1.0)) * step,
            lambda: np.roll(y, 1),
            lambda: np.where(step > 0, y, y[::-1]),
            lambda: np.sort(y),
            lambda: np.maximum(y, np.median(y)),
        )
    )
    return (y, later()) if rng.random() < 0.8 else (np.sort(y), np.sort(later()))


def _told(found: Any) -> Any:
    """All that a user may ask of what was found."""
    str(found)
    return found.to_dict()


def _used(asked: Any) -> Any:
    h = np.random.default_rng(0).uniform(size=(60, 2))
    found = asked.fit(h, np.roll(h, 1, 0))
    y = found.transform(h)
    return _told(found), y, found.latents(h), found.inverse_transform(y)


@cache
def fitted() -> Any:
    """Axes of some uniform rows, with a warp each."""
    h = np.random.default_rng(0).uniform(size=(1500, 2))
    return ij.unmix(h @ np.array([[0.8, 0.6], [-0.6, 0.8]]))


@cache
def _warp() -> Any:
    return fitted().axes_[0].warp


def _with_nan(rng: Rng) -> Any:
    h = np.random.default_rng(0).normal(size=(60, 2))
    h[:: rng.choice((3, 10, 59)), rng.randrange(2)] = rng.choice((np.nan, np.inf))
    return h


Y = np.random.default_rng(0).uniform(size=1200)
VALUES = Domain(
    pick(Y, Y.astype("f4"), torch.tensor(Y), Y.tolist(), Y - 1e6, 1e-90 * Y, np.exp(20 * Y)),
    pick(
        *(Y[:999], Y[:0], Y[:, None], Y[0], Y > 0.5, Y.round(1), np.zeros(1200), 1j * Y, Y.astype(str)),
        *(np.where(Y > 0.9, np.nan, Y), np.where(Y > 0.9, np.inf, Y), 1e200 * Y, np.where(Y < 0.1, 0.0, Y)),
        *(3, "x", b"x", [], {}, object(), [[1, 2], [3]], iter([1]), torch.empty(1200, device="meta")),
        *(torch.tensor(Y).to_sparse(), Y.astype(object), np.zeros(1200, "datetime64[s]")),
    ),
)
NEXT = Domain(
    pick(None, 0.9 * Y + 0.1 * Y[::-1], Y, Y[::-1].copy(), np.roll(Y, 1), Y + 1e-6 * Y[::-1]),
    pick(Y[:1100], Y[:, None], np.where(Y > 0.9, np.nan, Y), "x", 3, object(), [], 1e200 * Y),
)
PATHS = Domain(
    lambda rng: rng.choice(
        (
            lambda: np.random.default_rng(0).normal(size=(60, 4, 2)),
            lambda: torch.randn(60, 4, 2, generator=torch.Generator().manual_seed(0)).bfloat16(),
            lambda: [np.random.default_rng(k).normal(size=(20 + k, 2)).cumsum(0) for k in range(5)],
            lambda: [np.zeros((1, 2)), np.random.default_rng(0).uniform(size=(90, 2))],
            lambda: np.random.default_rng(0).normal(size=(60, 4, 2)).tolist(),
        )
    )(),
    lambda rng: rng.choice(
        (
            *("x", 3, [], {}, object(), [None], [3], ["x"], [[]], [object()], np.zeros((3, 3)), np.ones(3)),
            *([np.ones((5, 2)), np.ones((5, 3))], [np.ones((1, 2))] * 40, np.ones((60, 4, 2), complex)),
            *(np.full((60, 4, 2), np.nan), np.ones((60, 4, 2)), np.ones((60, 0, 2)), np.ones((0, 4, 2))),
            *([np.array([["a", "b"]] * 60)], [np.full((60, 2), np.nan)], np.ones((60, 4, 2), object)),
            *([torch.ones(60, 2, device="meta")], torch.ones(60, 4, 2, device="meta"), (), iter([1, 2])),
            *(torch.ones(60, 4, 2).to_sparse(), np.full((60, 4, 2), 1e60), np.ones((60, 4, 2), bool)),
        )
    ),
)

UNMIXING: dict[str, Target] = {
    "unmix": Target(
        lambda **given: _told(ij.unmix(**given)),
        {"h": H},
        {
            "h_next": rows(none=True),
            "dim": Domain(pick(None, 1, 2), count(1, 2, none=True).bad),
            "tolerance": TOLERANCE,
            "straighten": flag(),
            "drop": NEVER,
            "seed": seed(),
            "progress": Domain(pick(None, lambda done, total, name: None), pick(3, "x", [])),
        },
    ),
    "unmix of odd rows": Target(
        lambda pair, **options: _told(ij.unmix(*pair, **options)),
        {"pair": Domain(_odd_pairs, lambda rng: (_with_nan(rng), None))},
        {"tolerance": TOLERANCE, "dim": Domain(pick(None, 1, 2), count(none=True).bad), "seed": seed()},
    ),
    "unmix without bad rows": Target(
        lambda h, **options: _told(ij.unmix(h, drop=True, **options)),
        {"h": Domain(_with_nan, pick(np.full((60, 2), np.nan), np.full((60, 2), np.inf), "x", [[1], []]))},
        {"straighten": flag(), "tolerance": TOLERANCE},
    ),
    "unmix of paths": Target(
        lambda **given: _told(ij.unmix(**given)),
        {"paths": PATHS},
        {
            "drop": NEVER,
            "dim": Domain(pick(None, 1, 2), count(none=True).bad),
            "h": Domain(pick(None), H.good),
        },
    ),
    "Unmixing": Target(
        lambda **options: ij.Unmixing(**options),
        {},
        {
            "dim": Domain(pick(None, 1, 2), count(1, 2, none=True).bad),
            "tolerance": TOLERANCE,
            "straighten": flag(),
            "drop": flag(),
            "seed": seed(),
        },
        _used,
    ),
    "Unmixing.set_params": Target(
        lambda **options: ij.Unmixing().set_params(**options),
        {},
        {"dim": Domain(pick(None, 1), count(none=True).bad), "tolerance": TOLERANCE, "colour": H},
        _used,
    ),
    "Unmixing.transform": Target(lambda h: fitted().transform(h), {"h": ROWS}),
    "Unmixing.latents": Target(lambda h: fitted().latents(h), {"h": ROWS}),
    "Unmixing.inverse_transform": Target(lambda y: fitted().inverse_transform(y), {"y": ROWS}),
    "Unmixing.load": Target(
        ij.Unmixing.load, {"path": Domain(pick("no/such/file"), pick(3, None, [], "", "a\0b", 0.5, "/"))}
    ),
    "Unmixing.save": Target(
        lambda path: fitted().save(path),
        {"path": Domain(pick("/dev/null/x"), pick(3, None, [], "a\0b", 0.5, "/", "a" * 300, ""))},
    ),
    "dewarp": Target(
        lambda **given: ij.dewarp(**given).to_dict(),
        {"y": VALUES},
        {
            "y_next": NEXT,
            "method": choice("increments", "eigenfunction", "law", none=True),
            "law": wrong_kind(ij.laws.Normal(), ij.laws.Uniform(), ij.laws.StudentT(3.0), None),
            "lag": POSITIVE,
            "confidence": CONFIDENCE,
        },
    ),
    "dewarp of odd values": Target(
        lambda y, y_next, **options: ij.dewarp(y, y_next, **options).to_dict(),
        {"y": Domain(_odd_values, VALUES.bad), "y_next": Domain(pick(None), NEXT.bad)},
        {"method": choice("eigenfunction", none=True), "law": wrong_kind(ij.laws.Uniform(), None)},
    ),
    "dewarp of odd pairs": Target(
        lambda pair, **options: ij.dewarp(*pair, **options).to_dict(),
        {"pair": Domain(lambda rng: _near(rng, _odd_values(rng)), lambda rng: (np.ones(1500), Y))},
        {"method": choice("increments", "eigenfunction", none=True), "lag": POSITIVE},
    ),
    "dewarp of paths": Target(
        lambda paths: ij.dewarp(paths=paths).to_dict(),
        {
            "paths": Domain(
                pick(Y, Y.reshape(300, 4), [Y[:700], Y[:600]], np.cumsum(Y.reshape(300, 4) - 0.5, 0)),
                pick("x", 3, [], [[]], [3], [None], ["x"], Y.reshape(20, 30, 2), {}, object(), Y[:50], b"x"),
            )
        },
    ),
    "Warp": Target(
        lambda **given: Warp.from_dict({**_warp().to_dict(), **given}),
        {},
        {
            name: Domain(
                lambda rng, name=name: getattr(_warp(), name),
                pick("x", None, [], [1.0], 3, np.nan, [1.0, np.nan], [2.0, 1.0], object(), [[1.0, 2.0]]),
            )
            for name in ("y", "z", "low", "high")
        }
        | {
            "method": choice("law"),
            "agreement": number(0.0, 1.0, bad=(-0.1, 1.1), none=True),
            "diffusion": number(0.5, bad=(0, -1), none=True),
        },
        lambda made: made(np.linspace(-9, 9, 7)),
    ),
    "Warp()(y)": Target(
        lambda y: _warp()(y), {"y": Domain(VALUES.good, pick("x", None, 1j, [[1], []], np.nan))}
    ),
    "match_latents": Target(match_latents, {"axes": LARGE, "latents": LARGE}, {"confidence": CONFIDENCE}),
    "match_latents of odd rows": Target(
        lambda axes, latents: match_latents(_rows_of(axes), _rows_of(latents)),
        {"axes": Domain(_odd_rows, _with_nan), "latents": Domain(_odd_rows, _with_nan)},
    ),
}

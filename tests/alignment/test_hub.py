"""One space for several encoders: against scipy, a slow form, all angles of a small case, known worlds."""

from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
import scipy

from isojepa.alignment import AlignmentMap, SharedSpace
from isojepa.alignment.shared_space import generalized_procrustes
from tests.alignment.made_up import rotation
from tests.reference.naive_procrustes import loss_of, naive_consensus


def family(
    maps: list[np.ndarray], n: int = 400, noise: float = 0.0, seed: int = 0
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """One latent and encoders "0", "1", ... that are linear maps of it, at other places, with noise."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, len(maps[0]))) * np.linspace(1, 2, len(maps[0]))
    made = [z @ w + rng.normal(size=w.shape[1]) for w in maps]
    noisy = [x + noise * x.std() * rng.normal(size=x.shape) for x in made]
    return z, {str(number): x for number, x in enumerate(noisy)}


def rotations(count: int, dim: int, seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.5, 2) * rotation(rng, dim) for _ in range(count)]


def matrices(count: int, dim: int, seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(dim, dim)) for _ in range(count)]


def centred(rows: np.ndarray) -> np.ndarray:
    return rows - rows.mean(0)


def test_two_rotated_encoders_meet_as_scipys_procrustes_has_them() -> None:
    _, rows = family(rotations(2, 5), noise=0.3)
    first, second, disparity = scipy.spatial.procrustes(rows["0"], rows["1"])
    hub = SharedSpace().fit(rows)
    a, b = hub.to_hub("0", rows["0"]), hub.to_hub("1", rows["1"])
    # scipy also scales the second by tr D, which is the inner product of the two as both have size 1
    inner = float((a * b).sum()) / len(a)
    assert 1 - inner**2 == pytest.approx(disparity, abs=1e-10)
    assert hub.losses[-1] == pytest.approx((2 - 2 * inner) / 2, abs=1e-10)
    assert a @ b.T / len(a) * inner == pytest.approx(first @ second.T, abs=1e-10)


def test_translation_between_two_rotated_encoders_is_the_rotation_of_an_alignment_map() -> None:
    _, rows = family(rotations(2, 5), noise=0.3)
    matrix = SharedSpace().fit(rows).matrix("0", "1")
    fitted = AlignmentMap("procrustes", standardize=False).fit(rows["0"], rows["1"]).matrix_
    assert matrix / np.linalg.norm(matrix, 2) == pytest.approx(fitted, abs=1e-8)


def test_translation_between_two_white_encoders_is_the_map_of_canonical_variates() -> None:
    _, rows = family(matrices(2, 4), noise=0.5)
    hub = SharedSpace("linear").fit(rows)
    fitted = AlignmentMap("cca", standardize=False).fit(rows["0"], rows["1"])
    assert hub.matrix("0", "1") == pytest.approx(fitted.matrix_, abs=1e-7)
    u, v = hub.to_hub("0", rows["0"]), hub.to_hub("1", rows["1"])
    between = u.T @ v / len(u)
    q = [np.linalg.qr(centred(part))[0] for part in rows.values()]
    assert np.diag(between) == pytest.approx(np.linalg.svd(q[0].T @ q[1], compute_uv=False), abs=1e-6)
    assert between - np.diag(np.diag(between)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("widths", [(3, 3, 3), (2, 4, 3, 4), (1, 3, 3)])
def test_the_loss_never_rises_and_is_not_above_that_of_the_slow_form(widths: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(widths))
    z = rng.normal(size=(40, 4))
    rows = [
        centred(z[:, :w] @ rotation(rng, w) + rng.uniform(0.2, 0.8) * rng.normal(size=(40, w)))
        for w in widths
    ]
    found = generalized_procrustes(rows)
    falls = -np.diff(found.losses)
    assert found.converged
    assert (falls >= -1e-12 * found.losses[0]).all()
    assert falls[0] > 0
    turned = [part @ q for part, q in zip(rows, found.rotations, strict=True)]
    assert found.losses[-1] == pytest.approx(loss_of(turned), rel=1e-9)
    slow = min(naive_consensus(rows, 200, rng)[1] for _ in range(4))
    assert found.losses[-1] <= slow * (1 + 1e-6)
    for q in found.rotations:
        assert q @ q.T == pytest.approx(np.eye(len(q)), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_of_all_angles_and_reflections_of_three_planes_none_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(12, 2))
    rows = [centred(z @ rotation(rng, 2) + 0.7 * rng.normal(size=(12, 2))) for _ in range(3)]
    found = generalized_procrustes(rows)
    angles = np.linspace(0, 2 * np.pi, 181)
    best = np.inf
    for flips in product((1.0, -1.0), repeat=2):  # the first may stay: turning all alike changes nothing
        c, s = np.cos(angles), np.sin(angles)
        turns = [np.stack([np.stack([c, s], -1), f * np.stack([-s, c], -1)], -2) for f in flips]
        agreement = 0.0
        second, third = (
            np.einsum("nd,ade->ane", part, turn) for part, turn in zip(rows[1:], turns, strict=True)
        )
        agreement = np.einsum("nd,and->a", rows[0], second)[:, None]
        agreement = agreement + np.einsum("nd,and->a", rows[0], third)[None]
        agreement = agreement + np.einsum("and,bnd->ab", second, third)
        total = sum(float((part**2).sum()) for part in rows)
        best = min(best, (total - (total + 2 * float(agreement.max())) / 3) / 12)
    assert found.losses[-1] <= best + 1e-12
    assert found.losses[-1] >= best - 0.01 * best  # two degrees apart, the grid comes near


@pytest.mark.parametrize(
    ("kind", "maps"), [("rotation", rotations(4, 6)), ("linear", matrices(4, 6)), ("linear", rotations(3, 6))]
)
def test_encoders_of_one_latent_are_translated_exactly_on_fresh_states(
    kind: str, maps: list[np.ndarray]
) -> None:
    _, rows = family(maps)
    hub = SharedSpace(kind).fit({name: part[:200] for name, part in rows.items()})
    for a, b in permutations(rows, 2):
        assert hub.translate(a, b, rows[a][200:]) == pytest.approx(rows[b][200:], abs=1e-7)
    assert hub.losses[-1] == pytest.approx(0, abs=1e-9)
    assert hub.converged


@pytest.mark.parametrize("kind", ["rotation", "linear"])
def test_every_cycle_through_the_hub_is_the_identity_however_noisy_the_encoders(kind: str) -> None:
    _, rows = family(matrices(4, 5), noise=1.0)
    hub = SharedSpace(kind).fit(rows)
    assert all(spoke.exact for spoke in hub.spokes.values())
    for a, b, c in permutations(rows, 3):
        whole = hub.matrix(c, a) @ hub.matrix(b, c) @ hub.matrix(a, b)
        assert whole == pytest.approx(np.eye(5), abs=1e-9)
        gone = hub.translate(c, a, hub.translate(b, c, hub.translate(a, b, rows[a])))
        assert gone == pytest.approx(rows[a], abs=1e-8)


@pytest.mark.parametrize("kind", ["rotation", "linear"])
def test_widths_may_differ_and_narrow_encoders_lose_nothing(kind: str) -> None:
    turns = rotations(3, 6)
    _, rows = family([turns[0], turns[1][:, :4], turns[2][:, :2]], noise=0.1)
    hub = SharedSpace(kind).fit(rows)
    assert hub.width == 6
    for name, part in rows.items():
        assert hub.from_hub(name, hub.to_hub(name, part)) == pytest.approx(part, abs=1e-9)
    # from wide to narrow nothing is missing but the noise
    error = hub.translate("0", "2", rows["0"]) - rows["2"]
    if kind == "linear":
        assert (error**2).sum() / (centred(rows["2"]) ** 2).sum() < 0.1


def test_expected_translation_is_better_where_only_part_is_shared() -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(4000, 4))
    own = {
        name: np.concatenate((shared, rng.normal(size=(4000, 4))), 1) @ rng.normal(size=(8, 8))
        for name in "abc"
    }
    hub = SharedSpace("linear").fit({name: rows[:2000] for name, rows in own.items()})
    fitted = AlignmentMap("ols").fit(own["a"][:2000], own["b"][:2000])
    wanted = own["b"][2000:]

    def r2(rows: np.ndarray) -> float:
        return 1 - float(((wanted - rows) ** 2).sum() / ((wanted - wanted.mean(0)) ** 2).sum())

    direct = r2(fitted.transform(own["a"][2000:]))
    plain = r2(hub.translate("a", "b", own["a"][2000:]))
    expected = r2(hub.translate("a", "b", own["a"][2000:], expected=True))
    assert plain < direct - 0.1
    assert expected == pytest.approx(direct, abs=0.02)


@pytest.mark.parametrize("kind", ["rotation", "linear"])
def test_adding_one_leaves_the_others_as_they_were_bit_for_bit(kind: str) -> None:
    _, rows = family(rotations(4, 5), noise=0.2)
    hub = SharedSpace(kind).fit({name: rows[name] for name in "012"})
    parts = ("mean", "offset", "to", "back", "loading", "variance")
    before = {name: [getattr(spoke, part).tobytes() for part in parts] for name, spoke in hub.spokes.items()}
    hub.add("3", rows["3"], {"0": rows["0"], "2": rows["2"]})
    for name, found in before.items():
        assert [getattr(hub.spokes[name], part).tobytes() for part in parts] == found
    assert hub.names == ["0", "1", "2", "3"]


@pytest.mark.parametrize(("kind", "maps"), [("rotation", rotations(4, 5)), ("linear", matrices(4, 5))])
@pytest.mark.parametrize("partners", ["1", "02", "012"])
def test_an_added_encoder_speaks_with_all_of_them_from_few_states(
    kind: str, maps: list[np.ndarray], partners: str
) -> None:
    _, rows = family(maps)
    hub = SharedSpace(kind).fit({name: rows[name][:200] for name in "012"})
    few = slice(200, 230)  # other states than the hub was fitted on, spread and placed otherwise
    hub.add("3", rows["3"][few], {name: rows[name][few] for name in partners})
    for name in "012":
        assert hub.translate("3", name, rows["3"][300:]) == pytest.approx(rows[name][300:], abs=1e-7)
        assert hub.translate(name, "3", rows[name][300:]) == pytest.approx(rows["3"][300:], abs=1e-7)


def test_states_are_matched_by_their_ids_and_those_without_partners_left_out() -> None:
    _, rows = family(rotations(4, 3), n=60)
    rng = np.random.default_rng(5)
    order = {name: rng.permutation(60)[: 60 - int(name)] for name in rows}
    ids = {name: [f"s{number}" for number in order[name]] for name in rows}
    mixed = {name: rows[name][order[name]] for name in rows}
    three = {name: mixed[name] for name in "012"}
    with pytest.raises(ValueError, match="must have partners"):
        SharedSpace().fit(three, {name: ids[name] for name in "012"})
    hub = SharedSpace().fit(three, {name: ids[name] for name in "012"}, partial=True)
    assert hub.translate("0", "2", rows["0"]) == pytest.approx(rows["2"], abs=1e-8)
    hub.add("3", mixed["3"], {"0": mixed["0"][:20], "1": mixed["1"][:20]}, ids["3"],
            partner_ids={"0": ids["0"][:20], "1": ids["1"][:20]})  # fmt: skip
    assert hub.translate("3", "2", rows["3"]) == pytest.approx(rows["2"], abs=1e-8)
    together = set(ids["3"]) & (set(ids["0"][:20]) | set(ids["1"][:20]))
    assert hub.spokes["3"].pairs == len(together)


def test_directions_that_an_encoder_lost_are_left_out_and_it_says_so() -> None:
    maps = matrices(3, 4)
    maps[1][:, 3] = maps[1][:, 0] + maps[1][:, 1]  # of rank 3
    _, rows = family(maps)
    hub = SharedSpace("linear").fit(rows)
    assert [spoke.exact for spoke in hub.spokes.values()] == [True, False, True]
    assert hub.from_hub("1", hub.to_hub("1", rows["1"])) == pytest.approx(rows["1"], abs=1e-7)
    assert hub.translate("0", "1", rows["0"]) == pytest.approx(rows["1"], abs=1e-6)


def test_shrinkage_makes_up_for_pairs_and_keeps_the_cycle() -> None:
    _, rows = family(rotations(3, 30), n=25, noise=0.1)
    with pytest.raises(ValueError, match=r"more pairs than '0' has columns, 30, got 25.*shrinkage"):
        SharedSpace("linear").fit(rows)
    hub = SharedSpace("linear", shrinkage=0.2).fit(rows)
    assert hub.matrix("1", "0") @ hub.matrix("0", "1") == pytest.approx(np.eye(30), abs=1e-8)


def test_with_all_shrinkage_a_linear_hub_is_one_of_rotations() -> None:
    _, rows = family(rotations(3, 4), noise=0.3)
    whole, turned = SharedSpace("linear", shrinkage=1.0).fit(rows), SharedSpace().fit(rows)
    assert whole.matrix("0", "1") == pytest.approx(turned.matrix("0", "1"), abs=1e-5)


def test_a_hub_comes_back_from_its_file_bit_for_bit(tmp_path: Path) -> None:
    _, rows = family(matrices(3, 4), noise=0.2)
    hub = SharedSpace("linear", shrinkage=0.01).fit({name: rows[name] for name in "01"})
    hub.add("a name / with signs", rows["2"], {"0": rows["0"]})
    hub.save(tmp_path / "hub.safetensors")
    again = SharedSpace.load(tmp_path / "hub.safetensors")
    assert (again.names, again.kind, again.shrinkage, again.losses) == (hub.names, "linear", 0.01, hub.losses)
    for a, b in permutations(hub.names, 2):
        there = [one.translate(a, b, rows["0"], expected=True).tobytes() for one in (hub, again)]
        assert there[0] == there[1]
    content = (tmp_path / "hub.safetensors").read_bytes()
    (tmp_path / "bad.safetensors").write_bytes(content[:-3])
    with pytest.raises(ValueError, match="truncated"):
        SharedSpace.load(tmp_path / "bad.safetensors")
    AlignmentMap().fit(rows["0"], rows["1"]).save(tmp_path / "map.safetensors")
    with pytest.raises(ValueError, match="must be a hub"):
        SharedSpace.load(tmp_path / "map.safetensors")


def test_what_a_hub_refuses() -> None:
    _, rows = family(rotations(3, 3), n=20)
    hub = SharedSpace().fit(rows)
    for wrong, told in (
        (lambda: SharedSpace("affine"), "kind must be one of"),
        (lambda: SharedSpace(shrinkage=0.5), "goes with kind='linear'"),
        (lambda: SharedSpace("linear", shrinkage=2), "lie from 0 to 1, got 2"),
        (lambda: SharedSpace().to_hub("0", rows["0"]), "must be fitted first"),
        (lambda: SharedSpace().fit({"0": rows["0"]}), "at least 2, got 1"),
        (lambda: SharedSpace().fit({"0": rows["0"], "1": rows["1"][:5]}), "20 rows of '0' and 5 of '1'"),
        (lambda: SharedSpace().fit({"0": rows["0"], "1": np.ones((20, 2))}), "collapsed"),
        (lambda: SharedSpace().fit([rows["0"], np.full((20, 2), np.nan)]), "rows of '1' must be finite"),
        (lambda: SharedSpace().fit(rows, {"0": [1] * 20}), "ids must be given of '0', '1', '2', got of '0'"),
        (lambda: hub.to_hub("4", rows["0"]), "encoder"),
        (lambda: hub.to_hub("0", rows["0"][:, :2]), "3 columns, got 2"),
        (lambda: hub.add("1", rows["1"], {"0": rows["0"]}), "name must be a new one"),
        (lambda: hub.add("4", rows["1"], {}), "partners must be rows by name"),
        (lambda: hub.add("4", rows["1"], {"9": rows["0"]}), "partner"),
        (lambda: hub.add("4", rows["1"], {"0": rows["0"][:5]}), "20 rows of '4' and 5 of '0'"),
        (lambda: hub.add("4", rows["1"], {"0": rows["0"]}, ids=range(20)), "given together"),
    ):
        with pytest.raises(ValueError, match=told):
            wrong()  # type: ignore[no-untyped-call]
    assert hub.names == ["0", "1", "2"]

"""isojepa certify --actions: the transition of embeddings under actions, from files."""

import json

import numpy as np
import pytest

from isojepa.seeds import generator
from isojepa_lab.papers.own.linear_worlds import random_world
from tests.cli.test_commands import run

WORLD = random_world(5, 3, 2)


@pytest.fixture
def files(tmp_path):
    z, a = WORLD.paths(40, 15, generator(0, "paths"))
    h = z @ WORLD.q.T
    after = np.concatenate((a, np.full((1, 40, 2), np.nan)))
    np.savez(tmp_path / "episodes.npz", h=h, a=after, z=z)
    rows = {"h": h[:-1], "h_next": h[1:], "a": a, "z": z[:-1], "z_next": z[1:]}
    flat = {name: part.reshape(-1, part.shape[2]) for name, part in rows.items()}
    np.savez(tmp_path / "rows.npz", **flat, episodes=np.tile(np.arange(40), 15))
    np.save(tmp_path / "h.npy", h)
    np.save(tmp_path / "a.npy", a)
    return tmp_path


def test_episodes_and_rows_of_files_give_the_same_transition(capsys, files):
    found = []
    for source, actions in (
        ("episodes.npz", "episodes.npz"),
        ("rows.npz", "rows.npz::a"),
        ("h.npy", "a.npy"),
    ):
        code, out, err = run(capsys, "certify", files / source, "--actions", files / actions, "--json")
        assert code == 0, err
        found.append(json.loads(out))
    for other in found[1:]:
        np.testing.assert_allclose(other["transition"]["A"], found[0]["transition"]["A"], atol=1e-9)
    assert [one["verdict"] for one in found] == ["true", "true", "linear"]
    assert found[0]["rows"] == 600


def test_what_cannot_be_is_told_in_a_line(capsys, files):
    np.save(files / "short.npy", np.zeros((3, 40, 2)))
    for arguments, words in (
        ((files / "h.npy", "--actions", files / "short.npy"), "as many steps as h or one fewer"),
        ((files / "h.npy", "--actions", files / "none.npy"), "none.npy"),
        ((files / "h.npy", "--actions", files / "a.npy", "--require", "linear"), "without --require"),
        ((files / "h.npy", "--actions", files / "episodes.npz::b"), "array name must be one of a, h, z"),
    ):
        code, _, err = run(capsys, "certify", *arguments)
        assert code == 2
        assert words in err
        assert len(err.strip().splitlines()) == 1

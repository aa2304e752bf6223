"""Episodes in files: what is written is read, what others write is read, and what is hostile is refused."""

import numpy as np
import pytest

from isojepa.data.episodes import Episodes
from isojepa.data.files import read_episodes

h5py = pytest.importorskip("h5py")
LENGTHS = (5, 3, 8)
STEPS = sum(LENGTHS)


def made():
    source = np.random.default_rng(0)
    action = source.normal(size=(STEPS, 2)).astype(np.float32)
    action[np.cumsum(LENGTHS) - 1] = np.nan
    return Episodes(
        {
            "pixels": source.integers(0, 255, (STEPS, 4, 4, 3), dtype=np.uint8),
            "qpos": source.normal(size=(STEPS, 2)),
            "action": action,
            "reward": source.normal(size=STEPS),
            "done": source.integers(0, 2, STEPS).astype(bool),
        },
        LENGTHS,
    )


def foreign(path, chunks=True):
    """As stable-worldmodel writes it: pieces of one row each."""
    episodes = made()
    with h5py.File(path, "w", libver="latest") as file:
        for name in episodes.names:
            values = np.concatenate(episodes.values(name))
            file.create_dataset(
                name, data=values, chunks=(1, *values.shape[1:]), maxshape=(None, *values.shape[1:])
            )
        file["ep_len"] = np.array(LENGTHS, np.int32)
        file["ep_offset"] = np.cumsum(LENGTHS) - LENGTHS
        file["ep_idx"] = np.repeat(np.arange(3), LENGTHS)
    return path


def same(found, expected, shorter=0):
    assert set(found.names) == set(expected.names)
    for number in range(len(expected)):
        for name, values in expected.episode(number).items():
            own = found.rows(name, number)
            assert own.dtype == values.dtype
            np.testing.assert_array_equal(own, values[: len(values) - shorter])


def test_what_is_written_for_stable_worldmodel_is_read_back_and_mapped(tmp_path):
    path = made().write(tmp_path / "a.h5")
    found = read_episodes(path)
    same(found, made())
    assert isinstance(found.values("pixels")[0], np.memmap)
    with h5py.File(path) as file:
        assert file["ep_len"][:].tolist() == list(LENGTHS)
        assert file["ep_offset"][:].tolist() == [0, 5, 8]
        assert np.isnan(file["action"][4]).all()
        assert file["step_idx"][:7].tolist() == [0, 1, 2, 3, 4, 0, 1]


def test_a_file_of_stable_worldmodels_own_layout_is_read(tmp_path):
    same(read_episodes(foreign(tmp_path / "a.h5")), made())
    assert read_episodes(tmp_path / "a.h5", ["qpos"]).names == ("qpos",)


def test_what_is_written_for_robomimic_is_read_back_but_for_states_no_action_leaves(tmp_path):
    path = made().write(tmp_path / "a.hdf5", "robomimic")
    same(read_episodes(path), made(), shorter=1)
    with h5py.File(path) as file:
        assert file["data"].attrs["total"] == STEPS - 3
        assert file["data/demo_2/actions"].shape == (7, 2)
        assert file["data/demo_2/obs/pixels"].shape == (7, 4, 4, 3)
        assert file["data/demo_2"].attrs["num_samples"] == 7


def replaced(name, values):
    def change(file):
        del file[name]
        file[name] = values

    return change


def external(file):
    del file["qpos"]
    file.create_dataset("qpos", (STEPS, 2), "f8", external=[("/etc/hostname", 0, STEPS * 16)])


def virtual(file):
    layout = h5py.VirtualLayout((STEPS, 2), "f8")
    layout[:] = h5py.VirtualSource("elsewhere.h5", "x", (STEPS, 2))
    del file["qpos"]
    file.create_virtual_dataset("qpos", layout)


def huge(file):
    del file["qpos"]
    file.create_dataset("qpos", (1 << 40, 2), "f8", chunks=(1 << 10, 2))


def piece(file):
    del file["qpos"]
    file.create_dataset("qpos", (1 << 28, 2), "f8", chunks=(1 << 27, 2))


def huge_lengths(file):
    del file["ep_len"]
    file.create_dataset("ep_len", (1 << 26,), "i8", chunks=(1 << 10,))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (replaced("ep_len", [5, 3, 9]), "lie within the 16 rows, got 9 steps"),
        (replaced("ep_len", [5, 3]), "must be as many"),
        (replaced("ep_len", [5.0, 3.0, 8.0]), "whole number"),
        (replaced("ep_len", np.array([5, 2**63 + 3, 8], np.uint64)), "below 2\\^63"),
        (replaced("qpos", np.zeros((STEPS - 1, 2))), "as many rows"),
        (replaced("qpos", np.array(["a"] * STEPS, dtype=h5py.string_dtype())), "qpos must hold numbers"),
        (replaced("qpos", np.zeros(STEPS, [("a", "f8")])), "qpos must hold numbers"),
        (replaced("qpos", 1.0), "must be \\(steps"),
        (replaced("qpos", h5py.Empty("f8")), "must be an array"),
        (replaced("qpos", h5py.SoftLink("/reward")), "must lie in the file itself"),
        (replaced("qpos", h5py.ExternalLink("other.h5", "/x")), "must lie in the file itself"),
        (replaced("ep_len", h5py.ExternalLink("other.h5", "/x")), "must lie in the file itself"),
        (external, "leads into another file"),
        (virtual, "leads into another file"),
        (huge, "must expand to at most"),
        (piece, "stored in pieces of at most"),
        (huge_lengths, "at most 128 MB"),
        (lambda file: file.__delitem__("ep_offset"), "must hold ep_len and ep_offset"),
        (lambda file: file.create_group("more"), "more must be an array, got group"),
    ],
)
def test_hostile_files_are_refused_in_one_line(tmp_path, change, reason):
    path = foreign(tmp_path / "a.h5")
    with h5py.File(path, "a") as file:
        change(file)
    with pytest.raises(ValueError, match=reason) as caught:
        read_episodes(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_damaged_files_are_refused_in_one_line(tmp_path):
    whole = foreign(tmp_path / "a.h5").read_bytes()
    for content in (b"", b"no file of episodes", whole[: len(whole) // 2]):
        (tmp_path / "b.h5").write_bytes(content)
        with pytest.raises(ValueError, match="cannot be read as episodes") as caught:
            read_episodes(tmp_path / "b.h5")
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="does not exist"):
        read_episodes(tmp_path / "c.h5")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (replaced("data/demo_1/actions", np.zeros((4, 2), np.float32)), "in demo_1, got"),
        (replaced("data/demo_1/obs/qpos", np.zeros((2, 3))), "one shape and kind"),
        (replaced("data/demo_1/obs/qpos", h5py.SoftLink("/data/demo_0/obs/qpos")), "got a link"),
        (replaced("data/demo_1", h5py.ExternalLink("other.h5", "/x")), "got a link"),
        (replaced("data/demo_1/obs", np.zeros(3)), "must hold"),
        (replaced("data", np.zeros(3)), "data must be a group"),
        (lambda file: file["data/demo_0/obs"].create_dataset("action", data=np.zeros(4)), "got action"),
        (lambda file: file.__delitem__("data/demo_2/obs/qpos"), "must hold qpos"),
    ],
)
def test_hostile_demonstrations_are_refused(tmp_path, change, reason):
    path = made().write(tmp_path / "a.hdf5", "robomimic")
    with h5py.File(path, "a") as file:
        change(file)
    with pytest.raises(ValueError, match=reason):
        read_episodes(path)


def test_what_has_no_place_in_a_format_is_refused_and_nothing_is_left(tmp_path):
    with pytest.raises(ValueError, match="must not be called"):
        Episodes({"ep_len": np.zeros(4)}, [4]).write(tmp_path / "a.h5")
    with pytest.raises(ValueError, match="must have a column action"):
        Episodes({"x": np.zeros(4)}, [4]).write(tmp_path / "a.h5", "robomimic")
    with pytest.raises(ValueError, match="did you mean 'robomimic'"):
        made().write(tmp_path / "a.h5", "robomimick")
    assert not list(tmp_path.iterdir())


def test_the_meta_is_written_and_read_back(tmp_path):
    meta = {"environment": "Pendulum-v1", "seed": 3, "low": [-2.0], "policy": "r\u00e4ndom"}
    episodes = Episodes({"x": np.zeros((4, 1)), "action": np.zeros((4, 1))}, [2, 2], meta=meta)
    for form in ("stable-worldmodel", "robomimic"):
        assert read_episodes(episodes.write(tmp_path / form, form)).meta == meta
    assert read_episodes(made().write(tmp_path / "a.h5")).meta == {}
    large = Episodes({"x": np.zeros((4, 1))}, [4], meta={"low": [0.25] * 20_000})
    with pytest.raises(ValueError, match="meta must take at most 60000 bytes"):
        large.write(tmp_path / "b.h5")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.bytes_(b"[1]"), "must be a JSON object, got list"),
        (np.bytes_(b"{"), "cannot be read as episodes"),
        (np.bytes_(b'{"a": 1, "a": 2}'), "has the name 'a' twice"),
        ("{}", "must be text of at most 60000 bytes"),
        (np.zeros(3), "must be text"),
    ],
)
def test_a_hostile_meta_is_refused(tmp_path, value, reason):
    path = made().write(tmp_path / "a.h5")
    with h5py.File(path, "a") as file:
        file.attrs["isojepa"] = value
    with pytest.raises(ValueError, match=reason):
        read_episodes(path)


def test_npz_files_are_read_as_blocks_by_length_and_by_episode_number(tmp_path):
    block = np.random.default_rng(0).normal(size=(5, 7, 2))
    flat, numbers = (
        {"qpos": block.reshape(35, 2), "action": block.reshape(35, 2)},
        np.repeat([4, 0, 3, 1, 2], 7),
    )
    np.savez(tmp_path / "block.npz", qpos=block, action=block)
    np.savez(tmp_path / "flat.npz", ep_len=[7] * 5, **flat)
    np.savez_compressed(tmp_path / "numbered.npz", episode=numbers, **flat)
    for name, episode in (("block", None), ("flat", None), ("numbered", "episode")):
        found = read_episodes(tmp_path / f"{name}.npz", episode=episode)
        assert found.names == ("qpos", "action")
        assert np.array_equal(np.stack(found.values("action")), block)
    assert read_episodes(tmp_path / "block.npz", ["qpos"]).names == ("qpos",)
    with h5py.File(tmp_path / "numbered.h5", "w") as file:
        file["episode"], file["qpos"] = numbers[:, None], flat["qpos"]
    found = read_episodes(tmp_path / "numbered.h5", episode="episode")
    assert np.array_equal(np.stack(found.values("qpos")), block[..., :])


@pytest.mark.parametrize(
    ("arrays", "episode", "reason"),
    [
        ({"x": np.zeros((2, 3, 1)), "y": np.zeros((2, 4, 1))}, None, "of one number of episodes and steps"),
        ({"x": np.zeros(6)}, None, "column of episode numbers must be named"),
        ({"x": np.zeros(6)}, "number", "episode must be one of x, got 'number'"),
        ({"x": np.zeros(4), "number": np.array([0, 1, 0, 1])}, "number", "one after the other"),
        ({"x": np.zeros(4), "number": np.zeros((4, 2))}, "number", "one number for each row"),
        ({"x": np.array([None] * 4)}, None, "must hold numbers"),
    ],
)
def test_npz_files_of_other_things_are_refused(tmp_path, arrays, episode, reason):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=reason) as caught:
        read_episodes(tmp_path / "a.npz", episode=episode)
    assert str(tmp_path / "a.npz") in str(caught.value)

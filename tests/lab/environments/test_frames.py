"""The store of frames: what is there is not rendered again, what was stopped goes on, others are refused."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from isojepa_lab.environments import rendering as store
from isojepa_lab.environments.rendering import NoRendering, block_rows, release, store_folder, stored_frames

RENDERED = []  # blocks, by whoever renders in this process


@dataclass(frozen=True)
class Numbers:
    """Frames that need no simulator: frame k is full of k."""

    name: ClassVar[str] = "numbers"
    data: str = ""
    count: int = 23
    side: int = 4
    processes: int = 1
    pause: float = 0.0
    wrong: bool = False

    def scene(self):
        return {"count": self.count, "side": self.side}

    def shape(self):
        return (self.count, self.side, self.side, 3)

    def blocks(self):
        return 5

    def render_block(self, block):
        time.sleep(self.pause)
        RENDERED.append(block)
        rows = np.arange(self.count, dtype=np.uint8)[block_rows(self, block)]
        frames = rows[:, None, None, None] * np.ones(self.shape()[1:], dtype=np.uint8)
        return frames[1:] if self.wrong else frames


@pytest.fixture
def drawn(monkeypatch):
    """A machine that draws, so that nothing of it is needed here."""
    RENDERED.clear()
    monkeypatch.setattr(store, "mujoco_version", lambda: "0")
    monkeypatch.setattr(store, "backend", lambda: "egl")


def is_whole(frames):
    return frames.shape == (23, 4, 4, 3) and (frames == np.arange(23)[:, None, None, None]).all()


def test_frames_are_rendered_once_and_then_opened(drawn, tmp_path):
    frames = stored_frames(Numbers(str(tmp_path)))
    assert is_whole(frames)
    assert isinstance(frames, np.memmap)
    assert RENDERED == [0, 1, 2, 3, 4]
    assert is_whole(stored_frames(Numbers(str(tmp_path))))
    assert len(RENDERED) == 5
    other = stored_frames(Numbers(str(tmp_path), count=7))
    assert other.shape == (7, 4, 4, 3)
    assert len(list(tmp_path.iterdir())) == 2


def test_released_pages_are_read_again(drawn, tmp_path):
    frames = stored_frames(Numbers(str(tmp_path)))
    release(frames)
    assert is_whole(frames)
    release(np.zeros(3))  # in memory: nothing to give back


def test_a_killed_rendering_goes_on_with_the_blocks_that_are_missing(drawn, tmp_path):
    code = (
        "from isojepa_lab.environments import rendering as store\n"
        "store.mujoco_version = lambda: '0'; store.backend = lambda: 'egl'\n"
        "from tests.lab.environments.test_frames import Numbers\n"
        f"store.stored_frames(Numbers({str(tmp_path)!r}, pause=0.4))"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    parts = store_folder(Numbers(str(tmp_path))) / "blocks-egl-0"
    end = time.monotonic() + 60
    while len(list(parts.glob("[0-9]*.npy"))) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = sorted(int(path.stem) for path in parts.glob("[0-9]*.npy"))
    assert 2 <= len(done) < 5
    assert is_whole(stored_frames(Numbers(str(tmp_path))))
    assert [block for block in range(5) if block not in done] == RENDERED


def test_a_half_rendered_store_says_so_where_nothing_draws(drawn, tmp_path, monkeypatch):
    scene = Numbers(str(tmp_path))
    parts = store_folder(scene) / "blocks-egl-0"
    parts.mkdir(parents=True)
    store._write(scene, parts, 3)

    def nothing():
        raise NoRendering("no library")

    monkeypatch.setattr(store, "backend", nothing)
    with pytest.raises(
        NoRendering, match=r"is half rendered, 1 of 5 blocks, and cannot be continued here: no lib"
    ):
        stored_frames(scene)
    with pytest.raises(NoRendering, match=r"^no library$"):
        stored_frames(Numbers(str(tmp_path / "empty")))


def test_a_store_of_other_settings_is_refused_and_left_alone(drawn, tmp_path):
    first, second = Numbers(str(tmp_path)), Numbers(str(tmp_path), count=7)
    stored_frames(first)
    store_folder(first).rename(store_folder(second))  # somebody moved it
    before = (store_folder(second) / "frames.npy").read_bytes()
    with pytest.raises(ValueError, match=r"must hold frames of numbers with .*'count': 7.*got .*'count': 23"):
        stored_frames(second)
    assert (store_folder(second) / "frames.npy").read_bytes() == before


def test_damaged_frames_are_rendered_again(drawn, tmp_path):
    scene = Numbers(str(tmp_path))
    stored_frames(scene)
    path = store_folder(scene) / "frames.npy"
    path.write_bytes(path.read_bytes()[:-1])
    assert is_whole(stored_frames(scene))
    assert len(RENDERED) == 10
    header = json.loads((store_folder(scene) / "scene.json").read_text())
    assert header["scene"] == {"count": 23, "side": 4}


def test_a_block_of_another_shape_is_told(drawn, tmp_path):
    with pytest.raises(ValueError, match=r"a block must be uint8 \(4, 4, 4, 3\), got uint8 \(3, 4, 4, 3\)"):
        stored_frames(Numbers(str(tmp_path), wrong=True))


@pytest.mark.slow
def test_what_is_wrong_in_a_process_that_renders_is_told(drawn, tmp_path):
    with pytest.raises(OSError, match=r"a process that renders numbers failed: ValueError: a block must be"):
        stored_frames(Numbers(str(tmp_path), wrong=True, processes=2))

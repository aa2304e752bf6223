"""Clips: frames in their order, whatever they come in."""

import numpy as np
import pytest
import torch

from isojepa.data.images.cache import pillow
from isojepa.data.images.source import open_clip


def frames(count=12, size=10):
    """Each frame of one grey, brighter from frame to frame."""
    return np.repeat(np.arange(count, dtype=np.uint8) * 20, size * size * 3).reshape(count, size, size, 3)


def greys(clip):
    return [int(image.float().mean().round()) for image in clip.read(torch.arange(len(clip)))]


def test_an_array_a_folder_and_a_gif_give_the_same_frames(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pixels, library = frames(), pillow()
    np.save(tmp_path / "clip.npy", pixels)
    (tmp_path / "folder").mkdir()
    images = [library.fromarray(one) for one in pixels]
    for number, image in enumerate(images):
        image.save(tmp_path / "folder" / f"frame{number}.png")  # frame2 comes before frame10
    images[0].save(tmp_path / "clip.gif", save_all=True, append_images=images[1:])
    for name in ("clip.npy", "folder", "clip.gif"):
        assert greys(open_clip(tmp_path / name, 100)) == [20 * k for k in range(12)]
        assert greys(open_clip(tmp_path / name, 4)) == [0, 80, 140, 220]


def test_a_damaged_gif_is_told(tmp_path):
    (tmp_path / "bad.gif").write_bytes(b"GIF89a\x05")
    with pytest.raises(ValueError, match=r"clip .*bad\.gif cannot be read"):
        open_clip(tmp_path / "bad.gif")
    with pytest.raises(ValueError, match="does not exist"):
        open_clip(tmp_path / "none.gif")

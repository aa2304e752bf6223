import contextlib
import warnings
import zlib

import numpy as np
import pytest
import torch

from isojepa.data.images import BadImage, decode
from isojepa.data.images.cache import FORMATS, MOST_PIXELS
from tests.data.images.files import PIL, encoded, noise


def hwc(picture):
    return picture.movedim(0, -1).numpy()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (5, 7)])
def test_colours_of_lossless_files_are_those_that_were_written(kind, shape):
    pixels = noise(*shape)
    assert (hwc(decode(encoded(pixels, kind))) == pixels).all()


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "JPEG2000", "AVIF"])
def test_formats_that_lose_something_are_read_too(kind):
    if kind not in PIL.registered_extensions().values():
        pytest.skip(f"this Pillow has no {kind}")
    assert kind in FORMATS
    assert decode(encoded(noise(32, 48), kind)).shape == (3, 32, 48)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_and_not_clipped(kind):
    values = np.array([[0, 128, 129, 256, 1_000, 32_768, 65_534, 65_535]], dtype=np.uint16)
    wanted = np.rint(values / 65_535 * 255)
    assert decode(encoded(values, kind))[0].tolist() == wanted.tolist()


def test_integers_and_fractions_are_taken_where_their_range_is_known():
    values = np.array([[0, 1_000, 65_535]], dtype=np.int32)
    wanted = np.rint(values / 65_535 * 255).tolist()
    assert decode(encoded(values, "TIFF"))[0].tolist() == wanted
    assert decode(encoded((values / 65_535).astype(np.float32), "TIFF"))[0].tolist() == wanted


@pytest.mark.parametrize("value", [-1.0, 1.5, float("nan")])
def test_fractions_of_an_unknown_range_are_refused(value):
    with pytest.raises(BadImage, match=r"outside \[0, 1\]"):
        decode(encoded(np.full((2, 2), value, dtype=np.float32), "TIFF"))


def test_transparency_is_laid_over_white():
    pixels = noise(5, 7, channels=4)
    alpha = pixels[..., 3:].astype(float) / 255
    wanted = pixels[..., :3] * alpha + 255 * (1 - alpha)
    assert np.abs(hwc(decode(encoded(pixels))) - wanted).max() <= 1


@pytest.mark.parametrize("kind", ["TIFF", "JPEG"])
def test_cmyk_is_turned_into_the_colours_it_prints(kind):
    image = PIL.new("CMYK", (16, 16), (255, 0, 0, 0))  # cyan
    assert np.abs(hwc(decode(encoded(image, kind))) - np.array([0.0, 255, 255])).max() <= 3


@pytest.mark.parametrize(("orientation", "turns"), [(3, 2), (6, 3), (8, 1)])
def test_pictures_are_turned_upright(orientation, turns):
    pixels, notes = noise(4, 6), PIL.Exif()
    notes[0x0112] = orientation
    assert (hwc(decode(encoded(pixels, exif=notes))) == np.rot90(pixels, turns)).all()


@pytest.mark.parametrize("size", [(90, 60), (60, 90)])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_larger_pictures_are_reduced_to_the_shorter_side(kind, size):
    smooth = PIL.fromarray(noise(3, 3)).resize(size)
    found = decode(encoded(smooth, kind, **({"quality": 95} if kind == "JPEG" else {})), largest=20)
    assert min(found.shape[1:]) == 20
    assert max(found.shape[1:]) == 30
    wanted = np.asarray(smooth.resize((found.shape[2], found.shape[1]), PIL.Resampling.BOX), dtype=float)
    assert np.abs(hwc(found) - wanted).mean() < 6


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_a_file_cut_anywhere_is_refused_by_one_type_of_error(kind):
    content = encoded(noise(64, 64), kind)
    for end in np.linspace(0, len(content) * 0.9, 25).astype(int).tolist():
        with pytest.raises(BadImage):
            decode(content[:end])


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_damaged_bytes_give_a_picture_or_that_error(kind):
    content, rng = encoded(noise(24, 24), kind), np.random.default_rng(1)
    for _ in range(60):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content), 4):
            damaged[place] = rng.integers(256)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(BadImage):
                assert decode(bytes(damaged)).dtype == torch.uint8


def claimed(width, height):
    """A PNG file of a few bytes that claims to have so many pixels."""

    def chunk(kind, content):
        return (
            len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")
        )

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes((8, 0, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )


@pytest.mark.filterwarnings("ignore:Image size")
@pytest.mark.parametrize("side", [9_500, 12_000, 31_623, 1 << 20])
def test_gigapixels_are_refused_before_they_are_expanded(side):
    assert side**2 > MOST_PIXELS
    with pytest.raises(BadImage, match=f"between 1 and {MOST_PIXELS} pixels"):
        decode(claimed(side, side))


@pytest.mark.parametrize(
    "content", [b"", b"text", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"\xff\xd8"]
)
def test_what_is_no_picture_is_refused_and_no_program_is_run_for_it(content):
    with pytest.raises(BadImage):
        decode(content)

import io
import json
import tarfile

import pytest
import torch

from isojepa.data.images import ImagesWarning, open_images, splits
from tests.data.images.files import encoded, noise

CONTENT = [encoded(noise(6, 5, seed=seed)) for seed in range(6)]


def shard(path, members, mode="w"):
    with tarfile.open(path, mode) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def samples(numbers, label=lambda number: str(number % 2).encode(), kind="cls"):
    for number in numbers:
        yield f"s/{number:04}.png", CONTENT[number]
        yield f"s/{number:04}.{kind}", label(number)


def opened(tmp_path, name="", **options):
    return open_images(tmp_path / name, cache=tmp_path / "cache", **options)


@pytest.mark.parametrize(("ending", "mode"), [("tar", "w"), ("tar.gz", "w:gz"), ("tgz", "w:gz")])
def test_pictures_and_labels_are_those_of_the_samples(tmp_path, ending, mode):
    shard(tmp_path / f"a.{ending}", samples(range(6)), mode)
    pictures = opened(tmp_path, f"a.{ending}")
    assert pictures.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert pictures.names[1] == f"a.{ending}:s/0001"
    for number, picture in enumerate(pictures.read(torch.arange(6))):
        assert (picture.movedim(0, -1).numpy() == noise(6, 5, seed=number)).all()


def test_what_webdataset_writes_is_read(tmp_path):
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")
    with webdataset.TarWriter(str(tmp_path / "a.tar")) as writer:
        for number in range(6):
            sample = {"__key__": f"k{number}", "png": CONTENT[number], "cls": number % 3, "json": {"a": 1}}
            writer.write(sample)
    pictures = opened(tmp_path, "a.tar")
    assert (len(pictures), pictures.labels.tolist(), pictures.skipped) == (6, [0, 1, 2, 0, 1, 2], 0)


def test_labels_may_be_in_notes_and_be_names(tmp_path):
    def note(number):
        return json.dumps({"label": ("dog", "cat")[number % 2], "caption": "x"}).encode()

    shard(tmp_path / "a.tar", samples(range(4), note, "json"))
    pictures = opened(tmp_path, "a.tar")
    assert (pictures.classes, pictures.labels.tolist()) == (("cat", "dog"), [1, 0, 1, 0])


def test_shards_of_a_folder_follow_each_other_by_split(tmp_path):
    shard(tmp_path / "set-train-000.tar", samples([0, 1]))
    shard(tmp_path / "set-train-001.tar", samples([2, 3]))
    shard(tmp_path / "set-val-000.tar", samples([4, 5]))
    assert splits(tmp_path) == ("train", "val")
    assert len(opened(tmp_path)) == 4
    assert len(opened(tmp_path, split="validation")) == 2


def test_of_a_cut_shard_what_is_whole_is_used_and_the_rest_told(tmp_path):
    whole = shard(tmp_path / "whole.tar", samples(range(6))).read_bytes()
    with tarfile.open(tmp_path / "whole.tar") as archive:
        ends = {member.name: member.offset_data + member.size for member in archive}
        end = ends["s/0005.cls"]
    for cut in range(700, end + 511, 397):
        path = tmp_path / f"cut{cut}.tar"
        path.write_bytes(whole[:cut])
        complete = sum(ends[f"s/{number:04}.cls"] <= cut for number in range(6))
        if not complete:
            continue
        with pytest.warns(ImagesWarning, match=f"1 of {complete + 1} .*the shard is cut or damaged"):
            pictures = opened(tmp_path, path.name)
        labels = None if complete == 1 and pictures.labels is None else pictures.labels.tolist()
        assert (len(pictures), pictures.skipped) == (complete, 1)
        assert labels is None or labels == [number % 2 for number in range(complete)]


@pytest.mark.parametrize("content", [b"", b"no tar at all" * 100, bytes(10_240)])
def test_what_holds_no_sample_is_an_error(tmp_path, content):
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(ValueError, match="must hold pictures that can be read"):
        opened(tmp_path, "a.tar")


def test_links_devices_and_paths_are_neither_followed_nor_made(tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(CONTENT[5])
    path = tmp_path / "shards" / "a.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as archive:
        for kind, name in (
            (tarfile.SYMTYPE, "0.png"),
            (tarfile.LNKTYPE, "1.png"),
            (tarfile.CHRTYPE, "2.png"),
            (tarfile.FIFOTYPE, "3.png"),
            (tarfile.DIRTYPE, "4.png"),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, str(secret)
            archive.addfile(member)
        for name in ("../../outside.png", "/tmp/isojepa-absolute.png"):
            member = tarfile.TarInfo(name)
            member.size = len(CONTENT[0])
            archive.addfile(member, io.BytesIO(CONTENT[0]))
    before = sorted(tmp_path.rglob("*.png"))
    pictures = open_images(path, cache=tmp_path / "cache")
    assert (len(pictures), pictures.skipped) == (2, 0)
    assert (pictures.read(torch.arange(2)).movedim(1, -1).numpy() == noise(6, 5, seed=0)).all()
    assert sorted(tmp_path.rglob("*.png")) == before


def test_a_member_that_says_it_is_huge_is_not_believed(tmp_path):
    path = tmp_path / "a.tar"
    shard(path, samples(range(2)))
    member = tarfile.TarInfo("s/9.png")
    member.size = 1 << 40
    content = path.read_bytes()
    path.write_bytes(
        content.rstrip(b"\0").ljust(-(-len(content.rstrip(b"\0")) // 512) * 512, b"\0") + member.tobuf()
    )
    with pytest.warns(ImagesWarning, match="could not be read"):
        assert len(opened(tmp_path, "a.tar")) == 2

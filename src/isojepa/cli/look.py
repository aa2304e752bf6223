"""The command `look`: a page that shows what a model of pictures sees."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from isojepa.arguments import check_count
from isojepa.cli.models import NORMALS, check_exists, normals, open_model, trained_on
from isojepa.cli.printing import notes_told, out, print_json, progress_bar
from isojepa.config import config_from
from isojepa.files import make_folder
from isojepa.names import choose
from isojepa.registry import flatten
from isojepa.training import Record
from isojepa.worlds.images.opening import open_clip, open_pictures, splits
from isojepa.worlds.images.pictures import Part
from isojepa.worlds.images.views import shorter_side


@dataclass
class Look:
    """Write a page that shows what an image model sees.

    SOURCE is one of

    a record:  isojepa look runs/mine

    a backbone of timm:  isojepa look vit_small_patch16_224 --weights model.safetensors --data photos/;
    without --weights its random ones

    an encoder:  file.py:function, from pictures (batch, channels, size, size) to features

    DATA is a folder of pictures or a file of them, as pretraining takes them; of a record by default its own.
    Where it has a split "test", that is shown. The page is one file that needs no network.

    isojepa look runs/mine --data other-photos/ --pictures 2000

    isojepa look runs/mine --clip frames/ --out clip.html    # frames in order, an npy array or a GIF
    """

    source: tyro.conf.Positional[Path]
    """Record folder, name of timm's, or file.py:function."""
    data: Path | None = None
    """Pictures, with labels or without; of a record by default what it was trained on."""
    out: Path | None = None
    """The page; look.html in the record by default, else here."""
    clip: Path | None = None
    """Frames in their order for attention: a folder, an npy array or an animated GIF."""
    split: str | None = None
    """Part of the data; by default test where there is one."""
    pictures: int = 600
    """Pictures of the map, drawn at random; at most 4000, which takes minutes."""
    shown: int = 12
    """Pictures that are looked at one by one, each class in turn."""
    neighbors: int = 8
    """Nearest others of each of those."""
    frames: int = 16
    """Frames of the clip, evenly over its length."""
    share: float = 0.6
    """Share of the attention that masks hold."""
    weights: Path | None = None
    """For a backbone of timm: safetensors, or what torch.save wrote with tensors by name."""
    size: int | None = None
    """Side of the square that pictures are resized and cut to; by default that of a record's global views,
    else the pictures' shorter side."""
    map_size: int | None = None
    """The same for maps and attention; by default a multiple of it that gives 14 positions across or more,
    four times at most, where the backbone takes it."""
    normalize: str = "auto"
    """Mean and deviation that pictures are normalised by: those of the data, or of imagenet; auto, those that
    a record was trained with, else the data's."""
    channels: int | None = None
    """1 or 3, to which pictures are turned; by default 3 with --weights, those of a record, else as they
    are."""
    batch: int = 256
    """Pictures that the model sees at once."""
    seed: int = 0
    """Draws pictures, and random weights."""
    trust: tuple[str, ...] = ()
    """Python modules that may be imported to make a record's model: those that define classes of your own."""
    json: bool = False
    """Print numbers of what is shown as JSON."""

    def run(self) -> int:
        from isojepa.report.looking import MOST, look, write_look  # with Pillow: only for those who draw

        choose("normalize", self.normalize, NORMALS)
        check_count("pictures", self.pictures, most=MOST)
        check_exists(self.source)
        record = Record.open(self.source) if self.source.is_dir() else None
        made = {} if record is None else _settings(record.config)
        with notes_told(), progress_bar("looking") as progress:
            data, split = self._data(made)
            pictures = open_pictures(data, split=split)
            clip = None if self.clip is None else open_clip(self.clip, self.frames)
            size = self.size or made.get("global_size") or shorter_side(pictures)
            given = trained_on(self.source)
            own = pictures.channels if given is None else given.shape[0]
            channels = self.channels or (3 if self.weights is not None else own)
            model = open_model(
                self.source,
                channels=channels,
                size=size,
                weights=self.weights,
                seed=self.seed,
                quiet=self.json,
                trust=self.trust,
            )
            mean, std = normals(self.normalize, Part(pictures, channels=channels), given)
            found = look(
                model,
                pictures,
                clip=clip,
                count=self.pictures,
                shown=self.shown,
                neighbors=self.neighbors,
                size=size,
                map_size=self.map_size,
                share=self.share,
                channels=channels,
                mean=mean,
                std=std,
                batch=self.batch,
                seed=self.seed,
                progress=progress,
            )
        result = {} if record is None else record.result or {}
        path = self.out or (Path("look.html") if record is None else record.path / "look.html")
        make_folder(path.parent)
        written = write_look(
            path,
            found,
            model=str(made.get("backbone", self.source.name)),
            data=data.name + (f" ({split})" if split else ""),
            config=self._told() if record is None else record.config,
            metrics=record.metrics[-1] if record is not None and record.metrics else {},
            status=str(result.get("status", "")),
            reason=str(result.get("reason", "")),
        )
        numbers = {
            "page": str(path),
            "bytes": written,
            "pictures": len(found.names),
            "collapsed": found.collapsed,
            "same_class": None if found.agreement is None else found.agreement.share,
            "same_class_by_chance": None if found.agreement is None else found.agreement.chance,
            "maps": None if found.maps is None else list(found.maps.first.shape[1:]),
            "attention": None if found.attention is None else found.attention.covered.tolist(),
        }
        if self.json:
            print_json(numbers)
            return 0
        if found.collapsed:
            out.print(
                "All pictures have nearly the same features: this model has collapsed or was not trained."
            )
        out.print(f"Wrote {path}, {written / 1e6:.1f} MB: {len(found.names):,} pictures.", markup=False)
        for reason in filter(None, (found.no_maps, found.no_attention)):
            out.print(reason, markup=False)
        return 0

    def _data(self, made: dict[str, Any]) -> tuple[Path, str | None]:
        """Where the pictures are, and which split of them."""
        named = self.data or (Path(made["data"]) if made.get("data") else None)
        if named is None:
            raise ValueError("data must be given: pictures to look at, --data FOLDER")
        if self.split is not None:
            return named, self.split
        if "test" in splits(named):
            return named, "test"
        return named, made.get("split") if self.data is None else None

    def _told(self) -> dict[str, Any]:
        weights = "random" if self.weights is None else str(self.weights)
        return {"source": str(self.source), "weights": weights, "seed": self.seed}


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """What a record was trained on and with, by plain names; nothing of one that was made from Python."""
    if config.get("made_from") == "python":
        return {}
    known = config_from(config)
    world = flatten(known.world) if known.world.name == "images" else {}
    return {**world, **flatten(known.encoder)}

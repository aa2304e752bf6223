"""A small model of each family of backbones that LeJEPA was published with."""

from collections.abc import Callable

from isojepa.encoders import Backbone
from isojepa.importing import import_timm
from isojepa.seeds import borrowed

SIDE = 64


def levit(seed: int) -> Backbone:
    """A narrow LeViT, of which timm has no smaller one than 7 million weights."""
    cls = import_timm("models.levit").Levit
    with borrowed(seed, "levit"):
        module = cls(
            img_size=SIDE,
            in_chans=3,
            num_classes=0,
            embed_dim=(32, 48, 64),
            key_dim=8,
            num_heads=(2, 3, 4),
            depth=(1, 1, 1),
        )
    return Backbone(module, image_size=SIDE)


def named(name: str, options: str = "") -> Callable[[int], Backbone]:
    return lambda seed: Backbone(name, image_size=SIDE, options=options, seed=seed)


FAMILIES: dict[str, tuple[Callable[[int], Backbone], int, bool]] = {  # how, features, whether of any size
    "ResNet": (named("test_resnet"), 96, True),
    "ViT": (named("vit_tiny_patch16_224", "patch_size=8, embed_dim=48, depth=3, num_heads=3"), 48, True),
    "ConvNeXt": (named("test_convnext"), 64, True),
    "Swin": (
        named(
            "swin_tiny_patch4_window7_224",
            "embed_dim=16, depths=(1, 1, 1), num_heads=(1, 2, 4), window_size=4",
        ),
        64,
        True,
    ),
    "EfficientNet": (named("test_efficientnet"), 256, True),
    "LeViT": (levit, 64, False),
    "MobileNet": (named("mobilenetv3_small_050"), 1024, True),
    "MaxViT": (
        named(
            "maxvit_rmlp_pico_rw_256",
            "embed_dim=(16, 16, 32, 32), depths=(1, 1, 1, 1), stem_width=16, transformer_dim_head=8",
        ),
        32,
        False,
    ),
}

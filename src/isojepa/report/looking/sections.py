"""The sections of a look, each a piece of HTML: maps, attention, neighbors, and the map of all pictures."""

from html import escape

import numpy as np

from isojepa.report.looking.look import Look
from isojepa.report.looking.thumbnails import address
from isojepa.report.sections.lead import lead, missing, section

_SHADE = (14, 16, 20, 196)  # over what a mask leaves out
_LONGEST = 60  # letters of a name that are shown


def maps(look: Look) -> str:
    """The positions of pictures in the colors of three principal components."""
    title = "What is where"
    if look.maps is None:
        return section("maps", _head(title), missing(look.no_maps))
    height, width = look.maps.first.shape[1:]
    sentence = (
        f"Each position of {_pictures(len(look.shown))} in three colors: what has one color is alike to "
        "the model. The colors mean the same in every picture."
    )
    choices = _choice(
        "seen",
        "Show",
        (
            ("colors", "three components as colors"),
            ("first", "first component"),
            ("foreground", "foreground"),
        ),
    )
    count = len(look.shown)
    pairs = [_pair(look, k, look.large[k], _told(look, int(look.shown[k]))) for k in range(count)]
    groups = f'<div class="pairs">{"".join(pairs)}</div>'
    if len(look.frames):
        pairs = [
            _pair(look, count + k, one, f"frame {k + 1} of the clip") for k, one in enumerate(look.frames)
        ]
        groups += f'<h3>The clip</h3><div class="pairs">{"".join(pairs)}</div>'
    shares = ", ".join(rounded(share) for share in look.maps.shares)
    note = (
        f"{height} × {width} positions of pictures of {look.map_size} pixels"
        f"{_enlarged(look)}. Red, green and blue are the first three principal components of all positions "
        f"together, with {shares} of their variance; the outermost hundredth at either end of each is cut. "
        "The foreground is where the first is above its mean, on the side that the middle of pictures is on."
    )
    return section("maps", lead(title, sentence), choices, groups, f'<p class="note">{escape(note)}</p>')


def attention(look: Look) -> str:
    """Where [CLS] looks."""
    title = "Where [CLS] looks"
    attention = look.attention
    if attention is None:
        return section("attention", _head(title), missing(look.no_attention))
    heads = attention.masks.shape[1] - 1
    sentence = (
        f"Of the mean over heads, {rounded(attention.share)} of the attention lies on "
        f"{rounded(float(attention.covered[0]))} of the patches; spread evenly, it would be on "
        f"{rounded(attention.share)} of them."
    )
    names = ["mean of all heads", *(f"head {head + 1}" for head in range(heads))]
    choices = _choice("head", "Attention of", tuple((str(k), name) for k, name in enumerate(names)))
    clip = len(look.frames) > 0
    pixels = look.frames if clip else look.large
    figures = []
    for k, picture in enumerate(pixels):
        what = f"frame {k + 1}" if clip else _told(look, int(look.shown[k]))
        masks = "".join(
            f'<img class="mask" data-head="{head}" alt="" src="{address(_shade(attention.masks[k, head]))}"'
            f"{' hidden' if head else ''}>"
            for head in range(heads + 1)
        )
        image = _image(picture, f"{what}; patches that hold less of the attention are dark")
        figures.append(f'<figure><div class="over">{image}{masks}</div>{_caption(what)}</figure>')
    play = '<button id="play" type="button" aria-pressed="false">Play</button>' if clip else ""
    shares = " · ".join(
        f"{name} {rounded(float(share))}" for name, share in zip(names, attention.covered, strict=True)
    )
    note = (
        f"The last block's attention of [CLS] to the patches. Bright: the fewest patches that hold "
        f"{rounded(attention.share)} of it. Share of patches that they are: {shares}."
    )
    kind = "frames clip" if clip else "frames"
    return section(
        "attention",
        lead(title, sentence),
        f'<div class="bar">{choices}{play}</div>',
        f'<div class="{kind}">{"".join(figures)}</div>',
        f'<p class="note">{escape(note)}</p>',
    )


def neighbors(look: Look) -> str:
    """The nearest others of some pictures."""
    title = "Nearest neighbors"
    if not look.nearest.ids.shape[1]:
        return section("neighbors", _head(title), missing("One picture alone has no neighbors."))
    k = look.nearest.ids.shape[1]
    if look.agreement is not None:
        sentence = (
            f"Of the {k} nearest others of each of {_pictures(len(look.names))}, "
            f"{rounded(look.agreement.share)} are of the same class; drawn at random "
            f"{rounded(look.agreement.chance)} would be."
        )
    else:
        sentence = (
            f"For each picture on the left the {k} others of {len(look.names):,} with the largest cosine."
        )
    rows = "".join(_row(look, int(query), place) for place, query in enumerate(look.shown))
    marked = " A check mark: the class is that of the query." * (look.agreement is not None)
    note = f"Cosines of the features, {look.dim} dimensions, written below each.{marked}"
    return section("neighbors", lead(title, sentence), f'<div class="rows">{rows}</div>', _note(note))


def atlas(look: Look) -> str:
    """The map of all pictures; what is drawn comes with the page's data."""
    axes = [rounded(share) for share in look.plane.shares]
    sentence = (
        f"{_pictures(len(look.names)).capitalize()} by their features: point at one to see it large, with "
        "lines to its nearest neighbors."
    )
    choices = _choice(
        "layout", "Places by", (("neighbors", "neighbors (t-SNE)"), ("axes", "two main axes (PCA)"))
    )
    buttons = "".join(
        f'<button type="button" id="{name}" aria-label="{label}">{sign}</button>'
        for name, label, sign in (
            ("closer", "Zoom in", "+"),
            ("farther", "Zoom out", "−"),
            ("whole", "Show all", "⤢"),
        )
    )
    legend = ""
    if look.labels is not None and len(look.classes):
        legend = (
            '<div class="classes" id="classes" role="group" aria-label="Classes: press to show one"></div>'
        )
    note = (
        "Keys: arrows go from picture to picture, + and − zoom, 0 shows all, Escape lets go. Drag to move; "
        "the wheel zooms once the map was clicked. By neighbors, what is near is near in the features, "
        "mostly, but distances between groups and their sizes mean nothing. The two main axes are a plain "
        f"projection, with {axes[0]} and {axes[1]} of the variance."
    )
    words = escape(
        f"Map of {_pictures(len(look.names))}. Arrow keys go from picture to picture, plus and minus zoom."
    )
    return section(
        "map",
        lead("All pictures", sentence),
        f'<div class="bar">{choices}<div class="zoom">{buttons}</div></div>{legend}',
        f'<div class="atlas"><canvas id="atlas" tabindex="0" role="application" aria-label="{words}">'
        '</canvas><aside id="card" aria-live="polite">'
        '<canvas id="big" width="160" height="160" aria-hidden="true"></canvas>'
        '<p id="told">Point at a picture.</p><p id="near"></p></aside></div>',
        _note(note),
    )


def rounded(share: float) -> str:
    """A share in whole percent, more exactly where that would be nearly none or all of it.

    Example:
        >>> rounded(0.6183), rounded(0.004), rounded(1.0)
        ('62 %', '0.4 %', '100 %')
    """
    value = 100 * share
    near = min(value, 100 - value)
    return (
        f"{value:.0f} %"
        if near >= 0.995 or near < 1e-3
        else f"{value:.2g} %"
        if value < 1
        else f"{value:.1f} %"
    )


def _row(look: Look, query: int, place: int) -> str:
    """A query and its neighbors."""
    own_label = None if look.labels is None else int(look.labels[query])
    cells = []
    for other, cosine in zip(look.nearest.ids[query], look.nearest.cosines[query], strict=True):
        what, mark, tone = _told(look, int(other)), "", "plain"
        if own_label is not None and look.labels is not None and look.agreement is not None:
            same = int(look.labels[other]) == own_label
            mark, tone = ("✓ ", "good") if same else ("", "plain")
        image = _image(look.thumbnails[other], f"neighbor: {what}, cosine {cosine:.3f}")
        label = "" if look.labels is None else look.classes[int(look.labels[other])]
        cells.append(
            f'<li class="{tone}">{image}<span title="{escape(what)}"><b>{mark}{escape(_cut(label, 18))}</b> '
            f"<small>{cosine:.3f}</small></span></li>"
        )
    caption = _told(look, query)
    image = _image(look.large[place], f"query: {caption}")
    name = escape(_cut(caption))
    return (
        f'<div class="row"><figure class="query">{image}<figcaption title="{escape(caption)}">{name}'
        f'</figcaption></figure><ol style="--across: {len(cells)}">{"".join(cells)}</ol></div>'
    )


def _pair(look: Look, index: int, picture: np.ndarray, what: str) -> str:
    """A picture beside its map, in each of the three ways."""
    assert look.maps is not None
    first = np.repeat(look.maps.first[index][..., None], 3, -1)
    ways = {
        "colors": (_bytes(look.maps.colors[index]), "positions in the colors of three components"),
        "first": (_bytes(first), "the first component, white where it is largest"),
    }
    images = "".join(
        f'<img class="way {name}" alt="{escape(f"{what}: {words}")}" src="{address(pixels)}">'
        for name, (pixels, words) in ways.items()
    )
    shade = address(_shade(look.maps.foreground[index]))
    front = (
        f'<div class="way foreground over">{_image(picture, f"{what}: the rest than the foreground is dark")}'
        f'<img class="mask" alt="" src="{shade}"></div>'
    )
    return f'<figure><div class="pair">{_image(picture, what)}{images}{front}</div>{_caption(what)}</figure>'


def _choice(name: str, legend: str, choices: tuple[tuple[str, str], ...]) -> str:
    """Radio buttons, the first of them chosen."""
    buttons = "".join(
        f'<label><input type="radio" name="{name}" value="{value}"{" checked" * (not k)}>'
        f"<span>{escape(words)}</span></label>"
        for k, (value, words) in enumerate(choices)
    )
    return f'<fieldset class="choice"><legend>{escape(legend)}</legend>{buttons}</fieldset>'


def _image(pixels: np.ndarray, words: str) -> str:
    kind = ' class="coarse"' if len(pixels) < 100 else ""
    return f'<img{kind} alt="{escape(words)}" src="{address(pixels, photo=True)}">'


def _caption(what: str) -> str:
    return f'<figcaption title="{escape(what)}">{escape(_cut(what))}</figcaption>'


def _head(title: str) -> str:
    return f'<div class="lead"><h2>{escape(title)}</h2></div>'


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _told(look: Look, index: int) -> str:
    """A picture in words: its class and its name."""
    if look.labels is None:
        return look.names[index]
    return f"{look.classes[int(look.labels[index])]}, {look.names[index]}"


def _cut(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _pictures(count: int) -> str:
    return "1 picture" if count == 1 else f"{count:,} pictures"


def _enlarged(look: Look) -> str:
    if look.map_size == look.size:
        return ""
    return f", enlarged from the {look.size} that features are computed at"


def _bytes(values: np.ndarray) -> np.ndarray:
    bytes_of_image: np.ndarray = (255 * values).round().astype(np.uint8)
    return bytes_of_image


def _shade(mask: np.ndarray) -> np.ndarray:
    """Dark where a mask is not."""
    shade = np.zeros((*mask.shape, 4), dtype=np.uint8)
    shade[~mask] = _SHADE
    return shade

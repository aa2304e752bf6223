"""Recovered: the same points three times, the R^2, and which latents are recovered."""

import math
from html import escape

import numpy as np

from isojepa.certificates.certificate import Certificate
from isojepa.certificates.recovery import Recovery
from isojepa.report.charts import Part, grid
from isojepa.report.formulas import LINES
from isojepa.report.glance import share_tone
from isojepa.report.lines import equation, lines
from isojepa.report.nines import nines_figure
from isojepa.report.numbers import near_one, percent, with_span
from isojepa.report.panels import Panels
from isojepa.report.sections.lead import lead, missing, section

_SCALE = (
    "Maps to and from the latents are fitted on one half of the samples and measured on the other. The ticks "
    "under an R² stand at 0, 0.9, 0.99, 0.999 and so on; the tick under any other interval stands at zero. "
    "Every line opens to its equation."
)


def recovered(certificate: Certificate, shown: Panels | None) -> Part:
    """The section of recovery, with the points where there are any."""
    number_lines = [line for line in certificate.lines() if line.section in ("recovered", "spread")]
    recovery = certificate.recovery
    panels = "" if shown is None or not len(shown.colors) else _panels(shown)
    if recovery is None:
        head = lead("Recovered", "Without latents there is nothing to compare the embedding with.")
        beside = f'<div class="beside">{panels}{missing(*_HINT)}</div>'
        pieces = (head, beside, lines(number_lines))
        return Part(section("recovered", *pieces))
    r2 = recovery.r2_h_to_z
    head = lead(
        "Recovered",
        _sentence(recovery),
        key=near_one(r2.estimate),
        span=with_span(r2.estimate, r2)[1],
        of="R² from the embedding to the latents",
        tone=share_tone(r2.estimate),
    )
    per_latent = nines_figure("per-latent", "R² of each latent", "latent", "R²", recovery.r2_per_latent)
    title = "R² of each embedding dimension"
    per_dimension = nines_figure("per-dimension", title, "dimension", "R²", recovery.r2_per_embedding)
    charts = [*per_latent.charts, *per_dimension.charts]
    return Part(
        section(
            "recovered",
            head,
            equation(LINES["R2 h -> z"]),
            panels,
            grid(charts, per_latent.html, per_dimension.html),
            lines(number_lines),
            f'<p class="note">{_SCALE}</p>',
        ),
        charts,
    )


_HINT = (
    "There are no latents.",
    "If they are known of some samples, certify those with them.",
    "certify(h, latents=z)",
    "isojepa certify h.npy --latents z.npy",
)


def _sentence(recovery: Recovery) -> str:
    if recovery.r2_h_to_z.estimate < 0:
        return "A linear map of the embedding predicts latents it has not seen worse than their mean does."
    share = percent(recovery.r2_h_to_z.estimate)
    text = f"A linear map reads {share} of the latents’ variance off the embedding"
    if recovery.r2_orthogonal is not None and recovery.r2_orthogonal.estimate < 0:
        return text + "; a rotation alone predicts them worse than their mean does."
    if recovery.r2_orthogonal is not None:
        return text + f"; a rotation alone reads {percent(recovery.r2_orthogonal.estimate)}."
    counts = (
        f"{len(recovery.r2_per_latent)} latents and {len(recovery.r2_per_embedding)} embedding dimensions"
    )
    return text + f". There is no rotation between {counts}."


def _panels(shown: Panels) -> str:
    return (
        f'<div><div class="panels">{figures(shown)}</div>'
        f'<div class="under">{_toggle(shown)}<output id="readout"></output></div>'
        f'<p class="note">{escape(_note(shown))}</p></div>'
    )


def figures(shown: Panels) -> str:
    """A canvas for each panel, which `panels.js` draws on."""
    figures = []
    for panel in shown.panels:
        caption = escape(panel.caption)
        if panel.symbol == "h" and shown.rotation is not None:
            hidden = "" if shown.prefer_turned else " hidden"
            caption += f' <span id="when-turned"{hidden}>after the best rotation</span>'
        figures.append(
            f"<figure><h3>{escape(panel.name)} <i>{escape(panel.symbol)}</i></h3>"
            f'<canvas role="img" aria-label="{escape(panel.name)} as colored points"></canvas>'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    return "\n".join(figures)


def _toggle(shown: Panels) -> str:
    if shown.rotation is None:
        return ""
    state = str(shown.prefer_turned).lower()
    return (
        f'<button id="turn" type="button" role="switch" aria-checked="{state}">'
        "<span></span>Turn the embedding onto the latents</button>"
    )


def _note(shown: Panels) -> str:
    count = len(shown.colors)
    source = "latents" if shown.panels[0].symbol == "z" else "embedding"
    note = f"{count:,} points, colored by the angle and radius of the {source}."
    if shown.left_out:
        note += f" {shown.left_out:,} samples with NaN or Inf are not shown."
    if shown.outside:
        lie = "lies" if shown.outside == 1 else "lie"
        note += f" {shown.outside:,} {lie} outside the squares, far from the others."
    if len(shown.panels) > 1:
        note += " Point at one to see it, and its neighborhood, in every panel."
    if shown.rotation is not None:
        held = ", fitted on other samples than these" if shown.held_out else ""
        note += f" The best rotation is {_describe(shown.rotation.matrix)}{held}."
    return note


def _describe(matrix: np.ndarray) -> str:
    """A rotation in words; counterclockwise counts as positive."""
    reflects = np.linalg.det(matrix) < 0
    if len(matrix) == 1:
        return "a change of sign" if reflects else "the identity"
    if len(matrix) > 2:
        return f"one of {len(matrix)} dimensions, found by orthogonal Procrustes"
    if reflects:
        return "a turn with a reflection"
    degrees = math.degrees(math.atan2(matrix[0, 1], matrix[0, 0]))
    return f"a turn by {degrees:.0f}°".replace("-", "−")

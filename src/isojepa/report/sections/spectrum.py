"""Spectrum: energy per degree of nonlinearity, with latents and without, and the decay that shows it."""

import math
from html import escape

from isojepa.certificates.certificate import Certificate
from isojepa.certificates.decay import DecaySpectrum
from isojepa.certificates.spectrum import Spectrum
from isojepa.report.charts import Chart, Part, Series, grid, with_intervals
from isojepa.report.formulas import LINES
from isojepa.report.glance import share_tone
from isojepa.report.lines import equation, lines, sentence_of
from isojepa.report.nines import nines_figure
from isojepa.report.numbers import percent, percent_span
from isojepa.report.sections.lead import lead, missing, notes, section
from isojepa.statistics.intervals import Interval

_HINT = (
    "Pass embeddings along trajectories, (steps, paths, dim): they need no labels. Or pass Gaussian latents.",
    "certify(paths)",
    "isojepa certify paths.npy",
)
_HINT_LABELLED = ("Embeddings along trajectories, (steps, paths, dim), need no labels.", *_HINT[1:])
_METHODS = {
    "quadrature": "with the latents, by quadrature",
    "regression": "with the latents, by regression",
}


def spectrum(certificate: Certificate) -> Part:
    """The section of the spectrum, or why there is none."""
    labelled, lags = certificate.spectrum, certificate.lags
    if labelled is None and lags is None:
        reason = sentence_of(f"No spectrum: {certificate.spectrum_missing or 'it was not asked for'}")
        head = lead("Spectrum", "How nonlinear the embedding is, degree by degree, is not known here.")
        hint = _HINT if certificate.recovery is None else _HINT_LABELLED
        return Part(section("spectrum", head, missing(reason, *hint), _equations(None, None)))
    parts = Part("") if labelled is None else _per_dimension(labelled)
    charts = list(parts.charts)
    refusal = "" if lags is None or lags.identifiable else _refusal(lags)
    if lags is not None:
        charts = _decay(lags) + charts
    number_lines = [line for line in certificate.lines() if line.section == "spectrum"]
    notices = [*_mind(certificate), *(labelled.notices if labelled else ()), *(lags.notices if lags else ())]
    pieces = (_head(labelled, lags), _equations(labelled, lags), _degrees(labelled, lags), refusal)
    return Part(
        section("spectrum", *pieces, grid(charts, parts.html), notes(notices), lines(number_lines)), charts
    )


def _mind(certificate: Certificate) -> list[str]:
    """What to know of shares that come from the decay alone, in a world without degrees."""
    if certificate.spectrum is not None or certificate.spectrum_missing is None:
        return []
    return [sentence_of(f"Mind that {certificate.spectrum_missing}")]


def _head(labelled: Spectrum | None, lags: DecaySpectrum | None) -> str:
    usable = lags if lags is not None and lags.identifiable else None
    source: Interval
    if labelled is not None and not math.isnan(labelled.linear.estimate):
        source, of, sentence = labelled.linear, "linear in the latents", labelled.sentence
        if usable is not None:
            sentence = f"{sentence} Without any label, its decay says {percent(usable.linear.estimate)}."
    elif usable is not None:
        source, of, sentence = usable.linear, "linear, found without labels", usable.sentence
    else:
        why = " from its decay" if labelled is None else ": it does not vary"
        return lead("Spectrum", f"How linear the embedding is cannot be told{why}.")
    key, ends = percent_span(source)
    return lead(
        "Spectrum",
        sentence,
        key=key,
        span=ends,
        of=of,
        tone=share_tone(source.estimate),
    )


def _equations(labelled: Spectrum | None, lags: DecaySpectrum | None) -> str:
    equations = ""
    if labelled is not None or lags is None:
        equations += equation(LINES["linear share"], "Equation, with latents")
    if lags is not None or labelled is None:
        equations += equation(LINES["linear share, no labels"], "Equation, without labels")
    return f'<div class="equations">{equations}</div>'


def _degrees(labelled: Spectrum | None, lags: DecaySpectrum | None) -> str:
    """A row of bars for every degree: one with latents, one without."""
    sources: list[tuple[str, int, dict[str, Interval]]] = []
    if labelled is not None:
        above = {f"above {labelled.degree}": labelled.above}
        shares = _named(labelled.shares) | above
        sources.append((_METHODS.get(labelled.method, labelled.method), 1, shares))
    if lags is not None and lags.identifiable:
        above = {f"above {lags.degree}": lags.above, "noise": lags.noise}
        sources.append(("without labels, from the decay", 2, _named(lags.shares) | above))
    if not sources:
        return ""
    names = list(dict.fromkeys(name for *_, shares in sources for name in shares))
    names.sort(key=_order)
    rows = ""
    for name in names:
        bars = "".join(share_bar(color, shares.get(name)) for _, color, shares in sources)
        rows += f'<div class="degree"><span>{escape(name)}</span><div>{bars}</div></div>'
    keys = "".join(f'<span style="--color:var(--line-{k})">{escape(name)}</span>' for name, k, _ in sources)
    return (
        '<figure class="degrees"><h3>Share of the variance at each degree '
        "<small>degree 1 is linear</small></h3>"
        f'<div class="legend">{keys}</div>{rows}</figure>'
    )


def _named(shares: tuple[Interval, ...]) -> dict[str, Interval]:
    return {f"degree {d}": share for d, share in enumerate(shares, 1)}


def _order(name: str) -> tuple[int, int]:
    kinds = {"degree": 0, "above": 1, "noise": 2}
    kind, _, degree = name.partition(" ")
    return kinds[kind], int(degree or 0)


def share_bar(color: int, share: Interval | None) -> str:
    """One bar from 0 to 100 %, with its interval; raw shares below 0 are printed, and drawn as 0."""
    if share is None:
        return ""
    low, middle, high = (
        0.0 if math.isnan(end) else 100 * min(max(end, 0.0), 1.0)
        for end in (share.low, share.estimate, share.high)
    )
    value, ends = percent_span(share)
    text = f"<b>{escape(value)}</b> <small>{escape(ends)}</small>"
    return (
        f'<div class="share" style="--color:var(--line-{color})"><div class="track">'
        f'<div style="width:{middle:.4g}%"></div>'
        f'<s style="left:{low:.4g}%;width:{high - low:.4g}%"></s></div>'
        f"<span>{text}</span></div>"
    )


def _decay(lags: DecaySpectrum) -> list[Chart]:
    """The autocorrelation, what was fitted to it, and what a linear encoder would have."""
    x = [0, *lags.lags]
    whole = Interval(1.0, 1.0, 1.0)
    series = []
    if lags.identifiable:
        linear = [math.exp(-lags.rate.estimate * lag) for lag in x]
        series.append(Series("a linear encoder", linear, dashed=True, color=6))
    noise = lags.noise.estimate
    series.append(Series("fitted mixture of degrees", [1 - noise, *lags.fitted], color=2))
    series.append(with_intervals("measured", [whole, *lags.curve], color=1))
    note = "of the embedding with itself, some steps later"
    charts = [Chart("decay", "Correlation along the paths", note, x, "steps apart", series)]
    if len(lags.rates) > 1:
        charts.append(
            Chart(
                "rates",
                "Rate of each direction",
                "slowest first, per step; one rate for all is what the fit assumes",
                list(range(len(lags.rates))),
                "direction",
                [with_intervals("rate", lags.rates)],
                labels=[f"direction {k}" for k in range(len(lags.rates))],
                zero=True,
            )
        )
    return charts


def _per_dimension(labelled: Spectrum) -> Part:
    title = "Linear share of each embedding dimension"
    return nines_figure("linear-shares", title, "dimension", "linear share", labelled.linear_per_dimension)


def _refusal(lags: DecaySpectrum) -> str:
    items = "".join(f"<li>{escape(reason)}</li>" for reason in lags.reasons)
    return (
        '<div class="missing"><p>The decay along the paths does not separate the degrees, because</p>'
        f"<ul>{items}</ul></div>"
    )

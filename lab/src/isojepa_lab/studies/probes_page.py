"""The page of the study of probes: its rows as tables, and what they say."""

from collections.abc import Mapping, Sequence
from typing import Any

from isojepa_lab.studies.probes_linear import ANISO, ISO, TASKS
from isojepa_lab.studies.probes_neighbors import LAWS
from isojepa_lab.studies.results import markdown_table

Row = dict[str, Any]

LINEAR = """\
# Probes on isotropic and anisotropic embeddings

Made by `python -m isojepa_lab.studies.probes`; numbers, settings and versions are in `probes.json`. Values
are means over {seeds} seeds ± one standard error, theory is in [brackets]. All embeddings have variance one
per dimension on average.

![Boundaries, estimates and biases on isotropic and anisotropic embeddings](probes.png)

## Lemma 1: bias of ridge regression

Norm of the bias of a unit parameter in {dim} dimensions; eigenvalues geometric, largest over smallest
{condition:g}. Worst and best task: the parameter lies along the smallest and the largest eigenvector. Random:
root mean square over directions.

{ridge}

The lemma holds, and more: the square of w/(λ+w) is convex in λ, so random tasks have more bias on the
anisotropic embedding too, in the mean square. Not every task has: for the best one anisotropy lowers it.

The bias of the parameter is not that of the prediction. For random parameters of one length, the bias of the
prediction (root mean square) is higher on the anisotropic embedding at small weights and lower at large ones.
For random labels of one length it has the same formula as the parameter's, and is always higher.

{harmed}

## Figure 18: direction and accuracy under ridge

Cosine between estimate and truth in a regression with noise 0.5, and accuracy of ridge fitted to the signs
of noiseless labels, for random parameters in {dim} dimensions. Brackets: infinitely many samples.

{direction}

The anisotropic embedding turns the estimate more, the more the larger the weight, and samples do not mend
it. The isotropic cosine is exactly one only with infinitely many samples: with few, noise lowers it. At the
smallest weights, where noise matters more than bias, the anisotropic accuracy is not lower.

## Lemma 2 and Figures 3 and 17: variance

Total variance over fresh training sets of {first} samples. Noise variance 1 in {dim} dimensions, 0.25 in the
two-dimensional regression, none in the other tasks; eigenvalue ratio {condition_2d:g} in two dimensions. The
boundary's spread is the standard deviation of its angle, averaged over {tasks} directions of the parameter.

{variance}

The anisotropic OLS parameters vary more in all three tasks, as Lemma 2 and the paper's text say. The caption
of Figure 17 says the opposite; we do not find it.

This is about coordinates. The variance of the OLS *predictions* is the same for both embeddings, because OLS
does not see an invertible linear map; nor does the (almost) unregularized logistic probe, which errs as often
on both when they carry the same labels. Anisotropy costs predictions only with a regularizer, or when tasks
are drawn as parameters in the embedding's own space.

## Theorem 1: bias of radius k-NN and kernel probes

"""

NONLINEAR = """\
Integrated squared bias in two dimensions; targets of variance one that vary over length {length:g},
{samples} samples, no label noise. The kernel has width h, with the limit of infinitely many samples in
[brackets], by quadrature; the ball has radius 2h. Leading order is the formula of Lemmas 4 and 5, the same
for both probes; J is the Fisher information.

{bias}

The law of least bias, by width, and the share of queries with an empty ball (the nearest sample answers):

{best}

{verdict}

Theorem 8 adds that the integrated variance does not depend on the law. Its leading order is the integral of a
constant over the support, which for the Gaussian is infinite. Measured with the kernel, for label noise of
variance one:

{noise}
"""


VERDICT = """\
As the theorem says, with infinitely many samples and a small width the laws of finite J are in the order of
J, and the isotropic Gaussian has the least bias. At larger widths the bias stays below the leading order,
most so for the laws of large J, and the claim fails. With infinitely many samples:

{laws}

The density of the uniform law jumps, so it is outside the theorem; its bias is of order h³. Finitely many
samples do not show the limit either: at small widths no sample is near a query in the tails, and laws with
light or no tails do better there."""


def page(rows: Sequence[Row], settings: Mapping[str, Any]) -> str:
    """The study as Markdown."""
    weights = [f"{w:g}" for w in settings["weights"]]
    first = settings["samples"][0]

    def pair(part: str, quantity: str, setting: str, form: str = ".3g") -> list[str]:
        return [_cell(pick(rows, part, quantity, law, setting), form) for law in (ISO, ANISO)]

    ridge = markdown_table(
        ["weight", *(f"{task}, {law}" for task in ("worst", "random", "best") for law in ("iso", "aniso"))],
        [
            [
                w,
                *(
                    cell
                    for task in ("worst task", "random tasks", "best task")
                    for cell in pair("ridge", task, w)
                ),
            ]
            for w in weights
        ],
    )
    harmed = markdown_table(
        ["weight", "random tasks with more bias", "prediction bias, iso", "prediction bias, aniso"],
        [
            [
                w,
                f"{pick(rows, 'ridge', 'share of tasks harmed', ANISO, w)['value']:.0%}",
                *pair("ridge", "prediction", w),
            ]
            for w in weights
        ],
    )
    direction = markdown_table(
        ["samples", "weight", "cosine, iso", "cosine, aniso", "accuracy, iso", "accuracy, aniso"],
        [
            [
                n,
                w,
                *pair("direction", "cosine", f"{w}, n {n}", ".3f"),
                *pair("direction", "accuracy", f"{w}, n {n}", ".3f"),
            ]
            for n in settings["samples"]
            for w in weights
        ],
    )
    variance = [
        [f"OLS {what}, {settings['dim']} dimensions", *pair("variance", what, f"n {first}")]
        for what in ("parameters", "predictions")
    ]
    variance += [[f"OLS parameters, {task}", *pair("spread", "variance", task)] for task in TASKS]
    variance += [
        [f"logistic probe: {what}, {kind}", *pair("spread", quantity, kind)]
        for quantity, what in (
            ("boundary angle", "boundary, degrees"),
            ("wrong side", "points on the wrong side"),
        )
        for kind in ("same parameter", "same labels")
    ]
    text = LINEAR.format(
        **settings,
        first=first,
        ridge=ridge,
        harmed=harmed,
        direction=direction,
        variance=markdown_table(["what varies", "isotropic", "anisotropic"], variance),
    )
    return text + _nonlinear(rows, settings)


def pick(rows: Sequence[Row], part: str, quantity: str, law: str, setting: str) -> Row:
    """The one row with these names."""
    names = (part, quantity, law, setting)
    matches = [row for row in rows if (row["part"], row["quantity"], row["law"], row["setting"]) == names]
    if len(matches) != 1:
        raise ValueError(f"rows must hold {names} once, got {len(matches)} of them")
    return matches[0]


def _cell(row: Row, form: str = ".3g") -> str:
    theory = "" if row["theory"] is None else f" [{row['theory']:{form}}]"
    return f"{row['value']:{form}} ± {row['error']:.1g}{theory}"


def _nonlinear(rows: Sequence[Row], settings: Mapping[str, Any]) -> str:
    widths = [f"{width:g}" for width in settings["widths"]]

    def bias(probe: str, law: str, width: str) -> Row:
        return pick(rows, f"neighbors, {probe}", "bias", law, width)

    def least(probe: str, width: str, field: str) -> str:
        return min(LAWS, key=lambda law: float(bias(probe, law, width)[field]))

    table = [
        [
            law,
            f"{LAWS[law].fisher:.3g}",
            w,
            _cell(bias("kernel", law, w)),
            _cell(bias("ball", law, w)),
            f"{bias('kernel', law, w)['leading_order']:.3g}",
        ]
        for law in LAWS
        for w in widths
    ]
    best = [
        [
            w,
            least("kernel", w, "theory"),
            least("kernel", w, "value"),
            least("ball", w, "value"),
            f"{pick(rows, 'neighbors, ball', 'empty', 'Gaussian', w)['value']:.1%}",
        ]
        for w in widths
    ]
    noise = [
        [w, *(f"{pick(rows, 'neighbors, kernel', 'noise', law, w)['value']:.2g}" for law in LAWS)]
        for w in widths
    ]
    return NONLINEAR.format(
        **settings["sizes"],
        bias=markdown_table(["law", "J", "h", "kernel", "ball", "leading order"], table),
        best=markdown_table(["h", "kernel, n infinite", "kernel", "ball", "empty, Gaussian"], best),
        noise=markdown_table(["h", *LAWS], noise),
        verdict=_verdict(rows, widths),
    )


def _verdict(rows: Sequence[Row], widths: Sequence[str]) -> str:
    """Which laws have less bias than the isotropic Gaussian, and at which widths."""
    lines = []
    for law in LAWS:
        better = [
            w
            for w in widths
            if pick(rows, "neighbors, kernel", "bias", law, w)["theory"]
            < pick(rows, "neighbors, kernel", "bias", "Gaussian", w)["theory"]
        ]
        if better:
            lines.append(f"- {law}: less bias than the isotropic Gaussian at h = {', '.join(better)}.")
    return VERDICT.format(laws="\n".join(lines or ["- no law has less bias than the isotropic Gaussian."]))

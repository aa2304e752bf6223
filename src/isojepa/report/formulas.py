"""The equation behind every number of the page.

`LINES` has the names of a certificate's lines, `ASSUMPTIONS` those of its assumptions. A name that is not
there has no equation in the page.
"""

from isojepa.report.equations import (
    Equation,
    both,
    formula,
    frobenius,
    hat,
    index,
    norm,
    power,
    ratio,
    root,
    row,
    total,
    under,
)

_HALVES = "The map is fitted on one half of the samples, and R² is measured on the other."
_THEOREM = formula(under("min", "Q"), "E", norm("h − Q z"), "≤ D +", power(row("( ε + D )"), "2"))
_DELTA = formula("δ = E", norm("h′ − h"), "− 2 ( 1 − ρ ) tr Cov ( h )")
_EPSILON = formula("ε =", frobenius("Cov ( h ) − I"))
_D = formula("D =", ratio("δ", "2 ρ ( 1 − ρ )"))
_CURVE = formula("r ( k ) =", total("d ≥ 1"), index("s", "d"), power("e", "− K d k"))
_PARTS = formula("h =", total("d"), index("h", "d"), "( z )")
_ENERGY = formula(index("w", "d"), "= E", norm(index("h", "d")))


def _r2(letter: str) -> str:
    """R^2 of a prediction, as a mean over dimensions."""
    part, guess = index(letter, "i"), index(hat(letter), "i")
    missed = row("E", power(row("(", part, "−", guess, ")"), "2"))
    return formula(
        power("R", "2"), "=", under("mean", "i"), row("(", "1 −", ratio(missed, row("Var", part)), ")")
    )


def _prediction(letter: str, *rest: str) -> str:
    return formula(hat(letter), "=", *rest)


def _mcc(letter: str) -> str:
    """Mean correlation of latents with the axes that they are matched with."""
    own_index = index(hat(letter), "π ( i )")
    return formula(under("mean", "i"), "| corr (", index(letter, "i"), ",", own_index, ") |")


_MATCHED = "Partners are those of the largest sum of rank correlations."

LINES = {
    "R2 h -> z": Equation((_r2("z"), _prediction("z", "A h + b")), f"A is any matrix. {_HALVES}"),
    "R2 z -> h": Equation((_r2("h"), _prediction("h", "A z + b")), f"A is any matrix. {_HALVES}"),
    "R2 of the worst latent": Equation(
        (formula(under("min", "i"), both("R", "i", "2")),), "The smallest R² of a single latent, from h to z."
    ),
    "R2 by rotation": Equation(
        (_r2("z"), _prediction("z", "Q h + b ,"), formula(power("Q", "⊤"), "Q = I")),
        f"Q only turns, or reflects: it neither stretches nor mixes. {_HALVES}",
    ),
    "R2 predicted": Equation(
        (
            formula(
                under("mean", "i"),
                "corr",
                power(row("(", index("z", "i"), ",", index("φ", "1"), "(", index("z", "i"), ") )"), "2"),
            ),
            formula(ratio("1", "p"), "( p φ′ )′ = − λ φ"),
        ),
        "The best white embedding takes the slowest functions of the latents, the first eigenfunction φ of "
        "each latent’s diffusion, p being its density. Only for Gaussian latents is that the latent itself. "
        "Of latents of very different rates it takes higher functions of the slow ones instead.",
    ),
    "gap to a rotation": Equation(
        (formula(both("R", "linear", "2"), "−", both("R", "rotation", "2")),), "Both from h to z."
    ),
    "orthogonality error": Equation(
        (formula(ratio(frobenius(row(power("Q", "⊤"), "Q − I")), root("n"))), formula("h ≈ Q z + b")),
        "Q is the fitted linear map of n latents. It is 0 for a rotation, and 3 if everything is doubled.",
    ),
    "Procrustes error": Equation(
        (formula(under("min", row(power("Q", "⊤"), "Q = I")), "E", norm("h − Q z")),),
        "h and z are centered. This is the left side of Theorem 3.",
    ),
    "bound D + (eps + D)^2": Equation(
        (_THEOREM, _EPSILON, _DELTA, _D),
        "Theorem 3 of Klindt, LeCun and Balestriero (2026), for Gaussian latents whose pairs have "
        "correlation ρ. ε is how far the embedding is from white, δ the alignment loss that no linear "
        "encoder has, and at most D of the embedding’s variance is nonlinear. It needs no latents.",
    ),
    "sharper bound": Equation(
        (
            formula("D +", power(row("( 1 −", root("1 − s"), ")"), "2")),
            formula("s = ε + D ≤ 1"),
        ),
        "All of s may sit in one singular value of the embedding’s linear part, which is then the root of "
        "1 − s: some maps attain it. Where s is above 1, it is the published bound.",
    ),
    "eps, debiased": Equation(
        (
            formula(
                power("ε", "2"),
                "=",
                under("mean", "a ≠ b"),
                "⟨",
                index("S", "a"),
                "− I ,",
                index("S", "b"),
                "− I ⟩",
            ),
        ),
        "The samples are cut into blocks with covariances S: chance does not repeat itself in another block.",
    ),
    "eps, plain": Equation((_EPSILON,), "Cov is that of the sample, and its noise is counted too."),
    "delta, raw": Equation((_DELTA,), "A linear encoder has δ = 0, every other one more."),
    "D, raw": Equation((_D, _DELTA), "The energy of the embedding above degree 1 is at most this."),
    "correlation of views": Equation(
        (formula(ratio(row("2 tr Cov ( h , h′ )"), row("tr Cov ( h ) + tr Cov ( h′ )"))),),
        "Over all dimensions together. In a Gaussian world it is ρ for a linear encoder, less for others.",
    ),
    "rho": Equation(
        (formula("ρ = corr (", index("z", "i"), ",", index("z′", "i"), ")"),),
        "One number for all latents. D grows with ρ, so a ρ that is too small promises too much.",
    ),
    "maximal correlation": Equation(
        (formula(under("max", "f"), "corr ( f ( h ) , f ( h′ ) )"),),
        "Over functions f of the embedding: itself, and cosines of it, fitted on some pairs and scored on "
        "others. Every function of h is one of the latents, so in a Gaussian world none reaches more than ρ.",
    ),
    "promise ends at rho": Equation(
        (_THEOREM, _D),
        "The bound grows with ρ. Up to this ρ its upper end is within what a certificate promises.",
    ),
    "linear share": Equation(
        (_PARTS, _ENERGY, formula(ratio(index("w", "1"), row(total("d ≥ 1"), index("w", "d"))))),
        "The parts of h are sums of Hermite polynomials of degree d of the Gaussian latents, which do not "
        "correlate with each other.",
    ),
    "linear share, no labels": Equation(
        (_CURVE,),
        "r is the autocorrelation of the embedding k steps apart. A part of degree d of latents that decay "
        "at rate K decays d times as fast, so the bend of the curve gives the shares; s₁ is the linear one.",
    ),
    "rate": Equation(
        (formula("K = − log ρ"),),
        "ρ is the correlation of the latents after one step, found with the shares.",
    ),
    "smallest variance": Equation(
        (formula(index("λ", "min"), "( Cov ( h ) )"),),
        "The smallest eigenvalue of the embedding's covariance.",
    ),
    "identified components": Equation(
        (formula("h = Q φ ( z )"), formula(index("ψ", "i j"), "= 0 =", index("C", "i j"))),
        "Q is estimated from what identifies latents: ψ, from the scores of the axes’ laws, and C, their "
        "covariance with the next view, are 0 between two axes that are latents of their own. On other rows "
        "each must be told from all others beyond chance.",
    ),
    "agreement": Equation(
        (
            formula("corr", power(row("(", index("z", "a"), ",", index("z", "b"), ")"), "2")),
            formula("dz =", ratio("dy", root("D ( y )"))),
        ),
        "D is the diffusion of the axis y: once from the increments of pairs, once from the law of y, as if "
        "it were the slowest eigenfunction of its diffusion.",
    ),
    "MCC by rank": Equation(
        (_mcc("r"),), "r are the ranks of latents and of their axes, matched one to one."
    ),
    "MCC, as found": Equation((_mcc("z"),), f"The same of the values as they were found. {_MATCHED}"),
    "MCC, linearized": Equation((_mcc("z"),), f"The same of the linearized values. {_MATCHED}"),
    "R2 as found": Equation(
        (_r2("z"), _prediction("z", "A y + b")), f"y are the components as found. {_HALVES}"
    ),
    "R2 linearized": Equation((_r2("z"), _prediction("z", "A y + b")), f"y are linearized. {_HALVES}"),
    "disentanglement": Equation(
        (formula(under("mean", "i"), "( 1 − H (", index("R", "i ·"), ") )"),),
        "R are the sizes of the coefficients of the latents on the axes, H the entropy of an axis’s shares "
        "over latents in units of the largest; axes count by their use (Eastwood & Williams 2018).",
    ),
    "completeness": Equation(
        (formula(under("mean", "j"), "( 1 − H (", index("R", "· j"), ") )"),),
        "The same with the shares of a latent over the axes.",
    ),
}

ASSUMPTIONS = {
    "stationarity": Equation(
        (
            formula(root("4 d H")),
            formula(
                "H = 1 −",
                ratio(row("E | x −", hat("x", "~"), "| + E | y −", hat("y", "~"), "|"), "2 E | x − y |"),
            ),
        ),
        "x is the first view and y the second, in d dimensions of one deviation, with copies x̃ and ỹ: their "
        "energy distance H, as the shift of the mean that is as large.",
    ),
    "Gaussianity": Equation(
        (formula("1 − corr", power(row("( x , q )"), "2")),),
        "q are the normal quantiles at the ranks of x, the least Gaussian direction. What normal samples "
        "show by chance is taken off.",
    ),
    "independence": Equation(
        (formula(under("max", "i < j"), "dCor (", index("u", "i"), ",", index("u", "j"), ")"),),
        "The distance correlation of the ranks u of two dimensions: 0 where they are independent.",
    ),
    "additive noise": Equation(
        (
            formula("z′ = m ( z ) + η"),
            formula(ratio(row(under("max", "z"), "Var ( η | z )"), row(under("min", "z"), "Var ( η | z )"))),
        ),
        "m is fitted on one part of the pairs, and the noise η measured on the other.",
    ),
    "joint Gaussianity": Equation(
        (
            formula("h′ = B h + e"),
            formula(root(row(total("p , q"), power("corr", "2"), "( p ( h ) , q ( e ) )"))),
        ),
        "e is what is left of the next view after the best linear map of the first; p and q are Hermite "
        "polynomials of the two dimensions that look worst. Pairs of a rotation of Gaussian latents have 0.",
    ),
    "isotropy": Equation(
        (
            formula(
                ratio(row(under("max", "i"), index("K", "i")), row(under("min", "i"), index("K", "i"))), "< 2"
            ),
            formula(index("K", "i"), "= − log", index("ρ", "i")),
        ),
        "ρ is the correlation of both views along a direction. Directions are found on one half of the pairs "
        "and measured on the other.",
    ),
    "dimension": Equation(
        (
            formula(
                under("max", "t"),
                row(
                    "(", "1 −", ratio(row("E", norm("t − f ( others )")), row("E", norm("t − A others"))), ")"
                ),
            ),
        ),
        "f is a fitted regression of a direction t on the other dimensions, A a linear one; both held out.",
    ),
}

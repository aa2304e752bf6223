"""Tests of Gaussianity: differentiable statistics with p-values, for one dimension and for many."""

from collections.abc import Callable
from functools import partial

from isojepa.objectives.gaussianity.epps_pulley import EppsPulley, EppsPulleyExact
from isojepa.objectives.gaussianity.multivariate import (
    BHEP,
    CFMGF,
    HenzeVisagie,
    HenzeZirkler,
    MardiaKurtosis,
    MardiaSkewness,
    MomentGenerating,
    SimplifiedCFMGF,
)
from isojepa.objectives.gaussianity.sliced import Sliced
from isojepa.objectives.gaussianity.statistic import AxisWarning, Multivariate, Statistic
from isojepa.objectives.gaussianity.univariate import (
    AndersonDarling,
    CramerVonMises,
    Entropy,
    ExtendedJarqueBera,
    JarqueBera,
    Likelihood,
    MeanVariance,
    Moments,
    OrderLikelihood,
    ShapiroWilk,
    Watson,
)

UNIVARIATE: dict[str, Callable[..., Statistic]] = {
    "epps-pulley": EppsPulley,
    "epps-pulley-exact": EppsPulleyExact,
    "cramer-von-mises": CramerVonMises,
    "anderson-darling": AndersonDarling,
    "watson": Watson,
    "jarque-bera": JarqueBera,
    "extended-jarque-bera": ExtendedJarqueBera,
    "shapiro-francia": partial(ShapiroWilk, weights="shapiro-francia"),
    "rahman-govindarajulu": partial(ShapiroWilk, weights="rahman-govindarajulu"),
    "moments": Moments,
    "mean-variance": MeanVariance,
    "entropy": Entropy,
    "likelihood": Likelihood,
    "order-likelihood": OrderLikelihood,
}

MULTIVARIATE: dict[str, Callable[..., Multivariate]] = {
    "bhep": BHEP,
    "henze-zirkler": HenzeZirkler,
    "moment-generating": MomentGenerating,
    "cf-mgf": CFMGF,
    "simplified-cf-mgf": SimplifiedCFMGF,
    "henze-visagie": HenzeVisagie,
    "mardia-skewness": MardiaSkewness,
    "mardia-kurtosis": MardiaKurtosis,
}

__all__ = [
    "BHEP",
    "CFMGF",
    "MULTIVARIATE",
    "UNIVARIATE",
    "AndersonDarling",
    "AxisWarning",
    "CramerVonMises",
    "Entropy",
    "EppsPulley",
    "EppsPulleyExact",
    "ExtendedJarqueBera",
    "HenzeVisagie",
    "HenzeZirkler",
    "JarqueBera",
    "Likelihood",
    "MardiaKurtosis",
    "MardiaSkewness",
    "MeanVariance",
    "MomentGenerating",
    "Moments",
    "Multivariate",
    "OrderLikelihood",
    "ShapiroWilk",
    "SimplifiedCFMGF",
    "Sliced",
    "Statistic",
    "Watson",
]

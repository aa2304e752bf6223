"""Estimators of scikit-learn carried over a map: linear ones by their coefficients, others behind it.

An estimator is linear here if its answers are a function of rows @ coef_.T + intercept_ alone. Those are
named, not guessed: others have a coef_ too and answer from something else (a kernel machine from its
support vectors, partial least squares from centered rows).
"""

import copy
from typing import Any

import numpy as np

from isojepa.linear import LinearMap

_LINEAR = {
    "sklearn.linear_model": (
        *("LogisticRegression", "LogisticRegressionCV", "RidgeClassifier", "RidgeClassifierCV"),
        *("SGDClassifier", "Perceptron", "LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV"),
        *("ElasticNet", "ElasticNetCV", "SGDRegressor", "HuberRegressor", "BayesianRidge"),
    ),
    "sklearn.svm": ("LinearSVC", "LinearSVR"),
}
_ANSWERS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


def is_estimator(head: Any) -> bool:
    """Whether something is an estimator in scikit-learn's sense: it predicts, and tells its parameters."""
    return callable(getattr(head, "predict", None)) and callable(getattr(head, "get_params", None))


def carried_estimator(estimator: Any, backward: LinearMap) -> Any:
    """A fitted estimator for the rows of the second encoder.

    Args:
        estimator: fitted on rows of the first.
        backward: from rows of the second to rows of the first.

    Returns:
        Of a linear one, alone or behind standardisation, a new estimator of its class; else a `Translated`.

    Raises:
        ValueError: it is not fitted, or takes rows of another width.
    """
    linear, scalers = _unwrapped(estimator)
    if linear is None:
        return Translated(estimator, backward)
    if not hasattr(linear, "coef_"):
        raise ValueError(f"{type(linear).__name__} must be fitted first, got one without coef_")
    coef = linear.coef_.toarray() if hasattr(linear.coef_, "toarray") else np.asarray(linear.coef_)
    weight, bias = np.asarray(coef, np.float64), np.asarray(linear.intercept_, np.float64)
    for scaler in reversed(scalers):
        weight = weight if scaler.scale_ is None else weight / scaler.scale_
        bias = bias if not scaler.with_mean else bias - weight @ scaler.mean_
    if weight.shape[-1] != backward.matrix.shape[1]:
        raise ValueError(
            f"the head must take the {backward.matrix.shape[1]} columns that the map starts from, got "
            f"{weight.shape[-1]}"
        )
    found = copy.deepcopy(linear)
    found.coef_ = weight @ backward.matrix.T
    intercept = bias + weight @ backward.offset - found.coef_ @ backward.center
    found.intercept_ = float(intercept) if np.ndim(intercept) == 0 else intercept
    found.n_features_in_ = found.coef_.shape[-1]
    if hasattr(found, "feature_names_in_"):
        del found.feature_names_in_  # names of the first encoder's columns
    return found


class Translated:
    """An estimator behind a map: rows of the second encoder are turned into rows of the first, then answered.

    Args:
        estimator: fitted on rows of the first; its predict, predict_proba, predict_log_proba and
            decision_function are there where it has them.
        backward: from rows of the second to rows of the first.
    """

    def __init__(self, estimator: Any, backward: LinearMap) -> None:
        self.estimator, self.backward = estimator, backward
        self.n_features_in_ = len(backward.center)

    @property
    def classes_(self) -> Any:
        """Of the estimator."""
        return self.estimator.classes_

    def __getattr__(self, name: str) -> Any:
        if name not in _ANSWERS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        answer = getattr(self.estimator, name)
        return lambda rows: answer(self.backward(np.asarray(rows, np.float64)))

    def score(self, rows: Any, labels: Any) -> float:
        """What the estimator's own score says of rows of the second."""
        return float(self.estimator.score(self.backward(np.asarray(rows, np.float64)), labels))

    def __repr__(self) -> str:
        return f"Translated({self.estimator!r})"


def _unwrapped(estimator: Any) -> tuple[Any, list[Any]]:
    """The linear estimator and the scalers before it; None where it is something else."""
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    if not isinstance(estimator, Pipeline):
        return (estimator if _linear(estimator) else None), []
    steps = [step for _, step in estimator.steps if step is not None and step != "passthrough"]
    last, before = steps[-1], steps[:-1]
    if not all(type(step) is StandardScaler for step in before):
        return None, []
    linear, scalers = _unwrapped(last)
    return linear, [*before, *scalers]


def _linear(estimator: Any) -> bool:
    from importlib import import_module

    kinds = (
        getattr(import_module(module), name, None) for module, names in _LINEAR.items() for name in names
    )
    return type(estimator) in kinds

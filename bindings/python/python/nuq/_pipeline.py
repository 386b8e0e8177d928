"""Uncertainty of the predictions of scikit-learn pipelines and parameter searches (``GridSearchCV``) whose last step is a nuq estimator."""

from __future__ import annotations

from typing import Any

from . import _arrays
from ._base import Estimator
from ._result import Uncertainty
from .baselines import Baseline
from .errors import NotFittedError, ParameterTypeError


def final_step(estimator: Any, X: Any) -> tuple[Any, Any]:
    """The fitted nuq estimator or baseline at the end of ``estimator``, and the rows that it receives for ``X``.

    ``estimator`` is a fitted scikit-learn pipeline, a search with ``refit=True`` such as ``GridSearchCV``, or a combination of both. All
    methods of the nuq estimator, such as ``calibrate``, ``accept`` and ``kneighbors``, can then be called with the transformed rows.
    """
    if isinstance(estimator, (Estimator, Baseline)):
        return estimator, X
    if hasattr(estimator, "best_estimator_"):
        return final_step(estimator.best_estimator_, X)
    steps = getattr(estimator, "steps", None)
    if isinstance(steps, list) and steps:
        for _, step in steps[:-1]:
            if step is not None and step != "passthrough":
                X = step.transform(X)
        return final_step(steps[-1][1], X)
    if hasattr(estimator, "estimator") and hasattr(estimator, "refit"):
        raise NotFittedError(f"this {type(estimator).__name__} has no best_estimator_: construct it with refit=True, and call fit")
    raise ParameterTypeError(
        f"estimator={estimator!r}: expected a NuqClassifier, a NuqRegressor or a baseline, or a fitted pipeline or search that ends with one"
    )


def predict_uncertainty(estimator: Any, X: Any, **network: Any) -> Uncertainty:
    """``predict_uncertainty`` of the nuq estimator at the end of a fitted scikit-learn pipeline or search.

    A pipeline has no method ``predict_uncertainty``, because it has only the methods of scikit-learn's interface. See
    ``final_step`` for other methods. For a classifier, ``network`` may contain ``logits``, ``probabilities`` and ``classes``.
    """
    model, rows = final_step(estimator, X)
    if isinstance(model, Baseline):
        raise ParameterTypeError(f"estimator={estimator!r}: a baseline has no predict_uncertainty; use its score with final_step")
    result: Uncertainty = model.predict_uncertainty(rows, **network)
    index = _arrays.row_index(X)
    if index is not None and len(index) == len(result):
        indexed = Uncertainty(dict(result.items()), index, result._predictor)
        indexed._revision, indexed._temperature = result._revision, result._temperature
        return indexed
    return result

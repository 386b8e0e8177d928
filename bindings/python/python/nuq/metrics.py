"""Metrics of uncertainty scores and probabilities, with bootstrap intervals.

A higher score means a less certain prediction. NaN is an error. If rows have equal scores, a metric is the mean of its values
over all orders of these rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _nuq
from .errors import ParameterTypeError

__all__ = [
    "Difference",
    "Interval",
    "average_precision",
    "average_precision_of_inliers",
    "brier_score",
    "calibration_error",
    "count_curve",
    "detection_error",
    "difference",
    "fpr_at_tpr",
    "interval",
    "negative_log_likelihood",
    "prediction_rejection_ratio",
    "rcc_auc",
    "risk_coverage_curve",
    "roc_auc",
    "roc_curve",
    "scod_risk",
]


class Interval(NamedTuple):
    """A number with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """Metric of the first score minus metric of the second score, with the 95 % bootstrap interval and the p-value of the difference."""

    value: float
    low: float
    high: float
    p_value: float


def _detection(inliers: Any, outliers: Any) -> tuple[np.ndarray, np.ndarray]:
    return _arrays.scores(inliers, "inliers"), _arrays.scores(outliers, "outliers")


def _selective(uncertainty: Any, is_error: Any) -> tuple[np.ndarray, np.ndarray]:
    return _arrays.scores(uncertainty, "uncertainty"), _arrays.flags(is_error, "is_error")


def roc_auc(inliers: Any, outliers: Any) -> float:
    """Probability that an outlier scores higher than an inlier; ties count one half.

    >>> roc_auc([1.0, 2.0], [2.0, 3.0])
    0.875
    """
    return _nuq.roc_auc(*_detection(inliers, outliers))


def average_precision(inliers: Any, outliers: Any) -> float:
    """Average precision with outliers as the positive class."""
    return _nuq.average_precision(*_detection(inliers, outliers))


def average_precision_of_inliers(inliers: Any, outliers: Any) -> float:
    """Average precision with inliers as the positive class, in order of increasing score."""
    return _nuq.average_precision_of_inliers(*_detection(inliers, outliers))


def fpr_at_tpr(inliers: Any, outliers: Any, tpr: float = 0.95) -> float:
    """Smallest false positive rate at which the true positive rate is at least ``tpr``. Outliers are the positive class."""
    return _nuq.fpr_at_tpr(*_detection(inliers, outliers), _arrays.real(tpr, "tpr"))


def detection_error(inliers: Any, outliers: Any) -> float:
    """The mean of false negative rate and false positive rate, at the threshold with the smallest mean."""
    return _nuq.detection_error(*_detection(inliers, outliers))


def roc_curve(inliers: Any, outliers: Any) -> tuple[np.ndarray, np.ndarray]:
    """False positive rates and true positive rates at all thresholds, from (0, 0) to (1, 1)."""
    points = _nuq.roc_curve(*_detection(inliers, outliers))
    return points[:, 0], points[:, 1]


def count_curve(inliers: Any, outliers: Any) -> np.ndarray:
    """Number of outliers among the ``k`` rows with the lowest scores, for ``k`` from 0 to the number of rows."""
    return _nuq.count_curve(*_detection(inliers, outliers))


def rcc_auc(uncertainty: Any, is_error: Any) -> float:
    """Area under the risk-coverage curve. Lower is better.

    >>> rcc_auc([1.0, 1.0, 1.0, 1.0], [True, False, False, False])
    0.25
    """
    return _nuq.rcc_auc(*_selective(uncertainty, is_error))


def risk_coverage_curve(uncertainty: Any, is_error: Any) -> tuple[np.ndarray, np.ndarray]:
    """Coverage (share of accepted rows) and risk (error rate of these rows), with the most certain rows accepted first."""
    risk = _nuq.risk_coverage_curve(*_selective(uncertainty, is_error))
    return np.arange(1, len(risk) + 1) / len(risk), risk


def prediction_rejection_ratio(uncertainty: Any, is_error: Any) -> float | None:
    """Prediction-rejection ratio: 0 for a random order, 1 for the optimal order. None if all orders are equally good."""
    return _nuq.prediction_rejection_ratio(*_selective(uncertainty, is_error))


def scod_risk(inliers: Any, is_error: Any, outliers: Any, coverage: float) -> float:
    """Risk of selective classification with out-of-distribution rows (SCOD): share of errors and outliers among the accepted rows. The most
    certain rows are accepted.

    ``coverage`` is the share of accepted rows among all rows, inliers and outliers.
    """
    scores, wrong = _selective(inliers, is_error)
    return _nuq.scod_risk(scores, wrong, _arrays.scores(outliers, "outliers"), _arrays.real(coverage, "coverage"))


def calibration_error(confidence: Any, is_correct: Any, bins: int = 15) -> float:
    """Expected calibration error: mean absolute difference between confidence and accuracy over bins of equal width, weighted by their
    numbers of rows."""
    return _nuq.calibration_error(_arrays.scores(confidence, "confidence"), _arrays.flags(is_correct, "is_correct"), _arrays.integer(bins, "bins", 1))


def negative_log_likelihood(probabilities: Any, classes: Any) -> float:
    """Mean negative log probability of the true classes. ``classes`` contains the column number of the true class of each row."""
    return _nuq.negative_log_likelihood(*_probabilities(probabilities, classes))


def brier_score(probabilities: Any, classes: Any) -> float:
    """Brier score: mean over rows of the squared difference between probabilities and one-hot labels, summed over classes."""
    return _nuq.brier_score(*_probabilities(probabilities, classes))


def _probabilities(probabilities: Any, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    matrix = _arrays.numbers(_arrays.rows(probabilities, "probabilities"), np.float64)
    return matrix, _arrays.class_numbers(classes)


def interval(metric: str, first: Any, second: Any, *, resamples: int = 1000, seed: int = 0) -> Interval:
    """A metric with its 95 % bootstrap interval.

    For ``metric`` "roc_auc", "average_precision" and "fpr95", ``first`` and ``second`` are the scores of inliers and of outliers.
    For "rcc_auc" they are the uncertainty and ``is_error`` of each row.
    """
    resampling = _arrays.integer(resamples, "resamples", 1), _arrays.integer(seed, "seed")
    return Interval(*_nuq.interval(metric, *_pair(metric, first, second), *resampling))


def difference(
    metric: str, first: tuple[Any, Any], second: tuple[Any, Any], *, resamples: int = 1000, seed: int = 0
) -> Difference:
    """Metric of the first score minus metric of the second score on the same rows, with a paired bootstrap.

    For "roc_auc" and "average_precision", a positive difference means that the first score is better. For "fpr95" and "rcc_auc", a positive
    difference means that the second score is better.

    ``first`` and ``second`` are pairs of arrays as for ``interval``, one pair per score, with the same rows in the same order.
    """
    for name, pair in (("first", first), ("second", second)):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ParameterTypeError(f"{name} must be a pair of arrays, as for interval")
    pairs = *_pair(metric, *first), *_pair(metric, *second)
    for a, b in zip(pairs[:2], pairs[2:]):
        _arrays.check_lengths(a, b)
    resampling = _arrays.integer(resamples, "resamples", 1), _arrays.integer(seed, "seed")
    return Difference(*_nuq.difference(metric, *pairs, *resampling))


def _pair(metric: str, first: Any, second: Any) -> tuple[np.ndarray, np.ndarray]:
    _arrays.choice(metric, "metric", ("roc_auc", "average_precision", "fpr95", "rcc_auc"))
    return _selective(first, second) if metric == "rcc_auc" else _detection(first, second)

"""The referee: how well scores rank, how honest probabilities are, and how much of a difference is noise.

Scores are higher for less certain rows. NaN is refused; rows of equal score have no order, and every metric is its mean over
all orders of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _nuq

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
    """By how much the first is ahead of the second, its interval, and how often chance alone would do that."""

    value: float
    low: float
    high: float
    p_value: float


def _two(inliers: Any, outliers: Any) -> tuple[np.ndarray, np.ndarray]:
    return _arrays.scores(inliers, "inliers"), _arrays.scores(outliers, "outliers")


def _errors(uncertainty: Any, is_error: Any) -> tuple[np.ndarray, np.ndarray]:
    return _arrays.scores(uncertainty, "uncertainty"), _arrays.flags(is_error, "is_error")


def roc_auc(inliers: Any, outliers: Any) -> float:
    """The chance that an outlier scores above an inlier, ties counting half.

    >>> roc_auc([1.0, 2.0], [2.0, 3.0])
    0.875
    """
    return _nuq.roc_auc(*_two(inliers, outliers))


def average_precision(inliers: Any, outliers: Any) -> float:
    """Average precision of finding outliers by high scores."""
    return _nuq.average_precision(*_two(inliers, outliers))


def average_precision_of_inliers(inliers: Any, outliers: Any) -> float:
    """Average precision of finding inliers by low scores."""
    return _nuq.average_precision_of_inliers(*_two(inliers, outliers))


def fpr_at_tpr(inliers: Any, outliers: Any, tpr: float = 0.95) -> float:
    """The smallest share of false alarms at which at least the share ``tpr`` of the outliers is found."""
    return _nuq.fpr_at_tpr(*_two(inliers, outliers), tpr)


def detection_error(inliers: Any, outliers: Any) -> float:
    """The smallest mean of misses and false alarms."""
    return _nuq.detection_error(*_two(inliers, outliers))


def roc_curve(inliers: Any, outliers: Any) -> tuple[np.ndarray, np.ndarray]:
    """False alarms and detections at every threshold, from (0, 0) to (1, 1)."""
    points = _nuq.roc_curve(*_two(inliers, outliers))
    return points[:, 0], points[:, 1]


def count_curve(inliers: Any, outliers: Any) -> np.ndarray:
    """How many outliers there are among the ``k`` rows of lowest score, for each ``k`` from 0."""
    return _nuq.count_curve(*_two(inliers, outliers))


def rcc_auc(uncertainty: Any, is_error: Any) -> float:
    """Area under the risk-coverage curve: lower is better.

    >>> rcc_auc([1.0, 1.0, 1.0, 1.0], [True, False, False, False])
    0.25
    """
    return _nuq.rcc_auc(*_errors(uncertainty, is_error))


def risk_coverage_curve(uncertainty: Any, is_error: Any) -> tuple[np.ndarray, np.ndarray]:
    """The share of rows kept, most certain first, and the error rate among them."""
    risk = _nuq.risk_coverage_curve(*_errors(uncertainty, is_error))
    return np.arange(1, len(risk) + 1) / len(risk), risk


def prediction_rejection_ratio(uncertainty: Any, is_error: Any) -> float | None:
    """How much of the way from a random order to the best one is gone; None where every order is as good."""
    return _nuq.prediction_rejection_ratio(*_errors(uncertainty, is_error))


def scod_risk(inliers: Any, is_error: Any, outliers: Any, coverage: float) -> float:
    """The share of errors and outliers among the share ``coverage`` of all rows that is most certain."""
    scores, wrong = _errors(inliers, is_error)
    return _nuq.scod_risk(scores, wrong, _arrays.scores(outliers, "outliers"), coverage)


def calibration_error(confidence: Any, is_right: Any, bins: int = 15) -> float:
    """Expected calibration error: the mean gap between confidence and accuracy over bins of equal width."""
    return _nuq.calibration_error(_arrays.scores(confidence, "confidence"), _arrays.flags(is_right, "is_right"), _arrays.whole(bins, "bins", 1))


def negative_log_likelihood(probabilities: Any, classes: Any) -> float:
    """Mean negative log of the probability that each row's true class, a column number, was given."""
    return _nuq.negative_log_likelihood(*_probabilities(probabilities, classes))


def brier_score(probabilities: Any, classes: Any) -> float:
    """Mean squared distance of the probabilities from the truth, summed over classes."""
    return _nuq.brier_score(*_probabilities(probabilities, classes))


def _probabilities(probabilities: Any, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    matrix = _arrays.numbers(_arrays.rows(probabilities, "probabilities"), np.float64)
    return matrix, _arrays.class_numbers(classes)


def interval(metric: str, first: Any, second: Any, *, resamples: int = 1000, seed: int = 0) -> Interval:
    """A metric with its bootstrap interval: "roc_auc", "average_precision" or "fpr95" of inliers and outliers, or
    "rcc_auc" of uncertainties and errors."""
    drawn = _arrays.whole(resamples, "resamples", 1), _arrays.whole(seed, "seed")
    return Interval(*_nuq.interval(metric, *_pair(metric, first, second), *drawn))


def difference(
    metric: str, first: tuple[Any, Any], second: tuple[Any, Any], *, resamples: int = 1000, seed: int = 0
) -> Difference:
    """By how much one score is ahead of another on the same rows, by a paired bootstrap.

    ``first`` and ``second`` are the pairs that ``interval`` takes, of the same rows in the same order.
    """
    pairs = *_pair(metric, *first), *_pair(metric, *second)
    for one, other in zip(pairs[:2], pairs[2:]):
        _arrays.check_lengths(one, other)
    drawn = _arrays.whole(resamples, "resamples", 1), _arrays.whole(seed, "seed")
    return Difference(*_nuq.difference(metric, *pairs, *drawn))


def _pair(metric: str, first: Any, second: Any) -> tuple[np.ndarray, np.ndarray]:
    return _errors(first, second) if metric == "rcc_auc" else _two(first, second)

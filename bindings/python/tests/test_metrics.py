"""Metrics compared with scikit-learn and with values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

import nuq
from nuq import metrics


@pytest.fixture(params=["untied", "tied"])
def scores(request):
    rng = np.random.default_rng(5)
    inliers, outliers = rng.normal(size=150), rng.normal(1, 1, 80)
    return (inliers.round(), outliers.round()) if request.param == "tied" else (inliers, outliers)


def test_detection_metrics_equal_scikit_learn(scores):
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    truth, score = np.repeat([0, 1], [150, 80]), np.concatenate(scores)
    assert metrics.roc_auc(*scores) == pytest.approx(sklearn_metrics.roc_auc_score(truth, score), abs=1e-12)
    assert metrics.average_precision(*scores) == pytest.approx(sklearn_metrics.average_precision_score(truth, score), abs=1e-12)
    of_inliers = sklearn_metrics.average_precision_score(1 - truth, -score)
    assert metrics.average_precision_of_inliers(*scores) == pytest.approx(of_inliers, abs=1e-12)
    fpr, tpr, _ = sklearn_metrics.roc_curve(truth, score, drop_intermediate=False)
    for ours, expected in zip(metrics.roc_curve(*scores), (fpr, tpr)):
        np.testing.assert_allclose(ours, expected, atol=1e-12)
    assert metrics.fpr_at_tpr(*scores) == pytest.approx(fpr[tpr >= 0.95].min())
    assert metrics.fpr_at_tpr(*scores, tpr=0.5) == pytest.approx(fpr[tpr >= 0.5].min())
    assert metrics.detection_error(*scores) == pytest.approx(((1 - tpr + fpr) / 2).min())


def test_log_likelihood_equals_scikit_learn_and_brier_score_equals_its_definition():
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(6)
    p, truth = rng.dirichlet([1, 2, 3], 60), rng.integers(0, 3, 60)
    assert metrics.negative_log_likelihood(p, truth) == pytest.approx(sklearn_metrics.log_loss(truth, p), rel=1e-12)
    squared = ((p - np.eye(3)[truth]) ** 2).sum(axis=1).mean()
    assert metrics.brier_score(p, truth) == pytest.approx(squared, rel=1e-12)


def test_risk_coverage_curve_equals_values_computed_by_hand():
    uncertainty, wrong = [0.1, 0.4, 0.2, 0.3], [False, True, False, True]
    coverage, risk = metrics.risk_coverage_curve(uncertainty, wrong)
    np.testing.assert_allclose(coverage, [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(risk, [0, 0, 1 / 3, 1 / 2])
    assert metrics.rcc_auc(uncertainty, wrong) == pytest.approx(risk.mean())
    assert metrics.prediction_rejection_ratio(uncertainty, wrong) == pytest.approx(1.0)
    assert metrics.prediction_rejection_ratio(uncertainty, [True] * 4) is None


def test_calibration_error_count_curve_and_scod_risk_equal_values_computed_by_hand():
    # Two rows have confidence 0.9 and accuracy 0.5, and one row has confidence 0.6 and accuracy 1.
    assert metrics.calibration_error([0.9, 0.9, 0.6], [True, False, True], bins=10) == pytest.approx((0.8 + 0.4) / 3)
    # The number of outliers among the 0, 1, 2, 3 and 4 rows with the lowest scores.
    np.testing.assert_allclose(metrics.count_curve([0.0, 2.0], [1.0, 3.0]), [0, 0, 1, 1, 2])
    # Two of four rows are accepted, and one of the two is an error.
    assert metrics.scod_risk([0.0, 1.0], [False, True], [2.0, 3.0], 0.5) == pytest.approx(0.5)


def test_intervals_contain_the_value_of_the_metric_and_a_large_difference_is_significant(scores):
    interval = metrics.interval("roc_auc", *scores, resamples=200, seed=3)
    assert interval.low < interval.value < interval.high
    assert interval.value == metrics.roc_auc(*scores)
    assert interval == metrics.interval("roc_auc", *scores, resamples=200, seed=3)
    better = scores[0] - 1, scores[1] + 1
    difference = metrics.difference("roc_auc", better, scores, resamples=200)
    assert difference.value > 0 and difference.low > 0 and difference.p_value < 0.05
    wrong = np.arange(150) % 3 == 0
    assert metrics.interval("rcc_auc", scores[0], wrong, resamples=50).value == metrics.rcc_auc(scores[0], wrong)


def test_array_types_give_the_same_value(scores):
    pandas = pytest.importorskip("pandas")
    expected = metrics.roc_auc(*scores)
    assert metrics.roc_auc(*(pandas.Series(s) for s in scores)) == expected
    assert metrics.roc_auc(*(s.tolist() for s in scores)) == expected
    assert metrics.roc_auc(*(np.repeat(s, 2)[::2] for s in scores)) == expected
    assert metrics.roc_auc(*(s.astype(">f8") for s in scores)) == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda: metrics.roc_auc([np.nan], [1.0]),
        lambda: metrics.roc_auc([], [1.0]),
        lambda: metrics.roc_auc([[1.0]], [1.0]),
        lambda: metrics.roc_auc(["a"], [1.0]),
        lambda: metrics.roc_auc([1j], [1.0]),
        lambda: metrics.fpr_at_tpr([1.0], [1.0], 2.0),
        lambda: metrics.rcc_auc([1.0, 2.0], [True]),
        lambda: metrics.rcc_auc([1.0, 2.0], [0.5, 1.0]),
        lambda: metrics.rcc_auc([1.0, 2.0], [0, 2]),
        lambda: metrics.calibration_error([0.5], [True], bins=0),
        lambda: metrics.calibration_error([1.5], [True]),
        lambda: metrics.negative_log_likelihood([[0.5, 0.5]], [2]),
        lambda: metrics.negative_log_likelihood([[0.5, 0.5]], [-1]),
        lambda: metrics.negative_log_likelihood([[0.5, 0.5]], [0, 1]),
        lambda: metrics.brier_score([0.5, 0.5], [0, 1]),
        lambda: metrics.interval("accuracy", [1.0], [2.0]),
        lambda: metrics.interval("roc_auc", [1.0], [2.0], resamples=-1),
        lambda: metrics.difference("roc_auc", ([1.0], [2.0]), ([1.0, 2.0], [2.0])),
        lambda: metrics.scod_risk([0.0], [True], [1.0], 1.5),
    ],
)
def test_invalid_arguments_are_errors(call):
    with pytest.raises(nuq.NuqError) as caught:
        call()
    assert isinstance(caught.value, ValueError)

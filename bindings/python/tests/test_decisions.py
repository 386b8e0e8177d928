"""Decisions: the reject option, thresholds with guarantees, p-values."""

from __future__ import annotations

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor
from nuq.calibrate import benjamini_hochberg, conformal_p_values
from nuq.errors import CannotCertifyError


@pytest.fixture(scope="module")
def model(cifar10):
    return NuqClassifier().fit(cifar10["train"]["embeddings"], cifar10["train"]["labels"])


def test_accept_by_a_cost(fitted, blobs):
    x, _ = blobs
    probability = fitted.predict_uncertainty(x).probability
    np.testing.assert_array_equal(fitted.accept(x, cost=0.1), 1 - probability <= 0.1)
    # Algorithm 2 of the paper compares an upper confidence bound and accepts fewer rows.
    assert (fitted.accept(x, cost=0.1, level=0.05) <= fitted.accept(x, cost=0.1)).all()
    assert not fitted.accept(x * 1000, cost=0.1, level=0.05).any()


def test_false_alarm_rate(model, cifar10):
    threshold = model.calibrate(cifar10["held_out"]["embeddings"], false_alarm=0.05)
    assert threshold.measure == "epistemic" and threshold.n_samples == 1000
    assert "95 %" in threshold.statement and threshold.statement in repr(threshold)
    held_out = model.predict_uncertainty(cifar10["held_out"]["embeddings"])
    np.testing.assert_array_equal(threshold.accept(held_out), held_out.log_epistemic <= threshold.value)
    assert 0.93 < model.accept(cifar10["test"]["embeddings"], threshold).mean() < 0.97
    assert model.accept(cifar10["svhn"]["embeddings"], threshold).mean() < 0.6


@pytest.mark.parametrize("measure, column, sign", [
    ("aleatoric", "aleatoric", 1),
    ("epistemic", "log_epistemic", 1),
    ("total", "log_total", 1),
    ("density", "log_density", -1),
])
def test_measures(model, cifar10, measure, column, sign):
    held_out = cifar10["held_out"]["embeddings"]
    threshold = model.calibrate(held_out, coverage=0.8, measure=measure)
    assert threshold.measure == measure
    result = model.predict_uncertainty(held_out)
    np.testing.assert_array_equal(threshold.accept(result), sign * result[column] <= threshold.value)
    assert threshold.accept(result).mean() >= 0.8


def test_risk(model, cifar10):
    held_out, test = cifar10["held_out"], cifar10["test"]
    threshold = model.calibrate(held_out["embeddings"], held_out["labels"], risk=0.05)
    assert threshold.measure == "total"
    accepted = model.accept(test["embeddings"], threshold)
    wrong = model.predict(test["embeddings"]) != test["labels"]
    assert accepted.mean() > 0.5 and wrong[accepted].mean() < 0.05
    with pytest.raises(CannotCertifyError):
        model.calibrate(held_out["embeddings"][:20], held_out["labels"][:20], risk=0.001)


def test_named_thresholds_are_stored_in_the_file(model, cifar10, tmp_path):
    held_out = cifar10["held_out"]["embeddings"]
    threshold = model.calibrate(held_out, false_alarm=0.05, name="threshold")
    half = model.calibrate(held_out, coverage=0.5, name="half")
    assert model.thresholds_ == {"threshold": threshold, "half": half}
    model.save(tmp_path / "model.nuq")
    opened = nuq.load(tmp_path / "model.nuq")
    assert opened.thresholds_ == model.thresholds_
    np.testing.assert_array_equal(opened.accept(held_out, "half"), model.accept(held_out, half))
    # The guarantee holds for the calibrated model only, so that an update drops it.
    opened.partial_fit(held_out[:1], ["cat"])
    assert opened.thresholds_ == {}


def test_thresholds_of_regressors(blobs, tmp_path):
    x, _ = blobs
    model = NuqRegressor().fit(x[::2], x[::2, 0])
    threshold = model.calibrate(x[1::2], coverage=0.9, name="most")
    assert model.accept(x[1::2], threshold).mean() >= 0.9
    result = model.predict_uncertainty(x)
    ambiguous = model.calibrate(x[1::2], coverage=0.5, measure="aleatoric")
    np.testing.assert_array_equal(ambiguous.accept(result), result.aleatoric <= ambiguous.value)
    model.save(tmp_path / "model.nuq")
    assert nuq.load(tmp_path / "model.nuq").thresholds_ == {"most": threshold}


def test_conformal_p_values_and_benjamini_hochberg():
    rng = np.random.default_rng(0)
    calibration, scores = rng.normal(size=99), rng.normal(size=40)
    expected = [(1 + (calibration >= score).sum()) / 100 for score in scores]
    p = conformal_p_values(calibration, scores)
    np.testing.assert_allclose(p, expected, rtol=1e-15)
    alarms = benjamini_hochberg(np.append(p, [1e-4, 2e-4]), 0.1)
    assert alarms[-2:].all() and alarms.mean() < 0.3
    with pytest.raises(nuq.NuqError):
        benjamini_hochberg([2.0], 0.1)

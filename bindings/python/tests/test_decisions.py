"""Abstaining: by a cost, or by a threshold that keeps a promise."""

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


def test_rejecting_by_a_cost(fitted, blobs):
    x, _ = blobs
    proba = fitted.predict_uncertainty(x).proba
    np.testing.assert_array_equal(fitted.reject(x, 0.1), 1 - proba > 0.1)
    # The paper's Algorithm 2 leaves room for the error of the estimate.
    assert (fitted.reject(x, 0.1, level=0.05) >= fitted.reject(x, 0.1)).all()
    assert fitted.reject(x * 1000, 0.1, level=0.05).all()


def test_a_false_alarm_rate(model, cifar10):
    guard = model.calibrate(cifar10["held_out"]["embeddings"], false_alarm=0.05)
    assert guard.measure == "epistemic" and guard.n_samples == 1000
    assert "95 %" in guard.statement and guard.statement in repr(guard)
    held_out = model.predict_uncertainty(cifar10["held_out"]["embeddings"])
    np.testing.assert_array_equal(guard.accept(held_out), held_out.log_epistemic <= guard.value)
    assert 0.93 < model.accept(cifar10["test"]["embeddings"], guard).mean() < 0.97
    assert model.accept(cifar10["svhn"]["embeddings"], guard).mean() < 0.6


@pytest.mark.parametrize("measure, column, sign", [
    ("aleatoric", "aleatoric", 1),
    ("epistemic", "log_epistemic", 1),
    ("total", "log_total", 1),
    ("density", "log_density", -1),
])
def test_each_measure(model, cifar10, measure, column, sign):
    held_out = cifar10["held_out"]["embeddings"]
    threshold = model.calibrate(held_out, coverage=0.8, measure=measure)
    assert threshold.measure == measure
    said = model.predict_uncertainty(held_out)
    np.testing.assert_array_equal(threshold.accept(said), sign * said[column] <= threshold.value)
    assert threshold.accept(said).mean() >= 0.8


def test_a_risk(model, cifar10):
    held_out, test = cifar10["held_out"], cifar10["test"]
    threshold = model.calibrate(held_out["embeddings"], held_out["labels"], risk=0.05)
    assert threshold.measure == "total"
    accepted = model.accept(test["embeddings"], threshold)
    wrong = model.predict(test["embeddings"]) != test["labels"]
    assert accepted.mean() > 0.5 and wrong[accepted].mean() < 0.05
    with pytest.raises(CannotCertifyError):
        model.calibrate(held_out["embeddings"][:20], held_out["labels"][:20], risk=0.001)


def test_thresholds_are_kept_by_name(model, cifar10, tmp_path):
    held_out = cifar10["held_out"]["embeddings"]
    guard = model.calibrate(held_out, false_alarm=0.05, name="guard")
    half = model.calibrate(held_out, coverage=0.5, name="half")
    assert model.thresholds_ == {"guard": guard, "half": half}
    model.save(tmp_path / "model.nuq")
    opened = nuq.load(tmp_path / "model.nuq")
    assert opened.thresholds_ == model.thresholds_
    np.testing.assert_array_equal(opened.accept(held_out, "half"), model.accept(held_out, half))
    # Other rows, another promise: what is learned or forgotten takes them away.
    opened.partial_fit(held_out[:1], ["cat"])
    assert opened.thresholds_ == {}


def test_regressors_have_them_too(blobs, tmp_path):
    x, _ = blobs
    model = NuqRegressor().fit(x[::2], x[::2, 0])
    threshold = model.calibrate(x[1::2], coverage=0.9, name="most")
    assert model.accept(x[1::2], threshold).mean() >= 0.9
    said = model.predict_uncertainty(x)
    ambiguous = model.calibrate(x[1::2], coverage=0.5, measure="aleatoric")
    np.testing.assert_array_equal(ambiguous.accept(said), said.log_aleatoric <= ambiguous.value)
    model.save(tmp_path / "model.nuq")
    assert nuq.load(tmp_path / "model.nuq").thresholds_ == {"most": threshold}


def test_p_values_and_alarms():
    rng = np.random.default_rng(0)
    calibration, scores = rng.normal(size=99), rng.normal(size=40)
    slow = [(1 + (calibration >= score).sum()) / 100 for score in scores]
    p = conformal_p_values(calibration, scores)
    np.testing.assert_allclose(p, slow, rtol=1e-15)
    alarms = benjamini_hochberg(np.append(p, [1e-4, 2e-4]), 0.1)
    assert alarms[-2:].all() and alarms.mean() < 0.3
    with pytest.raises(nuq.NuqError):
        benjamini_hochberg([2.0], 0.1)

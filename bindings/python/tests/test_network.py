"""Predictions of the network, from its logits or probabilities, with the density of the model."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, load
from nuq.errors import (
    InvalidInputError,
    InvalidParameterError,
    LengthMismatchError,
    NotFiniteError,
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 4)).astype(np.float32)
    y = np.array(["a", "b", "c"])[np.arange(240) % 3]
    x[np.arange(240), np.arange(240) % 3] += 3
    return x, y


@pytest.fixture(scope="module")
def model(data):
    x, y = data
    return NuqClassifier(n_neighbors=10).fit(x[:120], y[:120])


@pytest.fixture(scope="module")
def logits(data):
    rng = np.random.default_rng(1)
    x, _ = data
    return (2 * x[:, :3] + rng.normal(size=(240, 3))).astype(np.float32)


def softmax(z):
    z = np.asarray(z, dtype=np.float64)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def test_uncertainties_of_the_network_equal_their_formulas(model, data, logits):
    x, _ = data
    plain, network = model.predict_uncertainty(x), model.predict_uncertainty(x, logits=logits)
    p, eta = softmax(logits), model.predict_proba(x)
    np.testing.assert_array_equal(network.label, model.classes_[p.argmax(axis=1)])
    np.testing.assert_allclose(network.probability, p.max(axis=1), rtol=1e-12)
    np.testing.assert_allclose(network.aleatoric, 1 - p.max(axis=1), atol=1e-12)
    np.testing.assert_array_equal(network.log_density, plain.log_density)
    # The epistemic uncertainty is U_e = c sqrt(v / n): c is a constant, v a variance term of the class probabilities, and n the number of
    # training rows that support the estimate. c and n are the same in `network` and in `plain`. The difference of the logarithms of U_e
    # is therefore half the difference of the logarithms of v.
    v, v_eta = ((q * (1 - q)).sum(axis=1) for q in (p, eta))
    np.testing.assert_allclose(network.log_epistemic - plain.log_epistemic, 0.5 * np.log(v / v_eta), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(network.total, network.aleatoric + network.epistemic, rtol=1e-12)


def test_logits_and_their_probabilities_give_the_same_uncertainties(model, data, logits):
    x, _ = data
    a = model.predict_uncertainty(x, logits=logits)
    b = model.predict_uncertainty(x, probabilities=softmax(logits))
    np.testing.assert_array_equal(a.label, b.label)
    np.testing.assert_allclose(a.log_epistemic, b.log_epistemic, rtol=1e-4)


def test_columns_are_reordered_by_classes(model, data, logits):
    x, _ = data
    expected = model.predict_uncertainty(x, logits=logits)
    reordered = model.predict_uncertainty(x, logits=logits[:, [2, 0, 1]], classes=["c", "a", "b"])
    for name in expected:
        np.testing.assert_array_equal(reordered[name], expected[name])


def test_columns_with_the_names_of_classes_in_another_order_are_an_error(model, data, logits):
    pandas = pytest.importorskip("pandas")
    names = [str(label) for label in model.classes_]
    named = pandas.DataFrame(logits, columns=names)
    expected = model.predict_uncertainty(data[0], logits=logits).total
    np.testing.assert_array_equal(model.predict_uncertainty(data[0], logits=named).total, expected)
    reordered = named[names[::-1]]
    for call in (
        lambda: model.predict_uncertainty(data[0], logits=reordered),
        lambda: model.calibrate(data[0], coverage=0.9, logits=reordered),
        lambda: model.fit_temperature(reordered, data[1]),
        lambda: nuq.evaluate(model, data[0], data[1], logits=reordered, resamples=100),
        lambda: model.predict_uncertainty(data[0], logits=named, classes=model.classes_[::-1]),
    ):
        with pytest.raises(InvalidInputError, match="the columns of logits are named"):
            call()
    given = model.predict_uncertainty(data[0], logits=reordered, classes=model.classes_[::-1])
    np.testing.assert_array_equal(given.total, expected)
    # Column names that are not the names of the classes are not compared.
    model.predict_uncertainty(data[0], logits=named.rename(columns={names[0]: "first"})[["first", *names[:0:-1]]])


def test_results_of_a_verbose_model_do_not_depend_on_blocks(data, logits, monkeypatch):
    x, y = data
    # A verbose model predicts in blocks of rows, so that it can show its progress.
    monkeypatch.setattr("nuq._base.BLOCK", 100)
    quiet, verbose = (NuqClassifier(n_neighbors=10, verbose=v).fit(x, y) for v in (False, True))
    a, b = (m.predict_uncertainty(x, logits=logits).log_total for m in (quiet, verbose))
    np.testing.assert_array_equal(a, b)


def test_invalid_logits_and_probabilities_are_errors(model, data, logits):
    x, _ = data
    bad = logits.copy()
    bad[7, 1] = np.nan
    cases = [
        (dict(logits=logits[:, :2]), LengthMismatchError, r"\(240, 2\).* 3 columns"),
        (dict(logits=logits[:9]), LengthMismatchError, r"\(9, 3\).* 240 rows"),
        (dict(logits=bad), NotFiniteError, "row 7 of logits"),
        (dict(probabilities=logits), InvalidInputError, "sum to"),
        (dict(logits=logits, probabilities=logits), InvalidParameterError, "not both"),
        (dict(logits=logits, classes=["a", "b", "d"]), InvalidParameterError, "each of the 3 classes of the model once"),
        (dict(classes=["a", "b", "c"]), InvalidParameterError, "give one of them"),
    ]
    for arguments, error, message in cases:
        with pytest.raises(error, match=message):
            model.predict_uncertainty(x, **arguments)


def test_thresholds_that_were_chosen_with_logits_require_logits(model, data, logits, tmp_path):
    x, y = data
    held_out, new = slice(120, 180), slice(180, 240)
    threshold = model.calibrate(
        x[held_out], y[held_out], risk=0.4, delta=0.3, logits=logits[held_out], name="network"
    )
    assert threshold.predictor == "network" and "predictions of the network" in threshold.statement
    u = model.predict_uncertainty(x[new], logits=logits[new])
    np.testing.assert_array_equal(threshold.accept(u), u.log_total <= threshold.value)
    np.testing.assert_array_equal(model.accept(x[new], "network", logits=logits[new]), threshold.accept(u))
    for apply in (
        lambda: threshold.accept(model.predict_uncertainty(x[new])),
        lambda: model.accept(x[new], "network"),
    ):
        with pytest.raises(InvalidParameterError, match="chosen with the logits"):
            apply()
    plain = model.calibrate(x[held_out], coverage=0.8)
    with pytest.raises(InvalidParameterError, match="chosen without logits"):
        plain.accept(u)
    # The density does not depend on the predictor.
    density = model.calibrate(x[held_out], coverage=0.8, measure="density", logits=logits[held_out])
    np.testing.assert_array_equal(density.accept(u), density.accept(model.predict_uncertainty(x[new])))
    # A selection of rows, a pickle and a file keep the predictor.
    assert threshold.accept(u[:5]).shape == (5,) and threshold.accept(pickle.loads(pickle.dumps(u))).shape == (60,)
    assert pickle.loads(pickle.dumps(threshold)) == threshold
    model.save(tmp_path / "m.nuq")
    assert load(tmp_path / "m.nuq").thresholds_["network"] == threshold


def test_reject_rules_use_the_probabilities_of_the_network(model, data, logits):
    x, _ = data
    p = softmax(logits)
    np.testing.assert_array_equal(model.accept(x, cost=0.2, logits=logits), 1 - p.max(axis=1) <= 0.2)
    confident = model.accept(x, cost=0.2, level=0.05, logits=logits)
    assert 0 < confident.sum() < model.accept(x, cost=0.2, logits=logits).sum()


def test_logits_with_a_class_without_training_rows_are_an_error(data, logits):
    x, y = data
    model = NuqClassifier(n_neighbors=10).partial_fit(x[:120], y[:120], classes=["a", "b", "c", "d"])
    with pytest.raises(InvalidInputError, match=r"\['d'\] have none"):
        model.predict_uncertainty(x, logits=np.hstack([logits, logits[:, :1]]))


def test_evaluate_requires_logits_for_a_threshold_that_was_chosen_with_logits(model, data, logits):
    x, y = data
    threshold = model.calibrate(x[120:], coverage=0.9, logits=logits[120:])
    with pytest.raises(InvalidParameterError, match="chosen with logits"):
        nuq.evaluate(model, x[120:], y[120:], resamples=100, threshold=threshold)
    evaluation = nuq.evaluate(model, x[120:], y[120:], logits=logits[120:], resamples=100, threshold=threshold)
    expected = model.predict_uncertainty(x[120:], logits=logits[120:]).log_total
    np.testing.assert_array_equal(evaluation["NUQ total, with logits"].scores["test"], expected)

"""What the tests of the paper's own package check, and how its examples are written."""

from __future__ import annotations

import numpy as np
import pytest

from nuq import NuqClassifier, NuqRegressor

KERNELS = ["gaussian", "rbf", "sigmoid", "logistic", "student"]
BANDWIDTHS = ["log_likelihood", "accuracy", "silverman", "scott", "isj", "adaptive", 0.7, [0.5, 1.0, 2.0]]


def finite(said, columns):
    for name in columns:
        assert np.isfinite(said[name]).all(), name


@pytest.mark.parametrize("bandwidth", BANDWIDTHS, ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_outputs_on_random_data_are_finite(kernel, bandwidth):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(120, 3)), rng.integers(0, 4, 120)
    if kernel in ("sigmoid", "logistic") and bandwidth == "adaptive":
        pytest.skip("product kernels have no bandwidth per row")
    model = NuqClassifier(kernel=kernel, bandwidth=bandwidth).fit(x, y)
    said = model.predict_uncertainty(rng.normal(size=(50, 3)))
    finite(said, [name for name in said if name != "label"])
    assert ((said.proba >= 0) & (said.proba <= 1)).all()
    assert np.isfinite(model.predict_proba(rng.normal(size=(50, 3)))).all()


@pytest.mark.parametrize("covariance", ["full", "tied", "diagonal"])
def test_outputs_with_gaussian_densities_are_finite(covariance):
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(120, 3)), rng.integers(0, 4, 120)
    said = NuqClassifier(density="gmm", covariance=covariance).fit(x, y).predict_uncertainty(rng.normal(size=(50, 3)))
    finite(said, ["epistemic", "total", "log_density"])


@pytest.mark.parametrize("kernel", KERNELS)
def test_regression_outputs_are_finite(kernel):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(120, 3))
    said = NuqRegressor(kernel=kernel).fit(x, x.sum(axis=1)).predict_uncertainty(rng.normal(size=(50, 3)))
    finite(said, said)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_small_bandwidth_fits_the_training_data(kernel):
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
    assert NuqClassifier(kernel=kernel, bandwidth=1e-2).fit(x, y).score(x, y) > 0.9


@pytest.mark.parametrize("what", ["aleatoric", "epistemic", "total"])
def test_predict_gives_labels_and_the_log_of_a_term(fitted, blobs, what):
    x, _ = blobs
    label, log = fitted.predict(x, return_uncertainty=what)
    said = fitted.predict_uncertainty(x)
    np.testing.assert_array_equal(label, said.label)
    np.testing.assert_allclose(np.exp(log), said[what], rtol=1e-12)


def test_regressors_do_so_too(blobs):
    x, _ = blobs
    model = NuqRegressor().fit(x, x[:, 0])
    mean, log = model.predict(x, return_uncertainty="epistemic")
    np.testing.assert_array_equal(mean, model.predict(x))
    np.testing.assert_array_equal(log, model.predict_uncertainty(x).log_epistemic)


def test_the_preset_of_the_paper():
    model = NuqClassifier.paper(n_neighbors=9)
    assert (model.prior_weight, model.variance, model.bandwidth) == (0.0, "max", "accuracy")
    assert (model.density_bandwidth, model.dimension, model.n_neighbors) == ("same", "ambient", 9)

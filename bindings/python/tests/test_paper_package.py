"""The authors of the paper published a package. Its tests and examples are adapted to nuq here."""

from __future__ import annotations

import numpy as np
import pytest

from nuq import NuqClassifier, NuqRegressor

KERNELS = ["gaussian", "rbf", "sigmoid", "logistic", "student"]
BANDWIDTHS = ["log_likelihood", "accuracy", "silverman", "scott", "isj", "adaptive", 0.7, [0.5, 1.0, 2.0]]


def assert_finite(result, columns):
    for name in columns:
        assert np.isfinite(result[name]).all(), name


@pytest.mark.parametrize("bandwidth", BANDWIDTHS, ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_outputs_on_random_data_are_finite(kernel, bandwidth):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(120, 3)), rng.integers(0, 4, 120)
    if kernel in ("sigmoid", "logistic") and bandwidth == "adaptive":
        pytest.skip("product kernels do not support one bandwidth per row")
    model = NuqClassifier(kernel=kernel, bandwidth=bandwidth).fit(x, y)
    result = model.predict_uncertainty(rng.normal(size=(50, 3)))
    assert_finite(result, [name for name in result if name != "label"])
    assert ((result.probability >= 0) & (result.probability <= 1)).all()
    assert np.isfinite(model.predict_proba(rng.normal(size=(50, 3)))).all()


@pytest.mark.parametrize("covariance", ["full", "tied", "diagonal"])
def test_outputs_with_gaussian_densities_are_finite(covariance):
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(120, 3)), rng.integers(0, 4, 120)
    result = NuqClassifier(density="gmm", covariance=covariance).fit(x, y).predict_uncertainty(rng.normal(size=(50, 3)))
    assert_finite(result, ["epistemic", "total", "log_density"])


@pytest.mark.parametrize("kernel", KERNELS)
def test_regression_outputs_are_finite(kernel):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(120, 3))
    result = NuqRegressor(kernel=kernel).fit(x, x.sum(axis=1)).predict_uncertainty(rng.normal(size=(50, 3)))
    assert_finite(result, result)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_small_bandwidth_fits_the_training_data(kernel):
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
    assert NuqClassifier(kernel=kernel, bandwidth=1e-2).fit(x, y).score(x, y) > 0.9


@pytest.mark.parametrize("term", ["aleatoric", "epistemic", "total"])
def test_predict_returns_labels_and_a_log_uncertainty(fitted, blobs, term):
    x, _ = blobs
    label, log = fitted.predict(x, return_uncertainty=term)
    result = fitted.predict_uncertainty(x)
    np.testing.assert_array_equal(label, result.label)
    np.testing.assert_allclose(np.exp(log), result[term], rtol=1e-12)


def test_regressors_return_means_and_a_log_variance(blobs):
    x, _ = blobs
    model = NuqRegressor().fit(x, x[:, 0])
    mean, log = model.predict(x, return_uncertainty="epistemic")
    np.testing.assert_array_equal(mean, model.predict(x))
    np.testing.assert_array_equal(log, model.predict_uncertainty(x).log_epistemic)


def test_paper_returns_an_estimator_with_the_parameters_of_the_paper():
    model = NuqClassifier.paper(n_neighbors=9)
    assert (model.prior_weight, model.variance, model.bandwidth) == (0.0, "max", "accuracy")
    assert (model.density_bandwidth, model.scale, model.n_neighbors) == ("same", "ambient", 9)

"""`fit` rejects invalid parameters, and the message contains the name of the parameter or at least the last word of the name."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor
from nuq.errors import InvalidParameterError, LengthMismatchError

#: Invalid values of each parameter.
INVALID = {
    "n_neighbors": [0, -1, 2.5, "5", None, 2**70],
    "kernel": ["cosine", None, 3],
    "bandwidth": ["wide", 0, -1.0, float("nan"), None, True, {}, [[1.0]], ["a"], object()],
    "density": ["flow", None],
    "density_bandwidth": ["wide", -1.0, None],
    "covariance": ["round", None],
    "shrinkage": ["some", -0.1, 1.5, None],
    "scale_free": ["yes", None, 2],
    "prior_weight": [-1.0, "much", float("nan"), None],
    "variance": ["mean", None],
    "scale": ["two", 3],
    "normalize": ["yes", None, 2],
    "index": ["tree", None],
    "device": ["gpu", "cuda:x", None, 0],
    "recall": [0.0, 1.5, "all", None],
    "expected_queries": [-1, 2.5, "many", None],
    "precision": ["f64", None],
    "selection_rows": [0, 1, 2.5, None],
    "n_jobs": [0, 1.5, "all"],
    "random_state": [True, 2**64, -1, 1.5, "seed", 2**80],
    "copy": ["no", None, 1],
}


def without_address(value):
    """The name of a test case, without the address of an object. If several processes share the tests, the names must be equal in all
    processes, but the address of an object differs between processes."""
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))


@pytest.mark.parametrize("name, value", [(name, value) for name, values in INVALID.items() for value in values], ids=without_address)
@pytest.mark.parametrize("estimator", [NuqClassifier, NuqRegressor])
def test_fit_rejects_invalid_parameters(blobs, estimator, name, value):
    if name == "variance" and estimator is NuqRegressor:
        pytest.skip("regressors have no variance parameter")
    # Each parameter is tested in a model that uses it.
    changes = {"density": "gmm"} if name == "shrinkage" else {"index": "hnsw"} if name == "recall" else {}
    # As scikit-learn requires, the constructor stores its arguments without a check. The error comes from fit.
    model = estimator(**{**changes, name: value})
    with pytest.raises(InvalidParameterError, match=name.split("_")[-1]) as caught:
        model.fit(*blobs)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("estimator", [NuqClassifier, NuqRegressor])
def test_the_number_of_bandwidths_must_equal_the_number_of_columns(blobs, estimator):
    with pytest.raises(LengthMismatchError, match="2 bandwidths for 5 columns"):
        estimator(bandwidth=[1.0, 2.0]).fit(*blobs)


@pytest.mark.parametrize("density", ["auto", "gmm"])
def test_only_the_kernel_density_has_a_bandwidth(blobs, density):
    x, y = blobs
    with pytest.raises(InvalidParameterError, match='unless density="kde"'):
        NuqClassifier(density=density, density_bandwidth=0.5).fit(x, y)


@pytest.mark.parametrize("density", ["auto", "kde"])
@pytest.mark.parametrize("parameter", [{"covariance": "diagonal"}, {"shrinkage": 0.5}, {"scale_free": True}], ids=str)
@pytest.mark.parametrize("estimator", [NuqClassifier, NuqRegressor])
def test_only_the_density_gmm_has_parameters_of_gaussians(blobs, estimator, parameter, density):
    with pytest.raises(InvalidParameterError, match='unless density="gmm"'):
        estimator(density=density, **parameter).fit(*blobs)


def test_every_parameter_is_tested():
    assert set(INVALID) == set(NuqClassifier().get_params()) - {"verbose"}


@pytest.mark.parametrize(
    "changes",
    [
        {"n_neighbors": np.int32(7)},
        {"bandwidth": np.float32(0.5)},
        {"bandwidth": np.array(0.5)},
        {"bandwidth": 1},
        {"bandwidth": np.ones(5)},
        {"prior_weight": 0},
        {"normalize": np.True_},
        {"random_state": np.random.RandomState(3)},
        {"random_state": np.random.default_rng(3)},
        {"random_state": None},
        {"n_jobs": -1},
        {"n_jobs": -2},
        {"n_jobs": np.int64(1)},
        {"index": "hnsw", "recall": 1},
        {"index": "hnsw", "precision": "f16"},
        {"selection_rows": np.int64(50), "expected_queries": 0},
        {"n_neighbors": 10_000},
    ],
    ids=without_address,
)
def test_numpy_types_and_other_valid_values_are_accepted(blobs, changes):
    assert NuqClassifier(**changes).fit(*blobs).score(*blobs) > 0.9


def test_results_do_not_depend_on_n_jobs(blobs):
    x, y = blobs
    one, all_processors = (NuqClassifier(n_jobs=jobs).fit(x, y).predict_uncertainty(x) for jobs in (1, None))
    for name in one:
        np.testing.assert_array_equal(one[name], all_processors[name])


def test_set_params_returns_the_estimator_and_rejects_unknown_names():
    model = NuqClassifier()
    assert model.set_params(n_neighbors=3, kernel="student") is model
    assert model.n_neighbors == 3 and model.kernel == "student"
    with pytest.raises(InvalidParameterError, match="Valid parameters"):
        model.set_params(neighbors=3)


def test_invalid_arguments_of_methods_are_errors(fitted, blobs):
    x, y = blobs
    for call in (
        lambda: fitted.predict(x, return_uncertainty="all"),
        lambda: fitted.kneighbors(x, 0),
        lambda: fitted.kneighbors(x, -1),
        lambda: fitted.kneighbors(x, 2.5),
        lambda: fitted.kneighbors(x, 301),
        lambda: fitted.kneighbors(n_neighbors=300),
        lambda: fitted.suggest(x, -1),
        lambda: fitted.accept(x),
        lambda: fitted.accept(x, cost="much"),
        lambda: fitted.accept(x, cost=1.5),
        lambda: fitted.accept(x, cost=0.1, level=2.0),
        lambda: fitted.accept(x, "guard", cost=0.1),
        lambda: fitted.accept(x, "guard", level=0.1),
        lambda: fitted.calibrate(x),
        lambda: fitted.calibrate(x, coverage=0.9, false_alarm=0.1),
        lambda: fitted.calibrate(x, risk=0.1),
        lambda: fitted.calibrate(x, coverage="all"),
        lambda: fitted.calibrate(x, coverage=1.5),
        lambda: fitted.calibrate(x, y, risk=0.1, delta=0.0),
        lambda: fitted.calibrate(x, coverage=0.9, measure="both"),
        lambda: fitted.accept(x, "guard"),
        lambda: fitted.accept(x, 0.5),
        lambda: nuq.evaluate(fitted, x, y, ood_logits={"svhn": x}),
        lambda: nuq.evaluate(NuqRegressor().fit(x, y), x, y),
        lambda: nuq.evaluate(fitted, x, y, resamples=-1),
    ):
        with pytest.raises(InvalidParameterError):
            call()


def test_set_params_changes_only_the_next_fit(blobs):
    x, _ = blobs
    model = NuqClassifier(n_neighbors=5).fit(*blobs).set_params(normalize=True, n_neighbors=3)
    ids = model.kneighbors(x[:2], return_distance=False)
    assert ids.shape == (2, 5)
    with pytest.raises(InvalidParameterError, match="rows that are not normalized"):
        model.predict_from(x[:2], ids, np.zeros(ids.shape), metric="cosine")

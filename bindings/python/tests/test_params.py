"""Every parameter refuses what it cannot be, by name, and only when it is used."""

from __future__ import annotations

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor
from nuq.errors import InvalidParameterError

#: What each parameter cannot be.
BAD = {
    "n_neighbors": [0, -1, 2.5, "5", None, 2**70],
    "kernel": ["cosine", None, 3],
    "bandwidth": ["wide", 0, -1.0, float("nan"), None, True, {}, [1.0, 2.0], [[1.0]], ["a"], object()],
    "density": ["flow", None],
    "density_bandwidth": ["wide", -1.0, None],
    "covariance": ["round", None],
    "shrinkage": ["some", -0.1, 1.5, None],
    "prior_weight": [-1.0, "much", float("nan"), None],
    "variance": ["mean", None],
    "dimension": ["two", 3],
    "normalize": ["yes", None, 2],
    "index": ["tree", None],
    "recall": [0.0, 1.5, "all", None],
    "n_jobs": [0, 1.5, "all"],
    "random_state": [-1, 1.5, "seed", 2**80],
}


@pytest.mark.parametrize("name, value", [(name, value) for name, values in BAD.items() for value in values], ids=repr)
@pytest.mark.parametrize("estimator", [NuqClassifier, NuqRegressor])
def test_it_is_refused_by_fit(blobs, estimator, name, value):
    if name == "variance" and estimator is NuqRegressor:
        pytest.skip("regressors have none")
    # A constructor stores what it is given, whatever that is.
    changes = {"density": "gmm"} if name == "shrinkage" else {"index": "hnsw"} if name == "recall" else {}
    model = estimator(**{**changes, name: value})
    with pytest.raises(InvalidParameterError, match=name.split("_")[-1]) as caught:
        model.fit(*blobs)
    assert isinstance(caught.value, ValueError)


def test_each_parameter_is_tried():
    assert set(BAD) == set(NuqClassifier().get_params()) - {"verbose"}


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
        {"n_neighbors": 10_000},
    ],
    ids=repr,
)
def test_what_numpy_has_for_them_is_taken(blobs, changes):
    assert NuqClassifier(**changes).fit(*blobs).score(*blobs) > 0.9


def test_threads_change_no_bit(blobs):
    x, y = blobs
    one, all_of_them = (NuqClassifier(n_jobs=jobs).fit(x, y).predict_uncertainty(x) for jobs in (1, None))
    for name in one:
        np.testing.assert_array_equal(one[name], all_of_them[name])


def test_set_params():
    model = NuqClassifier()
    assert model.set_params(n_neighbors=3, kernel="student") is model
    assert model.n_neighbors == 3 and model.kernel == "student"
    with pytest.raises(InvalidParameterError, match="Valid parameters"):
        model.set_params(neighbors=3)


def test_arguments_of_calls(fitted, blobs):
    x, y = blobs
    for call in (
        lambda: fitted.predict(x, return_uncertainty="all"),
        lambda: fitted.kneighbors(x, 0),
        lambda: fitted.kneighbors(x, -1),
        lambda: fitted.kneighbors(x, 2.5),
        lambda: fitted.kneighbors(x, 301),
        lambda: fitted.kneighbors(n_neighbors=300),
        lambda: fitted.suggest(x, -1),
        lambda: fitted.reject(x, "much"),
        lambda: fitted.reject(x, 1.5),
        lambda: fitted.reject(x, 0.1, level=2.0),
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

"""Sample weights: a row with the weight s counts as s equal rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor
from nuq.errors import InvalidInputError, LengthMismatchError

#: Weights and repeated rows give the same model only if no parameter is estimated by leave-one-out. All parameters are therefore given.
FIXED = {"n_neighbors": 500, "bandwidth": 0.8, "density": "kde", "density_bandwidth": 0.5, "scale": "ambient"}


def estimators(blobs):
    x, y = blobs
    return [(NuqClassifier(**FIXED), y), (NuqRegressor(**FIXED), x[:, 0] + x[:, 1] ** 2)]


def assert_close(first, second, x):
    one, other = first.predict_uncertainty(x), second.predict_uncertainty(x)
    for name in one:
        if one[name].dtype.kind == "f":
            np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-12, err_msg=name)
        else:
            np.testing.assert_array_equal(one[name], other[name])


def test_integer_weights_equal_repeated_rows(blobs):
    x = blobs[0]
    weight = np.random.default_rng(0).integers(0, 4, len(x))
    for estimator, y in estimators(blobs):
        weighted = estimator.fit(x[:100], y[:100], sample_weight=weight[:100])
        repeated = type(estimator)(**FIXED)
        repeated.fit(np.repeat(x[:100], weight[:100], axis=0), np.repeat(y[:100], weight[:100]))
        assert_close(weighted, repeated, x)
        # Rows with the weight 0 are not stored.
        assert weighted.training_ids_.tolist() == np.flatnonzero(weight[:100]).tolist()


def test_weights_of_one_change_nothing(blobs):
    x, y = blobs
    one, other = NuqClassifier().fit(x, y), NuqClassifier().fit(x, y, sample_weight=np.ones(300))
    for name, column in one.predict_uncertainty(x).items():
        np.testing.assert_array_equal(column, other.predict_uncertainty(x)[name])


def test_partial_fit_files_and_pickle_keep_the_weights(blobs, tmp_path):
    x = blobs[0]
    weight = np.random.default_rng(1).uniform(0.2, 3.0, 300)
    for estimator, y in estimators(blobs):
        whole = type(estimator)(**FIXED).fit(x, y, sample_weight=weight)
        parts = estimator.partial_fit(x[:200], y[:200], sample_weight=weight[:200])
        parts.partial_fit(x[200:], y[200:], sample_weight=weight[200:])
        assert_close(parts, whole, x)
        whole.save(tmp_path / "model.nuq")
        assert_close(nuq.load(tmp_path / "model.nuq"), whole, x)
        assert_close(pickle.loads(pickle.dumps(whole)), whole, x)


def test_invalid_weights_are_errors(blobs):
    x = blobs[0]
    for estimator, y in estimators(blobs):
        estimator.fit(x, y)
        for call in (estimator.fit, estimator.partial_fit):
            with pytest.raises(LengthMismatchError, match="sample_weight has 299 values for 300 rows"):
                call(x, y, sample_weight=np.ones(299))
            for bad in (-np.ones(300), np.zeros(300), np.full(300, np.nan)):
                with pytest.raises(InvalidInputError, match="sample_weight must be finite and nonnegative"):
                    call(x, y, sample_weight=bad)
            for bad in (np.ones((300, 1)), "a", 3, {}):
                with pytest.raises(InvalidInputError, match="sample_weight must be one-dimensional"):
                    call(x, y, sample_weight=bad)
        assert estimator.n_samples_fit_ == 300


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [NuqClassifier, NuqRegressor])
def test_the_sample_weight_check_of_scikit_learn_passes(kind):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    checks.check_sample_weight_equivalence_on_dense_data(kind.__name__, kind(**FIXED))

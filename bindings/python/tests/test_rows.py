"""Looking after the data: neighbors, doubtful labels, rows that are worth a label."""

from __future__ import annotations

import numpy as np
import pytest

from nuq import NuqClassifier, NuqRegressor


def test_neighbors_are_those_of_scikit_learn(blobs):
    neighbors = pytest.importorskip("sklearn.neighbors")
    x, y = blobs
    queries = x[::7] + np.float32(0.1)
    model = NuqClassifier(n_neighbors=6).fit(x, y)
    theirs = neighbors.NearestNeighbors(n_neighbors=6, algorithm="brute").fit(x.astype(np.float64))
    for given in (queries, None):
        for k in (None, 1, 11):
            distances, ids = model.kneighbors(given, k)
            # scikit-learn brings queries to double by another way only where there are none of ours.
            expected, expected_ids = theirs.kneighbors(None if given is None else given.astype(np.float64), k)
            np.testing.assert_array_equal(ids, expected_ids)
            np.testing.assert_allclose(distances, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(model.kneighbors(queries, return_distance=False), model.kneighbors(queries)[1])


def test_few_training_rows():
    model = NuqClassifier().fit([[0.0], [1.0], [2.0]], [0, 0, 1])
    assert model.kneighbors([[0.2]])[1].tolist() == [[0, 1, 2]]
    assert model.kneighbors()[1].tolist() == [[1, 2], [0, 2], [1, 0]]


def test_wrong_labels_are_found(cifar10):
    train = cifar10["train"]
    rng = np.random.default_rng(0)
    wrong = rng.choice(2000, 40, replace=False)
    labels = train["labels"].copy()
    classes = np.unique(labels)
    labels[wrong] = classes[(np.searchsorted(classes, labels[wrong]) + 1 + rng.integers(0, 9, 40)) % 10]
    issues = NuqClassifier().fit(train["embeddings"], labels).label_issues()
    found = issues.row[:40]
    assert len(set(found) & set(wrong)) >= 36
    np.testing.assert_array_equal(issues.label, labels[issues.row])
    assert (issues.proba < issues.proba_of_likeliest).all()
    right = issues.likeliest[:40] == train["labels"][found]
    assert right.mean() > 0.85


def test_suggested_rows_are_uncertain_and_differ(blobs):
    x, y = blobs
    model = NuqClassifier().fit(x, y)
    pool = np.concatenate([x[:50], x[50:60] + 40, x[60:70] - 40])
    chosen = model.suggest(pool, 6)
    assert len(set(chosen)) == 6
    assert min(chosen[:2]) in range(50, 60) and max(chosen[:2]) in range(60, 70), "one of either kind"
    assert len(model.suggest(pool, 1000)) == 70
    assert len(model.suggest(pool, 0)) == 0
    assert (NuqRegressor().fit(x, x[:, 0]).suggest(pool, 2) >= 50).all()


def test_what_is_said_has_names(fitted, blobs):
    said = fitted.predict_uncertainty(blobs[0])
    names = ["label", "proba", "aleatoric", "epistemic", "total", "log_epistemic", "log_total", "log_density"]
    assert list(said) == list(said.keys()) == names and len(said) == 300
    assert all(said[name].shape == (300,) for name in said)
    assert "total" in dir(said) and "total" in said and "300 rows" in repr(said)
    np.testing.assert_allclose(said.total, said.aleatoric + said.epistemic, rtol=1e-9)
    np.testing.assert_allclose(said.aleatoric, 1 - said.proba, rtol=1e-9, atol=1e-12)
    with pytest.raises(AttributeError, match="log_density"):
        said.variance


def test_as_a_data_frame(fitted, blobs):
    pytest.importorskip("pandas")
    said = fitted.predict_uncertainty(blobs[0])
    frame = said.to_pandas()
    assert list(frame.columns) == list(said) and len(frame) == 300
    np.testing.assert_array_equal(frame["total"], said.total)

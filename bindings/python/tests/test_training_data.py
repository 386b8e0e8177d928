"""Neighbors, label issues, suggested rows, leave-one-out predictions, and the result type."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from nuq import NuqClassifier, NuqRegressor
from nuq.errors import FewNeighborsError, InvalidInputError, InvalidParameterError


def test_neighbors_equal_scikit_learn(blobs):
    neighbors = pytest.importorskip("sklearn.neighbors")
    x, y = blobs
    queries = x[::7] + np.float32(0.1)
    model = NuqClassifier(n_neighbors=6).fit(x, y)
    sklearn_neighbors = neighbors.NearestNeighbors(n_neighbors=6, algorithm="brute").fit(x.astype(np.float64))
    for x_query in (queries, None):
        for k in (None, 1, 11):
            distances, ids = model.kneighbors(x_query, k)
            expected, expected_ids = sklearn_neighbors.kneighbors(None if x_query is None else x_query.astype(np.float64), k)
            np.testing.assert_array_equal(ids, expected_ids)
            np.testing.assert_allclose(distances, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(model.kneighbors(queries, return_distance=False), model.kneighbors(queries)[1])


@pytest.mark.parametrize("estimator", [NuqClassifier(), NuqRegressor(), NuqClassifier(normalize=True)], ids=repr)
def test_predictions_from_a_neighbor_table_equal_those_of_the_model(blobs, estimator):
    x, y = blobs
    model = estimator.fit(x, y)
    distances, ids = model.kneighbors(x[::3])
    expected = model.predict_uncertainty(x[::3])
    for metric, given in {"l2": distances, "l2sq": distances**2}.items():
        result = model.predict_from(x[::3], ids, given, metric=metric)
        for name in expected:
            if name == "label":
                np.testing.assert_array_equal(result[name], expected[name])
            else:
                # The results are not equal bit for bit, because the squares of the distances are rounded.
                np.testing.assert_allclose(result[name], expected[name], rtol=1e-9, atol=1e-12)
    for table in (
        (ids[:-1], distances[:-1]),
        (ids, distances[:, :-1]),
        (ids[0], distances[0]),
        (ids.astype(float), distances),
        (ids + 10_000, distances),
        (-1 - ids, distances),
        (ids, -1 - distances),
        (ids, np.full_like(distances, np.nan)),
    ):
        with pytest.raises(InvalidInputError):
            model.predict_from(x[::3], *table, metric="l2sq")


def test_reranked_neighbors_give_the_same_bits(blobs):
    x, y = blobs
    for changes in ({}, {"normalize": True}, {"bandwidth": "silverman"}):
        model = NuqClassifier(n_neighbors=7, **changes).fit(x[:250], y[:250])
        expected = model.predict_uncertainty(x[250:])
        # There are more candidates than the model uses, in random order.
        ids = np.random.default_rng(0).permuted(model.kneighbors(x[250:], 30, return_distance=False), axis=1)
        for result in (model.predict_from(x[250:], ids, rerank=True), model.predict_from(x[250:], ids.tolist(), rerank=True)):
            for name in expected:
                np.testing.assert_array_equal(result[name], expected[name])
        np.testing.assert_array_equal(model.predict_proba_from(x[250:], ids, rerank=True), model.predict_proba(x[250:]))


def test_cosine_distances_give_the_same_density_for_normalized_rows(blobs):
    x, y = blobs
    model = NuqClassifier(n_neighbors=7, normalize=True).fit(x, y)
    distances, ids = model.kneighbors(x)
    cosine = distances**2 / 2 - 1e-8  # some are negative, as if a float32 similarity exceeds 1 by rounding
    result, expected = model.predict_from(x, ids, cosine, metric="cosine"), model.predict_uncertainty(x)
    np.testing.assert_allclose(result.log_density, expected.log_density, rtol=1e-5)
    with pytest.raises(InvalidParameterError, match="normalize=True"):
        NuqClassifier(n_neighbors=7).fit(x, y).predict_from(x, ids, cosine, metric="cosine")


def test_fewer_neighbors_than_the_model_uses_are_an_error(blobs):
    x, y = blobs
    model = NuqClassifier(n_neighbors=7).fit(x, y)
    distances, ids = model.kneighbors(x[:9])
    with pytest.raises(FewNeighborsError, match="row 0 has 6 neighbors, and the model uses 7"):
        model.predict_from(x[:9], ids[:, :6], distances[:, :6], metric="l2")
    ragged = ids.tolist()
    ragged[4] = ragged[4][:5]
    with pytest.raises(FewNeighborsError, match="row 4 has 5 neighbors"):
        model.predict_from(x[:9], ragged, rerank=True)
    ids[3, 6] = -1
    with pytest.raises(FewNeighborsError, match="row 3 of ids contains -1"):
        model.predict_from(x[:9], ids, distances, metric="l2")
    with pytest.raises(InvalidParameterError, match="metric= is required"):
        model.predict_from(x[:9], np.abs(ids), distances)


def test_with_fewer_training_rows_than_neighbors_all_rows_are_neighbors():
    model = NuqClassifier().fit([[0.0], [1.0], [2.0]], [0, 0, 1])
    assert model.kneighbors([[0.2]])[1].tolist() == [[0, 1, 2]]
    assert model.kneighbors()[1].tolist() == [[1, 2], [0, 2], [1, 0]]


def test_label_issues_contain_the_wrong_labels(cifar10):
    train = cifar10["train"]
    rng = np.random.default_rng(0)
    wrong = rng.choice(2000, 40, replace=False)
    labels = train["labels"].copy()
    classes = np.unique(labels)
    labels[wrong] = classes[(np.searchsorted(classes, labels[wrong]) + 1 + rng.integers(0, 9, 40)) % 10]
    issues = NuqClassifier().fit(train["embeddings"], labels).label_issues()
    first = issues.row[:40]
    assert len(set(first) & set(wrong)) >= 36
    np.testing.assert_array_equal(issues.label, labels[issues.row])
    assert (issues.probability < issues.predicted_probability).all()
    right = issues.predicted_label[:40] == train["labels"][first]
    assert right.mean() > 0.85


def test_suggested_rows_are_uncertain_and_differ(blobs):
    x, y = blobs
    model = NuqClassifier().fit(x, y)
    pool = np.concatenate([x[:50], x[50:60] + 40, x[60:70] - 40])
    chosen = model.suggest(pool, 6)
    assert len(set(chosen)) == 6
    assert min(chosen[:2]) in range(50, 60) and max(chosen[:2]) in range(60, 70), "expected one row of each of the two distant groups"
    assert len(model.suggest(pool, 1000)) == 70
    assert len(model.suggest(pool, 0)) == 0
    assert (NuqRegressor().fit(x, x[:, 0]).suggest(pool, 2) >= 50).all()


def test_rows_that_the_model_cannot_distinguish_are_not_both_suggested(blobs):
    x, y = blobs
    # With normalize=True, the model divides rows by their norms. The first two rows are then equal.
    pool = np.concatenate([x[:1] - 40, 1000 * (x[:1] - 40), x[1:2] + 40])
    for model in (NuqClassifier(normalize=True).fit(x, y), NuqRegressor(normalize=True).fit(x, x[:, 0])):
        assert 2 in model.suggest(pool, 2)


def test_the_result_has_the_documented_columns(fitted, blobs):
    result = fitted.predict_uncertainty(blobs[0])
    names = ["label", "probability", "aleatoric", "epistemic", "total", "log_epistemic", "log_total", "log_density"]
    assert list(result) == list(result.keys()) == names and len(result) == 300
    assert all(result[name].shape == (300,) for name in result)
    assert "total" in dir(result) and "total" in result and "300 rows" in repr(result)
    np.testing.assert_allclose(result.total, result.aleatoric + result.epistemic, rtol=1e-9)
    np.testing.assert_allclose(result.aleatoric, 1 - result.probability, rtol=1e-9, atol=1e-12)
    with pytest.raises(AttributeError, match="log_density"):
        result.variance


def test_a_data_frame_has_the_columns_of_the_result(fitted, blobs):
    pytest.importorskip("pandas")
    result = fitted.predict_uncertainty(blobs[0])
    frame = result.to_pandas()
    assert list(frame.columns) == list(result) and len(frame) == 300
    np.testing.assert_array_equal(frame["total"], result.total)


@pytest.mark.parametrize("estimator", [NuqClassifier(density="kde", prior_weight=0.0), NuqRegressor(prior_weight=0.0)], ids=repr)
def test_leave_one_out_equals_predictions_without_the_row(blobs, estimator):
    x, y = blobs
    model = estimator.fit(x, y)
    left_out = model.leave_one_out()
    assert left_out.row.tolist() == model.training_ids_.tolist() == list(range(300))
    for row in (0, 17, 299):
        without = pickle.loads(pickle.dumps(model)).remove(row)
        expected = without.predict_uncertainty(x[row : row + 1])
        for name, column in expected.items():
            np.testing.assert_array_equal(left_out[name][row], column[0])


def test_leave_one_out_after_removal_omits_the_removed_rows(blobs):
    x, y = blobs
    model = NuqClassifier().fit(x, y).remove([3, 4])
    left_out = model.leave_one_out()
    assert len(left_out) == 298 and not np.isin([3, 4], left_out.row).any()
    assert sorted(left_out.row[left_out.label != y[left_out.row]]) == sorted(model.label_issues().row)

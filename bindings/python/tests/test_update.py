"""Insertion and removal of training rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor
from nuq.errors import (
    DimensionMismatchError,
    EmptyError,
    InvalidInputError,
    InvalidParameterError,
    LengthMismatchError,
    PerPointBandwidthError,
    UnknownIdError,
)


def assert_same(first, second, x):
    one, other = first.predict_uncertainty(x), second.predict_uncertainty(x)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
    np.testing.assert_array_equal(first.predict_proba(x), second.predict_proba(x))


@pytest.mark.parametrize("labels", [[0, 1, 2], ["a", "b", "c"], [-3.0, 0.0, 5.0], [b"x", b"y", b"z"]], ids=str)
def test_partial_fits_equal_one_fit(blobs, labels):
    x, y = blobs
    names = np.array(labels)[y]
    # The rows of the middle class are inserted last, so the index of the last class changes from 1 to 2.
    order = np.argsort(y == 1, kind="stable")
    x, names = x[order], names[order]
    model = NuqClassifier(bandwidth=0.8, density="kde", density_bandwidth=0.5, scale="ambient")
    for part in np.array_split(np.arange(300), 4):
        assert model.partial_fit(x[part], names[part]) is model
    assert model.classes_.tolist() == sorted(labels) and model.n_samples_fit_ == 300
    at_once = NuqClassifier(bandwidth=0.8, density="kde", density_bandwidth=0.5, scale="ambient").fit(x, names)
    assert_same(model, at_once, x)


def test_removal_undoes_insertion(blobs):
    x, y = blobs
    fixed = {"bandwidth": 0.8, "density": "kde", "density_bandwidth": 0.5, "scale": "ambient"}
    model = NuqClassifier(**fixed).fit(x, y)
    model.partial_fit(x[:10] + 50, np.full(10, 9))
    assert model.classes_.tolist() == [0, 1, 2, 9]
    assert model.predict(x[:1] + 50) == [9]
    model.remove(np.arange(300, 310))
    assert model.classes_.tolist() == [0, 1, 2] and model.n_samples_fit_ == 300
    assert_same(model, NuqClassifier(**fixed).fit(x, y), x)
    model.remove(5)
    assert 5 not in model.kneighbors(x[5:6], return_distance=False)


def test_removal_of_all_rows_of_a_class_removes_the_class(blobs):
    x, y = blobs
    model = NuqClassifier().fit(x, y).remove(np.flatnonzero(y == 1))
    assert model.classes_.tolist() == [0, 2]
    assert set(model.predict(x)) == {0, 2}
    assert model.predict_proba(x).shape == (300, 2)


def test_partial_fits_of_a_regressor_equal_one_fit(blobs):
    x, _ = blobs
    fixed = {"bandwidth": 0.8, "density": "kde", "density_bandwidth": 0.5, "scale": "ambient"}
    model = NuqRegressor(**fixed).partial_fit(x[:200], x[:200, 0]).partial_fit(x[200:], x[200:, 0])
    np.testing.assert_array_equal(model.predict(x), NuqRegressor(**fixed).fit(x, x[:, 0]).predict(x))
    assert model.remove([0, 1]).n_samples_fit_ == 298


def test_rows_that_cannot_be_inserted_are_errors(blobs):
    x, y = blobs
    model = NuqClassifier().fit(x, y)
    with pytest.raises(InvalidInputError, match="same kind"):
        model.partial_fit(x[:1], ["cat"])
    with pytest.raises(DimensionMismatchError):
        model.partial_fit(x[:1, :2], [0])
    with pytest.raises(PerPointBandwidthError):
        NuqClassifier(bandwidth="adaptive").fit(x, y).partial_fit(x[:1], [0])
    assert model.n_samples_fit_ == 300


@pytest.mark.parametrize("ids", [[300], [-1], [0.5], ["a"], [[0]], [2**40], [3, 3]], ids=str)
def test_unknown_invalid_and_repeated_ids_are_errors(blobs, ids):
    model = NuqClassifier().fit(*blobs)
    with pytest.raises(UnknownIdError):
        model.remove(ids)
    assert model.n_samples_fit_ == 300


def test_all_rows_cannot_be_removed(blobs):
    with pytest.raises(EmptyError):
        NuqClassifier().fit(*blobs).remove(np.arange(300))


def test_a_mask_selects_rows_to_remove_by_position(blobs):
    x, y = blobs
    model = NuqClassifier().fit(x, y)
    # After a removal, positions and ids differ. The mask refers to the positions of the remaining rows.
    model.remove([0, 5])
    assert model.training_ids_.tolist() == [id for id in range(300) if id not in (0, 5)]
    mask = np.zeros(298, dtype=bool)
    mask[[0, 4, 297]] = True
    model.remove(mask)
    assert set(range(300)) - set(model.training_ids_.tolist()) == {0, 1, 5, 6, 299}
    with pytest.raises(LengthMismatchError, match="298 entries for 295"):
        model.remove(mask)
    model.remove(model.leave_one_out().aleatoric > 0.4)
    with pytest.raises(EmptyError):
        model.remove([True] * model.n_samples_fit_)


@pytest.mark.parametrize("nothing", [[], (), np.array([]), np.array([], dtype=int), np.zeros(300, dtype=bool)], ids=repr)
def test_removal_of_nothing_changes_nothing(blobs, nothing):
    x, y = blobs
    model = NuqClassifier().fit(x, y)
    threshold = model.calibrate(x, coverage=0.5, name="half")
    assert model.remove(nothing) is model
    assert model.n_samples_fit_ == 300 and model.thresholds_ == {"half": threshold}


def test_listed_classes_without_rows_have_a_column_of_probabilities(blobs, tmp_path):
    x, y = blobs
    model = NuqClassifier().partial_fit(x[:200], y[:200], classes=[2, 0, 1, 5])
    assert model.classes_.tolist() == [0, 1, 2, 5]
    probability = model.predict_proba(x)
    assert probability.shape == (300, 4) and not probability[:, 2:].any()
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probability.argmax(axis=1)], model.predict(x))
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_proba(x), probability, "pickle does not keep the list of classes"
    )
    model.partial_fit(x[200:], y[200:], classes=[0, 1, 2, 5])
    assert model.predict_proba(x)[200:, 2].mean() > 0.5 and model.score(x, y) > 0.9
    with pytest.raises(InvalidInputError, match="do not exist in the initial classes"):
        model.partial_fit(x[:1], [7])
    with pytest.raises(InvalidParameterError, match="is not the same as before"):
        model.partial_fit(x[:1], [0], classes=[0, 1])
    assert model.n_samples_fit_ == 300
    # A class that loses its rows keeps its column.
    model.remove(np.flatnonzero(y == 2))
    assert model.classes_.tolist() == [0, 1, 2, 5] and not model.predict_proba(x)[:, 2:].any()
    # A model file, unlike a pickle, does not contain the list, only the classes with rows.
    model.save(tmp_path / "model.nuq")
    assert nuq.load(tmp_path / "model.nuq").classes_.tolist() == [0, 1]


def test_listed_classes_without_rows_share_the_remaining_probability(blobs):
    x, y = blobs
    model = NuqClassifier().partial_fit(x[:100], y[:100], classes=[0, 1, 2])
    probability = model.predict_proba(x)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(probability[:, 1], probability[:, 2])


def test_labels_outside_the_listed_classes_are_errors(blobs):
    model = NuqClassifier()
    with pytest.raises(InvalidInputError, match=r"\[2\] in y do not exist in the initial classes \[0, 1\]"):
        model.partial_fit(*blobs, classes=[0, 1])
    assert not hasattr(model, "classes_")
    with pytest.raises(InvalidParameterError, match="empty"):
        model.partial_fit(*blobs, classes=[])
    model.fit(*blobs)
    with pytest.raises(InvalidInputError, match="do not exist"):
        model.partial_fit(blobs[0][:1], [9], classes=[0, 1, 2])
    assert model.partial_fit(blobs[0][:1], [9]).classes_.tolist() == [0, 1, 2, 9]


def test_measured_distances_give_the_same_predictions(blobs):
    x, y = blobs
    for changes in ({}, {"normalize": True}, {"bandwidth": "silverman"}):
        model = NuqClassifier(n_neighbors=7, **changes).fit(x[:250], y[:250])
        ids = model.kneighbors(x, 7, return_distance=False)
        sq_distances = model.measure(x, ids)
        np.testing.assert_allclose(sq_distances, model.kneighbors(x, 7)[0] ** 2, rtol=1e-12)
        # The distances are in the order of the ids.
        shuffled = np.random.default_rng(1).permuted(ids, axis=1)
        expected = np.take_along_axis(sq_distances, np.argsort(ids, axis=1), axis=1)
        np.testing.assert_array_equal(np.take_along_axis(model.measure(x, shuffled), np.argsort(shuffled, axis=1), axis=1), expected)
        np.testing.assert_array_equal(model.predict_proba_from(x, ids, sq_distances, metric="l2sq"), model.predict_proba(x))
        one, other = model.predict_from(x, ids, sq_distances, metric="l2sq"), model.predict_uncertainty(x)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    for ids in ([[0]], np.zeros(300, dtype=int)):
        with pytest.raises(LengthMismatchError):
            model.measure(x, ids)
    for call in (model.measure, lambda x, ids: model.predict_from(x, ids, rerank=True)):
        with pytest.raises(InvalidInputError, match="ids is of the type float64: expected integers, the ids of training rows") as caught:
            call(x, np.zeros((300, 7)))
        assert not isinstance(caught.value, LengthMismatchError)
    for ids in (np.full((300, 1), 250), np.full((300, 1), -1)):
        with pytest.raises(UnknownIdError):
            model.measure(x, ids)


@pytest.mark.parametrize("density", ["kde", "gmm", "auto"])
def test_a_model_with_new_labels_equals_a_model_that_was_fitted_to_them(blobs, density):
    x, y = blobs
    names = np.array(["a", "b", "c"])[y]
    options = {"bandwidth": 0.8, "density": density, "scale": "ambient"}
    if density == "kde":
        options["density_bandwidth"] = 0.5
    model = NuqClassifier(**options).fit(x, names)
    wrong = names.astype("U3")
    wrong[[3, 200]] = ["c", "new"]
    other = NuqClassifier(**options).fit(x, wrong)
    other.calibrate(x[:50] + 0.01, coverage=0.9, name="main")
    assert other.training_labels_.tolist() == wrong.tolist() and list(other.thresholds_) != []
    assert other.relabel([3, 200], names[[3, 200]]) is other
    assert other.training_labels_.tolist() == names.tolist() and list(other.thresholds_) == []
    assert other.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(other.predict_proba(x), model.predict_proba(x), rtol=1e-12)
    # A mask selects rows in the order of the ids, and an empty selection changes nothing.
    assert other.relabel(names == "a", np.full((names == "a").sum(), "b")).classes_.tolist() == ["b", "c"]
    assert other.relabel([], []).classes_.tolist() == ["b", "c"]


def test_wrong_ids_or_labels_of_a_relabeling_are_errors(blobs):
    x, y = blobs
    model = NuqClassifier(bandwidth=0.8).fit(x, y)
    with pytest.raises(LengthMismatchError, match="y has 1 labels for 2 rows"):
        model.relabel([0, 1], [2])
    with pytest.raises(UnknownIdError):
        model.relabel([300], [2])
    with pytest.raises(UnknownIdError, match="ids="):
        model.relabel([-1], [2])
    with pytest.raises(InvalidInputError):
        model.relabel([0], ["text"])
    assert model.training_labels_.tolist() == y.tolist()

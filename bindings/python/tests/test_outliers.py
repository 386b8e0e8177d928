"""Outlier detector: estimator checks of scikit-learn, signs of the scores as in scikit-learn and PyOD, attributes of PyOD, scores compared
with a direct formula, files."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier
from nuq.errors import ColumnNamesError, InvalidInputError, NotFittedError, NuqError, OutOfRangeError, ParameterTypeError
from nuq.outliers import NuqOutlierDetector


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """The last ten rows are isolated, at a distance of 12 from the center of the others."""
    rng = np.random.default_rng(3)
    directions = rng.normal(size=(10, 3))
    isolated = 12 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return np.concatenate([rng.normal(size=(190, 3)), isolated]).astype(np.float32)


@pytest.fixture(scope="module")
def detector(rows) -> NuqOutlierDetector:
    return NuqOutlierDetector(contamination=0.05).fit(rows)


@pytest.mark.filterwarnings("ignore")
def test_the_estimator_checks_of_scikit_learn_pass():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    results = checks.check_estimator(NuqOutlierDetector(), on_skip=None)
    passed = {result["check_name"] for result in results if result["status"] == "passed"}
    assert {"check_outliers_train", "check_outliers_fit_predict", "check_outlier_contamination"} <= passed, passed
    others = {result["check_name"] for result in results} - passed
    # scikit-learn runs the other checks only with array API dispatch enabled.
    assert all("array_api" in name for name in others), others


def test_scikit_learn_recognizes_the_type():
    base = pytest.importorskip("sklearn.base")
    assert base.is_outlier_detector(NuqOutlierDetector())


def test_the_score_is_the_kernel_density_of_the_neighbors(rows):
    """The score is compared with the definition: the sum of a Gaussian kernel over the K nearest rows, divided by the number N of rows (N - 1
    for a training row, which is left out)."""
    h, k = 0.7, 15
    detector = NuqOutlierDetector(n_neighbors=k, density="kde", density_bandwidth=h).fit(rows)

    def log_density(query: np.ndarray, others: np.ndarray) -> float:
        squared = np.sort(((others.astype(float) - query.astype(float)) ** 2).sum(axis=1))[:k]
        kernel = np.exp(-squared / (2 * h**2)).sum() / len(others)
        # The normalization constant of the density is left out. It shifts all scores by the same amount.
        return float(np.log(kernel))

    queries = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    new = detector.score_samples(queries) - [log_density(query, rows) for query in queries]
    left_out = detector.score_samples(rows[:20]) - [log_density(rows[i], np.delete(rows, i, axis=0)) for i in range(20)]
    np.testing.assert_allclose(new, new[0], atol=1e-5)
    np.testing.assert_allclose(left_out, new[0], atol=1e-5)


def test_signs_follow_the_convention_of_scikit_learn(detector, rows):
    far, near = np.full((1, 3), 30.0), np.zeros((1, 3))
    assert detector.score_samples(far) < detector.score_samples(near)
    assert detector.decision_function(far) < 0 < detector.decision_function(near)
    assert detector.predict(far) == [-1] and detector.predict(near) == [1]
    np.testing.assert_array_equal(detector.decision_function(rows), detector.score_samples(rows) - detector.offset_)
    np.testing.assert_array_equal(detector.fit_predict(rows), detector.predict(rows))


def test_signs_equal_those_of_isolation_forest(detector, rows):
    ensemble = pytest.importorskip("sklearn.ensemble")
    peer = ensemble.IsolationForest(contamination=0.05, random_state=0).fit(rows)
    for queries in (np.full((1, 3), 30.0), np.zeros((1, 3))):
        assert np.sign(detector.decision_function(queries)) == np.sign(peer.decision_function(queries))
        assert detector.predict(queries) == peer.predict(queries)
    assert (detector.predict(rows) == -1).sum() == (peer.predict(rows) == -1).sum() == 10


def test_attributes_have_the_signs_and_formulas_of_pyod(detector, rows):
    peer = pytest.importorskip("pyod.models.knn").KNN(contamination=0.05, n_neighbors=20).fit(rows)
    # Both detectors compute these attributes from their own scores with the same formulas.
    for one in (detector, peer):
        np.testing.assert_allclose(one.threshold_, np.percentile(one.decision_scores_, 95), rtol=1e-12)
        np.testing.assert_array_equal(one.labels_, (one.decision_scores_ > one.threshold_).astype(int))
    far, near = np.full((1, 3), 30.0), np.zeros((1, 3))
    # PyOD's decision_function corresponds to -score_samples, and PyOD's predict to predict == -1.
    assert peer.decision_function(far) > peer.threshold_ and -detector.score_samples(far) > detector.threshold_
    assert peer.predict(far) == (detector.predict(far) == -1) and peer.predict(near) == (detector.predict(near) == -1)
    # Both find the ten rows far from the others.
    assert set(np.flatnonzero(peer.labels_)) == set(np.flatnonzero(detector.labels_)) == set(range(190, 200))


def test_attributes_agree_with_the_methods(detector, rows):
    np.testing.assert_array_equal(detector.decision_scores_, -detector.score_samples(rows))
    assert detector.threshold_ == -detector.offset_
    np.testing.assert_array_equal(detector.labels_ == 1, detector.predict(rows) == -1)
    assert detector.labels_.sum() == 10


def test_the_rejected_share_of_new_rows_is_the_contamination():
    """If the score of a training row included the row itself, a much larger share of new rows than the contamination would be rejected."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 6)).astype(np.float32)
    detector = NuqOutlierDetector(contamination=0.1, density="kde").fit(x)
    rejected = (detector.predict(rng.normal(size=(3000, 6))) == -1).mean()
    # The tolerance is six standard deviations of the difference of two shares of 0.1.
    assert abs(rejected - 0.1) < 6 * np.sqrt(2 * 0.1 * 0.9 / 3000)


def test_a_repeated_training_row_is_scored_with_its_other_copy(rows):
    doubled = np.concatenate([rows, rows[:5]])
    detector = NuqOutlierDetector(density="kde", density_bandwidth=0.5).fit(doubled)
    np.testing.assert_array_equal(detector.decision_scores_[:5], detector.decision_scores_[200:])
    np.testing.assert_array_equal(-detector.score_samples(rows[:5]), detector.decision_scores_[:5])


def test_files_and_pickles_keep_the_detector(detector, rows, tmp_path):
    path = tmp_path / "detector.nuq"
    detector.save(path)
    for copy in (NuqOutlierDetector.load(path), pickle.loads(pickle.dumps(detector))):
        assert copy.contamination == 0.05 and copy.offset_ == detector.offset_
        np.testing.assert_array_equal(copy.score_samples(rows[:9] + 0.1), detector.score_samples(rows[:9] + 0.1))
        np.testing.assert_array_equal(copy.labels_, detector.labels_)
    opened = nuq.load(path)
    assert isinstance(opened, NuqClassifier)
    new = rows + np.float32(0.25)
    np.testing.assert_array_equal(opened.accept(new, "contamination"), detector.predict(new) == 1)
    assert opened.thresholds_["contamination"].statement.startswith("Chosen on training rows")


def test_other_files_are_rejected(fitted, blobs, tmp_path):
    path = tmp_path / "model.nuq"
    # A classifier is not a detector, even if it has a threshold with the name of the detector's threshold, "contamination".
    named = pickle.loads(pickle.dumps(fitted))
    named.calibrate(blobs[0] + np.float32(0.01), coverage=0.9, name="contamination")
    for model in (fitted, named):
        model.save(path)
        with pytest.raises(InvalidInputError, match=r"model\.nuq is not the file of a NuqOutlierDetector"):
            NuqOutlierDetector.load(path)


@pytest.mark.parametrize(("value", "error"), [(0, OutOfRangeError), (0.6, OutOfRangeError), (float("nan"), OutOfRangeError), ("auto", ParameterTypeError)])
def test_invalid_contamination_is_an_error(rows, value, error):
    with pytest.raises(error, match="contamination="):
        NuqOutlierDetector(contamination=value).fit(rows)


@pytest.mark.parametrize("name", ["decision_scores_", "offset_", "threshold_", "labels_", "n_features_in_"])
def test_attributes_before_fit_raise_not_fitted_errors(name):
    with pytest.raises(NotFittedError, match="not fitted"):
        getattr(NuqOutlierDetector(), name)


def test_fit_gives_no_warning_about_equal_labels(rows, recwarn):
    NuqOutlierDetector().fit(rows)
    assert not [str(warning.message) for warning in recwarn]


def test_column_names_are_stored_and_compared(rows):
    pandas = pytest.importorskip("pandas")
    detector = NuqOutlierDetector().fit(pandas.DataFrame(rows, columns=["a", "b", "c"]))
    assert detector.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ColumnNamesError, match="a, c"):
        detector.predict(pandas.DataFrame(rows, columns=["a", "c", "b"]))


def test_the_threshold_of_another_fit_is_reported(rows):
    detector = NuqOutlierDetector().fit(rows)
    threshold = detector.model_.thresholds_["contamination"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        detector.model_.accept(rows, threshold)
    detector.fit(rows[:150])
    with pytest.warns(UserWarning, match="was chosen for another model"):
        detector.model_.accept(rows, threshold)


def test_training_rows_are_still_left_out_of_their_scores_after_a_removal(rows):
    detector = NuqOutlierDetector().fit(rows)
    detector.model_.remove([0, 5])
    remaining = np.delete(rows, [0, 5], axis=0)
    np.testing.assert_array_equal(detector.score_samples(remaining), detector.model_.leave_one_out().log_density)


def test_the_offset_and_the_file_follow_changed_rows_of_the_model(rows, tmp_path):
    detector = NuqOutlierDetector(contamination=0.05, density="kde").fit(rows[:190])
    model, new, offsets = detector.model_, rows + np.float32(0.25), [detector.offset_]
    # The isolated rows are inserted, and then removed. Each change deletes the threshold that is stored in the model.
    changes = {"inserted": lambda: model.partial_fit(rows[190:], np.zeros(10, np.int64)), "removed": lambda: model.remove(np.arange(190, 200))}
    for name, change in changes.items():
        change()
        scores = model.leave_one_out().log_density
        assert detector.offset_ == -detector.threshold_ == np.percentile(scores, 5.0)
        np.testing.assert_array_equal(detector.labels_, (scores < detector.offset_).astype(int))
        path = tmp_path / f"{name}.nuq"
        detector.save(path)
        opened = NuqOutlierDetector.load(path)
        assert opened.contamination == 0.05 and opened.offset_ == detector.offset_
        np.testing.assert_array_equal(opened.labels_, detector.labels_)
        np.testing.assert_array_equal(opened.predict(new), detector.predict(new))
        stored = opened.model_.thresholds_["contamination"]
        assert stored.n_samples == len(scores) and stored == model.thresholds_["contamination"]
        offsets.append(detector.offset_)
    assert offsets[1] < min(offsets[0], offsets[2])
    # A detector from a file behaves the same.
    opened.model_.remove([0, 5])
    assert opened.offset_ == np.percentile(opened.model_.leave_one_out().log_density, 5.0)
    opened.save(tmp_path / "again.nuq")
    assert NuqOutlierDetector.load(tmp_path / "again.nuq").offset_ == opened.offset_


def test_rows_of_another_class_are_not_saved_as_a_detector(rows, tmp_path):
    detector = NuqOutlierDetector(density="kde").fit(rows[:190])
    detector.model_.partial_fit(rows[190:], np.ones(10, np.int64))
    with pytest.raises(InvalidInputError, match=r"model_ has the classes \[0, 1\].*fit the detector again"):
        detector.save(tmp_path / "detector.nuq")
    assert not list(tmp_path.iterdir())


def test_an_n_jobs_that_is_set_after_the_fit_is_used(rows):
    detector = NuqOutlierDetector(n_jobs=1).fit(rows)
    detector.n_jobs = 0
    with pytest.raises(OutOfRangeError, match="n_jobs=0"):
        detector.predict(rows)


def test_n_jobs_of_the_detector_and_of_its_model_are_independent(rows):
    detector = NuqOutlierDetector(n_jobs=1).fit(rows)
    detector.model_.n_jobs = 0
    for n_jobs in (1, None, 2):
        detector.set_params(n_jobs=n_jobs).predict(rows)
        assert detector.model_.n_jobs == 0
    with pytest.raises(OutOfRangeError, match="n_jobs=0"):
        detector.model_.predict(rows)


@pytest.mark.parametrize("end", ["success", "interrupt", "failure of another change"])
def test_an_offset_that_is_read_during_a_change_is_not_kept(rows, end):
    """Another thread may read the offset after the change has begun, and before the rows have changed."""
    detector = NuqOutlierDetector(contamination=0.05, density="kde").fit(rows)
    model = detector.model_
    change, other = model._changing(), model._changing()
    change.__enter__()
    before = detector.offset_
    if end == "failure of another change":
        other.__enter__()
    model._model.remove(list(range(190, 200)), None)
    error = KeyboardInterrupt() if end == "interrupt" else None
    change.__exit__(error and type(error), error, None)
    if end == "failure of another change":
        failure = NuqError("invalid rows")
        assert not other.__exit__(NuqError, failure, None)
    scores = model.leave_one_out().log_density
    assert detector.offset_ == np.percentile(scores, 5.0) > before
    np.testing.assert_array_equal(detector.decision_scores_, -scores)


def test_the_diagram_does_not_compute_an_offset_that_is_not_known(rows, monkeypatch):
    detector = NuqOutlierDetector(density="kde").fit(rows[:190])
    assert f"outlier if log density &lt; {detector.offset_:.4g}" in detector._repr_html_()
    detector.model_.partial_fit(rows[190:], np.zeros(10, np.int64))
    with monkeypatch.context() as patch:
        patch.setattr(NuqClassifier, "leave_one_out", lambda self: pytest.fail("all training rows were searched"))
        assert "outlier if log density &lt; offset_" in detector._repr_html_()
    assert f"outlier if log density &lt; {detector.offset_:.4g}" in detector._repr_html_()


def test_an_assigned_offset_is_used_until_the_rows_change(rows, tmp_path):
    detector = NuqOutlierDetector(contamination=0.05, density="kde").fit(rows)
    computed, lower = detector.offset_, float(np.sort(detector.score_samples(rows))[4])
    detector.offset_ = np.float64(lower)
    for one in (detector, pickle.loads(pickle.dumps(detector))):
        assert one.offset_ == -one.threshold_ == lower
        assert (one.predict(rows) == -1).sum() == one.labels_.sum() == (detector.score_samples(rows) < lower).sum()
    detector.save(tmp_path / "detector.nuq")
    assert NuqOutlierDetector.load(tmp_path / "detector.nuq").offset_ == computed
    detector.model_.remove([0])
    expected = np.percentile(detector.model_.leave_one_out().log_density, 5.0)
    assert detector.offset_ == expected
    # After a change of the rows, the file also contains the computed threshold, not the assigned one.
    detector.offset_ = lower
    detector.save(tmp_path / "changed.nuq")
    assert NuqOutlierDetector.load(tmp_path / "changed.nuq").offset_ == expected
    with pytest.raises(ParameterTypeError, match="offset_='low'"):
        detector.offset_ = "low"
    with pytest.raises(NotFittedError, match="not fitted"):
        NuqOutlierDetector().offset_ = 0.0


def test_pickles_of_earlier_versions_can_be_loaded(rows):
    """Earlier versions stored the offset as an attribute, and did not store the contamination that was valid during the fit."""
    detector = NuqOutlierDetector(contamination=0.05, density="kde").fit(rows)
    state = {name: value for name, value in detector.__dict__.items() if name not in ("_offset", "_fitted_share")}
    state["offset_"] = detector.offset_
    older = NuqOutlierDetector.__new__(NuqOutlierDetector)
    older.__setstate__(pickle.loads(pickle.dumps(state)))
    assert older.offset_ == detector.offset_
    np.testing.assert_array_equal(older.predict(rows), detector.predict(rows))
    older.model_.remove([0, 5])
    assert older.offset_ == np.percentile(older.model_.leave_one_out().log_density, 5.0)
    assert pickle.loads(pickle.dumps(older)).offset_ == older.offset_

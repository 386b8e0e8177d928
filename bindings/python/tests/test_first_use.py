"""Mistakes that are easy to make at first use give errors or warnings."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor, baselines
from nuq.errors import InvalidInputError, InvalidParameterError, MissingInputError, NotNumbersError


@pytest.fixture(scope="module")
def models(blobs):
    x, y = blobs
    return NuqClassifier(n_neighbors=5).fit(x[::2], y[::2]), NuqRegressor(n_neighbors=5).fit(x[::2], x[::2, 0])


def test_calibration_and_evaluation_on_training_rows_give_a_warning(blobs, models):
    x, y = blobs
    for model in models:
        with pytest.warns(UserWarning, match="150 of 150 rows equal training rows"):
            threshold = model.calibrate(x[::2], coverage=0.9)
        assert threshold.statement.startswith("Chosen on training rows (150 of 150), so that")
        assert pickle.loads(pickle.dumps(threshold)) == threshold
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.calibrate(x[1::2], coverage=0.9)
    with pytest.warns(UserWarning, match="rows equal training rows"):
        nuq.evaluate(models[0], x, y, resamples=10)


def test_statements_of_sets_and_intervals_mention_training_rows(blobs, models):
    x, y = blobs
    classifier, regressor = models
    with pytest.warns(UserWarning, match="equal training rows"):
        rules = classifier.calibrate(x[::2], y[::2], sets=0.9), regressor.calibrate(x[::2], x[::2, 0], intervals=0.9)
    for rule in rules:
        assert rule.statement.startswith("Chosen on training rows (150 of 150)")
        assert pickle.loads(pickle.dumps(rule)) == rule


@pytest.mark.parametrize("kind", [NuqClassifier, NuqRegressor])
def test_weights_that_are_shares_give_a_warning(blobs, kind):
    x, y = blobs
    # The first partial_fit is a fit.
    for method in ("fit", "partial_fit"):
        with pytest.warns(UserWarning, match="300 rows has the sum 1: a row with weight w counts as w identical rows") as caught:
            getattr(kind(), method)(x, y, sample_weight=np.full(300, 1 / 300))
        assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", [NuqClassifier, NuqRegressor])
def test_small_weights_of_a_score_or_of_inserted_rows_give_no_warning(blobs, kind):
    x, y = blobs
    model = kind().fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.score(x, y, sample_weight=np.full(300, 1 / 300)) == pytest.approx(model.score(x, y))
        model.partial_fit(x[:10], y[:10], sample_weight=np.full(10, 0.01))


def test_a_temperature_at_its_limit_gives_a_warning(blobs):
    x, y = blobs
    model = NuqClassifier(n_neighbors=5).fit(x, y)
    with pytest.warns(UserWarning, match="0.01 is at the limit of its range; smaller ones have a higher likelihood"):
        model.fit_temperature(np.eye(3)[y], y)


def test_thresholds_of_classifiers_and_regressors_cannot_be_exchanged(blobs, models, tmp_path):
    x = blobs[0][1::2]
    classifier, regressor = models
    for model, other, name in ((classifier, regressor, "classifier"), (regressor, classifier, "regressor")):
        threshold = model.calibrate(x, coverage=0.9, name="main")
        model.save(tmp_path / "model.nuq")
        stored = nuq.load(tmp_path / "model.nuq").thresholds_["main"]
        for one in (threshold, stored, model.thresholds_["main"], pickle.loads(pickle.dumps(threshold))):
            assert one.accept(model.predict_uncertainty(x)).mean() > 0.8
            with pytest.raises(InvalidInputError, match=f"calibrated for a {name}"):
                one.accept(other.predict_uncertainty(x))
            with pytest.raises(InvalidInputError, match=f"calibrated for a {name}"):
                other.accept(x, one)


def test_a_risk_target_requires_a_classifier(blobs, models):
    with pytest.raises(InvalidParameterError, match="requires a classifier"):
        models[1].calibrate(blobs[0][1::2], risk=0.1)


def test_labels_or_targets_that_are_all_equal_give_a_warning(blobs):
    x = blobs[0]
    with pytest.warns(UserWarning, match="all labels are equal"):
        NuqClassifier().fit(x, np.zeros(300, int))
    with pytest.warns(UserWarning, match="all targets are equal"):
        NuqRegressor().fit(x, np.full(300, 2.5))


def test_labels_that_are_probably_targets_give_a_warning(blobs):
    x = blobs[0]
    with pytest.warns(UserWarning, match="300 classes in 300 rows, and all labels are integers: .* fit a NuqRegressor"):
        NuqClassifier().fit(x, np.arange(300))


def test_text_as_targets_is_an_error(blobs):
    x = blobs[0]
    for text in (["1.5"] * 300, np.array(["1", "2", "3"] * 100, dtype=object), [b"1"] * 300):
        with pytest.raises(NotNumbersError, match="y is text"):
            NuqRegressor().fit(x, text)


def test_the_error_message_names_the_missing_input(blobs):
    x, _ = blobs
    with pytest.raises(MissingInputError, match=r"Energy needs logits: call score\(logits=\.\.\.\)"):
        baselines.Energy().score(x)
    with pytest.raises(MissingInputError, match=r"KnnDistance needs X: call score\(X=\.\.\.\)"):
        baselines.KnnDistance().fit(x).score()


def test_evaluate_and_baselines_accept_pipelines(blobs):
    pytest.importorskip("sklearn")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = blobs
    pipeline = make_pipeline(StandardScaler(), NuqClassifier(n_neighbors=5)).fit(x[::2], y[::2])
    model, rows = nuq.final_step(pipeline, x[1::2])
    far = x[1::2] + 9
    through = nuq.evaluate(pipeline, x[1::2], y[1::2], ood={"far": far}, resamples=10)
    direct = nuq.evaluate(model, rows, y[1::2], ood={"far": nuq.final_step(pipeline, far)[1]}, resamples=10)
    assert through.methods[0].roc_auc["far"].value == direct.methods[0].roc_auc["far"].value
    distances = make_pipeline(StandardScaler(), baselines.Mahalanobis()).fit(x, y)
    baseline, rows = nuq.final_step(distances, x)
    np.testing.assert_array_equal(distances.score(x), baseline.score(rows))
    with pytest.raises(nuq.errors.ParameterTypeError, match="baseline"):
        nuq.predict_uncertainty(distances, x)


def test_column_names_of_baselines_are_stored_and_compared(blobs, tmp_path):
    pandas = pytest.importorskip("pandas")
    x, y = blobs
    frame = pandas.DataFrame(x, columns=list("abcde"))
    for baseline in (baselines.Mahalanobis().fit(frame, y), baselines.KnnDistance().fit(frame), baselines.Vim().fit(frame, x)):
        baseline.save(tmp_path / "baseline.nuq")
        for one in (baseline, nuq.load(tmp_path / "baseline.nuq"), pickle.loads(pickle.dumps(baseline))):
            rest = [x] if isinstance(one, baselines.Vim) else []
            np.testing.assert_array_equal(one.score(frame, *rest), baseline.score(frame, *rest))
            with pytest.raises(nuq.errors.ColumnNamesError, match="column 0 is `e`"):
                one.score(frame[list("edcba")], *rest)


def test_repeated_column_names_are_errors(blobs):
    pandas = pytest.importorskip("pandas")
    x, y = blobs
    frame = pandas.DataFrame(x, columns=list("abcda"))
    for fit in (NuqClassifier().fit, NuqRegressor().fit, baselines.Mahalanobis().fit):
        with pytest.raises(nuq.errors.ColumnNamesError, match="columns 0 and 4 are both named `a`"):
            fit(frame, y)


def test_more_neighbors_than_rows_give_a_warning(blobs):
    x = blobs[0]
    with pytest.warns(UserWarning, match="n_neighbors=400: there are only 300 rows"):
        baselines.KnnDistance(n_neighbors=400).fit(x)

"""The classifier, the regressor and the transformer follow the conventions of scikit-learn without inheriting from it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import nuq
from nuq import NuqClassifier, NuqRegressor, NuqTransformer

_REPEATED = (
    "the copies of a repeated row count as several of the K neighbors, and leave-one-out omits only one of them; if K is at least "
    "the number of rows and the bandwidth is given, the check passes (test_sample_weight.py)"
)
#: Checks of scikit-learn that are expected to fail, with the reason.
EXPECTED_FAILURES: dict[str, str] = {"check_sample_weight_equivalence_on_dense_data": _REPEATED}


@pytest.mark.parametrize("estimator", [NuqClassifier(), NuqRegressor()], ids=repr)
@pytest.mark.filterwarnings("ignore")
def test_the_estimator_checks_of_scikit_learn_pass(estimator):
    results = check_estimator(estimator, expected_failed_checks=EXPECTED_FAILURES, on_skip=None)
    assert len(results) > 40
    skipped = {result["check_name"] for result in results if result["status"] not in ("passed", "xfail")}
    # scikit-learn runs the skipped checks only with array API dispatch enabled.
    assert all("array_api" in name for name in skipped), skipped


def test_scikit_learn_recognizes_the_types():
    assert is_classifier(NuqClassifier()) and not is_regressor(NuqClassifier())
    assert is_regressor(NuqRegressor()) and not is_classifier(NuqRegressor())


def test_clone_copies_parameters_but_not_the_fit(blobs):
    fitted = NuqClassifier(n_neighbors=7).fit(*blobs)
    model = clone(fitted)
    assert model.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        model.predict([[0.0] * 5])
    changed = clone(NuqClassifier.paper(n_neighbors=7, bandwidth=[0.1, 0.2]))
    assert changed.n_neighbors == 7 and changed.variance == "max" and changed.bandwidth == [0.1, 0.2]


def test_an_estimator_can_be_the_last_step_of_a_pipeline(blobs):
    x, y = blobs
    pipeline = make_pipeline(StandardScaler(), NuqClassifier(n_neighbors=10)).fit(x, y)
    assert pipeline.score(x, y) > 0.9
    assert pipeline.predict_proba(x).shape == (300, 3)
    assert pipeline[:-1].transform(x).shape == x.shape


@pytest.mark.parametrize("nested", ["pipeline", "search of a pipeline", "pipeline with a search", "pipeline in a pipeline", "one step", "passthrough"])
def test_uncertainties_of_pipelines_agree_with_their_predictions(blobs, nested):
    x, y = blobs
    grid = {"nuqclassifier__n_neighbors": [5, 10]}
    scaled = make_pipeline(StandardScaler(), NuqClassifier(n_neighbors=10))
    estimator = {
        "pipeline": scaled,
        "search of a pipeline": GridSearchCV(scaled, grid, cv=2),
        "pipeline with a search": make_pipeline(StandardScaler(), GridSearchCV(NuqClassifier(), {"n_neighbors": [5, 10]}, cv=2)),
        "pipeline in a pipeline": make_pipeline(StandardScaler(), scaled),
        "one step": make_pipeline(NuqClassifier(n_neighbors=10)),
        "passthrough": make_pipeline("passthrough", NuqClassifier(n_neighbors=10)),
    }[nested].fit(x, y)
    result = nuq.predict_uncertainty(estimator, x)
    np.testing.assert_array_equal(result.label, estimator.predict(x))
    np.testing.assert_allclose(result.probability, estimator.predict_proba(x).max(axis=1), rtol=1e-12)
    model, rows = nuq.final_step(estimator, x)
    assert isinstance(model, NuqClassifier)
    np.testing.assert_array_equal(model.predict_uncertainty(rows).log_epistemic, result.log_epistemic)
    np.testing.assert_array_equal(model.accept(rows, cost=0.1), 1 - result.probability <= 0.1)


def test_results_of_a_pipeline_keep_the_index_of_a_data_frame(blobs):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(blobs[0], columns=list("abcde"), index=[f"row {i}" for i in range(300)])
    pipeline = make_pipeline(StandardScaler(), NuqRegressor()).fit(frame, frame["a"])
    result = nuq.predict_uncertainty(pipeline, frame)
    np.testing.assert_array_equal(result.mean, pipeline.predict(frame))
    assert result.to_pandas().index.equals(frame.index)


def test_a_threshold_of_a_changed_pipeline_is_reported(blobs):
    """A result stores the revision of the model that computed it, so that later changes of the training rows are noticed. For a data frame,
    ``nuq.predict_uncertainty`` creates a second result with the row index of the frame; it must have the same revision."""
    pandas = pytest.importorskip("pandas")
    x, y = blobs
    frame = pandas.DataFrame(x, columns=list("abcde"), index=[f"row {i}" for i in range(300)])
    pipeline = make_pipeline(StandardScaler(), NuqClassifier()).fit(frame.iloc[::2], y[::2])
    model, held_out = nuq.final_step(pipeline, frame.iloc[1::2])
    threshold = model.calibrate(held_out, coverage=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threshold.accept(nuq.predict_uncertainty(pipeline, frame))
    model.remove([0])
    with pytest.warns(UserWarning, match="was chosen for another model, or before rows were inserted or removed"):
        threshold.accept(nuq.predict_uncertainty(pipeline, frame))


def test_estimators_without_a_fitted_nuq_estimator_at_the_end_are_errors(blobs):
    x, y = blobs
    with pytest.raises(nuq.errors.ParameterTypeError, match="LogisticRegression"):
        nuq.predict_uncertainty(make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y), x)
    search = GridSearchCV(NuqClassifier(), {"n_neighbors": [5]}, cv=2)
    with pytest.raises(nuq.errors.NotFittedError, match="best_estimator_"):
        nuq.predict_uncertainty(search, x)
    with pytest.raises(nuq.NuqError):
        nuq.predict_uncertainty(make_pipeline(NuqClassifier()), x)


def test_estimators_can_be_cross_validated(blobs):
    x, y = blobs
    assert cross_val_score(NuqClassifier(), x, y, cv=3).mean() > 0.9
    shuffled = x[np.random.default_rng(0).permutation(300)]
    targets = shuffled[:, 0] + shuffled[:, 1]
    assert cross_val_score(NuqRegressor(n_neighbors=5), shuffled, targets, cv=3, scoring="r2").mean() > 0.5


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_grid_search_chooses_among_bandwidths_of_all_kinds(blobs, n_jobs):
    x, y = blobs
    # The grid may contain numpy scalars too.
    grid = {"bandwidth": [0.5, 1, np.float32(2.0), np.int64(3), "silverman", "log_likelihood"]}
    search = GridSearchCV(NuqClassifier(), grid, cv=3, n_jobs=n_jobs, error_score="raise").fit(x, y)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.classes_.tolist() == [0, 1, 2]


def test_column_names_are_recorded_and_compared(blobs):
    pandas = pytest.importorskip("pandas")
    x, y = blobs
    frame = pandas.DataFrame(x, columns=list("abcde"))
    model = NuqClassifier().fit(frame, pandas.Series(y))
    assert model.feature_names_in_.tolist() == list("abcde")
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame.astype("float64")))
    with pytest.raises(nuq.errors.InvalidInputError, match="order"):
        model.predict(frame[list("edcba")])


def test_fitted_attributes_describe_the_fit(fitted, blobs):
    x, _ = blobs
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.n_features_in_ == 5
    assert fitted.n_samples_fit_ == 300
    assert fitted.bandwidth_ > 0 and fitted.density_bandwidth_ > 0
    assert 0 < fitted.dimension_ <= 5.5
    assert "exact" in fitted.index_
    curve = fitted.bandwidth_curve_
    assert curve["bandwidth"][curve["chosen"]] == fitted.bandwidth_
    assert curve["log_likelihood"].argmax() == curve["chosen"]


def test_shapes_and_signs_of_predictions_follow_the_conventions(fitted, blobs):
    x, y = blobs
    probability = fitted.predict_proba(x)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(probability.argmax(axis=1), fitted.predict(x))
    log_probability = fitted.predict_log_proba(x)
    np.testing.assert_allclose(log_probability, np.log(probability), rtol=1e-14)
    np.testing.assert_array_equal(np.argsort(log_probability), np.argsort(probability))
    assert (NuqClassifier.paper(bandwidth=0.3).fit(x, y).predict_log_proba(x) == -np.inf).any()
    # The three values have the same rounded logarithm, and two of them are equal.
    rounded = np.array([[0.3333333333333332, 0.33333333333333326, 0.33333333333333326]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NuqClassifier, "predict_proba", lambda model, rows: rounded)
        smaller, larger, equal = fitted.predict_log_proba(x[:1])[0]
    assert smaller < larger == equal
    far = x + 100
    assert fitted.score_samples(x).min() > fitted.score_samples(far).max()
    assert fitted.decision_function(x).shape == (300, 3)
    two = NuqClassifier().fit(x[:200], y[:200])
    np.testing.assert_array_equal(two.decision_function(x[:200]) > 0, two.predict(x[:200]) == 1)


def test_repr_contains_changed_parameters():
    assert repr(NuqClassifier()) == "NuqClassifier()"
    assert repr(NuqClassifier(n_neighbors=5, bandwidth=0.5)) == "NuqClassifier(n_neighbors=5, bandwidth=0.5)"
    assert "array" in repr(NuqClassifier(bandwidth=np.ones(2)))
    transformer = NuqTransformer(NuqClassifier(n_neighbors=2))
    assert repr(transformer) == "NuqTransformer(estimator=NuqClassifier(n_neighbors=2))"
    assert "NuqTransformer" in transformer._repr_html_()
    assert "NuqTransformer" in transformer.fit([[0.0], [1.0], [2.0]], [0, 1, 1])._repr_html_()
    with pytest.raises(nuq.errors.InvalidParameterError, match="Invalid parameter 'k' for estimator NuqTransformer"):
        transformer.set_params(k=3)


_LEFT_OUT = "fit_transform computes the features of each training row from the other rows; transform uses all rows"


@pytest.mark.filterwarnings("ignore")
def test_the_estimator_checks_of_the_transformer_pass():
    checks = ("check_transformer_general", "check_transformer_data_not_an_array")
    results = check_estimator(
        NuqTransformer(), expected_failed_checks={**EXPECTED_FAILURES, **dict.fromkeys(checks, _LEFT_OUT)}, on_skip=None
    )
    skipped = {result["check_name"] for result in results if result["status"] not in ("passed", "xfail")}
    assert all("array_api" in name for name in skipped), skipped


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_the_transformer_returns_columns_of_the_result(blobs, package):
    module = pytest.importorskip(package)
    x, y = blobs
    transformer = NuqTransformer(NuqClassifier(n_neighbors=7)).fit(x, y)
    result = transformer.estimator_.predict_uncertainty(x)
    expected = np.column_stack([result[name] for name in transformer.get_feature_names_out()])
    np.testing.assert_array_equal(transformer.transform(x), expected)
    frame = clone(transformer.set_output(transform=package)).fit(x, y).transform(x)
    assert isinstance(frame, module.DataFrame) and list(frame.columns) == list(transformer.get_feature_names_out())
    np.testing.assert_array_equal(frame.to_numpy(), expected)
    with sklearn.config_context(transform_output=package):
        assert isinstance(NuqTransformer().fit(x, y).transform(x), module.DataFrame)


def test_transformer_leaves_out_each_training_row(blobs):
    x, y = blobs
    features = NuqTransformer(NuqRegressor()).fit_transform(x, x[:, 0])
    without = NuqRegressor().fit(x, x[:, 0]).leave_one_out()
    np.testing.assert_array_equal(features[:, 0], without["mean"])
    search = GridSearchCV(
        make_pipeline(NuqTransformer(NuqClassifier()), StandardScaler(), LogisticRegression()),
        {"nuqtransformer__estimator__n_neighbors": [5, 20]},
        cv=3,
    )
    assert search.fit(x, y == 1).best_score_ > 0.6
    with pytest.raises(nuq.errors.ParameterTypeError, match="estimator='nuq'"):
        NuqTransformer("nuq").fit(x, y)

"""Decisions: the reject option, thresholds with guarantees, p-values."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor
from nuq.calibrate import benjamini_hochberg, conformal_p_values
from nuq.errors import CannotCertifyError, InvalidInputError, InvalidParameterError, NotFiniteError


@pytest.fixture(scope="module")
def model(cifar10):
    return NuqClassifier().fit(cifar10["train"]["embeddings"], cifar10["train"]["labels"])


def test_a_rule_is_not_stored_if_another_thread_changes_the_model_during_calibrate(blobs, monkeypatch):
    x, y = blobs
    # `calibrate` calls this function between the prediction and the storage of the rule.
    check = nuq._base.Estimator._warn_training_rows

    def change_and_check(model, rows):
        model.remove(model.training_ids_[:1])
        return check(model, rows)

    monkeypatch.setattr(nuq._base.Estimator, "_warn_training_rows", change_and_check)
    for kind, target in ((NuqClassifier, {"coverage": 0.9}), (NuqRegressor, {"coverage": 0.9}), (NuqRegressor, {"intervals": 0.9})):
        model = kind().fit(x[:200], y[:200])
        with pytest.raises(InvalidParameterError, match="another thread has changed the model"):
            model.calibrate(x[200:], y[200:], name="main", **target)
        assert not model._rules()["Thresholds"] and not any(model._rules().values())
        threshold = model.calibrate(x[200:], y[200:], **target)
        apply = model.predict_interval if "intervals" in target else model.accept
        with pytest.warns(UserWarning, match="was chosen for another model"):
            apply(x[200:], threshold)


def rename_class(model):
    """Give class 2 the label -1. The number of classes remains, and the number of every class changes."""
    labels = model.training_labels_
    if (labels == 2).any():
        model.relabel(model.training_ids_[labels == 2], np.full((labels == 2).sum(), -1))


WITH_OUTPUTS = {
    "predict_uncertainty": lambda model, x, y, rule, logits: model.predict_uncertainty(x, logits=logits),
    "accept": lambda model, x, y, rule, logits: model.accept(x, cost=0.1, logits=logits),
    "calibrate": lambda model, x, y, rule, logits: model.calibrate(x, y, sets=0.9, logits=logits),
    "predict_set": lambda model, x, y, rule, logits: model.predict_set(x, rule, logits=logits),
    "fit_temperature": lambda model, x, y, rule, logits: model.fit_temperature(logits, y),
}


@pytest.mark.parametrize("name", WITH_OUTPUTS)
@pytest.mark.filterwarnings("ignore:.* equal training rows")
def test_outputs_of_a_network_are_not_assigned_to_classes_that_another_thread_has_changed(blobs, monkeypatch, name):
    x, y = blobs
    logits = np.eye(3)[y]
    model = NuqClassifier().fit(x, y)
    rule = model.calibrate(x, y, sets=0.9, logits=logits)
    # This function is called after the classes were read that determine the order of the columns.
    check = nuq._classifier.check_class_columns

    def change_after(*arguments):
        check(*arguments)
        rename_class(model)

    monkeypatch.setattr(nuq._classifier, "check_class_columns", change_after)
    with pytest.raises(InvalidParameterError, match="another thread has changed the classes of the model"):
        WITH_OUTPUTS[name](model, x, y, rule, logits)


def test_errors_are_counted_with_the_classes_before_a_change(blobs, monkeypatch):
    x, y = blobs
    numbers = NuqClassifier._class_numbers

    def change_after(model, y, rows=None):
        result = numbers(model, y, rows)
        rename_class(model)
        return result

    # `score` calls this function after the prediction, and `calibrate` calls it before.
    monkeypatch.setattr(NuqClassifier, "_class_numbers", change_after)
    model = NuqClassifier().fit(x, y)
    expected = np.mean(model.predict(x) == y)
    assert model.score(x, y) == expected > 0.8
    model = NuqClassifier().fit(x, y)
    with pytest.raises(InvalidParameterError, match="another thread has changed the model"):
        model.calibrate(x + np.float32(0.01), y, risk=0.6, name="main")
    assert not model.thresholds_
    model = NuqClassifier().fit(x, y)
    threshold = model.calibrate(x + np.float32(0.01), y, risk=0.6)
    with pytest.warns(UserWarning, match="was chosen for another model"):
        model.accept(x, threshold)


def test_targets_of_a_regressor_are_checked_even_if_the_threshold_does_not_need_them(blobs):
    x, y = blobs
    model = NuqRegressor().fit(x[:200], y[:200])
    with pytest.raises(nuq.errors.LengthMismatchError):
        model.calibrate(x[200:], y[:3], coverage=0.9)
    with pytest.raises(nuq.errors.NotNumbersError):
        model.calibrate(x[200:], ["text"] * len(x[200:]), false_alarm=0.1)


def test_rows_whose_error_probability_is_at_most_the_cost_are_accepted(fitted, blobs):
    x, _ = blobs
    probability = fitted.predict_uncertainty(x).probability
    np.testing.assert_array_equal(fitted.accept(x, cost=0.1), 1 - probability <= 0.1)
    # With a level, an upper confidence bound of the probability of an error is compared with the cost (Algorithm 2 of the paper). Every
    # row that is accepted with a level is therefore also accepted without it.
    assert (fitted.accept(x, cost=0.1, level=0.05) <= fitted.accept(x, cost=0.1)).all()
    assert not fitted.accept(x * 1000, cost=0.1, level=0.05).any()


def test_the_rate_of_false_alarms_is_close_to_the_target(model, cifar10):
    threshold = model.calibrate(cifar10["held_out"]["embeddings"], false_alarm=0.05)
    assert threshold.measure == "epistemic" and threshold.n_samples == 1000
    assert "95 %" in threshold.statement and threshold.statement in repr(threshold)
    held_out = model.predict_uncertainty(cifar10["held_out"]["embeddings"])
    np.testing.assert_array_equal(threshold.accept(held_out), held_out.log_epistemic <= threshold.value)
    assert 0.93 < model.accept(cifar10["test"]["embeddings"], threshold).mean() < 0.97
    assert model.accept(cifar10["svhn"]["embeddings"], threshold).mean() < 0.6


@pytest.mark.parametrize("measure, column, sign", [
    ("aleatoric", "aleatoric", 1),
    ("epistemic", "log_epistemic", 1),
    ("total", "log_total", 1),
    ("density", "log_density", -1),
])
def test_each_measure_compares_its_column(model, cifar10, measure, column, sign):
    held_out = cifar10["held_out"]["embeddings"]
    threshold = model.calibrate(held_out, coverage=0.8, measure=measure)
    assert threshold.measure == measure
    result = model.predict_uncertainty(held_out)
    np.testing.assert_array_equal(threshold.accept(result), sign * result[column] <= threshold.value)
    assert threshold.accept(result).mean() >= 0.8


def test_the_risk_of_accepted_rows_is_below_the_target(model, cifar10):
    held_out, test = cifar10["held_out"], cifar10["test"]
    threshold = model.calibrate(held_out["embeddings"], held_out["labels"], risk=0.05)
    assert threshold.measure == "total"
    accepted = model.accept(test["embeddings"], threshold)
    wrong = model.predict(test["embeddings"]) != test["labels"]
    assert accepted.mean() > 0.5 and wrong[accepted].mean() < 0.05
    with pytest.raises(CannotCertifyError):
        model.calibrate(held_out["embeddings"][:20], held_out["labels"][:20], risk=0.001)


def test_accept_takes_results_arrays_and_tables(model, cifar10):
    held_out = cifar10["held_out"]["embeddings"]
    result = model.predict_uncertainty(held_out)
    columns = {"aleatoric": result.aleatoric, "epistemic": result.log_epistemic, "total": result.log_total, "density": -result.log_density}
    for measure, values in columns.items():
        threshold = model.calibrate(held_out, coverage=0.8, measure=measure)
        expected = threshold.accept(result)
        np.testing.assert_array_equal(threshold.accept(values), expected)
        np.testing.assert_array_equal(threshold.accept(values.tolist()), expected)
        np.testing.assert_array_equal(threshold.accept(dict(result.items())), expected)
        np.testing.assert_array_equal(threshold.accept(result[:7]), expected[:7])
    pandas = pytest.importorskip("pandas")
    np.testing.assert_array_equal(threshold.accept(result.to_pandas()), expected)
    np.testing.assert_array_equal(threshold.accept(pandas.Series(values)), expected)
    with pytest.raises(InvalidInputError, match="column 'log_density' is missing"):
        threshold.accept({"total": result.total})
    with pytest.raises(NotFiniteError, match="row 1 "):
        threshold.accept([0.0, np.nan])


def test_several_thresholds_accept_only_rows_that_each_of_them_accepts(model, cifar10):
    held_out, test = cifar10["held_out"]["embeddings"], cifar10["test"]["embeddings"]
    model = pickle.loads(pickle.dumps(model))
    known = model.calibrate(held_out, false_alarm=0.05, name="known")
    clear = model.calibrate(held_out, coverage=0.8, measure="aleatoric")
    expected = known.accept(model.predict_uncertainty(test)) & clear.accept(model.predict_uncertainty(test))
    np.testing.assert_array_equal(model.accept(test, ["known", clear]), expected)
    assert expected.mean() < 0.85


def test_with_logits_the_risk_is_that_of_the_network(model, cifar10):
    held_out = cifar10["held_out"]
    arguments = held_out["embeddings"], held_out["labels"]
    own, network = (model.calibrate(*arguments, risk=0.06, logits=logits) for logits in (None, held_out["logits"]))
    assert "predictions of NUQ are wrong" in own.statement
    assert "predictions of the network are wrong" in network.statement
    assert pickle.loads(pickle.dumps(network)) == network != own


def test_every_row_is_accepted_if_the_risk_of_all_rows_is_low_enough_and_too_few_rows_are_an_error(model, cifar10):
    held_out = cifar10["held_out"]
    threshold = model.calibrate(held_out["embeddings"], held_out["labels"], risk=0.3)
    assert threshold.value == np.inf and "every row is accepted" in threshold.statement
    with pytest.raises(CannotCertifyError, match="15 held-out rows with the same share of errors are sufficient"):
        right = model.predict(held_out["embeddings"]) == held_out["labels"]
        model.calibrate(held_out["embeddings"][right][:10], held_out["labels"][right][:10], risk=0.3)


def test_too_few_rows_for_a_finite_threshold_are_a_warning(model, cifar10):
    few = cifar10["held_out"]["embeddings"][:10]
    with pytest.warns(UserWarning, match="with 10 held-out rows no finite threshold .* at least 19 held-out rows are needed") as caught:
        threshold = model.calibrate(few, false_alarm=0.05)
    assert threshold.value == np.inf and caught[0].filename == __file__


def test_named_thresholds_are_stored_in_the_file(model, cifar10, tmp_path):
    held_out = cifar10["held_out"]["embeddings"]
    threshold = model.calibrate(held_out, false_alarm=0.05, name="threshold")
    half = model.calibrate(held_out, coverage=0.5, name="half")
    assert model.thresholds_ == {"threshold": threshold, "half": half}
    model.save(tmp_path / "model.nuq")
    opened = nuq.load(tmp_path / "model.nuq")
    assert opened.thresholds_ == model.thresholds_
    np.testing.assert_array_equal(opened.accept(held_out, "half"), model.accept(held_out, half))
    # The guarantee holds only for the calibrated model, so an update removes the thresholds.
    opened.partial_fit(held_out[:1], ["cat"])
    assert opened.thresholds_ == {}


def test_thresholds_of_regressors_are_applied_and_stored(blobs, tmp_path):
    x, _ = blobs
    model = NuqRegressor().fit(x[::2], x[::2, 0])
    threshold = model.calibrate(x[1::2], coverage=0.9, name="most")
    assert model.accept(x[1::2], threshold).mean() >= 0.9
    result = model.predict_uncertainty(x)
    ambiguous = model.calibrate(x[1::2], coverage=0.5, measure="aleatoric")
    np.testing.assert_array_equal(ambiguous.accept(result), result.aleatoric <= ambiguous.value)
    model.save(tmp_path / "model.nuq")
    assert nuq.load(tmp_path / "model.nuq").thresholds_ == {"most": threshold}


def test_conformal_p_values_follow_the_formula_and_small_ones_are_alarms():
    rng = np.random.default_rng(0)
    calibration, scores = rng.normal(size=99), rng.normal(size=40)
    expected = [(1 + (calibration >= score).sum()) / 100 for score in scores]
    p = conformal_p_values(calibration, scores)
    np.testing.assert_allclose(p, expected, rtol=1e-15)
    alarms = benjamini_hochberg(np.append(p, [1e-4, 2e-4]), 0.1)
    assert alarms[-2:].all() and alarms.mean() < 0.3
    with pytest.raises(nuq.NuqError):
        benjamini_hochberg([2.0], 0.1)


def test_labels_of_another_kind_are_an_error(blobs):
    """Without the check, every prediction would count as wrong, because text and integers are never equal."""
    x, y = blobs
    model = NuqClassifier().fit(x, y)
    with pytest.raises(InvalidInputError, match='label "0" of row .* is text, and the classes of the model are integers'):
        model.score(x[y == 0], y[y == 0].astype(str))
    with pytest.raises(InvalidInputError, match="is text"):
        model.calibrate(x, y.astype(str), risk=0.2)
    with pytest.raises(InvalidInputError, match="is an integer, and the classes of the model are text"):
        NuqClassifier().fit(x, y.astype(str)).score(x, y)
    with pytest.raises(NotFiniteError):
        model.score(x, np.where(y == 0, np.nan, y))
    # Booleans cannot be the labels of three classes, fractions cannot be labels, and labels cannot be both integers and text.
    for labels in (y > 0, y + 0.5, np.where(y == 0, 0.5, y), np.array([1, "a"] * 150, dtype=object)):
        for call in (
            lambda labels: model.score(x, labels),
            lambda labels: model.calibrate(x, labels, risk=0.2),
            lambda labels: model.calibrate(x, labels, sets=0.9),
            lambda labels: model.fit_temperature(np.eye(3)[y], labels),
            lambda labels: nuq.evaluate(model, x, labels, resamples=100),
            lambda labels: NuqClassifier().fit(x, y).partial_fit(x, labels),
        ):
            with pytest.raises(InvalidInputError):
                call(labels)
    # If the classes are booleans, the integers 0 and 1 and the texts "False" and "True" are accepted as labels.
    booleans = NuqClassifier().fit(x, y > 0)
    assert booleans.score(x, y > 0) == booleans.score(x, (y > 0).astype(int)) == booleans.score(x, (y > 0).astype(str))
    with pytest.raises(InvalidInputError, match="is an integer, and the classes of the model are booleans"):
        booleans.score(x, y)


@pytest.mark.filterwarnings("ignore:.* equal training rows")
def test_labels_that_are_not_classes_are_reported(blobs):
    x, y = blobs
    model = NuqClassifier().fit(x, y)
    message = "200 of 300 labels are not classes of the model, for example 7, and count as errors; classes of the model are 0, 1, 2"
    unknown = np.where(y == 0, 0, 7)
    for call in (
        lambda: model.score(x, unknown),
        lambda: model.calibrate(x, unknown, risk=0.9),
        lambda: nuq.evaluate(model, x, unknown, resamples=100),
    ):
        with pytest.warns(UserWarning, match=message) as caught:
            call()
        assert caught[-1].filename == __file__
    with pytest.warns(UserWarning, match="300 of 300"), pytest.raises(InvalidInputError, match="no label in y is a class"):
        nuq.evaluate(model, x, y + 10, resamples=100)


@pytest.mark.filterwarnings("ignore:.* equal training rows")
def test_a_rule_that_was_chosen_for_other_training_rows_is_reported(blobs, tmp_path):
    """A guarantee holds only for a model with the training rows for which the rule was chosen."""
    x, y = blobs
    train, held_out = (x[::2], y[::2]), (x[1::2], y[1::2])

    def classifier():
        model = NuqClassifier().fit(*train)
        threshold, sets = model.calibrate(held_out[0], coverage=0.9), model.calibrate(*held_out, sets=0.9)
        calls = (
            lambda model: model.accept(x, threshold),
            lambda model: threshold.accept(model.predict_uncertainty(x)[:5]),
            lambda model: model.predict_set(x, sets),
            lambda model: model.predict_set(x, model.calibrate(*held_out, sets=0.9), threshold),
        )
        return model, calls

    def regressor():
        model = NuqRegressor().fit(*train)
        threshold, intervals = model.calibrate(held_out[0], coverage=0.9), model.calibrate(*held_out, intervals=0.9)
        return model, (lambda model: model.accept(x, threshold), lambda model: model.predict_interval(x, intervals))

    for create in (classifier, regressor):
        model, calls = create()
        model.save(tmp_path / "model.nuq")
        for same in (model, pickle.loads(pickle.dumps(model)), nuq.load(tmp_path / "model.nuq")):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for call in calls:
                    call(same)
        # Rejected changes of the training rows do not cause a warning.
        with pytest.raises(nuq.NuqError):
            model.partial_fit(x[:3], y[:2])
        with pytest.raises(nuq.NuqError):
            model.remove([10**6])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for call in calls:
                call(model)
        for change in (lambda: model.partial_fit(x[:1], y[:1]), lambda: model.remove([0]), lambda: model.fit(*train)):
            model, calls = create()
            change()
            for call in calls:
                with pytest.warns(UserWarning, match="was chosen for another model, or before rows were inserted or removed") as caught:
                    call(model)
                assert caught[0].filename == __file__
    loaded = nuq.load(tmp_path / "model.nuq")
    threshold = loaded.calibrate(held_out[0], coverage=0.9)
    loaded.partial_fit(x[:1], y[:1])
    with pytest.warns(UserWarning, match="was chosen for another model"):
        loaded.accept(x, threshold)
    # There is no warning for an array of scores, because it is not known which model computed it.
    threshold = model.calibrate(held_out[0], coverage=0.9)
    assert threshold.accept(model.partial_fit(x[:1], y[:1]).predict_uncertainty(x).log_total).any()


def test_delta_belongs_to_a_risk(fitted, blobs):
    with pytest.raises(InvalidParameterError, match="delta=0.1: it belongs to risk, not to coverage"):
        fitted.calibrate(blobs[0], coverage=0.5, delta=0.1)


def test_the_error_of_a_deleted_threshold_names_the_cause(blobs):
    x, y = blobs
    model = NuqClassifier().fit(x[:200], y[:200])
    model.calibrate(x[200:], coverage=0.9, name="guard")
    model.partial_fit(x[200:210], y[200:210])
    with pytest.raises(InvalidParameterError, match="partial_fit and remove delete thresholds"):
        model.accept(x, "guard")


@pytest.mark.parametrize(
    "measure, column",
    [("aleatoric", "aleatoric"), ("epistemic", "log_epistemic"), ("total", "log_total"), ("density", "-log_density")],
)
def test_the_text_of_a_threshold_names_the_compared_column(blobs, measure, column):
    x, y = blobs
    threshold = NuqClassifier().fit(x[:200], y[:200]).calibrate(x[200:], coverage=0.9, measure=measure)
    assert repr(threshold).startswith(f"Threshold({column} <= ")


def test_a_threshold_is_removed_by_its_name(blobs, tmp_path):
    x, y = blobs
    model = NuqClassifier(bandwidth=0.8).fit(x[:200], y[:200])
    model.calibrate(x[200:], coverage=0.9, name="first")
    model.calibrate(x[200:], coverage=0.8, name="second")
    assert model.remove_threshold("first") is model
    assert list(model.thresholds_) == ["second"]
    with pytest.raises(InvalidParameterError, match="name='first': the stored thresholds are 'second'"):
        model.remove_threshold("first")

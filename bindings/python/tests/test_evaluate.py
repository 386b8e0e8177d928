"""`evaluate` returns the same numbers as the metrics and baselines that it uses."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, baselines, metrics


@pytest.fixture(scope="module")
def model(cifar10):
    return NuqClassifier().fit(cifar10["train"]["embeddings"], cifar10["train"]["labels"])


@pytest.fixture(scope="module")
def evaluation(model, cifar10):
    test, svhn = cifar10["test"], cifar10["svhn"]
    return nuq.evaluate(
        model,
        test["embeddings"],
        test["labels"],
        logits=test["logits"],
        ood={"svhn": svhn["embeddings"]},
        ood_logits={"svhn": svhn["logits"]},
        resamples=100,
    )


def test_results_equal_those_of_the_metrics(evaluation, model, cifar10):
    test, svhn = cifar10["test"], cifar10["svhn"]
    logits = {name: cifar10[name]["logits"] for name in ("test", "svhn")}
    is_error = model.classes_[test["logits"].argmax(axis=1)] != test["labels"]
    # If two logits are largest and equal, either class may be predicted.
    tied = (test["logits"] == test["logits"].max(axis=1, keepdims=True)).sum(axis=1) > 1
    np.testing.assert_array_equal(evaluation.is_error[~tied], is_error[~tied])
    assert evaluation.predictor == "network" and evaluation.accuracy.value == pytest.approx(1 - evaluation.is_error.mean())
    epistemic = [model.predict_uncertainty(part["embeddings"]).log_epistemic for part in (test, svhn)]
    energy = [baselines.Energy().score(logits=logits[name]) for name in ("test", "svhn")]
    # Methods are identified by their first three scores.
    by_scores = {tuple(method.scores["test"][:3].round(9)): method for method in evaluation.methods}
    for scores in (epistemic, energy):
        method = by_scores[tuple(scores[0][:3].round(9))]
        assert method.roc_auc["svhn"].value == pytest.approx(metrics.roc_auc(*scores))
        assert method.average_precision["svhn"].value == pytest.approx(metrics.average_precision(*scores))
        assert method.fpr95["svhn"].value == pytest.approx(metrics.fpr_at_tpr(*scores))
        assert method.rcc_auc.value == pytest.approx(metrics.rcc_auc(scores[0], evaluation.is_error))
        assert evaluation[method.name] is method


def test_without_logits_fewer_methods_are_compared(model, cifar10, evaluation):
    alone = nuq.evaluate(model, cifar10["test"]["embeddings"], cifar10["test"]["labels"], resamples=20)
    assert 3 < len(alone.methods) < len(evaluation.methods) and alone.predictor == "nuq"
    assert alone.skipped == {}
    with pytest.raises(KeyError, match="methods are"):
        alone["Magic"]


def test_one_set_without_a_name_is_called_ood(model, cifar10):
    test, svhn = cifar10["test"], cifar10["svhn"]
    arguments = model, test["embeddings"], test["labels"]
    unnamed = nuq.evaluate(*arguments, logits=test["logits"], ood=svhn["embeddings"], ood_logits=svhn["logits"], resamples=5)
    named = nuq.evaluate(
        *arguments, logits=test["logits"], ood={"ood": svhn["embeddings"]}, ood_logits={"ood": svhn["logits"]}, resamples=5
    )
    assert unnamed.sets == ["ood"]
    assert [method.roc_auc for method in unnamed.methods] == [method.roc_auc for method in named.methods]
    with pytest.raises(nuq.errors.InvalidParameterError, match="ood_logits= requires logits="):
        nuq.evaluate(*arguments, ood=svhn["embeddings"], ood_logits=svhn["logits"], resamples=5)
    with pytest.raises(nuq.errors.ParameterTypeError, match="give each set a name"):
        nuq.evaluate(*arguments, ood=[svhn["embeddings"], svhn["embeddings"]])


def test_reports_contain_the_results_and_are_the_same_after_pickling(evaluation, tmp_path):
    evaluation.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and "svhn" in page and "Energy" in page
    evaluation.report(str(tmp_path / "numbers.json"))
    assert "svhn" in json.dumps(json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8")))
    fragment = evaluation._repr_html_()
    assert "<table" in fragment and "<svg" in fragment and "<script" not in fragment
    with pytest.raises(nuq.errors.FileError, match="missing"):
        evaluation.report(tmp_path / "missing" / "page.html")
    restored = pickle.loads(pickle.dumps(evaluation))
    restored.report(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page
    assert restored._repr_html_() == fragment and restored.accuracy == evaluation.accuracy


def test_figures_are_written_as_svg_and_png_and_are_the_same_after_pickling(evaluation, tmp_path):
    evaluation.figures(tmp_path / "figures")
    files = {file.name: file.read_bytes() for file in (tmp_path / "figures").iterdir()}
    assert {"risk-coverage.svg", "risk-coverage.png", "roc-svhn.svg", "map.png"} <= set(files)
    for name, content in files.items():
        assert content.startswith(b"\x89PNG" if name.endswith(".png") else b"<svg"), name
    pickle.loads(pickle.dumps(evaluation)).figures(str(tmp_path / "figures"))
    assert {file.name: file.read_bytes() for file in (tmp_path / "figures").iterdir()} == files
    with pytest.raises(nuq.errors.FileError, match="missing"):
        evaluation.figures(tmp_path / "missing" / "figures")


def test_a_report_with_a_threshold_contains_its_statement(model, cifar10):
    held_out, test = cifar10["held_out"]["embeddings"], cifar10["test"]
    guard = model.calibrate(held_out, false_alarm=0.05, name="guard")
    for threshold in ("guard", guard):
        evaluation = nuq.evaluate(
            model, test["embeddings"][:200], test["labels"][:200], resamples=20, threshold=threshold
        )
        assert guard.statement in evaluation._report.page()
    with pytest.raises(nuq.errors.InvalidParameterError, match="stored thresholds"):
        nuq.evaluate(model, test["embeddings"], test["labels"], threshold="other")


@pytest.mark.parametrize("name", ["test", "mean"])
def test_names_of_columns_of_the_result_cannot_be_names_of_sets(model, cifar10, name):
    test = cifar10["test"]
    with pytest.raises(nuq.errors.InvalidParameterError, match=f'the name "{name}" in ood is reserved'):
        nuq.evaluate(model, test["embeddings"], test["labels"], ood={name: test["embeddings"]})


def test_a_data_frame_of_the_results_has_one_row_per_method(evaluation):
    pytest.importorskip("pandas")
    frame = evaluation.to_pandas()
    assert len(frame) == len(evaluation.methods) and ("svhn", "ROC-AUC") in frame.columns
    assert frame[("svhn", "ROC-AUC")].between(0.5, 1).any()
    assert "svhn" in repr(evaluation)


def test_logits_in_another_order_than_the_classes_are_a_warning():
    rng = np.random.default_rng(0)
    classes = np.arange(240) % 12
    rows = rng.normal(size=(240, 3)) + 10 * classes[:, None]
    model = NuqClassifier(n_neighbors=5, bandwidth=1.0).fit(rows, classes.astype(str))
    # The columns of the logits are in numeric order. The classes of the model are text, so their order is 0, 1, 10, 11, 2, ….
    logits = 5.0 * np.eye(12)[classes]
    rows = rows + 0.1
    with pytest.warns(UserWarning, match="in the order 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11; if the columns have the latter order"):
        nuq.evaluate(model, rows, classes.astype(str), logits=logits, resamples=100)
    columns = [int(name) for name in model.classes_]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        nuq.evaluate(model, rows, classes.astype(str), logits=logits[:, columns], resamples=100)
        nuq.evaluate(model, rows, classes.astype(str), logits=logits, classes=np.arange(12).astype(str), resamples=100)
    # The message lists the better order of the given columns.
    given = [str(i) for i in range(11, -1, -1)]
    with pytest.warns(UserWarning, match="than classes=.*in the order 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11; if"):
        nuq.evaluate(model, rows, classes.astype(str), logits=logits, classes=given, resamples=100)


def test_classes_are_the_order_of_the_columns_of_all_logits(evaluation, model, cifar10):
    test, svhn = cifar10["test"], cifar10["svhn"]
    order = np.random.default_rng(1).permutation(10)
    arguments = {"ood": {"svhn": svhn["embeddings"]}, "resamples": 5}
    sorted_columns = nuq.evaluate(
        model, test["embeddings"], test["labels"], logits=test["logits"], members=[test["logits"], -test["logits"]],
        ood_logits={"svhn": svhn["logits"]}, ood_members={"svhn": [svhn["logits"], svhn["logits"]]}, **arguments
    )
    reordered = nuq.evaluate(
        model, test["embeddings"], test["labels"], classes=model.classes_[order], logits=test["logits"][:, order],
        members=[test["logits"][:, order], -test["logits"][:, order]], ood_logits={"svhn": svhn["logits"][:, order]},
        ood_members={"svhn": [svhn["logits"][:, order]] * 2}, **arguments
    )
    assert [method.name for method in reordered.methods] == [method.name for method in sorted_columns.methods]
    for one, other in zip(reordered.methods, sorted_columns.methods):
        np.testing.assert_array_equal(one.scores["test"], other.scores["test"])
        np.testing.assert_array_equal(one.scores["svhn"], other.scores["svhn"])
    with pytest.raises(nuq.errors.LengthMismatchError, match="members has 9 columns: expected 10"):
        nuq.evaluate(model, test["embeddings"], test["labels"], classes=model.classes_, members=[test["logits"][:, :9]])
    with pytest.raises(nuq.errors.InvalidParameterError, match="give one of them"):
        nuq.evaluate(model, test["embeddings"], test["labels"], classes=model.classes_)


def test_ensemble_members_of_an_unnamed_set_can_be_a_list_or_an_array(fitted, blobs):
    x, y = blobs
    logits = np.random.default_rng(0).normal(size=(2, len(x), 3)).astype(np.float32)
    far = {"ood": x[:50] + 20, "resamples": 50, "members": logits, "logits": logits[0], "ood_logits": logits[0, :50]}
    def methods(members):
        return {method.name: method.roc_auc["ood"].value for method in nuq.evaluate(fitted, x, y, ood_members=members, **far).methods}

    assert methods(list(logits[:, :50])) == methods(logits[:, :50])


def test_ensembles_with_other_numbers_of_members_or_columns_are_errors(fitted, blobs):
    x, y = blobs
    logits = np.random.default_rng(0).normal(size=(3, len(x), 3)).astype(np.float32)
    with pytest.raises(nuq.errors.InvalidInputError, match="the set `ood` has 2 ensemble members, and the test rows have 3"):
        nuq.evaluate(fitted, x, y, members=logits, ood=x[:50] + 20, ood_members=logits[:2, :50], resamples=50)
    with pytest.raises(nuq.errors.LengthMismatchError, match="2 columns of the members' logits for 3 classes"):
        nuq.evaluate(fitted, x, y, members=logits[:, :, :2], resamples=50)

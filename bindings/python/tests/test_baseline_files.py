"""Files, pickle, copies and parameters of every baseline."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings

import numpy as np
import pytest

import nuq
from nuq import baselines
from nuq.baselines import (
    Ddu,
    Duq,
    Energy,
    Ensemble,
    Entropy,
    Fdbd,
    Gen,
    Huq,
    KnnDistance,
    LocalOutlierFactor,
    Mahalanobis,
    Margin,
    MaxLogit,
    MaxProb,
    NnGuide,
    React,
    RelativeMahalanobis,
    Sngp,
    Vim,
)

BASELINES = [
    MaxProb(),
    Entropy(),
    Margin(),
    MaxLogit(),
    Energy(2.5),
    Gen(0.3, 2),
    *(Ensemble(reduction) for reduction in ("entropy", "mutual_information", "mean_entropy", "std", "max_prob")),
    Ddu(),
    Ddu(normalize=True, shrinkage=0.1),
    Mahalanobis(),
    Mahalanobis(normalize=True),
    RelativeMahalanobis(shrinkage=0.5),
    RelativeMahalanobis(normalize=True),
    KnnDistance(7),
    KnnDistance(7, "mean", normalize=True),
    LocalOutlierFactor(5),
    LocalOutlierFactor(5, normalize=True),
    Sngp(features=16),
    Sngp(16, 2.0, seed=3, reduction="dempster_shafer", normalize=True),
    Duq(8, steps=3),
    Duq(8, steps=3, normalize=True),
    Huq(alpha=0.3),
    Vim(),
    Vim(2),
    Fdbd(),
    NnGuide(4),
    React(0.8),
]


def fitted(baseline):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    logits = x @ rng.normal(size=(4, 3)) + 1
    baseline = copy.copy(baseline)
    if isinstance(baseline, Huq):
        return baseline.fit(x[:, 0], x[:, 1])
    if isinstance(baseline, (Vim, Fdbd, NnGuide, React)):
        return baseline.fit(x, logits)
    return baseline.fit(x, y.astype(str)) if hasattr(baseline, "fit") else baseline


def scores(baseline):
    rng = np.random.default_rng(1)
    x, logits, members = rng.normal(size=(30, 4)), rng.normal(size=(30, 3)), rng.normal(size=(5, 30, 3))
    return baseline.score(x[:, 0], x[:, 1]) if isinstance(baseline, Huq) else baseline.score(x, logits, members)


def test_every_class_is_tested():
    public = {getattr(baselines, name) for name in baselines.__all__}
    classes = {kind for kind in public if inspect.isclass(kind)} - {baselines.Baseline, baselines.Scorer}
    assert {type(baseline) for baseline in BASELINES} == classes


@pytest.mark.parametrize("baseline", BASELINES, ids=repr)
def test_files_pickles_and_copies_have_the_same_scores_and_parameters(baseline, tmp_path):
    baseline = fitted(baseline)
    expected = scores(baseline)
    baseline.save(tmp_path / "baseline.nuq")
    others = [
        nuq.load(tmp_path / "baseline.nuq"),
        pickle.loads(pickle.dumps(baseline)),
        copy.copy(baseline),
        copy.deepcopy(baseline),
    ]
    for other in others:
        assert type(other) is type(baseline)
        assert other.get_params() == baseline.get_params() and repr(other) == repr(baseline)
        np.testing.assert_array_equal(scores(other), expected)
    others[0].save(tmp_path / "again.nuq")
    assert (tmp_path / "again.nuq").read_bytes() == (tmp_path / "baseline.nuq").read_bytes()


@pytest.mark.parametrize("baseline", BASELINES, ids=repr)
def test_a_clone_has_the_parameters_and_is_not_fitted(baseline):
    base = pytest.importorskip("sklearn.base")
    baseline = fitted(baseline)
    clone = base.clone(baseline)
    assert clone.get_params() == baseline.get_params()
    if hasattr(clone, "fit"):
        with pytest.raises(nuq.errors.NotFittedError, match=type(clone).__name__):
            scores(clone)
        np.testing.assert_array_equal(scores(fitted(clone)), scores(baseline))


def test_parameters_are_shown_changed_and_checked():
    assert repr(KnnDistance(7, normalize=True)) == "KnnDistance(n_neighbors=7, normalize=True)"
    assert repr(Fdbd()) == "Fdbd()" and Fdbd().get_params() == {}
    energy = Energy().set_params(temperature=2.0)
    np.testing.assert_array_equal(scores(energy), scores(Energy(2.0)))
    with pytest.raises(nuq.errors.OutOfRangeError):
        scores(energy.set_params(temperature=0.0))
    with pytest.raises(nuq.errors.InvalidParameterError, match="temprature"):
        Energy().set_params(temprature=1.0)


def test_a_baseline_that_is_not_fitted_is_pickled_but_not_saved(tmp_path):
    with pytest.raises(nuq.errors.NotFittedError, match="Mahalanobis"):
        Mahalanobis().save(tmp_path / "baseline.nuq")
    assert not (tmp_path / "baseline.nuq").exists()
    other = pickle.loads(pickle.dumps(Mahalanobis(shrinkage=0.5)))
    assert repr(other) == "Mahalanobis(shrinkage=0.5)"


def test_damaged_files_are_errors(tmp_path):
    path = tmp_path / "baseline.nuq"
    fitted(Mahalanobis()).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-70])
    with pytest.raises(nuq.errors.DamagedFileError):
        nuq.load(path)
    at = whole.rindex(b"mahalanobis")
    path.write_bytes(whole[:at] + b"M" + whole[at + 1 :])
    with pytest.raises(nuq.errors.DamagedFileError, match="section `baseline` is damaged"):
        nuq.load(path)


@pytest.mark.parametrize("baseline", BASELINES, ids=repr)
def test_thresholds_are_chosen_stored_and_applied(baseline, tmp_path):
    baseline = fitted(baseline)
    rng = np.random.default_rng(2)
    x = rng.normal(size=(199, 4))
    logits = x @ rng.normal(size=(4, 3)) + 1
    held_out = (x[:, 0], x[:, 1]) if isinstance(baseline, Huq) else (x, logits, [logits, -logits])
    score = baseline.score(*held_out)
    accept = baseline.accept if isinstance(baseline, Huq) else lambda x, z, members, t: baseline.accept(x, t, logits=z, members=members)
    assert baseline.thresholds_ == {}
    threshold = baseline.calibrate(*held_out, coverage=0.8, name="main")
    # For a coverage of 0.8, the threshold is the score of rank 0.8 (199 + 1) = 160.
    assert threshold.value == np.sort(score)[159]
    assert baseline.thresholds_ == {"main": threshold}
    np.testing.assert_array_equal(accept(*held_out, "main"), score <= threshold.value)
    guard = baseline.calibrate(*held_out, false_alarm=0.4)
    np.testing.assert_array_equal(accept(*held_out, ["main", guard]), score <= min(threshold.value, guard.value))
    risk = baseline.calibrate(*held_out, risk=0.2, is_error=score > np.sort(score)[150], name="risk")
    assert "of the accepted predictions of the network" in risk.statement
    baseline.save(tmp_path / "b.nuq")
    for other in (nuq.load(tmp_path / "b.nuq"), pickle.loads(pickle.dumps(baseline)), copy.deepcopy(baseline)):
        assert other.thresholds_ == {"main": threshold, "risk": risk}
        np.testing.assert_array_equal(other.score(*held_out), score)
        assert other.thresholds_["main"].statement == threshold.statement
    assert pickle.loads(pickle.dumps(threshold)) == threshold
    assert hash(risk) != hash(threshold)
    # A new fit discards the thresholds.
    assert fitted(baseline).thresholds_ == {} or not hasattr(baseline, "fit")


@pytest.mark.parametrize("baseline", [KnnDistance(), KnnDistance(normalize=True), LocalOutlierFactor()], ids=repr)
def test_held_out_rows_that_equal_training_rows_are_reported(baseline):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 4)).astype(np.float32)
    baseline.fit(x)
    with pytest.warns(UserWarning, match="200 of 200 rows equal training rows") as warned:
        # The rows are rounded as in a text file with six decimals.
        threshold = baseline.calibrate(np.round(x, 6), coverage=0.8)
    assert warned[0].filename == __file__
    assert threshold.statement.startswith("Chosen on training rows (200 of 200)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threshold = baseline.calibrate(rng.normal(size=(200, 4)), coverage=0.8)
    assert "training rows" not in threshold.statement


def test_invalid_arguments_of_calibrate_and_accept_are_errors():
    baseline = Energy()
    logits = np.random.default_rng(0).normal(size=(50, 3))
    baseline.calibrate(logits=logits, coverage=0.5, name="main")
    with pytest.raises(nuq.NuqError, match="is_error"):
        baseline.calibrate(logits=logits, risk=0.1)
    with pytest.raises(nuq.NuqError, match="give one of coverage=, risk=, false_alarm="):
        baseline.calibrate(logits=logits)
    with pytest.raises(nuq.NuqError, match="coverage is 1.5"):
        baseline.calibrate(logits=logits, coverage=1.5)
    with pytest.raises(nuq.NuqError, match="requires threshold="):
        baseline.accept(logits=logits)
    with pytest.raises(nuq.NuqError, match="the stored thresholds are 'main'"):
        baseline.accept(logits=logits, threshold="other")
    with pytest.raises(nuq.NuqError, match="expected a ScoreThreshold"):
        baseline.accept(logits=logits, threshold=3)
    with pytest.raises(nuq.NuqError, match="row 1 of the scores is NaN"):
        baseline.thresholds_["main"].accept([0.0, np.nan])
    with pytest.raises(nuq.NuqError, match="the score is -.* for all held-out rows.*another method"):
        baseline.calibrate(logits=np.ones((50, 3)), coverage=0.5)
    with pytest.warns(UserWarning, match="at least 99 held-out rows are needed") as warned:
        baseline.calibrate(logits=logits, false_alarm=0.01)
    assert warned[0].filename == __file__
    # A changed parameter changes the score, so the thresholds are discarded.
    baseline.temperature = 2.0
    assert baseline.thresholds_ == {}

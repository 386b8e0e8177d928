"""Prediction sets, prediction intervals, and the temperature of logits."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

from nuq import NuqClassifier, NuqRegressor, load
from nuq.errors import FewRowsError, InvalidParameterError, LengthMismatchError, OutOfRangeError


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 2)).astype(np.float32)
    y = np.array(["a", "b", "c"])[np.arange(900) % 3]
    x[:, 0] += 1.5 * (np.arange(900) % 3)
    return x, y


@pytest.fixture(scope="module")
def model(data):
    x, y = data
    return NuqClassifier(n_neighbors=20).fit(x[:300], y[:300])


HELD_OUT, NEW = slice(300, 600), slice(600, 900)


def limit_of(scores, coverage):
    """The k-th smallest score, k = ceil((n + 1) coverage)."""
    return np.sort(scores)[int(np.ceil((len(scores) + 1) * coverage - 1e-9)) - 1]


def test_lac_sets_follow_the_formula(model, data):
    """The LAC score of a class is one minus its probability."""
    x, y = data
    rule = model.calibrate(x[HELD_OUT], y[HELD_OUT], sets=0.9)
    p = model.predict_proba(x[HELD_OUT])
    truth = np.searchsorted(model.classes_, y[HELD_OUT])
    limit = limit_of(1 - p[np.arange(300), truth], 0.9)
    assert rule.limit == pytest.approx(limit) and (rule.coverage, rule.score, rule.n_samples) == (0.9, "lac", 300)
    sets = model.predict_set(x[NEW], rule)
    np.testing.assert_array_equal(sets, 1 - model.predict_proba(x[NEW]) <= rule.limit + 1e-12)
    covered = sets[np.arange(300), np.searchsorted(model.classes_, y[NEW])].mean()
    assert 0.84 < covered < 0.96


def test_aps_sets_have_the_coverage_and_each_class_can_have_its_own_limit(model, data):
    """The APS score of a class is the probability of all more probable classes, plus a random share of its own probability."""
    x, y = data
    truth = np.searchsorted(model.classes_, y[NEW])
    aps = model.predict_set(x[NEW], model.calibrate(x[HELD_OUT], y[HELD_OUT], sets=0.8, set_score="aps"))
    assert 0.72 < aps[np.arange(300), truth].mean() < 0.88
    by_class = model.calibrate(x[HELD_OUT], y[HELD_OUT], sets=0.8, by_class=True)
    p = model.predict_proba(x[HELD_OUT])
    for c, label in enumerate(model.classes_):
        assert by_class.limit[c] == pytest.approx(limit_of(1 - p[y[HELD_OUT] == label, c], 0.8))
    # Sets do not depend on the order of the rows.
    in_reverse = model.predict_set(x[NEW][::-1], model.calibrate(x[HELD_OUT], y[HELD_OUT], sets=0.8, set_score="aps"))
    np.testing.assert_array_equal(in_reverse[::-1], aps)


def test_rejected_rows_have_empty_sets(model, data):
    x, y = data
    rule = model.calibrate(x[HELD_OUT], y[HELD_OUT], sets=0.9)
    threshold = model.calibrate(x[HELD_OUT], false_alarm=0.05)
    rows = np.vstack([x[NEW], [[80.0, -80.0]]]).astype(np.float32)
    sets, plain = model.predict_set(rows, rule, threshold), model.predict_set(rows, rule)
    accepted = model.accept(rows, threshold)
    np.testing.assert_array_equal(sets, plain & accepted[:, None])
    assert not sets[-1].any() and not accepted[-1]


def test_with_logits_sets_follow_the_probabilities_of_the_network(model, data):
    x, y = data
    logits = np.column_stack([-((x[:, 0] - 1.5 * c) ** 2) for c in range(3)]).astype(np.float32)
    rule = model.calibrate(x[HELD_OUT], y[HELD_OUT], sets=0.9, logits=logits[HELD_OUT])
    assert rule.predictor == "network"
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    sets = model.predict_set(x[NEW], rule, logits=logits[NEW])
    np.testing.assert_array_equal(sets, 1 - p[NEW] <= rule.limit + 1e-6)
    with pytest.raises(InvalidParameterError, match="chosen with the logits"):
        model.predict_set(x[NEW], rule)
    with pytest.raises(InvalidParameterError, match="chosen without logits"):
        model.predict_set(x[NEW], model.calibrate(x[HELD_OUT], y[HELD_OUT], sets=0.9), logits=logits[NEW])


def test_sets_are_stored(model, data, tmp_path):
    x, y = data
    one = model.calibrate(x[HELD_OUT], y[HELD_OUT], sets=0.9, name="one")
    by_class = model.calibrate(x[HELD_OUT], y[HELD_OUT], sets=0.9, by_class=True, set_score="aps", name="by class")
    model.save(tmp_path / "m.nuq")
    loaded = load(tmp_path / "m.nuq")
    assert loaded.sets_ == {"one": one, "by class": by_class} == model.sets_
    assert pickle.loads(pickle.dumps(by_class)) == by_class and pickle.loads(pickle.dumps(model)).sets_ == model.sets_
    np.testing.assert_array_equal(loaded.predict_set(x[NEW], "by class"), model.predict_set(x[NEW], by_class))
    loaded.partial_fit(x[:1], y[:1])
    with pytest.raises(InvalidParameterError, match="stored sets are none"):
        loaded.predict_set(x, "one")


def test_invalid_arguments_are_errors_and_classes_with_few_rows_a_warning(model, data):
    x, y = data
    with pytest.raises(FewRowsError, match="at least 19 held-out rows"):
        model.calibrate(x[:18], y[:18], sets=0.95)
    with pytest.raises(OutOfRangeError):
        model.calibrate(x, y, sets=1.0)
    with pytest.raises(InvalidParameterError, match="requires y"):
        model.calibrate(x, sets=0.9)
    with pytest.raises(InvalidParameterError, match="give one of"):
        model.calibrate(x, y, sets=0.9, coverage=0.9)
    with pytest.raises(InvalidParameterError, match="set_score"):
        model.calibrate(x, y, sets=0.9, set_score="raps")
    with pytest.raises(InvalidParameterError, match="belongs to a threshold"):
        model.calibrate(x, y, sets=0.9, measure="total")
    with pytest.raises(InvalidParameterError, match="delta=0.3: it requires risk="):
        model.calibrate(x, y, sets=0.9, delta=0.3)
    with pytest.raises(InvalidParameterError, match="belong to sets"):
        model.calibrate(x, y, coverage=0.9, by_class=True)
    with pytest.warns(UserWarning, match="1 of 3 classes are in every set"):
        # Only five of the given rows have the class "c".
        keep = np.r_[np.arange(300), np.flatnonzero(y[300:] != "c")[:60] + 300]
        keep = keep[(y[keep] != "c") | (np.cumsum(y[keep] == "c") <= 5)]
        model.calibrate(x[keep], y[keep], sets=0.9, by_class=True)


def test_intervals_follow_the_formula_and_are_stored(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 4, size=(1200, 1)).astype(np.float32)
    y = np.sin(3 * x[:, 0]) + rng.normal(size=1200) * (0.05 + 0.3 * x[:, 0])
    model = NuqRegressor().fit(x[:400], y[:400])
    rule = model.calibrate(x[400:800], y[400:800], intervals=0.9, name="interval")
    u = model.predict_uncertainty(x[400:800])
    assert rule.factor == pytest.approx(limit_of(np.abs(y[400:800] - u.mean) / np.sqrt(u.total), 0.9))
    low, high = model.predict_interval(x[800:], rule).T
    u = model.predict_uncertainty(x[800:])
    np.testing.assert_allclose((low + high) / 2, u.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose((high - low) / 2, rule.factor * np.sqrt(u.total), rtol=1e-9)
    assert 0.85 < np.mean((low <= y[800:]) & (y[800:] <= high)) < 0.95
    # The intervals are wider where the targets scatter more, and far from the training rows.
    width = high - low
    assert width[x[800:, 0] > 3].mean() > 3 * width[x[800:, 0] < 1].mean()
    far = model.predict_interval([[40.0]], rule)[0]
    assert far[1] - far[0] > 10 * width.max()
    model.save(tmp_path / "r.nuq")
    loaded = load(tmp_path / "r.nuq")
    assert loaded.intervals_ == {"interval": rule} and pickle.loads(pickle.dumps(rule)) == rule
    np.testing.assert_array_equal(loaded.predict_interval(x[:5], "interval"), model.predict_interval(x[:5], rule))
    with pytest.raises(FewRowsError, match="at least 9 held-out rows"):
        model.calibrate(x[:8], y[:8], intervals=0.9)
    with pytest.raises(InvalidParameterError, match="stored intervals"):
        model.predict_interval(x, "none")


def test_a_fitted_temperature_divides_the_logits_and_is_stored(data, tmp_path):
    from nuq.baselines import temperature

    x, y = data
    model = NuqClassifier(n_neighbors=20).fit(x[:300], y[:300])
    logits = 4 * np.column_stack([-((x[:, 0] - 1.5 * c) ** 2) for c in range(3)]).astype(np.float32)
    assert model.temperature_ is None
    model.calibrate(x[HELD_OUT], coverage=0.9, logits=logits[HELD_OUT], name="network")
    model.calibrate(x[HELD_OUT], coverage=0.9, name="plain")
    model.fit_temperature(logits[HELD_OUT], y[HELD_OUT])
    t = temperature(logits[HELD_OUT], np.searchsorted(model.classes_, y[HELD_OUT]))
    assert model.temperature_ == t > 2
    # The new temperature removes the threshold that was chosen with logits.
    assert list(model.thresholds_) == ["plain"]
    u, divided = (m.predict_uncertainty(x, logits=z) for m, z in (
        (model, logits), (NuqClassifier(n_neighbors=20).fit(x[:300], y[:300]), logits / np.float32(t)),
    ))
    np.testing.assert_allclose(u.probability, divided.probability, rtol=1e-5)
    model.save(tmp_path / "m.nuq")
    assert load(tmp_path / "m.nuq").temperature_ == t
    with pytest.raises(LengthMismatchError, match="expected 6 rows, one per label in y"):
        model.fit_temperature(logits[:5], y[:6])


def test_rules_that_were_chosen_at_another_temperature_give_a_warning(data):
    x, y = data
    model = NuqClassifier(n_neighbors=20).fit(x[:300], y[:300])
    logits = 4 * np.column_stack([-((x[:, 0] - 1.5 * c) ** 2) for c in range(3)]).astype(np.float32)
    held_out, outputs = x[HELD_OUT], {"logits": logits[HELD_OUT]}
    network = model.calibrate(held_out, coverage=0.9, **outputs)
    density = model.calibrate(held_out, coverage=0.9, measure="density", **outputs)
    plain = model.calibrate(held_out, coverage=0.9)
    sets = model.calibrate(held_out, y[HELD_OUT], sets=0.8, **outputs)
    model.fit_temperature(logits[HELD_OUT], y[HELD_OUT])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.accept(held_out, density, **outputs)
        model.accept(held_out, plain)
    uses = [lambda: model.accept(held_out, network, **outputs), lambda: model.predict_set(held_out, sets, **outputs)]
    uses.append(lambda: pickle.loads(pickle.dumps(network)).accept(pickle.loads(pickle.dumps(model.predict_uncertainty(held_out, **outputs)))))
    for use in uses:
        with pytest.warns(UserWarning, match="was chosen for logits with the temperature 1, and the temperature of the model is"):
            use()

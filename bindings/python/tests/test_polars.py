"""Data frames and series of polars."""

from __future__ import annotations

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor
from nuq.baselines import Mahalanobis
from nuq.errors import ColumnNamesError, NotFiniteError, NotNumbersError

pl = pytest.importorskip("polars")

NAMES = ["width", "height", "depth"]


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3)).astype(np.float32)
    y = np.arange(120) % 3
    return x + 3 * y[:, None], y


@pytest.fixture(scope="module")
def frame(arrays):
    return pl.DataFrame(arrays[0], schema=NAMES)


def test_a_classifier_equals_the_one_fitted_to_arrays(arrays, frame, tmp_path):
    x, y = arrays
    expected = NuqClassifier().fit(x, y)
    model = NuqClassifier().fit(frame, pl.Series("y", y))
    assert model.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(model.predict_proba(frame), expected.predict_proba(x))
    with pytest.raises(ColumnNamesError):
        model.predict(frame[NAMES[::-1]])
    with pytest.raises(ColumnNamesError):
        model.predict(frame.rename({"width": "w"}))
    assert model.score(frame, pl.Series(y)) == expected.score(x, y)
    model.save(tmp_path / "m.nuq")
    np.testing.assert_array_equal(nuq.load(tmp_path / "m.nuq").predict(frame), expected.predict(x))
    model.partial_fit(frame.head(3), pl.Series(y[:3]))
    assert model.n_samples_fit_ == 123


@pytest.mark.parametrize("labels", ["strings", "categories", "booleans", "integers"])
def test_labels_can_be_a_series(arrays, frame, labels):
    y = arrays[1]
    series = {
        "strings": pl.Series([f"class {label}" for label in y]),
        "categories": pl.Series([f"class {label}" for label in y], dtype=pl.Categorical),
        "booleans": pl.Series(y > 0),
        "integers": pl.Series(y, dtype=pl.Int8),
    }[labels]
    model = NuqClassifier().fit(frame, series)
    assert model.classes_.tolist() == sorted(set(series.to_list()))
    assert model.predict(frame[:9]).tolist() == series[:9].to_list()


def test_missing_values_are_errors(arrays, frame):
    x, y = arrays
    with pytest.raises(NotFiniteError):
        NuqClassifier().fit(frame.with_columns(width=pl.Series([None, *x[1:, 0].tolist()])), y)
    for labels in (pl.Series([None, *y[1:].tolist()]), pl.Series([None, *map(str, y[1:])])):
        with pytest.raises(nuq.NuqError):
            NuqClassifier().fit(frame, labels)


def test_lazy_frames_and_columns_of_text_are_errors(arrays, frame):
    with pytest.raises(NotNumbersError, match=r"collect\(\)"):
        NuqClassifier().fit(frame.lazy(), arrays[1])
    model = NuqClassifier().fit(frame, arrays[1])
    with pytest.raises(NotNumbersError, match=r"collect\(\)"):
        model.predict(frame.lazy())
    with pytest.raises(NotNumbersError):
        NuqClassifier().fit(frame.with_columns(width=pl.lit("a")), arrays[1])


def test_regressors_and_baselines_equal_those_fitted_to_arrays(arrays, frame):
    x, y = arrays
    targets = pl.Series(x[:, 0] * 2.0)
    np.testing.assert_array_equal(
        NuqRegressor().fit(frame, targets).predict(frame), NuqRegressor().fit(x, targets.to_numpy()).predict(x)
    )
    baseline = Mahalanobis().fit(frame, pl.Series(y))
    np.testing.assert_array_equal(baseline.score(frame), Mahalanobis().fit(x, y).score(x))
    with pytest.raises(ColumnNamesError):
        baseline.score(frame[NAMES[::-1]])


def test_results_can_be_a_frame(arrays, frame):
    model = NuqClassifier().fit(frame, arrays[1])
    held_out = frame + 0.01
    threshold = model.calibrate(held_out, coverage=0.5)
    result = model.predict_uncertainty(held_out)
    table = result.to_polars()
    assert table.columns == list(result)
    np.testing.assert_array_equal(table["log_total"].to_numpy(), result.log_total)
    np.testing.assert_array_equal(threshold.accept(table), threshold.accept(result))


@pytest.mark.parametrize("dates", [pl.Date, pl.Datetime("us"), pl.Duration("ms"), pl.Time])
def test_dates_are_not_numbers(arrays, frame, dates):
    """If other columns contain numbers, polars converts dates to numbers without an error. nuq therefore rejects columns of dates."""
    model = NuqClassifier().fit(frame, arrays[1])
    mixed = frame.with_columns(pl.Series("depth", np.arange(120)).cast(dates))
    with pytest.raises(NotNumbersError, match="column 'depth' is of type .*: convert it to a number"):
        model.predict(mixed)

"""Column names of the training rows are stored in the model and compared with the column names of all rows that are passed later, with
and without scikit-learn."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor
from nuq.baselines import Mahalanobis
from nuq.errors import ColumnNamesError, DimensionMismatchError

pandas = pytest.importorskip("pandas")

COLUMNS = list("abcde")


@pytest.fixture
def frame(blobs):
    return pandas.DataFrame(blobs[0], columns=COLUMNS)


@pytest.fixture
def model(frame, blobs):
    return NuqClassifier().fit(frame, blobs[1])


def every_call(model, x, y):
    """One call of each method of a fitted model that takes rows, and one call of ``nuq.evaluate``."""
    ids = model.kneighbors(return_distance=False)
    sets = model.calibrate(x[COLUMNS], y, sets=0.9)
    yield lambda: model.predict(x)
    yield lambda: model.predict_proba(x)
    yield lambda: model.predict_log_proba(x)
    yield lambda: model.predict_set(x, sets)
    yield lambda: model.predict_uncertainty(x)
    yield lambda: model.predict_from(x, ids, np.ones(ids.shape), metric="l2")
    yield lambda: model.predict_proba_from(x, ids, rerank=True)
    yield lambda: model.measure(x, ids)
    yield lambda: model.score_samples(x)
    yield lambda: model.decision_function(x)
    yield lambda: model.score(x, y)
    yield lambda: model.accept(x, cost=0.1)
    yield lambda: model.calibrate(x, coverage=0.9)
    yield lambda: model.kneighbors(x)
    yield lambda: model.suggest(x, 3)
    yield lambda: nuq.evaluate(model, x, y, resamples=100)
    yield lambda: model.partial_fit(x, y)


@pytest.mark.filterwarnings("ignore:.* rows equal training rows")
def test_another_order_is_an_error_in_every_method(model, frame, blobs):
    for call in every_call(model, frame[COLUMNS[::-1]], blobs[1]):
        with pytest.raises(ColumnNamesError, match="column 0 is `e`, at fit it was `a`") as caught:
            call()
        text = str(caught.value)
        assert "at fit: a, b, c, d, e; now: e, d, c, b, a" in text and "X.to_numpy()" in text
        assert "must be in the same order" in text
    with pytest.raises(ColumnNamesError):
        nuq.evaluate(model, frame, blobs[1], ood={"far": frame[COLUMNS[::-1]]}, resamples=100)
    # The rejected calls of partial_fit have inserted no rows.
    assert model.n_samples_fit_ == 300


def test_equal_names_are_accepted_and_names_on_one_side_only_give_a_warning(model, frame, blobs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in every_call(model, frame + 1e-3, blobs[1]):
            call()
    with pytest.warns(UserWarning, match="X does not have valid feature names, but NuqClassifier was fitted with"):
        model.predict(frame.to_numpy())
    unnamed = NuqClassifier().fit(*blobs)
    assert not hasattr(unnamed, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but NuqClassifier was fitted without"):
        unnamed.predict(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unnamed.predict(pandas.DataFrame(blobs[0]))


def test_other_names_are_errors(model, frame):
    renamed = frame.rename(columns={"c": "x"})
    with pytest.raises(ColumnNamesError, match="(?s)unseen at fit time:\n- x\n.*now missing:\n- c\n.*column 2 is `x`"):
        model.predict(renamed)
    with pytest.raises(DimensionMismatchError, match="column 3 is missing, at fit it was `d`"):
        model.predict(frame[["a", "b", "c"]])
    with pytest.raises(ColumnNamesError, match="int and str"):
        model.predict(frame.rename(columns={"c": 7}))
    # A column may have any name, also the name of an attribute of a data frame or a table.
    NuqClassifier().fit(frame.rename(columns={"a": "column_names", "b": "schema"}), np.arange(300) % 2)


@pytest.mark.parametrize(
    "names",
    [
        [10, 20, 30, 40, 50],
        pandas.MultiIndex.from_product([["f"], COLUMNS]),
        pandas.date_range("2020-01-01", periods=5),
        pandas.CategoricalIndex(COLUMNS),
    ],
    ids=["integers", "tuples", "dates", "categories"],
)
def test_names_that_are_not_strings_are_compared(names, blobs, tmp_path):
    frame = pandas.DataFrame(blobs[0], columns=names)
    model = NuqClassifier().fit(frame, blobs[1])
    model.save(tmp_path / "model.nuq")
    for fitted in (model, nuq.load(tmp_path / "model.nuq")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted.predict(frame)
        with pytest.raises(ColumnNamesError, match="must be in the same order"):
            fitted.predict(frame.iloc[:, ::-1])


def test_numbered_columns_in_another_order_are_an_error(blobs):
    # pandas gives the names 0, 1, 2, … to columns without names. nuq treats such rows, and arrays, as rows without column names.
    frame = pandas.DataFrame(blobs[0])
    for fitted in (NuqClassifier().fit(frame, blobs[1]), NuqClassifier().fit(*blobs), Mahalanobis().fit(frame, blobs[1])):
        apply = fitted.score if isinstance(fitted, Mahalanobis) else fitted.predict
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            apply(frame)
        with pytest.raises(ColumnNamesError, match="at fit: 0, 1, 2, 3, 4; now: 4, 3, 2, 1, 0"):
            apply(frame[[4, 3, 2, 1, 0]])
        with pytest.warns(UserWarning, match="was fitted without"):
            apply(frame.rename(columns={4: 9}))


@pytest.mark.parametrize("estimator", [NuqClassifier, NuqRegressor])
def test_files_and_pickles_keep_the_names(estimator, frame, blobs, tmp_path):
    model = estimator().fit(frame, blobs[1])
    model.save(tmp_path / "model.nuq")
    for restored in (nuq.load(tmp_path / "model.nuq"), pickle.loads(pickle.dumps(model))):
        assert restored.feature_names_in_.tolist() == COLUMNS
        assert restored.feature_names_in_.dtype == object
        with pytest.raises(ColumnNamesError):
            restored.predict(frame[COLUMNS[::-1]])
    assert not hasattr(model.fit(*blobs), "feature_names_in_")


def test_names_of_arrow_tables_and_of_other_data_frames_are_compared(model, frame, blobs):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pandas(frame)
    np.testing.assert_array_equal(model.predict(table), model.predict(frame))
    with pytest.raises(ColumnNamesError):
        model.predict(table.select(COLUMNS[::-1]))
    assert NuqClassifier().fit(table, blobs[1]).feature_names_in_.tolist() == COLUMNS

    class Frame:
        """A data frame whose attribute ``columns`` is a list of names, as in polars."""

        def __init__(self, frame):
            self.columns, self._values = list(frame.columns), frame.to_numpy()

        def __array__(self, dtype=None, copy=None):
            return self._values

    np.testing.assert_array_equal(model.predict(Frame(frame)), model.predict(frame))
    with pytest.raises(ColumnNamesError):
        model.predict(Frame(frame[COLUMNS[::-1]]))
    polars = pytest.importorskip("polars")
    with pytest.raises(ColumnNamesError):
        model.predict(polars.from_pandas(frame[COLUMNS[::-1]]))


WITHOUT_SKLEARN = """
import sys
import numpy as np, pandas
import nuq
frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=list("abc"))
model = nuq.NuqClassifier().fit(frame, np.arange(60) % 2)
try:
    model.predict(frame[list("cba")])
except nuq.errors.ColumnNamesError:
    assert "sklearn" not in sys.modules
    sys.exit(7)
"""


def test_names_are_compared_without_scikit_learn():
    run = subprocess.run([sys.executable, "-c", WITHOUT_SKLEARN], capture_output=True, text=True)
    assert run.returncode == 7, run.stderr


def test_the_command_line_reads_and_writes_the_names(binary, model, frame, blobs, tmp_path):
    def run(*arguments):
        return subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, cwd=tmp_path)

    frame.to_csv(tmp_path / "x.csv", index=False)
    frame[COLUMNS[::-1]].to_csv(tmp_path / "reversed.csv", index=False)
    np.save(tmp_path / "y.npy", blobs[1])
    model.save(tmp_path / "python.nuq")
    assert run("score", "--model", "python.nuq", "--embeddings", "x.csv", "--out", "s.csv").returncode == 0
    rejected = run("score", "--model", "python.nuq", "--embeddings", "reversed.csv", "--out", "s.csv")
    assert rejected.returncode == 1 and "--ignore-column-names" in rejected.stderr
    assert run("fit", "--embeddings", "x.csv", "--labels", "y.npy", "--out", "cli.nuq").returncode == 0
    assert nuq.load(tmp_path / "cli.nuq").feature_names_in_.tolist() == COLUMNS


def test_warnings_refer_to_the_line_of_the_caller():
    rng = np.random.default_rng(0)
    rows, held_out = (pandas.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"]) for _ in range(2))
    targets = rng.normal(size=60)
    model = NuqRegressor(n_neighbors=5).fit(rows, targets)
    unnamed = held_out.to_numpy()
    calls = [
        lambda: model.predict(unnamed),
        lambda: model.predict_uncertainty(unnamed),
        lambda: model.score(unnamed, targets),
        lambda: model.calibrate(unnamed, coverage=0.9),
        lambda: model.calibrate(held_out, targets[:, None], intervals=0.9),
    ]
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert caught and all(warning.filename == __file__ for warning in caught), [str(w.message) for w in caught]

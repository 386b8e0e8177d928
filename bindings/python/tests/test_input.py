"""Every kind of array-like input gives the same result or a specific exception."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor
from nuq.errors import (
    DimensionMismatchError,
    EmptyError,
    InvalidInputError,
    LengthMismatchError,
    NotFiniteError,
    NotFittedError,
    NotNumbersError,
)


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def unaligned(x):
    store = np.empty(x.nbytes + 1, dtype=np.uint8)
    view = store[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    assert not view.flags.aligned
    return view


#: Conversions to other types and memory layouts. They keep the values.
FORMATS = {
    "float32": lambda x: x,
    "float64": lambda x: x.astype(np.float64),
    "read-only": read_only,
    "unaligned": unaligned,
    "unaligned float64": lambda x: unaligned(x.astype(np.float64)),
    "Fortran order": np.asfortranarray,
    "big-endian": lambda x: x.astype(">f4"),
    "big-endian float64": lambda x: x.astype(">f8"),
    "negative strides": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "every second row of a larger array": lambda x: np.repeat(x, 2, axis=0)[::2],
    "a list": lambda x: x.tolist(),
    "a tuple of arrays": tuple,
    "objects": lambda x: x.astype(object),
    "text of digits": lambda x: x.astype(str),
    "longdouble": lambda x: x.astype(np.longdouble),
}


def assert_same(model, queries, converted):
    expected, result = model.predict_uncertainty(queries), model.predict_uncertainty(converted)
    for name in expected:
        np.testing.assert_array_equal(result[name], expected[name])


@pytest.mark.parametrize("format", FORMATS)
def test_formats_give_the_same_result(fitted, blobs, format):
    x, y = blobs
    assert_same(fitted, x[:20], FORMATS[format](x[:20]))
    refitted = NuqClassifier().fit(FORMATS[format](x), FORMATS["every second row of a larger array"](y[:, None])[:, 0])
    assert_same(refitted, x[:20], x[:20])
    assert refitted.bandwidth_ == fitted.bandwidth_


def test_float16_integers_and_booleans_give_the_result_of_float32(fitted, blobs):
    x, _ = blobs
    halves = x[:20].astype(np.float16)
    assert_same(fitted, halves.astype(np.float32), halves)
    whole = x[:20].astype(np.int8)
    assert_same(fitted, whole.astype(np.float32), whole)
    assert_same(fitted, (x[:20] > 0).astype(np.float32), x[:20] > 0)


def test_arrays_with_zero_strides_give_the_same_result(fitted, blobs):
    x, _ = blobs
    repeated = np.broadcast_to(x[0], (6, 5))
    assert repeated.strides[0] == 0
    assert_same(fitted, np.tile(x[0], (6, 1)), repeated)
    assert_same(fitted, np.full((4, 5), 2.0, dtype=np.float32), np.broadcast_to(np.float32(2.0), (4, 5)))


def test_a_memory_map_gives_the_same_result(fitted, blobs, tmp_path):
    np.save(tmp_path / "x.npy", blobs[0])
    assert_same(fitted, blobs[0], np.load(tmp_path / "x.npy", mmap_mode="r"))


def test_data_frames_and_series_of_pandas_are_accepted(fitted, blobs):
    pandas = pytest.importorskip("pandas")
    x, y = blobs
    model = NuqClassifier().fit(pandas.DataFrame(x), pandas.Series(y).map({0: "a", 1: "b", 2: "c"}).astype("category"))
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert_same(fitted, x[:20], pandas.DataFrame(x[:20]))


def test_tables_and_arrays_of_arrow_are_accepted(fitted, blobs):
    pyarrow = pytest.importorskip("pyarrow")
    x, _ = blobs
    table = pyarrow.table({f"c{i}": column for i, column in enumerate(x[:20].T)})
    assert_same(fitted, x[:20], table)
    assert fitted.score(table, pyarrow.array(fitted.predict(x[:20]))) == 1.0


def test_tensors_give_the_same_result(fitted, blobs):
    torch = pytest.importorskip("torch")
    x, y = blobs
    assert_same(fitted, x[:20], torch.tensor(x[:20]))
    assert_same(fitted, x[:20], torch.tensor(x[:20], requires_grad=True))
    bf16 = torch.tensor(x[:20]).bfloat16()
    assert_same(fitted, bf16.float().numpy(), bf16)
    refitted = NuqClassifier().fit(torch.tensor(x), torch.tensor(y))
    assert_same(refitted, x[:20], x[:20])


class DlpackOnly:
    """An array of another library that supports only the DLPack protocol."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_arrays_with_only_dlpack_give_the_same_result(fitted, blobs):
    x, _ = blobs
    assert_same(fitted, x[:20], DlpackOnly(x[:20].copy()))


#: Invalid rows, each with the expected exception.
INVALID_ROWS = {
    "NaN": (np.full((2, 5), np.nan), NotFiniteError),
    "infinity": (np.array([[0.0, 1.0, np.inf, 0.0, 0.0]]), NotFiniteError),
    "beyond float32": (np.full((1, 5), 1e300), NotFiniteError),
    "a NaN in a list": ([[0.0, 0.0, float("nan"), 0.0, 0.0]], NotFiniteError),
    "one column": (np.zeros((4, 1)), DimensionMismatchError),
    "too many columns": (np.zeros((4, 6), dtype=np.float32), DimensionMismatchError),
    "no rows": (np.zeros((0, 5)), EmptyError),
    "no columns": (np.zeros((3, 0)), EmptyError),
    "one dimension": (np.zeros(5), InvalidInputError),
    "three dimensions": (np.zeros((2, 5, 5)), InvalidInputError),
    "a number": (3.0, InvalidInputError),
    "None": (None, InvalidInputError),
    "complex": (np.zeros((2, 5), dtype=complex), InvalidInputError),
    "strings": (np.array([["a", "b", "c", "d", "e"]]), NotNumbersError),
    "objects": (np.array([[{}, 1, 2, 3, 4]], dtype=object), NotNumbersError),
    "bytes": (b"12345", InvalidInputError),
    "rows of different lengths": ([[1.0, 2.0], [3.0]], InvalidInputError),
    "integers beyond any float": ([[10**400, 0, 0, 0, 0]], NotNumbersError),
    "dates": (np.zeros((2, 5), dtype="datetime64[s]"), NotNumbersError),
    "records": (np.zeros((2, 5), dtype=[("a", "f4"), ("b", "f4")]), NotNumbersError),
    "masked": (np.ma.masked_greater(np.arange(10.0).reshape(2, 5), 8), NotNumbersError),
    "masked rows": (list(np.ma.masked_greater(np.arange(10.0).reshape(2, 5), 8)), NotNumbersError),
}


@pytest.mark.parametrize("kind", INVALID_ROWS)
@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_uncertainty", "score_samples", "kneighbors"])
def test_invalid_rows_are_errors(fitted, kind, method):
    if (kind, method) == ("None", "kneighbors"):
        pytest.skip("kneighbors(None) is valid")
    given, expected = INVALID_ROWS[kind]
    with pytest.raises(expected) as caught:
        getattr(fitted, method)(given)
    assert isinstance(caught.value, nuq.NuqError) and isinstance(caught.value, ValueError)
    # The model is still usable.
    assert fitted.predict([[0.0] * 5]).shape == (1,)


# The cases about the number of columns are left out, because a fit does not expect a certain number.
@pytest.mark.parametrize("kind", [kind for kind in INVALID_ROWS if "column" not in kind])
@pytest.mark.parametrize("estimator", [NuqClassifier, NuqRegressor])
def test_invalid_training_rows_are_errors(estimator, kind):
    given, expected = INVALID_ROWS[kind]
    rows = len(given) if isinstance(given, (list, np.ndarray)) else 2
    with pytest.raises(expected):
        estimator().fit(given, np.arange(rows))


def test_the_error_contains_row_and_column_of_a_nan(fitted, blobs):
    x = blobs[0].copy()
    x[17, 3] = np.nan
    with pytest.raises(NotFiniteError, match="row 17.*column 3"):
        fitted.predict(x)


def test_the_error_contains_row_and_column_of_an_entry_that_is_not_a_number(fitted, blobs):
    rows = blobs[0][:9].astype(object)
    rows[7, 3] = "unknown"
    with pytest.raises(NotNumbersError, match="row 7, column 3: could not convert string to float: 'unknown'"):
        fitted.predict(rows)


def test_differences_that_are_lost_in_float32_give_a_warning(blobs):
    x, y = blobs
    with_time = np.column_stack([x.astype(np.float64), 1.7e9 + np.arange(300)])
    with pytest.warns(UserWarning, match="column 5 has values near 1.7e.09 whose differences are lost in float32"):
        NuqClassifier().fit(with_time, y)
    constant = np.column_stack([x.astype(np.float64) + 1000.0, np.full(300, 1.7e9 + 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NuqClassifier().fit(constant, y)


def test_dates_in_tables_are_errors(fitted, blobs):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(blobs[0]).rename(columns=str)
    frame["4"] = pandas.date_range("2020", periods=300)
    for table in (frame, pyarrow.Table.from_pandas(frame)):
        with pytest.raises(NotNumbersError):
            fitted.predict(table)


def test_sparse_matrices_are_errors(fitted):
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(NotNumbersError, match="dense"):
        fitted.predict(sparse.csr_matrix(np.eye(5)))


@pytest.mark.parametrize("estimator", [NuqClassifier(), NuqRegressor()], ids=repr)
@pytest.mark.parametrize("method", ["predict", "predict_uncertainty", "score_samples", "kneighbors", "save", "suggest", "remove"])
def test_methods_before_fit_raise_not_fitted_errors(estimator, method):
    with pytest.raises(NotFittedError):
        getattr(estimator, method)([[0.0, 1.0]])


#: Invalid labels.
BAD_LABELS = {
    "NaN": np.array([0.0, np.nan] * 150),
    "fractions": np.linspace(0, 1, 300),
    "mixed": np.array([1, "a"] * 150, dtype=object),
    "missing": np.array([None, "a"] * 150, dtype=object),
    "NA": ["NA", "a"] * 150,
    "empty": ["", "a"] * 150,
    "nan as text": np.array(["nan", "1"] * 150),
    "missing bytes": np.array([b"null", b"a"] * 150),
    "complex": np.zeros(300, dtype=complex),
    "dates": np.zeros(300, dtype="datetime64[s]"),
    "beyond 128 bits": np.array([2**200, 0] * 150, dtype=object),
    "not UTF-8": np.array([b"\xff", b"a"] * 150),
    "tuples": np.fromiter([(1, 2)] * 300, dtype=object),
    "two columns": np.zeros((300, 2), dtype=int),
    "arrays": np.fromiter([np.zeros(1 + i % 2) for i in range(300)], dtype=object),
    "None": None,
}


@pytest.mark.parametrize("kind", BAD_LABELS)
def test_invalid_labels_are_errors(blobs, kind):
    with pytest.raises(InvalidInputError):
        NuqClassifier().fit(blobs[0], BAD_LABELS[kind])


def test_the_error_names_the_row_of_a_label_that_is_an_array(blobs):
    labels = np.array(["a", "b"] * 150, dtype=object)
    labels[7] = np.array(["a", "b"])
    with pytest.raises(InvalidInputError, match="the label of row 7 is of type ndarray: give one integer or string per row"):
        NuqClassifier().fit(blobs[0], labels)


def test_the_message_for_a_large_integer_label_states_the_range(blobs):
    for label in (2**127, -(2**127) - 1, 1e39):
        with pytest.raises(InvalidInputError, match=f"invalid label {int(label)}: it is outside the range of 128-bit integers"):
            NuqClassifier().fit(blobs[0], [label, 0] * 150)


@pytest.mark.parametrize("kind", ["NaN", "mixed", "complex", "dates", "two columns", "None"])
def test_invalid_targets_are_errors(blobs, kind):
    with pytest.raises(InvalidInputError):
        NuqRegressor().fit(blobs[0], BAD_LABELS[kind])


def test_unequal_lengths_are_errors(fitted, blobs):
    x, y = blobs
    for call in (NuqClassifier().fit, NuqRegressor().fit, fitted.score, NuqClassifier().fit(x, y).partial_fit):
        with pytest.raises(LengthMismatchError):
            call(x, y[:-1])
    with pytest.raises(LengthMismatchError):
        fitted.calibrate(x, y[:-1], risk=0.1)


#: Valid labels, each with the expected classes.
GOOD_LABELS = {
    "booleans": (np.array([True, False] * 150), [False, True]),
    "text": (["b", "a", "c"] * 100, ["a", "b", "c"]),
    "objects": (np.array(["b", "a"] * 150, dtype=object), ["a", "b"]),
    "bytes": (np.array([b"b", b"a"] * 150), [b"a", b"b"]),
    "whole floats": (np.array([2.0, -1.0] * 150), [-1.0, 2.0]),
    "64 bits": (np.array([2**63 + 1, 5] * 150, dtype=np.uint64), [5, 2**63 + 1]),
    "more than 64 bits": (np.array([2**100, -5] * 150, dtype=object), [-5, 2**100]),
    "beyond ASCII": (["über", "ß", "🦀"] * 100, ["ß", "über", "🦀"]),
    "one class": ([4] * 300, [4]),
    "scalars of numpy": (np.array([np.int64(2), np.int64(1)] * 150, dtype=object), [1, 2]),
    "booleans of numpy": (np.array([np.True_, np.False_] * 150, dtype=object), [False, True]),
}


@pytest.mark.parametrize("kind", GOOD_LABELS)
def test_valid_labels_are_predicted_and_stored(blobs, kind, tmp_path):
    labels, classes = GOOD_LABELS[kind]
    model = NuqClassifier(bandwidth=1e-3).fit(blobs[0], labels)
    assert model.classes_.tolist() == classes
    assert model.predict(blobs[0]).tolist() == np.asarray(labels).tolist()
    assert model.score(blobs[0], labels) == 1.0
    model.save(tmp_path / "model.nuq")
    opened = nuq.load(tmp_path / "model.nuq")
    assert opened.score(blobs[0], labels) == 1.0


def test_score_compares_labels_of_other_types(fitted, blobs):
    x, y = blobs
    assert fitted.score(x, y.astype(float)) == fitted.score(x, y)
    assert fitted.score(x, y.astype(object)) == fitted.score(x, y)

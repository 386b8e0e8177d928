"""The result object ``Uncertainty``: columns, rows, data frames."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from nuq import Uncertainty
from nuq.errors import InvalidInputError, UnknownNameError


@pytest.fixture(scope="module")
def result(fitted, blobs):
    return fitted.predict_uncertainty(blobs[0])


def test_columns_are_items_and_attributes(result):
    assert result.total is result["total"]
    assert list(result) == list(result.keys()) == [name for name, _ in result.items()]
    assert all(column is result[name] for name, column in result.items())
    assert len(list(result.values())) == len(list(result))
    assert "total" in result and "mean" not in result and "log_density" in dir(result)
    with pytest.raises(UnknownNameError, match="columns are label, probability"):
        result["mean"]
    with pytest.raises(KeyError):
        result["mean"]
    with pytest.raises(AttributeError, match="no column 'mean'"):
        result.mean


@pytest.mark.parametrize(
    "key",
    [
        slice(10),
        slice(None, None, -7),
        slice(5, 5),
        np.arange(300) % 3 == 0,
        (np.arange(300) % 3 == 0).tolist(),
        np.array([7, 7, 0, -1]),
        [2, 1],
        [],
        np.zeros(0, dtype=bool),
    ],
    ids=str,
)
def test_a_selection_of_rows_is_a_result(result, key):
    selected = result[key]
    assert isinstance(selected, Uncertainty) and list(selected) == list(result)
    rows = np.asarray(key, dtype=int) if isinstance(key, (list, np.ndarray)) and len(key) == 0 else key
    for name, column in result.items():
        np.testing.assert_array_equal(selected[name], column[rows])
    assert len(selected) == len(result.total[rows])


def test_one_row_is_a_dict(result):
    row = result[3]
    assert row == {name: column[3] for name, column in result.items()}
    assert result[np.int64(-1)]["total"] == result.total[-1]


@pytest.mark.parametrize("key", [300, [300], np.ones(299, bool), 1.5, [0.5], None, (0, 1, 2.5), np.ones((2, 2), int)], ids=str)
def test_rows_that_do_not_exist_and_other_invalid_keys_are_errors(result, key):
    with pytest.raises(InvalidInputError):
        result[key]


def test_data_frames_keep_the_index_of_the_input(fitted, blobs):
    pandas = pytest.importorskip("pandas")
    x, _ = blobs
    names = [f"row {i}" for i in range(300)]
    frame = pandas.DataFrame(x, index=names)
    result = fitted.predict_uncertainty(frame)
    assert result.to_pandas().index.tolist() == names
    np.testing.assert_array_equal(result.to_pandas()["total"], result.total)
    assert result[5:7].to_pandas().index.tolist() == names[5:7]
    assert result[result.total > 0.2].to_pandas().index.tolist() == [n for n, t in zip(names, result.total) if t > 0.2]
    assert pickle.loads(pickle.dumps(result)).to_pandas().equals(result.to_pandas())
    assert frame.join(result.to_pandas()).notna().all().all()
    assert fitted.predict_uncertainty(x).to_pandas().index.tolist() == list(range(300))
    distances, ids = fitted.kneighbors(x)
    assert fitted.predict_from(frame, ids, distances, metric="l2").to_pandas().index.tolist() == names

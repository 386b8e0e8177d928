"""The names in the column Python of ``docs/vocabulary.md`` exist in the package, and the package accepts the words of all choices."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor


def tables(root, heading: str) -> list[dict[str, str]]:
    """The rows of all tables under a heading of the page."""
    page = (root / "docs/vocabulary.md").read_text(encoding="utf-8")
    section = next(part for part in page.split("\n## ") if part.startswith(heading))
    rows: list[dict[str, str]] = []
    names: list[str] = []
    for line in section.splitlines():
        if not line.startswith("| "):
            names = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not names:
            names = [cell.strip() for cell in cells]
        elif not cells[0].startswith("---"):
            rows.append(dict(zip(names, cells)))
    assert rows
    return rows


def find(name: str):
    """The item with the name in a cell: an item of the package, of an estimator or of an evaluation; None if there is none."""
    first, *rest = name.split(".")
    if first == "nuq":
        owners, rest = [nuq], rest
    elif first in ("NuqClassifier", "NuqRegressor", "Evaluation"):
        owners = [getattr(nuq, first)]
    else:
        owners, rest = [NuqClassifier, NuqRegressor, nuq], [first, *rest]
    for owner in owners:
        item = owner
        for part in rest:
            item = getattr(item, part, None)
        if item is not None:
            return item
    return None


def test_options_exist(root):
    parameters = set(inspect.signature(NuqClassifier).parameters)
    for row in tables(root, "Options"):
        cell = row["Python"]
        if cell == "—" or cell == "`X.to_numpy()`":
            continue
        match = re.fullmatch(r"`([\w.]+)(?:\((\w+)(=?)\))?`", cell)
        assert match, cell
        name, argument, _ = match.groups()
        if argument is None and name in parameters:
            continue
        item = find(name)
        assert item is not None, cell
        if argument is not None:
            accepted = inspect.signature(item).parameters
            assert argument in accepted, f"{cell}: the parameters are {list(accepted)}"


def test_all_parameters_are_listed(root):
    listed = {row["Python"].strip("`") for row in tables(root, "Options")}
    for estimator in (NuqClassifier, NuqRegressor):
        missing = set(inspect.signature(estimator).parameters) - listed
        # The option `copy`, which controls the use of memory, exists only in Python.
        assert missing == {"copy"}, missing


def test_words_of_choices_are_accepted(root, blobs):
    x, y = blobs
    parameters = set(inspect.signature(NuqClassifier).parameters)
    words: dict[str, list[str]] = {}
    for row in tables(root, "Choices"):
        words.setdefault(row["option"].strip("`"), []).append(row["word"].strip("`"))
    for option, choices in words.items():
        for word in choices:
            if option == "measure":
                NuqClassifier().fit(x, y).calibrate(x, coverage=0.9, measure=word)
            elif option == "set_score":
                NuqClassifier().fit(x, y).calibrate(x, y, sets=0.9, set_score=word)
            elif option == "preset":
                assert word == "default" or callable(getattr(NuqClassifier, word))
            elif option in parameters:
                changes = {option: word}
                changes |= {"index": "hnsw"} if option == "precision" else {}
                changes |= {"density": "gmm"} if option in ("covariance", "shrinkage") else {}
                changes |= {"density": "kde"} if option == "density_bandwidth" else {}
                if option == "device" and word.startswith("cuda"):
                    # The test must also pass on machines without a GPU. tests/test_device.py tests the errors.
                    continue
                estimator = NuqRegressor if word == "squared_error" else NuqClassifier
                estimator(**changes).fit(x, y)
            else:
                # These options are not parameters of estimators: each baseline has a class, estimators get arrays instead of files and
                # show progress with `verbose`, and the server exists only as a command.
                of_commands = ("format", "header", "method", "on_bad_rows", "progress")
                assert option in of_commands or option in ("log_format", "log_level", "metrics"), option


def test_results_exist(root, fitted, blobs):
    x, y = blobs
    for row in tables(root, "Results"):
        cell = row["Python"]
        if cell == "—":
            continue
        match = re.fullmatch(r"`(\w+)\(X\)(?:\.(\w+))?`", cell)
        assert match, cell
        method, column = match.groups()
        if method == "accept":
            result = fitted.accept(x, cost=0.1)
        elif method == "predict_set":
            result = fitted.predict_set(x, fitted.calibrate(x, y, sets=0.9))
        else:
            result = getattr(fitted, method)(x)
        if column is not None:
            assert len(result[column]) == len(x)
            assert column == row["column"].strip("`")


@pytest.mark.parametrize("estimator", [NuqClassifier, NuqRegressor])
def test_columns_of_results_are_listed(root, blobs, estimator):
    x, y = blobs
    listed = {row["column"].strip("`") for row in tables(root, "Results")} | {"mean"}
    columns = set(estimator().fit(x, y.astype(np.float64)).predict_uncertainty(x))
    # A regressor has `mean` and `log_aleatoric`. They are not in the table; the text below the table mentions them.
    assert columns - listed <= {"log_aleatoric"}


def test_columns_and_labels_of_measures_have_all_measures():
    from nuq import _nuq, calibrate, plot

    assert set(calibrate._COLUMNS) == set(plot._LABELS) == set(_nuq.CHOICES["measure"])

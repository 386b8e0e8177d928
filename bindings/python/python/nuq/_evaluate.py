"""Comparison of a fitted classifier with the baselines on the same rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _files, _nuq, _tables
from ._classifier import NuqClassifier, check_class_columns, class_order, in_columns
from ._pipeline import final_step
from ._warnings import warn
from .calibrate import Threshold
from .errors import FileError, InvalidInputError, InvalidParameterError, LengthMismatchError, ParameterTypeError, UnknownNameError
from .metrics import Interval


class MethodResult(NamedTuple):
    """Results of one method. The dictionaries have one entry per out-of-distribution set; ``scores`` and ``is_best`` also have
    the entry "test".

    ``is_best`` is true if no method is significantly better: by ROC-AUC for an out-of-distribution set, by RCC-AUC (area under the
    risk-coverage curve) for "test". Several methods can be best. ``seconds_per_1000`` is the time for scoring 1000 rows, including the
    neighbor search. ``bytes`` is the memory that the fitted method needs in addition to the training rows.
    """

    name: str
    rcc_auc: Interval
    roc_auc: dict[str, Interval]
    average_precision: dict[str, Interval]
    fpr95: dict[str, Interval]
    is_best: dict[str, bool]
    mean_roc_auc: float | None
    seconds_per_1000: float
    bytes: int
    scores: dict[str, np.ndarray]


class _RenderedReport:
    """The rendered texts of a report. In a pickle they replace the report, which cannot be pickled."""

    def __init__(self, report: _nuq.Report) -> None:
        self._page, self._fragment, self._json = report.page(), report.html_fragment(), report.json()
        self._figures = report.figures()

    def page(self) -> str:
        return self._page

    def html_fragment(self) -> str:
        return self._fragment

    def figures(self) -> list[tuple[str, str]]:
        return self._figures

    def json(self) -> str:
        return self._json


class Evaluation(_tables.Tabular):
    """Results of all methods. The methods of NUQ come first.

    ``to_pandas``, ``to_polars`` and ``to_arrow`` return the results as a table, ``report`` writes them as an HTML page with figures, and
    ``figures`` writes the figures as files. Notebooks show the table and the main figures.

    ``predictor`` is "network" or "nuq"; ``accuracy`` and ``is_error`` refer to its predictions. ``skipped`` contains the methods that could
    not be computed, each with the reason.
    """

    def __init__(self, results: dict[str, Any], sets: list[str]) -> None:
        self.accuracy = Interval(*results["accuracy"])
        self.predictor: str = results["predictor"]
        self.is_error: np.ndarray = results["is_error"]
        self.skipped: dict[str, str] = dict(results["skipped"])
        self.sets = sets
        self._report: _nuq.Report | _RenderedReport | None = results.get("report")
        self._report_error: str | None = results.get("report_error")
        self.methods = [_method(method, sets) for method in results["methods"]]

    def __getitem__(self, name: str) -> MethodResult:
        for method in self.methods:
            if method.name == name:
                return method
        raise UnknownNameError(f"{name!r}: the methods are {', '.join(method.name for method in self.methods)}")

    def __repr__(self) -> str:
        return f"Evaluation of {len(self.methods)} methods on test and {', '.join(self.sets) or 'no other set'}"

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if isinstance(self._report, _nuq.Report):
            state["_report"] = _RenderedReport(self._report)
        return state

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the evaluation as one file: an HTML page with figures and tables, or all numbers as JSON if the name ends in
        ".json". The page loads nothing from the network."""
        report, path = self._available_report(), _arrays.path(path)
        text = report.json() if path.suffix == ".json" else report.page()
        _nuq.write_file(path, text.encode())

    def figures(self, folder: str | os.PathLike[str]) -> None:
        """Write each figure of the report as SVG and as PNG into a folder, which is created if it does not exist. Files of the same names are
        replaced."""
        report, folder = self._available_report(), _arrays.path(folder, "folder")
        try:
            _files.make_folder(folder)
        except OSError as error:
            raise FileError(f"{error.filename}: {error.strerror}") from None
        for stem, svg in report.figures():
            _nuq.write_file(folder / f"{stem}.svg", svg.encode())
            _nuq.write_file(folder / f"{stem}.png", _nuq.svg_to_png(svg))

    def _available_report(self) -> _nuq.Report | _RenderedReport:
        if self._report is None:
            raise InvalidInputError(f"there is no report for these data: {self._report_error}")
        return self._report

    def _repr_html_(self) -> str | None:
        """The table and the main figures, for notebooks."""
        return None if self._report is None else self._report.html_fragment()

    def to_pandas(self) -> Any:
        """Data frame with one row per method: RCC-AUC of the test rows; ROC-AUC, AUPR (average precision) and FPR95 (false positive rate at
        a true positive rate of 95 %) of each out-of-distribution set; and, if there are such sets, the mean ROC-AUC. Column names have
        two levels: the set ("test" and "mean" for the first and the last column) and the metric. ``to_polars`` and ``to_arrow`` join both
        levels to one name, and have a column ``method`` instead of an index."""
        columns: dict[Any, Any] = dict(self._columns())
        return _tables.table(columns, "pandas", [method.name for method in self.methods])

    def _table(self) -> dict[str, list[Any]]:
        columns = {f"{name} {metric}": values for (name, metric), values in self._columns()}
        return {"method": [method.name for method in self.methods], **columns}

    def _columns(self) -> Iterator[tuple[tuple[str, str], list[float | None]]]:
        """Pairs of set and metric, each with a list of one value per method."""
        yield ("test", "RCC-AUC"), [method.rcc_auc.value for method in self.methods]
        for name in self.sets:
            yield (name, "ROC-AUC"), [method.roc_auc[name].value for method in self.methods]
            yield (name, "AUPR"), [method.average_precision[name].value for method in self.methods]
            yield (name, "FPR95"), [method.fpr95[name].value for method in self.methods]
        if self.sets:
            yield ("mean", "ROC-AUC"), [method.mean_roc_auc for method in self.methods]


def _method(result: dict[str, Any], sets: list[str]) -> MethodResult:
    columns = [{name: Interval(*cells[i][:3]) for name, cells in zip(sets, result["ood"])} for i in range(3)]
    is_best = {name: cells[0][3] for name, cells in zip(sets, result["ood"])}
    is_best["test"] = result["rcc_auc"][3]
    return MethodResult(
        name=result["name"],
        rcc_auc=Interval(*result["rcc_auc"][:3]),
        roc_auc=columns[0],
        average_precision=columns[1],
        fpr95=columns[2],
        is_best=is_best,
        mean_roc_auc=result["mean_roc_auc"],
        seconds_per_1000=result["seconds_per_1000"],
        bytes=result["bytes"],
        scores={"test": result["test_scores"], **dict(zip(sets, result["ood_scores"]))},
    )


def _sets(values: Any, name: str) -> dict[str, Any]:
    """The argument ``name`` as a dictionary from names of out-of-distribution sets to arrays."""
    if values is None:
        return {}
    # The rows or logits of one set are a matrix. The logits of the members of an ensemble for one set are a list of matrices, or an array
    # with three axes. A list of arrays with this number of axes therefore contains several sets, which need names.
    dimensions = 3 if name == "ood_members" else 2
    if isinstance(values, (list, tuple)) and any(getattr(array, "ndim", 0) == dimensions for array in values):
        raise ParameterTypeError(f'{name} is a list of arrays: give each set a name, {name}={{"first": …, "second": …}}')
    sets = dict(values) if isinstance(values, Mapping) else {"ood": values}
    for key in sets:
        if _arrays.text(key, f"a name in {name}") in ("test", "mean"):
            raise InvalidParameterError(f'the name "{key}" in {name} is reserved for the test rows and the mean of all sets: choose another one')
    return sets


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    *,
    logits: Any = None,
    members: Any = None,
    classes: Any = None,
    ood: Any = None,
    ood_logits: Any = None,
    ood_members: Any = None,
    resamples: int = 1000,
    seed: int = 0,
    threshold: Threshold | str | None = None,
    device: str = "auto",
) -> Evaluation:
    """Compare the classifier with all baselines that the given arrays permit. Each metric has a bootstrap interval.

    ``model`` is a fitted ``NuqClassifier``, or a scikit-learn pipeline or search that ends with one; the other steps then
    transform ``X`` and the rows of ``ood``. ``X`` and ``y`` are test rows and their labels; a warning is shown if some test rows
    equal training rows. ``ood`` is a dictionary from the names of sets to rows unlike the training data; an array is
    one set with the name "ood". ``ood_logits`` and ``ood_members`` use the same names. Some methods need the ``logits`` of the
    network (one column per class) or the logits of the ``members`` of an ensemble. ``classes`` lists the labels in the order of the columns
    of all logits; without it, the order is that of ``model.classes_``. These methods are included if the arrays are given for the test rows and for all sets. ``threshold`` is a threshold or the name of a stored
    threshold; the report contains its decisions. ``device`` is the device on which the baselines search neighbors, as in
    ``NuqClassifier``; the model searches on its own device.

    A ``UserWarning`` is shown if the columns of ``logits`` seem to be in another order, for example in the numeric order if the classes are
    strings of digits.
    """
    estimator = model
    expected = f"model={estimator!r}: expected a fitted NuqClassifier, or a pipeline or search that ends with one"
    try:
        model, X = final_step(estimator, X)
    except ParameterTypeError:
        raise ParameterTypeError(expected) from None
    if not isinstance(model, NuqClassifier):
        raise InvalidParameterError(expected)
    rows = model._query_rows(X)
    model._warn_training_rows(rows)
    _, numbers, labels = _arrays.labels(y, type(model).__name__)
    if (model._class_numbers(y, rows)[0] < 0).all():
        raise InvalidInputError(f"no label in y is a class of the model: its classes are {model.classes_.tolist()[:10]}")
    sets, set_logits, set_members = _sets(ood, "ood"), _sets(ood_logits, "ood_logits"), _sets(ood_members, "ood_members")
    for parameter, named in (("ood_logits", set_logits), ("ood_members", set_members)):
        unknown = [name for name in named if name not in sets]
        if unknown:
            raise InvalidParameterError(f"{parameter} has the set {unknown[0]!r}, and the sets of ood are {list(sets)}: use the same names")

    for parameter, named, of_rows in (("ood_logits", set_logits, logits), ("ood_members", set_members, members)):
        if named and of_rows is None:
            raise InvalidParameterError(f"{parameter}= requires {parameter[4:]}=, the same outputs for the test rows")

    known = list(model._model.classes())
    if classes is not None and logits is None and members is None:
        raise InvalidParameterError("classes= is the order of the columns of logits or members: give one of them")
    order = None if classes is None else class_order(classes, known, type(model).__name__)

    def ordered(matrix: np.ndarray, name: str) -> np.ndarray:
        """The columns in the order of the model's classes."""
        if order is None:
            return matrix
        if matrix.shape[1] != len(known):
            raise LengthMismatchError(f"{name} has {matrix.shape[1]} columns: expected {len(known)}, one per class")
        return np.ascontiguousarray(matrix[:, order])

    def arrays(rows: np.ndarray, logits: Any, members: Any) -> tuple[Any, Any, Any]:
        if logits is not None:
            check_class_columns("logits", logits, known, order)
        matrices = _arrays.members(members)
        return (
            rows,
            None if logits is None else ordered(_arrays.rows(logits, "logits"), "logits"),
            None if matrices is None else [ordered(matrix, "members") for matrix in matrices],
        )

    others = [
        (name, arrays(model._query_rows(final_step(estimator, given)[1]), set_logits.get(name), set_members.get(name))) for name, given in sets.items()
    ]
    named_threshold = None
    if threshold is not None:
        name = threshold if isinstance(threshold, str) else "threshold"
        chosen = model._threshold(threshold)
        if chosen.predictor == "network" and (logits is None or any(name not in set_logits for name in sets)):
            raise InvalidParameterError("the threshold was chosen with logits: give logits, and ood_logits for each set")
        named_threshold = name, chosen._inner
    resampling = _arrays.integer(resamples, "resamples", 1), _arrays.integer(seed, "seed")
    test = arrays(rows, logits, members)
    results = _nuq.evaluate(model._model, test, labels, numbers, others, *resampling, named_threshold, device, model._threads())
    if results["column_order"] is not None:
        _warn_column_order(known, order, *results["column_order"])
    return Evaluation(results, list(sets))


def _warn_column_order(
    known: list[Any], order: list[int] | None, better: list[str], accuracy: float, given_accuracy: float
) -> None:
    """Warn that the columns of the logits seem to have another order. ``better`` lists the labels of the columns after they were put into the
    order of the classes ``known``; the message lists them in the order of the given columns."""
    names = [str(label) for label in known]
    given = names if order is None else in_columns(names, order)
    better = better if order is None else in_columns(better, order)
    described = f"model.classes_ ({', '.join(given)})" if order is None else f"classes={given}"
    warn(
        f"the columns of logits seem to have another order than {described}: the accuracy of the network is "
        f"{given_accuracy:.1%} in this order, and {accuracy:.1%} in the order {', '.join(better)}; if the columns have the latter order, "
        "give it with classes=",
    )

"""One call that compares a fitted classifier with every rival that the arrays allow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _nuq
from ._classifier import NuqClassifier
from .errors import InvalidParameterError
from .metrics import Interval


class MethodResult(NamedTuple):
    """What a method did: its scores, and for each set ROC-AUC, average precision and FPR95 with their intervals."""

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


class Evaluation:
    """The methods, NUQ's own first; ``to_pandas`` is the table."""

    def __init__(self, found: dict[str, Any], sets: list[str]) -> None:
        self.accuracy = Interval(*found["accuracy"])
        self.errors_of: str = found["errors_of"]
        self.is_error: np.ndarray = found["is_error"]
        self.left_out: dict[str, str] = dict(found["skipped"])
        self.sets = sets
        self.methods = [_method(method, sets) for method in found["methods"]]

    def __getitem__(self, name: str) -> MethodResult:
        for method in self.methods:
            if method.name == name:
                return method
        raise KeyError(f"{name}: there are {', '.join(method.name for method in self.methods)}")

    def __repr__(self) -> str:
        return f"Evaluation of {len(self.methods)} methods on test and {', '.join(self.sets) or 'no other set'}"

    def to_pandas(self) -> Any:
        """A row per method: RCC-AUC, and for each set ROC-AUC, average precision and FPR95."""
        import pandas

        rows = {}
        for method in self.methods:
            row: dict[Any, float | None] = {("test", "RCC-AUC"): method.rcc_auc.value}
            for name in self.sets:
                row[name, "ROC-AUC"] = method.roc_auc[name].value
                row[name, "AUPR"] = method.average_precision[name].value
                row[name, "FPR95"] = method.fpr95[name].value
            if self.sets:
                row["mean", "ROC-AUC"] = method.mean_roc_auc
            rows[method.name] = row
        return pandas.DataFrame.from_dict(rows, orient="index")


def _method(found: dict[str, Any], sets: list[str]) -> MethodResult:
    columns = [{name: Interval(*cells[i][:3]) for name, cells in zip(sets, found["ood"])} for i in range(3)]
    is_best = {name: cells[0][3] for name, cells in zip(sets, found["ood"])}
    is_best["test"] = found["rcc_auc"][3]
    return MethodResult(
        name=found["name"],
        rcc_auc=Interval(*found["rcc_auc"][:3]),
        roc_auc=columns[0],
        average_precision=columns[1],
        fpr95=columns[2],
        is_best=is_best,
        mean_roc_auc=found["mean_roc_auc"],
        seconds_per_1000=found["seconds_per_1000"],
        bytes=found["bytes"],
        scores={"test": found["test_scores"], **dict(zip(sets, found["ood_scores"]))},
    )


def evaluate(
    model: NuqClassifier,
    X: Any,
    y: Any,
    *,
    logits: Any = None,
    members: Any = None,
    ood: dict[str, Any] | None = None,
    ood_logits: dict[str, Any] | None = None,
    ood_members: dict[str, Any] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """Every method that the arrays allow, on the same rows, each number with a bootstrap interval.

    ``X`` and ``y`` are test rows and labels; ``ood`` maps names to rows unlike the training data. With the network's
    ``logits`` of all sets (a column per class, in the order of ``model.classes_``) the methods that look at logits join, and
    with ``members``, logits of several networks, those that look at ensembles.
    """
    if not isinstance(model, NuqClassifier):
        raise InvalidParameterError(f"model={model!r}: it is a fitted NuqClassifier")
    rows = model._query_rows(X)
    _, numbers, labels = _arrays.labels(y, type(model).__name__)
    _arrays.check_lengths(rows, numbers)
    sets = dict(ood or {})
    for name in [*(ood_logits or {}), *(ood_members or {})]:
        if name not in sets:
            raise InvalidParameterError(f"{name!r} is no set of ood")

    def given(rows: Any, logits: Any, members: Any) -> tuple[Any, Any, Any]:
        return (
            model._query_rows(rows),
            None if logits is None else _arrays.rows(logits, "logits"),
            None if members is None else [_arrays.rows(member, "members") for member in members],
        )

    others = [
        (name, given(rows, (ood_logits or {}).get(name), (ood_members or {}).get(name))) for name, rows in sets.items()
    ]
    drawn = _arrays.whole(resamples, "resamples", 1), _arrays.whole(seed, "seed")
    found = _nuq.evaluate(model._model, given(rows, logits, members), labels, numbers, others, *drawn)
    return Evaluation(found, list(sets))

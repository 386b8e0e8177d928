"""What both estimators are: parameters, checks, files. scikit-learn is used where it is loaded, and never imported."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from . import _arrays, _nuq, _progress
from ._result import Uncertainty
from .calibrate import Threshold
from .errors import (
    DimensionMismatchError,
    InvalidInputError,
    InvalidParameterError,
    NoSpreadError,
    NotFittedError,
    OutOfRangeError,
    UnknownIdError,
)

#: Rows that are asked about at a time when progress is shown.
BLOCK = 8192


_Self = TypeVar("_Self", bound="Estimator")


class Estimator:
    """Parameters as scikit-learn keeps them, and a fitted model of the extension."""

    _model: Any = None

    n_neighbors: int
    n_jobs: int | None
    verbose: bool

    # -- parameters -------------------------------------------------------------------------------------------------

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, as they were given."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self: _Self, **changes: Any) -> _Self:
        """Changes parameters; the model stays as it was fitted."""
        names = self._names()
        for name, value in changes.items():
            if name not in names:
                raise InvalidParameterError(
                    f"Invalid parameter {name!r} for estimator {self!r}. Valid parameters are: {names}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not (value is defaults[name].default or np.array_equal(value, defaults[name].default))
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _given(self) -> dict[str, Any]:
        """The parameters as the extension takes them."""
        given = self.get_params(deep=False)
        given["random_state"] = _seed(given["random_state"])
        given["bandwidth"] = _bandwidth(given["bandwidth"])
        given["n_neighbors"] = _arrays.whole(given["n_neighbors"], "n_neighbors", least=1)
        if not isinstance(given["normalize"], (bool, np.bool_)):
            raise InvalidParameterError(f"normalize={given['normalize']!r}: it is True or False")
        given["normalize"] = bool(given["normalize"])
        return given

    def _threads(self) -> int | None:
        jobs = self.n_jobs
        if jobs is None or jobs == -1:
            return None
        if not isinstance(jobs, (int, np.integer)) or jobs == 0:
            raise InvalidParameterError(f"n_jobs={jobs!r}: it is a whole number, -1 or None for all processors")
        return int(jobs) if jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(jobs))

    # -- scikit-learn -----------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None

    def _tags(self, kind: str) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            input_tags=InputTags(),
        )

    # -- rows -------------------------------------------------------------------------------------------------------

    def _check_names(self, x: Any, reset: bool) -> None:
        """Names of columns, where scikit-learn is there to compare them."""
        validation = sys.modules.get("sklearn.utils.validation")
        if validation is not None and hasattr(validation, "validate_data"):
            try:
                validation.validate_data(self, x, reset=reset, skip_check_array=True)
            except ValueError as problem:
                wrong_number = not reset and x.shape[1] != self.n_features_in_
                raise (DimensionMismatchError if wrong_number else InvalidInputError)(str(problem)) from None
        elif reset:
            columns = getattr(x, "columns", None)
            if columns is not None and all(isinstance(name, str) for name in columns):
                self.feature_names_in_ = np.asarray(columns, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_

    def _learn_names(self, x: Any, rows: np.ndarray) -> None:
        self._check_names(x if hasattr(x, "columns") else rows, reset=True)
        self.n_features_in_ = rows.shape[1]

    def _query_rows(self, x: Any) -> np.ndarray:
        self._check_fitted()
        rows = _arrays.rows(x)
        self._check_names(x if hasattr(x, "columns") else rows, reset=False)
        _arrays.check_columns(type(self).__name__, rows.shape[1], self.n_features_in_)
        return rows

    def _check_fitted(self) -> None:
        if self._model is None:
            text = (
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )
            raise _not_fitted()(text)

    def _asked(self, x: Any) -> dict[str, np.ndarray]:
        """The columns that the model says of rows; in blocks where someone watches."""
        rows, threads = self._query_rows(x), self._threads()
        if not self.verbose or len(rows) <= BLOCK:
            return dict(self._model.predict(rows, threads))
        parts = [
            self._model.predict(rows[block], threads)
            for block in _progress.blocks(len(rows), BLOCK, type(self).__name__, True)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    @contextlib.contextmanager
    def _one_row(self, rows: np.ndarray) -> Iterator[None]:
        """Says that a single row is the trouble, where it is."""
        try:
            yield
        except NoSpreadError as error:
            raise (NoSpreadError(f"n_samples=1: {error}") if len(rows) == 1 else error) from None

    def _keep(self, model: Any) -> None:
        """Takes a fitted model, and tells what it learned."""
        self._model = model
        learned = model.learned()
        self.n_features_in_ = learned["n_columns"]
        self.bandwidth_ = model.bandwidth()
        self.bandwidth_curve_ = model.bandwidth_curve()
        self.density_bandwidth_ = learned["density_bandwidth"]
        self.dimension_ = learned["dimension"]
        self.index_ = f"{learned['index']} ({learned['index_reason']})"
        self.n_samples_fit_ = learned["n_rows"]

    def predict_uncertainty(self, X: Any) -> Uncertainty:
        """All that is said of each row."""
        raise NotImplementedError

    # -- deciding ---------------------------------------------------------------------------------------------------

    @property
    def thresholds_(self) -> dict[str, Threshold]:
        """The thresholds that the model keeps, by name."""
        self._check_fitted()
        return {name: Threshold(inner) for name, inner in self._model.thresholds().items()}

    def accept(self, X: Any, threshold: Threshold | str) -> np.ndarray:
        """True where a threshold, or the one of that name, accepts."""
        if not isinstance(threshold, Threshold):
            known = self.thresholds_
            if threshold not in known:
                raise InvalidParameterError(
                    f"threshold={threshold!r}: the model keeps {', '.join(map(repr, known)) or 'none'}"
                )
            threshold = known[threshold]
        return threshold.accept(self.predict_uncertainty(X))

    def _keep_threshold(self, threshold: Threshold, name: str | None) -> Threshold:
        if name is not None:
            self._model.set_threshold(name, threshold._inner)
        return threshold

    # -- neighbors --------------------------------------------------------------------------------------------------

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """The nearest training rows of each row, nearest first: distances and row numbers.

        Without ``X``, those of the training rows themselves, none of which is its own neighbor.
        """
        self._check_fitted()
        rows = None if X is None else self._query_rows(X)
        others = self.n_samples_fit_ - (rows is None)
        k = min(self.n_neighbors, others) if n_neighbors is None else _arrays.whole(n_neighbors, "n_neighbors", least=1)
        if k > others:
            raise OutOfRangeError(f"n_neighbors={k}: there are {others} training rows to choose from")
        distances, ids = self._model.kneighbors(rows, k, self._threads())
        return (distances, ids) if return_distance else ids

    def forget(self: _Self, ids: Any) -> _Self:
        """Forgets training rows by number; their numbers are given again to rows that come later."""
        self._check_fitted()
        numbers = np.atleast_1d(np.asarray(ids))
        if numbers.dtype.kind not in "iu" or numbers.ndim != 1 or (numbers < 0).any() or (numbers >= 2**32).any():
            raise UnknownIdError(f"ids={ids!r}: they are row numbers")
        self._model.remove(numbers.tolist())
        self._keep(self._model)
        return self

    # -- files ------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file, the same that the command line writes; ``nuq.load`` opens it."""
        self._check_fitted()
        self._model.save(Path(path))

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_model"}
        if self._model is not None:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.nuq"
                self._model.save(path)
                state["_model_file"] = path.read_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        stored = state.pop("_model_file", None)
        self.__dict__.update(state)
        if stored is not None:
            # The model has the file mapped, which may go meanwhile; where the system does not let it, it stays.
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                path = Path(folder) / "model.nuq"
                path.write_bytes(stored)
                self._model = _nuq.load(path)


def _not_fitted() -> type[Exception]:
    """Our exception; scikit-learn's too where that is loaded."""
    exceptions = sys.modules.get("sklearn.exceptions")
    if exceptions is None:
        return NotFittedError
    return _shared_not_fitted(exceptions.NotFittedError)


@functools.cache
def _shared_not_fitted(other: type[Exception]) -> type[Exception]:
    # Other processes make it anew from its text: pickle finds no class of that name.
    reduce = {"__module__": "nuq.errors", "__reduce__": lambda self: (_raised_not_fitted, self.args)}
    return type("NotFittedError", (NotFittedError, other), reduce)


def _raised_not_fitted(text: str) -> Exception:
    return _not_fitted()(text)


def _bandwidth(given: Any) -> Any:
    """A word, a number, or a number per column."""
    if isinstance(given, str):
        return given
    if given is None or isinstance(given, (bool, dict, set)):
        raise InvalidParameterError(f"bandwidth={given!r}: it is a word, a number, or a number per column")
    array = _arrays.to_numpy(given)
    if array.ndim > 1 or array.dtype.kind not in "iuf":
        raise InvalidParameterError(f"bandwidth={given!r}: it is a word, a number, or a number per column")
    return _arrays.numbers(array, np.float64) if array.ndim else float(array)


def _seed(random_state: Any) -> int:
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    raise InvalidParameterError(f"random_state={random_state!r}: it is a whole number that is not negative")

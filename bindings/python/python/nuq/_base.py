"""Base class of ``NuqClassifier`` and ``NuqRegressor``: parameters, input checks, thresholds, neighbors, files.

scikit-learn is used if it is already loaded. Only ``_tags`` imports it, and only scikit-learn calls that method.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from . import _arrays, _files, _neighbor_table, _nuq, _progress, _result, _tables
from ._params import Parameters
from ._result import Uncertainty
from ._warnings import warn
from .calibrate import FILE, Threshold, chosen, warn_changed, warn_training_rows
from .errors import (
    ColumnNamesError,
    DimensionMismatchError,
    InvalidParameterError,
    LengthMismatchError,
    NoSpreadError,
    NuqError,
    OutOfRangeError,
    ParameterTypeError,
    UnknownIdError,
)

#: Number of rows per block if progress is shown.
BLOCK = 8192

#: Largest value of ``n_jobs``.
MAX_THREADS = 1024

_Self = TypeVar("_Self", bound="Estimator")


#: The outputs of the network for the rows, whether these are logits (True) or probabilities (False), and the classes in the order of their columns.
Network = tuple[np.ndarray, bool, list[_arrays.Label]]


class State(NamedTuple):
    """Everything that a fit determines. An interrupt never leaves an estimator half changed. A fit replaces the whole state by a single
    assignment. An update sets a new revision before and after it changes the model, and changes the model completely or not at all."""

    model: Any
    #: Data type of the labels that were passed to ``fit``; None for a model from a file.
    label_type: np.dtype | None = None
    #: The argument ``classes`` of the first ``partial_fit``. Some of these classes may have no rows yet.
    listed: tuple[bool | int | str, ...] = ()
    #: Identifies the training rows. Every fit and every update sets a new revision. It is None for a model that was loaded from a file and
    #: not changed, and begins with ``FILE`` for a model that was loaded and then changed.
    revision: str | None = None
    #: Ids of the rows that ``partial_fit`` of a classifier has inserted after the fit, including removed rows. After an interrupt it may contain
    #: ids that no row has; they are not ids of rows of the fit.
    inserted: np.ndarray = np.empty(0, np.int64)


def new_revision() -> str:
    """A new, unique revision of a model."""
    return uuid.uuid4().hex


class Estimator(Parameters):
    """An estimator with parameters by the rules of scikit-learn, and with a fitted model of the extension."""

    _state: State | None = None
    #: "classifier" or "regressor".
    _kind = ""

    n_neighbors: int
    kernel: str
    normalize: bool
    index: str
    device: str
    n_jobs: int | None
    verbose: bool

    def _extension_params(self) -> dict[str, Any]:
        """The parameters with the types that the extension accepts."""
        params = self.get_params(deep=False)
        params["random_state"] = _seed(params["random_state"])
        params["bandwidth"] = _bandwidth(params["bandwidth"])
        for name, least in (("n_neighbors", 1), ("expected_queries", 0), ("selection_rows", 2)):
            params[name] = _arrays.integer(params[name], name, least)
        for name in ("normalize", "copy"):
            params[name] = _arrays.boolean(params[name], name)
        return params

    def _threads(self) -> int | None:
        jobs = self.n_jobs
        if jobs is None or jobs == -1:
            return None
        expected = f"n_jobs={jobs!r}: expected a nonzero integer of at most {MAX_THREADS}, or None for all processors"
        if not isinstance(jobs, (int, np.integer)) or isinstance(jobs, bool):
            raise ParameterTypeError(expected)
        if jobs == 0 or jobs > MAX_THREADS:
            raise OutOfRangeError(expected)
        return int(jobs) if jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(jobs))

    def _threads_of_a_copy(self) -> int | None:
        """The number of threads that write and open a pickle or a copy. An invalid ``n_jobs`` means all processors, because an estimator with
        invalid parameters can be copied, as in scikit-learn."""
        try:
            return self._threads()
        except NuqError:
            return None

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

    def _check_names(self, names: list[str] | None) -> None:
        """Compare the column names with those of the training rows. Rows without names are accepted with a warning, as in
        scikit-learn."""
        compare_names(self._model, type(self).__name__, names)

    def _training_rows(self, x: Any) -> np.ndarray:
        """The rows of a fit. Rows in the memory of a GPU stay there, unless the model searches on the CPU or normalizes them."""
        stay = self.index != "hnsw" and not self.normalize
        rows = _arrays.rows(x, gpu=_arrays.gpu_number(self.device) if stay else None)
        _arrays.warn_lost_digits(rows)
        return rows

    def _query_rows(self, x: Any) -> np.ndarray:
        self._check_fitted()
        # The model reports exactly "cpu" as its device if its index never searches on a GPU. If the index can search on a GPU but used the
        # CPU, the report is "cpu: " and a reason, for example that the machine has no GPU.
        stay = self._learned("device") != "cpu" and not self._fitted("normalize")
        rows = _arrays.rows(x, gpu=_arrays.gpu_number(self.device) if stay else None)
        self._check_names(_arrays.column_names(x))
        _arrays.check_columns(type(self).__name__, rows.shape[1], self.n_features_in_)
        return rows

    def _warn_training_rows(self, rows: np.ndarray) -> int:
        """Warn if rows that should be new equal training rows. Returns the number of equal rows; see ``warn_training_rows``."""
        threads = self._threads()
        return warn_training_rows(rows, lambda sample: self._model.equal_training_rows(sample, threads))

    def _neighbor_table(
        self, rows: np.ndarray, ids: Any, distances: Any, metric: str | None, rerank: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids and squared distances of the neighbors that the model uses, selected from the neighbors that the caller gives."""
        k = min(int(self._learned("n_neighbors")), self.n_samples_fit_)
        ids = _neighbor_table.checked_ids(ids, len(rows), k)
        if _arrays.boolean(rerank, "rerank"):
            squared = np.asarray(self._model.measure(rows, ids.shape[1], ids.ravel().tolist(), self._threads()))
        else:
            squared = _neighbor_table.squared(distances, metric, ids.shape, self._fitted("normalize"))
        return _neighbor_table.nearest(ids, squared, k)

    def _predictions(self, x: Any) -> dict[str, np.ndarray]:
        """The columns of the prediction."""
        return self._predict_rows(self._query_rows(x))

    def _predict_rows(self, rows: np.ndarray, network: Network | None = None) -> dict[str, np.ndarray]:
        """The columns of the prediction, computed in blocks if progress is shown. ``network`` is None for the predictions of NUQ."""
        threads = self._threads()
        if not self.verbose or len(rows) <= BLOCK:
            return self._decoded(self._model.predict(rows, None, threads, *_block_of(network, slice(None))))
        parts = [
            self._decoded(self._model.predict(rows[block], None, threads, *_block_of(network, block)))
            for block in _progress.blocks(len(rows), BLOCK, type(self).__name__)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _decoded(self, columns: dict[str, Any]) -> dict[str, np.ndarray]:
        """The columns of a prediction from the columns that the extension returns. A classifier converts class numbers to labels."""
        return columns

    @contextlib.contextmanager
    def _single_row_error(self, rows: np.ndarray) -> Iterator[None]:
        """Mention the number of rows in the error if a single row is the cause."""
        try:
            yield
        except NoSpreadError as error:
            raise (NoSpreadError(f"n_samples=1: {error}") if len(rows) == 1 else error) from None

    # -- fitted attributes, all read from the model -----------------------------------------------------------------

    @property
    def _model(self) -> Any:
        return None if self._state is None else self._state.model

    def _fitted_state(self) -> State:
        self._check_fitted()
        assert self._state is not None
        return self._state

    @contextlib.contextmanager
    def _changing(self, new_ids: np.ndarray | None = None) -> Iterator[None]:
        """A context in which the rows of the model change. A new revision is set before the change, because after an interrupt it is not known
        whether the model has changed. A second new revision is set after the change, because another thread may have computed results from
        the previous rows during the change and stored them with the first new revision. ``new_ids`` are the ids of rows that are inserted.
        They are recorded before the change too."""
        before = self._fitted_state()
        start = FILE if before.revision is None or before.revision.startswith(FILE) else ""
        inserted = before.inserted if new_ids is None else np.append(before.inserted, new_ids)
        changing = before._replace(revision=start + new_revision(), inserted=inserted)
        self._state = changing
        try:
            yield
        except NuqError:
            # A rejected change leaves the model as it was, so its previous revision is valid again. But if another thread has also changed
            # or fitted the model, the state that the other thread has set remains.
            if self._state is changing:
                self._state = before
            raise
        finally:
            after = self._fitted_state()
            if after is not before and after.model is before.model:
                self._state = after._replace(revision=start + new_revision())

    def _learned(self, name: str) -> Any:
        self._check_fitted()
        return self._model.learned()[name]

    def _fitted(self, name: str) -> Any:
        """A parameter of the constructor at the time of the fit. ``set_params`` changes only the next fit."""
        self._check_fitted()
        return self._model.params()[name]

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return int(self._learned("n_columns"))

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns. The attribute does not exist if the training rows have no names."""
        self._check_fitted()
        names = self._model.column_names()
        if names is None:
            raise AttributeError("the training rows have no column names")
        return np.array(names, dtype=object)

    @property
    def n_samples_fit_(self) -> int:
        """Number of training rows."""
        return int(self._learned("n_rows"))

    @property
    def bandwidth_(self) -> Any:
        """Bandwidth: a number, or one per column or per training row."""
        self._check_fitted()
        return self._model.bandwidth()

    @property
    def bandwidth_curve_(self) -> dict[str, Any] | None:
        """Leave-one-out scores of the candidate bandwidths; None if the bandwidth was not selected by leave-one-out."""
        self._check_fitted()
        curve: dict[str, Any] | None = self._model.bandwidth_curve()
        return curve

    @property
    def density_bandwidth_(self) -> float | None:
        """Bandwidth of the kernel density; None with density="gmm", and with density_bandwidth="same" (``bandwidth_`` is then used)."""
        bandwidth: float | None = self._learned("density_bandwidth")
        return bandwidth

    @property
    def density_(self) -> str:
        """Description of the fitted density. For "auto" it includes the parts that are used and their likelihoods."""
        return str(self._learned("density"))

    @property
    def dimension_(self) -> float:
        """Dimension that is used in the normalization constants of the density and the kernel."""
        return float(self._learned("dimension"))

    @property
    def effective_neighbors_(self) -> float | None:
        """Effective number of neighbors of a typical training row, for scale="effective"; None for the other scales."""
        neighbors: float | None = self._learned("effective_neighbors")
        return neighbors

    @property
    def index_(self) -> str:
        """Description of the neighbor index, and the reason for its choice."""
        self._check_fitted()
        learned = self._model.learned()
        return f"{learned['index']} ({learned['index_reason']})"

    @property
    def device_(self) -> str:
        """Device of the last neighbor search; "auto" before the device is chosen. If an index that supports GPUs searched on the CPU, the
        reason is included, for example that there is no GPU."""
        return str(self._learned("device"))

    # -- predictions ------------------------------------------------------------------------------------------------

    def predict_uncertainty(self, X: Any) -> Uncertainty:
        """Prediction, uncertainties and density of each row."""
        raise NotImplementedError

    def predict_from(
        self, X: Any, ids: Any, distances: Any = None, *, metric: str | None = None, rerank: bool = False
    ) -> Uncertainty:
        """The same result as ``predict_uncertainty``, from neighbors that a vector database or another program has computed.

        ``ids`` and ``distances`` have one row per row of ``X``: ids of training rows and their distances, in any order. Fewer
        neighbors than the model uses are an error, ``FewNeighborsError``. If more neighbors are given, the nearest of them are used.

        ``metric`` states what the distances are: "l2" (Euclidean distances, as pgvector and Qdrant return them), "l2sq" (squared
        Euclidean distances: FAISS, LanceDB, Milvus) or "cosine" (1 - cosine similarity; for models with ``normalize=True``). The
        distances must be computed in the space that the model searches: between rows of norm one if ``normalize=True``, and with
        each column divided by its bandwidth if there is one bandwidth per column.

        With ``rerank=True``, the distances are computed from the rows of the model, as in ``measure``; ``distances`` and ``metric``
        are not used and may be omitted.
        """
        rows = self._query_rows(X)
        table = self._neighbor_table(rows, ids, distances, metric, rerank)
        before = self._fitted_state()
        prediction = self._decoded(self._model.predict(rows, table, self._threads()))
        uncertainty = self._uncertainty(prediction, _arrays.row_index(X))
        uncertainty._revision = self._revision_since(before)
        return uncertainty

    def _revision_since(self, before: State) -> str | None:
        """The revision of the rows that a prediction used, for ``Threshold.accept``; ``before`` is the state before the prediction. If another thread
        has changed the model since, it is not known which rows were used, and the result is a new revision, which no model has."""
        after = self._fitted_state()
        is_unchanged = after.model is before.model and after.revision == before.revision
        return before.revision if is_unchanged else new_revision()

    def measure(self, X: Any, ids: Any) -> np.ndarray:
        """Squared distances from each row to given training rows, for ``predict_from`` with ``metric="l2sq"``. ``ids`` has one row of ids
        per row of ``X``, and the result has the same shape. The distances are computed in the space that the model searches."""
        rows = self._query_rows(X)
        ids = _neighbor_table.id_matrix(ids, len(rows))
        if ids.size and not 0 <= ids.min() <= ids.max() < 2**32:
            raise UnknownIdError("ids must be ids of training rows, integers of at least 0")
        return np.asarray(self._model.measure(rows, ids.shape[1], ids.ravel().tolist(), self._threads()))

    def _uncertainty(self, prediction: dict[str, np.ndarray], index: Any = None) -> Uncertainty:
        raise NotImplementedError

    # -- decisions --------------------------------------------------------------------------------------------------

    @property
    def thresholds_(self) -> _tables.Rules[Threshold]:
        """The stored thresholds by name: a dictionary with ``to_pandas``, ``to_polars`` and ``to_arrow``."""
        self._check_fitted()
        revision = self._fitted_state().revision
        rules = {name: Threshold(inner, self._kind, revision) for name, inner in self._model.thresholds().items()}
        for rule in rules.values():
            rule._temperature = self._temperature_of(rule)
        return _tables.Rules(rules)

    def _temperature_of(self, threshold: Threshold) -> float | None:
        """The temperature on which a stored threshold depends; None if it depends on none."""
        return None

    def remove_threshold(self: _Self, name: str) -> _Self:
        """Remove a stored threshold."""
        self._check_fitted()
        name = _arrays.text(name, "name")
        stored = self.thresholds_
        if not self._model.remove_threshold(name):
            raise InvalidParameterError(f"name={name!r}: the stored thresholds are {', '.join(map(repr, stored)) or 'none'}")
        return self

    def accept(self, X: Any, threshold: Threshold | str | Sequence[Threshold | str]) -> np.ndarray:
        """True where ``threshold`` accepts the prediction. ``threshold`` is a threshold, the name of a stored threshold, or a list of
        thresholds and names. With a list, all thresholds must accept the prediction."""
        return _all_accept(self._thresholds(threshold), self.predict_uncertainty(X))

    def _thresholds(self, threshold: Threshold | str | Sequence[Threshold | str]) -> list[Threshold]:
        thresholds = chosen(threshold, self.thresholds_, Threshold)
        for one in thresholds:
            warn_changed(one, self._fitted_state().revision)
        return thresholds

    def _threshold(self, threshold: Threshold | str) -> Threshold:
        return self._thresholds([threshold])[0]

    def _store_threshold(self, threshold: Threshold, name: str | None, revision: str | None) -> Threshold:
        """Store a threshold that was chosen for a revision of the model, if it has a name."""
        threshold._kind, threshold._revision = self._kind, revision
        if name is not None:
            self._model.set_threshold(name, threshold._inner)
            self._check_unchanged(revision, lambda: self._model.remove_threshold(name))
        return threshold

    def _check_unchanged(self, revision: str | None, remove: Callable[[], Any]) -> None:
        """Check after a rule was stored that the model still has the revision for which the rule was chosen. Otherwise the rule is removed. A change
        that begins after this check removes the rule itself."""
        if self._fitted_state().revision != revision:
            remove()
            raise InvalidParameterError(
                "another thread has changed the model during calibrate, so nothing is stored: calibrate again"
            )

    # -- neighbors --------------------------------------------------------------------------------------------------

    def kneighbors(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
        *,
        output: str = "numpy",
    ) -> Any:
        """Distances and row ids of the nearest training rows of each row, nearest first.

        Without ``X``, the result contains the neighbors of each training row among the other training rows. With ``output="torch"``,
        distances and ids are PyTorch tensors (``float64`` and ``int64``) on the device of ``X``, or on the CPU if ``X`` is not a tensor.
        With ``output="pandas"``, ``"polars"`` or ``"arrow"``, the result is a table with one line per pair of a row and a neighbor. Its
        columns are ``row`` (position in ``X``; without ``X`` the id of the training row), ``rank`` (1 for the nearest neighbor), ``id`` and
        ``distance``.
        """
        self._check_fitted()
        _arrays.choice(output, "output", ("numpy", "torch", *_tables.TABLES))
        rows = None if X is None else self._query_rows(X)
        others = self.n_samples_fit_ - (rows is None)
        if others == 0:
            raise OutOfRangeError("the model has one training row: there are no other rows that could be its neighbors")
        learned = int(self._learned("n_neighbors"))
        k = min(learned, others) if n_neighbors is None else _arrays.integer(n_neighbors, "n_neighbors", least=1)
        if k > others:
            raise OutOfRangeError(f"n_neighbors={k}: only {others} training rows are available")
        with_distances = _arrays.boolean(return_distance, "return_distance")
        distances, ids = self._model.kneighbors(rows, k, self._threads())
        if output in _tables.TABLES:
            numbers = self.training_ids_ if rows is None else np.arange(len(ids))
            pairs = _tables.neighbor_columns(numbers, ids, distances if with_distances else None)
            return _tables.table(pairs, output)
        if output == "torch":
            device = X.device if _arrays.is_torch(X) else "cpu"
            distances, ids = (_result.tensor(values, device) for values in (distances, ids))
        return (distances, ids) if with_distances else ids

    def remove(self: _Self, ids: Any) -> _Self:
        """Remove training rows.

        ``ids`` contains the ids of rows, or is a boolean mask with one entry per training row in the order of ``training_ids_``.
        ``kneighbors`` returns ids; the id of a row of ``fit`` is its position. An empty selection changes nothing.
        Rows that are inserted later may get the ids of removed rows. Stored thresholds, prediction sets and prediction intervals are
        removed, because their guarantees hold only for the previous rows.
        """
        self._check_fitted()
        numbers = self._row_ids(ids)
        if not numbers:
            return self
        threads = self._threads()
        with self._changing():
            self._model.remove(numbers, threads)
        return self

    def _row_ids(self, ids: Any) -> list[int]:
        """Ids of training rows. ``ids`` contains ids, or is a boolean mask with one entry per training row."""
        numbers = np.atleast_1d(_arrays.to_numpy(ids))
        if numbers.ndim == 1 and numbers.dtype.kind == "b":
            if len(numbers) != self.n_samples_fit_:
                raise LengthMismatchError(
                    f"the mask has {len(numbers)} entries for {self.n_samples_fit_} training rows: give one per row"
                )
            numbers = self.training_ids_[numbers]
        if numbers.shape == (0,):
            return []
        if numbers.dtype.kind not in "iu" or numbers.ndim != 1 or (numbers < 0).any() or (numbers >= 2**32).any():
            raise UnknownIdError(f"ids={ids!r}: expected row ids (integers of at least 0) or a boolean mask")
        selected: list[int] = numbers.tolist()
        return selected

    @property
    def training_ids_(self) -> np.ndarray:
        """Ids of the training rows in ascending order. Without removed rows these are 0, 1, 2, …"""
        self._check_fitted()
        return np.asarray(self._model.ids())

    def _suggest(self, X: Any, n: int, output: str) -> Any:
        _arrays.choice(output, "output", ("numpy", *_tables.TABLES))
        rows, n = self._query_rows(X), _arrays.integer(n, "n")
        log_epistemic = self._predict_rows(rows)["log_epistemic"]
        chosen = self._model.suggest(rows, log_epistemic, n, self._threads())
        if output == "numpy":
            return chosen
        return _tables.table({"row": chosen, "log_epistemic": log_epistemic[chosen]}, output)

    def leave_one_out(self) -> Uncertainty:
        """Prediction, uncertainties and density of each training row, computed from the other training rows.

        The rows are in the order of ``training_ids_``; the column ``row`` holds these ids. The densities "gmm" and "auto" use
        Gaussians that are estimated from all rows, including the row itself.
        """
        self._check_fitted()
        prediction = self._uncertainty(self._decoded(self._model.leave_one_out(self._threads())))
        return Uncertainty({"row": self.training_ids_, **dict(prediction.items())})

    # -- notebooks --------------------------------------------------------------------------------------------------

    def _steps(self) -> list[tuple[str, str]]:
        learned = self._model.learned()
        rows = f"{learned['n_rows']:,} rows × {learned['n_columns']:,} columns"
        bandwidth = self.bandwidth_
        widths = f"bandwidth {bandwidth:.4g}" if isinstance(bandwidth, float) else f"{len(bandwidth):,} bandwidths"
        return [
            ("training rows", rows + self._rows_detail()),
            ("search", f"{learned['n_neighbors']} neighbors, {learned['index']}"),
            ("kernel", f"{self._fitted('kernel')}, {widths}"),
            ("density", learned["density"]),
            ("result", self._result_names()),
        ]

    def _rows_detail(self) -> str:
        return ""

    def _result_names(self) -> str:
        raise NotImplementedError

    def _rules(self) -> dict[str, Any]:
        return {"Thresholds": self.thresholds_}

    # -- files ------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, rows: bool = True) -> None:
        """Write the model file, in the same format as the command line. ``nuq.load`` opens it.

        With ``rows=False`` the file has no training rows. This is meant for training rows that are in a vector database. ``predict_from`` of
        the model without rows gives the same results as with rows. Everything that needs the rows raises ``RowsNotStoredError``. The kernel
        must be "gaussian" or "student".
        """
        self._check_fitted()
        self._model.save(_arrays.path(path), _arrays.boolean(rows, "rows"), self._threads())

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_state"}
        if self._state is not None:
            state["_stored"] = (_files.to_bytes(self._model, n_jobs=self._threads_of_a_copy()), *self._state[1:])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        stored = state.pop("_stored", None)
        self.__dict__.update(state)
        if stored is not None:
            content, *rest = stored
            self._state = State(_files.from_bytes(content, self.device, self._threads_of_a_copy()), *rest)


def compare_names(model: Any, owner: str, names: list[str] | None) -> None:
    """Compare column names with the column names of the training rows. ``model`` is a fitted object of the extension."""
    known = model.column_names()
    if names is None and known is not None:
        text = f"X does not have valid feature names, but {owner} was fitted with feature names"
        warn(text)
    elif names is not None:
        if (difference := model.different_names(names)) is not None:
            # If the training rows have no names, their columns count as named 0, 1, 2, …
            known = [str(column) for column in range(len(names))] if known is None else known
            error = ColumnNamesError if len(names) == len(known) else DimensionMismatchError
            raise error(
                f"{_arrays.names_message(known, names)}The difference: {difference}. Reorder or rename the columns, or match "
                "them by position with X.to_numpy()."
            )
        if known is None:
            text = f"X has feature names, but {owner} was fitted without feature names"
            warn(text)


def _bandwidth(bandwidth: Any) -> Any:
    """Check the parameter ``bandwidth``: the name of a rule, a number, or an array with one number per column."""
    if isinstance(bandwidth, str):
        return bandwidth
    message = f"bandwidth={bandwidth!r}: expected the name of a rule, a number, or one number per column"
    if bandwidth is None or isinstance(bandwidth, (bool, dict, set)):
        raise InvalidParameterError(message)
    array = _arrays.to_numpy(bandwidth)
    if array.ndim > 1 or array.dtype.kind not in "iuf":
        raise InvalidParameterError(message)
    return _arrays.numbers(array, np.float64) if array.ndim else float(array)


def _seed(random_state: Any) -> int:
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    is_integer = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if is_integer and 0 <= random_state < 2**64:
        return int(random_state)
    raise InvalidParameterError(f"random_state={random_state!r}: expected an integer from 0 to 2**64 - 1, a numpy generator or None")


def _all_accept(thresholds: list[Threshold], uncertainty: Uncertainty) -> np.ndarray:
    """True where all thresholds accept."""
    return np.asarray(np.logical_and.reduce([one.accept(uncertainty) for one in thresholds]))


def _block_of(network: Network | None, block: slice) -> tuple[Any, ...]:
    """The outputs of the network for a block of rows, as an optional last argument of the extension."""
    return () if network is None else ((network[0][block], *network[1:]),)

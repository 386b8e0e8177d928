"""The estimator ``NuqClassifier``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from . import _arrays, _nuq, _progress, _tables
from ._base import Estimator, Network, State, _all_accept, new_revision
from ._result import Uncertainty
from ._warnings import warn
from .calibrate import DELTA, ModelRequest, SetRule, Threshold, one_target, warn_changed, warn_other_temperature
from .errors import InvalidInputError, InvalidParameterError, LengthMismatchError, NotFiniteError, ParameterTypeError


class NuqClassifier(Estimator):
    """Classifier with aleatoric, epistemic and total uncertainty, for the embeddings of a trained network.

    Parameters
    ----------
    n_neighbors : number K of nearest training rows in each kernel sum.
    kernel : "gaussian", "logistic", "sigmoid" or "student".
    bandwidth : bandwidth of the kernel of the class probabilities. "log_likelihood" and "accuracy" select it by
        leave-one-out; "silverman", "scott" and "isj" are plug-in rules; "adaptive" uses one bandwidth per training row, the
        distance to its K-th neighbor. A number, or one number per column, is used as given.
    density : "auto" (kernel density combined with Gaussians that share one covariance; the kernel density alone if it fits
        left-out rows better), "kde" (kernel density) or "gmm" (one Gaussian per class).
    density_bandwidth : bandwidth of the kernel density: "half_median" (half the median distance to the K-th neighbor),
        "same" (the bandwidth of the class probabilities), or a number. "same" and numbers require density="kde".
    covariance : covariances of the Gaussians: "full", "tied" or "diagonal"; only with density="gmm".
    shrinkage : shrinkage of the covariances: "ledoit_wolf" or a number in [0, 1]; only with density="gmm".
    scale_free : compute the density of the Gaussians relative to the measure dx/|x|^d, where d is the number of columns that are not
        constant (only with density="gmm").
    prior_weight : weight of the class frequencies, in units of one training row at distance zero.
    variance : variance term of the epistemic uncertainty: "sum" over the classes, or "max" as in the paper.
    scale : formula of the number n(x) of training rows that support an estimate: "effective" (the effective number of
        neighbors of a typical training row, times the density at x relative to the density at such a row), "intrinsic" or "ambient" (the
        asymptotic formula in the intrinsic dimension of the data, or in all columns as in the paper).
    normalize : divide each row by its Euclidean norm.
    index : neighbor search: "exact", "hnsw" (graph), or "auto", which chooses by the expected cost.
    recall : required share of the true neighbors in the result of a graph search, measured on a sample of training rows.
    expected_queries : expected number of queries. index="auto" chooses the index with the lower total cost for this number.
    precision : storage of the rows of a graph: "f32", or "f16", which needs half the memory (index="hnsw" only).
    selection_rows : largest number of training rows, drawn at random, from which bandwidths and dimension are estimated.
    n_jobs : number of threads; None or -1 for all processors.
    random_state : seed of the random samples.
    verbose : show progress on stderr.
    copy : keep a copy of the training rows. With False, aligned ``float32`` rows in C order are not copied: the model reads
        the memory of ``X``, and the caller must not change ``X`` as long as the model exists.
    device : device of the neighbor search: "cpu", "cuda" or "cuda:N" (an NVIDIA GPU), or "auto". "auto" uses a GPU if there is one and
        its search, including the copy of the rows to it, is expected to take less time than the search on the CPU. A GPU searches
        exactly. Results are the same on every device, bit for bit. If the rows to predict are floats in the memory of that GPU
        and normalize=False, their neighbors are searched there, without a copy of the rows to the host.

    Examples
    --------
    >>> import numpy as np
    >>> from nuq import NuqClassifier
    >>> X = np.array([[0.0, 0.0], [0.1, 0.0], [1.0, 1.0], [1.1, 1.0]], dtype=np.float32)
    >>> model = NuqClassifier(n_neighbors=2).fit(X, ["cat", "cat", "dog", "dog"])
    >>> model.predict([[0.05, 0.0]])
    array(['cat'], dtype='<U3')
    >>> near, far = model.predict_uncertainty([[0.05, 0.0], [40.0, -40.0]]).log_epistemic
    >>> bool(far > near + 10)
    True
    """

    def __init__(
        self,
        n_neighbors: int = 20,
        kernel: str = "gaussian",
        bandwidth: Any = "log_likelihood",
        density: str = "auto",
        density_bandwidth: str | float = "half_median",
        covariance: str = "full",
        shrinkage: str | float = "ledoit_wolf",
        scale_free: bool = False,
        prior_weight: float = 1e-3,
        variance: str = "sum",
        scale: str = "effective",
        normalize: bool = False,
        index: str = "auto",
        recall: float = 0.99,
        expected_queries: int = 10_000,
        precision: str = "f32",
        selection_rows: int = 10_000,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
        copy: bool = True,
        device: str = "auto",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.density = density
        self.density_bandwidth = density_bandwidth
        self.covariance = covariance
        self.shrinkage = shrinkage
        self.scale_free = scale_free
        self.prior_weight = prior_weight
        self.variance = variance
        self.scale = scale
        self.normalize = normalize
        self.index = index
        self.recall = recall
        self.expected_queries = expected_queries
        self.precision = precision
        self.selection_rows = selection_rows
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.copy = copy
        self.device = device

    @classmethod
    def paper(cls, **changes: Any) -> NuqClassifier:
        """A classifier with the parameters of Algorithm 1 as printed in the paper, for comparison.

        There is no prior, and the variance term is the maximum over the classes. One bandwidth, selected by accuracy, is used for
        the class probabilities and the density. The scale is "ambient". A row whose neighbors all have the same class then has an
        epistemic uncertainty of zero at any distance.
        """
        paper_params = {
            "prior_weight": 0.0,
            "variance": "max",
            "bandwidth": "accuracy",
            "density": "kde",
            "density_bandwidth": "same",
            "scale": "ambient",
            "normalize": False,
        }
        return cls(**{**paper_params, **changes})

    _kind = "classifier"

    def __sklearn_tags__(self) -> Any:
        return self._tags("classifier")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NuqClassifier:
        """Fit the model to rows and their labels: booleans, integers or strings.

        A row with the ``sample_weight`` s counts as s equal rows in the kernel sums, the class frequencies, the density and the
        selection of the bandwidth, but only as one of the K neighbors. A row with the weight 0 is left out, and its id is not used.

        The column names of a data frame are stored in the model. Rows with other names, or in another order, raise
        ``ColumnNamesError``; pass ``X.to_numpy()`` to match columns by position.
        """
        return self._fit(X, y, sample_weight, ())

    def _fit(self, X: Any, y: Any, sample_weight: Any, listed: tuple[_arrays.Label, ...]) -> NuqClassifier:
        threads = self._threads()
        rows = self._training_rows(X)
        label_type, numbers, labels = _arrays.labels(y, type(self).__name__)
        _arrays.check_lengths(rows, numbers)
        weights = _arrays.weights(sample_weight, len(rows))
        _arrays.warn_small_weights(weights)
        _check_listed(labels, listed)
        names = _arrays.column_names(X)
        timer = _progress.Timer(f"fitting {len(rows)} rows") if self.verbose else None
        tick = timer.tick if timer else None
        with self._single_row_error(rows):
            model = _nuq.Classifier.fit(self._extension_params(), rows, labels, numbers, weights, names, threads, tick)
        self._state = State(model, label_type, listed, new_revision())
        if len(model.classes()) == 1:
            text = "all labels are equal: only log_density and the epistemic uncertainty are informative"
            warn(text)
        if model.has_many_integers():
            text = (
                f"{len(labels)} classes in {len(rows)} rows, and all labels are integers: if they are quantities, fit a NuqRegressor"
            )
            warn(text)
        if timer:
            timer.done(f"bandwidth {_format_bandwidth(self.bandwidth_)}, {self.index_}")
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> NuqClassifier:
        """Insert rows into the model. The first call is the same as ``fit``. Later calls do not change the bandwidths. They remove
        stored thresholds and sets, because the guarantees of these hold only for the previous rows. After an interrupt
        (Ctrl-C), either all rows are inserted or none.

        ``classes`` in the first call lists all labels that may occur, and other labels are then errors. ``classes_`` and the
        columns of ``predict_proba`` contain all listed classes. Classes without rows have probability 0, with one exception: if all rows
        have the same class, the other listed classes have equal shares of the remaining probability. The list is an attribute of the
        Python object: a pickle contains it, a model file does not. Without ``classes``, later calls may add new classes.

        ``sample_weight`` has the same meaning as in ``fit``, for the rows of this call.
        """
        listed = None if classes is None else tuple(sorted(_arrays.labels(classes, type(self).__name__)[2]))
        if listed == ():
            raise InvalidParameterError("classes is empty: list all labels that may occur, or omit it")
        if self._model is None:
            return self._fit(X, y, sample_weight, listed or ())
        if listed is not None and list(listed) != self._all_labels(self._model.classes()):
            raise InvalidParameterError(
                f"classes={classes!r} is not the same as before: the classes of the model are {self.classes_.tolist()}"
            )
        rows = self._query_rows(X)
        _, numbers, labels = _arrays.labels(y, type(self).__name__)
        _arrays.check_lengths(rows, numbers)
        weights = _arrays.weights(sample_weight, len(rows))
        _check_listed(labels, listed or self._fitted_state().listed)
        threads = self._threads()
        # The ids of the new rows are recorded before the insertion, because an interrupt may arrive at its end.
        expected = self._model.next_ids(len(rows))
        with self._changing(expected):
            ids = self._model.insert(rows, labels, numbers, weights, threads)
            if not np.array_equal(ids, expected):
                # Another thread has changed the rows at the same time.
                state = self._fitted_state()
                self._state = state._replace(inserted=np.append(state.inserted, ids))
        return self

    def relabel(self, ids: Any, y: Any) -> NuqClassifier:
        """Replace the labels of training rows, for example of rows that ``label_issues`` lists. ``ids`` selects rows as in ``remove``, and ``y``
        has one label per selected row, which may be a new class. The rows keep their ids, and the bandwidths do not change. Stored
        thresholds and sets are removed as in ``partial_fit``.
        """
        self._check_fitted()
        selected = self._row_ids(ids)
        if not selected:
            return self
        _, numbers, labels = _arrays.labels(y, type(self).__name__)
        if len(numbers) != len(selected):
            raise LengthMismatchError(f"y has {len(numbers)} labels for {len(selected)} rows: give one label per row")
        _check_listed(labels, self._fitted_state().listed)
        threads = self._threads()
        with self._changing():
            self._model.relabel(selected, labels, numbers, threads)
        return self

    @property
    def training_labels_(self) -> np.ndarray:
        """The label of each training row, in the order of ``training_ids_``."""
        self._check_fitted()
        return self._labels_of(self.training_ids_)

    def _labels_of(self, ids: np.ndarray) -> np.ndarray:
        """The label of each training row with one of these ids, in an array of the same shape."""
        classes, numbers = self._model.training_classes()
        labels: np.ndarray = self._labels(classes)[np.asarray(numbers)[ids]]
        return labels

    def _all_labels(self, present: list[_arrays.Label]) -> list[_arrays.Label]:
        """The labels of the classes with rows (``present``) and the labels that the first ``partial_fit`` listed, sorted."""
        listed = self._fitted_state().listed
        return sorted({*present, *listed}) if listed else present

    def _labels(self, values: list[_arrays.Label]) -> np.ndarray:
        return _arrays.label_array(values, self._fitted_state().label_type)

    @property
    def classes_(self) -> np.ndarray:
        """The labels of all classes, sorted."""
        self._check_fitted()
        return self._labels(self._all_labels(self._model.classes()))

    # -- prediction -------------------------------------------------------------------------------------------------

    def predict(self, X: Any, return_uncertainty: str | None = None) -> Any:
        """Label of each row. With ``return_uncertainty`` "aleatoric", "epistemic" or "total", returns a pair: the labels and
        the logarithm of that uncertainty."""
        term = _term(return_uncertainty)
        prediction = self._predictions(X)
        label = prediction["label"]
        if term is None:
            return label
        if term == "aleatoric":
            with np.errstate(divide="ignore"):
                return label, np.log(prediction["aleatoric"])
        return label, prediction[f"log_{term}"]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, in the order of ``classes_``."""
        return self._probabilities(self._query_rows(X), None)

    def predict_proba_from(
        self, X: Any, ids: Any, distances: Any = None, *, metric: str | None = None, rerank: bool = False
    ) -> np.ndarray:
        """The same result as ``predict_proba``, from given neighbors; see ``predict_from``."""
        rows = self._query_rows(X)
        return self._probabilities(rows, self._neighbor_table(rows, ids, distances, metric, rerank))

    def _probabilities(self, rows: np.ndarray, table: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
        values, present = self._model.predict_proba(rows, table, self._threads())
        labels = self._all_labels(present)
        if len(labels) == len(present):
            return np.asarray(values)
        position = {label: i for i, label in enumerate(labels)}
        probability = np.zeros((len(values), len(labels)))
        if len(present) == 1:
            probability += (1.0 - values) / (len(labels) - 1)
        probability[:, [position[label] for label in present]] = values
        return probability

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Natural logarithm of the probability of each class, in the order of ``classes_``. It is -inf where a probability is zero.
        This can happen in three cases: the class is listed but has no rows, ``prior_weight`` is zero, or the probability is below the range of
        float64."""
        probability = self.predict_proba(X)
        order = np.argsort(probability, axis=1, kind="stable")
        ascending = np.take_along_axis(probability, order, axis=1)
        with np.errstate(divide="ignore"):
            logs = np.log(ascending)
        # Different probabilities can have the same rounded logarithm. The larger one gets the next larger float, and equal probabilities get the
        # same logarithm, so that the order is kept.
        for column in range(1, logs.shape[1]):
            tied = (ascending[:, column] > ascending[:, column - 1]) & (logs[:, column] <= logs[:, column - 1])
            logs[tied, column] = np.nextafter(logs[tied, column - 1], np.inf)
            equal = ascending[:, column] == ascending[:, column - 1]
            logs[equal, column] = logs[equal, column - 1]
        result: np.ndarray = np.empty_like(logs)
        np.put_along_axis(result, order, logs, axis=1)
        return result

    def predict_uncertainty(
        self, X: Any, *, logits: Any = None, probabilities: Any = None, classes: Any = None
    ) -> Uncertainty:
        """Label and its probability, aleatoric, epistemic and total uncertainty with their logarithms, and the log density of
        the training data at each row.

        With the ``logits`` or ``probabilities`` of the network for the same rows, label, probability and uncertainties describe the
        network's prediction; the density and the number n(x) of training rows still come from the model. ``logits`` and
        ``probabilities`` have one column per class, in the order of ``classes``, or of ``classes_`` if ``classes`` is not given.
        """
        rows = self._query_rows(X)
        network = self._network(len(rows), logits, probabilities, classes)
        before = self._fitted_state()
        columns = self._predict_rows(rows, network)
        uncertainty = Uncertainty(columns, _arrays.row_index(X), "nuq" if network is None else "network")
        uncertainty._revision = self._revision_since(before)
        uncertainty._temperature = None if network is None else self._temperature()
        return uncertainty

    def _network(
        self, n: int, logits: Any, probabilities: Any, classes: Any, counted: str = "row of X"
    ) -> Network | None:
        """The outputs of the network in the order of the model's classes. There is one output per ``counted``. The extension compares these classes
        with those of the model when it uses the outputs, because another thread may change the model."""
        if logits is None and probabilities is None:
            if classes is not None:
                raise InvalidParameterError("classes= is the order of the columns of logits or probabilities: give one of them")
            return None
        if logits is not None and probabilities is not None:
            raise InvalidParameterError("give logits or probabilities, not both")
        name = "probabilities" if logits is None else "logits"
        matrix = _arrays.rows(probabilities if logits is None else logits, name)
        known = list(self._model.classes())
        missing = [label for label in self._all_labels(known) if label not in known]
        if missing:
            raise InvalidInputError(
                f"{name} need training rows of every class, and the listed classes {missing} have none: add rows with partial_fit"
            )
        order = None if classes is None else class_order(classes, known, type(self).__name__)
        check_class_columns(name, probabilities if logits is None else logits, known, order)
        if matrix.shape != (n, len(known)):
            raise LengthMismatchError(
                f"{name} has shape {matrix.shape}: expected {n} rows, one per {counted}, and {len(known)} columns, one per class"
                + (" in the order of classes_" if order is None else "")
            )
        bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        if len(bad):
            raise NotFiniteError(f"row {bad[0]} of {name} contains NaN or infinity")
        return (matrix if order is None else np.ascontiguousarray(matrix[:, order])), logits is not None, known

    def _decoded(self, columns: dict[str, Any]) -> dict[str, np.ndarray]:
        # The labels are those that the extension returned with the class numbers, because another thread may have changed the classes of
        # the model since the prediction.
        labels = self._labels(columns.pop("classes"))
        return {"label": labels[columns.pop("class")], **columns}

    def _uncertainty(self, prediction: dict[str, np.ndarray], index: Any = None) -> Uncertainty:
        return Uncertainty(prediction, index)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of the training data at each row. The method has the same name in the density estimators of scikit-learn."""
        return self._predictions(X)["log_density"]

    def decision_function(self, X: Any) -> np.ndarray:
        """Class probabilities; for two classes the log odds of the second."""
        probability = self.predict_proba(X)
        if probability.shape[1] != 2:
            return probability
        return np.asarray(np.log(np.maximum(probability, np.finfo(np.float64).tiny)) @ [-1.0, 1.0])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of the predicted labels."""
        predicted = self.predict(X)
        truth = self._class_numbers(y, predicted)
        weights = _arrays.weights(sample_weight, len(predicted))
        return float(np.average(self._are_equal(predicted, *truth), weights=weights))

    def _class_numbers(self, y: Any, rows: Any = None) -> tuple[np.ndarray, list[_arrays.Label]]:
        """The class number of the label of each row, and the labels of the classes. The number is -1, with a warning, if the label is not a class
        of the model. Labels of another type than the classes are errors."""
        self._check_fitted()
        _, numbers, labels = _arrays.labels(y, type(self).__name__)
        if rows is not None:
            _arrays.check_lengths(rows, numbers)
        classes, known = self._model.class_numbers(labels, numbers)
        unknown = int((classes < 0).sum())
        if unknown:
            example = labels[numbers[classes < 0][0]]
            text = (
                f"{unknown} of {len(classes)} labels are not classes of the model, for example {example!r}, and count as errors; "
                f"classes of the model are {', '.join(map(repr, known[:3]))}{', …' if len(known) > 3 else ''}"
            )
            warn(text)
        return np.asarray(classes), known

    def _are_equal(self, predicted: np.ndarray, truth: np.ndarray, known: list[_arrays.Label]) -> np.ndarray:
        """Whether each predicted label is the label of the true class number. A negative class number equals no label. ``known`` are the labels of
        the classes. They are compared by label, because another thread may have changed the class numbers since the prediction."""
        return np.asarray((self._labels(known)[truth] == predicted) & (truth >= 0))

    # -- decisions --------------------------------------------------------------------------------------------------

    def accept(
        self,
        X: Any,
        threshold: Threshold | str | Sequence[Threshold | str] | None = None,
        *,
        cost: float | None = None,
        level: float | None = None,
        logits: Any = None,
        probabilities: Any = None,
        classes: Any = None,
    ) -> np.ndarray:
        """True where the prediction is accepted, False where the classifier abstains.

        Give either ``threshold`` or ``cost``. ``threshold`` is a threshold, or the name of a stored threshold, with which the uncertainty
        is compared; all thresholds in a list must accept. ``cost`` is the cost of an abstention divided by the cost of an error: a
        prediction is accepted if the probability of an error is at most ``cost``. With ``cost`` and ``level``, an upper
        confidence bound of the probability of an error is compared instead (Algorithm 2 of the paper).

        With ``logits`` or ``probabilities`` of the network, the predictions of the network are accepted or rejected, as in
        ``predict_uncertainty``. A threshold that was chosen with logits or probabilities needs them here too, unless it is a threshold on
        the density with the target ``coverage`` or ``false_alarm``.
        """
        if (threshold is None) == (cost is None):
            raise InvalidParameterError("give one of threshold and cost")
        if cost is None:
            if level is not None:
                raise InvalidParameterError(f"level={level!r}: it belongs to cost, not to a threshold")
            assert threshold is not None
            thresholds = self._thresholds(threshold)
            uncertainty = self.predict_uncertainty(X, logits=logits, probabilities=probabilities, classes=classes)
            return _all_accept(thresholds, uncertainty)
        rows = self._query_rows(X)
        network = self._network(len(rows), logits, probabilities, classes)
        level = None if level is None else _arrays.real(level, "level")
        return np.asarray(self._model.accept(rows, _arrays.real(cost, "cost"), level, self._threads(), network))

    @overload
    def calibrate(
        self,
        X: Any,
        y: Any = None,
        *,
        coverage: float | None = None,
        risk: float | None = None,
        false_alarm: float | None = None,
        sets: None = None,
        delta: float = 0.05,
        measure: str | None = None,
        name: str | None = None,
        logits: Any = None,
        probabilities: Any = None,
        classes: Any = None,
    ) -> Threshold: ...

    @overload
    def calibrate(
        self,
        X: Any,
        y: Any = None,
        *,
        sets: float,
        set_score: str = "lac",
        by_class: bool = False,
        name: str | None = None,
        logits: Any = None,
        probabilities: Any = None,
        classes: Any = None,
    ) -> SetRule: ...

    def calibrate(
        self,
        X: Any,
        y: Any = None,
        *,
        coverage: float | None = None,
        risk: float | None = None,
        false_alarm: float | None = None,
        sets: float | None = None,
        delta: float = 0.05,
        measure: str | None = None,
        set_score: str = "lac",
        by_class: bool = False,
        name: str | None = None,
        logits: Any = None,
        probabilities: Any = None,
        classes: Any = None,
    ) -> Threshold | SetRule:
        """Choose a threshold or prediction sets on held-out rows, with a statistical guarantee for new rows of the same distribution.

        Give one of the targets ``coverage``, ``false_alarm``, ``risk`` and ``sets``. The first three give a threshold. ``coverage``: a new
        row is accepted with at least this probability. ``false_alarm``: a new row is rejected with at most this probability. ``risk``: among
        accepted rows at most this share is wrong, with confidence 1 - ``delta``; this needs the labels ``y``. ``measure`` is the uncertainty
        that is compared with the threshold: "aleatoric", "epistemic", "total" or "density"; the default is "epistemic" for ``false_alarm`` and
        "total" otherwise. A threshold with a ``name`` is stored in the model and in its file.

        ``sets``: the result is a ``SetRule`` for ``predict_set``. The set of a new row contains the class of the row with at least this
        probability; with ``by_class``, this holds for the rows of each class separately. A class is in the set if its ``set_score`` is at
        most a limit. "lac" is 1 minus the probability of the class and gives small sets. "aps" is the total probability of all more
        probable classes plus a random share of the probability of the class; the size of its sets adapts to the row. The random share is a
        function of the row. ``sets`` needs the labels ``y``.

        With the ``logits`` or ``probabilities`` of the network for the held-out rows, the threshold is on the uncertainty of the network's
        predictions, as in ``predict_uncertainty``, and ``risk`` counts the errors of these predictions. Such a threshold can be applied
        only to results with logits or probabilities, unless it is a threshold on the density with the target ``coverage`` or
        ``false_alarm``. If the held-out rows are too few for one of these two targets, or the compared value is infinite for too many
        of them, the threshold accepts every row, and a warning is shown. If no threshold can be certified for ``risk``, an error is raised. Another
        warning is shown if some held-out rows equal training rows.
        """
        name = None if name is None else _arrays.text(name, "name")
        targets = {"coverage": coverage, "risk": risk, "false_alarm": false_alarm, "sets": sets}
        is_sets = one_target(targets) == "sets"
        if is_sets and measure is not None:
            raise InvalidParameterError(f"measure={measure!r}: it belongs to a threshold, not to sets")
        if is_sets and delta != DELTA:
            raise InvalidParameterError(f"delta={delta!r}: it requires risk=, and sets= is given")
        if not is_sets and (by_class or set_score != "lac"):
            raise InvalidParameterError("set_score= and by_class= belong to sets: give sets=, or omit them")
        if is_sets:
            outputs = {"logits": logits, "probabilities": probabilities, "classes": classes}
            return self._calibrate_sets(X, y, sets, set_score, by_class, name, outputs)
        del targets["sets"]
        request = ModelRequest.checked(targets, delta, measure, y is not None)
        before = self._fitted_state()
        rows = _arrays.rows(X)
        truth = None if y is None else self._class_numbers(y, rows)
        uncertainty = self.predict_uncertainty(X, logits=logits, probabilities=probabilities, classes=classes)
        training_rows = self._warn_training_rows(rows)
        is_error = None if truth is None else ~self._are_equal(uncertainty.label, *truth)
        threshold = request.threshold(uncertainty, is_error, training_rows)
        threshold._temperature = None if threshold.measure == "density" else uncertainty._temperature
        return self._store_threshold(threshold, name, self._revision_since(before))

    def _calibrate_sets(
        self, X: Any, y: Any, coverage: Any, score: Any, by_class: Any, name: str | None, outputs: dict[str, Any]
    ) -> SetRule:
        share, by_class = _arrays.real(coverage, "sets"), _arrays.boolean(by_class, "by_class")
        score = _arrays.choice(score, "set_score", _nuq.CHOICES["set_score"])
        if y is None:
            raise InvalidParameterError("sets= requires y, the labels of the held-out rows")
        rows = self._query_rows(X)
        _, numbers, labels = _arrays.labels(y, type(self).__name__)
        _arrays.check_lengths(rows, numbers)
        network = self._network(len(rows), **outputs)
        training_rows = self._warn_training_rows(rows)
        temperature = None if network is None else self._temperature()
        before = self._fitted_state()
        inner = self._model.calibrate_sets(
            rows, labels, numbers, share, score, by_class, training_rows, self._threads(), network
        )
        if inner.unlimited_classes:
            warn(inner.statement)
        rule = SetRule(inner, self._revision_since(before), temperature)
        if name is not None:
            self._model.set_sets(name, inner)
            self._check_unchanged(rule._revision, lambda: self._model.remove_sets(name))
        return rule

    @property
    def sets_(self) -> _tables.Rules[SetRule]:
        """The stored prediction sets by name: a dictionary with ``to_pandas``, ``to_polars`` and ``to_arrow``."""
        self._check_fitted()
        revision, temperature = self._fitted_state().revision, self._temperature()
        rules = {name: SetRule(inner, revision) for name, inner in self._model.sets().items()}
        for rule in rules.values():
            rule._temperature = temperature if rule.predictor == "network" else None
        return _tables.Rules(rules)

    def _rows_detail(self) -> str:
        return f", {len(self._model.classes()):,} classes"

    def _result_names(self) -> str:
        return "label, probability, aleatoric, epistemic, total"

    def _rules(self) -> dict[str, Any]:
        return {**super()._rules(), "Prediction sets": self.sets_}

    def predict_set(
        self,
        X: Any,
        sets: SetRule | str,
        threshold: Threshold | str | Sequence[Threshold | str] | None = None,
        *,
        logits: Any = None,
        probabilities: Any = None,
        classes: Any = None,
    ) -> np.ndarray:
        """The prediction set of each row, as a matrix with one column per class in the order of ``classes_``: True for the classes in the
        set.

        ``sets`` is the result of ``calibrate(X, y, sets=0.9)``, or the name of stored sets. A set is empty if the score of every class
        exceeds its limit; rows of known classes can have empty sets too. With a ``threshold``, for example
        ``calibrate(X, false_alarm=0.01)``, the sets of rows that the threshold rejects are also empty; the coverage is then lower by at
        most the false alarm rate. ``logits``, ``probabilities`` and ``classes`` have the same meaning as in ``predict_uncertainty``; sets
        that were chosen with logits or probabilities need them here too.
        """
        rule = self._set_rule(sets)
        thresholds = [] if threshold is None else self._thresholds(threshold)
        rows = self._query_rows(X)
        network = self._network(len(rows), logits, probabilities, classes)
        if (network is None) == (rule.predictor == "network"):
            raise InvalidParameterError(
                "the sets were chosen with the logits or probabilities of the network: give the logits or probabilities of the rows"
                if network is None
                else "the sets were chosen without logits: calibrate them with logits= or probabilities=, or omit these"
            )
        values, present = self._model.predict_sets(rows, rule._inner, self._threads(), network)
        labels = self._all_labels(present)
        included = np.zeros((len(rows), len(labels)), dtype=bool)
        included[:, [labels.index(label) for label in present]] = values
        if thresholds:
            uncertainty = Uncertainty(self._predict_rows(rows, network), None, rule.predictor)
            included[~_all_accept(thresholds, uncertainty)] = False
        return included

    def _set_rule(self, sets: Any) -> SetRule:
        if isinstance(sets, SetRule):
            warn_changed(sets, self._fitted_state().revision)
            warn_other_temperature(sets, self._temperature())
            return sets
        if not isinstance(sets, str):
            raise ParameterTypeError(f"sets={sets!r}: expected a SetRule or the name of a stored one")
        stored = self.sets_
        if sets not in stored:
            raise InvalidParameterError(
                f"sets={sets!r}: the stored sets are {', '.join(map(repr, stored)) or 'none'} (partial_fit and remove delete them)"
            )
        return stored[sets]

    # -- temperature ------------------------------------------------------------------------------------------------

    @property
    def temperature_(self) -> float | None:
        """Temperature by which the logits of the network are divided; None if no temperature was fitted."""
        self._check_fitted()
        temperature: float | None = self._model.temperature()
        return temperature

    def _temperature_of(self, threshold: Threshold) -> float | None:
        return self._temperature() if threshold.predictor == "network" and threshold.measure != "density" else None

    def _temperature(self) -> float:
        """The temperature by which logits are divided; 1 if none was fitted."""
        temperature = self._model.temperature()
        return 1.0 if temperature is None else float(temperature)

    def fit_temperature(self, logits: Any, y: Any, *, classes: Any = None) -> NuqClassifier:
        """Fit a temperature. The logits of all later calls are divided by it. ``logits`` and ``y`` belong to held-out rows, and the
        temperature maximizes the likelihood of the labels ``y`` (Guo et al. 2017). It is stored in the model and in its file. If the
        temperature changes, thresholds and sets that were chosen with logits or probabilities are removed, except thresholds on the density,
        which does not depend on the temperature. Rows whose label is not a class of the model are left out."""
        self._check_fitted()
        _, indices, labels = _arrays.labels(y, type(self).__name__)
        network = self._network(len(indices), logits, None, classes, "label in y")
        if network is None:
            raise InvalidParameterError("logits are required")
        numbers, present = self._model.class_numbers(labels, indices)
        if present != network[2]:
            raise InvalidParameterError("another thread has changed the classes of the model during fit_temperature: call it again")
        if (numbers < 0).all():
            raise InvalidInputError("no label in y is a class of the model")
        matrix = np.ascontiguousarray(network[0][numbers >= 0])
        temperature = _nuq.temperature(matrix, numbers[numbers >= 0], self._threads())
        if not 0.0101 < temperature < 99:
            reason = (
                "smaller ones have a higher likelihood. Either the network predicts every held-out row correctly, as it may do with "
                "its training rows, or these are not the logits that it passes to softmax"
                if temperature < 1
                else "larger ones have a higher likelihood. The logits do not predict the labels: compare the order of their columns "
                "with the classes"
            )
            text = f"the temperature {temperature:.4g} is at the limit of its range; {reason}"
            warn(text)
        self._model.set_temperature(temperature)
        return self

    # -- training data ---------------------------------------------------------------------------------------------

    def suggest(self, X: Any, n: int = 20, *, output: str = "numpy") -> Any:
        """Select ``n`` rows to label next. They have a high epistemic uncertainty and differ from each other. Distances between them are
        measured in the space that the model searches: rows have norm one if ``normalize=True``, and each column is divided by its bandwidth if
        there is one bandwidth per column. Returns the indices of the rows in the order of selection. With ``output="pandas"``, ``"polars"`` or
        ``"arrow"``, the result is a table with the columns ``row`` and ``log_epistemic``."""
        return self._suggest(X, n, output)

    def label_issues(self) -> Uncertainty:
        """Training rows whose label is less probable than another label, given all other training rows. The row with the least probable
        label comes first."""
        self._check_fitted()
        issues = self._model.label_issues(self._threads())
        labels = self._labels(issues["classes"])
        return Uncertainty(
            {
                "row": issues["row"],
                "label": labels[issues["given"]],
                "probability": issues["probability_given"],
                "predicted_label": labels[issues["predicted_label"]],
                "predicted_probability": issues["predicted_probability"],
            }
        )

    @classmethod
    def _loaded(cls, model: Any) -> NuqClassifier:
        estimator = cls(**model.params(), variance=model.variance())
        estimator._state = State(model)
        return estimator


def _check_listed(labels: list[_arrays.Label], listed: tuple[_arrays.Label, ...]) -> None:
    """Check labels against the ``classes`` of the first ``partial_fit``."""
    unknown = [label for label in labels if label not in listed]
    if listed and unknown:
        raise InvalidInputError(
            f"The target label(s) {unknown} in y do not exist in the initial classes {list(listed)}: list them in the first "
            "partial_fit"
        )


def check_class_columns(name: str, values: Any, known: list[_arrays.Label], order: list[int] | None = None) -> None:
    """Reject a data frame whose column names are the classes, but in another order than the order in which the columns are read. ``order``
    contains the column number of each class of the model; None if the columns are in the order of the model."""
    columns = [str(column) for column in _arrays.names_of_columns(values)]
    expected = [str(label) for label in known]
    if sorted(columns) != sorted(expected) or len(set(columns)) < len(columns):
        return
    ordered = columns if order is None else [columns[column] for column in order]
    if ordered != expected:
        raise InvalidInputError(
            f"the columns of {name} are named {', '.join(columns)}, and are read as the classes "
            f"{', '.join(expected if order is None else in_columns(expected, order))}: reorder the columns, or give the order with classes="
        )


def in_columns(labels: list[str], order: list[int]) -> list[str]:
    """The labels in the order of the columns; ``order`` contains the column number of each label."""
    return [label for _, label in sorted(zip(order, labels))]


def class_order(classes: Any, known: list[_arrays.Label], owner: str) -> list[int]:
    """The column number of each class of the model. ``classes`` lists the labels in the order of the columns."""
    columns = [_arrays.label(value) for value in _arrays.column(classes, owner).tolist()]
    if sorted(columns, key=repr) != sorted(known, key=repr):
        raise InvalidParameterError(
            f"classes={columns!r} must list each of the {len(known)} classes of the model once: {known!r}"
        )
    return [columns.index(label) for label in known]


def _term(name: Any) -> str | None:
    return None if name is None else _arrays.choice(name, "return_uncertainty", ("aleatoric", "epistemic", "total"))


def _format_bandwidth(bandwidth: Any) -> str:
    return f"{bandwidth:.4g}" if isinstance(bandwidth, float) else f"{np.min(bandwidth):.4g} to {np.max(bandwidth):.4g}"

"""The estimator ``NuqRegressor``."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from . import _arrays, _nuq, _progress, _tables
from ._base import Estimator, State, new_revision
from ._classifier import _format_bandwidth, _term
from ._result import Uncertainty
from ._warnings import warn
from .calibrate import IntervalRule, ModelRequest, Threshold, one_target, warn_changed
from .errors import InvalidParameterError, NotFiniteError, NotNumbersError, ParameterTypeError


class NuqRegressor(Estimator):
    """Regressor with aleatoric, epistemic and total variance, for the embeddings of a trained network.

    The parameters are the same as in ``NuqClassifier``, with these differences: there is no ``variance``, the default ``density`` is "kde",
    and ``bandwidth`` has the rule "squared_error" (leave-one-out) instead of "log_likelihood" and "accuracy". ``density="gmm"`` is one
    Gaussian for all rows, and ``prior_weight`` is the weight of the mean and the variance of all targets.

    Examples
    --------
    >>> import numpy as np
    >>> from nuq import NuqRegressor
    >>> X = np.linspace(0, 1, 50, dtype=np.float32)[:, None]
    >>> model = NuqRegressor(n_neighbors=5).fit(X, 2 * X[:, 0])
    >>> float(model.predict([[0.5]]).round(1)[0])
    1.0
    """

    def __init__(
        self,
        n_neighbors: int = 20,
        kernel: str = "gaussian",
        bandwidth: Any = "squared_error",
        density: str = "kde",
        density_bandwidth: str | float = "half_median",
        covariance: str = "full",
        shrinkage: str | float = "ledoit_wolf",
        scale_free: bool = False,
        prior_weight: float = 1e-3,
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

    _kind = "regressor"

    def __sklearn_tags__(self) -> Any:
        return self._tags("regressor")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NuqRegressor:
        """Fit the model to rows and their targets.

        A row with the ``sample_weight`` s counts as s equal rows in the kernel sums, the prior, the density and the selection of the
        bandwidth, but only as one of the K neighbors. A row with the weight 0 is left out, and its id is not used.

        The column names of a data frame are stored in the model and compared with the column names of later rows, as in
        ``NuqClassifier``.
        """
        return self._fit(X, _targets(y, type(self).__name__), sample_weight)

    def _fit(self, X: Any, targets: np.ndarray, sample_weight: Any) -> NuqRegressor:
        """Fit the model."""
        threads = self._threads()
        rows = self._training_rows(X)
        _arrays.check_lengths(rows, targets)
        names, weights = _arrays.column_names(X), _arrays.weights(sample_weight, len(rows))
        _arrays.warn_small_weights(weights)
        timer = _progress.Timer(f"fitting {len(rows)} rows") if self.verbose else None
        with self._single_row_error(rows):
            tick = timer.tick if timer else None
            model = _nuq.Regressor.fit(self._extension_params(), rows, targets, weights, names, threads, tick)
        self._state = State(model, revision=new_revision())
        used = targets if weights is None else targets[weights > 0]
        if (used == used[0]).all():
            text = "all targets are equal: every uncertainty is zero, and only log_density is informative"
            warn(text)
        if timer:
            timer.done(f"bandwidth {_format_bandwidth(self.bandwidth_)}, {self.index_}")
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> NuqRegressor:
        """Insert rows into the model. The first call is the same as ``fit``. Later calls do not change the bandwidths. They
        remove stored thresholds and intervals, because the guarantees of these hold only for the previous rows. After an interrupt
        (Ctrl-C), either all rows are inserted or none. ``sample_weight`` has the same meaning as in ``fit``, for the rows of this call."""
        targets = _targets(y, type(self).__name__)
        if self._model is None:
            return self._fit(X, targets, sample_weight)
        rows = self._query_rows(X)
        _arrays.check_lengths(rows, targets)
        weights = _arrays.weights(sample_weight, len(rows))
        threads = self._threads()
        with self._changing():
            self._model.insert(rows, targets, weights, threads)
        return self

    def predict(self, X: Any, return_uncertainty: str | None = None) -> Any:
        """Predicted mean of each row. With ``return_uncertainty`` "aleatoric", "epistemic" or "total", returns a pair: the means
        and the logarithm of that variance."""
        term = _term(return_uncertainty)
        prediction = self._predictions(X)
        return prediction["mean"] if term is None else (prediction["mean"], prediction[f"log_{term}"])

    def predict_uncertainty(self, X: Any) -> Uncertainty:
        """Mean, aleatoric, epistemic and total variance with their logarithms, and the log density of the training data at each
        row."""
        before = self._fitted_state()
        uncertainty = self._uncertainty(self._predictions(X), _arrays.row_index(X))
        uncertainty._revision = self._revision_since(before)
        return uncertainty

    def _uncertainty(self, prediction: dict[str, np.ndarray], index: Any = None) -> Uncertainty:
        return Uncertainty(dict(prediction), index)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of the training data at each row."""
        return self._predictions(X)["log_density"]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R²."""
        truth, predicted = _targets(y, type(self).__name__), self.predict(X)
        _arrays.check_lengths(predicted, truth)
        weights = _arrays.weights(sample_weight, len(truth))
        weights = np.ones_like(truth) if weights is None else weights
        total = np.sum(weights * (truth - np.average(truth, weights=weights)) ** 2)
        residual = np.sum(weights * (truth - predicted) ** 2)
        return float(1.0 - residual / total) if total > 0 else float(residual == 0)

    @overload
    def calibrate(
        self,
        X: Any,
        y: Any = None,
        *,
        coverage: float | None = None,
        risk: float | None = None,
        false_alarm: float | None = None,
        intervals: None = None,
        measure: str | None = None,
        name: str | None = None,
    ) -> Threshold: ...

    @overload
    def calibrate(self, X: Any, y: Any = None, *, intervals: float, name: str | None = None) -> IntervalRule: ...

    def calibrate(
        self,
        X: Any,
        y: Any = None,
        *,
        coverage: float | None = None,
        risk: float | None = None,
        false_alarm: float | None = None,
        intervals: float | None = None,
        measure: str | None = None,
        name: str | None = None,
    ) -> Threshold | IntervalRule:
        """Choose a threshold or prediction intervals on held-out rows, with a statistical guarantee for new rows of the same distribution.

        Give one of the targets ``coverage``, ``false_alarm`` and ``intervals``. ``coverage``: a new row is accepted with at least this
        probability. ``false_alarm``: a new row is rejected with at most this probability. ``measure`` is the uncertainty that is compared
        with the threshold: "aleatoric", "epistemic", "total" or "density"; the default is "epistemic" for ``false_alarm`` and "total" for
        ``coverage``. A threshold with a ``name`` is stored in the model and in its file. If the held-out rows are too few for the target, or
        the compared value is infinite for too many of them, the threshold accepts every row, and a warning is shown. Another warning is shown
        if some held-out rows equal training rows. ``risk``, the share of wrong predictions, exists for classifiers only.

        ``intervals``: the result is an ``IntervalRule`` for ``predict_interval``. The interval of a new row contains its target with at
        least this probability. This needs the targets ``y``.
        """
        if risk is not None:
            raise InvalidParameterError(
                f"risk={risk!r} requires a classifier: the predictions of a regressor are not right or wrong; give coverage or "
                "false_alarm"
            )
        name = None if name is None else _arrays.text(name, "name")
        targets = {"coverage": coverage, "false_alarm": false_alarm, "intervals": intervals}
        if one_target(targets) == "intervals":
            if measure is not None:
                raise InvalidParameterError(f"measure={measure!r}: it belongs to a threshold, not to intervals")
            return self._calibrate_intervals(X, y, intervals, name)
        del targets["intervals"]
        request = ModelRequest.checked(targets, 0.05, measure, knows_errors=False)
        uncertainty = self.predict_uncertainty(X)
        if y is not None:
            _arrays.check_lengths(uncertainty.mean, _targets(y, type(self).__name__))
        training_rows = self._warn_training_rows(_arrays.rows(X))
        return self._store_threshold(request.threshold(uncertainty, None, training_rows), name, uncertainty._revision)

    def _calibrate_intervals(self, X: Any, y: Any, coverage: Any, name: str | None) -> IntervalRule:
        share = _arrays.real(coverage, "intervals")
        if y is None:
            raise InvalidParameterError("intervals= requires y, the targets of the held-out rows")
        targets = _targets(y, type(self).__name__)
        before = self._fitted_state()
        estimates = self._predictions(X)
        _arrays.check_lengths(estimates["mean"], targets)
        training_rows = self._warn_training_rows(_arrays.rows(X))
        inner = _nuq.IntervalRule.calibrate(share, estimates["mean"], estimates["log_total"], targets, training_rows)
        rule = IntervalRule(inner, self._revision_since(before))
        if name is not None:
            self._model.set_intervals(name, inner)
            self._check_unchanged(rule._revision, lambda: self._model.remove_intervals(name))
        return rule

    @property
    def intervals_(self) -> _tables.Rules[IntervalRule]:
        """The stored prediction intervals by name: a dictionary with ``to_pandas``, ``to_polars`` and ``to_arrow``."""
        self._check_fitted()
        revision = self._fitted_state().revision
        return _tables.Rules({name: IntervalRule(inner, revision) for name, inner in self._model.intervals().items()})

    def _result_names(self) -> str:
        return "mean, aleatoric, epistemic and total variance"

    def _rules(self) -> dict[str, Any]:
        return {**super()._rules(), "Prediction intervals": self.intervals_}

    def predict_interval(self, X: Any, intervals: IntervalRule | str) -> np.ndarray:
        """The prediction interval of each row: two columns, the lower and the upper end. ``intervals`` is the result of
        ``calibrate(X, y, intervals=0.9)``, or the name of stored intervals."""
        if isinstance(intervals, str):
            stored = self.intervals_
            if intervals not in stored:
                raise InvalidParameterError(
                    f"intervals={intervals!r}: the stored intervals are {', '.join(map(repr, stored)) or 'none'} (partial_fit and "
                    "remove delete them)"
                )
            intervals = stored[intervals]
        if not isinstance(intervals, IntervalRule):
            raise ParameterTypeError(f"intervals={intervals!r}: expected an IntervalRule or the name of a stored one")
        warn_changed(intervals, self._fitted_state().revision)
        estimates = self._predictions(X)
        return np.column_stack(intervals._inner.intervals(estimates["mean"], estimates["log_total"]))

    def suggest(self, X: Any, n: int = 20, *, output: str = "numpy") -> Any:
        """Select ``n`` rows whose targets should be measured next. They have a high epistemic uncertainty and differ from each
        other. Returns their indices in the order of selection, or a table as in ``NuqClassifier``."""
        return self._suggest(X, n, output)

    @classmethod
    def _loaded(cls, model: Any) -> NuqRegressor:
        estimator = cls(**model.params())
        estimator._state = State(model)
        return estimator


def _targets(y: Any, owner: str) -> np.ndarray:
    array = _arrays.column(y, owner)
    if array.dtype.kind in "SU" or (array.dtype.kind == "O" and any(isinstance(value, (str, bytes)) for value in array)):
        raise NotNumbersError("y is text: targets must be numbers; convert them, for example with y.astype(float)")
    targets = _arrays.numbers(array, np.float64)
    if not np.isfinite(targets).all():
        row = int(np.flatnonzero(~np.isfinite(targets))[0])
        raise NotFiniteError(f"Input y contains NaN or infinity: row {row} is {targets[row]}.")
    return targets

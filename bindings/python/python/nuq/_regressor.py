"""The regressor, as scikit-learn's users expect it."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays, _nuq, _progress
from ._base import Estimator
from ._classifier import _shown, _term
from ._result import Uncertainty
from .calibrate import Threshold
from .errors import NotFiniteError


class NuqRegressor(Estimator):
    """Means with aleatoric and epistemic variance, from embeddings. Parameters are those of ``NuqClassifier``, but for
    ``bandwidth``, which is "squared_error" (leave-one-out) where that has "log_likelihood" and "accuracy".

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
        density_bandwidth: str | float = "kth",
        covariance: str = "full",
        shrinkage: str | float = "auto",
        prior_weight: float = 1e-3,
        dimension: str = "intrinsic",
        normalize: bool = False,
        index: str = "auto",
        recall: float = 0.99,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.density = density
        self.density_bandwidth = density_bandwidth
        self.covariance = covariance
        self.shrinkage = shrinkage
        self.prior_weight = prior_weight
        self.dimension = dimension
        self.normalize = normalize
        self.index = index
        self.recall = recall
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        return self._tags("regressor")

    def fit(self, X: Any, y: Any) -> NuqRegressor:
        """Fits rows and their targets. ``float32`` rows in C order are not copied and must not change afterwards."""
        threads = self._threads()
        rows, targets = _arrays.rows(X), _targets(y, type(self).__name__)
        _arrays.check_lengths(rows, targets)
        self._learn_names(X, rows)
        waiting = _progress.Waiting(f"fitting {len(rows)} rows") if self.verbose else None
        with self._one_row(rows):
            model = _nuq.Regressor.fit(self._given(), rows, targets, threads, waiting.tick if waiting else None)
        self._keep(model)
        if waiting:
            waiting.done(f"bandwidth {_shown(self.bandwidth_)}, {self.index_}")
        return self

    def partial_fit(self, X: Any, y: Any) -> NuqRegressor:
        """Learns more rows; the first call fits. Bandwidths stay."""
        if self._model is None:
            return self.fit(X, y)
        rows, targets = self._query_rows(X), _targets(y, type(self).__name__)
        _arrays.check_lengths(rows, targets)
        self._model.insert(rows, targets)
        self._keep(self._model)
        return self

    def predict(self, X: Any, return_uncertainty: str | None = None) -> Any:
        """The mean of each row; with ``return_uncertainty`` "aleatoric", "epistemic" or "total", also the log of that."""
        said = self._asked(X)
        if return_uncertainty is None:
            return said["mean"]
        return said["mean"], said[f"log_{_term(return_uncertainty)}"]

    def predict_uncertainty(self, X: Any) -> Uncertainty:
        """Mean, aleatoric, epistemic and total variance with their logarithms, and the log density of the training data."""
        return Uncertainty(dict(self._asked(X)))

    def score_samples(self, X: Any) -> np.ndarray:
        """The log density of each row: higher where more was seen."""
        return self._asked(X)["log_density"]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination."""
        truth, found = _targets(y, type(self).__name__), self.predict(X)
        _arrays.check_lengths(found, truth)
        weights = np.ones_like(truth) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        spread = np.sum(weights * (truth - np.average(truth, weights=weights)) ** 2)
        left = np.sum(weights * (truth - found) ** 2)
        return float(1.0 - left / spread) if spread > 0 else float(left == 0)

    def calibrate(
        self,
        X: Any,
        *,
        coverage: float | None = None,
        false_alarm: float | None = None,
        measure: str | None = None,
        name: str | None = None,
    ) -> Threshold:
        """A threshold that keeps a promise, chosen on held-out rows like those to come: ``coverage`` (accept at least so
        many) or ``false_alarm`` (reject at most so many). With a ``name`` the model keeps it, also in its file."""
        target = {"coverage": coverage, "false_alarm": false_alarm}
        found = Threshold._calibrated(self.predict_uncertainty(X), None, target, 0.05, measure)
        return self._keep_threshold(found, name)

    def suggest(self, X: Any, n: int = 20) -> np.ndarray:
        """Numbers of ``n`` rows that are worth a target: uncertain, and not all of one kind. Most wanted first."""
        rows, n = self._query_rows(X), _arrays.whole(n, "n")
        return _nuq.suggest(rows, self._asked(rows)["log_epistemic"], n)

    @classmethod
    def _loaded(cls, model: Any) -> NuqRegressor:
        estimator = cls(**model.params())
        estimator._keep(model)
        return estimator


def _targets(y: Any, owner: str) -> np.ndarray:
    array = _arrays.column(y, owner)
    targets = _arrays.numbers(array, np.float64)
    if not np.isfinite(targets).all():
        row = int(np.flatnonzero(~np.isfinite(targets))[0])
        raise NotFiniteError(f"Input y contains NaN or infinity: row {row} is {targets[row]}.")
    return targets

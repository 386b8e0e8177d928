"""The classifier, as scikit-learn's users expect it."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays, _nuq, _progress
from ._base import Estimator
from ._result import Uncertainty
from .calibrate import Threshold
from .errors import InvalidInputError, InvalidParameterError


class NuqClassifier(Estimator):
    """Labels with aleatoric, epistemic and total uncertainty, from the embeddings of any trained model.

    Parameters
    ----------
    n_neighbors : the nearest training rows that every sum runs over.
    kernel : "gaussian", "logistic", "sigmoid" or "student".
    bandwidth : how wide the kernel of the class probabilities is: "log_likelihood" or "accuracy" (leave-one-out),
        "silverman", "scott", "isj", "adaptive", a number, or one number per column.
    density : "kde", "gmm" for one Gaussian per class, or "auto" for both combined: the one to rank what is unlike the
        training data by (``log_density``) where one does not know which fits them.
    density_bandwidth : of the kernel density: "kth" (half the median distance to the k-th neighbor), "same" as the
        bandwidth, or a number.
    covariance, shrinkage : of the Gaussians: "full", "tied" or "diagonal"; "auto" (Ledoit and Wolf) or a number in [0, 1].
    prior_weight : what the class frequencies count for, in training rows that sit on the query.
    variance : "sum" over the classes, or "max" as in the paper.
    dimension : "intrinsic", estimated from the data, or "ambient", the number of columns.
    normalize : divide every row by its length first.
    index, recall : "exact", "hnsw", or "auto" by what costs less; the share of true neighbors that a graph must find.
    n_jobs : threads; None or -1 for all processors.
    random_state : seed of the samples that are drawn.
    verbose : show progress.

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
        density: str = "kde",
        density_bandwidth: str | float = "kth",
        covariance: str = "full",
        shrinkage: str | float = "auto",
        prior_weight: float = 1e-3,
        variance: str = "sum",
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
        self.variance = variance
        self.dimension = dimension
        self.normalize = normalize
        self.index = index
        self.recall = recall
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def paper(cls, **changes: Any) -> NuqClassifier:
        """Algorithm 1 of the paper as printed, for comparison: no prior, one bandwidth by accuracy, ambient dimension.

        A row whose neighbors share a class is then certain, however far away it is.
        """
        printed = {
            "prior_weight": 0.0,
            "variance": "max",
            "bandwidth": "accuracy",
            "density_bandwidth": "same",
            "dimension": "ambient",
            "normalize": False,
        }
        return cls(**{**printed, **changes})

    def __sklearn_tags__(self) -> Any:
        return self._tags("classifier")

    def fit(self, X: Any, y: Any) -> NuqClassifier:
        """Fits rows and their labels, integers or strings.

        ``float32`` rows in C order are not copied: the model looks at your array, which must not change afterwards.
        """
        threads = self._threads()
        rows = _arrays.rows(X)
        classes, numbers, labels = _arrays.labels(y, type(self).__name__)
        _arrays.check_lengths(rows, numbers)
        self._learn_names(X, rows)
        waiting = _progress.Waiting(f"fitting {len(rows)} rows") if self.verbose else None
        tick = waiting.tick if waiting else None
        with self._one_row(rows):
            model = _nuq.Classifier.fit(self._given(), rows, labels, numbers, threads, tick)
        self.classes_ = classes
        self._keep(model)
        if waiting:
            waiting.done(f"bandwidth {_shown(self.bandwidth_)}, {self.index_}")
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> NuqClassifier:
        """Learns more rows, also of new classes; the first call fits. Bandwidths stay, thresholds go."""
        if self._model is None:
            return self.fit(X, y)
        rows = self._query_rows(X)
        new_classes, numbers, labels = _arrays.labels(y, type(self).__name__)
        _arrays.check_lengths(rows, numbers)
        if isinstance(labels[0], str) != isinstance(self._model.classes()[0], str):
            raise InvalidInputError("Unknown label type: labels must be all integers or all strings, also in later calls.")
        self._model.insert(rows, labels, numbers)
        self._learn_classes(new_classes)
        return self

    def forget(self, ids: Any) -> NuqClassifier:
        super().forget(ids)
        self._learn_classes(self.classes_)
        return self

    def _learn_classes(self, new: np.ndarray) -> None:
        """The classes that the model has now, in its order and in the type that the user's labels have."""
        known = np.concatenate([self.classes_, np.asarray(new)])
        place = {_arrays.label(value): i for i, value in enumerate(known.tolist())}
        self.classes_ = known[[place[label] for label in self._model.classes()]]
        self._keep(self._model)

    # -- asking -----------------------------------------------------------------------------------------------------

    def predict(self, X: Any, return_uncertainty: str | None = None) -> Any:
        """The label of each row; with ``return_uncertainty`` "aleatoric", "epistemic" or "total", also the log of that."""
        said = self._asked(X)
        label = self.classes_[said["class"]]
        if return_uncertainty is None:
            return label
        if _term(return_uncertainty) == "aleatoric":
            with np.errstate(divide="ignore"):
                return label, np.log(said["aleatoric"])
        return label, said[f"log_{return_uncertainty}"]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of ``classes_``."""
        rows = self._query_rows(X)
        return np.asarray(self._model.predict_proba(rows, self._threads()))

    def predict_uncertainty(self, X: Any) -> Uncertainty:
        """All that is said of each row: label, proba (of that label), aleatoric, epistemic and total uncertainty with
        their logarithms, and the log density of the training data."""
        said = dict(self._asked(X))
        label = self.classes_[said.pop("class")]
        return Uncertainty({"label": label, "proba": said.pop("probability"), **said})

    def score_samples(self, X: Any) -> np.ndarray:
        """The log density of each row: higher where more was seen, as scikit-learn's density estimators have it."""
        return self._asked(X)["log_density"]

    def decision_function(self, X: Any) -> np.ndarray:
        """How much each class is preferred: probabilities, or for two classes the log odds of the second."""
        proba = self.predict_proba(X)
        if proba.shape[1] != 2:
            return proba
        return np.asarray(np.log(np.maximum(proba, np.finfo(np.float64).tiny)) @ [-1.0, 1.0])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy."""
        predicted = self.predict(X)
        truth = _arrays.column(y, type(self).__name__)
        _arrays.check_lengths(predicted, truth)
        return float(np.average(_arrays.agrees(predicted, truth), weights=sample_weight))

    # -- deciding ---------------------------------------------------------------------------------------------------

    def reject(self, X: Any, cost: float, level: float | None = None) -> np.ndarray:
        """True where to abstain: where an error is likelier than ``cost``, what an abstention costs. With a ``level``,
        also where the data do not show at that level that it is not (the paper's Algorithm 2)."""
        rows = self._query_rows(X)
        level = None if level is None else _arrays.real(level, "level")
        return ~np.asarray(self._model.accept(rows, _arrays.real(cost, "cost"), level, self._threads()))

    def calibrate(
        self,
        X: Any,
        y: Any = None,
        *,
        coverage: float | None = None,
        risk: float | None = None,
        false_alarm: float | None = None,
        delta: float = 0.05,
        measure: str | None = None,
        name: str | None = None,
    ) -> Threshold:
        """A threshold that keeps a promise, chosen on held-out rows like those to come.

        Give one of ``coverage`` (accept at least so many), ``false_alarm`` (reject at most so many) or ``risk`` (of what is
        accepted at most so many wrong, except with probability ``delta``; needs ``y``). With a ``name`` the model keeps it,
        also in its file.
        """
        target = {"coverage": coverage, "risk": risk, "false_alarm": false_alarm}
        uncertainty = self.predict_uncertainty(X)
        is_error = None
        if y is not None:
            truth = _arrays.column(y, type(self).__name__)
            _arrays.check_lengths(uncertainty.label, truth)
            is_error = ~_arrays.agrees(uncertainty.label, truth)
        return self._keep_threshold(Threshold._calibrated(uncertainty, is_error, target, delta, measure), name)

    # -- looking after the data -------------------------------------------------------------------------------------

    def suggest(self, X: Any, n: int = 20) -> np.ndarray:
        """Numbers of ``n`` rows that are worth a label: uncertain, and not all of one kind. Most wanted first."""
        rows, n = self._query_rows(X), _arrays.whole(n, "n")
        return _nuq.suggest(rows, self._asked(rows)["log_epistemic"], n)

    def label_issues(self) -> Uncertainty:
        """Training rows whose label the others find less likely than another, the worst first."""
        self._check_fitted()
        found = self._model.label_issues()
        return Uncertainty(
            {
                "row": found["row"],
                "label": self.classes_[found["given"]],
                "proba": found["probability_given"],
                "likeliest": self.classes_[found["likeliest"]],
                "proba_of_likeliest": found["probability_likeliest"],
            }
        )

    @classmethod
    def _loaded(cls, model: Any) -> NuqClassifier:
        estimator = cls(**model.params(), variance=model.variance())
        estimator.classes_ = _arrays.restored(model.classes())
        estimator._keep(model)
        return estimator


def _term(name: str) -> str:
    if name not in ("aleatoric", "epistemic", "total"):
        raise InvalidParameterError(f'return_uncertainty={name!r}: it is one of "aleatoric", "epistemic", "total"')
    return name


def _shown(bandwidth: Any) -> str:
    return f"{bandwidth:.4g}" if isinstance(bandwidth, float) else f"{np.min(bandwidth):.4g} to {np.max(bandwidth):.4g}"

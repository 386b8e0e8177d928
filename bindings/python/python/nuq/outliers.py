"""Outlier detection without labels, with the methods of scikit-learn and the attributes of PyOD.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> detector = NuqOutlierDetector(contamination=0.05).fit(rng.normal(size=(200, 4)))
>>> detector.predict([[0.0, 0.0, 0.0, 0.0], [9.0, 9.0, 9.0, 9.0]])
array([ 1, -1])
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from . import _arrays, _nuq
from ._base import State, new_revision
from ._classifier import NuqClassifier
from ._params import Parameters
from .calibrate import Threshold
from .errors import InvalidInputError, OutOfRangeError

__all__ = ["NuqOutlierDetector"]

#: Name of the threshold in the model and in its file.
_THRESHOLD = "contamination"


class NuqOutlierDetector(Parameters):
    """Outlier detector without labels. The score of a row is the log density of the training rows at this row.

    The density is computed as in ``NuqClassifier`` with all rows in one class. A row that equals a training row is scored without that
    training row, so that training rows and new rows have comparable scores.

    The methods and ``offset_`` have the signs of scikit-learn. The other attributes have the signs of PyOD:

    | name | meaning |
    | --- | --- |
    | ``score_samples(X)`` | log density; lower is more abnormal |
    | ``decision_function(X)`` | ``score_samples(X) - offset_``; negative for outliers |
    | ``predict(X)`` | 1 for inliers, -1 for outliers |
    | ``decision_scores_`` | ``-score_samples(X_train)``; higher is more abnormal |
    | ``threshold_`` | ``-offset_``; rows with a higher value of ``-score_samples`` are outliers |
    | ``labels_`` | 0 for inliers, 1 for outliers, one per training row |

    PyOD's ``decision_function(X)`` therefore equals ``-score_samples(X)``, and PyOD's ``predict(X)`` equals ``predict(X) == -1``.

    Parameters
    ----------
    contamination : expected share of outliers among the training rows, in (0, 0.5]. This share of training rows is rejected. For a
        guaranteed false alarm rate on new rows, call ``model_.calibrate(X_held_out, false_alarm=0.01, measure="density")``.
    n_neighbors : number K of nearest training rows in the kernel density.
    density : "auto" (kernel density combined with a Gaussian; the kernel density alone if it fits left-out rows better), "kde"
        (kernel density) or "gmm" (a Gaussian).
    density_bandwidth : bandwidth of the kernel density: "half_median" (half the median distance to the K-th neighbor), or a number
        with density="kde".
    normalize, index, n_jobs, random_state, device : as in ``NuqClassifier``. ``n_jobs`` can be changed after the fit. It applies to the
        methods of the detector, and ``model_.n_jobs`` to the methods of ``model_``.

    Attributes
    ----------
    model_ : the fitted ``NuqClassifier`` with one class, 0. Its stored threshold "contamination" is ``threshold_``. If its methods
        ``partial_fit`` and ``remove`` change the training rows, ``offset_`` and the attributes of PyOD are computed again at their first use.
        Both methods also delete the stored thresholds of the model; ``save`` of the detector stores "contamination" again.
    offset_ : score below which a row is an outlier: the percentile ``100 * contamination`` of the scores of the training rows. After each
        change of the training rows, its first use costs one search of all training rows. Another value can be assigned.
    """

    model_: NuqClassifier

    def __init__(
        self,
        contamination: float = 0.1,
        n_neighbors: int = 20,
        density: str = "auto",
        density_bandwidth: str | float = "half_median",
        normalize: bool = False,
        index: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = 0,
        device: str = "auto",
    ) -> None:
        self.contamination = contamination
        self.n_neighbors = n_neighbors
        self.density = density
        self.density_bandwidth = density_bandwidth
        self.normalize = normalize
        self.index = index
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type="outlier_detector", target_tags=TargetTags(required=False), input_tags=InputTags())

    # -- fit --------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> NuqOutlierDetector:
        """Fit the density to rows, and the threshold to their scores. ``y`` is ignored."""
        share = self._share()
        model = self._one_class(X)
        scores = model.leave_one_out().log_density
        offset = _percentile(scores, share)
        # No other thread has this model yet.
        revision = model._fitted_state().revision
        model._store_threshold(_stored_threshold(-offset, scores, share), _THRESHOLD, revision)
        self.model_, self._fitted_share, self._train_scores, self._offset = model, share, (revision, scores), (revision, offset)
        return self

    def _share(self) -> float:
        share = _arrays.real(self.contamination, "contamination")
        if not 0 < share <= 0.5:
            raise OutOfRangeError(f"contamination={self.contamination!r}: expected a number in (0, 0.5]")
        return share

    def _one_class(self, X: Any) -> NuqClassifier:
        """A classifier whose rows all have the class 0, which is PyOD's label of inliers. It is fitted without the warning that all labels
        are equal."""
        params = {name: value for name, value in self.get_params().items() if name != "contamination"}
        model = NuqClassifier(**params)
        rows, threads = model._training_rows(X), model._threads()
        names, numbers = _arrays.column_names(X), np.zeros(len(rows), np.int64)
        with model._single_row_error(rows):
            inner = _nuq.Classifier.fit(model._extension_params(), rows, [0], numbers, None, names, threads, None)
        model._state = State(inner, numbers.dtype, revision=new_revision())
        return model

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit to rows and return 1 for inliers and -1 for outliers among them. ``y`` is ignored."""
        self.fit(X)
        return np.where(self.labels_ == 1, -1, 1)

    # -- scores -----------------------------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of the training rows at each row; lower is more abnormal. A row that equals a training row is scored without
        that training row."""
        model = self._fitted()
        rows = model._query_rows(X)
        scores = model._predict_rows(rows)["log_density"]
        distances, ids = model._model.kneighbors(rows, 1, model._threads())
        is_training_row = distances[:, 0] == 0
        if is_training_row.any():
            positions = np.searchsorted(model.training_ids_, ids[is_training_row, 0])
            scores[is_training_row] = self._left_out_scores()[positions]
        return scores

    def decision_function(self, X: Any) -> np.ndarray:
        """``score_samples(X) - offset_``, negative for outliers, as in scikit-learn. PyOD's ``decision_function`` has the other sign and
        no offset: it is ``-score_samples(X)``."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """1 for inliers and -1 for outliers."""
        return np.where(self.score_samples(X) < self.offset_, -1, 1)

    def _left_out_scores(self) -> np.ndarray:
        """Scores of the training rows, each computed from the other training rows, in the order of ``training_ids_``. They are computed at the
        first use by a detector from a file, and after rows of ``model_`` were inserted or removed."""
        model = self._fitted()
        revision = model._fitted_state().revision
        if "_train_scores" not in self.__dict__ or self._train_scores[0] != revision:
            self._train_scores = (revision, model.leave_one_out().log_density)
        return self._train_scores[1]

    # -- fitted attributes ------------------------------------------------------------------------------------------

    def _fitted(self) -> NuqClassifier:
        """``model_`` with ``n_jobs`` of the detector. As in an estimator, ``n_jobs`` can be changed after the fit, for example because a file
        does not contain it."""
        self._check_fitted()
        # This object shares the fitted model with ``model_``. The parameter of ``model_`` itself belongs to the user and is not changed.
        model = NuqClassifier.__new__(NuqClassifier)
        model.__dict__.update(self.model_.__dict__, n_jobs=self.n_jobs)
        return model

    @property
    def offset_(self) -> float:
        """Score below which a row is an outlier: the percentile ``100 * contamination`` of the scores of the training rows. It is computed
        again at the first use after rows of ``model_`` were inserted or removed, for example in the next ``predict``. This costs one search
        of all training rows.

        Another value can be assigned. It is used until the training rows change. A pickle contains the assigned value; ``save`` writes
        the computed value instead.
        """
        revision = self._fitted()._fitted_state().revision
        if self._offset[0] != revision:
            self._offset = (revision, _percentile(self._left_out_scores(), self._fitted_share))
        return self._offset[1]

    @offset_.setter
    def offset_(self, value: float) -> None:
        self._offset = (self._fitted()._fitted_state().revision, _arrays.real(value, "offset_"))

    @property
    def decision_scores_(self) -> np.ndarray:
        """``-score_samples`` of the training rows, with the sign of PyOD: higher is more abnormal."""
        self._check_fitted()
        return -self._left_out_scores()

    @property
    def threshold_(self) -> float:
        """The threshold ``-offset_``. Training rows whose ``decision_scores_`` exceed it are outliers."""
        self._check_fitted()
        return -self.offset_

    @property
    def labels_(self) -> np.ndarray:
        """Labels of the training rows as in PyOD: 0 for inliers, 1 for outliers."""
        return (self.decision_scores_ > self.threshold_).astype(np.int64)

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return self._fitted().n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns. The attribute does not exist if the training rows have no names."""
        return self._fitted().feature_names_in_

    def _steps(self) -> list[tuple[str, str]]:
        learned = self.model_._model.learned()
        revision, offset = self._offset
        # These steps are the diagram of the detector in a notebook. It must not start a search of all training rows, so an offset that has to
        # be computed again is shown by its name.
        limit = f"{offset:.4g}" if revision == self.model_._fitted_state().revision else "offset_"
        return [
            ("training rows", f"{learned['n_rows']:,} rows × {learned['n_columns']:,} columns"),
            ("search", f"{learned['n_neighbors']} neighbors, {learned['index']}"),
            ("density", learned["density"]),
            ("result", f"outlier if log density < {limit}"),
        ]

    def _rules(self) -> dict[str, Any]:
        return {"Thresholds": self.model_.thresholds_}

    # -- files ------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file, in the same format as the command line. ``NuqOutlierDetector.load`` opens it; ``nuq.load`` opens it as
        the ``NuqClassifier`` with one class. ``nuq score --threshold contamination`` makes the same decisions for new rows, unless
        another ``offset_`` was assigned: the file contains the computed one. If ``model_.partial_fit`` has inserted rows of another
        class, an error is raised, because a detector has one class."""
        model = self._fitted()
        if len(model.classes_) != 1:
            raise InvalidInputError(
                f"model_ has the classes {model.classes_.tolist()}, and a detector has one class: fit the detector again with all rows, or "
                "write the classifier with model_.save"
            )
        if _THRESHOLD not in model.thresholds_:
            # The rows have changed since the fit, and this change deleted the stored thresholds.
            scores = self._left_out_scores()
            threshold = _stored_threshold(-_percentile(scores, self._fitted_share), scores, self._fitted_share)
            model._store_threshold(threshold, _THRESHOLD, self._train_scores[0])
        model.save(path)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if "offset_" in state:
            # In pickles of earlier versions, the offset is an attribute without a revision, and the share that the fit used is stored only as
            # the parameter `contamination`.
            state["_offset"] = (state["model_"]._fitted_state().revision, state.pop("offset_"))
            state["_fitted_share"] = state["contamination"]
        self.__dict__.update(state)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "auto") -> NuqOutlierDetector:
        """Open the file of a detector that ``save`` has written. Parameters that the file does not contain, such as ``n_jobs``, have their
        default values; ``set_params`` changes them."""
        from . import load

        model = load(path, device)
        if not isinstance(model, NuqClassifier) or not _is_detector(model):
            raise InvalidInputError(f"{path} is not the file of a NuqOutlierDetector: open it with nuq.load")
        stored = model.thresholds_[_THRESHOLD]
        accepted_share = stored._score.parts()[2][0]
        params = {name: getattr(model, name) for name in cls._parameters() if name != "contamination"}
        # The file stores the share of accepted rows. Rounding to twelve decimals removes the floating-point error of the subtraction.
        share = round(1.0 - accepted_share, 12)
        detector = cls(contamination=share, **params)
        detector.model_, detector._fitted_share, detector._offset = model, share, (model._fitted_state().revision, -stored.value)
        return detector


def _is_detector(model: Any) -> bool:
    """Whether a loaded model was saved by a detector: it has one class and a stored threshold "contamination" on the density."""
    if not isinstance(model, NuqClassifier) or len(model.classes_) != 1:
        return False
    stored = model.thresholds_.get(_THRESHOLD)
    return stored is not None and stored.measure == "density"


def _percentile(scores: np.ndarray, share: float) -> float:
    """The percentile ``100 * share``, interpolated as in scikit-learn and PyOD."""
    return float(np.percentile(scores, 100.0 * share))


def _stored_threshold(value: float, scores: np.ndarray, share: float) -> Threshold:
    """The threshold that is stored in the model. Its statement mentions that it was chosen on training rows."""
    n = len(scores)
    # The confidence interval of the accepted share depends only on the number of rows and the target, so any distinct scores give it.
    ranks = np.arange(n, dtype=np.float64)
    guarantee: Any = _nuq.ScoreThreshold.calibrate(ranks, None, "false_alarm", share, 0.05, n).parts()[2]
    accepted = int((-scores <= value).sum())
    score = _nuq.ScoreThreshold.from_parts(value, n, (guarantee[0], guarantee[1], accepted), n)
    return Threshold(_nuq.Threshold("density", "nuq", score))

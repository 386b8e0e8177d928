"""Baseline uncertainty scores from embeddings and logits.

Methods that estimate parameters from training rows have ``fit``. ``score`` returns one score per row. A higher score means a
less certain prediction.

A fitted baseline can be pickled and copied. ``calibrate`` chooses a threshold on its score, and ``accept`` applies it. ``save``
writes baseline and thresholds to a file, which ``nuq.load`` and the command line open.

Baselines have no parameter ``n_jobs``: they use all processors.

>>> import numpy as np
>>> MaxProb().score(logits=np.array([[9.0, 0.0], [0.1, 0.0]])).round(2)
array([0.  , 0.48])
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from . import _arrays, _files, _nuq, _tables
from ._base import compare_names
from ._params import Parameters
from ._warnings import warn
from .calibrate import Request, ScoreThreshold, chosen, warn_training_rows
from .errors import DamagedFileError, InvalidParameterError, MissingInputError, ParameterTypeError

__all__ = [
    "Baseline",
    "Ddu",
    "Duq",
    "Energy",
    "Ensemble",
    "Entropy",
    "Fdbd",
    "Gen",
    "Huq",
    "KnnDistance",
    "LocalOutlierFactor",
    "Mahalanobis",
    "Margin",
    "MaxLogit",
    "MaxProb",
    "NnGuide",
    "React",
    "RelativeMahalanobis",
    "Scorer",
    "Sngp",
    "Vim",
    "temperature",
]


class Baseline(Parameters):
    """Base class of the baselines."""

    #: The name of the method in files and in the results of ``evaluate``. The ending ``_l2``, for normalized rows, is not part of it.
    _method = ""
    #: The fitted object of the extension.
    _model: _nuq.Scorer | None = None

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags())

    def _fitted(self) -> _nuq.Scorer:
        self._check_fitted()
        assert self._model is not None
        return self._model

    def _set_model(self, model: _nuq.Scorer, rows: np.ndarray, X: Any) -> None:
        """Store the fitted object, together with the number of training rows and the number and names of their columns."""
        self._model = model.with_training(len(rows), rows.shape[1], _arrays.column_names(X))

    @property
    def thresholds_(self) -> _tables.Rules[ScoreThreshold]:
        """The stored thresholds by name: a dictionary with ``to_pandas``, ``to_polars`` and ``to_arrow``. A new fit removes them."""
        return _tables.Rules({name: ScoreThreshold(inner) for name, inner in self._fitted().thresholds().items()})

    def _steps(self) -> list[tuple[str, str]]:
        inputs = {"X": "embeddings", "logits": "logits", "members": "logits of the members of an ensemble"}
        given = [inputs[name] for name in getattr(self, "_inputs", ())] or ["aleatoric and epistemic uncertainty"]
        return [("input", ", ".join(given)), ("result", "score, higher is less certain")]

    def _rules(self) -> dict[str, Any]:
        return {"Thresholds": self.thresholds_}

    def _calibrate(
        self, request: Request, scores: np.ndarray, is_error: Any, name: Any, training_rows: int = 0
    ) -> ScoreThreshold:
        """Choose a threshold on held-out scores, and store it if it has a name."""
        name = None if name is None else _arrays.text(name, "name")
        threshold = request.score_threshold(scores, is_error, training_rows)
        if name is not None:
            self._fitted().set_threshold(name, threshold._inner)
        return threshold

    def _chosen(self, threshold: Any) -> list[ScoreThreshold]:
        if threshold is None:
            raise InvalidParameterError("accept requires threshold=, the result of calibrate or the name of a stored one")
        return chosen(threshold, self.thresholds_, ScoreThreshold)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file of the fitted baseline and its thresholds, in the same format as the command line. ``nuq.load`` opens it."""
        self._fitted().save(_arrays.path(path))

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_model"}
        if self._model is not None:
            state["_stored"] = _files.to_bytes(self._model)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        stored = state.pop("_stored", None)
        self.__dict__.update(state)
        if stored is not None:
            opened = _files.from_bytes(stored, getattr(self, "device", "auto"))
            if not isinstance(opened, tuple):
                raise DamagedFileError("the pickle of a baseline contains a model")
            self._model = opened[2]


class Scorer(Baseline):
    """Base class of the baselines that score rows by their embeddings or logits."""

    #: The parameters of ``score`` that the method uses.
    _inputs: tuple[str, ...] = ("X",)

    def _device(self) -> str:
        """The device of the neighbor search, for methods that search neighbors."""
        return "cpu"

    def _rows(self, X: Any) -> np.ndarray:
        return _arrays.rows(X, gpu=_arrays.gpu_number(self._device()))

    def score(self, X: Any = None, logits: Any = None, members: Any = None) -> np.ndarray:
        """Score of each row. Pass the inputs that the method needs: embeddings ``X``, ``logits``, or ``members`` (the logits of
        several networks). Other inputs are ignored. If ``X`` is a data frame, its column names must equal those of the training rows."""
        return self._scores(X, logits, members)

    def calibrate(
        self,
        X: Any = None,
        logits: Any = None,
        members: Any = None,
        *,
        coverage: float | None = None,
        risk: float | None = None,
        false_alarm: float | None = None,
        is_error: Any = None,
        delta: float = 0.05,
        name: str | None = None,
    ) -> ScoreThreshold:
        """Choose a threshold on the score with held-out rows, with a statistical guarantee for new rows of the same distribution.

        ``X``, ``logits`` and ``members`` are the inputs of ``score`` for held-out rows, to which the baseline was not fitted. Baselines that
        search neighbors store the training rows, and warn if held-out rows equal training rows. Give one of three targets. ``coverage``: a
        new row is accepted with at least this probability. ``false_alarm``: a new row is rejected with at most this probability. ``risk``:
        among accepted rows at most this share of predictions is wrong, with confidence 1 - ``delta``; this needs ``is_error``, which is True
        for each held-out row whose prediction by the network is wrong. A threshold with a ``name`` is stored in the baseline and in its file.

        >>> logits = np.array([[z, 0.0] for z in range(1, 100)])
        >>> baseline = MaxLogit()
        >>> baseline.calibrate(logits=logits, coverage=0.5, name="half").value
        -50.0
        >>> baseline.accept(logits=[[60.0, 0.0], [40.0, 0.0]], threshold="half")
        array([ True, False])
        """
        request = Request.checked({"coverage": coverage, "risk": risk, "false_alarm": false_alarm}, delta)
        scores, scorer = self._scores(X, logits, members), self._fitted()
        training_rows = 0 if X is None else warn_training_rows(_arrays.rows(X), scorer.equal_training_rows)
        return self._calibrate(request, scores, is_error, name, training_rows)

    def accept(
        self,
        X: Any = None,
        threshold: ScoreThreshold | str | Sequence[ScoreThreshold | str] | None = None,
        *,
        logits: Any = None,
        members: Any = None,
    ) -> np.ndarray:
        """True where ``threshold`` accepts the row. The parameter ``threshold`` is the result of ``calibrate``, the name of a stored
        threshold, or a list of thresholds and names. With a list, all thresholds must accept the row. The other parameters are the same as in
        ``score``."""
        return _all_accept(self._chosen(threshold), self._scores(X, logits, members))

    def _scores(self, X: Any, logits: Any, members: Any) -> np.ndarray:
        """The scores of the rows."""
        scorer = self._fitted()
        given = {"X": X, "logits": logits, "members": members}
        missing = [name for name in self._inputs if given[name] is None]
        if missing:
            call = ", ".join(f"{name}=..." for name in self._inputs)
            raise MissingInputError(f"{type(self).__name__} needs {missing[0]}: call score({call})")
        rows = None if X is None else self._rows(X)
        if X is not None:
            compare_names(scorer, type(self).__name__, _arrays.column_names(X))
        logits = None if logits is None else _arrays.rows(logits, "logits")
        return scorer.score(rows, logits, _arrays.members(members), None)


def _all_accept(thresholds: list[ScoreThreshold], scores: np.ndarray) -> np.ndarray:
    return np.asarray(np.logical_and.reduce([threshold.accept(scores) for threshold in thresholds]))


class _WithoutFit(Scorer):
    """A baseline without a fit. The constructor checks its parameters, if it has any."""

    def _create(self) -> _nuq.Scorer:
        raise NotImplementedError

    #: The parameters with which the object of the extension was created.
    _created: dict[str, Any] | None = None

    def _check_fitted(self) -> None:
        # If the parameters have changed since the last call, a new object without thresholds is created, because the stored thresholds were
        # chosen for scores with the former parameters.
        params = self.get_params(deep=False)
        if self._model is None or params != self._created:
            self._model, self._created = self._create(), params


class _FromLogits(_WithoutFit):
    _inputs = ("logits",)

    def __init__(self) -> None:
        self._check_fitted()

    def _create(self) -> _nuq.Scorer:
        # The numbers are the temperature of `Energy`, and `gamma` and `top` of `Gen`. They have no effect on other methods.
        return _nuq.from_logits(self._method, 1.0, 0.1, 100)


class MaxProb(_FromLogits):
    """One minus the largest softmax probability (Hendrycks and Gimpel 2017)."""

    _method = "max_prob"


class Entropy(_FromLogits):
    """Entropy of the softmax probabilities."""

    _method = "entropy"


class Margin(_FromLogits):
    """One minus the difference of the two largest softmax probabilities."""

    _method = "margin"


class MaxLogit(_FromLogits):
    """Negative largest logit (Hendrycks et al. 2022)."""

    _method = "max_logit"


class Energy(_WithoutFit):
    """Energy: negative log-sum-exp of the logits at a temperature (Liu et al. 2020)."""

    _method = "energy"
    _inputs = ("logits",)

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = temperature
        self._check_fitted()

    def _create(self) -> _nuq.Scorer:
        return _nuq.from_logits("energy", _arrays.real(self.temperature, "temperature"), 0.1, 100)


class Gen(_WithoutFit):
    """Generalized entropy of the ``top`` largest softmax probabilities p, with the exponent ``gamma``: the sum of (p (1 - p)) ** gamma (Liu,
    Lochman and Zach 2023)."""

    _method = "gen"
    _inputs = ("logits",)

    def __init__(self, gamma: float = 0.1, top: int = 100) -> None:
        self.gamma, self.top = gamma, top
        self._check_fitted()

    def _create(self) -> _nuq.Scorer:
        return _nuq.from_logits("gen", 1.0, _arrays.real(self.gamma, "gamma"), _arrays.integer(self.top, "top", 1))


class Ensemble(_WithoutFit):
    """Score of an ensemble, computed from the softmax probabilities of its members. ``reduction`` is "entropy" (entropy of the mean
    probabilities), "mean_entropy" (mean of the entropies of the members), "mutual_information" ("entropy" minus "mean_entropy"), "std" (standard
    deviation, over the members, of the probability of the class that is most probable on average) or "max_prob" (one minus the largest mean
    probability)."""

    _inputs = ("members",)

    def __init__(self, reduction: str = "entropy") -> None:
        self.reduction = reduction
        self._check_fitted()

    def _create(self) -> _nuq.Scorer:
        return _nuq.from_members(_arrays.choice(self.reduction, "reduction", _nuq.CHOICES["ensemble_reduction"]))


_Fitted = TypeVar("_Fitted", bound="_FromEmbeddings")
_Paired = TypeVar("_Paired", bound="_FromEmbeddingsAndLogits")


class _FromEmbeddings(Scorer):
    _needs_labels = True

    def __init__(self, normalize: bool = False) -> None:
        self.normalize = normalize

    def _options(self) -> tuple[str, int, float | None]:
        """Name of the method in the extension, number of neighbors, and shrinkage (None for the rule of Ledoit and Wolf)."""
        return self._method, 1, None

    def fit(self: _Fitted, X: Any, y: Any = None) -> _Fitted:
        """Fit to training rows, and to their labels if the method uses labels."""
        rows = self._rows(X)
        if y is None and self._needs_labels:
            raise InvalidParameterError(f"{type(self).__name__} needs labels: call fit(X, y)")
        _, numbers, labels = _arrays.labels(np.zeros(len(rows), int) if y is None else y, type(self).__name__)
        _arrays.check_lengths(rows, numbers)
        name, k, shrinkage = self._options()
        normalize = _arrays.boolean(self.normalize, "normalize")
        if k > len(rows):
            text = f"n_neighbors={k}: there are only {len(rows)} rows; all of them are used"
            warn(text)
        model = _nuq.from_embeddings(name, rows, labels, numbers, normalize, k, shrinkage, self._device())
        self._set_model(model, rows, X)
        return self


class _Gaussian(_FromEmbeddings):
    def __init__(self, normalize: bool = False, shrinkage: float | str = "ledoit_wolf") -> None:
        super().__init__(normalize)
        self.shrinkage = shrinkage

    def _options(self) -> tuple[str, int, float | None]:
        return self._method, 1, _shrinkage(self.shrinkage)


def _shrinkage(value: Any) -> float | None:
    if isinstance(value, str) and value == "ledoit_wolf":
        return None
    try:
        return _arrays.real(value, "shrinkage")
    except ParameterTypeError:
        raise ParameterTypeError(f"shrinkage={value!r}: expected 'ledoit_wolf' or a number in [0, 1]") from None


class Ddu(_Gaussian):
    """Negative log density of a mixture of one Gaussian per class (Mukhoti et al. 2023)."""

    _method = "ddu"


class Mahalanobis(_Gaussian):
    """Squared Mahalanobis distance to the nearest class mean, with one covariance for all classes (Lee et al. 2018)."""

    _method = "mahalanobis"


class RelativeMahalanobis(_Gaussian):
    """Squared Mahalanobis distance to the nearest class mean, minus the squared distance to the mean of all rows (Ren et al. 2021)."""

    _method = "relative_mahalanobis"


class _Neighbors(_FromEmbeddings):
    """A method that searches neighbors."""

    _needs_labels = False
    device: str

    def _device(self) -> str:
        return self.device

    def _rows(self, X: Any) -> np.ndarray:
        # Rows that are normalized are copied to the host, because the normalization runs there.
        return _arrays.rows(X) if self.normalize else super()._rows(X)


#: Values of the parameter ``reduction`` of ``KnnDistance``.
_REDUCTIONS = _nuq.CHOICES["knn_reduction"]


class KnnDistance(_Neighbors):
    """Distance to the ``n_neighbors``-th nearest training row (``reduction`` "kth"), or mean distance to the ``n_neighbors`` nearest
    training rows ("mean") (Sun et al. 2022). ``device`` is the device of the neighbor search, as in ``NuqClassifier``."""

    _method = "knn_distance"

    def __init__(
        self, n_neighbors: int = 20, reduction: str = "kth", normalize: bool = False, device: str = "auto"
    ) -> None:
        super().__init__(normalize)
        self.n_neighbors, self.reduction = n_neighbors, _arrays.choice(reduction, "reduction", _REDUCTIONS)
        self.device = device

    def _options(self) -> tuple[str, int, float | None]:
        # The constructor also checks the parameter, but `set_params` does not.
        reduction = _arrays.choice(self.reduction, "reduction", _REDUCTIONS)
        return f"knn_{reduction}", _arrays.integer(self.n_neighbors, "n_neighbors", 1), None


class LocalOutlierFactor(_Neighbors):
    """Local outlier factor: mean density at the neighbors of a row, divided by the density at the row (Breunig et al. 2000).
    ``device`` is the device of the neighbor search, as in ``NuqClassifier``."""

    _method = "lof"

    def __init__(self, n_neighbors: int = 20, normalize: bool = False, device: str = "auto") -> None:
        super().__init__(normalize)
        self.n_neighbors, self.device = n_neighbors, device

    def _options(self) -> tuple[str, int, float | None]:
        return "lof", _arrays.integer(self.n_neighbors, "n_neighbors", 1), None


class Sngp(Scorer):
    """Last layer of SNGP: a Gaussian process with random features and a Laplace approximation (Liu et al. 2020).

    ``features`` is the number of random features, ``seed`` their seed, and ``ridge`` the precision of the prior of the weights. If
    ``length_scale`` is None, the median distance between training rows is used. ``reduction`` is "max_prob" (one minus
    the largest probability) or "dempster_shafer" (K / (K + the sum of exp(logit)) for K classes).
    If ``normalize`` is True, rows are divided by their Euclidean length.
    """

    _method = "sngp"

    def __init__(
        self,
        features: int = 1024,
        length_scale: float | None = None,
        ridge: float = 1.0,
        seed: int = 0,
        reduction: str = "max_prob",
        normalize: bool = False,
    ) -> None:
        self.features, self.length_scale, self.ridge = features, length_scale, ridge
        self.seed, self.reduction, self.normalize = seed, reduction, normalize

    def fit(self, X: Any, y: Any) -> Sngp:
        """Fit to training rows and their labels."""
        rows = _arrays.rows(X)
        _, numbers, labels = _arrays.labels(y, type(self).__name__)
        _arrays.check_lengths(rows, numbers)
        model = _nuq.sngp(
            rows,
            labels,
            numbers,
            _arrays.integer(self.features, "features", 1),
            None if self.length_scale is None else _arrays.real(self.length_scale, "length_scale"),
            _arrays.real(self.ridge, "ridge"),
            _arrays.integer(self.seed, "seed"),
            _arrays.choice(self.reduction, "reduction", _nuq.CHOICES["sngp_reduction"]),
            _arrays.boolean(self.normalize, "normalize"),
        )
        self._set_model(model, rows, X)
        return self


class Duq(Scorer):
    """Last layer of DUQ: one kernel around a centroid per class, in a learned projection (van Amersfoort et al. 2020).

    ``projection`` is the dimension of the projection, ``length_scale`` the length scale of the kernel, and ``momentum`` the momentum of the
    running mean of a centroid. The training has ``steps`` steps with ``batch`` rows each, and Adam with ``learning_rate``. ``seed``
    determines the initial weights and the order of the rows.

    If ``normalize`` is True, rows are divided by their Euclidean length.
    """

    _method = "duq"

    def __init__(
        self,
        projection: int = 64,
        length_scale: float = 0.5,
        momentum: float = 0.99,
        steps: int = 300,
        batch: int = 512,
        learning_rate: float = 1e-3,
        seed: int = 0,
        normalize: bool = False,
    ) -> None:
        self.projection, self.length_scale, self.momentum = projection, length_scale, momentum
        self.steps, self.batch, self.learning_rate, self.seed = steps, batch, learning_rate, seed
        self.normalize = normalize

    def fit(self, X: Any, y: Any) -> Duq:
        """Fit to training rows and their labels."""
        rows = _arrays.rows(X)
        _, numbers, labels = _arrays.labels(y, type(self).__name__)
        _arrays.check_lengths(rows, numbers)
        model = _nuq.duq(
            rows,
            labels,
            numbers,
            _arrays.integer(self.projection, "projection", 1),
            _arrays.real(self.length_scale, "length_scale"),
            _arrays.real(self.momentum, "momentum"),
            _arrays.integer(self.steps, "steps", 1),
            _arrays.integer(self.batch, "batch", 1),
            _arrays.real(self.learning_rate, "learning_rate"),
            _arrays.integer(self.seed, "seed"),
            _arrays.boolean(self.normalize, "normalize"),
        )
        self._set_model(model, rows, X)
        return self


class Huq(Baseline):
    """Hybrid uncertainty (Vazhentsev et al. 2023): a combination of the ranks of aleatoric and epistemic uncertainty.

    A row is in-distribution if its epistemic uncertainty is at most the quantile ``epistemic_quantile`` of the reference rows. A row is
    ambiguous if its aleatoric uncertainty is above the quantile ``aleatoric_quantile`` of these rows. The score of an in-distribution row is
    its aleatoric rank: among all reference rows if it is ambiguous, otherwise among the in-distribution reference rows. The score of any
    other row is the weighted mean of its two ranks, in which ``alpha`` is the weight of the aleatoric rank. All three parameters are in [0, 1].

    >>> huq = Huq().fit([0.1, 0.2, 0.3, 0.4, 0.1], [0.0, 0.0, 0.0, 0.0, 9.0])
    >>> near, far = huq.score([0.15, 0.15], [0.0, 20.0])
    >>> bool(far > near)
    True
    """

    _method = "huq"

    def __init__(self, alpha: float = 0.2, epistemic_quantile: float = 0.95, aleatoric_quantile: float = 0.9) -> None:
        self.alpha, self.epistemic_quantile, self.aleatoric_quantile = alpha, epistemic_quantile, aleatoric_quantile

    def fit(self, aleatoric: Any, epistemic: Any) -> Huq:
        """Fit to the uncertainties of reference rows, which may be held-out or training rows."""
        self._model = _nuq.huq(
            _arrays.scores(aleatoric, "aleatoric"),
            _arrays.scores(epistemic, "epistemic"),
            _arrays.real(self.alpha, "alpha"),
            _arrays.real(self.epistemic_quantile, "epistemic_quantile"),
            _arrays.real(self.aleatoric_quantile, "aleatoric_quantile"),
        )
        return self

    def score(self, aleatoric: Any, epistemic: Any) -> np.ndarray:
        """Score of each row from its two uncertainties. A higher score means a less certain prediction."""
        scorer = self._fitted()
        uncertainties = _arrays.scores(aleatoric, "aleatoric"), _arrays.scores(epistemic, "epistemic")
        return scorer.score(None, None, None, uncertainties)

    def calibrate(
        self,
        aleatoric: Any,
        epistemic: Any,
        *,
        coverage: float | None = None,
        risk: float | None = None,
        false_alarm: float | None = None,
        is_error: Any = None,
        delta: float = 0.05,
        name: str | None = None,
    ) -> ScoreThreshold:
        """Choose a threshold on the score with the uncertainties of held-out rows, as ``calibrate`` of the other baselines does."""
        request = Request.checked({"coverage": coverage, "risk": risk, "false_alarm": false_alarm}, delta)
        return self._calibrate(request, self.score(aleatoric, epistemic), is_error, name)

    def accept(
        self,
        aleatoric: Any,
        epistemic: Any,
        threshold: ScoreThreshold | str | Sequence[ScoreThreshold | str] | None = None,
    ) -> np.ndarray:
        """True where ``threshold`` accepts the row with these uncertainties. The parameter ``threshold`` is the result of ``calibrate``, the
        name of a stored threshold, or a list of thresholds and names. With a list, all thresholds must accept the row."""
        return _all_accept(self._chosen(threshold), self.score(aleatoric, epistemic))


class _FromEmbeddingsAndLogits(Scorer):
    _inputs = ("X", "logits")

    def _options(self) -> tuple[int, float, int | None]:
        """The parameters ``n_neighbors`` of ``NnGuide``, ``quantile`` of ``React`` and ``principal`` of ``Vim``. A method uses only its own
        parameter."""
        return 10, 0.9, None

    def fit(self: _Paired, X: Any, logits: Any) -> _Paired:
        """Fit to training rows and their logits. The weights of the last linear layer of the network are estimated from rows and
        logits."""
        rows, options = _arrays.rows(X), self._options()
        model = _nuq.from_embeddings_and_logits(self._method, rows, _arrays.rows(logits, "logits"), *options)
        self._set_model(model, rows, X)
        return self


class Vim(_FromEmbeddingsAndLogits):
    """Virtual-logit matching (Wang et al. 2022). ``principal`` is the dimension of the principal subspace. If it is
    None, the dimension depends on the number of columns."""

    _method = "vim"

    def __init__(self, principal: int | None = None) -> None:
        self.principal = principal

    def _options(self) -> tuple[int, float, int | None]:
        return 10, 0.9, None if self.principal is None else _arrays.integer(self.principal, "principal", 1)


class Fdbd(_FromEmbeddingsAndLogits):
    """Negative relative distance to the decision boundaries (Liu and Qin 2024)."""

    _method = "fdbd"


class NnGuide(_FromEmbeddingsAndLogits):
    """Energy scaled by the similarity to the nearest confident training rows (Park, Jung and Teoh 2023)."""

    _method = "nnguide"

    def __init__(self, n_neighbors: int = 10) -> None:
        self.n_neighbors = n_neighbors

    def _options(self) -> tuple[int, float, int | None]:
        return _arrays.integer(self.n_neighbors, "n_neighbors", 1), 0.9, None


class React(_FromEmbeddingsAndLogits):
    """Energy of activations that are clipped at a quantile of the training activations (Sun, Guo and Li 2021)."""

    _method = "react"

    def __init__(self, quantile: float = 0.9) -> None:
        self.quantile = quantile

    def _options(self) -> tuple[int, float, int | None]:
        return 10, _arrays.real(self.quantile, "quantile"), None


def temperature(logits: Any, classes: Any) -> float:
    """Temperature that maximizes the likelihood of held-out labels.

    ``classes`` contains the column number of the true class of each row.
    """
    return _nuq.temperature(_arrays.rows(logits, "logits"), _arrays.class_numbers(classes), None)


_CLASSES: dict[str, type[Baseline]] = {
    kind._method: kind
    for kind in (
        MaxProb,
        Entropy,
        Margin,
        MaxLogit,
        Energy,
        Gen,
        Ddu,
        Mahalanobis,
        RelativeMahalanobis,
        KnnDistance,
        LocalOutlierFactor,
        Sngp,
        Duq,
        Huq,
        Vim,
        Fdbd,
        NnGuide,
        React,
    )
}


def _loaded(method: str, params: dict[str, Any], model: _nuq.Scorer, device: str) -> Baseline:
    """The baseline of an opened file."""
    name, _, reduction = method.partition("_")
    baseline = Ensemble(reduction) if name == "ensemble" else _CLASSES[method](**params)
    baseline._model = model
    if isinstance(baseline, _Neighbors):
        baseline.device = device
    return baseline

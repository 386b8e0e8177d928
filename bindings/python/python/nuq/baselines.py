"""Baseline uncertainty scores from embeddings and logits.

Methods that estimate parameters from training rows have ``fit``. ``score`` returns one score per row. A higher score means a
less certain prediction.

>>> import numpy as np
>>> MaxProb().score(logits=np.array([[9.0, 0.0], [0.1, 0.0]])).round(2)
array([0.  , 0.48])
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from . import _arrays, _nuq
from .errors import InvalidParameterError, NotFittedError, ParameterTypeError

__all__ = [
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


class Scorer:
    """Base class of the baselines."""

    _inner: _nuq.Scorer | None = None

    def score(self, X: Any = None, logits: Any = None, members: Any = None) -> np.ndarray:
        """Score of each row. Pass the inputs that the method needs: embeddings ``X``, ``logits``, or ``members`` (the logits of
        several networks)."""
        if self._inner is None:
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet. Call 'fit' first.")
        rows = None if X is None else _arrays.rows(X)
        return self._inner.score(rows, None if logits is None else _arrays.rows(logits, "logits"), _arrays.members(members))


class _FromLogits(Scorer):
    _name = ""

    def __init__(self) -> None:
        self._inner = _nuq.from_logits(self._name, 1.0, 0.1, 100)


class MaxProb(_FromLogits):
    """One minus the largest softmax probability (Hendrycks and Gimpel 2017)."""

    _name = "max_prob"


class Entropy(_FromLogits):
    """Entropy of the softmax probabilities."""

    _name = "entropy"


class Margin(_FromLogits):
    """One minus the difference of the two largest softmax probabilities."""

    _name = "margin"


class MaxLogit(_FromLogits):
    """Negative largest logit (Hendrycks et al. 2022)."""

    _name = "max_logit"


class Energy(Scorer):
    """Energy: negative log-sum-exp of the logits at a temperature (Liu et al. 2020)."""

    def __init__(self, temperature: float = 1.0) -> None:
        self._inner = _nuq.from_logits("energy", _arrays.real(temperature, "temperature"), 0.1, 100)


class Gen(Scorer):
    """Generalized entropy of the ``top`` largest softmax probabilities (Liu, Lochman and Zach 2023)."""

    def __init__(self, gamma: float = 0.1, top: int = 100) -> None:
        self._inner = _nuq.from_logits("gen", 1.0, _arrays.real(gamma, "gamma"), _arrays.integer(top, "top", 1))


class Ensemble(Scorer):
    """Score of an ensemble: "entropy", "mutual_information", "mean_entropy", "std" or "max_prob" of the member predictions."""

    def __init__(self, reduction: str = "entropy") -> None:
        reductions = ("entropy", "mutual_information", "mean_entropy", "std", "max_prob")
        self._inner = _nuq.from_members(_arrays.choice(reduction, "reduction", reductions))


_Fitted = TypeVar("_Fitted", bound="_FromEmbeddings")
_Paired = TypeVar("_Paired", bound="_FromEmbeddingsAndLogits")


class _FromEmbeddings(Scorer):
    _name = ""
    _needs_labels = True

    def __init__(self, normalize: bool = False) -> None:
        self.normalize = normalize

    def _options(self) -> tuple[str, int, float | None]:
        return self._name, 1, None

    def fit(self: _Fitted, X: Any, y: Any = None) -> _Fitted:
        """Fit to training rows, and to their labels if the method uses labels."""
        rows = _arrays.rows(X)
        if y is None and self._needs_labels:
            raise InvalidParameterError(f"{type(self).__name__} needs labels: call fit(X, y)")
        _, numbers, labels = _arrays.labels(np.zeros(len(rows), int) if y is None else y, type(self).__name__)
        _arrays.check_lengths(rows, numbers)
        name, k, shrinkage = self._options()
        normalize = _arrays.boolean(self.normalize, "normalize")
        self._inner = _nuq.from_embeddings(name, rows, labels, numbers, normalize, k, shrinkage)
        return self


class _Gaussian(_FromEmbeddings):
    def __init__(self, normalize: bool = False, shrinkage: float | str = "ledoit_wolf") -> None:
        super().__init__(normalize)
        self.shrinkage = shrinkage

    def _options(self) -> tuple[str, int, float | None]:
        return self._name, 1, _shrinkage(self.shrinkage)


def _shrinkage(value: Any) -> float | None:
    if isinstance(value, str) and value == "ledoit_wolf":
        return None
    try:
        return _arrays.real(value, "shrinkage")
    except ParameterTypeError:
        raise ParameterTypeError(f"shrinkage={value!r}: expected 'ledoit_wolf' or a number in [0, 1]") from None


class Ddu(_Gaussian):
    """Negative log density of a mixture of one Gaussian per class (Mukhoti et al. 2023)."""

    _name = "ddu"


class Mahalanobis(_Gaussian):
    """Squared Mahalanobis distance to the nearest class mean, with one covariance for all classes (Lee et al. 2018)."""

    _name = "mahalanobis"


class RelativeMahalanobis(_Gaussian):
    """Squared Mahalanobis distance to the nearest class mean, minus that to the mean of all rows (Ren et al. 2021)."""

    _name = "relative_mahalanobis"


class KnnDistance(_FromEmbeddings):
    """Distance to the ``k``-th nearest training row, or mean distance to the ``k`` nearest (Sun et al. 2022)."""

    _needs_labels = False

    def __init__(self, k: int = 20, reduction: str = "kth", normalize: bool = False) -> None:
        super().__init__(normalize)
        self.k, self.reduction = k, _arrays.choice(reduction, "reduction", ("kth", "mean"))

    def _options(self) -> tuple[str, int, float | None]:
        return f"knn_{self.reduction}", _arrays.integer(self.k, "k", 1), None


class LocalOutlierFactor(_FromEmbeddings):
    """Local outlier factor: density at the neighbors of a row, divided by the density at the row (Breunig et al. 2000)."""

    _needs_labels = False

    def __init__(self, k: int = 20, normalize: bool = False) -> None:
        super().__init__(normalize)
        self.k = k

    def _options(self) -> tuple[str, int, float | None]:
        return "lof", _arrays.integer(self.k, "k", 1), None


class Sngp(Scorer):
    """Last layer of SNGP: a Gaussian process with random features and a Laplace approximation (Liu et al. 2020).

    If ``length_scale`` is None, the median distance between training rows is used. ``reduction`` is "max_prob" (one minus
    the largest probability) or "dempster_shafer".
    """

    def __init__(
        self,
        features: int = 1024,
        length_scale: float | None = None,
        ridge: float = 1.0,
        seed: int = 0,
        reduction: str = "max_prob",
    ) -> None:
        self.features, self.length_scale, self.ridge = features, length_scale, ridge
        self.seed, self.reduction = seed, reduction

    def fit(self, X: Any, y: Any) -> Sngp:
        """Fit to training rows and their labels."""
        rows = _arrays.rows(X)
        _, numbers, labels = _arrays.labels(y, type(self).__name__)
        _arrays.check_lengths(rows, numbers)
        self._inner = _nuq.sngp(
            rows,
            labels,
            numbers,
            _arrays.integer(self.features, "features", 1),
            None if self.length_scale is None else _arrays.real(self.length_scale, "length_scale"),
            _arrays.real(self.ridge, "ridge"),
            _arrays.integer(self.seed, "seed"),
            _arrays.choice(self.reduction, "reduction", ("max_prob", "dempster_shafer")),
        )
        return self


class Duq(Scorer):
    """Last layer of DUQ: one kernel around a centroid per class, in a learned projection (van Amersfoort et al. 2020)."""

    def __init__(
        self,
        projection: int = 64,
        length_scale: float = 0.5,
        momentum: float = 0.99,
        steps: int = 300,
        batch: int = 512,
        learning_rate: float = 1e-3,
        seed: int = 0,
    ) -> None:
        self.projection, self.length_scale, self.momentum = projection, length_scale, momentum
        self.steps, self.batch, self.learning_rate, self.seed = steps, batch, learning_rate, seed

    def fit(self, X: Any, y: Any) -> Duq:
        """Fit to training rows and their labels."""
        rows = _arrays.rows(X)
        _, numbers, labels = _arrays.labels(y, type(self).__name__)
        _arrays.check_lengths(rows, numbers)
        self._inner = _nuq.duq(
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
        )
        return self


class Huq:
    """Hybrid uncertainty (Vazhentsev et al. 2023): a combination of the ranks of aleatoric and epistemic uncertainty.

    ``alpha`` is the weight of the aleatoric rank. A row is in-distribution if its epistemic uncertainty is at most the quantile
    ``known_quantile`` of the reference rows. A row is ambiguous if its aleatoric uncertainty is above the quantile
    ``ambiguous_quantile``. All three parameters are in [0, 1].

    >>> huq = Huq().fit([0.1, 0.2, 0.3, 0.4, 0.1], [0.0, 0.0, 0.0, 0.0, 9.0])
    >>> near, far = huq.score([0.15, 0.15], [0.0, 20.0])
    >>> bool(far > near)
    True
    """

    _inner: _nuq.Huq | None = None

    def __init__(self, alpha: float = 0.2, known_quantile: float = 0.95, ambiguous_quantile: float = 0.9) -> None:
        self.alpha, self.known_quantile, self.ambiguous_quantile = alpha, known_quantile, ambiguous_quantile

    def fit(self, aleatoric: Any, epistemic: Any) -> Huq:
        """Fit to the uncertainties of reference rows, which may be held-out or training rows."""
        self._inner = _nuq.Huq(
            _arrays.scores(aleatoric, "aleatoric"),
            _arrays.scores(epistemic, "epistemic"),
            _arrays.real(self.alpha, "alpha"),
            _arrays.real(self.known_quantile, "known_quantile"),
            _arrays.real(self.ambiguous_quantile, "ambiguous_quantile"),
        )
        return self

    def score(self, aleatoric: Any, epistemic: Any) -> np.ndarray:
        """Score of each row from its two uncertainties. A higher score means a less certain prediction."""
        if self._inner is None:
            raise NotFittedError("This Huq is not fitted yet. Call 'fit' first.")
        return self._inner.score(_arrays.scores(aleatoric, "aleatoric"), _arrays.scores(epistemic, "epistemic"))


class _FromEmbeddingsAndLogits(Scorer):
    _name = ""

    def _options(self) -> tuple[int, float, int | None]:
        return 10, 0.9, None

    def fit(self: _Paired, X: Any, logits: Any) -> _Paired:
        """Fit to training rows and their logits. The weights of the last linear layer of the network are estimated
        from both."""
        self._inner = _nuq.from_embeddings_and_logits(
            self._name, _arrays.rows(X), _arrays.rows(logits, "logits"), *self._options()
        )
        return self


class Vim(_FromEmbeddingsAndLogits):
    """Virtual-logit matching (Wang et al. 2022). ``principal`` is the dimension of the principal subspace. If it is
    None, the dimension depends on the number of columns."""

    _name = "vim"

    def __init__(self, principal: int | None = None) -> None:
        self.principal = principal

    def _options(self) -> tuple[int, float, int | None]:
        return 10, 0.9, None if self.principal is None else _arrays.integer(self.principal, "principal", 1)


class Fdbd(_FromEmbeddingsAndLogits):
    """Negative relative distance to the decision boundaries (Liu and Qin 2024)."""

    _name = "fdbd"


class NnGuide(_FromEmbeddingsAndLogits):
    """Energy scaled by the similarity to the nearest confident training rows (Park, Jung and Teoh 2023)."""

    _name = "nnguide"

    def __init__(self, k: int = 10) -> None:
        self.k = k

    def _options(self) -> tuple[int, float, int | None]:
        return _arrays.integer(self.k, "k", 1), 0.9, None


class React(_FromEmbeddingsAndLogits):
    """Energy of activations that are clipped at a quantile of the training activations (Sun, Guo and Li 2021)."""

    _name = "react"

    def __init__(self, quantile: float = 0.9) -> None:
        self.quantile = quantile

    def _options(self) -> tuple[int, float, int | None]:
        return 10, _arrays.real(self.quantile, "quantile"), None


def temperature(logits: Any, classes: Any) -> float:
    """Temperature that maximizes the likelihood of held-out labels.

    ``classes`` holds the column number of the true class of each row.
    """
    return _nuq.temperature(_arrays.rows(logits, "logits"), _arrays.class_numbers(classes))

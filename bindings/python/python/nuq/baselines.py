"""The rivals: every way to say how uncertain a row is that needs no more than arrays.

Each is fitted by ``fit`` where it learns something, and asked by ``score``. Higher is less certain, for all of them.

>>> import numpy as np
>>> MaxProb().score(logits=np.array([[9.0, 0.0], [0.1, 0.0]])).round(2)
array([0.  , 0.48])
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from . import _arrays, _nuq
from .errors import InvalidParameterError, NotFittedError

__all__ = [
    "Ddu",
    "Energy",
    "Ensemble",
    "Entropy",
    "Fdbd",
    "Gen",
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
    "Vim",
    "temperature",
]


class Scorer:
    """Says of each row how uncertain it is. Higher is less certain."""

    _inner: _nuq.Scorer | None = None

    def score(self, X: Any = None, logits: Any = None, members: Any = None) -> np.ndarray:
        """A score per row, from what this scorer looks at: embeddings, logits, or logits of several members."""
        if self._inner is None:
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call 'fit' first.")
        rows = None if X is None else _arrays.rows(X)
        return self._inner.score(rows, None if logits is None else _arrays.rows(logits, "logits"), _members(members))


def _members(members: Any) -> list[np.ndarray] | None:
    return None if members is None else [_arrays.rows(member, "members") for member in members]


class _FromLogits(Scorer):
    _name = ""

    def __init__(self) -> None:
        self._inner = _nuq.from_logits(self._name, 1.0, 0.1, 100)


class MaxProb(_FromLogits):
    """One minus the largest softmax probability (Hendrycks and Gimpel 2017)."""

    _name = "max_prob"


class Entropy(_FromLogits):
    """Entropy of the softmax."""

    _name = "entropy"


class Margin(_FromLogits):
    """One minus the margin between the two likeliest classes."""

    _name = "margin"


class MaxLogit(_FromLogits):
    """Minus the largest logit (Hendrycks et al. 2022)."""

    _name = "max_logit"


class Energy(Scorer):
    """Minus the log-sum-exp of the logits at a temperature (Liu et al. 2020)."""

    def __init__(self, temperature: float = 1.0) -> None:
        self._inner = _nuq.from_logits("energy", _arrays.real(temperature, "temperature"), 0.1, 100)


class Gen(Scorer):
    """Generalized entropy of the likeliest classes (Liu, Lochman and Zach 2023)."""

    def __init__(self, gamma: float = 0.1, top: int = 100) -> None:
        self._inner = _nuq.from_logits("gen", 1.0, _arrays.real(gamma, "gamma"), _arrays.whole(top, "top", 1))


class Ensemble(Scorer):
    """Several predictions of each row as one number: "entropy", "mutual_information", "mean_entropy", "std" or "max_prob"."""

    def __init__(self, reduction: str = "entropy") -> None:
        self._inner = _nuq.from_members(reduction)


_Fitted = TypeVar("_Fitted", bound="_FromEmbeddings")
_Paired = TypeVar("_Paired", bound="_FromBoth")


class _FromEmbeddings(Scorer):
    _name = ""
    _needs_labels = True

    def __init__(self, normalize: bool = False) -> None:
        self.normalize = normalize

    def _options(self) -> tuple[str, int, float | None]:
        return self._name, 1, None

    def fit(self: _Fitted, X: Any, y: Any = None) -> _Fitted:
        """Fits training rows, and their labels where they matter."""
        rows = _arrays.rows(X)
        if y is None and self._needs_labels:
            raise InvalidParameterError(f"{type(self).__name__} needs labels: fit(X, y)")
        _, numbers, labels = _arrays.labels(np.zeros(len(rows), int) if y is None else y, type(self).__name__)
        _arrays.check_lengths(rows, numbers)
        name, k, shrinkage = self._options()
        self._inner = _nuq.from_embeddings(name, rows, labels, numbers, self.normalize, k, shrinkage)
        return self


class _Gaussian(_FromEmbeddings):
    def __init__(self, normalize: bool = False, shrinkage: float | str = "auto") -> None:
        super().__init__(normalize)
        self.shrinkage = shrinkage

    def _options(self) -> tuple[str, int, float | None]:
        return self._name, 1, None if self.shrinkage == "auto" else _arrays.real(self.shrinkage, "shrinkage")


class Ddu(_Gaussian):
    """Minus the log density of one Gaussian per class (Mukhoti et al. 2023)."""

    _name = "ddu"


class Mahalanobis(_Gaussian):
    """The squared Mahalanobis distance to the nearest class, with one covariance for all (Lee et al. 2018)."""

    _name = "mahalanobis"


class RelativeMahalanobis(_Gaussian):
    """The same less the distance from all data (Ren et al. 2021)."""

    _name = "relative_mahalanobis"


class KnnDistance(_FromEmbeddings):
    """The distance to the k-th nearest training row, or the mean over the first k (Sun et al. 2022)."""

    _needs_labels = False

    def __init__(self, k: int = 20, reduction: str = "kth", normalize: bool = False) -> None:
        super().__init__(normalize)
        if reduction not in ("kth", "mean"):
            raise InvalidParameterError(f'reduction={reduction!r}: it is "kth" or "mean"')
        self.k, self.reduction = k, reduction

    def _options(self) -> tuple[str, int, float | None]:
        return f"knn_{self.reduction}", _arrays.whole(self.k, "k", 1), None


class LocalOutlierFactor(_FromEmbeddings):
    """How much sparser a row's surroundings are than its neighbors' (Breunig et al. 2000)."""

    _needs_labels = False

    def __init__(self, k: int = 20, normalize: bool = False) -> None:
        super().__init__(normalize)
        self.k = k

    def _options(self) -> tuple[str, int, float | None]:
        return "lof", _arrays.whole(self.k, "k", 1), None


class _FromBoth(Scorer):
    _name = ""

    def _options(self) -> tuple[int, float, int | None]:
        return 10, 0.9, None

    def fit(self: _Paired, X: Any, logits: Any) -> _Paired:
        """Fits training rows and their logits, from which the head of the network is found."""
        self._inner = _nuq.from_both(self._name, _arrays.rows(X), _arrays.rows(logits, "logits"), *self._options())
        return self


class Vim(_FromBoth):
    """Virtual-logit matching (Wang et al. 2022)."""

    _name = "vim"

    def __init__(self, principal: int | None = None) -> None:
        self.principal = principal

    def _options(self) -> tuple[int, float, int | None]:
        return 10, 0.9, None if self.principal is None else _arrays.whole(self.principal, "principal", 1)


class Fdbd(_FromBoth):
    """Minus the relative distance to the decision boundaries (Liu and Qin 2024)."""

    _name = "fdbd"


class NnGuide(_FromBoth):
    """The energy guided by the nearest of the surest training rows (Park, Jung and Teoh 2023)."""

    _name = "nnguide"

    def __init__(self, k: int = 10) -> None:
        self.k = k

    def _options(self) -> tuple[int, float, int | None]:
        return _arrays.whole(self.k, "k", 1), 0.9, None


class React(_FromBoth):
    """The energy of rows clipped to what training rows commonly reach (Sun, Guo and Li 2021)."""

    _name = "react"

    def __init__(self, quantile: float = 0.9) -> None:
        self.quantile = quantile

    def _options(self) -> tuple[int, float, int | None]:
        return 10, _arrays.real(self.quantile, "quantile"), None


def temperature(logits: Any, classes: Any) -> float:
    """The temperature that makes held-out probabilities most likely; ``classes`` are column numbers."""
    return _nuq.temperature(_arrays.rows(logits, "logits"), _arrays.class_numbers(classes))

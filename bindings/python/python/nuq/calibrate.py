"""Decisions with statistical guarantees: thresholds from held-out rows, conformal p-values, false discovery control."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays, _nuq
from .errors import InvalidParameterError

__all__ = ["Threshold", "benjamini_hochberg", "conformal_p_values"]

#: The column that each measure compares; the sign of the density is reversed.
_COLUMNS = {
    "aleatoric": "aleatoric",
    "epistemic": "log_epistemic",
    "total": "log_total",
    "density": "log_density",
}


class Threshold:
    """Accepts rows whose uncertainty is at most ``value``. ``statement`` describes its guarantee.

    A new threshold needs no new fit: call ``calibrate`` again, on the same held-out rows or on others.
    """

    def __init__(self, inner: _nuq.Threshold) -> None:
        self._inner = inner

    @classmethod
    def _calibrated(
        cls, uncertainty: Any, is_error: Any, target: dict[str, float | None], delta: float, measure: str | None
    ) -> Threshold:
        targets = {name: share for name, share in target.items() if share is not None}
        if len(targets) != 1:
            raise InvalidParameterError(f"give one of {', '.join(f'{name}=' for name in target)}")
        (name, share), = targets.items()
        share = _arrays.real(share, name)
        if name == "risk" and is_error is None:
            raise InvalidParameterError("risk= needs the labels y of the held-out rows")
        measure = measure or ("epistemic" if name == "false_alarm" else "total")
        scores = _scores(uncertainty, measure)
        flags = None if is_error is None else np.ascontiguousarray(is_error, dtype=bool)
        return cls(_nuq.Threshold.calibrate(measure, scores, flags, name, share, _arrays.real(delta, "delta")))

    @property
    def measure(self) -> str:
        """Uncertainty that is compared: "aleatoric", "epistemic", "total" or "density"."""
        return self._inner.measure

    @property
    def value(self) -> float:
        """Largest accepted value of the measure: a logarithm, except for the aleatoric uncertainty."""
        return self._inner.value

    @property
    def n_samples(self) -> int:
        """Number of held-out rows on which the threshold was chosen."""
        return self._inner.rows

    @property
    def statement(self) -> str:
        """The guarantee as a sentence."""
        return self._inner.statement

    def accept(self, uncertainty: Any) -> np.ndarray:
        """True where a row is accepted. ``uncertainty`` is the result of ``predict_uncertainty``."""
        return self._inner.accept(_scores(uncertainty, self.measure))

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_parts, self._inner.parts()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Threshold) and self._inner.parts() == other._inner.parts()

    def __hash__(self) -> int:
        return hash(self._inner.parts())

    def __repr__(self) -> str:
        return f"Threshold({self.measure} <= {self.value:.6g}: {self.statement})"


def _from_parts(*parts: Any) -> Threshold:
    return Threshold(_nuq.Threshold.from_parts(*parts))


def _scores(uncertainty: Any, measure: str) -> np.ndarray:
    if measure not in _COLUMNS:
        raise InvalidParameterError(f"measure={measure!r}: expected one of {', '.join(map(repr, _COLUMNS))}")
    column = _COLUMNS[measure]
    scores = _arrays.scores(uncertainty[column], column)
    return -scores if measure == "density" else scores


def conformal_p_values(calibration: Any, scores: Any) -> np.ndarray:
    """Conformal p-value of each score: the probability that a row of the calibration distribution scores at least as high.

    >>> conformal_p_values([1.0, 2.0, 3.0], [0.0, 3.0, 9.0])
    array([1.  , 0.5 , 0.25])
    """
    return _nuq.conformal_p_values(_arrays.scores(calibration, "calibration"), _arrays.scores(scores, "scores"))


def benjamini_hochberg(p_values: Any, level: float) -> np.ndarray:
    """True for the p-values that the procedure of Benjamini and Hochberg rejects. The expected share of false rejections among
    all rejections is at most ``level``.

    >>> benjamini_hochberg([0.03, 0.9, 0.01, 0.2], 0.1)
    array([ True, False,  True, False])
    """
    return _nuq.benjamini_hochberg(_arrays.scores(p_values, "p_values"), level)

"""Decisions that keep a promise: thresholds chosen on held-out rows, p-values, and alarms over a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays, _nuq
from .errors import InvalidParameterError

__all__ = ["Threshold", "benjamini_hochberg", "conformal_p_values"]

#: The column that each measure is compared by; density with its sign turned.
_COLUMNS = {"aleatoric": "aleatoric", "epistemic": "log_epistemic", "total": "log_total", "density": "log_density"}


class Threshold:
    """Accepts rows whose uncertainty is at most ``value``; ``statement`` says what it promises.

    Changing a threshold needs no refit: calibrate another, on the same held-out rows or on others.
    """

    def __init__(self, inner: Any):
        self._inner = inner

    @classmethod
    def _calibrated(
        cls, uncertainty: Any, is_error: Any, target: dict[str, float | None], delta: float, measure: str | None
    ) -> Threshold:
        given = {name: share for name, share in target.items() if share is not None}
        if len(given) != 1:
            raise InvalidParameterError("give one of coverage=, risk= and false_alarm=")
        (name, share), = given.items()
        if name == "risk" and is_error is None:
            raise InvalidParameterError("risk= needs y: errors are counted on held-out rows")
        measure = measure or ("epistemic" if name == "false_alarm" else "total")
        scores = _measured(uncertainty, measure)
        flags = None if is_error is None else np.ascontiguousarray(is_error, dtype=bool)
        return cls(_nuq.Threshold.calibrate(measure, scores, flags, name, float(share), float(delta)))

    measure = property(lambda self: self._inner.measure, doc='"aleatoric", "epistemic", "total" or "density".')
    value = property(lambda self: self._inner.value, doc="Accept where the measure is at most this.")
    n_samples = property(lambda self: self._inner.rows, doc="The held-out rows it was chosen on.")
    statement = property(lambda self: self._inner.statement, doc="What it promises, in words.")

    def accept(self, uncertainty: Any) -> np.ndarray:
        """True where ``uncertainty``, of ``predict_uncertainty``, is accepted."""
        return self._inner.accept(_measured(uncertainty, self.measure))

    def __repr__(self) -> str:
        return f"Threshold({self.measure} <= {self.value:.6g}: {self.statement})"


def _measured(uncertainty: Any, measure: str) -> np.ndarray:
    if measure not in _COLUMNS:
        raise InvalidParameterError(f"measure={measure!r}: it is one of {', '.join(map(repr, _COLUMNS))}")
    scores = np.ascontiguousarray(uncertainty[_COLUMNS[measure]], dtype=np.float64)
    return -scores if measure == "density" else scores


def conformal_p_values(calibration: Any, scores: Any) -> np.ndarray:
    """For each score the chance that a row like the calibration rows scores as high.

    >>> conformal_p_values([1.0, 2.0, 3.0], [0.0, 3.0, 9.0])
    array([1.  , 0.5 , 0.25])
    """
    return _nuq.conformal_p_values(_arrays.scores(calibration, "calibration"), _arrays.scores(scores, "scores"))


def benjamini_hochberg(p_values: Any, level: float) -> np.ndarray:
    """Which p-values of a batch are alarms, so that the expected share of false ones among them is at most ``level``.

    >>> benjamini_hochberg([0.03, 0.9, 0.01, 0.2], 0.1)
    array([ True, False,  True, False])
    """
    return _nuq.benjamini_hochberg(_arrays.scores(p_values, "p_values"), level)

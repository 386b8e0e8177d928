"""Decisions that keep a promise: thresholds chosen on held-out rows, p-values, and alarms over a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays, _nuq
from .errors import InvalidParameterError

__all__ = ["Threshold", "benjamini_hochberg", "conformal_p_values"]

#: The columns that each measure is compared by, the first that there is; density with its sign turned.
_COLUMNS = {
    "aleatoric": ("log_aleatoric", "aleatoric"),
    "epistemic": ("log_epistemic",),
    "total": ("log_total",),
    "density": ("log_density",),
}


class Threshold:
    """Accepts rows whose uncertainty is at most ``value``; ``statement`` says what it promises.

    Changing a threshold needs no refit: calibrate another, on the same held-out rows or on others.
    """

    def __init__(self, inner: _nuq.Threshold) -> None:
        self._inner = inner

    @classmethod
    def _calibrated(
        cls, uncertainty: Any, is_error: Any, target: dict[str, float | None], delta: float, measure: str | None
    ) -> Threshold:
        given = {name: share for name, share in target.items() if share is not None}
        if len(given) != 1:
            raise InvalidParameterError(f"give one of {', '.join(f'{name}=' for name in target)}")
        (name, share), = given.items()
        share = _arrays.real(share, name)
        if name == "risk" and is_error is None:
            raise InvalidParameterError("risk= needs y: errors are counted on held-out rows")
        measure = measure or ("epistemic" if name == "false_alarm" else "total")
        scores = _measured(uncertainty, measure)
        flags = None if is_error is None else np.ascontiguousarray(is_error, dtype=bool)
        return cls(_nuq.Threshold.calibrate(measure, scores, flags, name, share, _arrays.real(delta, "delta")))

    @property
    def measure(self) -> str:
        """ "aleatoric", "epistemic", "total" or "density"."""
        return self._inner.measure

    @property
    def value(self) -> float:
        """Accept where the measure is at most this."""
        return self._inner.value

    @property
    def n_samples(self) -> int:
        """The held-out rows it was chosen on."""
        return self._inner.rows

    @property
    def statement(self) -> str:
        """What it promises, in words."""
        return self._inner.statement

    def accept(self, uncertainty: Any) -> np.ndarray:
        """True where ``uncertainty``, of ``predict_uncertainty``, is accepted."""
        return self._inner.accept(_measured(uncertainty, self.measure))

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_parts, self._inner.parts()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Threshold) and self._inner.parts() == other._inner.parts()

    def __hash__(self) -> int:
        return hash(self._inner.parts())

    def __repr__(self) -> str:
        return f"Threshold({self.measure} <= {self.value:.6g}: {self.statement})"


def _of_parts(*parts: Any) -> Threshold:
    return Threshold(_nuq.Threshold.of_parts(*parts))


def _measured(uncertainty: Any, measure: str) -> np.ndarray:
    if measure not in _COLUMNS:
        raise InvalidParameterError(f"measure={measure!r}: it is one of {', '.join(map(repr, _COLUMNS))}")
    column = next(name for name in _COLUMNS[measure] if name in uncertainty)
    scores = _arrays.scores(uncertainty[column], column)
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

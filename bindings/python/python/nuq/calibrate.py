"""Decisions with statistical guarantees: thresholds from held-out rows, conformal p-values, false discovery control."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from . import _arrays, _nuq
from ._result import Uncertainty
from ._warnings import warn
from .errors import InvalidInputError, InvalidParameterError, NotFiniteError, ParameterTypeError

__all__ = [
    "IntervalRule",
    "Martingale",
    "ScoreThreshold",
    "SetRule",
    "Threshold",
    "benjamini_hochberg",
    "conformal_p_values",
    "martingale",
]

#: For each measure, the column that is compared with the threshold. The sign of the density is reversed.
_COLUMNS = {
    "aleatoric": "aleatoric",
    "epistemic": "log_epistemic",
    "total": "log_total",
    "density": "log_density",
}


#: Beginning of the revision of a model that was loaded and then changed. A revision is a text that identifies the training rows of a model;
#: every fit and every update sets a new one.
FILE = "file-"

#: Default of ``delta``, which is one minus the confidence of the guarantee for the target ``risk``.
DELTA = 0.05


class _OnScore:
    """The attributes that are common to thresholds on a measure and thresholds on the score of a baseline."""

    @property
    def _score(self) -> _nuq.ScoreThreshold:
        raise NotImplementedError

    @property
    def value(self) -> float:
        """Largest accepted value of the measure or score. Measures are logarithms, except for the aleatoric uncertainty."""
        return self._score.value

    @property
    def n_samples(self) -> int:
        """Number of held-out rows on which the threshold was chosen."""
        return self._score.rows

    @property
    def statement(self) -> str:
        """The guarantee as a sentence."""
        return self._score.statement


class ScoreThreshold(_OnScore):
    """Accepts rows whose score is at most ``value``. ``statement`` describes its guarantee.

    ``calibrate`` of a baseline creates it; ``accept`` of the baseline applies it.
    """

    def __init__(self, inner: _nuq.ScoreThreshold) -> None:
        if not isinstance(inner, _nuq.ScoreThreshold):
            raise ParameterTypeError("thresholds are created by the method calibrate of a fitted baseline")
        self._inner = inner

    @property
    def _score(self) -> _nuq.ScoreThreshold:
        return self._inner

    def accept(self, scores: Any) -> np.ndarray:
        """True where a row with this score is accepted."""
        return self._inner.accept(_checked_scores(scores, "scores"))

    def __reduce__(self) -> tuple[Any, ...]:
        return _score_threshold, self._inner.parts()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScoreThreshold) and self._inner.parts() == other._inner.parts()

    def __hash__(self) -> int:
        return hash(self._inner.parts())

    def __repr__(self) -> str:
        return f"ScoreThreshold(score <= {self.value:.6g}: {self.statement})"


class Threshold(_OnScore):
    """Accepts rows whose uncertainty is at most ``value``. ``statement`` describes its guarantee.

    A new threshold needs no new fit: call ``calibrate`` again, on the same held-out rows or on others.
    """

    def __init__(self, inner: _nuq.Threshold, kind: str | None = None, revision: str | None = None) -> None:
        if not isinstance(inner, _nuq.Threshold):
            raise ParameterTypeError("thresholds are created by the method calibrate of a fitted model")
        self._inner = inner
        #: The kind of model that the threshold belongs to: "classifier", "regressor", or None if it is not known.
        self._kind = kind
        #: The revision of the model for which the threshold was chosen; None for a model that was loaded and not changed.
        self._revision = revision
        #: The temperature of the logits for which the threshold was chosen; None if it does not depend on logits, or if it is not known.
        self._temperature: float | None = None

    @property
    def _score(self) -> _nuq.ScoreThreshold:
        return self._inner.score

    @property
    def measure(self) -> str:
        """Uncertainty that is compared: "aleatoric", "epistemic", "total" or "density"."""
        return self._inner.measure

    @property
    def predictor(self) -> str:
        """Predictor whose uncertainty is compared: "network" if the threshold was chosen with ``logits`` or ``probabilities``,
        otherwise "nuq"."""
        return self._inner.predictor

    def accept(self, uncertainty: Any) -> np.ndarray:
        """True where a row is accepted.

        ``uncertainty`` is the result of ``predict_uncertainty``, a data frame or dictionary with the same columns, or an
        array with the values of the measure: ``aleatoric``, ``log_epistemic``, ``log_total`` or ``-log_density``. To accept only
        rows that several thresholds accept, combine the results, ``first.accept(u) & second.accept(u)``, or pass a list of
        thresholds to ``accept`` of the model.
        """
        scores = _measured(uncertainty, self.measure)
        self._check_kind(uncertainty)
        if isinstance(uncertainty, Uncertainty):
            self._check_predictor(uncertainty._predictor)
            warn_changed(self, uncertainty._revision)
            warn_other_temperature(self, uncertainty._temperature)
        return self._score.accept(scores)

    def _check_kind(self, uncertainty: Any) -> None:
        """Check that the result comes from the kind of model for which the threshold was chosen. Uncertainties of classifiers and of
        regressors have the same names, but different units."""
        given = kind_of(uncertainty)
        if self._kind is not None and given is not None and given != self._kind:
            raise InvalidInputError(
                f"the threshold was calibrated for a {self._kind}, and the result comes from a {given}: calibrate a threshold with the {given}"
            )

    def _check_predictor(self, predictor: str) -> None:
        """Check that the guarantee applies to the predictions of ``predictor``."""
        if self._inner.applies_to(predictor):
            return
        raise InvalidParameterError(
            "the threshold was chosen with the logits or probabilities of the network: give the logits or probabilities of the "
            "rows to predict_uncertainty or accept"
            if predictor == "nuq"
            else "the threshold was chosen without logits: calibrate one with logits= or probabilities=, or omit them"
        )

    def _parts(self) -> tuple[Any, ...]:
        value, rows, guarantee, training_rows = self._score.parts()
        return self.measure, value, rows, guarantee, self.predictor, training_rows

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_parts, self._parts(), {"_kind": self._kind, "_revision": self._revision, "_temperature": self._temperature}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Threshold) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        column = "-log_density" if self.measure == "density" else _COLUMNS[self.measure]
        with_logits = ", with logits" if self.predictor == "network" else ""
        return f"Threshold({column} <= {self.value:.6g}{with_logits}: {self.statement})"


def _from_parts(
    measure: str, value: float, rows: int, guarantee: Any, predictor: str = "nuq", training_rows: int = 0
) -> Threshold:
    return Threshold(_nuq.Threshold(measure, predictor, _nuq.ScoreThreshold.from_parts(value, rows, guarantee, training_rows)))


def _score_threshold(*parts: Any) -> ScoreThreshold:
    return ScoreThreshold(_nuq.ScoreThreshold.from_parts(*parts))


_Chosen = TypeVar("_Chosen", Threshold, ScoreThreshold)


def chosen(threshold: Any, stored: dict[str, _Chosen], kind: type[_Chosen]) -> list[_Chosen]:
    """The thresholds that the argument ``threshold`` selects: a threshold, the name of a stored threshold, or a list of them."""
    several = list(threshold) if isinstance(threshold, (list, tuple)) else [threshold]
    if not several:
        raise InvalidParameterError("threshold=[]: give at least one threshold")
    thresholds: list[_Chosen] = []
    for one in several:
        if not isinstance(one, (str, kind)):
            raise ParameterTypeError(f"threshold={one!r}: expected a {kind.__name__} or the name of a stored one")
        if isinstance(one, str) and one not in stored:
            raise InvalidParameterError(
                f"threshold={one!r}: the stored thresholds are {', '.join(map(repr, stored)) or 'none'} "
                "(a new fit, partial_fit and remove delete thresholds)"
            )
        thresholds.append(stored[one] if isinstance(one, str) else one)
    return thresholds


class SetRule:
    """Prediction sets: a class is in the set of a row if the score of the class is at most a limit. ``statement`` describes the guarantee.

    ``calibrate(X, y, sets=0.9)`` of a classifier creates it; ``predict_set`` applies it.
    """

    def __init__(self, inner: _nuq.SetRule, revision: str | None = None, temperature: float | None = None) -> None:
        if not isinstance(inner, _nuq.SetRule):
            raise ParameterTypeError("prediction sets are created by the method calibrate of a fitted classifier")
        self._inner = inner
        #: The revision of the model for which the sets were chosen; None for a model that was loaded and not changed.
        self._revision = revision
        #: The temperature of the logits for which the sets were chosen; None if they do not depend on logits, or if it is not known.
        self._temperature = temperature

    @property
    def coverage(self) -> float:
        """Probability that a set contains the true class."""
        return self._inner.parts()[0]

    @property
    def score(self) -> str:
        """Score of a class: "lac" or "aps"; see ``calibrate`` of a classifier."""
        return self._inner.parts()[1]

    @property
    def limit(self) -> float | np.ndarray:
        """Largest score of a class in a set; one number for each class with ``by_class=True``."""
        limit = self._inner.parts()[2]
        return limit if isinstance(limit, float) else np.array(limit)

    @property
    def n_samples(self) -> int:
        """Number of held-out rows on which the limit was chosen."""
        return self._inner.parts()[3]

    @property
    def predictor(self) -> str:
        """Predictor whose probabilities are compared: "network" if ``logits`` or ``probabilities`` were given, otherwise "nuq"."""
        return self._inner.parts()[4]

    @property
    def statement(self) -> str:
        """The guarantee as a sentence."""
        return self._inner.statement

    def __reduce__(self) -> tuple[Any, ...]:
        return _set_rule, self._inner.parts(), {"_revision": self._revision, "_temperature": self._temperature}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SetRule) and self._inner.parts() == other._inner.parts()

    def __hash__(self) -> int:
        return hash(repr(self._inner.parts()))

    def __repr__(self) -> str:
        return f"SetRule({self.score}: {self.statement})"


class IntervalRule:
    """Prediction intervals: the mean plus and minus ``factor`` standard deviations. ``statement`` describes the guarantee.

    ``calibrate(X, y, intervals=0.9)`` of a regressor creates it; ``predict_interval`` applies it.
    """

    def __init__(self, inner: _nuq.IntervalRule, revision: str | None = None) -> None:
        if not isinstance(inner, _nuq.IntervalRule):
            raise ParameterTypeError("prediction intervals are created by the method calibrate of a fitted regressor")
        self._inner = inner
        #: The revision of the model for which the intervals were chosen; None for a model that was loaded and not changed.
        self._revision = revision

    @property
    def coverage(self) -> float:
        """Probability that an interval contains the target."""
        return self._inner.parts()[0]

    @property
    def factor(self) -> float:
        """Half the width of an interval, divided by the standard deviation. The standard deviation is the square root of the total variance."""
        return self._inner.parts()[1]

    @property
    def n_samples(self) -> int:
        """Number of held-out rows on which the factor was chosen."""
        return self._inner.parts()[2]

    @property
    def statement(self) -> str:
        """The guarantee as a sentence."""
        return self._inner.statement

    def __reduce__(self) -> tuple[Any, ...]:
        return _interval_rule, self._inner.parts(), {"_revision": self._revision}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntervalRule) and self._inner.parts() == other._inner.parts()

    def __hash__(self) -> int:
        return hash(self._inner.parts())

    def __repr__(self) -> str:
        return f"IntervalRule(mean ± {self.factor:.4g} sd: {self.statement})"


def _set_rule(*parts: Any) -> SetRule:
    return SetRule(_nuq.SetRule.from_parts(*parts))


def _interval_rule(*parts: Any) -> IntervalRule:
    return IntervalRule(_nuq.IntervalRule.from_parts(*parts))


def warn_changed(rule: Threshold | SetRule | IntervalRule, revision: str | None) -> None:
    """Warn if a rule was chosen for another revision of a model than ``revision``, the revision of the model to which it is applied.

    There is no warning for a model that was loaded and not changed (None), because any rule may have been chosen for this model before it was
    saved. A rule that was chosen for such a model gives a warning only if it is applied to a model that was loaded and then changed."""
    is_other = rule._revision is not None or (revision is not None and revision.startswith(FILE))
    if revision is not None and rule._revision != revision and is_other:
        text = (
            f"the {type(rule).__name__} was chosen for another model, or before rows were inserted or removed: its guarantee does not "
            "hold for this model; calibrate again"
        )
        warn(text)


def warn_other_temperature(rule: Threshold | SetRule, temperature: float | None) -> None:
    """Warn if a rule was chosen for logits with another temperature than ``temperature``, that of the logits to which it is applied."""
    if rule._temperature is not None and temperature is not None and rule._temperature != temperature:
        text = (
            f"the {type(rule).__name__} was chosen for logits with the temperature {rule._temperature:.4g}, and the temperature of the model is "
            f"{temperature:.4g}: its guarantee does not hold; calibrate again"
        )
        warn(text)


def one_target(targets: dict[str, Any]) -> str:
    """The name of the only target that is given."""
    given = [name for name, share in targets.items() if share is not None]
    if len(given) != 1:
        raise InvalidParameterError(f"give one of {', '.join(f'{name}=' for name in targets)}")
    return given[0]


class Request(NamedTuple):
    """The checked target of a call of ``calibrate``."""

    target: str
    share: float
    delta: float

    @classmethod
    def checked(cls, targets: dict[str, Any], delta: Any) -> Request:
        target = one_target(targets)
        request = cls(target, _arrays.real(targets[target], target), _arrays.real(delta, "delta"))
        if target != "risk" and request.delta != DELTA:
            raise InvalidParameterError(f"delta={delta!r}: it belongs to risk, not to {target}")
        _nuq.ScoreThreshold.check_target(*request)
        return request

    def score_threshold(
        self, scores: np.ndarray, is_error: Any, training_rows: int
    ) -> ScoreThreshold:
        """The threshold for the scores of held-out rows of a baseline. ``training_rows`` is the number of these rows that equal training
        rows."""
        if self.target == "risk" and is_error is None:
            raise InvalidParameterError("risk= requires is_error, whether the prediction of each held-out row is wrong")
        flags = None if is_error is None else _arrays.flags(is_error, "is_error")
        if flags is not None:
            _arrays.check_lengths(scores, flags)
        inner = _nuq.ScoreThreshold.calibrate(scores, flags, *self, training_rows)
        self._warn_infinite(inner)
        return ScoreThreshold(inner)

    def _warn_infinite(self, threshold: _nuq.ScoreThreshold) -> None:
        # A threshold of −∞ is chosen if enough held-out rows have this value, for example a variance of zero. It needs no warning.
        if threshold.value == np.inf and self.target != "risk":
            warn(threshold.statement)


def warn_training_rows(rows: np.ndarray, count: Callable[[np.ndarray], int]) -> int:
    """Warn if rows that should be new equal training rows. ``count`` returns how many of the given rows equal training rows. About 1000 rows
    are compared. Returns the number of equal rows, which is an estimate if not all rows are compared; 0 if less than a tenth of the compared
    rows are equal."""
    sample = np.ascontiguousarray(rows[:: -(-len(rows) // 1000) or 1])
    equal = count(sample)
    if equal:
        checked = "" if len(sample) == len(rows) else " checked"
        warn(
            f"{equal} of {len(sample)}{checked} rows equal {'a training row' if equal == 1 else 'training rows'}; "
            "metrics and guarantees are valid only for rows that are not training rows",
        )
    return round(equal * len(rows) / len(sample)) if equal and 10 * equal >= len(sample) else 0


class ModelRequest(NamedTuple):
    """The checked parameters of a call of ``calibrate`` of a model."""

    request: Request
    measure: str

    @classmethod
    def checked(cls, targets: dict[str, Any], delta: Any, measure: Any, knows_errors: bool) -> ModelRequest:
        """Check the parameters. ``knows_errors`` states whether it is known which predictions of the held-out rows are wrong."""
        target = one_target(targets)
        if measure is None:
            measure = "epistemic" if target == "false_alarm" else "total"
        measure = _arrays.choice(measure, "measure", _COLUMNS)
        request = Request.checked(targets, delta)
        if target == "risk" and not knows_errors:
            raise InvalidParameterError("risk= requires y, the labels of the held-out rows")
        return cls(request, measure)

    def threshold(self, uncertainty: Uncertainty, is_error: np.ndarray | None, training_rows: int) -> Threshold:
        """The threshold for the uncertainties of held-out rows. ``training_rows`` is the number of these rows that equal training rows."""
        predictor = uncertainty._predictor
        scores = _measured(uncertainty, self.measure)
        flags = None if is_error is None else np.ascontiguousarray(is_error, dtype=bool)
        inner = _nuq.Threshold.calibrate(self.measure, scores, flags, *self.request, predictor, training_rows)
        self.request._warn_infinite(inner.score)
        return Threshold(inner)


def kind_of(uncertainty: Any) -> str | None:
    """The kind of model that a result comes from: "classifier" or "regressor"; None if the columns do not show it."""
    columns = list(getattr(uncertainty, "columns", uncertainty)) if _has_columns(uncertainty) else []
    return "regressor" if "mean" in columns else "classifier" if "label" in columns else None


def _has_columns(uncertainty: Any) -> bool:
    return isinstance(uncertainty, (Uncertainty, Mapping)) or hasattr(uncertainty, "columns")


def _measured(uncertainty: Any, measure: str) -> np.ndarray:
    """Values of the measure. A higher value means a less certain prediction."""
    name = _COLUMNS[measure]
    if not _has_columns(uncertainty):
        return _checked_scores(uncertainty, f"values of the measure {measure!r}")
    columns = list(getattr(uncertainty, "columns", uncertainty))
    if name not in columns:
        raise InvalidInputError(f"the column {name!r} is missing: the threshold compares it; pass the result of predict_uncertainty")
    scores = _checked_scores(uncertainty[name], name)
    return -scores if measure == "density" else scores


def _checked_scores(values: Any, what: str) -> np.ndarray:
    scores = _arrays.scores(values, what)
    if np.isnan(scores).any():
        raise NotFiniteError(f"row {int(np.isnan(scores).argmax())} of the {what} is NaN")
    return scores


def conformal_p_values(calibration: Any, scores: Any) -> np.ndarray:
    """Conformal p-value of each score: (1 + m) / (1 + n). Here m is the number of calibration scores that are at least as high as the score,
    and n is the number of all calibration scores.

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
    return _nuq.benjamini_hochberg(_arrays.scores(p_values, "p_values"), _arrays.real(level, "level"))


class Martingale(NamedTuple):
    """Result of ``martingale``. The wealth is the value of the martingale. It starts at 1, and a large wealth is evidence that the distribution
    has changed."""

    #: Natural logarithm of the wealth after each row.
    log_wealth: np.ndarray
    #: Position (from 0) of the row at which the wealth first reached 1 / ``alpha``; None without an alarm.
    alarm: int | None
    #: Largest probability of an alarm if the rows are exchangeable with the held-out rows.
    alpha: float


def martingale(held_out: Any, scores: Any, alpha: float = 0.01, seed: int = 0) -> Martingale:
    """Test whether rows, in the order of their arrival, are exchangeable with held-out rows: a conformal test martingale.

    ``held_out`` and ``scores`` are scores of held-out rows and of new rows, for example ``log_epistemic``; a higher score means less
    certain. If the distribution has not changed, the probability that the value of the martingale (its wealth) *ever* reaches 1 /
    ``alpha`` is at most ``alpha``.
    ``nuq serve`` has the same test. ``seed`` determines the random order of equal scores.

    >>> result = martingale(np.arange(500.0), np.full(30, 1000.0), alpha=0.01, seed=7)
    >>> result.alarm is not None and result.alarm < 20
    True
    """
    held_out, scores = _checked_scores(held_out, "held-out scores"), _checked_scores(scores, "scores")
    alpha = _arrays.real(alpha, "alpha")
    log_wealth, alarm = _nuq.martingale(held_out, scores, alpha, _arrays.integer(seed, "seed"))
    return Martingale(log_wealth, alarm, alpha)

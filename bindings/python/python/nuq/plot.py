"""Figures of uncertainties, drawn with matplotlib.

Each function draws into ``ax``, or into a new figure if it is None, and returns the axes. matplotlib is imported on the first call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _arrays, metrics
from . import calibrate as _calibrate
from ._base import Estimator
from ._evaluate import Evaluation
from ._package import require
from ._result import Uncertainty
from .calibrate import Threshold, _measured, kind_of
from .errors import InvalidInputError, InvalidParameterError, OutOfRangeError, ParameterTypeError

__all__ = ["histogram", "map", "martingale", "rejection_curve", "reliability"]

#: Colors that readers with a color vision deficiency can distinguish (Okabe and Ito).
_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
_GRAY = "#808080"

#: For each measure, the label of the quantity that is compared with thresholds. Logarithms are natural.
_LABELS = {
    "aleatoric": "aleatoric uncertainty",
    "epistemic": "log epistemic uncertainty (nats)",
    "total": "log total uncertainty (nats)",
    "density": "−log density (nats)",
}

#: Labels that differ for one kind of model. The aleatoric uncertainty of a classifier is a probability; the uncertainties of a regressor are
#: variances.
_LABELS_OF = {
    "classifier": {"aleatoric": "aleatoric uncertainty (probability)"},
    "regressor": {
        "aleatoric": "aleatoric variance",
        "epistemic": "log epistemic variance (nats)",
        "total": "log total variance (nats)",
    },
}


def histogram(
    uncertainty: Any,
    held_out: Any = None,
    *,
    measure: str = "epistemic",
    threshold: Threshold | None = None,
    bins: int = 40,
    ax: Any = None,
) -> Any:
    """Histogram of an uncertainty, compared with the histogram of held-out rows.

    ``uncertainty`` and ``held_out`` are results of ``predict_uncertainty``, or arrays with the values that thresholds compare:
    ``aleatoric``, ``log_epistemic``, ``log_total`` or ``-log_density``. ``uncertainty`` may also be a dictionary from names to such results.
    A dictionary of arrays with the name of a column, such as "aleatoric", is one result. ``measure`` is "aleatoric", "epistemic", "total" or "density". The value of a
    ``threshold`` on this measure is drawn as a line, and the legend contains the shares of rejected rows. A bar shows a share of the rows of
    one result. Values outside of the percentiles 0.5 and 99.5 of all rows are in the outermost bars.
    """
    _arrays.choice(measure, "measure", _LABELS)
    bins = _arrays.integer(bins, "bins", 1)
    if threshold is not None:
        _check_threshold(threshold, measure)
    given = {"new rows": uncertainty} if not isinstance(uncertainty, Mapping) or _is_result(uncertainty) else _named(uncertainty)
    if held_out is not None:
        if "held-out rows" in given:
            raise InvalidParameterError('the name "held-out rows" is reserved for held_out=: choose another one')
        given = {"held-out rows": held_out, **given}
    samples = {name: _values(values, measure) for name, values in given.items()}
    # The shares are computed from `given`. In `samples`, infinite values are replaced by finite values, which the threshold may accept.
    rejected = {} if threshold is None else {name: 1 - threshold.accept(values).mean() for name, values in given.items()}
    edges = np.linspace(*_range(np.concatenate(list(samples.values()))), bins + 1)
    ax = _axes(ax)
    for (name, values), color in zip(samples.items(), _colors(len(samples), held_out is not None)):
        label = name if threshold is None else f"{name} ({rejected[name]:.1%} rejected)"
        weights = np.full(len(values), 100.0 / len(values))
        shown = np.clip(values, edges[0], edges[-1])
        ax.hist(shown, edges, weights=weights, histtype="stepfilled", alpha=0.3, color=color)
        ax.hist(shown, edges, weights=weights, histtype="step", color=color, label=label)
    if threshold is not None and np.isfinite(threshold.value):
        ax.axvline(threshold.value, color=_GRAY, linewidth=1.2, linestyle="--", label=f"threshold {threshold.value:.3g}")
    kinds = [None if threshold is None else threshold._kind, *(kind_of(values) for values in given.values())]
    ax.set(xlabel=_label(measure, kinds), ylabel="share of rows per bar (%)")
    _legend(ax)
    return ax


def rejection_curve(
    uncertainty: Any, is_error: Any = None, *, methods: Sequence[str] | None = None, ax: Any = None
) -> Any:
    """Share of errors among the accepted rows, by the share of accepted rows. A lower curve means that the uncertainty orders the rows
    better.

    ``uncertainty`` is a result of ``evaluate``, or an array of scores, or a dictionary from names to scores; a higher score means less
    certain. With scores, ``is_error`` is True for each row whose prediction is wrong. With a result of ``evaluate``, ``methods`` are the
    names of the shown methods; by default the epistemic, total and aleatoric uncertainty of NUQ. The legend contains the area under each
    curve (RCC-AUC).
    """
    if isinstance(uncertainty, Evaluation):
        if is_error is not None:
            raise InvalidParameterError("is_error= is given only with scores: a result of evaluate contains the errors")
        names = [method.name for method in uncertainty.methods[:3]] if methods is None else list(methods)
        scores: dict[str, Any] = {name: uncertainty[name].scores["test"] for name in names}
        is_error = uncertainty.is_error
    else:
        if is_error is None:
            raise InvalidParameterError("is_error= is required with scores: give True for each wrong prediction")
        if methods is not None:
            raise InvalidParameterError("methods= is given only with a result of evaluate")
        scores = _named(uncertainty) if isinstance(uncertainty, Mapping) else {"uncertainty": uncertainty}
    wrong = _arrays.flags(is_error, "is_error")
    curves = {name: (*metrics.risk_coverage_curve(values, wrong), metrics.rcc_auc(values, wrong)) for name, values in scores.items()}
    ax = _axes(ax)
    for (name, (coverage, risk, area)), color in zip(curves.items(), _colors(len(curves))):
        ax.plot(100 * coverage, 100 * risk, color=color, label=f"{name} (area {area:.4f})")
    ax.axhline(100 * wrong.mean(), color=_GRAY, linewidth=1, linestyle=":", label="random order")
    ax.set(xlabel="accepted rows, most certain first (%)", ylabel="errors among them (%)", xlim=(0, 100))
    ax.set_ylim(bottom=0)
    _legend(ax)
    return ax


def reliability(probability: Any, is_correct: Any, *, bins: int = 10, ax: Any = None) -> Any:
    """Share of correct predictions by predicted probability. Points on the diagonal are calibrated.

    ``probability`` is the probability of the predicted label, and ``is_correct`` is True for each correct prediction. The interval [0, 1] is
    divided into ``bins`` equal parts, as in ``metrics.calibration_error``. The legend contains this calibration error. Larger points stand
    for more rows. Bars are 95 % intervals (Wilson).
    """
    confidence, correct = _arrays.scores(probability, "probability"), _arrays.flags(is_correct, "is_correct")
    _arrays.check_lengths(confidence, correct)
    bins = _arrays.integer(bins, "bins", 1)
    # The metric is computed first, because it checks the range of the probabilities.
    error = metrics.calibration_error(confidence, correct, bins)
    # The first part contains 0. A probability on a boundary belongs to the part below it.
    part = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(part, minlength=bins)
    used = counts > 0
    mean = np.bincount(part, confidence, bins)[used] / counts[used]
    share = np.bincount(part, correct, bins)[used] / counts[used]
    low, high = _wilson(share, counts[used])
    ax = _axes(ax)
    ax.plot([0, 1], [0, 1], color=_GRAY, linewidth=1, linestyle=":", label="calibrated")
    ax.vlines(mean, low, high, color=_COLORS[0], linewidth=1.2, alpha=0.6)
    size = 15 + 150 * counts[used] / counts.max()
    ax.scatter(mean, share, s=size, color=_COLORS[0], clip_on=False, label=f"{len(correct):,} rows (calibration error {error:.3f})")
    ax.set(xlabel="predicted probability", ylabel="share of correct predictions", xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal")
    _legend(ax, loc="lower left", bbox_to_anchor=(0, 1), markerscale=0.6)
    return ax


def martingale(held_out: Any, scores: Any, *, alpha: float = 0.01, seed: int = 0, ax: Any = None) -> Any:
    """Wealth (value) of the conformal test martingale of ``calibrate.martingale`` after each row, and its alarm.

    ``held_out`` and ``scores`` are scores of held-out rows and of new rows in the order of their arrival.
    """
    result = _calibrate.martingale(held_out, scores, alpha, seed)
    ax = _axes(ax)
    ax.plot(np.arange(1, len(result.log_wealth) + 1), result.log_wealth / np.log(10), color=_COLORS[0], label="wealth")
    limit = -np.log10(result.alpha)
    ax.axhline(limit, color=_GRAY, linewidth=1, linestyle="--", label=f"alarm limit (probability of a false alarm ≤ {result.alpha:g})")
    if result.alarm is not None:
        ax.axvline(result.alarm + 1, color=_COLORS[5], linewidth=1, label=f"first alarm at row {result.alarm + 1:,}")
    ax.set(xlabel="new rows", ylabel="wealth (log₁₀)")
    _legend(ax)
    return ax


def map(
    model: Any, X: Any = None, *, measure: str = "epistemic", resolution: int = 150, margin: float = 0.25, ax: Any = None
) -> Any:
    """Map of an uncertainty in two dimensions, with a color bar.

    For a model with two columns, the map shows the uncertainty at each point of the plane around the rows ``X``, or around the training rows
    if ``X`` is None. ``margin`` is the distance between rows and edge relative to the range of the rows, and ``resolution`` is the number of
    points per axis. The color scale ends at the percentiles 1 and 75, because the high uncertainty far from all rows would hide the
    differences near the rows.

    For a model with more columns, the map shows the rows ``X`` along their two principal axes, colored by their uncertainty. The color scale
    ends at the percentiles 1 and 99.
    """
    _arrays.choice(measure, "measure", _LABELS)
    if not isinstance(model, Estimator):
        raise ParameterTypeError(f"model={model!r}: expected a fitted NuqClassifier or NuqRegressor")
    margin = _arrays.real(margin, "margin")
    if not 0 <= margin < np.inf:
        raise OutOfRangeError(f"margin={margin!r}: expected a number of at least 0")
    resolution = _arrays.integer(resolution, "resolution", 2)
    if model.n_features_in_ == 2:
        ax, image = _plane(model, X, measure, resolution, margin, ax)
    elif model.n_features_in_ == 1:
        raise InvalidParameterError("the model has one column, and a map has two axes: use nuq.plot.histogram")
    elif X is None:
        raise InvalidParameterError(f"X is required: the model has {model.n_features_in_} columns, and only rows can be shown")
    else:
        ax, image = _projection(model, X, measure, ax)
    ax.figure.colorbar(image, ax=ax, label=_label(measure, [model._kind]), extend="both")
    return ax


def _plane(model: Estimator, X: Any, measure: str, resolution: int, margin: float, ax: Any) -> tuple[Any, Any]:
    """The uncertainty on a grid, and the rows. Returns the axes and the image."""
    shown = model._model.training_rows(model.training_ids_.tolist(), model._threads()) if X is None else np.asarray(model._query_rows(X))
    low, high = shown.min(axis=0).astype(np.float64), shown.max(axis=0).astype(np.float64)
    edge = margin * np.where(high > low, high - low, 1.0)
    low, high = low - edge, high + edge
    grid = np.stack(np.meshgrid(*(np.linspace(low[i], high[i], resolution) for i in range(2))), axis=-1)
    values = _values(Uncertainty(model._predict_rows(_arrays.rows(grid.reshape(-1, 2)))), measure)
    vmin, vmax = np.percentile(values, [1, 75])
    # The points of the grid are the centers of the pixels. The extent of an image ends at the edges of the outermost pixels.
    half = (high - low) / (2 * (resolution - 1))
    ax = _axes(ax)
    image = ax.imshow(
        values.reshape(resolution, resolution),
        extent=(low[0] - half[0], high[0] + half[0], low[1] - half[1], high[1] + half[1]),
        origin="lower",
        aspect="auto",
        vmin=vmin,
        vmax=vmax,
        cmap="viridis",
        interpolation="bilinear",
    )
    ax.scatter(shown[:, 0], shown[:, 1], s=3, color="white", alpha=0.6, linewidths=0)
    names = model._model.column_names() or ("column 0", "column 1")
    ax.set(xlabel=names[0], ylabel=names[1], xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    return ax, image


def _projection(model: Estimator, X: Any, measure: str, ax: Any) -> tuple[Any, Any]:
    """The rows along their two principal axes. The least certain rows are drawn last, on top of the others. Returns the axes and the
    colored points."""
    values = _values(model.predict_uncertainty(X), measure)
    rows = np.asarray(_arrays.rows(X), dtype=np.float64)
    centered = rows - rows.mean(axis=0)
    variances, vectors = np.linalg.eigh(centered.T @ centered)
    axes = vectors[:, -2:][:, ::-1]
    # The sign of an axis is arbitrary. The largest component is made positive, so that the figure is reproducible.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])
    points, order = centered @ axes, np.argsort(values)
    vmin, vmax = np.percentile(values, [1, 99])
    ax = _axes(ax)
    image = ax.scatter(*points[order].T, c=values[order], s=8, vmin=vmin, vmax=vmax, cmap="viridis", linewidths=0)
    share = variances[::-1][:2] / max(variances.sum(), np.finfo(float).tiny)
    ax.set(xlabel=f"first principal axis ({share[0]:.0%} of the variance)", ylabel=f"second principal axis ({share[1]:.0%})")
    return ax, image


def _label(measure: str, kinds: Sequence[str | None]) -> str:
    """The label of a measure, for results of these kinds of models. None is an unknown kind, such as that of an array."""
    known = {kind for kind in kinds if kind is not None}
    own = _LABELS_OF[known.pop()] if len(known) == 1 else {}
    return own.get(measure, _LABELS[measure])


def _legend(ax: Any, **options: Any) -> None:
    """A legend whose background covers lines behind it."""
    ax.legend(**{"frameon": True, "framealpha": 0.85, "edgecolor": "none", **options})


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    return require("matplotlib.pyplot", "plot").subplots(layout="constrained")[1]


def _colors(n: int, has_reference: bool = False) -> list[str]:
    """Colors of ``n`` lines; the first one is gray if it is a reference."""
    first = [_GRAY] if has_reference else []
    return [*first, *(_COLORS[i % len(_COLORS)] for i in range(n - len(first)))]


def _is_result(values: Mapping[Any, Any]) -> bool:
    """Whether a dictionary contains the columns of one result, and not several results by name."""
    has_columns = bool(set(values) & {"log_epistemic", "log_total", "log_density", "aleatoric"})
    return has_columns and not any(isinstance(value, (Mapping, Uncertainty)) for value in values.values())


def _named(values: Mapping[Any, Any]) -> dict[str, Any]:
    """The entries of a dictionary, with names as text."""
    if not values:
        raise InvalidInputError("there is nothing to draw: the dictionary is empty")
    named = {str(key): value for key, value in values.items()}
    if len(named) < len(values):
        raise InvalidInputError("two names in the dictionary have the same text: choose different names")
    return named


def _values(uncertainty: Any, measure: str) -> np.ndarray:
    """The values of a measure; a higher value means a less certain prediction. An infinite value is replaced by the largest or smallest
    finite value."""
    values = _measured(uncertainty, measure)
    finite = values[np.isfinite(values)]
    if not len(finite):
        raise InvalidInputError(f"there is no finite value of the measure {measure!r} to draw")
    return np.asarray(np.clip(values, finite.min(), finite.max()))


def _range(values: np.ndarray) -> tuple[float, float]:
    low, high = (float(end) for end in np.percentile(values, [0.5, 99.5]))
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _check_threshold(threshold: Any, measure: str) -> None:
    if not isinstance(threshold, Threshold):
        raise ParameterTypeError(f"threshold={threshold!r}: expected the result of calibrate")
    if threshold.measure != measure:
        raise InvalidParameterError(
            f"the threshold is on the measure {threshold.measure!r}, and the figure shows {measure!r}: give measure={threshold.measure!r}"
        )


def _wilson(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The interval of Wilson for binomial shares, at the level 95 %."""
    z = 1.959964
    center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return center - half, center + half

"""Figures: the drawn values, labels, and the axes that are used."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor, metrics
from nuq.calibrate import martingale
from nuq.errors import DimensionMismatchError, InvalidInputError, InvalidParameterError, MissingPackageError, NuqError, ParameterTypeError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt

from nuq import plot


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def results(fitted, blobs):
    x, _ = blobs
    rng = np.random.default_rng(0)
    return {name: fitted.predict_uncertainty(x + scale * rng.normal(size=x.shape)) for name, scale in (("near", 0.1), ("far", 3))}


def legend(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def heights(ax, label: str) -> np.ndarray:
    """Heights of the bars of the histogram whose label starts with ``label``."""
    (patch,) = [patch for patch in ax.patches if str(patch.get_label()).startswith(label)]
    return patch.get_xy()[1:-1:2, 1]


def test_a_histogram_shows_shares_of_rows_and_the_threshold(fitted, blobs, results):
    x, _ = blobs
    threshold = fitted.calibrate(x + 0.01, false_alarm=0.1)
    ax = plot.histogram(results, fitted.predict_uncertainty(x), threshold=threshold, bins=25)
    assert ax.get_xlabel() == "log epistemic uncertainty (nats)" and "%" in ax.get_ylabel()
    rejected = (results["far"].log_epistemic > threshold.value).mean()
    assert f"far ({rejected:.1%} rejected)" in legend(ax) and any(text.startswith("held-out rows") for text in legend(ax))
    values = [fitted.predict_uncertainty(x).log_epistemic, *(result.log_epistemic for result in results.values())]
    low, high = np.percentile(np.concatenate(values), [0.5, 99.5])
    expected, _ = np.histogram(np.clip(values[2], low, high), np.linspace(low, high, 26))
    np.testing.assert_allclose(heights(ax, "far"), 100 * expected / len(values[2]), rtol=1e-9)
    (line,) = ax.lines
    assert line.get_xdata()[0] == threshold.value
    # An infinite value is drawn as the largest finite value, but it is rejected.
    infinite = plot.histogram(np.array([0.0, 1.0, np.inf]), threshold=fitted.calibrate(x + 1000, coverage=0.9, measure="epistemic"))
    assert "new rows (33.3% rejected)" in legend(infinite)


def test_equal_and_reserved_names_of_histograms_are_errors(results):
    near = results["near"]
    with pytest.raises(InvalidParameterError, match="reserved for held_out="):
        plot.histogram({"held-out rows": near}, near)
    with pytest.raises(InvalidInputError, match="the same text"):
        plot.histogram({1: near, "1": near})


def test_histogram_of_the_density_shows_its_negative(results):
    ax = plot.histogram(results["near"], measure="density")
    low, high = ax.get_xlim()
    assert low < -np.median(results["near"].log_density) < high and ax.get_xlabel() == "−log density (nats)"


def test_labels_depend_on_the_kind_of_the_model(fitted, blobs):
    x, _ = blobs
    regressor = NuqRegressor().fit(x, x[:, 0])
    of_classifier, of_regressor = fitted.predict_uncertainty(x), regressor.predict_uncertainty(x)

    def label(*results, **options):
        return plot.histogram(*results, **{"measure": "aleatoric", **options}).get_xlabel()

    assert label(of_classifier) == "aleatoric uncertainty (probability)"
    assert label(of_regressor) == label(of_regressor.aleatoric, of_regressor) == "aleatoric variance"
    assert label(of_regressor, measure="total") == "log total variance (nats)"
    # Without a threshold it is not known whether an array comes from a classifier or a regressor. Results of both have no common unit.
    assert label(of_regressor.aleatoric) == label({"one": of_classifier, "other": of_regressor}) == "aleatoric uncertainty"
    threshold = regressor.calibrate(x + 0.01, coverage=0.9, measure="aleatoric")
    assert label(of_regressor.aleatoric, threshold=threshold) == "aleatoric variance"
    assert plot.map(regressor, x).figure.axes[1].get_ylabel() == "log epistemic variance (nats)"


def test_a_rejection_curve_is_the_risk_coverage_curve(fitted, blobs):
    x, y = blobs
    rows = x + np.random.default_rng(1).normal(0, 2, x.shape)
    result = fitted.predict_uncertainty(rows)
    wrong = result.label != y
    ax = plot.rejection_curve({"total": result.log_total, "random": np.random.default_rng(0).random(300)}, wrong)
    coverage, risk = metrics.risk_coverage_curve(result.log_total, wrong)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), 100 * coverage)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), 100 * risk)
    assert legend(ax)[0] == f"total (area {metrics.rcc_auc(result.log_total, wrong):.4f})"
    # The curve ends at the share of errors of all rows.
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(100 * wrong.mean())


@pytest.mark.filterwarnings("ignore")
def test_a_rejection_curve_of_an_evaluation_shows_its_methods(fitted, blobs):
    evaluation = nuq.evaluate(fitted, blobs[0] + 0.5, blobs[1], resamples=10)
    ax = plot.rejection_curve(evaluation)
    # The three methods of NUQ, and the random order.
    assert len(ax.lines) == 4
    name = evaluation.methods[5].name
    assert legend(plot.rejection_curve(evaluation, methods=[name]))[0].startswith(name)


def test_a_reliability_diagram_shows_the_means_of_the_bins(results, blobs):
    result, y = results["far"], blobs[1]
    correct = result.label == y
    ax = plot.reliability(result.probability, correct, bins=5)
    part = np.clip(np.ceil(result.probability * 5).astype(int), 1, 5)
    points = ax.collections[-1].get_offsets()
    expected = [(result.probability[part == i].mean(), correct[part == i].mean()) for i in range(1, 6) if (part == i).any()]
    np.testing.assert_allclose(points, expected, rtol=1e-9)
    error = metrics.calibration_error(result.probability, correct, 5)
    # The error is the mean vertical distance of the points from the diagonal, weighted by their numbers of rows.
    counts = [(part == i).sum() for i in range(1, 6) if (part == i).any()]
    assert error == pytest.approx(np.average([abs(p - c) for p, c in expected], weights=counts))
    assert f"calibration error {error:.3f}" in legend(ax)[1]


def test_a_map_of_two_columns_shows_the_uncertainty_on_a_grid():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2)).astype(np.float32)
    model = NuqClassifier().fit(x, (x[:, 0] > 0).astype(int))
    ax = plot.map(model, measure="aleatoric", resolution=31, margin=0)
    (image,) = ax.images
    left, right = ax.get_xlim()
    bottom, top = ax.get_ylim()
    assert (left, right) == (x[:, 0].min(), x[:, 0].max()) and (bottom, top) == (x[:, 1].min(), x[:, 1].max())
    # The center of the first pixel is the corner of the grid.
    edges, pixels = image.get_extent(), image.get_array().shape
    assert edges[0] + (edges[1] - edges[0]) / (2 * pixels[1]) == pytest.approx(left)
    assert edges[2] + (edges[3] - edges[2]) / (2 * pixels[0]) == pytest.approx(bottom)
    corner = model.predict_uncertainty([[left, bottom]]).aleatoric[0]
    assert image.get_array()[0, 0] == pytest.approx(corner, abs=1e-6)
    assert ax.figure.axes[1].get_ylabel() == "aleatoric uncertainty (probability)" and ax.get_xlabel() == "column 0"
    for columns in (1, 4):
        with pytest.raises(DimensionMismatchError):
            plot.map(model, np.zeros((5, columns), np.float32))


def test_a_map_of_more_columns_shows_two_principal_components(fitted, blobs):
    x, _ = blobs
    ax = plot.map(fitted, x)
    points = np.asarray(ax.collections[0].get_offsets())
    singular = np.linalg.svd(x - x.mean(axis=0, dtype=float), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(points, axis=0), singular[:2], rtol=1e-4)
    assert f"{singular[0] ** 2 / (singular**2).sum():.0%}" in ax.get_xlabel()
    with pytest.raises(InvalidParameterError, match="X is required: the model has 5 columns"):
        plot.map(fitted)
    with pytest.raises(InvalidParameterError, match="one column, and a map has two axes"):
        plot.map(NuqClassifier().fit(x[:, :1], blobs[1]), x[:, :1])


def test_a_martingale_plot_shows_the_wealth_and_the_first_alarm():
    """The wealth is the value of the martingale. A large wealth is evidence of a change."""
    rng = np.random.default_rng(0)
    held_out, scores = rng.normal(size=500), np.concatenate([rng.normal(size=200), rng.normal(2, 1, 100)])
    result = martingale(held_out, scores)
    ax = plot.martingale(held_out, scores)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), result.log_wealth / np.log(10))
    # The alarm is the first row with a wealth of at least 100, and comes after the change.
    assert result.alarm == np.flatnonzero(result.log_wealth >= np.log(100))[0] > 200
    assert f"first alarm at row {result.alarm + 1}" in legend(ax)


def test_false_alarms_of_the_martingale_are_rare():
    """For a sequence without a change, the probability of an alarm is at most alpha, here 5 %. The limit of the test is the expected number of
    alarms at this probability plus three standard deviations."""
    alarms = 0
    for seed in range(200):
        values = np.random.default_rng(seed).normal(size=700)
        alarms += martingale(values[:200], values[200:], alpha=0.05, seed=seed).alarm is not None
    assert alarms <= 200 * 0.05 + 3 * np.sqrt(200 * 0.05 * 0.95)


def test_names_may_be_names_of_columns(results):
    wrong = np.arange(300) % 7 == 0
    ax = plot.rejection_curve({"aleatoric": results["near"].aleatoric, "log_total": results["near"].log_total}, wrong)
    assert [text.split(" (")[0] for text in legend(ax)][:2] == ["aleatoric", "log_total"]
    ax = plot.histogram({"aleatoric": results["near"], "other": results["far"]})
    assert legend(ax) == ["aleatoric", "other"]
    # A dictionary of columns is one result.
    ax = plot.histogram({"aleatoric": results["near"].aleatoric, "log_total": results["near"].log_total}, measure="aleatoric")
    assert len(ax.patches) == 2


def test_given_axes_are_used_and_returned(fitted, blobs, results):
    x, y = blobs
    calls = {
        "histogram": (results["near"],),
        "rejection_curve": (results["near"].log_total, np.arange(300) % 7 == 0),
        "reliability": (results["near"].probability, np.arange(300) % 7 != 0),
        "map": (fitted, x),
        "martingale": (results["near"].log_epistemic, results["far"].log_epistemic),
    }
    assert set(calls) == set(plot.__all__)
    for name, arguments in calls.items():
        figure, axes = plt.subplots(1, 2)
        assert getattr(plot, name)(*arguments, ax=axes[1]) is axes[1]
        assert axes[1].get_xlabel() and axes[1].get_ylabel() and not axes[0].has_data()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda u, m: plot.histogram(u, measure="entropy"), InvalidParameterError, "measure='entropy'"),
        (lambda u, m: plot.histogram(u, threshold=0.5), ParameterTypeError, "threshold=0.5"),
        (lambda u, m: plot.histogram({}), InvalidInputError, "empty"),
        (lambda u, m: plot.histogram([np.inf, np.inf]), InvalidInputError, "no finite value"),
        (lambda u, m: plot.rejection_curve(u.total), InvalidParameterError, "is_error= is required"),
        (lambda u, m: plot.rejection_curve(u.total, [True], methods=["MSP"]), InvalidParameterError, "methods= is given only"),
        (lambda u, m: plot.rejection_curve([1.0, np.nan], [True, False]), NuqError, "NaN"),
        (lambda u, m: plot.rejection_curve([1.0, 2.0], [True]), NuqError, "2"),
        (lambda u, m: plot.map(m, np.zeros((5, 1), np.float32)), NuqError, "expecting 5 features"),
        (lambda u, m: plot.reliability([1.5, 0.2], [True, False]), NuqError, r"1\.5"),
        (lambda u, m: plot.map("model"), ParameterTypeError, "model='model'"),
        (lambda u, m: plot.martingale([1.0, np.nan], [1.0]), InvalidInputError, "row 1 of the held-out scores is NaN"),
        (lambda u, m: plot.martingale([1.0, 2.0], [1.0], alpha=2), NuqError, "alpha"),
    ],
)
def test_invalid_arguments_are_errors_and_leave_no_figure(call, error, message, fitted, results):
    with pytest.raises(error, match=message):
        call(results["near"], fitted)
    assert not plt.get_fignums(), "an empty figure remains"


def test_a_threshold_of_another_measure_is_an_error(fitted, blobs, results):
    threshold = fitted.calibrate(blobs[0] + 0.01, coverage=0.9)
    with pytest.raises(InvalidParameterError, match="give measure='total'"):
        plot.histogram(results["near"], threshold=threshold)


def test_missing_matplotlib_is_an_error(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingPackageError, match=r"nuq\[plot\]"):
        plot.histogram(results["near"])

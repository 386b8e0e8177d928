"""Results as tables of pandas, polars and Arrow, and as HTML."""

from __future__ import annotations

import html.parser
import re
import sys

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor, Uncertainty
from nuq.baselines import Energy, Huq, KnnDistance
from nuq.errors import MissingPackageError, ParameterTypeError
from nuq.outliers import NuqOutlierDetector

PACKAGES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}


def columns_of(table) -> dict[str, list]:
    """The columns of a table of pandas, polars or Arrow as lists."""
    if hasattr(table, "to_pydict"):
        return table.to_pydict()
    return {name: table[name].to_list() for name in table.columns}


@pytest.fixture(scope="module")
def model(blobs) -> NuqClassifier:
    x, y = blobs
    model = NuqClassifier().fit(x[::2], np.array(["a", "b", "c"])[y[::2]])
    model.calibrate(x[1::2], false_alarm=0.1, name="guard")
    model.calibrate(x[1::2], np.array(["a", "b", "c"])[y[1::2]], sets=0.9, name="sets")
    return model


@pytest.mark.parametrize("kind", PACKAGES)
def test_every_result_is_a_table(kind, model, blobs):
    pytest.importorskip(PACKAGES[kind])
    x, y = blobs
    result = model.predict_uncertainty(x)
    assert columns_of(getattr(result, f"to_{kind}")()) == {name: column.tolist() for name, column in result.items()}
    issues = model.label_issues()
    assert columns_of(getattr(issues, f"to_{kind}")())["row"] == issues.row.tolist()
    (name,) = model.thresholds_
    thresholds = columns_of(getattr(model.thresholds_, f"to_{kind}")())
    assert thresholds["name"] == [name] and thresholds["value"] == [model.thresholds_[name].value]
    assert thresholds["measure"] == ["epistemic"] and thresholds["statement"] == [model.thresholds_[name].statement]
    sets = columns_of(getattr(model.sets_, f"to_{kind}")())
    assert sets["coverage"] == [0.9] and sets["score"] == ["lac"]
    regressor = NuqRegressor().fit(x[::2], x[::2, 0])
    regressor.calibrate(x[1::2], x[1::2, 0], intervals=0.9, name="band")
    assert columns_of(getattr(regressor.intervals_, f"to_{kind}")())["factor"] == [regressor.intervals_["band"].factor]


@pytest.mark.parametrize("kind", PACKAGES)
def test_neighbors_and_suggestions_can_be_tables(kind, model, blobs):
    pytest.importorskip(PACKAGES[kind])
    x, _ = blobs
    distances, ids = model.kneighbors(x[:3], 4)
    pairs = columns_of(model.kneighbors(x[:3], 4, output=kind))
    assert pairs["row"] == [0] * 4 + [1] * 4 + [2] * 4 and pairs["rank"] == [1, 2, 3, 4] * 3
    assert pairs["id"] == ids.ravel().tolist() and pairs["distance"] == distances.ravel().tolist()
    assert "distance" not in columns_of(model.kneighbors(x[:3], 4, False, output=kind))
    others = columns_of(model.kneighbors(n_neighbors=2, output=kind))
    assert others["row"] == np.repeat(model.training_ids_, 2).tolist()
    chosen = columns_of(model.suggest(x, 5, output=kind))
    assert chosen["row"] == model.suggest(x, 5).tolist()
    assert chosen["log_epistemic"] == model.predict_uncertainty(x).log_epistemic[chosen["row"]].tolist()


@pytest.mark.parametrize("kind", ["polars", "arrow"])
def test_an_evaluation_is_a_table_with_one_row_per_method(kind, model, blobs):
    pytest.importorskip(PACKAGES[kind])
    x, y = blobs
    labels = np.array(["a", "b", "c"])[y[1::2]]
    evaluation = nuq.evaluate(model, x[1::2], labels, ood={"far": x[:50] + 9}, resamples=20)
    table = columns_of(getattr(evaluation, f"to_{kind}")())
    assert table["method"] == [method.name for method in evaluation.methods]
    assert table["far ROC-AUC"] == [method.roc_auc["far"].value for method in evaluation.methods]
    assert list(table) == ["method", "test RCC-AUC", "far ROC-AUC", "far AUPR", "far FPR95", "mean ROC-AUC"]


def test_an_unknown_output_is_an_error(model, blobs):
    for call in (model.kneighbors, model.suggest):
        with pytest.raises(ParameterTypeError, match="output=3"):
            call(blobs[0], output=3)


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_missing_package_is_an_error(kind, model, blobs, monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGES[kind], None)
    with pytest.raises(MissingPackageError, match=rf"pip install \"nuq\[{kind}\]\""):
        getattr(model.predict_uncertainty(blobs[0]), f"to_{kind}")()


class Page(html.parser.HTMLParser):
    """Parses HTML into tags and text. Unclosed elements and references to other files are errors."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(source)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        assert tag not in ("script", "link", "img", "iframe") and not {"src", "href", "onclick"} & {name for name, _ in attributes}
        self.tags.append(tag)
        if tag != "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] != "style":
            self.text.append(data)


HOSTILE = '<script>alert("&")</script>'


def test_html_of_uncertainties_escapes_labels_and_index(blobs):
    pandas = pytest.importorskip("pandas")
    x, y = blobs
    model = NuqClassifier().fit(x, np.array([HOSTILE, "b", "c"])[y])
    frame = pandas.DataFrame(x, index=[f"<b>{i}" for i in range(300)])
    page = Page(model.predict_uncertainty(frame)._repr_html_())
    assert HOSTILE in page.text and "<b>7" in page.text and "<b>8" not in page.text
    assert "292 more rows" in page.text and "svg" in page.tags and page.tags.count("rect") > 5


def test_html_of_empty_equal_and_infinite_values_is_valid():
    Page(Uncertainty({"label": np.array([], dtype=str), "log_epistemic": np.array([])})._repr_html_())
    same = Page(Uncertainty({"log_epistemic": np.array([1.0, 1.0, 1.0])})._repr_html_())
    assert "log_epistemic: all values are 1.000" in same.text
    # Both percentiles of the histogram are 1, but not all values.
    for other in (5.0, np.inf):
        most = Page(Uncertainty({"log_epistemic": np.array([1.0] * 999 + [other])})._repr_html_())
        assert "log_epistemic: 999 of 1,000 values are 1.000" in most.text
    infinite = Page(Uncertainty({"log_epistemic": np.array([np.inf, 1.0, 2.0, -np.inf])})._repr_html_())
    assert "inf" in infinite.text and "svg" in infinite.tags


def test_histogram_counts_every_finite_row(fitted, blobs):
    values = fitted.predict_uncertainty(blobs[0]).log_epistemic
    heights = [float(height) for height in re.findall(r'height="([\d.]+)"/>', nuq._html.histogram(values, "x"))]
    low, high = np.percentile(values, [0.5, 99.5])
    counts, _ = np.histogram(np.clip(values, low, high), 40, (low, high))
    np.testing.assert_allclose(heights, 56 * counts[counts > 0] / counts.max(), atol=0.051)


def test_html_of_models_shows_their_parameters_and_thresholds(model, blobs):
    x, y = blobs
    before = Page(NuqClassifier(n_neighbors=7)._repr_html_())
    assert "not fitted" in before.text and "7" in before.text
    page = Page(model._repr_html_())
    assert "fitted" in page.text and "150 rows × 5 columns, 3 classes" in page.text
    assert model.thresholds_["guard"].statement[:100] in "".join(page.text) and "sets" in page.text
    hostile = NuqClassifier().fit(x[::2], y[::2])
    hostile.calibrate(x[1::2], coverage=0.5, name=HOSTILE)
    assert HOSTILE in Page(hostile._repr_html_()).text
    assert HOSTILE in "".join(Page(hostile.thresholds_._repr_html_()).text)


def test_html_of_other_estimators_contains_their_name(blobs):
    x, _ = blobs
    for estimator in (NuqRegressor().fit(x, x[:, 0]), NuqOutlierDetector().fit(x), KnnDistance().fit(x), Energy(), Huq(), NuqOutlierDetector()):
        page = Page(estimator._repr_html_())
        assert type(estimator).__name__ in page.text


def test_html_of_a_pipeline_of_scikit_learn_contains_the_estimator(blobs):
    pipeline = pytest.importorskip("sklearn.pipeline")
    from sklearn.preprocessing import StandardScaler

    source = pipeline.make_pipeline(StandardScaler(), NuqClassifier(n_neighbors=7)).fit(*blobs)._repr_html_()
    assert "NuqClassifier" in source and "n_neighbors=7" in source.replace("&#x27;", "'")

"""A fitted model reads its own copy of the training rows. With ``copy=False`` it reads the array of the caller."""

from __future__ import annotations

import numpy as np
import pytest

from nuq import NuqClassifier, NuqRegressor, _nuq
from nuq.baselines import KnnDistance, LocalOutlierFactor, NnGuide


def unaligned(array):
    """The same values at an odd address."""
    buffer = b"\0" + np.ascontiguousarray(array).tobytes()
    view = np.frombuffer(buffer, dtype=array.dtype, offset=1).reshape(array.shape)
    assert not view.flags.aligned
    return view


@pytest.mark.parametrize("index", ["exact", "hnsw"])
@pytest.mark.parametrize("estimator", [NuqClassifier, NuqRegressor])
def test_changes_of_the_array_after_fit_have_no_effect(blobs, estimator, index):
    x, y = blobs[0].copy(), blobs[1]
    queries = x[::3].copy()
    model = estimator(index=index).fit(x, y)
    before = model.predict_uncertainty(queries)
    x[:] = 0
    after = model.predict_uncertainty(queries)
    for name in before:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)


def test_changes_of_the_array_after_partial_fit_have_no_effect(blobs):
    x, y = blobs[0].copy(), blobs[1]
    model = NuqClassifier().fit(x[:200].copy(), y[:200])
    more = x[200:].copy()
    model.partial_fit(more, y[200:])
    before = model.predict_proba(x)
    more[:] = 0
    np.testing.assert_array_equal(model.predict_proba(x), before)


@pytest.mark.parametrize("scorer", [KnnDistance(), LocalOutlierFactor(), NnGuide()], ids=lambda s: type(s).__name__)
def test_changes_of_the_array_after_fitting_a_baseline_have_no_effect(blobs, scorer):
    x, logits = blobs[0].copy(), blobs[0][:, :3].copy()
    queries, query_logits = x[::3].copy(), logits[::3].copy()
    scorer.fit(x, logits) if isinstance(scorer, NnGuide) else scorer.fit(x)
    before = scorer.score(queries, query_logits)
    x[:] = 0
    np.testing.assert_array_equal(scorer.score(queries, query_logits), before)


@pytest.mark.parametrize("estimator", [NuqClassifier, NuqRegressor])
def test_copy_false_reads_the_array_of_the_caller(blobs, estimator):
    x, y = blobs[0].copy(), blobs[1]
    model = estimator(bandwidth=0.5, index="exact", copy=False).fit(x, y)
    before, _ = model.kneighbors(x[:1], 1)
    # Callers must not change the array. This test changes the array to show that model and caller use the same memory.
    x[0] += 100
    after, _ = model.kneighbors(x[:1] - 100, 1)
    assert before[0, 0] == 0 and after[0, 0] > 0


def test_the_parameter_copy_does_not_change_the_results(blobs):
    x, y = blobs
    copied, borrowed = (NuqClassifier(copy=copy).fit(x, y).predict_uncertainty(x) for copy in (True, False))
    for name in copied:
        np.testing.assert_array_equal(copied[name], borrowed[name])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("copy", [True, False])
def test_unaligned_rows_give_the_same_results(blobs, dtype, copy):
    x, y = blobs[0].astype(dtype), blobs[1]
    expected = NuqClassifier().fit(x, y)
    model = NuqClassifier(copy=copy).fit(unaligned(x), unaligned(y))
    np.testing.assert_array_equal(model.predict_proba(unaligned(x)), expected.predict_proba(x))
    for fitted in (model.partial_fit(unaligned(x[:9]), unaligned(y[:9])), expected.partial_fit(x[:9], y[:9])):
        assert fitted.n_samples_fit_ == 309
    np.testing.assert_array_equal(model.predict_proba(unaligned(x)), expected.predict_proba(x))


def test_the_extension_copies_unaligned_rows(blobs):
    """The extension itself is safe: it does not rely on the checks in the Python modules."""
    x, y = blobs
    params = NuqClassifier(copy=False)._extension_params()
    expected = _nuq.Classifier.fit(params, x, [0, 1, 2], y, None, None, None, None)
    model = _nuq.Classifier.fit(params, unaligned(x), [0, 1, 2], y, None, None, None, None)
    np.testing.assert_equal(model.predict_proba(unaligned(x), None, None), expected.predict_proba(x, None, None))
    np.testing.assert_equal(model.predict(unaligned(x), None, None, None), expected.predict(x, None, None, None))
    model.insert(unaligned(x[:9]), [0, 1, 2], y[:9], None, None)
    expected.insert(x[:9], [0, 1, 2], y[:9], None, None)
    np.testing.assert_equal(model.kneighbors(unaligned(x), 3, None), expected.kneighbors(x, 3, None))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: _nuq.roc_auc(unaligned(x[:, 0].astype(float)), x[:, 1].astype(float)),
        lambda x, y: _nuq.conformal_p_values(unaligned(x[:, 0].astype(float)), x[:, 1].astype(float)),
        lambda x, y: _nuq.brier_score(unaligned(np.full((300, 3), 1 / 3)), y),
        lambda x, y: _nuq.temperature(x[:, :3], unaligned(y), None),
        lambda x, y: NuqClassifier().fit(x, y)._model.suggest(x, unaligned(x[:, 0].astype(float)), 3, None),
    ],
)
def test_the_extension_rejects_unaligned_columns(blobs, call):
    with pytest.raises((TypeError, ValueError)):
        call(*blobs)

"""Baselines compared with the results of published packages on the same arrays."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nuq
from nuq import baselines
from nuq.baselines import (
    Ddu,
    Duq,
    Energy,
    Ensemble,
    Entropy,
    Fdbd,
    Gen,
    Huq,
    KnnDistance,
    LocalOutlierFactor,
    Mahalanobis,
    Margin,
    MaxLogit,
    MaxProb,
    NnGuide,
    React,
    RelativeMahalanobis,
    Sngp,
    Vim,
)


@pytest.fixture(scope="module")
def peers(root):
    """Arrays, and the scores that the published packages (peers) compute from them."""
    stored = json.loads((root / "crates/nuq-eval/tests/data/peers/peers.json").read_text())
    columns = {"x": 10, "queries": 10, "logits": 4, "train_logits": 4, "weights": 10}
    arrays = {name: np.reshape(values, (-1, columns[name])) for name, values in stored["arrays"].items()}
    # The stored scores of ViM, fDBD and ReAct were computed with the weights and the bias of a linear layer. nuq estimates both from the
    # logits of the layer for the training rows.
    arrays["head_logits"] = arrays["x"] @ arrays["weights"].T + stored["bias"]
    arrays["members"] = [np.reshape(member, (-1, 4)) for member in stored["members"]]
    return {**stored, **arrays, "labels": np.array(stored["labels"])}


#: Scorer, factor and constant: the score of nuq is factor × score of the other package + constant.
FROM_LOGITS = {
    "MaxProb": (MaxProb(), 1, 1),
    "Entropy": (Entropy(), 1, 0),
    "MaxLogit": (MaxLogit(), 1, 0),
    "Energy": (Energy(), 1, 0),
    "Energy, T = 2.5": (Energy(2.5), 1, 0),
    "GEN": (Gen(), 4, 0),
    "GEN, M = 2": (Gen(0.3, 2), 2, 0),
}


@pytest.mark.parametrize("name", FROM_LOGITS)
def test_scores_of_logits_equal_those_of_published_packages(peers, name):
    scorer, factor, constant = FROM_LOGITS[name]
    theirs = np.array(peers["float32"][name]) * factor + constant
    np.testing.assert_allclose(scorer.score(logits=peers["logits"]), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name, scorer",
    [("kNN distance", KnnDistance(7)), ("kNN distance, L2", KnnDistance(7, normalize=True))],
)
def test_neighbor_distances_equal_those_of_published_packages(peers, name, scorer):
    scores = scorer.fit(peers["x"]).score(peers["queries"])
    np.testing.assert_allclose(scores, peers["float32"][name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name, scorer",
    [("LOF", LocalOutlierFactor(7)), ("mean kNN distance", KnnDistance(7, "mean")), ("Mahalanobis, Ledoit-Wolf", Mahalanobis())],
)
def test_scores_of_embeddings_equal_those_of_published_packages(peers, name, scorer):
    scores = scorer.fit(peers["x"], peers["labels"]).score(peers["queries"])
    np.testing.assert_allclose(scores, peers["float64"][name], rtol=1e-9, atol=1e-9)


def test_relative_mahalanobis_scores_equal_scaled_scores_of_pytorch_ood(peers):
    scores = RelativeMahalanobis(shrinkage=0).fit(peers["x"], peers["labels"]).score(peers["queries"])
    # The covariances of pytorch-ood are sums over the 150 training rows instead of means. Its squared distances are therefore 150 times
    # smaller.
    np.testing.assert_allclose(scores, 150 * np.array(peers["float32"]["relative Mahalanobis"]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reduction", ["entropy", "mean_entropy", "mutual_information"])
def test_ensemble_scores_equal_those_of_published_packages(peers, reduction):
    scores = Ensemble(reduction).score(members=peers["members"])
    theirs = peers["float64"]["ensemble " + reduction.replace("_", " ")]
    np.testing.assert_allclose(scores, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name, scorer", [("ViM", Vim(4)), ("fDBD", Fdbd()), ("ReAct", React(0.9))])
def test_scores_of_embeddings_and_logits_equal_those_of_published_packages(peers, name, scorer):
    scorer.fit(peers["x"], peers["head_logits"])
    scores = scorer.score(peers["queries"], peers["logits"])
    np.testing.assert_allclose(scores, peers["float32"][name], rtol=1e-4, atol=1e-4)


def test_nnguide_scores_equal_those_of_published_packages(peers):
    scores = NnGuide(7).fit(peers["x"], peers["train_logits"]).score(peers["queries"], peers["logits"])
    np.testing.assert_allclose(scores, peers["float32"]["NNGuide"], rtol=1e-5, atol=1e-5)


def test_ddu_scores_distant_rows_higher_and_margin_scores_ties_highest(peers):
    density = Ddu().fit(peers["x"], peers["labels"])
    assert (density.score(peers["x"] + 100) > density.score(peers["x"])).all()
    two = Margin().score(logits=[[0.0, 0.0], [50.0, 0.0]])
    np.testing.assert_allclose(two, [1.0, 0.0], atol=1e-9)


@pytest.mark.parametrize("scorer", [Sngp(features=64), Sngp(64, reduction="dempster_shafer"), Duq(16, steps=50)])
def test_sngp_and_duq_score_distant_rows_higher_and_fits_are_reproducible(blobs, scorer):
    x, y = blobs
    assert scorer.fit(x, y.astype(str)) is scorer
    near, far = scorer.score(x), scorer.score(x + 100)
    assert near.shape == (300,) and np.median(far) > np.median(near)
    np.testing.assert_array_equal(scorer.fit(x, y.astype(str)).score(x), near)


def test_huq_scores_equal_values_computed_by_hand():
    # The rank of a value in a set of reference rows is the number of smaller values in the set, divided by the number of all reference rows, 5.
    huq = Huq(alpha=0.25, epistemic_quantile=0.5, aleatoric_quantile=0.5)
    huq.fit(aleatoric=[1.0, 2.0, 3.0, 4.0, 5.0], epistemic=[50.0, 10.0, 20.0, 30.0, 40.0])
    # The medians are the limits. A row is in-distribution if its epistemic uncertainty is at most 30; the aleatoric uncertainties of the
    # in-distribution reference rows are 2, 3 and 4. A row is ambiguous if its aleatoric uncertainty is above 3.
    scores = {
        # In-distribution, not ambiguous: the rank of the aleatoric uncertainty among the in-distribution rows, of which only 2 is smaller.
        (2.5, 15.0): 0.2,
        (3.0, 15.0): 0.2,
        # In-distribution and ambiguous: the rank of the aleatoric uncertainty among all rows, of which 1, 2, 3 and 4 are smaller.
        (4.5, 30.0): 0.8,
        # Not in-distribution: three quarters of the rank 0.6 of the epistemic uncertainty (10, 20 and 30 are smaller), plus one quarter
        # of the rank 0.4 of the aleatoric uncertainty (1 and 2 are smaller).
        (2.5, 35.0): 0.55,
    }
    aleatoric, epistemic = zip(*scores)
    np.testing.assert_allclose(huq.score(aleatoric, epistemic), list(scores.values()))


def test_the_temperature_of_scaled_logits_is_their_scale():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20_000, 3))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    classes = (p.cumsum(axis=1) < rng.random((20_000, 1))).sum(axis=1)
    assert baselines.temperature(3 * logits, classes) == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: KnnDistance().score(x),
        lambda x: MaxProb().score(x),
        lambda x: Mahalanobis().fit(x),
        lambda x: Mahalanobis(shrinkage="much").fit(x, np.arange(len(x))),
        lambda x: KnnDistance(reduction="min"),
        lambda x: KnnDistance(n_neighbors=0).fit(x),
        lambda x: KnnDistance().fit(x).score(x[:, :3]),
        lambda x: Sngp().fit(x, np.zeros(len(x), int)),
        lambda x: Sngp(features=0).fit(x, np.arange(len(x))),
        lambda x: Sngp(reduction="entropy").fit(x, np.arange(len(x))),
        lambda x: Duq(steps="many").fit(x, np.arange(len(x))),
        lambda x: Duq().fit(x, [0]),
        lambda x: Duq().score(x),
        lambda x: Huq(alpha=2.0).fit([1.0], [1.0]),
        lambda x: Huq().fit([1.0, 2.0], [1.0]),
        lambda x: Huq().score([1.0], [1.0]),
        lambda x: Energy(0.0),
        lambda x: Energy("hot"),
        lambda x: Gen(top=-1),
        lambda x: Ensemble("median"),
        lambda x: Ensemble().score(members=[]),
        lambda x: Vim().fit(x, x[:, :1] ** 2),
        lambda x: Vim(principal=0).fit(x, x[:, :3]),
        lambda x: React("most").fit(x, x[:, :3]),
        lambda x: baselines.temperature(x, [0.5] * len(x)),
        lambda x: baselines.temperature(x, [0]),
    ],
)
def test_invalid_arguments_are_errors(peers, call):
    with pytest.raises(nuq.NuqError) as caught:
        call(peers["x"])
    assert isinstance(caught.value, ValueError)

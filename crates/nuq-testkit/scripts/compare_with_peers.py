"""Stores scores and metrics of published packages for crates/nuq-eval/tests/integration/peers.rs.

    pip install torch pytorch-ood scikit-learn
    python crates/nuq-testkit/scripts/compare_with_peers.py

All data are drawn from one seed. The last digits of float32 may differ between machines.
"""

import json
import platform
from pathlib import Path

import numpy as np
import pytorch_ood
import scipy
import sklearn
import torch
from pytorch_ood import detector
from pytorch_ood.metrics import OODMetrics, functional
from scipy.stats import entropy
from sklearn.covariance import LedoitWolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score, roc_curve
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

OUT = Path(__file__).resolve().parents[2] / "nuq-eval/tests/data/peers/peers.json"
# K is the number of neighbors, PRINCIPAL the dimension of the principal subspace of ViM.
ROWS, QUERIES, COLUMNS, CLASSES, K, PRINCIPAL = 150, 60, 10, 4, 7, 4


def make_data(rng):
    """Return labels, nonnegative activations, queries, and the weights and bias of a linear discriminant.

    One third of the queries are outliers.
    """
    centers = rng.normal(1.0, 1.0, (CLASSES, COLUMNS))
    labels = np.arange(ROWS) % CLASSES
    x = np.maximum(centers[labels] + 0.6 * rng.normal(size=(ROWS, COLUMNS)), 0)
    queries = np.maximum(centers[labels[:QUERIES]] + 0.6 * rng.normal(size=(QUERIES, COLUMNS)), 0)
    queries[2 * QUERIES // 3 :] = np.abs(rng.normal(0, 2.5, (QUERIES - 2 * QUERIES // 3, COLUMNS)))
    fitted = LinearDiscriminantAnalysis().fit(x, labels)
    # The weights are divided by ten, so that all probabilities are far from zero and one.
    arrays = [x, queries, 0.1 * fitted.coef_, 0.1 * fitted.intercept_]
    return labels, [torch.tensor(a, dtype=torch.float32) for a in arrays]


def torch_scores(x, labels, queries, w, b):
    """Return logits of queries and of training rows, and scores of every detector of pytorch-ood that needs only arrays."""
    head = torch.nn.Linear(COLUMNS, CLASSES)
    head.weight.data, head.bias.data = w, b
    y = torch.tensor(labels)
    with torch.no_grad():
        logits, train_logits = head(queries), head(x)
    of_logits = {
        "MaxProb": detector.MaxSoftmax.score(logits),
        "Entropy": detector.Entropy.score(logits),
        "MaxLogit": detector.MaxLogit.score(logits),
        "Energy": detector.EnergyBased.score(logits),
        "Energy, T = 2.5": detector.EnergyBased.score(logits, t=2.5),
        "GEN": detector.GEN.score(logits, gamma=0.1),
        "GEN, M = 2": detector.GEN.score(logits, gamma=0.3, M=2),
    }
    fitted = {
        "Mahalanobis": detector.Mahalanobis(None).fit_features(x, y),
        "relative Mahalanobis": detector.RMD(None).fit_features(x, y),
        "kNN distance, L2": detector.KNN(None, k=K).fit_features(x, y),
        "kNN distance": detector.KNN(None, k=K, normalize=False).fit_features(x, y),
        "ViM": detector.ViM(None, d=PRINCIPAL, w=w, b=b).fit_features(x, y),
        "fDBD": detector.fDBD(None, head).fit_features(x),
        "NNGuide": detector.NNGuide(None, head, k=K).fit_features(x, y),
    }
    react = detector.ReAct(torch.nn.Identity(), head).fit_feature_maps(x, y)
    scores = of_logits | {name: peer.predict_features(queries) for name, peer in fitted.items()}
    scores["ReAct"] = react.predict_feature_maps(queries)
    return logits, train_logits, {name: s.detach().double().tolist() for name, s in scores.items()}


def double_scores(x, labels, queries, members):
    """Return scores of scikit-learn and scipy in float64. `members` are the logits of the members of an ensemble."""
    x, queries = x.double().numpy(), queries.double().numpy()
    distances = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(x).kneighbors(queries)[0]
    within = np.concatenate([x[labels == c] - x[labels == c].mean(0) for c in range(CLASSES)])
    shrunk = LedoitWolf(assume_centered=True).fit(within)
    means = [x[labels == c].mean(0) for c in range(CLASSES)]
    nearest = np.min([shrunk.mahalanobis(queries - mean) for mean in means], axis=0)
    p = np.exp(members - members.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    total_entropy, mean_entropy = entropy(p.mean(0), axis=-1), entropy(p, axis=-1).mean(0)
    return {
        "LOF": -LocalOutlierFactor(K, novelty=True).fit(x).score_samples(queries),
        "mean kNN distance": distances.mean(1),
        "Mahalanobis, Ledoit-Wolf": nearest,
        "ensemble entropy": total_entropy,
        "ensemble mean entropy": mean_entropy,
        "ensemble mutual information": total_entropy - mean_entropy,
    }


def detection(rng, ties):
    """Return metrics of random scores. With ties, scores have few distinct values."""
    inliers, outliers = rng.normal(0, 1, 137), rng.normal(1, 1.3, 91)
    if ties:
        inliers, outliers = np.round(2 * inliers) / 2, np.round(2 * outliers) / 2
    scores, outlier = np.concatenate([inliers, outliers]), np.repeat([0, 1], [137, 91])
    fpr, tpr, _ = roc_curve(outlier, scores, drop_intermediate=False)
    # pytorch-ood marks outliers by negative labels.
    metrics = OODMetrics()
    metrics.update(torch.tensor(scores), torch.tensor(-outlier))
    correct = rng.uniform(size=137) < 1 / (1 + np.exp(inliers - 1))
    return {
        "inliers": inliers, "outliers": outliers, "errors": ~correct,
        "roc_auc": roc_auc_score(outlier, scores),
        "average_precision": average_precision_score(outlier, scores),
        "average_precision_of_inliers": average_precision_score(1 - outlier, -scores),
        "fpr": fpr, "tpr": tpr, "torch": metrics.compute(),
        "torch_fpr_at_80": functional.fpr_at_tpr(torch.tensor(scores), torch.tensor(-outlier), 0.8).item(),
        "torch_aurra": functional.aurra(torch.tensor(-inliers), torch.tensor(correct)),
    }  # fmt: skip


def probabilities(rng):
    """Return losses of random probabilities for three classes and for two classes."""
    p, truth = rng.dirichlet([1, 1, 1], 80), rng.integers(0, 3, 80)
    return {
        "p": p.ravel(), "truth": truth, "log_loss": log_loss(truth, p),
        "brier": ((p - np.eye(3)[truth]) ** 2).sum(1).mean(),
        "two_p": p[:, 0], "two_truth": truth == 0, "two_brier": brier_score_loss(truth == 0, p[:, 0]),
    }  # fmt: skip


def softmax_regression(rng):
    """Return the minimum of a ridge softmax regression on random Fourier features, with weights class by class."""
    x, y, ridge = rng.normal(size=(120, 4)), np.arange(120) % 3, 0.7
    x[:, 0] += y
    phi = np.sqrt(2 / 30) * np.cos(x @ rng.normal(size=(4, 30)) / 2 + rng.uniform(0, 2 * np.pi, 30))
    fitted = LogisticRegression(C=1 / ridge, fit_intercept=False, solver="newton-cg", tol=1e-12, max_iter=1000).fit(phi, y)
    loss = log_loss(y, fitted.predict_proba(phi), normalize=False) + ridge / 2 * (fitted.coef_**2).sum()
    return {"phi": phi.ravel(), "y": y, "ridge": ridge, "weights": fitted.coef_.ravel(), "loss": loss}


def main():
    rng = np.random.default_rng(20)
    labels, (x, queries, w, b) = make_data(rng)
    logits, train_logits, scores = torch_scores(x, labels, queries, w, b)
    members = (logits.double().numpy() + rng.normal(0, 0.5, (3, QUERIES, CLASSES))).astype(np.float32)
    arrays = {"x": x, "queries": queries, "weights": w, "logits": logits, "train_logits": train_logits}
    stored = {
        "versions": {p.__name__: p.__version__ for p in (torch, pytorch_ood, sklearn, scipy, np)}
        | {"python": platform.python_version()},
        "shape": {"columns": COLUMNS, "classes": CLASSES, "k": K, "principal": PRINCIPAL},
        "labels": labels, "bias": b, "members": members.reshape(3, -1).astype(float),
        "arrays": {name: a.double().numpy().ravel() for name, a in arrays.items()},
        "float32": scores,
        "float64": double_scores(x, labels, queries, members.astype(float)),
        "detection": {"untied": detection(rng, False), "tied": detection(rng, True)},
        "probabilities": probabilities(rng),
        "softmax_regression": softmax_regression(rng),
    }  # fmt: skip
    OUT.write_text(json.dumps(stored, default=lambda array: array.tolist()) + "\n")
    print(OUT, OUT.stat().st_size, stored["versions"])


if __name__ == "__main__":
    main()

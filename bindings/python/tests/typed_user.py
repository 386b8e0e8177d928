"""User code that `test_types.py` checks with strict mypy."""

from __future__ import annotations

import numpy as np

import nuq
from nuq import Evaluation, NuqClassifier, NuqRegressor, SetRule, Threshold, Uncertainty, baselines, metrics
from nuq.torch import Embedded, GuardedNetwork, embed, guard, load_guard


def classify(x: np.ndarray, y: list[str]) -> float:
    model: NuqClassifier = NuqClassifier(n_neighbors=5, bandwidth=0.3).fit(x, y)
    paper: NuqClassifier = NuqClassifier.paper(n_neighbors=3).set_params(kernel="student")
    result: Uncertainty = model.predict_uncertainty(x)
    total: np.ndarray = result.total
    guard: Threshold = model.calibrate(x, false_alarm=0.05, name="guard")
    accepted: np.ndarray = model.accept(x, guard) & model.accept(x, cost=0.1)
    rule: SetRule = model.calibrate(x, y, sets=0.9, by_class=True, logits=x)
    accepted &= model.predict_set(x, rule, guard, logits=x).any(axis=1)
    stored: dict[str, Threshold] = model.remove([0]).thresholds_
    evaluation: Evaluation = nuq.evaluate(model, x, y, ood={"far": x + 1})
    print(paper.get_params(), total, guard.statement, stored, evaluation["NUQ"].roc_auc["far"].low)
    return guard.value + float(accepted.mean())


def regress(x: np.ndarray) -> NuqClassifier | NuqRegressor | None:
    NuqRegressor().fit(x, x[:, 0]).partial_fit(x, x[:, 0]).save("model.nuq")
    model = nuq.load("model.nuq")
    return None if isinstance(model, baselines.Baseline) else model


def deploy(x: np.ndarray, y: list[str]) -> np.ndarray | None:
    baselines.Mahalanobis(shrinkage=0.1).fit(x, y).save("baseline.nuq")
    baseline = nuq.load("baseline.nuq")
    return baseline.score(x) if isinstance(baseline, baselines.Scorer) else None


def compare(x: np.ndarray) -> float | None:
    scores: np.ndarray = baselines.KnnDistance(5).fit(x).score(x)
    ratio: float | None = metrics.prediction_rejection_ratio(scores, scores > 1)
    interval: metrics.Interval = metrics.interval("roc_auc", scores, scores + 1)
    return ratio if ratio is not None else interval.low


def collect(model: object, loader: list[object]) -> Embedded:
    return embed(model, loader, "avgpool", pool="flatten")


def protect(network: object, batches: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    guarded: nuq.Guard = nuq.guard(embed=lambda x: (x, x), batches=batches, coverage=0.9, classes=["cat", "dog"])
    guarded.save("guard")
    answer: nuq.GuardedBatch = nuq.load_guard("guard", lambda x: x)(batches[0][0])
    module: GuardedNetwork = guard(network, batches, held_out=0.5)
    module.save("network", probe=False)
    statement: str = load_guard("network", network).threshold.statement
    accepted: np.ndarray = answer.accept
    return accepted & (answer.neighbors(3).distances[:, 0] < len(statement))

"""Coverage and size of prediction sets and intervals, compared with MAPIE on the same probabilities and the same rows.

    cargo xtask bench sets
"""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
from mapie.classification import SplitConformalClassifier
from mapie.regression import SplitConformalRegressor

from nuq import NuqClassifier, NuqRegressor

LEVELS = (0.9, 0.95, 0.99)


def classification() -> None:
    """The example embeddings: sets from the class probabilities of NUQ."""
    train, held_out, test = (np.load(f"examples/cifar10/{name}.npz") for name in ("train", "held_out", "test"))
    model = NuqClassifier().fit(train["embeddings"], train["labels"])
    truth = np.searchsorted(model.classes_, test["labels"])

    def line(name: str, score: str, sets: np.ndarray) -> None:
        covered, size = sets[np.arange(len(truth)), truth], sets.sum(axis=1)
        print(f"{level:8.0%}  {score:5}  {name:6}{covered.mean():9.3f}{size.mean():11.3f}{(size == 0).mean():8.3f}")

    print("CIFAR-10, 1000 held-out and 1000 test rows")
    print("  target  score  sets     covered  mean size   empty")
    for score in ("lac", "aps"):
        for level in LEVELS:
            rule = model.calibrate(held_out["embeddings"], held_out["labels"], sets=level, set_score=score)
            line("nuq", score, model.predict_set(test["embeddings"], rule))
            peer = SplitConformalClassifier(
                estimator=model, confidence_level=level, conformity_score=score, prefit=True, random_state=0
            )
            peer.conformalize(held_out["embeddings"], held_out["labels"])
            params = {"include_last_label": "randomized"} if score == "aps" else {}
            _, sets = peer.predict_set(test["embeddings"], conformity_score_params=params)
            line("MAPIE", score, sets[:, :, 0])


def regression() -> None:
    """Targets whose noise grows with x: the intervals of NUQ, and intervals of MAPIE around the means that NUQ predicts."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 4, size=(3000, 1))
    y = np.sin(3 * x[:, 0]) + rng.normal(size=3000) * (0.05 + 0.2 * x[:, 0])
    model = NuqRegressor().fit(x[:1000], y[:1000])
    left, right = x[2000:, 0] < 1, x[2000:, 0] >= 3

    def line(name: str, low: np.ndarray, high: np.ndarray) -> None:
        covered, width = (low <= y[2000:]) & (y[2000:] <= high), high - low
        values = [f(part) for part in (slice(None), left, right) for f in (lambda p: covered[p].mean(), lambda p: width[p].mean())]
        print(f"{level:8.0%}  {name:16}" + "".join(f"{value:9.3f}" for value in values))

    print("\nregression with noise of standard deviation 0.05 + 0.2 x, 1000 held-out and 1000 test rows")
    print(f"{'':26}{'all rows':>18}{'x < 1':>18}{'x >= 3':>18}")
    print(f"  target  {'intervals':16}" + 3 * f"{'covered':>9}{'width':>9}")
    for level in LEVELS:
        rule = model.calibrate(x[1000:2000], y[1000:2000], intervals=level)
        line("nuq", *model.predict_interval(x[2000:], rule).T)
        peer = SplitConformalRegressor(estimator=model, confidence_level=level, prefit=True)
        peer.conformalize(x[1000:2000], y[1000:2000])
        _, intervals = peer.predict_interval(x[2000:])
        line("MAPIE, absolute", intervals[:, 0, 0], intervals[:, 1, 0])


if __name__ == "__main__":
    print(f"peer: MAPIE {version('mapie')}")
    classification()
    regression()

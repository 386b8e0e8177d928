"""Draws the figures of the guide. Run `python docs/python/figures.py`. It requires matplotlib, and chromium for the pictures of notebooks."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from nuq import NuqClassifier, NuqRegressor, metrics, plot
from nuq.baselines import KnnDistance, MaxProb

ROOT = Path(__file__).resolve().parents[2]
FIGURES = Path(__file__).parent / "figures"
BLUE, ORANGE, GREEN, GRAY = "#3556a8", "#d9722e", "#3a8f5c", "#9aa0a6"

plt.rcParams.update(
    {
        "figure.dpi": 110,
        "figure.constrained_layout.use": True,
        "font.size": 10.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
    }
)


def cifar10(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(ROOT / "examples/cifar10" / f"{name}.npz"))


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(FIGURES / f"{name}.png", metadata={"Software": None})
    plt.close(figure)


def ood(model: NuqClassifier) -> None:
    guard = model.calibrate(cifar10("held_out")["embeddings"], false_alarm=0.05)
    sets = [("test", "CIFAR-10", BLUE), ("svhn", "house numbers", ORANGE), ("textures", "textures", GREEN)]
    scores = {name: model.predict_uncertainty(cifar10(name)["embeddings"]).log_epistemic for name, _, _ in sets}
    bins = np.linspace(*np.percentile(np.concatenate(list(scores.values())), [0.5, 99.5]), 45)
    figure, axes = plt.subplots(figsize=(7.2, 3.2))
    for name, label, color in sets:
        rejected = (scores[name] > guard.value).mean()
        text = f"{label} ({rejected:.0%} rejected)"
        axes.hist(scores[name], bins, density=True, histtype="stepfilled", alpha=0.35, color=color, label=text)
        axes.hist(scores[name], bins, density=True, histtype="step", color=color)
    axes.axvline(guard.value, color="black", linewidth=1, linestyle="--")
    axes.text(guard.value + 0.15, axes.get_ylim()[1] * 0.97, "threshold for 5 % false alarms", va="top", fontsize=9)
    axes.set(xlabel="log epistemic uncertainty", yticks=[])
    axes.spines["left"].set_visible(False)
    axes.legend(loc="center right")
    save(figure, "ood")


def abstaining(model: NuqClassifier) -> None:
    test = cifar10("test")
    result = model.predict_uncertainty(test["embeddings"])
    wrong = result.label != test["labels"]
    knn = KnnDistance().fit(cifar10("train")["embeddings"]).score(test["embeddings"])
    orders = [
        ("NUQ, total uncertainty", result.log_total, BLUE),
        ("largest softmax probability", MaxProb().score(logits=test["logits"]), ORANGE),
        ("distance to the 20th neighbor", knn, GREEN),
    ]
    figure, axes = plt.subplots(figsize=(6.6, 3.4))
    for label, uncertainty, color in orders:
        coverage, risk = metrics.risk_coverage_curve(uncertainty, wrong)
        axes.plot(100 * coverage, 100 * risk, color=color, label=f"{label} (area {metrics.rcc_auc(uncertainty, wrong):.4f})")
    axes.axhline(100 * wrong.mean(), color=GRAY, linewidth=1, linestyle=":", label="random order")
    axes.set(xlabel="% of rows accepted, most certain first", ylabel="% wrong among them", xlim=(0, 100), ylim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(0.02, 0.93), fontsize=9)
    save(figure, "abstaining")


def label_errors() -> None:
    train = cifar10("train")
    classes, truth = np.unique(train["labels"], return_inverse=True)
    rng = np.random.default_rng(0)
    wrong = rng.choice(len(truth), 40, replace=False)
    labels = truth.copy()
    labels[wrong] = (truth[wrong] + rng.integers(1, 10, 40)) % 10
    issues = NuqClassifier().fit(train["embeddings"], classes[labels]).label_issues()
    found = np.isin(issues.row, wrong).cumsum()
    inspected = np.arange(1, len(found) + 1)
    figure, axes = plt.subplots(figsize=(6.0, 3.2))
    axes.plot(inspected, np.minimum(inspected, 40), color=GRAY, linestyle=":", label="optimal order")
    axes.plot(inspected, found, color=BLUE, label="label_issues")
    axes.plot(inspected, 40 * inspected / len(labels), color=ORANGE, label="random order")
    axes.set(xlabel="inspected rows", ylabel="wrong labels found", xlim=(0, len(found)), ylim=(0, 42))
    axes.legend(loc="center right")
    save(figure, "label-errors")


def active_learning() -> None:
    train, test = cifar10("train"), cifar10("test")
    x, y = train["embeddings"].astype("float32"), train["labels"]

    def learn(seed: int, suggested: bool) -> list[float]:
        rng = np.random.default_rng(seed)
        rare = rng.choice(np.unique(y), 4, replace=False)
        common = np.flatnonzero(~np.isin(y, rare))
        labeled = rng.choice(common, 60, replace=False)
        unseen = np.concatenate([rng.choice(np.flatnonzero(y == name), 6, replace=False) for name in rare])
        pool = np.concatenate([np.setdiff1d(common, labeled), unseen])
        model = NuqClassifier(n_neighbors=10).fit(x[labeled], y[labeled])
        accuracy = [model.score(test["embeddings"], test["labels"])]
        for _ in range(8):
            chosen = model.suggest(x[pool], 5) if suggested else rng.choice(len(pool), 5, replace=False)
            model.partial_fit(x[pool[chosen]], y[pool[chosen]])
            pool = np.delete(pool, chosen)
            accuracy.append(model.score(test["embeddings"], test["labels"]))
        return accuracy

    figure, axes = plt.subplots(figsize=(6.0, 3.2))
    labels = np.arange(0, 45, 5)
    for text, suggested, color in (("suggested", True, BLUE), ("random", False, ORANGE)):
        runs = np.array([learn(seed, suggested) for seed in range(10)])
        axes.plot(labels, runs.mean(axis=0), color=color, marker="o", markersize=3.5, label=text)
        axes.fill_between(labels, runs.min(axis=0), runs.max(axis=0), color=color, alpha=0.18, linewidth=0)
    axes.set(xlabel="additional labels", ylabel="accuracy", ylim=(0.45, 1))
    axes.set_title("mean and range over ten choices of the four rare classes", fontsize=9.5, color="#555555")
    axes.legend(loc="upper right", bbox_to_anchor=(1, 0.88))
    save(figure, "active-learning")


def moons() -> tuple[np.ndarray, np.ndarray]:
    """Points of two half circles, and whether each point belongs to the upper one."""
    rng = np.random.default_rng(0)
    angle, upper = rng.uniform(0, np.pi, 500), np.arange(500) < 250
    x = np.where(upper[:, None], np.c_[np.cos(angle), np.sin(angle)], np.c_[1 - np.cos(angle), 0.5 - np.sin(angle)])
    return x + rng.normal(0, 0.1, x.shape), upper


def two_moons() -> None:
    x, upper = moons()
    model = NuqClassifier().fit(x, np.where(upper, "upper", "lower"))
    box, size = (-2, 3, -1.75, 2.25), (150, 120)
    grid = np.stack(np.meshgrid(np.linspace(*box[:2], size[0]), np.linspace(*box[2:], size[1])), axis=-1)
    result = model.predict_uncertainty(grid.reshape(-1, 2))
    figure, panels = plt.subplots(1, 4, figsize=(11, 2.25))
    for panel in panels:
        panel.set(xticks=[], yticks=[], xlim=box[:2], ylim=box[2:], aspect="equal")
    panels[0].scatter(*x.T, s=4, c=np.where(upper, BLUE, ORANGE))
    panels[0].set_title("training data")
    shown = (
        ("aleatoric", result.aleatoric, (0, 0.5)),
        ("log epistemic", result.log_epistemic, (-6, 20)),
        ("log total", result.log_total, (-6, 20)),
    )
    for panel, (title, values, (low, high)) in zip(panels[1:], shown):
        image = panel.imshow(
            values.reshape(grid.shape[:2]), extent=box, origin="lower", vmin=low, vmax=high, cmap="viridis", interpolation="bilinear"
        )
        panel.scatter(*x.T, s=0.6, c="white", alpha=0.5, linewidths=0)
        panel.set_title(title)
        figure.colorbar(image, ax=panel, shrink=0.75, extend="neither" if title == "aleatoric" else "both")
    save(figure, "two-moons")


def regression() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 1000)
    x = x[(x < 4) | (x > 6)]
    y = np.sin(x) + (0.05 + 0.05 * x) * rng.normal(size=len(x))
    model = NuqRegressor(n_neighbors=50).fit(x[:, None], y)
    grid = np.linspace(-0.6, 10.6, 600)
    result = model.predict_uncertainty(grid[:, None])
    # In the gap and outside of the data, the variances may be infinite. They are limited to a number that exceeds the limits of the axes.
    noise, error, total = (np.sqrt(np.minimum(variance, 1e6)) for variance in (result.aleatoric, result.epistemic, result.total))
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(7.2, 5.2), sharex=True, height_ratios=[3, 2])
    for panel in (upper, lower):
        panel.axvspan(4, 6, color="#f0f0f0", linewidth=0, zorder=0)
    for width, color, label in ((total, "#cdd8f0", "mean ± 2 √total"), (noise, "#f6d3b8", "mean ± 2 √aleatoric")):
        upper.fill_between(grid, result.mean - 2 * width, result.mean + 2 * width, color=color, linewidth=0, label=label)
    upper.scatter(x, y, s=4, color="#555555", alpha=0.5, linewidths=0, label="training data")
    upper.plot(grid, result.mean, color=BLUE, linewidth=1.6, label="mean")
    upper.plot(grid, np.sin(grid), color="black", linewidth=1, linestyle=":", label="true mean")
    upper.text(5, -2.8, "no training data", ha="center", fontsize=9, color="#555555")
    upper.set(ylim=(-3, 3), ylabel="target")
    upper.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=5, fontsize=8.5, columnspacing=1.4)
    lower.plot(grid, noise, color=ORANGE, label="√aleatoric")
    lower.plot(grid, error, color=BLUE, label="√epistemic")
    lower.plot(grid, 0.05 + 0.05 * np.clip(grid, 0, None), color="black", linewidth=1, linestyle=":", label="true noise")
    lower.set(yscale="log", ylim=(0.01, 100), xlim=(-0.6, 10.6), xlabel="x", ylabel="standard deviation")
    lower.legend(loc="upper left", bbox_to_anchor=(0.08, 1), fontsize=8.5)
    save(figure, "regression")


def plots(model: NuqClassifier) -> None:
    """The figures of the page about `nuq.plot`, with the same data as on the page."""
    held_out, test, svhn = (cifar10(name) for name in ("held_out", "test", "svhn"))
    reference, new, foreign = (model.predict_uncertainty(rows["embeddings"]) for rows in (held_out, test, svhn))
    guard = model.calibrate(held_out["embeddings"], false_alarm=0.05)

    figure, axes = plt.subplots(figsize=(7.2, 3.4))
    plot.histogram({"CIFAR-10": new, "house numbers": foreign}, reference, threshold=guard, ax=axes)
    save(figure, "plot-histogram")

    figure, axes = plt.subplots(figsize=(6.6, 3.4))
    scores = {"NUQ, total": new.log_total, "largest probability": MaxProb().score(logits=test["logits"])}
    plot.rejection_curve(scores, new.label != test["labels"], ax=axes)
    save(figure, "plot-rejection-curve")

    figure, axes = plt.subplots(figsize=(4.4, 4.4))
    plot.reliability(new.probability, new.label == test["labels"], ax=axes)
    save(figure, "plot-reliability")

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6))
    plot.map(model, np.concatenate([test["embeddings"], svhn["embeddings"]]), ax=left)
    x, upper = moons()
    plot.map(NuqClassifier().fit(x, np.where(upper, "upper", "lower")), ax=right)
    save(figure, "plot-map")

    figure, axes = plt.subplots(figsize=(7.2, 3.2))
    scores = np.concatenate([new.log_epistemic[:300], foreign.log_epistemic[:100]])
    plot.martingale(reference.log_epistemic, scores, alpha=0.01, ax=axes)
    save(figure, "plot-martingale")


def notebooks(model: NuqClassifier) -> None:
    """The HTML of a model and of a result, as chromium shows it."""
    model.calibrate(cifar10("held_out")["embeddings"], false_alarm=0.05, name="guard")
    picture(model._repr_html_(), "notebook-model", 345)
    picture(model.predict_uncertainty(cifar10("test")["embeddings"])._repr_html_(), "notebook-result", 392)


def picture(html: str, name: str, height: int) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        print(f"{name}.png was not drawn: install chromium")
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(f'<!doctype html><meta charset="utf-8"><body style="margin:12px">{html}', encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1.5"]
        target = f"--screenshot={FIGURES / f'{name}.png'}"
        subprocess.run([browser, *options, f"--window-size=860,{height}", target, page.as_uri()], check=True, capture_output=True)


def main() -> None:
    FIGURES.mkdir(exist_ok=True)
    train = cifar10("train")
    model = NuqClassifier().fit(train["embeddings"], train["labels"])
    ood(model)
    abstaining(model)
    label_errors()
    active_learning()
    two_moons()
    regression()
    plots(model)
    notebooks(model)


if __name__ == "__main__":
    main()

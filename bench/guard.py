"""Time that a guard adds to a forward pass of a ResNet-50, on the processor or on a GPU.

    cargo xtask bench guard

A guard is a module that returns the uncertainty together with the logits. The weights are random: times do not depend on them. The
training rows are clusters around the embeddings of random images.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
import torchvision

import nuq.torch
from nuq import Guard, NuqClassifier

CLASSES, WIDTH, PIXELS = 10, 2048, 224
ROWS = (10_000, 50_000)
BATCHES = (1, 8, 32)


def fitted(rows: int, typical: np.ndarray) -> NuqClassifier:
    """A model with the threshold "guard". Its rows are clusters at the place and with the spread of typical embeddings of the network."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, rows + 1000)
    centers = rng.normal(size=(CLASSES, 32))
    latent = centers[labels] + 0.7 * rng.normal(size=(rows + 1000, 32))
    shape = latent @ rng.normal(size=(32, WIDTH))
    embeddings = (typical.mean(axis=0) + typical.std(axis=0).mean() * shape / shape.std()).astype(np.float32)
    model = NuqClassifier().fit(embeddings[:rows], labels[:rows])
    model.calibrate(embeddings[rows:], false_alarm=0.05, name="guard", logits=rng.normal(size=(1000, CLASSES)))
    return model


def milliseconds(calls: list[Callable[[], object]], device: torch.device) -> list[float]:
    """Median time of each call, in milliseconds. The calls alternate, so other load on the machine affects all of them equally."""
    times: list[list[float]] = [[] for _ in calls]
    start = time.perf_counter()
    for turn in range(50):
        for call, measured in zip(calls, times):
            before = time.perf_counter()
            call()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            measured.append(time.perf_counter() - before)
        if turn >= 10 and time.perf_counter() - start > 20:
            break
    # The first turns warm up caches and allocators.
    return [1000 * statistics.median(measured[2:]) for measured in times]


def main(rows: list[int]) -> None:
    """Print one line per number of training rows and batch size."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    network = torchvision.models.resnet50(num_classes=CLASSES).eval().to(device)
    # A few small images are enough to find the layer. Models with more training rows replace the model of these images below.
    images, labels = torch.randn(120, 3, 32, 32), torch.arange(120) % CLASSES
    guarded = nuq.torch.guard(network, [(images[i : i + 20], labels[i : i + 20]) for i in range(0, 120, 20)])
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, {name}")
    print(f"ResNet-50, images of {PIXELS} × {PIXELS} pixels, embeddings: {guarded.layer}")
    print(f"{'training rows':>13}{'batch':>7}{'network ms':>12}{'guarded ms':>12}{'added ms':>10}{'added':>8}")
    with torch.inference_mode():
        typical = guarded(torch.randn(64, 3, PIXELS, PIXELS, device=device)).embeddings.cpu().numpy()
        for count in rows:
            guarded._guard = Guard(network, fitted(count, typical))
            for batch in BATCHES:
                x = torch.randn(batch, 3, PIXELS, PIXELS, device=device)
                plain, with_guard = milliseconds([lambda: network(x), lambda: guarded(x)], device)
                added = with_guard - plain
                print(f"{count:>13}{batch:>7}{plain:>12.1f}{with_guard:>12.1f}{added:>10.1f}{added / plain:>8.1%}", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or list(ROWS))

"""Time of fit and predict from Python and from Rust on data of the same kind, in alternating runs, and the cost of pickling.

    cargo xtask bench python
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import time

import numpy as np

from nuq import NuqClassifier

ROWS, DIM, CLASSES, QUERIES, RUNS = 50_000, 512, 10, 10_000, 5


def draw(rng: np.random.Generator, rows: int, centers: np.ndarray, map_: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The generator of `bench/src/data.rs`: clusters in 32 latent dimensions, mapped into `DIM`, with noise."""
    y = np.arange(rows) % CLASSES
    latent = centers[y] + 0.7 * rng.normal(size=(rows, 32))
    return (latent @ map_ + 0.3 * (rng.random((rows, DIM)) - 0.5)).astype(np.float32), y


def timed(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def main(binary: str) -> None:
    rng = np.random.default_rng(1)
    centers, map_ = rng.normal(size=(CLASSES, 32)), rng.normal(size=(32, DIM)) / 32**0.5
    x, y = draw(rng, ROWS, centers, map_)
    queries, _ = draw(rng, QUERIES, centers, map_)
    python, rust = [], []
    for _ in range(RUNS):
        fit, model = timed(lambda: NuqClassifier().fit(x, y))
        predict, _ = timed(lambda: model.predict_uncertainty(queries))
        python.append((fit, predict))
        words = [binary, "measure", *map(str, (ROWS, DIM, CLASSES, QUERIES))]
        printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
        rust.append((float(printed[0]), float(printed[1])))
    for place, name in enumerate(("fit", "predict")):
        in_python, in_rust = (min(run[place] for run in runs) for runs in (python, rust))
        print(f"{name}: Python {in_python:.3f} s, Rust {in_rust:.3f} s, ratio {in_python / in_rust:.3f} (best of {RUNS})")
    stored = pickle.dumps(model, protocol=pickle.HIGHEST_PROTOCOL)
    seconds, opened = min((timed(lambda: pickle.loads(stored)) for _ in range(RUNS)), key=lambda run: run[0])
    first, _ = timed(lambda: opened.predict(queries[:1]))
    print(f"pickle: {len(stored) / 1e6:.0f} MB, loaded in {seconds:.3f} s, first prediction {first:.3f} s")


if __name__ == "__main__":
    main(sys.argv[1])

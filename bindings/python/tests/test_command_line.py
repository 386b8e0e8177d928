"""Python and the command line give the same results, bit for bit, and the same model file, byte for byte."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor

#: Options of the command line, and the equivalent parameters of Python.
CHOICES = [
    ([], {}),
    (["--k", "7", "--kernel", "logistic"], {"n_neighbors": 7, "kernel": "logistic"}),
    (["--bandwidth", "0.8", "--density-bandwidth", "same"], {"bandwidth": 0.8, "density": "kde", "density_bandwidth": "same"}),
    (["--density", "gmm"], {"density": "gmm"}),
    (["--index", "hnsw"], {"index": "hnsw"}),
    (["--variance", "max", "--prior-weight", "0", "--normalize"], {"variance": "max", "prior_weight": 0, "normalize": True}),
    (["--bandwidth", "silverman", "--scale", "ambient"], {"bandwidth": "silverman", "scale": "ambient"}),
]


def run(binary: str, *arguments: object) -> None:
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def files(tmp_path: Path, blobs) -> dict[str, Path]:
    """Files with training rows (x), labels (y), targets of a regression (t) and queries (q)."""
    x, y = blobs
    queries = np.concatenate([x[::3] + np.float32(0.5), x[:5] * 40])
    paths = {name: tmp_path / f"{name}.npy" for name in ("x", "y", "t", "q")}
    for name, array in (("x", x), ("y", y), ("t", x[:, 0].astype(np.float64) ** 2), ("q", queries)):
        np.save(paths[name], array)
    return paths


@pytest.mark.parametrize("options, parameters", CHOICES, ids=[" ".join(options) or "defaults" for options, _ in CHOICES])
def test_classifiers_and_their_scores_are_equal(binary, tmp_path, files, options, parameters):
    run(binary, "fit", "--embeddings", files["x"], "--labels", files["y"], "--out", tmp_path / "cli.nuq", *options)
    run(binary, "score", "--model", tmp_path / "cli.nuq", "--embeddings", files["q"], "--out", tmp_path / "cli.npz")
    model = NuqClassifier(**parameters).fit(np.load(files["x"]), np.load(files["y"]))
    model.save(tmp_path / "python.nuq")
    assert (tmp_path / "python.nuq").read_bytes() == (tmp_path / "cli.nuq").read_bytes()

    result, scored = model.predict_uncertainty(np.load(files["q"])), np.load(tmp_path / "cli.npz")
    for name in set(scored) - {"row"}:
        np.testing.assert_array_equal(result[name], scored[name], err_msg=name)
    opened = nuq.load(tmp_path / "cli.nuq").predict_uncertainty(np.load(files["q"]))
    for name in result:
        np.testing.assert_array_equal(result[name], opened[name], err_msg=name)


def test_regressors_and_their_scores_are_equal(binary, tmp_path, files):
    run(binary, "fit", "--embeddings", files["x"], "--targets", files["t"], "--out", tmp_path / "cli.nuq")
    run(binary, "score", "--model", tmp_path / "cli.nuq", "--embeddings", files["q"], "--out", tmp_path / "cli.npz")
    model = NuqRegressor().fit(np.load(files["x"]), np.load(files["t"]))
    model.save(tmp_path / "python.nuq")
    assert (tmp_path / "python.nuq").read_bytes() == (tmp_path / "cli.nuq").read_bytes()
    result, scored = model.predict_uncertainty(np.load(files["q"])), np.load(tmp_path / "cli.npz")
    for name in set(scored) - {"row"}:
        np.testing.assert_array_equal(result[name], scored[name], err_msg=name)


def test_thresholds_and_the_files_that_contain_them_are_equal(binary, tmp_path, cifar10, root):
    data = root / "examples/cifar10"
    train, held_out = f"{data}/train.npz", f"{data}/held_out.npz"
    path = tmp_path / "cli.nuq"
    run(binary, "fit", "--embeddings", f"{train}:embeddings", "--labels", f"{train}:labels", "--out", path)
    target = ["--target", "false_alarm=0.05", "--name", "guard"]
    run(binary, "calibrate", "--model", path, "--embeddings", f"{held_out}:embeddings", *target)
    model = NuqClassifier().fit(cifar10["train"]["embeddings"], cifar10["train"]["labels"])
    model.calibrate(cifar10["held_out"]["embeddings"], false_alarm=0.05, name="guard")
    model.save(tmp_path / "python.nuq")
    assert (tmp_path / "python.nuq").read_bytes() == path.read_bytes()
    assert nuq.load(path).thresholds_ == model.thresholds_

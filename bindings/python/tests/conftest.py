"""Shared fixtures. The tests run against the installed package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]

# Some virtual machines announce the instructions of AMX and do not permit them: PyTorch would end the process in half precision.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels: three classes of 100 rows each, with five columns, float32 in C order."""
    rng = np.random.default_rng(7)
    centers = rng.normal(0, 3, (3, 5))
    y = np.repeat([0, 1, 2], 100)
    return (centers[y] + rng.normal(0, 1, (300, 5))).astype(np.float32), y


@pytest.fixture(scope="session")
def fitted(blobs):
    from nuq import NuqClassifier

    return NuqClassifier().fit(*blobs)


@pytest.fixture(scope="session")
def cifar10(root) -> dict[str, dict[str, np.ndarray]]:
    """The example embeddings of the repository."""
    names = ("train", "test", "held_out", "svhn", "textures")
    return {name: dict(np.load(root / "examples/cifar10" / f"{name}.npz")) for name in names}


@pytest.fixture(scope="session")
def binary() -> str:
    """Path of the command line program."""
    path = os.environ.get("NUQ_BINARY")
    if not path:
        pytest.skip("NUQ_BINARY is not set to the command line program")
    return path


@pytest.fixture(scope="session")
def python() -> str:
    return sys.executable

"""The device of the neighbor search."""

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqError, NuqRegressor


def test_the_model_is_the_same_on_every_device(blobs, tmp_path):
    x, y = blobs
    files = []
    for device in ("auto", "cpu"):
        model = NuqClassifier(device=device, index="exact").fit(x, y)
        path = tmp_path / f"{device}.nuq"
        model.save(path)
        files.append(path.read_bytes())
        assert isinstance(model.device_, str)
    assert files[0] == files[1]


def test_a_gpu_that_cannot_be_used_is_an_error_with_a_remedy(blobs, tmp_path):
    x, y = blobs
    path = tmp_path / "model.nuq"
    NuqClassifier().fit(x, y).save(path)
    for fit in (
        lambda: NuqClassifier(device="cuda:99").fit(x, y),
        lambda: NuqRegressor(device="cuda:99").fit(x, y.astype(np.float64)),
        lambda: nuq.load(path, device="cuda:99"),
    ):
        with pytest.raises(NuqError, match="driver|cuda:99|GPU"):
            fit()
    assert nuq.load(path, device="cpu").get_params()["device"] == "cpu"


def test_a_graph_is_not_searched_on_a_gpu(blobs):
    x, y = blobs
    with pytest.raises(NuqError, match="a graph is searched on the CPU"):
        NuqClassifier(index="hnsw", device="cuda").fit(x, y)

"""The device of the neighbor search, and arrays in the memory of a GPU.

Tests that need PyTorch or a GPU are skipped if it is missing.
"""

import copy
import pickle

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqError, NuqRegressor, baselines
from nuq.errors import InvalidInputError, InvalidParameterError, NotFiniteError


def test_models_of_the_default_device_and_of_the_cpu_have_equal_files(blobs, tmp_path):
    x, y = blobs
    files = []
    for device in ("auto", "cpu"):
        model = NuqClassifier(device=device, index="exact").fit(x, y)
        path = tmp_path / f"{device}.nuq"
        model.save(path)
        files.append(path.read_bytes())
        assert isinstance(model.device_, str)
    assert files[0] == files[1]


def test_a_gpu_that_cannot_be_used_is_an_error(blobs, tmp_path):
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


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_a_copy_is_opened_with_the_device_parameter_of_the_original(blobs, monkeypatch, device):
    x, y = blobs
    fitted = [NuqClassifier(device=device).fit(x, y), baselines.KnnDistance(device=device).fit(x)]
    load, devices = nuq._nuq.load, []
    monkeypatch.setattr(nuq._nuq, "load", lambda path, device, *threads: (devices.append(device), load(path, device, *threads))[1])
    for one in fitted:
        copy.copy(one)
        pickle.loads(pickle.dumps(one))
    assert devices == [device] * 4


def test_a_graph_is_not_searched_on_a_gpu(blobs):
    x, y = blobs
    with pytest.raises(NuqError, match="a graph is searched on the CPU"):
        NuqClassifier(index="hnsw", device="cuda").fit(x, y)


def test_baselines_and_evaluations_have_a_device(blobs, tmp_path):
    x, y = blobs
    for kind in (baselines.KnnDistance, baselines.LocalOutlierFactor):
        expected = kind(device="cpu").fit(x).score(x)
        np.testing.assert_array_equal(kind().fit(x).score(x), expected)
        assert kind(device="cpu").get_params()["device"] == "cpu"
        with pytest.raises(InvalidParameterError, match="device="):
            kind(device="gpu").fit(x)
        with pytest.raises(NuqError, match="driver|cuda:99|GPU"):
            kind(device="cuda:99").fit(x)
        path = tmp_path / "baseline.nuq"
        kind().fit(x).save(path)
        assert nuq.load(path, device="cpu").device == "cpu"
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(kind(device="cpu").fit(x))).score(x), expected)
    model = NuqClassifier().fit(x, y)
    with pytest.raises(NuqError, match="driver|cuda:99|GPU"):
        nuq.evaluate(model, x + 0.5, y, resamples=5, device="cuda:99")


class OnGpu:
    """An array of another library. By its own description, it is in the memory of a GPU."""

    def __init__(self, values):
        self.values = values

    def __dlpack_device__(self):
        # 2 is the code of CUDA, and 0 the number of the GPU.
        return 2, 0


class Cupy(OnGpu):
    """Similar to an array of CuPy: ``get`` copies it to the host, and an implicit conversion is an error."""

    def get(self):
        return self.values

    def __array__(self, *_):
        raise TypeError("implicit conversion is not permitted")

    def __dlpack__(self, **_):
        raise BufferError("there is no GPU")


class Numba:
    """Similar to an array of Numba: ``copy_to_host`` copies it to the host. Its address is not in the memory of a GPU."""

    def __init__(self, values):
        self.values = values
        self.__cuda_array_interface__ = {
            "data": (16, False),
            "shape": values.shape,
            "strides": None,
            "typestr": values.dtype.str,
            "version": 2,
        }

    def copy_to_host(self):
        return self.values


@pytest.mark.parametrize("kind", [Cupy, Numba])
@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_arrays_that_cannot_stay_on_a_gpu_are_copied_to_the_host(kind, device, blobs):
    x, y = blobs
    expected = NuqClassifier(device="cpu").fit(x, y)
    model = NuqClassifier(device=device).fit(kind(x), kind(y))
    np.testing.assert_array_equal(model.predict_proba(kind(x[:20])), expected.predict_proba(x[:20]))
    np.testing.assert_equal(model.kneighbors(kind(x[:20])), expected.kneighbors(x[:20]))


def test_an_array_that_cannot_be_copied_to_the_host_is_an_error(blobs):
    x, y = blobs
    with pytest.raises(InvalidInputError, match="OnGpu is in the memory of a GPU: copy it to the host"):
        NuqClassifier(device="cpu").fit(OnGpu(x), y)


def test_neighbors_and_uncertainties_can_be_tensors(blobs, fitted):
    torch = pytest.importorskip("torch")
    x, _ = blobs
    distances, ids = fitted.kneighbors(torch.from_numpy(x), output="torch")
    assert (distances.dtype, ids.dtype, distances.device.type) == (torch.float64, torch.int64, "cpu")
    np.testing.assert_equal((distances.numpy(), ids.numpy()), fitted.kneighbors(x))
    assert torch.equal(fitted.kneighbors(x, return_distance=False, output="torch"), ids)
    result = fitted.predict_uncertainty(x)
    tensors = result.to_torch()
    assert list(tensors) == [name for name, column in result.items() if column.dtype.kind in "biuf"]
    np.testing.assert_array_equal(tensors["total"].numpy(), result.total)
    with pytest.raises(InvalidParameterError, match="device='nowhere'"):
        result.to_torch("nowhere")


# -- on a GPU -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this test needs a GPU")
    return torch


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    centers = rng.normal(0, 2, (10, 32))
    y = rng.integers(0, 10, 20_000)
    x = (centers[y] + rng.normal(0, 1, (20_000, 32))).astype(np.float32)
    return x, y, (centers[rng.integers(0, 10, 3000)] + rng.normal(0, 1.5, (3000, 32))).astype(np.float32)


@pytest.mark.parametrize("params", [{"density": "kde"}, {}, {"normalize": True}, {"kernel": "logistic", "bandwidth": 1.0}])
def test_tensors_on_a_gpu_give_the_results_of_the_cpu(torch, data, params, tmp_path):
    x, y, queries = data
    expected = NuqClassifier(device="cpu", index="exact", **params).fit(x, y)
    rows, labels, on_gpu = torch.tensor(x).cuda(), torch.tensor(y).cuda(), torch.tensor(queries).cuda()
    for device in ("cuda", "auto", "cpu"):
        model = NuqClassifier(device=device, index="exact", **params).fit(rows, labels)
        if device == "cuda":
            assert model.device_.startswith("cuda:0")
        found, wanted = model.predict_uncertainty(on_gpu), expected.predict_uncertainty(queries)
        for name, column in wanted.items():
            np.testing.assert_array_equal(found[name], column, err_msg=f"{device}: {name}")
        np.testing.assert_array_equal(model.predict_proba(on_gpu), expected.predict_proba(queries))
        paths = tmp_path / "found.nuq", tmp_path / "wanted.nuq"
        for one, path in zip((model, expected), paths):
            one.save(path)
        # The files may differ in the order of the rows, which only searches on the CPU compute.
        opened = [nuq.load(path).predict_uncertainty(queries) for path in paths]
        for name, column in opened[1].items():
            np.testing.assert_array_equal(opened[0][name], column, err_msg=f"{device}: {name}")
        for one in (copy.deepcopy(model), model):
            assert one.predict_uncertainty(on_gpu[:10]).total.tolist() == wanted.total[:10].tolist()


def test_rows_stay_on_the_gpu(torch, data, monkeypatch):
    x, y, queries = data
    model = NuqClassifier(device="cuda", density="kde").fit(torch.tensor(x).cuda(), y)
    on_gpu = torch.tensor(queries).cuda()

    def unexpected(*_, **__):
        raise AssertionError("the tensor was copied to the host")

    expected = model.kneighbors(queries)
    for method in ("cpu", "numpy", "tolist", "__array__"):
        monkeypatch.setattr(torch.Tensor, method, unexpected)
    np.testing.assert_equal(model.kneighbors(on_gpu), expected)
    model.predict_uncertainty(on_gpu)


def test_a_numpy_array_of_rows_on_the_gpu_is_always_a_copy(torch, data):
    queries = data[2]
    rows = nuq._nuq.device_rows(torch.tensor(queries).cuda(), 0)
    for copied in (None, True):
        np.testing.assert_array_equal(rows.__array__(copy=copied), queries)
    with pytest.raises(ValueError, match="copy=False"):
        rows.__array__(copy=False)


def test_every_layout_and_type_of_a_tensor_gives_the_neighbors_of_the_cpu(torch, data):
    x, y, queries = data
    model = NuqClassifier(device="cuda", density="kde").fit(x, y)
    base = torch.tensor(queries).cuda()
    wide = torch.zeros(len(base), 64, device="cuda")
    wide[:, ::2] = base
    views = {
        "transposed": base.T.contiguous().T,
        "strided": wide[:, ::2],
        "every third row": base[::3],
        "reversed": base.flip(0),
        "offset": base[7:],
        "repeated": base[:1].expand(5, -1),
        "float64": base.double() + 1e-12,
        "float16": base.half(),
        "bfloat16": base.bfloat16(),
        "gradient": base.clone().requires_grad_(),
        "parameter": torch.nn.Parameter(base.clone()),
        "integers": base.round().int(),
    }
    for name, view in views.items():
        host = view.detach().cpu()
        host = (host.float() if host.dtype == torch.bfloat16 else host).numpy()
        np.testing.assert_equal(model.kneighbors(view), model.kneighbors(host), err_msg=name)
        # The bandwidths are given, because none can be estimated from rows that are all equal.
        params, labels = {"density": "kde", "bandwidth": 1.0, "density_bandwidth": 1.0}, np.arange(len(view)) % 2
        fitted = NuqClassifier(device="cuda", **params).fit(view, labels)
        on_cpu = NuqClassifier(device="cpu", **params).fit(host, labels)
        np.testing.assert_equal(fitted.kneighbors(host), on_cpu.kneighbors(host), err_msg=name)


def test_invalid_values_on_a_gpu_give_the_same_errors_as_on_the_cpu(torch, data):
    x, y, _ = data
    model = NuqClassifier(device="cuda", density="kde").fit(x, y)
    for value, dtype in ((np.nan, "float32"), (np.inf, "float16"), (1e300, "float64")):
        bad = x.astype(dtype)
        bad[1234, 5] = value
        for call in (model.predict, lambda rows: NuqClassifier(device="cuda").fit(rows, y)):
            messages = []
            for rows in (torch.tensor(bad).cuda(), bad):
                with pytest.raises(NotFiniteError, match="row 1234, column 5") as caught:
                    call(rows)
                messages.append(str(caught.value))
            assert messages[0] == messages[1]
    for shape in ((0, 32), (4, 0), (32,), (2, 3, 32)):
        with pytest.raises(NuqError):
            model.predict(torch.zeros(shape, device="cuda"))


def test_work_of_other_streams_is_finished_first(torch, data):
    x, y, queries = data
    model = NuqClassifier(device="cuda", density="kde").fit(x, y)
    expected = model.kneighbors(queries)
    host = torch.tensor(queries).pin_memory()
    busy = torch.randn(8192, 8192, device="cuda")
    torch.cuda.synchronize()
    for _ in range(5):
        with torch.cuda.stream(torch.cuda.Stream()):
            # The GPU writes the values only after about a second of other work.
            rows = torch.full((len(queries), 32), float("nan"), device="cuda")
            for _ in range(20):
                busy = busy @ busy * 1e-4
            rows.copy_(host, non_blocking=True)
            np.testing.assert_equal(model.kneighbors(rows), expected)
            # After the call, the tensor may be changed and freed.
            rows.fill_(float("nan"))
            del rows


def test_later_changes_of_a_tensor_do_not_change_the_model(torch, data):
    x, y, queries = data
    rows = torch.tensor(x).cuda()
    for copied in (True, False):
        model = NuqClassifier(device="cuda", density="kde", copy=copied).fit(rows, y)
        expected = model.kneighbors(queries)
        original = rows.clone()
        rows.zero_()
        np.testing.assert_equal(model.kneighbors(queries), expected)
        rows.copy_(original)


def test_updates_of_a_model_on_a_gpu_give_the_results_of_the_cpu(torch, data):
    x, y, queries = data
    on_gpu, rows = torch.tensor(queries).cuda(), torch.tensor(x).cuda()
    models = [
        NuqClassifier(device="cuda", density="kde").fit(rows, y),
        NuqClassifier(device="cpu", index="exact", density="kde").fit(x, y),
    ]
    for step in range(4):
        for model, given in zip(models, (on_gpu, queries)):
            model.remove(np.arange(step * 100, step * 100 + 50))
            model.partial_fit(given[step * 200 : step * 200 + 200], np.full(200, step))
        np.testing.assert_equal(models[0].kneighbors(on_gpu), models[1].kneighbors(queries))
        found, wanted = (model.predict_uncertainty(queries) for model in models)
        np.testing.assert_array_equal(found.total, wanted.total)


def test_results_can_be_tensors_on_the_gpu(torch, data):
    x, y, queries = data
    model = NuqClassifier(device="cuda").fit(x, y)
    on_gpu = torch.tensor(queries).cuda()
    distances, ids = model.kneighbors(on_gpu, output="torch")
    assert distances.is_cuda and ids.is_cuda
    np.testing.assert_equal((distances.cpu().numpy(), ids.cpu().numpy()), model.kneighbors(queries))
    total = model.predict_uncertainty(on_gpu).to_torch("cuda")["total"]
    assert total.is_cuda and total.dtype == torch.float64


def test_arrays_with_the_cuda_array_interface_are_accepted(torch, data):
    x, y, queries = data
    model = NuqClassifier(device="cuda", density="kde").fit(x, y)
    tensor = torch.tensor(queries).cuda()
    transposed = tensor.T.contiguous()
    torch.cuda.synchronize()

    class Interface:
        """An array with the interface of Numba and CuPy, version 2 or 3, that cannot be copied to the host."""

        def __init__(self, tensor, shape, strides, **entries):
            self.tensor = tensor
            data = tensor.data_ptr(), False
            self.__cuda_array_interface__ = {"data": data, "shape": tuple(shape), "strides": strides, "typestr": "<f4", **entries}

    expected = model.kneighbors(queries)
    # The interface does not permit the number 0 of the default stream, and uses 1 instead.
    stream = torch.cuda.current_stream().cuda_stream or 1
    for array in (
        Interface(tensor, tensor.shape, None, version=2),
        Interface(tensor, tensor.shape, (128, 4), version=3, stream=stream),
        Interface(transposed, tensor.shape, (4, 4 * len(queries)), version=3, stream=None),
    ):
        np.testing.assert_equal(model.kneighbors(array), expected)


def test_rows_may_be_on_another_gpu_than_the_model(torch, data):
    x, y, queries = data
    if torch.cuda.device_count() < 2:
        pytest.skip("this test needs two GPUs")
    model = NuqClassifier(device="cuda:1", density="kde").fit(torch.tensor(x).cuda(0), y)
    assert model.device_.startswith("cuda:1")
    np.testing.assert_equal(model.kneighbors(torch.tensor(queries).cuda(0)), model.kneighbors(queries))


def test_baselines_and_evaluations_of_tensors_on_a_gpu_give_the_results_of_the_cpu(torch, data):
    x, y, queries = data
    rows, on_gpu = torch.tensor(x).cuda(), torch.tensor(queries).cuda()
    for kind in (baselines.KnnDistance, baselines.LocalOutlierFactor, baselines.Mahalanobis):
        device = {} if kind is baselines.Mahalanobis else {"device": "cuda"}
        expected = kind(**({"device": "cpu"} if device else {})).fit(x, y).score(queries)
        np.testing.assert_array_equal(kind(**device).fit(rows, y).score(on_gpu), expected)
    model = NuqClassifier(device="cuda", index="exact").fit(rows, y)
    labels = model.predict(on_gpu)
    found = nuq.evaluate(model, on_gpu, labels, ood={"far": on_gpu * 3}, resamples=5, device="cuda")
    on_cpu = NuqClassifier(device="cpu", index="exact").fit(x, y)
    wanted = nuq.evaluate(on_cpu, queries, labels, ood={"far": queries * 3}, resamples=5, device="cpu")
    for one, other in zip(found.methods, wanted.methods):
        np.testing.assert_array_equal(one.scores["far"], other.scores["far"], err_msg=one.name)

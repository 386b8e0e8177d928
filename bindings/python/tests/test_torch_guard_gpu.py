"""Guarded PyTorch networks on a GPU: a call returns the output of the network with uncertainties and decisions (accept or reject).

The tests are skipped on machines without a GPU.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("PyTorch finds no GPU", allow_module_level=True)

from nuq import NuqClassifier
from nuq.torch import embed, guard, load_guard

nn = torch.nn
ROWS, COLUMNS, CLASSES = 600, 12, 4


def network(dtype=torch.float32):
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(COLUMNS, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, CLASSES))
    return layers.eval().to("cuda", dtype)


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, CLASSES, (ROWS,), generator=generator)
    return torch.randn(ROWS, COLUMNS, generator=generator) + 3 * torch.eye(COLUMNS)[labels], labels


def loader(data, dtype=torch.float32):
    inputs, labels = data
    return [(inputs[i : i + 100].to("cuda", dtype), labels[i : i + 100]) for i in range(0, ROWS, 100)]


def check(answer, inputs):
    """Check the answer to inputs like the training data: logits on the GPU, finite aleatoric uncertainty, labels that agree with the
    logits, most rows accepted."""
    assert answer.logits.device.type == "cuda" and answer.logits.shape == (len(inputs), CLASSES)
    assert len(answer.uncertainty.total) == len(inputs) and np.isfinite(answer.uncertainty.aleatoric).all()
    assert (np.asarray(answer.label.cpu()) == answer.logits.float().argmax(dim=1).cpu().numpy()).all()
    assert answer.accept.float().mean() > 0.7


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_answers_equal_those_of_a_classifier_on_the_same_embeddings(data, dtype):
    module, batches = network(dtype), loader(data, dtype)
    guarded = guard(module, batches)
    embedded = embed(module, batches, "3")
    training = guarded.training_rows
    held_out = np.setdiff1d(np.arange(ROWS), training)
    model = NuqClassifier().fit(embedded.embeddings[training], embedded.labels[training])
    model.calibrate(embedded.embeddings[held_out], embedded.labels[held_out], false_alarm=0.05, logits=embedded.logits[held_out])
    answer = guarded(batches[0][0])
    expected = model.predict_uncertainty(embedded.embeddings[:100], logits=embedded.logits[:100])
    for name in expected:
        np.testing.assert_array_equal(answer.uncertainty[name], expected[name])
    check(answer, batches[0][0])
    assert not guarded(batches[0][0] + 100).accept.any()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, contextlib.nullcontext])
def test_guards_use_the_precision_of_autocast(data, mode):
    batches = loader(data)
    with torch.autocast("cuda", dtype=torch.float16):
        guarded = guard(network(), batches)
        with mode():
            answer = guarded(batches[0][0])
    assert answer.logits.dtype == torch.float16
    check(answer, batches[0][0])


def test_compiled_networks_can_be_guarded(data):
    batches = loader(data)
    guarded = guard(torch.compile(network()), batches)
    with torch.inference_mode():
        check(guarded(batches[0][0]), batches[0][0])


def test_inputs_and_network_on_different_devices_raise_the_error_of_pytorch(data):
    guarded = guard(network(), loader(data))
    with pytest.raises(RuntimeError, match="same device"):
        guarded(data[0])


def test_a_guard_saved_on_a_gpu_can_be_loaded_on_a_gpu_and_on_a_cpu(data, tmp_path):
    batches = loader(data)
    guarded = guard(network(), batches)
    guarded.save(tmp_path / "guard")
    expected = guarded(batches[0][0])
    on_gpu = load_guard(tmp_path / "guard", network())(batches[0][0])
    for name in expected.uncertainty:
        np.testing.assert_array_equal(on_gpu.uncertainty[name], expected.uncertainty[name])
    on_cpu = load_guard(tmp_path / "guard", network().cpu())(batches[0][0].cpu())
    np.testing.assert_allclose(on_cpu.uncertainty.total, expected.uncertainty.total, rtol=1e-3)
    np.testing.assert_array_equal(on_cpu.label, expected.label.cpu())

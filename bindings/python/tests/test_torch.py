"""Embeddings of PyTorch models; skipped if PyTorch is not installed."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import nuq
from nuq.errors import InvalidInputError, InvalidParameterError
from nuq.torch import embed

nn = torch.nn


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))


def cnn():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


class Transformer(nn.Module):
    """A model with named inputs whose result is a mapping, as in the transformers library."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(11, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, input_ids, mask=None):
        hidden = self.encoder(self.embed(input_ids))
        return {"logits": self.head(hidden[:, 0]), "hidden": (hidden,)}


def loader(x, y=None, size=4):
    dataset = torch.utils.data.TensorDataset(x) if y is None else torch.utils.data.TensorDataset(x, y)
    return torch.utils.data.DataLoader(dataset, batch_size=size)


def test_a_layer_can_be_given_by_name_or_by_module():
    model, x, y = mlp(), torch.randn(10, 6), torch.arange(10) % 3
    embedded = embed(model, loader(x, y), "2")
    expected = model.eval()[:3](x).detach().numpy()
    np.testing.assert_allclose(embedded.embeddings, expected, rtol=1e-6)
    np.testing.assert_allclose(embedded.logits, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(embedded.labels, y)
    np.testing.assert_array_equal(embed(model, loader(x, y), model[2]).embeddings, embedded.embeddings)
    assert embedded.embeddings.dtype == np.float32 and embedded.embeddings.flags.c_contiguous
    nuq.NuqClassifier(n_neighbors=3).fit(embedded.embeddings, embedded.labels)


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_restored_and_the_hook_removed(training):
    model, x = mlp().train(training), torch.randn(5, 6)
    first, again = (embed(model, loader(x), "2").embeddings for _ in range(2))
    np.testing.assert_array_equal(first, again)  # without dropout
    assert model.training is training and not model[2]._forward_hooks

    def broken():
        yield x
        raise RuntimeError("loader failed")

    with pytest.raises(RuntimeError, match="failed"):
        embed(model, broken(), "2")
    assert model.training is training and not model[2]._forward_hooks


def test_modes_of_parts_are_restored():
    model = mlp().train()
    model[1].eval()  # a frozen layer
    embed(model, loader(torch.randn(5, 6)), "2")
    assert model.training and not model[1].training


def test_images_are_pooled_over_pixels():
    model, x = cnn(), torch.randn(6, 3, 8, 8)
    before = model.eval()[:3](x).detach()
    np.testing.assert_allclose(embed(model, loader(x), "2").embeddings, before.mean(dim=(2, 3)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(embed(model, loader(x), "2", pool="flatten").embeddings, before.flatten(1), rtol=1e-5, atol=1e-6)
    largest = embed(model, loader(x), "2", pool=lambda out: out.amax(dim=(2, 3)))
    np.testing.assert_allclose(largest.embeddings, before.amax(dim=(2, 3)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(embed(model, loader(x), "4").embeddings, before.mean(dim=(2, 3)), rtol=1e-5, atol=1e-6)
    assert embed(model, loader(x), "2").labels is None


@pytest.mark.parametrize("pool", ["mean", "first"])
def test_sequences_in_mappings_are_pooled_over_steps(pool):
    model, ids = Transformer(), torch.randint(0, 11, (7, 5))
    batches = [
        {"input_ids": ids[i : i + 3], "mask": torch.ones(len(ids[i : i + 3]), 5), "labels": torch.arange(7)[i : i + 3]}
        for i in range(0, 7, 3)
    ]
    embedded = embed(model, batches, "encoder", pool=pool)
    model.eval()
    hidden = model.encoder(model.embed(ids)).detach()
    expected = hidden.mean(dim=1) if pool == "mean" else hidden[:, 0]
    np.testing.assert_allclose(embedded.embeddings, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(embedded.labels, np.arange(7))
    assert embedded.logits.shape == (7, 3)
    assert "labels" in batches[0], "a batch was modified"


def test_bfloat16_and_lists_of_labels_are_accepted():
    model, x = mlp().bfloat16(), torch.randn(4, 6).bfloat16()
    embedded = embed(model, [(x, ["a", "b", "a", "b"])], "2")
    assert embedded.embeddings.dtype == np.float32
    assert embedded.labels.tolist() == ["a", "b", "a", "b"]


def test_invalid_arguments_are_errors():
    model, x = mlp(), torch.randn(4, 6)
    with pytest.raises(InvalidParameterError, match="layers are 0, 1, 2, 3"):
        embed(model, loader(x), "layer4")
    with pytest.raises(InvalidParameterError, match="is not a module of the model"):
        embed(model, loader(x), nn.Linear(6, 6))
    with pytest.raises(InvalidInputError, match="no batches"):
        embed(model, [], "2")
    with pytest.raises(InvalidParameterError, match="pool"):
        embed(Transformer(), [{"input_ids": torch.zeros(2, 3, dtype=torch.long)}], "encoder")
    with pytest.raises(InvalidParameterError, match="pool"):
        embed(cnn(), loader(torch.randn(2, 3, 8, 8)), "0", pool="max")
    with pytest.raises(InvalidInputError, match="batch 1 of loader has no labels, unlike batch 0"):
        embed(model, [(x, [0, 1, 0, 1]), x], "2")
    with pytest.raises(InvalidInputError, match="batch 0 of loader: 3 labels for 4 embeddings"):
        embed(model, [(x, [0, 1, 0])], "2")
    with pytest.raises(InvalidInputError, match="expected a matrix"):
        embed(model, loader(x), "2", pool=lambda values: values[0])


def test_progress_is_shown(capfd):
    embed(mlp(), loader(torch.randn(4, 6)), "2", progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "embedding" in err and "4 × 8" in err

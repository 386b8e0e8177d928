"""Tests of the export scripts with tiny models. Run `pytest lab/python`.

Without torch, all tests are skipped; without transformers, the tests of the text script.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")


def loader(n, seed):
    generator = torch.Generator().manual_seed(seed)
    images, labels = torch.rand(n, 3, 8, 8, generator=generator), torch.arange(n) % 3
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=4)


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 5, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(5, 3)
    )


def test_image_embeddings_reproduce_the_logits(tmp_path):
    import export_images

    model = network(0)
    export_images.export(model, loader(10, 1), loader(6, 2), {"noise": loader(5, 3)}, tmp_path)
    train, test, ood = (np.load(tmp_path / f"{name}.npz") for name in ["train", "test", "ood_noise"])
    assert train["embeddings"].shape == (10, 5) and ood["logits"].shape == (5, 3) and "labels" not in ood
    assert test["labels"].tolist() == [0, 1, 2, 0, 1, 2]
    weight, bias = (value.detach().numpy() for value in model[-1].parameters())
    np.testing.assert_allclose(test["embeddings"] @ weight.T + bias, test["logits"], rtol=1e-4, atol=1e-5)


def test_logits_of_ensemble_members_are_stacked(tmp_path):
    import export_images

    export_images.export_members([network(0), network(1)], loader(6, 2), {"noise": loader(5, 3)}, tmp_path)
    stacks = np.load(tmp_path / "ensemble_logits.npz")
    assert stacks["test"].shape == (2, 6, 3) and stacks["ood_noise"].shape == (2, 5, 3)
    assert not np.allclose(stacks["test"][0], stacks["test"][1])


def test_text_features_reproduce_the_logits_and_dropout_passes_differ(tmp_path):
    transformers = pytest.importorskip("transformers")
    import export_text

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=3
    )
    model = transformers.BertForSequenceClassification(config)

    def tokenize(texts):
        ids = torch.tensor([[1 + ord(letter) % 49 for letter in text.ljust(8)[:8]] for text in texts])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    texts = ["alarm", "weather", "remind me", "snooze", "forecast"]
    path = tmp_path / "tiny_0.1.npz"
    export_text.export(model, tokenize, (texts, [0, 1, 2, 0, 1]), (texts[:3], [0, 1, 2]), {"odd": ["??", "!"]}, path, passes=4)
    arrays = np.load(path)
    assert arrays["train_feat"].shape == (5, 16) and arrays["ood_odd_mc_logits"].shape == (4, 2, 3)
    weight, bias = (value.detach().numpy() for value in model.classifier.parameters())
    np.testing.assert_allclose(arrays["test_feat"] @ weight.T + bias, arrays["test_logits"], rtol=1e-4, atol=1e-5)
    passes = arrays["test_mc_logits"]
    assert passes.shape == (4, 3, 3) and not np.allclose(passes[0], passes[1])


def test_texts_and_labels_are_read_and_quotes_stay_in_the_text(tmp_path):
    pytest.importorskip("transformers")
    import export_text

    path = tmp_path / "table.tsv"
    path.write_text('set an "alarm"\t1\nweather\t0\n', encoding="utf-8")
    assert export_text.read(path) == (['set an "alarm"', "weather"], [1, 0])

"""Export features, labels and logits of a text classifier from transformers, in the layout that `lab run text --data DIR` reads.

    python export_text.py --model MODEL --train train.tsv --test test.tsv --ood trec=trec.tsv --out DIR/rostd_0.01.npz

Input files are tab-separated: text, class number (outlier files have texts only). The output file name consists of the name of the data set
and the fraction of the training data. Features are the inputs of the last linear layer.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import torch
from torch import nn


def last_linear(model):
    """Return the last linear layer, whose inputs are the features."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    if not layers:
        raise ValueError("the model has no linear layer; extract the features with your own code")
    return layers[-1]


@torch.no_grad()
def outputs(model, tokenize, texts, batch=64, device="cpu"):
    """Return features and logits of texts. `tokenize` converts a batch of texts to model arguments."""
    features, logits = [], []
    hook = last_linear(model).register_forward_pre_hook(lambda _, inputs: features.append(inputs[0].float().cpu()))
    try:
        for start in range(0, len(texts), batch):
            arguments = {name: value.to(device) for name, value in tokenize(texts[start : start + batch]).items()}
            logits.append(model(**arguments).logits.float().cpu())
    finally:
        hook.remove()
    return torch.cat(features).numpy(), torch.cat(logits).numpy()


def dropout_logits(model, tokenize, texts, passes=10, device="cpu"):
    """Return logits of several passes with dropout (passes × texts × classes)."""
    model.eval()
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.train()
    stack = np.stack([outputs(model, tokenize, texts, device=device)[1] for _ in range(passes)])
    model.eval()
    return stack


def export(model, tokenize, train, test, ood, path, passes=10, device="cpu"):
    """Write one npz file. `train` and `test` are pairs of texts and labels; `ood` maps names to texts."""
    model.eval().to(device)
    arrays = {}
    sets = {"train": train[0], "test": test[0], **{f"ood_{name}": texts for name, texts in ood.items()}}
    for name, texts in sets.items():
        features, logits = outputs(model, tokenize, texts, device=device)
        arrays |= {f"{name}_feat": features.astype("float32"), f"{name}_logits": logits.astype("float32")}
        if name != "train" and passes:
            arrays[f"{name}_mc_logits"] = dropout_logits(model, tokenize, texts, passes, device).astype("float32")
    arrays |= {"train_labels": np.asarray(train[1], "int64"), "test_labels": np.asarray(test[1], "int64")}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)


def read(path):
    """Read texts and, if present, labels."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row[0] for row in rows], [int(row[1]) for row in rows if len(row) > 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder written by save_pretrained, including the tokenizer")
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--ood", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--passes", type=int, default=10, help="number of MC dropout passes, 0 for none")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    tokenize = lambda texts: tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
    model = AutoModelForSequenceClassification.from_pretrained(args.model)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ood = {name: read(path)[0] for name, path in (pair.split("=", 1) for pair in args.ood)}
    export(model, tokenize, read(args.train), read(args.test), ood, args.out, args.passes, device)


if __name__ == "__main__":
    main()

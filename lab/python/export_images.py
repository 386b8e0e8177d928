"""Export embeddings, labels and logits of an image classifier from PyTorch, in the layout that `lab run embeddings --data DIR` reads.

    python export_images.py --model resnet18 --weights model.pt --classes 10 --train DIR --test DIR --ood svhn=DIR --out DIR

Image folders have one subfolder per class, as for torchvision.datasets.ImageFolder. For other models or loaders, call `export` from your own
program. Embeddings are the inputs of the last linear layer. `export_members` exports the logits of an ensemble.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn


def last_linear(model):
    """Return the last linear layer, whose inputs are the embeddings."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    if not layers:
        raise ValueError("the model has no linear layer; extract the embeddings with your own code")
    return layers[-1]


@torch.no_grad()
def outputs(model, loader, device="cpu"):
    """Return embeddings, labels and logits for all batches (images, labels) of a loader."""
    embeddings, labels, logits = [], [], []
    hook = last_linear(model).register_forward_pre_hook(lambda _, inputs: embeddings.append(inputs[0].flatten(1).float().cpu()))
    model.eval().to(device)
    try:
        for images, batch_labels in loader:
            logits.append(model(images.to(device)).float().cpu())
            labels.append(torch.as_tensor(batch_labels))
    finally:
        hook.remove()
    return torch.cat(embeddings).numpy(), torch.cat(labels).numpy(), torch.cat(logits).numpy()


def export(model, train, test, ood, folder, device="cpu"):
    """Write train.npz, test.npz and ood_NAME.npz. `ood` maps names to loaders; their labels are ignored."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, loader in {"train": train, "test": test, **{f"ood_{name}": loader for name, loader in ood.items()}}.items():
        embeddings, labels, logits = outputs(model, loader, device)
        arrays = {"embeddings": embeddings.astype("float32"), "logits": logits.astype("float32")}
        if not name.startswith("ood_"):
            arrays["labels"] = labels.astype("int64")
        np.savez_compressed(folder / f"{name}.npz", **arrays)


def export_members(models, test, ood, folder, device="cpu"):
    """Write ensemble_logits.npz: logits of several models (members × rows × classes) for the test set and each outlier set."""
    loaders = {"test": test, **{f"ood_{name}": loader for name, loader in ood.items()}}
    stacks = {name: np.stack([outputs(model, loader, device)[2] for model in models]) for name, loader in loaders.items()}
    np.savez_compressed(Path(folder) / "ensemble_logits.npz", **{name: stack.astype("float32") for name, stack in stacks.items()})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="model name in torchvision.models")
    parser.add_argument("--weights", required=True, help="state dictionary written by torch.save")
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--ood", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--size", type=int, default=224, help="input size of the model in pixels")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    import torchvision
    from torchvision import transforms

    transform = transforms.Compose([
        transforms.Resize((args.size, args.size)),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])
    loader = lambda path: torch.utils.data.DataLoader(torchvision.datasets.ImageFolder(path, transform), batch_size=128)
    model = torchvision.models.get_model(args.model, weights=None, num_classes=args.classes)
    model.load_state_dict(torch.load(args.weights, map_location="cpu", weights_only=True))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ood = dict(pair.split("=", 1) for pair in args.ood)
    export(model, loader(args.train), loader(args.test), {name: loader(path) for name, path in ood.items()}, args.out, device)


if __name__ == "__main__":
    main()

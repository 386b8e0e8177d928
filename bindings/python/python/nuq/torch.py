"""Embeddings, logits and labels out of any PyTorch model, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from . import _progress
from .errors import InvalidInputError, InvalidParameterError

__all__ = ["Embedded", "embed"]


class Embedded(NamedTuple):
    """Arrays with a row per input; ``labels`` is None where the loader gives none."""

    embeddings: np.ndarray
    logits: np.ndarray
    labels: np.ndarray | None


def embed(
    model: Any,
    loader: Iterable[Any],
    layer: Any,
    *,
    device: Any = None,
    pool: str | Callable[[Any], Any] = "auto",
    progress: bool = False,
) -> Embedded:
    """Runs ``model`` over ``loader`` and collects what ``layer``, a module or its name, puts out.

    Batches are ``(inputs, labels)``, ``inputs``, or mappings with the labels under "labels". ``pool`` turns outputs of more
    than two dimensions into one vector per input: "mean" over all but the first two (images: channels first), "flatten",
    "first" (of a sequence) or a function; "auto" is "mean" for images and asks you otherwise. The model's mode is restored.
    """
    import torch

    module = _module(model, layer)
    device = device or next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    waiting = _progress.Waiting("embedding") if progress else None
    caught: list[Any] = []
    handle = module.register_forward_hook(lambda _module, _inputs, output: caught.append(output))
    # Of each part by itself: some may be frozen.
    modes = [(part, part.training) for part in model.modules()]
    embeddings, logits, labels = [], [], []
    try:
        model.eval()
        with torch.no_grad():
            for batch in loader:
                inputs, truth = _split(batch)
                caught.clear()
                output = _call(model, _moved(inputs, device))
                if not caught:
                    raise InvalidParameterError(f"layer={layer!r} did not run: is it part of the model's forward pass?")
                embeddings.append(_pooled(_tensor(caught[-1]), pool).float().cpu().numpy())
                logits.append(_tensor(output).float().cpu().numpy())
                if truth is not None:
                    labels.append(np.asarray(truth.cpu() if hasattr(truth, "cpu") else truth))
                if waiting:
                    waiting.tick()
    finally:
        handle.remove()
        for part, was_training in modes:
            part.training = was_training
    if not embeddings:
        raise InvalidInputError("the loader gives no batch")
    found = Embedded(np.concatenate(embeddings), np.concatenate(logits), np.concatenate(labels) if labels else None)
    if waiting:
        waiting.done(f"{len(found.embeddings)} × {found.embeddings.shape[1]}")
    return found


def _module(model: Any, layer: Any) -> Any:
    if not isinstance(layer, str):
        return layer
    modules = dict(model.named_modules())
    if layer in modules and layer:
        return modules[layer]
    names = ", ".join(name for name in modules if name)
    raise InvalidParameterError(f"layer={layer!r}: the model has {names}")


def _split(batch: Any) -> tuple[Any, Any]:
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        inputs = dict(batch)
        return inputs, inputs.pop("labels", None)
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        return batch[0], batch[1]
    if isinstance(batch, (tuple, list)) and len(batch) == 1:
        return batch[0], None
    return batch, None


def _moved(inputs: Any, device: Any) -> Any:
    if isinstance(inputs, dict):
        return {name: _moved(value, device) for name, value in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return type(inputs)(_moved(value, device) for value in inputs)
    return inputs.to(device) if hasattr(inputs, "to") else inputs


def _call(model: Any, inputs: Any) -> Any:
    return model(**inputs) if isinstance(inputs, dict) else model(inputs)


def _tensor(output: Any) -> Any:
    """The tensor that an output is, or holds first."""
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, dict):
        output = next(iter(output.values()))
    while isinstance(output, (tuple, list)):
        output = output[0]
    return output


def _pooled(output: Any, pool: str | Callable[[Any], Any]) -> Any:
    if callable(pool):
        return pool(output)
    if output.dim() == 2:
        return output
    if pool == "auto" and output.dim() != 4:
        raise InvalidParameterError(
            f"the layer puts out the shape {tuple(output.shape)}: say how it becomes a vector per input, "
            'pool="mean", "flatten", "first" or a function'
        )
    if pool == "flatten":
        return output.flatten(1)
    if pool == "first":
        return output[:, 0]
    if pool in ("auto", "mean"):
        # Images have channels first and are pooled over what follows; sequences over their steps.
        return output.mean(dim=1) if output.dim() == 3 else output.flatten(2).mean(dim=2)
    raise InvalidParameterError(f'pool={pool!r}: it is "auto", "mean", "flatten", "first" or a function')

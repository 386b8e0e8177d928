"""Embeddings, logits and labels of a PyTorch model, collected in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from . import _progress
from .errors import InvalidInputError, InvalidParameterError, ParameterTypeError

__all__ = ["Embedded", "embed"]


#: Names of the ways to reduce outputs to one vector per input.
_POOLS = ("auto", "mean", "flatten", "first")


class Embedded(NamedTuple):
    """Arrays with one row per input. ``labels`` is None if the loader yields no labels."""

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
    """Run ``model`` over ``loader`` and collect the outputs of ``layer``, a module or its name.

    Batches are ``(inputs, labels)``, ``inputs``, or mappings with the labels under "labels". ``pool`` reduces outputs with more
    than two dimensions to one vector per input: "mean" (images with channels first: over the pixels; sequences: over the
    steps), "flatten", "first" (first step of a sequence) or a function. "auto" is "mean" for images and an error for other
    outputs. The training mode of the model is restored.
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise ParameterTypeError(f"model={model!r}: expected a torch.nn.Module")
    if not isinstance(loader, Iterable):
        raise ParameterTypeError(f"loader={loader!r}: expected an iterable of batches")
    if not callable(pool) and pool not in _POOLS:
        raise InvalidParameterError(f"pool={pool!r}: expected one of {', '.join(map(repr, _POOLS))}, or a function")
    module = _module(model, layer)
    if device is None:
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    else:
        try:
            device = torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise InvalidParameterError(f"device={device!r}: {error}") from None
    timer = _progress.Timer("embedding") if progress else None
    outputs: list[Any] = []
    handle = module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    # One mode per module, because some modules may be frozen.
    modes = [(module, module.training) for module in model.modules()]
    embeddings, logits, labels = [], [], []
    try:
        model.eval()
        with torch.no_grad():
            for batch in loader:
                inputs, truth = _split(batch)
                outputs.clear()
                output = _call(model, _moved(inputs, device))
                if not outputs:
                    raise InvalidParameterError(f"layer={layer!r} did not run: it must be part of the forward pass of the model")
                embeddings.append(_pooled(_tensor(outputs[-1]), pool).float().cpu().numpy())
                logits.append(_tensor(output).float().cpu().numpy())
                if truth is not None:
                    labels.append(np.asarray(truth.cpu() if hasattr(truth, "cpu") else truth))
                if timer:
                    timer.tick()
    finally:
        handle.remove()
        for module, training in modes:
            module.training = training
    if not embeddings:
        raise InvalidInputError("the loader yields no batches")
    embedded = Embedded(np.concatenate(embeddings), np.concatenate(logits), np.concatenate(labels) if labels else None)
    if timer:
        timer.done(f"{len(embedded.embeddings)} × {embedded.embeddings.shape[1]}")
    return embedded


def _module(model: Any, layer: Any) -> Any:
    if not isinstance(layer, str):
        if not hasattr(layer, "register_forward_hook"):
            raise ParameterTypeError(f"layer={layer!r}: expected a module of the model or its name")
        return layer
    modules = dict(model.named_modules())
    if layer in modules and layer:
        return modules[layer]
    names = ", ".join(name for name in modules if name)
    raise InvalidParameterError(f"layer={layer!r}: the names of layers are {names}")


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
    """The output itself, its logits, or its first tensor."""
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
            f"the output of the layer has shape {tuple(output.shape)}: choose how to reduce it to one vector per input with "
            'pool="mean", "flatten", "first" or a function'
        )
    if pool == "flatten":
        return output.flatten(1)
    if pool == "first":
        return output[:, 0]
    # Sequences are pooled over their steps, images (channels first) over their pixels.
    return output.mean(dim=1) if output.dim() == 3 else output.flatten(2).mean(dim=2)

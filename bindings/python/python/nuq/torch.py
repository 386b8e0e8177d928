"""PyTorch: embeddings, logits and labels of a network in one pass, and networks that return their uncertainty."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _package, _progress
from ._classifier import NuqClassifier
from ._guard_rows import Rows, check_part, concatenated, split_batch
from ._torch_batches import (
    arguments,
    attention_mask,
    checked_device,
    checked_network,
    checked_pool,
    evaluation_mode,
    first_tensor,
    module_and_name,
    moved,
    pooled,
)
from .errors import InvalidInputError, InvalidParameterError, ParameterTypeError

if TYPE_CHECKING:
    from ._guarded_network import GuardedNetwork, GuardedOutput

__all__ = ["Embedded", "GuardedNetwork", "GuardedOutput", "embed", "guard", "load_guard"]


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
    steps, without those that an ``attention_mask`` excludes), "flatten", "first" (first step of a sequence) or a function. "auto" is
    "mean" for images and an error for other outputs. The training mode of the model is restored.
    """
    _package.require("torch", "torch")
    checked_network(model, "model")
    if not isinstance(loader, Iterable):
        raise ParameterTypeError(f"loader={loader!r}: expected an iterable of batches")
    checked_pool(pool)
    module, _ = module_and_name(model, layer)
    device = checked_device(device, model)
    timer = _progress.Timer("embedding") if progress else None
    outputs: list[Any] = []
    handle = module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    parts: list[Rows] = []
    try:
        with evaluation_mode(model):
            for number, batch in enumerate(loader):
                inputs, truth = split_batch(batch)
                outputs.clear()
                args, kwargs = arguments(model, moved(inputs, device))
                output = model(*args, **kwargs)
                if not outputs:
                    raise InvalidParameterError(f"layer={layer!r} did not run: it must be part of the forward pass of the model")
                vectors = pooled(first_tensor(outputs[-1]), pool, attention_mask(args, kwargs))
                part = Rows(vectors.float().cpu().numpy(), first_tensor(output).float().cpu().numpy(), _labels(truth))
                check_part(part, parts[0] if parts else part, f"batch {number} of loader")
                parts.append(part)
                if timer:
                    timer.tick()
    finally:
        handle.remove()
    if not parts:
        raise InvalidInputError("the loader yields no batches")
    rows = concatenated(parts)
    assert rows.outputs is not None, "every part has the output of the network"
    embedded = Embedded(rows.embeddings, rows.outputs, rows.labels)
    if timer:
        timer.done(f"{len(embedded.embeddings)} × {embedded.embeddings.shape[1]}")
    return embedded


def _labels(truth: Any) -> np.ndarray | None:
    return None if truth is None else np.asarray(truth.cpu() if hasattr(truth, "cpu") else truth)


def guard(
    network: Any,
    loader: Iterable[Any],
    layer: Any = None,
    *,
    pool: str | Callable[[Any], Any] = "auto",
    logits: str | int | Callable[[Any], Any] | None = None,
    device: Any = None,
    held_out: Any = 0.2,
    coverage: float | None = None,
    risk: float | None = None,
    false_alarm: float | None = None,
    delta: float = 0.05,
    measure: str | None = None,
    predictor: str = "auto",
    classes: Any = None,
    output: str = "logits",
    model: NuqClassifier | None = None,
    random_state: int = 0,
    progress: bool = False,
) -> GuardedNetwork:
    """Guard a network. A classifier is fitted to the embeddings of a labeled loader, and a threshold is chosen on held-out rows. The result is
    a module that returns logits, label, uncertainty and decision for each batch.

    The loader is read once, in evaluation mode and without gradients; the modes of all modules are restored. Without ``layer``, the
    embeddings are the input of the linear layer (or 1 × 1 convolution) whose output is the logits. To find this layer, the network is run
    on a few inputs, and the outputs of its layers are compared with the logits. ``repr``, the attribute ``layer`` and a line of the logger
    "nuq" show the layer that was found. If a network has no such layer, or several of them, ``LayerError`` lists the candidates.

    Parameters
    ----------
    network : a ``torch.nn.Module``; it may be the result of ``torch.compile``. It is not changed.
    loader : iterable of ``(inputs, labels)``, or of mappings with the labels under "labels". Inputs are a tensor, a mapping of named
        arguments, or a tuple of arguments.
    layer : a module or its name. The embeddings are then its output.
    pool : reduction of outputs of ``layer`` with more than two dimensions to one vector per input, as in ``embed``.
    logits : key, position or function that selects the logits in the output of the network. Tensors, outputs with the attribute or key
        "logits" or the key "sentence_embedding", and outputs with a single matrix of floats need no selection.
    device : device to which the inputs of the loader are moved; by default the device of the network.
    held_out, coverage, risk, false_alarm, delta, measure, predictor, classes, output, model, random_state, progress : as in
        ``nuq.guard``.
    """
    _package.require("torch", "torch")
    from ._guarded_network import guarded

    options = {
        "held_out": held_out,
        "coverage": coverage,
        "risk": risk,
        "false_alarm": false_alarm,
        "delta": delta,
        "measure": measure,
        "predictor": predictor,
        "classes": classes,
        "output": output,
        "model": model,
        "random_state": random_state,
        "progress": progress,
    }
    return guarded(network, loader, layer, pool, logits, device, options)


def load_guard(
    folder: str | os.PathLike[str],
    network: Any,
    *,
    pool: Callable[[Any], Any] | None = None,
    logits: Callable[[Any], Any] | None = None,
    check: bool = True,
    device: str = "auto",
) -> GuardedNetwork:
    """Open the folder that ``save`` of a guarded network has written, with the same network.

    The network must have the weights that it had when it was guarded; load its ``state_dict`` first. The network is run on the inputs that
    ``save`` has stored, and ``NetworkMismatchError`` is raised if their embeddings differ by more than rounding; ``check=False`` omits this
    check. Functions are not stored: if ``pool`` or ``logits`` was a function, pass it again. ``device`` is the device of the neighbor search,
    as in ``nuq.load``.
    """
    _package.require("torch", "torch")
    from ._guarded_network import opened

    return opened(folder, network, pool, logits, check, device)


def __getattr__(name: str) -> Any:
    # These classes need PyTorch. It is imported when one of them is first used.
    if name in ("GuardedNetwork", "GuardedOutput"):
        _package.require("torch", "torch")
        from . import _guarded_network

        return getattr(_guarded_network, name)
    raise AttributeError(f"module 'nuq.torch' has no attribute {name!r}")

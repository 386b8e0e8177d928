"""Batches and outputs of PyTorch networks: the device of inputs, the arguments of a network, its logits, and one vector per input."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .errors import InvalidInputError, InvalidParameterError, LayerError, ParameterTypeError

#: Values of ``pool``: how outputs are reduced to one vector per input.
POOLS = ("auto", "mean", "flatten", "first")


def checked_network(network: Any, name: str) -> Any:
    """Check that an argument is a network."""
    import torch

    if not isinstance(network, torch.nn.Module):
        raise ParameterTypeError(f"{name}={network!r}: expected a torch.nn.Module")
    return network


def checked_pool(pool: Any) -> Any:
    """Check the parameter ``pool``."""
    if callable(pool) or (isinstance(pool, str) and pool in POOLS):
        return pool
    raise InvalidParameterError(f"pool={pool!r}: expected one of {', '.join(map(repr, POOLS))}, or a function")


def checked_device(device: Any, network: Any) -> Any:
    """The device of the inputs; by default the device of the network."""
    import torch

    if device is None:
        return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InvalidParameterError(f"device={device!r}: {error}") from None


def module_and_name(network: Any, layer: Any) -> tuple[Any, str]:
    """A module of a network and its name. ``layer`` is the module or the name. The name of the network itself is empty."""
    modules = dict(network.named_modules())
    if isinstance(layer, str):
        if layer in modules and layer:
            return modules[layer], layer
        names = ", ".join(name for name in modules if name)
        raise InvalidParameterError(f"layer={layer!r}: the names of layers are {names}")
    if not hasattr(layer, "register_forward_hook"):
        raise ParameterTypeError(f"layer={layer!r}: expected a module of the model or its name")
    for name, module in modules.items():
        if module is layer:
            return module, name
    raise InvalidParameterError(f"layer={layer!r} is not a module of the model")


@contextlib.contextmanager
def evaluation_mode(network: Any) -> Iterator[None]:
    """Evaluation mode without gradients. The mode of each module is restored separately, because some modules may already be in
    evaluation mode.

    ``torch.inference_mode`` is not used, because a network could not be trained later with tensors that it cached in that mode.
    """
    import torch

    modes = [(module, module.training) for module in network.modules()]
    try:
        network.eval()
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def moved(inputs: Any, device: Any) -> Any:
    """The inputs with all tensors on a device."""
    if isinstance(inputs, dict):
        return {name: moved(value, device) for name, value in inputs.items()}
    if isinstance(inputs, tuple) and hasattr(inputs, "_fields"):
        return type(inputs)(*(moved(value, device) for value in inputs))
    if isinstance(inputs, (tuple, list)):
        return type(inputs)(moved(value, device) for value in inputs)
    return inputs.to(device) if hasattr(inputs, "to") else inputs


def arguments(network: Any, inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the network for the inputs of a batch.

    A mapping contains named arguments, and a tuple or list contains positional arguments, if the network accepts them. Otherwise the mapping,
    tuple or list is a single argument.
    """
    if isinstance(inputs, dict):
        return ((), inputs) if _accepts(network, (), inputs) else ((inputs,), {})
    is_several = isinstance(inputs, (tuple, list)) and any(hasattr(value, "shape") for value in inputs)
    if is_several and _accepts(network, tuple(inputs), {}):
        return tuple(inputs), {}
    return (inputs,), {}


def _accepts(network: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> bool:
    try:
        inspect.signature(getattr(network, "_orig_mod", network).forward).bind(*positional, **named)
    except (TypeError, ValueError):
        return False
    return True


def first_tensor(output: Any) -> Any:
    """The output itself, its logits, or its first tensor."""
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, dict):
        output = next(iter(output.values()))
    while isinstance(output, (tuple, list)):
        output = output[0]
    return output


def logits_of(output: Any, select: Any = None) -> Any:
    """The logits in the output of a network. ``select`` is a function, a key or a position. None selects the output itself if it
    is a tensor; otherwise its entry ``logits`` or ``sentence_embedding``, or else its only matrix of floats."""
    import torch

    if select is not None:
        logits = _selected(output, select)
    elif isinstance(output, torch.Tensor):
        logits = output
    elif getattr(output, "logits", None) is not None:
        logits = output.logits
    else:
        logits = _only_logits(output)
    if not isinstance(logits, torch.Tensor) or logits.dim() > 2 or logits.dim() == 0:
        shape = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InvalidInputError(f"the network returned {shape}: expected logits, a matrix with one row per input and one column per class")
    return logits


def _selected(output: Any, select: Any) -> Any:
    try:
        if callable(select):
            return select(output)
        if isinstance(select, str) and hasattr(output, select):
            return getattr(output, select)
        return output[select]
    except (KeyError, IndexError, TypeError) as error:
        raise InvalidParameterError(f"logits={select!r} selects nothing in the output of the network: {error!r}") from None


def _only_logits(output: Any) -> Any:
    import torch

    if isinstance(output, Mapping):
        for name in ("logits", "sentence_embedding"):
            if name in output:
                return output[name]
    entries = list(output.items() if isinstance(output, Mapping) else enumerate(output if isinstance(output, (tuple, list)) else [output]))
    matrices = [(key, value) for key, value in entries if isinstance(value, torch.Tensor) and value.dim() == 2 and value.is_floating_point()]
    if len(matrices) == 1:
        return matrices[0][1]
    found = ", ".join(f"{key!r} {tuple(value.shape)}" for key, value in matrices) or "none"
    raise LayerError(f"the entries of the network's output that can be logits are: {found}; choose one with logits=, a key, position or function")


def pooled(output: Any, pool: str | Callable[[Any], Any], mask: Any = None) -> Any:
    """One vector per input. ``mask`` marks the steps of a sequence that are not padding."""
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
    if output.dim() != 3:
        # In images, the second dimension contains the channels, so the mean is over all later dimensions.
        return output.flatten(2).mean(dim=2)
    if mask is None or tuple(mask.shape) != tuple(output.shape[:2]):
        return output.mean(dim=1)
    weights = mask.to(output.device, output.dtype)[:, :, None]
    return (output * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def attention_mask(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The mask of the steps that are not padding, if the arguments of a network contain it."""
    for inputs in (kwargs, *args):
        if isinstance(inputs, Mapping) and "attention_mask" in inputs:
            return inputs["attention_mask"]
    return None

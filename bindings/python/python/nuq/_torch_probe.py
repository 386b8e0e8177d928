"""A probe: a few inputs and their embeddings. It is used later to check whether a network is the network that was guarded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._torch_batches import moved
from .errors import DamagedFileError, DimensionMismatchError, NetworkMismatchError

#: Number of inputs of a probe.
ROWS = 2

#: Largest relative difference of embeddings that can be the result of rounding, in single and in half precision. Rounding differs between
#: devices, kernels and, for half precision, between data types.
_ROUNDING, _HALF_ROUNDING = 5e-3, 5e-2


class Probe(NamedTuple):
    """Inputs on the CPU, their embeddings in float32, and the data type of the network's weights."""

    inputs: Any
    embeddings: np.ndarray
    dtype: str


def first_rows(inputs: Any, n: int, rows: int = ROWS) -> Any:
    """The first rows of all arrays and lists of strings with ``n`` rows in the inputs of a batch."""
    if isinstance(inputs, dict):
        return {name: first_rows(value, n, rows) for name, value in inputs.items()}
    if isinstance(inputs, list) and len(inputs) == n and all(isinstance(value, str) for value in inputs):
        return inputs[:rows]
    if isinstance(inputs, tuple) and hasattr(inputs, "_fields"):
        return type(inputs)(*(first_rows(value, n, rows) for value in inputs))
    if isinstance(inputs, (tuple, list)):
        return type(inputs)(first_rows(value, n, rows) for value in inputs)
    shape = tuple(getattr(inputs, "shape", ()))
    return inputs[:rows] if len(shape) and shape[0] == n else inputs


def weights_dtype(network: Any) -> str:
    """Data type of the first floating-point weight."""
    return next((str(weight.dtype) for weight in network.parameters() if weight.is_floating_point()), "torch.float32")


def encoded(inputs: Any, arrays: dict[str, np.ndarray]) -> dict[str, Any] | None:
    """A description of inputs for JSON; None if the inputs cannot be stored. The tensors of the inputs are added to ``arrays``."""
    import torch

    if isinstance(inputs, torch.Tensor):
        name = f"input.{len(arrays)}"
        values = inputs.detach().cpu()
        arrays[name] = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
        return {"tensor": name, "dtype": str(inputs.dtype)}
    if isinstance(inputs, (bool, int, float, str, type(None))):
        return {"value": inputs}
    if isinstance(inputs, dict) and all(isinstance(name, str) for name in inputs):
        entries = {name: encoded(value, arrays) for name, value in inputs.items()}
        return None if None in entries.values() else {"dict": entries}
    if type(inputs) in (tuple, list):
        items = [encoded(value, arrays) for value in inputs]
        return None if None in items else {type(inputs).__name__: items}
    return None


def decoded(description: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The inputs that ``encoded`` has described."""
    import torch

    try:
        (kind, content), *_ = description.items()
        if kind == "tensor":
            dtype = getattr(torch, str(description["dtype"]).removeprefix("torch."))
            return torch.from_numpy(arrays[content]).to(dtype)
        if kind == "dict":
            return {name: decoded(value, arrays) for name, value in content.items()}
        if kind in ("tuple", "list"):
            items = [decoded(value, arrays) for value in content]
            return tuple(items) if kind == "tuple" else items
        if kind == "value":
            return content
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise DamagedFileError(f"the stored inputs of the guard are damaged: {error!r}") from None
    raise DamagedFileError(f"the stored inputs of the guard are damaged: unknown kind {kind!r}")


def as_dtype(inputs: Any, stored: str, current: str) -> Any:
    """Convert the tensors of data type ``stored`` to the data type ``current``. ``stored`` is the type of the weights when the network was
    guarded, and ``current`` their type now."""
    import torch

    if isinstance(inputs, dict):
        return {name: as_dtype(value, stored, current) for name, value in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return type(inputs)(as_dtype(value, stored, current) for value in inputs)
    if isinstance(inputs, torch.Tensor) and str(inputs.dtype) == stored and stored != current:
        return inputs.to(getattr(torch, current.removeprefix("torch.")))
    return inputs


def check(probe: Probe, network: Any, embed: Any, device: Any) -> None:
    """Check that a network gives the embeddings of a probe. ``embed`` computes embeddings and logits from inputs on the network's device."""
    current = weights_dtype(network)
    inputs = as_dtype(moved(probe.inputs, device), probe.dtype, current)
    embeddings = embed(inputs)[0].float().cpu().numpy()
    if embeddings.shape != probe.embeddings.shape:
        raise DimensionMismatchError(
            f"the network gives embeddings of {embeddings.shape[-1]} columns, and the guard was fitted to {probe.embeddings.shape[-1]} "
            "columns: it is not the network that was guarded"
        )
    scale = max(float(np.linalg.norm(probe.embeddings)), np.finfo(np.float32).tiny)
    difference = float(np.linalg.norm(embeddings - probe.embeddings)) / scale
    is_half = {probe.dtype, current} & {"torch.float16", "torch.bfloat16"}
    limit = _HALF_ROUNDING if is_half else _ROUNDING
    if not difference <= limit:
        types = "" if current == probe.dtype else f" Its weights are {current}, and were {probe.dtype}."
        raise NetworkMismatchError(
            f"the embeddings of the stored inputs differ by {difference:.1%} from those of the network that was guarded; rounding "
            f"causes at most {limit:.1%}.{types} Load the state_dict that the network had when it was guarded, or guard the network again."
        )

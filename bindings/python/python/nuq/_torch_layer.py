"""The layer whose values are the embeddings of a network, and how these values become one vector per input.

The classifier of a network is a linear layer, or a 1 × 1 convolution, from whose output the logits are computed. The embeddings are the
input of the classifier. A layer is a candidate if it has one output per class. A candidate is the classifier if both of these values equal
the logits: its output, reduced in one of the ways below, and its output for an input that consists only of the embeddings.

The output of the classifier has one vector per input and place; a place is a step of a sequence or a pixel. The logits are computed from the
places in one of these ways:

- "single": there is only one place;
- "step": one place is selected, for example the last token that is not padding in models of text;
- "mean": the mean over all places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._torch_batches import first_tensor, module_and_name, pooled
from ._torch_tap import Record, Records, Tap, eager
from .errors import DimensionMismatchError, LayerError

#: Largest accepted difference between the output of a layer and the logits, relative to the largest absolute value of the logits, by data type
#: of the logits. 1e-4 for other types.
_TOLERANCES = {"torch.float16": 2e-2, "torch.bfloat16": 1e-1}


@dataclass(frozen=True)
class Layer:
    """Where the embeddings are read.

    ``names`` has more than one entry if the logits are the mean of several classifiers. The inputs of these classifiers are then
    concatenated.
    """

    names: tuple[str, ...]
    #: "input" or "output".
    side: str
    #: For an input: "single", "step" or "mean". For an output: the ``pool`` of ``nuq.torch.guard``.
    pool: Any
    #: The kind and size of each module, for messages.
    shapes: tuple[str, ...]
    #: Whether the second dimension of inputs and outputs contains the channels, as in convolutions.
    is_channels_first: bool = False

    def __str__(self) -> str:
        names = " and ".join(f"{name or 'the network'} ({shape})" for name, shape in zip(self.names, self.shapes))
        place = {"step": ", at the step whose output is the logits", "mean": ", mean over steps or pixels"}.get(
            self.pool if self.side == "input" else "", ""
        )
        if self.side == "output":
            place = f", pool={self.pool if isinstance(self.pool, str) else getattr(self.pool, '__name__', 'function')}"
        return f"{self.side} of {names}{place}"

    def modules(self, network: Any) -> list[Any]:
        """The modules of a network that have these names."""
        return [network if name == "" else module_and_name(network, name)[0] for name in self.names]

    def embeddings(self, records: Records, logits: Any, mask: Any) -> Any:
        """One vector per input, from the records of the modules."""
        vectors = []
        for name, record in zip(self.names, records):
            if record is None:
                raise LayerError(f"the layer {name!r} did not run: it must be part of the forward pass of the network")
            if self.side == "output":
                vectors.append(pooled(first_tensor(record.output), self.pool, mask))
            else:
                vectors.append(_reduced(record, logits, self.pool, self.is_channels_first))
        matrix = vectors[0] if len(vectors) == 1 else _concatenated(vectors)
        if matrix.dim() != 2:
            raise DimensionMismatchError(
                f"the {self.side} of {self.names[0]!r} gives embeddings of shape {tuple(matrix.shape)}: expected one vector per input"
            )
        return matrix.detach()


def given_layer(network: Any, layer: Any, pool: Any) -> Layer:
    """The output of a layer that the caller chooses."""
    module, name = module_and_name(network, layer)
    return Layer((name,), "output", pool, (_shape(module),))


def find_layer(network: Any, args: tuple[Any, ...], kwargs: dict[str, Any], logits: Any, output: str) -> Layer:
    """The input of the classifier, found by running the network. The caller must have set the evaluation mode.

    ``logits`` is a function that selects the logits in the output of the network. ``output`` states whether they are "logits" or
    "probabilities".
    """
    with eager():
        expected = _as_matrix(logits(network(*args, **kwargs)))
        n_classes = expected.shape[1]
        candidates = [(name, module) for name, module in network.named_modules() if _outputs(module) == n_classes]
        tap = Tap(network, [module for _, module in candidates])
        result, records = tap.run(args, kwargs)
        expected = _as_matrix(logits(result))
        ran = [(name, module, record) for (name, module), record in zip(candidates, records) if record is not None]
        matches = [(name, module, record, way) for name, module, record in ran for way in [_way(module, record, expected, output)] if way]
        matches = _outermost(_sharing_memory(matches, expected))
        if len(matches) == 1:
            name, module, _, way = matches[0]
            return Layer((name,), "input", way, (_shape(module),), _is_convolution(module))
        if not matches and len(several := _averaged(ran, expected, output)) > 1:
            return Layer(tuple(name for name, _ in several), "input", "single", tuple(_shape(module) for _, module in several))
    shape = tuple(expected.shape)
    if matches:
        reason = f"the outputs of several layers equal the logits of shape {shape}: {_listed(matches)}"
    elif ran:
        reason = f"no layer has an output that equals the logits of shape {shape}; the layers with {n_classes} outputs are {_listed(ran)}"
    elif candidates:
        reason = f"the layers with {n_classes} outputs did not run when the network computed the logits: {_listed(candidates)}"
    else:
        last = [name for name, module in network.named_modules() if name and not list(module.children())][-5:]
        reason = f"no linear layer has as many outputs as the logits of shape {shape}; the last layers are {', '.join(map(repr, last))}"
    raise LayerError(f"{reason}. Name the layer whose output is the embeddings: layer=…")


def _listed(entries: list[Any]) -> str:
    """The modules of entries that begin with a name and a module."""
    return ", ".join(f"{entry[0]!r} ({_shape(entry[1])})" for entry in entries)


def _outputs(module: Any) -> int | None:
    """Number of outputs of a linear layer or 1 × 1 convolution; None for other modules. Every module with the integer attributes
    ``in_features`` and ``out_features`` counts as a linear layer, for example an adapter."""
    if isinstance(getattr(module, "in_features", None), int) and isinstance(getattr(module, "out_features", None), int):
        return int(module.out_features)
    is_pointwise = hasattr(module, "kernel_size") and set(_as_tuple(module.kernel_size)) == {1} and getattr(module, "groups", 0) == 1
    return int(module.out_channels) if is_pointwise and hasattr(module, "out_channels") else None


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _is_convolution(module: Any) -> bool:
    return hasattr(module, "kernel_size")


def _shape(module: Any) -> str:
    kind = type(module).__name__
    if _is_convolution(module) and hasattr(module, "in_channels"):
        return f"{kind} {module.in_channels} → {module.out_channels}"
    return f"{kind} {module.in_features} → {module.out_features}" if _outputs(module) is not None else kind


def _as_matrix(logits: Any) -> Any:
    return logits[:, None] if logits.dim() == 1 else logits


def _places(values: Any, is_channels_first: bool) -> Any:
    """Reshape values to inputs × places × channels."""
    if is_channels_first:
        return values.flatten(2).transpose(1, 2) if values.dim() > 2 else values[:, None]
    return values.reshape(len(values), -1, values.shape[-1])


def _way(module: Any, record: Record, expected: Any, output: str) -> str | None:
    """How the logits are computed from the output of a layer: "single", "step" or "mean"; None if the layer is not the classifier."""
    values = record.output
    if not hasattr(values, "dim") or not hasattr(record.input, "dim") or values.dim() < 2 or len(values) != len(expected):
        return None
    places = _places(values, _is_convolution(module)).float()
    if places.shape[1] == 1:
        way = "single" if _is_same(places[:, 0], expected, output) else None
    elif (places == expected.float()[:, None]).all(dim=2).any(dim=1).all():
        way = "step"
    else:
        way = "mean" if _is_same(places.mean(dim=1), expected, output) else None
    return way if way is not None and _verified(module, record, expected, way, output) else None


def _verified(module: Any, record: Record, expected: Any, way: str, output: str) -> bool:
    """Whether the layer gives the logits again if its input consists only of the embeddings, one vector per input of the network."""
    vectors = _reduced(record, expected, way, _is_convolution(module))
    extra = record.input.dim() - 2 if _is_convolution(module) else 0
    try:
        result = module(vectors.reshape(*vectors.shape, *[1] * extra))
    except (RuntimeError, TypeError, ValueError, IndexError):
        # The module needs another input than one vector, for example several arguments.
        return False
    return hasattr(result, "dim") and _is_same(result.reshape(len(vectors), -1), expected, output)


def _is_same(values: Any, expected: Any, output: str) -> bool:
    """Whether ``values`` equal ``expected``, directly or after the function that a network may apply to its logits.

    For the output "logits", the values are compared directly and after the log-softmax. For the output "probabilities", they are compared
    after the softmax, or after the sigmoid if there is a single channel.
    """
    import torch

    values, target = values.float(), expected.float()
    if values.shape != target.shape:
        return False
    tolerance = _TOLERANCES.get(str(expected.dtype), 1e-4) * max(1e-6, float(target.abs().max()))
    if output == "probabilities":
        forms = [values.softmax(dim=1) if values.shape[1] > 1 else torch.sigmoid(values)]
    else:
        forms = [values, values.log_softmax(dim=1)]
    return any(bool((form - target).abs().max() <= tolerance) for form in forms)


def _reduced(record: Record, logits: Any, way: str, is_channels_first: bool) -> Any:
    """One vector per input from the input of a classifier."""
    places = _places(record.input, is_channels_first)
    if way == "mean":
        return places.mean(dim=1)
    if way == "single":
        return places[:, 0]
    outputs, expected = _places(record.output, is_channels_first).float(), _as_matrix(logits).float()
    # If the outputs at several places equal the logits, the first of these places is used. Usually the inputs at these places are equal
    # too, for example at equal tokens of padding.
    step = (outputs == expected[:, None]).all(dim=2).int().argmax(dim=1)
    return places[range(len(places)), step]


def _sharing_memory(matches: list[Any], expected: Any) -> list[Any]:
    """If several layers match, only the matches whose output shares memory with the logits. All matches if there are no such matches."""
    if len(matches) < 2:
        return matches
    memory = expected.untyped_storage().data_ptr()
    sharing = [match for match in matches if match[2].output.untyped_storage().data_ptr() == memory]
    return sharing or matches


def _outermost(matches: list[Any]) -> list[Any]:
    """Matches that are not inside another match. For example, a layer inside an adapter is left out if the adapter matches too."""
    # The network itself has the empty name. It is not its own classifier if a layer inside of it matches.
    inner = [match for match in matches if match[0]] or matches
    names = [match[0] for match in inner]
    return [match for match in inner if not any(match[0].startswith(f"{name}.") for name in names)]


def _averaged(ran: list[Any], expected: Any, output: str) -> list[tuple[str, Any]]:
    """The classifiers whose mean output is the logits, as in distilled transformers; empty if there are none."""
    import torch

    shape = tuple(expected.shape)
    single = [(name, module, record) for name, module, record in ran if tuple(getattr(record.output, "shape", ())) == shape]
    if len(single) < 2 or not _is_same(torch.stack([record.output.float() for *_, record in single]).mean(dim=0), expected, output):
        return []
    return [(name, module) for name, module, _ in single]


def _concatenated(vectors: list[Any]) -> Any:
    import torch

    return torch.cat(vectors, dim=1)

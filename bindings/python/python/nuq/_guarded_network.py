"""A PyTorch module that answers each batch with logits, label, uncertainty and decision."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _guard, _guard_files, _torch_probe
from ._classifier import NuqClassifier
from ._guard_rows import split_batch
from ._torch_batches import (
    arguments,
    attention_mask,
    checked_device,
    checked_network,
    checked_pool,
    evaluation_mode,
    logits_of,
    moved,
)
from ._torch_layer import Layer, find_layer, given_layer
from ._torch_probe import Probe
from ._torch_tap import Runner
from .calibrate import Threshold
from .errors import DamagedFileError, InvalidParameterError, NetworkMismatchError, ParameterTypeError

if TYPE_CHECKING:
    import torch
    from torch.nn import Module
else:
    try:
        import torch
        from torch.nn import Module
    except ImportError:  # `nuq.torch.guard` raises MissingPackageError.
        Module = object

_LOGGER = logging.getLogger("nuq")


@dataclass(frozen=True, repr=False)
class GuardedOutput(_guard.GuardedBatch):
    """The answer of a guarded network. ``accept`` is a tensor on the device of the logits. ``label`` is such a tensor too, if labels are
    numbers or booleans. ``output`` is what the network returned."""

    output: Any = None


class GuardedNetwork(Module):
    """A network with a fitted classifier and a threshold. A call runs the network once and returns a ``GuardedOutput``.

    ``nuq.torch.guard`` creates a guarded network. Its ``state_dict`` is the ``state_dict`` of the network. The network must be in evaluation
    mode, because layers such as dropout change the embeddings in training mode; a call in training mode raises ``NetworkMismatchError``.
    """

    def __init__(self, network: Any, layer: Layer, guard: _guard.Guard | None, logits: Any = None, probe: Probe | None = None) -> None:
        super().__init__()
        self.network = network
        self.training = network.training
        # `_logits` selects the logits in the output of the network: a key, a position or a function; None if
        # `logits_of` finds them without it.
        self._layer, self._logits, self._probe = layer, logits, probe
        # The result of `torch.compile` contains the original network as `_orig_mod`.
        inner = getattr(network, "_orig_mod", network)
        self._runner = Runner(network, layer.modules(inner))
        self._guard = guard
        register: Any = self.register_load_state_dict_pre_hook
        register(_renamed_keys)

    # -- answers ----------------------------------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> GuardedOutput:
        """The answer for a batch. All arguments are passed to the network."""
        if self.network.training:
            raise NetworkMismatchError("the network is in training mode, in which its embeddings are random: call eval() first")
        output, logits, embeddings = self._outputs(args, kwargs)
        answer = self._core.answer(embeddings, logits.detach())
        label = answer.label
        if label.dtype.kind in "biuf":
            label = torch.as_tensor(label, device=logits.device)
        accept = torch.as_tensor(answer.accept, device=logits.device)
        return GuardedOutput(logits, label, answer.uncertainty, accept, embeddings, self._core, output)

    @property
    def layer(self) -> str:
        """Where the embeddings are read, for example "input of fc (Linear 2048 → 1000)"."""
        return str(self._layer)

    @property
    def model(self) -> NuqClassifier:
        """The fitted classifier."""
        return self._core.model

    @property
    def threshold(self) -> Threshold:
        """The threshold that accepts or rejects predictions. Its ``statement`` describes the guarantee."""
        return self._core.threshold

    @property
    def training_rows(self) -> np.ndarray:
        """Positions in the loader of the rows to which the model was fitted, in ascending order; the other rows were held out. Rows that were
        removed from the model, or added to it later, are not included."""
        return self._core.training_rows

    def calibrate(self, held_out: Iterable[Any], **target: Any) -> GuardedNetwork:
        """Choose the threshold again, on batches that were not used to fit; see ``nuq.Guard.calibrate``."""
        with evaluation_mode(self.network):
            self._core.calibrate(held_out, **target)
        return self

    # -- state and files --------------------------------------------------------------------------------------------

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state of the network. The keys have no prefix of the guard."""
        return self.network.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Load the state of the network. The guard is valid only for the weights with which it was created."""
        return self.network.load_state_dict(state_dict, *args, **kwargs)

    def save(self, folder: str | os.PathLike[str], *, probe: bool = True) -> None:
        """Write a folder with the model, its threshold and the name of the layer. The weights of the network are not stored: save the
        ``state_dict`` of the network separately.

        The first two inputs of the loader and their embeddings are stored too. ``nuq.torch.load_guard`` uses them to check the network.
        ``probe=False`` omits them, for example if inputs are confidential.
        """
        arrays: dict[str, np.ndarray] = {}
        description: dict[str, Any] = {
            "layer": list(self._layer.names),
            "side": self._layer.side,
            "pool": self._layer.pool if isinstance(self._layer.pool, str) else None,
            "channels_first": self._layer.is_channels_first,
            "shapes": list(self._layer.shapes),
            "logits": {"function": True} if callable(self._logits) else self._logits,
            "probe": None,
        }
        if probe and self._probe is not None:
            inputs = _torch_probe.encoded(self._probe.inputs, arrays)
            if inputs is None:
                arrays.clear()
                _LOGGER.warning("the guard is saved without inputs to check the network: the inputs are not tensors, numbers or strings")
            else:
                description["probe"] = {"inputs": inputs, "dtype": self._probe.dtype}
                arrays["embeddings"] = self._probe.embeddings
        core = self._core
        _guard_files.save(folder, core.model, lambda: {**core._description(), "network": description}, arrays)

    def __deepcopy__(self, memo: dict[int, Any]) -> GuardedNetwork:
        import copy

        copied = GuardedNetwork(copy.deepcopy(self.network, memo), self._layer, None, self._logits, self._probe)
        if self._guard is not None:
            # The copy has its own model, because `calibrate` changes it, and its own function that computes embeddings, because this function
            # runs the network of the copy.
            copied._guard = copy.copy(self._guard)
            copied._guard._model, copied._guard._embed = copy.deepcopy(self._guard._model, memo), copied._embed(None)
        return copied

    def __reduce__(self) -> Any:
        raise ParameterTypeError("a guarded network cannot be pickled: use its method save, and the state_dict of the network")

    def extra_repr(self) -> str:
        """The layer and the threshold."""
        return f"embeddings: {self.layer}\n" + (f"guard: {self._guard._summary()}" if self._guard else "")

    # -- internal ---------------------------------------------------------------------------------------------------

    @property
    def _core(self) -> _guard.Guard:
        assert self._guard is not None, "set when the guard is fitted"
        return self._guard

    def _outputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Output, logits and embeddings of the network."""
        output, records = self._runner.run(args, kwargs)
        logits = logits_of(output, self._logits)
        return output, logits, self._layer.embeddings(records, logits, attention_mask(args, kwargs))

    def _embed(self, device: Any) -> Any:
        """A function from the inputs of a batch to embeddings and logits in float32, for ``nuq.guard``. The inputs are moved to ``device``; None
        for the device that the network has when the function is called."""

        def embed(inputs: Any) -> tuple[Any, Any]:
            args, kwargs = arguments(self.network, moved(inputs, device or checked_device(None, self.network)))
            _, logits, embeddings = self._outputs(args, kwargs)
            return embeddings.float(), logits.float()

        return embed


def guarded(
    network: Any, loader: Any, layer: Any, pool: Any, logits: Any, device: Any, options: dict[str, Any]
) -> GuardedNetwork:
    """Create the guarded network that ``nuq.torch.guard`` returns."""
    checked_network(network, "network")
    if not isinstance(loader, Iterable) or isinstance(loader, (str, bytes, dict)):
        raise ParameterTypeError(f"loader={loader!r}: expected an iterable of batches (inputs, labels)")
    checked_pool(pool)
    if layer is None and pool != "auto":
        raise InvalidParameterError(f"pool={pool!r}: it reduces the output of layer=, which is not given")
    if not (logits is None or isinstance(logits, (str, int)) or callable(logits)):
        raise ParameterTypeError(f"logits={logits!r}: expected a key, a position or a function")
    target = checked_device(device, network)
    inner = getattr(network, "_orig_mod", network)
    chosen = None if layer is None else given_layer(inner, layer, pool)
    with evaluation_mode(network):
        batches = iter(loader)
        first = list(itertools.islice(batches, 1))
        probe_inputs = _probe_inputs(first, target)
        if chosen is None:
            chosen = _found_layer(inner, probe_inputs, logits, options["output"])
        result = GuardedNetwork(network, chosen, None, logits)
        embed = result._embed(None if device is None else target)
        if first:
            values = embed(probe_inputs)[0].cpu().numpy()
            result._probe = Probe(moved(probe_inputs, "cpu"), values, _torch_probe.weights_dtype(network))
        result._guard = _guard.guard(embed, itertools.chain(first, batches), **options)
    result._guard._embed = result._embed(None)
    _LOGGER.info("guard: embeddings are the %s", result.layer)
    return result


def _probe_inputs(first: list[Any], device: Any) -> Any:
    """The first inputs of the first batch, on a device; None if there is no batch."""
    if not first:
        return None
    inputs, labels = split_batch(first[0])
    # A single number, as a tensor without axes, has `__len__`, which raises an error.
    n = len(labels) if hasattr(labels, "__len__") and getattr(labels, "ndim", None) != 0 else 0
    return moved(_torch_probe.first_rows(inputs, n), device)


def _found_layer(network: Any, inputs: Any, logits: Any, output: str) -> Layer:
    if inputs is None:
        # Without a batch, the layer cannot be found. This value is not used, because `nuq.guard` raises an error for an empty loader.
        return Layer(("",), "output", "auto", ("",))
    args, kwargs = arguments(network, inputs)
    return find_layer(network, args, kwargs, lambda result: logits_of(result, logits), output)


def opened(folder: Any, network: Any, pool: Any, logits: Any, check: bool, device: str) -> GuardedNetwork:
    """Open the guarded network that ``nuq.torch.load_guard`` returns."""
    checked_network(network, "network")
    result = _guard_files.read_unchanged(folder, lambda: _opened(folder, network, pool, logits, device))
    if check and result._probe is not None:
        with evaluation_mode(network):
            _torch_probe.check(result._probe, network, result._embed(None), checked_device(None, network))
    return result


def _opened(folder: Any, network: Any, pool: Any, logits: Any, device: str) -> GuardedNetwork:
    path, description = _guard_files.read_description(folder)
    stored = description.get("network")
    if not isinstance(stored, dict):
        raise InvalidParameterError(f"{path} is the folder of a guard without a PyTorch network: open it with nuq.load_guard")
    try:
        if stored["pool"] is None and pool is None:
            raise InvalidParameterError("pool= was a function when the network was guarded: give the same function")
        if isinstance(stored["logits"], dict) and logits is None:
            raise InvalidParameterError("logits= was a function when the network was guarded: give the same function")
        layer = Layer(
            tuple(stored["layer"]), stored["side"], pool or stored["pool"], tuple(stored["shapes"]), bool(stored["channels_first"])
        )
        probe = stored["probe"]
        select = logits if logits is not None or isinstance(stored["logits"], dict) else stored["logits"]
    except (KeyError, TypeError) as error:
        raise DamagedFileError(f"{path / _guard_files.DESCRIPTION}: {error!r}") from None
    result = GuardedNetwork(network, layer, None, select)
    result._guard = _guard.restored(path, description, result._embed(None), device)
    if probe is not None:
        arrays = _guard_files.read_arrays(path)
        try:
            result._probe = Probe(_torch_probe.decoded(probe["inputs"], arrays), arrays["embeddings"], str(probe["dtype"]))
        except (KeyError, TypeError) as error:
            raise DamagedFileError(f"{path}: the stored inputs for checking the network are incomplete: {error!r}") from None
    return result


def _renamed_keys(module: Any, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Insert the name ``network`` into the keys of the guard if the guard is part of a larger module. PyTorch expects this name when it loads
    the state, but ``state_dict`` of the guard writes the keys without it."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[f"{prefix}network.{key[len(prefix):]}"] = state_dict.pop(key)

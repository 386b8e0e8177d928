"""Runs a network and records the inputs and outputs of some of its modules."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from types import FunctionType
from typing import Any, NamedTuple, Union

from ._warnings import warn


class Record(NamedTuple):
    """Input and output of the last call of a module."""

    input: Any
    output: Any


#: One record per module; None for a module that was not called.
Records = list[Union[Record, None]]


class Tap:
    """Records modules of a network by hooks that exist only during a call. Several threads may call it at once."""

    def __init__(self, network: Any, modules: list[Any]) -> None:
        self._network, self._modules = network, modules
        self._local = threading.local()
        self._lock = threading.Lock()
        self._running = 0
        self._handles: list[Any] = []

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Records]:
        """The output of the network, and one record per module."""
        with self._recording() as records:
            output = self._network(*args, **kwargs)
        return output, records

    @contextlib.contextmanager
    def _recording(self) -> Iterator[Records]:
        records: Records = [None] * len(self._modules)
        before = getattr(self._local, "records", None)
        self._local.records = records
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._handles = [self._register(place, module) for place, module in enumerate(self._modules)]
        try:
            yield records
        finally:
            self._local.records = before
            with self._lock:
                self._running -= 1
                if self._running == 0:
                    for handle in self._handles:
                        handle.remove()
                    self._handles = []

    def _register(self, place: int, module: Any) -> Any:
        local = self._local

        def hook(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            # A thread that runs the network without the guard has no records.
            records = getattr(local, "records", None)
            if records is not None:
                records[place] = Record(args[0] if args else next(iter(kwargs.values()), None), output)

        return module.register_forward_hook(hook, with_kwargs=True)


class CompiledTap:
    """Records modules of a network that ``torch.compile`` returned.

    Compiled code does not call hooks that are registered after the compilation. The network is therefore compiled once more by the same
    compiler, as part of a function that returns the records. The hooks exist as long as this object.
    """

    def __init__(self, network: Any, modules: list[Any]) -> None:
        inner = network._orig_mod
        self._lock = threading.Lock()
        records: list[Any] = [None] * len(modules)

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
            for place in range(len(records)):
                records[place] = None
            output = inner(*args, **kwargs)
            return output, list(records)

        # The compiler has one cache per code object. Each network uses its own copy of the code, so that networks of the same class do not
        # share a cache.
        own = FunctionType(run.__code__.replace(), run.__globals__, "run", None, run.__closure__)
        self._run = network.dynamo_ctx(own)
        handles = [module.register_forward_hook(_recorder(records, place), with_kwargs=True) for place, module in enumerate(modules)]
        weakref.finalize(self, _remove, handles)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Records]:
        """The output of the network, and one record per module."""
        with self._lock:
            output, records = self._run(args, kwargs)
        # The records are copied, because CUDA graphs reuse the memory of their outputs in the next call.
        return output, [None if record is None else Record(*map(_copied, record)) for record in records]


class Runner:
    """Runs a network, compiled or not, and records some of its modules.

    If compiled code does not call the hooks, a warning is shown, and from then on the network runs without its compiled code.
    """

    def __init__(self, network: Any, modules: list[Any]) -> None:
        inner = getattr(network, "_orig_mod", network)
        is_compiled = hasattr(network, "_orig_mod") and hasattr(network, "dynamo_ctx")
        self._tap = CompiledTap(network, modules) if is_compiled else Tap(network, modules)
        self._eager = Tap(inner, modules)
        self._is_eager = False

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Records]:
        """The output of the network, and one record per module."""
        if not self._is_eager:
            output, records = self._tap.run(args, kwargs)
            if None not in records or not _has_compiled_parts(self._eager._network):
                return output, records
        with eager():
            output, records = self._eager.run(args, kwargs)
        if not self._is_eager and None not in records:
            self._is_eager = True
            warn(
                "the compiled code of the network does not call the hook on the layer of the embeddings: in the guard, the network runs without "
                "torch.compile; guard the network that torch.compile returns, or compile parts of it that do not contain the layer",
            )
        return output, records


def _has_compiled_parts(network: Any) -> bool:
    return any(hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None for part in network.modules())


def _recorder(records: list[Any], place: int) -> Any:
    def hook(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        records[place] = (args[0] if args else next(iter(kwargs.values()), None), output)

    return hook


def _remove(handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()


def _copied(part: Any) -> Any:
    return part.detach().clone() if hasattr(part, "detach") else part


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Run compiled parts of networks without their compiled code, so that all hooks are called."""
    import torch

    if hasattr(torch.compiler, "set_stance"):
        with torch.compiler.set_stance("force_eager"):
            yield
    else:
        yield

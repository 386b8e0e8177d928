"""Embeddings, network outputs and labels of batches. Error messages contain the number of the batch and the number of the row in the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _progress
from .errors import (
    DimensionMismatchError,
    EmptyError,
    InvalidInputError,
    LengthMismatchError,
    NotFiniteError,
    NuqError,
    ParameterTypeError,
)


class Rows(NamedTuple):
    """Arrays with one row per input. ``outputs`` holds logits or probabilities, and is None if there are none."""

    embeddings: np.ndarray
    outputs: np.ndarray | None
    labels: np.ndarray | None

    def part(self, positions: np.ndarray) -> Rows:
        """The rows at these positions."""
        outputs = None if self.outputs is None else self.outputs[positions]
        return Rows(self.embeddings[positions], outputs, None if self.labels is None else self.labels[positions])


def split_batch(batch: Any) -> tuple[Any, Any]:
    """Inputs and labels of a batch: ``(inputs, labels)``, ``inputs``, or a mapping with the labels under "labels"."""
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        inputs = dict(batch)
        return inputs, inputs.pop("labels", None)
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        return batch[0], batch[1]
    if isinstance(batch, (tuple, list)) and len(batch) == 1:
        return batch[0], None
    return batch, None


def pair(outputs: Any) -> tuple[Any, Any]:
    """Split the result of a function into embeddings and logits (or probabilities). If the function returns only embeddings, the second value
    is None. A list of two rows, which are lists, tuples, arrays or tensors of numbers, is not a pair."""
    if isinstance(outputs, (tuple, list)) and len(outputs) == 2 and not _is_row(outputs[0]):
        return outputs[0], outputs[1]
    return outputs, None


def _is_row(value: Any) -> bool:
    """Whether a value is a list, tuple, array or tensor of numbers. Embeddings have two dimensions."""
    if isinstance(value, (tuple, list)):
        return not any(hasattr(entry, "__len__") for entry in value)
    return getattr(value, "ndim", None) == 1


@dataclass(frozen=True)
class Output:
    """The second output of a function: its kind, and the labels of its columns; None if the labels are the column numbers."""

    #: "logits" or "probabilities".
    kind: str
    classes: list[_arrays.Label] | None

    def columns(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs with one column per class. A binary classifier may have a single output, which refers to the second class."""
        if outputs.ndim == 1:
            outputs = outputs[:, None]
        if outputs.ndim == 2 and outputs.shape[1] == 1:
            first = 1 - outputs if self.kind == "probabilities" else np.zeros_like(outputs)
            return np.concatenate([first, outputs], axis=1)
        return outputs

    def arguments(self, outputs: Any) -> dict[str, Any]:
        """The outputs as arguments of the methods of a classifier."""
        if outputs is None:
            raise InvalidInputError(
                f"there are no {self.kind}, and the threshold was chosen with {self.kind}: return (embeddings, {self.kind})"
            )
        return {self.kind: self.columns(_arrays.to_numpy(outputs)), "classes": self.classes}


def label_list(values: Any) -> list[_arrays.Label]:
    """Labels as plain Python values."""
    return [_arrays.label(value) for value in _arrays.column(values, "guard").tolist()]


class Collector:
    """Runs a function over batches and checks what the function returns. If the predictions of the network are used, each label must have a
    column in the output of the network."""

    def __init__(self, embed: Callable[[Any], Any], output: Output, uses_outputs: bool) -> None:
        self._embed, self._output, self._uses_outputs = embed, output, uses_outputs
        self._kind, self._classes = output.kind, output.classes

    def collect(self, batches: Any, name: str, needs_labels: bool, progress: bool) -> Rows:
        """The rows of all batches. ``name`` is the name of the parameter that contains the batches."""
        if not isinstance(batches, Iterable) or isinstance(batches, (str, bytes, dict)):
            raise ParameterTypeError(f"{name}={batches!r}: expected an iterable of batches (inputs, labels)")
        timer = _progress.Timer("embedding") if progress else None
        parts: list[Rows] = []
        for number, batch in enumerate(batches):
            part = self._batch(batch, f"batch {number} of {name}", needs_labels)
            check_part(part, parts[0] if parts else part, f"batch {number} of {name}")
            parts.append(part)
            if timer:
                timer.tick()
        if not parts:
            raise EmptyError(f"{name} yields no batches")
        rows = concatenated(parts)
        if timer:
            timer.done(f"{len(rows.embeddings)} × {rows.embeddings.shape[1]}")
        return rows

    def _batch(self, batch: Any, where: str, needs_labels: bool) -> Rows:
        inputs, labels = split_batch(batch)
        if labels is None and needs_labels:
            raise InvalidInputError(
                f"{where} has no labels (it is {_described(batch)}): expected (inputs, labels), or a mapping with the entry 'labels'"
            )
        embeddings, outputs = pair(self._embed(inputs))
        matrix = _matrix(embeddings, where, "embeddings")
        scores = None if outputs is None else self._output.columns(_array(outputs, where, self._kind))
        if scores is not None:
            scores = _matrix(scores, where, self._kind)
            _check_length(scores, matrix, where, self._kind)
        truth = None if labels is None else self._labels(labels, where)
        if truth is not None:
            _check_length(truth, matrix, where, "labels")
            if scores is not None and self._uses_outputs:
                self._check_columns(truth, scores.shape[1], where)
        return Rows(matrix, scores, truth)

    def _labels(self, labels: Any, where: str) -> np.ndarray:
        array = _array(labels, where, "labels")
        if array.ndim != 1:
            raise InvalidInputError(f"{where}: the labels have shape {array.shape}: expected one label per input")
        return array

    def _check_columns(self, truth: np.ndarray, columns: int, where: str) -> None:
        """Check that the network's output has one column for each label."""
        classes = list(range(columns)) if self._classes is None else self._classes
        if len(classes) != columns:
            raise LengthMismatchError(f"{where}: the {self._kind} have {columns} columns, and classes= lists {len(classes)} labels")
        known = set(classes)
        for row, value in enumerate(label_list(truth)):
            if value in known and isinstance(value, str) == isinstance(classes[0], str):
                continue
            expected = f"0 to {columns - 1}" if self._classes is None else f"one of {classes!r}"
            raise InvalidInputError(
                f"{where}, row {row}: the label {value!r} has no column in the {self._kind}: expected {expected}; give the labels of the "
                f"columns, in their order, as classes=, or use predictor='nuq', which does not use the {self._kind}"
            )


def concatenated(parts: list[Rows]) -> Rows:
    """The rows of all parts. ``outputs`` is None in all parts or in none, and the same holds for ``labels``."""
    outputs = [part.outputs for part in parts if part.outputs is not None]
    labels = [part.labels for part in parts if part.labels is not None]
    return Rows(
        np.concatenate([part.embeddings for part in parts]),
        np.concatenate(outputs) if outputs else None,
        np.concatenate(labels) if labels else None,
    )


def _array(values: Any, where: str, name: str) -> np.ndarray:
    try:
        return _arrays.to_numpy(values)
    except NuqError as error:
        raise type(error)(f"{where}, {name}: {error}") from None


def _matrix(values: Any, where: str, name: str) -> np.ndarray:
    """A finite matrix of float32 with one row per input."""
    array = _array(values, where, name)
    if array.ndim != 2:
        raise InvalidInputError(f"{where}: the {name} have shape {array.shape}: expected a matrix with one row per input")
    try:
        matrix = _arrays.rows(array)
    except NuqError as error:
        raise type(error)(f"{where}, {name}: {error}") from None
    with np.errstate(over="ignore"):
        matrix = _arrays.numbers(matrix, np.float32)
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        column = int(np.flatnonzero(~np.isfinite(matrix[bad[0]]))[0])
        raise NotFiniteError(f"{where}, row {bad[0]}: the {name} contain NaN, infinity or a value outside of float32 (column {column})")
    return matrix


def _check_length(array: np.ndarray, embeddings: np.ndarray, where: str, name: str) -> None:
    if array.ndim == 0:
        raise InvalidInputError(f"{where}: the {name} are a single value: expected one per input")
    if len(array) != len(embeddings):
        raise LengthMismatchError(f"{where}: {len(array)} {name} for {len(embeddings)} embeddings")


def check_part(part: Rows, first: Rows, where: str) -> None:
    """Check that each array of a batch has one row per input, that the batch has outputs and labels if and only if the first batch has them, and
    that the arrays have the same numbers of columns as in the first batch."""
    if part.embeddings.ndim != 2:
        raise InvalidInputError(f"{where}: the embeddings have shape {part.embeddings.shape}: expected a matrix with one row per input")
    for name, array, other in zip(("embeddings", "logits or probabilities", "labels"), part, first):
        if (array is None) != (other is None):
            raise InvalidInputError(f"{where} has {'no ' if array is None else ''}{name}, unlike batch 0")
        if array is None or other is None:
            continue
        _check_length(array, part.embeddings, where, name)
        if name == "labels" and (array.dtype.kind in "US") != (other.dtype.kind in "US"):
            raise InvalidInputError(f"{where}: only some of the labels are text: batch 0 has labels like {other.flat[0]!r}")
        if array.shape[1:] != other.shape[1:]:
            raise DimensionMismatchError(f"{where}: {_width(array)} of {name}, and batch 0 has {_width(other)}")


def _width(array: np.ndarray) -> str:
    return f"{array.shape[1]} columns" if array.ndim == 2 else f"the shape {array.shape}"


def _described(batch: Any) -> str:
    if isinstance(batch, (tuple, list)):
        return f"a {type(batch).__name__} of {len(batch)}"
    if hasattr(batch, "keys"):
        return f"a mapping with {', '.join(map(repr, batch.keys()))}"
    return f"a {type(batch).__name__}"

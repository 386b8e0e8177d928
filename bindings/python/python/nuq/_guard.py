"""Guards: a function that computes embeddings, with a fitted classifier and a threshold that accepts or rejects predictions."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _guard_files, _nuq
from ._classifier import NuqClassifier
from ._guard_rows import Collector, Output, Rows, label_list, pair
from ._guard_target import Target
from ._result import Uncertainty
from .calibrate import Threshold
from .errors import (
    DamagedFileError,
    DimensionMismatchError,
    InvalidInputError,
    InvalidParameterError,
    OutOfRangeError,
    ParameterTypeError,
)

#: Name of the threshold in the model.
NAME = "guard"

_PREDICTORS = ("auto", *_nuq.CHOICES["predictor"])
_OUTPUTS = ("logits", "probabilities")


class Neighbors(NamedTuple):
    """The nearest training rows of each input, nearest first: one row per input, one column per neighbor."""

    distances: np.ndarray
    #: Position of the training row among all rows of the batches, in the order in which they were read; -1 for a row that ``partial_fit`` of
    #: the model has added since then.
    rows: np.ndarray
    #: Label of the training row.
    labels: np.ndarray


@dataclass(frozen=True, repr=False)
class GuardedBatch:
    """The answer for a batch of inputs, with one entry per input.

    Attributes
    ----------
    logits : the logits or probabilities as the function returned them; None if it returns embeddings only.
    label : the label that the network predicts, or that NUQ predicts with ``predictor="nuq"``.
    uncertainty : aleatoric, epistemic and total uncertainty of the label, and the density, as ``predict_uncertainty`` returns them.
    accept : True where the prediction is accepted.
    embeddings : the embeddings as the function returned them.
    """

    logits: Any
    label: Any
    uncertainty: Uncertainty
    accept: Any
    embeddings: Any
    _guard: Guard

    def neighbors(self, n: int = 5) -> Neighbors:
        """The ``n`` nearest training rows of each input. They are searched when this method is called."""
        return self._guard._neighbors(self.embeddings, n)

    def __len__(self) -> int:
        return len(self.uncertainty)

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)} inputs, {int(self.accept.sum())} accepted"


@dataclass(frozen=True)
class Split:
    """A random split of ``rows`` rows, of which ``held_out`` are used to calibrate. The seed determines the split."""

    rows: int
    held_out: int
    seed: int

    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the fitted and of the held-out rows, in ascending order."""
        # RandomState gives the same permutation in every version of numpy. A file therefore stores the seed instead of the positions.
        order = np.random.RandomState(self.seed).permutation(self.rows)
        return np.sort(order[self.held_out :]), np.sort(order[: self.held_out])

    def check(self, n_ids: int, inserted: np.ndarray) -> None:
        """Raise an error if a model was not fitted to as many rows as are not held out. ``n_ids`` is the number of its ids, including those of
        removed rows. ``inserted`` are the ids of the rows that were inserted after the fit."""
        fitted = self.rows - self.held_out
        if not 0 < fitted <= n_ids or not np.isin(np.arange(fitted, n_ids), inserted).all():
            raise InvalidInputError(
                f"the split has {self.rows} rows, of which {self.held_out} are held out, but the model was fitted to another number of rows"
            )


class Guard:
    """A function that computes embeddings, with a fitted model and a threshold: ``guard(inputs)`` is a ``GuardedBatch``.

    ``nuq.guard`` creates a guard from batches. The constructor takes a classifier that is already fitted, and the name of one of its stored
    thresholds.

    Parameters
    ----------
    embed : function from inputs to embeddings, or to the pair of embeddings and logits.
    model : fitted classifier.
    threshold : name of a stored threshold of the model.
    predictor : whose predictions are returned, and accepted or rejected: "network" or "nuq". "auto" is "network" if the threshold was
        chosen with logits or probabilities, otherwise "nuq".
    classes : labels of the columns of the logits, in the order of the columns; None if the labels are the column numbers.
    output : whether the second output of ``embed`` holds "logits" or "probabilities".
    """

    def __init__(
        self,
        embed: Callable[[Any], Any],
        model: NuqClassifier,
        threshold: str = NAME,
        *,
        predictor: str = "auto",
        classes: Any = None,
        output: str = "logits",
    ) -> None:
        self._embed = _checked_function(embed)
        if not isinstance(model, NuqClassifier):
            raise ParameterTypeError(f"model={model!r}: expected a fitted NuqClassifier")
        stored = model._threshold(_arrays.text(threshold, "threshold"))
        self._model, self._name = model, threshold
        self._predictor = stored.predictor if _arrays.choice(predictor, "predictor", _PREDICTORS) == "auto" else predictor
        stored._check_predictor(self._predictor)
        self._output = Output(_arrays.choice(output, "output", _OUTPUTS), _checked_classes(classes))
        self._split: Split | None = None

    @property
    def model(self) -> NuqClassifier:
        """The fitted classifier."""
        return self._model

    @property
    def threshold(self) -> Threshold:
        """The threshold that accepts or rejects predictions. Its ``statement`` describes the guarantee."""
        stored = self._model.thresholds_
        if self._name not in stored:
            raise InvalidParameterError(
                f"the model has no threshold {self._name!r} any more, because changes of the model remove its thresholds: call calibrate of "
                "the guard with held-out rows"
            )
        return stored[self._name]

    @property
    def predictor(self) -> str:
        """Whose predictions are accepted or rejected: "network" or "nuq"."""
        return self._predictor

    @property
    def training_rows(self) -> np.ndarray:
        """Positions in the batches of the rows to which the model was fitted, in ascending order; the other rows were held out. Rows that were
        removed from the model, or added to it later, are not included."""
        positions = self._positions(self._model.training_ids_)
        return positions[positions >= 0]

    def __call__(self, inputs: Any) -> GuardedBatch:
        """The answer for a batch of inputs. The inputs are passed to the function."""
        return self.answer(*pair(self._embed(inputs)))

    def answer(self, embeddings: Any, logits: Any = None) -> GuardedBatch:
        """The answer for embeddings that are already computed. ``logits`` are the logits or probabilities of the same inputs."""
        threshold = self.threshold
        self._check_width(embeddings)
        network = self._output.arguments(logits) if self._predictor == "network" else {}
        uncertainty = self._model.predict_uncertainty(embeddings, **network)
        return GuardedBatch(logits, uncertainty.label, uncertainty, threshold.accept(uncertainty), embeddings, self)

    def calibrate(
        self,
        held_out: Any,
        *,
        coverage: float | None = None,
        risk: float | None = None,
        false_alarm: float | None = None,
        delta: float = 0.05,
        measure: str | None = None,
    ) -> Guard:
        """Choose the threshold again, on batches ``(inputs, labels)`` that were not used to fit. Labels may be None unless ``risk`` is
        given. The parameters are the same as in ``NuqClassifier.calibrate``; the default target is ``false_alarm=0.05``."""
        target = Target.checked(coverage, risk, false_alarm, delta, measure)
        uses_outputs = self.predictor == "network"
        rows = Collector(self._embed, self._output, uses_outputs).collect(held_out, "held_out", target.needs_labels, False)
        target.check_rows(len(rows.embeddings))
        target.choose(self._model, self._name, rows, self._output if uses_outputs else None)
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder with the model and its threshold. The function is not stored: pass it to ``nuq.load_guard(folder, embed)``."""
        _guard_files.save(folder, self._model, self._description, {})

    # -- internal ---------------------------------------------------------------------------------------------------

    def _description(self) -> dict[str, Any]:
        """The content of ``guard.json``. It is an error if the model has no threshold, because such a folder could not be opened."""
        _ = self.threshold
        if self._split is not None:
            # The number of ids is read before the ids of inserted rows, because another thread may insert rows.
            n_ids = _number_of_ids(self._model)
            try:
                self._split.check(n_ids, self._model._fitted_state().inserted)
            except InvalidInputError as error:
                raise InvalidParameterError(
                    f"{error}: after it was fitted again, create a new guard with nuq.Guard(embed, model, {self._name!r})"
                ) from None
        split = None if self._split is None else vars(self._split)
        return {
            "threshold": self._name,
            "predictor": self._predictor,
            "output": self._output.kind,
            "classes": self._output.classes,
            "split": split,
            "inserted": self._model._fitted_state().inserted.tolist(),
        }

    def _check_width(self, embeddings: Any) -> None:
        shape = tuple(embeddings.shape) if hasattr(embeddings, "shape") else np.shape(embeddings)
        expected = self._model.n_features_in_
        if len(shape) != 2 or shape[1] != expected:
            raise DimensionMismatchError(
                f"the embeddings have shape {shape}, and the model was fitted to embeddings with {expected} columns: they do not come "
                "from the function that was guarded"
            )

    def _neighbors(self, embeddings: Any, n: int) -> Neighbors:
        distances, ids = self._model.kneighbors(embeddings, n)
        return Neighbors(distances, self._positions(ids), self._model._labels_of(ids))

    def _positions(self, ids: np.ndarray) -> np.ndarray:
        """The position in the batches of each training row; -1 for a row that was added to the model later."""
        # An added row may have the id of a row that was removed before.
        is_added = np.isin(ids, self._model._fitted_state().inserted)
        if self._split is None:
            return np.where(is_added, -1, ids)
        positions, _ = self._split.positions()
        is_added |= ids >= len(positions)
        return np.where(is_added, -1, positions[np.where(is_added, 0, ids)])

    def __repr__(self) -> str:
        return f"Guard({self._summary()})"

    def _summary(self) -> str:
        model = self._model
        rows = f"{model.n_samples_fit_} rows × {model.n_features_in_}"
        threshold = model.thresholds_.get(self._name, "no threshold")
        return f"{rows}, {len(model.classes_)} classes, predictions of {self.predictor}, {threshold}"


def guard(
    embed: Callable[[Any], Any],
    batches: Any,
    *,
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
) -> Guard:
    """Guard a function that computes embeddings. A classifier is fitted to the embeddings of labeled batches, and a threshold is chosen on
    held-out rows. The function may use any library.

    Parameters
    ----------
    embed : function from inputs to embeddings, a matrix with one row per input, or to the pair ``(embeddings, logits)``.
    batches : iterable of ``(inputs, labels)``, or of mappings with the labels under "labels"; it is read once.
    held_out : the share of rows that are held out. These rows are drawn at random; the threshold is chosen on them, and the classifier is
        fitted to the other rows. Or an iterable of other batches, on which the threshold is chosen.
    coverage, risk, false_alarm, delta, measure : the target of the threshold, as in ``NuqClassifier.calibrate``. The default target is
        ``false_alarm=0.05``: a new row of the same distribution is rejected with a probability of at most 5 %.
    predictor : whose predictions are returned, and accepted or rejected: "network" for the predictions of the network, from its logits, or
        "nuq" for the predictions from the neighbors. "auto" is "network" if the function returns logits, otherwise "nuq".
    classes : labels of the columns of the logits, in the order of the columns. By default the labels are the column numbers. A single column
        is the logit or probability of the second of two classes.
    output : whether the second output of the function holds "logits" or "probabilities".
    model : a ``NuqClassifier`` whose parameters are used; it is not changed.
    random_state : seed of the random split.
    progress : show progress on stderr.

    Examples
    --------
    >>> import numpy as np, nuq
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 100)
    >>> inputs = rng.normal(size=(200, 4)) + 3 * labels[:, None]
    >>> guarded = nuq.guard(lambda x: (x, x[:, :2]), [(inputs[::2], labels[::2]), (inputs[1::2], labels[1::2])])
    >>> answer = guarded(np.array([[0.1, 0.0, 0.1, 0.0], [60.0, 50.0, 60.0, 50.0]]))
    >>> answer.accept
    array([ True, False])
    >>> answer.neighbors(3).labels
    array([[0, 0, 0],
           [1, 1, 1]])
    """
    _checked_function(embed)
    target = Target.checked(coverage, risk, false_alarm, delta, measure)
    _arrays.choice(predictor, "predictor", _PREDICTORS)
    outputs = Output(_arrays.choice(output, "output", _OUTPUTS), _checked_classes(classes))
    fitted = _unfitted(model)
    seed = _arrays.integer(random_state, "random_state")
    if seed >= 2**32:
        raise OutOfRangeError(f"random_state={seed}: expected an integer below 2**32")
    share = _share(held_out)

    collector = Collector(embed, outputs, predictor != "nuq")
    rows = collector.collect(batches, "batches", True, progress)
    used = _used_outputs(predictor, rows, outputs)
    split: Split | None = None
    if share is None:
        training, calibration = rows, collector.collect(held_out, "held_out", target.needs_labels, progress)
        target.check_rows(len(calibration.embeddings))
    else:
        split = Split(len(rows.embeddings), round(share * len(rows.embeddings)), seed)
        target.check_rows(split.held_out, f"held_out={share:g} of {split.rows} rows: ")
        if split.rows > _most_rows(split.rows - split.held_out):
            fitted_rows = split.rows - split.held_out
            raise OutOfRangeError(f"held_out={share:g} leaves {fitted_rows} of {split.rows} rows for the model: hold out fewer rows")
        training, calibration = (rows.part(positions) for positions in split.positions())
    if used is not None:
        _check_classes_have_rows(training, used, split is not None)
    fitted.fit(training.embeddings, training.labels)
    target.choose(fitted, NAME, calibration, used)
    created = Guard(embed, fitted, predictor="nuq" if used is None else "network", classes=outputs.classes, output=output)
    created._split = split
    return created


def load_guard(folder: str | os.PathLike[str], embed: Callable[[Any], Any], device: str = "auto") -> Guard:
    """Open the folder that ``save`` of a guard has written, with the function that was guarded. ``device`` is the device of the neighbor
    search, as in ``nuq.load``."""
    _checked_function(embed)

    def read() -> Guard:
        path, description = _guard_files.read_description(folder)
        return restored(path, description, embed, device)

    return _guard_files.read_unchanged(folder, read)


def restored(path: Any, description: dict[str, Any], embed: Callable[[Any], Any], device: str) -> Guard:
    """The guard in the folder ``path``, whose description has been read."""
    inner = _nuq.load(path / _guard_files.MODEL, device)
    if not isinstance(inner, _nuq.Classifier):
        raise DamagedFileError(f"{path / _guard_files.MODEL} is not the file of a classifier")
    model = NuqClassifier._loaded(inner)
    model.device = device
    try:
        split = description["split"]
        options = {name: description[name] for name in ("predictor", "classes", "output")}
        opened = Guard(embed, model, description["threshold"], **options)
        n_ids = _number_of_ids(model)
        opened._split = None if split is None else _split_of(split, n_ids)
        # Folders of earlier versions do not contain the ids of inserted rows. Ids after those of the fitted rows are ids of inserted rows; inserted
        # rows with ids of removed rows cannot be recognized.
        first = n_ids if opened._split is None else opened._split.rows - opened._split.held_out
        inserted = np.array(description.get("inserted", range(max(first, 0), n_ids)), np.int64)
        model._state = model._fitted_state()._replace(inserted=inserted)
        if opened._split is not None:
            try:
                opened._split.check(n_ids, inserted)
            except InvalidInputError as error:
                # Earlier versions have saved guards whose model was fitted again.
                raise InvalidInputError(f'{error}; with "split": null the guard can be opened, and its training_rows are ids') from None
    except (InvalidParameterError, InvalidInputError, TypeError, KeyError, ValueError, OverflowError) as error:
        raise DamagedFileError(
            f"{path / _guard_files.DESCRIPTION}: {error}: restore the folder from a copy, or save the guard again"
        ) from None
    return opened


def _split_of(stored: Any, n_ids: int) -> Split:
    """The split in a description. ``n_ids`` is the number of ids of the model."""
    if not isinstance(stored, dict):
        raise InvalidInputError(f"the split is {stored!r}, but must have the entries rows, held_out and seed")
    numbers: dict[str, Any] = {name: stored.get(name) for name in ("rows", "held_out", "seed")}
    for name, number in numbers.items():
        # `training_rows` computes the positions of all rows of the split, so a damaged file must not state an arbitrary number of rows.
        largest = 2**32 - 1 if name == "seed" else _most_rows(n_ids)
        if type(number) is not int or not 0 <= number <= largest:
            raise InvalidInputError(f"the entry {name} of the split is {number!r}, but must be an integer from 0 to {largest}")
    return Split(**numbers)


def _most_rows(n_ids: int) -> int:
    """Largest number of rows of a split for a model with this number of ids."""
    return min(2**32 - 1, 2**20 + 1000 * n_ids)


def _number_of_ids(model: NuqClassifier) -> int:
    """The number of ids of training rows, including those of removed rows. A removed row keeps its id until a later row gets it."""
    _, numbers = model._model.training_classes()
    return len(numbers)


def _checked_function(embed: Any) -> Callable[[Any], Any]:
    if not callable(embed):
        raise ParameterTypeError(f"embed={embed!r}: expected a function from inputs to embeddings, or to (embeddings, logits)")
    function: Callable[[Any], Any] = embed
    return function


def _checked_classes(classes: Any) -> list[_arrays.Label] | None:
    if classes is None:
        return None
    listed = label_list(classes)
    if len(listed) < 2 or len(set(listed)) < len(listed):
        raise InvalidParameterError(f"classes={listed!r}: expected at least two different labels, one per column of the output")
    return listed


def _share(held_out: Any) -> float | None:
    """The share of rows to hold out; None if ``held_out`` contains batches."""
    if held_out is not None and not isinstance(held_out, (bool, int, float, complex, np.number, str)):
        return None
    share = _arrays.real(held_out, "held_out")
    if not 0 < share < 1:
        raise OutOfRangeError(f"held_out={held_out!r}: expected a share between 0 and 1, or an iterable of batches")
    return share


def _unfitted(model: Any) -> NuqClassifier:
    """A classifier that is not fitted, with the parameters of ``model``."""
    if model is None:
        return NuqClassifier()
    if not isinstance(model, NuqClassifier):
        raise ParameterTypeError(f"model={model!r}: expected a NuqClassifier")
    return type(model)(**model.get_params(deep=False))


def _used_outputs(predictor: str, rows: Rows, output: Output) -> Output | None:
    """The output of the network if the predictions of the network are returned; None for the predictions of NUQ."""
    if predictor == "network" and rows.outputs is None:
        raise InvalidParameterError(f"predictor='network': the function returned embeddings only, not (embeddings, {output.kind})")
    return None if predictor == "nuq" or rows.outputs is None else output


def _check_classes_have_rows(rows: Rows, output: Output, is_split: bool) -> None:
    """Check that there are fitted rows of the class of each column of the network's output."""
    assert rows.outputs is not None
    columns = list(range(rows.outputs.shape[1])) if output.classes is None else output.classes
    present = set(label_list(rows.labels))
    missing = [label for label in columns if label not in present]
    if missing:
        shown = ", ".join(map(repr, missing[:10])) + (", …" if len(missing) > 10 else "")
        remedy = "a smaller held_out share or another random_state, " if is_split else ""
        raise InvalidInputError(
            f"no fitted row has the label {shown}, but the output has a column for it: give rows of each class, {remedy}"
            "or predictor='nuq', which does not use the output"
        )

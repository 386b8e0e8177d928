"""Opens files of models and baselines."""

from __future__ import annotations

import os

from . import _arrays, _nuq, baselines
from ._classifier import NuqClassifier
from ._regressor import NuqRegressor


def load(path: str | os.PathLike[str], device: str = "auto") -> NuqClassifier | NuqRegressor | baselines.Baseline:
    """Open the file of a model or of a baseline that ``save`` or the command line has written, or the folder of a sharded model
    (``nuq fit --shards``).

    The file is mapped into memory, and rows are read when they are first used. The parameters of the estimator are those
    of the fitted model: a bandwidth that was selected by a rule is returned as a number. ``device`` is the device of the
    neighbor search, as in the estimators.
    """
    model = _nuq.load(_arrays.path(path), device)
    if isinstance(model, tuple):
        return baselines._loaded(*model, device)
    estimator = (NuqClassifier if isinstance(model, _nuq.Classifier) else NuqRegressor)._loaded(model)
    estimator.device = device
    return estimator

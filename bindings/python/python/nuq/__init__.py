"""Uncertainty of the predictions of a neural network, estimated from its embeddings.

>>> import numpy as np
>>> from nuq import NuqClassifier
>>> X = np.array([[0.0, 0.0], [0.1, 0.0], [1.0, 1.0], [1.1, 1.0]], dtype=np.float32)
>>> model = NuqClassifier(n_neighbors=2).fit(X, [0, 0, 1, 1])
>>> model.predict([[0.05, 0.0]])
array([0])
"""

from __future__ import annotations

import os
from typing import Any

from . import _nuq, _remote, baselines, calibrate, errors, metrics
from ._classifier import NuqClassifier
from ._evaluate import Evaluation, evaluate
from ._pipeline import final_step, predict_uncertainty
from ._regressor import NuqRegressor
from ._result import Uncertainty
from .calibrate import IntervalRule, ScoreThreshold, SetRule, Threshold
from .errors import NuqError

__version__ = _nuq.__version__

__all__ = [
    "Evaluation",
    "IntervalRule",
    "NuqClassifier",
    "NuqError",
    "NuqRegressor",
    "ScoreThreshold",
    "SetRule",
    "Threshold",
    "Uncertainty",
    "baselines",
    "calibrate",
    "errors",
    "evaluate",
    "final_step",
    "load",
    "metrics",
    "predict_uncertainty",
    "ray",
    "spark",
    "stores",
    "torch",
]

#: Modules that are imported on first access, because they belong to optional packages.
_OPTIONAL = ("ray", "spark", "stores", "torch")


def load(path: str | os.PathLike[str], device: str = "auto") -> NuqClassifier | NuqRegressor | baselines.Baseline:
    """Open the file of a model or of a baseline that ``save`` or the command line has written, or the folder of a sharded model
    (``nuq fit --shards``).

    The file is mapped into memory, and rows are read when they are first used. The parameters of the estimator are those
    of the fitted model: a bandwidth that was selected by a rule is returned as a number. ``device`` is the device of the
    neighbor search, as in the estimators.

    ``path`` may be an address of an object store that pyarrow or fsspec can read, such as ``s3://bucket/model.nuq`` or the prefix of a sharded
    model. The files are copied to the temporary folder of this machine once.
    """
    model = _nuq.load(_remote.local(path), device)
    if isinstance(model, tuple):
        return baselines._loaded(*model, device)
    estimator = (NuqClassifier if isinstance(model, _nuq.Classifier) else NuqRegressor)._loaded(model)
    estimator.device = device
    return estimator


def __getattr__(name: str) -> Any:
    if name in _OPTIONAL:
        import importlib

        return importlib.import_module(f"nuq.{name}")
    raise AttributeError(f"module 'nuq' has no attribute {name!r}")

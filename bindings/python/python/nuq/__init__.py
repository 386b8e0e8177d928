"""Uncertainty of the predictions of a neural network, estimated from its embeddings.

>>> import numpy as np
>>> from nuq import NuqClassifier
>>> X = np.array([[0.0, 0.0], [0.1, 0.0], [1.0, 1.0], [1.1, 1.0]], dtype=np.float32)
>>> model = NuqClassifier(n_neighbors=2).fit(X, [0, 0, 1, 1])
>>> model.predict([[0.05, 0.0]])
array([0])

The names of the package are imported on first access. The command ``nuq`` therefore starts without importing numpy, which would start
threads.
"""

from __future__ import annotations

from . import _nuq

# Type checkers assume that a constant of this name is true. The module `typing` is not imported, because the command does not need it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import baselines, calibrate, errors, metrics, mlflow, outliers, plot, ray, spark, stores, torch
    from ._classifier import NuqClassifier
    from ._evaluate import Evaluation, evaluate
    from ._guard import Guard, GuardedBatch, guard, load_guard
    from ._load import load
    from ._pipeline import final_step, predict_uncertainty
    from ._regressor import NuqRegressor
    from ._result import Uncertainty
    from ._transformer import NuqTransformer
    from .calibrate import IntervalRule, ScoreThreshold, SetRule, Threshold
    from .errors import NuqError

__version__ = _nuq.__version__

__all__ = [
    "Evaluation",
    "Guard",
    "GuardedBatch",
    "IntervalRule",
    "NuqClassifier",
    "NuqError",
    "NuqRegressor",
    "NuqTransformer",
    "ScoreThreshold",
    "SetRule",
    "Threshold",
    "Uncertainty",
    "baselines",
    "calibrate",
    "errors",
    "evaluate",
    "final_step",
    "guard",
    "load",
    "load_guard",
    "metrics",
    "mlflow",
    "outliers",
    "plot",
    "predict_uncertainty",
    "ray",
    "spark",
    "stores",
    "torch",
]

#: Modules that are attributes of the package.
_MODULES = ("baselines", "calibrate", "errors", "metrics", "mlflow", "outliers", "plot", "ray", "spark", "stores", "torch")

#: The module that contains each of the other attributes.
_CONTENTS = {
    "Evaluation": "_evaluate",
    "Guard": "_guard",
    "GuardedBatch": "_guard",
    "IntervalRule": "calibrate",
    "NuqClassifier": "_classifier",
    "NuqError": "errors",
    "NuqRegressor": "_regressor",
    "NuqTransformer": "_transformer",
    "ScoreThreshold": "calibrate",
    "SetRule": "calibrate",
    "Threshold": "calibrate",
    "Uncertainty": "_result",
    "evaluate": "_evaluate",
    "final_step": "_pipeline",
    "guard": "_guard",
    "load": "_load",
    "load_guard": "_guard",
    "predict_uncertainty": "_pipeline",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"nuq.{name}")
    if name in _CONTENTS:
        value = getattr(import_module(f"nuq.{_CONTENTS[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'nuq' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""MLflow flavor: ``save_model``, ``log_model`` and ``load_model`` for models, baselines and outlier detectors.

The folder of the MLflow model contains the file that ``save`` writes. Nothing is pickled. ``mlflow.pyfunc.load_model`` opens the same
folder; its ``predict`` returns a data frame with the columns of ``predict_uncertainty``, with the column ``score`` for a baseline, or with
``label`` and ``log_density`` for an outlier detector. For models and baselines, it also has one column ``accept_NAME`` for each stored threshold
that can be applied without the logits of the network. Requires MLflow 3 (``mlflow`` or ``mlflow-skinny``) and pandas.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Union

import numpy as np

from . import _arrays, _nuq, load
from ._base import Estimator
from ._package import require
from .baselines import Baseline, Scorer
from .errors import DamagedFileError, InvalidParameterError, ParameterTypeError
from .outliers import NuqOutlierDetector, _is_detector

__all__ = ["load_model", "log_model", "save_model"]

#: Name of the flavor in the file MLmodel.
FLAVOR_NAME = "nuq"
#: Name of the model file in the folder of an MLflow model.
_FILE = "model.nuq"
#: Number of training rows in the input example.
_EXAMPLE_ROWS = 3

_Saved = Union[Estimator, Scorer, NuqOutlierDetector]


def get_default_pip_requirements() -> list[str]:
    """The packages that the environment of a logged model needs in addition to MLflow."""
    return [f"nuq=={_nuq.__version__}", "pandas"]


def save_model(
    nuq_model: Any,
    path: str | os.PathLike[str],
    *,
    signature: Any = None,
    input_example: Any = None,
    mlflow_model: Any = None,
    conda_env: Any = None,
    pip_requirements: Any = None,
    extra_pip_requirements: Any = None,
    code_paths: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Write a fitted model as a folder in the format of MLflow. ``path`` must be an empty folder, or must not exist.

    ``nuq_model`` is a ``NuqClassifier``, a ``NuqRegressor``, a ``NuqOutlierDetector`` or a baseline that scores embeddings. If there is no
    ``input_example``, the first training rows are the example: a data frame if the training rows have column names, otherwise a ``float32``
    array. A baseline has no such example, because it does not return its training rows. If there is no ``signature``, it is inferred from the
    example and its predictions, if there is an example. The other parameters are the same as in
    ``mlflow.pyfunc.save_model``.
    """
    pyfunc, models = require("mlflow.pyfunc", "mlflow"), require("mlflow.models", "mlflow")
    model = _checked(nuq_model)
    example = _example(model) if input_example is None else input_example
    if isinstance(example, (list, tuple)):
        # MLflow would read a list of rows as one column of arrays.
        example = _arrays.rows(example, "input_example")
    if signature is None and example is not None:
        signature = _signature(models, model, example)
    mlflow_model = models.Model() if mlflow_model is None else mlflow_model
    mlflow_model.add_flavor(FLAVOR_NAME, nuq_version=_nuq.__version__, estimator=type(model).__name__)
    if pip_requirements is None and conda_env is None and extra_pip_requirements is None:
        pip_requirements = get_default_pip_requirements()
    elif extra_pip_requirements is not None:
        # A string is the path of a requirements file.
        given = [f"-r {extra_pip_requirements}"] if isinstance(extra_pip_requirements, str) else extra_pip_requirements
        extra_pip_requirements = [*get_default_pip_requirements(), *given]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / _FILE
        model.save(file)
        pyfunc.save_model(
            path=os.fspath(path),
            loader_module=__name__,
            data_path=str(file),
            code_paths=code_paths,
            conda_env=conda_env,
            mlflow_model=mlflow_model,
            signature=signature,
            input_example=example,
            pip_requirements=pip_requirements,
            extra_pip_requirements=extra_pip_requirements,
            metadata=metadata,
        )


def log_model(nuq_model: Any, name: str = "model", *, registered_model_name: str | None = None, **options: Any) -> Any:
    """Log a fitted model to the active run of MLflow. If ``registered_model_name`` is given, register the model under this name. ``options``
    are parameters of ``save_model`` and of ``mlflow.models.Model.log``, such as ``params``, ``tags`` and ``step``. Returns MLflow's
    ``ModelInfo``; ``load_model`` opens its ``model_uri``."""
    models = require("mlflow.models", "mlflow")
    # The model is checked here, so that an error is raised before MLflow creates a run.
    _checked(nuq_model)
    return models.Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        registered_model_name=registered_model_name,
        nuq_model=nuq_model,
        **options,
    )


def load_model(model_uri: str, dst_path: str | None = None) -> Any:
    """Open a saved or logged model: the ``NuqClassifier``, ``NuqRegressor``, ``NuqOutlierDetector`` or baseline.

    ``model_uri`` is a path or a URI of MLflow, for example ``"runs:/RUN/model"`` or ``"models:/NAME/1"``. A remote model is copied to the
    folder ``dst_path``, by default a temporary one.
    """
    artifacts, models = require("mlflow.artifacts", "mlflow"), require("mlflow.models", "mlflow")
    folder = artifacts.download_artifacts(artifact_uri=os.fspath(model_uri), dst_path=dst_path)
    flavors = models.Model.load(folder).flavors
    if FLAVOR_NAME not in flavors:
        raise InvalidParameterError(
            f"model_uri={model_uri!r} has no flavor 'nuq', only {', '.join(map(repr, flavors))}: open it with mlflow.pyfunc.load_model"
        )
    root = Path(folder).resolve()
    data = (root / flavors["python_function"]["data"]).resolve()
    if root not in data.parents:
        # The description of a model may come from another person.
        raise InvalidParameterError(f"model_uri={model_uri!r}: its description names {str(data)!r}, which is outside of the folder of the model")
    return _opened(data)


def _signature(models: Any, model: _Saved, example: Any) -> Any:
    with warnings.catch_warnings():
        # MLflow warns that integer columns cannot contain missing values. Labels are never missing.
        warnings.filterwarnings("ignore", "Hint: Inferred schema contains integer column", UserWarning)
        outputs = models.infer_signature(None, _Predictor(model).predict(example)).outputs
    inferred = models.infer_signature(example)
    inferred.outputs = outputs
    return inferred


def _load_pyfunc(path: str) -> _Predictor:
    """Open the model of the flavor ``python_function``. MLflow calls this function."""
    return _Predictor(_opened(Path(path)))


def _checked(model: Any) -> _Saved:
    if isinstance(model, Scorer) and model._inputs != ("X",):
        raise ParameterTypeError(
            f"nuq_model={model!r}: this baseline needs {' and '.join(model._inputs)}; MLflow passes one table, so only baselines of "
            "embeddings can be saved"
        )
    if not isinstance(model, (Estimator, Scorer, NuqOutlierDetector)):
        raise ParameterTypeError(
            f"nuq_model={model!r}: expected a fitted NuqClassifier, NuqRegressor, NuqOutlierDetector or baseline of embeddings"
        )
    model._check_fitted()
    return model


def _opened(path: Path) -> _Saved:
    model = load(path)
    if isinstance(model, Baseline):
        if isinstance(model, Scorer):
            return model
        raise DamagedFileError(f"{path} is the file of a baseline that does not score embeddings")
    return NuqOutlierDetector.load(path) if _is_detector(model) else model


def _example(model: _Saved) -> Any:
    """The first training rows; None for a baseline, because it does not return training rows."""
    fitted = model._fitted() if isinstance(model, NuqOutlierDetector) else model
    if not isinstance(fitted, Estimator):
        return None
    rows = fitted._model.training_rows(fitted.training_ids_[:_EXAMPLE_ROWS].tolist(), fitted._threads())
    names = fitted._model.column_names()
    return rows if names is None else require("pandas", "mlflow").DataFrame(rows, columns=names)


class _Predictor:
    """The object whose methods ``mlflow.pyfunc`` calls."""

    def __init__(self, model: _Saved) -> None:
        self._model = model

    def get_raw_model(self) -> _Saved:
        """The model that ``load_model`` returns."""
        return self._model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """A data frame with one line per row."""
        columns, index = self._columns(model_input)
        return require("pandas", "mlflow").DataFrame(columns, index=index)

    def _columns(self, X: Any) -> tuple[dict[str, np.ndarray], Any]:
        model, index = self._model, _arrays.row_index(X)
        if isinstance(model, NuqOutlierDetector):
            scores = model.score_samples(X)
            return {"label": np.where(scores < model.offset_, -1, 1), "log_density": scores}, index
        if isinstance(model, Scorer):
            scores = model.score(X)
            accepted = {name: threshold.accept(scores) for name, threshold in model.thresholds_.items()}
            return {"score": scores, **_accept_columns(accepted)}, index
        result = model.predict_uncertainty(X)
        # A threshold that was chosen with the logits of the network cannot be applied without logits, unless it is a threshold on the
        # density with the target `coverage` or `false_alarm`.
        usable = {name: rule for name, rule in model.thresholds_.items() if rule._inner.applies_to("nuq")}
        accepted = {name: threshold.accept(result) for name, threshold in usable.items()}
        return {**dict(result.items()), **_accept_columns(accepted)}, index


def _accept_columns(accepted: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"accept_{name}": values for name, values in accepted.items()}

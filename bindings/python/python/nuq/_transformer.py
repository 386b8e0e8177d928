"""The transformer ``NuqTransformer``: uncertainties as features of other estimators."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from . import _arrays, _tables
from ._base import Estimator
from ._classifier import NuqClassifier
from ._params import Parameters
from ._regressor import NuqRegressor
from ._result import Uncertainty
from .errors import InvalidParameterError, ParameterTypeError

#: The columns that are features, for each kind of estimator. Logarithms are used, because the uncertainties themselves may be infinite.
_FEATURES = {
    "classifier": ("probability", "aleatoric", "log_epistemic", "log_total", "log_density"),
    "regressor": ("mean", "log_aleatoric", "log_epistemic", "log_total", "log_density"),
}


class NuqTransformer(Parameters):
    """Uncertainties of a ``NuqClassifier`` or ``NuqRegressor`` as features of other estimators.

    ``transform`` returns the columns of ``predict_uncertainty`` that ``get_feature_names_out()`` lists. ``fit_transform`` computes the features
    of each training row from the other training rows, so that a later step receives comparable features for training rows and new rows. Its
    result therefore differs from ``transform`` of the same rows. ``set_output`` works as in scikit-learn.

    Parameters
    ----------
    estimator : a ``NuqClassifier`` or ``NuqRegressor``, which is copied and not changed; None for ``NuqClassifier()``.

    Attributes
    ----------
    estimator_ : the fitted copy.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [0.1, 0.0], [1.0, 1.0], [1.1, 1.0]], dtype=np.float32)
    >>> transformer = NuqTransformer(NuqClassifier(n_neighbors=2)).fit(X, [0, 0, 1, 1])
    >>> transformer.transform(X).shape
    (4, 5)
    """

    estimator_: NuqClassifier | NuqRegressor

    def __init__(self, estimator: NuqClassifier | NuqRegressor | None = None) -> None:
        self.estimator = estimator

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The estimator; with ``deep`` also its parameters, as ``estimator__NAME``."""
        params: dict[str, Any] = {"estimator": self.estimator}
        if deep and isinstance(self.estimator, Estimator):
            params.update({f"estimator__{name}": value for name, value in self.estimator.get_params().items()})
        return params

    def set_params(self, **changes: Any) -> NuqTransformer:
        """Change the estimator, or its parameters by ``estimator__NAME``."""
        nested = {name.partition("__")[2]: value for name, value in changes.items() if name.startswith("estimator__")}
        super().set_params(**{name: value for name, value in changes.items() if not name.startswith("estimator__")})
        if nested:
            if self.estimator is None:
                raise InvalidParameterError("estimator is None: give an estimator before its parameters")
            self.estimator.set_params(**nested)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        targets = TargetTags(required=True)
        return Tags(estimator_type=None, target_tags=targets, transformer_tags=TransformerTags(), input_tags=InputTags())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NuqTransformer:
        """Fit a copy of the estimator."""
        estimator = NuqClassifier() if self.estimator is None else self.estimator
        if not isinstance(estimator, (NuqClassifier, NuqRegressor)):
            raise ParameterTypeError(f"estimator={estimator!r}: expected a NuqClassifier, a NuqRegressor or None")
        self.estimator_ = type(estimator)(**estimator.get_params()).fit(X, y, sample_weight)
        return self

    def transform(self, X: Any) -> Any:
        """The features of each row, as an array or as the kind of table that ``set_output`` chooses."""
        self._check_fitted()
        return self._features(self.estimator_.predict_uncertainty(X), _arrays.row_index(X))

    def fit_transform(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit, and return the features of the training rows. The features of each row are computed from the other training rows. Rows with
        the weight 0 are an error, because the model does not contain them."""
        self.fit(X, y, sample_weight)
        left_out = self.estimator_.leave_one_out()
        if sample_weight is not None and len(left_out) != len(_arrays.rows(X)):
            raise InvalidParameterError("sample_weight contains 0: remove these rows, or call fit and then transform")
        return self._features(left_out, _arrays.row_index(X))

    def _features(self, result: Uncertainty, index: Any) -> Any:
        columns = {name: result[name] for name in _FEATURES[self.estimator_._kind]}
        output = self._output()
        return np.column_stack(list(columns.values())) if output == "default" else _tables.table(columns, output, index)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features. ``input_features`` is ignored: the features are not columns of the input."""
        self._check_fitted()
        return np.array(_FEATURES[self.estimator_._kind], dtype=object)

    def set_output(self, *, transform: str | None = None) -> NuqTransformer:
        """Choose the type of the result of ``transform`` and ``fit_transform``: "default" (an array), "pandas" or "polars"; None changes
        nothing."""
        if transform is not None:
            # scikit-learn reads this attribute and copies it to clones.
            self._sklearn_output_config = {"transform": _arrays.choice(transform, "transform", ("default", "pandas", "polars"))}
        return self

    def _output(self) -> str:
        """The type of the result that ``set_output`` has chosen, or otherwise ``sklearn.set_config``."""
        config: dict[str, str] = self.__dict__.get("_sklearn_output_config", {})
        sklearn = sys.modules.get("sklearn")
        return config.get("transform") or (sklearn.get_config()["transform_output"] if sklearn else "default")

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the input."""
        self._check_fitted()
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns of the input. The attribute does not exist if the training rows have no names."""
        self._check_fitted()
        return self.estimator_.feature_names_in_

    def _steps(self) -> list[tuple[str, str]]:
        return [*self.estimator_._steps()[:-1], ("features", ", ".join(_FEATURES[self.estimator_._kind]))]

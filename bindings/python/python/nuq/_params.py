"""Parameters of estimators and baselines by the rules of scikit-learn, and the error of an estimator that is not fitted.

scikit-learn is used if it is already loaded, and never imported.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, TypeVar

import numpy as np

from . import _html
from .errors import InvalidParameterError, NotFittedError

_Self = TypeVar("_Self", bound="Parameters")


class Parameters:
    """Base class with ``get_params``, ``set_params`` and ``repr`` from the parameters of the constructor."""

    @classmethod
    def _parameters(cls) -> dict[str, inspect.Parameter]:
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        signature = inspect.signature(cls.__init__).parameters
        return {name: value for name, value in signature.items() if name != "self" and value.kind in named}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self: _Self, **changes: Any) -> _Self:
        """Change parameters. Parameters of the fit take effect at the next ``fit``."""
        names = list(self._parameters())
        for name, value in changes.items():
            if name not in names:
                raise InvalidParameterError(
                    f"Invalid parameter {name!r} for estimator {self!r}. Valid parameters are: {names}."
                )
            setattr(self, name, value)
        return self

    def _is_default(self, name: str) -> bool:
        value, default = getattr(self, name), self._parameters()[name].default
        return value is default or bool(np.array_equal(value, default))

    def __repr__(self) -> str:
        changed = [f"{name}={value!r}" for name, value in self.get_params(deep=False).items() if not self._is_default(name)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        """A diagram with the fitted values and the parameters, for notebooks."""
        params = {name: (value, not self._is_default(name)) for name, value in self.get_params(deep=False).items()}
        is_fitted = self.__sklearn_is_fitted__()
        tables = {title: rules._table() for title, rules in self._rules().items() if rules} if is_fitted else {}
        return _html.model(type(self).__name__, self._steps() if is_fitted else [], params, tables)

    def _steps(self) -> list[tuple[str, str]]:
        """Titles and fitted values of the steps of a prediction, for the diagram."""
        raise NotImplementedError

    def _rules(self) -> dict[str, Any]:
        """Stored thresholds, sets and intervals by title, for the diagram."""
        return {}

    def __sklearn_is_fitted__(self) -> bool:
        raise NotImplementedError

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            message = (
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )
            raise _not_fitted()(message)


def _not_fitted() -> type[Exception]:
    """The exception class; if scikit-learn is loaded, a subclass of nuq's and of scikit-learn's ``NotFittedError``."""
    exceptions = sys.modules.get("sklearn.exceptions")
    if exceptions is None:
        return NotFittedError
    return _shared_not_fitted(exceptions.NotFittedError)


@functools.cache
def _shared_not_fitted(other: type[Exception]) -> type[Exception]:
    # pickle cannot import this class by name. Unpickling therefore creates it again.
    attributes = {"__module__": "nuq.errors", "__reduce__": lambda self: (_restore_not_fitted, self.args)}
    return type("NotFittedError", (NotFittedError, other), attributes)


def _restore_not_fitted(message: str) -> Exception:
    return _not_fitted()(message)

"""The target of a threshold that is chosen on held-out rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _nuq
from ._classifier import NuqClassifier
from ._guard_rows import Output, Rows
from .calibrate import ModelRequest, Request
from .errors import FewRowsError


class Target(NamedTuple):
    """The checked arguments of a call of ``calibrate``."""

    targets: dict[str, Any]
    request: Request
    measure: str

    @classmethod
    def checked(cls, coverage: Any, risk: Any, false_alarm: Any, delta: Any, measure: Any) -> Target:
        """Check the arguments. The default target is a false alarm rate of 5 %."""
        if coverage is None and risk is None and false_alarm is None:
            false_alarm = 0.05
        targets = {"coverage": coverage, "risk": risk, "false_alarm": false_alarm}
        checked = ModelRequest.checked(targets, delta, measure, knows_errors=True)
        return cls(targets, checked.request, checked.measure)

    @property
    def needs_labels(self) -> bool:
        """Whether the held-out rows need labels."""
        return self.request.target == "risk"

    def check_rows(self, n: int, prefix: str = "") -> None:
        """Check that ``n`` held-out rows are enough for a finite threshold. For the target ``risk``, only zero rows are an error here,
        because the necessary number of rows depends on the errors. ``prefix`` is the beginning of the error message."""
        if n == 0:
            raise FewRowsError(f"{prefix}there is no row to choose the threshold on: hold out more rows")
        if not self.needs_labels and not self._is_finite(n):
            level = f"{self.request.target}={self.request.share:g}"
            raise FewRowsError(
                f"{prefix}{n} held-out rows are too few for {level}, which needs at least {self._fewest_rows()}: hold out more rows"
            )

    def choose(self, model: NuqClassifier, name: str, rows: Rows, output: Output | None) -> None:
        """Choose the threshold on held-out rows and store it in the model. ``output`` describes the output of the network if
        the threshold is for the predictions of the network; None if it is for the predictions of NUQ."""
        network = {} if output is None else output.arguments(rows.outputs)
        arguments = {**self.targets, "delta": self.request.delta, "measure": self.measure, "name": name, **network}
        model.calibrate(rows.embeddings, rows.labels, **arguments)

    def _is_finite(self, n: int) -> bool:
        scores = np.arange(n, dtype=np.float64)
        return bool(np.isfinite(_nuq.ScoreThreshold.calibrate(scores, None, *self.request, 0).value))

    def _fewest_rows(self) -> int:
        """Smallest number of held-out rows with a finite threshold. The smallest sufficient power of two is searched first, then bisection
        finds the number."""
        high = 1
        while not self._is_finite(high) and high < 2**24:
            high *= 2
        low = high // 2
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_finite(middle) else (middle, high)
        return high

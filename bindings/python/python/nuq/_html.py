"""HTML of models and results in notebooks.

All text from data and parameters is escaped. Backgrounds are transparent and text has the color of the notebook, so that the result is
readable in light and dark notebooks. Nothing is loaded from the network, and there are no scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

#: Largest number of rows that are shown.
ROWS = 8
#: Largest number of characters of a text in a cell.
WIDTH = 500
#: Number of bars of a histogram.
BARS = 40

_STYLE = """
.nuq{font:13px/1.45 system-ui,sans-serif;max-width:60em}
.nuq-box{border:1px solid rgba(128,128,128,.45);border-radius:6px;overflow:hidden;margin:.3em 0}
.nuq-head{padding:.45em .8em;background:rgba(80,120,220,.16);font-weight:600;display:flex;gap:.8em;align-items:baseline}
.nuq-tag{font-weight:400;font-size:12px;opacity:.75}
.nuq-flow{display:flex;flex-wrap:wrap;gap:.4em 0;padding:.7em .8em;align-items:stretch}
.nuq-part{display:flex}
.nuq-step{border:1px solid rgba(128,128,128,.35);border-radius:5px;padding:.35em .7em;flex:0 1 auto;max-width:23em}
.nuq-step b{display:block;font-size:11px;font-weight:600;opacity:.7}
.nuq-arrow{align-self:center;padding:0 .45em;opacity:.6}
.nuq details{border-top:1px solid rgba(128,128,128,.3);padding:.35em .8em}
.nuq summary{cursor:pointer}
.nuq-scroll{overflow-x:auto}
.nuq table.nuq-table{border-collapse:collapse;margin:.4em 0;font-size:12.5px;border:0}
.nuq table.nuq-table th,.nuq table.nuq-table td{padding:.2em .7em;border:0;text-align:left;background:none;vertical-align:top}
.nuq table.nuq-table td.nuq-n,.nuq table.nuq-table th.nuq-n{text-align:right;font-variant-numeric:tabular-nums}
.nuq table.nuq-table th{font-weight:600;border-bottom:1px solid rgba(128,128,128,.5);white-space:nowrap}
.nuq table.nuq-table tr+tr td{border-top:1px solid rgba(128,128,128,.18)}
.nuq-changed td{font-weight:600;background:rgba(80,120,220,.12)!important}
.nuq svg{display:block;color:#5b82d6}
.nuq-note{opacity:.75;font-size:12px;margin:.2em 0}
"""


def document(*parts: str) -> str:
    """An HTML element that contains the style sheet and the parts."""
    return f'<div class="nuq"><style>{_STYLE}</style>{"".join(parts)}</div>'


def text(value: Any, width: int = WIDTH) -> str:
    """A value as escaped text of limited length."""
    # The module is imported here, because its table of entity names would add a millisecond to each import of nuq.
    import html

    shown = value if isinstance(value, str) else _number(value) if _is_number(value) else str(value)
    return html.escape(shown if len(shown) <= width else shown[: width - 1] + "…")


def _is_number(value: Any) -> bool:
    return isinstance(value, (float, np.floating))


def _number(value: float) -> str:
    # The format `#` keeps trailing zeros, so that all numbers of a column have the same precision.
    return f"{value:#.4g}".rstrip(".")


def table(columns: Mapping[str, Sequence[Any] | np.ndarray], labels: Iterable[Any] | None = None) -> str:
    """A table with one line per row. ``labels`` are the values of an additional first column without a name."""
    names = list(columns)
    numeric = [_is_numeric(columns[name]) for name in names]
    head = "".join(_cell("th", name, number) for name, number in zip(names, numeric))
    lines = [
        "".join(_cell("td", value, number) for value, number in zip(values, numeric))
        for values in zip(*(columns[name] for name in names))
    ]
    if labels is not None:
        head = "<th></th>" + head
        lines = [_cell("td", label, False) + line for label, line in zip(labels, lines)]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="nuq-scroll"><table class="nuq-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _is_numeric(column: Sequence[Any] | np.ndarray) -> bool:
    if isinstance(column, np.ndarray):
        return column.dtype.kind in "iuf"
    return bool(len(column)) and all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in column)


def _cell(tag: str, value: Any, is_number: bool) -> str:
    return f'<{tag} class="nuq-n">{text(value)}</{tag}>' if is_number else f"<{tag}>{text(value)}</{tag}>"


def uncertainty(columns: Mapping[str, np.ndarray], index: Any) -> str:
    """The first rows, and a histogram of ``log_epistemic``, or of ``log_density`` if there is no such column."""
    n = len(next(iter(columns.values()))) if columns else 0
    shown = {name: column[:ROWS] for name, column in columns.items()}
    labels = range(min(n, ROWS)) if index is None else list(index[:ROWS])
    parts = [f'<div class="nuq-head">Uncertainty<span class="nuq-tag">{n:,} rows</span></div>', table(shown, labels)]
    if n > ROWS:
        parts.append(f'<p class="nuq-note" style="padding:0 .8em">{n - ROWS:,} more rows</p>')
    ranked = next((name for name in ("log_epistemic", "log_density") if name in columns), None)
    if ranked is not None and n > 1:
        parts.append(f'<div style="padding:.2em .8em .6em">{histogram(columns[ranked], ranked)}</div>')
    return f'<div class="nuq-box">{"".join(parts)}</div>'


def histogram(values: np.ndarray, name: str) -> str:
    """A small histogram between the percentiles 0.5 and 99.5 of the finite values. Values outside these percentiles count in the outermost
    bars. If both percentiles are equal, the result is a sentence with the number of values that equal them."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return ""
    low, high = (float(end) for end in np.percentile(finite, [0.5, 99.5]))
    if not high > low:
        equal = int((values == low).sum())
        share = "all" if equal == len(values) else f"{equal:,} of {len(values):,}"
        return f'<p class="nuq-note">{text(name)}: {share} values are {text(low)}</p>'
    counts, _ = np.histogram(np.clip(finite, low, high), BARS, (low, high))
    width, height = 8, 56
    bars = "".join(
        f'<rect x="{i * width}" y="{height - tall:.1f}" width="{width - 1}" height="{tall:.1f}"/>'
        for i, tall in enumerate(height * counts / counts.max())
        if tall > 0
    )
    size = f'width="{BARS * width}" height="{height}" viewBox="0 0 {BARS * width} {height}"'
    label = f"histogram of {text(name)} from {text(low)} to {text(high)}"
    axis = (
        f'<div class="nuq-note" style="display:flex;justify-content:space-between;max-width:{BARS * width}px">'
        f"<span>{text(low)}</span><span>{text(name)}</span><span>{text(high)}</span></div>"
    )
    return f'<svg {size} role="img" aria-label="{label}" fill="currentColor" style="max-width:100%">{bars}</svg>{axis}'


def model(
    name: str,
    steps: Sequence[tuple[str, str]],
    params: Mapping[str, tuple[Any, bool]],
    rules: Mapping[str, Mapping[str, Sequence[Any]]],
) -> str:
    """A diagram of a model. ``steps`` is empty before the fit. ``params`` contains the value of each parameter, and whether it differs from
    the default. ``rules`` contains tables of stored thresholds, prediction sets and prediction intervals."""
    state = "fitted" if steps else "not fitted"
    parts = [f'<div class="nuq-head">{text(name)}<span class="nuq-tag">{state}</span></div>']
    if steps:
        boxes = [f'<div class="nuq-step"><b>{text(title)}</b>{text(detail)}</div>' for title, detail in steps]
        # An arrow is in the same part as the box before it, so that a line break never separates them.
        arrow = '<span class="nuq-arrow">→</span></div><div class="nuq-part">'
        parts.append(f'<div class="nuq-flow"><div class="nuq-part">{arrow.join(boxes)}</div></div>')
    for title, columns in rules.items():
        parts.append(f"<details open><summary>{text(title)}</summary>{table(columns)}</details>")
    if params:
        parts.append(f"<details{'' if steps else ' open'}><summary>Parameters</summary>{_params(params)}</details>")
    return document(f'<div class="nuq-box">{"".join(parts)}</div>')


def _params(params: Mapping[str, tuple[Any, bool]]) -> str:
    lines = "".join(
        f'<tr{" class=nuq-changed" if changed else ""}><td>{text(name)}</td><td>{text(repr(value))}</td></tr>'
        for name, (value, changed) in params.items()
    )
    return f'<div class="nuq-scroll"><table class="nuq-table"><tbody>{lines}</tbody></table></div>'

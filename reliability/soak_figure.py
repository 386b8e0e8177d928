"""The figure of a run under load: memory, descriptors and threads, latencies and answers per second over time, as SVG."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from statistics import median

from record import ROOT

WIDTH, LEFT, RIGHT = 860, 84, 130
TOP, PANEL, GAP, BOTTOM = 104, 128, 62, 62

BLUE, ORANGE, TEXT, MUTED, GRID, SHADE = "#0072b2", "#d55e00", "#1f2328", "#59636e", "#e3e6e9", "#f4f5f7"

# The curves have at most this number of points; each is a summary of equally many seconds.
POINTS = 300


def draw(series: list[dict], title: str, warm_up: float) -> str:
    """Draws records, one per second, with the fields `time`, `memory`, `descriptors`, `threads`, `p50`, `p99` and `requests`. In the panel
    of the memory, the first `warm_up` seconds are gray."""
    duration = max(series[-1]["time"] - series[0]["time"], 1)
    per_point = math.ceil(len(series) / POINTS)
    groups = [series[i : i + per_point] for i in range(0, len(series), per_point)]
    start = series[0]["time"]
    times = [group[0]["time"] - start for group in groups]

    def curve(name: str, summary: Callable = median) -> list[tuple[float, float]]:
        values = ((t, [s[name] for s in group if s[name] is not None]) for t, group in zip(times, groups))
        return [(t, summary(v)) for t, v in values if v]

    panels = [
        ("resident memory, MiB", "linear", [(curve("memory"), BLUE, "memory")]),
        ("open descriptors and threads", "linear", [(curve("descriptors"), BLUE, "descriptors"), (curve("threads"), ORANGE, "threads")]),
        ("latency of readers, ms", "log", [(curve("p50"), BLUE, "p50"), (curve("p99"), ORANGE, "p99")]),
        ("answers per second", "linear", [(curve("requests"), BLUE, "answers")]),
    ]
    height = TOP + len(panels) * (PANEL + GAP) - GAP + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="Roboto, sans-serif" role="img">',
        f"<title>{title}</title>",
        fonts(),
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        text(LEFT, 34, title, 20, TEXT, weight=500),
        text(LEFT, 57, subtitle(per_point, warm_up, duration), 13.5, MUTED),
    ]
    x = lambda t: LEFT + (WIDTH - LEFT - RIGHT) * t / duration  # noqa: E731
    for number, (label, scale, curves) in enumerate(panels):
        top = TOP + number * (PANEL + GAP)
        parts += panel(top, label, scale, curves, x, duration, warm_up if number == 0 else 0, number == len(panels) - 1)
    return "\n".join([*parts, "</svg>"]) + "\n"


def subtitle(per_point: int, warm_up: float, duration: float) -> str:
    point = "Each point is one second" if per_point == 1 else f"Each point is the median of {per_point} seconds"
    return f"{point}. The gray part, {warm_up / 60:.3g} min, is the warm-up, in which memory may grow."


def fonts() -> str:
    """The font of the other figures, so that the figure does not depend on installed fonts."""
    faces = []
    for weight, name in ((400, "Regular"), (500, "Medium")):
        path = ROOT / f"crates/nuq-report/assets/Roboto-{name}.ttf"
        if path.exists():
            data = base64.b64encode(path.read_bytes()).decode()
            faces.append(f"@font-face{{font-family:Roboto;font-weight:{weight};src:url(data:font/ttf;base64,{data})}}")
    return f"<style>{''.join(faces)}</style>"


def text(x: float, y: float, content: str, size: float, color: str, anchor: str = "start", weight: int = 400) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}" font-weight="{weight}">{content}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{GRID}" fill="none"/>'


def panel(top, label, scale, curves, x, duration, warm_up, is_last) -> list[str]:
    values = [value for points, _, _ in curves for _, value in points]
    ticks = log_ticks(values) if scale == "log" else linear_ticks(values)
    place = math.log if scale == "log" else float
    low, high = place(ticks[0]), place(ticks[-1])
    y = lambda value: top + PANEL * (1 - (place(max(value, ticks[0])) - low) / (high - low))  # noqa: E731
    parts = [text(LEFT, top - 12, label, 14, TEXT, weight=500)]
    if warm_up:
        parts.append(f'<rect x="{LEFT}" y="{top}" width="{x(min(warm_up, duration)) - LEFT:.1f}" height="{PANEL}" fill="{SHADE}"/>')
    for tick in ticks:
        parts += [line(LEFT, y(tick), WIDTH - RIGHT, y(tick)), text(LEFT - 10, y(tick) + 4.5, f"{tick:,g}", 13, MUTED, "end")]
    for minutes in time_ticks(duration):
        at = x(60 * minutes)
        parts.append(line(at, top, at, top + PANEL))
        if is_last:
            parts.append(text(at, top + PANEL + 20, f"{minutes:g}", 13, MUTED, "middle"))
    if is_last:
        parts.append(text((LEFT + WIDTH - RIGHT) / 2, top + PANEL + 44, "minutes", 14, TEXT, "middle", 500))
    ends = []
    for points, color, name in curves:
        if not points:
            continue
        path = "L".join(f"{x(t):.1f} {y(value):.1f}" for t, value in points)
        parts.append(f'<path d="M{path}" stroke="{color}" stroke-width="1.8" fill="none" stroke-linejoin="round"/>')
        ends.append([y(median([value for _, value in points[-5:]])), color, name])
    # Names of curves at the right; close ones are moved apart.
    ends.sort()
    for former, later in zip(ends, ends[1:]):
        later[0] = max(later[0], former[0] + 17)
    parts += [text(WIDTH - RIGHT + 10, at + 4.5, name, 13.5, color, weight=500) for at, color, name in ends]
    return parts


def linear_ticks(values: list[float]) -> list[float]:
    """Three to six round numbers from zero to at least the largest value. They end at 1 if all values are zero."""
    largest = max(values, default=0) or 1
    step = 10 ** math.floor(math.log10(largest / 2))
    factor = next(factor for factor in (1, 2, 2.5, 5, 10, 20) if largest / (factor * step) <= 5)
    step *= factor
    return [step * i for i in range(math.ceil(largest / step - 1e-9) + 1)]


def log_ticks(values: list[float]) -> list[float]:
    """Powers of ten around all values."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def time_ticks(duration: float) -> list[float]:
    minutes = duration / 60
    step = next((step for step in (0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 240) if minutes / step <= 8), 480)
    return [step * i for i in range(int(minutes / step + 0.02) + 1)]

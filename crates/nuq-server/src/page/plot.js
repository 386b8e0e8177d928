// Axes and marks of charts. Positions are in pixels of the screen.

import { svg } from "./dom.js";
import { clock, day } from "./format.js";

/** Approximate width of a character. */
const CHARACTER = 6.6;

/** Ticks in [low, high]. The step is 1, 2 or 5 times a power of ten, and there are at most `most` intervals. */
export const linearTicks = (low, high, most) => {
  const rough = (high - low) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(candidate => candidate >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) ticks.push(+(i * step).toPrecision(12));
  return ticks;
};

/** Possible times between ticks, in seconds. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

/** Ticks at round local times, with their texts. */
export const timeTicks = (from, to, most) => {
  const step = 1000 * (STEPS.find(seconds => (to - from) / 1000 / seconds <= most) || 2592000);
  const offset = new Date(from).getTimezoneOffset() * 60000;
  const ticks = [];
  for (let time = Math.ceil((from - offset) / step) * step + offset; time <= to; time += step) {
    ticks.push([time, step >= 86400000 ? day(time) : clock(time, step < 60000)]);
  }
  return ticks;
};

/**
 * The frame of a chart: `x` and `y` are `{ low, high, ticks: [[value, text]], title }`. Returns the shapes of the axes, the functions from
 * values to pixels, and the area.
 */
export const frame = (width, height, x, y) => {
  const widest = Math.max(...y.ticks.map(([, text]) => text.length), 1);
  const area = { left: Math.round(widest * CHARACTER + 12), right: width - 10, top: 26, bottom: height - 42 };
  const scale = (axis, from, to) => value => from + (to - from) * (value - axis.low) / (axis.high - axis.low || 1);
  const toX = scale(x, area.left, area.right), toY = scale(y, area.bottom, area.top);
  const shapes = [svg("text", { class: "axis-title", x: 0, y: 12 }, y.title)];
  for (const [value, text] of y.ticks) {
    const at = Math.round(toY(value)) + 0.5;
    shapes.push(svg("path", { class: "grid", d: `M${area.left} ${at}H${area.right}` }));
    shapes.push(svg("text", { x: area.left - 8, y: at + 4, "text-anchor": "end" }, text));
  }
  shapes.push(svg("path", { class: "axis", d: `M${area.left} ${area.bottom + 0.5}H${area.right}` }));
  let end = -Infinity;
  for (const [value, text] of x.ticks) {
    const at = toX(value), half = text.length * CHARACTER / 2;
    const middle = Math.min(at, width - half);
    if (middle - half < end + 8) continue;
    end = middle + half;
    shapes.push(svg("path", { class: "axis", d: `M${Math.round(at) + 0.5} ${area.bottom}v5` }));
    shapes.push(svg("text", { x: middle, y: area.bottom + 19, "text-anchor": "middle" }, text));
  }
  shapes.push(svg("text", { class: "axis-title", x: area.right, y: height - 4, "text-anchor": "end" }, x.title));
  return { area, toX, toY, shapes };
};

/** The path of a line. Undefined values interrupt the line. */
export const path = points => {
  let pen = "M";
  return points.map(([x, y]) => {
    if (y === undefined || y === null || Number.isNaN(y)) { pen = "M"; return ""; }
    const part = `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
    return part;
  }).join("");
};

/** The outlines of bars, each given as `[left, right, top]`. All bars begin at `bottom`. */
export const bars = (rectangles, bottom) => rectangles
  .filter(([, , top]) => bottom - top > 0.2)
  .map(([left, right, top]) => `M${left.toFixed(1)} ${bottom}V${top.toFixed(1)}H${right.toFixed(1)}V${bottom}Z`).join("");

/** The outline of a histogram as one stepped line. */
export const steps = (rectangles, bottom) => rectangles.length === 0 ? "" :
  `M${rectangles[0][0].toFixed(1)} ${bottom}` + rectangles.map(([left, right, top]) => `L${left.toFixed(1)} ${top.toFixed(1)}H${right.toFixed(1)}`).join("") + `V${bottom}`;

/** A y axis from 0 to a little above the largest value, and at least to `least`. It has about `most` ticks. */
export const fromZero = (values, most, format, title, least = 0) => {
  const largest = Math.max(least, ...values.filter(value => Number.isFinite(value)));
  const ticks = linearTicks(0, largest > 0 ? largest * 1.02 : 1, most);
  const step = ticks.length > 1 ? ticks[1] : 1;
  const high = Math.max(ticks[ticks.length - 1] + (ticks[ticks.length - 1] < largest ? step : 0), step);
  return { low: 0, high, ticks: linearTicks(0, high, most + 1).map(value => [value, format(value)]), title };
};

const VIRIDIS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];

/** The color map viridis at t in [0, 1]. */
export const viridis = t => {
  const at = Math.min(1, Math.max(0, t)) * (VIRIDIS.length - 1), below = Math.min(Math.floor(at), VIRIDIS.length - 2);
  const mixed = VIRIDIS[below].map((low, i) => Math.round(low + (at - below) * (VIRIDIS[below + 1][i] - low)));
  return `rgb(${mixed.join(" ")})`;
};

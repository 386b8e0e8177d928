// Formats of numbers and times.

const minus = text => text.replace("-", "−");

/**
 * A number with `digits` significant digits, or “not finite” for `null`. The server sends `null` for infinity and NaN, because JSON cannot
 * represent them.
 */
export const number = (value, digits = 4) => {
  if (value === null || value === undefined) return "not finite";
  const size = Math.abs(value);
  return minus(size !== 0 && (size < 1e-4 || size >= 1e7) ? value.toExponential(2) : String(+value.toPrecision(digits)));
};

export const count = value => Math.round(value).toLocaleString("en-US");

/** "1 row", "2 rows". */
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** A share in percent. The space does not break, so that number and sign stay on one line. */
export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)}\u00a0%`;

/** A share, rounded so that only a share of exactly 0 or 1 is shown as 0 % or "all". */
export const rank = share => {
  if (share >= 1) return "all";
  if (share > 0.999) return "more than 99.9 %";
  if (share > 0 && share < 0.001) return "less than 0.1 %";
  return percent(share);
};

/** A duration in microseconds, milliseconds or seconds. */
export const duration = seconds => {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1e-3) return `${number(1e6 * seconds, 3)} µs`;
  if (seconds < 1) return `${number(1e3 * seconds, 3)} ms`;
  return `${number(seconds, 3)} s`;
};

const two = value => String(value).padStart(2, "0");

export const clock = (time, seconds = true) => {
  const date = new Date(time);
  return `${two(date.getHours())}:${two(date.getMinutes())}${seconds ? `:${two(date.getSeconds())}` : ""}`;
};

/** The clock time, with the date unless it is today. */
export const moment = time => {
  const date = new Date(time);
  return date.toDateString() === new Date().toDateString() ? clock(time) : `${day(time)}, ${clock(time)}`;
};

export const day = time => new Date(time).toLocaleDateString("en-US", { month: "short", day: "numeric" });

/** Powers of ten, such as 10⁻³. */
export const powerOfTen = exponent => {
  if (exponent >= 0 && exponent <= 3) return count(10 ** exponent);
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  return "10" + String(exponent).replace("-", "⁻").replace(/\d/g, digit => digits[digit]);
};

/** The 95 % Wilson interval of a share. */
export const shareInterval = (part, whole) => {
  if (!whole) return [0, 1];
  const z = 1.96, p = part / whole, scale = 1 + z * z / whole;
  const middle = (p + z * z / (2 * whole)) / scale;
  const half = z / scale * Math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole));
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
};

// For each measure: name on a button, name on an axis, subject of a sentence, and meaning. The page shows the values that thresholds
// compare. A higher value always means a less certain prediction.
const MEASURES = {
  epistemic: ["Epistemic", "epistemic uncertainty (logarithm)", "the logarithm of its epistemic uncertainty", "how unlike the training data a row is"],
  aleatoric: ["Aleatoric", "aleatoric uncertainty", "its aleatoric uncertainty", "how much the labels of similar training rows disagree"],
  total: ["Total", "total uncertainty (logarithm)", "the logarithm of its total uncertainty", "aleatoric and epistemic uncertainty together"],
  density: ["Density", "negative log density", "its negative log density", "how rare rows like this one are in the training data"],
};
const measureText = (measure, i) => (MEASURES[measure] || [measure, measure, `its ${measure}`, ""])[i];

/** All measures, in the order of the page. */
export const measures = Object.keys(MEASURES);

/** The name of a measure on a button. */
export const measureShort = measure => measureText(measure, 0);

/** The name of a measure on an axis. */
export const measureName = measure => measureText(measure, 1);

/** The measure of a row, as the subject of a sentence. */
export const measureSubject = measure => measureText(measure, 2);

/** What a measure means, in a few words. */
export const measureMeaning = measure => measureText(measure, 3);

/** The name of the rows with which live rows, the rows that the server has scored, are compared. */
export const comparedRows = kind => (kind === "held_out" ? "held-out rows" : "training rows");

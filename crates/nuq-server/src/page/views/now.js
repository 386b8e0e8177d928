// Activity: scored rows, latency, the share of rejected rows compared with the calibrated share, and the uncertainty of live (recently
// scored) rows compared with the uncertainty of held-out rows.

import * as api from "../api.js";
import { choice, html, notice, svg } from "../dom.js";
import { createFigure } from "../figure.js";
import { clock, comparedRows, count, counted, duration, measureMeaning, measureName, measureShort, measures as allMeasures, number, percent, shareInterval } from "../format.js";
import { bars, frame, fromZero, linearTicks, path, steps, timeTicks } from "../plot.js";

const RANGES = [["10", "10 minutes"], ["60", "1 hour"], ["1440", "1 day"]];
const HEIGHT = 230;
const MIN_ROWS = 20;

/**
 * Adds up consecutive intervals, so that at most `most` columns remain. The result includes columns without requests. `activity` is the answer
 * of the route `/activity`: each interval lasts `seconds`, and the oldest stored interval begins at the time `since`.
 */
export const columns = (activity, minutes, most) => {
  const width = 1000 * activity.seconds;
  const range = Math.max(width, Math.min(minutes * 60000, activity.now - activity.since));
  const wide = width * Math.ceil(range / width / most);
  const to = Math.floor(activity.now / wide) * wide + wide;
  const from = Math.max(to - Math.ceil(range / wide) * wide, Math.floor(activity.since / wide) * wide);
  const result = [];
  for (let time = Math.min(from, to - wide); time < to; time += wide) {
    result.push({ time, end: time + wide, requests: 0, rows: 0, p50: 0, p99: undefined, thresholds: {} });
  }
  const first = result[0].time;
  for (const part of activity.intervals) {
    const column = result[Math.floor((part.time - first) / wide)];
    if (!column) continue;
    column.requests += part.requests;
    column.rows += part.rows;
    // The median of a column is approximated by the mean of the medians of its intervals, weighted by their numbers of requests.
    column.p50 += part.requests * (part.seconds_p50 ?? 0);
    if (part.seconds_p99 !== null) column.p99 = Math.max(column.p99 ?? 0, part.seconds_p99);
    for (const [name, { rows, rejected }] of Object.entries(part.thresholds)) {
      const sum = column.thresholds[name] ?? { rows: 0, rejected: 0 };
      column.thresholds[name] = { rows: sum.rows + rows, rejected: sum.rejected + rejected };
    }
  }
  // The last column is left out if less than half of its time has passed, because its rate would vary at random.
  const last = result[result.length - 1];
  if (result.length > 1 && activity.now - last.time < 0.5 * wide) result.pop();
  result.forEach(column => { column.p50 = column.requests ? column.p50 / column.requests : undefined; });
  return result;
};

/** Compares a share of rejected rows with the calibrated share. The result is undefined for a few rows, which are not enough to judge a share. */
export const verdict = (rejected, rows, expected) => {
  if (rows < MIN_ROWS) return undefined;
  const [low, high] = shareInterval(rejected, rows);
  if (low > expected.high) return "more";
  if (high < expected.low) return "fewer";
  return "as expected";
};

/** The end of the sentence about the rejected rows. */
const comparison = (state, expected) => ({
  more: `, more than the expected ${percent(expected.rejected)}`,
  fewer: `, less than the expected ${percent(expected.rejected)}`,
  "as expected": ", about as expected",
})[state] ?? `. At least ${MIN_ROWS} rows are needed for a comparison with the expected ${percent(expected.rejected)}`;

const rangeName = minutes => RANGES.find(([key]) => Number(key) === minutes)[1].replace(/^1 /, "");
/** Rows per minute of a column. The last column has not ended yet, so only its time until now counts. */
const rateOf = now => column => column.rows * 60000 / Math.max(1000, Math.min(column.end, now) - column.time);
const between = column => `${clock(column.time)} to ${clock(column.end)}`;

export const create = context => {
  let [minutes, threshold, measure] = [10, undefined, undefined];
  let [activity, distribution, drift] = [];
  const summary = html("p", { class: "summary" });
  const finding = html("p", { class: "finding" });
  const cards = html("dl", { class: "cards" });
  const range = choice("Time range", RANGES, String(minutes), value => { minutes = Number(value); refresh(); });
  const rejected = createFigure({ title: "Share of rejected rows", className: "wide" });
  const rows = createFigure({ title: "Rows scored per minute", text: "How many rows were scored, as a rate per minute." });
  const latency = createFigure({ title: "Time to answer", text: "Half of the requests were answered within the median. One of a hundred took longer than the 99 % line." });
  const measures = html("div");
  const histogram = createFigure({ title: "Uncertainty of live rows", controls: [measures], className: "wide" });
  const thresholds = html("div");
  const empty = notice("No rows scored yet", ["This page shows data as soon as the model has scored rows. Send one:"], context.curl());
  const content = html("div", {},
    html("div", { class: "title-line" }, html("h1", {}, "Now"), html("div", { class: "controls" }, thresholds, range)),
    summary, finding, cards,
    html("div", { class: "figures" }, rejected.node, rows.node, latency.node, histogram.node));
  const node = html("div", {}, empty, content);
  [empty.hidden, content.hidden] = [true, true];

  const chooseThreshold = () => {
    const names = Object.keys(activity.expected);
    if (!names.includes(threshold)) threshold = names[0];
    const key = names.join("\n");
    if (thresholds.dataset.names === key) return;
    thresholds.dataset.names = key;
    thresholds.replaceChildren(...(names.length > 1 ? [choice("Threshold", names.map(name => [name, name]), threshold, name => { threshold = name; render(); })] : []));
  };

  const renderSummary = data => {
    const total = data.reduce((sum, column) => sum + column.rows, 0);
    const requests = data.reduce((sum, column) => sum + column.requests, 0);
    const compared = data.reduce((sum, column) => sum + (column.thresholds[threshold]?.rows ?? 0), 0);
    const rejectedRows = data.reduce((sum, column) => sum + (column.thresholds[threshold]?.rejected ?? 0), 0);
    const expected = compared ? activity.expected[threshold] : undefined;
    const when = `In the last ${rangeName(minutes)}`;
    const state = expected ? verdict(rejectedRows, compared, expected) : undefined;
    summary.textContent = total === 0
      ? `${when}, no rows were scored.`
      : expected
        ? `${when}, ${percent(rejectedRows / compared)} of ${counted(compared, "row")} were rejected${comparison(state, expected)}.`
        : `${when}, ${counted(total, "row")} were scored.`;
    summary.className = `summary ${state === "more" ? "warn" : ""}`;
    finding.textContent = Object.keys(activity.expected).length === 0
      ? "The model has no threshold, so no row is rejected. Calibrate one on held-out rows with nuq calibrate."
      : drift?.alarm
        ? `The data has drifted: the live rows no longer look like the held-out rows. The alarm was raised at ${clock(drift.alarm.time)}.`
        : state === "more"
          ? "The predictions of rejected rows should not be used without a check."
          : drift?.available === false || drift?.is_paused ? "There is no drift test now." : "There is no sign of drift in the data.";
    const busy = [...data].reverse().find(column => column.rows > 0);
    const card = (title, value, ...notes) => html("div", { class: "card" }, html("dt", {}, title), html("dd", { class: "number" }, value), notes.map(note => html("dd", { class: "note" }, note)));
    const interval = expected && `${percent(expected.low)} to ${percent(expected.high)}`;
    cards.replaceChildren(
      card("Rows per minute", busy ? count(rateOf(activity.now)(busy)) : "0", busy ? `from ${between(busy)}` : "no rows", `${count(total)} rows in ${counted(requests, "request")}`),
      card("Time to answer", busy ? duration(busy.p50) : "–", "median of the latest interval", busy && busy.p99 !== undefined ? `99 % within ${duration(busy.p99)}` : ""),
      card("Rejected", expected ? percent(rejectedRows / compared) : "–", expected ? `expected ${percent(expected.rejected)}` : "no row was compared with a threshold", expected ? `95 % range of the expected share: ${interval}` : ""),
      card("Drift", drift?.available === false ? "–" : drift?.alarm ? "Alarm" : drift?.is_paused ? "Paused" : "None", drift?.available === false ? "needs held-out rows" : drift?.alarm ? `raised at ${clock(drift.alarm.time)}` : drift?.is_paused ? "until a threshold is calibrated" : drift?.ended?.length ? `no alarm since ${clock(drift.started)}` : "no alarm so far", html("a", { href: context.link("drift") }, "Show the drift test")));
    cards.children[3].classList.toggle("alarm", Boolean(drift?.alarm));
    cards.children[2].classList.toggle("alarm", state === "more");
  };

  const timeAxis = (data, width) => {
    const [low, high] = [data[0].time, data[data.length - 1].end];
    return { low, high, ticks: timeTicks(low, high, width / 84), title: "local time" };
  };

  const drawRows = (data, rate) => width => {
    const y = fromZero(data.map(rate), 4, count, "rows per minute");
    const { area, toX, toY, shapes } = frame(width, HEIGHT, timeAxis(data, width), y);
    const boxes = data.map(column => [toX(column.time) + 0.75, toX(column.end) - 0.75, toY(rate(column))]);
    shapes.push(svg("path", { class: "fill-s0", d: bars(boxes, area.bottom) }));
    return {
      height: HEIGHT, shapes, top: area.top, bottom: area.bottom,
      label: `Bars over time. The latest bar is ${count(rate(data[data.length - 1]))} rows per minute`,
      points: data.map((column, i) => ({ x: (boxes[i][0] + boxes[i][1]) / 2, title: between(column), lines: [["rows per minute", count(rate(column)), "s0"], ["rows", count(column.rows)], ["requests", count(column.requests)]] })),
      table: { titles: ["Time", "Rows", "Requests", "Rows per minute"], rows: data.map(column => [between(column), count(column.rows), count(column.requests), count(rate(column))]) },
    };
  };

  const drawLatency = data => width => {
    const unit = Math.max(0, ...data.map(column => column.p99 ?? 0)) >= 1 ? ["s", 1] : ["ms", 1000];
    const y = fromZero(data.flatMap(column => [column.p50 * unit[1], column.p99 * unit[1]]), 4, value => number(value), `time to answer (${unit[0]})`);
    const { area, toX, toY, shapes } = frame(width, HEIGHT, timeAxis(data, width), y);
    const middle = column => toX((column.time + column.end) / 2);
    for (const [field, role] of [["p99", "s1"], ["p50", "s0"]]) {
      const points = data.map(column => [middle(column), column[field] === undefined ? undefined : toY(column[field] * unit[1])]);
      shapes.push(svg("path", { class: `line line-${role}`, d: path(points) }));
      // A value between two gaps has no visible line, so each value also has a circle.
      points.forEach(([x, at]) => { if (at !== undefined && data.length < 100) shapes.push(svg("circle", { class: `fill-${role}`, cx: x, cy: at, r: 2 })); });
    }
    const busy = data.filter(column => column.p50 !== undefined);
    return {
      height: HEIGHT, shapes, top: area.top, bottom: area.bottom, legend: [["median", "s0"], ["99 % of requests", "s1"]],
      label: busy.length ? `The latest median is ${duration(busy[busy.length - 1].p50)}` : "No requests",
      points: busy.map(column => ({ x: middle(column), title: between(column), lines: [["99 % within", duration(column.p99), "s1"], ["median", duration(column.p50), "s0"]] })),
      table: { titles: ["Time", "Median", "99 % within"], rows: busy.map(column => [between(column), duration(column.p50), duration(column.p99)]) },
    };
  };

  const drawRejected = (data, expected) => width => {
    const known = data.filter(column => column.thresholds[threshold]?.rows).map(column => {
      const { rows, rejected: part } = column.thresholds[threshold];
      return { ...column, rows, part, share: part / rows, interval: shareInterval(part, rows) };
    });
    const y = fromZero(known.map(column => column.share * 1.05), 4, value => percent(value, 0), "rejected share of the rows", Math.max(0.1, expected.high * 1.3));
    y.high = Math.min(y.high, 1);
    y.ticks = y.ticks.filter(([value]) => value <= 1);
    const { area, toX, toY, shapes } = frame(width, HEIGHT + 20, timeAxis(data, width), y);
    const [top, bottom] = [toY(Math.min(expected.high, y.high)), toY(expected.low)];
    shapes.push(svg("rect", { class: "expected", x: area.left, y: top, width: area.right - area.left, height: Math.max(1, bottom - top) }));
    shapes.push(svg("path", { class: "line line-s2 dashed", d: `M${area.left} ${toY(expected.rejected)}H${area.right}` }));
    const middle = column => toX((column.time + column.end) / 2);
    const clip = value => Math.max(area.top, Math.min(area.bottom, toY(value)));
    for (const column of known) {
      shapes.push(svg("path", { class: "whisker", d: `M${middle(column).toFixed(1)} ${clip(column.interval[1]).toFixed(1)}V${clip(column.interval[0]).toFixed(1)}` }));
    }
    for (const column of known) {
      const state = verdict(column.part, column.rows, expected);
      shapes.push(svg("circle", { class: state === "more" ? "fill-s1" : "fill-s0", cx: middle(column), cy: toY(column.share), r: 4 }));
    }
    return {
      height: HEIGHT + 20, shapes, top: area.top, bottom: area.bottom,
      legend: [["expected share, with its 95 % range", "s2", "band"], ["as expected", "s0", "dot"], ["more than expected", "s1", "dot"], ["95 % interval of each share", "muted", "stick"]],
      label: known.length ? `The latest share is ${percent(known[known.length - 1].share)}, the expected share ${percent(expected.rejected)}` : "No rows",
      points: known.map(column => ({ x: middle(column), title: between(column), lines: [["rejected", percent(column.share), "s0"], ["95 % interval", `${percent(column.interval[0])} to ${percent(column.interval[1])}`], ["rows", `${count(column.part)} of ${count(column.rows)}`], ["expected", percent(expected.rejected), "s2"]] })),
      table: { titles: ["Time", "Rejected", "Of rows", "Share", "95 % interval"], rows: known.map(column => [between(column), count(column.part), count(column.rows), percent(column.share), `${percent(column.interval[0])} to ${percent(column.interval[1])}`]) },
    };
  };

  const drawHistogram = (name, { edges, live, ...others }) => width => {
    const [kind, compared] = Object.entries(others)[0];
    const title = comparedRows(kind);
    const shares = counts => { const sum = counts.reduce((a, b) => a + b, 0); return counts.map(value => (sum ? value / sum : 0)); };
    const [before, now] = [shares(compared), shares(live)];
    const y = fromZero([...before, ...now], 4, value => percent(value, 0), "share of the rows");
    const x = { low: edges[0], high: edges[edges.length - 1], title: measureName(name) };
    x.ticks = linearTicks(x.low, x.high, width / 80).map(value => [value, number(value)]);
    const { area, toX, toY, shapes } = frame(width, HEIGHT + 20, x, y);
    const boxes = values => values.map((value, i) => [toX(edges[i]), toX(edges[i + 1]), toY(value)]);
    shapes.push(svg("path", { class: "held-out", d: bars(boxes(before).map(([a, b, c]) => [a + 0.5, b - 0.5, c]), area.bottom) }));
    shapes.push(svg("path", { class: "line line-s1", d: steps(boxes(now), area.bottom) }));
    const rule = context.model().thresholds.find(candidate => candidate.name === threshold && candidate.measure === name);
    if (rule && rule.value !== null && rule.value > x.low && rule.value < x.high) {
      const at = toX(rule.value), left = at > area.left + 150;
      shapes.push(svg("path", { class: "line line-text dashed", d: `M${at} ${area.top - 4}V${area.bottom}` }));
      shapes.push(svg("text", { class: "strong", x: left ? at - 6 : at + 6, y: area.top + 6, "text-anchor": left ? "end" : "start" }, left ? "rejected to the right" : "rejected if higher"));
    }
    const rangeOf = i => `${number(edges[i])} to ${number(edges[i + 1])}`;
    return {
      height: HEIGHT + 20, shapes, top: area.top, bottom: area.bottom,
      legend: [[title, "muted", "box"], ["live rows", "s1"]],
      label: `Histogram of the ${measureName(name)} of live rows and of ${title}`,
      points: now.map((share, i) => ({ x: toX((edges[i] + edges[i + 1]) / 2), title: rangeOf(i), lines: [["live rows", percent(share), "s1"], [title, percent(before[i]), "muted"]] })),
      table: { titles: ["From, to", "Live rows", title], rows: now.map((share, i) => [rangeOf(i), percent(share), percent(before[i])]) },
    };
  };

  const renderHistogram = () => {
    measure ??= context.model().thresholds.find(rule => rule.name === threshold)?.measure ?? allMeasures[0];
    if (!measures.childElementCount) {
      measures.append(choice("Measure", allMeasures.map(name => [name, measureShort(name)]), measure, name => { measure = name; renderHistogram(); }));
    }
    const data = distribution.measures[measure];
    const compared = data.held_out ? "If the live rows are like the held-out rows, both shapes agree." : "The model has no scores of held-out rows for this measure. Training rows are shown instead, each left out of its own neighbors; held-out rows are often a little less certain.";
    histogram.setText(`The ${measureName(measure)} shows ${measureMeaning(measure)}. Further right is less certain. ${compared} The line shows ${counted(distribution.live_rows, "recent row")}.`);
    histogram.setDrawing(drawHistogram(measure, data));
  };

  const render = () => {
    const data = columns(activity, minutes, innerWidth < 600 ? 40 : 72);
    const isEmpty = !activity.intervals.length && !distribution.live_rows;
    [empty.hidden, content.hidden] = [!isEmpty, isEmpty];
    if (isEmpty) return;
    chooseThreshold();
    renderSummary(data);
    rows.setDrawing(drawRows(data, rateOf(activity.now)));
    latency.setDrawing(drawLatency(data));
    const expected = activity.expected[threshold];
    rejected.node.hidden = !expected;
    if (expected) {
      rejected.setText(`Each dot is ${intervalName(data[0])}. If the live rows are like the held-out rows, the threshold “${threshold}” rejects ${percent(expected.rejected)} of them (green).`);
      rejected.setDrawing(drawRejected(data, expected));
    }
    renderHistogram();
  };
  const intervalName = column => {
    const seconds = (column.end - column.time) / 1000;
    return seconds < 60 ? counted(seconds, "second") : seconds < 3600 ? counted(seconds / 60, "minute") : counted(seconds / 3600, "hour");
  };

  const refresh = async () => {
    const base = api.model(context.model().name);
    [activity, distribution, drift] = await Promise.all([
      api.get(`${base}/activity?minutes=${minutes}`), api.get(`${base}/distribution`), api.get(`${base}/drift`)]);
    render();
  };
  return { node, refresh, every: 2000 };
};

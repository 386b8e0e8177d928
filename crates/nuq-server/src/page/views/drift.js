// The conformal test of drift: wealth over time and the p-values of recent rows.

import * as api from "../api.js";
import { html, notice, svg } from "../dom.js";
import { createFigure } from "../figure.js";
import { count, counted, moment, number, percent, powerOfTen } from "../format.js";
import { bars, frame, fromZero, linearTicks, path, timeTicks } from "../plot.js";

const HEIGHT = 340;
const BINS = 10;

const amount = log10 => (Math.abs(log10) < 4 ? number(10 ** log10, 3) : powerOfTen(Math.round(log10)));

export const create = context => {
  const summary = html("p", { class: "summary" });
  const finding = html("p", { class: "finding" });
  const wealth = createFigure({ title: "Evidence of drift over time", className: "wide" });
  const histogram = createFigure({ title: "p-values of recent rows", text: "A p-value is the share of held-out rows that are at least as uncertain as the live row. If nothing changed, all values are equally frequent and the bars reach the dashed line. Many small p-values mean that the live rows are more uncertain than the held-out rows." });
  const explanation = html("div", { class: "card text" },
    html("h3", {}, "How the test works"),
    html("p", {}, "The test bets against the statement “the live rows come from the same distribution as the held-out rows”. It starts with a wealth of 1. Each row changes the wealth: an unusual sequence of p-values multiplies it, an ordinary sequence reduces it."),
    html("p", {}, "If nothing changed, the bets are fair. The wealth then reaches 100 with a probability of at most 1 in 100, however long the test runs. The test does not show which rows differ; the rejected rows are examples."),
    html("p", {}, html("a", { href: context.link("prediction", { which: "rejected" }) }, "Show the rejected rows")));
  const empty = notice("No drift test yet", []);
  const content = html("div", {}, html("h1", {}, "Drift"), summary, finding,
    html("div", { class: "figures" }, wealth.node, histogram.node, explanation));
  const node = html("div", {}, empty, content);
  [empty.hidden, content.hidden] = [true, true];

  const drawWealth = drift => width => {
    const level = Math.log10(1 / drift.alpha);
    const values = drift.points.map(point => point.log10_wealth);
    const [low, high] = [Math.floor(Math.min(-1, ...values)), Math.ceil(Math.max(level + 1, ...values) + 0.2)];
    const y = { low, high, title: "wealth (logarithmic scale)" };
    y.ticks = linearTicks(low, high, 7).filter(Number.isInteger).map(value => [value, powerOfTen(value)]);
    const times = drift.points.map(point => point.time);
    const x = { low: times[0], high: Math.max(times[times.length - 1], times[0] + 1000), title: "local time" };
    x.ticks = timeTicks(x.low, x.high, width / 84);
    const { area, toX, toY, shapes } = frame(width, HEIGHT, x, y);
    const alarm = toY(level);
    shapes.push(svg("rect", { class: "alarm-zone", x: area.left, y: area.top, width: area.right - area.left, height: Math.max(0, alarm - area.top) }));
    shapes.push(svg("path", { class: "line line-s1 dashed", d: `M${area.left} ${alarm}H${area.right}` }));
    shapes.push(svg("text", { class: "strong", x: area.left + 8, y: alarm - 7 }, `alarm at ${count(1 / drift.alpha)}`));
    const start = toY(0);
    shapes.push(svg("path", { class: "line line-muted dashed", d: `M${area.left} ${start}H${area.right}` }));
    shapes.push(svg("path", { class: "line line-s0", d: path(drift.points.map(point => [toX(point.time), toY(point.log10_wealth)])) }));
    if (drift.alarm && drift.alarm.time >= x.low) {
      const at = toX(drift.alarm.time), isRight = at > width / 2;
      shapes.push(svg("path", { class: "line line-s1", d: `M${at} ${area.top}V${area.bottom}` }));
      shapes.push(svg("text", { class: "strong", x: isRight ? at - 6 : at + 6, y: area.bottom - 10, "text-anchor": isRight ? "end" : "start" }, `alarm, ${moment(drift.alarm.time)}`));
    }
    const last = values[values.length - 1];
    return {
      height: HEIGHT, shapes, top: area.top, bottom: area.bottom,
      label: `Line over time on a logarithmic axis. The wealth is ${amount(last)} now, and its alarm level is ${count(1 / drift.alpha)}`,
      points: drift.points.map(point => ({ x: toX(point.time), title: moment(point.time), lines: [["wealth", amount(point.log10_wealth), "s0"], ["alarm level", count(1 / drift.alpha), "s1"]] })),
      table: { titles: ["Time", "Wealth", "Base-10 logarithm"], rows: drift.points.map(point => [moment(point.time), amount(point.log10_wealth), number(point.log10_wealth)]) },
    };
  };

  const drawHistogram = values => width => {
    const bins = Array(BINS).fill(0);
    values.forEach(value => { bins[Math.min(BINS - 1, Math.floor(value * BINS))] += 1 / values.length; });
    const y = fromZero([...bins, 1.5 / BINS], 4, value => percent(value, 0), "share of the rows");
    const x = { low: 0, high: 1, ticks: linearTicks(0, 1, 5).map(value => [value, number(value)]), title: "p-value" };
    const { area, toX, toY, shapes } = frame(width, 270, x, y);
    const boxes = bins.map((share, i) => [toX(i / BINS) + 1, toX((i + 1) / BINS) - 1, toY(share)]);
    shapes.push(svg("path", { class: "fill-s0", d: bars(boxes, area.bottom) }));
    shapes.push(svg("path", { class: "line line-text dashed", d: `M${area.left} ${toY(1 / BINS)}H${area.right}` }));
    const name = i => `${number(i / BINS)} to ${number((i + 1) / BINS)}`;
    return {
      height: 270, shapes, top: area.top, bottom: area.bottom, legend: [["recent rows", "s0", "box"], ["expected if nothing changed", "text", "dash"]],
      label: `${percent(bins[0])} of ${counted(values.length, "recent row")} have a p-value below 0.1; 10 % are expected`,
      points: bins.map((share, i) => ({ x: toX((i + 0.5) / BINS), title: `p-value ${name(i)}`, lines: [["recent rows", percent(share), "s0"], ["expected", percent(1 / BINS)]] })),
      table: { titles: ["p-value", "Recent rows", "Expected"], rows: bins.map((share, i) => [name(i), percent(share), percent(1 / BINS)]) },
    };
  };

  const refresh = async () => {
    const base = api.model(context.model().name);
    const [drift, recent] = await Promise.all([api.get(`${base}/drift`), api.get(`${base}/recent?which=recent&limit=500`)]);
    const isEmpty = drift.available === false || drift.points.length === 0;
    [empty.hidden, content.hidden] = [!isEmpty, isEmpty];
    if (isEmpty) {
      empty.replaceChildren(...(drift.available === false
        ? notice("No drift test for this model", ["The test compares live rows with held-out rows. The model file contains no scores of held-out rows.", "Calibrate a threshold, and serve the new file:"], "nuq calibrate --model MODEL.nuq --embeddings held_out.npy --target false_alarm=0.05 --name guard")
        : notice("No rows scored yet", ["The test starts with the first scored row. Send one:"], context.curl())).children);
      return;
    }
    summary.className = `summary ${drift.alarm ? "warn" : ""}`;
    summary.textContent = drift.alarm
      ? `Drift: the live rows differ from the held-out rows. The alarm was raised at ${moment(drift.alarm.time)}.`
      : drift.is_paused
        ? "The drift test is paused: the model has no scores of held-out rows since its rows were changed. It continues when a threshold is calibrated."
        : "No drift: the live rows look like the held-out rows so far.";
    finding.textContent = drift.statement;
    wealth.setText(`A wealth above the alarm level of ${count(1 / drift.alpha)} is evidence that the data changed.`);
    wealth.setDrawing(drawWealth(drift));
    const values = recent.map(row => row.p_value).filter(value => value !== null && value !== undefined);
    histogram.node.hidden = values.length === 0;
    if (values.length) histogram.setDrawing(drawHistogram(values));
  };
  return { node, refresh, every: 2000 };
};

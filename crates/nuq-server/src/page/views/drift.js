// The conformal drift test: its wealth, which is the evidence of drift, over time, and the p-values of recent rows.

import * as api from "../api.js";
import { button, html, notice, svg, table } from "../dom.js";
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
  const fair = html("p");
  const explanation = html("div", { class: "card text" },
    html("h3", {}, "How the test works"),
    html("p", {}, "The test bets against the statement “the live rows come from the same distribution as the held-out rows”. It starts with a wealth of 1. Each row changes the wealth: an unusual sequence of p-values multiplies it, an ordinary sequence reduces it."),
    fair,
    html("p", {}, "An acknowledged alarm starts the test again. All starts share the held-out rows: if these are not typical, a false alarm is often followed by another one. Calibrate the threshold with other held-out rows then."),
    html("p", {}, html("a", { href: context.link("prediction", { which: "rejected" }) }, "Show the rejected rows")));
  const message = html("p", { class: "message", role: "status" });
  const acknowledge = button("Acknowledge the alarm", () => send(), { class: "primary" });
  const action = html("div", { class: "action" }, acknowledge,
    html("p", { class: "note" }, "The test then starts again with a wealth of 1 and compares the next rows with the held-out rows. The alarm stays in the history. Acknowledge it when the cause is known. This needs the write key, if the server has one."));
  const history = html("section", {}, html("h2", {}, "Earlier tests"));
  const empty = notice("No drift test yet", []);
  const content = html("div", {}, html("h1", {}, "Drift"), summary, finding, action, message,
    html("div", { class: "figures" }, wealth.node, histogram.node, explanation), history);
  const node = html("div", {}, empty, content);
  [empty.hidden, content.hidden] = [true, true];

  const send = async () => {
    acknowledge.disabled = true;
    try {
      const { alarm } = await api.post(`${api.model(context.model().name)}/drift/acknowledge`, {});
      message.className = "message done";
      message.textContent = `The alarm of ${moment(alarm.time)} is acknowledged. The test has started again.`;
      await refresh();
    } catch (error) {
      if (!(error instanceof api.RequestError)) throw error;
      message.className = "message failed";
      message.textContent = error.message;
      if (api.needsKey(error)) context.askKey();
    } finally {
      acknowledge.disabled = false;
    }
  };

  /** All tests that the figure shows, oldest first. The wealth of each starts at 1. */
  const testsOf = drift => [...drift.ended, drift].filter(test => test.points.length);

  const historyTable = drift => table("Earlier tests", ["Started", "Ended", "Rows", "Alarm", "Ended by"], [...drift.ended].reverse().map(test => [
    moment(test.started), moment(test.ended), count(test.rows), test.alarm ? moment(test.alarm.time) : "none",
    test.ended_by === "acknowledged" ? "acknowledgement of the alarm" : "other held-out rows or another level"]));

  const drawWealth = drift => width => {
    const level = Math.log10(1 / drift.alpha);
    const tests = testsOf(drift);
    const points = tests.flatMap(test => test.points);
    const values = points.map(point => point.log10_wealth);
    // Earlier tests may have a very large wealth. The axis does not show all of it, so that the current test stays visible.
    const own = drift.points.map(point => point.log10_wealth);
    const [low, high] = [Math.floor(Math.min(-1, ...values)), Math.ceil(Math.max(level + 1, ...own, Math.min(3 * level, Math.max(...values))) + 0.2)];
    const y = { low, high, title: "wealth (logarithmic scale)" };
    y.ticks = linearTicks(low, high, 7).filter(Number.isInteger).map(value => [value, powerOfTen(value)]);
    const times = points.map(point => point.time);
    const x = { low: times[0], high: Math.max(times[times.length - 1], times[0] + 1000), title: "local time" };
    x.ticks = timeTicks(x.low, x.high, width / 84);
    const { area, toX, toY, shapes } = frame(width, HEIGHT, x, y);
    const alarm = toY(level);
    shapes.push(svg("rect", { class: "alarm-zone", x: area.left, y: area.top, width: area.right - area.left, height: Math.max(0, alarm - area.top) }));
    shapes.push(svg("path", { class: "line line-s1 dashed", d: `M${area.left} ${alarm}H${area.right}` }));
    shapes.push(svg("text", { class: "strong", x: area.left + 8, y: alarm - 7 }, `alarm at ${count(1 / drift.alpha)}`));
    const start = toY(0);
    shapes.push(svg("path", { class: "line line-muted dashed", d: `M${area.left} ${start}H${area.right}` }));
    tests.forEach(test => {
      shapes.push(svg("path", { class: `line ${test === drift ? "line-s0" : "line-muted"}`, d: path(test.points.map(point => [toX(point.time), toY(Math.min(point.log10_wealth, high))])) }));
      if (test.ended) shapes.push(svg("path", { class: "line line-text dashed", d: `M${toX(test.ended)} ${area.top}V${area.bottom}` }));
      if (!test.alarm || test.alarm.time < x.low) return;
      const at = toX(test.alarm.time), isRight = at > width / 2;
      shapes.push(svg("path", { class: `line ${test === drift ? "line-s1" : "line-muted"}`, d: `M${at} ${area.top}V${area.bottom}` }));
      if (test !== drift) return;
      shapes.push(svg("text", { class: "strong", x: isRight ? at - 6 : at + 6, y: area.top + 16, "text-anchor": isRight ? "end" : "start" }, `alarm, ${moment(test.alarm.time)}`));
    });
    const last = drift.points.length ? drift.points[drift.points.length - 1].log10_wealth : 0;
    return {
      height: HEIGHT, shapes, top: area.top, bottom: area.bottom,
      label: `Line over time on a logarithmic axis. The wealth is ${amount(last)} now, and its alarm level is ${count(1 / drift.alpha)}`,
      legend: tests.some(test => test !== drift) ? [["this test", "s0", "line"], ["earlier tests", "muted", "line"], ["start of the next test", "text", "dash"]] : undefined,
      points: points.map(point => ({ x: toX(point.time), title: moment(point.time), lines: [["wealth", amount(point.log10_wealth), "s0"], ["alarm level", count(1 / drift.alpha), "s1"]] })),
      table: { titles: ["Time", "Wealth", "Base-10 logarithm"], rows: points.map(point => [moment(point.time), amount(point.log10_wealth), number(point.log10_wealth)]) },
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
    const isEmpty = drift.available === false || testsOf(drift).length === 0;
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
        : drift.ended.length
          ? `No drift since ${moment(drift.started)}, when the test was started again: the live rows look like the held-out rows.`
          : "No drift: the live rows look like the held-out rows so far.";
    finding.textContent = drift.statement;
    fair.textContent = `If nothing changed, the bets are fair. The wealth then reaches ${count(1 / drift.alpha)} with a probability of at most ${number(100 * drift.alpha)} %, however long the test runs. The test does not show which rows differ; the rejected rows are examples.`;
    action.hidden = !drift.alarm || drift.is_paused;
    history.hidden = drift.ended.length === 0;
    if (drift.ended.length) history.replaceChildren(history.firstChild, html("div", { class: "card" }, historyTable(drift)));
    wealth.setText(`A wealth above the alarm level of ${count(1 / drift.alpha)} is evidence that the data changed.${drift.ended.length ? " The lines of earlier tests may be cut off at the top of the figure; the table has all values." : ""}`);
    wealth.setDrawing(drawWealth(drift));
    const values = recent.map(row => row.p_value).filter(value => value !== null && value !== undefined);
    histogram.node.hidden = values.length === 0;
    if (values.length) histogram.setDrawing(drawHistogram(values));
  };
  return { node, refresh, every: 2000 };
};

// One prediction: its uncertainties compared with held-out rows, why it was rejected, and the nearest training rows.

import * as api from "../api.js";
import { choice, html, notice, svg } from "../dom.js";
import { createFigure } from "../figure.js";
import { comparedRows, counted, measureName, measures, measureSubject, moment, number, percent, rank } from "../format.js";
import { linearTicks } from "../plot.js";
import { decision, decisionText, picture, predictionText, probabilityText, rejecting } from "../rows.js";

const LIMIT = 60;
const TYPES = { npy: "application/x-npy", csv: "text/csv", json: "application/json", arrow: "application/vnd.apache.arrow.stream", arrows: "application/vnd.apache.arrow.stream" };
const ROW_HEIGHT = 80;

/** One scale per uncertainty, with the quantiles of the compared rows and the value of this row. */
const drawScales = scales => width => {
  const shapes = [], points = [];
  const isNarrow = width < 520, height = ROW_HEIGHT + (isNarrow ? 18 : 0);
  scales.forEach((scale, i) => {
    const top = i * height;
    const quantiles = scale.quantiles;
    const known = [...quantiles.map(([, value]) => value), scale.value].filter(value => value !== null);
    let [low, high] = [Math.min(...known), Math.max(...known)];
    const margin = 0.04 * (high - low || 1);
    [low, high] = [low - margin, high + margin];
    const toX = value => 6 + (width - 12) * (value - low) / (high - low);
    const at = share => toX(quantiles.find(([q]) => q === share)[1]);
    const y = top + height - 38;
    const clamp = value => (value === null ? width - 6 : toX(value));
    shapes.push(svg("text", { class: "strong", x: 0, y: top + 18 }, scale.name));
    shapes.push(svg("text", { x: isNarrow ? 0 : width, y: top + (isNarrow ? 36 : 18), "text-anchor": isNarrow ? "start" : "end" }, scale.sentence));
    shapes.push(svg("path", { class: "axis", d: `M6 ${y}H${width - 6}` }));
    shapes.push(svg("rect", { class: "range-90", x: at(0.05), y: y - 7, width: Math.max(1, at(0.95) - at(0.05)), height: 14 }));
    shapes.push(svg("rect", { class: "range-50", x: at(0.25), y: y - 7, width: Math.max(1, at(0.75) - at(0.25)), height: 14 }));
    shapes.push(svg("path", { class: "median", d: `M${at(0.5)} ${y - 7}v14` }));
    if (scale.limit !== undefined && scale.limit !== null && scale.limit > low && scale.limit < high) {
      shapes.push(svg("path", { class: "line line-text dashed", d: `M${toX(scale.limit)} ${y - 13}v26` }));
    }
    const x = clamp(scale.value);
    shapes.push(svg("path", { class: scale.isHigh ? "marker fill-s1" : "marker fill-s0", d: `M${x} ${y - 9}l8 9l-8 9l-8 -9Z` }));
    for (const tick of linearTicks(low, high, width / 110)) {
      const tickX = toX(tick);
      if (tickX > 20 && tickX < width - 20) shapes.push(svg("text", { class: "small", x: tickX, y: y + 24, "text-anchor": "middle" }, number(tick)));
    }
    points.push({ x, y, title: scale.name, lines: [["this row", number(scale.value)], [`median of ${scale.rows}`, number(quantiles.find(([q]) => q === 0.5)[1])], [`middle 90 % of ${scale.rows}`, `${number(quantiles[0][1])} to ${number(quantiles[quantiles.length - 1][1])}`]] });
  });
  return {
    height: scales.length * height, shapes, points,
    legend: [["this row", "s0", "diamond"], ["middle 50 % of the compared rows", "muted", "box"], ["middle 90 %", "frame", "box"], ["threshold", "text", "dash"]],
    label: scales.map(scale => `${scale.name}: ${scale.sentence}`).join(". "),
    table: { titles: ["Measure", "This row", "Median of the compared rows", "Middle 90 % of the compared rows"], rows: points.map(({ title, lines }) => [title, ...lines.map(([, value]) => value)]) },
  };
};

export const create = context => {
  // `which` is the chosen list: `recent`, `rejected` or `file`. `shown` is the list and the id of the row in the details, and the version of
  // the model for a recorded row, separated by spaces.
  let [which, selected, rows, uploaded, shown] = [context.parameter("which") || "recent", context.parameter("row"), []];
  let uploads = 0;
  const list = html("ul", { class: "list", "aria-label": "Rows" });
  const detail = html("div", { class: "detail", "aria-live": "polite" });
  const chooser = choice("Rows", [["recent", "Recent"], ["rejected", "Rejected"], ["file", "From a file"]], which, value => { which = value; rows = []; selected = undefined; renderSource(); refresh(); });
  const input = html("input", { type: "file", id: "file", accept: ".npy,.csv,.json,.arrow,.arrows", onchange: () => upload() });
  const uploadNote = html("p", { class: "note", role: "status" });
  const uploadForm = html("div", { class: "upload" },
    html("label", { for: "file" }, "Embeddings in a file (.npy, .csv, .json or .arrow), one row per prediction"), input, uploadNote);
  const scales = createFigure({ title: "Uncertainty of this row", text: "Each scale shows where this row is among rows for which the model is known to work. Further right is less certain." });
  const node = html("div", {}, html("h1", {}, "One prediction"),
    html("div", { class: "split" }, html("div", { class: "chooser" }, chooser, uploadForm, list), detail));
  const renderSource = () => { uploadForm.hidden = which !== "file"; };
  renderSource();

  const upload = async () => {
    const [file] = input.files;
    if (!file) return;
    const type = TYPES[file.name.split(".").pop().toLowerCase()];
    if (!type) { uploadNote.textContent = `${file.name}: this format is not known. Use .npy, .csv, .json or .arrow.`; return; }
    uploadNote.textContent = `Scoring ${file.name}…`;
    try {
      const answer = await api.send(`${api.model(context.model().name)}/inspect`, file, type);
      uploads += 1;
      uploaded = answer.rows.map((row, i) => ({ ...row, id: `file-${uploads}-${i}`, name: `Row ${i}` }));
      uploadNote.textContent = `${file.name}: ${counted(answer.total, "row")}${answer.total > uploaded.length ? `, of which the first ${uploaded.length} are shown` : ""}. Rows of files are not counted as live rows.`;
      selected = uploaded[0]?.id;
      refresh();
    } catch (error) {
      uploadNote.textContent = error.message;
      [uploaded, selected] = [undefined, undefined];
      refresh();
    }
  };

  const select = id => { selected = id; context.setParameter("row", which === "file" ? undefined : id); renderList(); showDetail(); };
  const item = row => html("li", {}, html("button", { type: "button", "data-id": row.id, "aria-current": String(row.id) === String(selected) ? "true" : "false", onclick: () => select(row.id) },
    html("span", { class: "item-label" }, predictionText(row)), html("span", { class: "item-share" }, probabilityText(row)),
    html("span", { class: "note" }, row.name ?? moment(row.time)), decision(row)));
  const renderList = (isForced = true) => {
    // The list does not change while the pointer or the focus is on it, so that rows do not move while the user chooses one.
    if (!isForced && list.childElementCount && list.matches(":hover, :focus-within")) return;
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.id : undefined;
    list.replaceChildren(...rows.map(item));
    if (focused) list.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
  };
  list.addEventListener("keydown", event => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const buttons = [...list.querySelectorAll("button")];
    buttons[buttons.indexOf(document.activeElement) + step]?.focus();
  });

  const decisionSentences = row => {
    const rules = row.decisions || [];
    // The badge shows the decision when the row was scored. The thresholds may have changed since then.
    const current = rules.length ? (rules.every(rule => rule.accept) ? "accepted" : "rejected") : undefined;
    const hasChanged = Boolean(decisionText(row)) && decisionText(row) !== current;
    const before = hasChanged ? ["The decision above was made when the row was scored."] : [];
    if (rules.length === 0) return [...before, hasChanged ? "The model now has no threshold that applies to this row." : "No threshold applies to this row."];
    const now = hasChanged ? " by the current threshold" : "";
    return [...before, ...rules.map(rule => {
      const compared = `${measureSubject(rule.measure)} is ${number(rule.score)}, and the threshold “${rule.threshold}” ${rule.accept ? "accepts" : "rejects"} values ${rule.accept ? "up to" : "above"} ${number(rule.value)}`;
      return `${rule.accept ? "Accepted" : "Rejected"}${now}: ${compared}.`;
    })];
  };

  const neighborCard = neighbor => html("li", { class: "neighbor" }, picture(neighbor.picture, `Picture of training row ${neighbor.id}`),
    html("b", {}, neighbor.label), html("span", { class: "note" }, `distance ${number(neighbor.distance, 3)}`), html("span", { class: "note" }, `training row ${neighbor.id}`));

  const neighborSentence = row => {
    const labels = row.neighbors.map(neighbor => neighbor.label);
    if (labels.length === 0) return "The model now has another number of columns, so the neighbors of this row are not known.";
    if (row.probability === null) return `The ${row.neighbors.length} nearest training rows, nearest first.`;
    const same = labels.filter(label => label === row.label).length;
    return `${same} of the ${labels.length} nearest training rows have the predicted label “${row.label}”.`;
  };

  const render = row => {
    const rejected = rejecting(row).length > 0;
    const isClass = row.probability !== null;
    const values = measures.filter(name => row.uncertainty?.[name]?.quantiles).map(name => {
      const entry = row.uncertainty[name], rows = comparedRows(entry.compared_with);
      return {
        name: measureName(name).replace(/^./, first => first.toUpperCase()), rows, value: entry.value, quantiles: entry.quantiles,
        isHigh: entry.rank >= 0.95,
        limit: row.decisions?.find(rule => rule.measure === name)?.value,
        sentence: `${entry.value === null ? "not finite, " : ""}higher than ${rank(entry.rank)} of the ${rows}`,
      };
    });
    detail.replaceChildren(
      html("div", { class: `card headline ${rejected ? "alarm" : ""}` },
        html("p", { class: "note" }, row.name ? `${row.name} of the file` : `Scored at ${moment(row.time)}`),
        html("h2", { class: "summary" }, predictionText(row), " ", decision(row)),
        html("p", {}, isClass ? `Probability ${percent(row.probability)}.` : `Standard error of the mean ${number(Math.sqrt(row.epistemic))}.`,
          row.p_value !== null && row.p_value !== undefined ? ` p-value ${number(row.p_value, 2)}: the share of held-out rows that are at least as uncertain.` : ""),
        decisionSentences(row).map(sentence => html("p", {}, sentence))),
      ...(values.length ? [scales.node] : []),
      html("div", { class: "card text" }, html("h3", {}, "Nearest training rows"), html("p", {}, neighborSentence(row)), html("ul", { class: "neighbors" }, row.neighbors.map(neighborCard))));
    if (values.length) scales.setDrawing(drawScales(values));
  };

  const showDetail = async () => {
    if (selected === undefined || selected === null) return;
    const id = selected;
    const fromFile = which === "file" && uploaded?.find(row => row.id === id);
    try {
      const row = fromFile || await api.get(`${api.model(context.model().name)}/recent/${encodeURIComponent(id)}`);
      if (id === selected) render(row);
    } catch (error) {
      if (error.status !== 404) throw error;
      detail.replaceChildren(notice("This row is no longer stored", ["The server keeps a limited number of recent rows. Choose another one."]));
    }
  };

  const refresh = async () => {
    // The details of a recorded row depend on the thresholds and the training rows, so they are read again after each change of the model.
    let version;
    if (which === "file") {
      rows = uploaded ?? [];
    } else {
      const base = api.model(context.model().name);
      [rows, { version }] = await Promise.all([api.get(`${base}/recent?which=${which}&limit=${LIMIT}`), api.get(base)]);
    }
    if (rows.length && (selected === undefined || selected === null)) selected = rows[0].id;
    renderList(which === "file" || shown?.split(" ")[0] !== which);
    const wanted = [which, selected, version].join(" ");
    if (rows.length === 0 && !selected) {
      shown = undefined;
      detail.replaceChildren(which === "file" ? notice("Choose a file", ["The rows of the file are scored and shown here, with the reasons for each decision and the nearest training rows."])
        : which === "rejected" ? notice("No rejected rows", ["No recent row was rejected by a threshold."]) : notice("No rows scored yet", ["Send one:"], context.curl()));
    } else if (shown !== wanted) {
      await showDetail();
      // If the details cannot be read, the next refresh tries again.
      shown = wanted;
    }
  };
  return { node, refresh, every: 5000 };
};

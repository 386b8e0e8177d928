// Rows in two dimensions: a sample of training rows, and on top live rows, which the server has scored recently.

import * as api from "../api.js";
import { choice, html, notice, svg } from "../dom.js";
import { createFigure } from "../figure.js";
import { counted, moment, number, percent } from "../format.js";
import { viridis } from "../plot.js";
import { decisionText, picture, predictionText, probabilityText, rejecting } from "../rows.js";

// Number of colors for classes in theme.css, number of colors for uncertainty, and margin of the drawing in pixels.
const ROLES = 8, LEVELS = 24, INSET = 14;

/** The path of all circles of one color. */
const circles = (points, radius) => points.map(([x, y]) =>
  `M${(x - radius).toFixed(1)} ${y.toFixed(1)}a${radius} ${radius} 0 1 0 ${2 * radius} 0a${radius} ${radius} 0 1 0 ${-2 * radius} 0`).join("");
const diamonds = (points, radius) => points.map(([x, y]) =>
  `M${x.toFixed(1)} ${(y - radius).toFixed(1)}l${radius} ${radius}l${-radius} ${radius}l${-radius} ${-radius}Z`).join("");

export const create = context => {
  let [data, color, shown] = [undefined, "class", "both"];
  const colors = choice("Color", [["class", "Color by class"], ["uncertainty", "by uncertainty"]], color, value => { color = value; render(); });
  const layers = choice("Rows", [["both", "All rows"], ["training", "Training rows"], ["live", "Live rows"]], shown, value => { shown = value; render(); });
  const figure = createFigure({ title: "Map of the rows", controls: [html("div", { class: "controls" }, colors, layers)], className: "wide map" });
  const empty = notice("No map", ["The model has too few rows for a map, or its axes cannot be computed from the rows."]);
  const node = html("div", {}, html("h1", {}, "Map"), empty, html("div", { class: "figures" }, figure.node));
  [empty.hidden, figure.node.hidden] = [true, true];

  /** The color of each class. The classes with the most training rows have their own colors; all other classes share one color. */
  const palette = () => {
    const frequencies = new Map();
    data.training.forEach(row => frequencies.set(row.label, (frequencies.get(row.label) ?? 0) + 1));
    const names = [...frequencies.keys()].sort((a, b) => frequencies.get(b) - frequencies.get(a) || String(a).localeCompare(String(b)));
    // Ten classes are common, so style.css defines two more colors than theme.css.
    return new Map(names.map((name, i) => [name, i < ROLES + 2 ? `s${i}` : "muted"]));
  };

  const draw = width => {
    const height = Math.round(Math.min(640, Math.max(320, width * 0.62)));
    const all = [...data.training, ...data.live];
    const ends = coordinate => [Math.min(...all.map(row => row[coordinate])), Math.max(...all.map(row => row[coordinate]))];
    const [xs, ys] = [ends("x"), ends("y")];
    // Both axes have the same scale, so that distances can be compared.
    const fitting = Math.min((width - 2 * INSET) / (xs[1] - xs[0]), (height - 2 * INSET) / (ys[1] - ys[0]));
    const scale = Number.isFinite(fitting) ? fitting : 1;
    const place = row => [width / 2 + scale * (row.x - (xs[0] + xs[1]) / 2), height / 2 - scale * (row.y - (ys[0] + ys[1]) / 2)];
    const roles = palette();
    const isClass = color === "class" && data.task === "classification";
    const shapes = [svg("rect", { class: "plane", x: 0.5, y: 0.5, width: width - 1, height: height - 1, rx: 6 })];
    const points = [];
    const groupOf = row => (isClass ? roles.get(row.label) ?? "muted" : Math.min(LEVELS - 1, Math.floor(row.rank * LEVELS)));
    const addLayer = (rows, path, radius, className) => {
      const groups = new Map();
      rows.forEach(row => { const group = groupOf(row); groups.set(group, [...(groups.get(group) ?? []), place(row)]); });
      for (const [group, places] of [...groups].sort((a, b) => (a[0] < b[0] ? -1 : 1))) {
        const paint = isClass ? { class: `${className} fill-${group}` } : { class: className, fill: viridis(group / (LEVELS - 1)) };
        shapes.push(svg("path", { ...paint, d: path(places, radius) }));
      }
    };
    const small = width < 600 ? 2.2 : 3;
    if (shown !== "live") {
      addLayer(data.training, circles, small, shown === "both" ? "training faint" : "training");
      data.training.forEach(row => {
        const [x, y] = place(row);
        points.push({ x, y, title: `Training row ${row.id}`, lines: [[data.task === "classification" ? "label" : "target", row.label], ["more uncertain than", `${percent(row.rank, 0)} of training rows`]], picture: row.picture && (() => picture(row.picture, "", "picture large")) });
      });
    }
    if (shown !== "training") {
      addLayer(data.live, diamonds, small + 3, "live");
      data.live.forEach(row => {
        const [x, y] = place(row), rejected = rejecting(row);
        points.push({ x, y, title: `Live row, ${moment(row.time)}`, lines: [["prediction", predictionText(row)], ["probability", probabilityText(row)], ["decision", decisionText(row)]].filter(([, value]) => value), open: () => context.go("prediction", { row: row.id, which: rejected.length ? "rejected" : "recent" }) });
      });
    }
    const legend = isClass
      ? [...[...roles].slice(0, ROLES + 2).map(([name, role]) => [String(name), role, "dot"]), ...(roles.size > ROLES + 2 ? [["other classes", "muted", "dot"]] : []), ["live rows", "text", "diamond"]]
      : [["training rows", "muted", "dot"], ["live rows", "text", "diamond"]];
    if (!isClass) {
      const left = INSET, top = height - 26;
      for (let i = 0; i < LEVELS; i += 1) shapes.push(svg("rect", { x: left + 5 * i, y: top, width: 5.3, height: 10, fill: viridis(i / (LEVELS - 1)) }));
      shapes.push(svg("text", { x: left, y: top - 6 }, "certain"), svg("text", { x: left + 5 * LEVELS, y: top - 6, "text-anchor": "end" }, "uncertain"));
    }
    return { height, shapes, points, legend, label: `${counted(data.training.length, "training row")} and ${counted(data.live.length, "live row")} in two dimensions. Arrow keys move from row to row` };
  };

  const render = () => {
    const isEmpty = data.training.length < 2;
    [empty.hidden, figure.node.hidden] = [!isEmpty, isEmpty];
    if (isEmpty) return;
    const share = data.explained ? ` They show ${percent(data.explained[0] + data.explained[1], 0)} of the variance of the training rows.` : "";
    const axes = data.axes === "discriminants" ? "The two axes are the directions that separate the classes best (linear discriminants)." : `The two axes are the directions in which the training rows vary most (principal components).${share}`;
    figure.setText(`${axes} Rows that are close here can be far apart in the full space. Dots are ${counted(data.training.length, "training row")}, diamonds are ${counted(data.live.length, "live row")}. Point at a row to see it; select a live row to open it.`);
    figure.setDrawing(draw);
  };
  const refresh = async () => {
    // Training rows are sent again only after a change of the model or a restart of the server.
    const known = data ? `?drawn_ms=${data.drawn_ms}` : "";
    const answer = await api.get(`${api.model(context.model().name)}/map${known}`);
    data = { ...answer, training: answer.training ?? data.training };
    colors.hidden = data.task !== "classification";
    render();
  };
  return { node, refresh, every: 5000 };
};

// A figure: a caption, a drawing with a tooltip that follows the pointer or the arrow keys, and a table of the same values.

import { html, svg, table } from "./dom.js";

const tip = document.getElementById("tip");

/** Hides the tooltip and the marks that show the selected value in a drawing. */
export const hideTip = () => {
  tip.hidden = true;
  document.querySelectorAll(".cursor").forEach(cursor => cursor.remove());
};

const line = ([name, value, role]) => html("div", { class: "tip-line" },
  role && html("i", { class: `swatch swatch-${role}` }), html("span", {}, name), html("b", {}, value));

const showTip = ({ title, lines = [], picture }, x, y) => {
  tip.replaceChildren(html("div", { class: "tip-title" }, title), ...lines.map(line), ...(picture ? [picture] : []));
  tip.hidden = false;
  const { clientWidth: width, clientHeight: height } = document.documentElement;
  const box = tip.getBoundingClientRect();
  const left = x + 16 + box.width <= width - 8 ? x + 16 : x - 16 - box.width;
  tip.style.left = `${Math.max(8, Math.min(left, width - 8 - box.width))}px`;
  tip.style.top = `${Math.max(8, Math.min(y + 12, height - box.height - 8))}px`;
};

addEventListener("scroll", hideTip, { passive: true });
document.addEventListener("pointerdown", event => { if (!event.target.closest("svg.drawing")) hideTip(); });

/**
 * Creates a figure. `setDrawing(draw)` sets its drawing: `draw(width)` returns `{ height, top, bottom, shapes, label, legend, points, table }`.
 * `top` and `bottom` are the vertical ends of the plot area. Each of `points` is `{ x, y?, title, lines, picture?, open? }`, with x and y in
 * pixels. Without y, the pointer selects the point with the nearest x. `picture()` returns an element for the tooltip, and `open()` is
 * called after a click or the key Enter. `label` is the text alternative of the drawing. `table` has `titles` and `rows`.
 * Each of `lines` is `[name, value, role?]`, and each of `legend` is `[name, role, kind?]`. A role is the name of a color, such as `s0`; a
 * kind is the shape of the mark: see the classes `swatch-…` and `key-…` in style.css.
 */
export const createFigure = ({ title, text, controls = [], className = "" }) => {
  const drawing = svg("svg", { class: "drawing", role: "img", tabindex: "0" });
  const caption = html("p", {}, text || "");
  const legend = html("ul", { class: "legend" });
  const details = html("details", {}, html("summary", {}, "Values as a table"));
  const holder = html("div", { class: "holder" }, drawing);
  const node = html("figure", { class: `card ${className}` },
    html("figcaption", {}, html("div", { class: "title-line" }, html("h3", {}, title), ...controls), caption),
    legend, holder, details);
  let [draw, current, index, tableText] = [undefined, { points: [] }, -1, ""];

  const showNearest = (position, clientX, clientY) => {
    const { points } = current;
    let best, nearest = Infinity;
    points.forEach((point, i) => {
      const distance = point.y === undefined ? Math.abs(point.x - position.x) : Math.hypot(point.x - position.x, point.y - position.y);
      if (distance < nearest && (point.y === undefined || distance < 18)) [best, nearest] = [i, distance];
    });
    if (best === undefined) return hideTip();
    show(best, clientX, clientY);
  };
  const show = (i, clientX, clientY) => {
    const point = current.points[i];
    index = i;
    drawing.querySelectorAll(".cursor").forEach(old => old.remove());
    drawing.append(svg("g", { class: "cursor" }, point.y === undefined
      ? svg("path", { class: "crosshair", d: `M${point.x} ${current.top}V${current.bottom}` })
      : svg("circle", { class: "ring", cx: point.x, cy: point.y, r: 8 })));
    showTip({ ...point, picture: point.picture && point.picture() }, clientX, clientY);
  };
  const positionInDrawing = event => {
    const box = drawing.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  drawing.addEventListener("pointermove", event => showNearest(positionInDrawing(event), event.clientX, event.clientY));
  drawing.addEventListener("pointerdown", event => showNearest(positionInDrawing(event), event.clientX, event.clientY));
  drawing.addEventListener("pointerleave", event => { if (event.pointerType !== "touch") hideTip(); });
  drawing.addEventListener("blur", hideTip);
  const open = () => current.points[index]?.open?.();
  drawing.addEventListener("click", () => { if (!tip.hidden) open(); });
  // Arrow keys move from value to value.
  drawing.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") hideTip();
    if (event.key === "Enter" && !tip.hidden) open();
    if (!step || !current.points.length) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(current.points.length - 1, (index < 0 && step < 0 ? current.points.length : index) + step));
    const box = drawing.getBoundingClientRect();
    const point = current.points[next];
    show(next, box.left + point.x, box.top + (point.y ?? current.top));
  });

  const render = () => {
    const width = Math.floor(holder.clientWidth);
    if (!draw || width < 50) return;
    const isShown = !tip.hidden && drawing.querySelector(".cursor");
    current = { points: [], top: 0, bottom: 0, ...draw(width) };
    drawing.setAttribute("width", width);
    drawing.setAttribute("height", current.height);
    drawing.setAttribute("viewBox", `0 0 ${width} ${current.height}`);
    drawing.setAttribute("aria-label", [title, current.label].filter(Boolean).join(". "));
    drawing.replaceChildren(...current.shapes);
    legend.hidden = !current.legend?.length;
    legend.replaceChildren(...(current.legend || []).map(([name, role, kind = "line"]) =>
      html("li", {}, html("i", { class: `key key-${kind} swatch-${role}` }), name)));
    details.hidden = !current.table;
    // The table is replaced only if it has changed, so that text that the user has selected in it stays selected.
    const text = JSON.stringify(current.table);
    if (current.table && text !== tableText) {
      tableText = text;
      const { titles, rows } = current.table;
      details.replaceChildren(details.firstChild, table(title, titles, rows));
    }
    if (isShown) hideTip();
  };
  new ResizeObserver(render).observe(holder);
  return {
    node,
    setText: sentence => { if (caption.textContent !== sentence) caption.textContent = sentence; },
    setDrawing: next => { draw = next; render(); },
  };
};

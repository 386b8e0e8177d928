// Interactive parts of the page: sortable tables, legends that hide and show series, and a tooltip with values.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const tip = document.getElementById("tip");

  // --- Number format, as in the rest of the page: the functions `fixed` and `significant` of number_format.rs. Infinite values are null
  // (−∞) and "∞".

  const minus = text => text.replace(/^-/, /[1-9]/.test(text) ? "−" : "");
  const fixed = (value, decimals) => {
    if (value === null) return "−∞";
    return typeof value === "string" ? value : minus(value.toFixed(decimals));
  };
  const significant = (value, digits) => {
    if (typeof value !== "number") return fixed(value);
    const magnitude = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));
    if (magnitude < -4 || magnitude >= 6) return minus(value.toExponential(digits - 1).replace("e+", "e"));
    return fixed(value, Math.max(digits - 1 - magnitude, 0));
  };
  const format = (value, unit) => {
    if (typeof value !== "number") return fixed(value);
    if (unit === "share") return (100 * value).toFixed(1) + " %";
    if (unit === "count") return Math.round(value).toLocaleString("en-US");
    return significant(value, 4);
  };

  // --- Tables: a click on a heading sorts by its column, a second click reverses the order.

  const sort = (table, heading) => {
    const column = [...heading.parentNode.children].indexOf(heading);
    const current = heading.getAttribute("aria-sort");
    const first = heading.dataset.first;
    const direction = current !== first ? first : first === "ascending" ? "descending" : "ascending";
    const key = row => {
      const cell = row.children[column];
      return "v" in cell.dataset ? parseFloat(cell.dataset.v) : cell.textContent;
    };
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a < b ? -1 : a > b ? 1 : 0);
    const sign = direction === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const rows = [...body.rows].map(row => [key(row), row]);
    // Missing values come last in both directions.
    const isMissing = value => Number.isNaN(value);
    const order = (a, b) => isMissing(a) - isMissing(b) || sign * compare(a, b);
    rows.sort((a, b) => order(a[0], b[0])).forEach(([, row]) => body.append(row));
    table.querySelectorAll("th[aria-sort]").forEach(th => th.setAttribute("aria-sort", th === heading ? direction : "none"));
  };
  document.querySelectorAll("table.sortable").forEach(table =>
    table.querySelectorAll("th[aria-sort]").forEach(heading =>
      heading.querySelector("button").addEventListener("click", () => sort(table, heading))));

  // --- Tooltip. Names come from data, so they are set as text and never as HTML.

  const element = (name, text, className) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  };
  const line = (name, value, role) => {
    const row = element("div", undefined, "tip-line");
    if (role) row.append(element("i", undefined, "swatch swatch-" + role));
    row.append(element("span", name), element("b", value));
    return row;
  };
  const hide = () => {
    tip.hidden = true;
    document.querySelectorAll(".cursor").forEach(cursor => cursor.remove());
  };
  const show = (title, lines, x, y) => {
    tip.replaceChildren(element("div", title, "tip-title"), ...lines);
    tip.hidden = false;
    const width = document.documentElement.clientWidth;
    const box = tip.getBoundingClientRect();
    const left = x + 16 + box.width <= width - 8 ? x + 16 : x - 16 - box.width;
    const top = Math.min(y + 12, document.documentElement.clientHeight - box.height - 8);
    tip.style.left = Math.max(8, Math.min(left, width - 8 - box.width)) + "px";
    tip.style.top = Math.max(8, top) + "px";
  };

  // --- Marks that are drawn over a figure at the pointer.

  const shape = (name, attributes) => {
    const node = document.createElementNS(SVG, name);
    Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, value));
    return node;
  };
  const cursor = (svg, shapes) => {
    document.querySelectorAll(".cursor").forEach(old => old.remove());
    const group = shape("g", { class: "cursor" });
    group.append(...shapes);
    svg.append(group);
  };

  const transform = (axis, value) => (axis.log ? Math.log(value) : value);
  const inverse = (axis, value) => (axis.log ? Math.exp(value) : value);
  const fraction = (axis, value) => (transform(axis, value) - transform(axis, axis.low)) / (transform(axis, axis.high) - transform(axis, axis.low));
  const valueAt = (axis, t) => inverse(axis, transform(axis, axis.low) + t * (transform(axis, axis.high) - transform(axis, axis.low)));
  const xPosition = (plot, x) => plot.area[0] + fraction(plot.x, x) * plot.area[2];
  const yPosition = (plot, y) => plot.area[1] + (1 - Math.min(1, Math.max(0, fraction(plot.y, y)))) * plot.area[3];
  const fractionAt = (plot, x) => Math.min(1, Math.max(0, (x - plot.area[0]) / plot.area[2]));

  // Value of a line at x, by linear interpolation; undefined if x is outside the range of the line.
  const interpolate = (points, x, axis) => {
    let low = 0, high = points.length - 1;
    if (high < 0 || x < points[0][0] || x > points[high][0]) return undefined;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle][0] <= x) low = middle; else high = middle;
    }
    const [a, b] = [points[low], points[high]];
    if (typeof a[1] !== "number" || typeof b[1] !== "number") return a[1];
    const t = b[0] > a[0] ? (transform(axis, x) - transform(axis, a[0])) / (transform(axis, b[0]) - transform(axis, a[0])) : 1;
    return a[1] + t * (b[1] - a[1]);
  };

  // Removes the unit from a title.
  const withoutUnit = title => title.replace(/ \(.*\)$/, "");

  // --- Values at a position, for each kind of figure.

  const readers = {
    lines: (data, at, isShown) => {
      const [first] = data.panels;
      const x = valueAt(first.x, fractionAt(first, at.x));
      const lines = [], shapes = [];
      let count = 0;
      for (const panel of data.panels) {
        const left = xPosition(panel, x);
        shapes.push(shape("path", { d: `M${left} ${panel.area[1]}v${panel.area[3]}`, class: "crosshair" }));
        for (const series of panel.series) {
          if (!isShown(count++)) continue;
          // Points can be in decreasing order of x.
          const points = series.sorted || (series.sorted = [...series.points].sort((a, b) => a[0] - b[0]));
          const y = interpolate(points, x, panel.x);
          if (y === undefined) continue;
          lines.push(line(withoutUnit(series.name), format(y, panel.y.unit), series.role));
          if (typeof y === "number") shapes.push(shape("circle", { cx: left, cy: yPosition(panel, y), r: 3.5, class: "dot fill-" + series.role }));
        }
      }
      const last = data.panels[data.panels.length - 1];
      return { title: withoutUnit(last.x.title) + ": " + format(x, last.x.unit), lines, shapes };
    },

    bars: (data, at, isShown) => {
      const x = valueAt(data.x, fractionAt(data, at.x));
      // The bin nearest to the pointer: the pointer may be in the gap between an outer bin and the other bins.
      const distances = data.bins.map(([first, last]) => Math.max(first - x, x - last, 0));
      const bin = distances.indexOf(Math.min(...distances));
      const [left, right] = data.bins[bin].map(end => xPosition(data, end));
      const shapes = [shape("rect", { x: left, y: data.area[1], width: right - left, height: data.area[3], class: "band" })];
      const lines = data.sets.filter((_, i) => isShown(i)).map(set => line(set.name, format(set.shares[bin], "share"), set.role));
      const [low, high] = [data.edges[bin], data.edges[bin + 1]];
      // With this number of digits, the ends of a narrow bin differ.
      const needed = high > low ? 1 + Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / (high - low))) : 0;
      const edge = value => significant(value, Math.max(4, needed));
      const range = low === null ? `below ${edge(high)}` : typeof high === "string" ? `above ${edge(low)}` : `${edge(low)} to ${edge(high)}`;
      return { title: `${data.x.title}: ${range}`, lines, shapes };
    },

    map: (data, at, isShown) => {
      let best, nearest = at.reach * at.reach;
      for (const point of data.points) {
        const distance = (point[0] - at.x) ** 2 + (point[1] - at.y) ** 2;
        if (distance < nearest && isShown(point[2])) [best, nearest] = [point, distance];
      }
      if (!best) return undefined;
      const [x, y, set, row, label, truth, probability, epistemic] = best;
      const lines = [line("prediction", data.labels[label]), line("true label", truth === null ? "unknown" : data.labels[truth])];
      lines.push(line("probability", fixed(probability, 3)), line("log epistemic", fixed(epistemic, 2)));
      const shapes = [shape("circle", { cx: x, cy: y, r: data.radius + 4, class: "ring" })];
      return { title: `${data.sets[set]}, row ${row}`, lines, shapes };
    },
  };

  // --- Figures: pointer, touch and arrow keys.

  document.querySelectorAll("figure").forEach(figure => {
    const svg = figure.querySelector("svg.drawing");
    const data = JSON.parse(figure.querySelector("script").textContent);
    const buttons = [...figure.querySelectorAll(".legend button")];
    const isShown = i => !buttons[i] || buttons[i].getAttribute("aria-pressed") === "true";
    const main = data.panels ? data.panels[0] : data;

    const read = (x, y, clientX, clientY) => {
      const scale = svg.getScreenCTM().a;
      const values = readers[data.kind](data, { x, y, reach: 16 / scale }, isShown);
      if (!values) return hide();
      cursor(svg, values.shapes);
      show(values.title, values.lines, clientX, clientY);
    };
    const point = event => {
      const position = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      read(position.x, position.y, event.clientX, event.clientY);
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", event => { if (event.pointerType !== "touch") hide(); });

    // Arrow keys move along the horizontal axis, or from point to point of the map.
    let [at, index] = [0.5, -1];
    const positionAfter = step => {
      if (data.kind !== "map") {
        at = Math.min(1, Math.max(0, at + 0.02 * step));
        return [main.area[0] + at * main.area[2], main.area[1] + main.area[3] / 2];
      }
      const shown = data.points.filter(point => isShown(point[2]));
      index = Math.min(shown.length - 1, Math.max(0, index + step));
      return shown[index];
    };
    svg.addEventListener("keydown", event => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") hide();
      const position = step && positionAfter(step);
      if (!position) return;
      event.preventDefault();
      const [x, y] = position;
      const screen = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
      read(x, y, screen.x, screen.y);
    });
    svg.addEventListener("blur", hide);

    buttons.forEach((button, i) => button.addEventListener("click", () => {
      const on = !isShown(i);
      button.setAttribute("aria-pressed", on);
      svg.querySelectorAll(`[data-series="${i}"]`).forEach(series => series.classList.toggle("off", !on));
      hide();
    }));
  });
  document.addEventListener("pointerdown", event => { if (!event.target.closest("svg.drawing")) hide(); });
  addEventListener("scroll", hide, { passive: true });
})();

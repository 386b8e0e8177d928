// Checks the page that contains this script and posts the failures to the parent page.
(() => {
  const failures = [];
  let checks = 0;
  const check = (holds, message) => { checks += 1; if (!holds) failures.push(message); };
  addEventListener("error", event => failures.push("error: " + (event.message || event.target.outerHTML)), true);
  addEventListener("securitypolicyviolation", event => failures.push("loads " + event.blockedURI));
  const consoleError = console.error;
  console.error = (...words) => { failures.push("console: " + words.join(" ")); consoleError(...words); };

  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const fitsViewport = what => {
    const { scrollWidth } = document.documentElement;
    check(scrollWidth <= innerWidth, `${what}: ${scrollWidth} px in a viewport of ${innerWidth}`);
  };
  const inside = (inner, outer, slack = 1) =>
    inner.left >= outer.left - slack && inner.right <= outer.right + slack &&
    inner.top >= outer.top - slack && inner.bottom <= outer.bottom + slack;
  const name = figure => figure.id;
  const luminance = color => {
    const [r, g, b] = color.match(/[\d.]+/g).map(Number).map(c => c / 255)
      .map(c => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };

  function checkFigure(figure) {
    const svg = figure.querySelector("svg.drawing");
    const box = svg.getBoundingClientRect();
    check(box.width > 100 && box.height > 100, `${name(figure)} has no size`);
    check(box.left >= 0 && box.right <= innerWidth, `${name(figure)} leaves the viewport`);
    const texts = all("text", svg);
    texts.forEach(text => check(inside(text.getBoundingClientRect(), box, 1), `${name(figure)}: "${text.textContent}" is clipped`));
    const boxes = texts.map(text => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
      const apart = p.right <= q.left + 1 || q.right <= p.left + 1 || p.bottom <= q.top + 3 || q.bottom <= p.top + 3;
      check(apart, `${name(figure)}: "${a}" and "${b}" overlap`);
    }));
    texts.forEach(text => check(parseFloat(getComputedStyle(text).fontSize) * box.width / svg.viewBox.baseVal.width >= 10,
      `${name(figure)}: "${text.textContent}" is too small to read`));
    all(".legend button", figure).forEach(button =>
      check(inside(button.getBoundingClientRect(), figure.getBoundingClientRect()), `${name(figure)}: the legend leaves its card`));
  }

  const point = (svg, type, x, y) =>
    svg.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, bubbles: true, pointerType: type === "pointerdown" ? "touch" : "mouse" }));

  function checkPointer(figure) {
    const svg = figure.querySelector("svg.drawing");
    const data = JSON.parse(figure.querySelector("script").textContent);
    const tip = document.getElementById("tip");
    const valueOf = name => {
      const line = all(".tip-line", tip).find(line => line.querySelector("span").textContent === name);
      return line && line.querySelector("b").textContent;
    };
    figure.scrollIntoView();
    // Target: a point of the map, the middle of a line chart, or a position close to the middle of a histogram. The middle itself may
    // be the end of a bin.
    const fraction = data.kind === "bars" ? 0.51 : 0.5;
    const { area } = data.panels ? data.panels[0] : data;
    const target = data.kind === "map" ? data.points[3] : [area[0] + fraction * area[2], area[1] + area[3] / 2];
    const position = new DOMPoint(target[0], target[1]).matrixTransform(svg.getScreenCTM());
    for (const type of ["pointermove", "pointerdown"]) {
      point(svg, type, position.x, position.y);
      check(!tip.hidden && svg.querySelector(".cursor"), `${name(figure)}: ${type} shows nothing`);
      const box = tip.getBoundingClientRect();
      check(box.left >= 0 && box.right <= innerWidth, `${name(figure)}: the tooltip leaves the viewport`);
      if (data.kind === "lines") {
        const series = data.panels.flatMap(panel => panel.series);
        check(series.every(line => tip.textContent.includes(line.name.replace(/ \(.*\)$/, ""))), `${name(figure)}: names missing in ${tip.textContent}`);
        if (figure.id.startsWith("roc")) check(valueOf("chance") === "50.0 %", `${figure.id}: chance is ${valueOf("chance")}`);
        if (figure.id === "risk-coverage") check(/ 50\.0 %/.test(tip.textContent), `half of the rows: ${tip.textContent}`);
      }
      if (data.kind === "bars") {
        const score = data.x.low + fraction * (data.x.high - data.x.low);
        const bin = data.bins.findIndex(([first, last]) => first <= score && score <= last);
        const share = (100 * data.sets[0].shares[bin]).toFixed(1) + " %";
        check(valueOf(data.sets[0].name) === share, `${name(figure)}: ${tip.textContent} instead of ${share}`);
        const title = tip.querySelector(".tip-title").textContent;
        const [, low, high] = title.match(/: (\S+) to (\S+)$/) || [];
        const isNumber = text => /^−?\d+(\.\d+)?(e-?\d+)?$/.test(text);
        check(isNumber(low) && isNumber(high) && low !== high, `${name(figure)}: the ends of a bin are shown as "${title}"`);
      }
      if (data.kind === "map") {
        const [, , set, row, label] = target;
        check(tip.textContent.includes(`${data.sets[set]}, row ${row}`) && tip.textContent.includes(data.labels[label]), `map: ${tip.textContent}`);
        // The row of the target has a log epistemic uncertainty of −∞: see `map_point` in tests/integration/common/mod.rs.
        check(tip.textContent.includes("−∞"), `map: infinity is shown as ${tip.textContent}`);
      }
      fitsViewport(`${name(figure)} with its tooltip`);
      svg.dispatchEvent(new PointerEvent("pointerleave", { pointerType: "mouse" }));
      check(tip.hidden && !svg.querySelector(".cursor"), `${name(figure)}: the tooltip is not hidden`);
    }
  }

  function checkLegend(figure) {
    const [button] = all(".legend button", figure);
    if (!button) return check(figure.id === "bandwidth", `${name(figure)} has no legend`);
    const series = figure.querySelector('svg.drawing [data-series="0"]');
    const isVisible = () => getComputedStyle(series).display !== "none";
    check(isVisible(), `${name(figure)}: the first series is not visible`);
    button.click();
    check(!isVisible() && button.getAttribute("aria-pressed") === "false", `${name(figure)}: a click on the legend does not hide the series`);
    button.click();
    check(isVisible(), `${name(figure)}: a second click on the legend does not show the series again`);
  }

  function checkKeys(figure) {
    const svg = figure.querySelector("svg.drawing");
    check(svg.tabIndex === 0, `${name(figure)} cannot be focused`);
    check(svg.getAttribute("aria-label").includes(figure.querySelector("figcaption p").textContent), `${name(figure)}: the caption is not in the text alternative`);
    svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
    check(!document.getElementById("tip").hidden, `${name(figure)}: arrow keys show nothing`);
    svg.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
    check(document.getElementById("tip").hidden, `${name(figure)}: escape hides nothing`);
  }

  function checkTable() {
    const table = document.querySelector("table.methods");
    const headings = all("th[aria-sort]", table);
    headings.forEach((heading, column) => {
      const values = () => [...table.tBodies[0].rows].map(row => parseFloat(row.children[column].dataset.v));
      // Missing values, which are NaN here, come last.
      const isSorted = (list, sign) => list.every((v, i) => i === 0 || Number.isNaN(v) || sign * (v - list[i - 1]) >= 0);
      heading.querySelector("button").click();
      const first = heading.dataset.first;
      check(heading.getAttribute("aria-sort") === first, `${heading.textContent}: aria-sort`);
      check(headings.filter(other => other.getAttribute("aria-sort") !== "none").length === 1, "not exactly one heading is marked as sorted");
      const sign = first === "ascending" ? 1 : -1;
      if (column > 0) check(isSorted(values(), sign), `${heading.textContent} is not sorted ${first}`);
      heading.querySelector("button").click();
      if (column > 0) check(isSorted(values(), -sign), `${heading.textContent} is not sorted the other way`);
    });
    all("th[scope=row] span", table).forEach(title => {
      const isWhole = title.scrollWidth <= title.clientWidth && title.scrollHeight <= title.clientHeight;
      check(isWhole, `the name "${title.textContent.slice(0, 60)}" is truncated`);
    });
    const names = [...table.tBodies[0].rows].map(row => row.children[0].textContent);
    check(new Set(names).size === names.length, "sorting loses rows");
  }

  function checkTheme() {
    const read = () => getComputedStyle(document.body).backgroundColor;
    const before = read();
    const line = () => getComputedStyle(document.querySelector("svg.drawing .line-s0")).stroke;
    const stroke = line();
    for (let turn = 0; turn < 2; turn += 1) {
      const colors = ["h1", "h2", ".lead", "td small", ".note", "td.best", ".legend-note", "thead th button"];
      for (const selector of colors.filter(s => document.querySelector(s))) {
        const text = getComputedStyle(document.querySelector(selector)).color;
        const ground = getComputedStyle(document.querySelector(".card")).backgroundColor;
        for (const back of [ground, read()]) check(contrast(text, back) >= 4.5, `${selector}: contrast of ${text} on ${back}`);
      }
      all("svg.drawing text").forEach(text => {
        const ground = getComputedStyle(text.closest(".card")).backgroundColor;
        check(contrast(getComputedStyle(text).fill, ground) >= 4.5, `contrast of "${text.textContent}"`);
      });
      document.getElementById("theme").click();
      let stored = "denied";
      try { stored = localStorage.getItem("nuq-theme"); } catch { /* browsers may deny storage to pages opened from a file */ }
      check(["denied", document.documentElement.dataset.theme].includes(stored), `theme: stored ${stored}`);
      check((turn === 0) === (read() !== before), `theme: ${before} and ${read()}`);
      check((turn === 0) === (line() !== stroke), "lines do not follow the theme");
    }
  }

  addEventListener("load", async () => {
    try {
      await document.fonts.ready;
      check([...document.fonts].some(font => font.family === "Roboto" && font.status === "loaded"), "the font is not used");
      fitsViewport("page");
      const figures = all("figure");
      for (const step of [checkFigure, checkPointer, checkLegend]) figures.forEach(step);
      figures.forEach(checkKeys);
      checkTable();
      checkTheme();
      fitsViewport("page after use");
    } catch (error) {
      failures.push("checks: " + error.stack);
    }
    const unique = [...new Set(failures)].slice(0, 30);
    parent.postMessage(JSON.stringify({ failures: unique, checks, width: innerWidth, figures: all("figure").length }), "*");
  });
})();

// Creates elements. Text is always set as text content and never as markup, because labels come from data.

const SVG = "http://www.w3.org/2000/svg";

const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter(child => child !== undefined && child !== null && child !== false));
  return node;
};

/** An HTML element: `html("p", { class: "note" }, "text", child)`. */
export const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

/** An SVG element. */
export const svg = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

/** A button that runs an action. */
export const button = (text, action, attributes = {}) => html("button", { type: "button", onclick: action, ...attributes }, text);

/** A group of buttons of which one is pressed. `options` are pairs of value and text. */
export const choice = (label, options, value, onchange) => {
  const group = html("div", { class: "choice", role: "group", "aria-label": label });
  const set = chosen => {
    [...group.children].forEach((child, i) => child.setAttribute("aria-pressed", String(options[i][0] === chosen)));
  };
  group.append(...options.map(([key, text]) => button(text, () => { set(key); onchange(key); })));
  set(value);
  return group;
};

/** A message in place of data: a title, sentences, and a command to copy. */
export const notice = (title, sentences, command, ...rest) => html("div", { class: "card notice" },
  html("h2", {}, title),
  sentences.map(sentence => html("p", {}, sentence)),
  command && html("pre", { tabindex: "0" }, html("code", {}, command)),
  rest);

/** A table from column titles and rows of cells. */
export const table = (caption, titles, rows) => html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
  html("table", {},
    html("caption", { class: "visually-hidden" }, caption),
    html("thead", {}, html("tr", {}, titles.map(title => html("th", { scope: "col" }, title)))),
    html("tbody", {}, rows.map(cells => html("tr", {}, cells.map(cell => html("td", {}, cell)))))));

// Work for people: rows worth a label, doubtful labels, and the list of changes with undo.

import * as api from "../api.js";
import { button, html, notice, table } from "../dom.js";
import { moment, percent } from "../format.js";
import { decision, picture, predictionText, probabilityText } from "../rows.js";

const LIMIT = 12;
/** Errors of one list: it is not possible for this model, or takes longer than the time limit of the server. */
const SHOWN = [404, 409, 422, 429, 503];

export const create = context => {
  const message = html("p", { class: "message", role: "status" });
  const access = html("p", { class: "finding" });
  const suggestions = html("ul", { class: "tasks" });
  const issues = html("ul", { class: "tasks" });
  const changes = html("div", { class: "card" });
  const classNames = html("datalist", { id: "classes" });
  const section = (title, lead, content) => html("section", {}, html("h2", {}, title), html("p", { class: "lead" }, lead), content);
  const node = html("div", {}, html("h1", {}, "To do"), access, message, classNames,
    section("Rows worth a label", "Recent rows that are uncertain and different from each other. With a label, each becomes a training row.", suggestions),
    section("Doubtful labels", "Training rows whose neighbors have another label. The label may be wrong, or the row may be unusual.", issues),
    section("Changes", "The latest changes of this model. Each can be undone.", changes));
  const base = () => api.model(context.model().name);

  /** Runs a change, shows its result, and reads the lists again. */
  const change = async (target, action) => {
    target.disabled = true;
    try {
      message.textContent = await action();
      message.className = "message done";
      context.modelChanged();
      await refresh();
    } catch (error) {
      message.className = "message failed";
      message.textContent = error.message;
      if (api.needsKey(error)) context.askKey();
      target.disabled = false;
    }
  };

  /** A label in the type of the classes of the model. */
  const typed = text => {
    const classes = Array.isArray(context.model().classes) ? context.model().classes : [];
    const known = classes.find(name => String(name) === text);
    if (known !== undefined) return known;
    return classes.length && classes.every(name => typeof name === "number") && text !== "" && Number.isInteger(Number(text)) ? Number(text) : text;
  };

  const suggestion = row => {
    const name = html("input", { type: "text", list: "classes", value: row.label ?? "", "aria-label": `Label of the row of ${moment(row.time)}` });
    const add = html("button", { type: "submit" }, "Add with this label");
    return html("li", { class: "card task" },
      html("div", { class: "task-pictures" }, (row.neighbors || []).slice(0, 3).map(neighbor => picture(neighbor.picture, `Nearest training row: ${neighbor.label}`))),
      html("div", { class: "task-text" },
        html("p", {}, html("b", {}, predictionText(row)), ` ${probabilityText(row)} `, decision(row)),
        html("p", { class: "note" }, `Scored at ${moment(row.time)}. `, (row.neighbors || []).length ? `Nearest training rows: ${row.neighbors.slice(0, 3).map(neighbor => neighbor.label).join(", ")}. ` : "",
          html("a", { href: context.link("prediction", { row: row.id }) }, "Details"))),
      html("form", { onsubmit: event => {
        event.preventDefault();
        const label = name.value.trim();
        if (!label) { message.className = "message failed"; message.textContent = "Enter a label."; name.focus(); return; }
        change(add, async () => {
          const { embedding } = await api.get(`${base()}/recent/${encodeURIComponent(row.id)}`);
          const result = await api.post(`${base()}/rows`, { rows: [embedding], labels: [typed(label)] });
          return `Added as training row ${result.ids[0]} with the label “${label}”.`;
        });
      } }, name, add));
  };

  const issueOf = row => issue({ ...row, label: String(row.label), suggestion: String(row.suggestion), value: row.suggestion });
  const issue = row => html("li", { class: "card task" },
    html("div", { class: "task-pictures" }, picture(row.picture, `Picture of training row ${row.id}`)),
    html("div", { class: "task-text" },
      html("p", {}, "Label ", html("b", {}, row.label), ", neighbors suggest ", html("b", {}, row.suggestion)),
      html("p", { class: "note" }, `Training row ${row.id}. Probability of its label ${percent(row.probability)}, of “${row.suggestion}” ${percent(row.suggestion_probability)}.`)),
    html("div", { class: "task-actions" },
      button(`Change to “${row.suggestion}”`, event => change(event.target, async () => {
        await api.post(`${base()}/rows/relabel`, { ids: [row.id], labels: [row.value] });
        return `The label of training row ${row.id} is now “${row.suggestion}”.`;
      })),
      button("Remove the row", event => change(event.target, async () => {
        await api.post(`${base()}/rows/remove`, { ids: [row.id] });
        return `Training row ${row.id} is removed.`;
      }))));

  const changeTable = list => table("Changes", ["Time", "Change", ""], list.map(entry => [moment(entry.time), entry.text,
    entry.can_undo === false ? "" : button("Undo", event => change(event.target, async () => {
      await api.post(`${base()}/changes/${entry.id}/undo`, {});
      return `Undone: ${entry.text}.`;
    }), { "aria-label": `Undo: ${entry.text}` })]));

  /** A list that may be refused, such as label issues of a regression. */
  const list = async (path, target, create, none) => {
    // A half-typed label is not overwritten.
    if (target.contains(document.activeElement) && document.activeElement.tagName === "INPUT") return;
    try {
      const rows = await api.get(path);
      target.replaceChildren(...(rows.length ? rows.map(create) : [html("li", { class: "card text" }, none)]));
    } catch (error) {
      if (!SHOWN.includes(error.status)) throw error;
      target.replaceChildren(html("li", { class: "card text" }, error.message));
    }
  };

  const refresh = async () => {
    const model = context.model();
    access.textContent = model.changes === false
      ? "This server does not accept changes. Start it with --state DIR to keep changes, or with --ephemeral to try them."
      : "Changes take effect at once and need the write key, if the server has one. A change of rows removes the thresholds of the model, because they were calibrated for the former rows: calibrate them again afterwards, or undo the change.";
    classNames.replaceChildren(...(Array.isArray(model.classes) ? model.classes : []).map(name => html("option", { value: name })));
    const path = base();
    await list(`${path}/suggest?limit=${LIMIT}`, suggestions, suggestion, "No recent rows. Suggestions appear when rows are scored.");
    await list(`${path}/label-issues?limit=${LIMIT}`, issues, issueOf, "No doubtful labels.");
    try {
      const entries = await api.get(`${path}/changes?limit=20`);
      changes.replaceChildren(entries.length ? changeTable(entries) : html("p", { class: "text" }, "No changes so far."));
    } catch (error) {
      if (!SHOWN.includes(error.status)) throw error;
      changes.replaceChildren(html("p", { class: "text" }, error.message));
    }
  };
  return { node, refresh, every: 30000 };
};

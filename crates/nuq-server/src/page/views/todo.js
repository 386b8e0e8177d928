// Tasks for people: rows that should be labeled, doubtful labels, and the list of changes. Most changes can be undone.

import * as api from "../api.js";
import { button, html, table } from "../dom.js";
import { comparedRows, moment, percent, rank } from "../format.js";
import { decision, picture, predictionText, probabilityText, rejecting } from "../rows.js";

const LIMIT = 12;
/** Largest number of labels that have a button of their own. */
const LABELS = 3;
/**
 * Statuses of errors that are shown in place of one list. The model has no such list (404, 409, 422), the server has too many requests
 * (429), or the list takes longer than the time limit or cannot be read from the state of the server (503).
 */
const SHOWN = [404, 409, 422, 429, 503];

/** Names in a sentence: “a”, “b” and “c”. */
const listed = names => {
  const quoted = names.map(name => `“${name}”`);
  return quoted.length < 2 ? quoted.join("") : `${quoted.slice(0, -1).join(", ")} and ${quoted.at(-1)}`;
};
/**
 * The sentence about rules (thresholds, prediction sets and intervals) that a change removed. If the change is an undo, the sentence
 * does not say why they were removed: undoing a calibration removes a rule although the rows stay the same.
 */
const removedText = ({ removed_rules: names, undoes }) => {
  const [rules, were, them] = names.length === 1 ? ["rule", "it was", "it"] : ["rules", "they were", "them"];
  if (undoes) return `Undoing the change removed the ${rules} ${listed(names)}.`;
  return `The change removed the ${rules} ${listed(names)}, because ${were} calibrated for the former rows. Calibrate ${them} again, or undo the change.`;
};

export const create = context => {
  const message = html("p", { class: "message", role: "status" });
  const access = html("p", { class: "finding" });
  const suggestions = html("ul", { class: "tasks" });
  const issues = html("ul", { class: "tasks" });
  const changes = html("div", { class: "card" });
  const classNames = html("datalist", { id: "classes" });
  /** Rows that were skipped in this tab, by list and id. */
  const skipped = new Set();
  const section = (title, lead, content) => html("section", {}, html("h2", {}, title), html("p", { class: "lead" }, lead), content);
  const node = html("div", {}, html("h1", {}, "To do"), access, message, classNames,
    section("Rows to label next", `Recent rows that a threshold rejected. A row that was scored without a threshold is listed if its epistemic uncertainty is higher than that of 90\u00a0% of the compared rows. These are the held-out rows if the model now has a threshold for this uncertainty, otherwise the training rows. The list has at most ${LIMIT} rows, chosen to differ from each other. Rows that equal a training row are left out. With a label, a row becomes a training row.`, suggestions),
    section("Doubtful labels", "Training rows whose neighbors have another label. The label may be wrong, or the row may be unusual.", issues),
    section("Changes", "The latest changes of this model. Most changes can be undone.", changes));
  const base = () => api.model(context.model().name);

  const say = (state, ...parts) => {
    message.className = `message ${state}`;
    message.replaceChildren(...parts);
  };

  /**
   * Runs a change, shows its result, and reads the lists again. `action` returns a sentence and the response of the server. `ask` may
   * answer an error with a question, and then returns true.
   */
  const change = async (target, action, ask = () => false) => {
    target.disabled = true;
    try {
      const [sentence, result] = await action();
      const removed = result.removed_rules?.length ? ` ${removedText(result)}` : "";
      const undo = button("Undo", event => undoChange(event.target, result.change, sentence), { "aria-label": `Undo: ${sentence}` });
      say("done", `${sentence}${removed} `, ...(result.change && !result.undoes ? [undo] : []));
      await readAgain();
    } catch (error) {
      target.disabled = false;
      if (!(error instanceof api.RequestError)) throw error;
      if (ask(error)) return;
      say("failed", error.message);
      if (api.needsKey(error)) context.askKey();
    }
  };
  /** Reads the model and the lists after a change. The change has succeeded even if they cannot be read; the next refresh reports this. */
  const readAgain = async () => {
    try {
      await context.modelChanged();
      await refresh();
    } catch (error) {
      if (!(error instanceof api.RequestError)) throw error;
    }
  };
  const undoChange = (target, id, sentence) => change(target, async () => [`Undone: ${sentence}`, await api.post(`${base()}/changes/${id}/undo`, {})]);

  /** The classes of the model; empty for a regression. */
  const classes = () => (Array.isArray(context.model().classes) ? context.model().classes : []);
  /** A label in the type of the classes of the model; a number for a regression, if the text is one. */
  const typed = text => {
    const isNumber = text.trim() !== "" && Number.isFinite(Number(text));
    if (!classes().length) return isNumber ? Number(text) : text;
    const known = classes().find(name => String(name) === text);
    if (known !== undefined) return known;
    return isNumber && Number.isInteger(Number(text)) && classes().every(name => typeof name === "number") ? Number(text) : text;
  };

  /**
   * Sends labels; `sentence(response)` is a sentence about the result. If a label is not a class of the model, the user is asked before the
   * class is created.
   */
  const sendLabels = (target, path, body, sentence) => {
    const ask = error => {
      if (error.code !== "new_class") return false;
      const create = event => {
        // A second click must not send the row again.
        event.target.disabled = true;
        sendLabels(target, path, { ...body, new_classes: body.labels }, sentence);
      };
      const yes = button("Create the class", create, { class: "primary" });
      const no = button("Cancel", () => { say(""); target.focus(); });
      say("question", `The model has no class “${body.labels[0]}”. Is this a new class, or a typing error? `, yes, " ", no);
      message.scrollIntoView({ block: "nearest" });
      yes.focus();
      return true;
    };
    return change(target, async () => {
      const result = await api.post(`${base()}/${path}`, body);
      return [sentence(result), result];
    }, ask);
  };

  const skip = (list, id, text) => {
    skipped.add(`${list} ${id}`);
    say("done", `${text} is skipped in this tab. `, button("Undo", () => { skipped.delete(`${list} ${id}`); say(""); refresh(); }));
    refresh();
  };

  const reason = row => {
    const names = rejecting(row);
    return names.length ? `Rejected by ${listed(names)}.` : `Its epistemic uncertainty is higher than ${rank(row.rank)} of the ${comparedRows(row.compared_with)}.`;
  };

  const suggestion = row => {
    const add = (target, label) => sendRow(target, row, label, () => { name.value = ""; });
    const labels = row.probability === null ? [] : [...new Set([row.label, ...(row.neighbors || []).map(neighbor => neighbor.label)])].slice(0, LABELS);
    const name = html("input", { type: "text", list: "classes", placeholder: labels.length ? "other label" : "value", "aria-label": `Label of row ${row.id}` });
    const submit = html("button", { type: "submit" }, "Add");
    return html("li", { class: "card task", "data-id": row.id },
      html("div", { class: "task-pictures" }, (row.neighbors || []).slice(0, 3).map(neighbor => picture(neighbor.picture, `Nearest training row: ${neighbor.label}`))),
      html("div", { class: "task-text" },
        html("p", {}, html("b", {}, `Row ${row.id}`), ", predicted ", html("b", {}, predictionText(row)), ` ${probabilityText(row)} `, decision(row)),
        html("p", { class: "note" }, `${reason(row)} Scored at ${moment(row.time)}. `,
          (row.neighbors || []).length ? `${row.neighbors[0].picture ? "The pictures show its nearest training rows" : "Its nearest training rows"}: ${row.neighbors.slice(0, 3).map(neighbor => neighbor.label).join(", ")}. ` : "",
          html("a", { href: context.link("prediction", { row: row.id }) }, "Details"))),
      html("form", { class: "task-actions", onsubmit: event => {
        event.preventDefault();
        const label = name.value.trim();
        if (!label) { say("failed", "Enter a label."); name.focus(); return; }
        add(submit, label);
      } },
        labels.map(label => button(label, event => add(event.target, label), { "aria-label": `Add row ${row.id} with the label ${label}` })),
        html("span", { class: "other" }, name, submit),
        button("Skip", () => skip("suggestion", row.id, `Row ${row.id}`), { class: "quiet", "aria-label": `Skip row ${row.id}` })));
  };
  /** Sends a row with a label. `added` is called when the row has been added. */
  const sendRow = async (target, row, label, added) => {
    target.disabled = true;
    try {
      const { embedding } = await api.get(`${base()}/recent/${encodeURIComponent(row.id)}`);
      await sendLabels(target, "rows", { rows: [embedding], labels: [typed(label)] }, ({ ids }) => {
        added();
        return `Row ${row.id} is now training row ${ids[0]} with the label “${label}”.`;
      });
    } catch (error) {
      target.disabled = false;
      if (!(error instanceof api.RequestError)) throw error;
      say("failed", error.message);
    }
  };

  const issueOf = row => issue({ ...row, label: String(row.label), suggestion: String(row.suggestion), value: row.suggestion });
  const issue = row => html("li", { class: "card task", "data-id": row.id },
    html("div", { class: "task-pictures" }, picture(row.picture, `Picture of training row ${row.id}`)),
    html("div", { class: "task-text" },
      html("p", {}, html("b", {}, `Training row ${row.id}`), " has the label ", html("b", {}, row.label), ", its neighbors suggest ", html("b", {}, row.suggestion)),
      html("p", { class: "note" }, `Probability of its label ${percent(row.probability)}, of “${row.suggestion}” ${percent(row.suggestion_probability)}.`)),
    html("div", { class: "task-actions" },
      button(`Change to “${row.suggestion}”`, event => sendLabels(event.target, "rows/relabel", { ids: [row.id], labels: [row.value] }, () => `The label of training row ${row.id} is now “${row.suggestion}”.`)),
      button("Remove the row", event => change(event.target, async () => [`Training row ${row.id} is removed.`, await api.post(`${base()}/rows/remove`, { ids: [row.id] })])),
      button("Skip", () => skip("issue", row.id, `Training row ${row.id}`), { class: "quiet", "aria-label": `Skip training row ${row.id}` })));

  const changeTable = list => table("Changes", ["Time", "Change", ""], list.map(entry => [moment(entry.time), entry.text,
    entry.can_undo === false ? "" : button("Undo", event => undoChange(event.target, entry.id, `${entry.text}.`), { "aria-label": `Undo: ${entry.text}` })]));

  /** Shows a list. The server may refuse the list, such as the label issues of a regression. */
  const list = async (name, path, target, create, none) => {
    // A half-typed label is not overwritten, also if the user begins to type while the rows are read.
    const isTyping = () => target.contains(document.activeElement) && document.activeElement.tagName === "INPUT" && document.activeElement.value;
    if (isTyping()) return;
    try {
      // The skipped rows of the list are requested too, so that LIMIT other rows are shown if there are as many.
      const rows = (await api.get(`${path}?limit=${LIMIT + skipped.size}`)).filter(row => !skipped.has(`${name} ${row.id}`)).slice(0, LIMIT);
      if (isTyping()) return;
      target.replaceChildren(...(rows.length ? rows.map(create) : [html("li", { class: "card text" }, none)]));
    } catch (error) {
      if (!SHOWN.includes(error.status)) throw error;
      target.replaceChildren(html("li", { class: "card text" }, error.message));
    }
  };

  const refresh = async () => {
    const model = context.model();
    access.textContent = model.changes === false
      ? "This server does not accept changes: it has no state folder, or it cannot write to the folder. Start it with --state DIR and a folder that it can write to, or with --ephemeral to try changes."
      : "Changes take effect at once and need the write key, if the server has one. A change of rows removes the thresholds, prediction sets and prediction intervals of the model, because they were calibrated for the former rows. Calibrate them again afterwards, or undo the change.";
    classNames.replaceChildren(...classes().map(name => html("option", { value: String(name) })));
    const path = base();
    await list("suggestion", `${path}/suggest`, suggestions, suggestion, "No further uncertain rows. Suggestions appear when uncertain rows are scored.");
    await list("issue", `${path}/label-issues`, issues, issueOf, "No further doubtful labels.");
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

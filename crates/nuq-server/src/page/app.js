// The page of the server: shows the chosen view of the chosen model, reads its data repeatedly, and shows errors.

import * as api from "./api.js";
import { button, html, notice } from "./dom.js";
import { hideTip } from "./figure.js";
import { clock } from "./format.js";
import * as drift from "./views/drift.js";
import * as map from "./views/map.js";
import * as now from "./views/now.js";
import * as prediction from "./views/prediction.js";
import * as todo from "./views/todo.js";

const VIEWS = { now, drift, prediction, map, todo };
const TITLES = { now: "Now", drift: "Drift", prediction: "One prediction", map: "Map", todo: "To do" };
const main = document.getElementById("content");
const status = document.getElementById("status");
const modelSelect = document.getElementById("model");
const failure = html("div", { role: "alert" });

let models = [];
// `current` is the shown view, and `place` has the parameters of the address. `generation` counts the shown views, so that a late answer for
// a former view is recognized. `hasData` is whether the shown view has received its data.
let [current, place, timer, generation, hasData] = [undefined, {}, undefined, 0, false];

// --- Address: #view=now&model=NAME&…

const readPlace = () => {
  const parameters = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  return { ...parameters, view: VIEWS[parameters.view] ? parameters.view : "now" };
};
const model = () => models.find(candidate => candidate.name === place.model) ?? models[0];
const link = (view, parameters = {}) => {
  const entries = Object.entries({ view, ...(models.length > 1 ? { model: model().name } : {}), ...parameters });
  return `#${new URLSearchParams(entries.filter(([, value]) => value !== undefined && value !== null))}`;
};

const context = {
  model,
  link,
  go: (view, parameters) => { location.hash = link(view, parameters); },
  parameter: name => place[name],
  /** Changes the address without leaving the view. */
  setParameter: (name, value) => {
    place = { ...place, [name]: value };
    const { view, model: _, ...rest } = place;
    history.replaceState(null, "", link(view, rest));
  },
  askKey: () => openKeyDialog(),
  modelChanged: () => readModels(),
  /** A command that scores one row. */
  curl: () => {
    const { name, columns } = model();
    const key = api.key.get() ? " \\\n  -H \"authorization: Bearer $KEY\"" : "";
    const address = new URL(api.model(name), location.href.split("#")[0]).href;
    return `curl ${address}/score${key} \\\n  -H "content-type: application/json" \\\n  -d "{\\"rows\\": [[$(yes 0.1 | head -n ${columns} | paste -sd, -)]]}"`;
  },
};

// --- Models

const readModels = async () => {
  models = await api.get("v1/models");
  const names = models.map(candidate => candidate.name);
  if (names.join("\n") !== [...modelSelect.options].map(option => option.value).join("\n")) {
    modelSelect.replaceChildren(...names.map(name => html("option", { value: name }, name)));
  }
  document.getElementById("model-line").hidden = models.length < 2;
  if (models.length) modelSelect.value = model().name;
};
modelSelect.addEventListener("change", () => {
  place = { view: place.view, model: modelSelect.value };
  location.hash = link(place.view);
});

// --- Errors

const explain = error => {
  if (api.needsKey(error)) {
    return notice("This server needs a key", [api.key.get() ? "The key is not accepted." : "Enter the read key to see the data, or the write key to change models too."], undefined,
      html("p", {}, button("Enter the key", openKeyDialog, { class: "primary" })));
  }
  if (error.status === 429 || error.status === 503) {
    return notice("The server is busy", [error.message, "This page tries again in a few seconds."]);
  }
  if (error.status === 0) {
    return notice("The server cannot be reached", ["It may be stopped, or the network is interrupted. This page tries again every few seconds.", ...(hasData ? ["The data below is from the last answer."] : [])]);
  }
  return notice("The data cannot be shown", [error.message]);
};

let shownFailure = "";
const showFailure = error => {
  const text = error ? `${error.status} ${error.message} ${hasData}` : "";
  if (text === shownFailure) return;
  shownFailure = text;
  failure.replaceChildren(...(error ? [explain(error)] : []));
};

// --- Refreshing: only the visible view, and only while the tab is visible.

const statusTime = html("span", { "aria-hidden": "true" });
const setStatus = (text, state) => {
  // Screen readers announce changes of the state only, not each new time.
  if (status.dataset.state !== state) {
    status.dataset.state = state;
    status.replaceChildren({ live: "Live", error: "No data" }[state], statusTime);
  }
  statusTime.textContent = ` ${text}`;
};

const refresh = async () => {
  clearTimeout(timer);
  const mine = generation;
  let wait = 5000;
  try {
    if (!models.length) {
      await readModels();
      if (!models.length) throw new api.RequestError(404, "The server has no models.");
      show();
      return;
    }
    await current.refresh();
    wait = current.every;
    if (mine === generation) { hasData = true; showFailure(); setStatus(`updated ${clock(Date.now())}`, "live"); }
  } catch (error) {
    if (mine !== generation) return;
    if (!(error instanceof api.RequestError)) throw error;
    showFailure(error);
    setStatus(clock(Date.now()), "error");
    wait = 1000 * Math.max(5, error.retryAfter ?? 0);
    // The server may have been restarted with other models, so the list of models is read again.
    if (error.status === 404) models = [];
  } finally {
    if (mine === generation && !document.hidden) { clearTimeout(timer); timer = setTimeout(refresh, wait); }
  }
};
document.addEventListener("visibilitychange", () => { clearTimeout(timer); if (!document.hidden) refresh(); });

const show = () => {
  generation += 1;
  hasData = false;
  hideTip();
  place = readPlace();
  document.querySelectorAll("nav a").forEach(anchor => {
    anchor.href = models.length ? link(anchor.dataset.view) : `#view=${anchor.dataset.view}`;
    if (anchor.dataset.view === place.view) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  });
  document.title = `${TITLES[place.view]} · nuq`;
  if (!models.length) { main.replaceChildren(failure); refresh(); return; }
  modelSelect.value = model().name;
  current = VIEWS[place.view].create(context);
  main.replaceChildren(failure, current.node);
  refresh();
};
addEventListener("hashchange", show);
// The part of the address after # names the view, so the link “Skip to the content” must not change it.
document.querySelector(".skip").addEventListener("click", event => { event.preventDefault(); main.focus(); });

// --- Key

const dialog = document.getElementById("key-dialog");
const keyInput = document.getElementById("key");
function openKeyDialog() {
  if (dialog.open) return;
  keyInput.value = "";
  dialog.showModal();
}
document.getElementById("key-button").addEventListener("click", openKeyDialog);
dialog.addEventListener("close", () => {
  if (dialog.returnValue === "save" && keyInput.value) api.key.set(keyInput.value);
  else if (dialog.returnValue === "forget") api.key.set(null);
  else return;
  keyInput.value = "";
  models = [];
  show();
});

show();

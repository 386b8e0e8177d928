// Parts of rows that several views show: pictures, decisions, and labels.

import * as api from "./api.js";
import { html } from "./dom.js";
import { number, percent } from "./format.js";

/** The picture of a training row, or nothing if there is none. */
export const picture = (path, label, className = "picture") => {
  if (!path) return undefined;
  const image = html("img", { class: className, alt: label });
  api.showPicture(image, path);
  return image;
};

/** The names of the thresholds that reject a row. */
export const rejecting = row => Object.entries(row.accept || {}).filter(([, accept]) => !accept).map(([name]) => name);

/** "Accepted" or "Rejected", or nothing if the model has no threshold. */
export const decision = row => {
  if (!Object.keys(row.accept || {}).length) return undefined;
  return rejecting(row).length ? html("span", { class: "badge rejected" }, "Rejected") : html("span", { class: "badge accepted" }, "Accepted");
};

/** The predicted label, or the predicted mean of a regression. */
export const predictionText = row => (row.probability === null ? number(Number(row.label)) : row.label);
export const probabilityText = row => (row.probability === null ? "" : percent(row.probability));

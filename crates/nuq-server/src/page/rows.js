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

/** "accepted" or "rejected", or nothing if no threshold was applied to the row. */
export const decisionText = row => {
  if (!Object.keys(row.accept || {}).length) return undefined;
  return rejecting(row).length ? "rejected" : "accepted";
};

/** The decision as a badge, or nothing if no threshold was applied to the row. */
export const decision = row => {
  const text = decisionText(row);
  return text && html("span", { class: `badge ${text}` }, text.replace(/^./, first => first.toUpperCase()));
};

/** The predicted label, or the predicted mean of a regression. */
export const predictionText = row => (row.probability === null ? number(Number(row.label)) : row.label);
export const probabilityText = row => (row.probability === null ? "" : percent(row.probability));

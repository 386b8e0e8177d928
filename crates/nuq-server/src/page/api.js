// Requests to the server that sent this page. The key is kept in the storage of this tab only.

const STORAGE = "nuq-key";

// Browsers may deny storage; the key then lasts until the page is closed.
let held = (() => { try { return sessionStorage.getItem(STORAGE); } catch { return null; } })();

export const key = {
  get: () => held,
  set: value => {
    held = value || null;
    try { held ? sessionStorage.setItem(STORAGE, held) : sessionStorage.removeItem(STORAGE); } catch { /* see above */ }
  },
};

/** An error of a request. `status` is 0 if there was no answer; `code` is a word of the server. */
export class RequestError extends Error {
  constructor(status, message, code, retryAfter) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

const request = async (path, options = {}) => {
  const headers = new Headers(options.headers);
  if (held) headers.set("authorization", `Bearer ${held}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch {
    throw new RequestError(0, "The server does not answer.");
  }
  if (response.ok) return response;
  let [message, code] = [`The server answered with status ${response.status}.`];
  try { ({ message, code } = (await response.json()).error); } catch { /* not JSON */ }
  throw new RequestError(response.status, message, code, Number(response.headers.get("retry-after")) || undefined);
};

/** Whether an error can be resolved by another key. */
export const needsKey = error => error.status === 401 || error.code === "write_key_required";

export const get = async path => (await request(path)).json();

export const post = async (path, value) =>
  (await request(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value) })).json();

/** Sends the bytes of a file. */
export const send = async (path, file, type) =>
  (await request(path, { method: "POST", headers: { "content-type": type, accept: "application/json" }, body: file })).json();

export const model = name => `v1/models/${encodeURIComponent(name)}`;

// Pictures are requested like all other data, since an `img` element cannot send the key. At most this many are kept.
const KEPT = 400;
const pictures = new Map();

/** Sets the picture of an `img` element. The element is removed if there is none. */
export const showPicture = async (image, path) => {
  // A template may refer to another server; this page's policy allows that server only.
  if (/^https?:/.test(path)) {
    image.addEventListener("error", () => image.remove());
    image.src = path;
    return;
  }
  if (!pictures.has(path)) {
    pictures.set(path, request(path).then(response => response.blob()).then(blob => URL.createObjectURL(blob)));
    const [oldest] = pictures.keys();
    if (pictures.size > KEPT) {
      pictures.get(oldest).then(URL.revokeObjectURL, () => {});
      pictures.delete(oldest);
    }
  }
  try {
    image.src = await pictures.get(path);
  } catch {
    pictures.delete(path);
    image.remove();
  }
};

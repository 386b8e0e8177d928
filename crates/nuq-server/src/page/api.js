// Requests to the server that sent this page. The key is kept in the storage of this tab only.

const STORAGE = "nuq-key";

// If the browser denies storage, the key is lost when the page is closed or reloaded.
let currentKey = (() => { try { return sessionStorage.getItem(STORAGE); } catch { return null; } })();

export const key = {
  get: () => currentKey,
  set: value => {
    currentKey = value || null;
    try { currentKey ? sessionStorage.setItem(STORAGE, currentKey) : sessionStorage.removeItem(STORAGE); } catch { /* see above */ }
  },
};

/** An error of a request. `status` is 0 if there was no answer; `code` is the error code of the server, such as `new_class`. */
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
  if (currentKey) headers.set("authorization", `Bearer ${currentKey}`);
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

// Pictures are requested with `fetch`, because an `img` element cannot send the key. This many pictures are kept in memory.
const KEPT = 400;
const pictures = new Map();

/** Sets the picture of an `img` element. The element is removed if the picture cannot be loaded. */
export const showPicture = async (image, path) => {
  // The picture may be on another server, which gets no key. The content security policy of this page allows pictures from it.
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

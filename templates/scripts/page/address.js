// The link: #view=kernel&row=3&t=1.2s-1.3s. An address without "=" is a plain anchor and holds no keys.

import { emit } from "./bus.js";

let held = new Map();

function fromAddress() {
  const text = location.hash.slice(1);
  return new Map(text.includes("=") ? new URLSearchParams(text) : []);
}

function tellChanges(before) {
  for (const key of new Set([...before.keys(), ...held.keys()])) {
    const value = held.get(key) ?? null;
    if (value !== (before.get(key) ?? null)) emit("link", { key, value });
  }
}

function put(pairs, how) {
  const before = held;
  held = new Map(held);
  for (const [key, value] of Object.entries(pairs)) {
    if (value === null || value === undefined || value === "") held.delete(key);
    else held.set(key, String(value));
  }
  const text = [...held].map((pair) => pair.map(encodeURIComponent).join("=")).join("&");
  try {
    history[how](how === "pushState" ? null : history.state, "", text ? `#${text}` : location.pathname + location.search);
  } catch {
    // A sandboxed frame has no address of its own: the link holds for as long as the page is open.
  }
  tellChanges(before);
}

const setLink = (key, value) => put({ [key]: value }, "replaceState");

/** Goes somewhere else in the page: what was seen stays in the history, so that Back returns to it. */
function visit(pairs, always = false) {
  emit("leave");
  const same = Object.entries(pairs).every(([key, value]) => (held.get(key) ?? "") === String(value ?? ""));
  put(pairs, same && !always ? "replaceState" : "pushState");
}

held = fromAddress();
addEventListener("hashchange", () => {
  const anchor = location.hash.slice(1);
  if (anchor && !anchor.includes("=")) { // a link of the contents: what else is seen stays as it is, and in the address
    put({ view: decodeURIComponent(anchor), table: null, row: null, column: null }, "replaceState");
    return;
  }
  const before = held;
  held = fromAddress();
  tellChanges(before);
});
document.addEventListener("click", (event) => {
  if (event.target.closest?.('a[href^="#"]')) emit("leave");
}, true);
export const link = { get: (key) => held.get(key) ?? null, set: setLink, visit };

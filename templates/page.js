"use strict";
// What all scripts of a page share: a bus, the link in the address, texts of numbers, short messages, saved files; and
// the contents, in which the section that one reads is marked.
// It comes first. A part that is missing on a page must not break another: nobody calls another part directly.
(() => {
  document.documentElement.classList.add("script");

  // The bus

  const listeners = new Map();

  function on(name, fn) {
    listeners.set(name, [...(listeners.get(name) ?? []), fn]);
  }

  function emit(name, detail) {
    for (const fn of listeners.get(name) ?? []) {
      try {
        fn(detail);
      } catch (error) {
        console.error(error); // the other listeners still hear of it
      }
    }
  }

  // The link: #view=kernel&row=3&t=1.2s-1.3s. An address without "=" is a plain anchor and holds no keys.

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

  // Numbers: a Number up to 2^53, a BigInt, or the digits as text. No digit is lost.

  const UNITS = [["s", 9], ["ms", 6], ["us", 3]];
  const whole = (value) => (typeof value === "bigint" ? value : BigInt(value));

  function count(value) {
    return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
  }

  function exact(ns) {
    return `${count(ns)} ns`;
  }

  // Three decimals of the unit in which it is at least 1, half to even: as `short_span` in Python.
  function span(value) {
    const ns = whole(value);
    const size = ns < 0n ? -ns : ns;
    for (const [unit, exponent] of UNITS) {
      if (size < 10n ** BigInt(exponent)) continue;
      const step = 10n ** BigInt(exponent - 3);
      let thousandths = size / step;
      const rest = 2n * (size % step);
      if (rest > step || (rest === step && thousandths % 2n)) thousandths += 1n;
      const digits = String(thousandths).padStart(4, "0");
      return `${ns < 0n ? "-" : ""}${count(digits.slice(0, -3))}.${digits.slice(-3)} ${unit}`;
    }
    return `${ns} ns`;
  }

  // Messages and files

  let bubble = null;
  let fading = 0;

  function toast(text) {
    if (!bubble) {
      bubble = document.createElement("div");
      bubble.className = "toast";
      bubble.setAttribute("role", "status");
      document.body.append(bubble);
    }
    bubble.textContent = text;
    bubble.classList.add("shown");
    clearTimeout(fading);
    fading = setTimeout(() => bubble.classList.remove("shown"), 4000);
  }

  const RESERVED = /^(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)/i;

  // Letters, digits, "._-" of any script, no leading dot: a name from a trace is no path and no device.
  function fileName(name) {
    const plain = String(name).normalize("NFC").replace(/[^\p{L}\p{M}\p{N}._-]+/gu, "-").replace(/\.{2,}/g, ".");
    const [, stem, suffix] = /^(.*?)(\.[A-Za-z0-9]{1,8}(?:\.gz)?)?$/u.exec(plain.replace(/^[.-]+/, ""));
    const short = [...stem].slice(0, 80).join("").replace(/[.-]+$/, "");
    return `${(short || "tracekit").replace(RESERVED, "$1_")}${suffix ?? ""}`;
  }

  function save(name, blob) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = fileName(name);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    toast(`Saved ${link.download}`);
  }

  // Contents: the section that one reads is marked, and its name kept in sight

  function followContents(bar) {
    const links = new Map([...bar.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
    const seen = new Set();
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target.id);
      const now = [...links.keys()].find((id) => seen.has(id));
      for (const [id, link] of links) {
        if (id === now) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
      const current = now && links.get(now);
      if (current && bar.scrollWidth > bar.clientWidth) bar.scrollLeft = current.offsetLeft - bar.offsetLeft - 12;
    }, { rootMargin: "-70px 0px -60% 0px" });
    for (const id of links.keys()) {
      const section = document.getElementById(id);
      if (section) watcher.observe(section);
    }
  }

  document.querySelectorAll(".contents").forEach(followContents);

  window.tracekit = { on, emit, link: { get: (key) => held.get(key) ?? null, set: setLink, visit }, span, exact, count, toast, save, fileName };
})();

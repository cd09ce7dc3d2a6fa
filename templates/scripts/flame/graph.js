// A flame graph on a canvas.

import { matches, words } from "./search.js";
import { sandwich } from "./tree.js";
import { on } from "../page/bus.js";
import { button, el } from "../page/dom.js";
import { exact as exactText } from "../page/texts.js";

export const dark = matchMedia("(prefers-color-scheme: dark)");

export const pick = (label, options, change) => el("select", { "aria-label": label, onchange: change }, ...options.map(([value, text]) => el("option", { value }, text)));

const ROW = 18;
const MOST_ROWS = 80;
const LETTER = 6.62; // px of a letter of the font below

/** source: label(code), colors(node), amount(value), facts(node), actions(node): what a graph is of. tools: above it. */
export function graph(mount, source, tools) {
  const upButton = button("all", () => focus(null), { hidden: true });
  const sandwichButton = button("callers and callees", () => turn(), { "aria-pressed": "false", disabled: true });
  const finder = el("input", { type: "search", placeholder: "find a name", "aria-label": "Find names in the flame graph", oninput: () => { find(); draw(); } });
  const result = el("output", { class: "note" });
  const about = el("p", { class: "note", "aria-live": "polite" });
  const canvas = el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "flame graph" });
  const tip = el("div", { class: "flame-tip", hidden: true });
  const detail = el("div", { class: "flame-detail", role: "status", "aria-live": "polite" });
  mount.replaceChildren(el("div", { class: "flame-tools" }, ...tools, sandwichButton, upButton, finder, result), about, el("div", { class: "flame-stage" }, canvas, tip), detail);
  let root = null, shown = null, chosen = null, halves = null; // shown: the node over the whole width
  let lit = new Set(); // names that a table marks
  let hits = null; // what the search finds
  let boxes = []; // [x, y, width, node] of what is drawn

  function set(made, text) {
    root = made;
    about.textContent = text;
    chosen = shown = halves = null;
    find();
    update();
  }

  function find() {
    hits = root && matches(root, source.label, finder.value);
    result.textContent = hits ? words(hits, root.value, source.amount) : "";
  }

  function next(by) {
    const { paths } = hits ?? { paths: [] };
    if (!paths.length) return;
    if (halves) turn();
    shown = null;
    choose(paths[(paths.indexOf(chosen) + by + paths.length + (chosen || by > 0 ? 0 : 1)) % paths.length]);
  }

  function update() {
    upButton.hidden = !shown;
    sandwichButton.disabled = !halves && !chosen;
    sandwichButton.setAttribute("aria-pressed", String(Boolean(halves)));
    if (chosen) {
      detail.replaceChildren(
        el("p", { class: "flame-name" }, source.label(chosen.code).slice(0, 2000)),
        el("p", { title: source.exact?.(chosen.value) ?? exactText(Math.round(source.ns(chosen.value))) }, source.facts(chosen, root, halves)), ...source.actions(chosen));
    } else detail.replaceChildren();
    draw();
  }

  function focus(it) { shown = it; update(); }
  function choose(it) { chosen = it && it.code >= 0 ? it : null; update(); }
  function turn() {
    halves = halves || !chosen ? null : sandwich(root, chosen.code);
    chosen = shown = null;
    update();
  }

  /** Puts a node and what is below it into boxes; sign -1 grows upwards. Returns the deepest level. */
  function place(top, width, level, sign) {
    const waiting = [[top, 0, width, level]];
    let deepest = 0;
    while (waiting.length) {
      const [it, left, wide, y] = waiting.pop();
      boxes.push([left, y, wide, it]);
      deepest = Math.max(deepest, Math.abs(y - level));
      let at = left;
      for (const each of it.children) {
        const part = it.value ? (wide * each.value) / it.value : 0;
        if (part >= 0.5) waiting.push([each, at, part, y + sign]); // narrower ones are in the tables and below a zoom
        at += part;
      }
    }
    return deepest;
  }

  function draw() {
    if (!root) return;
    const ratio = devicePixelRatio || 1;
    const width = Math.max(200, mount.clientWidth);
    boxes = [];
    let rows, zero = 0;
    if (halves) {
      zero = place(halves[0], width, 0, -1);
      const callers = boxes.length;
      rows = zero + 1 + place(halves[1], width, 0, 1);
      boxes.splice(callers, 1); // the name itself is there once
    } else {
      const path = [];
      for (let it = shown ?? root; it; it = it.under) path.unshift(it);
      path.slice(0, -1).forEach((it, level) => boxes.push([0, level, width, it]));
      rows = path.length + place(shown ?? root, width, path.length - 1, 1);
    }
    rows = Math.min(rows, MOST_ROWS);
    for (const box of boxes) box[1] = (box[1] + zero) * ROW;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(rows * ROW * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${rows * ROW}px`;
    const c = canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const fg = style.getPropertyValue("--fg").trim(), soft = style.getPropertyValue("--line").trim();
    c.font = "11px ui-monospace, SF Mono, Menlo, Consolas, monospace";
    c.textBaseline = "middle";
    for (const [x, y, wide, it] of boxes) {
      if (y >= rows * ROW) continue;
      const [fill, ink] = it.code < 0 ? [soft, fg] : source.colors(it);
      const text = it.code < 0 ? "all" : source.label(it.code);
      const faint = hits ? !hits.codes.has(it.code) : lit.size && it.code >= 0 && !lit.has(text);
      c.globalAlpha = faint ? 0.35 : 1;
      c.fillStyle = fill;
      c.fillRect(x, y, Math.max(0.5, wide - 0.5), ROW - 1);
      c.globalAlpha = 1;
      if (wide > 26) {
        const room = Math.floor((wide - 8) / LETTER);
        c.fillStyle = ink;
        c.fillText(text.length > room ? `${text.slice(0, Math.max(1, room - 1))}…` : text, x + 4, y + ROW / 2);
      }
      if (it === chosen) {
        c.strokeStyle = fg;
        c.lineWidth = 2;
        c.strokeRect(x + 1, y + 1, Math.max(1, wide - 2.5), ROW - 3);
      }
    }
    canvas.setAttribute("aria-label", `Flame graph: ${about.textContent} Arrow keys move, Enter widens, Escape goes back, / finds a name.`);
  }

  function hit(event) {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    return boxes.find(([left, top, wide]) => x >= left && x < left + wide && y >= top && y < top + ROW)?.[3] ?? null;
  }

  canvas.addEventListener("pointermove", (event) => {
    const it = hit(event);
    tip.hidden = !it || it.code < 0;
    if (tip.hidden) return;
    tip.replaceChildren(el("b", {}, source.label(it.code).slice(0, 2000)), el("span", {}, source.facts(it, root, halves)));
    const box = canvas.getBoundingClientRect();
    tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, mount.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${event.clientY - box.top + 18}px`;
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("click", (event) => {
    const it = hit(event);
    if (!it) return;
    choose(it);
    if (!halves) focus(it.code < 0 ? null : it);
  });
  canvas.addEventListener("keydown", (event) => {
    const row = chosen?.under?.children ?? [];
    const moves = {
      ArrowDown: () => (chosen ?? shown ?? halves?.[1] ?? root).children[0] ?? chosen,
      ArrowUp: () => (chosen?.under && chosen.under.code >= 0 ? chosen.under : chosen),
      ArrowLeft: () => row[row.indexOf(chosen) - 1] ?? chosen,
      ArrowRight: () => row[row.indexOf(chosen) + 1] ?? chosen,
    };
    if (moves[event.key]) choose(moves[event.key]());
    else if (event.key === "/") finder.focus();
    else if (event.key === "Enter" && chosen && !halves) focus(chosen);
    else if (event.key === "Escape" && halves) turn();
    else if (event.key === "Escape" && shown) focus(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  finder.addEventListener("keydown", (event) => {
    if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape" && finder.value) {
      finder.value = "";
      find();
      draw();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  on("mark", ({ names }) => { lit = new Set(names ?? []); draw(); });
  dark.addEventListener("change", draw);
  new ResizeObserver(draw).observe(mount);
  return {
    set, choose, turn, focus,
    get root() { return root; },
    get hits() { return hits; },
    get shown() { return boxes.map(([x, y, wide, it]) => [it.code < 0 ? "" : source.label(it.code), x, y, wide, source.ns(it.value)]); },
  };
}

const linear = (part) => (part / 255 <= 0.04 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);

/** A colour lifted away from that of its text, which keeps a contrast of 4.5 to 1, and the colour of the text. */
export function tone(rgb, lift) {
  const [r, g, b] = rgb.map(linear);
  const bright = 1.05 / (0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05) < 4.5;
  return [`rgb(${rgb.map((part) => Math.round(part + ((bright ? 255 : 0) - part) * lift))})`, bright ? "#000" : "#fff"];
}

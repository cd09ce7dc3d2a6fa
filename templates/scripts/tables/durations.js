// Durations of a name: how often each occurs, and when. The timeline has the events; without one there is no picture.

import { emit } from "../page/bus.js";
import { el } from "../page/dom.js";
import { count, counted, exact, span } from "../page/texts.js";
import { binsOf, percentile, placeOf, ticksOf } from "./histogram.js";

const SVG = "http://www.w3.org/2000/svg";

function drawn(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function picture(summary, bars, act, lines = []) {
  const image = drawn("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img", "aria-label": summary });
  for (const { x, width, top, bottom, text, at } of bars) {
    const bar = drawn("rect", { x, width, y: 100 - top, height: Math.max(top - bottom, 1) }, drawn("title", {}, text));
    if (act) bar.addEventListener("click", () => act(at));
    image.append(bar);
  }
  for (const { at } of lines) image.append(drawn("line", { x1: 1000 * at, x2: 1000 * at, y1: 0, y2: 100 }));
  return image;
}

/** Bars of a histogram, and what is written at places of its width: marks above, round durations below. */
function histogram(sorted) {
  const { bins, low, end } = binsOf(sorted);
  const most = bins.reduce((so, bin) => Math.max(so, bin.count), 0);
  const bars = bins.filter((bin) => bin.count).map(({ from, to, count: n, left, right }) => ({
    x: 1000 * left + 0.5, width: Math.max(1000 * (right - left) - 1, 1), top: Math.max((100 * n) / most, 1.5), bottom: 0,
    text: `${count(n)} from ${exact(from)} to ${exact(to - 1)}`,
  }));
  const marks = [50, 95].map((percent) => {
    const value = percentile(sorted, percent);
    return { at: placeOf(value, low, end), text: `p${percent} ${span(value)}`, title: exact(value) };
  });
  const texts = [];
  for (const value of ticksOf(low, end)) { // as many as there is room for
    const at = placeOf(value, low, end);
    if (!texts.length || at - texts.at(-1).at > 0.16) texts.push({ at, text: span(value).replace(/\.0+(?= )/, "") });
  }
  return { bars, most, marks, texts };
}

/** A line of texts at places of a width, each within it. */
const scale = (texts) => {
  const line = el("div", { class: "labels" });
  for (const { at, text, title } of texts) {
    const made = el("span", { title }, text);
    made.style.left = `${100 * at}%`;
    made.style.transform = `translateX(${-100 * at}%)`;
    line.append(made);
  }
  return line;
};

// Each column of time from its shortest to its longest event.
function overTime(start, length, high) {
  const columns = 250;
  const first = start.reduce((a, b) => Math.min(a, b));
  const last = start.reduce((a, b) => Math.max(a, b));
  const step = Math.max((last - first) / columns, 1);
  const cells = new Map();
  start.forEach((at, i) => {
    const place = Math.min(columns - 1, Math.floor((at - first) / step));
    const cell = cells.get(place) ?? { n: 0, low: Infinity, high: 0, from: at, to: at };
    cells.set(place, {
      n: cell.n + 1, low: Math.min(cell.low, length[i]), high: Math.max(cell.high, length[i]),
      from: Math.min(cell.from, at), to: Math.max(cell.to, at + length[i]),
    });
  });
  return [...cells].map(([place, cell]) => ({
    x: (1000 * place) / columns, width: 1000 / columns, at: cell,
    top: high ? Math.max((100 * cell.high) / high, 5) : 5, bottom: high ? Math.max((100 * cell.low) / high - 5, 0) : 0,
    text: `${count(cell.n)} from ${span(cell.from)} on: ${cell.n > 1 ? `${span(cell.low)} to ` : ""}${span(cell.high)}`,
  }));
}

export function durations(name, { start, length, missing }) {
  const sorted = length.slice().sort();
  const [low, middle, high] = [sorted[0], percentile(sorted, 50), sorted.at(-1)];
  const events = counted(sorted.length, "event");
  const words = `${events} in the timeline, ${exact(low)} to ${exact(high)}, median ${exact(middle)}`;
  const shown = histogram(sorted);
  const marks = shown.marks.map(({ text }) => text).join(", ");
  const later = overTime(start, length, high);
  return [
    el("p", {}, el("b", {}, name.slice(0, 300)), `: ${words}${missing ? `; ${count(missing)} events of the trace are not in this page` : ""}`),
    el("div", {}, el("figcaption", {}, `Durations, logarithmic; up to ${count(shown.most)} in a bar`), scale(shown.marks),
      picture(`Durations: ${words}, ${marks}`, shown.bars, null, shown.marks), scale(shown.texts)),
    el("div", {}, el("figcaption", {}, `Over time, 0 to ${span(high)} (a click shows the place on the timeline)`),
      picture(`Over time: ${words}`, later, ({ from, to }) => emit("goto", { start: from, end: to, places: [], from: "tables" }))),
  ];
}

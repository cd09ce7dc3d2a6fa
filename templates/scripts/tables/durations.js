// Durations of a name: how often each occurs, and when. The timeline has the events; without one there is no picture.

import { emit } from "../page/bus.js";
import { el } from "../page/dom.js";
import { count, exact, span } from "../page/texts.js";

const SVG = "http://www.w3.org/2000/svg";

function drawn(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function picture(summary, bars, act) {
  const image = drawn("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img", "aria-label": summary });
  for (const { x, width, top, bottom, text, at } of bars) {
    const bar = drawn("rect", { x, width, y: 100 - top, height: Math.max(top - bottom, 1) }, drawn("title", {}, text));
    if (act) bar.addEventListener("click", () => act(at));
    image.append(bar);
  }
  return image;
}

// Equal ratios between the edges, for durations span orders of magnitude; equal steps where they do not.
function histogram(lengths, low, high) {
  const bins = Math.min(48, Math.max(1, high - low + 1));
  const ratio = low > 0 && high / low > 20;
  const edge = (i) => (ratio ? low * (high / low) ** (i / bins) : low + ((high - low) * i) / bins);
  const counts = new Array(bins).fill(0);
  for (const length of lengths) {
    const place = high === low ? 0 : ratio ? Math.log(length / low) / Math.log(high / low) : (length - low) / (high - low);
    counts[Math.min(bins - 1, Math.floor(place * bins))] += 1;
  }
  const most = Math.max(...counts);
  return counts.flatMap((n, i) => n ? [{
    x: (1000 * i) / bins + 0.5, width: 1000 / bins - 1, top: Math.max((100 * n) / most, 1.5), bottom: 0,
    text: `${count(n)} from ${span(Math.round(edge(i)))} to ${span(Math.round(edge(i + 1)))}`,
  }] : []);
}

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
  const [low, middle, high] = [sorted[0], sorted[(sorted.length - 1) >> 1], sorted.at(-1)];
  const events = `${count(sorted.length)} ${sorted.length === 1 ? "event" : "events"}`;
  const words = `${events} in the timeline, ${exact(low)} to ${exact(high)}, median ${exact(middle)}`;
  const chart = (title, bars, act) => el("div", {}, el("figcaption", {}, title), picture(`${title}: ${words}`, bars, act));
  return [
    el("p", {}, el("b", {}, name.slice(0, 300)), `: ${words}${missing ? `; ${count(missing)} events of the trace are not in this page` : ""}`),
    chart(`Durations, ${span(low)} to ${span(high)}`, histogram(sorted, low, high)),
    chart(`Over time, 0 to ${span(high)} (a click shows the place on the timeline)`, overTime(start, length, high), ({ from, to }) =>
      emit("goto", { start: from, end: to, places: [], from: "tables" })),
  ];
}

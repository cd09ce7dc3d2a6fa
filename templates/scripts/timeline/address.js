// The link. t: window, m: measured, e: event, fold, path, pin: lanes on top, y: scrolled, and what is marked: mark (of a
// finding), find (words of a search), name (its number), family (its colour).

import { link as address } from "../page/address.js";
import { on } from "../page/bus.js";
import { find, scroll } from "./elements.js";
import { N, data } from "./events.js";
import { showFamily } from "./families.js";
import { foldText, followFold, followPins } from "./folding.js";
import { pinned } from "./layout.js";
import { clearMarked, marked, onlyName, showMark, shownFamily, shownMark, shownName } from "./marking.js";
import { measure, measured } from "./measuring.js";
import { path, showPath } from "./path.js";
import { search } from "./search.js";
import { select, selected } from "./selection.js";
import { SPAN, head, marks, names, unit } from "./source.js";
import { showAbsent, showRange } from "./statistics.js";
import { parseWindow, timeLink, wholeNumber } from "./units.js";
import { setView, view } from "./view.js";

let timer = 0;
export function later() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    showRange();
    showAbsent();
    keepLink();
  }, 220);
}
export const inLink = { pin: null, fold: null, t: null, m: null, e: null, path: null, mark: null, find: null, name: null, family: null, y: null };
function setLink(word, value) {
  if (inLink[word] === value) return;
  inLink[word] = value;
  address.set(word, value);
}
function keepLink() {
  const whole = view.t0 <= 0 && view.t1 >= SPAN;
  const text = ([a, b]) => `${timeLink(Math.floor(a * unit))}-${timeLink(Math.ceil(b * unit))}`;
  setLink("t", whole ? null : text([view.t0, view.t1]));
  setLink("m", measured ? text(measured) : null);
  setLink("e", selected >= 0 ? String(selected) : null);
  if (!data.done) return; // the others cannot have changed, and are not followed yet
  setLink("fold", foldText() || null);
  setLink("pin", [...pinned].join("_") || null);
  setLink("path", path ? "1" : null);
  setLink("mark", marked && shownMark >= 0 ? String(shownMark) : null);
  setLink("find", (marked && find.value) || null);
  setLink("name", marked && shownName >= 0 ? String(shownName) : null);
  setLink("family", (marked && shownFamily) || null);
  setLink("y", Math.round(scroll.scrollTop) || null);
}
on("leave", () => { clearTimeout(timer); keepLink(); later(); });
export function followLink(word, value) {
  if (inLink[word] === value) return;
  inLink[word] = value;
  if (word === "e") { select(wholeNumber(value, N), { quiet: true }); return; }
  if (word === "fold") { followFold(value); return; }
  if (word === "pin") { followPins(value); return; }
  if (word === "path") { if (head.paths) void showPath(value !== null); return; }
  if (word === "y") { scroll.scrollTop = Number(value) || 0; return; }
  if (word === "mark") {
    if (wholeNumber(value, marks.length) >= 0) void showMark(+value, false);
    else if (shownMark >= 0) clearMarked();
    return;
  }
  if (word === "find") {
    if (value !== null || find.value) search(find.value = value ?? "");
    return;
  }
  if (word === "name") {
    if (wholeNumber(value, names.length) >= 0) onlyName(+value);
    else if (shownName >= 0) clearMarked();
    return;
  }
  if (word === "family") { showFamily(value ?? ""); return; }
  const ends = value === null ? null : parseWindow(value);
  if (word === "t") setView(...(ends ? ends.map((ns) => ns / unit) : [0, SPAN]));
  else measure(...(ends ? ends.map((ns) => ns / unit) : [null, null]));
}
on("link", ({ key: word, value }) => { if (word in inLink) followLink(word, value); });

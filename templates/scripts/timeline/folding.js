// Folded groups and layers.

import { button } from "../page/dom.js";
import { toast } from "../page/toast.js";
import { later } from "./address.js";
import { layerButtons } from "./elements.js";
import { layersOf, ofHost } from "./lanes.js";
import { FOLDING, foldedGroups, foldedLayers, layout, pinHeight, pinned } from "./layout.js";
import { draw } from "./paint.js";
import { groups, lanes } from "./source.js";
import { runs, wholeNumber } from "./units.js";
import { H } from "./view.js";

// Groups and layers that are not folded as at first: "g0~3_l1.7" are four groups, and layer 1 of lane 7.
let groupsAtFirst = new Set(), layersAtFirst = new Set();
const flipped = (now, before) => [...new Set([...now, ...before])].filter((each) => now.has(each) !== before.has(each));
export function foldText() {
  const layers = new Map();
  for (const [l, x] of flipped(foldedLayers, layersAtFirst).map((each) => each.split(":"))) layers.set(x, [...(layers.get(x) ?? []), +l]);
  const parts = runs(flipped(foldedGroups, groupsAtFirst)).map((run) => `g${run}`);
  for (const [x, of] of layers) parts.push(...runs(of).map((run) => `l${x}.${run}`));
  return parts.join("_");
}
export function followFold(text) {
  foldedGroups.clear();
  foldedLayers.clear();
  const groups_ = new Set(groupsAtFirst), layers = new Set(layersAtFirst);
  const flip = (set, each) => { if (!set.delete(each)) set.add(each); };
  for (const part of (text ?? "").split("_")) {
    const [, x, from, to = from] = /^(?:g|l(\d+)\.)(-?\d+)(?:~(\d+))?$/.exec(part) ?? [];
    const last = Math.min(+to, (x === undefined ? groups : lanes).length - 1);
    for (let n = Math.max(-1, +from); n <= last; n++) if (x === undefined) flip(groups_, n); else if (layersOf[n]?.[x]) flip(layers, `${n}:${x}`);
  }
  for (const each of groups_) foldedGroups.add(each);
  for (const each of layers) foldedLayers.add(each);
  layout();
  showLayers();
  draw();
}

export function showLayers() {
  const words = Object.keys(FOLDING).filter((word) => layersOf.some((list) => list.some(([w, of]) => w === word && of > 1)));
  layerButtons.replaceChildren(...words.map((word) => button(FOLDING[word], () => foldLayer(word), { "aria-pressed": String(!layerFolded(word)), title: `show all rows of ${FOLDING[word]}, or only the outermost` })));
  if (groups.length > 1) {
    const all = groups.every((_, g) => foldedGroups.has(g));
    layerButtons.append(button(all ? "unfold all" : "fold all", () => { for (let g = 0; g < groups.length; g++) if (all) foldedGroups.delete(g); else foldedGroups.add(g); layout(); showLayers(); draw(); later(); }));
  }
}
const layerFolded = (word) => layersOf.every((list, l) => list.every(([w, of], x) => w !== word || of < 2 || foldedLayers.has(`${l}:${x}`)));
export function foldLayer(word, is = !layerFolded(word)) {
  layersOf.forEach((list, l) => list.forEach(([w], x) => { if (w === word) { if (is) foldedLayers.add(`${l}:${x}`); else foldedLayers.delete(`${l}:${x}`); } }));
  layout();
  showLayers();
  draw();
  later();
}
export function fold(it) {
  const toggle = (set, value) => { if (!set.delete(value)) set.add(value); };
  if (it.is === "host") {
    const mine = ofHost(it.host), open = mine.some((g) => !foldedGroups.has(g));
    for (const g of mine) if (foldedGroups.has(g) !== open) toggle(foldedGroups, g);
  } else if (it.is === "group" || it.is === "sum") toggle(foldedGroups, it.group);
  else if (it.is === "rows" && it.of > 1 && it.word !== "ranges") toggle(foldedLayers, `${it.lane}:${it.layer}`);
  layout();
  showLayers();
  draw();
  later();
}

/** Folds what is mostly not the question. */
export function foldAtFirst() {
  // Python is deep and mostly not the question: folded at first. So are groups that would fill many screens.
  layersOf.forEach((list, l) => list.forEach(([word, of], x) => { if ((word === "python" && of > 3) || (word && word !== "ranges" && of > 24)) foldedLayers.add(`${l}:${x}`); }));
  if (lanes.length > 200) groups.forEach((_, g) => foldedGroups.add(g));
  groupsAtFirst = new Set(foldedGroups);
  layersAtFirst = new Set(foldedLayers);
}

/** Keep a lane on top, or put it back. */
export function pin(l, is = !pinned.has(l)) {
  if (is) pinned.add(l); else pinned.delete(l);
  layout();
  if (is && pinHeight > H * 0.6) {
    toast("There is no room for one more lane on top");
    pin(l, false);
    return;
  }
  draw();
  later();
}
export function followPins(text) {
  pinned.clear();
  for (const each of (text ?? "").split("_")) if (wholeNumber(each, lanes.length) >= 0) pinned.add(+each);
  layout();
  draw();
}

// Where lanes, layers, groups and counters are: blocks from top to bottom.

import { fillWindow } from "./dock.js";
import { scroll, tall } from "./elements.js";
import { ROWS, counters } from "./events.js";
import { groupOfLane, layersOf } from "./lanes.js";
import { groups, lanes } from "./source.js";

export const ROW = 15, DEVICE_ROW = 22, GROUP = 26, SUM = 22, COUNTER = 32, GAP = 7;
export const FOLDING = { python: "Python", operators: "operators", calls: "calls" };
export const foldedGroups = new Set();
export const foldedLayers = new Set(); // "lane:layer"
export let items = []; // {y, h, is: "group" | "rows" | "sum" | "counter", group, lane, layer, row, rows, of, each}
export let height = 0;
let pins = 0; // as many of the items are of pinned lanes: the first
const countersOf = groups.map((_, g) => counters.filter((it) => it.group === g));
const looseCounters = counters.filter((it) => !(it.group >= 0));

/** Lanes that stay on top, in the order in which they were pinned; they have no place among their group. */
export const pinned = new Set();
export let pinHeight = 0;
const itemWithRow = new Int32Array(ROWS); // of each row, its block in `items`, or the sum of its folded group
export function layout() {
  items = [];
  let y = 0;
  const put = (h, item) => { items.push({ y, h, ...item }); y += h; };
  const counter = (it, g) => { put(COUNTER, { is: "counter", counter: it, group: g }); y += 3; };
  const rowsOf = (l, g, more) => {
    const lane = lanes[l], each = lane.host ? ROW : DEVICE_ROW;
    let row = lane.row;
    layersOf[l].forEach(([word, of], x) => {
      const rows = foldedLayers.has(`${l}:${x}`) ? Math.min(of, 1) : of;
      if (of) put(each * rows, { is: "rows", group: g, lane: l, layer: x, word, row, rows, of, each, ...more });
      if (of) itemWithRow.fill(items.length - 1, row, row + of);
      row += of;
    });
    y += GAP;
  };
  for (const l of pinned) rowsOf(l, groupOfLane[l], { pin: true });
  pinHeight = y;
  pins = items.length;
  let host;
  groups.forEach((group, g) => {
    if (group.host && host !== group.host) put(GROUP, { is: "host", host: host = group.host });
    put(GROUP, { is: "group", group: g });
    if (foldedGroups.has(g)) {
      put(SUM, { is: "sum", group: g });
      for (const l of group.lanes) if (!pinned.has(l)) itemWithRow.fill(items.length - 1, lanes[l].row, lanes[l].row + lanes[l].depth);
      y += GAP;
      return;
    }
    for (const l of group.lanes) if (!pinned.has(l)) rowsOf(l, g);
    for (const it of countersOf[g]) counter(it, g);
  });
  if (looseCounters.length) {
    put(GROUP, { is: "group", group: -1 });
    if (!foldedGroups.has(-1)) for (const it of looseCounters) counter(it, -1);
  }
  height = y;
  tall.style.height = `${y}px`;
  fillWindow();
}

function itemFrom(y) {
  let a = 0, b = items.length;
  while (a < b) {
    const m = (a + b) >> 1;
    if (items[m].y + items[m].h > y) b = m; else a = m + 1;
  }
  return a;
}

let scrolled = 0;
export const followScroll = () => { scrolled = Math.round(scroll.scrollTop); };
/** Where an item is in the picture. */
export const yOf = (it) => it.y - (it.pin ? 0 : scrolled);
/** The items in the picture, those of pinned lanes last; `high` is its height. */
export function itemsIn(high) {
  const out = [];
  for (let i = Math.max(pins, itemFrom(scrolled + pinHeight)); i < items.length && items[i].y < scrolled + high; i++) out.push(items[i]);
  return out.concat(items.slice(0, pins));
}
/** The header of the group that is scrolled through, and where it stays in sight: [item, y]. */
export function stickyHeader() {
  const at = itemFrom(scrolled + pinHeight), of = items[at];
  if (!of || at < pins) return null;
  let i = at;
  while (i >= pins && !(items[i].is === "group")) i--;
  const next = items.find((it, k) => k > i && /group|host/.test(it.is));
  if (i < pins || yOf(items[i]) >= pinHeight) return null;
  return [items[i], Math.min(pinHeight, next ? yOf(next) - GROUP : pinHeight)];
}
/** The item under a point of the picture. */
export function itemAt(y) {
  const sticky = stickyHeader();
  if (sticky && y >= pinHeight && y < sticky[1] + GROUP) return sticky[0];
  const it = items[itemFrom(y < pinHeight ? y : y + scrolled)];
  return it && yOf(it) <= y ? it : null;
}

/** The block that shows a row, or where it would be: its folded layer or group. */
export const itemOfRow = (r) => items[itemWithRow[r]] ?? null;

// Where lanes, layers, groups and counters are: blocks from top to bottom.

import { scroll, tall } from "./elements.js";
import { ROWS, counters } from "./events.js";
import { layersOf } from "./lanes.js";
import { groups, lanes } from "./source.js";

export const ROW = 15, DEVICE_ROW = 22, GROUP = 26, SUM = 22, COUNTER = 32, GAP = 7;
export const FOLDING = { python: "Python", operators: "operators", calls: "calls" };
export const foldedGroups = new Set();
export const foldedLayers = new Set(); // "lane:layer"
export let items = []; // {y, h, is: "group" | "rows" | "sum" | "counter", group, lane, layer, row, rows, of, each}
export let height = 0;
const countersOf = groups.map((_, g) => counters.filter((it) => it.group === g));
const looseCounters = counters.filter((it) => !(it.group >= 0));

const itemWithRow = new Int32Array(ROWS); // of each row, its block in `items`, or the sum of its folded group
export function layout() {
  items = [];
  let y = 0;
  const put = (h, item) => { items.push({ y, h, ...item }); y += h; };
  const counter = (it, g) => { put(COUNTER, { is: "counter", counter: it, group: g }); y += 3; };
  let host;
  groups.forEach((group, g) => {
    if (group.host && host !== group.host) put(GROUP, { is: "host", host: host = group.host });
    put(GROUP, { is: "group", group: g });
    if (foldedGroups.has(g)) {
      put(SUM, { is: "sum", group: g });
      for (const l of group.lanes) itemWithRow.fill(items.length - 1, lanes[l].row, lanes[l].row + lanes[l].depth);
      y += GAP;
      return;
    }
    for (const l of group.lanes) {
      const lane = lanes[l];
      const each = lane.host ? ROW : DEVICE_ROW;
      let row = lane.row;
      layersOf[l].forEach(([word, of], x) => {
        const rows = foldedLayers.has(`${l}:${x}`) ? Math.min(of, 1) : of;
        if (of) put(each * rows, { is: "rows", group: g, lane: l, layer: x, word, row, rows, of, each });
        if (of) itemWithRow.fill(items.length - 1, row, row + of);
        row += of;
      });
      y += GAP;
    }
    for (const it of countersOf[g]) counter(it, g);
  });
  if (looseCounters.length) {
    put(GROUP, { is: "group", group: -1 });
    if (!foldedGroups.has(-1)) for (const it of looseCounters) counter(it, -1);
  }
  height = y;
  tall.style.height = `${y}px`;
  scroll.style.height = `${Math.min(y + 2, innerWidth < 640 ? 440 : 560)}px`;
}

export function itemFrom(y) {
  let a = 0, b = items.length;
  while (a < b) {
    const m = (a + b) >> 1;
    if (items[m].y + items[m].h > y) b = m; else a = m + 1;
  }
  return a;
}
export const itemAt = (y) => { const it = items[itemFrom(y)]; return it && it.y <= y ? it : null; };

/** The block that shows a row, or where it would be: its folded layer or group. */
export const itemOfRow = (r) => items[itemWithRow[r]] ?? null;

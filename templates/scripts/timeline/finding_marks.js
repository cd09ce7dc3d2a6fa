// Marks of findings: lanes and names that foretell the events, and the places at which that is wrong

import { inflate, planes } from "./decode.js";
import { N, endIn, name, start } from "./events.js";
import { stretches } from "./ranges.js";
import { first, head, names } from "./source.js";

const markParts = new Map([...document.querySelectorAll(".tl-mark")].map((part) => [+part.dataset.key, part]));
const decoded = [];

/** The events of a mark: their places, and the stretches of time in which at least one of them runs. */
export function markOf(m) {
  return decoded[m] ??= decodeMark(m);
}
async function decodeMark(m) {
  const listed = head.marks[m].places;
  const places = listed ? Int32Array.from(listed.filter((place) => place >= 0 && place < N)).sort() : await markPlacesOf(m);
  const starts = new Float64Array(places.length), ends = new Float64Array(places.length);
  for (let k = 0, r = 0; k < places.length; k++) {
    while (first[r + 1] <= places[k]) r++;
    starts[k] = start[places[k]];
    ends[k] = endIn(r, places[k]);
  }
  const [from, to] = stretches(starts, ends);
  return { places, starts: from, ends: to };
}
async function markPlacesOf(m) {
  const part = markParts.get(m);
  if (!part) return new Int32Array(0);
  const sizes = [part.dataset.lanes, part.dataset.names, part.dataset.n].map(Number);
  const bytes = await inflate(part);
  const [onLanes, ofNames, wrong] = sizes.map((size) => new Float64Array(size));
  let o = 0;
  for (const list of [onLanes, ofNames, wrong]) {
    o = planes(bytes, o, list.length, list);
    for (let i = 1; i < list.length; i++) list[i] += list[i - 1];
  }
  const is = new Uint8Array(N), wanted = new Uint8Array(names.length), from = +part.dataset.from, to = +part.dataset.to;
  for (const code of ofNames) wanted[code] = 1;
  for (const l of ofNames.length ? onLanes : []) {
    const { row, depth } = head.lanes[l];
    for (let i = first[row]; i < first[row + depth]; i++) if (wanted[name[i]] && start[i] >= from && start[i] <= to) is[i] = 1;
  }
  for (const place of wrong) is[place] ^= 1;
  const places = new Int32Array(is.reduce((sum, each) => sum + each, 0));
  for (let i = 0, k = 0; i < N; i++) if (is[i]) places[k++] = i;
  return places;
}

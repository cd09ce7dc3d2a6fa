// The events as columns.
//
// An event has a place (its number in the page). Places go row by row; the events of a row never overlap, so that
// `start` and the running sums of lengths give the exact work of any stretch by two binary searches, at every zoom.

import { slicer } from "../page/slices.js";
import { floats, inflate, planes, signed } from "./decode.js";
import { extremes } from "./ranges.js";
import { classes, first, head, kindOf, names } from "./source.js";

export const BLOCK = 32; // events between two sums by kind
export const { n: N } = head;
export const ROWS = first.length - 1;
export const start = new Float64Array(N);
export const sums = new Float64Array(N + ROWS); // work before event i of row r: sums[i + r]; one more at each row's end
export const name = new (names.length > 65535 ? Uint32Array : Uint16Array)(N);
export const link = new Int32Array(head.links ? N : 0).fill(-1);
export const ready = new Uint8Array(ROWS);
export const rowKinds = new Array(ROWS);
export const kindSums = new Array(ROWS);
export let flowFrom = new Int32Array(0);
export let flowTo = new Int32Array(0);
export const counters = (head.counters ?? []).map((each) => ({ ...each, times: new Float64Array(each.n), values: new Float64Array(each.n), ready: false }));
export const data = { head, N, ROWS, loaded: 0, done: false };
export const lengthOf = (i) => lengthIn(rowOf(i), i);
export const endOf = (i) => endIn(rowOf(i), i);

export const kindAt = (i) => kindOf[name[i]];
export const lengthIn = (r, i) => sums[i + r + 1] - sums[i + r];
export const endIn = (r, i) => start[i] + sums[i + r + 1] - sums[i + r];

/** Sums of work by kind before every 32nd event of a row with several classes; the classes ascend. */
function sumKinds(r) {
  const a = first[r];
  const b = first[r + 1];
  const present = new Uint8Array(classes.length);
  for (let i = a; i < b; i++) present[kindAt(i)] = 1;
  const mine = classes.map((_, k) => k).filter((k) => present[k]);
  rowKinds[r] = mine;
  if (mine.length < 2) return;
  const local = new Uint8Array(classes.length);
  mine.forEach((k, x) => { local[k] = x; });
  const K = mine.length;
  const before = new Float64Array((((b - a) / BLOCK | 0) + 1) * K);
  const run = new Float64Array(K);
  let at = 0;
  for (let i = a; i < b; i++) {
    if ((i - a) % BLOCK === 0) { before.set(run, at); at += K; }
    run[local[kindAt(i)]] += lengthIn(r, i);
  }
  if ((b - a) % BLOCK === 0) before.set(run, at);
  kindSums[r] = { before, local, K };
}

/** Decodes all parts in slices. progress() is called between slices. */
export async function load(progress) {
  const parts = [...document.querySelectorAll(".tl-part")];
  const gaps = new Float64Array(2 * 65536);
  const lengths = new Float64Array(65536);
  const codes = new Float64Array(65536);
  const slice = slicer();
  let at = 0, r = 0, last = 0, linkFrom = -1, linkTo = 0;
  const finish = () => { ready[r] = 1; sumKinds(r); r++; last = 0; };
  for (let p = 0; p < parts.length; p++) {
    const n = +parts[p].dataset.n;
    const bytes = await inflate(parts[p]);
    parts[p].remove();
    if (p >= head.eventParts) {
      planes(bytes, 0, 2 * n, gaps);
      for (let i = 0; i < n; i++) {
        linkFrom += gaps[i] + 1;
        linkTo += signed(gaps[n + i]);
        link[linkFrom] = linkTo;
      }
    } else {
      let o = planes(bytes, 0, n, gaps);
      o = planes(bytes, o, n, lengths);
      planes(bytes, o, n, codes);
      for (let i = 0; i < n;) {
        while (at === first[r + 1]) {
          finish();
          if (slice.due()) { data.loaded = at; progress?.(); await slice.rest(); }
        }
        const stop = Math.min(n, i + first[r + 1] - at);
        for (; i < stop; i++, at++) {
          start[at] = last + gaps[i];
          last = start[at] + lengths[i];
          sums[at + r + 1] = sums[at + r] + lengths[i]; // sums[first[r] + r] stays 0
          name[at] = codes[i];
        }
      }
    }
    data.loaded = at;
    if (slice.due()) { progress?.(); await slice.rest(); }
  }
  while (r < ROWS) finish();
  await loadFlows();
  await loadCounters(slice);
  data.done = true;
  progress?.();
}

async function loadFlows() {
  if (!head.flows) return;
  flowFrom = new Int32Array(head.flows);
  flowTo = new Int32Array(head.flows);
  let at = 0, from = 0, to = 0;
  for (const part of [...document.querySelectorAll(".tl-flow")]) {
    const n = +part.dataset.n;
    const both = new Float64Array(2 * n);
    planes(await inflate(part), 0, 2 * n, both);
    for (let i = 0; i < n; i++, at++) {
      flowFrom[at] = from += both[i];
      flowTo[at] = to += signed(both[n + i]);
    }
    part.remove();
  }
}

async function loadCounters(slice) {
  const at = counters.map(() => ({ i: 0, time: 0, value: 0 }));
  for (const part of [...document.querySelectorAll(".tl-counter")]) {
    const n = +part.dataset.n;
    const it = counters[+part.dataset.key];
    const state = at[+part.dataset.key];
    const raw = new Float64Array(n);
    const bytes = await inflate(part);
    const next = planes(bytes, 0, n, raw);
    for (let i = 0; i < n; i++) it.times[state.i + i] = state.time += raw[i];
    if (it.float) it.values.set(floats(bytes, next, n), state.i);
    else {
      planes(bytes, next, n, raw);
      for (let i = 0; i < n; i++) it.values[state.i + i] = state.value += signed(raw[i]);
    }
    state.i += n;
    part.remove();
    if (slice.due()) await slice.rest();
  }
  for (const it of counters) {
    if (it.queue) { queueOf(it); if (slice.due()) await slice.rest(); }
    it.extremes = extremes(it.values);
    it.ready = true;
  }
}

/** Work that was launched and has not begun: one more as a call begins, one less as its work does. */
function queueOf(it) {
  const up = [], down = [];
  for (const l of head.groups[it.group].lanes) {
    for (let { row, depth } = head.lanes[l], i = first[row]; i < first[row + depth]; i++) {
      if (link[i] >= 0 && start[link[i]] <= start[i]) { up.push(start[link[i]]); down.push(start[i]); }
    }
  }
  const begun = Float64Array.from(up).sort(), done = Float64Array.from(down).sort(), n = up.length;
  const times = new Float64Array(2 * n), values = new Float64Array(2 * n);
  let k = 0;
  it.max = 0;
  for (let a = 0, b = 0; b < n; k++) {
    const t = times[k] = a < n ? Math.min(begun[a], done[b]) : done[b];
    while (a < n && begun[a] === t) a++;
    while (b < n && done[b] === t) b++;
    it.max = Math.max(it.max, values[k] = a - b);
  }
  it.times = times.subarray(0, k);
  it.values = values.subarray(0, k);
}

// Places and rows
/** The row of an event. */
export function rowOf(i) {
  let a = 0, b = ROWS - 1;
  while (a < b) {
    const m = (a + b + 1) >> 1;
    if (first[m] <= i) a = m; else b = m - 1;
  }
  return a;
}

/** The first event of a row that ends after t, or begins at t or later (so that none without length is lost). */
export function seek(r, t) {
  let a = first[r], b = first[r + 1];
  while (a < b) {
    const m = (a + b) >> 1;
    if (endIn(r, m) > t || start[m] >= t) b = m; else a = m + 1;
  }
  return a;
}

/** The first event from i on, below stop, that begins at t or later: in doubling steps, since it is mostly near. */
export function begins(i, stop, t) {
  let step = 1, low = i;
  while (i + step < stop && start[i + step] < t) { low = i + step; step *= 2; }
  let a = low, b = Math.min(stop, i + step);
  while (a < b) {
    const m = (a + b) >> 1;
    if (start[m] < t) a = m + 1; else b = m;
  }
  return a;
}

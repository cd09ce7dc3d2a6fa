// Exact sums over a window: calls and work by name, busy time.

import { slicer } from "../page/slices.js";
import { ROWS, data, endIn, name, ready, seek, start } from "./events.js";
import { lower, stretches } from "./ranges.js";
import { first, names } from "./source.js";

/** Calls, and work in units, of each name in a window; rows: those to count. Async, in slices; null: not wanted any more. */
export async function byName(rows, t0, t1, wanted) {
  const work_ = new Float64Array(names.length);
  const calls = new Int32Array(names.length);
  const slice = slicer(12);
  let total = 0;
  for (const r of rows) {
    if (!ready[r]) continue;
    const stop = first[r + 1];
    let i = seek(r, t0);
    while (i < stop && start[i] < t1) {
      const until = Math.min(stop, i + 20000);
      for (; i < until && start[i] < t1; i++) {
        work_[name[i]] += Math.min(endIn(r, i), t1) - Math.max(start[i], t0);
        calls[name[i]]++;
        total++;
      }
      if (slice.due()) { await slice.rest(); if (!wanted()) return null; }
    }
  }
  return { work: work_, calls, total };
}

const busyOf = new Map();

/** The stretches in which at least one of the rows has an event, as starts, ends and sums; kept by key. */
export async function busyStretches(key, rows) {
  if (busyOf.has(key)) return busyOf.get(key);
  const slice = slicer(12);
  // The rows form a heap by the start of their next event: of all rows in order of time, without copies of them.
  const heap = rows.filter((r) => first[r] < first[r + 1]);
  const next = new Int32Array(ROWS);
  for (const r of heap) next[r] = first[r];
  const startOf = (x) => (x < heap.length ? start[next[heap[x]]] : Infinity);
  const sink = (x) => {
    for (let low = 2 * x + 1; low < heap.length; low = 2 * x + 1) {
      if (startOf(low + 1) < startOf(low)) low++;
      if (startOf(x) <= startOf(low)) return;
      [heap[x], heap[low]] = [heap[low], heap[x]];
      x = low;
    }
  };
  for (let x = (heap.length >> 1) - 1; x >= 0; x--) sink(x);
  const most = heap.reduce((sum, r) => sum + first[r + 1] - first[r], 0);
  let starts = new Float64Array(most), ends = new Float64Array(most), n = 0;
  while (heap.length) {
    const r = heap[0], until = Math.min(startOf(1), startOf(2)), stop = Math.min(first[r + 1], next[r] + 20000);
    let i = next[r];
    for (; i < stop && start[i] <= until; i++) {
      const b = endIn(r, i);
      if (b <= start[i]) continue; // an event without length is no work
      if (n && start[i] <= ends[n - 1]) ends[n - 1] = Math.max(ends[n - 1], b);
      else { starts[n] = start[i]; ends[n++] = b; }
    }
    next[r] = i;
    if (i === first[r + 1]) {
      heap[0] = heap[heap.length - 1];
      heap.length--;
    }
    sink(0);
    if (slice.due()) await slice.rest();
  }
  if (n < most / 2) { starts = starts.slice(0, n); ends = ends.slice(0, n); } // else a copy needs more than it saves
  else { starts = starts.subarray(0, n); ends = ends.subarray(0, n); }
  const total = new Float64Array(n + 1);
  for (let i = 0; i < n; i++) total[i + 1] = total[i] + ends[i] - starts[i];
  const found = { starts, ends, total };
  if (data.done) busyOf.set(key, found);
  return found;
}

/** Of each name the time between t0 and t1 in which at least one event of it runs, summed over groups of rows. */
export async function runningBetween(codes, rowsOfGroups, t0, t1, wanted) {
  const place = new Int16Array(names.length).fill(-1), slice = slicer(12), sums_ = codes.map(() => 0);
  codes.forEach((code, x) => { place[code] = x; });
  for (const rows of rowsOfGroups) {
    const lists = codes.map(() => [[], []]);
    for (const r of rows) {
      let i = seek(r, t0);
      while (i < first[r + 1] && start[i] < t1) {
        for (const until = Math.min(first[r + 1], i + 20000); i < until && start[i] < t1; i++) {
          const x = place[name[i]], b = Math.min(endIn(r, i), t1), a = Math.max(start[i], t0);
          if (x < 0 || b <= a) continue;
          if (rows.length === 1) sums_[x] += b - a; // events of a row never overlap
          else { lists[x][0].push(a); lists[x][1].push(b); }
        }
        if (slice.due()) { await slice.rest(); if (!wanted()) return null; }
      }
    }
    lists.forEach((list, x) => {
      const [starts, ends] = stretches(...list.map((times) => Float64Array.from(times)));
      for (let i = 0; i < starts.length; i++) sums_[x] += ends[i] - starts[i];
    });
    if (slice.due()) { await slice.rest(); if (!wanted()) return null; }
  }
  return sums_;
}

/** The busy time between t0 and t1 of such stretches. */
export function busyBetween({ starts, ends, total }, t0, t1) {
  const upTo = (t) => {
    const x = lower(starts, t); // stretches that begin before t
    return x ? total[x] - Math.max(0, ends[x - 1] - t) : 0;
  };
  return upTo(t1) - upTo(t0);
}

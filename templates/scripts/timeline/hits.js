// Marked events: hits of a search, rows picked elsewhere. before[i] of them have a place below i.

import { N, ROWS, name, start } from "./events.js";
import { first } from "./source.js";

export function hitsOfNames(lit) {
  const before = new Int32Array(N + 1);
  let sum = 0;
  for (let i = 0; i < N; i++) { before[i] = sum; sum += lit[name[i]]; }
  before[N] = sum;
  return before;
}

export function hitsOfPlaces(places) {
  const before = new Int32Array(N + 1);
  for (const place of places) if (place >= 0 && place < N) before[place + 1] = 1;
  for (let i = 0; i < N; i++) before[i + 1] += before[i];
  return before;
}

/** The next (direction 1) or previous (-1) marked event after time t and place, over all rows in order of time. */
export function nextMarked(before, direction, t, place) {
  let best = -1;
  for (let r = 0; r < ROWS; r++) {
    const low = first[r], high = first[r + 1];
    if (before[low] === before[high]) continue;
    let a = low, b = high;
    while (a < b) {
      const m = (a + b) >> 1;
      const past = direction > 0 ? start[m] > t || (start[m] === t && m > place) : !(start[m] < t || (start[m] === t && m < place));
      if (past) b = m; else a = m + 1;
    }
    const sum = before[a];
    if (direction > 0 ? before[high] === sum : before[low] === sum) continue;
    let x = direction > 0 ? a : low, y = direction > 0 ? high : a;
    while (x < y) {
      const m = (x + y) >> 1;
      if (direction > 0 ? before[m + 1] > sum : before[m + 1] >= sum) y = m; else x = m + 1;
    }
    const sooner = best < 0 || (direction > 0 ? start[x] < start[best] : start[x] > start[best]);
    if (sooner || (start[x] === start[best] && (direction > 0 ? x < best : x > best))) best = x;
  }
  return best;
}

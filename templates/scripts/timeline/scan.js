// A row over pixel columns

import { BLOCK, begins, endIn, kindAt, kindSums, lengthIn, rowKinds, seek, start, sums } from "./events.js";
import { first } from "./source.js";

const work = new Float64Array(256);

/** The kind with the most work of events i to j (not included) of a row, clipped to a column; ties: the lower kind. */
function dominant(r, i, j, under, over) {
  const marks = kindSums[r];
  if (!marks) return rowKinds[r][0];
  const { before, local, K } = marks;
  const a = first[r];
  work.fill(0, 0, K);
  let x = i;
  if (j - i > 2 * BLOCK) {
    const p = Math.ceil((i - a) / BLOCK), q = Math.floor((j - a) / BLOCK);
    for (let k = 0; k < K; k++) work[k] = before[q * K + k] - before[p * K + k];
    for (const stop = a + p * BLOCK; x < stop; x++) work[local[kindAt(x)]] += lengthIn(r, x);
    x = a + q * BLOCK;
  }
  for (; x < j; x++) work[local[kindAt(x)]] += lengthIn(r, x);
  if (under > 0) work[local[kindAt(i)]] -= under;
  if (over > 0) work[local[kindAt(j - 1)]] -= over;
  let best = local[kindAt(i)];
  for (let k = K - 1; k >= 0; k--) if (work[k] > 0 && work[k] >= work[best]) best = k;
  return rowKinds[r][best];
}

const col = { share: new Float64Array(0), count: new Int32Array(0), event: new Int32Array(0), kind: new Uint8Array(0) };

/**
* Fills `col` with what a row does in `width` columns of `per` units each from t0 on: the busy share, the number of
* events that touch the column, the event itself where there is one alone, else -1 - the first of them, and the kind
* that has most of the work.
*/
export function scan(r, t0, per, width) {
  if (width > col.count.length) {
    col.share = new Float64Array(width);
    col.count = new Int32Array(width);
    col.event = new Int32Array(width);
    col.kind = new Uint8Array(width);
  }
  const { share, count, event, kind } = col;
  count.fill(0, 0, width);
  const stop = first[r + 1];
  const t1 = t0 + width * per;
  let i = seek(r, t0);
  let c = 0;
  while (i < stop && c < width) {
    const s = start[i];
    if (s >= t1) break;
    c = Math.max(c, columnOf(s, t0, per));
    if (c >= width) break;
    const left = t0 + c * per;
    const right = t0 + (c + 1) * per;
    const e = endIn(r, i);
    if (i + 1 >= stop || start[i + 1] >= right) {
      const k = kindAt(i);
      count[c] = 1;
      event[c] = i;
      kind[c] = k;
      share[c] = (Math.min(e, right) - Math.max(s, left)) / per;
      c++;
      if (e <= right) { i++; continue; }
      const full = Math.min(width, columnOf(e, t0, per));
      for (; c < full; c++) { count[c] = 1; event[c] = i; kind[c] = k; share[c] = 1; }
      if (c < width && e <= t0 + c * per) i++;
      continue;
    }
    const j = begins(i, stop, right);
    const over = Math.max(0, endIn(r, j - 1) - right);
    const under = Math.max(0, left - s);
    count[c] = j - i;
    event[c] = -1 - i;
    share[c] = (sums[j + r] - sums[i + r] - over - under) / per;
    kind[c] = dominant(r, i, j, under, over);
    i = over > 0 ? j - 1 : j;
    c++;
  }
  return col;
}

/** The column that holds t: its left edge is t0 + c * per, as drawn and as checked, so rounding must agree. */
function columnOf(t, t0, per) {
  let c = Math.floor((t - t0) / per);
  if (t0 + (c + 1) * per <= t) c++;
  else if (t0 + c * per > t) c--;
  return c;
}

// Searches in sorted numbers, and stretches of time.

const EVERY = 64;

/** Least and largest value of every 64 samples. */
export function extremes(values) {
  const low = new Float64Array(Math.ceil(values.length / EVERY));
  const high = new Float64Array(low.length);
  for (let k = 0; k < low.length; k++) {
    let a = Infinity, b = -Infinity;
    for (let i = k * EVERY; i < Math.min(values.length, (k + 1) * EVERY); i++) { a = Math.min(a, values[i]); b = Math.max(b, values[i]); }
    low[k] = a;
    high[k] = b;
  }
  return { low, high };
}

/** Least and largest of the samples i to j (not included) of a counter. */
export function between({ values, extremes: { low, high } }, i, j) {
  let a = Infinity, b = -Infinity;
  while (i < j) {
    if (i % EVERY === 0 && i + EVERY <= j) { a = Math.min(a, low[i / EVERY]); b = Math.max(b, high[i / EVERY]); i += EVERY; }
    else { a = Math.min(a, values[i]); b = Math.max(b, values[i]); i++; }
  }
  return [a, b];
}

export function lower(list, v) {
  let a = 0, b = list.length;
  while (a < b) { const m = (a + b) >> 1; if (list[m] < v) a = m + 1; else b = m; }
  return a;
}

/** The stretches that events with these starts and ends cover together; sorts both. */
export function stretches(starts, ends) {
  starts.sort(); // a stretch is from where some begin to where as many have ended
  ends.sort();
  let n = 0;
  for (let a = 0, b = 0, from = 0; b < ends.length; b++) {
    while (a < starts.length && starts[a] <= ends[b]) { if (a === b) from = starts[a]; a++; }
    if (a === b + 1) { starts[n] = from; ends[n++] = ends[b]; }
  }
  return [starts.slice(0, n), ends.slice(0, n)];
}

// How often durations occur: bins that are equally wide as logarithms, with whole ns as edges and exact counts.

export const MOST_BINS = 48;

/** The value that so many percent of the ascending values do not exceed, by nearest rank as in the tables. */
export function percentile(sorted, percent) {
  return sorted[Math.max(Math.ceil((percent * sorted.length) / 100), 1) - 1];
}

/** @param {number} value @param {number} low @param {number} end */
export function placeOf(value, low, end) {
  return Math.min(Math.max(Math.log(Math.max(value, low) / low) / Math.log(end / low), 0), 1);
}

/**
 * Bins of ascending durations: [from, to) in ns, with the share of the width at which each begins and ends. All
 * durations are in one. Bins that would be narrower than 1 ns are one.
 */
export function binsOf(sorted, most = MOST_BINS) {
  const low = Math.max(sorted[0], 1);
  const end = Math.max(sorted.at(-1), low) + 1;
  const edges = Array.from({ length: most + 1 }, (_, i) => Math.round(low * (end / low) ** (i / most)));
  edges[0] = sorted[0];
  edges[most] = end;
  const bins = [];
  let at = 0;
  for (let i = 0; i < most; i++) {
    if (edges[i + 1] <= edges[i]) continue;
    const first = at;
    while (at < sorted.length && sorted[at] < edges[i + 1]) at += 1;
    bins.push({ from: edges[i], to: edges[i + 1], count: at - first, left: placeOf(edges[i], low, end), right: placeOf(edges[i + 1], low, end) });
  }
  return { bins, low, end };
}

/** Round durations between two others: powers of ten, and what is between where these are few. */
export function ticksOf(low, end) {
  const decades = Math.log10(end / low);
  const steps = decades > 3 ? [1] : decades > 1.2 ? [1, 3] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(end); power++) {
    for (const tick of steps.map((step) => step * 10 ** power)) if (Number.isInteger(tick) && tick >= low && tick <= end) found.push(tick);
  }
  return found;
}

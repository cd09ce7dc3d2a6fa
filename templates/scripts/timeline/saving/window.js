// The events of a window. Traces that are saved hold each that touches it, whole, with every ns.

import { begins, flowFrom, flowTo, rowOf, seek, start } from "../events.js";
import { first, head, missing } from "../source.js";

/** Places of the events that touch a window, row by row: [row, first, last + 1]. */
export function touched(t0, t1) {
  const out = [];
  for (let r = 0; r + 1 < first.length; r++) {
    const i = seek(r, t0), j = begins(i, first[r + 1], t1);
    if (i < first[r + 1] && start[i] < t1) out.push([r, i, Math.max(i + 1, j)]);
  }
  return out;
}

/** Calls found(number, from, to) for each arrow of the input with both ends in these stretches. */
export function eachFlow(spans, found) {
  const of = new Map(spans.map((span) => [span[0], span]));
  const inside = (i) => { const [, a, b] = of.get(rowOf(i)) ?? [0, 0, 0]; return i >= a && i < b; };
  flowFrom.forEach((i, x) => { if (inside(i) && inside(flowTo[x])) found(x, i, flowTo[x]); });
}

export const ids = (lane) => lane.ids ?? {};

export function absence(t0, t1, spans) {
  let n = 0, m = 0;
  for (const it of missing) if (it.end >= t0 && it.start <= t1) n += it.count;
  for (const [from, to, of] of head.members?.left ?? []) if (spans.some(([, i, j]) => i < to && j > from)) m += of;
  const keys = head.argsLeft?.length ? ` and ${head.argsLeft.join(", ")} of all` : "";
  const notes = [n ? `up to ${n} events of this window` : "", m || keys ? `the arguments of up to ${m} of its events${keys}` : ""];
  const text = notes.filter(Boolean).join(", and ");
  return text && `${text} were not in the page`;
}

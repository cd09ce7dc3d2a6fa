// The critical paths as the page has them.

import { inflate, planes, signed } from "./decode.js";
import { endIn, rowOf, start } from "./events.js";

let pathPieces = null;

/** The pieces of the critical paths by time: starts, ends and places, rows of these, and the time on each place. */
export async function paths() {
  if (pathPieces) return pathPieces;
  const all = [];
  for (const part of document.querySelectorAll(".tl-path")) {
    const n = +part.dataset.n, bytes = await inflate(part), modes = new Uint8Array(n);
    const [starts, ends, places] = [0, 0, 0].map(() => new Float64Array(n)), rows = new Int32Array(n), on_ = new Map();
    const next = planes(bytes, planes(bytes, 0, n, places), n, modes);
    const stated = new Float64Array(modes.reduce((sum, mode) => sum + +(mode > 5) + +(mode % 3 > 1), 0));
    planes(bytes, next, stated.length, stated);
    for (let i = 0, place = 0; i < n; i++) rows[i] = rowOf(places[i] = place += signed(places[i]));
    for (let i = 0, t = 0, s = 0; i < n; i++) {
      const from = modes[i] / 3 | 0, to = modes[i] % 3, place = places[i];
      starts[i] = t = from === 1 ? start[place] : t + (from && stated[s++]);
      ends[i] = t = to === 0 ? endIn(rows[i], place) : to === 1 ? start[places[i + 1]] : t + stated[s++];
      on_.set(place, (on_.get(place) ?? 0) + t - starts[i]);
    }
    all.push({ starts, ends, places, rows, on: on_ });
  }
  return pathPieces = all;
}

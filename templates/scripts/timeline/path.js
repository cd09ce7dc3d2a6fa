// The critical path: a line below the stretches in which it is in an event, and thin ones from row to row.

import { el } from "../page/dom.js";
import { count, exact as exactText } from "../page/texts.js";
import { later } from "./address.js";
import { dark } from "./colours.js";
import { announce, pathButton, pathText } from "./elements.js";
import { ROWS } from "./events.js";
import { floorOf } from "./overlay.js";
import { draw } from "./paint.js";
import { paths } from "./path_data.js";
import { lower } from "./ranges.js";
import { select, selected } from "./selection.js";
import { head } from "./source.js";
import { LEFT, W, X, view } from "./view.js";

const pathColor = () => (dark ? "#ff9db0" : "#b3123c");
export let path = null; // of each owner its pieces, while they are shown
export async function showPath(is) {
  path = is ? await paths() : null;
  pathButton.setAttribute("aria-pressed", String(is));
  pathText.hidden = !is;
  pathText.replaceChildren(...head.paths.map(({ label, ns, span, n, left }) => el("li", {}, el("i", { style: `background: ${pathColor()}` }), `critical path${label && ` of ${label}`}: ${exactText(ns)} in events, ${exactText(span)} with pauses${left ? `; ${count(left)} of its ${count(n + left)} pieces are not in this page` : ""}`)));
  announce(is ? pathText.textContent : "critical path hidden");
  select(selected, { quiet: true });
  draw(false);
  later();
}
export function paintPath(c) {
  if (!path) return;
  c.fillStyle = pathColor();
  const half = (view.t1 - view.t0) / (W - LEFT) / 2, reach = new Float64Array(ROWS), floors = new Float64Array(ROWS).fill(NaN);
  for (const { starts, ends, rows } of path) {
    let y = NaN;
    for (let i = Math.max(0, lower(starts, view.t0) - 1); i < starts.length && starts[i] < view.t1; i++) {
      if (ends[i] < view.t0) continue;
      const r = rows[i], from = X(starts[i]), to = X(ends[i]), before = y;
      y = Number.isNaN(floors[r]) ? floors[r] = floorOf(r) : floors[r];
      if (before < y || before > y) { if (ends[i] - starts[i] > half) c.fillRect(from - 0.5, Math.min(y, before) - 3, 1, Math.abs(y - before) + 3); }
      if (to <= reach[r]) continue;
      const a = Math.max(from, reach[r]);
      reach[r] = Math.max(to, a + 1);
      c.fillRect(a, y - 3, reach[r] - a, 3);
    }
  }
}
pathButton.onclick = () => showPath(!path);

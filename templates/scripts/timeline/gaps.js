// Gaps between the work of a device, longest first, and what the host did in them.

import { button, el } from "../page/dom.js";
import { count } from "../page/texts.js";
import { announce, detail } from "./elements.js";
import { endIn, name, seek, start } from "./events.js";
import { groupName, placeName, time } from "./lanes.js";
import { measure } from "./measuring.js";
import { stretches } from "./ranges.js";
import { reveal, select } from "./selection.js";
import { face, first, groups, lanes, missing, names } from "./source.js";
import { countedRows } from "./statistics.js";
import { busyStretches } from "./sums.js";
import { glide, leave, padded } from "./view.js";

const MOST_GAPS = 1000, LISTED_CALLS = 8;
let gaps = null; // [start, end, group]
let gapAt = -1;

/** The longest gaps of all devices. One that may hold events which are not in this page is none. */
async function longestGaps() {
  const found = [];
  for (const [g, rows] of countedRows().per) {
    const { starts, ends } = await busyStretches(g, rows);
    const lengths = Float64Array.from({ length: Math.max(0, starts.length - 1) }, (_, i) => starts[i + 1] - ends[i]);
    const least = lengths.length > MOST_GAPS ? lengths.slice().sort()[lengths.length - MOST_GAPS] : 0;
    const absent = missing.filter((it) => rows.some((r) => r >= it.rows[0] && r < it.rows[1]));
    lengths.forEach((length, i) => {
      const [a, b] = [ends[i], starts[i + 1]];
      if (length >= least && !absent.some((it) => it.start < b && it.end > a)) found.push([a, b, g]);
    });
  }
  return found.sort((x, y) => y[1] - y[0] - (x[1] - x[0]) || x[0] - y[0]).slice(0, MOST_GAPS);
}

/** The next (1) or previous (-1) gap by length: measured, with the host's events in it. */
export async function stepGap(direction) {
  await face.ready;
  gaps ??= await longestGaps();
  if (!gaps.length) { announce("no idle gap is known"); return; }
  gapAt = gapAt < 0 ? 0 : (gapAt + direction + gaps.length) % gaps.length;
  const [a, b, g] = gaps[gapAt];
  leave();
  select(-1);
  measure(a, b);
  glide(...padded(a, b));
  const { calls, free } = hostBetween(a, b, g), share = (v) => `${(100 * v / (b - a)).toFixed(1)} %`;
  const rows = calls.slice(0, LISTED_CALLS).map(({ code, l, self, n, longest }) => el("li", {}, button(
    [el("span", {}, names[code]), el("small", {}, `${time(self)} · ${share(self)}`)],
    () => { select(longest); reveal(longest); },
    { title: `${names[code].slice(0, 2000)}: ${count(n)} on ${placeName(l)}` })));
  if (free > 0) rows.push(el("li", { class: "tl-more" }, `no event of the host: ${time(free)} · ${share(free)}`));
  detail.replaceChildren(
    el("b", {}, `Idle gap ${count(gapAt + 1)} of ${count(gaps.length)}: ${time(b - a)}`),
    el("p", {}, `${groupName(g)}, ${time(a)} to ${time(b)}. g: the next by length, G: back.`),
    el("p", {}, calls.length ? "The host meanwhile, each event without those below it:" : "What the host did is not known: no event of it is in this gap."),
    el("div", { class: "tl-list" }, el("ul", {}, ...(calls.length ? rows : []))));
  announce(detail.textContent);
}

/** Time of the host's events between two times, each without what runs below it; of the same input and rank. */
function hostBetween(a, b, g) {
  const idsOf = (l) => lanes[l].ids ?? {}, { source, rank, process } = idsOf(groups[g].lanes[0]), found = new Map();
  const near = lanes.map((lane, l) => lane.host && !lane.note && !lane.instants && idsOf(l).source === source && idsOf(l).rank === rank);
  const own = near.map((is, l) => is && idsOf(l).process === process), wanted = own.includes(true) ? own : near;
  let all = [[], []];
  lanes.forEach((lane, l) => {
    if (!wanted[l]) return;
    let covered = [[], []];
    for (let r = lane.row + lane.depth - 1; r >= lane.row; r--) {
      const starts = [], ends = [];
      for (let i = seek(r, a), x = 0; i < first[r + 1] && start[i] < b; i++) {
        const from = Math.max(start[i], a), to = Math.min(endIn(r, i), b);
        if (to <= from) continue;
        let self = to - from;
        while (x < covered[0].length && covered[1][x] <= from) x++;
        for (let y = x; y < covered[0].length && covered[0][y] < to; y++) self -= Math.min(to, covered[1][y]) - Math.max(from, covered[0][y]);
        const key = `${l} ${name[i]}`, it = found.get(key) ?? { code: name[i], l, self: 0, n: 0, longest: i, most: -1 };
        it.self += self;
        it.n++;
        if (self > it.most) { it.most = self; it.longest = i; }
        found.set(key, it);
        starts.push(from);
        ends.push(to);
      }
      covered = stretches(Float64Array.from([...covered[0], ...starts]), Float64Array.from([...covered[1], ...ends]));
    }
    all = stretches(Float64Array.from([...all[0], ...covered[0]]), Float64Array.from([...all[1], ...covered[1]]));
  });
  const busy = all[0].reduce((sum, from, x) => sum + all[1][x] - from, 0);
  return { calls: [...found.values()].filter(({ self }) => self > 0).sort((x, y) => y.self - x.self || x.code - y.code), free: b - a - busy };
}

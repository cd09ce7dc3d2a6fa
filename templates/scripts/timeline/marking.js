// Marked events: shown alone, walked through, asked for by other parts of the page.

import { link as address } from "../page/address.js";
import { on } from "../page/bus.js";
import { button, el } from "../page/dom.js";
import { count, counted } from "../page/texts.js";
import { later } from "./address.js";
import { announce, detail, find, hitList, hitsText, walkers } from "./elements.js";
import { N, ROWS, data, lengthIn, name, start } from "./events.js";
import { pressFamilies } from "./families.js";
import { markOf } from "./finding_marks.js";
import { hitsOfNames, hitsOfPlaces, nextMarked } from "./hits.js";
import { time } from "./lanes.js";
import { draw } from "./paint.js";
import { markNames } from "./search.js";
import { reveal, select, selected } from "./selection.js";
import { face, first, kindOf, kinds, marks, missing, names, unit } from "./source.js";
import { glide, leave, padded } from "./view.js";

export let marked = null; // {before, text, total}: events that a search, a table or a finding marks
export let shownMark = -1;
export const markText = ({ all }, places) => (all > places.length ? `the longest ${count(places.length)} of ${count(all)} events` : `${counted(places.length, "event")}`);
export async function showMark(m, go = true) {
  const mark = marks[m];
  if (go) await face.ready;
  const { places, starts, ends } = await markOf(m);
  find.value = "";
  markPlaces(places, mark.title);
  shownMark = m;
  const [from, until] = places.length ? [starts[0], ends[ends.length - 1]] : [mark.start, mark.end];
  if (go) { glide(...padded(from, until)); announce(`${mark.title}: ${markText(mark, places)} marked`); }
  const show = [el("b", { class: "tl-name" }, mark.title), el("p", {}, `${markText(mark, places)}, ${time(from)} to ${time(until)}`)];
  if (mark.view) show.push(button("show in the tables", () => address.visit({ view: mark.view, table: null, row: mark.row ?? 1, column: null })));
  if (go && selected >= 0) select(-1);
  if (selected < 0) detail.replaceChildren(...show);
}

export let shownName = -1; // the number of the name that alone is marked
export let shownFamily = ""; // the colour of the family that alone is marked
export function setMarked(before, text, family = "") {
  shownMark = shownName = -1;
  shownFamily = family;
  marked = before ? { before, text, total: before[N] } : null;
  walkers.hidden = !marked;
  pressFamilies();
  draw();
  later();
}
export function clearMarked() {
  hitsText.textContent = "";
  hitList.hidden = true;
  find.removeAttribute("aria-invalid");
  setMarked(null);
}
export function markPlaces(places, text) {
  hitList.hidden = true;
  setMarked(hitsOfPlaces(places), text);
  hitsText.textContent = `${counted(marked.total, "event")}: ${text}`;
}
export function onlyName(code) {
  const hit = new Uint8Array(names.length);
  hit[code] = 1;
  setMarked(hitsOfNames(hit), names[code]);
  shownName = code;
  hitsText.textContent = `${counted(marked.total, "hit")}: ${names[code].slice(0, 60)}`;
}

/** Selects the next (1) or previous (-1) marked event in order of time; after the last comes the first. */
export function walk(direction, fromStart = false) {
  if (!marked?.total) { announce(marked ? "no hits" : "nothing is marked: search first"); return; }
  const inside = selected >= 0 && !fromStart;
  let next = nextMarked(marked.before, direction, inside ? start[selected] : direction > 0 ? -1 : Infinity, inside ? selected : -1);
  if (next < 0) next = nextMarked(marked.before, direction, direction > 0 ? -1 : Infinity, direction > 0 ? -1 : N);
  if (next < 0) return;
  select(next);
  reveal(next);
}

on("mark", async ({ names: wanted, kinds: only, from }) => {
  if (from === "timeline") return;
  if (!data.done) await face.ready;
  if (from === "link" && ["mark", "find", "name", "family"].some((word) => address.get(word) !== null)) return; // it is followed too
  if (!wanted?.length) { clearMarked(); return; }
  find.value = "";
  markNames(nameCodes(wanted, only));
  hitList.hidden = true;
});
function nameCodes(wanted, only) {
  const set = new Set(wanted), of = only ? new Set(only) : null;
  return Uint8Array.from(names, (text, i) => Number(set.has(text) && (!of || of.has(kinds[kindOf[i]]))));
}
on("goto", ({ start: a, end: b, places, mark, from }) => {
  if (from === "timeline") return;
  if (marks[mark]) { void showMark(mark); return; }
  if (a !== null && a !== undefined) glide(...padded(a / unit, b / unit));
  if (places?.length) { markPlaces(places, "marked"); select(places[0]); }
});
on("events", async ({ names: wanted, kinds: only, reply }) => {
  await face.ready;
  const hit = nameCodes(wanted, only), starts = [], lengths = [];
  for (let r = 0; r < ROWS; r++) {
    for (let i = first[r]; i < first[r + 1]; i++) if (hit[name[i]]) { starts.push(start[i] * unit); lengths.push(lengthIn(r, i) * unit); }
  }
  reply({ start: Float64Array.from(starts), length: Float64Array.from(lengths), missing: missing.reduce((sum, it) => sum + it.count, 0) });
});
/** Selects the longest of the marked events. */
function longest() {
  let best = -1, most = -1;
  for (let r = 0; r < ROWS; r++) {
    for (let i = first[r]; i < first[r + 1]; i++) {
      if (marked.before[i + 1] > marked.before[i] && lengthIn(r, i) > most) { best = i; most = lengthIn(r, i); }
    }
  }
  if (best < 0) return;
  leave();
  select(best);
  reveal(best);
}
walkers.append(
  button("‹", () => walk(-1), { "aria-label": "Previous hit (p)", title: "previous hit (p)" }),
  button("›", () => walk(1), { "aria-label": "Next hit (n)", title: "next hit (n)" }),
  button("longest", longest),
  button("clear", () => { find.value = ""; clearMarked(); }));

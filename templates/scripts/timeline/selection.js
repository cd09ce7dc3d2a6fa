// The selected event.

import { emit } from "../page/bus.js";
import { button, el } from "../page/dom.js";
import { count, exact as exactText, span as spanText } from "../page/texts.js";
import { later } from "./address.js";
import { argsOf } from "./args.js";
import { partners } from "./arrows.js";
import { announce, detail, find, key, scroll } from "./elements.js";
import { data, lengthIn, name, rowOf, seek, start } from "./events.js";
import { showLayers } from "./folding.js";
import { hitsOfNames, nextMarked } from "./hits.js";
import { groupOfLane, laneOfRow, layersOf, placeName, time } from "./lanes.js";
import { GROUP, foldedGroups, foldedLayers, itemOfRow, items, layout, pinHeight } from "./layout.js";
import { onlyName } from "./marking.js";
import { measure } from "./measuring.js";
import { draw } from "./paint.js";
import { path } from "./path.js";
import { lower } from "./ranges.js";
import { classes, first, head, kindOf, kinds, lanes, names, unit } from "./source.js";
import { H, LEAST, LEFT, W, fit, glide, leave, view } from "./view.js";

export let selected = -1;
/** Unfolds, scrolls and moves until an event can be seen. */
export function reveal(i) {
  const r = rowOf(i), l = laneOfRow[r];
  let changed = foldedGroups.delete(groupOfLane[l]), row = lanes[l].row;
  layersOf[l].forEach(([, of], x) => {
    if (r > row && r < row + of) changed = foldedLayers.delete(`${l}:${x}`) || changed;
    row += of;
  });
  if (changed) { layout(); showLayers(); }
  const length = lengthIn(r, i), wide = view.t1 - view.t0;
  if (start[i] < view.t0 || start[i] + length > view.t1 || length < wide / (W - LEFT) * 2) {
    const next = Math.max(length * 30, Math.min(wide, Math.max(length, LEAST / 30) * 400));
    glide(start[i] + length / 2 - next / 2, start[i] + length / 2 + next / 2);
  }
  const it = itemOfRow(r);
  if (it && !it.pin) {
    const y = it.y + (r - it.row) * (it.each ?? 0);
    if (y < scroll.scrollTop + pinHeight + GROUP || y + (it.each ?? it.h) > scroll.scrollTop + H) scroll.scrollTop = y - pinHeight - (H - pinHeight) / 2;
  }
  draw();
}

/** A time with every ns, and short where that is another text. */
const inBoth = (ns) => (spanText(ns) === exactText(ns) ? [exactText(ns)] : [exactText(ns), el("small", {}, ` ${spanText(ns)}`)]);

const WAYS = { launched: "launched by", launch: "launches", to: "arrow to", from: "arrow from" };
export function select(i, { quiet = false } = {}) {
  selected = i;
  draw(false);
  later();
  if (i < 0) {
    detail.replaceChildren(el("b", {}, "Nothing selected"), el("p", {}, "Click an event for its exact times, its arguments, and the calls and kernels that belong to it."),
      el("p", {}, "Drag moves, ", key("Ctrl"), " and wheel zooms, ", key("Shift"), " and drag measures, ", key("g"), " goes to idle gaps, ", key("?"), " shows all keys."));
    return;
  }
  const r = rowOf(i), l = laneOfRow[r], length = lengthIn(r, i), code = name[i];
  const facts = { name: names[code], kind: kinds[kindOf[code]], place: i, start: Math.round(start[i] * unit), length: Math.round(length * unit), lane: placeName(l), from: "timeline" };
  const list = el("dl", {});
  const fact = (word, ...value) => list.append(el("div", {}, el("dt", {}, word), el("dd", {}, ...value)));
  fact("kind", classes[kindOf[code]].replaceAll("_", " "));
  fact("on", facts.lane);
  fact("start", ...inBoth(facts.start));
  if (lanes[l].instants) fact("length", "no duration");
  else fact("length", ...inBoth(facts.length));
  const onPath = path?.reduce((sum, each) => sum + (each.on.get(i) ?? 0), 0);
  if (onPath !== undefined) fact("critical path", onPath ? exactText(Math.round(onPath * unit)) : "not on it");
  if (lanes[l].overlaps) fact("note", `${count(lanes[l].overlaps)} events of this lane overlap others: they are on further rows`);
  const links = el("div", { class: "tl-links" });
  const others = partners(i);
  for (const [other, way] of others.slice(0, 4)) {
    const ahead = start[other] - start[i];
    links.append(button([`${WAYS[way]} `, el("b", {}, names[name[other]].slice(0, 200)), `, ${time(Math.abs(ahead))} ${ahead < 0 ? "before" : "after"}`], () => { leave(); select(other); reveal(other); }));
  }
  if (others.length > 4) links.append(el("small", {}, `and ${count(others.length - 4)} more`));
  const args = el("div", { class: "tl-args-box" });
  detail.replaceChildren(
    el("b", { class: "tl-name", title: facts.name.slice(0, 2000) }, facts.name), list, links, args,
    el("div", { class: "tl-do" },
      button("fit", () => { measure(null, null); fit(); }),
      button("mark all of this name", () => { find.value = ""; onlyName(code); }),
      button("its row in the tables", () => emit("pick", { ...facts, show: true }))));
  showArgs(i, args);
  if (!quiet) announce(`${facts.name}, ${facts.kind.replaceAll("_", " ")}, ${facts.lane}, starts at ${spanText(facts.start)}, takes ${spanText(facts.length)}`);
  emit("pick", facts);
}
async function showArgs(i, box) {
  const found = await argsOf(i);
  const lost = [...(head.argsLeft ?? []), ...(head.members?.left ?? []).filter(([from, to]) => i >= from && i < to).map(() => "other arguments")];
  if (i !== selected || !(found.length + lost.length)) return;
  box.replaceChildren(
    el("dl", {}, ...found.map(([word, value, unitOf]) => el("div", {}, el("dt", {}, seen(word)), el("dd", {}, argText(value, unitOf))))),
    ...(lost.length ? [el("small", {}, `Not in this page: ${lost.join(", ")}. --page-args-mb makes it larger.`)] : []));
}

/** Text without what would reorder or hide it, as escapes. */
const seen = (text) => (text.length > 20000 ? `${text.slice(0, 20000)}… (${count(text.length)} characters in all)` : text).replace(/[\p{Cc}\p{Cf}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]/gu, (each) => (/[\u200c\u200d]/.test(each) ? each : `\\u{${each.codePointAt(0).toString(16)}}`));
function argText(value, unitOf) {
  if (typeof value !== "number") return seen(String(value));
  const text = Number.isInteger(value) ? count(value) : String(value);
  return unitOf ? `${text} ${unitOf}` : text;
}

let sameName = { code: -1, before: null };
/** The next (1) or previous (-1) event of the selected one's name, in order of time on all lanes. */
export function stepName(direction) {
  if (selected < 0) { stepSelection(direction, 0); return; }
  const code = name[selected];
  if (sameName.code !== code || !sameName.done) {
    const hit = new Uint8Array(names.length);
    hit[code] = 1;
    sameName = { code, before: hitsOfNames(hit), done: data.done };
  }
  const next = nextMarked(sameName.before, direction, start[selected], selected);
  if (next < 0) { announce(`no ${direction > 0 ? "later" : "earlier"} event of this name`); return; }
  select(next);
  reveal(next);
}

/** Along a row, or to the next visible row that has an event at that time. */
export function stepSelection(across, down) {
  const rows = visibleRows();
  if (selected < 0) {
    for (const r of rows) {
      const i = seek(r, view.t0);
      if (i < first[r + 1] && start[i] < view.t1) { select(i); reveal(i); return; }
    }
    return;
  }
  const r = rowOf(selected);
  if (across) {
    const next = selected + across;
    if (next >= first[r] && next < first[r + 1]) { select(next); reveal(next); } else announce("no more events on this row");
    return;
  }
  const t = start[selected], middle = t + lengthIn(r, selected) / 2;
  let x = lower(rows, r);
  for (x += down; x >= 0 && x < rows.length; x += down) {
    const other = rows[x];
    let i = seek(other, down > 0 ? t : middle);
    if (i >= first[other + 1]) i--;
    if (i >= first[other]) { select(i); reveal(i); return; }
  }
  announce("no more rows with events");
}
function visibleRows() {
  const out = [];
  for (const it of items) if (it.is === "rows") for (let d = 0; d < it.rows; d++) out.push(it.row + d);
  return out.sort((a, b) => a - b);
}

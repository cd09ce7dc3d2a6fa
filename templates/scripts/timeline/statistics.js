// Figures of the measured window, or of the one shown.

import { emit } from "../page/bus.js";
import { button, el } from "../page/dom.js";
import { count, counted, exact as exactText } from "../page/texts.js";
import { absent, find, range } from "./elements.js";
import { data, ready } from "./events.js";
import { groupName, isDevice, time } from "./lanes.js";
import { LONG_NAME, bareName } from "./letters.js";
import { onlyName } from "./marking.js";
import { measureNote, measured } from "./measuring.js";
import { groups, head, kindOf, kinds, lanes, missing, names, unit } from "./source.js";
import { busyBetween, busyStretches, byName, runningBetween } from "./sums.js";
import { view } from "./view.js";

/** The rows whose work counts: of each group those of devices, or of processes where no device is in the page. */
export function countedRows() {
  const device = lanes.some(isDevice), per = [];
  groups.forEach((group, g) => {
    const of = [];
    for (const l of group.lanes) {
      const lane = lanes[l];
      if (device ? !isDevice(lane) : lane.note) continue;
      for (let r = lane.row; r < lane.row + (device ? lane.depth : 1); r++) if (ready[r]) of.push(r);
    }
    if (of.length) per.push([g, of]);
  });
  return { device, per };
}

let turn = 0;
export async function showRange() {
  const mine = ++turn, wanted = () => mine === turn;
  if (!data.done) {
    range.replaceChildren(el("b", {}, "Window shown"), el("p", {}, "The events are being read."));
    return;
  }
  const [a, b] = measured ?? [view.t0, view.t1];
  const { device, per } = countedRows(), rows = per.flatMap(([, of]) => of);
  const found = await byName(rows, a, b, wanted);
  if (!found || !wanted()) return;
  const busy = [];
  for (const [g, of] of per) {
    busy.push([g, busyBetween(await busyStretches(g, of), a, b)]);
    if (!wanted()) return;
  }
  const wide = Math.max(b - a, 1e-9), all = wide * per.length, sum = busy.reduce((total, [, v]) => total + v, 0);
  const codes = [];
  for (let i = 0; i < found.calls.length; i++) if (found.calls[i]) codes.push(i);
  codes.sort((x, y) => found.work[y] - found.work[x] || x - y);
  const running = await runningBetween(codes.slice(0, 6), per.map(([, of]) => of), a, b, wanted);
  if (!running || !wanted()) return;
  shown = { start: a, end: b, busy, total: found.total, shares: running.map((v) => v / all), names: codes.map((c) => [names[c], found.calls[c], found.work[c]]) };
  const percent = (v, of) => `${(v > 0 && of > 0 ? Math.min(100, v / of * 100) : 0).toFixed(1)} %`;
  const overlap = running.some((v, x) => found.work[codes[x]] > v * (1 + 1e-9) + 1e-6);
  const what = device ? ["device", "devices"] : ["process", "processes"];
  const bars = el("div", { class: "tl-bars" });
  for (const [g, v] of busy.slice(0, 8)) {
    const fill = el("i");
    fill.style.width = `${Math.min(100, v / wide * 100)}%`;
    bars.append(el("span", {}, groupName(g)), el("span", { class: "tl-bar" }, fill), el("b", {}, percent(v, wide)));
  }
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...["name", "calls", overlap ? "sum" : "time", "of the window"].map((word) => el("th", { scope: "col" }, word)))));
  const rowsOf = el("tbody", {});
  for (const [x, c] of codes.slice(0, 6).entries()) {
    rowsOf.append(el("tr", {}, el("td", {}, button((names[c].length > LONG_NAME ? bareName(c) : names[c]).slice(0, 300), () => { find.value = ""; onlyName(c); emit("mark", { names: [names[c]], kinds: [kinds[kindOf[c]]], from: "timeline" }); }, { title: names[c].slice(0, 2000) })),
      el("td", {}, count(found.calls[c])), el("td", {}, time(found.work[c])), el("td", {}, percent(running[x], all))));
  }
  table.append(rowsOf);
  const within = new Set(rows);
  let outside = 0;
  const isCounted = (it) => { for (let r = it.rows[0]; r < it.rows[1]; r++) if (within.has(r)) return true; return false; };
  for (const it of missing) if (it.end > a && it.start < b && isCounted(it)) outside += it.busy ?? 0;
  const known = outside
    ? `busy at least ${percent(sum, all)}; ${counted(found.total, "event")} in this page`
    : `busy ${percent(sum, all)}, idle ${percent(all - sum, all)}; ${counted(found.total, "event")}`;
  const children = [
    el("b", {}, measured ? `Measured ${time(wide)}` : `Window shown: ${time(wide)}`),
    el("p", {}, `${measured ? `${exactText(Math.round(wide * unit))}. ` : ""}${count(per.length)} ${what[per.length === 1 ? 0 : 1]}: ${known}.`),
  ];
  if (measureNote) children.push(el("p", {}, measureNote));
  if (outside) children.push(el("p", {}, `Idle time is not known: events of ${time(outside)} in and around this window are not in the page.`));
  if (busy.length > 1) children.push(bars);
  if (busy.length > 8) children.push(el("p", {}, `and ${count(busy.length - 8)} more`));
  if (codes.length) children.push(table);
  const base = [
    ...(per.length > 1 ? [`Shares are of the window on ${count(per.length)} ${what[1]}.`] : []),
    ...(overlap ? ["Time in which a name runs several times at once is in its share once."] : []),
  ].join(" ");
  if (base) children.push(el("p", {}, base));
  if (codes.length > 6) children.push(el("p", {}, `and ${count(codes.length - 6)} more names`));
  if (!per.length) children.splice(1, 1, el("p", {}, "No lane with work is in this page."));
  range.replaceChildren(...children);
}
export let shown = null;

export function showAbsent() {
  if (!missing.length) return;
  let n = 0, cutOff = false;
  for (const it of missing) {
    if (it.end < view.t0 || it.start > view.t1) continue;
    n += it.count;
    cutOff ||= it.start < view.t0 || it.end > view.t1;
  }
  absent.hidden = !n;
  absent.textContent = n ? `${cutOff ? "Up to " : ""}${counted(n, "event")} of this window ${n === 1 ? "is" : "are"} not in this page (hatched). ${head.budget ?? ""}` : "";
}

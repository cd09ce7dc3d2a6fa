// Mouse and fingers on the lanes.

import { el } from "../page/dom.js";
import { count, exact as exactText } from "../page/texts.js";
import { later } from "./address.js";
import { announce, cursor, scroll, tip, top } from "./elements.js";
import { begins, endOf, lengthIn, name, ready, rowOf, seek, start } from "./events.js";
import { fold, pin } from "./folding.js";
import { groupName, laneOfRow, time } from "./lanes.js";
import { height, itemAt, yOf } from "./layout.js";
import { measure, measureBetween, measured, measuring, setMeasuring } from "./measuring.js";
import { draw } from "./paint.js";
import { lower } from "./ranges.js";
import { select, selected } from "./selection.js";
import { classes, first, kindOf, lanes, names, unit } from "./source.js";
import { amount } from "./units.js";
import { LEFT, T, W, fit, setView, view, zoom } from "./view.js";

export let hovered = -1;
export let hoveredLane = -1; // whose label the mouse is on
export let tipAt = "", pointer = [0, 0]; // where the mouse is: what is under it changes with each zoom by a key
/** After a zoom by a key, the tip is of what is under the mouse now. */
export function followTip() {
  if (!inside || drag || pinch || !bodyMoved()) return;
  if (!tip.hidden) showTip(...pointer);
  showCursor(pointer[0]);
}
function bodyMoved() {
  const now = [view.t0, view.t1, scroll.scrollTop, height].join(" ");
  return now !== tipAt && (tipAt = now) !== "";
}

/** The event under a point, or the longest of those near it. */
function under(x, y) {
  const it = itemAt(y);
  if (!it || x < LEFT || it.is !== "rows") return { it, event: -1 };
  const r = it.row + Math.min(it.rows - 1, Math.floor((y - yOf(it)) / it.each));
  if (!ready[r]) return { it, event: -1 };
  const t = T(x), slack = 2 * (view.t1 - view.t0) / (W - LEFT);
  const from = seek(r, t - slack);
  if (from >= first[r + 1] || start[from] > t + slack) return { it, event: -1 };
  const to = Math.max(from + 1, begins(from, first[r + 1], t + slack));
  let best = from;
  for (let i = from; i < to && i < from + 4000; i++) {
    const length = lengthIn(r, i);
    if (start[i] <= t && t < start[i] + length && length > slack) { best = i; break; }
    if (length > lengthIn(r, best)) best = i;
  }
  return { it, event: best, near: lengthIn(r, best) < slack ? to - from : 1 };
}
function showTip(x, y) {
  const { it, event, near } = under(x, y);
  const was = [hovered, hoveredLane].join();
  hovered = event;
  hoveredLane = x < LEFT && it?.is === "rows" ? it.lane : -1;
  let lines = null;
  if (event >= 0) {
    const r = rowOf(event);
    lines = [el("b", {}, names[name[event]].slice(0, 300)), el("span", {}, `${classes[kindOf[name[event]]].replaceAll("_", " ")} · ${lanes[laneOfRow[r]].instants ? "no duration" : time(lengthIn(r, event))} · at ${time(start[event])}`)];
    if (near > 1) lines.push(el("span", {}, `${count(near)} events here; this is the longest`));
  } else if (it?.is === "counter" && x >= LEFT && it.counter.ready) {
    const i = lower(it.counter.times, T(x) + 1e-9) - 1;
    if (i >= 0) lines = [el("b", {}, amount(it.counter.values[i], it.counter.unit)), el("span", {}, `${it.counter.label} · since ${time(it.counter.times[i])}`)];
  } else if (it?.is === "sum" && x >= LEFT) lines = [el("b", {}, groupName(it.group)), el("span", {}, "mean busy share of its lanes; click to unfold")];
  else if (it?.is === "rows" && x < LEFT) lines = [el("b", {}, lanes[it.lane].label), ...(it.layer === 0 ? [el("span", {}, it.pin ? "the pin puts it back" : "the pin keeps it on top")] : []), el("span", {}, it.of > 1 && it.word !== "ranges" ? `${it.rows < it.of ? "unfold" : "fold"} its ${it.of} rows` : groupName(it.group))];
  placeTip(lines, x, scroll.offsetTop + y);
  if (was !== [hovered, hoveredLane].join()) draw(false);
}
/** A line at the mouse with its exact time. */
function showCursor(x) {
  cursor.hidden = x < LEFT;
  if (cursor.hidden) return;
  cursor.style.left = `${x}px`;
  cursor.style.setProperty("--by", `${-100 * (x - LEFT) / (W - LEFT)}%`); // its text stays within the lanes
  cursor.firstChild.textContent = exactText(Math.round(T(x) * unit));
}
export function placeTip(lines, x, y) {
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren(...lines);
  tip.style.left = `${Math.max(0, Math.min(x + 14, W - tip.offsetWidth - 4))}px`;
  tip.style.top = `${y + 18}px`;
}

const pressed = new Map();
export let drag = null, pinch = null, inside = false;
const local = (event) => { const box = top.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
top.addEventListener("pointerdown", (event) => {
  const [x, y] = local(event);
  if (event.button) return;
  pressed.set(event.pointerId, x);
  scroll.focus({ preventScroll: true });
  tip.hidden = true;
  if (pressed.size === 2) {
    const [a, b] = [...pressed.values()];
    pinch = { apart: Math.max(8, Math.abs(a - b)), t: T((a + b) / 2), wide: view.t1 - view.t0 };
    drag = null;
    return;
  }
  top.setPointerCapture?.(event.pointerId);
  drag = { x, y, t0: view.t0, t1: view.t1, top: scroll.scrollTop, moved: false, measure: measuring || event.shiftKey, t: T(x) };
});
top.addEventListener("pointermove", (event) => {
  const [x, y] = pointer = local(event);
  inside = true;
  if (pressed.has(event.pointerId)) pressed.set(event.pointerId, x);
  if (pinch && pressed.size === 2) {
    const [a, b] = [...pressed.values()], wide = pinch.wide * pinch.apart / Math.max(8, Math.abs(a - b));
    const part = ((a + b) / 2 - LEFT) / (W - LEFT);
    setView(pinch.t - wide * part, pinch.t - wide * part + wide);
    return;
  }
  showCursor(x);
  if (!drag) { showTip(x, y); return; }
  drag.moved ||= Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3;
  if (!drag.moved) return;
  if (drag.measure) { measure(drag.t, T(Math.max(LEFT, x))); return; }
  const by = (x - drag.x) / (W - LEFT) * (drag.t1 - drag.t0);
  setView(drag.t0 - by, drag.t1 - by);
  if (event.pointerType === "mouse") scroll.scrollTop = drag.top - (y - drag.y);
});
function lift(event) {
  pressed.delete(event.pointerId);
  if (pressed.size < 2) pinch = null;
  if (!drag) return;
  const was = drag;
  drag = null;
  if (was.moved && was.measure) { setMeasuring(false); if (measured) announce(`measured ${time(measured[1] - measured[0])}`); return; }
  if (was.moved || event.type !== "pointerup") return;
  const { it, event: found } = under(was.x, was.y);
  if (event.shiftKey && found >= 0 && selected >= 0) {
    if (!measured) measure(start[selected], endOf(selected));
    select(found);
    measureBetween();
    return;
  }
  if (was.x < 14 && it?.is === "rows" && it.layer === 0) { pin(it.lane); return; }
  if (it && (/group|sum|host/.test(it.is) || was.x < LEFT)) { fold(it); return; }
  if (found < 0 && measured) measure(null, null);
  select(found);
}
top.addEventListener("pointerup", lift);
top.addEventListener("pointercancel", lift);
top.addEventListener("pointerleave", () => {
  inside = false;
  tip.hidden = cursor.hidden = true;
  hovered = hoveredLane = -1;
  draw(false);
});
top.addEventListener("dblclick", (event) => { const { event: found } = under(...local(event)); if (found >= 0) { measure(null, null); fit(); } });
top.addEventListener("wheel", (event) => {
  const pixels_ = event.deltaMode ? 30 : 1;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY * pixels_)) * 0.0045), T(Math.max(LEFT, local(event)[0])));
  } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    const by = (event.deltaX || event.deltaY) * pixels_ / (W - LEFT) * (view.t1 - view.t0);
    setView(view.t0 + by, view.t1 + by);
  }
}, { passive: false });
scroll.addEventListener("scroll", () => { draw(); later(); });

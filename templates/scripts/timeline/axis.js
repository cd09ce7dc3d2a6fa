// The axis with its ticks, steps, and marks of findings.

import { el } from "../page/dom.js";
import { count } from "../page/texts.js";
import { color } from "./colours.js";
import { axis, tip } from "./elements.js";
import { time } from "./lanes.js";
import { FONT, cut } from "./letters.js";
import { markText, showMark, shownMark } from "./marking.js";
import { measure } from "./measuring.js";
import { placeTip } from "./pointer.js";
import { lower } from "./ranges.js";
import { marks, steps, unit } from "./source.js";
import { line } from "./strokes.js";
import { UNITS } from "./units.js";
import { AXIS, LEFT, MARK, MARK_LEVELS, STEP, T, W, X, leave, ratio, stripHeight, view } from "./view.js";

export function ticks() {
  const ns = (view.t1 - view.t0) * unit, raw = ns / Math.max(2, (W - LEFT) / 110);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * power >= raw) * power / unit;
  const out = [];
  for (let k = Math.ceil(view.t0 / step); k * step <= view.t1; k++) out.push(k * step);
  return { out, step };
}
export function stepsIn() {
  let a = 0, b = steps.length;
  while (a < b) { const m = (a + b) >> 1; if (steps[m][0] < view.t0) a = m + 1; else b = m; }
  while (a > 0 && steps[a - 1][1] > view.t0) a--;
  const from = a;
  while (a < steps.length && steps[a][0] < view.t1) a++;
  return steps.slice(from, a);
}

/** A time on the axis: one unit for all ticks of a window. */
function tickText(t, step) {
  const wide = (view.t1 - view.t0) * unit;
  const [size_, word] = UNITS.find(([s]) => wide >= 2 * s) ?? UNITS[3];
  const digits = Math.max(0, Math.ceil(Math.log10(size_ / (step * unit)) - 1e-9));
  return `${(t * unit / size_).toLocaleString("en", { maximumFractionDigits: Math.min(digits, 9) })} ${word}`;
}

export function paintAxis(c, scale = ratio) {
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.fillStyle = color.bg;
  c.fillRect(0, 0, W, AXIS + stripHeight);
  c.font = FONT;
  c.textBaseline = "middle";
  c.lineWidth = 1;
  c.fillStyle = c.strokeStyle = color.muted;
  const { out, step } = ticks();
  // far into a trace the ticks count from the first of them, which stands on the left
  const far = step * 200 < view.t0, base = far ? out[0] : 0;
  out.forEach((t, i) => {
    const x = X(t), last = x > W - 34, early = x < LEFT + 22;
    line(c, Math.round(x) + 0.5, AXIS - 5, Math.round(x) + 0.5, AXIS);
    if (far && i === 0) return;
    c.textAlign = last ? "right" : early ? "left" : "center";
    c.fillText((far ? "+" : "") + tickText(t - base, step), last ? W - 1 : early ? LEFT + 1 : x, AXIS - 14);
  });
  c.textAlign = "right";
  if (far) c.fillText(exactBase(base), LEFT - 10, AXIS - 14);
  else {
    c.font = `600 ${FONT}`;
    c.fillStyle = color.fg;
    c.fillText(cut(`${time(view.t1 - view.t0)}${W < 640 ? "" : " shown"}`, LEFT - 12), LEFT - 10, AXIS - 14);
  }
  c.textAlign = "left";
  c.font = FONT;
  c.save();
  c.beginPath();
  c.rect(LEFT, AXIS, W - LEFT, stripHeight);
  c.clip();
  if (steps.length) paintSteps(c, AXIS);
  paintMarks(c, AXIS + (steps.length ? STEP : 0) + 2);
  c.restore();
  c.font = FONT;
  c.textAlign = "right";
  c.fillStyle = color.muted;
  if (steps.length) c.fillText("steps", LEFT - 10, AXIS + STEP / 2);
  if (markLevels.length) c.fillText("findings", LEFT - 10, AXIS + (steps.length ? STEP : 0) + 2 + markLevels.length * MARK / 2);
  c.textAlign = "left";
}

function exactBase(t) {
  const ns = t * unit;
  return ns >= 1e9 ? `${(ns / 1e9).toFixed(6)} s` : ns >= 1e6 ? `${(ns / 1e6).toFixed(3)} ms` : `${(ns / 1e3).toFixed(2)} us`;
}

function paintSteps(c, y) {
  const seen = stepsIn(), wide = (W - LEFT) / (view.t1 - view.t0);
  const tint = [`${color.step}36`, `${color.step}1e`];
  if (seen.length > (W - LEFT) / 3) {
    c.fillStyle = tint[1];
    const a = Math.max(LEFT, X(seen[0][0])), b = Math.min(W, X(seen[seen.length - 1][1]));
    c.fillRect(a, y, b - a, STEP - 3);
    c.fillStyle = color.fg;
    c.fillText(`${count(seen.length)} steps in this window`, Math.max(LEFT, a) + 6, y + (STEP - 3) / 2 + 0.5);
    return;
  }
  seen.forEach(([a, b, text], i) => {
    const x = X(a), w = Math.max(1, (b - a) * wide);
    c.fillStyle = tint[(steps.indexOf(seen[0]) + i) % 2];
    c.fillRect(x, y, w - (w > 4 ? 1 : 0), STEP - 3);
    const left = Math.max(LEFT, x), room = Math.min(W, x + w) - left - 8;
    const words = room > 20 ? cut(text, room) : "";
    if (!words) return;
    c.fillStyle = color.fg;
    c.fillText(words, left + 4, y + (STEP - 3) / 2 + 0.5);
  });
}

export let markLevels = [];
/** Marks that overlap go on levels of their own, MARK_LEVELS at most; all of them are in the menu. */
export function layMarks() {
  const ends = [];
  markLevels = [];
  marks.forEach((mark, m) => {
    let level = ends.findIndex((end_) => end_ <= mark.start);
    if (level < 0) level = ends.length < MARK_LEVELS ? ends.length : MARK_LEVELS - 1;
    ends[level] = Math.max(ends[level] ?? 0, mark.end);
    (markLevels[level] ??= []).push(m);
  });
}
export const markFound = []; // of each mark its places and stretches, once the events are read
function paintMarks(c, y) {
  markLevels.forEach((level, l) => {
    for (const m of level) {
      c.fillStyle = m === shownMark ? color.fg : color.accent;
      paintStretches(c, m, LEFT, view.t0, (view.t1 - view.t0) / (W - LEFT), W - LEFT, y + l * MARK, MARK - 2);
    }
  });
}

/** The stretches of a mark, in blocks of device pixels that at least one of them touches. per: time of a CSS pixel. */
export function paintStretches(c, m, x0, t0, per, wide, y, h) {
  const found = markFound[m];
  if (!found) return;
  const { starts, ends } = found, each = per / ratio, columns_ = Math.ceil(wide * ratio);
  const columnOf = (t) => Math.floor((t - t0) / each);
  let i = lower(ends, t0);
  while (i < starts.length) {
    const from = Math.max(0, columnOf(starts[i]));
    if (from >= columns_) return;
    let to = from + 1;
    for (; i < starts.length && columnOf(starts[i]) <= to; i = Math.max(i + 1, lower(ends, t0 + to * each))) to = Math.max(to, columnOf(starts[i]) + 1, Math.ceil((Math.min(ends[i], t0 + columns_ * each) - t0) / each));
    c.fillRect(x0 + from / ratio, y, (to - from) / ratio, h);
  }
}

// a click on a step measures it; on a finding's mark, shows it
function onStrip(event) {
  const box = axis.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top - AXIS, t = T(x);
  if (x < LEFT || y < 0) return null;
  if (steps.length && y < STEP) return { step: stepsIn().find(([a, b]) => t >= a && t < b) };
  const level = markLevels[Math.floor((y - (steps.length ? STEP : 0) - 2) / MARK)] ?? [];
  const slack = 3 / (W - LEFT) * (view.t1 - view.t0);
  return { mark: level.find((m) => {
    const { starts, ends } = markFound[m] ?? { starts: [], ends: [] }, i = lower(ends, t - slack);
    return i < ends.length && starts[i] <= t + slack;
  }) };
}
axis.addEventListener("click", (event) => {
  const hit = onStrip(event);
  if (hit?.step) measure(hit.step[0], hit.step[1]);
  if (hit?.mark !== undefined) { leave(); void showMark(hit.mark); }
});
axis.addEventListener("pointermove", (event) => {
  const hit = onStrip(event), box = axis.getBoundingClientRect();
  const lines = hit?.step ? [el("b", {}, hit.step[2]), el("span", {}, `${time(hit.step[1] - hit.step[0])} · click to measure`)]
    : hit?.mark !== undefined ? [el("b", {}, marks[hit.mark].title), el("span", {}, `click to mark its ${markText(marks[hit.mark], markFound[hit.mark].places)}`)] : null;
  axis.style.cursor = lines ? "pointer" : "";
  placeTip(lines, event.clientX - box.left, axis.offsetTop + event.clientY - box.top);
});
axis.addEventListener("pointerleave", () => { tip.hidden = true; });

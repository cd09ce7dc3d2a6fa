// What is drawn over the lanes: labels, lines, arrows, outlines.

import { count } from "../page/texts.js";
import { partners } from "./arrows.js";
import { stepsIn, ticks } from "./axis.js";
import { color, dark, textColor } from "./colours.js";
import { top } from "./elements.js";
import { endIn, name, rowOf, start } from "./events.js";
import { paintGutter } from "./gutter.js";
import { time } from "./lanes.js";
import { itemOfRow, pinHeight, yOf } from "./layout.js";
import { FONT, cut, cutName, widthOfText } from "./letters.js";
import { measured } from "./measuring.js";
import { labels } from "./paint.js";
import { paintPath } from "./path.js";
import { hovered } from "./pointer.js";
import { selected } from "./selection.js";
import { head, missing } from "./source.js";
import { hatching, line } from "./strokes.js";
import { H, LEFT, W, X, ratio, view } from "./view.js";

export function paintTop(c, scale = ratio) {
  c.setTransform(1, 0, 0, 1, 0, 0);
  c.clearRect(0, 0, top.width, top.height);
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.textBaseline = "middle";
  c.textAlign = "left";
  c.font = FONT;
  c.lineWidth = 1;
  for (const [e, x, y, w, h, pin] of labels) {
    const text = cutName(name[e], w / ratio - 8);
    if (!text || (!pin && y < pinHeight - h / 2)) continue;
    c.fillStyle = textColor(name[e]);
    c.fillText(text, x / ratio + 4, y + h / 2 + 0.5);
  }
  const tk = ticks();
  c.save();
  c.beginPath();
  c.rect(LEFT, 0, W - LEFT, H);
  c.clip();
  c.strokeStyle = dark ? "#ffffff14" : "#1c273314";
  for (const t of tk.out) { const x = Math.round(X(t)) + 0.5; line(c, x, 0, x, H); }
  paintStepLines(c);
  paintMissing(c);
  paintMeasured(c);
  paintPath(c);
  if (selected >= 0) paintArrows(c);
  if (selected >= 0) outline(c, selected, color.fg, 2);
  if (hovered >= 0 && hovered !== selected) outline(c, hovered, color.fg, 1);
  c.restore();
  paintGutter(c);
}

/** The measured stretch, with its length. */
function paintMeasured(c) {
  if (!measured) return;
  const [a, b] = measured.map(X), text = time(measured[1] - measured[0]), wide = widthOfText(text) + 12;
  c.fillStyle = `${color.accent}20`;
  c.fillRect(a, 0, b - a, H);
  c.strokeStyle = color.accent;
  line(c, a, 0, a, H);
  line(c, b, 0, b, H);
  if (b < LEFT || a > W) return;
  const x = Math.min(Math.max((Math.max(a, LEFT) + Math.min(b, W)) / 2 - wide / 2, LEFT), W - wide), y = H - 20;
  line(c, a, y + 8.5, b, y + 8.5);
  c.fillStyle = color.accent;
  c.fillRect(x, y, wide, 17);
  c.fillStyle = color.bg;
  c.fillText(text, x + 6, y + 9);
}

function paintStepLines(c) {
  c.strokeStyle = `${color.step}55`;
  const wide = (W - LEFT) / (view.t1 - view.t0);
  for (const [a, b] of stepsIn()) {
    if ((b - a) * wide < 24) continue;
    for (const t of [a, b]) if (t > view.t0 && t < view.t1) { const x = Math.round(X(t)) + 0.5; line(c, x, 0, x, H); }
  }
}

/** Stretches of rows whose events are not in this page: hatched as high as their busy share, with their number. */
function paintMissing(c) {
  if (!missing.length) return;
  const hatch = hatching(c);
  for (const it of missing) {
    if (it.end < view.t0 || it.start > view.t1) continue;
    const block = itemOfRow(it.rows[0]);
    const y = block ? yOf(block) : H, from_ = block?.pin ? 0 : pinHeight;
    if (y >= H || y + block.h < from_) continue;
    const a = Math.max(LEFT, X(it.start)), b = Math.min(W, Math.max(X(it.end), X(it.start) + 1));
    const rows = it.rows[1] - it.rows[0];
    const share = it.busy === undefined ? 1 : Math.min(1, it.busy / Math.max((it.end - it.start) * rows, 1));
    const each = block.is === "rows" ? block.each : block.h, h = each - 1;
    const [from, until] = block.is === "rows" ? it.rows.map((r) => r - block.row) : [0, 1];
    const top = Math.max(Math.min(from, (block.rows ?? 1) - 1), Math.floor((from_ - y) / each));
    const below = Math.min(until, block.rows ?? 1, Math.ceil((H - y) / each));
    let said = b - a < 60;
    for (let k = top; k < below; k++) {
      const floor = y + k * each + h;
      // A stretch of several rows can be around events that are in the page: those stay visible.
      const partly = rows > 1 && block.is === "rows" && head.first[block.row + k] < head.first[block.row + k + 1];
      const high = partly ? 3 : Math.max(3, share * h);
      if (!partly) {
        c.fillStyle = dark ? "#93a1b02e" : "#5d6b7924";
        c.fillRect(a, floor - h, b - a, h);
      }
      c.fillStyle = hatch;
      c.fillRect(a, floor - high, b - a, high);
      if (said || partly) continue;
      said = true;
      const text = cut(it.count === 1 ? "1 event is not in this page" : `${count(it.count)} events are not in this page`, b - a - 12);
      const w = widthOfText(text) + 8;
      c.fillStyle = color.bg;
      c.fillRect(a + 3, floor - h / 2 - 7, w, 14);
      c.fillStyle = color.fg;
      c.fillText(text, a + 7, floor - h / 2 + 0.5);
    }
  }
}

/** The lower edge of a row in the picture, or just outside of it. */
export function floorOf(r) {
  const it = itemOfRow(r);
  if (!it) return -4;
  const y = yOf(it) + (it.is === "rows" ? Math.min(r - it.row, it.rows - 1) * it.each + it.each : it.h) - 1;
  return Math.max(-4, Math.min(H + 4, y));
}

function boxOf(i) {
  const r = rowOf(i), it = itemOfRow(r);
  if (!it) return null;
  const d = it.is === "rows" ? Math.min(r - it.row, it.rows - 1) : 0;
  const h = it.is === "rows" ? it.each : it.h;
  return { x: X(start[i]), z: X(endIn(r, i)), y: yOf(it) + d * h, h, pin: it.pin, hidden: it.is !== "rows" || r - it.row >= it.rows };
}
function outline(c, i, stroke, w, dashed = false) {
  const box = boxOf(i);
  if (!box || (!box.pin && box.y + box.h <= pinHeight)) return; // below the pinned lanes
  c.strokeStyle = stroke;
  c.lineWidth = w;
  c.setLineDash(dashed || box.hidden ? [3, 2] : []);
  c.strokeRect(Math.max(box.x, -9) - 0.5, box.y - 0.5, Math.min(Math.max(2, box.z - box.x), W + 20 - Math.max(box.x, -9)) + 1, box.h);
  c.setLineDash([]);
  c.lineWidth = 1;
}
function paintArrows(c) {
  for (const [other, way] of partners(selected).slice(0, 60)) {
    const out = way === "launch" || way === "to";
    const a = boxOf(out ? selected : other), b = boxOf(out ? other : selected);
    if (!a || !b) continue;
    outline(c, other, color.accent, 1.5);
    const up = b.y < a.y;
    const x1 = Math.min(Math.max((a.x + a.z) / 2, a.x), a.x + 400), y1 = up ? a.y : a.y + a.h;
    const x2 = b.x, y2 = up ? b.y + b.h : b.y, middle = (y1 + y2) / 2, tipped = up ? 6 : -6;
    c.strokeStyle = c.fillStyle = color.accent;
    c.lineWidth = 1.5;
    c.setLineDash(way === "to" || way === "from" ? [5, 3] : []);
    c.beginPath();
    c.moveTo(x1, y1);
    c.bezierCurveTo(x1, middle, x2, middle, x2, y2);
    c.stroke();
    c.setLineDash([]);
    c.beginPath();
    c.moveTo(x2, y2);
    c.lineTo(x2 - 4, y2 + tipped);
    c.lineTo(x2 + 4, y2 + tipped);
    c.fill();
    c.lineWidth = 1;
  }
}

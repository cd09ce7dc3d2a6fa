// What is drawn over the lanes: labels, lines, arrows, outlines.

import { count } from "../page/texts.js";
import { partners } from "./arrows.js";
import { stepsIn, ticks } from "./axis.js";
import { color, dark, textColor } from "./colours.js";
import { scroll, top } from "./elements.js";
import { endIn, name, rowOf, start } from "./events.js";
import { paintGutter } from "./gutter.js";
import { itemOfRow } from "./layout.js";
import { FONT, cut, cutName, widthOf } from "./letters.js";
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
  for (const [e, x, y, w, h] of labels) {
    const text = cutName(name[e], w / ratio - 8);
    if (!text) continue;
    c.fillStyle = textColor(name[e]);
    c.fillText(text, x / ratio + 4, y + h / 2 + 0.5);
  }
  const y0 = Math.round(scroll.scrollTop), tk = ticks();
  c.save();
  c.beginPath();
  c.rect(LEFT, 0, W - LEFT, H);
  c.clip();
  c.strokeStyle = dark ? "#ffffff14" : "#1c273314";
  for (const t of tk.out) { const x = Math.round(X(t)) + 0.5; line(c, x, 0, x, H); }
  paintStepLines(c);
  paintMissing(c, y0);
  if (measured) {
    const a = X(measured[0]), b = X(measured[1]);
    c.fillStyle = `${color.accent}20`;
    c.fillRect(a, 0, b - a, H);
    c.strokeStyle = color.accent;
    line(c, a, 0, a, H);
    line(c, b, 0, b, H);
  }
  paintPath(c, y0);
  if (selected >= 0) paintArrows(c, y0);
  if (selected >= 0) outline(c, selected, y0, color.fg, 2);
  if (hovered >= 0 && hovered !== selected) outline(c, hovered, y0, color.fg, 1);
  c.restore();
  paintGutter(c, y0);
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
function paintMissing(c, y0) {
  if (!missing.length) return;
  const hatch = hatching(c);
  for (const it of missing) {
    if (it.end < view.t0 || it.start > view.t1) continue;
    const block = itemOfRow(it.rows[0]);
    if (!block || block.y > y0 + H || block.y + block.h < y0) continue;
    const a = Math.max(LEFT, X(it.start)), b = Math.min(W, Math.max(X(it.end), X(it.start) + 1));
    const rows = it.rows[1] - it.rows[0];
    const share = it.busy === undefined ? 1 : Math.min(1, it.busy / Math.max((it.end - it.start) * rows, 1));
    const each = block.is === "rows" ? block.each : block.h, h = each - 1;
    const [from, until] = block.is === "rows" ? it.rows.map((r) => r - block.row) : [0, 1];
    const top = Math.max(Math.min(from, (block.rows ?? 1) - 1), Math.floor((y0 - block.y) / each));
    const below = Math.min(until, block.rows ?? 1, Math.ceil((y0 + H - block.y) / each));
    let said = b - a < 60;
    for (let k = top; k < below; k++) {
      const floor = block.y + k * each - y0 + h;
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
      const w = [...text].reduce((sum, letter) => sum + widthOf(letter), 8);
      c.fillStyle = color.bg;
      c.fillRect(a + 3, floor - h / 2 - 7, w, 14);
      c.fillStyle = color.fg;
      c.fillText(text, a + 7, floor - h / 2 + 0.5);
    }
  }
}

/** The lower edge of a row in the picture, or just outside of it. */
export function floorOf(r, y0) {
  const it = itemOfRow(r);
  if (!it) return -4;
  const y = it.y - y0 + (it.is === "rows" ? Math.min(r - it.row, it.rows - 1) * it.each + it.each : it.h) - 1;
  return Math.max(-4, Math.min(H + 4, y));
}

function boxOf(i, y0) {
  const r = rowOf(i), it = itemOfRow(r);
  if (!it) return null;
  const d = it.is === "rows" ? Math.min(r - it.row, it.rows - 1) : 0;
  const h = it.is === "rows" ? it.each : it.h;
  return { x: X(start[i]), z: X(endIn(r, i)), y: it.y + d * h - y0, h, hidden: it.is !== "rows" || r - it.row >= it.rows };
}
function outline(c, i, y0, stroke, w, dashed = false) {
  const box = boxOf(i, y0);
  if (!box) return;
  c.strokeStyle = stroke;
  c.lineWidth = w;
  c.setLineDash(dashed || box.hidden ? [3, 2] : []);
  c.strokeRect(Math.max(box.x, -9) - 0.5, box.y - 0.5, Math.min(Math.max(2, box.z - box.x), W + 20 - Math.max(box.x, -9)) + 1, box.h);
  c.setLineDash([]);
  c.lineWidth = 1;
}
function paintArrows(c, y0) {
  for (const [other, way] of partners(selected).slice(0, 60)) {
    const out = way === "launch" || way === "to";
    const a = boxOf(out ? selected : other, y0), b = boxOf(out ? other : selected, y0);
    if (!a || !b) continue;
    outline(c, other, y0, color.accent, 1.5);
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

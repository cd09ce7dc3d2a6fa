// Small shapes on a canvas.

import { el } from "../page/dom.js";
import { color, dark } from "./colours.js";

export function triangle(c, x, y, closed) {
  c.fillStyle = color.muted;
  c.beginPath();
  if (closed) { c.moveTo(x - 2, y - 4); c.lineTo(x + 3, y); c.lineTo(x - 2, y + 4); }
  else { c.moveTo(x - 4, y - 2); c.lineTo(x + 4, y - 2); c.lineTo(x, y + 3); }
  c.fill();
}
export function line(c, x0, y0, x1, y1) {
  c.beginPath();
  c.moveTo(x0, y0);
  c.lineTo(x1, y1);
  c.stroke();
}
let hatched = null;
export function hatching(c) {
  if (hatched?.dark === dark && hatched.c === c) return hatched.pattern;
  const tile = el("canvas", { width: 8, height: 8 });
  const p = tile.getContext("2d");
  p.strokeStyle = dark ? "#93a1b099" : "#5d6b7988";
  p.lineWidth = 1.2;
  for (const x of [-8, 0, 8]) line(p, x, 8, x + 8, 0);
  hatched = { dark, c, pattern: c.createPattern?.(tile, "repeat") ?? "#80808055" };
  return hatched.pattern;
}

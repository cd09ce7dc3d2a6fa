// The strip above the axis: the whole trace, and the window in it.

import { slicer } from "../page/slices.js";
import { paintStretches } from "./axis.js";
import { color } from "./colours.js";
import { over } from "./elements.js";
import { N, data, ready } from "./events.js";
import { isDevice } from "./lanes.js";
import { FONT } from "./letters.js";
import { measured } from "./measuring.js";
import { draw } from "./paint.js";
import { scan } from "./scan.js";
import { SPAN, lanes, marks } from "./source.js";
import { LEAST, LEFT, OVER, W, ratio, setView, view } from "./view.js";

let overview = null;
export async function makeOverview() {
  const w = Math.max(1, Math.round((W - LEFT) * ratio)), per = SPAN / w;
  const sum = new Float64Array(w), slice = slicer();
  const device = lanes.filter(isDevice);
  for (const lane of device.length ? device : lanes) {
    for (let r = lane.row; r < lane.row + (device.length ? lane.depth : 1); r++) {
      if (!ready[r]) continue;
      const found = scan(r, 0, per, w);
      for (let c = 0; c < w; c++) if (found.count[c]) sum[c] += found.share[c];
      if (slice.due()) await slice.rest();
    }
  }
  let most = 1e-9;
  for (const v of sum) most = Math.max(most, v);
  overview = { w, sum, most, text: device.length ? "device work" : "host work" };
  draw(false);
}
export function paintOver(c, scale = ratio) {
  const h = OVER, floor = h - 4;
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.fillStyle = color.bg;
  c.fillRect(0, 0, W, h);
  c.fillStyle = color.soft;
  c.fillRect(LEFT, 2, W - LEFT, floor - 2);
  if (overview) {
    c.fillStyle = color.kernel;
    c.beginPath();
    c.moveTo(LEFT, floor);
    for (let i = 0; i < overview.w; i++) c.lineTo(LEFT + i / overview.w * (W - LEFT), floor - overview.sum[i] / overview.most * (floor - 5));
    c.lineTo(W, floor);
    c.fill();
  }
  const at = (t) => LEFT + t / SPAN * (W - LEFT), a = at(view.t0), b = at(view.t1);
  c.fillStyle = `${color.bg}a8`;
  c.fillRect(LEFT, 2, a - LEFT, floor - 2);
  c.fillRect(b, 2, W - b, floor - 2);
  if (measured) {
    c.fillStyle = `${color.accent}59`;
    c.fillRect(at(measured[0]), 2, Math.max(1, at(measured[1]) - at(measured[0])), floor - 2);
  }
  c.fillStyle = color.accent;
  marks.forEach((_, m) => paintStretches(c, m, LEFT, 0, SPAN / (W - LEFT), W - LEFT, floor, 4));
  c.strokeStyle = color.accent;
  c.lineWidth = 1.5;
  c.strokeRect(Math.min(Math.max(LEFT + 0.75, a), W - 4), 2.75, Math.max(3, b - a - 1.5), floor - 3.5);
  c.lineWidth = 1;
  c.font = FONT;
  c.textAlign = "right";
  c.textBaseline = "middle";
  c.fillStyle = color.muted;
  c.fillText(data.done ? overview?.text ?? "" : `reading ${Math.floor(data.loaded / Math.max(N, 1) * 100)} %`, LEFT - 10, h / 2);
  c.textAlign = "left";
}

const overTime = (event) => { const box = over.getBoundingClientRect(); return (event.clientX - box.left - LEFT) / (W - LEFT) * SPAN; };
let held = null;
over.addEventListener("pointerdown", (event) => {
  const t = overTime(event), near = 6 / (W - LEFT) * SPAN, wide = view.t1 - view.t0;
  over.setPointerCapture?.(event.pointerId);
  // at an edge of the window: drags that edge; inside: moves it; elsewhere: takes it there first
  const edge = wide > 4 * near ? (Math.abs(t - view.t0) < near ? 0 : Math.abs(t - view.t1) < near ? 1 : -1) : -1;
  if (edge < 0 && (t < view.t0 || t > view.t1)) setView(t - wide / 2, t + wide / 2);
  held = { edge, by: t - view.t0 };
});
over.addEventListener("pointermove", (event) => {
  if (!held) return;
  const t = overTime(event), wide = view.t1 - view.t0;
  if (held.edge === 0) setView(Math.min(t, view.t1 - LEAST), view.t1);
  else if (held.edge === 1) setView(view.t0, Math.max(t, view.t0 + LEAST));
  else setView(t - held.by, t - held.by + wide);
});
for (const word of ["pointerup", "pointercancel"]) over.addEventListener(word, () => { held = null; });

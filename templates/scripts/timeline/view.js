// The window shown, its size in pixels, and moving it.

import { link as address } from "../page/address.js";
import { later } from "./address.js";
import { markLevels } from "./axis.js";
import { axis, body, fitButton, over, scroll, top } from "./elements.js";
import { lengthOf, start } from "./events.js";
import { measured } from "./measuring.js";
import { draw } from "./paint.js";
import { selected } from "./selection.js";
import { SPAN, steps, unit } from "./source.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");

export const view = { t0: 0, t1: SPAN };
export const OVER = 40, AXIS = 26, STEP = 19, MARK = 7, MARK_LEVELS = 8;
export let W = 0, H = 0, LEFT = 150, ratio = 1;

export const X = (t) => LEFT + (t - view.t0) / (view.t1 - view.t0) * (W - LEFT);
export const T = (x) => view.t0 + (x - LEFT) / (W - LEFT) * (view.t1 - view.t0);

export const stripNeeded = () => (steps.length ? STEP : 0) + markLevels.length * MARK + (markLevels.length ? 3 : 0);
export let stripHeight = 0;
function size(canvas, w, h, down = ratio) {
  const a = Math.round(w * ratio), b = Math.round(h * down);
  if (canvas.width === a && canvas.height === b) return;
  canvas.width = a;
  canvas.height = b;
  canvas.style.width = `${w}px`;
  canvas.style.height = `${h}px`;
}
export function resize() {
  ratio = Math.min(devicePixelRatio || 1, 2);
  W = scroll.clientWidth;
  LEFT = W < 640 ? 88 : 168;
  stripHeight = stripNeeded();
  size(over, W, OVER);
  size(axis, W, AXIS + stripHeight);
  H = Math.max(1, scroll.clientHeight); // what these two leave
  // Across, each device pixel is a column of its own; down, blocks have whole CSS pixels, so half the memory does.
  size(body, W, H, 1);
  size(top, W, H);
}

/** Before a jump: Back returns to what is seen now. */
export const leave = () => address.visit({}, true);

export const LEAST = Math.max(20 / unit, 1e-3);
let moving = 0;
export function setView(a, b) {
  cancelAnimationFrame(moving);
  moving = 0;
  moveTo(a, b);
}
function moveTo(a, b) {
  const wide = Math.min(Math.max(b - a, LEAST), SPAN);
  view.t0 = Math.max(0, Math.min(a, SPAN - wide));
  view.t1 = view.t0 + wide;
  draw();
  later();
}

/** Goes there in a few frames, so that one sees where it went; at once where less motion is asked for. */
export function glide(a, b) {
  cancelAnimationFrame(moving);
  if (still.matches) { setView(a, b); return; }
  const from = [view.t0, view.t1], began = performance.now();
  const step = () => {
    const part = Math.min(1, (performance.now() - began) / 180), ease = part * (2 - part);
    // sizes change by a factor, not by a difference, so that a deep zoom does not jump at its end
    const w0 = from[1] - from[0], w1 = Math.max(b - a, LEAST), w = w0 * (w1 / w0) ** ease;
    const pull = w0 === w1 ? ease : (w - w0) / (w1 - w0);
    const left = from[0] + (a - from[0]) * pull;
    if (part < 1) { moveTo(left, left + w); moving = requestAnimationFrame(step); } else setView(a, b);
  };
  moving = requestAnimationFrame(step);
}
export function zoom(factor, at) {
  const wide = (view.t1 - view.t0) * factor, part = (at - view.t0) / (view.t1 - view.t0);
  setView(at - wide * part, at - wide * part + wide);
}
export const padded = (a, b) => { const more = Math.max((b - a) * 0.08, LEAST / 2); return [a - more, b + more]; };
export function fit() {
  if (measured) glide(...measured);
  else if (selected >= 0) { const wide = Math.max(lengthOf(selected), LEAST / 2); glide(start[selected] - wide * 0.2, start[selected] + wide * 1.2); }
  else glide(0, SPAN);
}
fitButton.onclick = fit;

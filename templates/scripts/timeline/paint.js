// The picture of the lanes, pixel by pixel.

import { paintAxis } from "./axis.js";
import { FULL, color, hex, pack, shades, toneOfName } from "./colours.js";
import { axis, body, over, scroll, top } from "./elements.js";
import { name, ready } from "./events.js";
import { hinted } from "./families.js";
import { isDevice } from "./lanes.js";
import { followScroll, itemsIn, pinHeight, yOf } from "./layout.js";
import { marked } from "./marking.js";
import { paintTop } from "./overlay.js";
import { paintOver } from "./overview.js";
import { followTip } from "./pointer.js";
import { between, lower } from "./ranges.js";
import { scan } from "./scan.js";
import { groups, lanes } from "./source.js";
import { H, LEFT, ratio, resize, view } from "./view.js";

export const context = body.getContext("2d", { alpha: false });
export let image = null, pixels = null;
export const stats = { frames: 0, rectangles: 0, first: 0, decoded: 0 };

let queued = 0, bodyDue = true;
export function draw(all = true) {
  bodyDue ||= all;
  if (!queued) queued = requestAnimationFrame(() => { queued = 0; paint(); });
}
export function paint() {
  if (!scroll.clientWidth) return;
  resize();
  stats.frames++;
  followScroll();
  if (bodyDue || body.width !== image?.width || body.height !== image?.height) paintBody();
  bodyDue = false;
  paintTop(top.getContext("2d"));
  paintAxis(axis.getContext("2d"));
  paintOver(over.getContext("2d"));
  followTip();
}

export let many = 0, boxes = new Int32Array(1 << 15), fills = new Uint32Array(1 << 13);
let clipTop = 0; // what is above is behind pinned lanes
function rect(x, y, w, h, fill) {
  if (y < clipTop) { h -= clipTop - y; y = clipTop; }
  if (many === fills.length) {
    const more = new Int32Array(boxes.length * 2);
    more.set(boxes);
    boxes = more;
    const moreFills = new Uint32Array(fills.length * 2);
    moreFills.set(fills);
    fills = moreFills;
  }
  const o = many * 4;
  boxes[o] = x; boxes[o + 1] = y; boxes[o + 2] = w; boxes[o + 3] = h;
  fills[many++] = fill;
}

export const labels = []; // [event, x, y, width, height]

/** One row: y and h in CSS pixels, x0 and w in device pixels. */
function paintRow(r, y, h, x0, w, pin) {
  const { share, count: n, event, kind } = scan(r, view.t0, (view.t1 - view.t0) / w, w);
  const full = h - 1, least = 2;
  const wideEnough = 30 * ratio;
  const lit = (hinted ?? marked)?.before;
  for (let c = 0; c < w; c++) {
    if (!n[c]) continue;
    const e = event[c], k = kind[c];
    if (e < 0) {
      const i = -1 - e, on_ = !lit || lit[i + n[c]] > lit[i], tone = shades[k][0];
      const up = Math.max(least, Math.round(Math.min(1, share[c]) * full));
      if (up < full) rect(x0 + c, y, 1, full - up, tone[on_ ? 3 : 1]);
      rect(x0 + c, y + full - up, 1, up, tone[on_ ? FULL : 3]);
      continue;
    }
    let z = c + 1;
    while (z < w && event[z] === e && n[z] === 1) z++;
    const on_ = !lit || lit[e + 1] > lit[e], tone = shades[k][toneOfName[name[e]]], wide = z - c;
    if (wide > 1) {
      rect(x0 + c, y, wide, full, tone[on_ ? (wide > 5 ? FULL : 14) : 3]);
      if (wide > 5 && c > 0 && n[c - 1]) rect(x0 + c, y, 1, full, tone[on_ ? 9 : 2]);
      if (wide > wideEnough && on_) labels.push([e, x0 + c, y, wide, full, pin]);
    } else rect(x0 + c, y, 1, full, tone[on_ ? Math.max(6, Math.round(share[c] * FULL)) : 3]);
    c = z - 1;
  }
}

/** Mean busy share of the outermost rows of a folded group, and the kind with most of it; exact. */
function groupShares(g, t0, per, w) {
  const sum = new Float64Array(w), kind = new Uint8Array(w), most = new Float64Array(w);
  const mine = groups[g].lanes.map((l) => lanes[l]);
  const own = mine.filter((lane) => !lane.note);
  const of = own.length ? own : mine;
  for (const lane of of) {
    for (let r = lane.row; r < lane.row + (isDevice(lane) ? lane.depth : 1); r++) {
      if (!ready[r]) continue;
      const found = scan(r, t0, per, w);
      for (let c = 0; c < w; c++) {
        if (!found.count[c]) continue;
        const share = found.share[c] + 1e-9;
        sum[c] += share;
        if (share > most[c]) { most[c] = share; kind[c] = found.kind[c]; }
      }
    }
  }
  return { sum, kind, lanes: of.length };
}

function paintBody() {
  many = 0;
  labels.length = 0;
  const x0 = Math.round(LEFT * ratio), w = body.width - x0;
  for (const it of itemsIn(H)) {
    const y = yOf(it);
    clipTop = it.pin ? 0 : pinHeight;
    if (it.is === "rows") {
      const from = Math.max(0, Math.floor((clipTop - y) / it.each));
      for (let d = from; d < it.rows && y + d * it.each < H; d++) {
        if (ready[it.row + d]) paintRow(it.row + d, y + d * it.each, it.each, x0, w, it.pin);
      }
    } else if (it.is === "sum") {
      const { sum, kind, lanes: of } = groupShares(it.group, view.t0, (view.t1 - view.t0) / w, w), h = it.h - 2;
      for (let c = 0; c < w; c++) {
        if (!sum[c]) continue;
        const up = Math.max(2, Math.min(h, Math.round(sum[c] / of * h)));
        if (up < h) rect(x0 + c, y, 1, h - up, shades[kind[c]][0][3]);
        rect(x0 + c, y + h - up, 1, up, shades[kind[c]][0][FULL]);
      }
    } else if (it.is === "counter") paintCounter(it, y, it.h, x0, w);
  }
  stats.rectangles = many;
  flush();
}

/** A counter holds each value until the next sample. A column shows its least value solid, its largest pale. */
function paintCounter(it, y, h, x0, w) {
  const { times, values, ready: is } = it.counter;
  if (!is || !times.length) return;
  const high = Math.max(it.counter.max ?? 0, 1e-300), solid = pack(...hex(color.accent)), per = (view.t1 - view.t0) / w;
  const mix = (part) => pack(...hex(color.accent).map((v, x) => Math.round(hex(color.bg)[x] + (v - hex(color.bg)[x]) * part)));
  const pale = mix(0.22), middle = mix(0.5);
  const up = (value) => Math.max(0, Math.min(h - 1, Math.round(value / high * (h - 2))));
  let i = lower(times, view.t0 + 1e-9);
  for (let c = 0; c < w; c++) {
    const right = view.t0 + (c + 1) * per;
    let j = i;
    while (j < times.length && times[j] < right) j = j + 64 < times.length && times[j + 64] < right ? j + 64 : j + 1;
    let [a, b] = between(it.counter, i, j);
    if (i > 0) { a = Math.min(a, values[i - 1]); b = Math.max(b, values[i - 1]); }
    i = j;
    if (b === -Infinity) continue;
    const ua = up(a), ub = up(b);
    if (ua) rect(x0 + c, y + h - ua, 1, ua, pale);
    if (ub > ua) rect(x0 + c, y + h - ub, 1, ub - ua, middle);
    rect(x0 + c, y + h - ub - (ub === 0 ? 1 : 0), 1, 1, solid);
  }
}

function flush() {
  const w = body.width, h = body.height;
  if (image?.width !== w || image.height !== h) {
    image = context.createImageData(w, h);
    pixels = new Uint32Array(image.data.buffer);
  }
  pixels.fill(pack(...hex(color.bg)));
  for (let i = 0, o = 0; i < many; i++, o += 4) {
    const x = boxes[o], wide = boxes[o + 2], fill = fills[i];
    const from = Math.max(0, boxes[o + 1]), to = Math.min(h, boxes[o + 1] + boxes[o + 3]);
    if (wide === 1) for (let y = from, p = from * w + x; y < to; y++, p += w) pixels[p] = fill;
    else for (let y = from, p = from * w + x; y < to; y++, p += w) pixels.fill(fill, p, p + wide);
  }
  context.putImageData(image, 0, 0);
}

// The steps as lanes: what streams and threads do in them, from the data of the timeline. A column is as high as its
// busy share, in the colour of the kind with most of the work. A click shows the step on the timeline.

import { emit, on } from "../page/bus.js";
import { el } from "../page/dom.js";
import { counted, span } from "../page/texts.js";
import { beginning, fitted } from "./labels.js";

const LANE = 26, AXIS = 17, FONT = "11px system-ui, sans-serif";
const FEW = 4; // so many steps are all shown; of more, three around the one of median length
const MOST = { device: 4, host: 2 };
const MOST_OPENED = { device: 64, host: 16 };

/** The steps to draw: [start, length, name]; where there are none, the whole of the trace. */
function windows(head) {
  const steps = [];
  for (const step of head.steps ?? []) {
    const last = steps[steps.length - 1];
    if (step[1] > 0 && (!last || step[0] >= last[0] + last[1])) steps.push(step);
  }
  if (steps.length <= FEW) return steps;
  const middle = [...steps].sort((a, b) => a[1] - b[1])[steps.length >> 1];
  const at = Math.min(Math.max(steps.indexOf(middle), 1), steps.length - 2);
  return steps.slice(at - 1, at + 2);
}

/** Share and kind of each column of a lane: of its rows the innermost decides the kind. */
function columns(timeline, lane, from, per, width) {
  const share = new Float64Array(width), kind = new Uint8Array(width), { scan, seek } = timeline.data;
  let events = 0;
  const step = timeline.parts.kinds.indexOf("step");
  let whole = 0;
  for (let row = lane.row; row < lane.row + lane.depth; row++) {
    const found = scan(row, from, per, width);
    events += seek(row, from + per * width) - seek(row, from);
    for (let c = 0; c < width; c++) {
      if (!found.count[c] || (lane.host && found.kind[c] === step)) continue;
      share[c] = lane.host ? Math.max(share[c], found.share[c]) : Math.min(1, share[c] + found.share[c]);
      kind[c] = found.kind[c];
    }
  }
  for (const each of share) whole += each;
  return { share, kind, events, busy: whole / width };
}

/** The lanes to draw, those with most work in the order of the page; and of how many they are. */
function chosen(timeline, from, until, wanted) {
  const { lanes, groups } = timeline;
  const measured = lanes.map((lane, number) => {
    const of = !lane.note && !lane.instants ? columns(timeline, lane, from, (until - from) / 200, 200) : { busy: 0, events: 0 };
    return { lane, number, order: of.busy && (lane.host ? of.events : of.busy) }; // one long range says little
  }).filter(({ order }) => order > 0);
  const found = [], left = { device: 0, host: 0 };
  const telling = measured.some(({ lane, order }) => lane.host && order > 1);
  for (const [word, most] of Object.entries(wanted)) {
    const of = measured.filter(({ lane, order }) => Boolean(lane.host) === (word === "host") && (!lane.host || !telling || order > 1)).sort((a, b) => b.order - a.order);
    found.push(...of.slice(0, most).sort((a, b) => a.number - b.number));
    left[word] = Math.max(of.length - most, 0);
  }
  const groupOf = (number) => groups.find((group) => group.lanes.includes(number));
  const several = new Set(found.filter(({ lane }) => !lane.host).map(({ number }) => groupOf(number))).size > 1;
  const labelled = found.map(({ lane, number }) => {
    const group = groupOf(number);
    const alike = found.filter((each) => each.lane.label === lane.label).length > 1; // such as "no thread named"
    const where = (several || alike) && group ? [group.host, group.label].filter(Boolean).join(" ") : "";
    return { lane, label: where ? `${where} ${lane.label}` : lane.label };
  });
  return { lanes: labelled, left };
}

/** What is not drawn, in words: "28 more streams, 1 more thread"; "" for nothing. */
const leftOut = ({ device, host }) => [[device, "more stream"], [host, "more thread"]].flatMap(([count, word]) => (count ? [counted(count, word)] : [])).join(", ");

function draw(canvas, timeline, steps, lanes) {
  const { color, css } = timeline.parts.size(), { shades } = timeline.picture(), { unit } = timeline.head;
  const W = canvas.clientWidth, H = lanes.length * LANE + 2 * AXIS, ratio = devicePixelRatio || 1;
  const last = steps[steps.length - 1], from = steps[0][0], until = last[0] + last[1];
  canvas.width = Math.round(W * ratio);
  canvas.height = Math.round(H * ratio);
  canvas.style.height = `${H}px`;
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.font = FONT;
  const left = beginning(c, lanes, W), width = Math.max(1, Math.floor(W - left)), per = (until - from) / width, x = (t) => left + (t - from) / per;
  steps.forEach(([start, length, name], number) => {
    if (number % 2) {
      c.fillStyle = color.soft;
      c.fillRect(x(start), 0, length / per, H - AXIS);
    }
    c.fillStyle = color.line;
    c.fillRect(x(start), 0, 1, H - AXIS);
    c.fillStyle = color.fg;
    c.fillText(fitted(c, `${name}  ${span(Math.round(length * unit))}`, length / per - 8), x(start) + 4, 12);
  });
  const said = lanes.map(({ lane, label }, number) => {
    const top = AXIS + number * LANE, floor = top + LANE - 3;
    const { share, kind, busy } = columns(timeline, lane, from, per, width);
    c.fillStyle = color.muted;
    c.textAlign = "right";
    c.fillText(fitted(c, label, left - 10), left - 8, floor - 6);
    c.textAlign = "left";
    c.fillStyle = color.line;
    c.fillRect(left, floor, width, 1);
    for (let i = 0; i < width; i++) {
      if (!share[i]) continue;
      const high = Math.max(1, share[i] * (LANE - 6));
      c.fillStyle = css(shades[kind[i]][0][16]);
      c.fillRect(left + i, floor - high, 1, high);
    }
    return `${label}: busy ${(100 * busy).toFixed(0)} %`;
  });
  c.fillStyle = color.muted;
  const rough = (until - from) / Math.max(2, width / 160), power = 10 ** Math.floor(Math.log10(rough * unit)) / unit;
  const apart = power * ([1, 2, 5].find((each) => each * power >= rough) ?? 10);
  for (let t = 0; t < until - from - 50 * per; t += apart) {
    c.fillText(span(Math.round(t * unit)).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " "), x(from + t), H - 4);
  }
  canvas.setAttribute("aria-label", said.join("; "));
  return left;
}

on("timeline", async (timeline) => {
  const mount = document.getElementById("lanes"), { head } = timeline;
  if (!mount) return;
  await timeline.ready;
  const steps = "whole" in mount.dataset ? [] : windows(head), every = (head.steps ?? []).length;
  const shown = steps.length ? steps : [[0, Math.max(head.span, 1), "the run"]];
  const last = shown[shown.length - 1];
  const pick = (most) => chosen(timeline, shown[0][0], last[0] + last[1], most);
  let { lanes, left: rest } = pick(MOST);
  if (!lanes.length) return;
  const canvas = el("canvas", { role: "img", title: "click: show it on the timeline" });
  const few = steps.length && steps.length < every ? `${steps.length} of ${every} steps, around the median one` : "the busy share of streams and threads";
  mount.append(el("h2", {}, steps.length ? "Inside the steps" : "Inside the run", " ", el("small", {}, few)), canvas);
  if (leftOut(rest)) {
    const words = () => (opened ? "only those with most work" : `${leftOut(rest)} with less work: show them`);
    let opened = false;
    const beyond = el("small", {});
    const more = el("button", { type: "button", "aria-expanded": "false" }, words());
    more.addEventListener("click", () => {
      opened = !opened;
      ({ lanes, left: rest } = pick(opened ? MOST_OPENED : MOST));
      more.textContent = words();
      more.setAttribute("aria-expanded", String(opened));
      beyond.textContent = opened && leftOut(rest) ? ` ${leftOut(rest)}: on the timeline` : "";
      again();
    });
    mount.append(el("p", { class: "rest" }, more, beyond));
  }
  canvas.addEventListener("click", ({ offsetX }) => {
    const t = shown[0][0] + (offsetX - left) / (canvas.clientWidth - left) * (last[0] + last[1] - shown[0][0]);
    const step = shown.find(([start, length]) => t >= start && t <= start + length) ?? shown[0];
    emit("goto", { start: step[0] * head.unit, end: (step[0] + step[1]) * head.unit, places: [], from: "first screen" });
    document.getElementById("tl")?.scrollIntoView({ block: "center" });
  });
  let left = 0;
  const again = () => { left = draw(canvas, timeline, shown, lanes); };
  again();
  new ResizeObserver(again).observe(mount);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTimeout(again));
});

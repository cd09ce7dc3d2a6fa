// Keys act while the timeline has the focus or the mouse, or nothing has the focus; they can be switched off.

import { el } from "../page/dom.js";
import { detail, find, helpMenu, key, mount, scroll } from "./elements.js";
import { rowOf, start } from "./events.js";
import { pin } from "./folding.js";
import { stepGap } from "./gaps.js";
import { laneOfRow } from "./lanes.js";
import { clearMarked, marked, walk } from "./marking.js";
import { measure, measureBetween, measureKey, measured, setMeasuring } from "./measuring.js";
import { hovered, hoveredLane, inside, pointer } from "./pointer.js";
import { select, selected, stepName, stepSelection } from "./selection.js";
import { SPAN } from "./source.js";
import { LEFT, T, fit, glide, setView, view, zoom } from "./view.js";

let keysOn = true;
const atMouse = () => (inside && pointer[0] > LEFT ? T(pointer[0]) : hovered >= 0 ? start[hovered] : selected >= 0 && start[selected] >= view.t0 && start[selected] <= view.t1 ? start[selected] : (view.t0 + view.t1) / 2);
const shift = (part) => { const by = (view.t1 - view.t0) * part; setView(view.t0 + by, view.t1 + by); };
const KEYS = {
  w: () => zoom(0.7, atMouse()), s: () => zoom(1 / 0.7, atMouse()), a: () => shift(-0.2), d: () => shift(0.2),
  f: fit, m: measureKey, M: measureBetween, n: () => walk(1), p: () => walk(-1), 0: () => glide(0, SPAN),
  ",": () => stepSelection(-1, 0), ".": () => stepSelection(1, 0), g: () => stepGap(1), G: () => stepGap(-1),
  t: () => { const l = hoveredLane >= 0 ? hoveredLane : selected >= 0 ? laneOfRow[rowOf(selected)] : -1; if (l >= 0) pin(l); },
  "/": () => { find.focus(); find.select(); },
  "?": () => { helpMenu.open = !helpMenu.open; },
  Escape: () => {
    setMeasuring(false);
    if (helpMenu.open) helpMenu.open = false;
    else if (measured) measure(null, null);
    else if (selected >= 0) select(-1);
    else if (marked) { find.value = ""; clearMarked(); } else glide(0, SPAN);
  },
};
const ARROWS = { ArrowLeft: () => stepName(-1), ArrowRight: () => stepName(1), ArrowUp: () => stepSelection(0, -1), ArrowDown: () => stepSelection(0, 1) };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = /** @type {HTMLElement} */ (event.target), here = mount.contains(target);
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable) return;
  if (target === scroll && ARROWS[event.key]) { event.preventDefault(); ARROWS[event.key](); return; }
  if (target === scroll && event.key === "Enter" && selected >= 0) { detail.querySelector("button")?.focus(); event.preventDefault(); return; }
  const box = scroll.getBoundingClientRect(), idle = target === document.body && box.top < innerHeight && box.bottom > 0;
  if (!keysOn || !(here || inside || idle) || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

const HELP = [
  ["w s", "zoom in, out"], ["a d", "move left, right"], ["f", "fit what is measured, selected, or the whole"], ["0", "the whole"],
  ["/", "search names and arguments"], ["n p", "next, previous hit"], ["← →", "previous, next of the same name"], [", .", "previous, next of the row"],
  ["↑ ↓", "row above, below"], ["m", "measure the selection, or the window"], ["M", "measure from there to the selection"], ["g G", "next, previous idle gap, longest first"],
  ["t", "keep the lane on top"], ["Enter", "to the details"], ["Esc", "step back"], ["?", "this help"],
];
const keySwitch = el("input", { type: "checkbox", checked: true, onchange: () => { keysOn = keySwitch.checked; } });
helpMenu.sheet.append(
  el("dl", {}, ...HELP.map(([keys, text]) => el("div", {}, el("dt", {}, ...keys.split(" ").flatMap((each) => [key(each), " "])), el("dd", {}, text)))),
  el("p", {}, "Ctrl and wheel or pinch zooms, drag moves, Shift and drag or click measures, a click on a label folds."),
  el("label", {}, keySwitch, " keys of one letter"));

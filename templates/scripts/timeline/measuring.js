// The measured window.

import { emit, on } from "../page/bus.js";
import { toast } from "../page/toast.js";
import { later } from "./address.js";
import { announce, measureButton, top } from "./elements.js";
import { endOf, lengthOf, start } from "./events.js";
import { time } from "./lanes.js";
import { draw } from "./paint.js";
import { selected } from "./selection.js";
import { SPAN, unit } from "./source.js";
import { view } from "./view.js";

export let measured = null, measuring = false;
export let measureNote = ""; // of two events: what is between them
export function measure(a, b, from = "timeline") {
  measureNote = "";
  measured = a === null ? null : [Math.max(0, Math.min(a, b)), Math.min(SPAN, Math.max(a, b))];
  draw(false);
  later();
  if (from === "timeline") emit("window", { start: measured && Math.round(measured[0] * unit), end: measured && Math.round(measured[1] * unit), from });
}
export function setMeasuring(is) {
  measuring = is;
  measureButton.setAttribute("aria-pressed", String(is));
  top.style.cursor = is ? "crosshair" : "";
}

/** m: the selected event's time; else drag over the lanes, or m again for the window shown; again: nothing. */
export function measureKey() {
  if (measured) { measure(null, null); setMeasuring(false); announce("nothing is measured"); return; }
  if (selected >= 0 && !measuring) {
    measure(start[selected], endOf(selected));
    announce(`measuring the selected event's ${time(lengthOf(selected))}`);
  } else if (measuring) { setMeasuring(false); measure(view.t0, view.t1); }
  else { setMeasuring(true); toast("Drag over the lanes to measure, or press m again to measure the window shown"); }
}
on("window", ({ start: a, end: b, from }) => { if (from !== "timeline") measure(a === null ? null : a / unit, b === null ? null : b / unit, from); });
/** From what is measured, or from the selected event alone, to the selected event: how long between these two. */
export function measureBetween() {
  if (selected < 0) return;
  const other = [start[selected], endOf(selected)], [one, two] = [measured ?? other, other].sort(([a], [b]) => a - b);
  measure(one[0], Math.max(one[1], two[1]));
  const gap = two[0] - one[1];
  measureNote = `From start to start ${time(two[0] - one[0])}, ${gap < 0 ? `overlap ${time(-gap)}` : `from end to start ${time(gap)}`}.`;
  announce(`${time(measured[1] - measured[0])}. ${measureNote}`);
}
measureButton.onclick = measureKey;

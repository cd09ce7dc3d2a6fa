// The details, docked beside the lanes or below them, as wide as one left them.

import { dockButton, grip, left, main, mount, stage } from "./elements.js";
import { height } from "./layout.js";
import { draw } from "./paint.js";
import { AXIS, OVER, stripNeeded } from "./view.js";

const KEY = "tracekit-details", LEAST_DOCK = 160;
let docked = { below: false, wide: 340, high: 240 };
try {
  docked = { ...docked, ...JSON.parse(localStorage.getItem(KEY)) };
} catch { /* a page in a sandbox has no storage */ }

const isBelow = () => docked.below || innerWidth < 900;

/** Make the timeline as high as the window has room for, or as its lanes need. */
export function fillWindow() {
  const section = mount.closest("section") ?? mount, bar = /** @type {HTMLElement} */ (document.querySelector(".contents"));
  const above = Math.max(64, bar?.offsetHeight ?? 0) + main.getBoundingClientRect().top - section.getBoundingClientRect().top;
  const lanesHigh = height + 2 + OVER + AXIS + stripNeeded() + left.offsetHeight - stage.offsetHeight;
  const below = isBelow();
  main.classList.toggle("below", below);
  main.style.setProperty("--above", `${Math.ceil(above) + 4}px`);
  main.style.setProperty("--lanes", `${lanesHigh + (below ? docked.high + 9 : 0)}px`);
  main.style.setProperty("--dock", `${below ? Math.min(docked.high, innerHeight * 0.4) : Math.min(docked.wide, innerWidth * 0.5)}px`);
  grip.setAttribute("aria-orientation", below ? "horizontal" : "vertical");
  grip.setAttribute("aria-valuenow", String(Math.round(below ? docked.high : docked.wide)));
  dockButton.textContent = below ? "details beside" : "details below";
  dockButton.hidden = innerWidth < 900;
}
function dockAt(change) {
  docked = { ...docked, ...change };
  try {
    localStorage.setItem(KEY, JSON.stringify(docked));
  } catch { /* it holds as long as the page is open */ }
  fillWindow();
  draw();
}
const resizeDock = (by) => dockAt(isBelow() ? { high: Math.max(LEAST_DOCK, docked.high + by) } : { wide: Math.max(LEAST_DOCK, docked.wide + by) });

dockButton.onclick = () => dockAt({ below: !docked.below });
grip.addEventListener("pointerdown", (event) => {
  grip.setPointerCapture?.(event.pointerId);
  let [x, y] = [event.clientX, event.clientY];
  grip.onpointermove = (now) => {
    resizeDock(isBelow() ? y - now.clientY : x - now.clientX);
    [x, y] = [now.clientX, now.clientY];
  };
  event.preventDefault();
});
for (const word of ["pointerup", "pointercancel"]) grip.addEventListener(word, () => { grip.onpointermove = null; });
grip.addEventListener("keydown", (event) => {
  const by = { ArrowLeft: 24, ArrowUp: 24, ArrowRight: -24, ArrowDown: -24 }[event.key];
  if (!by) return;
  event.preventDefault();
  resizeDock(by);
});

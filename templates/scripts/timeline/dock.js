// The details, docked beside the lanes or below them, as wide as one left them.

import { dockButton, grip, left, main, mount, stage } from "./elements.js";
import { height } from "./layout.js";
import { draw } from "./paint.js";
import { AXIS, OVER, stripNeeded } from "./view.js";

const KEY = "tracekit-details";
/** What is stored, after storing a value if there is one; null in a sandbox, which has no storage. */
function stored(value) {
  try {
    if (value) localStorage.setItem(KEY, value);
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
const docked = { below: false, wide: 340, high: 240, ...JSON.parse(stored()) };

const isBelow = () => docked.below || innerWidth < 900;
const side = () => (isBelow() ? "high" : "wide");

/** Make the timeline as high as the window has room for, or as its lanes need. */
export function fillWindow() {
  const section = mount.closest("section") ?? mount, bar = /** @type {HTMLElement} */ (document.querySelector(".contents"));
  const above = Math.max(64, bar?.offsetHeight ?? 0) + main.getBoundingClientRect().top - section.getBoundingClientRect().top;
  const below = isBelow(), size = Math.min(docked[side()], (below ? innerHeight : innerWidth) * 0.45);
  const lanesHigh = height + 2 + OVER + AXIS + stripNeeded() + left.offsetHeight - stage.offsetHeight;
  const set = (word, value) => main.style.setProperty(`--${word}`, `${Math.ceil(value)}px`);
  main.classList.toggle("below", below);
  set("above", above + 4);
  set("lanes", lanesHigh + (below ? size + 9 : 0));
  set("dock", size);
  grip.setAttribute("aria-orientation", below ? "horizontal" : "vertical");
  grip.setAttribute("aria-valuenow", size);
  dockButton.textContent = `details ${below ? "beside" : "below"}`;
  dockButton.hidden = innerWidth < 900;
}
function dockAt(change) {
  stored(JSON.stringify(Object.assign(docked, change)));
  fillWindow();
  draw();
}
const resizeDock = (by) => dockAt({ [side()]: Math.max(160, docked[side()] + by) });

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

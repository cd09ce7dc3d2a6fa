// The legend: families of events by colour. One that is pointed at is seen alone; a click marks all its events.

import { button, el } from "../page/dom.js";
import { counted } from "../page/texts.js";
import { find, hitList, hitsText, legend } from "./elements.js";
import { data } from "./events.js";
import { hitsOfNames } from "./hits.js";
import { clearMarked, marked, setMarked, shownFamily } from "./marking.js";
import { draw } from "./paint.js";
import { classes, head, kindOf, kinds, names } from "./source.js";
import { leave } from "./view.js";

export let hinted = null; // {before}: events of the family that is pointed at

/** The classes of each colour, those of devices first. */
const families = new Map();
const onDevice = (k) => ["kernel", "memcpy", "memset"].includes(kinds[k]);
for (const is of [true, false]) {
  head.colors.forEach((word, k) => { if (onDevice(k) === is) families.set(word, [...families.get(word) ?? [], k]); });
}

function familyName(word) {
  const texts = families.get(word).map((k) => classes[k].replaceAll("_", " ")).sort((a, b) => a.length - b.length);
  return texts.filter((text, i) => !texts.slice(0, i).some((shorter) => text.includes(shorter))).join(", ");
}
const hitsOf = (word) => hitsOfNames(Uint8Array.from(names, (_, code) => Number(families.get(word).includes(kindOf[code]))));

export function showFamily(word) {
  if (!families.has(word)) { if (shownFamily) clearMarked(); return; }
  find.value = "";
  hitList.hidden = true;
  setMarked(hitsOf(word), familyName(word), word);
  hitsText.textContent = `${counted(marked.total, "event")}: ${familyName(word)}`;
}
function hint(word) {
  if (!data.done) return;
  hinted = word ? { before: hitsOf(word) } : null;
  draw();
}
export function pressFamilies() {
  for (const each of legend.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each.dataset.family === shownFamily));
}

legend.append(...[...families.keys()].map((word) => {
  const press = () => { leave(); showFamily(word === shownFamily ? "" : word); };
  const chip = el("i");
  chip.style.background = `var(--${word})`;
  const made = button([chip, familyName(word)], press, { "data-family": word, "aria-pressed": "false" });
  made.addEventListener("pointerenter", ({ pointerType }) => { if (pointerType === "mouse") hint(word); });
  made.addEventListener("pointerleave", () => { if (hinted) hint(""); });
  return el("li", {}, made);
}));

// The search.

import { button, el } from "../page/dom.js";
import { count, counted } from "../page/texts.js";
import { searchArgs } from "./args.js";
import { fullColor } from "./colours.js";
import { find, hitList, hitsText, scroll } from "./elements.js";
import { N, data, name } from "./events.js";
import { hitsOfNames, hitsOfPlaces } from "./hits.js";
import { clearMarked, markPlaces, marked, onlyName, setMarked, walk } from "./marking.js";
import { face, names } from "./source.js";
import { leave } from "./view.js";

const LISTED = 40;
export function search(text) {
  if (!text) { clearMarked(); return; }
  let pattern;
  try {
    pattern = new RegExp(text, "i");
  } catch (error) {
    clearMarked();
    find.setAttribute("aria-invalid", "true");
    hitsText.textContent = `This is not a valid regular expression: ${String(error.message).replace(/^.*: /, "").toLowerCase()}.`;
    return;
  }
  find.removeAttribute("aria-invalid");
  const hit = new Uint8Array(names.length), until = performance.now() + 1500;
  let tried = 0;
  for (; tried < names.length; tried++) {
    hit[tried] = +pattern.test(names[tried]);
    if (performance.now() > until) { tried++; break; }
  }
  markNames(hit, tried < names.length ? `, in the first ${count(tried)} of ${count(names.length)} names: this expression is slow` : "");
  void addArgs(text, pattern, hit);
}
let searches = 0;
/** Events with such an argument, beside those with such a name. */
async function addArgs(text, pattern, hit) {
  const mine = ++searches, said = hitsText.textContent, wanted = () => mine === searches && find.value === text;
  await face.ready;
  const result = wanted() && await searchArgs(text, pattern, wanted);
  if (!result || !wanted() || !result.found.size) return;
  const all = [...result.found.values()].flat();
  for (let i = 0; i < N; i++) if (hit[name[i]]) all.push(i);
  setMarked(hitsOfPlaces(all), "");
  const n = new Set([...result.found.values()].flat()).size;
  hitsText.textContent = `${said}, ${count(n)} by ${n === 1 ? "an argument" : "arguments"}${result.slow ? " (there was no time for all)" : ""}`;
  const rows = [...result.found].map(([key, places]) => el("li", {}, button(
    [el("span", {}, `argument ${key}`), el("small", {}, `${count(places.length)} ×`)],
    () => { leave(); markPlaces(places, `with this ${key}`); walk(1, true); })));
  hitList.hidden = false;
  if (!hit.includes(1)) hitList.replaceChildren();
  hitList.prepend(el("ul", {}, ...rows));
}
export function markNames(hit, more = "") {
  setMarked(hitsOfNames(hit), "");
  const codes = [];
  for (let i = 0; i < hit.length; i++) if (hit[i]) codes.push(i);
  const total = marked.total;
  hitsText.textContent = `${counted(total, "hit")} in ${counted(codes.length, "name")}${more}`;
  listHits(codes);
}
function listHits(codes) {
  hitList.hidden = codes.length < 1;
  if (!codes.length) return;
  const calls = callsOfNames();
  codes.sort((a, b) => calls[b] - calls[a] || a - b);
  const rows = codes.slice(0, LISTED).map((code) => {
    const chip = el("i");
    chip.style.background = fullColor(code);
    return el("li", {}, button([chip, el("span", {}, names[code]), el("small", {}, `${count(calls[code])} ×`)], () => { leave(); onlyName(code); walk(1, true); }, { title: names[code].slice(0, 2000) }));
  });
  if (codes.length > LISTED) rows.push(el("li", { class: "tl-more" }, `and ${count(codes.length - LISTED)} more names`));
  hitList.replaceChildren(el("ul", {}, ...rows));
}
let called = null;
function callsOfNames() {
  if (called) return called;
  const calls = new Int32Array(names.length);
  for (let i = 0; i < N; i++) calls[name[i]]++;
  if (data.done) called = calls;
  return calls;
}
let typing = 0;
find.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => search(find.value), N > 200000 ? 120 : 0); });
find.addEventListener("keydown", (event) => {
  if (event.key === "Enter") { clearTimeout(typing); if (!marked) search(find.value); walk(event.shiftKey ? -1 : 1); }
  if (event.key === "Escape") { find.value = ""; clearMarked(); scroll.focus({ preventScroll: true }); event.stopPropagation(); }
});

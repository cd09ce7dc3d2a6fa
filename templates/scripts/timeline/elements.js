// The elements of the timeline.

import { button, el } from "../page/dom.js";
import { counted } from "../page/texts.js";
import { N } from "./events.js";
import { head, lanes } from "./source.js";

export const mount = document.getElementById("tl");
export const key = (text) => el("kbd", {}, text);

export const find = el("input", { type: "search", placeholder: "search names, arguments, ids", autocomplete: "off", spellcheck: "false", "aria-label": "Search names and arguments with a regular expression", "aria-describedby": "tl-hits" });
export const hitsText = el("output", { id: "tl-hits", class: "tl-hits" });
export const walkers = el("span", { class: "tl-walk", hidden: true });
export const hitList = el("div", { class: "tl-list", hidden: true });
export const pathButton = button("critical path", null, { "aria-pressed": "false", hidden: !head.paths });
export const measureButton = button(["measure ", key("m")], null, { "aria-pressed": "false" });
export const fitButton = button(["fit ", key("f")]);
export const layerButtons = el("span", { class: "tl-group", role: "group", "aria-label": "Layers shown" });
export const dockButton = button("details below");
export const saveMenu = menu("save");
export const markMenu = menu("findings");
export const helpMenu = menu("keys");
const tools = el("div", { class: "tl-tools" },
  el("label", { class: "tl-find" }, key("/"), find), el("span", { class: "tl-push" }),
  layerButtons, pathButton, markMenu, fitButton, measureButton, saveMenu, dockButton, helpMenu);

export const over = el("canvas", { class: "tl-over", "aria-hidden": "true" });
export const axis = el("canvas", { class: "tl-axis", "aria-hidden": "true" });
export const body = el("canvas", { "aria-hidden": "true" });
export const top = el("canvas", { class: "tl-top", "aria-hidden": "true" });
export const tall = el("div", { class: "tl-tall" }, el("div", { class: "tl-stick" }, body, top));
export const scroll = el("div", { class: "tl-scroll", tabindex: "0", role: "application", "aria-roledescription": "timeline", "aria-label": `Timeline: ${counted(N, "event")} on ${counted(lanes.length, "lane")}`, "aria-describedby": "tl-how" }, tall);
const how = el("p", { id: "tl-how", class: "tl-unseen" }, "Arrow keys select events: left and right those of the same name, up and down between rows; comma and full stop go along a row. w and s zoom, a and d move, f fits the selection, m measures it, g goes through the idle gaps of the device, slash searches, n and p walk the hits, question mark shows all keys. All events and figures are also in the tables of this page.");
const spoken = el("div", { class: "tl-unseen", role: "status", "aria-live": "polite" });
export const absent = el("p", { class: "tl-absent", hidden: true });
export const legend = el("ul", { class: "tl-legend" });
export const pathText = el("ul", { class: "tl-legend tl-path-key", hidden: true });
export const tip = el("div", { class: "tl-tip", hidden: true });
export const detail = el("section", { class: "tl-card", "aria-label": "Selected event" });
export const range = el("section", { class: "tl-card", "aria-label": "Statistics of the window" });
export const cursor = el("div", { class: "tl-cursor", hidden: true }, el("output", {}));
export const stage = el("div", { class: "tl-stage" }, over, axis, scroll, cursor, tip);
export const left = el("div", { class: "tl-left" }, stage, absent, legend, pathText);
export const grip = el("div", { class: "tl-grip", role: "separator", tabindex: "0", "aria-label": "Size of details" });
const dock = el("aside", { class: "tl-dock", "aria-label": "Details" }, el("div", { class: "tl-found" }, hitsText, walkers, hitList), detail, range);
export const main = el("div", { class: "tl-main" }, left, grip, dock);
mount.replaceChildren(tools, main, how, spoken);
mount.classList.add("tl-live");

function menu(label) {
  const box = el("div", { class: "tl-sheet" });
  const made = el("details", { class: "tl-menu" }, el("summary", {}, label), box);
  made.sheet = box;
  made.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !made.open) return;
    made.open = false;
    made.firstChild.focus();
    event.stopPropagation();
  });
  return made;
}
document.addEventListener("pointerdown", (event) => {
  for (const each of [saveMenu, markMenu, helpMenu]) if (each.open && !each.contains(event.target)) each.open = false;
});
export function announce(text) {
  spoken.textContent = "";
  requestAnimationFrame(() => { spoken.textContent = text; });
}

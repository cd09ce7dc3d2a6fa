// Sections that are folded, and the menu of tables. The address has the sections that are open: #open=idle~api.

import { link } from "../page/address.js";
import { on } from "../page/bus.js";

const folds = [...document.querySelectorAll("details.fold")];
function idOf(fold) {
  const place = [...fold.parentElement.querySelectorAll(":scope > .fold")].indexOf(fold);
  return `${fold.parentElement.id}${place ? `.${place}` : ""}`;
}
let writing = false;
let closed = null; // folds that were closed before printing

/** Brings a place in sight; where it is folded, it is unfolded. */
export function look(place, how) {
  const fold = place?.closest(".fold") ?? place?.querySelector(":scope > .fold");
  if (fold) fold.open = true;
  place?.scrollIntoView(how);
}

export function unfold(id) {
  const fold = id && document.getElementById(id)?.closest("section")?.querySelector(":scope > .fold");
  if (fold) fold.open = true;
}

function followFolds() {
  const open = (link.get("open") ?? "").split("~");
  for (const fold of folds) fold.open = open.includes(idOf(fold));
  unfold(link.get("view"));
}

function keepFolds() {
  if (closed) return;
  writing = true;
  link.set("open", folds.filter((fold) => fold.open).map(idOf).join("~"));
  writing = false;
}

for (const fold of folds) fold.addEventListener("toggle", keepFolds);
on("link", ({ key }) => {
  if (key === "open" && !writing) followFolds();
  if (key === "view") unfold(link.get("view"));
});
const anchorOf = (hash) => (hash.includes("=") ? "" : decodeURIComponent(hash.slice(1)));
followFolds();
// Tables are taller soon: they bring it in sight then.
if (document.getElementById(anchorOf(location.hash))?.closest("main section")) link.set("view", anchorOf(location.hash));

addEventListener("beforeprint", () => {
  closed ??= folds.filter((fold) => !fold.open);
  for (const fold of closed) fold.open = true;
});
addEventListener("afterprint", () => {
  for (const fold of closed ?? []) fold.open = false;
  setTimeout(() => { closed = null; }, 100); // the folds say a moment later that they were closed
});

const menu = document.querySelector(".contents details");
document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.('a[href^="#"]');
  if (anchor) unfold(anchorOf(anchor.hash));
  if (menu?.open && (!menu.contains(event.target) || anchor)) menu.open = false;
});
menu?.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !menu.open) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

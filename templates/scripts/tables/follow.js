// What tables hear of the link, the timeline and the flame graph.

import { link } from "../page/address.js";
import { emit, on } from "../page/bus.js";
import { look } from "./folds.js";
import { CLASS, applying, tables, visit } from "./table.js";

export function follow(first = false) {
  const [view, row] = [link.get("view"), Number(link.get("row"))];
  if (!view || !row) {
    if (link.get("mark") === null && !first && tables.some((each) => each.picked.size)) {
      for (const table of tables) if (table.picked.size) table.mark([]);
      emit("mark", { names: [], kinds: null, from: "link" });
    }
    markOfLink();
    if (view && !link.get("table")) look(document.getElementById(view));
    if (!view || !link.get("table")) return;
  }
  const table = tables.find((each) => each.view === view && each.number === Number(link.get("table") ?? 1));
  if (!table) {
    look(document.getElementById(view));
    return;
  }
  for (const other of tables) if (other !== table && other.picked.size) other.mark([]);
  if (!Number.isInteger(row) || row < 1 || row > table.length) look(table.sheet, { block: "start" });
  else {
    table.reveal(row - 1, table.columns.find((column) => column.name === link.get("column")) ?? null);
    followed = { names: table.namesOf(row - 1), kinds: table.kindsOf(row - 1), from: "link" };
    emit("mark", followed);
  }
}

/** The cells of the finding whose events are marked, unless the address names a row. */
function markOfLink() {
  const mark = link.get("mark");
  if (mark !== null && !link.get("row")) markCells(articleOf(document.querySelector(`[data-finding="${Number(mark)}"]`)));
}

let followed = null; // the marks of the row in the address: a timeline may come later than the tables
on("timeline", () => { if (followed && link.get("row")) emit("mark", followed); });

let waiting = 0;
on("link", ({ key }) => {
  if (!applying && key === "mark") markOfLink();
  if (!applying && /^(sort|filter)\./.test(key)) for (const table of tables) table.followLink(key);
  if (applying || !["view", "table", "row", "column"].includes(key)) return;
  clearTimeout(waiting); // keys of one address come one by one
  waiting = setTimeout(follow, 0, false);
});

on("pick", ({ name, from, show }) => {
  if (from === "tables") return;
  let wanted = show;
  for (const table of tables) {
    const column = table.named();
    if (!column) continue;
    const rows = name === null ? [] : table.order.filter((row) => column.value(row) === name || column.shown(row) === name);
    if (!rows.length && !table.picked.size) continue;
    table.mark(rows);
    if (!rows.length) continue;
    table.bring(table.order.indexOf(rows[0]));
    if (wanted) look(table.sheet, { block: "center" });
    wanted = false; // the first table that has it
  }
});

// The tables of a view show the rows with these words, or of this class, where they have any; "" shows all rows.
on("filter", (wanted) => {
  const { view, text } = wanted;
  let seen = false;
  for (const table of tables) {
    if (table.view !== view) continue;
    const isClass = table.classes.includes(text);
    table.filterBy(table.filter.value = isClass ? CLASS + text : text);
    if (isClass) wanted.names = table.order.flatMap((row) => table.namesOf(row));
    if (!table.order.length) table.filterBy(table.filter.value = "");
    table.keepLink("filter", table.filter.value);
    if (seen || !table.filter.value) continue;
    table.sheet.scrollIntoView({ block: "center" });
    seen = true;
  }
});

const isOf = (mark, view, row) => mark.view === view && (mark.row ?? 1) === Number(row);

// The events of a finding on the timeline. number: of its mark; else its view and row.
function jump(number, view, row) {
  const head = JSON.parse(document.getElementById("tl-head")?.textContent ?? "{}");
  const place = number === undefined ? head.marks?.findIndex((each) => isOf(each, view, row)) : Number(number);
  const mark = head.marks?.[place];
  if (!mark) return false;
  emit("goto", { start: mark.start * (head.unit ?? 1), end: mark.end * (head.unit ?? 1), mark: place, from: "finding" });
  return true;
}

// The article of a finding, from a button in it or on the first screen.
const articleOf = (it) => it && (it.closest("article") ?? document.getElementById(it.dataset.of));

// The rows that a finding rests on: those of the links of its evidence.
function markCells(finding) {
  const wanted = new Map();
  for (const { hash } of finding?.querySelectorAll('a[href^="#view="]') ?? []) {
    const keys = new URLSearchParams(hash.slice(1));
    const table = tables.find((each) => each.view === keys.get("view") && each.number === Number(keys.get("table") ?? 1));
    if (table) wanted.set(table, [...(wanted.get(table) ?? []), Number(keys.get("row")) - 1]);
  }
  for (const table of tables) if (wanted.has(table) || table.picked.size) table.mark(wanted.get(table) ?? []);
}

// A card of the first screen leads to its finding, the button of a finding to its events; both mark events and rows.
document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const cell = event.target.closest?.('a[href^="#view="]');
  if (cell) { // the other keys of the address stay, such as the window of the timeline
    const keys = new URLSearchParams(cell.hash.slice(1));
    link.visit(Object.fromEntries(["view", "table", "row", "column"].map((key) => [key, keys.get(key)])));
    event.preventDefault();
    return;
  }
  const it = event.target.closest?.("[data-finding], a.card[data-row]");
  if (!it) return;
  const { finding, view, row } = it.dataset;
  const place = { table: null, column: null };
  if (finding === undefined) visit({ view, row, ...place });
  else visit({ view: "timeline", row: null, ...place });
  jump(finding, view, row);
  const article = finding === undefined ? document.getElementById(it.hash.slice(1)) : articleOf(it);
  markCells(article);
  if (finding !== undefined) {
    document.getElementById("tl")?.scrollIntoView({ block: "center" });
    return;
  }
  article?.setAttribute("tabindex", "-1");
  article?.focus({ preventScroll: true });
  article?.scrollIntoView({ block: "center" });
  event.preventDefault();
});

export let printed = false;
for (const word of ["beforeprint", "afterprint"]) {
  addEventListener(word, () => {
    printed = word === "beforeprint";
    for (const table of tables) { table.range = null; table.render(); }
  });
}

// The search of the page: in titles of sections and tables, findings, and all texts of tables, folded ones too.

import { link } from "../page/address.js";
import { emit } from "../page/bus.js";
import { el } from "../page/dom.js";
import { unfold } from "./folds.js";
import { follow } from "./follow.js";
import { tables, visit } from "./table.js";

const MOST = 12; // results
const MOST_TITLES = 5;

/** Sections and findings that have all words. */
function titled(has) {
  const sections = [...document.querySelectorAll("main section[id] h2")].filter((head) => has(head.textContent));
  const findings = [...document.querySelectorAll("article.finding")].filter((each) => has(each.textContent));
  return [
    ...sections.map((head) => ({ text: head.textContent, where: "section", go: () => goTo(head.closest("section")) })),
    ...findings.map((each) => ({ text: each.querySelector("h3").textContent, where: "finding", go: () => goTo(each) })),
  ];
}

function goTo(place) {
  const view = place.closest("section").id;
  emit("leave");
  link.visit({ view, table: null, row: null, column: null });
  unfold(view);
  if (!place.hasAttribute("tabindex")) place.setAttribute("tabindex", "-1");
  place.focus({ preventScroll: true });
  place.scrollIntoView();
}

/** Titles of tables, then rows by their texts, each text once. */
function inTables(has) {
  const go = (table, row) => () => {
    visit({ view: table.view, table: table.number === 1 && row ? null : table.number, row, column: null });
    follow();
  };
  const title = (table) => table.element.getAttribute("aria-label");
  const found = tables.filter((table) => has(title(table))).map((table) => ({ text: title(table), where: "table", go: go(table, null) }));
  const seen = new Set();
  const columns = (isName) => tables.flatMap((table) =>
    table.columns.filter((each) => each.words && each.isName === isName).map((column) => [table, column]));
  for (const [table, column] of [...columns(true), ...columns(false)]) { // a table of the name before one that mentions it
    for (let row = 0; row < table.length && found.length < MOST; row++) {
      const text = column.value(row) === null ? "" : column.shown(row);
      if (!text || seen.has(text) || !has(text)) continue;
      seen.add(text);
      found.push({ text, where: title(table), go: go(table, row + 1) });
    }
  }
  return found;
}

function addSearch(bar) {
  const box = el("input", {
    type: "search", role: "combobox", placeholder: "/ search names, tables, findings", spellcheck: "false", autocomplete: "off",
    "aria-label": "Search names, tables and findings", "aria-expanded": "false", "aria-controls": "found", "aria-autocomplete": "list",
  });
  const list = el("ul", { id: "found", role: "listbox", "aria-label": "Found", hidden: true });
  bar.append(el("div", { class: "search" }, box, list));
  let [results, at, typing] = [[], 0, 0];

  function close() {
    list.hidden = true;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  }

  function choose(place) {
    at = Math.min(Math.max(place, 0), results.length - 1);
    [...list.children].forEach((row, i) => row.setAttribute("aria-selected", String(i === at)));
    if (results.length) box.setAttribute("aria-activedescendant", `found-${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  function go(place) {
    if (!results[place]) return;
    close();
    box.blur();
    results[place].go();
  }

  function find() {
    clearTimeout(typing);
    typing = 0;
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) {
      close();
      return;
    }
    const has = (text) => words.every((word) => text.toLowerCase().includes(word));
    results = [...titled(has).slice(0, MOST_TITLES), ...inTables(has)].slice(0, MOST);
    list.replaceChildren(...results.map(({ text, where }, i) => el("li", {
      id: `found-${i}`, role: "option", title: text,
      onpointerdown: (event) => event.preventDefault(), // the focus stays
      onclick: () => go(i),
    }, el("span", {}, text), el("small", {}, where))));
    if (!results.length) list.append(el("li", { role: "option", "aria-disabled": "true" }, "nothing found"));
    list.hidden = false;
    box.setAttribute("aria-expanded", "true");
    choose(0);
  }

  box.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(find, 80);
  });
  box.addEventListener("focus", () => { if (box.value) find(); });
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1 };
    if (event.key in moves && !list.hidden) choose(moves[event.key]);
    else if (event.key === "Enter") {
      if (typing || list.hidden) find(); // typed a moment ago
      go(at);
    } else if (event.key === "Escape") {
      box.value = "";
      close();
      box.blur();
    } else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable], #tl")) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
}

const contents = document.querySelector(".contents");
if (contents) addSearch(contents);

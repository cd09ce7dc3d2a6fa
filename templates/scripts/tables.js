// Tables: all rows from the data of the page, in the form that tables.py writes for the first ones; or, where the page
// has no such data (the index of a batch, the ledger), from the cells themselves, which have the exact values.
// Numbers are exact: whole ones beyond 2^53 are BigInts. Text of a trace goes in as text nodes alone.

import { reportData } from "./page/report.js";
import { slicer } from "./page/slices.js";
import { columnOf, columnOfCells } from "./tables/columns.js";
import "./tables/folds.js";
import { follow } from "./tables/follow.js";
import "./tables/search.js";
import { Table, tables } from "./tables/table.js";

// Columns and number of rows of a table: from the data of the page, or from its cells
const fromData = (data, texts, { time, off = "" }) => (heads) => {
  const named = data.columns.findIndex((column) => column.unit === "text");
  const first = data.columns[0];
  const shown = data.columns.filter((_, i) => !off.split(",").includes(String(i)));
  const unit = time ?? heads[shown.findIndex((column) => column.unit === "ns")]?.textContent.split(" ").pop();
  return [data.columns.map((column, i) => columnOf(column, texts, unit, i === named)), (first.t ?? first.v).length];
};

const fromCells = (heads, rows) => {
  const named = rows.length ? [...rows[0].cells].findIndex((cell) => cell.tagName === "TH") : -1;
  return [heads.map((head, i) => columnOfCells(head, rows.map((row) => row.cells[i]), i === named)), rows.length];
};

async function start() {
  for (const sheet of document.querySelectorAll(".sheet[data-name]")) {
    const { name } = sheet.dataset;
    tables.push(new Table(sheet, name, 1, name, fromCells).followLinks());
    document.documentElement.classList.add("tables");
  }
  if (tables.length) follow(true);
  const data = await reportData();
  if (!data) return;
  const { report, ...texts } = data;
  const slice = slicer();
  for (const sheet of document.querySelectorAll(".sheet[data-table]")) {
    const [section, place] = sheet.dataset.table.split(".").map(Number);
    const { view, tables: all } = report.sections[section];
    // Sections of a comparison are all of one view: its tables are numbered through all of them.
    const before = report.sections.slice(0, section).filter((each) => each.view === view).reduce((sum, each) => sum + each.tables.length, 0);
    if (!all[place].columns.length) continue;
    if (slice.due()) await slice.rest();
    tables.push(new Table(sheet, view, before + place + 1, all[place].name, fromData(all[place], texts, sheet.dataset)).followLinks());
  }
  document.documentElement.classList.add("tables");
  follow(true);
}

void start();

// Columns of a table: values, texts, and their order.

import { el } from "../page/dom.js";
import { count, exact } from "../page/texts.js";
import { FORMATS, UNKNOWN, grouped, numberText, timeText } from "./texts.js";

export const NO_NAME = "(no name)", BLANK_NAME = "(blank name)"; // as in Python

function headerOf(name, unit) {
  const suffix = { ns: "_ns", bytes: "_bytes", "bytes/s": "_bytes_per_s" }[unit] ?? "";
  return name.endsWith(suffix) || `_${name}` === suffix ? name : name + suffix;
}

// A column: value(row) is null, Number, BigInt or text; shown(row) is its text in the cell.
export function columnOf(data, { texts, shown: visible, short, titles }, time, isName) {
  const cells = data.t ?? data.v;
  const read = data.t
    ? (row) => (cells[row] === null ? null : texts[cells[row]])
    : (row) => {
      const cell = cells[row];
      return typeof cell === "string" ? BigInt(cell) : Array.isArray(cell) ? texts[cell[0]] : cell;
    };
  const place = (row) => (data.t ? cells[row] : Array.isArray(cells[row]) ? cells[row][0] : null);
  const words = data.unit === "text" || (data.unit === "id" && cells.some((cell, row) => typeof read(row) === "string"));
  const unit = { ns: time, ratio: "%" }[data.unit];
  const title = titles[data.title] ?? data.title;
  const head = el("th", { class: words ? "t" : null }, title, ...(unit ? [" ", el("small", {}, unit)] : []));
  const format = data.unit === "ns" ? (value) => timeText(value, time) : FORMATS[data.unit];
  const shown = (row) => {
    const value = read(row);
    if (value === null) return UNKNOWN;
    return typeof value === "string" ? visible[place(row)] ?? value : format(value);
  };
  const inCell = (row) => short[place(row)] ?? (shown(row) || (isName || data.name === "name" ? NO_NAME : ""));
  return {
    name: data.name, unit: data.unit, title, head, isName, shown, inCell, value: read,
    words, header: headerOf(data.name, data.unit), hidden: false,
    className: data.name === "meaning" ? "t prose" : undefined,
  };
}

// A column of a table that is whole in the page.
export function columnOfCells(head, cells, isName) {
  const words = head.classList.contains("t");
  const values = cells.map((cell) => {
    const text = words ? cell.textContent.trim() : cell.dataset.v ?? UNKNOWN;
    if (text === UNKNOWN || words) return text === UNKNOWN ? null : text;
    const far = /^-?\d{16,}$/.test(text) ? BigInt(text) : 0n;
    return far > BigInt(Number.MAX_SAFE_INTEGER) || -far > BigInt(Number.MAX_SAFE_INTEGER) ? far : Number(text);
  });
  const shown = (row) => cells[row].textContent.trim();
  const { name, unit } = head.dataset;
  return {
    name, unit, title: head.firstChild?.textContent.trim() ?? "", head, isName, shown, inCell: shown, value: (row) => values[row],
    words, header: headerOf(name, unit), hidden: false,
    nodes: (row) => (cells[row].querySelector("a") ? [...cells[row].childNodes].map((node) => node.cloneNode(true)) : null),
    className: cells[0]?.className,
  };
}

// The value with all its digits, for tooltips and the line below the table.
export function fullText(column, row) {
  const value = column.value(row);
  if (value === null) return "not known";
  if (column.unit === "ns") return exact(value);
  if (column.unit === "bytes") return `${count(value)} bytes`;
  if (column.unit === "ratio" || column.unit === "bytes/s") return `${numberText(value)}${column.unit === "ratio" ? " of 1" : " bytes/s"}`;
  return column.unit === "number" && typeof value !== "string" ? grouped(numberText(value)) : column.shown(row);
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0; // exact for a Number and a BigInt too
}

export function sorted(rows, column, descending) {
  const keys = new Map(rows.map((row) => [row, column.words ? column.shown(row) : column.value(row)]));
  return [...rows].sort((left, right) => {
    const [a, b] = [keys.get(left), keys.get(right)];
    if (a === null || b === null) return Number(a === null) - Number(b === null) || left - right;
    return (descending ? compare(b, a) : compare(a, b)) || left - right;
  });
}

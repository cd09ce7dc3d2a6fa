// Files. Names are written unchanged, as the csv form of tracekit does; a message says so where it matters.

import { el } from "../page/dom.js";
import { numberText } from "./texts.js";

const FORMULA = /^[=+\-@\t\r]/;

function csvField(value) {
  if (value === null) return "";
  if (typeof value !== "string") return numberText(value);
  return !value || /[",\r\n]/.test(value) || value !== value.trim() ? `"${value.replaceAll('"', '""')}"` : value;
}

export function tableText(table, form) {
  const { columns, order } = table.forFiles();
  if (form === "json") {
    const cell = (value) => (typeof value === "string" ? JSON.stringify(value) : value === null ? "null" : numberText(value));
    const rows = order.map((row) => `[${columns.map((column) => cell(column.value(row))).join(", ")}]`);
    const heads = columns.map(({ name, unit }) => ({ name, unit }));
    return `{"view": ${JSON.stringify(table.view)}, "name": ${JSON.stringify(table.name)}, "columns": ${JSON.stringify(heads)}, "rows": [\n${rows.join(",\n")}\n]}\n`;
  }
  if (form === "csv") {
    const lines = [["view", "table", ...columns.map((column) => column.header)]];
    for (const row of order) lines.push([table.view, table.name, ...columns.map((column) => column.value(row))]);
    return lines.map((line) => `${line.map(csvField).join(",")}\r\n`).join("");
  }
  const lines = [columns.map((column) => column.header)];
  for (const row of order) lines.push(columns.map((column) => {
    const value = column.value(row);
    return value === null ? "" : typeof value === "string" ? column.shown(row) : numberText(value);
  }));
  return lines.map((line) => `${line.join("\t")}\n`).join("");
}

export function warning(table) {
  const { columns, order } = table.forFiles();
  const risky = columns.some((column) => order.some((row) => {
    const value = column.value(row);
    return typeof value === "string" && FORMULA.test(value);
  }));
  return risky ? ". Names are unchanged: a spreadsheet may read one that begins with = + - @ as a formula" : "";
}

export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { "aria-hidden": "true", class: "copying" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

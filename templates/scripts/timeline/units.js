// Texts of amounts and times.

import { span as spanText } from "../page/texts.js";

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
export function amount(value, unitOf = "") {
  if (!Number.isFinite(value)) return "not known";
  if (unitOf === "ns") return spanText(Math.round(value));
  if (unitOf === "bytes" || unitOf === "B") {
    // As in the tables, so that a peak reads the same in both.
    if (Math.abs(value) < 1024) return `${NUMBER.format(value)} bytes`;
    const step = Math.min(Math.floor(Math.log2(Math.abs(value)) / 10), 5);
    const size = value / 1024 ** step;
    const digits = Math.abs(size) < 100 ? 2 : 1;
    const written = size.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    return `${written} ${["KiB", "MiB", "GiB", "TiB", "PiB"][step - 1]}`;
  }
  return `${NUMBER.format(value)}${unitOf ? ` ${unitOf}` : ""}`;
}

/** @type {[number, string][]} */
export const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
/** Whole ns as a short exact text: 1.25s, 300ms, 17ns. */
export function timeLink(ns) {
  const [size_, word] = UNITS.find(([s]) => ns >= s) ?? UNITS[3];
  const digits = String(Math.log10(size_) ? (BigInt(ns) % BigInt(size_)).toString().padStart(Math.log10(size_), "0").replace(/0+$/, "") : "");
  return `${BigInt(ns) / BigInt(size_)}${digits ? `.${digits}` : ""}${word}`;
}
function parseTime(text) {
  const found = /^\s*(\d+)(?:\.(\d+))?\s*(s|ms|us|µs|ns)?\s*$/.exec(text);
  if (!found) return null;
  const [, whole, part = "", word = "ns"] = found;
  const power = { s: 9, ms: 6, us: 3, "µs": 3, ns: 0 }[word];
  return Number(BigInt(whole + part.slice(0, power).padEnd(power, "0")));
}
export function parseWindow(text) {
  const ends = String(text).split("-").map(parseTime);
  return ends.length === 2 && ends[0] !== null && ends[1] !== null && ends[1] >= ends[0] ? ends : null;
}
export function runs(numbers) {
  const out = [];
  for (const n of numbers.sort((a, b) => a - b)) if (out.length && out[out.length - 1][1] === n - 1) out[out.length - 1][1] = n; else out.push([n, n]);
  return out.map(([a, b]) => (a === b ? `${a}` : `${a}~${b}`));
}
export const wholeNumber = (value, below) => (value !== null && /^\d+$/.test(value) && +value < below ? +value : -1);

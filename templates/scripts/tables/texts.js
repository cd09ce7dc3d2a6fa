// Texts of values, as display.py and units.py have them.

import { count } from "../page/texts.js";

export const UNKNOWN = "-";
const EXPONENTS = { s: 9, ms: 6, us: 3, ns: 0 };

// Half to even where the decimal digits stop in the middle between two: toFixed would go up.
function fixed(value, digits) {
  const size = Math.abs(value);
  let text = size.toFixed(digits);
  const halves = size * 2 ** (digits + 1);
  if (halves < 2 ** 53 && halves % 2 === 1) {
    const below = Math.floor(size * 10 ** digits);
    text = ((below % 2 ? below + 1 : below) / 10 ** digits).toFixed(digits);
  }
  return value < 0 ? `-${text}` : text;
}

export function grouped(text) {
  const [whole, ...rest] = text.split(".");
  return [count(whole), ...rest].join(".");
}

// Four significant digits, half to even; whole digits stay, and none is below one ns.
export function timeText(value, unit) {
  const size = value < 0 ? -value : value;
  if (!size) return "0";
  const exponent = EXPONENTS[unit], whole = /** @type {(value: number) => any} */ (typeof value === "bigint" ? BigInt : Number);
  let decimals = Math.min(Math.max(exponent + 4 - String(size).length, 0), exponent);
  const step = whole(10 ** (exponent - decimals));
  const rest = size % step;
  let digits = (size - rest) / step;
  if (whole(2) * rest > step || (whole(2) * rest === step && digits % whole(2))) digits += whole(1);
  let text = String(digits).padStart(decimals + 1, "0");
  if (decimals && rest && text.length > 4 && digits >= 10000) { // 9.9996 is 10.00
    text = text.slice(0, -1);
    decimals -= 1;
  }
  const point = text.length - decimals;
  return `${value < 0 ? "-" : ""}${count(text.slice(0, point))}${decimals ? `.${text.slice(point)}` : ""}`;
}

function scaled(value, base, units, digits) {
  let size = Math.abs(Number(value));
  let unit = 0;
  while (size >= base && unit < units.length - 1) {
    size /= base;
    unit += 1;
  }
  return `${value < 0 ? "-" : ""}${grouped(fixed(size, digits(size)))} ${units[unit]}`;
}

function bytesText(value) {
  if (value > -1024 && value < 1024) return `${value} B`;
  return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], (size) => (size < 100 ? 2 : 1));
}

function ratioText(value) {
  const text = fixed(100 * (value || 0), 2);
  return value && /^-?0\.00$/.test(text) ? (value > 0 ? "<0.01" : ">-0.01") : text.replace(/^-0\.00$/, "0.00");
}

// As Python writes a float: digits that lead back to it, an exponent from 1e16 on and below 0.0001.
export function numberText(value) {
  if (typeof value === "bigint") return String(value);
  if (!value) return Object.is(value, -0) ? "-0" : "0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e16) return String(value);
  return value.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
}

/** Four significant digits where a number has more, half to even. Whole digits stay. */
function shortText(value) {
  const [text, size] = [grouped(numberText(value)), Math.abs(Number(value))];
  if (!size || size >= 1e15 || Number.isInteger(size)) return text;
  const exponent = Number(size.toExponential().split("e")[1]);
  const short = exponent < -4 ? numberText(Number(value.toExponential(3))) : fixed(value, Math.max(3 - exponent, 0)).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  return grouped(short).length < text.length ? grouped(short) : text;
}

export const FORMATS = {
  count: (value) => count(value),
  bytes: bytesText,
  ratio: ratioText,
  "bytes/s": (value) => scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], () => 2),
  number: shortText,
  id: (value) => String(value),
  text: (value) => String(value),
};

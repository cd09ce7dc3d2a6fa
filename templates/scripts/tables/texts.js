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

function grouped(text) {
  const [whole, ...rest] = text.split(".");
  return [count(whole), ...rest].join(".");
}

export function timeText(value, unit) {
  const exponent = EXPONENTS[unit];
  const text = String(value);
  const sign = text.startsWith("-") ? "-" : "";
  const digits = text.slice(sign.length).padStart(exponent + 1, "0");
  const whole = count(digits.slice(0, digits.length - exponent));
  return exponent ? `${sign}${whole}.${digits.slice(-exponent)}` : sign + whole;
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

export const FORMATS = {
  count: (value) => count(value),
  bytes: bytesText,
  ratio: ratioText,
  "bytes/s": (value) => scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], () => 2),
  number: (value) => grouped(numberText(value)),
  id: (value) => String(value),
  text: (value) => String(value),
};

// Numbers: a Number up to 2^53, a BigInt, or the digits as text. No digit is lost.

/** @type {[string, number][]} */
const UNITS = [["s", 9], ["ms", 6], ["us", 3]];
const whole = (value) => (typeof value === "bigint" ? value : BigInt(value));

export function count(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** "1 row", "2 rows". */
export function counted(value, word) {
  return `${count(value)} ${word}${Number(value) === 1 ? "" : "s"}`;
}

export function exact(ns) {
  return `${count(ns)} ns`;
}

// Three decimals of the unit in which it is at least 1, half to even: as `short_span` in Python.
export function span(value) {
  const ns = whole(value);
  const size = ns < 0n ? -ns : ns;
  for (const [unit, exponent] of UNITS) {
    if (size < 10n ** BigInt(exponent)) continue;
    const step = 10n ** BigInt(exponent - 3);
    let thousandths = size / step;
    const rest = 2n * (size % step);
    if (rest > step || (rest === step && thousandths % 2n)) thousandths += 1n;
    const digits = String(thousandths).padStart(4, "0");
    return `${ns < 0n ? "-" : ""}${count(digits.slice(0, -3))}.${digits.slice(-3)} ${unit}`;
  }
  return `${ns} ns`;
}

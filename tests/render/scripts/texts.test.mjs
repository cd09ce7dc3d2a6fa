// Texts of numbers, times and places in the link.
import assert from "node:assert/strict";
import test from "node:test";

import { count, counted, exact, span } from "../../../templates/scripts/page/texts.js";
import { amount, parseWindow, runs, timeLink, wholeNumber } from "../../../templates/scripts/timeline/units.js";

test("whole numbers of any size keep their digits", () => {
  assert.equal(count(1234567), "1,234,567");
  assert.equal(exact(2n ** 63n), "9,223,372,036,854,775,808 ns");
});

test("one of a thing is no plural", () => {
  const said = [0, 1, 1n, 2, 1234].map((n) => counted(n, "event"));
  assert.deepEqual(said, ["0 events", "1 event", "1 event", "2 events", "1,234 events"]);
});

test("a span has three decimals of the unit in which it is at least 1, half to even", () => {
  assert.deepEqual([999, 1000, 1000500, 1001500, -2500000].map(span), ["999 ns", "1.000 us", "1.000 ms", "1.002 ms", "-2.500 ms"]);
});

test("an amount has the unit of its counter", () => {
  assert.deepEqual([amount(1500, "ns"), amount(1536, "bytes"), amount(2.5), amount(NaN)], ["1.500 us", "1.50 KiB", "2.5", "not known"]);
});

test("a window in the link is read back to the ns", () => {
  for (const ns of [0, 17, 1000, 1234567, 1e9, 4503599627370497]) {
    assert.deepEqual(parseWindow(`${timeLink(ns)}-${timeLink(ns + 1)}`), [ns, ns + 1]);
  }
  assert.deepEqual(parseWindow("1.5ms-2s"), [1500000, 2000000000]);
  for (const text of ["", "1-", "2-1", "1ms", "a-b", "1-2-3"]) assert.equal(parseWindow(text), null);
});

test("numbers in the link are whole and below the limit", () => {
  assert.deepEqual(["0", "9", "10", "-1", "1.5", "x", null].map((text) => wholeNumber(text, 10)), [0, 9, -1, -1, -1, -1, -1]);
});

test("runs of numbers are written by their ends", () => {
  assert.deepEqual(runs([7, 1, 2, 3, 9]), ["1~3", "7", "9"]);
});

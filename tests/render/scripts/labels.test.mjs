// Labels beside lanes: their column is as wide as they are, and what is cut leaves both ends.
import assert from "node:assert/strict";
import test from "node:test";

import { beginning, fitted } from "../../../templates/scripts/first_screen/labels.js";

const pen = { measureText: (text) => ({ width: 6 * text.length }) };
const lanes = (...labels) => labels.map((label) => ({ label }));

test("a cut label keeps its beginning and its end, so lanes of several devices differ", () => {
  const shown = [0, 1, 2, 13].map((device) => fitted(pen, `TPU ${device} stream 3 XLA Ops of the program`, 110));
  assert.equal(new Set(shown).size, 4);
  for (const each of shown) assert.ok(each.length * 6 <= 110 && /^TPU \d.*….*program$/.test(each), each);
  assert.equal(fitted(pen, "stream 7", 110), "stream 7");
  assert.equal(fitted(pen, "", 0), "");
  assert.equal(fitted(pen, "ab", 0).length, 2); // a letter and the mark at least
});

test("lanes begin beside the widest label, within a fifth of a wide page", () => {
  assert.equal(beginning(pen, lanes("stream 0", "stream 13"), 1190), 9 * 6 + 16);
  assert.equal(beginning(pen, lanes("s"), 1190), 60);
  assert.equal(beginning(pen, lanes("x".repeat(400)), 1190), 238);
  assert.equal(beginning(pen, lanes("x".repeat(400)), 390), 110);
});

// Histograms of durations: every duration is in the one bin that holds it, and percentiles are measured values.
import assert from "node:assert/strict";
import test from "node:test";

import { binsOf, MOST_BINS, percentile, placeOf, ticksOf } from "../../../templates/scripts/tables/histogram.js";

let seed = 7;
const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
const ascending = (values) => Float64Array.from(values).sort();
const samples = [
  ascending([5]), ascending([0]), ascending([0, 0, 3]), ascending([7, 7, 7]), ascending([10, 20, 2 ** 53 - 1]),
  ascending(Array.from({ length: 1000 }, () => Math.round(1000 + 50 * random()))),
  ...[10, 1e3, 1e6, 1e12].map((high) => ascending(Array.from({ length: 500 }, () => Math.round(high ** random())))),
];

test("bins hold all durations exactly once, in whole ns that follow each other", () => {
  for (const sorted of samples) {
    const { bins, low, end } = binsOf(sorted);
    assert.equal(bins.reduce((sum, bin) => sum + bin.count, 0), sorted.length);
    assert.ok(bins.length >= 1 && bins.length <= MOST_BINS);
    assert.equal(bins[0].from, sorted[0]);
    assert.equal(bins.at(-1).to, end);
    assert.ok(low >= 1 && end > sorted.at(-1));
    bins.forEach((bin, i) => {
      assert.ok(Number.isInteger(bin.from) && bin.from < bin.to);
      assert.ok(bin.left >= 0 && bin.left <= bin.right && bin.right <= 1);
      assert.equal(bin.count, sorted.filter((each) => each >= bin.from && each < bin.to).length);
      if (i) assert.equal(bin.from, bins[i - 1].to);
    });
  }
});

test("bins are equally wide as logarithms where ns are fine enough", () => {
  const { bins } = binsOf(ascending([1e6, 5e8, 1e9]));
  for (const { left, right } of bins) assert.ok(Math.abs(right - left - 1 / MOST_BINS) < 1e-4);
});

test("percentiles are values by nearest rank", () => {
  const sorted = ascending(Array.from({ length: 20 }, (_, i) => i + 1));
  assert.deepEqual([0, 5, 50, 95, 96, 100].map((percent) => percentile(sorted, percent)), [1, 1, 10, 19, 20, 20]);
  assert.equal(percentile(ascending([3]), 95), 3);
});

test("ticks are round, ascend, and are within the range", () => {
  for (const sorted of samples) {
    const { low, end } = binsOf(sorted);
    const ticks = ticksOf(low, end);
    assert.deepEqual(ticks, [...new Set(ticks)].sort((a, b) => a - b));
    for (const tick of ticks) {
      assert.ok(tick >= low && tick <= end && Number.isFinite(placeOf(tick, low, end)));
      assert.match(String(tick), /^(15|[1-9])0*$/);
    }
  }
  assert.deepEqual(ticksOf(1000, 1e6), [1000, 3000, 1e4, 3e4, 1e5, 3e5, 1e6]);
});

// Columns, ranges, JSON members, protobuf and SVG texts.
import assert from "node:assert/strict";
import test from "node:test";

import { floats, planes, signed } from "../../../templates/scripts/timeline/decode.js";
import { ascii, beside, members } from "../../../templates/scripts/timeline/members.js";
import { between, extremes, lower, stretches } from "../../../templates/scripts/timeline/ranges.js";
import { escaped } from "../../../templates/scripts/timeline/saving/pen.js";
import { Proto } from "../../../templates/scripts/timeline/saving/proto.js";
import { matches, words } from "../../../templates/scripts/flame/search.js";
import { calls, finish, inTime, node, sandwich, tree } from "../../../templates/scripts/flame/tree.js";

test("planes hold whole numbers up to 2^53", () => {
  const out = new Float64Array(2), bytes = Uint8Array.of(7, 255, 1, 255, 0, 255, 2, 255, 0, 255, 0, 255, 0, 31, 0);
  assert.equal(planes(bytes, 0, 2, out), 15);
  assert.deepEqual([...out], [2 ** 53 - 1, 131073]);
  assert.deepEqual([0, 1, 2, 3].map(signed), [0, -1, 1, -2]);
  assert.deepEqual([...floats(new Uint8Array([9, 0, 0, 0, 0, 0, 0, 248, 63]), 1, 1)], [1.5]);
});

test("stretches are what their events cover together", () => {
  const [starts, ends] = stretches(Float64Array.of(5, 0, 3, 20), Float64Array.of(9, 4, 5, 21));
  assert.deepEqual([[...starts], [...ends]], [[0, 20], [9, 21]]);
});

test("least and largest samples are those of a scan", () => {
  const values = Float64Array.from({ length: 500 }, (_, i) => (i * 7919) % 503), it = { values, extremes: extremes(values) };
  for (const [i, j] of [[0, 500], [1, 2], [63, 65], [64, 128], [10, 400], [5, 5]]) {
    const part = values.slice(i, j);
    assert.deepEqual(between(it, i, j), [Math.min(...part), Math.max(...part)]);
  }
  assert.equal(lower([1, 3, 3, 7], 3), 1);
  assert.equal(lower([1, 3, 3, 7], 8), 4);
});

test("members keep the digits of their numbers where the engine can, and other text whole", () => {
  assert.deepEqual(members('{"a":1.5,"b":"x","c":[1]}'), [["a", "1.5", true], ["b", "x", false], ["c", "[1]", false]]);
  assert.deepEqual(members("[1]"), [["args", "[1]", false]]);
  assert.deepEqual(members(""), []);
  assert.deepEqual(beside('{"own":1}'), ['"own":1']);
  assert.deepEqual(beside('{"stream":1}'), ['"args":{"stream":1}']);
  assert.equal(ascii("\"\\\\\"<"), "\"\\u005c\"\\u003c");
});

test("varints and fields are those of protobuf", () => {
  assert.deepEqual([...new Proto(1).number(1, 150).text(2, "é").taken()], [8, 150, 1, 18, 2, 195, 169]);
  assert.deepEqual([...new Proto().varint(-1n).taken()], [...Array(9).fill(255), 1]);
});

test("text of a trace is escaped in a picture", () => {
  assert.equal(escaped("<a>&\"'\0\ud800"), "&lt;a&gt;&amp;&quot;&#39;\ufffd\ufffd");
});

test("a sandwich counts a name that calls itself once", () => {
  const root = node(-1), a = node(0, root), b = node(1, a), again = node(0, b);
  for (const [it, under, value] of [[root, null, 10], [a, root, 10], [b, a, 6], [again, b, 4]]) {
    it.value = value;
    under?.children.push(it);
  }
  finish(root);
  const [callers, callees] = sandwich(root, 0);
  assert.equal(callers.value, 10);
  assert.deepEqual(callees.children.map(({ code, value }) => [code, value]), [[1, 6]]);
});

test("a search counts the outermost matching paths, and a path within one never again", () => {
  const figure = { names: [5, 6, 5, 7, 6], up: [1, 1, 1, 4, 1], new: [0, 0, 4, 0, 3] };
  const data = { texts: ["", "", "", "", "", "Load", "parse", "\u0001"], shown: { 7: "\\x01" } };
  const { texts, codes, parents } = calls(figure, data);
  assert.deepEqual([texts, codes, parents], [["Load", "parse", "\\x01"], [0, 1, 0, 2, 1], [-1, 0, 1, -1, 3]]);
  const { made, root } = tree(codes, parents);
  for (let i = made.length - 1; i >= 0; i--) { made[i].value += figure.new[i]; made[i].under.value += made[i].value; }
  const label = (code) => texts[code];
  const load = matches(root, label, " load ");
  assert.deepEqual([load.value, load.paths.length, [...load.codes]], [4, 1, [0]]);
  assert.equal(matches(root, label, "PARSE").value, 7);
  assert.equal(matches(root, label, ""), null);
  assert.equal(words(matches(root, label, "a"), 7, (value) => `${value} ns`), "2 names, 2 call paths: 7 ns, 100.0 %");
  assert.equal(words(matches(root, label, "zzz"), 7, String), "no name matches");
});

test("in order of time a call that was left and called again is there twice, and values add up", () => {
  const codes = [0, 1, 2], parents = [-1, 0, 0]; // main, main > a, main > b
  const root = inTime(codes, parents, [1, 2, 1, 1, 0], [3, 1, 4, 2, 5]);
  const [main] = root.children;
  assert.deepEqual([root.value, main.value, main.self], [15, 15, 5]);
  assert.deepEqual(main.children.map((it) => [it.code, it.value]), [[1, 3], [2, 1], [1, 6]]);
  assert.equal(main.children[0].under, main);
});

// Flame graphs that are in the page as data: of a comparison, and of sampled stacks.

import { dark, graph, pick, tone } from "./graph.js";
import { finish, inTime, tree } from "./tree.js";
import { toneOf, tonesOf, variableColor } from "../page/tones.js";
import { count, exact as exactText, span as spanText } from "../page/texts.js";

export function ofSides(mount, { title, texts, codes, parents, base, new: now }) {
  const { made, root } = tree(codes, parents);
  for (let place = codes.length - 1; place >= 0; place--) { // parents have smaller numbers
    const it = made[place];
    it.value += now[place];
    it.base += base[place];
    it.under.value += it.value;
    it.under.base += it.base;
  }
  const widthOf = pick("Width", [["new", "as wide as the new time"], ["base", "as wide as the base's time"]], () => reshape());
  const signed = (ns) => (ns > 0 ? `+${spanText(ns)}` : spanText(ns));
  const source = {
    label: (code) => texts[code],
    ns: (value) => value,
    amount: spanText,
    colors(it) {
      const [before, after] = widthOf.value === "new" ? [it.base, it.value] : [it.value, it.base];
      const change = (after - before) / Math.max(before, after, 1);
      if (Math.abs(change) < 0.01) return tone(variableColor("idle"), 0);
      return tone(variableColor(change > 0 ? "slow-2" : "fast-2"), 0.7 * (1 - Math.min(1, Math.abs(change) * 4)));
    },
    facts(it) {
      const [before, after] = widthOf.value === "new" ? [it.base, it.value] : [it.value, it.base];
      const ratio = before ? `, ${after >= before ? "+" : ""}${((100 * (after - before)) / before).toFixed(1)} %` : "";
      return `${spanText(before)} -> ${spanText(after)}, ${signed(after - before)}${ratio}`;
    },
    actions: () => [],
  };
  const drawn = graph(mount, source, [widthOf]);
  let width = "new";
  function reshape() {
    if (width !== widthOf.value) for (const it of [root, ...made]) [it.value, it.base] = [it.base, it.value];
    width = widthOf.value;
    drawn.set(finish(root), `${title}: ${source.facts(root)}. Red is slower, blue is faster.`);
  }
  reshape();
  window.tracekit.flame = { drawn };
}

export function ofSamples(mount, { title, texts, codes, parents, new: own, unit, order = [], lengths }) {
  const { made, root } = tree(codes, parents);
  for (let place = codes.length - 1; place >= 0; place--) { // parents have smaller numbers
    made[place].value += own[place];
    made[place].under.value += made[place].value;
  }
  const amount = (value) => (unit === "ns" ? spanText(value) : `${count(value)} ${unit}`);
  const source = {
    label: (code) => texts[code],
    ns: (value) => value,
    amount,
    exact: (value) => (unit === "ns" ? exactText(value) : amount(value)),
    colors: ({ code }) => tone(tonesOf(variableColor("python"), dark.matches)[toneOf(texts[code])], 0),
    facts: (it, top) => `${amount(it.value)}, ${((100 * it.value) / (top.value || 1)).toFixed(1)} %, self ${amount(it.self)}`,
    actions: () => [],
  };
  const orderOf = pick("Order", [["merged", "merged by call path"], ["time", "in order of time"]], () => reshape());
  const drawn = graph(mount, source, order.length ? [orderOf] : []);
  finish(root);
  function reshape() {
    const shown = orderOf.value === "time" ? inTime(codes, parents, order, lengths) : root;
    const how = shown === root ? "" : " in order of time, thread after thread, without the time between samples";
    drawn.set(shown, `${title}: ${amount(root.value)} in all${how}.`);
  }
  reshape();
  window.tracekit.flame = { drawn };
}

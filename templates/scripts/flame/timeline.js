// The flame graph of a report, from the columns of its timeline.

import { graph, pick } from "./graph.js";
import { finish, node } from "./tree.js";
import { emit, on } from "../page/bus.js";
import { button } from "../page/dom.js";
import { slicer } from "../page/slices.js";
import { count, span as spanText } from "../page/texts.js";

export function ofTimeline(mount, timeline) {
  const { head, data, first, lanes, groups, start, name: nameOf } = timeline;
  const { names, kinds, kindOf } = timeline.parts;
  const { unit } = head;
  const END = Math.max(head.span, 1) + 1;
  const threads = lanes.map((lane, number) => ({ lane, number })).filter(({ lane }) => lane.host && !lane.note);
  if (!threads.length) return;

  // Steps have one name, whatever their number.
  const labels = [...names];
  const codeOf = names.map((text, code) => code);
  const step = kinds.indexOf("step"), steps = new Map();
  names.forEach((text, code) => {
    if (kindOf[code] !== step) return;
    const plain = text.replace(/\d+/g, "…");
    if (!steps.has(plain)) { steps.set(plain, code); labels[code] = plain; }
    codeOf[code] = steps.get(plain);
  });

  const DEVICE = names.length; // codes from here on are device work below a call: code + DEVICE

  /** An empty tree; node 0 holds all others. `key` finds the child of a node by code. */
  function newTree() {
    return { parent: [-1], code: [-1], total: [0], below: [0], calls: [0], device: [0], longest: [-1], key: new Map(), roots: 0 };
  }

  function child(tree, parent, code) {
    const key = parent * (2 * DEVICE + 1) + code;
    let found = tree.key.get(key);
    if (found === undefined) {
      found = tree.parent.length;
      tree.key.set(key, found);
      tree.parent.push(parent);
      tree.code.push(code);
      for (const column of [tree.total, tree.below, tree.calls, tree.device]) column.push(0);
      tree.longest.push(-1);
    }
    return found;
  }

  /** Adds the ranges of a lane between t0 and t1 to the tree; nodeOf gets the node of each. */
  async function addLane(tree, lane, t0, t1, nodeOf, slice) {
    const rows = Array.from({ length: lane.depth }, (_, k) => lane.row + k);
    const at = rows.map((r) => data.seek(r, t0));
    const stack = []; // [end, node] of the ranges that are open
    for (;;) {
      let best = -1, bestStart = Infinity, bestLength = -1;
      for (let k = 0; k < rows.length; k++) {
        const i = at[k];
        if (i >= first[rows[k] + 1]) continue;
        const s = start[i];
        if (s > bestStart) continue;
        const length = data.length(rows[k], i);
        if (s < bestStart || length > bestLength) { best = k; bestStart = s; bestLength = length; }
      }
      if (best < 0 || bestStart >= t1) return;
      const i = at[best]++;
      const end = bestStart + bestLength;
      while (stack.length && stack[stack.length - 1][0] <= bestStart) stack.pop();
      let holder = stack.length - 1;
      while (holder >= 0 && stack[holder][0] < end) holder--;
      const parent = holder < 0 ? 0 : stack[holder][1];
      const node = child(tree, parent, codeOf[nameOf[i]]);
      const inside = Math.min(end, t1) - Math.max(bestStart, t0);
      tree.total[node] += inside;
      tree.below[parent] += inside;
      tree.calls[node]++;
      if (tree.longest[node] < 0 || bestLength > data.length(data.rowOf(tree.longest[node]), tree.longest[node])) tree.longest[node] = i;
      nodeOf[i] = node + 1;
      stack.push([end, node]);
      if (slice.due()) await slice.rest();
    }
  }

  /** Adds the device work that ranges launched: to the call itself as a child, and to all that hold the call. */
  async function addDevice(tree, nodeOf, slice) {
    const { link } = data;
    for (let r = 0; r < data.ROWS && link.length; r++) {
      for (let j = first[r]; j < first[r + 1]; j++) {
        const call = link[j];
        if (call < 0 || !nodeOf[call]) continue;
        const length = data.length(r, j);
        const work = child(tree, nodeOf[call] - 1, DEVICE + nameOf[j]);
        tree.calls[work]++;
        for (let node = work; node >= 0; node = tree.parent[node]) tree.device[node] += length;
        if (tree.longest[work] < 0 || length > data.length(data.rowOf(tree.longest[work]), tree.longest[work])) tree.longest[work] = j;
      }
      if (slice.due()) await slice.rest();
    }
  }

  /** The tree of some threads between t0 and t1, or null when another one is wanted meanwhile. */
  async function treeOf(chosen, t0, t1, wanted = () => true) {
    const tree = newTree();
    const nodeOf = new Int32Array(data.N);
    const slice = slicer();
    for (const { lane } of chosen) {
      await addLane(tree, lane, t0, t1, nodeOf, slice);
      if (!wanted()) return null;
    }
    await addDevice(tree, nodeOf, slice);
    if (!wanted()) return null;
    tree.total[0] = tree.below[0];
    return tree;
  }

  const plain = (code) => (code >= DEVICE ? code - DEVICE : code);

  function shape(tree, metric) {
    const value = metric === "device" ? tree.device : tree.total;
    const made = tree.parent.map((_, place) => ({ ...node(tree.code[place]), value: value[place], calls: tree.calls[place], place }));
    for (let place = 1; place < made.length; place++) {
      if (made[place].value <= 0) continue;
      made[place].under = made[tree.parent[place]];
      made[tree.parent[place]].children.push(made[place]);
    }
    return finish(made[0]);
  }

  let tree = null, turn = 0, measured = null;
  const groupOf = new Map();
  groups.forEach((group) => group.lanes.forEach((lane) => groupOf.set(lane, group.label)));
  const each = threads.map(({ lane, number }) => [String(number), `${groupOf.get(number) ?? ""} ${lane.label}`.trim()]);
  const threadPick = pick("Threads", threads.length > 1 ? [["all", "all threads of programs, merged"], ...each] : each, () => renew());
  const metricPick = pick("Time", [["host", "time of the host"], ["device", "device time launched"]], () => reshape());
  const source = {
    label: (code) => labels[plain(code)],
    ns: (value) => value * unit,
    amount: (value) => spanText(Math.round(value * unit)),
    colors: ({ code }) => [timeline.parts.fullColor(plain(code)), timeline.parts.textColor(plain(code))],
    facts(it, root, halves) {
      const parts = [`${spanText(Math.round(it.value * unit))}, ${((100 * it.value) / (root.value || 1)).toFixed(1)} %`, `self ${spanText(Math.round(it.self * unit))}`, `${count(it.calls)} ${it.calls === 1 ? "call" : "calls"}`];
      if (!halves && metricPick.value === "host" && tree.device[it.place]) parts.push(`launched ${spanText(Math.round(tree.device[it.place] * unit))} of device time`);
      return parts.join(" · ");
    },
    actions(it) {
      const code = plain(it.code), longest = tree.longest[(it.of ?? it).place] ?? -1;
      const mine = names.filter((text, other) => codeOf[other] === code);
      const made = [button("mark on the timeline", () => emit("mark", { names: mine, kinds: [kinds[kindOf[code]]], from: "flame" }))];
      if (longest >= 0) made.push(button("go to the longest", () => emit("goto", { start: Math.round(start[longest] * unit), end: Math.round(timeline.end(longest) * unit), places: [longest], from: "flame" })));
      return made;
    },
  };
  const drawn = graph(mount, source, [threadPick, metricPick]);

  /** Threads with more than the profiler's own spans, unless there are no others. */
  function ofPrograms() {
    const other = new Set(["other", "overhead"].map((kind) => kinds.indexOf(kind)));
    const real = threads.filter(({ lane }) => {
      for (let i = first[lane.row]; i < first[lane.row + lane.depth]; i++) if (!other.has(kindOf[nameOf[i]])) return true;
      return false;
    });
    return real.length ? real : threads;
  }

  async function renew() {
    const mine = ++turn;
    const which = threadPick.value === "all" ? ofPrograms() : threads.filter(({ number }) => String(number) === threadPick.value);
    const [t0, t1] = measured ? [measured.start / unit, measured.end / unit] : [0, END];
    const made = await treeOf(which, t0, t1, () => mine === turn);
    if (!made) return;
    tree = made;
    metricPick.hidden = !tree.device[0];
    if (metricPick.hidden) metricPick.value = "host";
    reshape();
  }

  function reshape() {
    const root = shape(tree, metricPick.value);
    const what = metricPick.value === "device" ? "device time that ranges launched" : "time of ranges of the host";
    const where = measured ? `the measured ${spanText(Math.round(measured.end - measured.start))}` : "the whole trace";
    const lacking = head.missing?.length ? " Events beyond the page's budget are not counted." : "";
    drawn.set(root, root.value ? `${spanText(Math.round(root.value * unit))} of ${what}, merged by call path, in ${where}.${lacking}` : `There is no ${what} in ${where}.${lacking}`);
  }

  on("window", ({ start: from, end }) => {
    measured = from === null || from === undefined ? null : { start: from, end };
    if (tree) renew();
  });
  // It is made when it comes into sight: a page that nobody scrolls pays nothing.
  timeline.ready.then(() => {
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      renew();
    }, { rootMargin: "300px" });
    seen.observe(mount);
  });
  window.tracekit.flame = {
    drawn, renew,
    /** Every call path with its figures in whole ns, for tests and for the console: [names, total, self, calls, device]. */
    async paths(which = "all", t0 = 0, t1 = END) {
      const made = await treeOf(which === "all" ? ofPrograms() : threads.filter(({ number }) => number === which), t0, t1);
      const path = [[]];
      return made.parent.map((parent, place) => {
        if (place) path[place] = [...path[parent], `${made.code[place] >= DEVICE ? "device " : ""}${source.label(made.code[place])}`];
        return [path[place], made.total[place] * unit, Math.max(0, made.total[place] - made.below[place]) * unit, made.calls[place], made.device[place] * unit];
      }).slice(1);
    },
  };
}

"use strict";
// Flame graphs: call paths merged by name, as wide as their time. There are two of them.
//
// That of a report is made from the columns of the timeline: the ranges of the host with the device time that they
// launched, of the whole page or of the measured window. A range is below the innermost one of its thread that holds
// it whole; so totals are exact, and self times are what no range below takes. That of a comparison is in the page as
// data: its width is the new time, its colour the difference.
(() => {
  const { on, emit, span: spanText, exact: exactText, count, slicer } = window.tracekit ?? {};
  if (!on) return;
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function el(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value !== false) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  }
  const button = (label, action, attributes = {}) => el("button", { type: "button", onclick: action, ...attributes }, label);

  const pick = (label, options, change) => el("select", { "aria-label": label, onchange: change }, ...options.map(([value, text]) => el("option", { value }, text)));

  // ------------------------------------------------------------------ nodes: {code, value, base, self, calls, children, under}

  const node = (code, under = null) => ({ code, value: 0, base: 0, self: 0, calls: 0, children: [], under });

  /** Sorts the children, largest first, and sets self values; not by recursion: stacks of Python are deep. */
  function finish(root) {
    const waiting = [root];
    while (waiting.length) {
      const it = waiting.pop();
      it.children.sort((a, b) => b.value - a.value || a.code - b.code);
      let below = 0;
      for (const each of it.children) { below += each.value; waiting.push(each); }
      it.self = Math.max(0, it.value - below);
    }
    return root;
  }

  /** What calls a name and what it calls, merged over all its places: [callers, callees], both from the name on. */
  function sandwich(root, code) {
    const up = node(code), down = node(code);
    const add = (to, by) => { to.value += by.value; to.base += by.base; to.calls += by.calls; };
    const grow = (under, from, by) => {
      let found = under.children.find((each) => each.code === from.code);
      if (!found) under.children.push(found = { ...node(from.code, under), of: from });
      add(found, by);
      return found;
    };
    const waiting = [[root, null, false]]; // a node, its place below `down`, and whether the name holds it already
    while (waiting.length) {
      const [it, place, inside] = waiting.pop();
      let mine = place && grow(place, it, it);
      if (it.code === code && !inside) { // the outermost alone: what it calls of itself counts once
        add(up, it);
        add(down, it);
        let at = up;
        for (let above = it.under; above && above.code >= 0; above = above.under) at = grow(at, above, it);
        mine = down;
      }
      for (const each of it.children) waiting.push([each, mine, inside || it.code === code]);
    }
    return [finish(up), finish(down)];
  }

  // ------------------------------------------------------------------ one graph: what is drawn, hands and keys

  const ROW = 18;
  const MOST_ROWS = 80;
  const LETTER = 6.62; // px of a letter of the font below

  /** source: label(code), colors(node), facts(node), actions(node): what a graph is of. tools: elements above it. */
  function graph(mount, source, tools) {
    const upButton = button("all", () => focus(null), { hidden: true });
    const sandwichButton = button("callers and callees", () => turn(), { "aria-pressed": "false", disabled: true });
    const about = el("p", { class: "note", "aria-live": "polite" });
    const canvas = el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "flame graph" });
    const tip = el("div", { class: "flame-tip", hidden: true });
    const detail = el("div", { class: "flame-detail", role: "status", "aria-live": "polite" });
    mount.replaceChildren(el("div", { class: "flame-tools" }, ...tools, sandwichButton, upButton), about, el("div", { class: "flame-stage" }, canvas, tip), detail);
    let root = null, shown = null, chosen = null, halves = null; // shown: the node over the whole width
    let lit = new Set(); // names that a table marks
    let boxes = []; // [x, y, width, node] of what is drawn

    function set(made, text) {
      root = made;
      about.textContent = text;
      chosen = shown = halves = null;
      update();
    }

    function update() {
      upButton.hidden = !shown;
      sandwichButton.disabled = !halves && !chosen;
      sandwichButton.setAttribute("aria-pressed", String(Boolean(halves)));
      if (chosen) {
        detail.replaceChildren(
          el("p", { class: "flame-name" }, source.label(chosen.code).slice(0, 2000)),
          el("p", { title: source.exact?.(chosen.value) ?? exactText(Math.round(source.ns(chosen.value))) }, source.facts(chosen, root, halves)), ...source.actions(chosen));
      } else detail.replaceChildren();
      draw();
    }

    function focus(it) { shown = it; update(); }
    function choose(it) { chosen = it && it.code >= 0 ? it : null; update(); }
    function turn() {
      halves = halves || !chosen ? null : sandwich(root, chosen.code);
      chosen = shown = null;
      update();
    }

    /** Puts a node and what is below it into boxes; sign -1 grows upwards. Returns the deepest level. */
    function place(top, width, level, sign) {
      const waiting = [[top, 0, width, level]];
      let deepest = 0;
      while (waiting.length) {
        const [it, left, wide, y] = waiting.pop();
        boxes.push([left, y, wide, it]);
        deepest = Math.max(deepest, Math.abs(y - level));
        let at = left;
        for (const each of it.children) {
          const part = it.value ? (wide * each.value) / it.value : 0;
          if (part >= 0.5) waiting.push([each, at, part, y + sign]); // narrower ones are in the tables and below a zoom
          at += part;
        }
      }
      return deepest;
    }

    function draw() {
      if (!root) return;
      const ratio = devicePixelRatio || 1;
      const width = Math.max(200, mount.clientWidth);
      boxes = [];
      let rows, zero = 0;
      if (halves) {
        zero = place(halves[0], width, 0, -1);
        const callers = boxes.length;
        rows = zero + 1 + place(halves[1], width, 0, 1);
        boxes.splice(callers, 1); // the name itself is there once
      } else {
        const path = [];
        for (let it = shown ?? root; it; it = it.under) path.unshift(it);
        path.slice(0, -1).forEach((it, level) => boxes.push([0, level, width, it]));
        rows = path.length + place(shown ?? root, width, path.length - 1, 1);
      }
      rows = Math.min(rows, MOST_ROWS);
      for (const box of boxes) box[1] = (box[1] + zero) * ROW;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(rows * ROW * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${rows * ROW}px`;
      const c = canvas.getContext("2d");
      c.setTransform(ratio, 0, 0, ratio, 0, 0);
      const style = getComputedStyle(document.documentElement);
      const fg = style.getPropertyValue("--fg").trim(), soft = style.getPropertyValue("--line").trim();
      c.font = "11px ui-monospace, SF Mono, Menlo, Consolas, monospace";
      c.textBaseline = "middle";
      for (const [x, y, wide, it] of boxes) {
        if (y >= rows * ROW) continue;
        const [fill, ink] = it.code < 0 ? [soft, fg] : source.colors(it);
        const text = it.code < 0 ? "all" : source.label(it.code);
        c.globalAlpha = lit.size && it.code >= 0 && !lit.has(text) ? 0.35 : 1;
        c.fillStyle = fill;
        c.fillRect(x, y, Math.max(0.5, wide - 0.5), ROW - 1);
        c.globalAlpha = 1;
        if (wide > 26) {
          const room = Math.floor((wide - 8) / LETTER);
          c.fillStyle = ink;
          c.fillText(text.length > room ? `${text.slice(0, Math.max(1, room - 1))}…` : text, x + 4, y + ROW / 2);
        }
        if (it === chosen) {
          c.strokeStyle = fg;
          c.lineWidth = 2;
          c.strokeRect(x + 1, y + 1, Math.max(1, wide - 2.5), ROW - 3);
        }
      }
      canvas.setAttribute("aria-label", `Flame graph: ${about.textContent} Arrow keys move, Enter widens, Escape goes back.`);
    }

    function hit(event) {
      const box = canvas.getBoundingClientRect();
      const x = event.clientX - box.left, y = event.clientY - box.top;
      return boxes.find(([left, top, wide]) => x >= left && x < left + wide && y >= top && y < top + ROW)?.[3] ?? null;
    }

    canvas.addEventListener("pointermove", (event) => {
      const it = hit(event);
      tip.hidden = !it || it.code < 0;
      if (tip.hidden) return;
      tip.replaceChildren(el("b", {}, source.label(it.code).slice(0, 2000)), el("span", {}, source.facts(it, root, halves)));
      const box = canvas.getBoundingClientRect();
      tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, mount.clientWidth - tip.offsetWidth))}px`;
      tip.style.top = `${event.clientY - box.top + 18}px`;
    });
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.addEventListener("click", (event) => {
      const it = hit(event);
      if (!it) return;
      choose(it);
      if (!halves) focus(it.code < 0 ? null : it);
    });
    canvas.addEventListener("keydown", (event) => {
      const row = chosen?.under?.children ?? [];
      const moves = {
        ArrowDown: () => (chosen ?? shown ?? halves?.[1] ?? root).children[0] ?? chosen,
        ArrowUp: () => (chosen?.under && chosen.under.code >= 0 ? chosen.under : chosen),
        ArrowLeft: () => row[row.indexOf(chosen) - 1] ?? chosen,
        ArrowRight: () => row[row.indexOf(chosen) + 1] ?? chosen,
      };
      if (moves[event.key]) choose(moves[event.key]());
      else if (event.key === "Enter" && chosen && !halves) focus(chosen);
      else if (event.key === "Escape" && halves) turn();
      else if (event.key === "Escape" && shown) focus(null);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    on("mark", ({ names }) => { lit = new Set(names ?? []); draw(); });
    dark.addEventListener("change", draw);
    new ResizeObserver(draw).observe(mount);
    return {
      set, choose, turn, focus,
      get root() { return root; },
      get shown() { return boxes.map(([x, y, wide, it]) => [it.code < 0 ? "" : source.label(it.code), x, y, wide, source.ns(it.value)]); },
    };
  }

  const linear = (part) => (part / 255 <= 0.04 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  /** A colour lifted away from that of its text, which keeps a contrast of 4.5 to 1, and the colour of the text. */
  function tone(hex, lift) {
    const rgb = [1, 3, 5].map((x) => parseInt(hex.slice(x, x + 2), 16));
    const [r, g, b] = rgb.map(linear);
    const bright = 1.05 / (0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05) < 4.5;
    return [`rgb(${rgb.map((part) => Math.round(part + ((bright ? 255 : 0) - part) * lift))})`, bright ? "#000" : "#fff"];
  }

  // ------------------------------------------------------------------ from the columns of a timeline

  function ofTimeline(mount, timeline) {
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
      colors: ({ code }) => timeline.parts.colorsOf(plain(code)),
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

  // Return the texts, a node of each name (a number of them) under its parent, and the root of all.
  function tree(names, parents) {
    const texts = [...new Set(names)];
    const codeOf = new Map(texts.map((text, code) => [text, code]));
    const made = names.map((text) => node(codeOf.get(text)));
    const root = node(-1);
    names.forEach((_, place) => {
      made[place].under = parents[place] < 0 ? root : made[parents[place]];
      made[place].under.children.push(made[place]);
    });
    return { texts, made, root };
  }

  // ------------------------------------------------------------------ of a comparison: {names, parents, base, new}

  function ofSides(mount, { title, names, parents, base, new: now }) {
    const { texts, made, root } = tree(names, parents);
    for (let place = names.length - 1; place >= 0; place--) { // parents have smaller numbers
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
      colors(it) {
        const [before, after] = widthOf.value === "new" ? [it.base, it.value] : [it.value, it.base];
        const change = (after - before) / Math.max(before, after, 1);
        const [slow, fast, same] = dark.matches ? ["#d0707a", "#6fa3d8", "#3a4552"] : ["#c2556e", "#3b6fb6", "#d8dde3"];
        if (Math.abs(change) < 0.01) return tone(same, 0);
        return tone(change > 0 ? slow : fast, 0.7 * (1 - Math.min(1, Math.abs(change) * 4)));
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

  // ------------------------------------------------------------------ of samples: {names, parents, new, unit}

  function ofSamples(mount, { title, names, parents, new: own, unit }) {
    const { texts, made, root } = tree(names, parents);
    for (let place = names.length - 1; place >= 0; place--) { // parents have smaller numbers
      made[place].value += own[place];
      made[place].under.value += made[place].value;
    }
    const amount = (value) => (unit === "ns" ? spanText(value) : `${count(value)} ${unit}`);
    const inks = ["#e8965a", "#d9a441", "#c97f6d", "#b9975b", "#d48a8a", "#a58f6f"];
    const source = {
      label: (code) => texts[code],
      ns: (value) => value,
      exact: (value) => (unit === "ns" ? exactText(value) : amount(value)),
      colors: ({ code }) => tone(inks[code % inks.length], dark.matches ? 0.05 : 0.25),
      facts: (it, top) => `${amount(it.value)}, ${((100 * it.value) / (top.value || 1)).toFixed(1)} %, self ${amount(it.self)}`,
      actions: () => [],
    };
    const drawn = graph(mount, source, []);
    drawn.set(finish(root), `${title}: ${amount(root.value)} in all.`);
    window.tracekit.flame = { drawn };
  }

  for (const mount of document.querySelectorAll(".flame")) {
    const found = mount.querySelector("script");
    const data = found && JSON.parse(found.textContent);
    if (data) (data.unit ? ofSamples : ofSides)(mount, data);
    else if (window.tracekit.timeline?.parts) ofTimeline(mount, window.tracekit.timeline);
    else on("timeline", (timeline) => ofTimeline(mount, timeline));
  }
})();

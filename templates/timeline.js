"use strict";
// The timeline: lanes over time on a canvas, and what hands, keys and other parts of the page do with it.
//
// A pixel column with one event is a full block. A column with several is a bar as high as their exact busy share, in
// the colour of the kind with most of the work, on a pale band. Text of a trace goes in as text nodes or canvas text.
(async () => {
  const mount = document.getElementById("tl");
  const source = document.getElementById("tl-head");
  if (!mount || !source || !window.tracekit?.columns) return;
  const { on, emit, link: address, span: spanText, exact: exactText, count, toast, between } = window.tracekit;
  const head = JSON.parse(source.textContent);
  const face = window.tracekit.timeline = {}; // what other parts may use, complete once `ready` is fulfilled
  let allRead;
  face.ready = new Promise((done) => { allRead = done; });
  const names = await window.tracekit.namesOf(head);
  const data = window.tracekit.columns(head, names);
  const { N, ROWS, start, name, ready } = data;
  const { first, lanes, groups, kindOf, kinds: classes, unit } = head;
  const kinds = classes.map((each) => head.kindsOf?.[each] ?? each); // a class is a kind, or a part of it with a colour of its own
  let SPAN = Math.max(head.span, 1); // one unit more where an event without length is at the very end
  const marks = head.marks ?? [], missing = head.missing ?? [];
  // [start, end, name]; where ranks have steps at the same time, those of the first are the bands above the lanes
  const steps = [];
  for (const [a, length, text] of head.steps ?? []) if (!steps.length || a >= steps[steps.length - 1][1]) steps.push([a, a + length, text]);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const darkScheme = matchMedia("(prefers-color-scheme: dark)");

  // ------------------------------------------------------------------ elements

  function el(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "class") made.className = value;
      else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value === true) made.setAttribute(key, "");
      else if (value !== false && value !== null) made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }
  const key = (text) => el("kbd", {}, text);
  const button = (label, action, attributes = {}) => el("button", { type: "button", onclick: action, ...attributes }, ...[label].flat());

  const find = el("input", { type: "search", placeholder: "search names", autocomplete: "off", spellcheck: "false", "aria-label": "Search names with a regular expression", "aria-describedby": "tl-hits" });
  const hitsText = el("output", { id: "tl-hits", class: "tl-hits" });
  const walkers = el("span", { class: "tl-walk", hidden: true },
    button("‹", () => walk(-1), { "aria-label": "Previous hit (p)", title: "previous hit (p)" }),
    button("›", () => walk(1), { "aria-label": "Next hit (n)", title: "next hit (n)" }),
    button("clear", () => { find.value = ""; clearMarked(); }));
  const hitList = el("div", { class: "tl-list", hidden: true });
  const pathButton = button("critical path", () => showPath(!path), { "aria-pressed": "false", hidden: !head.paths });
  const measureButton = button(["measure ", key("m")], () => measureKey(), { "aria-pressed": "false" });
  const fitButton = button(["fit ", key("f")], () => fit());
  const layerButtons = el("span", { class: "tl-group", role: "group", "aria-label": "Layers shown" });
  const saveMenu = menu("save");
  const markMenu = menu("findings");
  const helpMenu = menu("keys");
  const tools = el("div", { class: "tl-tools" },
    el("label", { class: "tl-find" }, key("/"), find), walkers, hitsText, el("span", { class: "tl-push" }),
    layerButtons, pathButton, markMenu, fitButton, measureButton, saveMenu, helpMenu);

  const over = el("canvas", { class: "tl-over", "aria-hidden": "true" });
  const axis = el("canvas", { class: "tl-axis", "aria-hidden": "true" });
  const body = el("canvas", { "aria-hidden": "true" });
  const top = el("canvas", { class: "tl-top", "aria-hidden": "true" });
  const tall = el("div", { class: "tl-tall" }, el("div", { class: "tl-stick" }, body, top));
  const scroll = el("div", { class: "tl-scroll", tabindex: "0", role: "application", "aria-roledescription": "timeline", "aria-label": `Timeline: ${count(N)} events on ${count(lanes.length)} lanes`, "aria-describedby": "tl-how" }, tall);
  const how = el("p", { id: "tl-how", class: "tl-unseen" }, "Arrow keys select events: left and right along a row, up and down between rows. w and s zoom, a and d move, f fits the selection, m measures it, slash searches, n and p walk the hits. All events and figures are also in the tables of this page.");
  const spoken = el("div", { class: "tl-unseen", role: "status", "aria-live": "polite" });
  const absent = el("p", { class: "tl-absent", hidden: true });
  const legend = el("ul", { class: "tl-legend" });
  const pathText = el("ul", { class: "tl-legend tl-path-key", hidden: true });
  const tip = el("div", { class: "tl-tip", hidden: true });
  const detail = el("section", { class: "tl-card", "aria-label": "Selected event" });
  const range = el("section", { class: "tl-card", "aria-label": "Statistics of the window" });
  const stage = el("div", { class: "tl-stage" }, over, axis, scroll, tip);
  mount.replaceChildren(tools, hitList, stage, absent, legend, pathText, el("div", { class: "tl-cards" }, detail, range), how, spoken);
  mount.classList.add("tl-live");

  function menu(label) {
    const box = el("div", { class: "tl-sheet" });
    const made = el("details", { class: "tl-menu" }, el("summary", {}, label), box);
    made.sheet = box;
    made.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !made.open) return;
      made.open = false;
      made.firstChild.focus();
      event.stopPropagation();
    });
    return made;
  }
  document.addEventListener("pointerdown", (event) => {
    for (const each of [saveMenu, markMenu, helpMenu]) if (each.open && !each.contains(event.target)) each.open = false;
  });

  // ------------------------------------------------------------------ colours

  const hex = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
  const pack = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  const css = (packed) => `#${[packed, packed >> 8, packed >> 16].map((part) => ((part & 255) | 256).toString(16).slice(1)).join("")}`;
  const linear = (part) => (part / 255 <= 0.04 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = (rgb) => 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]);
  const FULL = 16; // shades from the background (0) to the colour
  let color = {}, dark = false;
  let shades = []; // [kind][tone][shade], packed
  let inkOn = []; // [kind][tone]: black or white, what has more contrast with it: at least 4.5 to 1
  const TONES = [0, 0.08, 0.16]; // how far each is from its family's colour to black, on a dark page to white
  /** The tone of a name: the same on every page. */
  const toneOf = Uint8Array.from(names, (text) => {
    let hash = 0;
    for (let i = 0; i < text.length && i < 500; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
    return ((hash ^ (hash >>> 15)) >>> 0) % TONES.length;
  });
  function readTheme() {
    const style = getComputedStyle(document.documentElement);
    const read = (word, instead) => {
      const value = style.getPropertyValue(`--${word}`).trim() || instead;
      return value.length === 4 ? `#${[...value.slice(1)].map((digit) => digit + digit).join("")}` : value;
    };
    dark = darkScheme.matches;
    color = { bg: read("bg", "#ffffff"), fg: read("fg", "#1c2733"), muted: read("muted", "#5d6b79"), line: read("line", "#e2e7ec"), soft: read("soft", "#f6f8fa"), accent: read("accent", "#3b6fb6") };
    const ground = hex(color.bg);
    const bases = head.colors.map((word) => hex(read(word, "#8b8f94")));
    // names of a family differ in lightness: away from the background, so that the contrast of a mark only grows
    shades = bases.map((rgb) => TONES.map((part) => {
      const tone = rgb.map((value) => Math.round(value + ((dark ? 255 : 0) - value) * part));
      return Array.from({ length: FULL + 1 }, (_, s) => pack(...tone.map((value, x) => Math.round(ground[x] + (value - ground[x]) * s / FULL))));
    }));
    inkOn = shades.map((tones) => tones.map((tone) => (luminance(hex(css(tone[FULL]))) > 0.179 ? "#000000" : "#ffffff")));
    legend.replaceChildren(...classes.map((kind, k) => {
      const chip = el("i");
      chip.style.background = css(shades[k][0][FULL]);
      return el("li", {}, chip, kind.replaceAll("_", " "));
    }));
  }

  // ------------------------------------------------------------------ layout: groups, lanes, layers, counters

  const ROW = 15, DEVICE_ROW = 22, GROUP = 26, SUM = 22, COUNTER = 32, GAP = 7;
  const FOLDING = { python: "Python", operators: "operators", calls: "calls" };
  const foldedGroups = new Set();
  const foldedLayers = new Set(); // "lane:layer"
  let items = []; // {y, h, is: "group" | "rows" | "sum" | "counter", group, lane, layer, row, rows, of, each}
  let height = 0;
  const isDevice = (lane) => lane.device ?? (!lane.host && !lane.note);
  const layersOf = lanes.map((lane) => lane.layers?.length ? lane.layers : [["", lane.depth]]);
  const countersOf = groups.map((_, g) => data.counters.filter((it) => it.group === g));
  const looseCounters = data.counters.filter((it) => !(it.group >= 0));
  const groupOfLane = new Int32Array(lanes.length);
  groups.forEach((group, g) => { for (const l of group.lanes) groupOfLane[l] = g; });
  const laneOfRow = new Int32Array(ROWS);
  lanes.forEach((lane, l) => laneOfRow.fill(l, lane.row, lane.row + lane.depth));

  const itemWithRow = new Int32Array(ROWS); // of each row, its block in `items`, or the sum of its folded group
  function layout() {
    items = [];
    let y = 0;
    const put = (h, item) => { items.push({ y, h, ...item }); y += h; };
    const counter = (it, g) => { put(COUNTER, { is: "counter", counter: it, group: g }); y += 3; };
    let host;
    groups.forEach((group, g) => {
      if (group.host && host !== group.host) put(GROUP, { is: "host", host: host = group.host });
      put(GROUP, { is: "group", group: g });
      if (foldedGroups.has(g)) {
        put(SUM, { is: "sum", group: g });
        for (const l of group.lanes) itemWithRow.fill(items.length - 1, lanes[l].row, lanes[l].row + lanes[l].depth);
        y += GAP;
        return;
      }
      for (const l of group.lanes) {
        const lane = lanes[l];
        const each = lane.host ? ROW : DEVICE_ROW;
        let row = lane.row;
        layersOf[l].forEach(([word, of], x) => {
          const rows = foldedLayers.has(`${l}:${x}`) ? Math.min(of, 1) : of;
          if (of) put(each * rows, { is: "rows", group: g, lane: l, layer: x, word, row, rows, of, each });
          if (of) itemWithRow.fill(items.length - 1, row, row + of);
          row += of;
        });
        y += GAP;
      }
      for (const it of countersOf[g]) counter(it, g);
    });
    if (looseCounters.length) {
      put(GROUP, { is: "group", group: -1 });
      if (!foldedGroups.has(-1)) for (const it of looseCounters) counter(it, -1);
    }
    height = y;
    tall.style.height = `${y}px`;
    scroll.style.height = `${Math.min(y + 2, innerWidth < 640 ? 440 : 560)}px`;
  }

  function itemFrom(y) {
    let a = 0, b = items.length;
    while (a < b) {
      const m = (a + b) >> 1;
      if (items[m].y + items[m].h > y) b = m; else a = m + 1;
    }
    return a;
  }
  const itemAt = (y) => { const it = items[itemFrom(y)]; return it && it.y <= y ? it : null; };
  /** The block that shows a row, or where it would be: its folded layer or group. */
  const itemOfRow = (r) => items[itemWithRow[r]] ?? null;
  const groupName = (g) => (g < 0 ? "counters" : groups[g].label);
  const ofHost = (host) => groups.flatMap((group, g) => (group.host === host ? [g] : []));
  const placeName = (l) => [groups[groupOfLane[l]].host, groups[groupOfLane[l]].label, lanes[l].label].filter(Boolean).join(" · ");

  // ------------------------------------------------------------------ view and painting

  const view = { t0: 0, t1: SPAN };
  const AXIS = 26, STEP = 19, MARK = 7, MARK_LEVELS = 8;
  let W = 0, H = 0, LEFT = 150, ratio = 1;
  let selected = -1, hovered = -1, measured = null, measuring = false;
  let marked = null; // {before, text, total}: events that a search, a table or a finding marks
  let markLevels = [], stripHeight = 0;
  const context = body.getContext("2d", { alpha: false });
  let image = null, pixels = null;
  const stats = { frames: 0, rectangles: 0, first: 0, decoded: 0 };

  const X = (t) => LEFT + (t - view.t0) / (view.t1 - view.t0) * (W - LEFT);
  const T = (x) => view.t0 + (x - LEFT) / (W - LEFT) * (view.t1 - view.t0);

  function size(canvas, w, h, down = ratio) {
    const a = Math.round(w * ratio), b = Math.round(h * down);
    if (canvas.width === a && canvas.height === b) return;
    canvas.width = a;
    canvas.height = b;
    canvas.style.width = `${w}px`;
    canvas.style.height = `${h}px`;
  }
  function resize() {
    ratio = Math.min(devicePixelRatio || 1, 2);
    W = scroll.clientWidth;
    H = scroll.clientHeight;
    LEFT = W < 640 ? 88 : 168;
    stripHeight = (steps.length ? STEP : 0) + markLevels.length * MARK + (markLevels.length ? 3 : 0);
    // Across, each device pixel is a column of its own; down, blocks have whole CSS pixels, so half the memory does.
    size(body, W, H, 1);
    size(top, W, H);
    size(over, W, 40);
    size(axis, W, AXIS + stripHeight);
  }

  let queued = 0, bodyDue = true;
  function draw(all = true) {
    bodyDue ||= all;
    if (!queued) queued = requestAnimationFrame(() => { queued = 0; paint(); });
  }
  function paint() {
    if (!scroll.clientWidth) return;
    resize();
    stats.frames++;
    if (bodyDue || body.width !== image?.width || body.height !== image?.height) paintBody();
    bodyDue = false;
    paintTop(top.getContext("2d"));
    paintAxis(axis.getContext("2d"));
    paintOver(over.getContext("2d"));
    if (inside && !tip.hidden && !drag && !pinch && bodyMoved()) showTip(...pointer);
  }
  let tipAt = "", pointer = [0, 0]; // where the mouse is: what is under it changes with each zoom by a key
  function bodyMoved() {
    const now = [view.t0, view.t1, scroll.scrollTop, height].join(" ");
    return now !== tipAt && (tipAt = now) !== "";
  }

  let many = 0, boxes = new Int32Array(1 << 15), fills = new Uint32Array(1 << 13);
  function rect(x, y, w, h, fill) {
    if (many === fills.length) {
      const more = new Int32Array(boxes.length * 2);
      more.set(boxes);
      boxes = more;
      const moreFills = new Uint32Array(fills.length * 2);
      moreFills.set(fills);
      fills = moreFills;
    }
    const o = many * 4;
    boxes[o] = x; boxes[o + 1] = y; boxes[o + 2] = w; boxes[o + 3] = h;
    fills[many++] = fill;
  }

  const labels = []; // [event, x, y, width, height]
  /** One row: y and h in CSS pixels, x0 and w in device pixels. */
  function paintRow(r, y, h, x0, w) {
    const { share, count: n, event, kind } = data.scan(r, view.t0, (view.t1 - view.t0) / w, w);
    const full = h - 1, least = 2;
    const wideEnough = 30 * ratio;
    const lit = marked?.before;
    for (let c = 0; c < w; c++) {
      if (!n[c]) continue;
      const e = event[c], k = kind[c];
      if (e < 0) {
        const i = -1 - e, on_ = !lit || lit[i + n[c]] > lit[i], tone = shades[k][0];
        const up = Math.max(least, Math.round(Math.min(1, share[c]) * full));
        if (up < full) rect(x0 + c, y, 1, full - up, tone[on_ ? 3 : 1]);
        rect(x0 + c, y + full - up, 1, up, tone[on_ ? FULL : 3]);
        continue;
      }
      let z = c + 1;
      while (z < w && event[z] === e && n[z] === 1) z++;
      const on_ = !lit || lit[e + 1] > lit[e], tone = shades[k][toneOf[name[e]]], wide = z - c;
      if (wide > 1) {
        rect(x0 + c, y, wide, full, tone[on_ ? (wide > 5 ? FULL : 14) : 3]);
        if (wide > 5 && c > 0 && n[c - 1]) rect(x0 + c, y, 1, full, tone[on_ ? 9 : 2]);
        if (wide > wideEnough && on_) labels.push([e, x0 + c, y, wide, full]);
      } else rect(x0 + c, y, 1, full, tone[on_ ? Math.max(6, Math.round(share[c] * FULL)) : 3]);
      c = z - 1;
    }
  }

  /** Mean busy share of the outermost rows of a folded group, and the kind with most of it; exact. */
  function groupShares(g, t0, per, w) {
    const sum = new Float64Array(w), kind = new Uint8Array(w), most = new Float64Array(w);
    const mine = groups[g].lanes.map((l) => lanes[l]);
    const own = mine.filter((lane) => !lane.note);
    const of = own.length ? own : mine;
    for (const lane of of) {
      for (let r = lane.row; r < lane.row + (isDevice(lane) ? lane.depth : 1); r++) {
        if (!ready[r]) continue;
        const found = data.scan(r, t0, per, w);
        for (let c = 0; c < w; c++) {
          if (!found.count[c]) continue;
          const share = found.share[c] + 1e-9;
          sum[c] += share;
          if (share > most[c]) { most[c] = share; kind[c] = found.kind[c]; }
        }
      }
    }
    return { sum, kind, lanes: of.length };
  }

  function paintBody() {
    many = 0;
    labels.length = 0;
    const y0 = Math.round(scroll.scrollTop), x0 = Math.round(LEFT * ratio), w = body.width - x0;
    for (let i = itemFrom(y0); i < items.length && items[i].y < y0 + H; i++) {
      const it = items[i];
      if (it.is === "rows") {
        const from = Math.max(0, Math.floor((y0 - it.y) / it.each));
        for (let d = from; d < it.rows && it.y + d * it.each < y0 + H; d++) {
          if (ready[it.row + d]) paintRow(it.row + d, it.y + d * it.each - y0, it.each, x0, w);
        }
      } else if (it.is === "sum") {
        const { sum, kind, lanes: of } = groupShares(it.group, view.t0, (view.t1 - view.t0) / w, w);
        const y = it.y - y0, h = it.h - 2;
        for (let c = 0; c < w; c++) {
          if (!sum[c]) continue;
          const up = Math.max(2, Math.min(h, Math.round(sum[c] / of * h)));
          if (up < h) rect(x0 + c, y, 1, h - up, shades[kind[c]][0][3]);
          rect(x0 + c, y + h - up, 1, up, shades[kind[c]][0][FULL]);
        }
      } else if (it.is === "counter") paintCounter(it, it.y - y0, it.h, x0, w);
    }
    stats.rectangles = many;
    flush();
  }

  /** A counter holds each value until the next sample. A column shows its least value solid, its largest pale. */
  function paintCounter(it, y, h, x0, w) {
    const { times, values, ready: is } = it.counter;
    if (!is || !times.length) return;
    const high = Math.max(it.counter.max ?? 0, 1e-300), solid = pack(...hex(color.accent)), per = (view.t1 - view.t0) / w;
    const mix = (part) => pack(...hex(color.accent).map((v, x) => Math.round(hex(color.bg)[x] + (v - hex(color.bg)[x]) * part)));
    const pale = mix(0.22), middle = mix(0.5);
    const up = (value) => Math.max(0, Math.min(h - 1, Math.round(value / high * (h - 2))));
    let i = lower(times, view.t0 + 1e-9);
    for (let c = 0; c < w; c++) {
      const right = view.t0 + (c + 1) * per;
      let j = i;
      while (j < times.length && times[j] < right) j = j + 64 < times.length && times[j + 64] < right ? j + 64 : j + 1;
      let [a, b] = between(it.counter, i, j);
      if (i > 0) { a = Math.min(a, values[i - 1]); b = Math.max(b, values[i - 1]); }
      i = j;
      if (b === -Infinity) continue;
      const ua = up(a), ub = up(b);
      if (ua) rect(x0 + c, y + h - ua, 1, ua, pale);
      if (ub > ua) rect(x0 + c, y + h - ub, 1, ub - ua, middle);
      rect(x0 + c, y + h - ub - (ub === 0 ? 1 : 0), 1, 1, solid);
    }
  }
  function lower(list, v) {
    let a = 0, b = list.length;
    while (a < b) { const m = (a + b) >> 1; if (list[m] < v) a = m + 1; else b = m; }
    return a;
  }

  function flush() {
    const w = body.width, h = body.height;
    if (image?.width !== w || image.height !== h) {
      image = context.createImageData(w, h);
      pixels = new Uint32Array(image.data.buffer);
    }
    pixels.fill(pack(...hex(color.bg)));
    for (let i = 0, o = 0; i < many; i++, o += 4) {
      const x = boxes[o], wide = boxes[o + 2], fill = fills[i];
      const from = Math.max(0, boxes[o + 1]), to = Math.min(h, boxes[o + 1] + boxes[o + 3]);
      if (wide === 1) for (let y = from, p = from * w + x; y < to; y++, p += w) pixels[p] = fill;
      else for (let y = from, p = from * w + x; y < to; y++, p += w) pixels.fill(fill, p, p + wide);
    }
    context.putImageData(image, 0, 0);
  }

  // Text on the canvas: widths of characters are measured once

  const LONG_NAME = 40; // characters that the list of a window has room for
  const FONT = "11px system-ui, sans-serif", BOLD = "600 12px system-ui, sans-serif";
  const widths = new Map();
  function widthOf(letter) {
    let w = widths.get(letter);
    if (w === undefined) {
      context.font = FONT;
      widths.set(letter, w = context.measureText(letter).width);
    }
    return w;
  }
  /** As much of a text as fits, with "…" where it is cut; "" where not even that much fits. */
  function cut(text, room) {
    let used = 0, fits = 0;
    const dots = widthOf("…");
    for (let i = 0; i < text.length; i++) {
      used += widthOf(text[i]);
      if (used > room) return fits > 1 ? `${text.slice(0, fits)}…` : "";
      if (used <= room - dots) fits = i + 1;
    }
    return text;
  }

  /** A name without its return type and namespaces: they say least, and go first where a name is too long. */
  const bare = new Map();
  function bareName(code) {
    let text = bare.get(code);
    if (text === undefined) {
      const spaces = /(?<![\w>)}])(?:(?:\w{1,64}|\(anonymous namespace\)|<unnamed>|\{anonymous\})::){1,9}(?=[\w~{])/g;
      bare.set(code, text = names[code].replace(/^void (?=[\w({<])/, "").replace(spaces, ""));
    }
    return text;
  }
  function cutName(code, room) {
    const whole = cut(names[code], room);
    return whole === names[code] ? whole : cut(bareName(code), room);
  }

  /** Cuts before the last part of a place, which says most: "process 7 py… · GPU 0". */
  function cutHead(text, room) {
    const at = text.lastIndexOf(" · ");
    if (at < 0 || cut(text, room) === text) return cut(text, room);
    const tail = text.slice(at), used = [...tail].reduce((sum, letter) => sum + widthOf(letter), 0);
    return (cut(text.slice(0, at), room - used) || cut(text, room - used)) + cut(tail, room);
  }

  function ticks() {
    const ns = (view.t1 - view.t0) * unit, raw = ns / Math.max(2, (W - LEFT) / 110);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((m) => m * power >= raw) * power / unit;
    const out = [];
    for (let k = Math.ceil(view.t0 / step); k * step <= view.t1; k++) out.push(k * step);
    return { out, step };
  }

  function triangle(c, x, y, closed) {
    c.fillStyle = color.muted;
    c.beginPath();
    if (closed) { c.moveTo(x - 2, y - 4); c.lineTo(x + 3, y); c.lineTo(x - 2, y + 4); }
    else { c.moveTo(x - 4, y - 2); c.lineTo(x + 4, y - 2); c.lineTo(x, y + 3); }
    c.fill();
  }
  function line(c, x0, y0, x1, y1) {
    c.beginPath();
    c.moveTo(x0, y0);
    c.lineTo(x1, y1);
    c.stroke();
  }

  function paintTop(c, scale = ratio) {
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, top.width, top.height);
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.font = FONT;
    c.lineWidth = 1;
    for (const [e, x, y, w, h] of labels) {
      const text = cutName(name[e], w / ratio - 8);
      if (!text) continue;
      c.fillStyle = inkOn[kindOf[name[e]]][toneOf[name[e]]];
      c.fillText(text, x / ratio + 4, y + h / 2 + 0.5);
    }
    const y0 = Math.round(scroll.scrollTop), tk = ticks();
    c.save();
    c.beginPath();
    c.rect(LEFT, 0, W - LEFT, H);
    c.clip();
    c.strokeStyle = dark ? "#ffffff14" : "#1c273314";
    for (const t of tk.out) { const x = Math.round(X(t)) + 0.5; line(c, x, 0, x, H); }
    paintStepLines(c);
    paintMissing(c, y0);
    if (measured) {
      const a = X(measured[0]), b = X(measured[1]);
      c.fillStyle = dark ? "#7fa9e022" : "#3b6fb61a";
      c.fillRect(a, 0, b - a, H);
      c.strokeStyle = color.accent;
      line(c, a, 0, a, H);
      line(c, b, 0, b, H);
    }
    paintPath(c, y0);
    if (selected >= 0) paintArrows(c, y0);
    if (selected >= 0) outline(c, selected, y0, color.fg, 2);
    if (hovered >= 0 && hovered !== selected) outline(c, hovered, y0, color.fg, 1);
    c.restore();
    paintGutter(c, y0);
  }

  function paintGutter(c, y0) {
    c.fillStyle = color.bg;
    c.fillRect(0, 0, LEFT, H);
    for (let i = itemFrom(y0); i < items.length && items[i].y < y0 + H; i++) {
      const it = items[i], y = it.y - y0;
      c.textAlign = "right";
      c.fillStyle = color.muted;
      c.font = FONT;
      if (it.is === "host") {
        c.fillStyle = color.soft;
        c.fillRect(0, y + 1, W, GROUP - 1);
        triangle(c, 6, y + GROUP / 2 + 1, ofHost(it.host).every((g) => foldedGroups.has(g)));
        c.font = BOLD;
        c.fillStyle = color.fg;
        c.textAlign = "left";
        c.fillText(cut(`host ${it.host}`, (W - 24) / 1.16), 17, y + GROUP / 2 + 1.5);
      } else if (it.is === "group") {
        c.strokeStyle = color.line;
        line(c, 0, Math.round(y) + 0.5, W, Math.round(y) + 0.5);
        triangle(c, 6, y + GROUP / 2 + 1, foldedGroups.has(it.group));
        c.font = BOLD;
        c.fillStyle = color.fg;
        c.textAlign = "left";
        c.fillText(cutHead(groupName(it.group), (W - 24) / 1.16), 17, y + GROUP / 2 + 1.5); // bold is wider
      } else if (it.is === "sum") {
        const n = groups[it.group].lanes.length;
        c.fillText(cut(n === 1 ? "1 lane" : `mean of ${n} lanes`, LEFT - 14), LEFT - 10, y + it.h / 2);
      } else if (it.is === "counter") {
        c.fillText(cut(it.counter.label, LEFT - 14), LEFT - 10, y + 9);
        c.fillText(cut(`up to ${amount(it.counter.max, it.counter.unit)}`, LEFT - 14), LEFT - 10, y + 23);
      } else {
        // the label stays in sight while its block is scrolled through
        const at = Math.min(Math.max(y + it.each / 2, it.each / 2 + 2), y + it.h - it.each / 2);
        const word = it.layer === 0 || !FOLDING[it.word] ? labelOf(it) : FOLDING[it.word];
        const folds = it.of > 1 && it.word !== "ranges";
        const more = folds && it.rows < it.of ? ` (${it.of})` : "";
        c.fillText(cut(word, LEFT - (folds ? 38 : 14) - (more ? 24 : 0)) + more, LEFT - 10, at);
        if (folds) triangle(c, 18, at, it.rows < it.of);
      }
    }
    c.textAlign = "left";
  }
  const labelOf = (it) => (W < 640 ? lanes[it.lane].label.replace(/^(thread|stream) /, "") : lanes[it.lane].label);

  const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
  function amount(value, unitOf = "") {
    if (!Number.isFinite(value)) return "not known";
    if (unitOf === "ns") return spanText(Math.round(value));
    if (unitOf === "bytes" || unitOf === "B") {
      // As in the tables, so that a peak reads the same in both.
      if (Math.abs(value) < 1024) return `${NUMBER.format(value)} bytes`;
      const step = Math.min(Math.floor(Math.log2(Math.abs(value)) / 10), 5);
      const size = value / 1024 ** step;
      const digits = Math.abs(size) < 100 ? 2 : 1;
      const written = size.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
      return `${written} ${["KiB", "MiB", "GiB", "TiB", "PiB"][step - 1]}`;
    }
    return `${NUMBER.format(value)}${unitOf ? ` ${unitOf}` : ""}`;
  }

  function paintStepLines(c) {
    c.strokeStyle = dark ? "#e58a9d55" : "#c2556e55";
    const wide = (W - LEFT) / (view.t1 - view.t0);
    for (const [a, b] of stepsIn()) {
      if ((b - a) * wide < 24) continue;
      for (const t of [a, b]) if (t > view.t0 && t < view.t1) { const x = Math.round(X(t)) + 0.5; line(c, x, 0, x, H); }
    }
  }
  function stepsIn() {
    let a = 0, b = steps.length;
    while (a < b) { const m = (a + b) >> 1; if (steps[m][0] < view.t0) a = m + 1; else b = m; }
    while (a > 0 && steps[a - 1][1] > view.t0) a--;
    const from = a;
    while (a < steps.length && steps[a][0] < view.t1) a++;
    return steps.slice(from, a);
  }

  /** Stretches of rows whose events are not in this page: hatched as high as their busy share, with their number. */
  function paintMissing(c, y0) {
    if (!missing.length) return;
    const hatch = hatching(c);
    for (const it of missing) {
      if (it.end < view.t0 || it.start > view.t1) continue;
      const block = itemOfRow(it.rows[0]);
      if (!block || block.y > y0 + H || block.y + block.h < y0) continue;
      const a = Math.max(LEFT, X(it.start)), b = Math.min(W, Math.max(X(it.end), X(it.start) + 1));
      const rows = it.rows[1] - it.rows[0];
      const share = it.busy === undefined ? 1 : Math.min(1, it.busy / Math.max((it.end - it.start) * rows, 1));
      const each = block.is === "rows" ? block.each : block.h, h = each - 1;
      const [from, until] = block.is === "rows" ? it.rows.map((r) => r - block.row) : [0, 1];
      const top = Math.max(Math.min(from, (block.rows ?? 1) - 1), Math.floor((y0 - block.y) / each));
      const below = Math.min(until, block.rows ?? 1, Math.ceil((y0 + H - block.y) / each));
      let said = b - a < 60;
      for (let k = top; k < below; k++) {
        const floor = block.y + k * each - y0 + h;
        // A stretch of several rows can be around events that are in the page: those stay visible.
        const partly = rows > 1 && block.is === "rows" && head.first[block.row + k] < head.first[block.row + k + 1];
        const high = partly ? 3 : Math.max(3, share * h);
        if (!partly) {
          c.fillStyle = dark ? "#93a1b02e" : "#5d6b7924";
          c.fillRect(a, floor - h, b - a, h);
        }
        c.fillStyle = hatch;
        c.fillRect(a, floor - high, b - a, high);
        if (said || partly) continue;
        said = true;
        const text = cut(it.count === 1 ? "1 event is not in this page" : `${count(it.count)} events are not in this page`, b - a - 12);
        const w = [...text].reduce((sum, letter) => sum + widthOf(letter), 8);
        c.fillStyle = color.bg;
        c.fillRect(a + 3, floor - h / 2 - 7, w, 14);
        c.fillStyle = color.fg;
        c.fillText(text, a + 7, floor - h / 2 + 0.5);
      }
    }
  }
  let hatched = null;
  function hatching(c) {
    if (hatched?.dark === dark && hatched.c === c) return hatched.pattern;
    const tile = el("canvas", { width: 8, height: 8 });
    const p = tile.getContext("2d");
    p.strokeStyle = dark ? "#93a1b099" : "#5d6b7988";
    p.lineWidth = 1.2;
    for (const x of [-8, 0, 8]) line(p, x, 8, x + 8, 0);
    hatched = { dark, c, pattern: c.createPattern?.(tile, "repeat") ?? "#80808055" };
    return hatched.pattern;
  }

  // The critical path: a line below the stretches in which it is in an event, and thin ones from row to row

  const pathColor = () => (dark ? "#ff9db0" : "#b3123c");
  let path = null; // of each owner its pieces, while they are shown
  async function showPath(is) {
    path = is ? await data.paths() : null;
    pathButton.setAttribute("aria-pressed", String(is));
    pathText.hidden = !is;
    pathText.replaceChildren(...head.paths.map(({ label, ns, span, n, left }) => el("li", {}, el("i", { style: `background: ${pathColor()}` }), `critical path${label && ` of ${label}`}: ${exactText(ns)} in events, ${exactText(span)} with pauses${left ? `; ${count(left)} of its ${count(n + left)} pieces are not in this page` : ""}`)));
    announce(is ? pathText.textContent : "critical path hidden");
    select(selected, { quiet: true });
    draw(false);
    later();
  }
  function paintPath(c, y0) {
    if (!path) return;
    c.fillStyle = pathColor();
    const half = (view.t1 - view.t0) / (W - LEFT) / 2, reach = new Float64Array(ROWS), floors = new Float64Array(ROWS).fill(NaN);
    for (const { starts, ends, rows } of path) {
      let y = NaN;
      for (let i = Math.max(0, lower(starts, view.t0) - 1); i < starts.length && starts[i] < view.t1; i++) {
        if (ends[i] < view.t0) continue;
        const r = rows[i], from = X(starts[i]), to = X(ends[i]), before = y;
        y = floors[r] === floors[r] ? floors[r] : floors[r] = floorOf(r, y0);
        if (before < y || before > y) { if (ends[i] - starts[i] > half) c.fillRect(from - 0.5, Math.min(y, before) - 3, 1, Math.abs(y - before) + 3); }
        if (to <= reach[r]) continue;
        const a = Math.max(from, reach[r]);
        reach[r] = Math.max(to, a + 1);
        c.fillRect(a, y - 3, reach[r] - a, 3);
      }
    }
  }
  /** The lower edge of a row in the picture, or just outside of it. */
  function floorOf(r, y0) {
    const it = itemOfRow(r);
    if (!it) return -4;
    const y = it.y - y0 + (it.is === "rows" ? Math.min(r - it.row, it.rows - 1) * it.each + it.each : it.h) - 1;
    return Math.max(-4, Math.min(H + 4, y));
  }

  function boxOf(i, y0) {
    const r = data.rowOf(i), it = itemOfRow(r);
    if (!it) return null;
    const d = it.is === "rows" ? Math.min(r - it.row, it.rows - 1) : 0;
    const h = it.is === "rows" ? it.each : it.h;
    return { x: X(start[i]), z: X(data.end(r, i)), y: it.y + d * h - y0, h, hidden: it.is !== "rows" || r - it.row >= it.rows };
  }
  function outline(c, i, y0, stroke, w, dashed = false) {
    const box = boxOf(i, y0);
    if (!box) return;
    c.strokeStyle = stroke;
    c.lineWidth = w;
    c.setLineDash(dashed || box.hidden ? [3, 2] : []);
    c.strokeRect(Math.max(box.x, -9) - 0.5, box.y - 0.5, Math.min(Math.max(2, box.z - box.x), W + 20 - Math.max(box.x, -9)) + 1, box.h);
    c.setLineDash([]);
    c.lineWidth = 1;
  }
  function paintArrows(c, y0) {
    for (const [other, way] of data.partners(selected).slice(0, 60)) {
      const out = way === "launch" || way === "to";
      const a = boxOf(out ? selected : other, y0), b = boxOf(out ? other : selected, y0);
      if (!a || !b) continue;
      outline(c, other, y0, color.accent, 1.5);
      const up = b.y < a.y;
      const x1 = Math.min(Math.max((a.x + a.z) / 2, a.x), a.x + 400), y1 = up ? a.y : a.y + a.h;
      const x2 = b.x, y2 = up ? b.y + b.h : b.y, middle = (y1 + y2) / 2, tipped = up ? 6 : -6;
      c.strokeStyle = c.fillStyle = color.accent;
      c.lineWidth = 1.5;
      c.setLineDash(way === "to" || way === "from" ? [5, 3] : []);
      c.beginPath();
      c.moveTo(x1, y1);
      c.bezierCurveTo(x1, middle, x2, middle, x2, y2);
      c.stroke();
      c.setLineDash([]);
      c.beginPath();
      c.moveTo(x2, y2);
      c.lineTo(x2 - 4, y2 + tipped);
      c.lineTo(x2 + 4, y2 + tipped);
      c.fill();
      c.lineWidth = 1;
    }
  }

  // ------------------------------------------------------------------ axis, steps, marks, overview

  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
  /** A time on the axis: one unit for all ticks of a window. */
  function tickText(t, step) {
    const wide = (view.t1 - view.t0) * unit;
    const [size_, word] = UNITS.find(([s]) => wide >= 2 * s) ?? UNITS[3];
    const digits = Math.max(0, Math.ceil(Math.log10(size_ / (step * unit)) - 1e-9));
    return `${(t * unit / size_).toLocaleString("en", { maximumFractionDigits: Math.min(digits, 9) })} ${word}`;
  }
  const time = (units) => spanText(Math.round(units * unit));

  function paintAxis(c, scale = ratio) {
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.fillStyle = color.bg;
    c.fillRect(0, 0, W, AXIS + stripHeight);
    c.font = FONT;
    c.textBaseline = "middle";
    c.lineWidth = 1;
    c.fillStyle = c.strokeStyle = color.muted;
    const { out, step } = ticks();
    // far into a trace the ticks count from the first of them, which stands on the left
    const far = step * 200 < view.t0, base = far ? out[0] : 0;
    out.forEach((t, i) => {
      const x = X(t), last = x > W - 34, early = x < LEFT + 22;
      line(c, Math.round(x) + 0.5, AXIS - 5, Math.round(x) + 0.5, AXIS);
      if (far && i === 0) return;
      c.textAlign = last ? "right" : early ? "left" : "center";
      c.fillText((far ? "+" : "") + tickText(t - base, step), last ? W - 1 : early ? LEFT + 1 : x, AXIS - 14);
    });
    c.textAlign = "right";
    if (far) c.fillText(exactBase(base), LEFT - 10, AXIS - 14);
    else {
      c.font = `600 ${FONT}`;
      c.fillStyle = color.fg;
      c.fillText(cut(`${time(view.t1 - view.t0)}${W < 640 ? "" : " shown"}`, LEFT - 12), LEFT - 10, AXIS - 14);
    }
    c.textAlign = "left";
    c.font = FONT;
    c.save();
    c.beginPath();
    c.rect(LEFT, AXIS, W - LEFT, stripHeight);
    c.clip();
    if (steps.length) paintSteps(c, AXIS);
    paintMarks(c, AXIS + (steps.length ? STEP : 0) + 2);
    c.restore();
    c.font = FONT;
    c.textAlign = "right";
    c.fillStyle = color.muted;
    if (steps.length) c.fillText("steps", LEFT - 10, AXIS + STEP / 2);
    if (markLevels.length) c.fillText("findings", LEFT - 10, AXIS + (steps.length ? STEP : 0) + 2 + markLevels.length * MARK / 2);
    c.textAlign = "left";
  }
  function exactBase(t) {
    const ns = t * unit;
    return ns >= 1e9 ? `${(ns / 1e9).toFixed(6)} s` : ns >= 1e6 ? `${(ns / 1e6).toFixed(3)} ms` : `${(ns / 1e3).toFixed(2)} us`;
  }

  function paintSteps(c, y) {
    const seen = stepsIn(), wide = (W - LEFT) / (view.t1 - view.t0);
    const tint = dark ? ["#e58a9d3a", "#e58a9d22"] : ["#c2556e2e", "#c2556e18"];
    if (seen.length > (W - LEFT) / 3) {
      c.fillStyle = tint[1];
      const a = Math.max(LEFT, X(seen[0][0])), b = Math.min(W, X(seen[seen.length - 1][1]));
      c.fillRect(a, y, b - a, STEP - 3);
      c.fillStyle = color.fg;
      c.fillText(`${count(seen.length)} steps in this window`, Math.max(LEFT, a) + 6, y + (STEP - 3) / 2 + 0.5);
      return;
    }
    seen.forEach(([a, b, text], i) => {
      const x = X(a), w = Math.max(1, (b - a) * wide);
      c.fillStyle = tint[(steps.indexOf(seen[0]) + i) % 2];
      c.fillRect(x, y, w - (w > 4 ? 1 : 0), STEP - 3);
      const left = Math.max(LEFT, x), room = Math.min(W, x + w) - left - 8;
      const words = room > 20 ? cut(text, room) : "";
      if (!words) return;
      c.fillStyle = color.fg;
      c.fillText(words, left + 4, y + (STEP - 3) / 2 + 0.5);
    });
  }

  /** Marks that overlap go on levels of their own, MARK_LEVELS at most; all of them are in the menu. */
  function layMarks() {
    const ends = [];
    markLevels = [];
    marks.forEach((mark, m) => {
      let level = ends.findIndex((end_) => end_ <= mark.start);
      if (level < 0) level = ends.length < MARK_LEVELS ? ends.length : MARK_LEVELS - 1;
      ends[level] = Math.max(ends[level] ?? 0, mark.end);
      (markLevels[level] ??= []).push(m);
    });
  }
  let shownMark = -1;
  const markFound = []; // of each mark its places and stretches, once the events are read
  function paintMarks(c, y) {
    markLevels.forEach((level, l) => {
      for (const m of level) {
        c.fillStyle = m === shownMark ? color.accent : dark ? "#7fa9e0b0" : "#3b6fb6a0";
        paintStretches(c, m, LEFT, view.t0, (view.t1 - view.t0) / (W - LEFT), W - LEFT, y + l * MARK, MARK - 2);
      }
    });
  }
  /** The stretches of a mark, in blocks of device pixels that at least one of them touches. per: time of a CSS pixel. */
  function paintStretches(c, m, x0, t0, per, wide, y, h) {
    const found = markFound[m];
    if (!found) return;
    const { starts, ends } = found, each = per / ratio, columns_ = Math.ceil(wide * ratio);
    const columnOf = (t) => Math.floor((t - t0) / each);
    let i = lower(ends, t0);
    while (i < starts.length) {
      const from = Math.max(0, columnOf(starts[i]));
      if (from >= columns_) return;
      let to = from + 1;
      for (; i < starts.length && columnOf(starts[i]) <= to; i = Math.max(i + 1, lower(ends, t0 + to * each))) to = Math.max(to, columnOf(starts[i]) + 1, Math.ceil((Math.min(ends[i], t0 + columns_ * each) - t0) / each));
      c.fillRect(x0 + from / ratio, y, (to - from) / ratio, h);
    }
  }
  const markText = ({ all }, places) => (all > places.length ? `the longest ${count(places.length)} of ${count(all)} events` : `${count(places.length)} ${places.length === 1 ? "event" : "events"}`);
  async function showMark(m, go = true) {
    const mark = marks[m];
    if (go) await loading;
    const { places, starts, ends } = await data.markOf(m);
    find.value = "";
    markPlaces(places, mark.title);
    shownMark = m;
    const [from, until] = places.length ? [starts[0], ends[ends.length - 1]] : [mark.start, mark.end];
    if (go) { glide(...padded(from, until)); announce(`${mark.title}: ${markText(mark, places)} marked`); }
    const show = [el("b", { class: "tl-name" }, mark.title), el("p", {}, `${markText(mark, places)}, ${time(from)} to ${time(until)}`)];
    if (mark.view) show.push(button("show in the tables", () => address.visit({ view: mark.view, table: null, row: mark.row ?? 1, column: null })));
    if (go && selected >= 0) select(-1);
    if (selected < 0) detail.replaceChildren(...show);
  }

  let overview = null;
  async function makeOverview() {
    const w = Math.max(1, Math.round((W - LEFT) * ratio)), per = SPAN / w;
    const sum = new Float64Array(w), slice = window.tracekit.slicer();
    const device = lanes.filter(isDevice);
    for (const lane of device.length ? device : lanes) {
      for (let r = lane.row; r < lane.row + (device.length ? lane.depth : 1); r++) {
        if (!ready[r]) continue;
        const found = data.scan(r, 0, per, w);
        for (let c = 0; c < w; c++) if (found.count[c]) sum[c] += found.share[c];
        if (slice.due()) await slice.rest();
      }
    }
    let most = 1e-9;
    for (const v of sum) most = Math.max(most, v);
    overview = { w, sum, most, text: device.length ? "device work" : "host work" };
    draw(false);
  }
  function paintOver(c, scale = ratio) {
    const h = 40, floor = h - 4;
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.fillStyle = color.bg;
    c.fillRect(0, 0, W, h);
    c.fillStyle = color.soft;
    c.fillRect(LEFT, 2, W - LEFT, floor - 2);
    if (overview) {
      c.fillStyle = dark ? "#4a6fa5" : "#a9c1e4";
      c.beginPath();
      c.moveTo(LEFT, floor);
      for (let i = 0; i < overview.w; i++) c.lineTo(LEFT + i / overview.w * (W - LEFT), floor - overview.sum[i] / overview.most * (floor - 5));
      c.lineTo(W, floor);
      c.fill();
    }
    const at = (t) => LEFT + t / SPAN * (W - LEFT), a = at(view.t0), b = at(view.t1);
    c.fillStyle = dark ? "#14191fa8" : "#ffffffa8";
    c.fillRect(LEFT, 2, a - LEFT, floor - 2);
    c.fillRect(b, 2, W - b, floor - 2);
    if (measured) {
      c.fillStyle = dark ? "#7fa9e066" : "#3b6fb64d";
      c.fillRect(at(measured[0]), 2, Math.max(1, at(measured[1]) - at(measured[0])), floor - 2);
    }
    c.fillStyle = color.accent;
    marks.forEach((_, m) => paintStretches(c, m, LEFT, 0, SPAN / (W - LEFT), W - LEFT, floor, 4));
    c.strokeStyle = color.accent;
    c.lineWidth = 1.5;
    c.strokeRect(Math.min(Math.max(LEFT + 0.75, a), W - 4), 2.75, Math.max(3, b - a - 1.5), floor - 3.5);
    c.lineWidth = 1;
    c.font = FONT;
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.fillStyle = color.muted;
    c.fillText(data.done ? overview?.text ?? "" : `reading ${Math.floor(data.loaded / Math.max(N, 1) * 100)} %`, LEFT - 10, h / 2);
    c.textAlign = "left";
  }

  // ------------------------------------------------------------------ moving

  /** Before a jump: Back returns to what is seen now. */
  const leave = () => address.visit({}, true);

  const LEAST = Math.max(20 / unit, 1e-3);
  let moving = 0;
  function setView(a, b) {
    cancelAnimationFrame(moving);
    moving = 0;
    moveTo(a, b);
  }
  function moveTo(a, b) {
    const wide = Math.min(Math.max(b - a, LEAST), SPAN);
    view.t0 = Math.max(0, Math.min(a, SPAN - wide));
    view.t1 = view.t0 + wide;
    draw();
    later();
  }
  /** Goes there in a few frames, so that one sees where it went; at once where less motion is asked for. */
  function glide(a, b) {
    cancelAnimationFrame(moving);
    if (still.matches) { setView(a, b); return; }
    const from = [view.t0, view.t1], began = performance.now();
    const step = () => {
      const part = Math.min(1, (performance.now() - began) / 180), ease = part * (2 - part);
      // sizes change by a factor, not by a difference, so that a deep zoom does not jump at its end
      const w0 = from[1] - from[0], w1 = Math.max(b - a, LEAST), w = w0 * (w1 / w0) ** ease;
      const pull = w0 === w1 ? ease : (w - w0) / (w1 - w0);
      const left = from[0] + (a - from[0]) * pull;
      if (part < 1) { moveTo(left, left + w); moving = requestAnimationFrame(step); } else setView(a, b);
    };
    moving = requestAnimationFrame(step);
  }
  function zoom(factor, at) {
    const wide = (view.t1 - view.t0) * factor, part = (at - view.t0) / (view.t1 - view.t0);
    setView(at - wide * part, at - wide * part + wide);
  }
  const padded = (a, b) => { const more = Math.max((b - a) * 0.08, LEAST / 2); return [a - more, b + more]; };
  function fit() {
    if (measured) glide(...measured);
    else if (selected >= 0) { const wide = Math.max(data.lengthOf(selected), LEAST / 2); glide(start[selected] - wide * 0.2, start[selected] + wide * 1.2); }
    else glide(0, SPAN);
  }

  let timer = 0;
  function later() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      showRange();
      showAbsent();
      keepLink();
    }, 220);
  }

  // The address: t (window), m (measured), e (event), fold, path, y (scrolled), and what is marked: mark (of a finding),
  // find (words of a search), name (its number)

  /** Whole ns as a short exact text: 1.25s, 300ms, 17ns. */
  function timeLink(ns) {
    const [size_, word] = UNITS.find(([s]) => ns >= s) ?? UNITS[3];
    const digits = String(Math.log10(size_) ? (BigInt(ns) % BigInt(size_)).toString().padStart(Math.log10(size_), "0").replace(/0+$/, "") : "");
    return `${BigInt(ns) / BigInt(size_)}${digits ? `.${digits}` : ""}${word}`;
  }
  function parseTime(text) {
    const found = /^\s*(\d+)(?:\.(\d+))?\s*(s|ms|us|µs|ns)?\s*$/.exec(text);
    if (!found) return null;
    const [, whole, part = "", word = "ns"] = found;
    const power = { s: 9, ms: 6, us: 3, "µs": 3, ns: 0 }[word];
    return Number(BigInt(whole + part.slice(0, power).padEnd(power, "0")));
  }
  function parseWindow(text) {
    const ends = String(text).split("-").map(parseTime);
    return ends.length === 2 && ends[0] !== null && ends[1] !== null && ends[1] >= ends[0] ? ends : null;
  }
  const inLink = { fold: null, t: null, m: null, e: null, path: null, mark: null, find: null, name: null, y: null };
  function setLink(word, value) {
    if (inLink[word] === value) return;
    inLink[word] = value;
    address.set(word, value);
  }
  function keepLink() {
    const whole = view.t0 <= 0 && view.t1 >= SPAN;
    const text = ([a, b]) => `${timeLink(Math.floor(a * unit))}-${timeLink(Math.ceil(b * unit))}`;
    setLink("t", whole ? null : text([view.t0, view.t1]));
    setLink("m", measured ? text(measured) : null);
    setLink("e", selected >= 0 ? String(selected) : null);
    if (!data.done) return; // the others cannot have changed, and are not followed yet
    setLink("fold", foldText() || null);
    setLink("path", path ? "1" : null);
    setLink("mark", marked && shownMark >= 0 ? String(shownMark) : null);
    setLink("find", (marked && find.value) || null);
    setLink("name", marked && shownName >= 0 ? String(shownName) : null);
    setLink("y", Math.round(scroll.scrollTop) || null);
  }
  on("leave", () => { clearTimeout(timer); keepLink(); later(); });

  // Groups and layers that are not folded as at first: "g0~3_l1.7" are four groups, and layer 1 of lane 7.
  let groupsAtFirst = new Set(), layersAtFirst = new Set();
  const flipped = (now, before) => [...new Set([...now, ...before])].filter((each) => now.has(each) !== before.has(each));
  function runs(numbers) {
    const out = [];
    for (const n of numbers.sort((a, b) => a - b)) if (out.length && out[out.length - 1][1] === n - 1) out[out.length - 1][1] = n; else out.push([n, n]);
    return out.map(([a, b]) => (a === b ? `${a}` : `${a}~${b}`));
  }
  function foldText() {
    const layers = new Map();
    for (const [l, x] of flipped(foldedLayers, layersAtFirst).map((each) => each.split(":"))) layers.set(x, [...(layers.get(x) ?? []), +l]);
    const parts = runs(flipped(foldedGroups, groupsAtFirst)).map((run) => `g${run}`);
    for (const [x, of] of layers) parts.push(...runs(of).map((run) => `l${x}.${run}`));
    return parts.join("_");
  }
  function followFold(text) {
    foldedGroups.clear();
    foldedLayers.clear();
    const groups_ = new Set(groupsAtFirst), layers = new Set(layersAtFirst);
    const flip = (set, each) => { if (!set.delete(each)) set.add(each); };
    for (const part of (text ?? "").split("_")) {
      const [, x, from, to = from] = /^(?:g|l(\d+)\.)(-?\d+)(?:~(\d+))?$/.exec(part) ?? [];
      const last = Math.min(+to, (x === undefined ? groups : lanes).length - 1);
      for (let n = Math.max(-1, +from); n <= last; n++) if (x === undefined) flip(groups_, n); else if (layersOf[n]?.[x]) flip(layers, `${n}:${x}`);
    }
    for (const each of groups_) foldedGroups.add(each);
    for (const each of layers) foldedLayers.add(each);
    layout();
    showLayers();
    draw();
  }
  const wholeNumber = (value, below) => (value !== null && /^\d+$/.test(value) && +value < below ? +value : -1);
  function followLink(word, value) {
    if (inLink[word] === value) return;
    inLink[word] = value;
    if (word === "e") { select(wholeNumber(value, N), { quiet: true }); return; }
    if (word === "fold") { followFold(value); return; }
    if (word === "path") { if (head.paths) void showPath(value !== null); return; }
    if (word === "y") { scroll.scrollTop = Number(value) || 0; return; }
    if (word === "mark") {
      if (wholeNumber(value, marks.length) >= 0) void showMark(+value, false);
      else if (shownMark >= 0) clearMarked();
      return;
    }
    if (word === "find") {
      if (value !== null || find.value) search(find.value = value ?? "");
      return;
    }
    if (word === "name") {
      if (wholeNumber(value, names.length) >= 0) onlyName(+value);
      else if (shownName >= 0) clearMarked();
      return;
    }
    const ends = value === null ? null : parseWindow(value);
    if (word === "t") setView(...(ends ? ends.map((ns) => ns / unit) : [0, SPAN]));
    else measure(...(ends ? ends.map((ns) => ns / unit) : [null, null]));
  }

  // ------------------------------------------------------------------ search and marked events

  let shownName = -1; // the number of the name that alone is marked
  function setMarked(before, text) {
    shownMark = shownName = -1;
    marked = before ? { before, text, total: before[N] } : null;
    walkers.hidden = !marked;
    draw();
    later();
  }
  function clearMarked() {
    hitsText.textContent = "";
    hitList.hidden = true;
    find.removeAttribute("aria-invalid");
    setMarked(null);
  }
  function markPlaces(places, text) {
    hitList.hidden = true;
    setMarked(data.markPlaces(places), text);
    hitsText.textContent = `${count(marked.total)} ${marked.total === 1 ? "event" : "events"}: ${text}`;
  }

  const LISTED = 40;
  function search(text) {
    if (!text) { clearMarked(); return; }
    let pattern;
    try {
      pattern = new RegExp(text, "i");
    } catch (error) {
      clearMarked();
      find.setAttribute("aria-invalid", "true");
      hitsText.textContent = `This is not a valid regular expression: ${String(error.message).replace(/^.*: /, "").toLowerCase()}.`;
      return;
    }
    find.removeAttribute("aria-invalid");
    const hit = new Uint8Array(names.length), until = performance.now() + 1500;
    let tried = 0;
    for (; tried < names.length; tried++) {
      hit[tried] = pattern.test(names[tried]);
      if (performance.now() > until) { tried++; break; }
    }
    markNames(hit, tried < names.length ? `, in the first ${count(tried)} of ${count(names.length)} names: this expression is slow` : "");
  }
  function markNames(hit, more = "") {
    setMarked(data.markNames(hit), "");
    const codes = [];
    for (let i = 0; i < hit.length; i++) if (hit[i]) codes.push(i);
    const total = marked.total;
    hitsText.textContent = `${count(total)} ${total === 1 ? "hit" : "hits"} in ${count(codes.length)} ${codes.length === 1 ? "name" : "names"}${more}`;
    listHits(codes);
  }
  function listHits(codes) {
    hitList.hidden = codes.length < 1;
    if (!codes.length) return;
    const calls = callsOfNames();
    codes.sort((a, b) => calls[b] - calls[a] || a - b);
    const rows = codes.slice(0, LISTED).map((code) => {
      const chip = el("i");
      chip.style.background = css(shades[kindOf[code]][toneOf[code]][FULL]);
      return el("li", {}, button([chip, el("span", {}, names[code]), el("small", {}, `${count(calls[code])} ×`)], () => { leave(); onlyName(code); walk(1, true); }, { title: names[code].slice(0, 2000) }));
    });
    if (codes.length > LISTED) rows.push(el("li", { class: "tl-more" }, `and ${count(codes.length - LISTED)} more names`));
    hitList.replaceChildren(el("ul", {}, ...rows));
  }
  function onlyName(code) {
    const hit = new Uint8Array(names.length);
    hit[code] = 1;
    setMarked(data.markNames(hit), names[code]);
    shownName = code;
    hitsText.textContent = `${count(marked.total)} ${marked.total === 1 ? "hit" : "hits"}: ${names[code].slice(0, 60)}`;
  }
  let called = null;
  function callsOfNames() {
    if (called) return called;
    const calls = new Int32Array(names.length);
    for (let i = 0; i < N; i++) calls[name[i]]++;
    if (data.done) called = calls;
    return calls;
  }
  /** Selects the next (1) or previous (-1) marked event in order of time; after the last comes the first. */
  function walk(direction, fromStart = false) {
    if (!marked?.total) { announce(marked ? "no hits" : "nothing is marked: search first"); return; }
    const inside = selected >= 0 && !fromStart;
    let next = data.nextMarked(marked.before, direction, inside ? start[selected] : direction > 0 ? -1 : Infinity, inside ? selected : -1);
    if (next < 0) next = data.nextMarked(marked.before, direction, direction > 0 ? -1 : Infinity, direction > 0 ? -1 : N);
    if (next < 0) return;
    select(next);
    reveal(next);
  }

  // ------------------------------------------------------------------ one event

  /** Unfolds, scrolls and moves until an event can be seen. */
  function reveal(i) {
    const r = data.rowOf(i), l = laneOfRow[r];
    let changed = foldedGroups.delete(groupOfLane[l]), row = lanes[l].row;
    layersOf[l].forEach(([, of], x) => {
      if (r > row && r < row + of) changed = foldedLayers.delete(`${l}:${x}`) || changed;
      row += of;
    });
    if (changed) { layout(); showLayers(); }
    const length = data.length(r, i), wide = view.t1 - view.t0;
    if (start[i] < view.t0 || start[i] + length > view.t1 || length < wide / (W - LEFT) * 2) {
      const next = Math.max(length * 30, Math.min(wide, Math.max(length, LEAST / 30) * 400));
      glide(start[i] + length / 2 - next / 2, start[i] + length / 2 + next / 2);
    }
    const it = itemOfRow(r);
    if (it) {
      const y = it.y + (r - it.row) * (it.each ?? 0);
      if (y < scroll.scrollTop || y + (it.each ?? it.h) > scroll.scrollTop + H) scroll.scrollTop = y - H / 2;
    }
    draw();
  }

  const WAYS = { launched: "launched by", launch: "launches", to: "arrow to", from: "arrow from" };
  function select(i, { quiet = false } = {}) {
    selected = i;
    draw(false);
    later();
    if (i < 0) {
      detail.replaceChildren(el("b", {}, "Nothing selected"), el("p", {}, "Click an event for its exact times, its arguments, and the calls and kernels that belong to it."),
        el("p", {}, "Drag moves, ", key("Ctrl"), " and wheel zooms, ", key("Shift"), " and drag measures, ", key("/"), " searches; a click on a label folds."));
      return;
    }
    const r = data.rowOf(i), l = laneOfRow[r], length = data.length(r, i), code = name[i];
    const facts = { name: names[code], kind: kinds[kindOf[code]], place: i, start: Math.round(start[i] * unit), length: Math.round(length * unit), lane: placeName(l), from: "timeline" };
    const list = el("dl", {});
    const fact = (word, ...value) => list.append(el("div", {}, el("dt", {}, word), el("dd", {}, ...value)));
    fact("kind", classes[kindOf[code]].replaceAll("_", " "));
    fact("on", facts.lane);
    fact("start", exactText(facts.start), el("small", {}, ` ${spanText(facts.start)}`));
    if (lanes[l].instants) fact("length", "no duration");
    else fact("length", exactText(facts.length), el("small", {}, ` ${spanText(facts.length)}`));
    const onPath = path?.reduce((sum, each) => sum + (each.on.get(i) ?? 0), 0);
    if (onPath !== undefined) fact("critical path", onPath ? exactText(Math.round(onPath * unit)) : "not on it");
    if (lanes[l].overlaps) fact("note", `${count(lanes[l].overlaps)} events of this lane overlap others: they are on further rows`);
    const links = el("div", { class: "tl-links" });
    const partners = data.partners(i);
    for (const [other, way] of partners.slice(0, 4)) {
      const ahead = start[other] - start[i];
      links.append(button([`${WAYS[way]} `, el("b", {}, names[name[other]].slice(0, 200)), `, ${time(Math.abs(ahead))} ${ahead < 0 ? "before" : "after"}`], () => { leave(); select(other); reveal(other); }));
    }
    if (partners.length > 4) links.append(el("small", {}, `and ${count(partners.length - 4)} more`));
    const args = el("div", { class: "tl-args-box" });
    detail.replaceChildren(
      el("b", { class: "tl-name", title: facts.name.slice(0, 2000) }, facts.name), list, links, args,
      el("div", { class: "tl-do" },
        button("fit", () => { measure(null, null); fit(); }),
        button("mark all of this name", () => { find.value = ""; onlyName(code); }),
        button("its row in the tables", () => emit("pick", { ...facts, show: true }))));
    showArgs(i, args);
    if (!quiet) announce(`${facts.name}, ${facts.kind.replaceAll("_", " ")}, ${facts.lane}, starts at ${spanText(facts.start)}, takes ${spanText(facts.length)}`);
    emit("pick", facts);
  }
  async function showArgs(i, box) {
    const found = await data.argsOf(i);
    const lost = [...(head.argsLeft ?? []), ...(head.members?.left ?? []).filter(([from, to]) => i >= from && i < to).map(() => "other arguments")];
    if (i !== selected || !(found.length + lost.length)) return;
    box.replaceChildren(
      el("dl", {}, ...found.map(([word, value, unitOf]) => el("div", {}, el("dt", {}, seen(word)), el("dd", {}, argText(value, unitOf))))),
      ...(lost.length ? [el("small", {}, `Not in this page: ${lost.join(", ")}. --page-args-mb makes it larger.`)] : []));
  }
  /** Text without what would reorder or hide it, as escapes. */
  const seen = (text) => (text.length > 20000 ? `${text.slice(0, 20000)}… (${count(text.length)} characters in all)` : text).replace(/[\p{Cc}\p{Cf}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]/gu, (each) => (/[\u200c\u200d]/.test(each) ? each : `\\u{${each.codePointAt(0).toString(16)}}`));
  function argText(value, unitOf) {
    if (typeof value !== "number") return seen(String(value));
    const text = Number.isInteger(value) ? count(value) : String(value);
    return unitOf ? `${text} ${unitOf}` : text;
  }
  function announce(text) {
    spoken.textContent = "";
    requestAnimationFrame(() => { spoken.textContent = text; });
  }

  /** Arrow keys: along a row, or to the next visible row that has an event at that time. */
  function stepSelection(across, down) {
    const rows = visibleRows();
    if (selected < 0) {
      for (const r of rows) {
        const i = data.seek(r, view.t0);
        if (i < first[r + 1] && start[i] < view.t1) { select(i); reveal(i); return; }
      }
      return;
    }
    const r = data.rowOf(selected);
    if (across) {
      const next = selected + across;
      if (next >= first[r] && next < first[r + 1]) { select(next); reveal(next); } else announce("no more events on this row");
      return;
    }
    const t = start[selected], middle = t + data.length(r, selected) / 2;
    let x = lower(rows, r);
    for (x += down; x >= 0 && x < rows.length; x += down) {
      const other = rows[x];
      let i = data.seek(other, down > 0 ? t : middle);
      if (i >= first[other + 1]) i--;
      if (i >= first[other]) { select(i); reveal(i); return; }
    }
    announce("no more rows with events");
  }
  function visibleRows() {
    const out = [];
    for (const it of items) if (it.is === "rows") for (let d = 0; d < it.rows; d++) out.push(it.row + d);
    return out.sort((a, b) => a - b);
  }

  // ------------------------------------------------------------------ measuring

  function measure(a, b, from = "timeline") {
    measured = a === null ? null : [Math.max(0, Math.min(a, b)), Math.min(SPAN, Math.max(a, b))];
    draw(false);
    later();
    if (from === "timeline") emit("window", { start: measured && Math.round(measured[0] * unit), end: measured && Math.round(measured[1] * unit), from });
  }
  function setMeasuring(is) {
    measuring = is;
    measureButton.setAttribute("aria-pressed", String(is));
    top.style.cursor = is ? "crosshair" : "";
  }
  /** m: the selected event's time; else drag over the lanes, or m again for the window shown; again: nothing. */
  function measureKey() {
    if (measured) { measure(null, null); setMeasuring(false); announce("nothing is measured"); return; }
    if (selected >= 0 && !measuring) {
      measure(start[selected], data.endOf(selected));
      announce(`measuring the selected event's ${time(data.lengthOf(selected))}`);
    } else if (measuring) { setMeasuring(false); measure(view.t0, view.t1); }
    else { setMeasuring(true); toast("Drag over the lanes to measure, or press m again to measure the window shown"); }
  }

  let turn = 0;
  async function showRange() {
    const mine = ++turn, wanted = () => mine === turn;
    if (!data.done) {
      range.replaceChildren(el("b", {}, "Window shown"), el("p", {}, "The events are being read."));
      return;
    }
    const [a, b] = measured ?? [view.t0, view.t1];
    const device = lanes.some(isDevice), per = [], rows = [];
    groups.forEach((group, g) => {
      const of = [];
      for (const l of group.lanes) {
        const lane = lanes[l];
        if (device ? !isDevice(lane) : lane.note) continue;
        for (let r = lane.row; r < lane.row + (device ? lane.depth : 1); r++) if (ready[r]) of.push(r);
      }
      if (of.length) { per.push([g, of]); rows.push(...of); }
    });
    const found = await data.byName(rows, a, b, wanted);
    if (!found || !wanted()) return;
    const busy = [];
    for (const [g, of] of per) {
      busy.push([g, data.busyBetween(await data.busyStretches(g, of), a, b)]);
      if (!wanted()) return;
    }
    const wide = Math.max(b - a, 1e-9), all = wide * per.length, sum = busy.reduce((total, [, v]) => total + v, 0);
    const codes = [];
    for (let i = 0; i < found.calls.length; i++) if (found.calls[i]) codes.push(i);
    codes.sort((x, y) => found.work[y] - found.work[x] || x - y);
    const running = await data.runningBetween(codes.slice(0, 6), per.map(([, of]) => of), a, b, wanted);
    if (!running || !wanted()) return;
    shown = { start: a, end: b, busy, total: found.total, shares: running.map((v) => v / all), names: codes.map((c) => [names[c], found.calls[c], found.work[c]]) };
    const percent = (v, of) => `${(v > 0 && of > 0 ? Math.min(100, v / of * 100) : 0).toFixed(1)} %`;
    const overlap = running.some((v, x) => found.work[codes[x]] > v * (1 + 1e-9) + 1e-6);
    const what = device ? ["device", "devices"] : ["process", "processes"];
    const bars = el("div", { class: "tl-bars" });
    for (const [g, v] of busy.slice(0, 8)) {
      const fill = el("i");
      fill.style.width = `${Math.min(100, v / wide * 100)}%`;
      bars.append(el("span", {}, groupName(g)), el("span", { class: "tl-bar" }, fill), el("b", {}, percent(v, wide)));
    }
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...["name", "calls", overlap ? "sum" : "time", "of the window"].map((word) => el("th", { scope: "col" }, word)))));
    const rowsOf = el("tbody", {});
    for (const [x, c] of codes.slice(0, 6).entries()) {
      rowsOf.append(el("tr", {}, el("td", {}, button((names[c].length > LONG_NAME ? bareName(c) : names[c]).slice(0, 300), () => { find.value = ""; onlyName(c); emit("mark", { names: [names[c]], kinds: [kinds[kindOf[c]]], from: "timeline" }); }, { title: names[c].slice(0, 2000) })),
        el("td", {}, count(found.calls[c])), el("td", {}, time(found.work[c])), el("td", {}, percent(running[x], all))));
    }
    table.append(rowsOf);
    const counted = new Set(rows);
    let outside = 0;
    const isCounted = (it) => { for (let r = it.rows[0]; r < it.rows[1]; r++) if (counted.has(r)) return true; return false; };
    for (const it of missing) if (it.end > a && it.start < b && isCounted(it)) outside += it.busy ?? 0;
    const known = outside
      ? `busy at least ${percent(sum, all)}; ${count(found.total)} events in this page`
      : `busy ${percent(sum, all)}, idle ${percent(all - sum, all)}; ${count(found.total)} events`;
    const children = [
      el("b", {}, measured ? `Measured ${time(wide)}` : `Window shown: ${time(wide)}`),
      el("p", {}, `${measured ? `${exactText(Math.round(wide * unit))}. ` : ""}${count(per.length)} ${what[per.length === 1 ? 0 : 1]}: ${known}.`),
    ];
    if (outside) children.push(el("p", {}, `Idle time is not known: events of ${time(outside)} in and around this window are not in the page.`));
    if (busy.length > 1) children.push(bars);
    if (busy.length > 8) children.push(el("p", {}, `and ${count(busy.length - 8)} more`));
    if (codes.length) children.push(table);
    const base = [
      ...(per.length > 1 ? [`Shares are of the window on ${count(per.length)} ${what[1]}.`] : []),
      ...(overlap ? ["Time in which a name runs several times at once is in its share once."] : []),
    ].join(" ");
    if (base) children.push(el("p", {}, base));
    if (codes.length > 6) children.push(el("p", {}, `and ${count(codes.length - 6)} more names`));
    if (!per.length) children.splice(1, 1, el("p", {}, "No lane with work is in this page."));
    range.replaceChildren(...children);
  }
  let shown = null;

  function showAbsent() {
    if (!missing.length) return;
    let n = 0, cutOff = false;
    for (const it of missing) {
      if (it.end < view.t0 || it.start > view.t1) continue;
      n += it.count;
      cutOff ||= it.start < view.t0 || it.end > view.t1;
    }
    absent.hidden = !n;
    absent.textContent = n ? `${cutOff ? "Up to " : ""}${count(n)} events of this window are not in this page (hatched). ${head.budget ?? ""}` : "";
  }

  // ------------------------------------------------------------------ layers

  function showLayers() {
    const words = Object.keys(FOLDING).filter((word) => layersOf.some((list) => list.some(([w, of]) => w === word && of > 1)));
    layerButtons.replaceChildren(...words.map((word) => button(FOLDING[word], () => foldLayer(word), { "aria-pressed": String(!layerFolded(word)), title: `show all rows of ${FOLDING[word]}, or only the outermost` })));
    if (groups.length > 1) {
      const all = groups.every((_, g) => foldedGroups.has(g));
      layerButtons.append(button(all ? "unfold all" : "fold all", () => { for (let g = 0; g < groups.length; g++) if (all) foldedGroups.delete(g); else foldedGroups.add(g); layout(); showLayers(); draw(); later(); }));
    }
  }
  const layerFolded = (word) => layersOf.every((list, l) => list.every(([w, of], x) => w !== word || of < 2 || foldedLayers.has(`${l}:${x}`)));
  function foldLayer(word, is = !layerFolded(word)) {
    layersOf.forEach((list, l) => list.forEach(([w], x) => { if (w === word) { if (is) foldedLayers.add(`${l}:${x}`); else foldedLayers.delete(`${l}:${x}`); } }));
    layout();
    showLayers();
    draw();
    later();
  }
  function fold(it) {
    const toggle = (set, value) => { if (!set.delete(value)) set.add(value); };
    if (it.is === "host") {
      const mine = ofHost(it.host), open = mine.some((g) => !foldedGroups.has(g));
      for (const g of mine) if (foldedGroups.has(g) !== open) toggle(foldedGroups, g);
    } else if (it.is === "group" || it.is === "sum") toggle(foldedGroups, it.group);
    else if (it.is === "rows" && it.of > 1 && it.word !== "ranges") toggle(foldedLayers, `${it.lane}:${it.layer}`);
    layout();
    showLayers();
    draw();
    later();
  }

  // ------------------------------------------------------------------ hands

  /** The event under a point, or the longest of those near it. */
  function under(x, y) {
    const it = itemAt(y + scroll.scrollTop);
    if (!it || x < LEFT || it.is !== "rows") return { it, event: -1 };
    const r = it.row + Math.min(it.rows - 1, Math.floor((y + scroll.scrollTop - it.y) / it.each));
    if (!ready[r]) return { it, event: -1 };
    const t = T(x), slack = 2 * (view.t1 - view.t0) / (W - LEFT);
    const from = data.seek(r, t - slack);
    if (from >= first[r + 1] || start[from] > t + slack) return { it, event: -1 };
    const to = Math.max(from + 1, data.begins(from, first[r + 1], t + slack));
    let best = from;
    for (let i = from; i < to && i < from + 4000; i++) {
      const length = data.length(r, i);
      if (start[i] <= t && t < start[i] + length && length > slack) { best = i; break; }
      if (length > data.length(r, best)) best = i;
    }
    return { it, event: best, near: data.length(r, best) < slack ? to - from : 1 };
  }
  function showTip(x, y) {
    pointer = [x, y];
    const { it, event, near } = under(x, y);
    const was = hovered;
    hovered = event;
    let lines = null;
    if (event >= 0) {
      const r = data.rowOf(event);
      lines = [el("b", {}, names[name[event]].slice(0, 300)), el("span", {}, `${classes[kindOf[name[event]]].replaceAll("_", " ")} · ${lanes[laneOfRow[r]].instants ? "no duration" : time(data.length(r, event))} · at ${time(start[event])}`)];
      if (near > 1) lines.push(el("span", {}, `${count(near)} events here; this is the longest`));
    } else if (it?.is === "counter" && x >= LEFT && it.counter.ready) {
      const i = lower(it.counter.times, T(x) + 1e-9) - 1;
      if (i >= 0) lines = [el("b", {}, amount(it.counter.values[i], it.counter.unit)), el("span", {}, `${it.counter.label} · since ${time(it.counter.times[i])}`)];
    } else if (it?.is === "sum" && x >= LEFT) lines = [el("b", {}, groupName(it.group)), el("span", {}, "mean busy share of its lanes; click to unfold")];
    else if (it?.is === "rows" && x < LEFT) lines = [el("b", {}, lanes[it.lane].label), el("span", {}, it.of > 1 && it.word !== "ranges" ? `${it.rows < it.of ? "unfold" : "fold"} its ${it.of} rows` : groupName(it.group))];
    placeTip(lines, x, scroll.offsetTop + y);
    if (was !== hovered) draw(false);
  }
  function placeTip(lines, x, y) {
    tip.hidden = !lines;
    if (!lines) return;
    tip.replaceChildren(...lines);
    tip.style.left = `${Math.max(0, Math.min(x + 14, W - tip.offsetWidth - 4))}px`;
    tip.style.top = `${y + 18}px`;
  }

  const pressed = new Map();
  let drag = null, pinch = null, inside = false;
  const local = (event) => { const box = top.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  top.addEventListener("pointerdown", (event) => {
    const [x, y] = local(event);
    if (event.button) return;
    pressed.set(event.pointerId, x);
    scroll.focus({ preventScroll: true });
    tip.hidden = true;
    if (pressed.size === 2) {
      const [a, b] = [...pressed.values()];
      pinch = { apart: Math.max(8, Math.abs(a - b)), t: T((a + b) / 2), wide: view.t1 - view.t0 };
      drag = null;
      return;
    }
    top.setPointerCapture?.(event.pointerId);
    drag = { x, y, t0: view.t0, t1: view.t1, top: scroll.scrollTop, moved: false, measure: measuring || event.shiftKey, t: T(x) };
  });
  top.addEventListener("pointermove", (event) => {
    const [x, y] = local(event);
    inside = true;
    if (pressed.has(event.pointerId)) pressed.set(event.pointerId, x);
    if (pinch && pressed.size === 2) {
      const [a, b] = [...pressed.values()], wide = pinch.wide * pinch.apart / Math.max(8, Math.abs(a - b));
      const part = ((a + b) / 2 - LEFT) / (W - LEFT);
      setView(pinch.t - wide * part, pinch.t - wide * part + wide);
      return;
    }
    if (!drag) { showTip(x, y); return; }
    drag.moved ||= Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3;
    if (!drag.moved) return;
    if (drag.measure) { measure(drag.t, T(Math.max(LEFT, x))); return; }
    const by = (x - drag.x) / (W - LEFT) * (drag.t1 - drag.t0);
    setView(drag.t0 - by, drag.t1 - by);
    if (event.pointerType === "mouse") scroll.scrollTop = drag.top - (y - drag.y);
  });
  function lift(event) {
    pressed.delete(event.pointerId);
    if (pressed.size < 2) pinch = null;
    if (!drag) return;
    const was = drag;
    drag = null;
    if (was.moved && was.measure) { setMeasuring(false); if (measured) announce(`measured ${time(measured[1] - measured[0])}`); return; }
    if (was.moved || event.type !== "pointerup") return;
    const { it, event: found } = under(was.x, was.y);
    if (it && (/group|sum|host/.test(it.is) || was.x < LEFT)) { fold(it); return; }
    if (found < 0 && measured) measure(null, null);
    select(found);
  }
  top.addEventListener("pointerup", lift);
  top.addEventListener("pointercancel", lift);
  top.addEventListener("pointerleave", () => { inside = false; tip.hidden = true; if (hovered >= 0) { hovered = -1; draw(false); } });
  top.addEventListener("dblclick", (event) => { const { event: found } = under(...local(event)); if (found >= 0) { measure(null, null); fit(); } });
  top.addEventListener("wheel", (event) => {
    const pixels_ = event.deltaMode ? 30 : 1;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY * pixels_)) * 0.0045), T(Math.max(LEFT, local(event)[0])));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      const by = (event.deltaX || event.deltaY) * pixels_ / (W - LEFT) * (view.t1 - view.t0);
      setView(view.t0 + by, view.t1 + by);
    }
  }, { passive: false });
  scroll.addEventListener("scroll", () => { draw(); later(); });

  const overTime = (event) => { const box = over.getBoundingClientRect(); return (event.clientX - box.left - LEFT) / (W - LEFT) * SPAN; };
  let held = null;
  over.addEventListener("pointerdown", (event) => {
    const t = overTime(event), near = 6 / (W - LEFT) * SPAN, wide = view.t1 - view.t0;
    over.setPointerCapture?.(event.pointerId);
    // at an edge of the window: drags that edge; inside: moves it; elsewhere: takes it there first
    const edge = wide > 4 * near ? (Math.abs(t - view.t0) < near ? 0 : Math.abs(t - view.t1) < near ? 1 : -1) : -1;
    if (edge < 0 && (t < view.t0 || t > view.t1)) setView(t - wide / 2, t + wide / 2);
    held = { edge, by: t - view.t0 };
  });
  over.addEventListener("pointermove", (event) => {
    if (!held) return;
    const t = overTime(event), wide = view.t1 - view.t0;
    if (held.edge === 0) setView(Math.min(t, view.t1 - LEAST), view.t1);
    else if (held.edge === 1) setView(view.t0, Math.max(t, view.t0 + LEAST));
    else setView(t - held.by, t - held.by + wide);
  });
  for (const word of ["pointerup", "pointercancel"]) over.addEventListener(word, () => { held = null; });

  // a click on a step measures it; on a finding's mark, shows it
  function onStrip(event) {
    const box = axis.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top - AXIS, t = T(x);
    if (x < LEFT || y < 0) return null;
    if (steps.length && y < STEP) return { step: stepsIn().find(([a, b]) => t >= a && t < b) };
    const level = markLevels[Math.floor((y - (steps.length ? STEP : 0) - 2) / MARK)] ?? [];
    const slack = 3 / (W - LEFT) * (view.t1 - view.t0);
    return { mark: level.find((m) => {
      const { starts, ends } = markFound[m] ?? { starts: [], ends: [] }, i = lower(ends, t - slack);
      return i < ends.length && starts[i] <= t + slack;
    }) };
  }
  axis.addEventListener("click", (event) => {
    const hit = onStrip(event);
    if (hit?.step) measure(hit.step[0], hit.step[1]);
    if (hit?.mark !== undefined) { leave(); void showMark(hit.mark); }
  });
  axis.addEventListener("pointermove", (event) => {
    const hit = onStrip(event), box = axis.getBoundingClientRect();
    const lines = hit?.step ? [el("b", {}, hit.step[2]), el("span", {}, `${time(hit.step[1] - hit.step[0])} · click to measure`)]
      : hit?.mark !== undefined ? [el("b", {}, marks[hit.mark].title), el("span", {}, `click to mark its ${markText(marks[hit.mark], markFound[hit.mark].places)}`)] : null;
    axis.style.cursor = lines ? "pointer" : "";
    placeTip(lines, event.clientX - box.left, axis.offsetTop + event.clientY - box.top);
  });
  axis.addEventListener("pointerleave", () => { tip.hidden = true; });

  // Keys act while the timeline has the focus or the mouse, or nothing has the focus; they can be switched off.

  let keysOn = true;
  const atMouse = () => (inside && pointer[0] > LEFT ? T(pointer[0]) : hovered >= 0 ? start[hovered] : selected >= 0 && start[selected] >= view.t0 && start[selected] <= view.t1 ? start[selected] : (view.t0 + view.t1) / 2);
  const shift = (part) => { const by = (view.t1 - view.t0) * part; setView(view.t0 + by, view.t1 + by); };
  const KEYS = {
    w: () => zoom(0.7, atMouse()), s: () => zoom(1 / 0.7, atMouse()), a: () => shift(-0.2), d: () => shift(0.2),
    f: fit, m: measureKey, n: () => walk(1), p: () => walk(-1), 0: () => glide(0, SPAN),
    "/": () => { find.focus(); find.select(); },
    Escape: () => { setMeasuring(false); if (measured) measure(null, null); else if (selected >= 0) select(-1); else if (marked) { find.value = ""; clearMarked(); } else glide(0, SPAN); },
  };
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target, here = mount.contains(target);
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable) return;
    if (target === scroll && ARROWS[event.key]) { event.preventDefault(); stepSelection(...ARROWS[event.key]); return; }
    if (target === scroll && event.key === "Enter" && selected >= 0) { detail.querySelector("button")?.focus(); event.preventDefault(); return; }
    const box = scroll.getBoundingClientRect(), idle = target === document.body && box.top < innerHeight && box.bottom > 0;
    if (!keysOn || !(here || inside || idle) || !Object.hasOwn(KEYS, event.key)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  let typing = 0;
  find.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => search(find.value), N > 200000 ? 120 : 0); });
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { clearTimeout(typing); if (!marked) search(find.value); walk(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { find.value = ""; clearMarked(); scroll.focus({ preventScroll: true }); event.stopPropagation(); }
  });
  let laidOut = mount.clientWidth; // the panels below grow and shrink: only the width matters
  new ResizeObserver(() => {
    if (mount.clientWidth === laidOut) return;
    laidOut = mount.clientWidth;
    layout();
    draw();
    if (data.done) makeOverview();
  }).observe(mount);
  darkScheme.addEventListener("change", () => { readTheme(); draw(); });

  // ------------------------------------------------------------------ menus

  async function save(label, make) {
    saveMenu.open = false;
    toast(`Saving the ${label} …`);
    try {
      const { blob, suffix, text } = await make();
      window.tracekit.save(`${(head.title ?? "trace").replace(/\.(json|gz|csv|sqlite|pb|txt|jsonl)\b/g, "")}-timeline${suffix}`, blob);
      if (text) announce(`saved ${text}`);
    } catch (error) {
      toast(`The ${label} could not be saved: ${error.message}`);
    }
  }

  const HELP = [
    ["w s", "zoom in, out"], ["a d", "move left, right"], ["f", "fit the measured range, the selection, or the whole"], ["0", "the whole"], ["/", "search names"],
    ["n p", "next, previous hit"], ["m", "measure"], ["← →", "next event of the row"], ["↑ ↓", "row above, below"], ["Enter", "to the selected event's details"], ["Esc", "step back"],
  ];
  const keySwitch = el("input", { type: "checkbox", checked: true, onchange: () => { keysOn = keySwitch.checked; } });
  helpMenu.sheet.append(
    el("dl", {}, ...HELP.map(([keys, text]) => el("div", {}, el("dt", {}, ...keys.split(" ").flatMap((each) => [key(each), " "])), el("dd", {}, text)))),
    el("p", {}, "Ctrl and wheel or pinch zooms, drag moves, Shift and drag measures, a click selects, a click on a label folds."),
    el("label", {}, keySwitch, " keys of one letter"));
  markMenu.hidden = !marks.length;
  markMenu.sheet.append(...marks.map((mark, m) => button(mark.title, () => { markMenu.open = false; leave(); void showMark(m); })));

  const offered = window.tracekit.timelineSaving;
  saveMenu.hidden = !offered;

  // ------------------------------------------------------------------ other parts of the page

  on("mark", async ({ names: wanted, kinds: only, from }) => {
    if (from === "timeline") return;
    if (!data.done) await loading;
    if (from === "link" && ["mark", "find", "name"].some((word) => address.get(word) !== null)) return; // it is followed too
    if (!wanted?.length) { clearMarked(); return; }
    find.value = "";
    markNames(nameCodes(wanted, only));
    hitList.hidden = true;
  });
  function nameCodes(wanted, only) {
    const set = new Set(wanted), of = only ? new Set(only) : null;
    return Uint8Array.from(names, (text, i) => Number(set.has(text) && (!of || of.has(kinds[kindOf[i]]))));
  }
  on("goto", ({ start: a, end: b, places, mark, from }) => {
    if (from === "timeline") return;
    if (marks[mark]) { void showMark(mark); return; }
    if (a !== null && a !== undefined) glide(...padded(a / unit, b / unit));
    if (places?.length) { markPlaces(places, "marked"); select(places[0]); }
  });
  on("events", async ({ names: wanted, kinds: only, reply }) => {
    await loading;
    const hit = nameCodes(wanted, only), starts = [], lengths = [];
    for (let r = 0; r < ROWS; r++) {
      for (let i = first[r]; i < first[r + 1]; i++) if (hit[name[i]]) { starts.push(start[i] * unit); lengths.push(data.length(r, i) * unit); }
    }
    reply({ start: Float64Array.from(starts), length: Float64Array.from(lengths), missing: missing.reduce((sum, it) => sum + it.count, 0) });
  });
  on("window", ({ start: a, end: b, from }) => { if (from !== "timeline") measure(a === null ? null : a / unit, b === null ? null : b / unit, from); });
  on("link", ({ key: word, value }) => { if (word in inLink) followLink(word, value); });

  // ------------------------------------------------------------------ begin

  layMarks();
  readTheme();
  // Python is deep and mostly not the question: folded at first. So are groups that would fill many screens.
  layersOf.forEach((list, l) => list.forEach(([word, of], x) => { if ((word === "python" && of > 3) || (word && word !== "ranges" && of > 24)) foldedLayers.add(`${l}:${x}`); }));
  if (lanes.length > 200) groups.forEach((_, g) => foldedGroups.add(g));
  groupsAtFirst = new Set(foldedGroups);
  layersAtFirst = new Set(foldedLayers);
  layout();
  showLayers();
  select(-1);
  paint();
  stats.first = performance.now();
  let painted = 0;
  const progress = () => {
    if (data.loaded - painted < N / 8) return;
    painted = data.loaded;
    draw();
  };
  const loading = data.load(progress).then(async () => {
    if (first.some((stop, r) => r > 0 && stop > first[r - 1] && start[stop - 1] >= SPAN)) {
      const whole = view.t1 === SPAN;
      SPAN = head.span + 1;
      if (whole) view.t1 = SPAN;
    }
    await makeOverview();
    draw();
    for (let m = 0; m < marks.length; m++) markFound[m] = await data.markOf(m);
    draw(false);
    for (const word of Object.keys(inLink)) { const value = address.get(word); if (value !== null) followLink(word, value); }
    if (selected >= 0 && inLink.t === null && inLink.fold === null) reveal(selected);
    later();
    stats.decoded = performance.now();
    allRead();
  });

  Object.defineProperties(face, Object.getOwnPropertyDescriptors({
    head, data, view, stats, start, name, first, lanes, groups,
    length: data.lengthOf, end: data.endOf, rowOfPlace: data.rowOf, seek: data.seek,
    get measured() { return measured && { start: measured[0], end: measured[1] }; },
    get selected() { return selected; },
    get marked() { return marked; },
    get statistics() { return shown; },
    show: setView, zoom, search, walk, select, reveal, measure, fit, fold, foldLayer, paint, layout,
    items: () => items,
    labels: () => labels.map(([e]) => e),
    picture: () => ({ pixels, width: body.width, height: body.height, left: Math.round(LEFT * ratio), ratio, ground: pack(...hex(color.bg)), shades }),
    parts: { saveMenu, button, el, paintTop, paintAxis, paintOver, boxes: () => ({ many, boxes, fills }), size: () => ({ W, H, LEFT, ratio, strip: AXIS + stripHeight, over: 40, color, css }), canvases: { over, axis, body, top }, names, kinds, kindOf, colorsOf: (code) => [css(shades[kindOf[code]][toneOf[code]][FULL]), inkOn[kindOf[code]][toneOf[code]]], laneOfRow, groupOfLane, isDevice, time },
  }));
  for (const [label, make] of offered?.(face) ?? []) saveMenu.sheet.append(button(label, () => save(label, make)));
  saveMenu.sheet.append(el("p", {}, "The window is the measured one, else the one shown. Its events are saved whole."));
  emit("timeline", face);
})();

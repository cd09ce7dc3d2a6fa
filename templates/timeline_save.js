"use strict";
// Saving from the timeline: a window as a Chrome trace or a Perfetto trace, and the picture as SVG or PNG.
//
// Both traces keep every ns, and hold each event that touches the window, whole. They are made in slices.
(() => {
  const { slicer, exact } = window.tracekit;

  /** Places of the events that touch a window, row by row: [row, first, last + 1]. */
  function stretches({ data, first }, t0, t1) {
    const out = [];
    for (let r = 0; r + 1 < first.length; r++) {
      const i = data.seek(r, t0), j = data.begins(i, first[r + 1], t1);
      if (i < first[r + 1] && data.start[i] < t1) out.push([r, i, Math.max(i + 1, j)]);
    }
    return out;
  }

  /** Calls found(number, from, to) for each arrow of the input with both ends in these stretches. */
  function eachFlow({ data }, spans, found) {
    const [from, to] = data.flows(), of = new Map(spans.map((span) => [span[0], span]));
    const inside = (i) => { const [, a, b] = of.get(data.rowOf(i)) ?? [0, 0, 0]; return i >= a && i < b; };
    from.forEach((i, x) => { if (inside(i) && inside(to[x])) found(x, i, to[x]); });
  }

  const ids = (lane) => lane.ids ?? {};

  // Chrome trace, as `tracekit convert` writes it: µs with three decimals, lanes at the end

  const micros = (ns) => `${Math.floor(ns / 1000)}.${String(ns % 1000).padStart(3, "0")}`;
  const json = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");

  async function chromeTrace(timeline, t0, t1) {
    const { data, head, lanes, groups, parts } = timeline;
    const { unit } = head, { names, kinds, kindOf, laneOfRow, groupOfLane } = parts;
    const slice = slicer();
    const pieces = ['{"displayTimeUnit":"ns","traceEvents":[\n'];
    let text = "", comma = "", events = 0;
    const put = (line) => {
      text += comma + line;
      comma = ",\n";
      if (text.length > 1 << 20) { pieces.push(text); text = ""; }
    };
    const spans = stretches(timeline, t0, t1);
    const rowsOf = new Map();
    const track = (r) => { // overlapping rows of a stream are threads of their own, nested rows of the host share one
      const l = laneOfRow[r], nests = lanes[l].host && !lanes[l].overlaps;
      return groups.length + 1 + (nests ? lanes[l].row : r);
    };
    for (const [r] of spans) if (!rowsOf.has(track(r))) rowsOf.set(track(r), r);
    for (const g of new Set([...rowsOf.values()].map((r) => groupOfLane[laneOfRow[r]]))) put(`{"ph":"M","name":"process_name","pid":${g + 1},"tid":0,"args":{"name":${json(groups[g].label)}}}`);
    for (const [tid, r] of rowsOf) {
      const l = laneOfRow[r], extra = r - lanes[l].row;
      put(`{"ph":"M","name":"thread_name","pid":${groupOfLane[l] + 1},"tid":${tid},"args":{"name":${json(lanes[l].label + (extra ? ` (${extra + 1})` : ""))}}}`);
    }
    const argsOf = await data.argsBetween(spans);
    const quoted = names.map(() => "");
    for (const [r, i0, j0] of spans) {
      const l = laneOfRow[r], place = `"pid":${groupOfLane[l] + 1},"tid":${track(r)}`, instant = lanes[l].instants;
      for (let i = i0; i < j0; i++) {
        const code = data.name[i];
        quoted[code] ||= json(names[code]);
        const shape = instant ? '"ph":"i","s":"t"' : '"ph":"X"';
        const length = instant ? "" : `,"dur":${micros(data.length(r, i) * unit)}`;
        const args = argsOf(i);
        put(`{${shape},"cat":"${kinds[kindOf[code]]}","name":${quoted[code]},${place}${args ? `,"args":{${args}}` : ""},"ts":${micros(data.start[i] * unit)}${length}}`);
        events++;
        const call = data.link.length ? data.link[i] : -1;
        if (call >= 0) {
          const from = data.rowOf(call);
          if (data.start[call] < t1 && (data.end(from, call) > t0 || data.start[call] >= t0)) {
            const there = `"pid":${groupOfLane[laneOfRow[from]] + 1},"tid":${track(from)}`;
            put(`{"ph":"s","cat":"launch","name":"launch","id":${i + 1},${there},"ts":${micros(data.start[call] * unit)}}`);
            put(`{"ph":"f","bp":"e","cat":"launch","name":"launch","id":${i + 1},${place},"ts":${micros(data.start[i] * unit)}}`);
          }
        }
        if (i % 256 === 0 && slice.due()) await slice.rest();
      }
    }
    eachFlow(timeline, spans, (x, from, to) => {
      for (const [ph, i] of [['s"', from], ['f","bp":"e"', to]]) {
        const r = data.rowOf(i);
        put(`{"ph":"${ph},"cat":"flow","name":"flow","id":${head.n + 1 + x},"pid":${groupOfLane[laneOfRow[r]] + 1},"tid":${track(r)},"ts":${micros(data.start[i] * unit)}}`);
      }
    });
    const own = [...rowsOf].map(([tid, r]) => {
      const lane = lanes[laneOfRow[r]], { source = 0, rank = null, process = null, device = null, context = null, stream = null, thread = null } = ids(lane);
      return { pid: groupOfLane[laneOfRow[r]] + 1, tid, source, rank, process, side: lane.host ? "host" : "device", device, context, stream, thread, extra: 0 };
    });
    const note = absence(timeline, t0, t1, spans);
    const facts = { version: head.version ?? "", clock: null, lanes: own, window_ns: [Math.floor(t0 * unit), Math.ceil(t1 * unit)], written: events, notes: note ? [note] : [] };
    pieces.push(text, `\n],"baseTimeNanoseconds":${/^-?\d+$/.test(head.begin) ? head.begin : 0},"tracekit":${json(facts)}}\n`);
    return { blob: new Blob(pieces, { type: "application/json" }), events, note };
  }

  function absence({ head }, t0, t1, spans) {
    let n = 0, m = 0;
    for (const it of head.missing ?? []) if (it.end >= t0 && it.start <= t1) n += it.count;
    for (const [from, to, of] of head.members?.left ?? []) if (spans.some(([, i, j]) => i < to && j > from)) m += of;
    const keys = head.argsLeft?.length ? ` and ${head.argsLeft.join(", ")} of all` : "";
    const notes = [n ? `up to ${n} events of this window` : "", m || keys ? `the arguments of up to ${m} of its events${keys}` : ""];
    const text = notes.filter(Boolean).join(", and ");
    return text && `${text} were not in the page`;
  }

  // Perfetto trace: track events with interned names (protos/perfetto/trace/trace_packet.proto)

  const utf8 = new TextEncoder();
  /** A growing buffer of protobuf fields. Numbers are whole and below 2^63: a BigInt where they may pass 2^53. */
  class Proto {
    constructor(size = 256) { this.bytes = new Uint8Array(size); this.at = 0; }
    room(n) {
      if (this.at + n <= this.bytes.length) return;
      const more = new Uint8Array(Math.max(this.bytes.length * 2, this.at + n));
      more.set(this.bytes.subarray(0, this.at));
      this.bytes = more;
    }
    varint(value) {
      this.room(10);
      let v = value;
      if (typeof v === "bigint") {
        if (v < 0n) v += 1n << 64n;
        for (; v > 0x1fffffffffffffn; v >>= 7n) this.bytes[this.at++] = Number(v & 127n) | 128;
        v = Number(v);
      }
      for (; v > 127; v = Math.floor(v / 128)) this.bytes[this.at++] = (v % 128) | 128;
      this.bytes[this.at++] = v;
      return this;
    }
    number(field, value) { return this.varint(field * 8).varint(value); }
    fixed64(field, value) {
      this.varint(field * 8 + 1).room(8);
      new DataView(this.bytes.buffer).setBigUint64(this.at, BigInt(value), true);
      this.at += 8;
      return this;
    }
    raw(field, bytes) {
      this.varint(field * 8 + 2).varint(bytes.length).room(bytes.length);
      this.bytes.set(bytes, this.at);
      this.at += bytes.length;
      return this;
    }
    text(field, value) { return this.raw(field, utf8.encode(value)); }
    message(field, inner) { return this.raw(field, inner.bytes.subarray(0, inner.at)); }
    clear() { this.at = 0; return this; }
    taken() { return this.bytes.slice(0, this.at); }
  }

  async function perfettoTrace(timeline, t0, t1) {
    const { data, head, lanes, groups, parts } = timeline;
    const { names, kinds, kindOf, laneOfRow, groupOfLane } = parts;
    const begin = BigInt(/^-?\d+$/.test(head.begin) ? head.begin : 0), unit = BigInt(head.unit);
    const slice = slicer();
    const pieces = [], out = new Proto(1 << 20), packet = new Proto(), event = new Proto(), inner = new Proto(), innermost = new Proto();
    const flush = () => { if (out.at) pieces.push(out.taken()); out.clear(); };
    const seal = () => { out.message(1, packet); packet.clear(); if (out.at > 1 << 20) flush(); };
    const SEQUENCE = 1;
    let fresh = true;
    const describe = (uuid, text, parent) => {
      inner.clear().number(1, uuid).text(2, text);
      if (parent) inner.number(5, parent);
      packet.number(10, SEQUENCE).message(60, inner);
      seal();
    };
    const spans = stretches(timeline, t0, t1);
    const byLane = new Map();
    for (const span of spans) {
      const l = laneOfRow[span[0]];
      byLane.set(l, [...(byLane.get(l) ?? []), span]);
    }
    const described = new Set(), knownNames = new Set(), knownKinds = new Set();
    const flows = new Map();
    for (const [, i0, j0] of spans) for (let i = i0; i < j0 && data.link.length; i++) if (data.link[i] >= 0) flows.set(data.link[i], [...(flows.get(data.link[i]) ?? []), i + 1]);
    const arrows = new Map(), arrow = (i, field, x) => arrows.set(i, [...(arrows.get(i) ?? []), [field, head.n + 1 + x]]);
    eachFlow(timeline, spans, (x, from, to) => { arrow(from, 47, x); arrow(to, 48, x); });
    const argsOf = await data.argsBetween(spans, true);
    let events = 0;
    /** One packet; kind of point: 1 begins a slice, 2 ends it, 3 is an instant. */
    const point = (type, t, track, i) => {
      const stamp = begin + BigInt(t) * unit;
      packet.number(8, stamp < 0n ? 0n : stamp).number(10, SEQUENCE).number(13, fresh ? 3 : 2);
      fresh = false;
      event.clear().number(9, type).number(11, track);
      if (type !== 2) {
        const code = data.name[i], kind = kindOf[code];
        event.number(3, kind + 1).number(10, code + 1);
        for (const [key, value] of argsOf(i)) {
          innermost.clear().text(10, key);
          if (typeof value === "bigint") innermost.number(4, value);
          else if (typeof value !== "number") innermost.text(6, String(value));
          else if (Number.isInteger(value)) innermost.number(4, BigInt(value));
          else innermost.varint(5 * 8 + 1).room(8), new DataView(innermost.bytes.buffer).setFloat64(innermost.at, value, true), innermost.at += 8;
          event.message(4, innermost);
        }
        for (const id of flows.get(i) ?? []) event.fixed64(47, id);
        if (data.link.length && data.link[i] >= 0) event.fixed64(48, i + 1);
        for (const [field, id] of arrows.get(i) ?? []) event.fixed64(field, id);
        inner.clear();
        if (!knownKinds.has(kind)) { knownKinds.add(kind); inner.message(1, innermost.clear().number(1, kind + 1).text(2, kinds[kind])); }
        if (!knownNames.has(code)) { knownNames.add(code); inner.message(2, innermost.clear().number(1, code + 1).text(2, names[code])); }
        if (inner.at) packet.message(12, inner);
        events++;
      }
      packet.message(11, event);
      seal();
    };
    for (const [l, mine] of byLane) {
      const g = groupOfLane[l];
      if (!described.has(g)) { described.add(g); describe(1 + g, groups[g].label, 0); }
      const nests = lanes[l].host && !lanes[l].overlaps && !lanes[l].instants;
      // rows that nest become one track, in order of time, outer events first; rows that overlap a track each
      for (const set of nests ? [mine] : mine.map((span) => [span])) {
        const track = groups.length + 1 + set[0][0];
        describe(track, lanes[l].label, 1 + g);
        const at = set.map(([, i]) => i), open = [];
        for (;;) {
          let next = -1;
          for (let x = 0; x < set.length; x++) if (at[x] < set[x][2] && (next < 0 || data.start[at[x]] < data.start[at[next]] || (data.start[at[x]] === data.start[at[next]] && data.length(set[x][0], at[x]) > data.length(set[next][0], at[next])))) next = x;
          const t = next < 0 ? Infinity : data.start[at[next]];
          while (open.length && open[open.length - 1] <= t) point(2, open.pop(), track);
          if (next < 0) break;
          const i = at[next]++, r = set[next][0];
          if (lanes[l].instants) point(3, t, track, i);
          else { point(1, t, track, i); open.push(data.end(r, i)); }
          if (events % 256 === 0 && slice.due()) await slice.rest();
        }
      }
    }
    flush();
    return { blob: new Blob(pieces, { type: "application/octet-stream" }), events, note: absence(timeline, t0, t1, spans) };
  }

  // Pictures

  const escaped = (text) => String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")
    .replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;").replaceAll("'", "&#39;");
  const round = (v) => String(Math.round(v * 100) / 100);

  /** Takes what the drawing code says to a canvas, as SVG elements. */
  class Pen {
    constructor() { this.out = []; this.path = ""; this.dash = ""; this.clips = 0; this.held = []; this.depth = 0; this.lineWidth = 1; this.textAlign = "left"; this.textBaseline = "middle"; this.font = ""; this.fillStyle = this.strokeStyle = "#000"; }
    setTransform() {}
    clearRect() {}
    save() { this.held.push(this.depth); }
    restore() { for (const to = this.held.pop(); this.depth > to; this.depth--) this.out.push("</g>"); }
    setLineDash(list) { this.dash = list.join(" "); }
    beginPath() { this.path = ""; }
    moveTo(x, y) { this.path += `M${round(x)} ${round(y)}`; }
    lineTo(x, y) { this.path += `L${round(x)} ${round(y)}`; }
    bezierCurveTo(...p) { this.path += `C${p.map(round).join(" ")}`; }
    rect(x, y, w, h) { this.path += `M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}z`; }
    clip() {
      const id = `clip-${Pen.number = (Pen.number ?? 0) + 1}`;
      this.out.push(`<clipPath id="${id}"><path d="${this.path}"/></clipPath><g clip-path="url(#${id})">`);
      this.depth++;
    }
    ink(value) { return typeof value === "string" ? value : "#80808066"; } // a pattern becomes a plain tint
    line() { return `fill="none" stroke="${this.ink(this.strokeStyle)}" stroke-width="${this.lineWidth}"${this.dash ? ` stroke-dasharray="${this.dash}"` : ""}`; }
    fill() { this.out.push(`<path d="${this.path}" fill="${this.ink(this.fillStyle)}"/>`); }
    stroke() { this.out.push(`<path d="${this.path}" ${this.line()}/>`); }
    fillRect(x, y, w, h) { if (w > 0 && h > 0) this.out.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}" fill="${this.ink(this.fillStyle)}"/>`); }
    strokeRect(x, y, w, h) { this.out.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}" ${this.line()}/>`); }
    fillText(text, x, y) {
      const anchor = { left: "start", right: "end", center: "middle" }[this.textAlign];
      const [, bold, size] = /^(\d+ )?([\d.]+px)/.exec(this.font) ?? [];
      this.out.push(`<text x="${round(x)}" y="${round(y)}" fill="${this.ink(this.fillStyle)}" font-size="${size ?? "11px"}"${bold ? ` font-weight="${bold.trim()}"` : ""} text-anchor="${anchor}" dominant-baseline="central">${escaped(text)}</text>`);
    }
  }

  function svg(timeline) {
    const { parts, head } = timeline, { W, H, ratio, strip, over, color, css } = parts.size();
    timeline.paint();
    const { many, boxes, fills } = parts.boxes();
    const byFill = new Map();
    for (let i = 0, o = 0; i < many; i++, o += 4) {
      const x = boxes[o] / ratio, y = boxes[o + 1], w = boxes[o + 2] / ratio, h = boxes[o + 3];
      const list = byFill.get(fills[i]) ?? [];
      if (!list.length) byFill.set(fills[i], list);
      list.push(`M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}z`);
    }
    const layer = (paint) => { const pen = new Pen(); paint(pen, 1); return pen.out.join(""); };
    const lanes = [...byFill].map(([fill, list]) => `<path fill="${css(fill)}" d="${list.join("")}"/>`).join("");
    const tall = over + strip + H;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${W}" height="${tall}" viewBox="0 0 ${W} ${tall}" font-family="system-ui, sans-serif">`
      + `<title>${escaped(head.title ?? "timeline")}</title><rect width="${W}" height="${tall}" fill="${color.bg}"/>`
      + `<g>${layer(parts.paintOver)}</g><g transform="translate(0 ${over})">${layer(parts.paintAxis)}</g>`
      + `<clipPath id="lanes"><rect width="${W}" height="${H}"/></clipPath><g transform="translate(0 ${over + strip})" clip-path="url(#lanes)"><g shape-rendering="crispEdges">${lanes}</g>${layer(parts.paintTop)}</g></svg>\n`;
  }

  function png(timeline) {
    const { parts } = timeline, { W, H, ratio, strip, over } = parts.size();
    timeline.paint();
    const sheet = document.createElement("canvas");
    sheet.width = Math.round(W * ratio);
    sheet.height = Math.round((over + strip + H) * ratio);
    const c = sheet.getContext("2d");
    let y = 0;
    for (const canvas of [parts.canvases.over, parts.canvases.axis]) { c.drawImage(canvas, 0, y); y += canvas.height; }
    c.imageSmoothingEnabled = false;
    c.drawImage(parts.canvases.body, 0, y, sheet.width, Math.round(H * ratio)); // has one pixel down for each of CSS
    c.drawImage(parts.canvases.top, 0, y);
    return new Promise((done) => sheet.toBlob(done, "image/png"));
  }

  /** What the timeline's menu offers: [label, make], where make returns {blob, suffix, text}. */
  function saving(timeline) {
    const chosen = () => {
      const { measured, view } = timeline;
      return measured ? [measured.start, measured.end] : [view.t0, view.t1];
    };
    const trace = (make, suffix) => async () => {
      const { blob, events, note } = await make(timeline, ...chosen());
      return { blob, suffix, text: `${window.tracekit.count(events)} events${note ? `; ${note}` : ""}` };
    };
    return [
      ["window as Chrome trace (.json)", trace(chromeTrace, ".json")],
      ["window as Perfetto trace (.pftrace)", trace(perfettoTrace, ".pftrace")],
      ["picture as SVG", async () => ({ blob: new Blob([svg(timeline)], { type: "image/svg+xml" }), suffix: ".svg", text: "" })],
      ["picture as PNG", async () => ({ blob: await png(timeline), suffix: ".png", text: "" })],
    ];
  }

  window.tracekit.timelineSaving = Object.assign(saving, { chromeTrace, perfettoTrace, svg, png });
})();

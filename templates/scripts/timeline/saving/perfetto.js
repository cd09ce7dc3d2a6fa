// A Perfetto trace: track events with interned names (protos/perfetto/trace/trace_packet.proto).

import { slicer } from "../../page/slices.js";
import { argsBetween } from "../args.js";
import { endIn, lengthIn, link, name, start } from "../events.js";
import { groupOfLane, laneOfRow } from "../lanes.js";
import { groups, head, kindOf, kinds, lanes, names, unit } from "../source.js";
import { Proto } from "./proto.js";
import { absence, eachFlow, touched } from "./window.js";

export async function perfettoTrace(t0, t1) {
  const begin = BigInt(/^-?\d+$/.test(head.begin) ? head.begin : 0), step = BigInt(unit);
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
  const spans = touched(t0, t1);
  const byLane = new Map();
  for (const span of spans) {
    const l = laneOfRow[span[0]];
    byLane.set(l, [...(byLane.get(l) ?? []), span]);
  }
  const described = new Set(), knownNames = new Set(), knownKinds = new Set();
  const flows = new Map();
  for (const [, i0, j0] of spans) for (let i = i0; i < j0 && link.length; i++) if (link[i] >= 0) flows.set(link[i], [...(flows.get(link[i]) ?? []), i + 1]);
  const arrows = new Map(), arrow = (i, field, x) => arrows.set(i, [...(arrows.get(i) ?? []), [field, head.n + 1 + x]]);
  eachFlow(spans, (x, from, to) => { arrow(from, 47, x); arrow(to, 48, x); });
  const argsOf = await argsBetween(spans, true);
  let events = 0;
  /** One packet; kind of point: 1 begins a slice, 2 ends it, 3 is an instant. */
  const point = (type, t, track, i) => {
    const stamp = begin + BigInt(t) * step;
    packet.number(8, stamp < 0n ? 0n : stamp).number(10, SEQUENCE).number(13, fresh ? 3 : 2);
    fresh = false;
    event.clear().number(9, type).number(11, track);
    if (type !== 2) {
      const code = name[i], kind = kindOf[code];
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
      if (link.length && link[i] >= 0) event.fixed64(48, i + 1);
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
        for (let x = 0; x < set.length; x++) if (at[x] < set[x][2] && (next < 0 || start[at[x]] < start[at[next]] || (start[at[x]] === start[at[next]] && lengthIn(set[x][0], at[x]) > lengthIn(set[next][0], at[next])))) next = x;
        const t = next < 0 ? Infinity : start[at[next]];
        while (open.length && open[open.length - 1] <= t) point(2, open.pop(), track);
        if (next < 0) break;
        const i = at[next]++, r = set[next][0];
        if (lanes[l].instants) point(3, t, track, i);
        else { point(1, t, track, i); open.push(endIn(r, i)); }
        if (events % 256 === 0 && slice.due()) await slice.rest();
      }
    }
  }
  flush();
  return { blob: new Blob(pieces, { type: "application/octet-stream" }), events, note: absence(t0, t1, spans) };
}

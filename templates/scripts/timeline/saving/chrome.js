// A Chrome trace, as `tracekit convert` writes it: µs with three decimals, lanes at the end.

import { slicer } from "../../page/slices.js";
import { argsBetween } from "../args.js";
import { endIn, lengthIn, link, name, rowOf, start } from "../events.js";
import { groupOfLane, laneOfRow } from "../lanes.js";
import { groups, head, kindOf, kinds, lanes, names, unit } from "../source.js";
import { absence, eachFlow, ids, touched } from "./window.js";

const micros = (ns) => `${Math.floor(ns / 1000)}.${String(ns % 1000).padStart(3, "0")}`;
const json = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");

export async function chromeTrace(t0, t1) {
  const slice = slicer();
  const pieces = ['{"displayTimeUnit":"ns","traceEvents":[\n'];
  let text = "", comma = "", events = 0;
  const put = (line) => {
    text += comma + line;
    comma = ",\n";
    if (text.length > 1 << 20) { pieces.push(text); text = ""; }
  };
  const spans = touched(t0, t1);
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
  const argsOf = await argsBetween(spans);
  const quoted = names.map(() => "");
  for (const [r, i0, j0] of spans) {
    const l = laneOfRow[r], place = `"pid":${groupOfLane[l] + 1},"tid":${track(r)}`, instant = lanes[l].instants;
    for (let i = i0; i < j0; i++) {
      const code = name[i];
      quoted[code] ||= json(names[code]);
      const shape = instant ? '"ph":"i","s":"t"' : '"ph":"X"';
      const length = instant ? "" : `,"dur":${micros(lengthIn(r, i) * unit)}`;
      const args = argsOf(i);
      put(`{${shape},"cat":"${kinds[kindOf[code]]}","name":${quoted[code]},${place}${args ? `,"args":{${args}}` : ""},"ts":${micros(start[i] * unit)}${length}}`);
      events++;
      const call = link.length ? link[i] : -1;
      if (call >= 0) {
        const from = rowOf(call);
        if (start[call] < t1 && (endIn(from, call) > t0 || start[call] >= t0)) {
          const there = `"pid":${groupOfLane[laneOfRow[from]] + 1},"tid":${track(from)}`;
          put(`{"ph":"s","cat":"launch","name":"launch","id":${i + 1},${there},"ts":${micros(start[call] * unit)}}`);
          put(`{"ph":"f","bp":"e","cat":"launch","name":"launch","id":${i + 1},${place},"ts":${micros(start[i] * unit)}}`);
        }
      }
      if (i % 256 === 0 && slice.due()) await slice.rest();
    }
  }
  eachFlow(spans, (x, from, to) => {
    for (const [ph, i] of [['s"', from], ['f","bp":"e"', to]]) {
      const r = rowOf(i);
      put(`{"ph":"${ph},"cat":"flow","name":"flow","id":${head.n + 1 + x},"pid":${groupOfLane[laneOfRow[r]] + 1},"tid":${track(r)},"ts":${micros(start[i] * unit)}}`);
    }
  });
  const own = [...rowsOf].map(([tid, r]) => {
    const lane = lanes[laneOfRow[r]], { source = 0, rank = null, process = null, device = null, context = null, stream = null, thread = null } = ids(lane);
    return { pid: groupOfLane[laneOfRow[r]] + 1, tid, source, rank, process, side: lane.host ? "host" : "device", device, context, stream, thread, extra: 0 };
  });
  const note = absence(t0, t1, spans);
  const facts = { version: head.version ?? "", clock: null, lanes: own, window_ns: [Math.floor(t0 * unit), Math.ceil(t1 * unit)], written: events, notes: note ? [note] : [] };
  pieces.push(text, `\n],"baseTimeNanoseconds":${/^-?\d+$/.test(head.begin) ? head.begin : 0},"tracekit":${json(facts)}}\n`);
  return { blob: new Blob(pieces, { type: "application/json" }), events, note };
}

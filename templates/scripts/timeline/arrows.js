// Which events belong together: calls and what they launched, and the arrows of the input.

import { N, flowFrom, flowTo, link } from "./events.js";
import { lower } from "./ranges.js";

let calls = null; // the events that a call launched, as chains: the first of each call, the next of each event

/** The events at the other ends of an event's arrows: [place, "launch" | "launched" | "to" | "from"]. */
export function partners(i) {
  const out = [];
  if (link.length) {
    if (link[i] >= 0) out.push([link[i], "launched"]);
    calls ??= chains();
    for (let j = calls.head[i]; j >= 0; j = calls.next[j]) out.push([j, "launch"]);
  }
  for (let x = lower(flowFrom, i); x < flowFrom.length && flowFrom[x] === i; x++) out.push([flowTo[x], "to"]);
  for (let x = 0; x < flowTo.length; x++) if (flowTo[x] === i) out.push([flowFrom[x], "from"]);
  return out;
}

function chains() {
  const head_ = new Int32Array(N).fill(-1);
  const next = new Int32Array(N).fill(-1);
  for (let j = N - 1; j >= 0; j--) {
    if (link[j] < 0) continue;
    next[j] = head_[link[j]];
    head_[link[j]] = j;
  }
  return { head: head_, next };
}

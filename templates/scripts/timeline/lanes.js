// The lanes and their groups: what they are called, and which of them a row is in.

import { span as spanText } from "../page/texts.js";
import { ROWS } from "./events.js";
import { groups, lanes, unit } from "./source.js";

export const isDevice = (lane) => lane.device ?? (!lane.host && !lane.note);
export const layersOf = lanes.map((lane) => lane.layers?.length ? lane.layers : [["", lane.depth]]);
export const groupOfLane = new Int32Array(lanes.length);
groups.forEach((group, g) => { for (const l of group.lanes) groupOfLane[l] = g; });
export const laneOfRow = new Int32Array(ROWS);
lanes.forEach((lane, l) => laneOfRow.fill(l, lane.row, lane.row + lane.depth));
export const groupName = (g) => (g < 0 ? "counters" : groups[g].label);
export const ofHost = (host) => groups.flatMap((group, g) => (group.host === host ? [g] : []));
export const placeName = (l) => [groups[groupOfLane[l]].host, groups[groupOfLane[l]].label, lanes[l].label].filter(Boolean).join(" · ");
export const time = (units) => spanText(Math.round(units * unit));

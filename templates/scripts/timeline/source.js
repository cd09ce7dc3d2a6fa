// The head of the timeline, as the page has it. Times are whole units after its time 0; a unit is head.unit ns.

import { namesOf } from "./decode.js";

export const head = JSON.parse(document.getElementById("tl-head").textContent);
/** @type {any} */
export const face = window.tracekit.timeline = {}; // what other parts may use, complete once `ready` is fulfilled
export let allRead;
face.ready = new Promise((done) => { allRead = done; });
export const names = await namesOf(head);
export const { first, lanes, groups, kindOf, kinds: classes, unit } = head;
export const kinds = classes.map((each) => head.kindsOf?.[each] ?? each); // a class is a kind, or a part of it with a colour of its own
export let SPAN = Math.max(head.span, 1); // one unit more where an event without length is at the very end
export const marks = head.marks ?? [], missing = head.missing ?? [];

// [start, end, name]; where ranks have steps at the same time, those of the first are the bands above the lanes
export const steps = [];
for (const [a, length, text] of head.steps ?? []) if (!steps.length || a >= steps[steps.length - 1][1]) steps.push([a, a + length, text]);
export const oneMore = () => { SPAN = head.span + 1; };

// The first picture, and reading the events.

import { link as address } from "../page/address.js";
import { followLink, inLink, later } from "./address.js";
import { layMarks, markFound } from "./axis.js";
import { darkScheme, readTheme } from "./colours.js";
import { fillWindow } from "./dock.js";
import { absent, legend, pathText, scroll } from "./elements.js";
import { N, data, load, start } from "./events.js";
import { markOf } from "./finding_marks.js";
import { foldAtFirst, showLayers } from "./folding.js";
import { layout } from "./layout.js";
import { makeOverview } from "./overview.js";
import { draw, paint, stats } from "./paint.js";
import { reveal, select, selected } from "./selection.js";
import { SPAN, allRead, first, marks, oneMore } from "./source.js";
import { view } from "./view.js";

let laidOut = scroll.clientWidth;
new ResizeObserver(() => {
  draw();
  if (scroll.clientWidth === laidOut) return;
  laidOut = scroll.clientWidth;
  if (data.done) makeOverview();
}).observe(scroll);
addEventListener("resize", layout);
const belowLanes = new ResizeObserver(fillWindow);
for (const each of [legend, absent, pathText]) belowLanes.observe(each);
darkScheme.addEventListener("change", () => { readTheme(); draw(); });

layMarks();
readTheme();
foldAtFirst();
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
load(progress).then(async () => {
  if (first.some((stop, r) => r > 0 && stop > first[r - 1] && start[stop - 1] >= SPAN)) {
    const whole = view.t1 === SPAN;
    oneMore();
    if (whole) view.t1 = SPAN;
  }
  await makeOverview();
  draw();
  for (let m = 0; m < marks.length; m++) markFound[m] = await markOf(m);
  draw(false);
  for (const word of Object.keys(inLink)) { const value = address.get(word); if (value !== null) followLink(word, value); }
  if (selected >= 0 && inLink.t === null && inLink.fold === null) reveal(selected);
  later();
  stats.decoded = performance.now();
  allRead();
});

// Flame graphs: call paths merged by name, as wide as their time.
//
// That of a report is made from the columns of the timeline: the ranges of the host with the device time that they
// launched, of the whole page or of the measured window. A range is below the innermost one of its thread that holds
// it whole; so totals are exact, and self times are what no range below takes. That of a comparison is in the page as
// data: its width is the new time, its colour the difference.

import { ofSamples, ofSides } from "./flame/profile.js";
import { ofTimeline } from "./flame/timeline.js";
import { calls } from "./flame/tree.js";
import { on } from "./page/bus.js";
import { reportData } from "./page/report.js";

async function ofData(mount) {
  const [section, place] = mount.dataset.figure.split(".").map(Number);
  const data = await reportData();
  if (!data) return;
  const { title, unit } = mount.dataset;
  (unit ? ofSamples : ofSides)(mount, { ...calls(data.report.sections[section].figures[place], data), title, unit });
}

for (const mount of document.querySelectorAll(".flame")) {
  if (mount.dataset.figure) ofData(mount);
  else if (window.tracekit.timeline?.parts) ofTimeline(mount, window.tracekit.timeline);
  else on("timeline", (timeline) => ofTimeline(mount, timeline));
}

// The labels of the lanes.

import { color } from "./colours.js";
import { groupName, ofHost, placeName } from "./lanes.js";
import { FOLDING, GROUP, foldedGroups, itemsIn, pinHeight, stickyHeader, yOf } from "./layout.js";
import { BOLD, FONT, cut, cutHead } from "./letters.js";
import { hoveredLane } from "./pointer.js";
import { groups, lanes } from "./source.js";
import { line, triangle } from "./strokes.js";
import { amount } from "./units.js";
import { H, LEFT, W } from "./view.js";

export function paintGutter(c) {
  c.fillStyle = color.bg;
  c.fillRect(0, 0, LEFT, H);
  let belowPins = true;
  for (const it of itemsIn(H)) {
    const y = yOf(it);
    if (it.pin && belowPins) {
      belowPins = false;
      c.fillStyle = color.bg;
      c.fillRect(0, 0, LEFT, pinHeight);
    }
    paintLabel(c, it, y);
  }
  const sticky = stickyHeader();
  if (sticky) {
    const [it, y] = sticky;
    c.save();
    c.beginPath();
    c.rect(0, pinHeight, W, GROUP);
    c.clip();
    c.fillStyle = color.bg;
    c.fillRect(0, y, W, GROUP);
    paintLabel(c, it, y);
    c.strokeStyle = color.line;
    line(c, 0, y + GROUP - 0.5, W, y + GROUP - 0.5);
    c.restore();
  }
  if (pinHeight) {
    c.strokeStyle = color.muted;
    line(c, 0, pinHeight - 0.5, W, pinHeight - 0.5);
  }
  c.textAlign = "left";
}

function paintLabel(c, it, y) {
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
    if (it.layer === 0 && (it.pin || it.lane === hoveredLane)) pushpin(c, 7, at, it.pin ? color.accent : color.muted);
  }
}
const labelOf = (it) => (it.pin ? cutHead(placeName(it.lane), LEFT - 44) : W < 640 ? lanes[it.lane].label.replace(/^(thread|stream) /, "") : lanes[it.lane].label);
function pushpin(c, x, y, ink) {
  c.fillStyle = c.strokeStyle = ink;
  c.fillRect(x - 3, y - 4, 6, 5);
  line(c, x, y + 1, x, y + 5);
}

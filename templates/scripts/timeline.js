// The timeline: lanes over time on a canvas, and what hands, keys and other parts of the page do with it.
//
// A pixel column with one event is a full block. A column with several is a bar as high as their exact busy share, in
// the colour of the kind with most of the work, on a pale band. Text of a trace goes in as text nodes or canvas text.

import { emit } from "./page/bus.js";
import { argsOf, membersOf } from "./timeline/args.js";
import { partners } from "./timeline/arrows.js";
import { color, css, fullColor, hex, pack, shades, textColor } from "./timeline/colours.js";
import { axis, body, over, top } from "./timeline/elements.js";
import { counters, data, endOf, flowFrom, flowTo, kindAt, lengthIn, lengthOf, link, name, rowOf, seek, start } from "./timeline/events.js";
import "./timeline/families.js";
import { markOf } from "./timeline/finding_marks.js";
import { fold, foldLayer, pin } from "./timeline/folding.js";
import { stepGap } from "./timeline/gaps.js";
import "./timeline/keys.js";
import { groupOfLane, isDevice, laneOfRow, time } from "./timeline/lanes.js";
import { items, layout } from "./timeline/layout.js";
import { marked, walk } from "./timeline/marking.js";
import { measure, measured } from "./timeline/measuring.js";
import "./timeline/menus.js";
import { boxes, fills, labels, many, paint, pixels, stats } from "./timeline/paint.js";
import { paths } from "./timeline/path_data.js";
import { chromeTrace } from "./timeline/saving/chrome.js";
import { perfettoTrace } from "./timeline/saving/perfetto.js";
import { png, svg } from "./timeline/saving/picture.js";
import { scan } from "./timeline/scan.js";
import { search } from "./timeline/search.js";
import { reveal, select, selected } from "./timeline/selection.js";
import { face, first, groups, head, kindOf, kinds, lanes, names } from "./timeline/source.js";
import { shown } from "./timeline/statistics.js";
import { AXIS, H, LEFT, OVER, W, fit, ratio, setView, stripHeight, view, zoom } from "./timeline/view.js";
import "./timeline/begin.js";

Object.defineProperties(face, Object.getOwnPropertyDescriptors({
  head, view, stats, start, name, first, lanes, groups, length: lengthOf, end: endOf,
  data: Object.assign(data, { argsOf, counters, endOf, flows: () => [flowFrom, flowTo], kindAt, length: lengthIn, lengthOf, link, markOf, membersOf, partners, paths, rowOf, scan, seek }),
  saving: { chromeTrace, perfettoTrace, svg, png },
  get measured() { return measured && { start: measured[0], end: measured[1] }; },
  get selected() { return selected; },
  get marked() { return marked; },
  get statistics() { return shown; },
  show: setView, zoom, search, walk, select, reveal, measure, fit, fold, foldLayer, pin, stepGap, paint, layout,
  items: () => items,
  labels: () => labels.map(([e]) => e),
  picture: () => ({ pixels, width: body.width, height: body.height, left: Math.round(LEFT * ratio), ratio, ground: pack(...hex(color.bg)), shades }),
  parts: { boxes: () => ({ many, boxes, fills }), size: () => ({ W, H, LEFT, ratio, strip: AXIS + stripHeight, over: OVER, color, css }), canvases: { over, axis, body, top }, names, kinds, kindOf, fullColor, textColor, laneOfRow, groupOfLane, isDevice, time },
}));
emit("timeline", face);

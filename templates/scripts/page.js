// What all scripts of a page share: a bus, the link in the address, texts of numbers, short messages, saved files; and
// the contents, in which the section that one reads is marked.
// It comes first. A part that is missing on a page must not break another: nobody calls another part directly.

import { link } from "./page/address.js";
import { emit, on } from "./page/bus.js";
import "./page/contents.js";
import { button, el } from "./page/dom.js";
import { fileName, save } from "./page/files.js";
import { reportData } from "./page/report.js";
import { slicer } from "./page/slices.js";
import { count, counted, exact, span } from "./page/texts.js";
import { toast } from "./page/toast.js";
import { toneOf, tonesOf, variableColor } from "./page/tones.js";

document.documentElement.classList.add("script");

export { button, count, counted, el, emit, exact, fileName, link, on, reportData, save, slicer, span, toast, toneOf, tonesOf, variableColor };

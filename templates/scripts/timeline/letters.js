// Text on the canvas, cut to the room it has. Widths of characters are measured once.

import { context } from "./paint.js";
import { names } from "./source.js";

export const LONG_NAME = 40; // characters that the list of a window has room for
export const FONT = "11px system-ui, sans-serif", BOLD = "600 12px system-ui, sans-serif";
const widths = new Map();
function widthOf(letter) {
  let w = widths.get(letter);
  if (w === undefined) {
    context.font = FONT;
    widths.set(letter, w = context.measureText(letter).width);
  }
  return w;
}

export const widthOfText = (text) => [...text].reduce((sum, letter) => sum + widthOf(letter), 0);
/** As much of a text as fits, with "…" where it is cut; "" where not even that much fits. */
export function cut(text, room) {
  let used = 0, fits = 0;
  const dots = widthOf("…");
  for (let i = 0; i < text.length; i++) {
    used += widthOf(text[i]);
    if (used > room) return fits > 1 ? `${text.slice(0, fits)}…` : "";
    if (used <= room - dots) fits = i + 1;
  }
  return text;
}

/** A name without its return type and namespaces: they say least, and go first where a name is too long. */
const bare = new Map();
export function bareName(code) {
  let text = bare.get(code);
  if (text === undefined) {
    const spaces = /(?<![\w>)}])(?:(?:\w{1,64}|\(anonymous namespace\)|<unnamed>|\{anonymous\})::){1,9}(?=[\w~{])/g;
    bare.set(code, text = names[code].replace(/^void (?=[\w({<])/, "").replace(spaces, ""));
  }
  return text;
}
export function cutName(code, room) {
  const whole = cut(names[code], room);
  return whole === names[code] ? whole : cut(bareName(code), room);
}

/** Cuts before the last part of a place, which says most: "process 7 py… · GPU 0". */
export function cutHead(text, room) {
  const at = text.lastIndexOf(" · ");
  if (at < 0 || cut(text, room) === text) return cut(text, room);
  const tail = text.slice(at), used = widthOfText(tail);
  return (cut(text.slice(0, at), room - used) || cut(text, room - used)) + cut(tail, room);
}

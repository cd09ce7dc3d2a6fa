// The timeline as a picture.

import { paintAxis } from "../axis.js";
import { color, css } from "../colours.js";
import { axis, body, over, top } from "../elements.js";
import { paintTop } from "../overlay.js";
import { paintOver } from "../overview.js";
import { boxes, fills, many, paint } from "../paint.js";
import { head } from "../source.js";
import { AXIS, H, OVER, W, ratio, stripHeight } from "../view.js";
import { Pen, escaped, round } from "./pen.js";

export function svg() {
  paint();
  const byFill = new Map();
  for (let i = 0, o = 0; i < many; i++, o += 4) {
    const x = boxes[o] / ratio, y = boxes[o + 1], w = boxes[o + 2] / ratio, h = boxes[o + 3];
    const list = byFill.get(fills[i]) ?? [];
    if (!list.length) byFill.set(fills[i], list);
    list.push(`M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}z`);
  }
  const layer = (draws) => { const pen = new Pen(); draws(pen, 1); return pen.out.join(""); };
  const rects = [...byFill].map(([fill, list]) => `<path fill="${css(fill)}" d="${list.join("")}"/>`).join("");
  const strip = AXIS + stripHeight, tall = OVER + strip + H;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${W}" height="${tall}" viewBox="0 0 ${W} ${tall}" font-family="system-ui, sans-serif">`
    + `<title>${escaped(head.title ?? "timeline")}</title><rect width="${W}" height="${tall}" fill="${color.bg}"/>`
    + `<g>${layer(paintOver)}</g><g transform="translate(0 ${OVER})">${layer(paintAxis)}</g>`
    + `<clipPath id="lanes"><rect width="${W}" height="${H}"/></clipPath><g transform="translate(0 ${OVER + strip})" clip-path="url(#lanes)"><g shape-rendering="crispEdges">${rects}</g>${layer(paintTop)}</g></svg>\n`;
}

export function png() {
  paint();
  const sheet = document.createElement("canvas");
  sheet.width = Math.round(W * ratio);
  sheet.height = Math.round((OVER + AXIS + stripHeight + H) * ratio);
  const c = sheet.getContext("2d");
  let y = 0;
  for (const canvas of [over, axis]) { c.drawImage(canvas, 0, y); y += canvas.height; }
  c.imageSmoothingEnabled = false;
  c.drawImage(body, 0, y, sheet.width, Math.round(H * ratio)); // has one pixel down for each of CSS
  c.drawImage(top, 0, y);
  return new Promise((done) => sheet.toBlob(done, "image/png"));
}

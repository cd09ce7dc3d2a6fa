// SVG: takes what the drawing code says to a canvas.

export const escaped = (text) => String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")
  .replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;").replaceAll("'", "&#39;");
export const round = (v) => String(Math.round(v * 100) / 100);

let clips = 0;
/** Takes what the drawing code says to a canvas, as SVG elements. */
export class Pen {
  constructor() { this.out = []; this.path = ""; this.dash = ""; this.clips = 0; this.held = []; this.depth = 0; this.lineWidth = 1; this.textAlign = "left"; this.textBaseline = "middle"; this.font = ""; this.fillStyle = this.strokeStyle = "#000"; }
  setTransform() {}
  clearRect() {}
  save() { this.held.push(this.depth); }
  restore() { for (const to = this.held.pop(); this.depth > to; this.depth--) this.out.push("</g>"); }
  setLineDash(list) { this.dash = list.join(" "); }
  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${round(x)} ${round(y)}`; }
  lineTo(x, y) { this.path += `L${round(x)} ${round(y)}`; }
  bezierCurveTo(...p) { this.path += `C${p.map(round).join(" ")}`; }
  rect(x, y, w, h) { this.path += `M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}z`; }
  clip() {
    const id = `clip-${++clips}`;
    this.out.push(`<clipPath id="${id}"><path d="${this.path}"/></clipPath><g clip-path="url(#${id})">`);
    this.depth++;
  }
  ink(value) { return typeof value === "string" ? value : "#80808066"; } // a pattern becomes a plain tint
  line() { return `fill="none" stroke="${this.ink(this.strokeStyle)}" stroke-width="${this.lineWidth}"${this.dash ? ` stroke-dasharray="${this.dash}"` : ""}`; }
  fill() { this.out.push(`<path d="${this.path}" fill="${this.ink(this.fillStyle)}"/>`); }
  stroke() { this.out.push(`<path d="${this.path}" ${this.line()}/>`); }
  fillRect(x, y, w, h) { if (w > 0 && h > 0) this.out.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}" fill="${this.ink(this.fillStyle)}"/>`); }
  strokeRect(x, y, w, h) { this.out.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}" ${this.line()}/>`); }
  fillText(text, x, y) {
    const anchor = { left: "start", right: "end", center: "middle" }[this.textAlign];
    const [, bold, size] = /^(\d+ )?([\d.]+px)/.exec(this.font) ?? [];
    this.out.push(`<text x="${round(x)}" y="${round(y)}" fill="${this.ink(this.fillStyle)}" font-size="${size ?? "11px"}"${bold ? ` font-weight="${bold.trim()}"` : ""} text-anchor="${anchor}" dominant-baseline="central">${escaped(text)}</text>`);
  }
}

// Colours of the page and of kinds, in shades.

import { toneOf, tonesOf, variableColor } from "../page/tones.js";
import { head, kindOf, names } from "./source.js";

export const darkScheme = matchMedia("(prefers-color-scheme: dark)");

export const hex = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
export const pack = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
export const css = (packed) => `#${[packed, packed >> 8, packed >> 16].map((part) => ((part & 255) | 256).toString(16).slice(1)).join("")}`;
const linear = (part) => (part / 255 <= 0.04 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
const luminance = (rgb) => 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]);
export const FULL = 16; // shades from the background (0) to the colour
export let color = {}, dark = false;
export let shades = []; // [kind][tone][shade], packed
let inkOn = []; // [kind][tone]: black or white, what has more contrast with it: at least 4.5 to 1
export const toneOfName = Uint8Array.from(names, toneOf);
export const fullColor = (code) => css(shades[kindOf[code]][toneOfName[code]][FULL]);
export const textColor = (code) => inkOn[kindOf[code]][toneOfName[code]];
export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  dark = darkScheme.matches;
  const words = ["bg", "fg", "muted", "line", "soft", "accent", "kernel", "step"];
  color = Object.fromEntries(words.map((word) => [word, css(pack(...variableColor(word, style)))]));
  const ground = hex(color.bg);
  const tones = head.colors.map((word) => tonesOf(variableColor(word, style), dark));
  shades = tones.map((each) => each.map((rgb) => Array.from({ length: FULL + 1 }, (_, s) => pack(...rgb.map((part, x) => Math.round(ground[x] + (part - ground[x]) * s / FULL))))));
  inkOn = tones.map((each) => each.map((rgb) => (luminance(rgb) > 0.179 ? "#000000" : "#ffffff")));
}

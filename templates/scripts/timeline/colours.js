// Colours of the page and of kinds, in shades.

import { el } from "../page/dom.js";
import { legend } from "./elements.js";
import { classes, head } from "./source.js";

export const darkScheme = matchMedia("(prefers-color-scheme: dark)");

export const hex = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
export const pack = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
export const css = (packed) => `#${[packed, packed >> 8, packed >> 16].map((part) => ((part & 255) | 256).toString(16).slice(1)).join("")}`;
const linear = (part) => (part / 255 <= 0.04 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
const luminance = (rgb) => 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]);
export const FULL = 16; // shades from the background (0) to the colour
export let color = {}, dark = false;
export let shades = []; // [kind][tone][shade], packed
export let inkOn = []; // [kind]: colour of text on it, at least 4.5 to 1
export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const read = (word, instead) => {
    const value = style.getPropertyValue(`--${word}`).trim() || instead;
    return value.length === 4 ? `#${[...value.slice(1)].map((digit) => digit + digit).join("")}` : value;
  };
  dark = darkScheme.matches;
  color = { bg: read("bg", "#ffffff"), fg: read("fg", "#1c2733"), muted: read("muted", "#5d6b79"), line: read("line", "#e2e7ec"), soft: read("soft", "#f6f8fa"), accent: read("accent", "#3b6fb6") };
  const ground = hex(color.bg);
  const bases = classes.map((kind) => hex((head.colors[kind] ?? ["#9fa3a8", "#7d838a"])[dark ? 1 : 0]));
  const light = bases.map((rgb) => 1.05 / (luminance(rgb) + 0.05) < 4.5);
  inkOn = light.map((is) => (is ? "#000000" : "#ffffff"));
  // tones move away from the colour of their text, so that its contrast only grows
  shades = bases.map((rgb, k) => [0, 14, 28].map((lift) => {
    const tone = rgb.map((part) => part + ((light[k] ? 255 : 0) - part) * (lift / 110));
    return Array.from({ length: FULL + 1 }, (_, s) => pack(...tone.map((part, x) => Math.round(ground[x] + (part - ground[x]) * s / FULL))));
  }));
  legend.replaceChildren(...classes.map((kind, k) => {
    const chip = el("i");
    chip.style.background = css(shades[k][0][FULL]);
    return el("li", {}, chip, kind.replaceAll("_", " "));
  }));
}

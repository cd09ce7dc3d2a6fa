// Colours of data by the name of their CSS variable, and the tones of names.

/** How far each tone is from a colour to black, on a dark page to white: the contrast of a mark only grows. */
const TONES = [0, 0.08, 0.16];

/** The tone of a name: the same on every page. */
export function toneOf(text) {
  let hash = 0;
  for (let i = 0; i < text.length && i < 500; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return ((hash ^ (hash >>> 15)) >>> 0) % TONES.length;
}

/** All tones of a colour. */
export const tonesOf = (rgb, dark) => TONES.map((part) => rgb.map((value) => Math.round(value + ((dark ? 255 : 0) - value) * part)));

/** The colour of a CSS variable as [red, green, blue]. */
export function variableColor(word, style = getComputedStyle(document.documentElement)) {
  const value = style.getPropertyValue(`--${word}`).trim(), wide = value.length > 4;
  return /^#[0-9a-f]{3}(?:[0-9a-f]{3})?$/i.test(value) ? [0, 1, 2].map((i) => parseInt(wide ? value.slice(1 + 2 * i, 3 + 2 * i) : value[1 + i].repeat(2), 16)) : [139, 143, 148];
}

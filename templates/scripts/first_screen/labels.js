// Labels of lanes: as much of each as tells it from the others.

/** A text cut in its middle: lanes of several devices differ at their beginnings, those of one device at their ends. */
export function fitted(c, text, room) {
  let size = text.length, shown = text;
  while (size > 1 && c.measureText(shown).width > room) {
    size--;
    shown = `${text.slice(0, size >> 1)}…${text.slice((size >> 1) - size)}`;
  }
  return shown;
}

/** Where the lanes begin: beside the widest label, which gets at most a fifth of the width. */
export function beginning(c, lanes, width) {
  const widest = Math.max(...lanes.map(({ label }) => c.measureText(label).width));
  return Math.ceil(Math.min(Math.max(widest + 16, 60), Math.max(width / 5, 110)));
}

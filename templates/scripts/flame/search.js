// Search in a flame graph: which names match, and how much of the time is in them.

/** Names that match, the outermost call paths of them, and their value: a path within another one counts once. */
export function matches(root, label, text) {
  const wanted = text.trim().toLowerCase(), codes = new Set(), known = new Map(), paths = [];
  if (!wanted) return null;
  const fits = (code) => {
    if (code < 0) return false;
    if (!known.has(code)) known.set(code, label(code).toLowerCase().includes(wanted));
    return known.get(code);
  };
  let value = 0;
  const waiting = [[root, false]];
  while (waiting.length) {
    const [it, inside] = waiting.pop();
    const fit = fits(it.code);
    if (fit) codes.add(it.code);
    if (fit && !inside) { paths.push(it); value += it.value; }
    for (let i = it.children.length - 1; i >= 0; i--) waiting.push([it.children[i], inside || fit]);
  }
  return { codes, paths, value };
}

/** The result in words. whole: the value of everything. */
export function words({ codes, paths, value }, whole, amount) {
  if (!codes.size) return "no name matches";
  const names = codes.size === 1 ? "1 name" : `${codes.size} names`;
  return `${names}, ${paths.length === 1 ? "1 call path" : `${paths.length} call paths`}: ${amount(value)}, ${((100 * value) / (whole || 1)).toFixed(1)} %`;
}

// Arguments that have no column: JSON text.

const OWN = /^(name|raw_name|copy_kind|device|context|stream|tid|correlation|step|bytes|grid(_[xyz])?|block(_[xyz])?|registers|static_smem_bytes|dynamic_smem_bytes|value|dur_ns|args|args_text)$/;

/** JSON of the arguments without a column, put beside those with one as `tracekit convert` does. */
export function beside(text) {
  if (!text) return [];
  try {
    const found = JSON.parse(text), keys = Object.keys(found);
    if (typeof found === "object" && !Array.isArray(found)) return [keys.length && !keys.some((each) => OWN.test(each)) ? text.trim().slice(1, -1) : `"args":${text}`];
  } catch { /* kept as a text */ }
  return [`"args_text":${JSON.stringify(text)}`];
}

/** JSON that Perfetto reads too, which takes the quote after "\\\\" as escaped. */
export const ascii = (text) => text.replace(/\\(.)/g, (all, after) => (after === "\\" ? "\\u005c" : all)).replaceAll("\x7f", "\\u007f").replaceAll("<", "\\u003c");

/** Members of a JSON object: [key, text, whether it is a number], digits as they are written. Other text is one. */
export function members(text) {
  const raw = JSON.rawJSON, exactly = (/** @type {string} */ _, /** @type {any} */ value, { source = "" } = {}) => (raw && typeof value === "number" ? raw(source) : value);
  try {
    const found = raw || !/\d{16}/.test(text) ? JSON.parse(text, exactly) : null;
    if (found && typeof found === "object" && !Array.isArray(found)) {
      return Object.entries(found).map(([key, v]) => (typeof v === "string" ? [key, v, false] : [key, JSON.stringify(v), typeof v === "number" || !!JSON.isRawJSON?.(v)]));
    }
  } catch { /* shown as it is */ }
  return text ? [["args", text, false]] : [];
}

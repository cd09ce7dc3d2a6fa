// Saved files and their names.

import { toast } from "./toast.js";

const RESERVED = /^(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)/i;

// Letters, digits, "._-" of any script, no leading dot: a name from a trace is no path and no device.
export function fileName(name) {
  const plain = String(name).normalize("NFC").replace(/[^\p{L}\p{M}\p{N}._-]+/gu, "-").replace(/\.{2,}/g, ".");
  const [, stem, suffix] = /^(.*?)(\.[A-Za-z0-9]{1,8}(?:\.gz)?)?$/u.exec(plain.replace(/^[.-]+/, ""));
  const short = [...stem].slice(0, 80).join("").replace(/[.-]+$/, "");
  return `${(short || "tracekit").replace(RESERVED, "$1_")}${suffix ?? ""}`;
}

export function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = fileName(name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  toast(`Saved ${link.download}`);
}

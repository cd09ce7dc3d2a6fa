// The report that a page holds: all of its tables and flame graphs, unpacked once.

let unpacking = null;

/** Return { report, texts, shown, short }, or null on a page without one: the index of a batch. */
export function reportData() {
  const block = document.getElementById("report-data");
  if (!block || typeof DecompressionStream === "undefined") return Promise.resolve(null);
  return (unpacking ??= unpacked(block.textContent));
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

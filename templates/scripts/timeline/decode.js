// Packed columns of the page: base64 of deflate of byte planes.

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

/** The names of a page: in its head, or packed in an element of their own. */
export async function namesOf(head) {
  if (head.names) return head.names;
  return JSON.parse(new TextDecoder().decode(await inflate(document.getElementById("tl-names"))));
}

export async function inflate(element) {
  const stream = new Blob([bytesOf(element.textContent.trim())]).stream();
  const plain = stream.pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}

/** Reads n numbers from byte planes (first byte: how many) into `out`; returns where the next column begins. */
export function planes(bytes, at, n, out) {
  const count = bytes[at++];
  for (let i = 0; i < n; i++) out[i] = bytes[at + i];
  at += n;
  for (let plane = 1, weight = 256; plane < count; plane++, weight *= 256, at += n) {
    for (let i = 0; i < n; i++) out[i] += bytes[at + i] * weight;
  }
  return at;
}

export const signed = (zigzag) => (zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2);

export function floats(bytes, at, n) {
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, 8 * n);
  return Float64Array.from({ length: n }, (_, i) => view.getFloat64(8 * i, true));
}

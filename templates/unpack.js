// The styles and scripts that a page carries packed, put in place in their order. The policy names each script's hash.
(async () => {
  document.documentElement.classList.add("script");
  // Two of 91 letters are 13 bits: all of ASCII but "<", ">", "&" and "'". It is an eighth shorter than base64.
  function bytesOf(text, size) {
    const out = new Uint8Array(size);
    const value = (i) => { const code = text.charCodeAt(i); return code - 32 - 2 * (code > 39) - (code > 60) - (code > 62); };
    for (let i = 0, at = 0, held = 0, bits = 0; at < size; i += 2) {
      held |= (value(i) * 91 + value(i + 1)) << bits;
      for (bits += 13; bits > 7 && at < size; bits -= 8, held >>= 8) out[at++] = held;
    }
    return out;
  }
  const packed = document.querySelector(".packed");
  const plain = new Blob([bytesOf(packed.textContent, +packed.dataset.size)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const texts = (await new Response(plain).text()).split("\0");
  packed.dataset.names.split(" ").forEach((name, i) => {
    const made = document.createElement(name.endsWith(".css") ? "style" : "script");
    made.textContent = texts[i];
    (name.endsWith(".css") ? document.head : document.body).append(made);
  });
  packed.remove();
})();

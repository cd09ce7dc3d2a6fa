"use strict";
// The styles and scripts that a page carries packed, put in place in their order. The policy names each script's hash.
(async () => {
  document.documentElement.classList.add("script");
  // Base 85: five letters are four bytes. It is a sixteenth shorter than base64.
  function bytesOf(text) {
    const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%:()*+-;,=.?@^_\x60{|}~";
    const values = new Uint8Array(128);
    for (let i = 0; i < 85; i++) values[letters.charCodeAt(i)] = i;
    const out = new Uint8Array(Math.floor((text.length * 4) / 5));
    for (let i = 0, at = 0; i < text.length; i += 5) {
      let four = 0;
      for (let k = i; k < i + 5; k++) four = four * 85 + (k < text.length ? values[text.charCodeAt(k)] : 84);
      for (let shift = 24; shift >= 0; shift -= 8) out[at++] = four >>> shift;
    }
    return out;
  }
  const packed = document.querySelector("script.packed");
  const plain = new Blob([bytesOf(packed.textContent)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const texts = (await new Response(plain).text()).split("\0");
  packed.dataset.names.split(" ").forEach((name, i) => {
    const made = document.createElement(name.endsWith(".css") ? "style" : "script");
    made.textContent = texts[i];
    (name.endsWith(".css") ? document.head : document.body).append(made);
  });
  packed.remove();
})();

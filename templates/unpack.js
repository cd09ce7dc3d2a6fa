"use strict";
// The styles and scripts that a page carries packed, put in place in their order. The policy names each script's hash.
(async () => {
  const packed = document.querySelector("script.packed");
  const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const texts = (await new Response(plain).text()).split("\0");
  packed.dataset.names.split(" ").forEach((name, i) => {
    const made = document.createElement(name.endsWith(".css") ? "style" : "script");
    made.textContent = texts[i];
    (name.endsWith(".css") ? document.head : document.body).append(made);
  });
  packed.remove();
})();

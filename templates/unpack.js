"use strict";
// The scripts that a page carries packed, run one after the other in their order. The policy names the hash of each.
(async () => {
  for (const packed of document.querySelectorAll("script.packed")) {
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const script = document.createElement("script");
    script.textContent = await new Response(plain).text();
    packed.replaceWith(script);
  }
})();

// Begins Perfetto's own page with a trace: the first script of it, before Perfetto's.
"use strict";
{
  const data = document.currentScript.dataset;
  const trace = new URL(data.trace, document.currentScript.src).href;
  // Also after a reload, whose address no longer has the trace.
  history.replaceState(null, "", `#!/?url=${encodeURIComponent(trace)}${data.more}`);
  // Perfetto keeps traces in the cache of the browser, by port: the next server of that port could read them.
  Object.defineProperty(window, "caches", {value: undefined});
  const alive = new EventSource(new URL(data.alive, document.currentScript.src));
  alive.addEventListener("end", () => alive.close());
}

// Hands a trace to Perfetto in the frame: PING until it answers PONG, then the bytes. They stay in this browser.
"use strict";
{
  const frame = document.getElementById("perfetto");
  const state = document.getElementById("state");
  const {origin, trace, title, alive} = frame.dataset;
  const open = new EventSource(alive);
  open.addEventListener("end", () => open.close());
  const say = (text) => {
    state.textContent = text;
    frame.classList.remove("ready");
  };
  const pong = new Promise((done) => {
    const ping = setInterval(() => frame.contentWindow.postMessage("PING", origin), 100);
    const slow = setTimeout(() => say(`No answer from ${origin} yet. Without a network: pip install 'tracekit-gpu[ui]'`), 20000);
    addEventListener("message", (event) => {
      if (event.source !== frame.contentWindow || event.origin !== origin || event.data !== "PONG") return;
      clearInterval(ping);
      clearTimeout(slow);
      done();
    });
  });
  const fetched = fetch(trace).then((answer) => {
    if (!answer.ok) throw new Error("the trace is no longer there");
    return answer.arrayBuffer();
  });
  Promise.all([fetched, pong]).then(([buffer]) => {
    frame.classList.add("ready");
    frame.focus();
    frame.contentWindow.postMessage({perfetto: {buffer, title, fileName: trace, localOnly: true}}, origin, [buffer]);
  }).catch((error) => say(`The trace was not opened: ${error.message}. Run tracekit open again.`));
}

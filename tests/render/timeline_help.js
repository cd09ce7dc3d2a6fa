const T = tracekit.timeline;
const D = T.data;
const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const key = (name, target = document.body) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
const text = (query) => document.querySelector(query).textContent;

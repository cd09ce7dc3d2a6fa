// Long loops in slices: the page answers in between.

const SLICE_MS = 24; // how long decoding may hold the page at once

const pause = () => (globalThis.scheduler?.yield ? scheduler.yield() : new Promise((done) => setTimeout(done)));

/** Hands the page back whenever a slice of time is used up. */
export function slicer(ms = SLICE_MS) {
  let until = performance.now() + ms;
  return {
    due: () => performance.now() > until,
    rest: async () => {
      await pause();
      until = performance.now() + ms;
    },
  };
}

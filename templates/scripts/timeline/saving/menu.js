// What the menu of saving offers.

import { counted } from "../../page/texts.js";
import { measured } from "../measuring.js";
import { view } from "../view.js";
import { chromeTrace } from "./chrome.js";
import { perfettoTrace } from "./perfetto.js";
import { png, svg } from "./picture.js";

/** What the timeline's menu offers: [label, make], where make returns {blob, suffix, text}. */
export function saving() {
  const trace = (make, suffix) => async () => {
    const { blob, events, note } = await make(...(measured ?? [view.t0, view.t1]));
    return { blob, suffix, text: `${counted(events, "event")}${note ? `; ${note}` : ""}` };
  };
  return [
    ["window as Chrome trace (.json)", trace(chromeTrace, ".json")],
    ["window as Perfetto trace (.pftrace)", trace(perfettoTrace, ".pftrace")],
    ["picture as SVG", async () => ({ blob: new Blob([svg()], { type: "image/svg+xml" }), suffix: ".svg", text: "" })],
    ["picture as PNG", async () => ({ blob: await png(), suffix: ".png", text: "" })],
  ];
}

// A click on a part of the bar filters the tables of its view and marks its events on the timeline.

import { link } from "../page/address.js";
import { emit } from "../page/bus.js";

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const block = event.target.closest?.("#first-screen .ice a");
  if (!block) return;
  const view = block.hash.slice(1), text = block.dataset.name ?? "";
  event.preventDefault();
  link.visit({ view, table: null, row: null, column: null });
  document.getElementById(view)?.scrollIntoView();
  const filter = { view, text, names: text ? [text] : [] }; // a table that knows the class has the names in it
  emit("filter", filter);
  emit("mark", { names: filter.names, kinds: null, from: "first screen" });
});

// The menus of the timeline.

import { button, el } from "../page/dom.js";
import { save } from "../page/files.js";
import { toast } from "../page/toast.js";
import { announce, markMenu, saveMenu } from "./elements.js";
import { showMark } from "./marking.js";
import { saving } from "./saving/menu.js";
import { head, marks } from "./source.js";
import { leave } from "./view.js";

async function saveAs(label, make) {
  saveMenu.open = false;
  toast(`Saving the ${label} …`);
  try {
    const { blob, suffix, text } = await make();
    save(`${(head.title ?? "trace").replace(/\.(json|gz|csv|sqlite|pb|txt|jsonl)\b/g, "")}-timeline${suffix}`, blob);
    if (text) announce(`saved ${text}`);
  } catch (error) {
    toast(`The ${label} could not be saved: ${error.message}`);
  }
}
markMenu.hidden = !marks.length;
markMenu.sheet.append(...marks.map((mark, m) => button(mark.title, () => { markMenu.open = false; leave(); void showMark(m); })));
for (const [label, make] of saving()) saveMenu.sheet.append(button(label, () => saveAs(label, make)));
saveMenu.sheet.append(el("p", {}, "The window is the measured one, else the one shown. Its events are saved whole."));

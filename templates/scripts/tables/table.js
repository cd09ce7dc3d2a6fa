// One table: what is seen of it, and what hands and keys do with it.

import { link } from "../page/address.js";
import { emit } from "../page/bus.js";
import { el } from "../page/dom.js";
import { save } from "../page/files.js";
import { count, counted } from "../page/texts.js";
import { toast } from "../page/toast.js";
import { BLANK_NAME, NO_NAME, fullText, sorted } from "./columns.js";
import { durations } from "./durations.js";
import { copied, tableText, warning } from "./files.js";
import { look } from "./folds.js";
import { printed } from "./follow.js";
import { UNKNOWN } from "./texts.js";

const LONG = 20; // rows from which a table scrolls in a box of its own
const ALL = 60; // rows up to which all are in the page at once
const EDGE = 10; // rows kept in the page above and below those in sight
const BESIDE = 16; // a scroll bar beside the rows
const POINTS = ["start", "at"]; // times that are no durations
const PRINTED = 10; // rows of a table on paper, where it has more than the next number
const PRINTED_WHOLE = 15;

export const CLASS = "class:";

// One table
export const tables = [];

export class Table {
  columns; length; texts; longest;
  // number: among the tables of its view, from 1. columns: a function of the cells of the head, and of the body's rows
  constructor(sheet, view, number, name, columns) {
    this.sheet = sheet;
    this.view = view;
    this.number = number;
    this.name = name;
    this.scroller = sheet.querySelector(".scroll");
    this.element = sheet.querySelector("table");
    this.body = this.element.tBodies[0];
    [this.columns, this.length] = columns([...this.element.tHead.rows[0].cells], [...this.body.rows]);
    // Columns for which paper has no room, the one that says least first.
    this.spare = (sheet.dataset.off ?? "").split(",").filter(Boolean).map((place) => this.columns[Number(place)]);
    for (const column of this.spare) column.unprinted = true;
    this.whole = false; // all columns, whether or not the window has room
    this.room = 0;
    this.element.tHead.rows[0].replaceChildren(...this.columns.map((column) => column.head));
    const times = this.columns.filter((column) => column.unit === "ns" && !POINTS.includes(column.name));
    this.main = times.find((column) => column.name === "total") ?? times[0]; // its cells have bars
    const levels = this.columns.find((column) => column.name === "level" && column.unit === "count");
    this.level = levels && this.columns.some((column) => column.isName) ? (row) => (levels.value(row) >= 0 && levels.value(row) <= 8 ? levels.value(row) : 0) : () => 0;
    this.all = Array.from({ length: this.length }, (_, row) => row);
    this.order = this.all;
    this.words = [];
    // The class of each row, where rows have classes: the filter knows it as class:NAME.
    const [classes = "", codes = ""] = (sheet.dataset.classes ?? "").split(";");
    this.classes = classes.split(",").filter(Boolean);
    this.classOf = (row) => `${CLASS}${this.classes[parseInt(codes[row], 36)]}`;
    this.sortedBy = null;
    this.heat = false;
    this.picked = new Set();
    this.cell = { at: 0, column: 0 }; // the one cell that the Tab key reaches
    this.range = null;
    this.wide = false;
    this.height = 0;
    this.build();
  }

  seen() {
    return { columns: this.columns.filter((column) => !column.hidden && !column.aside), order: this.order };
  }

  /** What a file gets: the columns for which the window has no room too. */
  forFiles() {
    return { columns: this.columns.filter((column) => !column.hidden), order: this.order };
  }

  /** Puts columns aside that the window has no room for. What one sorts by, or was led to, stays. */
  fit(again = false) {
    const room = this.sheet.parentElement.clientWidth;
    if (!room || printed || (room === this.room && !again)) return;
    this.room = room;
    for (const column of this.columns) column.aside = false;
    this.sheet.classList.remove("tight");
    this.show();
    let wide = this.columns.reduce((sum, { head }) => sum + head.offsetWidth, 0);
    for (const column of this.whole ? [] : this.spare) {
      if (wide <= room - BESIDE) break;
      if (column.hidden || column === this.sortedBy?.column || column === this.asked?.column) continue;
      column.aside = true;
      wide -= column.head.offsetWidth;
    }
    if (wide > room - BESIDE) this.sheet.classList.add("tight");
    this.show();
  }

  named() {
    return this.columns.find((column) => column.name === "name" && column.words) ?? null;
  }

  build() {
    const { element: table, scroller } = this;
    table.setAttribute("role", "grid");
    table.setAttribute("aria-label", scroller.getAttribute("aria-label"));
    table.setAttribute("aria-colcount", this.columns.length);
    scroller.removeAttribute("tabindex");
    scroller.removeAttribute("role");
    scroller.removeAttribute("aria-label");
    for (const note of this.sheet.querySelectorAll(".more, .printed")) note.remove();
    this.printNote = el("p", { class: "note printed" });
    this.columns.forEach((column, i) => this.buildHead(column, i));
    this.buildTools();
    scroller.addEventListener("scroll", () => this.render(), { passive: true });
    table.addEventListener("keydown", (event) => this.pressed(event));
    table.addEventListener("click", (event) => this.clicked(event));
    table.addEventListener("focusin", (event) => this.focused(event));
    table.addEventListener("focusout", () => { this.line.textContent = ""; });
    const sizes = new ResizeObserver(() => { this.fit(); this.render(); });
    sizes.observe(scroller);
    sizes.observe(this.sheet.parentElement);
    this.show();
  }

  buildHead(column, place) {
    const button = el("button", { type: "button" }, ...column.head.childNodes);
    column.head.append(button);
    column.head.scope = "col";
    column.head.setAttribute("aria-colindex", place + 1);
    button.addEventListener("click", () => {
      const before = column.head.getAttribute("aria-sort");
      const descending = before ? before === "ascending" : !column.words;
      this.sort(column, descending);
      this.keepLink("sort", `${descending ? "-" : ""}${column.name}`);
    });
  }

  buildTools() {
    const id = `menu-${tables.length}`;
    let typed = 0;
    this.status = el("span", { role: "status" });
    this.filter = el("input", { type: "search", placeholder: "filter", spellcheck: "false", "aria-label": "Show the rows that contain these words" });
    this.filter.addEventListener("input", () => {
      this.filterBy(this.filter.value);
      clearTimeout(typed);
      typed = setTimeout(() => this.keepLink("filter", this.filter.value), 150);
    });
    this.more = el("button", { type: "button" });
    this.more.addEventListener("click", () => { this.wide = !this.wide; this.show(); });
    const menu = el("div", { class: "menu", id, hidden: true });
    const opener = el("button", { type: "button", "aria-expanded": "false", "aria-controls": id }, "Columns and export");
    opener.addEventListener("click", () => this.open(opener, menu, menu.hidden));
    this.line = el("p", { class: "exact", "aria-live": "off" });
    this.others = el("button", { type: "button" });
    this.others.addEventListener("click", () => { this.whole = !this.whole; this.fit(true); });
    const tools = el("div", { class: "tools" }, this.status, this.others, this.more, this.filter, opener, menu);
    tools.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || menu.hidden) return;
      this.open(opener, menu, false);
      opener.focus();
    });
    document.addEventListener("click", (event) => { if (!menu.hidden && !tools.contains(event.target)) this.open(opener, menu, false); });
    this.scroller.before(tools);
    this.panel = el("figure", { class: "durations", hidden: true });
    this.scroller.after(this.line, this.panel, this.printNote);
  }

  open(opener, menu, opened) {
    if (opened && !menu.childNodes.length) this.buildMenu(menu);
    menu.hidden = !opened;
    opener.setAttribute("aria-expanded", String(opened));
  }

  buildMenu(menu) {
    const boxes = this.columns.map((column) => {
      const box = el("input", { type: "checkbox", checked: !column.hidden });
      box.addEventListener("change", () => {
        column.hidden = !box.checked;
        column.aside = false;
        if (this.columns.every((each) => each.hidden)) { column.hidden = false; box.checked = true; }
        this.range = null;
        this.show();
      });
      return el("label", {}, box, ` ${column.title || column.name}`);
    });
    const heat = el("input", { type: "checkbox", checked: this.heat });
    heat.addEventListener("change", () => { this.heat = heat.checked; this.range = null; this.render(); });
    const act = (text, fn) => {
      const button = el("button", { type: "button" }, text);
      button.addEventListener("click", fn);
      return button;
    };
    const file = (form, type) => () => {
      const name = `${this.view}${this.number > 1 ? `-${this.name}` : ""}.${form}`;
      save(name, new Blob([tableText(this, form)], { type }));
      if (form === "csv" && warning(this)) toast(`Saved ${name}${warning(this)}`);
    };
    menu.append(
      el("fieldset", {}, el("legend", {}, "Columns"), ...boxes),
      el("label", { class: "heat" }, heat, " Shade numbers by size"),
      act("Copy as TSV", async () => toast(await copied(tableText(this, "tsv")) ? `Copied ${counted(this.order.length, "row")}${warning(this)}` : "The browser did not allow copying")),
      act("Save as CSV", file("csv", "text/csv")),
      act("Save as JSON", file("json", "application/json")),
      el("p", {}, "Rows as filtered and sorted, columns as chosen, numbers exact (times in ns)."),
    );
  }

  sort(column, descending) {
    for (const other of this.columns) other.head.removeAttribute("aria-sort");
    column.head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    this.sortedBy = { column, descending };
    this.all = sorted(this.all, column, descending);
    this.scroller.scrollTop = 0;
    this.cell.at = 0;
    this.show();
  }

  filterBy(text) {
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.show();
  }

  // The address says how a table is sorted and filtered: sort.kernel.1=-total.
  keyOf(word) {
    return `${word}.${this.view}.${this.number}`;
  }

  keepLink(word, value) {
    applying = true;
    link.set(this.keyOf(word), value);
    applying = false;
  }

  followLink(key) {
    const value = link.get(key) ?? "";
    if (key === this.keyOf("filter") && value !== this.filter.value) this.filterBy(this.filter.value = value);
    if (key !== this.keyOf("sort")) return;
    const column = this.columns.find((each) => each.name === value.replace(/^-/, ""));
    if (column) this.sort(column, value.startsWith("-"));
    else if (this.sortedBy) this.unsort();
    if (column?.aside) this.fit(true);
  }

  followLinks() {
    for (const word of ["sort", "filter"]) if (link.get(this.keyOf(word)) !== null) this.followLink(this.keyOf(word));
    return this;
  }

  unsort() {
    for (const column of this.columns) column.head.removeAttribute("aria-sort");
    this.sortedBy = null;
    this.all = Array.from({ length: this.length }, (_, row) => row);
    this.show();
  }

  matches(row) {
    const columns = this.texts ??= (() => {
      const texts = this.columns.filter((column) => column.words);
      return texts.length ? texts : this.columns;
    })();
    const has = (word) => columns.some((column) => column.shown(row).toLowerCase().includes(word));
    return this.words.every((word) => (this.classes.length && word.startsWith(CLASS) ? word === this.classOf(row) : has(word)));
  }

  // Everything anew: order, head, room, tools.
  show() {
    this.order = this.words.length ? this.all.filter((row) => this.matches(row)) : this.all;
    this.cell.at = Math.min(this.cell.at, Math.max(this.order.length - 1, 0));
    const { columns } = this.seen();
    for (const column of this.columns) column.head.hidden = !columns.includes(column);
    this.element.setAttribute("aria-rowcount", this.order.length + 1);
    const long = this.order.length > LONG;
    this.scroller.classList.toggle("long", long);
    this.scroller.classList.toggle("wide", long && this.wide);
    this.more.hidden = !long;
    this.more.textContent = this.wide ? "Show fewer" : "Show more";
    const rows = counted(this.length, "row");
    const hidden = this.columns.filter((column) => column.hidden).length;
    this.status.textContent = `${this.words.length ? `${count(this.order.length)} of ${rows} shown` : rows}${hidden ? `, ${hidden} of ${this.columns.length} columns hidden` : ""}`;
    this.filter.hidden = this.length < 2;
    const aside = this.columns.filter((column) => column.aside && !column.hidden).length;
    this.others.hidden = !aside && !this.whole;
    this.others.textContent = this.whole ? "Columns that fit" : `${counted(aside, "more column")}`;
    this.range = null;
    this.render();
  }

  // The rows in sight, and some around them; empty rows above and below keep the place of the others.
  render() {
    const total = this.order.length;
    let [first, last] = [0, total];
    if (printed) last = total > PRINTED_WHOLE ? PRINTED : total;
    else if (total > ALL) {
      const height = this.height || 27;
      first = Math.max(0, Math.floor(this.scroller.scrollTop / height) - EDGE);
      last = Math.min(total, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / height) + EDGE);
    }
    if (this.range && this.range[0] === first && this.range[1] === last) return;
    this.range = [first, last];
    const focused = this.body.contains(document.activeElement);
    const columns = this.columns.filter((column) => !column.hidden && !(printed ? column.unprinted : column.aside));
    for (const column of this.columns) column.head.hidden = !columns.includes(column);
    if (printed) {
      const missing = this.columns.filter((column) => !columns.includes(column)).map((column) => column.title || column.name);
      const words = [
        ...(last < total ? [`${counted(total - last, "more row")}`] : []),
        ...(total < this.length ? [`filtered: ${count(total)} of ${count(this.length)} rows`] : []),
        ...(missing.length ? [`not printed: ${missing.join(", ")}`] : []),
      ];
      this.printNote.textContent = words.join("; ");
    }
    const rows = [];
    for (let at = first; at < last; at++) rows.push(this.row(at, columns));
    const virtual = total > ALL && !printed;
    const space = (count) => el("tr", { "aria-hidden": "true", class: "space", style: `height:${count * (this.height || 27)}px` });
    this.body.replaceChildren(...(virtual ? [this.sizer(columns), space(first)] : []), ...rows, ...(virtual ? [space(total - last)] : []));
    if (virtual && !this.height && rows.length && rows[0].offsetHeight) {
      this.height = rows[0].getBoundingClientRect().height;
      this.range = null;
      this.render();
      return;
    }
    if (focused) this.focusCell(false);
  }

  // Widths stay while one scrolls: a collapsed row has the longest text of each column.
  sizer(columns) {
    this.longest ??= new Map();
    return el("tr", { class: "sizer", "aria-hidden": "true" }, ...columns.map((column) => {
      if (!this.longest.has(column)) {
        let longest = "";
        for (let row = 0; row < this.length; row++) {
          const text = column.inCell(row);
          const whole = text + (this.tail(column, text) ?? "");
          if (whole.length > longest.length) longest = whole;
        }
        this.longest.set(column, longest);
      }
      return el("td", { class: column.words ? "t" : null }, this.longest.get(column));
    }));
  }

  row(at, columns) {
    const row = this.order[at];
    const made = el("tr", { "aria-rowindex": at + 2, "aria-selected": this.picked.has(row) ? "true" : null, class: this.picked.has(row) ? "picked" : null });
    columns.forEach((column, place) => made.append(this.cellOf(at, row, column, place)));
    return made;
  }

  cellOf(at, row, column, place) {
    const text = column.inCell(row);
    const value = column.value(row);
    const indent = column.isName ? this.level(row) : 0;
    const bar = column.unit === "ratio" ? 1 : column === this.main ? this.most(column) : 0;
    const cell = el(column.isName ? "th" : "td", {
      scope: column.isName ? "row" : null,
      class: column.className ?? (column.words ? "t" : null),
      style: bar && value > 0 ? `--w:${(100 * Math.min(Number(value) / bar, 1)).toPrecision(3)}` : null,
      "data-p": this.tail(column, text),
      title: column.words ? (column.shown(row).length > 24 ? column.shown(row) : null) : value === null || column.unit === "id" || column.unit === "count" ? null : fullText(column, row),
      tabindex: at === this.cell.at && place === this.cell.column ? "0" : "-1",
      "aria-colindex": this.columns.indexOf(column) + 1,
    });
    if (indent) cell.style.paddingLeft = `${6 + 14 * indent}px`;
    cell.append(...(column.nodes?.(row) ?? [text]));
    const heat = this.heatOf(column, value);
    if (heat) cell.style.backgroundColor = `color-mix(in srgb, var(--heat) ${heat}%, transparent)`;
    if (this.asked && this.asked.row === row && this.asked.column === column) cell.classList.add("asked");
    return cell;
  }

  // The size of the largest value of a column.
  most(column) {
    return column.most ??= this.all.reduce((most, row) => Math.max(most, Math.abs(Number(column.value(row) ?? 0))), 0);
  }

  // What a number lacks behind its point: the cell gets it unseen, so that all points are below each other.
  tail(column, text) {
    if (column.words || !["ns", "number"].includes(column.unit) || text === UNKNOWN || text.includes("e")) return null;
    const digits = (each) => (each.includes(".") && !each.includes("e") ? each.length - each.indexOf(".") : 0);
    column.digits ??= this.all.reduce((most, row) => Math.max(most, digits(column.inCell(row))), 0);
    return ".000000000".slice(digits(text), column.digits) || null;
  }

  // Share of the largest value of the column, 0 to 40 percent of colour: text stays readable.
  heatOf(column, value) {
    if (column.words || column.unit === "id" || value === null || !(this.heat || this.sortedBy?.column === column)) return 0;
    return this.most(column) ? Math.round((40 * Math.abs(Number(value))) / this.most(column)) : 0;
  }

  // Keys and clicks

  rowElement(at) {
    return at >= this.range[0] && at < this.range[1] ? this.body.querySelector(`tr[aria-rowindex="${at + 2}"]`) : null;
  }

  bring(at) {
    if (this.order.length <= LONG) return;
    const height = this.height || 27;
    const head = this.element.tHead.offsetHeight;
    const top = at * height;
    const room = this.scroller.clientHeight - head;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + height > this.scroller.scrollTop + room) this.scroller.scrollTop = top + height - room;
    this.render();
  }

  focusCell(scroll = true) {
    const row = this.rowElement(this.cell.at);
    const cell = row?.cells[Math.min(this.cell.column, row.cells.length - 1)];
    cell?.focus({ preventScroll: !scroll });
  }

  placeOf(cell) {
    const row = cell.parentElement;
    return { at: Number(row.getAttribute("aria-rowindex")) - 2, column: cell.cellIndex };
  }

  focused(event) {
    const cell = event.target.closest("tbody td, tbody th");
    if (!cell) return;
    this.body.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    cell.setAttribute("tabindex", "0");
    this.cell = this.placeOf(cell);
    const { columns, order } = this.seen();
    const column = columns[this.cell.column];
    const row = order[this.cell.at];
    if (column && row !== undefined) this.line.textContent = `${column.title}: ${fullText(column, row)}`;
  }

  pressed(event) {
    if (!event.target.closest("tbody") || event.altKey || event.metaKey) return;
    const link_ = event.key === "Enter" && event.target.closest("td, th").querySelector("a");
    if (link_) { // as a click on it; in a cell with several, the one with the focus, else the first
      if (event.target.tagName !== "A") link_.click();
      return;
    }
    const last = this.order.length - 1;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / (this.height || 27)) - 2);
    const columns = this.seen().columns.length;
    const { at, column } = this.cell;
    const moves = {
      ArrowDown: [at + 1, column], ArrowUp: [at - 1, column], ArrowRight: [at, column + 1], ArrowLeft: [at, column - 1],
      PageDown: [at + page, column], PageUp: [at - page, column],
      Home: event.ctrlKey ? [0, 0] : [at, 0], End: event.ctrlKey ? [last, columns - 1] : [at, columns - 1],
    };
    if (event.key === "Enter" || event.key === " ") this.pick(this.order[at]);
    else if (event.key === "Escape" && this.picked.size) this.pick(null);
    else if (moves[event.key]) {
      const [row, place] = moves[event.key];
      this.cell = { at: Math.min(Math.max(row, 0), last), column: Math.min(Math.max(place, 0), columns - 1) };
      this.bring(this.cell.at);
      this.focusCell();
    } else return;
    event.preventDefault();
  }

  clicked(event) {
    const cell = event.target.closest("tbody td, tbody th");
    if (!cell || event.target.closest("a") || cell.closest(".space, .sizer") || String(getSelection())) return;
    const { at } = this.placeOf(cell);
    const row = this.order[at];
    this.pick(this.picked.has(row) && this.chosen === row ? null : row);
  }

  // A row is chosen: the timeline marks its events, the address names it.
  pick(row) {
    for (const table of tables) if (table !== this && table.picked.size) table.mark([]);
    this.chosen = row;
    this.asked = null;
    this.mark(row === null ? [] : [row]);
    // First, so that the history keeps what was marked before.
    visit({ view: row === null ? null : this.view, table: row === null || this.number === 1 ? null : this.number, row: row === null ? null : row + 1, column: null });
    const names = this.namesOf(row), kinds = this.kindsOf(row);
    emit("mark", { names, kinds, from: "tables" });
    this.draw(names, names.length ? names[names.length - 1] : "", kinds);
  }

  // The name of a row as it is in the file, and as a page shows it where that is another.
  namesOf(row) {
    const name = this.named();
    return row === null || !name || name.value(row) === null ? [] : [...new Set([name.value(row), [NO_NAME, BLANK_NAME].includes(name.inCell(row)) ? name.inCell(row) : name.shown(row)])];
  }

  kindsOf(row) {
    const kind = this.columns.find((column) => column.name === "kind" && column.words);
    return this.namesOf(row).length && kind?.value(row) ? [kind.value(row)] : null;
  }

  // The events of a chosen row, if the page has a timeline.
  draw(names, shown, kinds) {
    this.drawn = names;
    this.panel.hidden = true;
    if (!names.length) return;
    emit("events", { names, kinds, reply: (found) => {
      if (this.drawn !== names || !found.length.length) return;
      this.panel.replaceChildren(...durations(shown, found));
      this.panel.hidden = false;
    } });
  }

  mark(rows) {
    if (!rows.length) this.draw([]);
    this.picked = new Set(rows);
    this.range = null;
    this.render();
  }

  // Show a row, whatever filter hides it.
  reveal(row, column) {
    if (!this.order.includes(row)) {
      this.filterBy(this.filter.value = "");
      this.keepLink("filter", null);
    }
    this.asked = column ? { row, column } : null;
    if (column?.aside) this.fit(true);
    this.chosen = row;
    this.mark([row]);
    const at = this.order.indexOf(row);
    this.cell = { at, column: Math.max(this.seen().columns.indexOf(column), 0) };
    if (this.order.length > LONG) {
      this.scroller.scrollTop = Math.max(0, (at - 5) * (this.height || 27));
      this.range = null;
      this.render();
    }
    look(this.rowElement(at) ?? this.sheet, { block: "center" });
  }
}

// Links of the address, and events of the timeline
export let applying = false;

/** Changes the address without following it: the page shows the place already. */
export function visit(pairs) {
  applying = true;
  link.visit(pairs);
  applying = false;
}

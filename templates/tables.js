"use strict";
// Tables: all rows from the data of the page, in the form that tables.py writes for the first ones; or, where the page
// has no such data (the index of a batch, the ledger), from the cells themselves, which have the exact values.
// Numbers are exact: whole ones beyond 2^53 are BigInts. Text of a trace goes in as text nodes alone.
(() => {
  const { on, emit, link, span, exact, count, toast, save } = window.tracekit;
  const LONG = 20; // rows from which a table scrolls in a box of its own
  const ALL = 60; // rows up to which all are in the page at once
  const EDGE = 10; // rows kept in the page above and below those in sight
  const SLICE_MS = 24; // how long building tables may hold the page at once
  const PRINTED = 10; // rows of a table on paper, where it has more than the next number
  const PRINTED_WHOLE = 15;
  const UNKNOWN = "-";
  const EXPONENTS = { s: 9, ms: 6, us: 3, ns: 0 };

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  // Texts of values, as display.py and units.py have them

  // Half to even where the decimal digits stop in the middle between two: toFixed would go up.
  function fixed(value, digits) {
    const size = Math.abs(value);
    let text = size.toFixed(digits);
    const halves = size * 2 ** (digits + 1);
    if (halves < 2 ** 53 && halves % 2 === 1) {
      const below = Math.floor(size * 10 ** digits);
      text = ((below % 2 ? below + 1 : below) / 10 ** digits).toFixed(digits);
    }
    return value < 0 ? `-${text}` : text;
  }

  function grouped(text) {
    const [whole, ...rest] = text.split(".");
    return [count(whole), ...rest].join(".");
  }

  function timeText(value, unit) {
    const exponent = EXPONENTS[unit];
    const text = String(value);
    const sign = text.startsWith("-") ? "-" : "";
    const digits = text.slice(sign.length).padStart(exponent + 1, "0");
    const whole = count(digits.slice(0, digits.length - exponent));
    return exponent ? `${sign}${whole}.${digits.slice(-exponent)}` : sign + whole;
  }

  function scaled(value, base, units, digits) {
    let size = Math.abs(Number(value));
    let unit = 0;
    while (size >= base && unit < units.length - 1) {
      size /= base;
      unit += 1;
    }
    return `${value < 0 ? "-" : ""}${grouped(fixed(size, digits(size)))} ${units[unit]}`;
  }

  function bytesText(value) {
    if (value > -1024 && value < 1024) return `${value} B`;
    return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], (size) => (size < 100 ? 2 : 1));
  }

  function ratioText(value) {
    const text = fixed(100 * (value || 0), 2);
    return value && /^-?0\.00$/.test(text) ? (value > 0 ? "<0.01" : ">-0.01") : text.replace(/^-0\.00$/, "0.00");
  }

  // As Python writes a float: digits that lead back to it, an exponent from 1e16 on and below 0.0001.
  function numberText(value) {
    if (typeof value === "bigint") return String(value);
    if (!value) return Object.is(value, -0) ? "-0" : "0";
    const size = Math.abs(value);
    if (size >= 1e-4 && size < 1e16) return String(value);
    return value.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  }

  const FORMATS = {
    count: (value) => count(value),
    bytes: bytesText,
    ratio: ratioText,
    "bytes/s": (value) => scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], () => 2),
    number: (value) => grouped(numberText(value)),
    id: (value) => String(value),
    text: (value) => String(value),
  };

  // Data

  const NO_NAME = "(no name)", BLANK_NAME = "(blank name)"; // as in Python

  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function headerOf(name, unit) {
    const suffix = { ns: "_ns", bytes: "_bytes", "bytes/s": "_bytes_per_s" }[unit] ?? "";
    return name.endsWith(suffix) || `_${name}` === suffix ? name : name + suffix;
  }

  // A column: value(row) is null, Number, BigInt or text; shown(row) is its text in the cell.
  function columnOf(data, { texts, shown: visible, short }, head, isName) {
    const cells = data.t ?? data.v;
    const read = data.t
      ? (row) => (cells[row] === null ? null : texts[cells[row]])
      : (row) => {
        const cell = cells[row];
        return typeof cell === "string" ? BigInt(cell) : Array.isArray(cell) ? texts[cell[0]] : cell;
      };
    const place = (row) => (data.t ? cells[row] : Array.isArray(cells[row]) ? cells[row][0] : null);
    const unit = head.querySelector("small")?.textContent ?? "";
    const format = data.unit === "ns" ? (value) => timeText(value, unit) : FORMATS[data.unit];
    const shown = (row) => {
      const value = read(row);
      if (value === null) return UNKNOWN;
      return typeof value === "string" ? visible[place(row)] ?? value : format(value);
    };
    const inCell = (row) => short[place(row)] ?? (shown(row) || (isName || data.name === "name" ? NO_NAME : ""));
    return {
      name: data.name, unit: data.unit, title: head.firstChild?.textContent.trim() ?? "", head, isName, shown, inCell, value: read,
      words: head.classList.contains("t"), header: headerOf(data.name, data.unit), hidden: false, most: undefined,
      className: data.name === "meaning" ? "t prose" : undefined,
    };
  }

  // A column of a table that is whole in the page.
  function columnOfCells(head, cells, isName) {
    const words = head.classList.contains("t");
    const values = cells.map((cell) => {
      const text = words ? cell.textContent.trim() : cell.dataset.v ?? UNKNOWN;
      if (text === UNKNOWN || words) return text === UNKNOWN ? null : text;
      const far = /^-?\d{16,}$/.test(text) ? BigInt(text) : 0n;
      return far > BigInt(Number.MAX_SAFE_INTEGER) || -far > BigInt(Number.MAX_SAFE_INTEGER) ? far : Number(text);
    });
    const shown = (row) => cells[row].textContent.trim();
    const { name, unit } = head.dataset;
    return {
      name, unit, title: head.firstChild?.textContent.trim() ?? "", head, isName, shown, inCell: shown, value: (row) => values[row],
      words, header: headerOf(name, unit), hidden: false, most: undefined,
      nodes: (row) => (cells[row].querySelector("a") ? [...cells[row].childNodes].map((node) => node.cloneNode(true)) : null),
      className: cells[0]?.className,
    };
  }

  // The value with all its digits, for tooltips and the line below the table.
  function fullText(column, row) {
    const value = column.value(row);
    if (value === null) return "not known";
    if (column.unit === "ns") return exact(value);
    if (column.unit === "bytes") return `${count(value)} bytes`;
    if (column.unit === "ratio" || column.unit === "bytes/s") return `${numberText(value)}${column.unit === "ratio" ? " of 1" : " bytes/s"}`;
    return column.shown(row);
  }

  function compare(a, b) {
    return a < b ? -1 : a > b ? 1 : 0; // exact for a Number and a BigInt too
  }

  function sorted(rows, column, descending) {
    const keys = new Map(rows.map((row) => [row, column.words ? column.shown(row) : column.value(row)]));
    return [...rows].sort((left, right) => {
      const [a, b] = [keys.get(left), keys.get(right)];
      if (a === null || b === null) return (a === null) - (b === null) || left - right;
      return (descending ? compare(b, a) : compare(a, b)) || left - right;
    });
  }

  // Files. Names are written unchanged, as the csv form of tracekit does; a message says so where it matters.

  const FORMULA = /^[=+\-@\t\r]/;

  function csvField(value) {
    if (value === null) return "";
    if (typeof value !== "string") return numberText(value);
    return !value || /[",\r\n]/.test(value) || value !== value.trim() ? `"${value.replaceAll('"', '""')}"` : value;
  }

  function tableText(table, form) {
    const { columns, order } = table.seen();
    if (form === "json") {
      const cell = (value) => (typeof value === "string" ? JSON.stringify(value) : value === null ? "null" : numberText(value));
      const rows = order.map((row) => `[${columns.map((column) => cell(column.value(row))).join(", ")}]`);
      const heads = columns.map(({ name, unit }) => ({ name, unit }));
      return `{"view": ${JSON.stringify(table.view)}, "name": ${JSON.stringify(table.name)}, "columns": ${JSON.stringify(heads)}, "rows": [\n${rows.join(",\n")}\n]}\n`;
    }
    if (form === "csv") {
      const lines = [["view", "table", ...columns.map((column) => column.header)]];
      for (const row of order) lines.push([table.view, table.name, ...columns.map((column) => column.value(row))]);
      return lines.map((line) => `${line.map(csvField).join(",")}\r\n`).join("");
    }
    const lines = [columns.map((column) => column.header)];
    for (const row of order) lines.push(columns.map((column) => {
      const value = column.value(row);
      return value === null ? "" : typeof value === "string" ? column.shown(row) : numberText(value);
    }));
    return lines.map((line) => `${line.join("\t")}\n`).join("");
  }

  function warning(table) {
    const { columns, order } = table.seen();
    const risky = columns.some((column) => order.some((row) => {
      const value = column.value(row);
      return typeof value === "string" && FORMULA.test(value);
    }));
    return risky ? ". Names are unchanged: a spreadsheet may read one that begins with = + - @ as a formula" : "";
  }

  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = element("textarea", { "aria-hidden": "true", class: "copying" });
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  // Durations of a name: how often each occurs, and when. The timeline has the events; without one there is no picture.

  const SVG = "http://www.w3.org/2000/svg";

  function drawn(tag, attributes, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function picture(summary, bars, act) {
    const image = drawn("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img", "aria-label": summary });
    for (const { x, width, top, bottom, text, at } of bars) {
      const bar = drawn("rect", { x, width, y: 100 - top, height: Math.max(top - bottom, 1) }, drawn("title", {}, text));
      if (act) bar.addEventListener("click", () => act(at));
      image.append(bar);
    }
    return image;
  }

  // Equal ratios between the edges, for durations span orders of magnitude; equal steps where they do not.
  function histogram(lengths, low, high) {
    const bins = Math.min(48, Math.max(1, high - low + 1));
    const ratio = low > 0 && high / low > 20;
    const edge = (i) => (ratio ? low * (high / low) ** (i / bins) : low + ((high - low) * i) / bins);
    const counts = new Array(bins).fill(0);
    for (const length of lengths) {
      const place = high === low ? 0 : ratio ? Math.log(length / low) / Math.log(high / low) : (length - low) / (high - low);
      counts[Math.min(bins - 1, Math.floor(place * bins))] += 1;
    }
    const most = Math.max(...counts);
    return counts.flatMap((n, i) => n ? [{
      x: (1000 * i) / bins + 0.5, width: 1000 / bins - 1, top: Math.max((100 * n) / most, 1.5), bottom: 0,
      text: `${count(n)} from ${span(Math.round(edge(i)))} to ${span(Math.round(edge(i + 1)))}`,
    }] : []);
  }

  // Each column of time from its shortest to its longest event.
  function overTime(start, length, high) {
    const columns = 250;
    const first = start.reduce((a, b) => Math.min(a, b));
    const last = start.reduce((a, b) => Math.max(a, b));
    const step = Math.max((last - first) / columns, 1);
    const cells = new Map();
    start.forEach((at, i) => {
      const place = Math.min(columns - 1, Math.floor((at - first) / step));
      const cell = cells.get(place) ?? { n: 0, low: Infinity, high: 0, from: at, to: at };
      cells.set(place, {
        n: cell.n + 1, low: Math.min(cell.low, length[i]), high: Math.max(cell.high, length[i]),
        from: Math.min(cell.from, at), to: Math.max(cell.to, at + length[i]),
      });
    });
    return [...cells].map(([place, cell]) => ({
      x: (1000 * place) / columns, width: 1000 / columns, at: cell,
      top: high ? Math.max((100 * cell.high) / high, 5) : 5, bottom: high ? Math.max((100 * cell.low) / high - 5, 0) : 0,
      text: `${count(cell.n)} from ${span(cell.from)} on: ${cell.n > 1 ? `${span(cell.low)} to ` : ""}${span(cell.high)}`,
    }));
  }

  function durations(name, { start, length, missing }) {
    const sorted = length.slice().sort();
    const [low, middle, high] = [sorted[0], sorted[(sorted.length - 1) >> 1], sorted.at(-1)];
    const events = `${count(sorted.length)} ${sorted.length === 1 ? "event" : "events"}`;
    const words = `${events} in the timeline, ${exact(low)} to ${exact(high)}, median ${exact(middle)}`;
    const chart = (title, bars, act) => element("div", {}, element("figcaption", {}, title), picture(`${title}: ${words}`, bars, act));
    return [
      element("p", {}, element("b", {}, name.slice(0, 300)), `: ${words}${missing ? `; ${count(missing)} events of the trace are not in this page` : ""}`),
      chart(`Durations, ${span(low)} to ${span(high)}`, histogram(sorted, low, high)),
      chart(`Over time, 0 to ${span(high)} (a click shows the place on the timeline)`, overTime(start, length, high), ({ from, to }) =>
        emit("goto", { start: from, end: to, places: [], from: "tables" })),
    ];
  }

  // One table

  const tables = [];

  class Table {
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
      const levels = this.columns.find((column) => column.name === "level" && column.unit === "count");
      this.level = levels && this.columns.some((column) => column.isName) ? (row) => (levels.value(row) >= 0 && levels.value(row) <= 8 ? levels.value(row) : 0) : () => 0;
      this.all = Array.from({ length: this.length }, (_, row) => row);
      this.order = this.all;
      this.words = [];
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
      return { columns: this.columns.filter((column) => !column.hidden), order: this.order };
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
      for (const note of this.sheet.querySelectorAll(".first-rows, .printed")) note.remove();
      this.printNote = element("p", { class: "note printed" });
      for (const column of this.columns) column.unprinted = column.head.hidden; // paper has no room for it
      this.columns.forEach((column, i) => this.buildHead(column, i));
      this.buildTools();
      scroller.addEventListener("scroll", () => this.render(), { passive: true });
      table.addEventListener("keydown", (event) => this.pressed(event));
      table.addEventListener("click", (event) => this.clicked(event));
      table.addEventListener("focusin", (event) => this.focused(event));
      table.addEventListener("focusout", () => { this.line.textContent = ""; });
      new ResizeObserver(() => this.render()).observe(scroller);
      this.show();
    }

    buildHead(column, place) {
      const button = element("button", { type: "button" }, ...column.head.childNodes);
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
      this.status = element("span", { role: "status" });
      this.filter = element("input", { type: "search", placeholder: "filter", spellcheck: "false", "aria-label": "Show the rows that contain these words" });
      this.filter.addEventListener("input", () => {
        this.filterBy(this.filter.value);
        clearTimeout(typed);
        typed = setTimeout(() => this.keepLink("filter", this.filter.value), 150);
      });
      this.more = element("button", { type: "button" });
      this.more.addEventListener("click", () => { this.wide = !this.wide; this.show(); });
      const menu = element("div", { class: "menu", id, hidden: true });
      const opener = element("button", { type: "button", "aria-expanded": "false", "aria-controls": id }, "Columns and export");
      opener.addEventListener("click", () => this.open(opener, menu, menu.hidden));
      this.line = element("p", { class: "exact", "aria-live": "off" });
      const tools = element("div", { class: "tools" }, this.status, this.more, this.filter, opener, menu);
      tools.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" || menu.hidden) return;
        this.open(opener, menu, false);
        opener.focus();
      });
      document.addEventListener("click", (event) => { if (!menu.hidden && !tools.contains(event.target)) this.open(opener, menu, false); });
      this.scroller.before(tools);
      this.panel = element("figure", { class: "durations", hidden: true });
      this.scroller.after(this.line, this.panel, this.printNote);
    }

    open(opener, menu, opened) {
      if (opened && !menu.childNodes.length) this.buildMenu(menu);
      menu.hidden = !opened;
      opener.setAttribute("aria-expanded", String(opened));
    }

    buildMenu(menu) {
      const boxes = this.columns.map((column) => {
        const box = element("input", { type: "checkbox", checked: !column.hidden });
        box.addEventListener("change", () => {
          column.hidden = !box.checked;
          if (this.columns.every((each) => each.hidden)) { column.hidden = false; box.checked = true; }
          this.range = null;
          this.show();
        });
        return element("label", {}, box, ` ${column.title || column.name}`);
      });
      const heat = element("input", { type: "checkbox", checked: this.heat });
      heat.addEventListener("change", () => { this.heat = heat.checked; this.range = null; this.render(); });
      const act = (text, fn) => {
        const button = element("button", { type: "button" }, text);
        button.addEventListener("click", fn);
        return button;
      };
      const file = (form, type) => () => {
        const name = `${this.view}${this.number > 1 ? `-${this.name}` : ""}.${form}`;
        save(name, new Blob([tableText(this, form)], { type }));
        if (form === "csv" && warning(this)) toast(`Saved ${name}${warning(this)}`);
      };
      menu.append(
        element("fieldset", {}, element("legend", {}, "Columns"), ...boxes),
        element("label", { class: "heat" }, heat, " Shade numbers by size"),
        act("Copy as TSV", async () => toast(await copied(tableText(this, "tsv")) ? `Copied ${count(this.order.length)} rows${warning(this)}` : "The browser did not allow copying")),
        act("Save as CSV", file("csv", "text/csv")),
        act("Save as JSON", file("json", "application/json")),
        element("p", {}, "Rows as filtered and sorted, columns as shown, numbers exact (times in ns)."),
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
      return this.words.every((word) => columns.some((column) => column.shown(row).toLowerCase().includes(word)));
    }

    // Everything anew: order, head, room, tools.
    show() {
      this.order = this.words.length ? this.all.filter((row) => this.matches(row)) : this.all;
      this.cell.at = Math.min(this.cell.at, Math.max(this.order.length - 1, 0));
      for (const column of this.columns) column.head.hidden = column.hidden;
      this.element.setAttribute("aria-rowcount", this.order.length + 1);
      const long = this.order.length > LONG;
      this.scroller.classList.toggle("long", long);
      this.scroller.classList.toggle("wide", long && this.wide);
      this.more.hidden = !long;
      this.more.textContent = this.wide ? "Show fewer" : "Show more";
      const rows = `${count(this.length)} ${this.length === 1 ? "row" : "rows"}`;
      const hidden = this.columns.filter((column) => column.hidden).length;
      this.status.textContent = `${this.words.length ? `${count(this.order.length)} of ${rows} match` : rows}${hidden ? `, ${hidden} of ${this.columns.length} columns hidden` : ""}`;
      this.filter.hidden = this.length < 2;
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
      const columns = this.columns.filter((column) => !column.hidden && !(printed && column.unprinted));
      for (const column of this.columns) column.head.hidden = !columns.includes(column);
      if (printed) {
        const missing = this.columns.filter((column) => !columns.includes(column)).map((column) => column.title || column.name);
        const words = [
          ...(last < total ? [`${count(total - last)} more ${total - last === 1 ? "row" : "rows"}`] : []),
          ...(total < this.length ? [`filtered: ${count(total)} of ${count(this.length)} rows`] : []),
          ...(missing.length ? [`not printed: ${missing.join(", ")}`] : []),
        ];
        this.printNote.textContent = words.join("; ");
      }
      const rows = [];
      for (let at = first; at < last; at++) rows.push(this.row(at, columns));
      const virtual = total > ALL && !printed;
      const space = (count) => element("tr", { "aria-hidden": "true", class: "space", style: `height:${count * (this.height || 27)}px` });
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
      return element("tr", { class: "sizer", "aria-hidden": "true" }, ...columns.map((column) => {
        if (!this.longest.has(column)) {
          let longest = "";
          for (let row = 0; row < this.length; row++) {
            const text = column.inCell(row);
            if (text.length > longest.length) longest = text;
          }
          this.longest.set(column, longest);
        }
        return element("td", { class: column.words ? "t" : column.unit === "ratio" ? "r" : null }, this.longest.get(column));
      }));
    }

    row(at, columns) {
      const row = this.order[at];
      const made = element("tr", { "aria-rowindex": at + 2, "aria-selected": this.picked.has(row) ? "true" : null, class: this.picked.has(row) ? "picked" : null });
      columns.forEach((column, place) => made.append(this.cellOf(at, row, column, place)));
      return made;
    }

    cellOf(at, row, column, place) {
      const text = column.inCell(row);
      const value = column.value(row);
      const indent = column.isName ? this.level(row) : 0;
      const cell = element(column.isName ? "th" : "td", {
        scope: column.isName ? "row" : null,
        class: column.className ?? (column.words ? "t" : column.unit === "ratio" && value !== null ? "r" : null),
        title: column.words ? (column.shown(row).length > 24 ? column.shown(row) : null) : value === null || column.unit === "id" || column.unit === "count" ? null : fullText(column, row),
        tabindex: at === this.cell.at && place === this.cell.column ? "0" : "-1",
        "aria-colindex": this.columns.indexOf(column) + 1,
      });
      if (indent) cell.style.paddingLeft = `${6 + 14 * indent}px`;
      if (column.unit === "ratio" && value !== null) {
        const bar = element("i");
        bar.style.width = `${Math.min(Math.max(100 * value, 0), 100).toFixed(2)}%`;
        cell.append(bar, text);
      } else {
        cell.append(...(column.nodes?.(row) ?? [text]));
        const heat = this.heatOf(column, value);
        if (heat) cell.style.background = `color-mix(in srgb, var(--heat) ${heat}%, transparent)`;
      }
      if (this.asked && this.asked.row === row && this.asked.column === column) cell.classList.add("asked");
      return cell;
    }

    // Share of the largest value of the column, 0 to 40 percent of colour: text stays readable.
    heatOf(column, value) {
      if (column.words || column.unit === "id" || value === null || !(this.heat || this.sortedBy?.column === column)) return 0;
      if (column.most === undefined) {
        column.most = 0;
        for (let row = 0; row < this.length; row++) column.most = Math.max(column.most, Math.abs(Number(column.value(row) ?? 0)));
      }
      return column.most ? Math.round((40 * Math.abs(Number(value))) / column.most) : 0;
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
      const columns = this.columns.filter((column) => !column.hidden).length;
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
      this.chosen = row;
      this.mark([row]);
      const at = this.order.indexOf(row);
      this.cell = { at, column: Math.max(this.seen().columns.indexOf(column), 0) };
      if (this.order.length > LONG) {
        this.scroller.scrollTop = Math.max(0, (at - 5) * (this.height || 27));
        this.range = null;
        this.render();
      }
      (this.rowElement(at) ?? this.sheet).scrollIntoView({ block: "center" });
    }
  }

  // Links of the address, and events of the timeline

  let applying = false;

  /** Changes the address without following it: the page shows the place already. */
  function visit(pairs) {
    applying = true;
    link.visit(pairs);
    applying = false;
  }

  function follow(first = false) {
    const [view, row] = [link.get("view"), Number(link.get("row"))];
    if (!view || !row) {
      if (link.get("mark") === null && !first && tables.some((each) => each.picked.size)) {
        for (const table of tables) if (table.picked.size) table.mark([]);
        emit("mark", { names: [], kinds: null, from: "link" });
      }
      markOfLink();
      if (view && !link.get("table")) document.getElementById(view)?.scrollIntoView();
      if (!view || !link.get("table")) return;
    }
    const table = tables.find((each) => each.view === view && each.number === Number(link.get("table") ?? 1));
    if (!table) {
      document.getElementById(view)?.scrollIntoView();
      return;
    }
    for (const other of tables) if (other !== table && other.picked.size) other.mark([]);
    if (!Number.isInteger(row) || row < 1 || row > table.length) table.sheet.scrollIntoView({ block: "start" });
    else {
      table.reveal(row - 1, table.columns.find((column) => column.name === link.get("column")) ?? null);
      followed = { names: table.namesOf(row - 1), kinds: table.kindsOf(row - 1), from: "link" };
      emit("mark", followed);
    }
  }

  /** The cells of the finding whose events are marked, unless the address names a row. */
  function markOfLink() {
    const mark = link.get("mark");
    if (mark !== null && !link.get("row")) markCells(articleOf(document.querySelector(`[data-finding="${Number(mark)}"]`)));
  }

  let followed = null; // the marks of the row in the address: a timeline may come later than the tables
  on("timeline", () => { if (followed && link.get("row")) emit("mark", followed); });

  let waiting = 0;
  on("link", ({ key }) => {
    if (!applying && key === "mark") markOfLink();
    if (!applying && /^(sort|filter)\./.test(key)) for (const table of tables) table.followLink(key);
    if (applying || !["view", "table", "row", "column"].includes(key)) return;
    clearTimeout(waiting); // keys of one address come one by one
    waiting = setTimeout(follow, 0, false);
  });

  on("pick", ({ name, from, show }) => {
    if (from === "tables") return;
    let wanted = show;
    for (const table of tables) {
      const column = table.named();
      if (!column) continue;
      const rows = name === null ? [] : table.order.filter((row) => column.value(row) === name || column.shown(row) === name);
      if (!rows.length && !table.picked.size) continue;
      table.mark(rows);
      if (!rows.length) continue;
      table.bring(table.order.indexOf(rows[0]));
      if (wanted) table.sheet.scrollIntoView({ block: "center" });
      wanted = false; // the first table that has it
    }
  });

  const isOf = (mark, view, row) => mark.view === view && (mark.row ?? 1) === Number(row);

  // The events of a finding on the timeline. number: of its mark; else its view and row.
  function jump(number, view, row) {
    const head = JSON.parse(document.getElementById("tl-head")?.textContent ?? "{}");
    const place = number === undefined ? head.marks?.findIndex((each) => isOf(each, view, row)) : Number(number);
    const mark = head.marks?.[place];
    if (!mark) return false;
    emit("goto", { start: mark.start * (head.unit ?? 1), end: mark.end * (head.unit ?? 1), mark: place, from: "finding" });
    return true;
  }

  const articleOf = (it) => it && (it.closest("article") ?? document.getElementById(it.dataset.of));

  // The rows that a finding rests on: those of the links of its evidence.
  function markCells(finding) {
    const wanted = new Map();
    for (const { hash } of finding?.querySelectorAll('a[href^="#view="]') ?? []) {
      const keys = new URLSearchParams(hash.slice(1));
      const table = tables.find((each) => each.view === keys.get("view") && each.number === Number(keys.get("table") ?? 1));
      if (table) wanted.set(table, [...(wanted.get(table) ?? []), Number(keys.get("row")) - 1]);
    }
    for (const table of tables) if (wanted.has(table) || table.picked.size) table.mark(wanted.get(table) ?? []);
  }

  // A card of the first screen leads to its finding, the button of a finding to its events; both mark events and rows.
  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    const cell = event.target.closest?.('a[href^="#view="]');
    if (cell) { // the other keys of the address stay, such as the window of the timeline
      const keys = new URLSearchParams(cell.hash.slice(1));
      link.visit(Object.fromEntries(["view", "table", "row", "column"].map((key) => [key, keys.get(key)])));
      event.preventDefault();
      return;
    }
    const it = event.target.closest?.("[data-finding], a.card[data-row]");
    if (!it) return;
    const { finding, view, row } = it.dataset;
    const place = { table: null, column: null };
    if (finding === undefined) visit({ view, row, ...place });
    else visit({ view: "timeline", row: null, ...place });
    jump(finding, view, row);
    const article = finding === undefined ? document.getElementById(it.hash.slice(1)) : articleOf(it);
    markCells(article);
    if (finding !== undefined) {
      document.getElementById("tl")?.scrollIntoView({ block: "center" });
      return;
    }
    article?.setAttribute("tabindex", "-1");
    article?.focus({ preventScroll: true });
    article?.scrollIntoView({ block: "center" });
    event.preventDefault();
  });

  let printed = false;
  for (const word of ["beforeprint", "afterprint"]) {
    addEventListener(word, () => {
      printed = word === "beforeprint";
      for (const table of tables) { table.range = null; table.render(); }
    });
  }

  const rest = () => (globalThis.scheduler?.yield ? scheduler.yield() : new Promise((done) => setTimeout(done)));

  // Columns and number of rows of a table: from the data of the page, or from its cells

  const fromData = (data, texts) => (heads) => {
    const named = data.columns.findIndex((column) => column.unit === "text");
    const first = data.columns[0];
    return [data.columns.map((column, i) => columnOf(column, texts, heads[i], i === named)), (first.t ?? first.v).length];
  };

  const fromCells = (heads, rows) => {
    const named = rows.length ? [...rows[0].cells].findIndex((cell) => cell.tagName === "TH") : -1;
    return [heads.map((head, i) => columnOfCells(head, rows.map((row) => row.cells[i]), i === named)), rows.length];
  };

  async function start() {
    for (const sheet of document.querySelectorAll(".sheet[data-name]")) {
      const { name } = sheet.dataset;
      tables.push(new Table(sheet, name, 1, name, fromCells).followLinks());
      document.documentElement.classList.add("tables");
    }
    if (tables.length) follow(true);
    const block = document.getElementById("report-data");
    if (!block || typeof DecompressionStream === "undefined") return;
    const { report, ...texts } = await unpacked(block.textContent);
    let until = performance.now() + SLICE_MS;
    for (const sheet of document.querySelectorAll(".sheet[data-table]")) {
      const [section, place] = sheet.dataset.table.split(".").map(Number);
      const { view, tables: all } = report.sections[section];
      if (!all[place].columns.length) continue;
      if (performance.now() > until) {
        await rest();
        until = performance.now() + SLICE_MS;
      }
      tables.push(new Table(sheet, view, place + 1, all[place].name, fromData(all[place], texts)).followLinks());
    }
    document.documentElement.classList.add("tables");
    follow(true);
  }

  void start();
})();

"use strict";
// Sorting and filtering of tables; what the timeline says in words. Text of a trace goes in as text nodes alone.
(() => {
  const SHOWN = 15; // rows of a long table until one asks for all
  const LONG = 20;
  document.documentElement.classList.add("script");

  function element(tag, attributes, text) {
    const made = Object.assign(document.createElement(tag), attributes);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Tables

  // Whole numbers beyond 2^53 collide as floats: then the digits decide.
  function compareNumbers(a, b) {
    const far = Number(a) - Number(b);
    if (far || a === b || !/^-?\d+$/.test(a) || !/^-?\d+$/.test(b)) return far || 0;
    const [left, right] = [BigInt(a), BigInt(b)];
    return left < right ? -1 : left > right ? 1 : 0;
  }

  function sortRows(rows, column, isNumber, descending) {
    const keyed = rows.map((row) => {
      const cell = row.cells[column];
      return { row, key: isNumber ? cell.dataset.v ?? null : cell.textContent };
    });
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
      const order = isNumber ? compareNumbers(a.key, b.key) : a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
      return descending ? -order : order;
    });
    return keyed.map((each) => each.row);
  }

  function setUp(sheet) {
    const table = sheet.querySelector("table");
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    let rows = [...body.rows];
    let words = "";
    let all = rows.length <= LONG;
    let count = null;
    let more = null;

    function show() {
      let found = 0;
      for (const row of rows) {
        const matches = !words || [...row.cells].some((cell) => cell.classList.contains("t") && cell.textContent.toLowerCase().includes(words));
        found += matches;
        row.hidden = !matches || (!all && found > SHOWN);
      }
      if (!more) return;
      more.hidden = found <= SHOWN;
      more.textContent = all ? `show ${SHOWN} rows` : `show all ${found.toLocaleString("en")} rows`;
      count.textContent = words ? `${found.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows match` : "";
    }

    heads.forEach((head, column) => {
      const isNumber = head.dataset.kind === "number";
      const button = element("button", { type: "button" });
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const descending = before ? before === "ascending" : isNumber;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        rows = sortRows(rows, column, isNumber, descending);
        body.append(...rows);
        show();
      });
    });
    if (rows.length > LONG) {
      const tools = element("div", { className: "tools" });
      more = element("button", { type: "button" });
      more.addEventListener("click", () => { all = !all; show(); });
      count = element("span", {});
      count.setAttribute("role", "status");
      tools.append(more);
      if (heads.some((head) => head.classList.contains("t"))) {
        const filter = element("input", { type: "search", placeholder: "filter by name", spellcheck: false });
        filter.setAttribute("aria-label", "Show the rows whose text contains this");
        filter.addEventListener("input", () => { words = filter.value.trim().toLowerCase(); show(); });
        tools.append(filter);
      }
      tools.append(count);
      sheet.querySelector(".scroll").after(tools);
    }
    show();
  }

  // Times: whole ns as a number below 2^53 or as text, never rounded

  const EXPONENTS = { s: 9, ms: 6, us: 3, ns: 0 };

  function unitOf(digits) {
    return digits > 9 ? "s" : digits > 6 ? "ms" : digits > 3 ? "us" : "ns";
  }

  function exactTime(ns) {
    const text = String(ns);
    const unit = unitOf(text.length);
    const exponent = EXPONENTS[unit];
    const padded = text.padStart(exponent + 1, "0");
    const whole = padded.slice(0, padded.length - exponent).replace(/\B(?=(\d{3})+$)/g, ",");
    const rest = padded.slice(padded.length - exponent).replace(/0+$/, "");
    return `${whole}${rest ? "." + rest : ""} ${unit}`;
  }

  function tickTexts(ticks) {
    if (!ticks.length) return [];
    const largest = Math.max(...ticks.map(Math.abs));
    const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : largest;
    const unit = unitOf(Math.floor(Math.log10(Math.max(largest, 1))) + 1);
    const decimals = Math.max(0, EXPONENTS[unit] - Math.floor(Math.log10(Math.max(step, 1)) + 1e-9));
    return ticks.map((tick) => {
      const text = (tick / 10 ** EXPONENTS[unit]).toFixed(Math.min(decimals, EXPONENTS[unit]));
      return tick === 0 ? "0" : `${text} ${unit}`;
    });
  }

  // Timelines

  function tooltip(texts, source, index) {
    const data = (name) => source.data[name];
    const box = element("div", {});
    Object.assign(box.style, { color: "#1c2733", maxWidth: "440px", font: "12px/1.45 system-ui, sans-serif", overflowWrap: "anywhere", whiteSpace: "normal" });
    const line = (text, style) => { const made = element("div", {}, text); Object.assign(made.style, style ?? {}); box.append(made); };
    if (data("share")) {
      const [left, right] = [data("left")[index], data("right")[index]];
      line(texts.devices[data("device")[index]], { fontWeight: "600" });
      line(`kernels ran ${(100 * data("share")[index]).toFixed(1)} % of the time`);
      line(`from ${exactTime(Math.round(left))} to ${exactTime(Math.round(right))}`);
      return box;
    }
    const start = data("start") ? data("start")[index] : data("left")[index];
    const length = data("length") ? data("length")[index] : data("right")[index] - data("left")[index];
    line(texts.names[data("name")[index]], { fontWeight: "600" });
    line(`${texts.kinds[Math.floor(data("color")[index] / texts.tones)]} · ${texts.lanes[data("lane")[index]]}`, { opacity: ".75" });
    line(`duration ${exactTime(length)}`);
    line(`start ${exactTime(start)}`);
    return box;
  }

  const widths = new Map(); // the room that each plot asks for its labels on a wide page

  function dress(doc, box) {
    const style = getComputedStyle(document.documentElement);
    const [text, line] = [style.getPropertyValue("--muted").trim(), style.getPropertyValue("--fg").trim()];
    const [plot] = doc.roots();
    for (const axis of [...plot.below, ...plot.above, ...plot.left]) axis.major_label_text_color = text;
    for (const label of plot.center.filter((each) => each.name === "group")) label.text_color = text;
    for (const renderer of plot.renderers) if (renderer.hover_glyph) renderer.hover_glyph.line_color = { value: line };
    const narrow = box.clientWidth < 640;
    doc.get_model_by_name("times").ticker.desired_num_ticks = narrow ? 3 : 8;
    for (const axis of plot.left) axis.major_label_text_font_size = narrow ? "9px" : "11px";
    widths.set(plot, widths.get(plot) ?? plot.min_border_left);
    plot.min_border_left = narrow ? 40 : widths.get(plot);
  }

  async function draw(box) {
    const { document: json, texts } = JSON.parse(document.getElementById(`${box.id}-data`).textContent);
    await Bokeh.embed.embed_item({ doc: json, root_id: json.roots[0].id, target_id: box.id });
    const doc = Bokeh.documents[Bokeh.documents.length - 1];
    doc.get_model_by_name("hover").tooltips = (source, vars) => tooltip(texts, source, vars.index);
    for (const name of ["times", "times-above"]) {
      const axis = doc.get_model_by_name(name);
      axis.formatter.doFormat = tickTexts;
      axis.change.emit();
    }
    dress(doc, box);
    box.style.minHeight = "";
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dress(doc, box));
    new ResizeObserver(() => dress(doc, box)).observe(box);
  }

  async function drawAll() {
    for (const box of document.querySelectorAll(".canvas")) await draw(box);
  }

  // Contents: the section that one reads is marked, and its name kept in sight

  function followContents(bar) {
    const links = new Map([...bar.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
    const seen = new Set();
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target.id);
      const now = [...links.keys()].find((id) => seen.has(id));
      for (const [id, link] of links) {
        if (id === now) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
      const current = now && links.get(now);
      if (current && bar.scrollWidth > bar.clientWidth) bar.scrollLeft = current.offsetLeft - bar.offsetLeft - 12;
    }, { rootMargin: "-70px 0px -60% 0px" });
    for (const id of links.keys()) {
      const section = document.getElementById(id);
      if (section) watcher.observe(section);
    }
  }

  document.querySelectorAll(".contents").forEach(followContents);
  document.querySelectorAll(".sheet").forEach(setUp);
  void drawAll();
})();

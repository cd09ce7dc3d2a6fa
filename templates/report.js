"use strict";
// Sorting and filtering of tables, and the contents. Text of a trace goes in as text nodes alone.
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
  document.querySelectorAll(".sheet:not([data-table])").forEach(setUp);
})();

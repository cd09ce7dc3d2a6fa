"use strict";
// Ways through a page: sections that are folded, the menu of tables, and a search in titles, findings and names.
// Other scripts answer the search over the bus ("find"); text of a trace goes in as text nodes alone.
(() => {
  const { on, emit, link } = window.tracekit;
  const MOST = 12; // results
  const MOST_TITLES = 5;

  // Folded sections. The address has those that are open: #open=idle~api.

  const folds = [...document.querySelectorAll("details.fold")];
  const idOf = (fold) => fold.parentElement.id;
  let [telling, printing] = [false, false];

  function unfold(id) {
    const fold = id && document.getElementById(id)?.closest("section")?.querySelector(":scope > .fold");
    if (fold) fold.open = true;
  }

  function followLink() {
    const open = (link.get("open") ?? "").split("~");
    for (const fold of folds) fold.open = open.includes(idOf(fold));
    unfold(link.get("view"));
  }

  function tell() {
    if (printing) return;
    telling = true;
    link.set("open", folds.filter((fold) => fold.open).map(idOf).join("~"));
    telling = false;
  }

  for (const fold of folds) fold.addEventListener("toggle", tell);
  on("link", ({ key }) => {
    if (key === "open" && !telling) followLink();
    if (key === "view") unfold(link.get("view"));
  });
  const plain = (hash) => (hash.includes("=") ? null : decodeURIComponent(hash.slice(1)));
  followLink();
  const asked = document.getElementById(plain(location.hash))?.closest("main section");
  if (asked) link.set("view", plain(location.hash)); // tables are taller soon: they bring it in sight then

  let closed = [];
  addEventListener("beforeprint", () => {
    printing = true;
    closed = folds.filter((fold) => !fold.open);
    for (const fold of closed) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of closed) fold.open = false;
    setTimeout(() => { printing = false; }, 100);
  });

  // The menu of tables

  const bar = document.querySelector(".contents");
  const menu = bar?.querySelector("details");
  document.addEventListener("click", (event) => {
    const anchor = event.target.closest?.('a[href^="#"]');
    if (anchor) unfold(plain(anchor.hash));
    if (menu?.open && (!menu.contains(event.target) || anchor)) menu.open = false;
  });
  menu?.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });

  // Search

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  /** Sections and findings whose titles have all words. */
  function titled(words) {
    const has = (text) => words.every((word) => text.toLowerCase().includes(word));
    const sections = [...document.querySelectorAll("main section[id] h2")].filter((head) => has(head.textContent));
    const findings = [...document.querySelectorAll("article.finding")].filter((each) => has(each.textContent));
    return [
      ...sections.map((head) => ({ text: head.textContent, where: "section", go: () => visit(head.closest("section")) })),
      ...findings.map((each) => ({ text: each.querySelector("h3").textContent, where: "finding", go: () => visit(each) })),
    ];
  }

  function visit(place) {
    const section = place.closest("section");
    emit("leave");
    link.visit({ view: section.id, table: null, row: null, column: null });
    unfold(section.id);
    if (!place.hasAttribute("tabindex")) place.setAttribute("tabindex", "-1");
    place.focus({ preventScroll: true });
    place.scrollIntoView();
  }

  function addSearch() {
    const box = element("input", {
      type: "search", role: "combobox", placeholder: "/ search names, tables, findings", spellcheck: "false", autocomplete: "off",
      "aria-label": "Search names, tables and findings", "aria-expanded": "false", "aria-controls": "found", "aria-autocomplete": "list",
    });
    const list = element("ul", { id: "found", role: "listbox", "aria-label": "Found", hidden: "" });
    bar.append(element("div", { class: "search" }, box, list));
    let [results, at, typing] = [[], 0, 0];

    function close() {
      list.hidden = true;
      box.setAttribute("aria-expanded", "false");
      box.removeAttribute("aria-activedescendant");
    }

    function choose(place) {
      at = Math.min(Math.max(place, 0), results.length - 1);
      [...list.children].forEach((row, i) => row.setAttribute("aria-selected", String(i === at)));
      if (results.length) box.setAttribute("aria-activedescendant", `found-${at}`);
      list.children[at]?.scrollIntoView({ block: "nearest" });
    }

    function go(place) {
      const result = results[place];
      if (!result) return;
      close();
      box.blur();
      result.go();
    }

    function find() {
      clearTimeout(typing);
      typing = 0;
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      if (!words.length) return close();
      const titles = titled(words);
      const names = [];
      emit("find", { words, most: MOST, reply: (found) => names.push(...found) });
      results = [...titles.slice(0, MOST_TITLES), ...names].slice(0, MOST);
      list.replaceChildren(...results.map(({ text, where }, i) => {
        const row = element("li", { id: `found-${i}`, role: "option", title: text }, element("span", {}, text), element("small", {}, where));
        row.addEventListener("pointerdown", (event) => event.preventDefault()); // the focus stays
        row.addEventListener("click", () => go(i));
        return row;
      }));
      if (!results.length) list.append(element("li", { role: "option", "aria-disabled": "true" }, "nothing found"));
      list.hidden = false;
      box.setAttribute("aria-expanded", "true");
      choose(0);
    }

    box.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(find, 80);
    });
    box.addEventListener("focus", () => { if (box.value) find(); });
    box.addEventListener("blur", close);
    box.addEventListener("keydown", (event) => {
      const moves = { ArrowDown: at + 1, ArrowUp: at - 1 };
      if (event.key in moves && !list.hidden) choose(moves[event.key]);
      else if (event.key === "Enter") {
        if (typing || list.hidden) find(); // typed a moment ago
        go(at);
      } else if (event.key === "Escape") {
        box.value = "";
        close();
        box.blur();
      } else return;
      event.preventDefault();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (event.target.closest?.("input, textarea, select, [contenteditable], #tl")) return;
      event.preventDefault();
      box.focus();
      box.select();
    });
  }

  if (bar) addSearch();
})();

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

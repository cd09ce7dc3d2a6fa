// Trees of call paths.

export const node = (code, under = null) => ({ code, value: 0, base: 0, self: 0, calls: 0, children: [], under });

/** Sorts the children, largest first, and sets self values; not by recursion: stacks of Python are deep. */
export function finish(root, sorted = true) {
  const waiting = [root];
  while (waiting.length) {
    const it = waiting.pop();
    if (sorted) it.children.sort((a, b) => b.value - a.value || a.code - b.code);
    let below = 0;
    for (const each of it.children) { below += each.value; waiting.push(each); }
    it.self = Math.max(0, it.value - below);
  }
  return root;
}

/** What calls a name and what it calls, merged over all its places: [callers, callees], both from the name on. */
export function sandwich(root, code) {
  const up = node(code), down = node(code);
  const add = (to, by) => { to.value += by.value; to.base += by.base; to.calls += by.calls; };
  const grow = (under, from, by) => {
    let found = under.children.find((each) => each.code === from.code);
    if (!found) under.children.push(found = { ...node(from.code, under), of: from });
    add(found, by);
    return found;
  };
  const waiting = [[root, null, false]]; // a node, its place below `down`, and whether the name holds it already
  while (waiting.length) {
    const [it, place, inside] = waiting.pop();
    let mine = place && grow(place, it, it);
    if (it.code === code && !inside) { // the outermost alone: what it calls of itself counts once
      add(up, it);
      add(down, it);
      let at = up;
      for (let above = it.under; above && above.code >= 0; above = above.under) at = grow(at, above, it);
      mine = down;
    }
    for (const each of it.children) waiting.push([each, mine, inside || it.code === code]);
  }
  return [finish(up), finish(down)];
}

const BLANK = /^\s*$/;

/** The flame graph of a figure of the report: its texts as people see them, and of each call path name and parent. */
export function calls(figure, { texts, shown }) {
  const codes = [...new Set(figure.names)], codeOf = new Map(codes.map((name, code) => [name, code]));
  const text = (name) => {
    const visible = shown[name] ?? texts[name];
    return BLANK.test(visible) ? (texts[name] ? "(blank name)" : "(no name)") : visible;
  };
  return { ...figure, texts: codes.map(text), codes: figure.names.map((name) => codeOf.get(name)), parents: figure.up.map((up, place) => place - up) };
}

/** A node of each call path under its parent, and the root of all. */
export function tree(codes, parents) {
  const made = codes.map((code) => node(code));
  const root = node(-1);
  made.forEach((it, place) => {
    it.under = parents[place] < 0 ? root : made[parents[place]];
    it.under.children.push(it);
  });
  return { made, root };
}

/** The tree in order of time: a call that was left and called again is there twice. order: a call path of each stretch. */
export function inTime(codes, parents, order, lengths) {
  const root = node(-1);
  let open = []; // [call path, its node] of what is open, the outermost first
  order.forEach((leaf, stretch) => {
    const path = [];
    for (let place = leaf; place >= 0; place = parents[place]) path.push(place);
    path.reverse();
    let same = 0;
    while (same < open.length && same < path.length && open[same][0] === path[same]) same++;
    open = open.slice(0, same);
    for (const place of path.slice(same)) {
      const under = open.length ? open[open.length - 1][1] : root, made = node(codes[place], under);
      under.children.push(made);
      open.push([place, made]);
    }
    for (const [, it] of open) it.value += lengths[stretch];
    root.value += lengths[stretch];
  });
  return finish(root, false);
}

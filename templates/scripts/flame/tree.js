// Trees of call paths.

export const node = (code, under = null) => ({ code, value: 0, base: 0, self: 0, calls: 0, children: [], under });

/** Sorts the children, largest first, and sets self values; not by recursion: stacks of Python are deep. */
export function finish(root) {
  const waiting = [root];
  while (waiting.length) {
    const it = waiting.pop();
    it.children.sort((a, b) => b.value - a.value || a.code - b.code);
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

// Return the texts, a node of each name (a number of them) under its parent, and the root of all.
export function tree(names, parents) {
  const texts = [...new Set(names)];
  const codeOf = new Map(texts.map((text, code) => [text, code]));
  const made = names.map((text) => node(codeOf.get(text)));
  const root = node(-1);
  names.forEach((_, place) => {
    made[place].under = parents[place] < 0 ? root : made[parents[place]];
    made[place].under.children.push(made[place]);
  });
  return { texts, made, root };
}

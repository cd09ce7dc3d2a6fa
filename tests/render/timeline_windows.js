// 50 windows of a page: what the columns of two rows hold, and the pixels that were painted for them.
let seed = 12345;
const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
const packed = (array) => {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  let out = "";
  for (let i = 0; i < bytes.length; i += 8192) out += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(out);
};
const scroll = document.querySelector(".tl-scroll");
const windows = [];
for (let k = 0; k < 50; k++) {
  const wide = k === 0 ? T.head.span : Math.max(50, 10 ** (random() * Math.log10(T.head.span)));
  const from = random() * (T.head.span - wide);
  T.show(from, from + wide);
  T.paint();
  const p = T.picture();
  const w = p.width - p.left;
  const per = (T.view.t1 - T.view.t0) / w;
  const all = T.items().filter((it) => it.is === "rows")
    .flatMap((it) => Array.from({ length: it.rows }, (_, d) => [it.row + d, it.y + d * it.each, it.each]));
  const rows = [];
  for (const [r, y, h] of [all[k % all.length], all[(k * 7 + 3) % all.length]]) {
    const top = Math.round(y - scroll.scrollTop);
    if (top < 0 || top + h > p.height) continue;
    const { share, count, kind } = D.scan(r, T.view.t0, per, w);
    const low = new Uint32Array(w), high = new Uint32Array(w), tall = new Int32Array(w);
    for (let c = 0; c < w; c++) {
      const at = (line) => p.pixels[(top + line) * p.width + p.left + c];
      low[c] = at(h - 2);
      high[c] = at(0);
      while (tall[c] < h - 1 && at(h - 2 - tall[c]) === low[c]) tall[c]++;
    }
    rows.push({
      r, h, share: packed(share.slice(0, w)), count: packed(count.slice(0, w)), kind: packed(kind.slice(0, w)),
      low: packed(low), high: packed(high), tall: packed(tall),
    });
  }
  windows.push({ t0: T.view.t0, per, w, rows });
}
const { shades, ground } = T.picture();
return { windows, shades, ground };

// Arguments of events, decoded when they are looked at.

import { slicer } from "../page/slices.js";
import { floats, inflate, planes, signed } from "./decode.js";
import { ascii, beside, members } from "./members.js";
import { lower } from "./ranges.js";
import { head } from "./source.js";

const argParts = (head.args ?? []).map(() => []);
for (const part of document.querySelectorAll(".tl-args")) argParts[+part.dataset.key]?.push({ part, at: +part.dataset.at, found: null });
const argWords = new Map();

function wordsOf(key) {
  if (!argWords.has(key)) {
    const element = [...document.querySelectorAll(".tl-words")].find((each) => +each.dataset.key === key);
    argWords.set(key, element ? JSON.parse(element.textContent) : []);
  }
  return argWords.get(key);
}

async function decodeArgs(key, piece) {
  if (piece.found) return piece.found;
  const n = +piece.part.dataset.n;
  const bytes = await inflate(piece.part);
  const places = new Float64Array(n);
  let values = new Float64Array(n);
  const next = planes(bytes, 0, n, places);
  for (let i = 0, at = piece.at; i < n; i++) places[i] = at += places[i];
  const { type } = head.args[key];
  if (type === "float") values = floats(bytes, next, n);
  else planes(bytes, next, n, values);
  if (type === "int") for (let i = 0; i < n; i++) values[i] = signed(values[i]);
  piece.found = { places, values };
  return piece.found;
}

// The arguments that have no column, as JSON text: templates with a mark for each number, and the numbers
const memberParts = [...document.querySelectorAll(".tl-members")].map((part) => ({ part, at: +part.dataset.at, places: null, textOf: null }));

/** The text of the arguments of any place of a part; "" for none. */
async function decodeMembers(piece) {
  if (piece.textOf) return piece.textOf;
  const { n, t } = piece.part.dataset, bytes = await inflate(piece.part);
  const templates = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(0, +t)).split("\x02");
  const places = new Float64Array(+n), codes = new Int32Array(+n), rank = new Int32Array(+n);
  const rows = new Int32Array(templates.length), slots = templates.map((text) => text.split(/[\0\x01]/).length - 1);
  let o = planes(bytes, planes(bytes, +t, +n, places), +n, codes), of = 0, all = 0;
  for (let i = 0, at = piece.at; i < +n; i++) {
    places[i] = at += places[i];
    rank[i] = rows[codes[i]]++;
  }
  const base = slots.map((each, c) => { const at = all; all += each * rows[c]; of += each; return at; });
  const isStep = new Uint8Array(of), values = new Float64Array(all);
  o = planes(bytes, o, of, isStep);
  planes(bytes, o, all, values);
  let g = 0;
  slots.forEach((each, c) => {
    for (let from = base[c], s = 0; s < each; s++, from += rows[c]) {
      if (isStep[g++]) for (let i = from + 1; i < from + rows[c]; i++) values[i] = values[i - 1] + signed(values[i]);
    }
  });
  piece.places = places;
  piece.textOf = (place) => {
    const x = lower(places, place), c = codes[x];
    if (places[x] !== place) return "";
    let v = base[c] + rank[x] - rows[c];
    return templates[c].replace(/[\0\x01]/g, (mark) => String(values[v += rows[c]]).slice(+(mark > "\0")));
  };
  return piece.textOf;
}

export async function membersOf(place) {
  const piece = memberParts.findLast(({ at }) => at <= place);
  return piece ? (await decodeMembers(piece))(place) : "";
}

/** All arguments of one event: [key, value, unit], in the page's order. */
export async function argsOf(place) {
  const out = [];
  for (let key = 0; key < argParts.length; key++) {
    const pieces = argParts[key];
    let p = pieces.length - 1;
    while (p > 0 && pieces[p].at > place) p--;
    if (p < 0) continue;
    const { places, values } = await decodeArgs(key, pieces[p]);
    const x = lower(places, place);
    if (places[x] !== place) continue;
    const { key: word, unit = "", type } = head.args[key];
    out.push([word, type === "text" ? wordsOf(key)[values[x]] : values[x], unit]);
  }
  for (const [word, text] of members(await membersOf(place))) out.push([word, text, ""]);
  return out;
}

/** The arguments of many events, asked for in ascending order: of each the pairs, or JSON text of their members. */
export async function argsBetween(spans, asPairs = false) {
  const low = spans.length ? spans[0][1] : 0, high = spans.length ? spans[spans.length - 1][2] : 0;
  const lists = [];
  for (let key = 0; key < argParts.length; key++) {
    const pieces = argParts[key].filter((piece, p, all) => piece.at < high && (p + 1 === all.length || all[p + 1].at > low));
    const word = head.args[key].key, isText = head.args[key].type === "text";
    const words = isText ? wordsOf(key) : null;
    for (const piece of pieces) lists.push({ ...(await decodeArgs(key, piece)), word, quoted: JSON.stringify(word), words, isText });
  }
  const found = (i) => lists.flatMap((list) => {
    const x = lower(list.places, i);
    return list.places[x] === i ? [[list, list.isText ? list.words[list.values[x]] : list.values[x]]] : [];
  });
  const near = memberParts.filter(({ at }, p) => at < high && !(memberParts[p + 1]?.at <= low));
  const more = [];
  for (const piece of near) more.push([piece.at, await decodeMembers(piece)]);
  const textOf = (i) => more.findLast(([at]) => at <= i)?.[1](i) ?? "";
  if (asPairs) return (i) => [...found(i).map(([{ word }, value]) => [word, value]), ...members(textOf(i)).map(([word, text, is]) => [word, !is ? text : /^-?\d{1,18}$/.test(text) ? BigInt(text) : +text])];
  return (i) => ascii([...found(i).map(([{ quoted }, value]) => `${quoted}:${JSON.stringify(value)}`), ...beside(textOf(i))].join(","));
}

/**
 * The events with an argument that a search means, by key: "correlation=44609", a number of three digits or more, or a
 * pattern for texts. Async, in slices; null: not wanted any more. slow: whether there was no time for all.
 */
export async function searchArgs(text, pattern, wanted) {
  const [, word = null, value = text] = /^\s*([\w .-]+?)\s*[=:]\s*(.+?)\s*$/.exec(text) ?? [];
  const number = /^-?[\d,]*\d(\.\d+)?$/.test(value) && (word !== null || value.length > 2) ? value.replaceAll(",", "") : null;
  const found = new Map(), slice = slicer(12), until = performance.now() + 1500;
  let only = pattern, slow = false;
  if (word !== null) {
    try {
      only = new RegExp(value, "i");
    } catch { /* the whole is one */ }
  }
  const isKey = (key) => word === null || key.toLowerCase() === word.toLowerCase();
  const put = (key, place) => { if (found.has(key)) found.get(key).push(place); else found.set(key, [place]); };
  for (let key = 0; key < argParts.length; key++) {
    const { key: own, type } = head.args[key];
    if (!isKey(own)) continue;
    const hit = type === "text" ? wordsOf(key).map((each) => only.test(each)) : null;
    if (hit ? !hit.includes(true) : number === null) continue;
    for (const piece of argParts[key]) {
      const { places, values } = await decodeArgs(key, piece);
      for (let i = 0; i < places.length; i++) if (hit ? hit[values[i]] : values[i] === +number) put(own, places[i]);
      if (slice.due()) { await slice.rest(); if (!wanted()) return null; }
    }
  }
  for (const piece of memberParts) {
    const textOf = await decodeMembers(piece);
    for (const place of piece.places) {
      for (const [own, each, isNumber] of members(textOf(place))) {
        if (isKey(own) && (isNumber ? each === number : only.test(each))) put(own, place);
      }
      if (slice.due()) { await slice.rest(); if (!wanted()) return null; }
      slow = performance.now() > until;
      if (slow) return { found, slow };
    }
  }
  return { found, slow };
}

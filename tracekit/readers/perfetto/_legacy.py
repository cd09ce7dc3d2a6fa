"""Legacy events: phases of Chrome's JSON within track events, as Chrome and old SDKs write them.

Asynchronous work (b and e, S and F) is paired by its id, and by the category too, as Perfetto's engine does.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import F64, I32, I64, Mask
from tracekit.columns.arrow import Column
from tracekit.readers.engine.wire import Fields, Picked, scan
from tracekit.readers.packets.fields import NAMES
from tracekit.readers.packets.framing import Block
from tracekit.readers.packets.rows import BEGIN, COUNTER, END, FINISH, FLOW, MARK, START, STEP, WHOLE, table
from tracekit.readers.packets.sequences import Stated
from tracekit.readers.packets.texts import NONE, Texts
from tracekit.readers.perfetto._args import Members
from tracekit.readers.perfetto._tracks import Tracks
from tracekit.trace import Ledger

_WHAT = {"B": BEGIN, "E": END, "X": WHOLE, "b": BEGIN, "e": END, "S": BEGIN, "F": END, "s": FLOW, "t": FLOW, "f": FLOW}
_ASYNC = frozenset("beSFnTp")
_FLOW_PHASES = {"s": START, "t": STEP, "f": FINISH}
_DIRECTIONS = {1: FINISH, 2: START, 3: STEP}
FACT = -2
SERIES = -3
Columns = dict[str, I64 | I32]


class Legacy:
    """Reads the legacy part of track events."""

    def __init__(self, texts: Texts, tracks: Tracks, ledger: Ledger) -> None:
        self.texts, self.tracks, self.ledger = texts, tracks, ledger

    def read(
        self, block: Block, stated: Stated, found: Picked, columns: Columns, what: I64, members: Members
    ) -> list[pa.Table]:
        """Set track, name, `what` and duration of events by their phase; return the arrows that they have beside."""
        inner = scan(block.view, found.at, found.ends)
        count = len(found)
        rows = found.row
        phase, _ = inner.of(2, 0).last(count)
        untyped = what[rows] == -1
        self._take_lane(inner, count, columns, rows)
        iids, named = inner.of(1, 0).last(count)
        plain = named & (columns["name"][rows] == NONE)
        if plain.any():
            packets = columns["packet"][rows[plain]] - block.number
            columns["name"][rows[plain]] = stated.texts(packets, NAMES, iids[plain])
        identity, kind = self._identity(inner, count)
        number = np.full(len(what), -1, np.int64)
        arrows = np.zeros(len(what), np.float64)
        for code in np.unique(phase[untyped]).tolist():
            letter = chr(code) if 0 < code < 128 else ""
            mine = untyped & (phase == code)
            at = rows[mine]
            if letter == "M":
                what[at] = FACT
                continue
            if letter == "C":
                what[at] = SERIES
                continue
            what[at] = _WHAT.get(letter, MARK) if letter else -1
            if letter == "X":
                duration, _ = inner.of(3, 0).last(count)
                number[at] = self._whole(duration[mine])
            elif letter in _FLOW_PHASES:
                bind, bound = inner.of(8, 0).last(count)
                number[at] = np.where((kind == 0) & bound, bind, identity)[mine]
                arrows[at] = _FLOW_PHASES[letter]
            elif letter in _ASYNC:
                self._asynchronous(inner, columns, rows, mine, identity, kind, block)
            if letter in _ASYNC or letter in "NOD":
                self._add_ids(members, rows[mine & (kind > 0)], identity[mine & (kind > 0)])
        columns["number"] = number
        self._arrows_of_marks = arrows
        return self._bound(inner, count, columns, rows)

    def from_args(self, columns: Columns, what: I64, args: Column) -> list[pa.Table]:
        """Return the rows of counters whose values are arguments; take the names that metadata events have."""
        facts, series = np.flatnonzero(what == FACT), np.flatnonzero(what == SERIES)
        if len(facts):
            self._take_names(columns, facts, args)
        if not len(series):
            return []
        picked: list[int] = []
        names: list[int] = []
        values: list[float] = []
        first: list[bool] = []
        for row in series.tolist():
            own = _object(args[row].as_py())
            name = self.texts.all[int(columns["name"][row])] if columns["name"][row] >= 0 else ""
            began = True
            for key, value in own.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    picked.append(row)
                    whole = f"{name} {key}".strip() if len(own) > 1 else name or key
                    names.append(self.texts.code(whole))
                    values.append(float(value))
                    first.append(began)
                    began = False
            if began:
                text = "dropped: counters without a value"
                self.ledger.drop("bad-event", where=f"packet {int(columns['packet'][row])}", text=text)
        at = np.array(picked, np.int64)
        base = {name: columns[name][at] for name in ("track", "ts", "clock", "packet", "category")}
        extra = {
            "what": np.full(len(at), COUNTER),
            "name": np.array(names, np.int32),
            "value": np.array(values),
            "primary": np.array(first, np.bool_),
        }
        return [table(len(at), {**base, **extra})]

    def _take_names(self, columns: Columns, rows: I64, args: Column) -> None:
        self.ledger.facts += len(rows)
        for row in rows.tolist():
            name = self.texts.all[int(columns["name"][row])] if columns["name"][row] >= 0 else ""
            text = _object(args[row].as_py()).get("name")
            key = self.tracks.keys[int(columns["track"][row])]
            if not isinstance(text, str) or key[0] != "thread":
                continue
            if name == "process_name":
                self.tracks.processes[key[1]] = text
            elif name == "thread_name":
                self.tracks.threads[key[1], key[2]] = text

    def _whole(self, duration_us: I64) -> I64:
        good = (duration_us >= 0) & (duration_us < 1 << 51)
        if not good.all():
            text = "durations of events are negative or out of range: they are not known"
            self.ledger.note("bad-duration", text, int(np.count_nonzero(~good)))
        return np.where(good, duration_us * 1000, -1)

    def _take_lane(self, inner: Fields, count: int, columns: Columns, rows: I64) -> None:
        """Move events to the process and thread that they state for themselves."""
        pid, has_pid = inner.of(18, 0).last(count)
        tid, has_tid = inner.of(19, 0).last(count)
        for at in np.flatnonzero(has_pid | has_tid).tolist():
            row = int(rows[at])
            thread = self._thread(int(columns["track"][row]))
            own = int(pid[at]) if has_pid[at] else thread[0], int(tid[at]) if has_tid[at] else thread[1]
            columns["track"][row] = self.tracks.code(("thread", *own, ""))

    def _thread(self, track: int) -> tuple[int, int]:
        key = self.tracks.keys[track]
        if key[0] == "thread":
            return key[1], key[2]
        own = self.tracks.described.get(key[1])
        return (own.pid or 0, own.tid or 0) if own is not None else (0, 0)

    @staticmethod
    def _identity(inner: Fields, count: int) -> tuple[I64, I64]:
        """Return the id of each event and its kind: 1 unscoped, 2 local to the process, 3 global, 0 for none."""
        identity, kind = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for number, which in ((6, 1), (10, 2), (11, 3)):
            values, has = inner.of(number, 0).last(count)
            identity, kind = np.where(has, values, identity), np.where(has, which, kind)
        return identity, kind

    def _asynchronous(
        self,
        inner: Fields,
        columns: Columns,
        rows: I64,
        mine: Mask,
        identity: I64,
        kind: I64,
        block: Block,
    ) -> None:
        """Give asynchronous events the track of their id."""
        scopes: dict[int, bytes] = {}
        named = inner.of(7, 2)
        for row, at, end in zip(named.row.tolist(), named.at.tolist(), named.ends.tolist(), strict=True):
            scopes[row] = block.data[at:end].tobytes()
        known: dict[tuple[int, int, int, int, bytes], int] = {}
        for at in np.flatnonzero(mine).tolist():
            row = int(rows[at])
            own = int(columns["track"][row]), int(columns["category"][row]), int(kind[at]), int(identity[at])
            key = (*own, scopes.get(at, b""))
            track = known.get(key)
            if track is None:
                category = self.texts.all[own[1]] if own[1] >= 0 else ""
                process = self.tracks.process_of(own[0])
                scope = f"{own[2] if own[2] else own[0]} {category}:{key[4].decode('utf-8', 'replace')}"
                track = known[key] = self.tracks.asynchronous(process, local=own[2] != 3, identity=own[3], scope=scope)
            columns["track"][row] = track

    def _add_ids(self, members: Members, rows: I64, identity: I64) -> None:
        shown = [f'"0x{value & (1 << 64) - 1:x}"' for value in identity.tolist()]
        members.add_same(rows, "id", arrow.array(shown, pa.string()))

    def _bound(self, inner: Fields, count: int, columns: Columns, rows: I64) -> list[pa.Table]:
        """Return the ends of arrows that events have by `bind_id` and direction."""
        direction, has = inner.of(13, 0).last(count)
        bind, bound = inner.of(8, 0).last(count)
        mine = np.flatnonzero(has & bound & (direction > 0) & (direction < 4))
        if not len(mine):
            return []
        phases: F64 = np.array([0.0, *(_DIRECTIONS[each] for each in (1, 2, 3))])
        base = {name: columns[name][rows[mine]] for name in ("track", "ts", "clock", "packet", "name", "category")}
        extra = {
            "what": np.full(len(mine), FLOW),
            "number": bind[mine],
            "value": phases[direction[mine]],
            "primary": np.zeros(len(mine), np.bool_),
        }
        return [table(len(mine), {**base, **extra})]

    def phases(self, count: int) -> F64:
        """Return the phases of the arrows among the events that were read last."""
        return self._arrows_of_marks if len(self._arrows_of_marks) == count else np.zeros(count)


def _object(text: str | None) -> dict[str, object]:
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}

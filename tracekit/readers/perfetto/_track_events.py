"""Track events as rows: their type, name, categories, track, values and arguments."""

from __future__ import annotations

import json

import numpy as np
import orjson
import pyarrow as pa

from tracekit.model import arrow, sets
from tracekit.model.arrow import F64, I32, I64, Column, Mask
from tracekit.model.trace import Ledger
from tracekit.readers.engine.wire import Fields, Picked, WireMessage, scan
from tracekit.readers.packets import fields as numbers
from tracekit.readers.packets.fields import NAMES
from tracekit.readers.packets.framing import PacketBlock
from tracekit.readers.packets.rows import (
    BEGIN,
    COUNTER,
    END,
    FINISH,
    FLOW,
    LAST,
    MARK,
    PLAIN,
    START,
    STEP,
    WHOLE,
    table,
)
from tracekit.readers.packets.sequences import Stated
from tracekit.readers.packets.texts import NONE, PacketTexts, distinct, distinct_rows, slices
from tracekit.readers.packets.times import PacketTimes, Timed
from tracekit.readers.perfetto._args import ArgMembers, annotations_of, read_annotations
from tracekit.readers.perfetto._held import Holder
from tracekit.readers.perfetto._tracks import Tracks

# Legacy events: phases of Chrome's JSON within track events, as Chrome and old SDKs write them.
#
# Asynchronous work (b and e, S and F) is paired by its id, and by the category too, as Perfetto's engine does.


_WHAT = {"B": BEGIN, "E": END, "X": WHOLE, "b": BEGIN, "e": END, "S": BEGIN, "F": END, "s": FLOW, "t": FLOW, "f": FLOW}
_ASYNC = frozenset("beSFnTp")
_FLOW_PHASES = {"s": START, "t": STEP, "f": FINISH}
_DIRECTIONS = {1: FINISH, 2: START, 3: STEP}
FACT = -2
SERIES = -3
Columns = dict[str, I64 | I32]


class Legacy:
    """Reads the legacy part of track events."""

    def __init__(self, texts: PacketTexts, tracks: Tracks, ledger: Ledger) -> None:
        self.texts, self.tracks, self.ledger = texts, tracks, ledger

    def read(
        self, block: PacketBlock, stated: Stated, legacy: Picked, columns: Columns, what: I64, members: ArgMembers
    ) -> list[pa.Table]:
        """Set track, name, `what` and duration of events by their phase; return the arrows that they have beside."""
        inner = scan(block.view, legacy.at, legacy.ends)
        count = len(legacy)
        rows = legacy.row
        phase, _ = inner.last(2, 0, count)
        untyped = what[rows] == -1
        self._take_lane(inner, count, columns, rows)
        iids, named = inner.last(1, 0, count)
        plain = named & (columns["name"][rows] == NONE)
        if plain.any():
            packets = columns["packet"][rows[plain]] - block.number
            columns["name"][rows[plain]] = stated.texts(packets, NAMES, iids[plain])
        identity, kind = self._identity(inner, count)
        number = np.full(len(what), -1, np.int64)
        arrows = np.zeros(len(what), np.float64)
        for code in sets.unique(phase[untyped]).tolist():
            letter = chr(code) if 0 < code < 128 else ""
            in_phase = untyped & (phase == code)
            at = rows[in_phase]
            if letter == "M":
                what[at] = FACT
                continue
            if letter == "C":
                what[at] = SERIES
                continue
            what[at] = _WHAT.get(letter, MARK) if letter else -1
            if letter == "X":
                duration, _ = inner.last(3, 0, count)
                number[at] = self._whole(duration[in_phase])
            elif letter in _FLOW_PHASES:
                bind, bound = inner.last(8, 0, count)
                number[at] = np.where((kind == 0) & bound, bind, identity)[in_phase]
                arrows[at] = _FLOW_PHASES[letter]
            elif letter in _ASYNC:
                self._asynchronous(inner, columns, rows, in_phase, identity, kind, block)
            if letter in _ASYNC or letter in "NOD":
                self._add_ids(members, rows[in_phase & (kind > 0)], identity[in_phase & (kind > 0)])
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
            members = _object(args[row].as_py())
            name = self.texts.all[int(columns["name"][row])] if columns["name"][row] >= 0 else ""
            began = True
            for key, value in members.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    picked.append(row)
                    whole = f"{name} {key}".strip() if len(members) > 1 else name or key
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
        pid, has_pid = inner.last(18, 0, count)
        tid, has_tid = inner.last(19, 0, count)
        stated = np.flatnonzero(has_pid | has_tid)
        own = columns["track"][rows[stated]].astype(np.int64)
        has = has_pid[stated] * 2 + has_tid[stated]
        first, place = distinct_rows(own, has, pid[stated], tid[stated])
        lanes = []
        for at in first.tolist():
            thread = self._thread(int(own[at]))
            row = stated[at]
            stated_lane = int(pid[row]) if has_pid[row] else thread[0], int(tid[row]) if has_tid[row] else thread[1]
            lanes.append(self.tracks.code(("thread", *stated_lane, "")))
        columns["track"][rows[stated]] = np.array(lanes, np.int64)[place]

    def _thread(self, track: int) -> tuple[int, int]:
        key = self.tracks.keys[track]
        if key[0] == "thread":
            return key[1], key[2]
        described = self.tracks.described.get(key[1])
        return (described.pid or 0, described.tid or 0) if described is not None else (0, 0)

    @staticmethod
    def _identity(inner: Fields, count: int) -> tuple[I64, I64]:
        """Return the id of each event and its kind: 1 unscoped, 2 local to the process, 3 global, 0 for none."""
        identity, kind = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for number, which in ((6, 1), (10, 2), (11, 3)):
            values, has = inner.last(number, 0, count)
            identity, kind = np.where(has, values, identity), np.where(has, which, kind)
        return identity, kind

    def _asynchronous(
        self,
        inner: Fields,
        columns: Columns,
        rows: I64,
        chosen: Mask,
        identity: I64,
        kind: I64,
        block: PacketBlock,
    ) -> None:
        """Give asynchronous events the track of their id."""
        scopes, scope = [b""], np.zeros(len(rows), np.int64)
        named = inner.of(7, 2)
        if len(named):
            encoded = arrow.encoded(slices(block.data, named))
            scopes += arrow.binaries(encoded.dictionary)
            scope[named.row] = arrow.ints(encoded.indices) + 1
        at = np.flatnonzero(chosen)
        own = [columns[name][rows[at]].astype(np.int64) for name in ("track", "category")]
        first, place = distinct_rows(*own, kind[at], identity[at], scope[at])
        numbered = [values[first].tolist() for values in (*own, kind[at], identity[at], scope[at])]
        tracks = []
        for track, code, sort, number, number_of_scope in zip(*numbered, strict=True):
            category = self.texts.all[code] if code >= 0 else ""
            text = scopes[number_of_scope].decode("utf-8", "replace")
            tracks.append(
                self.tracks.asynchronous(
                    self.tracks.process_of(track),
                    local=sort != 3,
                    identity=number,
                    scope=f"{sort if sort else track} {category}:{text}",
                )
            )
        columns["track"][rows[at]] = np.array(tracks, np.int64)[place]

    def _add_ids(self, members: ArgMembers, rows: I64, identity: I64) -> None:
        ids, place = distinct(identity)
        shown = arrow.array([f'"0x{value & (1 << 64) - 1:x}"' for value in ids.tolist()], pa.string())
        members.add_same(rows, "id", arrow.take(shown, place))

    def _bound(self, inner: Fields, count: int, columns: Columns, rows: I64) -> list[pa.Table]:
        """Return the ends of arrows that events have by `bind_id` and direction."""
        direction, has = inner.last(13, 0, count)
        bind, bound = inner.last(8, 0, count)
        bound_rows = np.flatnonzero(has & bound & (direction > 0) & (direction < 4))
        if not len(bound_rows):
            return []
        phases: F64 = np.array([0.0, *(_DIRECTIONS[each] for each in (1, 2, 3))])
        base = {
            name: columns[name][rows[bound_rows]] for name in ("track", "ts", "clock", "packet", "name", "category")
        }
        extra = {
            "what": np.full(len(bound_rows), FLOW),
            "number": bind[bound_rows],
            "value": phases[direction[bound_rows]],
            "primary": np.zeros(len(bound_rows), np.bool_),
        }
        return [table(len(bound_rows), {**base, **extra})]

    def phases(self, count: int) -> F64:
        """Return the phases of the arrows among the events that were read last."""
        return self._arrows_of_marks if len(self._arrows_of_marks) == count else np.zeros(count)


def _object(text: str | None) -> dict[str, object]:
    members = json.loads(text) if text else {}
    return members if isinstance(members, dict) else {}


_TYPES = {1: BEGIN, 2: END, 3: MARK, 4: COUNTER, 5: MARK}
_READ = frozenset(
    {1, 3, 4, 5, 6, 9, 10, 11, 12, 16, 21, 22, 23, 30, 31, 33, 34, 36, 42, 44, 45, 46, 47, 48, 52, 53, 54}
)
_FLOWS = ((47, 1, PLAIN), (36, 0, PLAIN), (48, 1, LAST), (42, 0, LAST))
_LEGACY_TRACK = -2
_DELTA_US, _ABSOLUTE_US = 1, 16


class TrackEvents:
    """Reads the track events of a file, block after block."""

    def __init__(self, texts: PacketTexts, tracks: Tracks, times: PacketTimes, ledger: Ledger) -> None:
        self.texts, self.tracks, self.times, self.ledger = texts, tracks, times, ledger
        self.legacy = Legacy(texts, tracks, ledger)
        self.holder = Holder(texts)
        self.unread: dict[int, int] = {}
        """Fields of track events that are not read, by number."""

    def tables(
        self, block: PacketBlock, stated: Stated, timed: Timed, events: Picked, *, may_be_own: bool
    ) -> list[pa.Table]:
        """Return the rows of events. events: the packets that are track events. may_be_own: tracekit wrote the file."""
        unread = stated.unread(events.row)
        if lost := int(np.count_nonzero(unread)):
            text = "dropped: packets that need what was said in packets which are lost"
            self.ledger.drop("state-lost", lost, where=self._where(block, events.row[unread][0]), text=text)
            events = Picked(events.row[~unread], events.value[~unread], events.at[~unread])
        fields = scan(block.view, events.at, events.ends)
        packets, count = events.row, len(events)
        kind, _ = fields.last(9, 0, count)
        what = np.full(count, -1, np.int64)
        for number, meaning in _TYPES.items():
            what[kind == number] = meaning
        deltas, absolute = (fields.last(number, 0, count) for number in (_DELTA_US, _ABSOLUTE_US))
        own_times = self.times.of_events(stated, packets, timed, deltas, absolute)
        columns: Columns = {
            "track": self._track(fields, stated, packets),
            "ts": own_times.ns,
            "clock": own_times.clock,
            "packet": block.number + packets,
            "name": self._name(block, fields, stated, packets),
            "category": self._category(block, fields, stated, packets),
        }
        members = ArgMembers(self.texts)
        annotated, legacy = fields.of(4, 2), fields.of(6, 2)
        annotations = annotations_of(block, stated, self.texts, annotated, packets[annotated.row])
        held: dict[str, I64 | Column] = {}
        if may_be_own:
            plain = what != END
            plain[legacy.row] = False
            annotations, held = self.holder.take(block, stated, annotations, packets, plain)
        read_annotations(block, stated, self.texts, annotations, packets, members)
        self._others(block, fields, stated, packets, members)
        value, has_value = _values(fields, count)
        # An event may bring further rows: counters, flows, and what its legacy phase means.
        beside = [
            *self._counters(fields, stated, columns, packets),
            *self._flows(fields, columns),
        ]
        if len(legacy):
            beside += self.legacy.read(block, stated, legacy, columns, what, members)
        args = members.column(count)
        if len(legacy):
            beside += self.legacy.from_args(columns, what, args)
        counters = what == COUNTER
        written = (what >= 0) & ~(counters & ~has_value)
        dropped = (what == -1) | (counters & ~has_value)
        if bad := int(np.count_nonzero(dropped)):
            text = "dropped: track events without a type, or counters without a value"
            self.ledger.drop("bad-event", bad, where=self._where(block, packets[dropped][0]), text=text)
        scaled = self._scaled(columns["track"], value, counters & written)
        if len(legacy):
            scaled = np.where(what == FLOW, self.legacy.phases(count), scaled)
        rows = table(
            count,
            {
                **columns,
                **held,
                "what": what,
                "value": scaled,
                "number": columns.get("number", np.full(count, -1)),
                "args": args,
            },
        )
        rows = rows if written.all() else rows.filter(arrow.array(written))
        return [rows, *beside]

    @staticmethod
    def _where(block: PacketBlock, packet: int) -> str:
        return f"packet {block.number + int(packet)}"

    def _track(self, fields: Fields, stated: Stated, packets: I64) -> I64:
        """Return the number of each event's track."""
        count = len(packets)
        uuid, given = fields.last(11, 0, count)
        states, place = distinct(stated.state[packets])
        default = np.full(len(states), _LEGACY_TRACK, np.int64)
        for at, number in enumerate(states.tolist()):
            state = stated.states[number]
            if state.track is not None:
                default[at] = self.tracks.of_uuid(state.track)
            elif state.thread is not None:
                default[at] = self.tracks.code(("thread", *state.thread, ""))
            else:
                default[at] = self.tracks.of_uuid(0)
        out = default[place]
        if given.any():
            known, which = distinct(uuid[given])
            codes = np.array([self.tracks.of_uuid(each) for each in known.tolist()], np.int64)
            out[given] = codes[which]
        return out

    def _name(self, block: PacketBlock, fields: Fields, stated: Stated, packets: I64) -> I32:
        out = np.full(len(packets), NONE, np.int32)
        iids = fields.of(10, 0)
        if len(iids):
            out[iids.row] = stated.texts(packets[iids.row], numbers.NAMES, iids.value.view(np.int64))
        named = fields.of(23, 2)
        if len(named):
            out[named.row] = self.texts.codes(block.data, named)
        return out

    def _category(self, block: PacketBlock, fields: Fields, stated: Stated, packets: I64) -> I32:
        """Return the category of each event; several are joined by commas."""
        out = np.full(len(packets), NONE, np.int32)
        iids, named = fields.of(3, 0), fields.of(22, 2)
        rows, codes = [iids.row, named.row], []
        codes.append(stated.texts(packets[iids.row], numbers.CATEGORIES, iids.value.view(np.int64)))
        codes.append(self.texts.codes(block.data, named))
        row, code = np.concatenate(rows), np.concatenate(codes)
        out[row] = code
        often = np.bincount(row, minlength=len(packets)) > 1
        if often.any():
            several = np.flatnonzero(often[row])
            several = several[np.argsort(row[several], kind="stable")]
            row, code = row[several], code[several]
            first = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
            out[row[first]] = self._joined(code, first)
        return out

    def _joined(self, code: I32, first: I64) -> I32:
        """Return the texts of each row, joined by commas. first: of the texts of a row."""
        sizes = np.diff(np.append(first, len(code)))
        # Numbers for the first text, the first two, and so on: rows that have the same texts are joined once.
        group = np.zeros(len(first), np.int64)
        for at in range(int(sizes.max())):
            more = np.where(sizes > at, code[np.minimum(first + at, len(code) - 1)] + 2, 0)
            group = distinct(group * (len(self.texts.all) + 2) + more)[1]
        _, example = np.unique(group, return_index=True)
        joined = [
            self.texts.code(",".join(self.texts.all[each] for each in code[a : a + n].tolist() if each != NONE))
            for a, n in zip(first[example].tolist(), sizes[example].tolist(), strict=True)
        ]
        return np.array(joined, np.int32)[group]

    def _counters(self, fields: Fields, stated: Stated, columns: Columns, packets: I64) -> list[pa.Table]:
        """Return the values of further counters that events have beside them."""
        out = []
        for values, uuids, default, wire in ((12, 31, "counters", 0), (46, 45, "doubles", 1)):
            values_of_events = fields.of(values, wire)
            if not len(values_of_events):
                continue
            of_block = fields.of(uuids, 0)
            named: dict[int, list[int]] = {}
            for row, uuid in zip(of_block.row.tolist(), of_block.value.view(np.int64).tolist(), strict=True):
                named.setdefault(row, []).append(uuid)
            tracks, rows, seen = [], [], dict[int, int]()
            order = np.argsort(values_of_events.row, kind="stable")
            kept = []
            for at in order.tolist():
                row = int(values_of_events.row[at])
                place = seen[row] = seen.get(row, -1) + 1
                state = stated.states[stated.state[packets[row]]]
                given = named.get(row) or getattr(state, default)
                if place < len(given):
                    tracks.append(self.tracks.of_uuid(given[place]))
                    rows.append(row)
                    kept.append(at)
            if len(kept) < len(values_of_events):
                text = "values of further counters have no track: they are left out"
                self.ledger.note("counter-without-track", text, len(values_of_events) - len(kept))
            raw = values_of_events.value[kept]
            value = raw.view(np.float64) if wire else raw.view(np.int64).astype(np.float64)
            track = np.array(tracks, np.int64)
            event_rows = np.array(rows, np.int64)
            what = np.full(len(event_rows), COUNTER)
            scaled = self._scaled(track, value, np.ones(len(event_rows), np.bool_))
            base = {name: columns[name][event_rows] for name in ("ts", "clock", "packet")}
            extra = {"track": track, "what": what, "value": scaled, "primary": np.zeros(len(event_rows), np.bool_)}
            out.append(table(len(event_rows), {**base, **extra}))
        return out

    def _scaled(self, track: I64 | I32, value: np.ndarray, where: Mask) -> np.ndarray:
        """Return the values of counters in their unit; steps are summed."""
        if not where.any():
            return value
        out = value.copy()
        for each in sets.unique(track[where]).tolist():
            counter = self.tracks.counter(each)
            if counter.scale == 1 and not counter.steps:
                continue
            rows = np.flatnonzero(where & (track == each))
            steps = value[rows] * counter.scale
            if counter.steps:
                steps = counter.total + np.cumsum(steps)
                counter.total = float(steps[-1])
            out[rows] = steps
        return out

    def _flows(self, fields: Fields, columns: Columns) -> list[pa.Table]:
        out = []
        for number, wire, meaning in _FLOWS:
            flows = fields.of(number, wire)
            if len(flows):
                base = {
                    name: columns[name][flows.row] for name in ("track", "ts", "clock", "packet", "name", "category")
                }
                count = len(flows)
                extra = {
                    "what": np.full(count, FLOW),
                    "number": flows.value.view(np.int64),
                    "value": np.full(count, meaning),
                    "primary": np.zeros(count, np.bool_),
                }
                out.append(table(count, {**base, **extra}))
        return out

    def _others(self, block: PacketBlock, fields: Fields, stated: Stated, packets: I64, members: ArgMembers) -> None:
        """Add correlation ids, source locations and log messages, and count what is not read."""
        fields_seen = fields.counts()
        for number, times in fields_seen.items():
            if number not in _READ:
                self.unread[number] = self.unread.get(number, 0) + times
        if 52 in fields_seen:
            ids = fields.of(52, 0)
            members.add_same(ids.row, "correlation_id", arrow.array(ids.value).cast(pa.string()))
        if 53 in fields_seen:
            named = fields.of(53, 2)
            members.add_same(named.row, "correlation_id", self.texts.json(self.texts.codes(block.data, named)))
        if 54 in fields_seen:
            iids = fields.of(54, 0)
            codes = stated.texts(packets[iids.row], numbers.CORRELATIONS, iids.value.view(np.int64))
            codes = np.where(codes == NONE, self.texts.code(""), codes)
            members.add_same(iids.row, "correlation_id", self.texts.json(codes))
        if 34 in fields_seen:
            self._locations(stated, fields.of(34, 0), packets, "source_location", members)
        if 33 in fields_seen:
            inline = fields.of(33, 2)
            encoded = arrow.encoded(slices(block.data, inline))
            shown = arrow.array([_location(each) for each in arrow.binaries(encoded.dictionary)], pa.string())
            members.add_same(inline.row, "source_location", arrow.take(shown, encoded.indices.to_numpy()))
        if 5 in fields_seen:
            tasks = fields.of(5, 2)
            inner = scan(block.view, tasks.at, tasks.ends).of(1, 0)
            posted = Picked(tasks.row[inner.row], inner.value, inner.at)
            self._locations(stated, posted, packets, "posted_from", members)
        if 21 in fields_seen:
            logged = fields.of(21, 2)
            inner = scan(block.view, logged.at, logged.ends).of(2, 0)
            rows = logged.row[inner.row]
            codes = stated.texts(packets[rows], numbers.LOG_BODIES, inner.value.view(np.int64))
            good = codes != NONE
            members.add_same(rows[good], "log_message", self.texts.json(codes[good]))

    def _locations(self, stated: Stated, locations: Picked, packets: I64, key: str, members: ArgMembers) -> None:
        states, state = distinct(stated.state[packets[locations.row]])
        iids, iid = distinct(locations.value)
        pairs, place = distinct(state * len(iids) + iid)
        numbered = [(int(states[pair // len(iids)]), int(iids[pair % len(iids)])) for pair in pairs.tolist()]
        raw = [stated.states[state].interned.raw.get((numbers.SOURCE_LOCATIONS, iid)) for state, iid in numbered]
        shown = arrow.array([None if data is None else _location(data) for data in raw], pa.string())
        known = arrow.valid(shown)[place]
        members.add_same(locations.row[known], key, arrow.take(shown, place[known]))


def _location(data: bytes) -> str:
    location = WireMessage(data)
    parts = {"file": location.text(2), "function": location.text(3), "line": location.number(4)}
    return orjson.dumps({key: value for key, value in parts.items() if value}).decode()


def _values(fields: Fields, count: int) -> tuple[np.ndarray, Mask]:
    """Return the value of each event that is a counter, and whether it has one."""
    value, has = np.zeros(count, np.float64), np.zeros(count, np.bool_)
    whole, real = fields.of(30, 0), fields.of(44, 1)
    value[whole.row] = whole.value.view(np.int64)
    value[real.row] = real.value.view(np.float64)
    has[whole.row] = True
    has[real.row] = True
    return value, has

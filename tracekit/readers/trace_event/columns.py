"""From slabs of events and the plans of their shapes to columns of EVENTS."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema
from tracekit.model.args import unescaped
from tracekit.model.arrow import I64, Column, Mask, Value, pc
from tracekit.model.trace import Ledger
from tracekit.model.units import MAX_NS
from tracekit.readers.names import Pair
from tracekit.readers.trace_event.plan import (
    DROPPED,
    FACT,
    IGNORED,
    KEPT,
    MOST_SEGMENTS,
    NO_EVENT,
    Build,
    EventPlan,
    EventRows,
)
from tracekit.readers.trace_event.scan import NAME, CutNames, Scan, slices
from tracekit.readers.trace_event.stream import Slab

__all__ = ["MOST_PATTERNS", "SCRATCH", "Patterns", "Planner"]

# Events of shapes that differ in the name alone: one of them is parsed, the others take its places.
#
# A generated name in each event (a loop that writes "op 1", "op 2" ...) makes as many shapes as events, and parsing is
# most of the cost of a shape.


MOST_PATTERNS = 1024
"""Patterns kept at once; when there are more, they are made anew."""
LONGEST = 1 << 12
"""Bytes of an event that becomes a pattern: all of them take some MB."""
_NAME = re.compile(rb'"name":("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)


@dataclass(slots=True)
class Pattern:
    """A parsed event: with another name it is an event of another shape."""

    event: EventPlan
    plan: int = -1
    """The plan of events that differ from each other in the name alone, -1 for none."""
    named: Callable[[str], Pair | None] | None = None
    """The `named` of that plan's Build."""
    name_bytes: int = 0
    """The length of the name in that plan's shape, as JSON."""


class Patterns:
    """Parsed events by their shape without the name."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Pattern] = {}

    def clear(self) -> None:
        """Forget all patterns: the numbers of their plans hold no more."""
        self._known.clear()

    def of(self, scan: Scan, code: int) -> tuple[Pattern, bytes | None]:
        """Return the pattern of a shape and its name as JSON, None where the pattern is of this shape alone.

        Numbers in the event may be those of another one, as those of all events of a shape. Two shapes with equal text
        before and behind a string have the same structure, once the parsed one shows that this string is the name of
        the event, and not one in args, nor the first of two.
        """
        shape = scan.shapes[code]
        name_match = _NAME.search(shape)
        if name_match is None or len(shape) > LONGEST:
            return Pattern(EventPlan(scan.object(int(scan.sample[code])))), None
        start, end = name_match.span(1)
        return self._known_or_parsed(scan, int(scan.sample[code]), shape[:start], name_match[1], shape[end:])

    def without_name(self, scan: Scan, row: int, raw: bytes) -> tuple[Pattern, bytes | None]:
        """Return the same for an object of a scan whose shape lacks its name; raw: the name as JSON."""
        shape = scan.shapes[int(scan.codes[row])]
        if len(shape) > LONGEST:
            return Pattern(EventPlan(scan.object(row))), None
        start = shape.index(NAME) + len(NAME) - 1
        return self._known_or_parsed(scan, row, shape[:start], raw, shape[start + len('""') :])

    def _known_or_parsed(
        self, scan: Scan, row: int, before: bytes, raw: bytes, behind: bytes
    ) -> tuple[Pattern, bytes | None]:
        key = before, behind
        pattern = self._known.get(key)
        if pattern is None:
            event = EventPlan(scan.object(row))
            pattern = Pattern(event)
            name = event.members.get("name")
            if name is None or event.place(name.start)[0] != len(before) or name.raw != raw:
                return pattern, None
            if len(self._known) >= MOST_PATTERNS:
                self._known.clear()
            self._known[key] = pattern
        return pattern, raw


G = TypeVar("G", bound=np.generic)
KNOWN_PLANS = 1 << 17
"""Plans kept at once; when there are more, they are made anew."""

TIMES = ("ts_ns", "dur_ns")
_TAKEN_OTHERWISE = frozenset((*TIMES, "event_id", "source"))
INTEGERS = tuple(
    column.name
    for column in schema.describe("events")
    if column.type in (pa.int64(), pa.int32()) and column.name not in _TAKEN_OTHERWISE
)
SCRATCH = ("scratch_0", "scratch_1", "scratch_2")
"""Integers that a dialect needs by row and that are no columns; it removes them again."""
NUMBERS = (*INTEGERS, *SCRATCH, "value")
TEXTS = ("name", "raw_name", "kind", "copy_kind", "args")
NULL, CONST, RUN = 0, 1, 2
_NUMBER_PLACES = {column: place for place, column in enumerate(NUMBERS)}
_TEXT_PLACES = {column: place for place, column in enumerate(TEXTS)}
_TENS = 10 ** np.arange(19, dtype=np.int64)
_INT32 = frozenset(c.name for c in schema.describe("events") if c.type == pa.int32())

Look = Callable[[Build], None]
"""A dialect's function: puts into the Build what the event is."""


class Planner:
    """Plans by shape, and columns by plans. per_unit: ns of one unit of the file's times, 1000 or 1.

    args_of: the kinds of rows whose `args` are wanted, None for all; no column costs more.
    """

    def __init__(
        self, look: Look, ledger: Ledger, per_unit: int = 1000, *, args_of: frozenset[str] | None = None
    ) -> None:
        self._look, self._ledger, self._args_of = look, ledger, args_of
        self._digits = {1000: 3, 1: 0}[per_unit]
        self._per_unit = per_unit
        self._by_shape: dict[bytes, tuple[int, int, int, int]] = {}
        self._by_name: dict[bytes, dict[bytes, tuple[int, int, int, int]]] = {}
        self._named = 0
        self._builds: list[Build] = []
        self._text_codes: dict[str, int] = {}
        self._texts_known: list[str] = []
        size, numbers = 1 << 10, len(NUMBERS)
        self._state = np.zeros((size, numbers), np.int8)
        self._negative = np.zeros((size, numbers), np.bool_)
        self._value = np.zeros((size, numbers), np.int64)
        self._float = np.zeros(size, np.float64)
        self._time_state = np.zeros((size, 2), np.int8)
        self._time = np.zeros((size, 2, 3), np.int64)
        self._segments = np.zeros((size, MOST_SEGMENTS, 4), np.int32)
        self._pieces = np.zeros(size, np.int32)
        self._whole = np.zeros(size, np.bool_)
        self._fate = np.zeros(size, np.int8)
        self._flags = np.zeros(size, np.int64)
        self._text = np.zeros((size, len(TEXTS)), np.int64)
        self._noted = np.zeros(size, np.bool_)
        self._behind_name = np.zeros(size, np.int64)
        self._patterns = Patterns()
        self._settled = 0
        self._new_plans: list[tuple[int, ...]] = []
        self._new_floats: list[tuple[int, float]] = []
        self._new_numbers: list[tuple[int, ...]] = []
        self._new_times: list[tuple[int, ...]] = []
        self._new_segments: list[tuple[int, ...]] = []
        self._new_texts: list[tuple[int, ...]] = []

    def _grow(self, size: int) -> None:
        """Make room for `size` plans."""
        self._state, self._negative = _grown(self._state, size), _grown(self._negative, size)
        self._value, self._float = _grown(self._value, size), _grown(self._float, size)
        self._time_state, self._time = _grown(self._time_state, size), _grown(self._time, size)
        self._segments, self._pieces = _grown(self._segments, size), _grown(self._pieces, size)
        self._whole, self._fate = _grown(self._whole, size), _grown(self._fate, size)
        self._flags, self._text = _grown(self._flags, size), _grown(self._text, size)
        self._noted, self._behind_name = _grown(self._noted, size), _grown(self._behind_name, size)

    def rows(self, slab: Slab) -> tuple[EventRows, EventRows]:
        """Return the rows of a slab and those that are facts; the ledger has counted all but the facts and the rows."""
        if len(self._by_shape) + self._named > KNOWN_PLANS:
            self._by_shape.clear()
            self._by_name.clear()
            self._named = 0
            self._patterns.clear()
            self._builds, self._settled = [], 0
            self._text_codes.clear()
            self._texts_known.clear()
        scan = slab.scan
        if scan.names is None:
            codes, plans = scan.codes, [self._plan(scan, code) for code in range(len(scan.shapes))]
        else:
            codes, plans = self._plans_by_name(scan, scan.names)
        by_code = np.array(plans, np.int64).reshape(-1, 4).T
        plan = by_code[0][codes]
        names = OwnNames(*(part[codes] for part in by_code[1:])) if (by_code[1] >= 0).any() else None
        before, texts = len(self._builds), len(self._texts_known)
        odd = [n for n in set(by_code[0].tolist()) if self._builds[n].odd]
        if odd:
            for row in np.flatnonzero(np.isin(plan, odd)).tolist():
                plan[row] = self._add(self._made(EventPlan(scan.object(row)), exact=True))
                if names is not None:
                    names.clear(row)
        self._settle()
        rows = self._account(slab, plan, names)
        if len(self._builds) > before:
            # Plans of single events are of no use again; their builds stay with the rows.
            self._builds, self._settled = self._builds[:before], before
            for text in self._texts_known[texts:]:
                del self._text_codes[text]
            del self._texts_known[texts:]
        return rows

    def _plan(self, scan: Scan, code: int) -> tuple[int, int, int, int]:
        """Return the plan of a shape and, where the plan is shared, its own name, raw name and bytes it is longer by.

        The names are codes, -1 for none; the bytes count from the shape of the plan.
        """
        shape = scan.shapes[code]
        known = self._by_shape.get(shape)
        if known is not None:
            return known
        known = self._by_shape[shape] = self._planned(*self._patterns.of(scan, code))
        return known

    def _plans_by_name(self, scan: Scan, names: CutNames) -> tuple[I64, list[tuple[int, int, int, int]]]:
        """Return for each object the place of its plan, and the plans, as `_plan` does, in order of appearance."""
        width = len(names.texts) + 1
        pairs = arrow.encoded(arrow.array(scan.codes * width + names.codes + 1))
        distinct = arrow.ints(pairs.dictionary)
        codes = arrow.ints(pairs.indices)
        sample = np.zeros(len(distinct), np.int64)
        sample[codes[::-1]] = np.arange(len(codes))[::-1]
        plans: list[tuple[int, int, int, int]] = []
        of_shape = [self._by_name.setdefault(shape, {}) for shape in scan.shapes]
        patterns: dict[int, Pattern] = {}
        shapes, texts = divmod(distinct, width)
        for code, text, row in zip(shapes.tolist(), (texts - 1).tolist(), sample.tolist(), strict=True):
            if text < 0:
                plans.append(self._plan(scan, code))
                continue
            raw, known_names = names.texts[text], of_shape[code]
            known = known_names.get(raw)
            if known is None:
                pattern, own = patterns.get(code), raw
                if pattern is None:
                    pattern, own = self._patterns.without_name(scan, row, raw)
                    if own is not None:
                        patterns[code] = pattern
                known = known_names[raw] = self._planned(pattern, own)
                self._named += 1
            plans.append(known)
        return codes, plans

    def _planned(self, pattern: Pattern, raw: bytes | None) -> tuple[int, int, int, int]:
        """Return the plan of an event; raw: its name as JSON, None where the pattern is that of this event alone."""
        if raw is None:
            known = self._add(self._made(pattern.event, exact=False)), -1, -1, 0
        elif pattern.named is not None and (pair := pattern.named(msgspec.json.decode(raw, type=str))) is not None:
            name, raw_name = self._text_code(pair[0]), -1 if pair[1] is None else self._text_code(pair[1])
            known = pattern.plan, name, raw_name, len(raw) - pattern.name_bytes
        else:
            event = pattern.event.renamed(raw)
            build = self._made(event, exact=False)
            behind = event.place(event.members["name"].end)[0]
            known = self._add(build, behind), -1, -1, 0
            if build.fate == KEPT and not build.odd and build.named is not None:
                pattern.plan, pattern.named, pattern.name_bytes = known[0], build.named, len(raw)
        return known

    def _made(self, event: EventPlan, *, exact: bool) -> Build:
        build = Build(event, exact, unit="us" if self._per_unit == 1000 else "ns")
        self._look(build)
        if build.fate == KEPT and not exact and (build.more_args or len(build.segments()) > MOST_SEGMENTS):
            build.odd = True
        if exact:
            build.odd = False
        return build

    def _add(self, build: Build, behind_name: int = 0) -> int:
        """Number a plan. `_settle` puts it into the tables: a write to an array costs more than the rest of a plan.

        behind_name: the place behind the name in the shape, 0 where no other name takes its place.
        """
        number = len(self._builds)
        self._builds.append(build)
        consts, event = build.consts, build.event
        pieces, whole = 0, False
        if self._args_of is not None and consts.get("kind") not in self._args_of:
            consts.pop("args", None)
        elif build.exact:
            consts.setdefault("args", build.args_text())
        elif build.whole_args:
            args_member, whole = event.members["args"], True
            self._new_segments.append((number, 0, *event.place(args_member.start), *event.place(args_member.end)))
        elif not build.odd:
            for start, end in build.segments():
                self._new_segments.append((number, pieces, *event.place(start), *event.place(end)))
                pieces += 1
        for column, (minus, run) in build.runs.items():
            if (place := _NUMBER_PLACES.get(column)) is not None:
                self._new_numbers.append((number, place, RUN, minus, run))
        for place, column in enumerate(TIMES):
            if column in build.times:
                self._new_times.append((number, place, RUN, *build.times[column]))
        for column, value in consts.items():
            if isinstance(value, str):
                if (place := _TEXT_PLACES.get(column)) is not None:
                    self._new_texts.append((number, place, self._text_code(value)))
            elif value is None:
                continue
            elif column == "value":
                self._new_floats.append((number, value))
                self._new_numbers.append((number, _NUMBER_PLACES[column], CONST, 0, 0))
            elif column in TIMES:
                self._new_times.append((number, TIMES.index(column), CONST, int(value), 0, 0))
            elif (place := _NUMBER_PLACES.get(column)) is not None:
                self._new_numbers.append((number, place, CONST, 0, int(value)))
        self._new_plans.append((number, build.fate, bool(build.notes), build.flags, pieces, whole, behind_name))
        if not build.exact:
            build.event = NO_EVENT  # there are thousands of plans, and the tables have all that is needed
            build.kept = []
        return number

    def _settle(self) -> None:
        """Put the plans that `_add` numbered into the tables."""
        if not self._new_plans:
            return
        size = len(self._builds)
        if size > len(self._fate):
            self._grow(2 * size)
        fresh = slice(self._settled, size)
        self._state[fresh], self._time_state[fresh] = NULL, NULL
        self._negative[fresh], self._float[fresh], self._text[fresh] = False, 0.0, -1
        number, fate, noted, flags, pieces, whole, behind = _table(self._new_plans, 7)
        self._fate[number], self._noted[number], self._flags[number] = fate, noted, flags
        self._pieces[number], self._whole[number], self._behind_name[number] = pieces, whole, behind
        # A constant comes behind a run of the same column, and replaces it.
        number, place, state, minus, value = _table(self._new_numbers, 5)
        self._state[number, place], self._negative[number, place], self._value[number, place] = state, minus, value
        for at, real in self._new_floats:
            self._float[at] = real
        number, place, state, minus, run, part = _table(self._new_times, 6)
        self._time_state[number, place] = state
        self._time[number, place] = np.column_stack((minus, run, part))
        number, place, *ends = _table(self._new_segments, 6)
        self._segments[number, place] = np.column_stack(ends)
        number, place, code = _table(self._new_texts, 3)
        self._text[number, place] = code
        self._settled = size
        for new in (self._new_plans, self._new_numbers, self._new_times, self._new_segments, self._new_texts):
            new.clear()
        self._new_floats.clear()

    def _account(self, slab: Slab, plan: I64, names: OwnNames | None) -> tuple[EventRows, EventRows]:
        ledger, fate = self._ledger, self._fate[plan]
        builds = self._builds
        there = np.arange(len(plan))
        for kind in (IGNORED, DROPPED):
            for number, rows in _by_plan(plan, np.flatnonzero(fate == kind)):
                build = builds[number]
                if kind == IGNORED:
                    ledger.ignore(build.reason, len(rows))
                else:
                    ledger.drop(build.reason, len(rows), where=f"event {slab.numbers[rows[0]]}", text=build.why)
        if (noted := self._noted[plan]).any():
            for number, rows in _by_plan(plan, np.flatnonzero(noted)):
                for code, text in builds[number].notes.items():
                    ledger.note(code, text, len(rows), where=f"event {slab.numbers[rows[0]]}")
        kept = self._columns(slab, plan, there[fate == KEPT], names)
        ts = kept.columns["ts_ns"]
        if ts.null_count:
            missing: Mask = ~arrow.valid(ts)
            first = int(arrow.ints(kept.columns["event_id"])[missing][0])
            ledger.drop("no-time", int(missing.sum()), where=f"event {first}", text="dropped: events without a time")
            kept = kept.take(~missing)
        return kept, self._columns(slab, plan, there[fate == FACT], None)

    def _columns(self, slab: Slab, plan: I64, at: I64, names: OwnNames | None) -> EventRows:
        scan, plans = slab.scan, plan[at]
        first = scan.first[at]
        if not len(at):
            return EventRows(0, {"ts_ns": arrow.array([], pa.int64())}, plans, self._builds, self._flags[plans])
        names = names.take(at) if names is not None else None
        used, place = _distinct(plans, len(self._builds))
        columns = {"event_id": arrow.array(slab.numbers[at])}
        for index, column in enumerate(TIMES):
            columns[column] = self._times(scan, plans, first, index, at, slab)
        states: Mask = np.any(self._state[used] != NULL, axis=0)
        for index, column in enumerate(NUMBERS):
            if states[index]:
                columns[column] = self._integers(scan, plans, first, index)
        for index, column in enumerate(TEXTS[:4]):
            own = names.codes(column) if names is not None else None
            if (texts := self._texts(index, used, place, own)) is not None:
                columns[column] = texts
        if (args := self._args(scan, plans, first, scan.start[at], names)) is not None:
            columns["args"] = unescaped(args) if any(b"\\u" in shape for shape in scan.shapes) else args
        return EventRows(len(at), columns, plans, self._builds, self._flags[plans], (used, place))

    def _integers(self, scan: Scan, plan: I64, first: I64, index: int) -> Column:
        state = self._state[plan, index]
        values = self._value[plan, index]
        by_run = state == RUN
        at = np.flatnonzero(by_run)
        if len(at) == len(plan):
            values = scan.ints[first + values]
        elif len(at):
            values[at] = scan.ints[first[at] + values[at]]
        negative = self._negative[plan, index] & by_run
        if negative.any():
            values[negative] *= -1
        null: Mask = state == NULL
        if NUMBERS[index] == "value":
            return arrow.array(np.where(by_run, values.astype(np.float64), self._float[plan]), mask=null)
        if NUMBERS[index] in _INT32:
            far: Mask = ~null & ((values > 0x7FFFFFFF) | (values < -0x80000000))
            if far.any():
                self._ledger.note("value-too-large", f"{NUMBERS[index]}: beyond 32 bits, left out", int(far.sum()))
                null |= far
                values[far] = 0
            return arrow.array(values.astype(np.int32), mask=null if null.any() else None)
        return arrow.array(values, mask=null if null.any() else None)

    def _times(self, scan: Scan, plan: I64, first: I64, index: int, at: I64, slab: Slab) -> Column:
        state = self._time_state[plan, index]
        negative, whole, fraction = self._time[plan, index].T
        values: I64 = np.where(state == CONST, negative, 0)
        null: Mask = state == NULL
        run = np.flatnonzero(state == RUN)
        if len(run):
            us = scan.ints[first[run] + whole[run]]
            far = us > MAX_NS // self._per_unit
            ns = np.where(far, 0, us) * self._per_unit
            part = fraction[run]
            some = np.flatnonzero(part >= 0)
            if len(some):
                ns[some] += _decimals(scan, first[run[some]] + part[some], self._digits)
            far |= ns >= MAX_NS
            if far.any():
                text = "times beyond 146 years"
                self._ledger.note(
                    "bad-time",
                    f"{text} were taken as none",
                    int(far.sum()),
                    where=f"event {slab.numbers[at[run[far][0]]]}",
                )
                null[run[far]] = True
                ns[far] = 0
            values[run] = np.where(negative[run] != 0, -ns, ns)
        return arrow.array(values, mask=null if null.any() else None)

    def _text_code(self, text: str) -> int:
        code = self._text_codes.setdefault(text, len(self._texts_known))
        if code == len(self._texts_known):
            self._texts_known.append(text)
        return code

    def _texts(self, index: int, used: I64, place: I64, own: tuple[Mask, I64] | None) -> Column | None:
        """Return a text column. own: the rows that have a name of their own, and these names."""
        by_plan = self._text[used, index]
        if own is not None:
            by_plan = np.where(own[0], own[1], by_plan[place])
            place = np.arange(len(place))
        known, codes = np.unique(by_plan, return_inverse=True)
        missing = len(known) > 0 and known[0] < 0
        if len(known) == missing:
            return None
        texts = arrow.array([self._texts_known[code] for code in known[int(missing) :].tolist()], pa.string())
        by_row = (codes - missing).astype(np.int32)[place]
        return pa.DictionaryArray.from_arrays(arrow.array(by_row, mask=by_row < 0 if missing else None), texts)

    def _args(self, scan: Scan, plan: I64, first: I64, start: I64, names: OwnNames | None) -> Column | None:
        parts: list[tuple[I64, Column]] = []
        whole, pieces = self._whole[plan], self._pieces[plan]
        rows = np.flatnonzero(whole)
        if len(rows):
            parts.append((rows, self._piece(scan, plan, first, start, rows, 0, names)))
        for count in range(1, MOST_SEGMENTS + 1):
            rows = np.flatnonzero(pieces == count)
            if len(rows):
                texts: list[Column | Value] = [b"{"]
                for index in range(count):
                    texts += [b","] * (index > 0) + [self._piece(scan, plan, first, start, rows, index, names)]
                parts.append((rows, pc.binary_join_element_wise(*texts, b"}", b"")))
        texts_own = self._text[plan, -1]
        rows = np.flatnonzero(texts_own >= 0)
        if len(rows):
            parts.append(
                (rows, arrow.array([self._texts_known[c].encode() for c in texts_own[rows].tolist()], pa.binary()))
            )
        if not parts:
            return None
        joined = parts[0][1] if len(parts) == 1 else pa.concat_arrays([p for _, p in parts])
        where = np.full(len(plan), -1, np.int64)
        where[np.concatenate([r for r, _ in parts])] = np.arange(len(joined))
        if len(parts) == 1 and len(joined) == len(plan):
            return joined.view(pa.string())
        return pc.take(joined, arrow.array(where, mask=where < 0)).view(pa.string())

    def _piece(
        self, scan: Scan, plan: I64, first: I64, start: I64, rows: I64, index: int, names: OwnNames | None
    ) -> Column:
        places = self._segments[plan[rows], index].astype(np.int64)
        runs = first[rows]
        base = start[rows] - scan.cut[runs]
        begin = base + places[:, 0] + scan.cut[runs + places[:, 1]]
        end = base + places[:, 2] + scan.cut[runs + places[:, 3]]
        if names is not None:
            # The places are those of the plan's shape, where a name of another length is.
            longer, behind = names.longer[rows], self._behind_name[plan[rows]]
            begin += np.where(places[:, 0] >= behind, longer, 0)
            end += np.where(places[:, 2] >= behind, longer, 0)
        return slices(scan.text, begin, end)


@dataclass(slots=True)
class OwnNames:
    """Names of rows whose plan is shared by events of other names.

    name, raw_name: shape (n,), codes of texts; name is -1 where the plan has the name, raw_name where there is none.
    longer: bytes by which the name is longer than that in the plan's shape.
    """

    name: I64
    raw_name: I64
    longer: I64

    def take(self, at: I64) -> OwnNames:
        """Return the names of some rows."""
        return OwnNames(self.name[at], self.raw_name[at], self.longer[at])

    def clear(self, row: int) -> None:
        """Let the plan have the name of a row."""
        self.name[row], self.raw_name[row], self.longer[row] = -1, -1, 0

    def codes(self, column: str) -> tuple[Mask, I64] | None:
        """Return which rows have a name of their own, and the codes of these in a column; None for other columns."""
        if column not in ("name", "raw_name"):
            return None
        return self.name >= 0, self.name if column == "name" else self.raw_name


def _table(rows: list[tuple[int, ...]], width: int) -> I64:
    """Return the columns of rows of integers, shape (width, rows)."""
    return np.array(rows, np.int64).reshape(-1, width).T


def _by_plan(plan: I64, rows: I64) -> Iterator[tuple[int, I64]]:
    """Yield each plan of some rows, ascending, with its rows in their order."""
    ordered = rows[np.argsort(plan[rows], kind="stable")]
    numbers, begins = np.unique(plan[ordered], return_index=True)
    if len(numbers):
        yield from zip(numbers.tolist(), np.split(ordered, begins[1:]), strict=True)


def _grown(old: npt.NDArray[G], size: int) -> npt.NDArray[G]:
    new = np.zeros((size, *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    return new


def _distinct(numbers: I64, size: int) -> tuple[I64, I64]:
    """Return what np.unique gives with the inverse, of numbers below `size`: by a table, no sort."""
    seen = np.zeros(size, np.bool_)
    seen[numbers] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[numbers]


def _decimals(scan: Scan, runs: I64, digits: int) -> I64:
    """Return the decimals of numbers in units of their last digit but `digits`, rounded half to even."""
    values, lengths = scan.ints[runs], scan.lengths[runs].astype(np.int64)
    short = lengths <= digits
    out: I64 = values * _TENS[np.where(short, digits - lengths, 0)]
    far = np.flatnonzero(~short)
    if len(far):
        unit = _TENS[lengths[far] - digits]
        quotient, rest = np.divmod(values[far], unit)
        half = rest * 2 - unit
        out[far] = quotient + ((half > 0) | ((half == 0) & (quotient & 1 == 1)))
    return out

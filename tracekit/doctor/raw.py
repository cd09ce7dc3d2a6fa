"""A trace in JSON as viewers see it: its own tracks, arrows and ids, before any reader makes sense of them.

The grammar is read once more, as of an unknown producer, and the rows are brought into order of start. Memory: a chunk
of rows, 24 bytes for each row with a defect, and 64 for each end of an arrow.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tracekit.analysis.lanes import LaneAssigner
from tracekit.analysis.links import one_key
from tracekit.doctor.findings import EXAMPLES, FoundDefect, Gathered, gather
from tracekit.errors import Sentence
from tracekit.inputs import order
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger
from tracekit.readers.base import ReadOptions
from tracekit.readers.engine.torn import TORN
from tracekit.readers.source import Source
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.generic import ChromeReading
from tracekit.readers.trace_event.look import Dialect, FilePrescan
from tracekit.readers.trace_event.plan import Build

__all__ = ["FullLedger", "check"]

# A ledger that keeps the place of every note, for the list of changes of a repair.


MOST_PLACES = 1 << 20


@dataclass(slots=True)
class FullLedger(Ledger):
    """A ledger with all places of its notes, not the first three alone. every: code -> places, in order."""

    every: dict[str, list[str]] = field(default_factory=dict)

    def note(self, code: str, text: str | Sentence, count: int = 1, *, where: str = "") -> None:
        """Note that something was repaired, guessed or dropped, and keep the place."""
        Ledger.note(self, code, text, count, where=where)
        places = self.every.setdefault(code, [])
        if where and len(places) < MOST_PLACES:
            places.append(where)


# Checks of arrows: points "s", "t" and "f" with one id, name and category; each must touch a slice of its track.


_START, _STEP, _END = 0, 1, 2
_PHASES = {"s": _START, "t": _STEP, "f": _END}
_OF_EVERY_CALL = {("ac2g", "ac2g")}
"""Arrows (name, category) of which torch writes one end at every call of the runtime, also where no work follows."""
_NONE = np.iinfo(np.int64).min


@dataclass(slots=True)
class RawFlows:
    """Takes rows in order of start, with their tracks."""

    _ends: dict[int, int] = field(default_factory=dict)
    """Track -> latest end of a slice so far."""
    _points: list[I64] = field(default_factory=list)
    """One array a batch: key (name and category), id, phase, track, ts, number, waits; shape (7, n)."""
    _texts: dict[tuple[str, str], int] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)
    _loose: Gathered = field(default_factory=lambda: Gathered("flow-without-slice"))
    bad: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Numbers of all flow events that have a defect, once `found` was called."""
    _latest: dict[int, int] = field(default_factory=dict)
    """Track -> latest start of a slice."""

    def see(self, batch: pa.RecordBatch, track: I64) -> None:
        """Take the next rows. track: shape (n,)."""
        kinds = arrow.encoded(batch.column("kind"))
        names = arrow.texts(kinds.dictionary)
        ts, dur = arrow.ints(batch.column("ts_ns")), arrow.ints(batch.column("dur_ns"))
        is_flow = np.array([name == Kind.FLOW for name in names] or [False])[arrow.codes(kinds)]
        slices = arrow.valid(batch.column("dur_ns")) & arrow.valid(batch.column("tid")) & ~is_flow
        points = np.flatnonzero(is_flow & arrow.valid(batch.column("correlation")))
        touching = self._touching(points, slices, track, ts, ts + np.maximum(dur, 0))
        if len(points):
            self._take(batch, points, track, ts, touching)

    def _touching(self, points: I64, slices: Mask, track: I64, ts: I64, ends: I64) -> Mask:
        """Return for each point whether a slice of its track is open; and remember the latest end of each track."""
        rows = np.concatenate((np.flatnonzero(slices), points))
        rows.sort()
        order = rows[np.argsort(track[rows], kind="stable")]
        tracks = track[order]
        touching = np.zeros(len(track), np.bool_)
        bounds = [0, *(np.flatnonzero(tracks[1:] != tracks[:-1]) + 1).tolist(), len(order)]
        for start, stop in pairwise(bounds if len(order) else []):
            on_track, track_number = order[start:stop], int(tracks[start])
            reach = np.where(slices[on_track], ends[on_track], _NONE)
            reach = np.maximum(np.maximum.accumulate(reach), self._ends.get(track_number, _NONE))
            touching[on_track] = reach >= ts[on_track]
            self._ends[track_number] = int(reach[-1])
            if slices[on_track].any():
                self._latest[track_number] = int(ts[on_track[slices[on_track]][-1]])
        return touching[points]

    def _take(self, batch: pa.RecordBatch, points: I64, track: I64, ts: I64, touching: Mask) -> None:
        rows = arrow.take(batch, points)
        args = arrow.encoded(rows.column("args"))
        parsed = [_point(text) for text in arrow.optional_texts(args.dictionary)] or [("", "", "")]
        code = arrow.codes(args) if len(args.dictionary) else np.zeros(len(points), np.int64)
        names = arrow.encoded(rows.column("name"))
        texts = [text or "" for text in arrow.optional_texts(names.dictionary)] or [""]
        name = arrow.codes(names) if len(names.dictionary) else np.zeros(len(points), np.int64)
        key = np.empty(len(points), np.int64)
        both, place = np.unique(np.stack((code, name)), axis=1, return_inverse=True)
        for at, (of_args, of_name) in enumerate(both.T.tolist()):
            text = (texts[of_name], parsed[of_args][1])
            key[place.reshape(-1) == at] = self._texts.setdefault(text, len(self._texts))
        self._names = [text for text, _ in self._texts]
        phase = np.array([_PHASES.get(each[0], _STEP) for each in parsed])[code]
        waits = np.array([each[0] == "f" and each[2] != "e" for each in parsed])[code]
        numbers = arrow.ints(rows.column("event_id"))
        loose = ~touching & ~waits
        if loose.any():
            first = [texts[n] for n in name[loose][:EXAMPLES].tolist()]
            self._loose.take(numbers[loose], ts[points][loose], np.zeros(int(loose.sum()), np.int64), first)
        self._points.append(
            np.stack(
                (
                    key, arrow.ints(rows.column("correlation")), phase, track[points], ts[points], numbers,
                    (waits & ~touching).astype(np.int64),
                )
            )
        )  # fmt: skip

    def found(self) -> list[Gathered]:
        """Return the defects of all points."""
        if not self._points:
            return []
        key, identity, phase, track, ts, number, waits = np.concatenate(self._points, axis=1)
        zero = np.zeros(len(key), np.int64)

        def gathered(code: str, mask: Mask) -> Gathered:
            one = Gathered(code)
            if mask.any():
                rows = np.flatnonzero(mask)
                names = [self._names[k] for k in key[rows[:EXAMPLES]].tolist()]
                one.take(number[rows], ts[rows], zero[rows], names)
            return one

        latest = np.array([self._latest.get(t, _NONE) for t in track.tolist()], np.int64)
        never = (waits == 1) & (latest < ts)  # "f" without bp waits for the next slice, and none comes
        if never.any():
            rows = np.flatnonzero(never)
            self._loose.take(number[rows], ts[rows], zero[rows], [self._names[k] for k in key[rows[:3]].tolist()])
        arrow_of = one_key([key, identity], len(key))
        _, arrow_of = np.unique(arrow_of, return_inverse=True)
        count = int(arrow_of.max()) + 1
        starts = np.bincount(arrow_of[phase == _START], minlength=count)
        others = np.bincount(arrow_of[phase != _START], minlength=count)
        alone = ((starts == 0) | (others == 0))[arrow_of]
        order = np.lexsort((number, ts, arrow_of))
        again = np.zeros(len(order), np.bool_)
        is_start = phase[order] == _START
        seen = np.zeros(len(order), np.bool_)
        seen[1:] = (arrow_of[order][1:] == arrow_of[order][:-1]) & is_start[1:] & is_start[:-1]
        again[order] = seen
        first = np.full(count, np.iinfo(np.int64).max)
        rank = np.empty(len(key), np.int64)
        rank[np.lexsort((number, ts))] = np.arange(len(key))  # at one time, viewers take the order of the file
        np.minimum.at(first, arrow_of[phase == _START], rank[phase == _START])
        back = ~alone & (phase != _START) & (rank < first[arrow_of])
        habit = np.array([text in _OF_EVERY_CALL for text in self._texts])
        of_calls = habit[key]
        odd = (alone & ~of_calls) | back | np.isin(number, self._loose.numbers())
        self.bad = sets.unique(number[np.isin(arrow_of, arrow_of[odd])])
        return [
            gathered("unmatched-flow", alone & ~of_calls), gathered("flow-of-every-call", alone & of_calls),
            gathered("flow-backwards", back), gathered("duplicate-id", again),
            self._loose,
        ]  # fmt: skip


def _point(args: str | None) -> tuple[str, str, str]:
    """Return phase, category and bp of a point."""
    try:
        members = json.loads(args or "{}")
    except (ValueError, RecursionError):
        return "", "", ""
    if not isinstance(members, dict):
        return "", "", ""
    phase, cat, bp = (members.get(key) for key in ("ph", "cat", "bp"))
    return str(phase or ""), str(cat or ""), str(bp or "")


_PLAIN = Dialect("", "")
_NUMBER = re.compile(rb'"\s*[-+]?[0-9][0-9.eE+-]*\s*"')
"""A number that is text."""
_EXACT_NS = 1 << 53
"""Times of which a double has every ns."""
_MOST_ID = (1 << 32) - 1
_TEXT_NAMES = ("process_name", "thread_name")


class RawLook(FilePrescan):
    """Notes what viewers stumble over, and then reads the event as of any producer."""

    def __call__(self, build: Build) -> None:
        """Put into `build` what its event is, with notes."""
        members, notes = build.event.members, build.notes
        if any(members[key].is_null() for key in ("ts", "dur") if key in members):
            notes["null-time"] = "a start or duration is null"
        if any(_NUMBER.fullmatch(members[key].raw) for key in ("ts", "dur") if key in members):
            notes["text-time"] = "a start or duration is text"
        if any(members[key].raw[:1] == b'"' for key in ("pid", "tid") if key in members):
            notes["text-id"] = "the id of a process or thread is text"
        if build.event.get("ph") == "M" and build.event.get("name") in _TEXT_NAMES and build.event.arg("name") is None:
            notes["bad-metadata"] = "the name of a process or thread is not text"
        super().__call__(build)


@dataclass(slots=True)
class RawChecks:
    """Takes the rows of the tracks in the file, in order of start."""

    ids: dict[tuple[str, int, int], str]
    _found: dict[str, Gathered] = field(default_factory=dict)
    _wide: dict[int, Gathered] = field(default_factory=dict)
    _flows: RawFlows = field(default_factory=RawFlows)
    _assigner: LaneAssigner = field(default_factory=LaneAssigner)
    _rounded: LaneAssigner | None = None
    _last_rounded: int = -(1 << 63)
    _tracks: dict[tuple[int, int], int] = field(default_factory=dict)
    _first_ns: int | None = None
    _last_ns: int = 0

    def see(self, batch: pa.RecordBatch) -> None:
        """Take the next rows."""
        ts, dur = arrow.ints(batch.column("ts_ns")), arrow.ints(batch.column("dur_ns"))
        self._first_ns = int(ts[0]) if self._first_ns is None else self._first_ns
        self._last_ns = max(self._last_ns, int((ts + np.maximum(dur, 0)).max()))
        gather(self._found, "negative-time", batch, ts < 0)
        gather(self._found, "negative-duration", batch, dur < 0)
        track = self._track_of_row(batch)
        slices = np.flatnonzero(arrow.valid(batch.column("dur_ns")) & arrow.valid(batch.column("tid")))
        crossing = np.zeros(batch.num_rows, np.bool_)
        crossing[slices] = self._assigner.assign(track[slices], ts[slices], dur[slices]) > 0
        gather(self._found, "overlapping-slices", batch, crossing)
        self._round(batch, slices, track, crossing)
        self._flows.see(batch, track)

    def findings(self, word: str) -> list[FoundDefect]:
        """Return the defects of all rows."""
        span = self._last_ns - (self._first_ns or 0)
        defects = [each.finding(word, span) for each in self._every()]
        return [each for each in defects if each is not None]

    def bad_points(self) -> I64:
        """Return the numbers of the events that are flow events with defects."""
        return self._flows.bad

    def _every(self) -> list[Gathered]:
        return [*self._found.values(), *self._fallen_together(), *self._flows.found()]

    def _round(self, batch: pa.RecordBatch, slices: I64, track: I64, crossing: Mask) -> None:
        """Find slices that cross once a viewer has rounded their times: those with a fraction become doubles."""
        ts, dur = arrow.ints(batch.column("ts_ns"))[slices], arrow.ints(batch.column("dur_ns"))[slices]
        if self._rounded is None and not (np.abs(ts) > _EXACT_NS).any():
            return
        self._rounded = self._rounded or LaneAssigner()
        seen = np.where(ts % 1000 == 0, ts, np.rint((ts // 1000 + ts % 1000 / 1000) * 1000.0).astype(np.int64))
        seen = np.maximum.accumulate(np.maximum(seen, self._last_rounded))
        order = np.lexsort((-dur, seen))
        if len(order):
            self._last_rounded = int(seen[-1])
        mask = np.zeros(batch.num_rows, np.bool_)
        mask[slices[order]] = self._rounded.assign(track[slices][order], seen[order], dur[order]) > 0
        gather(self._found, "coarse-times", batch, mask & ~crossing)

    def _track_of_row(self, batch: pa.RecordBatch) -> I64:
        pairs = np.stack((arrow.ints(batch.column("pid")), arrow.ints(batch.column("tid"))))
        distinct, place = np.unique(pairs, axis=1, return_inverse=True)
        codes = [self._tracks.setdefault((pid, tid), len(self._tracks)) for pid, tid in distinct.T.tolist()]
        track = np.array(codes, np.int64)[place.reshape(-1)]
        for code, pair in zip(codes, distinct.T.tolist(), strict=True):
            if any(self._is_wide(column, number) for column, number in zip(("pid", "tid"), pair, strict=True)):
                self._wide.setdefault(code, Gathered("wide-id")).add(batch, track == code)
        return track

    def _is_wide(self, column: str, number: int) -> bool:
        """Return whether viewers cut an id. The reader made small numbers of texts, and of ids beyond int64."""
        text = self.ids.get((column, 0, number))
        return not 0 <= number <= _MOST_ID if text is None else text.lstrip("-").isdecimal()

    def _fallen_together(self) -> list[Gathered]:
        """Return the rows of tracks with ids that viewers cut, where that makes one track of several."""
        seen: dict[tuple[int, int], list[int]] = {}
        for (pid, tid), track in self._tracks.items():
            process = 0 if self._is_wide("pid", pid) else pid
            thread = 0 if self._is_wide("tid", tid) else tid
            seen.setdefault((process, thread or process), []).append(track)
        gathered = Gathered("wide-id")
        for tracks in seen.values():
            for track in tracks if len(tracks) > 1 else ():
                if track in self._wide:
                    gathered.join(self._wide[track])
        return [gathered]


def check(source: Source, ledger: FullLedger, *, per_unit: int) -> tuple[list[FoundDefect], I64]:
    """Return the defects that the tracks of a trace in JSON have in viewers, and all flow events with defects.

    Its notes are in the ledger.
    per_unit: ns of one unit of the file's times. Raises: ParseError.
    """
    _check_encoding(source, ledger)
    reading = events.begin(source, ReadOptions(demangle=False), ledger, "", "")
    raw = ChromeReading(reading, _PLAIN, per_unit, look=RawLook)
    checks = RawChecks(reading.run.ids)
    for batch in order.in_order(_light(raw.batches())):
        checks.see(batch)
    if reading.events.comma and reading.events.form == "object":
        ledger.note("trailing-comma", "a comma follows the last event")
    if reading.events.lost_commas and not reading.events.bare:
        ledger.note("lost-comma", "a comma between two events is missing", reading.events.lost_commas)
    if reading.events.doubled_commas:
        ledger.note("doubled-comma", "several commas are between two events", reading.events.doubled_commas)
    if reading.events.form == "array" and not reading.events.whole and TORN not in ledger.notes:
        ledger.note("open-list", "the list of events is not closed")
    return checks.findings("event"), checks.bad_points()


def _light(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows without the args of all but arrows."""
    for batch in batches:
        if not batch.num_rows:
            continue
        kinds = arrow.encoded(batch.column("kind"))
        flow = np.array([text == Kind.FLOW for text in arrow.texts(kinds.dictionary)])[arrow.codes(kinds)]
        args = batch.column("args")
        if args.null_count < len(args):
            kept = arrow.nulls(len(args), args.type)
            if flow.any():
                kept = events.where(flow, args, kept)
            batch = arrow.with_column(batch, "args", kept)
        yield batch


def _check_encoding(source: Source, ledger: FullLedger) -> None:
    if next(source.chunks(Ledger(), len(codecs.BOM_UTF8)), b"") == codecs.BOM_UTF8:
        ledger.note("byte-order-mark", "the file begins with a byte order mark", where="byte 0")

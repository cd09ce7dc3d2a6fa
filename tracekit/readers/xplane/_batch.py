"""One batch: the rows of the events of some lines of a plane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask, Rows
from tracekit.columns.arrow import pc
from tracekit.messages import messages
from tracekit.readers.builder import Values, event_batch, totals_batch
from tracekit.readers.names import Demangler
from tracekit.readers.xplane._cells import Cells
from tracekit.readers.xplane._kinds import Role, kind_of
from tracekit.readers.xplane._lines import Line, Taken
from tracekit.readers.xplane._members import Common, Members, distinct, members
from tracekit.readers.xplane._planes import Name
from tracekit.readers.xplane._scan import scan
from tracekit.schema import Kind
from tracekit.trace import Ledger
from tracekit.units import MAX_NS

_MOST_PS = 1 << 62
"""53 days after the start of a line."""
_KINDS = tuple(Kind)
_ROLES = tuple(Role)


class Batch:
    """The rows of some lines. Raises: TooLongError; nothing has been counted then."""

    def __init__(self, taken: Taken, cells: Cells, ledger: Ledger) -> None:
        self.taken, self.plane, self.cells, self.ledger = taken, taken.plane, cells, ledger
        self.lines = taken.lines
        self.count = len(taken.events)
        self.scanned = scan(taken.events)
        self.counts = np.array([line.count for line in self.lines])
        self.line = np.repeat(np.arange(len(self.lines)), self.counts)
        self.odd: dict[int, Any] = {}
        self.damaged = np.zeros(self.count, np.bool_)
        self._read_odd()
        self._read_times()
        self._read_names()
        role = np.array([_ROLES.index(line.role) for line in self.lines])
        self.role = role[self.line]
        self.members = self._members()

    def _read_odd(self) -> None:
        """Give events of another form to protobuf."""
        from google.protobuf.message import DecodeError

        kind, scanned = messages("xplane")["XEvent"], self.scanned
        for row in scanned.odd.tolist():
            try:
                event = self.odd[row] = kind.FromString(scanned.body(row))
            except DecodeError:
                self.damaged[row] = True
                continue
            scanned.number[row], scanned.offset[row] = event.metadata_id, event.offset_ps
            scanned.length[row], scanned.often[row] = event.duration_ps, event.num_occurrences

    def _read_times(self) -> None:
        scanned = self.scanned
        offset, length = scanned.offset, scanned.length
        good = (offset > -_MOST_PS) & (offset < _MOST_PS) & (length >= 0) & (length < _MOST_PS)
        if not good.all():
            offset, length = np.where(good, offset, 0), np.where(good, length, 0)
        starts = [line.start_ns if 0 <= line.start_ns < MAX_NS else -MAX_NS for line in self.lines]
        base = np.array(starts)[self.line]
        end = offset + length
        self.offset, self.behind = offset, end
        whole = offset // 1000
        self.start_ps = offset - whole * 1000
        end_ns = end // 1000
        self.length_ps = length - (end_ns - whole) * 1000
        self.start, self.end = base + whole, base + end_ns
        self.summed = (scanned.often > 0) & (offset == 0) & good & ~self.damaged
        self.good = good & (((self.start >= 0) & (self.end < MAX_NS)) | self.summed) & ~self.damaged

    def _read_names(self) -> None:
        numbers, self.name = distinct(self.scanned.number)
        used = set(self.name[~self.damaged].tolist()) if self.damaged.any() else range(len(numbers))
        self.unnamed = [numbers[at] for at in used if numbers[at] not in self.plane.names]
        self.names = [self.plane.names.get(number) or Name(f"event {number}", "", ()) for number in numbers]

    def _members(self) -> Members:
        common = [self.cells.of_name(name) for name in self.names]
        derived = self.role == _ROLES.index(Role.DERIVED)
        texts, keys = [text for text, _ in common], [keys for _, keys in common]
        rows = Common(derived, self.start_ps, self.length_ps, self.name, texts, keys)
        return members(self.scanned, rows, self.plane.key, self._odd_members)

    def _odd_members(self, row: int) -> tuple[str | None, dict[str, int]]:
        if self.damaged[row]:
            return None, {}
        event = self.odd.get(row) or messages("xplane")["XEvent"].FromString(self.scanned.body(row))
        rest = int(self.start_ps[row]), int(self.length_ps[row])
        derived = _ROLES[self.role[row]] is Role.DERIVED
        return self.cells.row(event.stats, self.names[self.name[row]], rest, derived=derived)

    def count_rows(self) -> None:
        """Count the events in the ledger."""
        ledger = self.ledger
        bad = np.bincount(self.line[~self.good & ~self.damaged], minlength=len(self.lines))
        damaged = np.bincount(self.line[self.damaged], minlength=len(self.lines))
        for line, lost, broken in zip(self.lines, bad.tolist(), damaged.tolist(), strict=True):
            if broken:
                ledger.drop("damaged", broken, where=line.where, text="dropped: an event that is no protobuf message")
            if lost:
                text = "dropped: its time is negative or out of range"
                ledger.drop("bad-time", lost, where=line.where, text=text)
        for _ in self.unnamed:
            text = "names are not in the file, which ends before them: events have the number of their name"
            ledger.note("names-missing", text, where=self.lines[0].where)

    def totals(self, first: int, source: int) -> Iterator[pa.RecordBatch]:
        """Yield rows of events with a number of occurrences instead of a time, line by line. first: their order."""
        for at in np.unique(self.line[self.good & self.summed]).tolist():
            rows = np.flatnonzero(self.good & self.summed & (self.line == at)).tolist()
            lengths = self.scanned.length[rows].tolist()
            args = [orjson.dumps({"plane": self.plane.name, "dur_ps": length}).decode() for length in lengths]
            columns: dict[str, Values] = {
                "source": source,
                "run": 0,
                "section": self.lines[at].name or self.plane.name or "events",
                "order": np.arange(first, first + len(rows), dtype=np.int32),
                "kind": str(Kind.OTHER),
                "name": [self.names[self.name[row]].name for row in rows],
                "calls": self.scanned.often[rows],
                "total_ns": [length // 1000 for length in lengths],
                "device": list(repeat(self.plane.device, len(rows))),
                "args": args,
            }
            first += len(rows)
            self.ledger.kept += len(rows)
            self.ledger.totals_out += len(rows)
            yield totals_batch(len(rows), columns)

    def events(self, lane: Callable[[Line], int], names: Demangler, source: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows with a time. lane: names a line and returns the number of its thread or stream."""
        keep = np.flatnonzero(self.good & ~self.summed)
        count = len(keep)
        self.ledger.kept += count
        self.ledger.events_out += count
        if not count:
            return
        all_of_them = count == self.count
        line, name, start = (each if all_of_them else each[keep] for each in (self.line, self.name, self.start))
        used = np.zeros(len(self.lines), np.bool_)
        used[line] = True
        lanes = np.array([lane(each) if there else 0 for each, there in zip(self.lines, used.tolist(), strict=True)])
        first = np.array([each.first for each in self.lines]) - (np.cumsum(self.counts) - self.counts) + 1
        columns: dict[str, Values] = {"source": source, "ts_ns": start, "event_id": keep + first[line]}
        columns["dur_ns"] = (self.end if all_of_them else self.end[keep]) - start
        columns["tid" if self.plane.device is None else "stream"] = lanes[line]
        if self.plane.device is not None:
            columns["device"] = self.plane.device
        args = self.members.args
        columns["args"] = args if all_of_them else arrow.take(args, keep)
        for column, (values, there) in self.members.columns.items():
            values, there = (values, there) if all_of_them else (values[keep], there[keep])
            columns[column] = arrow.array(values, mask=~there)
        columns["kind"], columns["copy_kind"] = self._kinds(keep)
        texts: dict[str, int] = {}
        spots = np.array([texts.setdefault(each.name, len(texts)) for each in self.names], np.int32)
        dictionary = arrow.array(list(texts), pa.string())
        columns["name"], columns["raw_name"] = names.columns(pa.DictionaryArray.from_arrays(spots[name], dictionary))
        yield event_batch(count, columns)

    def _kinds(self, keep: Rows) -> tuple[Values, Values]:
        """Return kinds, and directions of copies."""
        role = self.role[keep]
        pairs, place = distinct(role * len(self.names) + self.name[keep])
        found = [kind_of(_ROLES[pair // len(self.names)], self.names[pair % len(self.names)]) for pair in pairs]
        codes = np.array([_KINDS.index(kind) for kind, _ in found], np.int32)[place]
        for at in np.unique(self.line[keep[role == _ROLES.index(Role.OPS)]]).tolist():
            rows = np.flatnonzero(self.line[keep] == at)
            own = rows[_encloses(self.offset[keep[rows]], self.behind[keep[rows]])]
            codes[own] = _KINDS.index(Kind.OTHER)
        host = role == _ROLES.index(Role.HOST)
        if host.any() and "hlo_op" in self.plane.keys.values():
            # Ops of XLA, run by a CPU: their stats name the op.
            named = arrow.bools(pc.match_substring(self.members.args, '"hlo_op":'))[keep]
            codes[host & named & (codes == _KINDS.index(Kind.OTHER))] = _KINDS.index(Kind.OPERATOR)
        if "correlation" in self.members.columns:
            # TensorFlow names calls of CUDA's driver after their kernel or copy (cupti_collector.cc: DriverCallback).
            launching = self.members.columns["correlation"][1][keep]
            codes[host & launching & (codes == _KINDS.index(Kind.OTHER))] = _KINDS.index(Kind.DRIVER)
        if "step" in self.members.columns:
            codes[host & self.members.columns["step"][1][keep]] = _KINDS.index(Kind.STEP)
        kinds = pa.DictionaryArray.from_arrays(codes, arrow.array([str(kind) for kind in _KINDS]))
        copies = [direction for _, direction in found]
        if not any(copies):
            return kinds, None
        return kinds, arrow.take(arrow.array(copies, pa.string()), place)


def _encloses(start: I64, end: I64) -> Mask:
    """Return which ranges of a line have another one within them."""
    found = np.zeros(len(start), np.bool_)
    real = np.flatnonzero(end > start)
    order = real[np.lexsort((-end[real], start[real]))]
    first, then = order[:-1], order[1:]
    found[first] = (start[then] < end[first]) & (end[then] <= end[first])
    return found

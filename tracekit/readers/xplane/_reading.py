"""Events of an XSpace: line by line, each in pieces of some MB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tracekit.columns.arrays import I64, Mask
from tracekit.errors import ParseError
from tracekit.messages import messages
from tracekit.readers.base import Opened, ReadOptions
from tracekit.readers.builder import FIRST_TEXT_ID, IdTable, Values, event_batch, totals_batch
from tracekit.readers.names import Demangler
from tracekit.readers.protobuf import What, plain, tell_cut, varint_at, walk
from tracekit.readers.source import Source
from tracekit.readers.xplane._cells import Cells
from tracekit.readers.xplane._kinds import Role, kind_of, role_of
from tracekit.readers.xplane._planes import ENTER, MOST_BYTES, Name, Plane, Space, is_changed, look
from tracekit.schema import Kind
from tracekit.trace import Ledger, Run, SourceFacts
from tracekit.units import MAX_NS

_PIECE_BYTES = 8 << 20
_MOST_PS = 1 << 62
"""53 days after the start of a line."""


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events. Raises: ParseError for a file that was changed as if it were text, and without planes."""
    if is_changed(source.head()):
        raise ParseError(
            source.name,
            "byte 0",
            "the file was changed as if it were text: each byte above 0x7f became U+FFFD",
            hint="copy it again, in binary mode",
        )
    space = look(source)
    if not any(plane.name for plane in space.planes):
        raise ParseError(source.name, "byte 0", "no plane of an XSpace can be read")
    run = Run(sources=[SourceFacts(source.name, "xplane", facts={"tool": "XPlane profiler"})])
    space.describe(run, options.source, ledger)
    return Opened(run, _Reading(source, options, ledger, run, space).batches(), ordered=False, ledgers=(ledger,))


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yield a line in messages of some MB. Raises: ValueError for bytes that are no message."""
    if len(data) <= _PIECE_BYTES:
        yield data
        return
    own, begins = [], [0]
    place = 0
    while place < len(data):
        start = place
        tag, place = varint_at(data, place)
        if tag < 8 or tag & 7 not in (0, 2):
            raise ValueError("no message")
        value, place = varint_at(data, place)
        place += value if tag & 7 == 2 else 0
        if value < 0 or place > len(data):
            raise ValueError("no message")
        if tag >> 3 != 4:
            own.append(data[start:place])
        if place - begins[-1] >= _PIECE_BYTES:
            begins.append(place)
    for start, end in zip(begins, [*begins[1:], len(data)], strict=True):
        if start < end:
            yield b"".join(own) + data[start:end]


def _encloses(start: I64, end: I64) -> Mask:
    """Return which ranges of a line have another one within them."""
    found = np.zeros(len(start), np.bool_)
    real = np.flatnonzero(end > start)
    order = real[np.lexsort((-end[real], start[real]))]
    first, then = order[:-1], order[1:]
    found[first] = (start[then] < end[first]) & (end[then] <= end[first])
    return found


class _Reading:
    """One reading of one file."""

    def __init__(self, source: Source, options: ReadOptions, ledger: Ledger, run: Run, space: Space) -> None:
        self.source, self.options, self.ledger, self.run, self.space = source, options, ledger, run, space
        self.names = Demangler(ledger, enabled=options.demangle)
        self.tids = IdTable(run, "tid", options.source)
        self.streams = IdTable(run, "stream", options.source)
        self.order = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        planes = iter(self.space.planes)
        plane, cells = Plane(), Cells(Plane(), self.ledger)
        try:
            for met in walk(self.source.chunks(self.ledger), ENTER, MOST_BYTES):
                if met.what in (What.DAMAGE, What.CUT):
                    tell_cut(self.ledger, met)
                elif met.what is What.OPEN:
                    plane = next(planes, Plane())
                    cells = Cells(plane, self.ledger)
                elif met.what is What.FIELD and met.level == "plane" and met.number == 3:
                    yield from self._line(plane, cells, met.value, f"byte {met.at}")
        finally:
            self.names.close()

    def _line(self, plane: Plane, cells: Cells, data: object, where: str) -> Iterator[pa.RecordBatch]:
        from google.protobuf.message import DecodeError

        try:
            for piece in _pieces(data if isinstance(data, bytes) else b"\0"):
                line = messages("xplane")["XLine"].FromString(piece)
                if len(line.events):
                    yield from self._events(plane, cells, line, where)
        except (DecodeError, ValueError):
            self.ledger.read += 1
            self.ledger.drop("damaged", where=where, text="dropped: a line that is no protobuf message")

    def _lane(self, plane: Plane, line: Any, role: Role) -> dict[str, int]:
        """Return the columns of the place of a line, and name it."""
        source, text = self.options.source, plain(line.name, self.ledger)
        if plane.device is None:
            own = plane.name == "/host:CPU" and line.id < FIRST_TEXT_ID
            tid = self.tids.number(line.id if own else f"{plane.name} {line.id}")
            self.run.threads[source, None, tid] = text if role is Role.HOST else f"{plane.name} {text}"
            return {"tid": tid}
        own = not plane.part and line.id < FIRST_TEXT_ID
        stream = self.streams.number(line.id if own else f"{plane.name} {line.id}")
        self.run.streams[source, plane.device, stream] = f"{text} ({plane.name})" if plane.part else text
        return {"device": plane.device, "stream": stream}

    def _events(self, plane: Plane, cells: Cells, line: Any, where: str) -> Iterator[pa.RecordBatch]:
        events, ledger = line.events, self.ledger
        count = len(events)
        first = ledger.read
        ledger.read += count
        role = role_of(plane, plain(line.name))
        ids = np.fromiter((event.metadata_id for event in events), np.int64, count)
        offset = np.fromiter((event.offset_ps for event in events), np.int64, count)
        length = np.fromiter((event.duration_ps for event in events), np.int64, count)
        often = np.fromiter((event.num_occurrences for event in events), np.int64, count)
        good = (offset > -_MOST_PS) & (offset < _MOST_PS) & (length >= 0) & (length < _MOST_PS)
        offset, length = np.where(good, offset, 0), np.where(good, length, 0)
        base = line.timestamp_ns if 0 <= line.timestamp_ns < MAX_NS else -MAX_NS
        start, end = base + offset // 1000, base + (offset + length) // 1000
        summed = (often > 0) & (offset == 0) & good
        good &= ((start >= 0) & (end < MAX_NS)) | summed
        if bad := int(count - np.count_nonzero(good)):
            ledger.drop("bad-time", bad, where=where, text="dropped: its time is negative or out of range")
        known, place = np.unique(ids, return_inverse=True)
        names = [plane.names.get(number) or self._unnamed(number, where) for number in known.tolist()]
        if rows := np.flatnonzero(good & summed).tolist():
            picked = [(names[place[row]], int(often[row]), int(length[row])) for row in rows]
            yield self._totals(plane, plain(line.name), picked)
        keep = np.flatnonzero(good & ~summed)
        ledger.kept += len(keep)
        ledger.events_out += len(keep)
        if not len(keep):
            return
        offset, length, start, end, place = offset[keep], length[keep], start[keep], end[keep], place[keep]
        chosen: Sequence[Any] = events if len(keep) == count else [events[row] for row in keep.tolist()]
        kinds = [kind_of(role, name) for name in names]
        codes = np.array([_KINDS.index(kind) for kind, _ in kinds], np.int32)[place]
        if role is Role.OPS:
            codes[_encloses(offset, offset + length)] = _KINDS.index(Kind.OTHER)
        rests = zip((offset % 1000).tolist(), (length - (end - start) * 1000).tolist(), strict=True)
        read = cells.columns(chosen, [names[at] for at in place.tolist()], rests, derived=role is Role.DERIVED)
        if role is Role.HOST:
            codes[cells.is_operator(read) & (codes == _KINDS.index(Kind.OTHER))] = _KINDS.index(Kind.OPERATOR)
            codes[cells.is_step(read)] = _KINDS.index(Kind.STEP)
        texts, spots = self._texts([name.name for name in names])
        columns: dict[str, Values] = {**read, **self._lane(plane, line, role), "source": self.options.source}
        columns |= {"ts_ns": start, "dur_ns": end - start, "event_id": first + 1 + keep}
        columns["name"], columns["raw_name"] = self.names.columns(pa.DictionaryArray.from_arrays(spots[place], texts))
        columns["kind"] = pa.DictionaryArray.from_arrays(codes, pa.array([str(kind) for kind in _KINDS]))
        columns["copy_kind"] = pa.array([kinds[at][1] for at in place.tolist()], pa.string())
        yield event_batch(len(keep), columns)

    def _unnamed(self, number: int, where: str) -> Name:
        text = "names are not in the file, which ends before them: events have the number of their name"
        self.ledger.note("names-missing", text, where=where)
        return Name(f"event {number}", "", ())

    def _texts(self, names: list[str]) -> tuple[Any, Any]:
        """Return distinct texts, and the place of each name among them."""
        places: dict[str, int] = {}
        spots = [places.setdefault(name, len(places)) for name in names]
        return pa.array(list(places), pa.string()), np.array(spots, np.int32)

    def _totals(self, plane: Plane, line: str, rows: list[tuple[Name, int, int]]) -> pa.RecordBatch:
        self.ledger.kept += len(rows)
        self.ledger.totals_out += len(rows)
        first, self.order = self.order, self.order + len(rows)
        args = [orjson.dumps({"plane": plane.name, "dur_ps": length}).decode() for _, _, length in rows]
        columns: dict[str, Values] = {
            "source": self.options.source,
            "run": 0,
            "section": line or plane.name or "events",
            "order": np.arange(first, self.order, dtype=np.int32),
            "kind": str(Kind.OTHER),
            "name": [name.name for name, _, _ in rows],
            "calls": [often for _, often, _ in rows],
            "total_ns": [length // 1000 for _, _, length in rows],
            "device": list(repeat(plane.device, len(rows))),
            "args": args,
        }
        return totals_batch(len(rows), columns)


_KINDS = tuple(Kind)

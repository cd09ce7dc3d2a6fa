"""paddle-json: the trace of paddle.profiler's export_chrome_tracing (`*.paddle_trace.json`, Paddle 2.2 to 3.x).

    { "displayTimeUnit": "ms", "schemaVersion": "1.0.2", "span_indx": "0", "traceEvents": [
      { "name": "conv2d dygraph[0.591 us]", "pid": 3714, "tid": "3714(C++)", "ts": 1795227315625523, "dur": 0.591,
        "ph": "X", "cat": "Operator", "args": { "start_time": "1116.250 us", "end_time": "1116.841 us" } }, {} ],
      "ExtraInfo": { "3714": "MainThread" } }

A record is an element of traceEvents. Kept: X, the allocations (i, "[memory]") and arrows. Facts: M. Ignored: the empty
object at the end.

Times: `ts` is Unix time cut to whole µs, `dur` has ns. `args.start_time` counts from the first event, with ns, but went
through a 32-bit float: exact below 16.8 ms, then less and less exact. The start of a row is start_time plus the one
base that fits all early events (facts: base_uncertainty_ns), kept within the µs of `ts`; the duration is `dur`. So
starts agree with the .pb of the same run to the ns in the first 16 ms, and to 1 µs always. Without start_time (Paddle
2.2) starts are whole µs, with a note.

The duration at the end of a name is removed; tid "3714(C++)" and "3714(Python)" are one thread, 3714. Kinds:
`_types.KIND_OF_TYPE`. In the file, a device row has the device as pid and the stream as tid; here they are in `device`
and `stream`, and `pid` is that of the host. Names are not escaped in the file: broken JSON is repaired, with a note.

Sources: files of 2.6.2 and 3.3.1, chrometracing_logger.cc. Not supported: the colour (cname) is skipped, and so are the
members that repeat the times above.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracekit.model import sets
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.trace import Ledger
from tracekit.model.units import MAX_NS
from tracekit.readers.base import ReadOptions, ReadResult
from tracekit.readers.names import Demangler
from tracekit.readers.paddle._nodes import KIND_OF_TYPE, LAUNCHES, runtime_kind, step_number
from tracekit.readers.source import Source
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.columns import SCRATCH, Planner
from tracekit.readers.trace_event.events import EventReading
from tracekit.readers.trace_event.marks import EVENT_LIST
from tracekit.readers.trace_event.plan import DEVICE, HOST, MOVABLE, RELATIVE, Build, EventRows, Member

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["has_header", "read"]

_SPAN = rb'"span_ind(?:e)?x"\s*:'
_VERSION_TEXT = rb'"schemaVersion"\s*:\s*"[0-9.]+"'


def has_header(data: bytes) -> bool:
    """Return whether the outermost object has a span's number, and Paddle's version or a list of events."""
    return bool(re.search(_SPAN, data) and (re.search(_VERSION_TEXT, data) or re.search(EVENT_LIST, data)))


# Events of a Paddle trace in JSON, batch by batch.


_TIME_TEXT = re.compile(rb'"(start_time|end_time)"(\s*:\s*)"([0-9]+\.[0-9]+) us"')
_GLUED = re.compile(rb'\[([0-9]+\.[0-9]+) (ns|us|ms|s)\]"(\s*,\s*"pid")')
_TIMED = re.compile(
    rb'"ts"\s*:\s*([0-9]{1,18})\s*,\s*"dur"[^{}]{0,200}"args"\s*:\s*\{\s*"start_time"\s*:\s*([0-9]{1,9})\.([0-9]{3})\s*[,}]'
)
_THREAD = re.compile(r"([0-9]{1,18})\((?:Python|C\+\+)\)", re.ASCII)
_COPY = re.compile(r"MEMCPY_(\w+)", re.IGNORECASE)
_THREAD_NAME = re.compile(r"thread [0-9]+:(.*?)\((?:Python|C\+\+)\)", re.DOTALL)
_EXACT_NS = 1 << 24
"""A 32-bit float of µs holds every ns up to this many ns."""
_OVERFLOW = (
    "sizes below zero, since Paddle prints 32 bits of them (2 GiB and more do not fit), are kept in args as printed"
)
_SURVEY_BYTES = 4 << 20
_SHAPES = (("grid", ("grid_x", "grid_y", "grid_z")), ("block", ("block_x", "block_y", "block_z")))
_INTEGERS = (
    ("device", "device"),
    ("context", "context"),
    ("stream", "stream"),
    ("correlation", "correlation id"),
    ("registers", "registers per thread"),
    ("bytes", "bytes"),
)
_DROPPED = frozenset({"start_time", "end_time"})
_TOP = events.TOP | {"cname", "glued ns", "glued us", "glued ms", "glued s", "s"}


def plain_numbers(text: bytes) -> bytes:
    """Return the text with times as numbers, and the glued durations as members of their own.

    With times in strings, no two events would have the same layout, and reading would be slow.
    >>> plain_numbers(b'"name": "a[0.591 us]", "pid": 1, "start_time": "1.250 us"')
    b'"name": "a","glued us":0.591, "pid": 1, "start_time": 1.250'
    """
    return _GLUED.sub(rb'","glued \2":\1\3', _TIME_TEXT.sub(rb'"\1"\2\3', text))


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events."""
    reading = events.begin(source, options, ledger, "paddle.profiler", "paddle-json", plain_numbers)
    reading.run.origin_ns = 0
    return ReadResult(reading.run, _Paddle(reading).batches(), False, (ledger,))


class _Paddle:
    """The state of one reading: the base of start_time, the process of the host, the devices."""

    def __init__(self, reading: EventReading) -> None:
        self.reading = reading
        self.base_ns, self.uncertainty_ns = survey(reading.source, reading.ledger)
        self.host: int | None = None
        self.devices: set[int] = set()
        self.demangler = Demangler(reading.ledger, enabled=reading.options.demangle)

    def batches(self) -> Iterator[pa.RecordBatch]:
        waiting = list[EventRows]()
        for rows in events.planned(self.reading, Planner(self.look, self.reading.ledger)):
            self._watch(rows)
            waiting.append(rows)
            if self.host is not None or len(waiting) > 16:
                for early in waiting:
                    yield self._finished(early)
                waiting.clear()
        for last in waiting:
            yield self._finished(last)
        self.demangler.close()
        self._name_everything()

    def look(self, build: Build) -> None:
        """Set the kind, lane, times and args of an event."""
        event, reading = build.event, self.reading
        if event.get("ph") == "M":
            # "3714(C++)" and "3714(Python)" are one thread here too.
            events.metadata(reading, build)
            build.runs.pop("tid", None)
            build.consts.pop("tid", None)
            self._thread(build, event.members.get("tid"))
            return
        if events.metadata(reading, build):
            return
        phase = event.get("ph")
        build.consts["name"] = event.get("name")
        if phase in events.FLOW_PHASES:
            self._lane(build)
            events.flow(reading, build)
            build.flags |= MOVABLE
        elif phase == "X":
            self._range(build)
        elif phase == "i":
            self._memory(build)
        else:
            build.drop("unknown-phase", "dropped: events of a phase that Paddle does not write")

    def _lane(self, build: Build) -> None:
        build.integer("pid", build.event.members.get("pid"), self.reading.pids.number)
        self._thread(build, build.event.members.get("tid"))

    def _thread(self, build: Build, member: Member | None) -> None:
        text = None if member is None else member.text()
        if text is not None and (found := _THREAD.fullmatch(text)):
            build.consts["tid"] = int(found[1])
        else:
            build.integer("tid", member, self.reading.tids.number)

    def _times(self, build: Build) -> None:
        members, args = build.event.members, build.event.args
        events.times(build)
        if "start_time" in args and build.integer("scratch_0", members.get("ts")) and self.base_ns is not None:
            build.consts.pop("ts_ns", None)
            build.times.pop("ts_ns", None)
            build.time("ts_ns", args["start_time"])
            build.flags |= RELATIVE
        else:
            build.notes["whole-microseconds"] = "starts are known to whole µs only: the file has no start_time"

    def _range(self, build: Build) -> None:
        event = build.event
        cat, name = event.get("cat") or "", event.get("name") or ""
        kind = KIND_OF_TYPE.get(cat, Kind.OTHER)
        if kind is Kind.RUNTIME:
            kind = Kind(runtime_kind(name.encode()))
        if kind is Kind.STEP:
            build.consts["step"] = step_number(name)
        readable, raw = self.demangler.one(name)
        build.consts |= {"kind": str(kind), "name": readable if "name" in event.members else None, "raw_name": raw}
        self._times(build)
        taken = set(_DROPPED)
        if kind in DEVICE_WORK:
            build.flags |= DEVICE
            build.integer("device", event.members.get("pid"))
            build.integer("stream", event.members.get("tid"))
            for key, columns in _SHAPES:
                sizes = event.items(event.args[key]) if key in event.args else []
                if len(sizes) == 3:
                    for column, size in zip(columns, sizes, strict=True):
                        build.integer(column, size)
                    taken.add(key)
            if kind is Kind.MEMCPY and (found := _COPY.match(name)):
                build.consts["copy_kind"] = found[1]
        else:
            build.flags |= HOST
            self._lane(build)
        for column, key in _INTEGERS:
            member = event.args.get(key)
            if member is not None and key == "bytes" and member.raw.startswith(b"-"):
                build.notes["bytes-overflow"] = _OVERFLOW
            device_only = column not in ("correlation", "bytes") and kind not in DEVICE_WORK
            if member is not None and not device_only and member.raw[:1].isdigit() and build.integer(column, member):
                taken.add(key)
        if kind is Kind.OTHER or cat in LAUNCHES:
            build.keep(event.members.get("cat"))
        build.keep_rest(taken, _TOP)

    def _memory(self, build: Build) -> None:
        event = build.event
        build.time("ts_ns", event.members.get("ts"))
        self._lane(build)
        cat = event.get("cat") or ""
        if KIND_OF_TYPE.get(cat) is Kind.MEMORY:
            build.consts |= {"kind": str(Kind.MEMORY), "name": cat, "raw_name": event.get("name")}
            taken = {"increase_bytes"} if build.integer("bytes", event.args.get("increase_bytes")) else set()
            build.keep_rest(taken, _TOP)
        else:
            build.consts["kind"] = str(Kind.MARK)
            build.keep(event.members.get("cat"))
            build.keep_rest((), _TOP)

    def _watch(self, rows: EventRows) -> None:
        if self.host is None:
            pid, known = rows.ints("pid")
            host = rows.has(HOST) & known
            if host.any():
                self.host = int(pid[host][0])
        device, known = rows.ints("device")
        if known.any():
            self.devices.update(sets.unique(device[known]).tolist())

    def _finished(self, rows: EventRows) -> pa.RecordBatch:
        columns, count = rows.columns, rows.count
        relative = rows.has(RELATIVE)
        if relative.any():
            ts = columns["ts_ns"].to_numpy()
            whole, _ = rows.ints("scratch_0")
            far = relative & (whole >= MAX_NS // 1000)
            if far.any():
                self.reading.ledger.drop("bad-time", int(far.sum()), text="dropped: times beyond 146 years")
                rows = rows.take(~far)
                return self._finished(rows)
            exact = np.clip(ts + (self.base_ns or 0), whole * 1000, whole * 1000 + 999)
            columns["ts_ns"] = pa.array(np.where(relative, exact, ts))
        on_device = rows.has(DEVICE)
        if self.host is not None and on_device.any():
            pid = events.filled(columns.get("pid"), count, pa.int64())
            columns["pid"] = events.where(on_device, pa.array(np.full(count, self.host)), pid)
        events.move_arrows(rows, self.host, self.devices)
        for name in SCRATCH:
            columns.pop(name, None)
        self.reading.ledger.kept += count
        return self.reading.batch(rows)

    def _name_everything(self) -> None:
        reading = self.reading
        run, names, source = reading.run, reading.names, reading.options.source
        facts = run.sources[0].facts
        facts |= {k: v for k, v in reading.facts.items() if k != "traceEvents"}
        facts["base_uncertainty_ns"] = self.uncertainty_ns
        found = reading.facts.get("deviceProperties")
        for device in found if isinstance(found, list) else []:
            if isinstance(device, dict) and isinstance(device.get("id"), int) and isinstance(device.get("name"), str):
                run.devices[source, device["id"]] = device["name"]
        for pid, text in names.processes.items():
            if pid == self.host or pid not in self.devices:
                run.processes[source, pid] = text
        for (pid, tid), text in names.threads.items():
            if pid == self.host or pid not in self.devices:
                match = _THREAD_NAME.fullmatch(text)
                run.threads[source, pid, tid] = match[1] if match else text


def survey(source: Source, ledger: Ledger) -> tuple[int | None, int | None]:
    """Return the Unix time in ns from which start_time counts, and its uncertainty in ns; None if it is not known.

    For each event ts us <= base + start < ts us + 1 us, where a start is as exact as a 32-bit float. Nothing is raised:
    a file whose events contradict each other gets the base of its first event.
    """
    times: list[int] = []
    starts: list[int] = []
    rest, read = b"", 0
    for chunk in source.text_chunks(Ledger()):
        text = rest + plain_numbers(chunk)
        for match in _TIMED.finditer(plain_numbers(text)):
            ts = int(match[1]) * 1000
            if ts < MAX_NS:
                times.append(ts)
                starts.append(int(match[2]) * 1000 + int(match[3]))
        rest, read = text[-4096:], read + len(chunk)
        if read > _SURVEY_BYTES:
            break
    if not times:
        return None, None
    ts_ns, start_ns = np.array(times), np.array(starts)
    # Paddle converts the ns to a 32-bit float, then to one of us: each conversion may be off by half a step.
    halves = np.spacing(start_ns.astype(np.float32)) / 2 + np.spacing((start_ns / 1000).astype(np.float32)) * 500
    off = np.where(start_ns < _EXACT_NS, 0, np.ceil(halves)).astype(np.int64)
    low, high = int((ts_ns - start_ns - off).max()), int((ts_ns - start_ns + off).min()) + 999
    if not 0 <= high - low < 1000:
        ledger.note("times-disagree", "ts and start_time disagree on the begin of the trace: ts is used")
        return times[0] - starts[0], 1000
    return (low + high) // 2, (high - low + 1) // 2

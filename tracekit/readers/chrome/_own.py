"""Chrome traces that tracekit wrote (see writers/chrome/trace.py): rows come back to their lanes.

`tracekit.lanes` at the end of the file has the meaning of each thread of the viewer; args hold the columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import PurePath

import numpy as np
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import I64, Mask
from tracekit.model.schema import KINDS, Kind
from tracekit.model.trace import SourceFacts, with_archived
from tracekit.readers.builder import event_batch
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.columns import SCRATCH, Planner
from tracekit.readers.trace_event.events import EventReading
from tracekit.readers.trace_event.look import BEGIN, END
from tracekit.readers.trace_event.pairs import Pairs
from tracekit.readers.trace_event.plan import FACT, PAIRED, Build, EventRows, Member, members_of

_SHAPES = (("grid", ("grid_x", "grid_y", "grid_z")), ("block", ("block_x", "block_y", "block_z")))
_SIZES = ("bytes", "registers", "static_smem_bytes", "dynamic_smem_bytes")
_ARROWS = {"launch": "launch arrow", "bind_id": "arrow of a bind_id"}
"""Categories of points that the writer adds: the rows have what they say."""
_WHOLE = ("correlation", "step", *_SIZES, "device", "context", "stream", *_SHAPES[0][1], *_SHAPES[1][1])
_TEXTS = ("raw_name", "copy_kind")
_LANE = ("source", "rank", "process", "device", "context", "stream", "thread")
_PROCESS = re.compile(r"(?:rank -?\d+ · )?(?:(?P<name>.*) \(process (?P<pid>[^()]*)\)|process [^()]*)", re.DOTALL)
_DEVICE = re.compile(r"(?:rank -?\d+ · )?(?:.* · )?GPU (?P<name>.*?)(?: \(process [^()]*\))?", re.DOTALL)
_THREAD = re.compile(r"(?P<name>.*) \(thread [^()]*\)", re.DOTALL)
_STREAM = re.compile(r"stream (?P<id>\S+) (?P<name>.+?)(?:, context \S+)?", re.DOTALL)


Lane = dict[str, object]


def own_facts(facts: Mapping[str, object]) -> tuple[dict[str, object], list[Lane]] | None:
    """Return our own member beside the events, and its lanes; None for a file of another program."""
    own = facts.get("tracekit")
    lanes = own.get("lanes") if isinstance(own, dict) else None
    if not isinstance(own, dict) or not isinstance(lanes, list):
        return None
    good = all(isinstance(lane, dict) and isinstance(lane.get("tid"), int) for lane in lanes)
    return (own, lanes) if good else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


class OwnReading:
    """One file of our own, with its own facts and lanes."""

    def __init__(self, reading: EventReading, own: dict[str, object], lanes: list[Lane]) -> None:
        self.reading = reading
        self._own, self._stored_lanes = own, lanes
        origin = self._own.get("origin_ns")
        reading.run.origin_ns = origin if isinstance(origin, int) and not isinstance(origin, bool) else None
        base = reading.facts.get("baseTimeNanoseconds")
        self._offset = (base if isinstance(base, int) else 0) - (reading.run.origin_ns or 0)
        self._lanes = self._table()
        self._pairs = Pairs(reading.ledger)
        self._take_sources()

    def _table(self) -> dict[str, tuple[I64, Mask]]:
        """Return by the viewer's tid: value and known of each part of a lane, and whether it is a device's."""
        lanes = [(tid, lane) for lane in self._stored_lanes if 0 <= (tid := _whole(lane["tid"]) or 0) < 1 << 24]
        size = max((tid for tid, _ in lanes), default=0) + 1
        out = {}
        for key in (*_LANE, "on_device"):
            values, known = np.zeros(size, np.int64), np.zeros(size, np.bool_)
            for tid, lane in lanes:
                value = lane.get("side") == "device" if key == "on_device" else lane.get(key)
                if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
                    values[tid], known[tid] = value, True
            out[key] = values, known
        return out

    def _take_sources(self) -> None:
        run = self.reading.run
        stored = self._own.get("sources")
        taken = []
        for one in stored if isinstance(stored, list) else ():
            if isinstance(one, dict) and isinstance(one.get("path"), str) and isinstance(one.get("facts", {}), dict):
                known = {k: one[k] for k in SourceFacts.__dataclass_fields__ if k in one}
                taken.append(SourceFacts(**{"format": "chrome-trace"} | known))
        if taken:
            run.sources[:] = taken
        run.sources[0].facts = with_archived(run.sources[0].facts, self._own.get("ledger"))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; the run has its names afterwards."""
        planner = Planner(self.look, self.reading.ledger)
        with closing(self._pairs):
            for rows in events.planned(self.reading, planner):
                paired = rows.has(PAIRED)
                if paired.any():
                    self._take_pairs(rows.take(paired))
                    rows = rows.take(~paired)
                if rows.count:
                    self._place(rows)
                    self.reading.ledger.kept += rows.count
                    self.reading.ledger.events_out += rows.count
                    yield event_batch(rows.count, rows.columns)
            yield from self._pairs.batches()
        self._name_everything()

    def _take_pairs(self, rows: EventRows) -> None:
        begins = rows.flag(lambda build: build.phase == BEGIN)
        identity, _ = rows.ints("scratch_2")
        none = np.zeros(rows.count, np.int64)
        self._place(rows)
        source = rows.columns.pop("source")
        self._pairs.add(rows, source, begins, (identity, none, none))

    def look(self, build: Build) -> None:
        """Put into `build` what its event is."""
        event = build.event
        phase, cat = event.get("ph"), event.get("cat")
        if phase == "M":
            self._metadata(build)
            return
        if phase in ("s", "t", "f") and cat in _ARROWS:
            build.ignore(_ARROWS[cat])
            return
        events.named(build)
        build.consts["kind"] = cat if cat in KINDS else Kind.OTHER
        build.time("ts_ns", event.members.get("ts"))
        build.integer("scratch_0", event.members.get("tid"))
        if phase == "X":
            build.time("dur_ns", event.members.get("dur"))
        elif phase in ("b", "e"):
            build.phase = BEGIN if phase == "b" else END
            build.flags |= PAIRED
            build.integer("scratch_2", event.members.get("id"))
        args = dict(event.args)
        beside = event.members.get("tracekit")
        if beside is not None and beside.raw[:1] == b"{":
            args |= members_of(event.text, beside)
        if not args.keys() & {"name", "raw_name"}:
            build.named = events.as_it_is
        self._take(build, args)

    def _take(self, build: Build, args: dict[str, Member]) -> None:
        event, taken = build.event, set[str]()
        for column in _WHOLE:
            if build.integer(column, args.get(column)):
                taken.add(column)
        for key, columns in _SHAPES:
            sizes = event.items(args[key]) if key in args else []
            if len(sizes) == 3:
                for column, size in zip(columns, sizes, strict=True):
                    build.integer(column, size)
                taken.add(key)
        if build.integer("scratch_1", args.get("tid")):
            taken.add("tid")
        if build.number("value", args.get("value")):
            taken.add("value")
        if "dur_ns" in args and not build.exact:
            build.odd = True
        elif "dur_ns" in args:
            build.consts["dur_ns"] = int(args["dur_ns"].raw)
            build.times.pop("dur_ns", None)
            taken.add("dur_ns")
        for column in _TEXTS:
            if (text := args[column].text() if column in args else None) is not None:
                build.consts[column] = text
                taken.add(column)
        if "name" in args and args["name"].is_null():
            build.consts["name"] = None
            taken.add("name")
        rest = {k: m for k, m in args.items() if k not in taken}
        if "args_text" in rest and (text := rest["args_text"].text()) is not None:
            build.consts["args"] = text
        elif "args" in rest and rest["args"].raw[:1] == b"{":
            inner = members_of(event.text, rest["args"])
            build.keep(*inner.values())
            if not inner:
                build.consts["args"] = "{}"
        else:
            build.keep(*rest.values())

    def _metadata(self, build: Build) -> None:
        event = build.event
        build.fate = FACT
        build.integer("pid", event.members.get("pid"))
        build.integer("tid", event.members.get("tid"))
        build.metadata = event.get("name") or "", event.arg("name") or ""

    def _place(self, rows: EventRows) -> None:
        """Put rows on the lanes that they came from, on the clock they came with."""
        columns, count = rows.columns, rows.count
        columns["ts_ns"] = arrow.array(columns["ts_ns"].to_numpy() + self._offset)
        viewer, known = rows.ints("scratch_0")
        size = len(self._lanes["source"][0])
        lane = np.where(known & (viewer >= 0) & (viewer < size), viewer, 0)
        device_side = self._lanes["on_device"][0][lane] == 1
        columns["source"] = arrow.array((self._lanes["source"][0][lane] + self.reading.options.source).astype(np.int32))
        for column, key, kind in (("rank", "rank", pa.int32()), ("pid", "process", pa.int64())):
            values, there = self._lanes[key]
            columns[column] = arrow.array(values[lane], mask=~there[lane]).cast(kind)
        own_tid = events.filled(columns.get("scratch_1"), count, pa.int64())
        thread, there = self._lanes["thread"]
        columns["tid"] = events.where(device_side, own_tid, arrow.array(thread[lane], mask=~there[lane]))
        for column, kind in (("device", pa.int32()), ("context", pa.int64()), ("stream", pa.int64())):
            values, there = self._lanes[column]
            of_lane = arrow.array(values[lane], mask=~there[lane]).cast(kind)
            own = events.filled(columns.get(column), count, kind)
            columns[column] = events.where(device_side, of_lane, own)
        for name in SCRATCH:
            columns.pop(name, None)

    def _input_before_name(self, number: int) -> str:
        """Return the input that the writer puts before the names of processes where there are several."""
        sources = self.reading.run.sources
        if len(sources) < 2 or not 0 <= number < len(sources):
            return ""
        return f"{sources[number].label or PurePath(sources[number].path).name} · "

    def _name_everything(self) -> None:
        run, names = self.reading.run, self.reading.names
        for lane in self._stored_lanes:
            number = _whole(lane.get("source")) or 0
            source = number + self.reading.options.source
            shown = _whole(lane.get("pid")) or 0
            process = names.processes.get(shown, "")
            thread = names.threads.get((shown, _whole(lane["tid"]) or 0), "")
            if lane.get("side") == "device":
                device, stream_id = _whole(lane.get("device")), _whole(lane.get("stream"))
                found = _DEVICE.fullmatch(process)
                if found and (name := found["name"].removeprefix(str(device)).strip()):
                    run.devices[source, device] = name
                if (stream := _STREAM.fullmatch(thread)) and stream["id"] == str(stream_id):
                    run.streams[source, device, stream_id] = stream["name"]
                continue
            owner = _whole(lane.get("process"))
            if (found := _PROCESS.fullmatch(process)) and found["name"]:
                run.processes[source, owner] = found["name"].removeprefix(self._input_before_name(number))
            if (found := _THREAD.fullmatch(thread)) and found["name"]:
                run.threads[source, owner, _whole(lane.get("thread"))] = found["name"]

"""Perfetto traces that tracekit wrote (see writers/perfetto): rows come back to their lanes, on their clock.

The last packet has the facts of the file, with the lane of each track. Categories are kinds, and annotations hold the
columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import orjson
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, Mask, pc
from tracekit.model.trace import Run, SourceFacts, with_archived
from tracekit.model.units import MAX_NS
from tracekit.readers.builder import Values
from tracekit.readers.engine.protobuf import INT64_MAX
from tracekit.readers.engine.wire import WireMessage
from tracekit.readers.packets.rows import LAST
from tracekit.readers.perfetto._own_args import SMALL, TEXTS, WIDE, columns_of, naming_columns
from tracekit.readers.perfetto._tracks import Key, Tracks

_NARROW = ("source", "rank", "device")
_MOST_NARROW = 1 << 30
_INPUT = 1 << 48
"""Ids on slices from here on are arrows of the input."""
_DEVICE = re.compile(r"(?:rank -?\d+ · )?(?:.* · )?GPU (?P<name>.*?)(?: \(process [^()]*\))?", re.DOTALL)
_NAMED = re.compile(r"(?P<name>.*) \((?:process|thread) [^()]*\)", re.DOTALL)
Facts = dict[str, object]


def facts_of(data: bytes) -> Facts | None:
    """Return our facts out of a ChromeEventBundle, None for another one."""
    for each in map(WireMessage, WireMessage(data).each(2)):
        if each.text(1) == "tracekit":
            try:
                facts = orjson.loads(each.bytes(2))
            except orjson.JSONDecodeError:
                return None
            lanes = facts.get("lanes") if isinstance(facts, dict) else None
            good = isinstance(lanes, list) and all(isinstance(lane, dict) for lane in lanes)
            times = [facts.get("base_ns"), facts.get("origin_ns") or 0] if good else []
            return facts if good and all(isinstance(time, int) and abs(time) < MAX_NS // 2 for time in times) else None
    return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT64_MAX else None


def _fitting(value: object, *, small: bool) -> int | None:
    number = _whole(value)
    return None if number is None or (small and abs(number) > _MOST_NARROW) else number


class Own:
    """The lanes and the clock of a file of our own."""

    def __init__(self, facts: Facts, tracks: Tracks, run: Run, source: int) -> None:
        self._tracks, self._run, self._source = tracks, run, source
        stored = facts["lanes"]
        self._lanes: dict[int, Mapping[str, object]] = {}
        self._processes: dict[int, Mapping[str, object]] = {}
        for lane in stored if isinstance(stored, list) else ():
            self._lanes.setdefault(_whole(lane.get("tid")) or 0, lane)
            self._processes.setdefault(_whole(lane.get("pid")) or 0, lane)
        origin = _whole(facts.get("origin_ns"))
        run.origin_ns = origin
        self.shift = (_whole(facts["base_ns"]) or 0) - (origin or 0)
        self._take_sources(facts)

    def _take_sources(self, facts: Facts) -> None:
        stored = facts.get("sources")
        taken = []
        for one in stored if isinstance(stored, list) else ():
            if isinstance(one, dict) and isinstance(one.get("path"), str) and isinstance(one.get("facts", {}), dict):
                known = {key: one[key] for key in SourceFacts.__dataclass_fields__ if key in one}
                taken.append(SourceFacts(**{"format": "perfetto"} | known))
        if taken:
            self._run.sources[:] = taken
        first = self._run.sources[0]
        first.facts = with_archived(first.facts, facts.get("ledger"))

    def lane(self, key: Key) -> Mapping[str, object]:
        """Return the facts of the lane of a track; of a counter those of its process."""
        lane = self._lanes.get(key[1]) if key[0] == "uuid" else None
        if lane is not None:
            return lane
        described = self._tracks.described.get(key[1])
        process = self._processes.get(described.parent or 0, {}) if described is not None else {}
        return {**process, "context": None, "stream": None, "thread": None}

    def columns(
        self, keys: list[Key], place: I64, args: Column, held: Mapping[str, Column], known: Mapping[str, Column]
    ) -> dict[str, Values]:
        """Return lanes, and the columns that arguments hold.

        place: the track of each row among `keys`. held: columns that were taken out of the arguments. known: columns
        that the rows have without arguments, which overrule them.
        """
        lanes = [self.lane(key) for key in keys]
        device = np.array([lane.get("side") == "device" for lane in lanes], np.bool_)[place]
        out: dict[str, Values] = {}
        if args.null_count < len(args):
            out |= self._columns_in(args)
        for columns in (held, known):
            for column, values in columns.items():
                stated = out.get(column)
                out[column] = pc.coalesce(stated, values) if isinstance(stated, pa.Array) else values
        for column, key, kind in (
            ("source", "source", pa.int32()),
            ("rank", "rank", pa.int32()),
            ("pid", "process", pa.int64()),
            ("device", "device", pa.int32()),
            ("context", "context", pa.int64()),
            ("stream", "stream", pa.int64()),
            ("tid", "thread", pa.int64()),
        ):
            of_lane = arrow.take(
                arrow.array([_fitting(lane.get(key), small=column in _NARROW) for lane in lanes], kind), place
            )
            if column == "source":
                of_lane = arrow.array((arrow.ints(of_lane) + self._source).astype(np.int32))
            own = out.get(column)
            if column in ("device", "context", "stream"):
                out[column] = _either(device, of_lane, own)
            elif column == "tid":
                out[column] = _either(~device, of_lane, own)
            else:
                out[column] = of_lane
        return out

    @staticmethod
    def _columns_in(args: Column) -> dict[str, Column]:
        """Return the columns that arguments hold, and `args`: what is left of these."""
        no_text = pa.scalar(None, pa.string())
        # Most of them name no column: they stay as they are, and are not taken apart.
        naming = naming_columns(args)
        rest = pc.if_else(pc.equal(args, "{}"), no_text, args)
        if naming is None:
            return {"args": rest}
        encoded = arrow.encoded(pc.if_else(arrow.array(naming), args, no_text))
        codes = arrow.codes(encoded).astype(np.int64)
        codes[codes < 0] = len(encoded.dictionary)
        arguments = columns_of(encoded.dictionary)
        out = {
            column: arrow.take(arguments[column], codes)
            for column in (*SMALL, *WIDE, *TEXTS, "value")
            if arguments[column].null_count < len(arguments[column])
        }
        out["args"] = pc.if_else(arrow.array(naming), arrow.take(arguments["args"], codes), rest)
        return out

    @staticmethod
    def is_arrow(table: pa.Table) -> Mask:
        """Return which points are those of arrows of the input: the others were made from launches."""
        number, value = arrow.ints(table.column("number")), arrow.floats(table.column("value"))
        return (number >= _INPUT) | (value > LAST)

    @staticmethod
    def arrow_ids(number: I64) -> I64:
        """Return the ids of arrows as they were in the input."""
        return np.where(number >= _INPUT, number - _INPUT, number)

    def name_run(self) -> None:
        """Give the run the names of its lanes."""
        run, tracks = self._run, self._tracks
        for number, lane in self._lanes.items():
            source = self._source + (_whole(lane.get("source")) or 0)
            shown = tracks.processes.get(_whole(lane.get("pid")) or 0, "")
            described = tracks.described.get(number)
            text = described.name if described is not None else ""
            if described is not None and described.tid is not None:
                text = tracks.threads.get((described.pid or 0, described.tid), "")
            if lane.get("side") == "device":
                device, stream = _whole(lane.get("device")), _whole(lane.get("stream"))
                match = _DEVICE.fullmatch(shown)
                if device is not None and match and (name := match["name"].removeprefix(str(device)).strip()):
                    run.devices[source, device] = name
                named = re.fullmatch(rf"stream {stream} (?P<name>.+?)(?:, context \S+)?", text, re.DOTALL)
                if named:
                    run.streams[source, device, stream] = named["name"]
                continue
            process = re.sub(r"^rank -?\d+ · ", "", shown)
            owner = _whole(lane.get("process"))
            if match := _NAMED.fullmatch(process):
                run.processes[source, owner] = match["name"]
            if match := _NAMED.fullmatch(text):
                run.threads[source, owner, _whole(lane.get("thread"))] = match["name"]


def _either(first: np.ndarray, one: Column, other: Values) -> Column:
    """Return `one` in the rows of `first`, and `other` in the others."""
    second = other if isinstance(other, pa.Array) else arrow.nulls(len(one), one.type)
    return pc.if_else(arrow.array(first), one, second)

"""Rows of tracks as rows of our schema: lanes, names, kinds, and the flow events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, DictColumn, Mask, pc
from tracekit.model.schema import KINDS, Kind
from tracekit.model.trace import Ledger
from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import IdTable, Values, chosen, event_batch
from tracekit.readers.names import Demangler
from tracekit.readers.packets.rows import (
    ARROWS,
    BEGIN,
    COUNTER,
    FINISH,
    HELD,
    LAST,
    MARK,
    PIECE_ROWS,
    PLAIN,
    START,
    STEP,
    WHOLE,
    in_pieces,
)
from tracekit.readers.packets.texts import PacketTexts, distinct
from tracekit.readers.perfetto._held import args_with_held, columns_held
from tracekit.readers.perfetto._own import Own
from tracekit.readers.perfetto._tracks import PerfettoLane, Tracks
from tracekit.readers.rocm import DESCRIPTOR

_BY_CATEGORY = {
    "hip_api": Kind.RUNTIME,
    "hip_runtime_api": Kind.RUNTIME,
    "hip_compiler_api": Kind.RUNTIME,
    "hsa_api": Kind.DRIVER,
    "rccl_api": Kind.COMMUNICATION,
    "kernel_dispatch": Kind.KERNEL,
    "memory_copy": Kind.MEMCPY,
}
"""Categories of rocprofv3 and, with "rocm_" before them, of rocprof-sys."""
_DEVICE_CATEGORIES = frozenset({"kernel_dispatch", "memory_copy", "rocm_kernel_dispatch", "rocm_memory_copy"})
_COPY = re.compile(r"(?:.*_)?(HOST|DEVICE)_TO_(HOST|DEVICE)", re.ASCII)
_KINDS = tuple(Kind)
_CALLS = [_KINDS.index(kind) for kind in (Kind.RUNTIME, Kind.DRIVER)]
_PHASES = {START: '{"ph":"s"', STEP: '{"ph":"t"', FINISH: '{"ph":"f"'}
_AGENT = r'"agent":"[^"]*?(?P<agent>[0-9]{1,6})"'
_CORRELATION = r'"corr_id":(?P<correlation>[0-9]{1,18})[,}]'


def slice_kind(category: str, name: str) -> tuple[Kind, str | None]:
    """Return the kind of a slice, and the direction of a copy.

    >>> slice_kind("memory_copy", "MEMORY_COPY_HOST_TO_DEVICE")
    (<Kind.MEMCPY: 'memcpy'>, 'HtoD')
    """
    kind = _BY_CATEGORY.get(category.removeprefix("rocm_"), Kind.USER_RANGE)
    if kind is Kind.MEMCPY and (copy := _COPY.fullmatch(name)):
        return kind, f"{copy[1][0]}to{copy[2][0]}"
    return kind, None


class PerfettoLanes:
    """Makes batches of our schema. All descriptors of the file are known by now."""

    def __init__(
        self, tracks: Tracks, texts: PacketTexts, options: ReadOptions, ledger: Ledger, own: Own | None
    ) -> None:
        self._tracks, self._texts, self._options, self._ledger = tracks, texts, options, ledger
        self._names = Demangler(ledger, enabled=options.demangle)
        self._own = own
        self._flows = IdTable(tracks.run, "correlation", options.source)
        self._lanes: dict[int, PerfettoLane] = {}
        self._agents: dict[int, int] = {}
        """The device of each track with work of a device."""
        self._arrow = (-1, -1)
        """Name and category of the arrow that was met last."""
        self.empty = texts.code("")
        """The number of the empty text."""

    def close(self) -> None:
        """End the demangler's child."""
        self._names.close()

    def add(self, tracks: I64) -> None:
        """Give lanes to tracks that will have rows, in this order."""
        for track in tracks.tolist():
            self._lane(track)

    def _lane(self, track: int) -> PerfettoLane:
        lane = self._lanes.get(track)
        if lane is None:
            lane = self._lanes[track] = self._tracks.lane(track)
        return lane

    def name_run(self) -> None:
        """Give the run the names of what has rows."""
        if self._own is not None:
            self._own.name_run()
            return
        self._tracks.name_run(list(self._lanes.values()))

    def spelled(self, rows: pa.Table) -> pa.Table:
        """Return rows with the columns that they hold in `args`."""
        shape = arrow.ints(rows.column("shape"))
        if not shape.any():
            return rows
        args = args_with_held(shape, arrow.in_one(rows.column("held")), arrow.in_one(rows.column("args")), self._texts)
        for name, values in (
            ("args", args),
            ("shape", arrow.array(np.zeros(len(shape), np.int64))),
            ("held", arrow.nulls(len(shape), HELD)),
        ):
            rows = arrow.with_column(rows, name, values)
        return rows

    def batch(self, rows: pa.Table, dur: I64, args: Column) -> pa.RecordBatch:
        """Return rows. dur: shape (n,), -1 for none."""
        if self._own is not None:
            return self._own_batch(rows, self._own, dur, args)
        count = rows.num_rows
        shape = arrow.ints(rows.column("shape"))
        if shape.any():
            args = args_with_held(shape, arrow.in_one(rows.column("held")), args, self._texts)
        what = arrow.ints(rows.column("what"))
        track = arrow.ints(rows.column("track"))
        name, category = (arrow.ints(rows.column(each)) for each in ("name", "category"))
        tracks, place = distinct(track)
        name = self._counter_names(name, what, track)
        lanes = [self._lane(each) for each in tracks.tolist()]
        places = self._places(lanes, place)
        of_gpu = np.array([lane.work for lane in lanes], np.bool_)[place]
        kind, copy, device_work = self._kinds(what, name, category, of_gpu)
        if any(lane.device is not None for lane in lanes):
            devices = arrow.array([lane.device for lane in lanes], pa.int32())
            streams = arrow.array([lane.stream if lane.work else None for lane in lanes], pa.int64())
            places |= {"device": arrow.take(devices, place), "stream": arrow.take(streams, place)}
        if device_work.any():
            places |= self._device(places, args, device_work, lanes, place)
            self._agents |= _first_known(tracks, place, places["device"])
        calls = np.isin(arrow.codes(kind), _CALLS)
        if (named := device_work | calls).any():
            places["correlation"] = _correlations(pc.if_else(arrow.array(named), args, pa.scalar(None, pa.string())))
        columns: dict[str, Values] = {**places, "kind": kind, "copy_kind": copy}
        columns["name"], columns["raw_name"] = self._plain(self._texts_of(name), device_work)
        columns |= {"ts_ns": rows.column("ts").combine_chunks(), "event_id": rows.column("packet").combine_chunks()}
        columns["dur_ns"] = arrow.array(dur, mask=dur < 0)
        counters = what == COUNTER
        if counters.any():
            columns["tid"] = pc.if_else(arrow.array(counters), pa.scalar(None, pa.int64()), places["tid"])
            columns["value"] = arrow.array(arrow.floats(rows.column("value")), mask=~counters)
        columns["args"] = self._with_category(args, category)
        columns["source"] = self._options.source
        self._ledger.events_out += count
        return event_batch(count, columns)

    def _own_batch(self, rows: pa.Table, own: Own, dur: I64, args: Column) -> pa.RecordBatch:
        """Return rows of a trace that tracekit wrote."""
        count = rows.num_rows
        what, track = arrow.ints(rows.column("what")), arrow.ints(rows.column("track"))
        tracks, place = distinct(track)
        counters = what == COUNTER
        values = arrow.nulls(count, pa.float64())
        if counters.any():
            values = arrow.array(arrow.floats(rows.column("value")), mask=~counters)
        shape = arrow.ints(rows.column("shape"))
        columns: dict[str, Values] = {
            "name": self._texts_of(self._counter_names(arrow.ints(rows.column("name")), what, track)),
            "ts_ns": arrow.array(arrow.ints(rows.column("ts")) + own.shift),
            "event_id": rows.column("packet").combine_chunks(),
            "kind": self._own_kinds(arrow.ints(rows.column("category"))),
        }
        known = {"dur_ns": arrow.array(dur, mask=dur < 0), "value": values}
        held = columns_held(shape, arrow.in_one(rows.column("held")), self._texts) if shape.any() else {}
        columns |= own.columns([self._tracks.keys[each] for each in tracks.tolist()], place, args, held, known)
        self._ledger.events_out += count
        return event_batch(count, columns)

    def _own_kinds(self, category: I64) -> DictColumn:
        groups, group = distinct(category)
        texts = ["" if code < 0 else self._texts.all[code] for code in groups.tolist()]
        kinds = [text if text in KINDS else str(Kind.OTHER) for text in texts]
        return arrow.encoded(arrow.take(arrow.array(kinds, pa.string()), group))

    def _counter_names(self, name: I64, what: I64, track: I64) -> I64:
        """Return the names of rows; a counter has that of its track."""
        rows = np.flatnonzero((what == COUNTER) & (name < 0))
        if not len(rows):
            return name
        tracks, place = distinct(track[rows])
        codes = [self._texts.code(self._tracks.counter_name(each)) for each in tracks.tolist()]
        out = name.copy()
        out[rows] = np.array(codes, np.int64)[place]
        return out

    def _texts_of(self, codes: I64) -> DictColumn:
        used, place = distinct(codes)
        texts = [None if code < 0 else self._texts.all[code] for code in used.tolist()]
        if None not in texts:
            return pa.DictionaryArray.from_arrays(place.astype(np.int32), arrow.array(texts, pa.string()))
        return arrow.encoded(arrow.take(arrow.array(texts, pa.string()), place))

    @staticmethod
    def _places(lanes: list[PerfettoLane], place: I64) -> dict[str, Column]:
        out: dict[str, Column] = {}
        for column in ("pid", "tid"):
            values = [getattr(lane, column) for lane in lanes]
            out[column] = arrow.take(arrow.array(values, pa.int64()), place)
        return out

    def _kinds(self, what: I64, name: I64, category: I64, of_gpu: Mask) -> tuple[DictColumn, Column, Mask]:
        """Return kind and direction of each row, and whether it is work of a device by its category."""
        groups, group = distinct(category)
        texts = ["" if code < 0 else self._texts.all[code] for code in groups.tolist()]
        copies = np.array([text.endswith("memory_copy") for text in texts], np.bool_)[group]
        device = np.array([text in _DEVICE_CATEGORIES for text in texts], np.bool_)[group]
        slices = (what == BEGIN) | (what == WHOLE)
        kinds = np.array([_KINDS.index(slice_kind(text, "")[0]) for text in texts], np.int32)[group]
        kinds[of_gpu] = _KINDS.index(Kind.KERNEL)
        kinds[what == MARK] = _KINDS.index(Kind.MARK)
        kinds[what == COUNTER] = _KINDS.index(Kind.COUNTER)
        copy: list[str | None] = [None] * len(what) if not copies.any() else self._directions(name, copies & slices)
        column = pa.DictionaryArray.from_arrays(kinds, arrow.array([str(kind) for kind in _KINDS], pa.string()))
        return column, arrow.array(copy, pa.string()), device & slices

    def _directions(self, name: I64, copies: Mask) -> list[str | None]:
        return [
            slice_kind("memory_copy", self._texts.all[code])[1] if is_copy and code >= 0 else None
            for code, is_copy in zip(name.tolist(), copies.tolist(), strict=True)
        ]

    def _device(
        self, places: dict[str, Column], args: Column, work: Mask, lanes: list[PerfettoLane], place: I64
    ) -> dict[str, Column]:
        """Return device, stream and thread of work of a device and of other rows."""
        nothing = pa.scalar(None, pa.string())
        args_of_work = pc.if_else(arrow.array(work), args, nothing)
        agent = pc.struct_field(pc.extract_regex(args_of_work, _AGENT), "agent").cast(pa.int32())
        streams = arrow.take(arrow.array([lane.stream for lane in lanes], pa.int64()), place)
        no_id = pa.scalar(None, pa.int64())
        return {
            "device": agent,
            "stream": pc.if_else(arrow.array(work), streams, no_id),
            "tid": pc.if_else(arrow.array(work), no_id, places["tid"]),
        }

    def _plain(self, names: DictColumn, work: Mask) -> tuple[DictColumn, DictColumn | None]:
        """Return names and raw names; those of kernels without the ending of their descriptors."""
        cut = pc.replace_substring_regex(names.dictionary, DESCRIPTOR, "")
        changed = np.append(arrow.bools(pc.not_equal(cut, names.dictionary)), False)
        ends = work & changed[arrow.codes(names)]
        if not ends.any():
            return self._names.columns(names)
        short = pa.DictionaryArray.from_arrays(names.indices, cut)
        names_found, raw = self._names.columns(chosen(ends, short, names))
        return names_found, chosen(ends, names, raw)

    def _with_category(self, args: Column, category: I64) -> Column:
        """Return the args with the category as `cat`."""
        if not np.any(category >= 0):
            return args
        used, place = distinct(category)
        shown = [None if code < 0 else f'{{"cat":{json.dumps(self._texts.all[code])}' for code in used.tolist()]
        first = arrow.take(arrow.array(shown, pa.string()), place)
        rest = _behind_a_comma(args) if args.null_count < len(args) else pa.scalar("}")
        both = pc.binary_join_element_wise(first, rest, "")
        return pc.coalesce(both, args)

    def arrows(self, tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield the flow events. tables: by id and time. The last point of an id ends the arrow."""
        before: pa.Table | None = None
        going = False
        own = self._own
        kept = tables if own is None else (table.filter(arrow.array(own.is_arrow(table))) for table in tables)
        for table in in_pieces(kept, ARROWS):
            for piece in table.combine_chunks().to_batches(max_chunksize=PIECE_ROWS):
                if before is not None:
                    batch, going = self._points(before, going, piece)
                    yield batch
                before = pa.Table.from_batches([piece])
        if before is not None:
            yield self._points(before, going, None)[0]

    def _points(self, table: pa.Table, going: bool, after: pa.RecordBatch | None) -> tuple[pa.RecordBatch, bool]:
        """Return the rows of some points. going: whether an arrow with the id of the first row has begun."""
        number = arrow.ints(table.column("number"))
        meaning = arrow.floats(table.column("value")).astype(np.int64)
        count = len(number)
        following = number[0] if after is None else int(after.column("number")[0].as_py())
        last = np.append(number[1:] != number[:-1], after is None or following != number[-1])
        first = np.append(not going, number[1:] != number[:-1])
        begins = first | np.append(False, (meaning[:-1] == LAST) | (meaning[:-1] == FINISH))
        plain = (meaning == PLAIN) | (meaning == LAST)
        phase = np.where(plain, np.where(begins, START, np.where(last | (meaning == LAST), FINISH, STEP)), meaning)
        going = not bool(last[-1]) if after is not None else False
        bound = phase * 2 + (plain & (phase == FINISH))
        codes, place = distinct(bound)
        shown = [_PHASES[code >> 1] + (',"bp":"e"}' if code & 1 else "}") for code in codes.tolist()]
        args = arrow.take(arrow.array(shown, pa.string()), place)
        track = arrow.ints(table.column("track"))
        tracks, at = distinct(track)
        lanes = [self._lane(each) for each in tracks.tolist()]
        columns: dict[str, Values] = {**self._places(lanes, at), **self._on_devices(tracks, lanes, at)}
        name, category = (arrow.ints(table.column(each)) for each in ("name", "category"))
        if self._own is None:
            name, category = self._of_begins(begins, name, category)
        columns["name"], columns["raw_name"] = self._names.columns(self._texts_of(name))
        identities = number.copy()
        beyond = np.flatnonzero(number < 0)  # of int64: ids have no sign
        ids, which = distinct(number[beyond])
        known = [self._flows.number(each & (1 << 64) - 1) for each in ids.tolist()]
        identities[beyond] = np.array(known, np.int64)[which]
        columns |= {
            "ts_ns": table.column("ts").combine_chunks(),
            "event_id": table.column("packet").combine_chunks(),
            "kind": str(Kind.FLOW),
            "correlation": arrow.array(identities),
            "args": self._with_category(args, category),
            "source": self._options.source,
        }
        if self._own is not None:
            keys = [self._tracks.keys[each] for each in tracks.tolist()]
            columns |= self._own.columns(keys, at, args, {}, {})
            columns["ts_ns"] = arrow.array(arrow.ints(table.column("ts")) + self._own.shift)
            columns["correlation"] = arrow.array(self._own.arrow_ids(number))
        primary = arrow.bools(table.column("primary"))
        self._ledger.kept += int(np.count_nonzero(primary))
        self._ledger.events_out += count
        return event_batch(count, columns), going

    def _of_begins(self, begins: Mask, name: I64, category: I64) -> tuple[I64, I64]:
        """Return name and category of the flow events: those of the first one.

        In a Chrome trace, points of one arrow have one name and one category.
        """
        first = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), -1))
        columns = [np.where(first < 0, old, own[first]) for old, own in zip(self._arrow, (name, category), strict=True)]
        self._arrow = int(columns[0][-1]), int(columns[1][-1])
        return columns[0], columns[1]

    def _on_devices(self, tracks: I64, lanes: list[PerfettoLane], place: I64) -> dict[str, Column]:
        """Return device, stream and thread of points, where some are at work of a device."""
        device = [self._agents.get(track, lane.device) for track, lane in zip(tracks.tolist(), lanes, strict=True)]
        if all(each is None for each in device):
            return {}
        of_agent = [track in self._agents for track in tracks.tolist()]
        stream = [
            lane.stream if on_agent or lane.work else None for on_agent, lane in zip(of_agent, lanes, strict=True)
        ]
        thread = [None if on_agent else lane.tid for on_agent, lane in zip(of_agent, lanes, strict=True)]
        return {
            "device": arrow.take(arrow.array(device, pa.int32()), place),
            "stream": arrow.take(arrow.array(stream, pa.int64()), place),
            "tid": arrow.take(arrow.array(thread, pa.int64()), place),
        }


def _correlations(args: Column) -> Column:
    found: Column = pc.struct_field(pc.extract_regex(args, _CORRELATION), "correlation").cast(pa.int64())
    return found


def _first_known(tracks: I64, place: I64, devices: Column) -> dict[int, int]:
    """Return the device of each track that has one."""
    rows = np.flatnonzero(arrow.valid(devices))
    known, first = np.unique(place[rows], return_index=True)
    return dict(zip(tracks[known].tolist(), arrow.ints(devices)[rows[first]].tolist(), strict=True))


def merged_args(begin: Column, ends: Column, end: I64) -> Column:
    """Return the args of rows with those of their ends. end: which of `ends` a row has, -1 for none."""
    both = np.flatnonzero(end >= 0)
    if not len(both):
        return begin
    first, second = arrow.encoded(arrow.take(begin, both)), arrow.encoded(arrow.take(ends, end[both]))
    ones, twos = ([*arrow.optional_texts(each.dictionary), None] for each in (first, second))
    codes = arrow.codes(first).astype(np.int64) * len(twos) + arrow.codes(second)
    pairs, place = distinct(codes)
    shown = [_two(ones[pair // len(twos)], twos[pair % len(twos)]) for pair in pairs.tolist()]
    merged = arrow.take(arrow.array(shown, pa.string()), place)
    mask = np.zeros(len(begin), np.bool_)
    mask[both] = True
    return pc.replace_with_mask(begin, arrow.array(mask), merged)


def _two(one: str | None, two: str | None) -> str | None:
    if one is None or two is None or one == two:
        return two if one is None else one
    members, more = json.loads(one), json.loads(two)
    added = {key: value for key, value in more.items() if key not in members}
    other = {key: value for key, value in more.items() if key in members and members[key] != value}
    if other:
        added["end_args"] = other
    return json.dumps({**members, **added}, ensure_ascii=False, separators=(",", ":"))


def _behind_a_comma(objects: Column) -> Column:
    """Return JSON objects with a comma in place of their first brace, to be put behind others; "}" for a null."""
    offsets, data = arrow.text_parts(objects)
    data = data.copy()
    begins = offsets[:-1][offsets[1:] > offsets[:-1]]
    data[begins[data[begins] == ord("{")]] = ord(",")
    members = arrow.text_column(offsets.astype(np.int32), data)
    found: Column = pc.if_else(pc.is_null(objects), pa.scalar("}"), members) if objects.null_count else members
    return found

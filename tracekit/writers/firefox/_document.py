"""The profile around the markers: threads, counters, the tables that all threads share, and the facts of the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np
import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import F64, I64, Column, Mask, Rows, pc
from tracekit.model.schema import Kind
from tracekit.model.trace import Run
from tracekit.writers.gzipped import Sink
from tracekit.writers.json_text import OWN_KEYS, facts_json, parsed
from tracekit.writers.tracks.batch import (
    COUNTER,
    NOT_WRITTEN,
    NUMBERS,
    SHAPES,
    SLICE,
    Batch,
    Codes,
    classes,
    number_pieces,
    own_numbers,
    value_codes,
)
from tracekit.writers.tracks.digits import Millis, Piece, fixed_rows
from tracekit.writers.tracks.lanes import Track, TrackLanes
from tracekit.writers.tracks.nested import CounterNumbers
from tracekit.writers.tracks.output import Spool
from tracekit.writers.tracks.texts import quoted

# The fields of a marker: texts by their number in the string table, members of args as texts, and their schema.


MOST_KEYS = 500
"""Most keys of args that become fields of their own: every schema lists them."""
_RESERVED = OWN_KEYS | {"type", "cause", "stack", "category", "innerWindowID"}
"""Keys that have a meaning of their own in a marker, ours included."""
_TEXTS = ("raw_name", "copy_kind")


class Strings:
    """The string table of a profile: each distinct text once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text in the table."""
        return self._known.setdefault(text, len(self._known))

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)


class MarkerFields:
    """The keys of args that the markers have, in order of appearance."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self.together = 0
        """Distinct args that are one field each, because there are too many keys."""

    def members(self, text: str) -> str:
        """Return an args text as members of a marker, each followed by a comma; each value is a text.

        Numbers are texts too, as they were written: a viewer would round them. An empty object, or one that uses a key
        with a meaning of its own, is one text under "args"; what is not a JSON object is under "args_text".
        """
        value = parsed(text)
        if value is None:
            return f'"args_text":{quoted(text)},'
        if not value or not _RESERVED.isdisjoint(value):
            return f'"args":{quoted(text)},'
        if len(self._keys) + len(value.keys() - self._keys.keys()) > MOST_KEYS:
            self.together += 1
            return f'"args":{quoted(text)},'
        self._keys.update(dict.fromkeys(value))
        return "".join(f"{quoted(key)}:{quoted(_shown(each))}," for key, each in value.items())

    def schema(self, kind: str) -> dict[str, object]:
        """Return the schema of the markers of a kind. Fields that a marker lacks are not shown."""
        fields: list[dict[str, object]] = [{"key": key, "format": "unique-string"} for key in _TEXTS]
        fields += [{"key": key, "format": "list"} for key, _ in SHAPES]
        fields += [{"key": key, "format": "integer"} for key in (*NUMBERS, "dur_ns")]
        fields.append({"key": "value", "format": "decimal"})
        fields += [{"key": key, "format": "string"} for key in (*self._keys, "args", "args_text")]
        places = ["marker-table"] if kind == "flow" else ["marker-chart", "marker-table", "timeline-overview"]
        return {"name": kind, "display": places, "isStackBased": True, "fields": fields}


def _shown(value: object) -> str:
    """Return a value as a text: a string as it is, all else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer beyond 64 bits, or a lone surrogate
        return json.dumps(value, separators=(",", ":"))


# Counters: a viewer adds the differences of their values up, from 0 before the first one.


PARTS = {"time": 10, "count": 11}
"""The columns of a counter, and their parts of the spool."""


_LARGEST = np.finfo(np.float64).max


class FirefoxCounters:
    """Writes the values of counters to a spool, by process and name."""

    def __init__(self, spool: Spool, lanes: TrackLanes) -> None:
        self._names = CounterNumbers(lanes)
        self.known = self._names.known
        """Process and name -> number of the counter."""
        self.counts: list[int] = []
        self.first: list[int] = []
        """Number of values, and time of the first one in ns, of each counter."""
        self.with_more = 0
        """Values with args, which a counter cannot hold."""
        self._spool = spool
        self._last = np.zeros(0, np.float64)

    def add(self, batch: Batch) -> int:
        """Write the values of a batch and return how many they are."""
        rows = np.flatnonzero(batch.phase == COUNTER)
        if not len(rows):
            return 0
        number = self._numbers(batch, rows)
        order = np.argsort(number, kind="stable")
        rows, number = rows[order], number[order]
        self.with_more += int(np.count_nonzero(arrow.valid(batch.args)[rows]))
        values = batch.value[rows]
        begins = np.ones(len(rows), np.bool_)
        np.not_equal(number[1:], number[:-1], out=begins[1:])
        before: F64 = np.empty(len(rows), np.float64)
        before[1:] = values[:-1]
        before[begins] = self._last[number[begins]]
        last = np.append(begins[1:], True)
        self._last[number[last]] = values[last]
        self._spool.add(PARTS["time"], number, fixed_rows([(len(rows), [Millis(batch.ts[rows]), b","])]))
        with np.errstate(over="ignore"):
            steps = np.clip(values - before, -_LARGEST, _LARGEST)
        self._spool.add(PARTS["count"], number, _number_texts(steps))
        for at, count in zip(*(x.tolist() for x in np.unique(number, return_counts=True)), strict=True):
            self.counts[at] += count
        return len(rows)

    def _numbers(self, batch: Batch, rows: I64) -> I64:
        number = self._names.of(batch, rows)
        distinct, first = np.unique(number, return_index=True)
        for at, row in zip(distinct.tolist(), rows[first].tolist(), strict=True):
            if at == len(self.counts):
                self.counts.append(0)
                self.first.append(int(batch.ts[row]))
        self._last = np.concatenate((self._last, np.zeros(len(self.counts) - len(self._last))))
        return number


def _number_texts(values: F64) -> Column:
    """Return numbers as JSON with a comma: integers without a point, others so that the same double is read back."""
    whole = np.abs(values) < 1 << 53
    whole[whole] = values[whole] == np.trunc(values[whole])
    if whole.all():
        return fixed_rows([(len(values), [values.astype(np.int64), b","])])
    texts = pc.cast(arrow.array(values), pa.string())
    return pc.binary_join_element_wise(texts, ",", "")


def display(name: str) -> dict[str, object]:
    """Return how a viewer draws a counter: the sum of its differences as a line, with the value in the tooltip."""
    value = {"type": "value", "source": "accumulated", "format": {"unit": "number"}, "label": name}
    return {
        "graphType": "line-accumulated",
        "unit": "",
        "color": "grey",
        "markerSchemaLocation": None,
        "sortWeight": 50,
        "label": name,
        "tooltipRows": [value],
    }


def head(name: str, pid: int, thread: int) -> str:
    """Return the begin of a counter's object: up to its samples."""
    facts = {
        "name": name,
        "category": "counter",
        "description": name,
        "pid": str(pid),
        "mainThreadIndex": thread,
        "display": display(name),
    }
    return json.dumps(facts)[:-1]


# Rows become markers: the columns of a marker table, one text a row, sorted by track.


COLUMNS = ("data", "name", "startTime", "endTime", "phase", "category")
"""The columns of a marker table; the part of the spool is their number."""
CHUNK_BYTES = 1 << 24
"""Most bytes of markers that are built at once."""
CATEGORIES = {kind.value: number for number, kind in enumerate(Kind, 1)}
"""Number of the category of each kind. 0 is the category that every profile must have."""
_EXACT = 1 << 53


class MarkerMaker:
    """Writes the markers of batches to a spool, by track."""

    def __init__(self, spool: Spool) -> None:
        self.strings = Strings()
        self.fields = MarkerFields()
        self.counts: dict[int, int] = {}
        """Track -> number of its markers."""
        self.rounded = 0
        """Rows with a number that a double cannot hold."""
        self._spool = spool

    def add(self, batch: Batch) -> int:
        """Write the markers of a batch and return how many they are."""
        rows = np.flatnonzero((batch.phase != NOT_WRITTEN) & (batch.phase != COUNTER))
        if not len(rows):
            return 0
        rows = rows[np.argsort(batch.track[rows], kind="stable")]
        tracks = batch.track[rows]
        for track, count in zip(*(x.tolist() for x in np.unique(tracks, return_counts=True)), strict=True):
            self.counts[track] = self.counts.get(track, 0) + count
        slices = batch.phase[rows] == SLICE
        ends = _texts(Millis(batch.ts[rows] + np.where(slices, batch.dur[rows], 0)))
        columns = {
            "name": _texts(self._numbers(batch, "name")[rows]),
            "startTime": _texts(Millis(batch.ts[rows])),
            "endTime": pc.if_else(arrow.array(slices), ends, "null,"),
            "phase": _texts(slices.astype(np.int64)),
            "category": _texts(_categories(batch)[rows]),
        }
        for name, texts in columns.items():
            self._spool.add(COLUMNS.index(name), tracks, texts)
        first = 0
        for data in self._data(batch, rows):
            self._spool.add(0, tracks[first : first + len(data)], data)
            first += len(data)
        return len(rows)

    def _numbers(self, batch: Batch, column: str) -> I64:
        """Return the number of each row's text in the string table; a null name is the empty text."""
        known, texts = batch.columns[column], batch.texts[column]
        if known.all_null:
            return np.full(batch.count, self.strings.number(""), np.int64)
        used = np.where(known.mask(), known.values, -1)
        distinct, place = np.unique(used, return_inverse=True)
        numbers = [self.strings.number(texts[code] if code >= 0 else "") for code in distinct.tolist()]
        return np.array(numbers, np.int64)[place]

    def _data(self, batch: Batch, rows: Rows) -> Iterator[Column]:
        """Yield the objects with the fields of the rows, each with a comma, in columns of bounded size."""
        codes, suffixes = self._suffixes(batch)
        parts = [self._own_numbers(batch, rows)]
        if batch.args.null_count < batch.count:
            args = batch.encoded_args()
            members = arrow.array([self.fields.members(text) for text in arrow.texts(args.dictionary)], pa.string())
            parts.append(pc.fill_null(arrow.take(members.take(args.indices), rows), ""))
        if batch.has_value[rows].any():
            values = pc.cast(arrow.array(batch.value[rows]), pa.string())
            infinite = ~np.isfinite(batch.value[rows])
            if infinite.any():
                values = pc.if_else(arrow.array(infinite), pc.binary_join_element_wise('"', values, '"', ""), values)
            texts = pc.binary_join_element_wise('"value":', values, ",", "")
            parts.append(pc.if_else(arrow.array(batch.has_value[rows]), texts, ""))
        if batch.negative:
            stated = [f'"dur_ns":{batch.negative[row]},' if row in batch.negative else "" for row in rows.tolist()]
            parts.append(arrow.array(stated, pa.string()))
        ends = arrow.array(suffixes, pa.string())
        sizes = arrow.ints(pc.binary_length(ends))[codes[rows]]
        for part in parts:
            sizes = sizes + arrow.ints(pc.binary_length(part))
        upto = np.cumsum(sizes, dtype=np.int64)
        start = 0
        while start < len(rows):
            before = int(upto[start - 1]) if start else 0
            end = max(int(np.searchsorted(upto, before + CHUNK_BYTES, "right")), start + 1)
            pieces = [part.slice(start, end - start) for part in parts]
            yield pc.binary_join_element_wise(*pieces, arrow.take(ends, codes[rows[start:end]]), "")
            start = end

    def _suffixes(self, batch: Batch) -> tuple[Rows, list[str]]:
        """Return the end of each object as codes, and the ends: fields with few distinct texts, and the type."""
        codes, first = classes([value_codes(batch.columns[n]) for n in ("kind", "raw_name", "copy_kind")], batch.count)
        out = []
        for row in first.tolist():
            texts = [(name, batch.text(name, row)) for name in ("raw_name", "copy_kind")]
            given = "".join(f'"{name}":{self.strings.number(text)},' for name, text in texts if text is not None)
            out.append(f'{given}"type":{quoted(batch.text("kind", row) or "")}}},')
        return codes, out

    def _own_numbers(self, batch: Batch, rows: Rows) -> Column:
        """Return the begin of each object: a brace and the columns of numbers, each followed by a comma."""
        present = own_numbers(batch)
        self._count_rounded(batch, present)
        masks: list[Codes | None] = [(mask.view(np.int8), 2) for _, mask in present if mask is not None]
        of_row, first = classes(masks, batch.count)
        groups: list[tuple[int, list[Piece]]] = []
        places = []
        for code, row in enumerate(first.tolist()):
            place = np.arange(len(rows)) if len(first) == 1 else np.flatnonzero(of_row[rows] == code)
            if not len(place):
                continue
            names = [name for name, mask in present if mask is None or mask[row]]
            pieces = [b"{", *number_pieces(batch, names, rows[place])]
            groups.append((len(place), [*pieces, b","] if names else pieces))
            places.append(place)
        texts = fixed_rows(groups)
        if len(groups) == 1:
            return texts
        order = np.empty(len(rows), np.int64)
        order[np.concatenate(places)] = np.arange(len(rows))
        return arrow.take(texts, order)

    def _count_rounded(self, batch: Batch, present: list[tuple[str, Mask | None]]) -> None:
        beyond = np.zeros(batch.count, np.bool_)
        for name, mask in present:
            values = batch.columns[name].values
            if int(values.max()) > _EXACT or int(values.min()) < -_EXACT:
                large = (values > _EXACT) | (values < -_EXACT)
                beyond |= large if mask is None else large & mask
        self.rounded += int(np.count_nonzero(beyond))


def _texts(values: Millis | I64) -> Column:
    """Return each value as a text with a comma."""
    return fixed_rows([(len(values.ns if isinstance(values, Millis) else values), [values, b","])])


def _categories(batch: Batch) -> I64:
    table = np.array([CATEGORIES.get(text, 0) for text in batch.texts["kind"]], np.int64)
    return table[batch.columns["kind"].values]


VERSION = 75
"""Version of the processed profile format; profiler.firefox.com upgrades older ones, and refuses newer ones."""
_GECKO_VERSION = 36
MOST_VISIBLE = 100
"""Threads that are shown at first; the others are in the list of tracks."""
_EMPTY_TABLES = {
    "stackTable": "frame prefixOffset",
    "frameTable": "address flags category subcategory func lib nativeSymbol innerWindowID line column originalLocation",
    "funcTable": "name flags resource source lineNumber columnNumber originalLocation",
    "resourceTable": "name host type",
    "nativeSymbols": "libIndex address name functionSize",
    "sources": "id filename startLine startColumn sourceMapURL content",
    "sourceLocationTable": "source line column",
}
"""Tables of samples and their stacks, of which a trace has none."""
_COLORS = {
    "operator": "blue", "operator_inner": "lightblue", "python_op": "brown", "user_range": "purple",
    "user_range_native": "purple", "step": "darkgrey", "dataloader": "brown", "forward": "blue", "backward": "magenta",
    "optimizer": "orange", "communication": "red", "runtime": "yellow", "driver": "yellow", "sync": "lightred",
    "kernel": "green", "memcpy": "orange", "memset": "orange", "memory": "lightblue", "mark": "magenta",
}  # fmt: skip


@dataclass(slots=True)
class Document:
    """All that a profile is made of. threads: tracks in the order in which they are shown, with their numbers."""

    spool: Spool
    lanes: TrackLanes
    markers: MarkerMaker
    counters: FirefoxCounters
    threads: list[tuple[int, Track]]

    def write(self, out: Sink, run: Run, base_ns: int, facts: Mapping[str, object]) -> None:
        """Write the profile. base_ns: the time of ms 0. facts: ours, which viewers do not read."""
        out.write(b'{"threads":[')
        for at, (number, track) in enumerate(self.threads):
            self._write_thread(out, number, track, b",\n" if at else b"\n")
        out.write(b'],\n"counters":[')
        self._write_counters(out)
        out.write(b'],\n"shared":{"stringArray":[')
        for at, text in enumerate(self.markers.strings):
            out.write(f"{',' if at else ''}{quoted(text)}".encode())
        tables = {
            name: {**{column: [] for column in columns.split()}, "length": 0} for name, columns in _EMPTY_TABLES.items()
        }
        meta = self._meta(facts)
        start = "0" if run.origin_ns is None else _millis(base_ns)
        rest = f'{facts_json(tables)[1:]},\n"libs":[],"pages":[],"meta":{{"startTime":{start},{facts_json(meta)[1:]}'
        out.write(f'],{rest},\n"tracekit":{facts_json(facts)}}}\n'.encode())

    def _write_thread(self, out: Sink, number: int, track: Track, before: bytes) -> None:
        process = track.lane.process
        count = self.markers.counts.get(number, 0)
        head = {
            "name": self.lanes.track_name(track),
            "processName": self.lanes.process_name(process),
            "pid": str(process.number),
            "tid": track.number,
            "isMainThread": False,
            "processType": "default",
            "processStartupTime": 0,
            "processShutdownTime": None,
            "registerTime": 0,
            "unregisterTime": None,
            "pausedRanges": [],
            "showMarkersInTimeline": True,
            "samples": {"stack": [], "time": [], "weight": None, "weightType": "samples", "length": 0},
        }
        out.write(before + f'{facts_json(head)[:-1]},"markers":{{"length":{count}'.encode())
        for part, column in enumerate(COLUMNS):
            out.write(f',"{column}":['.encode())
            self.spool.copy(part, number, out)
            out.write(b"]")
        out.write(b"}}")

    def _write_counters(self, out: Sink) -> None:
        first_thread: dict[int, int] = {}
        for at, (_, track) in enumerate(self.threads):
            first_thread.setdefault(track.lane.process.number, at)
        for at, ((process, name), number) in enumerate(self.counters.known.items()):
            out.write((b",\n" if at else b"\n") + head(name, process, first_thread[process]).encode())
            # Viewers ignore the first difference: it is one of our own.
            out.write(f',"samples":{{"length":{self.counters.counts[number] + 1}'.encode())
            zero = {"time": _millis(self.counters.first[number]), "count": "0"}
            for column, part in PARTS.items():
                out.write(f',"{column}":[{zero[column]},'.encode())
                self.spool.copy(part, number, out)
                out.write(b"]")
            out.write(b"}}")

    def _meta(self, facts: Mapping[str, object]) -> dict[str, object]:
        categories = [
            {"name": name, "color": _COLORS.get(name, "grey"), "subcategories": ["Other"]}
            for name in ("Other", *CATEGORIES)
        ]
        texts = [
            {"label": key, "format": "string", "value": facts_json(facts[key])}
            for key in ("sources", "clock", "base_ns", "left_out")
        ]
        return {
            "interval": 0.001,
            "processType": 0,
            "product": "tracekit",
            "importedFrom": f"tracekit {facts['version']}",
            "stackwalk": 0,
            "version": _GECKO_VERSION,
            "preprocessedProfileVersion": VERSION,
            "symbolicationNotSupported": True,
            "usesOnlyOneStackType": True,
            "sourceCodeIsNotOnSearchfox": True,
            "keepProfileThreadOrder": True,
            "initialVisibleThreads": list(range(min(len(self.threads), MOST_VISIBLE))),
            "categories": categories,
            "markerSchema": [self.markers.fields.schema(kind) for kind in CATEGORIES],
            "extra": [{"label": "tracekit", "entries": texts}],
        }


def _millis(ns: int) -> str:
    """Return a time in ns as ms with six decimals, exactly.

    >>> _millis(1_500_000), _millis(-1)
    ('1.500000', '-0.000001')
    """
    whole, rest = divmod(abs(ns), 1_000_000)
    return f"{'-' if ns < 0 else ''}{whole}.{rest:06d}"

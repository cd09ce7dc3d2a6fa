"""cuda-kvp, cuda-csv: the log of the CUDA command line profiler, written back for tools that still read it.

    # CUDA_PROFILE_LOG_VERSION 2.0
    # CUDA_DEVICE 0 Tesla C2050
    # CUDA_CONTEXT 1
    gpustarttimestamp,gpuendtimestamp,method,gputime,cputime,streamid
    gpustarttimestamp=[ 13e224f5bd69f44f ] gpuendtimestamp=[ ... ] method=[ memcpyHtoD ] gputime=[ 443.072 ] ...

The log holds kernels, copies and memsets; other rows are left out by their kind. Only columns that have a value are
written. Names are the raw ones where the trace has them: mangled names hold no commas, other names stand in quotes in
CSV. A copy or memset of another profiler gets the method's name (`memcpyHtoD`). The format holds one context a file; of
several, each has its own header within the one file, which our reader reads back.

Time stamps are hexadecimal ns, of the Unix epoch where the trace knows it, else from the trace's own zero. A trace
whose times were laid end to end gets none, as its source had none; one whose starts are the host's `timestamp` (version
1) gets that column back. Flat members of `args` become columns of their name; cputime_ns and gputime_ns become cputime
and gputime in us. A text in `args` that a cell cannot hold is counted and told.
Source of the layout: the real logs that the reader `cuda-profile` is tested with.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tracekit import schema
from tracekit.errors import OutputError
from tracekit.schema import EVENTS, Kind
from tracekit.trace import Run
from tracekit.writers._members import members
from tracekit.writers.base import Stream, WriteOptions, Writer, Written, new_file

_STAMPS = {"gpu": ["gpustarttimestamp", "gpuendtimestamp"], "host": ["timestamp"], "none": []}
_RESERVED = frozenset({*_STAMPS["gpu"], *_STAMPS["host"], "method", "gputime"})
"""Columns that the rows' own times and names fill: a member of `args` of that name finds no place."""
_OPENCL = {
    "gridsizeX": "ndrangesizeX", "gridsizeY": "ndrangesizeY", "gridsizeZ": "ndrangesizeZ",
    "threadblocksizeX": "workgroupsizeX", "threadblocksizeY": "workgroupsizeY", "threadblocksizeZ": "workgroupsizeZ",
    "stasmemperblock": "stapmemperworkgroup", "regperthread": "regperworkitem",
}  # fmt: skip
_COLUMNS = {
    "grid_x": "gridsizeX", "grid_y": "gridsizeY", "grid_z": "gridsizeZ", "block_x": "threadblocksizeX",
    "block_y": "threadblocksizeY", "block_z": "threadblocksizeZ", "dynamic_smem_bytes": "dynsmemperblock",
    "static_smem_bytes": "stasmemperblock", "registers": "regperthread", "stream": "streamid",
    "bytes": "memtransfersize",
}  # fmt: skip
_KINDS = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
_UNHELD = ("correlation", "pid", "tid", "rank", "step", "value")
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_THOUSANDTHS = pa.array([f".{n:03d}" for n in range(1000)])
_UNREADABLE = re.compile(r"[\x00-\x1f\x7f]|\]\s+[A-Za-z_]\w*=\[|^\s|\s$|^$")
"""Texts that a line cannot hold: control characters, what looks like the next key, blanks at an end."""
_UNREADABLE_CELL = re.compile(r"[\x00-\x1f\x7f]|^\s|\s$|^$")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,20})?([eE][+-]?\d{1,3})?", re.ASCII)
_COPY_METHOD, _SET_METHOD = "^memcpy([A-Za-z0-9]\\w*)?$", "^memset([A-Za-z0-9]\\w*)?$"
_MOST_NS = 1 << 62
_ROWS = 1 << 15
"""Rows whose lines are made at once."""

_NONE = pa.RecordBatch.from_pylist([], schema=EVENTS)

Lane = tuple[int, int | None, int | None]


@dataclass(slots=True)
class _Found:
    """What the first pass learns: which contexts there are, and which columns have values."""

    lanes: dict[Lane, None] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    members: dict[str, None] = field(default_factory=dict)
    unheld: set[str] = field(default_factory=set)
    lost: int = 0
    retyped: int = 0
    quoted: int = 0
    renamed: int = 0
    misleading: int = 0


def _write(comma: bool, stream: Stream, target: Path, options: WriteOptions) -> Written:
    written = Written(target)
    found = _Found()
    with new_file(target, force=options.force) as out, tempfile.TemporaryDirectory(prefix="tracekit-") as folder:
        spool = Path(folder) / "rows.arrow"
        try:
            with pa.OSFile(str(spool), "wb") as sink, pa.ipc.new_stream(sink, EVENTS) as rows:
                for batch in stream.batches:
                    kept = _device_work(batch, stream.run, written)
                    if kept.num_rows:
                        _learn(found, kept)
                        _learn_names(found, kept)
                        for at in range(0, kept.num_rows, _ROWS):
                            rows.write_batch(kept.slice(at, _ROWS))
        except OSError as err:
            raise OutputError(f"{folder}: {err.strerror or err}", hint="TMPDIR names another folder") from err
        clock = _clock(stream.run)
        columns = _columns(found, clock)
        for lane in found.lanes or {(0, None, None): None}:
            words = _header(out, stream.run, lane, columns, comma=comma)
            for batch in _stored(spool, lane) if found.lanes else ():
                out.write(_lines(batch, words, stream.run.origin_ns or 0, found, comma=comma))
                written.events += batch.num_rows
    _tell(written, found, stream.run, clock)
    return written


def _clock(run: Run) -> str:
    """Return which stamps the log gets: "gpu", "host" (of version 1) or "none"."""
    if run.sources and all(s.synthetic_time for s in run.sources):
        return "none"
    hosts = run.sources and all(s.facts.get("clock") == "host" for s in run.sources)
    return "host" if hosts and run.origin_ns is None else "gpu"


def _device_work(batch: pa.RecordBatch, run: Run, written: Written) -> pa.RecordBatch:
    """Return the rows that the log can hold; the others are counted by reason."""
    if schema.is_totals(batch):
        written.leave_out("totals have no rows in this log", batch.num_rows)
        return _NONE
    kinds = batch.column("kind")
    codes = kinds.indices.to_numpy()
    words = kinds.dictionary.to_pylist()
    keep = np.isin(codes, [at for at, word in enumerate(words) if word in _KINDS])
    for code in np.unique(codes[~keep]).tolist():
        written.leave_out(f"kind {words[code]}", int((codes == code).sum()))
    dur = batch.column("dur_ns")
    keep &= _count(written, keep, dur.is_valid(), "no duration")
    dur = dur.fill_null(0)
    keep &= _count(written, keep, pc.greater_equal(dur, 0), "ends before it starts")
    origin = run.origin_ns or 0
    ts = batch.column("ts_ns")
    keep &= _count(written, keep, pc.greater_equal(ts, -origin), "starts before the clock's zero")
    late = pc.and_(pc.less(ts, _MOST_NS - max(origin, 0)), pc.less(dur, _MOST_NS))
    room = pc.subtract(_MOST_NS - 1 - max(origin, 0), pc.if_else(late, dur, 0))
    keep &= _count(written, keep, pc.and_(late, pc.less_equal(ts, room)), "ends more than 146 years after the zero")
    names = _method(batch)
    good = pa.array([name is not None and not _UNREADABLE.search(name) for name in names.dictionary.to_pylist()])
    fits = good.take(names.indices.fill_null(0)) if len(good) else pa.array(np.zeros(len(names), np.bool_))
    fits = pc.and_(fits, names.is_valid())
    keep &= _count(written, keep, fits, "a name that a line cannot hold")
    return batch if keep.all() else batch.filter(pa.array(keep))


def _count(written: Written, keep: np.ndarray[Any, Any], good: pa.Array, reason: str) -> np.ndarray[Any, Any]:
    mask: np.ndarray[Any, Any] = good.to_numpy(zero_copy_only=False)
    written.leave_out(reason, int((keep & ~mask).sum()))
    return mask


def _method(batch: pa.RecordBatch) -> pa.DictionaryArray:
    """Return the column method: the raw name where there is one, and the log's own word for copies and memsets."""
    name, raw, kind, copy = (batch.column(c).cast(pa.string()) for c in ("name", "raw_name", "kind", "copy_kind"))
    method = pc.coalesce(raw, name)
    copies = pc.equal(kind, str(Kind.MEMCPY))
    legacy = pc.if_else(copies, pc.binary_join_element_wise("memcpy", pc.fill_null(copy, ""), ""), "memset")
    return pc.if_else(_foreign(method, kind), legacy, method).dictionary_encode()


def _foreign(method: pa.Array, kind: pa.Array) -> pa.Array:
    """Tell which rows are copies or memsets without a method of this log."""
    encoded = pc.fill_null(method, "").dictionary_encode()
    own = [
        pc.match_substring_regex(encoded.dictionary, pattern).take(encoded.indices)
        for pattern in (_COPY_METHOD, _SET_METHOD)
    ]
    is_own = pc.if_else(pc.equal(kind, str(Kind.MEMCPY)), own[0], own[1])
    return pc.and_(pc.not_equal(kind, str(Kind.KERNEL)), pc.invert(is_own))


def _learn_names(found: _Found, batch: pa.RecordBatch) -> None:
    """Count the copies that get another name, and the kernels that the log cannot tell from copies."""
    kind = batch.column("kind").cast(pa.string())
    method = pc.coalesce(batch.column("raw_name").cast(pa.string()), batch.column("name").cast(pa.string()))
    found.renamed += pc.sum(_foreign(method, kind)).as_py() or 0
    kernels = pc.equal(kind, str(Kind.KERNEL))
    like = pc.or_(pc.match_substring_regex(method, _COPY_METHOD), pc.match_substring_regex(method, _SET_METHOD))
    found.misleading += pc.sum(pc.and_(kernels, like)).as_py() or 0


def _learn(found: _Found, batch: pa.RecordBatch) -> None:
    lanes = pa.table({c: batch.column(c) for c in ("source", "device", "context")}).group_by(
        ["source", "device", "context"], use_threads=False
    )
    for row in lanes.aggregate([]).to_pylist():
        found.lanes.setdefault((row["source"], row["device"], row["context"]))
    for name in (*_COLUMNS, *_UNHELD):
        if batch.column(name).null_count < batch.num_rows:
            (found.unheld if name in _UNHELD else found.columns).add(name)
    if batch.column("args").null_count < batch.num_rows:
        keys, lost = members(batch.column("args"))
        found.members.update(dict.fromkeys(keys))
        found.lost += lost


def _columns(found: _Found, clock: str) -> list[str]:
    first = [*_STAMPS[clock], "method", "gputime"]
    if found.members.keys() & {"cputime_ns", "cputime"}:
        first.append("cputime")
    later = [word for name, word in _COLUMNS.items() if name in found.columns]
    own = {"cputime_ns", "gputime_ns", *_RESERVED, *first, *later}
    return [*first, *later, *(key for key in found.members if key not in own)]


def _header(out: BinaryIO, run: Run, lane: Lane, columns: list[str], *, comma: bool) -> dict[str, str]:
    """Write the header of a context; return each column with the word that the log has for it."""
    source, device, context = lane
    facts = next((s.facts for at, s in enumerate(run.sources) if at == source), {})
    api = "OPENCL" if "OpenCL" in str(facts.get("tool", "")) else "CUDA"
    version = str(facts.get("log_version", "2.0"))
    lines = [f"# {api}_PROFILE_LOG_VERSION {version if re.fullmatch(r'[0-9.]+', version) else '2.0'}"]
    if device is not None:
        name = re.sub(r"[\x00-\x1f]+", " ", run.devices.get((source, device), ""))
        lines.append(f"# {api}_DEVICE {device} {name}".rstrip())
    if context is not None:
        lines.append(f"# {api}_CONTEXT {context}")
    if comma:
        lines.append(f"# {api}_PROFILE_CSV 1")
    factor = str(facts.get("timestampfactor", ""))
    if re.fullmatch("[0-9a-fA-F]+", factor):
        lines.append(f"# TIMESTAMPFACTOR {factor}")
    words = {column: column for column in columns}
    if api == "OPENCL":  # unless a member of args has taken the word
        words |= {column: word for column, word in _OPENCL.items() if column in words and word not in words}
    out.write("\n".join([*lines, ",".join(words.values()), ""]).encode())
    return words


def _stored(spool: Path, lane: Lane) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(spool), "rb") as file:
        for batch in pa.ipc.open_stream(file):
            mask = None
            for name, value in zip(("source", "device", "context"), lane, strict=True):
                column = batch.column(name)
                mine = column.is_null() if value is None else pc.fill_null(pc.equal(column, value), False)
                mask = mine if mask is None else pc.and_(mask, mine)
            kept = batch.filter(mask)
            if kept.num_rows:
                yield kept


def _lines(batch: pa.RecordBatch, columns: dict[str, str], origin: int, found: _Found, *, comma: bool) -> memoryview:
    """Return the lines of a batch as one text. columns: column -> its word in this log."""
    start = batch.column("ts_ns").to_numpy() + origin
    dur = batch.column("dur_ns").to_numpy()
    extra = members(batch.column("args"))[0]
    of_schema = {word: name for name, word in _COLUMNS.items()}
    found.lost += sum(len(values) - values.null_count for key, values in extra.items() if key in _RESERVED)
    texts: list[pa.Array] = []
    for column, word in columns.items():
        own: pa.Array | None = None
        if column == "gpustarttimestamp":
            own = _hexadecimal(start)
        elif column == "gpuendtimestamp":
            own = _hexadecimal(start + dur)
        elif column == "timestamp":
            own = _us(pa.array(start))
        elif column == "method":
            own = _names(batch, found, comma=comma)
        elif column == "gputime":
            measured = _whole(extra.get("gputime_ns"), found)
            own = _us(pa.array(dur) if measured is None else pc.coalesce(measured, pa.array(dur)))
        else:
            if column == "cputime" and (measured := _whole(extra.get("cputime_ns"), found)) is not None:
                own = _us(measured)
            elif column in of_schema and batch.column(of_schema[column]).null_count < batch.num_rows:
                own = batch.column(of_schema[column]).cast(pa.string())
            if column in extra:
                more = _plain(extra[column], found, comma=comma)
                if own is not None:
                    found.lost += pc.sum(pc.and_(own.is_valid(), more.is_valid())).as_py() or 0
                own = more if own is None else pc.coalesce(own, more)
        text = pa.nulls(len(dur), pa.string()) if own is None else own
        texts.append(text if comma else pc.binary_join_element_wise(f"{word}=[ ", text, " ] ", ""))
    joined = pc.binary_join_element_wise(*[pc.fill_null(t, "") for t in texts], "," if comma else "")
    joined = pc.binary_join_element_wise(joined, "\n", "").cast(pa.large_string())
    offsets = np.frombuffer(joined.buffers()[1], np.int64, len(joined) + 1, joined.offset * 8)
    return memoryview(joined.buffers()[2])[offsets[0] : offsets[-1]]


def _whole(values: pa.Array | None, found: _Found) -> pa.Array | None:
    """Return members that are whole ns as int64; others find no place."""
    if values is None:
        return None
    good = pc.match_substring_regex(values, "^[0-9]{1,18}$")
    found.lost += pc.sum(pc.invert(good)).as_py() or 0
    return pc.if_else(good, values, None).cast(pa.int64())


def _names(batch: pa.RecordBatch, found: _Found, *, comma: bool) -> pa.Array:
    method = _method(batch)
    words = method.dictionary.to_pylist()
    if comma:
        odd = [("," in w or '"' in w or w.startswith("#")) for w in words]
        used = np.bincount(method.indices.to_numpy(), minlength=len(words))
        found.quoted += int(sum(n for n, o in zip(used.tolist(), odd, strict=True) if o))
        words = [_quoted(w) if o else w for w, o in zip(words, odd, strict=True)]
    return pa.array(words, pa.string()).take(method.indices)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _plain(values: pa.Array, found: _Found, *, comma: bool) -> pa.Array:
    """Return JSON values as the log prints them: numbers as they stand, strings without quotes, null as nothing."""
    encoded = values.dictionary_encode()
    used = np.bincount(encoded.indices.drop_null().to_numpy(), minlength=len(encoded.dictionary)).tolist()
    words: list[str | None] = []
    for text, count in zip(encoded.dictionary.to_pylist(), used, strict=True):
        value = orjson.loads(text) if text.startswith('"') else text
        if text == "null" or (_UNREADABLE_CELL if comma else _UNREADABLE).search(value):
            found.lost += count if text != "null" else 0
            words.append(None)
            continue
        if text in ("true", "false") or (text.startswith('"') and _NUMBER.fullmatch(value)):
            found.retyped += count
        words.append(_quoted(value) if comma and ("," in value or '"' in value) else value)
    return pa.array(words, pa.string()).take(encoded.indices)


def _us(ns: pa.Array) -> pa.Array:
    whole = pc.divide(ns, 1000)
    rest = pc.subtract(ns, pc.multiply(whole, 1000))
    return pc.binary_join_element_wise(whole.cast(pa.string()), _THOUSANDTHS.take(rest), "")


def _hexadecimal(values: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    shifts = np.arange(60, -4, -4, dtype=np.int64)
    digits = _HEX[(values[:, None] >> shifts) & 15]
    offsets = np.arange(len(values) + 1, dtype=np.int32) * 16
    return pa.Array.from_buffers(pa.string(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(digits)])


def _tell(written: Written, found: _Found, run: Run, clock: str) -> None:
    if clock == "none":
        written.notes.append("no time stamps were written: the source had none")
    elif clock == "gpu" and run.origin_ns is None and written.events:
        written.notes.append("the trace does not know the wall clock: time stamps count from its own zero")
    if len(found.lanes) > 1:
        written.notes.append(f"{len(found.lanes)} contexts stand in one file, each with its header")
    if found.unheld:
        written.notes.append(f"this log has no column for: {', '.join(sorted(found.unheld))}")
    if found.lost:
        written.notes.append(f"{found.lost:,} members of args fit no column")
    if found.retyped:
        written.notes.append(
            f"{found.retyped:,} members of args come back with another type: true, false, quoted numbers"
        )
    if found.renamed:
        written.notes.append(f"{found.renamed:,} copies and memsets got the names of this log, such as memcpyHtoD")
    if found.misleading:
        written.notes.append(f"{found.misleading:,} kernels are named as this log names copies: it cannot say so")
    if found.quoted:
        written.notes.append(
            f"{found.quoted:,} rows have a name with a comma, in quotes: the profiler itself writes none"
        )


WRITERS_HERE = (
    Writer("cuda-kvp", "CUDA profiler log, key-value", (".kvp",), partial(_write, False)),
    Writer("cuda-csv", "CUDA profiler log, CSV", (), partial(_write, True)),
)

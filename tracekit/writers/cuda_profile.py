"""cuda-kvp, cuda-csv: the log of the CUDA command line profiler, for tools that still read it.

    # CUDA_PROFILE_LOG_VERSION 2.0
    # CUDA_DEVICE 0 Tesla C2050
    # CUDA_CONTEXT 1
    gpustarttimestamp,gpuendtimestamp,method,gputime,cputime,streamid
    gpustarttimestamp=[ 13e224f5bd69f44f ] gpuendtimestamp=[ ... ] method=[ memcpyHtoD ] gputime=[ 443.072 ] ...

The log holds kernels, copies and memsets; rows of other kinds are counted and not written. Only columns that have a
value are written. Names are the raw ones where the trace has them: mangled names have no commas, and CSV puts other
names in quotes. A copy or memset of another profiler gets a name of this log (`memcpyHtoD`). The format has one context
for each file. Several contexts are written one after the other, each with its header, and our reader reads them back.

Time stamps are hexadecimal ns, since the Unix epoch if the trace has that clock, else since the zero of the trace. A
trace whose times were laid end to end gets none, as its source had none. One whose starts are the host's `timestamp`
(version 1) gets that column back. Flat members of `args` become columns of their name; cputime_ns and gputime_ns become
cputime and gputime in us. A note counts the texts in `args` that a cell cannot hold.
Source of the layout: the real logs that the reader `cuda-profile` is tested with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema, sets
from tracekit.model.arrow import I64, Column, DictColumn, Mask, Rows, pc
from tracekit.model.schema import EVENTS, Kind
from tracekit.model.trace import Run
from tracekit.safety.scratch import StoredRows, scratch_folder, stored_rows
from tracekit.writers.base import RowStream, WriteOptions, Written, new_file
from tracekit.writers.json_text import parsed

__all__ = ["write_csv", "write_kvp"]

# Members of the JSON objects in `args`, as columns of text. Objects with the same keys are read together.


_VALUE = r'(?:"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null)'
_KEY = r'"[A-Za-z_][A-Za-z0-9_]*"'
_FLAT = re.compile(rf"\{{(?:{_KEY}:(?:,{_KEY}:)*)?\}}", re.ASCII)


def members(args: Column) -> tuple[dict[str, Column], int]:
    """Return key -> JSON text of its value (null where a row lacks it), and the number of members without a column.

    args: strings, each a JSON object or null. A member has no column if it is an object or a list, or if its key is not
    an identifier.
    """
    columns: dict[str, list[tuple[Rows, Column]]] = {}
    lost = 0
    skeletons = arrow.encoded(pc.replace_substring_regex(args, rf'(":){_VALUE}', r"\1"))
    codes = arrow.codes(skeletons)
    for code, skeleton in enumerate(arrow.texts(skeletons.dictionary)):
        rows = np.flatnonzero(codes == code)
        objects = arrow.take(args, rows)
        keys = re.findall(r'"(\w+)":', skeleton) if _FLAT.fullmatch(skeleton) else []
        if _FLAT.fullmatch(skeleton) and len(set(keys)) == len(keys) < 60:
            parts = ",".join(f'"{key}":(?P<m{at}>{_VALUE})' for at, key in enumerate(keys))
            if keys:
                values = pc.extract_regex(objects, rf"^\{{{parts}\}}$")
                for at, key in enumerate(keys):
                    columns.setdefault(key, []).append((rows, pc.struct_field(values, at)))
            continue
        for row, text in zip(rows.tolist(), arrow.texts(objects), strict=True):
            found = parsed(text)
            if found is None:
                lost += 1
                continue
            for key, value in found.items():
                exact = str(value) if type(value) is int else _json(value)
                if not exact or not re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
                    lost += 1
                else:
                    cell = arrow.array([exact])
                    columns.setdefault(key, []).append((np.array([row]), cell))
    return {key: _scattered(parts, len(args)) for key, parts in columns.items()}, lost


def _json(value: object) -> str:
    """Return the JSON of a value, "" for objects, lists and lone surrogates, which have no column."""
    try:
        return "" if isinstance(value, (dict, list)) else orjson.dumps(value).decode()
    except TypeError:
        return ""


def _scattered(parts: list[tuple[Rows, Column]], count: int) -> Column:
    """Return one column of `count` texts from parts with their row numbers."""
    place = np.full(count, -1, np.int64)
    at = 0
    for rows, texts in parts:
        place[rows] = np.arange(at, at + len(texts))
        at += len(texts)
    together: Column = pa.concat_arrays([texts for _, texts in parts])
    return together.take(arrow.array(place, mask=place < 0))


_STAMPS = {"gpu": ["gpustarttimestamp", "gpuendtimestamp"], "host": ["timestamp"], "none": []}
_RESERVED = frozenset({*_STAMPS["gpu"], *_STAMPS["host"], "method", "gputime"})
"""Columns of the rows' own times and names: a member of `args` with that name has no column."""
_OPENCL = {
    **{f"gridsize{axis}": f"ndrangesize{axis}" for axis in "XYZ"},
    **{f"threadblocksize{axis}": f"workgroupsize{axis}" for axis in "XYZ"},
    "stasmemperblock": "stapmemperworkgroup",
    "regperthread": "regperworkitem",
}
_COLUMNS = {
    **{f"grid_{axis}": f"gridsize{axis.upper()}" for axis in "xyz"},
    **{f"block_{axis}": f"threadblocksize{axis.upper()}" for axis in "xyz"},
    "dynamic_smem_bytes": "dynsmemperblock",
    "static_smem_bytes": "stasmemperblock",
    "registers": "regperthread",
    "stream": "streamid",
    "bytes": "memtransfersize",
}
_KINDS = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
_WITHOUT_COLUMN = ("correlation", "pid", "tid", "rank", "step", "value")
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_THOUSANDTHS = arrow.array([f".{n:03d}" for n in range(1000)])
_UNREADABLE = re.compile(r"[\x00-\x1f\x7f]|\]\s+[A-Za-z_]\w*=\[|^\s|\s$|^$")
"""Texts that a line cannot hold: control characters, text like the next key, blanks at an end."""
_UNREADABLE_CELL = re.compile(r"[\x00-\x1f\x7f]|^\s|\s$|^$")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,20})?([eE][+-]?\d{1,3})?", re.ASCII)
_COPY_METHOD, _SET_METHOD = "^memcpy([A-Za-z0-9]\\w*)?$", "^memset([A-Za-z0-9]\\w*)?$"
_MOST_NS = 1 << 62
_ROWS = 1 << 15
"""Rows whose lines are built at once."""

_NONE = pa.RecordBatch.from_pylist([], schema=EVENTS)

Context: TypeAlias = tuple[int, int | None, int | None]
"""(source, device, context)."""


@dataclass(slots=True)
class _Contents:
    """Contexts, columns and counts of a trace; the first pass collects the contexts and columns.

    lost: members of args without a column. retyped: members that read back with another type. quoted: names in quotes.
    renamed: copies and memsets with a new name. misleading: kernels that are named like copies.
    """

    contexts: dict[Context, None] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    members: dict[str, None] = field(default_factory=dict)
    without_column: set[str] = field(default_factory=set)
    lost: int = 0
    retyped: int = 0
    quoted: int = 0
    renamed: int = 0
    misleading: int = 0


def write_kvp(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the log with names before the values."""
    return _write(stream, target, options, comma=False)


def write_csv(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the log with commas between the values."""
    return _write(stream, target, options, comma=True)


def _write(stream: RowStream, target: Path, options: WriteOptions, *, comma: bool) -> Written:
    written = Written(target)
    contents = _Contents()
    with new_file(target, force=options.force) as out, scratch_folder() as folder:
        # The header of each context has the columns of all its rows, so rows wait on disk until the last one is seen.
        spool = folder / "rows.arrow"
        with StoredRows(spool, EVENTS) as rows:
            for batch in stream.batches:
                kept = _device_work(batch, stream.run, written)
                if kept.num_rows:
                    _collect_columns(contents, kept)
                    _count_names(contents, kept)
                    for at in range(0, kept.num_rows, _ROWS):
                        rows.write_batch(kept.slice(at, _ROWS))
        clock = _clock(stream.run)
        columns = _columns(contents, clock)
        for context in contents.contexts or {(0, None, None): None}:
            words = _header(out, stream.run, context, columns, comma=comma)
            for batch in _stored(spool, context) if contents.contexts else ():
                out.write(_lines(batch, words, stream.run.origin_ns or 0, contents, comma=comma))
                written.events += batch.num_rows
    _add_notes(written, contents, stream.run, clock)
    return written


def _clock(run: Run) -> str:
    """Return the kind of time stamps in the log: "gpu", "host" (of version 1) or "none"."""
    if run.sources and all(s.synthetic_time for s in run.sources):
        return "none"
    hosts = run.sources and all(s.facts.get("clock") == "host" for s in run.sources)
    return "host" if hosts and run.origin_ns is None else "gpu"


def _device_work(batch: pa.RecordBatch, run: Run, written: Written) -> pa.RecordBatch:
    """Return the rows that the log can hold, and count the others by reason."""
    if schema.is_totals(batch):
        written.leave_out("totals have no rows in this log", batch.num_rows)
        return _NONE
    kinds = batch.column("kind")
    codes = arrow.codes(kinds)
    words = arrow.texts(arrow.encoded(kinds).dictionary)
    keep = np.isin(codes, [at for at, word in enumerate(words) if word in _KINDS])
    for code in sets.unique(codes[~keep]).tolist():
        written.leave_out(f"kind {words[code]}", int((codes == code).sum()))
    dur = batch.column("dur_ns")
    keep &= _count(written, keep, dur.is_valid(), "no duration")
    dur = pc.fill_null(dur, 0)
    keep &= _count(written, keep, pc.greater_equal(dur, 0), "ends before it starts")
    origin = run.origin_ns or 0
    ts = batch.column("ts_ns")
    keep &= _count(written, keep, pc.greater_equal(ts, -origin), "starts before the clock's zero")
    late = pc.and_(pc.less(ts, _MOST_NS - max(origin, 0)), pc.less(dur, _MOST_NS))
    room = pc.subtract(_MOST_NS - 1 - max(origin, 0), pc.if_else(late, dur, 0))
    keep &= _count(written, keep, pc.and_(late, pc.less_equal(ts, room)), "ends more than 146 years after the zero")
    names = _method(batch)
    readable = [not _UNREADABLE.search(name) for name in arrow.texts(names.dictionary)]
    fits = np.array([*readable, False], np.bool_)[arrow.codes(names)]  # the last one is for null, code -1
    keep &= _count(written, keep, arrow.array(fits), "a name that a line cannot hold")
    return batch if keep.all() else batch.filter(arrow.array(keep))


def _count(written: Written, keep: Mask, good: Column, reason: str) -> Mask:
    mask = arrow.bools(good)
    written.leave_out(reason, int((keep & ~mask).sum()))
    return mask


def _text_column(batch: pa.RecordBatch, name: str) -> Column:
    return pc.cast(batch.column(name), pa.string())


def _method(batch: pa.RecordBatch) -> DictColumn:
    """Return the column method: the raw name where there is one, and the log's own word for copies and memsets."""
    name, raw, kind, copy = (_text_column(batch, c) for c in ("name", "raw_name", "kind", "copy_kind"))
    method = pc.coalesce(raw, name)
    copies = pc.equal(kind, str(Kind.MEMCPY))
    legacy = pc.if_else(copies, pc.binary_join_element_wise("memcpy", pc.fill_null(copy, ""), ""), "memset")
    return arrow.encoded(pc.if_else(_is_renamed(method, kind), legacy, method))


def _is_renamed(method: Column, kind: Column) -> Column:
    """Return for each row whether it is a copy or memset whose name is not a method of this log."""
    names = arrow.encoded(pc.fill_null(method, ""))
    is_copy, is_set = (
        pc.match_substring_regex(names.dictionary, pattern).take(names.indices)
        for pattern in (_COPY_METHOD, _SET_METHOD)
    )
    is_method = pc.if_else(pc.equal(kind, str(Kind.MEMCPY)), is_copy, is_set)
    return pc.and_(pc.not_equal(kind, str(Kind.KERNEL)), pc.invert(is_method))


def _count_names(contents: _Contents, batch: pa.RecordBatch) -> None:
    """Count the copies that get another name, and the kernels that look like copies in the log."""
    kind = _text_column(batch, "kind")
    method = pc.coalesce(_text_column(batch, "raw_name"), _text_column(batch, "name"))
    contents.renamed += arrow.count(_is_renamed(method, kind))
    kernels = pc.equal(kind, str(Kind.KERNEL))
    is_method = pc.or_(pc.match_substring_regex(method, _COPY_METHOD), pc.match_substring_regex(method, _SET_METHOD))
    contents.misleading += arrow.count(pc.and_(kernels, is_method))


def _collect_columns(contents: _Contents, batch: pa.RecordBatch) -> None:
    contexts = pa.table({c: batch.column(c) for c in ("source", "device", "context")}).group_by(
        ["source", "device", "context"], use_threads=False
    )
    for row in contexts.aggregate([]).to_pylist():
        contents.contexts.setdefault((row["source"], row["device"], row["context"]))
    for name in (*_COLUMNS, *_WITHOUT_COLUMN):
        if batch.column(name).null_count < batch.num_rows:
            (contents.without_column if name in _WITHOUT_COLUMN else contents.columns).add(name)
    if batch.column("args").null_count < batch.num_rows:
        keys, lost = members(batch.column("args"))
        contents.members.update(dict.fromkeys(keys))
        contents.lost += lost


def _columns(contents: _Contents, clock: str) -> list[str]:
    first = [*_STAMPS[clock], "method", "gputime"]
    if contents.members.keys() & {"cputime_ns", "cputime"}:
        first.append("cputime")
    later = [word for name, word in _COLUMNS.items() if name in contents.columns]
    # A member of args that has the name of a column of ours would be read back as that column.
    reserved = {"cputime_ns", "gputime_ns", *_RESERVED, *first, *later}
    return [*first, *later, *(key for key in contents.members if key not in reserved)]


def _header(out: BinaryIO, run: Run, key: Context, columns: list[str], *, comma: bool) -> dict[str, str]:
    """Write the header of a context, and return column -> its word in this log."""
    source, device, context = key
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


def _stored(spool: Path, context: Context) -> Iterator[pa.RecordBatch]:
    for batch in stored_rows(spool):
        mask: Column | None = None
        for name, value in zip(("source", "device", "context"), context, strict=True):
            column = batch.column(name)
            same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
            mask = same if mask is None else pc.and_(mask, same)
        kept = batch if mask is None else batch.filter(mask)
        if kept.num_rows:
            yield kept


def _lines(
    batch: pa.RecordBatch, columns: dict[str, str], origin: int, contents: _Contents, *, comma: bool
) -> memoryview:
    """Return the lines of a batch as one text. columns: column -> its word in this log."""
    start = arrow.ints(batch.column("ts_ns")) + origin
    dur = arrow.ints(batch.column("dur_ns"))
    extra = members(batch.column("args"))[0]
    schema_name = {word: name for name, word in _COLUMNS.items()}
    contents.lost += sum(len(values) - values.null_count for key, values in extra.items() if key in _RESERVED)
    texts: list[Column] = []
    for column, word in columns.items():
        cells: Column | None = None
        if column == "gpustarttimestamp":
            cells = _hexadecimal(start)
        elif column == "gpuendtimestamp":
            cells = _hexadecimal(start + dur)
        elif column == "timestamp":
            cells = _us(arrow.array(start))
        elif column == "method":
            cells = _names(batch, contents, comma=comma)
        elif column == "gputime":
            measured = _whole(extra.get("gputime_ns"), contents)
            cells = _us(arrow.array(dur) if measured is None else pc.coalesce(measured, arrow.array(dur)))
        else:
            if column == "cputime" and (measured := _whole(extra.get("cputime_ns"), contents)) is not None:
                cells = _us(measured)
            elif column in schema_name and batch.column(schema_name[column]).null_count < batch.num_rows:
                cells = _text_column(batch, schema_name[column])
            if column in extra:
                more = _plain(extra[column], contents, comma=comma)
                if cells is not None:
                    contents.lost += arrow.count(pc.and_(cells.is_valid(), more.is_valid()))
                cells = more if cells is None else pc.coalesce(cells, more)
        text = arrow.nulls(len(dur), pa.string()) if cells is None else cells
        texts.append(text if comma else pc.binary_join_element_wise(f"{word}=[ ", text, " ] ", ""))
    joined = pc.binary_join_element_wise(*[pc.fill_null(t, "") for t in texts], "," if comma else "")
    joined = pc.cast(pc.binary_join_element_wise(joined, "\n", ""), pa.large_string())
    offsets, data = arrow.text_parts(joined)
    return data[int(offsets[0]) : int(offsets[-1])].data


def _whole(values: Column | None, contents: _Contents) -> Column | None:
    """Return members that are whole ns as int64; others are null and counted as lost."""
    if values is None:
        return None
    good = pc.match_substring_regex(values, "^[0-9]{1,18}$")
    contents.lost += arrow.count(pc.invert(good))
    return pc.cast(pc.if_else(good, values, None), pa.int64())


def _names(batch: pa.RecordBatch, contents: _Contents, *, comma: bool) -> Column:
    method = _method(batch)
    words = arrow.texts(method.dictionary)
    if comma:
        special = [("," in w or '"' in w or w.startswith("#")) for w in words]
        used = np.bincount(arrow.codes(method), minlength=len(words))
        contents.quoted += sum(n for n, s in zip(used.tolist(), special, strict=True) if s)
        words = [_quoted(w) if s else w for w, s in zip(words, special, strict=True)]
    return arrow.array(words, pa.string()).take(method.indices)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _plain(values: Column, contents: _Contents, *, comma: bool) -> Column:
    """Return JSON values as the log prints them: numbers unchanged, strings without quotes, null as nothing."""
    encoded = arrow.encoded(values)
    used = np.bincount(arrow.ints(encoded.indices.drop_null()), minlength=len(encoded.dictionary)).tolist()
    words: list[str | None] = []
    for text, count in zip(arrow.texts(encoded.dictionary), used, strict=True):
        value: str = orjson.loads(text) if text.startswith('"') else text
        if text == "null" or (_UNREADABLE_CELL if comma else _UNREADABLE).search(value):
            contents.lost += count if text != "null" else 0
            words.append(None)
            continue
        if text in ("true", "false") or (text.startswith('"') and _NUMBER.fullmatch(value)):
            contents.retyped += count
        words.append(_quoted(value) if comma and ("," in value or '"' in value) else value)
    return arrow.array(words, pa.string()).take(encoded.indices)


def _us(ns: Column) -> Column:
    whole = pc.divide(ns, 1000)
    rest = pc.subtract(ns, pc.multiply(whole, 1000))
    return pc.binary_join_element_wise(pc.cast(whole, pa.string()), _THOUSANDTHS.take(rest), "")


def _hexadecimal(values: I64) -> Column:
    shifts = np.arange(60, -4, -4, dtype=np.int64)
    digits = _HEX[(values[:, None] >> shifts) & 15]
    offsets = np.arange(len(values) + 1, dtype=np.int32) * 16
    return arrow.text_column(offsets, digits)


def _add_notes(written: Written, contents: _Contents, run: Run, clock: str) -> None:
    if clock == "none":
        written.notes.append("no time stamps were written, because the source had none")
    elif clock == "gpu" and run.origin_ns is None and written.events:
        written.notes.append("the trace has no wall clock: time stamps count from the zero of the trace")
    if len(contents.contexts) > 1:
        written.notes.append(f"{len(contents.contexts)} contexts are in one file, each with its own header")
    if contents.without_column:
        written.notes.append(f"this log has no column for: {', '.join(sorted(contents.without_column))}")
    if contents.lost:
        written.notes.append(f"{contents.lost:,} members of args have no column in this log")
    if contents.retyped:
        written.notes.append(
            f"{contents.retyped:,} members of args will read back with another type: true, false, quoted numbers"
        )
    if contents.renamed:
        written.notes.append(f"{contents.renamed:,} copies and memsets got the names of this log, such as memcpyHtoD")
    if contents.misleading:
        written.notes.append(
            f"{contents.misleading:,} kernels are named like the copies of this log, and will read back as copies"
        )
    if contents.quoted:
        written.notes.append(
            f"{contents.quoted:,} rows have a name with a comma: it is in quotes, unlike in logs of the profiler"
        )

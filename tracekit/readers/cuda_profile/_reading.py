"""The log of the command line profiler: the recognition, and the batches."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.errors import ParseError
from tracekit.readers.base import Confidence, Head, Opened, ReadOptions
from tracekit.readers.builder import Values, event_batch, map_texts
from tracekit.readers.cuda_profile._cells import PAD, Text
from tracekit.readers.cuda_profile._columns import INTEGERS, MEMSET, Block, args_of, copy_kind
from tracekit.readers.cuda_profile._log import NOT_ROWS, Log, is_column_line, other_lines
from tracekit.readers.cuda_profile._pasted import as_written, prefix_of
from tracekit.readers.cuda_profile._rows import comma_shapes, key_value_shapes, one_line
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.names import Demangler
from tracekit.readers.printed.locale import NumberCells, as_csv, as_printed, delimiter_of
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.source import LineBlock, Source
from tracekit.schema import EVENTS, Kind
from tracekit.trace import Ledger, Run, SourceFacts
from tracekit.units import MAX_NS

_DECIMALS = ("gputime=[ ", "cputime=[ ", "occupancy=[ ")
_CELLS = NumberCells(
    re.compile(rf"=\[ {LOCAL_NUMBER} \]"),
    fraction=re.compile("|".join(rf"(?<={re.escape(key)}){LOCAL_NUMBER}" for key in _DECIMALS)),
)

_FIRST_ROW = re.compile(rb"(?>(?:\w+=\[ .*? \] )??method=\[ ).*gputime=\[ ")
"""Atomic: where nothing follows the first method, nothing follows another one, and no other way there is tried."""
_HEADER = re.compile(rb"^([ \t]*)# ?(?:CUDA|OPENCL)_PROFILE_LOG_VERSION", re.M)


def sniff(head: Head) -> Confidence:
    """Return YES for the version line, or for the column line followed by rows if the header was cut away."""
    if not head.text:
        return Confidence.NO
    if _HEADER.search(head.data) or prefix_of(head.data) is not None:
        return Confidence.YES
    lines = [line for line in head.lines()[:50] if line.strip() and not line.startswith(NOT_ROWS)]
    if not lines:
        return Confidence.NO
    names = {cell.strip() for cell in lines[0].split(b",")}
    if is_column_line(lines[0]) and b"method" in names and names & {b"gputime", b"gpustarttimestamp"}:
        return Confidence.YES
    return Confidence.YES if _FIRST_ROW.match(lines[0]) else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events. Raises: ParseError for a file without a column line before its rows, or without durations."""
    run = Run(sources=[SourceFacts(source.name, "cuda-profile")])
    source = as_written(source)
    in_cells = b"_PROFILE_CSV 1" in source.head().data or delimiter_of(source.head().data) != ","
    source = as_csv(source, options) if in_cells else as_printed(source, options, _CELLS)
    log = Log(ledger, source, options, run, Demangler(ledger, enabled=options.demangle))
    head = source.head().data
    log.indent = match[1] if (match := _HEADER.search(head)) else b""
    laid_out = b"timestamp" not in head
    return Opened(run, _batches(log), ordered=not (laid_out and b"streamid" in head), ledgers=(ledger,))


def _batches(log: Log) -> Iterator[pa.RecordBatch]:
    seen = False
    for block in log.source.line_blocks(log.ledger):
        for part in _parts(block, log.indent):
            seen = True
            batch = _part(log, part)
            if batch is not None and batch.num_rows:
                yield batch
    if not seen or (not log.columns and not log.logs):
        raise ParseError(
            log.source.name,
            "line 1",
            "the file has no header and no column line of the CUDA profiler",
            hint="`tracekit formats` lists what can be read",
        )


def _parts(block: LineBlock, indent: bytes) -> Iterator[LineBlock]:
    """Cut a block into parts: each is one header or column line, or rows."""
    data = block.data.replace(b"\r\n", b"\n") if b"\r" in block.data else block.data
    if indent:
        data = data.removeprefix(indent).replace(b"\n" + indent, b"\n")
    data = data.removesuffix(b"\r")
    line, begin = block.line, 0
    for first, last in other_lines(data):
        if first > begin:
            yield LineBlock(data[begin:first], block.offset + begin, line)
            line += data.count(b"\n", begin, first)
        yield LineBlock(data[first:last], block.offset + first, line, block.torn and last == len(data))
        begin, line = last, line + 1
    if begin < len(data):
        yield LineBlock(data[begin:], block.offset + begin, line, block.torn)


def _part(log: Log, part: LineBlock) -> pa.RecordBatch | None:
    first = part.data.split(b"\n", 1)[0]
    if first.startswith(NOT_ROWS):
        log.header(first.decode("utf-8", "replace"), part.line)
        return None
    if is_column_line(first):
        log.take_columns(first.decode("ascii", "replace"), part.line)
        return None
    return _rows(log, part)


def _rows(log: Log, part: LineBlock) -> pa.RecordBatch | None:
    text = Text(part.data)
    breaks = np.flatnonzero(text.bytes[PAD:-PAD] == ord("\n")) + PAD
    starts = np.concatenate([[PAD], breaks + 1]).astype(np.int64)
    ends = np.concatenate([breaks, [PAD + len(part.data)]]).astype(np.int64)
    if part.data.endswith(b"\n"):
        starts, ends = starts[:-1], ends[:-1]
    count = len(starts)
    log.ledger.read += count
    comma = log.csv or b"=[" not in part.data
    if not log.columns and not comma:
        _take_columns_from_rows(log, part)
    if not log.columns:
        blank = sum(not line.strip(b"\0 \t") for line in part.data.split(b"\n")[:count])
        log.ledger.ignore("blank", blank)
        log.ledger.drop(
            "no-column-line", count - blank, where=f"line {part.line}", text="dropped: rows before the line of columns"
        )
        return None
    block = Block(count)
    done = np.zeros(count, np.bool_)
    last: tuple[frozenset[str], bool] | None = None
    shapes = comma_shapes(text, starts, ends, log.columns) if comma else key_value_shapes(text, starts, ends)
    for rows, cells in shapes:
        done[rows] = True
        if not comma and "method" in cells:
            method, keys = cells["method"], frozenset(cells)
            is_torn = part.torn and rows[-1] == count - 1
            if is_torn:
                last = keys, _kind(method.one(-1)) == Kind.KERNEL
            if len(rows) > is_torn:
                log.note_shape(keys, _kind(method.one(0)) == Kind.KERNEL)
        for column, some in cells.items():
            block.add(rows, column, some)
    blank_rows = 0
    for row in np.flatnonzero(~done).tolist():
        line = text.data[starts[row] - PAD : ends[row] - PAD].decode("utf-8", "replace").strip("\0 \t\r")
        if not line:
            block.bad[row] = ""
            blank_rows += 1
            continue
        if line.split(",") == log.columns:
            block.bad[row] = ""
            log.ledger.ignore("column-line")
            continue
        cells_of_line = one_line(line, log.columns, comma=comma)
        if not cells_of_line:
            block.bad[row] = "not a row of this log"
        for column, value in cells_of_line.items():
            block.add_one(row, column, value)
    log.ledger.ignore("blank", blank_rows)
    torn = count - 1 if part.torn else -1
    if torn >= 0 and torn not in block.bad and not _is_complete(log, part, last):
        # The last cell of a cut line may lack digits, and further cells may be missing.
        block.bad[torn] = "cut"
    return _batch(log, block, part.line, torn)


def _is_complete(log: Log, part: LineBlock, last: tuple[frozenset[str], bool] | None) -> bool:
    """Return whether a key-value row lacks only its line end: it has all keys, or those of other rows of its kind."""
    if last is None or not part.data.rstrip().endswith(b"]"):
        return False
    return last[0] >= set(log.columns) or last in log.shapes


def _take_columns_from_rows(log: Log, part: LineBlock) -> None:
    """Take the columns from key-value rows, which name them, if the head of the log was cut away."""
    log.ledger.note(
        "no-column-line", "the log has no line of columns: they were taken from the rows", where=f"line {part.line}"
    )
    words = dict.fromkeys(re.findall(rb"(?<!\w)(\w++)=\[", part.data[:65536]))
    log.begin_columns([word.decode("ascii", "replace") for word in words])


def _batch(log: Log, block: Block, line: int, torn: int) -> pa.RecordBatch | None:
    every = np.arange(block.count)
    starts, has_start = block.number("gpustarttimestamp", every)
    stops, has_stop = block.number("gpuendtimestamp", every)
    gputime, has_time = block.number("gputime", every)
    if not has_start.any() and (has_stop & has_time).any():
        starts, has_start = stops - gputime, has_stop & has_time
    method = block.text("method", every)
    stamped = has_start & has_stop
    dur = np.where(stamped, stops - starts, gputime)
    for at in np.flatnonzero(~arrow.valid(method)).tolist():
        block.bad.setdefault(at, "no method")
    for at in np.flatnonzero(~(stamped | has_time)).tolist():
        block.bad.setdefault(at, "no duration")
    for at in np.flatnonzero(dur < 0).tolist():
        block.bad.setdefault(at, "it ends before it starts")
    calls, has_call = block.number("timestamp", every)
    ts, has_clock = {"gpu": (starts, has_start), "host": (calls, has_call)}.get(log.clock, (starts, has_start))
    laid = log.lays_out
    if not laid:
        for at in np.flatnonzero(~has_clock).tolist():
            block.bad.setdefault(at, "no time stamp")
    keep = np.delete(every, list(block.bad)) if block.bad else every
    if laid:
        ts = np.zeros(block.count, np.int64)
        ts[keep], fits = _laid_out(log, block, keep, dur[keep])
        if not fits.all():
            for at in keep[~fits].tolist():
                block.bad[at] = "the durations before it add up to more than 146 years"
            keep = keep[fits]
    _drop(log, block, line, torn)
    if not len(keep):
        return None
    ts, dur = ts[keep], dur[keep]
    log.last_end = max(log.last_end, int((ts + dur).max()))
    if laid:
        log.ledger.note("synthetic-times", _SYNTHETIC if log.clock == "none" else _OTHER_CLOCK, len(keep))
    elif log.clock == "host":
        log.ledger.note("host-timestamps", _HOST, len(keep))
    both = stamped[keep] & has_time[keep]
    differ = int((both & (np.abs(gputime[keep] - dur) >= 1000)).sum())
    if differ:
        log.ledger.note(
            "gputime-differs", "gputime and the time stamps differ by 1 us or more: the stamps are used", differ
        )
    _note_odd_cells(log, block, line)
    log.ledger.kept += len(keep)
    log.ledger.events_out += len(keep)
    return _events(log, block, keep, ts, dur, line)


def _note_odd_cells(log: Log, block: Block, line: int) -> None:
    for row, column in sorted(block.odd):
        if row not in block.bad:
            log.ledger.note(
                "odd-cell",
                f"a cell of {column} is not a number that the column can hold: it is kept in args",
                where=f"line {line + row}",
            )
    for row in sorted(block.rounded):
        if row not in block.bad:
            log.ledger.note("rounded", "a time has digits below 1 ns: it was rounded", where=f"line {line + row}")


_SYNTHETIC = (
    "the log has no time stamps: its rows are laid end to end, in the order of the file, for each context and stream; "
    "durations are as measured, starts and gaps are not"
)
_OTHER_CLOCK = (
    "a log of this file has no clock, or another clock than the first log: its rows are laid end to end behind those "
    "before; durations are as measured, starts and gaps are not"
)
_HOST = "timestamp is the time of the call on the host, not of the start on the device"


def _drop(log: Log, block: Block, line: int, torn: int) -> None:
    for row, why in sorted(block.bad.items()):
        if not why:
            continue
        if row == torn:
            drop_torn(log.ledger, f"line {line + row}")
        else:
            log.ledger.drop("bad-row", where=f"line {line + row}", text=f"dropped: a row that cannot be read ({why})")


def _laid_out(log: Log, block: Block, keep: I64, dur: I64) -> tuple[I64, Mask]:
    """Return starts end to end for each (device, context, stream), and the mask of rows that end within 146 years.

    A stream continues at the end of its rows so far, also those of an earlier log in the same file.
    """
    ts = np.zeros(len(dur), np.int64)
    fits = np.ones(len(dur), np.bool_)
    stream, has_stream = block.number("streamid", keep)
    lanes = np.where(has_stream, stream, -1)
    for lane in np.unique(lanes).tolist():
        lane_rows = np.flatnonzero(lanes == lane)
        key = (log.device, log.context, lane)
        begin = max(log.ends.get(key, 0), log.floor)
        if begin + float(dur[lane_rows].sum(dtype=np.float64)) > MAX_NS >> 1:
            ends = np.array(list(itertools.accumulate(dur[lane_rows].tolist(), initial=begin))[1:], object)
            fits[lane_rows] = np.array(ends < MAX_NS, np.bool_)
            lane_rows, ends = lane_rows[fits[lane_rows]], ends[fits[lane_rows]].astype(np.int64)
        else:
            ends = begin + np.cumsum(dur[lane_rows])
        if len(lane_rows):
            ts[lane_rows] = ends - dur[lane_rows]
            log.ends[key] = int(ends[-1])
    return ts, fits


def _events(log: Log, block: Block, keep: I64, ts: I64, dur: I64, line: int) -> pa.RecordBatch:
    method = block.text("method", keep)
    name, raw = log.names.columns(method)
    kinds = map_texts(method, _kind)
    columns: dict[str, Values] = {
        "ts_ns": ts,
        "dur_ns": dur,
        "event_id": keep + line,
        "name": name,
        "raw_name": raw,
        "kind": kinds,
        "copy_kind": map_texts(method, lambda m: copy_kind(m) or None),
        "source": log.options.source,
        "device": log.device,
        "context": log.context,
        "args": args_of(block, keep, dur, stamps=log.unused_stamps),
    }
    for column, target in INTEGERS.items():
        values = block.nullable(column, EVENTS.field(target).type, keep)
        if values is not None:
            columns[target] = values
    return event_batch(len(keep), columns)


def _kind(method: str) -> str:
    if copy_kind(method) is not None:
        return Kind.MEMCPY
    return Kind.MEMSET if MEMSET.fullmatch(method) else Kind.KERNEL

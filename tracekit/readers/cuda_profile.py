"""cuda-profile: logs of the CUDA and OpenCL command line profiler (COMPUTE_PROFILE=1; Paddle's cuda_profiler).

    # CUDA_PROFILE_LOG_VERSION 2.0
    # CUDA_DEVICE 0 Tesla C2050
    method,gputime,cputime,occupancy
    method=[ memcpyHtoD ] gputime=[ 328.800 ] cputime=[ 739.000 ]

A record is a line. LOG_VERSION 1.x and 2.0, key-value and CSV (the line of columns stands in both), CUDA_ and OPENCL_
words, several logs appended to one file. gputime, cputime and timestamp are us; gpustarttimestamp and gpuendtimestamp
hexadecimal ns since the Unix epoch; a CSV row may end early. Names are mangled; they become readable and `raw_name`
keeps the log's spelling. `stream` is streamid, `context` and `device` come from the header. `args`: see
`_cuda_columns.args_of`.

Where a log has no time stamps its rows are laid end to end, for each context, and each stream where there is a streamid
column: such times are synthetic, and a note says so. `timestamp` (version 1) is when the host made the call, on a clock
whose zero is not stated.

Not supported: prof_trigger and other settings leave no trace in the log, so nothing is said of them.
Sources: the real logs of the corpus (three drivers), NVIDIA's "Compute Command Line Profiler User Guide".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.readers._cells import I64, PAD, Mask, Text
from tracekit.readers._cuda_columns import INTEGERS, Block, args_of, copy_kind
from tracekit.readers._cuda_rows import comma_shapes, key_value_shapes, one_line
from tracekit.readers._names import Demangler
from tracekit.readers.base import Confidence, Head, Opened, Reader, ReadOptions
from tracekit.readers.builder import event_batch, map_texts
from tracekit.readers.source import LineBlock, Source
from tracekit.schema import EVENTS, Kind
from tracekit.trace import Ledger, Run, SourceFacts

_HEADER = re.compile(rb"^# ?(?:CUDA|OPENCL)_PROFILE_LOG_VERSION", re.M)
_FACT = re.compile(r"#\s*(?:(CUDA|OPENCL)_)?([A-Z_]+)\s*(.*)")
_COLUMNS = re.compile(rb"^[ \t]*[a-z][A-Za-z0-9_]*(?:,[ \t]*[A-Za-z0-9_]+)+[ \t]*$")
_KNOWN = (b"gputime", b"cputime", b"gpustarttimestamp", b"timestamp")


def sniff(head: Head) -> Confidence:
    """YES for the version line, or for the column line followed by rows where the header was cut away."""
    if not head.text:
        return Confidence.NO
    if _HEADER.search(head.data):
        return Confidence.YES
    lines = [line for line in head.lines()[:50] if line.strip() and not line.startswith(b"#")]
    if lines and _is_columns(lines[0]) and re.search(rb"\bmethod\b", lines[0]):
        return Confidence.YES
    return (
        Confidence.YES if lines and re.match(rb"(?:\w+=\[ .* \] )*method=\[ .*gputime=\[ ", lines[0]) else Confidence.NO
    )


def _is_columns(line: bytes) -> bool:
    cells = [cell.strip() for cell in line.split(b",")]
    return bool(_COLUMNS.match(line)) and any(word in cells for word in _KNOWN)


@dataclass(slots=True)
class _Log:
    """Where the reader is: the header that rules the next rows, and how far synthetic time has come."""

    ledger: Ledger
    source: Source
    options: ReadOptions
    run: Run
    names: Demangler
    device: int | None = None
    context: int | None = None
    csv: bool = False
    columns: list[str] = field(default_factory=list)
    logs: int = 0
    ends: dict[tuple[int, ...], int] = field(default_factory=dict)

    @property
    def facts(self) -> SourceFacts:
        return self.run.sources[0]

    def header(self, line: str, number: int) -> None:
        """Take a line that begins with #."""
        self.ledger.read += 1
        self.ledger.facts += 1
        found = _FACT.match(line)
        if found is None:
            return
        word, value = found[2], found[3].strip()
        facts = self.facts.facts
        if word == "PROFILE_LOG_VERSION":
            self.logs += 1
            self.csv, self.columns, self.device, self.context = False, [], None, None
            facts.setdefault("tool", f"{'OpenCL' if found[1] == 'OPENCL' else 'CUDA'} command line profiler")
            facts.setdefault("log_version", value)
        elif word == "DEVICE":
            ordinal, _, name = value.partition(" ")
            self.device = int(ordinal) if re.fullmatch(r"[0-9]{1,6}", ordinal) else None
            if self.device is not None and name:
                self.run.devices[(self.options.source, self.device)] = name.strip()
        elif word == "CONTEXT":
            self.context = int(value) if re.fullmatch(r"[0-9]{1,18}", value) else None
            facts.setdefault("contexts", []).append([self.device, self.context])
        elif word == "PROFILE_CSV":
            self.csv = value != "0"
        elif word == "TIMESTAMPFACTOR":
            facts.setdefault("timestampfactor", value)
        else:
            self.ledger.note("unknown-header", "a header line of another kind was passed over", where=f"line {number}")

    def take_columns(self, line: str, number: int) -> None:
        """Take the line of columns. Raises: ParseError where rows could have no duration."""
        columns = [cell.strip() for cell in line.split(",")]
        doubled = sorted({c for c in columns if columns.count(c) > 1})
        if doubled:
            raise ParseError(self.source.name, f"line {number}", f"the column {doubled[0]} stands twice")
        if "method" not in columns:
            raise ParseError(self.source.name, f"line {number}", "the log has no column method")
        if "gputime" not in columns and not {"gpustarttimestamp", "gpuendtimestamp"} <= set(columns):
            raise ParseError(
                self.source.name, f"line {number}", "the log has neither gputime nor both time stamps of the GPU",
                hint="profile again: gputime is always written unless counters replace it",
            )  # fmt: skip
        self.columns = columns
        self.ledger.read += 1
        self.ledger.ignore("column-line")
        facts = self.facts.facts
        facts.setdefault("columns", columns)
        if "gpustarttimestamp" in columns:
            self.run.origin_ns = 0
        elif "timestamp" not in columns:
            self.facts.synthetic_time = True


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Open a log. Raises: ParseError for a file that has no column line before its rows, or one without durations."""
    run = Run(sources=[SourceFacts(source.name, READER.name)])
    log = _Log(ledger, source, options, run, Demangler(ledger, enabled=options.demangle))
    head = source.head().data
    laid_out = b"timestamp" not in head
    return Opened(run, _batches(log), ordered=not (laid_out and b"streamid" in head), ledgers=(ledger,))


def _batches(log: _Log) -> Iterator[pa.RecordBatch]:
    seen = False
    for block in log.source.line_blocks(log.ledger):
        for part in _parts(block):
            seen = True
            batch = _part(log, part)
            if batch is not None and batch.num_rows:
                yield batch
    if not seen or (not log.columns and not log.logs):
        raise ParseError(
            log.source.name, "line 1", "no header and no column line of the CUDA profiler",
            hint="`tracekit formats` lists what can be read",
        )  # fmt: skip


def _parts(block: LineBlock) -> Iterator[LineBlock]:
    """Cut a block so that header and column lines stand alone: each part is one of them, or rows."""
    data = block.data.replace(b"\r\n", b"\n") if b"\r" in block.data else block.data
    data = data.removesuffix(b"\r")
    line, begin = block.line, 0
    for first, last in _lines_apart(data):
        if first > begin:
            yield LineBlock(data[begin:first], block.offset + begin, line)
            line += data.count(b"\n", begin, first)
        yield LineBlock(data[first:last], block.offset + first, line, block.torn and last == len(data))
        begin, line = last, line + 1
    if begin < len(data):
        yield LineBlock(data[begin:], block.offset + begin, line, block.torn)


def _lines_apart(data: bytes) -> list[tuple[int, int]]:
    """Return first and last place of each header line, and of each column line: it follows a header, or begins."""
    places: list[int] = []
    if b"#" in data:
        codes = np.frombuffer(data, np.uint8)
        hashes = np.flatnonzero(codes == ord("#"))
        places = hashes[(hashes > 0) & (codes[hashes - 1] == ord("\n"))].tolist()
    found: list[tuple[int, int]] = []
    for first in [0, *places]:
        at = first
        for _ in range(2):
            end = data.find(b"\n", at)
            last = len(data) if end < 0 else end + 1
            apart = data.startswith(b"#", at) or _is_columns(data[at:last].rstrip(b"\n"))
            if apart and at < last and (not found or found[-1][0] < at):
                found.append((at, last))
            at = last
    return found


def _part(log: _Log, part: LineBlock) -> pa.RecordBatch | None:
    first = part.data.split(b"\n", 1)[0]
    if first.startswith(b"#"):
        log.header(first.decode("utf-8", "replace"), part.line)
        return None
    if _is_columns(first):
        log.take_columns(first.decode("ascii", "replace"), part.line)
        return None
    return _rows(log, part)


def _rows(log: _Log, part: LineBlock) -> pa.RecordBatch | None:
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
        _columns_unsaid(log, part)
    if not log.columns:
        blank = sum(not line.strip(b"\0 \t") for line in part.data.split(b"\n")[:count])
        log.ledger.ignore("blank", blank)
        log.ledger.drop(
            "no-column-line", count - blank, where=f"line {part.line}", text="dropped: rows before the line of columns"
        )
        return None
    block = Block(count)
    done = np.zeros(count, np.bool_)
    shapes = comma_shapes(text, starts, ends, log.columns) if comma else key_value_shapes(text, starts, ends)
    for rows, cells in shapes:
        done[rows] = True
        for column, some in cells.items():
            block.add(rows, column, some)
    if part.torn and not comma and done[-1] and not part.data.rstrip().endswith(b"]"):
        done[-1] = False
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
    if torn >= 0 and torn not in block.bad and (comma or not part.data.rstrip(b"\0 \t").endswith(b"]")):
        # The last cell of a cut line may have lost digits: its value cannot be trusted.
        block.bad[torn] = "cut"
    return _batch(log, block, part.line, torn)


def _columns_unsaid(log: _Log, part: LineBlock) -> None:
    """Key-value rows name their columns themselves: a log whose head was cut away can be read."""
    log.ledger.note("no-column-line", "the log has no line of columns; its rows name them", where=f"line {part.line}")
    words = dict.fromkeys(re.findall(rb"(\w+)=\[", part.data[:65536]))
    log.columns = [word.decode("ascii", "replace") for word in words]
    if "gpustarttimestamp" in log.columns:
        log.run.origin_ns = 0
    elif "timestamp" not in log.columns:
        log.facts.synthetic_time = True


def _batch(log: _Log, block: Block, line: int, torn: int) -> pa.RecordBatch | None:
    every = np.arange(block.count)
    starts, has_start = block.number("gpustarttimestamp", every)
    stops, has_stop = block.number("gpuendtimestamp", every)
    gputime, has_time = block.number("gputime", every)
    method = block.text("method", every)
    stamped = has_start & has_stop
    dur = np.where(stamped, stops - starts, gputime)
    for at in np.flatnonzero(method.is_null().to_numpy(zero_copy_only=False)).tolist():
        block.bad.setdefault(at, "no method")
    for at in np.flatnonzero(~(stamped | has_time)).tolist():
        block.bad.setdefault(at, "no duration")
    for at in np.flatnonzero(dur < 0).tolist():
        block.bad.setdefault(at, "it ends before it starts")
    calls, has_call = block.number("timestamp", every)
    ts = np.where(has_start, starts, calls)
    with_clock = has_start | has_call
    synthetic = log.facts.synthetic_time
    if not synthetic:
        for at in np.flatnonzero(~with_clock).tolist():
            block.bad.setdefault(at, "no time stamp")
    _drop(log, block, line, torn)
    keep = np.delete(every, list(block.bad)) if block.bad else every
    if not len(keep):
        return None
    stream, has_stream = block.number("streamid", keep)
    dur = dur[keep]
    if synthetic:
        ts = _laid_out(log, stream, has_stream, dur)
        log.ledger.note("synthetic-times", _SYNTHETIC, len(keep))
    else:
        ts = ts[keep]
        if has_call.any() and not has_start.any():
            log.ledger.note("host-timestamps", _HOST, len(keep))
    differ = int((stamped[keep] & has_time[keep] & (np.abs(gputime[keep] - dur) >= 1000)).sum())
    if differ:
        log.ledger.note(
            "gputime-differs", "gputime and the time stamps differ by 1 us or more: the stamps hold", differ
        )
    log.ledger.kept += len(keep)
    log.ledger.events_out += len(keep)
    return _events(log, block, keep, ts, dur, line)


_SYNTHETIC = (
    "the log has no time stamps: its rows are laid end to end, in the order of the file, for each context and stream; "
    "durations are as measured, starts and gaps are not"
)
_HOST = "timestamp is when the host made the call, not when the device began"


def _drop(log: _Log, block: Block, line: int, torn: int) -> None:
    for row, why in sorted(block.bad.items()):
        if not why:
            continue
        if row == torn:
            log.ledger.drop("torn-row", where=f"line {line + row}", text="dropped: the last line is cut")
        else:
            log.ledger.drop("bad-row", where=f"line {line + row}", text=f"dropped: a row that cannot be read ({why})")


def _laid_out(log: _Log, stream: I64, has_stream: Mask, dur: I64) -> I64:
    """Return starts end to end for each (log, device, context, stream); goes on where the last block ended."""
    ts = np.zeros(len(dur), np.int64)
    lanes = np.where(has_stream, stream, -1)
    for lane in np.unique(lanes).tolist():
        mine = lanes == lane
        key = (log.logs, -1 if log.device is None else log.device, -1 if log.context is None else log.context, lane)
        after = np.cumsum(dur[mine]) + log.ends.get(key, 0)
        ts[mine] = after - dur[mine]
        log.ends[key] = int(after[-1])
    return ts


def _events(log: _Log, block: Block, keep: I64, ts: I64, dur: I64, line: int) -> pa.RecordBatch:
    method = block.text("method", keep)
    name, raw = log.names.columns(method)
    kinds = map_texts(method, _kind)
    columns: dict[str, object] = {
        "ts_ns": ts, "dur_ns": dur, "event_id": keep + line, "name": name, "raw_name": raw, "kind": kinds,
        "copy_kind": map_texts(method, lambda m: copy_kind(m) or None), "source": log.options.source,
        "device": log.device, "context": log.context, "args": args_of(block, keep, dur),
    }  # fmt: skip
    for column, target in INTEGERS.items():
        values = block.nullable(column, EVENTS.field(target).type, keep)
        if values is not None:
            columns[target] = values
    return event_batch(len(keep), columns)


def _kind(method: str) -> str:
    if copy_kind(method) is not None:
        return Kind.MEMCPY
    return Kind.MEMSET if method.lower().startswith("memset") else Kind.KERNEL


READER = Reader(
    name="cuda-profile",
    title="CUDA and OpenCL command line profiler log (key-value, CSV)",
    suffixes=(".log", ".kvp"),
    sniff=sniff,
    read=read,
)

"""cuda-profile: logs of the CUDA and OpenCL command line profiler (COMPUTE_PROFILE=1; Paddle's cuda_profiler).

    # CUDA_PROFILE_LOG_VERSION 2.0
    # CUDA_DEVICE 0 Tesla C2050
    method,gputime,cputime,occupancy
    method=[ memcpyHtoD ] gputime=[ 328.800 ] cputime=[ 739.000 ]

A record is a line. Read are LOG_VERSION 1.x and 2.0, key-value and CSV (both have the line of columns), CUDA_ and
OPENCL_ words, and several logs appended to one file. Warnings of the driver (NV_Warning) become notes. gputime, cputime
and timestamp are us; gpustarttimestamp and gpuendtimestamp are hexadecimal ns since the Unix epoch. A CSV row may end
early. Lines may be behind line numbers or the prefix of a logger, or in quotation marks. Mangled names become readable,
and `raw_name` keeps the spelling of the log. `stream` is streamid, `context` and `device` come from the header. `args`
has the columns without a place in the schema, and cputime_ns.

Rows of a log without time stamps are laid end to end, for each context, and for each stream if there is a streamid
column: such times are synthetic, and a note says so. `timestamp` (version 1) is the time of the host's call, on a clock
of unknown zero. The first log of a file sets the clock. Rows of an appended log with another clock are laid behind the
rows before them, with a note, and keep their stamps in `args`.

Not supported: prof_trigger and other settings, which leave no trace in the log.
Sources: real logs of three drivers, NVIDIA's "Compute Command Line Profiler User Guide".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I32, I64, DictColumn, Mask
from tracekit.model.schema import EVENTS, Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.model.units import MAX_NS
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import Values, event_batch, map_texts
from tracekit.readers.cuda_profile._rows import (
    INTEGERS,
    MEMSET,
    PAD,
    LogBlock,
    LogMemory,
    LogText,
    LogWords,
    args_of,
    comma_shapes,
    copy_kind,
    key_value_shapes,
    one_line,
    places_of,
)
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.head import Head
from tracekit.readers.names import Demangler
from tracekit.readers.printed.locale import NumberCells, as_csv, as_printed, delimiter_of
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.prefix import with_any_digits
from tracekit.readers.source import LineBlock, Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

# The state of reading a CUDA profiler log: header and column line of the next rows, warnings, and the clock.


CONTEXTS_KEPT = 1000
"""Maximum number of contexts in the facts of a run. A log of a real program has a handful."""
SHAPES_KEPT = 1000
"""Maximum number of sets of keys kept to check a last row without line end. A real log has two or three."""

METHODS_KEPT = 4096
"""Maximum number of methods kept from block to block."""

_FACT = re.compile(r"#\s*(?:(CUDA|OPENCL)_)?([A-Z_]+)\s*(.*)")
_COLUMNS = re.compile(rb"^[ \t]*[a-z][A-Za-z0-9_]*(?:,[ \t]*[A-Za-z0-9_]+)+[ \t]*$")
_KNOWN = (b"gputime", b"cputime", b"gpustarttimestamp", b"timestamp")
NOT_ROWS = (b"#", b"NV_Warning:", b"NV_Error:")
"""Beginnings of header lines, and of messages of the driver between the lines of a log."""
MAX_WARNINGS = 20


def is_column_line(line: bytes) -> bool:
    """Return whether a line names columns of this log."""
    cells = [cell.strip() for cell in line.split(b",")]
    return bool(_COLUMNS.match(line)) and any(word in cells for word in _KNOWN)


def other_lines(data: bytes, breaks: I64) -> list[tuple[int, int]]:
    """Return start and end of each line that is not a row: of a header, of the driver, or of columns.

    breaks: places of the line ends. The line of columns follows a header or is the first of the file. Blank lines may
    be between them.
    """
    codes = np.frombuffer(data, np.uint8)
    starts = breaks + 1  # lines behind the first
    if len(starts) and starts[-1] == len(data):
        starts = starts[:-1]
    begins = codes[starts]
    places = starts[begins == ord("#")].tolist()
    places += [at for at in starts[begins == ord("N")].tolist() if data.startswith(b"NV_", at)]
    lines: list[tuple[int, int]] = []
    at = 0
    for first in [0, *sorted(places)]:
        if first < at:
            continue
        at, columns = first, False
        while at < len(data) and not columns:
            end = data.find(b"\n", at)
            last = len(data) if end < 0 else end + 1
            columns = is_column_line(data[at:last].rstrip(b"\n"))
            if columns or data.startswith(NOT_ROWS, at):
                lines.append((at, last))
            elif data[at:last].strip():
                break
            at = last
    return lines


class Methods:
    """The methods of the rows of a log, and what they say of a row. Each is looked at once, as blocks have the same."""

    def __init__(self, names: Demangler) -> None:
        self._names = names
        self._words = LogWords()
        self._known = 0
        self._columns: dict[str, DictColumn] = {}

    def of_block(self) -> LogWords:
        """Return the methods so far, for a block of rows that may have more. Too many are forgotten before it."""
        if len(self._words) > METHODS_KEPT:
            self._words, self._known = LogWords(), 0
        return self._words

    def columns(self, rows: I32) -> dict[str, DictColumn]:
        """Return the columns of rows with these methods: name, raw_name where a name differs from it, and kinds."""
        if len(self._words) != self._known:
            self._known = len(self._words)
            words = arrow.encoded(self._words.column())
            name, raw = self._names.columns(words)
            self._columns = {
                "name": name,
                "kind": map_texts(words, _kind),
                "copy_kind": map_texts(words, lambda method: copy_kind(method) or None),
            }
            if raw is not None:
                self._columns["raw_name"] = raw
        columns = {}
        for column, texts in self._columns.items():
            codes = arrow.codes(texts)[rows]
            columns[column] = pa.DictionaryArray.from_arrays(
                arrow.nullable(np.maximum(codes, 0), pa.int32(), codes >= 0), texts.dictionary
            )
        return columns


@dataclass(slots=True)
class ProfileLog:
    """The header and columns of the next rows, and the state of synthetic time.

    clock: clock of the file, set by its first column line: "gpu" (ns of the epoch), "host" (us from an unknown zero),
    "none", "" before. block_clock: clock of the next rows. ends: (device, context, stream) -> end of the rows laid out.
    shapes: sets of keys of key-value rows, each with whether the row was a kernel. last_end: end of all rows so far.
    floor: start for rows of a log that lacks the clock of the file. indent: blanks before each line, b"" for none.
    """

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
    clock: str = ""
    block_clock: str = ""
    ends: dict[tuple[int | None, int | None, int], int] = field(default_factory=dict)
    shapes: set[tuple[frozenset[str], bool]] = field(default_factory=set)
    last_end: int = 0
    floor: int = 0
    indent: bytes = b""
    methods: Methods = field(init=False)
    memory: LogMemory = field(default_factory=LogMemory)
    warnings: list[str] = field(default_factory=list)
    contexts: list[list[int | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.methods = Methods(self.names)

    @property
    def facts(self) -> SourceFacts:
        """Facts of this file."""
        return self.run.sources[0]

    @property
    def lays_out(self) -> bool:
        """True if the next rows have no start on the clock of this file."""
        return self.clock == "none" or self.block_clock != self.clock

    @property
    def unused_stamps(self) -> tuple[str, ...]:
        """Columns of time stamps that do not become `ts_ns`: they go into args."""
        used = "" if self.lays_out else {"gpu": "gpustarttimestamp", "host": "timestamp"}[self.clock]
        return tuple(column for column in ("gpustarttimestamp", "timestamp") if column != used)

    def header(self, line: str, number: int) -> None:
        """Read a line of the header, or of the driver."""
        self.ledger.read += 1
        if not line.startswith("#"):
            self._warn(line.partition(":")[2].strip())
            return
        self.ledger.facts += 1
        match = _FACT.match(line)
        if match is None:
            return
        word, value = match[2], match[3].strip()
        facts = self.facts.facts
        if word == "PROFILE_LOG_VERSION":
            self.logs += 1
            self.csv, self.columns, self.device, self.context = False, [], None, None
            facts.setdefault("tool", f"{'OpenCL' if match[1] == 'OPENCL' else 'CUDA'} command line profiler")
            facts.setdefault("log_version", value)
            if not re.fullmatch(r"[12](\.\d+)*", value):
                self.ledger.note(
                    "unknown-version", "a LOG_VERSION that is not 1.x or 2.x: read as 2.0", where=f"line {number}"
                )
        elif word == "DEVICE":
            ordinal, _, name = value.partition(" ")
            self.device = int(ordinal) if re.fullmatch(r"[0-9]{1,6}", ordinal) else None
            if self.device is not None and name:
                self.run.devices[(self.options.source, self.device)] = name.strip()
            self._check(self.device, word, number)
        elif word == "CONTEXT":
            self.context = int(value) if re.fullmatch(r"[0-9]{1,18}", value) else None
            facts["contexts"] = self.contexts
            if len(self.contexts) < CONTEXTS_KEPT and [self.device, self.context] not in self.contexts:
                self.contexts.append([self.device, self.context])
            self._check(self.context, word, number)
        elif word == "PROFILE_CSV":
            self.csv = value != "0"
        elif word == "TIMESTAMPFACTOR":
            facts.setdefault("timestampfactor", value)
        else:
            self.ledger.note("unknown-header", "an unknown header line was skipped", where=f"line {number}")

    def _warn(self, text: str) -> None:
        """Make a note of a warning of the driver. Those beyond the maximum share one note."""
        self.ledger.ignore("message")
        self.facts.facts["warnings"] = known = self.warnings
        if text not in known and len(known) < MAX_WARNINGS:
            known.append(text)
        number = known.index(text) if text in known else MAX_WARNINGS
        code = f"driver-warning-{number + 1}" if number else "driver-warning"
        self.ledger.note(code, f"the driver itself warns: {text}")

    def note_shape(self, keys: frozenset[str], kernel: bool) -> None:
        """Keep the keys of a complete key-value row."""
        if len(self.shapes) < SHAPES_KEPT:
            self.shapes.add((keys, kernel))

    def _check(self, value: int | None, word: str, number: int) -> None:
        if value is None:
            self.ledger.note(
                "bad-header",
                f"the header {word} has no number: the {word.lower()} of its rows is unknown",
                where=f"line {number}",
            )

    def take_columns(self, line: str, number: int) -> None:
        """Read the line of columns. Raises: ParseError if rows could have no duration."""
        columns = [cell.strip() for cell in line.split(",")]
        doubled = sorted({c for c in columns if columns.count(c) > 1})
        if doubled:
            raise ParseError(self.source.name, f"line {number}", f"the column {doubled[0]} appears twice")
        if "method" not in columns:
            raise ParseError(self.source.name, f"line {number}", "the log has no column method")
        if "gputime" not in columns and not {"gpustarttimestamp", "gpuendtimestamp"} <= set(columns):
            raise ParseError(
                self.source.name,
                f"line {number}",
                "the log has neither gputime nor both time stamps of the GPU",
                hint="profile again: gputime is always written unless counters replace it",
            )
        self.ledger.read += 1
        self.ledger.ignore("column-line")
        self.begin_columns(columns)

    def begin_columns(self, columns: list[str]) -> None:
        """Set the columns of the next rows. Those of the first log set the clock of the file."""
        self.columns = columns
        self.facts.facts.setdefault("columns", columns)
        own = "gpu" if "gpustarttimestamp" in columns else "host" if "timestamp" in columns else "none"
        self.block_clock = own
        if not self.clock:
            self.clock = own
            self.run.origin_ns = 0 if own == "gpu" else None
            self.facts.synthetic_time = own == "none"
            if own == "host":
                self.facts.facts["clock"] = "host"
        elif own == self.clock == "host":
            self.ledger.note(
                "several-host-clocks",
                "the file has several logs, each with a host clock of unknown zero: the order of rows of "
                "different logs is not known",
            )
        self.floor = self.last_end if self.clock != "none" else 0


# Logs that were copied with line numbers, prefixes of a logger or a diff, or quotation marks: the lines of the driver.
#
#         1  # CUDA_PROFILE_LOG_VERSION 2.0            > # CUDA_PROFILE_LOG_VERSION 2.0
#         2  # CUDA_DEVICE 0 Tesla C2050               "method,gputime,cputime,occupancy"
#
# The first line of a log shows its prefix; its digits may differ from line to line. Lines in quotation marks lose them.


_BLOCK_BYTES = 4 << 20
_TITLE = re.compile(rb"^(?P<prefix>[^\n]{0,100}?)# ?(?:CUDA|OPENCL)_PROFILE_LOG_VERSION[ \t]+[\d.]+[ \t\r\"]*$", re.M)
_ROW = re.compile(rb"method=\[ |\b(?:method|gputime)\b[\w, ]{0,400},[ \t]*(?:gputime|cputime|method)\b")


def prefix_of(data: bytes) -> re.Pattern[bytes] | None:
    """Return a pattern of what is before each line of a log, None where there is nothing, or only blanks."""
    title = _TITLE.search(data)
    if title is None or not (prefix := title["prefix"]).strip() or not _ROW.search(data, title.end()):
        return None
    core = prefix.strip()
    gap = len(prefix) - len(prefix.rstrip())
    if core.endswith(b'"'):
        core, gap = core[:-1].rstrip(), 8
    # In latin-1 each byte is a character, so the pattern is the same for both.
    return re.compile(rb"[ \t]*" + with_any_digits(core.decode("latin-1")).encode("latin-1") + rb"[ \t]{0,%d}" % gap)


def is_quoted(data: bytes) -> bool:
    """Return whether a line of columns or a row is in quotation marks."""
    return re.search(rb'^"(?:# ?(?:CUDA|OPENCL)_|[\w, ]*\bgputime\b|method=).*"[ \t\r]*$', data, re.M) is not None


class Copied(Source):
    """A source whose lines have a prefix or quotation marks, without them."""

    def __init__(self, inner: Source, prefix: re.Pattern[bytes] | None) -> None:
        super().__init__(inner.name, inner.path)
        self._inner, self._prefix = inner, prefix

    def head(self) -> Head:
        """Return the head, without prefixes."""
        head = self._inner.head()
        return replace(head, data=b"\n".join(map(self._line, head.data.split(b"\n"))))

    def share_read(self) -> float:
        """Return how much of the input is read, 0..1."""
        return self._inner.share_read()

    def line_blocks(self, ledger: Ledger, size: int = _BLOCK_BYTES) -> Iterator[LineBlock]:
        """Yield the text in blocks of whole lines."""
        for block in self._inner.line_blocks(ledger, size):
            yield replace(block, data=b"\n".join(map(self._line, block.data.split(b"\n"))))

    def _line(self, line: bytes) -> bytes:
        if self._prefix is not None and (found := self._prefix.match(line)):
            line = line[found.end() :]
        text = line.rstrip(b" \t\r")
        if len(text) > 1 and text[:1] == text[-1:] == b'"' and b'"' not in text[1:-1].replace(b'""', b""):
            return text[1:-1].replace(b'""', b'"')
        return line


def as_written(source: Source) -> Source:
    """Return the source without prefixes and quotation marks of its lines; the same one where it has none."""
    data = source.head().data
    prefix = prefix_of(data)
    return Copied(source, prefix) if prefix is not None or is_quoted(data) else source


# The log of the command line profiler: the recognition, and the batches.


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


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events. Raises: ParseError for a file without a column line before its rows, or without durations."""
    run = Run(sources=[SourceFacts(source.name, "cuda-profile")])
    source = as_written(source)
    in_cells = b"_PROFILE_CSV 1" in source.head().data or delimiter_of(source.head().data) != ","
    source = as_csv(source, options) if in_cells else as_printed(source, options, _CELLS)
    log = ProfileLog(ledger, source, options, run, Demangler(ledger, enabled=options.demangle))
    head = source.head().data
    log.indent = match[1] if (match := _HEADER.search(head)) else b""
    laid_out = b"timestamp" not in head
    return ReadResult(run, _batches(log), ordered=not (laid_out and b"streamid" in head), ledgers=(ledger,))


def _batches(log: ProfileLog) -> Iterator[pa.RecordBatch]:
    seen = False
    arrow.keep_memory()
    # Rows of key-value logs are long: with more of them a block, what each batch costs by itself is paid less often.
    for block in log.source.line_blocks(log.ledger, _BLOCK_BYTES):
        for part, breaks in _parts(block, log.indent):
            seen = True
            batch = _part(log, part, breaks)
            if batch is not None and batch.num_rows:
                yield batch
    if not seen or (not log.columns and not log.logs):
        raise ParseError(
            log.source.name,
            "line 1",
            "the file has no header and no column line of the CUDA profiler",
            hint="`tracekit formats` lists what can be read",
        )


def _parts(block: LineBlock, indent: bytes) -> Iterator[tuple[LineBlock, I64]]:
    """Cut a block into parts, with the places of their line ends: each is one header or column line, or rows."""
    data = block.data.replace(b"\r\n", b"\n") if b"\r" in block.data else block.data
    if indent:
        data = data.removeprefix(indent).replace(b"\n" + indent, b"\n")
    data = data.removesuffix(b"\r")
    breaks = places_of(np.frombuffer(data, np.uint8), "\n")
    begin = 0
    for first, last in other_lines(data, breaks):
        if first > begin:
            yield _cut(block, data, breaks, begin, first)
        yield _cut(block, data, breaks, first, last)
        begin = last
    if begin < len(data):
        yield _cut(block, data, breaks, begin, len(data))


def _cut(block: LineBlock, data: bytes, breaks: I64, begin: int, end: int) -> tuple[LineBlock, I64]:
    """Return some lines of a block, and the places of their line ends."""
    first, last = np.searchsorted(breaks, [begin, end]).tolist()
    torn = block.torn and end == len(data)
    part = LineBlock(data[begin:end], block.offset + begin, block.line + first, torn)
    return part, breaks[first:last] - begin


def _part(log: ProfileLog, part: LineBlock, breaks: I64) -> pa.RecordBatch | None:
    first = part.data[: int(breaks[0]) if len(breaks) else len(part.data)]
    if first.startswith(NOT_ROWS):
        log.header(first.decode("utf-8", "replace"), part.line)
        return None
    if is_column_line(first):
        log.take_columns(first.decode("ascii", "replace"), part.line)
        return None
    return _rows(log, part, breaks)


def _rows(log: ProfileLog, part: LineBlock, breaks: I64) -> pa.RecordBatch | None:
    text = LogText(part.data, log.memory)
    starts = np.concatenate([[PAD], breaks + (PAD + 1)]).astype(np.int64)
    ends = np.concatenate([breaks + PAD, [PAD + len(part.data)]]).astype(np.int64)
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
    block = LogBlock(count, log.methods.of_block())
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


def _is_complete(log: ProfileLog, part: LineBlock, last: tuple[frozenset[str], bool] | None) -> bool:
    """Return whether a key-value row lacks only its line end: it has all keys, or those of other rows of its kind."""
    if last is None or not part.data.rstrip().endswith(b"]"):
        return False
    return last[0] >= set(log.columns) or last in log.shapes


def _take_columns_from_rows(log: ProfileLog, part: LineBlock) -> None:
    """Take the columns from key-value rows, which name them, if the head of the log was cut away."""
    log.ledger.note(
        "no-column-line", "the log has no line of columns: they were taken from the rows", where=f"line {part.line}"
    )
    words = dict.fromkeys(re.findall(rb"(?<!\w)(\w++)=\[", part.data[:65536]))
    log.begin_columns([word.decode("ascii", "replace") for word in words])


def _batch(log: ProfileLog, block: LogBlock, line: int, torn: int) -> pa.RecordBatch | None:
    every = np.arange(block.count)
    starts, has_start = block.number("gpustarttimestamp", every)
    stops, has_stop = block.number("gpuendtimestamp", every)
    gputime, has_time = block.number("gputime", every)
    if not has_start.any() and (has_stop & has_time).any():
        starts, has_start = stops - gputime, has_stop & has_time
    methods = block.method()
    stamped = has_start & has_stop
    dur = np.where(stamped, stops - starts, gputime)
    for at in np.flatnonzero(methods < 0).tolist():
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
    return _events(log, block, keep, methods[keep], ts, dur, line)


def _note_odd_cells(log: ProfileLog, block: LogBlock, line: int) -> None:
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


def _drop(log: ProfileLog, block: LogBlock, line: int, torn: int) -> None:
    for row, why in sorted(block.bad.items()):
        if not why:
            continue
        if row == torn:
            drop_torn(log.ledger, f"line {line + row}")
        else:
            log.ledger.drop("bad-row", where=f"line {line + row}", text=f"dropped: a row that cannot be read ({why})")


def _laid_out(log: ProfileLog, block: LogBlock, keep: I64, dur: I64) -> tuple[I64, Mask]:
    """Return starts end to end for each (device, context, stream), and the mask of rows that end within 146 years.

    A stream continues at the end of its rows so far, also those of an earlier log in the same file.
    """
    ts = np.zeros(len(dur), np.int64)
    fits = np.ones(len(dur), np.bool_)
    stream, has_stream = block.number("streamid", keep)
    lanes = np.where(has_stream, stream, -1)
    for lane in sets.unique(lanes).tolist():
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


def _events(log: ProfileLog, block: LogBlock, keep: I64, methods: I32, ts: I64, dur: I64, line: int) -> pa.RecordBatch:
    columns: dict[str, Values] = {
        "ts_ns": ts,
        "dur_ns": dur,
        "event_id": keep + line,
        **log.methods.columns(methods),
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

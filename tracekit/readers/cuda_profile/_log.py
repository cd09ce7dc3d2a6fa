"""The state of reading a CUDA profiler log: header and column line of the next rows, warnings, and the clock."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from tracekit.errors import ParseError
from tracekit.readers.base import ReadOptions
from tracekit.readers.names import Demangler
from tracekit.readers.source import Source
from tracekit.trace import Ledger, Run, SourceFacts

CONTEXTS_KEPT = 1000
"""Maximum number of contexts in the facts of a run. A log of a real program has a handful."""
SHAPES_KEPT = 1000
"""Maximum number of sets of keys kept to check a last row without line end. A real log has two or three."""

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


def other_lines(data: bytes) -> list[tuple[int, int]]:
    """Return start and end of each line that is not a row: of a header, of the driver, or of columns.

    The line of columns follows a header or is the first of the file. Blank lines may be between them.
    """
    places: list[int] = []
    if b"#" in data:
        codes = np.frombuffer(data, np.uint8)
        hashes = np.flatnonzero(codes == ord("#"))
        places = hashes[(hashes > 0) & (codes[hashes - 1] == ord("\n"))].tolist()
    at = len(data)
    while (at := data.rfind(b"\nNV_", 0, at)) >= 0:  # rfind takes less than half the time of find here
        places.append(at + 1)
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


@dataclass(slots=True)
class Log:
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
    warnings: list[str] = field(default_factory=list)
    contexts: list[list[int | None]] = field(default_factory=list)

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

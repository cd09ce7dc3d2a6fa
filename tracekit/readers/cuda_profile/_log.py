"""Where the reader of CUDA profiler logs is: the header and column line that rule the next rows, and the clock."""

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
"""Contexts that the facts of a run list; a log of a real program has a handful."""
SHAPES_KEPT = 1000
"""Sets of keys remembered to judge a last row without line end; a real log has two or three."""

_FACT = re.compile(r"#\s*(?:(CUDA|OPENCL)_)?([A-Z_]+)\s*(.*)")
_COLUMNS = re.compile(rb"^[ \t]*[a-z][A-Za-z0-9_]*(?:,[ \t]*[A-Za-z0-9_]+)+[ \t]*$")
_KNOWN = (b"gputime", b"cputime", b"gpustarttimestamp", b"timestamp")
APART = (b"#", b"NV_Warning:", b"NV_Error:")
"""How lines of the header begin, and what the driver says between the lines of a log."""
MOST_WARNINGS = 20


def is_column_line(line: bytes) -> bool:
    """Tell whether a line names columns of this log."""
    cells = [cell.strip() for cell in line.split(b",")]
    return bool(_COLUMNS.match(line)) and any(word in cells for word in _KNOWN)


def lines_apart(data: bytes) -> list[tuple[int, int]]:
    """Return first and last place of each line of a header or of the driver, and of each line of columns.

    The line of columns follows a header, or begins; blank lines may stand between.
    """
    places: list[int] = []
    if b"#" in data:
        codes = np.frombuffer(data, np.uint8)
        hashes = np.flatnonzero(codes == ord("#"))
        places = hashes[(hashes > 0) & (codes[hashes - 1] == ord("\n"))].tolist()
    at = len(data)
    while (at := data.rfind(b"\nNV_", 0, at)) >= 0:  # rfind takes less than half the time of find here
        places.append(at + 1)
    found: list[tuple[int, int]] = []
    at = 0
    for first in [0, *sorted(places)]:
        if first < at:
            continue
        at, columns = first, False
        while at < len(data) and not columns:
            end = data.find(b"\n", at)
            last = len(data) if end < 0 else end + 1
            columns = is_column_line(data[at:last].rstrip(b"\n"))
            if columns or data.startswith(APART, at):
                found.append((at, last))
            elif data[at:last].strip():
                break
            at = last
    return found


@dataclass(slots=True)
class Log:
    """The header that rules the next rows, and how far synthetic time has come.

    clock: of the file, set by its first column line: "gpu" (ns of the epoch), "host" (us from a zero that is not
    stated), "none", "" before. block_clock: of the rows that come next. ends: (device, context, stream) -> end of the
    rows laid out. shapes: the keys of key-value rows seen, each with whether it was a kernel's. last_end: of all rows.
    floor: where rows of a log without the file's clock begin. indent: blanks before each line, b"" for none.
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

    @property
    def facts(self) -> SourceFacts:
        """The facts of this file."""
        return self.run.sources[0]

    @property
    def lays_out(self) -> bool:
        """Whether the rows have no start on the clock of this file."""
        return self.clock == "none" or self.block_clock != self.clock

    @property
    def unused_stamps(self) -> tuple[str, ...]:
        """The columns of time stamps that do not become `ts_ns`: they go into args."""
        used = "" if self.lays_out else {"gpu": "gpustarttimestamp", "host": "timestamp"}[self.clock]
        return tuple(column for column in ("gpustarttimestamp", "timestamp") if column != used)

    def header(self, line: str, number: int) -> None:
        """Take a line of the header, or of the driver."""
        self.ledger.read += 1
        if not line.startswith("#"):
            self._warn(line.partition(":")[2].strip())
            return
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
            contexts = facts.setdefault("contexts", [])
            if len(contexts) < CONTEXTS_KEPT and [self.device, self.context] not in contexts:
                contexts.append([self.device, self.context])
            self._check(self.context, word, number)
        elif word == "PROFILE_CSV":
            self.csv = value != "0"
        elif word == "TIMESTAMPFACTOR":
            facts.setdefault("timestampfactor", value)
        else:
            self.ledger.note("unknown-header", "a header line of another kind was passed over", where=f"line {number}")

    def _warn(self, text: str) -> None:
        """Tell what the driver says, each by a note of its own; the last stands for the rest."""
        self.ledger.ignore("message")
        known = self.facts.facts.setdefault("warnings", [])
        if text not in known and len(known) < MOST_WARNINGS:
            known.append(text)
        number = known.index(text) if text in known else MOST_WARNINGS
        code = f"driver-warning-{number + 1}" if number else "driver-warning"
        self.ledger.note(code, f"the driver itself warns: {text}")

    def note_shape(self, keys: frozenset[str], kernel: bool) -> None:
        """Remember the keys of a whole key-value row."""
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
        """Take the line of columns. Raises: ParseError where rows could have no duration."""
        columns = [cell.strip() for cell in line.split(",")]
        doubled = sorted({c for c in columns if columns.count(c) > 1})
        if doubled:
            raise ParseError(self.source.name, f"line {number}", f"the column {doubled[0]} stands twice")
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
        """Take the columns of the rows that come next; those of the first log set the clock of the file."""
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
                "several logs stand in this file, each with a clock of the host whose zero is "
                "not stated: their rows may not lie as they ran",
            )
        self.floor = self.last_end if self.clock != "none" else 0

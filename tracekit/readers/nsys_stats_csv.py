"""nsys stats: its reports as CSV or as columns, one or many in a file.

    Processing [report1.sqlite] with [/opt/nvidia/nsight-systems/2024.5.1/host-linux-x64/reports/cuda_gpu_trace.py]...
    Start (ns),Duration (ns),CorrId,GrdX,...,Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name
    1540178479,1632,171,,,,,,,,,,0.000,0.002,Device,Pinned,NVIDIA GeForce RTX 3080 (0),1,7,[CUDA memcpy Device-to-Host]

A record is a line; `event_id` is its number. Traces (cuda_gpu_trace, cuda_api_trace, nvtx_pushpop_trace and all others
with Start, Duration and Name) give EVENTS, sums (cuda_gpu_kern_sum, cuda_api_sum, nvtx_sum, cuda_gpu_mem_time_sum ...)
TOTALS; cuda_gpu_mem_size_sum gives TOTALS with `bytes` and value_min, value_max, value_avg in bytes. `section` is the
report's name, from the line before the table where there is one, else what its columns say. Columns go by the header's
names and units, of all versions. Sizes are printed in MB with three decimals, so they are rounded: a note says so.
Starts count from the session's start, whose wall clock is not printed: `Run.origin_ns` is None. Device rows name no
process. Columns without a place in the schema stand in `args` as printed, under the header's words.

Not supported: HTML, JSON and TSV forms; reports without Start or Total Time (their lines are ignored, with a note).
Sources: output quoted in forums and documentation (FORMATS section 3c), the SQL of the reports of 2020 to 2024.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from tracekit.readers._names import Demangler
from tracekit.readers._nsys_tables import Header, RowError, event, header_of, total
from tracekit.readers.base import Confidence, Head, Opened, Reader, ReadOptions
from tracekit.readers.builder import BATCH_ROWS, RowBuilder
from tracekit.readers.source import LineBlock, Source
from tracekit.trace import Ledger, Run, SourceFacts

_RULE = re.compile(r"^\s*-{2,}(?: +-{2,})+\s*$")
_REPORT = re.compile(
    r"^\s*\*\* .*\((\w+)(?::[^)]*)?\):\s*$|^Processing \[[^\]]*\] with \[(?:.*[/\\])?(\w+?)(?:\.py)?(?::[^\]]*)?\]"
    r"|^\[\d+/\d+\] Executing '(\w+)' stats report"
)
_MESSAGE = re.compile(r"^(?:Generating |NOTICE|SKIPPED|WARNING|ERROR|Exporting |Processed |Using |\[\d+/\d+\] )")
_GUESS = (
    ("Range", "nvtx_sum"), ("Instances", "cuda_gpu_kern_sum"), ("Num Calls", "api_sum"),
    ("Operation", "cuda_gpu_mem_time_sum"),
)  # fmt: skip
CELLS = 200


def sniff(head: Head) -> Confidence:
    """Say YES to a header of such a table, or to the line that names a report."""
    if not head.text or head.data.lstrip()[:1] in (b"{", b"["):
        lines = [] if not head.text else head.lines()[:1]
        if not lines or not re.match(rb"\[\d+/\d+\] ", lines[0]):
            return Confidence.NO
    before = ""
    for raw in head.lines()[:2000]:
        line = raw.decode("utf-8", "replace")
        if (b"Start" in raw or b"Total" in raw) and header_of(_split(line)) is not None:
            return Confidence.YES
        if _RULE.match(line) and header_of(_cut(before, _places(line))) is not None:
            return Confidence.YES
        if line.startswith("Processing [") and _REPORT.match(line):
            return Confidence.YES
        before = line
    return Confidence.NO


def _split(line: str) -> list[str]:
    if line.count(",") > CELLS:
        return [line]
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return [line]


def _places(rule: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer("-+", rule)]


def _cut(line: str, places: list[tuple[int, int]]) -> list[str]:
    """Return the cells under the dashes; the last column is the rest of the line."""
    cells = [line[start:end].strip() for start, end in places[:-1]]
    return [*cells, line[places[-1][0] :].strip()] if places else []


@dataclass(slots=True)
class _State:
    run: Run
    options: ReadOptions
    ledger: Ledger
    names: Demangler
    header: Header | None = None
    places: list[tuple[int, int]] | None = None
    report: str = ""
    section: str = ""
    table: int = -1
    before: str = ""
    unread: bool = False
    events: RowBuilder = field(default_factory=RowBuilder)
    totals: RowBuilder = field(default_factory=lambda: RowBuilder("totals"))


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events and totals."""
    run = Run()
    run.sources.append(SourceFacts(path=source.name, format=READER.name, facts={"tool": "Nsight Systems"}))
    state = _State(run, options, ledger, Demangler(ledger, enabled=options.demangle))
    return Opened(run, _batches(source, state), True, (ledger,))


def _batches(source: Source, state: _State) -> Iterator[pa.RecordBatch]:
    try:
        for block in source.line_blocks(state.ledger):
            yield from _block(state, block)
        for rows in (state.totals, state.events):
            if len(rows):
                yield rows.take()
    finally:
        state.names.close()


def _block(state: _State, block: LineBlock) -> Iterator[pa.RecordBatch]:
    lines = block.data.decode("utf-8", "replace").split("\n")
    if not lines[-1]:
        lines.pop()
    state.ledger.read += len(lines)
    for at, line in enumerate(lines):
        torn = block.torn and at == len(lines) - 1
        _line(state, line.rstrip("\r\0"), block.line + at, torn=torn)
        for rows in (state.totals, state.events):
            if len(rows) >= BATCH_ROWS:
                yield rows.take()


def _line(state: _State, line: str, number: int, *, torn: bool) -> None:
    ledger = state.ledger
    before, state.before = state.before, line
    if not line.strip():
        ledger.ignore("blank")
        if state.header is not None:
            state.report = ""
        state.header, state.places, state.unread = None, None, False
        return
    if (match := _REPORT.match(line)) is not None:
        ledger.ignore("message")
        state.report, state.header, state.unread = next(g for g in match.groups() if g), None, False
        return
    if _RULE.match(line):
        _rule(state, line, before)
        return
    cells = _split(line) if state.places is None else _cut(line, state.places)
    found = header_of(cells) if state.places is None else None
    if found is not None:
        ledger.ignore("header")
        _begin(state, found)
        return
    if state.header is None or (state.places is None and _MESSAGE.match(line)):
        _outside(state, line, cells, number)
        return
    _row(state, state.header, cells, line, number, torn=torn)


def _rule(state: _State, line: str, before: str) -> None:
    """A line of dashes: what stood before it was the header."""
    state.ledger.ignore("rule")
    places = _places(line)
    found = header_of(_cut(before, places))
    state.places = places
    if found is None:
        state.header, state.unread = None, True
    else:
        _begin(state, found)


def _begin(state: _State, header: Header) -> None:
    state.header, state.unread = header, False
    state.table += 1
    guess = next((name for column, name in _GUESS if column in header.columns), "totals")
    state.section = state.report or ("cuda_gpu_mem_size_sum" if header.form == "sizes" else guess)


def _outside(state: _State, line: str, cells: list[str], number: int) -> None:
    """A line that is no row of a table that is read."""
    if _MESSAGE.match(line) or not state.report:
        state.ledger.ignore("message")
        return
    what = f"table {state.report}"
    state.ledger.ignore(what)
    if not state.unread and len(cells) > 2:
        state.unread = True
        text = f"the report {state.report} has neither Start nor Total Time: it is not read"
        state.ledger.note(f"unread-{state.report.replace('_', '-')}", text, where=f"line {number}")


def _row(state: _State, header: Header, cells: list[str], line: str, number: int, *, torn: bool) -> None:
    ledger, where = state.ledger, f"line {number}"
    if len(cells) != len(header.columns):
        if torn:
            ledger.drop("torn-row", where=where, text="dropped: the last line is cut")
        else:
            reason = f"{len(cells)} cells instead of {len(header.columns)}"
            ledger.drop("bad-row", where=where, text=f"dropped: a row that cannot be read ({reason})")
        return
    if torn and not line.rstrip().endswith('"'):
        ledger.note("no-line-end", "the last line has no line end: its last cell may be cut", where=where)
    row = dict(zip(header.columns, (cell.strip() for cell in cells), strict=True))
    try:
        if header.form == "trace":
            _event(state, header, row, number)
        else:
            _total(state, header, row)
    except RowError as err:
        if torn:
            ledger.drop("torn-row", where=where, text="dropped: the last line is cut")
        else:
            ledger.drop("bad-row", where=where, text=f"dropped: a row that cannot be read ({err})")


def _event(state: _State, header: Header, cells: dict[str, str], number: int) -> None:
    row, facts = event(header, cells)
    source = state.options.source
    if row["name"] and row.get("raw_name") is None:
        row["name"], row["raw_name"] = state.names.one(row["name"])
    state.events.add(**row, event_id=number, source=source)
    state.ledger.kept += 1
    state.ledger.events_out += 1
    if facts.get("device"):
        state.run.devices.setdefault((source, row["device"]), facts["device"])
    if facts.get("thread") and row.get("pid") is not None and row.get("tid") is not None:
        state.run.threads.setdefault((source, row["pid"], row["tid"]), facts["thread"])
    if facts.get("rounded"):
        _tell_rounded(state, number)


def _total(state: _State, header: Header, cells: dict[str, str]) -> None:
    row = total(header, cells)
    if row["name"]:
        row["name"], row["raw_name"] = state.names.one(row["name"])
    order = state.ledger.totals_out
    state.totals.add(**row, source=state.options.source, run=0, section=state.section, order=order)
    state.ledger.kept += 1
    state.ledger.totals_out += 1
    if header.form == "sizes":
        _tell_rounded(state, 0)


def _tell_rounded(state: _State, number: int) -> None:
    text = "sizes are printed in MB with few decimals: they are what was printed, rounded to that"
    state.ledger.note("sizes-rounded", text, where=f"line {number}" if number else "")


READER = Reader(
    name="nsys-stats-csv",
    title="nsys stats reports (CSV, columns)",
    suffixes=(".csv", ".txt"),
    sniff=sniff,
    read=read,
    gives="both",
)

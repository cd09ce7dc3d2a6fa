"""Reading and recognising nvprof's output, CSV and text: blocks of lines become batches. Both readers share it."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from tracekit.errors import Option, ParseError, sentence
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import arrow
from tracekit.model.trace import Ledger
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head
from tracekit.readers.nvprof._cells import decimal_of, text_cells
from tracekit.readers.nvprof._lines import (
    HEADLESS,
    PREFIX,
    NvprofHeader,
    Table,
    find_header,
    find_late_header,
    plain,
    split_cells,
    units_of,
)
from tracekit.readers.nvprof._session import NvprofSession
from tracekit.readers.nvprof._state import NvprofState
from tracekit.readers.printed.late import heads
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.prefix import untagged_line
from tracekit.readers.printed.starts import with_order
from tracekit.readers.source import SQLITE_MAGIC, LineBlock, Source

_VALUE = rf"[ \t]{LOCAL_NUMBER}(?:%|[mun]?s|[KMG]?B)[ \t]"
_CELLS = NumberCells(
    lazy_pattern(rf"(?:^{_VALUE[5:]}|{_VALUE}).{{0,300}}{_VALUE}"), fraction=lazy_pattern(rf"{LOCAL_NUMBER}(?:%|[mu]s)")
)
"""Rows of text tables; those of CSV show their decimal separator themselves."""
_ROW_STARTS = frozenset(b"0123456789")


def read_nvprof(
    source: Source, options: ReadOptions, ledger: Ledger, reader: str, patterns: Sequence[bytes]
) -> ReadResult:
    """Return the events and totals of nvprof's output; tables of both forms, in any order.

    patterns: of lines of a table, or of nvprof itself.
    """
    if reader == "nvprof-text":
        source = as_printed(source, options, _CELLS)
    state = NvprofState(source.name, options, ledger, reader)
    state.decimal_of_rows = lambda delimiter, width: _decimal_of_rows(source, delimiter, width)
    found = (_is_tagged(_plain_lines(head.data)) for head in heads(source, patterns))
    tagged = next((tagged for tagged in found if tagged is not None), False)
    batches = with_order(_batches(source, state, tagged), state.run, ledger)
    return ReadResult(state.run, batches, True, (ledger,))


def _decimal_of_rows(source: Source, delimiter: str, width: int) -> str:
    """Return the decimal separator of the file's rows of so many cells. Raises: ParseError if it may be either."""
    first, where = "", ""
    for block in source.line_blocks(Ledger()):
        for number, line in enumerate(block.data.decode("utf-8", "replace").split("\n"), block.line):
            clear, doubtful = decimal_of(line, delimiter, width)
            if clear:
                return clear
            if "," in doubtful and not first:
                first, where = doubtful, f"line {number}"
    if not first:
        return "."
    digits = first.rstrip("%/abcdefghijklmnopqrstuvwxyzµμABCDEFGHIJKLMNOPQRSTUVWXYZ")
    why = (
        f"{first[:30]!r} may be {digits.replace(',', '.')} or {digits.replace(',', '')}, and no other number of the "
        "file shows which"
    )
    more = " if the comma is decimal; else save the file without commas between thousands"
    hint = sentence(Option("option", "decimal=,"), more)
    raise ParseError(source.name, where, why, hint=hint)


def _batches(source: Source, state: NvprofState, tagged: bool) -> Iterator[pa.RecordBatch]:
    sessions: dict[int | None, NvprofSession] = {None: NvprofSession(state)}
    arrow.keep_memory()
    try:
        for block in source.line_blocks(state.ledger):
            if tagged:
                yield from _tagged_block(block, state, sessions)
            else:
                yield from _block(block, sessions[None])
            yield from state.take()
        seen = state.ledger.kept + state.ledger.filtered + sum(state.ledger.dropped.values())
        if state.ledger.ignored.get("header") and not seen:
            raise ParseError(
                state.ledger.path,
                "",
                "a table header without rows",
                hint="nvprof writes its rows when the program ends: was it killed before?",
            )
        unknown = [s.unknown_table for s in sessions.values() if s.unknown_table is not None]
        if unknown and not seen and not any(s.profiled_nothing for s in sessions.values()):
            raise ParseError(
                state.ledger.path,
                f"line {min(unknown)}",
                "a table with unknown columns follows 'Profiling result:'",
                hint="a table needs the columns Start, Duration and Name, or Time(%), Time and Calls, divided by "
                "commas, semicolons or tabs: was the file changed or translated?",
            )
        if not seen and "tables-not-read" not in state.ledger.notes:
            elsewhere = state.facts.get("result_file")
            state.ledger.note(
                "no-rows",
                f"the file has no rows: nvprof wrote its records to {elsewhere}; read that file"
                if elsewhere
                else "the file has no rows: nvprof recorded nothing, or the rows were removed",
            )
    finally:
        state.names.close()


def _block(block: LineBlock, session: NvprofSession) -> Iterator[pa.RecordBatch]:
    if not block.torn:
        batches = session.block(block.data, block.line)
        if batches is not None:
            yield from batches
            return
    lines = block.data.split(b"\n")
    if not block.torn:
        lines.pop()
    last = len(lines) - 1
    start = 0
    """First of the lines so far that look like rows."""
    for index, line in enumerate(lines):
        is_row = bool(line) and (line[0] in _ROW_STARTS or (line[0] == 34 and line[1:2].isdigit()))
        if is_row and not (block.torn and index == last):
            continue
        if start < index:
            yield from session.rows(lines[start:index], block.line + start)
        session.line(line.decode("utf-8", "replace"), block.line + index, torn=block.torn and index == last)
        start = index + 1
    if start <= last:
        yield from session.rows(lines[start:], block.line + start)


def _tagged_block(
    block: LineBlock, state: NvprofState, sessions: dict[int | None, NvprofSession]
) -> Iterator[pa.RecordBatch]:
    """Read lines that name their rank. Each rank has a session of its own."""
    lines = block.data.decode("utf-8", "replace").split("\n")
    if not block.torn:
        lines.pop()
    for index, line in enumerate(lines):
        line = plain(line) if line.startswith("\x1b") else line
        rank, text = untagged_line(line) or (None, line)
        if rank not in sessions:
            sessions[rank] = NvprofSession(state, rank)
        sessions[rank].line(text, block.line + index, torn=block.torn and index == len(lines) - 1)
    yield from state.take()


def _plain_lines(head: bytes) -> list[str]:
    return [plain(line) for line in head.decode("utf-8", "replace").splitlines()]


def _is_tagged(head: list[str]) -> bool | None:
    """Return whether lines of nvprof itself have the tag of a rank; None when there are no such lines."""
    for line in head:
        tag = untagged_line(line)
        if tag is not None and _is_own_line(tag.text):
            return True
        if _is_own_line(line):
            return False
    return None


def _is_own_line(line: str) -> bool:
    return bool(PREFIX.match(line) or HEADLESS.match(line) or find_header(line))


def sniff_nvprof(head: Head, *, text: bool) -> Confidence:
    """Return the confidence that the head is of the text form, or of CSV. The first header decides.

    Without a header (a run without kernels, or much output of the program before the table) lines of nvprof itself are
    enough. Then the name of the file decides, so that only one of the two forms says YES. NUL bytes are allowed: a log
    that was continued after a crash has some.
    """
    if head.tables or head.data.startswith(SQLITE_MAGIC):
        return Confidence.NO
    form = _form_of(head.data)
    if form is _Form.OTHER:
        return Confidence.NO
    if form is _Form.UNKNOWN:
        name = head.name.lower().removesuffix(".gz").removesuffix(".zst")
        form = _Form.CSV if name.endswith(".csv") else _Form.TEXT
    return Confidence.YES if form is (_Form.TEXT if text else _Form.CSV) else Confidence.NO


class _Form(enum.Enum):
    """The form of nvprof's output that a head shows. UNKNOWN: lines of nvprof, and no header."""

    TEXT = enum.auto()
    CSV = enum.auto()
    UNKNOWN = enum.auto()
    OTHER = enum.auto()


# Both readers ask about the same head, one after the other.
@functools.lru_cache(maxsize=1)
def _form_of(data: bytes) -> _Form:
    own = False
    lines = _plain_lines(data)
    tagged = bool(_is_tagged(lines))
    lines = _untagged(lines) if tagged else lines
    for number, line in enumerate(lines):
        header = find_header(line) or (find_late_header(line) if own else None)
        if header is not None and (own or not _may_be_other_text(header, lines[number + 1 : number + 4])):
            return _Form.TEXT if header.is_text else _Form.CSV
        if HEADLESS.match(line):
            return _Form.TEXT
        own = own or bool(_OWN_LINE.match(line))
    return _Form.UNKNOWN if own else _Form.OTHER


def _untagged(lines: list[str]) -> list[str]:
    return [tag.text if (tag := untagged_line(line)) else line for line in lines]


_OWN_LINE = lazy_pattern(
    r'^[\s"]*(?:==\d+==|={8}) (?:NVPROF|PGPROF|Profiling|Warning|Error|Generated|Metric|Event|API calls|OpenACC|OpenMP'
    r"|NVTX|Some kernel|CPU |System profiling|Dependency|Analysis|Internal profiling|Unified Memory)"
)


def _may_be_other_text(header: NvprofHeader, following: list[str]) -> bool:
    """Return whether other text may hold this header: no quotes or gaps, no row of units below, no cell with a unit."""
    if header.squeezed:
        return not any(text_cells(text, header) for text in following)
    if header.is_text or header.quoted:
        return False
    line = next((text for text in following if text.strip()), "")
    if units_of(line, header) is not None:
        return False
    cells = split_cells(line, header.delimiter)[0]
    return header.table is Table.TRACE or not any(_TIME.match(cell.strip()) for cell in cells)


_TIME = lazy_pattern(r"^\d+(?:[.,]\d+)?(?:ns|us|ms|s)$", re.ASCII)

"""Tables of `nsys stats`: the recognition, and the batches."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions
from tracekit.readers.nsys._layout import (
    EMPTY,
    MESSAGE,
    REPORT,
    Places,
    Title,
    boxed,
    headings,
    places,
    row,
    split,
    title,
)
from tracekit.readers.nsys._rows import Rows, section_of
from tracekit.readers.nsys._tables import (
    NAMES,
    Header,
    has_numbers,
    headed,
    header_of,
    is_number,
    unread,
    work_of,
)
from tracekit.readers.printed.late import heads
from tracekit.readers.printed.prefix import LINE_TAG
from tracekit.readers.printed.starts import with_order
from tracekit.readers.source import Source
from tracekit.trace import Ledger, Run, SourceFacts

QUOTED_LINES = 100
_LONGEST = 1000
"""Characters of a message at most."""
_LOG_TAG = re.compile(rb"\[[^]\[{}\"]{1,60}\](?:[\s<:]|$)")
"""`[3/8] `, `[1,0]<stdout>:`, `[2026-01-01 10:00:00] `: no JSON, though it begins as JSON may."""
_NUMBERED = re.compile(r"\s*\"?[\d.]+\"?\s*[,;\t|]")
_ROW = re.compile(r"^\s*\d{1,3}[.,]\d\s+[\d,.]+\s+[\d,.]+\s+[\d,.]+\s")


_REPORTS = (b"Processing [", b"Executing '", b"Running [", b"Exporting [")


def sniff(head: Head) -> Confidence:
    """Return YES for a header of such a table, or for the line that names a report."""
    if not head.text:
        return Confidence.NO
    if head.data.lstrip()[:1] in (b"{", b"["):
        first = next((line for line in head.lines() if line.strip()), b"").strip()
        if not _LOG_TAG.match(first):
            return Confidence.NO
    before, unit, named, header, delimiter, sentences, lines = "", "", False, None, "", 0, 0
    for raw in head.lines():
        line = raw.decode("utf-8", "replace").rstrip("\r")
        if (tag := LINE_TAG.match(line)) is not None:
            line = line[tag.end() :]
        if not line.strip():
            continue
        lines += 1
        if header is not None and _is_first_row(header, line, delimiter):
            return Confidence.YES
        if (b"Start" in raw or b"Total" in raw) and (found := headed(line)) is not None:
            header, delimiter = found
            continue
        if b"--" in raw and (columns := places(line)) is not None and header_of(headings(before, columns), unit):
            return Confidence.YES
        is_message = _is_message(raw, line)
        named |= is_message
        sentences += not is_message and MESSAGE.match(line) is None and _is_sentence(line)
        if b"Statistics" in raw and (heading := title(line)) is not None:
            unit = heading.unit
        before = line
    # A page about nsys has its words among sentences.
    found_some = named or header is not None
    return Confidence.YES if found_some and 3 * sentences < lines else Confidence.NO


def _is_first_row(header: Header, line: str, delimiter: str) -> bool:
    """Return whether a line below a header is a row of its table."""
    cells = split(line, delimiter, len(header.columns))
    return len(cells) == len(header.columns) and has_numbers(header, cells)


def _is_message(raw: bytes, line: str) -> bool:
    """Return whether a line names a report, or says that one has no rows."""
    if unread(line) or (any(word in raw for word in _REPORTS) and REPORT.match(line)):
        return True
    is_short = b" contain " in raw and len(raw) < _LONGEST
    return is_short and (b"SKIPPED: " in raw or b".sqlite " in raw) and EMPTY.match(line) is not None


def _is_sentence(line: str) -> bool:
    """Return whether a line is of a text for people: five words or more, most of them of letters alone."""
    words = line.split()
    return len(words) > 4 and 2 * sum(word.strip("`'\"*_,.;:!?()").isalpha() for word in words) > len(words)


@dataclass(slots=True)
class _State:
    ledger: Ledger
    rows: Rows
    header: Header | None = None
    places: Places | None = None
    between: str = ","
    texts: int = 0
    report: str = ""
    title: Title = field(default_factory=Title)
    section: str = ""
    table: int = -1
    before: str = ""
    quoted: list[str] = field(default_factory=list)
    unread: bool = False
    parted: bool = False
    closed: tuple[Header, Places | None, str, int] | None = None
    """The table before, ended by other output after a blank line."""
    traces: dict[str, tuple[str, ...]] = field(default_factory=dict)
    skipped: int = 0
    rank: int | None = None
    """The rank whose lines these are, None where lines name none."""


def read(source: Source, options: ReadOptions, ledger: Ledger, patterns: Sequence[bytes]) -> Opened:
    """Return the events and totals. patterns: of lines of a report."""
    run = Run()
    run.sources.append(SourceFacts(path=source.name, format="nsys-stats-csv", facts={"tool": "Nsight Systems"}))
    state = _State(ledger, Rows(run, options, ledger))
    found = (_is_tagged(head) for head in heads(source, patterns))
    tagged = next((tagged for tagged in found if tagged is not None), False)
    batches = with_order(_batches(source, state, tagged=tagged), run, ledger)
    return Opened(run, batches, True, (ledger,))


def _batches(source: Source, first: _State, *, tagged: bool) -> Iterator[pa.RecordBatch]:
    ledger, rows = first.ledger, first.rows
    states: dict[int | None, _State] = {None: first}
    try:
        for block in source.line_blocks(ledger):
            lines = block.data.decode("utf-8", "replace").split("\n")
            if not lines[-1]:
                lines.pop()
            ledger.read += len(lines)
            numbered = list(enumerate((line.rstrip("\r\0") for line in lines), block.line))
            for rank, mine in (_by_rank(numbered) if tagged else {None: numbered}).items():
                state = states.setdefault(rank, _State(ledger, rows, rank=rank))
                torn = numbered[-1][0] if block.torn else 0
                yield from _lines(state, mine, torn)
        for state in states.values():
            if state.quoted:
                text = "dropped: a row that cannot be read (a quote is not closed)"
                ledger.drop("bad-row", len(state.quoted), text=text)
        rows.finish()
        skipped = sum(state.skipped for state in states.values())
        if skipped and not ledger.kept:
            ledger.note("skipped", "nsys stats skipped reports: the profile has no data for them", skipped)
        yield from rows.take(everything=True)
    finally:
        rows.close()


def _is_tagged(head: Head) -> bool | None:
    """Return whether several ranks have put their tags before the lines of their tables; None without such lines."""
    ranks = set[int | None]()
    for raw in head.lines():
        rank, line = _untagged(raw.decode("utf-8", "replace").rstrip("\r\0"))
        if REPORT.match(line) or places(line) or headed(line):
            ranks.add(rank)
    return len(ranks - {None}) > 1 if ranks else None


def _untagged(line: str) -> tuple[int | None, str]:
    """Return the rank in the tag of a line, and the line without the tag; None and the line where it has none."""
    tag = LINE_TAG.match(line)
    rank = next((int(digits) for digits in tag.groups() if digits), None) if tag else None
    return (None, line) if tag is None or rank is None else (rank, line[tag.end() :])


def _by_rank(lines: list[tuple[int, str]]) -> dict[int | None, list[tuple[int, str]]]:
    found: dict[int | None, list[tuple[int, str]]] = {}
    for number, line in lines:
        rank, rest = _untagged(line)
        found.setdefault(rank, []).append((number, rest))
    return found


def _lines(state: _State, lines: list[tuple[int, str]], torn: int) -> Iterator[pa.RecordBatch]:
    """Read lines of one writer, with their numbers. torn: the number of the line that the input ends in, 0 for none."""
    for at, (number, line) in enumerate(lines):
        below = lines[at + 1][1] if at + 1 < len(lines) else ""
        above_rule = "--" in below and places(below) is not None
        # A rule may also end a table: then a row is above it.
        if above_rule and line.strip() and not _is_row_above_rule(state, line):
            state.ledger.ignore("header")
            state.before = line
            continue
        _line(state, line, number, torn=number == torn)
        yield from state.rows.take()


def _line(state: _State, line: str, number: int, *, torn: bool) -> None:
    ledger = state.ledger
    if state.quoted and _is_whole(state, line):
        text = "dropped: a row that cannot be read (a quote is not closed)"
        where = f"line {number - len(state.quoted)}"
        ledger.drop("bad-row", len(state.quoted), where=where, text=text)
        state.quoted = []
    in_cells = state.places is None and state.header is not None and state.between != "|"
    if state.quoted or (in_cells and line.count('"') % 2 and (not state.parted or _NUMBERED.match(line))):
        _quoted(state, line, number, torn=torn)
        return
    if not line.strip() or (state.places is not None and not line[state.places[0][0] :].strip()):
        ledger.ignore("message" if line.strip() else "blank")
        if state.header is not None:
            state.report, state.parted = "", True
        else:
            state.places = None
        state.unread = False
        return
    before, state.before = state.before, line
    columns = places(line) if "--" in line else None
    if columns is not None:
        _rule(state, columns, before, number)
        return
    if boxed(line) == []:
        ledger.ignore("rule")
        return
    count = 0 if state.header is None else len(state.header.columns)
    cells = split(line, state.between, count) if state.places is None else row(line, state.places, texts=state.texts)
    if state.header is not None and _is_row(state, state.header, cells, line):
        quoted = line.rstrip().endswith('"')
        state.rows.row(state.header, state.section, cells, number, torn=torn, quoted=quoted, rank=state.rank)
        return
    if state.parted and state.header is not None:
        state.closed = state.header, state.places, state.between, state.texts
        state.header, state.places, state.parted = None, None, False
    if (match := REPORT.match(line)) is not None:
        ledger.ignore("message")
        state.report, state.title = next(g for g in match.groups() if g), Title()
        state.skipped += len(line) < _LONGEST and EMPTY.match(line) is not None
        state.header, state.places, state.unread, state.closed = None, None, False, None
        return
    if "Statistics" in line and (named := title(line)) is not None:
        ledger.ignore("message")
        state.title, state.header, state.places, state.unread, state.closed = named, None, None, False, None
        return
    if (headed_by := headed(line, state.title.unit)) is not None:
        header, delimiter = headed_by
        ledger.ignore("header")
        state.places, state.between = None, delimiter
        _begin(state, header)
        return
    _outside(state, line, cells, number)


def _is_row(state: _State, header: Header, cells: list[str], line: str) -> bool:
    """Return whether a line is a row of the table, good or bad. Messages may come between rows.

    After a blank line only a good row counts: a paste may have a blank line after each line.
    """
    if state.parted:
        return len(cells) == len(header.columns) and has_numbers(header, cells)
    if state.places is not None:
        start, end = state.places[0]
        return header.columns[0] in NAMES or any(map(str.isdigit, line[start:end]))
    if len(cells) == len(header.columns):
        return ("Start" not in line and "Total" not in line) or header_of(cells) is None
    # Other output follows a table that has no end of its own: with other cells, only what begins as a row is one.
    return not MESSAGE.match(line) and (header.columns[0] in NAMES or bool(_NUMBERED.match(line)))


def _is_whole(state: _State, line: str) -> bool:
    """Return whether a line is a good row by itself: then the open quote before it is not a name with line ends."""
    if state.header is None or line.count('"') % 2:
        return False
    cells = split(line, state.between)
    return len(cells) == len(state.header.columns) and has_numbers(state.header, cells)


def _is_row_above_rule(state: _State, line: str) -> bool:
    """Return whether a line is a good row of the open table with dashes."""
    if state.header is None or state.places is None:
        return False
    cells = row(line, state.places, texts=state.texts)
    return len(cells) == len(state.header.columns) and has_numbers(state.header, cells)


def _quoted(state: _State, line: str, number: int, *, torn: bool) -> None:
    """Collect the lines of a row whose name has line ends, and read the row at its last line."""
    state.quoted.append(line)
    whole = "\n".join(state.quoted)
    if whole.count('"') % 2 and len(state.quoted) < QUOTED_LINES and not torn:
        return
    count = len(state.quoted)
    state.quoted = []
    try:
        rows = list(csv.reader(io.StringIO(whole), delimiter=state.between, strict=True))
    except csv.Error:
        rows = []
    cells = rows[0] if len(rows) == 1 else []
    if state.header is None or len(cells) != len(state.header.columns):
        reason = "torn-row" if torn else "bad-row"
        text = "dropped: the last line is cut" if torn else "dropped: a row that cannot be read (a quote is not closed)"
        state.ledger.drop(reason, count, where=f"line {number - count + 1}", text=text)
        return
    state.ledger.merged += count - 1
    state.rows.row(state.header, state.section, cells, number - count + 1, torn=torn, quoted=True, rank=state.rank)


def _rule(state: _State, columns: Places, before: str, number: int) -> None:
    """Read a line of dashes. The line before it is the header."""
    state.ledger.ignore("rule")
    cells = headings(before, columns)
    header = header_of(cells, state.title.unit)
    if header is None and _is_row_above_rule(state, before):
        state.header = state.places = None
        return
    state.places = columns
    if header is not None:
        _begin(state, header)
        return
    state.header = None
    if state.report or state.title.report or "Operation" in cells:
        _note_unread(state, state.report or state.title.report or "below this line", number)


def _begin(state: _State, header: Header) -> None:
    state.header, state.unread, state.parted, state.closed = header, False, False, None
    state.texts = sum(not is_number(column) for column in header.columns) if header.form != "trace" else 0
    state.table += 1
    state.section = section_of(header, state.report or state.title.report)
    if header.form == "trace" and (kind := work_of(header)):
        columns = state.traces.setdefault(kind, header.columns)
        if columns != header.columns:
            text = f"several reports have the same {kind}: sums over events count them more than once"
            state.ledger.note("told-twice", text)


def _outside(state: _State, line: str, cells: list[str], number: int) -> None:
    """Count a line that is not a row of a table which is read."""
    if state.header is None and not state.unread and (_ROW.match(line) or _is_of_closed(state, line)):
        state.ledger.ignore("row without a header")
        text = "rows without the header of their table were skipped: is the text cut?"
        state.ledger.note("no-header", text, where=f"line {number}")
        return
    if " contain " in line and len(line) < _LONGEST and EMPTY.match(line):
        state.skipped += 1
        state.report, state.unread = "", False
        state.ledger.ignore("message")
        return
    name = state.report
    if not state.unread and (report := unread(line)):
        name = state.report = name or report
    if MESSAGE.match(line) or not name:
        state.ledger.ignore("message")
        return
    state.ledger.ignore(f"table {name}")
    if not state.unread and len(cells) > 2:
        _note_unread(state, name, number)


def _is_of_closed(state: _State, line: str) -> bool:
    """Return whether a line would be a good row of the table that other output has ended."""
    if state.closed is None:
        return False
    header, columns, between, texts = state.closed
    cells = split(line, between, len(header.columns)) if columns is None else row(line, columns, texts=texts)
    return len(cells) == len(header.columns) and has_numbers(header, cells)


def _note_unread(state: _State, report: str, number: int) -> None:
    state.unread = True
    text = f"the report {report} is not read: it has neither Start and Duration nor Total Time of each name"
    state.ledger.note(f"unread-{report.replace('_', '-').replace(' ', '-')}", text, where=f"line {number}")

"""timemory: the tables of rocprof-sys, Omnitrace and timemory (`wall_clock.txt`, `sampling_percent.txt` and others).

    |              REAL-CLOCK TIMER (I.E. WALL-CLOCK TIMER)                                                  |
    |       LABEL         | COUNT  | DEPTH  |   METRIC   | UNITS  |   SUM    |   MEAN   | ... | STDDEV | % SELF |
    | |00>>> |_conj_grad  |     76 |      1 | wall_clock | sec    | 10.641165 | 0.140015 | ... | 0.004080 |  1.0 |

A record is a line. Each table is a run; its section is the metric, and a row is one total. `rank` and `thread` (args)
come from the label (`|MM|NN>>>`), `depth` from its column, `path` (args) from the labels above it: the sum of a row
holds those of the rows below it, so only rows of one depth may be added up. Columns are found by name, in any order.
Units of time (sec, msec, usec, nsec) become ns: SUM is `total_ns`, with six digits of seconds exact to the
µs. Metrics of other units (MB, %, degrees ...) are of section `metrics`. Labels that the tool cut stay cut.

Calls of HIP and HSA are runtime and driver calls, other labels user ranges, those of sampling metrics other. Tables
are found in logs, also with colours or behind prefixes of lines. Sources: the manuals of Omnitrace and rocprof-sys,
files of timemory 3. Not supported: the JSON beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers import rocm
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.engine.torn import TORN
from tracekit.readers.head import Head
from tracekit.readers.printed.lines import (
    CUT_NUMBER,
    NUMBER,
    TextLine,
    TotalRows,
    first_lines,
    note_odd_cell,
    printed,
    text_lines,
)
from tracekit.readers.source import Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

# Lines of timemory's tables: the recognition, and the batches.


_NEEDED = frozenset({"LABEL", "COUNT", "DEPTH", "METRIC", "UNITS"})
_UNITS = {
    **dict.fromkeys(("sec", "s", "secs"), "s"),
    **dict.fromkeys(("msec", "ms"), "ms"),
    **dict.fromkeys(("usec", "us"), "us"),
    **dict.fromkeys(("nsec", "ns"), "ns"),
}
_NUMBER = re.compile(NUMBER, re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_COUNT = re.compile(rf"\d{{1,18}}|{CUT_NUMBER}", re.ASCII)
_OPTIONAL = ("COUNT", "MEAN", "MIN", "MAX", "STDDEV")
_PLACE = re.compile(r"(?:\|(\d{1,9}))?(?:\|(\d{1,9}))?>>> ?", re.ASCII)
_RULE = re.compile(r"\|[-|]{8,}\|")
_MOST_CELLS = 40
_MOST_DEPTH = 1 << 12


@dataclass(slots=True)
class _TimemoryTable:
    """A table. columns: place by name. above: the labels over the next row, by thread."""

    run: int
    columns: dict[str, int]
    title: str
    above: dict[tuple[int | None, int | None], dict[int, str]] = field(default_factory=dict)


def heads(text: str) -> dict[str, int] | None:
    """Return the columns of a line with the heads of a table, None for another line.

    >>> heads("| LABEL | COUNT | DEPTH | METRIC | UNITS | SUM |")["SUM"]
    5
    """
    at = text.find("|")
    cells = [cell.strip() for cell in text[at + 1 :].rstrip().removesuffix("|").split("|", _MOST_CELLS)]
    places = {cell: place for place, cell in enumerate(cells) if cell}
    return places if places.keys() >= _NEEDED and places["LABEL"] == 0 and len(places) == len(cells) else None


def sniff(head: Head) -> Confidence:
    """Return YES for the heads of a table."""
    if head.tables or not head.text:
        return Confidence.NO
    lines = (text for text in first_lines(head.data) if "LABEL" in text and "DEPTH" in text)
    return Confidence.YES if any(heads(text[:4096]) is not None for text in lines) else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError where there is no table."""
    run = Run(sources=[SourceFacts(source.name, "timemory", facts={"tool": "timemory (rocprof-sys, Omnitrace)"})])
    return ReadResult(run, _batches(source, options, ledger), True, (ledger,))


def _batches(source: Source, options: ReadOptions, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    rows = TotalRows(options.source, ledger)
    table: _TimemoryTable | None = None
    run, title, closed = -1, "", True
    for line in text_lines(source, ledger):
        text = line.text
        columns = heads(text) if "LABEL" in text and "DEPTH" in text else None
        at = text.find("|")
        if columns is not None:
            run += 1
            table, closed = _TimemoryTable(run, columns, title), False
            ledger.ignore("headings")
        elif at < 0 or not text.rstrip().endswith("|"):
            closed = True
            ledger.ignore("other output" if text.strip() else "blank lines")
        elif _RULE.fullmatch(text[at:].strip()):
            ledger.ignore("rules")
        elif table is not None and not closed and ">>>" in text:
            _row(table, text[at:].rstrip(), line, rows, ledger)
            yield from rows.take()
        elif text[at:].count("|") == 2:
            title, closed = text[at:].strip().strip("|").strip(), True
            ledger.ignore("headings")
        else:
            ledger.ignore("other output")
    if run < 0:
        raise ParseError(source.name, "", "no table of timemory with the columns LABEL, COUNT, DEPTH, METRIC and UNITS")
    yield from rows.take(everything=True)


def _row(table: _TimemoryTable, text: str, line: TextLine, rows: TotalRows, ledger: Ledger) -> None:
    """Add the total of a row. Labels may hold bars: the other cells are counted from the right."""
    others = len(table.columns) - 1
    parts = text.removesuffix("|").rsplit("|", others)
    label = parts[0].removeprefix("|").strip()
    cells = dict(zip(list(table.columns)[1:], (part.strip() for part in parts[1:]), strict=False))
    place = _PLACE.match(label)
    if len(parts) <= others or place is None or not _is_place(cells):
        code = TORN if line.torn else "bad-row"
        ledger.drop(code, where=line.where, text="dropped: a row of a table without its cells")
        return
    first, second = (None if text is None else int(text) for text in place.groups())
    rank, thread = (first, second) if second is not None else (None, first)
    depth = int(cells["DEPTH"])
    name = label[place.end() :].strip().removeprefix("|_").strip()
    above = table.above.setdefault((rank, thread), {})
    path = [above[level] for level in range(min(depth, _MOST_DEPTH)) if level in above]
    for level in [level for level in above if level >= depth]:
        del above[level]
    above[depth] = name
    args: dict[str, object] = {"depth": depth}
    args |= {"thread": thread} if thread is not None else {}
    args |= {"path": path} if path else {}
    args |= {"table": table.title} if table.title else {}
    for key in _OPTIONAL:
        if (cell := cells.get(key)) and not (_WHOLE if key == "COUNT" else _NUMBER).fullmatch(cell):
            note_odd_cell(cell, key, ledger, line.where)
            cells[key] = ""
    try:
        more = _numbers(cells, args)
    except ValueError:
        ledger.drop("bad-row", where=line.where, text="dropped: a row of a table with a cell that is not a number")
        return
    metric = cells["METRIC"] or "metric"
    kind = rocm.call_kind(name) or (Kind.OTHER if metric.startswith("sampling") else Kind.USER_RANGE)
    if "unit" in more:
        args["metric"] = metric
    section = "metrics" if "unit" in more else metric
    rows.add(
        table.run,
        section,
        name,
        str(kind),
        args,
        calls=int(cells["COUNT"]) if cells["COUNT"] else None,
        rank=rank,
        **more,
    )
    ledger.kept += 1


def _is_place(cells: dict[str, str]) -> bool:
    """Return whether a row has its depth, and a count that is a number or was cut."""
    return _WHOLE.fullmatch(cells["DEPTH"]) is not None and _COUNT.fullmatch(cells["COUNT"]) is not None


def _numbers(cells: dict[str, str], args: dict[str, object]) -> dict[str, object]:
    """Return the columns of a row's numbers. Raises: ValueError for a cell that is none."""
    unit = _UNITS.get(cells["UNITS"])
    texts = {key: cells[key] for key in ("SUM", "MEAN", "MIN", "MAX", "STDDEV") if cells.get(key)}
    if not all(_NUMBER.fullmatch(text) for text in texts.values()):
        raise ValueError("not a number")
    if share := cells.get("% SELF"):
        args["self_percent"] = share
    if unit is not None:
        more: dict[str, object] = {
            column: printed(texts[key], unit).rounded()
            for key, column in (("SUM", "total_ns"), ("MIN", "min_ns"), ("MAX", "max_ns"))
            if key in texts
        }
        more |= {
            column: float(printed(texts[key], unit).ns)
            for key, column in (("MEAN", "avg_ns"), ("STDDEV", "std_ns"))
            if key in texts
        }
        return more
    args["total"] = texts.get("SUM", texts.get("MEAN"))
    values = {
        "value_avg": texts.get("MEAN", texts.get("SUM")),
        "value_min": texts.get("MIN"),
        "value_max": texts.get("MAX"),
    }
    return {"unit": cells["UNITS"] or None} | {
        key: None if text is None else float(text) for key, text in values.items()
    }

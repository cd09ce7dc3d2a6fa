"""Lines of a profile that a program printed between its own output, and the TOTALS made of them, row by row.

The profiles of Theano, SINGA and Caffe have a few thousand rows at most, so lines are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Protocol

import numpy as np
import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import Ledger
from tracekit.model.units import MAX_NS, TIME_EXPONENT
from tracekit.readers.builder import RowBuilder, Values, totals_batch
from tracekit.readers.source import LineBlock, Source

__all__ = [
    "ANY_NUMBER",
    "CUT_NUMBER",
    "NUMBER",
    "PrintedLines",
    "TextLine",
    "TotalRows",
    "batches_of_lines",
    "first_lines",
    "is_notebook",
    "known_cell",
    "lines_of",
    "note_odd_cell",
    "printed",
    "text_lines",
    "uncoloured",
]

FLUSH_ROWS = 1 << 13
NUMBER = r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,3})?"
"""A decimal number as C and Python print it."""
ANY_NUMBER = rf"(?:{NUMBER}|[-+]?(?:nan|inf))"
"""The same, or the result of a division by zero."""
CUT_NUMBER = r"[-+]?(?:\d[\d.,]{0,40}?)?(?:…|\.{2,3})"
"""A number that was cut in print: `552.9…`."""
_COLOUR = re.compile(r"\x1b\[[0-9;?]*+[ -/]*+[@-~]")
"""A control sequence of a terminal (ECMA-48, 5.4), which changes colours, erases or moves."""


def uncoloured(text: str) -> str:
    """Return a text without the control sequences of a terminal.

    >>> uncoloured("\x1b[1;31mred\x1b[0m")
    'red'
    """
    return _COLOUR.sub("", text) if "\x1b" in text else text


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line without its end. number: from 1. torn: the input ends within it, so it may be cut."""

    text: str
    number: int
    torn: bool

    @property
    def where(self) -> str:
        """Return the place for notes."""
        return f"line {self.number}"


def known_cell(cell: str | None, column: str, ledger: Ledger, where: str) -> str | None:
    """Return the text of a cell that its row can do without; None, with a note, where it was cut in print."""
    if cell is None or not cell.endswith(("…", "..")):
        return cell
    note_odd_cell(cell, column, ledger, where)
    return None


def note_odd_cell(cell: str, column: str, ledger: Ledger, where: str) -> None:
    """Note a cell that cannot be read, and that its row can do without."""
    why = f"a cell that cannot be read is not known, and its row is kept ({column}: {cell[:30]!r})"
    ledger.note("odd-cell", why, where=where)


def first_lines(data: bytes) -> list[str]:
    """Return the first lines of a file as `text_lines` would yield them, for sniffing.

    >>> first_lines(b"a\\r\\x1b[1mb")
    ['a', 'b']
    """
    text = data.decode("utf-8", "replace")
    if is_notebook(data):
        text = "\n".join(map(_output, text.split("\n")))
    text = uncoloured(text)
    return text.split("\n" if "\n" in text else "\r")


def is_notebook(data: bytes) -> bool:
    """Return whether a file begins like a Jupyter notebook, which has each line of output as a JSON text."""
    return data[:1] == b"{" and any(key in data for key in (b'"cells"', b'"nbformat"', b'"worksheets"'))


def _output(line: str) -> str:
    """Return the text in a line of a notebook; any other line is returned without indentation."""
    line = line.strip()
    words = line.removesuffix(",")
    if len(words) < 2 or words[0] != '"' or words[-1] != '"':
        return line
    try:
        return str(orjson.loads(words)).removesuffix("\n")
    except orjson.JSONDecodeError:
        return line


def text_lines(source: Source, ledger: Ledger) -> Iterator[TextLine]:
    """Yield the lines of an input, each counted as read.

    Only the last part of a line with carriage returns is kept: it is the visible one, written over a progress bar.
    Colours are removed. A Jupyter notebook yields the lines of its outputs as they were printed.
    """
    in_notebook = is_notebook(source.head().data)
    for block in source.line_blocks(ledger):
        yield from lines_of(block, ledger, in_notebook=in_notebook)


def lines_of(block: LineBlock, ledger: Ledger, *, in_notebook: bool) -> Iterator[TextLine]:
    """Yield the lines of a block as `text_lines` does."""
    lines = block.data.decode("utf-8", "replace").split("\n")
    if not block.torn:
        lines.pop()
    for place, text in enumerate(lines):
        ledger.read += 1
        if in_notebook:
            text = _output(text)
        text = uncoloured(text)
        if "\r" in text:
            text = text.rstrip("\r \t")
            text = text[text.rfind("\r") + 1 :]
        torn = block.torn and place == len(lines) - 1 and not (in_notebook and text == "}")
        yield TextLine(text.strip("\0"), block.line + place, torn)


class LineReading(Protocol):
    """A reading that takes the lines of an output one by one, and makes rows of them."""

    rows: TotalRows

    def line(self, line: TextLine, /) -> None:
        """Take a line."""

    def finish(self) -> None:
        """Take note that no line follows."""


def batches_of_lines(source: Source, ledger: Ledger, reading: LineReading) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a reading makes of the lines."""
    for line in text_lines(source, ledger):
        reading.line(line)
        yield from reading.rows.take()
    reading.finish()
    yield from reading.rows.take(everything=True)


class TotalRows:
    """Rows of TOTALS in the order of the file."""

    def __init__(self, source: int, ledger: Ledger) -> None:
        self._source, self._ledger = source, ledger
        self._builder = RowBuilder("totals")
        self._ready: list[pa.RecordBatch] = []
        self._order = 0

    def add(
        self,
        run: int,
        section: str,
        name: str,
        kind: str | None,
        args: Mapping[str, object] | None = None,
        **more: object,
    ) -> None:
        """Add a row. args: members without a column of their own."""
        if args:
            more["args"] = orjson.dumps(args).decode()
        self._builder.add(
            source=self._source, run=run, section=section, name=name, kind=kind, order=self._order, **more
        )
        self._order += 1

    def block(self, count: int, columns: Mapping[str, Values]) -> None:
        """Add many rows. columns: as `totals_batch` takes them, without source and order."""
        if len(self._builder):
            self._ready.append(self._builder.take())
        order = np.arange(self._order, self._order + count, dtype=np.int32)
        self._ready.append(totals_batch(count, {**columns, "source": self._source, "order": order}))
        self._order += count

    def take(self, *, everything: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows as batches when there are many, or the rest with `everything`."""
        if len(self._builder) >= (1 if everything else FLUSH_ROWS):
            self._ready.append(self._builder.take())
        ready, self._ready = self._ready, []
        for batch in ready:
            self._ledger.totals_out += batch.num_rows
            yield batch


@dataclass(frozen=True, slots=True)
class PrintedLines:
    """A time as it was printed. off: by how many ns the true time may differ because of the digits."""

    ns: Decimal
    off: Decimal

    def rounded(self) -> int:
        """Return whole ns, rounded half to even."""
        return int(self.ns.to_integral_value())

    def times(self, count: int) -> PrintedLines:
        """Return the time multiplied by a count. Raises: ValueError beyond 2^62 ns."""
        return _checked(PrintedLines(self.ns * count, self.off * count))

    def apart(self, other: PrintedLines) -> bool:
        """Return whether the two cannot be the same time."""
        return abs(self.ns - other.ns) > self.off + other.off

    def narrowed(self, other: PrintedLines) -> PrintedLines:
        """Return the best time for both: the finer one, moved into the range of the coarser one."""
        fine, coarse = (self, other) if self.off <= other.off else (other, self)
        return PrintedLines(min(max(fine.ns, coarse.ns - coarse.off), coarse.ns + coarse.off), fine.off)


_MOST_EXPONENT = 400
"""Largest exponent of a printed number: those of doubles are smaller."""


def printed(text: str, unit: str = "s") -> PrintedLines:
    """Return a printed number as a time. Raises: ValueError for nan, inf and times beyond 2^62 ns.

    >>> printed("3.12e-05")
    PrintedLines(ns=Decimal('31200'), off=Decimal('50'))
    """
    try:
        number = Decimal(text)
    except InvalidOperation as err:
        raise ValueError(f"not a number: {text[:40]!r}") from err
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or not -_MOST_EXPONENT < exponent < _MOST_EXPONENT:
        raise ValueError(f"not a time: {text[:40]!r}")
    step = Decimal(1).scaleb(exponent + TIME_EXPONENT[unit])
    found = _checked(PrintedLines(number.scaleb(TIME_EXPONENT[unit]), step / 2))
    return PrintedLines(_plain(found.ns), _plain(found.off))


def _checked(time: PrintedLines) -> PrintedLines:
    if abs(time.ns) + time.off >= MAX_NS:
        raise ValueError("a time beyond 146 years")
    return time


def _plain(number: Decimal) -> Decimal:
    whole = number.to_integral_value()
    return whole.quantize(Decimal(1)) if whole == number else number

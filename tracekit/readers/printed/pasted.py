"""Lines of a printed report as its profiler wrote them, without the additions of a terminal, log or quotation.

`text_lines` has removed colours already. Two more things are removed. The tag of `mpirun --tag-output`,
`[1,0]<stdout>:`, has the rank, which separates the reports that several processes wrote into one log. The prefix of the
title of a report (a time stamp of a logger, `> ` of a mail, `+` of a diff) is removed from each line that begins with
the same prefix; its digits may differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Protocol, TypeVar

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.model.trace import Ledger
from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import Values
from tracekit.readers.printed.lines import TextLine, TotalRows, is_notebook, lines_of
from tracekit.readers.printed.prefix import MPIRUN_TAG, with_any_digits
from tracekit.readers.source import Source

__all__ = ["Plain", "RankRows", "closes", "read_reports"]

_RANK = re.compile(MPIRUN_TAG, re.ASCII)
_LONGEST_TITLE = 4096
_LONGEST_PREFIX = 200
_MOST_RANKS = 4096
_BLOCK_BYTES = 1 << 18
_CLOSES = re.compile(r"`{3,}.*|\"{3}|'{3}|(?:</?[A-Za-z]\w{0,15}>\s*)+", re.ASCII)


def closes(stripped: str) -> bool:
    """Return whether a line ends a quotation: a fence, quotes of Python or HTML tags.

    >>> closes("```"), closes("</code></pre>"), closes("<lambda>  3")
    (True, True, False)
    """
    return _CLOSES.fullmatch(stripped) is not None


class Plain:
    """Removes prefixes from lines. mark: the title of a report at the end of a line.

    words: each title has one of these. They are found in a fiftieth of the time that the mark takes in a long line.
    """

    def __init__(self, mark: re.Pattern[str], words: tuple[str, ...] = ("",)) -> None:
        self._mark, self._words = mark, words
        self._prefixes: dict[int | None, re.Pattern[str] | None] = {}

    def of(self, text: str) -> tuple[int | None, str]:
        """Return the rank that a line is tagged with, None without a tag, and the line."""
        rank = None
        if text.startswith("[") and (tag := _RANK.match(text)):
            rank, text = int(tag[1]), text[tag.end() :]
            if rank not in self._prefixes and len(self._prefixes) > _MOST_RANKS:
                rank = None
        if len(text) <= _LONGEST_TITLE and self._may_be_title(text) and (title := self._mark.search(text)):
            prefix = text[: title.start()]
            self._prefixes[rank] = _shape(prefix)
            return rank, text[title.start() :] if prefix.strip() else text
        shape = self._prefixes.setdefault(rank, None)
        found = shape.match(text) if shape is not None else None
        return rank, text[found.end() :] if found else text

    @property
    def has_none(self) -> bool:
        """Return whether lines without the tag of a rank have no prefix."""
        return self._prefixes.get(None) is None

    def _may_be_title(self, text: str) -> bool:
        return any(word in text for word in self._words)


def _shape(prefix: str) -> re.Pattern[str] | None:
    """Return a pattern for a prefix with any digits; None for blanks, which belong to the report."""
    core = prefix.rstrip()
    if not core or len(prefix) > _LONGEST_PREFIX:
        return None
    gap = len(prefix) - len(core)
    # `2. ` of a numbered heading does not match `64.5%`. The sign of a quotation may have lost its blank.
    end = r"(?=\s|$)" if gap and core[-1] not in ">|" else r"(?!\.)" if core[-1].isdecimal() else ""
    return re.compile(f"{with_any_digits(core)}{end}\\s{{0,{gap}}}")


class RankRows:
    """Adds the rows of one rank to those of the file. rank: None if it is not known."""

    def __init__(self, rows: TotalRows, rank: int | None) -> None:
        self._rows, self._rank = rows, rank

    def add(
        self, run: int, section: str, name: str, kind: str, args: Mapping[str, object] | None = None, **more: object
    ) -> None:
        """Add a row, as TotalRows does."""
        self._rows.add(run, section, name, kind, args, rank=self._rank, **more)

    def block(self, run: int, count: int, columns: Mapping[str, Values]) -> None:
        """Add many rows, as TotalRows does."""
        self._rows.block(count, {**columns, "run": run, "rank": self._rank})


class PastedReading(Protocol):
    """A reader of the lines of one report after another."""

    def line(self, line: TextLine) -> None:
        """Take a line, which the ledger has counted as read."""

    def close(self) -> bool:
        """Note that no line follows. Return whether there was a report."""


R = TypeVar("R", bound=PastedReading)


def read_reports(
    source: Source,
    options: ReadOptions,
    ledger: Ledger,
    mark: re.Pattern[str],
    what: str,
    begin: Callable[[RankRows, Iterator[int]], R],
    words: tuple[str, ...] = ("",),
    block_of: Callable[[R, bytes], int] | None = None,
    takes_blocks: Callable[[R], bool] = lambda _: False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a text. Each rank has its own reading, which `begin` makes with the numbers of runs.

    what: the report in words. words: as for `Plain`. block_of: takes whole lines at once, and returns how many they
    are; 0 if they have to be taken one by one. takes_blocks: whether a reading has seen enough lines for `block_of`.
    Raises: ParseError, at the end, when there was no report.
    """
    rows, runs, plain = TotalRows(options.source, ledger), count(), Plain(mark, words)
    readings: dict[int | None, R] = {}
    in_notebook = is_notebook(source.head().data)
    # With small blocks a table is soon taken by blocks.
    for block in source.line_blocks(ledger) if block_of is None else source.line_blocks(ledger, _BLOCK_BYTES):
        by_blocks = block_of is not None and not block.torn and not in_notebook
        tried, place = False, 0
        lines = lines_of(block, ledger, in_notebook=in_notebook)
        while True:
            # Once in a block: at its begin, or behind the lines that show what the others look like.
            if by_blocks and not tried and plain.has_none and (own := readings.get(None)) and takes_blocks(own):
                tried = True
                taken = block_of(own, block.data[place:]) if block_of is not None else 0
                ledger.read += taken
                yield from rows.take()
                if taken:
                    break
            if (line := next(lines, None)) is None:
                break
            place = block.data.find(b"\n", place) + 1
            rank, text = plain.of(line.text)
            if rank not in readings:
                readings[rank] = begin(RankRows(rows, rank), runs)
            readings[rank].line(line if text == line.text else replace(line, text=text))
            yield from rows.take()
    if not sum(reading.close() for reading in readings.values()):
        raise ParseError(source.name, "", f"no {what} in it")
    yield from rows.take(everything=True)

"""SINGA's time profiling, as `Device.PrintTimeProfiling` prints it between a program's own lines.

    Time Profiling:
    OP_ID0. SetValue : 1.73722e-05 sec
    OP_ID1. cudnnConvForward : 0.000612724 sec

A record is a line. Each `Time Profiling:` is a run; its section `header` has the verbosity. Verbosity 1 gives two rows
of section `Propagation`, 2 a row for each operator of section `Operators`, in the order of the graph; `op_id` in `args`
is the node's number. Verbosity 3 prints only operators whose name contains `Dist`: when all names do, it may be either.
SINGA prints an empty line above `Time Profiling:`; `below_blank` in `args` of the header is true if it is there.
All are seconds of an average iteration, in which a node runs once: `calls` is 1, `avg_ns` the time as printed,
`total_ns` the same rounded to ns. A time that is not a number (all iterations were skipped) has a null `total_ns`, and
`value_text` has the word. SINGA divides the operators of verbosity 2 and 3 by all iterations, even the ones that it
skipped and did not time (5 by default), so their times are too small. The file does not show by how much: a note says
so. tracekit's own face of SINGA (`tracekit.profiler.singa`) prints a line below its heading, which is a fact:

    tracekit: 7 of 12 iterations measured, operators divided by 7

Then `args` of the header has `measured`, `iterations` and `divisor`, and nothing is guessed.

Text before a row, such as a time stamp or the `>` of a quotation, is removed. The tags of ranks, `[1,RANK]<stdout>:` of
mpirun and `RANK:` of srun, become `rank`. If the lines of several blocks are mixed, the rising numbers of the operators
separate them; a note says that this is a guess. Three lines of dots, as in the documentation, mean that the rest of the
list was cut.

Sources: Graph::PrintTimeProfiling in src/core/scheduler/scheduler.cc of Apache SINGA 3.1; the output in its
documentation (docs-site/docs/time-profiling.md). Not supported: the tables of `Graph::Debug`; there are no time stamps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.head import Head
from tracekit.readers.printed.lines import ANY_NUMBER, TextLine, TotalRows, batches_of_lines, first_lines, printed
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.prefix import unquoted_line
from tracekit.readers.source import Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

# Lines of a SINGA profile: the recognition, the blocks of each rank, and the batches.


HEADING = "Time Profiling:"
_ROW = re.compile(r"OP_ID\d|(?:Forward|Backward) Propagation Time", re.ASCII)
_SRUN = re.compile(r"(\d{1,9}): ?", re.ASCII)
_OPERATOR = re.compile(rf"OP_ID(\d{{1,18}})\. (.*\S) : ({ANY_NUMBER}) sec", re.ASCII)
_DIVISOR = re.compile(
    r"tracekit: (\d{1,18}) of (\d{1,18}) iterations measured, (?:operators|phases) divided by (\d{1,18})", re.ASCII
)
_PASS = re.compile(rf"(Forward|Backward) Propagation Time : ({ANY_NUMBER}) sec", re.ASCII)
_STARTS = ("OP_ID", "Forward Propagation Time", "Backward Propagation Time")
_MOST_BESIDE = 1 << 10
_MOST_RANKS = 1 << 16


@dataclass(slots=True)
class _SingaBlock:
    """One `Time Profiling:`. last: number of its last operator. below_blank: an empty line came before the heading.

    divided: measured iterations, all iterations and the divisor of the operators, where the profile names them.
    """

    number: int
    rank: int | None = None
    below_blank: bool = False
    last: int = -1
    passes: list[str] = field(default_factory=list)
    operators: int = 0
    all_dist: bool = True
    divided: dict[str, int] = field(default_factory=dict)

    def is_fresh(self) -> bool:
        return not self.operators and not self.passes

    def verbosity(self) -> str:
        if self.passes:
            return "1"
        return "2 or 3" if self.all_dist else "2"


def _words(text: str) -> tuple[str, int | None]:
    """Return a line with single blanks and without the prefixes of other tools, and the rank of their tag."""
    text, rank = unquoted_line(" ".join(text.split()))
    row = _ROW.search(text)
    start = row.start() if row else len(text) - len(HEADING) if text.endswith(HEADING) else 0
    if not start and (line := _DIVISOR.search(text)):
        row, start = line, line.start()
    if start:
        if label := _SRUN.fullmatch(text[:start]):
            rank = int(label[1])
        # The rest of a progress bar before the heading shows that no empty line came before it.
        text = text[start:] if row or label or rank is not None else text
    return text, rank


_LOCAL = re.compile(rf": {LOCAL_NUMBER} sec\b")


def sniff(head: Head) -> Confidence:
    """Return YES for a line of the profile; MAYBE for the heading alone, as verbosity 0 prints it."""
    if head.tables or not head.text:
        return Confidence.NO
    heading = False
    for text in first_lines(head.data):
        if "sec" in text:
            line, _ = _words(_LOCAL.sub(r": 1 sec", text))
            if _OPERATOR.fullmatch(line) or _PASS.fullmatch(line):
                return Confidence.YES
        heading = heading or text.rstrip().endswith(HEADING)
    return Confidence.MAYBE if heading else Confidence.NO


@dataclass(slots=True)
class _SingaProcess:
    """The blocks of a rank, or of all lines without a tag. group: the newest blocks, with consecutive headings.

    before: the previous group. Its lines may still come when the output of several processes is mixed.
    """

    group: list[_SingaBlock] = field(default_factory=list)
    before: list[_SingaBlock] = field(default_factory=list)


class _SingaReading:
    """One reading of one file. found: the number of rows with a time."""

    def __init__(self, options: ReadOptions, ledger: Ledger) -> None:
        self.ledger = ledger
        self.rows = TotalRows(options.source, ledger)
        self.blocks = 0
        self.found = 0
        self._processes: dict[int | None, _SingaProcess] = {}
        self._after_heading = False
        self._blank: set[int | None] = set()

    def line(self, line: TextLine) -> None:
        text, rank = _words(line.text)
        if not text:
            self.ledger.ignore("blank lines")
            self._blank.add(rank)
            return
        heading = text.endswith(HEADING)
        if heading:
            self.ledger.ignore("headings")
            block = self._begin(rank)
            block.below_blank = text == HEADING and rank in self._blank
        elif (divided := _DIVISOR.fullmatch(text)) and rank in self._processes and self._divide(divided, rank):
            self.ledger.facts += 1
            heading = self._after_heading
        elif (operator := _OPERATOR.fullmatch(text)) and not _ROW.search(operator[2]):
            self._operator(operator, rank, line)
        elif passed := _PASS.fullmatch(text):
            self._pass(passed, rank, line)
        elif text.startswith(_STARTS):
            if line.torn:
                drop_torn(self.ledger, line.where)
            else:
                why = "dropped: lines that begin like a row and do not end like one"
                self.ledger.drop("bad-row", where=line.where, text=why)
        elif text == "." and self.blocks:
            self.ledger.ignore("dots")
            if "list-cut" not in self.ledger.notes:
                self.ledger.note("list-cut", "dots in the file: operators after them are missing", where=line.where)
        else:
            self.ledger.ignore("other output")
        self._after_heading = heading
        self._blank.discard(rank)

    def _begin(self, rank: int | None) -> _SingaBlock:
        if rank not in self._processes and len(self._processes) >= _MOST_RANKS:
            self._end_all()
        process = self._processes.setdefault(rank, _SingaProcess())
        block = _SingaBlock(self.blocks, rank)
        self.blocks += 1
        joins_group = self._after_heading and len(process.group) < _MOST_BESIDE
        if not (joins_group and process.group and process.group[-1].is_fresh()):
            self._end(process.before)
            process.group, process.before = [], process.group
        process.group.append(block)
        return block

    def _end(self, blocks: list[_SingaBlock]) -> None:
        for block in blocks:
            if not block.is_fresh():
                args: dict[str, bool | int] = {"below_blank": True} if block.below_blank else {}
                args |= block.divided
                self.rows.add(
                    block.number,
                    "header",
                    "Verbosity",
                    str(Kind.OTHER),
                    args or None,
                    rank=block.rank,
                    value_text=block.verbosity(),
                )

    def _end_all(self) -> None:
        for process in self._processes.values():
            self._end(process.before)
            self._end(process.group)
        self._processes.clear()

    def _divide(self, found: re.Match[str], rank: int | None) -> bool:
        """Give the newest heading that has no divisor and no row this one; return whether there is such a heading."""
        measured, iterations, divisor = (int(text) for text in found.groups())
        block = next((b for b in self._processes[rank].group if b.is_fresh() and not b.divided), None)
        if block is None or not 0 < measured <= iterations or divisor not in (measured, iterations):
            return False
        block.divided = {"measured": measured, "iterations": iterations, "divisor": divisor}
        return True

    def finish(self) -> None:
        """End all blocks: the verbosity of a block is known at its end."""
        self._end_all()

    def _operator(self, found: re.Match[str], rank: int | None, line: TextLine) -> None:
        number, name = int(found[1]), found[2]
        block = self._block(rank, lambda b: not b.passes and b.last < number)
        block.last = number
        block.operators += 1
        block.all_dist = block.all_dist and "Dist" in name
        if not block.divided and "divided-by-all" not in self.ledger.notes:
            why = (
                "SINGA divides the times of operators by all iterations, skipped ones included: they are too small "
                "by (iterations - skipped) / iterations"
            )
            self.ledger.note("divided-by-all", why, where=line.where)
        kind = Kind.COMMUNICATION if "Dist" in name else Kind.OPERATOR
        self._row(block, "Operators", name, str(kind), found[3], line, {"op_id": number})

    def _block(self, rank: int | None, fits: Callable[[_SingaBlock], bool]) -> _SingaBlock:
        """Return the block that a row belongs to: the first that it fits, newest group first."""
        process = self._processes.get(rank)
        if process is None:
            return self._begin(rank)
        newest = [block for block in process.group if fits(block)]
        if newest and len(process.group) == 1:
            return newest[0]
        self.ledger.note(
            "interleaved-blocks",
            "lines of several blocks are mixed: the rising numbers of the operators were used to separate them",
        )
        candidates = [*newest, *(block for block in reversed(process.before) if fits(block))]
        return candidates[0] if candidates else self._begin(rank)

    def _pass(self, found: re.Match[str], rank: int | None, line: TextLine) -> None:
        which = found[1]
        block = self._block(rank, lambda b: not b.operators and which not in b.passes)
        block.passes.append(which)
        kind = Kind.FORWARD if which == "Forward" else Kind.BACKWARD
        self._row(block, "Propagation", f"{which} Propagation", str(kind), found[2], line, {})

    def _row(
        self, block: _SingaBlock, section: str, name: str, kind: str, time: str, line: TextLine, args: dict[str, int]
    ) -> None:
        ledger = self.ledger
        self.found += 1
        try:
            value = printed(time)
        except ValueError:
            if time.lstrip("+-").lower() not in ("nan", "inf"):
                ledger.drop("bad-time", where=line.where, text="dropped: times beyond 146 years")
                return
            ledger.note("no-iteration", "times that are not numbers: all iterations were skipped", where=line.where)
            self.rows.add(block.number, section, name, kind, args, rank=block.rank, calls=1, value_text=time)
        else:
            self.rows.add(
                block.number,
                section,
                name,
                kind,
                args,
                rank=block.rank,
                calls=1,
                total_ns=value.rounded(),
                avg_ns=float(value.ns),
            )
        ledger.kept += 1


_CELLS = NumberCells(_LOCAL)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError, at the end, when no line of a profile was found."""
    run = Run(sources=[SourceFacts(source.name, "singa", facts={"tool": "SINGA"})])
    source = as_printed(source, options, _CELLS)
    return ReadResult(run, _batches(source, _SingaReading(options, ledger)), True, (ledger,))


def _batches(source: Source, reading: _SingaReading) -> Iterator[pa.RecordBatch]:
    ledger = reading.ledger
    yield from batches_of_lines(source, ledger, reading)
    if not reading.blocks and not ledger.dropped:
        raise ParseError(source.name, "", f"no line {HEADING!r} of SINGA was found")
    if not reading.found:
        ledger.note("no-rows", "the profile has no rows: was SetVerbosity called before the training?")

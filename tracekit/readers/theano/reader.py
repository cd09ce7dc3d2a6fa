"""The profile that Theano, Theano-PyMC, Aesara and PyTensor print at exit (profile=True) or by `summary()`.

    Function profiling
      Time in 200 calls to Function.__call__: 4.998040e-02s
      64.3%    64.3%       0.012s       3.12e-05s     Py     400       2   theano.tensor.blas.Gemv

A record is a line. Each block (`Function profiling`, `Scan Op profiling`) is a run, and so are an optimizer's profile
and tips after it that belong to no function. Sections: `header` has the lines of the block's head, under the same names
for all versions, with the line's own words in `raw_name`; `Class`, `Ops` and `Apply` the tables; `Node make_thunk` the
nodes that were slowest to compile; `Memory Profile` bytes by node and `Memory Profile: peaks`; `Scan overhead`;
`Optimizer Profile` the steps of the optimizer, those within a step in `Optimizer Profile: STEP`, with the lines between
them as `details` in `args`. The same times are in several tables, so rows may be added up only within a section of a
run. `Sum of all(N) printed profiles` repeats the other blocks: its sections are named `Sum of all: Class` and so on,
with `"sum": true` in `args` of its header; those of a scan, whose time its function has too, `Scan Op: Class`.

Everything that the profiler prints is kept, so that the view `theano` can print it again: `s` in `args` is a time as it
was printed, in s. Words without a number (tips, headings of memory and optimizer, the end of a complete table) are rows
of `header`.

The tables print the time of a node in ms and the time of a call with three digits; `total_ns` is the time that both
allow (time per call x calls where that is finer), so a sum is as exact as those digits; a note says so. `avg_ns` is the
time per call as printed. The first 20 rows are printed only: `... (remaining 5 Ops account for 2.00%(0.01s) of the
runtime)` is a row of the same section, `"remaining": 5` in `args`, whose time follows from its percentage where that is
finer. With it a table sums up to `Time in thunks`. Lines `input 0: dtype=...` belong to the row of Apply above them.
Sizes are printed in KB of 1024 B.

Blocks may be mixed with other output: warnings, tracebacks and other lines are counted by class. The prefix of other
tools (a time stamp, `>`) is learned from the heading and removed; the tag of mpirun separates the blocks of several
processes and becomes `rank`. A name with a small constant has several lines, and a terminal may wrap a long name: the
lines are joined by their brackets. The remainder of a scan's table, whose block prints no `Time in thunks`, gets its
time from the largest row and its share.
Indentation (notebooks), single blanks (copies from pages) and the name of a table at the end of the line before it are
accepted. Only the steps within a step of the optimizer cannot be separated then; a note says so.

Sources: the files named in `_patterns`; outputs of Theano 0.6 and 1.0.5, Theano-PyMC 1.1.2, PyTensor 3.0.7. Not
supported: ProfileMode, of Theano before 0.6 (a note names it); times within one optimizer, which stay words
(`details`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head
from tracekit.readers.printed.lines import TextLine, TotalRows, first_lines, printed, text_lines
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.pasted import Plain, RankRows
from tracekit.readers.source import Source
from tracekit.readers.theano import _tables as patterns
from tracekit.readers.theano._tables import MOST_LINES, Memory, OptimizerProfile, Out, TheanoBlock, TimeTables, overhead

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

# Other lines within a Theano profile, by class: tracebacks, warnings, tips.


_TRACEBACK = ("Traceback (most recent call last):", "Exception ignored in ")
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_SKIPPED = "Skipping empty Profile"
_RAISED = re.compile(r"[A-Za-z_][\w.]{0,200}(?:: |:?$)")


class Noise:
    """Classifies lines outside of a profile: tips, tracebacks, warnings; None for any other output."""

    def __init__(self) -> None:
        self._traceback: int | None = None
        self._warned: int | None = None
        self._tips = False

    def reset(self, *, tips: bool) -> None:
        """Start again after a line of a profile. tips: it was the heading of the tips."""
        self._traceback = self._warned = None
        self._tips = tips

    def classify(self, text: str, words: str) -> str | None:
        """Return the class of a line; `words` as in `_patterns.py`."""
        if self._tips and words.startswith((*patterns.TIP, *patterns.TIPS_TALK)):
            return "tips"
        self._tips = False
        indent = len(text) - len(text.lstrip())
        if words.startswith(_TRACEBACK):
            self._traceback = indent
            return "tracebacks"
        if words in _CHAINED:
            return "tracebacks"
        if self._traceback is not None:
            if indent > self._traceback:
                return "tracebacks"
            self._traceback = None
            if _RAISED.match(words):
                return "tracebacks"
        if words == _SKIPPED:
            return "skipped profiles"
        if patterns.WARNING.search(words):
            self._warned = indent
            return "warnings"
        if self._warned is not None and indent > self._warned:
            # Python prints the line of source below its warning.
            self._warned = None
            return "warnings"
        self._warned = None
        return None


# The block and table of each line of a Theano profile; the lines of a block's head.


MOST_FUNCTIONS = 1000
"""Most blocks that are named in the facts of the source."""
_TIMED = frozenset((patterns.CLASS, patterns.OPS, patterns.APPLY))
_NAMED = _TIMED | {patterns.MEMORY}


def _section_of(text: str, words: str) -> str | None:
    """Return the table that a row belongs to, by its columns; None for a line that is not a row."""
    if not patterns.ROW_START.match(words):
        return None
    if (match := patterns.GROUP_ROW.fullmatch(text)) and match["impl"]:
        is_class = patterns.CLASS_NAME.fullmatch(match["name"]) or patterns.MODULE_PATH.fullmatch(match["name"])
        return patterns.CLASS if is_class else patterns.OPS
    return patterns.APPLY if patterns.APPLY_ROW.fullmatch(text) else None


class TheanoState:
    """The state of the reader at a line of one process. blocks: their number. numbers: run numbers of all processes.

    The methods that take a line return whether it was one of theirs.
    """

    def __init__(self, rows: RankRows, numbers: Iterator[int], ledger: Ledger, run: Run) -> None:
        self.ledger, self.run = ledger, run
        self.out = Out(rows, ledger)
        self.blocks = 0
        self._numbers = numbers
        self._block: TheanoBlock | None = None
        self._table = ""
        self._times = TimeTables(self.out)
        self._memory = Memory(self.out)
        self._optimizer = OptimizerProfile(self.out)
        self._noise = Noise()
        self._node: TextLine | None = None
        self.profile_mode = False

    def line(self, line: TextLine) -> None:
        """Take one line."""
        if self._node is not None:
            node, self._node = self._node, None
            line = self._after_node(node, line)
        words = " ".join(line.text.split())
        block = self._block
        if not words:
            kept = self._table == patterns.OPTIMIZER and block is not None and self._optimizer.detail(block, line)
            if not kept:
                self.ledger.ignore("blank lines")
        elif self._heading(words, line) or self._table_line(words, line) or self._head(words, line):
            self._noise.reset(tips=words == patterns.TIPS)
        elif line.torn and self._is_open():
            self.out.torn(line)
        else:
            self._rest(words, line)

    def _rest(self, words: str, line: TextLine) -> None:
        """Take a line outside of tables and heads: a tip, details of the optimizer, or other output."""
        block, what = self._block, self._noise.classify(line.text, words)
        if what is None and block is not None and self._table in _NAMED and self.out.continues_name(line.text):
            return
        if what is None and self._table not in _TIMED and (section := _section_of(line.text.strip(), words)):
            self._open(section)
            self._times.begin(with_flops=False)
            why = "rows of a table without a header in the file: the table was recognized by its columns"
            self.ledger.note("table-without-header", why, where=line.where)
            self._times.row(self._block or self._begin(), section, line)
            return
        if patterns.PROFILE_MODE.match(words):
            why = "the output of ProfileMode, the profiler of Theano before 0.6, was skipped"
            self.profile_mode = True
            self.ledger.note("profile-mode", why, where=line.where)
        if what == "tips" and block is not None and words.startswith(patterns.TIP):
            self.out.words(block, "Tip", line.text.strip())
        elif what is None and self._table == patterns.OPTIMIZER and block is not None and line.text[:1].isspace():
            if not self._optimizer.detail(block, line):
                self.ledger.ignore("optimizer details")
        else:
            self.ledger.ignore(what or "other output")

    def _after_node(self, node: TextLine, line: TextLine) -> TextLine:
        """Return a line joined with the open node before it, or alone if it does not belong to the node."""
        words = line.text.strip()
        if not words or words.startswith(("Node ", "Time ", patterns.CLASS, patterns.FUNCTION, "<% time>")):
            self.out.bad(node)
            return line
        self.ledger.merged += 1
        return replace(node, text=f"{node.text}\n{line.text.rstrip()}", torn=line.torn)

    def _is_open(self) -> bool:
        """Return whether more lines of a profile are expected. Theano 0.6 ends with Apply, later ones with tips."""
        block = self._block
        return block is not None and not block.over and (bool(self._table) or patterns.APPLY not in block.seen)

    def finish(self) -> None:
        """End the open node and table."""
        if self._node is not None:
            self.out.bad(self._node)
            self._node = None
        self._end_table()

    def _begin(self, kind: str = "function") -> TheanoBlock:
        self._end_table()
        self._block = TheanoBlock(next(self._numbers), kind)
        self.blocks += 1
        return self._block

    def _open(self, section: str) -> TheanoBlock:
        """Begin a table, in a new block after the tips or where the block had such a table."""
        block = self._block
        if block is None or block.over or section in block.seen:
            block = self._begin()
        self._end_table()
        block.seen.add(section)
        self._table = section
        return block

    def _end_table(self) -> None:
        self.out.flush()
        if self._table in _TIMED:
            self.ledger.note("table-cut", "tables that end before their last line, so that rows may be missing")
        self._table = ""

    def _heading(self, words: str, line: TextLine) -> bool:
        if words.endswith(patterns.FUNCTION):
            self._begin()
        elif scan := patterns.SCAN_HEAD.match(words):
            block = self._begin("scan")
            if scan[1]:
                self.out.header(block, "Scan Op", value_text=scan[1])
        elif not words.strip("-") or not words.strip("="):
            if self._table == patterns.OPTIMIZER and self._optimizer.is_inside(line):
                return False
            self.ledger.ignore("rules")
            return True
        elif match := patterns.TABLE.match(words):
            self._open(patterns.TABLE_OF[match[1]])
            self._times.begin(with_flops="<Mflops>" in words)
        elif words.startswith(patterns.OPTIMIZER_LEGEND):
            if (
                self._table == patterns.OPTIMIZER
                and self._block is not None
                and self._optimizer.detail(self._block, line)
            ):
                return True
        elif words in _TIMED:
            pass
        elif words == patterns.MEMORY or words.startswith(f"{patterns.MEMORY} (the max"):
            self.out.words(self._open(patterns.MEMORY), patterns.MEMORY, words)
            return True
        elif words in (patterns.OPTIMIZER, "Rewriter Profile"):
            self.out.words(self._open(patterns.OPTIMIZER), patterns.OPTIMIZER, words)
            self._optimizer.begin(line)
            return True
        elif words == f"{patterns.OVERHEAD}:" or words.startswith("<Scan op time(s)>"):
            if self._table != patterns.OVERHEAD:
                if self._table == patterns.OPTIMIZER:
                    self._optimizer.ends_before_blank()
                self._open(patterns.OVERHEAD)
        elif words == patterns.TIPS:
            self._end_table()
            if self._block is not None:
                # A scan that never ran has its tips, and nothing else.
                block = self._begin() if self._block.over else self._block
                block.over = True
        else:
            return False
        self.ledger.ignore("headings")
        return True

    def _table_line(self, words: str, line: TextLine) -> bool:
        block, table = self._block, self._table
        if block is None and patterns.REMAINDER.fullmatch(words):
            block = self._begin()
        if block is None:
            return False
        if words.startswith("..."):
            return self._remainder(block, words, line)
        if table in _TIMED:
            if patterns.ROW_START.match(words):
                return self._times.row(block, table, line)
            return table == patterns.APPLY and self._times.variable(words, line)
        if table == patterns.MEMORY:
            return self._memory.line(block, words, line)
        if table == patterns.OPTIMIZER:
            return self._optimizer.line(block, words, line)
        return table == patterns.OVERHEAD and overhead(block, words, line, self.out)

    def _remainder(self, block: TheanoBlock, words: str, line: TextLine) -> bool:
        if match := patterns.REMAINDER.fullmatch(words):
            # All versions use the same words, but the open table decides.
            section = self._table if self._table in _TIMED else patterns.REMAINDER_OF[match["what"]]
            taken = self._times.remainder(block, section, match, line)
            self._table = "" if self._table in _TIMED else self._table
            return taken
        if match := patterns.MEMORY_REST.fullmatch(words):
            return self._memory.remainder(block, match)
        return words.startswith("... (remaining ") and self.out.bad(line)

    def _head(self, words: str, line: TextLine) -> bool:
        """Take a line of a block's head. A block may have lost its heading; after the tips there is no head."""
        block = self._block
        if patterns.GLOBAL_STATS.match(words):
            return self.out.words(block or self._begin(), "Global stats", line.text.strip())
        if block is not None and block.over:
            return False
        if block is not None and block.message is None and not block.seen and (match := patterns.MESSAGE.match(words)):
            if line.torn:
                return self.out.torn(line)
            whole = patterns.MESSAGE.match(line.text.strip())
            return self._message(block, whole[1] if whole else match[1])
        if match := patterns.NO_TIME.match(words):
            why = "functions whose nodes were not timed (profiling.time_thunks)"
            self.ledger.note("no-node-times", why, where=line.where)
            self.out.header(block or self._begin(), match[0], value_text=words)
            self.ledger.kept += 1
            return True
        for fact in patterns.FACTS:
            if fact.start.match(words):
                if match := fact.pattern.fullmatch(words):
                    return self._fact(block or self._begin(), fact.name, words, match, line)
                return block is not None and self.out.bad(line)
        if block is not None and not block.seen and words.startswith("Node "):
            return self._thunk_node(block, words, line)
        return False

    def _message(self, block: TheanoBlock, message: str) -> bool:
        block.message = message
        if block.kind == "function" and patterns.SUM.match(message):
            block.kind = "sum"
        self.out.header(block, "Message", value_text=message)
        self.ledger.kept += 1
        functions = self.run.sources[0].facts.setdefault("functions", [])
        if len(functions) < MOST_FUNCTIONS:
            named = None if message == "None" else message[:200]
            functions.append({"run": block.number, "kind": block.kind, "message": named})
        return True

    def _fact(self, block: TheanoBlock, name: str, words: str, match: re.Match[str], line: TextLine) -> bool:
        out = self.out
        if tool := patterns.TOOL.match(words):
            self.run.sources[0].facts.setdefault("tool", patterns.TOOLS[(tool[1] or tool[2]).lower()])
        groups = match.groupdict()
        args: dict[str, object] = {}
        if groups.get("time"):
            args["s"] = groups["time"]
        if groups.get("percent"):
            args["percent"] = groups["percent"]
        if groups.get("steps"):
            args["steps"] = int(groups["steps"])
        more: dict[str, object] = {}
        if groups.get("calls"):
            more["calls"] = int(groups["calls"])
        elif groups["label"] != name:
            more["raw_name"] = groups["label"]
        if groups.get("count"):
            nodes = int(groups["count"])
            more |= {"value_avg": float(nodes) if nodes >= 0 else None, "unit": "nodes"}
        else:
            try:
                time = printed(groups["time"])
            except ValueError:
                return out.bad_time(line)
            more["total_ns"] = time.rounded()
            if name == "Time in thunks":
                block.thunks = time
        out.header(block, name, args, **more)
        out.found += 1
        self.ledger.kept += 1
        return True

    def _thunk_node(self, block: TheanoBlock, words: str, line: TextLine) -> bool:
        match = patterns.THUNK_NODE.fullmatch(line.text.strip()) or patterns.THUNK_NODE.fullmatch(words)
        if match is None and patterns.is_open(words) and not line.torn and line.text.count("\n") < MOST_LINES:
            self._node = line
            return True
        if match is None:
            return self.out.bad(line)
        try:
            time = printed(match["time"])
        except ValueError:
            return self.out.bad_time(line)
        if "\n" in match["name"]:
            self.out.note_joined()
        args = {"s": match["time"]}
        return self.out.row(block, "Node make_thunk", match["name"], Kind.OTHER, args, total_ns=time.rounded())


# Lines of a Theano profile, rank by rank: the recognition, and the batches.


_PROGRAM = re.compile(r"\b(?:theano|pytensor|aesara)\b", re.IGNORECASE)


_ALONE = ("Max peak memory with current setting", "<Sum apply outputs (bytes)> <Apply outputs shape>")
"""Lines that identify a copy with the memory profile alone."""
_OLD = "ProfileMode, the profiler before Theano 0.6, is not read: profile=True gives a profile that is"


def sniff(head: Head) -> Confidence:
    """Return YES for a block's head, or the header or end of a table; MAYBE for a warning of Theano."""
    if head.tables or not head.text:
        return Confidence.NO
    heading = warned = False
    plain = Plain(patterns.MARK)
    for line in first_lines(head.data):
        _, text = plain.of(line)
        words = " ".join(text[-4096:].split())
        if heading and (words.startswith("Message: ") or (words and not words.strip("="))):
            return Confidence.YES
        if words:
            heading = words.endswith(patterns.FUNCTION) or bool(patterns.SCAN_HEAD.match(words))
        if "<apply time>" in words and patterns.TABLE.match(words):
            return Confidence.YES
        if words.startswith(_ALONE) or patterns.REMAINDER.fullmatch(words) or patterns.PROFILE_MODE.match(words):
            return Confidence.YES
        warned = warned or bool(patterns.WARNING.search(words) and _PROGRAM.search(words))
    return Confidence.MAYBE if heading or warned else Confidence.NO


_CELLS = NumberCells(
    re.compile(rf"(?:^|[ \t(]){LOCAL_NUMBER}(?:%%?|s)(?:[ \t\r):\\]|$)"), fraction=re.compile(rf"{LOCAL_NUMBER}(?:%|s)")
)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError, at the end, when there was no profile."""
    run = Run(sources=[SourceFacts(source.name, "theano")])
    source = as_printed(source, options, _CELLS)
    return ReadResult(run, _batches(source, options, ledger, run), True, (ledger,))


def _batches(source: Source, options: ReadOptions, ledger: Ledger, run: Run) -> Iterator[pa.RecordBatch]:
    rows, numbers, plain = TotalRows(options.source, ledger), count(), Plain(patterns.MARK)
    states: dict[int | None, TheanoState] = {}
    for line in text_lines(source, ledger):
        rank, text = plain.of(line.text)
        if rank not in states:
            states[rank] = TheanoState(RankRows(rows, rank), numbers, ledger, run)
        states[rank].line(line if text == line.text else replace(line, text=text))
        yield from rows.take()
    for state in states.values():
        state.finish()
    yield from rows.take(everything=True)
    if not any(state.blocks for state in states.values()) and not ledger.dropped:
        is_old = any(state.profile_mode for state in states.values())
        raise ParseError(
            source.name, "", "no profile of Theano, Aesara or PyTensor was found", hint=_OLD if is_old else ""
        )
    if not any(state.out.found for state in states.values()):
        ledger.note("no-rows", "the profile has no times: was the program ended before it was printed?")

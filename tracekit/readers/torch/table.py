"""torch-table: the tables that PyTorch's profilers print, `key_averages().table()` (PyTorch 0.4 to 2.15).

    -----------------  ------------  ------------  ------------  ------------  ------------  ------------
                 Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls
    -----------------  ------------  ------------  ------------  ------------  ------------  ------------
             aten::mm        61.04%     131.207us        62.11%     133.507us      66.754us             2

A record is a line. Each table is a run, as tables of one program mostly show the same time. Rows are kept as they are
printed: the same operator is in several rows if shapes or stacks are grouped, or if the events were not aggregated.

`section`: `CPU` for rows with time on the host (`total_ns` is CPU total, which counts what lies within again), the
word for the device (`CUDA`, `XPU`, `MTIA`, ...) for rows without; `CPU self` or `CUDA self` where a table has no column
of totals. In `args`: `self_ns`, `device_ns`, `device_self_ns`, `flops`, the `stack` below a row, and the `cells` as
printed. Kinds follow from names. A row with time on the device alone is a kernel or copy, but a range where a row of
the host has its name: its section is `CUDA, ranges`. The device time of operators is that of kernels again.

Memory has rows of its own (section `memory`): what each row itself allocated, negative for freed, of one place. Below a
table are its totals: section `header`. A total is of all events; a table shows the first 100 rows unless asked for
more, which a note says. PyTorch before 1.8 adds nested rows in its total of CUDA.

With `top_level_events_only` a table has the events that are within no other, which a note says too. PyTorch takes an
average for such an event if the first of its events is: an operator that runs within another one first is missing,
although it runs at the top later. PyTorch 1.8 and 1.9 print FLOPs divided by the time of the row, below `FLOPS`: they
are `flops_per_s` in `args`, not `flops`.

Times have three digits of the unit that fits; memory has two. Names are cut at 52 characters and shapes at 80, so two
rows with one name may be different kernels. Tables are found in logs, notebooks, comments, quotations and documents,
also with columns and rows removed by hand, and with rules that do not fit. In a head with stacks and FLOPs PyTorch
changes the order of the two columns: cells are taken by what they are.

`torch.utils.bottleneck` prints two tables of single events, one for each mode: the same program, run twice. Their
totals are those of their 15 rows. Its output of cProfile is skipped.
Sources: tables of each minor version from 1.0 to 2.15 in all forms, held against `key_averages()` (printed by
`tests/torch_tables.py`); profiler_util.py of 1.8 to 2.13, and profiler.py of 0.4 to 1.7.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.model.units import TIME_EXPONENT, split_quantity, to_bytes, to_ns
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.head import Head
from tracekit.readers.printed.lines import TextLine, first_lines
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.pasted import Plain, RankRows, closes, read_reports
from tracekit.readers.source import Source
from tracekit.readers.torch_ranges import range_of

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["columns_of", "host_kind", "read", "size_bytes", "sniff", "time_ns"]

# Kinds of the rows of PyTorch's tables, by their names: the tables do not say what a row is.


CUT = "..."
"""The end of a name that PyTorch cut."""
_WHOLE = (
    *("ProfilerStep*", "Lazy Function Loading", "Runtime Triggered Module Loading", "Command Buffer Full"),
    "record_param_comms",
)
_FEWEST = 6
"""Characters of a cut name that show which of these it was."""
_RUNTIME = re.compile(r"(?:cuda|hip|xpu|ze|ur|mtia|acl)[A-Z]\w*")
_DRIVER = re.compile(r"cu[A-Z]\w+")
_OVERHEAD = re.compile(
    r"Activity Buffer \w+|Lazy Function Loading|Runtime Triggered Module Loading|Command Buffer Full"
)
_PYTHON = re.compile(r"nn\.Module: .+|<built-in .+|.+\(\d+\): .+")
_COMMUNICATION = re.compile(r"record_param_comms|c10d::.*|(?:nccl|gloo|mpi|ucc|hccl|xccl):.*")
_OPERATOR = re.compile(r"\w+(?:::\w+)+(?:\.\w+)?|autograd::.*|.*Backward\d*|XPU Triton kernel:.*|triton_\w+")
_COMPILED = re.compile(r"triton_.*|void .*|.*<.*|.*::.*\(.*")
_KERNEL = re.compile(r"void .*|.*[<(].*|.*(?:kernel|gemm|conv_|_[nt]{2}\b).*", re.IGNORECASE)


def host_kind(name: str, *, old: bool) -> Kind:
    """Return the kind of a row with time on the host. old: operators have no namespace.

    >>> host_kind("aten::mm", old=False), host_kind("cudaLaunchKernel", old=False)
    (<Kind.OPERATOR: 'operator'>, <Kind.RUNTIME: 'runtime'>)
    >>> host_kind("cudaLaunchKern...", old=False)
    <Kind.RUNTIME: 'runtime'>
    """
    if name.endswith(CUT):
        name = name.removesuffix(CUT)
        if whole := next((each for each in _WHOLE if len(name) >= _FEWEST and each.startswith(name)), ""):
            name = whole
    if name == "ProfilerStep*":
        return Kind.STEP
    if name == "[memory]":
        return Kind.OTHER
    for pattern, kind in (
        (_PYTHON, Kind.PYTHON_OP),
        (_RUNTIME, Kind.RUNTIME),
        (_DRIVER, Kind.DRIVER),
        (_OVERHEAD, Kind.OVERHEAD),
        (_COMMUNICATION, Kind.COMMUNICATION),
        (_OPERATOR, Kind.OPERATOR),
    ):
        if pattern.fullmatch(name):
            return kind
    range_kind = range_of(name, recorded=True, numbered=False).kind
    return Kind.OPERATOR if old and range_kind is Kind.USER_RANGE else range_kind


def is_kernel(name: str) -> bool:
    """Return whether a name is of a kernel, whoever else has it.

    The kernels of torch.compile have the names of the operators that launch them.
    """
    return _COMPILED.fullmatch(name) is not None


def device_kind(name: str) -> Kind:
    """Return the kind of a row with time on a device alone."""
    start = name[:6].lower()
    return Kind.MEMCPY if start == "memcpy" else Kind.MEMSET if start == "memset" else Kind.KERNEL


def looks_like_device_work(name: str) -> bool:
    """Return whether a name is of a kernel or copy, as far as one can say without the times on the host."""
    is_host = _OPERATOR.fullmatch(name) or host_kind(name, old=False) is not Kind.USER_RANGE
    return not is_host and (device_kind(name) is not Kind.KERNEL or _KERNEL.fullmatch(name) is not None)


# The columns of PyTorch's tables: their heads in all versions, and the cells below them.


RULE = re.compile(r"[-=]{4,}(?: {1,4}[-=]{2,})+\s*$")
"""A rule of two columns at least, at the end of a line."""
_GAP = re.compile(r"\s{2,}")
_WORD = r"[A-Za-z]\w{0,30}"
_HEADS = (
    (r"Name", "name"),
    (r"Overload Name", "overload"),
    (r"Self CPU(?: total)? %", "share"),
    (r"Self CPU(?: total)?", "self"),
    (r"CPU total %", "share"),
    (r"CPU total", "total"),
    (r"CPU time(?: avg)?", "mean"),
    (rf"Self (?P<device>{_WORD}) %", "share"),
    (rf"(?P<device>{_WORD}) total %", "share"),
    (r"CPU Mem", "memory"),
    (r"Self CPU Mem", "self_memory"),
    (rf"Self (?P<device>{_WORD}) Mem", "device_self_memory"),
    (rf"(?P<device>{_WORD}) Mem", "device_memory"),
    (rf"Self (?P<device>{_WORD})", "device_self"),
    (r"Total [KMGTP]?FLOPs", "flops"),
    (r"[KMGTP]?FLOPS", "flop_rate"),
    (rf"(?P<device>{_WORD}) total", "device_total"),
    (rf"(?P<device>{_WORD}) time(?: avg)?", "device_mean"),
    (r"# of Calls|Number of Calls|Calls", "calls"),
    (r"Node ID", "node"),
    (r"Input Shapes", "shapes"),
    (r"Source Location", "source"),
)
_PATTERNS = tuple((re.compile(pattern), role) for pattern, role in _HEADS)
_TIMES = ("self", "total", "mean", "device_self", "device_total", "device_mean")
_SIZES = ("memory", "self_memory", "device_memory", "device_self_memory")
_COUNT = re.compile(r"\d{1,18}", re.ASCII)
_SHARE = re.compile(r"-?\d{1,18}(?:\.\d{1,6})?%|NaN|nan%?|-?inf%|0", re.ASCII)
_SIZE = re.compile(r"(-?\d{1,18}(?:\.\d{1,6})?) ?([KMGT]?)[bB]", re.ASCII)
_FLOPS = re.compile(r"--|\d{1,18}(?:\.\d{1,6})?", re.ASCII)
_SCALES = {"": 0, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15}


class TableSide(StrEnum):
    """The alignment of a column."""

    LEFT = "<"
    RIGHT = ">"


@dataclass(frozen=True, slots=True)
class TorchColumns:
    """The head of a table. titles: as printed. roles: what each column has. spans: from its rule, () without one.

    device: PyTorch's word for the device in capital letters, "" if the table has no column of it.
    old: of PyTorch 1.5 and older, which did not mark operators with `aten::`.
    """

    titles: tuple[str, ...]
    roles: tuple[str, ...]
    device: str
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def old(self) -> bool:
        """Return whether the head is of PyTorch 1.5 or older."""
        return "Number of Calls" in self.titles or "Calls" in self.titles

    def sides(self, text: str) -> list[TableSide]:
        """Return the alignment of each column, from the line of the head; as most others where it does not show.

        A head may be longer than its column, as in PyTorch 1.1 to 1.5: those behind it are moved.
        """
        known: list[TableSide | None] = []
        moved = 0
        for (start, end), title in zip(self.spans, self.titles, strict=True):
            width, place = end - start, start + moved
            moved += max(len(title) - width, 0)
            side = TableSide.LEFT if text[place : place + len(title)] == title else TableSide.RIGHT
            known.append(None if len(title) >= width else side)
        usual = (
            TableSide.LEFT if known[1:].count(TableSide.LEFT) > known[1:].count(TableSide.RIGHT) else TableSide.RIGHT
        )
        sides = [usual if side is None else side for side in known]
        return [TableSide.LEFT if role == "source" else side for side, role in zip(sides, self.roles, strict=True)]

    def cut(self, text: str) -> list[str] | None:
        """Return the cells of a row, None for another line."""
        ways = [cells for cells in (self._by_rule(text), self._by_gaps(text)) if cells]
        return next((cells for cells in ways if self.fits(cells)), None)

    def cut_damaged(self, text: str) -> list[str] | None:
        """Return the cells of a row in which some cannot be read, None for another line.

        A row needs its total times (its self times, where the table has no others), and most of its cells.
        """
        for cells in (self._by_rule(text), self._by_gaps(text)):
            if cells and cells[0]:
                odd = self.odd(cells)
                if odd and 3 * len(odd) <= len(cells) and not any(self.roles[at] in self._needed for at in odd):
                    return cells
        return None

    @property
    def _needed(self) -> tuple[str, ...]:
        totals = tuple(role for role in ("total", "device_total") if role in self.roles)
        return totals or ("self", "device_self")

    def odd(self, cells: Sequence[str]) -> list[int]:
        """Return the places of the cells that are not what their column has."""
        named = self.named(cells)
        return [
            at
            for at, (role, cell) in enumerate(zip(self.roles, cells, strict=True))
            if not (_SHARE.fullmatch(cell) if role == "share" else _fits(role, named[role]))
        ]

    def like_a_row(self, text: str) -> bool:
        """Return whether a line has cells of a row, though they are too few or cannot be read."""
        cells = _GAP.split(text.strip())
        return 2 * len(cells) >= len(self.titles) and any(time_ns(cell) is not None for cell in cells[1:])

    def _by_rule(self, text: str) -> list[str] | None:
        if not self.spans:
            return None
        text = text.rstrip()
        ends = [end for _, end in self.spans[:-1]]
        starts = [start for start, _ in self.spans[1:]]
        if text[: self.spans[0][0]].strip() or any(text[a:b].strip() for a, b in zip(ends, starts, strict=True)):
            return None
        places = [(start, end) for start, end in self.spans[:-1]] + [(self.spans[-1][0], len(text))]
        return [text[start:end].strip() for start, end in places]

    def _by_gaps(self, text: str) -> list[str] | None:
        cells = _GAP.split(text.strip())
        return cells if len(cells) == len(self.titles) else None

    def continued(self, text: str) -> tuple[str, str] | None:
        """Return what a line adds to the name and to the stack of the row above it; None for another line."""
        if "source" not in self.roles or not self.spans or not text.strip():
            return None
        start = self.spans[-1][0]
        name = text[:start].strip()
        return None if _GAP.search(name) else (name, text[start:].strip())

    def fits(self, cells: Sequence[str]) -> bool:
        """Return whether cells are those of a row."""
        named = self.named(cells)
        return bool(named["name"]) and sum(map(bool, cells)) >= 2 and not self.odd(cells)

    def named(self, cells: Sequence[str]) -> dict[str, str]:
        """Return the cells by role. With stacks and FLOPs the head has both columns in the other order than rows."""
        named = dict(zip(self.roles, cells, strict=True))
        flops = "flops" if "flops" in named else "flop_rate"
        if flops in named and "source" in named and _FLOPS.fullmatch(named["source"]):
            named["source"], named[flops] = named[flops], named["source"]
        return named

    def flops(self, role: str, cell: str) -> int | None:
        """Return a cell of FLOPs as their number, None for none. role: `flops`, or `flop_rate` for FLOPs per second."""
        if not _FLOPS.fullmatch(cell) or cell == "--":
            return None
        title = self.titles[self.roles.index(role)].removeprefix("Total ")
        count = int(Decimal(cell).scaleb(_SCALES[title[:-5]]).to_integral_value())
        return count if count < 1 << 62 else None


def _fits(role: str, cell: str) -> bool:
    if role in _TIMES:
        return time_ns(cell) is not None
    if role in _SIZES:
        return size_bytes(cell) is not None
    if role == "calls":
        return _COUNT.fullmatch(cell) is not None
    if role in ("flops", "flop_rate"):
        return not cell or _FLOPS.fullmatch(cell) is not None
    return True


def time_ns(cell: str) -> int | None:
    """Return a time as ns, None for another text.

    >>> time_ns("13.370us"), time_ns("57.549m")
    (13370, None)
    """
    try:
        number, unit = split_quantity(cell)
        return to_ns(number, unit) if unit in TIME_EXPONENT else None
    except ValueError:
        return None


def size_bytes(cell: str) -> int | None:
    """Return a size in bytes, rounded as it was printed; None for another text.

    >>> size_bytes("-1.50 Kb")
    -1536
    """
    match = _SIZE.fullmatch(cell)
    if match is None:
        return None
    try:
        return to_bytes(match[1], f"{match[2]}B")
    except ValueError:
        return None


def columns_of(text: str, rule: str = "") -> TorchColumns | None:
    """Return the head of a table, None for another line. rule: the line above it, if that is a rule."""
    if "Name" not in text or len(text) > 4096:
        return None
    titles = _GAP.split(text.strip())
    if len(titles) < 2 or titles[0] != "Name":
        return None
    roles, devices = [], set()
    for title in titles:
        for pattern, role in _PATTERNS:
            if match := pattern.fullmatch(title):
                roles.append(role)
                devices |= {match["device"]} if "device" in pattern.groupindex else set()
                break
        else:
            return None
    if roles[1:] == ["calls"] or len(set(roles) - {"share"}) + roles.count("share") < len(roles) or len(devices) > 1:
        return None
    spans = tuple(match.span() for match in re.finditer(r"[-=]+", rule))
    return TorchColumns(tuple(titles), tuple(roles), "".join(devices), spans if len(spans) == len(titles) else ())


# The tables of PyTorch's profilers, line by line: rules, heads, rows with their stacks, totals.


TOTAL = re.compile(r"\**((?:Self )?\w{1,40} time total):?\**+:? *+(\S{1,60})?\**")
_BANNER = re.compile(r"={20,}")
_MODE = re.compile(r"autograd profiler output \((\w{1,20}) mode\)")
_CPROFILE = re.compile(r"cProfile output")
_TOP_LEVEL = "This report only display top-level ops statistics"
_MOST_ROWS = 20_000
"""Rows of a table that are kept until its end, where it shows which names are ranges of the host, too."""
_MOST_DOUBTFUL = 20
_MOST_STACK = 500
_MOST_TABLES = 1000
_MOST_ABOVE = 8
_NO_BLANKS = "no blanks"
"""PyTorch 1.2 and later end each line of a table with two blanks; a copy of an older one may have lost them, too."""
_CUT_NAMES = (
    "rows with the same name, which PyTorch cut, may be of several operators or kernels: they are shown one by one"
)
_NO_ROW = "dropped: a line within the table that is not a row of it"
_ROUNDING = 0.005
"""Sums that differ by less than this part are equal: each cell is rounded."""


@dataclass(slots=True)
class _TorchRow:
    """A row. cells: as printed. named: by what they have. stack: the frames of the lines below it."""

    cells: list[str]
    named: dict[str, str]
    stack: list[str] = field(default_factory=list)


class TorchTables:
    """Makes rows of lines: those of a file or of one rank. layouts: facts for printing the tables again."""

    def __init__(self, rows: RankRows, ledger: Ledger, runs: Iterator[int], layouts: list[dict[str, object]]) -> None:
        self.rows = rows
        self.ledger = ledger
        self.runs = runs
        self.layouts = layouts
        self.layout: dict[str, object] = {}
        self.found = False
        self.run = -1
        self.columns: TorchColumns | None = None
        self.table: list[_TorchRow] = []
        self.doubtful: list[TextLine] = []
        self.rule = ""
        self.above: list[str] = []
        self.top_level = False
        self.mode = ""
        self.parted = False
        self.sums: dict[str, int] = {}
        self.cut = False
        self.has_rows = False
        self.totals_due = False

    def line(self, line: TextLine) -> None:
        """Take a line, which the ledger has counted as read."""
        text, ledger = line.text, self.ledger
        stripped = text.strip()
        head = None if not stripped or line.torn else columns_of(text, self.rule)
        if head is not None:
            self._begin(head, text)
            ledger.ignore("headings")
        elif not stripped:
            self.parted = self.columns is not None and "source" not in self.columns.roles
            ledger.ignore("blank lines")
        elif RULE.fullmatch(stripped):
            self._rule(text)
        elif (total := TOTAL.fullmatch(stripped)) and (self.columns is not None or self.totals_due):
            self._total(total, line)
        elif self.columns is not None:
            self._content(self.columns, line, stripped)
        else:
            self._outside(stripped)
        if not RULE.fullmatch(stripped):
            self.rule = ""

    def close(self) -> bool:
        """Note that no line follows. Return whether there was a table."""
        self._end()
        return self.found

    def _outside(self, stripped: str) -> None:
        if mode := _MODE.search(stripped):
            self.mode = mode[1]
        elif _CPROFILE.fullmatch(stripped):
            why = "the output of cProfile was skipped: only tables of PyTorch's profiler are read"
            self.ledger.note("cprofile-skipped", why)
        if self.above or _BANNER.fullmatch(stripped):
            self.above = [*self.above, stripped][-_MOST_ABOVE:]
        self.totals_due = self.totals_due and stripped == CUT
        self.ledger.ignore("other output")

    def _rule(self, text: str) -> None:
        self.ledger.ignore("rules")
        if self.columns is not None and self.table:
            self._end()
            self.totals_due = True
        self.rule = text

    def _begin(self, head: TorchColumns, text: str) -> None:
        self._end()
        self.found = True
        self.columns = head
        self.run = next(self.runs)
        self.sums = {role: 0 for role in ("self", "device_self") if role in head.roles}
        self.cut = self.has_rows = False
        self.parted = self.totals_due = False
        widths = [end - start for start, end in head.spans] or [len(title) for title in head.titles]
        sides = [str(side) for side in head.sides(text)] if head.spans else [">"] * len(head.titles)
        self.layout = {"run": self.run, "columns": list(head.titles), "widths": widths, "sides": sides, "totals": []}
        if above := _headings(self.above, sum(widths) + 2 * len(widths) - 2):
            self.layout["above"] = above
        self.top_level = _TOP_LEVEL in above
        if head.old and text == text.rstrip():
            self.layout["ends"] = _NO_BLANKS
        if self.mode:
            self.layout["mode"] = self.mode
        self.above = []
        if len(self.layouts) < _MOST_TABLES:
            self.layouts.append(self.layout)

    def _content(self, columns: TorchColumns, line: TextLine, stripped: str) -> None:
        cells = None if line.torn else columns.cut(line.text)
        if cells is not None:
            self._row(columns, cells, line)
        elif not line.torn and (cells := columns.cut_damaged(line.text)) is not None:
            self._row(columns, cells, line, odd=columns.odd(cells))
        elif self.table and not line.torn and (more := columns.continued(line.text)):
            self._continue(*more)
        elif line.torn:
            drop_torn(self.ledger, line.where)
        elif stripped == CUT:
            self.ledger.ignore("marks of removed rows")
            why = "a line of dots says that rows were removed from the table by hand: sums are of the others"
            self.ledger.note("rows-removed", why, where=line.where)
        elif closes(stripped):
            self._end()
            self.ledger.ignore("other output")
        else:
            self.doubtful.append(line)
            if len(self.doubtful) > _MOST_DOUBTFUL:
                self._end()

    def _row(self, columns: TorchColumns, cells: list[str], line: TextLine, odd: Sequence[int] = ()) -> None:
        for each in self.doubtful:
            self.ledger.drop("bad-row", where=each.where, text=_NO_ROW)
        self.doubtful.clear()
        if self.parted:
            why = "rows after a blank line within a table were read as rows of the table"
            self.ledger.note("table-parted", why, where=line.where)
            self.parted = False
        named = columns.named(cells)
        for place in odd:
            why = "a cell that cannot be read is not known, and its row is kept"
            what = f"{why} ({columns.titles[place]}: {cells[place][:30]!r})"
            self.ledger.note("odd-cell", what, where=line.where)
            named[columns.roles[place]] = ""
        self.table.append(_TorchRow(cells, named))
        self.has_rows = True
        self.ledger.kept += 1
        if len(self.table) >= _MOST_ROWS:
            self._emit(columns)

    def _continue(self, name: str, frame: str) -> None:
        """Take a further frame of a row's stack. People break long names in two lines, too."""
        row = self.table[-1]
        if name:
            row.named["name"] += name
            row.cells[0] += name
        if frame and len(row.stack) < _MOST_STACK:
            row.stack.append(frame)
        self.ledger.merged += 1

    def _end(self) -> None:
        """End the rows of a table. Lines after its last row were not part of it, except lines that have its cells."""
        for line in self.doubtful:
            is_row = self.columns is not None and self.columns.like_a_row(line.text)
            if is_row and self.has_rows:
                self.ledger.drop("bad-row", where=line.where, text=_NO_ROW)
                continue
            self.ledger.ignore("other output")
            if is_row:
                self.ledger.note("table-not-read", "a table has no row that can be read", where=line.where)
        self.doubtful.clear()
        if self.columns is not None:
            self._emit(self.columns)
        self.columns, self.parted = None, False

    def _emit(self, columns: TorchColumns) -> None:
        hosts = {row.named["name"] for row in self.table if not _on_device(row, columns)}
        for row in self.table:
            _EmittedRows(self, columns, row, hosts).add()
        cut = Counter(name for row in self.table if (name := row.named["name"]).endswith(CUT))
        if alike := sum(count for count in cut.values() if count > 1):
            # A table has a row for each name: rows with one cut name are of several whole ones, or shapes.
            self.ledger.note("names-cut", _CUT_NAMES, alike)
        self.table = []

    def _total(self, match: re.Match[str], line: TextLine) -> None:
        self._end()
        self.totals_due = True
        ns = time_ns((match[2] or "").strip("*"))
        totals = self.layout.get("totals")
        if isinstance(totals, list) and len(totals) < 4:
            totals.append(f"{match[1]}: {(match[2] or '').strip('*')}")
        if ns is None or line.torn:
            self.ledger.ignore("totals that cannot be read")
            why = "a total below a table was not read: it has no unit of time, or the file ends within it"
            self.ledger.note("bad-total", why, where=line.where)
            return
        self.ledger.kept += 1
        on_host = match[1] == "Self CPU time total"
        shown = self.sums.get("self" if on_host else "device_self" if self.cut else "")
        is_cut = self.has_rows and shown is not None and shown < ns * (1 - _ROUNDING)
        self.cut |= on_host and is_cut and not self.top_level
        # Views take the total of a table that lacks rows instead of their sum.
        whole = {"whole_of": "host" if on_host else "device"} if is_cut and self.cut else None
        self.rows.add(self.run, "header", match[1], str(Kind.OTHER), whole, total_ns=ns)
        if not on_host or not is_cut:
            return
        if self.top_level:
            why = "the rows of a table are less than its total: it has only events that are within no other"
            self.ledger.note("top-level-only", why, where=line.where)
        else:
            why = "the rows of a table are less than its total: PyTorch prints only the first ones (row_limit)"
            self.ledger.note("table-cut", why, where=line.where)


def _headings(above: list[str], width: int) -> list[str]:
    """Return the lines between a table and the first rule of signs of equality that is as wide as the table."""
    starts = (n for n, line in enumerate(above) if len(line) == width and _BANNER.fullmatch(line))
    return above[next(starts, len(above)) + 1 :]


def _on_device(row: _TorchRow, columns: TorchColumns) -> bool:
    """Return whether a row is of work on a device: it took no time on the host."""
    named = row.named
    times = [time_ns(named[role]) for role in ("self", "total") if role in named]
    work = [time_ns(named[role]) for role in ("device_self", "device_total") if role in named]
    if not any(work) or columns.old:
        return False
    return not any(times) if times else looks_like_device_work(named["name"])


class _EmittedRows:
    """Makes the rows of TOTALS of one row of a table. hosts: the names of its rows with time on the host."""

    def __init__(self, tables: TorchTables, columns: TorchColumns, row: _TorchRow, hosts: set[str]) -> None:
        self.tables, self.columns, self.row = tables, columns, row
        self.name = row.named["name"]
        self.on_device = _on_device(row, columns)
        self.hosts = hosts

    def add(self) -> None:
        """Add them."""
        named = self.row.named
        section, total, mean = self._time()
        args: dict[str, object] = {"cells": self.row.cells}
        if self.row.stack:
            args["stack"] = self.row.stack
        if self.columns.device:
            args["device"] = self.columns.device
        for role, key in (("self", "self_ns"), ("device_total", "device_ns"), ("device_self", "device_self_ns")):
            if role in named:
                args[key] = time_ns(named[role])
        role = "device_self" if self.on_device else "self"
        if role in named:
            self.tables.sums[role] = self.tables.sums.get(role, 0) + (time_ns(named[role]) or 0)
        for role, key in (("flops", "flops"), ("flop_rate", "flops_per_s")):
            if (flops := self.columns.flops(role, named.get(role, ""))) is not None:
                args[key] = flops
        calls = int(named["calls"]) if named.get("calls") else None
        average = None if mean is None else float(mean)
        self.tables.rows.add(
            self.tables.run,
            section,
            self.name,
            str(self._kind()),
            args,
            calls=calls,
            total_ns=total,
            avg_ns=average,
        )
        self._add_memory()

    def _kind(self) -> Kind:
        kind = host_kind(self.name, old=self.columns.old)
        is_range = self.name in self.hosts or kind is not Kind.USER_RANGE
        is_work = self.on_device and (not is_range or is_kernel(self.name))
        return device_kind(self.name) if is_work else kind

    def _time(self) -> tuple[str, int | None, int | None]:
        """Return section, total and mean: of the device for its work, else of the host; the self time without one."""
        device = self.columns.device
        host = (("CPU", "total", "mean"), ("CPU self", "self", ""))
        work = ((device, "device_total", "device_mean"), (f"{device} self", "device_self", ""))
        for section, role, mean in (*work, *host) if self.on_device else (*host, *work):
            if role in self.row.named:
                if self.on_device and self._kind() not in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET):
                    section += ", ranges"
                return section, time_ns(self.row.named[role]), time_ns(self.row.named.get(mean, ""))
        return "table", None, None

    def _add_memory(self) -> None:
        """Add rows for the sizes that the row itself allocated or freed, else with all within it."""
        for place, roles in (
            ("CPU", ("self_memory", "memory")),
            (self.columns.device, ("device_self_memory", "device_memory")),
        ):
            role = next((role for role in roles if role in self.row.named), "")
            size = size_bytes(self.row.named.get(role, ""))
            if size:
                section = "memory" if role == roles[0] else "memory, nested"
                args = {"place": place, "printed": self.row.named[role]}
                self.tables.rows.add(self.tables.run, section, self.name, str(Kind.MEMORY), args, bytes=size)


# Tables of PyTorch's profilers: the recognition, and the batches.


_CELLS = NumberCells(
    re.compile(rf"[ \t]{LOCAL_NUMBER}(?:%|[mun]?s)(?:[ \t\r\\]|$)"),
    padded=True,
    fraction=re.compile(rf"{LOCAL_NUMBER}(?:%|[mu]?s)"),
)


def sniff(head: Head) -> Confidence:
    """Return YES for the head of a table."""
    if head.tables or not head.text or b"Name" not in head.data:
        return Confidence.NO
    plain = Plain(RULE)
    for text in first_lines(head.data):
        if "Name" in text and columns_of(plain.of(text[:4096])[1]) is not None:
            return Confidence.YES
        plain.of(text[:4096])
    return Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError, at the end, when no table was found."""
    layouts: list[dict[str, object]] = []
    run = Run(sources=[SourceFacts(source.name, "torch-table", facts={"tool": "torch.profiler", "tables": layouts})])

    def begin(rows: RankRows, runs: Iterator[int]) -> TorchTables:
        return TorchTables(rows, ledger, runs, layouts)

    source = as_printed(source, options, _CELLS)
    batches = read_reports(source, options, ledger, RULE, "table of PyTorch's profiler", begin)
    return ReadResult(run, batches, True, (ledger,))

"""The tables of PyTorch's profilers, line by line: rules, heads, rows with their stacks, totals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tracekit.readers.printed.lines import TextLine, drop_torn
from tracekit.readers.printed.pasted import RankRows, closes
from tracekit.readers.torch._columns import RULE, Columns, columns_of, size_bytes, time_ns
from tracekit.readers.torch._kinds import CUT, device_kind, host_kind, is_kernel, looks_like_device_work
from tracekit.schema import Kind
from tracekit.trace import Ledger

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
class _Row:
    """A row. cells: as printed. named: by what they have. stack: the frames of the lines below it."""

    cells: list[str]
    named: dict[str, str]
    stack: list[str] = field(default_factory=list)


class Tables:
    """Makes rows of lines: those of a file or of one rank. layouts: facts for printing the tables again."""

    def __init__(self, rows: RankRows, ledger: Ledger, runs: Iterator[int], layouts: list[dict[str, object]]) -> None:
        self.rows = rows
        self.ledger = ledger
        self.runs = runs
        self.layouts = layouts
        self.layout: dict[str, object] = {}
        self.found = False
        self.run = -1
        self.columns: Columns | None = None
        self.table: list[_Row] = []
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

    def _begin(self, head: Columns, text: str) -> None:
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

    def _content(self, columns: Columns, line: TextLine, stripped: str) -> None:
        cells = None if line.torn else columns.cut(line.text)
        if cells is not None:
            self._row(columns, cells, line)
        elif not line.torn and (cells := columns.cut_damaged(line.text)) is not None:
            self._row(columns, cells, line, odd=columns.odd(cells))
        elif self.table and not line.torn and (more := columns.continued(line.text)):
            self._continue(*more)
        elif line.torn:
            drop_torn(line, self.ledger)
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

    def _row(self, columns: Columns, cells: list[str], line: TextLine, odd: Sequence[int] = ()) -> None:
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
        self.table.append(_Row(cells, named))
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

    def _emit(self, columns: Columns) -> None:
        hosts = {row.named["name"] for row in self.table if not _on_device(row, columns)}
        for row in self.table:
            _Emitted(self, columns, row, hosts).add()
        cut = Counter(name for row in self.table if (name := row.named["name"]).endswith(CUT))
        if alike := sum(count for count in cut.values() if count > 1):
            # A table has a row for each name: rows with one cut name are of several whole ones, or shapes.
            self.ledger.note("names-cut", _CUT_NAMES, alike)
        self.table = []

    def _total(self, found: re.Match[str], line: TextLine) -> None:
        self._end()
        self.totals_due = True
        ns = time_ns((found[2] or "").strip("*"))
        totals = self.layout.get("totals")
        if isinstance(totals, list) and len(totals) < 4:
            totals.append(f"{found[1]}: {(found[2] or '').strip('*')}")
        if ns is None or line.torn:
            self.ledger.ignore("totals that cannot be read")
            why = "a total below a table was not read: it has no unit of time, or the file ends within it"
            self.ledger.note("bad-total", why, where=line.where)
            return
        self.ledger.kept += 1
        on_host = found[1] == "Self CPU time total"
        shown = self.sums.get("self" if on_host else "device_self" if self.cut else "")
        is_cut = self.has_rows and shown is not None and shown < ns * (1 - _ROUNDING)
        self.cut |= on_host and is_cut and not self.top_level
        # Views take the total of a table that lacks rows instead of their sum.
        whole = {"whole_of": "host" if on_host else "device"} if is_cut and self.cut else None
        self.rows.add(self.run, "header", found[1], str(Kind.OTHER), whole, total_ns=ns)
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


def _on_device(row: _Row, columns: Columns) -> bool:
    """Return whether a row is of work on a device: it took no time on the host."""
    named = row.named
    times = [time_ns(named[role]) for role in ("self", "total") if role in named]
    work = [time_ns(named[role]) for role in ("device_self", "device_total") if role in named]
    if not any(work) or columns.old:
        return False
    return not any(times) if times else looks_like_device_work(named["name"])


class _Emitted:
    """Makes the rows of TOTALS of one row of a table. hosts: the names of its rows with time on the host."""

    def __init__(self, tables: Tables, columns: Columns, row: _Row, hosts: set[str]) -> None:
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

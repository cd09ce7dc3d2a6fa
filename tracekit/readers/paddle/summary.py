"""paddle-summary: the output of `paddle.profiler.Profiler.summary()` and of the benchmark timer (Paddle 2.2 to 3.x).

    -----------------------------------------------Model Summary-----------------------------------------------
    Name             Calls   CPU Total / Avg / Max / Min / Ratio(%)    GPU Total / Avg / Max / Min / Ratio(%)
    ProfileStep      4       1.25 / 0.31 / 0.35 / 0.28 / 100.00        0.00 / 0.00 / 0.00 / 0.00 / 0.00

A record is a line. A log may have several reports between the program's own lines: a title that cannot follow the
last one begins a new run. `section` is the title. Indented rows are parts of the row above them: they have section
`TITLE, parts` (`level` and `parent` in `args`). A line with times of the GPU that are not all 0.00 has a second row, of
section `TITLE, GPU` or `TITLE, GPU, parts`; if all times of the CPU are `-`, it has only that one.
`percent` in `args` is the ratio as printed; `time_unit` the unit that the times are printed in, with two decimals;
`thread` the block of the table.

Overview times are unions by type of event, all others sums. Its rows of device types and runtime calls are `other`, as
other tables list the same work by name. Device: value_avg in %. Memory: `bytes` is the increased size, counts and
sizes are in `args`, the peaks in section `header`. Perf Summary: avg_ns, min_ns, max_ns of the costs, value_* for
ips; Paddle's averages there divide by the wrong number (a note says so). tracekit's own Profiler adds columns there:
p50 (median_ns), std (std_ns), p95 and p99 (in `args`), and how many steps were measured (`calls` of a row of section
`header`). `step_info` lines: section `PrintedBenchmark`.
A `-`, and the `inf` that Paddle prints without a value, is null.

Cells are cut by the rules of dashes, since names hold single blanks; a name that is cut ends in `...`.
Not supported: the output of the Flops Profiler, which is skipped with a note.
Sources: summaries of 2.6.2 and 3.3.1 in all units and views, profiler_statistic.py (of 2.3 too), timer.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.model.units import MAX_NS, TIME_EXPONENT
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.engine.cells import RowError
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.head import Head
from tracekit.readers.paddle._nodes import KIND_OF_TYPE
from tracekit.readers.printed.lines import CUT_NUMBER, NUMBER, TextLine, first_lines, known_cell, printed
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.pasted import Plain, RankRows, closes, read_reports
from tracekit.readers.source import Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

# The output of paddle.profiler's benchmark timer: lines of step_info, and the Perf Summary between pipes.


PERF, STEPS = "Perf Summary", "Benchmark"
PERF_TITLE = re.compile(r"={3,}Perf Summary={3,}")
_COST = rf"(?:{NUMBER}|{CUT_NUMBER})"
STEP_LINE = re.compile(
    rf"(.*?)(?:reader_cost: ({_COST}) s )?(?:batch_cost: ({_COST}) s )?ips: ({_COST}) ([^\s/]{{1,40}}/s)\s*",
    re.ASCII,
)
ABSENT = frozenset(("", "-", "inf", "-inf", "nan"))
"""Cells that Paddle prints where it has no value."""
_READER_RATIO = re.compile(rf"Reader Ratio: ({NUMBER})%", re.ASCII)
_UNITS = re.compile(r"Time Unit: (\w+), IPS Unit: (\S{1,60})")
_SPREAD = ("p50", "p95", "p99", "std")
"""Columns that tracekit's own Profiler adds."""
_OVER = re.compile(
    r"(?:Over (\d{1,15}) steps; the first (\d{1,15}) are skipped\."
    r"|Warning: over (?:the only step|all (\d{1,15}) steps): none is skipped, because there are no more than "
    r"\d{1,15}\.)",
    re.ASCII,
)
_KINDS = {"reader_cost": Kind.DATALOADER, "batch_cost": Kind.STEP}


def number(cell: str) -> float | None:
    """Return a number, None for an absent one. Raises: RowError for another text."""
    cell = cell.strip()
    if cell in ABSENT:
        return None
    if not re.fullmatch(NUMBER, cell) or abs(Decimal(cell)) > MAX_NS:
        raise RowError
    return float(Decimal(cell))


class PrintedBenchmark:
    """Makes rows of the lines of the benchmark."""

    def __init__(self, rows: RankRows, ledger: Ledger) -> None:
        self._rows, self._ledger = rows, ledger
        self._step = 0
        self._unit, self._ips_unit = "s", ""
        self._spread: tuple[str, ...] = ()

    def begin(self) -> None:
        """Begin a series of lines, or a summary."""
        self._step = 0
        self._unit, self._ips_unit = "s", ""
        self._spread = ()

    def step(self, match: re.Match[str], line: TextLine, run: int) -> None:
        """Take a line of step_info: averages since the one before it, in seconds."""
        if line.torn and not match[0].endswith("/s"):
            drop_torn(self._ledger, line.where)
            return
        args: dict[str, object] = {"step_info": self._step}
        if match[1].strip():
            args["text"] = match[1].strip()[:200]
        self._step += 1
        cells = {"reader_cost": match[2], "batch_cost": match[3], "ips": match[4]}
        known = {key: known_cell(cell, key, self._ledger, line.where) for key, cell in cells.items()}
        rate = known.pop("ips")
        try:
            costs = [(key, printed(cell, "s").ns) for key, cell in known.items() if cell]
            ips = None if rate is None else number(rate)
        except (RowError, ValueError):
            self._ledger.drop("bad-time", where=line.where, text="dropped: times beyond 146 years")
            return
        for name, cost in costs:
            self._rows.add(run, STEPS, name, str(_KINDS[name]), args, avg_ns=float(cost))
        self._rows.add(run, STEPS, "ips", str(Kind.OTHER), args, value_avg=ips, unit=match[5])
        self._ledger.kept += 1

    def perf(self, line: TextLine, stripped: str, run: int) -> bool:
        """Take a line of the summary; False for another line, which ends the summary."""
        if ratio := _READER_RATIO.fullmatch(stripped):
            self._rows.add(run, PERF, "Reader Ratio", str(Kind.OTHER), unit="%", value_avg=float(Decimal(ratio[1])))
            self._ledger.kept += 1
            return True
        if units := _UNITS.fullmatch(stripped):
            self._unit = units[1] if units[1] in TIME_EXPONENT else "s"
            self._ips_unit = units[2]
            self._ledger.ignore("titles")
            return True
        if over := _OVER.fullmatch(stripped):
            skipped = {"skipped": int(over[2])} if over[2] else {}
            self._rows.add(
                run, "header", "steps measured", str(Kind.OTHER), skipped, calls=int(over[1] or over[3] or 1)
            )
            self._ledger.kept += 1
            return True
        cells = [cell.strip() for cell in stripped.split("|")]
        if cells[1:5] == ["", "avg", "max", "min"] and cells[5:-1] in ([], list(_SPREAD)) and not cells[0] + cells[-1]:
            self._spread = tuple(cells[5:-1])
            self._ledger.ignore("titles")
        elif len(cells) != 6 + len(self._spread) or cells[0] or cells[-1]:
            if not (line.torn and stripped.startswith("|")):
                return False
            drop_torn(self._ledger, line.where)
        else:
            self._row(line, run, *cells[1:5], spread=cells[5:-1])
        return True

    def _row(
        self, line: TextLine, run: int, name: str, mean: str, high: str, low: str, *, spread: Sequence[str]
    ) -> None:
        if not spread:
            self._ledger.note(
                "perf-averages",
                "Paddle's Perf Summary sums one batch more than it divides by, and its minimum may miss the least "
                "value: figures are as printed",
            )
        more = dict(zip(self._spread, spread, strict=True))
        printed_cells = {"avg": mean, "max": high, "min": low} | more
        absent = {key: cell for key, cell in printed_cells.items() if cell in ABSENT}
        try:
            if name == "ips":
                values = [number(cell) for cell in (mean, high, low)]
                shares = {key: figure for key, cell in more.items() if (figure := number(cell)) is not None}
                args = {**absent, **shares}
                self._rows.add(
                    run,
                    PERF,
                    name,
                    str(Kind.OTHER),
                    args,
                    unit=self._ips_unit or None,
                    value_avg=values[0],
                    value_max=values[1],
                    value_min=values[2],
                )
            else:
                times = [None if cell in ABSENT else printed(cell, self._unit) for cell in (mean, high, low)]
                average, longest, shortest = times
                spreads = {key: printed(cell, self._unit) for key, cell in more.items() if cell not in ABSENT}
                tails = {f"{key}_ns": spreads[key].rounded() for key in ("p95", "p99") if key in spreads}
                self._rows.add(
                    run,
                    PERF,
                    name,
                    str(_KINDS.get(name, Kind.OTHER)),
                    absent | tails | {"time_unit": self._unit},
                    avg_ns=None if average is None else float(average.ns),
                    max_ns=None if longest is None else longest.rounded(),
                    min_ns=None if shortest is None else shortest.rounded(),
                    median_ns=spreads["p50"].rounded() if "p50" in spreads else None,
                    std_ns=float(spreads["std"].ns) if "std" in spreads else None,
                )
        except (RowError, ValueError):
            self._ledger.drop(
                "bad-row", where=line.where, text="dropped: a line within a table that is not a row of it"
            )
            return
        self._ledger.kept += 1


# The tables of paddle.profiler's summary, line by line: titles, rules, rows, blocks of threads.


_TITLES = (
    "Device Summary",
    "Overview Summary",
    "Model Summary",
    "Distribution Summary",
    "Operator Summary",
    "Kernel Summary",
    "Memory Manipulation Summary",
    "UserDefined Summary",
    "Memory Summary",
)
_ORDER = {title: place for place, title in enumerate((*_TITLES, STEPS, PERF))}
_TITLE = re.compile(rf"-{{3,}}({'|'.join(_TITLES)})(?: - (.{{1,200}}?))?-{{3,}}")
MARK = re.compile(rf"(?:-(?<!--)-{{2,}}(?:{'|'.join(_TITLES)})\b.*-{{3,}}|=(?<!==)={{2,}}Perf Summary={{3,}})\s*$")
"""A title at the end of a line."""
_FLOPS = re.compile(r"-{3,} Flops Profiler (Begin|End) -{3,}")
_THREAD = re.compile(r"-++Thread: (.(?:.*[^-])?)-++")
_RULE = re.compile(r"-{2,}(?: {1,2}-{2,})*")
_UNIT = re.compile(r"Time unit: (\w+)")
_PEAK = re.compile(r"(Peak (?:Allocated|Reserved) Memory): (-?\d{1,18})", re.ASCII)
_VALUE = rf"(?:{NUMBER}|-|-?inf|nan)"
_CELL = rf"(?:{_VALUE}|{CUT_NUMBER})"
_FIVE = rf"{_VALUE} ?/ (?:{_CELL} ?/ ){{3}}{_CELL}"
"""A blank is missing in the first version's row of the total time: `- / - / - / -/ -`."""
_COMPOUND = re.compile(_FIVE, re.ASCII)
_FROM_RIGHT = re.compile(rf"( *)(\S.*?)(?<!\s)\s+(\d+|-)\s+({_FIVE})(?:\s+({_FIVE}))?(?:\s+({_CELL}))?\s*", re.ASCII)
_NUMBERS = re.compile(rf"{_VALUE}(?: ?/|$)", re.ASCII)
_NOT_HERE = frozenset((Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.RUNTIME))
_PHASES = {
    "ProfileStep": Kind.STEP,
    "Dataloader": Kind.DATALOADER,
    "Forward": Kind.FORWARD,
    "Backward": Kind.BACKWARD,
    "Optimization": Kind.OPTIMIZER,
    "Communication": Kind.COMMUNICATION,
}
_HEADS = ("Name", "Device", "Event Type")
_GAP = re.compile(" {2,}")
_COUNT = re.compile(r"-?\d{1,18}", re.ASCII)


def is_report_line(text: str) -> bool:
    """Return whether a line is one that only these reports have."""
    line = text.strip()
    if line.startswith(("---", "===")):
        return any(r.fullmatch(line) for r in (_TITLE, PERF_TITLE, _FLOPS))
    step = STEP_LINE.fullmatch(text) if "ips: " in text and "batch_cost: " in text else None
    return step is not None and step[3] is not None


class PaddleTables:
    """Makes rows of lines. found: the number of titles and benchmark lines."""

    def __init__(self, rows: RankRows, ledger: Ledger, runs: Iterator[int]) -> None:
        self.ledger = ledger
        self.rows = rows
        self.found = 0
        self._runs = runs
        self._run = -1
        self._title, self._place = "", ""
        self._unit = "ms"
        self._cells: list[tuple[int, int]] = []
        self._columns: list[str] = []
        self._thread = ""
        self._above: list[tuple[int, str]] = []
        self._state = ""
        self._parted = False
        self._benchmark = PrintedBenchmark(self.rows, ledger)
        self._places: set[str] = set()

    def line(self, line: TextLine) -> None:
        """Take a line, which the ledger has counted as read."""
        stripped = line.text.strip()
        ledger = self.ledger
        if not stripped:
            self._parted = self._parted or self._state == "rows"
            self._state = "" if self._state in ("rows", "perf") else self._state
            ledger.ignore("blank lines")
        elif match := _TITLE.fullmatch(stripped):
            self._begin(match[1], match[2] or "")
            ledger.ignore("titles")
        elif PERF_TITLE.fullmatch(stripped):
            self._begin(PERF, "")
            self._benchmark.begin()
            self._state = "perf"
            ledger.ignore("titles")
        elif flops := _FLOPS.fullmatch(stripped):
            self.found += 1
            self._state = "flops" if flops[1] == "Begin" else ""
            ledger.ignore("titles")
        elif self._state == "flops":
            ledger.ignore("flops profiler")
            ledger.note("flops-profiler", "the output of the Flops Profiler was skipped", where=line.where)
        elif "ips: " in stripped and (step := STEP_LINE.fullmatch(line.text)) and (step[2] or step[3]):
            self._steps(step, line)
        else:
            self._inside(line, stripped)

    def close(self) -> bool:
        """Note that no line follows."""
        return self.found > 0

    def _begin(self, title: str, place: str) -> None:
        self.found += 1
        after = (_ORDER[title], place) if title != "Memory Summary" else (_ORDER[title], "")
        before = (_ORDER.get(self._title, 99), self._place if self._title != "Memory Summary" else "")
        again = title == self._title and (title != "Memory Summary" or place in self._places)
        if self._run < 0 or after[0] < before[0] or again:
            self._run = next(self._runs)
            self._places = set()
        self._places.add(place)
        self._title, self._place = title, place
        self._unit, self._thread = "ms", ""
        self._cells, self._columns, self._above = [], [], []
        self._state, self._parted = "title", False

    def _inside(self, line: TextLine, stripped: str) -> None:
        ledger = self.ledger
        if self._state == "perf":
            self._perf(line, stripped)
        elif self._state == "":
            if _RULE.fullmatch(stripped):
                self._parted = False
                ledger.ignore("rules")
            elif self._parted and self._is_like_row(stripped):
                ledger.ignore("rows behind a blank line")
                why = "rows after a blank line within a table were skipped: another output may have split the table"
                ledger.note("table-parted", why, where=line.where)
            else:
                ledger.ignore("other output")
        elif closes(stripped):
            # A document that quotes a table may lack its last rule.
            self._state = ""
            ledger.ignore("other output")
        elif stripped == "Note:" or self._state == "note":
            self._note(stripped)
        elif thread := _THREAD.fullmatch(stripped):
            self._thread = "" if thread[1] == "All threads merged" else thread[1]
            self._above = []
            self._state = "rows"
            ledger.ignore("titles")
        elif _RULE.fullmatch(stripped):
            self._rule(line.text)
        elif (unit := _UNIT.fullmatch(stripped)) and unit[1] in TIME_EXPONENT:
            self._unit = unit[1]
            ledger.ignore("titles")
        elif peak := _PEAK.fullmatch(stripped):
            self.rows.add(self._run, "header", peak[1], str(Kind.MEMORY), self._args(), bytes=int(peak[2]))
            ledger.kept += 1
        elif self._cells and not (self._state == "rows" and self._columns):
            self._columns = self._cut(line.text)
            self._state = "header"
            ledger.ignore("titles")
        elif self._state == "rows":
            self._table_row(line)
        else:
            ledger.ignore("other output")

    def _is_like_row(self, stripped: str) -> bool:
        cells = _GAP.split(stripped)
        return len(cells) == len(self._cells) > 1 and _NUMBERS.match(cells[1]) is not None

    def _note(self, stripped: str) -> None:
        """Take a line of a note below a table, which ends with a line of dashes."""
        ends = self._state == "note" and _RULE.fullmatch(stripped)
        self._state = "" if ends else "note"
        self.ledger.ignore("notes")

    def _rule(self, text: str) -> None:
        """Take a rule: before the heads, between heads and rows, or after the rows, where new heads may follow."""
        self.ledger.ignore("rules")
        if self._state == "header":
            self._state = "rows"
            return
        if self._state == "rows":
            self._state, self._columns = "title", []
        self._cells = [match.span() for match in re.finditer("-+", text)]
        self._above = []

    def _cut(self, text: str) -> list[str]:
        """Return the cells of a line; the first keeps its indent, less that of the rule.

        Gaps of two blanks separate the cells. If a name has such a gap, the line is cut at the columns of the rule. In
        the second heads of the overview the first cell is empty.
        """
        if not self._cells:
            raise RowError
        first = self._cells[0][0]
        cells = _GAP.split(text.strip())
        indent = len(text) - len(text.lstrip()) - first
        if len(cells) == len(self._cells) - 1 and indent > self._cells[0][1] - first:
            return ["", *cells]
        if len(cells) == len(self._cells):
            return [" " * max(indent, 0) + cells[0], *cells[1:]]
        ends = [start for start, _ in self._cells[1:]] + [len(text)]
        return [text[start:end].rstrip() for (start, _), end in zip(self._cells, ends, strict=True)]

    def _table_row(self, line: TextLine) -> None:
        if line.torn and not line.text.endswith("  "):
            # Every row ends in two blanks: without them its last figure may have lost digits.
            drop_torn(self.ledger, line.where)
            return
        try:
            cells = self._cut(line.text)
            name = cells[0].strip()
            if not name:
                raise RowError
            level = (len(cells[0]) - len(cells[0].lstrip())) // 2
            while self._above and self._above[-1][0] >= level:
                self._above.pop()
            args = self._args()
            if level:
                args |= {"level": level} | ({"parent": self._above[-1][1]} if self._above else {})
            self._row(line, name, level, cells, args)
        except (RowError, ValueError):
            self.ledger.drop("bad-row", where=line.where, text="dropped: a line within a table that is not a row of it")
            return
        if len(self._above) < 100:
            self._above.append((level, name))
        self.ledger.kept += 1

    def _args(self) -> dict[str, object]:
        args: dict[str, object] = {}
        if self._thread:
            args["thread"] = self._thread
        if self._place:
            args["place"] = self._place
        return args

    def _row(self, line: TextLine, name: str, level: int, cells: list[str], args: dict[str, object]) -> None:
        columns = [head.strip() for head in self._columns]
        parts = ", parts" if level else ""
        section = f"{self._title}{parts}"
        if len(cells) < 2:
            raise RowError
        if self._title == "Device Summary":
            device = re.fullmatch(r"[A-Za-z]+(\d{1,9})", name)
            self.rows.add(
                self._run,
                section,
                name,
                str(Kind.OTHER),
                args,
                unit="%",
                value_avg=number(cells[1]),
                device=int(device[1]) if device else None,
                value_text=cells[1] if cells[1] in ABSENT else None,
            )
        elif self._title == "Memory Summary":
            if len(cells) != 7:
                raise RowError
            kind, allocations, frees, allocated, freed, increased = (cell.strip() for cell in cells[1:])
            args |= {
                "type": kind,
                "frees": self._count(frees, line),
                "allocated_bytes": self._count(allocated, line),
                "freed_bytes": self._count(freed, line),
            }
            calls, size = self._count(allocations, line), _whole(increased)
            self.rows.add(self._run, section, name, str(Kind.MEMORY), args, calls=calls, bytes=size)
        elif any(" / " in head for head in columns):
            self._compound(line, name, level, cells, columns, args)
        else:
            self._simple(line, name, level, cells, columns, args)

    def _simple(
        self, line: TextLine, name: str, level: int, cells: list[str], columns: list[str], args: dict[str, object]
    ) -> None:
        """Add a row of Overview (calls, time of CPU or GPU, ratio) or Distribution (time, ratio)."""
        place = next((n for n, head in enumerate(columns[:-1]) if head.endswith("Time")), None)
        if place is None:
            raise RowError
        calls = next((n for n, head in enumerate(columns) if head == "Calls"), None)
        gpu = ", GPU" if columns[place].startswith("GPU") else ""
        percent = known_cell(cells[place + 1].strip(), columns[place + 1], self.ledger, line.where)
        args |= {} if percent is None else {"percent": percent}
        args |= {"time_unit": self._unit}
        kind = KIND_OF_TYPE.get(name, _PHASES.get(name, Kind.OTHER))
        self.rows.add(
            self._run,
            f"{self._title}{gpu}{', parts' if level else ''}",
            name,
            str(Kind.OTHER if kind in _NOT_HERE or gpu else kind),
            args,
            total_ns=self._ns(cells[place]),
            calls=None if calls is None else self._count(cells[calls], line),
        )

    def _compound(
        self, line: TextLine, name: str, level: int, cells: list[str], columns: list[str], args: dict[str, object]
    ) -> None:
        """Add the rows of a line with cells of total, average, longest, shortest and ratio, for CPU, GPU or both."""
        cell_of: dict[str, str] = dict(
            zip((head.split(" ")[0] for head in columns), map(str.strip, cells), strict=True)
        )
        wide = [head for head in ("CPU", "GPU") if head in cell_of]
        if not wide or "Calls" not in cell_of:
            raise RowError
        if not all(_COMPOUND.fullmatch(cell_of[head]) for head in wide):
            other = _FROM_RIGHT.fullmatch(line.text)
            if other is None or (other[5] is not None) != (len(wide) == 2):
                raise RowError
            name = other[2]
            cell_of = {"Calls": other[3], wide[0]: other[4], "FLOPs": other[6] or "-"}
            if len(wide) == 2:
                cell_of[wide[1]] = other[5]
        if cell_of.get("FLOPs", "-") not in ABSENT:
            args["flops"] = cell_of["FLOPs"]
        calls = self._count(cell_of["Calls"], line)
        parts = ", parts" if level else ""
        for head in wide:
            total, mean, high, low, percent = map(str.strip, cell_of[head].split("/"))
            nothing = {"-"} if head == "CPU" else {"0.00", "-"}
            if len(wide) == 2 and {total, mean, high, low, percent} <= nothing:
                continue
            gpu = ", GPU" if head == "GPU" and "CPU" in cell_of else ""
            cells_of = {"Avg": mean, "Max": high, "Min": low, "Ratio": percent}
            known = {key: known_cell(cell, f"{head} {key}", self.ledger, line.where) for key, cell in cells_of.items()}
            mean, high, low = (known[key] or "" for key in ("Avg", "Max", "Min"))
            share = {} if known["Ratio"] is None else {"percent": percent}
            average = None if mean in ABSENT else float(printed(mean, self._unit).ns)
            self.rows.add(
                self._run,
                f"{self._title}{gpu}{parts}",
                name,
                str(self._kind(name, level, gpu)),
                args | share | {"time_unit": self._unit},
                calls=calls,
                total_ns=self._ns(total),
                avg_ns=average,
                max_ns=self._ns(high),
                min_ns=self._ns(low),
            )

    def _kind(self, name: str, level: int, gpu: str) -> Kind:
        if self._title == "Kernel Summary":
            return Kind.KERNEL
        if self._title == "Model Summary":
            return _PHASES.get(name, Kind.OTHER)
        if self._title == "Operator Summary":
            return Kind.OPERATOR_INNER if level else Kind.OPERATOR
        if self._title == "Memory Manipulation Summary" and gpu:
            return Kind.MEMSET if "memset" in name.lower() else Kind.MEMCPY
        return Kind.USER_RANGE

    def _count(self, cell: str, line: TextLine) -> int | None:
        """Return a count that its row can do without, None for a dash or a cut one. Raises: RowError."""
        known = known_cell(cell.strip(), "a count", self.ledger, line.where)
        return None if known is None else _whole(known)

    def _ns(self, cell: str) -> int | None:
        cell = cell.strip()
        return None if cell in ABSENT else printed(cell, self._unit).rounded()

    def _steps(self, match: re.Match[str], line: TextLine) -> None:
        if self._title != STEPS:
            self._begin(STEPS, "")
            self._benchmark.begin()
        self.found += 1
        self._state = ""
        self._benchmark.step(match, line, self._run)

    def _perf(self, line: TextLine, stripped: str) -> None:
        if not self._benchmark.perf(line, stripped, self._run):
            self._state = ""
            self.ledger.ignore("other output")


def _whole(cell: str) -> int | None:
    """Return a count, None for a dash. Raises: RowError for another text."""
    cell = cell.strip()
    if cell == "-":
        return None
    if not _COUNT.fullmatch(cell):
        raise RowError
    return int(cell)


# Lines of a Paddle summary: the recognition, and the batches.


_ROWS = (
    rf"\S[ \t]{{2,}}{LOCAL_NUMBER}(?:[ \t]|$)",
    rf"(?:batch_cost|reader_cost|ips|Ratio|Memory): {LOCAL_NUMBER}",
    r"^\|.*\|",
)
_CELLS = NumberCells(re.compile("|".join(_ROWS)), padded=True)


def sniff(head: Head) -> Confidence:
    """Return YES for a title of a summary or of the benchmark, or for a line of the benchmark."""
    if head.tables or not head.text:
        return Confidence.NO
    plain = Plain(MARK)
    for text in first_lines(head.data):
        if is_report_line(plain.of(text[:4096])[1]):
            return Confidence.YES
    return Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError, at the end, when no table was found."""
    run = Run(sources=[SourceFacts(source.name, "paddle-summary", facts={"tool": "paddle.profiler"})])

    def begin(rows: RankRows, runs: Iterator[int]) -> PaddleTables:
        return PaddleTables(rows, ledger, runs)

    source = as_printed(source, options, _CELLS)
    batches = read_reports(source, options, ledger, MARK, "summary of paddle.profiler", begin)
    return ReadResult(run, batches, True, (ledger,))

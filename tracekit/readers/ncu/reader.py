"""ncu: output of Nsight Compute, `ncu` and `ncu --import run.ncu-rep`, with --csv and without (2019 to 2026).

    "ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",...
    "0","4242","train","127.0.0.1","gemm(float *)","1","7","(32, 32, 1)","(64, 64, 1)","0","8.0","Command line ...
    "0","4242","train","127.0.0.1","gemm(float *)","1","7","(32, 32, 1)","(64, 64, 1)","0","8.0","GPU Speed Of ...

A record is a line. Three tables of --csv are read: a line for each metric of a launch (details, --metrics), a line for
each launch with a column for each metric (--page raw; the second line has the units), and a line for each metric of a
kernel (--print-summary). Text is read by sections, or without them (--page raw), and so are its summaries, of 2021 too.
Metric rows may end behind their value (2025). `run` counts the tables of --csv.

ncu replays each kernel in several passes, one kernel at a time: durations are of launches alone, and there is no start,
so all is TOTALS. `section` "launches" has a row for each launch, with its duration in `total_ns` where the file has it,
and in `args` id, grid, block, context, stream, process and compute capability. "metrics" has a row for each metric of
each launch, `args` its name, section and `id`. With --print-summary a row is of all launches, and their total is the
mean times their number.

Units are scaled by ncu, launch by launch, so values come in one unit: times in ns, sizes in B (Kbyte is 1000 bytes),
rates by s, clocks in Hz. `args` has a value as `printed` where that changed it, or where a double would round it. What
is not a number is `value_text`. The attributes of a device (`device__attribute_...`) are facts of the run.

Digits may be grouped as the locale does: the whole file shows which sign is the decimal one (counts are whole, grid
and block sizes are known). Where it does not, values are kept as text, with a note; `--option decimal=,` decides.

Not supported: the advice of rules, and tables of source lines. They are skipped and counted. `.ncu-rep` files are
closed: `ncu --import run.ncu-rep --csv --page raw` prints them.
Sources: files of 2023.3 to 2026, NVIDIA's documentation of the Nsight Compute CLI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.model import arrow
from tracekit.model.arrow import Rows, pc
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.head import Head
from tracekit.readers.ncu._launches import (
    ATTRIBUTE,
    DURATIONS,
    HEAD,
    IDENTITY,
    OF_METRIC,
    Launch,
    MetricCells,
    Metrics,
    NcuColumns,
    NcuLaunches,
    NcuMetric,
    add_rows,
    cells_of,
    columns_of,
    dimensions,
    integer,
    is_range,
    place_of,
    split,
    take_rows,
    without_escapes,
)
from tracekit.readers.printed.lines import TextLine, first_lines
from tracekit.readers.printed.numbers import DECIMAL, POINT
from tracekit.readers.printed.pasted import Plain, RankRows, read_reports
from tracekit.readers.source import Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["NcuLines", "read", "sniff"]

# The text that Nsight Compute prints: lines of kernels, sections, tables between rules.


_GRID = r"(?: \((?P<grid>\d{1,10}, \d{1,10}, \d{1,10})\)x\((?P<block>\d{1,10}, \d{1,10}, \d{1,10})\))?"
_DEVICE = r"(?:, Device (?P<device>\d{1,9}))"
_CC = r"(?:, CC (?P<cc>\d{1,3}\.\d))?"
_CALLS = r"(?:, Invocations (?P<calls>\d{1,9})|, (?P<times>\d{1,9}) invocations?)"
_AT = r"(?:, (?P<at>\d{4}-\w{3}-\d\d [\d:]{8}))?"
_STREAM = r", Context (?P<context>\d{1,9}), Stream (?P<stream>\d{1,18})"
_SIZES = r"(?:, Block Size (?P<threads>\d{1,18}), Grid Size (?P<blocks>\d{1,18}))?"
_WHERE = (
    (", Context ", re.compile(rf"{_GRID}{_AT}{_STREAM}{_DEVICE}?{_CC}{_CALLS}?\s*", re.ASCII)),
    (", Device ", re.compile(rf"{_GRID}{_SIZES}{_DEVICE}{_CC}{_CALLS}\s*", re.ASCII)),
)
"""A word in the line of a kernel, and the end of the line with it. A summary has neither context nor stream, since its
launches may have run in several."""
_PROCESS = re.compile(r"\[(\d{1,18})\] (\S[^@]{0,200})@(\S{1,200})")
_SECTION = re.compile(r"Section: (\S.*)")
_RULE = re.compile(r"-{3,}(?: {1,4}-{3,})+")
_GAP = re.compile(r"\s{2,}")
_HEADS = (
    ("Metric Name", "Metric Unit", "Metric Value"),
    ("Metric Name", "Metric Unit", "Minimum", "Maximum", "Average"),
)
_LONGEST_TAIL = 200
_MOST_DOUBTFUL = 3
_ADVICE = "advice of rules"


def kernel_of(text: str) -> tuple[str, re.Match[str]] | None:
    """Return the name in the line of a kernel, and where it ran; None for another line."""
    for word, pattern in _WHERE:
        if (at := text.rfind(word)) > 0:
            for found in pattern.finditer(text, max(0, at - _LONGEST_TAIL)):
                name = text[: found.start()].strip()
                if found.end() == len(text) and name:
                    return name, found
    return None


class NcuText:
    """Makes launches of lines of text."""

    def __init__(self, launches: NcuLaunches, ledger: Ledger, runs: Iterator[int]) -> None:
        self.launches, self.ledger, self.runs = launches, ledger, runs
        self.run = -1
        self.process: dict[str, object] = {}
        self.launch: Launch | None = None
        self.section = ""
        self.spans: tuple[tuple[int, int], ...] = ()
        self.rows = 0
        self.doubtful = 0
        self.parted = False

    def line(self, text: str, line: TextLine) -> None:
        """Take a line that is none of a table of --csv."""
        stripped = text.strip()
        if not stripped:
            self.ledger.ignore("blank lines")
            self.parted = self.rows > 0
        elif (kernel := kernel_of(text)) is not None and not line.torn:
            self._begin(*kernel)
        elif (process := _PROCESS.fullmatch(stripped)) is not None:
            self.process = {"pid": int(process[1]), "process": process[2], "host": process[3]}
            self.ledger.ignore("headings")
        elif self.launch is None:
            self.ledger.ignore("other output")
        elif (section := _SECTION.fullmatch(stripped)) is not None:
            self.section, self.spans, self.rows = section[1], (), 0
            self.ledger.ignore("headings")
        elif _RULE.fullmatch(stripped):
            self._rule(text)
        elif self.spans:
            self._content(self.launch, text, line)
        else:
            self.ledger.ignore(_ADVICE)

    def close(self) -> None:
        """Note that no line of text follows."""
        if self.launch is not None:
            self.launches.add(self.launch)
            self.launch, self.run = None, -1
        self.process = {}

    def _begin(self, name: str, matched: re.Match[str]) -> None:
        if self.launch is not None:
            self.launches.add(self.launch)
        elif self.run < 0:
            self.run = next(self.runs)
        named = {key: value for key, value in matched.groupdict().items() if value}
        args: dict[str, object] = {key: int(named[key]) for key in ("context", "stream") if key in named}
        args |= self.process | {key: dimensions(f"({named[key]})") for key in ("grid", "block") if key in named}
        for key, group in (("profiled_at", "at"), ("cc", "cc")):
            args |= {key: named[group]} if group in named else {}
        for key, group in (("grid_size", "blocks"), ("block_size", "threads")):
            args |= {key: int(named[group])} if group in named else {}
        device = int(named["device"]) if "device" in named else None
        self.launch = Launch(self.run, name, args, device, int(named.get("calls") or named.get("times") or 1))
        self.section, self.spans = "", ()
        self.ledger.kept += 1

    def _rule(self, text: str) -> None:
        """Take a rule: above or below the head of a table, or below its rows."""
        self.ledger.ignore("rules")
        spans = tuple(dashes.span() for dashes in re.finditer("-+", text))
        self.spans = () if self.rows or len(spans) not in (3, 5) else spans
        self.rows = self.doubtful = 0

    def _content(self, launch: Launch, text: str, line: TextLine) -> None:
        cells = None if line.torn else self._cells(text)
        if cells in _HEADS:
            self.ledger.ignore("headings")
        elif cells is not None:
            self.rows += 1
            self.parted = False
            if launch.add(NcuMetric(cells[0], cells[1], self.section, cells[2:])):
                self.ledger.kept += 1
            else:
                self.ledger.merged += 1
        elif self.parted:
            # A summary of 2021 has no rule below its last row.
            self.spans = ()
            self.ledger.ignore("other output")
        elif line.torn:
            drop_torn(self.ledger, line.where)
        else:
            self.ledger.drop("bad-row", where=line.where, text="dropped: a line within a table that is no row of it")
            self.doubtful += 1
            if self.doubtful > _MOST_DOUBTFUL:
                self.spans = ()

    def _cells(self, text: str) -> tuple[str, ...] | None:
        """Return the cells of a row; None for another line. A unit may be missing."""
        starts = [start for start, _ in self.spans[1:]]
        ends = [end for _, end in self.spans[:-1]]
        last = self.spans[-1][1]
        if len(text.rstrip()) <= last and not any(text[a:b].strip() for a, b in zip(ends, starts, strict=True)):
            cells = tuple(text[start:end].strip() for start, end in self.spans)
            if cells[0] and all(cells[2:]):
                return cells
        cells = tuple(_GAP.split(text.strip()))
        if len(cells) == len(self.spans) - 1:
            cells = (cells[0], "", *cells[1:])
        return cells if len(cells) == len(self.spans) else None


# The lines that Nsight Compute prints with --csv: heads, rows, messages. Other lines go to the reading of text.


MESSAGE = re.compile(r"==(PROF|WARNING|ERROR|LOG|DEBUG)== ?(.*)")
NO_PERMISSION = "ERR_NVGPUCTRPERM"
PERMIT = (
    "run ncu with sudo, or let all users read counters: load the driver's module nvidia with "
    "NVreg_RestrictProfilingToAdminUsers=0 (https://developer.nvidia.com/ERR_NVGPUCTRPERM)"
)
_PASSES = re.compile(r" - (\d{1,6}) pass(?:es)?$", re.ASCII)
_STARTS = re.compile(r'"?\d{1,18}"?[,;\t]', re.ASCII)
_MOST_PARTS = 100
_MOST_OPEN = 1000
_MOST_MESSAGES = 3
_FEWEST_LAUNCHES = 4
"""With fewer launches in a block its lines are read one by one."""
_MOST_DEVICES = 64
_UNIT_AND_SECTION = ("Metric Unit", "Section Name")


class NcuLines:
    """Makes launches of lines: those of a file or of one rank. facts: of the run. errors: what ncu says went wrong."""

    def __init__(
        self,
        rows: RankRows,
        ledger: Ledger,
        runs: Iterator[int],
        decimal: str,
        facts: dict[str, object],
        errors: list[str],
    ) -> None:
        self.ledger, self.runs, self.facts, self.errors = ledger, runs, facts, errors
        self.rows = rows
        self.launches = NcuLaunches(rows, ledger, decimal)
        self.text = NcuText(self.launches, ledger, runs)
        self.columns: NcuColumns | None = None
        self.run = -1
        self.units: list[str] = []
        self.short = 0
        self.open: dict[object, tuple[tuple[str, ...], Launch]] = {}
        self.parts: list[str] = []

    def line(self, line: TextLine) -> None:
        """Take a line, which the ledger has counted as read."""
        text = line.text.strip("\ufeff\r")
        if self.columns is not None and not self.parts and _STARTS.match(text) and not text.count('"') % 2:
            self._content(self.columns, text, line)
            return
        if self.parts and self._is_row(text):
            self._drop(len(self.parts), line, "a quotation mark is missing")
            self.parts = []
        if self.parts or (self.columns is not None and text.count('"') % 2 and _STARTS.match(text)):
            self._part(text, line)
        elif (message := MESSAGE.match(text.lstrip())) is not None:
            self._message(message[1], message[2].strip())
        elif (columns := columns_of(text)) is not None and not line.torn:
            self._begin(columns)
        elif self.columns is not None and text.strip():
            self._content(self.columns, text, line)
        else:
            self.text.line(text, line)

    def takes_blocks(self) -> bool:
        """Return whether the lines so far show enough for `block`: the head of a table, and the style of numbers."""
        columns, style = self.columns, self.launches.style
        if columns is None or self.parts or style is not POINT or columns.delimiter != ",":
            return False
        return bool(self.units) if columns.wide else len(columns.values) == 1

    def block(self, data: bytes) -> int:
        """Take whole lines at once, if all are rows of the table. Return how many they are; 0: take them one by one."""
        columns = self.columns
        if columns is None or not data or not self.takes_blocks():
            return 0
        data, odd = without_escapes(data)
        if not all(self._is_advice(columns, line) for line in odd):
            return 0
        if self.short:
            data = columns.filled_lines(data, self.short)
        cells = cells_of(data, len(columns.titles))
        if cells is None or not (self._wide_block if columns.wide else self._long_block)(columns, cells):
            return 0
        self.ledger.ignore(_ADVICE, len(odd))
        return cells.count + len(odd)

    def _is_advice(self, columns: NcuColumns, line: bytes) -> bool:
        """Return whether a line is a row without a metric."""
        cells = columns.filled(split(line.decode().strip("\r\n"), columns.delimiter))
        return not columns.wide and columns.is_row(cells) and not cells[columns.places["Metric Name"]].strip()

    def close(self) -> bool:
        """Note that no line follows. Return whether there was a launch."""
        if self.parts:
            drop_torn(self.ledger, count=len(self.parts))
        self._end()
        self.text.close()
        self.launches.settle()
        return self.launches.found > 0

    def _is_row(self, text: str) -> bool:
        columns = self.columns
        return columns is not None and columns.is_row(columns.filled(split(text, columns.delimiter)))

    def _drop(self, count: int, line: TextLine, why: str) -> None:
        self.ledger.drop("bad-row", count, where=line.where, text=f"dropped: a row that cannot be read ({why})")

    def _part(self, text: str, line: TextLine) -> None:
        """Take a part of a row whose text has line ends."""
        self.parts.append(text)
        whole = "\n".join(self.parts)
        if whole.count('"') % 2:
            if len(self.parts) >= _MOST_PARTS:
                self._drop(len(self.parts), line, "a quotation mark is missing")
                self.parts = []
            return
        merged, self.parts = len(self.parts) - 1, []
        self.ledger.merged += merged
        if self.columns is not None:
            self._content(self.columns, whole.replace("\n", " "), line)

    def _message(self, level: str, text: str) -> None:
        self.ledger.ignore("messages of ncu")
        if passes := _PASSES.search(text):
            most = self.facts.get("passes")
            self.facts["passes"] = max(int(passes[1]), most if isinstance(most, int) else 0)
        if NO_PERMISSION in text:
            why = f"ncu had no permission to read the counters of a GPU: kernels are missing; {PERMIT}"
            self.ledger.note("profiler-no-permission", why)
        is_failure = level == "ERROR" or text.startswith("No kernels were profiled")
        if is_failure and len(self.errors) < _MOST_MESSAGES:
            self.errors.append(text[:200])

    def _begin(self, columns: NcuColumns) -> None:
        self._end()
        self.text.close()
        self.columns, self.units, self.run, self.short = columns, [], next(self.runs), 0
        self.ledger.ignore("headings")

    def _end(self) -> None:
        """End the launches of a table."""
        for _, launch in self.open.values():
            self.launches.add(launch)
        self.open = {}

    def _content(self, columns: NcuColumns, text: str, line: TextLine) -> None:
        printed = split(text, columns.delimiter)
        cells = columns.filled(printed)
        if columns.wide and not self.units and columns.is_units(cells):
            self.units = cells
            self.ledger.ignore("units")
        elif columns.is_row(cells):
            if len(printed) < len(cells):
                self.short = len(printed) - (not printed[-1])
            if line.torn and not text.endswith(('"', '",')):
                why = "the last line has no line end: its last cell may be cut"
                self.ledger.note("no-line-end", why, where=line.where)
            if columns.wide:
                self._wide(columns, cells)
            else:
                self._long(columns, cells)
        elif line.torn and _STARTS.match(text):
            drop_torn(self.ledger, line.where)
        elif _STARTS.match(text) and len(cells) > 2:
            self._drop(1, line, f"{len(cells)} cells instead of {len(columns.titles)}")
        else:
            self.text.line(text, line)

    def _wide(self, columns: NcuColumns, cells: list[str]) -> None:
        """Read a row of a table with a column for each metric."""
        named = dict(zip(columns.titles, cells, strict=True))
        launch = self._launch(named)
        for place, metric in columns.metrics:
            cell = cells[place].strip()
            if metric.startswith(ATTRIBUTE):
                self._attribute(launch, metric.removeprefix(ATTRIBUTE), cell)
            elif cell:
                launch.add(NcuMetric(metric, self.units[place].strip() if self.units else "", "", (cell,)))
        self.launches.add(launch)
        self.ledger.kept += 1

    def _wide_block(self, columns: NcuColumns, cells: MetricCells) -> bool:
        """Read rows of a table with a column for each metric."""
        count = cells.count
        clean = cells.clean.reshape(count, cells.width)
        metrics = [(place, name) for place, name in columns.metrics if not name.startswith(ATTRIBUTE)]
        if not metrics or not clean[:, [place for place, _ in metrics]].all():
            return False
        identity = [title for title in columns.titles if title in IDENTITY or is_range(title)]
        texts = [arrow.texts(cells.column(columns.places[title])) for title in identity]
        launches = [self._launch(dict(zip(identity, row, strict=True))) for row in zip(*texts, strict=True)]
        self._attributes(columns, launches, cells)
        places = np.array([place for place, _ in metrics])
        row, metric = np.repeat(np.arange(count), len(metrics)), np.tile(np.arange(len(metrics)), count)
        every = arrow.take(cells.texts, row * cells.width + places[metric])
        names = [name for _, name in metrics]
        units: dict[str, int] = {}
        unit = np.array([units.setdefault(self.units[place].strip(), len(units)) for place in places.tolist()])
        section = np.zeros(len(row), np.int64)
        found = Metrics(row, metric, unit[metric], section, every, names, list(units), [""])
        found = take_rows(found, np.flatnonzero(arrow.ints(pc.binary_length(every))))
        self._add(launches, found)
        self.ledger.kept += count
        return True

    def _attributes(self, columns: NcuColumns, launches: Sequence[Launch], cells: MetricCells) -> None:
        """Keep the attributes of devices as facts: of each device the ones of its first launch, then the others."""
        wanted = [(place, name) for place, name in columns.metrics if name.startswith(ATTRIBUTE)]
        missing: dict[int | None, list[tuple[int, str]]] = {}
        for number, launch in enumerate(launches):
            if left := missing.get(launch.device, wanted):
                row = cells.row(number)
                for place, name in left:
                    self._attribute(launch, name.removeprefix(ATTRIBUTE), row[place].strip())
                missing[launch.device] = [(place, name) for place, name in left if not row[place].strip()]

    def _long_block(self, columns: NcuColumns, cells: MetricCells) -> bool:
        """Read rows of a table with a line for each metric."""
        clean = cells.clean.reshape(cells.count, cells.width)
        if not clean[:, columns.value_places[0]].all():
            return False
        name, names = _stripped(cells, columns, "Metric Name")
        rows = np.flatnonzero(np.array([bool(each) for each in names])[name])
        identity = [place for title, place in columns.places.items() if title not in OF_METRIC]
        processes = arrow.encoded(cells.column(columns.places["Process ID"]))
        if not len(rows) or len(processes.dictionary) != 1:
            return False
        process = arrow.texts(processes.dictionary)[0]
        if not self.open.keys() <= {process}:
            # Launches of several processes end in the order in which the processes began.
            return False
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = False
        for place in identity:
            codes = arrow.codes(cells.column(place))[rows]
            begins[1:] |= codes[1:] != codes[:-1]
        starts = np.flatnonzero(begins)
        if len(starts) < _FEWEST_LAUNCHES:
            return False
        self.ledger.ignore(_ADVICE, cells.count - len(rows))
        # The first launch may have begun in the block before, and the last one may go on in the next.
        inner = slice(int(starts[1]), int(starts[-1]))
        for row in rows[: inner.start].tolist():
            self._long(columns, cells.row(row))
        if (known := self.open.pop(process, None)) is not None:
            self.launches.add(known[1])
        self._launches_of(columns, cells, rows[inner], np.cumsum(begins[inner]) - 1, (name, names))
        for row in rows[inner.stop :].tolist():
            self._long(columns, cells.row(row))
        return True

    def _launches_of(
        self, columns: NcuColumns, cells: MetricCells, rows: Rows, launch: Rows, name: tuple[Rows, list[str]]
    ) -> None:
        """Add whole launches. launch: of each row, from 0."""
        unit, units = _stripped(cells, columns, "Metric Unit")
        section, sections = _stripped(cells, columns, "Section Name")
        values = arrow.take(cells.column(columns.value_places[0]), rows)
        text = arrow.codes(values).astype(np.int64)
        # A launch has each metric once, although two sections may show it.
        key = (launch * len(name[1]) + name[0][rows]) * len(units) + unit[rows]
        first = np.sort(np.unique(key * (int(text.max()) + 1) + text, return_index=True)[1])
        self.ledger.kept += len(first)
        self.ledger.merged += len(rows) - len(first)
        metrics = Metrics(launch, name[0][rows], unit[rows], section[rows], values, name[1], units, sections)
        metrics = take_rows(metrics, first)
        launches = []
        for row in rows[np.searchsorted(launch, np.arange(int(launch[-1]) + 1))].tolist():
            launches.append(self._launch(dict(zip(columns.titles, map(str.strip, cells.row(row)), strict=True))))
        self._add(launches, metrics)

    def _add(self, launches: Sequence[Launch], metrics: Metrics) -> None:
        """Add launches without their metrics, and these."""
        durations = np.flatnonzero(
            np.isin(metrics.name, [at for at, name in enumerate(metrics.names) if name in DURATIONS])
        )
        texts = arrow.texts(arrow.take(metrics.text, durations))
        for at, text in zip(durations.tolist(), texts, strict=True):
            name, unit = metrics.names[metrics.name[at]], metrics.units[metrics.unit[at]]
            launches[metrics.launch[at]].add(NcuMetric(name, unit, "", (text,)))
        add_rows(launches, metrics, self.rows, self.ledger)
        self.launches.found += len(launches)

    def _attribute(self, launch: Launch, name: str, cell: str) -> None:
        """Keep an attribute of a device as a fact."""
        devices = self.facts.setdefault("device_attributes", {})
        if isinstance(devices, dict) and cell:
            device = str(launch.device if launch.device is not None else 0)
            if device in devices or len(devices) < _MOST_DEVICES:
                devices.setdefault(device, {}).setdefault(name, cell)

    def _long(self, columns: NcuColumns, cells: list[str]) -> None:
        """Read a row of a table with a line for each metric."""
        places = columns.places
        name = cells[places["Metric Name"]].strip()
        if not name:
            self.ledger.ignore(_ADVICE)
            return
        same = columns.of_launch(cells)
        process = cells[places["Process ID"]]
        known = self.open.get(process)
        if known is None or known[0] != same:
            if known is not None:
                self.launches.add(known[1])
            elif len(self.open) >= _MOST_OPEN:
                self._end()
            named = dict(zip(columns.titles, map(str.strip, cells), strict=True))
            known = self.open[process] = same, self._launch(named)
        values = tuple([cells[place].strip() for place in columns.value_places])
        unit, section = (cells[places[title]].strip() if title in places else "" for title in _UNIT_AND_SECTION)
        if known[1].add(NcuMetric(name, unit, section, values)):
            self.ledger.kept += 1
        else:
            self.ledger.merged += 1

    def _launch(self, named: dict[str, str]) -> Launch:
        calls = integer(named.get("Invocations"), 1 << 40)
        device = integer(named.get("Device"))
        return Launch(self.run, named["Kernel Name"], place_of(named), device, 1 if calls is None else calls)


def _stripped(cells: MetricCells, columns: NcuColumns, title: str) -> tuple[Rows, list[str]]:
    """Return the code of each row's text in a column, and the texts without blanks around them."""
    if title not in columns.places:
        return np.zeros(cells.count, np.int64), [""]
    encoded = arrow.encoded(cells.column(columns.places[title]))
    texts: dict[str, int] = {}
    code_of_text = [texts.setdefault(text.strip(), len(texts)) for text in arrow.texts(encoded.dictionary)]
    return np.array(code_of_text, np.int64)[encoded.indices.to_numpy()], list(texts)


# Output of Nsight Compute: the recognition, and the batches.


_MARK = re.compile(rf"(?:{HEAD.pattern}|==(?:PROF|WARNING|ERROR)== ).*")

_WORDS = ("Process ID", "==")
_PROGRESS = re.compile(
    r"==PROF== (?:Connected to|Disconnected from|Profiling|Attempting|Report|Target|Waiting|Creating) ?"
)
"""Messages of ncu that text about ncu hardly has."""


def sniff(head: Head) -> Confidence:
    """Return YES for the head of a table, the line of a kernel, or a message of ncu."""
    if head.tables or not head.text:
        return Confidence.NO
    plain = Plain(_MARK, _WORDS)
    for line in first_lines(head.data):
        text = plain.of(line)[1]
        if _PROGRESS.match(text.lstrip()):
            return Confidence.YES
        if columns_of(text) is not None or kernel_of(text) is not None:
            return Confidence.YES
    return Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError, at the end, when no kernel was profiled."""
    facts: dict[str, object] = {"tool": "Nsight Compute"}
    run = Run(sources=[SourceFacts(source.name, "ncu", facts=facts)])
    return ReadResult(run, _batches(source, options, ledger, facts), True, (ledger,))


def _batches(
    source: Source, options: ReadOptions, ledger: Ledger, facts: dict[str, object]
) -> Iterator[pa.RecordBatch]:
    errors: list[str] = []

    def begin(rows: RankRows, runs: Iterator[int]) -> NcuLines:
        return NcuLines(rows, ledger, runs, options.value(DECIMAL), facts, errors)

    try:
        what = "kernel that Nsight Compute profiled"
        yield from read_reports(
            source, options, ledger, _MARK, what, begin, _WORDS, NcuLines.block, NcuLines.takes_blocks
        )
    except ParseError as err:
        if not errors:
            raise
        if any(NO_PERMISSION in error for error in errors):
            why = f"no kernel was profiled: ncu had no permission to read the GPU's counters ({NO_PERMISSION})"
            raise ParseError(source.name, "", why, hint=PERMIT) from err
        why = f"no kernel was profiled; ncu says: {' '.join(errors)}"
        raise ParseError(source.name, "", why) from err

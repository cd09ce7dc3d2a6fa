"""The lines that Nsight Compute prints with --csv: heads, rows, messages. Other lines go to the reading of text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from tracekit.columns import arrow
from tracekit.columns.arrays import Rows
from tracekit.columns.arrow import pc
from tracekit.readers.ncu._cells import Cells, cells_of, without_escapes
from tracekit.readers.ncu._columns import (
    ATTRIBUTE,
    IDENTITY,
    OF_METRIC,
    Columns,
    columns_of,
    integer,
    is_range,
    place_of,
    split,
)
from tracekit.readers.ncu._launches import Launch, Launches, Metric
from tracekit.readers.ncu._metrics import Metrics, add_rows, take_rows
from tracekit.readers.ncu._text import Text
from tracekit.readers.ncu._values import DURATIONS
from tracekit.readers.printed.lines import TextLine, drop_torn
from tracekit.readers.printed.numbers import POINT
from tracekit.readers.printed.pasted import RankRows
from tracekit.trace import Ledger

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
_ADVICE = "advice of rules"
_FEWEST_LAUNCHES = 4
"""With fewer launches in a block its lines are read one by one."""
_MOST_DEVICES = 64
_UNIT_AND_SECTION = ("Metric Unit", "Section Name")


class Lines:
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
        self.launches = Launches(rows, ledger, decimal)
        self.text = Text(self.launches, ledger, runs)
        self.columns: Columns | None = None
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

    def block(self, data: bytes) -> int:
        """Take whole lines at once, if all are rows of the table. Return how many they are; 0: take them one by one."""
        columns, style = self.columns, self.launches.style
        if columns is None or self.parts or style is not POINT or columns.delimiter != ",":
            return 0
        if not self.units if columns.wide else len(columns.values) != 1:
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

    def _is_advice(self, columns: Columns, line: bytes) -> bool:
        """Return whether a line is a row without a metric."""
        cells = columns.filled(split(line.decode().strip("\r\n"), columns.delimiter))
        return not columns.wide and columns.is_row(cells) and not cells[columns.places["Metric Name"]].strip()

    def close(self) -> bool:
        """Note that no line follows. Return whether there was a launch."""
        if self.parts:
            why = "dropped: the last line was cut"
            self.ledger.drop("torn-row", len(self.parts), text=why)
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
        if found := _PASSES.search(text):
            most = self.facts.get("passes")
            self.facts["passes"] = max(int(found[1]), most if isinstance(most, int) else 0)
        if NO_PERMISSION in text:
            why = f"ncu had no permission to read the counters of a GPU: kernels are missing; {PERMIT}"
            self.ledger.note("profiler-no-permission", why)
        is_failure = level == "ERROR" or text.startswith("No kernels were profiled")
        if is_failure and len(self.errors) < _MOST_MESSAGES:
            self.errors.append(text[:200])

    def _begin(self, columns: Columns) -> None:
        self._end()
        self.text.close()
        self.columns, self.units, self.run, self.short = columns, [], next(self.runs), 0
        self.ledger.ignore("headings")

    def _end(self) -> None:
        """End the launches of a table."""
        for _, launch in self.open.values():
            self.launches.add(launch)
        self.open = {}

    def _content(self, columns: Columns, text: str, line: TextLine) -> None:
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
            drop_torn(line, self.ledger)
        elif _STARTS.match(text) and len(cells) > 2:
            self._drop(1, line, f"{len(cells)} cells instead of {len(columns.titles)}")
        else:
            self.text.line(text, line)

    def _wide(self, columns: Columns, cells: list[str]) -> None:
        """Read a row of a table with a column for each metric."""
        named = dict(zip(columns.titles, cells, strict=True))
        launch = self._launch(named)
        for place, metric in columns.metrics:
            cell = cells[place].strip()
            if metric.startswith(ATTRIBUTE):
                self._attribute(launch, metric.removeprefix(ATTRIBUTE), cell)
            elif cell:
                launch.add(Metric(metric, self.units[place].strip() if self.units else "", "", (cell,)))
        self.launches.add(launch)
        self.ledger.kept += 1

    def _wide_block(self, columns: Columns, cells: Cells) -> bool:
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

    def _attributes(self, columns: Columns, launches: Sequence[Launch], cells: Cells) -> None:
        """Keep the attributes of devices as facts: of each device the ones of its first launch, then the others."""
        wanted = [(place, name) for place, name in columns.metrics if name.startswith(ATTRIBUTE)]
        missing: dict[int | None, list[tuple[int, str]]] = {}
        for number, launch in enumerate(launches):
            if left := missing.get(launch.device, wanted):
                row = cells.row(number)
                for place, name in left:
                    self._attribute(launch, name.removeprefix(ATTRIBUTE), row[place].strip())
                missing[launch.device] = [(place, name) for place, name in left if not row[place].strip()]

    def _long_block(self, columns: Columns, cells: Cells) -> bool:
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
        self, columns: Columns, cells: Cells, rows: Rows, launch: Rows, name: tuple[Rows, list[str]]
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
        found = Metrics(launch, name[0][rows], unit[rows], section[rows], values, name[1], units, sections)
        found = take_rows(found, first)
        launches = []
        for row in rows[np.searchsorted(launch, np.arange(int(launch[-1]) + 1))].tolist():
            launches.append(self._launch(dict(zip(columns.titles, map(str.strip, cells.row(row)), strict=True))))
        self._add(launches, found)

    def _add(self, launches: Sequence[Launch], metrics: Metrics) -> None:
        """Add launches without their metrics, and these."""
        durations = np.flatnonzero(
            np.isin(metrics.name, [at for at, name in enumerate(metrics.names) if name in DURATIONS])
        )
        texts = arrow.texts(arrow.take(metrics.text, durations))
        for at, text in zip(durations.tolist(), texts, strict=True):
            name, unit = metrics.names[metrics.name[at]], metrics.units[metrics.unit[at]]
            launches[metrics.launch[at]].add(Metric(name, unit, "", (text,)))
        add_rows(launches, metrics, self.rows, self.ledger)
        self.launches.found += len(launches)

    def _attribute(self, launch: Launch, name: str, cell: str) -> None:
        """Keep an attribute of a device as a fact."""
        devices = self.facts.setdefault("device_attributes", {})
        if isinstance(devices, dict) and cell:
            device = str(launch.device if launch.device is not None else 0)
            if device in devices or len(devices) < _MOST_DEVICES:
                devices.setdefault(device, {}).setdefault(name, cell)

    def _long(self, columns: Columns, cells: list[str]) -> None:
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
        if known[1].add(Metric(name, unit, section, values)):
            self.ledger.kept += 1
        else:
            self.ledger.merged += 1

    def _launch(self, named: dict[str, str]) -> Launch:
        calls = integer(named.get("Invocations"), 1 << 40)
        device = integer(named.get("Device"))
        return Launch(self.run, named["Kernel Name"], place_of(named), device, 1 if calls is None else calls)


def _stripped(cells: Cells, columns: Columns, title: str) -> tuple[Rows, list[str]]:
    """Return the code of each row's text in a column, and the texts without blanks around them."""
    if title not in columns.places:
        return np.zeros(cells.count, np.int64), [""]
    encoded = arrow.encoded(cells.column(columns.places[title]))
    texts: dict[str, int] = {}
    own = [texts.setdefault(text.strip(), len(texts)) for text in arrow.texts(encoded.dictionary)]
    return np.array(own, np.int64)[encoded.indices.to_numpy()], list(texts)

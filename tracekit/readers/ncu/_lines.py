"""The lines that Nsight Compute prints with --csv: heads, rows, messages. Other lines go to the reading of text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracekit.readers.ncu._columns import ATTRIBUTE, Columns, columns_of, integer, place_of, split
from tracekit.readers.ncu._launches import Launch, Launches, Metric
from tracekit.readers.ncu._text import Text
from tracekit.readers.printed.lines import TextLine
from tracekit.readers.printed.pasted import RankRows
from tracekit.trace import Ledger

MESSAGE = re.compile(r"==(PROF|WARNING|ERROR|LOG|DEBUG)== ?(.*)")
_PASSES = re.compile(r" - (\d{1,6}) pass(?:es)?$", re.ASCII)
_STARTS = re.compile(r'"?\d{1,18}"?[,;\t]', re.ASCII)
_MOST_PARTS = 100
_MOST_OPEN = 1000
_MOST_MESSAGES = 3
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
        self.launches = Launches(rows, ledger, decimal)
        self.text = Text(self.launches, ledger, runs)
        self.columns: Columns | None = None
        self.run = -1
        self.units: list[str] = []
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
        return self.columns is not None and self.columns.is_row(split(text, self.columns.delimiter))

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
        is_failure = level == "ERROR" or text.startswith("No kernels were profiled")
        if is_failure and len(self.errors) < _MOST_MESSAGES:
            self.errors.append(text[:200])

    def _begin(self, columns: Columns) -> None:
        self._end()
        self.text.close()
        self.columns, self.units, self.run = columns, [], next(self.runs)
        self.ledger.ignore("headings")

    def _end(self) -> None:
        """End the launches of a table."""
        for _, launch in self.open.values():
            self.launches.add(launch)
        self.open = {}

    def _content(self, columns: Columns, text: str, line: TextLine) -> None:
        cells = split(text, columns.delimiter)
        if columns.wide and not self.units and columns.is_units(cells):
            self.units = cells
            self.ledger.ignore("units")
        elif columns.is_row(cells):
            if line.torn and not text.endswith('"'):
                why = "the last line has no line end: its last cell may be cut"
                self.ledger.note("no-line-end", why, where=line.where)
            if columns.wide:
                self._wide(columns, cells)
            else:
                self._long(columns, cells)
        elif line.torn and _STARTS.match(text):
            self.ledger.drop("torn-row", where=line.where, text="dropped: the last line was cut")
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
            self.ledger.ignore("advice of rules")
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

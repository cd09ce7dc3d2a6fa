"""Report: all that was computed, as tables whose columns know their unit, and figures. Numbers stay numbers here.

Every object shows itself in one screen at most: as text (`repr`) and as HTML in a notebook.

>>> calls = Column("calls", "Calls", Unit.COUNT, [2, 1])
>>> table = ReportTable("kernel", "Kernels", (Column("name", "Name", Unit.TEXT, ["gemm", "relu"]), calls))
>>> table
table kernel, Kernels: 2 rows, 2 columns
  Name  Calls
  gemm      2
  relu      1
>>> int(table.to_pandas()["calls"].sum())
3
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, overload

import pyarrow as pa

from tracekit.arguments import checked
from tracekit.errors import NoSuchPlaceError, UnknownNameError
from tracekit.lazy_dataclass import dataclass
from tracekit.model import display
from tracekit.model.arrow import Rows
from tracekit.model.change import ChangeIntervals, ChangeVerdict, Waterfall
from tracekit.model.display import Value, encodable, escape_controls, html_facts, plural, shortened
from tracekit.model.frames import arrow_column, arrow_stream, pandas_column, to_polars
from tracekit.model.picture import Picture as Picture
from tracekit.model.timeline import CriticalPath as CriticalPath
from tracekit.model.timeline import Timeline
from tracekit.model.units import Unit, format_ratio, format_span
from tracekit.options import did_you_mean

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = [
    "LINES_SHOWN",
    "ROWS_SHOWN",
    "Bar",
    "Cell",
    "Column",
    "CriticalPath",
    "Curve",
    "DeviceTime",
    "Evidence",
    "Figure",
    "Finding",
    "FindingEvents",
    "Flame",
    "Headline",
    "Heat",
    "LeadFigure",
    "Opening",
    "Picture",
    "QuotedTable",
    "Report",
    "ReportTable",
    "Role",
    "Section",
    "Series",
    "StackedCurve",
    "StepTime",
    "TextForms",
    "TimePart",
    "TimePiece",
    "TopName",
    "TopNames",
    "first_rows",
    "integer_of",
    "one_screen",
    "show_with",
    "without_shares",
]

# Findings, and the headline: the figures of the first screen. `report` has them beside its tables.


@dataclass(frozen=True, slots=True)
class Evidence:
    """A cell of another view's table that a finding rests on. cell: "VIEW.ROW.COLUMN"."""

    cell: str
    value: Value
    unit: Unit


class FindingEvents(tuple[int, ...]):
    """Ids of the first events that a finding is about, with the rows of EVENTS of all of them (ascending).

    Compared, hashed and written as the ids alone. The rows are those of the trace that was checked.
    """

    rows: Rows | None

    def __new__(cls, ids: Iterable[int], rows: Rows | None = None) -> FindingEvents:
        """Return the ids, which remember the rows; None where these are not known, as in a copy of the ids."""
        made = super().__new__(cls, ids)
        made.rows = rows
        return made

    def __reduce__(self) -> tuple[type[FindingEvents], tuple[tuple[int, ...], Rows | None]]:
        return FindingEvents, (tuple(self), self.rows)


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, its evidence, and the most that a fix can save.

    claim: one sentence with numbers. events: ids of the first events that it is about, of all
    of them where it is `FindingEvents`. saving_ns: upper bound of the
    time that a fix saves; share: the same as a part of the window, 0..1; window_ns: the length of that window, 0 where
    a rule has one of its own. confidence: "high", "medium" or "low", for the reason `because`. advice: the fix. check:
    what to look at after the change. owner: the rank or input, "" for the only one. part_of: the rule of another
    finding of the same report that is the cause of this one, "" for none. ranks: all of several ranks that it is about,
    "ranks 4-7"; `owner` is the first of them.
    """

    rule: str
    owner: str
    claim: str
    evidence: tuple[Evidence, ...]
    events: tuple[int, ...]
    saving_ns: int
    share: float
    confidence: str
    because: str
    advice: str
    check: str
    part_of: str = ""
    window_ns: int = 0
    ranks: str = ""

    @property
    def who(self) -> str:
        """The rank, ranks or input that the title names, "" for the only one."""
        return self.ranks or self.owner

    def __repr__(self) -> str:
        title, *facts = self._facts()
        lines = [f"{title[0]}: {title[1]}", *(f"  {word:<13}{text}" for word, text in facts)]
        return "\n".join(shortened(line, 2 * display.SCREEN) for line in lines)

    def _repr_html_(self) -> str:
        title, *facts = self._facts()
        shown = f"<p><b>{display.escaped(title[0])}</b>: {display.escaped(title[1])}</p>{html_facts(facts)}"
        return f'<div class="{display.NO_FORMULAS}">{shown}</div>'

    def _of(self) -> str:
        return f" of {format_span(self.window_ns)}" if self.window_ns else ""

    def _facts(self) -> list[tuple[str, str]]:
        owner = f" ({self.who})" if self.who else ""
        facts = [
            (f"{self.rule}{owner}", self.claim),
            (
                "could save",
                f"up to {format_span(self.saving_ns)} ({format_ratio(self.share)} %{self._of()})"
                if self.saving_ns
                else "nothing by itself",
            ),
            ("confidence", f"{self.confidence}: {self.because}"),
            *([("part of", self.part_of)] if self.part_of else []),
            ("fix", self.advice),
            ("check", self.check),
        ]
        return [(escape_controls(word), escape_controls(text)) for word, text in facts]


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time of a step, over the steps of all owners after their warm-up.

    steps: how many; warm_up: how many more are left out. owners: ranks or inputs that have steps. p5_ns, median_ns,
    p95_ns: nearest rank. low_ns, high_ns: the least and the greatest median of an owner. host_ns: the median on the
    host where it runs ahead of the device, so that steps are those of the device; None where both are about the same.
    pitch_ns: the median time from one start to the next, None where it is about the time of a step. samples_per_s: the
    median of the steps' samples by their pitch, of the median owner; None where they are not counted. processes: the
    ids of the processes whose parts, one after the other, the owners are; empty where each owner is a process of its
    own.
    """

    steps: int
    warm_up: int
    owners: int
    p5_ns: int
    median_ns: int
    p95_ns: int
    low_ns: int
    high_ns: int
    host_ns: int | None = None
    pitch_ns: int | None = None
    samples_per_s: float | None = None
    processes: tuple[int, ...] = ()

    def share_of(self, finding: Finding) -> float:
        """Return the greatest part of a step, 0..1, that a finding could save.

        The window of a finding may begin before the first step: a saving of the steps is a larger part of them.
        """
        whole = self.median_ns * (self.steps + self.warm_up) / max(self.owners, 1)
        return max(finding.share, min(finding.saving_ns / whole, 1.0)) if whole else finding.share


@dataclass(frozen=True, slots=True)
class Opening:
    """The first words of a report. sentence: what is the matter, or that nothing is; meaning: what follows from it.

    rule: the name of the rule that made them: that of a finding, or of what the input has.
    """

    rule: str
    sentence: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class TimePiece:
    """A piece of a part of device time: a class of kernels, a collective, a copy, or idle time of one cause.

    name: "" for all smaller pieces together, which are `others` names of at most `most_ns` each. count: of the kernels,
    copies or gaps that take some of the window. view: that has a row of this name, "" for none.
    """

    name: str
    ns: int
    count: int
    view: str = ""
    others: int = 0
    most_ns: int = 0


@dataclass(frozen=True, slots=True)
class TimePart:
    """One part of the time of some devices: "compute", "exposed_comm", "exposed_copies" or "idle".

    ns: of all devices together. low, middle, high: the least, the median (nearest rank) and the greatest share of a
    device's own window, 0..1. pieces: add up to `ns`, the largest first; () where they are not known.
    """

    name: str
    ns: int
    low: float
    middle: float
    high: float
    pieces: tuple[TimePiece, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """The time of a group of devices in parts that add up to `window_ns`, a sum over the devices.

    label: of the device, or of what the devices have in common. window: "steps" or "run".
    """

    label: str
    devices: int
    window: str
    window_ns: int
    parts: tuple[TimePart, ...]


@dataclass(frozen=True, slots=True)
class TopName:
    """A name and its time. calls: None where they are not known. share: of the time of all names, or of `of`, 0..1.

    kernel_class: of a kernel, "" for another name.
    """

    name: str
    ns: int
    calls: int | None
    share: float | None
    kernel_class: str = ""


@dataclass(frozen=True, slots=True)
class TopNames:
    """The names that take most time in a table, largest first.

    view, column: the cells that are quoted. title: the noun of these names, such as "kernels". part: the run or section
    of the table that is quoted, "" for all of it. total_ns: of all `count` names. printed: the name of the total that
    the input itself prints below a table that lacks rows, which `total_ns` is then; "" for a sum. of: what `total_ns`
    and the shares are of where it is no sum of the names, such as "the run"; "" for the sum.
    """

    view: str
    column: str
    title: str
    part: str
    total_ns: int
    count: int
    names: tuple[TopName, ...]
    printed: str = ""
    of: str = ""

    def __repr__(self) -> str:
        lines = [f"  {name.ns:,} ns {name.name}" for name in self.names]
        return "\n".join(one_screen(map(escape_controls, [f"top of {self.view} ({self.count:,} names)", *lines])))


Cell = int | float | str | None

ROWS_SHOWN = 10
"""Rows of a table that it shows of itself."""
LINES_SHOWN = 20
"""Sections, facts or notes that an object shows of itself."""
SCREEN_ROWS = 30
"""Rows of a terminal that the text of an object takes."""


Role = Literal["", "name", "measure", "place", "remark", "event"]
"""Parts that the cells of a column play in a row: its name, what was measured, the place that it is from (a rank, a
device, a thread, an input), a remark, or the number of a single event."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    values: one cell for each row. Unit.NS, COUNT, BYTES: int; RATIO (0..1), BYTES_PER_S, NUMBER: float; TEXT, ID: str
    or int. None: not known, which is not zero.
    priority: where the width is short, columns of a higher number are hidden first (0: never), and a note says so.
    role: the part that its cells play in a row, see `Role`; "" for what the unit suggests: texts and ids name the row,
    numbers are measured.
    """

    name: str
    title: str
    unit: Unit
    values: Sequence[Cell]
    priority: int = 0
    role: Role = ""

    def __repr__(self) -> str:
        return f"column {self.name} ({self.unit}), {plural(len(self.values), 'row')}"

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.values)

    @overload
    def __getitem__(self, place: int) -> Cell: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Cell]: ...

    @checked()
    def __getitem__(self, place: int | slice) -> Cell | Sequence[Cell]:
        """Return the cell of a row, or those of a slice. Raises: NoSuchPlaceError."""
        return self.values[place] if isinstance(place, slice) else _at(self.values, place, f"column {self.name}", "row")


@dataclass(frozen=True, slots=True)
class LeadFigure:
    """The first figure of a trace that is about something else than time: "Memory peaked at", 3.58 GiB, "on GPU 0".

    unit: bytes or a count. before, after: the words around it.
    """

    before: str
    value: int
    unit: Unit
    after: str


@dataclass(frozen=True, slots=True)
class QuotedTable:
    """The first rows of a table that are no times, in the order of the view. count: of all its rows."""

    view: str
    table: str
    title: str
    columns: tuple[Column, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Headline:
    """The figures of the first screen. What is not known is None or empty, and a note has the reason.

    opening: the sentence that says what is the matter.
    step: None without steps. run_ns: first start to last end of the events. devices: a bar each. figure, quoted: the
    first figure of a trace that is about something else than time, and the first rows of its tables, such as memory
    that is held. top: the names that say most about this trace; below: the next most telling names, such as operators
    below phases. findings: the best ones, of `findings_count`. reservations: what limits every figure, such as records
    that could not be read.
    """

    opening: Opening | None = None
    step: StepTime | None = None
    run_ns: int | None = None
    run_note: str = ""
    devices: tuple[DeviceTime, ...] = ()
    devices_note: str = ""
    figure: LeadFigure | None = None
    quoted: tuple[QuotedTable, ...] = ()
    top: TopNames | None = None
    below: TopNames | None = None
    findings: tuple[Finding, ...] = ()
    findings_count: int = 0
    findings_note: str = ""
    reservations: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = list(self.reservations)
        if self.opening is not None:
            lines += [self.opening.sentence, self.opening.meaning]
        lines += [f"  device {device.label}" for device in self.devices]
        lines += [f"  top of {self.top.view}: {name.name}" for name in self.top.names] if self.top is not None else []
        lines += [f"  finding {finding.rule}: {finding.claim}" for finding in self.findings]
        return "\n".join(one_screen(map(escape_controls, ["headline", *filter(None, lines)])))


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Columns of equal length. `omitted` rows were cut by --top; ratios and sums of the table include them.

    ordered: an answer to the reader's own query: text has the columns in this order, with every digit; else it has the
    names in the last column, and four digits.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    omitted: int = 0
    ordered: bool = False

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def __bool__(self) -> bool:
        return True  # a table without rows is a table

    def __iter__(self) -> Iterator[dict[str, Cell]]:
        """Yield the rows, each as a dict of its cells by the names of their columns."""
        names = self.column_names()
        for row in zip(*(column.values for column in self.columns), strict=True):
            yield dict(zip(names, row, strict=True))

    def __contains__(self, name: object) -> bool:
        return name in self.column_names()

    @overload
    def __getitem__(self, key: str) -> Column: ...

    @overload
    def __getitem__(self, key: int) -> dict[str, Cell]: ...

    @overload
    def __getitem__(self, key: slice) -> ReportTable: ...

    @checked()
    def __getitem__(self, key: str | int | slice) -> Column | dict[str, Cell] | ReportTable:
        """Return the column of that name, one row as a dict, or a table of the rows of a slice.

        Raises: UnknownNameError, NoSuchPlaceError.
        """
        if isinstance(key, str):
            return self.column(key)
        if not isinstance(key, slice):
            place = _at(range(len(self)), key, f"table {self.name}", "row")
            return {column.name: column.values[place] for column in self.columns}
        columns = tuple(replace(column, values=column.values[key]) for column in self.columns)
        kept = len(columns[0].values) if columns else 0
        return replace(self, columns=columns, omitted=self.omitted + len(self) - kept)

    @checked()
    def column(self, name: str) -> Column:
        """Return the column of that name. Raises: UnknownNameError, which is a KeyError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise _unknown(name, "column", self.column_names())

    def column_names(self) -> list[str]:
        """Return the names of the columns, in their order."""
        return [column.name for column in self.columns]

    def rows(self) -> list[list[Cell]]:
        """Return the cells row by row."""
        return [list(row) for row in zip(*(c.values for c in self.columns), strict=True)]

    def __repr__(self) -> str:
        return "\n".join(_table_lines(self))

    def _repr_html_(self) -> str:
        return _table_html(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a DataFrame, a row a row: Int64, Float64 or string; `attrs["units"]` names each column's unit.

        Times are ns, shares 0..1, and <NA> is not known.
        """
        import pandas as pd

        frame = pd.DataFrame({c.name: pandas_column(c.values, c.unit) for c in self.columns})
        frame.attrs["units"] = {c.name: str(c.unit) for c in self.columns}
        return frame

    def to_arrow(self) -> pa.Table:
        """Return a table of Arrow: int64, double or string; the metadata of each field has its unit and title."""
        fields = []
        columns = []
        for column in self.columns:
            columns.append(arrow_column(column.values, column.unit))
            about = {"unit": str(column.unit), "title": column.title}
            fields.append(pa.field(column.name, columns[-1].type, metadata=about))
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def to_polars(self) -> polars.DataFrame:
        """Return a DataFrame of polars. Raises: MissingExtraError without polars."""
        return to_polars(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a stream of Arrow: polars, DuckDB and pyarrow read a table by this."""
        return arrow_stream(self.to_arrow(), requested_schema)


@dataclass(frozen=True, slots=True)
class Bar:
    """Parts that add up to a whole, the most important first: (label, value)."""

    title: str
    unit: Unit
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Series:
    """Values that follow each other, such as the time of each step.

    labels, values: one entry for each place, in order; None: not known. unit: NS, COUNT, BYTES, RATIO or NUMBER.
    levels: lines across (word, value), such as the median. marks: (place, word): a remark on that value.
    """

    title: str
    unit: Unit
    labels: Sequence[str]
    values: Sequence[int | float | None]
    levels: tuple[tuple[str, int | float], ...] = ()
    marks: tuple[tuple[int, str], ...] = ()

    def __repr__(self) -> str:
        return f"series {escape_controls(self.title)} ({self.unit}), {plural(len(self.values), 'value')}"


@dataclass(frozen=True, slots=True)
class Flame:
    """Call paths of two sides, or of one, as a flame graph draws them; one entry for each path.

    names: of the innermost range. parents: places of smaller numbers, -1 for the outermost. base, new: ns that belong
    to the path and to none below it. left_out: a sentence on paths that are not here, "" for none. unit: "" for two
    sides; of one side, whose `base` is empty, "ns" or what `new` counts. order, lengths: where the order in time is
    known, the path of each stretch of time in which it did not change, and what `new` counts in it.
    """

    title: str
    names: Sequence[str]
    parents: Sequence[int]
    base: Sequence[int]
    new: Sequence[int]
    left_out: str = ""
    unit: str = ""
    order: Sequence[int] = ()
    lengths: Sequence[int] = ()

    def __repr__(self) -> str:
        return f"flame graph {escape_controls(self.title)}, {plural(len(self.names), 'call path')}"


@dataclass(frozen=True, slots=True)
class Heat:
    """Values in rows and columns, each beside a level of its own, such as the time of a step on each rank.

    values, levels: one entry for each cell, row by row; None: the cell is empty. The shade of a cell is its value
    beside its level. remark: a sentence on what a cell holds, "" for none.
    """

    title: str
    unit: Unit
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[int | None]
    levels: Sequence[int | None]
    remark: str = ""

    def __repr__(self) -> str:
        size = f"{plural(len(self.rows), 'row')}, {plural(len(self.columns), 'column')}"
        return f"heat map {escape_controls(self.title)} ({self.unit}), {size}"


@dataclass(frozen=True, slots=True)
class Curve:
    """Totals over time, such as the memory that is held, by category.

    edges: of the columns, ns after time 0, one more than columns. layers: the categories. values: of each layer, the
    greatest total in each column; None: not known. remark: a sentence on the totals, "" for none.
    """

    title: str
    unit: Unit
    edges: Sequence[int]
    layers: Sequence[str]
    values: Sequence[Sequence[int | None]]
    remark: str = ""

    def __repr__(self) -> str:
        return f"curve {escape_controls(self.title)} ({self.unit}), {plural(len(self.layers), 'total')}"


@dataclass(frozen=True, slots=True, repr=False)
class StackedCurve(Curve):
    """Totals over time that add up to a whole: those of a column are of the moment at which the whole was greatest."""


Figure = (
    Timeline
    | Bar
    | Series
    | Flame
    | Heat
    | Curve
    | StackedCurve
    | CriticalPath
    | Picture
    | ChangeVerdict
    | ChangeIntervals
    | Waterfall
)


@dataclass(frozen=True, slots=True)
class Section:
    """The result of one view. A view without a result has no table, and a note with the reason."""

    view: str
    title: str
    tables: tuple[ReportTable, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        lines = [_title_of(self)]
        for table in self.tables:
            lines += _table_lines(table)
        lines += [
            f"finding {escape_controls(finding.rule)}: {escape_controls(finding.claim)}" for finding in self.findings
        ]
        lines += map(repr, self._figures())
        return "\n".join(one_screen([*lines, *(f"note: {escape_controls(note)}" for note in self.notes)]))

    def _repr_html_(self) -> str:
        parts = [f"<h4>{display.escaped(self.title)}</h4>", *map(_table_html, self.tables)]
        parts += [finding._repr_html_() for finding in self.findings]
        parts += [f"<p>{display.escaped(text)}</p>" for text in (*map(repr, self._figures()), *self.notes)]
        return f'<div class="{display.NO_FORMULAS}">{"".join(parts)}</div>'

    def _figures(self) -> Iterator[Figure]:
        """Yield the figures that have numbers which are not in the tables."""
        return (figure for figure in self.figures if not isinstance(figure, Picture))

    def __len__(self) -> int:
        return len(self.tables)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[ReportTable]:
        return iter(self.tables)

    def __contains__(self, table: object) -> bool:
        return any(each.name == table for each in self.tables)

    @checked()
    def __getitem__(self, table: str | int) -> ReportTable:
        """Return a table by its name or place. Raises: UnknownNameError (a KeyError), NoSuchPlaceError."""
        if not isinstance(table, str):
            return _at(self.tables, table, f"section {self.view}", "table")
        for candidate in self.tables:
            if table == candidate.name:
                return candidate
        raise _unknown(table, "table", [each.name for each in self.tables])

    def _chosen(self, table: str) -> ReportTable:
        """Return the table of that name, the first one for "", an empty one where there is none."""
        return self[table] if table else next(iter(self.tables), ReportTable("", self.title, ()))

    @checked()
    def to_pandas(self, table: str = "") -> pandas.DataFrame:
        """Return the table of that name, or the first one, as a DataFrame; an empty one when the view has no table.

        Types are those of `ReportTable.to_pandas`. Raises: UnknownNameError, which is a KeyError.
        """
        return self._chosen(table).to_pandas()

    @checked()
    def to_arrow(self, table: str = "") -> pa.Table:
        """Return the table of that name, or the first one, as a table of Arrow. Raises: UnknownNameError."""
        return self._chosen(table).to_arrow()

    @checked()
    def to_polars(self, table: str = "") -> polars.DataFrame:
        """Return the table of that name, or the first one, as a DataFrame of polars.

        Raises: UnknownNameError; MissingExtraError without polars.
        """
        return self._chosen(table).to_polars()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows of the first table as a stream of Arrow."""
        return self._chosen("").__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class Report:
    """Sections with the facts of the run and the ledgers of its sources (as `Ledger.to_json` gives them).

    incomplete: a sentence for each source that lost too many of its records; every form of the report begins with it.
    headline: the figures of the first screen, None where single views were asked for.

    >>> Report("run.csv", "1.0", sections=(Section("kernel", "Kernels", notes=("needs kernel events",)),))
    report run.csv: 1 section
      kernel, Kernels: no table
    """

    title: str
    version: str
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()
    ledgers: tuple[Mapping[str, object], ...] = ()
    notes: tuple[str, ...] = field(default=())
    incomplete: tuple[str, ...] = ()
    headline: Headline | None = None

    def __repr__(self) -> str:
        if self.headline is not None and _TEXT_FORMS:
            there = ", ".join(section.view for section in self.sections if section.tables)
            words = f'report["NAME"] has the tables of a view: {there}' if there else ""
            more = textwrap.wrap(words, display.SCREEN)[:2]
            return "\n".join([*self._first_screen(bars=False)[: SCREEN_ROWS - len(more)], *more])
        lines = [*self.incomplete, f"report {escape_controls(self.title)}: {plural(len(self.sections), 'section')}"]
        lines += [f"  {escape_controls(word)}: {escape_controls(text)}" for word, text in self.facts[:LINES_SHOWN]]
        lines += [f"  {_title_of(section)}" for section in self.sections]
        return "\n".join(one_screen(lines))

    def _first_screen(self, *, bars: bool) -> list[str]:
        """Return the lines of the first screen, without the words for the command line at its end."""
        return _TEXT_FORMS[0].first(replace(self, sections=()), display.SCREEN, bars).splitlines()

    def _repr_html_(self) -> str:
        """Return the first screen, and each section below it, folded; all text is escaped, and none is a formula."""
        if self.headline is not None and _TEXT_FORMS:
            screen = "\n".join(display.escaped(line) for line in self._first_screen(bars=True))
            parts = [f'<pre style="white-space:pre;line-height:1.2">{screen}</pre>']
        else:
            parts = [f"<p><b>{display.escaped(text)}</b></p>" for text in self.incomplete]
            parts += [f"<h3>{display.escaped(self.title)}</h3>", html_facts(self.facts[:LINES_SHOWN])]
        without = [section for section in self.sections if not (section.tables or section.figures or section.findings)]
        for section in self.sections:
            if section.tables or section.figures or section.findings:
                parts.append(_folded(_title_of(section), section._repr_html_()))
        if without:
            lacking = [(section.title, " ".join(section.notes) or "no table") for section in without]
            parts.append(_folded(f"Not in this trace: {plural(len(without), 'section')}", html_facts(lacking)))
        return f'<div class="{display.NO_FORMULAS}">{"".join(parts)}</div>'

    def __len__(self) -> int:
        return len(self.sections)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Section]:
        return iter(self.sections)

    def __contains__(self, view: object) -> bool:
        return any(view in (section.view, section.title) for section in self.sections)

    @checked()
    def __getitem__(self, view: str | int) -> Section:
        """Return the section of a view, by its name, title or place: `report["kernel"]`.

        Raises: UnknownNameError (a KeyError), NoSuchPlaceError.
        """
        return self.section(view) if isinstance(view, str) else _at(self.sections, view, "report", "section")

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the views, in the order of their sections."""
        return tuple(dict.fromkeys(section.view for section in self.sections))

    @checked()
    def section(self, view: str) -> Section:
        """Return the section of a view, by its name or title. Raises: UnknownNameError, which is a KeyError."""
        for wanted in ([each.view for each in self.sections], [each.title for each in self.sections]):
            if view in wanted:
                return self.sections[wanted.index(view)]
        raise _unknown(view, "view", self.views)

    @checked()
    def to_pandas(self, view: str = "", table: str = "") -> pandas.DataFrame:
        """Return a table of a view as a DataFrame; without names the first table there is.

        Types are those of `ReportTable.to_pandas`. Raises: UnknownNameError, which is a KeyError.
        """
        return self._chosen(view, table).to_pandas(table)

    @checked()
    def to_arrow(self, view: str = "", table: str = "") -> pa.Table:
        """Return a table of a view as a table of Arrow; without names the first one. Raises: UnknownNameError."""
        return self._chosen(view, table).to_arrow(table)

    @checked()
    def to_polars(self, view: str = "", table: str = "") -> polars.DataFrame:
        """Return a table of a view as a DataFrame of polars; without names the first one.

        Raises: UnknownNameError; MissingExtraError without polars.
        """
        return self._chosen(view, table).to_polars(table)

    def _chosen(self, view: str, table: str) -> Section:
        if view:
            return self.section(view)
        sections = [s for s in self.sections if any(table in ("", each.name) for each in s.tables)]
        if not sections and table:
            raise _unknown(table, "table", [each.name for section in self.sections for each in section.tables])
        return sections[0] if sections else Section("", "")

    @checked()
    def show(self, width: int | None = None, *, unit: str = "") -> None:
        """Print the report as `tracekit summary --all` does.

        width: of the terminal by default, 0 for no limit. unit: "s", "ms", "us" or "ns" for all times, else the best
        one for each column. Raises: UsageError.
        """
        display.time_unit_of((), unit)
        columns = shutil.get_terminal_size().columns if width is None else width
        text = _TEXT_FORMS[0].whole(self, columns, unit) if _TEXT_FORMS else f"{self!r}\n"
        sys.stdout.write(encodable(text, getattr(sys.stdout, "encoding", None)))


class TextForms(NamedTuple):
    """Text of a report. whole(report, width, unit): all of it. first(report, width, bars): its first screen."""

    whole: Callable[[Report, int, str], str]
    first: Callable[[Report, int, bool], str]


_TEXT_FORMS: list[TextForms] = []


def show_with(forms: TextForms) -> None:
    """Set how a report shows itself as text: `tracekit.render`, which knows how, is above this."""
    _TEXT_FORMS[:] = [forms]


T = TypeVar("T")


def _at(values: Sequence[T], place: int, owner: str, noun: str) -> T:
    """Return the value at a place. Raises: NoSuchPlaceError."""
    if not -len(values) <= place < len(values):
        raise NoSuchPlaceError(f"{owner} has no {noun} {place}", hint=f"it has {plural(len(values), noun)}, from 0 on")
    return values[place]


def _unknown(name: str, noun: str, known: Iterable[str]) -> UnknownNameError:
    there = list(dict.fromkeys(known))
    near = did_you_mean(name, there)
    none = "" if there else f"; there is no {noun}"
    return UnknownNameError(f"{name}: no such {noun}{near}{none}", choices=there)


_PERCENT = re.compile(r"\d ?%")


def without_shares(section: Section) -> Section:
    """Return a section without anything that compares parts with a whole: that of a trace that lost records.

    Ratios become unknown; bars, series of ratios, busy shares, findings, and notes with percentages are left out.
    """
    tables = tuple(
        replace(
            table,
            columns=tuple(
                replace(column, values=[None] * len(column.values)) if column.unit is Unit.RATIO else column
                for column in table.columns
            ),
        )
        for table in section.tables
    )
    figures = tuple(
        replace(figure, utilization=()) if isinstance(figure, Timeline) else figure
        for figure in section.figures
        if not isinstance(figure, (Bar, Picture, ChangeIntervals, Waterfall))
        and not (isinstance(figure, Series) and figure.unit is Unit.RATIO)
    )
    notes = tuple(note for note in section.notes if not _PERCENT.search(note))
    return replace(section, tables=tables, figures=figures, notes=notes, findings=())


def first_rows(section: Section, most: int) -> Section:
    """Return a section with at most so many rows of each table, which counts the others as omitted."""
    tables = tuple(
        replace(
            table,
            columns=tuple(replace(column, values=column.values[:most]) for column in table.columns),
            omitted=table.omitted + max(len(table) - most, 0),
        )
        for table in section.tables
    )
    return replace(section, tables=tables)


def _title_of(section: Section) -> str:
    tables = [plural(len(table) + table.omitted, "row") for table in section.tables]
    shown = ", ".join(tables) if tables else "no table"
    found = f", {plural(len(section.findings), 'finding')}" if section.findings else ""
    return shortened(
        f"{escape_controls(section.view)}, {escape_controls(section.title)}: {shown}{found}", display.SCREEN
    )


def one_screen(lines: Iterable[str]) -> list[str]:
    """Return the first lines, as many as SCREEN_ROWS rows of a terminal hold, and a line that counts the others."""
    every = list(lines)
    kept: list[str] = []
    rows = 0
    for line in every:
        shown = shortened(line, 2 * display.SCREEN)
        rows += max(-(-len(shown) // display.SCREEN), 1)
        if rows >= SCREEN_ROWS and len(kept) + 1 < len(every):
            break
        kept.append(shown)
    rest = len(every) - len(kept)
    return [*kept, f"... {plural(rest, 'more line')}"] if rest else kept


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{display.escaped(title)}</summary>{body}</details>"


def _shown_columns(table: ReportTable) -> Iterator[display.TextColumn]:
    for column in table.columns:
        values = column.values[:ROWS_SHOWN]
        unit = display.time_unit_of(values) if column.unit is Unit.NS else ""
        title = display.titled(column.title, column.unit, unit)
        yield display.TextColumn(
            title, display.cell_texts(values, column.unit, unit), display.is_words(values, column.unit)
        )


def _size(table: ReportTable) -> str:
    return f"{plural(len(table) + table.omitted, 'row')}, {plural(len(table.columns), 'column')}"


def _table_lines(table: ReportTable) -> list[str]:
    lines = [
        f"table {escape_controls(table.name)}, {shortened(escape_controls(table.title), display.WORD)}: {_size(table)}"
    ]
    lines += [f"  {line}" for line in display.text_table(list(_shown_columns(table)))]
    if (rest := len(table) + table.omitted - min(len(table), ROWS_SHOWN)) > 0:
        lines.append(f"  ... {plural(rest, 'more row')}")
    return lines


def _table_html(table: ReportTable) -> str:
    shown = display.html_table(list(_shown_columns(table)))
    size = f"{display.escaped(table.title)}: {_size(table)}"
    return f'<div class="{display.NO_FORMULAS}">{shown}<p>{size}</p></div>'


def integer_of(cell: Cell) -> int:
    """Return the integer of a cell, 0 for anything else."""
    return cell if isinstance(cell, int) else 0

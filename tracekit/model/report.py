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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from tracekit.model import display
from tracekit.model.arrow import Rows
from tracekit.model.change import ChangeIntervals, ChangeVerdict, Waterfall
from tracekit.model.display import Value, encodable, escape_controls, html_facts, plural, shortened
from tracekit.model.picture import Picture as Picture
from tracekit.model.timeline import CriticalPath as CriticalPath
from tracekit.model.timeline import Timeline
from tracekit.model.units import Unit, format_ratio, format_span

if TYPE_CHECKING:
    import pandas

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
    "TextForm",
    "TimePart",
    "TimePiece",
    "TopName",
    "TopNames",
    "first_rows",
    "integer_of",
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
    finding of the same report that is the cause of this one, "" for none.
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

    def __repr__(self) -> str:
        title, *facts = self._facts()
        lines = [f"{title[0]}: {title[1]}", *(f"  {word:<13}{text}" for word, text in facts)]
        return "\n".join(shortened(line, 2 * display.SCREEN) for line in lines)

    def _repr_html_(self) -> str:
        title, *facts = self._facts()
        return f"<p><b>{display.escaped(title[0])}</b>: {display.escaped(title[1])}</p>{html_facts(facts)}"

    def _of(self) -> str:
        return f" of {format_span(self.window_ns)}" if self.window_ns else ""

    def _facts(self) -> list[tuple[str, str]]:
        owner = f" ({self.owner})" if self.owner else ""
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


Cell = int | float | str | None

ROWS_SHOWN = 10
"""Rows of a table that it shows of itself."""
LINES_SHOWN = 20
"""Sections, facts or notes that an object shows of itself."""


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


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Columns of equal length. `omitted` rows were cut by --top; ratios and sums of the table include them."""

    name: str
    title: str
    columns: tuple[Column, ...]
    omitted: int = 0

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def column(self, name: str) -> Column:
        """Return the column of that name. Raises: KeyError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

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
        """Return a DataFrame with nullable types; `attrs["units"]` names each column's unit."""
        import pandas as pd

        columns = {c.name: pd.Series(list(c.values), dtype=_PANDAS_TYPES[c.unit]) for c in self.columns}
        frame = pd.DataFrame(columns)
        frame.attrs["units"] = {c.name: str(c.unit) for c in self.columns}
        return frame


_PANDAS_TYPES = {
    Unit.NS: "Int64",
    Unit.COUNT: "Int64",
    Unit.BYTES: "Int64",
    Unit.RATIO: "Float64",
    Unit.BYTES_PER_S: "Float64",
    Unit.NUMBER: "Float64",
    Unit.TEXT: "string",
    Unit.ID: "object",
}


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
        return "\n".join(_one_screen([*lines, *(f"note: {escape_controls(note)}" for note in self.notes)]))

    def _repr_html_(self) -> str:
        parts = [f"<h4>{display.escaped(self.title)}</h4>", *map(_table_html, self.tables)]
        parts += [finding._repr_html_() for finding in self.findings]
        parts += [f"<p>{display.escaped(text)}</p>" for text in (*map(repr, self._figures()), *self.notes)]
        return "".join(parts)

    def _figures(self) -> Iterator[Figure]:
        """Yield the figures that have numbers which are not in the tables."""
        return (figure for figure in self.figures if not isinstance(figure, Picture))

    def to_pandas(self, table: str = "") -> pandas.DataFrame:
        """Return the table of that name, or the first one, as a DataFrame; an empty one when the view has no table.

        Raises: KeyError.
        """
        import pandas as pd

        for candidate in self.tables:
            if table in ("", candidate.name):
                return candidate.to_pandas()
        if table:
            raise KeyError(f"{table}: no such table; there is {', '.join(t.name for t in self.tables) or 'none'}")
        return pd.DataFrame()


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
        lines = [*self.incomplete, f"report {escape_controls(self.title)}: {plural(len(self.sections), 'section')}"]
        lines += [f"  {escape_controls(word)}: {escape_controls(text)}" for word, text in self.facts[:LINES_SHOWN]]
        lines += [f"  {_title_of(section)}" for section in self.sections]
        return "\n".join(_one_screen(lines))

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{display.escaped(text)}</b></p>" for text in self.incomplete]
        parts += [f"<h3>{display.escaped(self.title)}</h3>", html_facts(self.facts[:LINES_SHOWN])]
        for section in self.sections:
            summary = f"<summary>{display.escaped(_title_of(section))}</summary>"
            parts.append(f"<details>{summary}{section._repr_html_()}</details>")
        return "".join(parts)

    def section(self, view: str) -> Section:
        """Return the section of a view. Raises: KeyError."""
        for section in self.sections:
            if section.view == view:
                return section
        raise KeyError(f"{view}: no such view; there is {', '.join(s.view for s in self.sections) or 'none'}")

    def to_pandas(self, view: str = "", table: str = "") -> pandas.DataFrame:
        """Return a table of a view as a DataFrame; without names the first table there is.

        Raises: KeyError.
        """
        if view:
            return self.section(view).to_pandas(table)
        sections = [s for s in self.sections if any(table in ("", each.name) for each in s.tables)]
        return (sections[0] if sections else Section("", "")).to_pandas(table)

    def show(self, width: int | None = None) -> None:
        """Print the report as `tracekit summary --all` does. width: of the terminal by default, 0 for no limit."""
        columns = shutil.get_terminal_size().columns if width is None else width
        text = _TEXT_FORMS[0](self, columns) if _TEXT_FORMS else f"{self!r}\n"
        sys.stdout.write(encodable(text, getattr(sys.stdout, "encoding", None)))


TextForm = Callable[[Report, int], str]
_TEXT_FORMS: list[TextForm] = []


def show_with(form: TextForm) -> None:
    """Set how `Report.show` makes text of a report and a width: `tracekit.render`, which knows how, is above this."""
    _TEXT_FORMS[:] = [form]


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


def _one_screen(lines: Sequence[str]) -> list[str]:
    """Return lines cut to the width of a screen and to 2 * LINES_SHOWN of them."""
    rest = len(lines) - 2 * LINES_SHOWN
    kept = [shortened(line, 2 * display.SCREEN) for line in lines[: 2 * LINES_SHOWN]]
    return [*kept, f"... {plural(rest, 'more line')}"] if rest > 0 else kept


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
    if (rest := len(table) + table.omitted - ROWS_SHOWN) > 0:
        lines.append(f"  ... {plural(rest, 'more row')}")
    return lines


def _table_html(table: ReportTable) -> str:
    shown = display.html_table(list(_shown_columns(table)))
    return f"<div>{shown}<p>{display.escaped(table.title)}: {_size(table)}</p></div>"


def integer_of(cell: Cell) -> int:
    """Return the integer of a cell, 0 for anything else."""
    return cell if isinstance(cell, int) else 0

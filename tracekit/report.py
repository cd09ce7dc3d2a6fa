"""Report: all that was computed, as tables whose columns know their unit, and figures. Numbers stay numbers here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracekit.units import Unit

if TYPE_CHECKING:
    import pandas

Cell = int | float | str | None


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    values: a cell a row. Unit.NS, COUNT, BYTES: int; RATIO (0..1), BYTES_PER_S, NUMBER: float; TEXT, ID: str or int;
    null is None: nothing to say, not zero.
    priority: where the width is short, columns of a higher number are hidden first (0: never), and the reader is told.
    """

    name: str
    title: str
    unit: Unit
    values: Sequence[Cell]
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Columns of equal length. `omitted` rows were cut by --top; the totals of the table count them still."""

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

    def rows(self) -> list[list[Cell]]:
        """Return the cells row by row."""
        return [list(row) for row in zip(*(c.values for c in self.columns), strict=True)]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a DataFrame with nullable types; `attrs["units"]` names each column's unit."""
        import pandas as pd

        kinds = {
            Unit.NS: "Int64", Unit.COUNT: "Int64", Unit.BYTES: "Int64", Unit.RATIO: "Float64",
            Unit.BYTES_PER_S: "Float64", Unit.NUMBER: "Float64", Unit.TEXT: "string", Unit.ID: "object",
        }  # fmt: skip
        frame = pd.DataFrame({c.name: pd.Series(list(c.values), dtype=kinds[c.unit]) for c in self.columns})
        frame.attrs["units"] = {c.name: str(c.unit) for c in self.columns}
        return frame


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of a timeline: `depth` is how many levels of nesting it shows."""

    label: str
    group: str
    depth: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rectangles on lanes, at most 50,000, and the busy share of each device below.

    lane, level, start_ns, dur_ns, kind, name: one entry a rectangle; `lane` counts into `lanes`, `level` is the depth
    within it, `name` counts into `names`, `kind` into `kinds`; starts are relative to `begin_ns`.
    shown of total: `thinning` says in words what was left out, "" when nothing was.
    utilization: (label of the device, busy share 0..1 for each of the equal bins of the span).
    """

    lanes: tuple[Lane, ...]
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    lane: Sequence[int]
    level: Sequence[int]
    start_ns: Sequence[int]
    dur_ns: Sequence[int]
    kind: Sequence[int]
    name: Sequence[int]
    begin_ns: int
    end_ns: int
    total: int
    thinning: str = ""
    utilization: tuple[tuple[str, Sequence[float]], ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """Parts that add up to a whole, largest meaning first: (label, value)."""

    title: str
    unit: Unit
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Series:
    """Values that follow each other: the time of each step, say.

    labels, values: one entry a place, in order; a value that is None is not known. unit: NS, COUNT, BYTES, RATIO or
    NUMBER. levels: lines across (word, value), the median, say. marks: (place, word): what is said about a value.
    """

    title: str
    unit: Unit
    labels: Sequence[str]
    values: Sequence[int | float | None]
    levels: tuple[tuple[str, int | float], ...] = ()
    marks: tuple[tuple[int, str], ...] = ()


Figure = Timeline | Bar | Series


@dataclass(frozen=True, slots=True)
class Evidence:
    """A cell of another view's table that a finding rests on. cell: "VIEW.ROW.COLUMN"."""

    cell: str
    value: Cell
    unit: Unit


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, and what mending it can bring at most.

    claim: one sentence with numbers. events: ids of the first events that it is about. ceiling_ns: the most that the
    window (of `share`, 0..1) would be shorter. confidence: "high", "medium" or "low", for the reason `because`.
    advice: what to do. check: what to look at after the change. owner: the rank or input, "" where there is one alone.
    """

    rule: str
    owner: str
    claim: str
    evidence: tuple[Evidence, ...]
    events: tuple[int, ...]
    ceiling_ns: int
    share: float
    confidence: str
    because: str
    advice: str
    check: str


@dataclass(frozen=True, slots=True)
class Section:
    """What one view has to say. Nothing to show is a section without tables, with a note that says why."""

    view: str
    title: str
    tables: tuple[ReportTable, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    def to_pandas(self, table: str = "") -> pandas.DataFrame:
        """Return the table of that name, or the first one, as a DataFrame; an empty one when the view has no table.

        Raises: KeyError.
        """
        import pandas as pd

        for candidate in self.tables:
            if table in ("", candidate.name):
                return candidate.to_pandas()
        if table:
            raise KeyError(table)
        return pd.DataFrame()


@dataclass(frozen=True, slots=True)
class Report:
    """Sections with the facts of the run and the ledgers of its sources (as `Ledger.to_json` gives them)."""

    title: str
    version: str
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()
    ledgers: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = field(default=())

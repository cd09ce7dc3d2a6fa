"""Declarations: what a printed table is. A format is a `TextSpec`; the engine knows no format's name.

Hooks are functions of distinct values (a text and its unit; a name and whether some columns are filled), so they are
called once for each distinct value and work in both ways of the engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache

from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Column, Mask
from tracekit.model.schema import Kind
from tracekit.model.trace import Run
from tracekit.readers.engine.cells import NAME, PRINTED_TEXT, WITH_UNIT, Cell, Spread

__all__ = [
    "DeclaredColumn",
    "Heading",
    "Learn",
    "Named",
    "Need",
    "NumberedNames",
    "PlacedColumn",
    "SkipRows",
    "SumRow",
    "Sums",
    "TableHeader",
    "TableSpec",
    "TextSpec",
]

UNIT = re.compile(r"^((?:.*\S)?)\s*\(([A-Za-z/%µ]+)\)$")
"""`Start (ns)`, `Time(%)`: a column and its unit."""
_FEWEST_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column that a table may have, found by name, at any place.

    names: its words in headers, without the unit. cell: how a cell is read. to: the column of EVENTS or TOTALS that
    gets the value; "" for a cell that fills several, or none. must: a row without it is dropped; such cells are read
    first, so that their error is the one that is noted. vital: a cell that cannot be read drops its row; without it the
    cell alone is unknown. unless: not this column where the table has one of these. key: its key in `args`, "" for its
    words in the header. unit_of: a column whose unit is taken where this one has none. absent_for: says by its name
    whether a row can do without a cell that it must have. of_kind: the cell fills columns only in rows of this kind,
    and only columns that no other cell has filled.
    """

    names: tuple[str, ...]
    cell: Cell
    to: str = ""
    must: bool = False
    vital: bool = False
    unless: frozenset[str] = frozenset()
    key: str = ""
    unit_of: str = ""
    absent_for: Callable[[str], bool] | None = None
    of_kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """A condition on a header: it has one of the columns, in one of the units (None: any)."""

    one_of: tuple[str, ...]
    units: frozenset[str] | None = None

    def is_met(self, units: Mapping[str, str]) -> bool:
        """Return whether a header has it. units: by column."""
        return any(name in units and (self.units is None or units[name] in self.units) for name in self.one_of)


@dataclass(frozen=True, slots=True)
class Sums:
    """Columns of a table of sums: calls x mean is the total, and shares make 100 %; it shows the style of numbers."""

    total: tuple[str, ...]
    mean: tuple[str, ...]
    calls: tuple[str, ...]
    share: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """The values that follow from a name: columns (name and kind among them), and members of `args`."""

    columns: Spread
    args: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NumberedNames:
    """Names that end in a number of their row, `add(int*) [218]`: nearly all of them are different.

    to: the column that gets the number where no cell has it. one: the number of a name, None without one. many: for
    whole columns: what names have in common that are the same but for their numbers, the numbers, and which names have
    one. The second argument of both is that of `TableSpec.by_name`, which gets one of the names that are the same.
    """

    to: str
    one: Callable[[str, bool], int | None]
    many: Callable[[Column, Mask], tuple[Column, I64, Mask]]


@dataclass(frozen=True, slots=True)
class Learn:
    """A fact of the run in the cells of rows. to: columns of the row that it belongs to. text: the column with it."""

    to: tuple[str, ...]
    text: str
    put: Callable[[Run, int, tuple[int, ...], str], None]


@dataclass(frozen=True, slots=True)
class SkipRows:
    """Rows that are no events: in tables with the column `has`, those whose cell `empty` is so. says: their class."""

    has: str
    empty: str
    says: str


@dataclass(slots=True)
class SumRow:
    """A row of a table of sums before it is added: for `TableSpec.finish`."""

    header: TableHeader
    section: str
    name: str | None
    columns: dict[str, object]
    args: dict[str, object]


@dataclass(frozen=True, slots=True, eq=False)
class TableSpec:
    """One kind of table.

    makes: "events" or "totals". needs: how its header is recognised. columns: those with a meaning; a cell of any other
    column, if it is not empty, stays in `args` as printed, under its words in the header with the unit. names: columns
    with the name, best first. by_name: what follows from a name; called once for each distinct one. looks_at: columns
    that `by_name` depends on: its last argument says whether one is filled. finish: an oddity that needs the whole row;
    its second argument makes a note; for sums alone, since it would keep a trace from being read by blocks. rounded:
    code and sentence of the note on rounded cells. others: how columns are read that are not declared. numbered: names
    with numbers.
    """

    form: str
    makes: str
    needs: tuple[Need, ...]
    columns: tuple[DeclaredColumn, ...]
    names: tuple[str, ...] = ("Name",)
    by_name: Callable[[TableHeader, str, bool], Named] = lambda _header, _name, _filled: Named({})
    looks_at: frozenset[str] = frozenset()
    learns: tuple[Learn, ...] = ()
    skips: SkipRows | None = None
    sums: Sums | None = None
    rounded: tuple[str, str] = ("", "")
    finish: Callable[[SumRow, Callable[[str, str], None]], None] | None = None
    others: Cell = PRINTED_TEXT
    numbered: NumberedNames | None = None

    def placed(self, columns: tuple[str, ...], units: tuple[str, ...]) -> TableHeader:
        """Return a header with these columns, which a format has recognised by itself. units: by column."""
        return TableHeader(self, columns, columns, _places(self, columns, units))


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column of one header: its place, words, unit and declaration, its key in `args`, and what follows from these.

    name: as the declaration calls it. unit: the own one, else that of `DeclaredColumn.unit_of`. whole: its numbers are
    whole; this follows from the own unit alone, since old reports print some columns without a unit. rounded: they may
    have been rounded in print.
    """

    at: int
    name: str
    unit: str
    column: DeclaredColumn
    key: str
    whole: bool
    rounded: bool


@dataclass(frozen=True, eq=False)
class TableHeader:
    """A header that was recognised. columns: names without units. printed: the same as they were printed.

    places: columns in the order in which their cells are read: required ones come first. The last
    of two columns with one name counts.
    """

    spec: TableSpec
    columns: tuple[str, ...]
    printed: tuple[str, ...]
    places: tuple[PlacedColumn, ...] = ()

    @property
    def form(self) -> str:
        """The name of the kind of table."""
        return self.spec.form


@dataclass(frozen=True, slots=True)
class Heading:
    """A line that names the report below it. unit: of times and sizes without one. weak: another name is preferred.

    empty: the line says that there are no rows.
    """

    name: str
    unit: str = ""
    weak: bool = False
    empty: bool = False


@dataclass(frozen=True, slots=True)
class TextSpec:
    """All tables of a format, and the lines around them.

    same: other words for columns. title_units: columns whose unit may be in the heading above. delimiters: of cells.
    heading: the oddities of lines that name reports; such a line ends a table. header_words: each header has one.
    section: the section of a table, by its header and the report named above. unread: words that begin a column of
    tables that are known and not read, and their names. unread_columns: columns that only tables have. message, empty:
    lines of the program between tables and rows. lost: a row whose header is missing. same_events: what a table holds
    that another report may hold too, "" for nothing. unread_why, tool: words of notes.
    """

    reader: str
    tool: str
    tables: tuple[TableSpec, ...]
    delimiters: str
    header_words: tuple[str, ...]
    message: re.Pattern[str]
    unread_why: str
    same: Mapping[str, str] = field(default_factory=dict)
    title_units: tuple[str, ...] = ()
    heading: Callable[[str], Heading | None] = lambda _: None
    section: Callable[[TableHeader, str], str] = lambda _header, named: named
    unread: tuple[tuple[str, str], ...] = ()
    unread_columns: frozenset[str] = frozenset()
    empty: Callable[[str], bool] = lambda _: False
    lost: re.Pattern[str] | None = None
    same_events: Callable[[TableHeader], str] = lambda _: ""

    names: frozenset[str] = field(init=False)
    """All columns with names of rows."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(name for table in self.tables for name in table.names))

    def header(self, cells: Sequence[str], unit: str = "") -> TableHeader | None:
        """Return the header that these cells form, None when they do not belong to a table that is read.

        unit: from the heading above, for columns of `title_units` without one of their own.
        """
        if len(cells) < _FEWEST_COLUMNS:
            return None
        matches = [UNIT.match(cell.strip()) for cell in cells]
        printed = tuple(m[1] if m else cell.strip() for m, cell in zip(matches, cells, strict=True))
        columns = tuple(self.same.get(name, name) for name in printed)
        if len(set(columns)) < len(columns):
            columns = printed
        if self.names.isdisjoint(columns):
            return None
        units = tuple(
            m[2] if m else unit if name in self.title_units else "" for name, m in zip(columns, matches, strict=True)
        )
        by_name = dict(zip(columns, units, strict=True))
        for table in self.tables:
            if all(need.is_met(by_name) for need in table.needs):
                return TableHeader(table, columns, printed, _known_places(table, columns, units))
        return None


def _places(table: TableSpec, columns: tuple[str, ...], units: tuple[str, ...]) -> tuple[PlacedColumn, ...]:
    """Return the columns of a header, with their declarations."""
    # The first of two declarations of a column counts.
    known = {n: c for c in reversed(table.columns) for n in c.names if c.unless.isdisjoint(columns)}
    own = dict(zip(columns, units, strict=True))
    # A column that nobody has declared stays in `args`: a conversion loses nothing.
    other = DeclaredColumn((), table.others)
    places = []
    for name, at in {name: at for at, name in enumerate(columns)}.items():
        column = DeclaredColumn(table.names, NAME) if name in table.names else known.get(name, other)
        unit = own[name] or own.get(column.unit_of, "")
        key = column.key or (f"{name} ({unit})" if unit and column.cell is not WITH_UNIT else name)
        whole, rounded = column.cell.whole(own[name]), column.cell.rounded(unit)
        places.append(PlacedColumn(at, name, unit, column, key, whole, rounded))
    return (*(p for p in places if p.column.must), *(p for p in places if not p.column.must))


_known_places = lru_cache(maxsize=128)(_places)
"""The same, once for each header of a table that does not belong to one reading."""

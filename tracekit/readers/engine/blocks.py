"""Lines of a CSV table as columns: pyarrow parses them, and the declarations give the same values as row by row.

Starts, durations and ids are parsed exactly: as int64, or as decimals whose unscaled digits are the ns (`443.072` us is
443072). pyarrow refuses a number with more decimals than its unit has below it ("would cause data loss"). All other
columns are dictionaries of texts, and `Cell.value` is called once for each distinct text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pacsv

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, DictColumn, Mask, pc
from tracekit.model.schema import EVENTS
from tracekit.readers.builder import Values
from tracekit.readers.engine.cells import INT62, SKIP, KeptValue, RowError
from tracekit.readers.engine.csv_bytes import NEWLINE, has_bare_points, has_hexadecimal, has_plain_quotes
from tracekit.readers.engine.layout import split
from tracekit.readers.engine.spec import Named, PlacedColumn, TableHeader
from tracekit.readers.names import Demangler
from tracekit.readers.printed.numbers import POINT, Style

__all__ = ["ColumnBlock", "ParsePlan", "first_numbers", "parse_plan"]

_ROWS_FOR_STYLE = 64
_BYTES_FOR_STYLE = 1 << 14
_PYARROW_BYTES = 1 << 20
_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class CsvConversion:
    """The types of columns for pyarrow. rare_points: numbers without digits on one side of a point are none here."""

    options: pacsv.ConvertOptions
    rare_points: bool


@dataclass(frozen=True, slots=True)
class ParsePlan:
    """The options of pyarrow for the rows of a table in a style of numbers.

    usual: what it converts. careful: the same for lines with hexadecimal numbers or ids that are texts.
    """

    read: pacsv.ReadOptions
    parse: pacsv.ParseOptions
    usual: CsvConversion
    careful: CsvConversion
    delimiter: int
    style: Style


def _type(place: PlacedColumn, header: TableHeader, *, careful: bool = False) -> pa.DataType:
    """Return the type of a column: one that pyarrow parses exactly, or texts, of which the distinct ones are read."""
    cell = place.column.cell
    if place.name in header.spec.names and header.spec.numbered is not None:
        return pa.string()
    if cell.exact(place.unit):
        # pyarrow takes `0xff` for an int64, but not for a decimal.
        return pa.int64() if not careful else _TEXT if cell.texts else pa.decimal128(38, 0)
    scale = cell.scale(place.unit)
    return _TEXT if scale is None else pa.decimal128(38, scale)


def _conversion(header: TableHeader, places: Collection[PlacedColumn], style: Style, *, careful: bool) -> CsvConversion:
    types = {place.name: _type(place, header, careful=careful) for place in places}
    rare_points = any(pa.types.is_decimal(types[p.name]) and not p.column.cell.bare_points for p in places)
    options = pacsv.ConvertOptions(
        column_types=types,
        include_columns=list(types),
        null_values=[""],
        strings_can_be_null=True,
        decimal_point=style.decimal,
        check_utf8=False,
    )
    return CsvConversion(options, rare_points)


def parse_plan(header: TableHeader, delimiter: str, style: Style = POINT) -> ParsePlan | None:
    """Return the plan for a header; None where two of its columns are the same or have the same meaning."""
    spec = header.spec
    if spec.numbered is not None and sum(name in header.columns for name in spec.names) != 1:
        return None
    targets = [p.column.to for p in header.places if p.column.to]
    if spec.makes != "events" or spec.finish is not None:
        return None
    facts = {learn.text for learn in spec.learns}
    parsed = {p.name: p for p in header.places if p.column.cell is not SKIP or p.name in facts}
    # Cells that are skipped may have any name, and several may have the same one: a sheet pads its lines.
    named = [name if name in parsed else f"\0{at}" for at, name in enumerate(header.columns)]
    if len(set(targets)) < len(targets) or len(set(named)) < len(named):
        return None
    return ParsePlan(
        pacsv.ReadOptions(column_names=named, use_threads=False, block_size=_PYARROW_BYTES),
        pacsv.ParseOptions(delimiter=delimiter),
        _conversion(header, parsed.values(), style, careful=False),
        _conversion(header, parsed.values(), style, careful=True),
        ord(delimiter),
        style,
    )


def first_numbers(header: TableHeader, data: bytes, delimiter: str) -> list[tuple[str, bool]]:
    """Return the decimals of the first rows as texts, and whether their column is whole: they show the style.

    pyarrow keeps no texts of them.
    """
    places = [p for p in header.places if pa.types.is_decimal(_type(p, header))]
    if not places:
        return []
    lines = data[:_BYTES_FOR_STYLE].decode("utf-8", "replace").split("\n")[:_ROWS_FOR_STYLE]
    rows = [cells for line in lines[:-1] if len(cells := split(line, delimiter)) == len(header.columns)]
    return [(cells[p.at].strip(), p.whole) for cells in rows for p in places if cells[p.at].strip()]


_FEW_TEXTS = 64
"""So few texts are read one by one as fast."""


def _digits(column: Column) -> Column | None:
    """Return the unscaled digits of decimals as int64, None where one has more."""
    words = arrow.view(column.buffers()[1], np.int64)[2 * column.offset :][: 2 * len(column)]
    low, high = words[::2], words[1::2]
    valid = arrow.valid(column)
    if (high != low >> 63)[valid].any():
        return None
    return arrow.array(np.where(valid, low, 0), mask=~valid)


def _plain_type(key: str) -> pa.DataType:
    """Return the type of a column of EVENTS, with plain text for a dictionary of texts."""
    kind = EVENTS.field(key).type
    return pa.string() if pa.types.is_dictionary(kind) else kind


@dataclass(slots=True)
class _Member:
    """One key of `args`: the JSON of each distinct value, None without one, and which value each row has."""

    key: str
    values: list[str | None]
    codes: Column


class ColumnBlock:
    """The columns of a block of rows.

    columns: of EVENTS, after `convert`. rounded: rows with a value that may have been rounded in print.
    """

    def __init__(self, header: TableHeader, data: pa.Table, style: Style) -> None:
        self.header, self.count, self.style = header, data.num_rows, style
        self.columns: dict[str, Values] = {}
        self.rounded: Mask = np.zeros(self.count, bool)
        self._members: list[_Member] = []
        self._exact: dict[str, Column] = {}
        self._coded: dict[str, DictColumn] = {}
        self._texts: dict[str, list[str]] = {}
        """The distinct texts of each column that is read by them, without the blanks around them."""
        self._whole_names: Column | None = None
        """Names with numbers, which are nearly all different."""
        self._limited: list[tuple[PlacedColumn, dict[str, Column]]] = []
        """What cells fill in rows of one kind."""
        for name in data.schema.names:
            column = arrow.in_one(data.column(name).unify_dictionaries())
            if pa.types.is_dictionary(column.type):
                self._coded[name] = arrow.encoded(column)
                self._texts[name] = [text.strip() for text in arrow.texts(self._coded[name].dictionary)]
            elif pa.types.is_string(column.type):
                self._whole_names = column
            else:
                self._exact[name] = column

    @classmethod
    def read(cls, header: TableHeader, plan: ParsePlan, data: bytes) -> ColumnBlock | None:
        """Return the block in whole lines, None where they are not surely all rows of this table."""
        raw = np.frombuffer(data, np.uint8)
        if b"\0" in data or not has_plain_quotes(raw, plan.delimiter):
            return None
        has_texts = any(place.column.cell.texts for place in header.places)
        ways = [plan.careful] if has_hexadecimal(data) else [plan.usual, plan.careful] if has_texts else [plan.usual]
        for way in ways:
            if way.rare_points and has_bare_points(raw):
                return None
            try:
                table = pacsv.read_csv(arrow.byte_file(data), plan.read, plan.parse, way.options)
            except pa.ArrowInvalid:
                continue
            return cls(header, table, plan.style) if table.num_rows == np.count_nonzero(raw == NEWLINE) else None
        return None

    def numbers(self) -> list[tuple[str, bool]]:
        """Return the distinct texts of numbers that show the style of the table; whole numbers show none."""
        return [
            (text, place.whole)
            for place in self.header.places
            if place.column.cell.number
            for text in self._texts.get(place.name, ())
            if text
        ]

    def convert(self, names: Demangler) -> bool:
        """Make the columns of EVENTS. False: a cell cannot be read, or a row is to be skipped."""
        skips = self.header.spec.skips
        if skips is not None and skips.has in self.header.columns and not self._filled(skips.empty).all():
            return False
        for place in self.header.places:
            if place.name in self.header.spec.names:
                continue
            if place.name in self._exact:
                good = self._add_exact(place, self._exact[place.name])
            else:
                good = place.name not in self._texts or self._add_distinct(place)
            if not good:
                return False
        if not self._add_names(names):
            return False
        self.columns["args"] = self._args()
        # The row way keeps the last of two columns with one key.
        return len({member.key for member in self._members}) == len(self._members)

    def _add_exact(self, place: PlacedColumn, column: Column) -> bool:
        """Add a column of whole numbers. False: one is missing, negative or too large, or another column has it."""
        cell = place.column.cell
        is_missing = place.column.must and place.column.absent_for is None and column.null_count
        if is_missing or place.column.to in self.columns:
            return False
        if pa.types.is_decimal(column.type):
            digits = _digits(column)
            if digits is None:
                return False
            column = digits
        bounds = arrow.bounds(column)
        # The row way reads -5 too. It is so rare that a block with one is left to that way.
        if bounds is not None and (bounds[0] < 0 or bounds[1] > (cell.exact(place.unit) or INT62 - 1)):
            return False
        self.columns[place.column.to] = pc.if_else(pc.equal(column, 0), None, column) if cell.zero_is_null else column
        return True

    def _add_distinct(self, place: PlacedColumn) -> bool:
        """Add what a column of texts gives. False: one cannot be read."""
        texts, cell, coded = self._texts[place.name], place.column.cell, self._coded[place.name]
        if place.column.must and (coded.null_count or not all(texts)):
            return False
        every = cell.every(texts, place.unit, self.style) if len(texts) > _FEW_TEXTS else None
        if every is not None:
            return self._add_filled(place, {place.column.to: every.take(coded.indices)})
        try:
            values = [cell.value(text, place.unit, self.style) if text else None for text in texts]
        except RowError:
            return False
        if cell.positive and any(isinstance(value, int) and value < 0 for value in values):
            return False
        spread: dict[str, list[object]] = {}
        kept: list[str | None] = [None] * len(texts)
        for at, value in enumerate(values):
            if isinstance(value, dict):
                if isinstance(value, KeptValue):
                    kept[at] = orjson.dumps(value.text or texts[at]).decode() if texts[at] else None
                for key, one in value.items():
                    spread.setdefault(key, [None] * len(texts))[at] = one
            elif value is not None and place.column.to:
                is_unknown = cell.zero_is_null and value == 0
                spread.setdefault(place.column.to, [None] * len(texts))[at] = None if is_unknown else value
        filled = {key: arrow.array(ones, _plain_type(key)).take(coded.indices) for key, ones in spread.items()}
        if any(kept):
            self._members.append(_Member(place.key, kept, coded.indices))
        return self._add_filled(place, filled)

    def _add_filled(self, place: PlacedColumn, filled: dict[str, Column]) -> bool:
        """Add the columns that a cell fills. False: another one has filled one of them."""
        if place.column.of_kind is not None:
            self._limited.append((place, filled))
        elif filled.keys() & self.columns.keys():
            return False
        else:
            self.columns |= filled
        if place.rounded:
            self.rounded |= self._filled(place.name)
        return True

    def _filled(self, name: str) -> Mask:
        """Return which rows have a cell in a column that is not blank."""
        if name in self._exact:
            return arrow.valid(self._exact[name])
        filled = arrow.array([bool(text) for text in self._texts[name]], pa.bool_())
        return arrow.bools(filled.take(self._coded[name].indices))

    def _add_names(self, names: Demangler) -> bool:
        """Add the columns that follow from the name, once for each distinct one.

        False: a cell has filled one of them, where row by row it would count if the name said nothing about the column;
        or the row of a name has to have a cell that is empty.
        """
        spec = self.header.spec
        filled = np.zeros(self.count, bool)
        for name in spec.looks_at & (self._exact.keys() | self._texts.keys()):
            filled |= self._filled(name)
        coded = self._coded_names() if self._whole_names is None else self._numbered_names(filled)
        if coded is None:
            return False
        texts, codes = coded
        of_row = codes * 2 + filled
        occurs = np.zeros(2 * len(texts), np.bool_)
        occurs[of_row] = True
        pairs, places = np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[of_row]
        indices = arrow.array(places.astype(np.int32))
        distinct: list[tuple[dict[str, object], Named]] = []
        for pair in pairs.tolist():
            text = texts[pair // 2]
            named = spec.by_name(self.header, text, bool(pair % 2))
            row: dict[str, object] = {"name": text, **named.columns}
            row["name"] = row["name"] or None
            if row["name"] is not None:
                row["name"], raw = names.one(str(row["name"]))
                row["raw_name"] = row.get("raw_name") or raw
            distinct.append((row, named))
        keys = sorted({key for row, _ in distinct for key in row})
        if not self.columns.keys().isdisjoint(keys):
            return False
        for key in keys:
            self.columns[key] = arrow.array([row.get(key) for row, _ in distinct], _plain_type(key)).take(indices)
        for key in dict.fromkeys(key for _, named in distinct for key in named.args):
            values = [orjson.dumps(named.args[key]).decode() if key in named.args else None for _, named in distinct]
            self._members.append(_Member(key, values, indices))
        self._add_limited()
        shown = [texts[pair // 2] for pair in pairs.tolist()]
        return all(
            self._may_be_absent(place.column.absent_for, self.columns[place.column.to], shown, places)
            for place in self.header.places
            if place.column.absent_for is not None
        )

    def _coded_names(self) -> tuple[list[str], I64]:
        """Return the distinct names, and which one each row has: that of the first column with a name in this row."""
        texts, codes = [""], np.zeros(self.count, np.int64)
        for name in reversed([n for n in self.header.spec.names if n in self._texts]):
            own = arrow.codes(self._coded[name])
            # A null has code -1: the last member, which is empty.
            is_empty = np.array([*(not text for text in self._texts[name]), True])
            codes = np.where(is_empty[own], codes, own + len(texts))
            texts = texts + self._texts[name]
        return texts, codes

    def _numbered_names(self, filled: Mask) -> tuple[list[str], I64] | None:
        """Return one name of all that are the same but for their numbers, and which one each row has.

        None: blanks around a name hide its number.
        """
        numbered, column = self.header.spec.numbered, self._whole_names
        assert numbered is not None
        assert column is not None
        names = pc.fill_null(column, "")
        # A slice would begin behind the first byte of its buffers.
        names = pa.concat_arrays([names]) if names.offset else names
        same, numbers, has_number = numbered.many(names, filled)
        encoded = same.dictionary_encode()
        if any(text != text.strip() for text in arrow.texts(encoded.dictionary)):
            return None
        if has_number.any():
            self._fill(numbered.to, arrow.array(numbers, mask=~has_number))
        codes = arrow.codes(encoded).astype(np.int64)
        first = np.empty(len(encoded.dictionary), np.int64)
        first[codes[::-1]] = np.arange(codes.size - 1, -1, -1)  # the first row of each name is written last
        return arrow.texts(names.take(arrow.array(first))), codes

    def _add_limited(self) -> None:
        """Add what cells fill in rows of one kind, where no other cell has filled it."""
        for place, filled in self._limited:
            is_kind = pc.equal(cast("Column", self.columns["kind"]), str(place.column.of_kind))
            for key, values in filled.items():
                self._fill(key, pc.if_else(is_kind, values, None))

    def _fill(self, key: str, values: Column) -> None:
        """Add a column, or its values where another cell has filled none."""
        known = self.columns.get(key)
        self.columns[key] = values if known is None else pc.coalesce(cast("Column", known), values)

    def _may_be_absent(self, absent_for: Callable[[str], bool], values: Values, names: list[str], which: I64) -> bool:
        """Return whether only rows lack a value whose names allow it."""
        lacking = ~arrow.valid(cast("Column", values))
        return not lacking.any() or all(absent_for(names[at]) for at in np.unique(which[lacking]).tolist())

    def _args(self) -> Column | None:
        """Return the JSON of what stays as printed, null for a row without."""
        if not self._members:
            return None
        parts: list[Column] = []
        for member in self._members:
            head = orjson.dumps(member.key).decode() + ":"
            texts = [None if value is None else head + value for value in member.values]
            parts.append(arrow.array(texts, pa.string()).take(member.codes))
        joined = arrow.joined(parts, ",")
        objects = pc.binary_join_element_wise("{", joined, "}", "")
        return pc.if_else(pc.equal(joined, ""), None, objects)

    def distinct(self, to: Sequence[str], text: str) -> list[tuple[Any, ...]]:
        """Return the distinct ids and texts of facts, in the order of their first rows. to: columns of the ids."""
        if text not in self._texts or any(not isinstance(self.columns.get(key), pa.Array) for key in to):
            return []
        plain = arrow.array(self._texts[text], pa.string()).take(self._coded[text].indices)
        names = [*to, text]
        table = pa.table([*(cast("Column", self.columns[key]) for key in to), plain], names=names)
        # Threads would change the order of the groups, and so the order of the facts.
        groups = table.group_by(names, use_threads=False).aggregate([])
        rows = zip(*(groups.column(name).to_pylist() for name in names), strict=True)
        return [row for row in rows if row[-1] and all(value is not None for value in row)]

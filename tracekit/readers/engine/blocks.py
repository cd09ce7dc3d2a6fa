"""Lines of a CSV table as columns: pyarrow parses them, and the declarations give the same values as row by row.

Starts, durations and ids are parsed exactly: as int64, or as decimals whose unscaled digits are the ns (`443.072` us is
443072). pyarrow refuses a number with more decimals than its unit has below it ("would cause data loss"). All other
columns are dictionaries of texts, and `Cell.value` is called once for each distinct text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pacsv

from tracekit.model import arrow
from tracekit.model.arrow import Column, DictColumn, Mask, pc
from tracekit.model.schema import EVENTS
from tracekit.readers.builder import Values
from tracekit.readers.engine.cells import INT62, SKIP, KeptValue, RowError
from tracekit.readers.engine.csv_bytes import NEWLINE, has_bare_points, has_hexadecimal, has_plain_quotes
from tracekit.readers.engine.layout import split
from tracekit.readers.engine.spec import Named, PlacedColumn, TableHeader
from tracekit.readers.names import Demangler
from tracekit.readers.printed.numbers import POINT

__all__ = ["ColumnBlock", "ParsePlan", "first_numbers", "parse_plan"]

_ROWS_FOR_STYLE = 64
_BYTES_FOR_STYLE = 1 << 14
_PYARROW_BYTES = 1 << 20
_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class ParsePlan:
    """The options of pyarrow for the rows of a table. has_decimals: it parses decimals."""

    read: pacsv.ReadOptions
    parse: pacsv.ParseOptions
    convert: pacsv.ConvertOptions
    delimiter: int
    has_decimals: bool


def _type(place: PlacedColumn) -> pa.DataType | None:
    """Return the type that pyarrow parses exactly, None for a column that is read by its distinct texts."""
    cell = place.column.cell
    if cell.exact(place.unit):
        return pa.int64()
    scale = cell.scale(place.unit)
    return None if scale is None else pa.decimal128(38, scale)


def parse_plan(header: TableHeader, delimiter: str) -> ParsePlan | None:
    """Return the plan for a header; None where two of its columns are the same or have the same meaning."""
    spec = header.spec
    targets = [p.column.to for p in header.places if p.column.to]
    if spec.makes != "events" or spec.finish is not None:
        return None
    if len(set(targets)) < len(targets) or len(set(header.columns)) < len(header.columns):
        return None
    facts = {learn.text for learn in spec.learns}
    parsed = [p for p in header.places if p.column.cell is not SKIP or p.name in facts]
    types = {p.name: _type(p) or _TEXT for p in parsed}
    return ParsePlan(
        pacsv.ReadOptions(column_names=list(header.columns), use_threads=False, block_size=_PYARROW_BYTES),
        pacsv.ParseOptions(delimiter=delimiter),
        pacsv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=False,
        ),
        ord(delimiter),
        any(pa.types.is_decimal(kind) for kind in types.values()),
    )


def first_numbers(header: TableHeader, data: bytes, delimiter: str) -> list[tuple[str, bool]]:
    """Return the decimals of the first rows as texts, and whether their column is whole: they show the style.

    pyarrow keeps no texts of them.
    """
    places = [p for p in header.places if pa.types.is_decimal(_type(p) or _TEXT)]
    if not places:
        return []
    lines = data[:_BYTES_FOR_STYLE].decode("utf-8", "replace").split("\n")[:_ROWS_FOR_STYLE]
    rows = [cells for line in lines[:-1] if len(cells := split(line, delimiter)) == len(header.columns)]
    return [(cells[p.at].strip(), p.whole) for cells in rows for p in places if cells[p.at].strip()]


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

    def __init__(self, header: TableHeader, data: pa.Table) -> None:
        self.header, self.count = header, data.num_rows
        self.columns: dict[str, Values] = {}
        self.rounded: Mask = np.zeros(self.count, bool)
        self._members: list[_Member] = []
        self._exact: dict[str, Column] = {}
        self._coded: dict[str, DictColumn] = {}
        self._texts: dict[str, list[str]] = {}
        """The distinct texts of each column that is read by them, without the blanks around them."""
        for name in data.schema.names:
            column = arrow.in_one(data.column(name).unify_dictionaries())
            if pa.types.is_dictionary(column.type):
                self._coded[name] = arrow.encoded(column)
                self._texts[name] = [text.strip() for text in arrow.texts(self._coded[name].dictionary)]
            else:
                self._exact[name] = column

    @classmethod
    def read(cls, header: TableHeader, plan: ParsePlan, data: bytes) -> ColumnBlock | None:
        """Return the block in whole lines, None where they are not surely all rows of this table."""
        raw = np.frombuffer(data, np.uint8)
        if b"\0" in data or not has_plain_quotes(raw, plan.delimiter):
            return None
        if has_hexadecimal(data) or (plan.has_decimals and has_bare_points(raw)):
            return None
        try:
            table = pacsv.read_csv(arrow.byte_file(data), plan.read, plan.parse, plan.convert)
        except pa.ArrowInvalid:
            return None
        return cls(header, table) if table.num_rows == np.count_nonzero(raw == NEWLINE) else None

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
        if (place.column.must and column.null_count) or place.column.to in self.columns:
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
        try:
            values = [cell.value(text, place.unit, POINT) if text else None for text in texts]
        except RowError:
            return False
        if cell.positive and any(isinstance(value, int) and value < 0 for value in values):
            return False
        spread: dict[str, list[object]] = {}
        kept: list[str | None] = [None] * len(texts)
        for at, value in enumerate(values):
            if isinstance(value, dict):
                if isinstance(value, KeptValue):
                    kept[at] = orjson.dumps(texts[at]).decode() if texts[at] else None
                for key, one in value.items():
                    spread.setdefault(key, [None] * len(texts))[at] = one
            elif value is not None and place.column.to:
                is_unknown = cell.zero_is_null and value == 0
                spread.setdefault(place.column.to, [None] * len(texts))[at] = None if is_unknown else value
        for key, ones in spread.items():
            if key in self.columns:
                return False
            self.columns[key] = arrow.array(ones, _plain_type(key)).take(coded.indices)
        if any(kept):
            self._members.append(_Member(place.key, kept, coded.indices))
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
        """Add the columns that follow from the name, once for each distinct one. False: a cell has filled one of them.

        Row by row such a cell counts where the name says nothing about the column.
        """
        spec = self.header.spec
        texts, codes = [""], np.zeros(self.count, np.int64)
        for name in reversed([n for n in spec.names if n in self._texts]):
            own = arrow.codes(self._coded[name])
            # A null has code -1: the last member, which is empty.
            is_empty = np.array([*(not text for text in self._texts[name]), True])
            codes = np.where(is_empty[own], codes, own + len(texts))
            texts = texts + self._texts[name]
        filled = np.zeros(self.count, bool)
        for name in spec.looks_at & (self._exact.keys() | self._texts.keys()):
            filled |= self._filled(name)
        pairs, places = np.unique(codes * 2 + filled, return_inverse=True)
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
        return True

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

"""Lines of a CSV table as columns: pyarrow parses them, and the declarations give the same values as row by row.

Starts, durations and ids are parsed exactly: as int64, or as decimals whose unscaled digits are the ns (`443.072` us is
443072). pyarrow refuses a number with more decimals than its unit has below it ("would cause data loss"). All other
columns are dictionaries of texts, and `Cell.value` is called once for each distinct text: blocks of one table have the
same few texts again and again, so what was read of them is kept (`KnownTexts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pacsv

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I32, I64, Column, DictColumn, Mask, pc
from tracekit.model.schema import EVENTS
from tracekit.readers.builder import Values
from tracekit.readers.engine.cells import INT32, INT62, SKIP, KeptValue, RowError, Spread, Value
from tracekit.readers.engine.csv_bytes import NEWLINE, has_bare_points, has_hexadecimal, has_plain_quotes
from tracekit.readers.engine.layout import split
from tracekit.readers.engine.spec import Named, PlacedColumn, TableHeader
from tracekit.readers.names import Demangler
from tracekit.readers.printed.numbers import POINT, Style

__all__ = ["ColumnBlock", "ParsePlan", "first_numbers", "parse_plan"]

_ROWS_FOR_STYLE = 64
_BYTES_FOR_STYLE = 1 << 14
_PYARROW_BYTES = (2 << 20) + (1 << 18)
"""A block of a source in one piece: texts of several pieces would each be looked up again."""
_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class CsvConversion:
    """The types of columns for pyarrow. rare_points: numbers without digits on one side of a point are none here."""

    options: pacsv.ConvertOptions
    rare_points: bool


_NamedRow: TypeAlias = tuple[dict[str, object], Named]


class KnownNames:
    """The columns and args that the names of one table have given so far: by name, and by what else is filled."""

    def __init__(self, forgot: int = 0) -> None:
        """forgot: `Demangler.forgot` of the time."""
        self.forgot = forgot
        self.rows: list[dict[str, object]] = []
        self.args: list[Mapping[str, object]] = []
        self._numbers: dict[tuple[str, bool], int] = {}
        self._keys: list[tuple[str, ...]] = []
        self._texts: dict[str, tuple[I32, list[str]]] = {}

    def numbers(self, asked: list[tuple[str, bool]], read: Callable[[str, bool], _NamedRow]) -> I64:
        """Return the numbers of names among `rows`. read: returns what follows from one."""
        known = self._numbers
        for each in asked:
            if each not in known:
                row, named = read(*each)
                known[each] = len(self.rows)
                self.rows.append(row)
                self.args.append(named.args)
                self._keys.append(tuple(row))
        return np.array([known[each] for each in asked], np.int64)

    def keys(self, numbers: I64) -> list[str]:
        """Return the columns that any of these rows has."""
        distinct = {self._keys[number] for number in numbers.tolist()}
        return sorted({key for keys in distinct for key in keys})

    def texts(self, key: str) -> tuple[I32, list[str]]:
        """Return the code of the text that each row has in a column, -1 for none, and the texts."""
        codes, texts = self._texts.get(key, (np.empty(0, np.int32), []))
        if len(codes) < len(self.rows):
            places = {text: code for code, text in enumerate(texts)}
            new = [cast("str | None", row.get(key)) for row in self.rows[len(codes) :]]
            more = [-1 if text is None else places.setdefault(text, len(places)) for text in new]
            codes, texts = np.append(codes, np.array(more, np.int32)), list(places)
            self._texts[key] = codes, texts
        return codes, texts


@dataclass(slots=True)
class KnownTexts:
    """The values that texts of one table have given in its blocks so far, for each column; and its names."""

    cells: dict[str, dict[str, Value | Spread]] = field(default_factory=dict)
    names: KnownNames = field(default_factory=KnownNames)

    def of(self, names: Demangler) -> KnownNames:
        """Return what is known of names that `names` demangles: what it has forgotten it may tell about anew."""
        if len(self.names.rows) > _MOST_KNOWN or self.names.forgot != names.forgot:
            self.names = KnownNames(names.forgot)
        return self.names

    def values(self, column: str) -> dict[str, Value | Spread]:
        """Return the values of the texts of a column, to be completed."""
        known = self.cells.setdefault(column, {})
        if len(known) > _MOST_KNOWN:
            known.clear()
        return known


_MOST_KNOWN = 1 << 14
"""Texts of one column that are kept."""


@dataclass(frozen=True, slots=True)
class ParsePlan:
    """The options of pyarrow for the rows of a table in a style of numbers.

    usual: what it converts. careful: the same for lines with hexadecimal numbers or ids that are texts. known: of all
    blocks that are read with this plan.
    """

    read: pacsv.ReadOptions
    parse: pacsv.ParseOptions
    usual: CsvConversion
    careful: CsvConversion
    delimiter: int
    style: Style
    known: KnownTexts = field(default_factory=KnownTexts, compare=False)


def _type(place: PlacedColumn, header: TableHeader, *, careful: bool = False) -> pa.DataType:
    """Return the type of a column: one that pyarrow parses exactly, or texts, of which the distinct ones are read."""
    cell, numbered = place.column.cell, header.spec.numbered
    if place.name in header.spec.names and numbered is not None:
        # Where another column has the numbers, names have none, and are the same in many rows.
        return _TEXT if any(other.column.to == numbered.to for other in header.places) else pa.string()
    if limit := cell.exact(place.unit):
        # pyarrow takes `0xff` for an integer, but not for a decimal.
        usual = pa.int32() if limit <= INT32 else pa.int64()
        return usual if not careful else _TEXT if cell.texts else pa.decimal128(38, 0)
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


_MOST_OBJECTS = 1 << 12
"""So many different `args` of a block are made one by one, if they can be so many."""
_FEW_TEXTS = 64
"""So few texts are read one by one as fast."""


def _digits(column: Column) -> Column | None:
    """Return the unscaled digits of decimals as int64, None where one has more."""
    words = arrow.view(column.buffers()[1], np.int64)[2 * column.offset :][: 2 * len(column)]
    low, high = np.ascontiguousarray(words[::2]), words[1::2]
    if not column.null_count:
        return None if (high != low >> 63).any() else arrow.array(low)
    valid = arrow.valid(column)
    if (high != low >> 63)[valid].any():
        return None
    return arrow.array(np.where(valid, low, 0), mask=~valid)


def _numbered(codes: I64, size: int) -> tuple[I64, I64]:
    """Return the codes that occur, in order, and which of them each row has. size: all codes are below it."""
    occurs = np.zeros(size, np.bool_)
    occurs[codes] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes]


def _of_codes(codes: I32, texts: list[str]) -> Column:
    """Return a dictionary column by codes of texts, -1 for null: in order of appearance, as Arrow encodes texts."""
    missing = codes < 0
    encoded = arrow.encoded(arrow.array(codes, mask=missing if missing.any() else None))
    used = arrow.array([texts[code] for code in arrow.ints(encoded.dictionary).tolist()], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, used)


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

    def __init__(self, header: TableHeader, data: pa.Table, plan: ParsePlan) -> None:
        self.header, self.count, self.style = header, data.num_rows, plan.style
        self._known = plan.known
        self.columns: dict[str, Values] = {}
        self.rounded: Mask = np.zeros(self.count, bool)
        self._members: list[_Member] = []
        self._exact: dict[str, Column] = {}
        self._coded: dict[str, DictColumn] = {}
        self._texts: dict[str, list[str]] = {}
        self._whole_names: Column | None = None
        """Names with numbers, which are nearly all different."""
        self._limited: list[tuple[PlacedColumn, dict[str, Column]]] = []
        """What cells fill in rows of one kind."""
        for name in data.schema.names:
            parts = data.column(name).unify_dictionaries()
            column = parts.chunks[0] if parts.num_chunks == 1 else arrow.in_one(parts)
            if pa.types.is_dictionary(column.type):
                self._coded[name] = arrow.encoded(column)
            elif pa.types.is_string(column.type):
                self._whole_names = column
            else:
                self._exact[name] = column

    @classmethod
    def read(cls, header: TableHeader, plan: ParsePlan, data: bytes) -> ColumnBlock | None:
        """Return the block in whole lines, None where they are not surely all rows of this table."""
        raw = np.frombuffer(data, np.uint8)
        # Without carriage returns, which end rows too, a newline inside of a cell would leave fewer rows than newlines.
        if b"\0" in data or not has_plain_quotes(raw, plan.delimiter, counted=b"\r" not in data):
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
            return cls(header, table, plan) if table.num_rows == np.count_nonzero(raw == NEWLINE) else None
        return None

    def numbers(self) -> list[tuple[str, bool]]:
        """Return the distinct texts of numbers that show the style of the table; whole numbers show none."""
        return [
            (text, place.whole)
            for place in self.header.places
            if place.column.cell.number
            if place.name in self._coded
            for text in self._distinct(place.name)
            if text
        ]

    def _distinct(self, name: str) -> list[str]:
        """Return the distinct texts of a column that is read by them, without the blanks around them."""
        texts = self._texts.get(name)
        if texts is None:
            texts = self._texts[name] = [text.strip() for text in arrow.texts(self._coded[name].dictionary)]
        return texts

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
                good = place.name not in self._coded or self._add_distinct(place)
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
        cell, coded = place.column.cell, self._coded[place.name]
        if place.column.must and (coded.null_count or not all(self._distinct(place.name))):
            return False
        many = len(coded.dictionary) > _FEW_TEXTS
        every = cell.every(coded.dictionary, place.unit, self.style) if many else None
        if every is not None:
            return self._add_filled(place, {place.column.to: every.take(coded.indices)})
        texts, known = self._distinct(place.name), self._known.values(place.name)
        try:
            for text in texts:
                if text not in known:
                    known[text] = cell.value(text, place.unit, self.style) if text else None
        except RowError:
            return False
        values = [known[text] for text in texts]
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
        filled = {key: pc.take(arrow.array(ones, _plain_type(key)), coded.indices) for key, ones in spread.items()}
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
        filled = arrow.array([bool(text) for text in self._distinct(name)], pa.bool_())
        return arrow.bools(pc.take(filled, self._coded[name].indices))

    def _add_names(self, names: Demangler) -> bool:
        """Add the columns that follow from the name, once for each distinct one.

        False: a cell has filled one of them, where row by row it would count if the name said nothing about the column;
        or the row of a name has to have a cell that is empty.
        """
        spec = self.header.spec
        filled = np.zeros(self.count, bool)
        for name in spec.looks_at & (self._exact.keys() | self._coded.keys()):
            filled |= self._filled(name)
        coded = self._coded_names() if spec.numbered is None else self._numbered_names(filled)
        if coded is None:
            return False
        texts, codes = coded
        pairs, places = _numbered(codes * 2 + filled, 2 * len(texts))
        known = self._known.of(names)
        asked = [(texts[pair // 2], bool(pair % 2)) for pair in pairs.tolist()]
        numbers = known.numbers(asked, lambda text, filled: self._named(text, filled, names))
        keys = known.keys(numbers)
        if not self.columns.keys().isdisjoint(keys):
            return False
        for key in keys:
            if pa.types.is_dictionary(EVENTS.field(key).type):
                of_names, pool = known.texts(key)
                self.columns[key] = _of_codes(of_names[numbers][places], pool)
            else:
                values = arrow.array([known.rows[number].get(key) for number in numbers.tolist()], _plain_type(key))
                self.columns[key] = pc.take(values, arrow.array(places))
        named = [known.args[number] for number in numbers.tolist()]
        for key in dict.fromkeys(key for args in named for key in args):
            shown = [orjson.dumps(args[key]).decode() if key in args else None for args in named]
            self._members.append(_Member(key, shown, arrow.array(places.astype(np.int32))))
        self._add_limited()
        return all(
            self._may_be_absent(place.column.absent_for, self.columns[place.column.to], asked, places)
            for place in self.header.places
            if place.column.absent_for is not None
        )

    def _named(self, text: str, filled: bool, names: Demangler) -> _NamedRow:
        """Return the columns that follow from a name, and all that does."""
        named = self.header.spec.by_name(self.header, text, filled)
        row: dict[str, object] = {"name": text, **named.columns}
        row["name"] = row["name"] or None
        if row["name"] is not None:
            row["name"], raw = names.one(str(row["name"]))
            row["raw_name"] = row.get("raw_name") or raw
        return row, named

    def _coded_names(self) -> tuple[list[str], I64]:
        """Return the distinct names, and which one each row has: that of the first column with a name in this row."""
        texts, codes = [""], np.zeros(self.count, np.int64)
        for name in reversed([n for n in self.header.spec.names if n in self._coded]):
            own = arrow.codes(self._coded[name])
            # A null has code -1: the last member, which is empty.
            is_empty = np.array([*(not text for text in self._distinct(name)), True])
            codes = np.where(is_empty[own], codes, own + len(texts))
            texts = texts + self._distinct(name)
        return texts, codes

    def _numbered_names(self, filled: Mask) -> tuple[list[str], I64] | None:
        """Return one name of all that are the same but for their numbers, and which one each row has.

        None: blanks around a name hide its number.
        """
        numbered = self.header.spec.numbered
        assert numbered is not None
        if self._whole_names is None:
            names, filled, of_row = self._distinct_names(filled)
        else:
            names, of_row = pc.fill_null(self._whole_names, ""), np.arange(self.count)
            # A slice would begin behind the first byte of its buffers.
            names = pa.concat_arrays([names]) if names.offset else names
        same, numbers, has_number = numbered.many(names, filled)
        encoded = arrow.encoded(same)
        if any(text != text.strip() for text in arrow.texts(encoded.dictionary)):
            return None
        if has_number.any():
            self._fill(numbered.to, arrow.array(numbers[of_row], mask=~has_number[of_row]))
        # Names of filled and of other rows may be the same without what is a number in only one of them.
        used, codes = _numbered(arrow.codes(encoded).astype(np.int64) * 2 + filled, 2 * len(encoded.dictionary))
        first = np.empty(len(used), np.int64)
        first[codes[::-1]] = np.arange(codes.size - 1, -1, -1)  # the first row of each name is written last
        return arrow.texts(pc.take(names, arrow.array(first))), codes[of_row]

    def _distinct_names(self, filled: Mask) -> tuple[Column, Mask, I64]:
        """Return the names, each once for filled and once for other rows, which it is, and which one each row has."""
        (coded,) = (self._coded[name] for name in self.header.spec.names if name in self._coded)
        texts, codes = coded.dictionary, arrow.codes(coded).astype(np.int64)
        if coded.null_count:
            codes[codes < 0] = len(texts)
            texts = pa.concat_arrays([texts, arrow.array([""], pa.string())])
        pairs, places = _numbered(codes * 2 + filled, 2 * len(texts))
        return pc.take(texts, arrow.array(pairs // 2)), pairs % 2 == 1, places

    def _add_limited(self) -> None:
        """Add what cells fill in rows of one kind, where no other cell has filled it."""
        for place, filled in self._limited:
            is_kind = pc.equal(cast("Column", self.columns["kind"]).cast(pa.string()), str(place.column.of_kind))
            for key, values in filled.items():
                self._fill(key, pc.if_else(is_kind, values, None))

    def _fill(self, key: str, values: Column) -> None:
        """Add a column, or its values where another cell has filled none."""
        known = self.columns.get(key)
        self.columns[key] = values if known is None else pc.coalesce(cast("Column", known), values)

    def _may_be_absent(
        self, absent_for: Callable[[str], bool], values: Values, names: list[tuple[str, bool]], which: I64
    ) -> bool:
        """Return whether only rows lack a value whose names allow it."""
        lacking = ~arrow.valid(cast("Column", values))
        return not lacking.any() or all(absent_for(names[at][0]) for at in sets.unique(which[lacking]).tolist())

    def _args(self) -> Column | None:
        """Return the JSON of what stays as printed, null for a row without."""
        if not self._members:
            return None
        heads = [orjson.dumps(member.key).decode() + ":" for member in self._members]
        texts = [
            [None if value is None else head + value for value in member.values]
            for head, member in zip(heads, self._members, strict=True)
        ]
        if math.prod(len(own) + 1 for own in texts) <= _MOST_OBJECTS:
            return self._few_args(texts)
        parts = [
            pc.take(arrow.array(own, pa.string()), member.codes)
            for own, member in zip(texts, self._members, strict=True)
        ]
        joined = arrow.joined(parts, ",")
        objects = pc.binary_join_element_wise("{", joined, "}", "")
        return pc.if_else(pc.equal(joined, ""), None, objects)

    def _few_args(self, texts: list[list[str | None]]) -> Column:
        """Return `_args` where few objects are possible. texts: those of each member."""
        codes, size = np.zeros(self.count, np.int64), 1
        for own, member in zip(texts, self._members, strict=True):
            codes = codes * (len(own) + 1) + arrow.ints(member.codes, len(own))
            size *= len(own) + 1
        used, places = _numbered(codes, size)
        objects: list[str | None] = []
        for code in used.tolist():
            parts, rest = [], code
            for own in reversed(texts):
                rest, at = divmod(rest, len(own) + 1)
                if at < len(own) and (part := own[at]) is not None:
                    parts.append(part)
            objects.append(f"{{{','.join(reversed(parts))}}}" if parts else None)
        return pc.take(arrow.array(objects, pa.string()), arrow.array(places))

    def distinct(self, to: Sequence[str], text: str) -> list[tuple[Any, ...]]:
        """Return the distinct ids and texts of facts, in the order of their first rows. to: columns of the ids."""
        if text not in self._coded or any(not isinstance(self.columns.get(key), pa.Array) for key in to):
            return []
        plain = pc.take(arrow.array(self._distinct(text), pa.string()), self._coded[text].indices)
        names = [*to, text]
        table = pa.table([*(cast("Column", self.columns[key]) for key in to), plain], names=names)
        # Threads would change the order of the groups, and so the order of the facts.
        groups = table.group_by(names, use_threads=False).aggregate([])
        rows = zip(*(groups.column(name).to_pylist() for name in names), strict=True)
        return [row for row in rows if row[-1] and all(value is not None for value in row)]

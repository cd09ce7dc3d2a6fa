r"""The report as data inside its page: every value exactly, every text of a cell once.

One JSON object, deflated, in base64: `{"texts": [...], "shown": {PLACE: TEXT}, "short": {PLACE: TEXT},
"titles": {TITLE: TEXT}, "report": {}}`. `report` has every field by name; timelines have a form of their own and are
not in it. A column has "t", places in `texts` or null, if it holds text alone, else "v": a number; a whole number
beyond 2^53 as its digits, which a script reads as BigInt; a text as `[place]`; null where nothing is known. `shown` has
the texts that a page shows with escapes (`\x1b`), `titles` such titles of columns, `short` the texts of long names.

A page may come from anywhere: `report_in` takes nothing on trust, neither sizes nor types.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import types
import typing
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from tracekit.errors import Option, ParseError, UsageError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model.cells import whole_numbers
from tracekit.model.display import BLANK_NAME, escape_controls, shown_name
from tracekit.model.names import short_names
from tracekit.model.report import Cell, Column, Curve, Figure, Flame, Heat, Report, ReportTable, Section, first_rows
from tracekit.model.timeline import CriticalPath, Timeline
from tracekit.model.units import Unit

__all__ = ["PAGE_HEAD", "PROSE", "SHORT", "is_page", "packed", "page_report", "part_of", "place_of", "report_in"]

FORMAT = 2
"""Version of the form of the data. A page of another version is refused by name, but for those of format 1."""
_READABLE = (1, FORMAT)
MOST_BYTES = 1 << 29
"""Size of the data before it was compressed. A page that claims more is refused before it fills the memory."""

PAGE_HEAD = 1 << 14
"""Bytes of a file that `is_page` needs."""
MOST_OF_PAGE = 1 << 31
"""Bytes of a page that are read."""

SHORT = 52
"""Characters of a name in a cell of a page; the tooltip, the search and every export have all of it."""
PROSE = frozenset({"meaning"})
"""Columns of sentences: whole, over several lines where they need them."""
_EXACT = 1 << 53
_MOST_DIGITS = 40
_LONGEST_NAME = 4096
_MOST = 1e308
_BLOCK = re.compile(
    rb'<script type="text/plain" id="report-data" data-format="(\d{1,9})" data-sha256="([0-9a-f]{64})">'
)
_BEGIN = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<!doctype html\b", re.IGNORECASE)
_GENERATOR = re.compile(rb'<meta name="generator" content="tracekit ([^"<>]{1,60})">')


@dataclass(frozen=True, slots=True)
class PackedColumn:
    """The data of a page: base64 text, and its hash, by which damage is noticed.

    short: the texts in cells of names that are too long.
    """

    text: str
    sha256: str
    short: Mapping[str, str]
    format: int = FORMAT


def packed(report: Report) -> PackedColumn:
    """Return a report as the data of its page."""
    places: dict[str, int] = {}
    body = _plain(replace(report, sections=tuple(map(_drawable, report.sections))), Report, places)
    texts = list(places)
    shown = {i: each for i, text in enumerate(texts) if (each := escape_controls(text)) != text}
    short = _short(texts, shown, _prose(report))
    whole = _json({"texts": texts, "shown": shown, "short": short, "titles": _titles(report), "report": body})
    text = base64.b64encode(zlib.compress(whole.encode("ascii"), 6)).decode("ascii")
    long = {texts[i]: each for i, each in short.items() if len(texts[i]) > SHORT}
    return PackedColumn(text, _digest(text.encode("ascii")), long)


def _titles(report: Report) -> dict[str, str]:
    """Return the titles of columns that a page shows with escapes: title -> text."""
    columns = (column for section in report.sections for table in section.tables for column in table.columns)
    return {each.title: text for each in columns if (text := escape_controls(each.title)) != each.title}


def _prose(report: Report) -> set[Cell]:
    """Return the sentences in the cells of tables. They stay whole, since they are no names."""
    tables = (table for section in report.sections for table in section.tables)
    return {cell for table in tables for column in table.columns if column.name in PROSE for cell in column.values}


def _short(texts: Sequence[str], shown: Mapping[int, str], prose: set[Cell]) -> dict[int, str]:
    """Return the text of a cell for names that are too long, place -> name without what says least; and for blanks.

    A cell may be empty on purpose, never of blanks alone; tables.js has a word for a row without a name.
    """
    # A text that begins with a visible character is not blank.
    odd = (i for i, text in enumerate(texts) if text and (not "!" <= text[0] <= "~" or text == BLANK_NAME))
    blank = {i: each for i in odd if (each := shown_name(texts[i])) == BLANK_NAME}
    long = [i for i, text in enumerate(texts) if SHORT < len(text) < _LONGEST_NAME and text not in prose]
    return dict(zip(long, short_names([shown.get(i, texts[i]) for i in long], SHORT), strict=True)) | blank


def is_page(head: bytes) -> bool:
    """Return whether a file that begins so is a page of tracekit."""
    return _BEGIN.match(head) is not None and _GENERATOR.search(head) is not None


def _digest(data: bytes) -> str:
    import hashlib  # loads OpenSSL, which a command that looks for a page among its inputs does not need

    return hashlib.sha256(data).hexdigest()


def report_in(page: bytes, path: str) -> Report:
    """Return the report that a page holds. Its timelines are not in it.

    Raises: ParseError for a page of another tool, of another version, cut off or changed.
    """
    block = _block(page, path)
    try:
        loaded = json.loads(_inflated(block), parse_constant=_no_number)
        texts = _texts(loaded)
        report = _value(_member(loaded, "report"), Report, texts)
    except (ValueError, RecursionError) as err:
        raise ParseError(path, "", f"the data of this page is damaged ({err})") from err
    if not isinstance(report, Report):
        raise ParseError(path, "", "the data of this page is not a report")
    return report


def _block(page: bytes, path: str) -> bytes:
    """Return the data of a page as it is in the page."""
    made = _GENERATOR.search(page[:PAGE_HEAD])
    found = _BLOCK.search(page)
    if made is None:
        raise ParseError(
            path, "", "an HTML page of another tool: tracekit reads back only the pages of `tracekit report`"
        )
    version = made[1].decode("utf-8", "replace")
    whole = page.rstrip().endswith(b"</html>")
    if found is None:
        why = "has no data to read back" if whole else "is cut off before its data"
        raise ParseError(
            path, "", f"this page of tracekit {escape_controls(version)} {why}: make it again from its trace"
        )
    if int(found[1]) not in _READABLE:
        raise ParseError(
            path, "", f"this page was made by tracekit {escape_controls(version)}, whose data this version cannot read"
        )
    end = page.find(b"</script>", found.end())
    if end < 0:
        raise ParseError(path, "", "this page is cut off within its data: make it again from its trace")
    data = page[found.end() : end]
    if _digest(data).encode() != found[2]:
        raise ParseError(
            path, "", "the data of this page was changed after it was written: make it again from its trace"
        )
    return data


def _inflated(data: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(base64.b64decode(data, validate=True), MOST_BYTES)
    except (binascii.Error, zlib.error) as err:
        raise ValueError(str(err)) from err
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError("its size is beyond all bounds, or its end is missing")
    return text


def place_of(section: Section, figure: Figure) -> int:
    """Return the place of a figure among those of its section that the data has."""
    return next(i for i, each in enumerate(_drawable(section).figures) if each is figure)


def _drawable(section: Section) -> Section:
    """Return a section without its timelines, and the paths on them."""
    drawn = (Timeline, CriticalPath)
    return replace(section, figures=tuple(each for each in section.figures if not isinstance(each, drawn)))


# To plain values of JSON


@dataclass(frozen=True, slots=True)
class JsonText:
    """A value that is JSON already."""

    text: str


def _json(value: object) -> str:
    """Return plain values as JSON in ASCII."""
    parts: list[str] = []
    _add_json(value, parts)
    return "".join(parts)


def _add_json(value: object, parts: list[str]) -> None:
    """Add the JSON of plain values to the parts of a text, which may have some 100 MB."""
    if isinstance(value, JsonText):
        parts.append(value.text)
    elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
        before = "{"
        for key, each in value.items():
            parts.append(f"{before}{_dumped(key)}:")
            _add_json(each, parts)
            before = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list) and any(isinstance(each, (JsonText, dict, list)) for each in value):
        before = "["
        for each in value:
            parts.append(before)
            _add_json(each, parts)
            before = ","
        parts.append("]")
    else:
        parts.append(_dumped(value))


def _dumped(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _plain(value: object, kind: object, places: dict[str, int]) -> object:
    """Return a value of an annotated kind as JSON has it."""
    if isinstance(value, Column):
        return _plain_column(value, places)
    if isinstance(value, Flame):
        return _plain_flame(value, places)
    if is_dataclass(value) and not isinstance(value, type):
        named = {} if is_dataclass(kind) else {"is": type(value).__name__}
        hints = _hints(type(value))
        return named | {
            each.name: _plain(getattr(value, each.name), hints[each.name], places) for each in fields(value)
        }
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple) and set(map(type, value)) == {str}:
        return list(value)
    if isinstance(value, Sequence):
        kinds = _kinds_of_items(kind, len(value))
        return [_plain(each, kinds[i], places) for i, each in enumerate(value)]
    return value


def _plain_flame(flame: Flame, places: dict[str, int]) -> dict[str, object]:
    """Return a flame graph with each name once, and each parent as a distance: both shrink well. flame.js reads it."""
    return {
        "is": "Flame",
        "title": flame.title,
        "names": [places.setdefault(str(name), len(places)) for name in flame.names],
        "up": [place - parent for place, parent in enumerate(flame.parents)],
        "base": list(flame.base),
        "new": list(flame.new),
        "left_out": flame.left_out,
        "unit": flame.unit,
        "order": list(flame.order),
        "lengths": list(flame.lengths),
    }


def _plain_column(column: Column, places: dict[str, int]) -> dict[str, object]:
    head = {"name": column.name, "title": column.title, "unit": str(column.unit), "priority": column.priority}
    if (cells := _whole(column.values)) is not None:
        return head | {"v": cells}
    kinds = set(map(type, column.values)) - {types.NoneType}
    if all(issubclass(kind, str) for kind in kinds):
        words = column.values if kinds <= {str} else [None if value is None else str(value) for value in column.values]
        known = typing.cast("Sequence[str | None]", words)
        return head | {"t": [None if word is None else places.setdefault(word, len(places)) for word in known]}
    if _has_floats_alone(column.values):
        return head | {"v": list(column.values)}
    return head | {"v": [_plain_cell(value, places) for value in column.values]}


def _whole(values: Sequence[Cell]) -> JsonText | None:
    """Return whole numbers that a script reads exactly, with null for what is not known; None for other cells.

    A table may have a row for each of 100,000 names.
    """
    cells = whole_numbers(values)
    if cells is None:
        return None
    numbers, known = cells
    if not numbers.size or (known is not None and not known.any()):
        return None
    if int(numbers.min()) < -_EXACT or int(numbers.max()) > _EXACT:
        return None
    import orjson

    if known is None:
        return JsonText(orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY).decode())
    return JsonText(orjson.dumps(list(values)).decode())


def _has_floats_alone(values: Sequence[Cell]) -> bool:
    """Return whether the known cells are floats that JSON has as they are."""
    kinds = set(map(type, values))
    known = typing.cast("Sequence[float]", [v for v in values if v is not None] if types.NoneType in kinds else values)
    return kinds - {types.NoneType} == {float} and all(map(math.isfinite, known))


def _plain_cell(value: Cell, places: dict[str, int]) -> object:
    if isinstance(value, str):
        return [places.setdefault(value, len(places))]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None:
        return None
    return int(value) if -_EXACT <= value <= _EXACT else str(int(value))


# Back from plain values


def _value(value: object, kind: object, texts: Sequence[str]) -> object:
    """Return a value of JSON as the annotated kind. Raises: ValueError for any other value."""
    if kind is Column:
        return _column(value, texts)
    if kind is Unit:
        return _unit(value)
    if kind is Flame and isinstance(value, dict):
        return _flame(value, texts)
    if isinstance(kind, type) and is_dataclass(kind):
        return _object(value, kind, texts)
    if kind is float:
        return math.nan if value is None else _scalar(value, float)
    if isinstance(kind, type) and kind in (int, str, bool, types.NoneType):
        return _scalar(value, kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _one_of(value, arguments, texts)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise ValueError("an object is missing")
        return value
    if origin is None or not issubclass(origin, Sequence) or not isinstance(value, list):
        raise ValueError("a list is missing")
    kinds = _kinds_of_items(kind, len(value))
    return tuple(_value(each, kinds[i], texts) for i, each in enumerate(value))


def _scalar(value: object, kind: type) -> object:
    if type(value) is int and kind is float:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{kind.__name__} expected")
    if isinstance(value, (int, float)) and not -_MOST < value < _MOST:  # infinity too
        raise ValueError("a number is too large")
    return value


def _one_of(value: object, kinds: Sequence[object], texts: Sequence[str]) -> object:
    for kind in kinds:
        if isinstance(kind, type) and is_dataclass(kind):
            if isinstance(value, dict) and value.get("is") == kind.__name__:
                return _value({key: each for key, each in value.items() if key != "is"}, kind, texts)
        elif isinstance(kind, type) and type(value) is kind:
            return _scalar(value, kind)
    raise ValueError("a value of another kind was expected")


def _object(value: object, kind: type, texts: Sequence[str]) -> object:
    hints = _hints(kind)
    if not isinstance(value, dict) or value.keys() != hints.keys():
        raise ValueError(f"a {kind.__name__.lower()} is not whole")
    made: object = kind(**{name: _value(value[name], hints[name], texts) for name in hints})
    if isinstance(made, ReportTable) and len({len(column.values) for column in made.columns}) > 1:
        raise ValueError("columns of a table differ in length")
    if isinstance(made, Flame) and not _has_all_paths(made):
        raise ValueError("a flame graph is not whole")
    if isinstance(made, Heat) and {len(made.values), len(made.levels)} != {len(made.rows) * len(made.columns) or -1}:
        raise ValueError("a heat map is not whole")
    if isinstance(made, Curve) and not _is_whole(made):
        raise ValueError("a curve is not whole")
    return made


def _flame(value: Mapping[str, object], texts: Sequence[str]) -> object:
    """Return the flame graph that `_plain_flame` wrote; pages of format 1 have names and parents in full."""
    if "up" not in value:
        return _object({"order": [], "lengths": [], **value}, Flame, texts)
    names, up = _member(value, "names"), _member(value, "up")
    if not isinstance(names, list) or not isinstance(up, list):
        raise ValueError("a flame graph has no names")
    if any(type(each) is not int or not 1 <= each <= place + 1 for place, each in enumerate(up)):
        raise ValueError("a flame graph is not whole")
    parents = [place - each for place, each in enumerate(up)]
    plain = {key: each for key, each in value.items() if key != "up"}
    return _object(plain | {"names": [_text(each, texts) for each in names], "parents": parents}, Flame, texts)


def _has_all_paths(flame: Flame) -> bool:
    count = len(flame.names)
    whole = {len(flame.parents), len(flame.new), len(flame.base or flame.new)} == {count}
    return whole and len(flame.order) == len(flame.lengths) and all(0 <= place < count for place in flame.order)


def _is_whole(curve: Curve) -> bool:
    columns = len(curve.edges) - 1
    return columns > 0 and len(curve.values) == len(curve.layers) and all(len(v) == columns for v in curve.values)


_NUMBERS: dict[Unit, tuple[type, ...]] = {
    Unit.NS: (int,), Unit.COUNT: (int,), Unit.BYTES: (int,), Unit.RATIO: (int, float), Unit.BYTES_PER_S: (int, float),
    Unit.NUMBER: (int, float), Unit.ID: (int, str), Unit.TEXT: (str,),
}  # fmt: skip


def _column(value: object, texts: Sequence[str]) -> Column:
    name, title = _member(value, "name"), _member(value, "title")
    unit, priority = _unit(_member(value, "unit")), _member(value, "priority")
    if not (isinstance(name, str) and isinstance(title, str) and isinstance(priority, int)):
        raise ValueError("a column has no name")
    if not isinstance(value, dict):
        raise ValueError("a column is missing")
    cells = value["t"] if "t" in value else _member(value, "v")
    if not isinstance(cells, list):
        raise ValueError("a column has no cells")
    read = [_text(each, texts) for each in cells] if "t" in value else [_cell(each, texts) for each in cells]
    allowed = _NUMBERS[unit]
    if any(cell is not None and type(cell) not in allowed for cell in read):
        raise ValueError(f"a cell of column {escape_controls(name)} is not of its unit")
    return Column(name, title, unit, read, priority)


def _unit(value: object) -> Unit:
    if not isinstance(value, str):
        raise ValueError("a unit is missing")
    return Unit(value)


def _text(place: object, texts: Sequence[str]) -> str | None:
    if place is None:
        return None
    if type(place) is not int or not 0 <= place < len(texts):
        raise ValueError("a text is missing")
    return texts[place]


def _cell(value: object, texts: Sequence[str]) -> Cell:
    if isinstance(value, list):
        return _text(value[0] if len(value) == 1 else -1, texts)
    if isinstance(value, str):
        if len(value) > _MOST_DIGITS:
            raise ValueError("a number is too long")
        return int(value)
    if value is None:
        return None
    if isinstance(value, float):
        return None if not math.isfinite(value) else value
    if isinstance(value, int) and type(value) is int and abs(value) <= _EXACT:
        return value
    raise ValueError("a cell is neither number nor text")


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _texts(loaded: object) -> list[str]:
    texts = _member(loaded, "texts")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("the texts are missing")
    return texts


def _member(value: object, name: str) -> object:
    if not isinstance(value, dict) or name not in value:
        raise ValueError(f"{name} is missing")
    return value[name]


def _kinds_of_items(kind: object, count: int) -> Sequence[object]:
    """Return the kinds of the items of a sequence: all the same, or one for each place of a tuple."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        if len(arguments) != count:
            raise ValueError("a list has another length")
        return arguments
    return [arguments[0]] * count if arguments else [object] * count


@cache
def _hints(kind: type) -> dict[str, object]:
    """Return the fields of a dataclass of `report` with their kinds."""
    hints = typing.get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


# Pages as inputs: the report that a page holds, and parts of it.


def page_report(inputs: Sequence[str]) -> Report | None:
    """Return the report that a page of `tracekit report` holds, without its timeline; None where there is no page.

    Raises: UsageError for a page among other inputs; ParseError for one that is cut off or was changed.
    """
    for path in inputs:
        try:
            with Path(path).open("rb") as file:
                if not is_page(file.read(PAGE_HEAD)):
                    continue
                if len(inputs) > 1:
                    raise UsageError(f"{path}: a page of tracekit is read alone", hint="give the traces themselves")
                file.seek(0)
                return report_in(file.read(MOST_OF_PAGE), path)
        except (OSError, ValueError):  # no file: what else it is shows when it is read
            continue
    return None


def part_of(report: Report, views: Sequence[str] = (), top: int = 0) -> Report:
    """Return some sections of a report, in the wanted order, with the first rows of each table; top: 0 for all.

    Raises: UsageError for a view that the report does not have.
    """
    if views and "all" not in views:
        have = {section.view: section for section in report.sections}
        for name in views:
            if name not in have:
                raise UsageError(sentence(Option("view", name), ": no such view on this page"), choices=have)
        report = replace(report, sections=tuple(have[name] for name in dict.fromkeys(views)))
    return report if not top else replace(report, sections=tuple(first_rows(each, top) for each in report.sections))

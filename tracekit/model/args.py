"""Members of the JSON objects in a column `args`, for all rows at once.

Every function takes the column and one or more keys, and looks at the top level of each object; of several keys the
first that an object has counts. Equal texts are parsed once; encode the column first (`column.dictionary_encode()`)
to ask it for many keys. A row whose `args` are null, broken, or not an object has no member: no text raises an error.

>>> column = pa.array(['{"Seq":7,"dtype":"Float"}', None, '{"Seq":"8"}', '{broken'])
>>> integers(column, "Seq")
(array([7, 0, 8, 0]), array([ True, False,  True, False]))
>>> texts(column, "dtype")
(array([ 0, -1, -1, -1]), ['Float'])
"""

from __future__ import annotations

import math
import re
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import arrow
from tracekit.model.arrow import F64, I64, Column, Mask, Rows, Values, pc

__all__ = ["flags", "floats", "integers", "items_of", "texts", "unescaped", "values", "with_member"]

_INTEGER = lazy_pattern(r"-?[0-9]{1,19}", re.ASCII)
_ESCAPE = lazy_pattern(r"\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|.)", re.DOTALL)
"""Any escape, so that a backslash which is escaped itself begins none; of a pair of surrogates the second one too."""
_LIMIT = 1 << 63

T = TypeVar("T", int, float, bool)
G = TypeVar("G", bound=np.generic)


def integers(column: Values, *keys: str) -> tuple[I64, Mask]:
    """Return the int64 members, 0 where a row has none, and which rows have one.

    A text that is nothing but a decimal integer counts; a float, true, and a number beyond int64 do not.
    """
    codes, members = values(column, *keys)
    return _by_row(codes, [_integer(member) for member in members], 0, np.int64)


def floats(column: Values, *keys: str) -> tuple[F64, Mask]:
    """Return the finite numbers as float64, nan where a row has none, and which rows have one."""
    codes, members = values(column, *keys)
    return _by_row(codes, [_float(member) for member in members], math.nan, np.float64)


def flags(column: Values, *keys: str) -> Mask:
    """Return which rows have a member that is true."""
    codes, members = values(column, *keys)
    return np.array([*(member is True for member in members), False], np.bool_)[codes]


def texts(column: Values, *keys: str) -> tuple[I64, list[str]]:
    """Return the code of each row's text, -1 where it has none, and the distinct texts in order of first use.

    A member of another type (a number, a list) counts as missing.
    """
    codes, members = values(column, *keys)
    number: dict[str, int] = {}
    renumbered = [number.setdefault(_whole(m), len(number)) if isinstance(m, str) else -1 for m in members]
    return np.array([*renumbered, -1], np.int64)[codes], list(number)


def values(column: Values, *keys: str) -> tuple[I64, list[object]]:
    """Return the code of each row's member, -1 where it has none, and the members by code.

    A member is what JSON holds: a number, text, bool, None, list or dict. Equal members may have several codes.
    """
    plain = _one_column(column)
    if isinstance(plain, pa.DictionaryArray):
        of_text, members = _members(plain.dictionary, keys)
        return np.append(of_text, -1)[arrow.codes(plain)], members
    rows = _mentions(plain, keys)
    codes = np.full(len(plain), -1, np.int64)
    if not rows.size:
        return codes, []
    mentioning = plain if rows.size == len(plain) else arrow.take(plain, rows)
    codes[rows], members = values(mentioning.dictionary_encode(), *keys)
    return codes, members


def with_member(args: str | None, key: str, value: int) -> str:
    """Return a JSON object with one more member; a text that is no object becomes one, which has it as `args_text`.

    >>> with_member('{"a":1}', "b", 2), with_member(None, "b", 2)
    ('{"a":1,"b":2}', '{"b":2}')
    """
    text = (args or "{}").rstrip()
    if text[:1] != "{" or text[-1:] != "}":
        import orjson

        text = orjson.dumps({"args_text": args}).decode()
    head = text[:-1].rstrip()
    return f'{head}{"" if head == "{" else ","}"{key}":{value}}}'


def unescaped(column: Column) -> Column:
    """Return texts of JSON with each character as itself that a producer wrote as \\uXXXX, as far as JSON allows.

    Quotes, backslashes, control characters and half surrogate pairs stay escaped. Other rows stay as they are.

    >>> unescaped(pa.array(['{"a":"caf\\\\u00e9 \\\\u0022"}', None])).to_pylist()
    ['{"a":"café \\\\""}', None]
    """
    rows = np.flatnonzero(arrow.bools(pc.match_substring(column, "\\u")))
    if not rows.size:
        return column
    # All texts at once: a NUL between them, which JSON has not.
    texts = _ESCAPE.sub(_character, "\0".join(arrow.texts(arrow.take(column, rows)))).split("\0")
    if len(texts) != rows.size:
        return column
    place = np.full(len(column), -1, np.int64)
    place[rows] = np.arange(rows.size)
    others: Column = pc.if_else(arrow.array(place < 0), column, arrow.nulls(len(column), pa.string()))
    return pc.coalesce(arrow.array(texts, pa.string()).take(arrow.array(place, mask=place < 0)), others)


def _character(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[0]
    code = int(escape[1], 16)
    if escape[2] is not None and 0xD800 <= code < 0xDC00:
        return chr(0x10000 + (code - 0xD800) * 0x400 + int(escape[2], 16) - 0xDC00)
    rest = escape[0][6:]
    if code < 0x20 or code in (0x22, 0x5C) or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000:
        return {0x22: '\\"', 0x5C: "\\\\"}.get(code, escape[0][:6]) + rest
    return chr(code) + rest


def _one_column(column: Values) -> Column:
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunks[0]
    return pa.concat_arrays(column.chunks) if column.num_chunks else arrow.nulls(0, pa.string())


def _mentions(texts: Column, keys: tuple[str, ...]) -> Rows:
    """Return the rows whose text has one of the keys in it: the others need no parser."""
    # Arrow's own search for a literal looks at each byte; its regular expressions skip ahead.
    return np.flatnonzero(arrow.bools(pc.match_substring_regex(texts, f'"(?:{"|".join(map(re.escape, keys))})"')))


def _members(texts: Column, keys: tuple[str, ...]) -> tuple[I64, list[object]]:
    """Return the code of each text's member, -1 for none, and the members."""
    rows = _mentions(texts, keys)
    codes = np.full(len(texts), -1, np.int64)
    if not rows.size:
        return codes, []
    from tracekit.model.args_parser import ABSENT, parsed

    found = parsed(texts if rows.size == len(texts) else arrow.take(texts, rows), keys)
    there = np.array([member is not ABSENT for member in found], np.bool_)
    codes[rows] = np.where(there, np.cumsum(there) - 1, -1)
    return codes, [member for member in found if member is not ABSENT]


def _by_row(codes: I64, known: list[T | None], absent: T, dtype: type[G]) -> tuple[npt.NDArray[G], Mask]:
    numbers = np.array([*(absent if value is None else value for value in known), absent], dtype)
    return numbers[codes], np.array([*(value is not None for value in known), False], np.bool_)[codes]


def _integer(member: object) -> int | None:
    number = int(member) if isinstance(member, str) and _INTEGER.fullmatch(member) else member
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    return number if -_LIMIT <= number < _LIMIT else None


def _float(member: object) -> float | None:
    if isinstance(member, bool) or not isinstance(member, (int, float)):
        return None
    try:
        value = float(member)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _whole(text: str) -> str:
    """Return a text that UTF-8 can hold: half a character (a lone surrogate) becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def items_of(value: object) -> list[object]:
    """Return a list that JSON had, [] for anything else."""
    return value if isinstance(value, list) else []

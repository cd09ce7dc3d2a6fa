"""Objects of args whose texts differ in the digits of their numbers alone, read by columns.

Most rows of a trace have args of a few forms: `{"External id":100,"cbid":211}`, then `{"External id":101,"cbid":211}`.
With 0 in the place of each digit, texts of one form and with numbers of one length are equal. One of them is parsed,
and says where the others have their numbers. What this does not fit is left to a parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import F64, I64, Bytes, Column

__all__ = ["AlikeObjects", "Constant", "Value", "alike_objects"]

_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|(-?)(0+)((?:\.0+)?(?:[eE][+-]?0+)?)', re.DOTALL)
"""A string, or a number in which each digit is 0: sign, whole part, and the rest of a double."""
_MOST_DIGITS = 18
"""Digits of a whole number that fits into 64 bits, whatever they are."""
_ZERO = ord("0")


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that all objects share."""

    value: object


Value: TypeAlias = I64 | F64 | Constant


@dataclass(frozen=True, slots=True, eq=False)
class AlikeObjects:
    """Objects with the same keys. members: the numbers of their texts, ascending, shape (n,). values: one for each key.

    Whole numbers and doubles are columns of shape (n,).
    """

    members: I64
    values: dict[str, Value]


def alike_objects(texts: Column, least: int) -> Iterator[AlikeObjects]:
    """Yield the objects of texts that at least `least` others are like; no text is in two of them.

    texts: of args, none null. An object has the keys, order and values that `json_text.parsed` gives.
    """
    offsets, data = arrow.text_parts(texts)
    if len(texts) < least:
        return
    data, offsets = data[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0]
    masked = np.frombuffer(data.tobytes().translate(_AS_ZERO), np.uint8)
    forms = arrow.text_column(offsets, masked, pa.large_binary()).dictionary_encode()
    code = arrow.codes(forms)
    counts = np.bincount(code, minlength=len(forms.dictionary))
    if int(counts.max()) < least:
        return
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(counts)
    for form in np.flatnonzero(counts >= least).tolist():
        members = order[ends[form] - counts[form] : ends[form]]
        values = _values(forms.dictionary[form].as_py(), data, offsets[members])
        if values is not None:
            yield AlikeObjects(members, values)


def _values(form: bytes, data: Bytes, starts: I64) -> dict[str, Value] | None:
    """Return the values of objects, None where only a parser can. starts: where each text begins in the bytes."""
    first = data[int(starts[0]) : int(starts[0]) + len(form)].tobytes()
    pieces: list[bytes] = []
    numbers: list[re.Match[bytes]] = []
    end = 0
    for token in _TOKEN.finditer(form):
        if token[2] is None:
            if any(not _is_constant(data, starts, at) for at in _digits(form, token.start(), token.end())):
                return None
            continue
        pieces += [first[end : token.start()], b"%d" % len(numbers)]
        end = token.end()
        numbers.append(token)
    try:
        orjson.loads(first)  # a whole number may have a 0 before it, which the number in its place has not
        found: object = orjson.loads(b"".join([*pieces, first[end:]]))
    except ValueError:
        return None
    if not isinstance(found, dict) or not found or any(isinstance(value, (list, dict)) for value in found.values()):
        return None
    columns: list[Value] = []
    for token in numbers:
        column = _doubles(token, data, starts) if token[3] else _integers(token, data, starts)
        if column is None:
            return None
        columns.append(column)
    return {key: columns[value] if type(value) is int else Constant(value) for key, value in found.items()}


def _digits(form: bytes, start: int, end: int) -> Iterator[int]:
    return (at for at in range(start, end) if form[at] == _ZERO)


def _is_constant(data: Bytes, starts: I64, at: int) -> bool:
    here = data[starts + at]
    return bool((here == here[0]).all())


def _integers(token: re.Match[bytes], data: Bytes, starts: I64) -> I64 | None:
    begin, end = token.span(2)
    if end - begin > _MOST_DIGITS:
        return None
    value = np.zeros(len(starts), np.int64)
    places = starts + begin
    for at in range(begin, end):
        digits = data[places]
        if at == begin and end - begin > 1 and bool((digits == _ZERO).any()):  # not JSON
            return None
        value *= 10
        value += digits
        value -= _ZERO
        places += 1
    if token[1]:
        if not value.all():  # -0
            return None
        np.negative(value, out=value)
    return value


def _doubles(token: re.Match[bytes], data: Bytes, starts: I64) -> F64 | None:
    begin, end = token.span(2)
    if end - begin > 1 and bool((data[starts + begin] == _ZERO).any()):  # not JSON
        return None
    begin, end = token.span()
    texts = data[starts[:, None] + np.arange(begin, end)].view(f"S{end - begin}")[:, 0]
    distinct, place = np.unique(texts, return_inverse=True)
    values = np.array([float(each) for each in distinct.tolist()], np.float64)
    return values[place] if np.isfinite(values).all() else None

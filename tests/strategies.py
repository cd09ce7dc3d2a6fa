"""Hypothesis strategies: any table of EVENTS or TOTALS that the schema allows."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tracekit import credentials
from tracekit.model import schema
from tracekit.model.trace import Trace

BIG = 1 << 62

_SUSPECT = re.compile(credentials.SUSPECT)
texts = st.one_of(
    st.sampled_from(
        ["", "a", '"', "\\", "\n", "\r\n", "\0", "\t", "\x1f\x7f", "\u2028", "🚀", "é", ",", "'", "</script>", "null"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
).filter(lambda text: not _SUSPECT.search(f"{text} "))
"""Text that UTF-8 can hold: no lone surrogates, and no word such as "secret" (hypothesis takes words from our code),
whose value a reader masks."""

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def args_texts(draw: st.DrawFn) -> str:
    """JSON object as text, spaced and escaped in any of the usual ways."""
    value = draw(st.dictionaries(texts, json_values, max_size=3))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    indent = draw(st.sampled_from([None, None, None, 1]))
    return json.dumps(value, ensure_ascii=draw(st.booleans()), separators=separators, indent=indent)


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if kind == pa.int32():
        return st.one_of(st.integers(-3, 300), st.integers(-(1 << 31), (1 << 31) - 1))
    if kind == pa.int64():
        return st.one_of(st.integers(-3, 3000), st.integers(-BIG, BIG))
    if kind == pa.float64():
        return st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1e22, 5e-324, 0.1]))
    return texts


def _column(spec: schema.ColumnSpec, rows: int) -> st.SearchStrategy[list[Any]]:
    values = _values(spec.type)
    if spec.name == "kind":
        values = st.sampled_from(sorted(schema.KINDS))
    elif spec.name == "args":
        values = args_texts()
    elif spec.name == "source":
        values = st.integers(0, 3)
    if not spec.nullable:
        return st.lists(values, min_size=rows, max_size=rows)
    empty = st.just([None] * rows)
    full = st.lists(values, min_size=rows, max_size=rows)
    some = st.lists(st.one_of(st.none(), values), min_size=rows, max_size=rows)
    return st.one_of(empty, some, full)


@st.composite
def tables(draw: st.DrawFn, table: str = "events", max_rows: int = 12) -> pa.Table:
    """A table of EVENTS or TOTALS: every column, nulls, extreme integers, any text."""
    want = schema.EVENTS if table == "events" else schema.TOTALS
    rows = draw(st.integers(0, max_rows))
    arrays = []
    for spec in schema.describe(table):
        values = draw(_column(spec, rows))
        plain = pa.string() if spec.type == schema.TEXT else spec.type
        array = pa.array(values, plain)
        arrays.append(array.dictionary_encode() if spec.type == schema.TEXT else array)
    return pa.Table.from_arrays(arrays, schema=want)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """A trace with events, totals, both or neither."""
    return Trace(draw(tables("events")), draw(tables("totals", max_rows=4)))


def _comparable(value: object) -> object:
    return repr(value) if isinstance(value, float) else value


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    """The rows as plain values that compare exactly: floats by repr, so that NaN equals NaN and -0.0 is not 0.0."""
    return [{key: _comparable(value) for key, value in row.items()} for row in table.to_pylist()]

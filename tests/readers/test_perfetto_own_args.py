"""Columns are taken out of the arguments of our own traces as a whole, and each as by itself."""

from __future__ import annotations

import orjson
import pyarrow as pa
from doors.readers import SHAPES, TYPES, columns_of, split
from hypothesis import given
from hypothesis import strategies as st
from strategies import texts

NUMBERS = st.one_of(st.integers(-3, 300), st.integers(-(1 << 63), (1 << 63) - 1))
NAMES = st.sampled_from([*TYPES, *SHAPES, "args_text", "External id", "step (2)"])
JSON = st.one_of(st.none(), st.booleans(), NUMBERS, texts, st.dictionaries(texts, NUMBERS, max_size=2))
VALUES = st.one_of(
    NUMBERS, texts, st.floats(allow_nan=False, allow_infinity=False), JSON,
    st.lists(st.integers(-5, 1 << 32), min_size=2, max_size=4), st.dictionaries(NAMES, NUMBERS, max_size=2),
)  # fmt: skip
COLUMNS = st.dictionaries(st.sampled_from([name for name in TYPES if name != "args"]), st.integers(0, 40), max_size=5)
OBJECTS = st.one_of(
    st.none(), st.dictionaries(st.one_of(NAMES, texts), VALUES, max_size=5),
    st.builds(lambda columns, rest: columns | rest, COLUMNS, st.dictionaries(texts, JSON, max_size=3)),
)  # fmt: skip


@given(st.lists(OBJECTS, max_size=12))
def test_all_at_once_is_each_by_itself(objects: list[dict[str, object] | None]) -> None:
    written = [None if each is None else orjson.dumps(each).decode() for each in objects]
    found = columns_of(pa.array(written, pa.string()))
    assert {name: column.type for name, column in found.items()} == TYPES
    columns = [column.to_pylist() for column in found.values()]
    rows = [dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)]
    want = [split(text) for text in written]
    assert [{key: value for key, value in row.items() if value is not None} for row in rows] == [*want, {}]

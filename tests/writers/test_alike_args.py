"""Objects of args that differ in digits alone are read by columns: the same values as a parser gives."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
from doors.writers import AlikeObjects, Constant, alike_objects
from hypothesis import given
from hypothesis import strategies as st

from tracekit.writers.json_text import parsed

PIECES = [
    '"a":#', '"b":-#', '"b":#.#', '"c":#e#', '"c":#E-#', '"d":"x#y"', '"d#":#', '"e":true', '"e":null', '"f":[#,#]',
    '"f":{"g":#}', '"a":"\\"#"', '"h":"\\ud800"', '"i":#.', '"j":00', '"k":"é#"', '"a":# ', '"l":#e999', '"":#',
]  # fmt: skip
NUMBERS = st.one_of(st.integers(0, 12), st.integers(0, (1 << 64) + 9), st.sampled_from(["007", "0", "1000", "10"]))


@st.composite
def texts(draw: st.DrawFn) -> list[str]:
    """Texts of a few forms, each with other numbers."""
    forms = draw(st.lists(st.lists(st.sampled_from(PIECES), max_size=4), min_size=1, max_size=3))
    found = []
    for form in draw(st.lists(st.sampled_from(forms), max_size=24)):
        first, *rest = ("{" + ",".join(form) + "}").split("#")
        found.append(first + "".join(f"{draw(NUMBERS)}{each}" for each in rest))
    return list(dict.fromkeys(found))


def objects_of(alike: AlikeObjects) -> list[dict[str, object]]:
    columns = [
        [value.value] * len(alike.members) if isinstance(value, Constant) else value.tolist()
        for value in alike.values.values()
    ]
    return [dict(zip(alike.values, row, strict=True)) for row in zip(*columns, strict=True)]


@given(texts(), st.sampled_from([1, 2, 3]))
def test_objects_are_those_of_a_parser(each: list[str], least: int) -> None:
    column = pa.array(["not read", *each], pa.string()).slice(1)
    seen: set[int] = set()
    for alike in alike_objects(column, least):
        members = alike.members.tolist()
        assert members == sorted(members)
        assert len(members) >= least
        assert seen.isdisjoint(members)
        seen.update(members)
        for at, found in zip(members, objects_of(alike), strict=True):
            assert repr(found) == repr(parsed(each[at]))  # with types and order


def test_plain_objects_are_read_by_columns() -> None:
    rows = [{"External id": 100 + n, "blocks per SM": 1.5 + n, "type": "x", "queued": 0} for n in range(5)]
    other = ["{}", "no object", '{"External id": 7}', json.dumps({"External id": 100, "dims": [1, 2]})]
    column = pa.array([*other, *(json.dumps(row, separators=(",", ":")) for row in rows)])
    (alike,) = alike_objects(column, 2)
    assert alike.members.tolist() == [4, 5, 6, 7, 8]
    assert objects_of(alike) == rows
    assert np.asarray(alike.values["External id"]).dtype == np.int64


def test_a_few_objects_are_left_to_a_parser() -> None:
    assert list(alike_objects(pa.array(['{"a":1}', '{"a":2}']), 3)) == []
    assert list(alike_objects(pa.array([], pa.string()), 3)) == []

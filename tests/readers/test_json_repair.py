"""Broken lists of JSON objects: what is whole is kept, and looking for ends takes work that grows with the data."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.readers.trace_event import _repair
from tracekit.readers.trace_event._repair import LONGEST_OBJECT, is_json, objects, repaired

WHOLE = b'{"name":"gemm","ph":"X","args":{"name":"inside"},"n":1}'
ROW = b'5600391803247,"dur":443072,"args":{"name":"[CUDA memcpy HtoD]"}}'
"""What is left of an event that lost its beginning, with no comma behind it."""


def texts(data: bytes) -> list[bytes]:
    return [text for _, _, text in objects(data, final=True) if text is not None]


@given(
    rows=st.lists(
        st.dictionaries(st.sampled_from(["name", "ph", "args"]), st.sampled_from(["a", 'q"', "x}{", {"name": "n"}])),
        min_size=1,
    )
)
def test_objects_that_are_whole_are_found_as_they_are(rows: list[dict[str, object]]) -> None:
    data = [json.dumps(row).encode() for row in rows]
    assert texts(b",".join(data) + b"]") == data


@pytest.mark.parametrize("count", [200, 2000])
def test_work_for_ends_grows_with_the_data(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    looked_at = 0

    def counted(way: Callable[[bytes], object]) -> Callable[[bytes], object]:
        def counting(text: bytes) -> object:
            nonlocal looked_at
            looked_at += len(text) if len(text) > _repair._SHORT else 0
            return way(text)

        return counting

    ways = {name: counted(getattr(_repair, name)) for name in ("is_json", "repaired")}
    waste = list(_repair._WASTE.values())
    monkeypatch.setattr(_repair, "_WASTE", dict(zip(ways.values(), waste, strict=True)))
    for name, way in ways.items():
        monkeypatch.setattr(_repair, name, way)
    data = WHOLE + b"," + ROW * count + b",\n" + WHOLE
    found = texts(data)
    assert (found[0], found[-1]) == (WHOLE, WHOLE)
    # `repaired` asks `is_json` up to three times.
    assert looked_at < 4 * (sum(waste) * len(data) + 2 * LONGEST_OBJECT)


def test_what_is_repaired_is_json_and_what_is_json_stays() -> None:
    assert repaired(WHOLE) == WHOLE
    for broken in (
        b'{"a":NaN}',
        b'{"a":"b\x01"}',
        b'{"a":"C:\\Users"}',
        b'{"a":"say "x" now"}',
        b'{"a":-inf,"b":"nan"}',
    ):
        found = repaired(broken)
        assert found is not None
        assert is_json(found)
    assert repaired(b'{"a":}') is None

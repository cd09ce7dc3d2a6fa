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

    ways = {name: counted(getattr(_repair, name)) for name in ("is_json", "cleaned", "repaired")}
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


NESTED = (
    b'{"ph":"X","args":{"o":[{"z":NaN}]}}',
    b'{"ph":"X","args":{"name":"n","o":{"y":[1e999,{"z":null}],"x":[]}}}',
    b'{"ph":"X","args":{"o":[' + b",".join([b'{"name":"n"}'] * 99) + rb'],"path":"C:\Users","v":-Infinity}}',
)


def test_numbers_that_json_lacks_cost_no_event_however_deep_they_are() -> None:
    """A bracket inside of such an event was taken for the end of the list: all that followed was lost."""
    data = b",\n".join((*NESTED, WHOLE)) + b"]"
    found = texts(data)
    assert found[-1] == WHOLE
    assert [b"1e999" in text or b'"NaN"' in text or b'"-Infinity"' in text for text in found] == [True] * 3 + [False]


def test_an_event_that_nests_too_deep_costs_itself() -> None:
    deep = b'{"ph":"X","args":{"d":' + b"[" * 5000 + b"1" + b"]" * 5000 + b"}}"
    assert [text for _, _, text in objects(WHOLE + b"," + deep + b"," + WHOLE + b"]", final=True)] == [
        WHOLE,
        None,
        WHOLE,
    ]


def test_an_event_that_is_cut_at_the_end_of_a_block_waits_for_the_rest() -> None:
    data = b",".join((*NESTED, WHOLE)) + b"]"
    whole = list(objects(data, final=True))
    for size in range(len(data)):
        found = list(objects(data[:size], final=False))
        assert found == whole[: len(found)]
        assert len(found) >= sum(end < size for _, end, _ in whole)

"""Broken lists of JSON objects: what is whole is kept, and looking for ends takes work that grows with the data."""

from __future__ import annotations

import json

import pytest
from doors.readers import is_json, pieces, repaired
from doors.readers import trace_event_resync as _resync
from hypothesis import given
from hypothesis import strategies as st

WHOLE = b'{"name":"gemm","ph":"X","args":{"name":"inside"},"n":1}'
ROW = b'5600391803247,"dur":443072,"args":{"name":"[CUDA memcpy HtoD]"}}'
"""What is left of an event that lost its beginning, with no comma behind it."""


def texts(data: bytes) -> list[bytes]:
    return [piece.text for piece in pieces(data, final=True) if piece.text is not None]


@given(
    rows=st.lists(
        st.dictionaries(st.sampled_from(["name", "ph", "args"]), st.sampled_from(["a", 'q"', "x}{", {"name": "n"}])),
        min_size=1,
    )
)
def test_objects_that_are_whole_are_found_as_they_are(rows: list[dict[str, object]]) -> None:
    data = [json.dumps(row).encode() for row in rows]
    assert texts(b",".join(data) + b"]") == data


LOST_QUOTE = b'{"name": "gemm,"ph":"X","ts":1,"pid":1,"args":{"o":[{"name":"n"},{"name":"n"}]}}'
NEVER_ENDS = b'{"name":"gemm","ph":"X","ts":1,"pid":1,"args":{"o":[{"name":"n"}'
LONG = b'{"name":"gemm","ph":"X","ts":1,"pid":1,"args":{"o":["' + b"x" * 10_000 + b'"],"y":}}'
NESTS = b'{"name":"gemm","ph":"X","ts":1,"pid":1,"args":' + b'{"a":' * 400


@pytest.mark.parametrize(
    "event", [ROW, LOST_QUOTE, NEVER_ENDS, LONG, NESTS, b'{"name":"a"', b'{"', b"]", b"}", b'"', b"\0{"]
)
def test_work_for_ends_grows_with_the_data(event: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all is broken, each object would else be searched to the end of the data."""
    looked_at = 0
    look, brackets = _resync._EventSplitter._whole, _resync._EventSplitter._brackets

    def whole(self: _resync._EventSplitter, at: int, stop: int) -> int:
        nonlocal looked_at
        looked_at += stop - at
        return look(self, at, stop)

    def closed(self: _resync._EventSplitter, at: int, stop: int) -> object:
        nonlocal looked_at
        looked_at += stop - at
        return brackets(self, at, stop)

    monkeypatch.setattr(_resync._EventSplitter, "_whole", whole)
    monkeypatch.setattr(_resync._EventSplitter, "_brackets", closed)
    work = []
    for size in (1 << 18, 1 << 20):
        looked_at = 0
        data = WHOLE + b"," + (event + b",") * (size // len(event)) + b"\n" + WHOLE
        found = [piece for piece in pieces(data, final=True) if piece.text is not None]
        assert (found[0].text, found[-1].text) == (WHOLE, WHOLE)
        work.append(looked_at)
    assert work[1] < 5 * work[0]


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
    data = WHOLE + b"," + deep + b"," + WHOLE + b"]"
    assert [piece.text for piece in pieces(data, final=True)] == [WHOLE, None, WHOLE]


def test_an_event_that_is_cut_at_the_end_of_a_block_waits_for_the_rest() -> None:
    data = b",".join((*NESTED, WHOLE)) + b"]"
    whole = list(pieces(data, final=True))
    for size in range(len(data)):
        found = list(pieces(data[:size], final=False))
        assert found == whole[: len(found)]
        # What is repaired waits for what follows it: that shows whether it ends there.
        assert len(found) >= sum(piece.end < size for piece in whole) - 1

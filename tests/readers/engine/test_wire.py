"""Fields of many messages at once: those of damaged messages are kept up to the damage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model.digits import signed, varint
from tracekit.readers.engine.wire import Fields, WireError, padded, scan, words_of
from tracekit.readers.engine.wire import fields_of as one_by_one


def fields_of_all(*messages: bytes) -> Fields:
    ends = np.cumsum([len(each) for each in messages])
    return scan(words_of(padded(b"".join(messages))), ends - [len(each) for each in messages], ends)


@pytest.mark.parametrize("damage", [b"\x0b", b"\x08", b"\x07\x01", b"\x12\x05a"], ids=["group", "cut", "zero", "long"])
def test_a_damaged_message_keeps_the_fields_before_the_damage(damage: bytes) -> None:
    alone = fields_of_all(damage, damage)
    assert alone.bad.tolist() == [0, 1]
    assert alone.counts() == {}
    among = fields_of_all(b"\x08\x07", b"\x08\x09" + damage, b"\x10\x05\x08\x06")
    assert among.bad.tolist() == [1]
    assert among.of(1, 0).value.tolist() == [7, 9, 6]
    assert among.counts() == {1: 3, 2: 1}
    assert among.per_message(3).tolist() == [1, 1, 2]


def test_fields_of_some_messages_are_numbered_anew() -> None:
    fields = fields_of_all(b"\x08\x01\x12\x01a", b"\x10\x02", b"", b"\x08\x03\x08\x04").among(
        np.array([False, True, True, True])
    )
    assert fields.of(1, 0).row.tolist() == [2, 2]
    assert fields.of(1, 0).value.tolist() == [3, 4]
    assert fields.of(2, 0).row.tolist() == [0]
    assert fields.of(2, 2).row.tolist() == []


NUMBERS = st.one_of(st.integers(0, 1 << 15), st.integers(0, (1 << 64) - 1))


def field(number: int, wire: int, value: int) -> bytes:
    """A field with a value of its wire type; its bytes are as many as the value has in its lowest bits."""
    tag = varint(number << 3 | wire)
    if wire == 0:
        return tag + varint(value)
    if wire == 2:
        return tag + varint(value % 200) + b"x" * (value % 200)
    return tag + value.to_bytes(8, "little")[: 8 if wire == 1 else 4]


SHAPES = st.lists(
    st.tuples(st.sampled_from((1, 5, 15, 16, 47, 2000, 5000)), st.sampled_from((0, 0, 1, 2, 5))), max_size=5
)


@given(st.data(), st.lists(SHAPES, min_size=1, max_size=3))
def test_fields_of_many_messages_are_those_of_each(data: st.DataObject, shapes: list[list[tuple[int, int]]]) -> None:
    """Messages of one shape, of several, and damaged ones among them."""
    messages = []
    for shape in data.draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=12)):
        message = b"".join(field(number, wire, data.draw(NUMBERS)) for number, wire in shape)
        if data.draw(st.integers(0, 9)) == 0:
            message = message[: data.draw(st.integers(0, len(message)))] + data.draw(st.binary(max_size=3))
        messages.append(message)
    found = fields_of_all(*messages)
    begin, want, bad = 0, [], []
    for row, message in enumerate(messages):
        try:
            for one in one_by_one(message):
                if one.end > len(message) or one.number >= 1 << 29:
                    raise WireError("beyond the message")
                want.append((row, one.number, one.wire, one.value, one.at + begin if one.wire == 2 else 0))
        except WireError:
            bad.append(row)
        begin += len(message)
    assert sorted(found.bad.tolist()) == bad
    steps = [zip(*(each.tolist() for each in step), strict=True) for step in found.steps]
    fields = [field for step in steps for field in step]
    assert sorted(
        (row, tag >> 3, tag & 7, value, at if tag & 7 == 2 else 0) for row, tag, value, at in fields
    ) == sorted(want)
    for number, wire in {(number, wire) for _, number, wire, _, _ in want if wire != 2}:
        values, has = found.last(number, wire, len(messages))
        last = {row: value for row, own, kind, value, _ in want if (own, kind) == (number, wire)}
        assert np.flatnonzero(has).tolist() == sorted(last)
        assert values[has].tolist() == [signed(last[row]) for row in sorted(last)]
    rows, others, places = found.besides(frozenset({1, 5}))
    order = np.lexsort((places, rows))
    shown = list(zip(rows[order].tolist(), others[order].tolist(), strict=True))
    assert shown == [(row, number) for row, number, _, _, _ in want if number not in (1, 5)]

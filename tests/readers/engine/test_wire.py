"""Fields of many messages at once: those of damaged messages are kept up to the damage."""

from __future__ import annotations

import numpy as np
import pytest

from tracekit.readers.engine.wire import Fields, padded, scan, words_of


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

"""The log format's specification is executable: its example is parsed, its encoders are held against it."""

from __future__ import annotations

import json
import math

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.recorder import log_format as lf

INT64 = st.integers(-(2**63), 2**63 - 1)


def example_lines() -> list[dict]:
    """The example of the module docstring; the header's broken line is joined."""
    block = [line[4:] for line in lf.__doc__.split("\n") if line.startswith(("    {", '     "'))]
    text = "\n".join(block).replace("\n ", "")
    return [json.loads(line) for line in text.split("\n")]


def test_the_example_in_the_specification_is_a_log_whose_item_count_holds() -> None:
    lines = example_lines()
    assert lines[0]["format"] == lf.FORMAT_NAME
    assert lines[0]["version"] == lf.VERSION
    assert {line["k"] for line in lines[1:]} == set(lf.ITEM_LENGTH) | lf.FACT_KINDS
    items = 0
    for line in lines[1:]:
        if line["k"] in lf.ITEM_LENGTH:
            assert len(line["x"]) % lf.ITEM_LENGTH[line["k"]] == 0
            items += len(line["x"]) // lf.ITEM_LENGTH[line["k"]]
    assert lines[-1] == {"k": "end", "t": lines[-1]["t"], "items": items, "how": lf.STOP}
    assert (lines[1]["k"], lines[1]["items"]) == ("beat", items)


def test_the_encoders_write_the_example_byte_for_byte() -> None:
    lines = example_lines()
    assert lf.encode(lines[0]).startswith(lf.HEAD_PREFIX)
    head = {key: value for key, value in lines[0].items() if key not in ("format", "version")}
    t = 123456000000000
    made = [
        lf.head_line(**head),
        lf.beat_line(perf_ns=t + 12900, items=9, flushes=1, wait_ns=12950),
        lf.clock_line(perf_ns=t, epoch_ns=1767225600000000000, uncertainty_ns=85),
        lf.thread_line(index=0, tid=4242, name="MainThread"),
        lf.name_line(name_id=1, name="step", kind="step"),
        lf.name_line(name_id=2, name="forward", kind="forward", category="model", color="#76B900"),
        lf.name_line(name_id=3, name="loss", kind=lf.DEFAULT_KIND),
        lf.step_line(items=[12, t + 1000, 0]),
        lf.range_line(
            thread=0,
            items=[1, 1000001000, 2, 1000002000, -2, 1000009000],
            offset=t - 1000000000,
            payloads=[(1, {"batch": 32})],
        ),
        lf.counter_line(items=[3, t + 9100, 0], values=[0.25]),
        lf.mark_line(items=[3, t + 9200, 0], payloads=[(0, "checkpoint")]),
        lf.async_line(items=[2, t + 9300, 7, 0]),
        lf.async_line(items=[-2, t + 11000, 7, 0]),
        lf.range_line(thread=0, items=[-1, t + 12000], unfinished=[0]),
        lf.note_line(code="range_crossed", count=1),
        lf.end_line(perf_ns=t + 13000, items=9),
    ]
    assert [lf.encode(line) for line in made] == [lf.encode(line) for line in lines]


@given(st.lists(st.tuples(st.integers(1, 2**31), st.integers(1, 2**63 - 1), st.booleans())))
def test_item_arrays_come_back_as_columns_exactly(items: list[tuple[int, int, bool]]) -> None:
    flat = [value for name, t, begins in items for value in (name if begins else -name, t)]
    line = orjson.loads(lf.encode(lf.range_line(thread=0, items=flat)))
    table = np.array(line["x"], np.int64).reshape(-1, lf.ITEM_LENGTH["r"])
    assert np.abs(table[:, 0]).tolist() == [name for name, _, _ in items]
    assert table[:, 1].tolist() == [t for _, t, _ in items]
    assert (table[:, 0] > 0).tolist() == [begins for _, _, begins in items]


@given(st.text() | st.text(st.characters(categories=["Cs", "Cc", "Ll"])))
def test_any_name_is_one_line_of_valid_utf8_json(name: str) -> None:
    data = lf.encode(lf.name_line(name_id=1, name=name))
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    back = orjson.loads(data)["name"]
    assert back == lf.clean_text(name)
    if not any("\ud800" <= char <= "\udfff" for char in name):
        assert back == name


@given(INT64 | st.floats() | st.integers())
def test_a_counter_value_is_json_and_integers_stay_exact(value: float) -> None:
    stored = lf.counter_value(value)
    back = orjson.loads(lf.encode(lf.counter_line(items=[1, 1, 0], values=[stored])))["v"][0]
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        assert (back, type(back)) == (value, int)
    elif isinstance(back, str):
        number = lf.NON_FINITE[back]
        assert math.isnan(number) if value != value else (abs(value) > 1.7e308 and (number > 0) == (value > 0))
    else:
        assert back == float(value)


def test_what_json_cannot_hold_is_refused_not_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        lf.encode(lf.counter_line(items=[1, 1, 0], values=[math.nan]))

from __future__ import annotations

import pyarrow as pa
import pytest

from tracekit.errors import UsageError
from tracekit.inputs.selection import Selection, parse_duration, parse_steps, parse_times
from tracekit.model.trace import Ledger
from tracekit.readers.builder import RowBuilder, totals_batch


def four() -> pa.RecordBatch:
    builder = RowBuilder()
    builder.add(ts_ns=0, dur_ns=5, event_id=0, name="gemm", kind="kernel", source=0, rank=0, device=0, stream=7, step=1)
    builder.add(
        ts_ns=10, dur_ns=50, event_id=1, name="copy", kind="memcpy", source=0, rank=1, device=1, stream=8, step=2
    )
    builder.add(ts_ns=20, event_id=2, name="mark", kind="mark", source=0)
    builder.add(ts_ns=30, dur_ns=7, event_id=2, name=None, kind="kernel", source=0, device=0)
    return builder.take()


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (Selection(name="^g|py$"), [0, 1]),
        (Selection(kinds=frozenset({"kernel"})), [0, 2]),
        (Selection(ranks=frozenset({1})), [1]),
        (Selection(devices=frozenset({0, 1})), [0, 1, 2]),
        (Selection(streams=frozenset({7})), [0]),
        (Selection(steps=(2, None)), [1]),
        (Selection(times_ns=(10, 30)), [1, 2]),
        (Selection(min_dur_ns=6), [1, 2]),
    ],
)
def test_filters_keep_what_they_say_and_the_ledger_adds_up(selection: Selection, ids: list[int]) -> None:
    ledger = Ledger(read=3, kept=3, events_out=4)
    kept = selection.apply(four(), ledger)
    assert kept.column("event_id").to_pylist() == ids
    ledger.check()
    assert ledger.filtered == 3 - len(set(ids))
    assert ledger.events_out == kept.num_rows


def test_no_filter_is_false_and_changes_nothing() -> None:
    assert not Selection()
    batch = four()
    assert Selection().apply(batch, Ledger()) is batch


def test_totals_are_selected_by_name_and_kind() -> None:
    batch = totals_batch(
        2, {"source": 0, "run": 0, "section": "s", "order": pa.array([0, 1]), "name": pa.array(["a", "b"])}
    )
    ledger = Ledger(read=2, kept=2, totals_out=2)
    assert Selection(name="a", times_ns=(1, 2)).apply(batch, ledger).num_rows == 1
    assert (ledger.kept, ledger.filtered, ledger.totals_out) == (1, 1, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Selection(kinds=frozenset({"kernels"})), lambda: Selection(name="("), lambda: parse_steps("3-4"),
        lambda: parse_steps("a:b"), lambda: parse_steps("4:2"), lambda: parse_times("1s:fish"),
        lambda: parse_duration("-1us"), lambda: parse_duration("long"), lambda: parse_duration("10"),
        lambda: parse_times("5:6"), lambda: parse_times("1s:2"), lambda: parse_times("5:"),
    ],
)  # fmt: skip
def test_words_that_say_nothing_are_refused(make: object) -> None:
    with pytest.raises(UsageError):
        make()  # type: ignore[operator]


def test_ranges_are_half_open_and_may_lack_an_end() -> None:
    assert parse_steps("2:10") == (2, 10)
    assert parse_steps(":10") == (None, 10)
    assert parse_steps("3") == parse_steps(" 3 ") == (3, 4)
    assert Selection(steps="0").steps == (0, 1)  # type: ignore[arg-type]
    assert parse_times("1.5s:") == (1_500_000_000, None)
    assert parse_times("0:2us") == (0, 2000)
    assert parse_duration("10us") == 10_000
    assert parse_duration("0") == 0


def test_a_time_without_a_unit_is_refused_with_the_units() -> None:
    with pytest.raises(UsageError, match=r"5 has no unit; one of s, ms, us") as caught:
        parse_times("5:6s")
    assert caught.value.hint == "time=A:B, for example 1.5s:2s"


def test_a_step_that_is_no_number_is_told_in_words() -> None:
    for text in ("x:2", "1:9999999999999999999", "-1:3"):
        with pytest.raises(UsageError, match="is not the number of a step"):
            parse_steps(text)
    assert parse_steps(" 2 : 10 ") == (2, 10)

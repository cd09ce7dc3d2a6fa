from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from small_limits import Limit, small

from tracekit.errors import SchemaError, TracekitError
from tracekit.model import schema
from tracekit.model.trace import Ledger, Run, SourceFacts, Trace, concat, text_codes
from tracekit.readers.builder import IdTable, RowBuilder, event_batch, map_texts, totals_batch


def events(*rows: tuple[int, int | None, str]) -> pa.Table:
    builder = RowBuilder()
    for number, (ts, dur, name) in enumerate(rows):
        builder.add(ts_ns=ts, dur_ns=dur, event_id=number, name=name, kind="kernel", source=0)
    return pa.Table.from_batches([builder.take()])


def test_a_trace_sorts_by_start_then_longest_first_and_keeps_ties() -> None:
    trace = Trace(events((5, 1, "a"), (5, None, "b"), (5, 9, "c"), (1, 0, "d"), (5, 9, "e")))
    assert trace.events.column("name").to_pylist() == ["d", "c", "e", "a", "b"]
    assert trace.span() == (1, 14)


def test_the_span_is_that_of_all_rows_whatever_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ((1, 50, "a"), (2, None, "b"), (3, -9, "c"), (4, 1, "d"), (60, None, "e"))
    for size in (1, 2, 100):
        small(monkeypatch, Limit.SPAN_ROWS, size)
        assert Trace(events(*rows)).span() == (1, 60)
        assert Trace(events(*rows[:4])).span() == (1, 51)
        assert Trace(events((5, -9, "a"))).span() == (5, 5)


def test_a_trace_without_events_has_no_span() -> None:
    assert Trace(schema.EVENTS.empty_table()).span() is None


def test_dictionaries_of_many_batches_become_one() -> None:
    parts = [events((1, 1, "a")), events((2, 1, "b")), events((3, 1, "a"))]
    trace = Trace(concat(parts, schema.EVENTS))
    codes, texts = text_codes(trace.events.column("name"))
    assert [texts[c] for c in codes] == ["a", "b", "a"]
    assert len(texts) == 2


def test_nulls_types_kinds_and_strange_columns_are_refused() -> None:
    good = events((1, 1, "a"))
    with pytest.raises(SchemaError, match="event_id has 1 nulls"):
        Trace(good.set_column(2, schema.EVENTS.field("event_id"), pa.nulls(1, pa.int64())))
    with pytest.raises(SchemaError, match="dur_ns is double"):
        Trace(good.set_column(1, "dur_ns", pa.array([1.0])))
    with pytest.raises(SchemaError, match="not in the schema"):
        Trace(good.append_column("extra", pa.array([1])))
    builder = RowBuilder()
    builder.add(ts_ns=0, event_id=0, kind="nonsense", source=0)
    with pytest.raises(SchemaError, match="'nonsense'"):
        Trace(pa.Table.from_batches([builder.take()]))


def test_to_pandas_is_nullable_and_knows_units() -> None:
    frame = Trace(events((1, None, "a"), (2, 3, "b"))).to_pandas()
    assert str(frame["dur_ns"].dtype) == "Int64"
    assert frame["dur_ns"].isna().tolist() == [True, False]
    assert frame.attrs["units"]["dur_ns"] == "ns"


def test_a_ledger_that_does_not_add_up_is_our_bug() -> None:
    ledger = Ledger(path="x", read=3, kept=1, merged=1)
    with pytest.raises(SchemaError, match="3 records read, 2 accounted"):
        ledger.check()
    ledger.drop("torn-row", where="line 3")
    ledger.check()
    assert ledger.notes["torn-row"].places == ["line 3"]


def test_a_note_counts_and_keeps_three_places() -> None:
    ledger = Ledger()
    for line in range(5):
        ledger.note("odd", "an odd thing", where=f"line {line}")
    assert str(ledger.notes["odd"]) == "an odd thing, 5 times (first at line 0, line 1, line 2)"


def test_strict_makes_the_first_note_an_error() -> None:
    with pytest.raises(TracekitError, match="line 7: odd"):
        Ledger(path="x", strict=True).note("c", "odd", where="line 7")


def test_ledger_and_run_survive_json() -> None:
    ledger = Ledger(source=2, path="p", format="f", read=5, kept=2, merged=1, facts=1, written=2)
    ledger.ignore("blank", 0)
    ledger.drop("bad", 1, where="line 2", text="why")
    ledger.left_out["x"] = 3
    assert Ledger.from_json(ledger.to_json()).to_json() == ledger.to_json()
    run = Run(origin_ns=5, sources=[SourceFacts("p", "f", sha256="ab", facts={"tool": "t"})])
    run.devices[(0, 1)] = "GPU"
    run.ids[("tid", 0, 7)] = "Thread <1>"
    again = Run.from_json(run.to_json())
    assert again == run


def test_event_batch_takes_arrays_constants_and_nothing() -> None:
    batch = event_batch(
        3, {"ts_ns": np.arange(3), "event_id": np.arange(3), "kind": "kernel", "source": 4, "args": "{}", "value": 1.5,
            "name": pa.array(["x", None, "x"])},
    )  # fmt: skip
    assert batch.schema.equals(schema.EVENTS)
    assert batch.column("source").to_pylist() == [4, 4, 4]
    assert batch.column("name").to_pylist() == ["x", None, "x"]
    assert batch.column("dur_ns").null_count == 3
    with pytest.raises(KeyError, match="nonsense"):
        event_batch(0, {"nonsense": None})
    assert schema.is_totals(totals_batch(0, {}))


def test_map_texts_changes_each_distinct_text_once() -> None:
    calls: list[str] = []

    def change(text: str) -> str | None:
        calls.append(text)
        return None if text == "b" else text.upper()

    column = pa.array(["a", "b", "a", None, "A"])
    assert map_texts(column, change).to_pylist() == ["A", None, "A", None, "A"]
    assert sorted(calls) == ["A", "a", "b"]


def test_ids_that_are_text_or_too_large_become_small_integers() -> None:
    run = Run()
    table = IdTable(run, "tid", 3)
    numbers = [table.number(x) for x in ("main", 7, 1 << 70, "main")]
    assert numbers[0] == numbers[3] != numbers[2]
    assert numbers[1] == 7
    assert run.ids == {("tid", 3, numbers[0]): "main", ("tid", 3, numbers[2]): str(1 << 70)}


@pytest.mark.parametrize("span", [5, 200, 1 << 40, (1 << 63) - 1])
def test_rows_of_a_trace_stand_as_a_stable_sort_by_start_and_longest_puts_them(span: int) -> None:
    made = np.random.default_rng(span)
    ts = made.integers(-(span // 2), span // 2, 500)
    dur = made.integers(-3, 4, 500)
    known = dur > -2
    kinds = ["kernel"] * 500
    batch = event_batch(500, {
        "ts_ns": ts, "dur_ns": pa.array(dur, mask=~known), "event_id": np.arange(500), "kind": pa.array(kinds),
        "source": 0,
    })  # fmt: skip
    trace = Trace(pa.Table.from_batches([batch.slice(0, 100), batch.slice(100)]))
    wanted = np.lexsort((-np.where(known, dur, -1), ts))
    assert trace.events["event_id"].to_pylist() == wanted.tolist()
    assert trace.events["ts_ns"].to_pylist() == ts[wanted].tolist()
    assert {column.num_chunks for column in trace.events.columns} == {1}
    assert trace.events["args"].null_count == 500


def test_names_whose_keys_are_not_known_are_written_too() -> None:
    run = Run(threads={(0, None, 7): "a", (0, 3, None): "b", (0, 3, 7): "c"})
    assert run.to_json()["threads"] == [[0, 3, 7, "c"], [0, 3, None, "b"], [0, None, 7, "a"]]


TWO = events((1, 1, "a"), (2, 3, "b"))


class TestDisplay:
    def test_a_trace_shows_its_size_kinds_sources_and_notes(self) -> None:
        ledger = Ledger()
        ledger.note("guessed", "the clock was guessed", where="line 3")
        hostile = "\x1b[2J<script>alert(1)</script>"
        trace = Trace(TWO, run=Run(sources=[SourceFacts(hostile, "chrome-trace")]), ledgers=(ledger,))
        assert repr(trace).split("\n")[0].startswith("trace of 2 events and 0 totals over ")
        assert "note: the clock was guessed (first at line 3)" in repr(trace)
        assert "\x1b" not in repr(trace)
        assert "<script" not in trace._repr_html_()
        assert "&lt;script&gt;" in trace._repr_html_()

    def test_many_sources_stay_on_one_screen(self) -> None:
        run = Run(sources=[SourceFacts("long" * 200, "jsonl") for _ in range(500)])
        lines = repr(Trace(TWO, run=run)).split("\n")
        assert len(lines) <= 25
        assert max(map(len, lines)) < 200
        assert lines[-1] == "  source ... 490 more sources"

    def test_a_trace_without_the_columns_of_a_line_leaves_it_out(self) -> None:
        trace = Trace(TWO.select(["ts_ns", "event_id", "source"]))
        assert repr(trace) == "trace of 2 events and 0 totals"
        assert repr(Trace(schema.EVENTS.empty_table())) == "trace of 0 events and 0 totals"

    def test_the_examples_run(self) -> None:
        import doctest

        from tracekit.model import trace

        assert doctest.testmod(trace).failed == 0

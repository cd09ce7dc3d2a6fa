from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.errors import OutOfOrderError
from tracekit.inputs import order as runs
from tracekit.inputs.run_facts import join_runs
from tracekit.model.trace import Run, SourceFacts
from tracekit.readers.builder import event_batch, totals_batch


def batch(rows: list[tuple[int, int]], source: int = 0) -> pa.RecordBatch:
    ts = np.array([r[0] for r in rows], np.int64)
    dur = np.array([r[1] for r in rows], np.int64)
    return event_batch(
        len(rows), {"ts_ns": ts, "dur_ns": dur, "event_id": np.arange(len(rows)), "kind": "kernel", "source": source}
    )


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[tuple[int, int, int]]:
    return [
        row for b in batches for row in zip(b["ts_ns"].to_pylist(), b["dur_ns"].to_pylist(), b["source"].to_pylist())
    ]


def in_blocks(rows: list[tuple[int, int]], size: int, source: int = 0) -> Iterator[pa.RecordBatch]:
    return iter([batch(rows[i : i + size], source) for i in range(0, len(rows), size)])


ROWS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=60)


@given(ROWS, st.integers(1, 7), st.integers(1, 20))
def test_the_sort_on_disk_sorts_and_loses_nothing(rows: list[tuple[int, int]], size: int, chunk: int) -> None:
    before = runs.SORT_ROWS, runs.FAN_IN
    runs.SORT_ROWS, runs.FAN_IN = chunk, 2
    try:
        got = rows_of(runs.in_order(in_blocks(rows, size)))
    finally:
        runs.SORT_ROWS, runs.FAN_IN = before
    assert [r[:2] for r in got] == sorted(rows, key=lambda r: (r[0], -r[1]))


@given(st.lists(ROWS, min_size=1, max_size=4), st.integers(1, 7))
def test_merging_equals_sorting_everything(streams: list[list[tuple[int, int]]], size: int) -> None:
    key = lambda r: (r[0], -r[1])  # noqa: E731
    made = [in_blocks(sorted(rows, key=key), size, number) for number, rows in enumerate(streams)]
    got = rows_of(runs.merged(made))
    assert [key(r) for r in got] == sorted(key(r) for rows in streams for r in rows)
    assert sorted(got) == sorted((*r, n) for n, rows in enumerate(streams) for r in rows)


def test_totals_pass_through_sort_and_merge() -> None:
    total = totals_batch(1, {"source": 0, "run": 0, "section": "x", "order": 0})
    assert next(runs.in_order(iter([total]))) is total
    assert sum(b.num_rows for b in runs.merged([iter([total]), iter([batch([(1, 1)])])])) == 2
    assert list(runs.checked(iter([total]))) == [total]


def test_a_false_promise_of_order_is_found() -> None:
    assert rows_of(runs.checked(iter([batch([(5, 1), (3, 1)]), batch([(5, 1)])]))) == [(3, 1, 0), (5, 1, 0), (5, 1, 0)]
    with pytest.raises(OutOfOrderError):
        list(runs.checked(iter([batch([(5, 1)]), batch([(4, 1)])])))


def test_joined_runs_keep_names_and_sources() -> None:
    one, two, both = Run(sources=[SourceFacts("a", "f")]), Run(sources=[SourceFacts("b", "f")]), Run()
    one.devices[(0, 0)] = "A"
    two.devices[(1, 0)] = "B"
    join_runs(both, [one, two])
    assert [s.path for s in both.sources] == ["a", "b"]
    assert both.devices == {(0, 0): "A", (1, 0): "B"}

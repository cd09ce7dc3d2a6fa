"""TraceIndex: what a whole report computes over a trace is computed once, shared, and gone with the trace."""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import sample
from views.tables import trace

import tracekit
from tracekit import pipeline
from tracekit.index import trace_index
from tracekit.index.trace_index import TraceIndex, index_of, join
from tracekit.model.trace import Trace


def test_a_report_builds_each_mask_and_encodes_each_column_once(monkeypatch: pytest.MonkeyPatch) -> None:
    masks: Counter[frozenset[str]] = Counter()
    columns = 0
    mask_of, coded = TraceIndex._of_kinds, trace_index.coded

    def counted_mask(self: TraceIndex, kinds: frozenset[str]) -> Any:
        masks[kinds] += 1
        return mask_of(self, kinds)

    def counted_column(column: pa.ChunkedArray) -> Any:
        nonlocal columns
        columns += 1
        return coded(column)

    monkeypatch.setattr(TraceIndex, "_of_kinds", counted_mask)
    monkeypatch.setattr(trace_index, "coded", counted_column)
    made = tracekit.read(sample("kineto/gpu.pt.trace.json"))
    assert pipeline.report(made).sections
    assert set(masks.values()) == {1}
    assert 0 < columns <= made.events.num_columns
    before = masks.total(), columns
    pipeline.view(made, "findings")  # the trace keeps its index
    assert (masks.total(), columns) == before


def test_a_join_runs_once_for_each_argument_and_again_after_drop() -> None:
    calls = []

    @join
    def rows(index: TraceIndex, more: int = 0) -> int:
        calls.append(more)
        return index.events.num_rows + more

    index = TraceIndex(trace({"dur_ns": 1}))
    assert (rows(index), rows(index), rows(index, 2), rows(index, 2)) == (1, 1, 3, 3)
    index.drop(rows)
    assert rows(index) == 1
    assert calls == [0, 2, 0]


def test_an_argument_that_is_given_as_its_default_is_the_same_join() -> None:
    calls = []

    @join
    def rows(index: TraceIndex, *, more: int = 0) -> int:
        calls.append(more)
        return index.events.num_rows + more

    index = TraceIndex(trace({"dur_ns": 1}))
    assert (rows(index), rows(index, more=0), rows(index, more=2)) == (1, 1, 3)
    assert calls == [0, 2]


def test_a_column_of_numbers_is_read_in_place_where_zeros_are_below_its_nulls() -> None:
    def column(below: int) -> pa.Array:
        return pa.Array.from_buffers(pa.int64(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([7, below, 9]))])

    for below in (0, 5):
        table = trace({"ts_ns": 0}, {"ts_ns": 1}, {"ts_ns": 2}).events
        at = table.schema.get_field_index("correlation")
        made = Trace(table.set_column(at, table.schema.field(at), column(below)))
        index = TraceIndex(made)
        assert index.ints("correlation").tolist() == [7, 0, 9]
        stored = made.events.column("correlation").chunk(0).buffers()[1].address
        assert (index.ints("correlation").ctypes.data == stored) == (below == 0)


def test_one_number_for_all_rows_takes_no_memory() -> None:
    index = TraceIndex(trace({"source": 3, "ts_ns": 0}, {"source": 3, "ts_ns": 1}))
    assert index.ints("source").tolist() == [3, 3]
    assert index.ints("source").strides == (0,)
    assert TraceIndex(trace({"source": 3}, {"source": 4})).ints("source").tolist() == [3, 4]


@given(
    rows=st.lists(
        st.fixed_dictionaries({"rank": st.none() | st.integers(-1, 1), "copy_kind": st.sampled_from((None, "a", "b"))})
    )
)
@example(rows=[{"rank": 2, "copy_kind": "a"}] * 2)
@example(rows=[{"rank": None, "copy_kind": None}] * 2)
def test_codes_of_a_column_name_the_value_of_each_row(rows: list[dict[str, Any]]) -> None:
    made = trace(*rows)
    for column in ("rank", "copy_kind"):
        wanted = [row[column] for row in rows]
        codes, labels = TraceIndex(made).codes(column)
        assert [labels[code] for code in codes.tolist()] == wanted
        assert labels[0] is None
        if column == "copy_kind":
            places, words = TraceIndex(made).texts(column)
            assert [words[place] if place >= 0 else None for place in places.tolist()] == wanted
        if rows and len(set(wanted)) == 1 and (column == "rank" or wanted[0] is None):
            assert codes.strides == (0,)  # one number for all rows


@given(sources=st.lists(st.integers(0, 3)), asked=st.sets(st.integers(0, 4)))
def test_rows_of_inputs_are_those_of_a_search(sources: list[int], asked: set[int]) -> None:
    index = TraceIndex(trace(*({"source": source} for source in sources)))
    assert index.of_sources(asked).tolist() == [source in asked for source in sources]


def test_what_views_share_cannot_be_written_to() -> None:
    index = TraceIndex(trace({"kind": "kernel", "dur_ns": 1}, {"kind": "step"}))
    with pytest.raises(ValueError, match="read-only"):
        index.kind_mask({"kernel"})[:] = True
    assert index.lengths.tolist() == [1, 0]
    assert index.key("kind", np.array([1])).codes.tolist() == [2]


def test_the_index_of_a_trace_goes_with_it() -> None:
    made = trace({"dur_ns": 1})
    index = index_of(made)
    assert index_of(made) is index
    pipeline.view(made, "device")
    del made
    gc.collect()
    with pytest.raises(ReferenceError):
        _ = index.trace

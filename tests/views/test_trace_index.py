"""TraceIndex: what a whole report computes over a trace is computed once, shared, and gone with the trace."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import sample
from views.tables import trace

import tracekit
from tracekit import pipeline
from tracekit.index import trace_index
from tracekit.index.trace_index import TraceIndex, index_of, join


def test_a_report_builds_each_mask_and_encodes_each_column_once(monkeypatch: pytest.MonkeyPatch) -> None:
    masks: Counter[frozenset[str]] = Counter()
    columns = 0
    mask_of, coded = trace_index.kind_mask, trace_index.coded

    def counted_mask(table: pa.Table, kinds: Collection[str]) -> Any:
        masks[frozenset(kinds)] += 1
        return mask_of(table, kinds)

    def counted_column(column: pa.ChunkedArray) -> Any:
        nonlocal columns
        columns += 1
        return coded(column)

    monkeypatch.setattr(trace_index, "kind_mask", counted_mask)
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

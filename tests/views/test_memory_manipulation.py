from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from views.tables import dicts, event_rows, on_trace, statistics, trace

from tracekit.errors import TracekitError
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

COPIES = on_trace(VIEWS["memory_manipulation"])


@given(rows=event_rows(("memcpy", "memset", "kernel")))
def test_statistics_bytes_and_bandwidth_equal_those_of_plain_python(rows: list[dict[str, Any]]) -> None:
    groups: dict[tuple[Any, ...], list[tuple[int, int | None]]] = defaultdict(list)
    for row in rows:
        if row["kind"] != "kernel" and row["dur_ns"] is not None:
            groups[row["name"], row["kind"], row["copy_kind"]].append((max(row["dur_ns"], 0), row["bytes"]))
    section = COPIES(trace(*rows), ViewOptions())
    found = dicts(section) if section.tables else []
    assert len(found) == len(groups)
    for row in found:
        pairs = groups[row["name"], row["kind"], row["copy_kind"]]
        wanted = statistics([dur for dur, _ in pairs])
        assert {k: row[k] for k in wanted} == wanted
        sized = [(dur, size) for dur, size in pairs if size is not None]
        spent, moved = sum(dur for dur, _ in sized), sum(size for _, size in sized)
        assert row["bytes"] == (moved if sized else None)
        assert row["bandwidth"] == (moved * 10**9 / spent if spent else None)


def test_bandwidth_is_of_the_rows_that_have_both_and_a_note_says_how_many_have_not() -> None:
    rows = (
        {"kind": "memcpy", "name": "c", "dur_ns": 1000, "bytes": 5000},
        {"kind": "memcpy", "name": "c", "dur_ns": 3000},
    )
    section = COPIES(trace(*rows), ViewOptions())
    (row,) = dicts(section)
    assert (row["total"], row["bytes"], row["bandwidth"]) == (4000, 5000, 5e9)
    assert "1 of 2 rows are without a size: bandwidth is that of the others" in section.notes


def test_a_trace_without_sizes_says_nothing_of_them() -> None:
    section = COPIES(trace({"kind": "memset", "name": "s", "dur_ns": 3}), ViewOptions())
    assert dicts(section)[0]["bytes"] is None
    assert not [note for note in section.notes if "size" in note]


def test_sizes_beyond_int64_are_an_error_and_not_a_wrong_number() -> None:
    rows = [{"kind": "memcpy", "name": "c", "dur_ns": 1, "bytes": (1 << 63) - 1}] * 2
    with pytest.raises(TracekitError, match="the sizes add up to more than int64 holds"):
        COPIES(trace(*rows), ViewOptions())


def test_totals_give_bandwidth_where_the_profiler_summed_sizes_too() -> None:
    rows = (
        {"name": "[CUDA memcpy HtoD]", "kind": "memcpy", "calls": 4, "total_ns": 100},
        {
            "name": "Host To Device",
            "kind": "memcpy",
            "section": "Unified Memory",
            "calls": 2,
            "total_ns": 10,
            "bytes": 50,
        },
        {"name": "k", "calls": 2, "total_ns": 10},
    )
    found = dicts(COPIES(trace(totals=rows), ViewOptions()))
    assert [(r["name"], r["section"], r["ratio"], r["bytes"], r["bandwidth"]) for r in found] == [
        ("[CUDA memcpy HtoD]", "GPU activities", 1.0, None, None),
        ("Host To Device", "Unified Memory", 1.0, 50, 5e9),
    ]
    (alone,) = dicts(COPIES(trace(totals=rows[:1]), ViewOptions()))
    assert "bytes" not in alone


def test_sizes_that_a_profiler_printed_apart_from_times_have_a_table_of_their_own() -> None:
    size = {"kind": "memcpy", "section": "cuda_gpu_mem_size_sum", "unit": "bytes"}
    rows = (
        {"name": "[CUDA memcpy HtoD]", "kind": "memcpy", "calls": 4, "total_ns": 100},
        {
            **size, "name": "[CUDA memcpy HtoD]", "calls": 4, "bytes": 90, "value_min": 9.0, "value_max": 40.0,
            "value_avg": 22.0,
        },
        {**size, "name": "b", "calls": 2, "bytes": 200, "value_min": 1.0, "value_max": 150.0},
        {**size, "name": "b", "calls": 3, "bytes": 301, "value_min": 2.0, "value_max": 299.0},
        {**size, "name": "no copy", "kind": "kernel", "calls": 1, "bytes": 1},
    )  # fmt: skip
    times, sizes = COPIES(trace(totals=rows), ViewOptions()).tables
    assert [(r["name"], r["calls"], r["total"]) for r in dicts(times)] == [("[CUDA memcpy HtoD]", 4, 100)]
    keys = ("name", "calls", "bytes", "avg", "min", "max")
    assert [tuple(r[key] for key in keys) for r in dicts(sizes)] == [
        ("b", 5, 501, 100, 1, 299), ("[CUDA memcpy HtoD]", 4, 90, 22, 9, 40),
    ]  # fmt: skip
    (alone,) = COPIES(trace(totals=rows[1:]), ViewOptions()).tables
    assert alone.name == "sizes"


def test_a_trace_without_copies_says_what_it_needs() -> None:
    section = COPIES(trace({"name": "k", "dur_ns": 1}), ViewOptions())
    assert section.tables == ()
    assert section.notes == ("needs memcpy or memset events; this trace has none",)


def test_threads_and_unknown_columns_are_answered() -> None:
    made = trace({"kind": "memcpy", "name": "c", "dur_ns": 1})
    assert (
        "copies run on streams, not on threads: one block for all" in COPIES(made, ViewOptions(thread_sep=True)).notes
    )


def test_many_names_in_many_directions_stay_apart() -> None:
    rows = [
        {"kind": "memcpy", "name": f"n{i}", "copy_kind": f"c{i * 7 % 300}", "dur_ns": i + 1, "bytes": i}
        for i in (*range(300), *range(300))
    ]
    found = {(r["name"], r["copy_kind"]): r for r in dicts(COPIES(trace(*rows), ViewOptions()))}
    assert len(found) == 300
    for i in range(300):
        row = found[f"n{i}", f"c{i * 7 % 300}"]
        assert (row["calls"], row["total"], row["bytes"]) == (2, 2 * i + 2, 2 * i)

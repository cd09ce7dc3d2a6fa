"""Summaries of unitrace: every number is the one that is printed; names keep their commas."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import _text_summaries as made
import pytest
from support import read_sample, sample

import tracekit
from tracekit.errors import TracekitError

HEADER = "Kernel, Calls, Time (ns), Time (%), Average (ns), Min (ns), Max (ns)\n"


def totals(text: str, tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "out.txt"
    path.write_text(text, encoding="utf-8")
    return rows(tracekit.read(path))


def rows(trace: tracekit.Trace) -> list[dict[str, Any]]:
    return [{**row, "args": json.loads(row["args"] or "{}")} for row in trace.totals.to_pylist()]


def test_calls_and_times_are_those_of_the_generator() -> None:
    found = rows(read_sample("unitrace/summary.txt"))
    calls, commands = made.unitrace_rows(random.Random(8))
    for section, kinds in (("API, L0 Backend", calls), ("Device, L0 Backend", commands)):
        have = {(row["raw_name"] or row["name"]): row for row in found if row["section"] == section}
        assert have.keys() == {name.strip('"') for name, _ in kinds}
        for name, times in kinds:
            row = have[name.strip('"')]
            assert [row[key] for key in ("calls", "total_ns", "min_ns", "max_ns")] == [
                len(times), sum(times), min(times), max(times),
            ]  # fmt: skip
            assert row["avg_ns"] == sum(times) // len(times)


def test_kernels_have_their_shape_and_properties_and_copies_their_bytes() -> None:
    found = rows(read_sample("unitrace/summary.txt"))
    first, second = (row for row in found if row["name"] == "gemm_kernel")
    shapes = sorted((first["args"]["group_count"], second["args"]["group_count"]))
    assert shapes == [[20, 1, 1], [40, 1, 1]]
    assert (first["args"]["simd"], first["args"]["compiled"], first["kind"]) == (16, "AOT", "kernel")
    assert sorted((first["args"]["spill_bytes"], second["args"]["spill_bytes"])) == [0, 64]
    (copy,) = (row for row in found if row["kind"] == "memcpy")
    assert (copy["args"], copy["bytes"]) == ({"direction": "M2D", "size": 1572864}, 1572864 * copy["calls"])
    assert [row["name"] for row in found if row["kind"] == "memset"] == ["zeCommandListAppendMemoryFill"]


def test_names_without_quotation_marks_keep_their_commas(tmp_path: Path) -> None:
    """As in Intel's guide: an older version printed `Time(ns)`, and quoted nothing."""
    text = (
        "== L0 Backend ==\n\nKernel, Calls, Time(ns), Time(%), Average(ns), Min(ns), Max(ns)\n"
        "main::{lambda(auto:1)#4}, 100, 91349596800, 99.896, 913495968, 913304160, 913975360\n"
        "add<int, float>, 500, 4981120, 0.005, 9962, 1440, 42880\n\n=== Kernel Properties ===\n\n"
        "Kernel, Private Memory Per Thread, Spill Memory Per Thread\nmain::{lambda(auto:1)#4}, 16384, 0\n"
        "add<int, float>, 0, 8192\n"
    )
    found = totals(text, tmp_path)
    assert [(row["name"], row["total_ns"]) for row in found] == [
        ("main::{lambda(auto:1)#4}", 91349596800), ("add<int, float>", 4981120),
    ]  # fmt: skip
    assert [row["args"] for row in found] == [
        {"private_bytes": 16384, "spill_bytes": 0}, {"private_bytes": 0, "spill_bytes": 8192},
    ]  # fmt: skip


def test_submissions_are_no_second_time_of_the_device(tmp_path: Path) -> None:
    text = (
        "=== Kernel Submission Summary ===\n\n== L0 Backend ==\n\n"
        "Kernel, Calls, Append (ns),  Append (%), Submit (ns),  Submit (%), Execute (ns),  Execute (%)\n"
        '"a, b", 3, 10, 40.0, 15, 60.0, 900, 100.0\n'
    )
    (row,) = totals(text, tmp_path)
    assert (row["name"], row["calls"], row["total_ns"]) == ("a, b", 3, None)
    assert row["args"] == {"append_ns": 10, "submit_ns": 15, "execute_ns": 900}


def test_the_summary_of_a_second_program_is_another_run(tmp_path: Path) -> None:
    text = sample("unitrace/summary.txt").read_text("utf-8")
    found = totals("loss 3\n" * 20_000 + text + "loss 2\n" + text, tmp_path)
    assert [row["run"] for row in found] == [0] * 8 + [1] * 8


@pytest.mark.parametrize(
    "row",
    [
        "gemm, 1, 2, 3",
        "gemm, x, 2, 3.0, 4, 5, 6",
        f"gemm, {'9' * 23}, 2, 3.0, 4, 5, 6",
        "gemm, 1, 2, 3.0, 4, 5, -6",
        ", 1, 2, 3.0, 4, 5, 6",
    ],
)
def test_rows_that_are_none_are_not_read(row: str, tmp_path: Path) -> None:
    with pytest.raises(TracekitError):
        totals(HEADER + row + "\n", tmp_path)


def test_shares_without_a_sum_are_read(tmp_path: Path) -> None:
    (row,) = totals(HEADER + "idle, 2, 0, -nan, 0, 0, 0\n", tmp_path)
    assert (row["calls"], row["total_ns"]) == (2, 0)


def test_a_row_that_was_cut_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(HEADER + "a, 1, 2, 3.0, 4, 5, 6\nb, 1, 2, 3.0, 4, 5, 6")
    trace = tracekit.read(path)
    assert [row["name"] for row in rows(trace)] == ["a"]
    assert sum(trace.ledgers[0].dropped.values()) == 1

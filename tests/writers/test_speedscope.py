"""The speedscope profile: a reader of its own finds every slice that was given, and the rest is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import profiles
import pyarrow as pa
import pytest
from hypothesis import given
from lanes import in_time_order, is_counter, is_writable, lane_of, rows
from small_limits import Limit, small
from strategies import rows_of, tables
from writing import dense_tables

import tracekit
from tracekit.model.trace import Run, SourceFacts
from tracekit.writers import WRITERS
from tracekit.writers.base import RowStream, WriteOptions, Written

SAMPLE = Path(__file__).parents[2] / "sample_traces"


def written(path: Path, *batches: pa.RecordBatch, run: Run | None = None) -> Written:
    return WRITERS["speedscope"].write(
        RowStream(run or Run(), iter(batches)), path, WriteOptions(force=True, version="9.9")
    )


def check_rows(path: Path, batches: list[pa.RecordBatch], made: Written) -> None:
    given_rows: list[dict[str, Any]] = [r for batch in batches for r in rows_of(pa.Table.from_batches([batch]))]
    first = min((row["ts_ns"] for row in given_rows), default=0)
    kept = [row for row in given_rows if is_writable(row, first)]
    slices = [row for row in kept if row["dur_ns"] is not None and not is_counter(row)]
    seen = Counter((lane, at + first, *rest[:3]) for lane, at, *rest in profiles.speedscope(path).slices)
    assert seen == Counter(
        (lane_of(row), row["ts_ns"], max(row["dur_ns"], 0), row["name"] or "", row["kind"]) for row in slices
    )
    counters = sum(map(is_counter, kept))
    assert made.events == len(slices)
    assert made.left_out.get("counters-that-speedscope-cannot-hold", 0) == counters
    assert made.left_out.get("marks-that-speedscope-cannot-hold", 0) == len(kept) - len(slices) - counters


@given(table=tables("events", max_rows=12))
def test_every_slice_is_in_the_file(tmp_path: Path, table: pa.Table) -> None:
    batches = in_time_order(table)
    check_rows(tmp_path / "t.json", batches, written(tmp_path / "t.json", *batches))


@given(table=dense_tables())
def test_slices_that_meet_or_overlap_open_and_close_in_order(tmp_path: Path, table: pa.Table) -> None:
    batches = in_time_order(table)
    check_rows(tmp_path / "t.json.gz", batches, written(tmp_path / "t.json.gz", *batches))


@given(table=dense_tables())
def test_slices_that_are_open_between_batches_end_when_they_should(tmp_path: Path, table: pa.Table) -> None:
    batches = [batch.slice(at, 1) for batch in in_time_order(table) for at in range(batch.num_rows)]
    with pytest.MonkeyPatch.context() as patch:
        small(patch, Limit.SPEEDSCOPE_BATCH_ROWS, 1)
        check_rows(tmp_path / "t.json", batches, written(tmp_path / "t.json", *batches))


def test_the_file_of_a_sample_stays_as_it_is(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    tracekit.write(tracekit.read(SAMPLE / "recorder-log" / "rank0.jsonl"), tmp_path / "t.speedscope.json")
    text = (tmp_path / "t.speedscope.json").read_text(encoding="utf-8").replace(tracekit.__version__, "VERSION")
    golden("speedscope/rank0.json", text.replace(str(SAMPLE), "SAMPLES").replace(',{"', ',\n{"'))


def test_times_are_exact_to_the_ns_and_the_limit_of_doubles_is_noted(tmp_path: Path) -> None:
    starts = np.array([0, 1, 999_999_999, 86_400_000_000_007, (1 << 53) + 1])
    made = written(tmp_path / "t.json", rows(5, ts_ns=starts + 10**18, dur_ns=np.full(5, 123_456_789)))
    slices = profiles.speedscope(tmp_path / "t.json").slices
    assert sorted(row[1:3] for row in slices) == [(at, 123_456_789) for at in starts.tolist()]
    assert made.notes[1:] == [
        "the trace is longer than 104 days: the file has every ns, but speedscope rounds its later times"
    ]


def test_profiles_are_named_by_process_and_lane_and_the_file_by_its_inputs(tmp_path: Path) -> None:
    run = Run(sources=[SourceFacts("runs/a.csv", "test"), SourceFacts("b.csv", "test", label="B")])
    batch = rows(3, ts_ns=np.array([0, 10, 20]), dur_ns=np.array([15, 15, 15]), device=0, stream=7, pid=5)
    written(tmp_path / "t.json", batch, run=run)
    document = profiles.loaded(tmp_path / "t.json")
    assert document["name"] == "a.csv and 1 more"
    assert [each["name"] for each in document["profiles"]] == [
        "a.csv · GPU 0 (process 5) · stream 7",
        "a.csv · GPU 0 (process 5) · stream 7 (2)",
    ]
    assert {each["endValue"] for each in document["profiles"]} == {35}


def test_what_is_not_shown_is_noted(tmp_path: Path) -> None:
    slices = rows(2, ts_ns=np.array([0, 1]), dur_ns=np.array([0, -5]), name="k")
    marks = rows(2, ts_ns=np.array([2, 3]), kind=pa.array(["mark", "counter"]), value=np.array([1.0, 2.0]))
    assert written(tmp_path / "t.json", slices, marks).notes == [
        "1 slices have a negative duration: written as 0",
        "2 slices have a duration of 0 ns: they are in the file, but speedscope does not draw them",
        "1 marks were not written: speedscope shows slices alone",
        "1 values of counters were not written: speedscope shows slices alone",
    ]


def test_a_trace_without_slices_is_one_empty_profile(tmp_path: Path) -> None:
    assert written(tmp_path / "t.json").events == 0
    assert [each["name"] for each in profiles.loaded(tmp_path / "t.json")["profiles"]] == ["no slices"]

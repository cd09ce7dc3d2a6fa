"""Perfetto's engine sees the same in a native trace as in the Chrome trace of the same rows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from viewed import EVERY_FILE, file_named, read_once
from viewers import perfetto
from writing import as_in_json, dense_tables

import tracekit
from tracekit.inputs.order import in_order
from tracekit.model.trace import Run
from tracekit.readers.builder import event_batch
from tracekit.writers import WRITERS
from tracekit.writers.base import RowStream, WriteOptions

pytestmark = pytest.mark.viewer

SLICES = "select coalesce(name, '') as name, ts, dur, category from slice"
ARROWS = """select coalesce(a.name, '') as name, a.ts as a_ts, a.dur as a_dur, coalesce(b.name, '') as name_b, b.ts,
    b.dur from flow join slice a on a.id = slice_out join slice b on b.id = slice_in"""
VALUES = """select ts, value, p.name as process from counter join process_counter_track t on t.id = track_id
    join process p using (upid)"""


def seen_in(path: Path) -> tuple[dict[str, Any], list[Counter[Any]]]:
    seen = perfetto(path, [SLICES, ARROWS, VALUES])
    assert seen["accepted"], seen["refusal"]
    assert seen["errors"] == {}
    assert seen["unfinished"] == 0
    tables = []
    for table in seen["sql"]:
        rows: Counter[Any] = Counter()
        for row in table:
            for key in ("name", "name_b"):
                if key in row:
                    text = "" if row[key] == "[No name]" else row[key]
                    row[key] = text if ".json" in path.name else as_in_json(text)
            rows[tuple(row.values())] += 1
        tables.append(rows)
    return seen, tables


COARSE = {"nvprof-text/gpu-and-api-trace.txt"}
"""Files whose clock is so coarse that several calls start at one instant: JSON's arrows then start at any of them."""


def check_same(json_path: Path, path: Path, *, arrows: bool = True) -> dict[str, Any]:
    """Slices with name, time, duration and category; arrows with both their ends; values of counters: all the same."""
    old, expected = seen_in(json_path)
    new, found = seen_in(path)
    assert found[0] == expected[0]
    assert found[1] == expected[1] or not arrows
    assert found[2] == expected[2]
    for key in ("slices", "instants", "sum_dur_ns", "flows", "counters", "first_ts_ns", "end_ts_ns"):
        assert new[key] == old[key], key
    assert new["processes"] == old["processes"]
    return new


def check_file(source: Path, folder: Path) -> None:
    trace = read_once(source)
    if not trace.events.num_rows:
        return
    for name in ("x.json", "x.pftrace"):
        tracekit.write(trace, folder / name)
    check_same(folder / "x.json", folder / "x.pftrace", arrows=not any(str(source).endswith(name) for name in COARSE))


@EVERY_FILE
def test_a_file_is_the_same_in_both_formats(name: str, tmp_path: Path) -> None:
    check_file(file_named(name), tmp_path)


def written(path: Path, batches: list[pa.RecordBatch], run: Run | None = None) -> Path:
    to = "perfetto" if ".pftrace" in path.name else "chrome"
    WRITERS[to].write(RowStream(run or Run(), iter(batches)), path, WriteOptions(force=True))
    return path


@settings(max_examples=20)
@given(table=dense_tables())
def test_whatever_the_rows_are_the_engine_has_nothing_to_complain_about(tmp_path: Path, table: pa.Table) -> None:
    batches = list(in_order(iter(table.to_batches())))
    _, expected = seen_in(written(tmp_path / "t.json", batches))
    _, found = seen_in(written(tmp_path / "t.pftrace", batches))
    assert found[0] == expected[0]
    assert found[2].total() == expected[2].total()


def rows(count: int, **columns: Any) -> pa.RecordBatch:
    return event_batch(count, {"event_id": np.arange(count), "source": 0, "kind": "kernel", **columns})


def test_hostile_names_and_ids_reach_the_viewer_as_they_are(tmp_path: Path) -> None:
    names = [
        'say "hi"',
        "back\\slash",
        "line\nbreak",
        "表",
        "\x7f",
        "a\tb",
        "",
        "\u202e",
        "x" * 70_000,
        "%s{}</script>",
    ]
    count = len(names)
    batch = rows(count, ts_ns=np.arange(count) * 10, dur_ns=np.full(count, 5), name=pa.array(names), kind="operator",
                 pid=pa.array([0, -3, (1 << 63) - 1] * 3 + [0]), tid=pa.array([0, 1 << 40, -1] * 3 + [7]))  # fmt: skip
    path = written(tmp_path / "t.pftrace.gz", [batch], Run(processes={(0, 0): 'na"me\n'}))
    seen = perfetto(path, ["select name from slice order by ts", "select name from process where name is not null"])
    assert seen["errors"] == {}
    assert [row["name"] for row in seen["sql"][0]] == names
    processes = {row["name"] for row in seen["sql"][1]}
    assert {'na"me\n (process 0)', "process -3", f"process {(1 << 63) - 1}"} <= processes
    assert {"thread 0", f"thread {1 << 40}", "thread -1", "thread 7"} <= {row["name"] for row in seen["threads"]}


def test_args_are_shown_with_their_types(tmp_path: Path) -> None:
    args = {"n": -5, "x": 1.5, "s": "a\nb", "yes": True, "list": [1, [2, 3]], "object": {"k": "v"}, "none": None}
    batch = rows(1, ts_ns=np.array([0]), dur_ns=np.array([9]), device=0, args=pa.array([json.dumps(args)]),
                 grid_x=1, grid_y=2, grid_z=3, correlation=(1 << 62) + 1)  # fmt: skip
    path = written(tmp_path / "t.pftrace", [batch])
    query = "select key, coalesce(string_value, int_value, real_value) as value from args where key like 'debug.%'"
    shown = {row["key"]: row["value"] for row in perfetto(path, [query])["sql"][0]}
    assert shown == {
        "debug.n": -5, "debug.x": 1.5, "debug.s": "a\nb", "debug.yes": 1, "debug.list[0]": 1, "debug.list[1][0]": 2,
        "debug.list[1][1]": 3, "debug.object.k": "v", "debug.none": "null", "debug.grid[0]": 1, "debug.grid[1]": 2,
        "debug.grid[2]": 3, "debug.correlation": str((1 << 62) + 1),
    }  # fmt: skip


def test_the_file_says_its_clock_and_its_facts(tmp_path: Path) -> None:
    batch = rows(1, ts_ns=np.array([500]), dur_ns=np.array([9]), device=0)
    path = written(tmp_path / "t.pftrace", [batch], Run(origin_ns=1_700_000_000_123_456_789))
    facts = "select str_value as v from metadata where name = 'cr-tracekit'"
    clock = "select clock_value as v from clock_snapshot where clock_name = 'REALTIME'"
    seen = perfetto(path, [facts, clock])["sql"]
    assert json.loads(seen[0][0]["v"])["base_ns"] == 1_700_000_000_123_457_289
    assert int(seen[1][0]["v"]) == 1_700_000_000_123_457_289


def test_overlapping_kernels_are_whole_and_a_late_name_is_taken(tmp_path: Path) -> None:
    run = Run()

    def batches() -> Any:
        yield rows(2, ts_ns=np.array([100, 150]), dur_ns=np.array([100, 100]), device=0, stream=7, name="k")
        run.devices[0, 0], run.streams[0, 0, 7] = "Tesla P4", "copies"

    WRITERS["perfetto"].write(RowStream(run, batches()), tmp_path / "t.pftrace", WriteOptions())
    seen = perfetto(tmp_path / "t.pftrace", [SLICES])
    assert [(row["ts"], row["dur"]) for row in seen["sql"][0]] == [(0, 100), (50, 100)]
    assert seen["processes"] == [{"pid": 1, "name": "GPU 0 Tesla P4"}]
    assert {(track["name"], track["slices"]) for track in seen["other_tracks"]} == {("stream 7 copies", 1)}

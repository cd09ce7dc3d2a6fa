"""The Perfetto trace: a decoder of its own finds every row, ns, arrow and argument that was given."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pftrace
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import in_time_order, is_counter, is_writable, lane_of, on_device, rows
from small_limits import Limit, small
from strategies import rows_of, tables
from writing import dense_tables

import tracekit
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.builder import totals_batch
from tracekit.writers import WRITERS
from tracekit.writers.base import RowStream, WriteOptions, Written
from tracekit.writers.json_text import OWN_KEYS, parsed
from tracekit.writers.tracks.nested import TrackItems, order_packets

HOST_NUMBERS = ("device", "context", "stream")
NUMBERS = ("correlation", "step", "bytes", "registers", "static_smem_bytes", "dynamic_smem_bytes")


def written(path: Path, *batches: pa.RecordBatch | pa.Table, run: Run | None = None, force: bool = True) -> Written:
    parts = [p for b in batches for p in (b.to_batches() if isinstance(b, pa.Table) else [b])]
    stream = RowStream(run or Run(), iter(parts), (Ledger(path="in.csv", format="test"),))
    return WRITERS["perfetto"].write(stream, path, WriteOptions(force=force, version="9.9"))


def text(value: Any) -> Any:
    """A text as Perfetto can hold it: it would be cut at NUL."""
    return value.replace("\0", "\\u0000") if value is not None else None


def shown(value: Any) -> Any:
    """A value of args as an argument of Perfetto can hold it."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list) and value:
        return [shown(each) for each in value]
    if isinstance(value, dict) and value:
        return {text(key): shown(each) for key, each in value.items()}
    if value is None or isinstance(value, (list, dict)):
        return json.dumps(value)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return str(value)
    return value


def expected_args(row: dict[str, Any]) -> dict[str, Any]:
    names = NUMBERS if on_device(row) else (*NUMBERS, *HOST_NUMBERS)
    args = {name: row[name] for name in names if row[name] is not None}
    args.update({name: text(row[name]) for name in ("raw_name", "copy_kind") if row[name] is not None})
    if on_device(row) and row["tid"] is not None:
        args["tid"] = row["tid"]
    for shape in ("grid", "block"):
        axes = {f"{shape}_{axis}": row[f"{shape}_{axis}"] for axis in "xyz"}
        if None in axes.values():
            args.update({key: value for key, value in axes.items() if value is not None})
        else:
            args[shape] = list(axes.values())
    if row["value"] is not None:
        args["value"] = float(row["value"])
    if (row["dur_ns"] or 0) < 0:
        args["dur_ns"] = row["dur_ns"]
    if row["args"] is not None:
        members = parsed(row["args"])
        if members is None:
            members = {"args_text": row["args"]}
        elif not OWN_KEYS.isdisjoint(members):
            members = {"args": members}
        args.update({text(key): shown(value) for key, value in members.items()})
    return args


def exact(args: dict[str, Any]) -> str:
    return repr(sorted(args.items()))


def lanes_by_track(made: pftrace.Trace) -> dict[int, tuple[Any, ...]]:
    keys = ("source", "rank", "process", "device", "context", "stream", "thread")
    return {lane["tid"]: (lane["side"] == "device", *(lane[k] for k in keys)) for lane in made.facts["lanes"]}


def check_rows(path: Path, batches: list[pa.RecordBatch]) -> pftrace.Trace:
    """Every slice, mark and value is in the file, on the track of its lane, with all its arguments."""
    made = pftrace.decode(path)
    given_rows: list[dict[str, Any]] = [r for batch in batches for r in rows_of(pa.Table.from_batches([batch]))]
    first = min((row["ts_ns"] for row in given_rows), default=0)
    kept = [row for row in given_rows if is_writable(row, first)]
    lanes = lanes_by_track(made)
    events = [row for row in kept if not is_counter(row) and (row["kind"] != "flow" or row["dur_ns"] is not None)]
    seen = Counter((lanes[s.track], s.ts + first, s.dur, s.name, s.category, exact(s.args)) for s in made.slices)
    wanted: Counter[Any] = Counter()
    for row in events:
        dur = None if row["dur_ns"] is None else max(row["dur_ns"], 0)
        wanted[lane_of(row), row["ts_ns"], dur, text(row["name"]), row["kind"], exact(expected_args(row))] += 1
    assert seen == wanted
    values = Counter((ts + first, made.tracks[t]["name"], repr(v)) for t, ts, v in made.counters)
    assert values == Counter((r["ts_ns"], text(r["name"] or ""), r["value"]) for r in kept if is_counter(r))
    return made


@given(table=st.one_of(tables("events"), dense_tables()), size=st.sampled_from([1, 3, 1 << 15]))
def test_every_row_comes_back(tmp_path: Path, table: pa.Table, size: int) -> None:
    path = tmp_path / "t.pftrace"
    batches = in_time_order(table)
    with pytest.MonkeyPatch.context() as patch:
        small(patch, Limit.PERFETTO_BATCH_ROWS, size)
        small(patch, Limit.PERFETTO_CHUNK_BYTES, 200)
        result = written(path, *batches)
    check_rows(path, batches)
    assert result.events + sum(result.left_out.values()) == sum(batch.num_rows for batch in batches)


@given(copies=st.integers(1, 90))
def test_objects_with_the_same_keys_are_written_like_single_ones(tmp_path: Path, copies: int) -> None:
    texts = [
        json.dumps(
            {"a": n, "b": n / 4, "c": f"t{n % 3}", "d": bool(n % 2), "e": [n % 2, "x"], "f": None if n % 5 else n}
        )
        for n in range(copies)
    ]
    texts += [json.dumps({"big": (1 << 62) * (n + 1), "long": "é" * n}) for n in range(copies)]
    batch = rows(len(texts), ts_ns=np.arange(len(texts)), dur_ns=np.ones(len(texts), np.int64), args=pa.array(texts))
    written(tmp_path / "t.pftrace", batch)
    check_rows(tmp_path / "t.pftrace", [batch])


@st.composite
def laminar(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Nested slices on a few tracks, sorted: (track, start, end)."""
    spans = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 12)), max_size=14))
    kept: list[tuple[int, int, int]] = []
    for track, start, length in spans:
        one = track, start, start + length
        if all(t != track or e <= start or one[2] <= s or (s <= start and one[2] <= e) or (start <= s and e <= one[2])
               for t, s, e in kept):  # fmt: skip
            kept.append(one)
    return sorted(kept, key=lambda one: (one[0], one[1], -one[2]))


def order_of(spans: list[tuple[int, int, int]], until: int) -> Any:
    track, start, end = (np.array([span[n] for span in spans], np.int64) for n in range(3))
    none = np.zeros(len(spans), np.bool_)
    return order_packets(TrackItems(track, start, end, none, none), until)


@given(spans=laminar())
def test_the_order_of_packets_nests_whatever_is_nested(spans: list[tuple[int, int, int]]) -> None:
    order = order_of(spans, 100)
    closes: list[list[tuple[str, int]]] = [[] for _ in range(order.rows)]
    for item, row, closed in zip(order.starters, order.starter_row, order.closed, strict=True):
        closes[row] += [("begin", int(item)), *([("end", int(item))] if closed else [])]
    for item, row in zip(order.enders, order.ender_row, strict=True):
        closes[row].append(("end", int(item)))
    stack: list[int] = []
    last = (-1, 0)
    for what, item in (step for row in closes for step in row):
        track, start, end = spans[item]
        now = track, start if what == "begin" else end
        assert now >= last
        last = now
        if what == "begin":
            stack.append(item)
        else:
            assert stack.pop() == item
    assert not stack
    assert not order.open.any()


@pytest.mark.parametrize("after", [[], [(0, 200, 210)], [(0, 180, 260)], [(1, 0, 5)]])
def test_slices_that_cross_are_refused(after: list[tuple[int, int, int]]) -> None:
    with pytest.raises(ValueError, match="cross"):
        order_of([(0, 100, 200), (0, 150, 250), *after], 1000)


def test_a_small_trace_is_written_like_this(tmp_path: Path) -> None:
    run = Run(sources=[SourceFacts("in.csv", "nvprof-csv")], devices={(0, 0): "Tesla V100"}, origin_ns=10**18)
    calls = rows(1, ts_ns=np.array([1000]), dur_ns=np.array([1500]), kind="runtime", name="cudaLaunchKernel",
                 pid=0, tid=0, correlation=9)  # fmt: skip
    work = rows(1, ts_ns=np.array([3001]), dur_ns=np.array([12]), name='f<"a">', raw_name="_Z1f", pid=0, device=0,
                context=1, stream=7, correlation=9, grid_x=80, grid_y=1, grid_z=1, registers=32)  # fmt: skip
    path = tmp_path / "t.pftrace"
    result = written(path, calls, work, run=run)
    made = pftrace.decode(path)
    assert made.tracks == {
        1: {"pid": 1, "process": "process 0", "ordered": True, "counter": False},
        3: {"pid": 1, "tid": 3, "name": "thread 0", "parent": 1, "rank": 0, "counter": False},
        2: {"pid": 2, "process": "GPU 0 Tesla V100 (process 0)", "ordered": True, "counter": False},
        4: {"name": "stream 7", "parent": 2, "rank": 7000, "counter": False},
    }
    call, kernel = made.slices
    assert (call.name, call.category, call.ts, call.dur, call.args) == (
        "cudaLaunchKernel", "runtime", 0, 1500, {"correlation": 9},
    )  # fmt: skip
    assert (kernel.name, kernel.category, kernel.ts, kernel.dur) == ('f<"a">', "kernel", 2001, 12)
    assert kernel.args == {"raw_name": "_Z1f", "registers": 32, "grid": [80, 1, 1], "correlation": 9}
    assert made.arrows() == [(call, kernel)]
    assert made.unix_ns == 10**18 + 1000
    assert made.facts["arrows"] == {"written": 1, "without_launch": 0}
    assert (made.facts["version"], made.facts["written"], made.facts["base_ns"]) == ("9.9", 2, 10**18 + 1000)
    assert (result.events, result.left_out, result.notes) == (2, {}, [])


def test_overlapping_work_of_a_stream_is_on_siblings_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    kernels = rows(3, ts_ns=np.array([100, 150, 160]), dur_ns=np.array([100, 100, 5]), device=0, stream=7, name="k")
    calls = rows(2, ts_ns=np.array([300, 350]), dur_ns=np.array([100, 100]), kind="operator", pid=1, tid=5)
    result = written(path, kernels, calls)
    made = check_rows(path, [kernels, calls])
    assert result.notes == ["2 slices overlap others of their lane: they are in extra rows of its track"]
    streams = [track for track in made.tracks.values() if track.get("name") == "stream 7"]
    assert len(streams) == 2
    assert streams[0] == streams[1]
    threads = {uuid: track for uuid, track in made.tracks.items() if track.get("name") == "thread 5"}
    (own,) = [uuid for uuid, track in threads.items() if "tid" in track]
    assert [track["parent"] for uuid, track in threads.items() if uuid != own] == [own]


def test_each_kernel_of_a_launch_has_an_arrow_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.pftrace"
    calls = rows(2, ts_ns=np.array([0, 10]), dur_ns=np.array([5, 5]), kind="runtime", tid=1, pid=1,
                 correlation=np.array([1, 2]), name=pa.array(["graph", "idle"]))  # fmt: skip
    kernels = rows(3, ts_ns=np.array([20, 30, 40]), dur_ns=np.array([5, 5, 5]), device=0, stream=7, pid=1,
                   correlation=1, name=pa.array(["a", "b", "c"]))  # fmt: skip
    assert written(path, calls, kernels).notes == []
    arrows = [(start.name, end.name) for start, end in pftrace.decode(path).arrows()]
    assert arrows == [("graph", "a"), ("graph", "b"), ("graph", "c")]
    # Where the launch is written before any of its kernels is known, one of them can still have an arrow.
    small(monkeypatch, Limit.PERFETTO_BATCH_ROWS, 1)
    result = written(path, calls, kernels)
    made = pftrace.decode(path)
    assert [(start.name, end.name) for start, end in made.arrows()] == [("graph", "a")]
    assert result.notes == ["2 device rows have no arrow: their launch has others, and is too far before them"]
    assert made.facts["arrows"] == {"written": 1, "without_launch": 0}


@pytest.mark.parametrize("size", [1, 1 << 15])
def test_an_arrow_of_the_input_from_device_work_is_on_the_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    small(monkeypatch, Limit.PERFETTO_BATCH_ROWS, size)
    points = ['{"ph":"s"}', '{"ph":"f","bp":"e"}', '{"ph":"f","bp":"e"}']
    batch = rows(5, ts_ns=np.array([0, 5, 20, 21, 22]), dur_ns=pa.array([10, None, 30, None, None]),
                 kind=pa.array(["kernel", "flow", "operator", "flow", "flow"]), name=pa.array([*"kxoxx"]), pid=1,
                 device=pa.array([0, 0, None, None, None], pa.int32()), tid=pa.array([None, None, 1, 1, 1], pa.int64()),
                 correlation=pa.array([None, 5, None, 5, 5], pa.int64()),
                 args=pa.array([None, points[0], None, *points[1:]]))  # fmt: skip
    result = written(tmp_path / "t.pftrace", batch)
    made = pftrace.decode(tmp_path / "t.pftrace")
    assert [(start.name, end.name) for start, end in made.arrows()] == [("k", "o")]
    assert (result.events, result.left_out) == (4, {"arrow-points-that-perfetto-does-not-draw": 1})
    assert made.points == []


def test_names_that_come_late_are_written_again_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.PERFETTO_BATCH_ROWS, 1)
    run = Run()

    def batches() -> Any:
        yield rows(1, ts_ns=np.array([0]), dur_ns=np.array([1]), device=0, stream=7, pid=3)
        yield rows(1, ts_ns=np.array([5]), dur_ns=np.array([1]), kind="operator", tid=1 << 40, pid=3)
        yield rows(1, ts_ns=np.array([9]), dur_ns=np.array([1]), kind="operator", tid=1 << 40, pid=3)
        run.devices[0, 0], run.streams[0, 0, 7], run.processes[0, 3] = "Tesla P4", "copies", "python"
        run.threads[0, 3, 1 << 40], run.ids["tid", 0, 1 << 40] = "main", "0xffffffffffffffff"

    path = tmp_path / "t.pftrace"
    WRITERS["perfetto"].write(RowStream(run, batches()), path, WriteOptions())
    tracks = pftrace.decode(path).tracks.values()
    assert {track.get("process", track.get("name")) for track in tracks} == {
        "GPU 0 Tesla P4 (process 3)", "main (thread 0xffffffffffffffff)", "python (process 3)", "stream 7 copies",
    }  # fmt: skip


def test_what_cannot_be_held_is_counted_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    far = (1 << 62) + (1 << 61)
    batch = rows(6, ts_ns=np.array([-5, 0, 1, 2, 10**16, far]), dur_ns=pa.array([3, far, None, None, -7, 1]),
                 kind=pa.array(["kernel", "kernel", "counter", "flow", "kernel", "kernel"]),
                 value=pa.array([None, None, float("nan"), None, None, None]))  # fmt: skip
    totals = totals_batch(2, {"source": 0, "run": 0, "section": "s", "order": np.arange(2)})
    result = written(path, totals, batch)
    assert [(s.ts - 5, s.dur, s.args) for s in pftrace.decode(path).slices] == [
        (-5, 3, {}),
        (10**16, 0, {"dur_ns": -7}),
    ]
    assert result.left_out == {
        "totals": 2, "beyond-what-viewers-hold": 2, "counter-not-finite": 1,
        "arrow-points-that-perfetto-does-not-draw": 1,
    }  # fmt: skip
    assert result.notes == [
        "1 flow events without a partner were skipped",
        "1 slices have a negative duration: written as 0, with the value in the argument dur_ns",
        "1 counter values were not written: they are not finite",
        "2 rows were not written: they end more than 146 years after the first event",
    ]


def test_slices_that_stay_open_over_many_batches_end_where_they_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, Limit.PERFETTO_BATCH_ROWS, 2)
    rng = np.random.default_rng(5)
    starts = np.sort(rng.integers(0, 400, 300))
    dur = np.where(rng.random(300) < 0.2, 1000, rng.integers(0, 60, 300))
    order = np.lexsort((-dur, starts))
    batch = rows(300, ts_ns=starts, dur_ns=dur[order], kind="operator", pid=1, tid=rng.integers(1, 4, 300))
    batches = in_time_order(pa.Table.from_batches([batch]))
    written(tmp_path / "t.pftrace", *batches)
    check_rows(tmp_path / "t.pftrace", batches)


def test_thousands_of_tracks_with_epoch_times_are_written(tmp_path: Path) -> None:
    count = 3000
    batch = rows(count, ts_ns=np.arange(count) * 10**15, dur_ns=np.full(count, 10**15), kind="operator",
                 pid=1, tid=np.arange(count) << 40)  # fmt: skip
    written(tmp_path / "t.pftrace", batch)
    made = check_rows(tmp_path / "t.pftrace", [batch])
    assert max(max(t.get("pid", 0), t.get("tid", 0)) for t in made.tracks.values()) < 1 << 31


def test_gzip_holds_the_same_bytes_each_time(tmp_path: Path) -> None:
    batch = rows(500, ts_ns=np.arange(500) * 1001, dur_ns=np.arange(500), name="k", device=0, stream=7)
    for name in ("a.pftrace", "b.pftrace.gz", "c.pftrace.GZ"):
        written(tmp_path / name, batch)
    assert gzip.decompress((tmp_path / "b.pftrace.gz").read_bytes()) == (tmp_path / "a.pftrace").read_bytes()
    assert (tmp_path / "b.pftrace.gz").read_bytes() == (tmp_path / "c.pftrace.GZ").read_bytes()


def test_the_suffix_chooses_the_target(tmp_path: Path) -> None:
    batch = rows(3, ts_ns=np.arange(3), dur_ns=np.ones(3, np.int64), name="k", device=0)
    events = tracekit.Trace(pa.Table.from_batches([batch]))
    for name in ("t.pftrace", "t.pftrace.gz"):
        assert tracekit.write(events, tmp_path / name).events == 3
        assert len(pftrace.decode(tmp_path / name).slices) == 3

"""The Chrome trace: nothing of a row is lost, and Perfetto's engine sees what we wrote without one error."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_limits import Limit, small
from strategies import rows_of, tables
from viewers import perfetto
from writing import dense_tables

import tracekit
from tracekit.inputs.order import in_order
from tracekit.model import schema
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.builder import event_batch, totals_batch
from tracekit.writers import WRITERS
from tracekit.writers.base import RowStream, WriteOptions, Written
from tracekit.writers.json_text import OWN_KEYS
from tracekit.writers.tracks.texts import quoted

ARROW = ("launch", "launch")


def written(
    path: Path, *batches: pa.RecordBatch | pa.Table, run: Run | None = None, viewer: str = "", force: bool = True
) -> Written:
    parts = [p for b in batches for p in (b.to_batches() if isinstance(b, pa.Table) else [b])]
    stream = RowStream(run or Run(), iter(parts), (Ledger(path="in.csv", format="test"),))
    return WRITERS["chrome"].write(stream, path, WriteOptions(force=force, viewer=viewer, version="9.9"))


def loaded(path: Path, **options: Any) -> dict[str, Any]:
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    made: dict[str, Any] = json.loads(data, **options)
    return made


def events(path: Path) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = loaded(path)["traceEvents"]
    return [e for e in made if e["ph"] != "M"]


def rows(count: int, **columns: Any) -> pa.RecordBatch:
    return event_batch(count, {"event_id": np.arange(count), "source": 0, "kind": "kernel", **columns})


def ns(micros: Decimal) -> int:
    whole = micros * 1000
    assert whole == int(whole)
    return int(whole)


def read_back(path: Path) -> list[dict[str, Any]]:
    """The rows of a trace, from its JSON alone, as `rows_of` gives those of a table, without event_id."""
    plain = loaded(path)
    exact = loaded(path, parse_float=Decimal, parse_int=Decimal)
    facts = plain["tracekit"]
    lanes = {(lane["pid"], lane["tid"]): lane for lane in facts["lanes"]}
    assert len(lanes) == len(facts["lanes"])
    origin = facts["origin_ns"] or 0
    base = plain["baseTimeNanoseconds"] - origin
    ends = {e["id"]: e for e in exact["traceEvents"] if e["ph"] == "e"}
    out = []
    for event, times in zip(plain["traceEvents"], exact["traceEvents"], strict=True):
        if event["ph"] in "Me" or (event["name"], event["cat"]) == ARROW:
            continue
        lane = lanes[event["pid"], event["tid"]]
        row: dict[str, Any] = dict.fromkeys(schema.EVENTS.names)
        del row["event_id"]
        args = dict(event["args"])
        row.update(ts_ns=ns(times["ts"]) + base, name=event["name"], kind=event["cat"])
        row.update(source=lane["source"], rank=lane["rank"], pid=lane["process"], tid=lane["thread"])
        row.update({k: lane[k] for k in ("device", "context", "stream")})
        if event["ph"] == "X":
            row["dur_ns"] = ns(times["dur"])
        elif event["ph"] == "b":
            row["dur_ns"] = ns(ends[event["id"]]["ts"]) - ns(times["ts"])
        elif event["ph"] == "C":
            args = args | event["tracekit"]
        if "dur_ns" in args:
            row["dur_ns"] = args["dur_ns"]
        for key in OWN_KEYS & args.keys() & row.keys() - {"args"}:
            row[key] = args[key]
        for shape in ("grid", "block"):
            if shape in args:
                row.update(zip((f"{shape}_{axis}" for axis in "xyz"), args[shape], strict=True))
        rest = {k: v for k, v in args.items() if k not in OWN_KEYS}
        if "args" in args:
            assert not rest
            rest = args["args"]
        if rest or "args" in args:
            row["args"] = rest
        if row["value"] is not None:
            row["value"] = repr(float(row["value"]))
        out.append(row)
    return out


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    row = {k: v for k, v in row.items() if k != "event_id"}
    if row["args"] is not None:
        row["args"] = repr(row["args"] if isinstance(row["args"], dict) else json.loads(row["args"]))
    return row


def is_writable(row: dict[str, Any], first: int) -> bool:
    if row["ts_ns"] - first + max(row["dur_ns"] or 0, 0) >= 1 << 62:
        return False
    return not (row["kind"] == "counter" and row["value"] in ("nan", "inf", "-inf"))


def in_time_order(table: pa.Table) -> list[pa.RecordBatch]:
    return list(in_order(iter(table.to_batches())))


@given(table=st.one_of(tables("events"), dense_tables()), origin=st.sampled_from([None, 0, 1_700_000_000_123_456_789]))
def test_every_row_comes_back_from_the_json(tmp_path: Path, table: pa.Table, origin: int | None) -> None:
    path = tmp_path / "t.json"
    batches = in_time_order(table)
    result = written(path, *batches, run=Run(origin_ns=origin))
    given_rows = [row for batch in batches for row in rows_of(pa.Table.from_batches([batch]))]
    first = min((row["ts_ns"] for row in given_rows), default=0)
    kept = [row for row in given_rows if is_writable(row, first)]  # type: ignore[arg-type]
    assert [comparable(row) for row in read_back(path)] == [comparable(row) for row in kept]
    assert result.events == len(kept)
    assert sum(result.left_out.values()) == len(given_rows) - len(kept)
    assert b"\n" not in path.read_bytes().replace(b",\n", b"").replace(b"[\n", b"").replace(b"\n]", b"").rstrip(b"\n")


def check_laminar(path: Path) -> None:
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in loaded(path, parse_float=Decimal)["traceEvents"]:
        if event["ph"] == "X":
            start = ns(Decimal(event["ts"]))
            tracks.setdefault((event["pid"], event["tid"]), []).append((start, start + ns(Decimal(event["dur"]))))
    for slices in tracks.values():
        open_ends: list[int] = []
        for start, end in slices:
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


def shown(name: str) -> str:
    """A name as Perfetto shows it: unescaped if there is an escaped quote in it, else as written."""
    text = quoted(name)
    return str(json.loads(text)) if '\\"' in text else text[1:-1]


def check_in_perfetto(path: Path, names: list[str] | None = None) -> dict[str, Any]:
    """Perfetto sees all slices and marks, all ns, all arrows, and has nothing to complain about."""
    made = events(path)
    exact = [e for e in loaded(path, parse_float=Decimal)["traceEvents"] if e["ph"] != "M"]
    ends = {e["id"]: ns(Decimal(e["ts"])) for e in exact if e["ph"] == "e"}
    durations = [ns(Decimal(e["dur"])) for e in exact if e["ph"] == "X"]
    durations += [ends[e["id"]] - ns(Decimal(e["ts"])) for e in exact if e["ph"] == "b"]
    marks = sum(e["ph"] == "i" for e in made)
    seen = perfetto(path, ["select name, ts, dur from slice"])
    assert seen["accepted"], seen["refusal"]
    assert seen["errors"] == {}
    assert seen["slices"] == len(durations) + marks
    assert seen["unfinished"] == 0
    assert (seen["sum_dur_ns"] or 0) == sum(durations)
    slices = Counter(shown(e["name"]) for e in made if e["ph"] in "Xbi")
    assert Counter("" if row["name"] in (None, "[No name]") else row["name"] for row in seen["sql"][0]) == slices
    if names is not None:
        assert slices == Counter(map(shown, names))
    assert seen["counters"] == sum(e["ph"] == "C" for e in made)
    return seen


@pytest.mark.viewer
@settings(max_examples=20)
@given(table=dense_tables())
def test_perfetto_takes_whatever_the_rows_are(tmp_path: Path, table: pa.Table) -> None:
    path = tmp_path / "t.json"
    written(path, *in_time_order(table))
    check_laminar(path)
    seen = check_in_perfetto(path)
    own = loaded(path)["tracekit"]["arrows"]["written"]
    assert seen["flows"] >= own
    if not any(e["ph"] in "stf" and e["cat"] == "flow" for e in events(path)):
        assert seen["flows"] == own


def test_a_small_trace_is_written_like_this(tmp_path: Path) -> None:
    run = Run(sources=[SourceFacts("in.csv", "nvprof-csv")], devices={(0, 0): "Tesla V100"})
    calls = rows(1, ts_ns=np.array([1000]), dur_ns=np.array([1500]), kind="runtime", name="cudaLaunchKernel",
                 pid=42, tid=43, correlation=9)  # fmt: skip
    work = rows(1, ts_ns=np.array([3001]), dur_ns=np.array([12]), name='f<"a">', raw_name="_Z1f", pid=42, device=0,
                context=1, stream=7, correlation=9, grid_x=80, grid_y=1, grid_z=1, block_x=256, block_y=2, block_z=1,
                registers=32, static_smem_bytes=0, dynamic_smem_bytes=4096)  # fmt: skip
    path = tmp_path / "t.json"
    result = written(path, calls, work, run=run)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == '{"displayTimeUnit":"ns","traceEvents":['
    kernel = (
        '{"ph":"X","cat":"kernel","name":"f<\\"a\\">","pid":2,"tid":4,"args":{"device":0,"context":1,"stream":7,'
        '"raw_name":"_Z1f","correlation":9,"grid":[80,1,1],"block":[256,2,1],"registers":32,"static_smem_bytes":0,'
        '"dynamic_smem_bytes":4096},"ts":2.001,"dur":0.012},'
    )
    call = '{"ph":"X","cat":"runtime","name":"cudaLaunchKernel","pid":1,"tid":3,"args":{"correlation":9},'
    assert [line for line in lines[1:-1] if '"ph":"M"' not in line] == [
        call + '"ts":0.000,"dur":1.500},',
        kernel,
        '{"ph":"s","cat":"launch","name":"launch","pid":1,"tid":3,"id":1,"ts":0.000},',
        '{"ph":"f","bp":"e","cat":"launch","name":"launch","pid":2,"tid":4,"id":1,"ts":2.001}',
    ]
    meta = [json.loads(line.rstrip(",")) for line in lines[1:-1] if '"ph":"M"' in line]
    named = {(m["name"], m["pid"], m["tid"]): next(iter(m["args"].values())) for m in meta}
    assert named == {
        ("process_name", 1, 3): "process 42", ("process_sort_index", 1, 3): 0,
        ("thread_name", 1, 3): "thread 43", ("thread_sort_index", 1, 3): 0,
        ("process_name", 2, 4): "GPU 0 Tesla V100 (process 42)", ("process_sort_index", 2, 4): 50000,
        ("thread_name", 2, 4): "stream 7", ("thread_sort_index", 2, 4): 7000,
    }  # fmt: skip
    tail = loaded(path)
    assert list(tail) == ["displayTimeUnit", "traceEvents", "baseTimeNanoseconds", "tracekit"]
    assert tail["baseTimeNanoseconds"] == 1000
    assert tail["tracekit"]["clock"] == "not stated"
    assert tail["tracekit"]["version"] == "9.9"
    assert tail["tracekit"]["arrows"] == {"written": 1, "without_launch": 0}
    assert tail["tracekit"]["sources"][0]["path"] == "in.csv"
    assert (result.events, result.left_out, result.notes) == (2, {}, [])


NAMES = [
    "", "a", 'say "hi"', "back\\slash", "ends with \\", "two \\\\", '\\"', '"', "new\nline", "tab\t", "nul \0", "\x1f",
    "\x7f", "🚀", "名前", "<script>alert(1)</script>", "\u2028", "a" * 5000, '\\"\\', "{}", "%s", "\ufeff",
]  # fmt: skip


@pytest.mark.viewer
def test_hostile_names_load_in_perfetto_and_come_back_from_json(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    args = [json.dumps({name: name}) for name in NAMES]
    run = Run(processes={(0, 1): NAMES[4]}, threads={(0, 1, 1): NAMES[6]}, sources=[SourceFacts(NAMES[12], NAMES[4])])
    count = len(NAMES)
    batch = rows(count, ts_ns=np.arange(count) * 10, dur_ns=np.full(count, 5), kind="operator", name=pa.array(NAMES),
                 raw_name=pa.array(NAMES[::-1]), pid=1, tid=1, args=pa.array(args))  # fmt: skip
    written(path, batch, run=run)
    assert [e["name"] for e in events(path)] == NAMES
    assert [e["args"]["raw_name"] for e in events(path)] == NAMES[::-1]
    assert [e["args"][n] for e, n in zip(events(path), NAMES, strict=True)] == NAMES
    check_in_perfetto(path, NAMES)


@pytest.mark.viewer
def test_overlapping_slices_stand_on_extra_lanes(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    batch = rows(4, ts_ns=np.array([0, 5, 6, 30]), dur_ns=np.array([10, 10, 10, 1]), device=0, stream=7, name="k")
    result = written(path, batch)
    assert result.notes == ["2 slices overlap others of their lane: they are on extra lanes, numbered (2), (3) ..."]
    seen = check_in_perfetto(path)
    assert {t["name"]: t["slices"] for t in seen["threads"]} == {"stream 7": 2, "stream 7 (2)": 1, "stream 7 (3)": 1}


@pytest.mark.viewer
def test_lanes_and_arrows_go_on_over_batches(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    count = 3 * (1 << 16)
    ids = np.arange(count)
    # A launch each 1000 ns; its kernel starts 300 batches' worth of rows later than it, on one of two streams.
    late = 70_000
    launch = rows(count, ts_ns=ids * 1000, dur_ns=np.full(count, 500), kind="runtime", name="launch it", tid=5, pid=1,
                  correlation=ids)  # fmt: skip
    work = rows(count, ts_ns=(ids + late) * 1000 + 500, dur_ns=np.full(count, 700), name="k", device=0, pid=1,
                stream=7 + ids % 2, correlation=ids)  # fmt: skip
    table = pa.Table.from_batches([launch, work]).unify_dictionaries()
    batches = [b for t in in_order(iter(table.to_batches())) for b in pa.Table.from_batches([t]).to_batches(9_000)]
    result = written(path, *batches)
    assert (result.events, result.notes) == (2 * count, [])
    seen = perfetto(path)
    assert (seen["errors"], seen["slices"], seen["flows"]) == ({}, 2 * count, count)
    assert seen["sum_dur_ns"] == count * 1200


@pytest.mark.viewer
def test_arrows_join_the_right_slices_at_the_edges(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    # name, kind, start, duration, correlation: touching slices, zero lengths, equal starts, a kernel before its launch
    cases: list[tuple[str, str, int, int, int | None]] = [
        ("before a", "runtime", 0, 100, None), ("a", "runtime", 100, 50, 1), ("zero", "runtime", 160, 0, 2),
        ("same", "runtime", 200, 50, 3), ("late", "runtime", 900, 5, 4), ("twice", "driver", 950, 5, 5),
        ("k before", "kernel", 0, 300, None), ("k a", "kernel", 300, 20, 1), ("k zero", "kernel", 320, 0, 2),
        ("k late", "kernel", 850, 5, 4), ("k twice 1", "kernel", 960, 5, 5), ("k twice 2", "memcpy", 965, 5, 5),
        ("k orphan", "kernel", 980, 5, 77),
    ]  # fmt: skip
    cases.sort(key=lambda c: (c[2], -c[3]))
    name, kind, start, length, correlation = zip(*cases, strict=True)
    device = [0 if k in ("kernel", "memcpy") else None for k in kind]
    batch = rows(len(cases), ts_ns=pa.array(start), dur_ns=pa.array(length), name=pa.array(name), kind=pa.array(kind),
                 correlation=pa.array(correlation, pa.int64()), device=pa.array(device, pa.int32()))  # fmt: skip
    result = written(path, batch)
    joined = "select a.name as a, b.name as b from flow join slice a on a.id=slice_out join slice b on b.id=slice_in"
    seen = perfetto(path, [joined])
    assert seen["errors"] == {}
    assert sorted((r["a"], r["b"]) for r in seen["sql"][0]) == [
        ("a", "k a"), ("twice", "k twice 1"), ("twice", "k twice 2"), ("zero", "k zero"),
    ]  # fmt: skip
    assert result.notes == ["2 device rows have no arrow: no launch before them has their correlation id"]
    points = {(e["ph"], e["id"]): e["ts"] for e in events(path) if e["cat"] == "launch"}
    assert points["s", 1] == 0.101  # the call before ends at 0.100: catapult would take that one
    assert points["f", 1] == 0.301


def slice_of(tid: int, ts: float, dur: float, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "name": f"{tid}@{ts}", "pid": 1, "tid": tid, "ts": ts, "dur": dur, **more}


def point(phase: str, tid: int, ts: float, number: int | str, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": "flow", "cat": "c", "pid": 1, "tid": tid, "ts": ts, "id": number, **more}


INPUT_ARROWS: dict[str, list[dict[str, Any]]] = {
    "a start and steps, no end": [point("s", 1, 1, 5), point("t", 2, 12, 5), point("t", 1, 22, 5)],
    "a start, two ends": [point("s", 1, 1, 5), point("f", 2, 12, 5, bp="e"), point("f", 1, 22, 5, bp="e")],
    "an id used twice": [point("s", 1, 1, 5), point("f", 2, 12, 5, bp="e"), point("s", 2, 13, 5), point("t", 1, 22, 5)],
    "two starts": [point("s", 1, 1, 5), point("s", 1, 2, 5), point("t", 2, 12, 5)],
    "one id, two categories": [point("s", 1, 1, 5), point("s", 1, 1, 5, cat="d"), point("t", 2, 12, 5, cat="d")],
    "after the end of a slice": [point("s", 1, 11, 5), point("t", 2, 19, 5)],
    "before any slice": [point("s", 2, 3, 5), point("f", 2, 4, 6, bp="e"), point("t", 1, 21, 5)],
    "on a thread without slices": [point("s", 9, 1, 5), point("t", 2, 12, 5)],
    "orphan steps and ends": [point("t", 1, 1, 5), point("f", 1, 2, 6, bp="e"), point("f", 1, 3, 7)],
    "an end for the next slice": [point("s", 1, 1, 5), point("f", 1, 15, 5)],
    "ids of text": [point("s", 1, 1, "0xa"), point("t", 2, 12, "0xa"), point("t", 2, 12, "0xb")],
    "bound slices": [
        slice_of(3, 0, 5, bind_id="0x7", flow_out=True),
        slice_of(4, 10, 5, bind_id="0x7", flow_in=True, flow_out=True),
        slice_of(3, 20, 5, bind_id="0x7", flow_in=True),
        slice_of(4, 20, 5, bind_id="0x8", flow_in=True),
    ],
}


@pytest.mark.viewer
@pytest.mark.parametrize("case", INPUT_ARROWS)
def test_arrows_of_the_input_stay_and_points_without_an_arrow_are_not_shown(case: str, tmp_path: Path) -> None:
    joined = "select a.name as a, b.name as b from flow join slice a on a.id=slice_out join slice b on b.id=slice_in"
    own = [slice_of(1, 0, 10), slice_of(2, 10, 5), slice_of(1, 20, 5), *INPUT_ARROWS[case]]
    source = tmp_path / "in.json"
    source.write_text(json.dumps({"traceEvents": own}))
    tracekit.convert(source, tmp_path / "out.json")
    before, seen = perfetto(source, [joined]), perfetto(tmp_path / "out.json", [joined])
    assert seen["errors"] == {}
    assert seen["slices"] == before["slices"] == sum(e["ph"] == "X" for e in own)
    expected, arrows = (Counter((row["a"], row["b"]) for row in one["sql"][0]) for one in (before, seen))
    if case == "orphan steps and ends":
        expected.clear()  # Perfetto leads an "f" without bp and without a start from the first slice of the file
    assert arrows.total() == expected.total()
    if case != "an id used twice":  # Perfetto refuses the second start, and leads both arrows from the first
        assert arrows == expected
    again = tracekit.read(tmp_path / "out.json").events
    first = tracekit.read(source).events
    columns = ["ts_ns", "dur_ns", "name", "kind", "correlation", "args"]
    assert again.select(columns).to_pylist() == first.select(columns).to_pylist()


def test_points_that_no_viewer_draws_are_counted(tmp_path: Path) -> None:
    args = pa.array(['{"ph":"s"}', '{"ph":"f","bp":"e"}', None])
    batch = rows(3, ts_ns=np.arange(3), kind="flow", name="flow", pid=1, tid=1, correlation=5, args=args)
    result = written(tmp_path / "t.json", batch)
    assert result.events == 3
    assert result.notes == [
        "3 flow events are in the file, but not drawn: they have no partner, or no slice is before them"
    ]
    assert [e["ph"] for e in events(tmp_path / "t.json")] == ["c", "c", "c"]


def test_a_correlation_id_joins_only_within_its_source_and_process(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    one = rows(2, ts_ns=np.array([0, 1]), dur_ns=np.array([1, 1]), kind="runtime", pid=pa.array([1, None], pa.int64()),
               tid=1, correlation=5)  # fmt: skip
    two = event_batch(3, {"ts_ns": np.array([2, 3, 4]), "dur_ns": np.array([1, 1, 1]), "event_id": np.arange(3),
                          "kind": "kernel", "source": pa.array([0, 1, 0], pa.int32()), "device": 0, "correlation": 5,
                          "pid": pa.array([2, 1, 1], pa.int64())})  # fmt: skip
    written(path, one, two)
    assert loaded(path)["tracekit"]["arrows"] == {"written": 1, "without_launch": 2}
    tids = {lane["tid"]: lane for lane in loaded(path)["tracekit"]["lanes"]}
    (end,) = [e for e in events(path) if e["ph"] == "f"]
    assert (tids[end["tid"]]["source"], tids[end["tid"]]["process"]) == (0, 1)


@pytest.mark.viewer
def test_marks_counters_memory_and_asynchronous_work(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    kind = ["mark", "mark", "counter", "counter", "memory", "other", "other", "counter"]
    batch = rows(
        8, ts_ns=np.arange(8) * 10, kind=pa.array(kind), name=pa.array([*"abcc", "malloc", "async", "async", "c"]),
        pid=1,
        tid=pa.array([5, None, None, None, 5, None, None, None], pa.int64()),
        dur_ns=pa.array([None] * 5 + [100, 50, None], pa.int64()),
        bytes=pa.array([None] * 4 + [-64] + [None] * 3, pa.int64()),
        value=pa.array([None, None, 1.5, float("nan"), None, None, None, -2e300]),
        args=pa.array([None] * 5 + ['{"id": "0xff", "x": [1]}', '{"id": "0xff"}', None]),
    )  # fmt: skip
    result = written(path, batch)
    assert (result.events, result.left_out) == (7, {"counter-not-finite": 1})
    assert result.notes == ["1 counter values were not written: JSON has no number that is not finite"]
    phases = [(e["ph"], e.get("s"), e["args"]) for e in events(path) if e["ph"] not in "e"]
    assert phases == [
        ("i", "t", {}), ("i", "p", {}), ("C", None, {"value": 1.5}), ("i", "t", {"bytes": -64}),
        ("b", None, {"id": "0xff", "x": [1]}), ("b", None, {"id": "0xff"}), ("C", None, {"value": -2e300}),
    ]  # fmt: skip
    seen = check_in_perfetto(path)
    assert seen["sum_dur_ns"] == 150
    assert [(t["name"], t["count"]) for t in seen["counter_tracks"]] == [("c value", 2)]
    # What belongs to the process as a whole makes no thread.
    assert [e["args"]["name"] for e in loaded(path)["traceEvents"] if e["name"] == "thread_name"] == ["thread 5"]


def test_names_that_come_late_are_written_again_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.CHROME_BATCH_ROWS, 1)
    run = Run()

    def batches() -> Any:
        yield rows(1, ts_ns=np.array([0]), dur_ns=np.array([1]), device=0, stream=7, pid=3)
        yield rows(1, ts_ns=np.array([5]), dur_ns=np.array([1]), kind="operator", tid=1 << 40, pid=3)
        run.devices[0, 0], run.streams[0, 0, 7], run.processes[0, 3] = "Tesla P4", "copies", "python"
        run.threads[0, 3, 1 << 40], run.ids["tid", 0, 1 << 40] = "main", "0xffffffffffffffff"

    path = tmp_path / "t.json"
    WRITERS["chrome"].write(RowStream(run, batches()), path, WriteOptions())
    names: dict[tuple[str, int], str] = {}
    last = None
    for event in loaded(path)["traceEvents"]:
        last = event["ph"]
        if event["ph"] == "M" and event["name"].endswith("_name"):
            names[event["name"], event["tid"]] = event["args"]["name"]
    assert last == "M"
    assert sorted(names.values()) == [
        "GPU 0 Tesla P4 (process 3)", "main (thread 0xffffffffffffffff)", "python (process 3)", "stream 7 copies",
    ]  # fmt: skip


@pytest.mark.viewer
def test_ranks_and_inputs_are_apart_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    run = Run(sources=[SourceFacts("/x/one.csv", "f"), SourceFacts("two.csv", "f", label="second")])
    count = 8
    batch = event_batch(count, {
        "ts_ns": np.arange(count), "dur_ns": np.ones(count, np.int64), "event_id": np.arange(count), "name": "k",
        "source": pa.array([1, 1, 1, 1, 0, 0, 0, 0], pa.int32()), "rank": pa.array([1] * 4 + [0] * 4, pa.int32()),
        "kind": pa.array(["kernel", "kernel", "runtime", "kernel"] * 2), "pid": 9,
        "stream": pa.array([7, 7, None, 8] * 2),
        "device": pa.array([1, 0, None, 0] * 2, pa.int32()), "context": pa.array([1, 1, None, 2] * 2),
    })  # fmt: skip
    written(path, batch, run=run)
    order = [
        (e["args"]["sort_index"], e["pid"]) for e in loaded(path)["traceEvents"] if e["name"] == "process_sort_index"
    ]
    seen = check_in_perfetto(path)
    names = {p["pid"]: p["name"] for p in seen["processes"]}
    assert [names[pid] for _, pid in sorted(order)] == [
        "rank 0 · one.csv · process 9", "rank 0 · one.csv · GPU 0 (process 9)", "rank 0 · one.csv · GPU 1 (process 9)",
        "rank 1 · second · process 9", "rank 1 · second · GPU 0 (process 9)", "rank 1 · second · GPU 1 (process 9)",
    ]  # fmt: skip
    assert {t["name"] for t in seen["threads"]} == {
        "API calls", "stream 7", "stream 7, context 1", "stream 8, context 2"
    }  # fmt: skip
    numbers = [n for lane in loaded(path)["tracekit"]["lanes"] for n in (lane["pid"], lane["tid"])]
    assert len(set(numbers)) == 6 + 8


@pytest.mark.viewer
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_no_events_make_a_valid_empty_trace(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    result = written(path)
    assert (result.events, result.left_out) == (0, {})
    assert loaded(path)["traceEvents"] == []
    assert loaded(path)["baseTimeNanoseconds"] == 0
    assert perfetto(path)["accepted"]


def test_gzip_holds_the_same_text_and_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    batch = rows(500, ts_ns=np.arange(500) * 1001, dur_ns=np.arange(500), name="k", device=0, stream=7)
    for name in ("a.json", "b.json.gz", "c.trace.json.GZ"):
        written(tmp_path / name, batch)
    plain = (tmp_path / "a.json").read_bytes()
    assert gzip.decompress((tmp_path / "b.json.gz").read_bytes()) == plain
    assert (tmp_path / "b.json.gz").read_bytes() == (tmp_path / "c.trace.json.GZ").read_bytes()
    assert loaded(tmp_path / "b.json.gz") == loaded(tmp_path / "a.json")


def test_how_rows_are_cut_into_batches_does_not_change_the_events(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    count = 150_000
    table = pa.Table.from_batches([rows(
        count, ts_ns=np.cumsum(rng.integers(0, 50, count)), dur_ns=rng.integers(0, 120, count), device=0,
        stream=rng.integers(1, 4, count), name=pa.array(rng.choice(["a", "b", "c"], count)),
        bytes=pa.array(rng.integers(0, 9, count), mask=rng.random(count) < 0.5),
    )])  # fmt: skip
    for name, size in (("a.json", 1 << 16), ("b.json", 7_001)):
        written(tmp_path / name, *in_order(iter(table.to_batches(size))))
    assert events(tmp_path / "a.json") == events(tmp_path / "b.json")
    check_laminar(tmp_path / "a.json")


def test_speedscope_gets_no_lane_without_slices(tmp_path: Path) -> None:
    batch = rows(3, ts_ns=np.arange(3), dur_ns=pa.array([None, 5, None], pa.int64()),
                 kind=pa.array(["mark", "operator", "mark"]),
                 tid=np.array([1, 2, 3]), pid=np.array([1, 1, 2]))  # fmt: skip
    for viewer, lanes in (("speedscope", 1), ("", 3)):
        written(tmp_path / "t.json", batch, viewer=viewer)
        made = loaded(tmp_path / "t.json")["traceEvents"]
        meta = {(e["pid"], e["tid"]) for e in made if e["ph"] == "M"}
        assert len(meta) == lanes
        if viewer:
            assert meta == {(e["pid"], e["tid"]) for e in made if e["ph"] == "X"}
        assert len(made) - sum(e["ph"] == "M" for e in made) == 3


def test_chrome_is_warned_of_a_trace_that_it_cannot_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = rows(3, ts_ns=np.arange(3), dur_ns=np.ones(3, np.int64))
    assert written(tmp_path / "t.json", batch, viewer="chrome").notes == []
    small(monkeypatch, Limit.CHROME_EVENTS, 2)
    (note,) = written(tmp_path / "t.json", batch, viewer="chrome").notes
    assert note.startswith("3 events in 0 MB: chrome://tracing fails above about a million events")
    assert written(tmp_path / "t.json", batch, viewer="perfetto").notes == []


def test_times_that_no_viewer_can_hold_are_counted_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    far = (1 << 62) + (1 << 61)
    batch = rows(4, ts_ns=np.array([-5, 0, 10**16, far]), dur_ns=np.array([3, far, 7, 1]), device=0, stream=1)
    result = written(path, batch)
    assert [(row["ts_ns"], row["dur_ns"]) for row in read_back(path)] == [(-5, 3), (10**16, 7)]
    assert result.left_out == {"beyond-what-viewers-hold": 2}
    assert result.notes == [
        "2 rows were not written: they end more than 146 years after the first event",
        "the trace is longer than 101 days: the file has every ns, but viewers round its later times",
    ]


def test_a_negative_duration_becomes_zero_with_its_value_in_args(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    result = written(path, rows(2, ts_ns=np.arange(2), dur_ns=np.array([-7, 7]), device=0))
    assert [(e["dur"], e["args"].get("dur_ns")) for e in events(path)] == [(0, -7), (0.007, None)]
    assert result.notes == ["1 slices have a negative duration: written as 0, with the value in args.dur_ns"]


def test_totals_beside_events_are_not_written(tmp_path: Path) -> None:
    totals = totals_batch(2, {"source": 0, "run": 0, "section": "s", "order": np.arange(2)})
    result = written(tmp_path / "t.json", totals, rows(1, ts_ns=np.array([4]), dur_ns=np.array([2])))
    assert (result.events, result.left_out) == (1, {"totals": 2})


def test_an_args_text_that_is_no_object_is_kept_as_text(tmp_path: Path) -> None:
    texts = [
        "[1]",
        '{"a":',
        '{"a": NaN}',
        '{"stream": 3}',
        "{}",
        '{"a": 1e400, "b": 123456789012345678901}',
        "{" * 9000,
    ]
    count = len(texts)
    written(
        tmp_path / "t.json", rows(count, ts_ns=np.arange(count), tid=1, kind="mark", name="m", args=pa.array(texts))
    )
    made = [e["args"] for e in events(tmp_path / "t.json")]
    assert [a.get("args_text") for a in made] == [*texts[:3], None, None, None, texts[6]]
    assert [a.get("args") for a in made[3:6]] == [{"stream": 3}, {}, None]
    assert made[5] == {"a": float("inf"), "b": 123456789012345678901}


def test_names_too_long_to_join_at_once_are_written_in_pieces(tmp_path: Path) -> None:
    count, name = 3000, "x" * 60_000
    written(tmp_path / "t.json", rows(count, ts_ns=np.arange(count) * 2, dur_ns=np.ones(count, np.int64), name=name))
    made = events(tmp_path / "t.json")
    assert [e["ts"] for e in made] == [n * 2 / 1000 for n in range(count)]
    assert {e["name"] for e in made} == {name}


def test_an_unknown_context_is_no_second_context_and_a_device_known_by_name_has_it_once(tmp_path: Path) -> None:
    batch = rows(2, ts_ns=np.arange(2), device=1 << 20, stream=7, context=pa.array([None, 1], pa.int64()))
    run = Run(devices={(0, 1 << 20): "Tesla P4"}, ids={("device", 0, 1 << 20): "Tesla P4"})
    written(tmp_path / "t.json", batch, run=run)
    made = loaded(tmp_path / "t.json")["traceEvents"]
    names = [e["args"]["name"] for e in made if e["name"].endswith("_name")]
    assert sorted(names) == ["GPU Tesla P4", "stream 7", "stream 7"]

"""XPlane profiles: real files against figures counted apart, ours, damage, exact picoseconds, nothing twice."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doors.readers import scan
from hypothesis import given, settings
from hypothesis import strategies as st
from small_limits import Limit, small
from support import SAMPLES, corpus_next, sample, sure_readers

import tracekit
from tracekit.errors import ParseError, TracekitError
from tracekit.model.trace import Trace

MAKE = runpy.run_path(str(SAMPLES / "_xplane.py"))
message, Plane = MAKE["message"], MAKE["Plane"]
LONG_AGO = 237_916
UNIX = 1_780_000_000_000_000_000

TF_GPU = {
    (1, "Stream #123(MemcpyH2D)", "memcpy"): (19, 33_792_000),
    (4, "Stream #63(MemcpyH2D)", "memcpy"): (2, 5_120_000),
    (4, "Stream #135(MemcpyH2D)", "memcpy"): (80, 153_853_000),
    (4, "Stream #134(Compute)", "kernel"): (665, 14_825_385_000),
    (4, "Stream #136(MemcpyD2H)", "memcpy"): (12, 39_456_000),
    (4, "TensorFlow Ops", "other"): (665, 14_825_385_000),
    (6, "Stream #142(Compute)", "kernel"): (665, 14_865_363_000),
}
TPU = {
    (0, "XLA Modules", "other"): (105, 78_809_571_544_558),
    (0, "XLA Ops", "kernel"): (304, 2_736_558_845_662),
    (0, "XLA Ops", "memcpy"): (1200, 76_048_368_789_840),
    (0, "Async XLA Ops", "other"): (600, 197_605_761_832_850),
    (1, "XLA Ops", "kernel"): (303, 2_740_087_635_212),
    (1, "XLA Ops", "memcpy"): (1200, 76_049_421_686_542),
    (2, "XLA Ops", "kernel"): (303, 2_650_663_424_334),
    (2, "XLA Ops", "memcpy"): (1200, 76_131_323_449_738),
    (3, "XLA Ops", "kernel"): (303, 2_737_467_789_074),
    (3, "XLA Ops", "memcpy"): (1200, 76_028_813_898_994),
}
"""Events and ps of lines, by a parser of the wire format of its own (SOURCES.md of the corpus)."""


def rows(trace: Trace) -> list[dict[str, Any]]:
    """All events, with `args` as a dict and the exact duration in `ps`."""
    found = trace.events.to_pylist()
    for row in found:
        row["args"] = json.loads(row["args"] or "{}")
        row["ps"] = row["dur_ns"] * 1000 + row["args"].get("dur_ps", 0)
    return found


def lines(trace: Trace) -> dict[tuple[Any, str, str], tuple[int, int]]:
    """Events and ps of each line of each device, by kind; of the host as one."""
    found: dict[tuple[Any, str, str], tuple[int, int]] = {}
    for row in rows(trace):
        name = "" if row["device"] is None else trace.run.streams[0, row["device"], row["stream"]]
        key = row["device"], name, "" if row["device"] is None else row["kind"]
        count, total = found.get(key, (0, 0))
        found[key] = count + 1, total + row["ps"]
    return found


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "want", "host"), [("tf_gpu_8x", TF_GPU, 15_354), ("tpu_inference_4x", TPU, 19_270)])
def test_real_files_have_the_events_and_picoseconds_that_were_counted_apart(
    name: str, want: dict[tuple[int, str, str], tuple[int, int]], host: int
) -> None:
    path = corpus_next(f"xplane/{name}.xplane.pb.gz")
    assert sure_readers(path) == ["xplane"]
    trace = tracekit.read(path)
    found = lines(trace)
    assert {key: found.get(key) for key in want} == want
    assert found[None, "", ""][0] == host
    assert not trace.ledgers[0].dropped


@pytest.mark.corpus
def test_real_work_is_counted_once() -> None:
    found = lines(tracekit.read(corpus_next("xplane/tf_gpu_8x.xplane.pb.gz")))
    work = {key for key in found if key[0] is not None and key[2] != "other"}
    assert all(name.startswith("Stream #") for _, name, _ in work)
    assert sum(found[4, name, "kernel"][1] for device, name, kind in work if (device, kind) == (4, "kernel")) == (
        14_825_385_000
    )


@pytest.mark.corpus
def test_a_file_that_was_changed_as_text_is_refused() -> None:
    with pytest.raises(ParseError, match="changed as if it were text") as caught:
        tracekit.read(corpus_next("xplane/tpu_mangled_utf8.xplane.pb.gz"))
    assert "binary mode" in caught.value.hint


def test_our_gpus_have_their_work_steps_and_launches() -> None:
    trace = tracekit.read(sample("xplane/gpu.xplane.pb"))
    found = rows(trace)
    kinds = Counter(row["kind"] for row in found)
    assert kinds == {"kernel": 8, "memcpy": 4, "driver": 12, "operator": 4, "python_op": 2, "step": 2, "other": 16}
    kernel = next(row for row in found if row["kind"] == "kernel")
    assert (kernel["grid_x"], kernel["block_x"]) == (160, 256)
    assert (kernel["registers"], kernel["static_smem_bytes"], kernel["dynamic_smem_bytes"]) == (38, 1024, 0)
    assert kernel["args"]["kernel_details"] == "occ_pct:50"
    copy = next(row for row in found if row["kind"] == "memcpy")
    assert (copy["bytes"], copy["copy_kind"], copy["ps"]) == (4096, "HtoD", 3_264_000)
    assert {row["step"] for row in found if row["kind"] == "kernel"} == {0, 1}
    calls = {row["correlation"] for row in found if row["kind"] == "driver"}
    assert {row["correlation"] for row in found if row["kind"] in ("kernel", "memcpy")} <= calls
    assert all(row["args"]["derived"] for row in found if row["device"] is not None and row["kind"] == "other")
    assert trace.run.origin_ns is None
    assert trace.run.sources[0].facts["host"] == "gpubox"


@pytest.mark.corpus
def test_calls_that_tensorflow_names_after_their_kernels_are_launches() -> None:
    """Each piece of device work has one row of the host with its correlation id, its name, and an earlier start."""
    found = rows(tracekit.read(corpus_next("xplane/tf_gpu_8x.xplane.pb.gz")))
    work = {row["correlation"]: row for row in found if row["kind"] in ("kernel", "memcpy")}
    calls = {row["correlation"]: row for row in found if row["kind"] == "driver" and row["correlation"] is not None}
    assert (len(work), calls.keys()) == (1556, work.keys())
    assert all(calls[key]["name"] == row["name"] and calls[key]["ts_ns"] < row["ts_ns"] for key, row in work.items())
    assert {row["block_x"] for row in calls.values()} == {None}


def test_our_tpu_has_exact_picoseconds_and_counts_a_loop_once() -> None:
    trace = tracekit.read(sample("xplane/tpu.xplane.pb"))
    found = rows(trace)
    ops = [row for row in found if trace.run.streams.get((0, row["device"], row["stream"])) == "XLA Ops"]
    assert [row["ps"] for row in ops if row["kind"] == "kernel"] == [900_000_125 + n for n in range(4)] + [0]
    loop = next(row for row in ops if row["kind"] == "other")
    assert loop["name"].startswith("%while")
    assert loop["ps"] == 4_000_000_511
    assert loop["ts_ns"] * 1000 + loop["args"]["ts_ps"] == 5_353_251_600_078
    inner = [row for row in ops if row["kind"] == "kernel" and row["ps"]]
    assert all(row["ts_ns"] + row["dur_ns"] <= loop["ts_ns"] + loop["dur_ns"] for row in inner)
    assert inner[0]["args"]["flops"] == 4096
    assert inner[0]["args"]["device_duration_ps"] == 900_000_047
    assert trace.run.devices == {(0, 0): "/device:TPU:0 (TPU v5 lite)"}
    assert trace.run.origin_ns == UNIX
    total = trace.totals.to_pylist()
    assert [(row["name"], row["calls"], row["total_ns"]) for row in total] == [("MapDmaBuffer", 12, 7000)]
    call = next(row for row in found if row["name"].startswith("Pjit"))
    assert call["args"] == {"label": "train", "size": 0.5}
    watts = next(row for row in found if row["name"] == "watts")
    assert watts["tid"] != call["tid"]
    assert watts["args"] == {"raw": "01ff"}
    assert "2 events were lost" in trace.ledgers[0].notes["profiler-said"].text


def test_the_generator_writes_these_files(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", str(SAMPLES / "_xplane.py"), str(tmp_path)], check=True)
    for path in (tmp_path / "xplane").iterdir():
        assert path.read_bytes() == sample(f"xplane/{path.name}").read_bytes()


def written(path: Path, *planes: Any) -> Path:
    path.write_bytes(message(*(plane.data() for plane in planes)))
    return path


def test_a_long_line_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane(0, "/host:CPU")
    plane.line(1, "main", LONG_AGO, [plane.event(f"f{n % 7}", n * 1000, 500, n=n) for n in range(1000)])
    path = written(tmp_path / "x.xplane.pb", plane)
    whole = tracekit.read(path).events.to_pylist()
    small(monkeypatch, Limit.XPLANE_PIECE_BYTES, 999)
    assert tracekit.read(path).events.to_pylist() == whole
    # No place can be guessed: fields are followed one by one.
    small(monkeypatch, Limit.XPLANE_NEAR_BYTES, 0)
    assert tracekit.read(path).events.to_pylist() == whole
    assert len(whole) == 1000


def test_long_args_are_made_in_several_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane(0, "/host:CPU")
    for line in range(3):
        events = [plane.event(f"f{n % 7}", n * 1000, 500, text="x" * n) for n in range(100)]
        plane.line(line, f"thread {line}", LONG_AGO, events)
    path = written(tmp_path / "x.xplane.pb", plane)
    whole = tracekit.read(path)
    small(monkeypatch, Limit.XPLANE_TEXT_BYTES, 2000)
    halves = tracekit.read(path)
    assert halves.events.to_pylist() == whole.events.to_pylist()
    assert halves.ledgers[0] == whole.ledgers[0]


KEYS = ("group_id", "correlation_id", "step_num", "kernel_details", "memcpy_details", "ts_ps", 'a "key"', "")
VALUES = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([0, 1, -1, 127, 128, (1 << 31) - 1, 1 << 31, (1 << 56) - 1, 1 << 56]),
    st.floats(),
    st.text(max_size=6),
    st.text("ab", min_size=120, max_size=140),
    st.binary(max_size=80),
    st.sampled_from(
        ["regs:38 grid:160,1,1 left", "size:77 regs:9", "num_bytes:1", "", 'a"b', "tab\t", "&group_id", "&x"]
    ),
)


def stat_bytes(plane: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> bytes:
    """A stat: nearly always in the form that writers use."""
    key, value = draw(st.sampled_from(KEYS)), draw(VALUES)
    data = plane.stat(key, value)
    form = draw(st.integers(0, 30))
    if form == 0 and isinstance(value, int):
        return MAKE["message"]((1, plane.key(key)), (3, value & (1 << 64) - 1))
    if form == 1:
        return bytes(data[:-1])
    if form == 2:
        return bytes(data + data)
    if form == 3:
        return b"\x08\xb9\x60\x20\x05"
    if form == 4:
        return b"\x20\x05"
    return b"\x08\x02\x2a\x03\xff\xfe\x41" if form == 5 else bytes(data)


def event_bytes(plane: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> bytes:
    """An event: nearly always in the form that writers use."""
    stats = [(4, stat_bytes(plane, draw)) for _ in range(draw(st.integers(0, 4)))]
    name = plane.name(draw(st.sampled_from("fgh")), draw(st.sampled_from(["", "short"])), ts_ps=4, group_id=7)
    fields = [(1, name), (2, draw(st.integers(0, 1 << 50))), (3, draw(st.integers(0, 1 << 45))), *stats]
    form = draw(st.integers(0, 30))
    if form == 0:
        fields.append((5, 3))
    if form == 1:
        fields.reverse()
    if form == 2:
        fields.append((99, 3))
    return bytes(message(*fields)[: -1 if form == 3 else None])


def all_odd(events: Sequence[bytes]) -> Any:
    """Scan events as if each of them had to be read by itself."""
    found = scan(events)
    none = replace(found.stats, **{name: getattr(found.stats, name)[:0] for name in found.stats.__slots__})
    return replace(found, stats=none, odd=np.arange(len(events)))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_columns_have_what_one_event_after_the_other_gives(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    host, gpu = Plane(0, "/host:CPU"), Plane(1, "/device:GPU:0")
    for plane, names in ((host, ["main", "worker"]), (gpu, ["Stream #7(Compute)", "XLA Ops"])):
        for number, name in enumerate(names):
            events = [(4, event_bytes(plane, data.draw)) for _ in range(data.draw(st.integers(0, 8)))]
            plane.line(number, name, LONG_AGO, events)
    path = written(tmp_path_factory.mktemp("drawn") / "x.xplane.pb", host, gpu)
    fast = tracekit.read(path, format="xplane")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracekit.readers.xplane.reader.scan", all_odd)
        slow = tracekit.read(path, format="xplane")
    assert fast.events.to_pylist() == slow.events.to_pylist()
    assert fast.totals.to_pylist() == slow.totals.to_pylist()
    assert fast.ledgers[0] == slow.ledgers[0]


@pytest.mark.parametrize("scanned", [scan, all_odd])
def test_events_have_the_stats_and_the_other_name_of_their_name(
    scanned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane(0, "/host:CPU")
    plane.name("both", "other", hlo="x", none="&nothing")
    plane.name("short", "brief")
    plane.name("same", "same")
    plane.name("stats", hlo="y", kernel_details="regs:38")
    events = [plane.event(name, 1000 * at, 1000) for at, name in enumerate(("both", "short", "same", "stats", "plain"))]
    plane.line(1, "main", LONG_AGO, [*events, plane.event("both", 9001, 1002, hlo="own", more=1)])
    monkeypatch.setattr("tracekit.readers.xplane.reader.scan", scanned)
    trace = tracekit.read(written(tmp_path / "x.xplane.pb", plane))
    assert [(row["name"], row["args"]) for row in rows(trace)] == [
        ("both", {"hlo": "x", "none": "nothing", "display_name": "other"}), ("short", {"display_name": "brief"}),
        ("same", {}), ("stats", {"hlo": "y", "kernel_details": None}), ("plain", {}),
        ("both", {"ts_ps": 1, "dur_ps": 2, "hlo": "own", "none": "nothing", "display_name": "other", "more": 1}),
    ]  # fmt: skip


@pytest.mark.parametrize("scanned", [scan, all_odd])
@pytest.mark.parametrize(("key", "column", "most"), [
    ("correlation_id", "correlation", (1 << 63) - 1), ("step_num", "step", (1 << 31) - 1)
])  # fmt: skip
def test_ids_that_a_column_holds_are_in_it_and_others_in_args(
    key: str, column: str, most: int, scanned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [0, 1, most, -1, "7", 1.5, *([most + 1] if most < 1 << 32 else [])]
    plane = Plane(0, "/host:CPU")
    plane.line(1, "main", LONG_AGO, [plane.event("f", 1000 * at, 1000, **{key: v}) for at, v in enumerate(values)])
    monkeypatch.setattr("tracekit.readers.xplane.reader.scan", scanned)
    found = rows(tracekit.read(written(tmp_path / "x.xplane.pb", plane)))
    assert [row[column] for row in found] == [0, 1, most, *[None] * (len(values) - 3)]
    assert [row["args"].get(key) for row in found] == [None, None, None, *values[3:]]


def test_few_stats_in_memory_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane(0, "/host:CPU")
    plane.line(1, "main", LONG_AGO, [plane.event("f", 1000 * at, 1000, n=at % 5, s="x") for at in range(30)])
    path = written(tmp_path / "x.xplane.pb", plane)
    whole = tracekit.read(path).events.to_pylist()
    monkeypatch.setattr("tracekit.readers.xplane.reader.scan", all_odd)
    for most in (1, 3, 1 << 16):
        small(monkeypatch, Limit.XPLANE_CELLS, most)
        assert tracekit.read(path).events.to_pylist() == whole


def test_a_damaged_stat_is_noted_and_shown_by_its_first_bytes(tmp_path: Path) -> None:
    plane = Plane(0, "/host:CPU")
    bad = b"\x08\xff" + b"\x2a" * 80
    plane.line(1, "main", LONG_AGO, [(4, message((1, plane.name("f")), (2, 1000), (3, 1000), (4, bad)))])
    trace = tracekit.read(written(tmp_path / "x.xplane.pb", plane))
    (row,) = rows(trace)
    assert row["args"] == {"damaged stat": bad[:64].hex()}
    assert trace.ledgers[0].notes["bad-stat"].count == 1
    assert "no protobuf" in trace.ledgers[0].notes["bad-stat"].text


def test_a_damaged_event_costs_itself(tmp_path: Path) -> None:
    plane = Plane(0, "/host:CPU")
    good = [plane.event("good", 1000, 2000, n=n) for n in range(3)]
    plane.line(2, "main", 7, [good[0], (4, b"\x08\x01\x10"), good[1], (4, b"\x08\x01\x22\x7f\x08"), good[2]])
    trace = tracekit.read(written(tmp_path / "x.xplane.pb", plane))
    assert [row["args"] for row in rows(trace)] == [{"n": n} for n in range(3)]
    assert trace.ledgers[0].dropped == {"damaged": 2}


@pytest.mark.parametrize(
    ("start", "offset", "length"),
    [(0, -1, 5), (0, 5, -1), (-5, 1000, 5), (0, 1 << 62, 5), (0, 5, 1 << 62), ((1 << 63) - 1, 1 << 61, 1)],
)
def test_times_out_of_range_cost_their_event(tmp_path: Path, start: int, offset: int, length: int) -> None:
    plane = Plane(0, "/host:CPU")
    plane.line(1, "main", start, [plane.event("bad", offset, length)])
    plane.line(2, "other", 7, [plane.event("good", 0, 1000)])
    trace = tracekit.read(written(tmp_path / "x.xplane.pb", plane))
    assert trace.events.column("name").to_pylist() == ["good"]
    assert trace.ledgers[0].dropped == {"bad-time": 1}


def test_unix_time_is_the_origin_and_two_clocks_are_said(tmp_path: Path) -> None:
    host, device = Plane(0, "/host:CPU"), Plane(1, "/device:TPU:0")
    host.line(1, "main", UNIX, [host.event("f", 1500, 2000)])
    trace = tracekit.read(written(tmp_path / "one.xplane.pb", host))
    assert (trace.run.origin_ns or 0) + trace.events.column("ts_ns").to_pylist()[0] == UNIX + 1
    device.line(3, "XLA Ops", 0, [device.event("g", 1500, 2000)])
    trace = tracekit.read(written(tmp_path / "two.xplane.pb", host, device))
    assert "two-clocks" in trace.ledgers[0].notes


def test_a_line_that_is_damaged_is_dropped_and_others_stay(tmp_path: Path) -> None:
    plane = Plane(0, "/host:CPU")
    plane.lines.append(b"\x22\x05\xff\xff\xff\xff\xff")
    plane.line(2, "main", 7, [plane.event("good", 0, 1000)])
    trace = tracekit.read(written(tmp_path / "x.xplane.pb", plane))
    assert len(trace.events) == 1
    assert trace.ledgers[0].dropped == {"damaged": 1}


def test_names_behind_the_cut_are_numbers(tmp_path: Path) -> None:
    plane = Plane(0, "/host:CPU")
    plane.line(2, "main", 7, [plane.event("good", 0, 1000)])
    plane.events = {}
    trace = tracekit.read(written(tmp_path / "x.xplane.pb", plane))
    assert trace.events.column("name").to_pylist() == ["event 1"]
    assert "names-missing" in trace.ledgers[0].notes


def test_numbers_of_cupti_that_are_nonsense_stay_as_text(tmp_path: Path) -> None:
    text = "regs:687194767361 shm:4294967297 grid:2256,139757090178736,971983408"
    plane = Plane(1, "/device:GPU:0")
    stats = {"kernel_details": f"{text} block:8,1,1"}
    plane.line(7, "Stream #7(Compute)", 7, [plane.event("k", 0, 1000, **stats)])
    row = rows(tracekit.read(written(tmp_path / "x.xplane.pb", plane)))[0]
    assert (row["block_x"], row["grid_x"], row["registers"]) == (8, None, None)
    assert row["args"] == {"kernel_details": text}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_costs_rows_and_nothing_else(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = bytearray(sample("xplane/" + data.draw(st.sampled_from(["gpu", "tpu"])) + ".xplane.pb").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "x"
    path.write_bytes(content)
    try:
        tracekit.read(path, format="xplane").ledgers[0].check()
    except TracekitError as err:
        assert err.__class__.__name__ != "SchemaError"  # noqa: PT017 - a refusal is fine, a wrong ledger is not


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("%copy-done.2 = f32[5,256]{1,0:T(8,128)} copy-done((f32[5,256]{1,0}, u32[]) %copy-start.2)", "memcpy"),
        ("%prefetch = (f32[5]{0}, f32[5]{0:S(5)}, u32[]) copy-start(f32[5]{0} %param.1)", "memcpy"),
        ("copy-done.7", "memcpy"),
        ("slice-start", "memcpy"),
        ("%copy.3 = f32[5,256]{1,0} copy(f32[5,256]{0,1} %copy-done.2)", "kernel"),  # the device moves the data itself
        ("%fusion.1 = f32[5]{0} fusion(f32[5]{0} %copy-done.2), kind=kLoop", "kernel"),
        ("%all-reduce-done = f32[5]{0} all-reduce-done(f32[5]{0} %all-reduce-start)", "kernel"),
    ],
)
def test_an_op_of_a_tpu_that_waits_for_a_copy_is_a_copy_and_no_compute(tmp_path: Path, op: str, kind: str) -> None:
    device = Plane(1, "/device:TPU:0")
    device.line(3, "XLA Ops", 0, [device.event(op, 1500, 2000)])
    trace = tracekit.read(written(tmp_path / "one.xplane.pb", device))
    assert [str(row["kind"]) for row in rows(trace)] == [kind]


@pytest.mark.parametrize("wait_us", [4, 0])
def test_of_an_asynchronous_copy_only_the_time_that_the_core_waits_is_exposed(tmp_path: Path, wait_us: int) -> None:
    us, start = 10**6, "%copy-start.1 = (f32[5]{0}, u32[]) copy-start(f32[5]{0} %param.1)"
    fusion, done = "%fusion = f32[5]{0} fusion(f32[5]{0} %param.2)", "%copy-done.1 = f32[5]{0} copy-done(%copy-start.1)"
    device = Plane(1, "/device:TPU:0")
    ops = [(start, 0, 1), (fusion, 1, 29), (done, 30, wait_us), (fusion, 34, 6)]
    device.line(3, "XLA Ops", 0, [device.event(op, at * us, length * us) for op, at, length in ops])
    # The copy itself runs from its start to the end of the wait, beside the fusion.
    device.line(4, "Async XLA Ops", 0, [device.event(start, 0, (30 + wait_us) * us)])
    made = tracekit.summary(tracekit.read(written(tmp_path / "async.xplane.pb", device)), views=["breakdown"])
    (table,) = (each for each in made.sections[0].tables if each.name == "devices")
    found = {column.name: column.values[0] for column in table.columns}
    assert (found["compute"], found["exposed_copies"]) == (35_000, (1 + wait_us) * 1000)


def test_tpus_are_called_tpus_and_are_one_group() -> None:
    made = tracekit.summary(tracekit.read(sample("xplane/tpu.xplane.pb")))
    assert made.headline is not None
    assert [each.label for each in made.headline.devices] == ["TPU 0 (v5 lite)"]
    assert dict(made.facts)["device"] == "TPU v5 lite"


def test_a_device_whose_name_has_no_model_is_called_by_its_number() -> None:
    made = tracekit.summary(tracekit.read(sample("xplane/gpu.xplane.pb")))
    assert dict(made.facts)["device"] == "GPU 0, GPU 1"

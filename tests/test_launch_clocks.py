"""Host and device clocks brought together by launches: two inputs of one program, and devices within one input."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from support import corpus, corpus_next
from typer.testing import CliRunner

import tracekit
from tracekit.cli import app
from tracekit.model.trace import Trace

ROCPROF = {
    "decode": ("rocprof/v3_decode_hip_api_trace.csv", "rocprof/v3_decode_kernel_trace.csv"),
    "prefill": ("rocprof/v3_prefill_hip_api_trace.csv", "rocprof/v3_prefill_kernel_trace.csv.gz"),
    "doc": ("rocprof/v3_doc_hip_trace.csv", "rocprof/v3_doc_kernel_trace.csv"),
}


def clocks(trace: Trace) -> list[dict[str, object]]:
    return [source.facts["clock"] for source in trace.run.sources]


def notes(trace: Trace) -> dict[str, str]:
    return {code: str(note) for ledger in trace.ledgers for code, note in ledger.notes.items()}


@pytest.mark.parametrize("name", ["decode", "prefill"])
def test_calls_and_kernels_of_one_rocprof_run_share_their_clock(name: str) -> None:
    """Two files of one run, on the clock of the machine: their own times fit, and stay."""
    trace = tracekit.read([corpus_next(part) for part in ROCPROF[name]])
    host, device = clocks(trace)
    assert (host["method"], device["method"]) == ("reference", "launches")
    assert host["group"] == device["group"]
    assert device["offset_ns"] == 0
    low, high = device["possible_ns"]  # type: ignore[misc]
    assert -40_000 < low < 0  # the fastest launch
    assert high is None  # no call waits for work in a way that is certain
    assert device["uncertainty_ns"] is None
    assert "clocks-not-comparable" not in notes(trace)
    frame = trace.to_pandas()
    calls = frame[(frame["source"] == 0) & frame["correlation"].notna()].groupby("correlation")["ts_ns"].min()
    work = frame[frame["source"] == 1].set_index("correlation")["ts_ns"]
    delay = (work - calls.reindex(work.index)).dropna()
    assert len(delay) > 20
    assert delay.min() > 0


@pytest.mark.parametrize(("calls", "kernels"), [("decode", "prefill"), ("prefill", "decode"), ("doc", "doc")])
def test_ids_that_two_programs_both_have_prove_nothing(calls: str, kernels: str) -> None:
    for align in ("auto", "launches"):
        trace = tracekit.read([corpus_next(ROCPROF[calls][0]), corpus_next(ROCPROF[kernels][1])], align=align)
        assert {each["method"] for each in clocks(trace)} == {"own"}
        assert "each starts at its own zero" in notes(trace)["clocks-not-comparable"]
    assert "its clock stays as it is" in notes(trace)["clock-refused"]


def program(seed: int, count: int = 60) -> tuple[list[tuple[int, int, int, str]], list[tuple[int, int, int, str]]]:
    """Calls and device work: start, duration, id and name of each, ns. One in eight is a copy to the host."""
    rng = np.random.default_rng(seed)
    at = free = 1_000
    calls, work = [], []
    for number in range(1, count + 1):
        at += int(rng.exponential(300_000))
        copy = number % 8 == 0
        begin = max(at + 4_000 + int(rng.exponential(3_000)), free)
        free = begin + 20_000 + int(rng.exponential(80_000))
        last = max(at + 3_000, free + 1_500 + int(rng.exponential(2_000))) if copy else at + 3_000
        calls.append((at, last - at, number, "cudaMemcpy" if copy else "cudaLaunchKernel"))
        work.append((begin, free - begin, number, "[CUDA memcpy DtoH]" if copy else "gemm(float*)"))
        at = last
    return calls, work


def write_nvprof(folder: Path, seed: int, ahead_ns: int, pids: tuple[int, int] = (4711, 4711)) -> tuple[Path, Path]:
    """Write the two tables that nvprof prints of one run, where the second one's clock is ahead."""
    calls, work = program(seed)
    paths = folder / "api.csv", folder / "gpu.csv"
    head = "=={0}== NVPROF is profiling process {0}, command: ./train\n=={0}== Profiling result:\n"
    rows = [f'{start / 1e6:.6f},{dur / 1e6:.6f},"{name}",{number}' for start, dur, number, name in calls]
    text = head.format(pids[0]) + '"Start","Duration","Name","Correlation_ID"\nms,ms,,\n' + "\n".join(rows) + "\n"
    paths[0].write_text(text)
    columns = (
        '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread",'
        '"Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream",'
        '"Name","Correlation_ID"\nms,ms,,,,,,,,KB,B,MB,GB/s,,,,,,,\n'
    )
    rows = []
    for start, dur, number, name in work:
        shape = ",,,,,,,,,1.0,5.0,Device,Pageable" if "memcpy" in name else "8,1,1,64,1,1,32,0.0,0,,,,"
        begin = (start + ahead_ns) / 1e6
        rows.append(f'{begin:.6f},{dur / 1e6:.6f},{shape},"Tesla V100 (0)","1","7","{name}",{number}')
    paths[1].write_text(head.format(pids[1]) + columns + "\n".join(rows) + "\n")
    return paths


@pytest.mark.parametrize("ahead_ns", [4_321_000_000, 12_000_000, 0])
def test_two_tables_of_one_run_are_put_onto_one_clock_to_an_interval_that_holds_the_truth(
    tmp_path: Path, ahead_ns: int
) -> None:
    for seed in range(4):
        trace = tracekit.read(write_nvprof(tmp_path, seed, ahead_ns))
        host, device = clocks(trace)
        assert (host["method"], device["method"]) == ("reference", "launches")
        low, high = device["possible_ns"]  # type: ignore[misc]
        assert low <= -ahead_ns <= high
        assert abs(int(str(device["offset_ns"])) + ahead_ns) <= int(str(device["uncertainty_ns"]))
        assert high - low < 40_000
        assert device["launches"] == 60
        if not ahead_ns:
            assert device["offset_ns"] == 0
        frame = trace.to_pandas()
        begun = frame[frame["source"] == 0].set_index("correlation")["ts_ns"]
        work = frame[frame["source"] == 1].set_index("correlation")["ts_ns"]
        assert ((work - begun) >= 0).all()


def test_which_input_comes_first_has_no_meaning(tmp_path: Path) -> None:
    api, gpu = write_nvprof(tmp_path, 1, 5_000_000)
    one, other = clocks(tracekit.read([api, gpu])), clocks(tracekit.read([gpu, api]))
    assert [each["offset_ns"] for each in one] == [each["offset_ns"] for each in reversed(other)]
    assert one[1]["possible_ns"] == other[0]["possible_ns"]


def test_inspect_convert_and_parquet_say_the_interval(tmp_path: Path) -> None:
    paths = write_nvprof(tmp_path, 2, 5_000_000)
    found = clocks(tracekit.read(paths))
    tracekit.convert(paths, tmp_path / "out.json")
    tracekit.convert(paths, tmp_path / "out.parquet")
    whole = json.loads((tmp_path / "out.json").read_text())
    assert [source["facts"]["clock"] for source in whole["tracekit"]["sources"]] == found
    assert clocks(tracekit.read(tmp_path / "out.parquet")) == found
    shown = CliRunner().invoke(app, ["inspect", *map(str, paths)]).stdout
    assert "by launches, against" in shown
    assert "any offset from -5,0" in " ".join(shown.split())
    one_sided = [str(corpus_next(part)) for part in ROCPROF["decode"]]
    assert "ns or more" in CliRunner().invoke(app, ["inspect", *one_sided]).stdout


def test_tables_of_two_runs_of_one_program_stay_apart(tmp_path: Path) -> None:
    paths = write_nvprof(tmp_path, 1, 0, pids=(4711, 4712))
    for align in ("auto", "launches"):
        trace = tracekit.read(paths, align=align)
        assert {each["method"] for each in clocks(trace)} == {"own"}


def test_a_user_who_names_another_method_gets_it(tmp_path: Path) -> None:
    paths = write_nvprof(tmp_path, 1, 5_000_000)
    for align in ("none", "wall-clock"):
        assert {each["method"] for each in clocks(tracekit.read(paths, align=align))} == {"own"}
    moved = clocks(tracekit.read(paths, align="gpu.csv=-5ms"))
    assert moved[1]["method"] == "offset"


def early(tmp_path: Path, by_ns: int) -> Path:
    """A real trace of torch whose device rows are earlier. Its fastest launch takes 7,495 ns."""
    whole = json.loads(gzip.decompress(Path(corpus("kineto/hta_nccl_data.json.gz")).read_bytes()))
    for event in whole["traceEvents"]:
        if event.get("ph") == "X" and "stream" in event.get("args", {}) and event["cat"] != "cuda_runtime":
            event["ts"] -= by_ns / 1_000
    path = tmp_path / "early.json"
    path.write_text(json.dumps(whole))
    return path


def test_work_before_its_launch_is_said_with_the_smallest_shift_and_stays(tmp_path: Path) -> None:
    path = early(tmp_path, 30_000)
    plain, right = tracekit.read(path), tracekit.read(corpus("kineto/hta_nccl_data.json.gz"))
    firsts = [trace.to_pandas().query("kind == 'kernel'")["ts_ns"].min() for trace in (right, plain)]
    assert firsts[0] - firsts[1] == 30_000
    shown = CliRunner().invoke(app, ["inspect", str(path)])
    assert shown.exit_code == 0
    text = " ".join(shown.stdout.split())
    assert "rows of device work: " in text
    assert "start before their launch" in text
    assert "differ by +22,505 ns at least" in text
    section = tracekit.view(plain, "launch")
    assert any("began before the launch call" in note and "22.505 us" in note for note in section.notes)
    clean = CliRunner().invoke(app, ["inspect", str(corpus("kineto/hta_nccl_data.json.gz"))]).stdout
    assert "before their launch" not in clean


def test_launches_move_the_rows_of_a_device_by_the_smallest_shift(tmp_path: Path) -> None:
    path = early(tmp_path, 30_000)
    before, after = tracekit.read(path), tracekit.read(path, align="launches")
    [fact] = after.run.sources[0].facts["device_clocks"]  # type: ignore[misc]
    assert (fact["offset_ns"], fact["drift_ppm"], fact["launches"]) == (22_505, 0.0, 3774)
    low, high = fact["possible_ns"]
    assert low <= 30_000 <= high
    assert "moved: device 0 by +22,505 ns" in notes(after)["device-rows-moved"]
    frames = [trace.to_pandas().set_index("event_id").sort_index() for trace in (before, after)]
    by = frames[1]["ts_ns"] - frames[0]["ts_ns"]
    on_device = frames[0]["stream"].notna()
    assert set(by[on_device]) == {22_505}
    assert set(by[~on_device]) == {0}
    assert frames[0]["dur_ns"].equals(frames[1]["dur_ns"])
    shown = " ".join(CliRunner().invoke(app, ["inspect", str(path), "--align", "launches"]).stdout.split())
    assert "device 0 of process" in shown or "device 0: offset" in shown
    assert "before their launch" not in shown
    tracekit.convert(path, tmp_path / "moved.json", align="launches")
    whole = json.loads((tmp_path / "moved.json").read_text())
    assert whole["tracekit"]["sources"][0]["facts"]["device_clocks"] == [fact]
    assert not any("before the launch" in note for note in tracekit.view(after, "launch").notes)


def test_a_device_whose_clock_drifts_is_moved_along_a_line(tmp_path: Path) -> None:
    """120 ppm in 20 s: at one end of the trace work is early, at the other a copy ends after the call that waits."""
    calls, work = program(5, count=400)
    events: list[dict[str, object]] = []
    for (start, dur, number, name), (begin, lasting, _, work_name) in zip(calls, work, strict=True):
        host = {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 7, "tid": 7, "args": {"correlation": number}}
        events.append({**host, "ts": start * 200 / 1_000, "dur": dur * 200 / 1_000})
        first, last = (time * 200 * (1 - 120e-6) + 9_000_000 for time in (begin, begin + lasting))
        copy = "memcpy" in work_name
        args = {"device": 0, "stream": 7, "correlation": number}
        device = {"ph": "X", "cat": "gpu_memcpy" if copy else "kernel", "pid": 0, "tid": 7, "args": args}
        name = "Memcpy DtoH (Device -> Pageable)" if copy else work_name
        events.append({**device, "name": name, "ts": first / 1_000, "dur": (last - first) / 1_000})
    path = tmp_path / "drifts.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events}))
    shown = " ".join(CliRunner().invoke(app, ["inspect", str(path)]).stdout.split())
    assert "no single shift of the device's times repairs it" in shown
    trace = tracekit.read(path, align="launches")
    [fact] = trace.run.sources[0].facts["device_clocks"]  # type: ignore[misc]
    assert 60 < fact["drift_ppm"] * -1 < 180
    assert " ppm" in notes(trace)["device-rows-moved"]
    frame = trace.to_pandas()
    calls_at = frame[frame["kind"] == "runtime"].set_index("correlation")
    work_at = frame[frame["kind"] != "runtime"].set_index("correlation")
    assert ((work_at["ts_ns"] - calls_at["ts_ns"]) >= 0).all()
    copies = work_at[work_at["kind"] == "memcpy"].index
    ends = [(each["ts_ns"] + each["dur_ns"])[copies] for each in (calls_at, work_at)]
    assert (ends[0] >= ends[1]).all()


def test_a_trace_whose_clocks_agree_is_not_moved() -> None:
    path = corpus("kineto/hta_nccl_data.json.gz")
    plain, named = tracekit.read(path), tracekit.read(path, align="launches")
    assert named.events.equals(plain.events)
    [fact] = named.run.sources[0].facts["device_clocks"]  # type: ignore[misc]
    assert fact["offset_ns"] == 0
    low, high = fact["possible_ns"]
    assert low <= 0 <= high
    assert "device-rows-moved" not in notes(named)

"""Producers that tell device work in their own words: ONNX Runtime, PyTorch before 1.8, Ascend, rocprof, unitrace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import sure_readers
from trace_event_cases import Event, args_of, ledger_adds_up, rows

import tracekit
from tracekit.model.trace import Trace

HOST, LAYER_BITS = 4711, 5


def write(path: Path, events: list[Any], **beside: Any) -> Path:
    path.write_text(json.dumps({"traceEvents": events, **beside} if beside else events), encoding="utf-8")
    return path


def in_order(trace: Trace) -> list[Event]:
    return sorted(rows(trace), key=lambda r: r["event_id"])


def test_kernels_of_onnx_runtime_have_streams_sizes_and_readable_names(tmp_path: Path) -> None:
    """The form of ONNX Runtime 1.9 on: numbers of kernels are text, their lanes -1; a list that is not closed."""
    text = """[
{"cat" : "Session","pid" :7,"tid" :8,"dur" :779,"ts" :13,"ph" : "X","name" :"model_loading_uri","args" : {}},
{"cat" : "Node","pid" :7,"tid" :8,"dur" :24,"ts" :961,"ph" : "X","name" :"Mul_3_kernel_time","args" : {"op_name" : "Mul"}},
{"cat" : "Kernel","pid" :-1,"tid" :-1,"dur" :4,"ts" :971,"ph" : "X","name" :"_Z3mulPfi","args" : {"op_name" : "Mul",\
"stream" : "13","block_x" : "256","grid_x" : "2","grid_y" : "1","grid_z" : "1","block_y" : "1","block_z" : "1"}},
{"cat" : "Kernel","pid" :-1,"tid" :-1,"dur" :6,"ts" :981,"ph" : "X","name" :"MemcpyHtoD","args" : {"stream" : "0x7f0"}},
"""  # noqa: E501
    path = tmp_path / "onnxruntime_profile.json"
    path.write_text(text, encoding="utf-8")
    assert sure_readers(path) == ["chrome-trace"]
    assert ledger_adds_up(path, "chrome-trace")["kept"] == 4
    trace = tracekit.read(path)
    session, node, kernel, copy = in_order(trace)
    assert [r["kind"] for r in (session, node, kernel, copy)] == ["user_range", "operator", "kernel", "memcpy"]
    assert (kernel["name"], kernel["raw_name"]) == ("mul(float*, int)", "_Z3mulPfi")
    assert (kernel["pid"], kernel["tid"], kernel["device"], kernel["stream"]) == (None, None, None, 13)
    assert [kernel[f"{s}_{axis}"] for s in ("grid", "block") for axis in "xyz"] == [2, 1, 1, 256, 1, 1]
    assert args_of(kernel) == {"cat": "Kernel", "op_name": "Mul"}
    assert trace.run.ids["stream", 0, copy["stream"]] == "0x7f0"
    assert trace.run.sources[0].facts["tool"] == "ONNX Runtime profiler"


def test_the_autograd_profiler_before_kineto_has_operators_and_what_they_span_on_a_device(tmp_path: Path) -> None:
    """torch 1.0 to 1.7. The device ranges nest as the operators do: as kernels they would count twice."""
    cpu, cuda = {"pid": "CPU functions", "args": {}}, {"pid": "CUDA functions", "args": {}}
    path = write(
        tmp_path / "x",
        [
            {"name": "linear", "ph": "X", "ts": 6.125, "dur": 13.083999999999989, "tid": 1, **cpu},
            {"name": "linear", "ph": "s", "ts": 6.125, "tid": 1, "id": 0, "cat": "cpu_to_cuda", **cpu},
            {"name": "linear", "ph": "f", "ts": 9.5, "tid": 2, "id": 0, "cat": "cpu_to_cuda", **cuda},
            {"name": "linear", "ph": "X", "ts": 9.5, "dur": 1.5e-02, "tid": 2, **cuda},
            {"name": "addmm", "ph": "X", "ts": 7, "dur": 3, "tid": " node_id:1, thread_id:3 ", **cpu},
        ],
    )
    found = in_order(tracekit.read(path))
    assert [r["kind"] for r in found] == ["operator", "flow", "flow", "kernel", "operator"]
    assert [r["dur_ns"] for r in found] == [13084, None, None, 15, 3000]
    assert (found[3]["device"], found[3]["tid"]) == (2, None)


def test_ranges_of_the_old_autograd_profiler_that_lie_around_others_are_no_work_of_their_own(tmp_path: Path) -> None:
    """The ranges nest on each device as the operators do: the innermost ones hold its time, once."""

    def on_device(name: str, device: int, ts: float, dur: float) -> Event:
        return {"name": name, "ph": "X", "ts": ts, "dur": dur, "tid": device, "pid": "CUDA functions", "args": {}}

    spans = [
        on_device("linear", 0, 10, 100), on_device("t", 0, 10, 5), on_device("addmm", 0, 20, 90),
        on_device("mm", 0, 30, 80.0000004), on_device("relu", 0, 110, 7), on_device("linear", 1, 12, 3),
    ]  # fmt: skip
    path = write(tmp_path / "x", spans)
    ledger_adds_up(path, "chrome-trace")
    trace = tracekit.read(path)
    assert [(r["name"], r["kind"], r["device"]) for r in in_order(trace)] == [
        ("linear", "other", 0), ("t", "kernel", 0), ("addmm", "other", 0), ("mm", "kernel", 0), ("relu", "kernel", 0),
        ("linear", "kernel", 1),
    ]  # fmt: skip
    assert sum(r["dur_ns"] for r in rows(trace) if r["kind"] == "kernel") == 95_000


def test_arrows_of_the_old_autograd_profiler_end_on_the_device(tmp_path: Path) -> None:
    cuda = {"pid": "CUDA functions", "args": {}}
    path = write(
        tmp_path / "x",
        [
            {"name": "f", "ph": "s", "ts": 6, "tid": 1, "id": 0, "cat": "cpu_to_cuda", "pid": "CPU functions"},
            {"name": "f", "ph": "f", "ts": 9, "tid": 2, "id": 0, "cat": "cpu_to_cuda", **cuda},
            {"name": "f", "ph": "X", "ts": 9, "dur": 1, "tid": 2, **cuda},
        ],
    )
    start, end, kernel = in_order(tracekit.read(path))
    assert (start["tid"], start["device"]) == (1, None)
    assert [(r["pid"], r["tid"], r["device"]) for r in (end, kernel)] == [(kernel["pid"], None, 2)] * 2


def test_a_text_pid_of_ascend_tasks_says_no_device(tmp_path: Path) -> None:
    task = {"name": "Add", "ph": "X", "ts": 1, "dur": 2, "pid": "npu", "tid": 5, "args": {"Task Type": "AI_CORE"}}
    (row,) = rows(tracekit.read(write(tmp_path / "x", [task])))
    assert (row["kind"], row["device"], row["stream"], row["pid"]) == ("kernel", None, 5, None)


def test_ascend_tasks_of_each_type_are_device_time(tmp_path: Path) -> None:
    """Types of the STARS and HWTS schedulers, and one that is not known yet. Small pids are rows of the page."""
    kinds = {
        "AI_CORE": "kernel", "MIX_AIC": "kernel", "AI_CPU": "kernel", "DSA_SQE": "kernel", "VPC_SQE": "kernel",
        "ROCCE_SQE": "kernel", "SOMETHING_NEW": "kernel", "SDMA_SQE": "memcpy", "PCIE_DMA_SQE": "memcpy",
        "MEMSET_ASYNC": "memset", "EVENT_WAIT_SQE": "sync", "NOTIFY_RECORD_SQE": "sync", "PROFILER_TRACE": "other",
        "MODEL_EXECUTE": "other", "PLACE_HOLDER_SQE": "other",
    }  # fmt: skip
    tasks = [
        {"name": "t", "ph": "X", "ts": 10 * i, "dur": 5, "pid": 7, "tid": 1, "args": {"Task Type": t, "Stream Id": 12}}
        for i, t in enumerate(kinds)
    ]
    found = in_order(tracekit.read(write(tmp_path / "x", tasks)))
    assert [r["kind"] for r in found] == [*kinds.values()]
    assert [args_of(r)["Task Type"] for r in found] == [*kinds]
    assert {(r["pid"], r["tid"], r["device"], r["stream"]) for r in found} == {(None, None, None, 12)}


@pytest.mark.parametrize(
    ("names", "device", "stream"),
    [
        ([("process_name", 0, "Ascend Hardware")], None, 5),
        ([("process_labels", 0, "NPU 3"), ("thread_name", 5, "Stream 2")], 3, 2),
        ([("process_name", 0, "Ascend Hardware"), ("thread_name", 5, "Device 1 Stream 40")], 1, 40),
        ([("process_name", 0, "Ascend Hardware (NPU 6)"), ("thread_name", 5, "compute")], 6, 5),
    ],
)
def test_names_say_device_and_stream_of_ascend_tasks_where_pids_are_small(
    names: list[tuple[str, int, str]], device: int | None, stream: int, tmp_path: Path
) -> None:
    meta = [
        {"ph": "M", "name": what, "pid": 800, "tid": tid, "args": {"labels" if "labels" in what else "name": text}}
        for what, tid, text in names
    ]
    arrow = {"ph": "f", "name": "torch_to_npu", "id": "9", "cat": "async_npu", "pid": 800, "tid": 5, "ts": 1}
    task = {"name": "Add", "ph": "X", "ts": 1, "dur": 2, "pid": 800, "tid": 5, "args": {"Task Type": "AI_CORE"}}
    trace = tracekit.read(write(tmp_path / "x", [arrow, task, *meta]))
    assert [(r["kind"], r["device"], r["stream"], r["pid"], r["tid"]) for r in in_order(trace)] == [
        ("flow", device, stream, None, None), ("kernel", device, stream, None, None)
    ]  # fmt: skip


def test_tasks_of_an_ascend_npu_are_its_work(tmp_path: Path) -> None:
    """torch_npu's trace_view.json: pids of msprof's layers, times as text of Unix µs."""

    def pid(layer: int, device: int = 31) -> int:
        return HOST << 10 | layer << LAYER_BITS | device

    def meta(of: int, what: str, text: str, tid: int = 0) -> Event:
        key = "labels" if what == "process_labels" else "name"
        return {"name": what, "pid": of, "tid": tid, "ph": "M", "args": {key: text}}

    def x(name: str, of: int, tid: int, at: str, dur: float, cat: str | None = None, **args: Any) -> Event:
        more = {} if cat is None else {"cat": cat}
        return {"name": name, "pid": of, "tid": tid, "ts": at, "dur": dur, "ph": "X", "args": args, **more}

    npu, cann, plane, overlap = pid(13, 3), pid(12), pid(15, 3), pid(20, 3)
    start = "17309434683"
    path = write(
        tmp_path / "trace_view.json",
        [
            meta(npu, "process_name", "Ascend Hardware"), meta(npu, "process_labels", "NPU 3"),
            meta(npu, "thread_name", "Stream 2", 2), meta(npu, "thread_name", "Step Trace(Model ID:1)", 70001),
            meta(cann, "process_name", "CANN"), meta(cann, "thread_name", "Thread 90", 90),
            meta(overlap, "process_name", "Overlap Analysis"), meta(HOST, "process_name", "Python"),
            x("aten::mm", HOST, HOST, start + "10100.220", 217.88, "cpu_op"),
            x("ProfilerStep#4", HOST, HOST, start + "10000.220", 900, "user_annotation"),
            x("AscendCL@aclnnMm", cann, 90, start + "10120.220", 27.88, level="acl", connection_id=99),
            x("MatMulV2", npu, 2, start + "10229.220", 17.88, connection_id=99, **{"Task Type": "AI_CORE"}),
            x("MEMCPY_ASYNC", npu, 2, start + "10329.220", 7.1, **{"Task Type": "PCIE_DMA_SQE"}),
            x("EVENT_WAIT", npu, 2, start + "10339.220", 7.1, **{"Task Type": "EVENT_WAIT_SQE"}),
            x("Iteration 1", npu, 70001, start + "10229.220", 170, "Iteration"),
            x("hcom_allReduce__1_0", plane, 0, start + "10429.220", 50, alg_type="RING"),
            x("Computing", overlap, 0, start + "10229.220", 17.88),
            {"ph": "s", "name": "torch_to_npu", "id": "1", "pid": HOST, "tid": HOST, "ts": start + "10110.220",
             "cat": "async_npu"},
            {"ph": "f", "name": "torch_to_npu", "id": "1", "pid": npu, "tid": 2, "ts": start + "10229.220",
             "cat": "async_npu"},
        ],
    )  # fmt: skip
    assert sure_readers(path) == ["chrome-trace"]
    ledger_adds_up(path, "chrome-trace")
    trace = tracekit.read(path)
    found = in_order(trace)
    assert [(r["name"], r["kind"]) for r in found] == [
        ("aten::mm", "operator"), ("ProfilerStep#4", "step"), ("AscendCL@aclnnMm", "runtime"), ("MatMulV2", "kernel"),
        ("MEMCPY_ASYNC", "memcpy"), ("EVENT_WAIT", "sync"), ("Iteration 1", "other"),
        ("hcom_allReduce__1_0", "kernel"), ("Computing", "other"),
        ("torch_to_npu", "flow"), ("torch_to_npu", "flow"),
    ]  # fmt: skip
    assert found[1]["step"] == 4
    assert found[3]["ts_ns"] == 1730943468310229220
    call, kernel = found[2], found[3]
    assert (call["pid"], call["tid"], call["correlation"]) == (HOST, 90, 99)
    assert (kernel["pid"], kernel["tid"], kernel["device"], kernel["stream"]) == (HOST, None, 3, 2)
    assert kernel["correlation"] == 99
    collective = found[7]
    assert (collective["pid"], collective["tid"], collective["device"], collective["stream"]) == (HOST, None, 3, None)
    assert (found[10]["pid"], found[10]["device"], found[10]["stream"]) == (HOST, 3, 2)
    assert trace.run.devices == {(0, 3): "Ascend Hardware"}
    assert trace.run.processes == {(0, HOST): "Python", (0, overlap): "Overlap Analysis"}
    assert trace.run.threads == {(0, HOST, 90): "Thread 90"}
    assert trace.run.origin_ns == 0


def test_an_older_ascend_label_has_no_device_but_the_pid_has(tmp_path: Path) -> None:
    of = -1 << 10 | 13 << 5 | 6  # newer ones cast it to int, so that it may be negative
    path = write(
        tmp_path / "x",
        [
            {"name": "process_name", "ph": "M", "pid": of, "args": {"name": "Ascend Hardware"}},
            {"name": "process_labels", "ph": "M", "pid": of, "args": {"labels": "NPU"}},
            {"name": "Add", "ph": "X", "ts": 1, "dur": 2, "pid": of, "tid": 4, "args": {"Task Type": "AI_VECTOR_CORE"}},
        ],
    )
    (row,) = rows(tracekit.read(path))
    assert (row["kind"], row["device"], row["stream"], row["pid"]) == ("kernel", 6, 4, (1 << 22) - 1)


def test_rocprof_has_exact_times_beside_those_in_whole_us(tmp_path: Path) -> None:
    """The form of results.json of rocprof 1 and 2: a first empty object, numbers as text, processes by name."""
    text = """{ "traceEvents":[{}
,{"args":{"name":"2 CPU HIP API"},"ph":"M","pid":2,"name":"process_name","sort_index":2}
,{"args":{"name":"6 GPU1"},"ph":"M","pid":7,"name":"process_name","sort_index":6}
,{"ph":"X","name":"hipLaunchKernel","pid":2,"tid":85,"ts":"1201478076","dur":"9",
  "args":{
    "BeginNs":"1201478076289",
    "EndNs":"1201478085300",
    "args":"( numBlocks({4 1 1}))",
    "DurationNs":"9011"
  }
}
,{"ts":1201478076,"ph":"s","cat":"DataFlow","id":3,"pid":2,"tid":85,"name":"dep"}
,{"ph":"X","name":"gemm<float, 4>(float*)","pid":7,"tid":0,"ts":"1201478090","dur":"2",
  "args":{
    "BeginNs":"1201478090001",
    "EndNs":"1201478092700",
    "dev-id":"1",
    "DurationNs":"2699"
  }
}
], "otherData":{ } }
"""
    path = tmp_path / "results.json"
    path.write_text(text, encoding="utf-8")
    ledger_adds_up(path, "chrome-trace")
    call, arrow, kernel = in_order(tracekit.read(path))
    assert (call["kind"], call["ts_ns"], call["dur_ns"]) == ("runtime", 1201478076289, 9011)
    assert args_of(call) == {"args": "( numBlocks({4 1 1}))"}
    assert arrow["kind"] == "flow"
    assert (kernel["kind"], kernel["ts_ns"], kernel["dur_ns"]) == ("kernel", 1201478090001, 2699)
    assert (kernel["device"], kernel["stream"]) == (1, 0)


def test_rocprof_times_of_another_clock_are_left_in_args(tmp_path: Path) -> None:
    """The first range ties the two clocks; one that is off by a µs or more, or lasts another time, is not of it."""
    texts = [("99000", "101000"), ("104000", "106000"), ("99000", "103000"), ("10400", "x")]
    ranges = [
        {"ph": "X", "name": "hipFree", "pid": 2, "tid": 8, "ts": "10", "dur": "2", "args": {"BeginNs": b, "EndNs": e}}
        for b, e in texts
    ]
    found = in_order(tracekit.read(write(tmp_path / "x", ranges)))
    assert [(r["ts_ns"], r["dur_ns"]) for r in found] == [(10_000, 2000)] * 4
    assert [args_of(r) for r in found] == [r["args"] for r in ranges]


def test_rocprof_with_api_calls_has_copies_fills_and_exact_times(tmp_path: Path) -> None:
    """--hip-trace: ts counts from the first call, BeginNs from boot; commands have a process COPY of their own."""

    def row(name: str, pid: str, tid: str, ts: int, begin: int, end: int, **more: str) -> dict[str, object]:
        times = {"ts": str(ts), "dur": str((end - begin) // 1000)}
        exact = {"BeginNs": str(begin), "EndNs": str(end), "DurationNs": str(end - begin), "Name": name}
        return {"ph": "X", "name": name, "pid": pid, "tid": tid, **times, "args": {**exact, **more}}

    boot, of_gpu = 84_118_448_000_000, {"dev-id": "1", "queue-id": "0"}
    names = {0: "Markers and Ranges", 1: "COPY", 2: "CPU HIP API", 7: "GPU1"}
    path = write(
        tmp_path / "x",
        [
            {},
            *({"args": {"name": n}, "ph": "M", "pid": p, "name": "process_name"} for p, n in names.items()),
            row("step", "0", "9", 3, boot + 3400, boot + 90_000),
            row("hipMemcpy", "2", "9", 5, boot + 5400, boot + 20_700),
            row("CopyHostToDevice", "1", "0", 7, boot + 7100, boot + 17_999, **of_gpu),
            row("CopyDeviceToDevice", "1", "0", 30, boot + 30_001, boot + 30_002, **of_gpu),
            row("__hipPushCallConfiguration", "2", "9", 40, boot + 40_000, boot + 40_500),
            row("CopyHostToDevice_kernel(int*)", "7", "2", 50, boot + 50_000, boot + 60_001, **of_gpu),
            row("FillBuffer", "7", "2", 70, boot + 70_000, boot + 70_700, **of_gpu),
            row("Unknown command type", "7", "2", 80, boot + 80_000, boot + 80_000, **of_gpu),
        ],
    )
    ledger_adds_up(path, "chrome-trace")
    found = in_order(tracekit.read(path))
    assert [(r["kind"], r["copy_kind"], r["dur_ns"], r["device"], r["stream"]) for r in found] == [
        ("user_range", None, 86_600, None, None),
        ("runtime", None, 15_300, None, None),
        ("memcpy", "HtoD", 10_899, 1, None),
        ("memcpy", "DtoD", 1, 1, None),
        ("runtime", None, 500, None, None),
        ("kernel", None, 10_001, 1, 2),
        ("memset", None, 700, 1, 2),
        ("other", None, 0, 1, 2),
    ]
    assert {r["ts_ns"] - found[0]["ts_ns"] for r in found} == {
        0, 2000, 3700, 26_601, 36_600, 46_600, 66_600, 76_600,
    }  # fmt: skip
    assert {r["pid"] for r in found if r["device"] is not None} == {None}


def test_rocprof_since_rocm_5_has_processes_and_queues(tmp_path: Path) -> None:
    """`pid` and `tid` of an event are rows of rocprof's page; args have the process, and the queue of a kernel."""
    times = {"ts": "9", "dur": "2", "ph": "X"}
    exact = {"BeginNs": "9000", "EndNs": "11500", "pid": "4242", "tid": "4243"}
    mark = {"BeginNs": "12000", "EndNs": "12001", "pid": "4242", "tid": "4243", "Name": "here"}
    kernel = {"KernelName": "scale(int) [clone .kd]", "gpu-id": "8", "queue-id": "3", **exact}
    path = write(
        tmp_path / "x",
        [
            {},
            {"args": {"name": "GPU8"}, "ph": "M", "pid": 14, "name": "process_name", "sort_index": 17},
            {"name": "scale(int) [clone .kd]", "pid": 14, "tid": 4243, **times, "args": kernel},
            {"name": "CopyHostToDevice", "pid": "1", "tid": "2", **times, "args": {**exact, "dev-id": "1"}},
            {"name": "hipMalloc", "pid": "2", "tid": "4243", **times, "args": {**exact, "DurationNs": "2500"}},
            {"name": "here", "pid": "0", "tid": "4243", "ph": "X", "ts": "12", "dur": "0", "args": mark},
        ],
    )
    ledger_adds_up(path, "chrome-trace")
    keys = ("kind", "name", "raw_name", "pid", "tid", "device", "stream", "dur_ns")
    assert [tuple(r[key] for key in keys) for r in in_order(tracekit.read(path))] == [
        ("kernel", "scale(int)", "scale(int) [clone .kd]", 4242, None, 8, 3, 2500),
        ("memcpy", "CopyHostToDevice", None, 4242, None, 1, 2, 2500),
        ("runtime", "hipMalloc", None, 4242, 4243, None, None, 2500),
        ("mark", "here", None, 4242, 4243, None, None, 1),
    ]


def test_rocm_profile_data_has_device_work(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        [
            {},
            {"name": "process_name", "ph": "M", "pid": "2", "args": {"name": "GPU2"}},
            *(
                {"pid": "2", "tid": "0", "name": n, "ts": "5", "dur": "3", "ph": "X", "args": {"desc": d}}
                for n, d in [("CopyHostToDevice", "CopyHostToDevice"), ("gemm(int)", "KernelExecution")]
            ),
            {"pid": "77", "tid": "78", "name": "hipMalloc", "ts": "9", "dur": "3", "ph": "X", "args": {"desc": ""}},
        ],
    )
    found = in_order(tracekit.read(path))
    assert [(r["kind"], r["device"], r["pid"]) for r in found] == [
        ("memcpy", 2, None), ("kernel", 2, None), ("runtime", None, 77)
    ]  # fmt: skip


def test_unitrace_has_calls_and_device_commands(tmp_path: Path) -> None:
    names = [
        ("zeCommandListAppendLaunchKernel", "cpu_op"), ("gemm[SIMD16 {8; 1; 1}]", "gpu_op"),
        ("zeCommandListAppendMemoryCopy(M2D)[64 bytes]", "gpu_op"), ("zeCommandListAppendMemoryFill", "gpu_op"),
        ("zeCommandListAppendBarrier", "gpu_op"),
    ]  # fmt: skip
    path = write(
        tmp_path / "x",
        [
            {"ph": "X", "tid": 1, "pid": 2, "name": n, "cat": c, "ts": 1.5 + i, "dur": 1.0, "id": i}
            for i, (n, c) in enumerate(names)
        ],
        displayTimeUnit="ns",
    )
    found = in_order(tracekit.read(path))
    assert [r["kind"] for r in found] == ["runtime", "kernel", "memcpy", "memset", "sync"]


def test_horovod_shows_what_communicates(tmp_path: Path) -> None:
    """A list that is never closed, ends without names, no threads."""
    lines = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "grads_0"}},
        {"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 16, "pid": 1},
        {"ph": "X", "name": "0", "ts": 18, "pid": 1, "dur": 0},
        {"ph": "E", "ts": 30, "pid": 1}, {"ph": "B", "name": "ALLREDUCE", "ts": 33, "pid": 1},
        {"ph": "B", "name": "NCCL_ALLREDUCE", "ts": 40, "pid": 1}, {"ph": "E", "ts": 73, "pid": 1},
        {"ph": "E", "ts": 74, "pid": 1, "args": {"dtype": "float32"}},
    ]  # fmt: skip
    path = tmp_path / "timeline.json"
    path.write_text("[\n" + "".join(json.dumps(line) + ",\n" for line in lines), encoding="utf-8")
    found = {r["name"]: (r["kind"], r["dur_ns"]) for r in rows(tracekit.read(path))}
    assert found == {
        "NEGOTIATE_ALLREDUCE": ("user_range", 14_000), "0": ("user_range", 0), "ALLREDUCE": ("user_range", 41_000),
        "NCCL_ALLREDUCE": ("communication", 33_000),
    }  # fmt: skip


def tensorflow(gpu: str, *lanes: str) -> list[Event]:
    events: list[Event] = []
    for pid, lane in enumerate(("/job:localhost/replica:0/task:0" + gpu, *(f"{gpu}/{lane}" for lane in lanes))):
        events.append({"ph": "M", "args": {"name": f"{lane} Compute"}, "pid": pid, "name": "process_name"})
        nodes = ["layer/MatMul"] * ("memcpy" not in lane)
        nodes += ["edge_5_x:MEMCPYHtoD"] * ("/memcpy" in lane or "/stream:1" in lane)
        for at, node in enumerate(nodes):
            args = {"name": node, "op": "MatMul"}
            op = {"cat": "Op", "name": "MatMul", "args": args, "ph": "X", "ts": 9 + at, "dur": 1}
            events.append(op | {"pid": pid, "tid": 0})
    return events


@pytest.mark.parametrize(("gpu", "kinds"), [("/gpu:0", ""), ("/device:GPU:0", "<Kernel>,<MemcpyH2D>")])
def test_a_gpu_of_tensorflow_is_counted_once(gpu: str, kinds: str, tmp_path: Path) -> None:
    events = tensorflow(gpu, "stream:all", f"stream:13{kinds}", "memcpy")
    trace = tracekit.read(write(tmp_path / "x", events, displayTimeUnit="ms"))
    assert trace.run.sources[0].facts["tool"] == "TensorFlow timeline"
    assert [(r["kind"], r["device"], r["stream"]) for r in in_order(trace)] == [
        ("operator", None, None), ("other", 0, None), ("kernel", 0, 13), ("memcpy", 0, 13), ("other", 0, None)
    ]  # fmt: skip


def test_a_gpu_of_tensorflow_without_streams_has_its_work_in_the_common_lanes(tmp_path: Path) -> None:
    path = write(tmp_path / "x", tensorflow("/gpu:0", "stream:all", "memcpy"), displayTimeUnit="ms")
    assert [r["kind"] for r in in_order(tracekit.read(path))] == ["operator", "kernel", "memcpy"]

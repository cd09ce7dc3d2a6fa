"""Collecting through CUPTI for real: records of cupti-python itself, and work on a device wherever one is at hand.

Without the package or a device these are skipped, in CI too; `test_cuda` goes as far as a fake of the package does.
"""

from __future__ import annotations

import importlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from doors.profiler import Collector, load
from recorder.programs import run

import tracekit

ON_DEVICE = '''
import ctypes, json, sys, time
from tracekit.profiler.cuda import cuda_profiler
import tracekit.profiler.paddle as paddle

PTX = b"""
.version 6.4
.target sm_50
.address_size 64
.visible .entry add_one(.param .u64 data, .param .u32 count)
{
    .reg .pred %p<2>;
    .reg .b32 %r<7>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r6, [%rd4];
    add.u32 %r6, %r6, 1;
    st.global.u32 [%rd4], %r6;
DONE:
    ret;
}
"""
COUNT, LAUNCHES = 1 << 20, 5
cuda = ctypes.CDLL("libcuda.so.1")

def call(name, *args):
    status = getattr(cuda, name)(*args)
    if status:
        sys.exit(f"{name}: {status}")

call("cuInit", 0)
device, context, module, kernel = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
data = ctypes.c_uint64()
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"add_one")
call("cuMemAlloc_v2", ctypes.byref(data), ctypes.c_size_t(4 * COUNT))
host = (ctypes.c_uint32 * COUNT)(*range(COUNT))

def work():
    call("cuMemcpyHtoD_v2", data, host, ctypes.c_size_t(4 * COUNT))
    call("cuMemsetD32_v2", data, 7, ctypes.c_size_t(1024))
    count = ctypes.c_uint32(COUNT)
    arguments = (ctypes.c_void_p * 2)(
        ctypes.cast(ctypes.byref(data), ctypes.c_void_p), ctypes.cast(ctypes.byref(count), ctypes.c_void_p)
    )
    for _ in range(LAUNCHES):
        call("cuLaunchKernel", kernel, COUNT // 256, 1, 1, 256, 1, 1, 0, None, arguments, None)
    call("cuMemcpyDtoH_v2", host, data, ctypes.c_size_t(4 * COUNT))

work()  # before the region
begin = time.time_ns()
with cuda_profiler("log.txt", MODE) as region:
    work()
end = time.time_ns()
prof = paddle.Profiler(targets=[paddle.ProfilerTarget.GPU], on_trace_ready=paddle.export_chrome_tracing("out"))
with prof:
    with paddle.RecordEvent("launches"):
        work()
    prof.step()
rows = prof.windows[0].read().events.select(["kind", "name", "ts_ns", "dur_ns", "correlation"]).to_pylist()
with open("result.json", "w") as file:
    json.dump({"how": region.how, "kernels": region.kernels, "copies": region.copies, "begin": begin, "end": end,
               "sums": [host[0], host[COUNT - 1]], "remarks": prof.windows[0].remarks, "rows": rows}, file)
'''
BYTES = 4 << 20


@pytest.fixture
def cupti() -> Any:
    return importlib.import_module("cupti.cupti")


def record(cupti: Any, record_class: str, kind: str, **values: object) -> Any:
    """A record of cupti-python's newest class of that name."""
    numbered = [each for each in dir(cupti) if each.rstrip("0123456789") == record_class]
    made = getattr(cupti, max(numbered, key=lambda each: int(each.removeprefix(record_class) or 0)))()
    for field, value in {"kind": int(getattr(cupti.ActivityKind, kind)), **values}.items():
        setattr(made, field, value)
    return made


@pytest.mark.cupti
def test_records_of_the_package_itself_are_taken(cupti: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field that the collector reads is one of the package's own record classes."""
    monkeypatch.setattr(cupti, "get_callback_name", lambda domain, cbid: f"call{int(domain)}_{cbid}_v3020")
    place = {"device_id": 2, "context_id": 3, "stream_id": 13, "correlation_id": 99}
    grid = {"grid_x": 64, "grid_y": 2, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1}
    launch = {**grid, "registers_per_thread": 40, "static_shared_memory": 1024, "dynamic_shared_memory": 2048}
    both = {"process_id": 7, "thread_id": 8, "correlation_id": 99}
    copy = {"bytes": 4096, "copy_kind": 1, "src_kind": 1, "dst_kind": 3, "flags_": 1}
    collector = Collector(cupti, api=True, wait=lambda: None)
    collector._buffer_completed(
        [
            record(
                cupti, "ActivityKernel", "CONCURRENT_KERNEL", start=1_000, end=1_500, name="gemm", **place, **launch
            ),
            record(cupti, "ActivityMemcpy", "MEMCPY", start=2_000, end=2_600, **place, **copy),
            record(
                cupti, "ActivityMemcpyPtoP", "MEMCPY2", start=3_000, end=3_700, **place, **(copy | {"copy_kind": 10})
            ),
            record(cupti, "ActivityMemset", "MEMSET", start=4_000, end=4_800, **place, bytes=512),
            record(cupti, "ActivityAPI", "RUNTIME", start=900, end=1_100, cbid=211, **both),
            record(cupti, "ActivityAPI", "DRIVER", start=950, end=1_050, cbid=307, **both),
            record(cupti, "ActivityMemset", "MEMSET", start=0, end=0, **place, bytes=512),
        ]
    )
    found = collector.stop()
    lost = Counter(found.lost)
    del lost["flush failed"]  # without a driver
    assert lost == {"records without times": 1}
    assert [(work.kind, work.start_ns, work.end_ns) for work in found.work] == [
        ("kernel", 1_000, 1_500), ("memcpy", 2_000, 2_600), ("memcpy", 3_000, 3_700), ("memset", 4_000, 4_800),
    ]  # fmt: skip
    assert {(work.device, work.context, work.stream, work.correlation) for work in found.work} == {(2, 3, 13, 99)}
    kernel, host_to_device, between, fill = found.work
    assert (kernel.name, kernel.grid, kernel.block) == ("gemm", (64, 2, 1), (128, 1, 1))
    assert (kernel.registers, kernel.static_smem, kernel.dynamic_smem) == (40, 1024, 2048)
    assert (host_to_device.copy_kind, host_to_device.size, host_to_device.is_async) == ("HtoD", 4096, True)
    assert (host_to_device.source_memory, host_to_device.target_memory) == ("pageable", "device")
    assert (between.copy_kind, fill.size) == ("PtoP", 512)
    [call] = found.calls
    assert (call.kind, call.name, call.pid, call.tid, call.correlation) == ("runtime", "call2_211", 7, 8, 99)


@pytest.mark.device
@pytest.mark.parametrize("mode", ["csv", "kvp"])
def test_work_on_a_real_device(mode: str, tmp_path: Path) -> None:
    """What a program did on the GPU is in the log, no less and no more, on the clock of the program."""
    done = run(tmp_path, f"MODE = {mode!r}\n{ON_DEVICE}")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert result["sums"] == [7 + 5, (1 << 20) - 1 + 3 * 5], "the kernels ran"
    assert (result["how"], result["kernels"], result["copies"]) == ("cupti", 5, 3)
    table = tracekit.read(tmp_path / "log.txt").events.to_pylist()
    assert Counter(row["kind"] for row in table) == {"kernel": 5, "memcpy": 2, "memset": 1}
    assert all(row["dur_ns"] > 0 for row in table)
    for row in table:
        if row["kind"] == "kernel":
            assert row["name"] == "add_one"
            assert (row["grid_x"], row["block_x"]) == (4096, 256)
    text = (tmp_path / "log.txt").read_text("utf-8")
    starts = [int(part, 16) for part in text.replace(",", " ").split() if len(part) == 16 and part.isalnum()]
    assert not starts or all(result["begin"] <= start <= result["end"] for start in starts)
    assert result["remarks"] == []
    kinds = Counter(row["kind"] for row in result["rows"])
    assert (kinds["kernel"], kinds["memcpy"], kinds["memset"]) == (5, 2, 1)
    [launches] = [row for row in result["rows"] if row["name"] == "launches"]
    calls = {row["correlation"]: row for row in result["rows"] if row["kind"] == "driver"}
    for row in result["rows"]:
        if row["kind"] == "kernel":
            call = calls[row["correlation"]]
            assert call["name"] == "cuLaunchKernel"
            assert launches["ts_ns"] - 10**5 <= call["ts_ns"] <= launches["ts_ns"] + launches["dur_ns"] + 10**5
            assert row["ts_ns"] + 10**5 >= call["ts_ns"], "a kernel starts after its launch"
    [file] = (tmp_path / "out").iterdir()
    assert file.read_text("utf-8").count('"name":"add_one"') + file.read_text("utf-8").count('"name": "add_one"') == 5


@pytest.mark.device
def test_the_time_here_is_the_time_of_the_log() -> None:
    """CUPTI's clock, moved to the wall clock, is the wall clock."""
    from doors.profiler import clock_offset

    module = load()
    offset = clock_offset(module.get_timestamp)
    before = time.time_ns()
    stamp = module.get_timestamp() + offset
    assert before - 10**6 <= stamp <= time.time_ns() + 10**6

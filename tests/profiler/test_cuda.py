"""cuda_profiler up to the driver: a fake CUPTI module stands in for the GPU."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from doors.profiler import Collected, CuptiUnavailableError, CuptiWork, layout_of, microseconds, write_log
from doors.profiler import profiler_cupti as _cupti
from profiler.fake_cupti import ActivityKind, FakeCupti, install
from recorder.reading import read_log
from support import missing
from viewers import perfetto

import tracekit
from tracekit import pipeline, recorder
from tracekit.profiler import cuda, paddle
from tracekit.profiler.cuda import cuda_profiler


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeCupti:
    return install(monkeypatch, FakeCupti())


def work(gpu: FakeCupti) -> None:
    gpu.copy(1)
    for _ in range(3):
        gpu.kernel()
    gpu.kernel("_Z5scalePff", 700, by="driver", stream_id=13)
    gpu.fill()
    gpu.copy(2, flags=1, src=3, dst=2)


def rows(path: Path, mode: str) -> tuple[list[str], list[dict[str, str]]]:
    """The columns and rows of a log, read by its description alone."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    columns = lines[0].split(",")
    if mode == "csv":
        return columns, [dict(zip(columns, line.split(","), strict=True)) for line in lines[1:]]
    found = []
    for line in lines[1:]:
        assert line.endswith(" ] ")
        found.append(dict(pair.split("=[ ") for pair in line.removesuffix(" ] ").split(" ] ")))
    return columns, found


@pytest.mark.parametrize("mode", ["kvp", "csv"])
def test_the_region_is_written_and_nothing_else(gpu: FakeCupti, mode: str, tmp_path: Path) -> None:
    gpu.kernel("before")
    begin = time.time_ns()
    with cuda_profiler(str(tmp_path / "log.txt"), mode) as region:
        work(gpu)
    end = time.time_ns()
    gpu.kernel("after")
    assert (region.how, region.log, region.kernels, region.copies) == ("cupti", tmp_path / "log.txt", 4, 3)
    columns, found = rows(tmp_path / "log.txt", mode)
    assert columns == [
        "method", "gpustarttimestamp", "gpuendtimestamp", "gputime", "cputime", "gridsizeX", "gridsizeY", "gridsizeZ",
        "threadblocksizeX", "threadblocksizeY", "threadblocksizeZ", "streamid",
    ]  # fmt: skip
    assert [row["method"] for row in found] == [
        "memcpyHtoD", *["_Z6vecaddPiS_"] * 3, "_Z5scalePff", "memset", "memcpyDtoHasync",
    ]  # fmt: skip
    assert [row["gputime"] for row in found] == ["2.500", *["12.345"] * 3, "0.700", "0.800", "2.500"]
    assert [row["streamid"] for row in found] == ["7"] * 4 + ["13", "7", "7"]
    for row in found:
        start, stop = int(row["gpustarttimestamp"], 16), int(row["gpuendtimestamp"], 16)
        assert begin <= start <= end
        assert microseconds(stop - start) == row["gputime"]
    assert found[1]["gridsizeX"] == "64"
    assert found[1]["threadblocksizeX"] == "128"
    assert found[1]["cputime"] == "4.000", "the runtime's call, not the driver's inside of it"
    assert found[4]["cputime"] == "3.000", "launched through the driver"
    assert found[0].get("gridsizeX", "") == "", "a copy has no grid"


@pytest.mark.parametrize("mode", ["kvp", "csv"])
def test_tracekit_reads_it_back(gpu: FakeCupti, mode: str, tmp_path: Path) -> None:
    if "cuda-profile" not in pipeline.READERS:
        pytest.skip("this checkout has no reader cuda-profile yet")
    options = [*cuda.DEFAULT_CONFIG, "memtransfersize", "memtransferdir", "regperthread", "dynsmemperblock"]
    with cuda_profiler(tmp_path / "log.txt", mode, options):
        work(gpu)
    trace = tracekit.read(tmp_path / "log.txt")
    table = trace.events.to_pylist()
    assert Counter(row["kind"] for row in table) == {"kernel": 4, "memcpy": 2, "memset": 1}
    assert sum(row["dur_ns"] for row in table) == 2 * 2500 + 3 * 12345 + 700 + 800
    kernel = next(row for row in table if row["kind"] == "kernel")
    assert kernel["name"] == "vecadd(int*, int*)"
    assert (kernel["grid_x"], kernel["grid_y"], kernel["block_x"]) == (64, 2, 128)
    assert kernel["dynamic_smem_bytes"] == 2048
    assert [row["bytes"] for row in table if row["kind"] == "memcpy"] == [4096, 4096]
    assert [row["copy_kind"] for row in table if row["kind"] == "memcpy"] == ["HtoD", "DtoH"]
    assert list(trace.run.devices.values()) == ["Invented GPU"]
    [ledger] = trace.ledgers
    assert not ledger.dropped
    tracekit.convert(tmp_path / "log.txt", tmp_path / "trace.json")


def test_the_order_towards_cupti(gpu: FakeCupti, tmp_path: Path) -> None:
    with cuda_profiler(tmp_path / "log"):
        assert gpu.enabled >= {ActivityKind.CONCURRENT_KERNEL, ActivityKind.MEMCPY, ActivityKind.MEMSET}
        assert gpu.thread_ids == 1, "the system's thread ids, as in the recorder's log"
    kinds = [what for what, _ in gpu.history]
    flush = kinds.index("flush")
    assert set(kinds[:flush]) == {"enable"}
    assert set(kinds[flush + 1 :]) == {"disable"}
    assert gpu.enabled == set()


def test_another_mode_is_refused_on_entry_and_csv_is_the_default(gpu: FakeCupti, tmp_path: Path) -> None:
    manager = cuda_profiler(tmp_path / "log", "json")
    with pytest.raises(ValueError, match=r"The output mode must be 'kvp' or 'csv'\."):
        manager.__enter__()
    assert gpu.history == []
    with cuda_profiler(tmp_path / "log"):
        gpu.kernel()
    assert "# CUDA_PROFILE_CSV 1" in (tmp_path / "log").read_text(encoding="utf-8")


def test_an_exception_in_the_block_leaves_a_log_and_passes(gpu: FakeCupti, tmp_path: Path) -> None:
    def fail() -> None:
        with cuda_profiler(tmp_path / "log", "csv"):
            gpu.kernel()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert len(rows(tmp_path / "log", "csv")[1]) == 1
    assert gpu.enabled == set()


def test_the_options_name_the_columns(gpu: FakeCupti, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["# counters", "regperthread", "gridsize", "timestamp", "enableonstart 0", "l1_global_load_hit"]
    with cuda_profiler(tmp_path / "log", "csv", options):
        work(gpu)
    columns, found = rows(tmp_path / "log", "csv")
    assert columns == ["method", "timestamp", "gputime", "cputime", "gridsizeX", "gridsizeY", "regperthread"]
    assert found[0]["timestamp"] == "0.000"
    assert capsys.readouterr().err.count("not collected: l1_global_load_hit") == 1


def test_directions_and_kinds_of_host_memory(tmp_path: Path) -> None:
    def copy(kind: str, source: str, target: str) -> CuptiWork:
        return CuptiWork("memcpy", f"memcpy{kind}", 10, 20, 0, 1, 7, 1, size=8, copy_kind=kind, source_memory=source,
                    target_memory=target)  # fmt: skip

    copies = [copy("HtoD", "pinned", "device"), copy("DtoH", "device", "pageable"), copy("DtoD", "device", "device")]
    layout = layout_of(["memtransferdir", "memtransferhostmemtype"])
    write_log(Collected(copies, [], {}, {}), tmp_path / "log", mode="csv", layout=layout)
    found = rows(tmp_path / "log", "csv")[1]
    assert [(row["memtransferdir"], row["memtransferhostmemtype"]) for row in found] == [
        ("0", "1"), ("1", "0"), ("", ""),
    ]  # fmt: skip


def test_each_context_has_a_block_with_a_header_of_its_own(gpu: FakeCupti, tmp_path: Path) -> None:
    with cuda_profiler(tmp_path / "log"):
        gpu.kernel(context_id=1)
        gpu.kernel(context_id=2)
        gpu.kernel(context_id=1)
    heads = [line for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    assert heads == [
        "# CUDA_PROFILE_LOG_VERSION 2.0", "# CUDA_DEVICE 0 Invented GPU", "# CUDA_CONTEXT 1", "# CUDA_PROFILE_CSV 1",
        "# CUDA_PROFILE_LOG_VERSION 2.0", "# CUDA_DEVICE 0 Invented GPU", "# CUDA_CONTEXT 2", "# CUDA_PROFILE_CSV 1",
    ]  # fmt: skip


def test_a_region_without_work_has_a_log_with_its_header(gpu: FakeCupti, tmp_path: Path) -> None:
    with cuda_profiler(tmp_path / "log"):
        pass
    assert rows(tmp_path / "log", "csv")[1] == []
    assert "# CUDA_DEVICE 0 Invented GPU" in (tmp_path / "log").read_text(encoding="utf-8")


def test_names_that_csv_cannot_hold_are_told(
    gpu: FakeCupti, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cuda_profiler(tmp_path / "log"):
        gpu.kernel("jit<a, b>\n")
    assert rows(tmp_path / "log", "csv")[1][0]["method"] == "jit<a; b>"
    assert "1 kernel names hold what csv cannot" in capsys.readouterr().err


def test_a_log_that_cannot_be_written_costs_itself(
    gpu: FakeCupti, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cuda_profiler(tmp_path / "no" / "folder") as region:
        gpu.kernel()
    assert region.log is None
    assert region.kernels == 1
    assert "is not written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_records_without_times_and_lost_ones_are_told(
    gpu: FakeCupti, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cuda_profiler(tmp_path / "log") as region:
        gpu.kernel()
        gpu.kernel()
        gpu.pending[-1].start = gpu.pending[-1].end = 0
        gpu.kernel()
        del gpu.pending[-1].name
        gpu.dropped = 5
    assert region.kernels == 1
    said = capsys.readouterr().err
    for lost in ("1 records without times", "1 records that cannot be read", "5 records that CUPTI had no room for"):
        assert lost in said


def test_a_clock_of_its_own_is_moved_to_the_wall_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu = install(monkeypatch, FakeCupti(shift=-1_700_000_000_000_000_000))
    begin = time.time_ns()
    with cuda_profiler(tmp_path / "log"):
        gpu.kernel()
    [row] = rows(tmp_path / "log", "csv")[1]
    assert begin - 1_000_000 < int(row["gpustarttimestamp"], 16) < time.time_ns() + 1_000_000
    assert row["gputime"] == "12.345"


def test_a_clock_that_is_the_wall_clock_is_left_alone(gpu: FakeCupti) -> None:
    assert _cupti.clock_offset(gpu.get_timestamp) == 0


def without_cupti(monkeypatch: pytest.MonkeyPatch, runtime: str | None) -> None:
    monkeypatch.setitem(sys.modules, "cupti", None)
    monkeypatch.setattr(_cupti, "has_driver", lambda: True)
    monkeypatch.setattr(_cupti, "loaded_runtime", lambda: runtime)


def test_without_cuda_the_range_of_the_host_is_recorded_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without_cupti(monkeypatch, None)
    for _ in range(2):
        with cuda_profiler(tmp_path / "log.txt") as region:
            assert recorder.is_recording()
    assert (region.how, region.kernels) == ("host", 0)
    assert not (tmp_path / "log.txt").exists()
    assert not recorder.is_recording()
    assert read_log(region.log).calls() == {"cuda_profiler": 1}
    said = capsys.readouterr().err
    assert said.count("cupti-python is not installed (pip install 'tracekit-gpu[cupti]')") == 2, "a file each"
    assert "the host's range alone is recorded, in " in said


def test_without_cuda_a_recording_gets_the_range(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_cupti(monkeypatch, None)
    path = recorder.start(tmp_path / "run.jsonl", nvtx=False)
    with cuda_profiler(tmp_path / "log.txt") as region:
        pass
    assert region.log is None
    assert recorder.stop() == path
    assert read_log(path).calls() == {"cuda_profiler": 1}


RUNTIME = """
int starts, stops;
int cudaProfilerStart(void) { return ++starts, 0; }
int cudaProfilerStop(void) { return ++stops, 0; }
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a loaded library is looked up in /proc")
def test_without_the_package_the_region_is_bracketed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("gcc") is None:
        missing("gcc")
    (tmp_path / "runtime.c").write_text(RUNTIME)
    path = tmp_path / "libcudart.so.99"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, tmp_path / "runtime.c"], check=True)
    library = ctypes.CDLL(str(path))
    assert _cupti.loaded_runtime() == str(path)
    without_cupti(monkeypatch, str(path))
    for _ in range(2):
        with cuda_profiler(tmp_path / "log.txt") as region:
            assert ctypes.c_int.in_dll(library, "starts").value == ctypes.c_int.in_dll(library, "stops").value + 1
    assert ctypes.c_int.in_dll(library, "stops").value == 2
    assert region.how == "bracket"
    assert not (tmp_path / "log.txt").exists()
    assert capsys.readouterr().err.count("bracketed with cudaProfilerStart") == 1


def test_a_runtime_without_the_functions_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_cupti(monkeypatch, str(tmp_path / "libcudart.so.gone"))
    with cuda_profiler(tmp_path / "log.txt") as region:
        pass
    assert region.how == "host"


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeCupti(), driver=False)
    with pytest.raises(CuptiUnavailableError, match="no CUDA driver"):
        _cupti.load()
    monkeypatch.setattr(_cupti, "has_driver", lambda: True)
    assert _cupti.is_available()
    monkeypatch.setitem(sys.modules, "cupti", None)
    with pytest.raises(CuptiUnavailableError, match="cupti-python is not installed"):
        _cupti.load()


def test_a_refusal_leaves_nothing_enabled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu = install(monkeypatch, FakeCupti(refuse=ActivityKind.MEMSET))
    monkeypatch.setattr(_cupti, "loaded_runtime", lambda: None)
    with cuda_profiler(tmp_path / "log") as region:
        pass
    assert region.how == "host"
    assert gpu.enabled == set()


def test_a_window_of_paddles_profiler_holds_gpu_work(
    gpu: FakeCupti, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kernels, copies and CUDA calls lie on the clock, and in the threads, of the program's own ranges."""
    prof = paddle.Profiler(
        targets=[paddle.ProfilerTarget.CPU, paddle.ProfilerTarget.GPU],
        scheduler=(1, 3),
        on_trace_ready=paddle.export_chrome_tracing(str(tmp_path / "out")),
    )
    with prof:
        for _ in range(5):
            with paddle.RecordEvent("forward", paddle.TracerEventType.Forward):
                work(gpu)
            prof.step()
    [window] = prof.windows
    table = window.read().events.to_pylist()
    kinds = Counter(row["kind"] for row in table)
    assert (kinds["kernel"], kinds["memcpy"], kinds["memset"], kinds["forward"]) == (8, 4, 2, 2)
    assert kinds["runtime"] == 12
    assert kinds["driver"] == 2, "only what launches work without the runtime"
    forward = [row for row in table if row["kind"] == "forward"]
    launches = [row for row in table if row["kind"] in ("runtime", "driver")]
    for launch in launches:
        assert {(row["pid"], row["tid"]) for row in forward} == {(launch["pid"], launch["tid"])}
        assert any(row["ts_ns"] - 10**6 <= launch["ts_ns"] <= row["ts_ns"] + row["dur_ns"] + 10**6 for row in forward)
    kernel = next(row for row in table if row["kind"] == "kernel")
    assert (kernel["name"], kernel["raw_name"]) == ("vecadd(int*, int*)", "_Z6vecaddPiS_")
    assert kernel["correlation"] in {row["correlation"] for row in launches}
    assert [kernel[f"block_{axis}"] for axis in "xyz"] == [128, 1, 1]
    capsys.readouterr()
    prof.summary(sorted_by=paddle.SortedKeys.GPUTotal)
    said = capsys.readouterr().out
    assert "GPU 0 Invented GPU" in said
    names = [line.split()[-2:] for line in said.splitlines() if line.endswith(("int*)", "float)"))]
    assert names[0] == ["vecadd(int*,", "int*)"]
    [file] = (tmp_path / "out").iterdir()
    assert "vecadd(int*, int*)" in file.read_text(encoding="utf-8")


@pytest.mark.viewer
def test_an_exported_window_with_gpu_work_opens_in_perfetto(gpu: FakeCupti, tmp_path: Path) -> None:
    ready = paddle.export_chrome_tracing(str(tmp_path), "w")
    with paddle.Profiler(on_trace_ready=ready) as prof:
        for _ in range(3):
            with paddle.RecordEvent("forward", paddle.TracerEventType.Forward):
                work(gpu)
            prof.step()
    [file] = tmp_path.iterdir()
    seen = perfetto(file)
    assert seen["errors"] == {}
    rows = prof.windows[0].read().events.select(["dur_ns"]).to_pylist()
    timed = [row["dur_ns"] for row in rows if row["dur_ns"] is not None]
    assert seen["slices"] == len(timed)
    assert seen["sum_dur_ns"] == sum(timed)
    assert seen["names"]["vecadd(int*, int*)"]["count"] == 9


@pytest.mark.parametrize(("key", "first"), [("GPUTotal", "vecadd"), ("GPUAvg", "vecadd"), ("GPUMax", "vecadd"),
                                            ("GPUMin", "scale"), ("CPUTotal", "vecadd")])  # fmt: skip
def test_kernels_are_ranked_by_the_key(
    gpu: FakeCupti, key: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with paddle.Profiler(on_trace_ready=lambda prof: None) as prof:
        work(gpu)
    capsys.readouterr()
    prof.summary(
        sorted_by=paddle.SortedKeys[key], thread_sep=True, views=[paddle.SummaryView.KernelView], time_unit="us"
    )
    names = re.findall(r"(vecadd|scale)\(", capsys.readouterr().out)
    assert names[0] == first
    assert len(names) == 2


def test_the_driver_of_this_machine_is_asked_without_harm() -> None:
    assert _cupti.has_driver() in (True, False)
    _cupti.synchronize()

"""Write every sample file, and expected.json with what a correct reader finds in each.

    python sample_traces/generate.py [FOLDER]        (default: the folder this file is in)

The same bytes come out each time, with any Python from 3.11 on. All files tell the training run of `_model.py`, so the
same kernel has the same nanoseconds everywhere, less what the file's own rounding takes away.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import _cuda_profile as cuda
import _nvprof_counters as counters
import _nvprof_csv as table
import _nvprof_text as text
import _recorder_log as recorder
from _model import Event, api_calls, device_work, training_run
from _nvprof_csv import COLUMNS_17, COLUMNS_20, COLUMNS_22, COLUMNS_PEERS, Units
from _sheet import Sheet

LIMIT = 200 * 1024


def nvprof_csv() -> Iterator[tuple[str, Sheet, bytes]]:
    run = training_run()
    gpu = device_work(run)
    managed = training_run(unified=True)
    old = device_work(training_run(launch="cudaLaunch"))
    slow = device_work(training_run(seed=23, start_ns=1_204_117_300))
    plain: list[tuple[str, Sheet]] = [
        ("gpu-trace-17-columns.csv", table.gpu_trace(old, COLUMNS_17, Units("ms", "us", "B", "B", "KB", "GB/s"))),
        ("gpu-trace-20-columns.csv", table.gpu_trace(gpu, COLUMNS_20, Units("ms", "ms", "KB", "B", "MB", "GB/s"))),
        (
            "gpu-trace-22-columns.csv",
            table.gpu_trace(device_work(managed), COLUMNS_22, Units("s", "us", "KB", "B", "KB", "MB/s")),
        ),
        ("gpu-trace-seconds.csv", table.gpu_trace(gpu, COLUMNS_17, Units("s", "s", "B", "B", "MB", "GB/s"))),
        (
            "gpu-trace-scientific.csv",
            table.gpu_trace(gpu, COLUMNS_17, Units("s", "ms", "B", "KB", "MB", "GB/s"), scientific=True),
        ),
        (
            "peer-copies.csv",
            table.gpu_trace(
                device_work(training_run(peers=True)), COLUMNS_PEERS, Units("ms", "us", "KB", "B", "MB", "GB/s")
            ),
        ),
        ("api-trace.csv", table.api_trace(run, correlation=True)),
        ("api-trace-3-columns.csv", table.api_trace(training_run(launch="cudaLaunch"), correlation=False)),
        ("gpu-and-api-trace.csv", table.gpu_trace(run, COLUMNS_20, Units("ms", "us", "KB", "B", "KB", "GB/s"))),
        ("summary-old.csv", table.summary_old(training_run(launch="cudaLaunch"))),
        ("summary-new.csv", table.summary_new(run)),
        ("summary-unified-memory.csv", table.summary_new(managed, managed=True)),
        ("metrics.csv", counters.metrics_csv(run)),
        ("events.csv", counters.events_csv(run)),
        ("appended-runs.csv", table.appended_runs(gpu, slow)),
        ("progress-bar.csv", table.progress_bar(gpu)),
        ("imported-no-pid.csv", table.imported(gpu)),
        ("mpirun.csv", table.interleaved([gpu, slow], 5, tags=False)),
        ("mpirun-tag-output.csv", table.interleaved([gpu, slow], 6, tags=True)),
    ]
    for name, sheet in plain:
        yield name, sheet, sheet.text().encode()
    windows = table.gpu_trace(gpu, COLUMNS_20, Units("ms", "us", "KB", "B", "KB", "GB/s"))
    yield "utf-16-powershell.csv", windows, b"\xff\xfe" + windows.text("\r\n").encode("utf-16-le")
    yield "excel-semicolons.csv", windows, table.excel(windows).encode()
    cut, cut_text = table.truncated(gpu)
    yield "truncated.csv", cut, cut_text.encode()


def nvprof_text() -> Iterator[tuple[str, Sheet, bytes]]:
    run = training_run()
    managed = training_run(unified=True)
    faults_only = [event for event in device_work(managed) if event.bytes is None]
    for name, sheet in (
        ("gpu-trace.txt", text.gpu_trace(device_work(run))),
        ("gpu-trace-old.txt", text.gpu_trace(device_work(training_run(launch="cudaLaunch")), memory=False)),
        ("gpu-trace-unified-memory.txt", text.gpu_trace(faults_only, managed=True)),
        ("gpu-and-api-trace.txt", text.gpu_trace(run)),
        ("api-trace.txt", text.api_trace(run)),
        ("summary.txt", text.summary(run, with_type=True)),
        ("summary-old.txt", text.summary(training_run(launch="cudaLaunch"), with_type=False)),
        ("summary-unified-memory.txt", text.summary(managed, with_type=True, managed=True)),
        ("no-kernels.txt", text.no_kernels(api_calls(run))),
        ("metrics.txt", counters.metrics_text(run)),
        ("events.txt", counters.events_text(run)),
    ):
        yield name, sheet, sheet.text().encode()


def cuda_profile() -> Iterator[tuple[str, Sheet, bytes]]:
    gpu: list[Event] = device_work(training_run())
    other = device_work(training_run(seed=29))
    no_stream = [column for column in cuda.PADDLE if column != "streamid"]
    for name, sheet in (
        ("kvp.log", cuda.log(gpu)),
        ("kvp-timestamps.log", cuda.log(gpu, cuda.PADDLE)),
        ("kvp-streamid.log", cuda.log(gpu, [*cuda.DEFAULT, "streamid"])),
        ("kvp-version-1.log", cuda.log(gpu, ["timestamp", *cuda.DEFAULT], version="1.6", trailing="")),
        ("kvp-mac.log", cuda.log(gpu, factor=None)),
        ("csv.log", cuda.log(gpu, as_csv=True)),
        ("csv-timestamps.log", cuda.log(gpu, cuda.PADDLE, as_csv=True)),
        ("csv-short-rows.log", cuda.log(gpu, as_csv=True, short=True, factor="fffff6951975d1e8")),
        ("csv-many-columns.log", cuda.log(gpu, cuda.MANY, as_csv=True, short=True)),
        ("two-contexts_0.log", cuda.log(gpu, no_stream)),
        ("two-contexts_1.log", cuda.log(other, no_stream, context=2, device="1 Tesla P100-PCIE-16GB")),
        ("opencl.log", cuda.log(cuda.opencl(gpu), language="OPENCL")),
        (
            "opencl-csv-timestamps.log",
            cuda.log(cuda.opencl(gpu), [*cuda.STAMPS, *cuda.DEFAULT, "streamid"], as_csv=True, language="OPENCL"),
        ),
    ):
        yield name, sheet, sheet.text().encode()


def recorder_log() -> Iterator[tuple[str, Sheet, bytes]]:
    for name, sheet in (
        ("rank0.jsonl", recorder.training(0)),
        ("rank1.jsonl", recorder.training(1)),
        ("killed.jsonl", recorder.training(0).torn(30)),
    ):
        yield name, sheet, sheet.text().encode()


FOLDERS: dict[str, Callable[[], Iterator[tuple[str, Sheet, bytes]]]] = {
    "nvprof-csv": nvprof_csv,
    "nvprof-text": nvprof_text,
    "cuda-profile": cuda_profile,
    "recorder-log": recorder_log,
}


def write_all(root: Path) -> None:
    """Write the files under root, and root/expected.json."""
    expected = {}
    for folder, files in FOLDERS.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, sheet, data in files():
            if len(data) >= LIMIT:
                raise ValueError(f"{folder}/{name}: {len(data)} bytes, and a sample has less than {LIMIT}")
            (root / folder / name).write_bytes(data)
            expected[f"{folder}/{name}"] = sheet.figures()
    (root / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)

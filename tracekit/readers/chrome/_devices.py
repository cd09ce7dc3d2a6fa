"""Device work of producers that write it in their own way: ONNX Runtime, old PyTorch, Ascend, TensorFlow and others."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.readers import rocm
from tracekit.readers.names import Demangler
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.events import Reading
from tracekit.readers.trace_event.look import Special
from tracekit.readers.trace_event.plan import DEVICE, HOST, MOVABLE, Build
from tracekit.readers.trace_event.rows import Rows
from tracekit.schema import Kind

_NS = re.compile(r"[0-9]{1,18}", re.ASCII)
_DEVICE = re.compile(r"[0-9]{1,6}", re.ASCII)
_SMALL = re.compile(r"[0-9]{1,9}", re.ASCII)
_GPU_LANE = re.compile(
    r"(?:/job:[^ ]{1,200})?/(?:device:GPU|gpu):([0-9]{1,4})/(?:stream:)?([0-9]{1,9}|all|memcpy)"
    r"(?:<[^ ]{0,200}>)? Compute",
    re.ASCII,
)
_STEP = re.compile(r"ProfilerStep#([0-9]{1,9})", re.ASCII)


class OnnxRuntime(Special):
    """Kernels have pid and tid -1, and texts for stream and sizes; no device is stated (cuda_profiler.cc, 1.9 on)."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._demangler = Demangler(reading.ledger, enabled=reading.options.demangle)

    def range(self, build: Build) -> Collection[str]:
        """Take stream and sizes of kernels."""
        if build.event.get("cat") != "Kernel":
            return ()
        name = build.event.get("name") or ""
        build.consts["name"], build.consts["raw_name"] = self._demangler.one(name)
        if name.lower().startswith("memcpy"):
            build.consts["kind"] = Kind.MEMCPY
        elif name.lower().startswith("memset"):
            build.consts["kind"] = Kind.MEMSET
        for column in ("pid", "tid"):
            if build.runs.get(column, (False, 0))[0] or build.is_below_zero(column):
                _remove(build, column)
        columns = "stream", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"
        number = self.reading.streams.number
        taken = {c for c in columns if build.integer(c, build.event.args.get(c), number if c == "stream" else None)}
        if build.integer("correlation", build.event.args.get("correlation_id")):
            taken.add("correlation_id")
        return taken

    def close(self) -> None:
        """End the demangler's child."""
        self._demangler.close()


class Autograd(Special):
    """Two processes by name: operators, and on "CUDA functions" the ranges that they span there, nested as they are.

    Source: torch/autograd/profiler.py (1.0 to 1.7), export_chrome_trace. tid of device ranges is the device.
    """

    def range(self, build: Build) -> Collection[str]:
        """Separate operators from what they span on a device."""
        if (build.event.get("pid") or "").startswith("CPU"):
            build.consts["kind"] = Kind.OPERATOR
            return ()
        build.consts["kind"] = Kind.OTHER
        if "tid" in build.runs:
            build.runs["device"] = build.runs.pop("tid")
        if "tid" in build.consts:
            build.consts["device"] = build.consts.pop("tid")
        return ()


class Rocprof(Special):
    """rocprof's results.json (ROCm before 7), and traces of rocmProfileData: AMD's calls and asynchronous activity.

    rocprof's times are text in whole µs; exact ones are in args. With --hip-trace and the like the times of the events
    count from the first one, those in args from boot.
    """

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._base: int | None = None
        """Exact time of ts 0 by the first range that has both, 0 for one clock."""

    def range(self, build: Build) -> Collection[str]:
        """Take the exact times, and recognise calls and commands."""
        event, consts = build.event, build.consts
        name = event.get("name") or ""
        if (call := rocm.call_kind(name)) is not None:
            consts["kind"] = call
        taken = self._exact_times(build)
        if (plain := rocm.kernel_name(name)) != name:
            consts["name"], consts["raw_name"] = plain, name
        if consts.get("dur_ns") == 1 and event.arg("Name") == name and event.arg("DurationNs") is None:
            consts["kind"] = Kind.MARK  # rocprof gives a mark of roctx 1 ns
        command = rocm.activity(name)
        if (place := _place_of_work(build)) is not None:
            for column in ("pid", "tid"):
                _remove(build, column)
            consts["pid"], consts["device"], consts["stream"] = place
            consts["kind"], consts["copy_kind"] = command or (Kind.KERNEL, None)
            return taken
        if (process := _process_of_call(build)) is not None:
            _remove(build, "pid")
            consts["pid"] = process
        device = event.arg("dev-id") or ""
        if command is not None and _DEVICE.fullmatch(device):
            consts["kind"], consts["copy_kind"] = command
            consts["device"] = int(device)
            build.flags |= DEVICE
        return taken

    def rows(self, rows: Rows) -> None:
        """Empty pid and tid of commands of the process COPY: they are rows of rocprof's page."""
        mine = rows.has(DEVICE) & ~rows.ints("stream")[1]
        for name in ("pid", "tid") if mine.any() else ():
            old = events.filled(rows.columns.get(name), rows.count, pa.int64())
            rows.columns[name] = events.where(mine, arrow.nulls(rows.count, pa.int64()), old)

    def _exact_times(self, build: Build) -> set[str]:
        """Take start and duration in ns out of args where they agree with the whole µs; return their keys."""
        event, consts = build.event, build.consts
        begin_text, end_text = event.arg("BeginNs") or "", event.arg("EndNs") or ""
        start, duration = consts.get("ts_ns"), consts.get("dur_ns")
        if not (_NS.fullmatch(begin_text) and _NS.fullmatch(end_text)):
            return set()
        if not isinstance(start, int) or not isinstance(duration, int):
            return set()
        begin, exact = int(begin_text), int(end_text) - int(begin_text)
        if self._base is None:
            self._base = 0 if start == begin // 1000 * 1000 else begin - start
        if abs(begin - self._base - start) >= 1000 or abs(exact - duration) >= 1000:
            return set()
        consts["ts_ns"], consts["dur_ns"] = begin - self._base, exact
        taken = {"BeginNs", "EndNs"} if not self._base else set()
        return taken | {"DurationNs"} if event.arg("DurationNs") == str(exact) else taken


def _place_of_work(build: Build) -> tuple[int, int, int | None] | None:
    """Return process, device and stream of work of a device that names its process, None for other rows.

    The pid of an event is a row of rocprof's page. args have the process in proc-id, since ROCm 5 in pid.
    """
    event, shown = build.event, build.event.members.get("pid")
    process = event.arg("proc-id") or event.arg("pid") or ""
    device = event.arg("dev-id") or event.arg("gpu-id") or ""
    lane = event.members.get("tid")
    if shown is None or shown.raw.strip(b'"') == process.encode() or event.arg("BeginNs") is None:
        return None
    if not (_SMALL.fullmatch(process) and _DEVICE.fullmatch(device)):
        return None
    stream = event.arg("queue-id") or "" if "KernelName" in event.args else ""
    if not stream and lane is not None and "KernelName" not in event.args and event.arg("Name") != "async-copy":
        stream = lane.raw.strip(b'"').decode("utf-8", "replace")
    return int(process), int(device), int(stream) if _SMALL.fullmatch(stream) else None


def _process_of_call(build: Build) -> int | None:
    """Return the process of a call or range since ROCm 5, None for other rows: `pid` is a row of rocprof's page."""
    event = build.event
    process, shown = event.arg("pid") or "", event.members.get("pid")
    if event.arg("BeginNs") is None or event.arg("dev-id") is not None or "KernelName" in event.args:
        return None
    same = shown is None or shown.raw.strip(b'"') == process.encode()
    return None if same or not _SMALL.fullmatch(process) else int(process)


class TensorFlow(Special):
    """TensorFlow's timeline: work of a GPU is under "/gpu:0/stream:7 Compute" (2.x: "/device:GPU:0/...").

    Its kernels are repeated under "stream:all" and its copies under "memcpy" (device_tracer.cc saves them twice): these
    are other where the streams are there, else the work itself.
    """

    def range(self, build: Build) -> Collection[str]:
        """Recognise copies by the name of the node."""
        names = build.event.arg("name") or "", build.event.get("name") or ""
        build.is_copy = any("memcpy" in name.lower() for name in names)
        return ()

    def _lanes(self) -> dict[int, tuple[int, str]]:
        found = {}
        for pid, text in self.reading.names.processes.items():
            if match := _GPU_LANE.fullmatch(text):
                found[pid] = int(match[1]), match[2]
        return found

    def rows(self, rows: Rows) -> None:
        """Set kind, device and stream of work of a GPU."""
        lanes = self._lanes()
        pid, known = rows.ints("pid")
        _, timed = rows.ints("dur_ns")
        mine = known & timed & np.isin(pid, list(lanes))
        if not mine.any():
            return
        whole = {device for device, lane in lanes.values() if lane.isdecimal()}
        columns, count = rows.columns, rows.count
        copies = rows.flag(lambda build: build.is_copy)
        kinds = columns["kind"].cast(pa.string())
        for number, (device, lane) in lanes.items():
            own = mine & (pid == number)
            again = not lane.isdecimal() and device in whole
            work = Kind.OTHER if again else Kind.KERNEL
            kinds = events.where(own, arrow.array([work.value] * count, pa.string()), kinds)
            if not again:
                kinds = events.where(own & copies, arrow.array([Kind.MEMCPY.value] * count, pa.string()), kinds)
        columns["kind"] = arrow.encoded(kinds)
        values, place = np.unique(pid, return_inverse=True)
        found = [lanes.get(v, (0, "")) for v in values.tolist()]
        stream = np.array([int(lane) if lane.isdecimal() else -1 for _, lane in found], np.int64)[place]
        columns["device"] = arrow.array(np.array([d for d, _ in found], np.int32)[place], mask=~mine)
        columns["stream"] = arrow.array(stream, mask=~(mine & (stream >= 0)))
        for name in ("pid", "tid"):
            old = events.filled(columns.get(name), count, pa.int64())
            columns[name] = events.where(mine & (stream >= 0), arrow.nulls(count, pa.int64()), old)


class Horovod(Special):
    """Horovod's timeline: a process for each tensor; what the library under it does is communication."""

    def range(self, build: Build) -> Collection[str]:
        """Separate the collectives from waiting and negotiation."""
        if (build.event.get("name") or "").startswith(("NCCL_", "MPI_", "GLOO_", "CCL_", "DDL_")):
            build.consts["kind"] = Kind.COMMUNICATION
        return ()


class Unitrace(Special):
    """Intel's unitrace and onetrace: calls are of cat cpu_op, and what they put on a device of cat gpu_op."""

    def range(self, build: Build) -> Collection[str]:
        """Separate kernels from the other commands of Level Zero."""
        name = build.event.get("name") or ""
        if build.event.get("cat") == "gpu_op" and name.startswith(("ze", "cl")):
            commands = (("MemoryCopy", Kind.MEMCPY), ("Buffer", Kind.MEMCPY), ("MemoryFill", Kind.MEMSET))
            build.consts["kind"] = next((kind for word, kind in commands if word in name), Kind.SYNC)
        return ()


class Ascend(Special):
    """msprof's and torch_npu's timelines: tasks have a "Task Type", calls of CANN a "level".

    A pid is (pid << 10) | (layer << 5) | device (msprof, JsonAssembler::GetFormatPid); here tasks and calls have the
    pid of the host process. Plain pids of Python stay. Overlap Analysis and the planes of HCCL repeat what the tasks
    are: other, but for collectives by name.
    """

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._hardware: dict[int, int] = {}
        self._calls: set[int] = set()

    def range(self, build: Build) -> Collection[str]:
        """Recognise tasks, calls and collectives."""
        event, consts, taken = build.event, build.consts, set[str]()
        name = event.get("name") or ""
        if (task := event.arg("Task Type")) is not None:
            build.flags |= DEVICE
            consts["kind"] = _task(task, name)
        elif name.startswith("AscendCL@") or ("level" in event.args and "Thread Id" in event.args):
            build.flags |= HOST
            consts["kind"] = Kind.RUNTIME if name.startswith("AscendCL@") else Kind.OTHER
        elif name.startswith("hcom_"):
            consts["kind"] = Kind.COMMUNICATION
        elif step := _STEP.fullmatch(name):
            consts["kind"], consts["step"] = Kind.STEP, int(step[1])
        if build.flags & (DEVICE | HOST) and build.integer("correlation", event.args.get("connection_id")):
            taken.add("connection_id")
        return taken

    def rows(self, rows: Rows) -> None:
        """Set device, stream and the pid of the host process of tasks, and of the ends of arrows at them."""
        pid, known = rows.ints("pid")
        formatted = known & ((pid < 0) | (pid >= 1 << 10))
        own = rows.has(DEVICE) & formatted
        calls = rows.has(HOST) & formatted
        self._calls.update(np.unique(pid[calls]).tolist())
        labels = self.reading.names.labels
        for number in np.unique(pid[own]).tolist():
            label = labels.get(number, "").removeprefix("NPU").strip()
            self._hardware[number] = int(label) if label.isdecimal() and len(label) < 6 else number & 31
        own |= rows.has(MOVABLE) & formatted & np.isin(pid, list(self._hardware))
        calls |= rows.has(MOVABLE) & formatted & np.isin(pid, list(self._calls))
        if not (own | calls).any():
            return
        columns, count = rows.columns, rows.count
        known_pids, place = np.unique(pid, return_inverse=True)
        device = np.array([self._hardware.get(p, 0) for p in known_pids.tolist()], np.int32)
        columns["device"] = arrow.array(device[place], mask=~own)
        tid = events.filled(columns.get("tid"), count, pa.int64())
        columns["stream"] = events.where(own, tid, arrow.nulls(count, pa.int64()))
        columns["tid"] = events.where(own, arrow.nulls(count, pa.int64()), tid)
        columns["pid"] = arrow.array(np.where(own | calls, (pid & 0xFFFFFFFF) >> 10, pid), mask=~known)

    def names(self) -> None:
        """Move the names of moved lanes."""
        run, source, names = self.reading.run, self.reading.options.source, self.reading.names
        for (pid, tid), text in names.threads.items():
            if pid in self._hardware:
                del run.threads[source, pid, tid]
                if text.lower() != f"stream {tid}":
                    run.streams[source, self._hardware[pid], tid] = text
            elif pid in self._calls:
                del run.threads[source, pid, tid]
                run.threads.setdefault((source, (pid & 0xFFFFFFFF) >> 10, tid), text)
        for pid, device in self._hardware.items():
            run.devices[source, device] = run.processes.pop((source, pid), "") or "Ascend Hardware"
        for pid in self._calls:
            text = run.processes.pop((source, pid), "")
            if text:
                run.processes.setdefault((source, (pid & 0xFFFFFFFF) >> 10), text)


_TASKS = (
    (re.compile(r"MEMCPY|SDMA|PCIE_DMA"), Kind.MEMCPY),
    (re.compile(r"EVENT|NOTIFY|WAIT"), Kind.SYNC),
    (re.compile(r"AI_CORE|AI_VECTOR|AI_CPU|AICPU|AIV|AIC\b|MIX_|KERNEL|FFTS|DSA"), Kind.KERNEL),
)
"""Types of tasks of the STARS and HWTS schedulers; others (PROFILER_TRACE, MODEL_EXECUTE, labels) are no work."""


def _task(task: str, name: str) -> Kind:
    """Return the kind of a task; where the type is only that of a carrier, the name decides."""
    return next((kind for word, kind in _TASKS if word.search(task.upper()) or word.match(name)), Kind.OTHER)


def _remove(build: Build, column: str) -> None:
    build.runs.pop(column, None)
    build.consts.pop(column, None)

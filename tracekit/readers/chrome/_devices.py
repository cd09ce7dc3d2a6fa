"""Device work of producers that write it in their own way: ONNX Runtime, rocprof, TensorFlow and others."""

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
from tracekit.readers.trace_event.plan import DEVICE, Build
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


def _remove(build: Build, column: str) -> None:
    build.runs.pop(column, None)
    build.consts.pop(column, None)

"""Producers of Chrome traces that write some things in their own way, and the words by which a file shows them."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
import pyarrow as pa

from tracekit.model import arrow, sets
from tracekit.model.arrow import I64
from tracekit.model.schema import KINDS, Kind
from tracekit.model.trace import Ledger
from tracekit.readers import rocm
from tracekit.readers.builder import FIRST_TEXT_ID
from tracekit.readers.cann import call_kind, task_kind
from tracekit.readers.chrome.marks import ASCEND_NAMES
from tracekit.readers.names import Demangler
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.columns import Planner
from tracekit.readers.trace_event.events import EventReading
from tracekit.readers.trace_event.look import Dialect, FilePrescan, Special
from tracekit.readers.trace_event.plan import CALL, DEVICE, HOST, MOVABLE, Build, EventRows

# Tasks of Ascend's NPUs, as msprof and torch_npu write them.


_FIRST_FORMATTED = 1 << 10
_NPU = re.compile(r"\b(?:NPU|[Dd]evice)\W{0,3}([0-9]{1,5})\b", re.ASCII)
_STREAM = re.compile(r"\b[Ss]tream\W{0,3}([0-9]{1,9})\b", re.ASCII)
_STEP = re.compile(r"ProfilerStep#([0-9]{1,9})", re.ASCII)


_COLLECTIVE = CALL
"""The flag of a communication operator of HCCL; this dialect has no other use for it."""


class Ascend(Special):
    """msprof's and torch_npu's timelines: tasks have a "Task Type", calls of CANN a "level".

    A pid is (pid << 10) | (layer << 5) | device (msprof, JsonAssembler::GetFormatPid); here tasks and calls have the
    pid of the host process. Smaller pids are those of Python, which stay, or numbers of rows of the page: then tasks
    have no pid, and labels and names say device and stream. Overlap Analysis and the planes of HCCL repeat what the
    tasks are: other, but for collectives by name.
    """

    def __init__(self, reading: EventReading) -> None:
        super().__init__(reading)
        self._hardware: dict[int, int | None] = {}
        """Device by the pid of its tasks, None where nothing says it."""
        self._calls: set[int] = set()
        self._seen = 0

    def range(self, build: Build) -> Collection[str]:
        """Recognise tasks, calls and collectives."""
        event, consts, taken = build.event, build.consts, set[str]()
        name = event.get("name") or ""
        if (task := event.arg("Task Type")) is not None:
            build.flags |= DEVICE
            consts["kind"] = task_kind(task, name)
            build.integer("stream", event.args.get("Stream Id"))
        elif name.startswith("AscendCL@") or ("level" in event.args and "Thread Id" in event.args):
            build.flags |= HOST
            consts["kind"] = call_kind(event.arg("level") or name.partition("@")[0])
        elif name.startswith("hcom_"):
            # HCCL's own lane: the NPU communicates for this time, whichever streams its tasks are on.
            build.flags |= _COLLECTIVE
            consts["kind"] = Kind.KERNEL
        elif step := _STEP.fullmatch(name):
            consts["kind"], consts["step"] = Kind.STEP, int(step[1])
        if build.flags & (DEVICE | HOST | _COLLECTIVE) and build.integer(
            "correlation", event.args.get("connection_id")
        ):
            taken.add("connection_id")
        return taken

    def rows(self, rows: EventRows) -> None:
        """Set device, stream and the pid of the host process of tasks, and of the ends of arrows at them."""
        pid, known = rows.ints("pid")
        formatted = known & ((pid < 0) | ((pid >= _FIRST_FORMATTED) & (pid < FIRST_TEXT_ID)))
        self._see_names()
        self._calls.update(sets.unique(pid[rows.has(HOST) & formatted]).tolist())
        for number in sets.unique(pid[rows.has(DEVICE) & known]).tolist():
            self._hardware.setdefault(number, self._device(number))
        at_call = formatted & (rows.has(HOST) | (rows.has(MOVABLE) & np.isin(pid, list(self._calls))))
        tasks = known & (rows.has(DEVICE) | (rows.has(MOVABLE) & np.isin(pid, list(self._hardware))))
        collectives = known & rows.has(_COLLECTIVE)
        if not (tasks | at_call | collectives).any():
            return
        columns = rows.columns
        pids, place = np.unique(pid, return_inverse=True)
        device = np.array([-1 if (of := self._hardware.get(p)) is None else of for p in pids.tolist()], np.int32)[place]
        device = np.where(collectives & formatted, pid & 31, device).astype(np.int32)
        columns["device"] = arrow.array(device, mask=~(tasks | collectives) | (device < 0))
        tid, on_thread = rows.ints("tid")
        stated, has_stream = rows.ints("stream")
        lanes, place = np.unique(np.column_stack((pid, tid)), axis=0, return_inverse=True)
        named = [_number(_STREAM, self.reading.names.threads.get((p, t), "")) for p, t in lanes.tolist()]
        of_name = np.array([-1 if number is None else number for number in named], np.int64)[place.reshape(-1)]
        stream = np.where(of_name >= 0, of_name, np.where(has_stream, stated, tid))
        columns["stream"] = arrow.array(stream, mask=~tasks | ~((of_name >= 0) | has_stream | on_thread))
        moved = tasks | collectives
        columns["tid"] = arrow.array(tid, mask=moved | ~on_thread)
        host = (pid & 0xFFFFFFFF) >> 10
        columns["pid"] = arrow.array(np.where(moved | at_call, host, pid), mask=~known | (moved & ~formatted))

    def _see_names(self) -> None:
        """Learn from the names so far which processes are devices, and which hold the calls of CANN."""
        names = self.reading.names
        if len(names.processes) == self._seen:
            return
        self._seen = len(names.processes)
        for number, text in names.processes.items():
            if text.startswith("Ascend Hardware"):
                self._hardware.setdefault(number, self._device(number))
            elif text == "CANN" and _is_formatted(number):
                self._calls.add(number)

    def _device(self, pid: int) -> int | None:
        """Return the device that a process of tasks is: by its label, its name, its threads' names or its pid."""
        names = self.reading.names
        threads = (text for (of, _), text in names.threads.items() if of == pid)
        for text in (names.labels.get(pid, ""), names.processes.get(pid, ""), *threads):
            if (number := _number(_NPU, text)) is not None:
                return number
        return pid & 31 if _is_formatted(pid) else None

    def names(self) -> None:
        """Move the names of moved lanes."""
        run, source, names = self.reading.run, self.reading.options.source, self.reading.names
        for (pid, tid), text in names.threads.items():
            if pid in self._hardware:
                run.threads.pop((source, pid, tid), None)
                stream = _number(_STREAM, text)
                if text.lower() != f"stream {tid if stream is None else stream}" and (self._hardware[pid] is not None):
                    run.streams[source, self._hardware[pid], tid if stream is None else stream] = text
            elif pid in self._calls:
                run.threads.pop((source, pid, tid), None)
                run.threads.setdefault((source, (pid & 0xFFFFFFFF) >> 10, tid), text)
        for pid, device in self._hardware.items():
            text = run.processes.pop((source, pid), "")
            if device is not None:
                run.devices[source, device] = text or "Ascend Hardware"
        for pid in self._calls:
            text = run.processes.pop((source, pid), "")
            if text:
                run.processes.setdefault((source, (pid & 0xFFFFFFFF) >> 10), text)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    matched = pattern.search(text)
    return int(matched[1]) if matched else None


def _is_formatted(pid: int) -> bool:
    """Return whether a pid holds a process, a layer and a device. Ids that are text have larger numbers."""
    return pid < 0 or _FIRST_FORMATTED <= pid < FIRST_TEXT_ID


# Traces of torch's autograd profiler before Kineto (torch 1.0 to 1.7): export_chrome_trace of an EventList.


_ON_DEVICE = "CUDA functions"
_ROUNDING_NS = 2
"""Times are binary floats of µs: start and duration of one range may each be 1 ns off."""


class Autograd(Special):
    """Two processes by name: operators, and on "CUDA functions" the ranges that they span there. tid is the device.

    The ranges nest as the operators do. The innermost ones are the work; as kernels, those around them would count the
    same time again: they are other. Which these are is known at the end of the file only, so it is read twice.
    Source: torch/autograd/profiler.py.
    """

    def __init__(self, reading: EventReading) -> None:
        super().__init__(reading)
        self._outer: I64 | None = None

    def range(self, build: Build) -> Collection[str]:
        """Separate operators from what they span on a device."""
        if (build.event.get("pid") or "").lower().startswith("cpu"):
            build.consts["kind"] = Kind.OPERATOR
            return ()
        build.consts["kind"] = Kind.KERNEL
        build.flags |= DEVICE
        if "tid" in build.runs:
            build.runs["device"] = build.runs.pop("tid")
        if "tid" in build.consts:
            build.consts["device"] = build.consts.pop("tid")
        return ()

    def looks_at_names(self) -> bool:
        """Return false: the process says what a range is."""
        return False

    def rows(self, rows: EventRows) -> None:
        """Set the kind of ranges around others, and the device of the ends of arrows."""
        on_device, count = rows.has(DEVICE), rows.count
        if on_device.any():
            if self._outer is None:
                self._outer = _outer(self.reading)
            around = on_device & np.isin(rows.ints("event_id")[0], self._outer)
            kinds = rows.columns["kind"].cast(pa.string())
            other = arrow.array([Kind.OTHER.value] * count, pa.string())
            rows.columns["kind"] = arrow.encoded(events.where(around, other, kinds))
        pid, known = rows.ints("pid")
        texts = self.reading.run.ids
        places = [
            number
            for number in sets.unique(pid[known & rows.has(MOVABLE)]).tolist()
            if texts.get(("pid", self.reading.options.source, number), "").lower() == _ON_DEVICE.lower()
        ]
        if places:
            moved = rows.has(MOVABLE) & known & np.isin(pid, places)
            tid = events.filled(rows.columns.get("tid"), count, pa.int64())
            device = events.filled(rows.columns.get("device"), count, pa.int32())
            rows.columns["device"] = events.where(moved, tid.cast(pa.int32(), safe=False), device)
            rows.columns["tid"] = events.where(moved, arrow.nulls(count, pa.int64()), tid)


def _outer(reading: EventReading) -> I64:
    """Return the numbers of the events on a device that have others within them."""
    again = events.begin(reading.source, reading.options, Ledger(), "", "")
    planner = Planner(FilePrescan(again, Dialect("", "", special=_Spans)), again.ledger)
    parts: list[I64] = []
    with reading.source.searched():
        for rows in events.planned(again, planner):
            at = np.flatnonzero(rows.has(DEVICE) & rows.ints("dur_ns")[1])
            columns = ("event_id", "device", "ts_ns", "dur_ns")
            parts.append(np.column_stack([rows.ints(name)[0][at] for name in columns]))
    number, device, start, duration = np.concatenate(parts or [np.empty((0, 4), np.int64)]).T
    order = np.lexsort((number, -duration, start, device))
    device, start, end = device[order], start[order], (start + duration)[order]
    within = (device[1:] == device[:-1]) & (start[1:] < end[:-1]) & (end[1:] <= end[:-1] + _ROUNDING_NS)
    outer: I64 = number[order][:-1][within]
    return outer


class _Spans(Autograd):
    """The same ranges, without their nesting."""

    def rows(self, rows: EventRows) -> None:
        """Leave the rows as they are."""


# Device work of producers that write it in their own way: ONNX Runtime, rocprof, TensorFlow and others.


_NS = re.compile(r"[0-9]{1,18}", re.ASCII)
_DEVICE = re.compile(r"[0-9]{1,6}", re.ASCII)
_SMALL = re.compile(r"[0-9]{1,9}", re.ASCII)
_GPU_LANE = re.compile(
    r"(?:/job:[^ ]{1,200})?/(?:device:GPU|gpu):([0-9]{1,4})/(?:stream:)?([0-9]{1,9}|all|memcpy)"
    r"(?:<[^ ]{0,200}>)? Compute",
    re.ASCII,
)


class OnnxRuntime(Special):
    """Kernels have pid and tid -1, and texts for stream and sizes; no device is stated (cuda_profiler.cc, 1.9 on)."""

    def __init__(self, reading: EventReading) -> None:
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

    def __init__(self, reading: EventReading) -> None:
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

    def rows(self, rows: EventRows) -> None:
        """Empty pid and tid of commands of the process COPY: they are rows of rocprof's page."""
        copies = rows.has(DEVICE) & ~rows.ints("stream")[1]
        for name in ("pid", "tid") if copies.any() else ():
            old = events.filled(rows.columns.get(name), rows.count, pa.int64())
            rows.columns[name] = events.where(copies, arrow.nulls(rows.count, pa.int64()), old)

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
        lanes = {}
        for pid, text in self.reading.names.processes.items():
            if match := _GPU_LANE.fullmatch(text):
                lanes[pid] = int(match[1]), match[2]
        return lanes

    def rows(self, rows: EventRows) -> None:
        """Set kind, device and stream of work of a GPU."""
        lanes = self._lanes()
        pid, known = rows.ints("pid")
        _, timed = rows.ints("dur_ns")
        of_gpu = known & timed & np.isin(pid, list(lanes))
        if not of_gpu.any():
            return
        whole = {device for device, lane in lanes.values() if lane.isdecimal()}
        columns, count = rows.columns, rows.count
        copies = rows.flag(lambda build: build.is_copy)
        kinds = columns["kind"].cast(pa.string())
        for number, (device, lane) in lanes.items():
            of_number = of_gpu & (pid == number)
            again = not lane.isdecimal() and device in whole
            work = Kind.OTHER if again else Kind.KERNEL
            kinds = events.where(of_number, arrow.array([work.value] * count, pa.string()), kinds)
            if not again:
                kinds = events.where(of_number & copies, arrow.array([Kind.MEMCPY.value] * count, pa.string()), kinds)
        columns["kind"] = arrow.encoded(kinds)
        values, place = np.unique(pid, return_inverse=True)
        lane_of_value = [lanes.get(v, (0, "")) for v in values.tolist()]
        stream = np.array([int(lane) if lane.isdecimal() else -1 for _, lane in lane_of_value], np.int64)[place]
        columns["device"] = arrow.array(np.array([d for d, _ in lane_of_value], np.int32)[place], mask=~of_gpu)
        columns["stream"] = arrow.array(stream, mask=~(of_gpu & (stream >= 0)))
        for name in ("pid", "tid"):
            old = events.filled(columns.get(name), count, pa.int64())
            columns[name] = events.where(of_gpu & (stream >= 0), arrow.nulls(count, pa.int64()), old)


_GPU_STREAM = re.compile(r"GPU Stream ([0-9]{1,9})", re.ASCII)


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


class Proton(Special):
    """Triton's Proton: kernels on streams, and scopes; or ranges within kernels, whose times are cycles of a GPU.

    A kernel has no pid or the one of the whole trace, and its thread is its stream, by number or (since 2025) by name.
    Ranges within a kernel are written as if a cycle took 1 ns (triton-lang/triton#6863, TraceWriter.cpp). No clock is
    stated, so they stay as they are, of kind other, with a note.
    """

    def __init__(self, reading: EventReading) -> None:
        super().__init__(reading)
        self._demangler = Demangler(reading.ledger, enabled=reading.options.demangle)

    def range(self, build: Build) -> Collection[str]:
        """Recognise ranges in cycles, and kernels."""
        event = build.event
        if "Finalization Time (ns)" in event.args or event.arg("Unit") == "GPU cycle":
            build.consts["kind"] = Kind.OTHER
            build.is_in_cycles = True
        elif event.get("cat") == "kernel":
            build.flags |= DEVICE
            build.consts["name"], build.consts["raw_name"] = self._demangler.one(event.get("name") or "")
            if "tid" in build.runs:
                build.runs["stream"] = build.runs.pop("tid")
            if "tid" in build.consts:
                build.consts["stream"] = build.consts.pop("tid")
        return ()

    def rows(self, rows: EventRows) -> None:
        """Set the stream of kernels and of the ends of arrows at them, and note ranges in cycles."""
        cycles = int(np.count_nonzero(rows.flag(lambda build: build.is_in_cycles)))
        if cycles:
            self.reading.ledger.note(
                "cycles-not-ns",
                "times within kernels are GPU cycles, written as if a cycle took 1 ns: read them as cycles, not as ns",
                cycles,
            )
        lanes = self._lanes()
        if not lanes:
            return
        columns, count = rows.columns, rows.count
        pid = rows.ints("pid")[0]
        stream, has_stream = rows.ints("stream")
        tid, on_thread = rows.ints("tid")
        lane = np.where(has_stream, stream, tid)
        of_kernel = rows.has(DEVICE) & has_stream
        at_kernel = rows.has(MOVABLE) & on_thread
        pairs, place = np.unique(np.column_stack((pid, lane)), axis=0, return_inverse=True)
        numbers = np.array([lanes.get((p, t), -1) for p, t in pairs.tolist()], np.int64)[place.reshape(-1)]
        moved = (of_kernel | at_kernel) & (numbers >= 0)
        if moved.any():
            streams = np.where(moved, numbers, stream)
            columns["stream"] = arrow.array(streams, mask=~(moved | has_stream))
            old = events.filled(columns.get("tid"), count, pa.int64())
            columns["tid"] = events.where(moved, arrow.nulls(count, pa.int64()), old)

    def _lanes(self) -> dict[tuple[int, int], int]:
        """Return the streams by pid and tid, as the names of threads have them."""
        lanes = {}
        for lane, text in self.reading.names.threads.items():
            if (match := _GPU_STREAM.fullmatch(text)) is not None:
                lanes[lane] = int(match[1])
        return lanes

    def names(self) -> None:
        """Remove the names of threads that are streams."""
        for pid, tid in self._lanes():
            self.reading.run.threads.pop((self.reading.options.source, pid, tid), None)

    def close(self) -> None:
        """End the demangler's child."""
        self._demangler.close()


def _remove(build: Build, column: str) -> None:
    build.runs.pop(column, None)
    build.consts.pop(column, None)


_GPU = rb"\bGPU[0-9]"
ANY = Dialect("", "")
TENSORFLOW = Dialect(
    "tensorflow", "TensorFlow timeline", {"Op": Kind.OPERATOR}, lanes=rb"[gG][pP][uU]:[0-9]", special=TensorFlow
)
JAX = Dialect(
    "jax",
    "JAX profiler (XLA trace viewer)",
    python_names=True,
    default=Kind.OTHER,
    device=re.compile(r"/device:(?:GPU|TPU):([0-9]{1,6})\b.*", re.ASCII),
    lanes=rb'"/device:',
)
VIZTRACER = Dialect("viztracer", "VizTracer", {"FEE": Kind.PYTHON_OP})
PY_SPY = Dialect("py-spy", "py-spy", {"py-spy": Kind.PYTHON_OP})
FLUID = Dialect(
    "fluid-timeline",
    "Paddle tools/timeline.py",
    {"Op": Kind.OPERATOR},
    device=re.compile(r".*:[gx]pu:([0-9]{1,6})", re.ASCII),
    lanes=rb":[gx]pu:[0-9]",
)
ONNXRUNTIME = Dialect(
    "onnxruntime",
    "ONNX Runtime profiler",
    {"Node": Kind.OPERATOR, "Kernel": Kind.KERNEL, "Api": Kind.RUNTIME},
    special=OnnxRuntime,
)
AUTOGRAD = Dialect("autograd", "PyTorch autograd profiler", special=Autograd)
ASCEND = Dialect(
    "ascend",
    "Ascend profiler (msprof, torch_npu)",
    {"cpu_op": Kind.OPERATOR, "user_annotation": Kind.USER_RANGE, "python_function": Kind.PYTHON_OP},
    default=Kind.OTHER,
    lanes=ASCEND_NAMES,
    special=Ascend,
)
ROCPROF = Dialect(
    "rocprof", "rocprof", device=re.compile(r"(?:[0-9]+ )?GPU([0-9]{1,6})", re.ASCII), lanes=_GPU, special=Rocprof
)
RPD = Dialect(
    "rpd", "rocmProfileData (rpd2tracing)", device=re.compile(r"GPU([0-9]{1,6})", re.ASCII), lanes=_GPU, special=Rocprof
)
HOROVOD = Dialect("horovod", "Horovod timeline", special=Horovod)
UNITRACE = Dialect("unitrace", "Intel unitrace", {"gpu_op": Kind.KERNEL, "cpu_op": Kind.RUNTIME}, special=Unitrace)
PROTON = Dialect("proton", "Proton (Triton)", {"kernel": Kind.KERNEL}, special=Proton)
TRACEKIT = Dialect("tracekit", "tracekit", {str(k): Kind(k) for k in KINDS})

_HEADS = (
    (VIZTRACER, re.compile(rb'"viztracer_metadata"|"cat"\s*:\s*"FEE"')),
    (PY_SPY, re.compile(rb'"cat"\s*:\s*"py-spy"')),
    (JAX, re.compile(rb'"highres-ticks"|"name"\s*:\s*"/(?:host|device):[A-Z]+(?::[0-9]+)?"')),
    (
        TENSORFLOW,
        re.compile(rb'"name"\s*:\s*"(?:/job:[^"]*(?:device|[cg]pu):[^"]*|/gpu:[0-9]+/[^"]* Compute|Allocators)"'),
    ),
    (
        ASCEND,
        re.compile(rb'"Ascend Hardware"|"Task Type"\s*:\s*"[A-Z_]+"|"cat"\s*:\s*"async_npu"|"name"\s*:\s*"AscendCL@'),
    ),
    (AUTOGRAD, re.compile(rb'"pid"\s*:\s*"(?:CPU|CUDA) [fF]unctions"')),
    (ONNXRUNTIME, re.compile(rb'"cat"\s*:\s*"Session"[^{}]{0,200}"name"\s*:\s*"(?:model_loading|session_init)')),
    (HOROVOD, re.compile(rb'"name"\s*:\s*"NEGOTIATE_(?:ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER)"')),
    (ROCPROF, re.compile(rb'"BeginNs"\s*:\s*"[0-9]')),
    (RPD, re.compile(rb'"desc"\s*:\s*"(?:KernelExecution|FillBuffer|Copy(?:Host|Device)To(?:Host|Device)[^"]*)"')),
    (UNITRACE, re.compile(rb'"name"\s*:\s*"(?:ze[A-Z]|cl[A-Z])[^"]{1,200}"\s*,\s*"cat"\s*:\s*"(?:cpu|gpu)_op"')),
    (PROTON, re.compile(rb'"call_stack"\s*:\s*\[\s*"ROOT"|"Finalization Time \(ns\)"\s*:|"Unit"\s*:\s*"GPU cycle"')),
    (FLUID, re.compile(rb'"name"\s*:\s*"[^"]{0,200}:(?:cuda_api|cpu:block:[0-9]+|[gx]pu:[0-9]+)"|"memory usage on ')),
)


def dialect_of(head: bytes) -> Dialect:
    """Return the producer that the head of a file shows; ANY for others."""
    return next((dialect for dialect, pattern in _HEADS if pattern.search(head)), ANY)

"""Tasks of Ascend's NPUs, as msprof and torch_npu write them."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from tracekit.columns import arrow
from tracekit.readers.builder import FIRST_TEXT_ID
from tracekit.readers.trace_event.events import Reading
from tracekit.readers.trace_event.look import Special
from tracekit.readers.trace_event.plan import DEVICE, HOST, MOVABLE, Build
from tracekit.readers.trace_event.rows import Rows
from tracekit.schema import Kind

_FIRST_FORMATTED = 1 << 10
_DEVICE = re.compile(r"\b(?:NPU|[Dd]evice)\W{0,3}([0-9]{1,5})\b", re.ASCII)
_STREAM = re.compile(r"\b[Ss]tream\W{0,3}([0-9]{1,9})\b", re.ASCII)
_STEP = re.compile(r"ProfilerStep#([0-9]{1,9})", re.ASCII)


class Ascend(Special):
    """msprof's and torch_npu's timelines: tasks have a "Task Type", calls of CANN a "level".

    A pid is (pid << 10) | (layer << 5) | device (msprof, JsonAssembler::GetFormatPid); here tasks and calls have the
    pid of the host process. Smaller pids are those of Python, which stay, or numbers of rows of the page: then tasks
    have no pid, and labels and names say device and stream. Overlap Analysis and the planes of HCCL repeat what the
    tasks are: other, but for collectives by name.
    """

    def __init__(self, reading: Reading) -> None:
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
            consts["kind"] = _task(task, name)
            build.integer("stream", event.args.get("Stream Id"))
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
        formatted = known & ((pid < 0) | ((pid >= _FIRST_FORMATTED) & (pid < FIRST_TEXT_ID)))
        self._see_names()
        self._calls.update(np.unique(pid[rows.has(HOST) & formatted]).tolist())
        for number in np.unique(pid[rows.has(DEVICE) & known]).tolist():
            self._hardware.setdefault(number, self._device(number))
        at_call = formatted & (rows.has(HOST) | (rows.has(MOVABLE) & np.isin(pid, list(self._calls))))
        own = known & (rows.has(DEVICE) | (rows.has(MOVABLE) & np.isin(pid, list(self._hardware))))
        if not (own | at_call).any():
            return
        columns = rows.columns
        pids, place = np.unique(pid, return_inverse=True)
        device = np.array([-1 if (of := self._hardware.get(p)) is None else of for p in pids.tolist()], np.int32)[place]
        columns["device"] = arrow.array(device, mask=~own | (device < 0))
        tid, on_thread = rows.ints("tid")
        stated, has_stream = rows.ints("stream")
        lanes, place = np.unique(np.column_stack((pid, tid)), axis=0, return_inverse=True)
        named = [_number(_STREAM, self.reading.names.threads.get((p, t), "")) for p, t in lanes.tolist()]
        of_name = np.array([-1 if number is None else number for number in named], np.int64)[place.reshape(-1)]
        stream = np.where(of_name >= 0, of_name, np.where(has_stream, stated, tid))
        columns["stream"] = arrow.array(stream, mask=~own | ~((of_name >= 0) | has_stream | on_thread))
        columns["tid"] = arrow.array(tid, mask=own | ~on_thread)
        host = (pid & 0xFFFFFFFF) >> 10
        columns["pid"] = arrow.array(np.where(own | at_call, host, pid), mask=~known | (own & ~formatted))

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
            if (number := _number(_DEVICE, text)) is not None:
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


_TASKS = (
    (re.compile(r"MEMCPY|SDMA|PCIE_DMA"), Kind.MEMCPY),
    (re.compile(r"MEMSET"), Kind.MEMSET),
    (re.compile(r"EVENT|NOTIFY|WAIT"), Kind.SYNC),
    (
        re.compile(
            r"PROFILER_TRACE|PCTRACE|MODEL_|LABEL_|STREAM_|MAINTENANCE|CREATE_|DATA_DUMP|PLACE_HOLDER|WRITE_VALUE"
            r"|FUSION_ISSUE|FLIP|RESERVED|INVALID|UNKNOWN|N/A$"
        ),
        Kind.OTHER,
    ),
)
"""Types of tasks of the STARS and HWTS schedulers that are no work of an engine, in order of precedence.

All others are: AI cores, vector cores, AI CPUs, DSA, the engines for images, RDMA, and later types.
"""


def _task(task: str, name: str) -> Kind:
    """Return the kind of a task. Where the type is only that of a carrier, the name decides."""
    return next(
        (kind for word, kind in _TASKS if word.search(task.upper()) or (kind is not Kind.OTHER and word.match(name))),
        Kind.KERNEL,
    )


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[1]) if found else None


def _is_formatted(pid: int) -> bool:
    """Return whether a pid holds a process, a layer and a device. Ids that are text have larger numbers."""
    return pid < 0 or _FIRST_FORMATTED <= pid < FIRST_TEXT_ID

"""PyTorch's profiler (Kineto): Chrome trace JSON of torch 1.8 to today, for CUDA, ROCm, MTIA, XPU and CPU.

    { "schemaVersion": 1, "distributedInfo": {"rank": 0}, "deviceProperties": [{"id": 0, "name": "Tesla V100"}],
      "traceEvents": [ { "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 4458676984451.267,
        "dur": 4.960, "args": {"device": 0, "stream": 7, "correlation": 57609, "grid": [8, 1, 1]} }, ...],
      "baseTimeNanoseconds": 1711964646000000000 }

A record is an element of traceEvents. Unix time in ns is ts x 1000 + baseTimeNanoseconds (absent: ts is Unix time in
µs already, unless it is small, as where a script filtered the events: no stated clock), computed in integers. Kept: X
and i events, and the arrows s, t, f. Facts: M events. Ignored: empty objects.

| cat | kind |
|---|---|
| cpu_op, Operator | operator |
| user_annotation | user_range; "ProfilerStep#n": step n; "nccl:..." and the like: communication (Operator too) |
| these and cpu_op | "enumerate(DataLoader)#...": dataloader; "Optimizer.step#...": optimizer |
| python_function | python_op |
| cuda_runtime, cuda_driver, mtia_runtime, ... | runtime, driver |
| kernel; gpu_memcpy; gpu_memset; cuda_sync | kernel; memcpy; memset; sync |
| mtia_ccp_events | kernel, or memcpy where it is a dma_request |
| gpu_user_annotation, Trace, cuda_profiler_range, others | other |

A gpu_user_annotation repeats a host range: it is no GPU work. A cat that its kind does not imply stays in args. Device
rows have pid = device and tid = stream in the file (torch 1.8: the text "stream 7"); here they have these in `device`
and `stream`, and the pid of the host process, since one file is of one process; ends of arrows there are in the context
of the work on their stream.
"[memory]" instants are rows of kind memory (bytes signed, device when it is a GPU) and bring two counters, Total
Allocated and Total Reserved. "shared memory" of kernels is static and dynamic together: it stays in args.
`tracekit.inputs.steps` sets the step of the rows inside one.

Rank, world size, process groups and device properties are facts of the run. Device events at time 0 with duration 0
have no true time (kineto issue 109): dropped. Facts were read off the files named in tests/readers/test_kineto.py and
in libkineto's output_json.cpp and ActivityType.cpp.

Several of these files joined into one: `readers/kineto/_hosts.py`. Not supported: memory snapshots (pickle).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracekit.model import arrow, sets
from tracekit.model.args import items_of
from tracekit.model.arrow import I64, Column, Mask
from tracekit.model.schema import API_CALLS, Kind
from tracekit.model.trace import Ledger, Run
from tracekit.readers import rocm
from tracekit.readers.base import ReadOptions, ReadResult
from tracekit.readers.builder import FIRST_TEXT_ID, Values, event_batch
from tracekit.readers.names import Demangler
from tracekit.readers.source import Source
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.columns import Planner
from tracekit.readers.trace_event.events import EventReading
from tracekit.readers.trace_event.plan import CALL, DEVICE, HOST, MEMORY, MOVABLE, Build, EventRows, Member

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["has_events", "has_header", "read"]

_VERSION_NUMBER = rb'"schemaVersion"\s*:\s*[0-9]+\s*[,}]'
_FACTS = rb'"(?:deviceProperties|computeProperties|distributedInfo|baseTimeNanoseconds)"\s*:'
_CATS = (
    rb'"cat"\s*:\s*"(?:cpu_op|cuda_runtime|cuda_driver|ac2g|fwdbwd|gpu_user_annotation|gpu_memcpy|user_annotation|'
    rb'mtia_runtime|python_function|cpu_instant_event|Operator|Runtime|Kernel|kernel)"'
)
_ARGS = rb'"(?:External id|external id|Ev Idx|Python id|Record function id|correlation)"\s*:'
_CATS_OF_NOBODY_ELSE = (
    rb'"cat"\s*:\s*"(?:cuda_runtime|cuda_driver|cuda_sync|gpu_memcpy|gpu_memset|gpu_user_annotation|ac2g)"'
)
"""Categories that remain where a script has filtered the events of a file."""
_OF_ASCEND = rb'"Ascend Hardware"|"Task Type"\s*:\s*"'
"""Words of torch_npu, whose operators and Python frames look like torch's."""


def has_header(data: bytes) -> bool:
    """Return whether the outermost object has the version and the facts that libkineto writes."""
    return bool(re.search(_VERSION_NUMBER, data) and re.search(_FACTS, data))


def has_events(data: bytes) -> bool:
    """Return whether there are events with torch's categories and arguments, and none of an Ascend device."""
    if re.search(_OF_ASCEND, data):
        return False
    return bool(re.search(_CATS_OF_NOBODY_ELSE, data) or (re.search(_CATS, data) and re.search(_ARGS, data)))


# The processes that device rows belong to: one in a file of Kineto, several where a tool joined the files of ranks.
#
# Device rows have pid = device, and only the file says which process launched them. Tools that join files (SGLang's
# ProfileMerger) put a label before each pid, "[TP00] 4711" and "[TP00] 0": then the label says it. Others keep the pids
# as they are: then the process is not known, and the rows have no pid. A label names the rank too
# (`events.RankLabels`).
#
# The process that launches is the one that calls the runtime or driver. Others may have ranges and frames in the file
# too, and do not make it one of several. Without any such call all processes with rows of the host count.


class KinetoHosts:
    """The host processes of one file, by their label. first: the one that the file's rank is of."""

    def __init__(self, run: Run, source: int, ledger: Ledger) -> None:
        self._run, self._source, self._ledger = run, source, ledger
        self._by_label: dict[str, set[int]] = {}
        self._noted = False
        self.calls = False
        """Whether a call has been seen."""
        self.devices: dict[int, int] = {}
        """Device by labelled pid."""
        self.first: int | None = None
        self.several = False
        self.ranks = events.RankLabels(run, source)

    def _label(self, pid: int) -> str:
        return self.ranks.label(pid)

    def see(self, callers: I64, pids: I64) -> None:
        """Take the pids of calls of the runtime or driver, and those of all rows of the host."""
        if len(callers) and not self.calls:
            self.calls, self.first, self.several = True, None, False
            self._by_label.clear()
        if self.calls:
            pids = callers
        if self.first is not None and bool((pids == self.first).all()):
            return  # as almost always
        for pid in sets.unique(pids).tolist():
            self._by_label.setdefault(self._label(pid), set()).add(pid)
        if self.first is None and len(pids):
            self.first = int(pids[0])
        self.several = sum(map(len, self._by_label.values())) > 1

    def note(self) -> None:
        """Put a note into the ledger where device rows are of several processes."""
        if self.several and not self._noted:
            self._noted = True
            self._ledger.note(
                "joined-files",
                "host ranges are of several processes: files joined into one. The rank is "
                + ("in the label before each pid" if self.ranks.names() else "that of the first process")
                + ", and device work has no process where no label before its pid has it",
            )

    def see_devices(self, pids: I64, devices: I64) -> None:
        """Take the pids of device rows, and the devices that they state."""
        if not len(pids) or int(pids.max()) < FIRST_TEXT_ID:
            return
        pairs, at = np.unique(np.column_stack((pids, devices)), axis=0, return_index=True)
        for pid, device in pairs[np.argsort(at)].tolist():
            if self._label(pid):
                self.devices.setdefault(pid, device)

    def of(self, pids: I64) -> tuple[I64, Mask]:
        """Return the host of device rows by their pids in the file, and which are known."""
        if not self.several:
            return np.full(len(pids), self.first or 0), np.full(len(pids), self.first is not None)
        known_pids, place = np.unique(pids, return_inverse=True)
        host_of_pid = []
        for pid in known_pids.tolist():
            own = self._by_label.get(self._label(pid), set())
            host_of_pid.append(next(iter(own)) if len(own) == 1 else -1)
        hosts = np.array(host_of_pid, np.int64)[place]
        return hosts, hosts >= 0

    def move_arrows(self, rows: EventRows) -> None:
        """Move arrows that end on a labelled device to the lane of its rows."""
        pid, known = rows.ints("pid")
        moved = rows.has(MOVABLE) & known & np.isin(pid, list(self.devices))
        if not moved.any():
            return
        columns, count = rows.columns, rows.count
        device = arrow.array([self.devices.get(p) for p in pid[moved].tolist()], pa.int32())
        old = {n: events.filled(columns.get(n), count, pa.int64()) for n in ("pid", "tid", "stream")}
        at = arrow.array(np.cumsum(moved) - 1, mask=~moved)
        columns["device"] = events.where(
            moved, device.take(at), events.filled(columns.get("device"), count, pa.int32())
        )
        columns["stream"] = events.where(moved, old["tid"], old["stream"])
        columns["tid"] = events.where(moved, arrow.nulls(count, pa.int64()), old["tid"])
        host, is_known = self.of(pid)
        columns["pid"] = events.where(moved, arrow.array(host, mask=~is_known), old["pid"])


# Kineto's categories (libkineto, ActivityType.cpp), and what they are here.


KINDS: dict[str, Kind] = {
    "cpu_op": Kind.OPERATOR,
    "user_annotation": Kind.USER_RANGE,
    "python_function": Kind.PYTHON_OP,
    "cuda_runtime": Kind.RUNTIME,
    "cuda_driver": Kind.DRIVER,
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "cuda_sync": Kind.SYNC,
    "overhead": Kind.OVERHEAD,
    # Other names of the same kinds; the cat stays in args.
    "Operator": Kind.OPERATOR,
    "Runtime": Kind.RUNTIME,
    "Kernel": Kind.KERNEL,
    "Memcpy": Kind.MEMCPY,
    "Memset": Kind.MEMSET,
    "mtia_runtime": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME,
    "xpu_driver": Kind.DRIVER,
    "glow_runtime": Kind.RUNTIME,
    "privateuse1_runtime": Kind.RUNTIME,
    "privateuse1_driver": Kind.DRIVER,
    "mtia_ccp_events": Kind.KERNEL,
    "concurrent_kernel": Kind.KERNEL,
    "hpu_op": Kind.KERNEL,
    "collective_comm": Kind.COMMUNICATION,
}
OWN_CAT = {
    Kind.OPERATOR: "cpu_op",
    Kind.USER_RANGE: "user_annotation",
    Kind.STEP: "user_annotation",
    Kind.PYTHON_OP: "python_function",
    Kind.RUNTIME: "cuda_runtime",
    Kind.DRIVER: "cuda_driver",
    Kind.KERNEL: "kernel",
    Kind.MEMCPY: "gpu_memcpy",
    Kind.MEMSET: "gpu_memset",
    Kind.SYNC: "cuda_sync",
    Kind.OVERHEAD: "overhead",
}
"""The cat that a kind implies: another cat stays in args."""
_DEVICE_WORK = frozenset({Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC})
_BESIDE_WORK = frozenset({"gpu_user_annotation", "cuda_profiler_range", "mtia_insight", "gpu_pm_counter"})
ON_DEVICE = frozenset(cat for cat, kind in KINDS.items() if kind in _DEVICE_WORK) | _BESIDE_WORK
HOST_CATEGORIES = frozenset(
    {"cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "Operator", "Runtime"}
)

# The plan for an event of Kineto: its kind, and which of its members have columns.


_STEP = re.compile(r"ProfilerStep#([0-9]{1,9})", re.ASCII)
_PHASES = (("enumerate(DataLoader)#", Kind.DATALOADER), ("Optimizer.step#", Kind.OPTIMIZER))
"""Ranges that torch itself puts around loading and optimizing (torch/utils/data/dataloader.py, torch/optim)."""
_PHASE_BEGINS = tuple(start for start, _ in _PHASES)
_COMMUNICATION = re.compile(r"(?:nccl|rccl|gloo|mpi|ucc|hccl|xccl|oneccl):")
_COPY = re.compile(r"Memcpy (\w+)")
_DMA = {"DEVICE_TO_HOST": "DtoH", "HOST_TO_DEVICE": "HtoD", "DEVICE_TO_DEVICE": "DtoD"}
_SHAPES = (("grid", ("grid_x", "grid_y", "grid_z")), ("block", ("block_x", "block_y", "block_z")))


class KinetoPrescan:
    """Puts into a Build what an event is."""

    def __init__(self, reading: EventReading) -> None:
        self._reading = reading
        self._demangler = Demangler(reading.ledger, enabled=reading.options.demangle)

    def close(self) -> None:
        """End the demangler's child."""
        self._demangler.close()

    def __call__(self, build: Build) -> None:
        """Put into `build` what its event is."""
        if events.metadata(self._reading, build):
            return
        phase = build.event.get("ph")
        if phase == "X":
            self._slice(build)
        elif phase in events.FLOW_PHASES:
            events.named(build)
            build.named = events.as_it_is
            events.lane(self._reading, build)
            events.flow(self._reading, build)
            build.flags |= MOVABLE
        elif phase in ("i", "I", "C"):
            self._instant(build)
        else:
            build.drop("unknown-phase", "dropped: events of a phase that Kineto does not write")

    def _slice(self, build: Build) -> None:
        event = build.event
        cat, name = event.get("cat") or "", event.get("name") or ""
        kind = KINDS.get(cat, Kind.OTHER)
        taken: set[str] = set()
        says_more = _saying_more(cat, kind)
        if not says_more(name):
            build.named = lambda other: None if says_more(other) else self._demangler.one(other)
        if cat in ("user_annotation", "Operator"):  # torch before 1.9 gives all of these the cat of operators
            if step := _STEP.fullmatch(name):
                kind = Kind.STEP
                build.consts["step"] = int(step[1])
            elif _COMMUNICATION.match(name):
                kind = Kind.COMMUNICATION
        if kind in (Kind.USER_RANGE, Kind.OPERATOR):
            kind = next((phase for start, phase in _PHASES if name.startswith(start)), kind)
        elif cat == "mtia_ccp_events" and "direction" in event.args:
            kind = Kind.MEMCPY
            if (direction := _DMA.get(event.arg("direction") or "")) is not None:
                build.consts["copy_kind"] = direction
                taken.add("direction")
            taken |= _taken(build, "bytes", "size")
        elif kind is Kind.KERNEL and (command := rocm.activity(name)) is not None:
            # roctracer's commands were all "kernel" in torch before 2.0
            kind, build.consts["copy_kind"] = command
        readable, raw = self._demangler.one(name)
        build.consts |= {"kind": kind, "name": readable if "name" in event.members else None, "raw_name": raw}
        events.times(build)
        if build.integer("correlation", event.args.get("correlation")):
            taken.add("correlation")
        if cat in ON_DEVICE:
            build.flags |= DEVICE
            build.integer("pid", event.members.get("pid"), self._reading.pids.number)
            taken |= self._device_side(build, kind, name)
        else:
            events.lane(self._reading, build)
            build.flags |= HOST * (cat in HOST_CATEGORIES) | CALL * (kind in API_CALLS)
        if cat and OWN_CAT.get(kind) != cat:
            build.keep(event.members["cat"])
        build.keep_rest(taken, events.TOP)

    def _device_side(self, build: Build, kind: Kind, name: str) -> set[str]:
        """Take what device rows have; return the keys of args that found a column."""
        event, taken = build.event, set[str]()
        for column, key in (("device", "device"), ("stream", "stream"), ("context", "context"), ("bytes", "bytes")):
            taken |= _taken(build, column, key)
        # -1 is "none" in this format (synchronization of a whole device).
        if "device" not in taken and not _negative(event.members.get("pid")):
            build.integer("device", event.members.get("pid"))
        if "stream" not in taken and "stream" not in event.args and not _negative(event.members.get("tid")):
            build.integer("stream", event.members.get("tid"), self._reading.streams.number)
        for key, columns in _SHAPES:
            sizes = event.items(event.args[key]) if key in event.args else []
            if len(sizes) == 3 and all(s.raw.isdigit() for s in sizes):
                for column, size in zip(columns, sizes, strict=True):
                    build.integer(column, size)
                taken.add(key)
        taken |= _taken(build, "registers", "registers per thread")
        if kind is Kind.MEMCPY and "copy_kind" not in build.consts:
            match = _COPY.match(name)
            command = rocm.activity(name)
            direction = command[1] if command else event.arg("kind")
            build.consts["copy_kind"] = match[1] if match else direction
        return taken

    def _instant(self, build: Build) -> None:
        event = build.event
        name, cat = event.get("name"), event.get("cat") or ""
        events.named(build)
        build.time("ts_ns", event.members.get("ts"))
        events.lane(self._reading, build)
        if name == "[memory]" and build.integer("bytes", event.args.get("Bytes")):
            build.consts["kind"] = Kind.MEMORY
            build.flags |= MEMORY
            if build.integer("scratch_0", event.args.get("Device Type")):
                build.integer("device", event.args.get("Device Id"))
            for column, key in (("scratch_1", "Total Allocated"), ("scratch_2", "Total Reserved")):
                build.integer(column, event.args.get(key))
            build.keep_rest({"Bytes": None}, events.TOP | {"s"})
            return
        build.consts["kind"] = Kind.MARK
        build.named = lambda other: None if other == "[memory]" else (other, None)
        if event.get("ph") == "C":
            build.consts["kind"] = Kind.COUNTER
            numbers = [k for k, m in event.args.items() if build.number("value", m)]
            build.keep_rest({numbers[-1]: None} if len(numbers) == len(event.args) == 1 else {}, events.TOP)
            return
        if cat:
            build.keep(event.members["cat"])
        build.keep_rest({}, events.TOP)


def _saying_more(cat: str, kind: Kind) -> Callable[[str], bool]:
    """Return whether a slice would be something else, or have other columns, if it had some other name.

    kind: the kind of its cat.
    """
    if kind is Kind.MEMCPY or cat == "mtia_ccp_events":
        return lambda _: True
    if cat in ("user_annotation", "Operator"):
        return lambda name: bool(_STEP.fullmatch(name) or _COMMUNICATION.match(name) or name.startswith(_PHASE_BEGINS))
    if kind in (Kind.USER_RANGE, Kind.OPERATOR):
        return lambda name: name.startswith(_PHASE_BEGINS)
    if kind is Kind.KERNEL:
        return lambda name: rocm.activity(name) is not None
    return lambda _: False


def _taken(build: Build, column: str, key: str) -> set[str]:
    member = build.event.args.get(key)
    if member is None or member.raw[:1] in (b"[", b"{", b'"'):
        return set()
    return {key} if build.integer(column, member) else set()


def _negative(member: Member | None) -> bool:
    return member is None or member.raw[:1] == b"-"


# Events of a Kineto trace, batch by batch.


_LOG_PREFIX = re.compile(r"^(?:WARNING|ERROR):[^\]]{0,200}\] ")
"""Level, time, process and line of source that libkineto puts before its messages."""
_NAMED_BY_HOST = re.compile(r"(?:^|[/\\])(?P<host>[^/\\]+)_(?P<pid>\d{1,7})\.\d{10,20}\.pt\.trace\.json(?:\.gz)?$")
"""torch/profiler/profiler.py, tensorboard_trace_handler: host name, process id and time."""
TIMELESS_NS = 10**12
"""In a trace with times beyond this, a device event at time 0 has no time: clocks count from boot or from 1970."""


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events."""
    reading = events.begin(source, options, ledger, "PyTorch profiler (Kineto)", "kineto")
    # torch 1.8 writes the tid of device rows as "stream 7".
    reading.tids = events.LaneIds(reading.run, "tid", options.source, before="stream ")
    reading.run.origin_ns = _origin(reading, events.first_time(source))
    return ReadResult(reading.run, _Kineto(reading).batches(), False, (ledger,))


def _origin(reading: EventReading, first_us: int) -> int | None:
    base = reading.facts.get("baseTimeNanoseconds")
    if base is None and 0 < first_us < events.EPOCH_FROM_US:
        return None
    return base if isinstance(base, int) and abs(base) < 1 << 62 else 0


class _Kineto:
    """The state that spans the slabs of one file: the host's process, the devices, the rank."""

    def __init__(self, reading: EventReading) -> None:
        self.reading = reading
        info = reading.facts.get("distributedInfo")
        rank = info.get("rank") if isinstance(info, dict) else None
        self.rank = rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 1 << 31 else None
        self.hosts = KinetoHosts(reading.run, reading.options.source, reading.ledger)
        self.devices: set[int] = {number for p in self._properties() if isinstance(number := p.get("id"), int)}
        self.contexts: dict[tuple[int, int], int | None] = {}
        """(device, stream) -> the context of its work, None where it is of several."""

    def _properties(self) -> list[dict[str, object]]:
        properties = self.reading.facts.get("deviceProperties", self.reading.facts.get("computeProperties"))
        return [p for p in properties if isinstance(p, dict)] if isinstance(properties, list) else []

    def batches(self) -> Iterator[pa.RecordBatch]:
        reading, waiting = self.reading, list[EventRows]()
        look = KinetoPrescan(reading)
        args_of = reading.options.args_of if reading.options.wants("args") else frozenset[str]()
        planner = Planner(look, reading.ledger, args_of=args_of)
        for slab, rows in enumerate(events.planned(reading, planner)):
            self._watch(rows)
            waiting.append(rows)
            # Device rows take the pid of the process that launches, which is known at once in most files.
            if self.hosts.calls or slab > 16:
                for each in waiting:
                    yield from self._finished(each)
                waiting.clear()
        for each in waiting:
            yield from self._finished(each)
        self.hosts.note()
        look.close()
        self._name_everything()

    def _watch(self, rows: EventRows) -> None:
        """Learn which process the host is, and which numbers are devices."""
        pid, has_pid = rows.ints("pid")
        self.hosts.see(pid[rows.has(CALL) & has_pid], pid[rows.has(HOST) & has_pid])
        device, known = rows.ints("device")
        if known.any() and (own := rows.has(DEVICE)).any():
            self.hosts.see_devices(pid[known & own & has_pid], device[known & own & has_pid])
            self.devices.update(sets.unique(device[known & own]).tolist())
            (stream, on_stream), (context, in_context) = rows.ints("stream"), rows.ints("context")
            stream = np.where(on_stream & ~_no_number(stream), stream, -1)
            at = np.flatnonzero(known & own & in_context)
            for number, of, context_id in _distinct(device[at], stream[at], context[at])[0]:
                if self.contexts.setdefault((number, of), context_id) != context_id:
                    self.contexts[number, of] = None

    def _arrow_contexts(self, rows: EventRows) -> None:
        """Ends of arrows on a device are in the context of the work that they point at; the file does not repeat it."""
        arrows = rows.has(MOVABLE)
        if not self.reading.options.wants("context") or not arrows.any():
            return
        (device, known), (stream, on_stream) = rows.ints("device"), rows.ints("stream")
        at = np.flatnonzero(arrows & known)
        stream = np.where(on_stream & ~_no_number(stream), stream, -1)
        places, place = _distinct(device[at], stream[at])
        contexts = [self.contexts.get((number, of)) for number, of in places]
        if any(context is not None for context in contexts):
            context, stated = rows.ints("context")
            context[at] = np.array([c or 0 for c in contexts], np.int64)[place]
            stated[at] = np.array([c is not None for c in contexts])[place]
            rows.columns["context"] = arrow.array(context, mask=~stated)

    def _finished(self, rows: EventRows) -> Iterator[pa.RecordBatch]:
        reading = self.reading
        reading.ledger.kept += rows.count
        rows = self._with_true_times(rows)
        named = self.hosts.ranks.of(rows.ints("pid")[0])
        columns = rows.columns
        own = rows.has(DEVICE)
        host = self.hosts.first
        events.move_arrows(rows, None if self.hosts.several else host, self.devices)
        self.hosts.move_arrows(rows)
        self._arrow_contexts(rows)
        if own.any():
            pid = events.filled(columns.get("pid"), rows.count, pa.int64())
            of, known = self.hosts.of(rows.ints("pid")[0])
            columns["pid"] = events.where(own, arrow.array(of, mask=~known), pid)
        for column in ("device", "stream", "context"):
            if column in columns and (none := _no_number(rows.ints(column)[0])).any():
                columns[column] = events.where(none, arrow.nulls(rows.count, columns[column].type), columns[column])
        rank = self._rank_of(rows, named)
        counters = self._memory(rows, rank)
        for name in ("scratch_0", "scratch_1", "scratch_2"):
            columns.pop(name, None)
        yield reading.batch(rows, rank=rank)
        yield from counters

    def _rank_of(self, rows: EventRows, named: I64 | None) -> Column | int | None:
        """Return the ranks of rows: from labels, else the rank of the file for its first process."""
        if named is not None:
            return arrow.array(named.astype(np.int32), mask=named < 0)
        if self.hosts.several and self.rank is not None:
            of, known = rows.ints("pid")
            return arrow.array(np.full(rows.count, self.rank, np.int32), mask=~known | (of != self.hosts.first))
        return self.rank

    def _with_true_times(self, rows: EventRows) -> EventRows:
        ts, (dur, timed) = rows.columns["ts_ns"].to_numpy(), rows.ints("dur_ns")
        if not (ts == 0).any():
            return rows
        timeless = (ts == 0) & (dur == 0) & timed & rows.has(DEVICE)
        if not timeless.any() or not (ts.max() > TIMELESS_NS or self.reading.run.origin_ns):
            return rows
        count = int(timeless.sum())
        self.reading.ledger.kept -= count
        self.reading.ledger.drop(
            "no-time", count, text="dropped: device events at time 0, which the profiler has no time for"
        )
        return rows.take(~timeless)

    def _memory(self, rows: EventRows, rank: Column | int | None) -> Iterator[pa.RecordBatch]:
        """Make counters of the running totals; remove the device where the memory is the host's."""
        own = rows.has(MEMORY)
        if not own.any():
            return iter(())
        columns = rows.columns
        kind, _ = rows.ints("scratch_0")
        if "device" in columns:
            host = own & (kind == 0)  # c10::DeviceType::CPU
            columns["device"] = events.where(host, arrow.nulls(rows.count, pa.int32()), columns["device"])
        made = []
        for column, name in (("scratch_1", "Total Allocated"), ("scratch_2", "Total Reserved")):
            values, known = rows.ints(column)
            at = np.flatnonzero(own & known)
            if len(at):
                same = [k for k in ("ts_ns", "event_id", "pid", "tid", "device") if k in columns]
                counters: dict[str, Values] = {k: arrow.take(columns[k], at) for k in same}
                counters |= {"kind": Kind.COUNTER.value, "name": name, "value": values[at].astype(np.float64)}
                counters |= {"source": self.reading.options.source}
                counters |= {"rank": rank if rank is None or isinstance(rank, int) else arrow.take(rank, at)}
                made.append(event_batch(len(at), counters))
                self.reading.ledger.events_out += len(at)
        return iter(made)

    def _host_of_name(self, name: object) -> str:
        """Return the host in a name that torch's `tensorboard_trace_handler` gave, "" for any other name."""
        match = _NAMED_BY_HOST.search(name) if isinstance(name, str) else None
        return match["host"] if match and int(match["pid"]) == self.hosts.first and not self.hosts.several else ""

    def _name_everything(self) -> None:
        reading = self.reading
        run, names, source = reading.run, reading.names, reading.options.source
        for properties in self._properties():
            number, text = properties.get("id"), properties.get("name")
            if isinstance(number, int) and isinstance(text, str):
                run.devices[source, number] = text
        devices = {pid for pid, label in names.labels.items() if label != "CPU"}
        devices |= self.devices & (names.processes.keys() | names.labels.keys())
        devices -= {self.hosts.first}
        for pid, text in names.processes.items():
            if pid not in devices:
                run.processes[source, pid] = text
            elif (
                pid in self.devices
                and (source, pid) not in run.devices
                and names.processes.get(self.hosts.first or -1) != text
            ):
                run.devices[source, pid] = text
        for (pid, tid), text in names.threads.items():
            if pid not in devices:
                run.threads[source, pid, tid] = text
            elif tid >= 0 and text != f"stream {tid}":
                run.streams[source, self.hosts.devices.get(pid, pid), tid] = text
        for level in ("WARNING", "ERROR"):
            messages = [text for text in items_of(reading.facts.get(level)) if isinstance(text, str) and text.strip()]
            if messages:
                first = " ".join(_LOG_PREFIX.sub("", messages[0]).split())[:200]
                reading.ledger.note(
                    f"profiler-{level.lower()}", f"{level} of the profiler itself: {first}", len(messages)
                )
        facts = run.sources[0].facts
        for key, value in reading.facts.items():
            if key not in ("traceEvents", "deviceProperties", "computeProperties"):
                facts[key] = value
        if ranks := self.hosts.ranks.names():
            facts["rank_names"] = ranks
        if "host_name" not in facts and (host := self._host_of_name(facts.get("traceName"))):
            facts["host_name"] = host
        if self._properties():
            facts["deviceProperties"] = self._properties()


def _distinct(*columns: I64) -> tuple[list[tuple[int, ...]], I64]:
    """Return the distinct rows of some columns, and for each row its place among them."""
    place = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        # Each column's values become small numbers first, so that these always fit beside those of the columns before.
        values, code = np.unique(column, return_inverse=True)
        _, place = np.unique(place * len(values) + code, return_inverse=True)
    first = np.zeros(int(place.max(initial=-1)) + 1, np.int64)
    first[place] = np.arange(len(place))
    return list(zip(*(column[first].tolist() for column in columns), strict=True)), place


def _no_number(values: I64) -> Mask:
    """Return which numbers of a device, stream or context mean none: -1, and -1 of 32 bits (Context Sync)."""
    none: Mask = (values < 0) | (values == 0xFFFFFFFF)
    return none

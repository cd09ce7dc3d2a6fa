"""rocprof-json: the JSON of rocprofv3 (`--output-format json`, `*_results.json`), ROCm 6.2 to 7.

    {"rocprofiler-sdk-tool": [{"metadata": {"pid": 4242, ...}, "agents": [...], "counters": [...], "strings": {...},
      "kernel_symbols": [...], "callback_records": {"counter_collection": [...]},
      "buffer_records": {"kernel_dispatch": [...], "hip_api": [...], "memory_copy": [...], ...}}]}

A record is an element of a list of buffer_records or callback_records. `event_id` counts them in the order in which
they are read. Times are ns of the machine's clock since it was started. Members are found by name. An element of the
outer list is a process.

Read: kernels, copies with bytes and direction, allocations and scratch memory, calls of HIP, HSA, RCCL, rocDecode and
rocJPEG, roctx ranges and marks (named by their message). `correlation` is the internal correlation id, `device` the
number among the GPUs (logical_node_type_id), `stream` HIP's stream, or the queue in files without one. Names, kinds and
shapes are as in the database of the same run (`rocpd`). Counters become totals: a row for each device, kernel and
counter; the instances of a counter are added up within a launch. The launches of counters are no events: rocprofv3 runs
the program again for them, or has them among the kernels too.

args: queue, dispatch_id, tid (thread that started the work), scratch_bytes, sgprs, accum_vgprs, src_device and
dst_device of a copy between two GPUs, address, agent, region (a roctx name for the kernel), external_correlation. Not
supported: PC samples, which are counted as ignored; `summary`, which repeats the records; files beyond 256 MiB, for
which rocprofv3 has `--output-format rocpd`. rocprof up to ROCm 6 wrote Chrome traces as results.json (`chrome-trace`).
Sources: rocprofv3-schema.json, generateJSON.cpp and the tests of rocprofiler-sdk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.args import items_of
from tracekit.model.arrow import I64, Column, DictColumn, Mask, pc
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.model.units import MAX_NS
from tracekit.readers.amd._rows import KernelCounters, copy_kind, region_kind, signed_sizes
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import BATCH_ROWS, RowBuilder, event_batch
from tracekit.readers.head import Head
from tracekit.readers.source import WHOLE_FILE_BYTES, Source
from tracekit.readers.sqlite.cupti import Columns, Extra, args_of, as_is

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]


def sniff(head: Head) -> Confidence:
    """Return YES for an object whose first member has the name of the tool."""
    begin = head.data[:4096].lstrip()
    member = begin[1:].lstrip() if begin[:1] == b"{" else b""
    return Confidence.YES if member.startswith(b'"rocprofiler-sdk-tool"') else Confidence.NO


# A process of rocprofv3's JSON: its records as structures with what is read of them, and the names of things.


R = TypeVar("R")
_MISSING = -1
_INT63 = (1 << 63) - 1
_GPU = 2
"""ROCPROFILER_AGENT_TYPE_GPU."""


class AgentHandle(msgspec.Struct, gc=False, frozen=True):
    """A number that stands for a thing."""

    handle: int = _MISSING


NOTHING = AgentHandle()


class Ids(msgspec.Struct, gc=False, frozen=True):
    """Correlation ids: that of the profiler, and one of the user."""

    internal: int = 0
    external: int = 0


NO_IDS = Ids()


class Sizes(msgspec.Struct, gc=False, frozen=True):
    """Three sizes."""

    x: int = 0
    y: int = 0
    z: int = 0


NO_SIZES = Sizes()


class Dispatch(msgspec.Struct, gc=False, frozen=True):
    """A launch on an agent. Grids are in work items."""

    agent_id: AgentHandle = NOTHING
    queue_id: AgentHandle = NOTHING
    kernel_id: int = _MISSING
    dispatch_id: int = 0
    private_segment_size: int = 0
    group_segment_size: int = 0
    workgroup_size: Sizes = NO_SIZES
    grid_size: Sizes = NO_SIZES


NO_DISPATCH = Dispatch()


class Record(msgspec.Struct, gc=False, frozen=True):
    """A record of any list of buffer_records."""

    kind: int = _MISSING
    operation: int = _MISSING
    thread_id: int | None = None
    correlation_id: Ids = NO_IDS
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    stream_id: AgentHandle = NOTHING
    queue_id: AgentHandle = NOTHING
    dispatch_info: Dispatch = NO_DISPATCH
    src_agent_id: AgentHandle = NOTHING
    dst_agent_id: AgentHandle = NOTHING
    agent_id: AgentHandle = NOTHING
    bytes: int | None = None
    allocation_size: int | None = None
    address: int | str | AgentHandle | None = None


class Value(msgspec.Struct, gc=False, frozen=True):
    """A value of a counter."""

    counter_id: AgentHandle = NOTHING
    value: float = float("nan")


class DispatchData(msgspec.Struct, gc=False, frozen=True):
    """The launch of counters."""

    dispatch_info: Dispatch = NO_DISPATCH


NO_DATA = DispatchData()


class CounterRecord(msgspec.Struct, gc=False, frozen=True):
    """The counters of one launch."""

    dispatch_data: DispatchData = NO_DATA
    records: tuple[Value, ...] = ()


def decoded(raw: msgspec.Raw, kind: type[R]) -> tuple[list[R], int]:
    """Return the elements of a list, and how many of them are no such records. Raises: msgspec.MsgspecError."""
    try:
        return msgspec.json.decode(raw, type=list[kind]), 0  # type: ignore[valid-type]
    except msgspec.ValidationError:
        pass
    elements: list[R] = []
    parts = msgspec.json.decode(raw, type=list[msgspec.Raw])
    for part in parts:
        try:
            elements.append(msgspec.json.decode(part, type=kind))
        except msgspec.ValidationError:
            continue
    return elements, len(parts) - len(elements)


class RocprofProcess(msgspec.Struct, gc=False):
    """A process, with its lists of records as they are in the file."""

    metadata: dict[str, object] = msgspec.field(default_factory=dict)
    agents: list[dict[str, object]] = msgspec.field(default_factory=list)
    counters: list[dict[str, object]] = msgspec.field(default_factory=list)
    strings: dict[str, object] = msgspec.field(default_factory=dict)
    kernel_symbols: list[dict[str, object]] = msgspec.field(default_factory=list)
    buffer_records: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    callback_records: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A kernel. lds: bytes of static shared memory."""

    name: str
    raw_name: str | None
    registers: int | None
    accum_vgprs: int | None
    sgprs: int | None
    lds: int


@dataclass(frozen=True, slots=True)
class RocprofNames:
    """The things that records of a process name by number.

    devices: numbers of the GPUs, agents: names, both by handle. symbols: kernels. kinds: names of kinds of records,
    with those of their operations. messages: texts of roctx by correlation id. renamed: names that roctx gave kernels.
    """

    pid: int | None
    devices: dict[int, int]
    agents: dict[int, str]
    symbols: dict[int, Symbol]
    kinds: list[tuple[str, list[str]]]
    messages: dict[int, str]
    renamed: dict[int, str]

    def operation(self, kind: int, operation: int) -> tuple[str, str]:
        """Return kind and name of an operation."""
        group, names = self.kinds[kind] if 0 <= kind < len(self.kinds) else (f"kind {kind}", [])
        return group, names[operation] if 0 <= operation < len(names) else f"{group} operation {operation}"


def names_of(process: RocprofProcess, run: Run, source: int) -> RocprofNames:
    """Return the names of a process; the run gets those of its devices, and the command."""
    facts, pid = run.sources[0].facts, _whole(process.metadata.get("pid"))
    command = process.metadata.get("command")
    if isinstance(command, list) and command and pid is not None:
        text = " ".join(str(word) for word in command)[:4096]
        facts.setdefault("command", text)
        run.processes.setdefault((source, pid), text)
    node = process.metadata.get("node")
    if isinstance(node, dict) and isinstance(node.get("hostname"), str):
        facts.setdefault("host", node["hostname"])
    devices: dict[int, int] = {}
    agents: dict[int, str] = {}
    for agent in process.agents:
        handle = handle_of(agent.get("id"))
        agents[handle] = next((str(agent[key]) for key in ("product_name", "name") if agent.get(key)), "")
        if agent.get("type") == _GPU:
            number = _whole(agent.get("logical_node_type_id"))
            devices[handle] = number if number is not None and 0 <= number < 1 << 16 else len(devices)
            if agents[handle]:
                run.devices.setdefault((source, devices[handle]), agents[handle])
    numbers = [(_whole(symbol.get("kernel_id")), symbol) for symbol in process.kernel_symbols]
    correlation = process.strings.get("correlation_id")
    return RocprofNames(
        pid,
        devices,
        agents,
        {number: _symbol(symbol) for number, symbol in numbers if number is not None},
        [_kind(each) for each in items_of(process.strings.get("buffer_records"))],
        _pairs(process.strings.get("marker_api")),
        _pairs(correlation.get("external")) if isinstance(correlation, dict) else {},
    )


def _symbol(symbol: dict[str, object]) -> Symbol:
    keys = ("formatted_kernel_name", "demangled_kernel_name", "kernel_name")
    texts = [str(symbol[key]) for key in keys if symbol.get(key)]
    name = texts[0] if texts else ""
    raw = str(symbol.get("kernel_name") or "")
    return Symbol(
        name,
        raw if raw and raw != name else None,
        _small(symbol.get("arch_vgpr_count")),
        _small(symbol.get("accum_vgpr_count")),
        _small(symbol.get("sgpr_count")),
        _whole(symbol.get("group_segment_size")) or 0,
    )


def _small(value: object) -> int | None:
    number = _whole(value)
    return number if number is not None and 0 <= number < 1 << 31 else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _INT63 else None


def handle_of(value: object) -> int:
    """Return the number of a thing, -1 for none."""
    number = value.get("handle") if isinstance(value, dict) else value
    return number if isinstance(number, int) else -1


def _kind(value: object) -> tuple[str, list[str]]:
    """Return the name of a kind, and those of its operations."""
    if not isinstance(value, dict):
        return "", []
    return str(value.get("kind", "")), [str(each) for each in items_of(value.get("operations"))]


def _pairs(value: object) -> dict[int, str]:
    """Return texts by number: rocprofv3 writes a map as a list of objects with key and value."""
    texts = {}
    for each in items_of(value):
        if isinstance(each, dict) and isinstance(each.get("key"), int) and each.get("value"):
            texts[each["key"]] = str(each["value"])
    return texts


# The processes of rocprofv3's JSON, list after list, as batches.


_CALLS = frozenset({"hip_api", "hsa_api", "rccl_api", "rocdecode_api", "rocjpeg_api", "ompt"})
_MEMORY = frozenset({"memory_allocation", "scratch_memory"})
_INT31 = (1 << 31) - 1


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return events and totals. Raises: ParseError for damaged JSON, or one of another program."""
    try:
        document = msgspec.json.decode(_text(source, ledger), type=dict[str, msgspec.Raw])
        raw = document.get("rocprofiler-sdk-tool")
        if raw is None:
            raise ParseError(source.name, "", "JSON without a member rocprofiler-sdk-tool")
        several = bytes(memoryview(raw)[:1]) == b"["
        processes = (
            msgspec.json.decode(raw, type=list[RocprofProcess])
            if several
            else [msgspec.json.decode(raw, type=RocprofProcess)]
        )
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as err:
        reason = f"the JSON is damaged or was cut ({str(err)[:200]})"
        raise ParseError(source.name, "", reason, hint="was the program killed before rocprofv3 wrote it?") from err
    facts: dict[str, object] = {"tool": "ROCprofiler-SDK"}
    run = Run(sources=[SourceFacts(source.name, "rocprof-json", facts=facts)])
    return ReadResult(run, _batches(processes, run, source.name, options, ledger), False, (ledger,))


def _text(source: Source, ledger: Ledger) -> bytes:
    """Return the whole file as UTF-8 without a byte order mark. Raises: ParseError for one that is too large."""
    parts, size = [], 0
    for chunk in source.text_chunks(ledger):
        parts.append(chunk)
        size += len(chunk)
        if size > WHOLE_FILE_BYTES:
            reason = f"larger than {WHOLE_FILE_BYTES >> 20} MiB, which is the most for this format"
            raise ParseError(
                source.name, "", reason, hint="rocprofv3 --output-format rocpd writes a database, of any size"
            )
    return b"".join(parts)


def _batches(
    processes: list[RocprofProcess], run: Run, name: str, options: ReadOptions, ledger: Ledger
) -> Iterator[pa.RecordBatch]:
    counters, first, launches = KernelCounters(), 1, 0
    for process in processes:
        names = names_of(process, run, options.source)
        reading = _RocprofJsonReading(process, names, name, options, ledger, counters, first)
        yield from reading.batches()
        first, launches = reading.first, launches + reading.launches
    totals = RowBuilder("totals")
    counters.rows(totals, options.source)
    ledger.kept += min(len(totals), launches)
    ledger.merged += launches - min(len(totals), launches)
    ledger.totals_out += len(totals)
    if len(totals):
        yield totals.take()


@dataclass(slots=True)
class _RocprofJsonReading:
    """One process. first: number of its next record. launches: those with counters."""

    process: RocprofProcess
    names: RocprofNames
    name: str
    options: ReadOptions
    ledger: Ledger
    counters: KernelCounters
    first: int
    launches: int = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the events of all lists."""
        for name, raw in self.process.buffer_records.items():
            if name.startswith("pc_sample"):
                count = len(self._list(raw, msgspec.Raw)[0])
                self.ledger.read += count
                self.ledger.ignore(name, count)
                continue
            records, bad = self._list(raw, Record)
            self.ledger.read += len(records) + bad
            self.ledger.drop("bad-record", bad, where=name, text="dropped: a record with a member of another type")
            signed = self._signed(records) if name in _MEMORY else None
            for begin in range(0, len(records), BATCH_ROWS):
                part = records[begin : begin + BATCH_ROWS]
                batch = self._events(name, part, None if signed is None else signed.slice(begin, len(part)), begin)
                if batch is not None:
                    yield batch
            self.first += len(records) + bad
        self._count()

    def _list(self, raw: msgspec.Raw, kind: type) -> tuple[list, int]:  # type: ignore[type-arg]
        try:
            return decoded(raw, kind)
        except (msgspec.MsgspecError, RecursionError) as err:
            raise ParseError(self.name, "", f"a list of records is no list ({str(err)[:200]})") from err

    # Rows

    def _events(self, name: str, records: Sequence[Record], signed: Column | None, begin: int) -> pa.RecordBatch | None:
        ledger, count = self.ledger, len(records)
        starts, ends = (_int64([getattr(r, key) for r in records]) for key in ("start_timestamp", "end_timestamp"))
        good = arrow.valid(starts) & arrow.valid(ends)
        ts, stop = arrow.ints(starts), arrow.ints(ends)
        device_side = name in ("kernel_dispatch", "memory_copy")
        unmeasured = ~good | ((ts == 0) & (stop == 0) if device_side else np.zeros(count, np.bool_))
        for code, bad, text in (
            ("no-time", unmeasured, "dropped: a record whose times were not measured"),
            (
                "bad-time",
                ~unmeasured & ((np.maximum(ts, stop) >= MAX_NS) | (ts < 0)),
                "dropped: a time beyond 146 years",
            ),
            ("ends-before-start", ~unmeasured & (stop < ts), "dropped: a record that ends before it starts"),
        ):
            bad &= good | (code == "no-time")
            if bad.any():
                where = f"{name} record {begin + 1 + int(np.flatnonzero(bad)[0])}"
                ledger.drop(code, int(np.count_nonzero(bad)), where=where, text=text)
                good &= ~bad
        kept = list(records) if good.all() else [r for r, keep in zip(records, good.tolist(), strict=True) if keep]
        if not kept:
            return None
        make = self._kernels if name == "kernel_dispatch" else self._copies if name == "memory_copy" else self._calls
        columns: Columns = {
            "ts_ns": ts[good],
            "dur_ns": (stop - ts)[good],
            "event_id": np.arange(self.first + begin, self.first + begin + count)[good],
            "source": self.options.source,
            "pid": self.names.pid,
            "correlation": _above_zero([r.correlation_id.internal for r in kept]),
        }
        columns |= self._memory(kept, signed, good) if name in _MEMORY else make(kept, columns)
        ledger.kept += len(kept)
        ledger.events_out += len(kept)
        return event_batch(len(kept), columns)

    def _kernels(self, records: list[Record], _: Columns) -> Columns:
        infos = [r.dispatch_info for r in records]
        known = [self.names.symbols.get(info.kernel_id) for info in infos]
        streams = _positive([r.stream_id.handle for r in records])
        queues = _positive([info.queue_id.handle for info in infos])
        no_stream = streams.null_count == len(streams)
        extras = [
            Extra("queue", None if no_stream else queues, as_is),
            *self._thread_and_external(records),
            Extra("dispatch_id", _int64([info.dispatch_id for info in infos])),
            Extra("scratch_bytes", _int64([info.private_segment_size for info in infos])),
            Extra("sgprs", _int64([k.sgprs if k else None for k in known])),
            Extra("accum_vgprs", _int64([k.accum_vgprs if k else None for k in known])),
        ]
        lds = _int64([k.lds if k else None for k in known])
        beyond = pc.subtract(_int64([info.group_segment_size for info in infos]), pc.fill_null(lds, 0))
        columns: Columns = {
            "kind": Kind.KERNEL,
            "name": _texts([k.name if k else f"kernel {info.kernel_id}" for k, info in zip(known, infos, strict=True)]),
            "raw_name": _texts([k.raw_name if k else None for k in known]),
            "device": _int32([self.names.devices.get(info.agent_id.handle) for info in infos]),
            "stream": queues if no_stream else streams,
            "registers": _int32([k.registers if k else None for k in known]),
            "static_smem_bytes": lds,
            "dynamic_smem_bytes": pc.if_else(pc.greater_equal(beyond, 0), beyond, None),
            "args": args_of(len(records), extras),
        }
        for axis in "xyz":
            threads, items = (
                _int64([_axis(getattr(info, key), axis) for info in infos]) for key in ("workgroup_size", "grid_size")
            )
            blocks = pc.add(pc.divide(pc.subtract(items, 1), threads), 1)
            fits = pc.and_(pc.less_equal(blocks, _INT31), pc.less_equal(threads, _INT31))
            columns[f"block_{axis}"] = pc.if_else(pc.less_equal(threads, _INT31), threads, None).cast(pa.int32())
            columns[f"grid_{axis}"] = pc.if_else(fits, blocks, None).cast(pa.int32())
        return columns

    def _thread_and_external(self, records: list[Record]) -> list[Extra]:
        external = _above_zero([r.correlation_id.external for r in records])
        threads = Extra("tid", _int64([r.thread_id for r in records]))
        if self.names.renamed:
            return [threads, Extra("region", external, self.names.renamed.get)]
        return [threads, Extra("external_correlation", external)]

    def _copies(self, records: list[Record], _: Columns) -> Columns:
        target, origin = (
            _int64([self.names.devices.get(getattr(r, key).handle) for r in records])
            for key in ("dst_agent_id", "src_agent_id")
        )
        names = [self.names.operation(r.kind, r.operation)[1] for r in records]
        peers = pc.fill_null(pc.not_equal(target, origin), False)
        ways = arrow.array([copy_kind(name) for name in names], pa.string())
        extras = [
            *self._thread_and_external(records),
            Extra("src_device", pc.if_else(peers, origin, None), as_is),
            Extra("dst_device", pc.if_else(peers, target, None), as_is),
        ]
        return {
            "kind": Kind.MEMCPY,
            "name": _texts(names),
            "copy_kind": arrow.encoded(pc.if_else(peers, "PtoP", ways)),
            "device": pc.coalesce(target, origin),
            "stream": _positive([r.stream_id.handle for r in records]),
            "bytes": _int64([r.bytes for r in records]),
            "args": args_of(len(records), extras),
        }

    def _calls(self, records: list[Record], columns: Columns) -> Columns:
        """Return the columns of calls, ranges and marks."""
        operations = [self.names.operation(r.kind, r.operation) for r in records]
        messages = [
            self.names.messages.get(r.correlation_id.internal) if "MARKER" in group else None
            for r, (group, _) in zip(records, operations, strict=True)
        ]
        durations = columns["dur_ns"]
        kinds: list[str] = []
        for (group, name), message, dur in zip(operations, messages, np.asarray(durations).tolist(), strict=True):
            kind = region_kind(group, name, message=message is not None)
            kinds.append(str(Kind.MARK if kind is Kind.USER_RANGE and not dur else kind))
        calls = [name if message else None for (_, name), message in zip(operations, messages, strict=True)]
        encoded = _texts(calls)
        external = _above_zero([r.correlation_id.external for r in records])
        extras = [Extra("external_correlation", None if self.names.renamed else external)]
        if encoded.null_count < len(encoded):
            texts = arrow.texts(encoded.dictionary)
            extras.append(Extra("call", encoded.indices.cast(pa.int64()), texts.__getitem__))
        moments = np.array([kind == Kind.MARK for kind in kinds])
        return {
            "kind": _texts(kinds),
            "dur_ns": arrow.array(np.asarray(durations), mask=moments),
            "name": _texts([message or name for (_, name), message in zip(operations, messages, strict=True)]),
            "tid": _int64([r.thread_id for r in records]),
            "args": args_of(len(records), extras),
        }

    def _memory(self, records: list[Record], signed: Column | None, good: Mask) -> Columns:
        agents = _int64([r.agent_id.handle for r in records])
        extras = [
            Extra("agent", agents, lambda number: self.names.agents.get(number) or None),
            Extra("address", _int64([_address(r) for r in records])),
            Extra("queue", _above_zero([r.queue_id.handle for r in records])),
        ]
        return {
            "kind": Kind.MEMORY,
            "name": _texts([self.names.operation(r.kind, r.operation)[1] for r in records]),
            "tid": _int64([r.thread_id for r in records]),
            "device": _int32([self.names.devices.get(r.agent_id.handle) for r in records]),
            "bytes": None if signed is None else signed.filter(arrow.array(good)),
            "args": args_of(len(records), extras),
        }

    def _signed(self, records: list[Record]) -> Column:
        """Return the bytes of allocations; those of a FREE are negative, of the ALLOCATE before it at its address."""
        starts, sizes, places = (
            _int64(values)
            for values in (
                [r.start_timestamp for r in records],
                [r.allocation_size for r in records],
                [_address(r) for r in records],
            )
        )
        freed = [self.names.operation(r.kind, r.operation)[1].endswith("FREE") for r in records]
        signs: I64 = np.array(freed, np.int64)
        known, signed = signed_sizes(arrow.ints(places, -1), arrow.ints(starts), arrow.ints(sizes), signs)
        return arrow.array(signed, mask=~(known & (arrow.valid(sizes) | (signs == 1))))

    def _count(self) -> None:
        """Add up the counters of launches."""
        names = {handle_of(each.get("id")): str(each.get("name")) for each in self.process.counters}
        for name, raw in self.process.callback_records.items():
            if name != "counter_collection":
                count = len(self._list(raw, msgspec.Raw)[0])
                self.ledger.read += count
                self.ledger.ignore(name, count)
                continue
            launches, bad = self._list(raw, CounterRecord)
            self.ledger.read += len(launches) + bad
            self.launches += len(launches)
            self.first += len(launches) + bad
            self.ledger.drop("bad-record", bad, where=name, text="dropped: a record with a member of another type")
            rows: list[tuple[str, str, int | None, float]] = []
            for launch in launches:
                info = launch.dispatch_data.dispatch_info
                symbol = self.names.symbols.get(info.kernel_id)
                kernel = symbol.name if symbol else f"kernel {info.kernel_id}"
                sums: dict[str, float] = {}
                for value in launch.records:
                    counter = names.get(value.counter_id.handle, f"counter {value.counter_id.handle}")
                    sums[counter] = sums.get(counter, 0.0) + value.value
                rows += [(c, kernel, self.names.devices.get(info.agent_id.handle), total) for c, total in sums.items()]
            if rows:
                counters, kernels, devices, values = zip(*rows, strict=True)
                column = arrow.array(counters, pa.string())
                bad = self.counters.add(column, arrow.array(kernels, pa.string()), _int32(devices), np.array(values))
                if bad:
                    self.ledger.note("bad-value", "a counter without a value was skipped", bad, where=name)


def _axis(sizes: Sizes, axis: str) -> int | None:
    size: int = getattr(sizes, axis)
    return size if size > 0 else None


def _address(record: Record) -> int | None:
    address = record.address
    if isinstance(address, str):
        try:
            return int(address, 16)
        except ValueError:
            return None
    return address if address is None or isinstance(address, int) else address.handle


def _int64(values: Sequence[int | None]) -> Column:
    try:
        return arrow.array(values, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        return arrow.array([v if v is not None and abs(v) <= _INT63 else None for v in values], pa.int64())


def _int32(values: Sequence[int | None]) -> Column:
    return _int64([v if v is not None and 0 <= v <= _INT31 else None for v in values]).cast(pa.int32())


def _positive(values: Sequence[int]) -> Column:
    return _int64([v if v >= 0 else None for v in values])


def _above_zero(values: Sequence[int]) -> Column:
    return _int64([v if v > 0 else None for v in values])


def _texts(values: Sequence[str | None]) -> DictColumn:
    return arrow.encoded(arrow.array(values, pa.string()))

"""paddle-pb: the tree file of paddle.profiler (`*.paddle_trace.pb`), which paddle.profiler.load_profiler_result reads.

    NodeTreesProto { version: "1.0.2"  span_indx: 0
      thread_trees { thread_id: 3714  host_nodes { id: 0 parentid: -1 host_trace_event { name: "root node" ... } }
                     host_nodes { id: 2 parentid: 1 host_trace_event { ... } runtime_nodes { ... device_nodes } } } }

Each thread becomes a tree. The parent of a range, a call of the CUDA API or an allocation is the innermost range that
contains it. The parent of device work is the call with its correlation id, of the same source and process. A range that
overlaps another in part keeps its times; its parent is an outer range that contains it.

Device work without a launch is put under an empty call named "(launch not in the trace)" in thread 0, since Paddle
shows only work with a call; our reader skips that call again. Calls without a known thread are in thread 0 too. Kinds
that Paddle lacks: `sync` becomes a call, `overhead` and `other` become UserDefined; type 15, which Paddle 3 writes and
cannot load, becomes OperatorInner. Paddle declares every field required: unknown values are 0 or empty. Counters,
marks, arrows, ranges without duration and device-side synchronization are counted and not written. Threads of several
processes with the same id get new ids, since Paddle's tree has one process. Names are the readable ones.

Times are ns since the Unix epoch, or since the zero of a trace without that clock. The file is written in two passes
over a temporary file: memory holds the open ranges and about 40 bytes for each row of a device.
Source of the layout: the files of paddlepaddle 2.6.2 and 3.3.1, deserialization_reader.cc; 2.6.2 loads our files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import BinaryIO, TypeAlias

import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.messages import (
    STAND_IN,
    ProtobufMessage,
    messages,
)
from tracekit.model import arrow, schema
from tracekit.model.arrow import Column, pc
from tracekit.model.digits import delimited, varint
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.trace import Run
from tracekit.safety.scratch import StoredRows, scratch_file, scratch_folder, stored_rows
from tracekit.writers.base import RowStream, WriteOptions, Written, new_file
from tracekit.writers.json_text import args_of
from tracekit.writers.paddle._device_rows import DeviceRows, Row
from tracekit.writers.paddle._node_tree import CALL, MEMORY, MessagePieces, NodeTree
from tracekit.writers.paddle._tree_messages import (
    CALLS,
    DEVICE_ARGS,
    MEMORY_ARGS,
    SUPPLEMENT_ARGS,
    Args,
    add_device,
    call_event,
    complete,
    host_event,
    host_type,
    memory_event,
    supplements,
    unsigned,
)

__all__ = ["write"]

_COLUMN_NAMES = """
    ts_ns dur_ns name kind source pid tid device context stream correlation bytes copy_kind grid_x grid_y grid_z block_x
    block_y block_z registers static_smem_bytes dynamic_smem_bytes args
"""
_COLUMNS = tuple(_COLUMN_NAMES.split())


def _plain_field(field: pa.Field[pa.DataType]) -> pa.Field[pa.DataType]:
    return pa.field(field.name, pa.string()) if pa.types.is_dictionary(field.type) else field


_PLAIN = pa.schema([_plain_field(schema.EVENTS.field(name)) for name in _COLUMNS])
"""The columns in use, with plain texts instead of dictionaries."""
_NO_PLACE = ("rank", "value")
_CHUNK_ROWS = 1 << 13
_NAME_BYTES = 255
"""Paddle copies the name of a device into 256 bytes without checking its length."""

ThreadKey: TypeAlias = tuple[int, int | None, int]
"""(source, pid, tid)."""


@dataclass(slots=True)
class _PaddlePbState:
    """The state of both passes: the trees, and counts for the notes."""

    written: Written
    origin: int
    run: Run
    spool: BinaryIO
    devices: DeviceRows
    trees: dict[ThreadKey, NodeTree] = dataclass_field(default_factory=dict)
    threads: set[int] = dataclass_field(default_factory=set)
    lost: set[str] = dataclass_field(default_factory=set)
    renamed: int = 0
    recast: int = 0
    threadless: int = 0
    orphans: int = 0

    def tree(self, source: int, pid: int | None, tid: int) -> NodeTree:
        key = (source, pid, tid)
        if key not in self.trees:
            thread = unsigned(tid)
            if thread is None or thread in self.threads:
                self.renamed += 1
                thread = max(self.threads, default=0) + 1
                while thread in self.threads or thread >= 1 << 64:
                    thread = (thread + 1) % (1 << 64)
            self.threads.add(thread)
            self.trees[key] = NodeTree(thread, self.spool)
        return self.trees[key]


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows in two passes over a temporary file. Raises: OutputExistsError, OutputError."""
    written = Written(target)
    with new_file(target, force=options.force) as out, scratch_folder() as folder:
        rows = folder / "rows.arrow"
        devices = DeviceRows(folder / "devices.arrow")
        try:
            with scratch_file(folder / "pieces") as spool:
                state = _PaddlePbState(written, 0, stream.run, spool, devices)
                # First pass: a call comes before its kernels, and takes them with it into its node. So host rows wait
                # on disk until all device work is known.
                with StoredRows(rows, _PLAIN) as store:
                    for batch in stream.batches:
                        if kept := _host_part(batch, state):
                            store.write_batch(kept)
                # The clock of the run is known only when its last batch was read.
                state.origin = stream.run.origin_ns or 0
                devices.seal()
                for chunk in _stored(rows):
                    _host_rows(chunk, state)
                _orphans(state)
                _assemble(out, state)
        finally:
            devices.close()
    _add_notes(state)
    return written


def _host_part(batch: pa.RecordBatch, state: _PaddlePbState) -> pa.RecordBatch | None:
    """Return the host rows, store device work, and count the rows that a tree cannot hold by reason."""
    written = state.written
    if schema.is_totals(batch):
        written.leave_out("totals have no place in a tree", batch.num_rows)
        return None
    for name in _NO_PLACE:
        if batch.column(name).null_count < batch.num_rows:
            state.lost.add(name)
    arrays = [pc.cast(batch.column(field.name), field.type) for field in _PLAIN]
    plain = pa.RecordBatch.from_arrays(arrays, schema=_PLAIN)
    kind: Column = plain.column("kind")
    dur: Column = plain.column("dur_ns")
    in_step = pc.and_(arrow.array(arrow.valid(batch.column("step"))), pc.not_equal(kind, "step"))
    if arrow.count(in_step):
        state.lost.add("step")
    keep = arrow.array([True] * plain.num_rows)
    for unsupported in (Kind.COUNTER, Kind.MARK, Kind.FLOW):
        keep = _count(written, keep, pc.not_equal(kind, str(unsupported)), f"kind {unsupported}")
    memory = pc.equal(kind, str(Kind.MEMORY))
    has_dur = pc.or_(memory, arrow.array(arrow.valid(dur)))
    keep = _count(written, keep, has_dur, "no duration")
    keep = _count(written, keep, pc.or_(memory, pc.greater_equal(pc.fill_null(dur, 0), 0)), "negative duration")
    device = pc.is_in(kind, value_set=arrow.array([str(k) for k in DEVICE_WORK]))
    call = pc.is_in(kind, value_set=arrow.array([str(k) for k in CALLS[:2]]))
    has_thread = pc.or_(pc.or_(device, call), arrow.array(arrow.valid(plain.column("tid"))))
    keep = _count(written, keep, has_thread, "no thread: it overlaps others, or its thread is not known")
    origin = state.run.origin_ns or 0
    keep = _count(written, keep, pc.greater_equal(plain.column("ts_ns"), -origin), "starts before the clock's zero")
    device_rows = plain.filter(pc.and_(keep, device))
    if device_rows.num_rows:
        state.devices.put(device_rows)
    return plain.filter(pc.and_(keep, pc.invert(device)))


def _count(written: Written, keep: Column, good: Column, reason: str) -> Column:
    written.leave_out(reason, arrow.count(pc.and_(keep, pc.invert(good))))
    return pc.and_(keep, good)


def _stored(path: Path) -> Iterator[list[Row]]:
    for batch in stored_rows(path):
        for start in range(0, batch.num_rows, _CHUNK_ROWS):
            yield batch.slice(start, _CHUNK_ROWS).to_pylist()


def _host_rows(chunk: list[Row], state: _PaddlePbState) -> None:
    work: dict[int, list[int]] = {}
    for at, row in enumerate(chunk):
        if row["kind"] in CALLS and row["correlation"] is not None:
            work[at] = state.devices.taken_by(row["source"], row["correlation"], row["pid"])
    found = state.devices.rows([number for numbers in work.values() for number in numbers])
    for at, row in enumerate(chunk):
        _host_row(row, [found[number] for number in work.get(at, ())], state)
    state.written.events += len(chunk)


def _host_row(row: Row, work: list[Row], state: _PaddlePbState) -> None:
    start = row["ts_ns"] + state.origin
    if row["tid"] is None:
        state.threadless += 1
    tree = state.tree(row["source"], row["pid"], row["tid"] or 0)
    pid, args = unsigned(row["pid"]) or 0, args_of(row["args"])
    if row["kind"] == Kind.MEMORY:
        _note_lost(state, args, MEMORY_ARGS)
        tree.add_inner(start, start, MEMORY, memory_event(row, start, pid, tree.thread, args))
    elif row["kind"] in CALLS:
        _note_lost(state, args, {"callback_id"})
        node = call_event(row["name"] or "", start, row["dur_ns"], pid, tree.thread, row["correlation"])
        if (number := unsigned(args.get("callback_id"))) is not None:
            node.runtime_trace_event.callback_id = number
        for device_row in work:
            _add_device(node, device_row, state)
        tree.add_inner(start, start + row["dur_ns"], CALL, node)
    else:
        _note_lost(state, args, SUPPLEMENT_ARGS | {"type", "supplements"})
        if row["kind"] in (Kind.OVERHEAD, Kind.OTHER) or "type" in args:
            state.recast += 1
        event = host_event(row, start, pid, tree.thread, host_type(row))
        tree.add_range(start, start + row["dur_ns"], event, supplements(args, start, pid, tree.thread))


def _add_device(node: ProtobufMessage, row: Row, state: _PaddlePbState) -> None:
    args = args_of(row["args"])
    _note_lost(state, args, DEVICE_ARGS)
    add_device(node, row, row["ts_ns"] + state.origin, args)
    state.written.events += 1


def _note_lost(state: _PaddlePbState, args: Args, known: set[str] | frozenset[str]) -> None:
    if args.keys() - known:
        state.lost.add("args")


def _orphans(state: _PaddlePbState) -> None:
    """Add device work without a launch to empty calls of thread 0."""
    for row in state.devices.orphans():
        start = row["ts_ns"] + state.origin
        tree = state.tree(row["source"], None, 0)
        node = call_event(STAND_IN, start, 0, unsigned(row["pid"]) or 0, tree.thread, row["correlation"])
        _add_device(node, row, state)
        tree.root.message(CALL, node.SerializeToString())
        state.orphans += 1


def _assemble(out: BinaryIO, state: _PaddlePbState) -> None:
    facts: Args = next((s.facts for s in state.run.sources if s.format == "paddle-pb"), {})
    whole = MessagePieces(state.spool)
    whole.message(1, b"1.0.2")
    whole.add(varint(2 << 3) + varint(unsigned(facts.get("span_indx")) or 0))
    for tree in state.trees.values():
        whole.message(3, tree.finish())
    info = facts.get("extra_info")
    pairs = {str(k): str(v) for k, v in info.items()} if isinstance(info, dict) else {}
    for (source, pid, tid), name in state.run.threads.items():
        named = state.trees.get((source, pid, tid))
        if named is not None:
            pairs[str(named.thread)] = name
    classes = messages("nodetree")
    for key, value in pairs.items():
        message = classes["ExtraInfoMap"](key=key.encode("utf-8", "replace"), value=value.encode("utf-8", "replace"))
        whole.message(4, message.SerializeToString())
    whole.copy_to(out)
    for device in _device_properties(state.run, facts):
        out.write(delimited(5, device.SerializeToString()))


def _device_properties(run: Run, facts: Args) -> Iterator[ProtobufMessage]:
    kind = messages("nodetree")["DevicePropertyProto"]
    known = {f.name for f in kind.DESCRIPTOR.fields}
    listed = facts.get("device_properties")
    seen: set[int] = set()
    for values in listed if isinstance(listed, list) else ():
        number = unsigned(values.get("id")) if isinstance(values, dict) else None
        if number is None:
            continue
        seen.add(number)
        device = kind(name=_device_name(str(values.get("name", ""))))
        for key, value in values.items():
            if key in known and key != "name" and unsigned(value) is not None:
                setattr(device, key, value)
        yield complete(device)
    for (_, ordinal), name in run.devices.items():
        if unsigned(ordinal) is not None and ordinal not in seen:
            seen.add(ordinal)
            yield complete(kind(id=ordinal, name=_device_name(name)))


def _device_name(name: str) -> bytes:
    return name.encode("utf-8", "replace")[:_NAME_BYTES].decode("utf-8", "ignore").encode()


def _add_notes(state: _PaddlePbState) -> None:
    notes = state.written.notes
    if state.run.origin_ns is None and state.written.events:
        notes.append("the trace has no wall clock: times count from the zero of the trace")
    if state.orphans:
        notes.append(
            f"{state.orphans:,} kernels and copies have no launch in the trace: each is under an empty call in thread 0"
        )
    if state.threadless:
        notes.append(f"{state.threadless:,} calls without a known thread are in thread 0")
    if state.recast:
        notes.append(f"{state.recast:,} ranges of types that Paddle cannot load became UserDefined or OperatorInner")
    crossing = sum(tree.crossing for tree in state.trees.values())
    if crossing:
        notes.append(f"{crossing:,} ranges overlap another range of their thread in part: they are not nested in it")
    if state.renamed:
        notes.append(f"{state.renamed:,} threads have the same id as a thread of another process: they got new ones")
    if state.lost:
        notes.append(f"a tree has no place for: {', '.join(sorted(state.lost))}")

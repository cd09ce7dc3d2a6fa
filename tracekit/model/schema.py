"""The event schema: each column of EVENTS and TOTALS once, with type, unit, meaning and the version that added it.

EVENTS: one row is one event. TOTALS: one row is one line of a table that a profiler had already summed. Null means
unknown, never -1 or "". Times are integer ns. `describe()` returns the columns for documentation.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

from tracekit.errors import SchemaError
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow

__all__ = [
    "API_CALLS",
    "DEVICE_WORK",
    "EVENTS",
    "HOST_RANGES",
    "KINDS",
    "TEXT",
    "TOTALS",
    "USER_RANGES",
    "VERSION",
    "ColumnSpec",
    "Kind",
    "check",
    "describe",
    "is_totals",
]

VERSION = 1
"""Each change to a column adds 1, and an upgrade function to the parquet reader."""

TEXT = pa.dictionary(pa.int32(), pa.string())


class Kind(StrEnum):
    """The kinds of events: the closed list of the column `kind`."""

    OPERATOR = "operator"
    OPERATOR_INNER = "operator_inner"
    PYTHON_OP = "python_op"
    USER_RANGE = "user_range"
    USER_RANGE_NATIVE = "user_range_native"
    STEP = "step"
    DATALOADER = "dataloader"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    COMMUNICATION = "communication"
    RUNTIME = "runtime"
    DRIVER = "driver"
    SYNC = "sync"
    KERNEL = "kernel"
    MEMCPY = "memcpy"
    MEMSET = "memset"
    MEMORY = "memory"
    COUNTER = "counter"
    MARK = "mark"
    FLOW = "flow"
    OVERHEAD = "overhead"
    OTHER = "other"


DEVICE_WORK = frozenset({Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET})
"""Kinds that occupy a device."""

API_CALLS = frozenset({Kind.RUNTIME, Kind.DRIVER})

USER_RANGES = frozenset(
    {
        Kind.USER_RANGE,
        Kind.USER_RANGE_NATIVE,
        Kind.STEP,
        Kind.DATALOADER,
        Kind.FORWARD,
        Kind.BACKWARD,
        Kind.OPTIMIZER,
    }
)
"""Kinds of ranges that a program, or the framework for it, puts around its phases."""

HOST_RANGES = USER_RANGES | {Kind.OPERATOR, Kind.OPERATOR_INNER, Kind.PYTHON_OP, Kind.COMMUNICATION}
"""Kinds of ranges on the threads of the host, without runtime and driver calls."""


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One column: `unit` is "" for plain numbers and text; `since` is the schema version that added it."""

    name: str
    type: pa.DataType
    unit: str
    meaning: str
    nullable: bool = True
    since: int = 1


_EVENTS = (
    ColumnSpec("ts_ns", pa.int64(), "ns", "start, after Run.origin_ns", nullable=False),
    ColumnSpec("dur_ns", pa.int64(), "ns", "null: has no duration; 0: measured and zero"),
    ColumnSpec("event_id", pa.int64(), "", "number of the record in its source", nullable=False),
    ColumnSpec("name", TEXT, "", "whole name, demangled"),
    ColumnSpec("raw_name", TEXT, "", "the file's own spelling, where it differs"),
    ColumnSpec("kind", TEXT, "", "one of schema.Kind", nullable=False),
    ColumnSpec("source", pa.int32(), "", "which input", nullable=False),
    ColumnSpec("rank", pa.int32(), "", "rank of the process in its job"),
    ColumnSpec("pid", pa.int64(), "", "process"),
    ColumnSpec("tid", pa.int64(), "", "thread; null: no thread is known, or the work overlaps on its thread"),
    ColumnSpec("device", pa.int32(), "", "device ordinal, device side only"),
    ColumnSpec("context", pa.int64(), "", "device context"),
    ColumnSpec("stream", pa.int64(), "", "stream of the device"),
    ColumnSpec(
        "correlation", pa.int64(), "", "joins launch and device work within (source, pid, context); id of a flow"
    ),
    ColumnSpec("step", pa.int32(), "", "profiler step, when known"),
    ColumnSpec("bytes", pa.int64(), "bytes", "size copied, set or allocated; negative: freed"),
    ColumnSpec("copy_kind", TEXT, "", "HtoD, DtoH, DtoD, PtoP ..."),
    ColumnSpec("grid_x", pa.int32(), "", "launch shape: blocks"),
    ColumnSpec("grid_y", pa.int32(), "", "launch shape: blocks"),
    ColumnSpec("grid_z", pa.int32(), "", "launch shape: blocks"),
    ColumnSpec("block_x", pa.int32(), "", "launch shape: threads"),
    ColumnSpec("block_y", pa.int32(), "", "launch shape: threads"),
    ColumnSpec("block_z", pa.int32(), "", "launch shape: threads"),
    ColumnSpec("registers", pa.int32(), "", "registers per thread"),
    ColumnSpec("static_smem_bytes", pa.int64(), "bytes", "static shared memory per block"),
    ColumnSpec("dynamic_smem_bytes", pa.int64(), "bytes", "dynamic shared memory per block"),
    ColumnSpec("value", pa.float64(), "", "value of a counter"),
    ColumnSpec("args", pa.string(), "", "JSON object of what found no column; null: nothing is left"),
)

_TOTALS = (
    ColumnSpec("source", pa.int32(), "", "which input", nullable=False),
    ColumnSpec("rank", pa.int32(), "", "rank of the process in its job"),
    ColumnSpec("run", pa.int32(), "", "which of several runs in one file, from 0", nullable=False),
    ColumnSpec("section", TEXT, "", "table or block within the run", nullable=False),
    ColumnSpec("order", pa.int32(), "", "place in the file", nullable=False),
    ColumnSpec("name", TEXT, "", "whole name, demangled"),
    ColumnSpec("raw_name", TEXT, "", "the file's own spelling, where it differs"),
    ColumnSpec("kind", TEXT, "", "one of schema.Kind"),
    ColumnSpec("calls", pa.int64(), "", "how often"),
    ColumnSpec("total_ns", pa.int64(), "ns", "sum of durations"),
    ColumnSpec("min_ns", pa.int64(), "ns", "shortest"),
    ColumnSpec("max_ns", pa.int64(), "ns", "longest"),
    ColumnSpec("median_ns", pa.int64(), "ns", "median"),
    ColumnSpec("std_ns", pa.float64(), "ns", "standard deviation"),
    ColumnSpec("avg_ns", pa.float64(), "ns", "mean, as printed"),
    ColumnSpec("device", pa.int32(), "", "device ordinal"),
    ColumnSpec("bytes", pa.int64(), "bytes", "size in all"),
    ColumnSpec("value_min", pa.float64(), "", "metric: smallest"),
    ColumnSpec("value_max", pa.float64(), "", "metric: largest"),
    ColumnSpec("value_avg", pa.float64(), "", "metric: mean"),
    ColumnSpec("value_text", pa.string(), "", "metric that is not a number, as printed"),
    ColumnSpec("unit", TEXT, "", "unit of the values"),
    ColumnSpec("args", pa.string(), "", "JSON object of what found no column"),
)


def _schema(columns: tuple[ColumnSpec, ...], table: str) -> pa.Schema:
    metadata: dict[bytes | str, bytes | str] = {"tracekit.schema": str(VERSION), "tracekit.table": table}
    return pa.schema([pa.field(c.name, c.type, c.nullable) for c in columns], metadata)


EVENTS = _schema(_EVENTS, "events")
TOTALS = _schema(_TOTALS, "totals")
KINDS: frozenset[str] = frozenset(Kind)


def describe(table: str) -> tuple[ColumnSpec, ...]:
    """Return the columns of "events" or "totals"."""
    return {"events": _EVENTS, "totals": _TOTALS}[table]


def is_totals(batch: pa.RecordBatch | pa.Table) -> bool:
    """Return whether a batch of a reader is of TOTALS (else of EVENTS)."""
    return "ts_ns" not in batch.schema.names


def check(table: pa.Table, schema: pa.Schema) -> None:
    """Check types, nulls and kinds: Arrow itself accepts a null in a column declared without nulls.

    A table may lack columns that nobody asked for; it may not have other columns.
    Raises: SchemaError.
    """
    for field in table.schema:
        index = schema.get_field_index(field.name)
        if index < 0:
            raise SchemaError(f"column {field.name} is not in the schema")
        want = schema.field(index)
        if field.type != want.type:
            raise SchemaError(f"column {field.name} is {field.type}, not {want.type}")
        column = table.column(field.name)
        if not want.nullable and column.null_count:
            raise SchemaError(f"column {field.name} has {column.null_count} nulls")
    if "kind" in table.schema.names:
        for chunk in table.column("kind").chunks:
            unknown = set(arrow.encoded(chunk).dictionary.to_pylist()) - KINDS
            if unknown:
                raise SchemaError(f"kind {sorted(map(str, unknown))[0]!r} is not in the list")

"""ascend-db: the databases of msprof (`msprof_*.db`) and torch_npu (`ascend_pytorch_profiler_*.db`), SQLite.

    TASK(startNs, endNs, deviceId, connectionId, globalTaskId, globalPid, taskType, contextId, streamId, taskId, ...)
    COMPUTE_TASK_INFO(name, globalTaskId, blockDim, taskType, opType, inputShapes, ...)   COMMUNICATION_OP(opName, ...)
    CANN_API(startNs, endNs, type, globalTid, connectionId, name)   PYTORCH_API(startNs, endNs, globalTid, name, ...)

A record is a row of a table. `event_id` counts the rows of the tables in the order in which they are read. Times are
Unix time in ns. Columns are found by name; those of TASK_TYPE and names are numbers of texts in STRING_IDS.

Kernels are the tasks that COMPUTE_TASK_INFO names, and the operators of COMMUNICATION_OP (HCCL), which have no stream:
the same ones as in kernel_details.csv. Other tasks are copies (bytes and direction from MEMCPY_INFO), records of
events, waits, and, as other, tasks that a communication operator or a mixed kernel consists of: its row has their time.
CANN_API are calls: those of AscendCL are runtime, those below it driver, communication is communication. A call and the
work of its `launch` have one `correlation` (connectionId). PYTORCH_API are operators with shapes, datatypes and
sequence numbers under the names that PyTorch's own traces have, entries of the task queue, Python functions, and
ranges. STEP_TIME are steps. MSTX_EVENTS are ranges and marks of the program. `rank` is that of RANK_DEVICE_MAP.

args: type of the operator, accelerator, shapes, datatypes and formats (which lead to FLOPs and bytes, as in
kernel_details.csv); group, algorithm, count and datatype of a communication operator. Ignored, and counted so: PMU
metrics, memory, frequencies and bandwidths, call chains of Python, tables of other programs. `analysis.db` of torch_npu
and databases that msprof-analyze makes of clusters are not read. Sources: profile_data_file_references_db.md and
db_assembler.cpp of msprof 26, _constant.py and the database parsers of torch_npu, databases of torch_npu 6 and 7 in the
tests of MindStudio Insight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, DictColumn, pc
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import bounded
from tracekit.readers.cann import call_kind, kernel_kind, task_kind
from tracekit.readers.head import Head
from tracekit.readers.names import Demangler
from tracekit.readers.source import Source
from tracekit.readers.sqlite import cupti as tables
from tracekit.readers.sqlite.cupti import Columns, Extra, SqlContext, args_of, as_is, coded, integers
from tracekit.readers.sqlite.database import CellType, Database, RowBlock

__all__ = ["read", "sniff"]

_TABLES = frozenset({"STRING_IDS", "TASK", "CANN_API", "PYTORCH_API", "COMMUNICATION_OP", "MSTX_EVENTS"})
_SESSION = frozenset({"SESSION_TIME_INFO", "HOST_INFO", "NPU_INFO", "META_DATA", "RANK_DEVICE_MAP"})


def sniff(head: Head) -> Confidence:
    """Return YES for the table of texts with one of tasks or calls beside it, and a table about the session."""
    found = frozenset(head.tables)
    known = "STRING_IDS" in found and len(found & _TABLES) > 1 and bool(found & _SESSION)
    return Confidence.YES if known else Confidence.NO


_INT32 = 1 << 31
_UNKNOWN = frozenset({0xFFFFFFFF, 0xFFFF, 0xFFFFFFFFFFFFFFFF})
"""Numbers that stand for no model, no category."""
_INFO = (
    *("name", "opType", "taskType", "inputShapes", "inputDataTypes", "inputFormats", "outputShapes", "outputDataTypes"),
    *("outputFormats", "attrInfo", "opState", "hf32Eligible", "blockDim", "blockNum", "mixBlockDim", "mixBlockNum"),
)
_PART = ("name", "taskType", "groupName", "size", "srcRank", "dstRank", "planeId")
_READ = ("TASK", "COMMUNICATION_OP", "CANN_API", "PYTORCH_API", "MSTX_EVENTS", "STEP_TIME")
_FACTS = frozenset(
    {
        *("STRING_IDS", "COMPUTE_TASK_INFO", "COMMUNICATION_TASK_INFO", "COMMUNICATION_SCHEDULE_TASK_INFO"),
        *("MEMCPY_INFO", "CONNECTION_IDS", *_SESSION),
    }
)
"""Tables that rows of others refer to."""
_DATATYPES = ("INT8", "INT16", "INT32", "FP16", "FP32", "INT64", "UINT64", "UINT8", "UINT16", "UINT32", "FP64", "BFP16")
_LEVELS = {20000: "acl", 15000: "model", 10000: "node", 5500: "communication", 5000: "runtime"}
_LONGEST = 1 << 14
"""Characters of a text of shapes."""
_DIMS = re.compile(
    r"(?:\s*(?:[0-9]{1,12}\s*,\s*)*(?:[0-9]{1,12})?\s*;)*\s*(?:[0-9]{1,12}\s*,\s*)*(?:[0-9]{1,12})?\s*", re.ASCII
)
_OPERATOR, _QUEUE, _PYTHON, _MSTX = 50001, 50002, 50003, 50004


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events. Raises: ParseError for a damaged database, or one of another program."""
    db = Database(source, ledger)
    run = Run(origin_ns=0)
    ctx = SqlContext(db, run, options, ledger, Demangler(ledger, enabled=options.demangle))
    try:
        if "STRING_IDS" not in db.tables:
            raise db.error(ValueError("no table STRING_IDS"))
        run.sources.append(SourceFacts(source.name, "ascend-db", facts=_facts(ctx)))
        reading = _AscendDatabase(ctx)
    except BaseException:
        db.close()
        raise
    return ReadResult(run, reading.batches(), False, (ledger,))


def _facts(ctx: SqlContext) -> dict[str, object]:
    db, run, source = ctx.db, ctx.run, ctx.options.source
    facts: dict[str, object] = {"tool": "Ascend profiler (msprof, torch_npu)"}
    for name, value in db.small("META_DATA", "name", "value"):
        if name == "SCHEMA_VERSION":
            facts["schema_version"] = str(value)
    for (host,) in db.small("HOST_INFO", "hostName"):
        facts.setdefault("host", str(host))
    used = {row[0] for row in db.rows("select distinct deviceId from TASK limit 1024")} if _has(db, "TASK") else set()
    for number, name in db.small("NPU_INFO", "id", "name"):
        # The table may list all NPUs of the machine; those without a task are not in the run.
        if isinstance(number, int) and 0 <= number < _INT32 and (number in used or not used):
            run.devices.setdefault((source, number), str(name))
    return facts


def _has(db: Database, table: str) -> bool:
    return "deviceId" in db.tables.get(table, ())


class NumberedRows:
    """Columns of integers of a table, found by a key. -1 is a cell without a number; the first row of a key counts."""

    def __init__(self, db: Database, table: str, key: str, columns: Sequence[str]) -> None:
        have = db.tables.get(table, ())
        self.columns = [name for name in columns if name in have]
        keys: list[I64] = [np.zeros(0, np.int64)]
        values: dict[str, list[I64]] = {name: [np.zeros(0, np.int64)] for name in self.columns}
        if key in have:
            for block in db.blocks(table, integers(key, *self.columns)):
                known = block.valid(key)
                keys.append(block.integers(key)[known])
                for name in self.columns:
                    values[name].append(block.integers(name, -1)[known])
        every = np.concatenate(keys)
        self._keys, first = np.unique(every, return_index=True)
        self._values = {name: np.concatenate(parts)[first] for name, parts in values.items()}

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, numbers: Column | None, count: int) -> I64:
        """Return the place of each number among the keys, -1 for one that is not there."""
        if numbers is None or not len(self._keys):
            return np.full(count, -1, np.int64)
        wanted = arrow.ints(numbers)
        place = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where((self._keys[place] == wanted) & arrow.valid(numbers), place, -1)

    def of(self, name: str, places: I64) -> Column | None:
        """Return a column of the rows at some places, null where there is none; None for a column that is missing."""
        values = self._values.get(name)
        if values is None or not len(values):
            return None
        found = np.where(places < 0, -1, values[places])
        return arrow.array(found, mask=found < 0)

    def either(self, places: I64, *names: str) -> Column | None:
        """Return the first of some columns that the table has: versions name them differently."""
        return next((self.of(name, places) for name in names if name in self._values), None)


@dataclass(frozen=True, slots=True)
class _Names:
    """Texts of STRING_IDS and of the ENUM_ tables."""

    texts: dict[int, str]
    levels: dict[int, str]
    datatypes: dict[int, str]

    def text(self, number: int) -> str | None:
        """Return a text; None for an unknown number, or one that says nothing."""
        found = self.texts.get(number)
        return None if found in (None, "", "N/A") else found

    def unquoted(self, number: int) -> str | None:
        """Return a text without the quotation marks that shapes have around them."""
        found = self.text(number)
        return None if found is None else found.strip('"') or None

    def dims(self, number: int) -> list[list[int]] | None:
        """Return shapes such as `32,3;;` as lists; None for another text."""
        found = self.texts.get(number)
        if not found or len(found) > _LONGEST or _DIMS.fullmatch(found) is None:
            return None
        return [[int(size) for size in part.split(",") if size.strip()] for part in found.split(";")]

    def types(self, number: int) -> list[str] | None:
        """Return datatypes such as `float;None;Scalar` as a list; None for a text of shapes."""
        found = self.texts.get(number)
        if not found or len(found) > _LONGEST or _DIMS.fullmatch(found) is not None:
            return None
        return [part.strip() for part in found.split(";")]


def _enum(db: Database, table: str, known: dict[int, str]) -> dict[int, str]:
    own = {row[0]: str(row[1]) for row in db.small(table, "id", "name") if isinstance(row[0], int)}
    return own or known


def _only_process(db: Database) -> int | None:
    """Return the process that made the calls, None where several did."""
    for table in ("CANN_API", "PYTORCH_API"):
        if "globalTid" in db.tables.get(table, ()):
            rows = db.rows(f'select distinct "globalTid" >> 32 from {table} where "globalTid" > 0 limit 2')
            if len(rows) == 1 and isinstance(rows[0][0], int):
                return rows[0][0]
    return None


class _AscendDatabase:
    def __init__(self, ctx: SqlContext) -> None:
        db, self.ctx = ctx.db, ctx
        rows = db.small("STRING_IDS", "id", "value")
        texts = {row[0]: bounded(str(row[1]), ctx.ledger) for row in rows if isinstance(row[0], int)}
        datatypes = dict(enumerate(_DATATYPES))
        self.names = _Names(
            texts, _enum(db, "ENUM_API_TYPE", _LEVELS), _enum(db, "ENUM_HCCL_DATA_TYPE", datatypes)
        )  # fmt: skip
        self.info = NumberedRows(db, "COMPUTE_TASK_INFO", "globalTaskId", _INFO)
        self.parts = NumberedRows(db, "COMMUNICATION_TASK_INFO", "globalTaskId", _PART)
        self.scheduled = NumberedRows(db, "COMMUNICATION_SCHEDULE_TASK_INFO", "globalTaskId", ("name", "opType"))
        self.copies = NumberedRows(db, "MEMCPY_INFO", "globalTaskId", ("size", "memcpyOperation"))
        self.connections = NumberedRows(db, "CONNECTION_IDS", "id", ("connectionId",))
        self.operations = _enum(db, "ENUM_MEMCPY_OPERATION", {})
        self.pid = _only_process(db)
        ranks = [row for row in db.small("RANK_DEVICE_MAP", "rankId", "deviceId") if isinstance(row[0], int)]
        is_known = len(ranks) == 1 and 0 <= int(str(ranks[0][0])) < _INT32 - 1
        self.rank = int(str(ranks[0][0])) if is_known else None
        self.device = next(iter(number for _, number in ctx.run.devices), None) if len(ctx.run.devices) == 1 else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        ctx = self.ctx
        with ctx.db:
            try:
                for table, wanted, make in (
                    ("TASK", _TASK, self._tasks),
                    ("COMMUNICATION_OP", _COMMUNICATION, self._communication),
                    ("CANN_API", _CALL, self._calls),
                    ("PYTORCH_API", _PYTORCH, self._pytorch),
                    ("MSTX_EVENTS", _MSTX_EVENT, self._mstx),
                    ("STEP_TIME", _STEP, self._steps),
                ):
                    if table in ctx.db.tables:
                        placed = partial(self._placed, make)
                        yield from tables.events(ctx, table, wanted, placed, start="startNs", end="endNs", zero="start")
                for table in ctx.db.tables:
                    if table in _READ:
                        continue
                    count = ctx.db.count(table)
                    ctx.ledger.read += count
                    if table in _FACTS or table.startswith("ENUM_"):
                        ctx.ledger.facts += count
                    else:
                        ctx.ledger.ignore(table, count)
            finally:
                ctx.names.close()

    def _placed(self, make: Callable[[RowBlock], Columns], block: RowBlock) -> Columns:
        columns = make(block)
        return columns | {"rank": self.rank}

    def _named(self, numbers: Column | None) -> DictColumn | None:
        return coded(numbers, self.names.text)

    def _thread(self, block: RowBlock) -> Columns:
        """Return process and thread of a row: its number has both, the process in its high half."""
        numbers = block.columns.get("globalTid")
        if numbers is None:
            return {}
        both = arrow.ints(numbers)
        known = arrow.valid(numbers) & (both > 0)
        return {
            "pid": arrow.array(both >> 32, mask=~known),
            "tid": arrow.array(both & 0xFFFFFFFF, mask=~known),
        }

    def _tasks(self, block: RowBlock) -> Columns:
        """Return the columns of tasks of a device."""
        count, ids = block.count, block.columns.get("globalTaskId")
        info, part, copy = (rows.find(ids, count) for rows in (self.info, self.parts, self.copies))
        scheduled = self.scheduled.find(ids, count)
        types = block.columns.get("taskType")
        cores = self.info.of("taskType", info)
        of_scheduler = self._kinds(types, task_kind, count)
        if len(self.info):
            # A mixed kernel, and a communication operator, is a task with tasks of its own: only those that are named
            # are kernels, or their time would count twice.
            of_scheduler = pc.if_else(pc.equal(of_scheduler, str(Kind.KERNEL)), str(Kind.OTHER), of_scheduler)
        of_scheduler = pc.if_else(arrow.array((part >= 0) | (scheduled >= 0)), str(Kind.OTHER), of_scheduler)
        kind = pc.if_else(arrow.array(info >= 0), self._kinds(cores, _core_kind, count), of_scheduler)
        columns: Columns = {
            "name": self._task_names(types, info, part, scheduled),
            "kind": kind,
            "device": tables.int32(self.ctx, block, "deviceId"),
            "stream": _known(block.columns.get("streamId")),
            "correlation": _connection(block),
            "pid": self._pids(block),
        }
        copied = arrow.array((copy >= 0) & arrow.bools(pc.equal(kind, str(Kind.MEMCPY))))
        if (size := self.copies.of("size", copy)) is not None:
            columns["bytes"] = pc.if_else(copied, size, None)
            columns["copy_kind"] = coded(self.copies.of("memcpyOperation", copy), self._direction)
        blocks = tables.below(tables.above_zero(self.info.either(info, "blockDim", "blockNum")), _INT32)
        if blocks is not None:
            one = pc.if_else(pc.greater(blocks, 0), pa.scalar(1, pa.int64()), None)
            columns |= {"grid_x": blocks.cast(pa.int32()), "grid_y": one, "grid_z": one}
        columns["args"] = args_of(count, self._task_args(block, info, part))
        return columns

    def _kinds(self, numbers: Column | None, kind: Callable[[str, str], Kind], count: int) -> Column:
        """Return the kinds of types, which are numbers of texts; other where there is none."""
        if numbers is None:
            return arrow.array([str(Kind.OTHER)] * count, pa.string())
        kinds = coded(numbers, lambda number: str(kind(self.names.texts.get(number, "N/A"), "")))
        return pc.fill_null(numbers if kinds is None else kinds.cast(pa.string()), str(Kind.OTHER))

    def _task_names(self, types: Column | None, info: I64, part: I64, scheduled: I64) -> Column | None:
        """Return the names of tasks: of their operator, of what they do in a communication operator, or their type."""
        names = [self._named(self.info.of("name", info)), self._named(self.parts.of("taskType", part))]
        names += [self._named(self.scheduled.of("name", scheduled)), self._named(types)]
        known = [column.cast(pa.string()) for column in names if column is not None]
        return pc.coalesce(*known) if known else None

    def _pids(self, block: RowBlock) -> Column | int | None:
        """Return the process of tasks: their own, else the only one that made calls."""
        pids = tables.above_zero(_known(block.columns.get("globalPid")))
        if pids is None:
            return self.pid
        return pids if self.pid is None else pc.fill_null(pids, self.pid)

    def _direction(self, number: int) -> str | None:
        text = self.operations.get(number) or self.names.text(number) or ""
        found = re.search(r"(host|device) to (host|device)", text)
        return f"{found[1][0]}to{found[2][0]}".upper().replace("TO", "to") if found else None

    def _task_args(self, block: RowBlock, info: I64, part: I64) -> list[Extra]:
        text, named = self.names.text, self.names
        of = self.info.of
        return [
            Extra("Task Id", block.columns.get("taskId")),
            Extra("Task Type", block.columns.get("taskType"), text),
            Extra("Type", of("opType", info), text),
            Extra("Accelerator Core", of("taskType", info), text),
            Extra("Mix Block Num", self.info.either(info, "mixBlockDim", "mixBlockNum")),
            *(Extra(title, of(column, info), named.unquoted) for title, column in _OF_OPERATORS.items()),
            Extra("part_of", self.parts.of("name", part), text),
            Extra("group", self.parts.of("groupName", part), text),
            Extra("size", self.parts.of("size", part)),
        ]

    def _communication(self, block: RowBlock) -> Columns:
        """Return the columns of communication operators: device work without a stream of its own."""
        text = self.names.text
        device = tables.int32(self.ctx, block, "deviceId")
        count = block.columns.get("count")
        return {
            "name": self._named(block.columns.get("opName")),
            "kind": Kind.KERNEL,
            "device": self.device if device is None else device,
            "correlation": _connection(block),
            "pid": self.pid,
            "args": args_of(
                block.count,
                [
                    Extra("Type", block.columns.get("opType"), text),
                    Extra("group", block.columns.get("groupName"), text),
                    Extra("algorithm", block.columns.get("algType"), text),
                    Extra("count", count),
                    Extra("datatype", block.columns.get("dataType"), self.names.datatypes.get),
                ],
            ),
        }

    def _calls(self, block: RowBlock) -> Columns:
        """Return the columns of calls of CANN."""
        level = block.columns.get("type")
        kinds = coded(level, lambda number: str(call_kind(self.names.levels.get(number, ""))))
        return {
            "name": self._named(block.columns.get("name")),
            "kind": Kind.OTHER if kinds is None else pc.fill_null(kinds.cast(pa.string()), str(Kind.OTHER)),
            "correlation": _connection(block),
            "args": args_of(block.count, [Extra("level", level, self.names.levels.get)]),
            **self._thread(block),
        }

    def _pytorch(self, block: RowBlock) -> Columns:
        """Return the columns of operators of PyTorch, entries of the task queue, Python functions and ranges."""
        kinds = coded(block.columns.get("type"), lambda number: str(_API_KINDS.get(number, Kind.OTHER)))
        kind = None if kinds is None else pc.fill_null(kinds.cast(pa.string()), str(Kind.OTHER))
        # The step has a row of STEP_TIME, too.
        name = self._named(block.columns.get("name"))
        if name is not None and kind is not None:
            is_step = pc.fill_null(pc.starts_with(name.cast(pa.string()), "ProfilerStep#"), False)
            kind = pc.if_else(is_step, str(Kind.USER_RANGE), kind)
        shapes, types = block.columns.get("inputShapes"), block.columns.get("inputDtypes")
        forward = block.columns.get("fwdThreadId")
        return {
            "name": name,
            "kind": Kind.OPERATOR if kind is None else kind,
            "args": args_of(
                block.count,
                [
                    # torch_npu 6 writes each of the two into the column of the other.
                    *(Extra("Input Dims", column, self.names.dims) for column in (shapes, types)),
                    *(Extra("Input type", column, self.names.types) for column in (types, shapes)),
                    Extra("Sequence number", _from_zero(block.columns.get("sequenceNumber")), as_is),
                    Extra("Fwd thread id", tables.above_zero(forward)),
                ],
            ),
            **self._thread(block),
        }

    def _mstx(self, block: RowBlock) -> Columns:
        """Return the columns of ranges and marks of the program."""
        is_mark = pc.equal(pc.subtract(block.columns["endNs"], block.columns["startNs"]), 0)
        return {
            "name": self._named(block.columns.get("message")),
            "kind": pc.if_else(is_mark, str(Kind.MARK), str(Kind.USER_RANGE)),
            "args": args_of(block.count, [Extra("domain", block.columns.get("domainId"), self.names.text)]),
            **self._thread(block),
        }

    def _steps(self, block: RowBlock) -> Columns:
        """Return the columns of steps."""
        steps = tables.below(block.columns.get("id"), _INT32)
        names = coded(steps, lambda number: f"ProfilerStep#{number}")
        return {
            "name": names,
            "kind": Kind.STEP,
            "step": None if steps is None else steps.cast(pa.int32()),
            "pid": self.pid,
        }


def _core_kind(core: str, _: str) -> Kind:
    return kernel_kind(core)


def _known(numbers: Column | None) -> Column | None:
    """Return numbers with null for those that stand for none."""
    if numbers is None:
        return None
    values = arrow.ints(numbers, -1)
    none = np.isin(values, list(_UNKNOWN)) | (values < 0)
    return arrow.array(values, mask=none)


def _from_zero(numbers: Column | None) -> Column | None:
    return None if numbers is None else pc.if_else(pc.greater_equal(numbers, 0), numbers, None)


def _connection(block: RowBlock) -> Column | None:
    """Return the number that a call has in common with its work."""
    return tables.above_zero(_known(block.columns.get("connectionId")))


_OF_OPERATORS = {
    "Input Shapes": "inputShapes",
    "Input Data Types": "inputDataTypes",
    "Input Formats": "inputFormats",
    "Output Shapes": "outputShapes",
    "Output Data Types": "outputDataTypes",
    "Output Formats": "outputFormats",
    "OP State": "opState",
    "HF32 Eligible": "hf32Eligible",
    "Attributes": "attrInfo",
}
"""Columns of COMPUTE_TASK_INFO, and their names in kernel_details.csv."""
_API_KINDS = {
    _OPERATOR: Kind.OPERATOR,
    _QUEUE: Kind.OTHER,
    _PYTHON: Kind.PYTHON_OP,
    _MSTX: Kind.USER_RANGE,
}
_SPAN = integers("startNs", "endNs")
_TASK = _SPAN | integers(
    *("deviceId", "connectionId", "globalTaskId", "globalPid", "taskType", "streamId", "taskId")
)  # fmt: skip
_COMMUNICATION = _SPAN | integers(
    *("opName", "connectionId", "groupName", "dataType", "algType", "count", "opType", "deviceId")
)  # fmt: skip
_CALL = _SPAN | integers("type", "globalTid", "connectionId", "name")
_PYTORCH = dict.fromkeys(("startNs", "endNs"), CellType.DIGITS) | integers(
    *("globalTid", "name", "sequenceNumber", "fwdThreadId", "inputDtypes", "inputShapes", "type")
)  # fmt: skip
_MSTX_EVENT = _SPAN | integers("message", "globalTid", "domainId")
_STEP = _SPAN | integers("id")

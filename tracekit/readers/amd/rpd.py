"""rpd: the database of rocmProfileData (`runTracer.sh`, `rpdTracerControl`; `*.rpd`), schema versions 2 and 3.

    rocpd_api(id, pid, tid, start, end, apiName_id, args_id)             3: also category_id, domain_id
    rocpd_op(id, gpuId, queueId, sequenceId, start, end, description_id, opType_id)
    rocpd_api_ops(api_id, op_id)   rocpd_copyapi(api_ptr_id, size, ...)   rocpd_kernelapi(api_ptr_id, gridX, ...)

A record is a row of a table. `event_id` counts the rows of the tables in the order in which they are read. Times are ns
of the machine's clock since it was started (the database's own views show µs). rocprofv3's database has the same prefix
and another design: `rocpd`.

rocpd_op: kernels, copies, fills and barriers. A Task with a name is a kernel that a graph started. rocpd_api: calls of
HIP, roctx and rlog ranges (UserMarker: named by their message) and marks, the profiler's own work (overhead). Ranges
that autograd made (ext_autogradapi, or domain torch) are operators. rocpd_monitor: counters (sclk in MHz and others), a
row where a value begins. Counters of kernels (rocpd_counter) become totals: a row for each device, kernel and counter.

Work has pid and `correlation` of its call. `bytes` and shape are those of the call, if it started this work alone.
`device` is gpuId, `stream` queueId. hipExtModuleLaunchKernel counts work items, other launches count blocks, but where
rocprofiler-sdk collected, all count work items. Where the file does not show which it was, the numbers are in `args`.

args: args, category, sizes and seq (autograd), stream (a handle), sequence, op_type, grid, group_segment_size.
Not supported: stack frames (rocpd_stackframe), ext_callstack (sums that rpd made), addresses of copies. Sources: files
of 2023 and 2025, tableSchema.cmd, RoctracerDataSource.cpp, RocprofDataSource.cpp and tracing.py of rocmProfileData.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa

from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Column, Mask, pc
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers import rocm
from tracekit.readers.amd._joins import Numbers
from tracekit.readers.amd._rows import activities, args, region_kind
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import BATCH_ROWS, MOST_NAME, RowBuilder, bounded
from tracekit.readers.head import Head
from tracekit.readers.names import Demangler
from tracekit.readers.source import Source
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import Columns, SqlContext, coded, integers
from tracekit.readers.sqlite.database import CellType, Database, RowBlock, quoted

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]


def sniff(head: Head) -> Confidence:
    """Return YES for the two tables of calls and work."""
    return Confidence.YES if {"rocpd_api", "rocpd_op", "rocpd_string"} <= head.tables else Confidence.NO


# The tables of rocmProfileData's database, one after the other, as batches.


_FACTS = (
    *("rocpd_metadata", "rocpd_string", "rocpd_ustring", "rocpd_api_ops", "rocpd_copyapi", "rocpd_kernelapi"),
    *("rocpd_kernelcodeobject", "ext_autogradapi"),
)
_EVENTS = ("rocpd_op", "rocpd_api", "rocpd_monitor", "rocpd_counter")
_MARKER = "UserMarker"
_WORK_ITEMS = "'hipExtModuleLaunchKernel', 'hipHccModuleLaunchKernel'"
"""Launches whose grid is in work items."""
_OVERHEAD = re.compile(r"(?:\w*Table|\w*Logger|\w*DataSource)::\w+|\w+_activity_callback|\w*[oO]verhead\w*", re.ASCII)
_CUDA = re.compile(r"cuda[A-Z_]", re.ASCII)
_CACHED = 1 << 20
_NONE: I64 = np.zeros(0, np.int64)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return events and totals. Raises: ParseError for a damaged database, or one of another program."""
    db = Database(source, ledger)
    run = Run(sources=[SourceFacts(source.name, "rpd", facts={"tool": "rocmProfileData"})])
    ctx = SqlContext(db, run, options, ledger, Demangler(ledger, enabled=options.demangle))
    try:
        if not {"rocpd_api", "rocpd_op"} <= db.tables.keys():
            raise db.error(ValueError("no tables rocpd_api and rocpd_op"))
        for tag, value in db.small("rocpd_metadata", "tag", "value", limit=1000):
            if tag == "schema_version":
                run.sources[0].facts["schema_version"] = str(value)
        reading = _RpdReading(ctx)
    except BaseException:
        db.close()
        raise
    return ReadResult(run, reading.batches(), False, (ledger,))


class _Texts:
    """The texts of a table by their number."""

    def __init__(self, ctx: SqlContext, table: str) -> None:
        self._ctx, self._known = ctx, dict[int, str]()
        self._table = table if {"id", "string"} <= set(ctx.db.tables.get(table, ())) else ""

    def of(self, number: int) -> str | None:
        """Return a text, None for a missing number or an empty text."""
        if not self._table:
            return None
        known = self._known.get(number)
        if known is None:
            rows = self._ctx.db.rows(f'select "string" from {quoted(self._table)} where "id" = ?', (number,))
            known = bounded(str(rows[0][0]), self._ctx.ledger) if rows and rows[0][0] is not None else ""
            if len(self._known) >= _CACHED:
                self._known.clear()
            self._known[number] = known
        return known or None

    def column(self, numbers: Column | None, count: int) -> Column:
        """Return the texts of a column of numbers, "" for none."""
        texts = coded(numbers, self.of)
        empty = arrow.array([""], pa.string())
        return (
            arrow.take(empty, np.zeros(count, np.int64)) if texts is None else pc.fill_null(texts.cast(pa.string()), "")
        )


_BLOCK_TEXT = 64 << 20
"""Bytes of one text column of a block, where texts are long."""
_FEW_ROWS = 1 << 10


def _longest(db: Database, table: str) -> int:
    """Return the length of the longest text of a table, 0 without one."""
    if "string" not in db.tables.get(table, ()):
        return 0
    length = db.rows(f'select max(length("string")) from {quoted(table)}')[0][0]
    return length if isinstance(length, int) else 0


class _RpdReading:
    """One database.

    call: the call of work. alone: the calls with one piece of work. pid: the process of a call. sizes: bytes of the
    copy of a call. shapes: columns of rocpd_kernelapi by call. blocks: whether grids count blocks, None if not known.
    """

    def __init__(self, ctx: SqlContext) -> None:
        self.ctx, self.db = ctx, ctx.db
        longest = max((_longest(ctx.db, table) for table in ("rocpd_string", "rocpd_ustring")), default=0)
        # Texts are joined and compared row by row, so that rows with long ones come in smaller blocks.
        ctx.db.block_rows = max(_FEW_ROWS, min(BATCH_ROWS, _BLOCK_TEXT // max(min(longest, MOST_NAME), 1)))
        self.strings = _Texts(ctx, "rocpd_string")
        self.more_strings = _Texts(ctx, "rocpd_ustring") if "rocpd_ustring" in ctx.db.tables else self.strings
        ops, calls = self._columns("rocpd_api_ops", "op_id", "api_id")
        self.call = Numbers(*_first_of_each(ops, calls))
        distinct, counts = np.unique(calls, return_counts=True)
        self.alone = distinct[counts == 1]
        self.pid = Numbers(*self._columns("rocpd_api", "id", "pid"))
        self.sizes = self._sizes()
        self.shapes = {
            name: Numbers(*self._columns("rocpd_kernelapi", "api_ptr_id", name))
            for name in ("gridX", "gridY", "gridZ", "workgroupX", "workgroupY", "workgroupZ", "groupSegmentSize")
        }
        self.of_autograd = sets.unique(self._columns("ext_autogradapi", "api_ptr_id", "api_ptr_id")[0])
        self.blocks, self.items = self._units()

    def _columns(self, table: str, *names: str) -> tuple[I64, I64]:
        """Return two columns of integers; the rows with both alone."""
        parts: list[tuple[I64, I64]] = []
        if table in self.db.tables and set(names) <= set(self.db.tables[table]):
            for block in self.db.blocks(table, integers(*dict.fromkeys(names))):
                good = block.valid(names[0]) & block.valid(names[1])
                parts.append((block.integers(names[0])[good], block.integers(names[1])[good]))
        if not parts:
            return _NONE, _NONE
        return np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts])

    def _sizes(self) -> Numbers:
        keys, sizes = self._columns("rocpd_copyapi", "api_ptr_id", "size")
        if {"api_ptr_id", "size", "width", "height"} <= set(self.db.tables.get("rocpd_copyapi", ())):
            flat = self.db.rows(
                "select api_ptr_id, width * height from rocpd_copyapi where typeof(size) <> 'integer' "
                "and typeof(width) = 'integer' and typeof(height) = 'integer' and typeof(width * height) = 'integer' "
                "and typeof(api_ptr_id) = 'integer'"
            )
            rows = np.array(flat, np.int64).reshape(-1, 2)
            keys, sizes = np.concatenate((keys, rows[:, 0])), np.concatenate((sizes, rows[:, 1]))
        return Numbers(keys, sizes)

    def _units(self) -> tuple[bool | None, I64]:
        """Return whether grids count blocks, None if it is not known; and the calls that count work items."""
        tables = self.db.tables
        needed = {"api_ptr_id", *(f"{what}{axis}" for what in ("grid", "workgroup") for axis in "XYZ")}
        if not needed <= set(tables.get("rocpd_kernelapi", ())) or not {"id", "apiName_id"} <= set(tables["rocpd_api"]):
            return None, _NONE
        named = f"select id from rocpd_string where string in ({_WORK_ITEMS})"
        if not {"id", "string"} <= set(tables.get("rocpd_string", ())):
            named = "select 0 where 0"
        rows = self.db.rows(f"select id from rocpd_api where apiName_id in ({named}) and typeof(id) = 'integer'")
        rest = " or ".join(f"grid{axis} % workgroup{axis} <> 0" for axis in "XYZ")
        proof = self.db.rows(
            f"select 1 from rocpd_kernelapi where ({rest}) and api_ptr_id in "
            f"(select id from rocpd_api where apiName_id not in ({named})) limit 1"
        )
        if proof:
            return True, np.array(rows, np.int64).reshape(-1)
        sdk = (
            self.db.rows("select 1 from rocpd_string where string like 'MEMORY_COPY_%' limit 1")
            if "id" in named
            else []
        )
        return (False if sdk else None), np.array(rows, np.int64).reshape(-1)

    def batches(self) -> Iterator[pa.RecordBatch]:
        ctx = self.ctx
        spans = integers("id", "start", "end")
        op = spans | integers("gpuId", "queueId", "sequenceId", "description_id", "opType_id")
        api = spans | integers("pid", "tid", "apiName_id", "args_id", "category_id", "domain_id")
        monitor = integers("start", "end", "deviceId")
        monitor |= dict.fromkeys(("deviceType", "monitorType", "value"), CellType.TEXT)
        with ctx.db:
            try:
                yield from cuda.events(ctx, "rocpd_op", op, self._work)
                yield from cuda.events(ctx, "rocpd_api", api, self._calls, zero="never")
                if "rocpd_monitor" in self.db.tables:
                    yield from cuda.events(ctx, "rocpd_monitor", monitor, self._values, zero="never")
                yield from self._totals()
                for table in self.db.tables:
                    if table not in _EVENTS:
                        count = self.db.count(table)
                        ctx.ledger.read += count
                        if table in _FACTS:
                            ctx.ledger.facts += count
                        else:
                            ctx.ledger.ignore(table, count)
            finally:
                ctx.names.close()

    def _work(self, block: RowBlock) -> Columns:
        types = self.strings.column(block.columns.get("opType_id"), block.count)
        given = self.strings.column(block.columns.get("description_id"), block.count)
        activity = activities(given, types)
        shown, raw = self.ctx.names.columns(activity["name"])
        call = self.call.find(block.columns.get("id"))
        columns: Columns = {
            "kind": activity["kind"],
            "copy_kind": activity["copy_kind"],
            "name": shown,
            "raw_name": raw,
            "pid": self.pid.find(call),
            "device": cuda.int32(self.ctx, block, "gpuId"),
            "stream": block.columns.get("queueId"),
            "correlation": call,
        }
        kind = activity["kind"].cast(pa.string())
        only = self._only(call, block.count)
        copies = only & arrow.bools(pc.equal(kind, str(Kind.MEMCPY)))
        sizes = self.sizes.find(call)
        columns["bytes"] = None if sizes is None else pc.if_else(arrow.array(copies), sizes, None)
        cells = {
            "op_type": pc.if_else(pc.or_(pc.equal(given, ""), pc.equal(types, "KernelExecution")), "", types),
            "sequence": _texts(block.columns.get("sequenceId"), block.count),
        }
        if call is not None:
            kernels = only & arrow.bools(pc.equal(kind, str(Kind.KERNEL)))
            columns |= self._shape(call, kernels, cells)
        columns["args"] = args(cells, list(cells))
        return columns

    def _only(self, call: Column | None, count: int) -> Mask:
        """Return the mask of the work that is the only one of its call."""
        if call is None or not len(self.alone):
            return np.zeros(count, np.bool_)
        wanted = arrow.ints(call, -1)
        place = np.minimum(np.searchsorted(self.alone, wanted), len(self.alone) - 1)
        mask: Mask = (self.alone[place] == wanted) & arrow.valid(call)
        return mask

    def _shape(self, call: Column, kernels: Mask, cells: dict[str, Column]) -> Columns:
        """Return grid, block and shared memory of kernels; what has no certain meaning goes into cells."""
        columns: Columns = {}
        mask, count = arrow.array(kernels), len(call)
        sizes = {
            name: pc.if_else(mask, values, None)
            for name, table in self.shapes.items()
            if (values := table.find(call)) is not None
        }
        items = np.isin(arrow.ints(call, -1), self.items)
        for axis in "XYZ":
            threads, grid = (_int32(sizes.get(f"{name}{axis}"), count) for name in ("workgroup", "grid"))
            size = pc.if_else(pc.greater(threads, 0), threads, None)
            blocks = pc.add(pc.divide(pc.subtract(grid.cast(pa.int64()), 1), size.cast(pa.int64())), 1).cast(pa.int32())
            counted = blocks if self.blocks is False else pc.if_else(arrow.array(items), blocks, grid)
            known = np.ones(count, np.bool_) if self.blocks is not None else items
            columns[f"block_{axis.lower()}"] = size
            columns[f"grid_{axis.lower()}"] = pc.if_else(arrow.array(known), counted, None)
            if not known.all():
                cells[f"grid_{axis.lower()}"] = _texts(pc.if_else(arrow.array(known), None, grid), count)
        shared = sizes.get("groupSegmentSize")
        if self.blocks:
            columns["dynamic_smem_bytes"] = shared
        else:
            cells["group_segment_size"] = _texts(shared, count)
        return columns

    def _calls(self, block: RowBlock) -> Columns:
        ids = block.columns.get("id")
        names = self.strings.column(block.columns.get("apiName_id"), block.count)
        args_text = self.more_strings.column(block.columns.get("args_id"), block.count)
        domains = self.strings.column(block.columns.get("domain_id"), block.count)
        marker = pc.and_(pc.equal(names, _MARKER), pc.not_equal(args_text, ""))
        pairs = arrow.encoded(pc.binary_join_element_wise(domains, names, "\n"))
        kinds = [_call_kind(*text.split("\n", 1)) for text in arrow.texts(pairs.dictionary)]
        kind = arrow.take(arrow.array([str(each) for each in kinds], pa.string()), arrow.ints(pairs.indices))
        ranges = pc.equal(kind, str(Kind.USER_RANGE))
        if len(self.of_autograd):
            by_autograd = arrow.array(np.isin(block.integers("id", -1), self.of_autograd))
            kind = pc.if_else(pc.and_(by_autograd, ranges), str(Kind.OPERATOR), kind)
        moment = pc.and_(ranges, arrow.array(block.integers("start") == block.integers("end")))
        kind = pc.if_else(moment, str(Kind.MARK), kind)
        calls = pc.is_in(kind, pa.array([str(Kind.RUNTIME), str(Kind.DRIVER)]))
        cells = {
            "args": pc.if_else(marker, "", args_text),
            "category": self.strings.column(block.columns.get("category_id"), block.count),
        }
        shown = arrow.encoded(pc.if_else(marker, args_text, names))
        durations = block.integers("end") - block.integers("start")
        return {
            "kind": arrow.encoded(kind),
            "dur_ns": arrow.array(durations, mask=arrow.bools(moment)),
            "name": shown,
            "pid": block.columns.get("pid"),
            "tid": block.columns.get("tid"),
            "correlation": None if ids is None else pc.if_else(calls, ids, None),
            "args": args(cells, list(cells)),
        }

    def _values(self, block: RowBlock) -> Columns:
        """Return the columns of counters: the name has the device, since all devices have the same counters."""
        parts = [
            block.columns.get(name, arrow.nulls(block.count, pa.string())) for name in ("deviceType", "monitorType")
        ]
        kinds, names = (pc.fill_null(part, "") for part in parts)
        number = _texts(block.columns.get("deviceId"), block.count, zero="0")
        values = block.columns.get("value", arrow.nulls(block.count, pa.string()))
        good = pc.fill_null(pc.match_substring_regex(values, r"^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$"), False)
        return {
            "kind": Kind.COUNTER,
            "dur_ns": None,
            "name": arrow.encoded(pc.binary_join_element_wise(kinds, number, names, " ")),
            "value": pc.if_else(good, values, None).cast(pa.float64()),
            "args": args({"value": pc.if_else(good, "", pc.fill_null(values, ""))}, ["value"]),
        }

    def _totals(self) -> Iterator[pa.RecordBatch]:
        """Yield a total for each device, kernel and counter."""
        ctx, tables = self.ctx, self.db.tables
        if "rocpd_counter" not in tables:
            return
        count = self.db.count("rocpd_counter")
        counted: list[tuple[object, ...]] = []
        op = {"id", "gpuId", "description_id"} <= set(tables["rocpd_op"])
        if op and {"op_id", "name_id", "value"} <= set(tables["rocpd_counter"]):
            counted = self.db.rows(
                'select o."gpuId", o."description_id", c."name_id", count(*), min(c.value), max(c.value), sum(c.value) '
                'from rocpd_counter c join rocpd_op o on o."id" = c."op_id" '
                "where typeof(c.value) in ('real', 'integer') and abs(c.value) < 1e300 "
                "group by 1, 2, 3 order by 1, 2, 3"
            )
        builder, taken = RowBuilder("totals"), 0
        for device, kernel, counter, calls, low, high, total in counted:
            name, metric = (self.strings.of(n) if isinstance(n, int) else None for n in (kernel, counter))
            device = device if isinstance(device, int) and 0 <= device < 1 << 31 else None
            number = int(calls) if isinstance(calls, int) else 0
            taken += number
            builder.add(
                source=ctx.options.source,
                run=0,
                section="metrics",
                order=len(builder),
                name=name,
                kind=str(Kind.KERNEL),
                calls=number,
                value_min=low,
                value_max=high,
                value_avg=total / number if isinstance(total, int | float) and number else None,
                device=device,
                args=orjson.dumps({"metric": metric, "total": total}).decode(),
            )
        if taken > count:
            raise self.db.error(ValueError("two rows of a table have one id"), "table rocpd_op")
        ctx.base += count
        ctx.ledger.read += count
        ctx.ledger.kept += len(builder)
        ctx.ledger.merged += taken - len(builder)
        ctx.ledger.ignore("rocpd_counter of no kernel", count - taken)
        if len(builder):
            ctx.ledger.totals_out += len(builder)
            yield builder.take()


def _call_kind(domain: str, name: str) -> Kind:
    """Return the kind of a row of rocpd_api."""
    if name == _MARKER:
        return Kind.USER_RANGE
    if (kind := rocm.call_kind(name)) is not None:
        return kind
    if _OVERHEAD.fullmatch(name):
        return Kind.OVERHEAD
    if domain == "torch":
        return Kind.OPERATOR
    if domain:
        kind = region_kind(domain, name, message=True)
        return Kind.USER_RANGE if kind is Kind.OTHER else kind
    if _CUDA.match(name):
        return Kind.RUNTIME
    return Kind.DRIVER if cuda.call_kind(name) is Kind.DRIVER else Kind.USER_RANGE


def _first_of_each(keys: I64, values: I64) -> tuple[I64, I64]:
    distinct, place = np.unique(keys, return_index=True)
    return distinct, values[place]


def _int32(values: Column | None, count: int) -> Column:
    if values is None:
        return arrow.nulls(count, pa.int32())
    fits = pc.and_(pc.greater_equal(values, 0), pc.less(values, 1 << 31))
    whole: Column = pc.if_else(fits, values, None).cast(pa.int32())
    return whole


def _texts(values: Column | None, count: int, zero: str = "") -> Column:
    if values is None:
        return arrow.take(arrow.array([zero], pa.string()), np.zeros(count, np.int64))
    texts: Column = pc.fill_null(values.cast(pa.string()), "")
    return texts

"""rocpd: the SQLite database of rocprofv3 (`--output-format rocpd`) and rocprof-sys, ROCm 6.4 to 7.

    rocpd_kernel_dispatch_<uuid>(id, pid, tid, agent_id, kernel_id, queue_id, stream_id, start, end, ..., event_id)
    rocpd_region_<uuid>(id, pid, tid, start, end, name_id, event_id)
    rocpd_event_<uuid>(id, category_id, stack_id, correlation_id, extdata, ...)

A record is a row of a table. `event_id` counts the rows of the tables in the order in which they are read. Times are ns
of the machine's clock since it was started. Tables are found by the beginning of their names. Those with one ending
belong together: a merged database has one set for each process. Columns are found by name. The database's own views are
not used, because they leave out rows without an event, a thread or a text.

Read: kernels, copies, allocations, calls of HIP and HSA, roctx ranges and marks (named by their message), calls of RCCL
(communication), events of the kernel driver (overhead), other regions (those of rocprof-sys too), samples. A sample
with a counter is a counter, another one a mark. `correlation` is `stack_id`, which work has from the call that started
it. `device` is the number among the GPUs (`type_index`). The device of a copy is its destination, or its source when
that alone is a GPU. `stream` is HIP's stream; the queue of HSA is in `args`. grid_x, grid_y and grid_z count blocks,
where the file counts work items. `registers` are vector registers. Shared memory is LDS: static of the kernel, dynamic
beyond that in the launch. A FREE has the size of the ALLOC at its address before it.

Counters of kernels become totals: a row for each device, kernel and counter, with the smallest, largest and mean value
over its launches (`merged` counts the rows beyond the first). The instances of a counter (one for each shader engine
and the like) are added up within a launch, as rocprofv3 does.

args: queue, dispatch_id, tid (thread that started the work), scratch_bytes, sgprs, accum_vgprs, region (a roctx name
for the kernel), external_correlation; src_device and dst_device of a copy between two GPUs; address, agent, level.
Not supported: arguments of calls (rocpd_arg), which are counted as ignored; call stacks.
Sources: a file of ROCm 7.2, `rocpd_tables.sql`, `data_views.sql` and generateRocpd.cpp of rocprofiler-sdk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa

from tracekit.model.arrow import F64
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.amd import _rows as rows
from tracekit.readers.amd._joins import TableGroup, groups_of, numbers_of
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import RowBuilder
from tracekit.readers.head import Head
from tracekit.readers.names import Demangler
from tracekit.readers.source import Source
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import SqlContext
from tracekit.readers.sqlite.database import Database, quoted

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_TABLES = ("rocpd_metadata", "rocpd_info_process", "rocpd_kernel_dispatch")


def sniff(head: Head) -> Confidence:
    """Return YES for tables whose names begin as three that every such database has."""
    found = [name for name in head.tables if name.startswith("rocpd_")]
    every = all(any(name.startswith(table) for name in found) for table in _TABLES)
    return Confidence.YES if every else Confidence.NO


# The tables of rocpd's database, one after the other, as batches.


_FACTS = frozenset({"metadata", "string", "event", "track"})
_READ = frozenset({"kernel_dispatch", "memory_copy", "memory_allocate", "region", "sample", "pmc_event"})


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return events and totals. Raises: ParseError for a damaged database, or one of another program."""
    db = Database(source, ledger)
    run = Run()
    ctx = SqlContext(db, run, options, ledger, Demangler(ledger, enabled=options.demangle))
    try:
        groups = list(groups_of(ctx))
        if not groups:
            raise db.error(ValueError("no table rocpd_metadata"))
        run.sources.append(SourceFacts(source.name, "rocpd", facts=_facts(groups)))
    except BaseException:
        db.close()
        raise
    return ReadResult(run, _batches(ctx, groups), False, (ledger,))


def _facts(groups: list[TableGroup]) -> dict[str, object]:
    facts: dict[str, object] = {"tool": "ROCprofiler-SDK"}
    nodes: set[object] = set()
    for group in groups:
        for tag, value in group.small("metadata", "tag", "value"):
            if tag == "schema_version":
                facts["schema_version"] = str(value)
        for pid, command in group.small("info_process", "pid", "command"):
            if isinstance(pid, int) and command:
                facts.setdefault("command", str(command))
                group.ctx.run.processes.setdefault((group.ctx.options.source, pid), str(command))
        for node, host in group.small("info_node", "id", "hostname"):
            nodes.add(node)
            if host:
                facts.setdefault("host", str(host))
    if len(nodes) > 1:
        text = "the database has processes of several machines: their clocks differ, and so may the meaning of a device"
        groups[0].ctx.ledger.note("several-machines", text, len(nodes))
    return facts


def _batches(ctx: SqlContext, groups: list[TableGroup]) -> Iterator[pa.RecordBatch]:
    with ctx.db:
        try:
            for group in groups:
                yield from _group(group)
            names = {table for group in groups for table in group.tables.values()}
            for table in ctx.db.tables:
                if table not in names:
                    _ignore(ctx, table, table)
        finally:
            ctx.names.close()


def _group(group: TableGroup) -> Iterator[pa.RecordBatch]:
    ctx, tables = group.ctx, group.tables
    if table := tables.get("kernel_dispatch"):
        yield from cuda.events(ctx, table, rows.KERNEL, lambda b: rows.kernels(group, b))
    if table := tables.get("memory_copy"):
        yield from cuda.events(ctx, table, rows.COPY, lambda b: rows.copies(group, b))
    if table := tables.get("region"):
        yield from cuda.events(ctx, table, rows.REGION, lambda b: rows.regions(group, b), zero="never")
    if table := tables.get("memory_allocate"):
        sizes = rows.sizes_of(group, table)
        make = rows.ALLOCATION
        yield from cuda.events(ctx, table, make, lambda b: rows.allocations(group, b, sizes), zero="never")
    counted = _CountedKernels(group)
    if table := tables.get("sample"):
        known = counted.samples(table)
        yield from cuda.events(
            ctx,
            table,
            rows.SAMPLE,
            lambda b: rows.samples(group, b, known),
            start="timestamp",
            end=None,
            zero="never",
        )
    yield from counted.totals()
    for name, table in tables.items():
        if name in _READ:
            continue
        if name in _FACTS or name.startswith("info_"):
            count = ctx.db.count(table)
            ctx.ledger.read += count
            ctx.ledger.facts += count
        else:
            _ignore(ctx, f"rocpd_{name}", table)


def _ignore(ctx: SqlContext, name: str, table: str) -> None:
    count = ctx.db.count(table)
    ctx.ledger.read += count
    ctx.ledger.ignore(name, count)


class _CountedKernels:
    """The values of counters: those of samples become events, the others totals of kernels."""

    def __init__(self, group: TableGroup) -> None:
        self._group = group
        self._table = group.tables.get("pmc_event", "")
        have = set(group.ctx.db.tables.get(self._table, ()))
        self._usable = {"event_id", "pmc_id", "value"} <= have
        self._of_samples = "0"
        """SQL of the condition that a row belongs to a sample."""

    def _columns(self, name: str, *columns: str) -> str:
        """Return the name of a table in quotation marks, "" where it lacks one of these columns."""
        table = self._group.tables.get(name, "")
        return quoted(table) if table and set(columns) <= set(self._group.ctx.db.tables[table]) else ""

    def samples(self, table: str) -> rows.CounterSamples:
        """Return what the samples name."""
        group = self._group
        tracks = group.small("track", "id", "pid", "tid", "name_id")
        found: list[tuple[object, ...]] = []
        info = self._columns("info_pmc", "id", "name")
        if self._usable and info and self._columns("sample", "event_id"):
            self._of_samples = f'p."event_id" in (select "event_id" from {quoted(table)})'
            found = group.ctx.db.rows(
                f'select p."event_id", p."value", i."name" from {quoted(self._table)} p '
                f'left join {info} i on i."id" = p."pmc_id" where {self._of_samples} and {_NUMBER}'
            )
        values: F64 = np.array([row[1] for row in found], np.float64)
        names = [None if row[2] is None else str(row[2]) for row in found]
        places = {row[0]: place for place, row in reversed(list(enumerate(found)))}
        if self._of_samples != "0":
            self._count_samples(len(places))
        one, two, three = (numbers_of((row[0], row[i]) for row in tracks) for i in (1, 2, 3))
        return rows.CounterSamples(one, two, three, numbers_of(places.items()), values, names)

    def _count_samples(self, used: int) -> None:
        """Count the counters' rows that samples took, and the others of their events."""
        ctx = self._group.ctx
        count = _whole(ctx.db.rows(f"select count(*) from {quoted(self._table)} p where {self._of_samples}")[0][0])
        ctx.ledger.read += count
        ctx.ledger.merged += used
        if count > used:
            text = "dropped: a further counter of a sample, or one without a value"
            ctx.ledger.drop("second-counter", count - used, where="rocpd_pmc_event", text=text)

    def totals(self) -> Iterator[pa.RecordBatch]:
        """Yield a total for each device, kernel and counter."""
        group, table = self._group, self._table
        ctx = group.ctx
        if not table:
            return
        dispatch = self._columns("kernel_dispatch", "event_id", "kernel_id", "agent_id")
        info = self._columns("info_pmc", "id", "name")
        builder, taken = RowBuilder("totals"), 0
        count = ctx.db.count(table)
        if self._of_samples != "0":
            count -= _whole(ctx.db.rows(f"select count(*) from {quoted(table)} p where {self._of_samples}")[0][0])
        if self._usable and dispatch and info:
            found = ctx.db.rows(
                "select agent, kernel, counter, count(*), min(v), max(v), sum(v), sum(n) from ("
                'select k."agent_id" agent, k."kernel_id" kernel, i."name" counter, sum(p."value") v, count(*) n '
                f'from {quoted(table)} p join {info} i on i."id" = p."pmc_id" '
                f'join {dispatch} k on k."event_id" = p."event_id" where {_NUMBER} and not {self._of_samples} '
                'group by p."event_id", k."agent_id", k."kernel_id", i."name") '
                "group by agent, kernel, counter order by 1, 2, 3"
            )
            about = {row[0]: row[1] for row in group.small("info_pmc", "name", "description")}
            taken = sum(_whole(row[-1]) for row in found)
            if taken > count:
                raise ctx.db.error(ValueError("two rows of a table have one id"), f"table {table}")
            for row in found:
                self._add(builder, row, about.get(row[2]))
        ctx.ledger.read += count
        ctx.base += count
        ctx.ledger.kept += len(builder)
        ctx.ledger.merged += taken - len(builder)
        if count > taken:
            ctx.ledger.ignore("rocpd_pmc_event of no kernel and no sample", count - taken)
        if len(builder):
            ctx.ledger.totals_out += len(builder)
            yield builder.take()

    def _add(self, builder: RowBuilder, row: tuple[object, ...], about: object) -> None:
        """Add a total."""
        group, ctx = self._group, self._group.ctx
        agent, number, counter, calls, low, high, total, _ = row
        kernel = group.kernels.get(number) if isinstance(number, int) else None
        args: dict[str, object] = {"metric": str(counter)}
        args |= {"description": str(about)} if about else {}
        args["total"] = total
        device = group.devices.find(pa.array([agent], pa.int64())) if isinstance(agent, int) else None
        builder.add(
            section="metrics",
            kind=str(Kind.KERNEL),
            name=f"kernel {number}" if kernel is None else kernel.name,
            raw_name=None if kernel is None else kernel.raw_name,
            calls=calls,
            value_min=low,
            value_max=high,
            value_avg=total / _whole(calls) if isinstance(total, int | float) else None,
            device=None if device is None else device[0].as_py(),
            source=ctx.options.source,
            run=0,
            order=ctx.ledger.totals_out + len(builder),
            args=orjson.dumps(args).decode(),
        )


_NUMBER = "typeof(p.\"value\") in ('real', 'integer') and abs(p.\"value\") < 1e300"


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0

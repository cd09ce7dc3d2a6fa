"""rocprof-db: the database of rocprof up to ROCm 6 (`rocprof --stats`, `--hip-trace`, `--sys-trace`: `results.db`).

    KERN("Index", "KernelName", "gpu-id", "queue-id", ..., "DispatchNs", "BeginNs", "EndNs", "CompleteNs", "DurationNs")
    HIP("BeginNs", "EndNs", "pid", "tid", "Name", "args", "Index", "Data", "__section", "__lane", "DurationNs")
    OPS("BeginNs", "EndNs", "dev-id", "queue-id", "Name", "pid", "tid", "Index", "Data", ...)

A record is a row of a table. `event_id` counts the rows of the tables in the order in which they are read. Times are ns
of the machine's clock since it was started. Tables and columns are found by name: there is no version.

KERN (A in older files): kernels, as in results.csv, with `args` as there. HIP: runtime calls. HSA, KFD: calls of
the driver. OPS: kernels and barriers. COPY: copies and fills; async-copy is one of HSA. rocTX: ranges; one of 1 ns is a
mark, since rocprof writes marks so. Columns of KERN that are named after a counter become totals: a row for each
device, kernel and counter.

`Index` joins a call to its work: it is `correlation`. Where HIP and HSA are both there, the ids of HSA begin at 2^40.
Older files have the row of rocprof's page in `pid`; there the process of work is in `proc-id`, and calls have it too if
it is the only one. `bytes` of a copy are those of its call (sizeBytes, width times height), if the call made this copy
alone. `device` is the number in the file. `stream` is the number that rocprof gave the HIP stream; the queue is in
`args`. A roctx range that was started and stopped by its id may overlap others, so its thread is in `args`.

Where KERN and OPS both have kernels they are the same launches: those of OPS are events, and KERN gives the counters.
Not supported: MM (memcopy_info.csv again). Sources: files of ROCm 4 to 6, tblextr.py, sqlitedb.py, mem_manager.py of
rocprofiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, pc
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers import rocm
from tracekit.readers.amd._joins import Numbers
from tracekit.readers.amd._rows import COUNTED, Cells, KernelCounters, args, kernel_names, results
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import RowBuilder
from tracekit.readers.head import Head
from tracekit.readers.names import Demangler
from tracekit.readers.source import Source
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import Columns, SqlContext, integers
from tracekit.readers.sqlite.database import CellType, Database, RowBlock, quoted

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_TABLES = frozenset({"KERN", "A", "HIP", "HSA", "KFD", "OPS", "COPY", "rocTX", "MM"})


def sniff(head: Head) -> Confidence:
    """Return YES for the tables of rocprof and no others."""
    tables = frozenset(name for name in head.tables if not name.startswith("sqlite_"))
    return Confidence.YES if tables and tables <= _TABLES and tables != {"A"} else Confidence.NO


# The tables of rocprof's results.db, one after the other, as batches.


_HSA_IDS = 1 << 40
_PID_UNIT = 1 << 40
"""Ids of calls count within a process: pid times this, plus the id, is a key."""
_MOST_PIDS = 1 << 22
_SIZES = (
    r"[ (]sizeBytes\((?P<size>[0-9]{1,18})\)",
    r"[ (]count\((?P<size>[0-9]{1,18})\)",
    r"^\(0x[0-9a-f]+, (?:\{handle=[0-9]+\}|[0-9]+), 0x[0-9a-f]+, (?:\{handle=[0-9]+\}|[0-9]+), (?P<size>[0-9]{1,18}),",
)
"""Bytes in the arguments of calls: hipMemcpy and its like, those with arrays, hsa_amd_memory_async_copy."""
_RECTANGLE = r"[ (]width\((?P<width>[0-9]{1,9})\) height\((?P<height>[0-9]{1,9})\)"
_TEXTS = {"KernelName", "sig", "obj"}


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return events and totals. Raises: ParseError for a damaged database, or one of another program."""
    db = Database(source, ledger)
    run = Run(sources=[SourceFacts(source.name, "rocprof-db", facts={"tool": "rocprof"})])
    ctx = SqlContext(db, run, options, ledger, Demangler(ledger, enabled=options.demangle))
    try:
        if not any(
            {"Index", "KernelName"} <= set(cells) or {"BeginNs", "Name"} <= set(cells) for cells in db.tables.values()
        ):
            raise db.error(ValueError("no table of rocprof"))
        reading = _RocprofDbReading(ctx)
    except BaseException:
        db.close()
        raise
    return ReadResult(run, reading.batches(), False, (ledger,))


class _RocprofDbReading:
    """One database.

    display: `pid` is a row of rocprof's page, as up to ROCm 5. only: the process of all work there, None if there are
    several or it is not known. sizes: bytes of the copies that have a call alone, by key of the call.
    """

    def __init__(self, ctx: SqlContext) -> None:
        self.ctx, self.tables = ctx, ctx.db.tables
        work = [name for name in ("OPS", "COPY") if name in self.tables]
        self.display = not any("__section" in cells for cells in self.tables.values())
        self.only = self._only_process(work) if self.display else None
        self.hsa_copies = "COPY" in work and "dev-id" not in self.tables["COPY"]
        self.hsa_ids = _HSA_IDS if self._has_rows("HIP") else 0
        self.sizes = self._sizes() if "COPY" in work else Numbers(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self.counters = KernelCounters()

    def _has_rows(self, table: str) -> bool:
        return table in self.tables and bool(self.ctx.db.rows(f"select 1 from {quoted(table)} limit 1"))

    def _only_process(self, work: Sequence[str]) -> int | None:
        """Return the process of all work, None if it is not known, or where ids of calls repeat."""
        processes: set[object] = set()
        for table in work:
            if "proc-id" in self.tables[table]:
                rows = self.ctx.db.rows(f'select distinct "proc-id" from {quoted(table)} limit 9')
                processes |= {row[0] for row in rows}
        for table in ("HIP", "HSA"):
            if "Index" in self.tables.get(table, ()):
                repeated = f'select 1 from {quoted(table)} group by "Index" having count(*) > 1 limit 1'
                if self.ctx.db.rows(repeated):
                    return None
        only = next(iter(processes)) if len(processes) == 1 else None
        return only if isinstance(only, int) else None

    # Joins

    def _pid_of_work(self, block: RowBlock) -> Column | None:
        return block.columns.get("proc-id" if self.display else "pid")

    def _pid_of_calls(self, block: RowBlock) -> Column | int | None:
        return self.only if self.display else block.columns.get("pid")

    def _keys(self, pids: Column | int | None, block: RowBlock) -> I64:
        """Return the key of the call that rows belong to, -1 where process or id are not known."""
        ids = block.integers("Index", -1)
        numbers = np.full(block.count, -1, np.int64) if pids is None else pids
        processes = np.full(block.count, numbers) if isinstance(numbers, int) else _ints(numbers)
        good = (processes >= 0) & (processes < _MOST_PIDS) & (ids >= 0) & (ids < _PID_UNIT)
        return np.where(good, processes * _PID_UNIT + ids, -1)

    def _sizes(self) -> Numbers:
        """Return the bytes of the copies that are the only ones of their call."""
        copied = [self._keys(self._pid_of_work(b), b) for b in self._blocks("COPY", "proc-id", "pid", "Index")]
        keys, counts = np.unique(np.concatenate(copied or [np.zeros(0, np.int64)]), return_counts=True)
        alone = keys[(counts == 1) & (keys >= 0)]
        found_keys, found_sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        table = "HSA" if self.hsa_copies else "HIP"
        for block in self._blocks(table, "pid", "Index", texts=("args",)) if table in self.tables else ():
            call_keys = self._keys(self._pid_of_calls(block), block)
            texts = block.columns.get("args")
            place = np.minimum(np.searchsorted(alone, call_keys), max(len(alone) - 1, 0))
            is_alone = (alone[place] == call_keys) if len(alone) else np.zeros(block.count, np.bool_)
            if texts is not None and is_alone.any():
                sizes = size_of(texts.filter(arrow.array(is_alone)))
                known = arrow.valid(sizes)
                found_keys.append(call_keys[is_alone][known])
                found_sizes.append(arrow.ints(sizes)[known])
        return Numbers(np.concatenate(found_keys), np.concatenate(found_sizes))

    def _blocks(self, table: str, *names: str, texts: Sequence[str] = ()) -> Iterator[RowBlock]:
        yield from self.ctx.db.blocks(table, integers(*names) | dict.fromkeys(texts, CellType.TEXT))

    # Tables

    def batches(self) -> Iterator[pa.RecordBatch]:
        ctx = self.ctx
        makes: dict[str, Callable[[RowBlock], Columns]] = {
            "OPS": self._work,
            "COPY": self._work,
            "HIP": lambda block: self._calls(block, Kind.RUNTIME, 0),
            "HSA": lambda block: self._calls(block, Kind.DRIVER, self.hsa_ids),
            "KFD": lambda block: self._calls(block, Kind.DRIVER, None),
            "rocTX": self._ranges,
        }
        whole = "dev-id", "queue-id", "stream-id", "pid", "tid", "Index", "proc-id", "__lane"
        wanted = integers("BeginNs", "EndNs", *whole)
        wanted |= dict.fromkeys(("Name", "args", "Data", "roctx-range"), CellType.TEXT)
        totals = RowBuilder("totals")
        with ctx.db:
            try:
                for name in ("KERN", "A"):
                    if name in self.tables:
                        yield from self._kernels(name, totals)
                for name, make in makes.items():
                    if name in self.tables:
                        zero = "both" if name in ("OPS", "COPY") else "never"
                        yield from cuda.events(ctx, name, wanted, make, start="BeginNs", end="EndNs", zero=zero)
                for name in self.tables.keys() - makes.keys() - {"KERN", "A"}:
                    count = ctx.db.count(name)
                    ctx.ledger.read += count
                    ctx.ledger.ignore(name, count)
            finally:
                ctx.names.close()
        self.counters.rows(totals, ctx.options.source)
        if len(totals):
            ctx.ledger.totals_out += len(totals)
            yield totals.take()

    def _kernels(self, table: str, totals: RowBuilder) -> Iterator[pa.RecordBatch]:
        """Yield the kernels of KERN. Launches without times become totals."""
        ctx, have = self.ctx, self.tables[table]
        known = COUNTED["results"].others
        wanted = {name: CellType.TEXT if name in _TEXTS else CellType.INTEGER for name in have if name in known}
        wanted |= dict.fromkeys((name for name in have if name not in known), CellType.REAL)
        timed = {"BeginNs", "EndNs"} <= set(have)
        if timed and not self._has_rows("OPS"):
            make = lambda block: results(self._take_counters(block), arrow.nulls(0, pa.null()))  # noqa: E731
            yield from cuda.events(ctx, table, wanted, make, start="BeginNs", end="EndNs")
            return
        calls: dict[tuple[int | None, str], int] = {}
        last = 0
        for block in ctx.db.blocks(table, wanted):
            cells = self._take_counters(block)
            last += block.count
            ctx.ledger.read += block.count
            if timed:
                ctx.ledger.ignore(f"{table} (launches that OPS has too)", block.count)
                continue
            devices = block.columns.get("gpu-id", arrow.nulls(block.count, pa.int64())).to_pylist()
            for key in zip(devices, arrow.texts(kernel_names(cells["KernelName"])), strict=True):
                calls[key] = calls.get(key, 0) + 1
        ctx.base += last
        for (device, name), count in calls.items():
            row = {"section": "gpu", "name": name, "kind": str(Kind.KERNEL), "calls": count, "device": device}
            totals.add(source=ctx.options.source, run=0, order=len(totals), **row)
            ctx.ledger.kept += 1
            ctx.ledger.merged += count - 1

    def _take_counters(self, block: RowBlock) -> Cells:
        """Return the rows of KERN as texts, and collect their counters."""
        cells = {name: pc.fill_null(column.cast(pa.string()), "") for name, column in block.columns.items()}
        cells.setdefault("KernelName", arrow.array([""] * block.count, pa.string()))
        known = COUNTED["results"].others
        names = kernel_names(cells["KernelName"])
        for counter in [name for name in block.columns if name and name not in known]:
            self.counters.add(counter, names, block.columns.get("gpu-id"), arrow.floats(block.columns[counter]))
        return cells

    def _work(self, block: RowBlock) -> Columns:
        """Return the columns of kernels, copies, fills and barriers."""
        names = _unquoted(block)
        encoded = arrow.encoded(names)
        copied = block.table == "COPY"
        commands = [_command(text, copied=copied) for text in arrow.optional_texts(encoded.dictionary)]
        codes = arrow.ints(encoded.indices, len(commands))
        commands.append((Kind.MEMCPY if copied else Kind.OTHER, None))
        shown, raw = self.ctx.names.columns(encoded)
        pids = self._pid_of_work(block)
        hsa = copied and self.hsa_copies
        keys = arrow.array(self._keys(pids, block))
        kinds = arrow.take(arrow.array([str(kind) for kind, _ in commands], pa.string()), codes)
        sizes = self.sizes.find(keys)
        if sizes is not None:
            sizes = pc.if_else(pc.is_in(kinds, pa.array([str(Kind.MEMCPY), str(Kind.MEMSET)])), sizes, None)
        if (arguments := block.columns.get("Data")) is not None:
            told = pc.struct_field(pc.extract_regex(arguments, r",Size=(?P<size>[0-9]{1,18})(?:,|$)"), "size").cast(
                pa.int64()
            )
            sizes = told if sizes is None else pc.coalesce(told, sizes)
        stream = None if hsa else block.columns.get("tid" if self.display else "stream-id")
        thread = block.columns.get("tid") if hsa or not self.display else None
        return {
            "kind": arrow.encoded(kinds),
            "name": shown,
            "raw_name": raw,
            "copy_kind": arrow.encoded(arrow.take(arrow.array([way for _, way in commands], pa.string()), codes)),
            "pid": pids,
            "device": cuda.int32(self.ctx, block, "dev-id"),
            "stream": stream,
            "correlation": _ids(block, self.hsa_ids if hsa else 0),
            "bytes": sizes,
            "args": _args(block, {"queue": block.columns.get("queue-id"), "tid": thread}, {"region": "roctx-range"}),
        }

    def _calls(self, block: RowBlock, kind: Kind, first: int | None) -> Columns:
        """Return the columns of calls. first: number before the first id, None for calls without work."""
        return {
            "kind": kind,
            "name": block.columns.get("Name"),
            "pid": self._pid_of_calls(block),
            "tid": block.columns.get("tid"),
            "correlation": None if first is None else _ids(block, first),
            "args": _args(block, {}, {"args": "args", "data": "Data"}),
        }

    def _ranges(self, block: RowBlock) -> Columns:
        """Return the columns of roctx ranges and marks."""
        marks = block.integers("EndNs") - block.integers("BeginNs") == 1
        tid = block.columns.get("tid")
        overlapping = None
        if tid is not None and (lane := block.columns.get("__lane")) is not None:
            free = pc.and_(pc.equal(lane, 0), pc.not_equal(tid, 0))
            overlapping = pc.if_else(free, tid, None)
            tid = pc.if_else(free, None, tid)
        return {
            "kind": arrow.encoded(pc.if_else(arrow.array(marks), str(Kind.MARK), str(Kind.USER_RANGE))),
            "name": _unquoted(block),
            "pid": self._pid_of_calls(block),
            "tid": tid,
            "args": _args(block, {"tid": overlapping}, {}),
        }


def size_of(texts: Column) -> Column:
    """Return the bytes that calls with these arguments copy or set, null where they are not among them."""
    sizes_found = arrow.nulls(len(texts), pa.int64())
    for pattern in _SIZES:
        sizes = pc.struct_field(pc.extract_regex(texts, pattern), "size").cast(pa.int64())
        sizes_found = pc.coalesce(sizes_found, sizes)
    parts = pc.extract_regex(texts, _RECTANGLE)
    width, height = (pc.struct_field(parts, name).cast(pa.int64()) for name in ("width", "height"))
    whole: Column = pc.coalesce(sizes_found, pc.multiply(width, height))
    return whole


def _ints(values: object) -> I64:
    return values if isinstance(values, np.ndarray) else arrow.ints(values, -1)  # type: ignore[arg-type]


def _ids(block: RowBlock, first: int) -> Column | None:
    ids = block.columns.get("Index")
    return None if ids is None else pc.if_else(pc.greater_equal(ids, 0), pc.add(ids, first), None)


def _unquoted(block: RowBlock) -> Column:
    names = block.columns.get("Name")
    if names is None:
        return arrow.nulls(block.count, pa.string())
    plain: Column = pc.replace_substring_regex(names, pattern=r'^"(.*)"$', replacement=r"\1")
    return plain


def _command(name: str | None, *, copied: bool) -> tuple[Kind, str | None]:
    """Return kind and direction of a row of OPS or COPY."""
    if (activity := rocm.activity(name or "")) is not None:
        return activity
    if copied:
        return (Kind.MEMSET if "Fill" in (name or "") else Kind.MEMCPY), None
    return Kind.KERNEL, None


def _args(block: RowBlock, numbers: dict[str, Column | None], texts: dict[str, str]) -> Column | None:
    cells = {key: pc.fill_null(column.cast(pa.string()), "") for key, column in numbers.items() if column is not None}
    for key, name in texts.items():
        if (column := block.columns.get(name)) is not None:
            cells[key] = pc.fill_null(column, "")
    return args(cells, list(cells))

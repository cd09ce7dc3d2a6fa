"""theano: what a function, a class of operators, an operator and a node of the graph took, as Theano's profiler has it.

Of a profile of Theano, Aesara or PyTensor the tables are its own: functions, class, ops, apply; and where it has them
the nodes that compiled slowest, the peaks of memory, the largest outputs, the overhead of scans and the steps of the
optimizer. Any other trace gives the first four: class = kind, op = name, apply = an op by its place on its thread
(`compat/theano/_events.py`); from rows that another profiler had summed, class and ops alone.

Tables are cut to `n_ops` and `n_apply` rows (a trace: 20 unless said, as Theano; a profile has been cut already), and
the last row says how many are left out and what they took, so a table always adds up. Ratio is of that sum.

With compat "theano" the tables are Theano's own, in its order and with its numbers (`_upstream`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracekit.compat.theano import _upstream
from tracekit.compat.theano._events import COLUMNS, NO_NODES, event_blocks
from tracekit.compat.theano._other import printed_tables, summed_block
from tracekit.compat.theano._rows import APPLY, CLASS, OPS, Block, Row, cut, number, printed_blocks, remaining, total
from tracekit.compat.theano._shows import SHOWS
from tracekit.index.trace_index import TraceIndex
from tracekit.options import OptionSpec
from tracekit.report import Cell, Column, ReportTable, Section
from tracekit.schema import Kind
from tracekit.units import Unit
from tracekit.views import tabulate
from tracekit.views.base import View, ViewOptions
from tracekit.views.totals import TOTALS_NOTE, cell, fields

_TITLE = "Functions, classes, ops and nodes (Theano)"
_SHOWN = 20
_NAMES = (
    "name",
    "function",
    "kind",
    "calls",
    "total",
    "avg",
    "min",
    "max",
    "p50",
    "p95",
    "p99",
    "std",
    "ratio",
    "sum_ratio",
    "nodes",
    "id",
    "thread",
    "remaining",
)
_SPREAD = (
    ("min", "Min", 5),
    ("max", "Max", 3),
    ("p50", "P50", 4),
    ("p95", "P95", 6),
    ("p99", "P99", 4),
    ("std", "Std", 6),
)


N_OPS = OptionSpec("n_ops", int, None, "The number of rows of the tables of classes and ops; Theano shows 20.", least=0)
N_APPLY = OptionSpec("n_apply", int, None, "The number of rows of the table of nodes; Theano shows 20.", least=0)
MIN_MEMORY_SIZE = OptionSpec(
    "min_memory_size",
    int,
    None,
    "The smallest outputs of a node that the memory table shows, in bytes.",
    least=0,
    unit="bytes",
)


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the tables. Raises: UsageError for a missing column; TracekitError."""
    tabulate.require(index, "theano", COLUMNS)
    blocks = printed_blocks(index)
    printed = bool(blocks)
    most = _limits(options)
    made, notes = event_blocks(
        index, thread_sep=options.thread_sep, n_ops=_or(most[OPS], _SHOWN), n_apply=_or(most[APPLY], _SHOWN)
    )
    blocks += made
    if not blocks:
        other = summed_block(index, most[OPS])
        if other is None:
            return tabulate.nothing("theano", _TITLE, "any", options, notes)
        blocks, notes = [other], [TOTALS_NOTE, "totals of another profiler: no functions, and no nodes"]
    if options.compat == "theano":
        tables = [t for b in blocks for t in _upstream.tables(b, most, options.value(MIN_MEMORY_SIZE))]
        lacks = [] if printed else ["this trace has no times of compilation, and no times outside Theano: -"]
        return Section("theano", _TITLE, tuple(tables), notes=(*notes, *lacks))
    tables = [_functions(blocks)] if any(b.fact("Message") for b in blocks) else []
    for section, make in ((CLASS, "class"), (OPS, "ops"), (APPLY, "apply")):
        table = _timed(make, section, blocks, most[section], options)
        tables += [table] if len(table) else []
    if printed:
        tables += printed_tables(blocks, options.value(MIN_MEMORY_SIZE))
        notes.append("of a profile that was printed: times are as exact as their digits, and there are no percentiles")
    if made:
        notes += [
            "times of events are self times: what runs within an event counts for itself",
            tabulate.PERCENTILE_NOTE,
        ]
    if len(blocks) > 1:
        notes.append("a ratio is of the rows of the same function; the sum of all repeats the functions")
    sort = options.sorted_by.removeprefix("-")
    if sort and not any(sort in [c.name for c in t.columns] for t in tables):
        notes.append(f"no column {sort} here: the table keeps its own order")
    if options.compat:
        notes.append(f"--compat {options.compat} has no effect here")
    return Section("theano", _TITLE, tuple(tables), notes=tuple(notes))


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _limits(options: ViewOptions) -> dict[str, int | None]:
    """Return how many rows each table shows: the smaller of --top and of Theano's own limits."""
    top = options.top or None

    def least(wanted: int | None) -> int | None:
        given = [n for n in (top, wanted) if n is not None]
        return min(given) if given else None

    return {CLASS: least(options.value(N_OPS)), OPS: least(options.value(N_OPS)), APPLY: least(options.value(N_APPLY))}


def _functions(blocks: Sequence[Block]) -> ReportTable:
    blocks = [b for b in blocks if b.fact("Message")]

    def times(fact: str) -> list[Cell]:
        return [None if (r := b.fact(fact)) is None else r["total_ns"] for b in blocks]

    def calls(b: Block) -> Cell:
        found = b.fact("Time in calls to Function.__call__") or b.fact("Time in calls of the op")
        return None if found is None else found["calls"]

    def nodes(b: Block) -> Cell:
        found = b.fact("Number of Apply nodes")
        return None if found is None or found["value_avg"] is None else int(found["value_avg"])

    whole = times("Time in calls to Function.__call__")
    for place, block in enumerate(blocks):
        if whole[place] is None and (found := block.fact("Time in calls of the op")):
            whole[place] = found["total_ns"]
    thunks = times("Time in thunks")
    ratios: list[Cell] = [
        a / b if isinstance(a, int) and isinstance(b, int) and b else None for a, b in zip(thunks, whole, strict=True)
    ]
    columns = [
        Column("name", "Function", Unit.TEXT, [b.label for b in blocks], 0),
        Column("kind", "Kind", Unit.TEXT, [b.kind for b in blocks], 5),
        Column("calls", "Calls", Unit.COUNT, [calls(b) for b in blocks], 1),
        Column("total", "In calls", Unit.NS, whole, 0),
        Column("fn", "In fn.__call__", Unit.NS, times("Time in Function.fn.__call__"), 4),
        Column("thunks", "In thunks", Unit.NS, thunks, 1),
        Column("ratio", "Thunks of calls", Unit.RATIO, ratios, 2),
        Column("nodes", "Nodes", Unit.COUNT, [nodes(b) for b in blocks], 3),
        Column("compile", "Compile", Unit.NS, times("Total compile time"), 3),
        Column("optimizer", "Optimizer", Unit.NS, times("Optimizer time"), 5),
        Column("validate", "Validate", Unit.NS, times("Validate time"), 7),
        Column("linker", "Linker", Unit.NS, times("Linker time"), 5),
        Column("import", "Import", Unit.NS, times("Import time"), 7),
        Column("make_thunk", "Make thunk", Unit.NS, times("Node make_thunk time"), 7),
    ]
    kept = [c for c in columns if c.name in ("name", "calls", "total") or any(v is not None for v in c.values)]
    return ReportTable("functions", "Functions", tuple(kept))


def _timed(name: str, section: str, blocks: Sequence[Block], most: int | None, options: ViewOptions) -> ReportTable:
    """Return Class, Ops or Apply of all blocks, block by block, each with what is left out of it as its last row."""
    lines: list[tuple[Block, Row, int, int]] = []
    for block in blocks:
        rows = [r for r in block.rows if r["section"] == section or r["args"].get("of") == section]
        shown, rest = cut(
            section,
            _sorted([r for r in rows if remaining(r) is None], options) + [r for r in rows if remaining(r) is not None],
            most,
        )
        whole = total(shown) + (rest["total_ns"] or 0 if rest else 0)
        so_far = 0
        for found in shown:
            so_far += found["total_ns"] or 0
            lines.append((block, found, whole, so_far))
        if rest is not None and remaining(rest):
            lines.append((block, rest, whole, whole))

    def cells(get: Callable[[Row], object]) -> list[Cell]:
        return [cell(get(r)) for _, r, _, _ in lines]

    columns = [
        Column("name", {CLASS: "Class", OPS: "Op", APPLY: "Apply"}[section], Unit.TEXT, cells(lambda r: r["name"]), 0)
    ]
    if len(blocks) > 1:
        columns.append(Column("function", "Function", Unit.TEXT, [b.label for b, _, _, _ in lines], 0))
    if section == APPLY:
        columns.append(Column("thread", "Thread", Unit.TEXT, cells(lambda r: r["args"].get("thread")), 4))
        columns.append(Column("id", "Id", Unit.ID, cells(lambda r: r["args"].get("id")), 3))
    if section == OPS:
        columns.append(Column("kind", "Kind", Unit.TEXT, cells(lambda r: r["args"].get("kind")), 6))
    columns += [
        Column("calls", "Calls", Unit.COUNT, cells(lambda r: r["calls"]), 1),
        Column("total", "Total", Unit.NS, cells(lambda r: r["total_ns"]), 0),
        Column("avg", "Avg", Unit.NS, cells(_avg), 2),
    ]
    for key, title, priority in _SPREAD:
        times: list[Cell] = [r["spread"].get(key) if r["spread"] else None for _, r, _, _ in lines]
        columns.append(Column(key, title, Unit.NS, times, priority))
    columns += [
        Column("ratio", "Ratio", Unit.RATIO, [(r["total_ns"] or 0) / w if w else None for _, r, w, _ in lines], 1),
        Column("sum_ratio", "Sum", Unit.RATIO, [s / w if w else None for _, _, w, s in lines], 5),
    ]
    if section == APPLY:
        columns.append(Column("mflops", "Mflops", Unit.NUMBER, cells(lambda r: _number(r, "mflops")), 6))
        columns.append(Column("gflops_per_s", "Gflops/s", Unit.NUMBER, cells(lambda r: _number(r, "gflops_per_s")), 6))
    else:
        columns.append(Column("type", "Type", Unit.TEXT, cells(_type), 6))
        columns.append(Column("nodes", "Nodes", Unit.COUNT, cells(lambda r: r["args"].get("apply_nodes")), 3))
    columns.append(Column("remaining", "Left out", Unit.COUNT, cells(remaining), 7))
    always = ("name", "function", "calls", "total", "avg", "ratio", "sum_ratio")
    kept = [c for c in columns if c.name in always or any(v is not None for v in c.values)]
    return ReportTable(name, {CLASS: "Class", OPS: "Ops", APPLY: "Apply"}[section], tuple(kept))


def _avg(found: Row) -> Cell:
    if found["spread"]:
        return int(found["spread"]["avg"])
    return None if found["avg_ns"] is None else round(found["avg_ns"])


def _type(found: Row) -> Cell:
    """Return what Theano says of a node: C, Py; other traces have none."""
    return None if found["spread"] else cell(found["args"].get("implementation"))


def _number(found: Row, name: str) -> float | None:
    return number(found["args"].get(name))


def _sorted(rows: list[Row], options: ViewOptions) -> list[Row]:
    """Return the rows of one function by the key of --sort: numbers largest first; else as they stand."""
    key = options.sorted_by.removeprefix("-")
    places = {
        "total": "total_ns",
        "ratio": "total_ns",
        "sum_ratio": "",
        "avg": "avg_ns",
        "calls": "calls",
        "name": "name",
    }
    inner = {"nodes": "apply_nodes", "id": "id", "kind": "kind", "thread": "thread"}

    def value(found: Row) -> Cell:
        if places.get(key):
            return fields(found, (places[key],))[0]
        if key in inner:
            return cell(found["args"].get(inner[key]))
        return found["spread"].get(key) if found["spread"] else None

    known = [r for r in rows if value(r) is not None]
    if not key or not known:
        return rows
    words = isinstance(value(known[0]), str) or key == "id"

    def place(found: Row) -> tuple[float, str]:
        got = value(found)
        return (got, "") if isinstance(got, (int, float)) else (0.0, str(got))

    known.sort(key=place, reverse=words == options.sorted_by.startswith("-"))
    return known + [r for r in rows if value(r) is None]


VIEW = View(
    name="theano",
    title=_TITLE,
    columns=COLUMNS,
    kinds=frozenset(k for k in Kind if k not in NO_NODES),
    compute=compute,
    shows=SHOWS,
    options=(N_OPS, N_APPLY, MIN_MEMORY_SIZE),
)

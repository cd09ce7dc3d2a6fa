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

from tracekit.compat.theano import rows as _upstream
from tracekit.compat.theano.rows import (
    APPLY,
    CLASS,
    COLUMNS,
    NO_NODES,
    OPS,
    WHAT,
    PrintedBlock,
    TheanoRow,
    cut,
    event_blocks,
    number,
    only_large,
    printed_blocks,
    remaining,
    row,
    total,
)
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.options import OptionSpec
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.totals import TOTALS_NOTE, TotalsRow, cell, fields, summed, with_all

__all__ = ["VIEW"]

# Columns of the tables of this folder.


SHOWS = (
    specs.NAME,
    specs.KIND,
    *specs.STATISTICS,
    ViewColumn("function", "Function", Unit.TEXT, "The name of the function."),
    ViewColumn("thread", "Thread", Unit.TEXT, "The name of the thread."),
    ViewColumn("fn", "In fn.__call__", Unit.NS, "The time in calls of the compiled function."),
    ViewColumn("thunks", "In thunks", Unit.NS, "The time in the nodes of the graph."),
    ViewColumn("nodes", "Nodes", Unit.COUNT, "The number of nodes."),
    ViewColumn("compile", "Compile", Unit.NS, "The time of compilation."),
    ViewColumn("optimizer", "Optimizer", Unit.NS, "The time in the graph optimizer."),
    ViewColumn("validate", "Validate", Unit.NS, "The time of validating the graph."),
    ViewColumn("linker", "Linker", Unit.NS, "The time in the linker."),
    ViewColumn("import", "Import", Unit.NS, "The time of importing compiled modules."),
    ViewColumn("make_thunk", "Make thunk", Unit.NS, "The time of making thunks."),
    ViewColumn("id", "Id", Unit.ID, "The number of the node in its function."),
    ViewColumn("sum_ratio", "Sum", Unit.RATIO, "The running sum of the ratios."),
    ViewColumn("mflops", "Mflops", Unit.NUMBER, "Millions of floating-point operations."),
    ViewColumn(
        "gflops_per_s", "Gflops/s", Unit.NUMBER, "Thousands of millions of floating-point operations per second."
    ),
    ViewColumn("type", "Type", Unit.TEXT, "The implementation: C or Py."),
    ViewColumn("remaining", "Left out", Unit.COUNT, "The number of rows that are not shown."),
    ViewColumn("function_ratio", "In its function", Unit.RATIO, "The share of the time of its function."),
    ViewColumn("ops_ratio", "In its ops", Unit.RATIO, "The share of the time of its ops."),
    ViewColumn("within", "Within", Unit.TEXT, "The optimizer that this one belongs to."),
    ViewColumn("class", "Class", Unit.TEXT, "The class of the optimizer."),
    ViewColumn("nodes_before", "Nodes before", Unit.COUNT, "The number of nodes before the optimizer ran."),
    ViewColumn("nodes_after", "Nodes after", Unit.COUNT, "The number of nodes after the optimizer ran."),
    ViewColumn("bytes", "Bytes", Unit.BYTES, "The size of the outputs, or the peak of memory."),
    ViewColumn("c_py_bytes", "With linker c", Unit.BYTES, "The peak of memory with the linker c and py."),
    ViewColumn("shapes", "Shapes", Unit.TEXT, "The shapes of the outputs."),
    ViewColumn("made", "Created, inplace, view", Unit.TEXT, "The origin of each output: created, inplace or a view."),
    ViewColumn("percent", "%", Unit.NUMBER, "The share in percent, as Theano prints it."),
    ViewColumn("sum_percent", "sum %", Unit.NUMBER, "The running sum of the shares in percent."),
    ViewColumn("s", "Time (s)", Unit.NUMBER, "The time in seconds."),
    ViewColumn("s_per_call", "time per call (s)", Unit.NUMBER, "The time of a call in seconds."),
    ViewColumn("sign", "Sign", Unit.TEXT, "The sign at the beginning of the line."),
    ViewColumn("fact", "Fact", Unit.TEXT, "The name of a line of the head."),
    ViewColumn("label", "Label", Unit.TEXT, "The label of a line."),
    ViewColumn("text", "Text", Unit.TEXT, "The text of a line."),
    ViewColumn("steps", "Steps", Unit.COUNT, "The number of steps of a scan."),
    ViewColumn("form", "Form", Unit.TEXT, "The form of a line."),
    ViewColumn("below", "Below", Unit.TEXT, "The line below the table."),
    ViewColumn("level", "Level", Unit.COUNT, "The depth of the row."),
    ViewColumn("index", "Index", Unit.ID, "The place of the row."),
    ViewColumn("validate_s", "Validate (s)", Unit.TEXT, "The time of validation in seconds, as printed."),
    ViewColumn("line", "Line", Unit.TEXT, "The line as printed."),
    ViewColumn("computed_in_s", "Computed in (s)", Unit.TEXT, "The time of computing the memory profile, as printed."),
    ViewColumn("code", "created/inplace/view", Unit.TEXT, "The origin of each output, in Theano's letters."),
    ViewColumn("bytes_of_all", "Bytes of all", Unit.BYTES, "The size of all outputs."),
)

# The other tables of a profile of Theano: memory, scans, the optimizer; and those of Theano from other totals.


def printed_tables(blocks: Sequence[PrintedBlock], least_bytes: int | None) -> list[ReportTable]:
    """Return the tables that a profile has beside those of times by class, op and node; only those with rows."""
    tables = []
    for name, title, sections, columns in (
        ("make_thunk", "Nodes that compiled slowest", ("Node make_thunk",), _durations),
        ("memory_peaks", "Peaks of memory", ("Memory Profile: peaks",), _peaks),
        ("memory", "Nodes with the largest outputs", ("Memory Profile",), _outputs),
        ("scan", "Overhead of scans", ("Scan overhead", "Scan overhead: total"), _scans),
        ("optimizer", "Steps of the optimizer", ("Optimizer Profile",), _steps),
    ):
        lines: list[tuple[PrintedBlock, TheanoRow]] = []
        for block in blocks:
            rows = [r for r in block.rows if r["section"] in sections]
            if name == "optimizer":
                rows = [r for r in block.rows if r["section"].startswith("Optimizer Profile")]
            if name == "memory" and least_bytes is not None:
                rows = only_large(rows, least_bytes)
            lines += [(block, r) for r in rows]
        if not lines:
            continue
        shown = columns([r for _, r in lines])
        if len(blocks) > 1:
            shown.insert(1, Column("function", "Function", Unit.TEXT, [b.label for b, _ in lines], 0))
        tables.append(ReportTable(name, title, tuple(shown)))
    return tables


def _name(rows: Sequence[TheanoRow], title: str) -> Column:
    return Column("name", title, Unit.TEXT, [r["name"] for r in rows], 0)


def _times(rows: Sequence[TheanoRow], title: str = "Total") -> Column:
    return Column("total", title, Unit.NS, [r["total_ns"] for r in rows], 0)


def _durations(rows: Sequence[TheanoRow]) -> list[Column]:
    return [_name(rows, "Node"), _times(rows)]


def _peaks(rows: Sequence[TheanoRow]) -> list[Column]:
    linker: list[Cell] = [cell(r["args"].get("linker_c_py_bytes")) for r in rows]
    return [
        _name(rows, "Peak"),
        Column("bytes", "Bytes", Unit.BYTES, [r["bytes"] for r in rows], 0),
        Column("c_py_bytes", "With linker c|py", Unit.BYTES, linker, 2),
    ]


def _outputs(rows: Sequence[TheanoRow]) -> list[Column]:
    sizes = [r["bytes"] for r in rows]
    whole = next((size for r in rows if isinstance(size := r["args"].get("bytes_of_all"), int) and size), None)
    ratios: list[Cell] = [size / whole if size is not None and whole else None for size in sizes]
    lone = sum("bytes_of_all" in r["args"] for r in rows) == 1
    columns = [
        _name(rows, "Node"),
        Column("bytes", "Bytes", Unit.BYTES, sizes, 0),
        Column("shapes", "Shapes", Unit.TEXT, [cell(r["args"].get("shapes")) for r in rows], 2),
        Column(
            "made", "Created, inplace, view", Unit.TEXT, [cell(r["args"].get("created_inplace_view")) for r in rows], 2
        ),
        Column("remaining", "Left out", Unit.COUNT, [remaining(r) for r in rows], 3),
    ]
    return [*columns, Column("ratio", "Ratio", Unit.RATIO, ratios, 1)] if lone else columns


def _scans(rows: Sequence[TheanoRow]) -> list[Column]:
    def share(name: str) -> list[Cell]:
        figures = [number(r["args"].get(name)) for r in rows]
        return [None if value is None else value / 100 for value in figures]

    return [
        _name(rows, "Scan"),
        _times(rows),
        Column("function_ratio", "In its function", Unit.RATIO, share("inner_function_percent"), 1),
        Column("ops_ratio", "In its ops", Unit.RATIO, share("inner_ops_percent"), 1),
    ]


def _steps(rows: Sequence[TheanoRow]) -> list[Column]:
    steps = list(rows)
    return [
        _name(steps, "Step"),
        Column("within", "Within", Unit.TEXT, [r["section"].partition(": ")[2] or None for r in steps], 2),
        _times(steps),
        Column("class", "Class", Unit.TEXT, [cell(r["args"].get("class")) for r in steps], 3),
        Column("nodes_before", "Nodes before", Unit.COUNT, [cell(r["args"].get("nodes_before")) for r in steps], 3),
        Column("nodes_after", "Nodes after", Unit.COUNT, [cell(r["args"].get("nodes_after")) for r in steps], 3),
    ]


def summed_block(index: TraceIndex, most: int | None) -> PrintedBlock | None:
    """Return class = kind and op = name of rows that another profiler had summed; None where there are none.

    Rows of different runs, tables and ranges may hold the same time, so for each input and kind only one set of them
    counts: that with the most time.
    """
    rows = summed(index, list(Kind), ("name", "kind"))
    if not len(rows):
        return None
    sets: dict[tuple[Cell, ...], list[TotalsRow]] = {}
    for summed_row, block in zip(rows.rows, rows.blocks, strict=True):
        sets.setdefault((block[0], summed_row["kind"], *block[1:]), []).append(summed_row)
    best: dict[tuple[Cell, ...], list[TotalsRow]] = {}
    for place, found_rows in sets.items():
        if place[:2] not in best or total(found_rows) > total(best[place[:2]]):
            best[place[:2]] = found_rows
    chosen = [r for found_rows in best.values() for r in found_rows]
    whole = total(chosen)
    block_of_totals = PrintedBlock(0, 0, label="totals")
    for section in (CLASS, OPS):
        groups: dict[str, list[TotalsRow]] = {}
        for summed_row in chosen:
            groups.setdefault(str(summed_row["kind"] if section == CLASS else summed_row["name"]), []).append(
                summed_row
            )
        lines = [_group(section, name, some, whole) for name, some in groups.items()]
        lines.sort(key=lambda r: (-(r["total_ns"] or 0), -(r["calls"] or 0), r["name"] or ""))
        so_far = 0
        for line in lines:
            so_far += line["total_ns"] or 0
            line["args"]["cumulative_percent"] = 100 * so_far / whole if whole else None
        shown, rest = cut(section, lines, most)
        left = rest or row(section, f"(remaining 0 {WHAT[section]})", {"remaining": 0, "percent": 0.0}, total_ns=0)
        block_of_totals.rows += [*shown, left]
    return block_of_totals


def _group(section: str, name: str, rows: list[TotalsRow], whole: int) -> TheanoRow:
    time = total(rows)
    known = with_all(sum, [r["calls"] for r in rows])
    args: dict[str, object] = {"percent": 100 * time / whole if whole else None, "apply_nodes": len(rows)}
    return row(section, name, args, calls=known, total_ns=time, avg_ns=time / known if known else None)


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
    of_events, notes = event_blocks(
        index, thread_sep=options.thread_sep, n_ops=_or(most[OPS], _SHOWN), n_apply=_or(most[APPLY], _SHOWN)
    )
    blocks += of_events
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
    if of_events:
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


def _functions(blocks: Sequence[PrintedBlock]) -> ReportTable:
    blocks = [b for b in blocks if b.fact("Message")]

    def times(fact: str) -> list[Cell]:
        return [None if (r := b.fact(fact)) is None else r["total_ns"] for b in blocks]

    def calls(b: PrintedBlock) -> Cell:
        call_time = b.fact("Time in calls to Function.__call__") or b.fact("Time in calls of the op")
        return None if call_time is None else call_time["calls"]

    def nodes(b: PrintedBlock) -> Cell:
        call_time = b.fact("Number of Apply nodes")
        return None if call_time is None or call_time["value_avg"] is None else int(call_time["value_avg"])

    whole = times("Time in calls to Function.__call__")
    for place, block in enumerate(blocks):
        if whole[place] is None and (call_time := block.fact("Time in calls of the op")):
            whole[place] = call_time["total_ns"]
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


def _timed(
    name: str, section: str, blocks: Sequence[PrintedBlock], most: int | None, options: ViewOptions
) -> ReportTable:
    """Return Class, Ops or Apply of all blocks, block by block, each with what is left out of it as its last row."""
    lines: list[tuple[PrintedBlock, TheanoRow, int, int]] = []
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

    def cells(get: Callable[[TheanoRow], object]) -> list[Cell]:
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


def _avg(found: TheanoRow) -> Cell:
    if found["spread"]:
        return int(found["spread"]["avg"])
    return None if found["avg_ns"] is None else round(found["avg_ns"])


def _type(found: TheanoRow) -> Cell:
    """Return what Theano says of a node: C, Py; other traces have none."""
    return None if found["spread"] else cell(found["args"].get("implementation"))


def _number(found: TheanoRow, name: str) -> float | None:
    return number(found["args"].get(name))


def _sorted(rows: list[TheanoRow], options: ViewOptions) -> list[TheanoRow]:
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

    def value(found: TheanoRow) -> Cell:
        if places.get(key):
            return fields(found, (places[key],))[0]
        if key in inner:
            return cell(found["args"].get(inner[key]))
        return found["spread"].get(key) if found["spread"] else None

    known = [r for r in rows if value(r) is not None]
    if not key or not known:
        return rows
    words = isinstance(value(known[0]), str) or key == "id"

    def place(found: TheanoRow) -> tuple[float, str]:
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

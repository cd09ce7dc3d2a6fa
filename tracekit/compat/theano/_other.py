"""The other tables of a profile of Theano: memory, scans, the optimizer; and those of Theano from other totals."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.compat.theano._rows import CLASS, OPS, WHAT, Block, Row, cut, number, remaining, row, total
from tracekit.compat.theano._upstream import only_large
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell, Column, ReportTable
from tracekit.schema import Kind
from tracekit.units import Unit
from tracekit.views.totals import TotalsRow, cell, summed, with_all


def printed_tables(blocks: Sequence[Block], least_bytes: int | None) -> list[ReportTable]:
    """Return the tables that a profile has beside those of times by class, op and node; only those with rows."""
    made = []
    for name, title, sections, columns in (
        ("make_thunk", "Nodes that compiled slowest", ("Node make_thunk",), _durations),
        ("memory_peaks", "Peaks of memory", ("Memory Profile: peaks",), _peaks),
        ("memory", "Nodes with the largest outputs", ("Memory Profile",), _outputs),
        ("scan", "Overhead of scans", ("Scan overhead", "Scan overhead: total"), _scans),
        ("optimizer", "Steps of the optimizer", ("Optimizer Profile",), _steps),
    ):
        lines: list[tuple[Block, Row]] = []
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
        made.append(ReportTable(name, title, tuple(shown)))
    return made


def _name(rows: Sequence[Row], title: str) -> Column:
    return Column("name", title, Unit.TEXT, [r["name"] for r in rows], 0)


def _times(rows: Sequence[Row], title: str = "Total") -> Column:
    return Column("total", title, Unit.NS, [r["total_ns"] for r in rows], 0)


def _durations(rows: Sequence[Row]) -> list[Column]:
    return [_name(rows, "Node"), _times(rows)]


def _peaks(rows: Sequence[Row]) -> list[Column]:
    linker: list[Cell] = [cell(r["args"].get("linker_c_py_bytes")) for r in rows]
    return [
        _name(rows, "Peak"),
        Column("bytes", "Bytes", Unit.BYTES, [r["bytes"] for r in rows], 0),
        Column("c_py_bytes", "With linker c|py", Unit.BYTES, linker, 2),
    ]


def _outputs(rows: Sequence[Row]) -> list[Column]:
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


def _scans(rows: Sequence[Row]) -> list[Column]:
    def share(name: str) -> list[Cell]:
        found = [number(r["args"].get(name)) for r in rows]
        return [None if value is None else value / 100 for value in found]

    return [
        _name(rows, "Scan"),
        _times(rows),
        Column("function_ratio", "In its function", Unit.RATIO, share("inner_function_percent"), 1),
        Column("ops_ratio", "In its ops", Unit.RATIO, share("inner_ops_percent"), 1),
    ]


def _steps(rows: Sequence[Row]) -> list[Column]:
    steps = list(rows)
    return [
        _name(steps, "Step"),
        Column("within", "Within", Unit.TEXT, [r["section"].partition(": ")[2] or None for r in steps], 2),
        _times(steps),
        Column("class", "Class", Unit.TEXT, [cell(r["args"].get("class")) for r in steps], 3),
        Column("nodes_before", "Nodes before", Unit.COUNT, [cell(r["args"].get("nodes_before")) for r in steps], 3),
        Column("nodes_after", "Nodes after", Unit.COUNT, [cell(r["args"].get("nodes_after")) for r in steps], 3),
    ]


def summed_block(index: TraceIndex, most: int | None) -> Block | None:
    """Return class = kind and op = name of rows that another profiler had summed; None where there are none.

    Rows of different runs, tables and ranges may hold the same time, so for each input and kind only one set of them
    counts: that with the most time.
    """
    rows = summed(index, list(Kind), ("name", "kind"))
    if not len(rows):
        return None
    sets: dict[tuple[Cell, ...], list[TotalsRow]] = {}
    for found, block in zip(rows.rows, rows.blocks, strict=True):
        sets.setdefault((block[0], found["kind"], *block[1:]), []).append(found)
    best: dict[tuple[Cell, ...], list[TotalsRow]] = {}
    for place, found_rows in sets.items():
        if place[:2] not in best or total(found_rows) > total(best[place[:2]]):
            best[place[:2]] = found_rows
    chosen = [r for found_rows in best.values() for r in found_rows]
    whole = total(chosen)
    made = Block(0, 0, label="totals")
    for section in (CLASS, OPS):
        groups: dict[str, list[TotalsRow]] = {}
        for found in chosen:
            groups.setdefault(str(found["kind"] if section == CLASS else found["name"]), []).append(found)
        lines = [_group(section, name, some, whole) for name, some in groups.items()]
        lines.sort(key=lambda r: (-(r["total_ns"] or 0), -(r["calls"] or 0), r["name"] or ""))
        so_far = 0
        for line in lines:
            so_far += line["total_ns"] or 0
            line["args"]["cumulative_percent"] = 100 * so_far / whole if whole else None
        shown, rest = cut(section, lines, most)
        left = rest or row(section, f"(remaining 0 {WHAT[section]})", {"remaining": 0, "percent": 0.0}, total_ns=0)
        made.rows += [*shown, left]
    return made


def _group(section: str, name: str, rows: list[TotalsRow], whole: int) -> Row:
    time = total(rows)
    known = with_all(sum, [r["calls"] for r in rows])
    args: dict[str, object] = {"percent": 100 * time / whole if whole else None, "apply_nodes": len(rows)}
    return row(section, name, args, calls=known, total_ns=time, avg_ns=time / known if known else None)

"""The tables of Theano as Theano prints them: one table a part, in its order, with the digits that it prints.

Columns with names of `args` hold the printed numbers: times in s. `form` is how Python prints a number of seconds
("e": six digits, "": all of them), which differs among versions. A row with `remaining` is the last line of its table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from tracekit.compat.theano._rows import APPLY, CLASS, OPS, TABLES, Block, Row, cut, number, remaining
from tracekit.report import Cell, Column, ReportTable
from tracekit.units import Unit
from tracekit.views.totals import cell

_PARTS = {
    "Time in all calls of grad()": "globals",
    "Time since import": "globals",
    "Tip": "tips",
    "Global stats": "global_stats",
    "Scan overhead: remark": "scan_overhead",
    "Memory Profile": "memory",
    "All Apply nodes have smaller outputs": "memory",
    "Optimizer Profile": "optimizer",
    "Optimizer Profile: text": "optimizer",
    "Time of the optimizer's steps": "optimizer",
    "Scan Op": "scan",
}
_SECTIONS = {"Node make_thunk": "function", "Scan overhead": "scan_overhead", "Scan overhead: total": "scan_overhead"}
_FORMS = ("e", ".3f", "", "d")


def tables(block: Block, most: dict[str, int | None], least_bytes: int | None) -> list[ReportTable]:
    """Return the tables of a block. most: rows of Class, Ops and Apply to show. least_bytes: of the memory's nodes."""
    out = []
    for part, found in groupby(block.rows, lambda r: _part(r, block)):
        rows = list(found)
        if part in TABLES:
            made = _timed(part, rows, most[part])
        elif part == "memory":
            made = _memory(rows, least_bytes)
        else:
            made = _OTHERS[part](rows)
        name = part.lower()
        out.append(ReportTable(name, f"{block.label}: {name.replace('_', ' ')}", tuple(made)))
    return out


def _part(row: Row, block: Block) -> str:
    section, name = row["section"], row["name"] or ""
    if section != "header":
        if section in TABLES:
            return str(section)
        return _SECTIONS.get(section) or ("memory" if section.startswith("Memory") else "optimizer")
    if row["args"].get("of"):
        return str(row["args"]["of"]).rpartition(": ")[2]
    if name.startswith(("No execution time", "No node time", "Profile")):
        return "remarks"
    return _PARTS.get(name, "scan" if block.kind == "scan" else "function")


def form_of(text: str) -> str:
    """Return how a number of seconds was printed: "e", ".3f", "d", or "" for all its digits."""
    for form in _FORMS:
        try:
            if format(int(text) if form == "d" else float(text), form) == text:
                return form
        except ValueError:
            continue
    return ""


def _seconds(row: Row) -> float | None:
    printed = number(row["args"].get("s"))
    return row["total_ns"] / 1e9 if printed is None and row["total_ns"] is not None else printed


def _arg(rows: Sequence[Row], name: str) -> list[Cell]:
    return [number(r["args"].get(name)) for r in rows]


def _int(rows: Sequence[Row], name: str) -> list[Cell]:
    return [value if isinstance(value := r["args"].get(name), int) else None for r in rows]


def _text(rows: Sequence[Row], name: str) -> list[Cell]:
    return [None if (value := r["args"].get(name)) is None else str(value) for r in rows]


def _listed(row: Row, name: str) -> list[object]:
    found = row["args"].get(name)
    return found if isinstance(found, list) else []


def _number(name: str, title: str, values: Sequence[Cell]) -> Column:
    return Column(name, title, Unit.NUMBER, list(values))


def _words(name: str, title: str, values: Sequence[Cell]) -> Column:
    return Column(name, title, Unit.TEXT, list(values))


def _count(name: str, title: str, values: Sequence[Cell]) -> Column:
    return Column(name, title, Unit.COUNT, list(values))


def _facts(rows: list[Row]) -> list[Column]:
    nodes = [None if r["value_avg"] is None else int(r["value_avg"]) for r in rows]
    forms = [form_of(str(r["args"]["s"])) if isinstance(r["args"].get("s"), str) else "e" for r in rows]
    return [
        _words("fact", "Fact", [r["section"] if r["section"] != "header" else r["name"] for r in rows]),
        _words("label", "Label", [r["name"] if r["section"] != "header" else r["raw_name"] or r["name"] for r in rows]),
        _words("text", "Text", [r["value_text"] for r in rows]),
        _count("calls", "Calls", [r["calls"] for r in rows]),
        _count("steps", "Steps", _int(rows, "steps")),
        _count("nodes", "Nodes", nodes),
        _number("s", "Time (s)", [_seconds(r) for r in rows]),
        _words("form", "Form", forms),
        _number("percent", "%", _arg(rows, "percent")),
    ]


def _timed(part: str, rows: list[Row], most: int | None) -> list[Column]:
    shown, rest = cut(part, rows, most)
    lines: list[Row] = []
    below: list[Cell] = []
    for row in [*shown, *([rest] if rest else [])]:
        lines.append(row)
        below.append(None)
        for what in ("input", "output"):
            for place, text in enumerate(_listed(row, f"{what}s")):
                lines.append({**row, "args": {}, "calls": None, "name": None, "raw_name": None, "avg_ns": None})
                below.append(f"{what} {place}: {text}")
    own = [b is None for b in below]
    each = [r["avg_ns"] / 1e9 if r["avg_ns"] is not None else None for r in lines]
    flops = part == APPLY and any("mflops" in r["args"] for r in shown)
    columns = [
        _number("percent", "% time", _arg(lines, "percent")),
        _number("sum_percent", "sum %", _arg(lines, "cumulative_percent")),
        _number("s", "apply time (s)", [_seconds(r) if mine else None for r, mine in zip(lines, own, strict=True)]),
        _number("s_per_call", "time per call (s)", each),
        _count("calls", "#call", [r["calls"] for r in lines]),
    ]
    if part in (CLASS, OPS):
        types = [cell(r["args"].get("type") or r["args"].get("implementation")) for r in lines]
        columns += [_words("type", "type", types), _count("nodes", "#apply", _int(lines, "apply_nodes"))]
    else:
        columns.append(Column("id", "id", Unit.ID, _int(lines, "id")))
    if flops:
        columns += [_number("mflops", "Mflops", _arg(lines, "mflops"))]
        columns += [_number("gflops_per_s", "Gflops/s", _arg(lines, "gflops_per_s"))]
    names = [None if remaining(r) is not None else r["raw_name"] or r["name"] for r in lines]
    columns += [_words("name", "name", names), _count("remaining", "Remaining", [remaining(r) for r in lines])]
    columns.append(
        _words("sign", "Sign", [cell(r["args"].get("sign", "%")) if remaining(r) is not None else None for r in lines])
    )
    return [*columns, _words("below", "Below", below)] if any(below) else columns


def _memory(rows: list[Row], least: int | None) -> list[Column]:
    if least is not None:
        rows = only_large(rows, least)
    kinds = {"header": "heading", "Memory Profile: peaks": "peak"}
    lines = [kinds.get(r["section"], "node" if remaining(r) is None else "rest") for r in rows]
    lines = [
        "smaller" if (r["name"] or "").startswith("All Apply") else line for r, line in zip(rows, lines, strict=True)
    ]
    names = [r["value_text"] if line == "heading" else r["name"] for r, line in zip(rows, lines, strict=True)]
    return [
        _words("line", "Line", lines),
        _words("name", "Name", names),
        Column("bytes", "Bytes", Unit.BYTES, [r["bytes"] for r in rows]),
        Column("c_py_bytes", "Bytes (linker = c|py)", Unit.BYTES, _int(rows, "linker_c_py_bytes")),
        _words("text", "Text", [r["value_text"] for r in rows]),
        _words("computed_in_s", "Computed in (s)", _text(rows, "computed_in_s")),
        _words("shapes", "Shapes", _text(rows, "shapes")),
        _words("code", "created/inplace/view", _text(rows, "created_inplace_view")),
        _count("remaining", "Remaining", [remaining(r) for r in rows]),
        _number("percent", "%", _arg(rows, "percent")),
        Column("bytes_of_all", "Bytes of all", Unit.BYTES, _int(rows, "bytes_of_all")),
    ]


def only_large(rows: list[Row], least: int) -> list[Row]:
    """Return the rows without nodes whose outputs take less than `least` bytes; those are in the last line then."""
    nodes = [r for r in rows if r["section"] == "Memory Profile" and remaining(r) is None]
    gone = [r for r in nodes if r["bytes"] is not None and r["bytes"] < least]
    last = next((r for r in rows if r["section"] == "Memory Profile" and remaining(r) is not None), None)
    if not gone or last is None:
        return rows
    size = sum(r["bytes"] or 0 for r in gone) + (last["bytes"] or 0)
    stated = last["args"].get("bytes_of_all")
    whole = stated if isinstance(stated, int) else 0
    args = {**last["args"], "remaining": len(gone) + (remaining(last) or 0)}
    args["percent"] = 100 * size / whole if whole else 0.0
    left_out = {id(r) for r in gone}
    changed: Row = {**last, "bytes": size, "args": args}
    return [changed if r is last else r for r in rows if id(r) not in left_out]


def _scan_overhead(rows: list[Row]) -> list[Column]:
    names = [None if r["section"] != "Scan overhead" else r["name"] for r in rows]
    return [
        _number("s", "Scan op time (s)", [_seconds(r) if r["section"] != "header" else None for r in rows]),
        _number("function_s", "sub scan fct time (s)", _arg(rows, "inner_function_s")),
        _number("ops_s", "sub scan op time (s)", _arg(rows, "inner_ops_s")),
        _number("function_percent", "sub scan fct time (%)", _arg(rows, "inner_function_percent")),
        _number("ops_percent", "sub scan op time (%)", _arg(rows, "inner_ops_percent")),
        _words("name", "node", names),
        _words("text", "Text", [r["value_text"] for r in rows]),
    ]


def _optimizer(rows: list[Row]) -> list[Column]:
    """Steps with `s`, and lines of words between them."""
    lines: list[Row] = []
    words: list[Cell] = []
    for row in rows:
        lines.append(row)
        words.append(row["value_text"])
        for text in _listed(row, "details"):
            lines.append({**row, "args": {}, "section": "header", "name": None})
            words.append(str(text))
    steps = [r["section"] != "header" for r in lines]
    return [
        _words("text", "Text", words),
        _count("level", "Level", _int(lines, "indent")),
        _number("s", "Time (s)", [_seconds(r) if step else None for r, step in zip(lines, steps, strict=True)]),
        _words("name", "Name", [r["name"] if step else None for r, step in zip(lines, steps, strict=True)]),
        _words("class", "Class", _text(lines, "class")),
        Column("index", "Index", Unit.ID, _int(lines, "index")),
        _count("nodes_before", "Nodes before", _int(lines, "nodes_before")),
        _count("nodes_after", "Nodes after", _int(lines, "nodes_after")),
        _words("validate_s", "Validate (s)", _text(lines, "validate_s")),
    ]


def _texts(rows: list[Row]) -> list[Column]:
    return [_words("text", "Text", [r["value_text"] for r in rows])]


_OTHERS: dict[str, Callable[[list[Row]], list[Column]]] = {
    "function": _facts,
    "scan": _facts,
    "globals": _facts,
    "scan_overhead": _scan_overhead,
    "optimizer": _optimizer,
    "tips": _texts,
    "global_stats": _texts,
    "remarks": _texts,
}

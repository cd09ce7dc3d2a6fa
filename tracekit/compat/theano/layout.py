"""Theano's layout: the lines that ProfileStats.summary() prints, of a report made with compat "theano".

Theano 0.6 to 1.0.5, Theano-PyMC, Aesara and PyTensor differ in words, which the report holds, and in the width of the
columns of Class, where 0.6 prints whole class names. Unknown numbers stand as "-".

Source: theano/compile/profiling.py of Theano 1.0.5, theano/scan_module/scan_op.py and theano/gof/opt.py there;
pytensor/compile/debug/profiling.py of PyTensor 3.0.7; the outputs in the documentation of Theano 0.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tracekit.compat.fixed_width import Row, rows_of
from tracekit.model.display import escape_controls
from tracekit.model.report import Report, ReportTable
from tracekit.render.base import Renderer, RenderOptions

__all__ = ["LAYOUT"]

_INDENTS = {
    "Optimizer time": 4,
    "Linker time": 4,
    "Number of Apply nodes": 4,
    "Validate time": 7,
    "C-cache preloading": 7,
    "Import time": 7,
    "Node make_thunk time": 7,
    "Node make_thunk": 11,
    "Time in all calls of grad()": 0,
    "Time since import": 0,
}
_NO_COLON = frozenset(
    {
        "C-cache preloading",
        "Import time",
        "Node make_thunk time",
        "Time in all calls of grad()",
        "Time since import",
        "Time in calls of the op",
        "Total time spent in calling the VM",
        "Total overhead (computing slices..)",
    }
)
_HEADER = "<% time> <sum %> <apply time> <time per call>"
_TIPS = (
    "Here are tips to potentially make your code run faster",
    "                 (if you think of new ones, suggest them on the mailing list).",
    "                 Test them first, as they are not guaranteed to always provide a speedup.",
)
_SCAN_HEADER = (
    "<Scan op time(s)> <sub scan fct time(s)> <sub scan op time(s)> <sub scan fct time(% scan op time)> "
    "<sub scan op time(% scan op time)> <node>"
)
_DECLARED = """\
    <created/inplace/view> is taken from the Op's declaration.
    Apply nodes marked 'inplace' or 'view' may actually allocate memory, this is not reported here. If you use \
DebugMode, warnings will be emitted in those cases."""


def render(report: Report, options: RenderOptions) -> str:  # noqa: ARG001 - Theano prints seconds, and no others
    """Return the lines of all functions of the report."""
    lines: list[str] = []
    for section in report.sections:
        for table in section.tables:
            lines += map(escape_controls, _PARTS[table.name](table)) if table.name in _PARTS else ()
    return "\n".join(lines) + "\n" if lines else ""


def _fixed(value: object, form: str) -> str:
    """Return a number in Python's form; "-" in its width where it is unknown."""
    if isinstance(value, (int, float)):
        return format(value, form)
    width = "".join(c for c in form.partition(".")[0] if c.isdigit())
    return "-".rjust(int(width or 0))


def _fact(row: Row) -> str:
    fact, label, indent = row["fact"], row["label"], " " * _INDENTS.get(row["fact"], 2)
    if fact == "Message":
        return f"{indent}Message: {row['text']}"
    if fact == "Node make_thunk":
        return f"{indent}Node {label} time {_seconds(row)}"
    if fact == "Number of Apply nodes":
        return f"{indent}{label}: {-1 if row['nodes'] is None else row['nodes']}"
    if fact == "Time in calls to Function.__call__":
        label = f"Time in {_fixed(row['calls'], 'd')} calls to Function.__call__"
    if fact == "Time in calls of the op":
        label = (
            f"Time in {_fixed(row['calls'], 'd')} calls of the op (for a total of {_fixed(row['steps'], 'd')} steps)"
        )
    percent = "" if row["percent"] is None else f" ({row['percent']:.3f}%)"
    return f"{indent}{label}{'' if fact in _NO_COLON else ':'} {_seconds(row)}{percent}"


def _seconds(row: Row) -> str:
    if row["s"] is None:
        return "-"
    return f"{int(row['s']) if row['form'] == 'd' else row['s']:{row['form']}}s"


def _function(table: ReportTable) -> Iterator[str]:
    yield from ("Function profiling", "==================")
    yield from map(_fact, rows_of(table))
    yield ""


def _scan(table: ReportTable) -> Iterator[str]:
    yield ""
    rows = rows_of(table)
    name = next((r["text"] for r in rows if r["fact"] == "Scan Op"), None)
    yield "Scan Op profiling" if name is None else f"Scan Op profiling ( {name} )"
    yield "=================="
    for row in rows:
        if row["fact"] != "Scan Op":
            yield _fact(row)
        if row["fact"] in ("Time in calls of the op", "Total overhead (computing slices..)"):
            yield ""


def _globals(table: ReportTable) -> Iterator[str]:
    yield from map(_fact, rows_of(table))


def _shares(row: Row) -> str:
    """Return the four cells that all tables begin with."""
    return (
        f"  {_fixed(row['percent'], '4.1f')}%   {_fixed(row['sum_percent'], '5.1f')}%     {_fixed(row['s'], '7.3f')}s "
        f"      {_fixed(row['s_per_call'], '8.2e')}s  "
    )


def _rest(row: Row, what: str, form: str) -> str:
    return (
        f"   ... (remaining {row['remaining']} {what} account for {_fixed(row['percent'], form)}{row['sign']}"
        f"({_fixed(row['s'], '.2f')}s) of the runtime)"
    )


_TYPES = {"C": "C ", "C and Py": "C Py", "PyC": "PyC "}


def _class(table: ReportTable) -> Iterator[str]:
    # Theano 0.6 prints <class '...'> and has the widths of Ops.
    old = any(str(name).startswith("<") for name in table.column("name").values)
    return _groups(table, "Class", "Classes", ("  {:4d}   ", "  {:4d}   ") if old else ("{:6d}   ", " {:4d}   "))


def _ops(table: ReportTable) -> Iterator[str]:
    return _groups(table, "Op", "Ops", ("  {:4d}   ", "  {:4d}   "))


def _groups(table: ReportTable, word: str, what: str, forms: tuple[str, str]) -> Iterator[str]:
    yield from (word if word == "Class" else what, "---", f"{_HEADER} <type> <#call> <#apply> <{word} name>")
    for row in rows_of(table):
        if row["remaining"] is not None:
            yield _rest(row, what, "6.2f")
            yield ""
            continue
        kind = _TYPES.get(row["type"] or "", row["type"] or "  ")
        counts = "".join(
            form.format(row[key]) if row[key] is not None else "     -   "
            for form, key in zip(forms, ("calls", "nodes"), strict=True)
        )
        yield f"{_shares(row)}   {kind:>2}  {counts}{row['name']}"


def _apply(table: ReportTable) -> Iterator[str]:
    names = {c.name for c in table.columns}
    flops = "mflops" in names
    header = f"{_HEADER} <#call> <id> {'<Mflops> <Gflops/s> ' if flops else ''}<Apply name>"
    yield from ("Apply", "------", header)
    for row in rows_of(table):
        if row.get("below") is not None:
            yield f"    {row['below']}"
        elif row["remaining"] is not None:
            yield _rest(row, "Apply instances", ".2f")
            yield ""
        else:
            speed = f"{_or_blank(row['mflops'], 8)} {_or_blank(row['gflops_per_s'], 10)}" if flops else " "
            yield f"{_shares(row)} {_fixed(row['calls'], '4d')}   {_fixed(row['id'], '3d')} {speed} {row['name']}"


def _or_blank(value: object, width: int) -> str:
    return " " * width if value is None else _fixed(value, f"{width}.1f")


def _memory(table: ReportTable) -> Iterator[str]:
    rows = rows_of(table)
    heading = next((r["name"] for r in rows if r["line"] == "heading"), "Memory Profile")
    yield from (heading, "(Sparse variables are ignored)")
    peaks = [r for r in rows if r["line"] == "peak"]
    if any(r["name"].startswith("Max peak memory") or r["c_py_bytes"] is not None for r in peaks):
        yield "(For values in brackets, it's for linker = c|py"
    yield "---"
    yield from _peaks(peaks)
    yield ""
    if heading != "Memory Profile":
        yield "    This list is based on all functions in the profile"
    yield "    <Sum apply outputs (bytes)> <Apply outputs shape> <created/inplace/view> <Apply node>"
    yield ""
    yield from (_memory_node(row) for row in rows if row["line"] == "node")
    for row in rows:
        if row["line"] == "rest":
            share = f"({_fixed(row['percent'], '.2f')}%)" if row["bytes_of_all"] else "0%"
            yield (
                f"   ... (remaining {row['remaining']} Apply account for {_fixed(row['bytes'], '4d')}B/"
                f"{_fixed(row['bytes_of_all'], 'd')}B ({share}) of the Apply with dense outputs sizes)"
            )
            yield ""
    for row in rows:
        if row["line"] == "smaller":
            yield f"    All Apply nodes have output sizes that take less than {row['bytes']}B."
    yield from (*_DECLARED.split("\n"), "")


def _peaks(peaks: list[Row]) -> Iterator[str]:
    setting, under_rule = "", False
    for row in peaks:
        head, _, device = row["name"].rpartition(": ")
        size = row["text"] if row["bytes"] is None else f"{row['bytes'] >> 10}KB"
        linker = "" if row["c_py_bytes"] is None else f" ({row['c_py_bytes'] >> 10}KB)"
        if row["computed_in_s"] is not None:
            if not under_rule:
                yield "---"
            under_rule = True
            yield f"    {row['name']} is {size}(took {row['computed_in_s']}s to compute)"
            continue
        if row["name"].startswith("Minimum peak"):
            yield f"    {row['name']} is {size}"
            continue
        if not head.startswith("Max peak memory"):
            yield f"    {row['name']}: {size}{linker}"
            continue
        if head != setting:
            setting = head
            yield f"    {head}"
        yield f"        {device}: {size}{linker}"
    if setting or not peaks:
        # Theano 0.6 and 0.7 have no rule below.
        yield "---"


def _memory_node(row: Row) -> str:
    if row["bytes"] is not None:
        size = f"{row['bytes']:9d}B"
    else:
        # Theano-PyMC and Aesara print a placeholder that they forgot to fill in.
        size = "   Unknown" if row["text"] == "Unknown" else "{node_outputs_size:9d}B"
    return f"     {size}  {row['shapes']} {row['code']} {row['name']}"


def _scan_overhead(table: ReportTable) -> Iterator[str]:
    yield from ("", "Scan overhead:", _SCAN_HEADER)
    for row in rows_of(table):
        if row["text"] is not None:
            yield f"{' ' if row['text'].startswith('The node took') else '  '}{row['text']}"
            continue
        cells = "  ".join(_fixed(row[key], "5.1f") + "s" for key in ("s", "function_s", "ops_s"))
        shares = "  ".join(_fixed(row[key], "5.1f") + "%" for key in ("function_percent", "ops_percent"))
        yield f"total {cells}  {shares}" if row["name"] is None else f"      {cells}  {shares} {row['name']}"


def _optimizer(table: ReportTable) -> Iterator[str]:
    for place, row in enumerate(rows_of(table)):
        if row["text"] is not None:
            yield row["text"]
            if not place:
                yield "-" * len(row["text"])
            continue
        counts = () if row["nodes_before"] is None else (row["nodes_before"], row["nodes_after"])
        what = (row["name"], row["class"], row["index"], *counts)
        validate = "" if row["validate_s"] is None else f" - {row['validate_s']}s"
        yield f"{' ' * (row['level'] or 0)}{_fixed(row['s'], '.6f')}s - {what}{validate}"


def _tips(table: ReportTable) -> Iterator[str]:
    yield from _TIPS
    for row in rows_of(table):
        text = str(row["text"])
        indent = 5 if text.startswith("- MRG_RandomStreams is") else 0 if text[:1] in "WI" else 2
        yield f"{' ' * indent}{text}"


def _global_stats(table: ReportTable) -> Iterator[str]:
    for row in rows_of(table):
        yield from ("=" * 50, str(row["text"]), "=" * 50)


def _remarks(table: ReportTable) -> Iterator[str]:
    for row in rows_of(table):
        yield f"{'  ' if str(row['text']).startswith('No') else ''}{row['text']}"


_PARTS: dict[str, Callable[[ReportTable], Iterator[str]]] = {
    "function": _function,
    "scan": _scan,
    "globals": _globals,
    "class": _class,
    "ops": _ops,
    "apply": _apply,
    "memory": _memory,
    "scan_overhead": _scan_overhead,
    "optimizer": _optimizer,
    "tips": _tips,
    "global_stats": _global_stats,
    "remarks": _remarks,
}

LAYOUT = Renderer("theano", (), render)

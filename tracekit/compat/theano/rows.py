"""The tables of Theano as Theano prints them: one table a part, in its order, with the digits that it prints.

Columns with names of `args` hold the printed numbers: times in s. `form` is how Python prints a number of seconds
("e": six digits, "": all of them), which differs among versions. A row with `remaining` is the last line of its table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from itertools import groupby

import numpy as np

from tracekit.analysis.nesting import nest
from tracekit.analysis.statistics import Grouped
from tracekit.index import grouping
from tracekit.index.grouping import Key, group_by, statistics, too_long
from tracekit.index.sources import source_label, source_labels, spans
from tracekit.index.trace_index import PickedRows, TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, ReportTable
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.units import Unit
from tracekit.views.totals import TotalsRow, cell, totals_rows

__all__ = [
    "APPLY",
    "CLASS",
    "COLUMNS",
    "NO_NODES",
    "OPS",
    "WHAT",
    "PrintedBlock",
    "TheanoRow",
    "cut",
    "event_blocks",
    "number",
    "only_large",
    "printed_blocks",
    "remaining",
    "row",
    "tables",
    "total",
]

# Blocks of rows as the reader of Theano's profiles yields them; the views of Theano share them.
#
# A block is what Theano prints of one function: facts (section `header`), the tables Class, Ops and Apply, and what
# else it printed. The rows of a trace are brought into the same form, so one view shows both.


class TheanoRow(TotalsRow):
    """A row as in TOTALS. spread: min, p50, p95, p99, max, std, avg of a call, ns, of rows that come from EVENTS."""

    spread: dict[str, int] | None


CLASS, OPS, APPLY = "Class", "Ops", "Apply"
TABLES = (CLASS, OPS, APPLY)
WHAT = {CLASS: "Classes", OPS: "Ops", APPLY: "Apply instances"}
_PREFIXES = ("Sum of all: ", "Scan Op: ")
_ANY = frozenset(
    {*TABLES, "Node make_thunk", "Memory Profile", "Memory Profile: peaks", "Scan overhead", "Optimizer Profile"}
)
_FACTS = frozenset(
    {
        "Message",
        "Time in calls to Function.__call__",
        "Total compile time",
        "Time in thunks",
        "Scan Op",
        "Optimizer time",
    }
)


@dataclass(slots=True)
class PrintedBlock:
    """One function. kind: function, sum (of all functions) or scan. label: what tells it from others, in words."""

    source: int
    run: int
    rank: int | None = None
    kind: str = "function"
    label: str = ""
    rows: list[TheanoRow] = field(default_factory=list)

    def fact(self, name: str) -> TheanoRow | None:
        """Return a row of the head."""
        return next((r for r in self.rows if r["section"] == "header" and r["name"] == name), None)

    def table(self, section: str) -> list[TheanoRow]:
        """Return the rows of a section."""
        return [r for r in self.rows if r["section"] == section]


def row(
    section: str,
    name: str,
    args: dict[str, object] | None = None,
    *,
    raw_name: str | None = None,
    calls: int | None = None,
    total_ns: int | None = None,
    avg_ns: float | None = None,
    value_avg: float | None = None,
    value_text: str | None = None,
    spread: dict[str, int] | None = None,
) -> TheanoRow:
    """Return a row with all columns; columns that are not given are null."""
    return {
        "source": 0,
        "rank": None,
        "run": 0,
        "section": section,
        "order": 0,
        "name": name,
        "raw_name": raw_name,
        "kind": None,
        "calls": calls,
        "total_ns": total_ns,
        "min_ns": None,
        "max_ns": None,
        "median_ns": None,
        "std_ns": None,
        "avg_ns": avg_ns,
        "device": None,
        "bytes": None,
        "value_min": None,
        "value_max": None,
        "value_avg": value_avg,
        "value_text": value_text,
        "unit": None,
        "args": args or {},
        "range": None,
        "self_ns": None,
        "device_ns": None,
        "device_self_ns": None,
        "spread": spread,
    }


def printed_blocks(index: TraceIndex) -> list[PrintedBlock]:
    """Return the contents of profiles of Theano, Aesara or PyTensor, in the order of the files."""
    blocks: dict[tuple[int, int], PrintedBlock] = {}
    for printed in sorted(totals_rows(index), key=lambda row: (row["source"], row["order"])):
        block = blocks.setdefault(
            (printed["source"], printed["run"]), PrintedBlock(printed["source"], printed["run"], printed["rank"])
        )
        block.rows.append(_plain(printed, block))
    ours = {b.source for b in blocks.values() if any(_is_ours(r) for r in b.rows)}
    printed_here = [b for b in blocks.values() if b.source in ours]
    for block in printed_here:
        texts = [found["value_text"] for name in ("Scan Op", "Message") if (found := block.fact(name))]
        block.label = next((text for text in texts if text and text != "None"), f"function {block.run}")
    return printed_here


def _is_ours(row: TheanoRow) -> bool:
    return row["section"] in _ANY or (row["section"] == "header" and row["name"] in _FACTS)


def _plain(printed_row: TotalsRow, block: PrintedBlock) -> TheanoRow:
    section = printed_row["section"]
    for prefix, kind in zip(_PREFIXES, ("sum", "scan"), strict=True):
        if section.startswith(prefix):
            section, block.kind = section.removeprefix(prefix), kind
    if printed_row["args"].get("sum"):
        block.kind = "sum"
    if printed_row["name"] == "Scan Op":
        block.kind = "scan"
    return {**printed_row, "section": section, "name": printed_row["name"] or "", "spread": None}


def remaining(printed_row: TotalsRow) -> int | None:
    """Return how many rows a row stands for that were left out; None for a row of the table."""
    count = printed_row["args"].get("remaining")
    return count if isinstance(count, int) else None


def cut(section: str, rows: Sequence[TheanoRow], most: int | None) -> tuple[list[TheanoRow], TheanoRow | None]:
    """Return the first `most` rows of a table (None: all), and the row for the rest, None where a file was cut.

    The time of the rest is the sum of what is left out, with what the profiler had left out before; its share is of
    the time of all rows.
    """
    shown = [r for r in rows if remaining(r) is None]
    last = next((r for r in rows if remaining(r) is not None), None)
    if most is None or most >= len(shown):
        return shown, last
    gone = shown[most:]
    before = row(section, "") if last is None else last
    count = len(gone) + (remaining(before) or 0)
    time = total(gone) + (before["total_ns"] or 0)
    whole = total(shown) + (before["total_ns"] or 0)
    args: dict[str, object] = {"remaining": count, "percent": 100 * time / whole if whole else 0.0, "s": time / 1e9}
    if "sign" in before["args"]:
        args["sign"] = before["args"]["sign"]
    return shown[:most], row(section, f"(remaining {count} {WHAT.get(section, section)})", args, total_ns=time)


def total(rows: Iterable[TotalsRow]) -> int:
    """Return the sum of the times, ns."""
    return sum(r["total_ns"] or 0 for r in rows)


def number(value: object) -> float | None:
    """Return a cell that was printed as a number; None where it is none."""
    try:
        return float(value) if isinstance(value, (str, int, float)) else None
    except ValueError:
        return None


# The tables of Theano from EVENTS: class = kind, op = name, apply = an op by its place on its thread or stream.
#
# The time of an event is its self time: the part that no event within it covers, as the time of a node of Theano is its
# own. So the tables add up to the time that threads and streams were at work, and nothing counts twice. An apply node
# is the k-th event of a name on its thread within a step, over all steps; without steps each event is one. Its id is
# its place among the nodes of its thread, by first start. Steps are the function's calls, and no nodes.


NO_NODES = frozenset({Kind.STEP, Kind.COUNTER, Kind.MARK, Kind.FLOW, Kind.MEMORY})
COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "name", "source", "rank", "pid", "tid", "device", "stream", "step"})
MOST_BLOCKS = 100
"""Most threads that have a block of their own with thread_sep: the busiest ones."""
_LANE = ("source", "pid", "tid", "device", "stream")


@dataclass(frozen=True, slots=True)
class _TheanoWork:
    """Events that are nodes. own: self times. lane, kind, op, apply: the group of each row, and how many there are."""

    rows: I64
    starts: I64
    own: I64
    lane: I64
    lanes: list[str]
    kind: I64
    kinds: list[Cell]
    op: I64
    ops: list[tuple[Cell, Cell]]
    apply: I64
    ids: I64


def event_blocks(
    index: TraceIndex, *, thread_sep: bool, n_ops: int, n_apply: int
) -> tuple[list[PrintedBlock], list[str]]:
    """Return one block for all events, or one for each thread and stream and their sum; and notes.

    Raises: TracekitError where the times add up to more than int64 holds.
    """
    nodes = [k for k in Kind if k not in NO_NODES]
    picked = index.pick([k for k in nodes if k != Kind.OTHER])
    notes = []
    if picked.rows.size:
        if others := int(index.pick([Kind.OTHER]).rows.size):
            notes.append(f"{plural(others, 'event')} of kind other (such as spans of the profiler itself) skipped")
    else:
        picked = index.pick(nodes)
    notes += picked.notes("event")
    if not picked.rows.size:
        return [], notes
    work, crossing = _work(index, picked)
    if crossing:
        notes.append(f"{plural(crossing, 'event')} overlap in part with one before on the same thread or stream")
    everything = np.ones(work.rows.size, np.bool_)
    if not thread_sep or len(work.lanes) < 2:
        label = work.lanes[0] if thread_sep else next(iter(source_labels(index).values()), "trace")
        return [_block(index, work, everything, label, "function", n_ops, n_apply)], notes
    busy = np.zeros(len(work.lanes), np.int64)
    np.add.at(busy, work.lane, work.own)
    order = np.argsort(-busy, kind="stable").tolist()
    blocks = [
        _block(index, work, work.lane == lane, work.lanes[lane], "function", n_ops, n_apply)
        for lane in order[:MOST_BLOCKS]
    ]
    if len(order) > MOST_BLOCKS:
        notes.append(f"of {len(order):,} threads and streams the {MOST_BLOCKS:,} that were at work longest are shown")
    blocks.append(_block(index, work, everything, f"Sum of all({len(order)})", "sum", n_ops, n_apply))
    return blocks, notes


def _work(index: TraceIndex, picked: PickedRows) -> tuple[_TheanoWork, int]:
    """Return the nodes, and how many cross one before them. On a device the threads that launched do not matter."""
    rows = picked.rows
    on_device = index.kind_mask(DEVICE_WORK)[rows]
    keys = []
    for column in _LANE:
        key = index.key(column, rows)
        aside = on_device if column in ("pid", "tid") else ~on_device if column in ("device", "stream") else None
        keys.append(Key(np.where(aside, 0, key.codes), key.labels) if aside is not None else key)
    lanes = group_by(*keys, Key(on_device.astype(np.int64), (0, 1)))
    tree = nest(lanes.codes, picked.starts, picked.starts + picked.durations)
    kinds = group_by(picked.key("kind"))
    ops = group_by(picked.key("kind"), picked.key("name"))
    apply, ids = _apply(picked, lanes.codes, ops.codes)
    labels = _lane_labels(index, list(zip(*lanes.labels, strict=True)))
    nodes = _TheanoWork(
        rows,
        picked.starts,
        tree.self_ns,
        lanes.codes,
        labels,
        kinds.codes,
        kinds.labels[0],
        ops.codes,
        list(zip(*ops.labels, strict=True)),
        apply,
        ids,
    )
    return nodes, int(np.count_nonzero(tree.crosses >= 0))


def _lane_labels(index: TraceIndex, lanes: list[tuple[Cell, ...]]) -> list[str]:
    sources = source_labels(index)
    several = len({lane[0] for lane in lanes}) > 1
    labels = []
    for source, pid, tid, device, stream, on_device in lanes:
        if on_device:
            name = index.run.streams.get((source, device, stream)) or f"stream {'?' if stream is None else stream}"
            name = name if device is None else f"device {device} {name}"
        else:
            name = index.run.threads.get((source, pid, tid)) or ("no thread known" if tid is None else f"thread {tid}")
        label = source_label(sources, source) if isinstance(source, int) else "input"
        labels.append(f"{label}: {name}" if several else name)
    return (
        [f"{n} ({i})" if labels.count(n) > 1 else n for i, n in enumerate(labels)]
        if len(labels) <= MOST_BLOCKS
        else labels
    )


def _apply(picked: PickedRows, lane: I64, op: I64) -> tuple[I64, I64]:
    """Return the apply node of each row, and the id of each node."""
    step = arrow.ints(picked.index.events.column("step"), -1)[picked.rows]
    order = np.lexsort((picked.starts, step, op, lane))
    new_op = _changes(lane[order], op[order])
    new_step = new_op | _changes(step[order])
    place = np.arange(order.size)
    occurrence = place - np.maximum.accumulate(np.where(new_step, place, 0))
    # An op has as many nodes as the step that has most of it: they are numbered op by op, by occurrence.
    begins = np.flatnonzero(new_op)
    widths = np.maximum.reduceat(occurrence, begins) + 1
    firsts = np.cumsum(widths) - widths
    node = np.empty(order.size, np.int64)
    node[order] = firsts[np.cumsum(new_op) - 1] + occurrence
    count = int(widths.sum())
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, node, picked.starts)
    of_lane = np.zeros(count, np.int64)
    of_lane[node] = lane
    by_start = np.lexsort((np.arange(count), first, of_lane))
    rank = np.arange(count)
    ids = np.empty(count, np.int64)
    ids[by_start] = rank - np.maximum.accumulate(np.where(_changes(of_lane[by_start]), rank, 0))
    return node, ids


def _changes(*columns: I64) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return where a row differs from the one before it; the first does."""
    changed = np.ones(columns[0].size, np.bool_)
    if columns[0].size:
        changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _block(
    index: TraceIndex,
    work: _TheanoWork,
    mask: np.ndarray[tuple[int], np.dtype[np.bool_]],
    label: str,
    kind: str,
    n_ops: int,
    n_apply: int,
) -> PrintedBlock:
    chosen = np.flatnonzero(mask)
    self_ns = work.own[chosen]
    seen = np.flatnonzero(np.bincount(work.apply[chosen], minlength=work.ids.size))
    block = PrintedBlock(0, 0, kind=kind, label=label)
    thunks = _sum(self_ns)
    block.rows += _facts(index, work, label, thunks, seen.size)
    op_of_node = np.zeros(work.ids.size, np.int64)
    op_of_node[work.apply] = work.op
    kind_of_op = np.zeros(len(work.ops), np.int64)
    kind_of_op[work.op] = work.kind
    of_op = np.bincount(op_of_node[seen], minlength=len(work.ops))
    of_kind = np.zeros(len(work.kinds), np.int64)
    np.add.at(of_kind, kind_of_op, of_op)
    block.rows += _table(CLASS, work.kind[chosen], self_ns, thunks, n_ops, of_kind, [str(k) for k in work.kinds], work)
    names = [str(name) if name is not None else "(no name)" for _, name in work.ops]
    block.rows += _table(OPS, work.op[chosen], self_ns, thunks, n_ops, of_op, names, work)
    block.rows += _apply_rows(work, chosen, thunks, n_apply, op_of_node, names)
    return block


def _facts(index: TraceIndex, work: _TheanoWork, label: str, thunks: int, nodes: int) -> list[TheanoRow]:
    """Return the head: the calls are steps, or the whole trace."""
    steps = index.pick([Kind.STEP])
    if steps.rows.size:
        calls, time = int(steps.rows.size), _sum(steps.durations)
    else:
        known = index.events.column("step").drop_null()
        calls = len(known.unique()) or 1
        first, last = spans(np.zeros(work.rows.size, np.int64), 1, work.starts, work.starts + _lengths(index, work))
        time = int(last[0]) - int(first[0])  # may be more than int64 holds
    share: dict[str, object] = {"percent": 100 * thunks / time} if time else {}
    unknown = (
        "Time in Function.fn.__call__",
        "Total compile time",
        "Optimizer time",
        "Validate time",
        "Linker time",
        "Import time",
        "Node make_thunk time",
    )
    raw = {
        "Optimizer time": "Theano Optimizer time",
        "Validate time": "Theano validate time",
        "Linker time": "Theano Linker time (includes C, CUDA code generation/compiling)",
    }
    gone = {name: row("header", name, raw_name=raw.get(name)) for name in unknown}
    return [
        row("header", "Message", value_text=label),
        row("header", "Time in calls to Function.__call__", calls=calls, total_ns=time),
        gone[unknown[0]],
        row("header", "Time in thunks", share, total_ns=thunks),
        gone[unknown[1]],
        row("header", "Number of Apply nodes", value_avg=float(nodes)),
        *(gone[name] for name in unknown[2:]),
    ]


def _lengths(index: TraceIndex, work: _TheanoWork) -> I64:
    lengths: I64 = np.maximum(index.ints("dur_ns")[work.rows], 0)
    return lengths


def _sum(values: I64) -> int:
    whole = sum(int(part.sum()) for part in np.array_split(values, values.size // (1 << 16) + 1))
    if whole > grouping.INT64_MAX:
        raise too_long()
    return whole


def _table(
    section: str, codes: I64, self_ns: I64, thunks: int, most: int, nodes: I64, names: list[str], work: _TheanoWork
) -> list[TheanoRow]:
    stats = statistics(grouping.Groups(codes, len(names), ()), self_ns)
    present = np.flatnonzero(stats.present)
    # Theano's order: by time, then two counts, largest first.
    order = present[np.lexsort((-nodes[present], -stats.calls[present], -stats.total[present]))]
    rows = []
    python = {str(Kind.PYTHON_OP)}
    for group in order[:most].tolist():
        kind = work.kinds[group] if section == CLASS else work.ops[group][0]
        args: dict[str, object] = {
            "apply_nodes": int(nodes[group]),
            "implementation": "Py" if kind in python else "C",
            "kind": kind,
        }
        rows.append(_row(section, names[group], stats, group, args))
    return _shares(section, rows, thunks, len(order), _sum(stats.total[order[most:]]))


def _apply_rows(
    work: _TheanoWork, chosen: I64, thunks: int, most: int, op_of_node: I64, names: list[str]
) -> list[TheanoRow]:
    """Return the nodes that took longest; only those get percentiles, as there may be millions."""
    nodes = work.apply[chosen]
    totals = np.zeros(work.ids.size, np.int64)
    np.add.at(totals, nodes, work.own[chosen])
    present = np.flatnonzero(np.bincount(nodes, minlength=work.ids.size))
    order = present[np.lexsort((-work.ids[present], -totals[present]))]
    shown = order[:most]
    place = np.full(work.ids.size, -1, np.int64)
    place[shown] = np.arange(shown.size)
    in_table = place[nodes] >= 0
    stats = statistics(grouping.Groups(place[nodes[in_table]], shown.size, ()), work.own[chosen][in_table])
    lane_of = np.zeros(work.ids.size, np.int64)
    lane_of[work.apply] = work.lane
    rows = []
    for group, node in enumerate(shown.tolist()):
        lane = work.lanes[lane_of[node]]
        kind = work.ops[op_of_node[node]][0]
        args: dict[str, object] = {"id": int(work.ids[node]), "thread": lane, "kind": kind}
        rows.append(_row(APPLY, names[op_of_node[node]], stats, group, args))
    return _shares(APPLY, rows, thunks, int(present.size), _sum(totals[order[most:]]))


def _row(section: str, name: str, stats: Grouped, group: int, args: dict[str, object]) -> TheanoRow:
    spread = {
        "min": int(stats.min[group]),
        "p50": int(stats.percentile(50)[group]),
        "p95": int(stats.percentile(95)[group]),
        "p99": int(stats.percentile(99)[group]),
        "max": int(stats.max[group]),
        "std": int(stats.pstd[group]),
        "avg": int(stats.mean[group]),
    }
    calls, time = int(stats.calls[group]), int(stats.total[group])
    return row(section, name, args, calls=calls, total_ns=time, avg_ns=time / calls, spread=spread)


def _shares(section: str, rows: list[TheanoRow], thunks: int, count: int, rest_ns: int) -> list[TheanoRow]:
    """Put shares of all time into the rows, and the last row, for what is left out, below them."""
    so_far = 0
    for shown in rows:
        so_far += shown["total_ns"] or 0
        if thunks:
            shown["args"] |= {
                "percent": 100 * (shown["total_ns"] or 0) / thunks,
                "cumulative_percent": 100 * so_far / thunks,
            }
    left = count - len(rows)
    args: dict[str, object] = {"remaining": left, "percent": 100 * rest_ns / thunks if thunks else 0.0, "of": section}
    return [*rows, row(section, f"(remaining {left} {WHAT[section]})", args, total_ns=rest_ns)]


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


def tables(block: PrintedBlock, most: dict[str, int | None], least_bytes: int | None) -> list[ReportTable]:
    """Return the tables of a block. most: rows of Class, Ops and Apply to show. least_bytes: of the memory's nodes."""
    out = []
    for part, part_rows in groupby(block.rows, lambda r: _part(r, block)):
        rows = list(part_rows)
        if part in TABLES:
            columns = _timed(part, rows, most[part])
        elif part == "memory":
            columns = _memory(rows, least_bytes)
        else:
            columns = _OTHERS[part](rows)
        name = part.lower()
        out.append(ReportTable(name, f"{block.label}: {name.replace('_', ' ')}", tuple(columns)))
    return out


def _part(row: TheanoRow, block: PrintedBlock) -> str:
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


def _seconds(row: TheanoRow) -> float | None:
    printed = number(row["args"].get("s"))
    return row["total_ns"] / 1e9 if printed is None and row["total_ns"] is not None else printed


def _arg(rows: Sequence[TheanoRow], name: str) -> list[Cell]:
    return [number(r["args"].get(name)) for r in rows]


def _int(rows: Sequence[TheanoRow], name: str) -> list[Cell]:
    return [value if isinstance(value := r["args"].get(name), int) else None for r in rows]


def _text(rows: Sequence[TheanoRow], name: str) -> list[Cell]:
    return [None if (value := r["args"].get(name)) is None else str(value) for r in rows]


def _listed(row: TheanoRow, name: str) -> list[object]:
    value = row["args"].get(name)
    return value if isinstance(value, list) else []


def _number(name: str, title: str, values: Sequence[Cell]) -> Column:
    return Column(name, title, Unit.NUMBER, list(values))


def _words(name: str, title: str, values: Sequence[Cell]) -> Column:
    return Column(name, title, Unit.TEXT, list(values))


def _count(name: str, title: str, values: Sequence[Cell]) -> Column:
    return Column(name, title, Unit.COUNT, list(values))


def _fact_columns(rows: list[TheanoRow]) -> list[Column]:
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


def _timed(part: str, rows: list[TheanoRow], most: int | None) -> list[Column]:
    shown, rest = cut(part, rows, most)
    lines: list[TheanoRow] = []
    below: list[Cell] = []
    for row in [*shown, *([rest] if rest else [])]:
        lines.append(row)
        below.append(None)
        for what in ("input", "output"):
            for place, text in enumerate(_listed(row, f"{what}s")):
                lines.append({**row, "args": {}, "calls": None, "name": None, "raw_name": None, "avg_ns": None})
                below.append(f"{what} {place}: {text}")
    is_node = [b is None for b in below]
    each = [r["avg_ns"] / 1e9 if r["avg_ns"] is not None else None for r in lines]
    flops = part == APPLY and any("mflops" in r["args"] for r in shown)
    columns = [
        _number("percent", "% time", _arg(lines, "percent")),
        _number("sum_percent", "sum %", _arg(lines, "cumulative_percent")),
        _number(
            "s",
            "apply time (s)",
            [_seconds(r) if is_its_own else None for r, is_its_own in zip(lines, is_node, strict=True)],
        ),
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


def _memory(rows: list[TheanoRow], least: int | None) -> list[Column]:
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


def only_large(rows: list[TheanoRow], least: int) -> list[TheanoRow]:
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
    changed: TheanoRow = {**last, "bytes": size, "args": args}
    return [changed if r is last else r for r in rows if id(r) not in left_out]


def _scan_overhead(rows: list[TheanoRow]) -> list[Column]:
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


def _optimizer(rows: list[TheanoRow]) -> list[Column]:
    """Steps with `s`, and lines of words between them."""
    lines: list[TheanoRow] = []
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


def _texts(rows: list[TheanoRow]) -> list[Column]:
    return [_words("text", "Text", [r["value_text"] for r in rows])]


_OTHERS: dict[str, Callable[[list[TheanoRow]], list[Column]]] = {
    "function": _fact_columns,
    "scan": _fact_columns,
    "globals": _fact_columns,
    "scan_overhead": _scan_overhead,
    "optimizer": _optimizer,
    "tips": _texts,
    "global_stats": _texts,
    "remarks": _texts,
}

"""The tables of Theano from EVENTS: class = kind, op = name, apply = an op by its place on its thread or stream.

The time of an event is its self time: the part that no event within it covers, as the time of a node of Theano is its
own. So the tables add up to the time that threads and streams were at work, and nothing counts twice. An apply node is
the k-th event of a name on its thread within a step, over all steps; without steps each event is one. Its id is its
place among the nodes of its thread, by first start. Steps are the function's calls, and no nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.analysis.intervals import I64
from tracekit.analysis.nesting import nest
from tracekit.analysis.statistics import Grouped
from tracekit.columns import arrow
from tracekit.compat.theano._rows import APPLY, CLASS, OPS, WHAT, Block, Row, row
from tracekit.index import grouping
from tracekit.index.grouping import Key, group_by, plural, statistics, too_long
from tracekit.index.sources import source_label, source_labels, spans
from tracekit.index.trace_index import Picked, TraceIndex
from tracekit.report import Cell
from tracekit.schema import DEVICE_WORK, Kind

NO_NODES = frozenset({Kind.STEP, Kind.COUNTER, Kind.MARK, Kind.FLOW, Kind.MEMORY})
COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "name", "source", "rank", "pid", "tid", "device", "stream", "step"})
MOST_BLOCKS = 100
"""Most threads that have a block of their own with thread_sep: the busiest ones."""
_LANE = ("source", "pid", "tid", "device", "stream")


@dataclass(frozen=True, slots=True)
class _Work:
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


def event_blocks(index: TraceIndex, *, thread_sep: bool, n_ops: int, n_apply: int) -> tuple[list[Block], list[str]]:
    """Return one block for all events, or one for each thread and stream and their sum; and notes.

    Raises: TracekitError where the times add up to more than int64 holds.
    """
    nodes = [k for k in Kind if k not in NO_NODES]
    picked = index.pick([k for k in nodes if k != Kind.OTHER])
    notes = []
    if picked.rows.size:
        if others := int(index.pick([Kind.OTHER]).rows.size):
            notes.append(f"{plural('event', others)} of kind other (such as spans of the profiler itself) skipped")
    else:
        picked = index.pick(nodes)
    notes += picked.notes("event")
    if not picked.rows.size:
        return [], notes
    work, crossing = _work(index, picked)
    if crossing:
        notes.append(f"{plural('event', crossing)} overlap in part with one before on the same thread or stream")
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


def _work(index: TraceIndex, picked: Picked) -> tuple[_Work, int]:
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
    made = _Work(
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
    return made, int(np.count_nonzero(tree.crosses >= 0))


def _lane_labels(index: TraceIndex, lanes: list[tuple[Cell, ...]]) -> list[str]:
    sources = source_labels(index)
    several = len({lane[0] for lane in lanes}) > 1
    made = []
    for source, pid, tid, device, stream, on_device in lanes:
        if on_device:
            name = index.run.streams.get((source, device, stream)) or f"stream {'?' if stream is None else stream}"
            name = name if device is None else f"device {device} {name}"
        else:
            name = index.run.threads.get((source, pid, tid)) or ("no thread known" if tid is None else f"thread {tid}")
        label = source_label(sources, source) if isinstance(source, int) else "input"
        made.append(f"{label}: {name}" if several else name)
    return [f"{n} ({i})" if made.count(n) > 1 else n for i, n in enumerate(made)] if len(made) <= MOST_BLOCKS else made


def _apply(picked: Picked, lane: I64, op: I64) -> tuple[I64, I64]:
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
    work: _Work,
    mask: np.ndarray[tuple[int], np.dtype[np.bool_]],
    label: str,
    kind: str,
    n_ops: int,
    n_apply: int,
) -> Block:
    chosen = np.flatnonzero(mask)
    own = work.own[chosen]
    seen = np.flatnonzero(np.bincount(work.apply[chosen], minlength=work.ids.size))
    block = Block(0, 0, kind=kind, label=label)
    thunks = _sum(own)
    block.rows += _facts(index, work, label, thunks, seen.size)
    op_of_node = np.zeros(work.ids.size, np.int64)
    op_of_node[work.apply] = work.op
    kind_of_op = np.zeros(len(work.ops), np.int64)
    kind_of_op[work.op] = work.kind
    of_op = np.bincount(op_of_node[seen], minlength=len(work.ops))
    of_kind = np.zeros(len(work.kinds), np.int64)
    np.add.at(of_kind, kind_of_op, of_op)
    block.rows += _table(CLASS, work.kind[chosen], own, thunks, n_ops, of_kind, [str(k) for k in work.kinds], work)
    names = [str(name) if name is not None else "(no name)" for _, name in work.ops]
    block.rows += _table(OPS, work.op[chosen], own, thunks, n_ops, of_op, names, work)
    block.rows += _apply_rows(work, chosen, thunks, n_apply, op_of_node, names)
    return block


def _facts(index: TraceIndex, work: _Work, label: str, thunks: int, nodes: int) -> list[Row]:
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


def _lengths(index: TraceIndex, work: _Work) -> I64:
    found: I64 = np.maximum(index.ints("dur_ns")[work.rows], 0)
    return found


def _sum(values: I64) -> int:
    whole = sum(int(part.sum()) for part in np.array_split(values, values.size // (1 << 16) + 1))
    if whole > grouping.INT64_MAX:
        raise too_long()
    return whole


def _ordered(totals: I64, calls: I64, third: I64) -> I64:
    """Return Theano's order: by time, then two counts, largest first."""
    return np.lexsort((-third, -calls, -totals))


def _table(
    section: str, codes: I64, own: I64, thunks: int, most: int, nodes: I64, names: list[str], work: _Work
) -> list[Row]:
    stats = statistics(grouping.Groups(codes, len(names), ()), own)
    present = np.flatnonzero(stats.present)
    order = present[_ordered(stats.total[present], stats.calls[present], nodes[present])]
    made = []
    python = {str(Kind.PYTHON_OP)}
    for group in order[:most].tolist():
        kind = work.kinds[group] if section == CLASS else work.ops[group][0]
        args: dict[str, object] = {
            "apply_nodes": int(nodes[group]),
            "implementation": "Py" if kind in python else "C",
            "kind": kind,
        }
        made.append(_row(section, names[group], stats, group, args))
    return _shares(section, made, thunks, len(order), _sum(stats.total[order[most:]]))


def _apply_rows(work: _Work, chosen: I64, thunks: int, most: int, op_of_node: I64, names: list[str]) -> list[Row]:
    """Return the nodes that took longest; only those get percentiles, as there may be millions."""
    nodes = work.apply[chosen]
    totals = np.zeros(work.ids.size, np.int64)
    np.add.at(totals, nodes, work.own[chosen])
    found = np.flatnonzero(np.bincount(nodes, minlength=work.ids.size))
    order = found[np.lexsort((-work.ids[found], -totals[found]))]
    shown = order[:most]
    place = np.full(work.ids.size, -1, np.int64)
    place[shown] = np.arange(shown.size)
    mine = place[nodes] >= 0
    stats = statistics(grouping.Groups(place[nodes[mine]], shown.size, ()), work.own[chosen][mine])
    lane_of = np.zeros(work.ids.size, np.int64)
    lane_of[work.apply] = work.lane
    made = []
    for group, node in enumerate(shown.tolist()):
        lane = work.lanes[lane_of[node]]
        kind = work.ops[op_of_node[node]][0]
        args: dict[str, object] = {"id": int(work.ids[node]), "thread": lane, "kind": kind}
        made.append(_row(APPLY, names[op_of_node[node]], stats, group, args))
    return _shares(APPLY, made, thunks, int(found.size), _sum(totals[order[most:]]))


def _row(section: str, name: str, stats: Grouped, group: int, args: dict[str, object]) -> Row:
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


def _shares(section: str, rows: list[Row], thunks: int, count: int, rest_ns: int) -> list[Row]:
    """Put shares of all time into the rows, and the last row, for what is left out, below them."""
    so_far = 0
    for found in rows:
        so_far += found["total_ns"] or 0
        if thunks:
            found["args"] |= {
                "percent": 100 * (found["total_ns"] or 0) / thunks,
                "cumulative_percent": 100 * so_far / thunks,
            }
    left = count - len(rows)
    args: dict[str, object] = {"remaining": left, "percent": 100 * rest_ns / thunks if thunks else 0.0, "of": section}
    return [*rows, row(section, f"(remaining {left} {WHAT[section]})", args, total_ns=rest_ns)]

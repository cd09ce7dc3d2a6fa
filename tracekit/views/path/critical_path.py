"""critical_path: the longest chain of dependent work, and what could be saved on it.

The path goes back from the end of the run (of the steps, where there are steps) through host threads, launch calls,
streams and waits: from each piece of work to the one that ended last of all that it had to wait for. Its parts add up
to the span exactly; in each step too, where the path is cut at the steps. Classes:

* host: ranges, operators and calls of a thread that launch nothing; launch: calls that launch, and the time from their
  end to the start of the work; kernel; copy: copies and memsets; sync wait: what a synchronizing call takes after the
  work that it waited for has ended, or all of it where that is not known; idle: nothing known ran on the path.

won is an upper bound of the savings: the whole graph is evaluated again as if each piece of that name took no time, so
work that was hidden behind the path counts; left is the span then. A synchronizing call that takes no time still waits
for its work. `views/path/graph.py` and analysis/critical_path describe the edges, and what a trace does not contain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from tracekit.analysis.critical_path import Lag, Path, UpperBounds
from tracekit.analysis.path_graph import PathPart
from tracekit.index import owners as _owners
from tracekit.index import steps as _steps
from tracekit.index.steps import Steps
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Codes, Mask
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.timeline import CriticalPath
from tracekit.model.units import Unit, format_span
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.path import graph as _path_graph
from tracekit.views.path.graph import OwnGraph

__all__ = ["VIEW", "drop_graphs"]

OWNERS = 8
"""The most ranks whose path is shown."""
NAMES = 20
"""Names with a row and an upper bound of their own, unless --top names another number."""
MOST_NAMES = 200
_BLOCK = 1 << 16

_TITLE = "Critical path"
PARTS = {
    PathPart.HOST: "host",
    PathPart.LAUNCH: "launch",
    PathPart.KERNEL: "kernel",
    PathPart.COPY: "copy",
    PathPart.SYNC: "sync wait",
    PathPart.IDLE: "idle",
}
LAGS = {
    Lag.BEFORE: "(before the first known work)",
    Lag.LAUNCH: "(from launch call to start)",
    Lag.THREAD: "(thread in no range)",
    Lag.STREAM: "(pause on a stream)",
    Lag.WAIT: "(after the end of a wait)",
}
_COLUMNS = _path_graph.COLUMNS | {"step"}
_MODEL = (
    "saved without: how much shorter the span would be at most if all work of that name took no time; this assumes "
    "that locks, other ranks and the inside of calls delay nothing"
)


@dataclass(frozen=True, slots=True, eq=False)
class _OwnPath:
    """The critical path of one owner."""

    own: OwnGraph
    path: Path


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the time on the path by class, by name and by step. Raises: UsageError."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    owners = _owners.find(index)
    every = _path_graph.count(index, owners)
    if not every:
        needs = "needs operators, API calls or steps on host threads; this trace has none with a duration"
        more = ["device events alone do not show what they waited for"] if index.events.num_rows else []
        return Section(VIEW.name, _TITLE, notes=(needs, *more, *tabulate.option_notes(options)))
    try:
        paths = [
            _OwnPath(own, _path_graph.path_of(index, own)) for own in _path_graph.graphs(index, owners, most=OWNERS)
        ]
    except OverflowError:
        far = "the rows are more than nine years apart; --time A:B selects the ones that can be true"
        return Section(VIEW.name, _TITLE, notes=(far, *tabulate.option_notes(options)))
    steps = _steps.find(index, owners)
    tables = [_by_part(owners, paths, options), _by_name(owners, paths, options)]
    if any(each.own.steps for each in paths):
        tables.append(_by_step(index, owners, paths, steps, options))
    notes = [_MODEL, *_notes(owners, paths)]
    drop_graphs(index)  # in a report only `findings` needs them too, and it runs before
    if every > len(paths):
        notes.append(f"the paths of the first {len(paths)} of {every:,} are shown")
    drawn = tuple(_drawn(owners, each) for each in paths)
    return Section(VIEW.name, _TITLE, tuple(tables), drawn, (*notes, *tabulate.option_notes(options, tables[1])))


def drop_graphs(index: TraceIndex) -> None:
    """Forget the graphs and paths, the largest joins of all: for after the last view that asks for them."""
    for join in (_path_graph.graphs, _path_graph.path_of):
        index.drop(join)


def _drawn(owners: _owners.Owners, each: _OwnPath) -> CriticalPath:
    """Return the pieces of a path that ran in events; those of one event that follow each other are one piece."""
    path = each.path
    at = np.flatnonzero(path.node >= 0)
    rows, starts, ends = each.own.rows[path.node[at]], path.starts[at], path.ends[at]
    begins = np.ones(at.size, np.bool_)
    begins[1:] = (rows[1:] != rows[:-1]) | (starts[1:] != ends[:-1])
    last = np.append(begins[1:], True)[: at.size]
    label = owners.labels[each.own.owner] if len(owners) > 1 else ""
    return CriticalPath(label, each.own.graph.span, rows[begins], starts[begins], ends[last])


def _by_part(owners: _owners.Owners, paths: list[_OwnPath], options: ViewOptions) -> ReportTable:
    rows: list[tuple[int, str, int, float | None]] = []
    for each in paths:
        length = each.path.ends - each.path.starts
        span = each.own.graph.span
        for part, word in PARTS.items():
            time = int(length[each.path.parts == part].sum())
            rows.append((each.own.owner, word, time, time / span if span else None))
    columns = [
        *owners.column([owner for owner, *_ in rows]),
        Column("part", "Part", Unit.TEXT, [word for _, word, _, _ in rows], 0),
        Column("time", "On the path", Unit.NS, [time for _, _, time, _ in rows], 0),
        Column("share", "Share", Unit.RATIO, [share for *_, share in rows], 0),
    ]
    blocks: list[tuple[Cell, ...]] = [(owner, i) for i, (owner, *_) in enumerate(rows)]
    whole = ViewOptions(sorted_by=options.sorted_by)
    return tabulate.finish("path_parts", "Time on the path", columns, whole, blocks=blocks, top_each=False)


def _by_name(owners: _owners.Owners, paths: list[_OwnPath], options: ViewOptions) -> ReportTable:
    """Return a row for each of the names that take most of the path, and one for all others."""
    kept = min(options.top, MOST_NAMES) if options.top else NAMES
    rows: list[tuple[Cell, ...]] = []
    blocks: list[tuple[Cell, ...]] = []
    for each in paths:
        for i, row in enumerate(_names(each, kept)):
            rows.append((each.own.owner, *row))
            blocks.append((each.own.owner, i))
    cells = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(9)]
    columns = [
        *owners.column([int(o) for o in cells[0] if isinstance(o, int)]),
        Column("time", "On the path", Unit.NS, cells[3], 0),
        Column("share", "Share", Unit.RATIO, cells[4], 1),
        Column("won", "Saved without", Unit.NS, cells[7], 0),
        Column("left", "Span then", Unit.NS, cells[8], 2),
        Column("pieces", "Pieces", Unit.COUNT, cells[5], 4),
        Column("total", "Total", Unit.NS, cells[6], 3),
        Column("part", "Part", Unit.TEXT, cells[2], 1),
        Column("name", "Name", Unit.TEXT, cells[1], 0),
    ]
    # Rows are cut by name above, with a row for the others: the parts still add up.
    whole = ViewOptions(sorted_by=options.sorted_by)
    return tabulate.finish("path_names", "Names on the path", columns, whole, own_order="time", blocks=blocks)


def _names(each: _OwnPath, kept: int) -> list[tuple[Cell, ...]]:
    """Return name, part, time, share, pieces, total, won, left of what takes most of the path; longest first."""
    graph, path = each.own.graph, each.path
    width = len(PARTS)
    keys, times, pieces = _pieces(path)
    nodes = graph.nodes
    of_node = (nodes.names + len(Lag)) * width + nodes.parts
    totals = _totals(keys, of_node, nodes.starts, nodes.ends)
    order = np.lexsort((keys, -times))
    arrow.release_memory()  # the bounds below need much
    shown, others = order[:kept], order[kept:]
    real = [int(k) for k in shown if keys[k] >= len(Lag) * width]
    masks = _Masks(of_node, [int(keys[k]) for k in real])
    savings = dict(zip(real, UpperBounds(graph, path).of(masks).tolist(), strict=True))
    rows: list[tuple[Cell, ...]] = []
    for k in shown.tolist():
        name = int(keys[k]) // width - len(Lag)
        text = each.own.names[name] if name >= 0 else LAGS[Lag(name)]
        gain = savings.get(k)
        rows.append(
            (
                text,
                PARTS[PathPart(int(keys[k]) % width)],
                int(times[k]),
                _share(int(times[k]), graph.span),
                int(pieces[k]),
                int(totals[k]) if name >= 0 else None,
                gain,
                None if gain is None else graph.span - gain,
            )
        )
    if others.size:
        time = int(times[others].sum())
        words = f"({others.size:,} more {'name' if others.size == 1 else 'names'})"
        rows.append((words, None, time, _share(time, graph.span), int(pieces[others].sum()), None, None, None))
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class _Masks(Sequence[Mask]):
    """For each key the nodes that have it: made when asked for, since all of them at once take 20 bytes a node."""

    of_node: Codes
    keys: list[int]

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, at: int) -> Mask: ...
    @overload
    def __getitem__(self, at: slice) -> _Masks: ...
    def __getitem__(self, at: int | slice) -> Mask | _Masks:
        if isinstance(at, slice):
            return _Masks(self.of_node, self.keys[at])
        mask: Mask = self.of_node == self.keys[at]
        return mask


def _pieces(path: Path) -> tuple[I64, I64, I64]:
    """Return the names on a path, each with its part as one number, ascending; their time, and their pieces."""
    # Lags are counted below zero, so that codes of names and lags are one range.
    codes = (path.names.astype(np.int64) + len(Lag)) * len(PARTS) + path.parts
    keys, inverse = np.unique(codes, return_inverse=True)
    times = np.zeros(keys.size, np.int64)
    np.add.at(times, inverse, path.ends - path.starts)
    return keys, times, np.bincount(inverse, minlength=keys.size)


def _totals(keys: I64, of_node: Codes, starts: I64, ends: I64) -> I64:
    """Return the time of all pieces of each key, on the path or not; block by block, which takes no memory."""
    totals = np.zeros(keys.size, np.int64)
    for first in range(0, of_node.size if keys.size else 0, _BLOCK):
        block = slice(first, first + _BLOCK)
        at = np.minimum(np.searchsorted(keys, of_node[block]), keys.size - 1)
        on = keys[at] == of_node[block]
        np.add.at(totals, at[on], (ends[block] - starts[block])[on])
    return totals


def _share(time: int, span: int) -> float | None:
    return time / span if span else None


def _by_step(
    index: TraceIndex, owners: _owners.Owners, paths: list[_OwnPath], steps: Steps, options: ViewOptions
) -> ReportTable:
    """Return the parts of each step; what lies between steps, and what ends after the last, have rows of their own."""
    rows: list[tuple[int, Cell, I64]] = []
    for each in paths:
        of_owner = np.flatnonzero(steps.owner == each.own.owner)
        if not of_owner.size:
            continue
        numbers = index.events.column("step").take(steps.rows[of_owner]).to_pylist()
        starts, ends = steps.starts[of_owner], steps.starts[of_owner] + steps.durations[of_owner]
        # Steps of several threads may overlap: each instant counts for the one that began last.
        ends = np.minimum(ends, np.append(starts[1:], ends[-1:]))
        last = np.array([int(ends.max()), each.own.graph.end])
        at_start, at_end, (at_last, whole) = np.split(
            _before(each.path, np.concatenate((starts, ends, last))), (starts.size, 2 * starts.size)
        )
        inside = at_end - at_start
        for i, parts in enumerate(inside):
            rows.append((each.own.owner, str(i if numbers[i] is None else numbers[i]), parts))
        after = whole - at_last
        between = whole - after - inside.sum(axis=0)
        for word, parts in (("between", between), ("after", after)):
            if parts.any():
                rows.append((each.own.owner, word, parts))
    columns = [
        *owners.column([owner for owner, *_ in rows]),
        Column("step", "Step", Unit.ID, [step for _, step, _ in rows], 0),
        Column("time", "Time", Unit.NS, [int(parts.sum()) for *_, parts in rows], 0),
        *(
            Column(word.replace(" ", "_"), word.capitalize(), Unit.NS, [int(parts[part]) for *_, parts in rows], 1)
            for part, word in PARTS.items()
        ),
    ]
    blocks: list[tuple[Cell, ...]] = [(owner, i) for i, (owner, *_) in enumerate(rows)]
    return tabulate.finish("path_steps", "The path in each step", columns, options, blocks=blocks, top_each=False)


def _before(path: Path, at: I64) -> I64:
    """Return the ns of each class that the path has before each of the times, shape (n, classes)."""
    if not path.starts.size:
        return np.zeros((at.size, len(PARTS)), np.int64)
    length = path.ends - path.starts
    sums = np.zeros((path.starts.size + 1, len(PARTS)), np.int64)
    sums[np.arange(1, path.starts.size + 1), path.parts] = length
    sums = np.cumsum(sums, axis=0)
    which = np.searchsorted(path.starts, at, "right") - 1
    near = np.maximum(which, 0)
    passed = sums[near]
    passed[np.arange(at.size), path.parts[near]] += np.clip(at - path.starts[near], 0, length[near])
    return np.where((which >= 0)[:, None], passed, 0)


_WITHOUT_STEPS = "from the first event of the main thread or of a device to the last event"


def _notes(owners: _owners.Owners, paths: list[_OwnPath]) -> list[str]:
    notes = []
    for each in paths:
        who = owners.prefix(each.own.owner)
        window = "the steps and what was launched in them" if each.own.steps else _WITHOUT_STEPS
        notes.append(f"{who}span {format_span(each.own.graph.span)}: {window}")
        if not each.own.device:
            notes.append(f"{who}no device work: the path has host threads only")
        elif each.own.unlinked:
            notes.append(
                f"{who}{each.own.unlinked:,} of {each.own.device:,} device events name no launch call: they are "
                "treated as launched when they began, unless they followed at once on other work of their stream"
            )
        if each.own.guessed_waits:
            events = plural(each.own.guessed_waits, "device event")
            notes.append(
                f"{who}{events} began as work of another stream ended: treated as a wait, though no row says so"
            )
        if each.own.graph.nodes.unseen:
            shortest = f"{each.own.graph.nodes.unseen:,}"
            notes.append(f"{who}too many waits to follow: the shortest {shortest} are ignored")
        if each.own.guessed_thread:
            notes.append(f"{who}calls without a thread are treated as calls of one thread")
    return notes


_SHOWS = (
    *specs.OWNER,
    ViewColumn("part", "Part", Unit.TEXT, "The class of the work: host, launch, kernel, copy, sync wait or idle."),
    ViewColumn("name", "Name", Unit.TEXT, "The full name of the work."),
    ViewColumn("time", "On the path", Unit.NS, "The time on the critical path."),
    ViewColumn("share", "Share", Unit.RATIO, "The time on the path, as a share of the span."),
    ViewColumn("pieces", "Pieces", Unit.COUNT, "The number of pieces of the path with this name."),
    ViewColumn("total", "Total", Unit.NS, "The time of all work with this name, on the path or not."),
    ViewColumn(
        "won", "Saved without", Unit.NS, "The upper bound of the savings if all work with this name took no time."
    ),
    ViewColumn("left", "Span then", Unit.NS, "The span that would be left."),
    ViewColumn("step", "Step", Unit.ID, "The number of the step."),
    ViewColumn("host", "Host", Unit.NS, "The time on the path in ranges, operators and calls that launch nothing."),
    ViewColumn(
        "launch",
        "Launch",
        Unit.NS,
        "The time on the path in launch calls, and from their end to the start of the work.",
    ),
    ViewColumn("kernel", "Kernel", Unit.NS, "The time on the path in kernels."),
    ViewColumn("copy", "Copy", Unit.NS, "The time on the path in copies and memsets."),
    ViewColumn(
        "sync_wait",
        "Sync wait",
        Unit.NS,
        "The time on the path in synchronizing calls, after the work that they waited for.",
    ),
    ViewColumn("idle", "Idle", Unit.NS, "The time on the path in which nothing known ran."),
)

VIEW = View(
    name="critical_path",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=frozenset(),
    compute=compute,
    shows=_SHOWS,
    args_of=_path_graph.ARGS_OF,
)

"""distributed: communication between ranks, how much of it computing hides, and each collective by group.

Four tables. `overlap`, a row a device: communication = union of its kernels that communicate; computation = union of
its other kernels; overlap = both at once; exposed = communication without computation, which is what it costs.
`with_host`, a row a process: the same, where host ranges of communication count too (a call that only enqueues work
counts as communication then: the figures are larger, and they are the ones of Paddle's table). `collectives`: calls and
times of each operation by group of processes, over kernels where any communicates, else over host ranges; bytes: what
the rank put in; bandwidth: bytes / total time. `bandwidth`: the same by the size of the message, see `_bandwidth`.
Ratios: overlap of communication, exposed of the span. Table `untimed_collectives` is all that an execution trace has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.analysis.intervals import Ranges, difference, intersection, length, merge, union
from tracekit.analysis.statistics import Grouped, grouped
from tracekit.index import collectives, grouping, matched_collectives
from tracekit.index import devices as _devices
from tracekit.index import host_tree as host
from tracekit.index import owners as _owners
from tracekit.index.collective_links import links_of
from tracekit.index.collectives import Collective
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import F64, I64, Mask
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.named import from_totals
from tracekit.views.totals import both_note
from tracekit.views.untimed import UNTIMED_NOTE

__all__ = ["VIEW", "CollectiveFigures", "RankFigures", "each_of", "figures", "kinds_of_rows", "message_bytes"]

# The table `bandwidth`: how fast messages of each size went, by the formulas of nccl-tests (doc/PERFORMANCE.md there).
#
# Algorithm bandwidth = message / time. Bus bandwidth = that times a factor of the operation and the number n of ranks,
# so
# that it can be held against the speed of the links whatever n is: 2 (n - 1) / n for all_reduce, (n - 1) / n for
# all_gather, reduce_scatter, all_to_all, gather and scatter, 1 for broadcast, reduce, send and recv. The message of
# all_gather and of gather is what all ranks put in together, of the others what one rank puts in (of scatter: the
# root).
#
# The time of a collective that several traces have is its shortest duration over the ranks, which is that of the last
# one
# to come: the others wait inside. The time of one trace alone has that wait in it.


_ALL_PUT_IN = frozenset({"all_gather", "gather"})
"""Operations whose message is what all ranks put in together."""
_FACTORS: dict[str, tuple[int, bool]] = {
    "all_reduce": (2, True),
    "all_gather": (1, True),
    "reduce_scatter": (1, True),
    "all_to_all": (1, True),
    "gather": (1, True),
    "scatter": (1, True),
    "broadcast": (1, False),
    "reduce": (1, False),
    "send": (1, False),
    "recv": (1, False),
    "send_recv": (1, False),
}
"""Bus by algorithm bandwidth: a factor, and whether (n - 1) / n goes with it."""

WAITS_INSIDE = (
    "bandwidth of collectives that one trace alone has is a lower bound: their time includes waiting for other ranks"
)
LINK_NOTE = (
    "link: the most that such devices can send each other within a host, in one direction, by the name of the device. "
    "Whether they are linked so is not in the trace; a switch that adds up (NVLink SHARP) lets all_reduce exceed it"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Sized:
    """Collectives with a message and a time; shape (n,). alone: how many are in one trace only.

    link: bytes/s of the links between their ranks, nan where it is not known.
    """

    operation: list[str]
    dimension: list[str | None]
    ranks: I64
    message: I64
    time: I64
    alone: int
    link: F64


def bus_factor(operation: str, ranks: int) -> float | None:
    """Return bus by algorithm bandwidth; None for an operation or a number of ranks that the formulas do not cover.

    >>> bus_factor("all_reduce", 8), bus_factor("broadcast", 8), bus_factor("barrier", 8)
    (1.75, 1.0, None)
    """
    if operation not in _FACTORS or ranks < 2:
        return None
    factor, by_ranks = _FACTORS[operation]
    return factor * (ranks - 1) / ranks if by_ranks else float(factor)


def bandwidth_table(
    index: TraceIndex, rows: I64, described: list[Collective], options: ViewOptions
) -> tuple[list[ReportTable], list[str]]:
    """Return the table, none where no message has a known size, and notes.

    rows: of EVENTS, one a collective of a rank; described: what they are.
    """
    sized = _sized(index, rows, described)
    if not sized.time.size:
        return [], []
    groups = grouping.group_by(
        collectives.key_of(list(sized.operation)),
        _numbers(sized.ranks),
        _numbers(sized.message),
        collectives.key_of(sized.dimension),
    )
    dimensions = groups.labels[3]
    operations = [str(name) for name in groups.labels[0]]
    ranks = np.array([int(n or 0) for n in groups.labels[1]], np.int64)
    message = np.array([int(n or 0) for n in groups.labels[2]], np.int64)
    times = grouped(groups.codes, groups.count, sized.time, (50,))
    middle, least = times.percentile(50), times.min
    factor = [bus_factor(name, n) for name, n in zip(operations, ranks.tolist(), strict=True)]
    typical, best = _bus(message, middle, factor), _bus(message, least, factor)
    fastest = {kind: max((r or 0 for r, d in zip(best, dimensions, strict=True) if d == kind)) for kind in dimensions}
    shares = [r / most if r and (most := fastest[d]) else None for r, d in zip(typical, dimensions, strict=True)]
    columns = [
        Column("name", "Collective", Unit.TEXT, list(operations), 0),
        Column("ranks", "Ranks", Unit.COUNT, [n or None for n in ranks.tolist()], 1, "name"),
        Column("message", "Message", Unit.BYTES, message.tolist(), 0, "name"),
        Column("calls", "Calls", Unit.COUNT, times.calls.tolist(), 1),
        Column("p50", "P50", Unit.NS, middle.tolist(), 1),
        Column("algorithm_bandwidth", "Algorithm", Unit.BYTES_PER_S, _rates(message, middle), 2),
        Column("bus_bandwidth", "Bus", Unit.BYTES_PER_S, list(typical), 0),
        Column("best_bandwidth", "Best bus", Unit.BYTES_PER_S, list(best), 3),
        Column("of_best", "Of the best", Unit.RATIO, list(shares), 1),
    ]
    link = _slowest(sized.link, groups.codes, groups.count)
    if any(each is not None for each in link):
        reached = [rate / most if rate and most else None for rate, most in zip(best, link, strict=True)]
        columns.append(Column("link", "Link", Unit.BYTES_PER_S, list(link), 3))
        columns.append(Column("of_link", "Of the link", Unit.RATIO, list(reached), 1))
    if any(dimensions):
        columns.insert(1, Column("dimension", "Parallel", Unit.TEXT, dimensions, 1))
    place = np.lexsort((-message, np.array([str(d or "") for d in dimensions]), np.array(operations))).argsort()
    order: list[tuple[Cell, ...]] = [(i,) for i in place.tolist()]
    table = tabulate.finish(
        "bandwidth", "Bandwidth by message size", columns, options, own_order="", blocks=order, top_each=False
    )
    notes = [WAITS_INSIDE] if sized.alone else []
    if "link" in table.column_names():
        notes.append(LINK_NOTE)
    return [table], notes


def _slowest(link: F64, codes: I64, count: int) -> list[float | None]:
    """Return the slowest link of each group, None where one is not known."""
    least = np.full(count, np.inf)
    np.minimum.at(least, codes, np.nan_to_num(link, nan=-1.0))
    return [rate if 0 < rate < np.inf else None for rate in least.tolist()]


def _sized(index: TraceIndex, rows: I64, described: list[Collective]) -> _Sized:
    met = matched_collectives.find(index, _owners.find(index))
    meeting = np.full(index.events.num_rows, -1, np.int64)
    meeting[met.rows] = met.meeting
    of_row = meeting[rows]
    alone = of_row < 0
    of_row = np.where(alone, met.count + np.arange(rows.size), of_row)
    one = np.unique(of_row, return_index=True, return_inverse=True)
    first, place = one[1], one[2].reshape(-1)
    time = np.full(first.size, np.iinfo(np.int64).max)
    np.minimum.at(time, place, index.ints("dur_ns")[rows])
    known = [described[i] for i in first.tolist()]
    message = np.array([message_bytes(each) for each in known], np.int64)
    keep = (message > 0) & (time > 0)
    return _Sized(
        [each.name or "(no name)" for each, kept in zip(known, keep.tolist(), strict=True) if kept],
        [each.dimension for each, kept in zip(known, keep.tolist(), strict=True) if kept],
        np.array([each.members or 0 for each in known], np.int64)[keep],
        message[keep],
        time[keep],
        int(np.count_nonzero(alone[first][keep] & (np.array([each.members or 0 for each in known])[keep] != 1))),
        links_of(index, rows, described)[first][keep],
    )


def message_bytes(each: Collective) -> int:
    """Return the size of the message, as nccl-tests counts it; 0 where it is not known."""
    if each.size is None:
        return 0
    if each.name in _ALL_PUT_IN:
        return each.size * each.members if each.members else 0
    return each.size


def _numbers(values: I64) -> grouping.Key:
    labels, codes = np.unique(values, return_inverse=True)
    return grouping.Key(codes.reshape(-1).astype(np.int64), labels.tolist())


def _rates(message: I64, time: I64) -> list[Cell]:
    rates: F64 = message * 1e9 / time
    return list(rates.tolist())


def _bus(message: I64, time: I64, factor: list[float | None]) -> list[float | None]:
    rates = _rates(message, time)
    return [float(rate or 0) * by if by is not None else None for rate, by in zip(rates, factor, strict=True)]


SHOWS = (
    ViewColumn("dimension", "Parallel", Unit.TEXT, "The parallelism that the group is for, such as tp, or all ranks."),
    ViewColumn("ranks", "Ranks", Unit.COUNT, "The number of ranks in the group, where the trace says it."),
    ViewColumn("message", "Message", Unit.BYTES, "The size of the message, as nccl-tests counts it."),
    ViewColumn(
        "algorithm_bandwidth", "Algorithm", Unit.BYTES_PER_S, "The message, divided by the median time of a collective."
    ),
    ViewColumn("bus_bandwidth", "Bus", Unit.BYTES_PER_S, "The same for the links, by the formulas of nccl-tests."),
    ViewColumn("best_bandwidth", "Best bus", Unit.BYTES_PER_S, "The bus bandwidth of the fastest collective."),
    ViewColumn("of_best", "Of the best", Unit.RATIO, "The bus bandwidth, as a share of the best of such groups."),
    ViewColumn(
        "link", "Link", Unit.BYTES_PER_S, "The peak of the links within one host, in one direction: an upper bound."
    ),
    ViewColumn("of_link", "Of the link", Unit.RATIO, "The bus bandwidth of the fastest collective, as a share of it."),
)

_TITLE = "Communication"
_KINDS = frozenset(
    {
        Kind.KERNEL,
        Kind.MEMCPY,
        Kind.MEMSET,
        Kind.COMMUNICATION,
        Kind.OPERATOR,
        Kind.USER_RANGE,
        Kind.USER_RANGE_NATIVE,
        Kind.PYTHON_OP,
    }
)
_COLUMNS = _devices.COLUMNS | _owners.COLUMNS | matched_collectives.COLUMNS
_PARTS = ("communication", "computation", "overlap", "exposed")
_NOTE = (
    "communication, computation: unions of kernels that communicate and of all others; exposed: communication without "
    "computation"
)
_HOST_NOTE = "with the host: its ranges of communication count too, even if they only enqueue work"


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the tables of communication. Raises: UsageError for a missing column."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    computed = figures(index)
    if computed.each is None:
        section = from_totals(
            index, options, view=VIEW.name, title=_TITLE, kinds={Kind.COMMUNICATION}, what="communication"
        )
        untimed = [] if section.tables else collectives.untimed(index, options.topology)
        return section if not untimed else _untimed(untimed, options)
    tables: list[ReportTable] = []
    notes: list[str] = []
    if computed.has_kernels:
        devices = _devices.find(index)
        if devices.devices:
            tables.append(_overlap(devices, computed.devices, options))
            notes.append(_NOTE)
        notes += devices.notes
    if computed.hosts:
        tables.append(_with_host(_owners.find(index), computed.hosts, options))
        notes.append(
            _HOST_NOTE if computed.has_kernels else "no kernel communicates: the figures are of the host alone"
        )
    tables.append(_each(computed.each, options))
    if index.was_given(figures):
        notes.append("bandwidth by message size is not shown for a run that is read rank by rank")
    else:
        rows = collective_rows(index)
        by_size, said = bandwidth_table(index, rows, collectives.described(index, rows, options.topology), options)
        tables += by_size
        notes += said
    if computed.negative:
        notes.append(f"{computed.negative:,} durations of communication are below zero, counted as 0")
    notes += [tabulate.PERCENTILE_NOTE, *both_note(index, {Kind.COMMUNICATION}, "communication")]
    if options.sorted_by and not any(
        tabulate.sort_key(options, t.column_names())[0] in t.column_names() for t in tables
    ):
        notes += tabulate.option_notes(options, tables[0])
    elif options.compat:
        notes.append(f"--compat {options.compat} has no effect here")
    return Section(VIEW.name, _TITLE, tuple(tables), notes=tuple(notes))


def _untimed(every: Sequence[Collective], options: ViewOptions) -> Section:
    """Return the collectives of an execution trace: how many, and how much was put in; it has no times."""
    calls: dict[tuple[str | None, str | None], int] = {}
    sizes: dict[tuple[str | None, str | None], int | None] = {}
    for each in every:
        key = each.name, each.group
        calls[key] = calls.get(key, 0) + 1
        before = sizes.get(key, 0)
        sizes[key] = None if before is None or each.size is None else before + each.size
    shown = {spec.key: spec for spec in _SHOWS}
    columns = [
        shown["name"].column([name for name, _ in calls]),
        shown["group"].column([group for _, group in calls], 1),
        specs.CALLS.column([*calls.values()], 0),
        specs.BYTES.column([sizes[key] for key in calls], 1),
    ]
    table = tabulate.finish("untimed_collectives", "Collectives without times", columns, options, own_order="bytes")
    return Section(VIEW.name, _TITLE, (table,), notes=(UNTIMED_NOTE, *tabulate.option_notes(options, table)))


def collective_rows(index: TraceIndex) -> I64:
    """Return the rows that are one collective each: kernels, else ranges of kind communication, else all ranges."""
    return next((rows for rows in kinds_of_rows(index) if rows.size), np.zeros(0, np.int64))


def kinds_of_rows(index: TraceIndex) -> tuple[I64, I64, I64]:
    """Return what may be collectives: kernels, ranges of kind communication, all ranges that communicate."""
    ranges = collectives.host_ranges(index)
    typed = ranges[index.kind_mask({Kind.COMMUNICATION})[ranges]]
    return collectives.kernels(index)[0], typed, ranges


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveFigures:
    """Figures of collectives by operation and group of processes, one a row; times in ns.

    sized, sizes, spent: how many have a known size, their bytes, and their time.
    """

    operations: list[Cell]
    groups: list[Cell]
    stats: Grouped
    sized: list[int]
    sizes: list[int]
    spent: list[int]


@dataclass(frozen=True, slots=True, eq=False)
class RankFigures:
    """The communication of a trace.

    has_kernels: some kernel communicates. devices: of each device communication, computation, overlap, exposed and the
    two ratios; hosts: the same for each owner that has host ranges or kernels of communication. each: None where
    nothing communicates. negative: durations below zero.
    """

    has_kernels: bool
    devices: list[list[Cell]]
    hosts: list[tuple[int, list[Cell]]]
    each: CollectiveFigures | None
    negative: int


@join
def figures(index: TraceIndex) -> RankFigures:
    """Return the communication of a trace. Raises: TracekitError where a sum exceeds int64."""
    ranges = collectives.host_ranges(index)
    comm, other = collectives.kernels(index)
    rows = collective_rows(index)
    devices = _devices_of(index, _devices.find(index), comm) if comm.size else []
    hosts = _hosts_of(index, ranges, comm, other) if ranges.size else []
    negative = int(np.count_nonzero(_times(index, np.concatenate((ranges, comm)))[2]))
    return RankFigures(bool(comm.size), devices, hosts, each_of(index, rows) if rows.size else None, negative)


def _times(index: TraceIndex, rows: I64) -> tuple[I64, I64, Mask]:
    """Return starts, ends, and which durations are below zero (counted as 0)."""
    starts: I64 = index.starts[rows]
    durations = index.ints("dur_ns")[rows]
    return starts, host.ends_of(starts, np.maximum(durations, 0)), durations < 0


def _merged(index: TraceIndex, rows: I64) -> Ranges:
    starts, ends, _ = _times(index, rows)
    return merge(starts, ends)


def _parts(comm: Ranges, other: Ranges, span: int) -> list[Cell]:
    """Return the four times, and overlap of the communication and exposed of the span as ratios."""
    both, alone = length(intersection(comm, other)), length(difference(comm, other))
    whole = length(comm)
    return [whole, length(other), both, alone, both / whole if whole else None, alone / span if span else None]


def _part_columns(rows: Sequence[Sequence[Cell]]) -> list[Column]:
    cells: list[list[Cell]] = [list(column) for column in zip(*rows, strict=True)]
    titles = ("Communication", "Computation", "Overlap", "Exposed")
    columns = [
        Column(name, title, Unit.NS, values, priority)
        for name, title, values, priority in zip(_PARTS, titles, cells, (0, 2, 3, 0), strict=False)
    ]
    columns.append(Column("overlap_ratio", "Overlap", Unit.RATIO, cells[4], 1))
    columns.append(Column("exposed_ratio", "Exposed of span", Unit.RATIO, cells[5], 4))
    return columns


def _devices_of(index: TraceIndex, devices: _devices.Devices, comm: I64) -> list[list[Cell]]:
    talks = np.zeros(index.events.num_rows, np.bool_)
    talks[comm] = True
    is_kernel = index.kind_mask({Kind.KERNEL})
    rows = []
    for device in devices.devices:
        of_device = devices.rows[device.positions]
        parts = [
            _merged(index, of_device[talks[of_device]]),
            _merged(index, of_device[is_kernel[of_device] & ~talks[of_device]]),
        ]
        rows.append(_parts(parts[0], parts[1], device.end - device.begin))
    return rows


def _overlap(devices: _devices.Devices, rows: list[list[Cell]], options: ViewOptions) -> ReportTable:
    columns = [*devices.identity(list(devices.devices)), *_part_columns(rows)]
    order: list[tuple[Cell, ...]] = [(i,) for i in range(len(rows))]
    return tabulate.finish(
        "overlap", "Communication on devices", columns, options, own_order="", blocks=order, top_each=False
    )


def _hosts_of(index: TraceIndex, ranges: I64, comm: I64, other: I64) -> list[tuple[int, list[Cell]]]:
    owners = _owners.find(index)
    present = sets.unique(np.concatenate((owners.codes[ranges], owners.codes[comm]))).tolist()
    every = np.arange(index.events.num_rows)
    rows = []
    for o in present:
        merged = [_merged(index, some[owners.codes[some] == o]) for some in (ranges, comm, other)]
        starts, ends, _ = _times(index, every[owners.codes == o])
        rows.append((o, _parts(union(merged[0], merged[1]), merged[2], int(ends.max()) - int(starts.min()))))
    return rows


def _with_host(owners: _owners.Owners, rows: list[tuple[int, list[Cell]]], options: ViewOptions) -> ReportTable:
    labels: list[Cell] = [owners.labels[o] for o, _ in rows]
    columns = [Column("name", "Process", Unit.TEXT, labels, 0, "place"), *_part_columns([parts for _, parts in rows])]
    order: list[tuple[Cell, ...]] = [(owners.ranks[o], o) for o, _ in rows]
    return tabulate.finish(
        "with_host", "Communication with the host", columns, options, own_order="", blocks=order, top_each=False
    )


def each_of(index: TraceIndex, rows: I64) -> CollectiveFigures:
    """Return the figures of these rows of EVENTS, one a collective."""
    described = collectives.described(index, rows)
    operations, processes = collectives.group_cells(described)
    groups = grouping.group_by(operations, processes)
    starts, ends, _ = _times(index, rows)
    durations = ends - starts
    of = grouping.statistics(groups, durations)
    sized = np.array([one.size is not None for one in described], np.bool_)
    sizes = np.array([one.size or 0 for one in described], np.int64)[sized]
    having, total = grouping.sums(groups.codes[sized], groups.count, sizes, "sizes")
    _, spent = grouping.sums(groups.codes[sized], groups.count, durations[sized], "durations")
    return CollectiveFigures(groups.labels[0], groups.labels[1], of, having, total, spent)


def _each(of: CollectiveFigures, options: ViewOptions) -> ReportTable:
    columns = [
        Column("name", "Collective", Unit.TEXT, of.operations, 0),
        *tabulate.statistic_columns(of.stats),
    ]
    if any(cell is not None for cell in of.groups):
        columns.insert(1, Column("group", "Group", Unit.TEXT, of.groups, 2))
    if any(of.sized):
        each = list(zip(of.sized, of.sizes, of.spent, strict=True))
        size: list[Cell] = [t if n else None for n, t, _ in each]
        rate: list[Cell] = [t * 10**9 / ns if n and ns else None for n, t, ns in each]
        columns += [
            Column("bytes", "Bytes", Unit.BYTES, size, 2),
            Column("bandwidth", "Bandwidth", Unit.BYTES_PER_S, rate, 3),
        ]
    return tabulate.finish("collectives", "Collectives", columns, options)


_SHOWS = (
    specs.PID,
    *specs.STATISTICS,
    specs.MEDIAN,
    *specs.PLACED,
    specs.BYTES,
    specs.BANDWIDTH,
    ViewColumn("name", "Name", Unit.TEXT, "The device, the process or the collective."),
    ViewColumn("communication", "Communication", Unit.NS, "The union of the work that communicates."),
    ViewColumn("computation", "Computation", Unit.NS, "The union of the other kernels."),
    ViewColumn("overlap", "Overlap", Unit.NS, "The time with both at once."),
    ViewColumn("exposed", "Exposed", Unit.NS, "The communication without computation."),
    ViewColumn("overlap_ratio", "Overlap", Unit.RATIO, "The overlap, as a share of the communication."),
    ViewColumn("exposed_ratio", "Exposed of span", Unit.RATIO, "The exposed communication, as a share of the span."),
    ViewColumn("group", "Group", Unit.TEXT, "The group of processes."),
    *SHOWS,
)

VIEW = View(
    name="distributed",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=_KINDS,
    compute=compute,
    shows=_SHOWS,
    args_of=collectives.ARGS_OF,
)

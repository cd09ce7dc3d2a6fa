"""The table `bandwidth`: how fast messages of each size went, by the formulas of nccl-tests (doc/PERFORMANCE.md there).

Algorithm bandwidth = message / time. Bus bandwidth = that times a factor of the operation and the number n of ranks, so
that it can be held against the speed of the links whatever n is: 2 (n - 1) / n for all_reduce, (n - 1) / n for
all_gather, reduce_scatter, all_to_all, gather and scatter, 1 for broadcast, reduce, send and recv. The message of
all_gather and of gather is what all ranks put in together, of the others what one rank puts in (of scatter: the root).

The time of a collective that several traces have is its shortest duration over the ranks, which is that of the last one
to come: the others wait inside. The time of one trace alone has that wait in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.analysis.statistics import grouped
from tracekit.columns.arrays import F64, I64
from tracekit.index import collectives, grouping, meetings
from tracekit.index import owners as _owners
from tracekit.index.collectives import Collective
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell, Column, ReportTable
from tracekit.units import Unit
from tracekit.views import tabulate
from tracekit.views.base import ColumnSpec, ViewOptions

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


@dataclass(frozen=True, slots=True, eq=False)
class _Sized:
    """Collectives with a message and a time; shape (n,). alone: how many are in one trace only."""

    operation: list[str]
    dimension: list[str | None]
    ranks: I64
    message: I64
    time: I64
    alone: int


def bus_factor(operation: str, ranks: int) -> float | None:
    """Return bus by algorithm bandwidth; None for an operation or a number of ranks that the formulas do not cover.

    >>> bus_factor("all_reduce", 8), bus_factor("broadcast", 8), bus_factor("barrier", 8)
    (1.75, 1.0, None)
    """
    if operation not in _FACTORS or ranks < 2:
        return None
    factor, by_ranks = _FACTORS[operation]
    return factor * (ranks - 1) / ranks if by_ranks else float(factor)


def table(index: TraceIndex, rows: I64, found: list[Collective], options: ViewOptions) -> tuple[list[ReportTable], str]:
    """Return the table, none where no message has a known size, and a note.

    rows: of EVENTS, one a collective of a rank; found: what they are.
    """
    sized = _sized(index, rows, found)
    if not sized.time.size:
        return [], ""
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
    if any(dimensions):
        columns.insert(1, Column("dimension", "Parallel", Unit.TEXT, dimensions, 1))
    place = np.lexsort((-message, np.array([str(d or "") for d in dimensions]), np.array(operations))).argsort()
    order: list[tuple[Cell, ...]] = [(i,) for i in place.tolist()]
    made = tabulate.finish(
        "bandwidth", "Bandwidth by message size", columns, options, own_order="", blocks=order, top_each=False
    )
    return [made], WAITS_INSIDE if sized.alone else ""


def _sized(index: TraceIndex, rows: I64, found: list[Collective]) -> _Sized:
    met = meetings.find(index, _owners.find(index))
    meeting = np.full(index.events.num_rows, -1, np.int64)
    meeting[met.rows] = met.meeting
    of_row = meeting[rows]
    alone = of_row < 0
    of_row = np.where(alone, met.count + np.arange(rows.size), of_row)
    one = np.unique(of_row, return_index=True, return_inverse=True)
    first, place = one[1], one[2].reshape(-1)
    time = np.full(first.size, np.iinfo(np.int64).max)
    np.minimum.at(time, place, index.ints("dur_ns")[rows])
    known = [found[i] for i in first.tolist()]
    message = np.array([_message(each) for each in known], np.int64)
    keep = (message > 0) & (time > 0)
    return _Sized(
        [each.name or "(no name)" for each, kept in zip(known, keep.tolist(), strict=True) if kept],
        [each.dimension for each, kept in zip(known, keep.tolist(), strict=True) if kept],
        np.array([each.members or 0 for each in known], np.int64)[keep],
        message[keep],
        time[keep],
        int(np.count_nonzero(alone[first][keep] & (np.array([each.members or 0 for each in known])[keep] != 1))),
    )


def _message(each: Collective) -> int:
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
    ColumnSpec("dimension", "Parallel", Unit.TEXT, "The parallelism that the group is for, such as tp, or all ranks."),
    ColumnSpec("ranks", "Ranks", Unit.COUNT, "The number of ranks in the group, where the trace says it."),
    ColumnSpec("message", "Message", Unit.BYTES, "The size of the message, as nccl-tests counts it."),
    ColumnSpec(
        "algorithm_bandwidth", "Algorithm", Unit.BYTES_PER_S, "The message, divided by the median time of a collective."
    ),
    ColumnSpec("bus_bandwidth", "Bus", Unit.BYTES_PER_S, "The same for the links, by the formulas of nccl-tests."),
    ColumnSpec("best_bandwidth", "Best bus", Unit.BYTES_PER_S, "The bus bandwidth of the fastest collective."),
    ColumnSpec("of_best", "Of the best", Unit.RATIO, "The bus bandwidth, as a share of the best of such groups."),
)

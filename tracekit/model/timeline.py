"""Timeline: every event of a trace on its lane, as columns that are taken from the trace when they are wanted.

A lane is a stream of a device or a thread of the host, cut into layers. A row is one line of a layer: its events follow
each other and never overlap. The place of an event is its number in the order of lanes, rows and starts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import F64, I32, I64, Chunked, Rows

__all__ = [
    "COMMUNICATION",
    "KERNEL_FAMILIES",
    "KINDS_OF",
    "LAYERS",
    "OPERATOR_FAMILIES",
    "Argument",
    "CriticalPath",
    "LaneEvents",
    "Timeline",
    "TimelineCounter",
    "TimelineLane",
    "family_kind",
]

KERNEL_FAMILIES = (
    "communication",
    "gemm",
    "conv",
    "attention",
    "normalization",
    "elementwise",
    "reduction",
    "data movement",
    "optimizer",
)
"""The families of kernels. Each has a colour of its own."""
OPERATOR_FAMILIES = ("communication", "matrix", "normalization", "elementwise", "data movement")
"""The families of operators; matrix: products, convolutions and attention."""


def family_kind(family: str, kind: str) -> str:
    """Return the class of a family within a kind.

    >>> family_kind("gemm", "kernel")
    'gemm kernel'
    """
    return f"{family} {kind}"


COMMUNICATION = family_kind("communication", "kernel")
"""The class of kernels that communicate."""
KINDS_OF = {family_kind(family, "kernel"): "kernel" for family in KERNEL_FAMILIES} | {
    family_kind(family, kind): kind for kind in ("operator", "operator_inner") for family in OPERATOR_FAMILIES
}
"""The kind of each class that is not a kind."""
LAYERS = ("ranges", "python", "operators", "calls")
"""The layers of a host thread, from the top: steps and ranges of the user, Python, operators, runtime calls."""


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """One lane.

    label: without the words of its group. group: the owner with its device or process. layers: (word, number of rows),
    in order. overlay: ranges that a profiler laid over a stream. instants: its events have no duration. overlaps: how
    many events overlap others of their layer in part, and so have rows of their own. ids: (word, id) of the source,
    rank, process, device, context, stream and thread; None: not known. host: the machine, "" where there is but one.
    """

    label: str
    group: str
    layers: tuple[tuple[str, int], ...]
    on_device: bool = False
    overlay: bool = False
    instants: bool = False
    overlaps: int = 0
    ids: tuple[tuple[str, int | str | None], ...] = ()
    host: str = ""

    @property
    def depth(self) -> int:
        """Return the number of rows."""
        return sum(rows for _, rows in self.layers)


@dataclass(frozen=True, slots=True, eq=False)
class LaneEvents:
    """Columns of n events by place, taken from columns of EVENTS on demand.

    order: shape (n,), the row of EVENTS at each place. first: shape (rows + 1,), the place of each row's first event.
    starts, lengths, names, kinds, ids: columns of EVENTS: ns, codes of texts (-1: none), event ids. clocks: the clock
    of each row of EVENTS; shift: shape (clocks,), ns to take off its starts. code_of: number of the name of each pair
    (name + 1) * kinds + kind; -1 for a pair that does not occur.
    """

    order: Rows
    first: I64
    starts: I64
    lengths: I64
    names: I32
    kinds: I32
    kind_count: int
    code_of: I32
    clocks: I64
    shift: I64
    ids: I64

    def __len__(self) -> int:
        return self.order.size

    def starts_at(self, places: slice | Rows) -> I64:
        """Return the starts of the events at these places, ns after the begin of the timeline."""
        rows = self.order[places]
        found: I64 = self.starts[rows] - (self.shift[0] if self.shift.size == 1 else self.shift[self.clocks[rows]])
        return found

    def lengths_at(self, places: slice | Rows) -> I64:
        """Return the durations of the events at these places, ns; 0 for those without."""
        return self.lengths[self.order[places]]

    def codes_at(self, places: slice | Rows) -> I32:
        """Return the numbers of the names of the events at these places."""
        rows = self.order[places]
        pairs = (self.names[rows].astype(np.int64) + 1) * self.kind_count + self.kinds[rows]
        codes: I32 = self.code_of[pairs]
        return codes

    def places_of(self, rows: Rows) -> I64:
        """Return the places of rows of EVENTS, -1 for a row that has none."""
        place = np.full(self.starts.size, -1, np.int32)
        place[self.order] = np.arange(self.order.size, dtype=np.int32)
        return place[rows].astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TimelineCounter:
    """Values over time: each holds until the next. times: ns after the begin; values: integers or floats."""

    label: str
    unit: str
    group: str
    times: I64
    values: I64 | F64


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """A column of EVENTS that is shown for a selected event: integers, floats or texts; null where it has none."""

    key: str
    unit: str
    column: Chunked


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Every event on its lane.

    names: the text of each number that `events.codes_at` gives, the most frequent first; kind_of: the place of its kind
    in `kinds`, which has the families of kernels and operators as kinds of their own (KINDS_OF). launches: places of
    launch calls and of the work that each launched, ascending by the latter; flows: the same for arrows of the file.
    steps: (start, length, name), ns after the begin. begin_ns, end_ns: on the clock of the tables. utilization: (label
    of the device, busy share 0..1 for each of the equal bins of the span). args: what else is known of events, members:
    as JSON text what found no column.
    """

    lanes: tuple[TimelineLane, ...]
    names: Sequence[str]
    kind_of: Sequence[int]
    kinds: tuple[str, ...]
    events: LaneEvents
    begin_ns: int
    end_ns: int
    launches: tuple[I64, I64]
    flows: tuple[I64, I64]
    steps: tuple[tuple[int, int, str], ...] = ()
    counters: tuple[TimelineCounter, ...] = ()
    utilization: tuple[tuple[str, Sequence[float]], ...] = ()
    args: tuple[Argument, ...] = ()
    members: Chunked | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timeline):
            return NotImplemented
        return self._plain() == other._plain() and all(map(np.array_equal, self._arrays(), other._arrays()))

    def __hash__(self) -> int:
        return hash((self.lanes, self.kinds, self.begin_ns, self.end_ns, len(self.events)))

    def _plain(self) -> tuple[object, ...]:
        counters = [(each.label, each.unit, each.group) for each in self.counters]
        busy = [(label, list(shares)) for label, shares in self.utilization]
        args = [(each.key, each.unit, each.column.take(self.events.order).to_pylist()) for each in self.args]
        args += [] if self.members is None else [("", "", self.members.take(self.events.order).to_pylist())]
        names = (list(self.names), list(self.kind_of), self.kinds)
        return self.lanes, names, self.begin_ns, self.end_ns, self.steps, counters, busy, args

    def _arrays(self) -> list[Rows | I64 | F64 | I32]:
        events, every = self.events, slice(None)
        columns = (events.first, events.starts_at(every), events.lengths_at(every), events.codes_at(every))
        times = (each.times for each in self.counters)
        values = (each.values for each in self.counters)
        return [*columns, *self.launches, *self.flows, *times, *values]

    def __repr__(self) -> str:
        lanes = "1 lane" if len(self.lanes) == 1 else f"{len(self.lanes):,} lanes"
        return f"timeline of {len(self.events):,} {'event' if len(self.events) == 1 else 'events'} on {lanes}"


@dataclass(frozen=True, slots=True, eq=False)
class CriticalPath:
    """The pieces of a critical path that ran in events; shape (k,), in order of time, none overlaps another.

    label: of the owner, "" for one alone. span_ns: of the whole path, pauses included. rows: of EVENTS; starts, ends:
    ns as in EVENTS.
    """

    label: str
    span_ns: int
    rows: I64
    starts: I64
    ends: I64

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CriticalPath):
            return NotImplemented
        mine, theirs = ((each.rows, each.starts, each.ends) for each in (self, other))
        same = (self.label, self.span_ns) == (other.label, other.span_ns)
        return same and all(map(np.array_equal, mine, theirs))

    def __hash__(self) -> int:
        return hash((self.label, self.span_ns, self.rows.size))

    def __repr__(self) -> str:
        return f"critical path {self.label}".rstrip() + f" in {self.rows.size:,} pieces"

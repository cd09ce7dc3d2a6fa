"""Work units: the operator calls that the device work of a trace belongs to, with FLOPs, bytes and floor of each.

From the operator that launched a kernel outward, the first one with a complete formula has the work. Of matrix
products, convolutions and attention the outermost of those around it counts: the operator of a library within
`aten::convolution` knows no bias. All device work below that operator is its time, such as the reduction of split
products and conversions of layout, and nothing below it is counted again. Operators without a formula, such as
`aten::linear`, have what is inside of them.

An operator that was captured into a graph has a unit for each launch of the graph: it ran that often.

Where a file has no shapes, its device events may state FLOPs and bytes themselves, have shapes of their own, or name
the op of a compiled program (`index.stated_work`): then each of them is a unit of its own, or each execution of an op.

Device work of no such operator has a reason why its work is unknown. A copy between host and device, or between
devices, is limited by a link, which a trace does not name: it is not held against memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracekit.analysis.efficiency.datatypes import names_a_datatype
from tracekit.analysis.efficiency.devices import RatedDevice
from tracekit.analysis.efficiency.floors import ABOVE, FAR, Limit, Reach, reach
from tracekit.analysis.efficiency.formulas import DEFINED, NO_DATATYPE, NO_FORMULA, NO_SHAPES, Work, has_formula, work
from tracekit.analysis.efficiency.operands import OperatorCall
from tracekit.analysis.kernel_class import LONGEST_NAME
from tracekit.index import host_tree
from tracekit.index.device_peaks import device_of
from tracekit.index.graphs import ARGS_OF as _GRAPH_ARGS
from tracekit.index.graphs import graph_work, host_with_graphs
from tracekit.index.grouping import kind_mask
from tracekit.index.host_tree import HostTree
from tracekit.index.indexed_results import INDEX, indexed_calls
from tracekit.index.kernel_classes import communicates
from tracekit.index.shapes_in_names import calls_in_names, has_sizes_in_names, names_have_sizes
from tracekit.index.stated_work import has_shapes_of_kernels, stated_work
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.args import items_of
from tracekit.model.arrow import F64, I64, Mask, pc
from tracekit.model.schema import Kind

if TYPE_CHECKING:
    from tracekit.index.operands import Operands

__all__ = [
    "ARGS_OF",
    "COLUMNS",
    "COMMUNICATION",
    "GRAPH",
    "KINDS",
    "LIMITS",
    "LINK",
    "UnitGroup",
    "WorkUnits",
    "has_shapes",
    "work_units",
]

KINDS = frozenset({Kind.OPERATOR, Kind.PYTHON_OP})
"""The kinds of rows whose args have the shapes."""
ARGS_OF = KINDS | _GRAPH_ARGS
"""The kinds of rows whose args are read, for graphs too."""
COLUMNS = frozenset({"name", "raw_name", "args", "device", "copy_kind"})
"""Columns of EVENTS beside those of the host tree."""

LIMITS = tuple(Limit)
GRAPH = "launched by a graph: operators not known"
GRAPH_SHAPES = "launched by a graph: captured with several shapes"
LINK = "a copy over a link of unknown rate"
COMMUNICATION = "communication"
NO_OPERATOR = "launched by no operator"
NO_LAUNCH = "the launch is not in the trace"
MEMORY_FILL = "a fill of memory"
NOT_STATED = "the file does not state it"

_SHAPES = '"Input Dims"'
_OWN_NUMBERS = (
    r'"(?:External id|Record function id|Ev Idx|Sequence number|Fwd thread id|fwd_thread_id|rf_id)":\s*-?[0-9]+,?'
    r'|"also_in":\{[^{}]*\},?'
)
"""What differs from call to call: without it, the args of most calls of one operator are one text."""
_OVER_LINKS = ("HtoD", "DtoH", "PtoP", "HtoH")


@dataclass(frozen=True, slots=True)
class UnitGroup:
    """Work units of one operator, shape, main kernel and device. reach: of all of them together."""

    call: OperatorCall
    work: Work
    device: RatedDevice
    kernel: str
    over_link: bool
    calls: int
    ns: int
    reach: Reach


@dataclass(frozen=True, slots=True, eq=False)
class WorkUnits:
    """Operator calls with work, u of them, in g groups, and the m device events of `HostTree`.

    place: shape (u,), places in the host tree, -1 for device events that state their own work. launch: shape (u,), the
    row of EVENTS of the launch of a graph, -1 for work that its operator launched itself. ns: device time.
    group: shape (u,), counting into `groups`. main: the
    row of EVENTS of the longest kernel. flops, nbytes: 0 where unknown; known: whether the work is known.
    floor_ns: nan where unknown. quicker: units that took less than their floor. limit: what limits each, counting into
    LIMITS.
    of_work: shape (m,), the unit of each device event, -1 for none. reason: shape (m,), counting into `reasons`: why
    the work of an event is unknown, -1 where it is known.
    """

    host: HostTree
    place: I64
    launch: I64
    ns: I64
    group: I64
    main: I64
    flops: I64
    nbytes: I64
    known: Mask
    floor_ns: F64
    quicker: Mask
    limit: I64
    groups: list[UnitGroup]
    of_work: I64
    reason: I64
    reasons: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return int(self.place.size)

    @property
    def rows(self) -> I64:
        """Return shape (u,): the row of EVENTS of each operator, of the device event where it states its own work."""
        if not self.host.rows.size:
            return self.main
        return np.where(self.place >= 0, self.host.rows[np.maximum(self.place, 0)], self.main)

    @property
    def launched(self) -> I64:
        """Return shape (u,): the row of EVENTS with which each began to run: its operator, or the launch of a graph."""
        return np.where(self.launch >= 0, self.launch, self.rows)

    @property
    def saving_ns(self) -> F64:
        """Return shape (u,): time above the floor, 0 for a unit that was quicker, nan where it is unknown."""
        return np.maximum(self.ns - self.floor_ns, 0.0)


@join
def work_units(index: TraceIndex) -> WorkUnits | None:
    """Return the work units; None where the trace has no shapes, or no device work with operators."""
    if not set(index.events.schema.names) >= (COLUMNS - {"raw_name"}) | host_tree.COLUMNS:
        return None
    # The host tree takes most of the time of a view of kernels, and most traces have no shapes.
    if not _may_have_shapes(index) and stated_work(index) is None:
        return None
    tree = host_with_graphs(index)
    if not tree.work.size:
        return None
    graphs = graph_work(index)
    if graphs is not None:
        # Of an operator whose shapes are not those of the graph the work is not known.
        tree = replace(tree, owner=np.where(graphs.shaped, tree.owner, -1))
    if has_shapes_of_kernels(index) and (stated := _stated(index, tree)) is not None:
        return stated
    places, codes, calls = _known_calls(index, tree)
    if not places.size:
        return _stated(index, tree)
    works = [work(call) for call in calls]
    able = np.array([each.is_known or each.unknown == NO_DATATYPE or each.flops is not None for each in works])
    unit_of_place, selected = _units(tree, places[able[codes]], works, codes[able[codes]])
    of_work = np.where(tree.owner >= 0, np.append(unit_of_place, -1)[tree.owner], -1)
    code_of_place = np.full(tree.rows.size, -1, np.int64)
    code_of_place[places] = codes
    reasons: dict[str, int] = {}
    reason = _reasons(index, tree, code_of_place, works, reasons)
    selected, launch, of_work = _by_launch(index, tree, selected, of_work)
    return _assembled(index, tree, (selected, launch), of_work, code_of_place[selected], works, calls, reason, reasons)


def _may_have_shapes(index: TraceIndex) -> bool:
    """Return whether an operator has args, or any name has sizes: nothing else has the shapes of a call."""
    column = index.events.column("args")
    with_args = column.null_count < len(column) and bool(index.kind_mask(KINDS).any())
    return with_args or has_sizes_in_names(index)


def has_shapes(batch: pa.RecordBatch) -> bool:
    """Return whether rows of a batch of EVENTS have the shapes of a call: without such rows no call has work."""
    if names_have_sizes(batch):
        return True
    if "args" not in batch.schema.names or batch.column("args").null_count == batch.num_rows:
        return False
    operators = np.flatnonzero(kind_mask(batch, KINDS))
    if not operators.size:
        return False
    args = arrow.take(batch.column("args"), operators)
    return bool(pc.any(pc.match_substring(args, _SHAPES)).as_py())


def _stated(index: TraceIndex, tree: HostTree) -> WorkUnits | None:
    """Return the units of device events that state their work, None where none does."""
    stated = stated_work(index)
    if stated is None:
        return None
    number = np.full(index.events.num_rows, -1, np.int64)
    number[stated.rows] = stated.unit
    place = launch = np.full(stated.codes.size, -1, np.int64)
    if has_shapes_of_kernels(index):
        # A kernel is one operator of the device: the operator of the host that launched it has its work.
        mine = np.flatnonzero(number[tree.work] >= 0)
        place = launch.copy()
        place[number[tree.work[mine]]] = tree.owner[mine]
    calls = [OperatorCall(name) for name in stated.names]
    reason = np.zeros(tree.work.size, np.int64)
    reasons = {NOT_STATED: 0}
    talk = np.flatnonzero(index.kind_mask({Kind.KERNEL})[tree.work])
    talk = talk[communicates(index, tree.work[talk])] if talk.size else talk
    # Communication has no shapes, and is no work that lacks them.
    known = {NO_SHAPES: stated.unknown.get(NO_SHAPES, np.zeros(0, np.int64)), COMMUNICATION: tree.work[talk]}
    known |= {LINK: tree.work[_over_link(index, tree.work)]}
    known |= {reason: rows for reason, rows in stated.unknown.items() if reason != NO_SHAPES}
    of_row = np.full(index.events.num_rows, -1, np.int64)
    for why, rows in known.items():
        if rows.size:
            of_row[rows] = reasons.setdefault(why, len(reasons))
    reason = np.where(of_row[tree.work] >= 0, of_row[tree.work], reason)
    return _assembled(
        index, tree, (place, launch), number[tree.work], stated.codes, stated.works, calls, reason, reasons
    )


def _known_calls(index: TraceIndex, tree: HostTree) -> tuple[I64, I64, list[OperatorCall]]:
    """Return the places of calls that have a formula, shapes and device work, the call of each, and those distinct."""
    places, codes, calls = _calls_in_args(index, tree)
    at = _places_of_index(index, tree)
    if at.size:
        of_index, indexing = indexed_calls(index, tree, at)
        places, codes = np.concatenate((places, at)), np.concatenate((codes, of_index + len(calls)))
        calls = [*calls, *indexing]
    named, code_of_named, others = calls_in_names(index, tree)
    if named.size:
        working = _has_work(tree)[named]
        places = np.concatenate((places, named[working]))
        codes = np.concatenate((codes, code_of_named[working] + len(calls)))
        calls = [*calls, *others]
    return places, codes, calls


def _calls_in_args(index: TraceIndex, tree: HostTree) -> tuple[I64, I64, list[OperatorCall]]:
    """Return the same for operators that have their shapes in their args."""
    none = np.zeros(0, np.int64)
    every = index.events.column("args")
    if every.null_count == len(every):
        return none, none, []
    names, texts = index.texts("name")
    with_formula = np.array([*(has_formula(text) and text != INDEX for text in texts), False], np.bool_)
    candidate = with_formula[names[tree.rows]] & np.isin(tree.rows, np.flatnonzero(index.kind_mask(KINDS)))
    if not candidate.any():
        return none, none, []
    places = np.flatnonzero(candidate & _has_work(tree))
    if not places.size:
        return none, none, []
    column = arrow.in_one(arrow.take(index.events.column("args"), tree.rows[places]))
    said = arrow.bools(pc.match_substring(column, _SHAPES))
    places = places[said]
    if not places.size:
        return none, none, []
    mine = column if said.all() else column.filter(arrow.array(said))
    encoded = arrow.encoded(pc.replace_substring_regex(mine, pattern=_OWN_NUMBERS, replacement="").dictionary_encode())
    of_text = arrow.codes(encoded)
    pairs, codes = np.unique(
        names[tree.rows[places]].astype(np.int64) * (len(encoded.dictionary) + 1) + of_text, return_inverse=True
    )
    shapes = [_shapes(text) for text in arrow.texts(encoded.dictionary)]
    calls = []
    for pair in pairs.tolist():
        name, text = divmod(pair, len(encoded.dictionary) + 1)
        found = shapes[text]
        calls.append(
            OperatorCall(
                texts[name],
                items_of(found.dims),
                items_of(found.types),
                items_of(found.strides),
                items_of(found.values),
            )
        )
    return places, codes.astype(np.int64), calls


def _places_of_index(index: TraceIndex, tree: HostTree) -> I64:
    """Return the places of `aten::index` with shapes and device work."""
    names, texts = index.texts("name")
    if INDEX not in texts:
        return np.zeros(0, np.int64)
    own = (names[tree.rows] == texts.index(INDEX)) & np.isin(tree.rows, np.flatnonzero(index.kind_mask(KINDS)))
    places = np.flatnonzero(own & _has_work(tree))
    if not places.size:
        return places
    args = arrow.in_one(arrow.take(index.events.column("args"), tree.rows[places]))
    return places[arrow.bools(pc.fill_null(pc.match_substring(args, _SHAPES), False))]


def _shapes(text: str) -> Operands:
    from tracekit.index.operands import Operands, decoded

    # What was cut out may have been the last member.
    return decoded(text.rstrip().removesuffix("}").rstrip().rstrip(",") + "}", Operands)


def _has_work(tree: HostTree) -> Mask:
    """Return shape (n,): whether a range, or one below it, launched device work."""
    found = np.zeros(tree.rows.size + 1, np.bool_)
    at = sets.unique(tree.owner[tree.owner >= 0])
    while at.size:
        found[at] = True
        at = sets.unique(tree.tree.parent[at])
        at = at[at >= 0]
        at = at[~found[at]]
    return found[:-1]


def _units(tree: HostTree, places: I64, works: Sequence[Work], codes: I64) -> tuple[I64, I64]:
    """Return for each place the unit that it is in, -1 for none, and the places of the units, in order."""
    n = tree.rows.size
    known = np.zeros(n, np.bool_)
    known[places] = True
    families = [each.family if each.family in DEFINED else "" for each in works]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(families))}
    family = np.full(n, -1, np.int64)
    family[places] = np.array([numbers[name] for name in families], np.int64)[codes]
    own = numbers.get("", -2)
    nearest = np.append(tree.nearest(known), -1)
    above = nearest[np.where(tree.tree.parent >= 0, tree.tree.parent, n)]
    first = sets.unique(nearest[tree.owner[tree.owner >= 0]])
    first = first[first >= 0]
    # Outward, as long as the next operator with a formula is of the same family.
    while True:
        up = above[first]
        climbs = (up >= 0) & (family[first] == family[up]) & (family[first] != own)
        if not climbs.any():
            break
        first = np.where(climbs, up, first)
    is_unit = np.zeros(n + 1, np.bool_)
    is_unit[first] = True
    # A unit within another one belongs to that.
    outer = np.full(n, -1, np.int64)
    for level in tree.levels():
        parent = tree.tree.parent[level]
        around = np.where(parent >= 0, outer[parent], -1)
        outer[level] = np.where(around >= 0, around, np.where(is_unit[level], level, -1))
    selected = np.flatnonzero(outer == np.arange(n))
    number = np.full(n + 1, -1, np.int64)
    number[selected] = np.arange(selected.size)
    return number[outer], selected


def _by_launch(index: TraceIndex, tree: HostTree, selected: I64, of_work: I64) -> tuple[I64, I64, I64]:
    """Return place and launch of each unit, with one for each launch of a graph, and the unit of each device event."""
    launch = np.full(of_work.size, -1, np.int64)
    graphs = graph_work(index)
    if graphs is not None:
        captured = graphs.call >= 0
        launch[captured] = tree.launch[captured]
    if (launch < 0).all():
        return selected, np.full(selected.size, -1, np.int64), of_work
    at = np.flatnonzero(of_work >= 0)
    pairs, number = np.unique(np.column_stack((of_work[at], launch[at])), axis=0, return_inverse=True)
    out = np.full(of_work.size, -1, np.int64)
    out[at] = number.reshape(-1)
    return selected[pairs[:, 0]], pairs[:, 1], out


def _assembled(
    index: TraceIndex,
    tree: HostTree,
    placed: tuple[I64, I64],
    of_work: I64,
    codes: I64,
    works: Sequence[Work],
    calls: Sequence[OperatorCall],
    reason: I64,
    reasons: dict[str, int],
) -> WorkUnits:
    """Return the units with the figures of each.

    placed: place and launch of each. codes: the work of each. reason: of device events in no unit.
    """
    place, launch = placed
    count = place.size
    inside = np.flatnonzero(of_work >= 0)
    unit = of_work[inside]
    ns = np.bincount(unit, tree.work_ns[inside], count).astype(np.int64)
    main = _main_kernels(index, tree, inside, unit, count)
    names, texts = index.texts("name")
    device = np.where(index.has("device")[main], index.ints("device")[main], -1)
    source = index.ints("source")[main]
    link = _over_link(index, main)
    table, group = np.unique(np.column_stack((codes, names[main], source, device, link)), axis=0, return_inverse=True)
    group = group.reshape(-1).astype(np.int64)
    in_group = np.bincount(group, minlength=len(table))
    of_group = np.bincount(group, ns, len(table))
    groups = []
    for (code, name, src, number, over), n, taken in zip(
        table.tolist(), in_group.tolist(), of_group.tolist(), strict=True
    ):
        kernel = texts[name] if name >= 0 else ""
        call, its_work = calls[code], works[code]
        if its_work.unknown == NO_DATATYPE:
            call = replace(call, kernel=kernel[:LONGEST_NAME])
            its_work = work(call)
        on = device_of(index, src, number if number >= 0 else None)
        near = Reach(unknown=LINK) if over else reach(its_work, taken, on, kernel[:LONGEST_NAME], n)
        groups.append(UnitGroup(call, its_work, on, kernel, bool(over), n, int(taken), near))
    flops = np.array([each.work.flops or 0 for each in groups], np.int64)
    moved = np.array([each.work.bytes or 0 for each in groups], np.int64)
    known = np.array([each.work.is_known and not each.over_link for each in groups], np.bool_)
    floor = np.array(
        [np.nan if each.reach.floor_ns is None else each.reach.floor_ns / each.calls for each in groups], np.float64
    )
    floor_ns = floor[group]
    quicker = np.nan_to_num(floor_ns, nan=-1.0) > ABOVE * ns
    of_group_reason = np.array([_group_reason(each, reasons) for each in groups], np.int64)
    own = of_group_reason[group]
    reason = np.where(of_work >= 0, np.append(own, -1)[of_work], reason)
    return WorkUnits(
        tree, place, launch, ns, group, main, flops[group], moved[group], known[group], floor_ns, quicker,
        _limits(groups, group, ns, floor_ns, quicker), groups, of_work,
        reason, list(reasons),
    )  # fmt: skip


def _limits(groups: Sequence[UnitGroup], group: I64, ns: I64, floor_ns: F64, quicker: Mask) -> I64:
    """Return the limit of each unit: calls of one group may take very different times."""
    side = np.array([LIMITS.index(each.reach.side) for each in groups], np.int64)[group]
    compute = np.array([(each.reach.compute_ns or 0.0) / each.calls for each in groups], np.float64)[group]
    found = np.where(floor_ns < FAR * ns, LIMITS.index(Limit.FAR), side)
    found = np.where(side == LIMITS.index(Limit.UNKNOWN), side, found)
    above = np.where(compute > ABOVE * ns, LIMITS.index(Limit.LESS_WORK), LIMITS.index(Limit.CACHE))
    return np.where(quicker, above, found)


def _main_kernels(index: TraceIndex, tree: HostTree, inside: I64, unit: I64, count: int) -> I64:
    """Return the row of the longest piece of each unit, one that names its precision before others."""
    names, texts = index.texts("name")
    naming = np.array([*(names_a_datatype(text[:LONGEST_NAME]) for text in texts), False], np.bool_)
    kernels = index.kind_mask({Kind.KERNEL})
    rows = tree.work[inside]
    rank = kernels[rows].astype(np.int64) + (naming[names[rows]] & kernels[rows])
    order = np.lexsort((tree.work_ns[inside], rank, unit))
    main = np.zeros(count, np.int64)
    main[unit[order]] = rows[order]  # the last one of each unit stays
    return main


def _over_link(index: TraceIndex, rows: I64) -> Mask:
    """Return which rows are copies over a link."""
    codes, texts = index.texts("copy_kind")
    over = np.array([*(text in _OVER_LINKS for text in texts), False], np.bool_)
    found: Mask = over[codes[rows]] & index.kind_mask({Kind.MEMCPY})[rows]
    return found


def _group_reason(group: UnitGroup, reasons: dict[str, int]) -> int:
    """Return why the work of a group is unknown, -1 where it is known."""
    if group.over_link:
        return reasons.setdefault(LINK, len(reasons))
    return -1 if group.work.is_known else reasons.setdefault(group.work.unknown, len(reasons))


def _reasons(
    index: TraceIndex, tree: HostTree, code_of_place: I64, works: Sequence[Work], number: dict[str, int]
) -> I64:
    """Return for each device event why its work is unknown if it is in no unit; number: the reasons, which it fills."""

    def code(text: str) -> int:
        return number.setdefault(text, len(number))

    reason = np.full(tree.work.size, code(NO_OPERATOR), np.int64)
    reason[tree.launch < 0] = code(NO_LAUNCH)
    # The innermost operator that has a formula says why it has no figures; without one there is no formula.
    operators = np.zeros(tree.rows.size + 1, np.bool_)
    operators[:-1] = np.isin(tree.rows, np.flatnonzero(index.kind_mask(KINDS))) | (code_of_place >= 0)
    nearest = np.append(tree.nearest(operators[:-1]), -1)[tree.owner]
    reason[(tree.owner >= 0) & (nearest >= 0)] = code(NO_FORMULA)
    names, texts = index.texts("name")
    with_formula = np.array([*(has_formula(text) for text in texts), False], np.bool_)[names[tree.rows]]
    able = np.append(tree.nearest(operators[:-1] & (with_formula | (code_of_place >= 0))), -1)[tree.owner]
    at = np.flatnonzero((tree.owner >= 0) & (able >= 0))
    why = np.array([*(code(each.unknown or NO_FORMULA) for each in works), code(NO_SHAPES)], np.int64)
    reason[at] = why[code_of_place[able[at]]]
    # A graph is launched as a whole: which operators it holds is known of those whose capture is.
    launches_graph = np.array([*("GraphLaunch" in text for text in texts), False], np.bool_)
    alone = (tree.launch >= 0) & launches_graph[np.append(names, -1)[tree.launch]]
    graphs = graph_work(index)
    if graphs is not None:
        alone &= graphs.call < 0
        reason[~graphs.shaped] = code(GRAPH_SHAPES)
    reason[alone] = code(GRAPH)
    talk = np.flatnonzero(index.kind_mask({Kind.KERNEL})[tree.work])
    if talk.size:
        reason[talk[communicates(index, tree.work[talk])]] = code(COMMUNICATION)
    reason[_over_link(index, tree.work)] = code(LINK)
    fills = index.kind_mask({Kind.MEMSET})[tree.work] & (reason != code(NO_LAUNCH))
    reason[fills] = code(MEMORY_FILL)
    return reason

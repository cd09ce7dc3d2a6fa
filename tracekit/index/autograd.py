"""Backward operators of PyTorch's autograd, and the forward operator that each one belongs to.

A node of autograd is an operator of the backward pass: `autograd::engine::evaluate_function: AddmmBackward0` and the
`AddmmBackward0` in it, and whatever else states the thread of its forward operator. Its forward operator is found by
the arrow that the profiler draws (name `fwdbwd`), else by sequence number and thread: a node repeats the number of its
forward operator, and numbers are counted per thread, so that operators of two threads share them. The thread that a
node states is PyTorch's own number. Which thread of the system that is follows from the arrows, else from numbers and
names; where several threads fit equally well the forward operator is not known.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from tracekit.analysis.nesting import innermost
from tracekit.analysis.segments import rows_by
from tracekit.index import grouping
from tracekit.index import host_tree as _host
from tracekit.index.host_tree import HostTree
from tracekit.index.memory_totals import extracted
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Mask, pc
from tracekit.model.patterns import found_in
from tracekit.model.schema import Kind

__all__ = ["ARGS_OF", "COLUMNS", "AutogradNodes", "autograd_nodes"]

COLUMNS = _host.COLUMNS | {"name", "raw_name", "args"}
ARGS_OF = frozenset({Kind.OPERATOR})
EVALUATE = "autograd::engine::evaluate_function"
_NODE = re.compile(rf"^(?:{EVALUATE}|(?:[\w:.<>]*::)?\w*Backward\d*$)")
_ARROW = "fwdbwd"
_DECORATION = re.compile(r"^.*(?:::|: )|Backward\d*$|_")


@dataclass(frozen=True, slots=True, eq=False)
class AutogradNodes:
    """Operators of a trace and which of them are nodes of autograd; arrays of shape (n,), by place in the host tree.

    operator: the operators. node: those of the backward pass. sequence: the sequence number, -1 for none. own: whether
    the number is the operator's own, so that a node may repeat it. forward: of a node the place of its forward
    operator, -1 where it is not known and for all others. arrows: nodes whose forward operator an arrow shows.
    """

    host: HostTree
    operator: Mask
    node: Mask
    sequence: I64
    own: Mask
    forward: I64
    arrows: int


@join
def autograd_nodes(index: TraceIndex) -> AutogradNodes | None:
    """Return the nodes of autograd; None for a trace without any."""
    if "args" not in index.events.column_names or "name" not in index.events.column_names:
        return None
    codes, names = index.texts("name")
    looks = np.append(found_in(_NODE, names), False)
    if not looks.any():
        return None
    host = _host.host(index)
    operator = index.kind_mask({Kind.OPERATOR})[host.rows]
    if not (looks[codes[host.rows]] & operator).any():
        return None
    sequence, thread = _stated(index, host, operator)
    in_text = _in_text(index, host, operator)
    sequence = np.where(in_text >= 0, in_text, sequence)
    evaluates = np.array([*(name.startswith(EVALUATE) for name in names), False], np.bool_)[codes[host.rows]]
    # A name that ends with Backward is a node only where the operator states what autograd states of nodes.
    named = looks[codes[host.rows]] & (evaluates | (thread > 0) | (in_text >= 0) | _within(host, evaluates))
    begins, ends = _arrows(index, host)
    node = operator & (named | (thread > 0))
    # Before torch 1.9 nodes state no thread, but arrows end at them.
    node[ends[looks[codes[host.rows[ends]]]]] = True
    if not node.any():
        return None
    own = (sequence >= 0) & operator & ~node
    forward, arrows = _forward(index, host, node, own, sequence, thread, (begins, ends))
    return AutogradNodes(host, operator, node, sequence, own, forward, arrows)


def _stated(index: TraceIndex, host: HostTree, operator: Mask) -> tuple[I64, I64]:
    """Return the sequence number of each place, -1 for none, and the thread that it states, 0 for none."""
    sequence, thread = np.full(host.rows.size, -1, np.int64), np.zeros(host.rows.size, np.int64)
    at = np.flatnonzero(operator)
    args = arrow.take(index.events.column("args"), host.rows[at])
    # The texts of all operators are long, and no two are equal: a search for the numbers is twice as fast as a parser.
    numbers = extracted(args, r'"Sequence number":\s*"?(?P<found>\d{1,18})')
    known = arrow.valid(numbers)
    at = at[known]
    sequence[at] = arrow.ints(pc.cast(pc.drop_null(numbers), pa.int64()))
    threads = extracted(args.filter(arrow.array(known)), r'"F(?:wd|orward) thread id":\s*"?(?P<found>\d{1,18})')
    thread[at] = arrow.ints(pc.cast(threads, pa.int64()))
    return sequence, thread


def _in_text(index: TraceIndex, host: HostTree, operator: Mask) -> I64:
    """Return the sequence number in the text of each NVTX range of PyTorch, -1 for none."""
    out = np.full(host.rows.size, -1, np.int64)
    at = np.flatnonzero(operator)
    if "raw_name" not in index.events.column_names or not at.size:
        return out
    at = at[index.has("raw_name")[host.rows[at]]]
    if not at.size:
        return out
    raw = arrow.encoded(arrow.in_one(arrow.take(index.events.column("raw_name"), host.rows[at])))
    numbers = pc.struct_field(pc.extract_regex(raw.dictionary, r", seq = (?P<found>\d{1,18}), op_id = \d"), "found")
    known = arrow.bools(pc.fill_null(pc.greater(pc.binary_length(numbers), 0), False))
    found = np.full(len(numbers) + 1, -1, np.int64)
    found[:-1][known] = arrow.ints(pc.cast(numbers.filter(arrow.array(known)), pa.int64()))
    out[at] = found[arrow.codes(raw)]
    return out


def _within(host: HostTree, mask: Mask) -> Mask:
    """Return whether the innermost range around each place is one of these."""
    within: Mask = np.append(mask, False)[host.tree.parent]
    return within


def _arrows(index: TraceIndex, host: HostTree) -> tuple[I64, I64]:
    """Return the places at which arrows from forward to backward begin and end, pair by pair."""
    nothing = np.zeros(0, np.int64)
    codes, names = index.texts("name")
    if _ARROW not in names or "correlation" not in index.events.column_names:
        return nothing, nothing
    flows = index.kind_mask({Kind.FLOW}) & (codes == names.index(_ARROW)) & index.has("tid")
    rows = np.flatnonzero(flows & index.has("correlation"))
    source, number = index.ints("source")[rows], index.ints("correlation")[rows]
    order = np.lexsort((index.starts[rows], number, source))
    rows, source, number = rows[order], source[order], number[order]
    # An id that is not exactly two ends shows no pair.
    same = (source[1:] == source[:-1]) & (number[1:] == number[:-1])
    first = np.flatnonzero(same & ~np.append(False, same[:-1]) & ~np.append(same[1:], False))
    begins, ends = rows[first], rows[first + 1]
    places = np.flatnonzero(~host.is_call)
    both = np.concatenate((begins, ends))
    lanes = _host.lanes_of(index, np.concatenate((host.rows[places], both)))
    at = innermost(
        lanes[: places.size], host.starts[places], host.ends[places], lanes[places.size :], index.starts[both]
    )
    at = np.append(places, -1)[at]
    known = (at[: begins.size] >= 0) & (at[begins.size :] >= 0)
    return at[: begins.size][known], at[begins.size :][known]


def _forward(
    index: TraceIndex,
    host: HostTree,
    node: Mask,
    own: Mask,
    sequence: I64,
    thread: I64,
    arrows: tuple[I64, I64],
) -> tuple[I64, int]:
    """Return the forward operator of each node, -1 for none known, and how many an arrow shows."""
    forward = np.full(host.rows.size, -1, np.int64)
    begins, ends = arrows
    # Rounded times let an arrow end in a range inside its operator.
    of_node = np.append(host.nearest(node), -1)[ends]
    of_operator = np.append(host.nearest(own), -1)[begins]
    of_operator = np.where(of_operator >= 0, of_operator, np.where(node[begins], -1, begins))
    shown = (of_node >= 0) & (of_operator >= 0)
    forward[of_node[shown]] = of_operator[shown]
    asked = np.flatnonzero(node & (sequence >= 0))
    numbered = np.flatnonzero(own)
    if asked.size and numbered.size:
        process = grouping.numbered(index.key(name, host.rows) for name in ("source", "pid"))
        lane_of = _threads(index, host, process, thread, sequence, forward, asked, numbered)
        found = _by_number(host, lane_of, sequence, asked, numbered)
        fill = forward[asked] < 0
        forward[asked[fill]] = found[fill]
    # `AddmmBackward0` and the function around it are one node.
    parent = host.tree.parent
    pair = np.flatnonzero(node & (parent >= 0) & np.append(node, False)[parent])
    pair = pair[sequence[pair] == sequence[parent[pair]]]
    up = pair[(forward[pair] >= 0) & (forward[parent[pair]] < 0)]
    forward[parent[up]] = forward[up]
    down = pair[(forward[pair] < 0) & (forward[parent[pair]] >= 0)]
    forward[down] = forward[parent[down]]
    return forward, int(np.count_nonzero(shown))


def _by_number(host: HostTree, lane_of: I64, sequence: I64, asked: I64, numbered: I64) -> I64:
    """Return for each asked node the last operator of its forward thread that has its number and began before it."""
    lane = np.concatenate((host.lanes[numbered], lane_of))
    number = np.concatenate((sequence[numbered], sequence[asked]))
    begin = np.concatenate((host.starts[numbered], host.starts[asked]))
    is_asked = np.arange(lane.size) >= numbered.size
    order = np.lexsort((is_asked, begin, number, lane))
    latest = np.where(is_asked[order], -1, np.arange(order.size))
    latest = np.maximum.accumulate(latest)
    before = np.append(order, -1)[latest]
    fits = (latest >= 0) & (lane[before] == lane[order]) & (number[before] == number[order]) & is_asked[order]
    found = np.full(asked.size, -1, np.int64)
    found[order[fits] - numbered.size] = numbered[before[fits]]
    return np.where(lane_of >= 0, found, -1)


def _threads(
    index: TraceIndex,
    host: HostTree,
    process: I64,
    thread: I64,
    sequence: I64,
    forward: I64,
    asked: I64,
    numbered: I64,
) -> I64:
    """Return the lane of the forward operators of each asked node, -1 where it is not known."""
    pairs = np.column_stack((process[asked], thread[asked]))
    stated, of_asked = np.unique(pairs, axis=0, return_inverse=True)
    of_asked = of_asked.reshape(-1)
    lanes = sets.unique(host.lanes[numbered])
    home = np.full(int(host.lanes.max()) + 1, -1, np.int64)
    home[host.lanes] = process
    name = _plain_names(index, host)
    score = np.zeros((stated.shape[0], lanes.size), np.int64)
    linked = forward[asked] >= 0
    for column, lane in enumerate(lanes.tolist()):
        of_lane = np.full(asked.size, lane, np.int64)
        mine = numbered[host.lanes[numbered] == lane]
        match = _by_number(host, of_lane, sequence, asked, mine)
        fits = (match >= 0) & (process[asked] == home[lane]) & (name[match] == name[asked])
        # What an arrow shows outweighs all that numbers suggest.
        arrows = linked & (host.lanes[forward[asked]] == lane)
        score[:, column] = np.bincount(of_asked[fits], minlength=stated.shape[0])
        score[:, column] += (asked.size + 1) * np.bincount(of_asked[arrows], minlength=stated.shape[0])
    out = np.full(stated.shape[0], -1, np.int64)
    for _, rows in rows_by(stated[:, 0]):
        own_lanes = np.flatnonzero(home[lanes] == stated[rows[0], 0])
        if rows.size == 1 and own_lanes.size == 1:
            out[rows[0]] = lanes[own_lanes[0]]
            continue
        # Nodes that state no thread may be of any.
        rows = rows[stated[rows, 1] > 0]
        _assign(score, rows, own_lanes, lanes, out)
    return out[of_asked]


def _assign(score: I64, rows: I64, columns: I64, lanes: I64, out: I64) -> None:
    """Give each stated thread the lane that fits it best, each lane once, as long as the best is no tie."""
    left, free = rows.tolist(), columns.tolist()
    while left and free:
        best = {row: max(int(score[row, column]) for column in free) for row in left}
        sure = [
            (best[row], row, [column for column in free if score[row, column] == best[row]])
            for row in left
            if best[row] > 0
        ]
        sure = [(points, row, fits) for points, row, fits in sure if len(fits) == 1]
        if not sure:
            return
        _, row, (column,) = max(sure)
        rivals = [other for other in left if other != row and score[other, column] >= score[row, column]]
        left.remove(row)
        if rivals:
            continue
        free.remove(column)
        out[row] = lanes[column]


def _plain_names(index: TraceIndex, host: HostTree) -> I64:
    """Return a number for each place that AddmmBackward0 and aten::addmm share."""
    codes, names = index.texts("name")
    number: dict[str, int] = {}
    plain = [number.setdefault(_DECORATION.sub("", name).lower(), len(number)) for name in names]
    numbers: I64 = np.array([*plain, -1], np.int64)[codes[host.rows]]
    return np.append(numbers, -2)

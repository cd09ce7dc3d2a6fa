"""Blocks of memory with their lifetimes, and what each one holds, as far as its lifetime shows it.

A row of an allocation has an address, and the next free of that address ends the block. A lifetime shows less than a
program knows, so each block has the rule that decided. The first that fits:

| category | rule |
|---|---|
| temporary | freed in the operator that allocated it |
| optimizer state | allocated in the optimizer's step and not freed in it |
| temporary | allocated and freed in one step of the optimizer |
| gradient | allocated in a backward pass, and alive when the next forward pass or step of the optimizer begins |
| backward intermediate | allocated and freed in one backward pass |
| activation | allocated in a forward pass, or computed again for a checkpoint, and freed in a backward pass |
| temporary | allocated and freed in one forward pass |
| parameter or older | allocated before the first pass, and held to the end |
| not known | anything else, such as an input of the model, or a result that Python keeps |

Phases come from operators (`index.training_phases`), from ranges that name forward, backward or optimizer, and, in
snapshots of PyTorch, from the stacks of the allocations.
What was held before the first row has no block: parameters and whatever else is older, undivided.
"""

from __future__ import annotations

import numpy as np

from tracekit.analysis.nesting import innermost
from tracekit.analysis.segments import rows_by
from tracekit.index import grouping
from tracekit.index import host_tree as _host
from tracekit.index.host_tree import HostTree
from tracekit.index.memory_totals import extracted
from tracekit.index.trace_index import TraceIndex, join
from tracekit.index.training_phases import BACKWARD, FORWARD, OPTIMIZER, RECOMPUTE, training_phases
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Chunked, Mask
from tracekit.model.schema import Kind

__all__ = ["CATEGORIES", "HELD_BEFORE", "RULES", "MemoryBlocks", "memory_blocks"]

TEMPORARY, STATE, GRADIENT, INTERMEDIATE, ACTIVATION, OLDER, NOT_KNOWN = range(7)
CATEGORIES = (
    "temporary",
    "optimizer state",
    "gradient",
    "backward intermediate",
    "activation",
    "parameter or older",
    "not known",
)
RULES = (
    (TEMPORARY, "freed in the operator that allocated it"),
    (STATE, "allocated in the optimizer's step and not freed in it"),
    (TEMPORARY, "allocated and freed in one step of the optimizer"),
    (GRADIENT, "allocated in a backward pass, alive when the next forward pass or optimizer's step begins"),
    (INTERMEDIATE, "allocated and freed in one backward pass"),
    (ACTIVATION, "allocated in a forward pass and freed in a backward pass"),
    (ACTIVATION, "computed again for a checkpoint and freed in a backward pass"),
    (TEMPORARY, "allocated and freed in one forward pass"),
    (OLDER, "allocated before the first pass and held to the end"),
    (NOT_KNOWN, "allocated in a forward pass and held longer than the backward pass"),
    (NOT_KNOWN, "allocated outside of passes"),
    (OLDER, "held before the first row"),
)
"""The category that each rule decides, and the rule in words."""
NEVER = np.iinfo(np.int64).max
HELD_BEFORE = len(RULES) - 1
"""The number of the rule for memory that has no block."""


@dataclass(frozen=True, slots=True, eq=False)
class MemoryBlocks:
    """Blocks, b of them, in the order of their allocations.

    rows, end_rows: rows of EVENTS that allocate and free, NEVER for one that is not freed; begins, ends: their times,
    ns. rules: numbers in RULES.
    """

    rows: I64
    end_rows: I64
    sizes: I64
    begins: I64
    ends: I64
    rules: I64

    @property
    def categories(self) -> I64:
        """Return the number in CATEGORIES of each block."""
        return np.array([category for category, _ in RULES], np.int64)[self.rules]


@join
def memory_blocks(index: TraceIndex) -> MemoryBlocks | None:
    """Return the blocks; None for a trace without phases, or without addresses in its rows of memory."""
    events = index.events
    if not {"args", "bytes", "name"} <= set(events.column_names):
        return None
    codes, names = index.texts("name")
    reserved = np.array([*(name.lower().startswith("reserved") for name in names), False], np.bool_)
    rows = np.flatnonzero(index.kind_mask({Kind.MEMORY}) & index.has("bytes") & ~reserved[codes])
    if not rows.size:
        return None
    args = arrow.take(events.column("args"), rows)
    passes = _passes(index, rows, args)
    if not passes.phases.size:
        return None
    addresses = extracted(args, r'"[Aa]ddr":\s*"?(?P<found>\d{1,20})')
    if addresses.null_count:
        return None
    encoded = arrow.encoded(addresses.combine_chunks())
    address = grouping.Key(arrow.ints(encoded.indices, -1) + 1, [None, *arrow.texts(encoded.dictionary)])
    block = grouping.numbered([*(index.key(name, rows) for name in ("source", "rank", "device")), address])
    order = np.lexsort((index.starts[rows], block))
    rows, block = rows[order], block[order]
    sizes = index.ints("bytes")[rows]
    # The next row of an address ends its block: a free, or an allocation if the free is missing.
    same = np.append(block[1:] == block[:-1], False)
    end_rows = np.where(same, np.append(rows[1:], NEVER), NEVER)
    ends = np.where(same, np.append(index.starts[rows[1:]], NEVER), NEVER)
    kept = np.flatnonzero(sizes > 0)
    kept = kept[np.argsort(rows[kept], kind="stable")]
    rows, ends = rows[kept], ends[kept]
    begins = index.starts[rows]
    return MemoryBlocks(rows, end_rows[kept], sizes[kept], begins, ends, _decided(index, passes, rows, begins, ends))


@dataclass(frozen=True, slots=True, eq=False)
class _Passes:
    """Ranges of phases: their process, phase, start and end, and their thread in the host tree."""

    host: HostTree
    process: I64
    lanes: I64
    phases: I64
    starts: I64
    ends: I64

    def at(self, process: I64, lanes: I64, times: I64) -> I64:
        """Return the phase at these times: that of the thread, else that of the process; -1 for none."""
        own = innermost(self.lanes, self.starts, self.ends, lanes, times)
        any_thread = innermost(self.process, self.starts, self.ends, process, times)
        found: I64 = np.append(self.phases, -1)[np.where(own >= 0, own, any_thread)]
        return found


def _passes(index: TraceIndex, memory: I64, args: Chunked) -> _Passes:
    found = training_phases(index)
    host = _host.host(index)
    rows, phases, lanes, starts, ends = [], [], [], [], []
    if found is not None:
        rows.append(found.rows)
        phases.append(found.phase)
        lanes.append(found.lanes)
        starts.append(found.starts)
        ends.append(found.ends)
    for kind, phase in ((Kind.FORWARD, FORWARD), (Kind.BACKWARD, BACKWARD), (Kind.OPTIMIZER, OPTIMIZER)):
        place = np.flatnonzero(index.kind_mask({kind})[host.rows])
        rows.append(host.rows[place])
        phases.append(np.full(place.size, phase))
        lanes.append(host.lanes[place])
        starts.append(host.starts[place])
        ends.append(host.ends[place])
    for each, part in zip((rows, phases, lanes, starts, ends), _of_stacks(index, memory, args), strict=True):
        each.append(part)
    every = np.concatenate(rows)
    return _Passes(host, _process(index, every), *(np.concatenate(each) for each in (lanes, phases, starts, ends)))


_WORDS = {"forward": FORWARD, "backward": BACKWARD, "recompute": RECOMPUTE, "optimizer": OPTIMIZER}


def _of_stacks(index: TraceIndex, memory: I64, args: Chunked) -> tuple[I64, I64, I64, I64, I64]:
    """Return row, phase, thread (-1), start and end of the passes that the stacks of allocations show.

    A pass lasts from its first allocation to that of the next pass. The optimizer's ends with its last allocation:
    what follows may be the next batch.
    """
    encoded = arrow.encoded(extracted(args, r'"phase":\s*"(?P<found>[a-z]{1,20})"').combine_chunks())
    code = np.array([*(_WORDS.get(word, -1) for word in arrow.texts(encoded.dictionary)), -1], np.int64)
    phase = code[arrow.ints(encoded.indices, -1)]
    known = phase >= 0
    memory, phase = memory[known], phase[known]
    process = _process(index, memory)
    order = np.argsort(process, kind="stable")
    memory, phase, process = memory[order], phase[order], process[order]
    same = (process[1:] == process[:-1]) & (phase[1:] == phase[:-1])
    first = np.flatnonzero(np.append(True, ~same)) if memory.size else np.zeros(0, np.int64)
    last = np.append(first[1:], memory.size) - 1 if memory.size else first
    starts = index.starts[memory[first]]
    # An instant is no range: the last allocation is in its pass.
    ends = index.starts[memory[last]] + 1
    following = np.append(process[first][1:] == process[first][:-1], False) & (phase[first] != OPTIMIZER)
    ends = np.where(following, np.append(starts[1:], NEVER), ends)
    return memory[first], phase[first], np.full(first.size, -1, np.int64), starts, ends


def _process(index: TraceIndex, rows: I64) -> I64:
    source, pid = index.key("source", rows), index.key("pid", rows)
    return source.codes * len(pid.labels) + pid.codes


def _decided(index: TraceIndex, passes: _Passes, rows: I64, begins: I64, ends: I64) -> I64:
    """Return the rule that decides each block."""
    process = _process(index, rows)
    lanes = _host.lanes_in(index, passes.host, rows)
    began = passes.at(process, lanes, begins)
    freed = ends < NEVER
    # A free is of the pass that its process is in, whatever thread it is on.
    ended = np.full(rows.size, -1, np.int64)
    ended[freed] = passes.at(process[freed], np.full(int(freed.sum()), -1), ends[freed])
    over = _pass_ends(passes, process, begins)
    first = _first_pass(passes, process)
    forward, backward, again, step = (began == phase for phase in (FORWARD, BACKWARD, RECOMPUTE, OPTIMIZER))
    within = ends <= over
    in_backward = (ended == BACKWARD) | (ended == RECOMPUTE)
    conditions: list[Mask] = [
        ends <= _operator_ends(index, passes.host, lanes, begins),
        step & ~within,
        step,
        backward & ~within,
        backward,
        forward & in_backward & ~within,
        again & freed,
        forward & within,
        (began < 0) & (begins < first) & ~freed,
        forward | again,
    ]
    rule = np.full(rows.size, len(conditions), np.int64)
    for number, fits in reversed(list(enumerate(conditions))):
        rule[fits] = number
    return rule


def _operator_ends(index: TraceIndex, host: HostTree, lanes: I64, times: I64) -> I64:
    """Return the end of the outermost operator around each time that is no node of autograd, the least for none."""
    found = training_phases(index)
    node = found.nodes.node if found is not None else np.zeros(host.rows.size, np.bool_)
    plain = index.kind_mask({Kind.OPERATOR})[host.rows] & ~node
    # The outermost operator below a node is one that has no plain operator around it before the node.
    top = np.full(host.rows.size, -1, np.int64)
    for level in host.levels():
        parent = host.tree.parent[level]
        above = np.where((parent >= 0) & ~np.append(node, True)[parent], np.append(top, -1)[parent], -1)
        top[level] = np.where(node[level], -1, np.where(above >= 0, above, np.where(plain[level], level, -1)))
    places = np.flatnonzero(top >= 0)
    at = innermost(host.lanes[places], host.starts[places], host.ends[places], lanes, times)
    outer = np.append(top[places], -1)[at]
    ends: I64 = np.where(outer >= 0, np.append(host.ends, 0)[outer], np.iinfo(np.int64).min)
    return ends


def _pass_ends(passes: _Passes, process: I64, times: I64) -> I64:
    """Return when the pass of each time is over: where the next pass of another sort begins, else with the last one.

    Backward passes and what runs again in them are one sort.
    """
    out = np.full(times.size, NEVER)
    sort = np.where(passes.phases == RECOMPUTE, BACKWARD, passes.phases)
    for number, mine in rows_by(process):
        of_process = np.flatnonzero(passes.process == number)
        order = of_process[np.argsort(passes.starts[of_process], kind="stable")]
        starts, sorts = passes.starts[order], sort[order]
        last = int(passes.ends[order].max(initial=0))
        if not order.size:
            continue
        at = np.searchsorted(starts, times[mine], side="right") - 1
        # From each pass on, the first that is of another sort.
        changes = np.flatnonzero(np.append(sorts[1:] != sorts[:-1], False)) + 1
        behind = np.searchsorted(changes, np.maximum(at, 0), side="right")
        following = np.append(starts[changes], last)[behind] if changes.size else np.full(mine.size, last)
        out[mine] = np.where(at >= 0, following, starts[0])
    return out


def _first_pass(passes: _Passes, process: I64) -> I64:
    first = np.full(process.size, NEVER)
    for number, mine in rows_by(process):
        first[mine] = int(passes.starts[passes.process == number].min(initial=NEVER))
    return first

"""Untimed calls: the operator calls of execution traces, which say what was computed, and not when or how long.

They are rows of TOTALS, a row a call. Each has the operands that formulas take, and names the call around it. Without
device work nothing shows which calls ran a kernel, so the outermost call whose work is known counts, and nothing within
it is counted again. Operators without a formula, such as `aten::linear`, have what is inside of them. A copy whose
result is the tensor that it was given ran nothing. Neither datatypes nor bytes of lists of tensors are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tracekit.analysis.efficiency.formulas import Work, family_of, has_formula, work
from tracekit.analysis.efficiency.operands import OperatorCall
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model import args as members_of
from tracekit.model import arrow
from tracekit.model.args import items_of
from tracekit.model.arrow import I64, Column, Mask, pc
from tracekit.model.schema import Kind

if TYPE_CHECKING:
    from tracekit.index.operands import Operands

__all__ = ["SECTION", "UntimedCalls", "untimed_calls"]

SECTION = "execution trace"
"""The section of TOTALS whose rows are calls."""
_KINDS = frozenset({Kind.OPERATOR, Kind.COMMUNICATION})
_OPERANDS = r'^(?P<operands>\{"Input Dims":.*?),"node":-?[0-9]'
_FIRST = r'"(?:reads|writes)":\[\[(?P<tensor>-?[0-9]+),'
_READS, _WRITES = (_FIRST.replace("(?:reads|writes)", key) for key in ("reads", "writes"))
_COPY = "copy"
_MOST_DEEP = 256
"""Calls within each other: those of real programs are at most some dozens."""


@dataclass(frozen=True, slots=True, eq=False)
class UntimedCalls:
    """Calls of operators without times, n of them. names: by code; name: shape (n,), counting into `names`.

    calls, works: distinct calls with a formula, and their work. call: shape (n,), counting into both, -1 for none.
    above: shape (n,), the call around each, -1 for none. counts: shape (n,), whether its work is counted.
    """

    names: Sequence[str]
    name: I64
    calls: Sequence[OperatorCall]
    works: Sequence[Work]
    call: I64
    above: I64
    counts: Mask

    def __len__(self) -> int:
        return int(self.name.size)

    def of_names(self) -> tuple[list[int], list[int | None], list[int | None]]:
        """Return calls, FLOPs and bytes of each name: the work within a call is that of those around it too."""
        count = len(self.names)
        each = np.bincount(self.name, minlength=count).tolist()
        flops, moved = [0] * count, [0] * count
        known = [False] * count
        counted = [False] * count
        # By distinct call and name: the sums are of Python's integers, which have no largest one.
        at = np.flatnonzero(self.counts)
        here = at
        pairs: list[I64] = []
        while at.size:
            # A call within one of its own name counts once for that name.
            pairs.append(np.column_stack((at, self.name[here])))
            here = self.above[here]
            at, here = at[here >= 0], here[here >= 0]
        if pairs:
            unique = np.unique(np.concatenate(pairs), axis=0)
            calls, times = np.unique(
                np.column_stack((self.call[unique[:, 0]], unique[:, 1])), axis=0, return_counts=True
            )
            for (call, name), often in zip(calls.tolist(), times.tolist(), strict=True):
                one = self.works[call]
                if one.flops is not None:
                    flops[name] += one.flops * often
                    counted[name] = True
                if one.bytes is not None:
                    moved[name] += one.bytes * often
                    known[name] = True
        return (
            each,
            [value if there else None for value, there in zip(flops, counted, strict=True)],
            [value if there else None for value, there in zip(moved, known, strict=True)],
        )

    def distinct(self) -> list[tuple[OperatorCall, Work, int]]:
        """Return the distinct calls that count, with their work and how many there are."""
        often = np.bincount(self.call[self.counts], minlength=len(self.calls)).tolist()
        return [(c, w, n) for c, w, n in zip(self.calls, self.works, often, strict=True) if n]


@join
def untimed_calls(index: TraceIndex) -> UntimedCalls | None:
    """Return the calls of execution traces without times, None for a trace without any."""
    table = index.totals
    if not table.num_rows:
        return None
    sections, section = _codes(arrow.in_one(table.column("section")))
    kinds, kind = _codes(arrow.in_one(table.column("kind")))
    of_section = np.array([text == SECTION for text in section], np.bool_)
    of_kind = np.array([text in _KINDS for text in kind], np.bool_)
    mine = np.flatnonzero(of_section[sections] & of_kind[kinds])
    if not mine.size:
        return None
    args = arrow.in_one(arrow.take(table.column("args"), mine))
    names, texts = _codes(arrow.in_one(arrow.take(table.column("name"), mine)))
    above = _above(arrow.ints(arrow.in_one(arrow.take(table.column("source"), mine))), args)
    calls, call = _calls(args, names, texts)
    works = [work(each) for each in calls]
    able = np.array([*(each.is_known or each.flops is not None for each in works), False], np.bool_)[call]
    copies = np.array([family_of(text) == _COPY and not text.endswith("_") for text in texts], np.bool_)
    idle = copies[names] & _same_tensor(args)
    able &= ~idle
    return UntimedCalls(texts, names, calls, works, call, above, able & ~_within(above, able))


def _codes(column: Column) -> tuple[I64, list[str]]:
    encoded = arrow.encoded(column)
    texts = [each or "" for each in encoded.dictionary.to_pylist()]
    codes = arrow.codes(encoded).astype(np.int64)
    return np.where(codes < 0, len(texts), codes), [*texts, ""]


def _above(source: I64, args: Column) -> I64:
    """Return the call around each, -1 for none."""
    nodes, has = members_of.integers(args, "node")
    parents, inside = members_of.integers(args, "parent")
    inputs = np.unique(source, return_inverse=True)[1].reshape(-1)
    found = np.full(nodes.size, -1, np.int64)
    for number in range(int(inputs.max()) + 1):
        mine = np.flatnonzero((inputs == number) & has)
        unique, first = np.unique(nodes[mine], return_index=True)
        # A call that begins later has the larger number: so no damaged file makes a circle.
        asking = mine[inside[mine] & (parents[mine] < nodes[mine])]
        place = np.minimum(np.searchsorted(unique, parents[asking]), unique.size - 1)
        known = unique[place] == parents[asking]
        found[asking[known]] = mine[first[place[known]]]
    return _bounded(found)


def _bounded(above: I64) -> I64:
    """Return the calls around each, without those that would nest too deep: from there on it begins anew."""
    depth, around = (above >= 0).astype(np.int64), above
    while (around >= 0).any():
        depth = depth + np.where(around >= 0, depth[around], 0)
        around = np.where(around >= 0, around[around], -1)
    return np.where((depth > 0) & (depth % _MOST_DEEP == 0), -1, above)


def _calls(args: Column, names: I64, texts: Sequence[str]) -> tuple[list[OperatorCall], I64]:
    """Return the distinct calls with a formula, and which one each call is, -1 for none."""
    call = np.full(names.size, -1, np.int64)
    with_formula = np.array([has_formula(text) for text in texts], np.bool_)[names]
    operands = pc.struct_field(pc.extract_regex(args, _OPERANDS), "operands")
    at = np.flatnonzero(with_formula & arrow.valid(operands))
    if not at.size:
        return [], call
    of_text, operand_texts = _codes(arrow.take(operands, at))
    pairs, code = np.unique(np.column_stack((names[at], of_text)), axis=0, return_inverse=True)
    call[at] = code.reshape(-1)
    calls = []
    for name, text in pairs.tolist():
        found = _operands(operand_texts[text])
        calls.append(
            OperatorCall(
                texts[name],
                items_of(found.dims),
                items_of(found.types),
                items_of(found.strides),
                items_of(found.values),
            )
        )
    return calls, call


def _operands(text: str) -> Operands:
    from tracekit.index.operands import Operands, decoded

    return decoded(text + "}", Operands)


def _same_tensor(args: Column) -> Mask:
    """Return which calls have their first operand as their first result: a copy that was not needed."""
    read, written = (pc.struct_field(pc.extract_regex(args, pattern), "tensor") for pattern in (_READS, _WRITES))
    same: Mask = arrow.bools(pc.fill_null(pc.equal(read, written), False))
    return same


def _within(above: I64, able: Mask) -> Mask:
    """Return which calls are within an able one."""
    inside, further = np.append(able, False)[above], above
    while (further >= 0).any():
        inside = inside | np.append(inside, False)[further]
        further = np.where(further >= 0, further[further], -1)
    found: Mask = inside
    return found

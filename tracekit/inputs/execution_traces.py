"""An execution trace and the Kineto trace of the same run: finding them among the inputs, and what one gives the other.

Both number the record functions of a process, so a node and an event with one number in one process are one call. They
belong together if the process id is the same, and if the names of what has the same number are too: those of another
program soon differ. Then an event whose args have no shapes gets the operands of its node, and each side names the
other in `also_in`. Kineto leaves out the shapes of lists of more than 30 tensors, which optimizers have: such an event
gets them too, and keeps its own under other names. No row is moved, merged or added: a node stays a row without times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tracekit.inputs.clocks.one_process import ALSO, with_members
from tracekit.lazy_dataclass import dataclass
from tracekit.model import args as members_of
from tracekit.model import arrow, schema
from tracekit.model.arrow import I64, Column, Mask, pc
from tracekit.model.schema import HOST_RANGES
from tracekit.model.trace import Ledger, Note, Run
from tracekit.readers.base import ReadResult

__all__ = ["COLUMNS", "EXECUTION_TRACES", "KINETO", "ExecutionJoins", "calls_of", "find_pairs", "nodes_of"]

EXECUTION_TRACES = frozenset({"execution-trace", "chakra"})
KINETO = "kineto"
COLUMNS = frozenset({"event_id", "name", "kind", "pid", "args"})
"""Columns of EVENTS that finding and joining look at."""
SHAPES_FROM = "shapes_from"
"""The fact of a Kineto trace whose rows have the shapes of another input."""
OfBatch: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
_ID = "Record function id"
_OPERANDS = r'^\{(?P<operands>"Input Dims":.*?),"node":-?[0-9]'
_SHAPES = '"Input Dims"'
_MEMBERS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
_LIST_TYPE = "TensorList"
_LIST = f'"{_LIST_TYPE}"'
_LONGEST_LIST = 30
"""Tensors of a list whose shapes Kineto has."""
_SAME = 0.99
"""The share of common numbers whose names have to be the same."""
_MOST_APART_S = 26 * 3600
"""The time of an execution trace is local, so a time zone may lie between it and Unix time."""
_HOST_KINDS = frozenset(str(kind) for kind in HOST_RANGES)


@dataclass(frozen=True, slots=True, eq=False)
class ExecutionNodes:
    """The nodes of an execution trace that have a record function id, each id once, ascending.

    item: its number among the inputs. pid: None where the file has none. recorded_s: its local time, as if that were of
    UTC. total: all of its nodes. operands: members of `args`, null for a node that has none. long: nodes with a list of
    tensors that is too long for Kineto.
    """

    item: int
    name: str
    pid: int | None
    recorded_s: float | None
    total: int
    ids: I64
    nodes: I64
    names: Sequence[str]
    operands: Column
    long: Mask


@dataclass(frozen=True, slots=True, eq=False)
class KinetoCalls:
    """The calls of a Kineto trace that have a record function id. bare: they have no shapes. begun_s: Unix time."""

    item: int
    name: str
    ids: I64
    pids: I64
    rows: I64
    names: Sequence[str]
    bare: Mask
    begun_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class ExecutionPair:
    """An execution trace and a Kineto trace of one run. ids: those of both, ascending; places: among the nodes.

    rows: the record of each call in the Kineto trace. bare: how many of these calls had no shapes, and get some. lists:
    how many get the shapes of a long list.
    """

    nodes: ExecutionNodes
    calls: KinetoCalls
    ids: I64
    places: I64
    rows: I64
    bare: int
    lists: int

    def into_kineto(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the Kineto trace with the operands of their nodes, and what node each is."""
        if schema.is_totals(batch) or not batch.num_rows or batch.column("args").null_count == batch.num_rows:
            return batch
        place, known = self._places(batch.column("args"))
        known &= arrow.valid(batch.column("pid")) & (arrow.ints(batch.column("pid")) == self.nodes.pid)
        known &= _is_host(batch)
        if not known.any():
            return batch
        args = batch.column("args")
        operands = self.nodes.operands.take(arrow.array(self.places[place]))
        without = ~arrow.bools(pc.fill_null(pc.match_substring(args, _SHAPES), False))
        gains = known & arrow.valid(operands) & (without | self.nodes.long[self.places[place]])
        if gains.any():
            if (renamed := gains & ~without).any():
                batch = arrow.with_column(batch, "args", _with_own_names(args, renamed))
            batch = with_members(batch, gains, operands.filter(arrow.array(gains)))
        numbers = arrow.array(self.nodes.nodes[self.places[place[known]]]).cast(pa.string())
        head = f'"{ALSO}":{{"input":{json.dumps(self.nodes.name)},"node":'
        return with_members(batch, known, pc.binary_join_element_wise(head, numbers, "}", ""))

    def into_nodes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the execution trace with what record of the Kineto trace each is."""
        if not batch.num_rows or batch.column("args").null_count == batch.num_rows:
            return batch
        place, known = self._places(batch.column("args"))
        known &= _is_host(batch)
        if not known.any():
            return batch
        numbers = arrow.array(self.rows[place[known]]).cast(pa.string())
        head = f'"{ALSO}":{{"input":{json.dumps(self.calls.name)},"record":'
        return with_members(batch, known, pc.binary_join_element_wise(head, numbers, "}", ""))

    def _places(self, args: Column) -> tuple[I64, Mask]:
        """Return for each row the place of its id among those of both, and whether it is one of them."""
        ids, has = members_of.integers(args, _ID)
        place = np.minimum(np.searchsorted(self.ids, ids), self.ids.size - 1)
        known: Mask = has & (self.ids[place] == ids)
        return place, known


@dataclass(frozen=True, slots=True)
class ExecutionJoins:
    """Pairs of inputs that are of one run. apart: by the number of an execution trace, why it has no pair."""

    pairs: tuple[ExecutionPair, ...] = ()
    apart: Mapping[int, Sequence[str]] = field(default_factory=dict)

    def of(self, item: int) -> ExecutionPair | None:
        """Return the pair that an input is in."""
        return next((each for each in self.pairs if item in (each.nodes.item, each.calls.item)), None)

    def mover(self, item: int, run: Run, ledger: Ledger) -> OfBatch | None:
        """Return what is done to the rows of an input, None for nothing; its ledger and facts say so."""
        for reason in self.apart.get(item, ()):
            ledger.notes["execution-trace-apart"] = Note("execution-trace-apart", reason, 1)
        pair = self.of(item)
        if pair is None:
            return None
        if item == pair.calls.item:
            run.sources[0].facts |= {SHAPES_FROM: pair.nodes.name}
            return pair.into_kineto
        text = (
            f"{pair.ids.size:,} of {pair.nodes.total:,} nodes are events of {pair.calls.name}: same process, record "
            f"function ids and names; {pair.bare:,} of these events had no shapes and have those of their nodes"
        )
        if pair.lists:
            text += f"; so have {pair.lists:,} with lists of more than {_LONGEST_LIST} tensors"
        ledger.notes["execution-trace-joined"] = Note("execution-trace-joined", text, 1)
        return pair.into_nodes


def _with_own_names(args: Column, rows: Mask) -> Column:
    """Return `args` whose own operands have other names in these rows: the same members will follow."""
    renamed = args
    for key in _MEMBERS:
        renamed = pc.replace_substring_regex(renamed, pattern=f'"{key}"', replacement=f'"Kineto {key}"')
    return pc.if_else(arrow.array(rows), renamed, args)


def _has_long_list(operands: str | None) -> bool:
    """Return whether operands have a list of tensors whose shapes Kineto leaves out."""
    if operands is None or _LIST not in operands:
        return False
    found = json.loads(f"{{{operands}}}")
    return any(
        kind == _LIST_TYPE and len(dims) > _LONGEST_LIST
        for kind, dims in zip(found["Input type"], found["Input Dims"], strict=True)
    )


def _is_host(batch: pa.RecordBatch) -> Mask:
    """Return which rows are ranges of the host: work of a device may have the number of its operator."""
    kinds = arrow.encoded(batch.column("kind"))
    host = np.array([text in _HOST_KINDS for text in arrow.texts(kinds.dictionary)] + [False], np.bool_)
    found: Mask = host[arrow.codes(kinds)]
    return found


def nodes_of(item: int, name: str, opened: ReadResult) -> ExecutionNodes:
    """Return the nodes of an execution trace that have an id."""
    ids, nodes, operands, total = list[I64](), list[I64](), list[Column](), 0
    names: list[str] = []
    for batch in opened.batches:
        total += batch.num_rows
        numbers, has = members_of.integers(batch.column("args"), _ID)
        at = np.flatnonzero(has & _is_host(batch))
        args = arrow.take(batch.column("args"), at)
        ids.append(numbers[at])
        nodes.append(members_of.integers(args, "node")[0])
        found = pc.struct_field(pc.extract_regex(args, _OPERANDS), "operands")
        operands.append(pc.if_else(pc.equal(pc.fill_null(found, ""), ""), None, found))
        names += [each or "" for each in arrow.take(batch.column("name"), at).to_pylist()]
    every = np.concatenate([np.empty(0, np.int64), *ids])
    # A number that two nodes have is that of neither.
    unique, first, count = np.unique(every, return_index=True, return_counts=True)
    kept = first[(count == 1) & (unique != 0)]
    facts: Mapping[str, object] = opened.run.sources[0].facts if opened.run.sources else {}
    pid = facts.get("pid")
    texts: Column = pa.concat_arrays([pa.nulls(0, pa.string()), *operands])
    texts = texts.take(arrow.array(kept))
    return ExecutionNodes(
        item,
        name,
        pid if isinstance(pid, int) else None,
        _unix(facts.get("recorded")),
        total,
        every[kept],
        np.concatenate([np.empty(0, np.int64), *nodes])[kept],
        [names[place] for place in kept.tolist()],
        texts,
        np.array([_has_long_list(each) for each in texts.to_pylist()], np.bool_),
    )


def _unix(text: object) -> float | None:
    """Return the time in a file as if it were of UTC, None where it has none."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def calls_of(item: int, name: str, opened: ReadResult) -> KinetoCalls:
    """Return the calls of a Kineto trace that have an id."""
    ids, pids, rows, bare = list[I64](), list[I64](), list[I64](), list[Mask]()
    names: list[str] = []
    first: int | None = None
    for batch in opened.batches:
        if schema.is_totals(batch) or not batch.num_rows:
            continue
        if first is None:
            first = int(arrow.ints(batch.column("ts_ns")).min())
        args = batch.column("args")
        if args.null_count == len(args):
            continue
        numbers, has = members_of.integers(args, _ID)
        at = np.flatnonzero(has & (numbers != 0) & _is_host(batch) & arrow.valid(batch.column("pid")))
        ids.append(numbers[at])
        pids.append(arrow.ints(batch.column("pid"))[at])
        rows.append(arrow.ints(batch.column("event_id"))[at])
        bare.append(~arrow.bools(pc.fill_null(pc.match_substring(arrow.take(args, at), _SHAPES), False)))
        names += [each or "" for each in arrow.take(batch.column("name"), at).to_pylist()]
    none = np.empty(0, np.int64)
    origin = opened.run.origin_ns
    return KinetoCalls(
        item,
        name,
        np.concatenate([none, *ids]),
        np.concatenate([none, *pids]),
        np.concatenate([none, *rows]),
        names,
        np.concatenate([np.empty(0, np.bool_), *bare]),
        None if origin is None or first is None else (origin + first) / 1e9,
    )


def find_pairs(nodes: Iterable[ExecutionNodes], calls: Sequence[KinetoCalls]) -> ExecutionJoins:
    """Return which inputs are of one run, and why others are not."""
    every: list[ExecutionPair] = []
    apart: dict[int, list[str]] = {}
    for one in nodes:
        reasons = apart.setdefault(one.item, [])
        for other in calls:
            pair = _pair(one, other)
            if isinstance(pair, str):
                reasons.append(f"{other.name} gets no shapes from here: {pair}")
            else:
                every.append(pair)
    pairs = []
    for pair in every:
        rivals = [
            each.calls.name if each.nodes is pair.nodes else each.nodes.name
            for each in every
            if each is not pair and (each.nodes is pair.nodes or each.calls is pair.calls)
        ]
        if rivals:
            text = f"{pair.calls.name} gets no shapes from here: {rivals[0]} fits as well. Name one pair of files alone"
            apart[pair.nodes.item].insert(0, text)
        else:
            pairs.append(pair)
    found = {pair.nodes.item for pair in pairs}
    return ExecutionJoins(tuple(pairs), {item: why[:1] for item, why in apart.items() if why and item not in found})


def _pair(one: ExecutionNodes, other: KinetoCalls) -> ExecutionPair | str:
    """Return the pair that two inputs are, or why they are none."""
    if not other.ids.size:
        return (
            "its events have no record function ids; "
            "profile(execution_trace_observer=ExecutionTraceObserver()) of one run writes both files"
        )
    mine = other.pids == one.pid if one.pid is not None else np.zeros(other.ids.size, np.bool_)
    if not mine.any():
        return f"it is of another process ({one.pid} here)"
    if one.recorded_s is not None and other.begun_s is not None and abs(one.recorded_s - other.begun_s) > _MOST_APART_S:
        return "it was recorded on another day"
    at = np.flatnonzero(mine)
    ids, first, count = np.unique(other.ids[at], return_index=True, return_counts=True)
    at = at[first[count == 1]]
    both, places, of_calls = np.intersect1d(one.ids, ids[count == 1], assume_unique=True, return_indices=True)
    if not both.size:
        return "no record function id is in both"
    at = at[of_calls]
    same = np.array(
        [one.names[here] == other.names[there] for here, there in zip(places.tolist(), at.tolist(), strict=True)],
        np.bool_,
    )
    agree = int(np.count_nonzero(same))
    if agree < _SAME * both.size:
        return f"it is of another run: {both.size - agree:,} of {both.size:,} record function ids have another name"
    has_operands = arrow.valid(one.operands.take(arrow.array(places)))
    bare = int(np.count_nonzero(same & other.bare[at] & has_operands))
    lists = int(np.count_nonzero(same & ~other.bare[at] & one.long[places]))
    return ExecutionPair(one, other, both[same], places[same], other.rows[at][same], bare, lists)

"""The op of a compiled program that each kernel is of, and the member `xla_op` of its `args`.

Events name their op in the stats `hlo_op` and `program_id`. Kernels of a CUDA or HIP graph have the name of the graph
in place of an op (`command_buffer_1`): the kernels of one launch are in the order of the program's schedule, and those
of fused ops have the name of their op. Where that order fits at one place alone, each kernel has its op.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Mask, Rows
from tracekit.model.digits import signed
from tracekit.readers.xplane._hlo_programs import HloOp, HloProgram, HloPrograms, base_name
from tracekit.readers.xplane._members import decoded, distinct
from tracekit.readers.xplane._planes import Plane, PlaneName, PlaneRole
from tracekit.readers.xplane._scan import REFERENCE, SIGNED, TEXT, UNSIGNED, Scanned

_MOST_KERNELS = 1 << 16
_MOST_STEPS = 1 << 24
_GRAPH = "command_buffer"
"""How XLA begins the names of its graphs."""
_LIBRARY = ""
"""Stands for a kernel that is of no fused op: one of a library."""
_Node = tuple[int, str, int, int]
"""Program, op, graph and node: one kernel of a graph, of all of its launches."""


class HloRows:
    """The ops of the events of one file."""

    def __init__(self, programs: HloPrograms) -> None:
        self.programs = programs
        self._nodes: dict[_Node, HloOp] = {}
        self._aligned: dict[tuple[int, str, tuple[str, ...]], tuple[HloOp | None, ...]] = {}

    def op(self, program: int, name: str) -> HloOp | None:
        """Return the op of this name, None for a graph or an op that the file does not have."""
        found = self.programs.program(program)
        op = found.ops.get(name) if found is not None else None
        return None if op is None or op.opcode == "call" else op

    def is_graph(self, program: int, name: str) -> bool:
        """Return whether this is the name of a graph of a program that the file has."""
        found = self.programs.program(program)
        return found is not None and (name in found.called or name.startswith(_GRAPH))

    def launch(
        self, program: int, name: str, kernels: Sequence[str], nodes: Sequence[tuple[int, int]]
    ) -> Sequence[HloOp | None]:
        """Return the op of each kernel of one launch of a graph, in order of time; None where it is not known.

        kernels: their names. nodes: graph and node of each, -1 where the file does not say.
        """
        key = program, name, tuple(kernels)
        if key not in self._aligned:
            found = self.programs.program(program)
            self._aligned[key] = aligned(found, name, kernels) if found is not None else (None,) * len(kernels)
        ops = self._aligned[key]
        # A launch that a batch has half of is known by the nodes of a whole one.
        for op, (graph, node) in zip(ops, nodes, strict=True):
            if op is not None and node >= 0:
                self._nodes[program, name, graph, node] = op
        return [
            op or (self._nodes.get((program, name, graph, node)) if node >= 0 else None)
            for op, (graph, node) in zip(ops, nodes, strict=True)
        ]


def aligned(program: HloProgram, name: str, kernels: Sequence[str]) -> tuple[HloOp | None, ...]:
    """Return the op of each kernel of a launch, in order of time, None where the schedule fits nowhere or twice."""
    scheduled = program.called.get(name) or program.scheduled
    unknown = (None,) * len(kernels)
    if not kernels or len(kernels) > _MOST_KERNELS or not scheduled:
        return unknown
    fused = {op.base for op in scheduled if op.opcode == "fusion"}
    found = [base if (base := base_name(kernel)) in fused else _LIBRARY for kernel in kernels]
    if not any(found):
        # Only names show where in the schedule the kernels are.
        return unknown
    wanted = [op.base if op.opcode == "fusion" else _LIBRARY for op in scheduled]
    if len(found) * len(wanted) > _MOST_STEPS:
        return unknown
    starts = [at for at in range(len(wanted) - len(found) + 1) if wanted[at : at + len(found)] == found]
    if len(starts) == 1:
        return tuple(scheduled[starts[0] : starts[0] + len(found)])
    return unknown if starts else _by_runs(scheduled, wanted, found)


def _by_runs(scheduled: Sequence[HloOp], wanted: Sequence[str], found: Sequence[str]) -> tuple[HloOp | None, ...]:
    """Return the ops where the whole schedule ran and a library took several kernels for a product."""
    ops = [(name, [op for _, op in run]) for name, run in groupby(zip(wanted, scheduled, strict=True), lambda x: x[0])]
    kernels = [(name, len(list(run))) for name, run in groupby(found)]
    if [name for name, _ in ops] != [name for name, _ in kernels]:
        return (None,) * len(found)
    out: list[HloOp | None] = []
    for (_, each), (_, count) in zip(ops, kernels, strict=True):
        if len(each) == count:
            out += each
        else:
            out += [each[0] if len(each) == 1 else None] * count
    return tuple(out)


# One batch of events.


@dataclass(frozen=True, slots=True, eq=False)
class NamedEvents:
    """The events of one batch, n of them. name: the code of the name of each, counting into `names`.

    start: ps. measured: whether an event is one of a line that counts as work of the device, which `role` says.
    """

    scanned: Scanned
    plane: Plane
    names: Sequence[PlaneName]
    name: Rows
    start: I64
    measured: Mask
    role: PlaneRole


def ops_of_events(events: NamedEvents, rows: HloRows) -> tuple[list[str], Rows]:
    """Return the distinct members `xla_op`, the first one empty, and the number of that of each event."""
    count = len(events.name)
    texts: dict[str, int] = {"": 0}
    codes = np.zeros(count, np.int32)
    if not rows.programs or not events.measured.any():
        return [""], codes
    if events.role is PlaneRole.OPS:
        numbers = [_number_of(_op_of_name(events.plane, name, rows), texts) for name in events.names]
        codes[:] = np.where(events.measured, np.array(numbers, np.int32)[events.name], 0)
        return list(texts), codes
    names, op_names = _texts_of(events.scanned, events.plane, "hlo_op", count)
    programs, has_program = _programs_of(events, rows, count)
    mine = np.flatnonzero(events.measured & (names >= 0) & has_program)
    if not mine.size:
        return [""], codes
    known, program = distinct(programs[mine])
    pairs, place = distinct(program.astype(np.int64) * len(op_names) + names[mine])
    ops = [rows.op(known[pair // len(op_names)], op_names[pair % len(op_names)]) for pair in pairs]
    codes[mine] = np.array([_number_of(op, texts) for op in ops], np.int32)[place]
    for number, (pair, op) in enumerate(zip(pairs, ops, strict=True)):
        graph = known[pair // len(op_names)], op_names[pair % len(op_names)]
        if op is None and rows.is_graph(*graph):
            _take_launches(events, rows, graph, mine[place == number], codes, texts)
    return list(texts), codes


def _number_of(op: HloOp | None, texts: dict[str, int]) -> int:
    return 0 if op is None else texts.setdefault(f',"xla_op":{op.text}', len(texts))


def _op_of_name(plane: Plane, name: PlaneName, rows: HloRows) -> HloOp | None:
    """Return the op of all events of a name: on a TPU a name is an op of one program."""
    program = plane.all_stats(name.stats).get("program_id") if name.short else None
    return rows.op(program, name.short) if isinstance(program, int) else None


def _programs_of(events: NamedEvents, rows: HloRows, count: int) -> tuple[I64, Mask]:
    """Return the program of each event, and which events have one that is known."""
    numbers, there = _numbers_of(events.scanned, events.plane, "program_id", count)
    if there.any():
        return numbers, there
    # Older files have the name of the program alone.
    names, texts = _texts_of(events.scanned, events.plane, "hlo_module", count)
    found = [rows.programs.number(text) for text in texts]
    of_name = np.array([*(0 if each is None else signed(each) for each in found), 0], np.int64)
    return of_name[names], np.array([*(each is not None for each in found), False], np.bool_)[names]


def _take_launches(
    events: NamedEvents,
    rows: HloRows,
    graph: tuple[int, str],
    mine: Rows,
    codes: Rows,
    texts: dict[str, int],
) -> None:
    """Fill in the ops of the kernels of a graph, launch by launch."""
    count = len(events.name)
    program, name = graph
    launches, there = _numbers_of(events.scanned, events.plane, "correlation_id", count)
    mine = mine[there[mine]]
    graphs, _ = _numbers_of(events.scanned, events.plane, "cuda_graph_id", count)
    nodes, has_node = _numbers_of(events.scanned, events.plane, "cuda_graph_node_id", count)
    nodes = np.where(has_node, nodes, -1)
    if not mine.size:
        return
    order = mine[np.lexsort((events.start[mine], launches[mine]))]
    bounds = [0, *(np.flatnonzero(np.diff(launches[order])) + 1).tolist()]
    for begin, end in zip(bounds, [*bounds[1:], len(order)], strict=True):
        launch = order[begin:end]
        kernels = [events.names[at].name for at in events.name[launch].tolist()]
        of_graph = list(zip(graphs[launch].tolist(), nodes[launch].tolist(), strict=True))
        ops = rows.launch(program, name, kernels, of_graph)
        codes[launch] = [_number_of(op, texts) for op in ops]


def _stats_of(scanned: Scanned, plane: Plane, key: str) -> Rows:
    """Return the places of the stats of a name."""
    numbers = [number for number, name in plane.keys.items() if name == key]
    if not numbers or not len(scanned.stats):
        return np.zeros(0, np.int64)
    found = scanned.stats.key == numbers[0]
    for number in numbers[1:]:
        found |= scanned.stats.key == number
    return np.flatnonzero(found)


def _numbers_of(scanned: Scanned, plane: Plane, key: str, count: int) -> tuple[I64, Mask]:
    """Return the integers of a stat, 0 where an event has none, and which events have one."""
    stats = scanned.stats
    which = _stats_of(scanned, plane, key)
    which = which[(stats.form[which] == SIGNED) | (stats.form[which] == UNSIGNED)]
    numbers, there = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    numbers[stats.row[which]] = stats.value[which].view(np.int64)
    there[stats.row[which]] = True
    return numbers, there


def _texts_of(scanned: Scanned, plane: Plane, key: str, count: int) -> tuple[I64, list[str]]:
    """Return the code of each event's text of a stat, -1 where it has none, and the texts."""
    stats = scanned.stats
    codes = np.full(count, -1, np.int64)
    which = _stats_of(scanned, plane, key)
    texts: list[str] = []
    if (referring := which[stats.form[which] == REFERENCE]).size:
        numbers, code = distinct(stats.value[referring].view(np.int64))
        texts += [plane.key(number) for number in numbers]
        codes[stats.row[referring]] = code
    if (own := which[stats.form[which] == TEXT]).size:
        own = own[np.argsort(stats.at[own])]
        column, _ = decoded(scanned.packed.bytes, stats.at[own], stats.value[own].view(np.int64))
        encoded = arrow.encoded(column)
        codes[stats.row[own]] = encoded.indices.to_numpy() + len(texts)
        texts += arrow.texts(encoded.dictionary)
    return codes, texts

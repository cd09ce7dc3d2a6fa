"""The door of this folder."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt

from tracekit.analysis.nesting import nest
from tracekit.analysis.statistics import Grouped, grouped
from tracekit.compat.base import Compat
from tracekit.errors import Option, UsageError, sentence
from tracekit.index import grouping
from tracekit.index.grouping import group_by
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import PickedRows, TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64
from tracekit.model.display import escape_controls, plural
from tracekit.model.report import Cell, Column, Report, ReportTable, Section
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.units import Unit
from tracekit.options import OptionSpec
from tracekit.render.base import Renderer, RenderOptions
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.totals import TotalsRow, totals_rows

__all__ = ["COMPAT", "VIEW"]

# SINGA's figures from EVENTS: iterations, phases, and the operators of the graph.
#
# An iteration is a step: a value of the column `step`, else a range of kind step, else the whole trace. An operator of
# the graph is the k-th event of a name on its thread within an iteration; its number is its place by first start.
# Operators are the events of kind operator, python_op and communication that are within no other of these; a trace
# without them has the work of its devices in their place, or else its ranges. "Waiting" is never timed.


COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "name", "source", "rank", "pid", "tid", "device", "stream", "step"})
NEVER_TIMED = "Waiting"
_RANGES = frozenset({Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.FORWARD, Kind.BACKWARD, Kind.OPTIMIZER})
_OPERATORS = frozenset({Kind.OPERATOR, Kind.PYTHON_OP, Kind.COMMUNICATION})
PHASES = (Kind.FORWARD, Kind.BACKWARD, Kind.OPTIMIZER)
KINDS = _OPERATORS | DEVICE_WORK | _RANGES | {Kind.STEP}


@dataclass(frozen=True, slots=True)
class Iterations:
    """Iterations of one process. numbers: steps, ascending. starts, ends: ns; of the events in it where no range is."""

    numbers: I64
    starts: I64
    ends: I64


@dataclass(frozen=True, slots=True)
class SingaGraph:
    """One process. names, kinds: of each operator (g,), in order of first start. times: (g, iterations), ns.

    seen: (g, iterations): whether the operator ran then. phases: time of each phase, (iterations,).
    outside: events that belong to no iteration.
    """

    source: int
    rank: int | None
    iterations: Iterations
    names: list[str]
    kinds: list[str]
    node: I64
    iteration: I64
    durations: I64
    phases: dict[str, I64]
    outside: int


def graphs(index: TraceIndex) -> list[SingaGraph]:
    """Return the graph of each process that has events."""
    picked = _operators(index)
    if not picked.rows.size:
        return []
    processes = group_by(picked.key("source"), picked.key("rank"))
    graphs_of_processes = []
    for number, (source, rank) in enumerate(zip(*processes.labels, strict=True)):
        of_process = np.flatnonzero(processes.codes == number)
        if isinstance(source, int):
            graphs_of_processes.append(
                _graph(index, _part(picked, of_process), source, rank if isinstance(rank, int) else None)
            )
    return graphs_of_processes


def _operators(index: TraceIndex) -> PickedRows:
    for kinds in (_OPERATORS, DEVICE_WORK, _RANGES):
        picked = index.pick(kinds)
        if picked.rows.size:
            return _roots(picked)
    return picked


def _roots(picked: PickedRows) -> PickedRows:
    """Return the events that are within no other, thread by thread."""
    lanes = group_by(*(picked.key(c) for c in ("source", "rank", "pid", "tid", "device", "stream")))
    tree = nest(lanes.codes, picked.starts, picked.starts + picked.durations)
    return _part(picked, np.flatnonzero(tree.depth == 0))


def _part(picked: PickedRows, which: npt.NDArray[np.int64]) -> PickedRows:
    return PickedRows(
        picked.index, picked.rows[which], picked.starts[which], picked.durations[which], picked.untimed, picked.negative
    )


def _of_process(index: TraceIndex, kinds: Collection[Kind], source: int, rank: int | None) -> PickedRows:
    picked = index.pick(kinds)
    of_process = index.ints("source")[picked.rows] == source
    if rank is not None:
        of_process &= arrow.ints(index.events.column("rank"), -1)[picked.rows] == rank
    return _part(picked, np.flatnonzero(of_process))


def _graph(index: TraceIndex, picked: PickedRows, source: int, rank: int | None) -> SingaGraph:
    steps = _of_process(index, [Kind.STEP], source, rank)
    iterations, place = _iterations(index, picked, steps)
    inside = np.flatnonzero(place >= 0)
    outside = int(place.size - inside.size)
    picked, place = _part(picked, inside), place[inside]
    ops = group_by(*(picked.key(c) for c in ("kind", "name", "pid", "tid", "device", "stream")))
    node, first_row = _nodes(picked, ops.codes, place)
    op = ops.codes[first_row].tolist()
    names = ["(no name)" if (name := ops.labels[1][o]) is None else str(name) for o in op]
    phases = {}
    for kind in PHASES:
        roots = _roots(_of_process(index, [kind], source, rank))
        if roots.rows.size:
            at = _place(index, roots, iterations, steps)
            times = np.zeros(iterations.numbers.size, np.int64)
            np.add.at(times, at[at >= 0], roots.durations[at >= 0])
            phases[str(kind)] = times
    return SingaGraph(
        source,
        rank,
        iterations,
        names,
        [str(ops.labels[0][o]) for o in op],
        node,
        place,
        picked.durations,
        phases,
        outside,
    )


def _iterations(index: TraceIndex, picked: PickedRows, steps: PickedRows) -> tuple[Iterations, I64]:
    """Return the iterations, and of each event which one it is in, -1 for none."""
    step_of_row = _steps_of(index, picked)
    if (step_of_row >= 0).any():
        numbers = sets.unique(step_of_row[step_of_row >= 0])
    elif steps.rows.size:
        numbers = np.arange(steps.rows.size)
    else:
        numbers = np.zeros(1, np.int64)
    if steps.rows.size == numbers.size:
        order = np.argsort(steps.starts, kind="stable")
        ranges = Iterations(numbers, steps.starts[order], (steps.starts + steps.durations)[order])
        return ranges, _place(index, picked, ranges, steps)
    bare = Iterations(numbers, np.zeros(0, np.int64), np.zeros(0, np.int64))
    place = _place(index, picked, bare, steps)
    inside = place >= 0
    starts, ends = np.full(numbers.size, np.iinfo(np.int64).max), np.full(numbers.size, np.iinfo(np.int64).min)
    np.minimum.at(starts, place[inside], picked.starts[inside])
    np.maximum.at(ends, place[inside], (picked.starts + picked.durations)[inside])
    return Iterations(numbers, starts, ends), place


def _steps_of(index: TraceIndex, picked: PickedRows) -> I64:
    return arrow.ints(index.events.column("step"), -1)[picked.rows]


def _place(index: TraceIndex, picked: PickedRows, iterations: Iterations, steps: PickedRows) -> I64:
    step_of_row = _steps_of(index, picked)
    if (step_of_row >= 0).any():
        at = np.minimum(np.searchsorted(iterations.numbers, step_of_row), iterations.numbers.size - 1)
        return np.where(iterations.numbers[at] == step_of_row, at, -1)
    if steps.rows.size and iterations.starts.size:
        at = np.searchsorted(iterations.starts, picked.starts, "right") - 1
        return np.where((at >= 0) & (picked.starts < iterations.ends[np.maximum(at, 0)]), at, -1)
    return np.zeros(picked.rows.size, np.int64)


def _nodes(picked: PickedRows, op: I64, place: I64) -> tuple[I64, I64]:
    """Return the operator of the graph of each event, numbered by first start, and the first event of each."""
    if not op.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.lexsort((picked.starts, place, op))
    sorted_op, sorted_place = op[order], place[order]
    begins = np.ones(order.size, np.bool_)
    begins[1:] = (sorted_op[1:] != sorted_op[:-1]) | (sorted_place[1:] != sorted_place[:-1])
    at = np.arange(order.size)
    occurrence = at - np.maximum.accumulate(np.where(begins, at, 0))
    keys = np.empty(order.size, np.int64)
    keys[order] = sorted_op * (int(occurrence.max()) + 1) + occurrence
    by_start = np.argsort(picked.starts, kind="stable")
    _, first, code = np.unique(keys[by_start], return_index=True, return_inverse=True)
    rank = np.empty(first.size, np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(first.size)
    node = np.empty(order.size, np.int64)
    node[by_start] = rank[code]
    return node, by_start[np.sort(first)]


def forward_nodes(graph: SingaGraph, times: I64) -> int:
    """Return how many operators are of the forward pass: those before the first "Backward" that took any time."""
    for number, name in enumerate(graph.names):
        if "Backward" in name and times[number] > 0:
            return number
    return len(graph.names)


# Profiles that SINGA printed, from TOTALS.


@dataclass(slots=True)
class SingaPrinted:
    """One `Time Profiling:`. phases, operators: rows of TOTALS, `args` a dict. several: its input has more of them.

    divided: (measured iterations, all iterations, divisor), where the profile names them, as tracekit's face does.
    """

    source: int
    run: int
    rank: int | None
    several: bool = False
    below_blank: bool = False
    dist_only: bool = False
    divided: tuple[int, int, int] | None = None
    phases: list[TotalsRow] = field(default_factory=list)
    operators: list[TotalsRow] = field(default_factory=list)


def printed_profiles(index: TraceIndex) -> list[SingaPrinted]:
    """Return the profiles in the order of the files."""
    by_run: dict[tuple[int, int], SingaPrinted] = {}
    for row in sorted(totals_rows(index), key=lambda row: (row["source"], row["order"])):
        name, section = row["name"], row["section"]
        verbosity = section == "header" and name == "Verbosity"
        if not verbosity and section != "Propagation" and section != "Operators":
            continue
        if section == "Operators" and not isinstance(row["args"].get("op_id"), int):
            continue
        printed = by_run.setdefault((row["source"], row["run"]), SingaPrinted(row["source"], row["run"], row["rank"]))
        if verbosity:
            printed.below_blank = bool(row["args"].get("below_blank"))
            printed.dist_only = row["value_text"] == "2 or 3"
            printed.divided = _divided(row["args"])
        elif section == "Propagation":
            printed.phases.append(row)
        else:
            printed.operators.append(row)
    profiles = [p for p in by_run.values() if p.phases or p.operators]
    for profile in profiles:
        profile.several = sum((p.source, p.rank) == (profile.source, profile.rank) for p in profiles) > 1
    return sorted(profiles, key=lambda p: (p.source, p.run))


def _divided(args: Mapping[str, object]) -> tuple[int, int, int] | None:
    measured, iterations, divisor = (args.get(key) for key in ("measured", "iterations", "divisor"))
    if isinstance(measured, int) and isinstance(iterations, int) and isinstance(divisor, int) and measured > 0:
        return measured, iterations, divisor
    return None


# Columns of the tables of this folder.


SHOWS = (
    ViewColumn("name", "Name", Unit.TEXT, "The name of the phase or operator."),
    ViewColumn("of", "Of", Unit.TEXT, "The profile of the row, where there are several."),
    ViewColumn("op_id", "Id", Unit.ID, "The number of the operator in the graph."),
    specs.KIND,
    specs.CALLS,
    ViewColumn("avg", "Per iteration", Unit.NS, "The mean time of an iteration."),
    specs.MIN,
    specs.MAX,
    *specs.PERCENTILES,
    specs.STD,
    specs.RATIO,
    ViewColumn("text", "As printed", Unit.TEXT, "The value as printed, where it is not a number."),
    ViewColumn("s", "Time (s)", Unit.NUMBER, "The time that SINGA prints, in seconds."),
    ViewColumn(
        "below_blank", "Below blank", Unit.COUNT, "The number of empty lines that SINGA prints above the table: 1 or 0."
    ),
)

# SINGA's layout: the lines that Device.PrintTimeProfiling() prints, of a report made with compat "singa".
#
# Times have six significant digits, as C++ prints a float. A profile of tracekit's own face keeps its line of the
# divisor. Source: Graph::PrintTimeProfiling in src/core/scheduler/scheduler.cc of Apache SINGA 3.1.


def render(report: Report, options: RenderOptions) -> str:  # noqa: ARG001 - SINGA prints seconds, and no others
    """Return the lines of all profiles of the report."""
    lines = [escape_controls(line) for section in report.sections for table in section.tables for line in _lines(table)]
    return "\n".join(lines) + "\n" if lines else ""


def _lines(table: ReportTable) -> Iterator[str]:
    if not len(table) or table.column("below_blank").values[0]:
        yield ""
    yield "Time Profiling:"
    named = {column.name: column.values for column in table.columns}
    if len(table) and "divisor" in named:
        measured, iterations, divisor = (named[key][0] for key in ("measured", "iterations", "divisor"))
        what = "phases" if named["op_id"][0] is None else "operators"
        yield f"tracekit: {measured} of {iterations} iterations measured, {what} divided by {divisor}"
    cells = (table.column(name).values for name in ("op_id", "name", "s", "text"))
    for op_id, name, seconds, text in zip(*cells, strict=True):
        time = f"{seconds:g}" if isinstance(seconds, (int, float)) else text or "-"
        yield f"{name} Time : {time} sec" if op_id is None else f"OP_ID{op_id}. {name} : {time} sec"


LAYOUT = Renderer("singa", (), render)

# singa: phases and operators of an average iteration, in the order of the graph, as SINGA's time profiling has them.
#
# A profile that SINGA printed keeps its own figures. SINGA divides the operators by all iterations, even by the ones
# that it skipped and did not time. The option `iterations` corrects the times (`skip_iterations`: 5 by default);
# without it a note says that they are too small. A profile of tracekit's own face names its divisor: its times are
# shown for an average measured iteration, and the option has no effect. `_events` takes any other trace apart: phases
# are events of kind forward, backward and optimizer. Without them forward is everything before the first operator whose
# name contains "Backward", and backward the rest of the iteration, as in SINGA. Iterations that are skipped do not
# count.
#
# With compat "singa" the figures are SINGA's: operators are divided by all iterations, and 5 iterations are skipped
# where there are more. `verbosity` (2 unless said) chooses phases (1), operators (2) or those whose name contains
# "Dist" (3).


_TITLE = "Phases and operators of an iteration (SINGA)"
_NAMES = ("name", "op_id", "kind", "calls", "avg", "total", "min", "max", "p50", "p95", "p99", "std", "ratio")
_SKIPPED = 5
_MOST = 200
"""Operators of a process that are shown, without --top: a trace without steps is one iteration of all its events."""
_SPREAD = ("min", "p50", "p95", "p99", "max", "std")
_PRIORITY = {"min": 5, "p50": 4, "p95": 6, "p99": 4, "max": 3, "std": 6}


VERBOSITY = OptionSpec(
    "verbosity",
    int,
    None,
    "The rows that SINGA prints: phases (1), operators (2), or those of Dist (3).",
    least=1,
    most=3,
)
ITERATIONS = OptionSpec("iterations", int, None, "The iterations that a printed profile is the average of.", least=0)
SKIP_ITERATIONS = OptionSpec(
    "skip_iterations", int, None, "The first iterations that are skipped; SINGA skips 5.", least=0
)


@dataclass(frozen=True, slots=True)
class _SingaLine:
    """A row: time of an average iteration, ns; spread: of the iterations that it ran in."""

    name: str
    op_id: int | None
    kind: str
    calls: int | None
    avg: float | None
    text: str | None = None
    spread: dict[str, Cell] | None = None


@dataclass(frozen=True, slots=True)
class _Profile:
    """One `Time Profiling:`. of: what it is of, in words. left_out: operators beyond those; all_ns: time of all.

    divided: (measured iterations, all iterations, divisor) that it names.
    """

    of: str
    phases: list[_SingaLine]
    operators: list[_SingaLine]
    below_blank: bool = True
    left_out: int = 0
    all_ns: float | None = None
    divided: tuple[int, int, int] | None = None


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the tables. Raises: UsageError for an unknown key of --sort, a lacking column or a verbosity beyond 3."""
    tabulate.require(index, "singa", COLUMNS)
    verbosity = options.value(VERBOSITY)
    notes: list[str] = []
    labels = source_labels(index)
    printed = printed_profiles(index)
    profiles = [_from_print(p, labels, options, notes) for p in printed]
    for graph in graphs(index):
        profiles.append(_from_events(graph, labels, options, notes))
    notes = list(dict.fromkeys(notes))
    if not profiles:
        return tabulate.nothing("singa", _TITLE, "operator, kernel or range", options, notes)
    if options.compat == "singa":
        if verbosity == 1 and any(p.operators and not p.phases for p in profiles):
            notes.append("a profile of operators has no time of an iteration: there is nothing at verbosity 1")
        return Section("singa", _TITLE, tuple(_as_singa(p, options) for p in profiles), notes=tuple(notes))
    if len(profiles) > len(printed):
        notes.append("events: times are of an average iteration; percentiles are of the iterations that it ran in")
    tables = [
        table
        for name, title in (("phases", "Phases"), ("operators", "Operators"))
        if (table := _table(name, title, profiles, options)) is not None
    ]
    return Section("singa", _TITLE, tuple(tables), notes=(*notes, *tabulate.option_notes(options)))


def _from_print(profile: SingaPrinted, labels: dict[int, str], options: ViewOptions, notes: list[str]) -> _Profile:
    label = source_label(labels, profile.source)
    label = label if profile.rank is None else f"{label} rank {profile.rank}"
    label = f"{label} ({profile.run})" if profile.several else label
    grow = 1.0
    if profile.divided is not None and options.compat != "singa":
        measured, _, divisor = profile.divided
        grow = divisor / measured
        if options.value(ITERATIONS) is not None:
            notes.append(f"{label} names its divisor: --option iterations has no effect on it")
        if profile.operators and divisor != measured:
            notes.append(
                f"{label}: operators were divided by {plural(divisor, 'iteration')}, of which {measured:,} were "
                "measured: they are shown for an average measured iteration"
            )
    elif profile.operators and options.compat != "singa":
        wanted, iterations = options.value(SKIP_ITERATIONS), options.value(ITERATIONS)
        skip = _SKIPPED if wanted is None else wanted
        if iterations is None:
            notes.append(
                "SINGA divides operators by all iterations, skipped ones included: times are too small by "
                "(iterations - skipped) / iterations; --option iterations=N puts them right"
            )
        elif iterations <= skip:
            hint = sentence("SINGA skips 5 by default: ", Option("option", "skip_iterations=K"))
            given = Option("option", f"iterations={iterations}")
            raise UsageError(sentence(given, ": all of them are skipped"), hint=hint)
        else:
            grow = iterations / (iterations - skip)
    operators = [_printed_line(r, grow) for r in profile.operators]
    phases = [_printed_line(r, 1.0) for r in profile.phases]
    first = next((n for n, o in enumerate(operators) if "Backward" in o.name and o.avg), 0)
    if first and not phases and options.compat != "singa" and not profile.dist_only:
        for name, part in (("Forward", operators[:first]), ("Backward", operators[first:])):
            time = sum(o.avg or 0.0 for o in part)
            phases.append(_SingaLine(f"{name} Propagation", None, name.lower(), 1, time))
        notes.append("phases are sums of operators: backward begins with the first whose name contains Backward")
    return _Profile(label, phases, operators, profile.below_blank, divided=profile.divided)


def _printed_line(row: TotalsRow, grow: float) -> _SingaLine:
    avg = None if row["avg_ns"] is None else row["avg_ns"] * grow
    return _SingaLine(
        row["name"] or "",
        op_id if isinstance(op_id := row["args"].get("op_id"), int) else None,
        row["kind"] or "",
        row["calls"],
        avg,
        row["value_text"],
    )


def _from_events(graph: SingaGraph, labels: dict[int, str], options: ViewOptions, notes: list[str]) -> _Profile:
    label = source_label(labels, graph.source)
    label = label if graph.rank is None else f"{label} rank {graph.rank}"
    count = int(graph.iterations.numbers.size)
    skip = options.value(SKIP_ITERATIONS)
    if skip is None:
        skip = _SKIPPED if options.compat == "singa" and count > _SKIPPED else 0
    if graph.outside:
        notes.append(f"{plural(graph.outside, 'event')} within no iteration not counted")
    measured = max(count - skip, 0)
    if not measured:
        notes.append(f"all {plural(count, 'iteration')} skipped: there is no time of an average one")
    elif skip:
        notes.append(f"the first {plural(skip, 'iteration')} of {count:,} skipped")
    divisor = count if options.compat == "singa" else measured
    counted = (graph.iteration >= skip) & np.array([n != NEVER_TIMED for n in graph.names], np.bool_)[graph.node]
    nodes, durations = graph.node[counted], graph.durations[counted]
    try:
        of_node = grouped(nodes, len(graph.names), durations)
    except OverflowError as err:
        raise grouping.too_long() from err
    shown = np.flatnonzero(of_node.present) if measured else np.zeros(0, np.int64)
    left_out = 0
    most = options.top or _MOST
    if options.compat != "singa" and shown.size > most:
        left_out = int(shown.size) - most
        which = "that took longest" if options.sorted_by else "that ran first"
        notes.append(f"of {plural(int(shown.size), 'operator')} the {most:,} {which} are shown: --top N shows N")
        if options.sorted_by:
            shown = shown[np.argsort(-of_node.total[shown], kind="stable")]
        shown = np.sort(shown[:most])
    operators = []
    for number in shown.tolist():
        avg = int(of_node.total[number]) / divisor
        spread = _spread(of_node, number) if options.compat != "singa" else None
        calls = int(of_node.calls[number])
        operators.append(_SingaLine(graph.names[number], number, graph.kinds[number], calls, avg, spread=spread))
    phases = _phases(graph, skip, measured, of_node.total, nodes, durations, graph.iteration[counted])
    all_ns = sum(of_node.total.tolist()) / divisor if measured else None
    return _Profile(label, phases, operators, left_out=left_out, all_ns=all_ns)


def _spread(stats: Grouped, number: int) -> dict[str, Cell]:
    figures: dict[str, Cell] = {f"p{p}": int(stats.percentile(p)[number]) for p in (50, 95, 99)}
    figures |= {"min": int(stats.min[number]), "max": int(stats.max[number]), "std": int(stats.pstd[number])}
    return figures


def _phases(
    graph: SingaGraph, skip: int, measured: int, totals: I64, nodes: I64, durations: I64, iteration: I64
) -> list[_SingaLine]:
    """Return forward, backward, optimizer where the trace has them, and the whole iteration."""
    if not measured:
        return []
    whole = (graph.iterations.ends - graph.iterations.starts)[skip:]
    times_of = {kind: times[skip:] for kind, times in graph.phases.items()}
    if not times_of:
        forward = np.zeros(graph.iterations.numbers.size, np.int64)
        early = nodes < forward_nodes(graph, totals)
        np.add.at(forward, iteration[early], durations[early])
        times_of["forward"] = forward[skip:]
        if forward_nodes(graph, totals) < len(graph.names):
            times_of["backward"] = whole - forward[skip:]
        else:
            del times_of["forward"]
    times_of["iteration"] = whole
    rows = []
    for kind, times in times_of.items():
        stats = grouped(np.zeros(times.size, np.int64), 1, times)
        name = "Iteration" if kind == "iteration" else f"{kind.capitalize()} Propagation"
        name = "Optimizer" if kind == "optimizer" else name
        rows.append(
            _SingaLine(
                name, None, kind, int(times.size), int(stats.total[0]) / int(times.size), spread=_spread(stats, 0)
            )
        )
    return rows


def _table(name: str, title: str, profiles: Sequence[_Profile], options: ViewOptions) -> ReportTable | None:
    lines = [(p, line) for p in profiles for line in getattr(p, name)]
    if not lines:
        return None
    wholes: dict[str, float] = {}
    for profile, line in lines:
        if line.kind != "iteration":
            wholes[profile.of] = wholes.get(profile.of, 0.0) + (line.avg or 0.0)
        else:
            wholes[profile.of] = line.avg or 0.0
    left_out = 0
    for profile in profiles if name == "operators" else ():
        left_out += profile.left_out
        if profile.all_ns is not None:
            wholes[profile.of] = profile.all_ns
    ratios: list[Cell] = [
        line.avg / wholes[p.of] if line.avg is not None and wholes[p.of] > 0 else None for p, line in lines
    ]
    columns = [Column("name", title[:-1], Unit.TEXT, [line.name for _, line in lines], 0)]
    if len(profiles) > 1:
        columns.append(Column("of", "Of", Unit.TEXT, [p.of for p, _ in lines], 0))
    if name == "operators":
        columns.append(Column("op_id", "Id", Unit.ID, [line.op_id for _, line in lines], 0))
    columns += [
        Column("kind", "Kind", Unit.TEXT, [line.kind for _, line in lines], 6),
        Column("calls", "Calls", Unit.COUNT, [line.calls for _, line in lines], 2),
        Column("avg", "Per iteration", Unit.NS, [None if n.avg is None else round(n.avg) for _, n in lines], 0),
    ]
    for key in _SPREAD:
        cells: list[Cell] = [None if n.spread is None else n.spread[key] for _, n in lines]
        if any(cell is not None for cell in cells):
            columns.append(Column(key, key.capitalize(), Unit.NS, cells, _PRIORITY[key]))
    columns.append(Column("ratio", "Ratio", Unit.RATIO, ratios, 1))
    if any(line.text for _, line in lines):
        columns.append(Column("text", "As printed", Unit.TEXT, [line.text for _, line in lines], 4))
    table = _ordered(name, title, columns, [(p.of,) for p, _ in lines], options)
    return replace(table, omitted=table.omitted + left_out)


def _ordered(
    name: str, title: str, columns: list[Column], blocks: list[tuple[Cell, ...]], options: ViewOptions
) -> ReportTable:
    """Return the table in the order of the graph, or by the key of --sort; cut to --top rows of each profile."""
    if options.sorted_by.removeprefix("-") in [c.name for c in columns]:
        return tabulate.finish(name, title, columns, options, blocks=blocks)
    kept: list[int] = []
    seen: dict[tuple[Cell, ...], int] = {}
    for place, block in enumerate(blocks):
        seen[block] = seen.get(block, 0) + 1
        if not options.top or seen[block] <= options.top:
            kept.append(place)
    shown = tuple(Column(c.name, c.title, c.unit, [c.values[i] for i in kept], c.priority) for c in columns)
    return ReportTable(name, title, shown, omitted=len(blocks) - len(kept))


def _as_singa(profile: _Profile, options: ViewOptions) -> ReportTable:
    """Return what SINGA prints: phases at verbosity 1, else operators that took time, at 3 those of Dist alone."""
    verbosity = options.value(VERBOSITY) or (1 if profile.phases and not profile.operators else 2)
    if verbosity == 1 and profile.phases and profile.phases[-1].kind == "iteration":
        lines = _two_passes(profile.phases)
    elif verbosity == 1 or not profile.operators:
        lines = profile.phases
    else:
        lines = [
            n
            for n in profile.operators
            if (verbosity == 2 or "Dist" in n.name) and (n.text or n.avg is None or n.avg > 0)
        ]
    lines = lines[: options.top or None]
    seconds: list[Cell] = [None if line.avg is None else line.avg / 1e9 for line in lines]
    columns = (
        Column("op_id", "Id", Unit.ID, [line.op_id for line in lines], 0),
        Column("name", "Name", Unit.TEXT, [line.name for line in lines], 0),
        Column("s", "Time (s)", Unit.NUMBER, seconds, 0),
        Column("text", "As printed", Unit.TEXT, [line.text for line in lines], 1),
        Column("below_blank", "Below blank", Unit.COUNT, [int(profile.below_blank)] * len(lines), 9),
        *_divided_columns(profile, len(lines)),
    )
    return ReportTable("time_profiling", f"Time Profiling: {profile.of}", columns)


def _divided_columns(profile: _Profile, rows: int) -> list[Column]:
    """Return what the layout needs to print the line of the divisor again, where the profile has one."""
    values = zip(("measured", "iterations", "divisor"), profile.divided or (), strict=False)
    return [Column(key, key.capitalize(), Unit.COUNT, [value] * rows, 9) for key, value in values]


def _two_passes(phases: list[_SingaLine]) -> list[_SingaLine]:
    """Return forward, and as backward the rest of the iteration, whatever it was."""
    forward = next((p for p in phases if p.kind == "forward"), None)
    time = forward.avg or 0.0 if forward else 0.0
    return [
        _SingaLine("Forward Propagation", None, "forward", None, time),
        _SingaLine("Backward Propagation", None, "backward", None, (phases[-1].avg or 0.0) - time),
    ]


VIEW = View(
    name="singa",
    title=_TITLE,
    columns=COLUMNS,
    kinds=frozenset(Kind(k) for k in KINDS),
    compute=compute,
    shows=SHOWS,
    options=(VERBOSITY, ITERATIONS, SKIP_ITERATIONS),
)

COMPAT = Compat("singa", "SINGA time profiling", (VIEW,), LAYOUT)

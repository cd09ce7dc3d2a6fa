"""The part of a worker: it reads one input where it is, and sends back small tables.

Two questions. `look`: which ranks the input holds, what its clock says, and its collectives. `share`: all that the
tables of a run need of it, with times on the clock of the run. Neither raises; an input that fails is an answer too.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from tracekit import conversion
from tracekit._version import __version__
from tracekit.analysis.clocks.line import ClockLine
from tracekit.analysis.value_counts import ValueCounts, rounded, tally
from tracekit.errors import InputError, SchemaError, TracekitError
from tracekit.index import collectives, grouping, matched_collectives
from tracekit.index import owners as _owners
from tracekit.index import step_extents as _extents
from tracekit.index import steps as _steps
from tracekit.index.cut_steps import cut_steps
from tracekit.index.matched_collectives import Candidates
from tracekit.index.trace_index import TraceIndex, index_of
from tracekit.inputs import InputOptions
from tracekit.inputs.clocks.placement import clock_mover
from tracekit.inputs.prescan import WITHOUT_COLLECTIVES
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema, sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.report import Cell
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.trace import Ledger, Run, Trace
from tracekit.safety.limits import Limits, applied
from tracekit.views.device.breakdown import Parts, device_parts
from tracekit.views.named import FiguresKey, NamedShare
from tracekit.views.ranks import distributed, ranks
from tracekit.views.tables import operator, overview
from tracekit.views.work_columns import WorkSums, kernel_work


@dataclass(frozen=True, slots=True)
class RankTask:
    """One input for a worker. number: its place among the inputs. share: else a look is asked for.

    named: tables of durations by name. line: corrects the clock of the input;
    times are Unix times then, else after the origin of the file. folder: for the rows of a look, so that the file need
    not be read again; "" for none. seen: what that look found. limits: as `Limits.sent` gives them.
    """

    number: int
    name: str
    label: str
    options: InputOptions
    share: bool
    named: tuple[FiguresKey, ...] = ()
    line: ClockLine | None = None
    folder: str = ""
    seen: RankPrescan | None = None
    version: str = __version__
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, eq=False)
class RankPrescan:
    """An input at first sight. ranks: that its rows state.

    first_ns, met_ns: start of its first row and of its first collective. candidates: its collectives.
    """

    run: Run
    ledgers: tuple[Ledger, ...]
    first_ns: int | None
    met_ns: int
    ranks: frozenset[int]
    candidates: Candidates | None
    owners: int


@dataclass(frozen=True, slots=True, eq=False)
class OperatorShare:
    """Operators by name. durations, below: of the host, and of the work below them (totals, least and most alone).

    work: device events.
    """

    durations: ValueCounts
    below: ValueCounts | None
    figures: operator.OperatorFigures
    work: int


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveShare:
    """Collectives by operation and group, as `distributed.CollectiveFigures`."""

    labels: tuple[list[Cell], list[Cell]]
    durations: ValueCounts
    sized: list[int]
    sizes: list[int]
    spent: list[int]


@dataclass(frozen=True, slots=True, eq=False)
class RankSummary:
    """The tables of one input. rows: a few rows of EVENTS that have its owners, devices, spans and steps.

    owner_row: for each owner, the `event_id` of one of these rows. busy: device time in each step. extents: of each
    step, how long after its host range it begins, its duration, and whether it is that of the device. devices: the
    parts of each device, of its span and its steps. loads, communication: those of the input alone. collectives:
    of kernels, of ranges of kind communication, of all ranges. kernel_work: None without shapes.
    """

    run: Run
    ledgers: tuple[Ledger, ...]
    events: int
    rows: pa.Table
    owner_row: I64
    untimed_work: int
    negative_work: int
    named: tuple[NamedShare, ...]
    kinds: overview.KindFigures
    operators: OperatorShare | None
    busy: tuple[int | None, ...]
    extents: tuple[I64, I64, Mask]
    devices: tuple[tuple[Parts, Parts | None, int, int], ...]
    loads: ranks.Loads
    candidates: Candidates
    communication: distributed.RankFigures
    collectives: tuple[CollectiveShare | None, ...]
    kernel_work: WorkSums | None


@dataclass(frozen=True, slots=True, eq=False)
class RankAnswer:
    """The answer to a task: a look, a share, or the error that says why there is none."""

    number: int
    look: RankPrescan | None = None
    share: RankSummary | None = None
    error: TracekitError | None = None


def work(task: RankTask) -> RankAnswer:
    """Do one task. It raises nothing: an error is an answer."""
    try:
        with applied(task.limits.received()):
            return (
                RankAnswer(task.number, share=_share(task)) if task.share else RankAnswer(task.number, look=_look(task))
            )
    except TracekitError as err:
        return RankAnswer(task.number, error=err)
    except (OSError, MemoryError) as err:
        what = getattr(err, "strerror", None) or type(err).__name__
        hint = "is the file there, and readable?"
        return RankAnswer(task.number, error=InputError(str(what), path=task.name, hint=hint))
    except Exception as err:  # noqa: BLE001 - a bug of ours in one file costs that file
        text = f"tracekit failed: {type(err).__name__}: {err}"
        return RankAnswer(task.number, error=SchemaError(text, path=task.name))


def lost(task: RankTask, reason: str) -> RankAnswer:
    """Return the answer for a task whose worker died."""
    return RankAnswer(task.number, error=InputError(reason, path=task.name))


def mismatch(version: str, name: str) -> str | None:
    """Return why a worker of a cluster cannot read the inputs; None if it can."""
    if version != __version__:
        return f"the worker on {socket.gethostname()} has another tracekit ({__version__}, not {version})"
    if "://" not in name and not Path(name).exists():
        return f"the worker on {socket.gethostname()} does not see {name}"
    return None


def _read(task: RankTask, columns: frozenset[str] | None, args_of: frozenset[str] | None) -> Trace:
    trace = conversion.read([task.name], replace(task.options, columns=columns, args_of=args_of))
    if len(trace.run.sources) > 1:
        hint = "name fewer files, and they are read together"
        raise InputError(
            f"holds {len(trace.run.sources):,} inputs; one rank a file is needed", path=task.name, hint=hint
        )
    if trace.totals.num_rows and not trace.events.num_rows:
        hint = "name fewer files, and they are read together"
        raise InputError("holds sums and no events, which cannot be added to other ranks", path=task.name, hint=hint)
    return trace


def _look(task: RankTask) -> RankPrescan:
    if task.folder:
        trace = _read(task, task.options.columns, task.options.args_of)
        _keep(trace, _kept_in(task))
    else:
        trace = _read(task, matched_collectives.COLUMNS | {"event_id"}, collectives.ARGS_OF)
    index = index_of(trace)
    ranks = sets.unique(index.ints("rank")[index.has("rank")]).tolist()
    first = int(index.starts[0]) if index.starts.size else None
    if not ranks or trace.run.sources[0].format in WITHOUT_COLLECTIVES:
        return RankPrescan(trace.run, trace.ledgers, first, 0, frozenset(ranks), None, 0)
    owners = _owners.find(index, join_ranks=True)
    found = matched_collectives.candidates(index, owners)
    rows, _ = matched_collectives.communication(index, owners)
    met = int(index.starts[rows].min()) if rows.size else 0
    return RankPrescan(trace.run, trace.ledgers, first, met, frozenset(ranks), found, len(owners))


def _kept_in(task: RankTask) -> Path:
    return Path(task.folder, f"{task.number}.arrow")


def _keep(trace: Trace, path: Path) -> None:
    """Write the rows of a trace into a file. Where that fails, the input is read again."""
    if trace.totals.num_rows:
        return
    how = pa.ipc.IpcWriteOptions(compression="lz4")
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, trace.events.schema, options=how) as writer:
            writer.write_table(trace.events)
    except OSError:
        path.unlink(missing_ok=True)


def _kept(task: RankTask) -> Trace | None:
    """Return the trace that a look kept, None where there is none. Its file is removed."""
    if not task.folder or task.seen is None or not (path := _kept_in(task)).exists():
        return None
    with pa.OSFile(str(path), "rb") as source:
        events = pa.ipc.open_file(source).read_all()
    path.unlink()
    return Trace(events, run=task.seen.run, ledgers=task.seen.ledgers)


def _share(task: RankTask) -> RankSummary:
    trace = _kept(task) or _read(task, task.options.columns, task.options.args_of)
    if task.line is not None:
        batches = map(clock_mover(trace.run.origin_ns or 0, task.line, 0), trace.events.to_batches())
        trace = Trace(pa.Table.from_batches(batches, trace.events.schema), trace.totals, trace.run, trace.ledgers)
    index = index_of(trace)
    owners = _owners.find(index, join_ranks=True)
    rows, owner_row = _skeleton(index, owners)
    extents = _extents.step_extents(index, _owners.find(index))
    steps = extents.steps
    pieces = index.pick(DEVICE_WORK)
    return RankSummary(
        Run(trace.run.origin_ns, trace.run.sources, devices=trace.run.devices),
        trace.ledgers,
        trace.events.num_rows,
        rows,
        owner_row,
        pieces.untimed,
        pieces.negative,
        tuple(_named(index, kinds, by_kind=by_kind) for kinds, by_kind, _ in task.named),
        overview.figures(index),
        _operators(index),
        _steps.busy_inside(index, steps),
        (steps.starts - extents.host.starts, steps.durations, extents.ahead),
        tuple((each.span, each.steps, each.active, each.busy) for each in device_parts(index)),
        ranks.loads(index, owners),
        matched_collectives.candidates(index, owners),
        replace(distributed.figures(index), each=None),
        tuple(_collectives(index, rows) for rows in distributed.kinds_of_rows(index)),
        kernel_work(index),
    )


def shifted(share: RankSummary, by_ns: int) -> RankSummary:
    """Return a share whose times are that much later."""
    starts = arrow.array(arrow.ints(share.rows.column("ts_ns")) + by_ns)
    rows = arrow.with_column(share.rows, "ts_ns", starts)
    of = share.candidates
    return replace(share, rows=rows, candidates=replace(of, starts=of.starts + by_ns, ends=of.ends + by_ns))


def _skeleton(index: TraceIndex, owners: _owners.Owners) -> tuple[pa.Table, I64]:
    """Return a row or two for all rows of one owner, process, device and kind, and each step; and a row of each owner.

    The rows of a group begin and end with it, so that spans come out the same.
    """
    events = index.events
    every = np.arange(events.num_rows)
    groups = grouping.group_by(*(index.key(name, every) for name in ("kind", "rank", "pid", "device")))
    ends = index.starts + index.lengths
    first, last = np.full(groups.count, np.iinfo(np.int64).max), np.full(groups.count, np.iinfo(np.int64).min)
    np.minimum.at(first, groups.codes, index.starts)
    np.maximum.at(last, groups.codes, ends)
    timed = np.bincount(groups.codes[index.has("dur_ns")], minlength=groups.count) > 0
    step = np.array([kind == Kind.STEP for kind in groups.labels[0]], np.bool_)
    one = np.zeros(groups.count, np.int64)
    one[groups.codes] = every
    steps = np.flatnonzero(index.kind_mask({Kind.STEP}))
    # The summary of all ranks has no calls, from which it could find these steps again.
    steps = steps[~np.isin(steps, cut_steps(index).left_out)]
    whole = np.flatnonzero(~step)
    again = np.flatnonzero(~step & ~timed & (last > first))
    rows = np.concatenate((one[whole], one[again], steps))
    starts = np.concatenate((first[whole], last[again], index.starts[steps]))
    lasting = np.concatenate((last[whole] - first[whole], np.zeros(again.size, np.int64), index.ints("dur_ns")[steps]))
    known = np.concatenate((timed[whole], np.zeros(again.size, np.bool_), index.has("dur_ns")[steps]))
    kept = {name: events.column(name) for name in _KEPT if name in events.schema.names}
    columns: list[arrow.Column | arrow.Chunked] = []
    for column in schema.EVENTS:
        if column.name == "ts_ns":
            columns.append(arrow.array(starts))
        elif column.name == "dur_ns":
            columns.append(arrow.array(lasting, mask=~known))
        elif column.name == "event_id":
            columns.append(arrow.array(np.arange(rows.size)))
        elif column.name in kept:
            columns.append(kept[column.name].take(arrow.array(rows)).combine_chunks())
        else:
            columns.append(pa.nulls(rows.size, column.type))
    owner_row = np.full(len(owners), -1, np.int64)
    owner_row[owners.codes[rows]] = np.arange(rows.size)
    return pa.table(columns, schema=schema.EVENTS), owner_row


_KEPT = ("kind", "source", "rank", "pid", "tid", "device", "step", "name")


def _named(index: TraceIndex, kinds: Iterable[Kind], *, by_kind: bool) -> NamedShare:
    picked = index.pick(frozenset(kinds))
    groups = grouping.group_by(picked.key("name"), *([picked.key("kind")] if by_kind else []))
    found = tally(groups.codes, groups.count, picked.durations)
    return NamedShare(groups.labels, found, picked.untimed, picked.negative)


def _operators(index: TraceIndex) -> OperatorShare | None:
    charged = operator.charged(index, by_thread=False)
    if not charged.picked.rows.size and not charged.host.work.size:
        return None
    found = operator.figures(index)
    groups, on_thread = charged.groups, charged.places >= 0
    at, codes = charged.places[on_thread], groups.codes[on_thread]
    below = None
    if charged.host.work.size:
        heard = ~charged.by_time.silent(charged.host.rows[at])
        # Least, most and total are shown, no percentile: one bit of each value is enough.
        below = rounded(tally(codes[heard], groups.count, charged.total[at[heard]]), 1)
    durations = tally(groups.codes, groups.count, charged.picked.durations)
    ranges = replace(found.ranges, host=_NOTHING, device=None)
    return OperatorShare(durations, below, replace(found, ranges=ranges), int(charged.host.work.size))


def _collectives(index: TraceIndex, rows: I64) -> CollectiveShare | None:
    if not rows.size:
        return None
    found = distributed.each_of(index, rows)
    described = collectives.described(index, rows)
    groups = grouping.group_by(*collectives.group_cells(described))
    durations = tally(groups.codes, groups.count, index.lengths[rows])
    return CollectiveShare((found.operations, found.groups), durations, found.sized, found.sizes, found.spent)


_NOTHING = grouping.statistics(grouping.Groups(np.zeros(0, np.int64), 0, ()), np.zeros(0, np.int64))

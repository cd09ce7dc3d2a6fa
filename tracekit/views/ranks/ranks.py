"""ranks: how long the ranks of a run waited for each other, which rank came last, and how balanced the load is.

Each collective that several ranks have in common (`meetings`) has a skew, the latest less the earliest start; a
transfer time, from the latest start to the latest end; and for each rank a wait, from its own start to the latest.
Times are on one clock: the clocks of ranks are aligned by the ends of collectives (analysis/clocks), with an
uncertainty. Starts of two ranks that differ by no more than the sum of their uncertainties count as simultaneous.

A straggler is a rank that comes last, by more than the uncertainty, significantly more often than by chance: a binomial
test over all such collectives, at 1 % for all ranks together, with at least 5 collectives. late: the time from the last
but one start to the last; the others would have waited that much less. Ranks that come late together (a host, a
parallel group, or ranks that nothing groups) have a table of their own: which of them is last is chance, so none of
them is named alone.

imbalance = max / mean over ranks (Pipit): of the mean step time, of the union of device work, and of that without
collectives (kernels that wait inside a collective look busy).
"""

from __future__ import annotations

import numpy as np

from tracekit.analysis.clocks.matched_collectives import RankClocks
from tracekit.analysis.intervals import union_length_by
from tracekit.analysis.statistics import grouped
from tracekit.index import collectives, matched_collectives
from tracekit.index import owners as _owners
from tracekit.index import step_extents as _extents
from tracekit.index.devices import by_clock, origins
from tracekit.index.matched_collectives import MatchedCollectives
from tracekit.index.sources import synthetic_sources
from tracekit.index.trace_index import TraceIndex, join, notes_on_rows
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.units import Unit, format_span
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.ranks.late_groups import LateGroup, late_groups, members_named, too_many
from tracekit.views.ranks.skews import Skews, clocks_of, on_one_clock, skews_of, stragglers

__all__ = [
    "BUSY",
    "BUSY_ALONE",
    "MEASURES",
    "STRAGGLER",
    "VIEW",
    "Loads",
    "loads",
]

SHOWN = 10
"""Number of collectives with the largest skew in the list, unless --top names another number."""

STRAGGLER = "straggler: "
"""The beginning of a note on ranks that came last, alone or together, more often than by chance."""

_TITLE = "Ranks"
_COLUMNS = matched_collectives.COLUMNS | _extents.COLUMNS


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return skew, stragglers, clocks and imbalance of the ranks. Raises: UsageError for an unknown key of --sort."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    owners = _owners.find(index, join_ranks=True)
    load = loads(index, owners)
    if load.present.size < 2:
        what = "one" if load.present.size else "none with device work, steps or collectives"
        needs = f"needs several ranks (inputs or processes); this trace has {what}"
        return Section(VIEW.name, _TITLE, notes=(needs, *tabulate.option_notes(options)))
    every = matched_collectives.find(index, owners)
    clocks = clocks_of(owners, every)
    met = matched_collectives.only(every, on_one_clock(owners, every, clocks))
    tables = [_balance(owners, load, options)]
    notes: list[str] = []
    if strangers := every.count - met.count:
        notes.append(f"{plural(strangers, 'collective')} skipped: the clocks could not be aligned")
    if met.count:
        skews = skews_of(met, clocks)
        groups = late_groups(index, owners, met, skews, clocks)
        tables = [
            _by_rank(owners, met, skews, options),
            *([_by_group(owners, groups, options)] if groups else []),
            _by_name(met, skews, options),
            _largest(index, owners, met, skews, options),
            _of_clocks(owners, met, clocks, options),
            *tables,
        ]
        notes += _clock_notes(owners, met, clocks)
        notes += _straggler_notes(owners, met, skews, groups)
    else:
        notes.append("needs collectives on two or more ranks: there is no skew")
    notes += _left_out(met)
    if synthetic_sources(index):
        notes.append("inputs with durations but no starts have no skew")
    notes += notes_on_rows("step", load.steps_without_time, load.steps_below)
    notes += notes_on_rows("row", load.untimed, load.negative)
    notes += tabulate.option_notes(options, tables[0])
    return Section(VIEW.name, _TITLE, tuple(tables), notes=tuple(notes))


@dataclass(frozen=True, slots=True, eq=False)
class Loads:
    """The load of each owner. present: owners with device work, steps or collectives.

    measures: name, ns of each owner, and which owners have such a time, shape (owners,). steps_without_time,
    steps_below: steps without a duration, and with one below zero; untimed, negative: the same of device work.
    """

    present: I64
    measures: tuple[tuple[str, I64, Mask], ...]
    steps_without_time: int
    steps_below: int
    untimed: int
    negative: int


@join
def loads(index: TraceIndex, owners: _owners.Owners) -> Loads:
    """Return the mean step time, as the view `steps` has it, and the device time of each owner."""
    steps = _extents.step_extents(index, owners).steps
    work = index.pick(DEVICE_WORK)
    communication, _ = matched_collectives.communication(index, owners)
    present = sets.unique(np.concatenate((owners.codes[communication], owners.codes[work.rows], steps.owner)))
    owner = owners.codes[work.rows]
    ends = work.starts + work.durations
    talk = np.isin(work.rows, collectives.kernels(index)[0])
    times = grouped(steps.owner, len(owners), steps.durations)
    has = np.bincount(owner, minlength=len(owners)) > 0
    measures = [
        (STEP_TIME, times.mean, times.present),
        (BUSY, union_length_by(owner, len(owners), work.starts, ends), has),
    ]
    if talk.any():
        alone = union_length_by(owner[~talk], len(owners), work.starts[~talk], ends[~talk])
        measures.append((BUSY_ALONE, alone, has))
    every = index.pick({Kind.STEP})
    return Loads(present, tuple(measures), every.untimed, every.negative, work.untimed, work.negative)


STEP_TIME, BUSY, BUSY_ALONE = MEASURES = ("mean step time", "device busy", "device busy without collectives")


def _by_rank(owners: _owners.Owners, met: MatchedCollectives, skews: Skews, options: ViewOptions) -> ReportTable:
    count = len(owners)
    waits = grouped(met.owner, count, skews.waits)
    late = grouped(skews.latest[skews.sure], count, skews.late[skews.sure])
    present = np.flatnonzero(waits.present).tolist()
    columns = [
        Column("owner", "Rank", Unit.TEXT, [owners.labels[o] for o in present], 0, "place"),
        Column("collectives", "Collectives", Unit.COUNT, waits.calls[present].tolist(), 1),
        Column("wait", "Waited", Unit.NS, waits.total[present].tolist(), 0),
        Column("wait_p50", "Wait P50", Unit.NS, waits.percentile(50)[present].tolist(), 3),
        Column("last", "Came last", Unit.COUNT, late.calls[present].tolist(), 0),
        Column("last_share", "Of its own", Unit.RATIO, (late.calls[present] / waits.calls[present]).tolist(), 2),
        Column("late_p50", "Late P50", Unit.NS, [_some(late.calls[o], late.percentile(50)[o]) for o in present], 2),
        Column("late", "Late in all", Unit.NS, late.total[present].tolist(), 1),
    ]
    blocks: list[tuple[Cell, ...]] = [(o,) for o in present]
    return tabulate.finish("ranks", "Who waited and who came last", columns, options, blocks=blocks, top_each=False)


def _by_group(owners: _owners.Owners, groups: list[LateGroup], options: ViewOptions) -> ReportTable:
    """Return the groups whose ranks come late together, with the figures that `findings` says of them."""
    columns = [
        Column("late_group", "Group", Unit.TEXT, [each.name for each in groups], 0, "place"),
        Column("members", "Its ranks", Unit.TEXT, [members_named(owners, each.owners) for each in groups], 2, "remark"),
        Column("collectives", "Collectives", Unit.COUNT, [each.trials for each in groups], 1),
        Column("last", "Came late", Unit.COUNT, [each.last for each in groups], 0),
        Column("last_share", "Of its own", Unit.RATIO, [each.last / each.trials for each in groups], 1),
        Column("late_p50", "Late P50", Unit.NS, [each.median for each in groups], 1),
        Column("late", "Late in all", Unit.NS, [each.late for each in groups], 0),
    ]
    blocks: list[tuple[Cell, ...]] = [(i,) for i in range(len(groups))]
    return tabulate.finish("late_groups", "Ranks that come late together", columns, options, blocks=blocks)


def _some(calls: int, value: int) -> int | None:
    return int(value) if calls else None


def _by_name(met: MatchedCollectives, skews: Skews, options: ViewOptions) -> ReportTable:
    skew = grouped(met.kind, len(met.names), skews.skew)
    transfer = grouped(met.kind, len(met.names), skews.transfer)
    both = (skew.total + transfer.total).tolist()
    waiting = [s / b if b else None for s, b in zip(skew.total.tolist(), both, strict=True)]
    columns = [
        Column("name", "Collective", Unit.TEXT, [name for name, _, _ in met.names], 0),
        Column("group", "Group", Unit.TEXT, [group for _, group, _ in met.names], 2),
        Column("ranks", "Ranks", Unit.COUNT, [n for *_, n in met.names], 3, "name"),
        Column("collectives", "Count", Unit.COUNT, skew.calls.tolist(), 1),
        Column("skew_p50", "Skew P50", Unit.NS, skew.percentile(50).tolist(), 1),
        Column("skew_p95", "Skew P95", Unit.NS, skew.percentile(95).tolist(), 3),
        Column("skew_max", "Skew max", Unit.NS, skew.max.tolist(), 2),
        Column("skew", "Skew in all", Unit.NS, skew.total.tolist(), 0),
        Column("transfer_p50", "Transfer P50", Unit.NS, transfer.percentile(50).tolist(), 2),
        Column("transfer", "Transfer in all", Unit.NS, transfer.total.tolist(), 0),
        Column("waiting", "Waiting", Unit.RATIO, waiting, 1),
    ]
    return tabulate.finish("collectives", "Skew and transfer", columns, options, own_order="skew")


def _largest(
    index: TraceIndex, owners: _owners.Owners, met: MatchedCollectives, skews: Skews, options: ViewOptions
) -> ReportTable:
    shown = np.lexsort((np.arange(met.count), -skews.skew))[: options.top or SHOWN]
    begin = int(origins(index)[0]) if by_clock(index).count == 1 else int(skews.first.min())
    columns = [
        Column("name", "Collective", Unit.TEXT, [met.names[met.kind[m]][0] for m in shown], 0),
        Column("number", "Number", Unit.ID, met.place[shown].tolist(), 1, "event"),
        Column("start", "Start", Unit.NS, (skews.first[shown] - begin).tolist(), 3),
        Column("skew", "Skew", Unit.NS, skews.skew[shown].tolist(), 0),
        Column("transfer", "Transfer", Unit.NS, skews.transfer[shown].tolist(), 1),
        Column(
            "latest",
            "Came last",
            Unit.TEXT,
            [owners.labels[skews.latest[m]] if skews.sure[m] else "(too close to tell)" for m in shown],
            0,
            "remark",
        ),
        Column("late", "By", Unit.NS, skews.late[shown].tolist(), 1),
    ]
    table = tabulate.finish("skews", "The largest skews", columns, options, own_order="skew")
    return ReportTable(table.name, table.title, table.columns, met.count - len(table))


def _of_clocks(
    owners: _owners.Owners, met: MatchedCollectives, clocks: RankClocks, options: ViewOptions
) -> ReportTable:
    present = sets.unique(met.owner).tolist()
    known = clocks.known
    columns = [
        Column("owner", "Rank", Unit.TEXT, [owners.labels[o] for o in present], 0, "place"),
        Column("offset", "Clock ahead by", Unit.NS, [int(clocks.offset[o]) if known[o] else None for o in present], 0),
        Column(
            "drift_ppm",
            "Drift (ppm)",
            Unit.NUMBER,
            [round(float(clocks.drift[o]) * 1e6, 4) if known[o] else None for o in present],
            1,
        ),
        Column(
            "uncertainty",
            "Uncertainty",
            Unit.NS,
            [int(clocks.uncertainty[o]) if known[o] else None for o in present],
            0,
        ),
        Column("collectives", "Collectives", Unit.COUNT, clocks.meetings[present].tolist(), 2),
    ]
    blocks: list[tuple[Cell, ...]] = [(o,) for o in present]
    title = f"Clocks, against {owners.labels[clocks.reference]}"
    return tabulate.finish("clocks", title, columns, options, blocks=blocks, top_each=False)


def _balance(owners: _owners.Owners, load: Loads, options: ViewOptions) -> ReportTable:
    """Return mean, least and most over ranks of step time and device time, and how uneven they are."""
    rows = []
    for words, values, known in load.measures:
        known_owners = load.present[known[load.present]]
        if known_owners.size > 1:
            figures = values[known_owners].tolist()
            mean = round(sum(figures) / len(figures))
            uneven = round(max(figures) * len(figures) / sum(figures), 4) if sum(figures) else None
            most = owners.labels[known_owners[int(np.argmax(values[known_owners]))]]
            rows.append((words, len(figures), mean, min(figures), max(figures), uneven, most))
    cells = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(7)]
    columns = [
        Column("measure", "Measure", Unit.TEXT, cells[0], 0),
        Column("ranks", "Ranks", Unit.COUNT, cells[1], 1),
        Column("mean", "Mean", Unit.NS, cells[2], 0),
        Column("min", "Min", Unit.NS, cells[3], 2),
        Column("max", "Max", Unit.NS, cells[4], 1),
        Column("imbalance", "Max / mean", Unit.NUMBER, cells[5], 0),
        Column("most", "Most", Unit.TEXT, cells[6], 1, "remark"),
    ]
    blocks: list[tuple[Cell, ...]] = [(i,) for i in range(len(rows))]
    return tabulate.finish("balance", "Load imbalance", columns, options, blocks=blocks, top_each=False)


def _clock_notes(owners: _owners.Owners, met: MatchedCollectives, clocks: RankClocks) -> list[str]:
    present = sets.unique(met.owner)
    notes = []
    if not clocks.known[present].all():
        few = [owners.labels[o] for o in present[~clocks.known[present]].tolist()]
        who = ", ".join(few[:3]) + (" ..." if len(few) > 3 else "")
        notes.append(
            f"{who}: too few collectives that all ranks leave together to align the clocks; skew is as the clocks "
            "measure it, and no rank is named for it"
        )
    if clocks.known[present].sum() > 1:
        most = int(clocks.uncertainty[present].max())
        notes.append(f"clocks were aligned by the ends of collectives, to within {format_span(most)}")
    return notes


def _straggler_notes(
    owners: _owners.Owners, met: MatchedCollectives, skews: Skews, groups: list[LateGroup]
) -> list[str]:
    """Return who comes last more often than by chance, as `findings` names them: groups, and ranks of no such group."""
    if not skews.judged.any():
        return []
    notes = [
        f"{STRAGGLER}{_group_words(owners, each)} late together to {each.last:,} of {each.trials:,} collectives, by "
        f"{format_span(each.median)} (median), {format_span(each.late)} in all"
        for each in groups
    ]
    if too_many(owners, met):
        notes.append("not checked: ranks that come late together (needs fewer collectives or ranks)")
    late = int(np.count_nonzero(skews.sure))
    if not late:
        return notes or ["no skew exceeds the uncertainty of the clocks: no straggler can be named"]
    together = {owner for each in groups for owner in each.owners}
    notes += [
        f"{STRAGGLER}{owners.labels[each.owner]} came last in {each.last:,} of {each.trials:,} collectives whose last "
        f"rank is known, by {format_span(each.median)} (median), {format_span(each.late)} in all"
        for each in stragglers(owners, met, skews)
        if each.owner not in together
    ]
    return notes or [f"no rank came last more often than by chance, in {late:,} collectives whose last rank is known"]


def _group_words(owners: _owners.Owners, group: LateGroup) -> str:
    """Return the group and its ranks as the subject of a sentence, with the verb."""
    if not group.is_known:
        return f"{group.name} come"
    return f"{group.name} ({len(group.owners)} ranks: {members_named(owners, group.owners)}) comes"


def _left_out(met: MatchedCollectives) -> list[str]:
    notes = []
    if met.alone:
        verb = "has" if met.alone == 1 else "have"
        notes.append(f"{plural(met.alone, 'collective')} {verb} no counterpart in another rank")
    if met.misfits:
        notes.append(
            f"{plural(met.misfits, 'row')} skipped: same group and number, but different names; do all traces "
            "begin at the same collective?"
        )
    if met.queued:
        notes.append(f"{plural(met.queued, 'host range')} say when a collective was queued, not when it ran")
    return notes


_SHOWS = (
    *specs.OWNER,
    ViewColumn("collectives", "Collectives", Unit.COUNT, "The number of collectives that ranks have in common."),
    ViewColumn(
        "wait", "Waited", Unit.NS, "The time from the own start of the collectives to the start of the latest rank."
    ),
    ViewColumn("wait_p50", "Wait P50", Unit.NS, "The median wait in a collective."),
    ViewColumn(
        "last",
        "Came last",
        Unit.COUNT,
        "The number of collectives to which the rank came last, or the group late, beyond the uncertainty.",
    ),
    ViewColumn(
        "last_share",
        "Of its own",
        Unit.RATIO,
        "The share of its collectives to which the rank came last, or the group late.",
    ),
    ViewColumn(
        "late_p50",
        "Late P50",
        Unit.NS,
        "The median time by which the last rank came after the one before it, or the last rank of the group after the "
        "last of all others.",
    ),
    ViewColumn(
        "late",
        "Late in all",
        Unit.NS,
        "The time by which the last rank came after the one before it, or the last rank of the group after the last "
        "of all others.",
    ),
    ViewColumn("late_group", "Group", Unit.TEXT, "A host, a parallel group, or other ranks that come late together."),
    ViewColumn("members", "Its ranks", Unit.TEXT, "The ranks of the group."),
    ViewColumn("name", "Collective", Unit.TEXT, "The name of the collective."),
    ViewColumn("group", "Group", Unit.TEXT, "The group of processes."),
    ViewColumn("ranks", "Ranks", Unit.COUNT, "The number of ranks."),
    ViewColumn("skew_p50", "Skew P50", Unit.NS, "The median skew."),
    ViewColumn("skew_p95", "Skew P95", Unit.NS, "The 95th percentile of the skew."),
    ViewColumn("skew_max", "Skew max", Unit.NS, "The largest skew."),
    ViewColumn("skew", "Skew in all", Unit.NS, "The time from the earliest to the latest start."),
    ViewColumn("transfer_p50", "Transfer P50", Unit.NS, "The median transfer time."),
    ViewColumn("transfer", "Transfer in all", Unit.NS, "The time from the latest start to the latest end."),
    ViewColumn("waiting", "Waiting", Unit.RATIO, "The skew, as a share of skew and transfer."),
    ViewColumn("number", "Number", Unit.ID, "The number of the collective."),
    ViewColumn("start", "Start", Unit.NS, "The earliest start."),
    ViewColumn("latest", "Came last", Unit.TEXT, "The rank that came last."),
    ViewColumn(
        "offset", "Clock ahead by", Unit.NS, "The time by which the clock of the rank is ahead of the first one's."
    ),
    ViewColumn("drift_ppm", "Drift (ppm)", Unit.NUMBER, "The drift of the clock, in millionths."),
    ViewColumn("uncertainty", "Uncertainty", Unit.NS, "The uncertainty of the clock's offset."),
    ViewColumn("measure", "Measure", Unit.TEXT, "The quantity that is compared over the ranks."),
    ViewColumn("mean", "Mean", Unit.NS, "The mean over the ranks."),
    ViewColumn("min", "Min", Unit.NS, "The smallest value of a rank."),
    ViewColumn("max", "Max", Unit.NS, "The largest value of a rank."),
    ViewColumn("imbalance", "Max / mean", Unit.NUMBER, "The largest value, divided by the mean."),
    ViewColumn("most", "Most", Unit.TEXT, "The rank with the largest value."),
)

VIEW = View(
    name="ranks",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=frozenset(),
    compute=compute,
    shows=_SHOWS,
    args_of=collectives.ARGS_OF,
)

"""A summary of a run of many ranks in bounded memory: each input is read by a worker, and only small tables travel.

    made = shares.summary(["ranks/*.json.gz"], jobs=8)

Workers answer twice for each input (`_worker.py`): a look at its collectives, which shows how the clocks meet, and its
share of all tables. `_merge.py` adds the shares up as they come and fills the joins of an index of a few rows; the
views make the same tables of it that they make of all events. An input that fails costs its own rank alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from uuid import uuid4

import numpy as np

from tracekit import pipeline
from tracekit.analysis.clocks.matched_collectives import ClockRelation, relate
from tracekit.errors import AllInputsError, Failure, InputError, Option, UsageError, sentence
from tracekit.index import rank_groups
from tracekit.index.matched_collectives import matched
from tracekit.inputs import InputOptions, PathLike, expand
from tracekit.inputs.clocks.alignment import AlignmentEvidence, opened_elsewhere, place_inputs, zeros
from tracekit.inputs.clocks.one_process import Joins
from tracekit.inputs.clocks.placement import COLLECTIVES, LAUNCHES, MOST_APART_NS, RANGES, Align, Placed
from tracekit.inputs.duplicates import without_copies
from tracekit.inputs.paths import Input, refuse_unknown_options, stored_name
from tracekit.inputs.prescan import choices, hosts_of
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.display import plural
from tracekit.model.report import Report, Section
from tracekit.model.trace import Ledger
from tracekit.options import no_such
from tracekit.rank_summaries import _merge
from tracekit.rank_summaries._groups import SummaryGroups
from tracekit.rank_summaries._merge import ROUNDED
from tracekit.rank_summaries._worker import (
    RankAnswer,
    RankPrescan,
    RankSummary,
    RankTask,
    lost,
    mismatch,
    shifted,
    work,
)
from tracekit.safety.limits import cpus, in_force
from tracekit.safety.scratch import scratch_folder
from tracekit.views import SUMMARY, VIEWS, by_group
from tracekit.views.base import View, ViewOptions, computed
from tracekit.views.headline import headline
from tracekit.views.named import FiguresKey
from tracekit.views.ranks import ranks as ranks_view
from tracekit.views.tables import api, kernel
from tracekit.workers.dask import DaskWorkers
from tracekit.workers.local import LocalWorkers, Workers

SHARED = ("overview", "steps", "ranks", "breakdown", "distributed", "operator", "kernel", "api")
"""Views that are made of shares."""
MOST_TOGETHER = 32
"""Inputs that a summary reads at once, in one process, unless the user asks for workers."""
_LATE = 1
"""The most stragglers that the first screen names."""
NAMED = 5
"""The most missing ranks that a sentence names."""
_TABLES: dict[str, FiguresKey] = {
    "kernel": kernel.TABLE.key,
    "api": api.TABLE.key,
}
_NOT_SHARED = "needs all events at once, and the ranks were read apart: name one file, or the files of a few ranks"
_BELOW = "what operators called and launched is not shown for a run that is read rank by rank"


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run. read, ranks: how many ranks were read, and how many there are."""

    report: Report
    failures: tuple[Failure, ...]
    read: int
    ranks: int


def fits(count: int, views: Sequence[str], options: ViewOptions) -> bool:
    """Return whether so many inputs are better read apart: they are many, and no view is asked for that cannot be."""
    whole = bool(options.compat or options.thread_sep)
    return count > MOST_TOGETHER and not whole and set(views) <= set(SHARED)


def summary(
    inputs: PathLike | Sequence[PathLike],
    options: InputOptions,
    *,
    views: Sequence[str] = (),
    shown: ViewOptions | None = None,
    jobs: int = 0,
    dask: str = "",
    given: Sequence[Input] = (),
) -> Summary:
    """Return the summary of a run whose ranks are read apart. jobs: processes, 0 for one for each CPU.

    dask: the address of a scheduler to use instead. given: the result of `expand` for these words. An input that
    fails is a failure of the result.
    Raises: TracekitError where nothing can be read; UsageError for options that need all events at once.
    """
    shown = shown or ViewOptions()
    names = _names(views, shown)
    refuse_unknown_options(options.options)
    # These two methods compare the events of two inputs, which are never in memory together here.
    for method in (RANGES, LAUNCHES):
        if method in (options.align.method, *options.align.inputs.values()):
            raise UsageError(
                sentence(Option("align", str(method)), ": not for ranks that are read apart"),
                choices=("auto", "collectives", "wall-clock", "none"),
            )
    # One file by two names would count as two ranks.
    items, again = without_copies(given or expand(inputs))
    of_ranks = replace(options, progress=None, more_columns=None, partial=False, same_process=False, align=Align())
    of_ranks = replace(of_ranks, columns=pipeline.columns_of(SHARED), args_of=pipeline.args_of(SHARED))
    tables = tuple(_TABLES.values())
    engine: Workers[RankTask, RankAnswer] = _dask(dask) if dask else LocalWorkers(jobs or cpus(), work, "file")
    how = replace(shown, op_detail=False)
    grouped = _grouped(names, how, tables) if shown.by else None
    run = _Run(items, of_ranks, options.align, tables, options.progress or (lambda _: None), grouped)
    with ExitStack() as stack:
        folder = "" if dask else str(stack.enter_context(scratch_folder("tracekit-ranks-")))
        run.read(stack.enter_context(engine), folder)
    trace, index = run.merged.index(run.failures, run.origin_ns)
    if shown.topology:
        rank_groups.dimensions(index, shown.topology)  # it is refused whether or not a view looks at it
    section_of: dict[str, Section] = {}

    def section(name: str) -> Section:
        if name not in section_of:
            section_of[name] = _section(name, how)
        return section_of[name]

    def _section(name: str, how: ViewOptions) -> Section:
        view = VIEWS[name]
        return _not_shared(view) if name not in SHARED else _with_below(computed(view, index, how))

    read, ranks, missing = run.counted()
    if run.groups is not None:
        of_groups = {each.view: _with_below(each) for each in run.groups.sections()}
        section_of = {name: of_groups.get(name) or _not_shared(VIEWS[name]) for name in names}
    sections = [section(name) for name in names]
    first = None
    if not views and not shown.by:
        plain = replace(ViewOptions(values=shown.values), op_detail=False)
        first = headline.find(index, section if how == plain else lambda name: _section(name, plain))
        # The rules of `findings` need all events at once. The stragglers, which the view of ranks names, are known.
        late = [note for note in section("ranks").notes if note.startswith(ranks_view.STRAGGLER)]
        first = replace(
            first,
            findings_note="; ".join([*late[:_LATE], first.findings_note]),
            reservations=(*([missing] if missing else []), *first.reservations),
        )
    if missing:
        sections = [replace(each, notes=(missing, *each.notes)) if each.tables else each for each in sections]
    report = pipeline.report_of(trace, sections, first, events=run.merged.events)
    facts = [*report.facts]
    facts.append(("ranks", f"{read:,} of {ranks:,} ranks" if read < ranks else plural(read, "rank")))
    notes = [missing] if missing else []
    notes.append(f"{plural(len(items), 'input')} read rank by rank: tables that need all events at once are not shown")
    notes += [
        f"{stored_name(name)} is the same file as another: it is read once"
        for of_group in again.values()
        for name in of_group
    ]
    notes += [ROUNDED] if run.merged.rounded else []
    report = replace(report, facts=tuple(facts), notes=(*notes, *report.notes))
    return Summary(report, tuple(run.failures), read, ranks)


def _not_shared(view: View) -> Section:
    return Section(view.name, view.title, notes=(_NOT_SHARED,))


def _with_below(section: Section) -> Section:
    return replace(section, notes=(*section.notes, _BELOW)) if section.view == "operator" else section


def _grouped(
    names: Sequence[str], how: ViewOptions, tables: Sequence[FiguresKey]
) -> Callable[[Mapping[int, RankPrescan]], SummaryGroups]:
    """Return what makes the groups of a run of its looks. Raises: UsageError for options that know no groups."""
    by_group.refuse(how)
    views = [VIEWS[name] for name in names if name in SHARED]
    return lambda looks: SummaryGroups(looks, views, how, tables)


def _names(views: Sequence[str], shown: ViewOptions) -> tuple[str, ...]:
    """Return the views to show. Raises: UsageError for an unknown one, and for options that need all events."""
    given = {"compat": shown.compat, "thread-sep": shown.thread_sep}
    for word in (word for word, value in given.items() if value):
        hint = sentence("name fewer files, without ", Option("jobs"), " or ", Option("dask"))
        raise UsageError(sentence(Option(word), ": not for ranks that are read apart"), hint=hint)
    if not views:
        return (*SUMMARY, "ranks", "distributed")
    if "all" in views:
        return SHARED
    for name in views:
        if name not in VIEWS:
            raise no_such(Option("view"), name, "view", VIEWS)
    return tuple(views)


def _dask(address: str) -> Workers[RankTask, RankAnswer]:
    run = uuid4().hex[:12]
    return DaskWorkers(
        address,
        work,
        key=lambda task: f"{run}-{task.share}-{task.number}",
        mismatch=lambda task: (mismatch, (task.version, task.name)),
        needs="all workers need this tracekit, and the files at the same paths",
        kept="start the scheduler and this command again",
        noun="file",
    )


class _Run:
    """The inputs of a run while they are read."""

    def __init__(
        self,
        items: Sequence[Input],
        options: InputOptions,
        align: Align,
        tables: tuple[FiguresKey, ...],
        progress: Callable[[float], None],
        grouped: Callable[[Mapping[int, RankPrescan]], SummaryGroups] | None,
    ) -> None:
        self._items, self._options, self._tables, self._progress = items, options, tables, progress
        self._grouped = grouped
        self.groups: SummaryGroups | None = None
        self._align = align
        self._choices = choices(align, [(item.name, item.label) for item in items])
        self._done = 0
        self._passes = 1
        self._ranks: dict[int, frozenset[int]] = {}
        self._world = 0
        self.failures: list[Failure] = []
        self.merged = _merge.Merged(tables)
        self.origin_ns: int | None = None

    def read(self, engine: Workers[RankTask, RankAnswer], folder: str) -> None:
        """Read all inputs. folder: for rows between two answers, "" where workers do not share one.

        Raises: AllInputsError where none can be read.
        """
        if not self._align.uses(COLLECTIVES) or len(self._items) < 2:
            shares = {a.number: a.share for a in self._answers(engine, self._tasks(share=True)) if a.share is not None}
            looks = {number: _look_of(share) for number, share in shares.items()}
            self._check(looks)
            self._place(looks, ({}, -1))
            for number in self._group(looks):
                self._add(number, shares.pop(number))
        else:
            self._passes = 2
            first = self._answers(engine, self._tasks(share=False, folder=folder))
            looks = {answer.number: answer.look for answer in first if answer.look is not None}
            looks = dict(sorted(looks.items()))
            self._check(looks)
            self._place(looks, related(looks))
            order = self._group(looks)
            seen = {number: replace(looks[number], candidates=None) for number in order}
            del looks
            for answer in self._answers(engine, self._tasks(share=True, seen=seen, folder=folder)):
                if answer.share is not None:
                    self._add(answer.number, answer.share)
        if not len(self.merged):
            raise AllInputsError(self.failures)

    def _tasks(
        self, *, share: bool, seen: Mapping[int, RankPrescan] | None = None, folder: str = ""
    ) -> Iterator[RankTask]:
        for number in range(len(self._items)) if seen is None else seen:
            item = self._items[number]
            look = None if seen is None else seen[number]
            line = None if seen is None else self._placed[number].line
            how = replace(self._options, first_source=number)
            left = in_force().sent()
            yield RankTask(number, item.name, item.label, how, share, self._tables, line, folder, look, limits=left)

    def _answers(self, engine: Workers[RankTask, RankAnswer], tasks: Iterator[RankTask]) -> Iterator[RankAnswer]:
        for answer in engine.run(tasks, lost):
            self._done += 1
            self._progress(min(1.0, self._done / (self._passes * len(self._items))))
            if answer.error is not None:
                self.failures.append(Failure(self._items[answer.number].name, answer.error))
            yield answer

    def _check(self, looks: dict[int, RankPrescan]) -> None:
        """Refuse inputs with a rank that another one has: nothing says which one counts."""
        if not looks:
            raise AllInputsError(self.failures)
        first: dict[int, int] = {}
        for number, look in list(looks.items()):
            taken = [rank for rank in look.ranks if rank in first]
            if taken:
                name, other = self._items[number].name, self._items[first[taken[0]]].name
                error = InputError(
                    f"rank {taken[0]} is also in {other}; ranks that are read apart need a file each",
                    path=name,
                    hint="name one of them; files of one rank are read together where they are few",
                )
                self.failures.append(Failure(name, error))
                del looks[number]
                continue
            first.update(dict.fromkeys(look.ranks, number))
            self._ranks[number] = look.ranks
            self._world = max(self._world, _world(look))

    def _place(self, looks: Mapping[int, RankPrescan], relations: tuple[dict[int, ClockRelation], int]) -> None:
        """Put all inputs on the clocks that they share."""
        self._ledgers = {number: Ledger(source=number) for number in looks}
        for number, ledger in self._ledgers.items():
            self._items[number].note(ledger, stored_name)
        names = [item.label or stored_name(item.name) for item in self._items]
        inputs = [
            opened_elsewhere(number, self._items[number], look.run, look.first_ns) for number, look in looks.items()
        ]
        evidence = AlignmentEvidence(relations, choices=self._choices)
        self._placed: dict[int, Placed] = place_inputs(inputs, Joins(), evidence, names, list(self._ledgers.values()))
        starts = [(number, look.run.origin_ns, look.first_ns) for number, look in looks.items()]
        self.origin_ns, self._zero = zeros(starts, self._placed)
        self._origins = {number: look.run.origin_ns or 0 for number, look in looks.items()}

    def _group(self, looks: Mapping[int, RankPrescan]) -> Sequence[int]:
        """Find the groups of the ranks, where they are asked for, and return the order in which inputs are read."""
        if self._grouped is None:
            return list(looks)
        self.groups = self._grouped(looks)
        return self.groups.order

    def _add(self, number: int, share: RankSummary) -> None:
        where = self._placed[number]
        by_ns = where.then_ns - self._zero[where.group]
        if where.line is None:
            by_ns += self._origins[number]
        facts, item = share.run.sources[0], self._items[number]
        facts.facts = facts.facts | {"clock": where.facts()}
        facts.label = item.label or facts.label
        for code, note in self._ledgers[number].notes.items():
            share.ledgers[0].notes[code] = note
        share = shifted(share, by_ns)
        self.merged.add(number, share)
        if self.groups is not None:
            self.groups.add(number, share)

    def counted(self) -> tuple[int, int, str]:
        """Return how many ranks were read, how many there are, and a sentence where some are missing."""
        there = {rank for number, ranks in self._ranks.items() if number in self.merged for rank in ranks}
        unnamed = sum(not ranks for number, ranks in self._ranks.items() if number in self.merged)
        read = len(there) + unnamed
        every = max(self._world, max(there, default=-1) + 1, read + len(self.failures) if not there else 0)
        every = max(every, read)
        if read == every and not self.failures:
            return read, every, ""
        every = max(every, len(there) + len(self.failures)) if read == every else every
        missing = sorted(set(range(every)) - there) if there and not unnamed else []
        text = f"{read:,} of {every:,} ranks"
        if missing and len(missing) <= every - read:
            more = f" and {len(missing) - NAMED:,} more" if len(missing) > NAMED else ""
            verb = "is" if len(missing) == 1 else "are"
            text += (
                f": rank{'' if len(missing) == 1 else 's'} {', '.join(map(str, missing[:NAMED]))}{more} {verb} missing"
            )
        return read, every, f"{text}; every figure is of the others"


def _world(look: RankPrescan) -> int:
    """Return the number of ranks of the job, as the input states it; 0 where it does not."""
    facts = look.run.sources[0].facts
    info = facts.get("distributedInfo")
    size = info.get("world_size") if isinstance(info, dict) else facts.get("world_size")
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1 << 24 else 0


def _look_of(share: RankSummary) -> RankPrescan:
    rows = share.rows
    ranks = frozenset(rank for rank in rows.column("rank").unique().to_pylist() if rank is not None)
    first = (arrow.bounds(rows.column("ts_ns")) or (None,))[0]
    return RankPrescan(share.run, share.ledgers, first, 0, ranks, None, 0)


def related(looks: Mapping[int, RankPrescan]) -> tuple[dict[int, ClockRelation], int]:
    """Return what collectives say of each input's clock against that of one of them, and the number of that one.

    As `inputs.prescan` finds it: not for inputs that state no rank, or whose wall clocks are far from that of most.
    """
    met = {number: look for number, look in looks.items() if look.candidates is not None and look.candidates.rows.size}
    walls = sorted(look.met_ns + (look.run.origin_ns or 0) for look in met.values() if look.run.origin_ns is not None)
    if walls:
        usual = walls[len(walls) // 2]
        met = {
            number: look
            for number, look in met.items()
            if look.run.origin_ns is None or abs(look.met_ns + look.run.origin_ns - usual) <= MOST_APART_NS
        }
    if len(met) < 2:
        return {}, -1
    numbers = np.array(list(met), np.int64)
    first = np.concatenate(([0], np.cumsum([look.owners for look in met.values()])))
    parts = [
        (look.candidates, np.arange(look.owners) + begin)
        for look, begin in zip(met.values(), first[:-1].tolist(), strict=True)
        if look.candidates is not None
    ]
    matches = matched(_merge.together(parts))
    rows = np.flatnonzero(matches.together[matches.meeting]) if matches.count else np.empty(0, np.int64)
    clock = np.searchsorted(first, matches.owner[rows], "right") - 1
    origin = np.array([look.run.origin_ns or 0 for look in met.values()], np.int64)
    reference, relations = relate(
        matches.meeting[rows],
        clock,
        matches.starts[rows] + origin[clock],
        matches.ends[rows] + origin[clock],
        len(met),
        members=matches.owner[rows],
        hosts=hosts_of([look.run for look in met.values()]),
    )
    named = {int(numbers[place]): each for place, each in enumerate(relations) if each is not None}
    return named, int(numbers[reference])

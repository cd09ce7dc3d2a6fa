"""The prescan: first looks at the inputs of a run, before its rows are read.

They say which inputs belong to one process, and how their clocks meet. Each is a pass over the inputs that keeps
little: ranges that a log may have too, collectives, launch calls and device work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from tracekit.errors import Option, TracekitError, UsageError, sentence
from tracekit.inputs.clocks import launches, survey
from tracekit.inputs.clocks.launches import LaunchLook
from tracekit.inputs.clocks.one_process import LOG, Joins, SurveyedInput, find_joins, is_log
from tracekit.inputs.clocks.placement import AUTO, COLLECTIVES, LAUNCHES, MOST_APART_NS, Align, keys_of
from tracekit.inputs.execution_traces import COLUMNS as EXECUTION_COLUMNS
from tracekit.inputs.execution_traces import EXECUTION_TRACES, KINETO, ExecutionJoins, calls_of, find_pairs, nodes_of
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema, sets
from tracekit.model.arrow import I64
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, Trace, concat
from tracekit.readers.base import ReadResult

if TYPE_CHECKING:
    from tracekit.analysis.clocks.matched_collectives import ClockRelation

__all__ = ["WITHOUT_COLLECTIVES", "Prescan", "choices", "hosts_of"]

ARCHIVES = ("parquet", "events-jsonl")
"""Formats whose files may have been made from a recorder's log."""
WITHOUT_COLLECTIVES = frozenset(
    {
        *("", "nvprof-csv", "nvprof-text", "nvprof-sqlite", "cuda-profile", "theano", "singa", "caffe-time", "mxnet"),
        *("mini-caffe", "mxnet-table", "fluid-report", "fluid-pb", "paddle-summary", "nsys-stats-csv"),
    }
)
"""Formats of programs that ran on one machine, or that have no collectives by name; "" for an input that is broken."""
IN_PARTS = frozenset({"nvprof-csv", "nvprof-text", "rocprof-csv"})
"""Formats of tools that write launch calls and device work into files of their own."""
MOST_COLLECTIVES = 1 << 18
"""Collectives of an input that are compared."""

Names: TypeAlias = Sequence[tuple[str, str]]
"""The name of each input as the user wrote it, and its NAME."""


@dataclass(frozen=True, slots=True)
class _InputCollectives:
    """The collectives of one input. ranks: the ranks that its rows state."""

    number: int
    run: Run
    rows: pa.Table
    ranks: frozenset[int]
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class Prescan:
    """First looks at the inputs of a run.

    open: reads one with these columns. formats: of each, "" where it cannot be read.
    """

    open: Callable[[int, int, frozenset[str], frozenset[str] | None], ReadResult]
    formats: Sequence[str]

    def joins(self) -> Joins:
        """Return which logs and traces are of one process. Where a log is among others, each is read once for that."""
        names = {name for name in self.formats if name}
        if len(self.formats) < 2 or not {LOG, *ARCHIVES} & names or names == {LOG}:
            return Joins()
        opened_inputs: list[tuple[int, int, ReadResult]] = []
        first_source = 0
        for number in range(len(self.formats)):
            with suppress(TracekitError):
                opened = self.open(number, first_source, survey.COLUMNS, survey.RANGE_KINDS)
                opened_inputs.append((number, first_source, opened))
                first_source += max(1, len(opened.run.sources))
        texts, pids = survey.RangeTexts(), frozenset[int]()
        looked = []
        for number, source, opened in sorted(opened_inputs, key=lambda each: not is_log(each[2].run)):
            if not (of_log := is_log(opened.run)) and not pids:
                break
            with suppress(TracekitError):
                seen = survey.look(opened.batches, texts, pids=None if of_log else pids)
                looked.append(SurveyedInput(number, source, opened.run, seen))
                pids |= seen.processes.keys() if of_log else frozenset()
        return find_joins(looked, {number: source for number, source, _ in opened_inputs})

    def execution_traces(self) -> ExecutionJoins:
        """Return which execution traces and Kineto traces are of one run. Where both are there, each is read for it."""
        if not EXECUTION_TRACES & set(self.formats) or KINETO not in self.formats:
            return ExecutionJoins()
        nodes, calls = [], []
        for number, form in enumerate(self.formats):
            with suppress(TracekitError):
                if form in EXECUTION_TRACES or form == KINETO:
                    opened = self.open(number, number, EXECUTION_COLUMNS | {"ts_ns"}, schema.HOST_RANGES)
                    name = Path(opened.run.sources[0].path).name
                    if form == KINETO:
                        calls.append(calls_of(number, name, opened))
                    else:
                        nodes.append(nodes_of(number, name, opened))
        return find_pairs(nodes, calls)

    def relations(self, align: Align, followers: Collection[int]) -> tuple[dict[int, ClockRelation], int]:
        """Return what collectives say of each input's clock against that of one of them, and the number of that one.

        followers: inputs whose rows are those of another one's process: they go where that goes.
        """
        from tracekit.index import collectives, matched_collectives

        asked = [
            number
            for number, form in enumerate(self.formats)
            if form not in WITHOUT_COLLECTIVES and number not in followers
        ]
        if len(asked) < 2 or not align.uses(COLLECTIVES):
            return {}, -1
        met: list[_InputCollectives] = []
        for number in asked:
            with suppress(TracekitError):
                met += _collectives_of(
                    number, self.open(number, number, matched_collectives.COLUMNS, collectives.ARGS_OF)
                )
        return _related(met)

    def launches(self, choices: Sequence[str | int], followers: Collection[int]) -> dict[int, LaunchLook]:
        """Return the launch calls and the device work of inputs that may have one without the other.

        Inputs for which the user names the method, too, and then all that could have the other part.
        """
        named = LAUNCHES in choices
        asked = [
            number
            for number, form in enumerate(self.formats)
            if (form if named else form in IN_PARTS) and number not in followers and choices[number] in (AUTO, LAUNCHES)
        ]
        if len(asked) < 2 and not named:
            return {}
        looks = {}
        for number in asked:
            with suppress(TracekitError):
                looks[number] = launches.look(self.open(number, number, launches.COLUMNS, frozenset()).batches)
        return looks


def choices(align: Align, names: Names) -> list[str | int]:
    """Return the user's choice for each input. Raises: UsageError for a choice of an input that is none of these."""
    known = {key for name in names for key in keys_of(name)}
    for key in align.inputs:
        if key not in known:
            inputs = ", ".join(name[1] or name[0] for name in names[:8])
            raise UsageError(
                sentence(Option("align", f"{key}=..."), ": no input has this name"), hint=f"one of: {inputs}"
            )
    return [align.of(name, first=not number) for number, name in enumerate(names)]


def _collectives_of(number: int, opened: ReadResult) -> Iterator[_InputCollectives]:
    from tracekit.analysis.kernel_class import KernelClass, class_codes
    from tracekit.index import matched_collectives
    from tracekit.index.kernel_classes import rules

    collective = list(KernelClass).index(KernelClass.COLLECTIVE)
    in_force = rules()
    keep = [name for name in schema.EVENTS.names if name in matched_collectives.COLUMNS | {"event_id"}]
    parts: list[pa.RecordBatch] = []
    ranks = set[int]()
    count = 0
    for batch in opened.batches:
        if schema.is_totals(batch) or not batch.num_rows:
            continue
        given = batch.column("rank")
        ranks.update(sets.unique(arrow.ints(given)[arrow.valid(given)]).tolist())
        if count > MOST_COLLECTIVES:
            continue
        kinds, names = (arrow.encoded(batch.column(name)) for name in ("kind", "name"))
        kind_texts = np.array([*arrow.texts(kinds.dictionary), ""])
        kind = kind_texts[arrow.codes(kinds)]
        texts = arrow.optional_texts(names.dictionary)
        codes = arrow.codes(names)
        talks = np.append(class_codes(texts, np.arange(len(texts)), in_force) == collective, False)
        rows = np.flatnonzero((kind == Kind.COMMUNICATION) | ((kind == Kind.KERNEL) & talks[codes]))
        if rows.size:
            count += rows.size
            parts.append(arrow.take(batch, rows).select(keep))
    if parts:
        rows_of_all = concat(parts, pa.schema([schema.EVENTS.field(name) for name in keep]))
        starts = arrow.ints(rows_of_all.column("ts_ns")) + (opened.run.origin_ns or 0)
        yield _InputCollectives(number, opened.run, rows_of_all, frozenset(ranks), int(starts.min()), int(starts.max()))


def _related(every: Sequence[_InputCollectives]) -> tuple[dict[int, ClockRelation], int]:
    """Return what collectives say of each input's clock against that of one of them, and the number of that one.

    Inputs that state no rank, or the same rank as another, are not known to be of one run; nor are those whose wall
    clocks are far from that of most.
    """
    from tracekit.analysis.clocks.matched_collectives import relate
    from tracekit.index import matched_collectives, owners
    from tracekit.index.trace_index import index_of

    taken = [rank for each in every for rank in each.ranks]
    met = [each for each in every if each.ranks and all(taken.count(rank) == 1 for rank in each.ranks)]
    walls = [each.first_ns for each in met if each.run.origin_ns is not None]
    if walls:
        usual = sorted(walls)[len(walls) // 2]
        met = [each for each in met if each.run.origin_ns is None or abs(each.first_ns - usual) <= MOST_APART_NS]
    if len(met) < 2:
        return {}, -1
    run = Run(sources=[source for each in met for source in each.run.sources[:1]])
    ledgers = tuple(Ledger(source=each.number) for each in met)
    tables = []
    for each in met:
        source = arrow.array(np.full(each.rows.num_rows, each.number, np.int32))
        tables.append(arrow.with_column(each.rows, "source", source))
    trace = Trace(pa.concat_tables(tables, promote_options="default").unify_dictionaries(), run=run, ledgers=ledgers)
    index = index_of(trace)
    matched = matched_collectives.find(index, owners.find(index, join_ranks=True))
    rows = np.flatnonzero(matched.together[matched.meeting]) if matched.count else np.empty(0, np.int64)
    numbers = np.array([each.number for each in met], np.int64)
    origin = np.array([each.run.origin_ns or 0 for each in met], np.int64)
    clock = np.searchsorted(numbers, index.ints("source")[matched.rows[rows]].astype(np.int64))
    ranks = index.ints("rank")[matched.rows[rows]].astype(np.int64) + (clock << 32)
    reference, relations = relate(
        matched.meeting[rows],
        clock,
        matched.starts[rows] + origin[clock],
        matched.ends[rows] + origin[clock],
        len(met),
        members=ranks,
        hosts=hosts_of([each.run for each in met]),
    )
    named = {int(numbers[place]): each for place, each in enumerate(relations) if each is not None}
    return named, int(numbers[reference])


def hosts_of(runs: Sequence[Run]) -> I64:
    """Return a number for the host of each input: the same where they read the wall clock of one host."""
    numbers: dict[str, int] = {}
    hosts = []
    for place, run in enumerate(runs):
        facts = run.sources[0].facts if run.sources else {}
        host = facts.get("host") or facts.get("host_name")
        known = isinstance(host, str) and run.origin_ns is not None
        hosts.append(numbers.setdefault(str(host), place) if known else place)
    return np.array(hosts, np.int64)

"""Tables by group of ranks that are read apart: the tables of a group are made when the last of its inputs has come.

Inputs are read group by group, so that the shares of few groups wait at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from tracekit.errors import Option, UsageError, sentence
from tracekit.index import rank_groups
from tracekit.index.rank_groups import RankGroups
from tracekit.index.trace_index import index_of
from tracekit.inputs.run_facts import join_runs
from tracekit.model import arrow, schema
from tracekit.model.report import Section
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, Trace
from tracekit.rank_summaries._merge import Merged
from tracekit.rank_summaries._worker import RankPrescan, RankSummary
from tracekit.views.base import View, ViewOptions
from tracekit.views.by_group import ByGroup
from tracekit.views.named import FiguresKey


class SummaryGroups:
    """The groups of a run, and the tables of those whose inputs have all come.

    Raises: UsageError for a dimension that is not known, and for an input with ranks of several groups.
    """

    def __init__(
        self,
        looks: Mapping[int, RankPrescan],
        views: Sequence[View],
        options: ViewOptions,
        tables: Sequence[FiguresKey],
    ) -> None:
        groups = _found(looks, options)
        self._tables = tables
        self._of = _group_of_input(looks, groups)
        self._waiting: dict[int, set[int]] = {}
        for number, group in self._of.items():
            self._waiting.setdefault(group, set()).add(number)
        self._merged: dict[int, Merged] = {}
        self._done: dict[int, list[Section]] = {}
        self._made = ByGroup(views, groups, options)
        self.order = sorted(self._of, key=lambda number: (self._of[number], number))
        """The numbers of the inputs, those of a group one after the other."""

    def add(self, number: int, share: RankSummary) -> None:
        """Add the share of an input."""
        group = self._of[number]
        self._merged.setdefault(group, Merged(self._tables)).add(number, share)
        self._waiting[group].discard(number)
        if not self._waiting[group]:
            self._finish(group)

    def _finish(self, group: int) -> None:
        trace, index = self._merged.pop(group).index((), None)
        self._done[group] = self._made.of(index)
        index.clear()
        del trace

    def sections(self) -> list[Section]:
        """Return the section of each view by group. Groups of which inputs failed are made of the others."""
        for group in list(self._merged):
            self._finish(group)
        for group in sorted(self._done):
            self._made.add(group, self._done.pop(group))
        return self._made.sections()


def _found(looks: Mapping[int, RankPrescan], options: ViewOptions) -> RankGroups:
    """Return the groups of a trace that has a row for each rank of each input."""
    none: tuple[int | None, ...] = (None,)
    pairs = [(number, rank) for number, look in looks.items() for rank in (sorted(look.ranks) or none)]
    own: dict[str, arrow.Column] = {
        "ts_ns": arrow.array(np.zeros(len(pairs), np.int64)),
        "event_id": arrow.array(np.arange(len(pairs))),
        "kind": pa.array([Kind.MARK.value] * len(pairs)).dictionary_encode().cast(schema.TEXT),
        "source": pa.array([number for number, _ in pairs], schema.EVENTS.field("source").type),
        "rank": pa.array([rank for _, rank in pairs], schema.EVENTS.field("rank").type),
    }
    columns = [own.get(column.name, pa.nulls(len(pairs), column.type)) for column in schema.EVENTS]
    run, ledgers = Run(), list[Ledger]()
    join_runs(run, [look.run for look in looks.values()])
    for look in looks.values():
        ledgers += look.ledgers
    trace = Trace(pa.table(columns, schema=schema.EVENTS), run=run, ledgers=tuple(ledgers))
    return rank_groups.find(index_of(trace), options.by, options.topology)


def _group_of_input(looks: Mapping[int, RankPrescan], groups: RankGroups) -> dict[int, int]:
    found: dict[int, int] = {}
    for group, sources in enumerate(groups.sources):
        for number in sources:
            if number in found:
                name = looks[number].run.sources[0].path
                raise UsageError(
                    f"{name}: ranks of {groups.labels[found[number]]} and {groups.labels[group]} are in one file; by "
                    f"{groups.noun} needs files of their own where ranks are read apart",
                    hint=sentence("name fewer files, without ", Option("jobs"), " or ", Option("dask")),
                )
            found[number] = group
    return found

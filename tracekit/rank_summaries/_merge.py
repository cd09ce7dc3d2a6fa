"""The shares of all inputs as one index: a few rows, and the joins that the views ask for, added up.

Shares are added as they come and then forgotten; what is kept grows with names, steps, devices and collectives.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from tracekit.analysis.value_counts import tally
from tracekit.errors import Failure
from tracekit.index import devices as _devices
from tracekit.index import matched_collectives
from tracekit.index import owners as _owners
from tracekit.index import step_extents as _extents
from tracekit.index import steps as _steps
from tracekit.index.batch_sums import MOST_VALUES, Tallies
from tracekit.index.grouping import Key
from tracekit.index.matched_collectives import Candidates
from tracekit.index.trace_index import TraceIndex, index_of, notes_on_rows
from tracekit.inputs.run_facts import join_runs
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64
from tracekit.model.display import plural
from tracekit.model.report import Cell
from tracekit.model.trace import Ledger, Run, Trace
from tracekit.rank_summaries._worker import CollectiveShare, OperatorShare, RankSummary
from tracekit.views import named
from tracekit.views.device.breakdown import DeviceParts, Parts, device_parts
from tracekit.views.ranks import distributed, ranks
from tracekit.views.tables import operator, overview
from tracekit.views.work_columns import WorkSums, added_up, kernel_work

ROUNDED = "percentiles are up to 0.1 % too low: the run has more different durations than are kept apart"


def _tallies() -> Tallies:
    """Return tallies in bounded memory: the values of many ranks may be more than are kept apart."""
    return Tallies(MOST_VALUES)


@dataclass(slots=True)
class _Sums:
    """Sums of integers by label, in several columns."""

    columns: int
    of: dict[tuple[Cell, ...], list[int]] = field(default_factory=dict)

    def add(self, labels: Sequence[Sequence[Cell]], *columns: Sequence[int]) -> None:
        for number, label in enumerate(zip(*labels, strict=True)):
            sums = self.of.setdefault(label, [0] * self.columns)
            for place, column in enumerate(columns):
                sums[place] += int(column[number])

    def column(self, place: int) -> list[int]:
        return [each[place] for each in self.of.values()]


@dataclass(slots=True)
class _Operators:
    durations: Tallies = field(default_factory=_tallies)
    below: Tallies = field(default_factory=_tallies)
    sums: _Sums = field(default_factory=lambda: _Sums(9))
    work: int = 0
    whole: list[operator.OperatorFigures] = field(default_factory=list)
    figures_of_work: list[WorkSums] = field(default_factory=list)

    def add(self, share: OperatorShare) -> None:
        of = share.figures
        none = tally(np.zeros(0, np.int64), len(of.names), np.zeros(0, np.int64))
        self.durations.add((of.names,), share.durations)
        self.below.add((of.names,), share.below or none)
        self.work += share.work
        flops = of.flops or [None] * len(of.names)
        stated = [int(cell is not None) for cell in flops], [int(cell or 0) for cell in flops]
        ranges, timed, zero = of.ranges, of.ranges.by_time, [0] * len(of.names)
        known, heard = list(map(int, ranges.known)), list(map(int, ranges.heard))
        estimates = (list(map(int, timed.known)), timed.total, timed.own) if timed else (zero, zero, zero)
        self.sums.add([of.names], known, ranges.own, ranges.device_own, *stated, heard, *estimates)
        small = replace(ranges, known=[], own=[], device_own=[], heard=[])
        self.whole.append(replace(of, names=[], flops=None, ranges=small))
        if of.work is not None:
            self.figures_of_work.append(of.work)

    def figures(self) -> operator.OperatorFigures:
        every = [each.ranges for each in self.whole]
        ranges = replace(
            every[0],
            host=self.durations.statistics(),
            known=[n > 0 for n in self.sums.column(0)],
            own=self.sums.column(1),
            device=self.below.statistics() if self.work else None,
            device_own=self.sums.column(2),
            device_ns=sum(each.device_ns for each in every),
            loose_ns=sum(each.loose_ns for each in every),
            loose=sum(each.loose for each in every),
            untimed=sum(each.untimed for each in every),
            negative=sum(each.negative for each in every),
            nested=any(each.nested for each in every),
            lost=sum(each.lost for each in every),
            heard=[n > 0 for n in self.sums.column(5)],
            host_notes=_added_up([each.host_notes for each in every], self.work),
            by_time=self._by_time(every),
        )
        stated = self.sums.column(3)
        flops: list[Cell] = [ns if n else None for n, ns in zip(stated, self.sums.column(4), strict=True)]
        names = [name for (name,) in self.sums.of]
        work = added_up(self.figures_of_work)
        return operator.OperatorFigures(names, [], ranges, flops if any(stated) else None, work)

    def _by_time(self, every: Sequence[operator.RangeFigures]) -> operator.FiguresByTime | None:
        timed = [each.by_time for each in every if each.by_time is not None]
        if not timed:
            return None
        known, total, own_ns = ([*self.sums.column(place)] for place in (6, 7, 8))
        return replace(
            timed[0], known=[n > 0 for n in known], total=total, own=own_ns, loose_ns=sum(t.loose_ns for t in timed)
        )


def _added_up(notes: Sequence[Sequence[str]], work: int) -> list[str]:
    """Return notes on counts with the counts of all inputs added up. notes: of each input; work: all pieces of work."""
    counts_by_shape: dict[str, list[list[int]]] = {}
    for note in (note for of_input in notes for note in of_input):
        note = _WHOLE.sub(f"of {_TOTAL}", note)
        numbers = [int(text.replace(",", "")) for text in _COUNT.findall(note)]
        counts_by_shape.setdefault(_COUNT.sub("\0", note), []).append(numbers)
    out = []
    for shape, counts in counts_by_shape.items():
        text = shape
        for column in zip(*counts, strict=True):
            text = text.replace("\0", f"{sum(column):,}", 1)
        out.append(text.replace(_TOTAL, plural(work, "device event")))
    return out


_WHOLE = re.compile(r"of [\d,]+ device events?")
_TOTAL = "\1"
_COUNT = re.compile(r"\d+(?:,\d{3})*")


@dataclass(slots=True)
class _Collectives:
    durations: Tallies = field(default_factory=_tallies)
    sums: _Sums = field(default_factory=lambda: _Sums(3))

    def add(self, share: CollectiveShare) -> None:
        self.durations.add(share.labels, share.durations)
        self.sums.add(share.labels, share.sized, share.sizes, share.spent)

    def figures(self) -> distributed.CollectiveFigures:
        labels = list(self.sums.of)
        return distributed.CollectiveFigures(
            [name for name, _ in labels],
            [group for _, group in labels],
            self.durations.statistics(),
            self.sums.column(0),
            self.sums.column(1),
            self.sums.column(2),
        )


class Merged:
    """The shares of a run. named: the tables by name of which there are shares."""

    def __init__(self, tables: Sequence[named.FiguresKey]) -> None:
        self._named = [named.NamedSums(key, MOST_VALUES) for key in tables]
        self._kinds = overview.KindSums()
        self._operators = _Operators()
        self._collectives = [_Collectives() for _ in range(3)]
        self._shares: dict[int, RankSummary] = {}
        self.events = 0

    def __len__(self) -> int:
        return len(self._shares)

    def __contains__(self, number: int) -> bool:
        return number in self._shares

    def add(self, number: int, share: RankSummary) -> None:
        """Add the share of an input."""
        self.events += share.events
        for sums, named_share in zip(self._named, share.named, strict=True):
            sums.add(named_share)
        self._kinds.add(share.kinds)
        if share.operators is not None:
            self._operators.add(share.operators)
        for own, summary in zip(self._collectives, share.collectives, strict=True):
            if summary is not None:
                own.add(summary)
        self._shares[number] = replace(share, named=(), operators=None, collectives=())

    @property
    def rounded(self) -> bool:
        """Return whether some percentiles are not exact."""
        every = [
            *(sums.tallies for sums in self._named),
            self._operators.durations,
            *(each.durations for each in self._collectives),
        ]
        return any(tallies.rounded for tallies in every)

    def index(self, failures: Sequence[Failure], origin_ns: int | None) -> tuple[Trace, TraceIndex]:
        """Return a trace of few rows, and its index with the joins of all rows. The trace is to be held."""
        shares = [self._shares[number] for number in sorted(self._shares)]
        run, ledgers = Run(origin_ns=origin_ns), list[Ledger]()
        tables, first = [], [0]
        for share in shares:
            ids = arrow.array(np.arange(share.rows.num_rows) + first[-1])
            tables.append(arrow.with_column(share.rows, "event_id", ids))
            first.append(first[-1] + share.rows.num_rows)
            ledgers += share.ledgers
        join_runs(run, [share.run for share in shares])
        trace = Trace(pa.concat_tables(tables), run=run, ledgers=tuple(ledgers), failures=tuple(failures))
        index = index_of(trace)
        row_of = np.empty(trace.events.num_rows, np.int64)
        row_of[index.ints("event_id")] = np.arange(trace.events.num_rows)
        self._give(index, shares, row_of, np.array(first[:-1], np.int64))
        return trace, index

    def _give(self, index: TraceIndex, shares: list[RankSummary], row_of: I64, first: I64) -> None:
        for sums in self._named:
            sums.give(index)
        self._kinds.give(index)
        if self._operators.whole:
            index.give(operator.figures, self._operators.figures())
        index.give(kernel_work, added_up(share.kernel_work for share in shares if share.kernel_work is not None))
        untimed = sum(share.untimed_work for share in shares)
        negative = sum(share.negative_work for share in shares)
        _give_devices(index, shares, untimed, negative)
        _give_steps(index, shares)
        joined = _owners.find(index, join_ranks=True)
        of_share = [
            joined.codes[row_of[share.owner_row + begin]] for share, begin in zip(shares, first.tolist(), strict=True)
        ]
        index.give(ranks.loads, _loads(shares, of_share, joined, untimed, negative), joined)
        every = together([(share.candidates, owners) for share, owners in zip(shares, of_share, strict=True)])
        index.give(matched_collectives.find, matched_collectives.matched(every), joined)
        index.give(distributed.figures, self._communication(index, shares, row_of, first))

    def _communication(
        self, index: TraceIndex, shares: list[RankSummary], row_of: I64, first: I64
    ) -> distributed.RankFigures:
        owners = _owners.find(index)
        hosts, devices = [], list[list[Cell]]()
        has_kernels = any(share.communication.has_kernels for share in shares)
        for share, begin in zip(shares, first.tolist(), strict=True):
            codes = owners.codes[row_of[share.owner_row + begin]].tolist()
            hosts += [(codes[o], parts) for o, parts in share.communication.hosts]
            of_devices = share.communication.devices
            # A device without a collective among others that have some.
            devices += of_devices or [_quiet(span) for span, *_ in share.devices]
        each = next((each.figures() for each in self._collectives if each.sums.of), None)
        negative = sum(share.communication.negative for share in shares)
        return distributed.RankFigures(has_kernels, devices if has_kernels else [], sorted(hosts), each, negative)


def _quiet(span: Parts) -> list[Cell]:
    """Return the row of a device on which no kernel communicates. span: the parts of its span."""
    return [0, int(span.compute[0]), 0, 0, None, 0.0 if span.span[0] else None]


def _give_devices(index: TraceIndex, shares: Sequence[RankSummary], untimed: int, negative: int) -> None:
    """Give the notes on device work, and the parts of each device: those of an input are in one order everywhere."""
    devices = _devices.find(index)
    notes = notes_on_rows("row of device work" if untimed != 1 else "row", untimed, negative)
    devices = replace(devices, notes=(*notes, *devices.notes))
    index.give(_devices.find, devices)
    parts = [each for share in shares for each in share.devices]
    index.give(
        device_parts,
        tuple(DeviceParts(device, *each) for device, each in zip(devices.devices, parts, strict=True)),
    )


def _give_steps(index: TraceIndex, shares: Sequence[RankSummary]) -> None:
    """Give the time of each step, and the device time in it. Those of one input are in one order everywhere."""
    owners = _owners.find(index)
    host = _steps.find(index, owners)
    source = index.ints("source")[host.rows]
    busy: list[int | None] = [None] * host.rows.size
    starts, durations, ahead = host.starts.copy(), host.durations.copy(), np.zeros(host.rows.size, np.bool_)
    for share in shares:
        if share.busy:
            of_input = np.flatnonzero(source == share.ledgers[0].source)
            for place, ns in zip(of_input.tolist(), share.busy, strict=True):
                busy[place] = ns
            after, durations[of_input], ahead[of_input] = share.extents
            starts[of_input] += after
    extents = _extents.given_extents(host, starts, durations, ahead)
    index.give(_extents.step_extents, extents, owners)
    index.give(_steps.busy_inside, tuple(busy), extents.steps)


def _loads(
    shares: Sequence[RankSummary], of_share: Sequence[I64], joined: _owners.Owners, untimed: int, negative: int
) -> ranks.Loads:
    count = len(joined)
    sums = {name: (np.zeros(count, np.int64), np.zeros(count, np.bool_)) for name in ranks.MEASURES}
    present = np.zeros(count, np.bool_)
    for share, owners in zip(shares, of_share, strict=True):
        present[owners[share.loads.present]] = True
        by_name = {name: (values, known) for name, values, known in share.loads.measures}
        for name, (values, known) in sums.items():
            # Without a collective a rank has no such figure: all its work is other work.
            measured = by_name.get(name) or by_name[ranks.BUSY]
            values[owners], known[owners] = measured
    measures = [(name, *sums[name]) for name in ranks.MEASURES]
    if not any(name == ranks.BUSY_ALONE for share in shares for name, *_ in share.loads.measures):
        measures = measures[:-1]
    steps = sum(share.loads.steps_without_time for share in shares), sum(share.loads.steps_below for share in shares)
    return ranks.Loads(np.flatnonzero(present), tuple(measures), *steps, untimed, negative)


def together(parts: Sequence[tuple[Candidates, I64]]) -> Candidates:
    """Return the collectives of several inputs as one table. Beside each: the number of each of its owners."""

    def column(name: str) -> I64:
        return np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part, _ in parts)])

    owner = np.concatenate([np.zeros(0, np.int64), *(owners[part.owner] for part, owners in parts)])
    starts = column("starts")
    order = np.argsort(starts, kind="stable")  # as the rows of a trace

    def key(name: str) -> Key:
        return _key([getattr(part, name) for part, _ in parts], order)

    return Candidates(
        np.zeros(order.size, np.int64),
        owner[order],
        starts[order],
        column("ends")[order],
        column("lane")[order],
        key("operation"),
        key("group"),
        key("members"),
        column("number")[order],
        column("size")[order],
        column("ranks")[order],
        sum(part.queued for part, _ in parts),
    )


def _key(keys: Sequence[Key], order: I64) -> Key:
    """Return the keys one after the other as one; labels sorted, None first, as `collectives.key_of` has them."""
    labels: list[Cell] = [None, *sorted({str(label) for key in keys for label in key.labels if label is not None})]
    number = {label: place for place, label in enumerate(labels)}
    codes = [np.array([number[label] for label in key.labels], np.int64)[key.codes] for key in keys]
    return Key(np.concatenate([np.zeros(0, np.int64), *codes])[order], labels)

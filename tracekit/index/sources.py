"""Labels of the inputs, and whether their times are made up or share a clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.trace import NAME_TABLES, Key, Ledger, Run, SourceFacts, Trace

__all__ = [
    "CYCLES_NOTE",
    "FIRST_SCREEN_NOTES",
    "SEVERAL_NOTES",
    "by_source",
    "clock_groups",
    "facts_by_source",
    "rank_label",
    "several_clocks",
    "source_label",
    "source_labels",
    "spans",
    "synthetic_sources",
]

SEVERAL_NOTES = ("clocks-not-comparable", "clocks-by-wall-clock", "same-bytes", "process-twice", "not-profiles")
"""Codes of notes on several inputs that the first screen has too: their clocks, what counts twice, what is not read."""
CYCLES_NOTE = "cycles-not-ns"
"""The note of a reader whose file has times of a GPU in cycles."""
FIRST_SCREEN_NOTES = (*SEVERAL_NOTES, "input-was-written-to", "covered-work", "ns-guessed", CYCLES_NOTE)
"""Codes of all notes that the first screen has too."""


def rank_label(run: Run, source: object, rank: object) -> str:
    """Return "rank 3", with the file's own word for the rank where it has one: "rank TP03"."""
    return f"rank {run.ids.get(('rank', source, rank), rank)}"


@join
def facts_by_source(index: TraceIndex) -> dict[int, SourceFacts]:
    """Return the facts of each input by the number that the column `source` has for it.

    Where an input among several failed the numbers have gaps: the ledgers, one an input, know them.
    """
    facts = index.run.sources
    numbers = [ledger.source for ledger in index.ledgers]
    if len(numbers) != len(facts) or len(set(numbers)) < len(numbers):
        numbers = list(range(len(facts)))
    return dict(zip(numbers, facts, strict=True))


@dataclass(frozen=True, slots=True)
class FactsOfInputs:
    """The facts of a trace by input, to make the traces of some inputs.

    run, ledgers: of the whole, for a trace whose inputs have no numbers of their own: `facts` is empty then.
    names: of each input, the entries of each table of names.
    """

    run: Run
    ledgers: tuple[Ledger, ...]
    facts: Mapping[int, tuple[SourceFacts, Ledger]]
    names: Mapping[int, Mapping[str, dict[Key, str]]]

    def of(self, sources: Collection[int]) -> tuple[Run, tuple[Ledger, ...]]:
        """Return the facts and ledgers of these inputs alone; an input keeps its number."""
        if not self.facts:
            return self.run, self.ledgers
        chosen = [self.facts[source] for source in sorted(sources) if source in self.facts]
        run = Run(self.run.origin_ns, [facts for facts, _ in chosen])
        for source in sources:
            for table, entries in self.names.get(source, {}).items():
                getattr(run, table).update(entries)
        return run, tuple(ledger for _, ledger in chosen)


def by_source(trace: Trace) -> FactsOfInputs:
    """Return the facts of a trace by input."""
    facts, ledgers = trace.run.sources, trace.ledgers
    if not ledgers:
        ledgers = tuple(Ledger(source=i, path=each.path, format=each.format) for i, each in enumerate(facts))
    if len(ledgers) != len(facts) or len({ledger.source for ledger in ledgers}) < len(ledgers):
        return FactsOfInputs(trace.run, trace.ledgers, {}, {})
    names: dict[int, dict[str, dict[Key, str]]] = {}
    for table in NAME_TABLES:
        for key, text in getattr(trace.run, table).items():
            names.setdefault(key[1 if table == "ids" else 0], {}).setdefault(table, {})[key] = text
    pairs = zip(facts, ledgers, strict=True)
    return FactsOfInputs(trace.run, trace.ledgers, {ledger.source: (each, ledger) for each, ledger in pairs}, names)


@join
def source_labels(index: TraceIndex) -> dict[int, str]:
    """Return a short label for each input: its NAME=, else its file's name, else its path; no two are alike."""
    facts = facts_by_source(index)
    short = {number: fact.label or Path(fact.path).name for number, fact in facts.items()}
    taken = list(short.values())
    labels: dict[int, str] = {}
    for number, label in short.items():
        if taken.count(label) > 1:
            label = facts[number].path if label != facts[number].label else label
        labels[number] = f"{label} (input {number})" if label in labels.values() else label
    return labels


def source_label(labels: dict[int, str], source: int) -> str:
    """Return the label of an input; a trace made by hand may have rows of inputs without facts."""
    return labels.get(source, f"input {source}")


@join
def synthetic_sources(index: TraceIndex) -> list[int]:
    """Return the inputs whose files hold only durations: their starts were laid end to end by the reader."""
    return sorted(number for number, facts in facts_by_source(index).items() if facts.synthetic_time)


@join
def clock_groups(index: TraceIndex) -> dict[int, int]:
    """Return a number for the clock of each input, the same for inputs whose clocks were brought together.

    What reading several inputs found is in `facts["clock"]`; without that, an input shares no clock with another.
    """
    numbers: dict[object, int] = {}
    groups = {}
    for source, facts in facts_by_source(index).items():
        clock = facts.facts.get("clock")
        group = clock.get("group") if isinstance(clock, dict) else None
        # A text for an input that is alone: no group has one.
        key = f"input {source}" if group is None or not isinstance(group, (int, str)) else group
        groups[source] = numbers.setdefault(key, len(numbers))
    return groups


def several_clocks(index: TraceIndex) -> bool:
    """Return whether some inputs share no clock: then each group that shares one starts at its own zero."""
    if index.run.origin_ns is not None or len(index.run.sources) < 2:
        return False
    return len(set(clock_groups(index).values())) > 1


def spans(codes: I64, n_groups: int, starts: I64, ends: I64) -> tuple[I64, I64]:
    """Return first start and last end of each group, shape (n_groups,); 0 and 0 for a group without rows."""
    first, last = np.zeros(n_groups, np.int64), np.zeros(n_groups, np.int64)
    if n_groups == 1 and codes.size:  # of all rows, without a copy
        first[0], last[0] = starts.min(), ends.max()
    elif n_groups <= 8:  # sorting costs more than a few passes over the rows
        for group in np.flatnonzero(np.bincount(codes, minlength=n_groups)).tolist():
            mine = codes == group
            first[group], last[group] = starts[mine].min(), ends[mine].max()
    elif codes.size:
        order = np.argsort(codes, kind="stable")
        found, begins = np.unique(codes[order], return_index=True)
        first[found] = np.minimum.reduceat(starts[order], begins)
        last[found] = np.maximum.reduceat(ends[order], begins)
    return first, last

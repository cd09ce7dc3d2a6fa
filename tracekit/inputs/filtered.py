"""Filter a trace that was read: the same words as in the commands, and ledgers that still add up."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tracekit.errors import ArgumentTypeError, Option, UsageError, sentence
from tracekit.inputs.selection import Bounds, Selection, SelectionBounds
from tracekit.model import arrow, sets
from tracekit.model.arrow import Mask
from tracekit.model.trace import Ledger, Trace, filter_with

__all__ = ["filtered", "selection_of"]


def filtered(trace: Trace, selection: Selection) -> Trace:
    """Return the trace of the rows that pass. The records of the others are counted as filtered in the ledgers.

    A record counts as filtered when none of its rows is left; of a trace without the columns `source` and `event_id`
    each row counts as a record. Raises: UsageError where the trace lacks a column that a filter looks at.
    """
    if not selection:
        return trace
    there = set(trace.events.schema.names)
    if lacking := sorted(selection.columns() - there):
        raise UsageError(
            f"filter: the trace was read without the column {lacking[0]}",
            hint="read it with this column, or with selection=",
        )
    ledgers = tuple(_copied(ledger) for ledger in trace.ledgers)
    bounds = SelectionBounds(selection)
    tables = []
    for table in (trace.events, trace.totals):
        masks = []
        for batch in table.to_batches():
            bounds.take(batch)
            mask = selection.mask(batch)
            _account(batch, mask, ledgers)
            masks.append(mask)
        kept = np.concatenate(masks) if masks else np.zeros(0, np.bool_)
        tables.append(table.filter(arrow.array(kept)))
    if bounds.lacks_steps:
        text = sentence("filter: ", Option("step"), " selects steps, and this trace has none")
        raise UsageError(text, hint=sentence(Option("time", takes="A:B"), " selects by time"))
    for ledger in ledgers:
        bounds.note(ledger)
    return replace(trace, events=tables[0], totals=tables[1], ledgers=ledgers)


def _copied(ledger: Ledger) -> Ledger:
    """Return a ledger whose counts and notes can change: the trace that was filtered keeps its own."""
    made = copy(ledger)
    made.notes = {code: copy(note) for code, note in ledger.notes.items()}
    return made


def _account(batch: pa.RecordBatch, mask: Mask, ledgers: tuple[Ledger, ...]) -> None:
    """Move the records of rows that do not pass from kept to filtered, each in the ledger of its source."""
    if mask.all() or not ledgers:
        return
    names = batch.schema.names
    sources = arrow.ints(batch.column("source")) if "source" in names else np.zeros(batch.num_rows, np.int64)
    is_events = "section" not in names
    records = arrow.ints(batch.column("event_id")) if "event_id" in names else None
    in_order = sorted(ledgers, key=lambda ledger: ledger.source)
    firsts = np.array([ledger.source for ledger in in_order])
    for source in sets.unique(sources[~mask]).tolist():
        # One input may have the sources of several that were converted into it: they follow its own number.
        ledger = in_order[max(int(np.searchsorted(firsts, source, side="right")) - 1, 0)]
        mine = sources == source
        rows = int(np.count_nonzero(mine & ~mask))
        if is_events:
            ledger.events_out -= rows
        else:
            ledger.totals_out -= rows
        gone = rows
        if is_events and records is not None:
            gone = len(sets.without(records[mine & ~mask], records[mine & mask]))
        gone = min(gone, ledger.kept)
        ledger.kept -= gone
        ledger.filtered += gone


def selection_of(
    *,
    name: str = "",
    kind: str | Iterable[str] = (),
    rank: int | Iterable[int] = (),
    device: int | Iterable[int] = (),
    stream: int | Iterable[int] = (),
    step: int | str | Bounds | None = None,
    time: str | Bounds | None = None,
    min_dur: int | str = 0,
) -> Selection:
    """Return the filters that the commands take as options of these names. Raises: UsageError."""
    steps = (step, step + 1) if isinstance(step, int) else step
    return Selection(name, kind, rank, device, stream, steps, time, min_dur)  # type: ignore[arg-type]


def _filtered(trace: Trace, selection: object, words: dict[str, object]) -> Trace:
    if selection is not None and not isinstance(selection, Selection):
        raise ArgumentTypeError("Trace.filter", "selection", "Selection or None", type(selection).__name__)
    chosen = filtered(trace, selection) if selection is not None else trace
    return filtered(chosen, selection_of(**words))  # type: ignore[arg-type]


filter_with(_filtered)

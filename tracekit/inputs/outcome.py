"""The outcome of reading: inputs of which nothing could be read, and rows on which no conclusion may rest."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tracekit.errors import Option, ParseError, TracekitError, sentence
from tracekit.run import covered
from tracekit.run.covered import StreamWork
from tracekit.trace import Ledger, is_cut

RECORD = frozenset({"source", "event_id"})
"""Columns of EVENTS that say which record a row is of."""
_DAMAGED = sentence("check that the file is complete; ", Option("from", takes="NAME"), " reads it as another format")


def nothing_read(ledger: Ledger) -> TracekitError | None:
    """Return the error of an input that has records, none of which could be read."""
    bad = [code for code in ledger.dropped if not is_cut(code)]  # a cut alone is no error: what came before counts
    if ledger.kept or ledger.merged or ledger.filtered or not bad:
        return None
    reasons = [part for code in bad if code in ledger.notes for part in ("; ", ledger.notes[code].sentence())]
    return ParseError(ledger.path, "", sentence("no record of it can be read: ", *reasons[1:]), hint=_DAMAGED)


def without_impossible(events: pa.Table, work: StreamWork | None, ledgers: Sequence[Ledger]) -> pa.Table:
    """Return EVENTS in which durations that cannot be are not known; each is noted in the ledger of its input.

    Raises: TracekitError where a ledger is strict.
    """
    if work is None:
        return events
    events, found = covered.without_durations(events, work.covers())
    covered.note(found, ledgers)
    return events

"""The contents of an input: counts and sums by kind, first and last time, the ledger.

One pass. Only the times of launches and device work are kept, as many as `launches.MOST_ROWS`. A duration that cannot
be (`inputs.covered`) is in no sum and not in the last time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NotRequired, TypedDict

import numpy as np
import pyarrow as pa

from tracekit.inputs import covered
from tracekit.inputs.clocks.launches import MOST_ROWS, LaunchLook, contradictions, within
from tracekit.inputs.covered import StreamWork
from tracekit.model import arrow, schema
from tracekit.model.arrow import I64
from tracekit.model.cuts import ends_in_the_middle
from tracekit.model.trace import TIMES, Ledger, LedgerJson, Note, Run, SourceFacts, all_ledgers, incomplete

__all__ = ["StockJson", "half_stock", "incomplete_stock", "take_stock"]

_LATEST = 64
"""Rows that are kept to find the last time."""


class KindJson(TypedDict):
    """Events of one kind in JSON."""

    events: int
    dur_ns: int


class StockJson(TypedDict):
    """One input in the JSON of `inspect`: public, changed only with the version."""

    path: str
    label: str
    format: str
    events: int
    totals: int
    by_kind: dict[str, KindJson]
    first_ns: int | None
    last_ns: int | None
    origin_ns: int | None
    facts: dict[str, object]
    devices: list[str]
    ledger: LedgerJson
    archived_ledgers: NotRequired[list[LedgerJson]]


def incomplete_stock(inputs: Iterable[StockJson]) -> list[str]:
    """Return a sentence for each input that lost too many of its records, or was converted from such a one."""
    found: list[str] = []
    for entry in inputs:
        ledgers = [Ledger.from_json(each) for each in (entry["ledger"], *entry.get("archived_ledgers", ()))]
        found += incomplete(ledgers, Run(sources=[SourceFacts(entry["path"], entry["format"], facts=entry["facts"])]))
    return list(dict.fromkeys(found))


def half_stock(entry: StockJson) -> list[str]:
    """Return the sentences on an input that ends in the middle, or was made from such a file."""
    stored = [Ledger.from_json(each) for each in entry.get("archived_ledgers", ())]
    archived = all_ledgers(stored, Run(sources=[SourceFacts(entry["path"], entry["format"], facts=entry["facts"])]))
    return ends_in_the_middle([Ledger.from_json(entry["ledger"])], archived)


def _latest(rows: I64) -> I64:
    """Return those of (start, duration, number) that end last: the last of all may prove impossible."""
    if len(rows) <= _LATEST:
        return rows
    ends = rows[:, 0] + np.maximum(rows[:, 1], 0)
    return rows[np.argpartition(ends, -_LATEST)[-_LATEST:]]


def take_stock(run: Run, batches: Iterator[pa.RecordBatch], ledgers: tuple[Ledger, ...]) -> StockJson:
    """Return the entry of one input in the JSON of `inspect`.

    by_kind: kind -> events and the sum of their durations in ns, sorted by kind. first_ns and last_ns: first start and
    last end on the source's own clock, null without events.
    """
    counts: dict[str, int] = {}
    sums: dict[str, int] = {}
    first: int | None = None
    launches, work = LaunchLook(), StreamWork(MOST_ROWS)
    latest = np.empty((0, 3), np.int64)
    work.begin(run, ledgers[0].source)
    for batch in batches:
        work.take(batch)
        launches.see(batch)
        if schema.is_totals(batch) or not batch.num_rows:
            continue
        ts = arrow.ints(batch.column("ts_ns"))
        spent = np.maximum(arrow.ints(batch.column("dur_ns")), 0)  # a negative duration is no time
        kinds = arrow.encoded(batch.column("kind"))
        codes = arrow.codes(kinds)
        for code, name in enumerate(arrow.texts(kinds.dictionary)):
            mine = codes == code
            if mine.any():
                counts[name] = counts.get(name, 0) + int(mine.sum())
                sums[name] = sums.get(name, 0) + int(spent[mine].sum())
        begin = int(ts.min())
        first = begin if first is None else min(first, begin)
        latest = _latest(np.concatenate((latest, np.stack([ts, spent, arrow.ints(batch.column("event_id"))], axis=1))))
    ledger = ledgers[0]
    covers = work.covers()
    covered.note(covers, ledgers)
    # A duration that ends after later work of its stream has a wrong end (inputs/covered.py): it counts nothing.
    for each in covers:
        sums[each.kind] -= each.length_ns
    wrong = {(each.start_ns, each.length_ns, each.number) for each in covers}
    ends = [ts + (0 if (ts, dur, number) in wrong else dur) for ts, dur, number in latest.tolist()]
    last = max(ends, default=None)
    facts = run.sources[0].facts if run.sources else {}
    if TIMES in facts:
        first = last = None
    elif text := contradictions(within(launches), cut=launches.cut):
        ledger.notes["work-before-launch"] = Note("work-before-launch", text, 1)
    return {
        "path": ledger.path,
        "label": run.sources[0].label if run.sources else "",
        "format": ledger.format,
        "events": ledger.events_out,
        "totals": ledger.totals_out,
        "by_kind": {k: {"events": counts[k], "dur_ns": sums[k]} for k in sorted(counts)},
        "first_ns": first,
        "last_ns": last,
        "origin_ns": run.origin_ns,
        "facts": facts,
        "devices": sorted(set(run.devices.values())),
        "ledger": ledger.to_json(),
    }

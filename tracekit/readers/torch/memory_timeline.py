"""torch-memory-timeline: memory by category over time, `export_memory_timeline()` of torch.profiler (2.1 to 2.13).

    [[1795755208050329, 1795755208050380, ...],
     [[0, 38440, 76896, 0, 0, 0, 0, 0, 0], [0, 38440, 76896, 8192, ...], ...]]

    [[-1, 1, 32768, 0], [1795755208050328971, 2, 8192, 2], [1795755208050817317, 4, -16384, 4], ...]

A record is a moment of the first form (`.json`), or an event of the second (`.raw.json.gz`). The sizes of a moment are
those of parameters, optimizer state, inputs, temporaries, activations, gradients, autograd's own memory, and memory
whose category PyTorch does not know, behind a 0. An event has its time (ns, -1: before the profile), what happened
(1 held before, 2 allocated, 3 a new version of a tensor, 4 freed), signed bytes, and the category.

Rows are of kind memory: `bytes` of one change of one category, `category` and `current_allocated` in `args`. The last
row of a moment has the total alone, so that a peak is one of the file's own. A new version in another category is two
rows: memory that moves from one to the other. Times are Unix us or ns. The device is the one that the program named
for the export; the file does not have it.

Not supported: the picture that the same call writes into a `.html`; it has no numbers.
Sources: torch/profiler/_memory_profiler.py and profiler.py of PyTorch 2.13; exports of PyTorch 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tracekit.model import sets
from tracekit.readers.base import Confidence, Head, ReadOptions, ReadResult

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.arrow import I64
    from tracekit.model.trace import Ledger, Run
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

CATEGORIES = (
    "parameter",
    "optimizer state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd detail",
    "not known",
)
_RAW = re.compile(rb"\[\s*\[\s*-?[0-9]{1,19}\s*,\s*[1-4]\s*,\s*-?[0-9]{1,18}\s*,\s*[0-7]\s*\]\s*(?:,|\]\s*\Z)")
_MOMENTS = re.compile(rb"\[\s*\[\s*[0-9]{9,19}\s*(?:,\s*[0-9]{9,19}\s*)*(\]|,?\s*[0-9]*\Z)")
_SIZES = re.compile(rb"\s*,\s*\[\s*\[\s*0\s*(?:,\s*[0-9]{1,18}\s*){8}\]")
_BOM = b"\xef\xbb\xbf"
_VERSION = 3
_ACTIONS = {1: "preexisting", 2: "create", 3: "increment_version", 4: "destroy"}
_MOST = 1 << 60
_UNIX_NS = 10**17
"""Times of fewer ns are no Unix times of a program with PyTorch."""
PLACE = "unnamed device"


def sniff(head: Head) -> Confidence:
    """Return YES for the first events or the first moments; MAYBE for a head that has only times."""
    data = head.data.removeprefix(_BOM).lstrip()
    if _RAW.match(data):
        return Confidence.YES
    found = _MOMENTS.match(data)
    if not found:
        return Confidence.NO
    if _SIZES.match(data, found.end()):
        return Confidence.YES
    return Confidence.MAYBE if not head.complete and not found[1].startswith(b"]") else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the rows of a timeline. Raises: ParseError for anything else."""
    import orjson

    from tracekit.errors import ParseError
    from tracekit.model.trace import Run, SourceFacts

    try:
        found = orjson.loads(source.read_whole().removeprefix(_BOM))
    except orjson.JSONDecodeError as err:
        place = f"line {err.lineno}, column {err.colno}"
        raise ParseError(source.name, place, f"not read: the JSON is damaged or cut ({err.msg})") from err
    if not isinstance(found, list) or not found or not all(isinstance(each, list) for each in found):
        raise ParseError(source.name, "", "not a memory timeline of PyTorch: a list of lists is needed")
    run = Run(sources=[SourceFacts(source.name, "torch-memory-timeline", facts={"tool": "torch.profiler"})])
    moments = len(found) == 2 and bool(found[1]) and isinstance(found[1][0], list)
    made = _of_moments(found[0], found[1], ledger) if moments else _of_events(found, ledger)
    return ReadResult(run, _batches(made, options, ledger, run), True, (ledger,))


def _integers(rows: list[Any], width: int, ledger: Ledger, what: str) -> tuple[I64, I64]:
    """Return lists of `width` integers as one array, and their places; others are dropped."""
    import numpy as np
    import pyarrow as pa

    kind: Any = pa.list_(pa.int64(), width)
    places = np.arange(len(rows))
    values: Any
    try:
        values = pa.array(rows, kind)
        if values.null_count or values.values.null_count:
            raise pa.ArrowInvalid("a null")
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        good = [
            isinstance(row, list)
            and len(row) == width
            and all(isinstance(each, int) and not isinstance(each, bool) and -_MOST < each < _MOST * 8 for each in row)
            for row in rows
        ]
        ledger.drop(f"bad-{what}", good.count(False), text=f"dropped: {what}s that are not {width} integers")
        places = np.flatnonzero(good)
        values = pa.array([row for row, fine in zip(rows, good, strict=True) if fine], kind)
    table: I64 = values.values.to_numpy().astype(np.int64).reshape(-1, width)
    return table, places


class _Changes:
    """Changes of memory by category, c of them, in order. total: after each one, -1 where it is not whole."""

    def __init__(self, times: I64, sizes: I64, categories: I64, totals: I64, actions: I64) -> None:
        self.times, self.sizes, self.categories = times, sizes, categories
        self.totals, self.actions = totals, actions


def _of_moments(times: list[Any], sizes: list[Any], ledger: Ledger) -> _Changes:
    """Return the changes from each moment to the next one."""
    import numpy as np

    count = min(len(times), len(sizes))
    ledger.read += max(len(times), len(sizes))
    more = max(len(times), len(sizes)) - count
    ledger.drop("lengths-differ", more, text="dropped: moments without sizes, or sizes without a time")
    rows = [
        [time, *row] if isinstance(row, list) else row for time, row in zip(times[:count], sizes[:count], strict=True)
    ]
    table, _ = _integers(rows, 2 + len(CATEGORIES), ledger, "moment")
    at, held = table[:, 0] * 1000, table[:, 2:]
    bad = (held < 0).any(axis=1) | (held > _MOST >> 4).any(axis=1) | (table[:, 0] < 0)
    ledger.drop("bad-moment-size", int(bad.sum()), text="dropped: moments with a size or time below zero")
    at, held = at[~bad], held[~bad]
    change = np.diff(held, axis=0, prepend=np.zeros((1, held.shape[1]), np.int64))
    moment, category = np.nonzero(change)
    changed = sets.unique(moment)
    ledger.kept += changed.size
    ledger.ignore("moments without a change", held.shape[0] - changed.size)
    last = np.append(moment[1:] != moment[:-1], True)[: moment.size]
    totals = np.where(last, held.sum(axis=1)[moment], -1) if moment.size else moment
    actions = np.where(moment == 0, 1, 0)
    return _Changes(at[moment], change[moment, category], category, totals, actions)


def _of_events(rows: list[Any], ledger: Ledger) -> _Changes:
    """Return the changes that the events say."""
    import numpy as np

    ledger.read += len(rows)
    table, _ = _integers(rows, 4, ledger, "event")
    times, actions, sizes, categories = table.T
    bad = ~np.isin(actions, list(_ACTIONS)) | (categories < 0) | (categories >= len(CATEGORIES)) | (times < -1)
    bad |= np.abs(sizes) > _MOST >> 4
    ledger.drop("bad-event-value", int(bad.sum()), text="dropped: events with an unknown action, category or time")
    times, actions, sizes, categories = (each[~bad] for each in (times, actions, sizes, categories))
    known = times[times >= 0]
    times = np.where(times < 0, known.min() if known.size else 0, times)
    # The two halves of a new version: what its category loses, and what it, or another one, gains.
    halves = np.flatnonzero(
        (actions[:-1] == _VERSION) & (actions[1:] == _VERSION) & (sizes[:-1] == -sizes[1:]) & (times[:-1] == times[1:])
        & (sizes[:-1] < 0)
    )  # fmt: skip
    same = halves[categories[halves] == categories[halves + 1]]
    gone = np.zeros(times.size, np.bool_)
    gone[same] = gone[same + 1] = True
    ledger.ignore("new versions in the same category", int(gone.sum()))
    first = np.zeros(times.size, np.bool_)
    first[halves] = True
    totals = np.where(first, -1, np.cumsum(sizes))
    kept = ~gone & (sizes != 0)
    ledger.ignore("events of no bytes", int(np.count_nonzero(~gone & (sizes == 0))))
    ledger.kept += int(kept.sum())
    made = _Changes(*(each[kept] for each in (times, sizes, categories, totals, actions)))
    order = np.argsort(made.times, kind="stable")
    if (order[1:] < order[:-1]).any():
        ledger.note("events-out-of-order", "events were not in the order of their times: sorted")
        made = _Changes(*(each[order] for each in (made.times, made.sizes, made.categories, made.totals, made.actions)))
        made.totals = np.where(made.totals < 0, -1, np.cumsum(made.sizes))
    return made


def _batches(made: _Changes, options: ReadOptions, ledger: Ledger, run: Run) -> Iterator[pa.RecordBatch]:
    import numpy as np
    import pyarrow as pa

    from tracekit.model.schema import Kind
    from tracekit.readers.builder import BATCH_ROWS, event_batch

    count = made.times.size
    if not count:
        return
    origin = int(made.times[0])
    if origin >= _UNIX_NS:
        run.origin_ns = origin
    actions = pa.array(["change", *_ACTIONS.values()])
    for start in range(0, count, BATCH_ROWS):
        here = slice(start, start + BATCH_ROWS)
        size = made.times[here].size
        totals = made.totals[here]
        known = [f', "current_allocated": {total}' if total >= 0 else "" for total in totals.tolist()]
        args = [
            f'{{"place": "{PLACE}", "category": "{CATEGORIES[category]}"{total}}}'
            for category, total in zip(made.categories[here].tolist(), known, strict=True)
        ]
        ledger.events_out += size
        yield event_batch(
            size,
            {
                "ts_ns": made.times[here] - origin,
                "event_id": np.arange(start, start + size, dtype=np.int64),
                "name": "allocated",
                "raw_name": pa.DictionaryArray.from_arrays(made.actions[here].astype(np.int32), actions),
                "kind": str(Kind.MEMORY),
                "bytes": made.sizes[here],
                "args": args,
                "source": options.source,
            },
        )

"""Curves of the memory that is held, by place: the running total of each type, over time.

The running total is what the file gives (PyTorch's Total Allocated and Total Reserved, Paddle's current values), else
the sum of what was allocated and freed since the first row. Where the file names the memory of a row (Nsight Systems:
device, pinned, ...), each kind of memory has a total of its own. A column of the curve shows its greatest total.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tracekit.analysis.intervals import I64
from tracekit.columns import arrow
from tracekit.columns.arrays import Mask
from tracekit.columns.arrow import Chunked, pc
from tracekit.index import grouping
from tracekit.report import Curve
from tracekit.units import Unit

MOST_COLUMNS = 200
FIGURES = 8
"""The most places whose curve is drawn."""
TYPES = ("allocated", "reserved")
_RUNNING = (
    ("allocated", "Total Allocated"),
    ("reserved", "Total Reserved"),
    ("allocated", "current_allocated"),
    ("reserved", "current_reserved"),
)


def extracted(args: Chunked, pattern: str) -> Chunked:
    """Return what the group `found` of a pattern matches in each text, null for none."""
    found = pc.struct_field(pc.extract_regex(args, pattern), "found")
    return pc.if_else(pc.equal(pc.binary_length(found), 0), pa.scalar(None, pa.string()), found)


def curves(times: I64, sizes: I64, kinds: I64, places: I64, labels: list[str], args: Chunked) -> list[Curve]:
    """Return the curve of each place that has rows at more than one time.

    Arrays of shape (n,): times: ns after time 0; sizes: signed bytes; kinds: numbers in TYPES; places: numbers in
    `labels`. Raises: TracekitError where a total exceeds int64.
    """
    stated = {word: _stated(args, [key for of, key in _RUNNING if of == word]) for word in TYPES}
    encoded = arrow.encoded(extracted(args, r'"mem_type":\s*"(?P<found>[^"\\]{1,60})"').combine_chunks())
    memory, words = arrow.ints(encoded.indices, -1), [*arrow.texts(encoded.dictionary), ""]
    found = []
    for place, label in enumerate(labels):
        mine = np.flatnonzero(places == place)
        mine = mine[np.argsort(times[mine], kind="stable")]
        if not mine.size or times[mine[0]] == times[mine[-1]]:
            continue
        layers: list[tuple[str, I64, I64]] = []
        counted = []
        for kind, word in enumerate(TYPES):
            values, known = stated[word]
            of_file = mine[known[mine]]
            if of_file.size:
                layers.append((word, times[of_file], values[of_file]))
                continue
            own = mine[kinds[mine] == kind]
            for code in np.unique(memory[own]).tolist():
                rows = own[memory[own] == code]
                name = f"{word}, {words[code]}" if words[code] else word
                layers.append((name, times[rows], _running(sizes[rows])))
                counted.append(name)
        layers = [layer for layer in layers if layer[2].any()]  # a total that is 0 all along says nothing
        if not layers:
            continue
        edges = _edges(int(times[mine[0]]), int(times[mine[-1]]))
        names = [name for name, _, _ in layers]
        tops = [_tops(at, values, edges) for _, at, values in layers]
        counted = [name for name in names if name in counted]
        remark = f"counted from the first row on: {'; '.join(counted)}" if counted else ""
        found.append(Curve(f"Memory over time, {label}", Unit.BYTES, edges, names, tops, remark))
    return found


def _stated(args: Chunked, keys: list[str]) -> tuple[I64, Mask]:
    """Return the running values of the file, and which rows have one. The first key that a row has counts."""
    values, known = np.zeros(len(args), np.int64), np.zeros(len(args), np.bool_)
    for key in keys:
        texts = extracted(args, rf'"{key}":\s*"?(?P<found>\d{{1,18}})')
        new = texts.is_valid().to_numpy() & ~known
        values[new] = arrow.ints(pc.cast(texts, pa.int64()))[new]
        known |= new
    return values, known


def _running(sizes: I64) -> I64:
    grouping.sums(np.zeros(sizes.size, np.int64), 1, np.abs(sizes), "sizes")  # raises where a total exceeds int64
    total: I64 = np.cumsum(sizes)
    return total


def _edges(begin: int, end: int) -> list[int]:
    """Return the edges of the columns in whole ns; the last edge is 1 ns behind the end."""
    span = end + 1 - begin
    count = min(MOST_COLUMNS, span)
    return [begin + span * column // count for column in range(count + 1)]


def _tops(at: I64, values: I64, edges: list[int]) -> list[int | None]:
    """Return the greatest running total in each column, None before the first row. A total is held until the next."""
    bounds = np.searchsorted(at, np.array(edges, np.int64)).tolist()
    tops: list[int | None] = []
    for column, edge in enumerate(edges[:-1]):
        first, last = bounds[column], bounds[column + 1]
        held = first > 0 and not (first < last and int(at[first]) == edge)
        here = values[first - held : last]
        tops.append(int(here.max()) if here.size else None)
    return tops

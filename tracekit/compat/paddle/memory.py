"""Paddle's Memory Summary: allocations and frees by the host event in which they happened, a table for each place.

An operator has its own and those of its children; a child that is not OperatorInner has them once more under its own
name. Peaks are the largest of the running values that the recorder had written on the rows that count. A place where
memory was reserved but nothing allocated is left out, as Paddle does.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from tracekit.compat.paddle.items import group
from tracekit.compat.paddle.tree import PADDLE_FORMATS, TREE_COLUMNS, Forest, forest
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Mask, pc
from tracekit.model.arrow import Column as Texts
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.trace import text_codes
from tracekit.model.units import Unit
from tracekit.views.base import ViewOptions
from tracekit.views.tabulate import require

__all__ = ["MEMORY_COLUMNS", "memory"]

MEMORY_COLUMNS = TREE_COLUMNS | {"args", "bytes"}
_TYPES: Final = ("Allocate", "Free", "ReservedAllocate", "ReservedFree")
_TITLE: Final = "Memory Summary"


@dataclass(frozen=True, slots=True, eq=False)
class _Records:
    """Allocations, each under the name that it counts for, in the order in which Paddle adds them.

    row: in the memory rows of the trees. name: code. type: counts into _TYPES; -1: none of these.
    """

    row: I64
    name: I64
    type: I64
    size: I64


def memory(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the Memory Summary: tables `peaks` and `memory`, which has a column `place`."""
    require(index, "memory", MEMORY_COLUMNS)
    trees = forest(index, launches=True, memory=True)
    records = _records(trees)
    place, places = _places(trees)
    allocated = records.type < 2
    by_place = group(np.arange(int(allocated.sum())), place[records.row[allocated]])
    wanted = place[records.row[allocated]][by_place.first].tolist()
    if not wanted:
        return Section(
            "memory", _TITLE, notes=(*trees.notes, "no Memory Summary: it needs allocations within host events")
        )
    peaks = [_peaks(trees, records, place == code) for code in wanted]
    titles: list[Cell] = [places[code] for code in wanted]
    tables = [
        ReportTable(
            "peaks",
            "Peak memory",
            (
                Column("place", "Place", Unit.TEXT, titles),
                Column("allocated", "Peak allocated", Unit.BYTES, [peak[0] for peak in peaks]),
                Column("reserved", "Peak reserved", Unit.BYTES, [peak[1] for peak in peaks]),
            ),
        )
    ]
    rows: list[tuple[Cell, ...]] = []
    for code in wanted:
        at = place[records.row] == code
        found = [
            row for reserved in (False, True) for row in _rows(trees, records, at & (allocated != reserved), reserved)
        ]
        rows += [(places[code], *row) for row in (found[: options.top] if options.top > 0 else found)]
    tables.append(_table(rows))
    notes = list(trees.notes)
    if any(None in peak for peak in peaks):
        notes.append("peaks are Paddle's own running values, which other files do not have")
    return Section("memory", _TITLE, tuple(tables), notes=tuple(notes))


def _records(trees: Forest) -> _Records:
    hosts, memory = trees.hosts, trees.memory
    names, texts = text_codes(trees.columns.index.events.column("name"))
    size, _ = trees.columns.numbers("bytes")
    size = size[memory.rows]
    number = np.array([_TYPES.index(text) if text in _TYPES else -1 for text in texts] + [-1], np.int64)
    from_paddle = trees.columns.of_format(*PADDLE_FORMATS)[memory.rows]
    kind = np.where(from_paddle, number[names[memory.rows]], (size < 0).astype(np.int64))

    owner = memory.owner
    parents = np.append(hosts.parent, -1)
    above = parents[owner]
    is_op = np.append(hosts.is_kind("Operator"), False)
    inner = np.append(hosts.is_kind("OperatorInner"), True)
    own = np.flatnonzero((owner >= 0) & ~inner[owner] & (kind >= 0))
    to_op = np.flatnonzero((above >= 0) & is_op[above] & (kind >= 0))
    row = np.concatenate((own, to_op))
    counts_for = np.concatenate((owner[own], above[to_op]))
    # An operator adds those of its children, by start, then its own.
    order = np.lexsort((row, owner[row], np.repeat([1, 0], (own.size, to_op.size)), hosts.seen[counts_for]))
    row, counts_for = row[order], counts_for[order]
    return _Records(row, hosts.name[counts_for], kind[row], size[row])


def _extracted(trees: Forest, pattern: str) -> Texts:
    return pc.struct_field(pc.extract_regex(trees.columns.args(trees.memory.rows), pattern), 0)


def _places(trees: Forest) -> tuple[I64, list[str]]:
    """Return the place of each memory row; in files of others, that of its device."""
    found = _extracted(trees, r'"place":"(?P<place>[^"\\]*)"')
    ordinal, known = trees.columns.numbers("device")
    rows = trees.memory.rows
    of_device = [f"Place(gpu:{n})" if k else "Place(cpu)" for n, k in zip(ordinal[rows], known[rows], strict=True)]
    from_paddle = trees.columns.of_format(*PADDLE_FORMATS)[rows]
    fallback = pa.array(
        ["" if t else text for t, text in zip(from_paddle.tolist(), of_device, strict=True)], pa.string()
    )
    coded = arrow.encoded(pc.coalesce(found, fallback))
    return arrow.ints(coded.indices), arrow.texts(coded.dictionary)


def _peaks(trees: Forest, records: _Records, at: Mask) -> tuple[Cell, Cell]:
    """Return the largest running peaks on the rows that count; None where the file has none."""
    counting = np.zeros(at.size, np.bool_)
    counting[records.row] = True
    peaks: list[Cell] = []
    for key in ("peak_allocated", "peak_reserved"):
        text = _extracted(trees, rf'"{key}":(?P<n>[0-9]{{1,18}})').filter(pa.array(counting & at))
        most = pc.max(text.cast(pa.int64())).as_py()
        from_paddle = trees.columns.of_format(*PADDLE_FORMATS)[trees.memory.rows][counting & at].any()
        peaks.append(0 if most is None and from_paddle else most)
    return peaks[0], peaks[1]


def _rows(trees: Forest, records: _Records, wanted: Mask, reserved: bool) -> list[tuple[Cell, ...]]:
    """Return the rows of allocated or of reserved memory, the largest increase first."""
    name, kind, size = records.name[wanted], records.type[wanted], records.size[wanted]
    items = group(np.arange(name.size), name)
    counts, sizes = [], []
    for freed in (False, True):
        is_wanted = (kind % 2 == 1) == freed
        counts.append(np.bincount(items.codes[is_wanted], minlength=items.count).tolist())
        total = np.zeros(items.count, np.int64)
        np.add.at(total, items.codes[is_wanted], -size[is_wanted] if freed else size[is_wanted])
        sizes.append(total.tolist())
    texts = [trees.names[code] for code in name[items.first].tolist()]
    kinds = ["Reserved" if reserved else "Allocated"] * items.count
    increased = [a - f for a, f in zip(*sizes, strict=True)]
    rows = list(zip(texts, kinds, *counts, *sizes, increased, strict=True))
    return sorted(rows, key=lambda row: row[-1], reverse=True)


def _table(rows: list[tuple[Cell, ...]]) -> ReportTable:
    titles = (
        ("place", "Place", Unit.TEXT),
        ("name", "Name", Unit.TEXT),
        ("type", "Type", Unit.TEXT),
        ("allocations", "Allocation Count", Unit.COUNT),
        ("frees", "Free Count", Unit.COUNT),
        ("allocated", "Allocation Size", Unit.BYTES),
        ("freed", "Free Size", Unit.BYTES),
        ("increased", "Increased Size", Unit.BYTES),
    )
    cells = list(zip(*rows, strict=True)) or [()] * len(titles)
    columns = [Column(*title, list(values)) for title, values in zip(titles, cells, strict=True)]
    return ReportTable("memory", _TITLE, tuple(columns))

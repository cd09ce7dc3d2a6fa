"""Columns about work: FLOPs, bytes, the rates reached, the floor, and what limits; for tables by name.

The figures of a name are those of its work units (`index.work_units`). They add up, so those of several ranks do too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracekit.analysis.efficiency.formulas import DEFINED
from tracekit.index import host_tree
from tracekit.index.stated_work import STATING
from tracekit.index.trace_index import TraceIndex, join
from tracekit.index.work_units import COLUMNS, KINDS, LIMITS, WorkUnits, has_shapes, work_units
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.report import Cell, Column
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views.base import ViewColumn

__all__ = [
    "BOUND",
    "BYTES",
    "FLOOR",
    "FLOPS",
    "GBPS",
    "KNOWN",
    "NEEDED",
    "OF_BEST",
    "OF_PEAK",
    "SAVING",
    "SHOWS",
    "TFLOPS",
    "NoWork",
    "WorkSums",
    "added_up",
    "kernel_work",
    "operator_work",
    "sums_of",
    "work_columns",
]

NEEDED = COLUMNS | host_tree.COLUMNS
"""Columns of EVENTS without which work is unknown."""

FLOPS = ViewColumn("flops", "FLOPs", Unit.COUNT, "The floating-point operations, from the shapes of the operands.")
BYTES = ViewColumn("bytes", "Bytes", Unit.BYTES, "The least bytes to move: each element read once and written once.")
TFLOPS = ViewColumn(
    "tflops", "TFLOP/s", Unit.NUMBER, "The rate of matrix products, convolutions and attention, in 10^12 a second."
)
GBPS = ViewColumn("gbps", "Bytes/s", Unit.BYTES_PER_S, "The least bytes to move, over the device time.")
OF_PEAK = ViewColumn("of_peak", "Of peak", Unit.RATIO, "The floor, as a share of the device time.")
OF_BEST = ViewColumn(
    "of_best", "Of best", Unit.RATIO, "The same against the most that anyone measured on such a device."
)
BOUND = ViewColumn(
    "bound", "Bound", Unit.TEXT, "The limit of most of the time: compute, memory, in cache, or far from both."
)
FLOOR = ViewColumn("floor", "Floor", Unit.NS, "The least time at these shapes and in this precision on this device.")
SAVING = ViewColumn("could_save", "Above floor", Unit.NS, "The device time above the floor: the most to save here.")
KNOWN = ViewColumn("known", "Known work", Unit.RATIO, "The share of the device time whose work is known.")
SHOWS = (FLOPS, BYTES, TFLOPS, GBPS, OF_PEAK, OF_BEST, BOUND, FLOOR, SAVING)
"""The columns, in their order; the limits are those of `Limit`."""

_PRIORITIES = {"flops": 8, "bytes": 8, "tflops": 6, "gbps": 7, "of_peak": 4, "of_best": 7, "bound": 5, "floor": 6,
               "could_save": 5}  # fmt: skip
_MOST = float(1 << 62)
_COUNTED, _KNOWN_NS, _FLOPS, _BYTES, _MOVED_NS, _DEFINED, _DEFINED_NS, _FLOOR_NS, _BEST_NS, _UNITS = range(10)
_FLOOR, _NEAR, _NEAR_BEST, _SAVING = range(4)


@dataclass(frozen=True, slots=True, eq=False)
class WorkSums:
    """Sums over the work units of g names. whole: shape (g, 10); parts: shape (g, 4), ps; limits: ns by limit.

    All are whole numbers, so that the sums of several inputs are those of all of them.
    """

    names: list[Cell]
    whole: I64
    parts: I64
    limits: I64

    def __len__(self) -> int:
        return len(self.names)

    @property
    def known_ns(self) -> list[int]:
        """The device ns whose work is known."""
        known: list[int] = self.whole[:, _KNOWN_NS].tolist()
        return known


def sums_of(units: WorkUnits, unit: I64, code: I64, names: list[Cell]) -> WorkSums:
    """Return the sums of pairs of a unit and the code of its name: an operator, a kernel, a device, a phase, a module.

    A unit counts once for each of its pairs.
    """
    count = len(names)
    groups = units.groups
    whole, parts = np.zeros((count, 10), np.int64), np.zeros((count, 4), np.int64)
    limits = np.zeros((count, len(LIMITS)), np.int64)
    group = units.group[unit]
    ns, known = units.ns[unit], units.known[unit]
    computes = np.array([each.work.family in DEFINED for each in groups], np.bool_)[group] & known
    moved = np.array([each.work.bytes is not None for each in groups], np.bool_)[group]
    counted = np.array([each.work.flops is not None for each in groups], np.bool_)[group] & known
    floor, quick = units.floor_ns[unit], units.quicker[unit]
    has_floor = ~np.isnan(floor)
    near = has_floor & ~quick
    best = np.array([(each.reach.best_ns or np.nan) / each.calls for each in groups], np.float64)[group]
    has_best = near & ~np.isnan(best)
    floor_ps = np.rint(np.where(has_floor, floor, 0.0) * 1_000).astype(np.int64)
    best_ps = np.rint(np.where(has_best, best, 0.0) * 1_000).astype(np.int64)
    for place, values in (
        (_UNITS, known.astype(np.int64)),
        (_COUNTED, counted.astype(np.int64)),
        (_KNOWN_NS, np.where(known, ns, 0)),
        (_FLOPS, units.flops[unit]),
        (_BYTES, units.nbytes[unit]),
        (_MOVED_NS, np.where(moved, ns, 0)),
        (_DEFINED, np.where(computes, units.flops[unit], 0)),
        (_DEFINED_NS, np.where(computes, ns, 0)),
        (_FLOOR_NS, np.where(near, ns, 0)),
        (_BEST_NS, np.where(has_best, ns, 0)),
    ):
        np.add.at(whole[:, place], code, values)
    for place, numbers in (
        (_FLOOR, floor_ps),
        (_NEAR, np.where(near, floor_ps, 0)),
        (_NEAR_BEST, best_ps),
        (_SAVING, np.where(has_floor, np.maximum(ns * 1_000 - floor_ps, 0), 0)),
    ):
        np.add.at(parts[:, place], code, numbers)
    np.add.at(limits, (code, units.limit[unit]), ns)
    # Sums that int64 does not hold are unknown: only sizes that no device has make them.
    for values, places in ((units.flops[unit], (_COUNTED, _DEFINED_NS)), (units.nbytes[unit], (_MOVED_NS,))):
        too_large = np.bincount(code, values.astype(np.float64), count) > _MOST
        for place in places:
            whole[too_large, place] = 0
    return WorkSums(names, whole, parts, limits)


def added_up(sums: Iterable[WorkSums]) -> WorkSums | None:
    """Return the sums of several inputs by name, None for none."""
    every = list(sums)
    if not every:
        return None
    number: dict[Cell, int] = {}
    at = [np.array([number.setdefault(name, len(number)) for name in each.names], np.int64) for each in every]
    whole, parts = np.zeros((len(number), 10), np.int64), np.zeros((len(number), 4), np.int64)
    limits = np.zeros((len(number), len(LIMITS)), np.int64)
    for places, each in zip(at, every, strict=True):
        np.add.at(whole, places, each.whole)
        np.add.at(parts, places, each.parts)
        np.add.at(limits, places, each.limits)
    return WorkSums(list(number), whole, parts, limits)


@join
def operator_work(index: TraceIndex, kinds: frozenset[Kind]) -> WorkSums | None:
    """Return the work by name of operators: that of a nested one counts for those around it too, as totals do."""
    units = work_units(index)
    if units is None:
        return None
    tree = units.host
    wanted = index.kind_mask(kinds)[tree.rows]
    names, texts = index.texts("name")
    code = np.where(wanted, names[tree.rows].astype(np.int64), -1)
    unit = np.flatnonzero(units.place >= 0)
    place = units.place[unit]
    pairs: list[I64] = []
    codes: list[I64] = []
    while unit.size:
        here = np.flatnonzero(code[place] >= 0)
        pairs.append(unit[here])
        codes.append(code[place[here]])
        above = tree.tree.parent[place]
        unit, place = unit[above >= 0], above[above >= 0]
    if not pairs:
        return None
    return _by_name(units, np.concatenate(pairs), np.concatenate(codes), texts)


@join
def kernel_work(index: TraceIndex) -> WorkSums | None:
    """Return the work by name of the kernels that took most of the time of their operators."""
    units = work_units(index)
    if units is None:
        return None
    names, texts = index.texts("name")
    at = np.flatnonzero(index.kind_mask({Kind.KERNEL})[units.main] & (names[units.main] >= 0))
    return _by_name(units, at, names[units.main[at]].astype(np.int64), texts)


class NoWork:
    """The work by name of a trace that shows none. Whose work it is needs all events, so only "none" adds up."""

    columns: ClassVar[frozenset[str]] = frozenset({"kind", "name", "raw_name", "args"})
    args_of: ClassVar[frozenset[Kind]] = KINDS

    def fits(self, formats: Collection[str], /) -> bool:
        """Return whether no device event of these formats states its own work."""
        return not STATING & set(formats)

    def take(self, batch: pa.RecordBatch) -> bool:
        """Return whether no row of a batch has shapes."""
        return not has_shapes(batch)

    def give(self, index: TraceIndex) -> None:
        """Put into the index that no work is known."""
        index.give(kernel_work, None)


def _by_name(units: WorkUnits, unit: I64, code: I64, texts: Sequence[str]) -> WorkSums:
    used, place = np.unique(code, return_inverse=True)
    return sums_of(units, unit, place.reshape(-1), [texts[each] for each in used.tolist()])


def work_columns(
    sums: WorkSums | None,
    names: Collection[Cell],
    stated: Sequence[Cell] | None = None,
    *,
    priorities: Mapping[str, int] = MappingProxyType({}),
) -> list[Column]:
    """Return the columns for rows of these names; none where no work is known.

    stated: FLOPs that the file states. priorities: of columns that matter more, or less, than beside other columns.
    """
    cells = _cells(sums) if sums is not None else {}
    at = {name: row for row, name in enumerate(sums.names)} if sums is not None else {}
    rows = [at.get(name, -1) for name in names]
    found = {key: [values[row] if row >= 0 else None for row in rows] for key, values in cells.items()}
    if stated is not None:
        derived = found.get("flops", [None] * len(rows))
        found["flops"] = [own if own is not None else other for own, other in zip(stated, derived, strict=True)]
    order = {**_PRIORITIES, **priorities}
    columns = [spec.column(found[spec.key], order[spec.key]) for spec in SHOWS if spec.key in found]
    return [column for column in columns if any(cell is not None for cell in column.values)]


def _cells(sums: WorkSums) -> dict[str, list[Cell]]:
    whole, parts, limits = sums.whole.tolist(), sums.parts.tolist(), sums.limits
    out: dict[str, list[Cell]] = {spec.key: [] for spec in SHOWS}
    top = np.argmax(limits, axis=1).tolist() if len(sums) else []
    for line, part, limit in zip(whole, parts, top, strict=True):
        known = line[_UNITS] > 0
        floored = part[_FLOOR] > 0
        out["flops"].append(line[_FLOPS] if line[_COUNTED] else None)
        out["bytes"].append(line[_BYTES] if line[_MOVED_NS] else None)
        out["tflops"].append(_digits(line[_DEFINED] / line[_DEFINED_NS] / 1e3) if line[_DEFINED_NS] else None)
        out["gbps"].append(line[_BYTES] / line[_MOVED_NS] * 1e9 if line[_MOVED_NS] else None)
        out["of_peak"].append(part[_NEAR] / 1e3 / line[_FLOOR_NS] if line[_FLOOR_NS] else None)
        out["of_best"].append(part[_NEAR_BEST] / 1e3 / line[_BEST_NS] if line[_BEST_NS] else None)
        out["bound"].append(LIMITS[limit].value if known else None)
        out["floor"].append(round(part[_FLOOR] / 1e3) if floored else None)
        out["could_save"].append(round(part[_SAVING] / 1e3) if floored else None)
    return out


def _digits(rate: float) -> float:
    """Return a rate with the digits that a reader can use; FLOPs and time beside it are exact."""
    return float(f"{rate:.6g}")

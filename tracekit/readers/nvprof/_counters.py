"""Metrics and events in nvprof's databases: the totals that `nvprof --csv` prints, by kernel and counter.

A row of METRIC or EVENT is the value of one counter in one call of a kernel, which has the same correlation id.
Counters have a number instead of a name, and the bytes of a metric mean what its kind says (CUpti_MetricValueKind):
both are libcupti's (`_cupti_counters.json`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
import orjson
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import F64, I64, Mask
from tracekit.readers.builder import RowBuilder
from tracekit.readers.sqlite.cupti import SqlContext, integers
from tracekit.readers.sqlite.database import Block, CellType
from tracekit.schema import Kind

METRIC, EVENT = "CUPTI_ACTIVITY_KIND_METRIC", "CUPTI_ACTIVITY_KIND_EVENT"
_UNITS = {"percent": "%", "throughput": "B/s", "level": "level"}
_LEVELS = ("Idle", "Low", "Low", "Low", "Mid", "Mid", "Mid", "High", "High", "High", "Max")
"""Words that nvprof prints for utilization levels from 0 to 10."""
_NO_NAME = "metrics or events that libcupti 11.8 does not know by their numbers: without name and value"
NameOf = Callable[[int], tuple[str | None, str | None]]


@dataclass(frozen=True, slots=True)
class Counter:
    """A metric or an event. kind: of its values: double, uint64, int64, percent, throughput or level; "" if unknown."""

    name: str
    kind: str
    description: str = ""


@lru_cache(maxsize=1)
def _known() -> tuple[dict[int, Counter], dict[int, Counter]]:
    """Return metrics and events by id."""
    data = json.loads(files("tracekit.readers.nvprof").joinpath("_cupti_counters.json").read_text(encoding="utf-8"))
    metrics = {number: Counter(name, kind, description) for number, name, kind, description in data["metrics"]}
    return metrics, {number: Counter(name, "uint64") for number, name in data["events"]}


@dataclass(slots=True)
class Kernels:
    """The launches of kernels: correlation id, sorted, with the number of the kernel's name and its device."""

    correlation: I64
    name: I64
    device: I64

    def find(self, correlation: I64) -> tuple[I64, I64]:
        """Return the number of the name and the device of calls, -1 for a call that is not there."""
        if not len(self.correlation):
            none = np.full(len(correlation), -1, np.int64)
            return none, none
        place = np.minimum(np.searchsorted(self.correlation, correlation), len(self.correlation) - 1)
        found = self.correlation[place] == correlation
        return np.where(found, self.name[place], -1), np.where(found, self.device[place], -1)


def kernels_of(ctx: SqlContext, tables: Sequence[str]) -> Kernels:
    """Return the launches of kernels in these tables."""
    parts = [
        [block.integers(name, -1) for name in ("correlationId", "name", "deviceId")]
        for table in tables
        if {"correlationId", "name", "deviceId"} <= set(ctx.db.tables[table])
        for block in ctx.db.blocks(table, integers("correlationId", "name", "deviceId"))
    ]
    correlation, name, device = (
        np.concatenate([part[i] for part in parts]) if parts else np.zeros(0, np.int64) for i in range(3)
    )
    order = np.argsort(correlation, kind="stable")
    return Kernels(correlation[order], name[order], device[order])


def totals(ctx: SqlContext, kernels: Kernels, name_of: NameOf) -> Iterator[pa.RecordBatch]:
    """Yield the totals of both tables. name_of: returns the readable and the other name of a text's number."""
    rows = RowBuilder("totals")
    for table, known, section in ((METRIC, _known()[0], "metrics"), (EVENT, _known()[1], "events")):
        if {"id", "value", "correlationId"} <= set(ctx.db.tables.get(table, ())):
            _add(ctx, table, known, section, kernels, name_of, rows)
    if len(rows):
        ctx.ledger.totals_out += len(rows)
        yield rows.take()


def _add(
    ctx: SqlContext,
    table: str,
    known: Mapping[int, Counter],
    section: str,
    kernels: Kernels,
    name_of: NameOf,
    rows: RowBuilder,
) -> None:
    """Add a total for each device, kernel and counter of a table, and count its rows."""
    ledger = ctx.ledger
    wanted = integers("id", "correlationId") | {"value": CellType.HEX if table == METRIC else CellType.INTEGER}
    parts: list[tuple[I64, I64 | F64]] = []
    for block in ctx.db.blocks(table, wanted):
        ledger.read += block.count
        ids = block.integers("id", -1)
        values, good = _values(block, ids, known)
        name, device = kernels.find(block.integers("correlationId", -1))
        unnamed = ~np.isin(ids, list(known))
        if unnamed.any():
            ledger.note("counters-unknown", _NO_NAME, int(unnamed.sum()), where=table)
        bad = ~good & ~unnamed
        if bad.any():
            ledger.drop("bad-value", int(bad.sum()), where=table, text="dropped: a counter without a value")
        parts.append((np.column_stack((device, name, ids))[~bad], values[~bad]))
    ctx.base += ctx.db.count(table)
    if not parts:
        return
    keys, values = np.concatenate([key for key, _ in parts]), np.concatenate([value for _, value in parts])
    groups, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    place = place.reshape(-1)
    calls = np.bincount(place, minlength=len(groups))
    lows, highs = values[first].copy(), values[first].copy()
    np.minimum.at(lows, place, values)
    np.maximum.at(highs, place, values)
    sums = np.zeros(len(groups), values.dtype)  # of events: exact
    np.add.at(sums, place, values)
    for at in np.argsort(first, kind="stable").tolist():
        device, name, number = groups[at].tolist()
        counter = known.get(number, Counter(f"{section[:-1]} {number}", ""))
        args: dict[str, object] = {section[:-1]: counter.name}
        args |= {"description": counter.description} if counter.description else {}
        row: dict[str, object] = {"section": section, "kind": str(Kind.KERNEL), "calls": int(calls[at])}
        if counter.kind:
            average = float(sums[at] / calls[at])
            row |= {"value_min": float(lows[at]), "value_max": float(highs[at]), "value_avg": average}
            row["unit"] = _UNITS.get(counter.kind)
            if counter.kind == "level":
                level = min(max(round(average), 0), len(_LEVELS) - 1)
                row["value_text"] = f"{_LEVELS[level]} ({level})"
            if section == "events":
                args["total"] = int(sums[at])
        row["name"], row["raw_name"] = name_of(name)
        row["device"] = device if 0 <= device < 1 << 31 else None
        order = ctx.ledger.totals_out + len(rows)
        rows.add(**row, source=ctx.options.source, run=0, order=order, args=orjson.dumps(args).decode())
    ledger.kept += len(groups)
    ledger.merged += len(keys) - len(groups)


def _values(block: Block, ids: I64, known: Mapping[int, Counter]) -> tuple[I64 | F64, Mask]:
    """Return the values of a block's rows (of events int64), and which rows have one; 0 where they have none."""
    if block.table == EVENT:
        return block.integers("value"), block.valid("value")
    texts = arrow.optional_texts(block.columns["value"])
    raw = np.frombuffer(b"".join(bytes.fromhex(t) if t and len(t) == 16 else bytes(8) for t in texts), "<u8")
    good = np.array([t is not None and len(t) == 16 for t in texts], np.bool_)
    values = np.zeros(block.count)
    for kind in sorted({counter.kind for counter in known.values()}):
        mine = np.isin(ids, [number for number, counter in known.items() if counter.kind == kind])
        bits = raw[mine]
        if kind in ("double", "percent"):
            values[mine] = bits.view(np.float64)
        elif kind == "level":
            values[mine] = bits & 0xFFFFFFFF  # an enum of 32 bits
        else:
            values[mine] = bits.view(np.int64) if kind == "int64" else bits
    finite = np.isfinite(values)
    return np.where(finite, values, 0.0), good & finite

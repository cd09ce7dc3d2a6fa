"""Columns of texts as columns of EVENTS: numbers, agents, what goes into args; and sums of counters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import orjson
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import F64
from tracekit.columns.arrow import Column, pc
from tracekit.readers.builder import RowBuilder
from tracekit.schema import Kind

_INTEGER = r"^[0-9]{1,18}$"
_AGENT = r"^(?:Agent |GPU |CPU )?([0-9]{1,9})$"
WHOLE = re.compile(r"[0-9]{1,18}")


def number(text: str) -> float:
    """Return a text as a number, NaN for another text."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def whole(column: Column | None) -> Column | None:
    """Return a column of texts as integers, null where a text is none; None for a missing column."""
    return None if column is None else integers(column)


def integers(column: Column) -> Column:
    """Return a column of texts as integers, null where a text is none."""
    good = pc.match_substring_regex(column, pattern=_INTEGER)
    return pc.if_else(good, column, None).cast(pa.int64())


def small(column: Column | None) -> Column | None:
    """Return a column of texts as int32, null beyond that."""
    return None if column is None else _int32(column)


def _int32(column: Column) -> Column:
    values = integers(column)
    return pc.if_else(pc.less(values, 1 << 31), values, None).cast(pa.int32())


def agent(column: Column | None) -> Column | None:
    """Return the numbers of agents: `4` or `Agent 4`."""
    return None if column is None else _agent(column)


def _agent(column: Column) -> Column:
    return _int32(pc.replace_substring_regex(column, pattern=_AGENT, replacement=r"\1"))


def args(cells: dict[str, Column], keys: list[str]) -> Column | None:
    """Return a JSON object of these cells for each row, without cells that are empty or 0."""
    parts = []
    for key in keys:
        if (column := cells.get(key)) is None:
            continue
        encoded = arrow.encoded(column)
        members = [_member(key, text) for text in arrow.texts(encoded.dictionary)]
        if any(members):
            parts.append(arrow.take(arrow.array(members, pa.string()), arrow.ints(encoded.indices)))
    if not parts:
        return None
    joined = arrow.joined(parts, ",")
    return pc.if_else(pc.equal(joined, ""), None, pc.binary_join_element_wise("{", joined, "}", ""))


def _member(key: str, text: str) -> str | None:
    if text in ("", "0"):
        return None
    return f'"{key}":{int(text) if WHOLE.fullmatch(text) else orjson.dumps(text).decode()}'


@dataclass(slots=True)
class _Sum:
    calls: int
    low: float
    high: float
    total: float


@dataclass(slots=True)
class Counters:
    """The counters of one input: `add` takes values, `rows` returns what they come to."""

    _sums: dict[tuple[int | None, str, str], _Sum] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, counter: Column | str, kernel: Column, device: Column | None, values: F64) -> int:
        """Take the values of launches; return how many of them are no numbers, which do not count.

        counter: name for each value, or one for all. kernel: names. device: numbers, None where none is known.
        """
        count = len(values)
        counters = arrow.array([counter], pa.string()) if isinstance(counter, str) else counter.cast(pa.string())
        if isinstance(counter, str):
            counters = arrow.take(counters, np.zeros(count, np.int64))
        table = pa.table(
            {
                "device": arrow.nulls(count, pa.int32()) if device is None else device.cast(pa.int32()),
                "counter": counters,
                "kernel": kernel.cast(pa.string()),
                "value": arrow.array(values),
            }
        ).filter(arrow.array(np.isfinite(values)))
        groups = table.group_by(["device", "counter", "kernel"], use_threads=False)
        for row in groups.aggregate(
            [("value", "count"), ("value", "min"), ("value", "max"), ("value", "sum")]
        ).to_pylist():
            key = row["device"], row["counter"] or "", row["kernel"] or ""
            calls, low, high, total = (row[f"value_{kind}"] for kind in ("count", "min", "max", "sum"))
            if (one := self._sums.get(key)) is None:
                self._sums[key] = _Sum(calls, low, high, total)
                continue
            one.calls, one.total = one.calls + calls, one.total + total
            one.low, one.high = min(one.low, low), max(one.high, high)
        return count - table.num_rows

    def rows(self, builder: RowBuilder, source: int) -> int:
        """Add a row of TOTALS for each device, kernel and counter; return the number of values in all."""
        for (device, counter, kernel), one in self._sums.items():
            builder.add(
                source=source,
                run=0,
                section="metrics",
                order=len(builder),
                name=kernel,
                kind=str(Kind.KERNEL),
                calls=one.calls,
                value_min=one.low,
                value_max=one.high,
                value_avg=one.total / one.calls,
                device=device,
                args=orjson.dumps({"metric": counter, "total": one.total}).decode(),
            )
        return sum(one.calls for one in self._sums.values())

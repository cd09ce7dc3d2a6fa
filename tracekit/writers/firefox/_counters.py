"""Counters: a viewer adds the differences of their values up, from 0 before the first one."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import F64, I64
from tracekit.columns.arrow import Column, pc
from tracekit.writers.tracks.batch import COUNTER, Batch
from tracekit.writers.tracks.counters import CounterNumbers
from tracekit.writers.tracks.digits import Millis, fixed_rows
from tracekit.writers.tracks.lanes import Lanes
from tracekit.writers.tracks.spool import Spool

PARTS = {"time": 10, "count": 11}
"""The columns of a counter, and their parts of the spool."""


_LARGEST = np.finfo(np.float64).max


class Counters:
    """Writes the values of counters to a spool, by process and name."""

    def __init__(self, spool: Spool, lanes: Lanes) -> None:
        self._names = CounterNumbers(lanes)
        self.known = self._names.known
        """Process and name -> number of the counter."""
        self.counts: list[int] = []
        self.first: list[int] = []
        """Number of values, and time of the first one in ns, of each counter."""
        self.with_more = 0
        """Values with args, which a counter cannot hold."""
        self._spool = spool
        self._last = np.zeros(0, np.float64)

    def add(self, batch: Batch) -> int:
        """Write the values of a batch and return how many they are."""
        rows = np.flatnonzero(batch.phase == COUNTER)
        if not len(rows):
            return 0
        number = self._numbers(batch, rows)
        order = np.argsort(number, kind="stable")
        rows, number = rows[order], number[order]
        self.with_more += int(np.count_nonzero(arrow.valid(batch.args)[rows]))
        values = batch.value[rows]
        begins = np.ones(len(rows), np.bool_)
        np.not_equal(number[1:], number[:-1], out=begins[1:])
        before: F64 = np.empty(len(rows), np.float64)
        before[1:] = values[:-1]
        before[begins] = self._last[number[begins]]
        last = np.append(begins[1:], True)
        self._last[number[last]] = values[last]
        self._spool.add(PARTS["time"], number, fixed_rows([(len(rows), [Millis(batch.ts[rows]), b","])]))
        with np.errstate(over="ignore"):
            steps = np.clip(values - before, -_LARGEST, _LARGEST)
        self._spool.add(PARTS["count"], number, _number_texts(steps))
        for at, count in zip(*(x.tolist() for x in np.unique(number, return_counts=True)), strict=True):
            self.counts[at] += count
        return len(rows)

    def _numbers(self, batch: Batch, rows: I64) -> I64:
        number = self._names.of(batch, rows)
        distinct, first = np.unique(number, return_index=True)
        for at, row in zip(distinct.tolist(), rows[first].tolist(), strict=True):
            if at == len(self.counts):
                self.counts.append(0)
                self.first.append(int(batch.ts[row]))
        self._last = np.concatenate((self._last, np.zeros(len(self.counts) - len(self._last))))
        return number


def _number_texts(values: F64) -> Column:
    """Return numbers as JSON with a comma: integers without a point, others so that the same double is read back."""
    whole = np.abs(values) < 1 << 53
    whole[whole] = values[whole] == np.trunc(values[whole])
    if whole.all():
        return fixed_rows([(len(values), [values.astype(np.int64), b","])])
    texts = pc.cast(arrow.array(values), pa.string())
    return pc.binary_join_element_wise(texts, ",", "")


def display(name: str) -> dict[str, object]:
    """Return how a viewer draws a counter: the sum of its differences as a line, with the value in the tooltip."""
    value = {"type": "value", "source": "accumulated", "format": {"unit": "number"}, "label": name}
    return {
        "graphType": "line-accumulated",
        "unit": "",
        "color": "grey",
        "markerSchemaLocation": None,
        "sortWeight": 50,
        "label": name,
        "tooltipRows": [value],
    }


def head(name: str, pid: int, thread: int) -> str:
    """Return the begin of a counter's object: up to its samples."""
    facts = {
        "name": name,
        "category": "counter",
        "description": name,
        "pid": str(pid),
        "mainThreadIndex": thread,
        "display": display(name),
    }
    return json.dumps(facts)[:-1]

"""Rows of EVENTS as the tests of viewers see them: their kind, their lane, and whether a file can hold them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit.inputs.order import in_order
from tracekit.model.schema import API_CALLS, DEVICE_WORK
from tracekit.readers.builder import event_batch


def rows(count: int, **columns: Any) -> pa.RecordBatch:
    return event_batch(count, {"event_id": np.arange(count), "source": 0, "kind": "kernel", **columns})


def on_device(row: dict[str, Any]) -> bool:
    device_side = row["device"] is not None or row["stream"] is not None or row["kind"] in DEVICE_WORK
    return device_side and row["kind"] not in API_CALLS


def is_counter(row: dict[str, Any]) -> bool:
    return row["kind"] == "counter" and row["value"] is not None


def lane_of(row: dict[str, Any]) -> tuple[Any, ...]:
    side = on_device(row)
    place = (row["device"], row["context"], row["stream"], None) if side else (None, None, None, row["tid"])
    return (side, row["source"], row["rank"], row["pid"], *place)


def is_writable(row: dict[str, Any], first: int) -> bool:
    if row["ts_ns"] - first + max(row["dur_ns"] or 0, 0) >= 1 << 62:
        return False
    return not (is_counter(row) and not math.isfinite(float(row["value"])))


def in_time_order(table: pa.Table) -> list[pa.RecordBatch]:
    return list(in_order(iter(table.to_batches())))

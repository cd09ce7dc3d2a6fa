"""What the tests of the trace-event readers share: the plain reading of events with json and decimals."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from support import sure_of

from tracekit.api import inspect
from tracekit.model.trace import Trace
from tracekit.readers.head import Head

Event = dict[str, Any]


def plain(path: Path) -> tuple[list[Event], dict[str, Any]]:
    """The events of a well-formed file and what stands beside them; numbers with a point are decimals."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    found = json.loads(data.decode("utf-8-sig"), parse_float=Decimal)
    if isinstance(found, list):
        return found, {}
    return found.pop("traceEvents"), found


def ns(value: object) -> int:
    """µs to ns, half to even."""
    return int((Decimal(str(value)) * 1000).to_integral_value())


def sums_by_category(events: Iterable[Event]) -> dict[str, tuple[int, int]]:
    """Count and summed ns of the X events of each category."""
    out: dict[str, tuple[int, int]] = {}
    for event in events:
        if event.get("ph") == "X":
            count, total = out.get(event.get("cat", ""), (0, 0))
            out[event.get("cat", "")] = count + 1, total + ns(event.get("dur", 0))
    return out


def args_of(row: Event) -> dict[str, Any]:
    """The members of a row's args."""
    return json.loads(row["args"], parse_float=Decimal) if row["args"] else {}


def sure_of_text(data: bytes) -> list[str]:
    return sure_of(Head("unknown", data))


def ledger_adds_up(path: Path, reader: str) -> dict[str, Any]:
    found: dict[str, Any] = inspect(path, format=reader).inputs[0]["ledger"]
    parts = found["kept"] + found["merged"] + found["facts"] + found["filtered"]
    assert found["read"] == parts + sum(found["ignored"].values()) + sum(found["dropped"].values())
    return found


def rows(trace: Trace) -> list[Event]:
    return trace.events.to_pylist()
